//! The Linux kernel's Soft-RoCE as an oracle: each side of each capture is played by our machine while the other side is
//! the recording, and every packet that we send must be the kernel's, byte for byte.
//!
//! The captures are those of `ib/wire/tests/golden/rxe`; what the programs saw lies in `oracle/*.txt`. What they did is
//! read off the packets: a request that begins a message stands for a work request, an RNR NAK for a receive that was
//! not there. Deviations are listed in `oracle/README.md` and made in [`like_ours`] and [`Told::like_ours`], nowhere else.

use ferriband_transport::env::{
    AtomicOp, BindWindow, Environment, MemoryError, SgeOwner, SharedReceive,
};
use ferriband_transport::qp_state::{self, QpLimits};
use ferriband_transport::types::*;
use ferriband_transport::{
    AnswerDue, CompletionTarget, Datagram, GRH_BYTES, HoldBudget, MAX_PACKET_BYTES, PacketMeta,
    Payload, QpConfig, QueuePair, SendWr, Tuning,
};
use ferriband_wire::pcap::PcapReader;
use ferriband_wire::*;
use std::collections::BTreeMap;

/// Path MTU of the captures.
/// As our adapter has it.
static HOLD: HoldBudget = HoldBudget::new(1 << 20);
const MTU: Mtu = Mtu::M1024;
/// Where our program's own bytes begin; the captures' addresses lie far below. Each buffer has this much room.
const LOCAL: u64 = 1 << 60;
const ROOM: u32 = 1 << 16;

/// A packet of a capture.
#[derive(Clone, Copy)]
struct Seen<'a> {
    at: Instant,
    /// Last byte of the sender's address.
    from: u8,
    packet: Packet<'a>,
}

/// All packets, each with a right ICRC.
fn capture(bytes: &[u8]) -> Vec<Seen<'_>> {
    let reader = PcapReader::new(bytes).expect("a capture");
    let seen = reader.map(|record| {
        let record = record.expect("whole");
        let (_, roce) = RocePacket::parse_ethernet(record.bytes).expect("parses and verifies");
        let RoceIp::V4(ip) = roce.headers.ip else {
            panic!("the captures are IPv4")
        };
        Seen {
            at: Instant(record.timestamp_ns),
            from: ip.source.octets()[3],
            packet: roce.packet,
        }
    });
    seen.collect()
}

/// What the kernel's packet is on our wire. See oracle/README.md.
fn like_ours(mut packet: Packet<'_>) -> Packet<'_> {
    packet.headers.bth.migrated = true;
    if packet.opcode().service() == Service::Ud {
        packet.headers.bth.ack_req = false;
    }
    packet
}

/// Memory by byte, and the receives that the program has posted.
#[derive(Default)]
struct Memory {
    bytes: BTreeMap<u64, u8>,
    receives: Vec<(u64, Sge)>,
}

impl Memory {
    fn put(&mut self, addr: u64, data: &[u8]) {
        self.bytes.extend((addr..).zip(data.iter().copied()));
    }

    fn get(&self, addr: u64, length: usize) -> Vec<u8> {
        let byte = |at| self.bytes.get(&at).copied().unwrap_or(0);
        (addr..addr + length as u64).map(byte).collect()
    }
}

impl Environment for Memory {
    fn gather(&mut self, sges: &[Sge], offset: u32, out: &mut [u8]) -> Result<(), MemoryError> {
        let bytes = self.get(sges[0].addr + u64::from(offset), out.len());
        out.copy_from_slice(&bytes);
        Ok(())
    }
    fn scatter(
        &mut self,
        _: SgeOwner,
        sges: &[Sge],
        offset: u32,
        data: &[u8],
    ) -> Result<(), MemoryError> {
        self.put(sges[0].addr + u64::from(offset), data);
        Ok(())
    }
    fn check_remote(&mut self, _: RKey, _: u64, _: u32, _: Access) -> Result<(), MemoryError> {
        Ok(())
    }
    fn remote_write(&mut self, _: RKey, addr: u64, data: &[u8]) -> Result<(), MemoryError> {
        self.put(addr, data);
        Ok(())
    }
    fn remote_read(&mut self, _: RKey, addr: u64, out: &mut [u8]) -> Result<(), MemoryError> {
        out.copy_from_slice(&self.get(addr, out.len()));
        Ok(())
    }
    fn remote_atomic(&mut self, _: RKey, addr: u64, op: AtomicOp) -> Result<u64, MemoryError> {
        let word: [u8; 8] = self.get(addr, 8).try_into().expect("eight bytes");
        let old = u64::from_ne_bytes(word);
        self.put(addr, &op.apply(old).to_ne_bytes());
        Ok(old)
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
        let Some((wr_id, sge)) = self.receives.pop() else {
            return SharedReceive::Empty;
        };
        sges[0] = sge;
        SharedReceive::Taken { wr_id, num_sge: 1 }
    }
}

/// A completion as the test programs print it; a failure's length is not defined.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Told {
    status: u32,
    opcode: u32,
    length: u32,
    flags: u32,
    immediate: u32,
}

impl Told {
    fn parse(line: &str) -> Option<Told> {
        let line = line.trim().strip_prefix("wc id ")?;
        let (_, line) = line.split_once(" status ")?;
        let (status, line) = line.split_once(' ')?;
        let (_, line) = line.split_once(") op ")?;
        let words: Vec<&str> = line.split(' ').collect();
        let [
            "0" | "1" | "2" | "3" | "4" | "128" | "129",
            "len",
            length,
            "flags",
            flags,
            "imm",
            immediate,
        ] = words[..]
        else {
            panic!("{line:?} is not what the programs print")
        };
        Some(Told {
            status: status.parse().ok()?,
            opcode: words[0].parse().ok()?,
            length: length.parse().ok()?,
            flags: flags.parse().ok()?,
            immediate: u32::from_str_radix(immediate, 16).ok()?,
        })
    }

    /// See oracle/README.md.
    fn like_ours(mut self, service: Service) -> Told {
        const GRH: u32 = 1;
        const WITH_IMM: u32 = 2;
        if self.opcode < 128 {
            self.flags &= !WITH_IMM;
        }
        if service != Service::Ud {
            self.flags &= !GRH;
        }
        if self.status != 0 {
            (self.opcode, self.length) = (0, 0);
        }
        self
    }

    fn of(completion: &Completion) -> Told {
        let failed = completion.status != WcStatus::Success;
        Told {
            status: completion.status as u32,
            opcode: if failed { 0 } else { completion.opcode as u32 },
            length: if failed { 0 } else { completion.byte_len },
            flags: completion.flags.bits(),
            // The programs print it after ntohl.
            immediate: u32::from_be(completion.imm_or_rkey),
        }
    }
}

/// One host of a connection, played by our machine.
struct Player<'a> {
    host: u8,
    packets: &'a [Seen<'a>],
    qp: QueuePair,
    memory: Memory,
    next_buffer: u64,
    /// What the completed requests and receives must have left: address and bytes, in their order.
    expected: Vec<(u64, Vec<u8>)>,
    told: Vec<Told>,
    what: String,
}

impl<'a> Player<'a> {
    fn new(name: &str, host: u8, packets: &'a [Seen<'a>], rnr_retry: u8) -> Self {
        let first = |from_us: bool| {
            let requests = packets
                .iter()
                .filter(|seen| seen.packet.opcode().kind() == Kind::Request);
            requests
                .filter(|seen| (seen.from == host) == from_us)
                .map(|seen| seen.packet.bth().psn)
                .next()
                .unwrap_or(Psn::new(0))
        };
        let number = |from_us: bool| {
            let mut seen = packets.iter().filter(|seen| (seen.from == host) == from_us);
            seen.next().map(|seen| seen.packet.bth().dest_qpn)
        };
        let service = packets[0].packet.opcode().service();
        let qp_type = match service {
            Service::Uc => QpType::Uc,
            Service::Ud => QpType::Ud,
            _ => QpType::Rc,
        };
        let naks = packets.iter().filter_map(|seen| seen.packet.ext().aeth);
        let mut rnr_timer = naks.filter_map(|aeth| match aeth.syndrome {
            Syndrome::RnrNak(code) => Some(code),
            _ => None,
        });
        let config = QpConfig {
            // Both ends have the same number in every capture that shows only one of them.
            qpn: number(false).or(number(true)).expect("packets"),
            qp_type,
            cap: QpCap {
                max_send_wr: 8,
                max_send_sge: 1,
                ..QpCap::default()
            },
            shared_receive: true,
            signal_all: true,
            limits: QpLimits {
                max_mtu: Mtu::M4096,
                ..QpLimits::default()
            },
            tuning: Tuning {
                datagram_mtu: MTU.bytes(),
                hold: Some(&HOLD),
                ..Tuning::default()
            },
        };
        let mut attr = QpAttr {
            port_num: 1,
            access: Access::REMOTE_WRITE | Access::REMOTE_READ | Access::REMOTE_ATOMIC,
            qkey: packets[0]
                .packet
                .ext()
                .deth
                .map_or(QKey(0), |deth| deth.qkey),
            path_mtu: MTU,
            dest_qpn: number(true).or(number(false)).expect("packets"),
            rq_psn: first(false),
            sq_psn: first(true),
            av: AddressVector {
                port_num: 1,
                ..AddressVector::default()
            },
            max_rd_atomic: 4,
            max_dest_rd_atomic: 4,
            min_rnr_timer: rnr_timer.next_back().unwrap_or(12),
            timeout: 14,
            retry_cnt: 7,
            rnr_retry,
            ..QpAttr::default()
        };
        let mut qp = QueuePair::new(config);
        for state in [QpState::Init, QpState::Rtr, QpState::Rts] {
            let (required, _) =
                qp_state::attributes(qp_type, attr.state, state).expect("the way to RTS");
            attr.state = state;
            qp.modify(&attr, required | QpAttrMask::STATE)
                .expect("legal attributes");
        }
        Player {
            host,
            packets,
            qp,
            memory: Memory::default(),
            next_buffer: LOCAL,
            expected: Vec::new(),
            told: Vec::new(),
            what: format!("{name}, host {host}"),
        }
    }

    fn buffer(&mut self) -> u64 {
        self.next_buffer += u64::from(ROOM);
        self.next_buffer
    }

    /// Plays to the end of the capture; returns the completions.
    fn play(mut self) -> Vec<Told> {
        for index in 0..self.packets.len() {
            if self.packets[index].from == self.host {
                self.must_send(index);
            } else {
                self.arrives(index);
            }
            self.collect();
        }
        let now = self.packets.last().expect("packets").at;
        let mut buf = [0; MAX_PACKET_BYTES];
        assert_eq!(self.qp.answer_due(), AnswerDue::None, "{}", self.what);
        let more = self.qp.poll_request(now, &mut self.memory, &mut buf);
        assert!(more.is_none(), "{}: the kernel sends no more", self.what);
        for (addr, bytes) in &self.expected {
            let got = self.memory.get(*addr, bytes.len());
            assert!(got == *bytes, "{}: bytes at {addr:#x}", self.what);
        }
        self.told
    }

    /// The packets of the message that begins at `index`, first transmissions only.
    fn message(&self, index: usize) -> Vec<Packet<'a>> {
        let from = self.packets[index].from;
        let mut psn = self.packets[index].packet.bth().psn;
        let mut parts: Vec<Packet<'a>> = Vec::new();
        for seen in &self.packets[index..] {
            let packet = seen.packet;
            let request = packet.opcode().kind() == Kind::Request;
            if seen.from == from && request && packet.bth().psn == psn {
                parts.push(packet);
                psn = psn.next();
                if packet.opcode().position().ends() {
                    break;
                }
            }
        }
        parts
    }

    /// The kernel sends a packet: so do we, the same.
    fn must_send(&mut self, index: usize) {
        let Seen { at, packet, .. } = self.packets[index];
        let mut buf = [0; MAX_PACKET_BYTES];
        let len = if packet.opcode().kind() == Kind::Request {
            let earlier = self.packets[..index].iter();
            let repeated = earlier
                .filter(|seen| seen.from == self.host)
                .any(|seen| seen.packet.bth().psn == packet.bth().psn);
            if repeated {
                let early = self.qp.poll_request(at, &mut self.memory, &mut buf);
                assert!(early.is_none(), "{}: packet {index} too early", self.what);
                self.qp.handle_timeout(at);
            } else if packet.opcode().position().starts() {
                self.post(index);
            }
            let sent = self.qp.poll_request(at, &mut self.memory, &mut buf);
            sent.map(|sent| sent.len)
        } else {
            self.qp.poll_answer(&mut self.memory, &mut buf)
        };
        let len = len.unwrap_or_else(|| panic!("{}: packet {index} not sent", self.what));
        let expected = like_ours(packet);
        let got = Packet::parse(&buf[..len]).expect("ours");
        assert_eq!(got, expected, "{}: packet {index}", self.what);
        let mut bytes = vec![0; expected.wire_len()];
        expected.emit(&mut bytes).expect("parsed before");
        assert_eq!(&buf[..len], bytes, "{}: packet {index}", self.what);
    }

    /// Posts the work request that a message stands for.
    fn post(&mut self, index: usize) {
        let parts = self.message(index);
        let (first, last) = (parts[0], parts[parts.len() - 1]);
        let payload: Vec<u8> = parts
            .iter()
            .flat_map(|part| part.payload)
            .copied()
            .collect();
        let imm = last.ext().imm;
        let opcode = match (first.opcode().operation(), imm) {
            (Operation::Send, None) => SendOpcode::Send,
            (Operation::Send, Some(_)) => SendOpcode::SendImm,
            (Operation::RdmaWrite, None) => SendOpcode::RdmaWrite,
            (Operation::RdmaWrite, Some(_)) => SendOpcode::RdmaWriteImm,
            (Operation::RdmaReadRequest, _) => SendOpcode::RdmaRead,
            (Operation::CompareSwap, _) => SendOpcode::CmpSwap,
            (Operation::FetchAdd, _) => SendOpcode::FetchAdd,
            other => panic!("{other:?} begins no message"),
        };
        let (reth, atomic) = (first.ext().reth, first.ext().atomic);
        let length = match (opcode, reth) {
            (SendOpcode::RdmaRead, Some(reth)) => reth.dma_length,
            (SendOpcode::CmpSwap | SendOpcode::FetchAdd, _) => 8,
            _ => payload.len() as u32,
        };
        let addr = self.buffer();
        self.memory.put(addr, &payload);
        let returned = self.returned(index, length);
        self.expected.push((addr, returned));
        let sges = [Sge {
            addr,
            length,
            lkey: 0,
        }];
        let mut wr = SendWr::new(index as u64, opcode, Payload::Gather(&sges));
        wr.flags.set(SendFlags::SOLICITED, last.bth().solicited);
        wr.imm_or_key = imm.map_or(0, |imm| imm.to_network());
        if let Some(reth) = reth {
            (wr.remote_addr, wr.rkey) = (reth.virtual_address, reth.rkey);
        }
        if let Some(eth) = atomic {
            (wr.remote_addr, wr.rkey) = (eth.virtual_address, eth.rkey);
            (wr.compare_add, wr.swap) = match opcode {
                SendOpcode::CmpSwap => (eth.compare, eth.swap_add),
                _ => (eth.swap_add, 0),
            };
        }
        wr.datagram = first.ext().deth.map(|deth| Datagram {
            qpn: first.bth().dest_qpn,
            qkey: deth.qkey,
            ..Datagram::default()
        });
        self.qp.post_send(&wr).expect("room");
    }

    /// The bytes that a READ or atomic that begins at `index` brings back.
    fn returned(&self, index: usize, length: u32) -> Vec<u8> {
        let Seen { from, packet, .. } = self.packets[index];
        let mut psn = packet.bth().psn;
        let mut bytes = Vec::new();
        for seen in self.packets[index..]
            .iter()
            .filter(|seen| seen.from != from)
        {
            if seen.packet.opcode().kind() != Kind::Response || seen.packet.bth().psn != psn {
                continue;
            }
            psn = psn.next();
            match seen.packet.ext().atomic_ack {
                Some(ack) => bytes.extend(ack.original.to_ne_bytes()),
                None => bytes.extend(seen.packet.payload),
            }
            if bytes.len() >= length as usize {
                break;
            }
        }
        bytes
    }

    /// A packet from the recording.
    fn arrives(&mut self, index: usize) {
        let Seen { at, packet, .. } = self.packets[index];
        if packet.opcode().kind() == Kind::Request {
            self.prepare(index);
        }
        let grh = [0; GRH_BYTES as usize];
        let meta = PacketMeta {
            grh: Some(&grh),
            ..PacketMeta::default()
        };
        let taken = self.qp.handle_packet(at, &mut self.memory, &meta, &packet);
        while self.qp.catch_up(&mut self.memory) {}
        assert_eq!(taken, Ok(()), "{}: packet {index}", self.what);
    }

    /// What the program must have had ready for a request.
    fn prepare(&mut self, index: usize) {
        let Seen { packet, .. } = self.packets[index];
        let answer = self.packets[index..]
            .iter()
            .find(|seen| seen.from == self.host && seen.packet.bth().psn == packet.bth().psn);
        let syndrome = answer.and_then(|seen| seen.packet.ext().aeth);
        let syndrome = syndrome.map(|aeth| aeth.syndrome);
        let refused = matches!(syndrome, Some(Syndrome::RnrNak(_)));
        let info = packet.headers.info();
        if info.takes_receive() && !refused {
            let addr = self.buffer();
            let sge = Sge {
                addr,
                length: ROOM,
                lkey: 0,
            };
            self.memory.receives.push((index as u64, sge));
            if info.operation == Operation::Send {
                let parts = self.message(index);
                let bytes = parts.iter().flat_map(|part| part.payload).copied();
                let skipped = u64::from(GRH_BYTES) * u64::from(packet.ext().deth.is_some());
                self.expected.push((addr + skipped, bytes.collect()));
            }
        }
        if let (Operation::RdmaWrite, Some(reth)) = (info.operation, packet.ext().reth) {
            let parts = self.message(index);
            let bytes = parts.iter().flat_map(|part| part.payload).copied();
            let bytes: Vec<u8> = bytes.collect();
            // A later WRITE may go to the same place: the last one counts.
            let end = reth.virtual_address + bytes.len() as u64;
            let range = reth.virtual_address..end;
            self.expected
                .retain(|(addr, old)| *addr >= range.end || addr + old.len() as u64 <= range.start);
            self.expected.push((reth.virtual_address, bytes));
        }
        let reads = packet
            .ext()
            .reth
            .map(|reth| (reth.virtual_address, reth.dma_length));
        let source = match info.operation {
            Operation::RdmaReadRequest => reads,
            Operation::CompareSwap | Operation::FetchAdd => {
                packet.ext().atomic.map(|eth| (eth.virtual_address, 8))
            }
            _ => None,
        };
        if let Some((addr, length)) = source {
            let known = self.memory.bytes.contains_key(&addr);
            // What atomics find is what they left, but for the first.
            if info.operation == Operation::RdmaReadRequest || !known {
                let bytes = self.returned(index, length);
                self.memory.put(addr, &bytes);
            }
        }
    }

    fn collect(&mut self) {
        while let Some((target, completion)) = self.qp.poll_completion() {
            assert_eq!(
                target == CompletionTarget::Send,
                (completion.opcode as u32) < 128,
                "{completion:?}"
            );
            self.told.push(Told::of(&completion));
        }
    }
}

/// Plays both hosts of each connection of a capture and compares what the programs were told.
fn replay(name: &str, bytes: &[u8], told: Option<[&str; 2]>) {
    let all = capture(bytes);
    let mut connections: Vec<(Service, Qpn)> = Vec::new();
    for seen in &all {
        let key = (seen.packet.opcode().service(), seen.packet.bth().dest_qpn);
        if !connections.contains(&key) {
            connections.push(key);
        }
    }
    let mut heard: [Vec<Told>; 2] = Default::default();
    for &(service, qpn) in &connections {
        let packets: Vec<Seen<'_>> = all
            .iter()
            .copied()
            .filter(|seen| {
                let bth = seen.packet.bth();
                (seen.packet.opcode().service(), bth.dest_qpn) == (service, qpn)
            })
            .collect();
        // The program of `rnr` gave its second connection two retries.
        let rnr_retry = if (name, qpn) == ("rnr", connections[connections.len() - 1].1) {
            2
        } else {
            7
        };
        for (at, host) in [2, 3].into_iter().enumerate() {
            let player = Player::new(name, host, &packets, rnr_retry);
            heard[at].extend(player.play());
        }
    }
    let Some(told) = told else { return };
    let service = connections[0].0;
    for (heard, told) in heard.iter().zip(told) {
        let told = told.lines().filter_map(Told::parse);
        let told: Vec<Told> = told.map(|told| told.like_ours(service)).collect();
        assert!(!told.is_empty() || heard.is_empty());
        assert_eq!(*heard, told, "{name}");
    }
}

macro_rules! oracle {
    ($name:ident) => {
        #[test]
        fn $name() {
            let capture = include_bytes!(concat!(
                "../../wire/tests/golden/rxe/",
                stringify!($name),
                ".pcap"
            ));
            let told = [
                include_str!(concat!("oracle/", stringify!($name), ".initiator.txt")),
                include_str!(concat!("oracle/", stringify!($name), ".target.txt")),
            ];
            replay(stringify!($name), capture, Some(told));
        }
    };
}

oracle!(send);
oracle!(write);
oracle!(read);
oracle!(atomic);
oracle!(rnr);
oracle!(uc);
oracle!(ud);

/// rping over the connection manager: its RC connection, used in both directions, and the datagrams of QP1.
#[test]
fn cm() {
    let capture = include_bytes!("../../wire/tests/golden/rxe/cm.pcap");
    replay("cm", capture, None);
}
