//! A port of the simulated fabric and its end of the link, laid out by what a packet's hop looks at: three lines of memory, and nothing of the port at the other end, which on a
//! large fabric would be a line more that no cache holds.

use super::short::Short;
use super::{Machine, NONE};
use crate::credit::{FLOW_BYTES, Receiver, Sender};
use crate::frame::Frame;
use crate::switch::HEADER_BYTES;
use crate::time::Time;

/// A port: what each packet asks of it is in the first line, what its buffer frees in the second, and what it has told the other end of that in the third.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub(super) struct Port {
    /// When the wire from here is free.
    pub wire_free: Time,
    /// The first of what its buffer frees and has not told yet.
    pub frees_at: Time,
    /// The event that will ask this port's machine for a packet.
    pub wake: Time,
    /// From a packet's first bit here to the decision about its header at the other end; also from a flow-control packet's first bit here to its effect there.
    pub delay: Time,
    pub machine: Machine,
    /// The node's port 0.
    pub base: u32,
    /// The port at the other end, or [`NONE`].
    pub peer: u32,
    /// The first VL's counters; the others' are in [`super::Net`].
    pub lane: Lane,
    /// VLs that have freed something (credits by packets).
    pub due: u16,
    pub number: u8,
    /// It looked for credits in vain.
    pub starving: bool,
    /// The port at the other end did.
    pub peer_starves: bool,
    /// There is an adapter at the other end.
    pub to_adapter: bool,
    /// What its buffer frees, and has not told yet.
    pub freed: Short<Freed, 3>,
    /// What a switch received here; an adapter counts for itself.
    pub rcv_bytes: u64,
    pub rcv_packets: u64,
    /// Flow-control packets on their way from here, or there and not looked at.
    pub words: Short<Word, 3>,
    /// Wire time of a flow-control packet.
    pub flow_time: Time,
    pub flow_packets: u64,
}

// both delays are one
const _: () = assert!(HEADER_BYTES == FLOW_BYTES);
const _: () = assert!(size_of::<Port>() == 192);
const _: () = assert!(std::mem::offset_of!(Port, freed) == 64);
const _: () = assert!(std::mem::offset_of!(Port, words) == 128);

/// Both ends of a VL's flow control at a port.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lane {
    pub sender: Sender,
    pub receiver: Receiver,
}

impl Lane {
    /// Between two empty buffers of so many blocks.
    pub fn new(buffer_blocks: u16) -> Lane {
        let (mut sender, receiver) = (Sender::default(), Receiver::new(buffer_blocks));
        sender.limit(receiver.credit_limit());
        Lane { sender, receiver }
    }
}

/// The place of a port's VL among those that do not lie in the port itself; none of the first.
#[inline]
pub(super) fn behind_first(port: usize, vl: u8, data_vls: usize) -> Option<usize> {
    let other = usize::from(vl).checked_sub(1)?;
    Some(port * (data_vls - 1) + other)
}

/// A flow-control packet on its way.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Word {
    /// The time, and the VL in the upper [`VL_BITS`]; in two halves, so that three of them take 36 bytes.
    at: [u32; 2],
    pub fctbs: u16,
    pub fccl: u16,
}

const VL_BITS: u32 = 4;

impl Word {
    /// A flow-control packet of a VL that comes at a time.
    #[inline]
    pub const fn new(at: Time, vl: u8, fctbs: u16, fccl: u16) -> Word {
        let upper = (at.0 >> 32) as u32 | (vl as u32) << (u32::BITS - VL_BITS);
        Word {
            at: [at.0 as u32, upper],
            fctbs,
            fccl,
        }
    }

    /// When it comes.
    #[inline]
    pub const fn at(&self) -> Time {
        let upper = self.at[1] & (u32::MAX >> VL_BITS);
        Time(self.at[0] as u64 | (upper as u64) << 32)
    }

    /// Its VL.
    #[inline]
    pub const fn vl(&self) -> u8 {
        (self.at[1] >> (u32::BITS - VL_BITS)) as u8
    }
}

/// Blocks that become free.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Freed {
    /// In two halves, so that three of them take 36 bytes.
    at: [u32; 2],
    pub blocks: u16,
    pub vl: u8,
}

impl Freed {
    /// Blocks of a VL, free at a time.
    #[inline]
    pub const fn new(at: Time, vl: u8, blocks: u16) -> Freed {
        Freed {
            at: [at.0 as u32, (at.0 >> 32) as u32],
            blocks,
            vl,
        }
    }

    /// The time.
    #[inline]
    pub const fn at(&self) -> Time {
        Time(self.at[0] as u64 | (self.at[1] as u64) << 32)
    }
}

impl Port {
    /// A port without a link.
    pub fn new(machine: Machine, base: u32, number: u8, lane: Lane) -> Port {
        Port {
            wire_free: Time::ZERO,
            frees_at: Time::NEVER,
            wake: Time::NEVER,
            delay: Time::ZERO,
            machine,
            base,
            peer: NONE,
            lane,
            due: 0,
            number,
            starving: false,
            peer_starves: false,
            to_adapter: false,
            freed: Short::default(),
            rcv_bytes: 0,
            rcv_packets: 0,
            words: Short::default(),
            flow_time: Time::ZERO,
            flow_packets: 0,
        }
    }
    /// A switch has received a packet here.
    #[inline]
    pub fn received(&mut self, frame: &Frame) {
        self.rcv_packets += 1;
        self.rcv_bytes += u64::from(frame.length_bytes);
    }

    /// Drops the first of two flow-control packets that have both come by now, if the second says all that it said.
    #[inline]
    pub fn replaces(&mut self, now: Time) -> bool {
        let [first, second, _] = self.words.in_place();
        let both = first.vl() == second.vl() && second.at() <= now;
        if both {
            self.words.pop_front();
        }
        both
    }
}
