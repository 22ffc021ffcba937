//! `getifaddrs` on a host of a live fabric: the loopback interface, and `ib0` with the host's own address.
//!
//! Programs look there for an address to be reached at, and leave loopback interfaces out (libfabric's verbs provider, NCCL, MPI libraries); the machine's other
//! interfaces are not the host's. Owns nothing: a list is one piece of the C library's memory, as its own lists are, so that its `freeifaddrs`, which is `free`, ends it.

use crate::{address, answer, real};
use std::ffi::{CStr, c_char, c_int};
use std::mem::size_of;
use std::net::Ipv4Addr;

/// The interface's name: what IP over InfiniBand's first one is called.
const NAME: &CStr = c"ib0";
/// The hosts of one fabric.
const NETMASK: Ipv4Addr = Ipv4Addr::new(255, 255, 0, 0);
/// Bytes of an interface's name with its NUL (IFNAMSIZ).
const NAME_BYTES: usize = 16;
const FLAGS: c_int = libc::IFF_UP | libc::IFF_BROADCAST | libc::IFF_RUNNING | libc::IFF_MULTICAST;

/// An entry of a list, with what it points to.
#[repr(C)]
struct Entry {
    head: libc::ifaddrs,
    name: [c_char; NAME_BYTES],
    address: libc::sockaddr_storage,
    netmask: libc::sockaddr_storage,
    broadcast: libc::sockaddr_storage,
}

/// What an entry says. Lists are read while nothing else has them.
struct Line {
    name: [c_char; NAME_BYTES],
    flags: u32,
    address: libc::sockaddr_storage,
    netmask: Option<libc::sockaddr_storage>,
    broadcast: Option<libc::sockaddr_storage>,
}

fn named(name: &CStr) -> [c_char; NAME_BYTES] {
    let mut bytes = [0; NAME_BYTES];
    let kept = name.to_bytes().iter().take(NAME_BYTES - 1);
    for (to, from) in bytes.iter_mut().zip(kept) {
        *to = from.cast_signed();
    }
    bytes
}

fn v4(address: Ipv4Addr) -> libc::sockaddr_storage {
    // SAFETY: zeros are an address of no family.
    let mut storage: libc::sockaddr_storage = unsafe { std::mem::zeroed() };
    let v4 = libc::sockaddr_in {
        sin_family: libc::AF_INET as _,
        sin_port: 0,
        sin_addr: libc::in_addr {
            s_addr: u32::from(address).to_be(),
        },
        sin_zero: [0; 8],
    };
    // SAFETY: any address fits into the storage.
    unsafe { (&raw mut storage).cast::<libc::sockaddr_in>().write(v4) };
    storage
}

/// A copy of an address of IP; None for other families and where there is none.
///
/// # Safety
/// NULL, or an address that is as long as its family says.
unsafe fn copied(address: *const libc::sockaddr) -> Option<libc::sockaddr_storage> {
    if address.is_null() {
        return None;
    }
    // SAFETY: the caller's promise.
    let family = c_int::from(unsafe { (*address).sa_family });
    let length = match family {
        libc::AF_INET => size_of::<libc::sockaddr_in>(),
        libc::AF_INET6 => size_of::<libc::sockaddr_in6>(),
        _ => return None,
    };
    // SAFETY: zeros are an address of no family.
    let mut storage: libc::sockaddr_storage = unsafe { std::mem::zeroed() };
    // SAFETY: any address fits into the storage.
    unsafe {
        (&raw mut storage)
            .cast::<u8>()
            .copy_from_nonoverlapping(address.cast(), length);
    }
    Some(storage)
}

/// The addresses of loopback interfaces in a list of the C library's.
///
/// # Safety
/// Such a list, or NULL.
unsafe fn loopback(list: *const libc::ifaddrs) -> Vec<Line> {
    let mut lines = Vec::new();
    let mut next = list;
    while !next.is_null() {
        // SAFETY: an entry of the list, and a name that ends in NUL.
        let (entry, name) = unsafe { (&*next, CStr::from_ptr((*next).ifa_name)) };
        next = entry.ifa_next;
        // SAFETY: the entry's own.
        let address = unsafe { copied(entry.ifa_addr) };
        if let Some(address) = address.filter(|_| entry.ifa_flags & libc::IFF_LOOPBACK as u32 != 0)
        {
            lines.push(Line {
                name: named(name),
                flags: entry.ifa_flags,
                address,
                // SAFETY: the entry's own.
                netmask: unsafe { copied(entry.ifa_netmask) },
                broadcast: None,
            });
        }
    }
    lines
}

/// One piece of memory with all lines in it; ENOMEM.
fn list_of(lines: &[Line]) -> Result<*mut libc::ifaddrs, c_int> {
    // SAFETY: a length of at least one entry's, for there is always the host's own.
    let first = unsafe { libc::calloc(lines.len(), size_of::<Entry>()) }.cast::<Entry>();
    if first.is_null() {
        return Err(libc::ENOMEM);
    }
    for (place, line) in lines.iter().enumerate() {
        let is_last = place + 1 == lines.len();
        // SAFETY: within the memory, which nobody else knows; addresses of its parts do not read them.
        unsafe {
            let entry = first.add(place);
            (*entry).name = line.name;
            (*entry).address = line.address;
            (*entry).head.ifa_name = (&raw mut (*entry).name).cast();
            (*entry).head.ifa_flags = line.flags;
            (*entry).head.ifa_addr = (&raw mut (*entry).address).cast();
            if let Some(netmask) = line.netmask {
                (*entry).netmask = netmask;
                (*entry).head.ifa_netmask = (&raw mut (*entry).netmask).cast();
            }
            if let Some(broadcast) = line.broadcast {
                (*entry).broadcast = broadcast;
                (*entry).head.ifa_ifu = (&raw mut (*entry).broadcast).cast();
            }
            if !is_last {
                (*entry).head.ifa_next = first.add(place + 1).cast();
            }
        }
    }
    Ok(first.cast())
}

/// `getifaddrs`.
///
/// # Safety
/// As of the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn getifaddrs(list: *mut *mut libc::ifaddrs) -> c_int {
    let ask = || real::call!(-1, fn getifaddrs(list => *mut *mut libc::ifaddrs) -> c_int);
    let done = ferriband_cancel::undisturbed(ask);
    let Some(host) = address::host().filter(|_| done == 0) else {
        return done;
    };
    answer(-1, || {
        // SAFETY: what the C library has just made.
        let whole = unsafe { *list };
        // SAFETY: as above.
        let mut lines = unsafe { loopback(whole) };
        // SAFETY: nobody else has it.
        unsafe { libc::freeifaddrs(whole) };
        lines.push(Line {
            name: named(NAME),
            flags: FLAGS as u32,
            address: v4(host),
            netmask: Some(v4(NETMASK)),
            broadcast: Some(v4(Ipv4Addr::from(u32::from(host) | !u32::from(NETMASK)))),
        });
        let own = list_of(&lines)?;
        // SAFETY: the caller's place.
        unsafe { *list = own };
        Ok(0)
    })
}
