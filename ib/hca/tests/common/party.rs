//! Parties: this process or another one, each with queue pairs that obey the same commands.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ferriband_hca::*;
use ferriband_transport::types::*;

use super::PATIENCE;
use super::process::{Channel, Child};

pub use super::endpoint::*;

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
    Counters,
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
            Counters,
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
            Cmd::Counters => {
                let counters = end.qp.packet_counters().unwrap_or_default();
                vec![
                    counters.requests_sent,
                    counters.requests_repeated,
                    counters.gaps_heard,
                    counters.timeouts,
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

    /// What a queue pair on packets has sent: requests, of them again, and for how many gaps and time-outs.
    pub fn counters(&mut self, end: &Info) -> [u64; 4] {
        let words = self.call(Cmd::Counters, &[end.at as u64]);
        words.try_into().unwrap()
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
