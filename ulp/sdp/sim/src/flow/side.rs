//! A side: its machine, its buffers, its program.
//!
//! Owns: what the program of a side wants to do, and the driver under the machine. Must not know:
//! when it is its turn.

use super::fabric::{Posted, Tag, What, Wire};
use super::{Kind, Plant};
use ferriband_sdp_proto::connection::{Config, Connection, Flow, HEADER_BYTES, Peer};
use ferriband_sdp_proto::connection::{Pair, Piece, ReadWork, SendWork, WriteWork};
use ferriband_sdp_proto::driver::Driver;
use ferriband_sdp_wire::{Bsdh, Mid};
use ferriband_seed::Rng;

/// Bytes of BSDH and advert in front of SrcAvail's position.
const SRC_AVAIL_BYTES: usize = 32;

/// What a program does.
pub(super) struct Program {
    /// Bytes that it sends, and how many it has given.
    pub total: u64,
    pub given: u64,
    /// Bytes of a call at most; how often a call says MSG_MORE, or the cork goes in or out, of a
    /// hundred.
    pub longest: u64,
    pub more: u64,
    pub corks: u64,
    pub corked: bool,
    /// Bytes that it has read, how many at a time, and after how many it reads no more.
    pub read: u64,
    pub most: u64,
    pub reads_until: u64,
    /// After having given so many bytes it computes for ever.
    pub computes_at: u64,
    pub computing: bool,
    /// It has said that it sends no more; it has seen the end.
    pub shut: bool,
    pub at_end: bool,
    /// How often it offers its buffer, how often it gives an offer up, or wants the peer's by
    /// messages, of a hundred.
    pub offers: u64,
    pub cancels: u64,
    pub refuses: u64,
    /// It reads nothing while its offer is out, as a program whose send does not return; it gives
    /// an offer up that takes too long.
    pub waits_for_offers: bool,
    /// Its offer is out; it fetches from the peer's.
    pub offering: bool,
    pub cancelled: bool,
    pub fetching: bool,
    /// It found no room, and nothing has happened since.
    pub blocked: bool,
    /// Its fetch is not over, and nothing has happened since it looked.
    pub blocked_fetch: bool,
    /// It reads nothing before this step.
    pub reads_from: u64,
}

const NEVER: u64 = u64::MAX;

impl Program {
    pub fn new(rng: &mut Rng, space: u64) -> Self {
        let most_bytes = rng.pick(&[space, 4 * space, 8 * space]).min(6_000);
        let total = rng.range(0, most_bytes);
        Program {
            total,
            given: 0,
            longest: rng.pick(&[1, 5, 40, space, 2 * space]).max(1),
            more: rng.pick(&[0, 0, 10, 50]),
            corks: rng.pick(&[0, 10, 30]),
            corked: false,
            read: 0,
            most: rng.pick(&[1, 7, 50, space]).max(1),
            reads_until: NEVER,
            computes_at: NEVER,
            computing: false,
            shut: false,
            at_end: false,
            offers: rng.pick(&[0, 5, 30]),
            cancels: rng.pick(&[0, 1, 10]),
            refuses: rng.pick(&[0, 10, 50]),
            waits_for_offers: rng.chance(50),
            offering: false,
            cancelled: false,
            fetching: false,
            blocked: false,
            blocked_fetch: false,
            reads_from: 0,
        }
    }

    pub fn reads(&self) -> bool {
        let waits = self.offering && self.waits_for_offers;
        self.read < self.reads_until && !self.computing && !waits
    }
}

/// A side.
pub(super) struct Side {
    pub config: Config,
    pub machine: Connection,
    pub send_memory: Vec<Tag>,
    pub memory: super::fabric::ReceiveMemory,
    pub program: Program,
    /// The machine may have works.
    pub stale: bool,
    /// The driver is woken by the next completion although the program computes.
    pub armed: bool,
    pub dead: bool,
    pub told_lost: bool,
    /// The program's buffer that it offers, and where the adapter thinks it is.
    pub offered: Vec<Tag>,
    pub offered_at: u64,
    /// What the last fetch has brought.
    pub fetched: Vec<Tag>,
    /// Counted as read, and not copied yet.
    pub uncopied: Option<Piece>,
}

/// Buffers of random sizes.
pub(super) fn config(rng: &mut Rng, kind: Kind) -> Config {
    let buffers = rng.range(4, 12) as u16;
    let buffer_bytes = rng.pick(&[1, 3, 8, 20, 64]);
    let space = u32::from(buffers) * buffer_bytes;
    let flow = match kind {
        Kind::Credit => Flow::Credit,
        Kind::Ring => Flow::Ring {
            receives: rng.pick(&[4, 5, 8, 20, 100]),
        },
        Kind::Nic => {
            let window_bytes = rng.range(1, u64::from(space / 4)) as u32;
            let more = rng.below(u64::from(2 * space)) as u32;
            Flow::Nic {
                window_bytes,
                reserve_bytes: window_bytes + rng.pick(&[0, 0, more]),
                offers: !rng.chance(15),
            }
        }
    };
    Config {
        flow,
        buffers,
        buffer_bytes,
        coalesce: !rng.chance(15),
    }
}

/// What a side believes of its peer.
pub(super) fn peer(config: &Config, plant: Option<Plant>) -> Peer {
    let mut peer = Peer::of(config);
    if plant == Some(Plant::ReserveLonger) {
        peer.receives -= 1;
    }
    peer
}

/// The transport under a machine: what it posts goes to the two directions.
pub(super) struct Posting<'a> {
    /// What leaves and what comes, of each queue pair.
    pub out: [&'a mut Wire; 2],
    pub inward: [&'a mut Wire; 2],
    pub rng: &'a mut Rng,
    pub plant: Option<Plant>,
}

/// The transport takes no more.
pub(super) struct Full;

impl Posting<'_> {
    fn now_and_then(&mut self, plant: Plant, one_in: u64) -> bool {
        self.plant == Some(plant) && self.rng.below(one_in) == 0
    }

    fn post(&mut self, pair: Pair, posted: Posted) {
        let out = &mut self.out[pair as usize];
        if self.plant == Some(Plant::CompletedEarly) {
            out.completions.push_back(posted.id);
        }
        out.works.push_back(posted);
    }
}

impl Driver for Posting<'_> {
    type Error = Full;

    fn post_receive(&mut self, pair: Pair, slot: u16) -> Result<(), Full> {
        if !self.now_and_then(Plant::ReceiveLost, 10) {
            self.inward[pair as usize].receives.push_back(slot);
        }
        if self.now_and_then(Plant::ReceiveEarly, 10) {
            self.inward[pair as usize].receives.push_back(slot);
        }
        Ok(())
    }

    fn post_send(&mut self, work: &SendWork) -> Result<(), Full> {
        let mut head = work.head.bytes().to_vec();
        let (bsdh, rest) = Bsdh::parse(&head).expect("the machine's own header");
        let is_update = bsdh.mid == Mid::Data && work.data.is_none();
        let has_tail = is_update && !rest.is_empty();
        if is_update && self.now_and_then(Plant::UpdateLost, 3) {
            return Ok(());
        }
        if self.plant == Some(Plant::BufsOneMore) {
            head[2..4].copy_from_slice(&(bsdh.bufs + 1).to_be_bytes());
        }
        if has_tail && self.plant == Some(Plant::TailEarly) {
            let at = HEADER_BYTES as usize;
            let tail = u32::from_be_bytes(head[at..at + 4].try_into().expect("four bytes"));
            head[at..at + 4].copy_from_slice(&(tail + 1).to_be_bytes());
        }
        if bsdh.mid == Mid::SrcAvail && self.plant == Some(Plant::OfferEarly) {
            let position = &mut head[SRC_AVAIL_BYTES..];
            let told = u32::from_be_bytes((&*position).try_into().expect("four bytes"));
            position.copy_from_slice(&told.saturating_sub(1).to_be_bytes());
        }
        let what = What::Send {
            head,
            data: work.data,
        };
        self.post(
            work.pair,
            Posted {
                id: work.id,
                what,
                landed: 0,
            },
        );
        Ok(())
    }

    fn post_write(&mut self, work: &WriteWork) -> Result<(), Full> {
        let off = u32::from(self.now_and_then(Plant::LandsOff, 10));
        let what = What::Write {
            from: work.from,
            to: work.to + off,
            immediate: work.immediate,
        };
        self.post(
            Pair::Stream,
            Posted {
                id: work.id,
                what,
                landed: 0,
            },
        );
        Ok(())
    }

    fn post_read(&mut self, work: &ReadWork) -> Result<(), Full> {
        self.post(
            work.pair,
            Posted {
                id: work.id,
                what: What::Read { from: work.from },
                landed: 0,
            },
        );
        Ok(())
    }
}
