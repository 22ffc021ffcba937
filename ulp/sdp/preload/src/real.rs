//! The C library's functions behind ours.

/// Calls the function of that name which comes after this library in the search order, most often
/// the C library's. Without one the call fails with ENOSYS and gives `$failed`.
///
/// The lookup happens once for each place that calls. The arguments are those of the C function. A
/// function that is a cancellation point may unwind the thread: who calls it so is an
/// `extern "C-unwind"` function that owns nothing.
macro_rules! call {
    ($failed:expr, fn $name:ident($($argument:expr => $type:ty),*) -> $result:ty) => {{
        use std::sync::atomic::{AtomicPtr, Ordering};
        static FOUND: AtomicPtr<libc::c_void> = AtomicPtr::new(std::ptr::null_mut());
        let mut found = FOUND.load(Ordering::Relaxed);
        if found.is_null() {
            const NAME: &str = concat!(stringify!($name), "\0");
            // SAFETY: the name ends in NUL.
            found = unsafe { libc::dlsym(libc::RTLD_NEXT, NAME.as_ptr().cast()) };
            FOUND.store(found, Ordering::Relaxed);
        }
        if found.is_null() {
            // SAFETY: the address is the calling thread's own.
            unsafe { *libc::__errno_location() = libc::ENOSYS };
            $failed
        } else {
            type Function = unsafe extern "C-unwind" fn($($type),*) -> $result;
            // SAFETY: the function of this name has this type in the C library.
            let function: Function = unsafe { std::mem::transmute(found) };
            // SAFETY: the arguments are those that the program gave for this very function.
            unsafe { function($($argument),*) }
        }
    }};
}

pub(crate) use call;
