//! The C library's functions behind ours.

/// Calls the function of that name which comes after this library in the search order: the C library's. Without one the call fails with
/// ENOSYS and gives `$failed`.
///
/// The lookup happens once for each place that calls; the arguments are those of the C function.
///
/// Of a function that is a cancellation point a thread may be unwound: what calls it so is an
/// `extern "C-unwind"` function that owns nothing, or calls it
/// [`undisturbed`](ferriband_cancel::undisturbed).
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
            crate::set_errno(libc::ENOSYS);
            $failed
        } else {
            // SAFETY: the function of this name has this type in the C library.
            let function: unsafe extern "C-unwind" fn($($type),*) -> $result = unsafe { std::mem::transmute(found) };
            // SAFETY: the arguments are those that the program gave for this very function.
            unsafe { function($($argument),*) }
        }
    }};
}

pub(crate) use call;
