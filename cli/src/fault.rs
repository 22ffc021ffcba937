//! `ferriband fault`: rules by which packets fail, links that go down, devices and queue pairs that
//! fail.
//!
//! Owns: the commands. What a rule means is `ferriband-wire`'s, where rules lie the registry's; the
//! adapters follow them. When several come one after the other, [`timeline`] says; how a plan
//! reads, [`plan`].

use crate::args::{FaultArgs, FaultCommand, LinkCommand, QpErrorArgs, Way};
use crate::domain::{self, Answers, Devices};
use crate::failure::Failure;
use crate::members;
use crate::text::{self, Table};
use clap::ValueEnum;
use ferriband_memory::host::{FaultRule, Host, PORT_GONE, PORT_HARD, PORT_STOPS};
use ferriband_memory::wait;
use ferriband_wire::fault::Rule;
use std::process::ExitCode;
use std::time::Duration;

/// A port's word counts errors from this bit on, 24 bits, and failures of the device from the next.
const ERRORS_SHIFT: u32 = 8;
const FATALS_SHIFT: u32 = 32;
const ERRORS_MASK: u64 = 0xff_ffff;

mod flap;
mod plan;
mod timeline;

/// `ferriband fault`.
pub fn command(command: &FaultCommand) -> Result<ExitCode, Failure> {
    match command {
        FaultCommand::List(flag) => list(&members::join()?, flag.json)?,
        FaultCommand::Link(LinkCommand::Flap(args)) => return flap::command(args),
        FaultCommand::Plan(args) => return plan::command(args),
        once => {
            let done = act(&members::join()?, once, domain::ANSWER_WAIT)?;
            text::print_line(&done.said)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// What came of a command.
#[derive(Debug, Default)]
struct Done {
    said: String,
    /// The rule that was added.
    rule: Option<usize>,
    /// Who was told.
    answers: Answers,
}

impl Done {
    fn said(said: String) -> Self {
        Done {
            said,
            ..Done::default()
        }
    }

    /// `what` was done, and these were told.
    fn told(what: &str, answers: Answers) -> Self {
        let mut said = format!("{what}, in {} processes", answers.processes);
        if answers.silent > 0 {
            said += &format!(
                "; {} more do not answer and will hear of it when they go on",
                answers.silent
            );
        }
        Done {
            said,
            rule: None,
            answers,
        }
    }
}

/// Carries out a command that is done at once. Answers are waited for no longer than `patience`.
fn act(host: &Host, command: &FaultCommand, patience: Duration) -> Result<Done, Failure> {
    match command {
        FaultCommand::Add(args) => add(host, args, patience),
        FaultCommand::Clear { what } => clear(host, what, patience),
        FaultCommand::Link(LinkCommand::Down { device }) => link(host, device, false, patience),
        FaultCommand::Link(LinkCommand::Up { device }) => link(host, device, true, patience),
        FaultCommand::PortError { device } => {
            let failed = |word| match word & PORT_STOPS {
                0 => one_more_error(word),
                // it is down already
                _ => word,
            };
            let answers = change_port(host, device, patience, |(word, until)| {
                (failed(word), until)
            })?;
            let what = format!("{device}: the port failed and recovered");
            Ok(Done::told(&what, answers))
        }
        FaultCommand::Fatal {
            device,
            lasts,
            gone,
            hard,
        } => fatal(host, device, (*lasts, *gone, *hard), patience),
        FaultCommand::QpError(args) => qp_error(host, args, patience),
        FaultCommand::List(_)
        | FaultCommand::Plan(_)
        | FaultCommand::Link(LinkCommand::Flap(_)) => {
            Err(Failure::new("this takes time, or changes nothing"))
        }
    }
}

/// The port's word after one more failure that passed.
fn one_more_error(word: u64) -> u64 {
    let count = (word >> ERRORS_SHIFT).wrapping_add(1) & ERRORS_MASK;
    word & !(ERRORS_MASK << ERRORS_SHIFT) | count << ERRORS_SHIFT
}

/// Fails unless somebody is there whom faults could meet.
fn demand_adapters(host: &Host, remedy: &str) -> Result<(), Failure> {
    if !timeline::is_alone(host) {
        return Ok(());
    }
    Err(Failure::new(
        "nothing runs: no program of this user has an adapter open in this network namespace, and faults end with the last one",
    )
    .remedy(remedy))
}

/// The rule in the form that is read: what clap took apart is put together again, so that there is one reader of rules.
fn words(args: &FaultArgs) -> String {
    let action = args.action.to_possible_value();
    let mut words = action.map_or(String::new(), |value| value.get_name().to_owned());
    let direction = args.direction.map(|way| match way {
        Way::Tx => "tx".to_owned(),
        Way::Rx => "rx".to_owned(),
    });
    for (key, value) in [
        ("opcode", &args.opcode),
        ("qpn", &args.qpn),
        ("psn", &args.psn),
        ("direction", &direction),
        ("device", &args.device),
        ("peer", &args.path.peer),
        ("slid", &args.path.slid),
        ("dlid", &args.path.dlid),
        ("udp-port", &args.path.udp_port),
        ("probability", &args.probability),
        ("count", &args.count),
        ("delay-us", &args.delay_us),
    ] {
        if let Some(value) = value {
            // a space would begin another word
            words += &format!(" {key}={}", value.replace(' ', "-"));
        }
    }
    words
}

fn parse(text: &str, devices: &Devices) -> Result<Rule, Failure> {
    Rule::parse(text, |name| devices.interface(name))
        .map_err(|error| Failure::new(format!("in the rule '{text}': {error}")).status(2))
}

/// The rules that `run --fault` gives a program, as the adapter reads them: devices by the numbers of their interfaces.
pub fn for_program(rules: &[String]) -> Result<String, Failure> {
    let devices = Devices::now();
    let mut text = Vec::new();
    for rule in rules {
        let rule = parse(rule, &devices)?;
        text.push(rule.describe(|ifindex| ifindex).to_string());
    }
    Ok(text.join(";"))
}

fn add(host: &Host, args: &FaultArgs, patience: Duration) -> Result<Done, Failure> {
    let devices = Devices::now();
    let words = words(args);
    let rule = parse(&words, &devices)?;
    demand_adapters(
        host,
        &format!("start the program first, or: ferriband run --fault '{words}' -- PROGRAM"),
    )?;
    let id = host
        .fault_add(&rule.to_words())
        .map_err(|error| domain::explain("add the rule", &error))?;
    let answers = domain::ask_to_look(host, patience);
    let mut said = format!(
        "rule {id}: {}",
        rule.describe(|ifindex| devices.name(ifindex))
    );
    if answers.direct > 0 {
        said += &format!(
            "\n  {} queue pairs are up on the direct wire, which has no packets: no rule meets them. Those that are created from now on \
             take packets.",
            answers.direct
        );
    }
    Ok(Done {
        said,
        rule: Some(id),
        answers,
    })
}

/// Hits as they are told: some may have been drawn by several processes at the same time and not taken.
fn hits(rule: &Rule, found: &FaultRule) -> u64 {
    match rule.count {
        0 => found.hits,
        count => found.hits.min(count),
    }
}

fn list(host: &Host, json: bool) -> Result<(), Failure> {
    let devices = Devices::now();
    let rules: Vec<(Rule, FaultRule)> = host
        .fault_rules()
        .into_iter()
        .filter_map(|found| Some((Rule::from_words(&found.words)?, found)))
        .collect();
    let shown = |rule: &Rule| rule.describe(|ifindex| devices.name(ifindex)).to_string();
    let down = links_down(host, &devices);
    let failed = failed_devices(host, &devices);
    if json {
        let rules: Vec<serde_json::Value> = rules
            .iter()
            .map(|(rule, found)| {
                serde_json::json!({
                    "id": found.index,
                    "action": rule.action.name(),
                    "rule": shown(rule),
                    "probability": rule.probability(),
                    "count": (rule.count != 0).then_some(rule.count),
                    "hits": hits(rule, found),
                })
            })
            .collect();
        let failed: Vec<serde_json::Value> = failed
            .iter()
            .map(|(device, ends)| {
                serde_json::json!({
                    "device": device,
                    "gone": ends.is_none(),
                    "seconds_left": ends.map(|left| left.as_secs_f64()),
                })
            })
            .collect();
        let all =
            serde_json::json!({ "rules": rules, "links_down": down, "devices_failed": failed });
        return text::print_json(&all);
    }
    if rules.is_empty() {
        text::print_line("no fault rules")?;
    } else {
        let mut table = Table::new(["id", "hits", "rule"]).right_align(&[0, 1]);
        for (rule, found) in &rules {
            table.row([
                found.index.to_string(),
                hits(rule, found).to_string(),
                shown(rule),
            ]);
        }
        table.print()?;
    }
    for device in down {
        text::print_line(&format!("{device}: link down"))?;
    }
    for (device, ends) in failed {
        text::print_line(&match ends {
            None => format!("{device}: gone"),
            Some(left) => format!("{device}: failed, for {} more", span(left)),
        })?;
    }
    Ok(())
}

fn span(span: Duration) -> String {
    text::duration(span.as_nanos() as f64)
}

fn links_down(host: &Host, devices: &Devices) -> Vec<String> {
    let down = |ifindex: &u32| host.port_word(*ifindex) & PORT_STOPS != 0;
    let all = devices.interfaces().into_iter().filter(down);
    all.map(|ifindex| devices.name(ifindex)).collect()
}

/// Devices that cannot be opened now, and for how long; None for one that is gone.
fn failed_devices(host: &Host, devices: &Devices) -> Vec<(String, Option<Duration>)> {
    let now = wait::now().0;
    let failed = |ifindex: u32| {
        if host.port_word(ifindex) & PORT_GONE != 0 {
            return Some((ifindex, None));
        }
        let left = host.port_until(ifindex).checked_sub(now)?;
        Some((ifindex, Some(Duration::from_nanos(left))))
    };
    let all = devices.interfaces().into_iter().filter_map(failed);
    all.map(|(ifindex, ends)| (devices.name(ifindex), ends))
        .collect()
}

fn clear(host: &Host, what: &[String], patience: Duration) -> Result<Done, Failure> {
    let devices = Devices::now();
    let known: Vec<usize> = host.fault_rules().iter().map(|rule| rule.index).collect();
    let failed = failed_devices(host, &devices);
    let mut rules = Vec::new();
    let mut back = Vec::new();
    for name in what {
        if name == "all" {
            rules.extend(&known);
            back.extend(failed.iter().map(|(device, _)| device));
        } else if let Some(id) = name.parse().ok().filter(|id| known.contains(id)) {
            rules.push(id);
        } else if let Some((device, _)) = failed.iter().find(|(device, _)| device == name) {
            back.push(device);
        } else {
            return Err(Failure::new(format!(
                "there is no fault rule {name}, and no device that has failed is called so"
            ))
            .remedy("ferriband fault list shows those that there are"));
        }
    }
    rules.sort_unstable();
    rules.dedup();
    let cleared = rules.iter().filter(|id| host.fault_remove(**id)).count();
    let mut said = Vec::new();
    if cleared > 0 || back.is_empty() {
        said.push(format!("{cleared} rules cleared"));
    }
    back.sort_unstable();
    back.dedup();
    for device in back {
        bring_back(host, device, patience)?;
        said.push(format!("{device}: can be opened again"));
    }
    Ok(Done::said(said.join("\n")))
}

/// A device that has failed can be opened again.
fn bring_back(host: &Host, device: &str, patience: Duration) -> Result<Answers, Failure> {
    change_port(host, device, patience, |(word, _)| (word & !PORT_GONE, 0))
}

/// Changes a device's word, and the time until which it cannot be opened.
fn change_port(
    host: &Host,
    device: &str,
    patience: Duration,
    change: impl Fn((u64, u64)) -> (u64, u64),
) -> Result<Answers, Failure> {
    let ifindex = interface(device)?;
    demand_adapters(host, "start the program first")?;
    let (word, until) = change((host.port_word(ifindex), host.port_until(ifindex)));
    host.set_port(ifindex, word, until)
        .map_err(|error| domain::explain("tell the adapters", &error))?;
    Ok(domain::ask_to_look(host, patience))
}

fn interface(device: &str) -> Result<u32, Failure> {
    Devices::now().interface(device).ok_or_else(|| {
        Failure::new(format!("there is no device {device}")).remedy("ferriband devices lists them")
    })
}

/// A link goes down, or comes back: that counts as a failure that passed, so that programs hear of
/// it which were too slow to see it down.
fn link(host: &Host, device: &str, up: bool, patience: Duration) -> Result<Done, Failure> {
    let (change, what): (fn(u64) -> u64, _) = match up {
        false => (|word| word | PORT_STOPS, "down"),
        true => (
            |word| match word & PORT_STOPS {
                0 => word,
                _ => one_more_error(word & !PORT_STOPS),
            },
            "up",
        ),
    };
    let answers = change_port(host, device, patience, |(word, until)| {
        (change(word), until)
    })?;
    Ok(Done::told(&format!("{device}: link {what}"), answers))
}

fn fatal(
    host: &Host,
    device: &str,
    (lasts, gone, hard): (Option<Duration>, bool, bool),
    patience: Duration,
) -> Result<Done, Failure> {
    let until = lasts.map_or(0, |lasts| wait::now().plus_ns(lasts.as_nanos() as u64).0);
    let answers = change_port(host, device, patience, |(word, _)| {
        let mut failed = word.wrapping_add(1 << FATALS_SHIFT) & !PORT_HARD;
        for (bit, wanted) in [(PORT_GONE, gone), (PORT_HARD, hard)] {
            failed |= if wanted { bit } else { 0 };
        }
        (failed, until)
    })?;
    let what = match lasts {
        _ if gone => format!("{device}: failed, and is gone"),
        Some(lasts) => format!("{device}: failed for {}", span(lasts)),
        None => format!("{device}: failed"),
    };
    Ok(Done::told(&what, answers))
}

fn qp_error(host: &Host, args: &QpErrorArgs, patience: Duration) -> Result<Done, Failure> {
    let ifindex = args.device.as_deref().map(interface).transpose()?;
    demand_adapters(host, "start the program first")?;
    let (failed, answers) = domain::ask_to_fail(host, (args.qpn, ifindex), patience);
    if failed == 0 && answers.silent == 0 {
        return Err(Failure::new("there is no such queue pair that could fail")
            .remedy("ferriband status shows those that there are"));
    }
    let what = format!("{failed} queue pairs failed");
    Ok(Done::told(&what, answers))
}
