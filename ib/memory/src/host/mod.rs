//! The registry of a host domain, and the channels between its processes. No daemon, no files.
//!
//! A domain is what processes of one uid, boot and network namespace share. Its tables lie in a sealed memfd that
//! members hand to joiners; its names are abstract unix sockets. All of it goes with the last member, however that
//! ends; what can be left is one empty directory of mode 0700 that joiners lock (`lock`).
//!
//! Owns: who is a member, who owns which queue pair number, multicast attachments, XRC domains, targets and SRQs, who has a socket
//! where on the shared port, services, connections, faults to inject, counters of ports ([`Registry`]); control connections ([`Control`]). Must not know: verbs, rings, what the messages say.
//!
//! *Life.* A member is a slot of the process table and a generation. It lives while its presence
//! name is bound (`names`). Each entry that it owns carries both numbers, so it is freed exactly
//! when its owner is reaped, by whichever member or joiner notices, and a later owner of the slot
//! inherits nothing. A member that is stopped stays a member. A program that closes our descriptors
//! behind our back is dead to the others: its next claim says `Expelled`.
//!
//! *Fork.* A child gives its parent's names and connections up before fork returns in it ([`ForkFd`]), and every inherited object
//! answers `Forked` there. *Exec.* All is close-on-exec.
//!
//! *Trust.* Members share a uid and are trusted to be no attackers; bytes of the segment and of sockets are checked all
//! the same. Other users can squat on names, which costs slots and nothing else: every connection's uid is checked.

mod admin;
mod blocks;
mod connections;
mod control;
mod counters;
mod discover;
mod error;
mod fork_fd;
mod hand_over;
mod identity;
mod layout;
mod lock;
mod multicast;
mod names;
mod registry;
mod services;
mod steering;
mod tap;
#[cfg(test)]
pub(crate) mod tests;
mod tools;
mod xrc;

pub use admin::{
    FAULT_WORDS, FaultRule, HOOK_CAPTURE, HOOK_FAULTS, HOOK_PACKETS, HOOK_PORTS, Hooks, PORT_GONE,
    PORT_HARD, PORT_STOPS,
};
pub use blocks::BlockKind;
pub use connections::{CONNECTION_WORDS, ConnectionClaim, Inherited};
pub use control::{Control, Listener, MESSAGE_BYTES, MESSAGE_FDS};
pub use counters::{PORT_COUNTERS, PortCount, PortCounters};
pub use error::HostError;
pub use fork_fd::ForkFd;
pub use hand_over::{HAND_OVER_BODY, HAND_OVER_HEAD, HandOver, HandedOver};
pub use identity::{HostKey, LABEL_BYTES, ProcessIdentity};
pub use multicast::MulticastMember;
pub use names::{Credentials, credentials};
pub use registry::{Member, PROCESS_LIMIT, ProcessRef, QPN_BLOCK, Registry, XRC_QPN_BASE};
pub use services::{
    SERVICE_LISTENS, SERVICE_ONE_FAMILY, SERVICE_SHARED, Service, ServiceClaim, ServiceEntry,
};
pub use steering::SteeringEntry;
pub use tap::{TAP_RECORD_BYTES, TAP_RING_BYTES, TapReader, TapWriter};
pub use tools::{Lookout, MSG_LOOK, MSG_QP_ERROR, MSG_QP_MIGRATE, MSG_TAP, Tool};
pub use xrc::{XRC_TARGET_WORDS, XrcDomain, XrcOpen, XrcSrq, XrcTarget};

use ferriband_wire::{Gid, Lid, Qpn};
use layout::{PROCESSES, header};
use lock::DomainLock;
use names::Prober;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

/// Members that a joiner probes for having died unnoticed: a bound on what one join costs, while every slot's turn comes.
const PROBES_PER_JOIN: usize = 32;

/// Attempts to make an XRC domain that others try to make at the same time.
const CREATE_ATTEMPTS: usize = 64;

/// How to join.
#[derive(Clone, Debug)]
pub struct JoinOptions {
    /// Splits the domain: only processes with equal labels meet. At most [`LABEL_BYTES`] of a-z, 0-9 and '-'.
    pub label: String,
    /// How long to wait for other joiners.
    pub lock_wait: Duration,
    /// How long to wait for members' answers, sixteen at a time, where /proc does not help.
    pub answer_wait: Duration,
}

impl Default for JoinOptions {
    fn default() -> Self {
        JoinOptions {
            label: String::new(),
            lock_wait: Duration::from_secs(10),
            answer_wait: Duration::from_millis(200),
        }
    }
}

/// What [`Host::reap_process`] found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    /// It is gone, and all that it owned is free.
    Dead,
    /// Its name is bound: it lives, or it is stopped.
    Alive,
}

/// Membership of this process. Dropping it leaves the domain and frees what is still owned.
///
/// Dereferences to [`Registry`] for look-ups.
#[derive(Debug)]
pub struct Host {
    registry: Arc<Registry>,
    key: HostKey,
    identity: ProcessIdentity,
    me: ProcessRef,
    nonce: u64,
    listener: Listener,
    /// Bound while we are a member.
    presence: ForkFd,
    epoch: u32,
    /// The block of each kind that we claimed last, plus 1.
    last_blocks: [AtomicU32; 3],
}

impl std::ops::Deref for Host {
    type Target = Registry;

    fn deref(&self) -> &Registry {
        &self.registry
    }
}

impl Host {
    /// Joins the domain of the calling thread; the first joiner makes it.
    ///
    /// # Errors
    /// `LockTimeout`, `NoAnswer`, `NotOurs`, `NameTaken`, `Full`, `Label`, `Proc`, `System`, `Memory`: see each.
    pub fn join(options: JoinOptions) -> Result<Host, HostError> {
        let key = HostKey::current(&options.label)?;
        let identity = ProcessIdentity::current()?;
        let nonce = random()?;
        let _lock = DomainLock::acquire(&key, options.lock_wait)?;
        let registry = match discover::find(
            &key,
            &identity,
            options.answer_wait,
            identity::proc_is_of_our_namespace(),
        )? {
            Some(registry) => registry,
            None => Registry::create(&key)?,
        };
        let prober = Prober::new(&key)?;
        reap_some(&registry, &prober, PROBES_PER_JOIN)?;
        let claimed = match claim_slot(&registry, &key, &identity, nonce)? {
            Some(claimed) => claimed,
            None => {
                reap_some(&registry, &prober, PROCESS_LIMIT)?;
                claim_slot(&registry, &key, &identity, nonce)?.ok_or(HostError::Full {
                    table: PROCESSES.name,
                    limit: PROCESS_LIMIT,
                })?
            }
        };
        let (me, presence, listener) = claimed;
        let registry = Arc::new(registry);
        let listener = Listener::new(listener, key.clone(), Arc::clone(&registry), me, nonce);
        Ok(Host {
            registry,
            key,
            identity,
            me,
            nonce,
            listener,
            presence,
            epoch: ferriband_fork::generation(),
            last_blocks: Default::default(),
        })
    }

    /// The registry of the domain of the calling thread, to look at without being a member. None if
    /// nobody is, or if none of the first members can be found by /proc.
    ///
    /// # Errors
    /// `Label`, `Proc`, `System`, `Memory`.
    pub fn glance(label: &str) -> Result<Option<Registry>, HostError> {
        if !identity::proc_is_of_our_namespace() {
            return Ok(None);
        }
        let key = HostKey::current(label)?;
        discover::glance(&key, &ProcessIdentity::current()?)
    }

    /// Our slot and generation.
    pub fn me(&self) -> ProcessRef {
        self.me
    }

    /// Our identity, as our entry shows it.
    pub fn identity(&self) -> ProcessIdentity {
        self.identity
    }

    /// The domain's key.
    pub fn key(&self) -> &HostKey {
        &self.key
    }

    /// Where other members' connections arrive.
    pub fn listener(&self) -> &Listener {
        &self.listener
    }

    /// Connects to another member (or to ourselves). Never waits.
    ///
    /// # Errors
    /// `Gone` (then call [`Host::reap_process`]), `Busy` (try again later), `Forked`, `System`, `Full`.
    pub fn connect(&self, peer: ProcessRef) -> Result<Control, HostError> {
        self.check_fork()?;
        Control::connect(&self.key, &self.registry, (self.me, self.nonce), peer)
    }

    /// Fails unless we are still a member: `Forked` or `Expelled`.
    ///
    /// # Errors
    /// As said.
    pub fn check_member(&self) -> Result<(), HostError> {
        self.check_fork()?;
        if self.registry.is_live(self.me) {
            Ok(())
        } else {
            Err(HostError::Expelled)
        }
    }

    /// Sets the 32 bits of our entry that are the adapter's own.
    ///
    /// # Errors
    /// `Forked`, `Expelled`.
    pub fn set_flags(&self, flags: u32) -> Result<(), HostError> {
        self.check_fork()?;
        self.registry.set_flags(self.me, flags)
    }

    /// Does something while no process joins, and no other does anything under this lock.
    ///
    /// # Errors
    /// `LockTimeout` after `wait`; `Forked`, `Expelled`, and what else keeps one from joining.
    pub fn locked<T>(
        &self,
        wait: Duration,
        work: impl FnOnce(&Registry) -> T,
    ) -> Result<T, HostError> {
        self.check_member()?;
        let _lock = DomainLock::acquire(&self.key, wait)?;
        Ok(work(&self.registry))
    }

    /// True if a member is known to be stopped (by a signal, or by a debugger): it answers nothing until it goes on. False also where that
    /// cannot be seen.
    pub fn is_stopped(&self, process: ProcessRef) -> bool {
        let members = self.registry.members();
        let member = members.iter().find(|member| member.process == process);
        member.is_some_and(|member| {
            member.identity.pid_namespace == self.identity.pid_namespace
                && identity::proc_is_of_our_namespace()
                && member.identity.is_stopped()
        })
    }

    // Death.

    /// Finds out whether a member is dead, and if so frees all that it owned. For whoever saw a connection end or refused: where
    /// the name is still bound, the member has to accept and drop a connection.
    ///
    /// # Errors
    /// `Forked`; `Expelled`; `OtherNamespace`, if the calling thread cannot see the domain's names; `System`.
    pub fn reap_process(&self, process: ProcessRef) -> Result<Fate, HostError> {
        let prober = self.prober()?;
        let is_dead = |slot| {
            // A bound name may be a squatter's: the listener's credentials tell.
            Ok(!prober.is_present(slot)?
                || matches!(
                    names::dial(&self.key, slot),
                    Ok(names::Dialled::Nobody | names::Dialled::Foreign)
                ))
        };
        self.reap_if(process, is_dead)
    }

    /// Reaps a member if `is_dead` says so of its slot after its entry was read.
    fn reap_if(
        &self,
        process: ProcessRef,
        is_dead: impl FnOnce(u32) -> Result<bool, HostError>,
    ) -> Result<Fate, HostError> {
        if process.slot as usize >= PROCESS_LIMIT {
            return Ok(Fate::Dead);
        }
        let Some(occupant) = self
            .registry
            .occupant(process.slot)
            .filter(|o| o.owner() == process)
        else {
            return Ok(Fate::Dead);
        };
        if !is_dead(process.slot)? {
            return Ok(Fate::Alive);
        }
        self.registry.free_all_of(occupant);
        Ok(Fate::Dead)
    }

    /// Frees what dead processes owned, all of them. Gives the number of processes found dead.
    ///
    /// # Errors
    /// As [`Host::reap_process`].
    pub fn reap(&self) -> Result<usize, HostError> {
        let prober = self.prober()?;
        let reaped = reap_some(&self.registry, &prober, PROCESS_LIMIT)?;
        self.registry.sweep_orphans();
        Ok(reaped)
    }

    /// A prober that is known to see this domain: it sees us. A thread that moved to another network namespace would
    /// find everybody dead.
    fn prober(&self) -> Result<Prober, HostError> {
        self.check_member()?;
        let prober = Prober::new(&self.key)?;
        if !prober.is_present(self.me.slot)? {
            return Err(HostError::OtherNamespace);
        }
        Ok(prober)
    }

    /// Claims, and if there is no room, reaps and tries once more.
    fn claim<T>(&self, mut attempt: impl FnMut() -> Result<T, HostError>) -> Result<T, HostError> {
        self.check_member()?;
        match attempt() {
            Err(HostError::Full { .. }) => {
                self.reap()?;
                attempt()
            }
            result => result,
        }
    }

    // Multicast.

    /// Attaches a queue pair of ours to a group. Attaching it again changes nothing.
    ///
    /// # Errors
    /// `Full`, `Forked`, `Expelled`.
    pub fn multicast_attach(&self, mgid: &Gid, mlid: Lid, qpn: Qpn) -> Result<(), HostError> {
        self.claim(|| self.registry.multicast_attach(self.me, mgid, mlid, qpn))
    }

    /// Detaches a queue pair of ours; false if it was not attached.
    pub fn multicast_detach(&self, mgid: &Gid, mlid: Lid, qpn: Qpn) -> bool {
        self.check_fork().is_ok() && self.registry.multicast_detach(self.me, mgid, mlid, qpn)
    }

    // XRC.

    /// Opens the XRC domain that a file stands for.
    ///
    /// # Errors
    /// `NoDomain`, `DomainExists`, `Full`, `Forked`, `Expelled`, `OtherNamespace`, `System`.
    pub fn xrc_domain_open(
        &self,
        device: u64,
        inode: u64,
        how: XrcOpen,
    ) -> Result<XrcDomain, HostError> {
        let id = xrc::domain_of_file(device, inode);
        if how != XrcOpen::OrCreate {
            // The dead do not keep a domain open.
            let prober = self.prober()?;
            for process in self.registry.xrc_domain_members(id) {
                self.reap_if(process, |slot| Ok(!prober.is_present(slot)?))?;
            }
        }
        self.claim(|| match how {
            XrcOpen::OrCreate => self.registry.xrc_join_domain(self.me, id),
            XrcOpen::CreateNew => self.xrc_create_new(id),
            XrcOpen::Existing if self.registry.xrc_domain_members(id).is_empty() => {
                Err(HostError::NoDomain)
            }
            XrcOpen::Existing => self.registry.xrc_join_domain(self.me, id),
        })
    }

    /// Makes a domain. Of several who try at once each draws back when it sees another and tries again after a random pause;
    /// one that stays in the way (it may be stopped) counts as having it.
    fn xrc_create_new(&self, id: u64) -> Result<XrcDomain, HostError> {
        for _ in 0..CREATE_ATTEMPTS {
            match self.registry.xrc_create_domain(self.me, id)? {
                xrc::Created::Made(domain) => return Ok(domain),
                xrc::Created::Exists => break,
                xrc::Created::Contended => {
                    std::thread::sleep(Duration::from_micros(20 + random()? % 500));
                }
            }
        }
        Err(HostError::DomainExists)
    }

    /// Opens a domain that nobody else can.
    ///
    /// # Errors
    /// `Full`, `Forked`, `Expelled`.
    pub fn xrc_domain_private(&self) -> Result<XrcDomain, HostError> {
        let id = self.registry.xrc_private_domain(self.me);
        self.claim(|| self.registry.xrc_join_domain(self.me, id))
    }

    /// Closes an opening; the domain and its targets go with the last one. False if it was closed before.
    pub fn xrc_domain_close(&self, domain: XrcDomain) -> bool {
        self.check_fork().is_ok() && self.registry.xrc_domain_close(domain)
    }

    /// Claims a target queue pair of a domain that we have open, with a number from [`XRC_QPN_BASE`] on and all words 0. Nobody
    /// finds it before [`Host::xrc_tgt_publish`].
    ///
    /// # Errors
    /// `Full`, `Forked`, `Expelled`.
    pub fn xrc_tgt_claim(&self, domain: &XrcDomain) -> Result<XrcTarget, HostError> {
        self.claim(|| self.registry.xrc_tgt_claim(domain))
    }

    /// Makes a claimed target the domain's: it outlives us from here on. Use the handle returned, not the one before.
    ///
    /// # Errors
    /// `Forked`, `Expelled`.
    pub fn xrc_tgt_publish(&self, target: XrcTarget) -> Result<XrcTarget, HostError> {
        self.check_member()?;
        self.registry.xrc_tgt_publish(target)
    }

    /// Claims a 24-bit number, never 0, for an XRC shared receive queue of ours; `words` are shown to who looks it up.
    ///
    /// # Errors
    /// `Full`, `Forked`, `Expelled`.
    pub fn xrc_srq_claim(&self, domain: &XrcDomain, words: [u64; 2]) -> Result<u32, HostError> {
        self.claim(|| self.registry.xrc_srq_claim(self.me, domain.id, words))
    }

    /// Gives a number back; false if it is not ours.
    pub fn xrc_srq_free(&self, number: u32) -> bool {
        self.check_fork().is_ok() && self.registry.xrc_srq_free(self.me, number)
    }

    fn check_fork(&self) -> Result<(), HostError> {
        if ferriband_fork::generation() == self.epoch {
            Ok(())
        } else {
            Err(HostError::Forked)
        }
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        // A child's copy must not give away what the parent still uses.
        if self.presence.get().is_ok()
            && let Some(occupant) = self
                .registry
                .occupant(self.me.slot)
                .filter(|o| o.owner() == self.me)
        {
            self.registry.free_all_of(occupant);
        }
    }
}

type Claimed = (ProcessRef, ForkFd, ForkFd);

/// Takes the lowest free slot whose names can be bound. Binding comes first: whoever holds the names is the only one to claim.
fn claim_slot(
    registry: &Registry,
    key: &HostKey,
    identity: &ProcessIdentity,
    nonce: u64,
) -> Result<Option<Claimed>, HostError> {
    for slot in 0..PROCESS_LIMIT as u32 {
        if registry.occupant(slot).is_some() {
            continue;
        }
        let Some(presence) = names::bind_presence(key, slot)? else {
            continue;
        };
        let Some(listener) = names::bind_listener(key, slot)? else {
            continue;
        };
        if let Some(me) = registry.claim_slot(slot, identity, nonce) {
            return Ok(Some((me, presence, listener)));
        }
    }
    Ok(None)
}

/// Probes up to `probes` members from where the last one stopped, and reaps the dead. Gives their
/// number.
fn reap_some(registry: &Registry, prober: &Prober, probes: usize) -> Result<usize, HostError> {
    let used = registry.used(&PROCESSES);
    let mut reaped = 0;
    for _ in 0..probes.min(used) {
        let slot = (registry.add(header::REAP_CURSOR, 1) % used as u64) as u32;
        // The occupant is read before its name is asked for: so it is this one whose name was gone.
        if let Some(occupant) = registry.occupant(slot)
            && !prober.is_present(slot)?
        {
            registry.free_all_of(occupant);
            reaped += 1;
        }
    }
    Ok(reaped)
}

fn random() -> Result<u64, HostError> {
    let mut bytes = [0; 8];
    // Eight bytes come whole or not at all.
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())
        .map_err(|e| HostError::system("getrandom", e))?;
    Ok(u64::from_ne_bytes(bytes))
}
