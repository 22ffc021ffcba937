//! Two queue pairs of one process: the whole data path without a peer.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::time::{Duration, Instant};

use ferriband_hca::*;
use ferriband_transport::types::*;
use ferriband_wire::*;

struct Side {
    pd: Arc<Pd>,
    cq: Arc<Cq>,
    qp: Arc<Qp>,
    mr: Arc<Mr>,
    buf: Vec<u8>,
}

fn side(ctx: &Arc<Context>, qp_type: QpType, len: usize) -> Side {
    let pd = ctx.alloc_pd().unwrap();
    let cq = ctx
        .create_cq(CqInit {
            cqe: 256,
            ..CqInit::default()
        })
        .unwrap();
    let cap = QpCap {
        max_send_wr: 64,
        max_recv_wr: 64,
        max_send_sge: 4,
        max_recv_sge: 4,
        max_inline_data: 128,
    };
    let qp = pd
        .create_qp(QpInit {
            qp_type,
            send_cq: Some(cq.clone()),
            recv_cq: Some(cq.clone()),
            srq: None,
            xrcd: None,
            cap,
            signal_all: true,
        })
        .unwrap();
    let buf = vec![0u8; len];
    let addr = buf.as_ptr() as u64;
    let access =
        Access::LOCAL_WRITE | Access::REMOTE_WRITE | Access::REMOTE_READ | Access::REMOTE_ATOMIC;
    let mr = pd
        .reg_mr(MrInit {
            addr,
            length: len as u64,
            iova: addr,
            access,
        })
        .unwrap();
    Side {
        pd,
        cq,
        qp,
        mr,
        buf,
    }
}

fn connect(a: &Side, b: &Side, lid: Lid) {
    let access =
        Access::LOCAL_WRITE | Access::REMOTE_WRITE | Access::REMOTE_READ | Access::REMOTE_ATOMIC;
    use QpAttrMask as M;
    for (me, peer) in [(a, b), (b, a)] {
        let attr = QpAttr {
            state: QpState::Init,
            port_num: 1,
            access,
            ..QpAttr::default()
        };
        me.qp
            .modify(&attr, M::STATE | M::PKEY_INDEX | M::PORT | M::ACCESS_FLAGS)
            .unwrap();
        let av = AddressVector {
            dlid: lid,
            port_num: 1,
            ..AddressVector::default()
        };
        let attr = QpAttr {
            state: QpState::Rtr,
            av,
            path_mtu: Mtu::M1024,
            dest_qpn: Qpn(peer.qp.qpn),
            rq_psn: Psn::new(0xff_fff0),
            max_dest_rd_atomic: 1,
            min_rnr_timer: 1,
            ..QpAttr::default()
        };
        let mask = M::STATE
            | M::AV
            | M::PATH_MTU
            | M::DEST_QPN
            | M::RQ_PSN
            | M::MAX_DEST_RD_ATOMIC
            | M::MIN_RNR_TIMER;
        me.qp.modify(&attr, mask).unwrap();
        let attr = QpAttr {
            state: QpState::Rts,
            sq_psn: Psn::new(0xff_fff0),
            timeout: 14,
            retry_cnt: 7,
            rnr_retry: 7,
            max_rd_atomic: 1,
            ..QpAttr::default()
        };
        let mask =
            M::STATE | M::SQ_PSN | M::TIMEOUT | M::RETRY_CNT | M::RNR_RETRY | M::MAX_QP_RD_ATOMIC;
        me.qp.modify(&attr, mask).unwrap();
    }
}

fn wait(cq: &Cq) -> Completion {
    let end = Instant::now() + Duration::from_secs(5);
    loop {
        let mut got = None;
        if cq.poll(1, |entry| got = Some(entry.completion)).unwrap() == 1 {
            return got.unwrap();
        }
        assert!(Instant::now() < end, "no completion");
    }
}

fn request<'a>(wr_id: u64, opcode: SendOpcode, sges: &'a [Sge], remote: &Side) -> SendRequest<'a> {
    SendRequest {
        wr_id,
        opcode,
        flags: SendFlags::SIGNALED,
        sges,
        imm_or_key: 0,
        remote_addr: remote.mr.extent().0,
        rkey: remote.mr.key(),
        compare_add: 0,
        swap: 0,
        ah: None,
        remote_qpn: 0,
        remote_qkey: 0,
        srqn: 0,
        bind: None,
    }
}

#[test]
fn messages_of_all_lengths_arrive_whole_and_in_order() {
    let ctx = Context::open(0).unwrap();
    let len = 2 << 20;
    let mut a = side(&ctx, QpType::Rc, len);
    let b = side(&ctx, QpType::Rc, len);
    connect(&a, &b, ctx.query_port(1).unwrap().lid);
    for (round, n) in [0usize, 1, 8, 9, 64, 4096, 8192, 8193, 100_000, 2 << 20]
        .into_iter()
        .enumerate()
    {
        let fill = round as u8 + 1;
        a.buf[..n].fill(fill);
        let to = [Sge {
            addr: b.mr.extent().0,
            length: len as u32,
            lkey: b.mr.key(),
        }];
        b.qp.post_recv(round as u64, &to).unwrap();
        let from = [Sge {
            addr: a.mr.extent().0,
            length: n as u32,
            lkey: a.mr.key(),
        }];
        a.qp.post_send(&request(100, SendOpcode::Send, &from, &b))
            .unwrap();
        let got = wait(&b.cq);
        assert_eq!(
            (got.wr_id, got.status, got.byte_len),
            (round as u64, WcStatus::Success, n as u32)
        );
        let sent = wait(&a.cq);
        assert_eq!((sent.wr_id, sent.status), (100, WcStatus::Success));
        assert!(b.buf[..n].iter().all(|byte| *byte == fill), "length {n}");
    }
}

#[test]
fn writes_reads_and_atomics_reach_the_peers_memory() {
    let ctx = Context::open(0).unwrap();
    let mut a = side(&ctx, QpType::Rc, 1 << 20);
    let b = side(&ctx, QpType::Rc, 1 << 20);
    connect(&a, &b, ctx.query_port(1).unwrap().lid);
    a.buf[..1 << 20].fill(7);
    let all = [Sge {
        addr: a.mr.extent().0,
        length: 1 << 20,
        lkey: a.mr.key(),
    }];
    a.qp.post_send(&request(1, SendOpcode::RdmaWrite, &all, &b))
        .unwrap();
    assert_eq!(wait(&a.cq).status, WcStatus::Success);
    assert!(b.buf.iter().all(|byte| *byte == 7));
    a.buf.fill(0);
    a.qp.post_send(&request(2, SendOpcode::RdmaRead, &all, &b))
        .unwrap();
    assert_eq!(wait(&a.cq).status, WcStatus::Success);
    assert!(a.buf.iter().all(|byte| *byte == 7));
    let word = [Sge {
        length: 8,
        ..all[0]
    }];
    let add = SendRequest {
        compare_add: 1,
        ..request(3, SendOpcode::FetchAdd, &word, &b)
    };
    a.qp.post_send(&add).unwrap();
    assert_eq!(wait(&a.cq).status, WcStatus::Success);
    assert_eq!(a.buf[..8], [7; 8]);
    assert_eq!(b.buf[0], 8);
}

#[test]
fn a_wrong_key_ends_the_connection_with_remote_access_error_and_flushes() {
    let ctx = Context::open(0).unwrap();
    let a = side(&ctx, QpType::Rc, 4096);
    let b = side(&ctx, QpType::Rc, 4096);
    connect(&a, &b, ctx.query_port(1).unwrap().lid);
    let word = [Sge {
        addr: a.mr.extent().0,
        length: 8,
        lkey: a.mr.key(),
    }];
    let wrong = SendRequest {
        rkey: b.mr.key() ^ 1,
        ..request(1, SendOpcode::RdmaWrite, &word, &b)
    };
    a.qp.post_send(&wrong).unwrap();
    assert_eq!(wait(&a.cq).status, WcStatus::RemAccessErr);
    assert_eq!(a.qp.state(), QpState::Err);
    a.qp.post_send(&request(2, SendOpcode::RdmaWrite, &word, &b))
        .unwrap();
    assert_eq!(wait(&a.cq).status, WcStatus::WrFlushErr);
    assert!(a.pd.dealloc().is_err(), "the domain is in use");
}
