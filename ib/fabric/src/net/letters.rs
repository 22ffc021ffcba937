//! What parts of a fabric tell each other. Within a window nothing that happens in one part depends on what happens in another within it; so each writes down what goes over its borders,
//! and the others read it before the next window.
//!
//! The port at the other end of a link that leaves a part has a stand-in on this side: a [`super::port::Port`] that is told of all that frees its buffer and of when its wire is busy, and so
//! says the same flow-control packets at the same times as the port that it stands for, whenever it is asked. Nothing of it counts.

use super::part::Part;
use crate::frame::Frame;
use crate::time::Time;
use ferriband_prefetch::lines;

/// Letters from one to which memory is asked for.
const AHEAD: usize = 8;

/// What happened at a port whose link leaves its part.
#[derive(Clone, Copy, Debug)]
pub(super) enum Letter {
    /// A packet goes to the other end; the wire is busy with it until its `end`.
    Packet {
        now: Time,
        end: Time,
        header_at: Time,
        frame: Frame,
    },
    /// Blocks of its buffer will be free at a time.
    Freed {
        now: Time,
        at: Time,
        blocks: u16,
        vl: u8,
    },
}

/// Where a link leads to: the other part, the port there, and what stands there for the port here.
#[derive(Clone, Copy, Debug)]
pub(super) struct Door {
    pub part: u16,
    pub port: u32,
    pub stand_in: u32,
}

/// A letter with its address.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sealed {
    port: u32,
    stand_in: u32,
    letter: Letter,
}

const _: () = assert!(size_of::<Sealed>() <= 64);

/// A part's letters.
#[derive(Debug, Default)]
pub(super) struct Mail {
    /// By stand-in, counted from the border.
    pub doors: Vec<Door>,
    /// What was written since it was fetched last, by part.
    pub written: Vec<Vec<Sealed>>,
}

impl Mail {
    /// To the port that a stand-in stands for. (Apart, so that a fabric in one piece has it out of its way.)
    #[inline(never)]
    pub fn post(&mut self, stand_in: usize, letter: Letter) {
        let door = self.doors[stand_in];
        self.written[usize::from(door.part)].push(Sealed {
            port: door.port,
            stand_in: door.stand_in,
            letter,
        });
    }
}

impl Part {
    /// Reads what another part has written, and leaves nothing.
    pub(super) fn read_letters(&mut self, letters: &mut Vec<Sealed>) {
        for (at, sealed) in letters.iter().enumerate() {
            if let Some(next) = letters.get(at + AHEAD)
                && let Some(port) = self.ports.get(next.stand_in as usize)
            {
                lines(port, 3);
            }
            let stand_in = sealed.stand_in as usize;
            match sealed.letter {
                Letter::Packet {
                    now,
                    end,
                    header_at,
                    frame,
                } => {
                    self.now = now;
                    // what it owed then went first
                    self.settle(stand_in, now);
                    self.ports[stand_in].wire_free = end;
                    self.launch(sealed.port as usize, frame, header_at);
                }
                Letter::Freed {
                    now,
                    at,
                    blocks,
                    vl,
                } => {
                    self.now = now;
                    let came = self.lane(stand_in, vl).receiver.received(blocks);
                    debug_assert!(came, "more becomes free than a buffer has");
                    self.frees(stand_in, at, vl, blocks);
                }
            }
        }
        letters.clear();
    }
}
