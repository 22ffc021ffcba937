//! What an administrator's tools ask of a running process: to look at rules and ports at once, and to say what it has.
//!
//! Owns: the answer. Must not know: who asks.

use std::collections::BTreeMap;

use ferriband_memory::host::{Control, HOOK_PACKETS, Host, MSG_LOOK, PORT_HARD, PORT_STOPS};
use ferriband_transport::types::QpState;
use ferriband_wire::fault::Rule;

use crate::device;
use crate::lock;
use crate::objects::event::AsyncKind;
use crate::objects::owner::PORT;
use crate::progress::Engine;
use crate::wire::packets::hooks::RULE_OWNER_WORD;

/// Fault rules that a program brings along, separated by semicolons; devices by the numbers of their interfaces.
const FAULTS_VARIABLE: &str = "FERRIBAND_FAULTS";
/// A port's word counts failures that pass from this bit on, 24 bits, and final ones from the next.
const ERRORS: std::ops::Range<u32> = 8..32;
const FATALS_SHIFT: u32 = 32;
/// Failures that pass of which a program hears one by one, at one look.
const MOST_TOLD: u64 = 16;

/// Bytes of the answer: the message's first byte, then from byte 4 on the number of connected queue pairs on the direct wire, and of
/// those on packets.
const ANSWER_BYTES: usize = 16;

/// What administrators said of the devices' ports when it was last looked at, by interface.
#[derive(Debug)]
pub(crate) struct Ports(BTreeMap<u32, u64>);

impl Ports {
    /// As it is: what was said before this process began concerns it only as far as it lasts.
    pub fn now(host: &Host) -> Self {
        let interfaces = device::all().iter().map(|device| device.info.ifindex);
        Ports(
            interfaces
                .map(|ifindex| (ifindex, host.port_word(ifindex)))
                .collect(),
        )
    }
}

/// Adds the fault rules of the environment, for this process alone.
pub(super) fn bring_faults(host: &Host) {
    let Ok(text) = std::env::var(FAULTS_VARIABLE) else {
        return;
    };
    for rule in text.split(';').filter(|rule| !rule.trim().is_empty()) {
        let added = Rule::parse(rule, |ifindex| ifindex.parse().ok())
            .map_err(|error| error.to_string())
            .and_then(|rule| {
                let mut words = rule.to_words();
                words[RULE_OWNER_WORD] = host.me().to_word();
                host.fault_add_own(&words)
                    .map_err(|error| error.to_string())
            });
        if let Err(error) = added {
            ferriband_fork::tell(format_args!(
                "ferriband: {FAULTS_VARIABLE}: the rule '{rule}' does not hold: {error}"
            ));
        }
    }
}

/// What a program hears of a link that failed and came back so many times since it was last looked
/// at. A link that is taken down counts as such when it comes back, so that none which was down for
/// a moment is missed.
fn tell_of_link(tell: impl Fn(AsyncKind), (mut up, is_up): (bool, bool), passed: u64) {
    for _ in 0..passed.min(MOST_TOLD) {
        if up {
            tell(AsyncKind::PortErr);
        }
        tell(AsyncKind::PortActive);
        up = true;
    }
    match (up, is_up) {
        (true, false) => tell(AsyncKind::PortErr),
        (false, true) => tell(AsyncKind::PortActive),
        _ => {}
    }
}

impl Engine {
    /// Tells programs of what has become of ports.
    fn look_at_ports(&self) {
        let now = Ports::now(&self.process.registry);
        let before =
            std::mem::replace(&mut *lock(&self.progress.ports_seen), Ports(now.0.clone())).0;
        for (ifindex, word) in now.0 {
            let old = before.get(&ifindex).copied().unwrap_or(0);
            let changed = |from: u32, bits: u32| (old ^ word) >> from & ((1 << bits) - 1) != 0;
            let contexts = self.owners.of(ifindex);
            let is_up = || contexts.iter().all(|context| context.device.port().active);
            let tell = |kind| {
                contexts
                    .iter()
                    .for_each(|context| context.raise(kind, PORT))
            };
            // the kernel's word is told by itself
            if is_up() {
                let (was_up, is_up) = (old & PORT_STOPS == 0, word & PORT_STOPS == 0);
                let passed = (word >> ERRORS.start).wrapping_sub(old >> ERRORS.start)
                    & ((1 << (ERRORS.end - ERRORS.start)) - 1);
                tell_of_link(tell, (was_up, is_up), passed);
                if is_up && (!was_up || passed > 0) {
                    self.ask_by(ifindex);
                }
            }
            if changed(FATALS_SHIFT, u64::BITS - FATALS_SHIFT) {
                let hard = word & PORT_HARD != 0;
                for context in &contexts {
                    self.end_device(context, hard);
                }
            }
        }
    }

    /// A tool wants this process to look at what it changed.
    #[cold]
    pub(super) fn look_around(&self, control: &Control) {
        self.look_at_ports();
        let wanted = self.process.registry.hooks().any(HOOK_PACKETS);
        self.manager().look_around(self);
        let (mut direct, mut packets) = (0u32, 0u32);
        for qp in self.queue_pairs() {
            if wanted && qp.takes_both_wires() {
                // new queue pairs of others will send it packets; without a socket they are lost, as any datagram may be
                let _ = self.packets_of(&qp.ctx.device);
            }
            let up = matches!(
                qp.state_now(),
                QpState::Rtr | QpState::Rts | QpState::Sqd | QpState::Sqe
            );
            match up {
                true if qp.is_on_packets() => packets += 1,
                true => direct += 1,
                false => {}
            }
        }
        let mut answer = [0; ANSWER_BYTES];
        answer[0] = MSG_LOOK;
        answer[4..8].copy_from_slice(&direct.to_le_bytes());
        answer[8..12].copy_from_slice(&packets.to_le_bytes());
        // who does not wait for the answer does without
        let _ = control.send(&answer, &[]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    fn told(states: (bool, bool), passed: u64) -> String {
        let told = RefCell::new(String::new());
        let tell = |kind| {
            told.borrow_mut()
                .push(if kind == AsyncKind::PortErr { 'e' } else { 'a' })
        };
        tell_of_link(tell, states, passed);
        told.into_inner()
    }

    #[test]
    fn each_failure_of_a_link_is_told_however_late_it_is_looked() {
        assert_eq!(told((true, true), 0), "");
        assert_eq!(told((false, false), 0), "");
        assert_eq!(told((true, false), 0), "e");
        assert_eq!(told((false, true), 1), "a");
        assert_eq!(told((true, true), 2), "eaea");
        assert_eq!(told((true, false), 1), "eae");
        assert_eq!(told((false, false), 2), "aeae");
        assert_eq!(told((false, true), 2), "aea");
        // who set it knew nothing of the count
        assert_eq!(told((false, true), 0), "a");
        assert_eq!(told((true, true), u64::MAX).len(), 32);
    }
}
