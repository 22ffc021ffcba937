//! Sharing the RoCE port with the other processes of the host: joining it, leaving it, and
//! repairing what a death has shifted.
//!
//! Owns: the sockets that packets come in by, where each process's socket is in the kernel's array
//! (as the registry has it), and the attaching of the steering program. Must not know: what is in a
//! packet, but for the probes of this protocol.
//!
//! The kernel appends a socket that binds, and moves the last one into the place of one that
//! closes. So whoever joins or leaves in good order knows what becomes of the array; after a death
//! it has to be found out. *Probes* do that: packets for QPN 0, which no RoCE packet has, that this
//! host sends to itself; the program lets each go to the index in its PSN, and who gets it writes
//! the index into the registry ([`SharedPort::take_probe`]). All changes are made under the
//! domain's lock. Between a change and the program that follows it packets come to the wrong
//! process, which hands them over.
//!
//! A stopped process answers no probe. It gets an index that is left; when it goes on it finds the
//! probe in its socket, and if the guess was wrong it asks for a repair.

use super::steer::{self, MAX_STEPS, MIN_STEPS, Steering};
use crate::base::error::Error;
use ferriband_memory::host::{
    BlockKind, Host, ProcessRef, QPN_BLOCK, Registry, SERVICE_LISTENS, SteeringEntry,
};
use ferriband_memory::net::{RxRing, RxSocket, TxOptions, TxPort};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Up to this many sockets a joiner asks for every index up to its own; beyond, for its own alone,
/// several times.
const FEW: u16 = 16;
/// Probes from different source ports, which the kernel's hash would not all send to the same
/// socket.
const SOURCES: usize = 3;
/// Sockets that are no member's (of a child that forked without its handlers, say) and yet found.
const STRANGERS: u16 = 8;
/// How long a probe waits for answers: members that run need microseconds.
const PATIENCE: Duration = Duration::from_millis(40);
/// How often who waits looks whether those who are silent are stopped.
const LOOK: Duration = Duration::from_millis(2);
/// After this long whoever probes has written down what it found.
pub const SETTLED: Duration = Duration::from_millis(200);
/// What a probe holds: BTH, a word that says what it is, its number.
const PROBE_BYTES: usize = 24;
const PROBE_WORD: [u8; 8] = *b"ferriprb";

/// What a packet was to [`SharedPort::take_probe`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Probe {
    /// No probe: a packet to deal with.
    No,
    /// A probe; nothing is to do.
    Answered,
    /// A probe that came elsewhere than the registry has it. Whoever sent it is about to write that
    /// down, unless we were stopped: if [`SharedPort::is_misplaced`] after [`SETTLED`], call
    /// [`SharedPort::repair`].
    Moved,
}

/// This process's sockets on the port.
#[derive(Debug)]
pub struct SharedPort {
    /// For IPv4, and for IPv6 where the system has it.
    sockets: [Option<RxSocket>; 2],
    port: u16,
    /// Longest program that this system has taken so far.
    steps: AtomicUsize,
    /// For each family the number of the probe that came last, and how many of that number.
    seen: [[AtomicU32; 2]; 2],
}

impl SharedPort {
    /// Joins the port: binds the sockets behind those of the others and lets the kernel steer to
    /// them. Waits up to `lock_wait` for others that do the same.
    ///
    /// # Errors
    /// `Memory` with EADDRINUSE if another user or the kernel's own driver has the port; `Host`
    /// with `LockTimeout` if somebody was stopped while joining.
    pub fn join(
        host: &Host,
        port: u16,
        buffer_bytes: usize,
        lock_wait: Duration,
    ) -> Result<SharedPort, Error> {
        host.locked(lock_wait, |registry| {
            // Who died may have been reaped before, and what it left was not put right: then there
            // is a gap.
            let clean = host.steering_reap()? == 0 && is_gapless(&registry.steering_entries());
            host.steering_open()?;
            let joined = SharedPort::bind(port, buffer_bytes)
                .and_then(|shared| shared.enter(host, registry, clean).map(|()| shared));
            if joined.is_err() {
                host.steering_close();
            }
            joined
        })?
    }

    /// The receiving socket of a family; None if this host has no such family.
    pub fn rx(&self, v6: bool) -> Option<&RxSocket> {
        self.sockets[usize::from(v6)].as_ref()
    }

    /// The port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Leaves the port in good order: who moves into our places in the array is known, and steered
    /// to before the sockets close. If the lock is not to be had, the sockets close all the same,
    /// as they would by a death.
    ///
    /// # Errors
    /// `Host` with `LockTimeout` in that case.
    pub fn leave(self, host: &Host, lock_wait: Duration) -> Result<(), Error> {
        let me = host.me();
        let left = host.locked(lock_wait, |registry| {
            let entries = registry.steering_entries();
            for v6 in [false, true] {
                let family = usize::from(v6);
                let ours = find(&entries, me).and_then(|e| e.index[family]);
                let last = entries
                    .iter()
                    .filter(|e| e.index[family].is_some())
                    .max_by_key(|e| e.index[family]);
                if let (Some(ours), Some(last)) = (ours, last)
                    && last.process != me
                {
                    registry.set_steering_index(last.process, v6, Some(ours));
                }
                registry.set_steering_index(me, v6, None);
            }
            host.steering_close();
            // Packets for others that come between the two lines are handed to nobody: they are
            // lost, and sent again.
            let attached = self.attach_here(registry);
            drop(self);
            attached
        });
        left.unwrap_or_else(|error| {
            host.steering_close();
            Err(error.into())
        })
    }

    /// Steers by what the registry says now: after a block of numbers or a service was claimed or
    /// given back.
    ///
    /// # Errors
    /// `Host` with `LockTimeout`: the old program goes on, and hand-over serves meanwhile; `Memory`
    /// if the kernel takes no program.
    pub fn attach(&self, host: &Host, lock_wait: Duration) -> Result<(), Error> {
        host.locked(lock_wait, |registry| self.attach_here(registry))?
    }

    /// Reaps the dead, finds out where everybody's socket is, and steers anew. `pump` lets this
    /// process receive meanwhile, so that probes reach [`SharedPort::take_probe`]; it must not
    /// wait.
    ///
    /// # Errors
    /// As [`SharedPort::attach`].
    pub fn repair(
        &self,
        host: &Host,
        lock_wait: Duration,
        mut pump: impl FnMut(),
    ) -> Result<(), Error> {
        host.locked(lock_wait, |registry| {
            host.steering_reap()?;
            // The program must know probes, and no place is too far for it.
            self.attach_here(registry)?;
            self.find_out(host, &mut pump);
            self.attach_here(registry)
        })?
    }

    /// Looks whether a packet from `source` is a probe, and answers it. To be called for every
    /// packet to QPN 0.
    pub fn take_probe(&self, host: &Host, v6: bool, source: IpAddr, packet: &[u8]) -> Probe {
        // The kernel lets nobody send from a loopback address but this host itself.
        let Some((index, number)) = read_probe(packet).filter(|_| source.is_loopback()) else {
            return Probe::No;
        };
        if number != host.steering_probe() {
            return Probe::Answered;
        }
        let family = usize::from(v6);
        let [last, count] = &self.seen[family];
        if last.swap(number, Relaxed) != number {
            count.store(0, Relaxed);
        }
        count.fetch_add(1, Relaxed);
        let Some(entry) = host.steering_answer(v6, number, index) else {
            return Probe::Answered;
        };
        let answered = entry.answer[family].map(|(_, index)| index);
        if answered == entry.index[family] {
            Probe::Answered
        } else {
            Probe::Moved
        }
    }

    /// True if the last probe reached us elsewhere than the registry has it: what is steered to us
    /// goes to somebody else.
    pub fn is_misplaced(&self, host: &Host) -> bool {
        let number = host.steering_probe();
        host.steering_of(host.me()).is_some_and(|entry| {
            (0..2).any(|family| {
                entry.answer[family]
                    .is_some_and(|(n, index)| n == number && entry.index[family] != Some(index))
            })
        })
    }

    // Joining.

    fn bind(port: u16, buffer_bytes: usize) -> Result<SharedPort, Error> {
        let v4 = RxSocket::bind(false, port, buffer_bytes)?;
        let v6 = match RxSocket::bind(true, port, buffer_bytes) {
            Ok(socket) => Some(socket),
            // No IPv6 on this host.
            Err(e) if matches!(e.errno(), libc::EAFNOSUPPORT | libc::EADDRNOTAVAIL) => None,
            Err(e) => return Err(e.into()),
        };
        Ok(SharedPort {
            sockets: [Some(v4), v6],
            port,
            steps: AtomicUsize::new(MAX_STEPS),
            seen: Default::default(),
        })
    }

    /// Under the lock, with the sockets bound: takes the places behind all others, and makes sure.
    fn enter(&self, host: &Host, registry: &Registry, clean: bool) -> Result<(), Error> {
        let me = host.me();
        for v6 in [false, true] {
            if self.rx(v6).is_some() {
                let others = count(&registry.steering_entries(), v6);
                registry.set_steering_index(me, v6, Some(others));
            }
        }
        self.attach_here(registry)?;
        let mut ring = RxRing::new();
        let mut pump = || self.drain(host, &mut ring);
        let number = registry.begin_steering_probe();
        let sure = clean
            && [false, true]
                .iter()
                .all(|&v6| self.confirm(registry, me, v6, number, &mut pump));
        if !sure {
            self.find_out(host, &mut pump);
            self.attach_here(registry)?;
        }
        Ok(())
    }

    /// Receives while nobody knows of our sockets: what is no probe was for somebody else, who will
    /// be sent it again.
    fn drain(&self, host: &Host, ring: &mut RxRing) {
        for v6 in [false, true] {
            let Some(rx) = self.rx(v6) else { continue };
            while rx.receive(ring, usize::MAX).is_ok_and(|count| count != 0) {
                for (meta, bytes) in ring.messages() {
                    for packet in bytes.chunks(usize::from(meta.segment)) {
                        self.take_probe(host, v6, meta.source, packet);
                    }
                }
            }
        }
    }

    /// True if our socket is where we think, as far as can be told.
    fn confirm(
        &self,
        registry: &Registry,
        me: ProcessRef,
        v6: bool,
        number: u32,
        pump: &mut impl FnMut(),
    ) -> bool {
        let family = usize::from(v6);
        let Some(place) = registry.steering_of(me).and_then(|e| e.index[family]) else {
            return true;
        };
        let few = place < FEW;
        let prober = Prober::new(v6, self.port, SOURCES);
        let sent = if few {
            // In this order: what goes to a place that does not exist reaches somebody who has
            // answered already.
            (0..=place).all(|index| prober.send(0, index, number))
        } else {
            (0..SOURCES).all(|source| prober.send(source, place, number))
        };
        if !sent {
            // The loopback interface is down: the prediction has to do.
            return true;
        }
        let end = Instant::now() + PATIENCE;
        loop {
            pump();
            let answer = registry.steering_of(me).and_then(|e| e.answer[family]);
            let [last, count] = &self.seen[family];
            let all_seen = last.load(Relaxed) == number && count.load(Relaxed) as usize == SOURCES;
            if answer.is_some_and(|(n, _)| n == number) && (few || all_seen) {
                return answer == Some((number, place));
            }
            if Instant::now() >= end {
                return false;
            }
            std::thread::yield_now();
        }
    }

    // Finding out.

    /// Probes every place of both families and writes down who answers.
    fn find_out(&self, host: &Host, pump: &mut impl FnMut()) {
        let number = host.begin_steering_probe();
        for v6 in [false, true] {
            if self.rx(v6).is_some() {
                self.find_out_family(host, v6, number, pump);
            }
        }
    }

    fn find_out_family(&self, host: &Host, v6: bool, number: u32, pump: &mut impl FnMut()) {
        let registry: &Registry = host;
        let family = usize::from(v6);
        let members = count(&registry.steering_entries(), v6);
        let prober = Prober::new(v6, self.port, 1);
        for range in [0..members, members..members.saturating_add(STRANGERS)] {
            let sent = range.clone().all(|index| prober.send(0, index, number));
            let end = Instant::now() + PATIENCE;
            let mut again = Some(Instant::now() + PATIENCE / 2);
            let mut look = Instant::now() + LOOK;
            while sent && !silent(registry, v6, number).is_empty() && Instant::now() < end {
                pump();
                std::thread::yield_now();
                if Instant::now() >= look {
                    look = Instant::now() + LOOK;
                    let mut silent = silent(registry, v6, number).into_iter();
                    if silent.all(|process| host.is_stopped(process)) {
                        // There is nothing to wait for, and others wait for us.
                        break;
                    }
                }
                if again.is_some_and(|at| Instant::now() >= at) {
                    // A full socket may have dropped the first. Who has answered answers no more.
                    again = None;
                    range
                        .clone()
                        .for_each(|index| _ = prober.send(0, index, number));
                }
            }
            let mut silent = silent(registry, v6, number).into_iter();
            if silent.all(|process| host.is_stopped(process)) {
                break;
            }
        }
        let entries: Vec<SteeringEntry> = registry.steering_entries();
        for (process, index) in places(&entries, family, number) {
            registry.set_steering_index(process, v6, Some(index));
        }
    }

    // Steering.

    fn attach_here(&self, registry: &Registry) -> Result<(), Error> {
        for v6 in [false, true] {
            let Some(rx) = self.rx(v6) else { continue };
            let steering = steering_of(registry, v6);
            loop {
                let limit = self.steps.load(Relaxed);
                let program = steer::program(&steering, limit);
                match rx.attach(&program) {
                    Ok(()) => break,
                    // Older kernels give a program less memory (net.core.optmem_max).
                    Err(e) if e.errno() == libc::ENOMEM && program.len() > MIN_STEPS => {
                        self.steps
                            .store((program.len() / 2).max(MIN_STEPS), Relaxed);
                    }
                    Err(e) => return Err(e.into()),
                }
            }
        }
        registry.steering_changed();
        Ok(())
    }
}

/// Where probes go out.
struct Prober {
    /// Empty without a loopback address: then there are no probes.
    ports: Vec<TxPort>,
    to: SocketAddr,
}

impl Prober {
    fn new(v6: bool, port: u16, sources: usize) -> Prober {
        let source = loopback(v6);
        let how = TxOptions {
            source,
            ifindex: 0,
            port: 0,
            tos: 0,
            hop_limit: 0,
            frames: false,
        };
        Prober {
            ports: (0..sources)
                .map_while(|_| TxPort::bind(&how).ok())
                .collect(),
            to: SocketAddr::new(source, port),
        }
    }

    /// False if it cannot be sent: the loopback interface is down.
    fn send(&self, source: usize, index: u16, number: u32) -> bool {
        let probe = write_probe(index, number);
        let port = self.ports.get(source);
        port.is_some_and(|tx| tx.send(&self.to, &probe, 0).is_ok())
    }
}

/// Whom this process watches, so that nobody's death goes unseen: the next process on the port, by
/// slots, in a ring. None if it is alone, or not on the port.
pub fn successor(registry: &Registry, me: ProcessRef) -> Option<ProcessRef> {
    let entries = registry.steering_entries();
    let at = entries.iter().position(|e| e.process == me)?;
    let next = entries[(at + 1) % entries.len()].process;
    (next != me).then_some(next)
}

/// What the registry says of who owns what on the port.
fn steering_of(registry: &Registry, v6: bool) -> Steering {
    let entries = registry.steering_entries();
    let family = usize::from(v6);
    let place = |process: ProcessRef| find(&entries, process).and_then(|e| e.index[family]);
    let blocks = registry
        .qpn_blocks()
        .into_iter()
        .filter_map(|(block, owner, kind)| {
            let first = block * QPN_BLOCK;
            (kind != BlockKind::Native).then_some((first, first + QPN_BLOCK, place(owner)?))
        });
    let targets = registry.xrc_targets().into_iter();
    let targets = targets.filter_map(|(qpn, creator)| Some((qpn.0, qpn.0 + 1, place(creator)?)));
    let listening = registry
        .services()
        .into_iter()
        .filter(|e| e.service.flags & SERVICE_LISTENS != 0);
    Steering {
        numbers: blocks.chain(targets).collect(),
        services: listening
            .filter_map(|e| Some((e.service.id, place(e.process)?)))
            .collect(),
        slots: entries
            .iter()
            .filter_map(|e| Some((e.process.slot, e.index[family]?)))
            .collect(),
    }
}

/// True if the places that are written down are all that there are below the highest.
fn is_gapless(entries: &[SteeringEntry]) -> bool {
    (0..2).all(|family| {
        let mut places: Vec<u16> = entries.iter().filter_map(|e| e.index[family]).collect();
        places.sort_unstable();
        places.iter().copied().eq(0..places.len() as u16)
    })
}

/// Entries are in the order of slots.
fn find(entries: &[SteeringEntry], process: ProcessRef) -> Option<&SteeringEntry> {
    let at = entries
        .binary_search_by_key(&process.slot, |e| e.process.slot)
        .ok()?;
    Some(&entries[at]).filter(|e| e.process == process)
}

/// Sockets of a family, as far as is known.
fn count(entries: &[SteeringEntry], v6: bool) -> u16 {
    let known = entries
        .iter()
        .filter(|e| e.index[usize::from(v6)].is_some());
    known.count() as u16
}

/// Members that have not answered probe `number`.
fn silent(registry: &Registry, v6: bool, number: u32) -> Vec<ProcessRef> {
    let family = usize::from(v6);
    let answered = |e: &SteeringEntry| e.answer[family].is_some_and(|(n, _)| n == number);
    let entries = registry.steering_entries().into_iter();
    entries
        .filter(|e| e.index[family].is_some() && !answered(e))
        .map(|e| e.process)
        .collect()
}

/// Where everybody is by the answers to probe `number`. Those who did not answer share what is
/// left: who is still at a place that nobody else claims stays there, the others follow in order.
fn places(entries: &[SteeringEntry], family: usize, number: u32) -> Vec<(ProcessRef, u16)> {
    let here = entries.iter().filter(|e| e.index[family].is_some());
    let answer = |e: &SteeringEntry| {
        e.answer[family]
            .filter(|&(n, _)| n == number)
            .map(|(_, i)| i)
    };
    let mut placed: Vec<(ProcessRef, u16)> = Vec::new();
    let mut silent = Vec::new();
    for entry in here {
        match answer(entry) {
            Some(index) => placed.push((entry.process, index)),
            None => silent.push(entry),
        }
    }
    let total = placed.len() + silent.len();
    let taken = |placed: &[(ProcessRef, u16)], index: u16| placed.iter().any(|&(_, i)| i == index);
    silent.retain(|entry| {
        let old = entry.index[family].filter(|&i| usize::from(i) < total && !taken(&placed, i));
        placed.extend(old.map(|index| (entry.process, index)));
        old.is_none()
    });
    for entry in silent {
        let free = (0..u16::MAX).find(|&index| !taken(&placed, index));
        placed.extend(free.map(|index| (entry.process, index)));
    }
    placed
}

fn loopback(v6: bool) -> IpAddr {
    if v6 {
        Ipv6Addr::LOCALHOST.into()
    } else {
        Ipv4Addr::LOCALHOST.into()
    }
}

fn write_probe(index: u16, number: u32) -> [u8; PROBE_BYTES] {
    let mut bytes = [0; PROBE_BYTES];
    bytes[10..12].copy_from_slice(&index.to_be_bytes());
    bytes[12..20].copy_from_slice(&PROBE_WORD);
    bytes[20..24].copy_from_slice(&number.to_be_bytes());
    bytes
}

/// Index and number of a probe.
fn read_probe(bytes: &[u8]) -> Option<(u16, u32)> {
    let bytes: &[u8; PROBE_BYTES] = bytes.try_into().ok()?;
    let ours = bytes[..10] == [0; 10] && bytes[12..20] == PROBE_WORD;
    let number = u32::from_be_bytes([bytes[20], bytes[21], bytes[22], bytes[23]]);
    ours.then_some((u16::from_be_bytes([bytes[10], bytes[11]]), number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probes_are_read_back_and_nothing_else_is_one() {
        assert_eq!(
            read_probe(&write_probe(0xabcd, 0x1234_5678)),
            Some((0xabcd, 0x1234_5678))
        );
        let probe = write_probe(1, 2);
        assert_eq!(read_probe(&probe[..23]), None);
        for at in (0..10).chain(12..20) {
            let mut other = probe;
            other[at] ^= 1;
            assert_eq!(read_probe(&other), None, "{at}");
        }
    }

    fn entry(slot: u32, index: u16, answer: Option<(u32, u16)>) -> SteeringEntry {
        SteeringEntry {
            process: ProcessRef {
                slot,
                generation: 1,
            },
            index: [Some(index), None],
            answer: [answer, None],
        }
    }

    #[test]
    fn a_gap_shows_that_somebody_went_unseen() {
        let at = |places: &[u16]| -> Vec<SteeringEntry> {
            let slots = 0..places.len() as u32;
            slots
                .zip(places)
                .map(|(slot, &place)| entry(slot, place, None))
                .collect()
        };
        assert!(
            [&[][..], &[0], &[1, 0], &[2, 0, 1]]
                .iter()
                .all(|p| is_gapless(&at(p)))
        );
        assert!(
            [&[1][..], &[0, 0], &[0, 2], &[3, 1, 0]]
                .iter()
                .all(|p| !is_gapless(&at(p)))
        );
    }

    #[test]
    fn who_is_silent_gets_what_is_left() {
        let by_slot = |entries: &[SteeringEntry]| {
            let mut found: Vec<_> = places(entries, 0, 9)
                .into_iter()
                .map(|(p, i)| (p.slot, i))
                .collect();
            found.sort_unstable();
            found
        };
        // Slot 2 had been last and moved into the place of the dead; 1 is silent and stays; 3
        // answered another probe.
        let entries = [
            entry(0, 0, Some((9, 0))),
            entry(1, 1, None),
            entry(2, 4, Some((9, 2))),
            entry(3, 3, Some((8, 7))),
        ];
        assert_eq!(by_slot(&entries), [(0, 0), (1, 1), (2, 2), (3, 3)]);
        // The silent one was last, and only one place is left.
        let entries = [
            entry(0, 0, Some((9, 0))),
            entry(1, 3, None),
            entry(2, 2, Some((9, 2))),
        ];
        assert_eq!(by_slot(&entries), [(0, 0), (1, 1), (2, 2)]);
        // A stranger's socket lies between.
        let entries = [entry(0, 0, Some((9, 0))), entry(1, 1, Some((9, 2)))];
        assert_eq!(by_slot(&entries), [(0, 0), (1, 2)]);
        assert!(places(&entries, 1, 9).is_empty());
    }
}
