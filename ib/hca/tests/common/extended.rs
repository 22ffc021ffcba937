//! Extended connections: members of a domain, and an initiator.

use std::sync::Arc;
use std::time::Instant;

use ferriband_hca::xrc::XrcOpen;
use ferriband_hca::*;
use ferriband_transport::types::*;
use ferriband_wire::*;

use super::PATIENCE;
use super::endpoint::path;
use super::process::Channel;

const ACCESS: Access = Access::LOCAL_WRITE
    .union(Access::REMOTE_WRITE)
    .union(Access::REMOTE_READ)
    .union(Access::REMOTE_ATOMIC);

/// Words of a party's memory: more than a message that is copied through the channel.
const WORDS: usize = 40_000;

/// Opens the domain of a file.
pub fn domain(ctx: &Arc<Context>, file: (u64, u64)) -> Arc<Xrcd> {
    ctx.open_xrcd(XrcFile::Of(file.0, file.1, XrcOpen::OrCreate))
        .unwrap()
}

/// How to make a target.
pub fn target_init() -> QpInit {
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

/// To RTR, towards a queue pair of this host.
pub fn accept(qp: &Arc<Qp>, dest: u32) {
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
        av: path(&qp.ctx, qp.ctx.query_port(1).unwrap().lid.0),
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
pub struct Receiver {
    pub srq: Arc<Srq>,
    pub cq: Arc<Cq>,
    pub mr: Arc<Mr>,
    pub memory: Vec<u64>,
}

/// A shared receive queue with eight receives.
pub fn receiver(ctx: &Arc<Context>, xrcd: &Arc<Xrcd>) -> Receiver {
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
    let memory = vec![0u64; WORDS];
    let addr = memory.as_ptr() as u64;
    let mr = pd
        .reg_mr(MrInit {
            addr,
            length: 8 * WORDS as u64,
            iova: addr,
            access: ACCESS,
        })
        .unwrap();
    for wr_id in 0..8 {
        srq.post_recv(
            wr_id,
            &[Sge {
                addr: addr + 4096,
                length: 8 * WORDS as u32 - 4096,
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

/// Joins the domain. Told 1, makes the target and connects it; told 2, owns a(nother) shared receive queue; told 3, opens the target
/// made by another; told 4, reports what arrives at one of its queues; told 5, destroys one of its handles of targets.
pub fn member_role(channel: Channel) {
    let ctx = Context::open(0).unwrap();
    let first = channel.recv();
    let xrcd = domain(&ctx, (first[0], first[1]));
    let mut kept = Vec::new();
    let mut owned = Vec::new();
    while let Some(order) = channel.try_recv() {
        match order[0] {
            1 => {
                let qp = Qp::make_target(&xrcd, target_init()).unwrap();
                accept(&qp, order[1] as u32);
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
                owned.push(made);
            }
            3 => {
                let opened = Qp::open_target(&xrcd, order[1] as u32);
                channel.send(&[u64::from(opened.is_ok())]);
                kept.extend(opened);
            }
            4 => {
                let made: &Receiver = &owned[order.get(1).map_or(0, |at| *at as usize)];
                let got = wait(&made.cq);
                channel.send(&[
                    got.wr_id,
                    got.status as u64,
                    u64::from(got.byte_len),
                    made.memory[512],
                    made.memory[0],
                    made.memory[512..].iter().fold(0, |sum, word| sum ^ word),
                ]);
            }
            5 => {
                let qp: Arc<Qp> = kept.remove(order[1] as usize);
                channel.send(&[qp.destroy().is_ok().into()]);
            }
            _ => return,
        }
    }
}

/// The next completion.
pub fn wait(cq: &Cq) -> Completion {
    let end = Instant::now() + PATIENCE;
    loop {
        let mut got = None;
        if cq.poll(1, |entry| got = Some(entry.completion)).unwrap() == 1 {
            return got.unwrap();
        }
        assert!(Instant::now() < end, "no completion");
    }
}

/// An initiator, with memory of its own.
pub struct Initiator {
    pub qp: Arc<Qp>,
    pub cq: Arc<Cq>,
    pub mr: Arc<Mr>,
    pub memory: Vec<u64>,
}

impl Initiator {
    pub fn new(ctx: &Arc<Context>) -> Self {
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
        let memory = vec![0u64; WORDS];
        let addr = memory.as_ptr() as u64;
        let mr = pd
            .reg_mr(MrInit {
                addr,
                length: 8 * WORDS as u64,
                iova: addr,
                access: ACCESS,
            })
            .unwrap();
        Initiator { qp, cq, mr, memory }
    }

    pub fn connect(&self, target: u32) {
        use QpAttrMask as M;
        accept(&self.qp, target);
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

    /// Posts eight bytes, and waits for their end.
    pub fn post(&mut self, opcode: SendOpcode, value: u64, to: &[u64]) -> WcStatus {
        self.memory[0] = value;
        self.post_words(opcode, 1, value, to)
    }

    /// Posts the first `words` of the memory, and waits for their end.
    pub fn post_words(
        &mut self,
        opcode: SendOpcode,
        words: usize,
        value: u64,
        to: &[u64],
    ) -> WcStatus {
        let sges = [Sge {
            addr: self.mr.extent().0,
            length: 8 * words as u32,
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
