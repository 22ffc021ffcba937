//! A port of a running ibsim, without the library that shows programs its ports: management packets by the simulator's own sockets (linux-rdma/ibsim: include/ibsim.h).
//!
//! The library costs a thread and two changes of threads for each packet, which are more than the simulator's own work. Here packets go and come in batches, by several clients' places
//! at the same port ([`Line`]): the simulator takes one packet of each client when it looks for work, and the kernel lets a socket of its kind hold ten packets (net.unix.max_dgram_qlen).
//! Each place has two sockets, that of questions to the simulator (who am I) and that of packets.

use crate::failure::Failure;
use ferriband_wire::Header;
use ferriband_wire::mad::MAD_LEN;
use ferriband_wire::smp::Smp;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, IoSlice};
use rustix::net::{
    AddressFamily, MMsgHdr, RecvFlags, SendAncillaryBuffer, SendFlags, SocketAddrUnix, SocketFlags,
    SocketType, bind, connect, recv, send, sendmmsg, socket_with,
};
use std::collections::VecDeque;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

/// Of a question: magic, client, what is asked, bytes, data.
const QUESTION_BYTES: usize = 16 + 64;
const MAGIC: u32 = 0xdead_beef;
/// What is asked.
const CONNECT: u32 = 1;
const DISCONNECT: u32 = 2;
const GET_PORT_INFO: u32 = 8;
/// Of a packet: four addresses, a status, padding, a length, the packet.
const PACKET_BYTES: usize = 32 + MAD_LEN;
/// The permissive LID, as it stands in an address: two bytes of big-endian at the beginning of four.
const PERMISSIVE: [u8; 4] = [0xff, 0xff, 0, 0];
/// Packets that go by one call.
const BATCH: usize = 16;
/// Places that are asked for, of ten that the simulator has.
const LINES: u32 = 4;
/// How long it looks for an answer again and again before it sleeps.
const EAGER: Duration = Duration::from_micros(50);
/// How long the simulator may take to say who we are.
const PATIENCE: Timespec = Timespec {
    tv_sec: 10,
    tv_nsec: 0,
};

/// A client's place.
struct Line {
    questions: OwnedFd,
    packets: OwnedFd,
    client: u32,
}

/// The port.
pub struct Ibsim {
    lines: Vec<Line>,
    /// Who sends next.
    next: usize,
    going: VecDeque<[u8; PACKET_BYTES]>,
    coming: VecDeque<Smp>,
}

fn failed(what: &str, errno: Errno) -> Failure {
    Failure::io(what, "ibsim", &errno.into()).remedy(
        "start it (ibsim -s FILE), and name it and the host: IBSIM_SOCKNAME (default sim), SIM_HOST (default: its first host)",
    )
}

/// A name of the simulator's, whose end it counts in.
fn address(name: &str) -> rustix::io::Result<SocketAddrUnix> {
    SocketAddrUnix::new_abstract_name(format!("{name}\0").as_bytes())
}

fn socket(name: &str, to: Option<&str>) -> Result<OwnedFd, Failure> {
    let made = || {
        let flags = SocketFlags::CLOEXEC;
        let fd = socket_with(AddressFamily::UNIX, SocketType::DGRAM, flags, None)?;
        bind(&fd, &address(name)?)?;
        if let Some(to) = to {
            connect(&fd, &address(to)?)?;
        }
        Ok(fd)
    };
    made().map_err(|errno| failed("connect to", errno))
}

/// Waits until a socket has something, or room; false if it was too long.
fn wait(fds: &mut [PollFd], patience: &Timespec) -> Result<bool, Failure> {
    match poll(fds, Some(patience)) {
        Ok(ready) => Ok(ready > 0),
        Err(Errno::INTR) => Ok(true),
        Err(errno) => Err(failed("wait for", errno)),
    }
}

/// Takes up to [`BATCH`] packets by one call, without waiting: how many there were. What has not a packet's length is none, and reads as one that was not delivered.
fn receive_many(fd: &OwnedFd, packets: &mut [[u8; PACKET_BYTES]; BATCH]) -> Result<usize, Failure> {
    let mut parts = packets.each_mut().map(|packet| libc::iovec {
        iov_base: packet.as_mut_ptr().cast(),
        iov_len: PACKET_BYTES,
    });
    let mut heads = parts.each_mut().map(|part| {
        // SAFETY: a C structure of numbers and pointers, all of which may be zero.
        let mut head: libc::mmsghdr = unsafe { std::mem::zeroed() };
        (head.msg_hdr.msg_iov, head.msg_hdr.msg_iovlen) = (part, 1);
        head
    });
    loop {
        // SAFETY: as many heads as are said, each with room for a packet.
        let came = unsafe {
            libc::recvmmsg(
                fd.as_raw_fd(),
                heads.as_mut_ptr(),
                BATCH as u32,
                libc::MSG_DONTWAIT,
                std::ptr::null_mut(),
            )
        };
        match usize::try_from(came) {
            Ok(came) => {
                for (packet, head) in packets.iter_mut().zip(&heads[..came]) {
                    if head.msg_len as usize != PACKET_BYTES {
                        // its status
                        packet[16..20].fill(0xff);
                    }
                }
                return Ok(came);
            }
            Err(_) => match Errno::from_io_error(&std::io::Error::last_os_error()) {
                Some(Errno::AGAIN) => return Ok(0),
                Some(Errno::INTR) => {}
                errno => return Err(failed("hear from", errno.unwrap_or(Errno::IO))),
            },
        }
    }
}

impl Line {
    /// `id`: a number that no other client has.
    fn open(base: &str, host: &str, id: u32) -> Result<Line, Failure> {
        let mut line = Line {
            questions: socket(&format!("{base}:ctl{id}"), Some(&format!("{base}:ctl")))?,
            packets: socket(&format!("{base}:in{id}"), None)?,
            client: 0,
        };
        // who: its own number, queue pair 0, not the one for requests, and the host's name
        let mut data = [0; 64];
        data[..4].copy_from_slice(&id.to_ne_bytes());
        let length = host.len().min(31);
        data[12..12 + length].copy_from_slice(&host.as_bytes()[..length]);
        let answer = line.ask(CONNECT, &data)?;
        line.client = u32::from_ne_bytes([answer[0], answer[1], answer[2], answer[3]]);
        let out = address(&format!("{base}:out{}", line.client));
        out.and_then(|out| connect(&line.packets, &out))
            .map_err(|errno| failed("connect to", errno))?;
        Ok(line)
    }

    /// Asks the simulator something.
    fn ask(&self, what: u32, data: &[u8; 64]) -> Result<[u8; 64], Failure> {
        let mut question = [0; QUESTION_BYTES];
        let words = [MAGIC, self.client, what, data.len() as u32];
        for (at, word) in words.into_iter().enumerate() {
            question[4 * at..][..4].copy_from_slice(&word.to_ne_bytes());
        }
        question[16..].copy_from_slice(data);
        let sent = send(&self.questions, &question, SendFlags::NOSIGNAL);
        sent.map_err(|errno| failed("ask", errno))?;
        let mut fd = [PollFd::new(&self.questions, PollFlags::IN)];
        if !wait(&mut fd, &PATIENCE)? {
            return Err(Failure::new("ibsim does not answer"));
        }
        let mut answer = [0; QUESTION_BYTES];
        let (got, _) = recv(&self.questions, &mut answer[..], RecvFlags::DONTWAIT)
            .map_err(|errno| failed("hear from", errno))?;
        // the kind of an answer is that of its question, or 0 for an error
        if got != QUESTION_BYTES || answer[8..12] != what.to_ne_bytes() {
            return Err(Failure::new(
                "ibsim refuses: it knows no such host, or has no room for another client",
            ));
        }
        let mut data = [0; 64];
        data.copy_from_slice(&answer[16..]);
        Ok(data)
    }

    /// Sends what finds room: how many.
    fn send(&self, packets: &VecDeque<[u8; PACKET_BYTES]>) -> Result<usize, Failure> {
        let mut controls: [_; BATCH] = std::array::from_fn(|_| SendAncillaryBuffer::default());
        let parts = packets.iter().take(BATCH);
        let parts: Vec<_> = parts.map(|packet| [IoSlice::new(packet)]).collect();
        let heads = parts.iter().zip(&mut controls);
        let mut heads: Vec<_> = heads
            .map(|(part, control)| MMsgHdr::new(part, control))
            .collect();
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        match sendmmsg(&self.packets, &mut heads, flags) {
            Ok(some) => Ok(some),
            // its queue is full: what is read next makes room
            Err(Errno::AGAIN | Errno::INTR) => Ok(0),
            Err(errno) => Err(failed("send to", errno)),
        }
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        // it has few places for clients; if it is gone already there is nothing to give back
        let _ = self.ask(DISCONNECT, &[0; 64]);
    }
}

impl Ibsim {
    /// At the host that SIM_HOST names, or at the simulator's first.
    pub fn open() -> Result<Ibsim, Failure> {
        let variable = |name, default: &str| {
            let set = std::env::var(name).ok().filter(|set| !set.is_empty());
            set.unwrap_or_else(|| default.to_owned())
        };
        let (base, host) = (variable("IBSIM_SOCKNAME", "sim"), variable("SIM_HOST", ""));
        // beyond all processes' numbers, which the library's clients have
        let own = 1 << 27 | std::process::id() << 4;
        let mut lines = vec![Line::open(&base, &host, own)?];
        // if others have the simulator's places, fewer do
        lines.extend((1..LINES).map_while(|line| Line::open(&base, &host, own | line).ok()));
        Ok(Ibsim {
            lines,
            next: 0,
            going: VecDeque::new(),
            coming: VecDeque::new(),
        })
    }

    /// The number of the port that we are at.
    pub fn port(&self) -> Result<u8, Failure> {
        // where PortInfo has LocalPortNum
        Ok(self.lines[0].ask(GET_PORT_INFO, &[0; 64])?[28])
    }

    /// Sends a packet, with others that are sent before the next one is taken.
    pub fn send(&mut self, smp: &Smp) {
        let mut packet = [0; PACKET_BYTES];
        packet[..4].copy_from_slice(&PERMISSIVE);
        packet[4..8].copy_from_slice(&PERMISSIVE);
        packet[24..32].copy_from_slice(&(MAD_LEN as u64).to_be_bytes());
        if smp.emit(&mut packet[32..]).is_ok() {
            self.going.push_back(packet);
        }
    }

    fn flush(&mut self) -> Result<(), Failure> {
        let mut full = 0;
        while !self.going.is_empty() && full < self.lines.len() {
            let line = &self.lines[self.next];
            self.next = (self.next + 1) % self.lines.len();
            let sent = line.send(&self.going)?;
            self.going.drain(..sent);
            full = if sent == 0 { full + 1 } else { 0 };
        }
        Ok(())
    }

    /// Takes what has come. What the simulator could not deliver is lost: who has asked asks again.
    fn take(&mut self) -> Result<(), Failure> {
        let mut packets = [[0_u8; PACKET_BYTES]; BATCH];
        for line in &self.lines {
            let came = receive_many(&line.packets, &mut packets)?;
            let came = packets[..came].iter();
            let delivered = came.filter(|packet| packet[16..20] == [0; 4]);
            self.coming
                .extend(delivered.filter_map(|packet| Smp::parse_mad(&packet[32..]).ok()));
        }
        Ok(())
    }

    /// The next packet, if one comes in time.
    pub fn receive(&mut self, patience_ms: i32) -> Result<Option<Smp>, Failure> {
        if let Some(smp) = self.coming.pop_front() {
            return Ok(Some(smp));
        }
        let begun = Instant::now();
        let patience = Duration::from_millis(u64::try_from(patience_ms).unwrap_or(0));
        loop {
            self.flush()?;
            self.take()?;
            if let Some(smp) = self.coming.pop_front() {
                return Ok(Some(smp));
            }
            let waited = begun.elapsed();
            if waited < EAGER {
                std::hint::spin_loop();
                continue;
            }
            let Some(left) = patience.checked_sub(waited) else {
                return Ok(None);
            };
            let left = Timespec {
                tv_sec: left.as_secs() as i64,
                tv_nsec: left.subsec_nanos().into(),
            };
            let mut wanted = PollFlags::IN;
            if !self.going.is_empty() {
                wanted |= PollFlags::OUT;
            }
            let lines = self.lines.iter();
            let mut fds: Vec<_> = lines
                .map(|line| PollFd::new(&line.packets, wanted))
                .collect();
            wait(&mut fds, &left)?;
        }
    }
}
