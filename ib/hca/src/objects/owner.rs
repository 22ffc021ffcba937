//! Who has the device open.
//!
//! Owns the list of contexts. Must not know what they are used for.

use std::sync::{Mutex, Weak};

use crate::objects::context::Context;

/// Contexts of a process.
#[derive(Debug, Default)]
pub(crate) struct Owners {
    pub(crate) contexts: Mutex<Vec<Weak<Context>>>,
}
