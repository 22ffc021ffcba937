//! XRC: three processes on one domain. The target queue pair belongs to the domain and outlives the process that made it;
//! requests reach the shared receive queue that they name, whoever owns it.
#![allow(clippy::unwrap_used)]

mod common;

use std::sync::Arc;
use std::time::{Duration, Instant};

use common::process::{self, Channel, Child};
use ferriband_hca::xrc::XrcOpen;
use ferriband_hca::*;
use ferriband_transport::types::*;
use ferriband_wire::*;

#[test]
fn child_entry() {
    process::run_role(&[("member", member_role)]);
}

const ACCESS: Access = Access::LOCAL_WRITE
    .union(Access::REMOTE_WRITE)
    .union(Access::REMOTE_READ)
    .union(Access::REMOTE_ATOMIC);

fn domain(ctx: &Arc<Context>, file: (u64, u64)) -> Arc<Xrcd> {
    ctx.open_xrcd(XrcFile::Of(file.0, file.1, XrcOpen::OrCreate))
        .unwrap()
}

fn target_init() -> QpInit {
    QpInit {
        qp_type: QpType::XrcRecv,
        send_cq: None,
        recv_cq: None,
        srq: None,
        xrcd: None,
        cap: QpCap::default(),
        signal_all: false,
    }
}

fn accept(qp: &Arc<Qp>, dest: u32, lid: Lid) {
    use QpAttrMask as M;
    let attr = QpAttr {
        state: QpState::Init,
        port_num: 1,
        access: ACCESS,
        ..QpAttr::default()
    };
    qp.modify(&attr, M::STATE | M::PKEY_INDEX | M::PORT | M::ACCESS_FLAGS)
        .unwrap();
    let attr = QpAttr {
        state: QpState::Rtr,
        av: AddressVector {
            dlid: lid,
            port_num: 1,
            ..AddressVector::default()
        },
        path_mtu: Mtu::M1024,
        dest_qpn: Qpn(dest),
        rq_psn: Psn::new(7),
        max_dest_rd_atomic: 1,
        min_rnr_timer: 1,
        ..QpAttr::default()
    };
    let mut mask = M::STATE | M::AV | M::PATH_MTU | M::DEST_QPN | M::RQ_PSN;
    if qp.qp_type == QpType::XrcRecv {
        // an initiator receives nothing
        mask |= M::MAX_DEST_RD_ATOMIC | M::MIN_RNR_TIMER;
    }
    qp.modify(&attr, mask).unwrap();
}

/// A shared receive queue of the domain, with its memory and receives.
struct Receiver {
    srq: Arc<Srq>,
    cq: Arc<Cq>,
    mr: Arc<Mr>,
    memory: Vec<u64>,
}

fn receiver(ctx: &Arc<Context>, xrcd: &Arc<Xrcd>) -> Receiver {
    let pd = ctx.alloc_pd().unwrap();
    let cq = ctx
        .create_cq(CqInit {
            cqe: 64,
            ..CqInit::default()
        })
        .unwrap();
    let init = SrqInit {
        max_wr: 16,
        max_sge: 1,
        limit: 0,
        xrc: Some((xrcd.clone(), cq.clone())),
    };
    let srq = pd.create_srq(init).unwrap();
    let memory = vec![0u64; 1024];
    let addr = memory.as_ptr() as u64;
    let mr = pd
        .reg_mr(MrInit {
            addr,
            length: 8192,
            iova: addr,
            access: ACCESS,
        })
        .unwrap();
    for wr_id in 0..8 {
        srq.post_recv(
            wr_id,
            &[Sge {
                addr: addr + 4096,
                length: 64,
                lkey: mr.key(),
            }],
        )
        .unwrap();
    }
    Receiver {
        srq,
        cq,
        mr,
        memory,
    }
}

/// Joins the domain. Told 1, makes the target and connects it; told 2, owns a shared receive queue and reports what arrives; told 3,
/// opens the target made by another.
fn member_role(channel: Channel) {
    let ctx = Context::open(0).unwrap();
    let lid = ctx.query_port(1).unwrap().lid;
    let first = channel.recv();
    let xrcd = domain(&ctx, (first[0], first[1]));
    let mut kept = Vec::new();
    let mut owned = None;
    while let Some(order) = channel.try_recv() {
        match order[0] {
            1 => {
                let qp = xrcd.create_qp(target_init()).unwrap();
                accept(&qp, order[1] as u32, lid);
                channel.send(&[u64::from(qp.qpn)]);
                kept.push(qp);
            }
            2 => {
                let made = receiver(&ctx, &xrcd);
                channel.send(&[
                    u64::from(made.srq.number),
                    made.mr.extent().0,
                    u64::from(made.mr.key()),
                ]);
                owned = Some(made);
            }
            3 => {
                let opened = xrcd.open_qp(order[1] as u32);
                channel.send(&[u64::from(opened.is_ok())]);
                kept.extend(opened);
            }
            4 => {
                let made = owned.as_ref().unwrap();
                let got = wait(&made.cq);
                channel.send(&[
                    got.wr_id,
                    got.status as u64,
                    u64::from(got.byte_len),
                    made.memory[512],
                    made.memory[0],
                ]);
            }
            _ => return,
        }
    }
}

fn wait(cq: &Cq) -> Completion {
    let end = Instant::now() + Duration::from_secs(20);
    loop {
        let mut got = None;
        if cq.poll(1, |entry| got = Some(entry.completion)).unwrap() == 1 {
            return got.unwrap();
        }
        assert!(Instant::now() < end, "no completion");
    }
}

struct Initiator {
    qp: Arc<Qp>,
    cq: Arc<Cq>,
    mr: Arc<Mr>,
    memory: Vec<u64>,
}

impl Initiator {
    fn new(ctx: &Arc<Context>) -> Self {
        let pd = ctx.alloc_pd().unwrap();
        let cq = ctx
            .create_cq(CqInit {
                cqe: 64,
                ..CqInit::default()
            })
            .unwrap();
        let cap = QpCap {
            max_send_wr: 16,
            max_send_sge: 1,
            ..QpCap::default()
        };
        let init = QpInit {
            qp_type: QpType::XrcSend,
            send_cq: Some(cq.clone()),
            recv_cq: None,
            srq: None,
            xrcd: None,
            cap,
            signal_all: true,
        };
        let qp = pd.create_qp(init).unwrap();
        let memory = vec![0u64; 8];
        let addr = memory.as_ptr() as u64;
        let mr = pd
            .reg_mr(MrInit {
                addr,
                length: 64,
                iova: addr,
                access: ACCESS,
            })
            .unwrap();
        Initiator { qp, cq, mr, memory }
    }

    fn connect(&self, target: u32, lid: Lid) {
        use QpAttrMask as M;
        accept(&self.qp, target, lid);
        let attr = QpAttr {
            state: QpState::Rts,
            sq_psn: Psn::new(7),
            timeout: 10,
            retry_cnt: 7,
            rnr_retry: 7,
            max_rd_atomic: 1,
            ..QpAttr::default()
        };
        let mask =
            M::STATE | M::SQ_PSN | M::TIMEOUT | M::RETRY_CNT | M::RNR_RETRY | M::MAX_QP_RD_ATOMIC;
        self.qp.modify(&attr, mask).unwrap();
    }

    fn post(&mut self, opcode: SendOpcode, value: u64, to: &[u64]) -> WcStatus {
        self.memory[0] = value;
        let sges = [Sge {
            addr: self.mr.extent().0,
            length: 8,
            lkey: self.mr.key(),
        }];
        self.qp
            .post_send(&SendRequest {
                wr_id: value,
                opcode,
                flags: SendFlags::SIGNALED,
                sges: &sges,
                imm_or_key: 0,
                remote_addr: to[1],
                rkey: to[2] as u32,
                compare_add: 1,
                swap: 0,
                ah: None,
                remote_qpn: 0,
                remote_qkey: 0,
                srqn: to[0] as u32,
                bind: None,
            })
            .unwrap();
        wait(&self.cq).status
    }
}

#[test]
fn a_target_outlives_its_creator_and_reaches_every_shared_receive_queue_of_its_domain() {
    let file = (0xfe77_0001, u64::from(std::process::id()) << 20 | 1);
    let ctx = Context::open(0).unwrap();
    let lid = ctx.query_port(1).unwrap().lid;
    let mut initiator = Initiator::new(&ctx);
    let (mut creator, one, two) = (
        Child::spawn("member"),
        Child::spawn("member"),
        Child::spawn("member"),
    );
    for child in [&creator, &one, &two] {
        child.channel.send(&[file.0, file.1]);
    }
    let ask = |child: &Child, order: &[u64]| {
        child.channel.send(order);
        child.channel.recv()
    };
    let (first, second) = (ask(&one, &[2]), ask(&two, &[2]));
    let target = ask(&creator, &[1, u64::from(initiator.qp.qpn)])[0];
    initiator.connect(target as u32, lid);
    // alternately to both, in order
    for round in 0..3u64 {
        for (at, (child, queue)) in [(&one, &first), (&two, &second)].into_iter().enumerate() {
            let value = 100 * round + at as u64;
            assert_eq!(
                initiator.post(SendOpcode::Send, value, queue),
                WcStatus::Success
            );
            assert_eq!(ask(child, &[4])[..4], [round, 0, 8, value], "round {round}");
        }
    }
    assert_eq!(
        ask(&two, &[3, target]),
        [1],
        "another process opens the target"
    );
    creator.kill();
    // the creator is dead: the target is not
    assert_eq!(
        initiator.post(SendOpcode::Send, 7, &first),
        WcStatus::Success
    );
    assert_eq!(ask(&one, &[4])[1..4], [0, 8, 7]);
    assert_eq!(
        initiator.post(SendOpcode::RdmaWrite, 41, &second),
        WcStatus::Success
    );
    assert_eq!(
        initiator.post(SendOpcode::FetchAdd, 0, &second),
        WcStatus::Success
    );
    assert_eq!(initiator.memory[0], 41, "the value before");
    assert_eq!(
        initiator.post(SendOpcode::RdmaRead, 0, &second),
        WcStatus::Success
    );
    assert_eq!(initiator.memory[0], 42, "the value after");
}

#[test]
fn a_request_for_a_queue_outside_the_domain_is_invalid_and_ends_the_connection() {
    let pid = u64::from(std::process::id()) << 20;
    let ctx = Context::open(0).unwrap();
    let lid = ctx.query_port(1).unwrap().lid;
    let mut initiator = Initiator::new(&ctx);
    let (creator, stranger) = (Child::spawn("member"), Child::spawn("member"));
    creator.channel.send(&[0xfe77_0002, pid | 2]);
    stranger.channel.send(&[0xfe77_0003, pid | 3]);
    creator.channel.send(&[1, u64::from(initiator.qp.qpn)]);
    let target = creator.channel.recv()[0];
    stranger.channel.send(&[2]);
    let queue = stranger.channel.recv();
    initiator.connect(target as u32, lid);
    assert_eq!(
        initiator.post(SendOpcode::Send, 1, &queue),
        WcStatus::RemInvReqErr
    );
    assert_eq!(initiator.qp.state(), QpState::Err);
}
