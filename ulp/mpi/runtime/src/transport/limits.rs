//! What is set for transports.
//!
//! Owns: the form of that. Must not know: from where it comes.

use ferriband_mpi_proto::fast::Plan;
pub use ferriband_mpi_proto::sizes::Rendezvous;
use ferriband_registration::Way as Registration;

/// What is set for long messages of one host, and holds for the process's life but for what the
/// kernel refuses.
#[derive(Clone, Copy, Debug)]
pub struct SharedLimits {
    /// Whether long messages are read from the sender's memory; cleared when the kernel refuses.
    pub reads_peers: bool,
    /// Bytes of the shortest message on one host that both sides copy; none: no message is, or the
    /// kernel refuses.
    pub both_copy: Option<u64>,
    /// Bytes of the shortest message on one host whose buffers the kernel is asked to put into
    /// large pages; none: no message's are.
    pub large_pages: Option<u64>,
}

/// What is asked of a device.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// This one, if it is named.
    pub name: Option<&'a str>,
    /// One that leads to other hosts: some rank is there.
    pub far: bool,
    /// Its requests wait so long for an answer before they are repeated, as verbs code it.
    pub timeout: u8,
    /// How the program's memory is registered.
    pub registration: Registration,
    /// What was set.
    pub limits: Limits,
}

/// What is set for messages by verbs, and holds for the process's life.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Longest message that is sent eagerly by packets of our adapter, in bytes.
    pub eager_packets: usize,
    /// Who moves long messages by verbs.
    pub rendezvous: Rendezvous,
    /// Short messages that go to a rank by packets at once before others wait to go together; 0:
    /// all do.
    pub bundle: u32,
    /// Bytes of a READ or WRITE of a long message.
    pub piece: usize,
    /// The fast path by verbs.
    pub fast: Fast,
    /// Whether messages by verbs are kept until they are acknowledged.
    pub acks: bool,
    /// Whether failed connections are made anew.
    pub heal: Heal,
}

/// What becomes of a connection that fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heal {
    /// `heal`: it is made anew.
    pub is_on: bool,
    /// `heal_for`: nanoseconds without a word of the peer after which it is lost; none: never.
    pub for_ns: Option<u64>,
    /// `rails`: adapters that are opened at most.
    pub rails: usize,
    /// `detect`: nanoseconds without an answer after which a peer is probed.
    pub detect_ns: u64,
    /// `heal_log`: bytes of messages that are kept at most.
    pub log: u64,
}

/// How the RDMA fast path is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fast {
    /// `design` and `block`: how a block is filled, and its bytes; with `block=auto` what it begins
    /// with.
    pub plan: Plan,
    /// `block=auto`: blocks that are too small grow.
    pub grows: bool,
    /// `fast_channels`: blocks of this process that peers may have; 0: none is asked for, and none
    /// given.
    pub channels: u32,
    /// `open_after`: messages to a peer before a block is asked for.
    pub open_after: u32,
    /// `close_below`: a block whose sender has sent fewer messages a second is taken back when
    /// another is refused one.
    pub close_below: u32,
}

impl Fast {
    /// Bytes of all blocks of this process, at most.
    pub fn budget(&self) -> u64 {
        let each = if self.grows {
            Plan::usual(self.plan.design())
        } else {
            self.plan
        };
        u64::from(self.channels) * u64::from(each.size())
    }
}
