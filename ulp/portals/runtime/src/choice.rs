//! Where a process listens: addresses of its interfaces, the best first.
//!
//! Owns: which interfaces there are, and their order: one that is up, then the loopback one.
//! Must not know: adapters.

use ferriband_host::interfaces;
use std::net::{IpAddr, Ipv4Addr};

/// The user whom the process works for.
pub(crate) fn uid() -> u32 {
    // SAFETY: a call without arguments.
    unsafe { libc::geteuid() }
}

/// IPv4 addresses to try, in order; those of one interface alone, if one is wanted.
pub(crate) fn addresses(wanted: &str) -> Vec<Ipv4Addr> {
    let mut found = interfaces();
    if !wanted.is_empty() {
        found.retain(|one| one.name == wanted);
    }
    found.sort_by_key(|one| one.is_loopback);
    let four = found.into_iter().filter_map(|one| match one.address {
        IpAddr::V4(address) => Some(address),
        IpAddr::V6(_) => None,
    });
    four.collect()
}
