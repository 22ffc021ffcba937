//! The end of a connection as one process tells another, in JSON.
//!
//! Owns: the conversion of [`End`]. Must not know: who tells whom.

use ferriband_ibv::{Gid, Lid, Mtu, Qpn};
use ferriband_sdp_verbs::End;
use ferriband_sdp_wire::{FlowControl, RKey, Ring};
use serde::{Deserialize, Serialize};

/// An [`End`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ToldEnd {
    qp: u32,
    psn: u32,
    lid: u16,
    gid: [u8; 16],
    by_gid: bool,
    mtu: u32,
    receives: u16,
    receive_bytes: u32,
    /// Address, key and bytes.
    ring: Option<(u64, u32, u32)>,
    /// Of *nic*, with the number of the second queue pair, or 0.
    window_bytes: Option<(u32, u32)>,
}

impl From<End> for ToldEnd {
    fn from(end: End) -> Self {
        let ring = end.flow_control.ring();
        ToldEnd {
            qp: end.qp.0,
            psn: end.psn,
            lid: end.lid.0,
            gid: end.gid.0,
            by_gid: end.by_gid,
            mtu: end.mtu.to_c(),
            receives: end.receives,
            receive_bytes: end.receive_bytes,
            ring: ring.map(|ring| (ring.virtual_address, ring.rkey.0, ring.size_bytes)),
            window_bytes: match end.flow_control {
                FlowControl::Nic {
                    window_bytes,
                    second_qp,
                    ..
                } => Some((window_bytes, second_qp)),
                FlowControl::Credit | FlowControl::Ring(_) => None,
            },
        }
    }
}

impl From<ToldEnd> for End {
    fn from(told: ToldEnd) -> Self {
        let ring = told.ring.map(|(virtual_address, rkey, size_bytes)| Ring {
            virtual_address,
            rkey: RKey(rkey),
            size_bytes,
        });
        End {
            qp: Qpn(told.qp),
            psn: told.psn,
            lid: Lid(told.lid),
            gid: Gid(told.gid),
            by_gid: told.by_gid,
            mtu: Mtu::from_c(told.mtu),
            receives: told.receives,
            receive_bytes: told.receive_bytes,
            flow_control: match (ring, told.window_bytes) {
                (None, _) => FlowControl::Credit,
                (Some(ring), None) => FlowControl::Ring(ring),
                (Some(ring), Some((window_bytes, second_qp))) => FlowControl::Nic {
                    ring,
                    window_bytes,
                    second_qp,
                },
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_comes_back_from_json_as_it_was() {
        let ring = Ring {
            virtual_address: u64::MAX - 70_000,
            rkey: RKey(7),
            size_bytes: 65_536,
        };
        let nic = FlowControl::Nic {
            ring,
            window_bytes: 8192,
            second_qp: 12,
        };
        for flow_control in [FlowControl::Credit, FlowControl::Ring(ring), nic] {
            let end = End {
                qp: Qpn(0xff_ffff),
                psn: 3,
                lid: Lid(4),
                gid: Gid([9; 16]),
                by_gid: true,
                mtu: Mtu::Mtu4096,
                receives: 8,
                receive_bytes: 8208,
                flow_control,
            };
            let text = serde_json::to_string(&ToldEnd::from(end)).expect("it has no maps");
            let told: ToldEnd = serde_json::from_str(&text).expect("as written");
            assert_eq!(End::from(told), end);
        }
    }
}
