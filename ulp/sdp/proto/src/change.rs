//! The change of one direction of a TCP connection over to SDP, and back.
//!
//! Owns: the phases of a direction, and where in the stream each begins. Must not know: how the two
//! sides tell each other. The writing side W and the reading side R see the same [`Marks`]; R
//! counts what it has read in a [`Place`].
//!
//! The stream of a direction is what TCP carries up to [`Marks::offset`], then what SDP carries up
//! to [`Marks::end`], then what TCP carries behind a copy. When W goes back to TCP it does not wait
//! for R: it sends through TCP what R may not have read, from [`Marks::copy_from`] to the end, and
//! R passes over what it has read already. So an exit of W waits for nobody, and whoever reads the
//! kernel's socket after R, without this library, finds the rest of the stream there.

/// What carries the bytes that W sends. A direction goes through the phases once, in this order;
/// R alone goes from `Ready` back to `Tcp`, and W from either to `Done`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u32)]
pub enum Phase {
    /// TCP, and R may wait in the kernel.
    Tcp = 0,
    /// TCP, and R looks at both: W may change over. Set by R.
    Ready = 1,
    /// SDP from [`Marks::offset`] on. Set by W.
    Sdp = 2,
    /// TCP is about to carry the copy, and nothing else. Set by W.
    Back = 3,
    /// TCP, for good: the copy is in the kernel's socket. Set by W.
    Done = 4,
}

impl Phase {
    /// The phase of a word in shared memory; None for a number that no side writes.
    pub fn from_word(word: u32) -> Option<Phase> {
        match word {
            0 => Some(Phase::Tcp),
            1 => Some(Phase::Ready),
            2 => Some(Phase::Sdp),
            3 => Some(Phase::Back),
            4 => Some(Phase::Done),
            _ => None,
        }
    }
}

/// Where a direction changes: what W has told R. Positions of SDP count the bytes that it has
/// carried in this direction.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Marks {
    /// Bytes that TCP carries before SDP. From `Sdp` on.
    pub offset: u64,
    /// Position at which SDP's part of the stream ends. From `Back` on.
    pub end: u64,
    /// Position from which TCP carries a copy of SDP's part, up to its end. From `Done` on: W looks
    /// at what R has read only after R could see `Back`.
    pub copy_from: u64,
}

/// How far R has read. Its side keeps it; the peer cannot write it.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Place {
    /// Bytes taken from the kernel's socket since the connection was made, passed over or read.
    pub from_tcp: u64,
    /// Bytes taken from SDP.
    pub from_sdp: u64,
}

/// Where R's next byte comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Next {
    /// The kernel's socket; so many bytes at most, if there is a limit. Its end is the stream's,
    /// unless there is a limit.
    Tcp {
        /// Bytes before SDP begins.
        most: Option<u64>,
    },
    /// SDP has so many bytes.
    Sdp {
        /// How many, at least 1.
        bytes: u64,
    },
    /// SDP, which has none; in `Back` all of it is read, and W has not said what TCP carries.
    Empty,
    /// So many bytes of the kernel's socket are a copy of what was read: they are passed over.
    PassOver {
        /// How many, at least 1.
        bytes: u64,
    },
}

/// What the other side has written cannot be.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Broken {
    /// A position of SDP that is behind what was read, or farther on than its buffer is long.
    #[error("position {got} lies outside {from} to {to}")]
    Position {
        /// The position.
        got: u64,
        /// The least that is possible.
        from: u64,
        /// The most that is possible.
        to: u64,
    },
    /// R has taken more bytes from TCP than W says it carried before SDP.
    #[error("SDP begins at byte {offset}, and {taken} bytes came by TCP")]
    Offset {
        /// Where W has changed over.
        offset: u64,
        /// What R has taken from TCP.
        taken: u64,
    },
    /// A phase that does not exist.
    #[error("phase {0}")]
    Phase(u32),
}

fn within(got: u64, from: u64, to: u64) -> Result<u64, Broken> {
    if (from..=to).contains(&got) {
        Ok(got)
    } else {
        Err(Broken::Position { got, from, to })
    }
}

impl Place {
    /// Where the next byte comes from. `head` is how many bytes W has given to SDP, as R last saw
    /// it; `buffer` how many it can hold.
    ///
    /// # Errors
    /// What W has written cannot be: the connection is to be given up.
    pub fn next(
        &self,
        phase: Phase,
        marks: &Marks,
        head: u64,
        buffer: u64,
    ) -> Result<Next, Broken> {
        if phase < Phase::Sdp {
            return Ok(Next::Tcp { most: None });
        }
        if self.from_tcp < marks.offset {
            let most = Some(marks.offset - self.from_tcp);
            return Ok(Next::Tcp { most });
        }
        let limit = self.from_sdp.saturating_add(buffer);
        let end = match phase {
            Phase::Sdp => head,
            _ => marks.end,
        };
        let bytes = within(end, self.from_sdp, limit)? - self.from_sdp;
        if phase == Phase::Sdp && self.from_tcp > marks.offset {
            let (offset, taken) = (marks.offset, self.from_tcp);
            return Err(Broken::Offset { offset, taken });
        }
        if bytes > 0 {
            return Ok(Next::Sdp { bytes });
        }
        if phase < Phase::Done {
            return Ok(Next::Empty);
        }
        match self.copied(marks, buffer)? {
            0 => Ok(Next::Tcp { most: None }),
            bytes => Ok(Next::PassOver { bytes }),
        }
    }

    /// As [`Place::next`], where others take bytes from the kernel's socket as well, whom R does
    /// not see: they may take what W copies as soon as it goes back, so R takes none from SDP.
    /// `from_tcp` is what the kernel says was taken.
    ///
    /// # Errors
    /// As [`Place::next`].
    pub fn next_beside(&self, phase: Phase, marks: &Marks, buffer: u64) -> Result<Next, Broken> {
        Ok(match phase {
            Phase::Tcp | Phase::Ready => Next::Tcp { most: None },
            Phase::Sdp | Phase::Back => match marks.offset.saturating_sub(self.from_tcp) {
                0 => Next::Empty,
                most => Next::Tcp { most: Some(most) },
            },
            Phase::Done => match self.copied(marks, buffer)? {
                0 => Next::Tcp { most: None },
                bytes => Next::PassOver { bytes },
            },
        })
    }

    /// Bytes of the kernel's socket that R has to pass over before the stream goes on there, for
    /// one that reads SDP no more: in `Done`. None are while bytes that TCP carried before SDP are
    /// unread: then nothing was read of SDP, and the copy is all of it.
    ///
    /// # Errors
    /// As [`Place::next`].
    pub fn pass_over_now(&self, marks: &Marks, buffer: u64) -> Result<u64, Broken> {
        self.copied(marks, buffer)
    }

    /// The place of one side of which somebody took bytes from TCP who did not know whether W had
    /// changed over and gone back, from `Back` on: what lies behind the offset was the copy's.
    #[must_use]
    pub fn with_copy_taken(self, marks: &Marks) -> Place {
        let copied = match self.from_tcp.saturating_sub(marks.offset) {
            0 => 0,
            // W has said where the copy begins before it sent some of it
            taken => marks.copy_from.saturating_add(taken).min(marks.end),
        };
        Place {
            from_sdp: self.from_sdp.max(copied),
            ..self
        }
    }

    /// What of the copy was read from SDP and is still unread in the kernel's socket.
    fn copied(&self, marks: &Marks, buffer: u64) -> Result<u64, Broken> {
        let least = marks.end.saturating_sub(buffer);
        let from = within(marks.copy_from, least, marks.end.min(self.from_sdp))?;
        let read = self.from_sdp.min(marks.end) - from;
        let passed = self.from_tcp.saturating_sub(marks.offset);
        Ok(read.saturating_sub(passed))
    }
}

/// Whether W may change over: what TCP still holds, `unacknowledged_bytes`, must leave room for a
/// copy of all that SDP may hold, so that going back never waits for a reader. An empty queue
/// always takes 32 KiB in one call, whatever its limit (measured on Linux 6.18).
pub fn may_change(unacknowledged_bytes: u64, send_buffer_bytes: u64, buffer: u64) -> bool {
    if unacknowledged_bytes == 0 {
        return buffer <= (32 << 10).max(send_buffer_bytes / 2);
    }
    unacknowledged_bytes + buffer <= send_buffer_bytes / 2
}

/// Whether W may ever change over with such a buffer: if not, it is TCP's for good.
pub fn can_change(send_buffer_bytes: u64, buffer: u64) -> bool {
    may_change(0, send_buffer_bytes, buffer)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUFFER: u64 = 100;

    fn place(from_tcp: u64, from_sdp: u64) -> Place {
        Place { from_tcp, from_sdp }
    }

    fn marks(offset: u64, end: u64, copy_from: u64) -> Marks {
        Marks {
            offset,
            end,
            copy_from,
        }
    }

    #[test]
    fn tcp_comes_first_then_sdp_then_tcp_behind_the_copy() {
        let begun = marks(10, 0, 0);
        let next = |place: Place, phase, marks, head| place.next(phase, &marks, head, BUFFER);
        assert_eq!(
            next(place(4, 0), Phase::Ready, begun, 0),
            Ok(Next::Tcp { most: None })
        );
        assert_eq!(
            next(place(4, 0), Phase::Sdp, begun, 7),
            Ok(Next::Tcp { most: Some(6) })
        );
        assert_eq!(
            next(place(10, 0), Phase::Sdp, begun, 7),
            Ok(Next::Sdp { bytes: 7 })
        );
        assert_eq!(next(place(10, 7), Phase::Sdp, begun, 7), Ok(Next::Empty));
        // W has gone back after 9 bytes, and thought that 5 of them were read.
        let over = marks(10, 9, 5);
        assert_eq!(
            next(place(10, 7), Phase::Back, over, 9),
            Ok(Next::Sdp { bytes: 2 })
        );
        assert_eq!(
            next(place(10, 9), Phase::Done, over, 9),
            Ok(Next::PassOver { bytes: 4 })
        );
        assert_eq!(
            next(place(13, 9), Phase::Done, over, 9),
            Ok(Next::PassOver { bytes: 1 })
        );
        assert_eq!(
            next(place(14, 9), Phase::Done, over, 9),
            Ok(Next::Tcp { most: None })
        );
        assert_eq!(
            next(place(99, 9), Phase::Done, over, 9),
            Ok(Next::Tcp { most: None })
        );
    }

    #[test]
    fn who_reads_sdp_no_more_passes_over_what_it_has_read() {
        let over = marks(10, 9, 5);
        assert_eq!(place(10, 7).pass_over_now(&over, BUFFER), Ok(2));
        assert_eq!(place(10, 5).pass_over_now(&over, BUFFER), Ok(0));
        assert_eq!(place(8, 0).pass_over_now(&marks(10, 9, 0), BUFFER), Ok(0));
    }

    #[test]
    fn the_copy_is_passed_over_only_when_w_has_said_where_it_begins() {
        let back = marks(10, 9, 0);
        let next = |phase| place(10, 9).next(phase, &back, 9, BUFFER);
        assert_eq!(next(Phase::Back), Ok(Next::Empty));
        assert_eq!(next(Phase::Done), Ok(Next::PassOver { bytes: 9 }));
    }

    #[test]
    fn who_took_the_copy_for_the_stream_does_not_read_it_again() {
        let over = marks(10, 9, 0);
        assert_eq!(place(14, 0).with_copy_taken(&over), place(14, 4));
        assert_eq!(place(25, 0).with_copy_taken(&over), place(25, 9));
        assert_eq!(place(8, 0).with_copy_taken(&over), place(8, 0));
        let next = place(14, 4).next(Phase::Done, &over, 9, BUFFER);
        assert_eq!(next, Ok(Next::Sdp { bytes: 5 }));
        let next = place(25, 9).next(Phase::Done, &over, 9, BUFFER);
        assert_eq!(next, Ok(Next::Tcp { most: None }));
    }

    #[test]
    fn beside_others_sdp_is_not_read_and_the_kernel_says_what_was_taken() {
        let next = |place: Place, phase, marks| place.next_beside(phase, &marks, BUFFER);
        let begun = marks(10, 0, 0);
        let some = Ok(Next::Tcp { most: Some(6) });
        assert_eq!(next(place(4, 0), Phase::Sdp, begun), some);
        assert_eq!(next(place(10, 5), Phase::Sdp, begun), Ok(Next::Empty));
        let over = marks(10, 9, 5);
        assert_eq!(next(place(12, 5), Phase::Back, over), Ok(Next::Empty));
        let rest = Ok(Next::Tcp { most: None });
        assert_eq!(next(place(12, 5), Phase::Done, over), rest);
        assert_eq!(
            next(place(11, 7), Phase::Done, over),
            Ok(Next::PassOver { bytes: 1 })
        );
        assert_eq!(place(12, 5).with_copy_taken(&over), place(12, 7));
        assert_eq!(place(11, 7).with_copy_taken(&over), place(11, 7));
        assert_eq!(place(99, 5).with_copy_taken(&over), place(99, 9));
        assert_eq!(place(10, 7).with_copy_taken(&over), place(10, 7));
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let next = |place: Place, phase, marks, head| place.next(phase, &marks, head, BUFFER);
        let begun = marks(10, 0, 0);
        // a head that goes back, and one beyond the buffer
        assert!(next(place(10, 7), Phase::Sdp, begun, 6).is_err());
        assert!(next(place(10, 7), Phase::Sdp, begun, 108).is_err());
        // bytes in TCP behind the change
        assert!(next(place(11, 7), Phase::Sdp, begun, 7).is_err());
        // a copy from beyond what was read would leave a gap, one from too far back cannot be
        assert!(next(place(10, 9), Phase::Done, marks(10, 9, 10), 9).is_err());
        assert!(
            place(10, 5)
                .pass_over_now(&marks(10, 9, 6), BUFFER)
                .is_err()
        );
        assert!(next(place(10, 300), Phase::Done, marks(10, 300, 199), 300).is_err());
        assert_eq!(Phase::from_word(5), None);
    }

    #[test]
    fn a_change_leaves_room_for_the_copy() {
        assert!(may_change(0, 4096, 32 << 10));
        assert!(!may_change(0, 4096, 64 << 10));
        assert!(may_change(0, 128 << 10, 64 << 10));
        assert!(may_change(10, 256 << 10, 64 << 10));
        assert!(!may_change(100 << 10, 256 << 10, 64 << 10));
    }
}

#[cfg(test)]
mod laws;
