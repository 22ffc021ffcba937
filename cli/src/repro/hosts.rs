//! The two hosts of experiments between hosts: network namespaces joined by a veth pair.
//!
//! Owns: that there are two, once. Must not know: what runs there.

use crate::failure::Failure;
use crate::netns::{self, TwoHosts};
use std::sync::OnceLock;

/// The two hosts, made once: this process stays in the first.
pub fn hosts() -> Result<&'static TwoHosts, Failure> {
    static HOSTS: OnceLock<TwoHosts> = OnceLock::new();
    if let Some(hosts) = HOSTS.get() {
        return Ok(hosts);
    }
    let made = netns::two_hosts().map_err(|why| {
        Failure::new(format!("there can be no two hosts here: {}", why.0)).status(77)
    })?;
    Ok(HOSTS.get_or_init(|| made))
}
