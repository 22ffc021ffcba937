//! Completions: the C structure, with values that keep what they do not know.

use crate::types::{Qpn, closed};
use ferriband_verbs_sys as sys;
use std::fmt;

closed! {
    /// How a request ended.
    WcStatus: sys::ibv_wc_status {
        /// Well.
        Success = sys::IBV_WC_SUCCESS,
        /// A local element is too short or too long.
        LocalLength = sys::IBV_WC_LOC_LEN_ERR,
        /// The queue pair cannot do this.
        LocalQpOperation = sys::IBV_WC_LOC_QP_OP_ERR,
        /// A local element names memory that is not registered so.
        LocalProtection = sys::IBV_WC_LOC_PROT_ERR,
        /// The queue pair is in error: the request was not executed, or not to its end.
        Flushed = sys::IBV_WC_WR_FLUSH_ERR,
        /// A window could not be bound.
        WindowBind = sys::IBV_WC_MW_BIND_ERR,
        /// The peer answered nonsense.
        BadResponse = sys::IBV_WC_BAD_RESP_ERR,
        /// Local access at the receiving side.
        LocalAccess = sys::IBV_WC_LOC_ACCESS_ERR,
        /// The peer calls the request invalid.
        RemoteInvalidRequest = sys::IBV_WC_REM_INV_REQ_ERR,
        /// The peer does not allow the access.
        RemoteAccess = sys::IBV_WC_REM_ACCESS_ERR,
        /// The peer could not do it.
        RemoteOperation = sys::IBV_WC_REM_OP_ERR,
        /// The peer did not answer (12).
        RetryExceeded = sys::IBV_WC_RETRY_EXC_ERR,
        /// The peer had no receive, too often (13).
        RnrRetryExceeded = sys::IBV_WC_RNR_RETRY_EXC_ERR,
        /// The peer ended it.
        RemoteAborted = sys::IBV_WC_REM_ABORT_ERR,
        /// The device has failed.
        Fatal = sys::IBV_WC_FATAL_ERR,
        /// No response in time.
        ResponseTimeout = sys::IBV_WC_RESP_TIMEOUT_ERR,
        /// Something else.
        General = sys::IBV_WC_GENERAL_ERR,
    }
}

closed! {
    /// What a completed request was.
    WcOpcode: sys::ibv_wc_opcode {
        /// SEND, with or without immediate data.
        Send = sys::IBV_WC_SEND,
        /// RDMA WRITE.
        RdmaWrite = sys::IBV_WC_RDMA_WRITE,
        /// RDMA READ.
        RdmaRead = sys::IBV_WC_RDMA_READ,
        /// Compare and swap.
        CompareSwap = sys::IBV_WC_COMP_SWAP,
        /// Fetch and add.
        FetchAdd = sys::IBV_WC_FETCH_ADD,
        /// Local invalidation.
        LocalInvalidate = sys::IBV_WC_LOCAL_INV,
        /// A receive that a SEND has consumed.
        Recv = sys::IBV_WC_RECV,
        /// A receive that an RDMA WRITE with immediate data has consumed.
        RecvRdmaWithImm = sys::IBV_WC_RECV_RDMA_WITH_IMM,
    }
}

bitflags::bitflags! {
    /// What else a completion says.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct WcFlags: u32 {
        /// The first 40 bytes of a datagram's buffer are its global route header, or stand for it.
        const GRH = sys::IBV_WC_GRH;
        /// Immediate data came.
        const IMMEDIATE = sys::IBV_WC_WITH_IMM;
        /// A key was invalidated.
        const INVALIDATED = sys::IBV_WC_WITH_INV;
        const _ = !0;
    }
}

/// A completion: a copy of the C structure. Fields beyond identifier, status, queue pair and vendor's code mean
/// something only when the status is [`WcStatus::Success`].
#[derive(Clone, Copy, Default)]
#[repr(transparent)]
pub struct Wc(pub(crate) sys::ibv_wc);

impl Wc {
    /// The identifier that the request was given.
    #[inline]
    pub fn id(&self) -> u64 {
        self.0.wr_id
    }

    /// How it ended.
    #[inline]
    pub fn status(&self) -> WcStatus {
        WcStatus::from_c(self.0.status)
    }

    /// True if it ended well: one comparison.
    #[inline]
    pub fn is_ok(&self) -> bool {
        self.0.status == sys::IBV_WC_SUCCESS
    }

    /// What the request was.
    #[inline]
    pub fn opcode(&self) -> WcOpcode {
        WcOpcode::from_c(self.0.opcode)
    }

    /// Bytes that came in, of receives, READs and atomics; a datagram's count includes 40 bytes of route header.
    #[inline]
    pub fn byte_len(&self) -> u32 {
        self.0.byte_len
    }

    /// The queue pair of ours that the request belongs to.
    #[inline]
    pub fn qp_number(&self) -> Qpn {
        Qpn(self.0.qp_num)
    }

    /// The queue pair that a datagram came from.
    #[inline]
    pub fn source_qp(&self) -> Qpn {
        Qpn(self.0.src_qp)
    }

    /// The LID that a datagram came from.
    #[inline]
    pub fn source_lid(&self) -> crate::types::Lid {
        crate::types::Lid(self.0.slid)
    }

    /// What else is known.
    #[inline]
    pub fn flags(&self) -> WcFlags {
        WcFlags::from_bits_retain(self.0.wc_flags)
    }

    /// Immediate data in the host's order, if some came.
    #[inline]
    pub fn immediate(&self) -> Option<u32> {
        // SAFETY: both fields of the union are plain 32-bit words.
        let word = unsafe { self.0.__bindgen_anon_1.imm_data };
        self.flags()
            .contains(WcFlags::IMMEDIATE)
            .then(|| u32::from_be(word))
    }

    /// The vendor's own code of a failure, for messages.
    pub fn vendor_error(&self) -> u32 {
        self.0.vendor_err
    }
}

impl fmt::Debug for Wc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wc")
            .field("id", &self.id())
            .field("status", &self.status())
            .field("opcode", &self.opcode())
            .field("byte_len", &self.byte_len())
            .field("qp_number", &self.qp_number())
            .field("vendor_error", &self.vendor_error())
            .finish_non_exhaustive()
    }
}
