//! A queue pair: what is posted arrives in order, each write's bytes in any order but the last; and the block they arrive in.

use crate::{Fault, Rng};
use ferriband_mpi_proto::envelope::ENVELOPE;
use ferriband_mpi_proto::fast::{Block, Busy, Design, Plan, Put, Writer};
use std::collections::VecDeque;
use std::ops::Range;

/// Requests that one queue pair holds.
pub const DEPTH: usize = 12;

/// A message by SEND.
#[derive(Clone, Copy, Debug)]
pub struct Message {
    /// Number, or 0.
    pub seq: u32,
    /// Granules consumed of the other direction's channel.
    pub credit: u32,
    /// What it says.
    pub body: Body,
}

/// What a message says.
#[derive(Clone, Copy, Debug)]
pub enum Body {
    /// A message of the program, of so many bytes.
    Data(u32),
    Open(Plan, u32),
    Opened(Plan, u32, bool),
    Close(u32),
    Closed(u32),
    Pause {
        epoch: u32,
        own: bool,
    },
    Paused(u32),
    Resume {
        epoch: u32,
        owns: u32,
    },
}

/// A request.
#[derive(Clone, Debug)]
pub enum Op {
    /// A record, or a mark.
    Write {
        /// The channel's life.
        life: u32,
        /// Bytes that are still to come, the next one at the end.
        bytes: Vec<(u32, u8)>,
        /// What is not consumed once all has come.
        record: Option<Range<usize>>,
    },
    /// Credit.
    Word(u64),
    Send(Message),
}

/// The block of a receiver.
#[derive(Clone, Debug)]
pub struct Memory {
    pub bytes: Vec<u8>,
    /// Bytes of records that are not consumed.
    pub alive: Vec<bool>,
    pub records: VecDeque<Range<usize>>,
    pub clears: bool,
}

impl Memory {
    pub fn new(plan: Plan, fault: Option<Fault>) -> Self {
        Self {
            bytes: vec![0; plan.size() as usize],
            alive: vec![false; plan.size() as usize],
            records: VecDeque::new(),
            clears: fault != Some(Fault::NoClear),
        }
    }
}

impl Block for Memory {
    fn word(&self, at: u32) -> u64 {
        self.bytes.word(at)
    }

    fn envelope(&self, at: u32) -> [u8; ENVELOPE] {
        self.bytes.envelope(at)
    }

    fn clear(&mut self, at: u32) {
        if self.clears {
            Block::clear(&mut self.bytes, at);
        }
    }
}

/// Posts writes.
pub struct Post<'a> {
    pub queue: &'a mut VecDeque<Op>,
    pub mirror: &'a mut Vec<u8>,
    pub design: Design,
    pub life: u32,
    pub rng: &'a mut Rng,
    pub fault: Option<Fault>,
}

impl Writer for Post<'_> {
    type Payload = u8;

    fn put(&mut self, put: &Put<'_>, payload: Option<u8>) -> Result<(), Busy> {
        if self.queue.len() >= DEPTH {
            return Err(Busy);
        }
        let (start, whole) = (put.at as usize, put.whole() as usize);
        let mut bytes = self.mirror[start..start + whole].to_vec();
        if !self.design.is_mirrored() {
            // What has no meaning is what hurts most.
            bytes.fill(0xff);
        }
        put.lay(&mut bytes, |to| to.fill(payload.unwrap_or(0)));
        if self.fault == Some(Fault::NoZeros) && self.design == Design::VariableBottom {
            bytes[..put.front.len()].fill(0x55);
        }
        self.mirror[start..start + whole].copy_from_slice(&bytes);
        let zeros = if self.design == Design::VariableBottom {
            put.front.len()
        } else {
            0
        };
        let record = payload.map(|_| start + zeros..start + whole);
        let bytes = self.order(put.at, &bytes);
        let life = self.life;
        self.queue.push_back(Op::Write {
            life,
            bytes,
            record,
        });
        Ok(())
    }

    fn old(&self, at: u32) -> u8 {
        if self.fault == Some(Fault::BlindMirror) {
            0
        } else {
            self.mirror[at as usize]
        }
    }
}

impl Post<'_> {
    /// The bytes in the reverse order of their coming: ascending, descending or any, but the last one last.
    fn order(&mut self, at: u32, bytes: &[u8]) -> Vec<(u32, u8)> {
        let mut all: Vec<(u32, u8)> = (at..).zip(bytes.iter().copied()).collect();
        let last = all.pop().expect("a write is not empty");
        match self.rng.below(3) {
            0 => all.reverse(),
            1 => (),
            _ => {
                for at in (1..all.len()).rev() {
                    all.swap(at, self.rng.below(at as u64 + 1) as usize);
                }
            }
        }
        if self.fault == Some(Fault::LastByteFirst) {
            all.push(last);
        } else {
            all.insert(0, last);
        }
        all
    }
}
