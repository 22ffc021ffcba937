//! Packets of the InfiniBand port: from process to process of this host, as InfiniBand packets (LRH, GRH, BTH to ICRC).
//!
//! Owns: the socket by which a process gets them, what it sends to itself, and the paths there. A message is what the link and
//! network headers say, once, and a run of packets of one size but the last, from BTH to ICRC; there is no VCRC, for no link is passed.
//! Every byte that comes is a stranger's. Must not know what a packet does to a queue pair.
//!
//! The port is one for all processes of a user: one LID, one GID. Who owns the destination's number gets the packet.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::sync::{Arc, Mutex};

use ferriband_admin::PathReport;
use ferriband_memory::Segment;
use ferriband_memory::host::{
    HAND_OVER_BODY, HAND_OVER_HEAD, HandOver, Host, HostError, ProcessRef, Registry,
};
use ferriband_memory::wait::EventFd;
use ferriband_transport::direct::layout::PROC_ASLEEP;
use ferriband_transport::types::AddressVector;
use ferriband_wire::{
    Gid, Grh, Lid, LinkNext, Lrh, NativeHeaders, NativePacket, NextHeader, Qpn, Sl, VCRC_LEN, Vl,
};

use crate::base::error::Error;
use crate::device::Device;
use crate::device::fabric::Wire;
use crate::lock;
use crate::progress::Engine;

/// Bytes and messages that a process keeps before it handles them.
const INBOX_BYTES: usize = 4 << 20;
const INBOX_MESSAGES: usize = 4096;
const SPARE_MESSAGES: usize = 8;
/// How long a sender waits for room at a process that takes nothing, as one that has no core does for a while.
const ROOM_WAIT_NS: u64 = 100_000_000;
/// Times that it gives its core away before the kernel is to wake it.
const ROOM_YIELDS: usize = 16;
/// What a queue pair may have outstanding: sockets hold few messages, of 64 KiB at most.
pub(super) const WINDOW_BYTES: u32 = 256 << 10;
/// A BTH and an ICRC: what any packet has.
const LEAST_PACKET: u16 = 16;
/// First byte of a message's head.
const HEAD_PACKETS: u8 = b'I';
/// Second byte: there is a GRH.
const HAS_GRH: u8 = 1;

/// What is known of a run of packets that came.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct NativeMeta {
    /// Below the transport header.
    pub headers: NativeHeaders,
    /// Bytes of each packet but the last; what comes has no room for less than a BTH and an ICRC.
    pub segment: u16,
    /// Slot of the process that sent them, as the kernel says it.
    pub from: Option<u32>,
}

impl NativeMeta {
    pub fn to_head(self) -> [u8; HAND_OVER_HEAD] {
        let mut head = [0; HAND_OVER_HEAD];
        let lrh = &self.headers.lrh;
        head[0] = HEAD_PACKETS;
        head[2] = lrh.sl.0;
        head[4..6].copy_from_slice(&self.segment.to_be_bytes());
        head[6..8].copy_from_slice(&lrh.slid.0.to_be_bytes());
        head[8..10].copy_from_slice(&lrh.dlid.0.to_be_bytes());
        if let Some(grh) = &self.headers.grh {
            head[1] = HAS_GRH;
            (head[3], head[10]) = (grh.hop_limit, grh.traffic_class);
            head[12..16].copy_from_slice(&grh.flow_label.to_be_bytes());
            head[16..32].copy_from_slice(&grh.sgid.0);
            head[32..48].copy_from_slice(&grh.dgid.0);
        }
        head
    }

    /// Of a whole packet, LRH to VCRC, and its bytes from BTH to ICRC; None for what is none.
    fn of_packet(packet: &[u8]) -> Option<(Self, &[u8])> {
        NativePacket::check_vcrc(packet).ok()?;
        let body = packet.len().checked_sub(VCRC_LEN)?;
        let (lrh, next, length, _) = Lrh::parse(packet).ok()?;
        let rest = packet.get(Lrh::LEN..body)?;
        let (grh, bytes) = match next {
            LinkNext::Transport => (None, rest),
            LinkNext::Global => {
                let (grh, length, bytes) = Grh::parse(rest, NextHeader::Transport).ok()?;
                (length == bytes.len()).then_some((Some(grh), bytes))?
            }
            _ => return None,
        };
        let segment = u16::try_from(bytes.len()).ok()?;
        let headers = NativeHeaders { lrh, grh };
        (length == body && segment >= LEAST_PACKET).then_some((
            NativeMeta {
                headers,
                segment,
                from: None,
            },
            bytes,
        ))
    }

    /// From a message's head, and who sent it; None if it is none of ours.
    pub fn read(head: &[u8], from: Option<u32>) -> Option<Self> {
        let head: &[u8; HAND_OVER_HEAD] = head.try_into().ok()?;
        let half = |at: usize| u16::from_be_bytes([head[at], head[at + 1]]);
        let gid = |at: usize| Some(Gid(head.get(at..at + 16)?.try_into().ok()?));
        let known = head[0] == HEAD_PACKETS && head[1] & !HAS_GRH == 0 && head[2] < 16;
        let segment = half(4);
        if !known || segment < LEAST_PACKET || head[12] != 0 || head[13] > 0xf {
            return None;
        }
        let grh = match head[1] {
            0 => None,
            _ => Some(Grh {
                traffic_class: head[10],
                flow_label: u32::from_be_bytes([0, head[13], head[14], head[15]]),
                hop_limit: head[3],
                sgid: gid(16)?,
                dgid: gid(32)?,
            }),
        };
        Some(NativeMeta {
            headers: NativeHeaders {
                lrh: Lrh {
                    vl: Vl(0),
                    sl: Sl(head[2]),
                    dlid: Lid(half(8)),
                    slid: Lid(half(6)),
                },
                grh,
            },
            segment,
            from,
        })
    }
}

/// A message, and the slot of who sent it.
type Message = (Option<u32>, Vec<u8>);

/// Messages that came and are not handled yet: what a process sends to itself, and what it had to take from its socket while it waited
/// for room at another. They come before those that are in the socket.
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
    post: HandOver,
    me: ProcessRef,
    lid: Lid,
    /// Locked whenever the socket is read, so that messages keep their order.
    inbox: Mutex<Inbox>,
    /// Slots, modulo 64, for whose room somebody has waited in vain: nobody does again until it takes something.
    stuck: AtomicU64,
    process: Arc<Segment>,
    bell: Arc<EventFd>,
    /// On a host of a live fabric: the way there.
    pub fabric: Option<Wire>,
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
            fabric: Wire::open(),
        })
    }

    /// The port's LID.
    fn lid(&self) -> Lid {
        crate::device::fabric::port().map_or(self.lid, |port| Lid(port.lid))
    }

    /// Puts packets that came from the fabric with those that wait. What is for queue pairs of other processes of this host they get themselves.
    fn take_from_fabric(&self) {
        let Some(wire) = &self.fabric else { return };
        let registry = self.post.registry();
        wire.receive(|packet| {
            let Some((meta, bytes)) = NativeMeta::of_packet(packet) else {
                return;
            };
            let qpn = super::rx::destination(bytes);
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
        if self.fabric.is_some() && lock(&self.inbox).messages.is_empty() {
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

    /// Takes from the socket what is there, to be handled later: two who wait for room at each other would wait for ever. True if
    /// anything was.
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

    /// Gives a message to a process. False if it found no room; to who is gone, or takes no packets, it is lost, and on a wire nobody
    /// hears of that.
    fn give(&self, to: ProcessRef, head: &[u8; HAND_OVER_HEAD], body: &[u8]) -> bool {
        self.given(to, head, body)
            .unwrap_or_else(|error| matches!(error, HostError::Gone { .. }))
    }

    fn given(
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

    /// There is no room: what comes faster than it is taken waits, as it does for credits on a link, unless it is not taken at all.
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
        let until = Engine::now().0 + ROOM_WAIT_NS;
        let mut yields = 0;
        while Engine::now().0 < until {
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

/// Who gets the packets of a path.
#[derive(Clone, Copy, Debug)]
enum To {
    /// Whoever owns this queue pair.
    Queue(u32),
    /// A port of the fabric that this host is in.
    Fabric,
    /// All members of a group.
    Group(Gid),
    /// The connection manager of this process.
    Process(ProcessRef),
    /// No port has the address.
    Nobody,
}

/// A path by the InfiniBand port.
#[derive(Clone, Debug)]
pub(crate) struct HostPath {
    port: Arc<LocalPort>,
    headers: NativeHeaders,
    to: To,
    target: IpAddr,
}

impl HostPath {
    /// The path of an address vector.
    ///
    /// # Errors
    /// `Invalid` for an index of an empty entry of the GID table.
    pub fn resolve(
        port: &Arc<LocalPort>,
        device: &Device,
        av: &AddressVector,
        remote_qpn: u32,
    ) -> Result<Self, Error> {
        let source = device.gid(av.sgid_index.into());
        let grh = match (av.is_global, source) {
            (false, _) => None,
            (true, None) => return Err(Error::Invalid("the entry of the GID table is empty")),
            (true, Some(source)) => Some(Grh {
                traffic_class: av.traffic_class,
                flow_label: av.flow_label & 0xf_ffff,
                hop_limit: av.hop_limit,
                sgid: source.gid,
                dgid: av.dgid,
            }),
        };
        let to = match grh {
            Some(grh) if grh.dgid.is_multicast() => To::Group(grh.dgid),
            _ if device.is_local(av) => To::Queue(remote_qpn),
            _ if port.fabric.is_some() => To::Fabric,
            _ => To::Nobody,
        };
        // by its GID alone this port is meant, too
        let dlid = match (av.dlid, to) {
            (Lid(0), To::Queue(_)) => port.lid(),
            (dlid, _) => dlid,
        };
        Ok(HostPath {
            port: port.clone(),
            headers: NativeHeaders {
                lrh: Lrh {
                    vl: Vl(0),
                    sl: Sl(av.sl.0 & 0xf),
                    dlid,
                    slid: port.lid(),
                },
                grh,
            },
            to,
            target: address(device),
        })
    }

    /// The path of management datagrams to another process of this host.
    pub fn to_process(port: &Arc<LocalPort>, device: &Device, to: ProcessRef) -> Self {
        HostPath {
            port: port.clone(),
            headers: NativeHeaders {
                lrh: Lrh {
                    vl: Vl(0),
                    sl: Sl(0),
                    dlid: port.lid(),
                    slid: port.lid(),
                },
                grh: None,
            },
            to: To::Process(to),
            target: address(device),
        }
    }

    /// LRH and GRH.
    pub fn headers(&self) -> &NativeHeaders {
        &self.headers
    }

    /// The port of the peer, as [`address`] says it.
    pub fn target(&self) -> IpAddr {
        self.target
    }

    /// Gives a run of packets to whom it is for. False if one of them has no room for it.
    pub fn transmit(&self, bytes: &[u8], segment: usize) -> bool {
        let meta = NativeMeta {
            headers: self.headers,
            // a packet is shorter than 2^16
            segment: segment as u16,
            from: None,
        };
        let (head, registry) = (meta.to_head(), self.port.post.registry());
        match self.to {
            To::Queue(qpn) => owner_of_packets(registry, qpn)
                .is_none_or(|owner| self.port.give(owner, &head, bytes)),
            To::Group(group) => {
                let mut members = Vec::new();
                registry.multicast_members(&group, &mut members);
                let mut processes: Vec<_> = members.iter().map(|member| member.process).collect();
                processes.sort_unstable();
                processes.dedup();
                let mut given = self.to_fabric(bytes, segment);
                for process in processes {
                    given &= self.port.give(process, &head, bytes);
                }
                given
            }
            To::Fabric => self.to_fabric(bytes, segment),
            // who takes no packets is told otherwise
            To::Process(process) => matches!(self.port.given(process, &head, bytes), Ok(true)),
            To::Nobody => true,
        }
    }

    /// Sends a run of packets into the fabric, if there is one.
    fn to_fabric(&self, bytes: &[u8], segment: usize) -> bool {
        let Some(wire) = &self.port.fabric else {
            return true;
        };
        let mut packets = bytes.chunks(segment.max(1));
        wire.send(|room| {
            let packet = packets.next()?;
            self.headers.emit(packet, packet.len(), room).ok()
        })
    }

    /// The path as whoever runs the program knows it.
    pub fn report(&self) -> PathReport {
        let text = |lid: Lid| format!("LID {}", lid.0);
        PathReport {
            source: text(self.headers.lrh.slid),
            destination: text(self.headers.lrh.dlid),
            ..PathReport::default()
        }
    }
}

/// The process that takes the packets for a number: its owner, of an XRC target the process that made it.
pub(crate) fn owner_of_packets(registry: &Registry, qpn: u32) -> Option<ProcessRef> {
    let target = || registry.xrc_tgt_find(Qpn(qpn));
    registry
        .owner_of_qpn(Qpn(qpn))
        .or_else(|| target().map(|target| target.creator()))
}

/// The InfiniBand port where an address is asked for: its GID.
pub(crate) fn address(device: &Device) -> IpAddr {
    let gid = device.gid(0).map_or(Gid([0; 16]), |entry| entry.gid);
    IpAddr::V6(gid.0.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_head_is_read_or_refused_and_a_right_one_comes_back() {
        let mut state = 11u64;
        let mut next = move || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as u8
        };
        let (mut read, mut refused) = (0, 0);
        for round in 0..100_000 {
            let mut head = [0; HAND_OVER_HEAD];
            head.fill_with(&mut next);
            if round % 2 == 0 {
                head[0] = HEAD_PACKETS;
                head[1] &= HAS_GRH;
                head[2] &= 0xf;
                head[12] = 0;
                head[13] &= 0xf;
            }
            match NativeMeta::read(&head, Some(3)) {
                Some(meta) => {
                    read += 1;
                    assert_eq!(NativeMeta::read(&meta.to_head(), Some(3)), Some(meta));
                }
                None => refused += 1,
            }
        }
        assert!(read > 10_000 && refused > 10_000, "{read} {refused}");
        assert_eq!(NativeMeta::read(&[], None), None);
    }
}
