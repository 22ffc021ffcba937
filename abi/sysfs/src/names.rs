//! Names on a host of a live fabric: a program there hears that host's own from `gethostname` and `uname`, and finds the others' addresses by `getaddrinfo`.
//!
//! Owns nothing: the fabric's process knows its hosts. Every other name, and every program that is on no such host, has the C library's answer.

use crate::real;
use ferriband_attach::ask::{Answer, Ask};
use ferriband_attach::{HostName, Link, address};
use std::ffi::{CStr, CString, c_char, c_int};

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

/// `gethostname`.
///
/// # Safety
/// `name` has `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gethostname(name: *mut c_char, length: usize) -> c_int {
    if let Some(host) = HostName::of_environment()
        && !name.is_null()
    {
        return crate::answer(-1, || {
            // SAFETY: the caller's promise.
            match unsafe { write(&host.host, name, length) } {
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
        && let Some(host) = HostName::of_environment()
    {
        // SAFETY: the kernel has just written it.
        let node = unsafe { (&raw mut (*info).nodename).cast::<c_char>() };
        // SAFETY: a field of so many bytes.
        unsafe { write(&host.host, node, NODE_BYTES) };
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
    let named = if node.is_null() {
        None
    } else {
        // SAFETY: not NULL, so a string.
        let name = unsafe { CStr::from_ptr(node) };
        // what cannot be found there is left to the C library
        std::panic::catch_unwind(|| found(name)).unwrap_or(None)
    };
    let node = named.as_ref().map_or(node, |address| address.as_ptr());
    real::call!(
        libc::EAI_SYSTEM,
        fn getaddrinfo(node => *const c_char, service => *const c_char, hints => *const libc::addrinfo, result => *mut *mut libc::addrinfo) -> c_int
    )
}
