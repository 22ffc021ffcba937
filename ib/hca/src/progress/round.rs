//! Progress: draining rings, collecting answers, driving send queues, timers; by whoever polls, or
//! by
//! the thread ([`thread`](super::thread)).

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

use arrayvec::ArrayVec;
use ferriband_memory::host::{HAND_OVER_BODY, HAND_OVER_HEAD, ProcessRef};
use ferriband_transport::direct::layout::{PROC_ASLEEP, PROC_PENDING, PROC_PENDING_SUMMARY};
use ferriband_transport::direct::{Consumer, Handled, Response, Sender, Words};

use crate::lock;
use crate::objects::cq::Catch;
use crate::process::peer::{Channel, Inbound, Outbound, PeerLink};
use crate::progress::{Engine, rest, yielding};
use crate::qp::{Outcome, Qp};

/// Records taken from one ring before others have their turn.
const DRAIN_BUDGET: usize = 64;
/// Yields of a collecting thread that waits for an executing one.
const BOUNDED_WAIT_SPINS: usize = 1000;
/// Completions held back until their records are acknowledged.
const BATCH: usize = 16;
/// Answers collected at a time.
const COLLECT_BUDGET: usize = 64;
/// Polls before the next yield if the last one found nobody: half a microsecond of looks at memory, 16 of looks at sockets.
const ALONE_POLLS: u32 = 32;
/// Polls between two looks whether the kernel gives this core to others: 25 us of looks at memory
/// in vain.
const SAMPLE_EVERY: u32 = 1024;
/// Turns at a dead peer's rings; each takes up to 64 records of each, or waits for another thread's turn.
const LAST_WORDS_TURNS: usize = 10_000;
/// Polls that find something between two looks at the timers.
const BUSY_ROUNDS: u32 = 16;
/// Polls that find nothing between two looks at the timers: a look at the clock is a tenth of a look at a socket.
const EMPTY_ROUNDS: u32 = 4;
/// Turns at one ring before the next.
const SERVE_ROUNDS: usize = 4;
/// Bytes of a long transfer moved in one step while others wait.
const PULL_CHUNK: u64 = 256 << 10;

/// What one turn at a ring did.
enum Turn {
    /// Another thread has it.
    Busy,
    /// This many records.
    Done(usize),
    /// A long transfer goes on.
    More,
}

thread_local! {
    /// This is the progress thread.
    pub(super) static ON_THREAD: Cell<bool> = const { Cell::new(false) };
    /// This thread is inside a ring's consumer: it must not wait for itself.
    static DRAINING: Cell<bool> = const { Cell::new(false) };
    /// This thread holds a ring's completer.
    static COLLECTING: Cell<bool> = const { Cell::new(false) };
    /// The list of peers as this thread last saw it, by version; versions are unique in the process.
    static PEERS: Cell<(u64, Option<Arc<Vec<PeerLink>>>)> = const { Cell::new((0, None)) };
}

impl Engine {
    /// One round by a polling program. No system call while it goes on.
    #[inline]
    pub(crate) fn poll(&self, catch: &mut Catch<'_>) {
        let polls = self.polls.count.load(Ordering::Relaxed).wrapping_add(1);
        self.polls.count.store(polls, Ordering::Relaxed);
        let before = self.polls.empty.load(Ordering::Relaxed);
        if before == 0 && self.rests.inside.load(Ordering::Relaxed) {
            // It waits for events, has emptied its queue, and is about to wait: a look at sockets
            // costs more here than all else, and the wait looks at them.
            self.polls.empty.store(1, Ordering::Relaxed);
            return;
        }
        if self.round(true, catch) {
            self.polls.empty.store(0, Ordering::Relaxed);
            return;
        }
        let empty = before.wrapping_add(1);
        self.polls.empty.store(empty, Ordering::Relaxed);
        if empty > self.polls.yield_after.load(Ordering::Relaxed) {
            self.give_way(catch);
        }
        if polls.is_multiple_of(SAMPLE_EVERY) && yielding::core_is_taken() {
            self.crowd_seen();
        }
        if !self.polls.polling.load(Ordering::Relaxed) {
            self.maybe_take_over();
        }
    }

    /// A program took a completion that was queued: its polls are not in vain.
    #[inline]
    pub(crate) fn found(&self) {
        self.polls.empty.store(0, Ordering::Relaxed);
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
        if comes_back || self.rests.kind.load(Ordering::SeqCst) != rest::NOBODY {
            // a thread of the program handles what comes, or does so in a moment; if not, the next
            // tick finds out
            return;
        }
        self.polls.idle.store(0, Ordering::Relaxed);
        // the thread left the bell and the sockets to the program
        let polled = self.polls.polling.load(Ordering::Relaxed);
        self.end_polling();
        self.send_tails();
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
        if self.peers.many.load(Ordering::Relaxed) {
            self.with_peers(|peers| worked |= self.serve_pending(peers, catch));
        } else {
            for slot in &self.peers.watched {
                let Some(link) = slot.get() else { break };
                worked |= self.serve(link, catch);
            }
        }
        if packets && let Some(roce) = self.wires.roce.get() {
            worked |= roce.round(self, catch);
        }
        if self.agenda.work_count.load(Ordering::Acquire) > 0 {
            let moved = self.drive_work(long);
            if moved && catch.somebody_polls() {
                self.agenda.polled_for.store(true, Ordering::Relaxed);
            }
            worked |= moved;
        }
        if self.progress.tails.are_due(worked, catch.somebody_polls()) {
            worked |= self.send_tails();
        }
        // what came is told first: reading the clock is a tenth of what a small message takes here
        let every = if worked { BUSY_ROUNDS } else { EMPTY_ROUNDS };
        let busy = catch.somebody_polls()
            && !self
                .polls
                .count
                .load(Ordering::Relaxed)
                .is_multiple_of(every);
        if self.agenda.next_timer.load(Ordering::Relaxed) != u64::MAX && !busy {
            worked |= self.fire_timers();
        }
        if self.agenda.cm_deadline.load(Ordering::Relaxed) != u64::MAX {
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
            copy = (version, Some(self.peer_list()));
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

    /// Rings to and from one peer.
    #[inline]
    fn serve(&self, link: &PeerLink, catch: &mut Catch<'_>) -> bool {
        let Some(channel) = link.0.channel.get() else {
            return false;
        };
        link.0.ring_owed(channel);
        let mut worked = false;
        // Whoever finds the lock taken leaves the work to its holder, so the holder looks again after giving it up.
        for _ in 0..SERVE_ROUNDS {
            if !channel.has_record() {
                break;
            }
            match self.drain(link, catch) {
                Turn::Busy => break,
                Turn::Done(count) => worked |= count > 0,
                Turn::More => return self.leave_rest(),
            }
            self.settle();
        }
        for _ in 0..SERVE_ROUNDS {
            if !channel.has_answers() {
                break;
            }
            match self.collect(link, catch) {
                Turn::Busy => break,
                Turn::Done(count) => worked |= count > 0,
                Turn::More => return self.leave_rest(),
            }
            self.settle();
        }
        if worked && (channel.has_record() || channel.has_answers()) {
            return self.leave_rest();
        }
        worked
    }

    /// Orders giving a lock up before the look at what others left because of it. While a program polls it comes back anyway.
    #[inline]
    fn settle(&self) {
        if !self.polls.polling.load(Ordering::Acquire) {
            fence(Ordering::SeqCst);
        }
    }

    /// More is there than one turn does. A program that waits without polling must not be the only one to know.
    #[cold]
    fn leave_rest(&self) -> bool {
        if !self.polls.polling.load(Ordering::Acquire) && !ON_THREAD.get() {
            self.process.waker.signal(1);
        }
        true
    }

    /// Executes records of a peer.
    fn drain(&self, link: &PeerLink, catch: &mut Catch<'_>) -> Turn {
        let Some(channel) = link.0.channel.get() else {
            return Turn::Busy;
        };
        let Some(mut inbound) = channel.rx.try_lock() else {
            return Turn::Busy;
        };
        let Inbound { consumer: rx, last } = &mut *inbound;
        DRAINING.set(true);
        let pair = &**channel.pair;
        let (mut count, mut more) = (0, false);
        let mut told = ArrayVec::<Outcome, BATCH>::new();
        let version = self.table.version.load(Ordering::Acquire);
        if last
            .as_ref()
            .is_some_and(|(found_in, _)| *found_in != version)
        {
            *last = None;
        }
        while count < DRAIN_BUDGET {
            let Some(record) = rx.peek(pair) else { break };
            count += 1;
            let Ok(record) = record else {
                // an unknown record: skip it, the sender hears of it
                rx.answer(pair, Response::InvalidRequest);
                continue;
            };
            if last.as_ref().is_none_or(|(_, qp)| qp.qpn != record.dst_qpn) {
                // what is told refers to the queue pair at hand
                self.acknowledge(link, channel, rx, last, &mut told, catch);
                *last = self.qp_by_number(record.dst_qpn).map(|qp| (version, qp));
            }
            let (handled, outcome) = match last {
                Some((_, qp)) => {
                    let (handled, outcome) = qp.receive(self, link, rx, &record, PULL_CHUNK);
                    (handled, Some(outcome))
                }
                None => self.receive_extended(link, rx, &record, PULL_CHUNK),
            };
            match handled {
                Handled::Answer(response) => rx.answer(pair, response),
                Handled::Value(value) => rx.answer_value(pair, value),
                Handled::More => {
                    more = true;
                    break;
                }
            }
            if let Some(outcome) = outcome
                && outcome.tells()
            {
                told.push(outcome);
                if told.is_full() {
                    self.acknowledge(link, channel, rx, last, &mut told, catch);
                }
            }
        }
        self.acknowledge(link, channel, rx, last, &mut told, catch);
        DRAINING.set(false);
        if more { Turn::More } else { Turn::Done(count) }
    }

    /// Acknowledges what was executed, then tells the program of it. In this order a peer's program never hears of a
    /// reply before its own send has completed: the reply cannot be posted before the acknowledgement is visible, and
    /// answers are collected here before the reply's completion is queued. Adapters behave so, and programs that share
    /// one event channel for both queues depend on it (perftest does).
    fn acknowledge(
        &self,
        link: &PeerLink,
        channel: &Channel,
        rx: &mut Consumer,
        qp: &Option<(u64, Arc<Qp>)>,
        told: &mut ArrayVec<Outcome, BATCH>,
        catch: &mut Catch<'_>,
    ) {
        let news = rx.unacknowledged();
        rx.acknowledge(&**channel.pair);
        channel.note_position(rx);
        if channel.has_answers() {
            self.collect_locked(channel, &mut lock(&channel.completer), catch);
        }
        // looked at where they lie: what is copied now waits behind the head's store, whose line the peer is looking at
        for outcome in told.iter() {
            outcome.deliver(self, qp.as_ref().map(|(_, qp)| qp), catch);
        }
        told.clear();
        if news && self.polls.polling.load(Ordering::Relaxed) {
            link.0.ring_later(channel);
        } else if news {
            link.0.ring(channel);
        }
    }

    /// Waits until a record of the peer that is being executed now is done, unless this thread executes it. A thread that
    /// collects answers must not wait for long: the executing thread may be waiting for it.
    pub(crate) fn wait_for_records(&self, channel: &Channel) {
        if DRAINING.get() {
            return;
        }
        if !COLLECTING.get() {
            drop(lock(&channel.rx));
            return;
        }
        for _ in 0..BOUNDED_WAIT_SPINS {
            if channel.rx.try_lock().is_some() {
                return;
            }
            std::thread::yield_now();
        }
    }

    /// Collects a peer's answers.
    fn collect(&self, link: &PeerLink, catch: &mut Catch<'_>) -> Turn {
        let Some(channel) = link.0.channel.get() else {
            return Turn::Busy;
        };
        let Some(mut completer) = channel.completer.try_lock() else {
            return Turn::Busy;
        };
        Turn::Done(self.collect_locked(channel, &mut completer, catch))
    }

    fn collect_locked(
        &self,
        channel: &Channel,
        outbound: &mut Outbound,
        catch: &mut Catch<'_>,
    ) -> usize {
        COLLECTING.set(true);
        let Outbound { completer, last } = outbound;
        let tail = channel.tx_shared.published();
        let version = self.table.version.load(Ordering::Acquire);
        if last
            .as_ref()
            .is_some_and(|(found_in, _)| *found_in != version)
        {
            *last = None;
        }
        let mut wants = false;
        let collected = completer.collect(&**channel.pair, tail, COLLECT_BUDGET, |answer| {
            let Some(index) = Sender::<PeerLink>::index_of_owner(answer.owner) else {
                return;
            };
            if last.as_ref().is_none_or(|(_, qp)| qp.index != index) {
                if let Some((_, qp)) = last.take()
                    && wants
                {
                    self.schedule(&qp);
                }
                wants = false;
                *last = self.qp(index).map(|qp| (version, qp));
            }
            if let Some((_, qp)) = last {
                wants = qp.answered(self, &channel.pair, answer, catch);
            }
        });
        if wants && let Some((_, qp)) = last {
            qp.drive(self, false);
        }
        COLLECTING.set(false);
        collected
    }

    /// Puts a queue pair on the list of those to be driven.
    pub(crate) fn schedule(&self, qp: &Arc<Qp>) {
        if qp.scheduled.swap(true, Ordering::AcqRel) {
            return;
        }
        let mut work = lock(&self.agenda.work);
        work.push(qp.clone());
        self.agenda.work_count.store(work.len(), Ordering::Release);
    }

    /// Wakes the thread for work that a posting program leaves behind: always for a long transfer, otherwise if it sleeps.
    pub(crate) fn kick(&self, long_transfer: bool) {
        if long_transfer
            && self.agenda.polled_for.load(Ordering::Relaxed)
            && self.polls.polling.load(Ordering::Acquire)
        {
            // the program moved its last long transfer itself; if it does not this time, the thread's tick finds out
            return;
        }
        let wake = if long_transfer {
            // the work is on its list before the thread is found to know of it
            fence(Ordering::SeqCst);
            !self.agenda.assisting.swap(true, Ordering::AcqRel)
        } else {
            self.process.own.load(PROC_ASLEEP, Ordering::Acquire) != 0
        };
        match wake {
            true if long_transfer => self.process.waker.signal(1),
            true => self.process.bell.signal(1),
            false => {}
        }
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

    /// A queue pair keeps the end of a message back for the next: for how long,
    /// [`tails`](crate::progress::tails) says.
    pub(crate) fn keep_tail(&self, qp: &Arc<Qp>, fresh: bool) {
        if self.progress.tails.keep(qp, fresh) {
            self.process.waker.signal(1);
        }
    }

    /// How often the program has looked for completions.
    pub(crate) fn looks(&self) -> u32 {
        self.polls.count.load(Ordering::Relaxed)
    }

    /// What was kept back goes. True if anything was.
    pub(super) fn send_tails(&self) -> bool {
        let mut sent = false;
        for qp in self.progress.tails.take() {
            sent |= qp.send_tail(self);
        }
        sent
    }

    /// Drives a queue pair again at a time.
    pub(crate) fn set_timer(&self, qp: &Arc<Qp>, at: u64) {
        let mut timers = lock(&self.agenda.timers);
        timers.insert((at, qp.index), qp.clone());
        let first = timers.keys().next().map_or(u64::MAX, |(at, _)| *at);
        let before = self.agenda.next_timer.swap(first, Ordering::AcqRel);
        drop(timers);
        if first < before {
            self.kick(false);
        }
    }

    /// The connection manager's timer.
    #[cold]
    fn connection_timer(&self) -> bool {
        let due = self.agenda.cm_deadline.load(Ordering::Acquire) <= Self::now().0
            && self.wires.roce.get().is_none_or(|roce| roce.catch_up(self));
        if due && let Some(cm) = self.used_cm() {
            cm.tick(self);
        }
        due
    }

    pub(super) fn fire_timers(&self) -> bool {
        let now = Self::now().0;
        if self.agenda.next_timer.load(Ordering::Acquire) > now {
            return false;
        }
        if let Some(roce) = self.wires.roce.get()
            && !roce.catch_up(self)
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
    /// Executes what a peer has published so far, and collects its answers.
    pub(crate) fn hear_out(&self, link: &PeerLink) {
        let Some(channel) = link.0.channel.get() else {
            return;
        };
        for _ in 0..LAST_WORDS_TURNS {
            if !channel.has_record() && !channel.has_answers() {
                return;
            }
            self.serve(link, &mut Catch::nobody());
        }
    }

    /// The peer is gone: what it said before is heard, what waits for it will hear of it.
    pub(crate) fn bury(&self, link: &PeerLink) {
        // its last stores came before the end of its connection; a record that cannot be executed now never can
        self.hear_out(link);
        if !link.0.bury() {
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
        self.peers_changed();
        drop(peers);
        if let Some(cm) = self.used_cm() {
            let (slot, generation) = (link.0.slot, link.0.generation);
            cm.process_gone(self, ProcessRef { slot, generation });
        }
        // whoever is blocked on the channel finds it dead now
        self.wake_senders();
    }
}
