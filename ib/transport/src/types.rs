//! The vocabulary of a queue pair that every wire shares: states, attributes, work requests and
//! completions. Values equal those of `infiniband/verbs.h` wherever the verbs API names them, so the C face
//! converts by number.

use ferriband_wire::{Gid, Lid, Mtu, Psn, QKey, Qpn, Sl};

/// Nanoseconds on a monotonic clock that the caller supplies; the machines never read a clock.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Hash)]
pub struct Instant(pub u64);

impl Instant {
    /// This instant moved forward by `ns` nanoseconds (saturating).
    pub const fn plus_ns(self, ns: u64) -> Self {
        Instant(self.0.saturating_add(ns))
    }
}

/// Transport service of a queue pair.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[repr(u32)]
pub enum QpType {
    /// Reliable connection.
    Rc = 2,
    /// Unreliable connection.
    Uc = 3,
    /// Unreliable datagram.
    Ud = 4,
    /// Initiator of an extended reliable connection: a send queue only.
    XrcSend = 9,
    /// Target of an extended reliable connection: belongs to its XRC domain.
    XrcRecv = 10,
}

/// State of a queue pair (IBA 10.3.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, Default)]
#[repr(u32)]
pub enum QpState {
    /// As created.
    #[default]
    Reset = 0,
    /// Receives may be posted; nothing moves.
    Init = 1,
    /// Ready to receive.
    Rtr = 2,
    /// Ready to send.
    Rts = 3,
    /// Send queue draining or drained.
    Sqd = 4,
    /// Send queue error (UC and UD).
    Sqe = 5,
    /// Everything flushes.
    Err = 6,
}

bitflags::bitflags! {
    /// Rights of a memory region, and the remote rights a queue pair grants (`ibv_access_flags`).
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
    pub struct Access: u32 {
        /// The adapter may write locally (receives, read responses).
        const LOCAL_WRITE = 1;
        /// RDMA WRITE by a peer.
        const REMOTE_WRITE = 1 << 1;
        /// RDMA READ by a peer.
        const REMOTE_READ = 1 << 2;
        /// Atomics by a peer.
        const REMOTE_ATOMIC = 1 << 3;
        /// Memory windows may be bound to the region.
        const MW_BIND = 1 << 4;
        /// Remote addresses are offsets from the region's start.
        const ZERO_BASED = 1 << 5;
        /// On-demand paging: meaningless here, accepted.
        const ON_DEMAND = 1 << 6;
        /// The region is made of huge pages: a hint.
        const HUGETLB = 1 << 7;
        /// Writes may become visible out of order: a hint.
        const RELAXED_ORDERING = 1 << 20;
    }
}

bitflags::bitflags! {
    /// Flags of a send work request (`ibv_send_flags`).
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
    pub struct SendFlags: u32 {
        /// Wait until earlier reads and atomics of this queue pair have completed.
        const FENCE = 1;
        /// Generate a completion.
        const SIGNALED = 1 << 1;
        /// Raise a solicited event at the receiver.
        const SOLICITED = 1 << 2;
        /// The data was copied when posting.
        const INLINE = 1 << 3;
        /// Checksum offload: raw packets only.
        const IP_CSUM = 1 << 4;
    }
}

/// One element of a scatter/gather list, laid out as `struct ibv_sge`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub struct Sge {
    /// Virtual address (or offset into a zero-based region).
    pub addr: u64,
    /// Length in bytes.
    pub length: u32,
    /// Local key.
    pub lkey: u32,
}

/// Operation of a send work request (`ibv_wr_opcode`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[repr(u32)]
pub enum SendOpcode {
    /// RDMA WRITE.
    RdmaWrite = 0,
    /// RDMA WRITE with immediate: consumes a receive at the peer.
    RdmaWriteImm = 1,
    /// SEND.
    Send = 2,
    /// SEND with immediate.
    SendImm = 3,
    /// RDMA READ.
    RdmaRead = 4,
    /// Compare and swap of 8 bytes.
    CmpSwap = 5,
    /// Fetch and add of 8 bytes.
    FetchAdd = 6,
    /// Invalidate a local key.
    LocalInv = 7,
    /// Bind a type 2 memory window.
    BindMw = 8,
    /// SEND that invalidates a key of the peer.
    SendInv = 9,
}

impl SendOpcode {
    /// From the verbs number; None for operations that are not offered.
    pub const fn from_verbs(code: u32) -> Option<Self> {
        Some(match code {
            0 => Self::RdmaWrite,
            1 => Self::RdmaWriteImm,
            2 => Self::Send,
            3 => Self::SendImm,
            4 => Self::RdmaRead,
            5 => Self::CmpSwap,
            6 => Self::FetchAdd,
            7 => Self::LocalInv,
            8 => Self::BindMw,
            9 => Self::SendInv,
            _ => return None,
        })
    }

    /// The opcode of the completion it produces.
    pub const fn completion(self) -> WcOpcode {
        match self {
            Self::RdmaWrite | Self::RdmaWriteImm => WcOpcode::RdmaWrite,
            Self::Send | Self::SendImm | Self::SendInv => WcOpcode::Send,
            Self::RdmaRead => WcOpcode::RdmaRead,
            Self::CmpSwap => WcOpcode::CompSwap,
            Self::FetchAdd => WcOpcode::FetchAdd,
            Self::LocalInv => WcOpcode::LocalInv,
            Self::BindMw => WcOpcode::BindMw,
        }
    }

    /// The status of a refused local operation, on every wire. The specification's "memory
    /// management operation error" has no number in verbs but that of a refused bind; the Linux
    /// kernel's rxe answers a refused invalidation in this way.
    #[cold]
    #[inline(never)]
    pub(crate) const fn local_failure(self) -> WcStatus {
        match self {
            Self::BindMw => WcStatus::MwBindErr,
            _ => WcStatus::LocQpOpErr,
        }
    }
}

/// Status of a completion (`ibv_wc_status`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, Default)]
#[repr(u32)]
#[allow(missing_docs)]
pub enum WcStatus {
    #[default]
    Success = 0,
    LocLenErr = 1,
    LocQpOpErr = 2,
    LocEecOpErr = 3,
    LocProtErr = 4,
    WrFlushErr = 5,
    MwBindErr = 6,
    BadRespErr = 7,
    LocAccessErr = 8,
    RemInvReqErr = 9,
    RemAccessErr = 10,
    RemOpErr = 11,
    RetryExcErr = 12,
    RnrRetryExcErr = 13,
    LocRddViolErr = 14,
    RemInvRdReqErr = 15,
    RemAbortErr = 16,
    InvEecnErr = 17,
    InvEecStateErr = 18,
    FatalErr = 19,
    RespTimeoutErr = 20,
    GeneralErr = 21,
}

/// Operation that a completion reports (`ibv_wc_opcode`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, Default)]
#[repr(u32)]
#[allow(missing_docs)]
pub enum WcOpcode {
    #[default]
    Send = 0,
    RdmaWrite = 1,
    RdmaRead = 2,
    CompSwap = 3,
    FetchAdd = 4,
    BindMw = 5,
    LocalInv = 6,
    Recv = 128,
    RecvRdmaWithImm = 129,
}

bitflags::bitflags! {
    /// Flags of a completion (`ibv_wc_flags`).
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
    pub struct WcFlags: u32 {
        /// The first 40 bytes of the receive buffer hold a GRH.
        const GRH = 1;
        /// Immediate data is present.
        const WITH_IMM = 1 << 1;
        /// `imm_or_rkey` is the key that the sender invalidated.
        const WITH_INV = 1 << 3;
    }
}

/// One completion. `imm_or_rkey` is immediate data in network byte order, or the invalidated key in host order.
///
/// Whole lines of 16 bytes in a fixed order: a completion is copied right after a store to a line that a peer looks at, and
/// a load over several smaller stores would wait for all of them to leave the core.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C, align(16))]
pub struct Completion {
    /// The work request's identifier.
    pub wr_id: u64,
    /// Sender's queue pair (UD).
    pub src_qp: u32,
    /// Flags.
    pub flags: WcFlags,
    /// Detail of a failure: the NAK syndrome, or 0.
    pub vendor_err: u32,
    /// Bytes received, read, or 8 for atomics.
    pub byte_len: u32,
    /// Immediate data (network order) or invalidated key.
    pub imm_or_rkey: u32,
    /// Local queue pair.
    pub qp_num: u32,
    /// Outcome.
    pub status: WcStatus,
    /// What completed; undefined when `status` is not success.
    pub opcode: WcOpcode,
    /// P_Key index (UD).
    pub pkey_index: u16,
    /// Source LID (UD).
    pub slid: u16,
    /// Service level (UD).
    pub sl: u8,
    /// Path bits of the destination LID (UD).
    pub dlid_path_bits: u8,
    /// True when the sender asked for a solicited event; not part of the API's completion.
    pub solicited: bool,
}

/// Address vector of a path (`ibv_ah_attr`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct AddressVector {
    /// Destination GID; meaningful if `is_global`.
    pub dgid: Gid,
    /// Flow label, 20 bits.
    pub flow_label: u32,
    /// Index into the local GID table.
    pub sgid_index: u8,
    /// Hop limit.
    pub hop_limit: u8,
    /// Traffic class.
    pub traffic_class: u8,
    /// Destination LID.
    pub dlid: Lid,
    /// Service level.
    pub sl: Sl,
    /// Source path bits.
    pub src_path_bits: u8,
    /// Static rate (`ibv_rate`), 0 is the port's own.
    pub static_rate: u8,
    /// A GRH is sent.
    pub is_global: bool,
    /// Port number from 1.
    pub port_num: u8,
}

bitflags::bitflags! {
    /// Which attributes a modify call names (`ibv_qp_attr_mask`).
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
    pub struct QpAttrMask: u32 {
        /// Names `state`.
        const STATE = 1;
        /// Names `cur_state`.
        const CUR_STATE = 1 << 1;
        /// Names `en_sqd_async_notify`.
        const EN_SQD_ASYNC_NOTIFY = 1 << 2;
        /// Names `access`.
        const ACCESS_FLAGS = 1 << 3;
        /// Names `pkey_index`.
        const PKEY_INDEX = 1 << 4;
        /// Names `port_num`.
        const PORT = 1 << 5;
        /// Names `qkey`.
        const QKEY = 1 << 6;
        /// Names `av`.
        const AV = 1 << 7;
        /// Names `path_mtu`.
        const PATH_MTU = 1 << 8;
        /// Names `timeout`.
        const TIMEOUT = 1 << 9;
        /// Names `retry_cnt`.
        const RETRY_CNT = 1 << 10;
        /// Names `rnr_retry`.
        const RNR_RETRY = 1 << 11;
        /// Names `rq_psn`.
        const RQ_PSN = 1 << 12;
        /// Names `max_rd_atomic`.
        const MAX_QP_RD_ATOMIC = 1 << 13;
        /// Names `alt_av`, `alt_pkey_index`, `alt_port_num` and `alt_timeout`.
        const ALT_PATH = 1 << 14;
        /// Names `min_rnr_timer`.
        const MIN_RNR_TIMER = 1 << 15;
        /// Names `sq_psn`.
        const SQ_PSN = 1 << 16;
        /// Names `max_dest_rd_atomic`.
        const MAX_DEST_RD_ATOMIC = 1 << 17;
        /// Names `path_mig_state`.
        const PATH_MIG_STATE = 1 << 18;
        /// Names `cap`.
        const CAP = 1 << 19;
        /// Names `dest_qpn`.
        const DEST_QPN = 1 << 20;
        /// Names `rate_limit`.
        const RATE_LIMIT = 1 << 25;
    }
}

/// Path migration state (IBA 17.2.8).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
#[repr(u32)]
pub enum MigState {
    /// Migrated: the primary path is in use and no alternate is armed.
    #[default]
    Migrated = 0,
    /// Re-arm: wait until both sides are armed.
    Rearm = 1,
    /// Armed: migration may happen.
    Armed = 2,
}

/// Capacities of a queue pair.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct QpCap {
    /// Outstanding send work requests.
    pub max_send_wr: u32,
    /// Outstanding receive work requests.
    pub max_recv_wr: u32,
    /// Scatter/gather elements of a send.
    pub max_send_sge: u32,
    /// Scatter/gather elements of a receive.
    pub max_recv_sge: u32,
    /// Inline bytes of a send.
    pub max_inline_data: u32,
}

/// Attributes of a queue pair (`ibv_qp_attr`), all of them, whatever the service uses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QpAttr {
    /// State.
    pub state: QpState,
    /// State that the caller assumes.
    pub cur_state: QpState,
    /// Path MTU.
    pub path_mtu: Mtu,
    /// Path migration state.
    pub path_mig_state: MigState,
    /// Queue key (UD).
    pub qkey: QKey,
    /// First PSN expected.
    pub rq_psn: Psn,
    /// First PSN sent.
    pub sq_psn: Psn,
    /// The peer's queue pair.
    pub dest_qpn: Qpn,
    /// Rights granted to the peer.
    pub access: Access,
    /// Capacities.
    pub cap: QpCap,
    /// Primary path.
    pub av: AddressVector,
    /// Alternate path.
    pub alt_av: AddressVector,
    /// P_Key index.
    pub pkey_index: u16,
    /// P_Key index of the alternate path.
    pub alt_pkey_index: u16,
    /// Ask for an event when the send queue is drained.
    pub en_sqd_async_notify: bool,
    /// The send queue is draining (query only).
    pub sq_draining: bool,
    /// Reads and atomics outstanding as initiator.
    pub max_rd_atomic: u8,
    /// Reads and atomics accepted as target.
    pub max_dest_rd_atomic: u8,
    /// RNR NAK timer code, 5 bits.
    pub min_rnr_timer: u8,
    /// Port from 1.
    pub port_num: u8,
    /// Ack timeout code n: 4.096 us * 2^n, 0 infinite.
    pub timeout: u8,
    /// Transport retries, 0..=7.
    pub retry_cnt: u8,
    /// RNR retries, 7 infinite.
    pub rnr_retry: u8,
    /// Port of the alternate path.
    pub alt_port_num: u8,
    /// Ack timeout code of the alternate path.
    pub alt_timeout: u8,
    /// Rate limit in kb/s.
    pub rate_limit: u32,
}

impl Default for QpAttr {
    fn default() -> Self {
        QpAttr {
            state: QpState::Reset,
            cur_state: QpState::Reset,
            path_mtu: Mtu::M256,
            path_mig_state: MigState::Migrated,
            qkey: QKey(0),
            rq_psn: Psn::new(0),
            sq_psn: Psn::new(0),
            dest_qpn: Qpn(0),
            access: Access::empty(),
            cap: QpCap::default(),
            av: AddressVector::default(),
            alt_av: AddressVector::default(),
            pkey_index: 0,
            alt_pkey_index: 0,
            en_sqd_async_notify: false,
            sq_draining: false,
            max_rd_atomic: 0,
            max_dest_rd_atomic: 0,
            min_rnr_timer: 0,
            port_num: 0,
            timeout: 0,
            retry_cnt: 0,
            rnr_retry: 0,
            alt_port_num: 0,
            alt_timeout: 0,
            rate_limit: 0,
        }
    }
}

/// Ack timeout in nanoseconds for a 5-bit code: 4.096 us * 2^n; None for 0, infinite (I10).
pub const fn ack_timeout_ns(code: u8) -> Option<u64> {
    match code & 31 {
        0 => None,
        n => Some(4096 << n),
    }
}

/// RNR NAK timer in nanoseconds for a 5-bit code (IBA table 45; I9).
pub const fn rnr_timer_ns(code: u8) -> u64 {
    const HUNDREDTHS_OF_MS: [u64; 32] = [
        65536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024,
        1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152,
    ];
    HUNDREDTHS_OF_MS[(code & 31) as usize] * 10_000
}
