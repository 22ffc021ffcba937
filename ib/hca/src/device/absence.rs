//! Devices that are not there: an administrator has taken them away, for a time or until they are
//! brought back, or their interface was deleted.
//!
//! Owns: what that means to whoever lists devices and to whoever opens one. Must not know: who has
//! a device open, and what becomes of that.

use ferriband_memory::host::{Host, PORT_GONE, Registry};

use super::{Device, fabric, watch};
use crate::base::error::Error;

/// Err while the device cannot be opened.
///
/// # Errors
/// `Absent` for one that is not there, `Gone` for one that has failed and comes back by itself.
pub(crate) fn check(registry: &Registry, device: &Device) -> Result<(), Error> {
    let ifindex = device.info.ifindex;
    if registry.port_word(ifindex) & PORT_GONE != 0 {
        return Err(Error::Absent("an administrator has taken it away"));
    }
    if device.is_ethernet() && device.look_again().gone {
        return Err(Error::Absent("its network interface was deleted"));
    }
    if registry.port_until(ifindex) > ferriband_memory::wait::now().0 {
        return Err(Error::Gone("it has failed, and is not back yet"));
    }
    Ok(())
}

/// Which of these interfaces' devices are not there, whether or not this process has a device open.
/// Where that cannot be found out none is missing: opening one tells.
pub fn missing(interfaces: impl Iterator<Item = u32>) -> Vec<u32> {
    let taken = Host::glance(&fabric::label()).ok().flatten();
    let is_taken = |ifindex| {
        let word = taken.as_ref().map_or(0, |all| all.port_word(ifindex));
        word & PORT_GONE != 0
    };
    interfaces
        .filter(|ifindex| is_taken(*ifindex) || watch::is_deleted(*ifindex))
        .collect()
}
