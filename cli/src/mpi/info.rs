//! `ferriband mpi-info`: which MPI this is, what is set and by whom, and which functions it offers.

use crate::args::MpiInfoArgs;
use crate::failure::Failure;
use crate::launch;
use crate::settings::{self, Setting};
use crate::text::{self, Table};
use ferriband_mpi_proto::settings::{SETTINGS, Values, plan};
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

#[derive(Serialize)]
struct Protocol {
    messages: String,
    way: String,
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
    let one = |messages: &str, way: String| Protocol {
        messages: messages.to_owned(),
        way,
    };
    let eager = values.number("eager");
    let far = match values.is_set("eager") && !values.is_set("eager_packets") {
        true => eager,
        false => values.number("eager_packets").max(eager),
    };
    let is_mapped = values.text("same_host") == "mapped";
    let long = if !is_mapped {
        "as to other hosts".to_owned()
    } else if values.flag("reads_peers") {
        let both = match values.number("both_copy") {
            0 => String::new(),
            least => format!(
                ", and from {least} bytes on the sender writes the half of it if it waits and there is a core for each rank"
            ),
        };
        format!(
            "the receiver reads it from the sender's memory{both}; where the kernel forbids that, in pieces by the channel"
        )
    } else {
        "in pieces by the channel".to_owned()
    };
    let short = if is_mapped {
        "a record in the receiver's block of shared memory (Veloblock)".to_owned()
    } else {
        "as to other hosts".to_owned()
    };
    let (plan, grows) = plan(values);
    let fast = match values.number("fast_channels") {
        0 => "SEND; the RDMA fast path is off".to_owned(),
        channels => format!(
            "SEND; after {} messages RDMA WRITE into a block of {} bytes ({}{}), for {channels} peers at most",
            values.number("open_after"),
            plan.size(),
            plan.design().name(),
            if grows { ", growing" } else { "" },
        ),
    };
    let piece = values.number("rndv_piece");
    let way = match values.text("rndv") {
        "put" => "RDMA WRITE by the sender",
        "get" => "RDMA READ by the receiver",
        "send" => "SEND into the program's buffer, or RDMA WRITE by the sender",
        _ => {
            "SEND into the program's buffer where our adapter makes packets, else RDMA READ by the receiver"
        }
    };
    vec![
        one(&format!("same host, to {eager} bytes"), short),
        one("same host, longer", long),
        one(&format!("other hosts, to {eager} bytes"), fast),
        one(
            &format!("other hosts, to {far} bytes"),
            "SEND where our adapter makes packets, else as longer ones".to_owned(),
        ),
        one(
            "other hosts, longer",
            format!("{way}; READs and WRITEs of {piece} bytes at most"),
        ),
    ]
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
        let mut table = Table::new(["messages", "way"]);
        for protocol in &self.protocols {
            table.row([protocol.messages.clone(), protocol.way.clone()]);
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
        assert!(shown[2].way.contains("off"), "{}", shown[2].way);
        assert!(shown[3].messages.contains("65536"), "{}", shown[3].messages);
        assert!(shown[4].way.starts_with("RDMA WRITE by the sender"));
    }
}
