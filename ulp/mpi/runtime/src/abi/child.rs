//! Children of this process that only fork.
//!
//! Owns: what such a child forgets. A child finds no runtime: its parent's messages and its place
//! among the ranks are the parent's alone. Nor does it meet a lock that another thread of its
//! parent held.

use super::fortran;
use crate::coll::state::ENTRY;
use crate::ground::lock;
use crate::job::state::{Phase, set_phase};
use crate::job::wireup;
use crate::objects::process;
use crate::trace;

/// From the moment on when the library is loaded.
#[used]
// SAFETY: the loader calls what lies in this section, with arguments that a C function may ignore.
#[unsafe(link_section = ".init_array")]
static WATCH_FORKS: extern "C" fn() = watch_forks;

extern "C" fn watch_forks() {
    // SAFETY: a static function that stores to words. Without memory for it children are not told.
    unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
}

extern "C" fn in_child() {
    lock::forget();
    fortran::forget();
    process::forget();
    wireup::forget();
    if ENTRY.forget() {
        set_phase(Phase::Child);
        trace::end();
    }
}
