//! Memory that a caller lends to an adapter for the time of a call.
//!
//! Owns: such registrations, which end with the call. Must not know: what requests are made of it.

use super::pd::{Mr, Pd};
use super::region::OutOfRange;
use crate::error::VerbsError;
use crate::types::{Access, LKey, RKey};
use crate::wr::Element;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// Borrowed memory that is registered until the call that lends it returns: keys and elements that
/// are kept longer are good for nothing, because the adapter refuses them.
pub struct Lent {
    /// Gone when the call has returned.
    mr: Mutex<Option<Arc<Mr>>>,
    lkey: LKey,
    rkey: RKey,
    address: u64,
    length: usize,
}

/// Ends the registration, also when the call panics.
struct Loan(Arc<Lent>);

impl Drop for Loan {
    fn drop(&mut self) {
        let mut mr = self.0.mr.lock().unwrap_or_else(PoisonError::into_inner);
        // nobody else has it: this deregisters, after which the adapter touches the memory no more
        *mr = None;
    }
}

impl Lent {
    /// Lends bytes that peers may read while `call` runs.
    ///
    /// # Errors
    /// They cannot be registered.
    pub fn for_peers<R>(
        pd: &Arc<Pd>,
        bytes: &[u8],
        call: impl FnOnce(&Arc<Lent>) -> R,
    ) -> Result<R, VerbsError> {
        let address = bytes.as_ptr().expose_provenance();
        // SAFETY: the bytes are borrowed until the loan has ended, and nobody writes them: peers
        // may only read.
        let loan = unsafe { Loan::of(pd, address, bytes.len(), Access::REMOTE_READ) }?;
        Ok(call(&loan.0))
    }

    /// Lends bytes that requests of this process may write while `call` runs.
    ///
    /// # Errors
    /// They cannot be registered.
    pub fn for_requests<R>(
        pd: &Arc<Pd>,
        bytes: &mut [u8],
        call: impl FnOnce(&Arc<Lent>) -> R,
    ) -> Result<R, VerbsError> {
        let address = bytes.as_mut_ptr().expose_provenance();
        // SAFETY: the bytes are borrowed, and used by nobody else, until the loan has ended.
        let loan = unsafe { Loan::of(pd, address, bytes.len(), Access::LOCAL_WRITE) }?;
        Ok(call(&loan.0))
    }

    /// The key for requests of peers.
    pub fn rkey(&self) -> RKey {
        self.rkey
    }

    /// Where the memory begins, as peers name it.
    pub fn address(&self) -> u64 {
        self.address
    }

    /// The first `length` bytes, for a request.
    ///
    /// # Errors
    /// There are fewer.
    pub fn element(&self, length: u32) -> Result<Element<'static>, OutOfRange> {
        if length as usize > self.length {
            return Err(OutOfRange {
                at: 0,
                length: length as usize,
                size: self.length,
            });
        }
        // SAFETY: while the registration lives the memory is borrowed for it; afterwards the
        // adapter refuses the key.
        Ok(unsafe { Element::foreign(self.address, length, self.lkey) })
    }
}

impl Loan {
    /// # Safety
    /// The memory may be used as `access` says until this value is dropped.
    unsafe fn of(
        pd: &Arc<Pd>,
        address: usize,
        length: usize,
        access: Access,
    ) -> Result<Self, VerbsError> {
        let address = address as u64;
        // SAFETY: the caller's promise; this value has the only handle.
        let mr = unsafe { Mr::register_foreign(pd, address, length, access) }?;
        Ok(Loan(Arc::new(Lent {
            lkey: mr.lkey(),
            rkey: mr.rkey(),
            mr: Mutex::new(Some(mr)),
            address,
            length,
        })))
    }
}

impl fmt::Debug for Lent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lent")
            .field("rkey", &self.rkey)
            .field("length", &self.length)
            .finish_non_exhaustive()
    }
}
