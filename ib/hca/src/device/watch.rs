//! What an Ethernet device's interface is now, for whoever tells of changes.
//!
//! Owns: asking the kernel, whatever was asked a moment ago. Must not know who is told.

use std::net::IpAddr;

use super::{Device, with_interfaces};
use crate::lock;

/// What programs are told of when it changes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Seen {
    /// The interface was deleted.
    pub(crate) gone: bool,
    /// It is switched on and has a carrier.
    pub(crate) up: bool,
    /// The GID table.
    pub(crate) gids: Vec<Option<IpAddr>>,
}

impl Device {
    /// What the interface is now; what is known of it where the kernel cannot be asked.
    pub(crate) fn look_again(&self) -> Seen {
        let mut face = lock(self.face.get());
        // long ago; 0 would say that nothing is known
        face.asked_at = face.asked_at.min(1);
        drop(face);
        self.with_face(|face| Seen {
            gone: face.gone,
            up: face.up,
            gids: face.gids.clone(),
        })
    }
}

/// True if the kernel does not know the interface any more. That of the InfiniBand port, 0, is none
/// of its.
pub(super) fn is_deleted(ifindex: u32) -> bool {
    ifindex != 0
        && with_interfaces(|all| {
            !all.is_empty() && all.iter().all(|interface| interface.ifindex != ifindex)
        })
}
