//! Multicast groups of a fabric: the host's memberships, which the fabric's process keeps for as long as the connection lives that asked for them.

use ferriband_attach::ask::{Answer, Ask, Membership};
use ferriband_attach::{AttachError, Link};
use ferriband_wire::Gid;

use crate::device::fabric::{host, number};

/// A membership; its end is the end of this.
#[derive(Debug)]
pub(crate) struct InGroup {
    _link: Link,
    /// What administration says of the group.
    pub group: Membership,
}

/// Joins a group. The error is an errno: ENETDOWN without a fabric or its manager, ETIMEDOUT if nobody answers, EINVAL if it is refused.
pub(crate) fn join_group(mgid: Gid, qkey: u32) -> Result<InGroup, i32> {
    let host = host().ok_or(libc::ENETDOWN)?;
    let ask = Ask::JoinGroup {
        host: host.host.clone(),
        port: number(),
        mgid: mgid.0,
        qkey,
    };
    let link = Link::dial(&host.fabric).map_err(|error| match error {
        AttachError::System { errno, .. } => errno.raw_os_error(),
        _ => libc::ENETDOWN,
    })?;
    match link.ask_plainly(&ask) {
        Ok(Answer::Joined(group)) => Ok(InGroup { _link: link, group }),
        Ok(Answer::Refused { errno, .. }) => Err(errno),
        Ok(_) => Err(libc::EPROTO),
        Err(AttachError::Late) => Err(libc::ETIMEDOUT),
        Err(_) => Err(libc::ENETDOWN),
    }
}
