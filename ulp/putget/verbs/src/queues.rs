//! The two queue pairs of one connection: messages and RDMA become requests.
//!
//! Owns: what requests name, and how many are under way. Must not know: what messages say.
//!
//! P sends messages, N receives them and sends RDMA. P of this side is connected to N of the peer.

use crate::Error;
use crate::adapter::{Adapter, Buffer, Buffers};
use ferriband_ibv::{Access, Cq, Element, Mr, Qp, QpCaps, QpInit, QpType, RKey, RecvWr};
use ferriband_ibv::{Region, SendFlags, SendWr, Wc};
use ferriband_putget_proto::{Config, Job, NotBegun, Segment};
use std::collections::VecDeque;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;

/// Messages of up to so many bytes go inline where the adapter has room for that.
const INLINE: u32 = 188;
/// Elements of an RDMA request.
const ELEMENTS: u32 = 4;
/// The most bytes of an RDMA request: IBA's longest message is 2 GiB.
const LONGEST: u64 = 1 << 30;
/// Requests of RDMA that are under way at a time, of one connection.
pub(crate) const RDMA: u32 = 256;

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

/// The queue pairs of one connection, with what is under way on them.
pub(crate) struct Queues {
    pub p: Arc<Qp>,
    pub n: Arc<Qp>,
    /// Completions of sent messages.
    pub sent_cq: Arc<Cq>,
    /// The PSN that the queue pair begins with that the manager does not bring up.
    pub psn: u32,
    _seat: Arc<()>,
    place: u16,
    life: u16,
    receive: Arc<Mr>,
    message_bytes: u32,
    /// Messages whose completions were not seen, in their order.
    sent: VecDeque<Option<Buffer>>,
    /// How many messages the send queue holds.
    depth: usize,
    /// Requests of each job that are under way.
    jobs: Vec<u32>,
    rdma: u32,
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
        let depth = SLACK * u32::from(peer_receives);
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
        let p = make(&sent_cq, depth, 1, 1, INLINE)?;
        let n = make(&cqs.rdma, RDMA, receives, ELEMENTS, 0)?;
        let bytes = receives as usize * own.message_bytes as usize;
        let region = Region::create(c"ferriband-putget", bytes)?;
        let receive = Mr::register(&adapter.pd, &region, Access::LOCAL_WRITE)?;
        Ok(Queues {
            p,
            n,
            sent_cq,
            psn: RandomState::new().build_hasher().finish() as u32 & 0xff_ffff,
            _seat: Arc::clone(&cqs.seat),
            place,
            life,
            receive,
            message_bytes: own.message_bytes,
            sent: VecDeque::new(),
            depth: depth as usize,
            jobs: vec![0; own.requests.into()],
            rdma: 0,
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
        (self.depth / SLACK as usize) as u16
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
    pub fn send(&mut self, message: &[u8], solicited: bool, buffers: &mut Buffers) {
        if self.sent.len() + 1 >= self.depth {
            self.reap(buffers);
        }
        let posted = self.post_message(message, solicited, buffers);
        self.failed |= posted.is_err();
    }

    fn post_message(
        &mut self,
        message: &[u8],
        solicited: bool,
        buffers: &mut Buffers,
    ) -> Result<(), Error> {
        let mut flags = SendFlags::empty();
        flags.set(SendFlags::SOLICITED, solicited);
        let id = self.id(0);
        if message.len() as u32 <= self.p.max_inline() {
            let elements = [Element::inline(message)];
            let wr = SendWr::send(id, &elements);
            self.p.post_send(&mut wr.flags(flags | SendFlags::INLINE))?;
            self.sent.push_back(None);
            return Ok(());
        }
        let (buffer, element) = buffers.fill(message)?;
        let elements = [element];
        let posted = self
            .p
            .post_send(&mut SendWr::send(id, &elements).flags(flags));
        match posted {
            Ok(()) => self.sent.push_back(Some(buffer)),
            Err(_) => buffers.free(buffer),
        }
        Ok(posted?)
    }

    /// Takes completions of sent messages.
    pub fn reap(&mut self, buffers: &mut Buffers) {
        let mut wcs = [Wc::default(); 16];
        loop {
            let Ok(count) = self.sent_cq.poll(&mut wcs) else {
                self.failed = true;
                return;
            };
            for wc in &wcs[..count] {
                self.failed |= !wc.is_ok();
                if let Some(Some(buffer)) = self.sent.pop_front() {
                    buffers.free(buffer);
                }
            }
            if count < wcs.len() {
                return;
            }
        }
    }

    /// Whether no message is under way, as far as completions were seen.
    pub fn is_drained(&self) -> bool {
        self.sent.is_empty()
    }

    /// Destroys the queue pairs; afterwards nobody reads or writes memory for this connection.
    pub fn close(self, buffers: &mut Buffers) {
        let Queues { p, n, sent, .. } = self;
        drop((p, n));
        sent.into_iter()
            .flatten()
            .for_each(|buffer| buffers.free(buffer));
    }

    /// Elements for the local memory of the next job.
    pub fn elements(&mut self) -> &mut Vec<Element<'static>> {
        self.elements.clear();
        &mut self.elements
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
        self.rdma += count;
        if let Some(left) = self.jobs.get_mut(usize::from(job.0)) {
            *left = count;
        }
        Ok(())
    }

    /// A request of a job has ended well. Whether it was the job's last.
    pub fn ended(&mut self, job: u32) -> bool {
        let Some(left) = self.jobs.get_mut(job as usize).filter(|left| **left > 0) else {
            return false;
        };
        *left -= 1;
        self.rdma -= 1;
        *left == 0
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
