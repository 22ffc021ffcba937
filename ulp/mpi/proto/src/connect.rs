//! How two ranks come to a connection: set-up datagrams over an unreliable service, and the machine that survives their loss, doubling and delay.
//!
//! Owns: the bytes of a datagram ([`Datagram`]), a rank's business card ([`Card`]) and the state of the connection to one peer ([`Machine`]). Must not
//! know: queue pairs, devices, sockets. The time comes in as nanoseconds of any clock that does not go back.
//!
//! ```text
//! IDLE --want--> ASKING --REP--> CONNECTED (RTU sent, and again for each REP)
//! IDLE --REQ--> ANSWERING (queue pair in RTR) --RTU or a first message--> CONNECTED
//! ASKING --REQ--> from a higher rank: nothing, ours stands; from a lower one: ANSWERING
//! any --REJ--> FAILED, also when it was connected: the other end is no more; ASKING and ANSWERING repeat themselves after 20 ms, then twice that, to 1 s
//! ```
//! Nobody gives up for silence: a peer answers when its program next calls MPI, which may be in an hour. That it has died the launcher says.
//! There is one connection between two ranks for the life of the job, so a number for each attempt only tells late datagrams from those of today.

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Bytes of a set-up datagram.
pub const DATAGRAM: usize = 128;
/// Bytes of a card.
pub const CARD: usize = 40;

const MAGIC: u32 = 0x4d_46_75_70;
const VERSION: u16 = 5;
const MILLISECOND: u64 = 1_000_000;
/// First pause before a datagram is repeated.
const FIRST_NS: u64 = 20 * MILLISECOND;
/// The longest.
const LONGEST_NS: u64 = 1000 * MILLISECOND;
/// After so long the owner is told that nothing comes.
const PATIENCE_NS: u64 = 30_000 * MILLISECOND;

/// One end of a connection, as the other end must know it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Endpoint {
    /// Number of the queue pair, 24 bits.
    pub qpn: u32,
    /// The PSN that its sends begin with, 24 bits.
    pub psn: u32,
    /// Path MTU as the verbs API codes it, 1 (256 bytes) to 5 (4,096).
    pub mtu: u8,
    /// LID of its port; 0 on Ethernet.
    pub lid: u16,
    /// GID of its port.
    pub gid: [u8; 16],
}

/// What a datagram is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Type {
    /// Connect to this end.
    Req = 1,
    /// Done; connect to that one.
    Rep = 2,
    /// Done as well: send.
    Rtu = 3,
    /// No.
    Rej = 4,
}

/// A set-up datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagram {
    /// What it is.
    pub kind: Type,
    /// What only ranks of the job know.
    pub secret: u64,
    /// World rank of who sends it.
    pub from: u32,
    /// World rank of whom it is for.
    pub to: u32,
    /// Which attempt of the side that asked it belongs to.
    pub attempt: u32,
    /// Why not, of a [`Type::Rej`]: an errno.
    pub reason: u32,
    /// The sender's end.
    pub end: Endpoint,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Bytes {
    magic: U32,
    version: U16,
    kind: u8,
    zero: u8,
    secret: U64,
    from: U32,
    to: U32,
    attempt: U32,
    reason: U32,
    qpn: U32,
    psn: U32,
    srqn: U32,
    mtu: u8,
    flags: u8,
    lid: U16,
    gid: [u8; 16],
    rest: [u8; 64],
}

const _: () = assert!(size_of::<Bytes>() == DATAGRAM);

impl Datagram {
    /// Its bytes.
    pub fn emit(&self) -> [u8; DATAGRAM] {
        zerocopy::transmute!(Bytes {
            magic: U32::new(MAGIC),
            version: U16::new(VERSION),
            kind: self.kind as u8,
            zero: 0,
            secret: U64::new(self.secret),
            from: U32::new(self.from),
            to: U32::new(self.to),
            attempt: U32::new(self.attempt),
            reason: U32::new(self.reason),
            qpn: U32::new(self.end.qpn),
            psn: U32::new(self.end.psn),
            srqn: U32::ZERO,
            mtu: self.end.mtu,
            flags: 0,
            lid: U16::new(self.end.lid),
            gid: self.end.gid,
            rest: [0; 64],
        })
    }

    /// What the bytes say; none if they are no datagram of this version, or name what cannot be. Whether it is for this rank and job is
    /// [`Datagram::is_for`]'s question.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let bytes = Bytes::read_from_bytes(bytes).ok()?;
        let kind = match bytes.kind {
            1 => Type::Req,
            2 => Type::Rep,
            3 => Type::Rtu,
            4 => Type::Rej,
            _ => return None,
        };
        let end = Endpoint {
            qpn: bytes.qpn.get(),
            psn: bytes.psn.get(),
            mtu: bytes.mtu,
            lid: bytes.lid.get(),
            gid: bytes.gid,
        };
        let is_ours = bytes.magic.get() == MAGIC && bytes.version.get() == VERSION;
        let may_be = end.qpn < 1 << 24 && end.psn < 1 << 24 && (1..=5).contains(&end.mtu);
        (is_ours && (may_be || kind == Type::Rej)).then_some(Self {
            kind,
            secret: bytes.secret.get(),
            from: bytes.from.get(),
            to: bytes.to.get(),
            attempt: bytes.attempt.get(),
            reason: bytes.reason.get(),
            end,
        })
    }

    /// Whether it comes from a rank of this job (below `ranks`), and is for rank `me`.
    pub fn is_for(&self, me: u32, ranks: u32, secret: u64) -> bool {
        // One comparison of a difference: its time tells nothing of where the first wrong byte lies.
        let differs = self.secret ^ secret;
        differs == 0 && self.to == me && self.from < ranks && self.from != me
    }
}

/// No receive buffer is longer.
pub const MOST_RECEIVE: u32 = 1 << 20;

/// How a rank can be reached by datagrams: what it leaves for the others before they have anything to do with it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Card {
    /// Number of the queue pair that takes set-up datagrams.
    pub qpn: u32,
    /// LID of its port; 0 on Ethernet.
    pub lid: u16,
    /// Whether the port lies on Ethernet.
    pub is_ethernet: bool,
    /// The largest path MTU, as the verbs API codes it.
    pub mtu: u8,
    /// GID of its port.
    pub gid: [u8; 16],
    /// Bytes of its receive buffers.
    pub receive: u32,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct CardBytes {
    magic: U32,
    version: U16,
    is_ethernet: u8,
    mtu: u8,
    qpn: U32,
    lid: U16,
    zero: U16,
    gid: [u8; 16],
    receive: U32,
    rest: [u8; 4],
}

const _: () = assert!(size_of::<CardBytes>() == CARD);

impl Card {
    /// Its bytes.
    pub fn emit(&self) -> [u8; CARD] {
        zerocopy::transmute!(CardBytes {
            magic: U32::new(MAGIC),
            version: U16::new(VERSION),
            is_ethernet: u8::from(self.is_ethernet),
            mtu: self.mtu,
            qpn: U32::new(self.qpn),
            lid: U16::new(self.lid),
            zero: U16::ZERO,
            gid: self.gid,
            receive: U32::new(self.receive),
            rest: [0; 4],
        })
    }

    /// What the bytes say; none if they are no card.
    pub fn parse(bytes: &[u8; CARD]) -> Option<Self> {
        let bytes = CardBytes::read_from_bytes(bytes).ok()?;
        let is_one = bytes.magic.get() == MAGIC
            && bytes.version.get() == VERSION
            && bytes.qpn.get() < 1 << 24
            && (1..=5).contains(&bytes.mtu)
            && bytes.receive.get() <= MOST_RECEIVE;
        is_one.then_some(Self {
            qpn: bytes.qpn.get(),
            lid: bytes.lid.get(),
            is_ethernet: bytes.is_ethernet != 0,
            mtu: bytes.mtu,
            gid: bytes.gid,
            receive: bytes.receive.get(),
        })
    }
}

/// What the owner of a [`Machine`] has to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing.
    None,
    /// The peer asks: make a queue pair unless there is one, take it to where it may receive from and send to that end, then call
    /// [`Machine::accept`] or [`Machine::refuse`].
    Answer(Endpoint),
    /// The peer has answered: take the queue pair to where it may send to that end, then call [`Machine::connected`] or [`Machine::refuse`].
    Connect(Endpoint),
    /// The peer can receive: send.
    Established,
    /// No answer for 30 s: somebody may want to know. Said once.
    Quiet,
    /// There will be no connection.
    Failed(Reason),
}

/// Why there will be none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The peer has refused, with this errno.
    Refused(u32),
    /// This side could not, with this errno.
    Own(u32),
    /// There was one, and the peer has ended it, for this errno.
    Ended(u32),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Idle,
    Asking,
    /// A REP of the attempt has come, and the owner is at work.
    Connecting,
    /// A REQ has come, and the owner is at work.
    Accepting,
    Answering,
    Connected,
    Failed(Reason),
}

/// Whose attempt it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Active,
    Passive,
}

/// The connection to one peer.
#[derive(Clone, Debug)]
pub struct Machine {
    me: u32,
    peer: u32,
    secret: u64,
    state: State,
    side: Side,
    own: Endpoint,
    remote: Endpoint,
    attempt: u32,
    /// Since when an answer is waited for, when to ask again, and the pause after that.
    since_ns: u64,
    again_ns: u64,
    pause_ns: u64,
    has_complained: bool,
    /// What is to be sent.
    outbox: Option<(Type, u32)>,
}

impl Machine {
    /// Between rank `me` and rank `peer`, another one.
    pub fn new(me: u32, peer: u32, secret: u64) -> Self {
        Self {
            me,
            peer,
            secret,
            state: State::Idle,
            side: Side::Active,
            own: Endpoint::default(),
            remote: Endpoint::default(),
            attempt: 0,
            since_ns: 0,
            again_ns: 0,
            pause_ns: 0,
            has_complained: false,
            outbox: None,
        }
    }

    /// Whether nothing has happened yet.
    pub fn is_idle(&self) -> bool {
        self.state == State::Idle
    }

    /// Whether messages may be sent.
    pub fn is_connected(&self) -> bool {
        self.state == State::Connected
    }

    /// Asks for a connection of the end `own`, whose queue pair is made and may not receive yet.
    pub fn want(&mut self, own: Endpoint, now_ns: u64) {
        debug_assert!(self.is_idle());
        self.own = own;
        self.side = Side::Active;
        self.attempt = self.attempt.wrapping_add(1);
        self.state = State::Asking;
        self.send(Type::Req, now_ns);
    }

    /// A datagram of this peer for this rank has come.
    pub fn handle_datagram(&mut self, datagram: &Datagram) -> Step {
        debug_assert!(datagram.from == self.peer && datagram.to == self.me);
        let is_ours = self.side == Side::Active && datagram.attempt == self.attempt;
        match (datagram.kind, self.state) {
            (Type::Req, State::Idle) => self.asked(datagram),
            // Both have asked: the lower rank's question stands.
            (Type::Req, State::Asking) if self.peer < self.me => self.asked(datagram),
            (Type::Req, State::Answering | State::Connected)
                if self.side == Side::Passive
                    && datagram.attempt == self.attempt
                    && datagram.end == self.remote =>
            {
                self.outbox = Some((Type::Rep, 0));
                Step::None
            }
            (Type::Req, State::Failed(reason)) => {
                self.attempt = datagram.attempt;
                self.outbox = Some((Type::Rej, errno_of(reason)));
                Step::None
            }
            (Type::Rep, State::Asking) if is_ours => {
                self.state = State::Connecting;
                self.remote = datagram.end;
                Step::Connect(datagram.end)
            }
            (Type::Rep, State::Connected) if is_ours && datagram.end == self.remote => {
                self.outbox = Some((Type::Rtu, 0));
                Step::None
            }
            (Type::Rtu, State::Answering) if datagram.attempt == self.attempt => self.heard(),
            (Type::Rej, State::Asking | State::Answering) if datagram.attempt == self.attempt => {
                self.fail(Reason::Refused(datagram.reason))
            }
            (Type::Rej, State::Connected) if datagram.attempt == self.attempt => {
                self.fail(Reason::Ended(datagram.reason))
            }
            _ => Step::None,
        }
    }

    /// A message of the peer has come by the queue pair: what an RTU says.
    pub fn handle_message(&mut self) -> Step {
        if self.state == State::Answering {
            self.heard()
        } else {
            Step::None
        }
    }

    /// The queue pair is connected to who asked; it has the end `own`.
    pub fn accept(&mut self, own: Endpoint, now_ns: u64) {
        debug_assert_eq!(self.state, State::Accepting);
        self.own = own;
        self.state = State::Answering;
        self.send(Type::Rep, now_ns);
    }

    /// The queue pair is connected to who answered.
    pub fn connected(&mut self) {
        debug_assert_eq!(self.state, State::Connecting);
        self.state = State::Connected;
        self.outbox = Some((Type::Rtu, 0));
    }

    /// The owner could not do what it was to do, or what was connected is no more, for this errno.
    pub fn refuse(&mut self, errno: u32) {
        self.fail(Reason::Own(errno));
        self.outbox = Some((Type::Rej, errno));
    }

    /// When [`Machine::handle_timeout`] is to be called.
    pub fn poll_timeout(&self) -> Option<u64> {
        matches!(self.state, State::Asking | State::Answering).then_some(self.again_ns)
    }

    /// The time has come, or has not.
    pub fn handle_timeout(&mut self, now_ns: u64) -> Step {
        if self.poll_timeout().is_none_or(|at| now_ns < at) {
            return Step::None;
        }
        self.pause_ns = (self.pause_ns * 2).min(LONGEST_NS);
        self.again_ns = now_ns.saturating_add(self.pause_ns);
        let kind = if self.state == State::Asking {
            Type::Req
        } else {
            Type::Rep
        };
        self.outbox = Some((kind, 0));
        if !self.has_complained && now_ns.saturating_sub(self.since_ns) >= PATIENCE_NS {
            self.has_complained = true;
            return Step::Quiet;
        }
        Step::None
    }

    /// The next datagram to send. It stays if it cannot be sent now: call [`Machine::sent`] when it has gone.
    pub fn poll_transmit(&self) -> Option<Datagram> {
        let (kind, reason) = self.outbox?;
        Some(Datagram {
            kind,
            secret: self.secret,
            from: self.me,
            to: self.peer,
            attempt: self.attempt,
            reason,
            end: self.own,
        })
    }

    /// What [`Machine::poll_transmit`] has told has gone.
    pub fn sent(&mut self) {
        self.outbox = None;
    }

    fn asked(&mut self, datagram: &Datagram) -> Step {
        self.state = State::Accepting;
        self.side = Side::Passive;
        self.attempt = datagram.attempt;
        self.remote = datagram.end;
        self.outbox = None;
        Step::Answer(datagram.end)
    }

    fn heard(&mut self) -> Step {
        self.state = State::Connected;
        self.outbox = None;
        Step::Established
    }

    fn fail(&mut self, reason: Reason) -> Step {
        self.state = State::Failed(reason);
        self.outbox = None;
        Step::Failed(reason)
    }

    fn send(&mut self, kind: Type, now_ns: u64) {
        self.since_ns = now_ns;
        self.pause_ns = FIRST_NS;
        self.again_ns = now_ns.saturating_add(FIRST_NS);
        self.outbox = Some((kind, 0));
    }
}

fn errno_of(reason: Reason) -> u32 {
    match reason {
        Reason::Refused(errno) | Reason::Own(errno) | Reason::Ended(errno) => errno,
    }
}

#[cfg(test)]
#[path = "connect_tests.rs"]
mod tests;
