//! dlopen(3).
//!
//! Owns: the flag by which a library would call the C library's functions past this one. Must not
//! know: which libraries there are.
//!
//! A library that is loaded with RTLD_DEEPBIND finds names in itself and in what it needs first, so
//! its `recv` is the C library's. It would look for a connection's bytes in the kernel while the
//! rest of the program has them in a ring. PHP loads its extensions so: `socket_import_stream` and
//! extensions that wait for the streams of others never saw a byte. The flag is left out, as for
//! programs under AddressSanitizer and on C libraries that do not have it.

use std::arch::global_asm;
use std::ffi::c_void;

// The C library looks from where it was called: whose search path counts. So it is not called from
// here, but has the place that this function has. `and` takes RTLD_DEEPBIND away.
global_asm!(
    ".globl dlopen",
    ".type dlopen, @function",
    "dlopen:",
    "push rdi",
    "push rsi",
    "push rax",
    "call ferriband_sdp_before_dlopen",
    "mov r11, rax",
    "pop rax",
    "pop rsi",
    "pop rdi",
    "and esi, {kept}",
    "jmp r11",
    ".size dlopen, . - dlopen",
    kept = const !libc::RTLD_DEEPBIND,
);

#[unsafe(no_mangle)]
extern "C" fn ferriband_sdp_before_dlopen() -> *mut c_void {
    // SAFETY: a name that ends in NUL.
    let found = unsafe { libc::dlsym(libc::RTLD_NEXT, c"dlopen".as_ptr()) };
    // without one there is no sensible answer
    if found.is_null() {
        std::process::abort()
    }
    found
}
