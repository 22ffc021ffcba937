//! What stands in the way of packets when somebody asks for it: faults, captures, links that are
//! switched off.
//!
//! Owns the rules as this process last read them, the rings to the tools that listen in, and the
//! packets that a fault holds back. All of it lies behind one plain load for each run of packets
//! ([`Hooks::active`]). Must not know what a packet does to a queue pair. A tool that is slow,
//! stopped or dead costs its own records and nothing else: nobody waits for it.

use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

use ferriband_memory::host::{
    Control, HOOK_CAPTURE, HOOK_FAULTS, HOOK_PORTS, HostError, Lookout, MSG_TAP, PORT_STOPS,
    ProcessRef, TapWriter, Tool,
};
use ferriband_memory::wait::{Epoll, EventFd};
use ferriband_wire::Qpn;
use ferriband_wire::capture::{Captured, Endpoints, Ends, Fate};
use ferriband_wire::fault::{Action, Path, Rule, Subject};
use ferriband_wire::pcapng::Direction;

use super::arrived::{Arrived, GSI, ICRC_BYTES, destination};
use crate::device;
use crate::lock;
use crate::wire::to::Services;

/// Word of a rule that says whose it is, if it is not everybody's:
/// [`ferriband_memory::host::ProcessRef::to_word`].
pub(crate) const RULE_OWNER_WORD: usize = 10;
/// Tools that may listen in at the same time.
const MOST_TAPS: usize = 8;
/// Packets that faults may hold back at the same time; those beyond go on at once.
const MOST_HELD: usize = 1024;
/// How soon a tool that could not be reached is tried again.
const RETRY_NS: u64 = 10_000_000;
/// How long an address is taken to be where it was found.
const FOUND_NS: u64 = 100_000_000;
/// The packet's fifth byte: flags that the ICRC does not cover. A change there would be none.
const UNCOVERED_BYTE: usize = 4;

/// The hooks of a process.
#[derive(Debug)]
pub(crate) struct Hooks {
    lookout: Lookout,
    waker: Arc<EventFd>,
    /// When the first packet that is held back goes on.
    deadline: AtomicU64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Which version of hooks, rules and ports was read.
    read: Option<u32>,
    /// A tool could not be reached: read again then.
    retry_at: u64,
    rules: Vec<(usize, Rule)>,
    /// Interfaces whose links are down.
    down: Vec<u32>,
    taps: Vec<Tap>,
    held: Vec<Held>,
    seed: u64,
    /// Where the last packet came to.
    last: Option<Found>,
}

/// The interface of an address.
#[derive(Debug)]
struct Found {
    address: IpAddr,
    came_by: u32,
    ifindex: u32,
    found_at: u64,
}

/// A tool that listens in.
#[derive(Debug)]
struct Tap {
    process: ProcessRef,
    control: Control,
    ring: TapWriter,
    snap: usize,
    watched: bool,
}

/// Where a packet goes to.
pub(in crate::wire) trait Outgoing: std::fmt::Debug + Send {
    /// Gives a run to what carries it. False if that does not take it.
    fn transmit(&self, bytes: &[u8], segment: usize) -> bool;

    /// Writes the ICRC behind a packet that is the `place`-th of its run.
    fn seal(&self, place: usize, packet: &mut [u8], len: usize);

    /// The peer's address; that of the InfiniBand port is its GID.
    fn target(&self) -> IpAddr;

    /// The interface of its device; 0 for the InfiniBand port.
    fn ifindex(&self) -> u32;

    /// The queue pair whose it is.
    fn local_qpn(&self) -> u32;

    /// The ends as a capture shows them.
    fn ends(&self, identification: Option<u16>) -> Ends;

    fn boxed(&self) -> Box<dyn Outgoing>;
}

impl Clone for Box<dyn Outgoing> {
    fn clone(&self) -> Self {
        (**self).boxed()
    }
}

/// A packet that a fault holds back.
#[derive(Debug)]
pub(super) struct Held {
    due: u64,
    fate: Fate,
    rule: u8,
    bytes: Vec<u8>,
    way: Way,
}

/// Which way a packet goes.
#[derive(Clone, Debug)]
enum Way {
    Out(Box<dyn Outgoing>),
    In(Arrived),
}

impl Way {
    /// The headers below the packet.
    fn ends(&self, identification: Option<u16>) -> Ends {
        match self {
            Way::Out(path) => path.ends(identification),
            Way::In(Arrived::Roce(meta)) => Ends::Roce(Endpoints {
                source: meta.source,
                destination: meta.destination,
                source_port: meta.source_port,
                traffic_class: meta.tos,
                hop_limit: meta.hop_limit,
                identification: None,
            }),
            Way::In(Arrived::Native(meta)) => Ends::Native(meta.headers),
        }
    }

    /// The queue pair of this host that sends it, if one does.
    fn local_qpn(&self) -> Option<Qpn> {
        match self {
            Way::Out(path) => Some(Qpn(path.local_qpn())),
            Way::In(_) => None,
        }
    }

    /// Direction and peer; the InfiniBand port has one peer, itself.
    fn peer(&self) -> (Direction, Option<IpAddr>) {
        match self {
            Way::Out(path) => {
                let target = Some(path.target()).filter(|_| path.ifindex() != 0);
                (Direction::Outbound, target)
            }
            Way::In(Arrived::Roce(meta)) => (Direction::Inbound, Some(meta.source)),
            Way::In(Arrived::Native(_)) => (Direction::Inbound, None),
        }
    }
}

/// What a rule says of a packet.
#[derive(Clone, Copy)]
struct Verdict {
    action: Action,
    rule: u8,
    delay_us: u32,
}

impl Hooks {
    pub fn new(lookout: Lookout, waker: Arc<EventFd>) -> Self {
        Hooks {
            lookout,
            waker,
            deadline: AtomicU64::new(u64::MAX),
            state: Mutex::default(),
        }
    }

    /// True if packets are to come by here: the one load of the fast path.
    #[inline]
    pub fn active(&self) -> bool {
        self.lookout
            .hooks()
            .any(HOOK_CAPTURE | HOOK_FAULTS | HOOK_PORTS)
    }

    /// When [`Hooks::fire`] is due; `u64::MAX` for never.
    #[inline]
    pub fn deadline(&self) -> u64 {
        self.deadline.load(Ordering::Relaxed)
    }

    /// Sends a run of packets of `segment` bytes each but the last, sealed. Gives how many of them
    /// the kernel did not take.
    #[cold]
    pub(super) fn send(&self, path: &dyn Outgoing, bytes: &mut [u8], segment: usize) -> u64 {
        let mut state = lock(&self.state);
        self.refresh(&mut state);
        let way = Way::Out(path.boxed());
        if state.down.contains(&path.ifindex()) {
            for packet in bytes.chunks(segment) {
                state.capture(&way, 0, packet, Fate::LinkDown, None);
            }
            return 0;
        }
        // what no fault meets goes together still
        let (mut lost, mut begin, mut at) = (0, 0, 0);
        while at < bytes.len() && !state.rules.is_empty() {
            let end = bytes.len().min(at + segment);
            if let Some(verdict) = state.verdict(&self.lookout, &way, &bytes[at..end]) {
                lost += self.send_run(&mut state, &way, &mut bytes[begin..at], segment, begin > 0);
                let packet = &mut bytes[at..end];
                // it goes alone, and the kernel numbers it so
                path.seal(0, packet, packet.len() - ICRC_BYTES);
                lost += self.send_faulty(&mut state, &way, packet, verdict);
                begin = end;
            }
            at = end;
        }
        lost + self.send_run(&mut state, &way, &mut bytes[begin..], segment, begin > 0)
    }

    /// Packets that no fault meets, out of a run: `moved` says that they are not its first any
    /// more.
    fn send_run(
        &self,
        state: &mut State,
        way: &Way,
        bytes: &mut [u8],
        segment: usize,
        moved: bool,
    ) -> u64 {
        let Way::Out(path) = way else { return 0 };
        if bytes.is_empty() {
            return 0;
        }
        if moved {
            for (place, packet) in bytes.chunks_mut(segment).enumerate() {
                path.seal(place, packet, packet.len() - ICRC_BYTES);
            }
        }
        let taken = path.transmit(bytes, segment);
        let fate = if taken { Fate::Passed } else { Fate::NotSent };
        for (place, packet) in bytes.chunks(segment).enumerate() {
            // a run has less than 2^16 packets
            state.capture(way, place as u16, packet, fate, None);
        }
        for held in self.overtaken(state, way) {
            self.send_held(state, &held);
        }
        u64::from(!taken) * bytes.len().div_ceil(segment) as u64
    }

    /// A packet out that a fault meets. Gives how many the kernel did not take.
    fn send_faulty(
        &self,
        state: &mut State,
        way: &Way,
        packet: &mut [u8],
        verdict: Verdict,
    ) -> u64 {
        let Way::Out(path) = way else { return 0 };
        let (fate, times) = match verdict.action {
            Action::Drop => {
                state.capture(way, 0, packet, Fate::Dropped, Some(verdict.rule));
                return 0;
            }
            Action::Delay | Action::Reorder => {
                if self.hold(state, verdict, way, packet) {
                    return 0;
                }
                (Fate::Passed, 1)
            }
            Action::Corrupt => {
                state.corrupt(packet);
                (Fate::Corrupted, 1)
            }
            Action::Duplicate => (Fate::Duplicated, 2),
        };
        let mut lost = 0;
        for time in 0..times {
            let taken = path.transmit(packet, packet.len());
            lost += u64::from(!taken);
            let fate = match taken {
                true if times == 2 && time == 0 => Fate::Passed,
                true => fate,
                false => Fate::NotSent,
            };
            let rule = Some(verdict.rule).filter(|_| fate != Fate::Passed);
            state.capture(way, 0, packet, fate, rule);
        }
        for held in self.overtaken(state, way) {
            self.send_held(state, &held);
        }
        lost
    }

    fn send_held(&self, state: &mut State, held: &Held) {
        if let Way::Out(path) = &held.way {
            let fate = if path.transmit(&held.bytes, held.bytes.len()) {
                held.fate
            } else {
                Fate::NotSent
            };
            state.capture(&held.way, 0, &held.bytes, fate, Some(held.rule));
        }
    }

    /// Takes a run of packets as it came from a socket, and passes on what the faults leave of it.
    #[cold]
    pub fn receive(
        &self,
        services: &dyn Services,
        came: &Arrived,
        bytes: &[u8],
        deliver: &mut dyn FnMut(&Arrived, &[u8]) -> Fate,
    ) {
        let segment = came.segment();
        let mut begin = 0;
        // kept from packet to packet: both cost more than a look at a rule
        let (mut ours, mut locked) = (None, None);
        for (place, datagram) in bytes.chunks(segment).enumerate() {
            let at = place * segment;
            let one = came.one(datagram.len());
            // what another process shall have comes by that one's hooks, and a probe of the port is
            // nobody's packet
            if let Arrived::Roce(meta) = &one {
                let qpn = destination(datagram).filter(|qpn| *qpn != GSI.0);
                if qpn.is_none() || qpn != ours {
                    locked = None;
                    if destination(datagram) == Some(0) || services.is_anothers(meta, datagram) {
                        continue;
                    }
                    ours = qpn;
                }
            }
            let way = Way::In(one);
            let state = locked.get_or_insert_with(|| {
                let mut state = lock(&self.state);
                self.refresh(&mut state);
                state
            });
            let verdict = state.verdict(&self.lookout, &way, datagram);
            let plain = state.taps.is_empty() && state.down.is_empty();
            // what no fault meets and nobody watches stays together
            if verdict.is_none() && plain {
                continue;
            }
            locked = None;
            if begin < at {
                deliver(came, &bytes[begin..at]);
            }
            begin = at + datagram.len();
            self.receive_one(&way, datagram, verdict, deliver);
        }
        drop(locked);
        if begin < bytes.len() {
            deliver(came, &bytes[begin..]);
            let later = self.overtaken(&mut lock(&self.state), &Way::In(*came));
            self.hand_on_held(&later, deliver);
        }
    }

    fn receive_one(
        &self,
        way: &Way,
        datagram: &[u8],
        verdict: Option<Verdict>,
        deliver: &mut dyn FnMut(&Arrived, &[u8]) -> Fate,
    ) {
        let mut state = lock(&self.state);
        if !state.down.is_empty() {
            let ifindex = state.interface(way);
            if state.down.contains(&ifindex) {
                state.capture(way, 0, datagram, Fate::LinkDown, None);
                return;
            }
        }
        let rule = verdict.map(|verdict| verdict.rule);
        let mut changed = Vec::new();
        let (mut packet, mut fate) = (datagram, Fate::Passed);
        if let Some(verdict) = verdict {
            match verdict.action {
                Action::Drop => {
                    state.capture(way, 0, datagram, Fate::Dropped, rule);
                    return;
                }
                Action::Corrupt => {
                    changed.extend_from_slice(datagram);
                    state.corrupt(&mut changed);
                    (packet, fate) = (&changed, Fate::Corrupted);
                }
                Action::Delay | Action::Reorder => {
                    if self.hold(&mut state, verdict, way, datagram) {
                        return;
                    }
                }
                Action::Duplicate => {}
            }
        }
        let twice = verdict.is_some_and(|verdict| verdict.action == Action::Duplicate);
        let later = self.overtaken(&mut state, way);
        drop(state);
        let rule = rule.filter(|_| fate != Fate::Passed || twice);
        self.hand_on(way, packet, fate, rule.filter(|_| !twice), deliver);
        if twice {
            self.hand_on(way, packet, Fate::Duplicated, rule, deliver);
        }
        self.hand_on_held(&later, deliver);
    }

    /// Gives what came, and was held back, to its queue pairs.
    pub(super) fn hand_on_held(
        &self,
        later: &[Held],
        deliver: &mut dyn FnMut(&Arrived, &[u8]) -> Fate,
    ) {
        for held in later {
            let rule = Some(held.rule);
            self.hand_on(&held.way, &held.bytes, held.fate, rule, deliver);
        }
    }

    /// Gives a packet that came to its queue pair, and says what became of it. Without the lock.
    fn hand_on(
        &self,
        way: &Way,
        packet: &[u8],
        fate: Fate,
        rule: Option<u8>,
        deliver: &mut dyn FnMut(&Arrived, &[u8]) -> Fate,
    ) {
        let Way::In(came) = way else { return };
        // before its effects: answers to it are captured after it
        let time_ns = now_ns();
        let became = deliver(came, packet);
        let fate = if fate == Fate::Passed { became } else { fate };
        lock(&self.state).capture_at(time_ns, way, None, packet, fate, rule);
    }

    /// Keeps a packet for later. False if there is no room for it.
    fn hold(&self, state: &mut State, verdict: Verdict, way: &Way, packet: &[u8]) -> bool {
        if state.held.len() >= MOST_HELD {
            return false;
        }
        state.held.push(Held {
            due: ferriband_memory::wait::now().0 + u64::from(verdict.delay_us) * 1000,
            fate: match verdict.action {
                Action::Reorder => Fate::Reordered,
                _ => Fate::Delayed,
            },
            rule: verdict.rule,
            bytes: packet.to_vec(),
            way: way.clone(),
        });
        self.set_deadline(state);
        true
    }

    fn set_deadline(&self, state: &State) {
        let first = state.held.iter().map(|held| held.due).min();
        let first = first.unwrap_or(u64::MAX);
        if first < self.deadline.swap(first, Ordering::AcqRel) {
            self.waker.signal(1);
        }
    }

    /// What waited for a packet of the same way to go before it.
    fn overtaken(&self, state: &mut State, way: &Way) -> Vec<Held> {
        if state.held.is_empty() {
            return Vec::new();
        }
        let peer = way.peer();
        let let_go = |held: &mut Held| held.fate == Fate::Reordered && held.way.peer() == peer;
        let gone = state.held.extract_if(.., let_go).collect();
        self.set_deadline(state);
        gone
    }

    /// Lets go of what has waited long enough: what goes out goes, what came is for
    /// [`Hooks::hand_on_held`].
    #[cold]
    pub(super) fn fire(&self) -> Vec<Held> {
        let now = ferriband_memory::wait::now().0;
        let mut state = lock(&self.state);
        let mut due: Vec<Held> = state.held.extract_if(.., |held| held.due <= now).collect();
        self.set_deadline(&state);
        // those that were held back equally long keep their order
        due.sort_by_key(|held| held.due);
        for held in due.iter().filter(|held| matches!(held.way, Way::Out(_))) {
            self.send_held(&mut state, held);
        }
        due.retain(|held| matches!(held.way, Way::In(_)));
        due
    }

    // Rules and tools.

    /// Reads rules, ports and tools again if they have changed.
    fn refresh(&self, state: &mut State) {
        let hooks = self.lookout.hooks();
        let late = state.retry_at != 0 && ferriband_memory::wait::now().0 >= state.retry_at;
        if state.read == Some(hooks.epoch()) && !late {
            return;
        }
        state.read = Some(hooks.epoch());
        state.retry_at = 0;
        state.rules.clear();
        if hooks.any(HOOK_FAULTS) {
            let read = self.lookout.fault_rules().into_iter();
            let me = self.lookout.me().to_word();
            let rule = |rule: ferriband_memory::host::FaultRule| {
                let owner = rule.words[RULE_OWNER_WORD];
                let ours = owner == 0 || owner == me;
                Some((rule.index, Rule::from_words(&rule.words)?)).filter(|_| ours)
            };
            state.rules.extend(read.filter_map(rule));
        }
        state.down.clear();
        if hooks.any(HOOK_PORTS) {
            let ports = device::all().iter().map(|device| device.info.ifindex);
            let down = |ifindex: &u32| self.lookout.port_word(*ifindex) & PORT_STOPS != 0;
            state.down.extend(ports.filter(down));
        }
        if hooks.any(HOOK_CAPTURE) {
            self.reach_tools(state);
        } else {
            state.taps.clear();
        }
    }

    /// Sends each tool that listens in a ring, if it has none.
    fn reach_tools(&self, state: &mut State) {
        let tools = self.lookout.capturing();
        state
            .taps
            .retain(|tap| tools.iter().any(|(process, _)| *process == tap.process));
        for (process, tool) in tools {
            let known = state.taps.iter().any(|tap| tap.process == process);
            if known || state.taps.len() == MOST_TAPS {
                continue;
            }
            match self.tap(process, &tool) {
                Ok(tap) => {
                    state.taps.push(tap);
                    // the thread watches for its end
                    self.waker.signal(1);
                }
                Err(HostError::Gone { .. }) => {}
                Err(_) => state.retry_at = ferriband_memory::wait::now().0 + RETRY_NS,
            }
        }
        if state.taps.is_empty() && state.retry_at == 0 {
            // whoever asked is gone, and could not say so
            self.lookout.settle();
        }
    }

    fn tap(&self, process: ProcessRef, tool: &Tool) -> Result<Tap, HostError> {
        let control = self.lookout.connect(process)?;
        let mut ring = TapWriter::create(tool.ring_bytes)?;
        let mut message = [0; 8];
        message[0] = MSG_TAP;
        message[4..].copy_from_slice(&std::process::id().to_le_bytes());
        if let Some(fd) = ring.fd() {
            control.send(&message, &[fd])?;
        }
        ring.close_fd();
        Ok(Tap {
            process,
            control,
            ring,
            snap: match tool.snap_bytes {
                0 => usize::MAX,
                bytes => bytes.into(),
            },
            watched: false,
        })
    }

    /// The end: what is held back is lost, and tools hear of it.
    pub fn close(&self) {
        let mut state = lock(&self.state);
        state.held.clear();
        state.taps.clear();
        self.deadline.store(u64::MAX, Ordering::Release);
    }

    /// By the progress thread: has the ends of tools reported to `epoll` under `token`.
    pub fn watch_tools(&self, epoll: &Epoll, token: u64) {
        for tap in lock(&self.state).taps.iter_mut().filter(|tap| !tap.watched) {
            tap.watched = epoll.add(&tap.control, token, false).is_ok();
        }
    }

    /// By the progress thread: a tool has said something, which none of them does, or has ended.
    pub fn tool_ended(&self) {
        let mut state = lock(&self.state);
        let before = state.taps.len();
        // closing the connection takes it out of the epoll
        state.taps.retain(|tap| {
            let mut bytes = [0; 64];
            matches!(tap.control.recv(&mut bytes), Ok(None))
        });
        let ended = state.taps.len() < before;
        drop(state);
        if ended {
            self.lookout.settle();
        }
    }
}

fn now_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_nanos() as u64)
}

impl State {
    /// The interface of the device that a packet comes to: what comes from this host arrives at
    /// another one.
    fn interface(&mut self, way: &Way) -> u32 {
        let meta = match way {
            Way::Out(path) => return path.ifindex(),
            Way::In(Arrived::Native(_)) => return 0,
            Way::In(Arrived::Roce(meta)) => meta,
        };
        let (address, came_by) = (meta.destination, meta.ifindex);
        let now = ferriband_memory::wait::now().0;
        if let Some(last) = &self.last
            && (last.address, last.came_by) == (address, came_by)
            && now - last.found_at < FOUND_NS
        {
            return last.ifindex;
        }
        let found = device::at_address(address, came_by);
        let ifindex = found.map_or(came_by, |(device, _)| device.info.ifindex);
        self.last = Some(Found {
            address,
            came_by,
            ifindex,
            found_at: now,
        });
        ifindex
    }

    /// The first rule that is about a packet and hits it.
    fn verdict(&mut self, lookout: &Lookout, way: &Way, packet: &[u8]) -> Option<Verdict> {
        if self.rules.is_empty() {
            return None;
        }
        let (direction, _) = way.peer();
        let subject = Subject {
            packet,
            local_qpn: way.local_qpn(),
            direction,
            // a look-up that few rules need
            ifindex: match self.rules.iter().any(|(_, rule)| rule.ifindex.is_some()) {
                true => self.interface(way),
                false => 0,
            },
            ends: self
                .rules
                .iter()
                .any(|(_, rule)| rule.path != Path::ALL)
                .then(|| way.ends(None)),
        };
        for at in 0..self.rules.len() {
            let (index, rule) = self.rules[at];
            if !rule.meets(&subject) || !rule.draws(self.random() as u32) {
                continue;
            }
            if rule.count != 0 && lookout.fault_hits(index) >= rule.count {
                continue;
            }
            if lookout.fault_hit(index) >= rule.count && rule.count != 0 {
                continue;
            }
            return Some(Verdict {
                action: rule.action,
                // there are 64 rules
                rule: index as u8,
                delay_us: rule.delay_us,
            });
        }
        None
    }

    /// Changes a bit that the ICRC covers.
    fn corrupt(&mut self, packet: &mut [u8]) {
        let random = self.random();
        let mut at = random as usize % packet.len();
        if at == UNCOVERED_BYTE {
            at = 0;
        }
        packet[at] ^= 1 << (random >> 61);
    }

    /// Not for keys: which packets a fault hits need not be hard to guess (splitmix64).
    fn random(&mut self) -> u64 {
        if self.seed == 0 {
            self.seed = now_ns() ^ u64::from(std::process::id()) << 32;
        }
        self.seed = self.seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.seed ^ self.seed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    fn capture(&mut self, way: &Way, id: u16, packet: &[u8], fate: Fate, rule: Option<u8>) {
        let id = matches!(way, Way::Out(_)).then_some(id);
        self.capture_at(now_ns(), way, id, packet, fate, rule);
    }

    fn capture_at(
        &mut self,
        time_ns: u64,
        way: &Way,
        identification: Option<u16>,
        packet: &[u8],
        fate: Fate,
        rule: Option<u8>,
    ) {
        if self.taps.is_empty() {
            return;
        }
        let ifindex = self.interface(way);
        let (direction, _) = way.peer();
        let (local_qpn, ends) = (way.local_qpn(), way.ends(identification));
        for tap in &mut self.taps {
            let bytes = &packet[..packet.len().min(tap.snap)];
            let captured = Captured {
                time_ns,
                direction,
                fate,
                rule,
                local_qpn,
                ifindex,
                ends,
                length: packet.len(),
                bytes,
            };
            tap.ring.write([&captured.head(), bytes]);
        }
    }
}
