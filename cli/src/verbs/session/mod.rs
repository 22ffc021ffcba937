//! One side of a connected pair of queue pairs: what `ferriband perf` measures with.
//!
//! Owns: every object of the connection, from the protection domain to the buffers, and their
//! destruction in the order that the API demands. Must not know: what is measured, or how the two
//! sides talk to each other before they are connected.

mod connect;
mod memory;
mod traffic;

use super::Context;
use crate::args::Service;
use crate::failure::Failure;
use ferriband_verbs_sys::*;
use memory::{Buffer, DeviceMemory};
use serde::{Deserialize, Serialize};
use std::ptr;

pub use memory::pattern;

/// Room for the global routing header in front of a received datagram.
const GRH_BYTES: usize = 40;
/// Outstanding send requests that a queue pair is asked for.
pub const SEND_DEPTH: u32 = 64;
/// Receives that a queue pair is asked for: one batch of messages.
pub const RECEIVE_DEPTH: u32 = 512;
const PORT: u8 = 1;
const QKEY: u32 = 0x1111_1111;
/// Marks a receive in `wr_id`.
const RECEIVE_ID: u64 = 1 << 63;
/// READs and atomics that a queue pair may have outstanding.
const READS_OUTSTANDING: u8 = 8;

/// What the other side must know to connect and to reach this side's memory.
#[derive(Serialize, Deserialize, Debug, Clone)]
pub struct Endpoint {
    qpn: u32,
    psn: u32,
    lid: u16,
    gid: [u8; 16],
    address: u64,
    rkey: u32,
}

/// What a connection is made for.
#[derive(Serialize, Deserialize, Debug, Clone)]
pub struct Plan {
    /// Transport service.
    pub service: Service,
    /// The largest message.
    pub largest_bytes: usize,
    /// Largest inline message, 0 for none.
    pub inline_bytes: u32,
    /// Sleep for completions instead of polling.
    pub event: bool,
    /// The target of one-sided operations is device memory.
    pub device_memory: bool,
}

/// A queue pair with everything that it needs.
pub struct Session<'a> {
    context: &'a Context,
    plan: Plan,
    pd: *mut ibv_pd,
    channel: *mut ibv_comp_channel,
    cq: *mut ibv_cq,
    qp: *mut ibv_qp,
    ah: *mut ibv_ah,
    /// What this side sends from and reads into.
    source: Buffer,
    source_mr: *mut ibv_mr,
    /// What the peer sends into, writes to and reads from.
    target: Buffer,
    target_mr: *mut ibv_mr,
    device_memory: Option<DeviceMemory>,
    port: ibv_port_attr,
    gid: [u8; 16],
    peer: Option<Endpoint>,
    /// Send requests whose completion was seen.
    pub sent: u64,
    /// Receives whose completion was seen.
    pub received: u64,
    /// Immediate data of the last receive, in host order.
    pub last_immediate: u32,
    unacknowledged_events: u32,
}

impl<'a> Session<'a> {
    /// Makes every object, up to a queue pair in state INIT.
    pub fn new(context: &'a Context, plan: Plan) -> Result<Self, Failure> {
        let mut session = Session {
            context,
            pd: ptr::null_mut(),
            channel: ptr::null_mut(),
            cq: ptr::null_mut(),
            qp: ptr::null_mut(),
            ah: ptr::null_mut(),
            source: Buffer::new(plan.largest_bytes),
            source_mr: ptr::null_mut(),
            target: Buffer::new(plan.largest_bytes + GRH_BYTES),
            target_mr: ptr::null_mut(),
            device_memory: None,
            port: context.port(PORT)?,
            gid: context.gid(PORT, 0)?,
            peer: None,
            sent: 0,
            received: 0,
            last_immediate: 0,
            unacknowledged_events: 0,
            plan,
        };
        session.make_memory()?;
        session.make_queues()?;
        session.to_init()?;
        Ok(session)
    }

    fn made<T>(&self, object: *mut T, what: &str) -> Result<*mut T, Failure> {
        if object.is_null() {
            return Err(Failure::os(
                "create",
                &format!("{what} on adapter {}", self.context.name),
            ));
        }
        Ok(object)
    }
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        let library = &self.context.library;
        // Users before what they use. A failure to destroy is not reported: the process ends soon,
        // and the measurement has already said what went wrong.
        if !self.qp.is_null() {
            // SAFETY: made by us, destroyed once.
            unsafe { (library.ibv_destroy_qp)(self.qp) };
        }
        if !self.ah.is_null() {
            // SAFETY: made by us, destroyed once, after the queue pair that used it.
            unsafe { (library.ibv_destroy_ah)(self.ah) };
        }
        if !self.cq.is_null() {
            // SAFETY: the queue is alive, and so many events were taken.
            unsafe { (library.ibv_ack_cq_events)(self.cq, self.unacknowledged_events) };
            // SAFETY: made by us, destroyed once, after the queue pair that used it.
            unsafe { (library.ibv_destroy_cq)(self.cq) };
        }
        if !self.channel.is_null() {
            // SAFETY: made by us, destroyed once, after its queue.
            unsafe { (library.ibv_destroy_comp_channel)(self.channel) };
        }
        for mr in [self.source_mr, self.target_mr]
            .into_iter()
            .filter(|mr| !mr.is_null())
        {
            // SAFETY: made by us, deregistered once, before its memory goes.
            unsafe { (library.ibv_dereg_mr)(mr) };
        }
        if let Some(memory) = self.device_memory.take() {
            // SAFETY: made by us, freed once, after its region.
            unsafe { (memory.free)(memory.raw) };
        }
        if !self.pd.is_null() {
            // SAFETY: made by us, freed once, after everything in it.
            unsafe { (library.ibv_dealloc_pd)(self.pd) };
        }
    }
}
