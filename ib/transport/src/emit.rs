//! Turns one packet of a work request into bytes: headers, payload gathered in place, pad.
//!
//! Knows no state: which packet comes next is the sender's business.

use crate::context::{Context, on_the_wire};
use crate::env::{Environment, MemoryError};
use crate::send_queue::{Extra, SendQueue};
use crate::types::SendFlags;
use ferriband_wire::{
    AtomicEth, Bth, Deth, Ext, Headers, Ieth, ImmDt, Opcode, Operation, Position, Psn, QKey, RKey,
    Reth, Service, Suffix, XrcEth, pad_len,
};

/// Bytes that a caller's buffer must offer: the largest headers, the largest MTU and the pad.
pub const MAX_PACKET_BYTES: usize = 12 + 4 + 16 + 4 + 28 + 4096;

/// Emits headers and lets `fill` write the payload behind them; returns the packet's length.
pub(crate) fn packet<E>(
    headers: &Headers,
    payload_len: usize,
    buf: &mut [u8],
    fill: impl FnOnce(&mut [u8]) -> Result<(), E>,
) -> Result<usize, E> {
    let total = headers.packet_len(payload_len);
    assert!(
        buf.len() >= total,
        "the caller offers {} bytes, {total} are needed",
        buf.len()
    );
    // Fields were bounded when the request was posted or the attribute modified.
    let start = headers
        .emit(payload_len, buf)
        .expect("headers that follow the opcode table");
    fill(&mut buf[start..start + payload_len])?;
    buf[start + payload_len..][..pad_len(payload_len)].fill(0);
    Ok(total)
}

/// Which packet is to be made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    /// Position of the request in its queue.
    pub request: u64,
    /// Packet of the request. For a READ: where it is asked for from.
    pub index: u32,
    /// PSNs that the packet takes: for a READ the responses asked for, else 1.
    pub psns: u32,
    pub psn: Psn,
    pub ack_req: bool,
    /// It was sent before.
    pub again: bool,
}

/// The bytes of a request that is not inline.
fn gather(
    env: &mut dyn Environment,
    sq: &SendQueue,
    part: Part,
    offset: u32,
    out: &mut [u8],
) -> Result<(), MemoryError> {
    let sges = sq.sges(part.request);
    if part.again {
        env.gather_again(sges, offset, out)
    } else {
        env.gather(sges, offset, out)
    }
}

/// The bulk of a long message: a BTH, and payload that fills the MTU and so needs no pad.
fn middle(
    bth: &Bth,
    env: &mut dyn Environment,
    sq: &SendQueue,
    part: Part,
    mtu: u32,
    buf: &mut [u8],
) -> Result<usize, MemoryError> {
    let (offset, length) = (part.index * mtu, mtu as usize);
    bth.emit(0, buf).expect("the caller offers room for a BTH");
    let out = &mut buf[Bth::LEN..Bth::LEN + length];
    if sq.get(part.request).inline {
        out.copy_from_slice(&sq.inline(part.request)[offset as usize..][..length]);
    } else {
        gather(env, sq, part, offset, out)?;
    }
    Ok(Bth::LEN + length)
}

/// Emits the middle packets of a request from `part` on, each filled, `stride` bytes apart: as many as `acks` says which of them ask for
/// an acknowledgement. `part` is one of a message whose middle packets have nothing but a BTH.
pub(crate) fn middles(
    ctx: &Context<'_>,
    env: &mut dyn Environment,
    sq: &SendQueue,
    part: Part,
    acks: impl ExactSizeIterator<Item = bool>,
    buf: &mut [u8],
    stride: usize,
) -> Result<(), MemoryError> {
    let wqe = sq.get(part.request);
    let mtu = ctx.attr.path_mtu.bytes();
    let (operation, _) = on_the_wire(wqe.opcode).expect("local operations make no packets");
    let opcode = Opcode::find(ctx.service, operation, Position::Middle, Suffix::None)
        .expect("the service's operations were checked when posting");
    let mut bth = Bth::new(opcode, ctx.attr.dest_qpn, part.psn);
    bth.pkey = env.pkey(ctx.attr.pkey_index);
    bth.migrated = ctx.migrated;
    let mut header = [0; Bth::LEN];
    bth.emit(0, &mut header).expect("its own length");
    let count = acks.len();
    let places = buf.chunks_mut(stride);
    for (place, (ack_req, index)) in places.zip(acks.zip(0..)) {
        let header = Bth::next_to(&header, part.psn.add(index), ack_req);
        place[..Bth::LEN].copy_from_slice(&header);
        if wqe.inline {
            let from = ((part.index + index) * mtu) as usize;
            let bytes = &sq.inline(part.request)[from..][..mtu as usize];
            place[Bth::LEN..][..mtu as usize].copy_from_slice(bytes);
        }
    }
    if wqe.inline {
        return Ok(());
    }
    let end = (count - 1) * stride + Bth::LEN + mtu as usize;
    let sges = sq.sges(part.request);
    env.gather_apart(
        sges,
        part.index * mtu,
        &mut buf[Bth::LEN..end],
        stride,
        mtu as usize,
    )
}

/// Emits one packet of a request.
pub(crate) fn request(
    ctx: &Context<'_>,
    env: &mut dyn Environment,
    sq: &SendQueue,
    part: Part,
    buf: &mut [u8],
) -> Result<usize, MemoryError> {
    let Part { index, psn, .. } = part;
    let wqe = sq.get(part.request);
    let mtu = if ctx.service == Service::Ud {
        ctx.tuning.datagram_mtu
    } else {
        ctx.attr.path_mtu.bytes()
    };
    let (operation, suffix) = on_the_wire(wqe.opcode).expect("local operations make no packets");
    let carries = matches!(operation, Operation::Send | Operation::RdmaWrite);
    let position = if carries {
        Position::of(index, wqe.packets)
    } else {
        Position::Only
    };
    let suffix = if position.ends() {
        suffix
    } else {
        Suffix::None
    };
    let opcode = Opcode::find(ctx.service, operation, position, suffix)
        .expect("the service's operations were checked when posting");
    let offset = index * mtu;
    let mut bth = Bth::new(opcode, ctx.attr.dest_qpn, psn);
    bth.pkey = env.pkey(ctx.attr.pkey_index);
    bth.ack_req = part.ack_req;
    bth.migrated = ctx.migrated;
    if position == Position::Middle && opcode.info().header_len == Bth::LEN {
        return middle(&bth, env, sq, part, mtu, buf);
    }
    bth.solicited =
        position.ends() && wqe.consumes_receive() && wqe.flags.contains(SendFlags::SOLICITED);
    let mut ext = Ext::default();
    if ctx.service == Service::Xrc {
        ext.xrceth = Some(XrcEth {
            xrc_srq: wqe.xrc_srq,
        });
    }
    if let Extra::Datagram(to) = &wqe.extra
        && ctx.service == Service::Ud
    {
        bth.dest_qpn = to.qpn;
        // IBA 10.2.5: a Q_Key with the top bit set means the queue pair's own.
        let qkey = if to.qkey.0 >> 31 == 1 {
            ctx.attr.qkey
        } else {
            to.qkey
        };
        ext.deth = Some(Deth {
            qkey: QKey(qkey.0),
            src_qpn: ctx.qpn,
        });
    }
    match operation {
        Operation::RdmaWrite if position.starts() => {
            ext.reth = Some(Reth {
                virtual_address: wqe.remote_addr,
                rkey: wqe.rkey,
                dma_length: wqe.length,
            });
        }
        Operation::RdmaReadRequest => {
            ext.reth = Some(Reth {
                virtual_address: wqe.remote_addr.wrapping_add(u64::from(offset)),
                rkey: wqe.rkey,
                dma_length: (wqe.length - offset).min(part.psns.saturating_mul(mtu)),
            });
        }
        Operation::CompareSwap | Operation::FetchAdd => {
            let swap = operation == Operation::CompareSwap;
            ext.atomic = Some(AtomicEth {
                virtual_address: wqe.remote_addr,
                rkey: wqe.rkey,
                swap_add: if swap { wqe.swap } else { wqe.compare_add },
                compare: if swap { wqe.compare_add } else { 0 },
            });
        }
        _ => {}
    }
    match suffix {
        Suffix::None => {}
        Suffix::Immediate => ext.imm = Some(ImmDt::from_network(wqe.imm_or_key)),
        Suffix::Invalidate => {
            ext.ieth = Some(Ieth {
                rkey: RKey(wqe.imm_or_key),
            })
        }
    }
    let length = if carries {
        (wqe.length - offset).min(mtu) as usize
    } else {
        0
    };
    packet(&Headers::new(bth, ext), length, buf, |out| {
        if wqe.inline {
            out.copy_from_slice(&sq.inline(part.request)[offset as usize..][..length]);
            return Ok(());
        }
        gather(env, sq, part, offset, out)
    })
}
