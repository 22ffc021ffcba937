//! Operations by leases: the initiator reaches the target's memory itself.
//!
//! Owns: when an operation may go this way, and what of them is under way. Must not know: how
//! leases are numbered.
//!
//! A WRITE behind a message is placed before the target's software has looked at the message. So an
//! operation goes this way only if the peer has carried out all requests before it: those that are
//! answered were answered, and the credits of the others have come back. A message behind a WRITE
//! needs no wait, since the transport keeps their order.

use crate::connection::{Connection, Started, Violation};
use crate::leases::Lease;
use crate::memory::{Answer, Memory};
use crate::message::{ADDRESS_BYTES, Rights, Segment};
use crate::status::Status;
use crate::wire::{DirectJob, DirectOp, NotBegun, Posting, Wire};

/// Operations by leases that a side has under way on a connection at a time.
pub const DIRECT: usize = 64;

/// An operation that may go by a lease.
#[derive(Clone, Copy, Debug)]
pub struct Direct<'a> {
    /// What it does.
    pub op: DirectOp,
    /// Which memory of the target, as a request would name it.
    pub tag: u32,
    /// What is beside the tag in a lease.
    pub address: &'a [u8],
    /// Where in the memory.
    pub offset: u64,
    /// Bytes.
    pub length: u64,
    /// Whether somebody waits for its end.
    pub observed: bool,
    /// What [`Memory::gather`], [`Memory::scatter`] and [`Memory::done`] are called with.
    pub token: u64,
}

/// Why an operation does not go by a lease.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NotDirect {
    /// It goes by message: no lease allows it, or requests before it are under way.
    #[error("the operation goes by message")]
    ByMessage,
    /// There is no room until the peer has taken messages or operations have ended.
    #[error("too much is under way to this peer")]
    Full,
    /// The connection is lost.
    #[error("the connection is lost")]
    Lost,
}

/// An operation under way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Underway {
    token: u64,
    /// Number of the lease.
    lease: u32,
    op: DirectOp,
    offset: u64,
    length: u64,
    /// Its end is told.
    told: bool,
}

#[derive(Debug)]
pub(crate) struct Directs {
    rooms: Vec<Option<Underway>>,
    free: Vec<u16>,
    /// Those whose end is told.
    told: u32,
    /// Those that bring bytes.
    reads: u32,
}

impl Directs {
    pub fn new() -> Directs {
        Directs {
            rooms: vec![None; DIRECT],
            free: (0..DIRECT as u16).rev().collect(),
            told: 0,
            reads: 0,
        }
    }

    pub fn is_full(&self) -> bool {
        self.free.is_empty()
    }

    pub fn is_empty(&self) -> bool {
        self.free.len() == self.rooms.len()
    }

    /// Whether one that is under way brings bytes.
    pub const fn has_reads(&self) -> bool {
        self.reads > 0
    }

    const fn is_awaited(&self) -> bool {
        self.told > 0
    }

    fn add(&mut self, underway: Underway) -> Option<DirectJob> {
        let room = self.free.pop()?;
        self.reads += u32::from(underway.op.reads());
        self.rooms[usize::from(room)] = Some(underway);
        Some(DirectJob(room))
    }

    /// It was posted.
    fn posted(&mut self, job: DirectJob, told: bool) {
        if let Some(Some(underway)) = self.rooms.get_mut(usize::from(job.0)) {
            underway.told = told;
            self.told += u32::from(told);
        }
    }

    fn remove(&mut self, job: DirectJob) -> Option<Underway> {
        let underway = self.rooms.get_mut(usize::from(job.0))?.take()?;
        self.free.push(job.0);
        self.reads -= u32::from(underway.op.reads());
        self.told -= u32::from(underway.told);
        Some(underway)
    }

    /// The next one, when none will end.
    pub fn pop(&mut self) -> Option<(u64, bool)> {
        let room = self.rooms.iter().position(Option::is_some)?;
        let underway = self.remove(DirectJob(room as u16))?;
        Some((underway.token, underway.told))
    }
}

impl<H: Copy> Connection<H> {
    /// Lets the peer reach memory itself. False if it holds as many leases as it may, or the
    /// connection is lost: then nothing will be heard of it.
    pub fn lease<W: Wire<Hold = H>>(&mut self, lease: &Lease<'_>, wire: &mut W) -> bool {
        let fits = lease.address.len() <= ADDRESS_BYTES
            && lease.address.len().is_multiple_of(4)
            && (lease.address.len() as u64) <= self.put_room(0);
        if self.lost || !fits || !self.leases.give(lease) {
            return false;
        }
        self.stats.paths.leases_given += 1;
        self.flush(wire);
        true
    }

    /// Takes the lease that was given with `token` back. [`Memory::returned`] follows, perhaps at
    /// once. One that is taken back already, or is none, is left alone.
    pub fn revoke<W: Wire<Hold = H>>(&mut self, token: u64, wire: &mut W) {
        if self.leases.revoke(token) {
            wire.returned(token);
        }
        self.flush(wire);
    }

    /// Whether the peer has to return a lease.
    pub fn waits_for_leases(&self) -> bool {
        self.leases.waits()
    }

    /// Whether the peer has given leases.
    pub fn has_leases(&self) -> bool {
        self.leases.holds()
    }

    /// Whether an operation by a lease is under way whose end is waited for: completions have to be
    /// looked at.
    pub fn waits_for_direct(&self) -> bool {
        let waits = self.direct.is_awaited() || self.starved || self.leases.returns();
        waits && !self.direct.is_empty()
    }

    /// Whether the peer has carried out all requests of this side.
    fn is_caught_up(&self) -> bool {
        self.requests.is_empty() && self.credits.carried_out() >= self.last_request
    }

    /// Begins an operation by a lease, if there is one that allows it.
    ///
    /// # Errors
    /// It was not begun, and nothing will be heard of it.
    pub fn direct<W>(&mut self, direct: &Direct<'_>, wire: &mut W) -> Result<Started, NotDirect>
    where
        W: Wire<Hold = H>,
    {
        if self.lost {
            return Err(NotDirect::Lost);
        }
        let caught_up = self.is_caught_up();
        let held = self.leases.find(direct.tag, direct.address);
        let held = held.filter(|held| caught_up && allows(held.rights, &held.memory, direct));
        let held = held.ok_or(NotDirect::ByMessage)?;
        let (number, counts) = (held.number, held.rights.contains(Rights::COUNTS));
        let remote = Segment {
            address: held.memory.address + direct.offset,
            length: direct.length,
            key: held.memory.key,
        };
        if self.direct.is_full() || counts && !self.has_room() {
            self.starved = true;
            self.stats.paths.waited += 1;
            return Err(NotDirect::Full);
        }
        let posting = Posting {
            op: direct.op,
            token: direct.token,
            remote,
            fence: direct.op.writes() && self.direct.has_reads(),
            immediate: counts.then_some(number),
        };
        let told = self.post(direct, number, &posting, wire)?;
        Ok(match told {
            true => Started::Answered,
            false => Started::Over,
        })
    }

    /// Whether the end will be told.
    fn post<W: Wire<Hold = H>>(
        &mut self,
        direct: &Direct<'_>,
        number: u32,
        posting: &Posting,
        wire: &mut W,
    ) -> Result<bool, NotDirect> {
        let job = self.direct.add(Underway {
            token: direct.token,
            lease: number,
            op: direct.op,
            offset: direct.offset,
            length: direct.length,
            told: false,
        });
        let job = job.ok_or(NotDirect::Full)?;
        let copied = match wire.direct(job, posting) {
            Ok(copied) => copied,
            Err(why) => {
                self.direct.remove(job);
                self.starved |= why == NotBegun::Full;
                return Err(match why {
                    NotBegun::Full => NotDirect::Full,
                    NotBegun::Fault => NotDirect::ByMessage,
                });
            }
        };
        let told = direct.observed || !copied || direct.op.reads();
        self.direct.posted(job, told);
        if posting.immediate.is_some() {
            self.credits.spend_without_word();
        }
        if let Some(held) = self.leases.by_number(number) {
            held.under_way += 1;
        }
        let bytes = &mut self.stats.paths.direct_bytes;
        *bytes = bytes.saturating_add(direct.length);
        *match direct.op {
            DirectOp::Put => &mut self.stats.paths.direct_puts,
            DirectOp::Get => &mut self.stats.paths.direct_gets,
            DirectOp::Add(_) | DirectOp::Swap { .. } => &mut self.stats.paths.direct_atomics,
        } += 1;
        Ok(told)
    }

    /// An operation by a lease has ended well. `data` are the bytes that it brought, if they are
    /// not where they belong.
    ///
    /// # Errors
    /// No such operation is under way.
    pub fn handle_direct<W>(
        &mut self,
        job: DirectJob,
        data: &[u8],
        wire: &mut W,
    ) -> Result<(), Violation>
    where
        W: Wire<Hold = H>,
    {
        if self.lost {
            return Ok(());
        }
        let underway = self.direct.remove(job).ok_or(Violation::Job(job.0))?;
        if underway.op.reads() && !data.is_empty() {
            wire.scatter(underway.token, data);
        }
        if underway.told {
            let answer = Answer {
                status: Status::Ok,
                length: underway.length,
                offset: underway.offset,
                tag: 0,
            };
            wire.done(underway.token, answer);
        }
        if let Some(held) = self.leases.by_number(underway.lease) {
            held.under_way -= 1;
        }
        self.leases.return_over();
        self.flush(wire);
        self.feed();
        Ok(())
    }

    /// Immediate data have come: the peer has put bytes by a lease that counts. The receive that
    /// they took is posted again.
    ///
    /// # Errors
    /// The peer has broken the protocol: the connection has to be ended.
    pub fn handle_immediate<W>(
        &mut self,
        immediate: u32,
        length: u64,
        wire: &mut W,
    ) -> Result<(), Violation>
    where
        W: Wire<Hold = H>,
    {
        if self.lost {
            return Ok(());
        }
        self.credits.received().map_err(|_| Violation::Credits)?;
        let given = self.leases.given(immediate);
        let given = given.map_err(|_| Violation::Lease(immediate))?;
        if !given.rights.contains(Rights::COUNTS) || length > given.length {
            return Err(Violation::Lease(immediate));
        }
        self.stats.paths.counted += 1;
        wire.counted(given.token, length);
        self.flush(wire);
        Ok(())
    }

    /// Nothing of leases will be heard any more.
    pub(crate) fn lose_direct<M: Memory<Hold = H>>(&mut self, memory: &mut M) {
        while let Some((token, told)) = self.direct.pop() {
            if told {
                memory.done(token, Answer::undeliverable());
            }
        }
        for given in self.leases.drain() {
            memory.returned(given.token);
        }
    }
}

/// Whether a lease allows an operation.
fn allows(rights: Rights, memory: &Segment, direct: &Direct<'_>) -> bool {
    let (needed, is_aligned) = match direct.op {
        DirectOp::Put => (Rights::PUT, true),
        DirectOp::Get => (Rights::GET, true),
        DirectOp::Add(_) | DirectOp::Swap { .. } => {
            let at = memory.address.wrapping_add(direct.offset);
            (Rights::ATOMIC, direct.length == 8 && at.is_multiple_of(8))
        }
    };
    let end = direct.offset.checked_add(direct.length);
    let counted = !rights.contains(Rights::COUNTS) || direct.op == DirectOp::Put;
    rights.contains(needed) && is_aligned && counted && end.is_some_and(|end| end <= memory.length)
}
