//! Links that somebody looks at: what passes them, as it would travel on a wire.
//!
//! Owns which cables are looked at and what has passed since it was last asked. Packets of management are carried without the headers that they would have on a link; here they get them.

use crate::manage::{Hop, Passed};
use ferriband_topology::{PortId, Topology};
use ferriband_wire::mad::{GSI_QKEY, GSI_QPN, MAD_LEN, SMI_QPN};
use ferriband_wire::{
    Bth, Deth, Ext, Header, Headers, Lid, Lrh, NativePacket, Opcode, Packet, Psn, QKey, Sl, Vl,
};
use std::collections::{BTreeSet, VecDeque};

/// Packets that are kept until somebody asks: of more the newest are lost.
const MOST_KEPT: usize = 65_536;
/// The lane of queue pair 0.
const MANAGEMENT_LANE: Vl = Vl(15);

/// A packet that has passed a cable that somebody looks at.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tapped {
    /// The cable, an index of the topology's.
    pub cable: usize,
    /// The port that it left by.
    pub from: PortId,
    /// LRH to VCRC.
    pub bytes: Vec<u8>,
}

#[derive(Debug, Default)]
pub(super) struct Taps {
    pub cables: BTreeSet<usize>,
    kept: VecDeque<Tapped>,
}

impl Taps {
    pub fn is_idle(&self) -> bool {
        self.cables.is_empty()
    }

    pub fn poll(&mut self) -> Option<Tapped> {
        self.kept.pop_front()
    }

    fn keep(&mut self, cable: usize, from: PortId, bytes: Vec<u8>) {
        if self.kept.len() < MOST_KEPT {
            self.kept.push_back(Tapped { cable, from, bytes });
        }
    }

    /// A packet with data, or of queue pair 1, has gone these ways: `packet` makes its bytes for a lane.
    pub fn passed(
        &mut self,
        topology: &Topology,
        hops: &[Hop],
        mut packet: impl FnMut(Vl) -> Option<Vec<u8>>,
    ) {
        for hop in hops {
            let cable = topology.cable_at(hop.from);
            if let Some(cable) = cable.filter(|cable| self.cables.contains(cable))
                && let Some(bytes) = packet(hop.vl)
            {
                self.keep(cable, hop.from, bytes);
            }
        }
    }

    /// Packets of subnet management have passed cables that are looked at.
    pub fn managed(&mut self, passed: Vec<Passed>) {
        for passed in passed {
            let mut mad = [0; MAD_LEN];
            let made = passed.smp.emit(&mut mad).is_ok();
            let lrh = Lrh {
                vl: MANAGEMENT_LANE,
                sl: Sl(0),
                dlid: passed.dlid,
                slid: passed.slid,
            };
            let bytes = made
                .then(|| datagram(lrh, SMI_QPN, QKey(0), &mad))
                .flatten();
            if let Some(bytes) = bytes {
                self.keep(passed.cable, passed.from, bytes);
            }
        }
    }
}

/// A packet of queue pair 1 on a link.
pub(super) fn general(from: Lid, to: Lid, sl: Sl, vl: Vl, mad: &[u8; MAD_LEN]) -> Option<Vec<u8>> {
    let lrh = Lrh {
        vl,
        sl,
        dlid: to,
        slid: from,
    };
    datagram(lrh, GSI_QPN, GSI_QKEY, mad)
}

/// A datagram from a queue pair to the one of the same number.
fn datagram(
    lrh: Lrh,
    qpn: ferriband_wire::Qpn,
    qkey: QKey,
    mad: &[u8; MAD_LEN],
) -> Option<Vec<u8>> {
    let deth = Deth { qkey, src_qpn: qpn };
    let ext = Ext {
        deth: Some(deth),
        ..Ext::default()
    };
    let packet = NativePacket {
        lrh,
        grh: None,
        packet: Packet {
            headers: Headers::new(Bth::new(Opcode::UdSendOnly, qpn, Psn::new(0)), ext),
            payload: mad,
        },
    };
    let mut bytes = vec![0; packet.wire_len()];
    packet.emit(&mut bytes).ok()?;
    Some(bytes)
}
