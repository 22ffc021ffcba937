//! Who may sleep, and who may write to a sleeper: a WRITE wakes nobody, so a receiver asks its senders to stop before it sleeps without bound.
//!
//! PAUSE, PAUSED and RESUME travel by SEND, in order among themselves and behind the records before them. A PAUSE that says `own` also promises that
//! its sender will not write either, which spares the other direction its own question. A RESUME counts only if it answers to the last PAUSE that its
//! receiver knows and to all promises that it has made; an older one lies in the past.

/// After so many messages that came by SEND from a peer that was asked to stop, it is asked to write again.
const BUSY: u32 = 8;

/// The sender's side of a channel: whether it may write.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gate {
    shut: bool,
    epoch: u32,
    owns: u32,
}

impl Gate {
    /// Whether records may be written.
    #[inline]
    pub fn is_open(&self) -> bool {
        !self.shut
    }

    /// PAUSE has come. From here on nothing is written; PAUSED with the same epoch is due, behind what was written.
    pub fn pause(&mut self, epoch: u32) {
        self.shut = true;
        self.epoch = epoch;
    }

    /// This side goes to sleep and promises, in its own PAUSE, not to write.
    pub fn promise(&mut self) {
        self.shut = true;
        self.owns = self.owns.wrapping_add(1);
    }

    /// RESUME has come. True if it counts.
    pub fn resume(&mut self, epoch: u32, owns: u32) -> bool {
        let counts = epoch == self.epoch && owns == self.owns;
        if counts {
            self.shut = false;
        }
        counts
    }

    /// A new block has been given.
    pub fn reopen(&mut self) {
        self.shut = false;
    }
}

/// The receiver's side of a channel: whether its sender may be writing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lull {
    state: State,
    epoch: u32,
    owns: u32,
    messages: u32,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    /// It may.
    #[default]
    Live,
    /// It was asked to stop.
    Asked,
    /// It has stopped.
    Quiet,
}

impl Lull {
    /// Before this side sleeps: the epoch of the PAUSE to send, if one is needed.
    pub fn ask(&mut self) -> Option<u32> {
        (self.state == State::Live).then(|| {
            self.state = State::Asked;
            self.epoch = self.epoch.wrapping_add(1);
            self.epoch
        })
    }

    /// PAUSED has come.
    pub fn answered(&mut self, epoch: u32) {
        if self.state == State::Asked && self.epoch == epoch {
            self.fall_quiet();
        }
    }

    /// The peer's own PAUSE has come, with its promise.
    pub fn promised(&mut self) {
        self.owns = self.owns.wrapping_add(1);
        self.fall_quiet();
    }

    /// Whether nothing can be written any more: what was, lies in the block.
    pub fn is_quiet(&self) -> bool {
        self.state == State::Quiet
    }

    /// A message has come by SEND: epoch and promises of the RESUME to send, once there have been enough.
    #[inline]
    pub fn message(&mut self) -> Option<(u32, u32)> {
        if self.state != State::Quiet {
            return None;
        }
        self.messages += 1;
        (self.messages >= BUSY).then(|| {
            self.state = State::Live;
            (self.epoch, self.owns)
        })
    }

    /// A new block is given.
    pub fn reopen(&mut self) {
        self.state = State::Live;
    }

    fn fall_quiet(&mut self) {
        self.state = State::Quiet;
        self.messages = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resumed(lull: &mut Lull) -> (u32, u32) {
        for _ in 1..BUSY {
            assert_eq!(lull.message(), None);
        }
        lull.message().expect("enough")
    }

    #[test]
    fn asked_answered_and_resumed() {
        let (mut gate, mut lull) = (Gate::default(), Lull::default());
        assert_eq!(lull.message(), None, "it is not quiet");
        let epoch = lull.ask().expect("it may be writing");
        assert_eq!(lull.ask(), None, "asked once");
        assert!(!lull.is_quiet());
        gate.pause(epoch);
        assert!(!gate.is_open());
        lull.answered(epoch.wrapping_sub(1));
        assert!(!lull.is_quiet(), "an older answer");
        lull.answered(epoch);
        assert!(lull.is_quiet());
        let (epoch, owns) = resumed(&mut lull);
        assert!(gate.resume(epoch, owns) && gate.is_open());
        lull.answered(epoch);
        assert!(!lull.is_quiet(), "it writes again");
    }

    #[test]
    fn a_resume_that_crosses_a_pause_or_a_promise_is_nothing() {
        let (mut gate, mut lull) = (Gate::default(), Lull::default());
        let first = lull.ask().expect("first");
        gate.pause(first);
        lull.answered(first);
        let (epoch, owns) = resumed(&mut lull);
        let second = lull.ask().expect("second");
        gate.pause(second);
        assert!(!gate.resume(epoch, owns), "a later PAUSE has come");
        lull.answered(second);
        let (epoch, owns) = resumed(&mut lull);
        gate.promise();
        assert!(!gate.resume(epoch, owns), "it has promised since");
        lull.promised();
        assert!(lull.is_quiet());
        let (epoch, owns) = resumed(&mut lull);
        assert!(gate.resume(epoch, owns));
    }
}
