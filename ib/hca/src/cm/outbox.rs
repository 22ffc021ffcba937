//! What is for other processes of this host and waits until their post boxes have room.
//!
//! Owns the waiting messages, within bounds. The kernel takes few messages per socket (10 on many systems), but long ones: management
//! datagrams that wait for the same process go together as soon as one of them fits. Must not know what they say.

use std::collections::{BTreeMap, VecDeque};

use ferriband_memory::host::{HAND_OVER_BODY, HAND_OVER_HEAD, HostError};
use ferriband_wire::mad::MAD_LEN;

use crate::process::message::HEAD_MAD;
use crate::progress::Engine;

/// How soon a full post box is tried again.
const AGAIN_NS: u64 = 200_000;
/// Bytes that wait at the most: some thousand messages. Beyond, they are lost, and asked for again by those who miss them.
const MOST_BYTES: usize = 2 << 20;

/// Messages that go at once.
#[derive(Debug)]
struct Parcel {
    head: [u8; HAND_OVER_HEAD],
    body: Vec<u8>,
}

/// What waits, by the slot of the process that it is for.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    waiting: BTreeMap<u32, VecDeque<Parcel>>,
    bytes: usize,
    /// When it is tried again.
    again_at: Option<u64>,
}

impl Outbox {
    /// Hands something over, now or soon.
    ///
    /// # Errors
    /// It is lost.
    pub fn hand(
        &mut self,
        engine: &Engine,
        slot: u32,
        head: &[u8; HAND_OVER_HEAD],
        body: &[u8],
    ) -> Result<(), Refused> {
        if !self.waiting.contains_key(&slot) {
            match post(engine, slot, head, body) {
                Err(Refused::Full) => {}
                done => return done,
            }
        }
        self.keep(slot, head, body)
    }

    fn keep(&mut self, slot: u32, head: &[u8; HAND_OVER_HEAD], body: &[u8]) -> Result<(), Refused> {
        if self.bytes + body.len() > MOST_BYTES {
            return Err(Refused::Full);
        }
        self.bytes += body.len();
        let parcels = self.waiting.entry(slot).or_default();
        match parcels.back_mut() {
            Some(last)
                if is_mads(head, body)
                    && is_mads(&last.head, &last.body)
                    && last.body.len() + body.len() <= HAND_OVER_BODY =>
            {
                last.body.extend_from_slice(body);
            }
            _ => parcels.push_back(Parcel {
                head: *head,
                body: body.to_vec(),
            }),
        }
        self.again_at
            .get_or_insert_with(|| ferriband_memory::wait::now().0 + AGAIN_NS);
        Ok(())
    }

    /// Tries again what waits, if it is time.
    pub fn again(&mut self, engine: &Engine, now: u64) {
        if self.again_at.is_none_or(|at| at > now) {
            return;
        }
        let Outbox { waiting, bytes, .. } = self;
        waiting.retain(|slot, parcels| {
            while let Some(parcel) = parcels.front() {
                if let Err(Refused::Full) = post(engine, *slot, &parcel.head, &parcel.body) {
                    return true;
                }
                *bytes -= parcel.body.len();
                parcels.pop_front();
            }
            false
        });
        self.again_at = (!self.waiting.is_empty()).then_some(now + AGAIN_NS);
    }

    /// When [`Outbox::again`] is due; never if nothing waits.
    pub fn due(&self) -> u64 {
        self.again_at.unwrap_or(u64::MAX)
    }
}

fn is_mads(head: &[u8; HAND_OVER_HEAD], body: &[u8]) -> bool {
    head[0] == HEAD_MAD && body.len().is_multiple_of(MAD_LEN)
}

/// Why something was not handed over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Refused {
    /// There is no room, there or here.
    Full,
    /// Nobody has that slot, or who has it takes nothing.
    Gone,
    /// This process cannot send.
    Unsent,
}

fn post(
    engine: &Engine,
    slot: u32,
    head: &[u8; HAND_OVER_HEAD],
    body: &[u8],
) -> Result<(), Refused> {
    let member = engine
        .process
        .registry
        .member_in(slot)
        .ok_or(Refused::Gone)?;
    let own = engine.post_box().map_err(|_| Refused::Unsent)?;
    own.send(member.process, head, body)
        .map_err(|error| match error {
            HostError::Busy { .. } => Refused::Full,
            HostError::Gone { .. } => Refused::Gone,
            _ => Refused::Unsent,
        })
}
