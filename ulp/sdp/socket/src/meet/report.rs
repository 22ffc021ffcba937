//! What a process says of its streams to whoever may know: its own user and root.
//!
//! Owns: the bodies of these messages, and the causes of TCP that no peer is told. Must not know:
//! who asks, and how the answers are found.

use super::message::{End, Malformed, Reason, exact, reasons};
use ferriband_sdp_proto::change::Phase;
use ferriband_sdp_verbs::FlowKind;
use std::net::{Ipv4Addr, SocketAddr};
use zerocopy::network_endian::{I32, U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

reasons! {
    /// Why a stream is TCP, as the process itself knows it.
    Cause;
    /// The settings' thresholds were not reached.
    TooShort = 100, "it had too few exchanges and bytes so far";
    /// The connecting side asks.
    NotAsked = 101, "the connecting program has not asked so far";
    /// An answer is awaited.
    Asked = 102, "the peer's program has been asked";
    /// TCP_ULP.
    Tls = 103, "the kernel encrypts it (kTLS)";
    /// SO_ZEROCOPY.
    ZeroCopy = 104, "the program uses MSG_ZEROCOPY";
    /// O_ASYNC.
    Signals = 105, "the program wants signals of it (O_ASYNC)";
    /// SO_RCVLOWAT.
    LowWater = 106, "the program waits for several bytes at once (SO_RCVLOWAT)";
    /// Descriptors 0 to 2.
    Standard = 107, "it is standard input, output or error";
    /// fdopen and its like.
    ByLibrary = 108, "the C library reads or writes it by itself (fdopen, dprintf)";
    /// SCM_RIGHTS.
    GivenAway = 109, "the program has given it to another one (SCM_RIGHTS)";
    /// exec.
    Executed = 110, "a program was executed that has inherited it";
    /// MSG_OOB and its like.
    Flags = 111, "the program has used a flag that only TCP serves, as MSG_OOB and MSG_PEEK";
    /// splice, sendmmsg, aio.
    ByKernel = 112, "the program has used it in a way that only TCP serves";
    /// io_uring.
    IoUring = 113, "the program has an io_uring, which reaches its sockets unseen";
    /// A child has it, too.
    Several = 114, "several processes hold it";
    /// An epoll instance of several processes.
    Waiters = 115, "it is watched in a way that cannot be followed";
    /// The reader let the ring stand.
    RingFull = 116, "its ring stayed full, and TCP holds more than a ring";
    /// The other side did it.
    PeerWent = 117, "the peer's program has gone back to TCP";
    /// SHUT_RD.
    Shut = 118, "the program has shut it down";
    /// [`super::No::Later`].
    Later = 120, "it could not be taken over so far, and will be asked for again";
    /// No free name for a family.
    NoName = 119, "all names for the negotiation at the port are taken";
    /// Setting `meet`.
    NoDirectory = 121, "the directory of the setting meet cannot be used";
}

/// Why a stream is TCP.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Why {
    /// As the negotiation found it.
    Reason(Reason),
    /// As the process knows it.
    Cause(Cause),
}

impl Why {
    /// One sentence for a person.
    pub fn sentence(self) -> &'static str {
        match self {
            Self::Reason(reason) => reason.sentence(),
            Self::Cause(cause) => cause.sentence(),
        }
    }

    /// A number, which is not 0.
    pub(crate) fn code(self) -> u16 {
        match self {
            Self::Reason(reason) => reason as u16,
            Self::Cause(cause) => cause as u16,
        }
    }

    /// The one with this number. None for 0.
    pub(crate) fn from_code(code: u16) -> Result<Option<Self>, Malformed> {
        match code {
            0 => Ok(None),
            1..100 => Ok(Some(Self::Reason(Reason::from_code(code)?))),
            _ => Ok(Some(Self::Cause(Cause::from_code(code)?))),
        }
    }
}

/// What a stream socket is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// No connection so far.
    Unconnected,
    /// This process has connected it.
    Connected,
    /// This process has accepted it.
    Accepted,
    /// It listens.
    Listener,
}

const SIDES: [Side; 4] = [
    Side::Unconnected,
    Side::Connected,
    Side::Accepted,
    Side::Listener,
];

/// Bytes of one direction or both, and wake-ups.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Traffic {
    /// Bytes that were written to the ring.
    pub ring_out: u64,
    /// Bytes that were read from the ring.
    pub ring_in: u64,
    /// Bytes that TCP was given.
    pub tcp_out: u64,
    /// Bytes that TCP has received.
    pub tcp_in: u64,
    /// How often this side has woken the peer.
    pub wakes: u64,
}

/// One stream of a process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Row {
    /// The descriptor.
    pub number: i32,
    /// What it is.
    pub side: Side,
    /// Its own address.
    pub own: SocketAddr,
    /// Its peer's; 0.0.0.0:0 if it has none.
    pub peer: SocketAddr,
    /// What it sends, and what it receives, if both sides have its memory; else it is TCP.
    pub phases: Option<[Phase; 2]>,
    /// The flow control of the queue pairs that carry it. None: its memory is both sides' own.
    pub flow: Option<FlowKind>,
    /// Why it is TCP, or a direction is.
    pub why: Option<Why>,
    /// The user who stood in the way, if he is not the peer's.
    pub by: Option<u32>,
    /// What went through.
    pub traffic: Traffic,
}

/// No address.
pub const NOWHERE: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);

/// Bytes of a program's name.
const NAME_BYTES: usize = 64;

/// A process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct About {
    /// Its number in its own namespace.
    pub pid: u32,
    /// Connections on which the settings' thresholds were reached.
    pub eligible: u64,
    /// Those of which a direction went by SDP.
    pub upgraded: u64,
    /// Its program's name, filled up with zeros.
    pub program: [u8; NAME_BYTES],
}

impl About {
    /// The program's name as it is kept here: what is longer is cut.
    pub fn name(program: &[u8]) -> [u8; NAME_BYTES] {
        let mut name = [0; NAME_BYTES];
        for (to, from) in name.iter_mut().zip(program) {
            *to = *from;
        }
        name
    }

    /// The program's name as text.
    pub fn program(&self) -> String {
        let end = self.program.iter().position(|byte| *byte == 0);
        let name = &self.program[..end.unwrap_or(NAME_BYTES)];
        String::from_utf8_lossy(name).into_owned()
    }
}

/// Somebody who has spoken for what is not his: who has a name of the negotiation and gives no
/// answer to be used, or who claims a connection that he does not hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stranger {
    /// The user.
    pub uid: u32,
    /// What he has done.
    pub reason: Reason,
    /// How often.
    pub times: u32,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RowBody {
    number: I32,
    own: End,
    peer: End,
    side: u8,
    /// 0: none; else a phase's word and 1 more.
    phases: [u8; 2],
    /// 0: none; then credit, ring, nic.
    flow: u8,
    has_by: u8,
    by: U32,
    why: U16,
    traffic: [U64; 5],
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct AboutBody {
    pid: U32,
    eligible: U64,
    upgraded: U64,
    program: [u8; NAME_BYTES],
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct StrangerBody {
    uid: U32,
    reason: U16,
    times: U32,
}

impl Row {
    pub(super) fn emit(&self) -> Vec<u8> {
        let traffic = &self.traffic;
        let counts = [
            traffic.ring_out,
            traffic.ring_in,
            traffic.tcp_out,
            traffic.tcp_in,
            traffic.wakes,
        ];
        let body = RowBody {
            number: self.number.into(),
            own: self.own.into(),
            peer: self.peer.into(),
            side: self.side as u8,
            phases: self
                .phases
                .map_or([0; 2], |both| both.map(|phase| phase as u32 as u8 + 1)),
            flow: match self.flow {
                None => 0,
                Some(FlowKind::Credit) => 1,
                Some(FlowKind::Ring) => 2,
                Some(FlowKind::Nic) => 3,
            },
            has_by: self.by.is_some().into(),
            by: self.by.unwrap_or(0).into(),
            why: self.why.map_or(0, Why::code).into(),
            traffic: counts.map(Into::into),
        };
        body.as_bytes().to_vec()
    }

    pub(super) fn parse(body: &[u8]) -> Result<Self, Malformed> {
        let body: RowBody = exact(body)?;
        let phase = |byte: u8| {
            let word = u32::from(byte).checked_sub(1).ok_or(Malformed)?;
            Phase::from_word(word).ok_or(Malformed)
        };
        let phases = match body.phases {
            [0, 0] => None,
            [out, into] => Some([phase(out)?, phase(into)?]),
        };
        let flow = match body.flow {
            0 => None,
            1 => Some(FlowKind::Credit),
            2 => Some(FlowKind::Ring),
            3 => Some(FlowKind::Nic),
            _ => return Err(Malformed),
        };
        let by = match (body.has_by, body.by.get()) {
            (0, 0) => None,
            (1, uid) => Some(uid),
            _ => return Err(Malformed),
        };
        let [ring_out, ring_in, tcp_out, tcp_in, wakes] = body.traffic.map(U64::get);
        Ok(Self {
            number: body.number.get(),
            side: *SIDES.get(usize::from(body.side)).ok_or(Malformed)?,
            own: body.own.into(),
            peer: body.peer.into(),
            phases,
            flow,
            why: Why::from_code(body.why.get())?,
            by,
            traffic: Traffic {
                ring_out,
                ring_in,
                tcp_out,
                tcp_in,
                wakes,
            },
        })
    }
}

impl About {
    pub(super) fn emit(&self) -> Vec<u8> {
        let body = AboutBody {
            pid: self.pid.into(),
            eligible: self.eligible.into(),
            upgraded: self.upgraded.into(),
            program: self.program,
        };
        body.as_bytes().to_vec()
    }

    pub(super) fn parse(body: &[u8]) -> Result<Self, Malformed> {
        let body: AboutBody = exact(body)?;
        Ok(Self {
            pid: body.pid.get(),
            eligible: body.eligible.get(),
            upgraded: body.upgraded.get(),
            program: body.program,
        })
    }
}

impl Stranger {
    pub(super) fn emit(&self) -> Vec<u8> {
        let body = StrangerBody {
            uid: self.uid.into(),
            reason: (self.reason as u16).into(),
            times: self.times.into(),
        };
        body.as_bytes().to_vec()
    }

    pub(super) fn parse(body: &[u8]) -> Result<Self, Malformed> {
        let body: StrangerBody = exact(body)?;
        Ok(Self {
            uid: body.uid.get(),
            reason: Reason::from_code(body.reason.get())?,
            times: body.times.get(),
        })
    }
}

/// More strangers than these are not remembered.
const MOST_STRANGERS: usize = 8;

/// Counts one more deed of a stranger's.
pub(crate) fn count(strangers: &mut Vec<Stranger>, uid: u32, reason: Reason) {
    let same = |known: &Stranger| known.uid == uid && known.reason == reason;
    match strangers.iter().position(same) {
        Some(at) => strangers[at].times = strangers[at].times.saturating_add(1),
        None if strangers.len() < MOST_STRANGERS => strangers.push(Stranger {
            uid,
            reason,
            times: 1,
        }),
        None => {}
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::message::Message;
    use super::*;

    /// Messages of these kinds: each side, phase and cause among them.
    pub fn all() -> Vec<Message> {
        let row = |number: i32, side, why| Row {
            number,
            side,
            own: "127.0.0.1:80".parse().expect("an address"),
            peer: NOWHERE,
            phases: None,
            flow: None,
            why,
            by: None,
            traffic: Traffic::default(),
        };
        let causes = Cause::ALL.iter().map(|cause| Some(Why::Cause(*cause)));
        let rows = causes.chain([None]).zip(3..);
        let rows = rows.map(|(why, number)| row(number, SIDES[number as usize % 4], why));
        let mut all: Vec<_> = rows.map(Message::Row).collect();
        all.push(Message::Row(Row {
            own: "[2001:db8::1]:65535".parse().expect("an address"),
            phases: Some([Phase::Sdp, Phase::Done]),
            flow: None,
            by: Some(1000),
            traffic: Traffic {
                ring_out: u64::MAX,
                ring_in: 1,
                tcp_out: 2,
                tcp_in: 3,
                wakes: 1 << 60,
            },
            ..row(i32::MAX, Side::Connected, Some(Why::Reason(Reason::Nobody)))
        }));
        let flows = [FlowKind::Credit, FlowKind::Ring, FlowKind::Nic];
        all.extend(flows.map(|flow| {
            Message::Row(Row {
                phases: Some([Phase::Sdp; 2]),
                flow: Some(flow),
                ..row(7, Side::Accepted, None)
            })
        }));
        all.push(Message::About(About {
            pid: 4711,
            eligible: 3,
            upgraded: 2,
            program: About::name(b"redis-server"),
        }));
        all.push(Message::Stranger(Stranger {
            uid: 65534,
            reason: Reason::NotTheUser,
            times: 9,
        }));
        all
    }

    #[test]
    fn causes_have_numbers_and_sentences_of_their_own() {
        for (at, cause) in Cause::ALL.iter().enumerate() {
            let why = Some(Why::Cause(*cause));
            assert_eq!(Why::from_code(*cause as u16), Ok(why));
            let others = &Cause::ALL[at + 1..];
            let differs = |other: &Cause| other.sentence() != cause.sentence();
            assert!(others.iter().all(differs));
        }
        assert_eq!(Why::from_code(99), Err(Malformed));
        assert_eq!(Why::from_code(0), Ok(None));
    }

    #[test]
    fn a_long_name_is_cut_and_a_short_one_kept() {
        let about = |program: &[u8]| About {
            pid: 1,
            eligible: 0,
            upgraded: 0,
            program: About::name(program),
        };
        assert_eq!(about(b"nginx").program(), "nginx");
        assert_eq!(about(&[b'a'; 100]).program(), "a".repeat(NAME_BYTES));
    }

    #[test]
    fn strangers_are_counted_and_few_are_remembered() {
        let mut strangers = Vec::new();
        for uid in 0..100 {
            count(&mut strangers, uid, Reason::Nonsense);
            count(&mut strangers, 0, Reason::NotTheUser);
        }
        assert_eq!(strangers.len(), MOST_STRANGERS);
        let known = strangers
            .iter()
            .find(|one| one.reason == Reason::NotTheUser);
        assert_eq!(known.map(|one| one.times), Some(100));
    }
}
