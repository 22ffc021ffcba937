//! What a loss costs: one connection moves bytes over a network of bounded rate in virtual time, and the goodput is
//! what the program got of it.
//!
//! The network is one of sockets, not of links with credits: the sender puts packets on it as fast as it can, the
//! receiver takes them from a buffer that overflows. Owns the run; the machines are those of
//! `ferriband-transport`, unchanged, the driver is as simple as one can be: batches, one answer per batch.

use crate::events::EventQueue;
use crate::rng::Rng;
use ferriband_transport::env::{
    AtomicOp, BindWindow, Environment, MemoryError, SgeOwner, SharedReceive,
};
use ferriband_transport::qp_state::{self, QpLimits};
use ferriband_transport::types::{
    Access, AddressVector, Instant, QpAttr, QpAttrMask, QpCap, QpState, QpType, SendFlags,
    SendOpcode, Sge, WcStatus,
};
use ferriband_transport::{
    AnswerDue, HoldBudget, MAX_PACKET_BYTES, PacketMeta, Payload, QpConfig, QpCounters, QueuePair,
    SendWr, Tuning,
};
use ferriband_wire::{Mtu, Packet, Psn, Qpn, RKey};
use std::collections::VecDeque;

/// Packets that a driver sends or receives at once.
const BATCH: u32 = 62;
/// Bytes that headers add to a packet on the wire: Ethernet, IPv4, UDP and ICRC.
const OVERHEAD: u64 = 46;
/// Virtual time after which a transfer counts as dead.
const PATIENCE_NS: u64 = 60_000_000_000;
/// What a receiver that holds may keep.
static HOLD: HoldBudget = HoldBudget::new(1 << 40);

/// The path between two hosts, the same in both directions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Network {
    /// Bytes that a sender puts on it per microsecond.
    pub send_rate: u64,
    /// Bytes that a receiver takes from its buffer per microsecond.
    pub receive_rate: u64,
    /// One way, without queues.
    pub delay_ns: u64,
    /// Size of the receiver's buffer; what does not fit is lost.
    pub buffer_bytes: u64,
    /// Packets lost at random, in thousandths.
    pub loss_per_mille: u64,
    /// The responder keeps what comes beyond a gap.
    pub holds: bool,
}

/// What is moved.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Transfer {
    /// RDMA WRITE, SEND or RDMA READ.
    pub operation: SendOpcode,
    /// Bytes of each message.
    pub message_bytes: u32,
    /// Messages; 16 are outstanding at a time.
    pub messages: u32,
    /// Path MTU.
    pub mtu: Mtu,
}

/// What came of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Goodput {
    /// Virtual time of the whole transfer.
    pub elapsed_ns: u64,
    /// Payload bytes moved.
    pub bytes: u64,
    /// The requester's counters.
    pub requester: QpCounters,
    /// The responder's counters.
    pub responder: QpCounters,
    /// Packets that did not fit a receiver's buffer.
    pub overflowed: u64,
}

impl Goodput {
    /// Payload bytes per microsecond.
    pub fn bytes_per_us(&self) -> u64 {
        self.bytes * 1_000 / self.elapsed_ns.max(1)
    }
}

/// Memory without keys: a ring of bytes that everybody may touch. The bytes themselves are another test's business.
struct Sink;

impl Environment for Sink {
    fn gather(&mut self, _: &[Sge], _: u32, out: &mut [u8]) -> Result<(), MemoryError> {
        out.fill(0x5a);
        Ok(())
    }
    fn scatter(&mut self, _: SgeOwner, _: &[Sge], _: u32, _: &[u8]) -> Result<(), MemoryError> {
        Ok(())
    }
    fn check_remote(&mut self, _: RKey, _: u64, _: u32, _: Access) -> Result<(), MemoryError> {
        Ok(())
    }
    fn remote_write(&mut self, _: RKey, _: u64, _: &[u8]) -> Result<(), MemoryError> {
        Ok(())
    }
    fn remote_read(&mut self, _: RKey, _: u64, out: &mut [u8]) -> Result<(), MemoryError> {
        out.fill(0xa5);
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
            length: u32::MAX,
            lkey: 0,
        };
        SharedReceive::Taken {
            wr_id: 0,
            num_sge: 1,
        }
    }
}

enum Event {
    /// A packet reaches an end's buffer.
    Arrive(usize, Vec<u8>),
    /// An end's processor has time.
    Work(usize),
    Timer(usize),
}

struct End {
    qp: QueuePair,
    buffer: VecDeque<Vec<u8>>,
    buffered: u64,
    /// The processor is busy until then.
    busy_until: u64,
    work_due: bool,
    timer_at: Option<u64>,
}

struct Run {
    network: Network,
    transfer: Transfer,
    rng: Rng,
    now: u64,
    events: EventQueue<Event>,
    ends: [End; 2],
    posted: u32,
    completed: u32,
    overflowed: u64,
}

/// Runs a transfer.
///
/// # Errors
/// A request failed, or nothing moved any more.
pub fn measure(network: Network, transfer: Transfer, seed: u64) -> Result<Goodput, String> {
    let mut run = Run {
        network,
        transfer,
        rng: Rng::new(seed),
        now: 0,
        events: EventQueue::default(),
        ends: [
            end(0, transfer.mtu, false),
            end(1, transfer.mtu, network.holds),
        ],
        posted: 0,
        completed: 0,
        overflowed: 0,
    };
    run.post()?;
    run.work_at(0, 0);
    while run.completed < transfer.messages {
        let Some((at, event)) = run.events.pop() else {
            return Err(format!("nothing happens any more at {} ns", run.now));
        };
        run.now = run.now.max(at);
        if run.now > PATIENCE_NS {
            return Err(format!("{} messages after a minute", run.completed));
        }
        match event {
            Event::Arrive(to, bytes) => run.arrive(to, bytes),
            Event::Work(at) => run.work(at)?,
            Event::Timer(at) => {
                run.ends[at].timer_at = None;
                run.ends[at].qp.handle_timeout(Instant(run.now));
                run.collect(at)?;
                run.work_at(at, run.now);
            }
        }
    }
    Ok(Goodput {
        elapsed_ns: run.now,
        bytes: u64::from(transfer.messages) * u64::from(transfer.message_bytes),
        requester: run.ends[0].qp.counters(),
        responder: run.ends[1].qp.counters(),
        overflowed: run.overflowed,
    })
}

fn end(index: u32, mtu: Mtu, holds: bool) -> End {
    let config = QpConfig {
        qpn: Qpn(0x10 + index),
        qp_type: QpType::Rc,
        cap: QpCap {
            max_send_wr: 16,
            max_recv_wr: 1,
            max_send_sge: 1,
            max_recv_sge: 1,
            max_inline_data: 0,
        },
        shared_receive: true,
        signal_all: true,
        limits: QpLimits::default(),
        tuning: Tuning {
            hold: holds.then_some(&HOLD),
            list_gaps: holds,
            ..Tuning::default()
        },
    };
    let mut qp = QueuePair::new(config);
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
        min_rnr_timer: 12,
        timeout: 14,
        retry_cnt: 7,
        rnr_retry: 7,
        ..QpAttr::default()
    };
    for state in [QpState::Init, QpState::Rtr, QpState::Rts] {
        let (required, _) = qp_state::attributes(QpType::Rc, attr.state, state)
            .expect("the way to RTS exists for RC");
        attr.state = state;
        qp.modify(&attr, required | QpAttrMask::STATE)
            .expect("legal attributes");
    }
    End {
        qp,
        buffer: VecDeque::new(),
        buffered: 0,
        busy_until: 0,
        work_due: false,
        timer_at: None,
    }
}

impl Run {
    fn post(&mut self) -> Result<(), String> {
        while self.posted < self.transfer.messages {
            let sges = [Sge {
                addr: 0,
                length: self.transfer.message_bytes,
                lkey: 0,
            }];
            let operation = self.transfer.operation;
            let mut wr = SendWr::new(0, operation, Payload::Gather(&sges));
            wr.flags = SendFlags::SIGNALED;
            match self.ends[0].qp.post_send(&wr) {
                Ok(()) => self.posted += 1,
                Err(ferriband_transport::PostError::Full { .. }) => break,
                Err(error) => return Err(error.to_string()),
            }
        }
        Ok(())
    }

    fn work_at(&mut self, at: usize, time: u64) {
        if !std::mem::replace(&mut self.ends[at].work_due, true) {
            let time = time.max(self.ends[at].busy_until).max(self.now);
            self.events.push(time, Event::Work(at));
        }
    }

    fn arrive(&mut self, to: usize, bytes: Vec<u8>) {
        let len = bytes.len() as u64 + OVERHEAD;
        if self.ends[to].buffered + len > self.network.buffer_bytes {
            self.overflowed += 1;
            return;
        }
        self.ends[to].buffered += len;
        self.ends[to].buffer.push_back(bytes);
        self.work_at(to, self.now);
    }

    /// A turn of an end's processor: takes a batch from its buffer, answers once, sends a batch.
    fn work(&mut self, at: usize) -> Result<(), String> {
        self.ends[at].work_due = false;
        let mut spent = 0;
        for _ in 0..BATCH {
            let Some(bytes) = self.ends[at].buffer.pop_front() else {
                break;
            };
            let len = bytes.len() as u64 + OVERHEAD;
            self.ends[at].buffered -= len;
            spent += len * 1_000 / self.network.receive_rate;
            let packet = Packet::parse(&bytes).map_err(|error| error.to_string())?;
            let now = Instant(self.now + spent);
            // What a packet without effect costs is counted by the machine.
            let _ = self.ends[at]
                .qp
                .handle_packet(now, &mut Sink, &PacketMeta::default(), &packet);
            self.collect(at)?;
            while self.ends[at].qp.catch_up(&mut Sink) {
                self.collect(at)?;
            }
        }
        let mut buf = [0; MAX_PACKET_BYTES];
        let mut sent = 0;
        while sent < BATCH {
            let now = Instant(self.now + spent);
            let end = &mut self.ends[at];
            let len = match end.qp.answer_due() {
                AnswerDue::Ack | AnswerDue::More => end.qp.poll_answer(&mut Sink, &mut buf),
                AnswerDue::None => end
                    .qp
                    .poll_request(now, &mut Sink, &mut buf)
                    .map(|sent| sent.len),
            };
            let Some(len) = len else { break };
            sent += 1;
            spent += (len as u64 + OVERHEAD) * 1_000 / self.network.send_rate;
            if !self.rng.chance(self.network.loss_per_mille) {
                let arrival = self.now + spent + self.network.delay_ns;
                let bytes = buf[..len].to_vec();
                self.events.push(arrival, Event::Arrive(1 - at, bytes));
            }
        }
        self.collect(at)?;
        self.ends[at].busy_until = self.now + spent;
        if sent == BATCH || !self.ends[at].buffer.is_empty() {
            self.work_at(at, self.now + spent);
        }
        Ok(())
    }

    /// Completions and the timer.
    fn collect(&mut self, at: usize) -> Result<(), String> {
        while let Some((_, completion)) = self.ends[at].qp.poll_completion() {
            if completion.status != WcStatus::Success {
                return Err(format!("{:?} at {} ns", completion.status, self.now));
            }
            if at == 0 {
                self.completed += 1;
                self.post()?;
            }
        }
        if let Some(Instant(due)) = self.ends[at].qp.poll_timeout()
            && self.ends[at].timer_at.is_none_or(|set| due < set)
        {
            self.ends[at].timer_at = Some(due);
            self.events.push(due.max(self.now), Event::Timer(at));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A veth pair as measured: the sender is twice as fast as the receiver.
    const VETH: Network = Network {
        send_rate: 10_000,
        receive_rate: 5_300,
        delay_ns: 3_000,
        buffer_bytes: 4 << 20,
        loss_per_mille: 0,
        holds: false,
    };
    /// 25 Gb/s through a switch.
    const ETHERNET: Network = Network {
        send_rate: 3_000,
        receive_rate: 4_000,
        delay_ns: 5_000,
        buffer_bytes: 1 << 20,
        loss_per_mille: 0,
        holds: false,
    };

    const fn transfer(operation: SendOpcode, mtu: Mtu) -> Transfer {
        Transfer {
            operation,
            message_bytes: 1 << 20,
            messages: 48,
            mtu,
        }
    }

    fn goodput(network: Network, transfer: Transfer) -> Goodput {
        measure(network, transfer, 1).unwrap_or_else(|why| panic!("{network:?}: {why}"))
    }

    const OPERATIONS: [SendOpcode; 3] = [
        SendOpcode::RdmaWrite,
        SendOpcode::Send,
        SendOpcode::RdmaRead,
    ];

    #[test]
    fn one_per_cent_loss_costs_less_than_half() {
        for network in [VETH, ETHERNET] {
            for mtu in [Mtu::M1024, Mtu::M4096] {
                for operation in OPERATIONS {
                    let transfer = transfer(operation, mtu);
                    let good = goodput(network, transfer);
                    let lossy = Network {
                        loss_per_mille: 10,
                        ..network
                    };
                    let lossy = goodput(lossy, transfer);
                    assert!(lossy.requester.requests_repeated > 0, "nothing was lost");
                    println!(
                        "{operation:?} {mtu:?} {} {}",
                        good.bytes_per_us(),
                        lossy.bytes_per_us()
                    );
                    assert!(
                        2 * lossy.bytes_per_us() >= good.bytes_per_us(),
                        "{operation:?} {mtu:?}: {lossy:?}, without loss {good:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn a_receiver_that_keeps_what_it_gets_loses_a_quarter_at_the_most() {
        for network in [VETH, ETHERNET] {
            for operation in [SendOpcode::RdmaWrite, SendOpcode::Send] {
                let transfer = transfer(operation, Mtu::M1024);
                let good = goodput(network, transfer);
                let lossy = Network {
                    loss_per_mille: 10,
                    holds: true,
                    ..network
                };
                let lossy = goodput(lossy, transfer);
                println!(
                    "keeps {operation:?} {} {}",
                    good.bytes_per_us(),
                    lossy.bytes_per_us()
                );
                // Each lost packet is sent again and hardly anything else.
                let sent = lossy.requester.requests_sent;
                assert!(lossy.requester.requests_repeated * 16 <= sent, "{lossy:?}");
                assert!(
                    4 * lossy.bytes_per_us() >= 3 * good.bytes_per_us(),
                    "{operation:?}: {lossy:?}, without loss {good:?}"
                );
            }
        }
    }

    #[test]
    fn without_loss_the_slower_end_is_kept_busy() {
        for network in [VETH, ETHERNET] {
            let rate = network.send_rate.min(network.receive_rate);
            for operation in OPERATIONS {
                let good = goodput(network, transfer(operation, Mtu::M1024));
                assert!(
                    good.bytes_per_us() * 10 >= rate * 7,
                    "{operation:?}: {} of {rate} B/us",
                    good.bytes_per_us()
                );
            }
        }
    }

    #[test]
    fn a_small_buffer_slows_the_sender_down_and_does_not_starve_it() {
        let small = Network {
            buffer_bytes: 100 << 10,
            ..VETH
        };
        for operation in OPERATIONS {
            let good = goodput(small, transfer(operation, Mtu::M1024));
            println!(
                "small {operation:?} {} overflowed {}",
                good.bytes_per_us(),
                good.overflowed
            );
            assert!(
                good.bytes_per_us() * 2 >= small.receive_rate,
                "{operation:?}: {good:?}"
            );
        }
    }

    #[test]
    fn work_gets_done_at_ten_and_at_thirty_per_cent_loss() {
        for (loss_per_mille, least) in [(100, 20), (300, 1)] {
            let bad = Network {
                loss_per_mille,
                ..VETH
            };
            for operation in OPERATIONS {
                let transfer = Transfer {
                    message_bytes: 1 << 18,
                    messages: 8,
                    ..transfer(operation, Mtu::M1024)
                };
                let good = goodput(bad, transfer);
                assert!(good.bytes_per_us() >= least, "{operation:?}: {good:?}");
            }
        }
    }
}
