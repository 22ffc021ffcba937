//! The traffic of a session: posting, and waiting by polling or by sleeping.

use super::{GRH_BYTES, QKEY, RECEIVE_ID, Session};
use crate::args::{Operation, Service};
use crate::failure::Failure;
use crate::verbs::check;
use ferriband_verbs_sys::*;
use std::ffi::c_int;
use std::ptr;
use std::time::{Duration, Instant};

/// How long a completion may take before the measurement is given up.
const PATIENCE: Duration = Duration::from_secs(30);

impl Session<'_> {
    /// Posts a receive of at most `length_bytes` into the target buffer.
    pub fn post_receive(&mut self, length_bytes: usize) -> Result<(), Failure> {
        let room = if self.plan.service == Service::Ud {
            length_bytes + GRH_BYTES
        } else {
            length_bytes
        };
        // SAFETY: the region is alive.
        let lkey = unsafe { (*self.target_mr).lkey };
        let mut entry = ibv_sge {
            addr: self.target.base as u64,
            length: room as u32,
            lkey,
        };
        let mut request = ibv_recv_wr {
            wr_id: RECEIVE_ID,
            next: ptr::null_mut(),
            sg_list: &mut entry,
            num_sge: 1,
        };
        let mut bad = ptr::null_mut();
        // SAFETY: the context is open; its operations are set for its life.
        let post = unsafe { (*self.context.raw).ops.post_recv }.expect("every provider receives");
        // SAFETY: the request and its entry live through the call, which copies them.
        let rc = unsafe { post(self.qp, &mut request, &mut bad) };
        check(rc, "post", "a receive")
    }

    /// Posts one signaled request of `length_bytes` out of (or, for READ and atomics, into) the source buffer.
    /// `operand` is the immediate value, the addend, or compare (low) and swap (compare + 1).
    #[inline]
    pub fn post(
        &mut self,
        operation: Operation,
        length_bytes: usize,
        operand: u64,
    ) -> Result<(), Failure> {
        let peer = self.peer.as_ref().expect("connect comes before post");
        // SAFETY: the region is alive.
        let lkey = unsafe { (*self.source_mr).lkey };
        let mut entry = ibv_sge {
            addr: self.source.base as u64,
            length: length_bytes as u32,
            lkey,
        };
        let mut request = ibv_send_wr {
            sg_list: &mut entry,
            num_sge: 1,
            opcode: opcode(operation),
            send_flags: IBV_SEND_SIGNALED,
            ..ibv_send_wr::default()
        };
        match operation {
            Operation::CmpSwap | Operation::FetchAdd => {
                request.wr.atomic.remote_addr = peer.address;
                request.wr.atomic.rkey = peer.rkey;
                request.wr.atomic.compare_add = operand;
                request.wr.atomic.swap = operand + 1;
            }
            Operation::Write | Operation::WriteImm | Operation::Read => {
                request.wr.rdma.remote_addr = peer.address;
                request.wr.rdma.rkey = peer.rkey;
            }
            Operation::Send | Operation::SendImm => {
                request.wr.ud.ah = self.ah;
                request.wr.ud.remote_qpn = peer.qpn;
                request.wr.ud.remote_qkey = QKEY;
            }
        }
        if matches!(operation, Operation::SendImm | Operation::WriteImm) {
            request.__bindgen_anon_1.imm_data = (operand as u32).to_be();
        }
        let outgoing = !matches!(
            operation,
            Operation::Read | Operation::CmpSwap | Operation::FetchAdd
        );
        if outgoing && length_bytes <= self.plan.inline_bytes as usize {
            request.send_flags |= IBV_SEND_INLINE;
        }
        let mut bad = ptr::null_mut();
        // SAFETY: the context is open; its operations are set for its life.
        let post = unsafe { (*self.context.raw).ops.post_send }.expect("every provider sends");
        // SAFETY: the request and its entry live through the call, which copies them.
        let rc = unsafe { post(self.qp, &mut request, &mut bad) };
        if rc != 0 {
            return check(
                rc,
                "post",
                &format!("a {operation:?} request of {length_bytes} bytes"),
            );
        }
        Ok(())
    }

    /// Takes what has completed. True when there was something.
    #[inline]
    pub fn poll(&mut self) -> Result<bool, Failure> {
        let mut completions = [ibv_wc::default(); 16];
        // SAFETY: the context is open; its operations are set for its life.
        let poll = unsafe { (*self.context.raw).ops.poll_cq }.expect("every provider polls");
        // SAFETY: the array has room for the number asked for.
        let count = unsafe {
            poll(
                self.cq,
                completions.len() as c_int,
                completions.as_mut_ptr(),
            )
        };
        if count < 0 {
            return Err(Failure::new(format!(
                "polling the completion queue failed with {count}"
            )));
        }
        for completion in &completions[..count as usize] {
            if completion.status != IBV_WC_SUCCESS {
                let name = self.context.library.status_name(completion.status);
                let side = if completion.wr_id == RECEIVE_ID {
                    "a receive"
                } else {
                    "a request"
                };
                return Err(Failure::new(format!(
                    "{side} completed with status {} ({name})",
                    completion.status
                )));
            }
            if completion.wr_id == RECEIVE_ID {
                self.received += 1;
                // SAFETY: both views of the union are plain 32-bit values.
                self.last_immediate = u32::from_be(unsafe { completion.__bindgen_anon_1.imm_data });
            } else {
                self.sent += 1;
            }
        }
        Ok(count > 0)
    }

    /// Waits, as the plan says polling or sleeping, until `done`.
    #[inline]
    pub fn wait(&mut self, mut done: impl FnMut(&Self) -> bool) -> Result<(), Failure> {
        let mut idle = 0u32;
        let mut deadline = None;
        while !done(self) {
            if self.poll()? {
                continue;
            }
            if self.plan.event {
                self.sleep()?;
            }
            idle += 1;
            if idle.is_multiple_of(1 << 16) {
                give_up_after(&mut deadline)?;
            }
        }
        Ok(())
    }

    /// Arms the queue, looks once more, and sleeps for an event.
    fn sleep(&mut self) -> Result<(), Failure> {
        // SAFETY: the context is open; its operations are set for its life.
        let notify =
            unsafe { (*self.context.raw).ops.req_notify_cq }.expect("every provider notifies");
        // SAFETY: the queue is alive.
        check(unsafe { notify(self.cq, 0) }, "arm", "a completion queue")?;
        if self.poll()? {
            return Ok(());
        }
        // SAFETY: the channel is alive while the session is, and its descriptor does not change.
        let fd = unsafe { (*self.channel).fd };
        let mut ready = libc::pollfd {
            fd,
            events: libc::POLLIN,
            revents: 0,
        };
        // SAFETY: one valid pollfd.
        if unsafe { libc::poll(&mut ready, 1, PATIENCE.as_millis() as c_int) } == 0 {
            return Err(Failure::new(format!(
                "no completion event within {} s",
                PATIENCE.as_secs()
            )));
        }
        let (mut cq, mut cookie) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: the channel is alive; both out-pointers are valid.
        let rc =
            unsafe { (self.context.library.ibv_get_cq_event)(self.channel, &mut cq, &mut cookie) };
        check(rc, "take", "a completion event")?;
        self.unacknowledged_events += 1;
        Ok(())
    }

    /// Waits until the last of `length_bytes` of the target buffer is one of `values`, and gives
    /// which, taking completions meanwhile: what a program does that polls for an RDMA WRITE.
    #[inline]
    pub fn wait_for_last_byte(
        &mut self,
        length_bytes: usize,
        values: &[u8],
    ) -> Result<u8, Failure> {
        let mut idle = 0u32;
        let mut deadline = None;
        loop {
            let byte = self.target_byte(length_bytes - 1);
            if values.contains(&byte) {
                return Ok(byte);
            }
            idle += 1;
            if idle.is_multiple_of(64) {
                self.poll()?;
            }
            if idle.is_multiple_of(1 << 20) {
                give_up_after(&mut deadline)?;
            }
        }
    }
}

#[cold]
fn give_up_after(deadline: &mut Option<Instant>) -> Result<(), Failure> {
    let now = Instant::now();
    if now > *deadline.get_or_insert(now + PATIENCE) {
        return Err(
            Failure::new(format!("nothing completed within {} s", PATIENCE.as_secs()))
                .remedy("the other process may have died; see also: ferriband doctor"),
        );
    }
    Ok(())
}

fn opcode(operation: Operation) -> ibv_wr_opcode {
    match operation {
        Operation::Send => IBV_WR_SEND,
        Operation::SendImm => IBV_WR_SEND_WITH_IMM,
        Operation::Write => IBV_WR_RDMA_WRITE,
        Operation::WriteImm => IBV_WR_RDMA_WRITE_WITH_IMM,
        Operation::Read => IBV_WR_RDMA_READ,
        Operation::CmpSwap => IBV_WR_ATOMIC_CMP_AND_SWP,
        Operation::FetchAdd => IBV_WR_ATOMIC_FETCH_AND_ADD,
    }
}
