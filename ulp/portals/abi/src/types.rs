//! The structures of `portals4.h`, and what they mean.
//!
//! Owns: layouts and conversions. Must not know: functions.

use ferriband_portals_proto::{
    AckRequest, EntryInit, EntryOptions, Event, Features, Handle, Limits, MdInit, MdOptions,
    NiKind, Peer, Piece, Process, PtlError, Region,
};
use std::ffi::{c_int, c_uint, c_void};

/// ptl_process_t.
#[derive(Clone, Copy)]
#[repr(C)]
pub union ProcessC {
    rank: u32,
    phys: PhysC,
}

/// nid and pid.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct PhysC {
    nid: u32,
    pid: u32,
}

impl ProcessC {
    /// As an interface of this kind names processes.
    pub fn of(peer: Peer) -> ProcessC {
        match peer {
            // the rest of the union is zero, as is what a program compares
            Peer::Rank(nid) => ProcessC {
                phys: PhysC { nid, pid: 0 },
            },
            Peer::Physical(Process { nid, pid }) => ProcessC {
                phys: PhysC { nid, pid },
            },
        }
    }

    /// What it means on an interface.
    pub fn peer(self, ni: Handle) -> Peer {
        match NiKind::from_index(ni.interface()).logical {
            true => Peer::Rank(self.words()[0]),
            false => Peer::Physical(self.process()),
        }
    }

    /// nid and pid.
    pub fn process(self) -> Process {
        let [nid, pid] = self.words();
        Process { nid, pid }
    }

    fn words(self) -> [u32; 2] {
        // SAFETY: all bits are numbers; a program that has set the rank alone has 8 bytes there.
        let PhysC { nid, pid } = unsafe { self.phys };
        [nid, pid]
    }
}

/// ptl_ni_limits_t.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct LimitsC {
    max_entries: c_int,
    max_unexpected_headers: c_int,
    max_mds: c_int,
    max_cts: c_int,
    max_eqs: c_int,
    max_pt_index: c_int,
    max_iovecs: c_int,
    max_list_size: c_int,
    max_triggered_ops: c_int,
    max_msg_size: u64,
    max_atomic_size: u64,
    max_fetch_atomic_size: u64,
    max_waw_ordered_size: u64,
    max_war_ordered_size: u64,
    max_volatile_size: u64,
    features: c_uint,
}

impl From<&LimitsC> for Limits {
    fn from(c: &LimitsC) -> Limits {
        let count = |value: c_int| u32::try_from(value).unwrap_or(0);
        Limits {
            max_entries: count(c.max_entries),
            max_unexpected_headers: count(c.max_unexpected_headers),
            max_mds: count(c.max_mds),
            max_eqs: count(c.max_eqs),
            max_cts: count(c.max_cts),
            max_pt_index: count(c.max_pt_index),
            max_iovecs: count(c.max_iovecs),
            max_list_size: count(c.max_list_size),
            max_triggered_ops: count(c.max_triggered_ops),
            max_msg_size: c.max_msg_size,
            max_atomic_size: c.max_atomic_size,
            max_fetch_atomic_size: c.max_fetch_atomic_size,
            max_waw_ordered_size: c.max_waw_ordered_size,
            max_war_ordered_size: c.max_war_ordered_size,
            max_volatile_size: c.max_volatile_size,
            features: Features::from_bits_truncate(c.features),
        }
    }
}

impl From<&Limits> for LimitsC {
    fn from(limits: &Limits) -> LimitsC {
        let count = |value: u32| c_int::try_from(value).unwrap_or(c_int::MAX);
        LimitsC {
            max_entries: count(limits.max_entries),
            max_unexpected_headers: count(limits.max_unexpected_headers),
            max_mds: count(limits.max_mds),
            max_cts: count(limits.max_cts),
            max_eqs: count(limits.max_eqs),
            max_pt_index: count(limits.max_pt_index),
            max_iovecs: count(limits.max_iovecs),
            max_list_size: count(limits.max_list_size),
            max_triggered_ops: count(limits.max_triggered_ops),
            max_msg_size: limits.max_msg_size,
            max_atomic_size: limits.max_atomic_size,
            max_fetch_atomic_size: limits.max_fetch_atomic_size,
            max_waw_ordered_size: limits.max_waw_ordered_size,
            max_war_ordered_size: limits.max_war_ordered_size,
            max_volatile_size: limits.max_volatile_size,
            features: limits.features.bits(),
        }
    }
}

/// PTL_IOVEC.
const IOVEC: c_uint = 1;

/// ptl_iovec_t.
#[derive(Clone, Copy)]
#[repr(C)]
struct IovecC {
    base: *mut c_void,
    length: u64,
}

/// The memory of a descriptor or an entry.
///
/// # Safety
/// With PTL_IOVEC, `start` is an array of `length` elements.
unsafe fn region(start: *mut c_void, length: u64, options: c_uint) -> Result<Region, PtlError> {
    if options & IOVEC == 0 {
        return Ok(Region::flat(start.expose_provenance() as u64, length));
    }
    // more than any interface takes
    let count = usize::try_from(length)
        .ok()
        .filter(|count| *count < 1 << 16);
    let count = count.ok_or(PtlError::ArgInvalid)?;
    let elements: &[IovecC] = match count {
        0 => &[],
        _ if start.is_null() => return Err(PtlError::ArgInvalid),
        // SAFETY: the caller's promise.
        _ => unsafe { std::slice::from_raw_parts(start.cast(), count) },
    };
    Ok(Region::Iovec(
        elements
            .iter()
            .map(|element| Piece {
                address: element.base.expose_provenance() as u64,
                length: element.length,
            })
            .collect(),
    ))
}

/// ptl_md_t.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct MdC {
    start: *mut c_void,
    length: u64,
    options: c_uint,
    eq: u32,
    ct: u32,
}

impl MdC {
    /// What it says.
    ///
    /// # Safety
    /// As [`region`].
    pub unsafe fn init(&self) -> Result<MdInit, PtlError> {
        let options = MdOptions::from_bits(self.options & !IOVEC);
        Ok(MdInit {
            // SAFETY: the caller's promise.
            region: unsafe { region(self.start, self.length, self.options) }?,
            options: options.ok_or(PtlError::ArgInvalid)?,
            eq: Handle::from_bits(self.eq),
            ct: Handle::from_bits(self.ct),
        })
    }
}

/// ptl_le_t, which ptl_me_t begins with.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct LeC {
    start: *mut c_void,
    length: u64,
    ct: u32,
    uid: u32,
    options: c_uint,
}

/// ptl_me_t.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct MeC {
    start: *mut c_void,
    length: u64,
    ct: u32,
    uid: u32,
    options: c_uint,
    match_id: ProcessC,
    match_bits: u64,
    ignore_bits: u64,
    min_free: u64,
}

impl LeC {
    /// What it says, for an interface.
    ///
    /// # Safety
    /// As [`region`].
    pub unsafe fn init(&self, ni: Handle) -> Result<EntryInit, PtlError> {
        let options = EntryOptions::from_bits(self.options & !IOVEC);
        Ok(EntryInit {
            // SAFETY: the caller's promise.
            region: unsafe { region(self.start, self.length, self.options) }?,
            ct: Handle::from_bits(self.ct),
            uid: self.uid,
            options: options.ok_or(PtlError::ArgInvalid)?,
            match_id: match NiKind::from_index(ni.interface()).logical {
                true => Peer::Rank(Peer::RANK_ANY),
                false => Peer::Physical(Process {
                    nid: Peer::NID_ANY,
                    pid: Peer::PID_ANY,
                }),
            },
            match_bits: 0,
            ignore_bits: 0,
            min_free: 0,
        })
    }
}

impl MeC {
    /// What it says, for an interface.
    ///
    /// # Safety
    /// As [`region`].
    pub unsafe fn init(&self, ni: Handle) -> Result<EntryInit, PtlError> {
        let Self {
            start,
            length,
            ct,
            uid,
            options,
            ..
        } = *self;
        let entry = LeC {
            start,
            length,
            ct,
            uid,
            options,
        };
        Ok(EntryInit {
            match_id: self.match_id.peer(ni),
            match_bits: self.match_bits,
            ignore_bits: self.ignore_bits,
            min_free: self.min_free,
            // SAFETY: the caller's promise.
            ..unsafe { entry.init(ni) }?
        })
    }
}

/// ptl_event_t.
#[repr(C)]
pub struct EventC {
    start: *mut c_void,
    user_ptr: *mut c_void,
    hdr_data: u64,
    match_bits: u64,
    rlength: u64,
    mlength: u64,
    remote_offset: u64,
    initiator: ProcessC,
    uid: u32,
    pt_index: u32,
    kind: u8,
    list: u8,
    ni_fail: u8,
    atomic_operation: u8,
    atomic_type: u8,
}

impl From<&Event> for EventC {
    fn from(event: &Event) -> EventC {
        let pointer = |value: u64| std::ptr::with_exposed_provenance_mut(value as usize);
        let (atomic_operation, atomic_type) = match event.atomic {
            Some((operation, datatype)) => (operation.code(), datatype.code()),
            None => (0, 0),
        };
        EventC {
            start: pointer(event.start),
            user_ptr: pointer(event.user_ptr),
            hdr_data: event.hdr_data,
            match_bits: event.match_bits,
            rlength: event.rlength,
            mlength: event.mlength,
            remote_offset: event.remote_offset,
            initiator: ProcessC::of(event.initiator),
            uid: event.uid,
            pt_index: event.pt_index,
            kind: event.kind as u8,
            list: event.list as u8,
            ni_fail: event.ni_fail.code(),
            atomic_operation,
            atomic_type,
        }
    }
}

/// ptl_ack_req_t.
pub fn ack(code: u8) -> Result<AckRequest, PtlError> {
    Ok(match code {
        0 => AckRequest::None,
        1 => AckRequest::Full,
        2 => AckRequest::Counting,
        3 => AckRequest::OperationComplete,
        _ => return Err(PtlError::ArgInvalid),
    })
}

// Layouts of the header, in bytes (x86-64 and AArch64).
const _: () = {
    assert!(size_of::<ProcessC>() == 8);
    assert!(size_of::<LimitsC>() == 96);
    assert!(size_of::<MdC>() == 32);
    assert!(size_of::<LeC>() == 32);
    assert!(size_of::<MeC>() == 64);
    assert!(size_of::<EventC>() == 80);
    assert!(std::mem::offset_of!(MeC, match_bits) == 40);
    assert!(std::mem::offset_of!(EventC, kind) == 72);
};
