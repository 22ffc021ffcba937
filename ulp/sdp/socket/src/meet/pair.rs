//! What two processes share once they have met: segments, their slots, the peer's eventfd.
//!
//! Owns: which slots are given out, and what is checked of descriptors that come from the peer.
//! Must not know: messages and channels. The accepting side lends slots of segments that it makes,
//! the connecting side borrows them. A slot is lent again when both have given it back.

use super::bells::{Bells, Ringer};
use super::message::Reason;
use crate::own::{self, Own, Segment};
use crate::segment::{self, LENGTH, Role, SLOTS};
use ferriband_sdp_local::Shared;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Segments of a pair: 16,384 connections.
pub const MOST_SEGMENTS: usize = 256;

/// The peer has broken the rules.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Broken;

/// All words of a direction.
const WORDS: [Shared; 13] = [
    Shared::Head,
    Shared::Base,
    Shared::Offset,
    Shared::End,
    Shared::CopyFrom,
    Shared::WantRoom,
    Shared::Tail,
    Shared::Recall,
    Shared::WantBytes,
    Shared::Phase,
    Shared::EndedByProgram,
    Shared::Filled,
    Shared::Given,
];

/// The accepting side's segments.
#[derive(Default, Debug)]
pub struct Lender(Vec<Lent>);

#[derive(Debug)]
struct Lent {
    segment: Arc<Segment>,
    /// Slots that this side has not given back: a bit for each.
    here: u64,
    /// Slots that the peer has not given back.
    there: u64,
}

/// A slot that was lent.
#[derive(Debug)]
pub struct Loan {
    /// Its segment's number.
    pub number: u32,
    /// Its segment.
    pub segment: Arc<Segment>,
    /// Its number.
    pub slot: u64,
    /// The peer has not got the segment so far.
    pub is_new: bool,
}

const _: () = assert!(SLOTS == u64::BITS as u64, "a bit for each slot");

impl Lender {
    /// A slot that nobody uses, whose words are 0.
    ///
    /// # Errors
    /// The pair has too many, or there is no memory.
    pub fn lend(&mut self) -> Result<Loan, Reason> {
        let free = self
            .0
            .iter()
            .position(|lent| lent.here | lent.there != u64::MAX);
        let is_new = free.is_none();
        let number = free.unwrap_or(self.0.len());
        if is_new {
            self.0.push(Lent::new(number)?);
        }
        let lent = &mut self.0[number];
        let slot = u64::from((!(lent.here | lent.there)).trailing_zeros());
        clear(&lent.segment, slot);
        lent.here |= 1 << slot;
        lent.there |= 1 << slot;
        Ok(Loan {
            number: number as u32,
            segment: lent.segment.clone(),
            slot,
            is_new,
        })
    }

    /// This side looks at the slot no more.
    pub fn back_here(&mut self, number: u32, slot: u64) {
        let lent = self.0.get_mut(number as usize).filter(|_| slot < SLOTS);
        debug_assert!(lent.is_some(), "a slot of this pair");
        if let Some(lent) = lent {
            lent.here &= !(1 << slot);
        }
    }

    /// The peer says that it looks at the slot no more. Whether this side still does.
    ///
    /// # Errors
    /// The peer does not have it.
    pub fn back_there(&mut self, number: u32, slot: u64) -> Result<bool, Broken> {
        let lent = self.0.get_mut(number as usize).filter(|_| slot < SLOTS);
        let lent = lent.ok_or(Broken)?;
        let bit = 1 << slot;
        if lent.there & bit == 0 {
            return Err(Broken);
        }
        lent.there &= !bit;
        Ok(lent.here & bit != 0)
    }
}

impl Lent {
    fn new(number: usize) -> Result<Self, Reason> {
        if number == MOST_SEGMENTS {
            return Err(Reason::TooMany);
        }
        let segment = own::memory(LENGTH).map_err(|_| Reason::NoMemory)?;
        let segment = Arc::new(segment);
        let [here, there] = [0; 2];
        Ok(Self {
            segment,
            here,
            there,
        })
    }
}

fn clear(segment: &Segment, slot: u64) {
    for (direction, word) in [0, 1]
        .into_iter()
        .flat_map(|at| WORDS.map(|word| (at, word)))
    {
        let at = segment::word(slot, direction, word);
        let word = segment.word64(at).expect("a slot of the segment");
        word.store(0, Ordering::SeqCst);
    }
    for (direction, reads) in [(0, false), (0, true), (1, false), (1, true)] {
        let at = segment::box_word(slot, direction, reads);
        let word = segment.word64(at).expect("a slot of the segment");
        word.store(0, Ordering::SeqCst);
    }
    for direction in [0, 1] {
        let word = segment.word64(segment::preface(slot, direction));
        let word = word.expect("a slot of the segment");
        word.store(0, Ordering::SeqCst);
    }
    for side in [Role::Connected, Role::Accepted] {
        let word = segment.word64(segment::told(side));
        let word = word.expect("each segment has these");
        word.fetch_and(!(1 << slot), Ordering::SeqCst);
    }
}

/// The connecting side's segments.
#[derive(Default, Debug)]
pub struct Borrower {
    segments: Vec<Borrowed>,
    bells: Option<Arc<Bells>>,
    is_of_another_user: bool,
}

#[derive(Debug)]
struct Borrowed {
    segment: Arc<Segment>,
    used: u64,
}

impl Borrower {
    /// Nothing was borrowed so far of a peer, which is of this user or of another.
    pub fn new(is_own_user: bool) -> Self {
        Self {
            is_of_another_user: !is_own_user,
            ..Self::default()
        }
    }

    /// Takes a slot that the peer lends, with what came along: the segment if it is new, then the
    /// peer's eventfd if that is not known so far.
    ///
    /// # Errors
    /// The slot is in use, or a descriptor is missing, too many, or not of its kind. All that came
    /// are closed.
    pub fn borrow(
        &mut self,
        number: u32,
        slot: u64,
        fds: Vec<OwnedFd>,
    ) -> Result<(Arc<Segment>, Arc<Bells>), Broken> {
        let number = number as usize;
        let is_new = number == self.segments.len() && number < MOST_SEGMENTS;
        let expected = usize::from(is_new) + usize::from(self.bells.is_none());
        if number > self.segments.len() || slot >= SLOTS || fds.len() != expected {
            return Err(Broken);
        }
        let mut fds = fds.into_iter();
        let segment = match self.segments.get(number) {
            Some(known) if known.used & 1 << slot != 0 => return Err(Broken),
            Some(known) => known.segment.clone(),
            None => {
                // checks the kind of file, its seals and its length
                let file = Own::hide(fds.next().ok_or(Broken)?).map_err(|_| Broken)?;
                Arc::new(Segment::map(file, LENGTH).map_err(|_| Broken)?)
            }
        };
        let bells = match &self.bells {
            Some(bells) => bells.clone(),
            None => bells(vec![fds.next().ok_or(Broken)?], !self.is_of_another_user)?,
        };
        if is_new {
            let segment = segment.clone();
            self.segments.push(Borrowed { segment, used: 0 });
        }
        self.bells = Some(bells.clone());
        self.segments[number].used |= 1 << slot;
        Ok((segment, bells))
    }

    /// What tells the peer's process.
    pub fn bells(&self) -> Option<&Bells> {
        self.bells.as_deref()
    }

    /// Nothing was ever borrowed.
    pub fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    /// This side looks at the slot no more.
    pub fn back(&mut self, number: u32, slot: u64) {
        let known = self.segments.get_mut(number as usize);
        let known = known.filter(|_| slot < SLOTS);
        debug_assert!(known.is_some(), "a slot of this pair");
        if let Some(known) = known {
            known.used &= !(1 << slot);
        }
    }
}

/// What tells the peer's box 0, which has to come alone.
///
/// # Errors
/// It is something else, or not alone.
pub fn bells(fds: Vec<OwnedFd>, is_own_user: bool) -> Result<Arc<Bells>, Broken> {
    let [fd] = <[OwnedFd; 1]>::try_from(fds).map_err(|_| Broken)?;
    Ok(Arc::new(Bells::by(Ringer::take_over(fd, is_own_user)?)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferriband_host::segment as host;
    use std::os::fd::AsFd;

    fn copy(of: impl AsFd) -> OwnedFd {
        of.as_fd().try_clone_to_owned().expect("a descriptor")
    }

    fn event() -> OwnedFd {
        ferriband_host::wake::Event::new()
            .expect("an eventfd")
            .into()
    }

    #[test]
    fn a_slot_is_lent_again_when_both_have_given_it_back() {
        let mut lender = Lender::default();
        for expected in 0..SLOTS {
            let loan = lender.lend().expect("memory");
            assert_eq!((loan.number, loan.slot), (0, expected));
            assert_eq!(loan.is_new, expected == 0);
        }
        let second = lender.lend().expect("memory");
        assert_eq!((second.number, second.slot, second.is_new), (1, 0, true));
        let next = |lender: &mut Lender| {
            let loan = lender.lend().expect("memory");
            (loan.number, loan.slot)
        };
        assert_eq!(lender.back_there(0, 9), Ok(true));
        assert_eq!(next(&mut lender), (1, 1), "this side still looks at it");
        lender.back_here(0, 9);
        assert_eq!(next(&mut lender), (0, 9));
        lender.back_here(0, 3);
        assert_eq!(next(&mut lender), (1, 2), "the peer still looks at it");
        assert_eq!(lender.back_there(0, 3), Ok(false));
        assert_eq!(next(&mut lender), (0, 3));
    }

    #[test]
    fn the_words_of_a_slot_begin_as_zeros() {
        let mut lender = Lender::default();
        let first = lender.lend().expect("memory");
        let end = segment::word(1, 0, Shared::Head);
        for at in (0..end).step_by(8) {
            let word = first.segment.word64(at).expect("a word");
            word.store(u64::MAX, Ordering::Relaxed);
        }
        lender.back_here(0, 0);
        assert_eq!(lender.back_there(0, 0), Ok(false));
        let again = lender.lend().expect("memory");
        assert_eq!(again.slot, 0);
        for (direction, word) in [0, 1]
            .into_iter()
            .flat_map(|at| WORDS.map(|word| (at, word)))
        {
            let at = segment::word(0, direction, word);
            let value = again.segment.word64(at).expect("a word");
            assert_eq!(value.load(Ordering::Relaxed), 0, "{word:?}");
        }
    }

    #[test]
    fn a_peer_gives_back_what_it_has() {
        let mut lender = Lender::default();
        assert_eq!(lender.back_there(0, 0), Err(Broken));
        let loan = lender.lend().expect("memory");
        for (number, slot) in [(0, 1), (0, SLOTS), (0, u64::MAX), (1, 0), (u32::MAX, 0)] {
            assert_eq!(lender.back_there(number, slot), Err(Broken));
        }
        assert_eq!(lender.back_there(loan.number, loan.slot), Ok(true));
        assert_eq!(lender.back_there(loan.number, loan.slot), Err(Broken));
    }

    #[test]
    fn a_pair_has_a_limit() {
        let mut lender = Lender::default();
        for _ in 0..MOST_SEGMENTS as u64 * SLOTS {
            lender.lend().expect("memory");
        }
        assert_eq!(lender.lend().err(), Some(Reason::TooMany));
    }

    #[test]
    fn a_borrower_takes_segment_and_bell_once() {
        let mut lender = Lender::default();
        let mut borrower = Borrower::default();
        let first = lender.lend().expect("memory");
        let fds = vec![copy(&*first.segment), event()];
        let (segment, bell) = borrower.borrow(0, first.slot, fds).expect("all came");
        first.segment.write(4096, b"seen").expect("inside");
        let mut seen = [0; 4];
        segment.read(4096, &mut seen).expect("inside");
        assert_eq!(&seen, b"seen");
        let again = borrower.borrow(0, first.slot, Vec::new());
        assert!(again.is_err(), "it is in use");
        let (_, other) = borrower.borrow(0, 1, Vec::new()).expect("nothing is new");
        assert!(Arc::ptr_eq(&bell, &other));
        borrower.back(0, first.slot);
        assert!(borrower.borrow(0, first.slot, Vec::new()).is_ok());
    }

    #[test]
    fn a_borrower_refuses_descriptors_of_another_kind_or_number() {
        let segment = || host::create(c"test", LENGTH).expect("memory");
        let short = host::create(c"test", LENGTH - 1).expect("memory");
        let flags = rustix::fs::MemfdFlags::ALLOW_SEALING;
        let unsealed = rustix::fs::memfd_create(c"test", flags).expect("memory");
        rustix::fs::ftruncate(&unsealed, LENGTH).expect("long enough");
        let (pipe, _writer) = std::io::pipe().expect("a pipe");
        for fds in [
            vec![],
            vec![segment()],
            vec![event()],
            vec![event(), segment()],
            vec![segment(), segment()],
            vec![segment(), event(), event()],
            vec![short, event()],
            vec![unsealed, event()],
            vec![segment(), pipe.into()],
        ] {
            let mut borrower = Borrower::default();
            assert!(borrower.borrow(0, 0, fds).is_err());
            assert!(borrower.segments.is_empty());
        }
        let mut borrower = Borrower::default();
        for (number, slot) in [(1, 0), (0, SLOTS), (u32::MAX, 0), (0, u64::MAX)] {
            let fds = vec![segment(), event()];
            assert!(borrower.borrow(number, slot, fds).is_err());
        }
        let (fds, surplus) = (vec![segment(), event()], vec![event()]);
        assert!(borrower.borrow(0, 0, fds).is_ok());
        assert!(borrower.borrow(0, 1, surplus).is_err());
    }
}
