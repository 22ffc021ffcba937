//! What the user has set, in the form in which the library needs it: read once, from the file and the environment.

use crate::constants::{MPI_ERR_OTHER, MPI_ERRORS_ABORT, MPI_ERRORS_ARE_FATAL, MPI_ERRORS_RETURN};
use crate::errors::{MpiError, Outcome};
use crate::job::wireup::Wish;
use crate::transport::contract::Reached;
use crate::transport::limits::{Fast, Heal};
use ferriband_mpi_proto::settings::{FILE_VARIABLE, LONGEST_FILE, SETTINGS, Values, plan};
use ferriband_mpi_proto::sizes::{SharedSizes, VerbsSizes};
use ferriband_registration::Way as Registration;
use std::env;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::PathBuf;

/// What was set, or is so by default. Each field is a row of the table of settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chosen {
    /// `same_host`: by what ranks of one host reach each other: memory that they share, or a
    /// device.
    pub same_host: Reached,
    /// `device`: this one.
    pub device: Option<String>,
    /// Which way a message of which length goes by memory that ranks share.
    pub shared: SharedSizes,
    /// Which way a message of which length goes by verbs.
    pub verbs: VerbsSizes,
    /// `large_pages`: bytes of the shortest message on one host whose buffers the kernel is asked to put into large pages; none: no message's are.
    pub large_pages: Option<u64>,
    /// `bundle`: short messages that go by packets at once before others wait to go together; 0: all do.
    pub bundle: u32,
    /// The fast path by verbs.
    pub fast: Fast,
    /// `acks`: messages by verbs are kept until the peer's runtime has acknowledged them. Not where
    /// no connection is made anew: nothing else needs them.
    pub acks: bool,
    /// `heal`, `heal_for`, `rails`, `detect` and `heal_log`.
    pub heal: Heal,
    /// `coll`: algorithms of collectives that stand before all rows of the table that chooses.
    pub coll: String,
    /// `coll_table`: the file with that table.
    pub coll_table: Option<PathBuf>,
    /// `stats`: a summary at the end.
    pub stats: bool,
    /// `trace`: directory that each rank writes a trace of its calls and messages to.
    pub trace: Option<PathBuf>,
    /// `trace_events`: how many of them it has room for.
    pub trace_events: u64,
    /// `initial_errhandler`: the predefined handler that MPI_COMM_WORLD and MPI_COMM_SELF begin with.
    pub errhandler: i32,
    /// `engine` and `pmix_library`: which launcher to look for.
    pub engine: Wish,
    /// What is set and no setting, in words.
    pub strangers: Vec<String>,
    /// `regcache`: how the program's memory is registered.
    pub registration: Registration,
    /// `timeout`: how long a request by packets waits for its peer's adapter before it is repeated, as verbs code it.
    pub timeout: u8,
}

impl Chosen {
    /// What file and environment say; a value that means nothing is an error that lists those that do.
    pub fn read() -> Outcome<Self> {
        let file = settings_file()?;
        let file = file
            .as_ref()
            .map(|(name, text)| (name.as_str(), text.as_str()));
        // A variable that is no text is nothing of ours.
        let variables = env::vars_os().filter_map(|(name, value)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        });
        let values = SETTINGS
            .read(file, variables)
            .map_err(|wrong| MpiError::with(MPI_ERR_OTHER, wrong.0))?;
        Ok(Self::from(&values))
    }

    fn from(values: &Values) -> Self {
        let count = |name| values.number(name) as u32;
        let (plan, grows) = plan(values);
        let heal = Heal {
            is_on: values.flag("heal"),
            for_ns: Some(values.number("heal_for") * 1_000_000_000).filter(|ns| *ns != 0),
            rails: count("rails") as usize,
            detect_ns: values.number("detect") * 1_000_000,
            log: values.number("heal_log"),
        };
        Self {
            same_host: Reached::on_one_host(values.text("same_host")),
            device: Some(values.text("device").to_owned()).filter(|name| !name.is_empty()),
            shared: SharedSizes::of(values),
            verbs: VerbsSizes::of(values),
            large_pages: Some(values.number("large_pages")).filter(|least| *least != 0),
            bundle: count("bundle"),
            fast: Fast {
                plan,
                grows,
                channels: count("fast_channels"),
                open_after: count("open_after"),
                close_below: count("close_below"),
            },
            acks: values.flag("acks") && heal.is_on,
            heal,
            coll: values.text("coll").to_owned(),
            coll_table: Some(PathBuf::from(values.text("coll_table")))
                .filter(|path| !path.as_os_str().is_empty()),
            stats: values.flag("stats"),
            registration: match values.text("regcache") {
                "odp" => Registration::OnDemand,
                "uffd" => Registration::Cache,
                "none" => Registration::Each,
                _ => Registration::Auto,
            },
            timeout: values.number("timeout") as u8,
            trace: Some(PathBuf::from(values.text("trace")))
                .filter(|dir| !dir.as_os_str().is_empty()),
            trace_events: values.number("trace_events"),
            errhandler: match values.text("initial_errhandler") {
                "mpi_errors_return" => MPI_ERRORS_RETURN,
                "mpi_errors_abort" => MPI_ERRORS_ABORT,
                _ => MPI_ERRORS_ARE_FATAL,
            },
            engine: Wish {
                engine: values.text("engine").to_owned(),
                pmix_library: values.text("pmix_library").to_owned(),
            },
            strangers: values.strangers.clone(),
        }
    }
}

/// The error handler of errors that no communicator has, before there are some and after; where settings mean nothing, the one that ends the process.
#[cold]
pub fn initial_errhandler() -> i32 {
    Chosen::read().map_or(MPI_ERRORS_ARE_FATAL, |chosen| chosen.errhandler)
}

/// Name and text of the settings file, if there is one: the user's own may be missing, one that was named may not.
fn settings_file() -> Outcome<Option<(String, String)>> {
    let value = |name: &str| env::var_os(name).and_then(|value| value.into_string().ok());
    let named = value(FILE_VARIABLE);
    let (config, home) = (value("XDG_CONFIG_HOME"), value("HOME"));
    let Some(path) = SETTINGS.path(named.as_deref(), config.as_deref(), home.as_deref()) else {
        return Ok(None);
    };
    match read(&path) {
        Ok(text) => Ok(Some((path, text))),
        // A home without one, one that is no directory, one that may not be looked into: none is the user's.
        Err(error) if named.is_none() && is_absent(&error) => Ok(None),
        Err(error) => Err(MpiError::with(
            MPI_ERR_OTHER,
            format!("the settings file {path} cannot be read: {error}"),
        )),
    }
}

fn read(path: &str) -> std::io::Result<String> {
    let mut text = String::new();
    // One that is longer than it may be is seen by its length.
    let file = File::open(path)?;
    file.take(LONGEST_FILE + 1).read_to_string(&mut text)?;
    if text.len() as u64 > LONGEST_FILE {
        let words = format!("it is longer than {LONGEST_FILE} bytes");
        return Err(std::io::Error::new(ErrorKind::InvalidData, words));
    }
    Ok(text)
}

fn is_absent(error: &std::io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(
            libc::ENOENT
                | libc::ENOTDIR
                | libc::EACCES
                | libc::EPERM
                | libc::ELOOP
                | libc::ENAMETOOLONG
        )
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferriband_mpi_proto::fast::Plan;
    use ferriband_mpi_proto::sizes::Rendezvous;

    #[test]
    fn each_row_comes_to_its_field() {
        let nothing = Chosen::from(&SETTINGS.defaults());
        assert_eq!(nothing.same_host, Reached::Memory);
        assert!(nothing.shared.reads_peers);
        assert_eq!(
            (nothing.verbs.rendezvous, nothing.bundle),
            (Rendezvous::Auto, 4)
        );
        assert_eq!(nothing.fast.plan, Plan::DEFAULT);
        assert!(nothing.acks && !nothing.fast.grows);
        assert_eq!(nothing.device, None);
        assert_eq!(nothing.errhandler, MPI_ERRORS_ARE_FATAL);
        let set = |name: &str, value: &str| {
            let mut values = SETTINGS.defaults();
            values.set(name, value).expect("a value");
            Chosen::from(&values)
        };
        assert_eq!(set("same_host", "verbs").same_host, Reached::Near);
        assert_eq!(set("rndv", "put").verbs.rendezvous, Rendezvous::Put);
        assert_eq!(set("eager", "4K").shared.eager, 4096);
        assert_eq!(set("block", "4K").fast.plan.size(), 4096);
        let growing = set("block", "auto").fast;
        assert!(growing.grows && growing.plan.size() == 8192 && growing.budget() == 64 * 32768);
        let handler = |name| set("initial_errhandler", name).errhandler;
        assert_eq!(handler("mpi_errors_return"), MPI_ERRORS_RETURN);
        assert_eq!(handler("mpi_errors_abort"), MPI_ERRORS_ABORT);
        assert!(!set("acks", "0").acks);
        assert!(nothing.heal.is_on && nothing.heal.for_ns == Some(300_000_000_000));
        assert_eq!(set("heal_for", "0").heal.for_ns, None);
        assert_eq!((nothing.heal.rails, set("rails", "2").heal.rails), (4, 2));
        let detect = |value| set("detect", value).heal.detect_ns;
        assert_eq!(
            [nothing.heal.detect_ns, detect("250")],
            [100_000_000, 250_000_000]
        );
        let log = |value| set("heal_log", value).heal.log;
        assert_eq!([nothing.heal.log, log("1M")], [16 << 20, 1 << 20]);
        let heals_not = set("heal", "0");
        assert!(!heals_not.heal.is_on && !heals_not.acks);
        assert_eq!(set("device", "ferri0").device.as_deref(), Some("ferri0"));
        assert_eq!(nothing.large_pages, Some(2 << 20));
        assert_eq!(set("large_pages", "0").large_pages, None);
    }
}
