//! Connections whose other side has ended them.
//!
//! Owns their queue pairs' numbers. Must not know why.

use std::collections::BTreeSet;
use std::sync::Mutex;

use crate::lock;

/// Numbers of queue pairs whose other side has asked for the end of the connection (DREQ): what is
/// said of a request that fails then.
///
/// Its lock is the last one: reports are made while queue pairs are locked.
#[derive(Debug, Default)]
pub(crate) struct Ends(Mutex<BTreeSet<u32>>);

impl Ends {
    /// As many are remembered; the next one takes the place of all of them, for they are hints.
    const MOST: usize = 4096;

    pub(crate) fn note(&self, qpn: u32) {
        let mut numbers = lock(&self.0);
        if numbers.len() >= Ends::MOST {
            numbers.clear();
        }
        numbers.insert(qpn);
    }

    /// A queue pair of this number is connected anew.
    pub(crate) fn forget(&self, qpn: u32) {
        lock(&self.0).remove(&qpn);
    }

    pub(crate) fn has(&self, qpn: u32) -> bool {
        lock(&self.0).contains(&qpn)
    }
}
