//! What the program's memory makes fail: such a message ends with its class at both sides, and then
//! the connection is made anew for all others (law 7 of docs/design/heal.md). An adapter that fails
//! may say so of good memory, so a message goes again until both adapters are known to be well.
//!
//! Owns: which statuses say so, when they are believed, which message a request was about, and what
//! its peer is told. Must not know: how a connection is made anew.

use super::moves::{Awaits, Direction, Transfer};
use super::news::Ended;
use super::queue::What;
use super::{Lent, Net};
use crate::constants::MPI_ERR_BUFFER;
use crate::transport::contract::{Deliver, Done};
use ferriband_heal::Number;
use ferriband_heal::kept::Unit;
use ferriband_ibv::WcStatus;
use ferriband_mpi_proto::envelope::{ENVELOPE, Envelope, Fin, ITEM, Kind};
use zerocopy::IntoBytes;

/// What a request that failed was about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AtFault {
    /// This transfer.
    Transfer(u32),
    /// The message whose receive by the lane is the oldest.
    Landing,
}

/// Whether a status says of memory that it cannot be read or written so.
pub(super) fn is_of_memory(status: WcStatus) -> bool {
    matches!(
        status,
        WcStatus::LocalLength
            | WcStatus::LocalProtection
            | WcStatus::RemoteInvalidRequest
            | WcStatus::RemoteAccess
            // where a peer that copies from this process cannot
            | WcStatus::RemoteOperation
    )
}

impl Net {
    /// What a request that failed was about.
    #[cold]
    pub(super) fn at_fault(&mut self, what: Option<What>) -> Option<AtFault> {
        match what? {
            What::Room => None,
            What::Buffer(buffer) => {
                self.stages.give(buffer);
                None
            }
            What::Moved { transfer, .. } => {
                let place = self.moves.transfers.get(transfer as usize)?;
                place.as_ref().map(|_| AtFault::Transfer(transfer))
            }
        }
    }

    /// Whether a status that speaks of memory is believed of what a request was about.
    #[cold]
    pub(super) fn is_proven(&mut self, peer: u32, at_fault: Option<AtFault>) -> bool {
        let Some(link) = self.links[peer as usize].as_deref_mut() else {
            return false;
        };
        let told = &mut link.long.told;
        match at_fault {
            None => told.prove_own(link.acks.log.acknowledged()),
            Some(AtFault::Landing) => told.prove(link.long.lane.doubt()),
            Some(AtFault::Transfer(index)) => {
                let place = self.moves.transfers.get_mut(index as usize);
                let one = place.and_then(Option::as_mut);
                one.is_some_and(|one| told.prove(&mut one.doubt))
            }
        }
    }

    /// The message that memory has made fail ends, or will: its peer is told.
    #[cold]
    pub(super) fn end_at_fault<R, D: Deliver>(
        &mut self,
        peer: u32,
        at_fault: AtFault,
        lent: &mut Lent<'_, R, D>,
    ) {
        let ended = match at_fault {
            AtFault::Landing => self.end_landing(peer),
            AtFault::Transfer(index) => self.end_moving(index, MPI_ERR_BUFFER),
        };
        if let Some(Ended { token, done, .. }) = ended {
            lent.done(peer, token, done);
        }
    }

    /// The oldest receive by the lane is used up.
    fn end_landing(&mut self, peer: u32) -> Option<Ended> {
        let (token, _) = self.has_landed(peer)?;
        self.withdraw(token);
        let class = MPI_ERR_BUFFER;
        Some(Ended {
            peer,
            token,
            done: Done::Over { class },
        })
    }

    /// A message that moves ends with this class.
    pub(super) fn end_moving(&mut self, index: u32, class: i32) -> Option<Ended> {
        let place = self.moves.transfers.get_mut(index as usize)?;
        let transfer = place.as_mut()?;
        if let Direction::Lane(range) = &mut transfer.direction {
            // Its landing is used up by a message without bytes.
            *range = Err(class);
            transfer.length = 0;
            return None;
        }
        let at = transfer.peer as usize;
        if let Some(link) = self.links[at].as_deref_mut() {
            link.long.moving.retain(|moving| *moving != index);
        }
        let Transfer {
            peer,
            token,
            name,
            awaits,
            length,
            whole,
            ..
        } = place.take()?;
        let told = Done::Told {
            name,
            length: whole,
            class,
        };
        let done = match awaits {
            Awaits::Ack(fin) if self.unsay(peer, fin, &Fin::of(name, length, class)) => {
                Done::Over { class }
            }
            _ => told,
        };
        self.withdraw(token);
        Some(Ended { peer, token, done })
    }

    /// The log says in message `seq` that all of a message is written: it does not say so any more,
    /// but this. True if the log has it.
    fn unsay(&mut self, peer: u32, seq: u32, fin: &Fin) -> bool {
        let log = &mut self.link(peer).acks.log;
        if let Some(copy) = log.copy_mut(seq) {
            return match copy.get_mut(ENVELOPE..ENVELOPE + size_of::<Fin>()) {
                Some(body) => {
                    body.copy_from_slice(fin.as_bytes());
                    true
                }
                None => false,
            };
        }
        let Some((_, Unit::Held(held))) = ferriband_heal::Log::unit(log, Number(seq)) else {
            return false;
        };
        // It went together with others.
        let memory = &self.stages.memory;
        let (mut at, end) = (held.at + ENVELOPE as u32, held.at + held.length);
        while at + ((ITEM + ENVELOPE) as u32) < end {
            let (mut length, mut head) = ([0; ITEM], [0; ENVELOPE]);
            memory.read(held.buffer, at, &mut length);
            memory.read(held.buffer, at + ITEM as u32, &mut head);
            let is_it = |one: &Envelope| one.kind == Kind::Fin && one.seq == seq;
            if Envelope::parse(head).as_ref().is_some_and(is_it) {
                memory.write(held.buffer, at + (ITEM + ENVELOPE) as u32, fin.as_bytes());
                return true;
            }
            at += ITEM as u32 + u32::from_le_bytes(length);
        }
        false
    }
}
