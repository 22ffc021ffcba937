//! Rounds of progress, and the program's functions that they have come to.
//!
//! Owns: when functions of the program are called: outside of the runtime, because they may ask it
//! something. Must not know: what a round does.

use super::exec::Call;
use crate::errors::Outcome;
use crate::job::state::Guard;
use crate::runtime::Runtime;
use std::collections::VecDeque;

/// Calls that are to be made.
pub type Calls = VecDeque<Call>;

/// Progress, and then the program's functions that it has come to.
impl Guard {
    /// One round. True if something happened.
    #[inline]
    pub fn progress(&mut self) -> Outcome<bool> {
        let did = Runtime::progress(self)?;
        if self.calls.is_empty() {
            return Ok(did);
        }
        self.call_all();
        Ok(true)
    }

    /// One round with a look at every channel.
    pub fn progress_all(&mut self) -> Outcome<bool> {
        let did = Runtime::progress_all(self)?;
        if self.calls.is_empty() {
            return Ok(did);
        }
        self.call_all();
        Ok(true)
    }

    #[cold]
    fn call_all(&mut self) {
        while let Some(call) = self.calls.pop_front() {
            self.outside(|| call.run());
            self.called(&call);
        }
    }
}
