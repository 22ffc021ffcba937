//! What the direct machine asks of its process, answered with simulated memory: every access is a step, every copy is
//! several, ascending, so that another process, a stop or a kill falls into its middle.

use std::cell::{Cell, RefCell, RefMut};
use std::rc::Rc;

use ferriband_transport::direct::layout::{
    KeyEntry, PROC_ASLEEP, PROC_MARKS, PROC_PENDING, PROC_PENDING_SUMMARY, key_index,
};
use ferriband_transport::direct::mark::{self, Revoked};
use ferriband_transport::direct::{
    AtomicOp, BindRequest, Completer, Consumer, Fault, Host, Link, Producer, RemoteSpan, Words,
};
use ferriband_transport::types::{Access, Sge};

use super::Mutation;
use super::memory::SegId;
use super::world::Ctx;

/// How long an owner waits for a stopped process's mark.
pub(super) const STOPPED_PEER_WAIT_NS: u64 = 1_000_000_000;

/// Steps of a long transfer are shorter than the adapter's, so that short runs meet their seams.
const CHUNK_BYTES: u64 = 256 << 10;

/// Process address of the first byte of a process's application memory.
pub(super) const fn app_base(process: usize) -> u64 {
    (process as u64 + 1) << 32
}

/// A shared segment as one process accesses it.
#[derive(Clone, Copy)]
pub(super) struct SimSeg<'s> {
    pub ctx: Ctx<'s>,
    pub id: SegId,
}

impl SimSeg<'_> {
    fn drops_store(&self, off: usize) -> bool {
        let marks = PROC_MARKS..PROC_MARKS + 64 * 32;
        match self.ctx.world.options.mutation {
            // the tables are the first segments, one for each process
            Some(Mutation::SkipMark) => {
                usize::from(self.id.0) < self.ctx.world.fates.len() && marks.contains(&off)
            }
            _ => false,
        }
    }
}

impl Words for SimSeg<'_> {
    fn load(&self, off: usize) -> u64 {
        self.ctx.load(self.id, off)
    }

    fn store(&self, off: usize, value: u64) {
        if !self.drops_store(off) {
            self.ctx.store(self.id, off, &value.to_le_bytes());
        }
    }

    fn swap(&self, off: usize, value: u64) -> u64 {
        self.ctx.modify(self.id, off, |_| Some(value))
    }

    fn fetch_or(&self, off: usize, bits: u64) -> u64 {
        self.ctx.modify(self.id, off, |old| Some(old | bits))
    }

    fn fetch_and(&self, off: usize, bits: u64) -> u64 {
        self.ctx.modify(self.id, off, |old| Some(old & bits))
    }

    fn compare_exchange(&self, off: usize, old: u64, new: u64) -> Result<u64, u64> {
        let found = self
            .ctx
            .modify(self.id, off, |found| (found == old).then_some(new));
        if found == old { Ok(found) } else { Err(found) }
    }

    fn copy_in(&self, off: usize, bytes: &[u8]) {
        let mut done = 0;
        for piece in self.ctx.pieces(bytes.len()) {
            self.ctx
                .store(self.id, off + done, &bytes[done..done + piece]);
            done += piece;
        }
    }

    fn copy_out(&self, off: usize, bytes: &mut [u8]) {
        self.ctx.step();
        self.ctx.peek(self.id, off, bytes);
    }

    fn fence(&self) {
        let own = usize::from(self.id.0) == self.ctx.me;
        let dropped = if own {
            Mutation::DropFence
        } else {
            Mutation::DropBellFence
        };
        if self.ctx.world.options.mutation == Some(dropped) {
            return self.ctx.step();
        }
        self.ctx.fence();
    }
}

impl Ctx<'_> {
    /// Cuts a copy into a few pieces; the last 8 bytes are their own.
    fn pieces(&self, len: usize) -> Vec<usize> {
        let mut left = len;
        let mut pieces = Vec::with_capacity(5);
        let mut cuts = self.world.rng.borrow_mut().below(4);
        while left > 8 {
            let piece = match cuts {
                0 => left - 8,
                _ => (self.world.rng.borrow_mut().below(left as u64 - 8) + 1) as usize,
            };
            cuts = cuts.saturating_sub(1);
            pieces.push(piece);
            left -= piece;
        }
        if left > 0 {
            pieces.push(left);
        }
        pieces
    }
}

/// The channel to a peer.
pub(super) struct Peer<'s> {
    pub slot: usize,
    pub table: SimSeg<'s>,
    pub pair: SimSeg<'s>,
    pub producer: RefCell<Producer>,
    pub completer: RefCell<Completer>,
    pub consumer: RefCell<Consumer>,
    pub ready_at: u64,
    pub dead: Cell<bool>,
    /// The peer's private memory could be reached when the channel was made.
    pub reachable: bool,
    /// The system changes its mind about that so often, in nanoseconds; 0 is never.
    pub moods_ns: u64,
}

/// A counted reference to it.
#[derive(Clone)]
pub(super) struct SimLink<'s>(pub Rc<Peer<'s>>);

impl<'s> Link for SimLink<'s> {
    type Seg = SimSeg<'s>;
    type Tx<'a>
        = RefMut<'a, Producer>
    where
        Self: 'a;

    fn ready(&self) -> bool {
        self.0.table.ctx.world.now() >= self.0.ready_at
    }

    fn dead(&self) -> bool {
        self.0.dead.get()
    }

    fn slot(&self) -> u32 {
        self.0.slot as u32
    }

    fn table(&self) -> &SimSeg<'s> {
        &self.0.table
    }

    fn pair(&self) -> &SimSeg<'s> {
        &self.0.pair
    }

    fn tx(&self) -> RefMut<'_, Producer> {
        self.0.producer.borrow_mut()
    }

    fn ring_doorbell(&self) {
        self.ring();
    }

    fn reachable(&self) -> bool {
        self.0.reachable
    }
}

impl SimLink<'_> {
    /// Rings the peer's doorbell as the adapter does: publish, fence, then look whether somebody sleeps.
    pub fn ring(&self) {
        let table = self.0.table;
        let me = table.ctx.me;
        table.fence();
        if self.0.slot != me {
            if table.load(PROC_PENDING) & 1 << me == 0 {
                table.fetch_or(PROC_PENDING, 1 << me);
                table.fetch_or(PROC_PENDING_SUMMARY, 1);
            }
            if table.load(PROC_ASLEEP) != 0 {
                table.ctx.world.wake(self.0.slot);
            }
        }
    }

    /// The kernel's word: true while the process lives.
    fn lives(&self) -> bool {
        !self.0.table.ctx.world.fates[self.0.slot].dead.get()
    }
}

/// A window as its owner remembers it.
#[derive(Clone, Copy)]
struct Window {
    slot: u32,
    bound: u32,
}

/// A process as the machine sees it.
pub(super) struct SimHost<'s> {
    pub ctx: Ctx<'s>,
    pub own: SimSeg<'s>,
    pub links: Vec<SimLink<'s>>,
    /// Application memory of all processes, by slot.
    pub apps: Vec<SegId>,
    marks: RefCell<u32>,
    windows: RefCell<Vec<Window>>,
}

impl<'s> SimHost<'s> {
    pub fn new(ctx: Ctx<'s>, own: SimSeg<'s>, links: Vec<SimLink<'s>>, apps: Vec<SegId>) -> Self {
        SimHost {
            ctx,
            own,
            links,
            apps,
            marks: RefCell::new(0),
            windows: RefCell::default(),
        }
    }

    /// Segment and offset of a process address.
    fn place(&self, addr: u64) -> (SegId, usize) {
        let process = (addr >> 32) as usize - 1;
        (self.apps[process], addr as u32 as usize)
    }

    /// Makes a window's slot known.
    pub fn add_window(&self, slot: u32) {
        self.windows.borrow_mut().push(Window { slot, bound: 0 });
    }

    /// Unbinds a window, whoever still names it.
    pub fn drop_window(&self, slot: u32) {
        let mut windows = self.windows.borrow_mut();
        let bound = windows
            .iter_mut()
            .find(|window| window.slot == slot && window.bound != 0);
        let Some(key) = bound.map(|window| std::mem::take(&mut window.bound)) else {
            return;
        };
        drop(windows);
        KeyEntry::revoke(&self.own, slot as usize);
        if self.wait_for_marks(Revoked::Key(key)) {
            self.ctx
                .world
                .oracle
                .borrow_mut()
                .key_is_gone(self.ctx.me, key);
        }
    }

    /// Waits until no peer is in the middle of an access to what was revoked. False: a stopped process holds a mark.
    pub fn wait_for_marks(&self, what: Revoked) -> bool {
        if self.ctx.world.options.mutation == Some(Mutation::SkipWait) {
            return true;
        }
        let deadline = self.ctx.world.now() + STOPPED_PEER_WAIT_NS;
        for link in &self.links {
            while link.lives() && !link.dead() && mark::in_flight(&link.0.table, self.slot(), what)
            {
                if self.ctx.world.now() > deadline {
                    return false;
                }
                self.ctx.pause();
            }
        }
        true
    }

    /// One piece of a machine's store to application memory.
    fn app_store(&self, addr: u64, bytes: &[u8]) {
        let (seg, off) = self.place(addr);
        if addr >> 32 == self.ctx.me as u64 + 1 {
            self.ctx
                .world
                .oracle
                .borrow()
                .own_store(self.ctx.world, self.ctx.me, off, bytes.len());
        }
        self.ctx.store(seg, off, bytes);
    }

    fn app_load(&self, addr: u64, into: &mut [u8]) {
        let (seg, off) = self.place(addr);
        let owner = (addr >> 32) as usize - 1;
        self.ctx.step();
        self.ctx.world.oracle.borrow().machine_load(
            self.ctx.world,
            self.ctx.me,
            owner,
            off,
            into.len(),
        );
        self.ctx.peek(seg, off, into);
    }

    /// Process addresses of `len` bytes of a list, from `skip` on.
    fn spans(list: &[Sge], mut skip: u64, mut len: u64) -> Vec<(u64, usize)> {
        let mut spans = Vec::with_capacity(list.len());
        for sge in list {
            let length = u64::from(sge.length);
            if skip >= length {
                skip -= length;
                continue;
            }
            let take = (length - skip).min(len);
            if take > 0 {
                spans.push((sge.addr + skip, take as usize));
            }
            (skip, len) = (0, len - take);
        }
        assert_eq!(len, 0, "the list is shorter than the copy");
        spans
    }

    fn read_list(&self, from: &[Sge], skip: u64, len: u64) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(len as usize);
        for (addr, count) in Self::spans(from, skip, len) {
            let start = bytes.len();
            bytes.resize(start + count, 0);
            self.app_load(addr, &mut bytes[start..]);
        }
        bytes
    }

    fn write_list(&self, bytes: &[u8], to: &[Sge], skip: u64) {
        let mut done = 0;
        for (addr, count) in Self::spans(to, skip, bytes.len() as u64) {
            self.write_span(addr, &bytes[done..done + count], || true);
            done += count;
        }
    }

    /// Writes one span in pieces while `goes_on`. False if it did not.
    fn write_span(&self, addr: u64, bytes: &[u8], goes_on: impl Fn() -> bool) -> bool {
        let pieces = self.ctx.pieces(bytes.len());
        if self.ctx.world.options.mutation == Some(Mutation::LastByteFirst) && bytes.len() > 1 {
            self.app_store(addr + bytes.len() as u64 - 1, &bytes[bytes.len() - 1..]);
        }
        let mut done = 0;
        for piece in pieces {
            if !goes_on() {
                return false;
            }
            self.app_store(addr + done as u64, &bytes[done..done + piece]);
            done += piece;
        }
        true
    }

    /// Why the peer's private memory cannot be touched now, if it cannot.
    fn obstacle(&self, link: &SimLink<'s>, map_id: u32) -> Option<Fault> {
        if link.0.slot == self.ctx.me {
            return None;
        }
        if map_id == 0 {
            let moods = link.0.moods_ns;
            let forbidden = moods != 0 && self.ctx.world.now() / moods % 2 == 1;
            if !link.0.reachable || forbidden {
                return Some(Fault::Forbidden);
            }
            if !link.lives() {
                return Some(Fault::Gone);
            }
        }
        None
    }

    fn change_word(&self, addr: u64, op: AtomicOp) -> u64 {
        let (seg, off) = self.place(addr);
        self.ctx.modify(seg, off, |old| match op {
            AtomicOp::CompareSwap(compare, swap) => (old == compare).then_some(swap),
            AtomicOp::FetchAdd(add) => Some(old.wrapping_add(add)),
        })
    }
}

impl<'s> Host for SimHost<'s> {
    type Seg = SimSeg<'s>;
    type Link = SimLink<'s>;

    fn slot(&self) -> u32 {
        self.ctx.me as u32
    }

    fn chunk_bytes(&self) -> u64 {
        CHUNK_BYTES
    }

    fn own(&self) -> &SimSeg<'s> {
        &self.own
    }

    fn claim_mark(&self) -> usize {
        let mut marks = self.marks.borrow_mut();
        let mark = marks.trailing_ones();
        *marks |= 1 << mark;
        mark as usize
    }

    fn release_mark(&self, mark: usize) {
        *self.marks.borrow_mut() &= !(1 << mark);
    }

    fn local(&self, pd: u32, sge: &Sge, need: Access) -> Option<u64> {
        let entry = KeyEntry::read(&self.own, sge.lkey)?;
        if entry.pd != pd || entry.window || !entry.access.contains(need) {
            return None;
        }
        entry
            .offset_of(sge.addr, u64::from(sge.length))
            .map(|offset| entry.addr + offset)
    }

    fn gather(&self, seg: &SimSeg<'s>, off: usize, from: &[Sge], skip: u64, len: u64) {
        seg.copy_in(off, &self.read_list(from, skip, len));
    }

    fn scatter(&self, seg: &SimSeg<'s>, off: usize, to: &[Sge], skip: u64, len: u64) {
        let mut bytes = vec![0; len as usize];
        seg.copy_out(off, &mut bytes);
        self.write_list(&bytes, to, skip);
    }

    fn put(&self, bytes: &[u8], to: &[Sge], skip: u64) {
        self.write_list(bytes, to, skip);
    }

    fn fetch(&self, from: &[Sge], skip: u64, bytes: &mut [u8]) {
        bytes.copy_from_slice(&self.read_list(from, skip, bytes.len() as u64));
    }

    fn remote_write(
        &self,
        link: &SimLink<'s>,
        to: RemoteSpan,
        from: &[Sge],
        skip: u64,
        len: u64,
    ) -> Result<(), Fault> {
        self.remote_put(link, to, &self.read_list(from, skip, len))
    }

    fn remote_put(&self, link: &SimLink<'s>, to: RemoteSpan, bytes: &[u8]) -> Result<(), Fault> {
        if let Some(fault) = self.obstacle(link, to.map_id) {
            return Err(fault);
        }
        let goes_on = || to.map_id != 0 || link.lives();
        let whole = self.write_span(to.addr, bytes, goes_on);
        if whole && link.lives() {
            Ok(())
        } else {
            Err(Fault::Gone)
        }
    }

    fn remote_read(
        &self,
        link: &SimLink<'s>,
        from: RemoteSpan,
        to: &[Sge],
        skip: u64,
        len: u64,
    ) -> Result<(), Fault> {
        if let Some(fault) = self.obstacle(link, from.map_id) {
            return Err(fault);
        }
        // two loads, so that a change of the source can fall between them
        let half = (len / 2) as usize;
        let mut bytes = vec![0; len as usize];
        let (first, second) = bytes.split_at_mut(half);
        if !first.is_empty() {
            self.app_load(from.addr, first);
        }
        self.app_load(from.addr + half as u64, second);
        if from.map_id == 0 && !link.lives() {
            return Err(Fault::Gone);
        }
        self.write_list(&bytes, to, skip);
        if link.lives() {
            Ok(())
        } else {
            Err(Fault::Gone)
        }
    }

    fn remote_atomic(&self, link: &SimLink<'s>, at: RemoteSpan, op: AtomicOp) -> Option<u64> {
        let own = link.0.slot == self.ctx.me;
        (own || at.map_id != 0).then(|| self.change_word(at.addr, op))
    }

    fn local_atomic(&self, addr: u64, op: AtomicOp) -> u64 {
        self.change_word(addr, op)
    }

    fn invalidate(&self, pd: u32, qpn: u32, rkey: u32) -> bool {
        let slot = key_index(rkey) as u32;
        let scoped = KeyEntry::read(&self.own, rkey)
            .is_some_and(|entry| entry.window && entry.pd == pd && entry.only_qp == qpn + 1);
        let is_bound = |window: &Window| window.slot == slot && window.bound == rkey;
        if !scoped || !self.windows.borrow().iter().any(is_bound) {
            return false;
        }
        KeyEntry::revoke(&self.own, slot as usize);
        let is_quiet = self.wait_for_marks(Revoked::Key(rkey));
        let mut oracle = self.ctx.world.oracle.borrow_mut();
        if !is_quiet {
            // the request fails, and the window stays bound, until its queue pair is reset
            oracle.end_revokes(qpn);
            return false;
        }
        oracle.key_is_gone(self.ctx.me, rkey);
        for window in self.windows.borrow_mut().iter_mut() {
            if is_bound(window) {
                window.bound = 0;
            }
        }
        true
    }

    fn bind(&self, pd: u32, qpn: u32, bind: &BindRequest) -> bool {
        let mut windows = self.windows.borrow_mut();
        let Some(window) = windows.iter_mut().find(|window| window.slot == bind.window) else {
            return false;
        };
        if window.bound != 0 || key_index(bind.rkey) as u32 != bind.window {
            return false;
        }
        window.bound = bind.rkey;
        drop(windows);
        let Some(region) = KeyEntry::read(&self.own, bind.lkey) else {
            return false;
        };
        let Some(offset) = region.offset_of(bind.addr, bind.length) else {
            return false;
        };
        let entry = KeyEntry {
            key: bind.rkey,
            access: bind.access,
            iova: bind.addr,
            length: bind.length,
            addr: region.addr + offset,
            pd,
            map_id: region.map_id,
            map_offset: region.map_offset + offset,
            only_qp: qpn + 1,
            window: true,
        };
        entry.write(&self.own, bind.window as usize);
        true
    }
}
