//! What a packet costs the machines alone: two queue pairs in one thread, packets handed over in memory, without link
//! headers, CRCs or sockets: `cargo run --release -p ferriband-transport --example cost`.
//!
//! Payload is copied once on each side, as a driver does; the cost of that copy alone is printed too, so that what is
//! left can be told from it.

use ferriband_transport::env::{
    AtomicOp, BindWindow, Environment, MemoryError, SgeOwner, SharedReceive,
};
use ferriband_transport::qp_state::{self, QpLimits};
use ferriband_transport::types::*;
use ferriband_transport::{
    AnswerDue, MAX_PACKET_BYTES, PacketMeta, Payload, QpConfig, QueuePair, SendWr, Tuning,
};
use ferriband_wire::{Mtu, Packet, Psn, Qpn, RKey};
use std::hint::black_box;

const KEY: u32 = 7;
const BYTES: usize = 1 << 20;
/// Packets that a driver hands over at once.
const BATCH: usize = 62;

/// One region under one key.
struct Memory(Vec<u8>);

impl Memory {
    fn span(&mut self, key: u32, addr: u64, len: usize) -> Result<&mut [u8], MemoryError> {
        if key != KEY {
            return Err(MemoryError::Key);
        }
        let start = usize::try_from(addr).map_err(|_| MemoryError::Range)?;
        let end = start.checked_add(len).ok_or(MemoryError::Range)?;
        self.0.get_mut(start..end).ok_or(MemoryError::Range)
    }
}

impl Environment for Memory {
    fn gather(&mut self, sges: &[Sge], offset: u32, out: &mut [u8]) -> Result<(), MemoryError> {
        let sge = sges[0];
        out.copy_from_slice(self.span(sge.lkey, sge.addr + u64::from(offset), out.len())?);
        Ok(())
    }
    fn scatter(
        &mut self,
        _: SgeOwner,
        sges: &[Sge],
        offset: u32,
        data: &[u8],
    ) -> Result<(), MemoryError> {
        let sge = sges[0];
        self.span(sge.lkey, sge.addr + u64::from(offset), data.len())?
            .copy_from_slice(data);
        Ok(())
    }
    fn check_remote(
        &mut self,
        key: RKey,
        addr: u64,
        length: u32,
        _: Access,
    ) -> Result<(), MemoryError> {
        self.span(key.0, addr, length as usize).map(|_| ())
    }
    fn remote_write(&mut self, key: RKey, addr: u64, data: &[u8]) -> Result<(), MemoryError> {
        self.span(key.0, addr, data.len())?.copy_from_slice(data);
        Ok(())
    }
    fn remote_read(&mut self, key: RKey, addr: u64, out: &mut [u8]) -> Result<(), MemoryError> {
        out.copy_from_slice(self.span(key.0, addr, out.len())?);
        Ok(())
    }
    fn remote_atomic(&mut self, _: RKey, _: u64, _: AtomicOp) -> Result<u64, MemoryError> {
        Err(MemoryError::Access)
    }
    fn invalidate_remote(&mut self, _: RKey) -> Result<(), MemoryError> {
        Err(MemoryError::Key)
    }
    fn invalidate_local(&mut self, _: RKey) -> Result<(), MemoryError> {
        Err(MemoryError::Key)
    }
    fn bind_window(&mut self, _: &BindWindow) -> Result<(), MemoryError> {
        Err(MemoryError::Access)
    }
    fn take_shared_receive(&mut self, _: Option<u32>, sges: &mut [Sge]) -> SharedReceive {
        sges[0] = Sge {
            addr: 0,
            length: 4096,
            lkey: KEY,
        };
        SharedReceive::Taken {
            wr_id: 1,
            num_sge: 1,
        }
    }
}

struct End {
    qp: QueuePair,
    memory: Memory,
}

fn end(index: u32, mtu: Mtu) -> End {
    let mut qp = QueuePair::new(QpConfig {
        qpn: Qpn(0x10 + index),
        qp_type: QpType::Rc,
        cap: QpCap {
            max_send_wr: 64,
            max_recv_wr: 1,
            max_send_sge: 1,
            max_recv_sge: 1,
            max_inline_data: 64,
        },
        shared_receive: true,
        signal_all: true,
        limits: QpLimits::default(),
        tuning: Tuning::default(),
    });
    let mut attr = QpAttr {
        port_num: 1,
        access: Access::REMOTE_WRITE | Access::REMOTE_READ,
        path_mtu: mtu,
        dest_qpn: Qpn(0x11 - index),
        rq_psn: Psn::new(0),
        sq_psn: Psn::new(0),
        av: AddressVector {
            port_num: 1,
            ..AddressVector::default()
        },
        max_rd_atomic: 16,
        max_dest_rd_atomic: 16,
        timeout: 14,
        retry_cnt: 7,
        rnr_retry: 7,
        ..QpAttr::default()
    };
    for state in [QpState::Init, QpState::Rtr, QpState::Rts] {
        let (required, _) =
            qp_state::attributes(QpType::Rc, attr.state, state).expect("the way to RTS");
        attr.state = state;
        qp.modify(&attr, required | QpAttrMask::STATE)
            .expect("legal attributes");
    }
    let memory = Memory(vec![1; BYTES]);
    End { qp, memory }
}

/// Nanoseconds spent and packets, by part.
#[derive(Default)]
struct Spent {
    send: u64,
    receive: u64,
    packets: u64,
}

fn ns(since: std::time::Instant) -> u64 {
    since.elapsed().as_nanos() as u64
}

/// Batches of packets from one end to the other until it has no more; the answers go back. Completions of the sender.
fn exchange(ends: &mut [End; 2], batch: &mut [u8], spent: &mut Spent) -> u64 {
    let now = Instant(1);
    let meta = PacketMeta::default();
    let mut done = 0;
    let [a, b] = ends;
    loop {
        let mut lengths = [0; BATCH];
        let start = std::time::Instant::now();
        let mut at = 0;
        let mut count = 0;
        while count < BATCH {
            let buf = &mut batch[at..at + MAX_PACKET_BYTES];
            let Some(sent) = a.qp.poll_request(now, &mut a.memory, buf) else {
                break;
            };
            lengths[count] = sent.len;
            at += sent.len;
            count += 1;
        }
        spent.send += ns(start);
        if count == 0 {
            return done;
        }
        let start = std::time::Instant::now();
        let mut at = 0;
        for len in &lengths[..count] {
            let packet = Packet::parse(&batch[at..at + len]).expect("ours");
            b.qp.handle_packet(now, &mut b.memory, &meta, &packet)
                .expect("in order");
            while let Some(completion) = b.qp.poll_completion() {
                black_box(completion);
            }
            at += len;
        }
        let mut ack = [0; MAX_PACKET_BYTES];
        let answered = match b.qp.answer_due() {
            AnswerDue::None => None,
            _ => b.qp.poll_answer(&mut b.memory, &mut ack),
        };
        spent.receive += ns(start);
        spent.packets += count as u64;
        let start = std::time::Instant::now();
        if let Some(len) = answered {
            let packet = Packet::parse(&ack[..len]).expect("ours");
            a.qp.handle_packet(now, &mut a.memory, &meta, &packet)
                .expect("an answer");
        }
        while let Some(completion) = a.qp.poll_completion() {
            black_box(completion);
            done += 1;
        }
        spent.send += ns(start);
    }
}

fn post(end: &mut End, opcode: SendOpcode, payload: Payload<'_>) {
    let mut wr = SendWr::new(1, opcode, payload);
    wr.rkey = RKey(KEY);
    end.qp.post_send(&wr).expect("room");
}

fn main() {
    let mut batch = vec![0; BATCH * MAX_PACKET_BYTES];
    for mtu in [Mtu::M1024, Mtu::M4096] {
        let mut ends = [end(0, mtu), end(1, mtu)];
        let sges = [Sge {
            addr: 0,
            length: BYTES as u32,
            lkey: KEY,
        }];
        let mut best = (u64::MAX, u64::MAX);
        for _ in 0..40 {
            let mut spent = Spent::default();
            for _ in 0..4 {
                post(&mut ends[0], SendOpcode::RdmaWrite, Payload::Gather(&sges));
            }
            assert_eq!(exchange(&mut ends, &mut batch, &mut spent), 4);
            best.0 = best.0.min(spent.send / spent.packets);
            best.1 = best.1.min(spent.receive / spent.packets);
        }
        let copy = copy_ns(&mut ends[0].memory, &mut batch, mtu.bytes() as usize);
        println!(
            "1 MiB WRITE, MTU {}: send {} ns, receive {} ns a packet, of which {copy} each are the copy",
            mtu.bytes(),
            best.0,
            best.1
        );
    }
    let mut ends = [end(0, Mtu::M1024), end(1, Mtu::M1024)];
    let mut best = (u64::MAX, u64::MAX);
    for _ in 0..40 {
        let mut spent = Spent::default();
        let rounds = 1000;
        for _ in 0..rounds {
            let start = std::time::Instant::now();
            post(&mut ends[0], SendOpcode::Send, Payload::Inline(&[1; 8]));
            spent.send += ns(start);
            assert_eq!(exchange(&mut ends, &mut batch, &mut spent), 1);
        }
        best.0 = best.0.min(spent.send / rounds);
        best.1 = best.1.min(spent.receive / rounds);
    }
    println!(
        "8 B SEND, one at a time: send (post, packet, ack, completion) {} ns, receive (packet, completion, ack) {} ns",
        best.0, best.1
    );
}

/// Copying payload of the size, from region to batch and nothing else.
fn copy_ns(memory: &mut Memory, batch: &mut [u8], size: usize) -> u64 {
    let mut best = u64::MAX;
    for _ in 0..40 {
        let start = std::time::Instant::now();
        for (index, chunk) in memory.0.chunks(size).enumerate() {
            let at = index % BATCH * size;
            black_box(&mut batch[at..at + chunk.len()]).copy_from_slice(chunk);
        }
        best = best.min(ns(start) / (BYTES / size) as u64);
    }
    best
}
