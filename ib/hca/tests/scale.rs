//! Many processes on one device, many queue pairs in a process, and what each costs.
#![allow(clippy::unwrap_used)]

mod common;

use std::time::Instant;

use common::memory::Kind;
use common::party::*;
use common::process::{self, Channel, Child, status_of};
use ferriband_hca::*;
use ferriband_transport::types::*;

#[test]
fn child_entry() {
    process::run_role(&[("obey", obey), ("blank", blank_role), ("crowd", crowd_role)]);
}

/// A process that has nothing to do with the adapter: what a process costs without it.
fn blank_role(channel: Channel) {
    channel.send(&[]);
    channel.try_recv();
}

/// Memory that a process has for itself, in kB.
fn own_kb(child: &Child) -> u64 {
    status_of(&format!("/proc/{}/smaps_rollup", child.pid()), "Pss_Anon:")
        + status_of(&format!("/proc/{}/smaps_rollup", child.pid()), "Pss_Shmem:")
}

const SMALL: Setup = Setup {
    service: QpType::Rc,
    memory: Kind::Private,
    len: 4096,
    mr_access: ALL,
    qp_access: ALL,
    send_wr: 4,
    recv_wr: 4,
    sge: 1,
    inline: 0,
    cqe: 16,
    timeout: 14,
    retry: 7,
    rnr_retry: 7,
    min_rnr: 1,
    events: false,
};

#[test]
fn a_thousand_and_twenty_four_processes_share_the_device() {
    process::raise_descriptor_limit();
    let begin = Instant::now();
    // all at once: they queue for the registry
    let mut parties: Vec<Party> = (0..1024).map(|_| Party::there()).collect();
    let infos: Vec<Info> = parties.iter_mut().map(|party| party.make(SMALL)).collect();
    let joined = begin.elapsed();
    let numbers: std::collections::BTreeSet<u32> = infos.iter().map(|info| info.qpn).collect();
    assert_eq!(
        numbers.len(),
        1024,
        "each queue pair has a number of its own"
    );
    let alone = own_kb(parties[500].child());
    // a sample of pairs, far apart and near
    let begin = Instant::now();
    for (at, other) in (0..64).map(|i| (i, 1023 - i * 7)) {
        let (ai, bi) = (infos[at], infos[other]);
        parties[at].connect(&ai, &bi);
        parties[other].connect(&bi, &ai);
        parties[other].recv(&bi, 5, 0, 64);
        parties[at].post(&ai, &Ask::new(SendOpcode::Send, 8, &bi).id(6));
        parties[at].post(&ai, &Ask::new(SendOpcode::RdmaWrite, 8, &bi).id(7));
        parties[at].expect(&ai, 6, WcStatus::Success);
        parties[at].expect(&ai, 7, WcStatus::Success);
        parties[other].expect(&bi, 5, WcStatus::Success);
    }
    let met = begin.elapsed();
    let paired = own_kb(parties[0].child());
    let blank = Child::spawn("blank");
    blank.channel.recv();
    let bare = own_kb(&blank);
    // half of them are killed; the rest goes on, and newcomers take their places
    let begin = Instant::now();
    for party in &parties[512..] {
        let Party::There(child) = party else {
            unreachable!()
        };
        child.shoot();
    }
    parties.truncate(512);
    let mut newcomers = Pair::alike(Party::there(), Party::there(), SMALL);
    newcomers.exchange();
    let healed = begin.elapsed();
    eprintln!(
        "1024 processes: started and joined in {joined:?}, 64 pairs met in {met:?}, 512 killed and two joined in \
         {healed:?}; own memory of a process: {bare} kB without the device, {alone} kB with it and a queue pair, \
         {paired} kB with one peer"
    );
    assert!(
        alone < bare + 1024,
        "an open device costs less than 1 MB: {alone} kB against {bare} kB"
    );
}

/// Ten thousand queue pairs of one process, joined in pairs; what they cost.
fn crowd_role(channel: Channel) {
    let count = channel.recv()[0] as usize;
    let ctx = Context::open(0).unwrap();
    let pd = ctx.alloc_pd().unwrap();
    let cq = ctx
        .create_cq(CqInit {
            cqe: 1 << 15,
            ..CqInit::default()
        })
        .unwrap();
    let first = Endpoint::new(&ctx, SMALL).unwrap();
    let cap = QpCap {
        max_send_wr: 1,
        max_recv_wr: 1,
        max_send_sge: 1,
        max_recv_sge: 1,
        max_inline_data: 0,
    };
    let init = QpInit {
        qp_type: QpType::Rc,
        send_cq: Some(cq.clone()),
        recv_cq: Some(cq.clone()),
        srq: None,
        xrcd: None,
        cap,
        signal_all: true,
    };
    let rss = || status_of("/proc/self/status", "VmRSS:");
    let before = rss();
    let begin = Instant::now();
    let qps: Vec<_> = (0..count)
        .map(|_| pd.create_qp(init.clone()).unwrap())
        .collect();
    let created = begin.elapsed();
    let bytes = (rss() - before) * 1024 / count as u64;
    let memory = MrInit {
        addr: first.memory.addr(),
        length: 4096,
        iova: 0,
        access: Access::LOCAL_WRITE,
    };
    let mr = pd.reg_mr(memory).unwrap();
    let sge = [Sge {
        addr: 0,
        length: 8,
        lkey: mr.key(),
    }];
    let lid = ctx.query_port(1).unwrap().lid.0;
    let begin = Instant::now();
    for (at, qp) in qps.iter().enumerate() {
        to_rts(qp, qps[at ^ 1].qpn, lid);
        qp.post_recv(at as u64, &sge).unwrap();
    }
    for (at, qp) in qps.iter().enumerate() {
        qp.post_send(&send(at as u64 | 1 << 32, &sge)).unwrap();
    }
    let (mut sent, mut received) = (vec![false; count], vec![false; count]);
    let mut missing = 2 * count;
    while missing > 0 && begin.elapsed() < common::PATIENCE {
        cq.poll(64, |entry| {
            let done = entry.completion;
            assert_eq!(done.status, WcStatus::Success);
            let list = if done.wr_id >> 32 == 1 {
                &mut sent
            } else {
                &mut received
            };
            assert!(
                !std::mem::replace(&mut list[done.wr_id as u32 as usize], true),
                "told twice"
            );
            missing -= 1;
        })
        .unwrap();
    }
    assert_eq!(missing, 0);
    let passed = begin.elapsed();
    let begin = Instant::now();
    qps.iter().for_each(|qp| qp.destroy().unwrap());
    mr.deregister().unwrap();
    cq.destroy().unwrap();
    pd.dealloc().unwrap();
    let destroyed = begin.elapsed();
    let again = Endpoint::new(&ctx, SMALL).unwrap();
    join(&first, &again);
    channel.send(&[
        bytes,
        created.as_millis() as u64,
        passed.as_millis() as u64,
        destroyed.as_millis() as u64,
    ]);
}

fn send(wr_id: u64, sges: &[Sge]) -> SendRequest<'_> {
    SendRequest {
        wr_id,
        opcode: SendOpcode::Send,
        flags: SendFlags::SIGNALED,
        sges,
        imm_or_key: 0,
        remote_addr: 0,
        rkey: 0,
        compare_add: 0,
        swap: 0,
        ah: None,
        remote_qpn: 0,
        remote_qkey: 0,
        srqn: 0,
        bind: None,
    }
}

fn to_rts(qp: &std::sync::Arc<Qp>, peer: u32, lid: u16) {
    use QpAttrMask as M;
    let av = AddressVector {
        dlid: ferriband_wire::Lid(lid),
        port_num: 1,
        ..AddressVector::default()
    };
    let mut attr = QpAttr {
        state: QpState::Init,
        port_num: 1,
        av,
        path_mtu: ferriband_wire::Mtu::M4096,
        dest_qpn: ferriband_wire::Qpn(peer),
        max_dest_rd_atomic: 1,
        max_rd_atomic: 1,
        min_rnr_timer: 1,
        timeout: 14,
        retry_cnt: 7,
        rnr_retry: 7,
        ..QpAttr::default()
    };
    qp.modify(&attr, M::STATE | M::PKEY_INDEX | M::PORT | M::ACCESS_FLAGS)
        .unwrap();
    attr.state = QpState::Rtr;
    let mask =
        M::AV | M::PATH_MTU | M::DEST_QPN | M::RQ_PSN | M::MAX_DEST_RD_ATOMIC | M::MIN_RNR_TIMER;
    qp.modify(&attr, M::STATE | mask).unwrap();
    attr.state = QpState::Rts;
    let mask = M::SQ_PSN | M::TIMEOUT | M::RETRY_CNT | M::RNR_RETRY | M::MAX_QP_RD_ATOMIC;
    qp.modify(&attr, M::STATE | mask).unwrap();
}

#[test]
fn ten_thousand_queue_pairs_of_a_process_all_pass_a_message() {
    let child = Child::spawn("crowd");
    child.channel.send(&[10_000]);
    let figures = child.channel.recv();
    eprintln!(
        "10,000 queue pairs: {} bytes each with queues of one request, created in {} ms, joined and heard of in {} ms, \
         destroyed in {} ms",
        figures[0], figures[1], figures[2], figures[3]
    );
    assert!(
        figures[0] < 4096,
        "an idle queue pair costs {} bytes",
        figures[0]
    );
}
