//! Getting to know peers: who owns a queue pair number, the handshake, mappings on request, the end.
//!
//! The side that needs a channel connects and offers the pair segment; the other side welcomes it. When both connect at
//! once, the offer of the lower slot stands. Nothing waits here: what is not established yet is tried again.
//!
//! HELLO, WELCOME, READY: a side uses the channel only when the other side has it too. Whoever takes memory back waits
//! for the marks of its peers, so a peer whose marks cannot be seen yet must not reach that memory.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use ferriband_memory::Segment;
use ferriband_memory::host::{
    Control, HostError, MSG_LOOK, MSG_QP_ERROR, MSG_QP_MIGRATE, ProcessRef,
};
use ferriband_memory::mapping::{Backing, PeerMapping};
use ferriband_memory::remote::RemoteProcess;
use ferriband_memory::segment::Access;
use ferriband_memory::wait::{Epoll, EventFd};
use ferriband_transport::direct::Link;
use ferriband_transport::direct::layout::{MAGIC, PAIR_LEN, PROC_IDENTITY, PROC_LEN, PROC_MAGIC};
use ferriband_transport::direct::mark::{self, Revoked};

use crate::lock;
use crate::process::message::{
    MSG_HELLO, MSG_MAP_GONE, MSG_MAP_REPLY, MSG_MAP_REQUEST, MSG_READY, MSG_WELCOME,
};
use crate::process::peers::MapSource;
use crate::progress::Engine;
use crate::qp::PeerLink;
use crate::wire::direct::app::app;

/// Messages taken from one connection before others have their turn.
const MESSAGES: usize = 64;
const GREETING_BYTES: usize = 40;

/// Who greets: the contents of HELLO and WELCOME.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Greeting {
    slot: u32,
    generation: u32,
    pid: i32,
    start_time: u64,
    /// An address at which the greeter's memory holds [`MAGIC`].
    probe: u64,
}

impl Greeting {
    fn encode(&self, kind: u8) -> [u8; GREETING_BYTES] {
        let mut bytes = [0; GREETING_BYTES];
        bytes[0] = kind;
        bytes[4..8].copy_from_slice(&self.slot.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.generation.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.pid.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.start_time.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.probe.to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let word = |at: usize| {
            bytes
                .get(at..at + 4)?
                .try_into()
                .ok()
                .map(u32::from_le_bytes)
        };
        let long = |at: usize| {
            bytes
                .get(at..at + 8)?
                .try_into()
                .ok()
                .map(u64::from_le_bytes)
        };
        Some(Greeting {
            slot: word(4)?,
            generation: word(8)?,
            pid: word(12)? as i32,
            start_time: long(16)?,
            probe: long(24)?,
        })
    }
}

impl Engine {
    /// Names the progress thread, on which it is called, rather than the process: an exec ends that thread and keeps the process's
    /// number, so a peer whose access comes late finds nobody instead of the new program.
    fn greeting(&self) -> Greeting {
        let thread = rustix::thread::gettid().as_raw_nonzero().get();
        Greeting {
            slot: self.process.slot,
            generation: self.process.generation,
            pid: thread,
            start_time: ferriband_memory::remote::start_time(thread).unwrap_or(0),
            probe: self.process.own.base_addr() + PROC_MAGIC as u64,
        }
    }

    /// Connects to peers that are wanted and have no channel. True if some have to be tried again later.
    pub(super) fn connect_pending(&self, epoll: &Epoll) -> bool {
        let mut again = false;
        for link in self.peers.all().iter() {
            if link.ready() || link.dead() || lock(&link.0.control).is_some() {
                continue;
            }
            match self.offer(link, epoll) {
                Ok(()) => {}
                Err(Unreachable::Gone) => self.lose_peer(link),
                Err(Unreachable::Later) => again = true,
            }
        }
        again
    }

    fn offer(&self, link: &PeerLink, epoll: &Epoll) -> Result<(), Unreachable> {
        let process = ProcessRef {
            slot: link.slot(),
            generation: link.0.generation,
        };
        let control = self
            .process
            .registry
            .connect(process)
            .map_err(|error| match error {
                HostError::Gone { .. } => Unreachable::Gone,
                _ => Unreachable::Later,
            })?;
        let pair = Segment::create("ferriband-pair", PAIR_LEN).map_err(|_| Unreachable::Later)?;
        pair.commit(0, PAIR_LEN).map_err(|_| Unreachable::Later)?;
        let (Some(pair_fd), Some(own_fd)) = (pair.fd(), self.process.own.fd()) else {
            return Err(Unreachable::Later);
        };
        control
            .send(
                &self.greeting().encode(MSG_HELLO),
                &[pair_fd, own_fd, self.process.bell.as_fd()],
            )
            .map_err(|_| Unreachable::Later)?;
        *lock(&link.0.offered) = Some(Arc::new(pair));
        self.watch_control(link, control, epoll)
            .map(|_| ())
            .ok_or(Unreachable::Later)
    }

    /// Makes a connection the peer's, replacing another.
    fn watch_control(
        &self,
        link: &PeerLink,
        control: Control,
        epoll: &Epoll,
    ) -> Option<Arc<Control>> {
        epoll.add(&control, u64::from(link.slot()), false).ok()?;
        let control = Arc::new(control);
        *lock(&link.0.control) = Some(control.clone());
        Some(control)
    }

    /// New connections: each says HELLO at once.
    pub(super) fn accept(&self, epoll: &Epoll) {
        while let Ok(Some(control)) = self.process.registry.listener().accept() {
            let token = self.next_token();
            if epoll.add(&control, token, false).is_ok() {
                lock(&self.meetings.strangers).insert(token, control);
            }
        }
    }

    /// Something arrived on a connection.
    pub(super) fn control_ready(&self, token: u64, epoll: &Epoll) {
        if token > u64::from(u32::MAX) {
            if !self.hear_life(token, epoll) {
                self.hear_stranger(token, epoll);
            }
            return;
        }
        let Some(link) = self
            .peers
            .all()
            .iter()
            .find(|link| u64::from(link.slot()) == token)
            .cloned()
        else {
            return;
        };
        let Some(control) = lock(&link.0.control).clone() else {
            return;
        };
        let mut buffer = [0; 256];
        for _ in 0..MESSAGES {
            match control.recv(&mut buffer) {
                Ok(Some((length, fds))) => self.hear(&link, &buffer[..length], fds),
                Ok(None) => return,
                Err(_) => return self.hung_up(&link, &control, epoll),
            }
        }
    }

    /// The end of a connection is the end of the peer, unless it was one of two crossing offers.
    fn hung_up(&self, link: &PeerLink, control: &Arc<Control>, epoll: &Epoll) {
        let _ = epoll.remove(&**control);
        let mut current = lock(&link.0.control);
        if current
            .as_ref()
            .is_some_and(|current| Arc::ptr_eq(current, control))
        {
            *current = None;
        }
        drop(current);
        if link.0.channel.get().is_some() {
            self.lose_peer(link);
            // whether it is dead or only hung up, the registry finds out for itself
            self.life_ended(ProcessRef {
                slot: link.slot(),
                generation: link.0.generation,
            });
        }
    }

    fn hear_stranger(&self, token: u64, epoll: &Epoll) {
        let mut strangers = lock(&self.meetings.strangers);
        let Some(control) = strangers.get(&token) else {
            return;
        };
        let mut buffer = [0; 256];
        let received = match control.recv(&mut buffer) {
            Ok(None) => return,
            received => received,
        };
        let Some(control) = strangers.remove(&token) else {
            return;
        };
        drop(strangers);
        let _ = epoll.remove(&control);
        let Ok(Some((length, fds))) = received else {
            // somebody who watched this process's life has ended its own
            if let Some(process) = control.peer() {
                self.life_ended(process);
            }
            return;
        };
        match buffer[0] {
            MSG_HELLO => {}
            ferriband_admin::ASK => return self.answer(&control),
            MSG_LOOK => return self.look_around(&control),
            MSG_QP_ERROR => return self.fail_queue_pairs(&control, &buffer[..length]),
            MSG_QP_MIGRATE => return self.migrate_paths(&control, &buffer[..length]),
            _ => return,
        }
        let Some(greeting) = Greeting::decode(&buffer[..length]) else {
            return;
        };
        let link = self.peer(ProcessRef {
            slot: greeting.slot,
            generation: greeting.generation,
        });
        if link.0.channel.get().is_some() || link.0.is_self() {
            return;
        }
        // both connected at once: the offer of the lower slot stands
        if lock(&link.0.control).is_some() && self.process.slot < greeting.slot {
            return;
        }
        let mut fds = fds.into_iter();
        let (Some(pair), Some(table), Some(bell)) = (fds.next(), fds.next(), fds.next()) else {
            return;
        };
        let Ok(pair) = Segment::from_fd(pair, PAIR_LEN, Access::ReadWrite) else {
            return;
        };
        let Some(own_fd) = self.process.own.fd() else {
            return;
        };
        if let Some(old) = lock(&link.0.control).take() {
            let _ = epoll.remove(&*old);
        }
        // from the WELCOME on the peer may reach this process's memory: its marks have to be seen before
        if !self.meet(&link, &greeting, (table, bell), Arc::new(pair)) {
            return;
        }
        let welcomed = self
            .watch_control(&link, control, epoll)
            .is_some_and(|control| {
                control
                    .send(
                        &self.greeting().encode(MSG_WELCOME),
                        &[own_fd, self.process.bell.as_fd()],
                    )
                    .is_ok()
            });
        if !welcomed {
            self.lose_peer(&link);
        }
    }

    fn hear(&self, link: &PeerLink, message: &[u8], fds: Vec<OwnedFd>) {
        match message.first() {
            Some(&MSG_WELCOME) => {
                let Some(greeting) = Greeting::decode(message) else {
                    return;
                };
                let Some(pair) = lock(&link.0.offered).take() else {
                    return;
                };
                let mut fds = fds.into_iter();
                let (Some(table), Some(bell)) = (fds.next(), fds.next()) else {
                    return;
                };
                if self.meet(link, &greeting, (table, bell), pair) {
                    // now the peer may reach this process's memory
                    if let Some(control) = lock(&link.0.control).as_ref() {
                        let _ = control.send(&[MSG_READY], &[]);
                    }
                    self.open(link);
                }
            }
            Some(&MSG_READY) => self.open(link),
            Some(&MSG_MAP_REQUEST) => self.send_mapping(link, message),
            Some(&MSG_MAP_REPLY) => take_mapping(link, message, fds),
            Some(&MSG_MAP_GONE) => self.drop_mapping(link, message),
            None | Some(_) => {}
        }
    }

    /// Establishes the channel; false if what the peer sent is of no use, or there is a channel already.
    fn meet(
        &self,
        link: &PeerLink,
        greeting: &Greeting,
        (table, bell): (OwnedFd, OwnedFd),
        pair: Arc<Segment>,
    ) -> bool {
        let Some(bell) = EventFd::of_peer(bell) else {
            return false;
        };
        let Ok(table) = Segment::from_fd(table, PROC_LEN, Access::ReadWrite) else {
            return false;
        };
        let order = std::sync::atomic::Ordering::Acquire;
        let identity = u64::from(link.slot()) | u64::from(link.0.generation) << 32;
        if table.load(PROC_MAGIC, order) != MAGIC || table.load(PROC_IDENTITY, order) != identity {
            return false;
        }
        let remote = RemoteProcess::open(greeting.pid, greeting.start_time, app())
            .ok()
            .and_then(|mut remote| remote.probe(greeting.probe, MAGIC).any().then_some(remote));
        link.0
            .establish(Arc::new(table), pair, Arc::new(bell), remote)
    }

    /// Both have the channel, and see each other's marks: queue pairs may use it.
    fn open(&self, link: &PeerLink) {
        link.0.open();
        self.mark_pending(link.slot());
        self.wake_senders();
    }

    /// A peer wants to map a region of ours.
    fn send_mapping(&self, link: &PeerLink, message: &[u8]) {
        let Some(id) = message
            .get(4..8)
            .and_then(|b| b.try_into().ok())
            .map(u32::from_le_bytes)
        else {
            return;
        };
        let Some(control) = lock(&link.0.control).clone() else {
            return;
        };
        let maps = lock(&self.peers.maps);
        let mut reply = [0; 32];
        reply[0] = MSG_MAP_REPLY;
        reply[4..8].copy_from_slice(&id.to_le_bytes());
        let sent = match maps.get(&id) {
            Some(MapSource::Segment(segment)) => {
                let Some(fd) = segment.fd() else { return };
                reply[1] = 1;
                reply[16..24].copy_from_slice(&(segment.len() as u64).to_le_bytes());
                control.send(&reply, &[fd])
            }
            Some(MapSource::File(mapping, length)) => {
                reply[1] = u8::from(mapping.writable);
                reply[8..16].copy_from_slice(&mapping.offset.to_le_bytes());
                reply[16..24].copy_from_slice(&length.to_le_bytes());
                match &mapping.backing {
                    Backing::SysV(shmid) => {
                        reply[2] = 1;
                        reply[24..28].copy_from_slice(&shmid.to_le_bytes());
                        control.send(&reply, &[])
                    }
                    Backing::File(fd) => control.send(&reply, &[fd.as_fd()]),
                }
            }
            Some(MapSource::Gone) | None => return,
        };
        if sent.is_ok() {
            lock(&self.peers.map_holders).push((id, link.clone()));
        }
    }

    /// A region of the peer is deregistered: what we mapped of it would keep its memory from being freed.
    fn drop_mapping(&self, link: &PeerLink, message: &[u8]) {
        if let Some(id) = message
            .get(4..8)
            .and_then(|b| b.try_into().ok())
            .map(u32::from_le_bytes)
        {
            link.0.drop_maps(Some(id), || self.reaches(link));
        }
    }

    /// True while a thread of this process is in the middle of an access to a peer.
    pub(super) fn reaches(&self, link: &PeerLink) -> bool {
        mark::in_flight(&**self.process.own, link.slot(), Revoked::Everything)
    }

    pub(super) fn next_token(&self) -> u64 {
        // above every slot, below the fixed tokens
        (1 << 32)
            + (self
                .meetings
                .tokens
                .fetch_add(1, std::sync::atomic::Ordering::Relaxed)
                & 0xffff_ffff)
    }
}

/// A region of the peer, to be mapped here.
fn take_mapping(link: &PeerLink, message: &[u8], fds: Vec<OwnedFd>) {
    let long = |at: usize| {
        message
            .get(at..at + 8)
            .and_then(|b| b.try_into().ok())
            .map(u64::from_le_bytes)
    };
    let word = |at: usize| {
        message
            .get(at..at + 4)
            .and_then(|b| b.try_into().ok())
            .map(u32::from_le_bytes)
    };
    let (Some(id), Some(offset), Some(length), Some(shmid)) =
        (word(4), long(8), long(16), word(24))
    else {
        return;
    };
    let writable = message[1] != 0;
    let mapping = if message[2] == 1 {
        PeerMapping::map_sysv(shmid as i32, offset, length as usize, writable)
    } else {
        let Some(fd) = fds.into_iter().next() else {
            return;
        };
        PeerMapping::map_file(fd.as_fd(), offset, length as usize, writable)
    };
    if let Ok(mapping) = mapping {
        link.0.add_map(id, offset, mapping);
    }
}

enum Unreachable {
    Gone,
    Later,
}
