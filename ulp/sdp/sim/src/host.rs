//! A fiber's access to the world: [`Memory`] and [`Kernel`], each call a step.
//!
//! Owns: what a step is, and the faults that are planted in it. Must not know: what the machines
//! make of it.

use std::ops::Deref;

use corosensei::Yielder;

use crate::memory::{At, Store, Tag, direction, name, own, place};
use crate::tcp::EAGAIN;
use crate::world::{BOUND, RUNG, Role, Sleep, World};
use crate::{Law, Plant};
use ferriband_sdp_local::{Errno, Kernel, Memory, Own, Shared, Way, Word};
use ferriband_sdp_proto::change::Phase;

/// The want of who waits for room that this side makes.
const THEIR_ROOM: Word = Word::Shared(Way::In, Shared::WantRoom);
/// Bytes that are copied in one step.
const PIECE: u64 = 64;

pub(crate) struct Host<'y> {
    pub world: &'y World,
    pub yielder: &'y Yielder<(), ()>,
    pub me: usize,
    pub side: usize,
}

impl Deref for Host<'_> {
    type Target = World;

    fn deref(&self) -> &World {
        self.world
    }
}

impl Host<'_> {
    /// Others may go on here, and this fiber may be killed. False if it is dead: it only unwinds.
    fn step(&self) -> bool {
        let fate = &self.fates[self.me];
        if fate.dead.get() {
            return false;
        }
        let clock = self.clock.get() + 1;
        self.clock.set(clock);
        match self.turn.get() {
            0 => self.yielder.suspend(()),
            left => self.turn.set(left - 1),
        }
        true
    }

    /// A step that shows all stores of before.
    fn locked_step(&self) -> bool {
        let lives = self.step();
        if lives {
            self.drain(self.me);
            self.count_locked(self.me);
        }
        lives
    }

    fn note_step(&self, line: impl FnOnce() -> String) {
        self.note(|| {
            let fate = &self.fates[self.me];
            format!("f{} (side {}): {}", self.me, fate.side, line())
        });
    }

    /// Sleeps in the kernel.
    pub fn wait(&self, sleep: Sleep) {
        if !self.locked_step() {
            return;
        }
        self.note_step(|| format!("sleeps: {sleep:?}"));
        self.fates[self.me].sleep.set(Some(sleep));
        self.stats.borrow_mut().sleeps += 1;
        self.yielder.suspend(());
        self.fates[self.me].sleep.set(None);
    }

    /// Does something else for a while.
    pub fn pause(&self, steps: u64) {
        self.wait(Sleep::Until(self.clock.get() + steps));
    }

    /// Waits for news of the connection, and takes them; for so many steps at most. `want` is what
    /// was set for it.
    pub fn wait_news(&self, want: Option<Word>, steps: u64) -> u8 {
        if self.fates[self.me].role == Role::Service {
            self.check_idle(self.me);
        }
        let want = want.map(|word| place(self.side, word));
        let until = self.clock.get().saturating_add(steps);
        self.wait(Sleep::News(want, until));
        self.fates[self.me].news.take()
    }

    /// The thread may lose its core: between a look that has found nothing and the want, or between
    /// the want and the sleep.
    fn preempt(&self) {
        if self.preemptions > 0 && self.chance(self.preemptions) && self.locked_step() {
            let until = self.clock.get() + self.below(LONGEST_PREEMPTION);
            self.fates[self.me].stalled_until.set(until);
            self.yielder.suspend(());
        }
    }

    pub fn below(&self, bound: u64) -> u64 {
        self.rng.borrow_mut().below(bound)
    }

    pub fn chance(&self, per_cent: u64) -> bool {
        self.rng.borrow_mut().chance(per_cent)
    }

    fn load_at(&self, at: At) -> u64 {
        self.step();
        let value = self.memory.borrow().view(self.me, at);
        self.note_step(|| format!("{} is {value}", name(at)));
        value
    }

    fn store_at(&self, at: At, value: u64) {
        if !self.step() {
            return;
        }
        self.note_step(|| format!("{} := {value}", name(at)));
        let mut memory = self.memory.borrow_mut();
        memory.buffer(self.me, Store::Word(at, value));
        let full = memory.is_full(self.me);
        drop(memory);
        if full {
            self.drain_one(self.me);
        }
    }

    fn change(&self, at: At, change: impl FnOnce(u64) -> Option<u64>) -> u64 {
        if !self.locked_step() {
            return 0;
        }
        let before = self.memory.borrow().word(at);
        let after = change(before);
        self.note_step(|| format!("{} {before} -> {after:?}", name(at)));
        if let Some(after) = after {
            self.memory.borrow_mut().set_word(at, after);
            self.became(at, after);
        }
        before
    }

    fn view(&self, at: At) -> u64 {
        self.memory.borrow().view(self.me, at)
    }

    /// send(2), which does not wait. What the kernel has taken went by TCP, so it must be TCP's
    /// turn.
    pub fn tcp_send(&self, tags: &[Tag], copy: bool) -> Result<u64, Errno> {
        if !self.locked_step() {
            return Err(EAGAIN);
        }
        let mut tcp = self.tcp.borrow_mut();
        let sent = tcp.send(&mut self.rng.borrow_mut(), self.side, tags);
        drop(tcp);
        self.note_step(|| format!("sends {} by TCP: {sent:?}", tags.len()));
        if let Ok(bytes) = sent {
            let phase = self.phase(self.side);
            if phase == Phase::Sdp as u64 || (phase == Phase::Back as u64) != copy {
                self.fail(
                    Law::Offset,
                    format!("{bytes} bytes by TCP in phase {phase}"),
                );
            }
            self.mark_sent(&tags[..bytes as usize]);
        }
        if !copy {
            self.hear(sent.err());
        }
        sent
    }

    /// recv(2), which does not wait.
    pub fn tcp_receive(&self, sink: &mut Vec<Tag>, to: u64, most: u64) -> Result<u64, Errno> {
        if !self.locked_step() {
            return Err(EAGAIN);
        }
        let received = self.tcp.borrow_mut().receive(self.side, most);
        self.note_step(|| {
            let bytes = received.as_ref().map(Vec::len);
            format!("receives {most} by TCP: {bytes:?}")
        });
        self.hear(received.as_ref().err().copied());
        let tags = received?;
        self.hold(sink, to, &tags);
        self.stats.borrow_mut().tcp_bytes += tags.len() as u64;
        Ok(tags.len() as u64)
    }

    /// A call of the program's has the kernel's error.
    fn hear(&self, error: Option<Errno>) {
        if error.is_some_and(|error| error != EAGAIN) {
            self.told_error[self.side].set(true);
        }
    }

    /// SO_ERROR of the kernel's.
    pub fn hear_error(&self) {
        if self.locked_step() {
            let error = self.tcp.borrow_mut().take_error(self.side);
            self.hear(error);
        }
    }

    fn mark_sent(&self, tags: &[Tag]) {
        self.happened();
        let sent = self.oracle.borrow_mut().sent(tags);
        if let Err(what) = sent {
            self.fail(Law::Stream, what);
        }
    }

    fn hold(&self, sink: &mut Vec<Tag>, to: u64, tags: &[Tag]) {
        self.happened();
        sink.truncate(to as usize);
        sink.extend(tags);
        let held = self.oracle.borrow_mut().held(self.me, tags);
        if let Err(what) = held {
            self.fail(Law::Stream, what);
        }
    }

    /// What poll(2) says, or the peer's death: the peer has ended, the connection is over. The end
    /// of one that has died waits behind what fills this side's queue, so its death is told apart.
    pub fn kernel_ends(&self) -> (bool, bool) {
        self.step();
        let (ended, over) = self.tcp.borrow().ends(self.side);
        (ended || self.died[1 - self.side].get(), over)
    }

    pub fn shut_down(&self) {
        if self.locked_step() {
            self.note_step(|| "shuts down".into());
            self.tcp.borrow_mut().shut_down(self.side);
        }
    }

    /// Whoever waits for room is not woken for a few bytes.
    fn check_roomy(&self) {
        let head = self.fates[self.me].seen_head.get();
        let tail = self.view(own(self.side, Own::FromSdp));
        if head >= tail && !self.is_roomy(1 - self.side, head, tail) {
            let held = head - tail;
            self.fail(
                Law::Idle,
                format!("a writer is woken, and {held} bytes are unread"),
            );
        }
    }

    /// An error that the program is told, or will be, is the kernel's, or the peer has left
    /// something unread.
    fn check_reset(&self) {
        let of_kernel = self.tcp.borrow().was_reset;
        let all_read = !self.oracle.borrow().has_unread(self.of_side(self.side));
        if !of_kernel && all_read {
            self.fail(Law::Errno, "a reset, and the peer had read all there was");
        }
    }

    fn lie(&self, word: Word, value: u64) -> u64 {
        let way = |word| Word::Shared(Way::Out, word);
        let lie = |plant| self.is_planted(plant);
        if lie(Plant::SendsIgnored) && word == Word::Own(Own::Sends)
            || lie(Plant::ReceivesIgnored) && word == Word::Own(Own::Receives)
            || lie(Plant::RecallUnseen) && word == way(Shared::Recall)
        {
            return 0;
        }
        if lie(Plant::RewindFull) && word == way(Shared::Tail) {
            return self.view(own(self.side, Own::Head));
        }
        // the tail is looked at by one that receives for this alone
        let receives = || self.view(own(self.side, Own::ReceiveLock)) as u32 & !(1 << 31);
        if lie(Plant::UnreadUnseen)
            && word == way(Shared::Tail)
            && u64::from(receives()) == self.me as u64 + 1
        {
            return self.view(own(self.side, Own::Head));
        }
        if lie(Plant::TailStale) && word == way(Shared::Tail) {
            return value.saturating_sub(1);
        }
        let wants = [
            way(Shared::WantRoom),
            Word::Shared(Way::In, Shared::WantBytes),
        ];
        let theirs = [
            way(Shared::WantBytes),
            Word::Shared(Way::In, Shared::WantRoom),
        ];
        if (wants.contains(&word) || theirs.contains(&word))
            && self.now_and_then(Plant::WantUnseen, 4)
        {
            return 0;
        }
        if lie(Plant::OthersUnseen) && word == Word::Own(Own::ReceiveGate) {
            return value & 1;
        }
        if lie(Plant::NeverTired) && word == Word::Own(Own::FullSince) {
            return u64::MAX;
        }
        value
    }
}

impl Memory for Host<'_> {
    type Source = [Tag];
    type Sink = Vec<Tag>;

    fn load(&self, word: Word) -> u64 {
        let value = self.load_at(place(self.side, word));
        if word == Word::Shared(Way::In, Shared::Head) {
            self.fates[self.me].seen_head.set(value);
        }
        if word == THEIR_ROOM && value & 7 != 0 && self.is_planted(Plant::RoomToldEarly) {
            let _ = self.exchange(word, value, 0);
        }
        self.lie(word, value)
    }

    fn store(&self, word: Word, value: u64) {
        let short = self.is_planted(Plant::OffsetShort)
            && word == Word::Shared(Way::Out, Shared::Offset)
            || self.is_planted(Plant::TakenShort) && word == Word::Own(Own::FromTcp);
        let early =
            self.is_planted(Plant::RoomEarly) && word == Word::Shared(Way::In, Shared::Tail);
        let value = value.saturating_sub(u64::from(short)) + u64::from(early);
        self.store_at(place(self.side, word), value);
    }

    fn swap(&self, word: Word, value: u64) -> u64 {
        let at = place(self.side, word);
        let lock = matches!(word, Word::Own(Own::SendLock | Own::ReceiveLock));
        if lock && self.is_planted(Plant::UnlockWithoutFence) {
            let before = self.load_at(at);
            self.store_at(at, value);
            return before;
        }
        self.change(at, |_| Some(value))
    }

    fn exchange(&self, word: Word, from: u64, to: u64) -> Result<(), u64> {
        if self.fates[self.me].dead.get() {
            return Ok(());
        }
        if word == THEIR_ROOM {
            self.check_roomy();
        }
        if word == Word::Own(Own::Error) && from == 0 {
            self.check_reset();
        }
        if word == Word::Own(Own::Error) && self.is_planted(Plant::ErrorForgotten) {
            return Ok(());
        }
        let blind = self.is_planted(Plant::ExchangeAsStore)
            && matches!(word, Word::Shared(_, Shared::Phase));
        let uncounted = self.is_planted(Plant::RoundUncounted)
            && matches!(word, Word::Shared(_, Shared::WantRoom | Shared::WantBytes));
        let [from, to] = [from, to].map(|value| if uncounted { value % 8 } else { value });
        let at = place(self.side, word);
        let before = self.change(at, |is| (is == from || blind).then_some(to));
        if before == from || blind {
            Ok(())
        } else {
            Err(before)
        }
    }

    fn add(&self, word: Word, by: u64) -> u64 {
        let stays = self.is_planted(Plant::LeaveForgotten)
            && (word, by) == (Word::Own(Own::Sends), u64::MAX);
        self.change(place(self.side, word), |is| {
            (!stays).then(|| is.wrapping_add(by))
        })
    }

    fn set(&self, word: Word, bits: u64) -> u64 {
        if matches!(word, Word::Shared(_, Shared::WantRoom | Shared::WantBytes)) {
            self.preempt();
        }
        self.change(place(self.side, word), |is| Some(is | bits))
    }

    fn fence(&self) {
        if self.is_planted(Plant::FenceDropped) {
            self.step();
        } else {
            self.locked_step();
        }
    }

    fn ring_bytes(&self, way: Way) -> u64 {
        self.rings[direction(self.side, way)]
    }

    fn put(&self, at: u64, source: &[Tag], from: u64, bytes: u64) {
        let size = self.ring_bytes(Way::Out);
        let (head, base) = (
            self.view(own(self.side, Own::Head)),
            self.view(own(self.side, Own::Base)),
        );
        let first = (head - base) % size;
        let mut done = 0;
        while done < bytes {
            if !self.step() {
                return;
            }
            let piece = (bytes - done).min(1 + self.below(PIECE));
            let cell = at + done;
            let tags = source[(from + done) as usize..(from + done + piece) as usize].to_vec();
            self.note_step(|| format!("puts {piece} at {cell}"));
            self.mark_sent(&tags);
            let store = Store::Bytes {
                direction: self.side,
                at: cell as usize,
                position: head + (cell + size - first) % size,
                tags,
            };
            self.memory.borrow_mut().buffer(self.me, store);
            done += piece;
        }
    }

    fn take(&self, at: u64, sink: &mut Vec<Tag>, to: u64, bytes: u64) {
        let mut done = 0;
        while done < bytes {
            if !self.step() {
                return;
            }
            let piece = (bytes - done).min(1 + self.below(PIECE));
            let cells = (at + done) as usize..(at + done + piece) as usize;
            let tags = self.memory.borrow().rings[1 - self.side].tags[cells.clone()].to_vec();
            self.note_step(|| format!("takes {piece} at {}", cells.start));
            self.hold(sink, to + done, &tags);
            self.stats.borrow_mut().ring_bytes += piece;
            done += piece;
        }
    }
}

impl Kernel for Host<'_> {
    // what only asks the kernel orders nothing
    fn sent(&self) -> u64 {
        self.step();
        self.tcp.borrow().sent(self.side)
    }

    fn taken(&self) -> u64 {
        self.step();
        self.tcp.borrow().taken(self.side)
    }

    fn send_queue(&self) -> (u64, u64) {
        self.step();
        let (held, most) = self.tcp.borrow().send_queue(self.side);
        let held = if self.is_planted(Plant::QueueIgnored) {
            0
        } else {
            held
        };
        (held, most)
    }

    fn send_from_ring(&self, at: u64, bytes: u64) -> Result<u64, Errno> {
        let size = self.ring_bytes(Way::Out);
        let later = u64::from(self.is_planted(Plant::CopyFromLater));
        let tags: Vec<Tag> = {
            self.locked_step();
            let ring = &self.memory.borrow().rings[self.side].tags;
            let cell = |byte: u64| ring[((at + later + byte) % size) as usize];
            (0..bytes).map(cell).collect()
        };
        let sent = self.tcp_send(&tags, true);
        if sent == Err(EAGAIN) && !self.fates[self.me].dead.get() {
            self.fail(Law::Fits, "the kernel does not take the copy");
        }
        self.stats.borrow_mut().copied += sent.unwrap_or(0);
        sent
    }

    fn receive(&self, sink: &mut Vec<Tag>, to: u64, most: u64) -> Result<u64, Errno> {
        self.tcp_receive(sink, to, most)
    }

    fn peek(&self, sink: &mut Vec<Tag>, to: u64, most: u64) -> Result<u64, Errno> {
        if !self.locked_step() {
            return Err(EAGAIN);
        }
        let tags = self.tcp.borrow_mut().peek(self.side, most)?;
        sink.truncate(to as usize);
        sink.extend(&tags);
        Ok(tags.len() as u64)
    }

    fn pass_over(&self, most: u64) -> Result<u64, Errno> {
        if !self.locked_step() {
            return Err(EAGAIN);
        }
        let passed = self.tcp.borrow_mut().receive(self.side, most);
        let passed = passed.map(|tags| tags.len() as u64);
        self.note_step(|| format!("passes over {most}: {passed:?}"));
        self.stats.borrow_mut().passed += passed.unwrap_or(0);
        passed
    }

    fn time(&self) -> u64 {
        self.clock.get()
    }

    fn given(&self) -> u64 {
        self.tcp.borrow().sent(self.side)
    }

    fn take_error(&self) -> Option<Errno> {
        if !self.locked_step() {
            return None;
        }
        let error = self.tcp.borrow_mut().take_error(self.side);
        self.note_step(|| format!("takes the error {error:?}"));
        error
    }

    fn me(&self) -> u64 {
        self.me as u64 + 1
    }

    fn lives(&self, thread: u64) -> bool {
        self.locked_step();
        if self.is_planted(Plant::DeadLive) {
            return true;
        }
        let owner = self.fates.get(thread as usize - 1);
        owner.is_some_and(|owner| !owner.dead.get()) && !self.is_planted(Plant::LivingDead)
    }

    fn sleep(&self, word: Word, value: u64, bounded: bool) -> bool {
        let at = place(self.side, word);
        self.preempt();
        if !self.locked_step() || self.memory.borrow().word(at) as u32 != value as u32 {
            return true;
        }
        let until = if bounded {
            self.clock.get() + BOUND
        } else {
            u64::MAX
        };
        self.note_step(|| format!("sleeps on {}", name(at)));
        self.fates[self.me].sleep.set(Some(Sleep::Futex(at, until)));
        self.stats.borrow_mut().sleeps += 1;
        self.yielder.suspend(());
        // whoever woke has set the time to now
        let woken = self.fates[self.me].sleep.take() == Some(Sleep::Futex(at, 0));
        woken || !bounded
    }

    fn wake(&self, word: Word) {
        let at = place(self.side, word);
        if !self.locked_step() || self.now_and_then(Plant::WakeLost, 4) {
            return;
        }
        self.note_step(|| format!("wakes {}", name(at)));
        for fate in &self.fates {
            if matches!(fate.sleep.get(), Some(Sleep::Futex(on, _)) if on == at) {
                fate.sleep.set(Some(Sleep::Futex(at, 0)));
            }
        }
    }

    fn ring(&self, way: Way) {
        if self.locked_step() && !self.is_planted(Plant::RingLost) {
            self.note_step(|| format!("rings {way:?}"));
            self.tell(1 - self.side, RUNG);
        }
    }

    fn recall(&self) {
        if self.locked_step() {
            self.note_step(|| "recalls".into());
            self.tell(1 - self.side, RUNG);
        }
    }

    fn ring_own(&self) {
        if self.locked_step() {
            self.note_step(|| "rings its own".into());
            self.tell(self.side, RUNG);
        }
    }
}

/// Steps for which a thread has lost its core at most.
const LONGEST_PREEMPTION: u64 = 1_000;

/// Whether a fiber is one of a program's threads that has not ended.
pub(crate) fn is_running(world: &World, fiber: usize) -> bool {
    let fate = &world.fates[fiber];
    fate.role == Role::Program && !fate.dead.get() && !fate.done.get()
}
