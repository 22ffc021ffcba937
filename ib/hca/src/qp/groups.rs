//! Multicast groups that a datagram queue pair is attached to.

use super::*;

impl Qp {
    /// Attaches the queue pair to a multicast group.
    ///
    /// # Errors
    /// `Invalid` unless it is a datagram queue pair and the GID is a multicast one.
    pub fn attach_mcast(&self, mgid: Gid, mlid: Lid) -> Result<(), Error> {
        self.check_group(mgid)?;
        self.ctx
            .engine
            .registry
            .multicast_attach(&mgid, mlid, Qpn(self.qpn))?;
        lock(&self.groups).push((mgid, mlid));
        Ok(())
    }

    /// Detaches the queue pair from a multicast group.
    ///
    /// # Errors
    /// `Invalid` if it was not attached.
    pub fn detach_mcast(&self, mgid: Gid, mlid: Lid) -> Result<(), Error> {
        self.check_group(mgid)?;
        if !self
            .ctx
            .engine
            .registry
            .multicast_detach(&mgid, mlid, Qpn(self.qpn))
        {
            return Err(Error::Invalid(
                "the queue pair is not attached to the multicast group",
            ));
        }
        lock(&self.groups).retain(|group| *group != (mgid, mlid));
        Ok(())
    }

    fn check_group(&self, mgid: Gid) -> Result<(), Error> {
        self.ctx.engine.check_alive()?;
        if self.qp_type != QpType::Ud {
            return Err(Error::Invalid(
                "only datagram queue pairs join multicast groups",
            ));
        }
        if !mgid.is_multicast() {
            return Err(Error::Invalid("the GID is no multicast GID"));
        }
        Ok(())
    }
}
