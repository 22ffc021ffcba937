//! Parties: this process or another one, each with queue pairs that obey the same commands.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ferriband_hca::*;
use ferriband_transport::types::*;
use ferriband_wire::*;

use super::PATIENCE;
use super::memory::{Kind, Memory};
use super::process::{Channel, Child};

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
    fn words(&self) -> Vec<u64> {
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

    fn parse(w: &[u64]) -> Self {
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

    fn words(&self) -> Vec<u64> {
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

    fn parse(w: &[u64]) -> Self {
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

    pub fn to_rtr(&self, qpn: u32, lid: u16) -> Result<(), Error> {
        use QpAttrMask as M;
        let av = AddressVector {
            dlid: Lid(lid),
            port_num: 1,
            ..AddressVector::default()
        };
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

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u64)]
enum Cmd {
    New,
    Connect,
    Post,
    Recv,
    Wait,
    Quiet,
    Fill,
    Extremes,
    Dereg,
    Reuse,
    SetState,
    State,
    Destroy,
    Event,
    OtherKey,
    NotDumpable,
    SpinPolls,
    Stream,
}

impl Cmd {
    fn of(word: u64) -> Self {
        use Cmd::*;
        let all = [
            New,
            Connect,
            Post,
            Recv,
            Wait,
            Quiet,
            Fill,
            Extremes,
            Dereg,
            Reuse,
            SetState,
            State,
            Destroy,
            Event,
            OtherKey,
            NotDumpable,
            SpinPolls,
            Stream,
        ];
        all[word as usize]
    }
}

/// Obeys commands with queue pairs of this process.
pub struct Agent {
    ctx: Arc<Context>,
    ends: Vec<Option<Endpoint>>,
    /// Further regions, by endpoint.
    others: Vec<(usize, Arc<Mr>)>,
}

fn errno(result: Result<(), Error>) -> Vec<u64> {
    vec![result.map_or_else(|error| error.errno() as u64, |()| 0)]
}

fn words_of(got: Option<Got>) -> Vec<u64> {
    got.map_or(Vec::new(), |got| {
        vec![
            got.wr_id,
            u64::from(got.status),
            u64::from(got.opcode),
            u64::from(got.len),
            u64::from(got.imm),
        ]
    })
}

impl Agent {
    pub fn new() -> Self {
        Agent {
            ctx: Context::open(0).unwrap(),
            ends: Vec::new(),
            others: Vec::new(),
        }
    }

    pub fn end(&self, at: usize) -> &Endpoint {
        self.ends[at].as_ref().unwrap()
    }

    fn call(&mut self, words: &[u64]) -> Vec<u64> {
        let (cmd, args) = (Cmd::of(words[0]), &words[1..]);
        if cmd == Cmd::New {
            let end = Endpoint::new(&self.ctx, Setup::parse(args)).unwrap();
            let info = end.info(self.ends.len());
            self.ends.push(Some(end));
            return vec![
                info.at as u64,
                u64::from(info.qpn),
                info.addr,
                u64::from(info.key),
                u64::from(info.lid),
            ];
        }
        if cmd == Cmd::NotDumpable {
            // SAFETY: a flag of this process.
            return vec![unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 0) } as u64];
        }
        let at = args[0] as usize;
        let args = &args[1..];
        if cmd == Cmd::Destroy {
            for (_, mr) in self.others.extract_if(.., |(of, _)| *of == at) {
                mr.deregister().unwrap();
            }
            self.ends[at].take().unwrap().close();
            return vec![];
        }
        let end = self.ends[at].as_ref().unwrap();
        match cmd {
            Cmd::Connect => errno(end.connect(args[0] as u32, args[1] as u16)),
            Cmd::Post => errno(end.post(&Ask::parse(args))),
            Cmd::Recv => {
                let key = (args[3] != u64::MAX).then_some(args[3] as u32);
                errno(end.recv(args[0], args[1] as usize, args[2] as u32, key))
            }
            Cmd::Wait => words_of(end.wait_for(Duration::from_millis(args[0]))),
            Cmd::Quiet => words_of(end.poll()),
            Cmd::Fill => {
                end.memory
                    .fill(args[0] as usize, args[1] as usize, args[2] as u8);
                vec![]
            }
            Cmd::Extremes => {
                let (low, high) = end.memory.extremes(args[0] as usize, args[1] as usize);
                vec![u64::from(low), u64::from(high)]
            }
            Cmd::Dereg => errno(end.mr.deregister()),
            Cmd::Reuse => {
                end.memory.reuse();
                vec![]
            }
            Cmd::SetState => errno(end.set_state(state(args[0]))),
            Cmd::State => vec![end.qp.state() as u64],
            Cmd::Event => vec![self.next_event(Duration::from_millis(args[0]))],
            Cmd::OtherKey => {
                let init = MrInit {
                    addr: end.memory.addr(),
                    length: end.memory.len() as u64,
                    iova: args[1],
                    access: Access::from_bits_retain(args[0] as u32),
                };
                let pd = if args[2] != 0 {
                    self.ctx.alloc_pd().unwrap()
                } else {
                    end.pd.clone()
                };
                let mr = pd.reg_mr(init).unwrap();
                let key = mr.key();
                self.others.push((at, mr));
                vec![u64::from(key)]
            }
            Cmd::SpinPolls => {
                let stop = Instant::now() + Duration::from_millis(args[0]);
                while Instant::now() < stop {
                    assert_eq!(end.poll(), None, "nothing was to complete");
                }
                vec![]
            }
            Cmd::Stream => {
                let limit = Duration::from_millis(args[0]);
                let flow = stream(end, &Ask::parse(&args[2..]), args[1] as usize, limit, || ());
                vec![
                    flow.done,
                    flow.status.map_or(u64::MAX, u64::from),
                    flow.flushed,
                ]
            }
            Cmd::New | Cmd::NotDumpable | Cmd::Destroy => unreachable!(),
        }
    }

    fn next_event(&self, limit: Duration) -> u64 {
        let mut poll = libc::pollfd {
            fd: self.ctx.async_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        // SAFETY: one entry, ours.
        match unsafe { libc::poll(&mut poll, 1, limit.as_millis() as i32) } {
            1 => self.ctx.next_async_event().unwrap().kind as u64,
            _ => u64::MAX,
        }
    }

    /// Obeys until the other side closes.
    pub fn serve(mut self, channel: Channel) {
        while let Some(words) = channel.try_recv() {
            channel.send(&self.call(&words));
        }
    }
}

/// The role of a process that obeys.
pub fn obey(channel: Channel) {
    Agent::new().serve(channel);
}

fn state(word: u64) -> QpState {
    use QpState::*;
    [Reset, Init, Rtr, Rts, Sqd, Sqe, Err][word as usize]
}

/// Where an endpoint's owner runs.
pub enum Party {
    Here(Agent),
    There(Child),
}

impl Party {
    pub fn here() -> Self {
        Party::Here(Agent::new())
    }

    /// Another process; its binary must know the role "obey".
    pub fn there() -> Self {
        Party::There(Child::spawn("obey"))
    }

    pub fn child(&mut self) -> &mut Child {
        match self {
            Party::There(child) => child,
            Party::Here(_) => panic!("not another process"),
        }
    }

    pub fn agent(&self) -> &Agent {
        match self {
            Party::Here(agent) => agent,
            Party::There(_) => panic!("another process"),
        }
    }

    #[track_caller]
    fn call(&mut self, cmd: Cmd, args: &[u64]) -> Vec<u64> {
        let mut words = vec![cmd as u64];
        words.extend(args);
        match self {
            Party::Here(agent) => agent.call(&words),
            Party::There(child) => {
                child.channel.send(&words);
                child.channel.recv()
            }
        }
    }

    #[track_caller]
    pub fn make(&mut self, setup: Setup) -> Info {
        let w = self.call(Cmd::New, &setup.words());
        Info {
            at: w[0] as usize,
            qpn: w[1] as u32,
            addr: w[2],
            key: w[3] as u32,
            lid: w[4] as u16,
        }
    }

    #[track_caller]
    pub fn connect(&mut self, end: &Info, to: &Info) {
        let errno = self.call(
            Cmd::Connect,
            &[end.at as u64, u64::from(to.qpn), u64::from(to.lid)],
        );
        assert_eq!(errno, [0]);
    }

    /// Posts; the errno.
    #[track_caller]
    pub fn try_post(&mut self, end: &Info, ask: &Ask) -> i32 {
        let mut words = vec![end.at as u64];
        words.extend(ask.words());
        self.call(Cmd::Post, &words)[0] as i32
    }

    #[track_caller]
    pub fn post(&mut self, end: &Info, ask: &Ask) {
        assert_eq!(self.try_post(end, ask), 0, "errno of post_send");
    }

    #[track_caller]
    pub fn try_recv(
        &mut self,
        end: &Info,
        wr_id: u64,
        from: usize,
        len: u32,
        key: Option<u32>,
    ) -> i32 {
        let key = key.map_or(u64::MAX, u64::from);
        self.call(
            Cmd::Recv,
            &[end.at as u64, wr_id, from as u64, u64::from(len), key],
        )[0] as i32
    }

    #[track_caller]
    pub fn recv(&mut self, end: &Info, wr_id: u64, from: usize, len: u32) {
        assert_eq!(
            self.try_recv(end, wr_id, from, len, None),
            0,
            "errno of post_recv"
        );
    }

    #[track_caller]
    pub fn wait_for(&mut self, end: &Info, limit: Duration) -> Option<Got> {
        let w = self.call(Cmd::Wait, &[end.at as u64, limit.as_millis() as u64]);
        (!w.is_empty()).then(|| Got {
            wr_id: w[0],
            status: w[1] as u32,
            opcode: w[2] as u32,
            len: w[3] as u32,
            imm: w[4] as u32,
        })
    }

    #[track_caller]
    pub fn wait(&mut self, end: &Info) -> Got {
        self.wait_for(end, PATIENCE).expect("a completion")
    }

    /// The next completion has to be this.
    #[track_caller]
    pub fn expect(&mut self, end: &Info, wr_id: u64, status: WcStatus) {
        let got = self.wait(end);
        assert_eq!(
            (got.wr_id, got.status),
            (wr_id, status as u32),
            "wr_id and status"
        );
    }

    /// No completion comes for a while.
    #[track_caller]
    pub fn expect_quiet(&mut self, end: &Info, for_ms: u64) {
        assert_eq!(self.wait_for(end, Duration::from_millis(for_ms)), None);
    }

    pub fn fill(&mut self, end: &Info, from: usize, len: usize, value: u8) {
        self.call(
            Cmd::Fill,
            &[end.at as u64, from as u64, len as u64, u64::from(value)],
        );
    }

    /// Smallest and largest byte of a range.
    pub fn extremes(&mut self, end: &Info, from: usize, len: usize) -> (u8, u8) {
        let w = self.call(Cmd::Extremes, &[end.at as u64, from as u64, len as u64]);
        (w[0] as u8, w[1] as u8)
    }

    #[track_caller]
    pub fn expect_bytes(&mut self, end: &Info, from: usize, len: usize, value: u8) {
        assert_eq!(self.extremes(end, from, len), (value, value));
    }

    /// Deregisters the endpoint's region; the errno.
    pub fn deregister(&mut self, end: &Info) -> i32 {
        self.call(Cmd::Dereg, &[end.at as u64])[0] as i32
    }

    pub fn reuse_memory(&mut self, end: &Info) {
        self.call(Cmd::Reuse, &[end.at as u64]);
    }

    /// Changes the state alone; the errno.
    pub fn set_state(&mut self, end: &Info, state: QpState) -> i32 {
        self.call(Cmd::SetState, &[end.at as u64, state as u64])[0] as i32
    }

    pub fn state(&mut self, end: &Info) -> QpState {
        state(self.call(Cmd::State, &[end.at as u64])[0])
    }

    pub fn destroy(&mut self, end: &Info) {
        self.call(Cmd::Destroy, &[end.at as u64]);
    }

    /// The next asynchronous event's number, if one comes in time.
    pub fn event(&mut self, end: &Info, limit_ms: u64) -> Option<u64> {
        let kind = self.call(Cmd::Event, &[end.at as u64, limit_ms])[0];
        (kind != u64::MAX).then_some(kind)
    }

    /// Registers the endpoint's memory again, with these rights at this I/O address, perhaps in another domain.
    pub fn other_key(&mut self, end: &Info, access: u32, iova: u64, other_pd: bool) -> u32 {
        self.call(
            Cmd::OtherKey,
            &[end.at as u64, u64::from(access), iova, u64::from(other_pd)],
        )[0] as u32
    }

    /// Forbids others to reach this process's memory.
    pub fn not_dumpable(&mut self) {
        assert_eq!(self.call(Cmd::NotDumpable, &[]), [0]);
    }

    /// Has another process send a stream of requests (see [`stream`]) while this one goes on.
    pub fn start_stream(&mut self, end: &Info, ask: &Ask, window: usize, limit: Duration) {
        let mut words = vec![
            Cmd::Stream as u64,
            end.at as u64,
            limit.as_millis() as u64,
            window as u64,
        ];
        words.extend(ask.words());
        self.child().channel.send(&words);
    }

    /// What became of the stream.
    pub fn end_stream(&mut self) -> Flow {
        let w = self.child().channel.recv();
        Flow {
            done: w[0],
            status: (w[1] != u64::MAX).then_some(w[1] as u32),
            flushed: w[2],
        }
    }

    /// Polls without a pause for a while; nothing may complete.
    pub fn spin(&mut self, end: &Info, for_ms: u64) {
        self.call(Cmd::SpinPolls, &[end.at as u64, for_ms]);
    }
}

/// Two parties with a connected pair of endpoints.
pub struct Pair {
    pub a: Party,
    pub b: Party,
    pub ai: Info,
    pub bi: Info,
}

impl Pair {
    pub fn new(mut a: Party, mut b: Party, a_setup: Setup, b_setup: Setup) -> Self {
        let ai = a.make(a_setup);
        let bi = b.make(b_setup);
        a.connect(&ai, &bi);
        b.connect(&bi, &ai);
        Pair { a, b, ai, bi }
    }

    pub fn alike(a: Party, b: Party, setup: Setup) -> Self {
        Self::new(a, b, setup, setup)
    }

    /// One message each way, to see that both sides work.
    #[track_caller]
    pub fn exchange(&mut self) {
        self.b.recv(&self.bi, 900, 0, 64);
        self.a
            .post(&self.ai, &Ask::new(SendOpcode::Send, 8, &self.bi).id(901));
        self.a.expect(&self.ai, 901, WcStatus::Success);
        self.b.expect(&self.bi, 900, WcStatus::Success);
    }
}

/// The same test with both sides in this process, the peer in another, and this process as the peer of another.
pub fn everywhere(test: impl Fn(Party, Party)) {
    test(Party::here(), Party::here());
    test(Party::here(), Party::there());
    test(Party::there(), Party::here());
}
