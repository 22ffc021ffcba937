//! Buffered messages: copies in memory that the program has attached to a communicator, a session or the process.
//!
//! Each message has a place in the buffer until it has gone; a place costs [`COST`] besides its bytes, though nothing is stored there: far less than MPI_BSEND_OVERHEAD, by which the
//! standard lets programs reckon, so that those find room, too, that reckon with less (MPICH's tests do). MPI_BUFFER_AUTOMATIC: the copies lie in memory of the runtime's own.

use crate::constants::{MPI_ERR_BUFFER, MPI_ERR_NO_MEM};
use crate::errors::{MpiError, Outcome};
use crate::ground::memory::{Buffer, Sink, Source};
use crate::objects::comms::WORLD;
use crate::p2p::point::Point;
use crate::p2p::request::{Request, Work};
use crate::p2p::runtime::Runtime;
use crate::p2p::{Started, Target};

/// Bytes that a message takes of the buffer besides its own.
const COST: usize = 64;

const _: () = assert!(COST <= crate::constants::MPI_BSEND_OVERHEAD as usize);

/// What a buffer is attached to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// All communicators without one of their own.
    Process,
    /// The communicator with this index.
    Comm(u32),
    /// The communicators of the session with this handle.
    Session(i32),
}

/// All buffers.
#[derive(Default)]
pub struct Buffers {
    attached: Vec<Attached>,
    last: u32,
}

struct Attached {
    number: u32,
    owner: Owner,
    /// None: as much as messages need.
    room: Option<Sink>,
    /// Messages in order of their places: first byte, bytes, number.
    places: Vec<(usize, usize, u64)>,
    last: u64,
    /// Who waits for all messages up to this number.
    flushes: Vec<(u64, u32)>,
}

impl Attached {
    /// A place for `length` bytes; its first one.
    fn place(&mut self, length: usize) -> Option<usize> {
        let room = self.room.map_or(usize::MAX, |room| room.len());
        let need = length.checked_add(COST)?;
        let (mut at, mut index) = (0, 0);
        for (begin, taken, _) in &self.places {
            if begin - at >= need {
                break;
            }
            at = begin + taken;
            index += 1;
        }
        if room - at < need {
            return None;
        }
        self.last += 1;
        self.places.insert(index, (at, need, self.last));
        Some(at)
    }
}

impl Buffers {
    fn of(&mut self, owner: Owner) -> Option<&mut Attached> {
        let mut all = self.attached.iter_mut();
        all.find(|one| one.owner == owner)
    }

    /// Whether all messages of a buffer have gone.
    pub fn is_empty(&mut self, owner: Owner) -> bool {
        self.of(owner).is_none_or(|one| one.places.is_empty())
    }

    /// Gives a buffer back whose messages have gone: where it lies, or none for
    /// MPI_BUFFER_AUTOMATIC; nothing if there is none.
    pub fn detach(&mut self, owner: Owner) -> Option<Option<Sink>> {
        let at = self.attached.iter().position(|one| one.owner == owner)?;
        Some(self.attached.swap_remove(at).room)
    }
}

impl Point {
    /// The number of the buffer that messages of a communicator take: its own, its session's, or the process's.
    pub fn buffer_for(&mut self, comm: u32) -> Outcome<u32> {
        let session = self.objects.comms[comm].session;
        let owners = [
            Some(Owner::Comm(comm)),
            session.map(Owner::Session),
            Some(Owner::Process),
        ];
        let mut owners = owners.into_iter().flatten();
        owners
            .find_map(|owner| self.buffers.of(owner).map(|one| one.number))
            .ok_or_else(|| MpiError::with(MPI_ERR_BUFFER, "no buffer is attached"))
    }

    /// Attaches a buffer; none: MPI_BUFFER_AUTOMATIC.
    pub fn attach(&mut self, owner: Owner, room: Option<Sink>) -> Outcome {
        if self.buffers.of(owner).is_some() {
            let text = "a buffer is attached already";
            return Err(MpiError::with(MPI_ERR_BUFFER, text));
        }
        self.buffers.last += 1;
        self.buffers.attached.push(Attached {
            number: self.buffers.last,
            owner,
            room,
            places: Vec::new(),
            last: 0,
            flushes: Vec::new(),
        });
        Ok(())
    }
}

impl Runtime {
    /// Begins to send a copy, unless there is no room for it: false.
    pub fn send_copy(&mut self, buffer: u32, to: Target, source: Source) -> Outcome<bool> {
        let Some(one) = self
            .point
            .buffers
            .attached
            .iter_mut()
            .find(|one| one.number == buffer)
        else {
            return Err(MpiError::with(MPI_ERR_BUFFER, "the buffer is detached"));
        };
        let Some(at) = one.place(source.len()) else {
            return Ok(false);
        };
        let message = one.last;
        let (copy, memory) = match one.room {
            Some(room) => (room.part(at, source.len()), None),
            None => {
                let text = "for a buffered message";
                let mut memory = Buffer::try_new(source.len())
                    .ok_or_else(|| MpiError::with(MPI_ERR_NO_MEM, text))?;
                (memory.sink(), Some(memory))
            }
        };
        source.copy_to(&copy);
        let started = match self.start_send(to, copy.source(), false) {
            Ok(started) => started,
            Err(error) => {
                self.leave_buffer(buffer, message);
                return Err(error);
            }
        };
        match started {
            Started::Done => self.leave_buffer(buffer, message),
            Started::Pending(request) => {
                let mut whole = Request::special(Work::Buffered(buffer, message), to.comm);
                whole.freed = true;
                whole.memory = memory;
                let whole = self.point.requests.add(whole)?;
                self.adopt(whole, request);
            }
        }
        Ok(true)
    }

    /// A message has gone: its place is free.
    pub fn leave_buffer(&mut self, buffer: u32, message: u64) {
        let mut all = self.point.buffers.attached.iter_mut();
        let Some(one) = all.find(|one| one.number == buffer) else {
            return;
        };
        one.places.retain(|(_, _, number)| *number != message);
        let oldest = one.places.iter().map(|(_, _, number)| *number).min();
        let over = |until: u64| oldest.is_none_or(|oldest| oldest > until);
        let (done, left) = std::mem::take(&mut one.flushes)
            .into_iter()
            .partition::<Vec<_>, _>(|(until, _)| over(*until));
        one.flushes = left;
        for (_, request) in done {
            self.finish(request);
        }
    }

    /// A request that is over when the messages have gone that lie in a buffer now.
    pub fn start_flush(&mut self, owner: Owner) -> Outcome<u32> {
        let request = self
            .point
            .requests
            .add(Request::special(Work::Flush, WORLD))?;
        match self.point.buffers.of(owner) {
            Some(one) if !one.places.is_empty() => {
                let until = one.last;
                one.flushes.push((until, request));
            }
            _ => self.finish(request),
        }
        Ok(request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_found_between_others_and_given_back() {
        let mut memory = Buffer::new(4 * 1000);
        let mut one = Attached {
            number: 1,
            owner: Owner::Process,
            room: Some(memory.sink()),
            places: Vec::new(),
            last: 0,
            flushes: Vec::new(),
        };
        let length = 1000 - COST;
        for at in 0..4 {
            assert_eq!(one.place(length), Some(at * 1000));
        }
        assert_eq!(one.place(0), None, "full");
        one.places.remove(1);
        assert_eq!(one.place(length + 1), None);
        assert_eq!(one.place(length - 10), Some(1000));
        assert_eq!(one.place(0), None, "10 bytes are less than a place costs");
        assert_eq!(one.place(usize::MAX), None);
        one.places.clear();
        assert_eq!(one.place(4000 - COST), Some(0));
    }
}
