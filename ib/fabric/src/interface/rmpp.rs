//! Long messages as many packets: the reliable multi-packet protocol's two ends (IBA 13.6).
//!
//! A message is a header, which each segment repeats, and data. The receiver acknowledges when it has got what its window allows, and at the end; what does not come in
//! order is dropped, and the sender begins again after the last acknowledged segment.

use super::{AgentId, Far, MOST_BYTES};
use crate::Time;
use ferriband_wire::mad::{MAD_LEN, MadHeader, ManagementClass};
use ferriband_wire::{Header, RMPP_DATA_LEN, Rmpp, RmppFlags, RmppStatus, RmppType};

/// Segments that a receiver lets come before it answers.
const WINDOW: u32 = 64;
/// How long an end waits for the other.
pub(super) const PATIENCE: Time = Time::from_ns(2_000_000_000);
/// How often the sender begins again without getting on.
const TRIES: u8 = 5;
/// How long a receiver remembers a message that it has handed over: as long as its sender may begin again for want of the last acknowledgement, and once more.
const REMEMBERED: Time = Time(PATIENCE.0 * (TRIES as u64 + 1));

/// True for classes whose packets have an RMPP header.
pub(super) fn has_header(class: ManagementClass) -> bool {
    // subnet administration, device administration, boot information, vendors' second range
    matches!(class.0, 0x03 | 0x10 | 0x12 | 0x30..=0x4f)
}

/// Bytes of a segment before its data.
fn head_len(class: ManagementClass) -> usize {
    match class.0 {
        0x03 => 56,
        0x10 | 0x12 => 64,
        0x30..=0x4f => 40,
        _ => MadHeader::LEN + Rmpp::LEN,
    }
}

fn header_of(bytes: &[u8]) -> Option<Rmpp> {
    let rest = bytes.get(MadHeader::LEN..)?;
    Rmpp::parse(rest).ok().map(|(rmpp, _)| rmpp)
}

/// True if the packet is a part of a transfer.
pub(super) fn is_active(bytes: &[u8]) -> bool {
    has_header(ManagementClass(bytes[1])) && header_of(bytes).is_some_and(|rmpp| rmpp.is_active())
}

pub(super) fn is_data(bytes: &[u8]) -> bool {
    header_of(bytes).is_some_and(|rmpp| rmpp.rmpp_type == RmppType::DATA)
}

fn put(mad: &mut [u8; MAD_LEN], rmpp: &Rmpp) {
    // all fields fit: they are ours
    let _ = rmpp.emit(&mut mad[MadHeader::LEN..]);
}

/// A message that goes out.
#[derive(Clone, Debug)]
pub(super) struct Going {
    pub agent: AgentId,
    pub to: Far,
    pub bytes: Vec<u8>,
    pub due: Time,
    head: usize,
    segments: u32,
    /// The next to send, from 1.
    next: u32,
    /// The last that the receiver lets come, and the last that it has.
    window_last: u32,
    acknowledged: u32,
    tries: u8,
    over: bool,
}

impl Going {
    /// None if the message is shorter than its header.
    pub fn new(now: Time, agent: AgentId, to: Far, bytes: Vec<u8>) -> Option<Going> {
        let head = head_len(ManagementClass(*bytes.get(1)?));
        let data = bytes.len().checked_sub(head)?;
        Some(Going {
            agent,
            to,
            due: now + PATIENCE,
            head,
            segments: (data.div_ceil(MAD_LEN - head)).max(1) as u32,
            next: 1,
            window_last: 1,
            acknowledged: 0,
            tries: TRIES,
            over: false,
            bytes,
        })
    }

    /// The next segment, if it may go.
    pub fn poll(&mut self) -> Option<[u8; MAD_LEN]> {
        if self.over || self.next > self.segments || self.next > self.window_last {
            return None;
        }
        let number = self.next;
        self.next += 1;
        let each = MAD_LEN - self.head;
        let data = &self.bytes[self.head..];
        let at = (number as usize - 1) * each;
        let part = &data[at..data.len().min(at + each)];
        let class_head = (self.head - MadHeader::LEN - Rmpp::LEN) as u32;
        let (mut flags, mut length) = (RmppFlags::empty(), 0);
        if number == 1 {
            flags |= RmppFlags::FIRST;
            length = data.len() as u32 + self.segments * class_head;
        }
        if number == self.segments {
            flags |= RmppFlags::LAST;
            length = part.len() as u32 + class_head;
        }
        let mut mad = [0; MAD_LEN];
        mad[..self.head].copy_from_slice(&self.bytes[..self.head]);
        mad[self.head..self.head + part.len()].copy_from_slice(part);
        put(&mut mad, &Rmpp::data(number, flags, length));
        Some(mad)
    }

    /// An acknowledgement, or the end.
    pub fn answered(&mut self, now: Time, mad: &[u8; MAD_LEN]) {
        let Some(rmpp) = header_of(mad) else { return };
        match rmpp.rmpp_type {
            RmppType::ACK => {
                let new = rmpp.segment > self.acknowledged && rmpp.segment < self.next;
                if new {
                    self.acknowledged = rmpp.segment;
                    self.tries = TRIES;
                    self.due = now + PATIENCE;
                }
                if rmpp.segment == self.acknowledged {
                    self.window_last = self.window_last.max(rmpp.length_or_window);
                }
                self.over = self.acknowledged == self.segments;
            }
            RmppType::STOP | RmppType::ABORT => self.over = true,
            _ => {}
        }
    }

    /// Nothing came in time: begins again; false if that was tried often enough.
    pub fn again(&mut self, now: Time) -> bool {
        self.due = now + PATIENCE;
        self.next = self.acknowledged + 1;
        self.tries = self.tries.saturating_sub(1);
        self.tries > 0
    }

    pub fn is_done(&self) -> bool {
        self.over
    }
}

/// What a segment made of a message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Step {
    /// It is not whole, or was handed over before.
    Waits,
    /// It is whole.
    Whole(Vec<u8>),
    /// It will never be.
    Broken,
}

/// A message that comes in.
#[derive(Clone, Debug)]
pub(super) struct Coming {
    pub due: Time,
    head: usize,
    bytes: Vec<u8>,
    /// The last that came in order.
    last: u32,
    window_last: u32,
    over: bool,
}

impl Coming {
    pub fn new(now: Time, class: ManagementClass) -> Coming {
        Coming {
            due: now + PATIENCE,
            head: head_len(class),
            bytes: Vec::new(),
            last: 0,
            window_last: 1,
            over: false,
        }
    }

    /// Takes a segment. What is to be answered, and what became of the message.
    pub fn take(&mut self, now: Time, mad: &[u8; MAD_LEN]) -> (Option<[u8; MAD_LEN]>, Step) {
        let Some(rmpp) = header_of(mad) else {
            return (None, Step::Broken);
        };
        self.due = now + PATIENCE;
        if rmpp.segment != self.last + 1 || self.over {
            if self.over {
                self.due = now + REMEMBERED;
            }
            // again what it has: the answer was lost; anything else comes again
            let old = rmpp.segment <= self.last;
            return (old.then(|| self.acknowledge(mad)), Step::Waits);
        }
        let class_head = self.head - MadHeader::LEN - Rmpp::LEN;
        debug_assert!(class_head < RMPP_DATA_LEN);
        let first = rmpp.flags.contains(RmppFlags::FIRST);
        let length = rmpp.data_len(class_head);
        let (Some(length), true) = (length, first == (rmpp.segment == 1)) else {
            return (Some(refuse(mad, RmppStatus::BAD_LENGTH)), Step::Broken);
        };
        if self.bytes.len() + length > MOST_BYTES {
            return (
                Some(refuse(mad, RmppStatus::RESOURCES_EXHAUSTED)),
                Step::Broken,
            );
        }
        if first {
            self.bytes.extend_from_slice(&mad[..self.head]);
        }
        self.last = rmpp.segment;
        self.bytes
            .extend_from_slice(&mad[self.head..self.head + length]);
        if rmpp.flags.contains(RmppFlags::LAST) {
            self.over = true;
            self.due = now + REMEMBERED;
            let answer = self.acknowledge(mad);
            return (Some(answer), Step::Whole(std::mem::take(&mut self.bytes)));
        }
        if self.last < self.window_last {
            return (None, Step::Waits);
        }
        self.window_last = self.last.saturating_add(WINDOW);
        (Some(self.acknowledge(mad)), Step::Waits)
    }

    /// True once the message was handed over.
    pub fn is_whole(&self) -> bool {
        self.over
    }

    fn acknowledge(&self, mad: &[u8; MAD_LEN]) -> [u8; MAD_LEN] {
        let rmpp = Rmpp {
            version: 1,
            rmpp_type: RmppType::ACK,
            flags: RmppFlags::ACTIVE,
            segment: self.last,
            length_or_window: if self.over {
                self.last
            } else {
                self.window_last
            },
            ..Rmpp::default()
        };
        answer_to(mad, &rmpp)
    }
}

/// A packet of the protocol in answer to a segment: its header, to the other side.
fn answer_to(mad: &[u8; MAD_LEN], rmpp: &Rmpp) -> [u8; MAD_LEN] {
    let mut answer = [0; MAD_LEN];
    answer[..MadHeader::LEN].copy_from_slice(&mad[..MadHeader::LEN]);
    // the response bit
    answer[3] ^= 0x80;
    put(&mut answer, rmpp);
    answer
}

fn refuse(mad: &[u8; MAD_LEN], status: RmppStatus) -> [u8; MAD_LEN] {
    let rmpp = Rmpp {
        version: 1,
        rmpp_type: RmppType::ABORT,
        flags: RmppFlags::ACTIVE,
        status,
        ..Rmpp::default()
    };
    answer_to(mad, &rmpp)
}
