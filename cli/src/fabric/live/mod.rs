//! `ferriband fabric up` and what is said to a fabric that is up.
//!
//! Owns the words: what is asked, and how an answer reads. The fabric's process is [`server`]'s, its own manager [`manager`]'s.

mod congestion;
mod deputy;
mod dump;
mod joins;
mod judge;
mod keys;
mod manager;
mod server;

pub use dump::command as dump;

use super::load;
use crate::args::{ErrorsArgs, FabricUpArgs, FabricWhyArgs, LinkArgs, NamedArgs, PowerArgs};
use crate::failure::Failure;
use crate::text::{Table, counted, print_json, print_line};
use ferriband_attach::ask::{Answer, Ask, CreditsLine, PathEnd, Status};
use ferriband_attach::{AttachError, HostName, Link, address, is_fabric_name};
use ferriband_subnet::routing::{ENGINES, Engine};
use std::io::Write;
use std::net::Ipv4Addr;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

/// How long a fabric may take to come up in the background.
const UP_PATIENCE: Duration = Duration::from_secs(120);

/// Says what went wrong with a fabric.
fn failed(error: AttachError) -> Failure {
    match &error {
        AttachError::NoFabric(name) => {
            let start = format!(
                "start one with: ferriband fabric up --name {name} --background fat-tree:4x4x2    (or another shape, or a netlist)"
            );
            let failure = Failure::new(error.to_string());
            match &ferriband_attach::running()[..] {
                [] => failure.remedy(start),
                others => failure.remedy(format!("up: {} (--name says which is meant); or {start}", others.join(", "))),
            }
        }
        AttachError::NameTaken(name) => Failure::new(error.to_string()).remedy(format!(
            "look at it with: ferriband fabric status --name {name}    end it with: ferriband fabric down --name {name}"
        )),
        AttachError::NoRange => Failure::new(error.to_string())
            .remedy("end one with: ferriband fabric down --name NAME    or bring this one up in a network namespace of its own"),
        _ => Failure::new(error.to_string()),
    }
}

fn dial(name: &str) -> Result<Link, Failure> {
    if !is_fabric_name(name) {
        return Err(Failure::new(format!(
            "\"{name}\" is no name for a fabric: at most 32 letters, digits, '-', '_' and '.'"
        ))
        .status(2));
    }
    Link::dial(name).map_err(failed)
}

/// `ferriband fabric up`.
pub fn up(args: &FabricUpArgs) -> Result<ExitCode, Failure> {
    let engine = Engine::find(&args.engine).ok_or_else(|| {
        let known: Vec<_> = ENGINES.iter().map(|engine| engine.name).collect();
        Failure::new(format!("there is no routing engine \"{}\"", args.engine))
            .remedy(format!("engines: {}", known.join(", ")))
            .status(2)
    })?;
    if !is_fabric_name(&args.named.name) {
        let what = format!("\"{}\" is no name for a fabric", args.named.name);
        return Err(Failure::new(what)
            .remedy("at most 32 letters, digits, '-', '_' and '.'")
            .status(2));
    }
    if args.background {
        return in_background(args);
    }
    let topology = load(&args.fabric)?;
    let mut server = server::Server::new(args, topology, engine)?;
    server.run()
}

/// The same program once more, which goes on when this one has ended.
fn in_background(args: &FabricUpArgs) -> Result<ExitCode, Failure> {
    use std::os::unix::process::CommandExt;
    if Link::dial(&args.named.name).is_ok() {
        return Err(failed(AttachError::NameTaken(args.named.name.clone())));
    }
    let own = std::env::current_exe()
        .map_err(|error| Failure::io("find", "this program's own file", &error))?;
    let words = std::env::args_os().skip(1);
    let mut child = Command::new(own)
        .args(words.filter(|word| word != "--background"))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        // a signal from this terminal is not for it
        .process_group(0)
        .spawn()
        .map_err(|error| Failure::io("start", "the fabric's process", &error))?;
    let until = Instant::now() + UP_PATIENCE;
    loop {
        if let Ok(Some(_)) = child.try_wait() {
            let said = child
                .stderr
                .take()
                .and_then(|pipe| std::io::read_to_string(pipe).ok());
            let said = said.unwrap_or_default();
            let said = said.trim().trim_start_matches("ferriband: ");
            return Err(Failure::new(if said.is_empty() {
                "the fabric's process ended at once"
            } else {
                said
            }));
        }
        if let Ok(link) = Link::dial(&args.named.name)
            && let Ok(Answer::Status(status)) = link.ask(&Ask::Status)
            && (status.manager == "none" || status.sweeps > 0)
            && let Some(warnings) = &status.warnings
        {
            print_line(&one_line(&status))?;
            for warning in warnings {
                complain!("ferriband: warning: {warning}");
            }
            return Ok(match status.failed {
                true => ExitCode::FAILURE,
                false => ExitCode::SUCCESS,
            });
        }
        if Instant::now() > until {
            let _ = child.kill();
            let _ = child.wait();
            return Err(Failure::new(format!(
                "the fabric did not come up within {} seconds",
                UP_PATIENCE.as_secs()
            )));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// What a fabric is, in a line.
fn one_line(status: &Status) -> String {
    format!(
        "fabric \"{}\" is up: {}, {}, {}; process {}; {}",
        status.name,
        counted(status.switches.total, "switch", "switches"),
        counted(status.hosts.total, "host", "hosts"),
        counted(status.links.total, "link", "links"),
        status.pid,
        status.manager_says
    )
}

/// `ferriband fabric down`.
pub fn down(args: &NamedArgs) -> Result<ExitCode, Failure> {
    let link = dial(&args.name)?;
    link.ask(&Ask::Down).map_err(failed)?;
    // its end is the end of the connection
    match link.receive(Some(Duration::from_secs(10))) {
        Err(AttachError::Gone) => print_line(&format!("fabric \"{}\" is down", args.name))?,
        _ => {
            let what = format!("the process of fabric \"{}\" does not end", args.name);
            return Err(Failure::new(what));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// `ferriband fabric status`.
pub fn status(args: &NamedArgs, json: bool) -> Result<ExitCode, Failure> {
    let answer = dial(&args.name)?.ask(&Ask::Status).map_err(failed)?;
    let Answer::Status(status) = answer else {
        return Err(Failure::new("the fabric's process gave another answer"));
    };
    if json {
        print_json(&*status)?;
        return Ok(ExitCode::SUCCESS);
    }
    print_line(&one_line(&status))?;
    print_line(&format!(
        "made from {}, {} s ago; manager: {}, {}",
        status.source,
        status.up_s,
        status.manager,
        counted(status.sweeps, "sweep", "sweeps")
    ))?;
    print_line(&format!(
        "links up {} of {}, with data {}; switched on {} of {} switches, {} of {} hosts",
        status.links.up,
        status.links.total,
        status.links.active,
        status.switches.on,
        status.switches.total,
        status.hosts.on,
        status.hosts.total
    ))?;
    print_line(&format!(
        "management packets {} ({} that nobody wanted), data packets {} ({} let go of)",
        status.mads.carried, status.mads.unwanted, status.packets.delivered, status.packets.dropped
    ))?;
    let pace = match status.pace.as_str() {
        "unpaced" => "links take no time".to_owned(),
        scale => format!("links at {scale} of their rates"),
    };
    let CreditsLine {
        lanes,
        taken_blocks,
        waiting_packets,
        wrong_lanes,
    } = status.credits;
    let wrong = match wrong_lanes {
        0 => String::new(),
        some => format!("; credits of {some} lanes are wrong: a defect, please report it"),
    };
    print_line(&format!(
        "{pace}; {lanes} lanes in use, {taken_blocks} blocks of their buffers taken, {waiting_packets} packets wait{wrong}"
    ))?;
    match status.keys.as_deref() {
        None => {}
        Some("") => print_line("ports are protected by a key that no file has")?,
        Some(file) => print_line(&format!(
            "ports are protected by a key; another manager: opensm -F {file}"
        ))?,
    }
    for warning in status.warnings.iter().flatten() {
        print_line(&format!("warning: {warning}"))?;
    }
    for broken in &status.broken {
        print_line(broken)?;
    }
    let mut table = Table::new(["host", "LID", "link", "address"]).right_align(&[1]);
    for host in &status.host_list {
        table.row([
            host.name.clone(),
            host.lid.to_string(),
            host.state.clone(),
            host.address.clone(),
        ]);
    }
    print_line(&table.render())?;
    for attached in &status.attached {
        print_line(&format!(
            "attached: process {} at {} ({})",
            attached.pid, attached.host, attached.how
        ))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// `ferriband fabric link`.
pub fn link(args: &LinkArgs) -> Result<ExitCode, Failure> {
    let ask = Ask::Link {
        node: args.node.clone(),
        port: args.port,
        up: args.state.is_on(),
    };
    dial(&args.named.name)?.ask(&ask).map_err(failed)?;
    Ok(ExitCode::SUCCESS)
}

/// `ferriband fabric errors`.
pub fn errors(args: &ErrorsArgs) -> Result<ExitCode, Failure> {
    let ask = Ask::Spoil {
        node: args.node.clone(),
        port: args.port,
        // a share is 1 at the most
        of_a_million: (args.share * 1e6).round() as u32,
    };
    dial(&args.named.name)?.ask(&ask).map_err(failed)?;
    Ok(ExitCode::SUCCESS)
}

/// `ferriband fabric power`.
pub fn power(args: &PowerArgs) -> Result<ExitCode, Failure> {
    let ask = Ask::Power {
        node: args.node.clone(),
        on: args.state.is_on(),
    };
    dial(&args.named.name)?.ask(&ask).map_err(failed)?;
    Ok(ExitCode::SUCCESS)
}

/// `ferriband fabric why`.
pub fn why(args: &FabricWhyArgs) -> Result<ExitCode, Failure> {
    let ask = Ask::Path {
        from: args.from,
        to: args.to,
    };
    let Answer::Path(path) = dial(&args.named.name)?.ask(&ask).map_err(failed)? else {
        return Err(Failure::new("the fabric's process gave another answer"));
    };
    if args.json.json {
        print_json(&path)?;
    } else {
        for line in path.links.iter().chain(&path.losses) {
            print_line(line)?;
        }
        print_line(&path.says)?;
    }
    Ok(match path.end {
        PathEnd::Arrives => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    })
}

/// `ferriband fabric sweep`.
pub fn sweep(args: &NamedArgs) -> Result<ExitCode, Failure> {
    dial(&args.name)?.ask(&Ask::Sweep).map_err(failed)?;
    Ok(ExitCode::SUCCESS)
}

/// The host that somebody means by `[FABRIC/]HOST`, if there is one, and its address.
pub fn host(words: &str) -> Result<(HostName, Ipv4Addr), Failure> {
    let whole = match words.contains('/') {
        true => words.to_owned(),
        false => format!("{}/{words}", ferriband_attach::DEFAULT_FABRIC),
    };
    let mut name = HostName::parse(&whole).ok_or_else(|| {
        Failure::new(format!("\"{words}\" is no host of a fabric"))
            .remedy("say HOST or FABRIC/HOST; ferriband fabric status lists the hosts")
            .status(2)
    })?;
    let ask = Ask::Adapter {
        host: name.host.clone(),
    };
    match dial(&name.fabric)?.ask(&ask) {
        Ok(Answer::Adapter(adapter)) => {
            name.host = adapter.host;
            Ok((name, address(adapter.number)))
        }
        Ok(_) => Err(Failure::new("the fabric's process gave another answer")),
        Err(AttachError::Refused(why)) => Err(Failure::new(why)
            .remedy("ferriband fabric status lists the hosts")
            .status(2)),
        Err(error) => Err(failed(error)),
    }
}

/// A line to whoever looks at the process; nobody need look.
fn tell(line: &str) {
    let _ = writeln!(std::io::stderr(), "ferriband: {line}");
}
