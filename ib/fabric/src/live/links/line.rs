//! What a cable of a live fabric is made of: the outputs at its ends, and the counters of its credits.
//!
//! Owns what waits at an output and by which tables its arbiter chooses. When something goes is decided by [`super::Links`].

use super::{BUFFER_BLOCKS, LANES, NEVER_REPEATED, Waiting};
use crate::arbiter::{Arbiter, Entry, Tables};
use crate::congestion::Marker;
use crate::credit::LinkEnd;
use crate::time::{LinkRate, Time};
use ferriband_wire::attributes::VlArbitrationBlock;
use std::collections::VecDeque;

/// One direction of a cable: what waits at the port that sends.
#[derive(Debug)]
pub(super) struct Output {
    pub queues: [VecDeque<Waiting>; LANES as usize],
    pub bytes: usize,
    pub arbiter: Arbiter,
    /// What the arbiter was made of.
    pub tables: ([VlArbitrationBlock; 4], u8),
    /// The lanes that it serves.
    pub served: u16,
    /// The wire is busy until then.
    pub wire_free: Time,
    /// It is asked again when the wire is free.
    pub woken: bool,
    /// It is asked again when a packet has lived too long.
    pub aged: bool,
    /// Something waits and the wire is idle since then.
    pub blocked: Option<Time>,
    /// It is asked again then, when a flow that is held back may send.
    pub rises: Option<Time>,
    /// Of each lane: which packets are marked.
    pub markers: [Marker; LANES as usize],
}

impl Output {
    pub fn new(now: Time) -> Output {
        let tables = Tables::even(0);
        Output {
            queues: Default::default(),
            bytes: 0,
            arbiter: Arbiter::new(&tables),
            tables: Default::default(),
            served: 0,
            wire_free: now,
            woken: false,
            aged: false,
            blocked: None,
            rises: None,
            markers: Default::default(),
        }
    }

    /// Lanes with packets.
    pub fn waiting(&self) -> u16 {
        let lanes = self.queues.iter().enumerate();
        lanes.fold(0, |mask, (lane, queue)| {
            mask | u16::from(!queue.is_empty()) << lane
        })
    }

    /// The arbiter follows the tables that the port has been given.
    pub fn follow(&mut self, blocks: &[VlArbitrationBlock; 4], limit: u8) {
        if self.served != 0 && self.tables.1 == limit && self.tables.0 == *blocks {
            return;
        }
        let entries = |halves: &[VlArbitrationBlock]| -> Vec<Entry> {
            let all = halves.iter().flat_map(|half| half.0.iter());
            all.map(|entry| Entry {
                vl: entry.vl.0,
                weight: entry.weight,
            })
            .collect()
        };
        let tables = Tables {
            low: entries(&blocks[..2]),
            high: entries(&blocks[2..]),
            limit,
        };
        let both = tables.low.iter().chain(&tables.high);
        let used = both.filter(|entry| entry.weight > 0 && entry.vl < LANES);
        self.served = used.fold(0, |mask, entry| mask | 1 << entry.vl);
        self.arbiter = Arbiter::new(&tables);
        self.tables = (*blocks, limit);
    }
}

/// The two directions of a cable; number 0 is from its first end to its second.
#[derive(Debug)]
pub(super) struct Line {
    pub ends: [LinkEnd; 2],
    pub outputs: [Output; 2],
    pub rate: LinkRate,
    /// Counts how often the link came up anew: what belongs to an earlier one is no more.
    pub generation: u32,
    /// Of each direction: packets and flow-control packets on the wire.
    pub flying: [u32; 2],
    /// Of each direction the lanes that carried something.
    pub used: [u8; 2],
}

impl Line {
    pub fn new(now: Time, rate: LinkRate) -> Line {
        let mut line = Line {
            ends: [(); 2].map(|()| LinkEnd::new(now, LANES, BUFFER_BLOCKS, &NEVER_REPEATED)),
            outputs: [Output::new(now), Output::new(now)],
            rate,
            generation: 0,
            flying: [0; 2],
            used: [0; 2],
        };
        line.begin(now);
        line
    }

    /// Both ends tell each other how much room there is.
    pub fn begin(&mut self, now: Time) {
        for side in 0..2 {
            while let Some(flow) = self.ends[side].next(now) {
                self.ends[1 - side].heard(now, flow);
            }
        }
    }
}
