//! Second names of the C library's functions, which it offers to whoever asks: `__read` is read(2).
//! Its own older companions (libnsl) and some programs call them.
//!
//! Owns: those names. Must not know: what the functions do.

use std::arch::global_asm;

macro_rules! also {
    ($($name:literal is $of:literal;)*) => {$(
        global_asm!(
            concat!(".globl ", $name),
            concat!(".type ", $name, ", @function"),
            concat!($name, ":"),
            concat!("jmp ", $of, "@PLT"),
            concat!(".size ", $name, ", . - ", $name),
        );
    )*};
}

also! {
    "__close" is "close";
    "__connect" is "connect";
    "__dup2" is "dup2";
    "__fcntl" is "fcntl";
    "__fork" is "fork";
    "__poll" is "poll";
    "__read" is "read";
    "__select" is "select";
    "__send" is "send";
    "__vfork" is "vfork";
    "__write" is "write";
}
