//! Memory descriptors, and what a program asks to be done with them.
//!
//! Owns: a descriptor's options, the shape of an operation, and the checks of both. Must not know:
//! what becomes of an operation. Data comes from PtlMDBind and the data movement calls.

use crate::handles::{HandleKind, Key};
use crate::interface::Interface;
use crate::{
    ArrivalOp, AtomicOp, Datatype, Handle, OpId, Peer, Pieces, PtlError, Region, is_legal,
};

bitflags::bitflags! {
    /// Options of memory descriptors (PTL_MD_*), with the bits of the 4.3 header. PTL_IOVEC is not
    /// among them: a [`Region`] says it.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
    pub struct MdOptions: u32 {
        /// Counts SEND.
        const EVENT_CT_SEND = 1 << 1;
        /// Counts REPLY.
        const EVENT_CT_REPLY = 1 << 2;
        /// Counts acknowledgements of each kind.
        const EVENT_CT_ACK = 1 << 3;
        /// Messages may arrive in any order.
        const UNORDERED = 1 << 4;
        /// No event that says success.
        const EVENT_SUCCESS_DISABLE = 1 << 5;
        /// The buffer may be changed when the call returns.
        const VOLATILE = 1 << 6;
        /// No SEND.
        const EVENT_SEND_DISABLE = 1 << 7;
        /// Messages may be lost.
        const UNRELIABLE = 1 << 8;
        /// Counts bytes of successes instead of successes.
        const EVENT_CT_BYTES = 1 << 14;
    }
}

/// What a program gives with PtlMDBind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MdInit {
    /// The memory.
    pub region: Region,
    /// The options.
    pub options: MdOptions,
    /// The event queue, or [`Handle::EQ_NONE`].
    pub eq: Handle,
    /// The counter, or [`Handle::CT_NONE`].
    pub ct: Handle,
}

/// A memory descriptor.
#[derive(Debug)]
pub(crate) struct Md {
    pub region: Region,
    pub length: u64,
    pub options: MdOptions,
    pub eq: Option<Key>,
    pub ct: Option<Key>,
    /// Operations under way that use it.
    pub pending: u32,
    /// Not all of its memory was there when it was bound.
    pub may_fault: bool,
}

/// Which acknowledgement an initiator asks for (ptl_ack_req_t).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(u8)]
pub enum AckRequest {
    /// None.
    #[default]
    None = 0,
    /// A full event, and a count.
    Full = 1,
    /// A count.
    Counting = 2,
    /// A count that only says that the target is done with the request, whatever came of it.
    OperationComplete = 3,
}

/// A place in a descriptor's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Local {
    /// The descriptor.
    pub md: Handle,
    /// Bytes from the start of its region.
    pub offset: u64,
}

/// An operation that a program starts (PtlPut, PtlGet, PtlAtomic, PtlFetchAtomic, PtlSwap).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation {
    /// What it does.
    pub op: ArrivalOp,
    /// Where its data comes from: all but GET.
    pub put: Option<Local>,
    /// Where its reply goes: GET, fetch, swap.
    pub get: Option<Local>,
    /// Bytes.
    pub length: u64,
    /// The acknowledgement asked for: PUT and atomic.
    pub ack: AckRequest,
    /// The target, as the interface names processes.
    pub target: Peer,
    /// The index in the target's portal table.
    pub pt_index: u32,
    /// For matching.
    pub match_bits: u64,
    /// Where in the target's memory.
    pub remote_offset: u64,
    /// The program's value, for events.
    pub user_ptr: u64,
    /// 64 bits for the target's event.
    pub hdr_data: u64,
    /// The atomic operation and the type of its values.
    pub atomic: Option<(AtomicOp, Datatype)>,
    /// The operand of a conditional or masked swap, one value from the first byte on. Other
    /// operations do not look at it.
    pub operand: [u8; 32],
}

/// What comes back for an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Response {
    /// Nothing: the operation ends with [`Interface::sent`].
    None,
    /// An acknowledgement: it ends with [`Interface::acked`].
    Ack(AckRequest),
    /// A reply: it ends with [`Interface::replied`].
    Reply,
}

/// What a transport has to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Started {
    /// The name under which what becomes of it is told.
    pub id: OpId,
    /// The data to send, in order.
    pub out: Pieces,
    /// Where the reply goes, in order.
    pub back: Pieces,
    /// What must come back.
    pub response: Response,
    /// Whether `out` must have been read when the program's call returns.
    pub volatile: bool,
    /// Whether the request may overtake others.
    pub unordered: bool,
    /// Whether the request may be lost.
    pub unreliable: bool,
    /// Not all of `out` and `back` need be memory.
    pub may_fault: bool,
}

/// The descriptors of an operation that was checked.
pub(crate) struct Checked {
    pub put: Option<Key>,
    pub get: Option<Key>,
}

impl Interface {
    /// PtlMDBind.
    ///
    /// # Errors
    /// PTL_ARG_INVALID for a stale queue or counter, an unknown option, or too many pieces;
    /// PTL_NO_SPACE at max_mds.
    pub fn md_bind(&mut self, init: &MdInit) -> Result<Handle, PtlError> {
        if !MdOptions::all().contains(init.options) || !init.region.is_valid(self.limits.max_iovecs)
        {
            return Err(PtlError::ArgInvalid);
        }
        let md = Md {
            length: init.region.length(),
            region: init.region.clone(),
            options: init.options,
            eq: self.eq_key_or_none(init.eq)?,
            ct: self.ct_key_or_none(init.ct)?,
            pending: 0,
            may_fault: false,
        };
        let key = self.objects.mds.insert(md).ok_or(PtlError::NoSpace)?;
        Ok(Handle::new(HandleKind::Md, self.kind.index(), key))
    }

    /// Not all of a descriptor's memory is there: it is to be asked for before each operation.
    pub fn md_may_fault(&mut self, md: Handle) {
        let key = md.key(HandleKind::Md, self.kind.index());
        if let Some(md) = key.and_then(|key| self.objects.mds.get_mut(key)) {
            md.may_fault = true;
        }
    }

    /// PtlMDRelease. Triggered operations that have not been started do not keep a descriptor;
    /// started later, they fail.
    ///
    /// # Errors
    /// PTL_IN_USE while an operation that uses it is under way (the header has no value for this;
    /// test_unlink_race waits for this one), PTL_ARG_INVALID for a stale handle.
    pub fn md_release(&mut self, md: Handle) -> Result<(), PtlError> {
        let key = md
            .key(HandleKind::Md, self.kind.index())
            .ok_or(PtlError::ArgInvalid)?;
        if self
            .objects
            .mds
            .get(key)
            .ok_or(PtlError::ArgInvalid)?
            .pending
            > 0
        {
            return Err(PtlError::InUse);
        }
        self.objects.mds.remove(key);
        Ok(())
    }

    /// Checks an operation: its descriptors, ranges, lengths, acknowledgement and target.
    pub(crate) fn check(&self, operation: &Operation) -> Result<Checked, PtlError> {
        let Operation {
            op,
            length,
            ack,
            atomic,
            ..
        } = *operation;
        let most = match (atomic.is_some(), op.reads()) {
            (false, _) => self.limits.max_msg_size,
            (true, false) => self.limits.max_atomic_size,
            (true, true) => self.limits.max_fetch_atomic_size,
        };
        let legal = is_legal(op, atomic, length)
            && length <= most
            && operation.put.is_some() == op.writes()
            && operation.get.is_some() == op.reads()
            && (ack == AckRequest::None || !op.reads())
            && operation.target.is_logical() == self.kind.logical;
        if !legal {
            return Err(PtlError::ArgInvalid);
        }
        let put = operation
            .put
            .map(|local| self.check_local(local, length))
            .transpose()?;
        let get = operation
            .get
            .map(|local| self.check_local(local, length))
            .transpose()?;
        if let Some(md) = put.and_then(|key| self.objects.mds.get(key)) {
            // What is volatile is copied, and no more than this is promised:
            // test_rdma_move_logical-022.
            let copied = !md.options.contains(MdOptions::VOLATILE)
                || length <= self.limits.max_volatile_size;
            // A full acknowledgement needs a queue and a counting one a counter; what is unreliable
            // has none (PTL_MD_UNRELIABLE).
            let acked = match ack {
                AckRequest::None => true,
                AckRequest::Full => md.eq.is_some(),
                AckRequest::Counting => md.ct.is_some(),
                AckRequest::OperationComplete => true,
            };
            if !copied
                || !acked
                || md.options.contains(MdOptions::UNRELIABLE) && ack != AckRequest::None
            {
                return Err(PtlError::ArgInvalid);
            }
        }
        Ok(Checked { put, get })
    }

    fn check_local(&self, local: Local, length: u64) -> Result<Key, PtlError> {
        let key = local
            .md
            .key(HandleKind::Md, self.kind.index())
            .ok_or(PtlError::ArgInvalid)?;
        let md = self.objects.mds.get(key).ok_or(PtlError::ArgInvalid)?;
        let end = local
            .offset
            .checked_add(length)
            .filter(|&end| end <= md.length);
        end.map(|_| key).ok_or(PtlError::ArgInvalid)
    }
}
