//! The bytes of a process, as its Portals reach them.
//!
//! Owns: the bytes, what is staged, what is registered, and a log of what the join has touched.
//! Must not know: what may be touched when.

use ferriband_portals_process::{By, Memory};
use ferriband_portals_proto::Piece;
use ferriband_putget_proto::Status;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::{Rc, Weak};

/// Staged memory lies from here on.
const STAGE: u64 = 1 << 40;
/// Fewest bytes between two ranges, which belong to none.
const GUARD: u64 = 5;
/// Ranges begin at its multiples.
const ALIGNED: usize = 8;
/// What lies there.
const UNTOUCHED: u8 = 0xa5;

/// The join has touched bytes: so many of these pieces, from the first on.
#[derive(Clone, Debug)]
pub(crate) struct Touch {
    pub writes: bool,
    pub pieces: Vec<Piece>,
}

/// Staged memory, which lives as long as this.
pub(crate) struct Staged(Rc<RefCell<Vec<u8>>>);

/// The bytes of a process.
#[derive(Default)]
pub(crate) struct Bytes {
    bytes: Vec<u8>,
    /// Where no range lies.
    guards: Vec<Range<usize>>,
    staged: BTreeMap<u64, Weak<RefCell<Vec<u8>>>>,
    next_stage: u64,
    keys: RefCell<BTreeMap<u32, Weak<Piece>>>,
    next_key: Cell<u32>,
    /// Addresses that cannot be registered.
    unreachable: Vec<Range<u64>>,
    log: RefCell<Vec<Touch>>,
    /// Atomic operations of adapters do not come between those of the processor.
    pub atomics: bool,
}

/// The first bytes of pieces.
pub(crate) fn first(pieces: &[Piece], bytes: u64) -> Vec<Piece> {
    let mut left = bytes;
    let cut = pieces.iter().map(|piece| {
        let length = piece.length.min(left);
        left -= length;
        Piece { length, ..*piece }
    });
    cut.filter(|piece| piece.length > 0).collect()
}

/// `length` bytes of pieces from `offset` on.
pub(crate) fn cut(pieces: &[Piece], offset: u64, length: u64) -> Vec<Piece> {
    let mut skip = offset;
    let rest = pieces.iter().map(|piece| {
        let skipped = piece.length.min(skip);
        skip -= skipped;
        Piece {
            address: piece.address + skipped,
            length: piece.length - skipped,
        }
    });
    let rest: Vec<Piece> = rest.collect();
    first(&rest, length)
}

impl Bytes {
    /// A new range of memory, filled.
    pub fn allocate(&mut self, length: u64, fill: impl Fn(u64) -> u8) -> Piece {
        let guard = (self.bytes.len() + GUARD as usize).next_multiple_of(ALIGNED);
        self.guards.push(self.bytes.len()..guard);
        self.bytes.resize(guard, UNTOUCHED);
        self.bytes.extend((0..length).map(fill));
        Piece {
            address: guard as u64,
            length,
        }
    }

    /// Whether nobody has touched what lies between two ranges.
    pub fn is_whole(&self) -> bool {
        let mut between = self
            .guards
            .iter()
            .flat_map(|range| &self.bytes[range.clone()]);
        between.all(|byte| *byte == UNTOUCHED)
    }

    /// RDMA cannot reach these addresses.
    pub fn forbid(&mut self, piece: Piece) {
        let range = piece.address..piece.address + piece.length;
        self.unreachable.push(range);
    }

    pub fn read(&self, pieces: &[Piece]) -> Vec<u8> {
        let mut all = Vec::new();
        for piece in pieces {
            let first = piece.address as usize;
            all.extend_from_slice(&self.bytes[first..first + piece.length as usize]);
        }
        all
    }

    pub fn write(&mut self, pieces: &[Piece], data: &[u8]) {
        let mut data = data.iter();
        for piece in pieces {
            for at in piece.address..piece.address + piece.length {
                if let Some(byte) = data.next() {
                    self.bytes[at as usize] = *byte;
                }
            }
        }
    }

    /// What the join has touched since this was last asked.
    pub fn touched(&self) -> Vec<Touch> {
        std::mem::take(&mut self.log.borrow_mut())
    }

    /// The staged memory that an address lies in, and where in it.
    fn stage_of(&self, address: u64) -> Option<(Rc<RefCell<Vec<u8>>>, usize)> {
        let (start, staged) = self.staged.range(..=address).next_back()?;
        let staged = staged.upgrade()?;
        let at = (address - start) as usize;
        let lies = at < staged.borrow().len();
        lies.then_some((staged, at))
    }

    /// Whether an address is one of staged memory.
    pub const fn is_staged(address: u64) -> bool {
        address >= STAGE
    }

    /// RDMA reads a byte; None where staged memory is gone.
    pub fn rdma_read(&self, address: u64) -> Option<u8> {
        if !Bytes::is_staged(address) {
            return self.bytes.get(address as usize).copied();
        }
        let (staged, at) = self.stage_of(address)?;
        let byte = staged.borrow()[at];
        Some(byte)
    }

    /// RDMA writes a byte. False where staged memory is gone.
    pub fn rdma_write(&mut self, address: u64, value: u8) -> bool {
        if !Bytes::is_staged(address) {
            let byte = self.bytes.get_mut(address as usize);
            return byte.map(|byte| *byte = value).is_some();
        }
        let found = self.stage_of(address);
        found
            .map(|(staged, at)| staged.borrow_mut()[at] = value)
            .is_some()
    }

    /// Whether a key opens an address.
    pub fn opens(&self, key: u32, address: u64) -> bool {
        let keys = self.keys.borrow();
        let piece = keys.get(&key).and_then(Weak::upgrade);
        piece.is_some_and(|piece| (piece.address..piece.address + piece.length).contains(&address))
    }

    fn log(&self, writes: bool, pieces: &[Piece], bytes: usize) {
        let pieces = first(pieces, bytes as u64);
        self.log.borrow_mut().push(Touch { writes, pieces });
    }
}

impl Memory for Bytes {
    type Registration = Rc<Piece>;
    type Staged = Staged;

    fn gather(&self, pieces: &[Piece], to: &mut [u8]) {
        self.log(false, pieces, to.len());
        let all = self.read(&first(pieces, to.len() as u64));
        to[..all.len()].copy_from_slice(&all);
    }

    fn scatter(&mut self, data: &[u8], pieces: &[Piece]) {
        self.log(true, pieces, data.len());
        self.write(&first(pieces, data.len() as u64), data);
    }

    fn register(&mut self, piece: &Piece, _: bool, _: By) -> Result<(Rc<Piece>, u32), Status> {
        let range = piece.address..piece.address + piece.length;
        let mut bad = self.unreachable.iter();
        if bad.any(|bad| bad.start < range.end && range.start < bad.end) {
            return Err(Status::Fault);
        }
        let key = self.next_key.get() + 1;
        self.next_key.set(key);
        let registration = Rc::new(*piece);
        let mut keys = self.keys.borrow_mut();
        keys.retain(|_, piece| piece.strong_count() > 0);
        keys.insert(key, Rc::downgrade(&registration));
        Ok((registration, key))
    }

    fn stage(&mut self, pieces: &[Piece], filled: bool) -> (Staged, Piece) {
        let length: u64 = pieces.iter().map(|piece| piece.length).sum();
        let bytes = match filled {
            true => {
                self.log(false, pieces, length as usize);
                self.read(pieces)
            }
            false => vec![0; length as usize],
        };
        let address = STAGE + self.next_stage;
        self.next_stage += length + GUARD;
        let staged = Rc::new(RefCell::new(bytes));
        self.staged.retain(|_, staged| staged.strong_count() > 0);
        self.staged.insert(address, Rc::downgrade(&staged));
        (Staged(staged), Piece { address, length })
    }

    fn unstage(&mut self, staged: &Staged, length_bytes: u64, pieces: &[Piece]) {
        let bytes = staged.0.borrow().clone();
        let first = &bytes[..bytes.len().min(length_bytes as usize)];
        self.scatter(first, pieces);
    }

    fn replace(&mut self, address: u64, before: u64, after: u64) -> bool {
        let length = 8;
        let value = [Piece { address, length }];
        let mut found = [0; 8];
        self.gather(&value, &mut found);
        let is_before = found == before.to_ne_bytes();
        if is_before {
            self.scatter(&after.to_ne_bytes(), &value);
        }
        is_before
    }

    fn has_atomics(&self) -> bool {
        self.atomics
    }
}
