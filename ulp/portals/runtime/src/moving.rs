//! How operations begin: by a connection, within the process, or later.
//!
//! Owns: the order of what waits, and which way an operation goes. Must not know: what is told of
//! it.

use crate::address::{self, ADDRESS_BYTES, OPERAND_BYTES};
use crate::memory;
use crate::process::{Change, MOST_WAITING, Moving, Process, socket_address};
use ferriband_portals_proto::{
    AckInfo, ArrivalOp, Delivery, Grant, NiFail, Operation, Peer as Target, Process as Id, PtlError,
};
use ferriband_putget_proto::{Kind, NotStarted, Start, Started as Begun};
use ferriband_putget_verbs::{Node, Peer};

/// Requests of at most so many bytes always go short (max_waw_ordered_size).
pub(crate) const ORDERED_BYTES: u64 = 64;

/// Begins an operation of a program's call.
pub(crate) fn begin(
    node: &mut Node<Process>,
    ni: u8,
    operation: Operation,
) -> Result<(), PtlError> {
    let place = &mut node.users.interfaces[usize::from(ni & 3)];
    let ni_state = place.as_mut().ok_or(PtlError::ArgInvalid)?;
    let to = match operation.target {
        Target::Physical(id) => id,
        Target::Rank(rank) => {
            let id = ni_state.map.get(rank as usize);
            *id.ok_or(PtlError::ArgInvalid)?
        }
    };
    if to.pid == 0 || to.pid > u32::from(u16::MAX) || to.nid == 0 {
        return Err(PtlError::ArgInvalid);
    }
    let started = ni_state.interface.start(operation)?;
    dispatch(node, to, Moving::new(ni, operation, started));
    Ok(())
}

/// Gives an operation to its way.
fn dispatch(node: &mut Node<Process>, to: Id, moving: Moving) {
    if to == node.users.id {
        return node.users.own.push_back(moving);
    }
    let peer = node.peer(socket_address(to));
    let waits = node.users.waiting.contains_key(&peer);
    if !waits && node.is_joined(peer) {
        if let Some(moving) = start(node, peer, moving) {
            node.users
                .waiting
                .entry(peer)
                .or_default()
                .push_back(moving);
        }
        return;
    }
    let waiting = node.users.waiting.entry(peer).or_default();
    if waiting.len() >= MOST_WAITING {
        return node.users.failed(&moving, NiFail::Dropped);
    }
    waiting.push_back(moving);
    if node.join(peer).is_err() {
        fail_waiting(node, peer);
    }
}

fn fail_waiting(node: &mut Node<Process>, peer: Peer) {
    for moving in node.users.waiting.remove(&peer).unwrap_or_default() {
        node.users.failed(&moving, NiFail::Undeliverable);
    }
}

/// Begins what can begin: triggered operations, requests to this process, and what waits.
pub(crate) fn advance(node: &mut Node<Process>) {
    loop {
        let mut moved = false;
        for ni in 0..4 {
            while let Some(operation) = node.users.interfaces[usize::from(ni)]
                .as_mut()
                .and_then(|ni| ni.interface.next_due())
            {
                // one whose descriptor is gone is told to nobody
                let _ = begin(node, ni, operation);
                moved = true;
            }
        }
        while let Some(moving) = node.users.own.pop_front() {
            within(&mut node.users, moving);
            moved = true;
        }
        let peers: Vec<Peer> = node.users.waiting.keys().copied().collect();
        for peer in peers {
            moved |= drain(node, peer);
        }
        if !moved {
            return;
        }
    }
}

/// Begins what waits for a peer, in its order. Whether anything began.
fn drain(node: &mut Node<Process>, peer: Peer) -> bool {
    let mut moved = false;
    while node.is_joined(peer) {
        let waiting = node.users.waiting.get_mut(&peer);
        let Some(moving) = waiting.and_then(|waiting| waiting.pop_front()) else {
            node.users.waiting.remove(&peer);
            return moved;
        };
        if let Some(moving) = start(node, peer, moving) {
            node.users
                .waiting
                .entry(peer)
                .or_default()
                .push_front(moving);
            return moved;
        }
        moved = true;
    }
    moved
}

/// Begins an operation on a connection. Gives it back if there is no room.
fn start(node: &mut Node<Process>, peer: Peer, mut moving: Moving) -> Option<Moving> {
    let operation = moving.operation;
    let kind = match operation.op {
        ArrivalOp::Put | ArrivalOp::Atomic => Kind::Put,
        ArrivalOp::Get => Kind::Get,
        ArrivalOp::FetchAtomic | ArrivalOp::Swap => Kind::Exchange,
    };
    let rooms = node.rooms(peer, ADDRESS_BYTES)?;
    let room = if kind == Kind::Get { rooms.1 } else { rooms.0 };
    let is_short =
        operation.atomic.is_some() || operation.length <= ORDERED_BYTES || operation.length <= room;
    let segments = match is_short {
        true => Vec::new(),
        false => match node.users.segments(&mut moving) {
            Ok(segments) => segments,
            Err(_) => {
                node.users.failed(&moving, NiFail::Segv);
                return None;
            }
        },
    };
    let ni = ferriband_portals_proto::NiKind::from_index(moving.ni);
    let own = node.users.interfaces[usize::from(moving.ni & 3)].as_ref();
    let rank = own.map_or(u32::MAX, |own| own.rank);
    let address = address::emit(ni, &operation, rank);
    let operand = if moving.operand() { OPERAND_BYTES } else { 0 };
    let data = if kind == Kind::Get {
        0
    } else {
        operation.length as usize
    };
    let token = node.users.enter(moving);
    let started = node.start(
        peer,
        &Start {
            kind,
            tag: operation.pt_index,
            address: &address,
            length: operation.length,
            payload: operand + data,
            long: (!is_short).then_some(&segments[..]),
            acknowledge: operation.ack != ferriband_portals_proto::AckRequest::None,
            solicit: true,
            token,
        },
    );
    match started {
        Ok(begun) => {
            // the bytes of a short one were copied
            if begun == Begun::Over || is_short {
                sent(&mut node.users, token, begun == Begun::Over);
            }
            None
        }
        Err(NotStarted::Full) => node.users.moving.remove(&token),
        Err(_) => {
            if let Some(moving) = node.users.moving.remove(&token) {
                node.users.failed(&moving, NiFail::Undeliverable);
            }
            None
        }
    }
}

fn sent(users: &mut Process, token: u64, is_over: bool) {
    let Some(mut moving) = users.moving.remove(&token) else {
        return;
    };
    users.sent(&mut moving);
    if !is_over {
        users.moving.insert(token, moving);
    }
}

/// Carries out a request of the process to itself.
fn within(users: &mut Process, mut moving: Moving) {
    let operation = moving.operation;
    let index = usize::from(moving.ni & 3);
    let rank = users.interfaces[index].as_ref().map_or(0, |ni| ni.rank);
    let ni = ferriband_portals_proto::NiKind::from_index(moving.ni);
    let address = address::emit(ni, &operation, rank);
    let who = (users.id, users.uid);
    let granted = users.let_in(&address, who, operation.pt_index, operation.length);
    let (ni, target, grant) = match granted {
        Ok(granted) => granted,
        Err(fail) => {
            users.sent(&mut moving);
            return users.answered(moving, AckInfo::refused(fail));
        }
    };
    copy(users, &moving, target, &grant);
    users.sent(&mut moving);
    users.delivered(ni, grant.hold, NiFail::Ok);
    users.answered(moving, grant.answer(Delivery::Done));
}

fn copy(users: &Process, moving: &Moving, target: Change, grant: &Grant) {
    let mut bytes = vec![0; grant.length as usize];
    let pieces = grant.pieces.as_slice();
    if moving.operation.op == ArrivalOp::Get {
        // SAFETY: memory that the interface has granted.
        unsafe { memory::gather(pieces, &mut bytes) };
    } else {
        let operand = if moving.operand() { OPERAND_BYTES } else { 0 };
        let mut data = vec![0; operand + moving.operation.length as usize];
        users.payload(moving, &mut data);
        if moving.operation.get.is_none() {
            return target.place(&data[..bytes.len()], pieces);
        }
        target.change(&data, pieces, &mut bytes);
    }
    // SAFETY: memory of a descriptor that an operation under way uses.
    unsafe { memory::scatter(&bytes, moving.back.as_slice()) };
}
