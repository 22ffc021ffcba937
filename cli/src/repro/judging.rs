//! What the judges of all papers' claims have in common.
//!
//! Owns: how a judgement is put together. Must not know: any claim.

use super::data::Missing;
use super::registry::Judgement;

/// What a judge says.
pub type Judged = Result<Judgement, Missing>;

/// A judgement of a claim that is judged once.
pub fn verdict(holds: bool, found: String) -> Judged {
    Ok(Judgement { holds, found })
}

/// The judgement of a claim that has to hold at each of several places. What is found at each is
/// told.
pub struct Everywhere {
    holds: bool,
    found: Vec<String>,
}

impl Everywhere {
    /// Nothing is judged yet.
    pub fn new() -> Self {
        Everywhere {
            holds: true,
            found: Vec::new(),
        }
    }

    /// At one more place.
    pub fn ask(&mut self, holds: bool, found: String) {
        self.holds &= holds;
        self.found.push(found);
    }

    /// All places were judged.
    pub fn judgement(self) -> Judged {
        verdict(self.holds, self.found.join("; "))
    }
}
