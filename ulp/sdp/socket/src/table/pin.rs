//! What a call and a close hold of a record.
//!
//! Owns: that a record stays this process's as long as a call is in progress on it, and that the
//! last that lets go of it gives it back. Must not know: numbers.

use super::{COUNTS, Table, Traffic, WHOSE};
use crate::arena::Taken;
use crate::link::Link;
use crate::record::Record;
use std::ptr;
use std::sync::atomic::Ordering;

/// A [`Pin`] without its destructor.
#[derive(Clone, Copy, Debug)]
pub struct Open {
    pub(super) taken: Taken,
    pub(super) holder: u32,
}

/// What has become of a number.
#[derive(Debug)]
pub enum Left<'a> {
    /// It stood for nothing that is known here: the kernel's call is all.
    Plain,
    /// It is the library's own: the program is told EBADF.
    Own,
    /// Other numbers of this process stand for the record.
    Others(Taken),
    /// It was the process's last number of the record, of which calls are in progress. This counts
    /// among them, so that the record stays until the caller has done what is due.
    Calls(Pin<'a>),
    /// It was the process's last number of the record, and no call is in progress.
    Last(Last<'a>),
}

/// The last that a process has of a record. It is given back when this is dropped.
#[derive(Debug)]
pub struct Last<'a> {
    pub(super) table: &'a Table,
    pub(super) taken: Taken,
    pub(super) holder: u32,
}

impl Last<'_> {
    /// The record.
    pub fn taken(&self) -> Taken {
        self.taken
    }

    /// Whether other processes hold the record.
    pub fn others_hold(&self) -> bool {
        let table = self.table;
        table
            .arena
            .others_hold(table.who(), self.taken, table.family)
    }

    /// Whether another process holds this record, of which this one has nothing any more. A record
    /// that nobody holds is given back.
    pub fn is_held_elsewhere(&self, record: Taken) -> bool {
        let table = self.table;
        table
            .arena
            .is_held_elsewhere(table.who(), record, table.family)
    }

    /// How it is carried, if not by TCP alone.
    pub fn link(&self) -> Option<&Link<'static>> {
        let link = self.table.link(self.taken.index).load(Ordering::Acquire);
        // SAFETY: it is dropped with this.
        unsafe { link.as_ref() }
    }
}

impl Drop for Last<'_> {
    fn drop(&mut self) {
        let table = self.table;
        table.drop_link(self.taken.index);
        // a child has what its parent was about to give back in its copy alone
        if self.holder == table.holder() {
            table.arena.leave(table.who(), self.taken, table.family);
            table.changes[1].fetch_add(1, Ordering::SeqCst);
        }
    }
}

/// A call on a record, which stays the process's as long as this lives.
#[derive(Debug)]
pub struct Pin<'a> {
    pub(super) table: &'a Table,
    pub(super) taken: Taken,
    pub(super) holder: u32,
}

impl<'a> Pin<'a> {
    /// The record.
    #[inline]
    pub fn taken(&self) -> Taken {
        self.taken
    }

    /// Its words.
    #[inline]
    pub fn record(&self) -> &'a Record {
        self.table.arena.record(self.taken.index)
    }

    /// How it is carried in this process, if not by TCP alone.
    #[inline]
    pub fn link(&self) -> Option<&Link<'static>> {
        let link = self.table.link(self.taken.index).load(Ordering::Acquire);
        // SAFETY: it is dropped by who takes the last count away, which this call keeps.
        unsafe { link.as_ref() }
    }

    /// What is known of its traffic in this process.
    #[inline]
    pub fn traffic(&self) -> &'a Traffic {
        self.table.traffic(self.taken.index)
    }

    /// The last that the process has of the record, if no number stands for it and this is the only
    /// call.
    ///
    /// # Errors
    /// The call itself.
    pub fn into_last(self) -> Result<Last<'a>, Self> {
        let (table, taken, holder) = (self.table, self.taken, self.holder);
        let alone = u64::from(holder) << WHOSE | 1;
        table.changes[0].fetch_add(1, Ordering::SeqCst);
        let line = table.line(taken.index);
        let left = line.compare_exchange(alone, alone - 1, Ordering::AcqRel, Ordering::Relaxed);
        if left.is_err() {
            table.changes[1].fetch_add(1, Ordering::SeqCst);
            return Err(self);
        }
        std::mem::forget(self);
        Ok(Last {
            table,
            taken,
            holder,
        })
    }

    /// In a child: what its parent had of a record that no number of the child stands for.
    pub(crate) fn forget_parents(self) {
        self.table.drop_link(self.taken.index);
        std::mem::forget(self);
    }

    /// The call goes on, without a destructor; [`Table::take_up`] has it again.
    #[inline]
    pub fn keep_open(self) -> Open {
        let (taken, holder) = (self.taken, self.holder);
        std::mem::forget(self);
        Open { taken, holder }
    }

    /// From now on calls of this process find how the record is carried. Children that fork from
    /// now on do so, too; who has forked before does not, so the caller asks by
    /// [`Pin::others_hold`] inside [`Table::without_fork`] before.
    ///
    /// # Errors
    /// It has a link already.
    pub fn put_link(&self, link: Link<'static>) -> Result<(), Link<'static>> {
        let place = self.table.link(self.taken.index);
        let link = Box::into_raw(Box::new(link));
        let (won, lost) = (Ordering::AcqRel, Ordering::Acquire);
        match place.compare_exchange(ptr::null_mut(), link, won, lost) {
            Ok(_) => Ok(()),
            // SAFETY: the box from above, which nobody else has seen.
            Err(_) => Err(*unsafe { Box::from_raw(link) }),
        }
    }

    /// Whether other processes hold the record.
    pub fn others_hold(&self) -> bool {
        let table = self.table;
        table
            .arena
            .others_hold(table.who(), self.taken, table.family)
    }
}

impl Drop for Pin<'_> {
    #[inline]
    fn drop(&mut self) {
        // in a child this call was dropped with those of the other threads
        if self.holder == self.table.holder() {
            let (left, last) = self.table.subtract(self.taken, 1);
            drop(last);
            if left & COUNTS == 1 {
                self.table.tell_alone();
            }
        }
    }
}
