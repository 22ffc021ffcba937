//! Messages to ranks of this host: by the channel's block, or by a place of the pair ([`Pair`]), of
//! which a record of the channel says so in their turn.
//!
//! Owns: what is stored, and when a channel is opened. Must not know: who asks what becomes of a
//! message.

use super::link::Link;
use super::open::{extend, open};
use super::{Pair, ReceivingEnd};
use crate::constants::{MPI_ERR_INTERN, MPI_ERR_NO_MEM};
use crate::errors::{MpiError, Outcome};
use crate::ground::memory::Source;
use crate::trace;
use crate::transport::contract::Head;
use crate::transport::host::Host;
use ferriband_mpi_proto::envelope::{Envelope, PLACED, PLACED_BYTES};
use ferriband_mpi_proto::fast::Push;

/// What has become of a message that was to be stored at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stored {
    /// It takes more than the stores: nothing has happened.
    Not,
    /// It lies there.
    Awake,
    /// It lies there, and its receiver is seen to sleep.
    Asleep,
}

impl Link {
    /// Stores a message of the program of an untraced process, where that takes nothing but the
    /// stores.
    #[inline(always)]
    pub fn try_send(&mut self, tag: i32, context: u64, source: &Source) -> Stored {
        let Some(sending) = &mut self.sending else {
            return Stored::Not;
        };
        if self.is_held {
            return Stored::Not;
        }
        let Some(place) = sending.place(source) else {
            return Stored::Not;
        };
        let head = Head::program(tag, context);
        let envelope = envelope(&head, 0, self.sent, &mut self.receiving);
        self.sent = envelope.seq;
        match sending.lay(&place, &envelope, source) {
            true => Stored::Asleep,
            false => Stored::Awake,
        }
    }

    /// Whether a message of `length` bytes goes by a place of the pair: is neither too short nor
    /// too long, and one is this rank's.
    #[inline]
    pub fn has_place(&self, length: usize) -> bool {
        let (least, most) = self.exchange;
        (least..=most).contains(&length) && self.places.as_ref().is_some_and(Pair::is_open)
    }

    /// Stores a message that is long enough for a place of the pair, by that or by the block, where
    /// that takes nothing but the stores.
    #[inline(never)]
    pub fn try_send_large(
        &mut self,
        host: Option<&Host>,
        tag: i32,
        context: u64,
        source: Source,
    ) -> Stored {
        match host {
            Some(host) if self.has_place(source.len()) => self.exchange(host, tag, context, source),
            _ => self.try_send(tag, context, &source),
        }
    }

    /// Stores such a message by a place, if there is memory behind that and room for the record.
    fn exchange(&mut self, host: &Host, tag: i32, context: u64, source: Source) -> Stored {
        let (Some(sending), Some(places), false) =
            (&mut self.sending, &mut self.places, self.is_held)
        else {
            return Stored::Not;
        };
        let Some(placed) = places.write(host, &source) else {
            return Stored::Not;
        };
        let head = Head::program(tag, context);
        let envelope = envelope(&head, PLACED, self.sent, &mut self.receiving);
        let sleeps = match sending.place_of(PLACED_BYTES) {
            Some(place) => sending.lay_bytes(&place, &envelope, &placed.emit()),
            // The block goes on at its end: that is a push's.
            None => {
                if sending.push(&envelope, &placed.emit(), Source::EMPTY) != Push::Stored {
                    return Stored::Not;
                }
                sending.sees_sleep()
            }
        };
        self.sent = envelope.seq;
        places.given();
        match sleeps {
            true => Stored::Asleep,
            false => Stored::Awake,
        }
    }

    /// Stores a message in the channel to rank `to`, whatever that takes. Its number; none if there
    /// is no room now.
    pub fn send(
        &mut self,
        host: &Host,
        to: u32,
        head: &Head,
        body: &[u8],
        source: Source,
    ) -> Outcome<Option<u32>> {
        if self.sending.is_none() {
            self.open(host, to)?;
        }
        let envelope = envelope(head, 0, self.sent, &mut self.receiving);
        let Some(sending) = &mut self.sending else {
            return Ok(None);
        };
        loop {
            match sending.push(&envelope, body, source) {
                Push::Stored => break,
                Push::NoCredit => return Ok(None),
                // The block has no memory yet where it goes on.
                Push::Busy => {
                    extend(host, to, sending).map_err(|error| no_memory("the", to, &error))?
                }
                Push::TooLong => {
                    let text = "a message is longer than a channel takes";
                    return Err(MpiError::with(MPI_ERR_INTERN, text));
                }
            }
        }
        let seq = envelope.seq;
        self.sent = seq;
        if trace::is_on() {
            let Head {
                kind, tag, context, ..
            } = *head;
            trace::sent(to, kind, seq, tag, context, body, source.len());
        }
        host.ring(to);
        Ok(Some(seq))
    }

    /// Opens the channel to rank `to`.
    #[cold]
    fn open(&mut self, host: &Host, to: u32) -> Outcome {
        let sending = open(host, to).map_err(|error| no_memory("a", to, &error))?;
        self.sending = Some(sending);
        self.places = self.places.take().or_else(|| Pair::new(host, to));
        Ok(())
    }
}

/// The envelope of the message behind number `sent`; it tells of what was taken from `receiving`.
#[inline(always)]
fn envelope(head: &Head, flags: u8, sent: u32, receiving: &mut Option<ReceivingEnd>) -> Envelope {
    Envelope {
        kind: head.kind,
        flags: head.flags | flags,
        seq: sent.wrapping_add(1),
        // Nothing is acknowledged between ranks that share memory.
        ack: 0,
        credit: receiving.as_mut().map_or(0, ReceivingEnd::report),
        tag: head.tag,
        context: head.context,
    }
}

/// There is no memory for a channel, or no more.
#[cold]
fn no_memory(which: &str, to: u32, error: &std::io::Error) -> MpiError {
    MpiError::with(
        MPI_ERR_NO_MEM,
        format!("no memory for {which} channel to rank {to}: {error}"),
    )
}
