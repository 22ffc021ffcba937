//! Names on a host of a live fabric: a program there hears that host's own from `gethostname` and `uname`, and finds the others' addresses by `getaddrinfo`.
//!
//! Owns nothing: the fabric's process knows its hosts. Every other name, and every program that is on no such host, has the C library's answer.

use crate::real;
use ferriband_attach::ask::{Answer, Ask};
use ferriband_attach::{HostName, Link, address};
use ferriband_fork::Settled;
use std::ffi::{CStr, CString, c_char, c_int};
use std::ptr::null_mut;

/// Bytes of a name in `struct utsname` (`_UTSNAME_LENGTH`), with the NUL.
const NODE_BYTES: usize = 65;

/// Node type of what programs run on: switches have no addresses.
const CHANNEL_ADAPTER: u8 = 1;

/// Writes a name and a NUL into a field; false if it does not fit.
///
/// # Safety
/// `field` has `room` bytes.
unsafe fn write(name: &str, field: *mut c_char, room: usize) -> bool {
    let fits = name.len() < room;
    if fits {
        // SAFETY: the caller's promise, and the length was looked at.
        unsafe {
            field.copy_from_nonoverlapping(name.as_ptr().cast(), name.len());
            field.add(name.len()).write(0);
        }
    }
    fits
}

/// What this host is called: the first word of its node's name (`node7 mlx5_0`), if that means no other node; else the whole. None: on no host of a fabric.
fn own_name() -> Option<&'static str> {
    static NAME: Settled<Option<String>> = Settled::new();
    let find = || {
        let own = HostName::of_environment()?;
        let word = own.host.split(' ').next().unwrap_or_default();
        if word == own.host || word.is_empty() {
            return Some(own.host);
        }
        let ask = Ask::Adapter { host: word.into() };
        let is_own = match Link::dial(&own.fabric).and_then(|link| link.ask(&ask)) {
            Ok(Answer::Adapter(adapter)) => adapter.host == own.host,
            _ => false,
        };
        Some(if is_own { word.to_owned() } else { own.host })
    };
    NAME.get_or_init(find).as_deref()
}

/// `gethostname`.
///
/// # Safety
/// `name` has `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gethostname(name: *mut c_char, length: usize) -> c_int {
    if !name.is_null()
        && let Some(host) = own_name()
    {
        return crate::answer(-1, || {
            // SAFETY: the caller's promise.
            match unsafe { write(host, name, length) } {
                true => Ok(0),
                false => Err(libc::ENAMETOOLONG),
            }
        });
    }
    real::call!(-1, fn gethostname(name => *mut c_char, length => usize) -> c_int)
}

/// `uname`. A name that is too long for it is not shown.
///
/// # Safety
/// `info` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uname(info: *mut libc::utsname) -> c_int {
    let done = real::call!(-1, fn uname(info => *mut libc::utsname) -> c_int);
    if done == 0
        && let Some(host) = own_name()
    {
        // SAFETY: the kernel has just written it.
        let node = unsafe { (&raw mut (*info).nodename).cast::<c_char>() };
        // SAFETY: a field of so many bytes.
        unsafe { write(host, node, NODE_BYTES) };
    }
    done
}

/// The address of a host of our fabric by its name, as text; None for any other name.
fn found(name: &CStr) -> Option<CString> {
    let own = HostName::of_environment()?;
    let name = name.to_str().ok()?;
    // addresses are not asked for
    if name.is_empty() || name.parse::<std::net::IpAddr>().is_ok() {
        return None;
    }
    let ask = Ask::Adapter {
        host: name.to_owned(),
    };
    let answer = Link::dial(&own.fabric).and_then(|link| link.ask(&ask));
    match answer {
        Ok(Answer::Adapter(adapter)) if adapter.node_type == CHANNEL_ADAPTER => {
            CString::new(address(adapter.number).to_string()).ok()
        }
        _ => None,
    }
}

/// The address of the host that a program names, as text: what to ask the C library for instead.
///
/// # Safety
/// `name` is NULL or a string.
unsafe fn addressed(name: *const c_char) -> Option<CString> {
    if name.is_null() {
        return None;
    }
    // SAFETY: not NULL, so a string.
    let name = unsafe { CStr::from_ptr(name) };
    // what cannot be found there is left to the C library
    std::panic::catch_unwind(|| found(name)).unwrap_or(None)
}

/// `getaddrinfo`.
///
/// # Safety
/// As of the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn getaddrinfo(
    node: *const c_char,
    service: *const c_char,
    hints: *const libc::addrinfo,
    result: *mut *mut libc::addrinfo,
) -> c_int {
    // SAFETY: the caller's promise.
    let named = unsafe { addressed(node) };
    let node = named.as_ref().map_or(node, |address| address.as_ptr());
    let ask = || {
        real::call!(
            libc::EAI_SYSTEM,
            fn getaddrinfo(node => *const c_char, service => *const c_char, hints => *const libc::addrinfo, result => *mut *mut libc::addrinfo) -> c_int
        )
    };
    ferriband_cancel::undisturbed(ask)
}

/// Defines one of the older functions that find a host by its name, its first argument.
macro_rules! by_name {
    ($failed:expr, $name:ident($($argument:ident: $type:ty),*) -> $result:ty) => {
        /// The C library's function of this name.
        ///
        /// # Safety
        /// As of the C function.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(name: *const c_char $(, $argument: $type)*) -> $result {
            // SAFETY: the caller's promise.
            let named = unsafe { addressed(name) };
            let name = named.as_ref().map_or(name, |address| address.as_ptr());
            ferriband_cancel::undisturbed(|| {
                real::call!($failed, fn $name(name => *const c_char $(, $argument => $type)*) -> $result)
            })
        }
    };
}

by_name!(null_mut(), gethostbyname() -> *mut libc::hostent);
by_name!(null_mut(), gethostbyname2(family: c_int) -> *mut libc::hostent);
by_name!(libc::ENOSYS, gethostbyname_r(into: *mut libc::hostent, buffer: *mut c_char, length: usize, found: *mut *mut libc::hostent, why: *mut c_int) -> c_int);
by_name!(libc::ENOSYS, gethostbyname2_r(family: c_int, into: *mut libc::hostent, buffer: *mut c_char, length: usize, found: *mut *mut libc::hostent, why: *mut c_int) -> c_int);
