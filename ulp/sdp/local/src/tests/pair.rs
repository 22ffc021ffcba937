//! Two sides in one thread: words, rings and a kernel without time. Something can be made to happen
//! just before a call.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::rc::Rc;

use crate::{Errno, Kernel, Memory, Way, Word};

pub(super) const RING: u64 = 16;
pub(super) const ME: u64 = 7;
/// The owner of a lock that has died.
pub(super) const DEAD: u64 = 9;
const EAGAIN: Errno = Errno(11);

/// What a hook waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Call {
    Load(Word),
    Exchange(Word),
    Receive,
}

#[derive(Default)]
pub(super) struct World {
    /// By the side that writes the direction, or the side whose record it is.
    words: RefCell<HashMap<(usize, Word), u64>>,
    rings: RefCell<[[u8; RING as usize]; 2]>,
    /// What each side has sent by the kernel, and the other has not taken.
    pub queues: RefCell<[VecDeque<u8>; 2]>,
    sent: [Cell<u64>; 2],
    taken: [Cell<u64>; 2],
    pub ended: [Cell<bool>; 2],
    /// What the kernel answers whoever sends, or passes over bytes.
    pub refuses: Cell<Option<Errno>>,
    /// How often a side was told the time.
    time: Cell<u64>,
}

type Hook = (Call, Box<dyn FnOnce()>);

#[derive(Clone)]
pub(super) struct Side {
    pub world: Rc<World>,
    side: usize,
    hook: Rc<RefCell<Option<Hook>>>,
    pub wakes: Rc<RefCell<Vec<Word>>>,
    pub rings: Rc<Cell<u32>>,
    pub own_rings: Rc<Cell<u32>>,
    pub recalls: Rc<Cell<u32>>,
    pub kernel_sends: Rc<Cell<u32>>,
    pub queue_looks: Rc<Cell<u32>>,
    /// What the kernel has for SO_ERROR.
    pub error: Rc<Cell<Option<Errno>>>,
    pub given: Rc<Cell<u64>>,
    /// Bytes that the peer's kernel has not acknowledged.
    pub unacknowledged: Rc<Cell<u64>>,
}

/// Two sides; the first writes what the second reads, and the other way round.
pub(super) fn pair() -> (Side, Side) {
    let world = Rc::new(World::default());
    let side = |side| Side {
        world: world.clone(),
        side,
        hook: Rc::default(),
        wakes: Rc::default(),
        rings: Rc::default(),
        own_rings: Rc::default(),
        recalls: Rc::default(),
        kernel_sends: Rc::default(),
        queue_looks: Rc::default(),
        error: Rc::default(),
        given: Rc::default(),
        unacknowledged: Rc::default(),
    };
    (side(0), side(1))
}

impl Side {
    /// `what` happens before the next such call of this side.
    pub fn before(&self, call: Call, what: impl FnOnce() + 'static) {
        *self.hook.borrow_mut() = Some((call, Box::new(what)));
    }

    fn called(&self, call: Call) {
        let due = matches!(&*self.hook.borrow(), Some((waits, _)) if *waits == call);
        if let Some((_, what)) = due.then(|| self.hook.borrow_mut().take()).flatten() {
            what();
        }
    }

    fn key(&self, word: Word) -> (usize, Word) {
        match word {
            Word::Shared(Way::In, word) => (1 - self.side, Word::Shared(Way::Out, word)),
            word => (self.side, word),
        }
    }

    pub fn word(&self, word: Word) -> u64 {
        let words = self.world.words.borrow();
        words.get(&self.key(word)).copied().unwrap_or(0)
    }

    /// Sends by the kernel what is not SDP's business.
    pub fn plain(&self, bytes: &[u8]) {
        self.world.queues.borrow_mut()[self.side].extend(bytes);
        let sent = &self.world.sent[self.side];
        sent.set(sent.get() + bytes.len() as u64);
    }

    pub fn end(&self) {
        self.world.ended[self.side].set(true);
    }

    fn take_from_kernel(&self, most: u64) -> Result<Vec<u8>, Errno> {
        let from = 1 - self.side;
        let queue = &mut self.world.queues.borrow_mut()[from];
        let bytes = (queue.len() as u64).min(most) as usize;
        if bytes == 0 && !self.world.ended[from].get() {
            return Err(EAGAIN);
        }
        let taken = &self.world.taken[from];
        taken.set(taken.get() + bytes as u64);
        Ok(queue.drain(..bytes).collect())
    }
}

impl Memory for Side {
    type Source = [u8];
    type Sink = Vec<u8>;

    fn load(&self, word: Word) -> u64 {
        self.called(Call::Load(word));
        self.word(word)
    }

    fn store(&self, word: Word, value: u64) {
        self.swap(word, value);
    }

    fn swap(&self, word: Word, value: u64) -> u64 {
        let before = self.word(word);
        let key = self.key(word);
        self.world.words.borrow_mut().insert(key, value);
        before
    }

    fn exchange(&self, word: Word, from: u64, to: u64) -> Result<(), u64> {
        self.called(Call::Exchange(word));
        match self.word(word) {
            is if is == from => {
                self.swap(word, to);
                Ok(())
            }
            is => Err(is),
        }
    }

    fn add(&self, word: Word, by: u64) -> u64 {
        self.swap(word, self.word(word).wrapping_add(by))
    }

    fn set(&self, word: Word, bits: u64) -> u64 {
        self.swap(word, self.word(word) | bits)
    }

    fn fence(&self) {}

    fn ring_bytes(&self, _: Way) -> u64 {
        RING
    }

    fn put(&self, at: u64, source: &[u8], from: u64, bytes: u64) {
        for byte in 0..bytes {
            self.world.rings.borrow_mut()[self.side][(at + byte) as usize] =
                source[(from + byte) as usize];
        }
    }

    fn take(&self, at: u64, sink: &mut Vec<u8>, to: u64, bytes: u64) {
        sink.truncate(to as usize);
        let ring = self.world.rings.borrow()[1 - self.side];
        sink.extend(&ring[at as usize..(at + bytes) as usize]);
    }
}

impl Kernel for Side {
    fn sent(&self) -> u64 {
        self.world.sent[self.side].get()
    }

    fn taken(&self) -> u64 {
        self.world.taken[1 - self.side].get()
    }

    fn send_queue(&self) -> (u64, u64) {
        self.queue_looks.set(self.queue_looks.get() + 1);
        (self.unacknowledged.get(), 4096)
    }

    fn send_from_ring(&self, at: u64, bytes: u64) -> Result<u64, Errno> {
        self.kernel_sends.set(self.kernel_sends.get() + 1);
        if let Some(error) = self.world.refuses.take() {
            return Err(error);
        }
        let ring = self.world.rings.borrow()[self.side];
        let cell = |byte| ring[((at + byte) % RING) as usize];
        self.plain(&(0..bytes).map(cell).collect::<Vec<_>>());
        Ok(bytes)
    }

    fn receive(&self, sink: &mut Vec<u8>, to: u64, most: u64) -> Result<u64, Errno> {
        self.called(Call::Receive);
        let bytes = self.take_from_kernel(most)?;
        sink.truncate(to as usize);
        sink.extend(&bytes);
        Ok(bytes.len() as u64)
    }

    fn peek(&self, sink: &mut Vec<u8>, to: u64, most: u64) -> Result<u64, Errno> {
        let from = 1 - self.side;
        let queue = &self.world.queues.borrow()[from];
        let bytes = (queue.len() as u64).min(most) as usize;
        if bytes == 0 && !self.world.ended[from].get() {
            return Err(EAGAIN);
        }
        sink.truncate(to as usize);
        sink.extend(queue.range(..bytes));
        Ok(bytes as u64)
    }

    fn pass_over(&self, most: u64) -> Result<u64, Errno> {
        if let Some(error) = self.world.refuses.take() {
            return Err(error);
        }
        Ok(self.take_from_kernel(most)?.len() as u64)
    }

    fn time(&self) -> u64 {
        let time = self.world.time.get() + 1;
        self.world.time.set(time);
        time
    }

    fn given(&self) -> u64 {
        self.given.get()
    }

    fn take_error(&self) -> Option<Errno> {
        self.error.take()
    }

    fn me(&self) -> u64 {
        ME
    }

    fn lives(&self, thread: u64) -> bool {
        thread != DEAD
    }

    fn sleep(&self, word: Word, value: u64, bounded: bool) -> bool {
        assert!(bounded, "a sleep without end on {word:?} of {value}");
        false
    }

    fn wake(&self, word: Word) {
        self.wakes.borrow_mut().push(word);
    }

    fn ring(&self, _: Way) {
        self.rings.set(self.rings.get() + 1);
    }

    fn recall(&self) {
        self.recalls.set(self.recalls.get() + 1);
    }

    fn ring_own(&self) {
        self.own_rings.set(self.own_rings.get() + 1);
    }
}
