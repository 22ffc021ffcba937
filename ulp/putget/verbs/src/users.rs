//! What a process brings: its memory, and those who wait.
//!
//! Owns: the trait. Must not know: how memory is found.

use crate::node::Node;
use ferriband_ibv::Element;
use ferriband_putget_proto::{Answer, Asked, Granted, Status};
use std::net::SocketAddr;

/// A process that this one speaks to, for as long as the node lives.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Peer(pub u32);

/// Memory of the process, as [`ferriband_putget_proto::Memory`], with the peer that asks and with
/// the registrations that RDMA needs.
pub trait Users {
    /// Names memory that is held for a request.
    type Hold: Copy;

    /// A peer asks.
    ///
    /// # Errors
    /// The reason of a refusal.
    fn admit(&mut self, peer: Peer, asked: &Asked<'_>) -> Result<Granted<Self::Hold>, Status>;

    /// Takes the bytes of a short put, as many as were granted.
    fn place(&mut self, hold: Self::Hold, data: &[u8]);

    /// Gives the bytes of a short get, as many as were granted.
    fn fetch(&mut self, hold: Self::Hold, to: &mut [u8]);

    /// Takes all bytes of an exchange and gives as many back as were granted.
    fn exchange(&mut self, hold: Self::Hold, data: &[u8], to: &mut [u8]);

    /// Names the registered memory that is held, all that was granted, in its order.
    ///
    /// # Errors
    /// It cannot be reached.
    fn elements(&mut self, hold: Self::Hold, to: &mut Vec<Element<'static>>) -> Result<(), Status>;

    /// The bytes of a request are where they belong, or the request came to nothing. Nothing
    /// touches the memory for it any more.
    fn ended(&mut self, hold: Self::Hold, status: Status);

    /// Gives the payload of a short request of this process's.
    fn gather(&mut self, token: u64, to: &mut [u8]);

    /// Takes the data of a short get or an exchange of this process's.
    fn scatter(&mut self, token: u64, data: &[u8]);

    /// A request of this process's has ended.
    fn done(&mut self, token: u64, answer: Answer);

    /// Names the registered memory of an operation by a lease that is too long to be copied: where
    /// its bytes come from, or go to, all of them, in order.
    ///
    /// # Errors
    /// It is not to be reached so: the operation goes by message.
    fn own_elements(&mut self, _token: u64, _to: &mut Vec<Element<'static>>) -> Result<(), Status> {
        Err(Status::Fault)
    }

    /// A peer has put so many bytes by the lease of this token, which counts.
    fn counted(&mut self, _peer: Peer, _lease: u64, _length: u64) {}

    /// A peer does not reach memory by the lease of this token any more.
    fn returned(&mut self, _peer: Peer, _lease: u64) {}

    /// Whether somebody waits for a response that may come unsolicited.
    fn waits_for_all(&self) -> bool {
        false
    }

    /// Who a peer is: where it listens, and its user by its own word. Told before anything of it is
    /// asked.
    fn identified(&mut self, _peer: Peer, _address: SocketAddr, _uid: u32) {}

    /// What the process says of its Portals when it is asked.
    fn report(&self) -> serde_json::Value {
        serde_json::Value::Null
    }

    /// Begins what can begin now. Called whenever something has happened.
    fn advance(_node: &mut Node<Self>)
    where
        Self: Sized,
    {
    }

    /// A connection to a peer stands: requests may be begun.
    fn joined(&mut self, peer: Peer);

    /// The connection to a peer is lost, or does not come to be. Its requests have ended.
    fn left(&mut self, peer: Peer, why: Left);
}

/// Why there is no connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Left {
    /// It was lost, or the peer has ended it.
    Lost,
    /// Nobody listens there, or the peer cannot be reached.
    Unreachable,
    /// The peer speaks another version, or none.
    Foreign,
}
