//! Signals that end what runs: they set a flag, so that what is under way is finished in order
//! (what was captured is written, what was set is cleared).

use std::sync::atomic::{AtomicBool, Ordering};

static ASKED: AtomicBool = AtomicBool::new(false);

extern "C" fn note(_signal: libc::c_int) {
    ASKED.store(true, Ordering::Relaxed);
}

/// The flag.
pub struct Stop(());

impl Stop {
    /// Catches SIGINT, SIGTERM and SIGHUP from now on; SIGHUP not where it is ignored (nohup). A
    /// closed pipe is an error of the writer.
    pub fn install() -> Self {
        for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
            // SAFETY: plain data, of which zeros are a value: no flags (waiting is interrupted), no
            // signals blocked.
            let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
            // SAFETY: the structure is ours, and the call reads nothing.
            let asked = unsafe { libc::sigaction(signal, std::ptr::null(), &raw mut action) };
            if signal == libc::SIGHUP && asked == 0 && action.sa_sigaction == libc::SIG_IGN {
                continue;
            }
            // SAFETY: as above.
            action = unsafe { std::mem::zeroed() };
            action.sa_sigaction = note as *const () as usize;
            // SAFETY: the handler stores to an atomic and nothing else; the structure lives through
            // the call.
            unsafe { libc::sigaction(signal, &raw const action, std::ptr::null_mut()) };
        }
        Stop(())
    }

    /// True once one has come.
    pub fn asked(&self) -> bool {
        ASKED.load(Ordering::Relaxed)
    }
}
