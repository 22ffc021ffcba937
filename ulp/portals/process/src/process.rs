//! The interfaces of a process as the memory and the waiters of its connections.
//!
//! Owns: which request is which interface's, what is under way of requests of both sides, and which
//! rank is which process. Must not know: connections ([`crate::moving`] begins requests), who
//! sleeps.

use crate::address::{self, OPERAND_BYTES};
use crate::arithmetic;
use crate::connections::Peer;
use crate::leases::Leases;
use crate::memory::{By, Memory};
use crate::report::Begun;
use ferriband_portals_proto::{
    AckInfo, Admission, ArrivalOp, AtomicOp, Datatype, Delivery, Grant, Handle, HoldId, Interface,
    List, NiFail, OpId, Operation, Piece, Pieces, Process as Id, PtlError, Response, Started,
};
use ferriband_putget_proto::{Answer, Asked, Granted, Kind, Segment, Status};
use std::collections::{BTreeMap, HashSet, VecDeque};

/// Memory in more pieces goes through one buffer: so many fit into a queue pair's request.
const MOST_PIECES: usize = 64;
/// Of memory that may fault so much is looked at before a request is let in: more than any message
/// has room for. Of longer requests it is registered before it is used.
const MOST_CHECKED: u64 = 1 << 16;
/// Operations that wait for a connection or for room, of one peer: as many as four interfaces have.
pub(crate) const MOST_WAITING: usize = 1 << 18;

/// One interface that the program has opened.
pub struct Ni {
    /// Its objects.
    pub interface: Interface,
    /// PtlNIInit less PtlNIFini.
    pub opened: u32,
    /// Which process each rank is; empty before PtlSetMap.
    pub map: Vec<Id>,
    /// This process's place in the map.
    pub rank: u32,
}

/// An operation of this process that is on its way.
pub(crate) struct Moving<M: Memory> {
    pub ni: u8,
    pub operation: Operation,
    pub id: OpId,
    pub out: Pieces,
    pub back: Pieces,
    pub response: Response,
    /// Data that had to be copied in the program's call.
    pub copied: Option<Vec<u8>>,
    /// Takes the place of memory in too many pieces, while the target reads or writes it.
    staged: Option<M::Staged>,
    /// SEND was told.
    sent: bool,
    /// Registrations that it needs until it has ended.
    pub registered: Vec<M::Registration>,
}

/// A request of a peer that was let in.
struct Held<M: Memory> {
    ni: u8,
    hold: HoldId,
    target: Change,
    /// The data leave this process.
    is_get: bool,
    /// Not all of the pieces need be memory.
    may_fault: bool,
    pieces: Pieces,
    /// Takes the place of memory in too many pieces, while it is read or written.
    staged: Option<M::Staged>,
    registered: Vec<M::Registration>,
}

/// What a request does to the memory that it was granted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Change(pub Option<(AtomicOp, Datatype)>);

impl Change {
    /// Takes the bytes of a request that answers with none.
    pub fn place(self, memory: &mut impl Memory, data: &[u8], pieces: &[Piece]) {
        match self.0 {
            None => memory.scatter(data, pieces),
            Some(_) => self.change(memory, data, pieces, &mut vec![0; data.len()]),
        }
    }

    /// Takes the operand, where there is one, and the data, and gives the values before.
    pub fn change(
        self,
        memory: &mut impl Memory,
        data: &[u8],
        pieces: &[Piece],
        before: &mut [u8],
    ) {
        let Some((op, datatype)) = self.0 else {
            return memory.gather(pieces, before);
        };
        let operand_bytes = if op.has_operand() { OPERAND_BYTES } else { 0 };
        let (operand, data) = data.split_at(operand_bytes.min(data.len()));
        if let Some(first) = words(datatype, pieces) {
            let words = before.chunks_exact_mut(WORD).zip(data.chunks_exact(WORD));
            for (at, (before, data)) in words.enumerate() {
                let address = first + (at * WORD) as u64;
                change_word(memory, address, before, |after| {
                    arithmetic::combine(op, datatype, operand, data, after);
                });
            }
            return;
        }
        memory.gather(pieces, before);
        let mut after = before.to_vec();
        arithmetic::combine(op, datatype, operand, data, &mut after);
        memory.scatter(&after, pieces);
    }
}

/// Bytes of the values that adapters change by atomic operations of their own.
const WORD: usize = 8;

/// Where 64-bit values lie, if all of them are aligned.
fn words(datatype: Datatype, pieces: &[Piece]) -> Option<u64> {
    let [piece] = pieces else {
        return None;
    };
    let is_word = datatype.size_bytes() == WORD as u64;
    (is_word && piece.address.is_multiple_of(WORD as u64)).then_some(piece.address)
}

/// Changes a value that others may change at the same time.
fn change_word(
    memory: &mut impl Memory,
    address: u64,
    before: &mut [u8],
    change: impl Fn(&mut [u8]),
) {
    let word = Piece {
        address,
        length: WORD as u64,
    };
    loop {
        memory.gather(&[word], before);
        let mut after: [u8; WORD] = std::array::from_fn(|at| before[at]);
        let found = u64::from_ne_bytes(after);
        change(&mut after);
        if memory.replace(address, found, u64::from_ne_bytes(after)) {
            return;
        }
    }
}

/// Names a request that was let in, for the machine of its connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hold(u32);

/// Up to how many bytes puts and gets go in messages, where these have room.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Short {
    /// Of puts.
    pub put: u64,
    /// Of gets.
    pub get: u64,
}

impl Short {
    /// Whatever messages have room for.
    pub const MOST: Short = Short {
        put: u64::MAX,
        get: u64::MAX,
    };
}

/// The Portals of a process.
pub struct Process<M: Memory> {
    /// Its physical identifier.
    pub id: Id,
    /// Its user.
    pub uid: u32,
    /// The program's memory.
    pub memory: M,
    /// What goes short.
    pub short: Short,
    /// The interfaces, by [`ferriband_portals_proto::NiKind::index`].
    pub interfaces: [Option<Ni>; 4],
    /// Operations that were given to a connection's machine, by their names there.
    pub(crate) moving: BTreeMap<u64, Box<Moving<M>>>,
    pub(crate) leases: Leases<M>,
    next: u64,
    held: Vec<Option<Held<M>>>,
    free: Vec<u32>,
    /// Who is behind a connection.
    peers: BTreeMap<Peer, (Id, u32)>,
    /// Operations that wait, by peer, in their order.
    pub(crate) waiting: BTreeMap<Peer, VecDeque<Box<Moving<M>>>>,
    /// Requests of this process to itself.
    pub(crate) own: VecDeque<Box<Moving<M>>>,
    /// How often a peer has asked for something: a request or a connection.
    pub asked: u64,
    pub(crate) begun: Begun,
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

impl<M: Memory> Process<M> {
    /// A process without interfaces.
    pub fn new(id: Id, uid: u32, memory: M) -> Process<M> {
        Process {
            id,
            uid,
            memory,
            short: Short::MOST,
            interfaces: [const { None }; 4],
            moving: BTreeMap::new(),
            leases: Leases::default(),
            next: 0,
            held: Vec::new(),
            free: Vec::new(),
            peers: BTreeMap::new(),
            waiting: BTreeMap::new(),
            own: VecDeque::new(),
            asked: 0,
            begun: Begun::default(),
        }
    }

    /// The interface that a handle's object is of.
    ///
    /// # Errors
    /// PTL_ARG_INVALID if it is not open.
    pub fn ni(&mut self, handle: Handle) -> Result<&mut Ni, PtlError> {
        let index = usize::from(handle.interface());
        handle.kind().ok_or(PtlError::ArgInvalid)?;
        self.interfaces[index].as_mut().ok_or(PtlError::ArgInvalid)
    }

    /// Whether no operation of this process is under way or waits.
    pub fn rests(&self) -> bool {
        self.moving.is_empty() && self.waiting.is_empty() && self.own.is_empty()
    }

    /// Who a peer is: its identifier, and its user by its own word. To be told before anything of
    /// it is asked.
    pub fn identified(&mut self, peer: Peer, id: Id, uid: u32) {
        self.asked += 1;
        self.peers.insert(peer, (id, uid));
    }

    /// The user of a peer.
    pub(crate) fn uid_of(&self, peer: Peer) -> Option<u32> {
        self.peers.get(&peer).map(|(_, uid)| *uid)
    }

    /// How many peers have been identified.
    pub fn met(&self) -> usize {
        self.peers.len()
    }

    /// Whether there was a connection with each process of the interfaces' maps.
    pub fn is_met(&self) -> bool {
        let met: HashSet<&Id> = self.peers.values().map(|(id, _)| id).collect();
        let mut mapped = self.interfaces.iter().flatten().flat_map(|ni| &ni.map);
        mapped.all(|id| *id == self.id || met.contains(id))
    }

    /// The connection to a peer is lost, or does not come to be: what waits for it has failed. What
    /// was under way has been told by its machine.
    pub fn left(&mut self, peer: Peer) {
        for moving in self.waiting.remove(&peer).unwrap_or_default() {
            self.failed(&moving, NiFail::Undeliverable);
        }
    }

    /// Registers memory of an operation for the target of a long request, which can be told so many
    /// pieces.
    pub(crate) fn segments(
        &mut self,
        moving: &mut Moving<M>,
        peer: Peer,
        most_pieces: usize,
    ) -> Result<Vec<Segment>, Status> {
        let is_get = moving.operation.op == ArrivalOp::Get;
        let own = if is_get { &moving.back } else { &moving.out };
        let pieces = match own.as_slice().len() > most_pieces.clamp(1, MOST_PIECES) {
            false => own.clone(),
            true => {
                let (staged, piece) = self.memory.stage(own.as_slice(), !is_get);
                moving.staged = Some(staged);
                Pieces::One(piece)
            }
        };
        let mut segments = Vec::new();
        let mut registered = Vec::new();
        for piece in pieces.as_slice() {
            let (registration, key) = self.memory.register(piece, is_get, By::Peer(peer))?;
            segments.push(Segment {
                address: piece.address,
                length: piece.length,
                key,
            });
            registered.push(registration);
        }
        moving.registered = registered;
        Ok(segments)
    }

    /// A name for an operation that is given to a connection's machine.
    pub(crate) fn enter(&mut self, moving: Box<Moving<M>>) -> u64 {
        let token = self.next;
        self.next += 1;
        self.moving.insert(token, moving);
        token
    }

    /// Takes an operation back that was given to a connection's machine and was not begun. What it
    /// needed for this way is dropped: the next try may take another one.
    pub(crate) fn take_back(&mut self, token: u64) -> Option<Box<Moving<M>>> {
        let mut moving = self.moving.remove(&token)?;
        moving.staged = None;
        moving.registered.clear();
        Some(moving)
    }

    /// An operation that was given to a connection's machine by this name and has not ended.
    pub fn operation(&self, token: u64) -> Option<&Operation> {
        self.moving.get(&token).map(|moving| &moving.operation)
    }

    /// Calls with the interface of a number, if it is open.
    pub(crate) fn with(&mut self, ni: u8, call: impl FnOnce(&mut Interface)) {
        if let Some(ni) = &mut self.interfaces[usize::from(ni & 3)] {
            call(&mut ni.interface);
        }
    }

    /// The buffer of an operation is free.
    pub(crate) fn sent(&mut self, moving: &mut Moving<M>) {
        if !moving.sent {
            moving.sent = true;
            self.with(moving.ni, |interface| interface.sent(moving.id));
        }
    }

    /// The bytes of an operation that a connection's machine has were copied. One that nobody
    /// answers is over.
    pub(crate) fn sent_short(&mut self, token: u64, is_over: bool) {
        let Some(moving) = self.moving.get_mut(&token) else {
            return;
        };
        let (ni, id) = (moving.ni, moving.id);
        let was_sent = std::mem::replace(&mut moving.sent, true);
        if !was_sent {
            self.with(ni, |interface| interface.sent(id));
        }
        if is_over {
            self.moving.remove(&token);
        }
    }

    /// An operation has ended without having reached anybody, or nobody knows.
    pub(crate) fn failed(&mut self, moving: &Moving<M>, fail: NiFail) {
        self.with(moving.ni, |interface| interface.failed(moving.id, fail));
    }

    /// An operation was answered.
    pub(crate) fn answered(&mut self, mut moving: Box<Moving<M>>, info: AckInfo) {
        self.sent(&mut moving);
        self.with(moving.ni, |interface| match moving.response {
            Response::None => {}
            Response::Ack(_) => interface.acked(moving.id, info),
            Response::Reply => interface.replied(moving.id, info),
        });
    }

    /// Asks the interface that a request is for. Memory that may fault is looked at if it has at
    /// most `most_checked` bytes.
    pub(crate) fn let_in(
        &mut self,
        asked: &[u8],
        (initiator, uid): (Id, u32),
        pt_index: u32,
        length: u64,
        most_checked: u64,
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
        let grant = match ni.interface.arrive(&arrival) {
            Admission::Granted(grant) => grant,
            Admission::Refused(fail) => return Err(fail),
        };
        let is_checked = grant.may_fault && grant.length <= most_checked;
        let writes = arrival.op != ArrivalOp::Get;
        let (memory, pieces) = (&self.memory, grant.pieces.as_slice());
        if !memory.may_be_there(pieces) || is_checked && !memory.is_there(pieces, writes) {
            self.delivered(index, grant.hold, NiFail::Segv);
            return Err(NiFail::Segv);
        }
        Ok((index, Change(arrival.atomic), grant))
    }

    /// The bytes of a request are where they belong, or never will be.
    pub(crate) fn delivered(&mut self, ni: u8, hold: HoldId, fail: NiFail) {
        let outcome = match fail {
            NiFail::Ok => Delivery::Done,
            fail => Delivery::Failed(fail),
        };
        self.with(ni, |interface| interface.delivered(hold, outcome));
    }

    /// The payload of a request: the operand, where there is one, and the data.
    pub(crate) fn payload(&self, moving: &Moving<M>, to: &mut [u8]) {
        let mut data = to;
        if moving.operand() {
            let (operand, rest) = data.split_at_mut(OPERAND_BYTES);
            operand.copy_from_slice(&moving.operation.operand);
            data = rest;
        }
        self.data(moving, data);
    }

    /// The data of a request.
    pub(crate) fn data(&self, moving: &Moving<M>, to: &mut [u8]) {
        match &moving.copied {
            Some(copied) => to.copy_from_slice(copied),
            None => self.memory.gather(moving.out.as_slice(), to),
        }
    }
}

/// What a connection's machine asks of the process: [`ferriband_putget_proto::Memory`], with the
/// peer that asks.
impl<M: Memory> Process<M> {
    /// A peer asks.
    ///
    /// # Errors
    /// The reason of a refusal.
    pub fn admit(&mut self, peer: Peer, asked: &Asked<'_>) -> Result<Granted<Hold>, Status> {
        self.asked += 1;
        let who = *self.peers.get(&peer).ok_or(Status::NotPermitted)?;
        let granted = self.let_in(asked.address, who, asked.tag, asked.length, MOST_CHECKED);
        let (ni, target, grant) = granted.map_err(status_of)?;
        self.asked_for(peer, ni, asked.tag);
        let held = Held {
            ni,
            hold: grant.hold,
            target,
            is_get: asked.kind == Kind::Get,
            may_fault: grant.may_fault,
            pieces: grant.pieces,
            staged: None,
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

    /// Takes the bytes of a short put.
    pub fn place(&mut self, hold: Hold, data: &[u8]) {
        if let Some(Some(held)) = self.held.get(hold.0 as usize) {
            held.target
                .place(&mut self.memory, data, held.pieces.as_slice());
        }
    }

    /// Gives the bytes of a short get.
    pub fn fetch(&mut self, hold: Hold, to: &mut [u8]) {
        if let Some(Some(held)) = self.held.get(hold.0 as usize) {
            self.memory.gather(held.pieces.as_slice(), to);
        }
    }

    /// Takes all bytes of an exchange and gives as many back as were granted.
    pub fn exchange(&mut self, hold: Hold, data: &[u8], to: &mut [u8]) {
        if let Some(Some(held)) = self.held.get(hold.0 as usize) {
            held.target
                .change(&mut self.memory, data, held.pieces.as_slice(), to);
        }
    }

    /// Registers the memory that is held for RDMA, and names it, all that was granted, in its
    /// order.
    ///
    /// # Errors
    /// It cannot be reached.
    pub fn reach(
        &mut self,
        hold: Hold,
        mut each: impl FnMut(&Piece, &M::Registration),
    ) -> Result<(), Status> {
        let held = self.held.get_mut(hold.0 as usize).and_then(Option::as_mut);
        let held = held.ok_or(Status::Fault)?;
        let (may_fault, writes) = (held.may_fault, !held.is_get);
        let pieces = match held.pieces.as_slice().len() > MOST_PIECES {
            false => held.pieces.clone(),
            true => {
                if may_fault && !self.memory.is_there(held.pieces.as_slice(), writes) {
                    return Err(Status::Fault);
                }
                let (staged, piece) = self.memory.stage(held.pieces.as_slice(), held.is_get);
                held.staged = Some(staged);
                Pieces::One(piece)
            }
        };
        let mut registered = Vec::new();
        for piece in pieces.as_slice() {
            let (registration, _) = match may_fault {
                false => self.memory.register(piece, writes, By::Own)?,
                true => self.memory.register_if_there(piece, writes)?,
            };
            each(piece, &registration);
            registered.push(registration);
        }
        held.registered = registered;
        Ok(())
    }

    /// The bytes of a request are where they belong, or the request came to nothing.
    pub fn ended(&mut self, hold: Hold, status: Status) {
        let held = self.held.get_mut(hold.0 as usize).and_then(Option::take);
        if let Some(held) = held {
            self.free.push(hold.0);
            if let Some(staged) = held.staged.filter(|_| !held.is_get && status == Status::Ok) {
                let pieces = &held.pieces;
                self.memory
                    .unstage(&staged, pieces.length(), pieces.as_slice());
            }
            self.delivered(held.ni, held.hold, fail_of(status));
        }
    }

    /// Gives the payload of a short request of this process's.
    pub fn gather(&mut self, token: u64, to: &mut [u8]) {
        if let Some(moving) = self.moving.get(&token) {
            self.payload(moving, to);
        }
    }

    /// Takes the data of a short get or an exchange of this process's.
    pub fn scatter(&mut self, token: u64, data: &[u8]) {
        if let Some(moving) = self.moving.get(&token) {
            self.memory.scatter(data, moving.back.as_slice());
        }
    }

    /// A request of this process's has ended.
    pub fn done(&mut self, token: u64, answer: Answer) {
        let Some(moving) = self.moving.remove(&token) else {
            return;
        };
        // nothing comes back of a put
        if let Some(staged) = &moving.staged
            && answer.status == Status::Ok
        {
            self.memory
                .unstage(staged, answer.length, moving.back.as_slice());
        }
        match answer.status {
            Status::Undeliverable => self.failed(&moving, NiFail::Undeliverable),
            _ => self.answered(moving, info_of(&answer)),
        }
    }
}

impl<M: Memory> Moving<M> {
    pub fn new(ni: u8, operation: Operation, started: Started, memory: &M) -> Moving<M> {
        let mut moving = Moving {
            ni,
            operation,
            id: started.id,
            out: started.out,
            back: started.back,
            response: started.response,
            copied: None,
            staged: None,
            sent: operation.put.is_none(),
            registered: Vec::new(),
        };
        if started.volatile {
            let mut copied = vec![0; operation.length as usize];
            memory.gather(moving.out.as_slice(), &mut copied);
            moving.copied = Some(copied);
        }
        moving
    }

    /// Bytes of the operand, where there is one, and the data.
    pub fn payload_bytes(&self) -> usize {
        let operand = if self.operand() { OPERAND_BYTES } else { 0 };
        operand + self.operation.length as usize
    }

    /// Whether the program hears of its end beyond SEND.
    pub fn is_answered(&self) -> bool {
        self.response != Response::None
    }

    /// Whether an operand goes before the data.
    pub fn operand(&self) -> bool {
        let atomic = self.operation.atomic;
        atomic.is_some_and(|(atomic, _)| atomic.has_operand())
    }
}
