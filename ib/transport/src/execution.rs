//! What packets of SENDs and WRITEs do to memory and to receives, whatever the service: RC, XRC, UC and UD share it.
//!
//! Knows the place in a message; which packet's turn it is, is the caller's business.

use crate::context::Context;
use crate::env::{Environment, MemoryError};
use crate::recv_queue::{Acquire, RecvQueue};
use crate::send_queue::MAX_MESSAGE_BYTES;
use crate::types::{Access, Completion, WcFlags, WcOpcode, WcStatus};
use ferriband_wire::{Operation, Packet, Position, RKey, Reth};

/// The message whose packets are arriving.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Message {
    None,
    Send {
        received: u32,
    },
    Write {
        key: RKey,
        addr: u64,
        remaining: u32,
        length: u32,
    },
}

/// Why a request was not executed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Refusal {
    /// No receive: RNR NAK.
    NotReady,
    /// Malformed, unsupported, too long or too many.
    Invalid,
    /// Key, rights or range.
    RemoteAccess,
    /// This side failed.
    Operational,
    /// The receive is too short.
    LocalLength,
    /// The receive's own memory is not accessible.
    LocalProtection,
    /// The key to invalidate is not ours to invalidate.
    Invalidate,
    /// Not now, and without an answer: the peer's timer brings it back.
    Silent,
}

pub(crate) fn remote_refusal(error: MemoryError) -> Refusal {
    match error {
        MemoryError::Key | MemoryError::Range | MemoryError::Access => Refusal::RemoteAccess,
        MemoryError::Fault => Refusal::Operational,
    }
}

pub(crate) fn check(
    env: &mut dyn Environment,
    reth: &Reth,
    length: u32,
    access: Access,
) -> Result<(), Refusal> {
    env.check_remote(reth.rkey, reth.virtual_address, length, access)
        .map_err(remote_refusal)
}

/// A message's packets come in order and unmixed (IBA 9.7.4.1.3).
pub(crate) fn in_order(
    message: Message,
    operation: Operation,
    position: Position,
) -> Result<(), Refusal> {
    let fits = match message {
        Message::None => position.starts(),
        Message::Send { .. } => operation == Operation::Send && !position.starts(),
        Message::Write { .. } => operation == Operation::RdmaWrite && !position.starts(),
    };
    if fits { Ok(()) } else { Err(Refusal::Invalid) }
}

fn acquire(
    rq: &mut RecvQueue,
    env: &mut dyn Environment,
    packet: &Packet<'_>,
) -> Result<(), Refusal> {
    match rq.acquire(env, packet.ext().xrceth.map(|eth| eth.xrc_srq)) {
        Acquire::Ready => Ok(()),
        Acquire::Empty => Err(Refusal::NotReady),
        Acquire::NoSuchQueue => Err(Refusal::Invalid),
        Acquire::Unpolled => Err(Refusal::Silent),
    }
}

/// The part of a received completion that the last packet tells.
fn completion(ctx: &Context<'_>, packet: &Packet<'_>, opcode: WcOpcode, bytes: u32) -> Completion {
    let (imm_or_rkey, flags) = match (packet.ext().imm, packet.ext().ieth) {
        (Some(imm), _) => (imm.to_network(), WcFlags::WITH_IMM),
        (None, Some(ieth)) => (ieth.rkey.0, WcFlags::WITH_INV),
        (None, None) => (0, WcFlags::empty()),
    };
    Completion {
        status: WcStatus::Success,
        opcode,
        byte_len: bytes,
        imm_or_rkey,
        qp_num: ctx.qpn.0,
        flags,
        solicited: packet.bth().solicited,
        ..Completion::default()
    }
}

/// Places a SEND packet and completes the receive with the last one. True when the message is done.
pub(crate) fn receive_send(
    rq: &mut RecvQueue,
    message: &mut Message,
    ctx: &Context<'_>,
    env: &mut dyn Environment,
    packet: &Packet<'_>,
) -> Result<bool, Refusal> {
    let position = packet.opcode().position();
    if position.starts() {
        acquire(rq, env, packet)?;
    }
    let received = match *message {
        Message::Send { received } => received,
        _ => 0,
    };
    let total = u64::from(received) + packet.payload.len() as u64;
    if total > MAX_MESSAGE_BYTES {
        return Err(Refusal::Invalid);
    }
    if total > rq.capacity() {
        return Err(Refusal::LocalLength);
    }
    if !packet.payload.is_empty() {
        rq.scatter(env, received, packet.payload)
            .map_err(|_| Refusal::LocalProtection)?;
    }
    let total = total as u32;
    if !position.ends() {
        *message = Message::Send { received: total };
        return Ok(false);
    }
    if let Some(ieth) = packet.ext().ieth {
        env.invalidate_remote(ieth.rkey)
            .map_err(|_| Refusal::Invalidate)?;
    }
    *message = Message::None;
    rq.complete(completion(ctx, packet, WcOpcode::Recv, total));
    Ok(true)
}

/// Writes a WRITE packet; completes a receive if the last one carries immediate data. True when the message is done.
pub(crate) fn receive_write(
    rq: &mut RecvQueue,
    message: &mut Message,
    ctx: &Context<'_>,
    env: &mut dyn Environment,
    packet: &Packet<'_>,
) -> Result<bool, Refusal> {
    if !ctx.attr.access.contains(Access::REMOTE_WRITE) {
        return Err(Refusal::Invalid);
    }
    let bytes = packet.payload.len() as u32;
    let position = packet.opcode().position();
    let (key, addr, remaining, length) = match (*message, packet.ext().reth) {
        (
            Message::Write {
                key,
                addr,
                remaining,
                length,
            },
            _,
        ) => (key, addr, remaining, length),
        (_, Some(reth)) => {
            if u64::from(reth.dma_length) > MAX_MESSAGE_BYTES {
                return Err(Refusal::Invalid);
            }
            (
                reth.rkey,
                reth.virtual_address,
                reth.dma_length,
                reth.dma_length,
            )
        }
        _ => return Err(Refusal::Invalid),
    };
    // IBA 9.7.4.1.6: the announced length and the packets agree, to the byte.
    let agrees = if position.ends() {
        bytes == remaining
    } else {
        bytes < remaining
    };
    if !agrees {
        return Err(Refusal::Invalid);
    }
    if remaining > 0 && position.starts() {
        // The whole range before anything of it is written. A key that is revoked midway is seen too: each write
        // checks its own part (I7).
        let reth = Reth {
            virtual_address: addr,
            rkey: key,
            dma_length: remaining,
        };
        check(env, &reth, remaining, Access::REMOTE_WRITE)?;
    }
    let immediate = packet.ext().imm.is_some();
    if immediate {
        acquire(rq, env, packet)?;
    }
    if bytes > 0 {
        env.remote_write(key, addr, packet.payload)
            .map_err(remote_refusal)?;
    }
    if !position.ends() {
        let addr = addr.wrapping_add(bytes.into());
        *message = Message::Write {
            key,
            addr,
            remaining: remaining - bytes,
            length,
        };
        return Ok(false);
    }
    *message = Message::None;
    if immediate {
        rq.complete(completion(ctx, packet, WcOpcode::RecvRdmaWithImm, length));
    }
    Ok(true)
}
