//! Two places by which a pair of ranks exchanges messages: who has read one is the next to write there.
//!
//! Why that is fast is said in [`super::area`], which does the same for collectives. Here nobody
//! knows who writes next, so whose a place is goes with the message: at first each rank has one;
//! who sends by a place gives it away, who has taken the message out has it. Messages that go to
//! and fro, and both ways at a time, find a place; of a stream one way the first does, all others
//! go by the channel's block.
//!
//! Owns: where the places lie, and whose they are as this rank knows it. Must not know: how a message is told (by a record of the channel, [`super::channel`]).

use crate::ground::hints::{will_read_far, will_write};
use crate::ground::memory::{Sink, Source};
use crate::transport::host::Host;
use ferriband_mpi_proto::envelope::Placed;
use ferriband_mpi_proto::segment::PLACE;
use std::ptr::NonNull;

/// Bytes of a line of the cache, and how much of a message is fetched at once.
const LINE: u32 = 64;
const FETCHED: u32 = 4096;
/// No longer ones are fetched into the nearest cache, which has so many fetches under way; 2 to 4 KiB are a tenth faster by way of the second.
const NEAREST: u32 = 1536;
/// Memory comes by so many bytes.
const PAGE: u32 = 4096;

/// The places of this rank and another.
#[derive(Debug)]
pub struct Pair {
    /// The one that the lower rank was the first to write to, and the other.
    bases: [NonNull<u8>; 2],
    /// Where they begin in the segment.
    at: [u64; 2],
    /// Bytes that this rank knows to have memory behind them.
    backed: [u32; 2],
    /// Those that this rank may write to; the last is the one whose lines were read last.
    own: [u32; 2],
    count: usize,
    /// Messages that this rank has sent by a place.
    sent: u64,
}

// SAFETY: the memory is shared anyway, and accessed as bytes that somebody else may change.
unsafe impl Send for Pair {}

impl Pair {
    /// Of rank `rank` and this one; none if pairs have no places.
    pub fn new(host: &Host, rank: u32) -> Option<Self> {
        let me = host.me();
        let (low, high) = (me.min(rank), me.max(rank));
        let layout = host.segment().layout();
        let at = [layout.place(low, high)?, layout.place(high, low)?];
        Some(Self {
            bases: at.map(|at| host.segment().address(at)),
            at,
            backed: [0; 2],
            own: [u32::from(me > rank), 0],
            count: 1,
            sent: 0,
        })
    }

    /// Whether there is one that this rank may write to.
    #[inline]
    pub fn is_open(&self) -> bool {
        self.count != 0
    }

    /// Writes a message to the place that was read last, which is the other rank's as soon as it is told. None if there is no memory behind it, or no place.
    pub fn write(&mut self, host: &Host, message: &Source) -> Option<Placed> {
        let place = *self.own.get(self.count.checked_sub(1)?)?;
        let length = u32::try_from(message.len())
            .ok()
            .filter(|length| *length <= PLACE)?;
        let index = place as usize;
        if length > self.backed[index] {
            // not page by page
            let wanted = length
                .max(2 * self.backed[index])
                .next_multiple_of(PAGE)
                .min(PLACE);
            host.segment().allocate(self.at[index], wanted).ok()?;
            self.backed[index] = wanted;
        }
        // SAFETY: in the segment; this rank alone has read there, and has done so.
        let sink = unsafe { Sink::new(self.bases[index].as_ptr(), message.len()) };
        message.copy_to(&sink);
        Some(Placed { length, place })
    }

    /// What was written is told: the place is the other rank's.
    #[inline]
    pub fn given(&mut self) {
        self.count = self.count.saturating_sub(1);
        self.sent += 1;
    }

    /// Messages that this rank has sent by a place.
    pub fn sent(&self) -> u64 {
        self.sent
    }

    /// The message that the other rank says is in a place; none if that cannot be.
    #[inline]
    pub fn read(&self, told: Placed) -> Option<Source> {
        let base = self.bases.get(told.place as usize)?;
        if told.length > PLACE || self.own[..self.count].contains(&told.place) {
            return None;
        }
        for line in 0..told.length.min(FETCHED).div_ceil(LINE) {
            let address = base.as_ptr().wrapping_add((line * LINE) as usize);
            if told.length <= NEAREST {
                will_write(address);
            } else {
                will_read_far(address);
            }
        }
        // SAFETY: in the segment, which stays mapped; nobody writes there before this rank. Where there is no memory yet it reads as zeros.
        Some(unsafe { Source::new(base.as_ptr(), told.length as usize) })
    }

    /// It has been taken out: the place is this rank's.
    #[inline]
    pub fn taken(&mut self, told: Placed) {
        if let Some(next) = self.own.get_mut(self.count) {
            *next = told.place;
            self.count += 1;
        }
    }
}
