//! `ferriband mpi-info`: which MPI this is, what is set and by whom, and which functions it offers.

use crate::args::MpiInfoArgs;
use crate::failure::Failure;
use crate::launch;
use crate::settings::{self, Setting};
use crate::text::{self, Table};
use ferriband_mpi_proto::settings::{SETTINGS, Values};
use ferriband_mpi_proto::sizes::{Row, SharedSizes, VerbsSizes};
use serde::Serialize;
use std::process::ExitCode;

/// One row for each function of the standard, checked in with the library that is made from it.
const FUNCTIONS: &str = include_str!("../../../ulp/mpi/abi/table/functions.tsv");
const FACE: &str = "libmpi_abi.so.1";
const RUNTIME: &str = "libferriband_mpi.so.1";
const STANDARD: &str = "MPI 5.0";
const ABI: &str = "1.0";

#[derive(Serialize)]
struct Info {
    version: &'static str,
    standard: &'static str,
    abi: &'static str,
    library: Option<String>,
    runtime: Option<String>,
    settings_file: Option<String>,
    settings: Vec<Setting>,
    unknown: Vec<String>,
    protocols: Vec<Protocol>,
    launchers: [&'static str; 4],
    functions: Functions,
}

/// Messages of so many bytes between such ranks go so.
#[derive(Serialize)]
struct Protocol {
    ranks: &'static str,
    from: u64,
    /// None: all that are longer.
    to: Option<u64>,
    protocol: &'static str,
    way: String,
}

impl Protocol {
    fn of(ranks: &'static str, row: Row) -> Self {
        Self {
            ranks,
            from: row.from,
            to: row.to,
            protocol: row.protocol.name(),
            way: row.way,
        }
    }

    fn bytes(&self) -> String {
        match self.to {
            Some(to) => format!("{} to {to}", self.from),
            None => format!("from {}", self.from),
        }
    }
}

#[derive(Serialize)]
struct Functions {
    total: usize,
    offered: Vec<&'static str>,
    not_offered: Vec<&'static str>,
}

/// Prints it.
pub fn command(args: &MpiInfoArgs) -> Result<ExitCode, Failure> {
    let (values, file) = settings::values(&SETTINGS, &args.set)?;
    let library = |name: &str| {
        let path = launch::lib_dir().ok()?.join(name);
        path.is_file().then(|| path.display().to_string())
    };
    let info = Info {
        version: env!("CARGO_PKG_VERSION"),
        standard: STANDARD,
        abi: ABI,
        library: library(FACE),
        runtime: library(RUNTIME),
        settings_file: file,
        settings: Setting::all(&SETTINGS, &values),
        unknown: values.strangers.clone(),
        protocols: protocols(&values),
        launchers: [
            "ferriband mpirun (this machine)",
            "PMI-1 (Hydra, gforker, Slurm with --mpi=pmi2)",
            "PMI-2 (Hydra, Slurm with --mpi=pmi2)",
            "PMIx (PRRTE, Open MPI's mpirun, Slurm with --mpi=pmix)",
        ],
        functions: functions(),
    };
    if args.json.json {
        text::print_json(&info)?;
    } else {
        info.print(args.functions)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Says which of `set` means nothing, or what else that is set does.
pub fn check(set: &[String]) -> Result<(), Failure> {
    settings::values(&SETTINGS, set).map(|_| ())
}

/// Which message takes which way, with these values.
fn protocols(values: &Values) -> Vec<Protocol> {
    let is_mapped = values.text("same_host") == "mapped";
    let (shared, ranks) = match is_mapped {
        true => (SharedSizes::of(values).rows(), "other hosts"),
        false => (Vec::new(), "all"),
    };
    let verbs = VerbsSizes::of(values).rows(values);
    let shared = shared.into_iter().map(|row| Protocol::of("same host", row));
    let verbs = verbs.into_iter().map(|row| Protocol::of(ranks, row));
    shared.chain(verbs).collect()
}

fn functions() -> Functions {
    let mut functions = Functions {
        total: 0,
        offered: Vec::new(),
        not_offered: Vec::new(),
    };
    for line in FUNCTIONS.lines().skip(1) {
        let mut words = line.split('\t');
        let (Some(name), _, Some(state)) = (words.next(), words.next(), words.next()) else {
            continue;
        };
        functions.total += 1;
        if matches!(state, "offered" | "face") {
            functions.offered.push(name);
        } else {
            functions.not_offered.push(name);
        }
    }
    functions
}

impl Info {
    fn print(&self, with_functions: bool) -> Result<(), Failure> {
        let line = text::print_line;
        line(&format!(
            "Ferriband MPI {}: {}, standard ABI {}",
            self.version, self.standard, self.abi
        ))?;
        for (what, path) in [("library", &self.library), ("runtime", &self.runtime)] {
            let path = path
                .as_deref()
                .unwrap_or("not found: build it with `cargo xtask libs`");
            line(&format!("{what:<14} {path}"))?;
        }
        let file = self.settings_file.as_deref().unwrap_or("none");
        line(&format!("{:<14} {file}", "settings file"))?;
        line(&format!(
            "{:<14} {}",
            "launchers",
            self.launchers.join("; ")
        ))?;
        line("")?;
        for text in settings::lines(&self.settings) {
            line(&text)?;
        }
        line("")?;
        line(
            "Set one by FERRIBAND_MPI_NAME=VALUE, by `ferriband mpirun --set name=value`, or by a line `name = value` in the settings file.",
        )?;
        for unknown in &self.unknown {
            line(&format!("warning: {unknown}"))?;
        }
        line("")?;
        let mut table = Table::new(["ranks", "bytes", "protocol", "way"]);
        for one in &self.protocols {
            let (ranks, protocol) = (one.ranks.to_owned(), one.protocol.to_owned());
            table.row([ranks, one.bytes(), protocol, one.way.clone()]);
        }
        table.print()?;
        line("")?;
        let functions = &self.functions;
        line(&format!(
            "functions      {} of {} are offered; the other {} raise MPI_ERR_UNSUPPORTED_OPERATION{}",
            functions.offered.len(),
            functions.total,
            functions.not_offered.len(),
            if with_functions {
                ":"
            } else {
                " (--functions names them)"
            }
        ))?;
        if with_functions {
            for name in &functions.not_offered {
                line(&format!("  {name}"))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_function_is_offered_or_not() {
        let functions = functions();
        assert_eq!(functions.total, 664);
        assert_eq!(functions.offered.len() + functions.not_offered.len(), 664);
        assert!(functions.offered.contains(&"MPI_Send"));
    }

    #[test]
    fn what_is_set_shows_in_the_ways_of_messages() {
        let mut values = SETTINGS.defaults();
        values.set("rndv", "put").expect("good");
        values.set("fast_channels", "0").expect("good");
        let shown = protocols(&values);
        let ranks: Vec<&str> = shown.iter().map(|one| one.ranks).collect();
        assert_eq!(ranks[..4], ["same host"; 4]);
        assert_eq!(ranks[4..], ["other hosts"; 3]);
        assert_eq!(
            (shown[0].protocol, shown[0].bytes().as_str()),
            ("exchange buffer", "256 to 65536")
        );
        assert!(shown[4].way.contains("off"), "{}", shown[4].way);
        assert_eq!(shown[5].to, Some(65536));
        assert_eq!(
            (shown[6].to, shown[6].bytes().as_str()),
            (None, "from 65537")
        );
        assert!(shown[6].way.starts_with("RDMA WRITE by the sender"));
        values.set("same_host", "verbs").expect("good");
        assert!(protocols(&values).iter().all(|one| one.ranks == "all"));
    }
}
