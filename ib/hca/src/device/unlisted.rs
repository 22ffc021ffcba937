//! Ethernet devices that this process's list leaves out, and for whose addresses it answers all the
//! same.
//!
//! The processes of a host share the port of RoCEv2 whatever devices they have (FERRIBAND_DEVICES;
//! the loopback interface is in no list that does not name it). A message to queue pair 1 that is
//! nobody's reaches any of them, and whoever sent it waits for the refusal. Owns: a device for each
//! such interface, which no program sees, made when it is first needed. Must not know: what is
//! asked or answered.

use std::net::IpAddr;
use std::sync::{Arc, Mutex};

use ferriband_admin::config::{Config, PREFIX};
use ferriband_fork::PerProcess;
use ferriband_memory::net::Netdev;
use ferriband_wire::Guid;

use super::{Device, all, at_address, is_link_local, plan, usable_addresses, with_interfaces};
use crate::lock;

/// Interfaces of one process at the most; what comes to others is nobody's.
const MOST: usize = 64;

/// Those that were needed. Their indices follow those of the list.
static MADE: PerProcess<Mutex<Vec<Arc<Device>>>> = PerProcess::new(Mutex::default);

/// The Ethernet device that answers at an address, and the address's index: one of the list, else
/// one that it leaves out. None for what is no address of this host's.
pub(crate) fn answering(address: IpAddr, ifindex: u32) -> Option<(Arc<Device>, u8)> {
    if let Some((device, index)) = at_address(address, ifindex) {
        return Some((device.clone(), index));
    }
    let has = |interface: &&Netdev| {
        let same_link = !is_link_local(&address) || interface.ifindex == ifindex;
        same_link && usable_addresses(interface).contains(&address)
    };
    let interface = with_interfaces(|all| all.iter().find(has).cloned())?;
    let device = of_interface(&interface)?;
    let index = device.index_of(address)?;
    Some((device, index as u8))
}

/// A device by its index, of the list or not.
pub(crate) fn by_index(index: usize) -> Option<Arc<Device>> {
    let Some(beyond) = index.checked_sub(all().len()) else {
        return all().get(index).cloned();
    };
    lock(MADE.get()).get(beyond).cloned()
}

/// True if the list has a device of this index.
pub(crate) fn is_listed(index: usize) -> bool {
    index < all().len()
}

/// The device of an interface that is in no list, made if there is none yet.
fn of_interface(interface: &Netdev) -> Option<Arc<Device>> {
    let mut made = lock(MADE.get());
    let of_it = |device: &&Arc<Device>| device.info.ifindex == interface.ifindex;
    if let Some(known) = made.iter().find(of_it) {
        return Some(known.clone());
    }
    let name = format!("{PREFIX}{}", interface.name);
    let interfaces = std::slice::from_ref(interface);
    let mut info = plan(interfaces, Some(&name), Guid(0), &Config::default()).pop()?;
    info.index = all().len() + made.len();
    let device = Arc::new(Device::new(info));
    (made.len() < MOST).then(|| {
        made.push(device.clone());
        device
    })
}
