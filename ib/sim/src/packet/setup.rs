//! Makes the world of a seed: adapters, connected pairs of queue pairs in RTS, faults.

use super::link::Faults;
use super::memory::Memory;
use super::model::Side;
use super::mutation::{self, Mutation};
use super::workload::{Layout, Mix};
use super::world::{Endpoint, FIRST_QPN, QKEY, World};
use super::{Options, Trace};
use crate::rng::Rng;
use ferriband_transport::qp_state::QpLimits;
use ferriband_transport::types::{
    Access, AddressVector, QpAttr, QpAttrMask, QpCap, QpState, QpType, ack_timeout_ns,
};
use ferriband_transport::{CompletionRing, HoldBudget, QpConfig, QueuePair, Tuning, WindowLimit};
use ferriband_wire::{Mtu, Psn, Qpn};

/// Attributes that the two ends of a connection share.
#[derive(Clone, Copy)]
struct Connection {
    types: [QpType; 2],
    mtu: Mtu,
    psns: [Psn; 2],
    overcommits: bool,
    shared: [bool; 2],
    window: WindowLimit,
    silence_ns: u64,
    /// Which ends keep what comes beyond a gap.
    hold: [bool; 2],
    /// It tells all gaps at once.
    lists: [bool; 2],
}

/// More than any of these worlds can keep.
static HOLD: HoldBudget = HoldBudget::new(usize::MAX / 2);

/// The world of a seed, and when its wire heals.
pub(super) fn build(
    seed: u64,
    options: &Options,
    mutation: Option<Mutation>,
    trace: Trace,
) -> (World, u64) {
    let mut rng = Rng::new(seed.wrapping_mul(0x2545_f491_4f6c_dd1d) ^ 0x5eed);
    // Windows and silences have a source of their own, so that seeds keep what they meant before those came.
    let mut flow = Rng::new(seed ^ 0xf10f);
    let adapters = if rng.chance(250) { 3 } else { 2 };
    let mut memories: Vec<Memory> = (0..adapters).map(|_| Memory::default()).collect();
    let faults = faults(&mut rng, seed, options, mutation);
    let errors_per_mille = if rng.chance(500) { rng.range(5, 40) } else { 0 };
    let mix = Mix {
        errors_per_mille,
        favour: mutation::favours(mutation),
    };
    let srq_layouts: Vec<Layout> = memories.iter_mut().map(Layout::new).collect();
    let (mut sides, mut endpoints) = (Vec::new(), Vec::new());
    let pairs = rng.range(1, 4) as usize;
    for pair in 0..pairs {
        let connection = connection(&mut rng, &mut flow, pair, mutation);
        let from = rng.below(adapters as u64) as usize;
        let to = (from + rng.range(1, adapters as u64 - 1).max(1) as usize) % adapters;
        for (end, adapter) in [from, to].into_iter().enumerate() {
            let srq = connection.shared[end].then_some(&srq_layouts[adapter]);
            let layout = Layout::new(&mut memories[adapter]);
            let side = side(&mut rng, &connection, pair, end, adapter, &layout, srq);
            let small_cq = rng.chance(60) || mutation == Some(Mutation::DropOnOverrun);
            endpoints.push(endpoint(
                &mut rng,
                options,
                &connection,
                end,
                &side,
                layout,
                small_cq,
                mutation,
            ));
            sides.push(side);
        }
    }
    let heal_at = rng.range(200_000, 3_000_000);
    let world = World::new(
        rng,
        sides,
        endpoints,
        memories,
        srq_layouts,
        faults,
        mix,
        mutation,
        trace,
    );
    (world, heal_at)
}

fn faults(rng: &mut Rng, seed: u64, options: &Options, mutation: Option<Mutation>) -> Faults {
    let some = |rng: &mut Rng, most: u64| {
        if rng.chance(700) {
            rng.below(most + 1)
        } else {
            0
        }
    };
    let mut faults = Faults {
        loss: some(rng, options.max_loss_percent * 10),
        duplication: some(rng, 200),
        reordering: some(rng, 200),
        corruption: some(rng, 100),
        hostility: 0,
        latency_ns: rng.range(200, 3_000),
        jitter_ns: rng.range(0, 2_000),
        partitions: Vec::new(),
    };
    if rng.chance(200) {
        let from = rng.range(20_000, 400_000);
        faults
            .partitions
            .push((from, from + rng.range(10_000, 2_000_000)));
    }
    if mutation.is_none() && options.hostile_one_in > 0 && seed % options.hostile_one_in == 7 {
        faults.hostility = rng.range(5, 100);
    }
    faults
}

fn connection(
    rng: &mut Rng,
    flow: &mut Rng,
    pair: usize,
    mutation: Option<Mutation>,
) -> Connection {
    let types = if mutation.is_some() || pair == 0 && rng.chance(600) {
        [QpType::Rc; 2]
    } else {
        match rng.below(6) {
            0 => [QpType::Uc; 2],
            1 => [QpType::Ud; 2],
            2 | 3 => [QpType::XrcSend, QpType::XrcRecv],
            _ => [QpType::Rc; 2],
        }
    };
    let mtu = match rng.below(6) {
        0 => Mtu::M1024,
        1 => Mtu::M512,
        _ => Mtu::M256,
    };
    // I5: most queues cross the wrap within the run.
    let psn = |rng: &mut Rng| {
        let near = mutation == Some(Mutation::SkipPsnZero) || rng.chance(800);
        if near {
            Psn::new(0xff_ffff - rng.below(40) as u32)
        } else {
            Psn::new(rng.next_u64() as u32)
        }
    };
    let packets = |rng: &mut Rng| rng.range(1, 32) as u32 * mtu.bytes();
    let window = WindowLimit {
        requests_bytes: packets(flow),
        responses_bytes: packets(flow),
    };
    // A timer that a mutation makes hasty must not pass for a question.
    let silence_ns = if mutation == Some(Mutation::HastyTimer) {
        u64::MAX
    } else {
        flow.range(5_000, 200_000)
    };
    Connection {
        types,
        mtu,
        psns: [psn(rng), psn(rng)],
        overcommits: types[0] == QpType::Rc && mutation.is_none() && rng.chance(30),
        shared: [
            types[0] == QpType::Rc && mutation.is_none() && rng.chance(200),
            types[1] == QpType::XrcRecv,
        ],
        window,
        silence_ns,
        hold: [flow.chance(500), flow.chance(500)],
        lists: [flow.chance(700), flow.chance(700)],
    }
}

fn side(
    rng: &mut Rng,
    connection: &Connection,
    pair: usize,
    end: usize,
    adapter: usize,
    layout: &Layout,
    srq: Option<&Layout>,
) -> Side {
    let timeout = rng.range(2, 11) as u8;
    let overcommits = connection.overcommits;
    Side {
        qp_type: connection.types[end],
        adapter,
        peer: 2 * pair + 1 - end,
        mtu: connection.mtu.bytes() as usize,
        sq_psn: connection.psns[end],
        retry_cnt: if rng.chance(800) {
            7
        } else {
            rng.range(1, 6) as u8
        },
        rnr_retry: if rng.chance(700) {
            7
        } else {
            rng.range(0, 6) as u8
        },
        timeout_ns: ack_timeout_ns(timeout),
        min_rnr_timer: rng.range(1, 14) as u8,
        max_rd_atomic: if overcommits {
            4
        } else {
            rng.range(1, 4) as u8
        },
        overcommits,
        local_key: layout.local_key,
        recv_key: srq.map_or(layout.recv_key, |srq| srq.recv_key),
        posted: Vec::new(),
        psn_total: 0,
        cursor: 0,
        next_completion: 0,
        failed: None,
        may_be_killed: false,
        forced: false,
        receives: Vec::new(),
        next_receive: 0,
        receive_failed: false,
        sent: Vec::new(),
        last_offset: None,
        last_answer_at: None,
        silence_ns: connection.silence_ns,
        holds: connection.hold[end],
        reads: Vec::new(),
        naks: Default::default(),
        rnr_naks: Default::default(),
        rnr_quiet: None,
        credit_limit: Some(0),
        acked: 0,
    }
}

#[allow(clippy::too_many_arguments)] // One caller, above; all of them are drawn there.
fn endpoint(
    rng: &mut Rng,
    options: &Options,
    connection: &Connection,
    end: usize,
    side: &Side,
    layout: Layout,
    small_cq: bool,
    mutation: Option<Mutation>,
) -> Endpoint {
    let peer = side.peer as u32;
    // Pairs are numbered two by two.
    let own = peer ^ 1;
    let config = QpConfig {
        qpn: Qpn(FIRST_QPN + own),
        qp_type: side.qp_type,
        cap: QpCap {
            max_send_wr: rng.range(4, 64) as u32,
            max_recv_wr: 256,
            max_send_sge: 3,
            max_recv_sge: 1,
            max_inline_data: 64,
        },
        shared_receive: connection.shared[end],
        signal_all: false,
        limits: QpLimits::default(),
        tuning: Tuning {
            max_inflight_packets: rng.range(1, 64) as u32,
            ack_interval: rng.range(1, 16) as u32,
            datagram_mtu: side.mtu as u32,
            silence_ns: side.silence_ns,
            timeout_floor_ns: 0,
            hold: connection.hold[end].then_some(&HOLD),
            list_gaps: connection.lists[end],
        },
    };
    let mut qp = QueuePair::new(config);
    qp.set_window(connection.window);
    let rights = Access::REMOTE_WRITE | Access::REMOTE_READ | Access::REMOTE_ATOMIC;
    let timeout = (1..32)
        .find(|&n| ack_timeout_ns(n) == side.timeout_ns)
        .unwrap_or(0);
    let hasty = u8::from(mutation == Some(Mutation::HastyTimer)) * 2;
    let more = if mutation == Some(Mutation::MoreReads) {
        4
    } else {
        0
    };
    let impatient = mutation == Some(Mutation::ImpatientRnr);
    let mut attr = QpAttr {
        port_num: 1,
        access: rights | Access::LOCAL_WRITE,
        qkey: QKEY,
        path_mtu: connection.mtu,
        dest_qpn: Qpn(FIRST_QPN + peer),
        rq_psn: connection.psns[1 - end],
        sq_psn: connection.psns[end],
        av: AddressVector {
            port_num: 1,
            ..AddressVector::default()
        },
        max_rd_atomic: side.max_rd_atomic + more,
        // A target takes what its peer may send: 4 at the most here, unless the pair overcommits.
        max_dest_rd_atomic: if side.overcommits { 1 } else { 4 + more },
        min_rnr_timer: side.min_rnr_timer,
        timeout: timeout - hasty.min(timeout - 1),
        retry_cnt: side.retry_cnt,
        rnr_retry: if impatient { 0 } else { side.rnr_retry },
        ..QpAttr::default()
    };
    for state in [QpState::Init, QpState::Rtr, QpState::Rts] {
        let (required, _) =
            ferriband_transport::qp_state::attributes(side.qp_type, attr.state, state)
                .expect("the way to RTS exists for every service");
        attr.state = state;
        qp.modify(&attr, required | QpAttrMask::STATE)
            .expect("legal attributes");
    }
    Endpoint {
        qp,
        layout,
        cq: CompletionRing::new(if small_cq { 6 } else { 1024 }),
        cq_dead: false,
        completions_made: 0,
        completions_polled: 0,
        to_post: rng.range(1, options.max_requests.max(1).into()) as u32,
        turns: rng.range(6, 30) as u32,
        shared_receive: connection.shared[end],
        timer_at: None,
        pump_due: false,
    }
}
