//! What the launcher has left: who are the others, which of them share this host, and what do they leave for one another.
//!
//! Owns: the engine that has started this process (`ferriband-launch` speaks with it), whether this
//! process is the rank that was started or one that the rank has started ([`claim`]), and how ranks
//! that no `mpirun` of ours has started come to the segment that they share. Must not know:
//! communicators, messages, what is said to an engine. Ranks of our own `mpirun` need no engine: it
//! leaves the segment's descriptor to them ([`own`]).
//!
//! How a host comes together: each rank asks for the name of the job. The first one to bind an
//! abstract socket of a name made of it makes segment and bells; the others fetch them there. Then
//! all go through the engine's fence; whoever made the segment serves it until the fence is over.
//! Where ranks are left that have not come, they are on other hosts: each opens its device, puts
//! its card and the TCP port where it tells the next one, and after a second fence the one that
//! made the segment writes those of the far ones into it. Nothing lies in a file system, and the
//! name goes with its process.

mod claim;
mod own;

use crate::constants::MPI_ERR_OTHER;
use crate::errors::{MpiError, Outcome};
use crate::ground::fresh::Fresh;
use crate::transport::host::Host;
use crate::transport::host::meet::{self, Meeting};
use claim::Kin;
use ferriband_heal::card::Card;
use ferriband_heal::inquiry::CardPort;
use ferriband_launch::{Engine, Place, Which, inherit};
use std::io::{Read, Write};
use std::sync::MutexGuard;
use std::time::{Duration, Instant};

/// Cards come from a neighbour that has them already, or is about to.
const PATIENCE: Duration = Duration::from_secs(120);
/// Looks for them this often.
const LOOK: Duration = Duration::from_micros(200);

static ENGINE: Fresh<Option<Engine>> = Fresh::new(|| None);

fn engine() -> MutexGuard<'static, Option<Engine>> {
    ENGINE.lock()
}

/// In a forked child, which no engine has started.
pub fn forget() {
    ENGINE.forget();
}

/// What a guest begins with.
pub struct Joined {
    /// Its place among the others; none if it is the only rank.
    pub host: Option<Host>,
    /// Whether more ranks than cores are on this host.
    pub is_crowded: bool,
    /// Which of the job's programs this is, for MPI_APPNUM.
    pub program: Option<u32>,
}

/// Which engine to look for, as the user has set it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wish {
    /// `engine`: auto, pmi1, pmi2, pmix or none.
    pub engine: String,
    /// `pmix_library`: a file, or nothing.
    pub pmix_library: String,
}

/// What this process is to a launcher.
pub enum Found {
    /// A rank.
    Rank(Joined),
    /// A process that a rank has started, or a fork of one: a job of its own, which has been said.
    Kin,
    /// Nothing: a job of its own.
    Alone,
}

impl Found {
    fn kin(kin: Kin, rank: &str) -> Self {
        // At once, because other processes write there, too. Where nobody listens, nothing is lost.
        let line = format!("ferriband MPI: {}\n", kin.words(rank));
        let _ = std::io::stderr().write_all(line.as_bytes());
        Self::Kin
    }
}

/// Joins the job of the launcher that has started this process, if one has. An engine of another
/// launcher goes first: it was started within a job of ours, if there is one, because our `mpirun`
/// takes what names another engine out of its ranks' environment. What our `mpirun` itself serves
/// by PMI is for programs that do not know its segment.
pub fn join(wish: &Wish) -> Outcome<Found> {
    let Some(which) = ferriband_launch::find(&wish.engine, own::has_pmi()) else {
        return own::join();
    };
    if let Some(kin) = kin(which) {
        return Ok(Found::kin(kin, "a rank of another launcher"));
    }
    let mut found = which.open(&wish.pmix_library)?;
    let place = found.place()?;
    let host = if place.ranks > 1 {
        Some(gather(&mut found, &place)?)
    } else {
        None
    };
    let is_crowded = host.as_ref().is_some_and(Host::is_crowded);
    *engine() = Some(found);
    Ok(Found::Rank(Joined {
        host,
        is_crowded,
        program: place.program,
    }))
}

/// Why this process is not the rank that an engine has started, if it is not.
fn kin(which: Which) -> Option<Kin> {
    let Some(place) = which.place_name() else {
        return Some(Kin::Closed);
    };
    if claim::is_fork(None) {
        return Some(Kin::Fork);
    }
    (!claim::claim(&place)).then_some(Kin::Later(None))
}

/// Comes to the host's segment, and through the first fence.
fn gather(engine: &mut Engine, place: &Place) -> Outcome<Host> {
    let Place { rank, ranks, .. } = *place;
    if rank == 0 {
        let mut secret = [0; 8];
        std::fs::File::open("/dev/urandom")
            .and_then(|mut random| random.read_exact(&mut secret))
            .map_err(|error| failed(&format!("/dev/urandom cannot be read: {error}")))?;
        engine.put(0, SECRET, &format!("{:016x}", u64::from_ne_bytes(secret)))?;
    }
    let meeting = Meeting::join(&place.job, rank, ranks).map_err(|error| {
        failed(&format!(
            "the ranks of this host cannot come together: {error}"
        ))
    })?;
    engine.begin_fence()?;
    while !engine.is_fence_over()? {
        meeting.serve(engine.fd());
    }
    let host = meeting.end();
    let near = (0..ranks).filter(|rank| host.is_near(*rank)).count();
    if near == ranks as usize {
        return Ok(host);
    }
    let secret = engine.get(0, SECRET)?;
    let secret = u64::from_str_radix(&secret, 16).map_err(|_| {
        failed(&format!(
            "the job's secret is {secret:?}, which is no number"
        ))
    })?;
    Ok(host.with_secret(secret))
}

/// Key of what tells the ranks of a job from strangers on a network.
const SECRET: &str = "secret";
/// Key of a rank's card, its host's number, and where it tells its card later.
const ADDRESS: &str = "card";

/// Whether ranks are on hosts that share nothing with this one.
pub fn has_far_ranks(host: &Host) -> bool {
    engine().is_some() && !host.is_alone()
}

/// Leaves this rank's card for ranks of other hosts, and where it tells it when it is another one,
/// and gets theirs.
pub fn exchange(host: &Host, card: &Card, port: Option<&CardPort>) -> Outcome {
    let mut held = engine();
    let Some(engine) = held.as_mut() else {
        return Ok(());
    };
    let (me, here) = (host.me(), host.host_of(host.me()));
    engine.put(me, ADDRESS, &address(here, card, port))?;
    engine.begin_fence()?;
    while !engine.is_fence_over()? {
        inherit::wait_readable(&[engine.fd()], 1000);
    }
    let far = |rank: &u32| !host.is_near(*rank);
    if here == meet::number(me) {
        for rank in (0..host.ranks()).filter(far) {
            let text = engine.get(rank, ADDRESS)?;
            let (there, card, port) = parse_address(&text)
                .ok_or_else(|| failed(&format!("rank {rank} has left the card {text:?}")))?;
            host.tell_of(rank, there, &card, port.as_ref());
        }
        return Ok(());
    }
    let begun = Instant::now();
    while (0..host.ranks()).any(|rank| host.card(rank).is_none()) {
        if begun.elapsed() > PATIENCE {
            return Err(failed("the cards of ranks of other hosts do not come"));
        }
        std::thread::sleep(LOOK);
    }
    Ok(())
}

fn address(host: u32, card: &Card, port: Option<&CardPort>) -> String {
    let port = port.map(CardPort::emit);
    let port = port.as_ref().map_or(&[][..], |bytes| bytes);
    let digits = |bytes: &[u8]| -> String {
        let each = bytes.iter().map(|byte| format!("{byte:02x}"));
        each.collect()
    };
    format!("{host}:{}:{}", digits(&card.emit()), digits(port))
}

fn parse_address(text: &str) -> Option<(u32, Card, Option<CardPort>)> {
    let (host, rest) = text.split_once(':')?;
    let (card, port) = rest.split_once(':')?;
    let card = Card::parse(&bytes_of(card)?).ok()?;
    let port = match port {
        "" => None,
        port => Some(CardPort::parse(&bytes_of(port)?)?),
    };
    Some((host.parse().ok()?, card, port))
}

/// The bytes that so many pairs of digits say.
fn bytes_of<const BYTES: usize>(digits: &str) -> Option<[u8; BYTES]> {
    if digits.len() != BYTES * 2 || !digits.is_ascii() {
        return None;
    }
    let mut bytes = [0; BYTES];
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&digits[at * 2..at * 2 + 2], 16).ok()?;
    }
    Some(bytes)
}

/// The last fence begins, after which no rank needs another.
pub fn begin_last_fence() {
    if let Some(engine) = engine().as_mut() {
        // An engine that is gone takes its ranks along.
        let _ = engine.begin_fence();
    }
}

/// Whether all have come to the last fence.
pub fn is_last_fence_over() -> bool {
    engine()
        .as_mut()
        .is_none_or(|engine| engine.is_fence_over().unwrap_or(true))
}

/// Tells the engine that this rank may end.
pub fn leave() {
    if let Some(engine) = engine().take() {
        engine.leave();
    }
}

/// Has the engine end all ranks. Another thread that talks to it just now is waited for a moment only.
pub fn abort(code: i32, text: &str) {
    for _ in 0..100 {
        if let Some(mut held) = ENGINE.try_lock() {
            if let Some(engine) = held.as_mut() {
                engine.abort(code, text);
            }
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[cold]
fn failed(text: &str) -> MpiError {
    MpiError::with(MPI_ERR_OTHER, text.to_owned())
}

impl From<ferriband_launch::Error> for MpiError {
    #[cold]
    fn from(error: ferriband_launch::Error) -> Self {
        failed(&error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferriband_heal::card::Address;
    use std::net::IpAddr;

    #[test]
    fn a_card_travels_as_text() {
        let address_of = Address {
            ud: 77,
            mtu: 3,
            is_ethernet: true,
            ..Address::default()
        };
        let card = Card {
            serial: 2,
            receive: 64,
            addresses: [Some(address_of), None, None, None],
        };
        let addresses = (1..9).map(|last| IpAddr::from([10, 0, 0, last]));
        let port = CardPort::new(4711, addresses).expect("it has addresses");
        let text = address(4, &card, Some(&port));
        assert!(text.len() <= ferriband_launch::pmi::LONGEST_VALUE);
        assert_eq!(parse_address(&text), Some((4, card, Some(port))));
        assert_eq!(parse_address(&text[..text.len() - 1]), None);
        assert_eq!(parse_address("4:é:"), None);
        assert_eq!(parse_address(&text.replace(':', " ")), None);
        let bare = address(4, &card, None);
        assert_eq!(parse_address(&bare), Some((4, card, None)));
    }
}
