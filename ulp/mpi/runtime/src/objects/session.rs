//! Sessions: what one is.
//!
//! Owns: what a session says of itself. Must not know: when the runtime begins and ends.

use crate::objects::info::Info;

/// A session.
#[derive(Debug)]
pub struct Session {
    /// Handle of its error handler.
    pub errhandler: i32,
    /// What MPI_Session_get_info says.
    pub info: Info,
}
