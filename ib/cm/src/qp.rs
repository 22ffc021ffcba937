//! What a connection means for its queue pair: the attributes of the three transitions, as rdma_cm in Linux computes them
//! for `rdma_init_qp_attr`, so that a program that makes the transitions itself finds what it expects.

use crate::connection::{Connection, PathEnd};
use crate::machine::Machine;
use crate::params::Path;
use crate::table::State;
use crate::types::LocalEnd;
use ferriband_transport::types::{
    Access, AddressVector, MigState, QpAttr, QpAttrMask as Mask, QpState, QpType,
};
use ferriband_wire::{CommId, QKey, TimeCode};

/// The acknowledgement time-out of a path: the adapter's delay and twice the packet's life, each a power of two. A code
/// more doubles the time, so the greater of the two counts, and one is added only if the other is at least half of it.
pub(crate) const fn ack_timeout(delay: TimeCode, packet_life: TimeCode) -> TimeCode {
    let twice_life = packet_life.0.saturating_add(1);
    let (greater, less) = if twice_life >= delay.0 {
        (twice_life, delay.0)
    } else {
        (delay.0, twice_life)
    };
    let code = greater.saturating_add((less.saturating_add(1) >= greater) as u8);
    if code < TimeCode::MAX.0 {
        TimeCode(code)
    } else {
        TimeCode::MAX
    }
}

/// A path as an address vector.
pub(crate) fn path_vector(local: &LocalEnd, path: &Path) -> AddressVector {
    AddressVector {
        dgid: path.remote_gid,
        flow_label: path.flow_label,
        sgid_index: local.sgid_index,
        hop_limit: path.hop_limit,
        traffic_class: path.traffic_class,
        dlid: if local.ethernet {
            ferriband_wire::Lid(0)
        } else {
            path.remote_lid
        },
        sl: path.sl,
        src_path_bits: 0,
        static_rate: path.packet_rate,
        is_global: local.ethernet || path.hop_limit > 1,
        port_num: local.port_num,
    }
}

/// INIT of a connected queue pair before there is a connection: no rights yet, the transition after it grants them.
pub fn connected_init(port_num: u8, pkey_index: u16) -> (QpAttr, Mask) {
    let attr = QpAttr {
        state: QpState::Init,
        port_num,
        pkey_index,
        ..QpAttr::default()
    };
    let mask = Mask::STATE | Mask::PKEY_INDEX | Mask::PORT | Mask::ACCESS_FLAGS;
    (attr, mask)
}

/// A datagram queue pair's way to `to`; None if it is not one of the three. It has no connection.
pub fn datagram(to: QpState, port_num: u8, pkey_index: u16, qkey: QKey) -> Option<(QpAttr, Mask)> {
    let attr = QpAttr {
        state: to,
        port_num,
        pkey_index,
        qkey,
        ..QpAttr::default()
    };
    let mask = match to {
        QpState::Init => Mask::STATE | Mask::PKEY_INDEX | Mask::PORT | Mask::QKEY,
        QpState::Rtr => Mask::STATE,
        QpState::Rts => Mask::STATE | Mask::SQ_PSN,
        _ => return None,
    };
    Some((attr, mask))
}

impl Machine {
    /// Attributes and mask of the transition of the identifier's queue pair to INIT, RTR or RTS; None if there is no such
    /// identifier, if too little is known yet (INIT needs a REQ, the others both sides), or for other transitions.
    ///
    /// What the consumer has set itself (`RDMA_OPTION_ID_ACK_TIMEOUT`, a minimal RNR timer) the caller puts in place of
    /// `timeout` and `min_rnr_timer` where the mask names them.
    pub fn qp_attr(&self, comm: CommId, to: QpState) -> Option<(QpAttr, Mask)> {
        let connection = self.connections.get(&comm.0)?;
        let primary = connection.primary.as_ref()?;
        let both = match connection.state {
            State::ReqSent | State::MraReqRcvd => false,
            State::ReqRcvd
            | State::MraReqSent
            | State::RepSent
            | State::MraRepRcvd
            | State::RepRcvd
            | State::MraRepSent => true,
            state if state.is_established() => true,
            _ => return None,
        };
        match to {
            QpState::Init => Some(init(connection, primary)),
            QpState::Rtr if both => Some(ready_to_receive(connection, primary)),
            QpState::Rts if both && connection.path_changed => new_alternate(connection),
            QpState::Rts if both => Some(ready_to_send(connection, primary)),
            _ => None,
        }
    }
}

fn init(connection: &Connection, primary: &PathEnd) -> (QpAttr, Mask) {
    let mut access = Access::REMOTE_WRITE;
    if connection.responder_resources > 0 {
        access |= Access::REMOTE_READ | Access::REMOTE_ATOMIC;
    }
    let (attr, mask) = connected_init(primary.local.port_num, primary.local.pkey_index);
    (QpAttr { access, ..attr }, mask)
}

fn alternate_of(attr: QpAttr, alternate: &PathEnd) -> QpAttr {
    QpAttr {
        alt_av: alternate.av,
        alt_pkey_index: alternate.local.pkey_index,
        alt_port_num: alternate.local.port_num,
        alt_timeout: alternate.timeout.0,
        ..attr
    }
}

fn ready_to_receive(connection: &Connection, primary: &PathEnd) -> (QpAttr, Mask) {
    let mut attr = QpAttr {
        state: QpState::Rtr,
        av: primary.av,
        path_mtu: connection.path_mtu,
        dest_qpn: connection.remote_qpn,
        rq_psn: connection.rq_psn,
        ..QpAttr::default()
    };
    let mut mask = Mask::STATE | Mask::AV | Mask::PATH_MTU | Mask::DEST_QPN | Mask::RQ_PSN;
    if matches!(connection.qp_type, QpType::Rc | QpType::XrcRecv) {
        // An RNR timer of 0 is the longest, 655 ms.
        mask |= Mask::MAX_DEST_RD_ATOMIC | Mask::MIN_RNR_TIMER;
        attr.max_dest_rd_atomic = connection.responder_resources;
    }
    if let Some(alternate) = &connection.alternate {
        mask |= Mask::ALT_PATH;
        attr = alternate_of(attr, alternate);
    }
    (attr, mask)
}

fn ready_to_send(connection: &Connection, primary: &PathEnd) -> (QpAttr, Mask) {
    let mut attr = QpAttr {
        state: QpState::Rts,
        sq_psn: connection.sq_psn,
        ..QpAttr::default()
    };
    let mut mask = Mask::STATE | Mask::SQ_PSN;
    if matches!(connection.qp_type, QpType::Rc | QpType::XrcSend) {
        mask |= Mask::RETRY_CNT | Mask::RNR_RETRY | Mask::MAX_QP_RD_ATOMIC;
        attr.retry_cnt = connection.retry_count;
        attr.rnr_retry = connection.rnr_retry_count;
        attr.max_rd_atomic = connection.initiator_depth;
    }
    if connection.qp_type != QpType::Uc {
        mask |= Mask::TIMEOUT;
        attr.timeout = primary.timeout.0;
    }
    if connection.alternate.is_some() {
        mask |= Mask::PATH_MIG_STATE;
        attr.path_mig_state = MigState::Rearm;
    }
    (attr, mask)
}

/// RTS of a queue pair that is in RTS: only the alternate path is new.
fn new_alternate(connection: &Connection) -> Option<(QpAttr, Mask)> {
    let attr = QpAttr {
        state: QpState::Rts,
        path_mig_state: MigState::Rearm,
        ..QpAttr::default()
    };
    let attr = alternate_of(attr, connection.alternate.as_ref()?);
    Some((attr, Mask::ALT_PATH | Mask::PATH_MIG_STATE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_greater_part_of_a_time_out_counts() {
        let code = |delay, life| ack_timeout(TimeCode(delay), TimeCode(life)).0;
        // rxe: an adapter's delay of 15 and a packet's life of 18 give the 19 of the captured REQ.
        assert_eq!(code(15, 18), 19);
        // Equal parts, and parts of which one is half the other, double.
        assert_eq!((code(19, 18), code(18, 18), code(20, 18)), (20, 20, 21));
        assert_eq!((code(17, 18), code(21, 18)), (19, 21));
        assert_eq!((code(31, 31), code(255, 255), code(0, 0)), (31, 31, 2));
    }

    #[test]
    fn datagram_queue_pairs_need_no_connection() {
        let (attr, mask) = datagram(QpState::Init, 1, 0, QKey(7)).expect("a transition");
        assert_eq!((attr.qkey, attr.port_num), (QKey(7), 1));
        assert_eq!(
            mask,
            Mask::STATE | Mask::PKEY_INDEX | Mask::PORT | Mask::QKEY
        );
        assert_eq!(datagram(QpState::Err, 1, 0, QKey(7)), None);
    }
}
