//! Two connected queue pairs do what a list of operations says, read from any bytes: posts, packets delivered, lost, doubled,
//! late or bent, forged ones, time, states. Nothing panics; every request completes exactly once and in order; nothing outside the
//! peer's region is touched. Shared by the fuzz target and the property test.

use ferriband_transport::env::{
    AtomicOp, BindWindow, Environment, MemoryError, SgeOwner, SharedReceive,
};
use ferriband_transport::qp_state::{self, QpLimits};
use ferriband_transport::types::*;
use ferriband_transport::{
    CompletionTarget, Datagram, HoldBudget, MAX_PACKET_BYTES, PacketMeta, Payload, QpConfig,
    QueuePair, SendWr, Tuning, WindowLimit,
};
use ferriband_wire::{Lid, Mtu, Opcode, Packet, Psn, QKey, Qpn, RKey};
use std::collections::VecDeque;

/// Addresses 0x1000.. of a region that peers may use, key 1; key 2 has no remote rights.
const REGION: std::ops::Range<u64> = 0x1000..0x5000;
/// Packets that wait to be delivered, at the most.
const IN_FLIGHT: usize = 64;
/// Operations of one run, at the most.
const OPERATIONS: usize = 2000;

/// Reads numbers off the bytes; 0 behind their end.
struct Source<'a>(&'a [u8]);

impl Source<'_> {
    fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else {
            return 0;
        };
        self.0 = rest;
        *first
    }

    fn word(&mut self) -> u32 {
        u32::from_le_bytes([self.byte(), self.byte(), self.byte(), self.byte()])
    }

    fn below(&mut self, bound: u32) -> u32 {
        u32::from(self.byte()) % bound
    }
}

#[derive(Default)]
struct Memory {
    shared: VecDeque<u64>,
}

fn within(key: u32, addr: u64, length: u64, remote: bool) -> Result<(), MemoryError> {
    if key != 1 && (remote || key != 2) {
        return Err(MemoryError::Key);
    }
    let end = addr.checked_add(length).ok_or(MemoryError::Range)?;
    if addr < REGION.start || end > REGION.end {
        return Err(MemoryError::Range);
    }
    Ok(())
}

fn local(sges: &[Sge], offset: u32, len: usize) -> Result<(), MemoryError> {
    for sge in sges {
        within(sge.lkey, sge.addr, sge.length.into(), false)?;
    }
    let total: u64 = sges.iter().map(|sge| u64::from(sge.length)).sum();
    if u64::from(offset) + len as u64 > total {
        return Err(MemoryError::Range);
    }
    Ok(())
}

impl Environment for Memory {
    fn gather(&mut self, sges: &[Sge], offset: u32, out: &mut [u8]) -> Result<(), MemoryError> {
        local(sges, offset, out.len())?;
        out.fill(0x21);
        Ok(())
    }

    fn scatter(
        &mut self,
        _owner: SgeOwner,
        sges: &[Sge],
        offset: u32,
        data: &[u8],
    ) -> Result<(), MemoryError> {
        local(sges, offset, data.len())
    }

    fn check_remote(
        &mut self,
        key: RKey,
        addr: u64,
        length: u32,
        _access: Access,
    ) -> Result<(), MemoryError> {
        within(key.0, addr, length.into(), true)
    }

    fn remote_write(&mut self, key: RKey, addr: u64, data: &[u8]) -> Result<(), MemoryError> {
        within(key.0, addr, data.len() as u64, true)
    }

    fn remote_read(&mut self, key: RKey, addr: u64, out: &mut [u8]) -> Result<(), MemoryError> {
        within(key.0, addr, out.len() as u64, true)?;
        out.fill(0x42);
        Ok(())
    }

    fn remote_atomic(&mut self, key: RKey, addr: u64, _op: AtomicOp) -> Result<u64, MemoryError> {
        assert!(addr.is_multiple_of(8), "the responder checks that");
        within(key.0, addr, 8, true).map(|()| 7)
    }

    fn invalidate_remote(&mut self, key: RKey) -> Result<(), MemoryError> {
        within(key.0, REGION.start, 0, true)
    }

    fn invalidate_local(&mut self, key: RKey) -> Result<(), MemoryError> {
        within(key.0, REGION.start, 0, true)
    }

    fn bind_window(&mut self, bind: &BindWindow) -> Result<(), MemoryError> {
        within(bind.window.0, bind.addr, bind.length, true)
    }

    fn take_shared_receive(&mut self, xrc_srq: Option<u32>, sges: &mut [Sge]) -> SharedReceive {
        if xrc_srq.is_some_and(|number| number > 1) {
            return SharedReceive::NoSuchQueue;
        }
        let Some(wr_id) = self.shared.pop_front() else {
            return SharedReceive::Empty;
        };
        sges[0] = element(wr_id as u32);
        SharedReceive::Taken { wr_id, num_sge: 1 }
    }

    fn has_xrc_srq(&mut self, number: u32) -> bool {
        number <= 1
    }
}

/// An element of a list: mostly right.
fn element(choice: u32) -> Sge {
    Sge {
        addr: REGION.start,
        length: choice % 3000,
        lkey: if choice.is_multiple_of(31) { 9 } else { 2 },
    }
}

struct Side {
    qp: QueuePair,
    memory: Memory,
    attr: QpAttr,
    posted: u64,
    received: u64,
    /// Identifiers of sends, and of receives of its own queue, that have to complete next.
    sends: VecDeque<u64>,
    receives: VecDeque<u64>,
    shares: bool,
}

impl Side {
    fn to(&mut self, state: QpState) {
        let now = self.qp.state();
        let Some((required, _)) = qp_state::attributes(self.qp.qp_type(), now, state) else {
            return;
        };
        self.attr.state = state;
        // a transition that the table refuses changes nothing
        let _ = self.qp.modify(&self.attr, required | QpAttrMask::STATE);
        if state == QpState::Reset && self.qp.state() == QpState::Reset {
            self.sends.clear();
            self.receives.clear();
        }
    }

    fn collect(&mut self) {
        while let Some((target, completion)) = self.qp.poll_completion() {
            match target {
                CompletionTarget::Send => {
                    // all are signaled, so all complete
                    assert_eq!(self.sends.pop_front(), Some(completion.wr_id));
                }
                CompletionTarget::Recv if !self.shares => {
                    assert_eq!(self.receives.pop_front(), Some(completion.wr_id));
                }
                CompletionTarget::Recv | CompletionTarget::XrcSrq(_) => {}
            }
        }
        while self.qp.poll_event().is_some() {}
    }

    fn post(&mut self, source: &mut Source<'_>) {
        use SendOpcode::*;
        let all = [
            Send,
            SendImm,
            SendInv,
            RdmaWrite,
            RdmaWriteImm,
            RdmaRead,
            CmpSwap,
            FetchAdd,
            LocalInv,
            BindMw,
        ];
        let opcode = all[source.below(all.len() as u32) as usize];
        let atomic = matches!(opcode, CmpSwap | FetchAdd);
        let mut sges = [element(source.word()), element(source.word())];
        if atomic && source.below(8) != 0 {
            sges[0].length = 8;
        }
        let count = if atomic { 1 } else { source.below(3) as usize };
        let inline = [0x33; 16];
        let payload = if source.below(8) == 0 {
            Payload::Inline(&inline[..source.below(17) as usize])
        } else {
            Payload::Gather(&sges[..count])
        };
        let mut wr = SendWr::new(self.posted, opcode, payload);
        wr.flags = SendFlags::SIGNALED;
        if source.below(4) == 0 {
            wr.flags |= SendFlags::FENCE | SendFlags::SOLICITED;
        }
        wr.rkey = RKey(1 + source.below(8) / 7);
        wr.remote_addr = match source.below(8) {
            0 => u64::MAX - u64::from(source.byte()),
            1 => u64::from(source.word()),
            _ => REGION.start + 8 * u64::from(source.byte()),
        };
        (wr.imm_or_key, wr.xrc_srq) = (source.below(3), source.below(3));
        if self.qp.qp_type() == QpType::Ud {
            wr.datagram = Some(Datagram {
                qpn: Qpn(source.below(16)),
                qkey: QKey(source.below(7)),
                ..Datagram::default()
            });
        }
        if opcode == BindMw {
            wr.bind = Some(BindWindow {
                window: RKey(1),
                new_key: RKey(1),
                region: ferriband_wire::LKey(1),
                addr: REGION.start,
                length: source.word().into(),
                access: Access::empty(),
            });
        }
        if self.qp.post_send(&wr).is_ok() {
            self.sends.push_back(self.posted);
            self.posted += 1;
        }
    }

    fn receive(&mut self, source: &mut Source<'_>) {
        let sge = element(source.word());
        if self.shares {
            self.memory.shared.push_back(source.byte().into());
            self.memory.shared.truncate(32);
        } else if self.qp.post_recv(self.received, &[sge]).is_ok() {
            self.receives.push_back(self.received);
            self.received += 1;
        }
    }
}

/// Enough for what one case can send, and it runs out.
static HOLD: HoldBudget = HoldBudget::new(64 << 10);

fn side(at: u32, qp_type: QpType, source: &mut Source<'_>) -> Side {
    let shares = source.below(2) == 0 || qp_type == QpType::XrcRecv;
    let config = QpConfig {
        qpn: Qpn(10 + at),
        qp_type,
        cap: QpCap {
            max_send_wr: 8,
            max_recv_wr: 8,
            max_send_sge: 2,
            max_recv_sge: 2,
            max_inline_data: 16,
        },
        shared_receive: shares,
        signal_all: true,
        limits: QpLimits::default(),
        tuning: Tuning {
            max_inflight_packets: 1 + source.below(64),
            ack_interval: 1 + source.below(32),
            datagram_mtu: 1024,
            silence_ns: 200_000,
            timeout_floor_ns: 0,
            hold: (source.below(2) == 0).then_some(&HOLD),
            list_gaps: true,
        },
    };
    let attr = QpAttr {
        port_num: 1,
        qkey: QKey(5),
        access: Access::REMOTE_WRITE | Access::REMOTE_READ | Access::REMOTE_ATOMIC,
        path_mtu: [Mtu::M256, Mtu::M1024, Mtu::M4096][source.below(3) as usize],
        dest_qpn: Qpn(11 - at),
        rq_psn: Psn::new(0xff_fffe),
        sq_psn: Psn::new(0xff_fffe),
        av: AddressVector {
            port_num: 1,
            dlid: Lid(1),
            ..AddressVector::default()
        },
        max_rd_atomic: source.below(5) as u8,
        max_dest_rd_atomic: source.below(5) as u8,
        min_rnr_timer: 1,
        timeout: source.below(20) as u8,
        retry_cnt: source.below(8) as u8,
        rnr_retry: source.below(8) as u8,
        ..QpAttr::default()
    };
    let mut side = Side {
        qp: QueuePair::new(config),
        memory: Memory::default(),
        attr,
        posted: 0,
        received: 0,
        sends: VecDeque::new(),
        receives: VecDeque::new(),
        shares,
    };
    for state in [QpState::Init, QpState::Rtr, QpState::Rts] {
        side.to(state);
    }
    side
}

struct World {
    sides: [Side; 2],
    /// What is on the way, to which side.
    flight: VecDeque<(usize, Vec<u8>)>,
    now: Instant,
}

impl World {
    fn deliver(&mut self, to: usize, bytes: &[u8]) {
        let Ok(packet) = Packet::parse(bytes) else {
            return;
        };
        let side = &mut self.sides[to];
        let meta = PacketMeta {
            slid: Lid(1),
            ..PacketMeta::default()
        };
        let _ = side
            .qp
            .handle_packet(self.now, &mut side.memory, &meta, &packet);
        let _ = side.qp.catch_up(&mut side.memory);
    }

    fn transmit(&mut self, from: usize, most: u32) {
        let mut buf = [0; MAX_PACKET_BYTES];
        for _ in 0..most {
            let side = &mut self.sides[from];
            let Some(sent) = side.qp.poll_transmit(self.now, &mut side.memory, &mut buf) else {
                return;
            };
            assert!(sent.len <= side.qp.max_packet_bytes());
            let bytes = &buf[..sent.len];
            Packet::parse(bytes).expect("what a machine sends is a packet");
            if self.flight.len() < IN_FLIGHT {
                self.flight.push_back((1 - from, bytes.to_vec()));
            }
        }
    }

    fn step(&mut self, source: &mut Source<'_>) {
        let choice = source.byte();
        let at = usize::from(choice & 1);
        match choice >> 1 & 15 {
            0 | 1 => self.sides[at].post(source),
            2 => self.sides[at].receive(source),
            3 | 4 => {
                let most = 1 + source.below(20);
                self.transmit(at, most);
            }
            5..=7 => {
                // delivered, at the most all of them
                for _ in 0..1 + source.below(16) {
                    let Some((to, bytes)) = self.flight.pop_front() else {
                        break;
                    };
                    self.deliver(to, &bytes);
                }
            }
            8 => drop(self.flight.pop_front()),
            9 => {
                // twice, or later
                if let Some((to, bytes)) = self.flight.pop_front() {
                    if source.below(2) == 0 {
                        self.deliver(to, &bytes);
                    }
                    self.flight.push_back((to, bytes));
                }
            }
            10 => {
                // bent
                if let Some((to, mut bytes)) = self.flight.pop_front() {
                    let place = source.word() as usize % bytes.len();
                    bytes[place] ^= source.byte();
                    self.deliver(to, &bytes);
                }
            }
            11 => self.forge(at, source),
            12 | 13 => {
                let timeout = self.sides[at].qp.poll_timeout();
                self.now = match timeout {
                    Some(time) if source.below(2) == 0 => time.max(self.now),
                    _ => self.now.plus_ns(source.word().into()),
                };
                let now = self.now;
                self.sides[at].qp.handle_timeout(now);
            }
            14 => {
                let limit = WindowLimit {
                    requests_bytes: source.word() >> source.below(32),
                    responses_bytes: source.word() >> source.below(32),
                };
                self.sides[at].qp.set_window(limit);
                let now = self.now;
                self.sides[at].qp.congested(now);
            }
            _ => {
                use QpState::*;
                let states = [Sqd, Rts, Err, Reset, Init, Rtr, Rts, Rts];
                self.sides[at].to(states[source.below(8) as usize]);
            }
        }
        self.sides[at].collect();
    }

    /// A packet of nobody's making, with a PSN near what is expected.
    fn forge(&mut self, to: usize, source: &mut Source<'_>) {
        let opcode = Opcode::ALL[source.below(Opcode::ALL.len() as u32) as usize];
        let side = &self.sides[to];
        let diagnosis = side.qp.diagnosis();
        let near = [diagnosis.expected, diagnosis.una, diagnosis.next];
        let psn = near[source.below(3) as usize]
            .add(source.below(8))
            .sub(source.below(4));
        let mut bytes = vec![0; 12];
        bytes[0] = opcode.code();
        bytes[1] = source.byte() & 0xf0;
        bytes[2..4].copy_from_slice(&[0xff, 0xff]);
        bytes[5..8].copy_from_slice(&side.qp.qpn().0.to_be_bytes()[1..]);
        bytes[9..12].copy_from_slice(&psn.get().to_be_bytes()[1..]);
        let len = opcode.info().header_len - 12 + 4 * source.below(70) as usize;
        bytes.extend((0..len).map(|_| source.byte()));
        self.deliver(to, &bytes);
        self.sides[to].collect();
    }
}

/// Does what the bytes say.
pub fn run(bytes: &[u8]) {
    let mut source = Source(bytes);
    let kinds = [
        [QpType::Rc; 2],
        [QpType::Uc; 2],
        [QpType::Ud; 2],
        [QpType::XrcSend, QpType::XrcRecv],
        [QpType::Rc; 2],
        [QpType::Rc; 2],
    ];
    let kind = kinds[source.below(6) as usize];
    let sides = [side(0, kind[0], &mut source), side(1, kind[1], &mut source)];
    let mut world = World {
        sides,
        flight: VecDeque::new(),
        now: Instant(1_000),
    };
    for _ in 0..OPERATIONS {
        if source.0.is_empty() {
            break;
        }
        world.step(&mut source);
    }
    // everything that was posted completes when its queue pair ends
    for side in &mut world.sides {
        side.collect();
        side.to(QpState::Err);
        side.collect();
        if side.qp.state() == QpState::Err {
            assert!(side.sends.is_empty(), "{:?}", side.sends);
            assert!(side.receives.is_empty(), "{:?}", side.receives);
        }
    }
}
