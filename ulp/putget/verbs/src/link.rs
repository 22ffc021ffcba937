//! One connection that stands, or is about to.
//!
//! Owns: the machine over its queue pairs. Must not know: how it was made.

use crate::Error;
use crate::adapter::{Adapter, Buffers};
use crate::queues::{LONGEST, Queues};
use crate::trace::{Traced, began};
use crate::users::{Peer, Users};
use ferriband_ibv::{CmId, SendFlags, Wc, WcOpcode};
use ferriband_putget_proto::{Answer, Asked, Connection, Direct, DirectJob, DirectOp, Granted};
use ferriband_putget_proto::{Job, Lease, Memory, NotBegun, NotDirect, NotStarted, Posting};
use ferriband_putget_proto::{Segment, Start, Started, Status, Violation, Wire};
use std::sync::Arc;
use std::time::Duration;

/// A connection.
pub(crate) struct Link<H> {
    pub peer: Peer,
    pub adapter: usize,
    /// The manager's: the connection ends with it.
    pub id: Arc<CmId>,
    pub machine: Connection<H>,
    pub queues: Queues,
    /// Signs of life of the peer, as many as were counted, and at the last look at those that wait.
    pub heard: u32,
    pub heard_before: u32,
    /// Since when the peer has to return a lease.
    pub revoking: Option<Duration>,
    /// The process is traced.
    trace: Option<Box<Traced>>,
    /// The last message that came, or bytes that an operation has brought.
    scratch: Vec<u8>,
    /// Bytes that an operation puts.
    outgoing: Vec<u8>,
}

/// The machine's wire and memory: the queue pairs of a connection beside the users of the process.
struct Port<'a, U> {
    users: &'a mut U,
    peer: Peer,
    /// None when the queue pairs are gone.
    wire: Option<(&'a mut Queues, &'a mut Buffers)>,
    trace: Option<&'a mut Traced>,
    /// For bytes on their way between the users and the queue pairs.
    scratch: &'a mut Vec<u8>,
}

impl<U: Users> Memory for Port<'_, U> {
    type Hold = U::Hold;

    fn admit(&mut self, asked: &Asked<'_>) -> Result<Granted<U::Hold>, Status> {
        self.users.admit(self.peer, asked)
    }

    fn place(&mut self, hold: U::Hold, data: &[u8]) {
        self.users.place(hold, data);
    }

    fn fetch(&mut self, hold: U::Hold, to: &mut [u8]) {
        self.users.fetch(hold, to);
    }

    fn exchange(&mut self, hold: U::Hold, data: &[u8], to: &mut [u8]) {
        self.users.exchange(hold, data, to);
    }

    fn ended(&mut self, hold: U::Hold, status: Status) {
        self.users.ended(hold, status);
    }

    fn gather(&mut self, token: u64, to: &mut [u8]) {
        self.users.gather(token, to);
    }

    fn scatter(&mut self, token: u64, data: &[u8]) {
        self.users.scatter(token, data);
    }

    fn done(&mut self, token: u64, answer: Answer) {
        self.users.done(token, answer);
    }

    fn counted(&mut self, token: u64, length: u64) {
        self.users.counted(self.peer, token, length);
    }

    fn returned(&mut self, token: u64) {
        self.users.returned(self.peer, token);
    }
}

impl<U: Users> Port<'_, U> {
    fn traced(&mut self, job: DirectJob, posting: &Posting, began_ns: Option<u64>) {
        if let (Some(trace), Some(began_ns)) = (&mut self.trace, began_ns) {
            trace.direct(job, posting, began_ns);
        }
    }

    fn begin(
        &mut self,
        job: Job,
        writes: bool,
        hold: U::Hold,
        remote: &[Segment],
    ) -> Result<(), NotBegun> {
        let (queues, _) = self.wire.as_mut().ok_or(NotBegun::Fault)?;
        let found = self.users.elements(hold, queues.elements());
        found.map_err(|_| NotBegun::Fault)?;
        let began_ns = began(self.trace.as_ref());
        queues.begin(job, writes, remote)?;
        if let (Some(trace), Some(began_ns)) = (&mut self.trace, began_ns) {
            let lengths = remote.iter().map(|segment| segment.length);
            trace.rdma(job, writes, lengths.sum(), began_ns);
        }
        Ok(())
    }
}

impl<U: Users> Wire for Port<'_, U> {
    fn send(&mut self, message: &[u8], solicited: bool, fence: bool) {
        let mut flags = SendFlags::empty();
        flags.set(SendFlags::SOLICITED, solicited);
        flags.set(SendFlags::FENCE, fence);
        if let Some(trace) = &mut self.trace {
            trace.sent(message);
        }
        if let Some((queues, buffers)) = &mut self.wire {
            queues.send(message, flags, buffers);
        }
    }

    fn direct(&mut self, job: DirectJob, posting: &Posting) -> Result<bool, NotBegun> {
        let (queues, buffers) = self.wire.as_mut().ok_or(NotBegun::Fault)?;
        let began_ns = began(self.trace.as_ref());
        let length = posting.remote.length;
        let elements = queues.elements();
        if length > buffers.bytes() as u64 {
            let found = self.users.own_elements(posting.token, elements);
            found.map_err(|_| NotBegun::Fault)?;
            if length > LONGEST || !queues.is_one_request(length) {
                return Err(NotBegun::Fault);
            }
            queues.direct(job, posting, None, buffers)?;
            self.traced(job, posting, began_ns);
            return Ok(false);
        }
        let mut data = std::mem::take(self.scratch);
        let is_put = posting.op == DirectOp::Put;
        if is_put {
            data.resize(length as usize, 0);
            self.users.gather(posting.token, &mut data);
        }
        let posted = queues.direct(job, posting, is_put.then_some(&data[..]), buffers);
        *self.scratch = data;
        posted?;
        self.traced(job, posting, began_ns);
        Ok(true)
    }

    fn read(&mut self, job: Job, to: U::Hold, from: &[Segment]) -> Result<(), NotBegun> {
        self.begin(job, false, to, from)
    }

    fn write(&mut self, job: Job, from: U::Hold, to: &[Segment]) -> Result<(), NotBegun> {
        self.begin(job, true, from, to)
    }
}

impl<H: Copy> Link<H> {
    pub fn new(
        peer: Peer,
        adapter: usize,
        id: Arc<CmId>,
        machine: Connection<H>,
        queues: Queues,
        trace: Option<Traced>,
    ) -> Link<H> {
        Link {
            peer,
            adapter,
            id,
            machine,
            queues,
            heard: 0,
            heard_before: 0,
            revoking: None,
            trace: trace.map(Box::new),
            scratch: Vec::new(),
            outgoing: Vec::new(),
        }
    }

    fn split<'a, U: Users<Hold = H>>(
        &'a mut self,
        adapter: &'a mut Adapter,
        users: &'a mut U,
    ) -> (&'a mut Connection<H>, Port<'a, U>) {
        let port = Port {
            users,
            peer: self.peer,
            wire: Some((&mut self.queues, &mut adapter.buffers)),
            trace: self.trace.as_deref_mut(),
            scratch: &mut self.outgoing,
        };
        (&mut self.machine, port)
    }

    pub fn start<U: Users<Hold = H>>(
        &mut self,
        start: &Start<'_>,
        adapter: &mut Adapter,
        users: &mut U,
    ) -> Result<Started, NotStarted> {
        let (machine, mut port) = self.split(adapter, users);
        machine.start(start, &mut port)
    }

    /// Begins an operation by a lease.
    pub fn direct<U: Users<Hold = H>>(
        &mut self,
        direct: &Direct<'_>,
        adapter: &mut Adapter,
        users: &mut U,
    ) -> Result<Started, NotDirect> {
        let (machine, mut port) = self.split(adapter, users);
        machine.direct(direct, &mut port)
    }

    /// Gives the peer a lease. Whether it did.
    pub fn lease<U: Users<Hold = H>>(
        &mut self,
        lease: &Lease<'_>,
        adapter: &mut Adapter,
        users: &mut U,
    ) -> bool {
        let (machine, mut port) = self.split(adapter, users);
        machine.lease(lease, &mut port)
    }

    /// Takes one back.
    pub fn revoke<U: Users<Hold = H>>(&mut self, token: u64, adapter: &mut Adapter, users: &mut U) {
        let (machine, mut port) = self.split(adapter, users);
        machine.revoke(token, &mut port);
    }

    /// Hands operations by leases over that have ended. Whether there was one.
    pub fn settle<U: Users<Hold = H>>(
        &mut self,
        adapter: &mut Adapter,
        users: &mut U,
    ) -> Result<bool, Error> {
        let mut found = false;
        self.queues.reap(&mut adapter.buffers);
        while let Some(ended) = self.queues.next_ended() {
            found = true;
            if let Some(trace) = &mut self.trace {
                trace.direct_ended(ended.job);
            }
            let mut data = std::mem::take(&mut self.scratch);
            data.clear();
            if let Some(buffer) = ended.buffer {
                let read = match ended.brings {
                    0 => Ok(()),
                    brings => adapter.buffers.read(&buffer, brings, &mut data),
                };
                adapter.buffers.free(buffer);
                read?;
            }
            let (machine, mut port) = self.split(adapter, users);
            let handled = machine.handle_direct(ended.job, &data, &mut port);
            self.scratch = data;
            handled?;
        }
        Ok(found)
    }

    /// A message has come, or bytes by a lease that counts.
    pub fn received<U: Users<Hold = H>>(
        &mut self,
        wc: &Wc,
        slot: u32,
        adapter: &mut Adapter,
        users: &mut U,
    ) -> Result<(), Error> {
        self.heard = self.heard.wrapping_add(1);
        if let (WcOpcode::RecvRdmaWithImm, Some(lease)) = (wc.opcode(), wc.immediate()) {
            self.queues.post(slot)?;
            if let Some(trace) = &mut self.trace {
                trace.came_direct(wc.byte_len().into());
            }
            let (machine, mut port) = self.split(adapter, users);
            return Ok(machine.handle_immediate(lease, wc.byte_len().into(), &mut port)?);
        }
        if wc.opcode() != WcOpcode::Recv || wc.byte_len() > self.queues.message_bytes() {
            return Err(Error::NoMessage);
        }
        let mut scratch = std::mem::take(&mut self.scratch);
        self.queues.message(slot, wc.byte_len(), &mut scratch)?;
        // its credit goes back with whatever is sent next
        self.queues.post(slot)?;
        if let Some(trace) = &mut self.trace {
            trace.came(&scratch);
        }
        let (machine, mut port) = self.split(adapter, users);
        let handled = machine.handle_message(&scratch, &mut port);
        self.scratch = scratch;
        Ok(handled?)
    }

    /// An RDMA request has ended well.
    pub fn moved<U: Users<Hold = H>>(
        &mut self,
        job: u32,
        adapter: &mut Adapter,
        users: &mut U,
    ) -> Result<(), Violation> {
        self.heard = self.heard.wrapping_add(1);
        if !self.queues.ended(job) {
            return Ok(());
        }
        if let Some(trace) = &mut self.trace {
            trace.rdma_ended(Job(job as u16));
        }
        let (machine, mut port) = self.split(adapter, users);
        machine.handle_rdma(Job(job as u16), &mut port)
    }

    /// The connection is over. Its queue pairs go first, so that nothing touches memory any more.
    pub fn end<U: Users<Hold = H>>(self, adapter: &mut Adapter, users: &mut U) {
        let Link {
            mut machine,
            mut trace,
            queues,
            id,
            peer,
            ..
        } = self;
        // one whose peer is gone needs no answer
        let _ = id.disconnect();
        queues.close(&mut adapter.buffers);
        if let Some(trace) = &mut trace {
            trace.over();
        }
        machine.handle_lost(&mut Port {
            users,
            peer,
            wire: None,
            trace: None,
            scratch: &mut Vec::new(),
        });
    }
}
