//! The channel to one peer process: its tables, the two rings, its memory.
//!
//! Owns what both processes share and the in-process ends of it. Must not know queue pairs.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use ferriband_memory::alive::AliveWord;
use ferriband_memory::host::Control;
use ferriband_memory::mapping::PeerMapping;
use ferriband_memory::remote::RemoteProcess;
use ferriband_memory::wait::EventFd;
use ferriband_memory::{Segment, Span};
use ferriband_transport::direct::layout::{
    PROC_ALIVE, PROC_ASLEEP, PROC_PENDING, PROC_PENDING_SUMMARY, ring_offset,
};
use ferriband_transport::direct::{Completer, Consumer, Link, Producer, TxShared, Words};

use crate::{FastGuard, FastMutex, lock};

/// Mappings of a peer's regions that are kept; regions beyond it are reached without.
pub const MAX_MAPS: usize = 256;

/// How long unmapping waits for accesses of other threads.
const UNMAP_WAIT: Duration = Duration::from_millis(50);

/// A peer's region as mapped here.
#[derive(Debug, Default)]
struct MapSlot {
    /// Address of the mapping's file offset 0, so to say: add the offset in the file.
    base: AtomicU64,
    first: AtomicU64,
    end: AtomicU64,
}

/// The receiving end of a ring, and the queue pair, a `Q`, that its last record was for, with the
/// version of the table in which it was found.
#[derive(Debug)]
pub(crate) struct Inbound<Q> {
    pub(crate) consumer: Consumer,
    pub(crate) last: Option<(u64, Arc<Q>)>,
}

/// The end of a ring that collects answers, and the queue pair of the last one, with the version of
/// the table in which it was found.
#[derive(Debug)]
pub(crate) struct Outbound<Q> {
    pub(crate) completer: Completer,
    pub(crate) last: Option<(u64, Arc<Q>)>,
}

/// What exists once the channel is established.
#[derive(Debug)]
pub struct Channel<Q> {
    pub(crate) table: Arc<Segment>,
    pub(crate) pair: Arc<Segment>,
    pub(crate) tx: FastMutex<Producer>,
    pub(crate) tx_shared: Arc<TxShared>,
    out: usize,
    inward: usize,
    /// Mirrors the consumer's position, for a look without its lock.
    rx_pos: AtomicU64,
    /// An acknowledgement was published whose peer was not yet looked at for sleeping.
    owes_ring: AtomicBool,
    pub(crate) completer: FastMutex<Outbound<Q>>,
    pub(crate) rx: FastMutex<Inbound<Q>>,
    /// The peer's private memory, if the system lets us reach it.
    pub(crate) remote: Option<RemoteProcess>,
}

impl<Q> Channel<Q> {
    /// True when the peer has published a record that was not executed.
    #[inline]
    pub(crate) fn has_record(&self) -> bool {
        Consumer::waits(
            &**self.pair,
            self.inward,
            self.rx_pos.load(Ordering::Relaxed),
        )
    }

    /// True when the peer has answered something that was not collected.
    #[inline]
    pub(crate) fn has_answers(&self) -> bool {
        Completer::waits(&**self.pair, self.out, self.tx_shared.reclaimed())
    }

    /// To be called with the consumer's lock held, after records were taken.
    pub(crate) fn note_position(&self, rx: &Consumer) {
        self.rx_pos.store(rx.position(), Ordering::Relaxed);
    }
}

/// A peer process.
#[derive(Debug)]
pub struct Peer<Q> {
    pub(crate) slot: u32,
    pub(crate) own_slot: u32,
    pub(crate) generation: u32,
    /// Its process number, as it was when it became known; 0 if it had gone by then.
    pub(crate) pid: u32,
    pub(crate) channel: OnceLock<Channel<Q>>,
    /// The peer sees this process's marks, so this process may reach the peer's memory.
    open: AtomicBool,
    dead: AtomicBool,
    pub(crate) control: Mutex<Option<Arc<Control>>>,
    /// The pair segment of an offer that waits for its welcome.
    pub(crate) offered: Mutex<Option<Arc<Segment>>>,
    /// Wakes whoever looks for records in the peer: there from the greeting on.
    bell: OnceLock<Arc<EventFd>>,
    maps: Box<[MapSlot]>,
    kept_maps: Mutex<Vec<(u32, PeerMapping)>>,
    pub(crate) wanted_maps: Mutex<Vec<u32>>,
}

/// A counted reference to a peer.
#[derive(Debug)]
pub struct PeerLink<Q>(pub(crate) Arc<Peer<Q>>);

impl<Q> Clone for PeerLink<Q> {
    fn clone(&self) -> Self {
        PeerLink(self.0.clone())
    }
}

impl<Q> Peer<Q> {
    pub(crate) fn new(own_slot: u32, slot: u32, generation: u32, pid: u32) -> Self {
        Peer {
            slot,
            own_slot,
            generation,
            pid,
            channel: OnceLock::new(),
            open: AtomicBool::new(slot == own_slot),
            dead: AtomicBool::new(false),
            control: Mutex::new(None),
            offered: Mutex::new(None),
            bell: OnceLock::new(),
            maps: (0..MAX_MAPS).map(|_| MapSlot::default()).collect(),
            kept_maps: Mutex::new(Vec::new()),
            wanted_maps: Mutex::new(Vec::new()),
        }
    }

    /// True for the process's channel to itself.
    pub fn is_self(&self) -> bool {
        self.slot == self.own_slot
    }

    /// Establishes the channel over segments that both have: the peer's marks are seen from now on.
    /// It is used when the peer has said the same ([`Peer::open`]).
    pub(crate) fn establish(
        &self,
        table: Arc<Segment>,
        pair: Arc<Segment>,
        bell: Arc<EventFd>,
        remote: Option<RemoteProcess>,
    ) -> bool {
        let _ = self.bell.set(bell);
        let tx_shared = TxShared::new();
        let out = ring_offset(self.own_slot, self.slot);
        let inward = ring_offset(self.slot, self.own_slot);
        self.channel
            .set(Channel {
                tx: FastMutex::new(Producer::new(out, tx_shared.clone())),
                completer: FastMutex::new(Outbound {
                    completer: Completer::new(out, tx_shared.clone()),
                    last: None,
                }),
                rx: FastMutex::new(Inbound {
                    consumer: Consumer::new(inward),
                    last: None,
                }),
                tx_shared,
                out,
                inward,
                rx_pos: AtomicU64::new(0),
                owes_ring: AtomicBool::new(false),
                table,
                pair,
                remote,
            })
            .is_ok()
    }

    /// The peer has the channel too: it may be used.
    pub(crate) fn open(&self) {
        self.open.store(true, Ordering::Release);
    }

    /// Marks the peer as gone. True the first time.
    pub(crate) fn mark_gone(&self) -> bool {
        !self.dead.swap(true, Ordering::AcqRel)
    }

    /// True while the peer's process lives, as the kernel tells.
    #[inline]
    pub(crate) fn lives(&self) -> bool {
        if self.dead.load(Ordering::Acquire) {
            return false;
        }
        self.is_self()
            || self
                .channel
                .get()
                .is_none_or(|channel| AliveWord::is_alive(&channel.table, PROC_ALIVE))
    }

    /// Process address at which a place in a peer's file is mapped here.
    #[inline]
    pub(crate) fn mapped(&self, map_id: u32, offset: u64, length: u64) -> Option<u64> {
        let slot = self.maps.get(map_id as usize)?;
        let base = slot.base.load(Ordering::Acquire);
        let inside = offset >= slot.first.load(Ordering::Relaxed)
            && offset.checked_add(length)? <= slot.end.load(Ordering::Relaxed);
        (base != 0 && inside).then(|| base.wrapping_add(offset))
    }

    /// Takes over a mapping of the peer's file from offset `first`.
    pub(crate) fn add_map(&self, map_id: u32, first: u64, mapping: PeerMapping) {
        if let Some(slot) = self.maps.get(map_id as usize) {
            slot.first.store(first, Ordering::Relaxed);
            slot.end
                .store(first + mapping.range_len() as u64, Ordering::Relaxed);
            slot.base
                .store(mapping.addr().wrapping_sub(first), Ordering::Release);
            lock(&self.kept_maps).push((map_id, mapping));
        }
    }

    /// Unmaps the peer's memory: all of it, or that under one identifier. `in_use` tells whether a
    /// thread of ours is in the middle of an access to the peer; while one is for too long, the
    /// memory stays mapped until the peer goes.
    pub(crate) fn drop_maps(&self, only: Option<u32>, in_use: impl Fn() -> bool) {
        let named = |id: u32| only.is_none_or(|only| only == id);
        let mut kept = lock(&self.kept_maps);
        for (id, _) in kept.iter().filter(|(id, _)| named(*id)) {
            self.maps[*id as usize].base.store(0, Ordering::SeqCst);
        }
        // an access publishes its mark, fences, then looks for the mapping: one of the two sees the
        // other
        fence(Ordering::SeqCst);
        let deadline = Instant::now() + UNMAP_WAIT;
        while in_use() {
            if Instant::now() > deadline {
                return;
            }
            std::hint::spin_loop();
        }
        kept.retain(|(id, _)| !named(*id));
    }

    /// Asks the progress thread to have a region of the peer mapped; at most once for each.
    #[cold]
    pub(crate) fn want_map(&self, map_id: u32) {
        if map_id as usize >= MAX_MAPS {
            return;
        }
        let mut wanted = lock(&self.wanted_maps);
        if !wanted.contains(&map_id) {
            wanted.push(map_id);
            if let Some(control) = lock(&self.control).as_ref() {
                let mut message = [0; 8];
                message[0] = crate::process::message::MSG_MAP_REQUEST;
                message[4..].copy_from_slice(&map_id.to_le_bytes());
                let _ = control.send(&message, &[]);
            }
        }
    }

    /// As [`Peer::ring`], but at the next occasion: its fence would wait for the acknowledgement's
    /// cache line while the program waits for its completion. Only while somebody polls, who comes
    /// back.
    #[inline]
    pub(crate) fn ring_later(&self, channel: &Channel<Q>) {
        channel.owes_ring.store(true, Ordering::Release);
    }

    /// Makes up for [`Peer::ring_later`].
    #[inline]
    pub(crate) fn ring_owed(&self, channel: &Channel<Q>) {
        if channel.owes_ring.load(Ordering::Relaxed) {
            self.ring(channel);
        }
    }

    /// Tells the peer that a record or an answer waits, and wakes it if nobody there looks.
    #[inline]
    pub(crate) fn ring(&self, channel: &Channel<Q>) {
        // first, so that an acknowledgement published meanwhile is owed anew
        if channel.owes_ring.load(Ordering::Acquire) {
            channel.owes_ring.store(false, Ordering::Release);
        }
        fence(Ordering::SeqCst);
        let table = &**channel.table;
        if !self.is_self() {
            let (word, bit) = (self.own_slot as usize / 64, 1u64 << (self.own_slot % 64));
            if Words::load(table, PROC_PENDING + word * 8) & bit == 0 {
                Words::fetch_or(table, PROC_PENDING + word * 8, bit);
                Words::fetch_or(table, PROC_PENDING_SUMMARY, 1 << word);
            }
        }
        if Words::load(table, PROC_ASLEEP) != 0 {
            self.wake();
        }
    }

    #[cold]
    fn wake(&self) {
        if let Some(bell) = self.bell.get() {
            bell.signal(1);
        }
    }
}

impl<Q: 'static> Link for PeerLink<Q> {
    type Seg = Span;
    type Tx<'a> = FastGuard<'a, Producer>;

    #[inline]
    fn ready(&self) -> bool {
        self.0.open.load(Ordering::Acquire)
    }

    #[inline]
    fn dead(&self) -> bool {
        self.0.dead.load(Ordering::Acquire)
    }

    #[inline]
    fn slot(&self) -> u32 {
        self.0.slot
    }

    #[inline]
    fn table(&self) -> &Span {
        &self.0.channel().table
    }

    #[inline]
    fn pair(&self) -> &Span {
        &self.0.channel().pair
    }

    #[inline]
    fn tx(&self) -> FastGuard<'_, Producer> {
        lock(&self.0.channel().tx)
    }

    #[inline]
    fn ring_doorbell(&self) {
        self.0.ring(self.0.channel());
    }

    #[inline]
    fn reachable(&self) -> bool {
        self.0.is_self() || self.0.channel().remote.is_some()
    }
}

impl<Q> Peer<Q> {
    /// The established channel. The machine asks `ready` first.
    #[inline]
    fn channel(&self) -> &Channel<Q> {
        self.channel
            .get()
            .expect("the machine uses a link only after it is ready")
    }
}
