//! Members that are no adapters but tools: they listen in on packets, or want queue pairs to take packets.
//!
//! Owns: what a tool says of itself in its entry, which hooks that makes, and that they end with the tool, however it ends. Must not
//! know: packets.

use super::admin::{HOOK_CAPTURE, HOOK_FAULTS, HOOK_PACKETS, HOOK_PORTS, Hooks};
use super::control::Control;
use super::identity::HostKey;
use super::names::Prober;
use super::registry::{Member, ProcessRef, Registry};
use super::tap::TAP_RING_BYTES;
use super::{FaultRule, Host, HostError};
use std::sync::Arc;

/// First byte of the message by which a process sends a tool the ring that it writes to ([`super::TapReader`]).
pub const MSG_TAP: u8 = 64;
/// First byte of the message by which a tool makes a process look at rules and ports at once.
pub const MSG_LOOK: u8 = 65;
/// First byte of the message by which a tool lets queue pairs of a process fail.
pub const MSG_QP_ERROR: u8 = 66;
/// First byte of the message by which a tool has connections of a process go over to their
/// alternate paths.
pub const MSG_QP_MIGRATE: u8 = 67;

/// Attempts to set the hooks while others change them: whoever changed them last sees to it as well.
const SETTLE_ATTEMPTS: usize = 64;

/// Bits of a member's flags: it is a tool; it captures; it wants packets; exponent of its rings' size; bytes of a packet that it
/// wants at most.
const TOOL: u32 = 1 << 31;
const CAPTURES: u32 = 1 << 30;
const WANTS_PACKETS: u32 = 1 << 29;
const RING_SHIFT: u32 = 16;
const RING_MASK: u32 = 0x1f;
const SNAP_MASK: u32 = 0xffff;

/// What a tool wants.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tool {
    /// Every process sends it a ring with what it sends and receives.
    pub captures: bool,
    /// New queue pairs shall take packets.
    pub wants_packets: bool,
    /// Bytes of each ring.
    pub ring_bytes: usize,
    /// Bytes of a packet that it wants at most; 0 for all.
    pub snap_bytes: u16,
}

impl Tool {
    fn flags(&self) -> u32 {
        let ring = self
            .ring_bytes
            .clamp(*TAP_RING_BYTES.start(), *TAP_RING_BYTES.end())
            .next_power_of_two();
        let mut flags = TOOL | ring.trailing_zeros() << RING_SHIFT | u32::from(self.snap_bytes);
        if self.captures {
            flags |= CAPTURES;
        }
        if self.wants_packets {
            flags |= WANTS_PACKETS;
        }
        flags
    }

    /// What a member says of itself; None if it is an adapter.
    pub fn of(member: &Member) -> Option<Tool> {
        let flags = member.flags;
        (flags & TOOL != 0).then(|| Tool {
            captures: flags & CAPTURES != 0,
            wants_packets: flags & WANTS_PACKETS != 0,
            ring_bytes: 1 << (flags >> RING_SHIFT & RING_MASK),
            snap_bytes: (flags & SNAP_MASK) as u16,
        })
    }
}

impl Host {
    /// Says that this process is a tool, and what it wants.
    ///
    /// # Errors
    /// `Forked`, `Expelled`.
    pub fn become_tool(&self, tool: &Tool) -> Result<(), HostError> {
        self.set_flags(tool.flags())?;
        let mut hooks = 0;
        if tool.captures {
            hooks |= HOOK_CAPTURE;
        }
        if tool.wants_packets {
            hooks |= HOOK_PACKETS;
        }
        self.change_hooks(hooks, 0)
    }

    /// Sets the hooks to what living tools, rules and ports ask for: when a tool ends, a rule goes, or one is found dead.
    pub fn settle_hooks(&self) {
        if self.check_member().is_ok() {
            self.lookout().settle();
        }
    }

    /// What threads need who look at hooks.
    pub fn lookout(&self) -> Lookout {
        Lookout {
            key: self.key.clone(),
            registry: Arc::clone(&self.registry),
            me: self.me,
            nonce: self.nonce,
            epoch: self.epoch,
        }
    }
}

/// A membership as far as hooks need it. It does not keep the process in the domain.
#[derive(Clone, Debug)]
pub struct Lookout {
    key: HostKey,
    registry: Arc<Registry>,
    me: ProcessRef,
    nonce: u64,
    epoch: u32,
}

impl Lookout {
    /// Our slot and generation.
    pub fn me(&self) -> ProcessRef {
        self.me
    }

    /// The hooks that are set: one plain load.
    #[inline]
    pub fn hooks(&self) -> Hooks {
        self.registry.hooks()
    }

    /// The fault rules.
    pub fn fault_rules(&self) -> Vec<FaultRule> {
        self.registry.fault_rules()
    }

    /// Counts a hit of a rule; see [`Registry::fault_hit`].
    pub fn fault_hit(&self, index: usize) -> u64 {
        self.registry.fault_hit(index)
    }

    /// How often a rule was hit.
    pub fn fault_hits(&self, index: usize) -> u64 {
        self.registry.fault_hits(index)
    }

    /// What an administrator says of an interface.
    pub fn port_word(&self, ifindex: u32) -> u64 {
        self.registry.port_word(ifindex)
    }

    /// Tools that capture, dead ones that nobody has found yet among them.
    pub fn capturing(&self) -> Vec<(ProcessRef, Tool)> {
        let tool = |member: Member| Tool::of(&member).map(|tool| (member.process, tool));
        self.registry
            .members()
            .into_iter()
            .filter_map(tool)
            .filter(|(_, tool)| tool.captures)
            .collect()
    }

    /// Connects to another member. Never waits.
    ///
    /// # Errors
    /// `Gone`, `Busy`, `Forked`, `System`, `Full`.
    pub fn connect(&self, peer: ProcessRef) -> Result<Control, HostError> {
        if self.epoch != ferriband_fork::generation() {
            return Err(HostError::Forked);
        }
        Control::connect(&self.key, &self.registry, (self.me, self.nonce), peer)
    }

    /// As [`Host::settle_hooks`]. What somebody else sets meanwhile stays set.
    pub fn settle(&self) {
        for _ in 0..SETTLE_ATTEMPTS {
            let seen = self.hooks();
            let mut wanted = self.wanted_by_tools();
            if !self.registry.fault_rules().is_empty() {
                wanted |= HOOK_FAULTS | HOOK_PACKETS;
            }
            if self.registry.stops_a_port() {
                wanted |= HOOK_PORTS;
            }
            if seen.bits() == wanted || self.registry.replace_hooks(seen, wanted) {
                return;
            }
        }
    }

    fn wanted_by_tools(&self) -> u32 {
        let prober = Prober::new(&self.key).ok();
        // a thread in another network namespace sees nobody, us neither: then everybody counts as alive
        let sees = |slot: u32| match &prober {
            Some(prober) => prober.is_present(slot).unwrap_or(true),
            None => true,
        };
        let blind = !sees(self.me.slot);
        let mut wanted = 0;
        for member in self.registry.members() {
            let Some(tool) = Tool::of(&member).filter(|_| blind || sees(member.process.slot))
            else {
                continue;
            };
            if tool.captures {
                wanted |= HOOK_CAPTURE;
            }
            if tool.wants_packets {
                wanted |= HOOK_PACKETS;
            }
        }
        wanted
    }
}
