//! Triggered operations.
//!
//! Owns: what may wait for a counter, and the order in which what has fired is done. Operations on
//! counters and lists are carried out here; the others are handed to the transport by
//! [`Interface::next_due`]. Must not know: how operations travel. Data comes from PtlTriggered*.

use crate::handles::{HandleKind, Key};
use crate::interface::Interface;
use crate::{CtEvent, EntryInit, Handle, List, Operation, PtlError};
use std::collections::VecDeque;

/// What is done when a threshold is reached.
#[derive(Debug)]
pub(crate) enum Triggered {
    Start(Operation),
    Inc(Key, CtEvent),
    Set(Key, CtEvent),
    /// The entry exists since the call, so that its handle does.
    Append(Key),
    Unlink(Handle),
}

/// The bookkeeping of triggered operations of an interface.
#[derive(Debug, Default)]
pub(crate) struct Triggers {
    /// Calls so far.
    issued: u64,
    /// Operations that wait or are due: at most max_triggered_ops.
    outstanding: u32,
    /// Operations whose threshold was reached and that have not been carried out.
    pub fired: VecDeque<Triggered>,
    /// Operations that the transport is to start.
    due: VecDeque<Operation>,
}

impl Interface {
    /// The next operation whose threshold was reached, in the order in which thresholds were
    /// reached. [`Interface::start`] it: it fails if its descriptor has been released, and then
    /// nobody is told.
    pub fn next_due(&mut self) -> Option<Operation> {
        let operation = self.triggers.due.pop_front()?;
        self.triggers.outstanding -= 1;
        Some(operation)
    }

    /// PtlTriggeredPut, Get, Atomic, FetchAtomic and Swap.
    ///
    /// # Errors
    /// Those of [`Interface::start`]; PTL_ARG_INVALID for a stale counter, PTL_NO_SPACE at
    /// max_triggered_ops.
    pub fn triggered(
        &mut self,
        operation: Operation,
        ct: Handle,
        threshold: u64,
    ) -> Result<(), PtlError> {
        self.check(&operation)?;
        self.trigger(Triggered::Start(operation), ct, threshold)
    }

    /// PtlTriggeredCTInc.
    ///
    /// # Errors
    /// PTL_ARG_INVALID for a stale counter, and if both numbers are other than zero; PTL_NO_SPACE
    /// at max_triggered_ops.
    pub fn triggered_ct_inc(
        &mut self,
        inc: Handle,
        by: CtEvent,
        ct: Handle,
        threshold: u64,
    ) -> Result<(), PtlError> {
        let inc = self.ct_key(inc)?;
        if !by.is_increment() {
            return Err(PtlError::ArgInvalid);
        }
        self.trigger(Triggered::Inc(inc, by), ct, threshold)
    }

    /// PtlTriggeredCTSet.
    ///
    /// # Errors
    /// PTL_ARG_INVALID for a stale counter, PTL_NO_SPACE at max_triggered_ops.
    pub fn triggered_ct_set(
        &mut self,
        set: Handle,
        to: CtEvent,
        ct: Handle,
        threshold: u64,
    ) -> Result<(), PtlError> {
        let set = self.ct_key(set)?;
        self.trigger(Triggered::Set(set, to), ct, threshold)
    }

    /// PtlTriggeredMEAppend, an extension of the reference implementation. The handle is valid at
    /// once; until the threshold is reached, unlinking it gives PTL_IN_USE. If the list is full
    /// then or the table entry is gone, the entry is gone, too.
    ///
    /// # Errors
    /// Those of [`Interface::entry_append`]; PTL_ARG_INVALID for a stale counter, PTL_NO_SPACE at
    /// max_triggered_ops.
    pub fn triggered_append(
        &mut self,
        pt_index: u32,
        init: &EntryInit,
        list: List,
        user_ptr: u64,
        ct: Handle,
        threshold: u64,
    ) -> Result<Handle, PtlError> {
        self.ct_key(ct)?;
        let key = self.new_entry(pt_index, init, list, user_ptr)?;
        if let Err(error) = self.trigger(Triggered::Append(key), ct, threshold) {
            self.discard_entry(key);
            return Err(error);
        }
        Ok(self.entry_handle(key))
    }

    /// PtlTriggeredMEUnlink, an extension of the reference implementation. When the threshold is
    /// reached the entry leaves its list, and is gone when what is under way of it has ended; if it
    /// is not in a list, nothing happens.
    ///
    /// # Errors
    /// PTL_ARG_INVALID for a stale entry or counter, PTL_NO_SPACE at max_triggered_ops.
    pub fn triggered_unlink(
        &mut self,
        entry: Handle,
        ct: Handle,
        threshold: u64,
    ) -> Result<(), PtlError> {
        let key = self.entry_key(entry).ok_or(PtlError::ArgInvalid)?;
        self.objects.entries.get(key).ok_or(PtlError::ArgInvalid)?;
        self.trigger(Triggered::Unlink(entry), ct, threshold)
    }

    /// PtlCTCancelTriggered: what waits for the counter is destroyed; the counter stays as it is
    /// and usable.
    ///
    /// # Errors
    /// PTL_ARG_INVALID for a stale counter.
    pub fn ct_cancel_triggered(&mut self, ct: Handle) -> Result<(), PtlError> {
        let key = self.ct_key(ct)?;
        self.cancel_all(key);
        Ok(())
    }

    pub(crate) fn cancel_all(&mut self, ct: Key) {
        let Some(counter) = self.objects.cts.get_mut(ct) else {
            return;
        };
        let cancelled: Vec<Triggered> = counter.cancel().collect();
        for triggered in cancelled {
            self.triggers.outstanding -= 1;
            if let Triggered::Append(key) = triggered {
                self.discard_entry(key);
            }
        }
    }

    fn trigger(
        &mut self,
        triggered: Triggered,
        ct: Handle,
        threshold: u64,
    ) -> Result<(), PtlError> {
        let key = ct
            .key(HandleKind::Ct, self.kind.index())
            .ok_or(PtlError::ArgInvalid)?;
        let counter = self.objects.cts.get_mut(key).ok_or(PtlError::ArgInvalid)?;
        if self.triggers.outstanding >= self.limits.max_triggered_ops {
            return Err(PtlError::NoSpace);
        }
        self.triggers.outstanding += 1;
        self.triggers.issued += 1;
        counter.wait(
            threshold,
            self.triggers.issued,
            triggered,
            &mut self.triggers.fired,
        );
        self.carry_out_fired();
        Ok(())
    }

    /// Does what has fired, in order. What an operation on a counter or list makes fire comes
    /// behind what had fired before.
    pub(crate) fn carry_out_fired(&mut self) {
        while let Some(triggered) = self.triggers.fired.pop_front() {
            self.counts.triggered += 1;
            if let Triggered::Start(operation) = triggered {
                self.triggers.due.push_back(operation);
                continue;
            }
            self.triggers.outstanding -= 1;
            match triggered {
                Triggered::Start(_) => {}
                Triggered::Inc(ct, by) => {
                    self.change_counter(ct, |counter, fired| counter.add(by, fired))
                }
                Triggered::Set(ct, to) => {
                    self.change_counter(ct, |counter, fired| counter.set(to, fired))
                }
                Triggered::Append(key) => {
                    if self.link(key).is_err() {
                        self.discard_entry(key);
                    }
                }
                Triggered::Unlink(entry) => self.unlink_when_idle(entry),
            }
        }
    }
}
