//! The bytes of a message of a schedule: where they lie, or a copy.
//!
//! Owns: what a piece of a schedule is as a range of memory. Must not know: in which order steps
//! are done.

use super::exec::{Execution, broken, no_memory};
use crate::errors::Outcome;
use crate::ground::memory::{Buffer, Sink, Source};
use ferriband_mpi_coll::{Piece, Slot, Step};
use std::sync::Arc;

impl Execution {
    /// The bytes of a message: where they lie if that is in one piece, else a copy.
    pub(super) fn pack(&self, pieces: &[Piece]) -> Outcome<(Source, Option<Buffer>)> {
        let parts = pieces.iter().map(|piece| self.source(*piece));
        let parts = parts.collect::<Outcome<Vec<Source>>>()?;
        let Some((first, rest)) = parts.split_first() else {
            return Ok((Source::EMPTY, None));
        };
        let whole = rest
            .iter()
            .try_fold(*first, |whole, part| whole.followed_by(part));
        if let Some(whole) = whole {
            return Ok((whole, None));
        }
        let bytes = parts.iter().map(Source::len).sum();
        let mut bounce = Buffer::try_new(bytes).ok_or_else(no_memory)?;
        let (all, mut at) = (bounce.sink(), 0);
        for part in &parts {
            part.copy_to(&all.part(at, part.len()));
            at += part.len();
        }
        Ok((bounce.source(), Some(bounce)))
    }

    /// Where a message comes in: its place if that is one piece, else memory from which it is put
    /// there.
    pub(super) fn room(&mut self, pieces: &[Piece]) -> Outcome<(Sink, Option<Buffer>)> {
        let parts = pieces.iter().map(|piece| self.sink(*piece));
        let parts = parts.collect::<Outcome<Vec<Sink>>>()?;
        let Some((first, rest)) = parts.split_first() else {
            return Ok((Sink::EMPTY, None));
        };
        let whole = rest
            .iter()
            .try_fold(*first, |whole, part| whole.followed_by(part));
        if let Some(whole) = whole {
            return Ok((whole, None));
        }
        let bytes = parts.iter().map(Sink::len).sum();
        let mut bounce = Buffer::try_new(bytes).ok_or_else(no_memory)?;
        Ok((bounce.sink(), Some(bounce)))
    }

    /// Puts what has come to its places.
    pub(super) fn unpack(&mut self, node: u32, bounce: &Buffer) -> Outcome {
        let schedule = Arc::clone(&self.prepared.schedule);
        let Step::Recv { pieces, .. } = &schedule.nodes()[node as usize].step else {
            return Ok(());
        };
        let (all, mut at) = (bounce.source(), 0);
        for piece in schedule.pieces(pieces) {
            let sink = self.sink(*piece)?;
            all.part(at, sink.len()).copy_to(&sink);
            at += sink.len();
        }
        Ok(())
    }

    /// A piece's first byte in its block, and its bytes.
    fn range(&self, piece: Piece) -> Outcome<(usize, usize)> {
        let bytes = |units: u64| {
            usize::try_from(units)
                .ok()
                .and_then(|units| units.checked_mul(self.prepared.buffers.unit))
        };
        bytes(piece.at).zip(bytes(piece.count)).ok_or_else(broken)
    }

    pub(super) fn source(&self, piece: Piece) -> Outcome<Source> {
        let (at, length) = self.range(piece)?;
        let block = match piece.slot {
            Slot::Send => self
                .prepared
                .buffers
                .send
                .get(piece.block as usize)
                .copied(),
            Slot::Recv => self
                .prepared
                .buffers
                .recv
                .get(piece.block as usize)
                .map(Sink::source),
            Slot::Temp => Some(self.temp.source()),
        };
        block
            .filter(|block| at + length <= block.len())
            .map(|block| block.part(at, length))
            .ok_or_else(broken)
    }

    pub(super) fn sink(&mut self, piece: Piece) -> Outcome<Sink> {
        let (at, length) = self.range(piece)?;
        let block = match piece.slot {
            Slot::Recv => self
                .prepared
                .buffers
                .recv
                .get(piece.block as usize)
                .copied(),
            Slot::Temp => Some(self.temp.sink()),
            Slot::Send => None,
        };
        block
            .filter(|block| at + length <= block.len())
            .map(|block| block.part(at, length))
            .ok_or_else(broken)
    }
}
