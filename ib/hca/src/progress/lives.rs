//! Whose life this process watches, beside its peers' on the direct wire: those that its connections lead to, and one other process of
//! the host, so that nobody who uses the network dies unseen.
//!
//! A watch is a control connection on which nothing is said; its end is the end of the process, on either side. Owns these
//! connections. Must not know what follows from a death: the registry and the connection manager do.

use std::collections::{BTreeMap, BTreeSet};

use ferriband_memory::host::{Control, Fate, HostError, ProcessRef};
use ferriband_memory::wait::Epoll;

use crate::lock;
use crate::progress::Engine;
use crate::qp::adapter::Roce;

/// Looks at a process whose connection has ended before it counts as one that has only hung up.
const DOUBTS: u8 = 100;

/// The watches.
#[derive(Debug, Default)]
pub(super) struct Lives {
    /// Who is watched, or about to be.
    known: BTreeSet<ProcessRef>,
    wanted: Vec<ProcessRef>,
    held: BTreeMap<u64, (ProcessRef, Control)>,
    /// The process that is watched because somebody has to; it watches this one in return.
    partner: Option<ProcessRef>,
    /// A partner was looked for since the last one ended.
    sought: bool,
    /// Whose connection has ended, while the registry still finds them alive.
    ending: Vec<(ProcessRef, u8)>,
}

impl Engine {
    /// Watches a process from now on: what it leaves undone when it ends is done for it.
    pub(crate) fn watch_life(&self, process: ProcessRef) {
        if process == self.process.registry.me() {
            return;
        }
        let mut lives = lock(&self.meetings.lives);
        if lives.known.insert(process) {
            lives.wanted.push(process);
            drop(lives);
            self.process.waker.signal(1);
        }
    }

    /// By the progress thread: begins what is wanted, and looks after those who seem to have ended. True if some have to be looked
    /// at again soon.
    pub(super) fn tend_lives(&self, epoll: &Epoll) -> bool {
        self.seek_partner();
        let mut lives = lock(&self.meetings.lives);
        if lives.wanted.is_empty() && lives.ending.is_empty() {
            return false;
        }
        let mut gone = Vec::new();
        for process in std::mem::take(&mut lives.wanted) {
            match self.process.registry.connect(process) {
                Ok(control) => {
                    let token = self.next_token();
                    if epoll.add(&control, token, false).is_ok() {
                        lives.held.insert(token, (process, control));
                    }
                }
                Err(HostError::Gone { .. }) => gone.push(process),
                Err(_) => lives.wanted.push(process),
            }
        }
        let ending = std::mem::take(&mut lives.ending);
        let again = !lives.wanted.is_empty();
        drop(lives);
        for process in gone {
            self.life_ended(process);
        }
        for (process, doubts) in ending {
            self.look_at_the_dead(process, doubts);
        }
        again || !lock(&self.meetings.lives).ending.is_empty()
    }

    /// Whoever uses the network is watched by another process: the one in the next lower slot when it came, in a ring.
    fn seek_partner(&self) {
        let beyond = |roce: &Roce| {
            let fabric = roce.local().is_some_and(|local| !local.fabric.is_empty());
            roce.has_port() || fabric
        };
        if !self.wires.roce.get().is_some_and(beyond) {
            return;
        }
        let mut lives = lock(&self.meetings.lives);
        if std::mem::replace(&mut lives.sought, true) {
            return;
        }
        let me = self.process.registry.me();
        let members = self.process.registry.members();
        let others = || members.iter().map(|member| member.process);
        let below = others().rfind(|other| other.slot < me.slot);
        lives.partner = below.or_else(|| others().rfind(|other| other.slot > me.slot));
        let partner = lives.partner;
        drop(lives);
        if let Some(partner) = partner {
            self.watch_life(partner);
        }
    }

    /// Something happened on a watch. False if the token is none's.
    pub(super) fn hear_life(&self, token: u64, epoll: &Epoll) -> bool {
        let mut lives = lock(&self.meetings.lives);
        let Some((process, control)) = lives.held.get(&token) else {
            return false;
        };
        // nothing is said on it but the greeting
        let ended = control.recv(&mut [0; 64]).is_err();
        let process = *process;
        if ended && let Some((_, control)) = lives.held.remove(&token) {
            let _ = epoll.remove(&control);
            drop(lives);
            self.life_ended(process);
        }
        true
    }

    /// A process's connection has ended.
    pub(super) fn life_ended(&self, process: ProcessRef) {
        let mut lives = lock(&self.meetings.lives);
        lives.known.remove(&process);
        if lives.partner == Some(process) {
            lives.partner = None;
            lives.sought = false;
        }
        drop(lives);
        self.manager().gone(self, process);
        self.look_at_the_dead(process, 0);
    }

    fn look_at_the_dead(&self, process: ProcessRef, doubts: u8) {
        // descriptors close one after the other: its names may outlive its connections for a moment
        match self.process.registry.reap_process(process) {
            Ok(Fate::Alive) if doubts < DOUBTS => {
                lock(&self.meetings.lives)
                    .ending
                    .push((process, doubts + 1));
            }
            _ => self.inherit(),
        }
    }

    /// Does what the dead have left, if this process is on the network.
    pub(super) fn inherit(&self) {
        if self.wires.roce.get().is_some_and(|roce| roce.has_port()) {
            self.manager().inherit(self);
        }
    }
}
