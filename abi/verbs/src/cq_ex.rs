//! The extended completion queue: created by flags, polled through an iterator.
//!
//! `start_poll` fetches one completion into a place beside the queue and copies `wr_id` and `status` to where programs
//! read them inline; the `read_*` functions answer from that place. The program promises that one thread at a
//! time is between `start_poll` and `end_poll`; a flag makes a second one wait, as providers' locks do.

use crate::boundary::{entry, set_errno, try_entry};
use crate::context::Context;
use crate::cq::{self, Cq, Wish};
use crate::object::input;
use crate::watched;
use ferriband_hca::cq::Stamped;
use ferriband_verbs_sys as sys;
use std::cell::UnsafeCell;
use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, Ordering};

/// Fields that a completion of ours can deliver. VLAN, flow tag and tag matching belong to adapters of other kinds.
const OFFERED: u64 = (sys::IBV_WC_STANDARD_FLAGS
    | sys::IBV_WC_EX_WITH_COMPLETION_TIMESTAMP
    | sys::IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK) as u64;

/// Where the iterator of an extended queue stands.
#[derive(Default)]
pub struct Cursor {
    busy: AtomicBool,
    at: UnsafeCell<Stamped>,
}

// SAFETY: `at` is touched only between taking and releasing `busy`, by the thread that took it.
unsafe impl Sync for Cursor {}

/// `create_cq_ex` of the context.
///
/// # Safety
/// `context` is a live context, `attr` readable, and the objects that it names are live.
pub unsafe extern "C" fn create_cq_ex(
    context: *mut sys::ibv_context,
    attr: *mut sys::ibv_cq_init_attr_ex,
) -> *mut sys::ibv_cq_ex {
    try_entry(|| {
        // SAFETY: the caller's promise.
        let context = unsafe { Context::of(context) }?;
        // SAFETY: the caller's promise.
        let attr = unsafe { input(attr) }?;
        let known_mask = sys::IBV_CQ_INIT_ATTR_MASK_FLAGS | sys::IBV_CQ_INIT_ATTR_MASK_PD;
        if attr.wc_flags & !OFFERED != 0 || attr.comp_mask & !known_mask != 0 {
            return Err(libc::EOPNOTSUPP);
        }
        let flags = if attr.comp_mask & sys::IBV_CQ_INIT_ATTR_MASK_FLAGS != 0 {
            attr.flags
        } else {
            0
        };
        if flags
            & !(sys::IBV_CREATE_CQ_ATTR_SINGLE_THREADED | sys::IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN)
            != 0
        {
            return Err(libc::EOPNOTSUPP);
        }
        let has_domain = attr.comp_mask & sys::IBV_CQ_INIT_ATTR_MASK_PD != 0;
        let wish = Wish {
            cqe: attr.cqe,
            cq_context: attr.cq_context,
            channel: attr.channel,
            comp_vector: attr.comp_vector,
            timestamps: attr.wc_flags & u64::from(sys::IBV_WC_EX_WITH_COMPLETION_TIMESTAMP) != 0,
            wallclock: attr.wc_flags
                & u64::from(sys::IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK)
                != 0,
            ignore_overrun: flags & sys::IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN != 0,
            parent_domain: if has_domain {
                attr.parent_domain
            } else {
                std::ptr::null_mut()
            },
        };
        // SAFETY: the caller's promise.
        let pointer = unsafe { cq::create(context, &wish) }?;
        // SAFETY: nobody else knows the queue yet.
        install(unsafe { &mut *pointer }, attr.wc_flags);
        Ok(pointer)
    })
}

/// Fills the function pointers: those of the fields that were asked for, and the iterator itself.
fn install(c: &mut sys::ibv_cq_ex, wc_flags: u64) {
    let asked = |flag: u32| wc_flags & u64::from(flag) != 0;
    c.start_poll = Some(start_poll);
    c.next_poll = Some(next_poll);
    c.end_poll = Some(end_poll);
    c.read_opcode = Some(read_opcode);
    c.read_vendor_err = Some(read_vendor_err);
    c.read_wc_flags = Some(read_wc_flags);
    c.read_byte_len = asked(sys::IBV_WC_EX_WITH_BYTE_LEN).then_some(read_byte_len as _);
    c.read_imm_data = asked(sys::IBV_WC_EX_WITH_IMM).then_some(read_imm_data as _);
    c.read_qp_num = asked(sys::IBV_WC_EX_WITH_QP_NUM).then_some(read_qp_num as _);
    c.read_src_qp = asked(sys::IBV_WC_EX_WITH_SRC_QP).then_some(read_src_qp as _);
    c.read_slid = asked(sys::IBV_WC_EX_WITH_SLID).then_some(read_slid as _);
    c.read_sl = asked(sys::IBV_WC_EX_WITH_SL).then_some(read_sl as _);
    c.read_dlid_path_bits =
        asked(sys::IBV_WC_EX_WITH_DLID_PATH_BITS).then_some(read_dlid_path_bits as _);
    c.read_completion_ts =
        asked(sys::IBV_WC_EX_WITH_COMPLETION_TIMESTAMP).then_some(read_completion_ts as _);
    c.read_completion_wallclock_ns = asked(sys::IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK)
        .then_some(read_completion_wallclock_ns as _);
}

/// Takes the next completion; ENOENT when there is none.
///
/// # Safety
/// The calling thread holds the cursor.
unsafe fn advance(queue: &Cq) -> c_int {
    let mut taken = None;
    match queue.hca.poll(1, |stamped| taken = Some(*stamped)) {
        Ok(_) => {}
        Err(error) => return error.errno(),
    }
    let Some(stamped) = taken else {
        return libc::ENOENT;
    };
    watched::hands_over(&stamped.completion);
    // SAFETY: the caller holds the cursor.
    unsafe { queue.cursor.at.get().write(stamped) };
    let c = queue.c();
    // SAFETY: the program reads these fields only between the calls of its own iterator.
    unsafe { (*c).wr_id = stamped.completion.wr_id };
    // SAFETY: as above.
    unsafe { (*c).status = stamped.completion.status as u32 };
    0
}

unsafe extern "C" fn start_poll(
    cq: *mut sys::ibv_cq_ex,
    attr: *mut sys::ibv_poll_cq_attr,
) -> c_int {
    entry(|| {
        // SAFETY: programs call it with the queue that holds the pointer.
        let Ok(queue) = (unsafe { Cq::of(cq) }) else {
            return libc::EINVAL;
        };
        // SAFETY: NULL or readable, by the API.
        if unsafe { attr.as_ref() }.is_some_and(|attr| attr.comp_mask != 0) {
            return libc::EINVAL;
        }
        while queue.cursor.busy.swap(true, Ordering::Acquire) {
            std::thread::yield_now();
        }
        // SAFETY: the flag was just taken.
        let result = unsafe { advance(queue) };
        if result != 0 {
            queue.cursor.busy.store(false, Ordering::Release);
        }
        result
    })
}

unsafe extern "C" fn next_poll(cq: *mut sys::ibv_cq_ex) -> c_int {
    entry(|| {
        // SAFETY: programs call it with the queue that holds the pointer.
        let Ok(queue) = (unsafe { Cq::of(cq) }) else {
            return libc::EINVAL;
        };
        // SAFETY: by the API the caller is between start_poll and end_poll.
        unsafe { advance(queue) }
    })
}

unsafe extern "C" fn end_poll(cq: *mut sys::ibv_cq_ex) {
    entry(|| {
        // SAFETY: programs call it with the queue that holds the pointer.
        if let Ok(queue) = unsafe { Cq::of(cq) } {
            queue.cursor.busy.store(false, Ordering::Release);
        }
    });
}

/// The completion that the iterator stands on; the default one for NULL.
///
/// # Safety
/// `cq` is NULL or a live queue, and the caller is between `start_poll` and `end_poll`.
unsafe fn stop(cq: *mut sys::ibv_cq_ex) -> Stamped {
    // SAFETY: the caller's promise.
    match unsafe { Cq::of(cq) } {
        // SAFETY: the caller holds the cursor.
        Ok(queue) => unsafe { queue.cursor.at.get().read() },
        Err(errno) => {
            set_errno(errno);
            Stamped::default()
        }
    }
}

macro_rules! readers {
    ($($name:ident -> $result:ty = |$stop:ident| $value:expr;)*) => {$(
        unsafe extern "C" fn $name(cq: *mut sys::ibv_cq_ex) -> $result {
            // SAFETY: programs call it with the queue that holds the pointer, inside their iteration.
            let $stop = unsafe { stop(cq) };
            $value
        }
    )*};
}

readers! {
    read_opcode -> sys::ibv_wc_opcode = |stop| stop.completion.opcode as u32;
    read_vendor_err -> u32 = |stop| stop.completion.vendor_err;
    read_byte_len -> u32 = |stop| stop.completion.byte_len;
    read_imm_data -> sys::__be32 = |stop| stop.completion.imm_or_rkey;
    read_qp_num -> u32 = |stop| stop.completion.qp_num;
    read_src_qp -> u32 = |stop| stop.completion.src_qp;
    read_wc_flags -> u32 = |stop| stop.completion.flags.bits();
    read_slid -> u32 = |stop| u32::from(stop.completion.slid);
    read_sl -> u8 = |stop| stop.completion.sl;
    read_dlid_path_bits -> u8 = |stop| stop.completion.dlid_path_bits;
    read_completion_ts -> u64 = |stop| stop.timestamp_ns;
    read_completion_wallclock_ns -> u64 = |stop| stop.wallclock_ns;
}
