//! How a process of an upper protocol says what it has, when `ferriband` asks.
//!
//! Owns: how such processes are found and who may ask ([`Teller`], [`ask`]), how an answer travels.
//! Must not know: what is said. It is SDP's road: a process has a name in the kernel's list of Unix
//! sockets of its network namespace, and the kernel says whose each end is.
//!
//! An answer is a text in a sealed file that the process makes for it, so that neither side ever
//! waits for the other.

#![warn(missing_docs)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::{MemfdFlags, SealFlags};
use rustix::io::{Errno, retry_on_intr};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType,
};
use rustix::rand::GetRandomFlags;
use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

/// The longest answer that is read.
const MOST_BYTES: u64 = 64 << 20;
/// Who waits to be answered, at most.
const BACKLOG: i32 = 16;
/// Those that are answered in one turn.
const MOST_IN_A_TURN: usize = 16;
/// A listening socket in the kernel's list.
const LISTENS: &str = "00010000";

/// The seals of an answer.
const SEALS: SealFlags = SealFlags::WRITE
    .union(SealFlags::SHRINK)
    .union(SealFlags::GROW)
    .union(SealFlags::SEAL);

fn prefix(protocol: &str) -> String {
    format!("ferriband-{protocol}-")
}

fn socket() -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)
}

/// The process at the other end, and its user, as the kernel saw them when that one connected or
/// began to listen. Process 0 has no number here.
fn credentials(socket: BorrowedFd<'_>) -> io::Result<(u32, u32)> {
    let mut found = libc::ucred {
        pid: 0,
        uid: u32::MAX,
        gid: u32::MAX,
    };
    let mut length = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: a place for the answer, and its length.
    let got = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut found).cast(),
            &raw mut length,
        )
    };
    match got {
        0 => Ok((found.pid.cast_unsigned(), found.uid)),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Bytes that no other name has, if the kernel can give some: nothing depends on their being
/// secret, so they are not waited for on a machine that has only just started and has collected no
/// entropy.
fn chance(bytes: &mut [u8; 16]) -> io::Result<()> {
    let fill = |flags, bytes: &mut [u8; 16]| {
        retry_on_intr(|| rustix::rand::getrandom(&mut *bytes, flags)).map(|_| ())
    };
    match fill(GetRandomFlags::INSECURE, bytes) {
        // before Linux 5.6
        Err(Errno::INVAL) => fill(GetRandomFlags::empty(), bytes)?,
        other => other?,
    }
    Ok(())
}

fn own_user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// A process that can be asked.
#[derive(Debug)]
pub struct Teller(OwnedFd);

impl Teller {
    /// Lets the process be found by those who ask for a protocol, whose name is letters and digits.
    ///
    /// # Errors
    /// As socket(2), bind(2), listen(2).
    pub fn listen(protocol: &str) -> io::Result<Teller> {
        let mut random = [0; 16];
        chance(&mut random)?;
        let hex: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
        let name = prefix(protocol) + &hex;
        let socket = socket()?;
        rustix::net::bind(
            &socket,
            &SocketAddrUnix::new_abstract_name(name.as_bytes())?,
        )?;
        rustix::net::listen(&socket, BACKLOG)?;
        Ok(Teller(socket))
    }

    /// It is readable when somebody asks.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    /// Answers who asks: this process's user and root. What cannot be sent is left.
    pub fn answer(&self, text: impl Fn() -> String) {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        for _ in 0..MOST_IN_A_TURN {
            let Ok(asker) = retry_on_intr(|| rustix::net::accept_with(&self.0, flags)) else {
                return;
            };
            let user = credentials(asker.as_fd()).map(|(_, uid)| uid);
            if user.is_ok_and(|uid| uid == 0 || uid == own_user()) {
                // who has gone away needs no answer
                let _ = send(&asker, &text());
            }
        }
    }
}

fn send(to: &OwnedFd, text: &str) -> io::Result<()> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let file = rustix::fs::memfd_create(c"ferriband-tell", flags)?;
    let mut file = File::from(file);
    file.write_all(text.as_bytes())?;
    rustix::fs::fcntl_add_seals(&file, SEALS)?;
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let fds = [file.as_fd()];
    ancillary.push(SendAncillaryMessage::ScmRights(&fds));
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    retry_on_intr(|| rustix::net::sendmsg(to, &[IoSlice::new(b"T")], &mut ancillary, flags))?;
    Ok(())
}

/// What came of asking a process.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Answer {
    /// What it says.
    Text(String),
    /// It was not asked: only its own user and root may.
    OfAnotherUser,
    /// No answer in time, or none to be used: it is stopped, or of another version.
    Silent,
}

/// A process that was found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Told {
    /// Its number here; 0 if it has none.
    pub pid: u32,
    /// Its user.
    pub uid: u32,
    /// What came of asking.
    pub answer: Answer,
}

/// Asks all processes of this network namespace that take part in a protocol; all answers together
/// may take so long. One that has ended meanwhile is left out.
///
/// # Errors
/// The kernel's list cannot be read.
pub fn ask(protocol: &str, patience: Duration) -> io::Result<Vec<Told>> {
    // other programs' names may be any bytes
    let list = std::fs::read("/proc/net/unix")?;
    let names = names(&String::from_utf8_lossy(&list), protocol);
    let end = Instant::now() + patience;
    // all are asked before one is waited for
    let asked: Vec<_> = names.iter().filter_map(|name| Asked::begin(name)).collect();
    let told = asked.into_iter().filter_map(|asked| asked.told(end));
    Ok(told.collect())
}

/// Names of sockets that listen for a protocol.
fn names(list: &str, protocol: &str) -> Vec<String> {
    let prefix = prefix(protocol);
    let name = |line: &str| {
        let mut words = line.split_ascii_whitespace();
        let (flags, path) = (words.nth(3)?, words.nth(3)?);
        let name = path.strip_prefix('@')?;
        let hex = name.strip_prefix(&prefix)?;
        let is_one = flags == LISTENS
            && hex.len() == 32
            && hex.bytes().all(|digit| digit.is_ascii_hexdigit());
        is_one.then(|| name.to_owned())
    };
    list.lines().filter_map(name).collect()
}

struct Asked {
    socket: Option<OwnedFd>,
    pid: u32,
    uid: u32,
}

impl Asked {
    /// None: the process is gone.
    fn begin(name: &str) -> Option<Asked> {
        let socket = socket().ok()?;
        let address = SocketAddrUnix::new_abstract_name(name.as_bytes()).ok()?;
        match rustix::net::connect(&socket, &address) {
            Ok(()) => {
                let (pid, uid) = credentials(socket.as_fd()).ok()?;
                let socket = Some(socket);
                Some(Asked { socket, pid, uid })
            }
            Err(Errno::CONNREFUSED) => None,
            // too many wait there
            Err(_) => Some(Asked {
                socket: None,
                pid: 0,
                uid: own_user(),
            }),
        }
    }

    fn told(self, end: Instant) -> Option<Told> {
        let Asked { socket, pid, uid } = self;
        let may_ask = own_user() == 0 || own_user() == uid;
        let text = socket
            .filter(|_| may_ask)
            .and_then(|socket| read(&socket, end));
        let answer = match text {
            Some(text) => Answer::Text(text),
            None if !may_ask => Answer::OfAnotherUser,
            None if !lives(pid) => return None,
            None => Answer::Silent,
        };
        Some(Told { pid, uid, answer })
    }
}

fn lives(pid: u32) -> bool {
    let pid = i32::try_from(pid)
        .ok()
        .and_then(rustix::process::Pid::from_raw);
    // one that may not be asked lives
    pid.is_none_or(|pid| rustix::process::test_kill_process(pid) != Err(Errno::SRCH))
}

/// The answer, if it comes in time.
fn read(socket: &OwnedFd, end: Instant) -> Option<String> {
    loop {
        let left = end.saturating_duration_since(Instant::now());
        let time = Timespec::try_from(left).ok()?;
        let mut polled = [PollFd::new(socket, PollFlags::IN)];
        match rustix::event::poll(&mut polled, Some(&time)) {
            Ok(0) => return None,
            Ok(_) => break,
            Err(Errno::INTR) => {}
            Err(_) => return None,
        }
    }
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
    let mut parts = [IoSliceMut::new(&mut byte)];
    let received = rustix::net::recvmsg(socket, &mut parts, &mut ancillary, flags).ok()?;
    let mut fds = ancillary.drain().flat_map(|message| match message {
        RecvAncillaryMessage::ScmRights(fds) => fds.collect(),
        _ => Vec::new(),
    });
    let file = fds.next().filter(|_| received.bytes == 1)?;
    // another file could let who reads it wait
    if rustix::fs::fcntl_get_seals(&file).ok()? != SEALS {
        return None;
    }
    let file = File::from(file);
    let length = file.metadata().ok()?.len();
    let mut text = vec![
        0;
        usize::try_from(length)
            .ok()
            .filter(|_| length <= MOST_BYTES)?
    ];
    file.read_exact_at(&mut text, 0).ok()?;
    String::from_utf8(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(20);

    #[test]
    fn names_are_those_that_listen_for_the_protocol() {
        let line = |flags: &str, name: &str| {
            format!("0000000000000001: 00000002 00000000 {flags} 0005 01 100 {name}\n")
        };
        let hex = "000102030405060708090a0b0c0d0e0f";
        let list = [
            line(LISTENS, &format!("@ferriband-test-{hex}")),
            line("00000000", &format!("@ferriband-test-{hex}")),
            line(LISTENS, &format!("@ferriband-other-{hex}")),
            line(LISTENS, "@ferriband-test-0001"),
            line(LISTENS, &format!("@ferriband-test-+{}", &hex[1..])),
            line(LISTENS, ""),
        ];
        let expected = [format!("ferriband-test-{hex}")];
        assert_eq!(names(&list.concat(), "test"), expected);
    }

    #[test]
    fn a_long_answer_comes_whole_from_each_process_that_is_asked() {
        let protocol = format!("test{}", std::process::id());
        let long = "many words ".repeat(1 << 17);
        let tellers = [(); 2].map(|()| Teller::listen(&protocol).unwrap());
        std::thread::scope(|scope| {
            for teller in &tellers {
                let long = &long;
                scope.spawn(move || {
                    let mut polled = [PollFd::from_borrowed_fd(teller.fd(), PollFlags::IN)];
                    rustix::event::poll(&mut polled, None).unwrap();
                    teller.answer(|| long.clone());
                });
            }
            let told = ask(&protocol, PATIENCE).unwrap();
            let expected = Told {
                pid: std::process::id(),
                uid: own_user(),
                answer: Answer::Text(long.clone()),
            };
            assert_eq!(told.len(), 2);
            assert!(told.iter().all(|told| *told == expected));
        });
    }

    #[test]
    fn who_does_not_answer_is_silent_and_who_is_gone_is_left_out() {
        let protocol = format!("silent{}", std::process::id());
        let teller = Teller::listen(&protocol).unwrap();
        let told = ask(&protocol, Duration::from_millis(50)).unwrap();
        assert_eq!(told[0].answer, Answer::Silent);
        drop(teller);
        assert_eq!(ask(&protocol, PATIENCE).unwrap(), []);
    }
}
