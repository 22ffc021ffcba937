//! The slow lane (papers/000 II-F, of its reference 91): a manager reads the counters of hosts' links again and again, and has flows to congested hosts change to virtual lanes of their
//! own, so that flows to other hosts need not stand behind them in anybody's buffer.
//!
//! Owns: who is congested, and since when not. What a flow does when its destination is slow is its adapter's ([`crate::host::Adapter::set_slow`]). PortXmitWait alone does not tell: at an output where flows
//! only meet (port r of the tutorial's Fig. 12) something is always sent, and nothing waits for credits; who waits are the senders behind. So a host is congested if its link is full while senders
//! wait for credits, or if the switch waits for its credits itself. A flow that changes its lane may overtake itself: packets of a queue pair would have to be let through first, which
//! is not simulated.

use super::part::Part;
use super::{Machine, Net};
use crate::event::{SLOW_LANE, event};
use crate::time::Time;
use std::sync::Arc;

/// How the manager looks.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct SlowLane {
    /// It reads the counters so often.
    pub interval: Time,
    /// A link is full at this share of its rate.
    pub full: f64,
    /// Somebody waits who lacks credits for this share of the time.
    pub waits: f64,
    /// A host is congested no more after so many looks at which it was not.
    pub calm: u16,
}

impl Default for SlowLane {
    fn default() -> Self {
        SlowLane {
            interval: Time::from_us(100),
            full: 0.95,
            waits: 0.05,
            calm: 3,
        }
    }
}

/// What the manager remembers.
#[derive(Debug)]
pub(super) struct Looks {
    rule: SlowLane,
    since: Time,
    hosts: Vec<Host>,
    slow: Vec<bool>,
    moves: u64,
}

/// A host's link.
#[derive(Debug)]
struct Host {
    adapter: u32,
    port: u32,
    lid: u32,
    /// The switch and its port, if it is at one.
    at: Option<(u32, u8)>,
    /// Bytes sent to the host, time that the switch's port and the host's waited.
    earlier: (u64, Time, Time),
    calm: u16,
}

impl Net {
    /// A manager looks from now on; see [`SlowLane`]. Switches and adapters must have lanes for the service levels with [`crate::host::SLOW`].
    ///
    /// # Panics
    /// If the fabric has run on several threads: a manager sees all hosts at one time.
    pub fn set_slow_lane(&mut self, rule: SlowLane) {
        let [part] = &mut self.parts[..] else {
            panic!("a manager of slow lanes comes before a fabric runs on several threads");
        };
        part.keep_time();
        let rule = SlowLane {
            interval: rule.interval.max(Time(1)),
            ..rule
        };
        let mut hosts = Vec::new();
        for (machine, base) in self.machines.iter().zip(&self.bases) {
            let Machine::Adapter(adapter) = *machine else {
                continue;
            };
            let port = base + 1;
            let at = part.ports.get(part.ports[port as usize].peer as usize);
            hosts.push(Host {
                adapter,
                port,
                lid: part.adapters[adapter as usize].lid(),
                at: at.and_then(|port| match port.machine() {
                    Machine::Switch(switch) => Some((switch, port.number)),
                    Machine::Adapter(_) => None,
                }),
                earlier: (0, Time::ZERO, Time::ZERO),
                calm: 0,
            });
        }
        let top = hosts.iter().map(|host| host.lid).max().unwrap_or(0);
        let first = part.looks.is_none();
        let looks = Box::new(Looks {
            rule,
            since: part.now,
            hosts,
            slow: vec![false; top as usize + 1],
            moves: 0,
        });
        part.looks = Some(part.noted(looks));
        if first {
            let next = part.now + rule.interval;
            part.queue.push(next, event(SLOW_LANE, 0));
        }
    }

    /// LIDs of hosts whose flows are in the slow lane.
    pub fn slow_hosts(&self) -> Vec<u32> {
        let slow = self.looks().into_iter().flat_map(|looks| &looks.slow);
        let all = (0u32..).zip(slow);
        all.filter(|(_, slow)| **slow).map(|(lid, _)| lid).collect()
    }

    /// How often a host became congested, or was so no more.
    pub fn slow_moves(&self) -> u64 {
        self.looks().map_or(0, |looks| looks.moves)
    }

    fn looks(&self) -> Option<&Looks> {
        self.parts[0].looks.as_deref()
    }
}

impl Part {
    /// Counters begin anew, or are looked at for the first time.
    pub(super) fn noted(&self, mut looks: Box<Looks>) -> Box<Looks> {
        looks.since = self.now;
        for host in &mut looks.hosts {
            host.earlier = self.read(host);
        }
        looks
    }

    fn read(&self, host: &Host) -> (u64, Time, Time) {
        let waited = self.adapters[host.adapter as usize].counters_at(self.now);
        let sent = host.at.map(|(switch, port)| {
            let counters = self.switches[switch as usize].counters_at(port, self.now);
            (counters.xmit_bytes, counters.xmit_wait)
        });
        let (bytes, behind) = sent.unwrap_or_default();
        (bytes, behind, waited.xmit_wait)
    }

    /// The manager's time has come.
    pub(super) fn look_at_hosts(&mut self) {
        let Some(mut looks) = self.looks.take() else {
            return;
        };
        let rule = looks.rule;
        let span = self.now.since(looks.since);
        looks.since = self.now;
        let least = (span.0 as f64 * rule.waits) as u64;
        let mut senders_wait = false;
        let mut read = Vec::with_capacity(looks.hosts.len());
        for host in &mut looks.hosts {
            let now = self.read(host);
            let then = std::mem::replace(&mut host.earlier, now);
            let waited = now.2.since(then.2).0;
            senders_wait |= waited > least;
            read.push((now.0.saturating_sub(then.0), now.1.since(then.1).0));
        }
        let mut changed = false;
        for (host, (bytes, behind)) in looks.hosts.iter_mut().zip(read) {
            let rate = self.adapters[host.adapter as usize].rate().kbps() as f64;
            let carried = bytes as f64 * 8e9 / rate;
            let full = carried >= rule.full * span.0 as f64;
            let congested = full && senders_wait || behind > least;
            let slow = &mut looks.slow[host.lid as usize];
            host.calm = if congested {
                0
            } else {
                host.calm.saturating_add(1)
            };
            if congested != *slow && (congested || host.calm >= rule.calm) {
                *slow = congested;
                looks.moves += 1;
                changed = true;
            }
        }
        if changed {
            self.move_flows(&looks);
        }
        self.looks = Some(looks);
        // it alone keeps no fabric alive
        if !self.queue.is_empty() {
            let next = self.now + rule.interval;
            self.queue.push(next, event(SLOW_LANE, 0));
        }
    }

    fn move_flows(&mut self, looks: &Looks) {
        let slow: Arc<[bool]> = looks.slow.as_slice().into();
        for adapter in &mut self.adapters {
            adapter.set_slow(&slow);
        }
        for host in &looks.hosts {
            // what lacked credits may have some in its new lane
            self.wake(host.port as usize, self.now);
        }
    }
}
