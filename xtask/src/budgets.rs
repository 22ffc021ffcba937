//! Instructions of the hot paths, counted by Callgrind, against what stands in `xtask/budgets.tsv`.
//!
//! Owns: what is measured, and when a count is too high. The programs are `xtask/budgets/*.c`; they
//! run on the libraries as any program does. A count is the one that comes most often: where a
//! thread of the library takes part of the work, or two messages go together, others do.

use crate::{Outcome, libs, run, workspace_root};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

const USAGE: &str = "\
usage: cargo xtask budgets [--release] [--write]

Counts the instructions of hot paths (ibv_post_send, ibv_poll_cq, MPI_Isend, MPI_Irecv; 8 bytes) under valgrind, and fails if one
has grown by more than 3 % over xtask/budgets.tsv. Counts are of the libraries that tests use, or with --release of those that users
do. Of another compiler than the table's they are only told.

  --release  the libraries that users have
  --write    writes the counts into the table
";

/// A count may grow so much.
const SLACK_PERCENT: u64 = 3;
const TABLE: &str = "xtask/budgets.tsv";

/// A poll of fewer instructions has only taken what a thread of the library had received: that is
/// not what is measured of a receive.
const RECEIVED_BY_ANOTHER: u64 = 200;

/// A program, how it is started, and how many calls one of its dumps holds.
struct Measured {
    name: &'static str,
    source: &'static str,
    under: &'static [&'static str],
    arguments: &'static [&'static str],
    calls: u64,
}

const PROGRAMS: [Measured; 3] = [
    Measured {
        name: "ferri0",
        source: "verbs.c",
        under: &["run", "--"],
        arguments: &["ferri0", "200"],
        calls: 1,
    },
    Measured {
        name: "RoCEv2",
        source: "verbs.c",
        under: &["run", "--wire", "roce", "--device", "ferri_lo", "--"],
        arguments: &["ferri_lo", "200"],
        calls: 1,
    },
    Measured {
        name: "one host",
        source: "mpi.c",
        under: &["mpirun", "-n", "2"],
        arguments: &["40"],
        calls: 32,
    },
];

/// What was measured, and the instructions of one call.
type Counts = BTreeMap<String, u64>;

pub fn check(args: &[String]) -> Outcome {
    let (mut release, mut write) = (false, false);
    for arg in args {
        match arg.as_str() {
            "--release" => release = true,
            "--write" => write = true,
            _ => return Err(USAGE.to_owned()),
        }
    }
    if Command::new("valgrind").arg("--version").output().is_err() {
        println!("budgets: left out, there is no valgrind (package valgrind)");
        return Ok(());
    }
    let profile = if release { "release" } else { "debug" };
    libs::run(
        &release
            .then(|| "--release".to_owned())
            .into_iter()
            .collect::<Vec<_>>(),
    )?;
    let mut counts = Counts::new();
    for program in &PROGRAMS {
        count(program, profile, &mut counts)?;
    }
    let path = workspace_root().join(TABLE);
    let text = fs::read_to_string(&path).map_err(|error| format!("{TABLE}: {error}"))?;
    let mut table = Table::parse(&text)?;
    let compiler = compiler()?;
    if write {
        table.take(&counts, release, &compiler);
        return fs::write(&path, table.to_string()).map_err(|error| format!("{TABLE}: {error}"));
    }
    let over = table.over(&counts, release);
    for (name, count) in &counts {
        println!("{count:>6} instructions: {name}");
    }
    match over.is_empty() {
        true => Ok(()),
        false if table.compiler != compiler => {
            println!(
                "budgets: {} (of another compiler, {}: not judged)",
                over.join("; "),
                table.compiler
            );
            Ok(())
        }
        false => Err(format!(
            "{}; if that is wanted: cargo xtask budgets --write, and again with --release",
            over.join("; ")
        )),
    }
}

fn compiler() -> Result<String, String> {
    let output = Command::new("rustc")
        .arg("--version")
        .output()
        .map_err(|error| format!("rustc: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let mut words = text.split_whitespace();
    Ok(words.nth(1).unwrap_or_default().to_owned())
}

/// Compiles a program, runs it under Callgrind, and takes the counts of its dumps.
fn count(program: &Measured, profile: &str, counts: &mut Counts) -> Outcome {
    let target = libs::target_directory();
    let (lib, place) = (target.join("ferriband/lib"), target.join("budgets"));
    // dumps of a former run
    let _ = fs::remove_dir_all(&place);
    fs::create_dir_all(&place).map_err(|error| format!("{}: {error}", place.display()))?;
    let source = workspace_root().join("xtask/budgets").join(program.source);
    let binary = place.join("program");
    let by_mpi = program.source == "mpi.c";
    let mut compile = Command::new(if by_mpi {
        lib.join("bin/mpicc")
    } else {
        "cc".into()
    });
    compile.args(["-O2", "-o"]).arg(&binary).arg(source);
    if !by_mpi {
        compile.arg("-libverbs");
    }
    run(&mut compile)?;
    run(Command::new(target.join(profile).join("ferriband"))
        .env("FERRIBAND_LIB_DIR", &lib)
        .args(program.under)
        .args(["valgrind", "-q", "--tool=callgrind", "--collect-atstart=no"])
        .args([
            "--toggle-collect=measured_*",
            "--callgrind-out-file=dump.%p",
        ])
        .arg(&binary)
        .args(program.arguments)
        .current_dir(&place))?;
    let mut seen: BTreeMap<String, BTreeMap<u64, usize>> = BTreeMap::new();
    let entries = fs::read_dir(&place).map_err(|error| format!("{}: {error}", place.display()))?;
    for entry in entries.flatten() {
        if let Some((what, instructions)) = dump(&entry.path())
            && (what != "ibv_poll_cq, receive" || instructions > RECEIVED_BY_ANOTHER)
        {
            *seen
                .entry(what)
                .or_default()
                .entry(instructions)
                .or_default() += 1;
        }
    }
    if seen.is_empty() {
        return Err(format!("{} told no counts", program.source));
    }
    for (what, counted) in seen {
        let most_often = counted.iter().max_by_key(|&(_, times)| times);
        let (&instructions, _) = most_often.expect("each has been seen once");
        counts.insert(
            format!("{what}, {}", program.name),
            instructions / program.calls,
        );
    }
    Ok(())
}

/// What a dump is of, and how many instructions it counts.
fn dump(path: &Path) -> Option<(String, u64)> {
    let text = fs::read_to_string(path).ok()?;
    let line = |prefix: &str| text.lines().find_map(|line| line.strip_prefix(prefix));
    let what = line("desc: Trigger: Client Request: ")?;
    let instructions = line("summary: ")?.trim().parse().ok()?;
    Some((what.to_owned(), instructions))
}

/// The table: for each path what is allowed of the libraries of tests, and of those of users.
#[derive(Debug, PartialEq, Eq)]
struct Table {
    compiler: String,
    rows: BTreeMap<String, [u64; 2]>,
}

const HEAD: &str =
    "# Instructions of one call, 8 bytes: cargo xtask budgets.\n# path\ttests\trelease";

impl Table {
    fn parse(text: &str) -> Result<Table, String> {
        let mut table = Table {
            compiler: String::new(),
            rows: BTreeMap::new(),
        };
        for line in text.lines() {
            if let Some(compiler) = line.strip_prefix("# rustc ") {
                table.compiler = compiler.to_owned();
            }
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let fields: Vec<&str> = line.split('\t').collect();
            let number = |field: usize| fields.get(field).and_then(|text| text.parse().ok());
            match (fields.len(), number(1), number(2)) {
                (3, Some(tests), Some(release)) => {
                    table.rows.insert(fields[0].to_owned(), [tests, release]);
                }
                _ => return Err(format!("{TABLE}: '{line}' is no row")),
            }
        }
        Ok(table)
    }

    fn take(&mut self, counts: &Counts, release: bool, compiler: &str) {
        compiler.clone_into(&mut self.compiler);
        self.rows.retain(|name, _| counts.contains_key(name));
        for (name, &count) in counts {
            self.rows.entry(name.clone()).or_default()[usize::from(release)] = count;
        }
    }

    /// What is wrong with these counts.
    fn over(&self, counts: &Counts, release: bool) -> Vec<String> {
        let judge = |(name, &count): (&String, &u64)| match self.rows.get(name) {
            None => Some(format!("{TABLE} has no row '{name}'")),
            Some(row) => {
                let allowed = row[usize::from(release)];
                (count * 100 > allowed * (100 + SLACK_PERCENT)).then(|| {
                    format!("{name} takes {count} instructions where {allowed} are allowed")
                })
            }
        };
        let gone = |name: &&String| !counts.contains_key(*name);
        let gone = self.rows.keys().filter(gone);
        let gone = gone.map(|name| format!("'{name}' was not counted"));
        counts.iter().filter_map(judge).chain(gone).collect()
    }
}

impl std::fmt::Display for Table {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(to, "{HEAD}\n# rustc {}", self.compiler)?;
        for (name, [tests, release]) in &self.rows {
            writeln!(to, "{name}\t{tests}\t{release}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        Table {
            compiler: "1.90.0".to_owned(),
            rows: BTreeMap::from([("a".to_owned(), [100, 50]), ("b".to_owned(), [10, 10])]),
        }
    }

    #[test]
    fn a_table_is_read_as_it_is_written() {
        assert_eq!(Table::parse(&table().to_string()), Ok(table()));
        assert!(Table::parse("a\t1\n").is_err());
        assert!(Table::parse("a\t1\tx\n").is_err());
    }

    #[test]
    fn what_grows_by_more_than_the_slack_is_over_and_what_is_missing_is_told() {
        let counts = |a: u64, b: u64| Counts::from([("a".to_owned(), a), ("b".to_owned(), b)]);
        assert!(table().over(&counts(103, 9), false).is_empty());
        assert_eq!(table().over(&counts(104, 10), false).len(), 1);
        assert_eq!(table().over(&counts(52, 10), true).len(), 1);
        let one = Counts::from([("c".to_owned(), 1)]);
        assert_eq!(table().over(&one, false).len(), 3);
    }
}
