//! The state transition table of a queue pair: which attributes a modify call must and may name, per
//! service and per pair of states, and which values they may have.
//!
//! Owns: the table and the value checks. Pure functions; it knows neither queues nor timers: what a
//! transition does to work in progress is the machine's business.
//!
//! Source: IBA 10.3.1 and table "QP State Transition Properties" (11.2.5.2), as the Linux kernel's
//! `qp_state_table` reads it (invariant I12). One difference, on purpose: the IBA lets any state go to
//! Error, Reset included; so does this table.

use crate::migration::{self, Asked};
use crate::types::{MigState, QpAttr, QpAttrMask, QpState, QpType};
use ferriband_wire::Mtu;

type Mask = QpAttrMask;

/// Why a modify call was refused. Nothing was changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum TransitionError {
    /// The table has no such transition.
    #[error("no transition from {from:?} to {to:?} for {qp_type:?}")]
    NoSuchTransition {
        /// Service.
        qp_type: QpType,
        /// Present state.
        from: QpState,
        /// State asked for.
        to: QpState,
    },
    /// Attributes that the transition requires were not named.
    #[error("{from:?} to {to:?} for {qp_type:?} requires {missing:?}")]
    Missing {
        /// Service.
        qp_type: QpType,
        /// Present state.
        from: QpState,
        /// State asked for.
        to: QpState,
        /// What is missing.
        missing: QpAttrMask,
    },
    /// Attributes were named that the transition does not take.
    #[error("{from:?} to {to:?} for {qp_type:?} does not take {illegal:?}")]
    Illegal {
        /// Service.
        qp_type: QpType,
        /// Present state.
        from: QpState,
        /// State asked for.
        to: QpState,
        /// What is too much.
        illegal: QpAttrMask,
    },
    /// `cur_state` was named and the queue pair is in another state.
    #[error("the caller assumes {assumed:?}, the queue pair is in {actual:?}")]
    CurState {
        /// What the caller believes.
        assumed: QpState,
        /// What is.
        actual: QpState,
    },
    /// A program may not ask for this path migration state now (IBA 17.2.8).
    #[error(
        "the path goes from {from:?} to {to:?} by itself, if at all (alternate path: {loaded})"
    )]
    PathState {
        /// Present state of the path.
        from: MigState,
        /// State asked for.
        to: MigState,
        /// An alternate path is loaded.
        loaded: bool,
    },
    /// An attribute's value is out of range.
    #[error("{attribute:?} = {got}, must be {min}..={max}")]
    Value {
        /// The attribute.
        attribute: QpAttrMask,
        /// The value.
        got: u64,
        /// Least legal value.
        min: u64,
        /// Greatest legal value.
        max: u64,
    },
}

/// What the device offers; bounds of the value checks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QpLimits {
    /// Ports, numbered from 1.
    pub ports: u8,
    /// Entries of the P_Key table.
    pub pkeys: u16,
    /// Entries of the GID table.
    pub gids: u16,
    /// Largest path MTU of the port.
    pub max_mtu: Mtu,
    /// Greatest `max_rd_atomic` (reads and atomics outstanding as initiator).
    pub max_rd_atomic: u8,
    /// Greatest `max_dest_rd_atomic` (reads and atomics accepted as target).
    pub max_dest_rd_atomic: u8,
}

impl Default for QpLimits {
    fn default() -> Self {
        QpLimits {
            ports: 1,
            pkeys: 1,
            gids: 256,
            max_mtu: Mtu::M4096,
            max_rd_atomic: 128,
            max_dest_rd_atomic: 128,
        }
    }
}

/// Required and optional attributes of the transition `from` -> `to`; None when there is none.
/// `STATE` is in neither: it is always allowed.
pub fn attributes(qp_type: QpType, from: QpState, to: QpState) -> Option<(QpAttrMask, QpAttrMask)> {
    use QpState::{Err, Init, Reset, Rtr, Rts, Sqd, Sqe};
    let none = Mask::empty();
    Some(match (from, to) {
        (_, Reset | Err) => (none, none),
        (Reset, Init) => (init_attributes(qp_type), none),
        (Init, Init) => (none, init_attributes(qp_type)),
        (Init, Rtr) => rtr_attributes(qp_type),
        (Rtr, Rts) => (rts_required(qp_type), rts_optional(qp_type)),
        (Rts | Sqd, Rts) => (none, rts_optional(qp_type)),
        (Rts, Sqd) => (none, Mask::EN_SQD_ASYNC_NOTIFY),
        (Sqd, Sqd) => (none, sqd_optional(qp_type)),
        (Sqe, Rts) => (
            none,
            match qp_type {
                QpType::Ud => Mask::CUR_STATE | Mask::QKEY,
                QpType::Uc => Mask::CUR_STATE | Mask::ACCESS_FLAGS,
                // IBA 10.3.1.7: a send queue error alone exists for unreliable services only.
                QpType::Rc | QpType::XrcSend | QpType::XrcRecv => return None,
            },
        ),
        _ => return None,
    })
}

const fn init_attributes(qp_type: QpType) -> Mask {
    let common = Mask::PKEY_INDEX.union(Mask::PORT);
    match qp_type {
        QpType::Ud => common.union(Mask::QKEY),
        QpType::Rc | QpType::Uc | QpType::XrcSend | QpType::XrcRecv => {
            common.union(Mask::ACCESS_FLAGS)
        }
    }
}

fn rtr_attributes(qp_type: QpType) -> (Mask, Mask) {
    let connected = Mask::AV | Mask::PATH_MTU | Mask::DEST_QPN | Mask::RQ_PSN;
    let optional = Mask::ALT_PATH | Mask::ACCESS_FLAGS | Mask::PKEY_INDEX;
    match qp_type {
        QpType::Ud => (Mask::empty(), Mask::PKEY_INDEX | Mask::QKEY),
        QpType::Uc | QpType::XrcSend => (connected, optional),
        QpType::Rc | QpType::XrcRecv => (
            connected | Mask::MAX_DEST_RD_ATOMIC | Mask::MIN_RNR_TIMER,
            optional,
        ),
    }
}

fn rts_required(qp_type: QpType) -> Mask {
    match qp_type {
        QpType::Ud | QpType::Uc => Mask::SQ_PSN,
        QpType::Rc | QpType::XrcSend => {
            Mask::TIMEOUT
                | Mask::RETRY_CNT
                | Mask::RNR_RETRY
                | Mask::SQ_PSN
                | Mask::MAX_QP_RD_ATOMIC
        }
        QpType::XrcRecv => Mask::TIMEOUT | Mask::SQ_PSN,
    }
}

fn rts_optional(qp_type: QpType) -> Mask {
    let connected = Mask::CUR_STATE | Mask::ALT_PATH | Mask::ACCESS_FLAGS | Mask::PATH_MIG_STATE;
    match qp_type {
        QpType::Ud => Mask::CUR_STATE | Mask::QKEY,
        QpType::Uc | QpType::XrcSend => connected,
        QpType::Rc | QpType::XrcRecv => connected | Mask::MIN_RNR_TIMER,
    }
}

fn sqd_optional(qp_type: QpType) -> Mask {
    let connected =
        Mask::AV | Mask::ALT_PATH | Mask::ACCESS_FLAGS | Mask::PKEY_INDEX | Mask::PATH_MIG_STATE;
    let initiator =
        Mask::PORT | Mask::TIMEOUT | Mask::RETRY_CNT | Mask::RNR_RETRY | Mask::MAX_QP_RD_ATOMIC;
    let target = Mask::PORT | Mask::TIMEOUT | Mask::MAX_DEST_RD_ATOMIC | Mask::MIN_RNR_TIMER;
    match qp_type {
        QpType::Ud => Mask::PKEY_INDEX | Mask::QKEY,
        QpType::Uc => connected,
        QpType::Rc => connected | initiator | target,
        QpType::XrcSend => connected | initiator,
        QpType::XrcRecv => connected | target,
    }
}

/// Checks the attribute mask of a transition, not the values.
///
/// # Errors
/// The transition does not exist, or the mask names too little or too much.
pub fn check_transition(
    qp_type: QpType,
    from: QpState,
    to: QpState,
    mask: QpAttrMask,
) -> Result<(), TransitionError> {
    let Some((required, optional)) = attributes(qp_type, from, to) else {
        return Err(TransitionError::NoSuchTransition { qp_type, from, to });
    };
    let missing = required - mask;
    if !missing.is_empty() {
        return Err(TransitionError::Missing {
            qp_type,
            from,
            to,
            missing,
        });
    }
    let illegal = mask - required - optional - Mask::STATE;
    if !illegal.is_empty() {
        return Err(TransitionError::Illegal {
            qp_type,
            from,
            to,
            illegal,
        });
    }
    Ok(())
}

/// Checks the values of the attributes that `mask` names. A PSN cannot be out of range: its type
/// keeps 24 bits, as the kernel masks them.
///
/// # Errors
/// The first value out of range, in the order of the verbs' mask bits.
pub fn check_values(
    new: &QpAttr,
    mask: QpAttrMask,
    limits: &QpLimits,
) -> Result<(), TransitionError> {
    let check = |attribute: Mask, got: u64, min: u64, max: u64| {
        if mask.contains(attribute) && !(min..=max).contains(&got) {
            Err(TransitionError::Value {
                attribute,
                got,
                min,
                max,
            })
        } else {
            Ok(())
        }
    };
    let ports = u64::from(limits.ports);
    let last_pkey = u64::from(limits.pkeys.max(1)) - 1;
    let last_gid = u64::from(limits.gids.max(1)) - 1;
    check(Mask::PKEY_INDEX, new.pkey_index.into(), 0, last_pkey)?;
    check(Mask::PORT, new.port_num.into(), 1, ports)?;
    check(Mask::AV, new.av.port_num.into(), 1, ports)?;
    check(Mask::AV, new.av.sl.0.into(), 0, 15)?;
    if new.av.is_global {
        check(Mask::AV, new.av.sgid_index.into(), 0, last_gid)?;
    }
    check(
        Mask::PATH_MTU,
        new.path_mtu as u64,
        1,
        limits.max_mtu as u64,
    )?;
    check(Mask::TIMEOUT, new.timeout.into(), 0, 31)?;
    check(Mask::RETRY_CNT, new.retry_cnt.into(), 0, 7)?;
    check(Mask::RNR_RETRY, new.rnr_retry.into(), 0, 7)?;
    check(
        Mask::MAX_QP_RD_ATOMIC,
        new.max_rd_atomic.into(),
        0,
        limits.max_rd_atomic.into(),
    )?;
    check(Mask::ALT_PATH, new.alt_port_num.into(), 1, ports)?;
    // the path says the port once more
    let alt_port = u64::from(new.alt_port_num);
    check(
        Mask::ALT_PATH,
        new.alt_av.port_num.into(),
        alt_port,
        alt_port,
    )?;
    check(Mask::ALT_PATH, new.alt_pkey_index.into(), 0, last_pkey)?;
    check(Mask::ALT_PATH, new.alt_timeout.into(), 0, 31)?;
    check(Mask::ALT_PATH, new.alt_av.sl.0.into(), 0, 15)?;
    if new.alt_av.is_global {
        check(Mask::ALT_PATH, new.alt_av.sgid_index.into(), 0, last_gid)?;
    }
    check(Mask::MIN_RNR_TIMER, new.min_rnr_timer.into(), 0, 31)?;
    check(
        Mask::MAX_DEST_RD_ATOMIC,
        new.max_dest_rd_atomic.into(),
        0,
        limits.max_dest_rd_atomic.into(),
    )?;
    check(Mask::DEST_QPN, new.dest_qpn.0.into(), 0, 0xff_ffff)
}

/// Whether the path migration state that `mask` names may be asked for, where it is `attr`'s.
fn check_path_state(attr: &QpAttr, new: &QpAttr, mask: QpAttrMask) -> Result<(), TransitionError> {
    let loaded = migration::is_loaded(attr) || mask.contains(Mask::ALT_PATH);
    let (from, to) = (attr.path_mig_state, new.path_mig_state);
    let refused = mask.contains(Mask::PATH_MIG_STATE)
        && migration::on_request(from, to, loaded) == Asked::Refused;
    match refused {
        true => Err(TransitionError::PathState { from, to, loaded }),
        false => Ok(()),
    }
}

/// Copies the attributes that `mask` names from `new` into `attr`. Checks nothing. Going to Reset
/// forgets everything but the capacities.
pub fn apply(attr: &mut QpAttr, new: &QpAttr, mask: QpAttrMask) {
    if mask.contains(Mask::STATE) && new.state == QpState::Reset {
        *attr = QpAttr {
            cap: attr.cap,
            ..QpAttr::default()
        };
        return;
    }
    macro_rules! copy {
        ($($bit:ident => $($field:ident),+;)*) => {
            $(if mask.contains(Mask::$bit) { $(attr.$field = new.$field;)+ })*
        };
    }
    copy! {
        STATE => state;
        EN_SQD_ASYNC_NOTIFY => en_sqd_async_notify;
        ACCESS_FLAGS => access;
        PKEY_INDEX => pkey_index;
        PORT => port_num;
        QKEY => qkey;
        AV => av;
        PATH_MTU => path_mtu;
        TIMEOUT => timeout;
        RETRY_CNT => retry_cnt;
        RNR_RETRY => rnr_retry;
        RQ_PSN => rq_psn;
        MAX_QP_RD_ATOMIC => max_rd_atomic;
        ALT_PATH => alt_av, alt_pkey_index, alt_port_num, alt_timeout;
        MIN_RNR_TIMER => min_rnr_timer;
        SQ_PSN => sq_psn;
        MAX_DEST_RD_ATOMIC => max_dest_rd_atomic;
        PATH_MIG_STATE => path_mig_state;
        CAP => cap;
        DEST_QPN => dest_qpn;
        RATE_LIMIT => rate_limit;
    }
    attr.cur_state = attr.state;
}

/// The whole modify call: checks mask and values, then applies them. Returns the states before and after.
///
/// # Errors
/// As the checks; `attr` is untouched then (I12).
pub fn modify(
    attr: &mut QpAttr,
    qp_type: QpType,
    new: &QpAttr,
    mask: QpAttrMask,
    limits: &QpLimits,
) -> Result<(QpState, QpState), TransitionError> {
    let from = attr.state;
    let to = if mask.contains(Mask::STATE) {
        new.state
    } else {
        from
    };
    check_transition(qp_type, from, to, mask)?;
    if mask.contains(Mask::CUR_STATE) && new.cur_state != from {
        return Err(TransitionError::CurState {
            assumed: new.cur_state,
            actual: from,
        });
    }
    check_values(new, mask, limits)?;
    check_path_state(attr, new, mask)?;
    apply(attr, new, mask);
    // a wish of the transition, not an attribute that stays: each one says it anew (IBA 11.2.5.2)
    if (from, to) != (QpState::Sqd, QpState::Sqd) && !mask.contains(Mask::EN_SQD_ASYNC_NOTIFY) {
        attr.en_sqd_async_notify = false;
    }
    Ok((from, to))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::{AddressVector, MigState};
    use ferriband_wire::{Psn, QKey, Qpn};
    use proptest::prelude::*;

    const TYPES: [QpType; 5] = [
        QpType::Rc,
        QpType::Uc,
        QpType::Ud,
        QpType::XrcSend,
        QpType::XrcRecv,
    ];
    const STATES: [QpState; 7] = [
        QpState::Reset,
        QpState::Init,
        QpState::Rtr,
        QpState::Rts,
        QpState::Sqd,
        QpState::Sqe,
        QpState::Err,
    ];

    fn legal_values() -> QpAttr {
        QpAttr {
            path_mtu: Mtu::M1024,
            qkey: QKey(7),
            rq_psn: Psn::new(0xff_fffe),
            sq_psn: Psn::new(3),
            dest_qpn: Qpn(0x12),
            av: AddressVector {
                port_num: 1,
                ..AddressVector::default()
            },
            alt_av: AddressVector {
                port_num: 1,
                ..AddressVector::default()
            },
            alt_port_num: 1,
            port_num: 1,
            max_rd_atomic: 4,
            max_dest_rd_atomic: 5,
            min_rnr_timer: 12,
            timeout: 14,
            retry_cnt: 7,
            rnr_retry: 7,
            path_mig_state: MigState::Rearm,
            ..QpAttr::default()
        }
    }

    /// The transitions that exist, written out by hand so that the table is compared with something.
    #[test]
    fn only_the_transitions_of_the_iba_exist() {
        use QpState::{Init, Rtr, Rts, Sqd, Sqe};
        for qp_type in TYPES {
            for from in STATES {
                for to in STATES {
                    let reliable = !matches!(qp_type, QpType::Ud | QpType::Uc);
                    let expected = matches!(to, QpState::Reset | QpState::Err)
                        || matches!(
                            (from, to),
                            (QpState::Reset, Init)
                                | (Init, Init | Rtr)
                                | (Rtr, Rts)
                                | (Rts, Rts | Sqd)
                                | (Sqd, Rts | Sqd)
                        )
                        || ((from, to) == (Sqe, Rts) && !reliable);
                    assert_eq!(
                        attributes(qp_type, from, to).is_some(),
                        expected,
                        "{qp_type:?} {from:?} {to:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn rtr_of_rc_names_what_is_missing() {
        let error = check_transition(
            QpType::Rc,
            QpState::Init,
            QpState::Rtr,
            Mask::STATE | Mask::AV | Mask::PATH_MTU,
        );
        let missing =
            Mask::DEST_QPN | Mask::RQ_PSN | Mask::MAX_DEST_RD_ATOMIC | Mask::MIN_RNR_TIMER;
        assert!(
            matches!(error, Err(TransitionError::Missing { missing: m, .. }) if m == missing),
            "{error:?}"
        );
    }

    #[test]
    fn uc_takes_no_retry_count() {
        let error = check_transition(
            QpType::Uc,
            QpState::Rtr,
            QpState::Rts,
            Mask::STATE | Mask::SQ_PSN | Mask::RETRY_CNT,
        );
        assert!(
            matches!(error, Err(TransitionError::Illegal { illegal, .. }) if illegal == Mask::RETRY_CNT)
        );
    }

    #[test]
    fn values_out_of_range_name_the_attribute() {
        let limits = QpLimits::default();
        type Break = fn(&mut QpAttr);
        let cases: [(Mask, Break); 9] = [
            (Mask::TIMEOUT, |a| a.timeout = 32),
            (Mask::RETRY_CNT, |a| a.retry_cnt = 8),
            (Mask::RNR_RETRY, |a| a.rnr_retry = 8),
            (Mask::MIN_RNR_TIMER, |a| a.min_rnr_timer = 32),
            (Mask::MAX_QP_RD_ATOMIC, |a| a.max_rd_atomic = 129),
            (Mask::MAX_DEST_RD_ATOMIC, |a| a.max_dest_rd_atomic = 129),
            (Mask::DEST_QPN, |a| a.dest_qpn = Qpn(1 << 24)),
            (Mask::PORT, |a| a.port_num = 0),
            (Mask::AV, |a| a.av.port_num = 2),
        ];
        for (bit, break_it) in cases {
            let mut attr = legal_values();
            assert_eq!(check_values(&attr, Mask::all(), &limits), Ok(()));
            break_it(&mut attr);
            let error = check_values(&attr, bit, &limits);
            assert!(
                matches!(error, Err(TransitionError::Value { attribute, .. }) if attribute == bit),
                "{bit:?}"
            );
            assert_eq!(
                check_values(&attr, Mask::all() - bit, &limits),
                Ok(()),
                "unnamed values are not looked at"
            );
        }
    }

    #[test]
    fn a_wrong_cur_state_is_refused() {
        let mut attr = QpAttr {
            state: QpState::Rts,
            ..QpAttr::default()
        };
        let new = QpAttr {
            state: QpState::Rts,
            cur_state: QpState::Sqd,
            ..QpAttr::default()
        };
        let before = attr;
        let result = modify(
            &mut attr,
            QpType::Rc,
            &new,
            Mask::STATE | Mask::CUR_STATE,
            &QpLimits::default(),
        );
        assert!(matches!(result, Err(TransitionError::CurState { .. })));
        assert_eq!(attr, before);
    }

    #[test]
    fn each_way_to_sqd_asks_for_its_own_event() {
        let mut attr = QpAttr {
            state: QpState::Rts,
            ..QpAttr::default()
        };
        let limits = QpLimits::default();
        let mut go = |state, notify: bool| {
            let new = QpAttr {
                state,
                en_sqd_async_notify: true,
                ..QpAttr::default()
            };
            let named = match notify {
                true => Mask::EN_SQD_ASYNC_NOTIFY,
                false => Mask::empty(),
            };
            modify(&mut attr, QpType::Rc, &new, Mask::STATE | named, &limits).map(|_| ())?;
            Ok::<_, TransitionError>(attr.en_sqd_async_notify)
        };
        use QpState::{Rts, Sqd};
        assert_eq!(go(Sqd, true), Ok(true));
        assert_eq!(go(Sqd, false), Ok(true), "nothing but attributes changes");
        assert_eq!(go(Rts, false), Ok(false));
        assert_eq!(go(Sqd, false), Ok(false), "it was asked for earlier");
        assert!(go(Sqd, true).is_err(), "it is there already");
        assert_eq!(go(Rts, false), Ok(false));
        assert!(go(Rts, true).is_err(), "nothing drains");
    }

    #[test]
    fn reset_forgets_all_but_the_capacities() {
        let mut attr = legal_values();
        attr.state = QpState::Rts;
        attr.cap.max_send_wr = 9;
        let new = QpAttr::default();
        assert_eq!(
            modify(
                &mut attr,
                QpType::Rc,
                &new,
                Mask::STATE,
                &QpLimits::default()
            ),
            Ok((QpState::Rts, QpState::Reset))
        );
        assert_eq!(attr.cap.max_send_wr, 9);
        assert_eq!(attr.dest_qpn, Qpn(0));
    }

    proptest! {
        /// I12: an invalid mask changes nothing; a valid one changes what it names and nothing else.
        #[test]
        fn i12_a_refused_modify_changes_nothing(
            kind in 0..TYPES.len(), from in 0..STATES.len(), to in 0..STATES.len(), bits in any::<u32>(),
        ) {
            let mask = Mask::from_bits_truncate(bits);
            let mut attr = QpAttr { state: STATES[from], ..QpAttr::default() };
            let before = attr;
            let new = QpAttr { state: STATES[to], cur_state: STATES[from], ..legal_values() };
            let result = modify(&mut attr, TYPES[kind], &new, mask, &QpLimits::default());
            match result {
                Err(_) => prop_assert_eq!(attr, before),
                Ok((_, after)) => {
                    prop_assert_eq!(attr.state, after);
                    if after != QpState::Reset {
                        prop_assert_eq!(attr.dest_qpn == new.dest_qpn, mask.contains(Mask::DEST_QPN));
                        prop_assert_eq!(attr.timeout == new.timeout, mask.contains(Mask::TIMEOUT));
                        prop_assert_eq!(attr.rq_psn == new.rq_psn, mask.contains(Mask::RQ_PSN));
                    }
                }
            }
        }

        /// I12: exactly the table's mask passes; any required bit taken away or foreign bit added fails.
        #[test]
        fn i12_masks_are_exact(kind in 0..TYPES.len(), from in 0..STATES.len(), to in 0..STATES.len(), bit in 0u32..26) {
            let (qp_type, from, to) = (TYPES[kind], STATES[from], STATES[to]);
            let Some((required, optional)) = attributes(qp_type, from, to) else { return Ok(()) };
            let bit = Mask::from_bits_truncate(1 << bit);
            prop_assert!(check_transition(qp_type, from, to, required | optional | Mask::STATE).is_ok());
            prop_assert!((required & optional).is_empty());
            if !bit.is_empty() && required.contains(bit) {
                prop_assert!(check_transition(qp_type, from, to, required - bit).is_err());
            }
            let known = required.contains(bit) || optional.contains(bit) || bit == Mask::STATE;
            prop_assert_eq!(check_transition(qp_type, from, to, required | bit).is_ok(), known);
        }
    }
}
