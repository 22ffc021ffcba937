//! The second path of a connection, as it is kept with it.
//!
//! Owns: the form of that. Must not know: when a connection goes over to it ([`super::migrate`]).

use ferriband_heal::{Lids, Path};

/// The second path of a connection.
#[derive(Clone, Copy, Debug)]
pub struct Second {
    pub(super) path: Path,
    /// What both ends have told each other when the life began.
    pub(super) own: Lids,
    pub(super) peer: Lids,
    /// The queue pairs have it, and are armed or say to the peer that they want to be.
    pub(super) is_loaded: bool,
}
