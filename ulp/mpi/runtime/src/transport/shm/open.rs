//! How a channel comes about: its sender gets memory for the block and writes its line, its
//! receiver finds that by a bit.
//!
//! Owns: the lines, and which bits have been seen. Must not know: what goes by a channel.

use super::{ReceivingEnd, SendingEnd};
use crate::transport::host::Host;
use ferriband_mpi_proto::fast::Shape;
use ferriband_mpi_proto::segment::{MAX_RANKS, area as rank_area, line};
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes of a block that are allocated when its channel is opened.
const BACKED: u32 = 32 << 10;

/// Ranks that have opened a channel to this one.
#[derive(Default)]
pub struct Newcomers {
    /// Those that have been seen, a bit for each.
    seen: [u64; MAX_RANKS as usize / 64],
}

impl Newcomers {
    /// One that has come since the last look.
    #[inline]
    pub fn next(&mut self, host: &Host) -> Option<u32> {
        for index in 0..host.ranks().div_ceil(64) {
            let bits = inbound_word(host, host.me(), index).load(Ordering::Acquire);
            let fresh = bits & !self.seen[index as usize];
            if fresh != 0 {
                let bit = fresh.trailing_zeros();
                self.seen[index as usize] |= 1 << bit;
                return Some(index * 64 + bit).filter(|rank| *rank < host.ranks());
            }
        }
        None
    }

    /// Whether one has come that has not been seen.
    pub fn has_next(&self, host: &Host) -> bool {
        (0..host.ranks().div_ceil(64)).any(|index| {
            let bits = inbound_word(host, host.me(), index).load(Ordering::Acquire);
            bits & !self.seen[index as usize] != 0
        })
    }
}

#[inline]
fn inbound_word(host: &Host, rank: u32, index: u32) -> &AtomicU64 {
    let segment = host.segment();
    let at = segment.layout().area(rank) + rank_area::INBOUND + u64::from(index) * 8;
    segment.word64(at)
}

/// Size and granules of a host's blocks.
fn shape(host: &Host) -> Shape {
    let granule = Shape::DEFAULT.granule();
    Shape::mapped(host.segment().layout().slot(), granule).unwrap_or(Shape::DEFAULT)
}

/// Bytes of the longest message that a channel takes as one record.
pub fn longest(host: &Host) -> usize {
    shape(host).longest() as usize
}

/// Opens the channel to `rank`: allocates the part of its block that is written to first, and tells
/// the receiver. An error is an errno.
pub fn open(host: &Host, rank: u32) -> io::Result<SendingEnd> {
    let (segment, me) = (host.segment(), host.me());
    let layout = segment.layout();
    let shape = shape(host);
    let backed = shape.size().min(BACKED);
    let end = layout.block(rank, me) + u64::from(shape.size());
    segment.allocate(end - u64::from(backed), backed)?;
    let at = layout.line(rank, me);
    let set = |field, value| segment.word32(at + field).store(value, Ordering::Relaxed);
    set(line::SIZE, shape.size());
    set(line::GRANULE, shape.granule());
    segment.word32(at + line::STATE).store(1, Ordering::Release);
    let bit = inbound_word(host, rank, me / 64);
    bit.fetch_or(1 << (me % 64), Ordering::SeqCst);
    host.ring(rank);
    Ok(SendingEnd::new(segment, (rank, me), shape, backed))
}

/// Allocates as much again of the block of the channel to `rank` as there is: it is written to from
/// its end to its beginning, and what is short needs no more. An error is an errno.
#[cold]
pub fn extend(host: &Host, rank: u32, sending: &mut SendingEnd) -> io::Result<()> {
    let layout = host.segment().layout();
    let bare = sending.bare();
    let more = bare.min(layout.slot() - bare);
    let block = layout.block(rank, host.me());
    let segment = host.segment();
    segment.allocate(block + u64::from(bare - more), more)?;
    sending.set_bare(bare - more);
    Ok(())
}

/// The channel that `rank` has opened; none if its line does not describe one.
pub fn accept(host: &Host, rank: u32) -> Option<ReceivingEnd> {
    let (segment, me) = (host.segment(), host.me());
    let at = segment.layout().line(me, rank);
    let get = |field| segment.word32(at + field).load(Ordering::Acquire);
    if get(line::STATE) != 1 {
        return None;
    }
    let shape = Shape::mapped(get(line::SIZE), get(line::GRANULE))?;
    if shape.size() > segment.layout().slot() {
        return None;
    }
    Some(ReceivingEnd::new(segment, me, rank, shape))
}
