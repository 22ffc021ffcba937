//! Multicast groups on Ethernet: IP groups that this process's sockets join while queue pairs are
//! attached.
//!
//! Owns who is attached, by group and interface. The kernel copies a packet for a group to every
//! socket that has joined it, whatever the steering says, so each process looks after its own queue
//! pairs alone. Must not know: the registry, packets.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Mutex;

use crate::base::error::Error;
use crate::lock;
use crate::wire::packets::Roce;

/// Queue pair numbers by group and interface.
pub(in crate::wire) type Attached = Mutex<BTreeMap<(IpAddr, u32), Vec<u32>>>;

impl Roce {
    /// Attaches a queue pair to a group on an interface. Attaching it again changes nothing.
    ///
    /// # Errors
    /// What the kernel says to joining: too many memberships (net.ipv4.igmp_max_memberships), no
    /// such family.
    pub(crate) fn attach(&self, group: IpAddr, ifindex: u32, qpn: u32) -> Result<(), Error> {
        let mut attached = lock(&self.attached);
        if !attached.contains_key(&(group, ifindex)) {
            let socket = self
                .socket(group.is_ipv6())
                .ok_or(Error::Unsupported("no socket of the group's family"))?;
            socket.join_group(group, ifindex)?;
        }
        let members = attached.entry((group, ifindex)).or_default();
        if !members.contains(&qpn) {
            members.push(qpn);
        }
        Ok(())
    }

    /// Detaches a queue pair; with the last one the group is left. False if it was not attached.
    pub(crate) fn detach(&self, group: IpAddr, ifindex: u32, qpn: u32) -> bool {
        let mut attached = lock(&self.attached);
        let Some(members) = attached.get_mut(&(group, ifindex)) else {
            return false;
        };
        let Some(at) = members.iter().position(|member| *member == qpn) else {
            return false;
        };
        members.swap_remove(at);
        if members.is_empty() {
            attached.remove(&(group, ifindex));
            if let Some(socket) = self.socket(group.is_ipv6()) {
                // an interface that is gone has taken its memberships along
                let _ = socket.leave_group(group, ifindex);
            }
        }
        true
    }

    /// The queue pairs that are attached to a group on an interface.
    pub(in crate::wire) fn attached(&self, group: IpAddr, ifindex: u32) -> Vec<u32> {
        lock(&self.attached)
            .get(&(group, ifindex))
            .cloned()
            .unwrap_or_default()
    }
}
