//! Requests of the peer that are not over: RDMA that is under way or waits for room, and responses
//! that wait for a credit.
//!
//! Owns: both, and their bound. Must not know: memory.

use crate::memory::Granted;
use crate::message::{Header, Segment};
use crate::status::Status;
use crate::wire::Job;
use std::collections::VecDeque;

/// A long request of the peer's.
#[derive(Clone, Debug)]
pub(crate) struct Long<H> {
    /// It is a get: the bytes are written.
    pub writes: bool,
    /// The response, but for its status.
    pub response: Header,
    pub solicited: bool,
    pub granted: Granted<H>,
    /// The initiator's memory, cut to what was granted.
    pub segments: Vec<Segment>,
}

/// A response that waits for a credit.
#[derive(Clone, Debug)]
pub(crate) struct Waiting {
    pub header: Header,
    pub data: Vec<u8>,
    pub solicited: bool,
}

#[derive(Debug)]
pub(crate) struct Serving<H> {
    jobs: Vec<Option<Long<H>>>,
    free: Vec<u16>,
    /// Jobs that wait for room in the send queue, in their order.
    due: VecDeque<Job>,
    /// In the order in which the requests ended.
    pub waiting: VecDeque<Waiting>,
}

impl<H> Serving<H> {
    pub fn new(most: u16) -> Serving<H> {
        Serving {
            jobs: (0..most).map(|_| None).collect(),
            free: (0..most).rev().collect(),
            due: VecDeque::new(),
            waiting: VecDeque::new(),
        }
    }

    /// Whether one more request that has to be answered is more than the peer may have.
    pub fn is_full(&self) -> bool {
        self.waiting.len() + (self.jobs.len() - self.free.len()) >= self.jobs.len()
    }

    /// Takes a long request up; None where the peer has too many.
    pub fn add(&mut self, long: Long<H>) -> Option<Job> {
        let job = self.free.pop()?;
        self.jobs[usize::from(job)] = Some(long);
        Some(Job(job))
    }

    pub fn get(&self, job: Job) -> Option<&Long<H>> {
        self.jobs.get(usize::from(job.0))?.as_ref()
    }

    pub fn remove(&mut self, job: Job) -> Option<Long<H>> {
        let long = self.jobs.get_mut(usize::from(job.0))?.take()?;
        self.free.push(job.0);
        Some(long)
    }

    /// A job waits for room.
    pub fn wait(&mut self, job: Job) {
        self.due.push_back(job);
    }

    /// The job that has waited longest.
    pub fn first_due(&self) -> Option<Job> {
        self.due.front().copied()
    }

    /// That one waits no more.
    pub fn begun(&mut self) {
        self.due.pop_front();
    }

    pub fn has_due(&self) -> bool {
        !self.due.is_empty()
    }

    /// All that is held, when nothing goes on.
    pub fn drain(&mut self) -> impl Iterator<Item = Long<H>> + '_ {
        self.waiting.clear();
        self.due.clear();
        self.free = (0..self.jobs.len() as u16).rev().collect();
        self.jobs.iter_mut().filter_map(Option::take)
    }
}

impl<H> Long<H> {
    /// The response, now that it is known what became of the request.
    pub fn answer(&self, status: Status) -> Header {
        let mut header = self.response;
        header.status = status;
        if status != Status::Ok {
            (header.length, header.memory) = (0, 0);
        }
        header
    }
}

/// The first `length` bytes of pieces.
pub(crate) fn cut(segments: impl Iterator<Item = Segment>, length: u64) -> Vec<Segment> {
    let mut left = length;
    let cut = segments.map(|segment| {
        let here = segment.length.min(left);
        left -= here;
        Segment {
            length: here,
            ..segment
        }
    });
    cut.filter(|segment| segment.length > 0).collect()
}
