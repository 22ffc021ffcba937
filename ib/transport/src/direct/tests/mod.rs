//! Two processes over plain memory, without threads: every behaviour of the machine, one at a time.

mod hostile;
mod loom;
mod receiving;
mod recovery;
mod rings;
mod sending;

use std::cell::{Cell, RefCell, RefMut};
use std::rc::Rc;

use super::layout::{BLOCK_QPS, KeyEntry, PAIR_LEN, PROC_BLOCKS, PROC_LEN, QpEntry, ring_offset};
use super::*;
use crate::types::{Instant, QpType, SendFlags, SendOpcode, WcStatus};

/// Bytes of a segment, shared by those who hold it.
#[derive(Clone)]
pub(super) struct Seg(pub Rc<RefCell<Vec<u8>>>);

impl Seg {
    pub fn new(len: usize) -> Self {
        Seg(Rc::new(RefCell::new(vec![0; len])))
    }
}

impl Words for Seg {
    fn load(&self, off: usize) -> u64 {
        let bytes = self.0.borrow();
        u64::from_le_bytes(bytes[off..off + 8].try_into().unwrap())
    }
    fn store(&self, off: usize, value: u64) {
        self.0.borrow_mut()[off..off + 8].copy_from_slice(&value.to_le_bytes());
    }
    fn swap(&self, off: usize, value: u64) -> u64 {
        let old = self.load(off);
        self.store(off, value);
        old
    }
    fn fetch_or(&self, off: usize, bits: u64) -> u64 {
        self.swap(off, self.load(off) | bits)
    }
    fn fetch_and(&self, off: usize, bits: u64) -> u64 {
        self.swap(off, self.load(off) & bits)
    }
    fn compare_exchange(&self, off: usize, old: u64, new: u64) -> Result<u64, u64> {
        let found = self.load(off);
        if found == old {
            self.store(off, new);
            Ok(found)
        } else {
            Err(found)
        }
    }
    fn copy_in(&self, off: usize, bytes: &[u8]) {
        self.0.borrow_mut()[off..off + bytes.len()].copy_from_slice(bytes);
    }
    fn copy_out(&self, off: usize, bytes: &mut [u8]) {
        bytes.copy_from_slice(&self.0.borrow()[off..off + bytes.len()]);
    }
    fn fence(&self) {}
}

/// One direction's ends and what a test may change about a peer.
pub(super) struct Peer {
    slot: u32,
    table: Seg,
    pair: Seg,
    app: Seg,
    producer: RefCell<Producer>,
    completer: RefCell<Completer>,
    consumer: RefCell<Consumer>,
    pub ready: Cell<bool>,
    pub dead: Cell<bool>,
    pub reachable: Cell<bool>,
    /// What the system answers to an access to its private memory.
    pub fault: Cell<Option<Fault>>,
    /// Its memory is mapped here: atomics are done from here.
    pub mapped: Cell<bool>,
}

#[derive(Clone)]
pub(super) struct TestLink(pub Rc<Peer>);

impl Link for TestLink {
    type Seg = Seg;
    type Tx<'a> = RefMut<'a, Producer>;
    fn ready(&self) -> bool {
        self.0.ready.get()
    }
    fn dead(&self) -> bool {
        self.0.dead.get()
    }
    fn slot(&self) -> u32 {
        self.0.slot
    }
    fn table(&self) -> &Seg {
        &self.0.table
    }
    fn pair(&self) -> &Seg {
        &self.0.pair
    }
    fn tx(&self) -> RefMut<'_, Producer> {
        self.0.producer.borrow_mut()
    }
    fn ring_doorbell(&self) {}
    fn reachable(&self) -> bool {
        self.0.reachable.get()
    }
}

/// A process. Addresses are offsets in its application memory; keys are checked against its table.
pub(super) struct TestHost {
    slot: u32,
    own: Seg,
    pub app: Seg,
    pub bound: Cell<u32>,
}

impl TestHost {
    fn take(&self, from: &[Sge], skip: u64, len: u64) -> Vec<u8> {
        let app = self.app.0.borrow();
        let whole = from.iter().flat_map(|sge| {
            let start = sge.addr as usize;
            app[start..start + sge.length as usize].iter().copied()
        });
        whole.skip(skip as usize).take(len as usize).collect()
    }

    fn give(&self, bytes: &[u8], to: &[Sge], skip: u64) {
        let mut app = self.app.0.borrow_mut();
        let places = to
            .iter()
            .flat_map(|sge| sge.addr..sge.addr + u64::from(sge.length));
        for (place, byte) in places.skip(skip as usize).zip(bytes) {
            app[place as usize] = *byte;
        }
    }

    fn atomic(app: &Seg, addr: u64, op: AtomicOp) -> u64 {
        let old = app.load(addr as usize);
        match op {
            AtomicOp::CompareSwap(compare, swap) if old == compare => {
                app.store(addr as usize, swap)
            }
            AtomicOp::CompareSwap(..) => {}
            AtomicOp::FetchAdd(add) => app.store(addr as usize, old.wrapping_add(add)),
        }
        old
    }
}

impl Host for TestHost {
    type Seg = Seg;
    type Link = TestLink;
    fn slot(&self) -> u32 {
        self.slot
    }

    fn chunk_bytes(&self) -> u64 {
        256 << 10
    }
    fn own(&self) -> &Seg {
        &self.own
    }
    fn claim_mark(&self) -> usize {
        0
    }
    fn release_mark(&self, _: usize) {}
    fn local(&self, pd: u32, sge: &Sge, need: Access) -> Option<u64> {
        let entry = KeyEntry::read(&self.own, sge.lkey)?;
        (entry.pd == pd && entry.access.contains(need)).then_some(())?;
        entry
            .offset_of(sge.addr, u64::from(sge.length))
            .map(|offset| entry.addr + offset)
    }
    fn gather(&self, seg: &Seg, off: usize, from: &[Sge], skip: u64, len: u64) {
        seg.copy_in(off, &self.take(from, skip, len));
    }
    fn scatter(&self, seg: &Seg, off: usize, to: &[Sge], skip: u64, len: u64) {
        let mut bytes = vec![0; len as usize];
        seg.copy_out(off, &mut bytes);
        self.give(&bytes, to, skip);
    }
    fn put(&self, bytes: &[u8], to: &[Sge], skip: u64) {
        self.give(bytes, to, skip);
    }
    fn fetch(&self, from: &[Sge], skip: u64, bytes: &mut [u8]) {
        bytes.copy_from_slice(&self.take(from, skip, bytes.len() as u64));
    }
    fn remote_write(
        &self,
        link: &TestLink,
        to: RemoteSpan,
        from: &[Sge],
        skip: u64,
        len: u64,
    ) -> Result<(), Fault> {
        self.remote_put(link, to, &self.take(from, skip, len))
    }
    fn remote_put(&self, link: &TestLink, to: RemoteSpan, bytes: &[u8]) -> Result<(), Fault> {
        link.0.fault.get().map_or(Ok(()), Err)?;
        link.0.app.copy_in(to.addr as usize, bytes);
        Ok(())
    }
    fn remote_read(
        &self,
        link: &TestLink,
        from: RemoteSpan,
        to: &[Sge],
        skip: u64,
        len: u64,
    ) -> Result<(), Fault> {
        link.0.fault.get().map_or(Ok(()), Err)?;
        let mut bytes = vec![0; len as usize];
        link.0.app.copy_out(from.addr as usize, &mut bytes);
        self.give(&bytes, to, skip);
        Ok(())
    }
    fn remote_atomic(&self, link: &TestLink, at: RemoteSpan, op: AtomicOp) -> Option<u64> {
        link.0
            .mapped
            .get()
            .then(|| Self::atomic(&link.0.app, at.addr, op))
    }
    fn local_atomic(&self, addr: u64, op: AtomicOp) -> u64 {
        Self::atomic(&self.app, addr, op)
    }
    fn invalidate(&self, _: u32, _: u32, rkey: u32) -> bool {
        self.bound.replace(0) == rkey && rkey != 0
    }
    fn bind(&self, _: u32, _: u32, bind: &BindRequest) -> bool {
        self.bound.replace(bind.rkey) == 0
    }
}

/// Application memory of a process.
pub(super) const APP: usize = 4 << 20;
pub(super) const PD: u32 = 5;
/// The one key of each process: all of its memory, all rights.
pub(super) const KEY: u32 = 0x101;

#[derive(Default)]
pub(super) struct Seen {
    pub received: Vec<Completion>,
    pub events: Vec<TargetEvent>,
}

impl TargetSink for Seen {
    fn received(&mut self, completion: Completion) {
        self.received.push(completion);
    }
    fn event(&mut self, event: TargetEvent) {
        self.events.push(event);
    }
}

/// A process with one queue pair.
pub(super) struct Side {
    pub host: TestHost,
    pub link: TestLink,
    pub sender: Sender<TestLink>,
    pub receiver: Receiver,
    pub rq: RecvQueue,
    pub sent: Vec<Completion>,
    pub seen: Seen,
    pub chunk: u64,
}

/// Two processes and a clock.
pub(super) struct Pair {
    pub a: Side,
    pub b: Side,
    pub now: u64,
}

fn qpn(slot: u32) -> u32 {
    (slot + 1) * BLOCK_QPS + 3
}

impl Side {
    fn new(slot: u32, peer: &Seg, own: &Seg, pair: &Seg, apps: [&Seg; 2], qp_type: QpType) -> Self {
        let other = 1 - slot;
        let shared = TxShared::new();
        let link = TestLink(Rc::new(Peer {
            slot: other,
            table: peer.clone(),
            pair: pair.clone(),
            app: apps[1].clone(),
            producer: RefCell::new(Producer::new(ring_offset(slot, other), shared.clone())),
            completer: RefCell::new(Completer::new(ring_offset(slot, other), shared)),
            consumer: RefCell::new(Consumer::new(ring_offset(other, slot))),
            ready: Cell::new(true),
            dead: Cell::new(false),
            reachable: Cell::new(true),
            fault: Cell::new(None),
            mapped: Cell::new(false),
        }));
        own.store(PROC_BLOCKS, u64::from(qpn(slot) / BLOCK_QPS) + 1);
        let access = Access::LOCAL_WRITE
            | Access::REMOTE_WRITE
            | Access::REMOTE_READ
            | Access::REMOTE_ATOMIC;
        let key = KeyEntry {
            key: KEY,
            access,
            iova: 0,
            length: APP as u64,
            addr: 0,
            pd: PD,
            map_id: 0,
            map_offset: 0,
            only_qp: 0,
            window: false,
        };
        key.write(own, 1);
        let entry = QpEntry {
            qpn: qpn(slot),
            receives: true,
            access,
            pd: PD,
            dest_qpn: qpn(other),
            dest_slot: other,
        };
        entry.write(own, 3);
        let mut receiver = Receiver::new(qpn(slot), qp_type, PD, PD, 4);
        (receiver.receives, receiver.dest_qpn, receiver.peer_slot) = (true, qpn(other), other);
        (receiver.access, receiver.min_rnr_timer, receiver.expected) = (access, 12, 0xff_fffe);
        let mut sender = Sender::new(qpn(slot), 3, qp_type, PD, false, 16, 4, 256);
        let attr = SendAttr {
            dest_qpn: qpn(other),
            seq: 0xff_fffe,
            timeout: 14,
            retry_cnt: 1,
            rnr_retry: 7,
        };
        sender.connect(attr, Some(link.clone()));
        sender.start(attr);
        sender.set_state(SendState::Running, &mut |_| {});
        Side {
            host: TestHost {
                slot,
                own: own.clone(),
                app: apps[0].clone(),
                bound: Cell::new(0),
            },
            link,
            sender,
            receiver,
            rq: RecvQueue::new(8, 4),
            sent: Vec::new(),
            seen: Seen::default(),
            chunk: 1 << 20,
        }
    }

    /// Fills application memory and says what was put there.
    pub fn fill(&self, at: usize, len: usize, salt: u8) -> Vec<u8> {
        let bytes: Vec<u8> = (0..len)
            .map(|i| (i as u8).wrapping_mul(31) ^ (i >> 8) as u8 ^ salt)
            .collect();
        self.host.app.copy_in(at, &bytes);
        bytes
    }

    pub fn bytes(&self, at: usize, len: usize) -> Vec<u8> {
        self.host.app.0.borrow()[at..at + len].to_vec()
    }

    pub fn recv(&mut self, wr_id: u64, addr: u64, length: u32) {
        self.rq
            .push(
                wr_id,
                &[Sge {
                    addr,
                    length,
                    lkey: KEY,
                }],
            )
            .unwrap();
    }

    /// Executes what waits in the ring from the peer; the answers it gave.
    pub fn drain(&mut self) -> Vec<Handled> {
        let link = self.link.clone();
        let mut ring = link.0.consumer.borrow_mut();
        let mut answers = Vec::new();
        while let Some(record) = ring.peek(&link.0.pair) {
            let record = record.expect("the sender writes known records");
            let seen = &mut self.seen;
            let handled = self.receiver.handle(
                &self.host,
                &link,
                &ring,
                &record,
                &mut self.rq,
                self.chunk,
                seen,
            );
            answers.push(handled);
            match handled {
                Handled::Answer(response) => ring.answer(&link.0.pair, response),
                Handled::Value(value) => ring.answer_value(&link.0.pair, value),
                Handled::More => continue,
            }
        }
        ring.acknowledge(&link.0.pair);
        answers
    }

    pub fn collect(&mut self, now: u64) {
        let link = self.link.clone();
        let tail = link.0.producer.borrow().tail();
        let mut answers = Vec::new();
        link.0
            .completer
            .borrow_mut()
            .collect(&link.0.pair, tail, 1024, |answer| answers.push(answer));
        for answer in answers {
            let sent = &mut self.sent;
            self.sender.answered(
                &self.host,
                &link.0.pair,
                answer,
                || Instant(now),
                &mut |c| sent.push(c),
            );
        }
    }

    pub fn advance(&mut self, now: u64) -> Advance {
        let sent = &mut self.sent;
        self.sender
            .advance(&self.host, || Instant(now), true, &mut |c| sent.push(c))
    }

    pub fn post(&mut self, request: SendRequest<'_, TestLink>) {
        let sent = &mut self.sent;
        self.sender.post(&request, &mut |c| sent.push(c)).unwrap();
    }

    /// Gives up a dead peer as a driver does.
    pub fn lose_peer(&mut self, now: u64) {
        self.link.0.dead.set(true);
        let tail = self.link.0.producer.borrow().tail();
        let mut victims = 0;
        self.link.0.completer.borrow_mut().abandon(tail, |owner| {
            victims += u32::from(Sender::<TestLink>::index_of_owner(owner).is_some());
        });
        if victims > 0 {
            let sent = &mut self.sent;
            self.sender.peer_died(Instant(now), &mut |c| sent.push(c));
        }
    }

    pub fn statuses(&self) -> Vec<(u64, WcStatus)> {
        self.sent
            .iter()
            .map(|completion| (completion.wr_id, completion.status))
            .collect()
    }
}

impl Pair {
    pub fn new(qp_type: QpType) -> Self {
        let (tables, apps) = (
            [Seg::new(PROC_LEN), Seg::new(PROC_LEN)],
            [Seg::new(APP), Seg::new(APP)],
        );
        let pair = Seg::new(PAIR_LEN);
        let side = |slot: usize| {
            Side::new(
                slot as u32,
                &tables[1 - slot],
                &tables[slot],
                &pair,
                [&apps[slot], &apps[1 - slot]],
                qp_type,
            )
        };
        Pair {
            a: side(0),
            b: side(1),
            now: 1_000,
        }
    }

    /// Lets both run until neither moves; timers fire as they come due. Bounded by `rounds`.
    pub fn settle(&mut self, rounds: usize) {
        for _ in 0..rounds {
            let waits = self.a.advance(self.now);
            let mut answers = self.b.drain().len();
            self.a.collect(self.now);
            self.b.advance(self.now);
            answers += self.a.drain().len();
            self.b.collect(self.now);
            match waits {
                Advance::Until(at) if answers == 0 => self.now = self.now.max(at.0),
                Advance::Idle if answers == 0 => return,
                _ => {}
            }
        }
    }
}

/// A signaled request with one element.
pub(super) fn request<'a>(
    wr_id: u64,
    opcode: SendOpcode,
    sges: &'a [Sge],
) -> SendRequest<'a, TestLink> {
    SendRequest {
        wr_id,
        opcode,
        flags: SendFlags::SIGNALED,
        sges,
        inline: &[],
        imm: 0,
        remote_addr: 0,
        rkey: KEY,
        compare_add: 0,
        swap: 0,
        remote_qpn: 0,
        remote_key: 0,
        link: None,
        fanout: &[],
        grh: None,
        route: (0, 0),
        bind: None,
    }
}

pub(super) fn sge(addr: u64, length: u32) -> &'static [Sge] {
    // a few bytes for as long as the tests run
    Box::leak(Box::new([Sge {
        addr,
        length,
        lkey: KEY,
    }]))
}
