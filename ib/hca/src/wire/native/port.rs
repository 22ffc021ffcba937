//! Packets of the InfiniBand port: from process to process of this host, as InfiniBand packets
//! (LRH, GRH, BTH to ICRC).
//!
//! Owns: the socket by which a process gets them, what it sends to itself, and the paths there. A
//! message is what the link and network headers say, once, and a run of packets of one size but the
//! last, from BTH to ICRC; there is no VCRC, for no link is passed. Every byte that comes is a
//! stranger's. Must not know what a packet does to a queue pair.
//!
//! The port is one for all processes of a user: one LID, one GID. Who owns the destination's number
//! gets the packet.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::sync::{Arc, Mutex};

use ferriband_memory::Segment;
use ferriband_memory::host::{
    HAND_OVER_BODY, HAND_OVER_HEAD, HandOver, Host, HostError, ProcessRef,
};
use ferriband_memory::wait::EventFd;
use ferriband_transport::direct::layout::PROC_ASLEEP;
use ferriband_wire::Lid;

use super::fabric::Wire;
use super::meta::NativeMeta;
use crate::base::error::Error;
use crate::lock;
use crate::process::numbers::owner_of_packets;
use crate::wire::packets::arrived::destination;

/// Bytes and messages that a process keeps before it handles them.
const INBOX_BYTES: usize = 4 << 20;
const INBOX_MESSAGES: usize = 4096;
const SPARE_MESSAGES: usize = 8;
/// How long a sender waits for room at a process that takes nothing, as one that has no core does
/// for a while.
const ROOM_WAIT_NS: u64 = 100_000_000;
/// Times that it gives its core away before the kernel is to wake it.
const ROOM_YIELDS: usize = 16;
/// What a queue pair may have outstanding: sockets hold few messages, of 64 KiB at most.
pub(crate) const WINDOW_BYTES: u32 = 256 << 10;

/// A message, and the slot of who sent it.
type Message = (Option<u32>, Vec<u8>);

/// Messages that came and are not handled yet: what a process sends to itself, and what it had to
/// take from its socket while it waited for room at another. They come before those that are in the
/// socket.
#[derive(Debug, Default)]
struct Inbox {
    messages: VecDeque<Message>,
    bytes: usize,
    /// Memory of messages that were handled, for the next ones.
    spare: Vec<Vec<u8>>,
    /// Where a message is taken to from the socket.
    room: Vec<u8>,
}

impl Inbox {
    fn has_room(&self, bytes: usize) -> bool {
        self.messages.len() < INBOX_MESSAGES && self.bytes + bytes <= INBOX_BYTES
    }

    fn push(&mut self, from: Option<u32>, parts: [&[u8]; 2]) {
        let mut message = self.spare.pop().unwrap_or_default();
        for part in parts {
            message.extend_from_slice(part);
        }
        self.bytes += message.len();
        self.messages.push_back((from, message));
    }

    /// Takes the oldest message into `room`; gives its length and who sent it.
    fn pop(&mut self, room: &mut [u8]) -> Option<(usize, Option<u32>)> {
        let (from, mut message) = self.messages.pop_front()?;
        let length = message.len();
        self.bytes -= length;
        room[..length].copy_from_slice(&message);
        if self.spare.len() < SPARE_MESSAGES {
            message.clear();
            self.spare.push(message);
        }
        Some((length, from))
    }
}

/// The InfiniBand port's packets, as one process sends and gets them.
#[derive(Debug)]
pub(crate) struct LocalPort {
    pub(in crate::wire) post: HandOver,
    me: ProcessRef,
    lid: Lid,
    /// Locked whenever the socket is read, so that messages keep their order.
    inbox: Mutex<Inbox>,
    /// Slots, modulo 64, for whose room somebody has waited in vain: nobody does again until it
    /// takes something.
    stuck: AtomicU64,
    process: Arc<Segment>,
    bell: Arc<EventFd>,
    /// On a host of a live fabric: the ways there, by port.
    pub fabric: Vec<Wire>,
}

impl LocalPort {
    /// Opens this process's socket.
    ///
    /// # Errors
    /// What the host's registry says.
    pub fn open(host: &Host, process: Arc<Segment>, bell: Arc<EventFd>) -> Result<Self, Error> {
        Ok(LocalPort {
            post: host.packets_over()?,
            me: host.me(),
            lid: host.lid(),
            inbox: Mutex::default(),
            stuck: AtomicU64::new(0),
            process,
            bell,
            fabric: Wire::open_all(),
        })
    }

    /// A port's base LID.
    pub(in crate::wire) fn lid(&self, port: u8) -> Lid {
        crate::device::fabric::port_at(port).map_or(self.lid, |port| Lid(port.lid))
    }

    /// The way into the fabric by a port.
    pub(in crate::wire) fn wire(&self, port: u8) -> Option<&Wire> {
        self.fabric.iter().find(|wire| wire.port() == port)
    }

    /// Puts packets that came from the fabric with those that wait. What is for queue pairs of
    /// other processes of this host they get themselves.
    fn take_from_fabric(&self) {
        for wire in &self.fabric {
            self.take_from(wire);
        }
    }

    fn take_from(&self, wire: &Wire) {
        let registry = self.post.registry();
        wire.receive(|packet| {
            let Some((meta, bytes)) = NativeMeta::of_packet(packet) else {
                return;
            };
            let qpn = destination(bytes);
            let others = |qpn| {
                let owner = owner_of_packets(registry, qpn);
                owner.is_some_and(|owner| owner != self.me)
            };
            if qpn.is_none_or(others) {
                return;
            }
            let head = meta.to_head();
            let mut inbox = lock(&self.inbox);
            if inbox.has_room(head.len() + bytes.len()) {
                inbox.push(None, [&head, bytes]);
            }
        });
    }

    /// What the progress thread waits for.
    pub fn socket(&self) -> &HandOver {
        &self.post
    }

    /// A message was taken from the socket and is not handled yet.
    pub fn has_more(&self) -> bool {
        !lock(&self.inbox).messages.is_empty()
    }

    /// Takes a message that came into `room`; gives its length and who sent it.
    pub fn receive(&self, room: &mut Vec<u8>) -> Option<(usize, Option<u32>)> {
        room.resize(HAND_OVER_HEAD + HAND_OVER_BODY, 0);
        if !self.fabric.is_empty() && lock(&self.inbox).messages.is_empty() {
            self.take_from_fabric();
        }
        let mut inbox = lock(&self.inbox);
        if let Some(message) = inbox.pop(room) {
            return Some(message);
        }
        // of our user, whole and with a head
        let came = self.post.receive(room).ok().flatten();
        came.map(|came| (came.length, came.from))
    }

    /// Takes from the socket what is there, to be handled later: two who wait for room at each
    /// other would wait for ever. True if anything was.
    fn make_room(&self) -> bool {
        let mut inbox = lock(&self.inbox);
        let mut room = std::mem::take(&mut inbox.room);
        room.resize(HAND_OVER_HEAD + HAND_OVER_BODY, 0);
        let before = inbox.messages.len();
        while inbox.has_room(room.len())
            && let Ok(Some(came)) = self.post.receive(&mut room)
        {
            inbox.push(came.from, [&room[..came.length], &[]]);
        }
        let made = inbox.messages.len() > before;
        inbox.room = room;
        drop(inbox);
        if made {
            self.wake();
        }
        made
    }

    /// Whoever sets the sleeping word looks at the inbox after that.
    fn wake(&self) {
        fence(Ordering::SeqCst);
        if self.process.load(PROC_ASLEEP, Ordering::Relaxed) != 0 {
            self.bell.signal(1);
        }
    }

    /// Gives a message to a process. False if it found no room; to who is gone, or takes no
    /// packets, it is lost, and on a wire nobody hears of that.
    pub(in crate::wire) fn give(
        &self,
        to: ProcessRef,
        head: &[u8; HAND_OVER_HEAD],
        body: &[u8],
    ) -> bool {
        self.given(to, head, body)
            .unwrap_or_else(|error| matches!(error, HostError::Gone { .. }))
    }

    pub(in crate::wire) fn given(
        &self,
        to: ProcessRef,
        head: &[u8; HAND_OVER_HEAD],
        body: &[u8],
    ) -> Result<bool, HostError> {
        if to == self.me {
            return Ok(self.give_own(head, body));
        }
        match self.post.send(to, head, body) {
            Ok(()) => {
                let bit = stuck_bit(to);
                if self.stuck.load(Ordering::Relaxed) & bit != 0 {
                    self.stuck.fetch_and(!bit, Ordering::Relaxed);
                }
                Ok(true)
            }
            Err(HostError::Busy { .. }) => self.give_in_time(to, head, body),
            Err(error) => Err(error),
        }
    }

    /// There is no room: what comes faster than it is taken waits, as it does for credits on a
    /// link, unless it is not taken at all.
    #[cold]
    fn give_in_time(
        &self,
        to: ProcessRef,
        head: &[u8; HAND_OVER_HEAD],
        body: &[u8],
    ) -> Result<bool, HostError> {
        if self.stuck.load(Ordering::Relaxed) & stuck_bit(to) != 0 {
            return Ok(false);
        }
        let until = ferriband_memory::wait::now().0 + ROOM_WAIT_NS;
        let mut yields = 0;
        while ferriband_memory::wait::now().0 < until {
            self.make_room();
            let sent = if yields < ROOM_YIELDS {
                yields += 1;
                std::thread::yield_now();
                self.post.send(to, head, body)
            } else {
                self.post.send_in_time(to, head, body)
            };
            match sent {
                Ok(()) => return Ok(true),
                Err(HostError::Busy { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        self.stuck.fetch_or(stuck_bit(to), Ordering::Relaxed);
        Ok(false)
    }

    fn give_own(&self, head: &[u8], body: &[u8]) -> bool {
        let mut inbox = lock(&self.inbox);
        if !inbox.has_room(head.len() + body.len()) {
            return false;
        }
        inbox.push(Some(self.me.slot), [head, body]);
        drop(inbox);
        self.wake();
        true
    }
}

fn stuck_bit(process: ProcessRef) -> u64 {
    1 << (process.slot % u64::BITS)
}
