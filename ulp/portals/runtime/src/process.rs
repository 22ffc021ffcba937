//! The interfaces of a process as the memory and the waiters of its connections.
//!
//! Owns: which request is which interface's, what is under way of requests of both sides, and which
//! rank is which process. Must not know: connections ([`crate::moving`] begins requests), who
//! sleeps.

use crate::address::{self, OPERAND_BYTES};
use crate::{arithmetic, memory};
use ferriband_ibv::{Access, Element, Mr, Pd, RKey, VerbsError};
use ferriband_portals_proto::{
    AckInfo, Admission, ArrivalOp, AtomicOp, Datatype, Delivery, Grant, Handle, HoldId, Interface,
    List, NiFail, OpId, Operation, Piece, Pieces, Process as Id, PtlError, Response, Started,
};
use ferriband_putget_proto::{Answer, Asked, Granted, Kind, Segment, Status};
use ferriband_putget_verbs::{Left, Node, Peer, Users};
use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

/// What peers and this process may do with registered memory.
const ACCESS: Access = Access::LOCAL_WRITE
    .union(Access::REMOTE_WRITE)
    .union(Access::REMOTE_READ);
/// Memory in more pieces goes through one buffer: so many fit into a message, and into a queue
/// pair.
const MOST_PIECES: usize = 64;
/// The most bytes that one element of a request names.
const LONGEST: u64 = 1 << 30;
/// Operations that wait for a connection or for room, of one peer.
pub(crate) const MOST_WAITING: usize = 1 << 16;

/// One interface that the program has opened.
pub(crate) struct Ni {
    pub interface: Interface,
    /// PtlNIInit less PtlNIFini.
    pub opened: u32,
    /// Which process each rank is; empty before PtlSetMap.
    pub map: Vec<Id>,
    /// This process's place in the map.
    pub rank: u32,
}

/// An operation of this process that is on its way.
pub(crate) struct Moving {
    pub ni: u8,
    pub operation: Operation,
    pub id: OpId,
    pub out: Pieces,
    pub back: Pieces,
    pub response: Response,
    /// Data that had to be copied in the program's call.
    pub copied: Option<Vec<u8>>,
    /// Takes the place of memory in too many pieces, while the target reads or writes it.
    pub buffer: Option<Vec<u8>>,
    /// SEND was told.
    pub sent: bool,
    /// Registrations that it needs until it has ended.
    pub registered: Vec<Arc<Mr>>,
}

/// A request of a peer that was let in.
pub(crate) struct Held {
    ni: u8,
    hold: HoldId,
    target: Change,
    /// The data leave this process.
    is_get: bool,
    pieces: Pieces,
    /// Takes the place of memory in too many pieces, while it is read or written.
    buffer: Option<Vec<u8>>,
    registered: Vec<Arc<Mr>>,
}

/// What a request does to the memory that it was granted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Change(pub Option<(AtomicOp, Datatype)>);

impl Change {
    /// Takes the bytes of a request that answers with none.
    pub fn place(self, data: &[u8], pieces: &[Piece]) {
        match self.0 {
            // SAFETY: memory that the interface has granted, of an entry that is held.
            None => unsafe { memory::scatter(data, pieces) },
            Some(_) => self.change(data, pieces, &mut vec![0; data.len()]),
        }
    }

    /// Takes the operand, where there is one, and the data, and gives the values before.
    pub fn change(self, data: &[u8], pieces: &[Piece], before: &mut [u8]) {
        // SAFETY: memory that the interface has granted, of an entry that is held.
        unsafe { memory::gather(pieces, before) };
        let Some((op, datatype)) = self.0 else {
            return;
        };
        let operand_bytes = if op.has_operand() { OPERAND_BYTES } else { 0 };
        let (operand, data) = data.split_at(operand_bytes.min(data.len()));
        let mut after = before.to_vec();
        arithmetic::combine(op, datatype, operand, data, &mut after);
        // SAFETY: as above.
        unsafe { memory::scatter(&after, pieces) };
    }
}

/// Names a request that was let in, for the machine of its connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hold(u32);

/// How memory is registered for RDMA.
pub(crate) enum Registrations {
    /// One registration stands for all memory, which pages in on demand.
    Implicit(Arc<Mr>),
    /// Each range for itself, for as long as it is used.
    Exact(Arc<Pd>),
}

/// The process.
pub(crate) struct Process {
    pub id: Id,
    pub uid: u32,
    pub interfaces: [Option<Ni>; 4],
    pub registrations: Option<Registrations>,
    /// By the token of the connection's machine.
    pub moving: HashMap<u64, Moving>,
    next: u64,
    held: Vec<Option<Held>>,
    free: Vec<u32>,
    /// Who is behind a connection.
    peers: HashMap<Peer, (Id, u32)>,
    /// Operations that wait, by peer, in their order.
    pub waiting: HashMap<Peer, VecDeque<Moving>>,
    /// Requests of this process to itself.
    pub own: VecDeque<Moving>,
    /// PtlAbort was called.
    pub aborted: bool,
}

/// Where a process listens.
pub(crate) fn socket_address(id: Id) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::from(id.nid), id.pid as u16))
}

/// The process that listens there.
pub(crate) fn id_of(address: SocketAddr) -> Option<Id> {
    match address.ip() {
        IpAddr::V4(v4) => Some(Id {
            nid: v4.into(),
            pid: address.port().into(),
        }),
        IpAddr::V6(_) => None,
    }
}

fn fail_of(status: Status) -> NiFail {
    match status {
        Status::Ok => NiFail::Ok,
        Status::NotAllowed => NiFail::OpViolation,
        Status::NotPermitted => NiFail::PermViolation,
        Status::Disabled => NiFail::PtDisabled,
        Status::Fault => NiFail::Segv,
        Status::Undeliverable => NiFail::Undeliverable,
        _ => NiFail::Dropped,
    }
}

fn status_of(fail: NiFail) -> Status {
    match fail {
        NiFail::Ok => Status::Ok,
        NiFail::Undeliverable => Status::Undeliverable,
        NiFail::Dropped | NiFail::NoMatch => Status::NoMemory,
        NiFail::PtDisabled => Status::Disabled,
        NiFail::PermViolation => Status::NotPermitted,
        NiFail::OpViolation => Status::NotAllowed,
        NiFail::Segv => Status::Fault,
    }
}

fn info_of(answer: &Answer) -> AckInfo {
    AckInfo {
        fail: fail_of(answer.status),
        length: answer.length,
        offset: answer.offset,
        list: match answer.tag {
            1 => List::Overflow,
            _ => List::Priority,
        },
    }
}

/// Where a buffer lies.
fn piece_of(buffer: &mut Vec<u8>) -> Piece {
    Piece {
        address: buffer.as_mut_ptr().expose_provenance() as u64,
        length: buffer.len() as u64,
    }
}

impl Process {
    pub fn new(id: Id, uid: u32) -> Process {
        Process {
            id,
            uid,
            interfaces: [const { None }; 4],
            registrations: None,
            moving: HashMap::new(),
            next: 0,
            held: Vec::new(),
            free: Vec::new(),
            peers: HashMap::new(),
            waiting: HashMap::new(),
            own: VecDeque::new(),
            aborted: false,
        }
    }

    /// The interface that a handle's object is of.
    pub fn ni(&mut self, handle: Handle) -> Result<&mut Ni, PtlError> {
        let index = usize::from(handle.interface());
        handle.kind().ok_or(PtlError::ArgInvalid)?;
        self.interfaces[index].as_mut().ok_or(PtlError::ArgInvalid)
    }

    /// Lets memory be reached by RDMA.
    pub fn register_all(&mut self, pd: &Arc<Pd>) -> Result<(), VerbsError> {
        let limits = pd.context().limits()?;
        self.registrations = Some(match limits.implicit_on_demand {
            // SAFETY: the program lets peers reach what it binds; that they reach no other memory
            // is by their own word, as the design says.
            true => Registrations::Implicit(unsafe { Mr::register_implicit(pd, ACCESS) }?),
            false => Registrations::Exact(Arc::clone(pd)),
        });
        Ok(())
    }

    /// The registration that a piece lies in.
    fn registration(&self, piece: &Piece) -> Result<Arc<Mr>, Status> {
        match &self.registrations {
            None => Err(Status::Fault),
            Some(Registrations::Implicit(mr)) => Ok(Arc::clone(mr)),
            Some(Registrations::Exact(pd)) => {
                let length = usize::try_from(piece.length).map_err(|_| Status::Fault)?;
                // SAFETY: memory of the program's that it has bound.
                let mr = unsafe { Mr::register_foreign(pd, piece.address, length, ACCESS) };
                mr.map_err(|_| Status::Fault)
            }
        }
    }

    /// Registers memory of an operation for the target of a long request.
    pub fn segments(&self, moving: &mut Moving) -> Result<Vec<Segment>, Status> {
        let is_get = moving.operation.op == ArrivalOp::Get;
        let own = if is_get { &moving.back } else { &moving.out };
        let pieces = match own.as_slice().len() > MOST_PIECES {
            false => own.clone(),
            true => {
                let mut buffer = vec![0; own.length() as usize];
                if !is_get {
                    // SAFETY: memory of a descriptor that an operation under way uses.
                    unsafe { memory::gather(own.as_slice(), &mut buffer) };
                }
                Pieces::One(piece_of(moving.buffer.insert(buffer)))
            }
        };
        let mut segments = Vec::new();
        let mut registered = Vec::new();
        for piece in pieces.as_slice() {
            let mr = self.registration(piece)?;
            let RKey(key) = mr.rkey();
            segments.push(Segment {
                address: piece.address,
                length: piece.length,
                key,
            });
            registered.push(mr);
        }
        moving.registered = registered;
        Ok(segments)
    }

    /// A name for an operation that is given to a connection's machine.
    pub fn enter(&mut self, moving: Moving) -> u64 {
        let token = self.next;
        self.next += 1;
        self.moving.insert(token, moving);
        token
    }

    /// Calls with the interface of a number, if it is open.
    fn with(&mut self, ni: u8, call: impl FnOnce(&mut Interface)) {
        if let Some(ni) = &mut self.interfaces[usize::from(ni & 3)] {
            call(&mut ni.interface);
        }
    }

    /// The buffer of an operation is free.
    pub fn sent(&mut self, moving: &mut Moving) {
        if !moving.sent {
            moving.sent = true;
            self.with(moving.ni, |interface| interface.sent(moving.id));
        }
    }

    /// An operation has ended without having reached anybody, or nobody knows.
    pub fn failed(&mut self, moving: &Moving, fail: NiFail) {
        self.with(moving.ni, |interface| interface.failed(moving.id, fail));
    }

    /// An operation was answered.
    pub fn answered(&mut self, mut moving: Moving, info: AckInfo) {
        self.sent(&mut moving);
        self.with(moving.ni, |interface| match moving.response {
            Response::None => {}
            Response::Ack(_) => interface.acked(moving.id, info),
            Response::Reply => interface.replied(moving.id, info),
        });
    }

    /// Asks the interface that a request is for.
    pub fn let_in(
        &mut self,
        asked: &[u8],
        (initiator, uid): (Id, u32),
        pt_index: u32,
        length: u64,
    ) -> Result<(u8, Change, Grant), NiFail> {
        let arrival = address::parse(asked, initiator, uid, pt_index, length);
        let arrival = arrival.ok_or(NiFail::Dropped)?;
        let index = arrival.ni.index();
        let ni = self.interfaces[usize::from(index)].as_mut();
        let ni = ni.ok_or(NiFail::Dropped)?;
        // nobody speaks as another rank
        let is_itself =
            ni.map.is_empty() || ni.map.get(arrival.rank as usize) == Some(&arrival.initiator);
        if arrival.ni.logical && !is_itself {
            return Err(NiFail::Dropped);
        }
        match ni.interface.arrive(&arrival) {
            Admission::Granted(grant) => Ok((index, Change(arrival.atomic), grant)),
            Admission::Refused(fail) => Err(fail),
        }
    }

    /// The bytes of a request are where they belong, or never will be.
    pub fn delivered(&mut self, ni: u8, hold: HoldId, fail: NiFail) {
        let outcome = match fail {
            NiFail::Ok => Delivery::Done,
            fail => Delivery::Failed(fail),
        };
        self.with(ni, |interface| interface.delivered(hold, outcome));
    }

    /// The payload of a request: the operand, where there is one, and the data.
    pub fn payload(&self, moving: &Moving, to: &mut [u8]) {
        let mut data = to;
        if moving.operand() {
            let (operand, rest) = data.split_at_mut(OPERAND_BYTES);
            operand.copy_from_slice(&moving.operation.operand);
            data = rest;
        }
        match &moving.copied {
            Some(copied) => data.copy_from_slice(copied),
            // SAFETY: memory of a descriptor that an operation under way uses.
            None => unsafe { memory::gather(moving.out.as_slice(), data) },
        }
    }
}

impl Moving {
    pub fn new(ni: u8, operation: Operation, started: Started) -> Moving {
        let mut moving = Moving {
            ni,
            operation,
            id: started.id,
            out: started.out,
            back: started.back,
            response: started.response,
            copied: None,
            buffer: None,
            sent: operation.put.is_none(),
            registered: Vec::new(),
        };
        if started.volatile {
            let mut copied = vec![0; operation.length as usize];
            // SAFETY: memory of a descriptor, in the program's call.
            unsafe { memory::gather(moving.out.as_slice(), &mut copied) };
            moving.copied = Some(copied);
        }
        moving
    }

    /// Whether an operand goes before the data.
    pub fn operand(&self) -> bool {
        let atomic = self.operation.atomic;
        atomic.is_some_and(|(atomic, _)| atomic.has_operand())
    }
}

impl Users for Process {
    type Hold = Hold;

    fn identified(&mut self, peer: Peer, address: SocketAddr, uid: u32) {
        if let Some(id) = id_of(address) {
            self.peers.insert(peer, (id, uid));
        }
    }

    fn admit(&mut self, peer: Peer, asked: &Asked<'_>) -> Result<Granted<Hold>, Status> {
        let who = *self.peers.get(&peer).ok_or(Status::NotPermitted)?;
        let granted = self.let_in(asked.address, who, asked.tag, asked.length);
        let (ni, target, grant) = granted.map_err(status_of)?;
        let held = Held {
            ni,
            hold: grant.hold,
            target,
            is_get: asked.kind == Kind::Get,
            pieces: grant.pieces,
            buffer: None,
            registered: Vec::new(),
        };
        let place = self.free.pop().unwrap_or(self.held.len() as u32);
        match self.held.get_mut(place as usize) {
            Some(free) => *free = Some(held),
            None => self.held.push(Some(held)),
        }
        Ok(Granted {
            hold: Hold(place),
            length: grant.length,
            offset: grant.offset,
            tag: grant.list as u32,
        })
    }

    fn place(&mut self, hold: Hold, data: &[u8]) {
        if let Some(Some(held)) = self.held.get(hold.0 as usize) {
            held.target.place(data, held.pieces.as_slice());
        }
    }

    fn fetch(&mut self, hold: Hold, to: &mut [u8]) {
        if let Some(Some(held)) = self.held.get(hold.0 as usize) {
            // SAFETY: memory that the interface has granted, of an entry that is held.
            unsafe { memory::gather(held.pieces.as_slice(), to) };
        }
    }

    fn exchange(&mut self, hold: Hold, data: &[u8], to: &mut [u8]) {
        if let Some(Some(held)) = self.held.get(hold.0 as usize) {
            held.target.change(data, held.pieces.as_slice(), to);
        }
    }

    fn elements(&mut self, hold: Hold, to: &mut Vec<Element<'static>>) -> Result<(), Status> {
        let held = self.held.get_mut(hold.0 as usize).and_then(Option::as_mut);
        let held = held.ok_or(Status::Fault)?;
        let pieces = match held.pieces.as_slice().len() > MOST_PIECES {
            false => held.pieces.clone(),
            true => {
                let mut buffer = vec![0; held.pieces.length() as usize];
                if held.is_get {
                    // SAFETY: memory that the interface has granted, of an entry that is held.
                    unsafe { memory::gather(held.pieces.as_slice(), &mut buffer) };
                }
                Pieces::One(piece_of(held.buffer.insert(buffer)))
            }
        };
        let mut registered = Vec::new();
        for piece in pieces.as_slice() {
            let mr = self.registration(piece)?;
            let mut at = 0;
            while at < piece.length {
                let length = (piece.length - at).min(LONGEST) as u32;
                // SAFETY: memory that the interface has granted, held until the request has ended.
                to.push(unsafe { Element::foreign(piece.address + at, length, mr.lkey()) });
                at += u64::from(length);
            }
            registered.push(mr);
        }
        if let Some(Some(held)) = self.held.get_mut(hold.0 as usize) {
            held.registered = registered;
        }
        Ok(())
    }

    fn ended(&mut self, hold: Hold, status: Status) {
        let held = self.held.get_mut(hold.0 as usize).and_then(Option::take);
        if let Some(held) = held {
            self.free.push(hold.0);
            if let Some(buffer) = held.buffer.filter(|_| !held.is_get && status == Status::Ok) {
                // SAFETY: memory that the interface has granted, of an entry that is held.
                unsafe { memory::scatter(&buffer, held.pieces.as_slice()) };
            }
            self.delivered(held.ni, held.hold, fail_of(status));
        }
    }

    fn gather(&mut self, token: u64, to: &mut [u8]) {
        if let Some(moving) = self.moving.get(&token) {
            self.payload(moving, to);
        }
    }

    fn scatter(&mut self, token: u64, data: &[u8]) {
        if let Some(moving) = self.moving.get(&token) {
            // SAFETY: memory of a descriptor that an operation under way uses.
            unsafe { memory::scatter(data, moving.back.as_slice()) };
        }
    }

    fn done(&mut self, token: u64, answer: Answer) {
        let Some(moving) = self.moving.remove(&token) else {
            return;
        };
        if let Some(buffer) = &moving.buffer
            && answer.status == Status::Ok
        {
            let got = &buffer[..buffer.len().min(answer.length as usize)];
            // SAFETY: memory of a descriptor that an operation under way uses; none of a put.
            unsafe { memory::scatter(got, moving.back.as_slice()) };
        }
        match answer.status {
            Status::Undeliverable => self.failed(&moving, NiFail::Undeliverable),
            _ => self.answered(moving, info_of(&answer)),
        }
    }

    fn joined(&mut self, _: Peer) {
        // what waits is begun by `advance`
    }

    fn left(&mut self, peer: Peer, _: Left) {
        for moving in self.waiting.remove(&peer).unwrap_or_default() {
            self.failed(&moving, NiFail::Undeliverable);
        }
    }

    fn advance(node: &mut Node<Process>) {
        crate::moving::advance(node);
    }
}
