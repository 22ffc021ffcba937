//! What posting and polling cost within one process, where no other process and no memory but our
//! own is involved: `cargo run --release -p ferriband-hca --example overhead`.

use std::sync::Arc;
use std::time::Instant;

use ferriband_hca::*;
use ferriband_transport::types::*;
use ferriband_wire::*;

/// One end of the connection. Domain and buffer are only kept alive.
struct Side {
    _pd: Arc<Pd>,
    cq: Arc<Cq>,
    qp: Arc<Qp>,
    mr: Arc<Mr>,
    _buf: Vec<u8>,
}

fn side(ctx: &Arc<Context>, qp_type: QpType, len: usize) -> Side {
    let pd = ctx.alloc_pd().expect("a device that opens has domains");
    let cq = ctx
        .create_cq(CqInit {
            cqe: 256,
            ..CqInit::default()
        })
        .expect("256 entries are below the limit");
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
        .expect("the capacities are below the limits");
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
        .expect("a region over our own buffer");
    Side {
        _pd: pd,
        cq,
        qp,
        mr,
        _buf: buf,
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
            .expect("a legal transition with all attributes");
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
        me.qp
            .modify(&attr, mask)
            .expect("a legal transition with all attributes");
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
        me.qp
            .modify(&attr, mask)
            .expect("a legal transition with all attributes");
    }
}

/// Polls before a completion is given up: a clock would cost more than what is measured.
const MAX_POLLS: u32 = 1 << 30;

fn wait(cq: &Cq) -> Completion {
    for _ in 0..MAX_POLLS {
        let mut got = None;
        cq.poll(1, |entry| got = Some(entry.completion))
            .expect("the queue cannot overrun: one request at a time");
        if let Some(completion) = got {
            return completion;
        }
    }
    panic!("no completion");
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

/// Prints the mean of many rounds.
fn time(what: &str, mut round: impl FnMut()) {
    const ROUNDS: u32 = 2_000_000;
    let begun = Instant::now();
    for _ in 0..ROUNDS {
        round();
    }
    println!(
        "{what}: {:.1} ns",
        begun.elapsed().as_nanos() as f64 / f64::from(ROUNDS)
    );
}

fn main() {
    let ctx = Context::open(0).expect("ferri0 opens");
    let a = side(&ctx, QpType::Rc, 1 << 20);
    let b = side(&ctx, QpType::Rc, 1 << 20);
    connect(&a, &b, ctx.query_port(1).expect("port 1 is there").lid);
    let word = [Sge {
        addr: a.mr.extent().0,
        length: 8,
        lkey: a.mr.key(),
    }];
    let room = [Sge {
        addr: b.mr.extent().0,
        length: 8,
        lkey: b.mr.key(),
    }];
    let write = request(1, SendOpcode::RdmaWrite, &word, &b);
    let send = request(1, SendOpcode::Send, &word, &b);
    for _ in 0..3 {
        time("write 8 B: post, poll", || {
            a.qp.post_send(&write).expect("the queue has room");
            wait(&a.cq);
        });
        time("send 8 B: post_recv, post, poll, poll", || {
            b.qp.post_recv(1, &room).expect("the queue has room");
            a.qp.post_send(&send).expect("the queue has room");
            wait(&b.cq);
            wait(&a.cq);
        });
    }
}
