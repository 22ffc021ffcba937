//! One connection that stands, or is about to.
//!
//! Owns: the machine over its queue pairs. Must not know: how it was made.

use crate::Error;
use crate::adapter::{Adapter, Buffers};
use crate::queues::Queues;
use crate::users::{Peer, Users};
use ferriband_ibv::{CmId, Wc, WcOpcode};
use ferriband_putget_proto::{Answer, Asked, Connection, Granted, Job, Memory, NotBegun};
use ferriband_putget_proto::{NotStarted, Segment, Start, Started, Status, Violation, Wire};
use std::sync::Arc;

/// A connection.
pub(crate) struct Link<H> {
    pub peer: Peer,
    pub adapter: usize,
    /// The manager's: the connection ends with it.
    pub id: Arc<CmId>,
    pub machine: Connection<H>,
    pub queues: Queues,
    scratch: Vec<u8>,
}

/// The machine's wire and memory: the queue pairs of a connection beside the users of the process.
struct Port<'a, U> {
    users: &'a mut U,
    peer: Peer,
    /// None when the queue pairs are gone.
    wire: Option<(&'a mut Queues, &'a mut Buffers)>,
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
}

impl<U: Users> Port<'_, U> {
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
        queues.begin(job, writes, remote)
    }
}

impl<U: Users> Wire for Port<'_, U> {
    fn send(&mut self, message: &[u8], solicited: bool) {
        if let Some((queues, buffers)) = &mut self.wire {
            queues.send(message, solicited, buffers);
        }
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
    ) -> Link<H> {
        Link {
            peer,
            adapter,
            id,
            machine,
            queues,
            scratch: Vec::new(),
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

    /// A message has come.
    pub fn received<U: Users<Hold = H>>(
        &mut self,
        wc: &Wc,
        slot: u32,
        adapter: &mut Adapter,
        users: &mut U,
    ) -> Result<(), Error> {
        if wc.opcode() != WcOpcode::Recv || wc.byte_len() > self.queues.message_bytes() {
            return Err(Error::NoMessage);
        }
        let mut scratch = std::mem::take(&mut self.scratch);
        self.queues.message(slot, wc.byte_len(), &mut scratch)?;
        // its credit goes back with whatever is sent next
        self.queues.post(slot)?;
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
        if !self.queues.ended(job) {
            return Ok(());
        }
        let (machine, mut port) = self.split(adapter, users);
        machine.handle_rdma(Job(job as u16), &mut port)
    }

    /// The connection is over. Its queue pairs go first, so that nothing touches memory any more.
    pub fn end<U: Users<Hold = H>>(self, adapter: &mut Adapter, users: &mut U) {
        let Link {
            mut machine,
            queues,
            id,
            peer,
            ..
        } = self;
        // one whose peer is gone needs no answer
        let _ = id.disconnect();
        queues.close(&mut adapter.buffers);
        let wire = None;
        machine.handle_lost(&mut Port { users, peer, wire });
    }
}
