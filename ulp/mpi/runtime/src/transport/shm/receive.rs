//! Messages from ranks of this host: what lies in their channels, and in places of the pairs.
//!
//! Owns: the order of a channel's records, and what is told of them to their sender. Must not know:
//! who is told of a message, what one that is more than the program's bytes says.

use super::link::{Link, Shm};
use super::open::accept;
use super::{Pair, Words};
use crate::errors::{Outcome, broken};
use crate::ground::memory::Source;
use crate::trace;
use crate::transport::contract::{Deliver, Verdict, write_down};
use crate::transport::host::Host;
use ferriband_mpi_proto::envelope::{Envelope, Kind, PLACED, PLACED_BYTES, Placed};
use ferriband_mpi_proto::fast::Broken;

/// Why no more of a channel's records were told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ran {
    /// There are no more, or enough were told.
    Out,
    /// Whoever is told has something to do first.
    Stopped,
    /// The next one was not taken.
    Kept,
}

/// With each of so many looks at a channel the other ones are looked at, too.
const OTHERS: u32 = 4;

impl Link {
    /// Tells `to` of the records of the channel from rank `from`, in their order, `left` at most.
    #[inline(always)]
    pub fn run<D: Deliver>(
        &mut self,
        host: &Host,
        from: u32,
        left: &mut u32,
        to: &mut D,
    ) -> Outcome<Ran> {
        let Some(receiving) = &mut self.receiving else {
            return Ok(Ran::Out);
        };
        let is_traced = trace::is_on();
        let (mut credited, mut most) = (None, *left);
        let ran = loop {
            if most == 0 {
                break Ok(Ran::Out);
            }
            let record = match receiving.peek() {
                Ok(Some(record)) => record,
                Ok(None) => break Ok(Ran::Out),
                Err(Broken) => break Err(broken(from)),
            };
            let number = self.received.wrapping_add(1);
            let [first, second, context] = record.envelope;
            let (tag, credit) = Envelope::tag_and_credit(second);
            let body = receiving.payload(&record);
            let verdict = if first == Envelope::plain(number) && !is_traced {
                let envelope = Envelope {
                    kind: Kind::Eager,
                    flags: 0,
                    seq: number,
                    ack: 0,
                    credit,
                    tag,
                    context,
                };
                to.eager(from, &envelope, body)
            } else {
                let words = record.envelope;
                Other {
                    from,
                    number,
                    words,
                }
                .tell(&mut self.places, host, body, to)
            };
            match verdict {
                Ok(Verdict::Keep) => break Ok(Ran::Kept),
                Ok(verdict) => {
                    self.received = number;
                    credited = Some(credit);
                    most -= 1;
                    if receiving.consume(&record, number) {
                        ring(host, from);
                    }
                    if verdict == Verdict::Stop {
                        break Ok(Ran::Stopped);
                    }
                }
                Err(error) => break Err(error),
            }
        };
        *left = most;
        if let (Some(credit), Some(sending)) = (credited, &mut self.sending) {
            // Each counts from the beginning, so the last one says all.
            sending.credit(credit);
        }
        ran
    }
}

/// What says of a record that it is more than the bytes of a message of the program, or comes to a
/// traced rank.
struct Other {
    from: u32,
    /// The number that it is to have.
    number: u32,
    words: Words,
}

impl Other {
    /// Tells `to` of it.
    #[inline(never)]
    fn tell<D: Deliver>(
        self,
        places: &mut Option<Pair>,
        host: &Host,
        mut body: Source,
        to: &mut D,
    ) -> Outcome<Verdict> {
        let from = self.from;
        // Records are the only path between the ranks of a host: nothing can have overtaken this
        // one.
        let envelope = Envelope::from_words(self.words)
            .filter(|envelope| envelope.kind.is_numbered() && envelope.seq == self.number);
        let Some(mut envelope) = envelope else {
            return Err(broken(from));
        };
        let mut placed = None;
        if envelope.flags & PLACED != 0 {
            envelope.flags &= !PLACED;
            let (message, place) =
                in_place(places, host, from, &body).ok_or_else(|| broken(from))?;
            (body, placed) = (message, Some(place));
        }
        if trace::is_on() {
            write_down(from, &envelope, body);
        }
        let verdict = to.eager(from, &envelope, body)?;
        if verdict != Verdict::Keep
            && let (Some(placed), Some(places)) = (placed, places)
        {
            places.taken(placed);
        }
        Ok(verdict)
    }
}

/// Where a message lies of which a record says that it lies in a place; none if that cannot be.
fn in_place(
    places: &mut Option<Pair>,
    host: &Host,
    from: u32,
    record: &Source,
) -> Option<(Source, Placed)> {
    if record.len() != PLACED_BYTES {
        return None;
    }
    if places.is_none() {
        *places = Pair::new(host, from);
    }
    let mut word = [0; PLACED_BYTES];
    record.copy_into(&mut word);
    let placed = Placed::parse(word);
    Some((places.as_ref()?.read(placed)?, placed))
}

/// A sender that waits for room has been told of some.
#[cold]
fn ring(host: &Host, sender: u32) {
    host.ring(sender);
}

impl Shm {
    /// Rank `rank` has opened a channel to this one.
    #[cold]
    pub fn accept(&mut self, host: &Host, rank: u32) -> Outcome {
        let receiving = accept(host, rank).ok_or_else(|| broken(rank))?;
        self.link(rank).receiving = Some(receiving);
        self.order.push(rank);
        self.polling.warm(rank);
        Ok(())
    }

    /// Looks at the channel from rank `from` until something lies there, and tells `to` of one
    /// record: true if it was taken. False if it was not, if nothing has come in `looks` looks, or
    /// if the other channels want a round.
    #[inline(always)]
    pub fn watch<D: Deliver>(
        &mut self,
        host: &Host,
        from: u32,
        looks: u32,
        to: &mut D,
    ) -> Outcome<bool> {
        let mut looked = 0_u32;
        loop {
            let Some(link) = self.links.get_mut(from as usize) else {
                return Ok(false);
            };
            // What lies there may be the mark that the block goes on elsewhere.
            if link.poll() {
                match link.run(host, from, &mut 1, to)? {
                    Ran::Stopped => {
                        self.polling.touch(from);
                        return Ok(true);
                    }
                    Ran::Kept => return Ok(false),
                    Ran::Out => (),
                }
            }
            looked += 1;
            if looked.is_multiple_of(OTHERS) && (looked > looks || self.has_other(host, from)) {
                return Ok(false);
            }
        }
    }

    /// Whether there is something to do about other channels than the one from `rank`.
    #[inline(always)]
    fn has_other(&mut self, host: &Host, rank: u32) -> bool {
        let mut place = 0;
        while let Some(hot) = self.polling.hot(place) {
            if hot != rank && self.links[hot as usize].is_ready() {
                return true;
            }
            place += 1;
        }
        let next = self.next_in_turn().filter(|next| *next != rank);
        if next.is_some_and(|next| self.links[next as usize].has_work()) {
            // The round that comes now serves it.
            self.polling.again(self.order.len());
            return true;
        }
        self.newcomers.has_next(host)
    }
}
