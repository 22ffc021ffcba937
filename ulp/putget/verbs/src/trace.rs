//! What a traced process writes down: operations that it begins, messages, RDMA.
//!
//! Owns: the names of what is written, numbers by which both ends of a message find each other,
//! slots of what is under way at once. Must not know: what becomes of the file, which
//! `ferriband trace` reads. Untraced, each place that could write costs one branch.
//!
//! A process's number is made of its address. A message's tag is the number of the queue pair that
//! sends it; messages of one queue pair are counted.

use crate::Error;
use ferriband_putget_proto::{DirectJob, DirectOp, Flags, Job, Kind, Message, Posting, Status};
use ferriband_settings::Values;
use ferriband_trace::{Event, Tape, Unwritable, What, Whose, now_ns};
use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

/// What is written: a kind of message, something that is called, RDMA.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Name {
    ShortPut,
    LongPut,
    ShortGet,
    LongGet,
    Exchange,
    Reply,
    Ack,
    Fin,
    Refusal,
    Credits,
    Lease,
    Revoke,
    Returned,
    BeginPut,
    BeginGet,
    BeginExchange,
    BeginDirect,
    TakeMessage,
    EndRdma,
    RdmaRead,
    RdmaWrite,
    DirectPut,
    DirectGet,
    DirectAtomic,
    Matching,
    Write,
    Read,
}

impl Name {
    /// In the order of their indices.
    const ALL: [(Name, &'static str); 27] = [
        (Name::ShortPut, "short put"),
        (Name::LongPut, "long put"),
        (Name::ShortGet, "short get"),
        (Name::LongGet, "long get"),
        (Name::Exchange, "exchange"),
        (Name::Reply, "reply"),
        (Name::Ack, "ack"),
        (Name::Fin, "FIN"),
        (Name::Refusal, "refusal"),
        (Name::Credits, "credits"),
        (Name::Lease, "lease"),
        (Name::Revoke, "lease revoked"),
        (Name::Returned, "lease returned"),
        (Name::BeginPut, "begin put"),
        (Name::BeginGet, "begin get"),
        (Name::BeginExchange, "begin exchange"),
        (Name::BeginDirect, "begin direct operation"),
        (Name::TakeMessage, "take message"),
        (Name::EndRdma, "end RDMA"),
        (Name::RdmaRead, "RDMA READ"),
        (Name::RdmaWrite, "RDMA WRITE"),
        (Name::DirectPut, "direct put"),
        (Name::DirectGet, "direct get"),
        (Name::DirectAtomic, "direct atomic"),
        (Name::Matching, "matching message"),
        (Name::Write, "matching write"),
        (Name::Read, "matching read"),
    ];

    /// Of the call that begins a request.
    pub const fn of_start(kind: Kind) -> Name {
        match kind {
            Kind::Get => Name::BeginGet,
            Kind::Exchange => Name::BeginExchange,
            _ => Name::BeginPut,
        }
    }

    const fn of_direct(op: DirectOp) -> Name {
        match op {
            DirectOp::Put => Name::DirectPut,
            DirectOp::Get => Name::DirectGet,
            DirectOp::Add(_) | DirectOp::Swap { .. } => Name::DirectAtomic,
        }
    }
}

/// The number of the process that listens at an address: its port, and the address folded to as
/// many bits before it.
fn number(address: SocketAddr) -> u32 {
    let folded = match address.ip() {
        IpAddr::V4(v4) => v4.to_bits() >> 16 ^ v4.to_bits() & 0xffff,
        IpAddr::V6(v6) => v6
            .segments()
            .into_iter()
            .fold(0, |all, one| all ^ one)
            .into(),
    };
    // a header's number is below the number of numbers
    (folded << 16 | u32::from(address.port())).min(u32::MAX - 1)
}

/// Slots in which RDMA and matching transfers are drawn, those that are under way at once in
/// different ones. Slot 0 is the process's calls.
#[derive(Debug)]
struct Slots([bool; 256]);

/// The tape of a process.
pub(crate) struct Tracer {
    tape: Tape,
    slots: Mutex<Slots>,
}

/// Something that has begun.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Begun {
    name: Name,
    slot: u8,
}

impl Tracer {
    /// The tape of the process that listens at an address, where the settings ask for one.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn asked_for(own: SocketAddr, values: &Values) -> Result<Option<Arc<Tracer>>, Error> {
        let dir = values.text("trace");
        if dir.is_empty() {
            return Ok(None);
        }
        let whose = Whose {
            rank: number(own),
            ranks: u32::MAX,
            job: 0,
            label: &own.to_string(),
            events: values.number("trace_events"),
        };
        let unwritable = |Unwritable { error, .. }: Unwritable| -> io::Error { error };
        let tape = Tape::begin(Path::new(dir), &whose).map_err(unwritable)?;
        for (name, text) in Name::ALL {
            let index = tape.name(text);
            debug_assert_eq!(index, name as u16, "{text}");
        }
        let mut slots = [false; 256];
        slots[0] = true;
        Ok(Some(Arc::new(Tracer {
            tape,
            slots: Mutex::new(Slots(slots)),
        })))
    }

    fn write(&self, what: What, at_ns: u64, name: Name, (slot, bytes): (u8, u64)) {
        self.tape.write(&Event {
            at_ns,
            what,
            thread: slot,
            name: name as u16,
            tag: 0,
            peer: 0,
            seq: 0,
            bytes,
        });
    }

    /// A call that began at a time is over.
    #[cold]
    pub fn called(&self, name: Name, began_ns: u64) {
        self.write(What::Call, began_ns, name, (0, 0));
        self.write(What::Return, now_ns(), name, (0, 0));
    }

    /// Something has begun at a time of which more may be under way at once; None if no slot is
    /// free: then it is left out.
    #[cold]
    pub fn begin(&self, name: Name, bytes: u64, began_ns: u64) -> Option<Begun> {
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        let slot = slots.0.iter().position(|taken| !taken)?;
        slots.0[slot] = true;
        drop(slots);
        let slot = slot as u8;
        self.write(What::Call, began_ns, name, (slot, bytes));
        Some(Begun { name, slot })
    }

    /// It is over.
    #[cold]
    pub fn end(&self, begun: Begun) {
        let Begun { name, slot } = begun;
        self.write(What::Return, now_ns(), name, (slot, 0));
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        slots.0[usize::from(slot)] = false;
    }
}

/// Now, if something is traced.
pub(crate) fn began<T>(traced: Option<&T>) -> Option<u64> {
    traced.map(|_| now_ns())
}

/// Messages of one direction of a connection.
struct Direction {
    what: What,
    /// The queue pair that sends.
    tag: i32,
    /// How many were written down.
    count: u32,
}

/// The messages of a connection.
pub(crate) struct Messages {
    pub tracer: Arc<Tracer>,
    /// The peer's number.
    peer: u32,
    out: Direction,
    into: Direction,
}

impl Messages {
    /// Those with a peer, by the numbers of the queue pairs that send: its own and the peer's.
    pub fn new(tracer: &Arc<Tracer>, peer: SocketAddr, own_qp: u32, peer_qp: u32) -> Messages {
        let direction = |what, qp: u32| Direction {
            what,
            tag: qp.cast_signed(),
            count: 0,
        };
        Messages {
            tracer: Arc::clone(tracer),
            peer: number(peer),
            out: direction(What::Sent, own_qp),
            into: direction(What::Came, peer_qp),
        }
    }

    /// A message is sent, at a time.
    #[cold]
    pub fn sent(&mut self, name: Name, bytes: u64, at_ns: u64) {
        let what = (name, bytes, at_ns);
        self.out.next(&self.tracer, self.peer, what);
    }

    /// One has come.
    #[cold]
    pub fn came(&mut self, name: Name, bytes: u64) {
        let what = (name, bytes, now_ns());
        self.into.next(&self.tracer, self.peer, what);
    }
}

impl Direction {
    fn next(&mut self, tracer: &Tracer, peer: u32, (name, bytes, at_ns): (Name, u64, u64)) {
        self.count = self.count.wrapping_add(1);
        tracer.tape.write(&Event {
            at_ns,
            what: self.what,
            thread: 0,
            name: name as u16,
            tag: self.tag,
            peer,
            seq: self.count,
            bytes,
        });
    }
}

/// A connection of put and get.
pub(crate) struct Traced {
    messages: Messages,
    /// What the responses to requests will be, by the requests' numbers: those of this side, and
    /// those of the peer.
    asked: HashMap<u32, Name>,
    served: HashMap<u32, Name>,
    jobs: HashMap<Job, Begun>,
    directs: HashMap<DirectJob, Begun>,
}

impl Traced {
    pub fn new(messages: Messages) -> Traced {
        Traced {
            messages,
            asked: HashMap::new(),
            served: HashMap::new(),
            jobs: HashMap::new(),
            directs: HashMap::new(),
        }
    }

    /// A message is sent.
    #[cold]
    pub fn sent(&mut self, message: &[u8]) {
        if let Some((name, bytes)) = name(message, &mut self.asked, &mut self.served) {
            self.messages.sent(name, bytes, now_ns());
        }
    }

    /// A message has come.
    #[cold]
    pub fn came(&mut self, message: &[u8]) {
        if let Some((name, bytes)) = name(message, &mut self.served, &mut self.asked) {
            self.messages.came(name, bytes);
        }
    }

    /// The peer has put bytes by a lease that counts.
    #[cold]
    pub fn came_direct(&mut self, bytes: u64) {
        self.messages.came(Name::DirectPut, bytes);
    }

    /// RDMA for a request of the peer's has begun at a time: an adapter may carry it out before the
    /// post returns.
    #[cold]
    pub fn rdma(&mut self, job: Job, writes: bool, bytes: u64, began_ns: u64) {
        let name = match writes {
            true => Name::RdmaWrite,
            false => Name::RdmaRead,
        };
        let begun = self.messages.tracer.begin(name, bytes, began_ns);
        self.jobs.extend(begun.map(|begun| (job, begun)));
    }

    /// It has ended.
    #[cold]
    pub fn rdma_ended(&mut self, job: Job) {
        if let Some(begun) = self.jobs.remove(&job) {
            self.messages.tracer.end(begun);
        }
    }

    /// An operation by a lease has begun at a time. One that carries immediate data is a message,
    /// too.
    #[cold]
    pub fn direct(&mut self, job: DirectJob, posting: &Posting, began_ns: u64) {
        let (name, bytes) = (Name::of_direct(posting.op), posting.remote.length);
        if posting.immediate.is_some() {
            self.messages.sent(name, bytes, began_ns);
        }
        let begun = self.messages.tracer.begin(name, bytes, began_ns);
        self.directs.extend(begun.map(|begun| (job, begun)));
    }

    /// It has ended.
    #[cold]
    pub fn direct_ended(&mut self, job: DirectJob) {
        if let Some(begun) = self.directs.remove(&job) {
            self.messages.tracer.end(begun);
        }
    }

    /// The connection is over, and with it what was under way.
    pub fn over(&mut self) {
        let jobs = self.jobs.drain().map(|(_, begun)| begun);
        let directs = self.directs.drain().map(|(_, begun)| begun);
        for begun in jobs.chain(directs) {
            self.messages.tracer.end(begun);
        }
    }
}

/// What a message is, and how many bytes of data it carries or has moved by RDMA. A request goes
/// into `asked`, a response answers one of `served`.
fn name(
    message: &[u8],
    asked: &mut HashMap<u32, Name>,
    served: &mut HashMap<u32, Name>,
) -> Option<(Name, u64)> {
    let header = Message::parse(message).ok()?.header;
    let is_long = header.flags.contains(Flags::LONG);
    let is_acknowledged = header.flags.contains(Flags::ACK);
    let (name, answer) = match header.kind {
        Kind::Put if is_long && is_acknowledged => (Name::LongPut, Some(Name::Ack)),
        Kind::Put if is_long => (Name::LongPut, Some(Name::Fin)),
        Kind::Put => (Name::ShortPut, is_acknowledged.then_some(Name::Ack)),
        Kind::Get if is_long => (Name::LongGet, Some(Name::Fin)),
        Kind::Get => (Name::ShortGet, Some(Name::Reply)),
        Kind::Exchange => (Name::Exchange, Some(Name::Reply)),
        Kind::Response => {
            let answer = served.remove(&header.request)?;
            let name = match header.status {
                Status::Ok => answer,
                _ => Name::Refusal,
            };
            (name, None)
        }
        Kind::Credits => (Name::Credits, None),
        Kind::Lease => (Name::Lease, None),
        Kind::Revoke => (Name::Revoke, None),
        Kind::Returned => (Name::Returned, None),
    };
    asked.extend(answer.map(|answer| (header.request, answer)));
    let bytes = match name {
        Name::ShortPut | Name::LongPut | Name::LongGet | Name::Exchange | Name::Reply => {
            header.length
        }
        _ => 0,
    };
    Some((name, bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_the_indices_that_events_carry() {
        for (index, (name, text)) in (0..).zip(Name::ALL) {
            assert_eq!(name as u16, index, "{text}");
        }
    }

    #[test]
    fn processes_have_numbers_of_their_own_below_the_number_of_numbers() {
        let number = |text: &str| number(text.parse().unwrap());
        assert_eq!(number("10.1.2.3:4711"), (0x0a01 ^ 0x0203) << 16 | 4711);
        assert_ne!(number("10.1.2.3:4711"), number("10.1.2.4:4711"));
        assert_eq!(number("[fd00::1]:9"), (0xfd00 ^ 1) << 16 | 9);
        assert_eq!(number("255.0.0.255:65535"), u32::MAX - 1);
    }
}
