//! Leases of both sides: memory that a peer reaches itself.
//!
//! Owns: which leases were given and which are held, their numbers, and messages of leases that
//! wait for a credit. Must not know: operations, memory.

use crate::message::{Header, Kind, Rights, Segment};
use std::collections::VecDeque;

/// Leases that a side gives on a connection at a time.
pub const LEASES: usize = 16;

/// Memory that the peer may reach itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lease<'a> {
    /// What [`crate::Memory::counted`] and [`crate::Memory::returned`] are called with.
    pub token: u64,
    /// Which memory, as requests name it.
    pub tag: u32,
    /// What is beside the tag; its length is a multiple of 4.
    pub address: &'a [u8],
    /// What the peer may do.
    pub rights: Rights,
    /// Where the memory is, all of it, and its key.
    pub memory: Segment,
}

/// A lease that this side has given.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Given {
    number: u32,
    pub token: u64,
    pub rights: Rights,
    /// Bytes of the memory.
    pub length: u64,
    revoked: bool,
}

/// A lease that this side holds.
#[derive(Clone, Debug)]
pub(crate) struct Held {
    pub number: u32,
    tag: u32,
    address: Vec<u8>,
    pub rights: Rights,
    pub memory: Segment,
    /// Operations by it.
    pub under_way: u32,
    revoked: bool,
}

impl Held {
    /// Whether nothing is to be begun by it any more, and nothing is under way.
    pub const fn is_over(&self) -> bool {
        self.revoked && self.under_way == 0
    }
}

/// Leases of one side at a time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Leased {
    /// How many there are,
    pub count: u64,
    /// and bytes of their memory.
    pub bytes: u64,
}

impl Leased {
    fn of(lengths: impl Iterator<Item = u64>) -> Leased {
        lengths.fold(Leased::default(), |all, length| Leased {
            count: all.count + 1,
            bytes: all.bytes.saturating_add(length),
        })
    }
}

/// The peer speaks of a lease that there is not, or gives too many.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct NoLease;

#[derive(Debug, Default)]
pub(crate) struct Leases {
    given: Vec<Given>,
    next: u32,
    held: Vec<Held>,
    /// Messages that wait for a credit, in their order.
    pub due: VecDeque<(Header, Vec<u8>)>,
}

impl Leases {
    /// Gives one, if there is room.
    pub fn give(&mut self, lease: &Lease<'_>) -> bool {
        if self.given.len() >= LEASES {
            return false;
        }
        let number = self.next;
        self.next = self.next.wrapping_add(1);
        self.given.push(Given {
            number,
            token: lease.token,
            rights: lease.rights,
            length: lease.memory.length,
            revoked: false,
        });
        let mut header = Header::new(Kind::Lease, number);
        header.tag = lease.tag;
        header.pieces = lease.rights.bits();
        header.memory = lease.memory.address;
        header.length = lease.memory.length;
        header.key = lease.memory.key;
        self.due.push_back((header, lease.address.to_vec()));
        true
    }

    /// Takes a lease back. True if it is over at once, since the peer was never told of it.
    pub fn revoke(&mut self, token: u64) -> bool {
        let mut given = self.given.iter_mut();
        let Some(given) = given.find(|given| given.token == token && !given.revoked) else {
            return false;
        };
        let number = given.number;
        given.revoked = true;
        let is_it = |header: &Header| header.kind == Kind::Lease && header.request == number;
        let untold = self.due.iter().position(|(header, _)| is_it(header));
        if let Some(at) = untold {
            self.due.remove(at);
            self.given.retain(|given| given.number != number);
            return true;
        }
        self.due
            .push_back((Header::new(Kind::Revoke, number), Vec::new()));
        false
    }

    /// Whether the peer has to return a lease.
    pub fn waits(&self) -> bool {
        self.given.iter().any(|given| given.revoked)
    }

    /// The peer has returned one.
    pub fn returned(&mut self, number: u32) -> Result<Given, NoLease> {
        let mut given = self.given.iter();
        let is_it = |given: &Given| given.number == number && given.revoked;
        let at = given.position(is_it).ok_or(NoLease)?;
        Ok(self.given.swap_remove(at))
    }

    /// The lease of this number.
    pub fn given(&self, number: u32) -> Result<&Given, NoLease> {
        let mut given = self.given.iter();
        given.find(|given| given.number == number).ok_or(NoLease)
    }

    /// The peer gives one.
    pub fn take(&mut self, header: &Header, address: &[u8]) -> Result<(), NoLease> {
        let is_known = |held: &Held| held.number == header.request;
        if self.held.len() >= LEASES || self.held.iter().any(is_known) {
            return Err(NoLease);
        }
        self.held.push(Held {
            number: header.request,
            tag: header.tag,
            address: address.to_vec(),
            // rights of a later version are not used
            rights: Rights::from_bits_truncate(header.pieces),
            memory: header.leased(),
            under_way: 0,
            revoked: false,
        });
        Ok(())
    }

    /// The peer takes one back.
    pub fn revoked(&mut self, number: u32) -> Result<(), NoLease> {
        let held = self.by_number(number).filter(|held| !held.revoked);
        held.ok_or(NoLease)?.revoked = true;
        self.return_over();
        Ok(())
    }

    /// Returns those that are over.
    pub fn return_over(&mut self) {
        let due = &mut self.due;
        self.held.retain(|held| {
            if held.is_over() {
                due.push_back((Header::new(Kind::Returned, held.number), Vec::new()));
            }
            !held.is_over()
        });
    }

    /// A lease by which operations may be begun.
    pub fn find(&mut self, tag: u32, address: &[u8]) -> Option<&mut Held> {
        let is_it = |held: &&mut Held| held.tag == tag && held.address == address && !held.revoked;
        self.held.iter_mut().find(is_it)
    }

    pub fn by_number(&mut self, number: u32) -> Option<&mut Held> {
        self.held.iter_mut().find(|held| held.number == number)
    }

    /// Those that were given, and those that are held.
    pub fn leased(&self) -> (Leased, Leased) {
        let given = self.given.iter().map(|given| given.length);
        let held = self.held.iter().map(|held| held.memory.length);
        (Leased::of(given), Leased::of(held))
    }

    /// Whether there are leases of the peer's.
    pub fn holds(&self) -> bool {
        !self.held.is_empty()
    }

    /// Whether something cannot be returned until operations have ended.
    pub fn returns(&self) -> bool {
        self.held.iter().any(|held| held.revoked)
    }

    /// All that were given, when the peer reaches nothing any more.
    pub fn drain(&mut self) -> impl Iterator<Item = Given> + '_ {
        self.due.clear();
        self.held.clear();
        self.given.drain(..)
    }
}
