//! The private functions of libibverbs.so.1, found when they are first needed.
//!
//! They are looked up by name and not linked, so that this library loads, and says what is wrong, beside a libibverbs that
//! is not ours.

use crate::boundary::{Errno, check};
use ferriband_cm_abi::{CmFunctions, FERRIBAND_CM_VERSION, SYMBOLS};
use ferriband_fork::Settled;
use std::ffi::c_void;

static FUNCTIONS: Settled<Option<CmFunctions>> = Settled::new();

/// The functions; ENODEV if the process has another libibverbs, which stderr is told once.
pub fn functions() -> Result<&'static CmFunctions, Errno> {
    FUNCTIONS
        .get_or_init(|| match find() {
            Ok(functions) => Some(functions),
            Err(why) => {
                ferriband_fork::tell(format_args!(
                    "ferriband: librdmacm.so.1 needs Ferriband's own libibverbs.so.1: {why}; put the directory of both \
                     first in LD_LIBRARY_PATH, or start the program with: ferriband run"
                ));
                None
            }
        })
        .as_ref()
        .ok_or(libc::ENODEV)
}

/// Calls one of the functions; its errno becomes the result.
pub fn call(function: impl FnOnce(&'static CmFunctions) -> std::ffi::c_int) -> Result<(), Errno> {
    check(function(functions()?))
}

fn find() -> Result<CmFunctions, String> {
    let mut found = [std::ptr::null_mut::<c_void>(); SYMBOLS.len()];
    for (slot, name) in found.iter_mut().zip(SYMBOLS) {
        // SAFETY: the name ends in NUL. The default scope holds what this library itself needs, libibverbs among it.
        *slot = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
        if slot.is_null() {
            return Err(format!(
                "the one in this process has no {}",
                name.to_string_lossy()
            ));
        }
    }
    // SAFETY: the structure is its functions in the order of SYMBOLS, both made by one macro, and none is null.
    let functions =
        unsafe { std::mem::transmute::<[*mut c_void; SYMBOLS.len()], CmFunctions>(found) };
    // SAFETY: the first function of every version takes nothing and returns an int.
    let version = unsafe { (functions.version)() };
    if version == FERRIBAND_CM_VERSION {
        Ok(functions)
    } else {
        Err(format!(
            "the one in this process speaks version {version} of their interface, not {FERRIBAND_CM_VERSION}"
        ))
    }
}
