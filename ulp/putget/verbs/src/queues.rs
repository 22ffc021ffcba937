//! The two queue pairs of one connection: messages and RDMA become requests.
//!
//! Owns: what requests name, and how many are under way. Must not know: what messages say.
//!
//! P sends messages and operations by leases, N receives messages and sends RDMA for requests of
//! the peer. P of this side is connected to N of the peer.

use crate::Error;
use crate::adapter::{Adapter, Buffer, Buffers, Seat};
use ferriband_ibv::{Access, Cq, Element, Mr, Qp, QpCaps, QpInit, QpType, RKey, RecvWr};
use ferriband_ibv::{Region, SendFlags, SendWr, Wc};
use ferriband_putget_proto::Segment;
use ferriband_putget_proto::{Config, DIRECT, DirectJob, DirectOp, Job, NotBegun, Posting};
use std::collections::VecDeque;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Messages of up to so many bytes go inline where the adapter has room for that.
const INLINE: u32 = 188;
/// Elements of an RDMA request.
const ELEMENTS: u32 = 4;
/// The most bytes of an RDMA request: IBA's longest message is 2 GiB.
pub(crate) const LONGEST: u64 = 1 << 30;
/// Requests of RDMA that are under way at a time, of one connection.
pub(crate) const RDMA: u32 = 256;

/// The job of a request that asks whether the peer's adapter answers.
const ASKS: u32 = u32::MAX;

/// How many times as many messages the send queue holds as may be under way.
const SLACK: u32 = 4;

/// Which connection a completion is of, and which request of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Id {
    /// Place of the connection.
    pub place: u16,
    /// How often the place has been used.
    pub life: u16,
    /// Receive or job.
    pub what: u32,
}

impl Id {
    pub const fn of(number: u64) -> Id {
        Id {
            place: (number >> 48) as u16,
            life: (number >> 32) as u16,
            what: number as u32,
        }
    }

    const fn number(self) -> u64 {
        (self.place as u64) << 48 | (self.life as u64) << 32 | self.what as u64
    }
}

/// A request on P that is under way.
enum Sent {
    Message(Option<Buffer>),
    Direct(Ended),
}

/// An operation by a lease, with the buffer that its bytes are in.
pub(crate) struct Ended {
    pub job: DirectJob,
    pub buffer: Option<Buffer>,
    /// Bytes that it brings into the buffer.
    pub brings: u32,
}

/// The queue pairs of one connection, with what is under way on them.
pub(crate) struct Queues {
    pub p: Arc<Qp>,
    pub n: Arc<Qp>,
    /// Completions of sent messages.
    pub sent_cq: Arc<Cq>,
    /// The PSN that the queue pair begins with that the manager does not bring up.
    pub psn: u32,
    seat: Arc<Seat>,
    place: u16,
    life: u16,
    receive: Arc<Mr>,
    message_bytes: u32,
    /// Requests on P whose completions were not seen, in their order.
    sent: VecDeque<Sent>,
    /// Operations by leases that have ended and that were not handed over.
    ended: VecDeque<Ended>,
    /// Operations by leases that were posted and not handed over.
    direct: u32,
    /// How many requests P's send queue holds.
    depth: usize,
    /// Receives of the peer.
    peer_receives: u16,
    /// Requests of each job that are under way.
    jobs: Vec<u32>,
    rdma: u32,
    /// Whether the peer's adapter answers is being asked.
    asks: bool,
    elements: Vec<Element<'static>>,
    /// A post failed: the connection is over.
    pub failed: bool,
}

impl Queues {
    /// Makes them, in RESET.
    pub fn new(
        adapter: &mut Adapter,
        (place, life): (u16, u16),
        own: &Config,
        peer_receives: u16,
    ) -> Result<Queues, Error> {
        let receives = u32::from(own.receives);
        let group = adapter.room(receives, RDMA)?;
        // acknowledgements, and so completions, may come later than credits for the same messages
        let depth = SLACK * u32::from(peer_receives) + DIRECT as u32;
        let tag = u64::from(place);
        let sent_cq = Cq::create(&adapter.context, depth, Some(&adapter.channel), tag)?;
        // failures alone are told: all else is looked at when buffers are short
        sent_cq.arm(true)?;
        let cqs = &adapter.groups[group];
        let make = |send_cq, send_wr, recv_wr, send_sge, inline| {
            let caps = QpCaps {
                send_wr,
                recv_wr,
                send_sge,
                recv_sge: 1,
                inline,
            };
            let init = QpInit {
                caps,
                signal_all: true,
                ..QpInit::new(QpType::Rc, send_cq, &cqs.received)
            };
            Qp::create(&adapter.pd, &init)
        };
        let p = make(&sent_cq, depth, 1, ELEMENTS, INLINE)?;
        let n = make(&cqs.rdma, RDMA, receives, ELEMENTS, 0)?;
        let bytes = receives as usize * own.message_bytes as usize;
        let region = Region::create(c"ferriband-putget", bytes)?;
        let receive = Mr::register(&adapter.pd, &region, Access::LOCAL_WRITE)?;
        Ok(Queues {
            p,
            n,
            sent_cq,
            psn: RandomState::new().build_hasher().finish() as u32 & 0xff_ffff,
            seat: Arc::clone(&cqs.seat),
            place,
            life,
            receive,
            message_bytes: own.message_bytes,
            sent: VecDeque::new(),
            ended: VecDeque::new(),
            direct: 0,
            depth: depth as usize,
            peer_receives,
            jobs: vec![0; own.requests.into()],
            rdma: 0,
            asks: false,
            elements: Vec::new(),
            failed: false,
        })
    }

    /// The connection's place.
    pub const fn place(&self) -> u16 {
        self.place
    }

    /// Bytes of a receive.
    pub const fn message_bytes(&self) -> u32 {
        self.message_bytes
    }

    /// Messages that may be under way.
    pub const fn messages(&self) -> u16 {
        self.peer_receives
    }

    /// Names the connection.
    pub const fn id_of(&self) -> Id {
        let (place, life) = (self.place, self.life);
        Id {
            place,
            life,
            what: 0,
        }
    }

    fn id(&self, what: u32) -> u64 {
        let (place, life) = (self.place, self.life);
        Id { place, life, what }.number()
    }

    /// Posts a receive.
    pub fn post(&self, slot: u32) -> Result<(), Error> {
        let at = slot as usize * self.message_bytes as usize;
        let elements = [self.receive.element(at, self.message_bytes)?];
        let mut wr = RecvWr::new(self.id(slot), &elements);
        Ok(self.n.post_recv(&mut wr)?)
    }

    /// Copies a received message out.
    pub fn message(&self, slot: u32, length: u32, to: &mut Vec<u8>) -> Result<(), Error> {
        to.resize(length as usize, 0);
        let at = slot as usize * self.message_bytes as usize;
        if let Some(region) = self.receive.region() {
            region.read(at, to)?;
        }
        Ok(())
    }

    /// Sends a message; a failure is kept.
    pub fn send(&mut self, message: &[u8], flags: SendFlags, buffers: &mut Buffers) {
        self.make_room(buffers);
        let posted = self.post_message(message, flags, buffers);
        self.failed |= posted.is_err();
    }

    fn make_room(&mut self, buffers: &mut Buffers) {
        if self.sent.len() + 1 >= self.depth {
            self.reap(buffers);
        }
    }

    fn post_message(
        &mut self,
        message: &[u8],
        flags: SendFlags,
        buffers: &mut Buffers,
    ) -> Result<(), Error> {
        let id = self.id(0);
        if message.len() as u32 <= self.p.max_inline() {
            let elements = [Element::inline(message)];
            let wr = SendWr::send(id, &elements);
            self.p.post_send(&mut wr.flags(flags | SendFlags::INLINE))?;
            self.sent.push_back(Sent::Message(None));
            return Ok(());
        }
        let (buffer, element) = buffers.fill(message)?;
        let elements = [element];
        let posted = self
            .p
            .post_send(&mut SendWr::send(id, &elements).flags(flags));
        match posted {
            Ok(()) => self.sent.push_back(Sent::Message(Some(buffer))),
            Err(_) => buffers.free(buffer),
        }
        Ok(posted?)
    }

    /// Posts an operation by a lease. `data` are the bytes of a put, if they are to be copied; else
    /// the elements name them, and those that are to be filled where they fit into no buffer.
    pub fn direct(
        &mut self,
        job: DirectJob,
        posting: &Posting,
        data: Option<&[u8]>,
        buffers: &mut Buffers,
    ) -> Result<(), NotBegun> {
        self.make_room(buffers);
        let inline = data.filter(|data| data.len() as u32 <= self.p.max_inline());
        let borrowed = inline.map(|data| [Element::inline(data)]);
        let brings = match self.elements.is_empty() && posting.op.reads() {
            true => posting.remote.length as u32,
            false => 0,
        };
        let taken = match (data, inline) {
            (Some(data), None) => Some(buffers.fill(data)),
            _ if brings > 0 => Some(buffers.take(brings)),
            _ => None,
        };
        let taken = taken.transpose().map_err(|_| NotBegun::Fault)?;
        let own = taken.as_ref().map(|(_, element)| [*element]);
        let elements = match (&borrowed, &own) {
            (Some(borrowed), _) => &borrowed[..],
            (_, Some(own)) => &own[..],
            _ => &self.elements[..],
        };
        let mut flags = SendFlags::empty();
        flags.set(SendFlags::INLINE, inline.is_some());
        flags.set(SendFlags::FENCE, posting.fence);
        let mut wr = self.request(posting, elements).flags(flags);
        if let Some(immediate) = posting.immediate {
            wr = wr.immediate(immediate).flags(flags | SendFlags::SOLICITED);
        }
        let posted = self.p.post_send(&mut wr);
        self.failed |= posted.is_err();
        self.direct += 1;
        let buffer = taken.map(|(buffer, _)| buffer);
        self.sent.push_back(Sent::Direct(Ended {
            job,
            buffer,
            brings,
        }));
        Ok(())
    }

    fn request<'a>(&self, posting: &Posting, elements: &'a [Element<'a>]) -> SendWr<'a> {
        let (id, key) = (self.id(0), RKey(posting.remote.key));
        let at = posting.remote.address;
        match posting.op {
            DirectOp::Put => SendWr::write(id, at, key, elements),
            DirectOp::Get => SendWr::read(id, at, key, elements),
            DirectOp::Add(add) => SendWr::fetch_add(id, at, key, add, elements),
            DirectOp::Swap { compare, swap } => {
                SendWr::compare_swap(id, (at, key), (compare, swap), elements)
            }
        }
    }

    /// The next operation by a lease that has ended.
    pub fn next_ended(&mut self) -> Option<Ended> {
        let ended = self.ended.pop_front()?;
        self.direct -= 1;
        Some(ended)
    }

    /// Whether operations by leases are under way, or were not handed over.
    pub const fn has_direct(&self) -> bool {
        self.direct > 0
    }

    /// Takes completions of P.
    pub fn reap(&mut self, buffers: &mut Buffers) {
        let mut wcs = [Wc::default(); 16];
        loop {
            let Ok(count) = self.sent_cq.poll(&mut wcs) else {
                self.failed = true;
                return;
            };
            for wc in &wcs[..count] {
                self.failed |= !wc.is_ok();
                match self.sent.pop_front() {
                    Some(Sent::Message(Some(buffer))) => buffers.free(buffer),
                    Some(Sent::Direct(ended)) if wc.is_ok() => self.ended.push_back(ended),
                    Some(Sent::Direct(ended)) => {
                        self.direct -= 1;
                        ended
                            .buffer
                            .into_iter()
                            .for_each(|buffer| buffers.free(buffer));
                    }
                    Some(Sent::Message(None)) | None => {}
                }
            }
            if count < wcs.len() {
                return;
            }
        }
    }

    /// Whether nothing is under way on P, as far as completions were seen.
    pub fn is_drained(&self) -> bool {
        self.sent.is_empty()
    }

    /// Destroys the queue pairs; afterwards nobody reads or writes memory for this connection.
    pub fn close(mut self, buffers: &mut Buffers) {
        self.has_ended(self.rdma);
        let Queues {
            p, n, sent, ended, ..
        } = self;
        drop((p, n));
        let sent = sent.into_iter().filter_map(|sent| match sent {
            Sent::Message(buffer) => buffer,
            Sent::Direct(ended) => ended.buffer,
        });
        let ended = ended.into_iter().filter_map(|ended| ended.buffer);
        sent.chain(ended).for_each(|buffer| buffers.free(buffer));
    }

    /// Elements for the local memory of the next job or operation.
    pub fn elements(&mut self) -> &mut Vec<Element<'static>> {
        self.elements.clear();
        &mut self.elements
    }

    /// Whether the elements are memory of so many bytes that one request takes.
    pub fn is_one_request(&self, length: u64) -> bool {
        let bytes = self
            .elements
            .iter()
            .map(|element| u64::from(element.byte_len()));
        self.elements.len() <= ELEMENTS as usize && bytes.sum::<u64>() == length
    }

    /// Begins a job between the elements and the peer's memory, which have equally many bytes.
    pub fn begin(&mut self, job: Job, writes: bool, remote: &[Segment]) -> Result<(), NotBegun> {
        let parts = parts(&self.elements, remote).ok_or(NotBegun::Fault)?;
        let count = parts.len() as u32;
        if count > RDMA {
            return Err(NotBegun::Fault);
        }
        if self.rdma + count > RDMA {
            return Err(NotBegun::Full);
        }
        let id = self.id(job.0.into());
        for part in &parts {
            let key = RKey(part.key);
            let mut wr = match writes {
                true => SendWr::write(id, part.address, key, &part.elements),
                false => SendWr::read(id, part.address, key, &part.elements),
            };
            self.failed |= self.n.post_send(&mut wr).is_err();
        }
        self.has_begun(count);
        if let Some(left) = self.jobs.get_mut(usize::from(job.0)) {
            *left = count;
        }
        Ok(())
    }

    /// Asks whether the peer's adapter answers, unless RDMA is under way that does so: a WRITE of
    /// no bytes, whose failure is that of the connection.
    pub fn ask(&mut self) {
        if self.rdma > 0 {
            return;
        }
        let mut wr = SendWr::write(self.id(ASKS), 0, RKey(0), &[]);
        self.failed |= self.n.post_send(&mut wr).is_err();
        self.asks = true;
        self.has_begun(1);
    }

    fn has_begun(&mut self, count: u32) {
        self.rdma += count;
        self.seat.rdma.fetch_add(count, Ordering::Relaxed);
    }

    fn has_ended(&mut self, count: u32) {
        self.rdma -= count;
        self.seat.rdma.fetch_sub(count, Ordering::Relaxed);
    }

    /// A request of a job has ended well. Whether it was the job's last.
    pub fn ended(&mut self, job: u32) -> bool {
        if job == ASKS {
            let asks = std::mem::take(&mut self.asks);
            self.has_ended(asks.into());
            return false;
        }
        let Some(left) = self.jobs.get_mut(job as usize).filter(|left| **left > 0) else {
            return false;
        };
        *left -= 1;
        let is_last = *left == 0;
        self.has_ended(1);
        is_last
    }
}

/// One RDMA request.
struct Part {
    address: u64,
    key: u32,
    elements: Vec<Element<'static>>,
}

/// Cuts both memories so that each request has one range of the peer's and few of this side's. None
/// if they have not equally many bytes.
fn parts(local: &[Element<'static>], remote: &[Segment]) -> Option<Vec<Part>> {
    let mut parts = Vec::new();
    let mut local = local.iter().filter(|element| element.byte_len() > 0);
    let (mut element, mut used) = (local.next(), 0_u32);
    for segment in remote {
        let mut at = 0;
        while at < segment.length {
            let mut part = Part {
                address: segment.address.checked_add(at)?,
                key: segment.key,
                elements: Vec::with_capacity(ELEMENTS as usize),
            };
            let most = (segment.length - at).min(LONGEST);
            let mut length = 0;
            while length < most && part.elements.len() < ELEMENTS as usize {
                let here = element?;
                let take = u64::from(here.byte_len() - used).min(most - length) as u32;
                part.elements.push(here.part(used, take)?);
                (used, length) = (used + take, length + u64::from(take));
                if used == here.byte_len() {
                    (element, used) = (local.next(), 0);
                }
            }
            at += length;
            parts.push(part);
        }
    }
    element.is_none().then_some(parts)
}
