//! Multicast groups that a datagram queue pair is attached to.

use ferriband_transport::types::QpType;
use ferriband_wire::{Gid, Lid, Qpn};

use crate::base::error::Error;
use crate::device::address_of;
use crate::lock;
use crate::qp::Qp;

/// LIDs of groups (IBA 4.1.3); the one above them is the permissive LID.
const MULTICAST_LIDS: std::ops::RangeInclusive<u16> = 0xc000..=0xfffe;

impl Qp {
    /// Attaches the queue pair to a multicast group.
    ///
    /// # Errors
    /// `Invalid` unless it is a datagram queue pair, the GID is a multicast one and, where there are LIDs, the LID is, too.
    pub fn attach_mcast(&self, mgid: Gid, mlid: Lid) -> Result<(), Error> {
        self.check_group(mgid, mlid)?;
        let mut groups = lock(&self.groups);
        if groups.contains(&(mgid, mlid)) {
            return Ok(());
        }
        let adapter = &self.adapter;
        if self.ctx.device.is_ethernet() {
            let link = self.ctx.device.info.ifindex;
            adapter.roce()?.attach(address_of(&mgid), link, self.qpn)?;
        } else {
            adapter
                .process
                .registry
                .multicast_attach(&mgid, mlid, Qpn(self.qpn))?;
            // whoever is attached may send, and need not wait then until both know each other
            adapter.meet_group(&mgid);
        }
        groups.push((mgid, mlid));
        Ok(())
    }

    /// Detaches the queue pair from a multicast group.
    ///
    /// # Errors
    /// `Invalid` if it was not attached.
    pub fn detach_mcast(&self, mgid: Gid, mlid: Lid) -> Result<(), Error> {
        self.check_group(mgid, mlid)?;
        let mut groups = lock(&self.groups);
        let at = groups.iter().position(|group| *group == (mgid, mlid));
        groups.swap_remove(at.ok_or(Error::Invalid(
            "the queue pair is not attached to the multicast group",
        ))?);
        // on Ethernet LIDs mean nothing: the group is one, with however many of them the queue pair was attached
        let last = !groups.iter().any(|(other, _)| *other == mgid);
        self.leave_group(mgid, mlid, last);
        Ok(())
    }

    /// True while it is attached to a group.
    pub(super) fn is_attached(&self) -> bool {
        !lock(&self.groups).is_empty()
    }

    fn leave_group(&self, mgid: Gid, mlid: Lid, last: bool) {
        let adapter = &self.adapter;
        if !self.ctx.device.is_ethernet() {
            adapter
                .process
                .registry
                .multicast_detach(&mgid, mlid, Qpn(self.qpn));
        } else if let Some(roce) = adapter.wires.roce.get().filter(|_| last) {
            roce.detach(address_of(&mgid), self.ctx.device.info.ifindex, self.qpn);
        }
    }

    fn check_group(&self, mgid: Gid, mlid: Lid) -> Result<(), Error> {
        self.adapter.check_alive()?;
        if self.qp_type != QpType::Ud {
            return Err(Error::Invalid(
                "only datagram queue pairs join multicast groups",
            ));
        }
        let is_group = if self.ctx.device.is_ethernet() {
            crate::device::is_group(&mgid)
        } else {
            mgid.is_multicast()
        };
        if !is_group {
            return Err(Error::Invalid("the GID is no multicast GID"));
        }
        if !self.ctx.device.is_ethernet() && !MULTICAST_LIDS.contains(&mlid.0) {
            return Err(Error::Invalid("the LID is no multicast LID"));
        }
        Ok(())
    }
}
