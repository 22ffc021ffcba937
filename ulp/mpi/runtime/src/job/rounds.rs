//! What a waiter asks of the runtime that it waits in.
//!
//! Owns: the questions. Must not know: who answers. One structure does, so nothing here is called
//! by a table of functions.

use crate::errors::Outcome;
use crate::ground::sleepers::Sleepers;
use crate::transport::host::Host;
use std::os::fd::RawFd;

/// A runtime that is entered by a guard and makes progress in rounds.
pub trait Rounds {
    /// A call of a function of the program that a round has come to. It is made outside of the
    /// runtime, because the function may ask it something.
    type Call;

    /// One round. True if something happened.
    fn round(&mut self) -> Outcome<bool>;
    /// One round with a look at every channel.
    fn round_all(&mut self) -> Outcome<bool>;
    /// Whether a round would do something: the last look before a process sleeps.
    fn has_work(&self) -> bool;
    /// Whether functions of the program are to be called.
    fn has_calls(&self) -> bool;
    /// Takes out the next of these calls.
    fn next_call(&mut self) -> Option<Self::Call>;
    /// Makes a call.
    fn make(call: &Self::Call);
    /// A call has been made.
    fn made(&mut self, call: &Self::Call);
    /// Whether a request is over.
    fn is_over(&self, request: u32) -> bool;
    /// A call waits for `request`, or for none: a round may end once that is over.
    fn set_awaited(&mut self, request: u32);
    /// Threads that wait.
    fn sleepers(&self) -> &Sleepers;
    /// Threads that wait, to change.
    fn sleepers_mut(&mut self) -> &mut Sleepers;
    /// The other ranks of the host, if there are any.
    fn host(&self) -> Option<&Host>;
    /// Whether ranks are reached by verbs.
    fn has_net(&self) -> bool;
    /// Whether a flag in shared memory is waited for.
    fn has_flags(&self) -> bool;
    /// Says to those who set such flags that this process is about to sleep.
    fn announce(&self);
    /// Arms the devices before a sleep: what wakes the process besides its bell, and how many
    /// milliseconds it may sleep, -1 for any time.
    fn arm(&mut self) -> Outcome<(Vec<RawFd>, i32)>;
    /// A call that only asks has asked in vain for long: the next round looks, if that is due,
    /// whether peers are silent.
    fn ask_about(&self);
    /// Whether ranks of this host may want to know that the program waits.
    fn has_offers(&self) -> bool;
    /// Tells them whether it does.
    fn say_it_waits(&self, waits: bool);
    /// Rounds without news before the core is given away.
    fn spins(&self) -> u32;
    /// Calls that only ask, one after the other, that have found nothing new.
    fn asked_in_vain(&mut self) -> &mut u32;

    /// Tells those who wait for anything that something has happened.
    fn tell(&mut self) {
        self.sleepers_mut().tell();
        if self.sleepers().is_poller_asleep {
            self.wake_poller();
        }
    }

    /// Wakes the thread that looks for messages.
    #[cold]
    fn wake_poller(&self) {
        if let Some(host) = self.host() {
            host.ring(host.me());
        }
    }

    /// Whether no message can come from anywhere else.
    fn is_single(&self) -> bool {
        self.host().is_none() && !self.has_net()
    }
}
