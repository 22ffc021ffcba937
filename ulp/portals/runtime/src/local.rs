//! The Portals of this process over its connections by verbs.
//!
//! Owns: the join of `ferriband-portals-process` with `ferriband-putget-verbs`: both ask, and each
//! answers for the other. Must not know: what a request means.

use crate::memory::Program;
use ferriband_ibv::Element;
use ferriband_portals_process::{Connections, Hold, Peer as Number, Process, advance};
use ferriband_portals_proto::{Piece, Process as Id};
use ferriband_putget_proto::{
    Answer, Asked, Direct, Granted, Lease, NotDirect, NotStarted, Start, Started, Status,
};
use ferriband_putget_verbs::{Left, Node, Peer, Users};
use ferriband_registration::Reachable;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// The most bytes that one element of a request names.
const LONGEST: u64 = 1 << 30;

/// The Portals of this process.
pub(crate) struct Local {
    pub process: Process<Program>,
    /// PtlAbort was called.
    pub aborted: bool,
}

/// Where a process listens.
fn socket_address(id: Id) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::from(id.nid), id.pid as u16))
}

/// The process that listens there.
pub(crate) fn id_of(address: SocketAddr) -> Option<Id> {
    match address.ip() {
        IpAddr::V4(v4) => Some(Id {
            nid: v4.into(),
            pid: address.port().into(),
        }),
        IpAddr::V6(_) => None,
    }
}

/// The connections of this process, as its Portals ask for them.
pub(crate) struct Over<'a>(pub &'a mut Node<Local>);

impl Connections for Over<'_> {
    type Memory = Program;

    fn process(&mut self) -> &mut Process<Program> {
        &mut self.0.users.process
    }

    fn peer(&mut self, id: Id) -> Number {
        Number(self.0.peer(socket_address(id)).0)
    }

    fn is_joined(&self, peer: Number) -> bool {
        self.0.is_joined(Peer(peer.0))
    }

    fn join(&mut self, peer: Number) -> bool {
        self.0.join(Peer(peer.0)).is_ok()
    }

    fn rooms(&self, peer: Number, address_bytes: usize) -> Option<(u64, u64)> {
        self.0.rooms(Peer(peer.0), address_bytes)
    }

    fn start(&mut self, peer: Number, start: &Start<'_>) -> Result<Started, NotStarted> {
        self.0.start(Peer(peer.0), start)
    }

    fn has_leases(&self, peer: Number) -> bool {
        self.0.has_leases(Peer(peer.0))
    }

    fn direct(&mut self, peer: Number, direct: &Direct<'_>) -> Result<Started, NotDirect> {
        self.0.direct(Peer(peer.0), direct)
    }

    fn lease(&mut self, peer: Number, lease: &Lease<'_>) -> bool {
        self.0.lease(Peer(peer.0), lease)
    }

    fn revoke(&mut self, peer: Number, token: u64) {
        self.0.revoke(Peer(peer.0), token);
    }
}

/// Names a piece of registered memory for an adapter.
fn name(piece: &Piece, registered: &Reachable, to: &mut Vec<Element<'static>>) {
    let mut at = 0;
    while at < piece.length {
        let length = (piece.length - at).min(LONGEST) as u32;
        to.push(registered.element(at, length));
        at += u64::from(length);
    }
}

impl Users for Local {
    type Hold = Hold;

    fn identified(&mut self, peer: Peer, address: SocketAddr, uid: u32) {
        if let Some(id) = id_of(address) {
            let (own, peer) = (&self.process, Number(peer.0));
            let is_neighbor = (id.nid, uid) == (own.id.nid, own.uid);
            self.process.memory.identified(peer, is_neighbor);
            self.process.identified(peer, id, uid);
        }
    }

    fn admit(&mut self, peer: Peer, asked: &Asked<'_>) -> Result<Granted<Hold>, Status> {
        self.process.admit(Number(peer.0), asked)
    }

    fn place(&mut self, hold: Hold, data: &[u8]) {
        self.process.place(hold, data);
    }

    fn fetch(&mut self, hold: Hold, to: &mut [u8]) {
        self.process.fetch(hold, to);
    }

    fn exchange(&mut self, hold: Hold, data: &[u8], to: &mut [u8]) {
        self.process.exchange(hold, data, to);
    }

    fn elements(&mut self, hold: Hold, to: &mut Vec<Element<'static>>) -> Result<(), Status> {
        self.process
            .reach(hold, |piece, registered| name(piece, registered, to))
    }

    fn own_elements(&mut self, token: u64, to: &mut Vec<Element<'static>>) -> Result<(), Status> {
        self.process
            .reach_own(token, |piece, registered| name(piece, registered, to))
    }

    fn counted(&mut self, _: Peer, lease: u64, length: u64) {
        self.process.counted(lease, length);
    }

    fn returned(&mut self, peer: Peer, lease: u64) {
        self.process.returned(Number(peer.0), lease);
    }

    fn ended(&mut self, hold: Hold, status: Status) {
        self.process.ended(hold, status);
    }

    fn gather(&mut self, token: u64, to: &mut [u8]) {
        self.process.gather(token, to);
    }

    fn scatter(&mut self, token: u64, data: &[u8]) {
        self.process.scatter(token, data);
    }

    fn done(&mut self, token: u64, answer: Answer) {
        self.process.done(token, answer);
    }

    fn report(&self) -> serde_json::Value {
        // a report has nothing that is no JSON
        serde_json::to_value(self.process.report()).unwrap_or_default()
    }

    fn joined(&mut self, _: Peer) {
        // what waits is begun by `advance`
    }

    fn left(&mut self, peer: Peer, _: Left) {
        self.process.left(Number(peer.0));
    }

    fn advance(node: &mut Node<Local>) {
        advance(&mut Over(node));
    }
}
