//! The two paths of a connection on packets (IBA 17.2.8): what each packet came by, and what is
//! sent by which.
//!
//! Owns the alternate path. When to go over to it the machine says; here the paths that were made
//! of the address vectors follow. While nothing is armed, a packet from the peer costs one
//! comparison. Must not know sockets.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use ferriband_transport::CameBy;
use ferriband_transport::types::{AddressVector, MigState, QpAttr, QpAttrMask, QpState};

use super::{PacketSide, Qp, Turn};
use crate::base::error::Error;
use crate::device::fabric;
use crate::lock;
use crate::objects::catch::Catch;
use crate::wire::packets::handling;
use crate::wire::packets::path::TxPath;
use crate::wire::roce::ports::PortPool;

/// Who has sent packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Sender {
    /// The peer, by the path in use; nothing is armed. Or whoever sends datagrams.
    Peer,
    /// The peer, while its packets may move the path, or by the path that is not in use.
    Watched,
    /// Somebody else.
    Stranger,
}

/// The path that a connection does not use, and where its packets come from.
#[derive(Debug, Default)]
pub(super) struct Ways {
    /// The origin of packets that need no look: that of the primary path, while nothing is armed.
    usual: Option<IpAddr>,
    /// Origins by the primary path and by the alternate one.
    origins: [Option<IpAddr>; 2],
    alternate: Option<TxPath>,
    /// Migrations that were followed.
    followed: u32,
}

impl Ways {
    #[inline]
    pub(super) fn is_usual(&self, origin: IpAddr) -> bool {
        self.usual == Some(origin)
    }
}

/// Paths of address vectors that a modify call brings: primary, alternate.
pub(super) type NewPaths = [Option<TxPath>; 2];

impl PacketSide {
    pub(super) fn take_paths(&mut self, [primary, alternate]: NewPaths) {
        if let Some(path) = primary {
            self.ways.origins[0] = Some(path.origin());
            self.path = Some(path);
        }
        if let Some(path) = alternate {
            self.ways.origins[1] = Some(path.origin());
            self.ways.alternate = Some(path);
        }
    }
}

impl Qp {
    /// What the address vectors of a modify call make.
    ///
    /// # Errors
    /// One of them leads nowhere.
    pub(super) fn new_paths(
        &self,
        pool: &PortPool,
        side: &PacketSide,
        new: &QpAttr,
        mask: QpAttrMask,
    ) -> Result<NewPaths, Error> {
        let dest = match mask.contains(QpAttrMask::DEST_QPN) {
            true => new.dest_qpn,
            false => side.machine.query().dest_qpn,
        };
        let resolve = |named, av: &AddressVector| {
            mask.contains(named)
                .then(|| self.connection_path(pool, av, dest.0))
                .transpose()
        };
        Ok([
            resolve(QpAttrMask::AV, &new.av)?,
            resolve(QpAttrMask::ALT_PATH, &new.alt_av)?,
        ])
    }

    /// Packets that did not come as usual. On Ethernet they are a stranger's if they come by
    /// neither path; on the InfiniBand port the peer may use another of its LIDs.
    #[cold]
    pub(super) fn look_at_source(&self, side: &mut PacketSide, origin: IpAddr) -> Sender {
        let by = side.ways.origins.map(|known| known == Some(origin));
        side.machine.packets_come_by(match by {
            [_, false] => CameBy::Primary,
            [false, true] => CameBy::Alternate,
            [true, true] => CameBy::Either,
        });
        match by {
            [false, false] if self.ctx.device.is_ethernet() => Sender::Stranger,
            _ => Sender::Watched,
        }
    }

    /// The machine may have gone over to the alternate path, or a program may have armed it.
    #[cold]
    pub(super) fn follow_paths(&self, side: &mut PacketSide) {
        let migrations = side.machine.migrations();
        if migrations.wrapping_sub(side.ways.followed) % 2 == 1 {
            std::mem::swap(&mut side.path, &mut side.ways.alternate);
            side.ways.origins.swap(0, 1);
            self.set_pace(side);
            let attr = side.machine.query();
            self.port.store(attr.port_num, Ordering::Relaxed);
            let device = &self.ctx.device.info.name;
            fabric::look_into(device, self.qpn, attr.alt_port_num, &attr.alt_av);
        }
        side.ways.followed = migrations;
        side.machine.packets_come_by(CameBy::Primary);
        side.ways.usual = match side.machine.path_state() {
            MigState::Migrated => side.ways.origins[0],
            MigState::Rearm | MigState::Armed => None,
        };
    }

    /// What is known of the paths of a queue pair whose machine may have moved them by itself.
    pub(in crate::qp) fn learn_paths(&self, attr: &mut QpAttr) {
        let Some(now) = self.query_packets() else {
            return;
        };
        (attr.av, attr.alt_av) = (now.av, now.alt_av);
        (attr.pkey_index, attr.alt_pkey_index) = (now.pkey_index, now.alt_pkey_index);
        (attr.port_num, attr.alt_port_num) = (now.port_num, now.alt_port_num);
        (attr.timeout, attr.alt_timeout) = (now.timeout, now.alt_timeout);
        attr.path_mig_state = now.path_mig_state;
    }

    /// It has a peer.
    pub(crate) fn is_connected(&self) -> bool {
        let state = self.state_now();
        !self.is_datagram() && matches!(state, QpState::Rtr | QpState::Rts | QpState::Sqd)
    }

    /// Somebody wants this connection to go over to its alternate path: an administrator, or a port
    /// that is down, of this number. True if it does: it is armed, and its other path uses another
    /// port than one that is down.
    pub(crate) fn fail_over(self: &Arc<Self>, down: Option<u8>) -> bool {
        let _handling = handling();
        let mut guard = lock(&self.packets);
        let Some(side) = guard.as_deref_mut() else {
            return false;
        };
        let attr = side.machine.query();
        let helps = down.is_none_or(|down| attr.port_num == down && attr.alt_port_num != down);
        let moved = helps && side.machine.fail_over();
        if moved {
            self.follow_paths(side);
            let mut nobody = Catch::nobody();
            self.turn(&self.adapter, side, Turn::Due, &mut nobody);
        }
        moved
    }
}
