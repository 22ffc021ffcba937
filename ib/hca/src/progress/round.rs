//! Progress: draining rings, collecting answers, driving send queues, timers; by whoever polls, or
//! by the thread ([`thread`](super::thread)).

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use ferriband_memory::host::{HAND_OVER_BODY, HAND_OVER_HEAD, ProcessRef};
use ferriband_transport::direct::layout::{PROC_ASLEEP, PROC_PENDING, PROC_PENDING_SUMMARY};
use ferriband_transport::direct::{Sender, Words};

use crate::lock;
use crate::objects::catch::Catch;
use crate::process::message::HEAD_MAD;
use crate::process::polls::{NOBODY, Polls};
use crate::process::status::Status;
use crate::progress::{Engine, rest, yielding};
use crate::qp::PeerLink;
use crate::qp::adapter::Adapter;

/// Polls before the next yield if the last one found nobody: half a microsecond of looks at memory, 16 of looks at sockets.
const ALONE_POLLS: u32 = 32;
/// Polls between two looks whether the kernel gives this core to others: 25 us of looks at memory
/// in vain.
const SAMPLE_EVERY: u32 = 1024;
/// Polls that find something between two looks at the timers.
const BUSY_ROUNDS: u32 = 16;
/// Polls that find nothing between two looks at the timers: a look at the clock is a tenth of a look at a socket.
const EMPTY_ROUNDS: u32 = 4;
/// What is taken from the post box at once.
const POSTS_AT_ONCE: usize = 64;

thread_local! {
    /// The list of peers as this thread last saw it, by version; versions are unique in the process.
    static PEERS: Cell<(u64, Option<Arc<Vec<PeerLink>>>)> = const { Cell::new((0, None)) };
}

impl Engine {
    /// One round by a polling program. No system call while it goes on.
    #[inline]
    pub(crate) fn poll(&self, catch: &mut Catch<'_>) {
        // looked up once: what lies behind atomics is loaded anew each time
        let Status { polls, rests, .. } = &*self.status;
        let count = polls.count.load(Ordering::Relaxed).wrapping_add(1);
        polls.count.store(count, Ordering::Relaxed);
        if polls.empty.load(Ordering::Relaxed) == 0 && rests.inside.load(Ordering::Relaxed) {
            // It waits for events, has emptied its queue, and is about to wait: a look at sockets
            // costs more here than all else, and the wait looks at them.
            polls.empty.store(1, Ordering::Relaxed);
            return;
        }
        if self.round(true, catch) {
            polls.empty.store(0, Ordering::Relaxed);
            return;
        }
        self.polled_in_vain(polls, catch);
    }

    #[inline(never)]
    fn polled_in_vain(&self, polls: &Polls, catch: &Catch<'_>) {
        // sleeps count, too
        let count = polls.count.load(Ordering::Relaxed);
        let empty = polls.empty.load(Ordering::Relaxed).wrapping_add(1);
        polls.empty.store(empty, Ordering::Relaxed);
        if empty > polls.yield_after.load(Ordering::Relaxed) {
            self.give_way(catch);
        }
        if count.is_multiple_of(SAMPLE_EVERY) && yielding::core_is_taken() {
            self.crowd_seen();
        }
        if !polls.polling.load(Ordering::Relaxed) {
            self.maybe_take_over();
        }
    }

    /// Whoever we wait for may need this core. On a crowded machine this thread sleeps until
    /// something comes. Else it yields; if nobody took it, the next polls spin again: a program
    /// that is bound to a core of its own pays for few system calls.
    #[cold]
    fn give_way(&self, catch: &Catch<'_>) {
        if self.nap(catch) {
            return;
        }
        let yielded = yielding::yield_core();
        if yielded.crowded {
            return self.crowd_seen();
        }
        let alone = !yielded.taken;
        let limit = self.polls.spin_limit.load(Ordering::Relaxed);
        self.polls.empty.store(limit, Ordering::Relaxed);
        let spins = if alone { ALONE_POLLS } else { 0 };
        self.polls
            .yield_after
            .store(limit + spins, Ordering::Relaxed);
    }

    #[cold]
    fn maybe_take_over(&self) {
        let idle = self.polls.idle.fetch_add(1, Ordering::Relaxed);
        if idle < rest::TAKE_OVER_AFTER || self.polls.polling.swap(true, Ordering::AcqRel) {
            return;
        }
        self.process.own.store(PROC_ASLEEP, 0, Ordering::Release);
        self.adapt_spinning();
        // the thread starts its tick
        self.process.waker.signal(1);
    }

    /// The program is about to wait: the progress thread takes over at once.
    pub(crate) fn hand_over(&self) {
        let comes_back =
            self.rests.inside.load(Ordering::Relaxed) && self.polls.polling.load(Ordering::Acquire);
        if comes_back || self.rests.kind.load(Ordering::SeqCst) != NOBODY {
            // a thread of the program handles what comes, or does so in a moment; if not, the next
            // tick finds out
            return;
        }
        self.polls.idle.store(0, Ordering::Relaxed);
        // the thread left the bell and the sockets to the program
        let polled = self.polls.polling.load(Ordering::Relaxed);
        self.end_polling();
        let busy = (0..rest::HAND_OVER_ROUNDS).all(|_| self.round(true, &mut Catch::nobody()));
        if busy || polled || self.needs_thread() {
            self.process.waker.signal(1);
        }
    }

    /// No thread of the program polls any more: the progress thread takes over at once.
    pub(crate) fn leave_to_thread(&self) {
        self.end_polling();
        self.process.waker.signal(1);
    }

    /// Takes what has come, in the place of the progress thread.
    pub(crate) fn receive_all(&self) {
        self.round(true, &mut Catch::nobody());
        self.empty_post_box(&mut vec![0; HAND_OVER_HEAD + HAND_OVER_BODY]);
    }

    /// Takes what others have put into the post box, by the progress thread.
    pub(super) fn empty_post_box(&self, room: &mut [u8]) {
        let Some(post) = self.open_post_box() else {
            return;
        };
        for _ in 0..POSTS_AT_ONCE {
            let Ok(Some(came)) = post.receive(room) else {
                return;
            };
            let (head, body) = room[..came.length].split_at(HAND_OVER_HEAD);
            if head[0] != HEAD_MAD {
                if let Some(roce) = self.wires.roce.get() {
                    roce.handed(self.to(), head, body);
                }
                continue;
            }
            let Some(slot) = came.from else { continue };
            for mad in body.as_chunks().0 {
                self.manager().message(self, slot, mad);
            }
        }
    }

    /// Work that nobody will come back for unless the thread does it.
    fn needs_thread(&self) -> bool {
        self.agenda.work_count.load(Ordering::Acquire) > 0
            || self.agenda.next_timer.load(Ordering::Acquire) != u64::MAX
            || self.agenda.cm_deadline.load(Ordering::Acquire) != u64::MAX
            || self.held_until() != u64::MAX
    }

    /// When a packet that a fault holds back goes on.
    pub(super) fn held_until(&self) -> u64 {
        self.wires
            .roce
            .get()
            .map_or(u64::MAX, |roce| roce.hooks.deadline())
    }

    /// One round over everything. True if anything was done.
    pub(super) fn round(&self, long: bool, catch: &mut Catch<'_>) -> bool {
        self.round_over(true, long, catch)
    }

    /// One round over all but the sockets, unless `packets` says so.
    pub(super) fn round_over(&self, packets: bool, long: bool, catch: &mut Catch<'_>) -> bool {
        let mut worked = false;
        let adapter: &Adapter = self;
        if adapter.peers.many.load(Ordering::Relaxed) {
            self.with_peers(|peers| worked |= self.serve_pending(peers, catch));
        } else {
            for slot in &adapter.peers.watched {
                let Some(link) = slot.get() else { break };
                worked |= adapter.serve(link, catch);
            }
        }
        if packets && let Some(roce) = adapter.wires.roce.get() {
            worked |= roce.round(self.to(), catch);
        }
        if adapter.agenda.work_count.load(Ordering::Acquire) > 0 {
            let moved = self.drive_work(long);
            if moved && catch.somebody_polls() {
                adapter.agenda.polled_for.store(true, Ordering::Relaxed);
            }
            worked |= moved;
        }
        // what came is told first: reading the clock is a tenth of what a small message takes here
        let every = if worked { BUSY_ROUNDS } else { EMPTY_ROUNDS };
        let busy = catch.somebody_polls()
            && !adapter
                .polls
                .count
                .load(Ordering::Relaxed)
                .is_multiple_of(every);
        if adapter.agenda.next_timer.load(Ordering::Relaxed) != u64::MAX && !busy {
            worked |= self.fire_timers();
        }
        if adapter.agenda.cm_deadline.load(Ordering::Relaxed) != u64::MAX {
            worked |= self.connection_timer();
        }
        worked
    }

    /// The list of peers, from this thread's copy while that is current: no shared counter is touched.
    #[inline]
    pub(super) fn with_peers(&self, look: impl FnOnce(&[PeerLink])) {
        let version = self.peers.version.load(Ordering::Acquire);
        // a thread that ends, in a destructor of the program, has no copy any more
        let mut copy = PEERS.try_with(Cell::take).unwrap_or((0, None));
        if copy.0 != version {
            copy = (version, Some(self.peers.all()));
        }
        if let Some(peers) = &copy.1 {
            look(peers);
        }
        let _ = PEERS.try_with(|kept| kept.set(copy));
    }

    pub(super) fn serve_all(&self, peers: &[PeerLink]) -> bool {
        peers.iter().fold(false, |worked, link| {
            self.serve(link, &mut Catch::nobody()) | worked
        })
    }

    /// With many peers only those are looked at that have set their bit since it was last cleared. (With few, the bits
    /// stay set and cost the peers nothing.) A bit is cleared before its ring is looked at, so what comes later sets it anew.
    fn serve_pending(&self, peers: &[PeerLink], catch: &mut Catch<'_>) -> bool {
        let own = &**self.process.own;
        let mut worked = self.serve(&self.peers.own, catch);
        if Words::load(own, PROC_PENDING_SUMMARY) == 0 {
            return worked;
        }
        let mut words = Words::swap(own, PROC_PENDING_SUMMARY, 0);
        while words != 0 {
            let word = words.trailing_zeros() as usize;
            words &= words - 1;
            let mut bits = Words::swap(own, PROC_PENDING + word * 8, 0);
            while bits != 0 {
                let slot = word as u32 * 64 + bits.trailing_zeros();
                bits &= bits - 1;
                let first = peers.partition_point(|link| link.0.slot < slot);
                for link in peers[first..].iter().take_while(|link| link.0.slot == slot) {
                    worked |= self.serve(link, catch);
                    if link
                        .0
                        .channel
                        .get()
                        .is_some_and(|channel| channel.has_record() || channel.has_answers())
                    {
                        self.mark_pending(slot);
                    }
                }
            }
        }
        worked
    }

    /// Sets a peer's bit on its behalf: its ring is to be looked at.
    pub(super) fn mark_pending(&self, slot: u32) {
        let word = slot as usize / 64;
        Words::fetch_or(
            &**self.process.own,
            PROC_PENDING + word * 8,
            1 << (slot % 64),
        );
        Words::fetch_or(&**self.process.own, PROC_PENDING_SUMMARY, 1 << word);
    }

    pub(super) fn drive_work(&self, long: bool) -> bool {
        let batch = std::mem::take(&mut *lock(&self.agenda.work));
        self.agenda.work_count.store(0, Ordering::Release);
        let mut worked = false;
        for qp in batch {
            qp.scheduled.store(false, Ordering::Release);
            worked |= qp.drive(self, long);
        }
        worked
    }

    /// The connection manager's timer.
    #[cold]
    fn connection_timer(&self) -> bool {
        let due = self.agenda.cm_deadline.load(Ordering::Acquire) <= Self::now().0
            && self
                .wires
                .roce
                .get()
                .is_none_or(|roce| roce.catch_up(self.to()));
        if due {
            self.manager().due(self);
        }
        due
    }

    pub(super) fn fire_timers(&self) -> bool {
        let now = Self::now().0;
        if self.agenda.next_timer.load(Ordering::Acquire) > now {
            return false;
        }
        if let Some(roce) = self.wires.roce.get()
            && !roce.catch_up(self.to())
        {
            // nobody is late until it is known what has arrived: soon again
            return false;
        }
        let mut timers = lock(&self.agenda.timers);
        let later = timers.split_off(&(now + 1, 0));
        let due = std::mem::replace(&mut *timers, later);
        self.agenda.next_timer.store(
            timers.keys().next().map_or(u64::MAX, |(at, _)| *at),
            Ordering::Release,
        );
        drop(timers);
        let fired = !due.is_empty();
        for qp in due.into_values() {
            qp.drive(self, false);
        }
        fired
    }
}

impl Engine {
    /// The peer is gone: what it said before is heard, what waits for it will hear of it.
    pub(crate) fn lose_peer(&self, link: &PeerLink) {
        // its last stores came before the end of its connection; a record that cannot be executed now never can
        self.hear_out(link);
        if !link.0.mark_gone() {
            return;
        }
        // what we mapped of the dead would keep its memory from being freed
        link.0.drop_maps(None, || self.reaches(link));
        lock(&self.peers.map_holders).retain(|(_, holder)| !Arc::ptr_eq(&holder.0, &link.0));
        if let Some(channel) = link.0.channel.get() {
            let mut completer = lock(&channel.completer);
            let tail = lock(&channel.tx).tail();
            let mut victims = Vec::new();
            completer.completer.abandon(tail, |owner| {
                if let Some(index) = Sender::<PeerLink>::index_of_owner(owner)
                    && !victims.contains(&index)
                {
                    victims.push(index);
                }
            });
            drop(completer);
            for index in victims {
                if let Some(qp) = self.qp(index) {
                    qp.peer_died(self);
                }
            }
        }
        let mut peers = self
            .peers
            .list
            .write()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        let mut list = Vec::clone(&peers);
        list.retain(|other| !Arc::ptr_eq(&other.0, &link.0));
        *peers = Arc::new(list);
        self.peers.changed();
        drop(peers);
        let (slot, generation) = (link.0.slot, link.0.generation);
        self.manager().gone(self, ProcessRef { slot, generation });
        // whoever is blocked on the channel finds it dead now
        self.wake_senders();
    }
}
