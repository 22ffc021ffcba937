//! The messages of the programs, the memory that they lie in and come to, and what must hold of
//! them.
//!
//! H2 once and in order; H3 over when the peer has it or a log does; H4 no byte for what is over;
//! H5 no key of a closed adapter, and no word that all is written before it is; H7 one message's
//! fault is its own; M1 the contents.

use super::wire::{Outcome, Way};
use crate::Rng;

/// A message of a program.
#[derive(Clone, Debug)]
pub struct Letter {
    pub from: usize,
    pub to: usize,
    pub index: u64,
    pub way: Way,
    pub tag: i32,
    /// What its sender calls it while it is offered: a name comes again.
    pub name: u32,
    /// Bytes of an eager one.
    pub size: u32,
    /// Parts of a long one.
    pub parts: u32,
    /// The rank whose memory for it is not there.
    pub bad: Option<usize>,
    /// Its sender has asked for it back.
    pub is_recalled: bool,
    /// Its sender has given it up, and its receiver.
    pub given_up: [bool; 2],
    is_taken: bool,
    is_met: bool,
    pub is_sent: bool,
    pub is_received: bool,
    pub is_cancelled: bool,
    pub has_error: bool,
    sink: Vec<Option<u64>>,
}

/// What part `chunk` of a message says.
pub fn content(letter: usize, chunk: u32) -> u64 {
    ((letter as u64) << 16 | u64::from(chunk)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// All messages of a run.
#[derive(Debug, Default)]
pub struct Letters(pub Vec<Letter>);

impl Letters {
    /// A new message, the `index`th from one rank to another.
    pub fn add(&mut self, rng: &mut Rng, from: usize, to: usize, index: u64, faulty: u64) -> usize {
        let way = match rng.below(12) {
            0..5 => Way::Eager,
            5 => Way::Synchronous,
            6..8 => Way::Read,
            8..11 => Way::Whole,
            _ => Way::Pieces,
        };
        let is_long = !matches!(way, Way::Eager | Way::Synchronous);
        let parts = if is_long { 1 + rng.below(4) as u32 } else { 0 };
        let can_fail = matches!(way, Way::Read | Way::Whole) && rng.chance(faulty);
        let bad = can_fail.then(|| if rng.chance(500) { from } else { to });
        let size = [8, 8, 200, 2000][rng.below(4) as usize];
        self.0.push(Letter {
            from,
            to,
            index,
            way,
            tag: (index / 5 % 2) as i32,
            name: 0,
            size,
            parts,
            bad,
            is_recalled: false,
            given_up: [false; 2],
            is_taken: false,
            is_met: false,
            is_sent: false,
            is_received: false,
            is_cancelled: false,
            has_error: false,
            sink: vec![None; parts as usize],
        });
        self.0.len() - 1
    }

    /// It, or the word of where it lies, is taken as the `delivered`th message of its sender.
    pub fn take(&mut self, id: usize, delivered: u64) -> Outcome {
        let one = &mut self.0[id];
        if one.index != delivered || one.is_taken {
            let (index, from, to) = (one.index, one.from, one.to);
            return Err(format!(
                "H2: message {index} of {from} comes to {to} as message {delivered}"
            ));
        }
        one.is_taken = true;
        Ok(())
    }

    /// A receive is there for it: its memory may be written to.
    pub fn meet(&mut self, id: usize) {
        self.0[id].is_met = true;
    }

    /// A part is read from its sender's memory.
    pub fn read(&self, id: usize, chunk: u32) -> Outcome<u64> {
        let one = &self.0[id];
        if one.is_sent {
            return Err(format!("H4: message {id} is read, and its send is over"));
        }
        Ok(content(id, chunk))
    }

    /// A part comes to its receiver's memory.
    pub fn place(&mut self, id: usize, chunk: u32, value: u64) -> Outcome {
        let one = &mut self.0[id];
        if !one.is_met || one.is_received {
            return Err(format!(
                "H4: a part of message {id} is written, and its receive is over"
            ));
        }
        one.sink[chunk as usize] = Some(value);
        Ok(())
    }

    /// All parts of `other` come to the memory of message `id`.
    pub fn land(&mut self, id: usize, other: usize) -> Outcome {
        let parts = self.0[other].parts;
        if id != other {
            return Err(format!(
                "M1: message {other} comes to the receive of message {id}"
            ));
        }
        for chunk in 0..parts {
            self.place(id, chunk, content(other, chunk))?;
        }
        Ok(())
    }

    /// Its receive is over.
    pub fn received(&mut self, id: usize, is_error: bool, law: &str) -> Outcome {
        let one = &mut self.0[id];
        if one.is_received {
            return Err(format!("H2: the receive of message {id} is over twice"));
        }
        let mut chunks = (0..).zip(&one.sink);
        let is_whole = chunks.all(|(chunk, value)| *value == Some(content(id, chunk)));
        if !is_error && !is_whole {
            let sink = &one.sink;
            return Err(format!("{law}: message {id} is over with {sink:x?}"));
        }
        one.is_received = true;
        self.error(id, is_error)
    }

    /// Its send is over.
    pub fn sent(&mut self, id: usize, is_error: bool) -> Outcome {
        let one = &mut self.0[id];
        let is_owned = matches!(one.way, Way::Eager | Way::Pieces);
        if !is_owned && !is_error && !one.is_received {
            return Err(format!(
                "H3: the send of message {id} is over, and nobody has its bytes"
            ));
        }
        one.is_sent = true;
        self.error(id, is_error)
    }

    /// It was taken back.
    pub fn cancelled(&mut self, id: usize) -> Outcome {
        let one = &mut self.0[id];
        if one.is_met {
            return Err(format!("H2: message {id} is taken back and received"));
        }
        (one.is_sent, one.is_cancelled) = (true, true);
        Ok(())
    }

    fn error(&mut self, id: usize, is_error: bool) -> Outcome {
        let one = &mut self.0[id];
        one.has_error |= is_error;
        if is_error && one.bad.is_none() && one.given_up == [false; 2] {
            return Err(format!(
                "H7: message {id} ends with an error that is not its own"
            ));
        }
        Ok(())
    }

    /// What is so of it at the end.
    pub fn at_rest(&self, id: usize) -> Outcome {
        let one = &self.0[id];
        let is_over = one.is_sent && (one.is_received || one.is_cancelled);
        if !is_over {
            return Err(format!("H9: message {id} is not over: {one:?}"));
        }
        if one.bad.is_some() && !one.has_error && !one.is_cancelled {
            return Err(format!("H7: message {id} has no error: {one:?}"));
        }
        Ok(())
    }
}
