//! Interoperation with the Linux kernel's Soft-RoCE: `cargo xtask interop`, behind `make interop`.
//!
//! The kernel runs as a process (User-Mode Linux) that boots this very system's root directory, read-only, so the programs on both
//! sides are the same files of Debian's packages; on our side they run under `ferriband run`. See `xtask/interop` for the kernel's
//! recipe and for the guest's first process.
//!
//! Nothing outlives a run, however it ends: everything happens in namespaces of processes, network and mounts whose first process is
//! `inside`. It ends when its standard input does, which is a pipe that the outer process holds; the kernel then kills the rest, and
//! the network and the temporary files, which lie in a file system of the namespace's own, go with the namespaces.

mod guest;
mod lab;
mod own;
mod programs;
mod table;

use crate::{Outcome, value, workspace_root};
use lab::{Lab, Output, Side};
use programs::Program;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use table::{Column, Failure, Row, Table};

const USAGE: &str = "\
usage: cargo xtask interop [OPTIONS]

Runs Debian's RDMA programs between the Linux kernel's Soft-RoCE, in a guest that is a process, and our adapter, each serving the
other, without and with loss of 1 % in both directions. The first time it builds the guest's kernel (about ten minutes).

  --only TEXT       only programs whose title has TEXT in it; may be given more than once
  --no-loss         without the columns with loss
  --loss            only the columns with loss
  --all             runs with loss what is left out there too (datagrams, UC, perftest 4.5's ib_send_lat -e): to see how it fails
  --reference       adds columns of Soft-RoCE with itself, between two guests
  --rounds N        runs everything N times, and fails if any round does; shows the last, or the first that failed
  --ferriband FILE  the program to test, by default target/release/ferriband
  --capture DIR     keeps a capture of each run in DIR (needs tcpdump)
  --json            prints the result as JSON
  --readme          writes the table into README.md, if everything was run
  --list            says what would be run
";

/// The longest that a pair of programs may take, with loss.
const PATIENCE: Duration = Duration::from_secs(45);
/// How long the other program may go on after one has ended badly, or well.
const END_PATIENCE: Duration = Duration::from_secs(10);
/// The file system of the run.
const DIRECTORY: &str = "/run";
/// The first TCP port; each pair has its own, below the range that the kernel gives to clients.
const FIRST_PORT: u16 = 19_000;

/// How often a pair is run whose last word may be lost with loss ([`Program::leaves_early`]): one
/// acknowledgement or answer in a hundred, or one of the few packets with which a connection ends.
const MOST_TRIES: u32 = 10;

/// The loss ends when the guest has lost so many packets more, for a program that outlasts it
/// ([`Program::outlasts_loss`]); then both sides have to end well, at the first try.
///
/// ibv_srq_pingpong ends as soon as its 16 queue pairs have exchanged enough messages together. By
/// then some of them may still wait for an acknowledgement that was lost: the kernel's client asks
/// again only after 67 ms, and all 500 messages take no longer. Whoever serves has destroyed its
/// queue pairs by then, as on any adapter, whose queue pairs end whatever their peers have heard.
/// With loss up to the end Soft-RoCE with itself needs up to three tries too, and the sooner a
/// server repeats what itself has lost, the more it needs.
const ENOUGH_LOST: u64 = 20;

#[derive(Default)]
struct Options {
    only: Vec<String>,
    no_loss: bool,
    only_loss: bool,
    all: bool,
    reference: bool,
    json: bool,
    readme: bool,
    list: bool,
    rounds: u32,
    ferriband: Option<PathBuf>,
    capture: Option<PathBuf>,
    /// Set in the process inside the namespaces: the kernel.
    inside: Option<PathBuf>,
}

impl Options {
    fn parse(args: &[String]) -> Result<Options, String> {
        let mut options = Options {
            rounds: 1,
            ..Options::default()
        };
        let mut rest = args.iter();
        while let Some(arg) = rest.next() {
            match arg.as_str() {
                "--only" => options.only.push(value(arg, &mut rest)?.to_owned()),
                "--no-loss" => options.no_loss = true,
                "--loss" => options.only_loss = true,
                "--all" => options.all = true,
                "--reference" => options.reference = true,
                "--json" => options.json = true,
                "--readme" => options.readme = true,
                "--list" => options.list = true,
                "--rounds" => {
                    let text = value(arg, &mut rest)?;
                    let rounds = text.parse().ok().filter(|&rounds| rounds > 0);
                    options.rounds =
                        rounds.ok_or_else(|| format!("--rounds needs a number, not {text}"))?;
                }
                "--ferriband" => options.ferriband = Some(value(arg, &mut rest)?.into()),
                "--capture" => options.capture = Some(value(arg, &mut rest)?.into()),
                "--inside" => options.inside = Some(value(arg, &mut rest)?.into()),
                _ => return Err(format!("interop: unknown argument {arg}\n\n{USAGE}")),
            }
        }
        let partial =
            !options.only.is_empty() || options.no_loss || options.only_loss || options.all;
        if options.readme && (partial || options.reference) {
            return Err(
                "--readme writes the whole table: without --only, --no-loss, --loss, --all, --reference"
                    .to_owned(),
            );
        }
        Ok(options)
    }

    fn ferriband(&self) -> PathBuf {
        self.ferriband
            .clone()
            .unwrap_or_else(|| crate::libs::target_directory().join("release/ferriband"))
    }

    fn programs(&self) -> Vec<Program> {
        let wanted = |program: &Program| {
            self.only.is_empty()
                || self
                    .only
                    .iter()
                    .any(|text| program.title.contains(text.as_str()))
        };
        programs::all().into_iter().filter(wanted).collect()
    }
}

/// `cargo xtask interop`.
pub fn run(args: &[String]) -> Outcome {
    if args.iter().any(|arg| arg == "--help" || arg == "-h") {
        print!("{USAGE}");
        return Ok(());
    }
    let options = Options::parse(args)?;
    if options.list {
        for program in options.programs() {
            println!("{:44} {}", program.title, program.proves);
        }
        return Ok(());
    }
    if options.programs().is_empty() {
        return Err(format!(
            "no program has {} in its title; see --list",
            options.only.join(" or ")
        ));
    }
    match &options.inside {
        Some(kernel) => inside(&options, kernel),
        None => outside(&options, args),
    }
}

fn outside(options: &Options, args: &[String]) -> Outcome {
    let ferriband = options.ferriband();
    if !ferriband.is_file() {
        return Err(format!(
            "there is no {}: make build, or name another by --ferriband",
            ferriband.display()
        ));
    }
    if !Path::new("/dev/net/tun").exists() {
        return Err(
            "there is no /dev/net/tun, which the guest's network card needs (module tun)"
                .to_owned(),
        );
    }
    if let Some(directory) = &options.capture {
        std::fs::create_dir_all(directory)
            .map_err(|error| format!("{}: {error}", directory.display()))?;
    }
    own::build()?;
    let kernel = built_kernel()?;
    let myself =
        std::env::current_exe().map_err(|error| format!("this program's own file: {error}"))?;
    let mut unshare = Command::new("unshare");
    if !is_root() {
        unshare.arg("--map-root-user");
    }
    let mut child = unshare
        .args([
            "--net",
            "--mount",
            "--pid",
            "--fork",
            "--mount-proc",
            "--kill-child=KILL",
            "--",
        ])
        .arg(myself)
        .arg("interop")
        .args(args)
        .arg("--inside")
        .arg(kernel)
        .env("CARGO_TARGET_DIR", crate::libs::target_directory())
        .stdin(Stdio::piped())
        .spawn()
        .map_err(|error| format!("unshare, of the package util-linux: {error}"))?;
    // its other end is what the process inside lives by
    let hold = child.stdin.take();
    let status = child.wait().map_err(|error| format!("unshare: {error}"))?;
    drop(hold);
    match status.code() {
        Some(0) => Ok(()),
        Some(_) => Err("interop failed; what happened is said above".to_owned()),
        None => Err(format!("interop ended badly: {status}")),
    }
}

/// The guest's kernel: built now, or before.
fn built_kernel() -> Result<PathBuf, String> {
    let recipe = workspace_root().join("xtask/interop/build-kernel");
    let output = Command::new(&recipe)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| format!("{}: {error}", recipe.display()))?;
    if !output.status.success() {
        return Err(format!(
            "the guest's kernel was not built: {}",
            output.status
        ));
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim_end().into())
}

fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/self").is_ok_and(|metadata| metadata.uid() == 0)
}

/// The first process of the namespaces.
fn inside(options: &Options, kernel: &Path) -> Outcome {
    std::thread::spawn(|| {
        // Nothing is ever sent: this returns when the outer process has ended, whatever ended it.
        let _ = std::io::stdin().read(&mut [0]);
        std::process::exit(1);
    });
    crate::run(
        Command::new("mount").args(["-t", "tmpfs", "-o", "mode=755", "interop", DIRECTORY]),
    )?;
    let directory = Path::new(DIRECTORY).join("interop");
    // the lock files of our libraries go to the user's run-time directory if there is one
    for wanted in [&directory, Path::new("/run/user/0")] {
        std::fs::create_dir_all(wanted)
            .map_err(|error| format!("{}: {error}", wanted.display()))?;
    }
    let guests = if options.reference { 2 } else { 1 };
    say(&format!(
        "booting {guests} guest(s) with {}",
        kernel.display()
    ));
    let mut lab = Lab::make(kernel, &options.ferriband(), &directory, guests)?;
    for round in 1..=options.rounds {
        if options.rounds > 1 {
            say(&format!("round {round} of {}", options.rounds));
        }
        let table = fill_table(options, &mut lab)?;
        let (_, failed) = table.count();
        if round < options.rounds && failed == 0 {
            continue;
        }
        if options.json {
            println!("{:#}", table.json());
        } else {
            print!("{}", table.text());
        }
        if options.readme {
            write_readme(&table)?;
        }
        if failed > 0 {
            return Err(table.sum());
        }
        if !options.no_loss && table.lost == 0 {
            return Err(
                "no packet was lost in the columns with loss: they prove nothing".to_owned(),
            );
        }
    }
    Ok(())
}

fn write_readme(table: &Table) -> Outcome {
    let path = workspace_root().join("README.md");
    let shown = path.display();
    let document = std::fs::read_to_string(&path).map_err(|error| format!("{shown}: {error}"))?;
    let new = table::replace_between_marks(&document, &table.markdown())?;
    std::fs::write(&path, new).map_err(|error| format!("{shown}: {error}"))
}

fn say(text: &str) {
    eprintln!("interop: {text}");
}

/// Who serves whom, and how.
#[derive(Clone, Copy)]
struct Setting {
    column: Column,
    server: Side,
    client: Side,
    lossy: bool,
}

impl Setting {
    /// The loss ends before the program does.
    fn outlasts(&self, program: &Program) -> bool {
        self.lossy && program.outlasts_loss
    }
}

fn settings(options: &Options) -> Vec<Setting> {
    let mut all = Vec::new();
    let pairs = [
        ("kernel serves", "we serve", "kernel_to_kernel"),
        (
            "it serves, 1 % loss",
            "we serve, 1 % loss",
            "kernel_to_kernel_loss",
        ),
    ];
    for (lossy, (it, we, alone)) in [false, true].into_iter().zip(pairs) {
        if (lossy && options.no_loss) || (!lossy && options.only_loss) {
            continue;
        }
        let mut push = |title, name, server, client| {
            all.push(Setting {
                column: Column { title, name },
                server,
                client,
                lossy,
            });
        };
        let name = |plain, with_loss| if lossy { with_loss } else { plain };
        push(
            it,
            name("kernel_serves", "kernel_serves_loss"),
            Side::Kernel(0),
            Side::Ours,
        );
        push(
            we,
            name("we_serve", "we_serve_loss"),
            Side::Ours,
            Side::Kernel(0),
        );
        if options.reference {
            let title = if lossy {
                "..., 1 % loss"
            } else {
                "kernel alone"
            };
            push(title, alone, Side::Kernel(0), Side::Kernel(1));
        }
    }
    all
}

fn fill_table(options: &Options, lab: &mut Lab) -> Result<Table, String> {
    let programs = options.programs();
    let settings = settings(options);
    let mut rows: Vec<Row> = programs
        .iter()
        .map(|program| Row {
            title: program.title.clone(),
            proves: program.proves.clone(),
            cells: Vec::new(),
        })
        .collect();
    let mut lost = 0;
    let mut port = FIRST_PORT;
    for lossy in [false, true] {
        let now: Vec<&Setting> = settings
            .iter()
            .filter(|setting| setting.lossy == lossy)
            .collect();
        if now.is_empty() {
            continue;
        }
        if lossy {
            lab.set_loss(true)?;
        }
        for setting in now {
            for (program, row) in programs.iter().zip(&mut rows) {
                let left_out = program.no_loss.filter(|_| lossy && !options.all);
                let cell = match left_out {
                    Some(reason) => table::Outcome::Left(reason.why()),
                    None => run_pair(options, lab, program, setting, &mut port)?,
                };
                if !matches!(cell, table::Outcome::Left(_)) {
                    say(&format!(
                        "{}, {}: {}",
                        row.title,
                        setting.column.name,
                        cell.short()
                    ));
                }
                row.cells.push(cell);
            }
        }
        if lossy {
            lost = lab.lost()?;
            lab.set_loss(false)?;
        }
    }
    Ok(Table {
        kernel: lab.kernel_version()?,
        columns: settings.iter().map(|setting| setting.column).collect(),
        rows,
        lost,
    })
}

/// Runs a pair of programs, on ports from `port` on.
fn run_pair(
    options: &Options,
    lab: &mut Lab,
    program: &Program,
    setting: &Setting,
    port: &mut u16,
) -> Result<table::Outcome, String> {
    let capture = match &options.capture {
        Some(directory) => Some(start_capture(directory, program, setting)?),
        None => None,
    };
    let mut tries = 0;
    let outcome = loop {
        tries += 1;
        *port += 1;
        let commands = [
            (&program.server, setting.server),
            (&program.client, setting.client),
        ];
        let commands = commands.map(|(template, side)| {
            let command = lab.fill(template, side, setting.server, program.family, *port);
            match setting.outlasts(program) {
                true => command.replace(programs::LONGER[0], programs::LONGER[1]),
                false => command,
            }
        });
        let (server, client) = run_commands(lab, program, setting, &commands, *port)?;
        let one_alone = server.is_fine() != client.is_fine();
        if !(program.leaves_early && setting.lossy && one_alone) || tries == MOST_TRIES {
            break judge(program, &commands, &server, &client);
        }
        say(&format!(
            "{}: one side had ended when the last that it said was lost, once more",
            program.title
        ));
    };
    if let Some(mut capture) = capture {
        // An error says that it has ended, and then its file says why.
        let _ = capture.kill();
        let _ = capture.wait();
    }
    Ok(outcome)
}

fn run_commands(
    lab: &mut Lab,
    program: &Program,
    setting: &Setting,
    [server, client]: &[String; 2],
    port: u16,
) -> Result<(Output, Output), String> {
    let mut server = lab.start(setting.server, server)?;
    lab.wait_for_server(setting.server, &mut server, program.ready, port)?;
    let mut client = lab.start(setting.client, client)?;
    if setting.outlasts(program) {
        let enough = lab.lost()? + ENOUGH_LOST;
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline
            && !lab.has_ended(&mut client)
            && !lab.has_ended(&mut server)
            && lab.lost()? < enough
        {}
        lab.pause_loss(true)?;
    }
    lab::until(PATIENCE, || {
        lab.has_ended(&mut client) || lab.has_ended(&mut server)
    });
    lab::until(END_PATIENCE, || {
        lab.has_ended(&mut client) && lab.has_ended(&mut server)
    });
    if setting.outlasts(program) {
        lab.pause_loss(false)?;
    }
    let client = lab.finish(client)?;
    Ok((lab.finish(server)?, client))
}

fn judge(
    program: &Program,
    commands: &[String; 2],
    server: &Output,
    client: &Output,
) -> table::Outcome {
    let read = programs::figure(program.report, &client.text);
    let what = match read {
        Ok(figure) if server.is_fine() && client.is_fine() => return table::Outcome::Fine(figure),
        Err(missing) if server.is_fine() && client.is_fine() => {
            format!("both programs ended well, but of the client {missing}")
        }
        _ => {
            let last = |output: &Output| {
                let line = output
                    .text
                    .lines()
                    .rev()
                    .find(|line| !line.trim().is_empty());
                line.map_or(String::new(), |line| format!(" after \"{}\"", line.trim()))
            };
            let tell =
                |name, output: &Output| format!("the {name} {}{}", output.ending(), last(output));
            format!("{}, {}", tell("server", server), tell("client", client))
        }
    };
    let details = format!(
        "server: {}\n{}\nclient: {}\n{}",
        commands[0],
        server.text.trim_end(),
        commands[1],
        client.text.trim_end()
    );
    table::Outcome::Failed(Failure { what, details })
}

/// Starts tcpdump on our end of the wire.
fn start_capture(
    directory: &Path,
    program: &Program,
    setting: &Setting,
) -> Result<std::process::Child, String> {
    let words: Vec<&str> = program
        .title
        .split(|c: char| !c.is_ascii_alphanumeric())
        .collect();
    let name = format!(
        "{}.{}.pcap",
        words.join("_").trim_matches('_'),
        setting.column.name
    );
    let child = Command::new("tcpdump")
        .args(["--immediate-mode", "-U", "-n", "-i", lab::BRIDGE, "-w"])
        .arg(directory.join(name))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn();
    let mut child =
        child.map_err(|error| format!("tcpdump, of the package of this name: {error}"))?;
    // its first line says that it listens
    let mut first = [0; 1];
    let heard = child.stderr.as_mut().map(|said| said.read(&mut first));
    match heard {
        Some(Ok(1)) => Ok(child),
        _ => Err("tcpdump did not start".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Options, String> {
        let words: Vec<String> = text.split_ascii_whitespace().map(str::to_owned).collect();
        Options::parse(&words)
    }

    #[test]
    fn arguments_choose_programs_and_columns() {
        let options = parse("--only rping --only mckey --no-loss").expect("good arguments");
        assert!(
            options
                .programs()
                .iter()
                .all(|p| p.title.contains("rping") || p.title.contains("mckey"))
        );
        assert_eq!(settings(&options).len(), 2);
        assert_eq!(
            settings(&parse("--reference").expect("good arguments")).len(),
            6
        );
        assert!(parse("--only").is_err());
        assert!(parse("--rounds 0").is_err());
        assert!(parse("--readme --no-loss").is_err());
    }

    #[test]
    fn a_pair_is_fine_only_if_both_are_and_the_figure_is_there() {
        let program = programs::all().remove(0);
        let output = |status, text: &str| Output {
            text: text.to_owned(),
            status,
        };
        let commands = ["server".to_owned(), "client".to_owned()];
        let said = "500 iters in 0.05 seconds = 100.00 usec/iter";
        let judged = |server, client, text| {
            judge(
                &program,
                &commands,
                &output(server, ""),
                &output(client, text),
            )
            .short()
        };
        assert_eq!(judged(Some(0), Some(0), said), "100 us");
        assert_eq!(judged(Some(1), Some(0), said), "FAILED");
        assert_eq!(judged(Some(0), None, said), "FAILED");
        assert_eq!(judged(Some(0), Some(0), "nothing"), "FAILED");
    }
}
