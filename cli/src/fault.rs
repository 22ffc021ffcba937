//! `ferriband fault`: rules by which packets fail, links that go down, devices that end.
//!
//! Owns: the commands. What a rule means is `ferriband-wire`'s, where rules lie the registry's; the adapters follow them.

use crate::args::{FaultArgs, FaultCommand, LinkState, Way};
use crate::domain::{self, Answers, Devices};
use crate::failure::Failure;
use crate::members;
use crate::text::{self, Table};
use clap::ValueEnum;
use ferriband_memory::host::{FaultRule, Host, PORT_STOPS};
use ferriband_wire::fault::Rule;
use std::process::ExitCode;

/// A port's word counts errors from this bit on, 24 bits, and failures of the device from the next.
const ERRORS_SHIFT: u32 = 8;
const FATALS_SHIFT: u32 = 32;
const ERRORS_MASK: u64 = 0xff_ffff;

/// `ferriband fault`.
pub fn command(command: &FaultCommand) -> Result<ExitCode, Failure> {
    let host = members::join()?;
    match command {
        FaultCommand::Add(args) => add(&host, args),
        FaultCommand::List(flag) => list(&host, flag.json),
        FaultCommand::Clear { rules } => clear(&host, rules),
        FaultCommand::Link { state, device } => link(&host, *state, device),
        FaultCommand::PortError { device } => {
            let errors = |word: u64| {
                let count = (word >> ERRORS_SHIFT).wrapping_add(1) & ERRORS_MASK;
                word & !(ERRORS_MASK << ERRORS_SHIFT) | count << ERRORS_SHIFT
            };
            let answers = change_port(&host, device, errors)?;
            say(
                &format!("{device}: the port failed and recovered"),
                &answers,
            )
        }
        FaultCommand::Fatal { device } => {
            let fatal = |word: u64| word.wrapping_add(1 << FATALS_SHIFT);
            let answers = change_port(&host, device, fatal)?;
            say(&format!("{device}: failed"), &answers)
        }
    }
}

/// Fails unless somebody is there whom faults could meet.
fn demand_adapters(host: &Host, remedy: &str) -> Result<(), Failure> {
    // those that died unnoticed do not count
    let _ = host.reap();
    if !domain::adapters(host).is_empty() {
        return Ok(());
    }
    Err(Failure::new(
        "nothing runs: no program of this user has an adapter open in this network namespace, and faults end with the last one",
    )
    .remedy(remedy))
}

fn say(what: &str, answers: &Answers) -> Result<ExitCode, Failure> {
    let mut line = format!("{what}, in {} processes", answers.processes);
    if answers.silent > 0 {
        line += &format!(
            "; {} more do not answer and will hear of it when they go on",
            answers.silent
        );
    }
    text::print_line(&line)?;
    Ok(ExitCode::SUCCESS)
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

fn add(host: &Host, args: &FaultArgs) -> Result<ExitCode, Failure> {
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
    text::print_line(&format!(
        "rule {id}: {}",
        rule.describe(|ifindex| devices.name(ifindex))
    ))?;
    let answers = domain::ask_to_look(host);
    if answers.direct > 0 {
        text::print_line(&format!(
            "  {} queue pairs are up on the direct wire, which has no packets: no rule meets them. Those that are created from now on \
             take packets.",
            answers.direct
        ))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Hits as they are told: some may have been drawn by several processes at the same time and not taken.
fn hits(rule: &Rule, found: &FaultRule) -> u64 {
    match rule.count {
        0 => found.hits,
        count => found.hits.min(count),
    }
}

fn list(host: &Host, json: bool) -> Result<ExitCode, Failure> {
    let devices = Devices::now();
    let rules: Vec<(Rule, FaultRule)> = host
        .fault_rules()
        .into_iter()
        .filter_map(|found| Some((Rule::from_words(&found.words)?, found)))
        .collect();
    let shown = |rule: &Rule| rule.describe(|ifindex| devices.name(ifindex)).to_string();
    let down = links_down(host, &devices);
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
        text::print_json(&serde_json::json!({ "rules": rules, "links_down": down }))?;
        return Ok(ExitCode::SUCCESS);
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
    Ok(ExitCode::SUCCESS)
}

fn links_down(host: &Host, devices: &Devices) -> Vec<String> {
    let down = |ifindex: &u32| host.port_word(*ifindex) & PORT_STOPS != 0;
    let all = devices.interfaces().into_iter().filter(down);
    all.map(|ifindex| devices.name(ifindex)).collect()
}

fn clear(host: &Host, rules: &[String]) -> Result<ExitCode, Failure> {
    let known: Vec<usize> = host.fault_rules().iter().map(|rule| rule.index).collect();
    let mut wanted = Vec::new();
    for rule in rules {
        if rule == "all" {
            wanted.extend(&known);
            continue;
        }
        let id = rule.parse().ok().filter(|id| known.contains(id));
        wanted.push(id.ok_or_else(|| {
            Failure::new(format!("there is no fault rule {rule}"))
                .remedy("ferriband fault list shows those that there are")
        })?);
    }
    wanted.sort_unstable();
    wanted.dedup();
    let cleared = wanted.iter().filter(|id| host.fault_remove(**id)).count();
    text::print_line(&format!("{cleared} rules cleared"))?;
    Ok(ExitCode::SUCCESS)
}

fn change_port(host: &Host, device: &str, change: impl Fn(u64) -> u64) -> Result<Answers, Failure> {
    let ifindex = Devices::now().interface(device).ok_or_else(|| {
        Failure::new(format!("there is no device {device}")).remedy("ferriband devices lists them")
    })?;
    demand_adapters(host, "start the program first")?;
    host.set_port_word(ifindex, change(host.port_word(ifindex)))
        .map_err(|error| domain::explain("tell the adapters", &error))?;
    Ok(domain::ask_to_look(host))
}

fn link(host: &Host, state: LinkState, device: &str) -> Result<ExitCode, Failure> {
    let (change, what): (fn(u64) -> u64, _) = match state {
        LinkState::Down => (|word| word | PORT_STOPS, "down"),
        LinkState::Up => (|word| word & !PORT_STOPS, "up"),
    };
    let answers = change_port(host, device, change)?;
    say(&format!("{device}: link {what}"), &answers)
}
