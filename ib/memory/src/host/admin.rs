//! What an administrator asks of all processes of the domain: hooks in the way of packets, faults to inject, ports switched off.
//!
//! Owns: one word that is read for each packet, and two small tables behind it that belong to nobody: they last as long as the
//! domain does. Must not know: what a rule means, nor more of a port's word than whether it
//! stops packets and whether its device is there.

use super::layout::{FAULTS, PORTS, State, header};
use super::registry::{Held, Registry};
use super::{Host, HostError};

/// Somebody captures packets.
pub const HOOK_CAPTURE: u32 = 1;
/// There are fault rules.
pub const HOOK_FAULTS: u32 = 2;
/// New queue pairs shall take packets although a direct wire would do.
pub const HOOK_PACKETS: u32 = 4;
/// A port's word has [`PORT_STOPS`] set.
pub const HOOK_PORTS: u32 = 8;

/// Bit of a port's word: its packets are stopped. Those from bit 8 on are the adapter's.
pub const PORT_STOPS: u64 = 1;
/// Bit of a port's word: its device is not there.
pub const PORT_GONE: u64 = 2;
/// Bit of a port's word: when its device fails, what programs have not taken is gone.
pub const PORT_HARD: u64 = 4;

/// 64-bit words of a fault rule that are the adapter's.
pub const FAULT_WORDS: usize = 14;

/// The word of [`Registry::hooks`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hooks(u64);

impl Hooks {
    /// True if any of the [`HOOK_CAPTURE`], [`HOOK_FAULTS`], [`HOOK_PACKETS`] in `bits` is set.
    pub const fn any(self, bits: u32) -> bool {
        self.0 as u32 & bits != 0
    }

    /// All that are set.
    pub(super) const fn bits(self) -> u32 {
        self.0 as u32
    }

    /// Changes with every change of hooks, rules or ports: what was read of those is good as long as this is the same.
    pub const fn epoch(self) -> u32 {
        (self.0 >> 32) as u32
    }
}

/// A fault rule.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FaultRule {
    /// Its number, below 64: for [`Registry::fault_hit`] and [`Host::fault_remove`].
    pub index: usize,
    /// What it says.
    pub words: [u64; FAULT_WORDS],
    /// How often it was hit.
    pub hits: u64,
}

impl Host {
    /// Sets and clears hooks for all processes of the domain.
    ///
    /// # Errors
    /// `Forked`, `Expelled`.
    pub(super) fn change_hooks(&self, set: u32, clear: u32) -> Result<(), HostError> {
        self.check_member()?;
        self.registry.change_hooks(set, clear);
        Ok(())
    }

    /// Adds a fault rule. It lasts until it is removed or the domain's last process ends. Gives its number.
    ///
    /// # Errors
    /// `Full`, `Forked`, `Expelled`.
    pub fn fault_add(&self, words: &[u64; FAULT_WORDS]) -> Result<usize, HostError> {
        self.add_rule(words, State::Shared)
    }

    /// As [`Host::fault_add`], but the rule ends with this process.
    ///
    /// # Errors
    /// `Full`, `Forked`, `Expelled`.
    pub fn fault_add_own(&self, words: &[u64; FAULT_WORDS]) -> Result<usize, HostError> {
        self.add_rule(words, State::Live)
    }

    fn add_rule(&self, words: &[u64; FAULT_WORDS], state: State) -> Result<usize, HostError> {
        self.check_member()?;
        let held = self.registry.claim(&FAULTS, self.me, 0..FAULTS.count)?;
        self.registry.fill(&FAULTS, held, words);
        self.registry
            .store(FAULTS.at(held.index, 1 + FAULT_WORDS), 0);
        self.registry.publish(&FAULTS, held, state)?;
        self.registry.change_hooks(HOOK_FAULTS | HOOK_PACKETS, 0);
        Ok(held.index)
    }

    /// Removes a rule; false if there was none of this number.
    pub fn fault_remove(&self, index: usize) -> bool {
        if self.check_member().is_err() || index >= FAULTS.count {
            return false;
        }
        let claim = self.registry.claim_word(&FAULTS, index);
        let in_use = claim.is(State::Shared) || claim.is(State::Live);
        let removed = in_use && self.registry.free(&FAULTS, Held { index, claim });
        self.registry.change_hooks(0, 0);
        self.settle_hooks();
        removed
    }

    /// Sets what an administrator says of an interface (0: the InfiniBand port). 0 says nothing.
    ///
    /// # Errors
    /// `Full`, `Forked`, `Expelled`.
    pub fn set_port_word(&self, ifindex: u32, word: u64) -> Result<(), HostError> {
        self.set_port(ifindex, word, self.port_until(ifindex))
    }

    /// As [`Host::set_port_word`], and until when the interface's device cannot be opened, on the
    /// clock of [`crate::wait::now`]; 0 says nothing.
    ///
    /// # Errors
    /// `Full`, `Forked`, `Expelled`.
    pub fn set_port(&self, ifindex: u32, word: u64, until_ns: u64) -> Result<(), HostError> {
        self.check_member()?;
        if !self.registry.store_port(ifindex, word, until_ns) {
            let held = self.registry.claim(&PORTS, self.me, 0..PORTS.count)?;
            self.registry
                .fill(&PORTS, held, &[u64::from(ifindex), word, until_ns]);
            self.registry.publish(&PORTS, held, State::Shared)?;
            // If somebody made an entry for the same interface at the same time, both say the same.
            self.registry.store_port(ifindex, word, until_ns);
        }
        self.registry.change_hooks(HOOK_PORTS, 0);
        self.settle_hooks();
        Ok(())
    }
}

impl Registry {
    /// The hooks that are set: one plain load, for each packet.
    #[inline]
    pub fn hooks(&self) -> Hooks {
        Hooks(self.load_relaxed(header::HOOKS))
    }

    pub(super) fn change_hooks(&self, set: u32, clear: u32) {
        let mut seen = self.load(header::HOOKS);
        loop {
            let bits = seen as u32 & !clear | set;
            let epoch = ((seen >> 32) as u32).wrapping_add(1);
            match self.cas(
                header::HOOKS,
                seen,
                u64::from(bits) | u64::from(epoch) << 32,
            ) {
                Ok(_) => return,
                Err(now) => seen = now,
            }
        }
    }

    /// Sets all hooks anew, unless they or what is behind them have changed since `seen`.
    pub(super) fn replace_hooks(&self, seen: Hooks, bits: u32) -> bool {
        let epoch = seen.epoch().wrapping_add(1);
        let new = u64::from(bits) | u64::from(epoch) << 32;
        self.cas(header::HOOKS, seen.0, new).is_ok()
    }

    /// True if packets of any port are stopped.
    pub(super) fn stops_a_port(&self) -> bool {
        (0..self.used(&PORTS)).any(|index| {
            self.read::<2>(&PORTS, index)
                .is_some_and(|(_, [_, word])| word & PORT_STOPS != 0)
        })
    }

    /// The fault rules, in the order of their numbers.
    pub fn fault_rules(&self) -> Vec<FaultRule> {
        (0..self.used(&FAULTS))
            .filter_map(|index| {
                let (_, words) = self.read::<FAULT_WORDS>(&FAULTS, index)?;
                let hits = self.load(FAULTS.at(index, 1 + FAULT_WORDS));
                Some(FaultRule { index, words, hits })
            })
            .collect()
    }

    /// How often a rule was hit, in all processes.
    pub fn fault_hits(&self, index: usize) -> u64 {
        self.load(FAULTS.at(index, 1 + FAULT_WORDS))
    }

    /// Counts a hit of a rule: gives how many there were before, in all processes.
    pub fn fault_hit(&self, index: usize) -> u64 {
        self.add(FAULTS.at(index, 1 + FAULT_WORDS), 1)
    }

    /// What an administrator says of an interface; 0 if nothing.
    pub fn port_word(&self, ifindex: u32) -> u64 {
        self.port_entry(ifindex).0
    }

    /// Until when an interface's device cannot be opened, in nanoseconds of [`crate::wait::now`]; 0
    /// if nobody said so.
    pub fn port_until(&self, ifindex: u32) -> u64 {
        self.port_entry(ifindex).1
    }

    fn port_entry(&self, ifindex: u32) -> (u64, u64) {
        (0..self.used(&PORTS))
            .filter_map(|index| self.read::<3>(&PORTS, index))
            .find(|(_, [number, ..])| *number == u64::from(ifindex))
            .map_or((0, 0), |(_, [_, word, until])| (word, until))
    }

    /// Stores in every entry of the interface; false if there is none. Whoever sees the word sees
    /// the time, too.
    fn store_port(&self, ifindex: u32, word: u64, until_ns: u64) -> bool {
        let mut found = false;
        for index in 0..self.used(&PORTS) {
            if let Some((_, [number])) = self.read::<1>(&PORTS, index)
                && number == u64::from(ifindex)
            {
                self.store(PORTS.at(index, 3), until_ns);
                self.store(PORTS.at(index, 2), word);
                found = true;
            }
        }
        found
    }
}
