//! The extended interface of a queue pair: requests built by function calls, posted together.
//!
//! Between `wr_start` and `wr_complete` a thread owns the builder, and no other posts to the queue pair in any way. A builder call opens a request, setters add data and
//! addresses to it, and `wr_complete` posts the whole batch or nothing: a mistake in any request, or a queue without
//! room for all, is the errno of `wr_complete`. Inline data are copied by the setter, so the program may
//! reuse its buffer at once. The batch's memory is kept for the next one: no allocation once it has grown.

use crate::ah::Ah;
use crate::boundary::{Failure, entry};
use crate::mw::Mw;
use crate::qp::Qp;
use ferriband_hca as hca;
use ferriband_sanitizer::{self as sanitizer, Side};
use ferriband_transport::types::{QpType, SendFlags, SendOpcode, Sge};
use ferriband_verbs_sys as sys;
use std::cell::UnsafeCell;
use std::ffi::{c_int, c_void};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The batch that a thread is building.
#[derive(Default)]
pub struct Builder {
    busy: AtomicBool,
    batch: UnsafeCell<Batch>,
}

/// The right to post to a queue pair, alone, until it is dropped.
pub struct Alone<'a>(&'a Builder);

impl Drop for Alone<'_> {
    #[inline]
    fn drop(&mut self) {
        self.0.busy.store(false, Ordering::Release);
    }
}

impl Builder {
    /// Waits until no other thread posts to the queue pair.
    #[inline]
    pub fn acquire(&self) -> Alone<'_> {
        while self.busy.swap(true, Ordering::Acquire) {
            std::thread::yield_now();
        }
        Alone(self)
    }
}

// SAFETY: `batch` is touched only by the thread that took `busy`.
unsafe impl Sync for Builder {}

#[derive(Default)]
struct Batch {
    drafts: Vec<Draft>,
    sges: Vec<Sge>,
    inline: Vec<u8>,
    error: Option<i32>,
}

/// One request; its data lie in the batch's vectors.
struct Draft {
    wr_id: u64,
    opcode: SendOpcode,
    flags: SendFlags,
    imm_or_key: u32,
    remote_addr: u64,
    rkey: u32,
    compare_add: u64,
    swap: u64,
    ah: Option<Arc<hca::Ah>>,
    remote_qpn: u32,
    remote_qkey: u32,
    srqn: u32,
    bind: Option<hca::BindMw>,
    data: Data,
}

enum Data {
    None,
    /// Elements of the batch.
    Sges(Range<usize>),
    /// Bytes of the batch, not yet an element.
    Inline(Range<usize>),
}

impl Draft {
    /// What the adapter is asked; `sges` are the elements of the batch.
    fn request<'a>(&'a self, sges: &'a [Sge]) -> hca::SendRequest<'a> {
        hca::SendRequest {
            wr_id: self.wr_id,
            opcode: self.opcode,
            flags: self.flags,
            sges: match &self.data {
                Data::Sges(range) => &sges[range.clone()],
                Data::None | Data::Inline(_) => &[],
            },
            imm_or_key: self.imm_or_key,
            remote_addr: self.remote_addr,
            rkey: self.rkey,
            compare_add: self.compare_add,
            swap: self.swap,
            ah: self.ah.as_deref(),
            remote_qpn: self.remote_qpn,
            remote_qkey: self.remote_qkey,
            srqn: self.srqn,
            bind: self.bind,
        }
    }
}

impl Batch {
    fn clear(&mut self) {
        self.drafts.clear();
        self.sges.clear();
        self.inline.clear();
        self.error = None;
    }

    /// Remembers the first mistake.
    fn fail(&mut self, errno: i32) {
        self.error.get_or_insert(errno);
    }

    /// Posts all of it or nothing.
    fn post(&mut self, queue_pair: &Arc<hca::Qp>) -> Result<(), i32> {
        let Batch {
            drafts,
            sges,
            inline,
            ..
        } = self;
        for draft in &mut *drafts {
            if let Data::Inline(range) = &draft.data {
                // the queue's limit is far below what an element can hold
                let length = u32::try_from(range.len()).map_err(|_| libc::EINVAL)?;
                sges.push(Sge {
                    addr: inline[range.clone()].as_ptr() as u64,
                    length,
                    lkey: 0,
                });
                draft.flags |= SendFlags::INLINE;
                draft.data = Data::Sges(sges.len() - 1..sges.len());
            }
        }
        queue_pair
            .post_batch(drafts.iter().map(|draft| draft.request(sges)))
            .map_err(|error| error.errno())
    }

    /// Applies a setter to the open request; without one it is the program's mistake.
    fn set(&mut self, setter: impl FnOnce(&mut Draft)) {
        match self.drafts.last_mut() {
            Some(draft) => setter(draft),
            None => self.fail(libc::EINVAL),
        }
    }
}

/// Operations by the flag that requests them.
const OPERATIONS: [(u32, SendOpcode); 10] = [
    (sys::IBV_QP_EX_WITH_RDMA_WRITE, SendOpcode::RdmaWrite),
    (
        sys::IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM,
        SendOpcode::RdmaWriteImm,
    ),
    (sys::IBV_QP_EX_WITH_SEND, SendOpcode::Send),
    (sys::IBV_QP_EX_WITH_SEND_WITH_IMM, SendOpcode::SendImm),
    (sys::IBV_QP_EX_WITH_RDMA_READ, SendOpcode::RdmaRead),
    (sys::IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP, SendOpcode::CmpSwap),
    (
        sys::IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD,
        SendOpcode::FetchAdd,
    ),
    (sys::IBV_QP_EX_WITH_LOCAL_INV, SendOpcode::LocalInv),
    (sys::IBV_QP_EX_WITH_BIND_MW, SendOpcode::BindMw),
    (sys::IBV_QP_EX_WITH_SEND_WITH_INV, SendOpcode::SendInv),
];

/// Whether a service has an operation, as the direct wire decides it too when a request is posted (IBA table 46).
fn offers(qp_type: QpType, opcode: SendOpcode) -> bool {
    use SendOpcode as Op;
    match qp_type {
        QpType::Rc | QpType::XrcSend => true,
        QpType::Uc => !matches!(
            opcode,
            Op::RdmaRead | Op::CmpSwap | Op::FetchAdd | Op::SendInv
        ),
        QpType::Ud => matches!(opcode, Op::Send | Op::SendImm),
        QpType::XrcRecv => false,
    }
}

/// EOPNOTSUPP if any of the requested operations is unknown or not the service's.
pub fn check_operations(qp_type: QpType, requested: u64) -> Result<(), i32> {
    let offered: u64 = OPERATIONS
        .iter()
        .filter(|(_, opcode)| offers(qp_type, *opcode))
        .map(|(flag, _)| u64::from(*flag))
        .sum();
    if requested & !offered == 0 {
        Ok(())
    } else {
        Err(libc::EOPNOTSUPP)
    }
}

/// Fills the function pointers: those of the requested operations and the setters that belong to the service.
pub fn install(c: &mut sys::ibv_qp_ex, qp_type: QpType, requested: u64) {
    let asked = |flag: u32| requested & u64::from(flag) != 0;
    c.wr_start = Some(wr_start);
    c.wr_complete = Some(wr_complete);
    c.wr_abort = Some(wr_abort);
    c.wr_set_sge = Some(wr_set_sge);
    c.wr_set_sge_list = Some(wr_set_sge_list);
    c.wr_set_inline_data = Some(wr_set_inline_data);
    c.wr_set_inline_data_list = Some(wr_set_inline_data_list);
    c.wr_set_ud_addr = (qp_type == QpType::Ud).then_some(wr_set_ud_addr as _);
    c.wr_set_xrc_srqn = (qp_type == QpType::XrcSend).then_some(wr_set_xrc_srqn as _);
    c.wr_rdma_write = asked(sys::IBV_QP_EX_WITH_RDMA_WRITE).then_some(wr_rdma_write as _);
    c.wr_rdma_write_imm =
        asked(sys::IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM).then_some(wr_rdma_write_imm as _);
    c.wr_send = asked(sys::IBV_QP_EX_WITH_SEND).then_some(wr_send as _);
    c.wr_send_imm = asked(sys::IBV_QP_EX_WITH_SEND_WITH_IMM).then_some(wr_send_imm as _);
    c.wr_send_inv = asked(sys::IBV_QP_EX_WITH_SEND_WITH_INV).then_some(wr_send_inv as _);
    c.wr_rdma_read = asked(sys::IBV_QP_EX_WITH_RDMA_READ).then_some(wr_rdma_read as _);
    c.wr_atomic_cmp_swp =
        asked(sys::IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP).then_some(wr_atomic_cmp_swp as _);
    c.wr_atomic_fetch_add =
        asked(sys::IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD).then_some(wr_atomic_fetch_add as _);
    c.wr_local_inv = asked(sys::IBV_QP_EX_WITH_LOCAL_INV).then_some(wr_local_inv as _);
    c.wr_bind_mw = asked(sys::IBV_QP_EX_WITH_BIND_MW).then_some(wr_bind_mw as _);
}

/// Runs `body` on the batch of a queue pair that the calling thread is building on.
///
/// # Safety
/// `qp` is a live queue pair, and the caller is between `wr_start` and its end.
#[inline(always)]
unsafe fn with_batch(qp: *mut sys::ibv_qp_ex, body: impl FnOnce(&mut Batch)) {
    entry(|| {
        // SAFETY: the caller's promise.
        let Ok(queue_pair) = (unsafe { Qp::of(qp) }) else {
            return;
        };
        if let Some(builder) = &queue_pair.builder {
            // SAFETY: the caller owns the builder.
            body(unsafe { &mut *builder.batch.get() });
        }
    });
}

/// Opens a request.
///
/// # Safety
/// As for [`with_batch`].
#[inline(always)]
unsafe fn open(qp: *mut sys::ibv_qp_ex, opcode: SendOpcode, fill: impl FnOnce(&mut Draft)) {
    // SAFETY: the caller's promise.
    let body = |batch: &mut Batch| {
        // SAFETY: the program stored them before this call, in the same thread.
        let (wr_id, wr_flags) = unsafe { ((*qp).wr_id, (*qp).wr_flags) };
        let mut draft = Draft {
            wr_id,
            opcode,
            flags: SendFlags::from_bits_truncate(wr_flags) - SendFlags::INLINE,
            imm_or_key: 0,
            remote_addr: 0,
            rkey: 0,
            compare_add: 0,
            swap: 0,
            ah: None,
            remote_qpn: 0,
            remote_qkey: 0,
            srqn: 0,
            bind: None,
            data: Data::None,
        };
        fill(&mut draft);
        batch.drafts.push(draft);
    };
    // SAFETY: the caller's promise.
    unsafe { with_batch(qp, body) };
}

unsafe extern "C" fn wr_start(qp: *mut sys::ibv_qp_ex) {
    entry(|| {
        // SAFETY: programs call it with the queue pair that holds the pointer.
        let Ok(queue_pair) = (unsafe { Qp::of(qp) }) else {
            return;
        };
        if let Some(builder) = &queue_pair.builder {
            // Held beyond this call, until wr_complete or wr_abort.
            std::mem::forget(builder.acquire());
            // SAFETY: the flag was just taken.
            unsafe { (*builder.batch.get()).clear() };
        }
    });
}

unsafe extern "C" fn wr_abort(qp: *mut sys::ibv_qp_ex) {
    entry(|| {
        // SAFETY: programs call it with the queue pair that holds the pointer.
        let Ok(queue_pair) = (unsafe { Qp::of(qp) }) else {
            return;
        };
        if let Some(builder) = &queue_pair.builder {
            let _alone = Alone(builder);
            // SAFETY: the caller is between wr_start and this call.
            unsafe { (*builder.batch.get()).clear() };
        }
    });
}

unsafe extern "C" fn wr_complete(qp: *mut sys::ibv_qp_ex) -> c_int {
    entry(|| {
        // SAFETY: programs call it with the queue pair that holds the pointer.
        let queue_pair = match unsafe { Qp::of(qp) } {
            Ok(queue_pair) => queue_pair,
            Err(errno) => return c_int::failure(errno),
        };
        let Some(builder) = &queue_pair.builder else {
            return c_int::failure(libc::EINVAL);
        };
        // Given back at the end, also by a panic.
        let _alone = Alone(builder);
        // SAFETY: the caller is between wr_start and this call.
        let batch = unsafe { &mut *builder.batch.get() };
        sanitizer::sends(queue_pair.hca.qpn);
        for draft in batch.drafts.iter().filter(|draft| draft.ah.is_some()) {
            sanitizer::release(Side::Receive, draft.remote_qpn);
        }
        let result = match batch.error {
            Some(errno) => Err(errno),
            None => batch.post(&queue_pair.hca),
        };
        batch.clear();
        match result {
            Ok(()) => 0,
            Err(errno) => c_int::failure(errno),
        }
    })
}

/// Builders: open a request and fill what the operation carries.
macro_rules! builders {
    ($($name:ident($($argument:ident: $type:ty),*) = $opcode:ident { $($field:ident: $value:expr),* };)*) => {$(
        unsafe extern "C" fn $name(qp: *mut sys::ibv_qp_ex $(, $argument: $type)*) {
            // SAFETY: programs call it with the queue pair that holds the pointer, between wr_start and its end.
            unsafe {
                open(qp, SendOpcode::$opcode, |_draft| {
                    $(_draft.$field = $value;)*
                });
            }
        }
    )*};
}

builders! {
    wr_send() = Send {};
    wr_send_imm(imm: sys::__be32) = SendImm { imm_or_key: imm };
    wr_send_inv(key: u32) = SendInv { imm_or_key: key };
    wr_local_inv(key: u32) = LocalInv { imm_or_key: key };
    wr_rdma_read(rkey: u32, addr: u64) = RdmaRead { rkey: rkey, remote_addr: addr };
    wr_rdma_write(rkey: u32, addr: u64) = RdmaWrite { rkey: rkey, remote_addr: addr };
    wr_rdma_write_imm(rkey: u32, addr: u64, imm: sys::__be32) =
        RdmaWriteImm { rkey: rkey, remote_addr: addr, imm_or_key: imm };
    wr_atomic_fetch_add(rkey: u32, addr: u64, add: u64) = FetchAdd { rkey: rkey, remote_addr: addr, compare_add: add };
    wr_atomic_cmp_swp(rkey: u32, addr: u64, compare: u64, swap: u64) =
        CmpSwap { rkey: rkey, remote_addr: addr, compare_add: compare, swap: swap };
}

unsafe extern "C" fn wr_bind_mw(
    qp: *mut sys::ibv_qp_ex,
    mw: *mut sys::ibv_mw,
    rkey: u32,
    bind_info: *const sys::ibv_mw_bind_info,
) {
    entry(|| {
        // SAFETY: the program passes a live window and readable information.
        let bind = unsafe { bind_info.as_ref() }
            .ok_or(libc::EINVAL)
            .and_then(|info| {
                // SAFETY: as above.
                unsafe { Mw::bind_request(mw, rkey, info) }
            });
        // SAFETY: programs call it with the queue pair that holds the pointer, between wr_start and its end.
        unsafe {
            match bind {
                Ok(bind) => open(qp, SendOpcode::BindMw, |draft| draft.bind = Some(bind)),
                Err(errno) => with_batch(qp, |batch| batch.fail(errno)),
            }
        }
    });
}

unsafe extern "C" fn wr_set_ud_addr(
    qp: *mut sys::ibv_qp_ex,
    ah: *mut sys::ibv_ah,
    qpn: u32,
    qkey: u32,
) {
    entry(|| {
        // SAFETY: the program passes a live handle.
        let handle = unsafe { Ah::of(ah) }.map(|ah| Arc::clone(&ah.hca));
        // SAFETY: programs call it with the queue pair that holds the pointer, between wr_start and its end.
        unsafe {
            with_batch(qp, |batch| match handle {
                Ok(handle) => batch.set(|draft| {
                    draft.ah = Some(handle);
                    (draft.remote_qpn, draft.remote_qkey) = (qpn, qkey);
                }),
                Err(errno) => batch.fail(errno),
            });
        }
    });
}

unsafe extern "C" fn wr_set_xrc_srqn(qp: *mut sys::ibv_qp_ex, srqn: u32) {
    // SAFETY: programs call it with the queue pair that holds the pointer, between wr_start and its end.
    unsafe { with_batch(qp, |batch| batch.set(|draft| draft.srqn = srqn)) };
}

unsafe extern "C" fn wr_set_sge(qp: *mut sys::ibv_qp_ex, lkey: u32, addr: u64, length: u32) {
    // SAFETY: programs call it with the queue pair that holds the pointer, between wr_start and its end.
    unsafe {
        with_batch(qp, |batch| {
            batch.gather(std::iter::once(Sge { addr, length, lkey }))
        })
    };
}

unsafe extern "C" fn wr_set_sge_list(
    qp: *mut sys::ibv_qp_ex,
    num_sge: usize,
    sg_list: *const sys::ibv_sge,
) {
    // SAFETY: programs call it with the queue pair that holds the pointer, between wr_start and its end.
    unsafe {
        with_batch(qp, |batch| match sg_list.is_null() && num_sge > 0 {
            true => batch.fail(libc::EINVAL),
            false => {
                batch.gather((0..num_sge).map(|index| sg_list.add(index).cast::<Sge>().read()))
            }
        });
    }
}

unsafe extern "C" fn wr_set_inline_data(qp: *mut sys::ibv_qp_ex, addr: *mut c_void, length: usize) {
    let buffer = sys::ibv_data_buf { addr, length };
    // SAFETY: the list is one local element; the rest is the program's promise, as for the list.
    unsafe { wr_set_inline_data_list(qp, 1, &buffer) };
}

unsafe extern "C" fn wr_set_inline_data_list(
    qp: *mut sys::ibv_qp_ex,
    num_buf: usize,
    buf_list: *const sys::ibv_data_buf,
) {
    // SAFETY: programs call it with the queue pair that holds the pointer, between wr_start and its end.
    unsafe {
        with_batch(qp, |batch| {
            let start = batch.inline.len();
            for index in 0..num_buf {
                let buffer = buf_list.add(index).read();
                if buffer.length > 0 {
                    copy_inline(&mut batch.inline, buffer.addr.cast(), buffer.length);
                }
            }
            let end = batch.inline.len();
            batch.set(|draft| draft.data = Data::Inline(start..end));
        });
    }
}

/// Appends bytes of the program, which other threads of it may be writing, without forming a reference to them.
///
/// # Safety
/// `from` is readable for `length` bytes.
unsafe fn copy_inline(to: &mut Vec<u8>, from: *const u8, length: usize) {
    to.reserve(length);
    // SAFETY: the vector has room for `length` more bytes behind its end.
    let end = unsafe { to.as_mut_ptr().add(to.len()) };
    // SAFETY: the caller's promise; the vector's own memory does not overlap the program's.
    unsafe { std::ptr::copy_nonoverlapping(from, end, length) };
    // SAFETY: the bytes were just written.
    unsafe { to.set_len(to.len() + length) };
}

impl Batch {
    /// Gives the open request its list of buffers.
    fn gather(&mut self, list: impl Iterator<Item = Sge>) {
        let start = self.sges.len();
        self.sges.extend(list);
        let end = self.sges.len();
        self.set(|draft| draft.data = Data::Sges(start..end));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_service_offers_its_operations_only() {
        let all: u64 = OPERATIONS.iter().map(|(flag, _)| u64::from(*flag)).sum();
        let atomics = u64::from(sys::IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP);
        assert_eq!(check_operations(QpType::Rc, all), Ok(()));
        assert_eq!(check_operations(QpType::XrcSend, all), Ok(()));
        assert_eq!(check_operations(QpType::Uc, atomics), Err(libc::EOPNOTSUPP));
        let invalidate = u64::from(sys::IBV_QP_EX_WITH_SEND_WITH_INV);
        let uc = all
            - invalidate
            - atomics
            - u64::from(sys::IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD | sys::IBV_QP_EX_WITH_RDMA_READ);
        assert_eq!(check_operations(QpType::Uc, uc), Ok(()));
        assert_eq!(
            check_operations(QpType::Uc, invalidate),
            Err(libc::EOPNOTSUPP)
        );
        assert_eq!(
            check_operations(QpType::Ud, u64::from(sys::IBV_QP_EX_WITH_SEND_WITH_IMM)),
            Ok(())
        );
        assert_eq!(
            check_operations(QpType::Ud, u64::from(sys::IBV_QP_EX_WITH_RDMA_WRITE)),
            Err(libc::EOPNOTSUPP)
        );
        assert_eq!(check_operations(QpType::XrcRecv, 1), Err(libc::EOPNOTSUPP));
        assert_eq!(
            check_operations(QpType::Rc, u64::from(sys::IBV_QP_EX_WITH_TSO)),
            Err(libc::EOPNOTSUPP)
        );
    }

    #[test]
    fn only_requested_builders_are_installed() {
        let mut c = sys::ibv_qp_ex::default();
        install(&mut c, QpType::Ud, sys::IBV_QP_EX_WITH_SEND.into());
        assert!(c.wr_send.is_some() && c.wr_set_ud_addr.is_some() && c.wr_complete.is_some());
        assert!(
            c.wr_send_imm.is_none() && c.wr_rdma_write.is_none() && c.wr_set_xrc_srqn.is_none()
        );
    }

    #[test]
    fn a_setter_without_a_request_is_the_batch_error() {
        let mut batch = Batch::default();
        batch.gather(std::iter::once(Sge::default()));
        batch.fail(libc::ENOMEM);
        assert_eq!(
            batch.error,
            Some(libc::EINVAL),
            "the first mistake is reported"
        );
    }
}
