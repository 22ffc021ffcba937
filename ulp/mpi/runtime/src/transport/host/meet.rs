//! How ranks that no launcher of ours has started come to one segment: at an abstract socket of the
//! job's name, which goes with the process that bound it.
//!
//! The first to come makes segment and bells and gives them to the others. Both sides look who the
//! other one is: a name can be bound by anybody, a uid cannot be claimed.

use super::Host;
use super::bell::Bells;
use super::segment::Segment;
use ferriband_host::Event;
use ferriband_launch::inherit;
use ferriband_mpi_proto::segment::{Layout, slot};
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::time::{Duration, Instant};

/// Tries to come to the meeting for so long: who bound the name may not listen yet, or may be gone
/// just now.
const PATIENCE: Duration = Duration::from_secs(120);
/// Descriptors in one message; the kernel takes 253.
const MOST: usize = 128;
/// Begins each message of descriptors.
const MAGIC: u32 = 0x3150_4d46;
/// Bytes before the descriptors: magic, rank of the one who made the segment, descriptors in all.
const HEAD: usize = 12;

/// The segment and bells of this host, and perhaps the place where others fetch them.
pub struct Meeting {
    me: u32,
    ranks: u32,
    /// Who made the segment.
    maker: u32,
    /// The segment, then the bells.
    fds: Vec<OwnedFd>,
    listener: Option<UnixListener>,
    segment: Segment,
}

/// The number of the host whose segment rank `maker` has made. It is 0 for ranks that have not
/// come.
pub fn number(maker: u32) -> u32 {
    maker + 1
}

impl Meeting {
    /// Comes to the meeting of the job `job`, as rank `me` of `ranks`.
    pub fn join(job: &str, me: u32, ranks: u32) -> io::Result<Self> {
        let name = SocketAddr::from_abstract_name(name(job, ranks))?;
        let begun = Instant::now();
        let (maker, fds, listener) = loop {
            match UnixListener::bind_addr(&name) {
                Ok(listener) => {
                    listener.set_nonblocking(true)?;
                    break (me, make(ranks)?, Some(listener));
                }
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => (),
                Err(error) => return Err(error),
            }
            match UnixStream::connect_addr(&name) {
                Ok(stream) => {
                    let (maker, fds) = fetch(stream, me, ranks)?;
                    break (maker, fds, None);
                }
                Err(error)
                    if error.kind() == io::ErrorKind::ConnectionRefused
                        && begun.elapsed() < PATIENCE =>
                {
                    std::thread::sleep(Duration::from_millis(1));
                }
                Err(error) => return Err(error),
            }
        };
        let segment = Segment::map(fds[0].try_clone()?)?;
        if segment.layout().ranks() != ranks {
            return Err(bad("the host segment is of another job"));
        }
        let meeting = Self {
            me,
            ranks,
            maker,
            fds,
            listener,
            segment,
        };
        meeting.segment.announce(me, number(maker), cores());
        Ok(meeting)
    }

    /// Gives others what they come for, until nothing has happened for a second or `other` can be
    /// read.
    pub fn serve(&self, other: RawFd) {
        let Some(listener) = &self.listener else {
            inherit::wait_readable(&[other], 1000);
            return;
        };
        if !inherit::wait_readable(&[listener.as_raw_fd(), other], 1000) {
            return;
        }
        while let Ok((stream, _)) = listener.accept() {
            // Who breaks off has its own words for it.
            let _ = self.give(stream);
        }
    }

    fn give(&self, mut stream: UnixStream) -> io::Result<()> {
        if peer_uid(&stream)? != own_uid() {
            return Ok(());
        }
        stream.set_nonblocking(false)?;
        stream.set_read_timeout(Some(Duration::from_secs(30)))?;
        stream.set_write_timeout(Some(Duration::from_secs(30)))?;
        let mut rank = [0; 4];
        stream.read_exact(&mut rank)?;
        let rank = u32::from_ne_bytes(rank);
        if rank >= self.ranks || rank == self.me {
            return Ok(());
        }
        let mut head = [0; HEAD];
        let words = [MAGIC, self.maker, self.fds.len() as u32];
        for (place, word) in head.chunks_exact_mut(4).zip(words) {
            place.copy_from_slice(&word.to_ne_bytes());
        }
        for some in self.fds.chunks(MOST) {
            let fds: Vec<RawFd> = some.iter().map(AsRawFd::as_raw_fd).collect();
            send(&stream, &head, &fds)?;
        }
        Ok(())
    }

    /// All have come that will. The name is free again.
    pub fn end(mut self) -> Host {
        let bells = self.fds.drain(1..).map(IntoRawFd::into_raw_fd).collect();
        Host::new(self.segment, Bells::new(bells), self.me)
    }
}

/// A name that only ranks of one job come to: those of one user who see one another's processes.
fn name(job: &str, ranks: u32) -> String {
    let pids = std::fs::metadata("/proc/self/ns/pid").map_or(0, |meta| meta.ino());
    let text = format!("{job} {ranks} {} {pids}", own_uid());
    // FNV-1a: not against an enemy, who is told by his uid.
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("ferriband-mpi-{hash:016x}")
}

/// The cores that this process may run on: how many, and a number that is the same for the same
/// ones.
fn cores() -> (u32, u64) {
    // SAFETY: a set is plain memory, filled by the call.
    let set = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &raw mut set);
        set
    };
    (0..libc::CPU_SETSIZE as usize)
        // SAFETY: within the set.
        .filter(|core| unsafe { libc::CPU_ISSET(*core, &set) })
        .fold((0, 1), |(count, hash), core| {
            let mixed = (hash ^ core as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            (count + 1, mixed ^ mixed >> 29)
        })
}

/// The segment and the bells.
fn make(ranks: u32) -> io::Result<Vec<OwnedFd>> {
    let layout = Layout::new(ranks, slot(ranks)).ok_or_else(|| {
        bad(&format!(
            "{ranks} ranks; {} can be in a job",
            ferriband_mpi_proto::segment::MAX_RANKS
        ))
    })?;
    let mut fds = vec![Segment::make(layout)?];
    for _ in 0..ranks {
        fds.push(Event::new()?.into());
    }
    Ok(fds)
}

/// Who has made the segment, the segment, and the bells.
fn fetch(mut stream: UnixStream, me: u32, ranks: u32) -> io::Result<(u32, Vec<OwnedFd>)> {
    if peer_uid(&stream)? != own_uid() {
        return Err(bad("another user has the socket where they would meet"));
    }
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(&me.to_ne_bytes())?;
    let mut fds = Vec::new();
    loop {
        let (head, some) = receive(&stream)?;
        let word =
            |at: usize| u32::from_ne_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let (maker, all) = (word(4), word(8) as usize);
        fds.extend(some);
        if word(0) != MAGIC || maker >= ranks || all != ranks as usize + 1 || fds.len() > all {
            return Err(bad("what the first rank sends is of another version"));
        }
        if fds.len() == all {
            return Ok((maker, fds));
        }
    }
}

fn bad(text: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, text.to_owned())
}

/// The user that this process acts for.
pub fn own_uid() -> u32 {
    // SAFETY: the call takes no memory.
    unsafe { libc::geteuid() }
}

/// The user of the process at the other end.
pub fn peer_uid(stream: &UnixStream) -> io::Result<u32> {
    // SAFETY: plain memory that the call fills.
    let mut who: libc::ucred = unsafe { std::mem::zeroed() };
    let mut length = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: a local structure of that size.
    let done = unsafe {
        libc::getsockopt(
            stream.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut who).cast(),
            &raw mut length,
        )
    };
    if done == 0 {
        Ok(who.uid)
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Room for [`MOST`] descriptors, aligned as the kernel wants it.
type Control = [u64; 80];
const _: () = assert!(
    // SAFETY: arithmetic.
    unsafe { libc::CMSG_SPACE((MOST * 4) as u32) } as usize <= size_of::<Control>()
);

fn send(stream: &UnixStream, head: &[u8; HEAD], fds: &[RawFd]) -> io::Result<()> {
    let mut control: Control = [0; 80];
    let bytes = size_of_val(fds);
    let mut part = libc::iovec {
        iov_base: head.as_ptr().cast_mut().cast(),
        iov_len: HEAD,
    };
    // SAFETY: the message points to local memory; the header fits into the control buffer, and the
    // descriptors behind it, as asserted above.
    let sent = unsafe {
        let mut message: libc::msghdr = std::mem::zeroed();
        message.msg_iov = &raw mut part;
        message.msg_iovlen = 1;
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = libc::CMSG_SPACE(bytes as u32) as usize;
        let first = libc::CMSG_FIRSTHDR(&raw const message);
        (*first).cmsg_level = libc::SOL_SOCKET;
        (*first).cmsg_type = libc::SCM_RIGHTS;
        (*first).cmsg_len = libc::CMSG_LEN(bytes as u32) as usize;
        std::ptr::copy_nonoverlapping(fds.as_ptr().cast(), libc::CMSG_DATA(first), bytes);
        libc::sendmsg(stream.as_raw_fd(), &raw const message, libc::MSG_NOSIGNAL)
    };
    match sent {
        sent if sent == HEAD as isize => Ok(()),
        sent if sent < 0 => Err(io::Error::last_os_error()),
        _ => Err(bad("a message went in part")),
    }
}

fn receive(stream: &UnixStream) -> io::Result<([u8; HEAD], Vec<OwnedFd>)> {
    let mut head = [0; HEAD];
    let mut control: Control = [0; 80];
    let mut part = libc::iovec {
        iov_base: head.as_mut_ptr().cast(),
        iov_len: HEAD,
    };
    let mut fds = Vec::new();
    // SAFETY: the message points to local memory; what the kernel has written into the control
    // buffer is read by its own measures.
    let (received, flags) = unsafe {
        let mut message: libc::msghdr = std::mem::zeroed();
        message.msg_iov = &raw mut part;
        message.msg_iovlen = 1;
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = size_of::<Control>();
        let received = libc::recvmsg(
            stream.as_raw_fd(),
            &raw mut message,
            libc::MSG_CMSG_CLOEXEC | libc::MSG_WAITALL,
        );
        let mut next = if received < 0 {
            std::ptr::null_mut()
        } else {
            libc::CMSG_FIRSTHDR(&raw const message)
        };
        while !next.is_null() {
            if (*next).cmsg_level == libc::SOL_SOCKET && (*next).cmsg_type == libc::SCM_RIGHTS {
                let count = ((*next).cmsg_len - libc::CMSG_LEN(0) as usize) / 4;
                let first = libc::CMSG_DATA(next).cast::<RawFd>();
                fds.extend(
                    (0..count).map(|at| OwnedFd::from_raw_fd(first.add(at).read_unaligned())),
                );
            }
            next = libc::CMSG_NXTHDR(&raw const message, next);
        }
        (received, message.msg_flags)
    };
    if received < 0 {
        return Err(io::Error::last_os_error());
    }
    if received != HEAD as isize || flags & libc::MSG_CTRUNC != 0 {
        return Err(bad(
            "what the first rank sends is not whole; are too many files open?",
        ));
    }
    Ok((head, fds))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    #[test]
    fn ranks_of_a_job_come_to_one_segment() {
        const RANKS: u32 = 150;
        let job = format!("test {}", std::process::id());
        let come = AtomicU32::new(0);
        let makers: Vec<u32> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4)
                .map(|rank| {
                    let (job, come) = (&job, &come);
                    scope.spawn(move || {
                        let meeting = Meeting::join(job, rank, RANKS).expect("a meeting");
                        come.fetch_add(1, Ordering::SeqCst);
                        while come.load(Ordering::SeqCst) < 4 {
                            let nobody = std::fs::File::open("/dev/null").expect("null");
                            // The end of a file can always be read: this looks and does not wait.
                            meeting.serve(nobody.as_raw_fd());
                        }
                        let maker = meeting.maker;
                        let host = meeting.end();
                        for other in 0..RANKS {
                            assert_eq!(host.is_near(other), other < 4, "{other}");
                        }
                        assert_eq!(host.host_of(rank), number(maker));
                        maker
                    })
                })
                .collect();
            threads
                .into_iter()
                .map(|thread| thread.join().expect("a rank"))
                .collect()
        });
        assert!(makers.iter().all(|maker| *maker == makers[0]));
        let again = Meeting::join(&job, 1, RANKS).expect("the name is free");
        assert_eq!(again.maker, 1);
    }
}
