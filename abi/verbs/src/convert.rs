//! Attributes of queue pairs and paths between C structures and the adapter's types.
//!
//! A C caller fills only the fields that its mask names, so the others may hold anything: they are not looked at. A
//! named field outside its enum is EINVAL. The adapter judges whether the values are allowed.

use ferriband_transport::types::{
    Access, AddressVector, Completion, MigState, QpAttr, QpAttrMask, QpCap, QpState, QpType,
};
use ferriband_verbs_sys as sys;
use ferriband_wire::{Gid, Lid, Mtu, Psn, QKey, Qpn, Sl};

/// The service of a queue pair; None for those that the adapter does not have (raw packet, driver).
pub const fn qp_type(code: sys::ibv_qp_type) -> Option<QpType> {
    Some(match code {
        sys::IBV_QPT_RC => QpType::Rc,
        sys::IBV_QPT_UC => QpType::Uc,
        sys::IBV_QPT_UD => QpType::Ud,
        sys::IBV_QPT_XRC_SEND => QpType::XrcSend,
        sys::IBV_QPT_XRC_RECV => QpType::XrcRecv,
        _ => return None,
    })
}

/// A queue pair's state by number.
pub const fn qp_state(code: sys::ibv_qp_state) -> Option<QpState> {
    Some(match code {
        sys::IBV_QPS_RESET => QpState::Reset,
        sys::IBV_QPS_INIT => QpState::Init,
        sys::IBV_QPS_RTR => QpState::Rtr,
        sys::IBV_QPS_RTS => QpState::Rts,
        sys::IBV_QPS_SQD => QpState::Sqd,
        sys::IBV_QPS_SQE => QpState::Sqe,
        sys::IBV_QPS_ERR => QpState::Err,
        _ => return None,
    })
}

const fn mig_state(code: sys::ibv_mig_state) -> Option<MigState> {
    Some(match code {
        sys::IBV_MIG_MIGRATED => MigState::Migrated,
        sys::IBV_MIG_REARM => MigState::Rearm,
        sys::IBV_MIG_ARMED => MigState::Armed,
        _ => return None,
    })
}

/// Rights by number; unknown bits are EINVAL. Bits of the optional range (20 to 29) are hints: those that are
/// not known are dropped, as the API demands.
pub fn access(bits: u32) -> Result<Access, i32> {
    const OPTIONAL_RANGE: u32 = 0x3ff0_0000;
    let known_optional = Access::RELAXED_ORDERING.bits();
    Access::from_bits(bits & !(OPTIONAL_RANGE & !known_optional)).ok_or(libc::EINVAL)
}

/// What a queue pair grants its peer. IBV_ACCESS_FLUSH_GLOBAL and IBV_ACCESS_FLUSH_PERSISTENT (rdma-core 45) grant an operation that there
/// is not: they are dropped, as adapters without it drop them. A memory region with them is refused, which is how programs find out.
fn peer_access(bits: u32) -> Result<Access, i32> {
    const FLUSH_GLOBAL: u32 = 1 << 8;
    const FLUSH_PERSISTENT: u32 = 1 << 9;
    access(bits & !(FLUSH_GLOBAL | FLUSH_PERSISTENT))
}

/// The bytes of a GID.
pub fn gid_from_c(gid: &sys::ibv_gid) -> Gid {
    // SAFETY: every byte pattern of the union is a valid array of bytes.
    Gid(unsafe { gid.raw })
}

/// The adapter's address vector of a C one.
pub fn address_vector(attr: &sys::ibv_ah_attr) -> AddressVector {
    AddressVector {
        dgid: gid_from_c(&attr.grh.dgid),
        flow_label: attr.grh.flow_label,
        sgid_index: attr.grh.sgid_index,
        hop_limit: attr.grh.hop_limit,
        traffic_class: attr.grh.traffic_class,
        dlid: Lid(attr.dlid),
        sl: Sl(attr.sl),
        src_path_bits: attr.src_path_bits,
        static_rate: attr.static_rate,
        is_global: attr.is_global != 0,
        port_num: attr.port_num,
    }
}

/// The C form of an address vector.
pub fn address_vector_to_c(av: &AddressVector) -> sys::ibv_ah_attr {
    let mut attr = sys::ibv_ah_attr::default();
    attr.grh.dgid.raw = av.dgid.0;
    attr.grh.flow_label = av.flow_label;
    attr.grh.sgid_index = av.sgid_index;
    attr.grh.hop_limit = av.hop_limit;
    attr.grh.traffic_class = av.traffic_class;
    attr.dlid = av.dlid.0;
    attr.sl = av.sl.0;
    attr.src_path_bits = av.src_path_bits;
    attr.static_rate = av.static_rate;
    attr.is_global = av.is_global.into();
    attr.port_num = av.port_num;
    attr
}

/// Capacities from C.
pub const fn cap(cap: &sys::ibv_qp_cap) -> QpCap {
    QpCap {
        max_send_wr: cap.max_send_wr,
        max_recv_wr: cap.max_recv_wr,
        max_send_sge: cap.max_send_sge,
        max_recv_sge: cap.max_recv_sge,
        max_inline_data: cap.max_inline_data,
    }
}

/// Capacities to C.
pub const fn cap_to_c(cap: &QpCap) -> sys::ibv_qp_cap {
    sys::ibv_qp_cap {
        max_send_wr: cap.max_send_wr,
        max_recv_wr: cap.max_recv_wr,
        max_send_sge: cap.max_send_sge,
        max_recv_sge: cap.max_recv_sge,
        max_inline_data: cap.max_inline_data,
    }
}

/// The attributes that `mask` names, the others at their defaults. Mask bits that no attribute has are EOPNOTSUPP, as from
/// the kernel.
pub fn qp_attr(attr: &sys::ibv_qp_attr, mask: i32) -> Result<(QpAttr, QpAttrMask), i32> {
    let mask = QpAttrMask::from_bits(mask as u32).ok_or(libc::EOPNOTSUPP)?;
    let mut out = QpAttr::default();
    if mask.contains(QpAttrMask::STATE) {
        out.state = qp_state(attr.qp_state).ok_or(libc::EINVAL)?;
    }
    if mask.contains(QpAttrMask::CUR_STATE) {
        out.cur_state = qp_state(attr.cur_qp_state).ok_or(libc::EINVAL)?;
    }
    if mask.contains(QpAttrMask::PATH_MTU) {
        out.path_mtu = u8::try_from(attr.path_mtu)
            .ok()
            .and_then(Mtu::from_code)
            .ok_or(libc::EINVAL)?;
    }
    if mask.contains(QpAttrMask::PATH_MIG_STATE) {
        out.path_mig_state = mig_state(attr.path_mig_state).ok_or(libc::EINVAL)?;
    }
    if mask.contains(QpAttrMask::ACCESS_FLAGS) {
        out.access = peer_access(attr.qp_access_flags)?;
    }
    out.qkey = QKey(attr.qkey);
    out.rq_psn = Psn::new(attr.rq_psn);
    out.sq_psn = Psn::new(attr.sq_psn);
    out.dest_qpn = Qpn(attr.dest_qp_num);
    out.cap = cap(&attr.cap);
    out.av = address_vector(&attr.ah_attr);
    out.alt_av = address_vector(&attr.alt_ah_attr);
    out.pkey_index = attr.pkey_index;
    out.alt_pkey_index = attr.alt_pkey_index;
    out.en_sqd_async_notify = attr.en_sqd_async_notify != 0;
    out.max_rd_atomic = attr.max_rd_atomic;
    out.max_dest_rd_atomic = attr.max_dest_rd_atomic;
    out.min_rnr_timer = attr.min_rnr_timer;
    out.port_num = attr.port_num;
    out.timeout = attr.timeout;
    out.retry_cnt = attr.retry_cnt;
    out.rnr_retry = attr.rnr_retry;
    out.alt_port_num = attr.alt_port_num;
    out.alt_timeout = attr.alt_timeout;
    out.rate_limit = attr.rate_limit;
    Ok((out, mask))
}

/// The mask without what half a queue pair has no use for. Programs give both halves of an XRC connection the attributes
/// of a whole one, and the kernel's verbs layer drops those of the missing half before the state table sees them.
pub fn without_missing_half(qp_type: QpType, mask: QpAttrMask) -> QpAttrMask {
    match qp_type {
        QpType::XrcSend => mask - (QpAttrMask::MAX_DEST_RD_ATOMIC | QpAttrMask::MIN_RNR_TIMER),
        QpType::XrcRecv => {
            mask - (QpAttrMask::MAX_QP_RD_ATOMIC | QpAttrMask::RETRY_CNT | QpAttrMask::RNR_RETRY)
        }
        QpType::Rc | QpType::Uc | QpType::Ud => mask,
    }
}

/// All attributes in C's form, as a query returns them.
pub fn qp_attr_to_c(attr: &QpAttr) -> sys::ibv_qp_attr {
    sys::ibv_qp_attr {
        qp_state: attr.state as u32,
        cur_qp_state: attr.cur_state as u32,
        path_mtu: attr.path_mtu as u32,
        path_mig_state: attr.path_mig_state as u32,
        qkey: attr.qkey.0,
        rq_psn: attr.rq_psn.get(),
        sq_psn: attr.sq_psn.get(),
        dest_qp_num: attr.dest_qpn.0,
        qp_access_flags: attr.access.bits(),
        cap: cap_to_c(&attr.cap),
        ah_attr: address_vector_to_c(&attr.av),
        alt_ah_attr: address_vector_to_c(&attr.alt_av),
        pkey_index: attr.pkey_index,
        alt_pkey_index: attr.alt_pkey_index,
        en_sqd_async_notify: attr.en_sqd_async_notify.into(),
        sq_draining: attr.sq_draining.into(),
        max_rd_atomic: attr.max_rd_atomic,
        max_dest_rd_atomic: attr.max_dest_rd_atomic,
        min_rnr_timer: attr.min_rnr_timer,
        port_num: attr.port_num,
        timeout: attr.timeout,
        retry_cnt: attr.retry_cnt,
        rnr_retry: attr.rnr_retry,
        alt_port_num: attr.alt_port_num,
        alt_timeout: attr.alt_timeout,
        rate_limit: attr.rate_limit,
    }
}

/// A completion in C's form.
#[inline]
pub fn wc(completion: &Completion) -> sys::ibv_wc {
    sys::ibv_wc {
        wr_id: completion.wr_id,
        status: completion.status as u32,
        opcode: completion.opcode as u32,
        vendor_err: completion.vendor_err,
        byte_len: completion.byte_len,
        __bindgen_anon_1: sys::ibv_wc__bindgen_ty_1 {
            imm_data: completion.imm_or_rkey,
        },
        qp_num: completion.qp_num,
        src_qp: completion.src_qp,
        wc_flags: completion.flags.bits(),
        pkey_index: completion.pkey_index,
        slid: completion.slid,
        sl: completion.sl,
        dlid_path_bits: completion.dlid_path_bits,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn full() -> sys::ibv_qp_attr {
        let mut attr = sys::ibv_qp_attr {
            qp_state: sys::IBV_QPS_RTR,
            cur_qp_state: sys::IBV_QPS_INIT,
            path_mtu: sys::IBV_MTU_2048,
            path_mig_state: sys::IBV_MIG_REARM,
            qkey: 1,
            rq_psn: 2,
            sq_psn: 3,
            dest_qp_num: 4,
            qp_access_flags: sys::IBV_ACCESS_REMOTE_READ,
            ..Default::default()
        };
        attr.cap = sys::ibv_qp_cap {
            max_send_wr: 5,
            max_recv_wr: 6,
            max_send_sge: 7,
            max_recv_sge: 8,
            max_inline_data: 9,
        };
        (
            attr.pkey_index,
            attr.alt_pkey_index,
            attr.en_sqd_async_notify,
        ) = (10, 11, 1);
        (
            attr.max_rd_atomic,
            attr.max_dest_rd_atomic,
            attr.min_rnr_timer,
        ) = (12, 13, 14);
        (attr.port_num, attr.timeout, attr.retry_cnt, attr.rnr_retry) = (15, 16, 7, 6);
        (attr.alt_port_num, attr.alt_timeout, attr.rate_limit) = (17, 18, 19);
        attr.ah_attr.grh.dgid.raw = std::array::from_fn(|byte| byte as u8 + 17);
        (
            attr.ah_attr.dlid,
            attr.ah_attr.is_global,
            attr.alt_ah_attr.dlid,
        ) = (21, 1, 22);
        attr
    }

    #[test]
    fn attributes_survive_the_round_trip() {
        let attr = full();
        let (ours, mask) =
            qp_attr(&attr, QpAttrMask::all().bits() as i32).expect("valid attributes");
        assert_eq!(mask, QpAttrMask::all());
        let back = qp_attr_to_c(&ours);
        // SAFETY: every byte pattern of the union is a valid array of bytes.
        assert_eq!(unsafe { back.ah_attr.grh.dgid.raw }[3], 20);
        assert_eq!(
            (
                back.ah_attr.dlid,
                back.ah_attr.is_global,
                back.alt_ah_attr.dlid
            ),
            (21, 1, 22)
        );
        assert_eq!((back.qp_state, back.cur_qp_state, back.path_mtu), (2, 1, 4));
        assert_eq!(
            (back.path_mig_state, back.qp_access_flags, back.dest_qp_num),
            (1, 4, 4)
        );
        assert_eq!((back.cap.max_send_wr, back.cap.max_inline_data), (5, 9));
        assert_eq!(
            (
                back.max_rd_atomic,
                back.max_dest_rd_atomic,
                back.min_rnr_timer
            ),
            (12, 13, 14)
        );
        assert_eq!(
            (
                back.timeout,
                back.retry_cnt,
                back.rnr_retry,
                back.alt_timeout
            ),
            (16, 7, 6, 18)
        );
        assert_eq!(
            (back.pkey_index, back.alt_pkey_index, back.rate_limit),
            (10, 11, 19)
        );
    }

    /// rdma-core's tests ask for them on every queue pair since release 45.
    #[test]
    fn the_right_to_flush_is_dropped_on_queue_pairs_and_refused_on_memory() {
        let mask = sys::IBV_QP_ACCESS_FLAGS as i32;
        let mut attr = full();
        for flush in [1 << 8, 1 << 9, 3 << 8] {
            attr.qp_access_flags = sys::IBV_ACCESS_REMOTE_WRITE | flush;
            let (ours, _) = qp_attr(&attr, mask).expect("known rights");
            assert_eq!(ours.access.bits(), sys::IBV_ACCESS_REMOTE_WRITE);
            assert_eq!(access(attr.qp_access_flags), Err(libc::EINVAL));
        }
        attr.qp_access_flags = 1 << 10;
        assert_eq!(qp_attr(&attr, mask).err(), Some(libc::EINVAL));
    }

    #[test]
    fn fields_that_the_mask_does_not_name_may_hold_anything() {
        let garbage = sys::ibv_qp_attr {
            qp_state: sys::IBV_QPS_ERR,
            cur_qp_state: 99,
            path_mtu: 99,
            path_mig_state: 99,
            qp_access_flags: u32::MAX,
            ..Default::default()
        };
        let (ours, _) =
            qp_attr(&garbage, sys::IBV_QP_STATE as i32).expect("only the state is looked at");
        assert_eq!(ours.state, QpState::Err);
        for named in [
            sys::IBV_QP_CUR_STATE,
            sys::IBV_QP_PATH_MTU,
            sys::IBV_QP_PATH_MIG_STATE,
            sys::IBV_QP_ACCESS_FLAGS,
        ] {
            assert_eq!(
                qp_attr(&garbage, named as i32).err(),
                Some(libc::EINVAL),
                "mask {named:#x}"
            );
        }
    }

    #[test]
    fn half_a_queue_pair_ignores_the_other_half() {
        let whole = QpAttrMask::STATE
            | QpAttrMask::MAX_DEST_RD_ATOMIC
            | QpAttrMask::MIN_RNR_TIMER
            | QpAttrMask::MAX_QP_RD_ATOMIC
            | QpAttrMask::RETRY_CNT
            | QpAttrMask::RNR_RETRY;
        let target = QpAttrMask::STATE | QpAttrMask::MAX_DEST_RD_ATOMIC | QpAttrMask::MIN_RNR_TIMER;
        assert_eq!(without_missing_half(QpType::Rc, whole), whole);
        assert_eq!(without_missing_half(QpType::XrcRecv, whole), target);
        assert_eq!(
            without_missing_half(QpType::XrcSend, whole),
            (whole - target) | QpAttrMask::STATE
        );
    }

    #[test]
    fn unknown_mask_bits_are_not_supported() {
        assert_eq!(qp_attr(&full(), 1 << 22).err(), Some(libc::EOPNOTSUPP));
    }

    #[test]
    fn unknown_optional_access_bits_are_hints_and_others_are_errors() {
        assert_eq!(
            access(1 | 1 << 20 | 1 << 25),
            Ok(Access::LOCAL_WRITE | Access::RELAXED_ORDERING)
        );
        assert_eq!(access(1 << 12), Err(libc::EINVAL));
    }

    #[test]
    fn completions_keep_every_field() {
        use ferriband_transport::types::{WcFlags, WcOpcode, WcStatus};
        let ours = Completion {
            wr_id: 1,
            status: WcStatus::RetryExcErr,
            opcode: WcOpcode::RecvRdmaWithImm,
            vendor_err: 2,
            byte_len: 3,
            imm_or_rkey: 4,
            qp_num: 5,
            src_qp: 6,
            flags: WcFlags::GRH | WcFlags::WITH_INV,
            pkey_index: 7,
            slid: 8,
            sl: 9,
            dlid_path_bits: 10,
            solicited: true,
        };
        let c = wc(&ours);
        assert_eq!(
            (c.wr_id, c.status, c.opcode, c.vendor_err, c.byte_len),
            (1, 12, 129, 2, 3)
        );
        // SAFETY: both members of the union are a u32.
        assert_eq!(unsafe { c.__bindgen_anon_1.imm_data }, 4);
        assert_eq!(
            (c.qp_num, c.src_qp, c.wc_flags, c.pkey_index, c.slid),
            (5, 6, 9, 7, 8)
        );
        assert_eq!((c.sl, c.dlid_path_bits), (9, 10));
    }
}
