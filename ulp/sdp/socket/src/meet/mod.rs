//! How two processes of one host agree about a TCP connection, beside that connection.
//!
//! Owns: the messages ([`message`]) and the sockets that carry them ([`channel`]), the routing from
//! a port to the process that holds a socket ([`family`], [`table`]), the checks that this process
//! is the one that it says it is ([`credentials`]), also from another network namespace
//! ([`directory`], [`place`]), the accepting side ([`holder`]), the connecting
//! side ([`client`]), what both share afterwards ([`pair`]), and what a process says of its streams
//! to whoever may know ([`report`], [`status`]). Must not know: which thread calls
//! it, how a connection is carried once both sides have its slot.
//!
//! Nothing here waits. Each service has descriptors to poll, a deadline, and a function `serve`
//! that does what can be done. Whatever comes from outside may be anything; who breaks a rule loses
//! the channel. A forked child drops its copies of its parent's services before it does anything
//! else with them: as long as it has them, peers do not hear of the parent's end.

pub mod bells;
pub mod channel;
pub mod client;
pub mod credentials;
pub mod directory;
pub mod family;
pub mod holder;
pub mod message;
pub mod pair;
pub mod place;
pub mod report;
pub mod status;
pub mod table;

#[cfg(test)]
mod testing;

use crate::link::Link;
use crate::own::{Event, Segment};
use crate::record::Record;
use crate::segment::Role;
use crate::tunnel::hosts::FAR;
use bells::Bells;
use ferriband_host::segment::OutOfRange;
use message::Reason;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

/// How long an answer is waited for.
pub const PATIENCE: Duration = Duration::from_secs(1);

/// Why a connection is not taken over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum No {
    /// It may be taken over later: the peer's program has not accepted it so far, for example.
    Later,
    /// It stays TCP.
    Never(Reason),
}

/// A slot of a pair of processes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ticket {
    /// The pair's number in this process's service.
    pub pair: u64,
    /// The segment's number in the pair.
    pub segment: u32,
    /// The slot's number in the segment.
    pub slot: u64,
}

/// What both sides have of a connection that is to be taken over.
#[derive(Debug)]
pub struct Met {
    /// The kernel's number of this side's TCP socket (SO_COOKIE).
    pub cookie: u64,
    /// Where its words lie.
    pub ticket: Ticket,
    /// This side.
    pub role: Role,
    /// The memory.
    pub segment: Arc<Segment>,
    /// What tells the peer's process.
    pub peer: Arc<Bells>,
    /// The peer is in another network namespace: TCP's buffers begin small between the two, and a
    /// copy of a whole ring has to fit into them.
    pub is_narrow: bool,
}

impl Met {
    /// The connection in this process; `own` is the eventfd that tells this process.
    ///
    /// # Errors
    /// There is no such slot.
    pub fn link<'a>(&self, record: &'a Record, own: Arc<Event>) -> Result<Link<'a>, OutOfRange> {
        let (segment, slot) = (self.segment.clone(), self.ticket.slot);
        let link = Link::new(segment, slot, self.role, record, self.peer.clone(), own)?;
        match self.ticket.pair {
            FAR => Ok(link.far()),
            _ if self.is_narrow => Ok(link.narrow()),
            _ => Ok(link),
        }
    }
}

/// A number of a connection by its two ends, by which a family of a directory is asked: who asks
/// there sees no cookie of the accepted socket. It routes, and proves nothing.
pub fn ends_number(accepted: SocketAddr, connected: SocketAddr) -> u32 {
    let mut sum = 0x811c_9dc5_u32;
    for end in [accepted, connected] {
        let ip = match end.ip().to_canonical() {
            IpAddr::V4(ip) => ip.to_ipv6_mapped(),
            IpAddr::V6(ip) => ip,
        };
        for byte in ip.octets().into_iter().chain(end.port().to_be_bytes()) {
            sum = (sum ^ u32::from(byte)).wrapping_mul(0x0100_0193);
        }
    }
    // 0 is no socket
    sum.max(1)
}

/// What has come of a call of `serve`.
#[derive(Debug)]
pub enum News {
    /// Both sides have a slot for this connection.
    Met(Met),
    /// The connection of this side's socket `cookie` is not taken over.
    Stays {
        /// The kernel's number of this side's TCP socket.
        cookie: u64,
        /// Why.
        why: No,
        /// Another user than the peer's, who has given a wrong answer or none.
        by: Option<u32>,
    },
    /// The peer has given the slot back, and looks at it no more. This side gives it back, too.
    Left(Ticket),
    /// A peer of another user has told of news.
    Rung,
    /// Another user than a connection's has spoken for it.
    Stranger {
        /// The user.
        uid: u32,
        /// What is wrong with it.
        reason: Reason,
    },
    /// Somebody who may know asks for this process's streams: [`holder::HolderService::tell`].
    Status {
        /// The channel's number in this process's service.
        pair: u64,
        /// The number of the question.
        number: u32,
        /// The least descriptor number.
        from: i32,
    },
    /// The channel to the peer's process has ended: the process is gone, or has broken the rules.
    /// Slots of the pair can be used on as long as the process lives.
    Gone {
        /// The pair's number.
        pair: u64,
    },
}
