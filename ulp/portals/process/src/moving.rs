//! How operations begin: by a connection, within the process, or later.
//!
//! Owns: the order of what waits, and which way an operation goes. Must not know: what is told of
//! it.

use crate::address::{self, ADDRESS_BYTES};
use crate::connections::{Connections, Peer};
use crate::leases::{self, Tried};
use crate::memory::Memory;
use crate::process::{Change, MOST_WAITING, Moving, Process};
use crate::report::Path;
use ferriband_portals_proto::{
    AckInfo, ArrivalOp, Delivery, Grant, NiFail, Operation, Peer as Target, Process as Id,
    PtlError, Started,
};
use ferriband_putget_proto::{Kind, NotStarted, SEGMENT_BYTES, Start, Started as Begun};

/// Requests of at most so many bytes always go short (max_waw_ordered_size).
pub const ORDERED_BYTES: u64 = 64;

/// Begins an operation of a program's call. [`advance`] is to be called afterwards.
///
/// # Errors
/// Those of [`ferriband_portals_proto::Interface::start`]; PTL_ARG_INVALID for an interface that is
/// not open, a rank that the map does not have, and a process that cannot be.
pub fn begin<C: Connections>(node: &mut C, ni: u8, operation: Operation) -> Result<(), PtlError> {
    let process = node.process();
    let place = &mut process.interfaces[usize::from(ni & 3)];
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
    if !is_there(&process.memory, &started) {
        let id = started.id;
        process.with(ni, |interface| interface.failed(id, NiFail::Segv));
        return Ok(());
    }
    let moving = Box::new(Moving::new(ni, operation, started, &process.memory));
    dispatch(node, to, moving);
    Ok(())
}

/// Whether the memory of an operation is there, as far as it is to be asked for.
fn is_there(memory: &impl Memory, started: &Started) -> bool {
    let (out, back) = (started.out.as_slice(), started.back.as_slice());
    let may_be = memory.may_be_there(out) && memory.may_be_there(back);
    may_be && (!started.may_fault || memory.is_there(out, false) && memory.is_there(back, true))
}

/// Gives an operation to its way.
fn dispatch<C: Connections>(node: &mut C, to: Id, moving: Box<Moving<C::Memory>>) {
    if to == node.process().id {
        return node.process().own.push_back(moving);
    }
    let peer = node.peer(to);
    let waits = node.process().waiting.contains_key(&peer);
    if !waits && node.is_joined(peer) {
        if let Some(moving) = start(node, peer, moving) {
            let waiting = node.process().waiting.entry(peer).or_default();
            waiting.push_back(moving);
        }
        return;
    }
    let process = node.process();
    let waiting = process.waiting.entry(peer).or_default();
    if waiting.len() >= MOST_WAITING {
        return process.failed(&moving, NiFail::Dropped);
    }
    waiting.push_back(moving);
    if !node.join(peer) {
        node.process().left(peer);
    }
}

/// Begins what can begin: triggered operations, requests to this process, and what waits. To be
/// called whenever something has happened.
pub fn advance<C: Connections>(node: &mut C) {
    loop {
        let mut moved = false;
        for ni in 0..4 {
            while let Some(operation) = next_due(node.process(), ni) {
                // one whose descriptor is gone is told to nobody
                let _ = begin(node, ni, operation);
                moved = true;
            }
        }
        while let Some(moving) = node.process().own.pop_front() {
            within(node.process(), moving);
            moved = true;
        }
        let peers: Vec<Peer> = node.process().waiting.keys().copied().collect();
        for peer in peers {
            moved |= drain(node, peer);
        }
        leases::advance(node);
        if !moved {
            return;
        }
    }
}

/// The next triggered operation of an interface that has room for it.
fn next_due<M: Memory>(process: &mut Process<M>, ni: u8) -> Option<Operation> {
    let interface = &mut process.interfaces[usize::from(ni)].as_mut()?.interface;
    match interface.has_room() {
        true => interface.next_due(),
        false => None,
    }
}

/// Begins what waits for a peer, in its order. Whether anything began.
fn drain<C: Connections>(node: &mut C, peer: Peer) -> bool {
    let mut moved = false;
    while node.is_joined(peer) {
        let waiting = node.process().waiting.get_mut(&peer);
        let Some(moving) = waiting.and_then(|waiting| waiting.pop_front()) else {
            node.process().waiting.remove(&peer);
            return moved;
        };
        if let Some(moving) = start(node, peer, moving) {
            let waiting = node.process().waiting.entry(peer).or_default();
            waiting.push_front(moving);
            return moved;
        }
        moved = true;
    }
    moved
}

/// Begins an operation on a connection. Gives it back if there is no room.
fn start<C: Connections>(
    node: &mut C,
    peer: Peer,
    moving: Box<Moving<C::Memory>>,
) -> Option<Box<Moving<C::Memory>>> {
    match leases::try_direct(node, peer, moving) {
        Tried::Begun => None,
        Tried::Full(moving) => Some(moving),
        Tried::ByMessage(moving) => ask(node, peer, moving),
    }
}

/// Begins an operation by message. Gives it back if there is no room.
fn ask<C: Connections>(
    node: &mut C,
    peer: Peer,
    mut moving: Box<Moving<C::Memory>>,
) -> Option<Box<Moving<C::Memory>>> {
    let operation = moving.operation;
    let kind = match operation.op {
        ArrivalOp::Put | ArrivalOp::Atomic => Kind::Put,
        ArrivalOp::Get => Kind::Get,
        ArrivalOp::FetchAtomic | ArrivalOp::Swap => Kind::Exchange,
    };
    let Some(rooms) = node.rooms(peer, ADDRESS_BYTES) else {
        node.process().failed(&moving, NiFail::Undeliverable);
        return None;
    };
    let short = node.process().short;
    let room = match kind {
        Kind::Get => rooms.1.min(short.get),
        _ => rooms.0.min(short.put),
    };
    let is_short = operation.atomic.is_some()
        || moving.copied.is_some()
        || operation.length <= ORDERED_BYTES.max(room);
    let segments = match is_short {
        true => Vec::new(),
        false => match node
            .process()
            .segments(&mut moving, peer, rooms.0 as usize / SEGMENT_BYTES)
        {
            Ok(segments) => segments,
            Err(_) => {
                node.process().failed(&moving, NiFail::Segv);
                return None;
            }
        },
    };
    let ni = ferriband_portals_proto::NiKind::from_index(moving.ni);
    let own = node.process().interfaces[usize::from(moving.ni & 3)].as_ref();
    let rank = own.map_or(u32::MAX, |own| own.rank);
    let address = address::emit(ni, &operation, rank);
    let payload = match kind {
        Kind::Get => 0,
        _ => moving.payload_bytes(),
    };
    let token = node.process().enter(moving);
    let started = node.start(
        peer,
        &Start {
            kind,
            tag: operation.pt_index,
            address: &address,
            length: operation.length,
            payload,
            long: (!is_short).then_some(&segments[..]),
            acknowledge: operation.ack != ferriband_portals_proto::AckRequest::None,
            solicit: true,
            token,
        },
    );
    match started {
        Ok(begun) => {
            let path = if is_short { Path::Short } else { Path::Long };
            let counters = &mut node.process().begun;
            counters.count(operation.op, path, operation.length);
            // the bytes of a short one were copied
            if begun == Begun::Over || is_short {
                node.process().sent_short(token, begun == Begun::Over);
            }
            None
        }
        Err(NotStarted::Full) => node.process().take_back(token),
        Err(_) => {
            if let Some(moving) = node.process().take_back(token) {
                node.process().failed(&moving, NiFail::Undeliverable);
            }
            None
        }
    }
}

/// Carries out a request of the process to itself.
fn within<M: Memory>(users: &mut Process<M>, mut moving: Box<Moving<M>>) {
    let operation = moving.operation;
    users
        .begun
        .count(operation.op, Path::Within, operation.length);
    let index = usize::from(moving.ni & 3);
    let rank = users.interfaces[index].as_ref().map_or(0, |ni| ni.rank);
    let ni = ferriband_portals_proto::NiKind::from_index(moving.ni);
    let address = address::emit(ni, &operation, rank);
    let who = (users.id, users.uid);
    let (index, length) = (operation.pt_index, operation.length);
    let granted = users.let_in(&address, who, index, length, u64::MAX);
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

fn copy<M: Memory>(users: &mut Process<M>, moving: &Moving<M>, target: Change, grant: &Grant) {
    let mut bytes = vec![0; grant.length as usize];
    let pieces = grant.pieces.as_slice();
    if moving.operation.op == ArrivalOp::Get {
        users.memory.gather(pieces, &mut bytes);
    } else {
        let mut data = vec![0; moving.payload_bytes()];
        users.payload(moving, &mut data);
        if moving.operation.get.is_none() {
            return target.place(&mut users.memory, &data[..bytes.len()], pieces);
        }
        target.change(&mut users.memory, &data, pieces, &mut bytes);
    }
    users.memory.scatter(&bytes, moving.back.as_slice());
}
