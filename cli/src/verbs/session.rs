//! One side of a connected pair of queue pairs: what `ferriband perf` measures with.
//!
//! Owns: every object of the connection, from the protection domain to the buffers, and their
//! destruction in the order that the API demands. Must not know: what is measured, or how the two
//! sides talk to each other before they are connected.

use super::{Context, check};
use crate::args::{Operation, Service};
use crate::failure::Failure;
use ferriband_verbs_sys::*;
use serde::{Deserialize, Serialize};
use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ffi::{c_int, c_void};
use std::ptr;
use std::time::{Duration, Instant};

/// Room for the global routing header in front of a received datagram.
const GRH_BYTES: usize = 40;
/// Outstanding send requests that a queue pair is asked for.
pub const SEND_DEPTH: u32 = 64;
/// Receives that a queue pair is asked for: one batch of messages.
pub const RECEIVE_DEPTH: u32 = 512;
/// How long a completion may take before the measurement is given up.
const PATIENCE: Duration = Duration::from_secs(30);
const PORT: u8 = 1;
const QKEY: u32 = 0x1111_1111;
const PAGE_BYTES: usize = 4096;
/// What places and lengths in device memory are multiples of.
const DEVICE_WORD_BYTES: usize = 4;
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

/// Page-aligned zeroed memory.
struct Buffer {
    base: *mut u8,
    layout: Layout,
}

impl Buffer {
    fn new(length_bytes: usize) -> Self {
        let rounded = length_bytes.next_multiple_of(PAGE_BYTES).max(PAGE_BYTES);
        let layout =
            Layout::from_size_align(rounded, PAGE_BYTES).expect("a message is below 2 GiB");
        // SAFETY: the layout has a size above zero.
        let base = unsafe { alloc_zeroed(layout) };
        if base.is_null() {
            handle_alloc_error(layout);
        }
        Buffer { base, layout }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: allocated by us with this layout; regions over it are deregistered before.
        unsafe { dealloc(self.base, self.layout) };
    }
}

/// Device memory with the calls that reach it.
struct DeviceMemory {
    raw: *mut ibv_dm,
    free: unsafe extern "C" fn(*mut ibv_dm) -> c_int,
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

    fn make_memory(&mut self) -> Result<(), Failure> {
        let library = &self.context.library;
        // SAFETY: the context is open for as long as self.
        self.pd = self.made(
            unsafe { (library.ibv_alloc_pd)(self.context.raw) },
            "a protection domain",
        )?;
        let local = IBV_ACCESS_LOCAL_WRITE;
        let remote =
            local | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
        self.source_mr = self.register(&self.source, local)?;
        self.target_mr = if self.plan.device_memory {
            self.make_device_memory(remote)?
        } else {
            self.register(&self.target, remote)?
        };
        Ok(())
    }

    fn register(&self, buffer: &Buffer, access: u32) -> Result<*mut ibv_mr, Failure> {
        let (base, length) = (buffer.base.cast::<c_void>(), buffer.layout.size());
        // SAFETY: the buffer outlives the region: Drop deregisters first.
        let mr =
            unsafe { (self.context.library.ibv_reg_mr)(self.pd, base, length, access as c_int) };
        self.made(mr, &format!("a memory region of {length} bytes"))
    }

    fn make_device_memory(&mut self, access: u32) -> Result<*mut ibv_mr, Failure> {
        let without = || {
            Failure::new(format!(
                "adapter {} has no device memory (ibv_alloc_dm)",
                self.context.name
            ))
            .remedy("leave --dm out")
        };
        let extended = self.context.extended();
        if extended.is_null() {
            return Err(without());
        }
        // SAFETY: the context is open, and alloc_dm, free_dm and reg_dm_mr lie near the end of every
        // verbs_context since rdma-core 18.
        let (alloc, free, register) = unsafe {
            (
                (*extended).alloc_dm,
                (*extended).free_dm,
                (*extended).reg_dm_mr,
            )
        };
        let (Some(alloc), Some(free), Some(register)) = (alloc, free, register) else {
            return Err(without());
        };
        let length = self.target.layout.size();
        let mut attributes = ibv_alloc_dm_attr {
            length,
            log_align_req: 6,
            comp_mask: 0,
        };
        // SAFETY: the context is open, attributes is a valid struct.
        let dm = unsafe { alloc(self.context.raw, &mut attributes) };
        let dm = self.made(dm, &format!("{length} bytes of device memory"))?;
        self.device_memory = Some(DeviceMemory { raw: dm, free });
        // SAFETY: the domain and the device memory are alive, and the range is the whole of it.
        let mr = unsafe { register(self.pd, dm, 0, length, access | IBV_ACCESS_ZERO_BASED) };
        self.made(mr, "a memory region over device memory")
    }

    fn make_queues(&mut self) -> Result<(), Failure> {
        let library = &self.context.library;
        if self.plan.event {
            // SAFETY: the context is open.
            let channel = unsafe { (library.ibv_create_comp_channel)(self.context.raw) };
            self.channel = self.made(channel, "a completion channel")?;
        }
        let entries = (SEND_DEPTH + RECEIVE_DEPTH) as c_int;
        // SAFETY: the context is open; the channel is ours or NULL.
        let cq = unsafe {
            (library.ibv_create_cq)(self.context.raw, entries, ptr::null_mut(), self.channel, 0)
        };
        self.cq = self.made(cq, "a completion queue")?;
        let mut wanted = ibv_qp_init_attr {
            send_cq: self.cq,
            recv_cq: self.cq,
            cap: ibv_qp_cap {
                max_send_wr: SEND_DEPTH,
                max_recv_wr: RECEIVE_DEPTH,
                max_send_sge: 1,
                max_recv_sge: 1,
                max_inline_data: self.plan.inline_bytes,
            },
            qp_type: match self.plan.service {
                Service::Rc => IBV_QPT_RC,
                Service::Uc => IBV_QPT_UC,
                Service::Ud => IBV_QPT_UD,
            },
            ..ibv_qp_init_attr::default()
        };
        // SAFETY: domain and queue are alive; wanted is a valid struct.
        let qp = unsafe { (library.ibv_create_qp)(self.pd, &mut wanted) };
        self.qp = self.made(qp, &format!("a {:?} queue pair", self.plan.service))?;
        Ok(())
    }

    fn modify(&self, attributes: &mut ibv_qp_attr, mask: u32, state: &str) -> Result<(), Failure> {
        // SAFETY: the queue pair is alive; attributes is a valid struct.
        let rc =
            unsafe { (self.context.library.ibv_modify_qp)(self.qp, attributes, mask as c_int) };
        check(
            rc,
            "move",
            &format!("a {:?} queue pair to {state}", self.plan.service),
        )
    }

    fn to_init(&self) -> Result<(), Failure> {
        let mut attributes = ibv_qp_attr {
            qp_state: IBV_QPS_INIT,
            port_num: PORT,
            qkey: QKEY,
            qp_access_flags: match self.plan.service {
                Service::Rc => {
                    IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC
                }
                _ => IBV_ACCESS_REMOTE_WRITE,
            },
            ..ibv_qp_attr::default()
        };
        let last = if self.plan.service == Service::Ud {
            IBV_QP_QKEY
        } else {
            IBV_QP_ACCESS_FLAGS
        };
        self.modify(
            &mut attributes,
            IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | last,
            "INIT",
        )
    }

    /// What to tell the peer.
    pub fn endpoint(&self) -> Endpoint {
        // SAFETY: the queue pair and the region are alive, and these fields do not change.
        let (qpn, mr) = unsafe { ((*self.qp).qp_num, &*self.target_mr) };
        let address = if self.plan.device_memory {
            0
        } else {
            self.target.base as u64
        };
        let psn = (address as u32 >> 12) & 0xff_ffff;
        Endpoint {
            qpn,
            psn,
            lid: self.port.lid,
            gid: self.gid,
            address,
            rkey: mr.rkey,
        }
    }

    /// Moves the queue pair to RTS against this peer.
    pub fn connect(&mut self, peer: Endpoint) -> Result<(), Failure> {
        let own_psn = self.endpoint().psn;
        let ethernet = u32::from(self.port.link_layer) == IBV_LINK_LAYER_ETHERNET;
        let mut address = ibv_ah_attr {
            dlid: peer.lid,
            port_num: PORT,
            is_global: u8::from(ethernet),
            grh: ibv_global_route {
                dgid: ibv_gid { raw: peer.gid },
                hop_limit: 64,
                ..Default::default()
            },
            ..Default::default()
        };
        let mut ready = ibv_qp_attr {
            qp_state: IBV_QPS_RTR,
            path_mtu: self.port.active_mtu,
            dest_qp_num: peer.qpn,
            rq_psn: peer.psn,
            max_dest_rd_atomic: READS_OUTSTANDING,
            min_rnr_timer: 12,
            ah_attr: address,
            ..ibv_qp_attr::default()
        };
        let connected =
            IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
        let mask = match self.plan.service {
            Service::Rc => connected | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
            Service::Uc => connected,
            Service::Ud => IBV_QP_STATE,
        };
        self.modify(&mut ready, mask, "RTR")?;
        let mut sending = ibv_qp_attr {
            qp_state: IBV_QPS_RTS,
            sq_psn: own_psn,
            timeout: 14,
            retry_cnt: 7,
            rnr_retry: 7,
            max_rd_atomic: READS_OUTSTANDING,
            ..ibv_qp_attr::default()
        };
        let mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
        let reliable =
            IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
        self.modify(
            &mut sending,
            if self.plan.service == Service::Rc {
                mask | reliable
            } else {
                mask
            },
            "RTS",
        )?;
        if self.plan.service == Service::Ud {
            // SAFETY: the domain is alive; address is a valid struct.
            let ah = unsafe { (self.context.library.ibv_create_ah)(self.pd, &mut address) };
            self.ah = self.made(ah, "an address handle")?;
        }
        self.peer = Some(peer);
        Ok(())
    }

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

    /// Waits until the last of `length_bytes` of the target buffer is `value`, taking completions meanwhile: what a
    /// program does that polls for an RDMA WRITE.
    #[inline]
    pub fn wait_for_last_byte(&mut self, length_bytes: usize, value: u8) -> Result<(), Failure> {
        let mut idle = 0u32;
        let mut deadline = None;
        while self.target_byte(length_bytes - 1) != value {
            idle += 1;
            if idle.is_multiple_of(64) {
                self.poll()?;
            }
            if idle.is_multiple_of(1 << 20) {
                give_up_after(&mut deadline)?;
            }
        }
        Ok(())
    }

    #[inline]
    fn target_byte(&self, offset: usize) -> u8 {
        let Some(memory) = &self.device_memory else {
            // SAFETY: the offset is inside the target buffer; the peer may write it, hence volatile.
            return unsafe { self.target.base.add(offset).read_volatile() };
        };
        // Device memory is read in words: adapters demand that alignment (as mlx5 does).
        let mut word = [0; DEVICE_WORD_BYTES];
        copy_from_device(memory, offset - offset % DEVICE_WORD_BYTES, &mut word);
        word[offset % DEVICE_WORD_BYTES]
    }

    /// Fills the source buffer with a pattern.
    pub fn fill_source(&mut self, seed: u64, length_bytes: usize) {
        let pattern = pattern(seed, length_bytes);
        // SAFETY: the buffer is at least largest_bytes long, and no request on it is outstanding.
        unsafe { ptr::copy_nonoverlapping(pattern.as_ptr(), self.source.base, length_bytes) };
    }

    /// Sets the last byte of the message in the source buffer.
    #[inline]
    pub fn set_last_byte(&mut self, length_bytes: usize, value: u8) {
        // SAFETY: inside the buffer.
        unsafe { self.source.base.add(length_bytes - 1).write_volatile(value) };
    }

    /// The first `length_bytes` of the source buffer.
    pub fn source(&self, length_bytes: usize) -> Vec<u8> {
        let mut bytes = vec![0; length_bytes];
        // SAFETY: the buffer is at least that long, and no request on it is outstanding.
        unsafe { ptr::copy_nonoverlapping(self.source.base, bytes.as_mut_ptr(), length_bytes) };
        bytes
    }

    /// The first `length_bytes` of what arrived in the target buffer; for datagrams what follows the routing header.
    pub fn target(&self, length_bytes: usize) -> Vec<u8> {
        let mut bytes = vec![0; length_bytes];
        let skip = if self.plan.service == Service::Ud {
            GRH_BYTES
        } else {
            0
        };
        match &self.device_memory {
            Some(memory) => {
                bytes.resize(length_bytes.next_multiple_of(DEVICE_WORD_BYTES), 0);
                copy_from_device(memory, 0, &mut bytes);
                bytes.truncate(length_bytes);
            }
            // SAFETY: the buffer holds largest_bytes and the header; the peer is quiet now.
            None => unsafe {
                ptr::copy_nonoverlapping(
                    self.target.base.add(skip),
                    bytes.as_mut_ptr(),
                    length_bytes,
                )
            },
        }
        bytes
    }

    /// Overwrites the start of the target buffer.
    pub fn set_target(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        assert!(bytes.len() <= self.plan.largest_bytes);
        let Some(memory) = &self.device_memory else {
            // SAFETY: inside the buffer; the peer is quiet now.
            unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), self.target.base, bytes.len()) };
            return Ok(());
        };
        // SAFETY: the device memory is alive, and its copy function does not change.
        let copy = unsafe { (*memory.raw).memcpy_to_dm }.expect("device memory can be written");
        let mut padded = bytes.to_vec();
        padded.resize(bytes.len().next_multiple_of(DEVICE_WORD_BYTES), 0);
        // SAFETY: the target has room for a header more than the largest message.
        let rc = unsafe { copy(memory.raw, 0, padded.as_ptr().cast(), padded.len()) };
        check(rc, "write", "device memory")
    }
}

fn copy_from_device(memory: &DeviceMemory, offset: usize, bytes: &mut [u8]) {
    // SAFETY: the device memory is alive, and its copy function does not change.
    let copy = unsafe { (*memory.raw).memcpy_from_dm }.expect("device memory can be read");
    // SAFETY: callers stay inside the target buffer's length, which the device memory has.
    let rc = unsafe {
        copy(
            bytes.as_mut_ptr().cast(),
            memory.raw,
            offset as u64,
            bytes.len(),
        )
    };
    assert_eq!(rc, 0, "a range inside device memory can be read");
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

/// Bytes that depend on the seed and on their place: a shifted, stale or half-copied message differs.
pub fn pattern(seed: u64, length_bytes: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut bytes = Vec::with_capacity(length_bytes + 8);
    while bytes.len() < length_bytes {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(length_bytes);
    bytes
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_differ_by_seed_and_place() {
        let (a, b) = (pattern(1, 4096), pattern(2, 4096));
        assert_ne!(a, b);
        assert_ne!(a[..2048], a[2048..]);
        assert_eq!(pattern(1, 100), a[..100]);
    }
}
