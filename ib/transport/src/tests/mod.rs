//! Two queue pairs and a wire between them that a test can bend: the behaviours of the whole machine, one by one.

mod errors;
mod flow;
mod held;
mod lists;
mod middles;
mod migration;
mod ordering;
mod service;

use crate::env::{AtomicOp, BindWindow, Environment, MemoryError, SgeOwner, SharedReceive};
use crate::qp_state::{self, QpLimits};
use crate::types::{
    Access, AddressVector, Completion, Instant, QpAttr, QpAttrMask, QpCap, QpState, QpType,
    SendFlags, SendOpcode, Sge, WcStatus,
};
use crate::{
    CompletionTarget, Drop, MAX_PACKET_BYTES, PacketMeta, Payload, QpConfig, QpEvent, QueuePair,
    SendWr, Tuning, WindowLimit,
};
use ferriband_wire::{Lid, Mtu, Opcode, Packet, Psn, QKey, Qpn, RKey};
use std::collections::VecDeque;

/// Key of the region with all rights.
const KEY: u32 = 1;
/// Key of a region without remote rights, over the same bytes.
const LOCAL_KEY: u32 = 2;
const MEMORY_BYTES: usize = 1 << 16;

/// One side's memory: bytes 0.. under two keys, and a log of what the peer did.
struct Memory {
    bytes: Vec<u8>,
    revoked: bool,
    /// Address and length of each remote write, in order.
    writes: Vec<(u64, usize)>,
    atomics: u32,
    shared: VecDeque<(u64, Sge)>,
    srq: u32,
}

impl Memory {
    fn span(
        &mut self,
        key: u32,
        addr: u64,
        len: u64,
        remote: bool,
    ) -> Result<&mut [u8], MemoryError> {
        if !(key == KEY || key == LOCAL_KEY) || self.revoked {
            return Err(MemoryError::Key);
        }
        let end = addr
            .checked_add(len)
            .filter(|&end| end <= MEMORY_BYTES as u64);
        let end = end.ok_or(MemoryError::Range)?;
        if remote && key == LOCAL_KEY {
            return Err(MemoryError::Access);
        }
        Ok(&mut self.bytes[addr as usize..end as usize])
    }

    fn walk(
        &mut self,
        sges: &[Sge],
        offset: u32,
        len: usize,
        mut step: impl FnMut(&mut [u8], usize),
    ) -> Result<(), MemoryError> {
        let (mut skip, mut at) = (u64::from(offset), 0);
        for sge in sges {
            let here = u64::from(sge.length)
                .saturating_sub(skip)
                .min((len - at) as u64);
            if here > 0 {
                step(self.span(sge.lkey, sge.addr + skip, here, false)?, at);
                at += here as usize;
            }
            skip = skip.saturating_sub(sge.length.into());
        }
        if at == len {
            Ok(())
        } else {
            Err(MemoryError::Range)
        }
    }
}

impl Environment for Memory {
    fn gather(&mut self, sges: &[Sge], offset: u32, out: &mut [u8]) -> Result<(), MemoryError> {
        let len = out.len();
        self.walk(sges, offset, len, |bytes, at| {
            out[at..at + bytes.len()].copy_from_slice(bytes)
        })
    }
    fn scatter(
        &mut self,
        _owner: SgeOwner,
        sges: &[Sge],
        offset: u32,
        data: &[u8],
    ) -> Result<(), MemoryError> {
        self.walk(sges, offset, data.len(), |bytes, at| {
            bytes.copy_from_slice(&data[at..at + bytes.len()]);
        })
    }
    fn check_remote(
        &mut self,
        key: RKey,
        addr: u64,
        length: u32,
        _access: Access,
    ) -> Result<(), MemoryError> {
        self.span(key.0, addr, length.into(), true).map(|_| ())
    }
    fn remote_write(&mut self, key: RKey, addr: u64, data: &[u8]) -> Result<(), MemoryError> {
        self.span(key.0, addr, data.len() as u64, true)?
            .copy_from_slice(data);
        self.writes.push((addr, data.len()));
        Ok(())
    }
    fn remote_read(&mut self, key: RKey, addr: u64, out: &mut [u8]) -> Result<(), MemoryError> {
        out.copy_from_slice(self.span(key.0, addr, out.len() as u64, true)?);
        Ok(())
    }
    fn remote_atomic(&mut self, key: RKey, addr: u64, op: AtomicOp) -> Result<u64, MemoryError> {
        let bytes = self.span(key.0, addr, 8, true)?;
        let old = u64::from_ne_bytes(bytes.try_into().unwrap());
        bytes.copy_from_slice(&op.apply(old).to_ne_bytes());
        self.atomics += 1;
        Ok(old)
    }
    fn invalidate_remote(&mut self, _key: RKey) -> Result<(), MemoryError> {
        self.revoked = true;
        Ok(())
    }
    fn invalidate_local(&mut self, _key: RKey) -> Result<(), MemoryError> {
        self.revoked = true;
        Ok(())
    }
    fn bind_window(&mut self, _bind: &BindWindow) -> Result<(), MemoryError> {
        Err(MemoryError::Access)
    }
    fn take_shared_receive(&mut self, xrc_srq: Option<u32>, sges: &mut [Sge]) -> SharedReceive {
        if xrc_srq.is_some_and(|number| number != self.srq) {
            return SharedReceive::NoSuchQueue;
        }
        let Some((wr_id, sge)) = self.shared.pop_front() else {
            return SharedReceive::Empty;
        };
        sges[0] = sge;
        SharedReceive::Taken { wr_id, num_sge: 1 }
    }
}

/// A queue pair and its memory.
struct End {
    qp: QueuePair,
    memory: Memory,
    attr: QpAttr,
    done: Vec<Completion>,
    targets: Vec<CompletionTarget>,
    events: Vec<QpEvent>,
    /// Why the latest packet had no effect.
    dropped: Option<Drop>,
}

/// What a test does with a packet on the wire: how many copies arrive.
type Bend<'a> = &'a mut dyn FnMut(usize, &Packet<'_>) -> usize;

/// The two ends; packets travel at once.
struct Pair {
    ends: [End; 2],
    now: Instant,
}

/// How a pair differs from the default.
#[derive(Clone, Copy)]
struct Setup {
    types: [QpType; 2],
    mtu: Mtu,
    max_send_wr: u32,
    shared: bool,
    attr: fn(&mut QpAttr),
    tuning: Tuning,
}

const RC: Setup = Setup {
    types: [QpType::Rc; 2],
    mtu: Mtu::M256,
    max_send_wr: 32,
    shared: false,
    attr: |_| {},
    tuning: Tuning {
        max_inflight_packets: 1024,
        ack_interval: 32,
        datagram_mtu: 1024,
        silence_ns: u64::MAX,
        timeout_floor_ns: 0,
        hold: None,
        list_gaps: false,
    },
};

impl Pair {
    fn new(setup: Setup) -> Self {
        let end = |i: usize| {
            let qp = QueuePair::new(QpConfig {
                qpn: Qpn(10 + i as u32),
                qp_type: setup.types[i],
                cap: QpCap {
                    max_send_wr: setup.max_send_wr,
                    max_recv_wr: 16,
                    max_send_sge: 2,
                    max_recv_sge: 2,
                    max_inline_data: 16,
                },
                shared_receive: setup.shared,
                signal_all: false,
                limits: QpLimits::default(),
                tuning: setup.tuning,
            });
            let mut attr = QpAttr {
                port_num: 1,
                qkey: QKey(5),
                access: Access::REMOTE_WRITE | Access::REMOTE_READ | Access::REMOTE_ATOMIC,
                path_mtu: setup.mtu,
                dest_qpn: Qpn(11 - i as u32),
                // Two packets before the wrap (I5).
                rq_psn: Psn::new(0xff_fffe),
                sq_psn: Psn::new(0xff_fffe),
                av: AddressVector {
                    port_num: 1,
                    dlid: Lid(1),
                    ..AddressVector::default()
                },
                max_rd_atomic: 4,
                max_dest_rd_atomic: 4,
                min_rnr_timer: 12,
                timeout: 14,
                retry_cnt: 3,
                rnr_retry: 2,
                ..QpAttr::default()
            };
            (setup.attr)(&mut attr);
            let memory = Memory {
                bytes: vec![0; MEMORY_BYTES],
                revoked: false,
                writes: Vec::new(),
                atomics: 0,
                shared: VecDeque::new(),
                srq: 3,
            };
            let (done, targets, events) = (Vec::new(), Vec::new(), Vec::new());
            let mut end = End {
                qp,
                memory,
                attr,
                done,
                targets,
                events,
                dropped: None,
            };
            for state in [QpState::Init, QpState::Rtr, QpState::Rts] {
                end.to(state);
            }
            end
        };
        Pair {
            ends: [end(0), end(1)],
            now: Instant(1_000),
        }
    }

    /// Moves packets and nothing else until both sides are silent. True if any moved.
    fn exchange(&mut self, bend: Bend<'_>) -> bool {
        let mut buf = [0; MAX_PACKET_BYTES];
        let mut moved = false;
        loop {
            let mut silent = true;
            for from in 0..2 {
                let end = &mut self.ends[from];
                if let Some(sent) = end.qp.poll_transmit(self.now, &mut end.memory, &mut buf) {
                    silent = false;
                    let packet = Packet::parse(&buf[..sent.len]).unwrap();
                    for _ in 0..bend(from, &packet) {
                        self.ends[1 - from].receive(self.now, &packet);
                    }
                }
                self.ends[from].collect();
            }
            if silent {
                return moved;
            }
            moved = true;
        }
    }

    /// Packets and time until nothing is left to happen.
    fn settle(&mut self, bend: Bend<'_>) {
        for _ in 0..10_000 {
            self.exchange(bend);
            let next = self
                .ends
                .iter()
                .filter_map(|end| end.qp.poll_timeout())
                .min();
            let Some(at) = next else { return };
            self.now = at.max(self.now);
            for end in &mut self.ends {
                end.qp.handle_timeout(self.now);
                end.collect();
            }
        }
        panic!("never settles");
    }

    fn run(&mut self) {
        self.settle(&mut |_, _| 1);
    }
}

impl End {
    fn to(&mut self, state: QpState) {
        let now = self.qp.state();
        let (required, _) = qp_state::attributes(self.qp.qp_type(), now, state).unwrap();
        self.attr.state = state;
        self.qp
            .modify(&self.attr, required | QpAttrMask::STATE)
            .unwrap();
        self.collect();
    }

    fn receive(&mut self, now: Instant, packet: &Packet<'_>) {
        let meta = PacketMeta {
            slid: Lid(1),
            ..PacketMeta::default()
        };
        self.receive_by(now, &meta, packet);
    }

    fn receive_by(&mut self, now: Instant, meta: &PacketMeta<'_>, packet: &Packet<'_>) {
        self.dropped = self
            .qp
            .handle_packet(now, &mut self.memory, meta, packet)
            .err();
        self.collect();
        while self.qp.catch_up(&mut self.memory) {
            self.collect();
        }
    }

    fn collect(&mut self) {
        while let Some((target, completion)) = self.qp.poll_completion() {
            self.targets.push(target);
            self.done.push(completion);
        }
        while let Some(event) = self.qp.poll_event() {
            self.events.push(event);
        }
    }

    /// Posts `len` bytes from address 0, signaled; remote addresses begin at 0x1000.
    fn post(&mut self, wr_id: u64, opcode: SendOpcode, len: u32) {
        self.post_with(wr_id, opcode, len, |_| {});
    }

    fn post_with(
        &mut self,
        wr_id: u64,
        opcode: SendOpcode,
        len: u32,
        change: impl FnOnce(&mut SendWr<'_>),
    ) {
        let sges = [Sge {
            addr: 0,
            length: len,
            lkey: LOCAL_KEY,
        }];
        let mut wr = SendWr::new(wr_id, opcode, Payload::Gather(&sges));
        wr.flags = SendFlags::SIGNALED;
        wr.remote_addr = 0x1000;
        wr.rkey = RKey(KEY);
        wr.xrc_srq = 3;
        change(&mut wr);
        self.qp.post_send(&wr).unwrap();
        self.collect();
    }

    /// Posts a receive of `len` bytes at 0x8000.
    fn post_recv(&mut self, wr_id: u64, len: u32) {
        let sge = Sge {
            addr: 0x8000,
            length: len,
            lkey: LOCAL_KEY,
        };
        self.qp.post_recv(wr_id, &[sge]).unwrap();
        self.collect();
    }

    /// Identifier and status of every completion so far.
    fn statuses(&self) -> Vec<(u64, WcStatus)> {
        self.done.iter().map(|c| (c.wr_id, c.status)).collect()
    }
}

/// Bytes of a packet, to be delivered by hand later.
fn keep(packet: &Packet<'_>) -> Vec<u8> {
    let mut bytes = vec![0; packet.wire_len()];
    packet.emit(&mut bytes).unwrap();
    bytes
}

/// The opcode's place in a log of what travelled.
fn log(into: &mut Vec<(usize, Opcode)>) -> impl FnMut(usize, &Packet<'_>) -> usize + '_ {
    |from, packet| {
        into.push((from, packet.opcode()));
        1
    }
}

const OK: WcStatus = WcStatus::Success;
const FLUSH: WcStatus = WcStatus::WrFlushErr;
