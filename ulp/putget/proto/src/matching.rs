//! Matching reads and writes by the first driver of papers/002, without input and output.
//!
//! Owns: the machine of one side of a connection ([`Channel`]): which requests reads and writes
//! become, in which order they are posted, and how each of them ends. Must not know: verbs, memory,
//! threads, time.
//!
//! Only SENDs and receives are used, of one queue pair. The next read takes the next message,
//! whatever either means. A write of more bytes than a request takes becomes several SENDs, each
//! with immediate data: how many follow. A read of less than that is one receive; a longer one
//! posts its first receive alone, and the rest, and receives of later reads, when the first SEND
//! has told how many there are. So a message may have fewer bytes than its read, and fewer SENDs.
//! A longer one is refused by the adapter, since its receive, or the first that is beyond the read
//! and has no bytes, is too short; the connection ends.
//!
//! A SEND that finds no receive is sent again by the adapter for as long as it takes: a write waits
//! for its read. Credits could not do better: they would be messages, and take receives of reads.

use std::collections::VecDeque;

/// What the caller knows a transfer by.
pub type Token = u64;

/// How a transfer ended.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Outcome {
    /// So many bytes were moved.
    Moved(u64),
    /// The message was longer than its read. The connection has ended.
    TooLong,
    /// The connection was lost before.
    Lost,
}

/// A request to post.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Request {
    /// Of which read or write.
    pub token: Token,
    /// The first byte, counted in the memory of the read or write.
    pub at: u64,
    /// Bytes; at most as many as a request takes.
    pub length: u64,
    /// Immediate data of a SEND: how many SENDs of the message follow. 0 of a receive.
    pub follow: u32,
}

/// Why a read or a write does not begin.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NotBegun {
    /// The work queue has no room for its requests before others have ended.
    #[error("as many transfers as may be are under way")]
    Full,
    /// More SENDs than can be counted.
    #[error("a message has at most 2^32 requests")]
    TooLong,
    /// The connection is over.
    #[error("the connection is over")]
    Lost,
}

/// A completion that fits nothing that was posted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("a completion, or the number of requests that it tells of, fits nothing that is under way")]
pub struct Unexpected;

/// A write whose SENDs have not all completed.
#[derive(Debug)]
struct Write {
    token: Token,
    length: u64,
    /// SENDs of it in all; posted; completed.
    requests: u64,
    posted: u64,
    sent: u64,
}

/// A read whose message has not come.
#[derive(Debug)]
struct Read {
    token: Token,
    length: u64,
    /// Receives in all, as far as it is known.
    requests: u64,
    /// That number is final.
    is_told: bool,
    posted: u64,
    taken: u64,
    bytes: u64,
}

/// One side of a connection.
#[derive(Debug)]
pub struct Channel {
    /// Bytes that a request takes.
    request_bytes: u64,
    /// Requests that a work queue holds.
    depth: u64,
    writes: VecDeque<Write>,
    reads: VecDeque<Read>,
    /// Requests in the work queues.
    sends: u64,
    receives: u64,
    /// SENDs of writes that have not completed, posted or not.
    due: u64,
    ended: VecDeque<(Token, Outcome)>,
    over: bool,
}

impl Channel {
    /// A connection whose requests take so many bytes, at both sides, and whose work queues hold so
    /// many.
    pub fn new(request_bytes: u32, depth: u32) -> Channel {
        Channel {
            request_bytes: u64::from(request_bytes.max(1)),
            depth: u64::from(depth.max(1)),
            writes: VecDeque::new(),
            reads: VecDeque::new(),
            sends: 0,
            receives: 0,
            due: 0,
            ended: VecDeque::new(),
            over: false,
        }
    }

    /// SENDs of a message.
    fn requests(&self, length: u64) -> u64 {
        length.div_ceil(self.request_bytes).max(1)
    }

    /// Begins a write. Its SENDs find room in the work queue at once, unless it is the only one.
    ///
    /// # Errors
    /// It does not begin.
    pub fn write(&mut self, token: Token, length: u64) -> Result<(), NotBegun> {
        self.check(true, length)?;
        let requests = self.requests(length);
        self.due += requests;
        let (posted, sent) = (0, 0);
        self.writes.push_back(Write {
            token,
            length,
            requests,
            posted,
            sent,
        });
        Ok(())
    }

    /// Begins a read of at most so many bytes.
    ///
    /// # Errors
    /// It does not begin.
    pub fn read(&mut self, token: Token, length: u64) -> Result<(), NotBegun> {
        self.check(false, length)?;
        self.reads.push_back(Read {
            token,
            length,
            requests: 1,
            // the adapter refuses a message of several requests if the first is full
            is_told: length < self.request_bytes,
            posted: 0,
            taken: 0,
            bytes: 0,
        });
        Ok(())
    }

    fn check(&self, is_write: bool, length: u64) -> Result<(), NotBegun> {
        if self.over {
            return Err(NotBegun::Lost);
        }
        if self.requests(length) > 1 << 32 {
            return Err(NotBegun::TooLong);
        }
        match self.has_room(is_write, length) {
            true => Ok(()),
            false => Err(NotBegun::Full),
        }
    }

    /// Whether a write, or a read, of so many bytes finds room.
    pub fn has_room(&self, is_write: bool, length: u64) -> bool {
        match is_write {
            true => self.due == 0 || self.due + self.requests(length) <= self.depth,
            false => (self.reads.len() as u64) < self.depth,
        }
    }

    /// The next SEND to post.
    pub fn poll_send(&mut self) -> Option<Request> {
        if self.over || self.sends == self.depth {
            return None;
        }
        let mut writes = self.writes.iter_mut();
        let write = writes.find(|write| write.posted < write.requests)?;
        let at = write.posted * self.request_bytes;
        write.posted += 1;
        self.sends += 1;
        Some(Request {
            token: write.token,
            at,
            length: (write.length - at).min(self.request_bytes),
            follow: (write.requests - write.posted) as u32,
        })
    }

    /// The next receive to post.
    pub fn poll_receive(&mut self) -> Option<Request> {
        if self.over || self.receives == self.depth {
            return None;
        }
        for read in &mut self.reads {
            if read.posted < read.requests {
                let at = (read.posted * self.request_bytes).min(read.length);
                read.posted += 1;
                self.receives += 1;
                return Some(Request {
                    token: read.token,
                    at,
                    length: (read.length - at).min(self.request_bytes),
                    follow: 0,
                });
            }
            if !read.is_told {
                return None;
            }
        }
        None
    }

    /// The oldest SEND has completed.
    ///
    /// # Errors
    /// None is under way.
    pub fn handle_sent(&mut self) -> Result<(), Unexpected> {
        let write = self.writes.front_mut().ok_or(Unexpected)?;
        if write.sent == write.posted {
            return Err(Unexpected);
        }
        write.sent += 1;
        self.sends -= 1;
        self.due -= 1;
        if write.sent == write.requests {
            let end = (write.token, Outcome::Moved(write.length));
            self.writes.pop_front();
            self.ended.push_back(end);
        }
        Ok(())
    }

    /// The oldest receive has completed: with so many bytes, and so many SENDs of its message
    /// follow.
    ///
    /// # Errors
    /// None is posted, or the number of those that follow cannot be.
    pub fn handle_received(&mut self, bytes: u64, follow: u32) -> Result<(), Unexpected> {
        let read = self.reads.front_mut().ok_or(Unexpected)?;
        if read.taken == read.posted {
            return Err(Unexpected);
        }
        read.taken += 1;
        read.bytes += bytes;
        self.receives -= 1;
        let requests = read.taken + u64::from(follow);
        match read.is_told {
            // what fits into a receive that is shorter than a request is a message
            true if requests != read.requests => return Err(Unexpected),
            true => {}
            false => (read.requests, read.is_told) = (requests, true),
        }
        if follow == 0 {
            let end = (read.token, Outcome::Moved(read.bytes));
            self.reads.pop_front();
            self.ended.push_back(end);
        }
        Ok(())
    }

    /// The oldest SEND or the oldest receive was refused because its message is longer than its
    /// read. The connection is over.
    pub fn handle_too_long(&mut self, is_send: bool) {
        if self.over {
            return;
        }
        let token = match is_send {
            true => self.writes.pop_front().map(|write| write.token),
            false => self.reads.pop_front().map(|read| read.token),
        };
        self.ended
            .extend(token.map(|token| (token, Outcome::TooLong)));
        self.handle_lost();
    }

    /// The connection is over: all that has not ended has come to nothing.
    pub fn handle_lost(&mut self) {
        self.over = true;
        (self.sends, self.receives, self.due) = (0, 0, 0);
        let writes = self.writes.drain(..).map(|write| write.token);
        let tokens = writes.chain(self.reads.drain(..).map(|read| read.token));
        self.ended
            .extend(tokens.map(|token| (token, Outcome::Lost)));
    }

    /// The next transfer that has ended.
    pub fn poll_ended(&mut self) -> Option<(Token, Outcome)> {
        self.ended.pop_front()
    }

    /// Whether the connection is over.
    pub fn is_over(&self) -> bool {
        self.over
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Ends = Vec<(Token, Outcome)>;

    /// Two sides, and what their adapters do: SENDs meet receives in order.
    struct Pair {
        writer: Channel,
        reader: Channel,
        sends: VecDeque<Request>,
        receives: VecDeque<Request>,
    }

    impl Pair {
        fn new(depth: u32) -> Pair {
            Pair {
                writer: Channel::new(8, depth),
                reader: Channel::new(8, depth),
                sends: VecDeque::new(),
                receives: VecDeque::new(),
            }
        }

        fn has_room(&self, write: u64, read: u64) -> bool {
            self.writer.has_room(true, write) && self.reader.has_room(false, read)
        }

        fn run(&mut self) {
            loop {
                while let Some(send) = self.writer.poll_send() {
                    self.sends.push_back(send);
                }
                while let Some(receive) = self.reader.poll_receive() {
                    self.receives.push_back(receive);
                }
                let both = (self.sends.front(), self.receives.front());
                let (Some(send), Some(receive)) = both else {
                    return;
                };
                if send.length > receive.length {
                    self.writer.handle_too_long(true);
                    self.reader.handle_too_long(false);
                    return;
                }
                let (length, follow) = (send.length, send.follow);
                self.writer.handle_sent().expect("it was posted");
                let received = self.reader.handle_received(length, follow);
                received.expect("it was posted");
                self.sends.pop_front();
                self.receives.pop_front();
            }
        }

        fn ended(&mut self) -> (Ends, Ends) {
            let all = |channel: &mut Channel| std::iter::from_fn(|| channel.poll_ended()).collect();
            (all(&mut self.writer), all(&mut self.reader))
        }
    }

    #[test]
    fn a_message_of_any_length_takes_the_next_read_that_has_room() {
        for depth in [1, 2, 100] {
            let mut pair = Pair::new(depth);
            let lengths = (0..40).flat_map(|read| (0..=read).map(move |write| (write, read)));
            let lengths: Vec<(u64, u64)> = lengths.collect();
            for (token, (write, read)) in (0..).zip(&lengths) {
                if !pair.has_room(*write, *read) {
                    pair.run();
                }
                pair.writer.write(token, *write).expect("there is room");
                pair.reader.read(token, *read).expect("there is room");
            }
            pair.run();
            let expected: Vec<(Token, Outcome)> = (0..)
                .zip(&lengths)
                .map(|(token, (write, _))| (token, Outcome::Moved(*write)))
                .collect();
            assert_eq!(pair.ended(), (expected.clone(), expected), "{depth}");
        }
    }

    #[test]
    fn a_message_that_is_longer_than_its_read_ends_the_connection() {
        for read in 0..40 {
            for write in read + 1..=41 {
                let mut pair = Pair::new(9);
                for (token, length) in [(1, 0), (2, write), (3, 1)] {
                    pair.writer.write(token, length).expect("there is room");
                }
                for (token, length) in [(4, 0), (5, read), (6, 1)] {
                    pair.reader.read(token, length).expect("there is room");
                }
                pair.run();
                let ends = |tokens: [Token; 3]| {
                    let outcomes = [Outcome::Moved(0), Outcome::TooLong, Outcome::Lost];
                    Vec::from_iter(tokens.into_iter().zip(outcomes))
                };
                let expected = (ends([1, 2, 3]), ends([4, 5, 6]));
                assert_eq!(pair.ended(), expected, "{write} into {read}");
                assert_eq!(pair.writer.write(7, 1), Err(NotBegun::Lost));
                assert_eq!(pair.reader.read(7, 1), Err(NotBegun::Lost));
            }
        }
    }

    #[test]
    fn a_write_waits_for_its_read() {
        let mut pair = Pair::new(4);
        pair.writer.write(1, 20).expect("there is room");
        pair.run();
        assert_eq!(pair.ended(), (vec![], vec![]));
        pair.reader.read(2, 24).expect("there is room");
        pair.run();
        let moved = |token| vec![(token, Outcome::Moved(20))];
        assert_eq!(pair.ended(), (moved(1), moved(2)));
    }

    #[test]
    fn transfers_are_bounded_and_nonsense_is_found() {
        let mut channel = Channel::new(8, 2);
        channel.write(0, 9).expect("there is room");
        assert_eq!(channel.write(1, 1), Err(NotBegun::Full));
        assert!(channel.poll_send().is_some() && channel.poll_send().is_some());
        channel.handle_sent().expect("it was posted");
        channel.write(1, 1).expect("there is room");
        assert_eq!(channel.write(2, 1), Err(NotBegun::Full));
        channel.handle_sent().expect("it was posted");
        assert_eq!(channel.read(0, 1 << 40), Err(NotBegun::TooLong));
        assert_eq!(channel.handle_received(0, 0), Err(Unexpected));
        assert_eq!(channel.handle_sent(), Err(Unexpected));
        channel.read(0, 4).expect("there is room");
        assert!(channel.poll_receive().is_some());
        // a message of two requests begins with a full one
        assert_eq!(channel.handle_received(3, 1), Err(Unexpected));
    }
}
