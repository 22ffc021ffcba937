//! Endpoints: a queue pair with all that it needs, what is asked of it, and what it got.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ferriband_hca::*;
use ferriband_transport::types::*;
use ferriband_wire::*;

use super::PATIENCE;
use super::memory::{Kind, Memory};

/// All rights.
pub const ALL: u32 = 0xf;

/// How to make an endpoint: a queue pair with a completion queue, a region and a domain of its own.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    pub service: QpType,
    pub memory: Kind,
    pub len: usize,
    pub mr_access: u32,
    pub qp_access: u32,
    pub send_wr: u32,
    pub recv_wr: u32,
    pub sge: u32,
    pub inline: u32,
    pub cqe: u32,
    pub timeout: u8,
    pub retry: u8,
    pub rnr_retry: u8,
    pub min_rnr: u8,
    /// Completions raise events on a channel.
    pub events: bool,
}

impl Default for Setup {
    fn default() -> Self {
        Setup {
            service: QpType::Rc,
            memory: Kind::Private,
            len: 64 << 10,
            mr_access: ALL,
            qp_access: ALL,
            send_wr: 64,
            recv_wr: 64,
            sge: 4,
            inline: 64,
            cqe: 256,
            // 4.096 us << 10 is 4.2 ms: with one retry the floor of 20 ms counts
            timeout: 10,
            retry: 1,
            rnr_retry: 7,
            min_rnr: 1,
            events: false,
        }
    }
}

impl Setup {
    pub fn words(&self) -> Vec<u64> {
        let service = self.service as u64;
        let memory = self.memory as u64;
        let counts = [
            self.mr_access,
            self.qp_access,
            self.send_wr,
            self.recv_wr,
            self.sge,
            self.inline,
            self.cqe,
        ];
        let codes = [
            self.timeout,
            self.retry,
            self.rnr_retry,
            self.min_rnr,
            u8::from(self.events),
        ];
        let mut words = vec![service, memory, self.len as u64];
        words.extend(counts.map(u64::from));
        words.extend(codes.map(u64::from));
        words
    }

    pub fn parse(w: &[u64]) -> Self {
        let service = match w[0] {
            2 => QpType::Rc,
            3 => QpType::Uc,
            _ => QpType::Ud,
        };
        Setup {
            service,
            memory: Kind::from_word(w[1]),
            len: w[2] as usize,
            mr_access: w[3] as u32,
            qp_access: w[4] as u32,
            send_wr: w[5] as u32,
            recv_wr: w[6] as u32,
            sge: w[7] as u32,
            inline: w[8] as u32,
            cqe: w[9] as u32,
            timeout: w[10] as u8,
            retry: w[11] as u8,
            rnr_retry: w[12] as u8,
            min_rnr: w[13] as u8,
            events: w[14] != 0,
        }
    }
}

/// A reliable connection of 2 MiB at each end, with timers that no load of the machine sets off.
pub const PATIENT: Setup = Setup {
    service: QpType::Rc,
    memory: Kind::Private,
    len: 2 << 20,
    mr_access: ALL,
    qp_access: ALL,
    send_wr: 64,
    recv_wr: 64,
    sge: 4,
    inline: 64,
    cqe: 256,
    timeout: 18,
    retry: 7,
    rnr_retry: 7,
    min_rnr: 1,
    events: false,
};

/// What the other side needs to know of an endpoint.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Info {
    pub at: usize,
    pub qpn: u32,
    /// Remote address of the region's first byte, and its key.
    pub addr: u64,
    pub key: u32,
    pub lid: u16,
}

/// A request as tests write it. The local range lies in the endpoint's region.
#[derive(Clone, Copy, Debug)]
pub struct Ask {
    pub wr_id: u64,
    pub op: u32,
    pub flags: u32,
    pub from: usize,
    pub len: u32,
    /// Replaces the region's key.
    pub lkey: Option<u32>,
    pub addr: u64,
    pub key: u32,
    pub add: u64,
    pub swap: u64,
    pub imm: u32,
    /// So many elements, all alike.
    pub elements: u32,
}

impl Ask {
    /// An operation on the first `len` bytes of both sides' regions, signaled.
    pub fn new(op: SendOpcode, len: u32, peer: &Info) -> Self {
        Ask {
            wr_id: 1,
            op: op as u32,
            flags: SendFlags::SIGNALED.bits(),
            from: 0,
            len,
            lkey: None,
            addr: peer.addr,
            key: peer.key,
            add: 1,
            swap: 0,
            imm: 0,
            elements: 1,
        }
    }

    pub fn id(self, wr_id: u64) -> Self {
        Ask { wr_id, ..self }
    }

    pub fn words(&self) -> Vec<u64> {
        vec![
            self.wr_id,
            u64::from(self.op),
            u64::from(self.flags),
            self.from as u64,
            u64::from(self.len),
            self.lkey.map_or(u64::MAX, u64::from),
            self.addr,
            u64::from(self.key),
            self.add,
            self.swap,
            u64::from(self.imm),
            u64::from(self.elements),
        ]
    }

    pub fn parse(w: &[u64]) -> Self {
        Ask {
            wr_id: w[0],
            op: w[1] as u32,
            flags: w[2] as u32,
            from: w[3] as usize,
            len: w[4] as u32,
            lkey: (w[5] != u64::MAX).then_some(w[5] as u32),
            addr: w[6],
            key: w[7] as u32,
            add: w[8],
            swap: w[9],
            imm: w[10] as u32,
            elements: w[11] as u32,
        }
    }
}

/// A completion as tests look at it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Got {
    pub wr_id: u64,
    pub status: u32,
    pub opcode: u32,
    pub len: u32,
    pub imm: u32,
}

impl Got {
    pub fn of(completion: &Completion) -> Self {
        Got {
            wr_id: completion.wr_id,
            status: completion.status as u32,
            opcode: completion.opcode as u32,
            len: completion.byte_len,
            imm: completion.imm_or_rkey,
        }
    }
}

/// An endpoint of this process.
#[derive(Debug)]
pub struct Endpoint {
    pub setup: Setup,
    pub ctx: Arc<Context>,
    pub pd: Arc<Pd>,
    pub channel: Option<Arc<CompChannel>>,
    /// Completion queue of sends, and of receives unless they have their own.
    pub cq: Arc<Cq>,
    pub recv_cq: Arc<Cq>,
    pub qp: Arc<Qp>,
    pub mr: Arc<Mr>,
    pub dm: Option<Arc<DeviceMemory>>,
    pub memory: Memory,
}

impl Endpoint {
    pub fn new(ctx: &Arc<Context>, setup: Setup) -> Result<Self, Error> {
        let pd = ctx.alloc_pd()?;
        let channel = if setup.events {
            Some(ctx.create_comp_channel()?)
        } else {
            None
        };
        let init = CqInit {
            cqe: setup.cqe,
            channel: channel.clone(),
            ..CqInit::default()
        };
        let cq = ctx.create_cq(init)?;
        Self::with(ctx, setup, pd, channel, cq.clone(), cq)
    }

    /// One that shares its domain and completion queues (of sends, of receives) with others.
    pub fn with(
        ctx: &Arc<Context>,
        setup: Setup,
        pd: Arc<Pd>,
        channel: Option<Arc<CompChannel>>,
        cq: Arc<Cq>,
        recv_cq: Arc<Cq>,
    ) -> Result<Self, Error> {
        let cap = QpCap {
            max_send_wr: setup.send_wr,
            max_recv_wr: setup.recv_wr,
            max_send_sge: setup.sge,
            max_recv_sge: setup.sge,
            max_inline_data: setup.inline,
        };
        let qp = pd.create_qp(QpInit {
            qp_type: setup.service,
            send_cq: Some(cq.clone()),
            recv_cq: Some(recv_cq.clone()),
            srq: None,
            xrcd: None,
            cap,
            signal_all: false,
        })?;
        let access = Access::from_bits_retain(setup.mr_access);
        let (memory, mr, dm) = if setup.memory == Kind::Device {
            let dm = ctx.alloc_dm(setup.len as u64)?;
            let mr = pd.reg_dm_mr(&dm, 0, setup.len as u64, access)?;
            (Memory::foreign(dm.addr(), setup.len), mr, Some(dm))
        } else {
            let memory = Memory::new(setup.memory, setup.len);
            let addr = memory.addr();
            let mr = pd.reg_mr(MrInit {
                addr,
                length: setup.len as u64,
                iova: addr,
                access,
            })?;
            (memory, mr, None)
        };
        Ok(Endpoint {
            setup,
            ctx: ctx.clone(),
            pd,
            channel,
            cq,
            recv_cq,
            qp,
            mr,
            dm,
            memory,
        })
    }

    /// Address by which requests name the region's first byte.
    pub fn base(&self) -> u64 {
        if self.dm.is_some() {
            0
        } else {
            self.memory.addr()
        }
    }

    pub fn info(&self, at: usize) -> Info {
        let lid = self.ctx.query_port(1).unwrap().lid.0;
        Info {
            at,
            qpn: self.qp.qpn,
            addr: self.base(),
            key: self.mr.key(),
            lid,
        }
    }

    /// To RTS, connected to a queue pair (or just ready, for datagrams).
    pub fn connect(&self, qpn: u32, lid: u16) -> Result<(), Error> {
        self.to_init()?;
        self.to_rtr(qpn, lid)?;
        self.to_rts()
    }

    pub fn to_init(&self) -> Result<(), Error> {
        use QpAttrMask as M;
        let access = Access::from_bits_retain(self.setup.qp_access);
        let attr = QpAttr {
            state: QpState::Init,
            port_num: 1,
            access,
            qkey: QKey(0x11),
            ..QpAttr::default()
        };
        let mask = M::STATE | M::PKEY_INDEX | M::PORT;
        let last = if self.setup.service == QpType::Ud {
            M::QKEY
        } else {
            M::ACCESS_FLAGS
        };
        self.qp.modify(&attr, mask | last)
    }

    /// The way to another endpoint of this host.
    pub fn path(&self, lid: u16) -> AddressVector {
        path(&self.ctx, lid)
    }

    pub fn to_rtr(&self, qpn: u32, lid: u16) -> Result<(), Error> {
        use QpAttrMask as M;
        let av = self.path(lid);
        let attr = QpAttr {
            state: QpState::Rtr,
            av,
            path_mtu: Mtu::M1024,
            dest_qpn: Qpn(qpn),
            rq_psn: Psn::new(0xff_fff0),
            max_dest_rd_atomic: 4,
            min_rnr_timer: self.setup.min_rnr,
            ..QpAttr::default()
        };
        let connected = M::AV | M::PATH_MTU | M::DEST_QPN | M::RQ_PSN;
        let mask = match self.setup.service {
            QpType::Ud => M::empty(),
            QpType::Uc => connected,
            _ => connected | M::MAX_DEST_RD_ATOMIC | M::MIN_RNR_TIMER,
        };
        self.qp.modify(&attr, M::STATE | mask)
    }

    pub fn to_rts(&self) -> Result<(), Error> {
        use QpAttrMask as M;
        let attr = QpAttr {
            state: QpState::Rts,
            sq_psn: Psn::new(0xff_fff0),
            timeout: self.setup.timeout,
            retry_cnt: self.setup.retry,
            rnr_retry: self.setup.rnr_retry,
            max_rd_atomic: 4,
            ..QpAttr::default()
        };
        let mask = match self.setup.service {
            QpType::Rc => M::TIMEOUT | M::RETRY_CNT | M::RNR_RETRY | M::MAX_QP_RD_ATOMIC,
            _ => M::empty(),
        };
        self.qp.modify(&attr, M::STATE | M::SQ_PSN | mask)
    }

    pub fn set_state(&self, state: QpState) -> Result<(), Error> {
        self.qp.modify(
            &QpAttr {
                state,
                ..QpAttr::default()
            },
            QpAttrMask::STATE,
        )
    }

    pub fn post(&self, ask: &Ask) -> Result<(), Error> {
        let lkey = ask.lkey.unwrap_or(self.mr.key());
        // inline data is named by process addresses
        let inline = ask.flags & SendFlags::INLINE.bits() != 0;
        let base = if inline {
            self.memory.addr()
        } else {
            self.base()
        };
        let sge = Sge {
            addr: base.wrapping_add(ask.from as u64),
            length: ask.len,
            lkey,
        };
        let sges = vec![sge; ask.elements as usize];
        self.qp.post_send(&SendRequest {
            wr_id: ask.wr_id,
            opcode: SendOpcode::from_verbs(ask.op).unwrap(),
            flags: SendFlags::from_bits_retain(ask.flags),
            sges: &sges,
            imm_or_key: ask.imm,
            remote_addr: ask.addr,
            rkey: ask.key,
            compare_add: ask.add,
            swap: ask.swap,
            ah: None,
            remote_qpn: 0,
            remote_qkey: 0,
            srqn: 0,
            bind: None,
        })
    }

    pub fn recv(&self, wr_id: u64, from: usize, len: u32, lkey: Option<u32>) -> Result<(), Error> {
        let addr = self.base() + from as u64;
        self.qp.post_recv(
            wr_id,
            &[Sge {
                addr,
                length: len,
                lkey: lkey.unwrap_or(self.mr.key()),
            }],
        )
    }

    pub fn poll(&self) -> Option<Got> {
        let mut got = None;
        self.cq
            .poll(1, |entry| got = Some(Got::of(&entry.completion)))
            .ok()?;
        got
    }

    /// The next completion, if it comes within `limit`.
    pub fn wait_for(&self, limit: Duration) -> Option<Got> {
        let end = Instant::now() + limit;
        loop {
            if let Some(got) = self.poll() {
                return Some(got);
            }
            if Instant::now() >= end {
                return None;
            }
        }
    }

    #[track_caller]
    pub fn wait(&self) -> Got {
        self.wait_for(PATIENCE).expect("a completion")
    }

    /// Ends everything in order; each step has to succeed.
    pub fn close(self) {
        self.qp.destroy().unwrap();
        self.cq.destroy().unwrap();
        self.mr.deregister().unwrap();
        if let Some(dm) = &self.dm {
            dm.free().unwrap();
        }
        if let Some(channel) = &self.channel {
            channel.destroy().unwrap();
        }
        self.pd.dealloc().unwrap();
    }
}

impl Drop for Endpoint {
    /// Its memory goes now; what packets it would still send from there, again and again, must not be.
    fn drop(&mut self) {
        if self.qp.packet_counters().is_some() {
            // refused only where the device has failed
            let _ = self.set_state(QpState::Err);
        }
    }
}

/// When it is `6` in the environment, packets go over IPv6.
pub const FAMILY: &str = "FERRIBAND_HCA_TEST_FAMILY";

/// True where a test runs over IPv6.
pub fn over_ipv6() -> bool {
    std::env::var_os(FAMILY).is_some_and(|family| family == "6")
}

/// Entry of the first GID that packets of this test have, if there is one: IPv6 may be switched off.
pub fn own_gid(ctx: &OpenDevice) -> Option<u32> {
    if !over_ipv6() {
        return Some(0);
    }
    let loopback = std::net::Ipv6Addr::LOCALHOST.octets();
    (0..ctx.query_port(1).unwrap().gid_table).find(|index| {
        ctx.query_gid(1, *index)
            .is_ok_and(|entry| entry.gid.0 == loopback)
    })
}

/// The way to a queue pair of this host: by LID, or by the device's own address where there are none.
pub fn path(ctx: &OpenDevice, lid: u16) -> AddressVector {
    let port = ctx.query_port(1).unwrap();
    if port.link_layer == LinkLayer::InfiniBand {
        return AddressVector {
            dlid: Lid(lid),
            port_num: 1,
            ..AddressVector::default()
        };
    }
    let index = own_gid(ctx).expect("an address of this family");
    AddressVector {
        is_global: true,
        dgid: ctx.query_gid(1, index).unwrap().gid,
        sgid_index: index as u8,
        hop_limit: 64,
        port_num: 1,
        ..AddressVector::default()
    }
}

/// Connects two endpoints of this process.
pub fn join(a: &Endpoint, b: &Endpoint) {
    let lid = a.ctx.query_port(1).unwrap().lid.0;
    a.connect(b.qp.qpn, lid).unwrap();
    b.connect(a.qp.qpn, lid).unwrap();
}

/// What became of a stream of requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Flow {
    /// Requests that succeeded.
    pub done: u64,
    /// Status of the first that did not.
    pub status: Option<u32>,
    /// Requests behind it, all of which flushed.
    pub flushed: u64,
}

/// Keeps `window` requests like `ask` under way until one fails or the time is over; then waits for all of them. Every
/// request completes exactly once, in order, and what follows a failure is flushed.
pub fn stream(
    end: &Endpoint,
    ask: &Ask,
    window: usize,
    limit: Duration,
    mut meanwhile: impl FnMut(),
) -> Flow {
    let stop = Instant::now() + limit;
    let (mut posted, mut seen) = (0, 0);
    let mut flow = Flow {
        done: 0,
        status: None,
        flushed: 0,
    };
    loop {
        let go_on = flow.status.is_none() && Instant::now() < stop;
        while go_on && posted - seen < window as u64 {
            end.post(&ask.id(posted)).unwrap();
            posted += 1;
        }
        if posted == seen {
            return flow;
        }
        meanwhile();
        let Some(got) = end.poll() else {
            assert!(
                Instant::now() < stop + PATIENCE,
                "{posted} requests, {seen} completions"
            );
            continue;
        };
        assert_eq!(got.wr_id, seen, "in order");
        seen += 1;
        match (flow.status, got.status) {
            (None, 0) => flow.done += 1,
            (None, status) => flow.status = Some(status),
            (Some(_), status) => {
                assert_eq!(status, WcStatus::WrFlushErr as u32);
                flow.flushed += 1;
            }
        }
    }
}
