//! This host's adapters as a tool meets them: the domain of this user and network namespace, its members and its devices.
//!
//! Owns: what a device is called, and asking processes to look at once. Must not know: what a tool does with it.

use crate::failure::Failure;
use ferriband_admin::config::{self, Config};
use ferriband_memory::host::{
    Control, Host, HostError, MSG_LOOK, MSG_QP_ERROR, MSG_QP_MIGRATE, ProcessRef, Tool,
};
use ferriband_memory::net::{Netdev, netdevs};
use std::time::{Duration, Instant};

/// The InfiniBand device.
pub const NATIVE: &str = "ferri0";
/// What the names of Ethernet devices begin with.
const PREFIX: &str = "ferri_";
/// How long processes are waited for that are asked something: one may be stopped.
pub const ANSWER_WAIT: Duration = Duration::from_millis(500);
/// Between two looks for answers.
const ANSWER_TICK: Duration = Duration::from_micros(200);

/// What to say of an error of the domain.
pub fn explain(what: &str, error: &HostError) -> Failure {
    Failure::new(format!("cannot {what}: {error}"))
        .remedy("ferriband doctor says what this machine allows")
}

/// The processes with an adapter.
pub fn adapters(host: &Host) -> Vec<ProcessRef> {
    let members = host.members().into_iter();
    members
        .filter(|member| member.process != host.me() && Tool::of(member).is_none())
        .map(|member| member.process)
        .collect()
}

/// The interfaces of this namespace, by which devices are named.
pub struct Devices {
    interfaces: Vec<Netdev>,
    /// Names that the user has given (`ferriband up`), each with its interface.
    named: Vec<(String, String)>,
}

impl Devices {
    /// As they are now. A file of devices that cannot be read names none, as for the adapters.
    pub fn now() -> Self {
        let config = config::path().and_then(|path| Config::load(&path).ok());
        let named = config.unwrap_or_default().devices.into_iter();
        Devices {
            interfaces: netdevs().unwrap_or_default(),
            named: named
                .filter(|(_, device)| device.enabled)
                .map(|(name, device)| (name, device.interface))
                .collect(),
        }
    }

    /// The interface of a device; 0 for the InfiniBand device, None for a device that cannot be.
    pub fn interface(&self, name: &str) -> Option<u32> {
        if name == NATIVE {
            return Some(0);
        }
        let named = self.named.iter().find(|(given, _)| given == name);
        let interface = match named {
            Some((_, interface)) if interface.is_empty() => return Some(0),
            Some((_, interface)) => interface,
            None => name.strip_prefix(PREFIX)?,
        };
        let known = self
            .interfaces
            .iter()
            .find(|known| known.name == interface)?;
        Some(known.ifindex)
    }

    /// The interfaces of all devices that there can be.
    pub fn interfaces(&self) -> Vec<u32> {
        let known = self.interfaces.iter().map(|known| known.ifindex);
        std::iter::once(0).chain(known).collect()
    }

    /// The device of an interface.
    pub fn name(&self, ifindex: u32) -> String {
        let known = self
            .interfaces
            .iter()
            .find(|known| known.ifindex == ifindex);
        let given = |interface: &str| {
            let named = self.named.iter().find(|(_, of)| of == interface);
            named.map(|(name, _)| name.clone())
        };
        match known {
            _ if ifindex == 0 => NATIVE.to_owned(),
            Some(known) => given(&known.name).unwrap_or_else(|| format!("{PREFIX}{}", known.name)),
            None => format!("{PREFIX}?{ifindex}"),
        }
    }
}

/// What processes say when they are asked to look at rules and ports.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Answers {
    /// How many have said that they have looked.
    pub processes: usize,
    /// How many have not, in time.
    pub silent: usize,
    /// Their connected queue pairs on the direct wire.
    pub direct: u64,
    /// Their queue pairs on packets.
    pub packets: u64,
}

/// Makes every process look at rules and ports now. Answers are waited for no longer than
/// `patience`, and half a second at the most.
pub fn ask_to_look(host: &Host, patience: Duration) -> Answers {
    let mut answers = Answers::default();
    let look = [MSG_LOOK];
    (answers.processes, answers.silent) = ask(host, &look, patience, |direct, packets| {
        answers.direct += direct;
        answers.packets += packets;
    });
    answers
}

/// Lets queue pairs fail, that of a number or all, of an interface's device or of all. How many
/// have; and the answers, for which it is waited as by [`ask_to_look`].
pub fn ask_to_fail(
    host: &Host,
    (qpn, ifindex): (Option<u32>, Option<u32>),
    patience: Duration,
) -> (u64, Answers) {
    let message = about_queue_pairs(MSG_QP_ERROR, qpn, ifindex);
    let (mut failed, mut answers) = (0, Answers::default());
    (answers.processes, answers.silent) = ask(host, &message, patience, |here, _| failed += here);
    (failed, answers)
}

/// Has connections go over to their alternate paths, chosen as by [`ask_to_fail`]: how many have,
/// how many could not, and the answers.
pub fn ask_to_migrate(host: &Host, qpn: Option<u32>, ifindex: Option<u32>) -> ([u64; 2], Answers) {
    let message = about_queue_pairs(MSG_QP_MIGRATE, qpn, ifindex);
    let (mut done, mut answers) = ([0; 2], Answers::default());
    (answers.processes, answers.silent) = ask(host, &message, ANSWER_WAIT, |migrated, unarmed| {
        done = [done[0] + migrated, done[1] + unarmed];
    });
    (done, answers)
}

/// A message about the queue pair of a number or all, of an interface's device or of all.
fn about_queue_pairs(what: u8, qpn: Option<u32>, ifindex: Option<u32>) -> [u8; 12] {
    let mut message = [0; 12];
    message[0] = what;
    message[4..8].copy_from_slice(&qpn.unwrap_or(u32::MAX).to_le_bytes());
    message[8..].copy_from_slice(&ifindex.map_or(0, |index| index + 1).to_le_bytes());
    message
}

/// Says something to every process, and hands on the two numbers that each answers. How many have
/// answered, and how many have not.
fn ask(
    host: &Host,
    message: &[u8],
    patience: Duration,
    mut heard: impl FnMut(u64, u64),
) -> (usize, usize) {
    let (mut processes, mut silent) = (0, 0);
    let mut asked: Vec<Control> = Vec::new();
    for process in adapters(host) {
        let control = host.connect(process).ok();
        match control.filter(|control| control.send(message, &[]).is_ok()) {
            Some(control) => asked.push(control),
            // dead, which nobody has noticed yet, or too busy to be asked
            None => silent += usize::from(host.is_live(process)),
        }
    }
    let deadline = Instant::now() + patience.min(ANSWER_WAIT);
    while !asked.is_empty() {
        asked.retain(|control| {
            let mut bytes = [0; 16];
            match control.recv(&mut bytes) {
                Ok(None) => true,
                Ok(Some((16, _))) if bytes[0] == message[0] => {
                    let word = |at: usize| {
                        u64::from(u32::from_le_bytes([
                            bytes[at],
                            bytes[at + 1],
                            bytes[at + 2],
                            bytes[at + 3],
                        ]))
                    };
                    processes += 1;
                    heard(word(4), word(8));
                    false
                }
                _ => false,
            }
        });
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            break;
        }
        if !asked.is_empty() {
            std::thread::sleep(left.min(ANSWER_TICK));
        }
    }
    (processes, silent + asked.len())
}
