//! `ferriband status` and `ferriband counters`: devices, who uses them, and what went through them.
//!
//! Owns: putting together what the library shows, what the registry holds and what processes say. Asks without opening a queue
//! pair, so looking changes nothing.

mod show;

use crate::args::{CountersArgs, StatusArgs};
use crate::failure::Failure;
use crate::heals::{self, Heal};
use crate::members::{self, Asked};
use crate::putget::status as putget;
use crate::text::{print_json, print_line};
use crate::verbs::devices;
use ferriband_admin::{Counter, Member};
use ferriband_memory::host::Registry;
use serde::Serialize;
use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::Duration;

/// The whole.
#[derive(Serialize)]
struct Status {
    devices: Vec<DeviceStatus>,
    members: Vec<MemberStatus>,
    /// Of each rank of MPI that runs the newest heal of its connections, and all that are under
    /// way.
    heals: Vec<Heal>,
    /// Processes that put and get.
    putget: putget::Status,
}

/// A device and what went through it.
#[derive(Serialize)]
struct DeviceStatus {
    #[serde(flatten)]
    device: devices::Device,
    /// Its interface; none for ferri0.
    interface: Option<String>,
    /// By name; none for ferri0 while all its transfers are copies.
    counters: Option<BTreeMap<&'static str, u64>>,
}

/// A process that has the adapter open.
#[derive(Serialize)]
struct MemberStatus {
    pid: u32,
    /// It said what it has; one that is stopped does not.
    answers: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    member: Option<Member>,
}

/// `ferriband status`.
pub fn status(args: &StatusArgs) -> Result<ExitCode, Failure> {
    repeat(args.interval, args.json.json, || {
        let (devices, members) = look()?;
        let status = Status {
            devices,
            members,
            heals: heals_of_ranks()?,
            putget: putget::look()?,
        };
        if args.json.json {
            return print_json(&status);
        }
        show::status(&status, args.qps)?;
        if status.putget.processes.is_empty() {
            return Ok(());
        }
        print_line("")?;
        putget::show(&status.putget)
    })
}

/// Of each rank that runs its newest heal, and those that are under way.
fn heals_of_ranks() -> Result<Vec<Heal>, Failure> {
    let Some(directory) = ferriband_notes::state_directory() else {
        return Ok(Vec::new());
    };
    let (mut heals, _) = heals::read(&directory)?;
    heals.retain(|heal| heal.is_alive);
    let rank_of = |heal: &Heal| (heal.note.whose.pid, heal.note.whose.rank);
    let newest: BTreeMap<_, usize> = (0..)
        .zip(&heals)
        .map(|(at, heal)| (rank_of(heal), at))
        .collect();
    let mut at = 0;
    heals.retain(|heal| {
        at += 1;
        heal.is_under_way() || newest.get(&rank_of(heal)) == Some(&(at - 1))
    });
    Ok(heals)
}

/// `ferriband counters`.
pub fn counters(args: &CountersArgs) -> Result<ExitCode, Failure> {
    repeat(args.interval, args.json.json, || {
        let (mut devices, _) = look()?;
        devices.retain(|device| device.counters.is_some());
        if let Some(name) = &args.device {
            devices.retain(|device| device.device.name == *name);
            if devices.is_empty() {
                return Err(Failure::new(format!("there is no device {name} that counts packets"))
                    .remedy("ferriband devices lists devices; ferri0 counts once queue pairs of it have taken packets"));
            }
        }
        if args.json.json {
            let by_name: BTreeMap<_, _> = devices
                .iter()
                .map(|device| (&device.device.name, &device.counters))
                .collect();
            return print_json(&by_name);
        }
        show::counters(&devices, args.all)
    })
}

/// Once, or again and again on a cleared screen.
pub fn repeat(
    interval: Option<f64>,
    json: bool,
    mut show: impl FnMut() -> Result<(), Failure>,
) -> Result<ExitCode, Failure> {
    let Some(seconds) = interval else {
        show()?;
        return Ok(ExitCode::SUCCESS);
    };
    loop {
        if !json {
            // home, and clear to the end of the screen
            print_line("\x1b[H\x1b[J\x1b[A")?;
        }
        show()?;
        std::thread::sleep(Duration::from_secs_f64(seconds));
    }
}

fn look() -> Result<(Vec<DeviceStatus>, Vec<MemberStatus>), Failure> {
    let listed = devices::list()?;
    let host = members::join()?;
    // those who are asked publish what they have counted apart, too
    let asked = members::ask(&host)?;
    let devices = listed
        .into_iter()
        .map(|(device, interface)| {
            let counters = match &interface {
                // one that is gone has no number
                Some(interface) => Some(sums(&host, ifindex_of(interface).unwrap_or(u32::MAX))),
                None => {
                    let counts = host.port_counts();
                    let counted = counts.iter().any(|count| count.ifindex == 0);
                    counted.then(|| sums(&host, 0))
                }
            };
            DeviceStatus {
                counters,
                interface,
                device,
            }
        })
        .collect();
    Ok((devices, asked.into_iter().map(member_status).collect()))
}

fn member_status(asked: Asked) -> MemberStatus {
    MemberStatus {
        pid: asked.pid,
        answers: asked.answer.is_some(),
        member: asked.answer,
    }
}

fn ifindex_of(interface: &str) -> Option<u32> {
    ferriband_memory::net::netdevs()
        .ok()?
        .iter()
        .find(|one| one.name == interface)
        .map(|one| one.ifindex)
}

/// What all processes counted at an interface.
fn sums(registry: &Registry, ifindex: u32) -> BTreeMap<&'static str, u64> {
    let mut sums: BTreeMap<&'static str, u64> = Counter::ALL
        .into_iter()
        .map(|counter| (counter.name(), 0))
        .collect();
    for count in registry.port_counts() {
        if count.ifindex == ifindex {
            for counter in Counter::ALL {
                *sums.entry(counter.name()).or_default() += count.counters[counter as usize];
            }
        }
    }
    sums
}
