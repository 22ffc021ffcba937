//! Multicast groups on Ethernet: IP groups that this process's sockets join while queue pairs are
//! attached.
//!
//! Owns who is attached, by group and interface. The kernel copies a packet for a group to every
//! socket that has joined it, whatever the steering says, so each process looks after its own queue
//! pairs alone. Must not know: the registry, packets.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Mutex;

use ferriband_memory::net::RxSocket;

use crate::base::error::Error;
use crate::lock;

/// Queue pair numbers by group and interface.
#[derive(Debug, Default)]
pub(in crate::wire) struct Attached(Mutex<BTreeMap<(IpAddr, u32), Vec<u32>>>);

impl Attached {
    /// Attaches a queue pair to a group on an interface, whose packets come to `socket`. Attaching
    /// it again changes nothing.
    ///
    /// # Errors
    /// What the kernel says to joining: too many memberships (net.ipv4.igmp_max_memberships), no
    /// such family.
    pub(in crate::wire) fn attach(
        &self,
        socket: Option<&RxSocket>,
        (group, ifindex): (IpAddr, u32),
        qpn: u32,
    ) -> Result<(), Error> {
        let mut attached = lock(&self.0);
        if !attached.contains_key(&(group, ifindex)) {
            let socket = socket.ok_or(Error::Unsupported("no socket of the group's family"))?;
            socket.join_group(group, ifindex)?;
        }
        let members = attached.entry((group, ifindex)).or_default();
        if !members.contains(&qpn) {
            members.push(qpn);
        }
        Ok(())
    }

    /// Detaches a queue pair; with the last one the group is left. False if it was not attached.
    pub(in crate::wire) fn detach(
        &self,
        socket: Option<&RxSocket>,
        (group, ifindex): (IpAddr, u32),
        qpn: u32,
    ) -> bool {
        let mut attached = lock(&self.0);
        let Some(members) = attached.get_mut(&(group, ifindex)) else {
            return false;
        };
        let Some(at) = members.iter().position(|member| *member == qpn) else {
            return false;
        };
        members.swap_remove(at);
        if members.is_empty() {
            attached.remove(&(group, ifindex));
            if let Some(socket) = socket {
                // an interface that is gone has taken its memberships along
                let _ = socket.leave_group(group, ifindex);
            }
        }
        true
    }

    /// The queue pairs that are attached to a group on an interface.
    pub(in crate::wire) fn of(&self, group: IpAddr, ifindex: u32) -> Vec<u32> {
        lock(&self.0)
            .get(&(group, ifindex))
            .cloned()
            .unwrap_or_default()
    }
}
