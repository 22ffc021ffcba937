//! How many connections could have been carried by SDP, and how many were.
//!
//! Owns: the counts of this process and the line that says them. Must not know: when it is written.

use crate::own::Own;
use std::ffi::CStr;
use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{Mode, OFlags};

/// Connections that were worth it, or were carried.
static ELIGIBLE: AtomicU64 = AtomicU64::new(0);
/// Connections that were carried.
static UPGRADED: AtomicU64 = AtomicU64::new(0);

/// Connections that were worth it, and those that were carried.
pub(super) fn both() -> (u64, u64) {
    let [eligible, upgraded] = [&ELIGIBLE, &UPGRADED].map(|count| count.load(Ordering::Relaxed));
    (eligible, upgraded)
}

/// A connection is worth it.
pub(super) fn eligible() {
    ELIGIBLE.fetch_add(1, Ordering::Relaxed);
}

/// A connection that was counted among those that are worth it could not be carried.
pub(super) fn not_eligible() {
    // a child begins with zeros, whatever its parent has counted
    let _ = ELIGIBLE.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |count| {
        count.checked_sub(1)
    });
}

/// A connection is carried.
pub(super) fn upgraded() {
    UPGRADED.fetch_add(1, Ordering::Relaxed);
}

/// A connection was made by SDP.
pub(crate) fn carried() {
    eligible();
    upgraded();
}

/// In a child: its own begin.
pub(super) fn forked() {
    ELIGIBLE.store(0, Ordering::Relaxed);
    UPGRADED.store(0, Ordering::Relaxed);
}

/// The last part of /proc/self/exe.
pub(super) fn program() -> String {
    let program = rustix::fs::readlink(c"/proc/self/exe", Vec::new()).unwrap_or_default();
    let program = program.to_string_lossy();
    program.rsplit('/').next().unwrap_or_default().to_owned()
}

/// Appends a line to a file, if there is anything to say. Once: the counts begin anew.
pub fn report(path: &CStr) {
    let eligible = ELIGIBLE.swap(0, Ordering::Relaxed);
    let upgraded = UPGRADED.swap(0, Ordering::Relaxed);
    if eligible == 0 {
        return;
    }
    let program = program();
    let pid = rustix::process::getpid().as_raw_nonzero();
    let mut line = String::from("{\"program\":\"");
    for character in program.chars() {
        match character {
            '"' | '\\' => line.extend(['\\', character]),
            '\0'..' ' => line.push('?'),
            _ => line.push(character),
        }
    }
    // a line in memory takes what is written to it
    let _ = writeln!(
        line,
        "\",\"pid\":{pid},\"eligible\":{eligible},\"upgraded\":{upgraded}}}"
    );
    let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE | OFlags::CLOEXEC;
    let mode = Mode::from_raw_mode(0o644);
    let Ok(file) = Own::make(|| rustix::fs::open(path, flags, mode)) else {
        return;
    };
    // whoever cannot be told does without
    let _ = rustix::io::write(&file, line.as_bytes());
}
