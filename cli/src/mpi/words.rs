//! What users of other launchers write, in this one's words: of Hydra (MPICH, Intel MPI, MVAPICH), of Open MPI's mpirun (PRRTE), and of the MPI standard's mpiexec. Their
//! options may have one dash or two.

use super::apps::COLON;
use std::ffi::OsString;

/// What an option of others is here.
#[derive(Clone, Copy)]
enum Means {
    /// One of ours without a value.
    Flag(&'static str),
    /// One of ours with a value.
    Value(&'static str),
    /// These words of ours.
    Words(&'static [&'static str]),
    /// One of ours, with the value between two texts.
    Around(&'static str, &'static str, &'static str),
    /// What is so anyway; with so many values.
    Anyway(usize),
    /// Something about the other launcher's own parts, of which it is said that it has no effect; with so many values.
    Without(usize),
    /// NAME VALUE, or NAME=VALUE.
    Pair,
    /// NAME=VALUE, or NAME, which is passed on anyway.
    Export,
    /// What cannot be had, and why.
    Refused(&'static str),
}
use Means::{Anyway, Around, Export, Flag, Pair, Refused, Value, Without, Words};

/// Names without their dashes, and what they mean.
const TABLE: &[(&[&str], Means)] = &[
    (&["n", "np", "c", "nprocs"], Value("-n")),
    (&["wdir", "wd", "cwd"], Value("--wdir")),
    (&["s", "stdin"], Value("--stdin")),
    (&["bind-to"], Value("--bind")),
    (&["bind-to-core"], Words(&["--bind", "core"])),
    (&["bind-to-socket"], Words(&["--bind", "socket"])),
    (&["bind-to-none"], Words(&["--bind", "none"])),
    (&["map-by"], Value("--map-by")),
    // MPI 5.0, portable process startup
    (&["initial-errhandler"], Value("--initial-errhandler")),
    (&["host", "hosts", "H", "machine"], Value("--host")),
    (
        &["hostfile", "f", "machinefile", "default-hostfile"],
        Value("--hostfile"),
    ),
    (&["ppn", "perhost", "grr"], Value("--ppn")),
    (&["npernode", "N"], Value("--npernode")),
    (&["pernode"], Words(&["--npernode", "1"])),
    (&["npersocket"], Around("--map-by", "ppr:", ":socket")),
    (
        &["cpus-per-proc", "cpus-per-rank"],
        Around("--map-by", ":PE=", ""),
    ),
    (
        &[
            "report-bindings",
            "display-map",
            "display-allocation",
            "print-rank-map",
        ],
        Flag("--report-bindings"),
    ),
    (&["l", "prepend-rank", "tag-output"], Flag("--tag-output")),
    (&["timeout"], Value("--timeout")),
    (&["with-ft"], Value("--with-ft")),
    (
        &["disable-auto-cleanup", "enable-recovery"],
        Words(&["--with-ft", "ulfm"]),
    ),
    (&["h", "help"], Flag("--help")),
    (&["V", "version"], Flag("--version")),
    (
        &["nooversubscribe", "no-oversubscribe"],
        Flag("--no-oversubscribe"),
    ),
    (&["x"], Export),
    (&["genv", "env"], Pair),
    (&["genvnone", "envnone"], Words(&["--inherit", "none"])),
    (&["genvlist", "envlist"], Around("--inherit", "only:", "")),
    (&["genvexcl", "envexcl"], Around("--inherit", "except:", "")),
    // Ranks see the environment, may be more than CPUs, and root is a user; there is one machine, and each CPU of the system is a place.
    (
        &[
            "genvall",
            "envall",
            "oversubscribe",
            "allow-run-as-root",
            "use-hwthread-cpus",
            "use-cores",
            "byslot",
            "bycore",
            "bynode",
            "rr",
            "q",
            "quiet",
            "v",
            "verbose",
            "noprefix",
            "enable-x",
            "disable-x",
            "disable-hostname-propagation",
            "pmi-port",
        ],
        Anyway(0),
    ),
    // How ranks are started on other machines, and how ranks of several are numbered.
    (
        &[
            "launcher",
            "launcher-exec",
            "bootstrap",
            "bootstrap-exec",
            "rmk",
            "iface",
            "prefix",
            "rank-by",
            "order-nodes",
        ],
        Anyway(1),
    ),
    (
        &[
            "mca", "gmca", "omca", "gomca", "prtemca", "pmixmca", "gpmixmca",
        ],
        Without(2),
    ),
    (&["tune", "am"], Without(1)),
    (
        &["nolocal"],
        Refused(
            "--nolocal asks for ranks on other machines alone, and this launcher starts them on this one: leave it out",
        ),
    ),
    (
        &["rankfile", "rf"],
        Refused(
            "files of ranks are not read: ranks are dealt to this machine's CPUs in turn, and --bind core binds them",
        ),
    ),
    (
        &["cpu-set", "cpu-list", "slot-list"],
        Refused(
            "CPUs are not named here: start mpirun itself under `taskset -c LIST`, and its ranks stay there",
        ),
    ),
];

/// Ours that take a value which is written behind them, `--x V`, and are nobody else's.
const OURS_WITH_VALUE: [&str; 7] = [
    "--bind",
    "--set",
    "--report",
    "--same-host",
    "--netns",
    "--fabric-hosts",
    "--inherit",
];

fn means(name: &str) -> Option<Means> {
    let row = TABLE.iter().find(|(names, _)| names.contains(&name));
    row.map(|(_, means)| *means)
}

/// The words of a command line, with those of others translated, as far as the first word of each program.
pub fn own(words: Vec<OsString>) -> Vec<OsString> {
    let mut own = Vec::with_capacity(words.len());
    let mut words = words.into_iter();
    while let Some(word) = words.next() {
        let Some(text) = word
            .to_str()
            .filter(|text| text.starts_with('-') && text.len() > 1)
        else {
            program(word, &mut words, &mut own);
            continue;
        };
        let bare = text.trim_start_matches('-');
        let (name, joined) = match bare.split_once('=') {
            Some((name, value)) if text.starts_with("--") => (name, Some(OsString::from(value))),
            _ => (bare, None),
        };
        // Of the short ones the second dash makes something else.
        let is_known = !(text.starts_with("--") && name.len() == 1 && !matches!(name, "n" | "c"));
        match means(name).filter(|_| is_known) {
            Some(means) => {
                let mut values = joined.into_iter().chain(&mut words);
                translate(means, text, &mut values, &mut own);
            }
            None => {
                let takes_value = OURS_WITH_VALUE.contains(&text);
                own.push(word);
                if takes_value {
                    own.extend(words.next());
                }
            }
        }
    }
    own
}

/// A program: what follows is its own, as far as a colon.
fn program(first: OsString, words: &mut impl Iterator<Item = OsString>, own: &mut Vec<OsString>) {
    let mut word = Some(first);
    while let Some(one) = word {
        let is_end = one == COLON;
        own.push(one);
        if is_end {
            break;
        }
        word = words.next();
    }
}

fn translate(
    means: Means,
    text: &str,
    values: &mut dyn Iterator<Item = OsString>,
    own: &mut Vec<OsString>,
) {
    match means {
        Flag(flag) => own.push(flag.into()),
        Value(option) => {
            own.push(option.into());
            own.extend(values.next());
        }
        Words(words) => own.extend(words.iter().map(OsString::from)),
        Around(option, before, after) => {
            let mut value = OsString::from(before);
            value.push(values.next().unwrap_or_default());
            value.push(after);
            own.extend([option.into(), value]);
        }
        Anyway(count) => values.take(count).for_each(drop),
        Without(count) => {
            let mut whole = OsString::from(text);
            for value in values.take(count) {
                whole.push(" ");
                whole.push(value);
            }
            own.extend(["--ineffective".into(), whole]);
        }
        Pair => {
            if let Some(mut pair) = values.next() {
                if !pair.to_string_lossy().contains('=') {
                    pair.push("=");
                    pair.push(values.next().unwrap_or_default());
                }
                own.extend(["--env".into(), pair]);
            }
        }
        Export => {
            if let Some(pair) = values.next()
                && pair.to_string_lossy().contains('=')
            {
                own.extend(["--env".into(), pair]);
            }
        }
        Refused(why) => {
            for _ in values {}
            // The rest is not looked at.
            *own = vec!["--refused".into(), why.into(), "-".into()];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(words: &str) -> String {
        let words = words.split(' ').map(OsString::from).collect();
        let own: Vec<String> = own(words)
            .into_iter()
            .map(|word| word.to_string_lossy().into_owned())
            .collect();
        own.join(" ")
    }

    #[test]
    fn words_of_others_become_ours_before_the_program_only() {
        for (theirs, ours) in [
            ("-np 4 ./a -np 5", "-n 4 ./a -np 5"),
            ("--bind-to core -np 4 ./a", "--bind core -n 4 ./a"),
            ("--bind-to=core --np=4 ./a", "--bind core -n 4 ./a"),
            (
                "-bind-to none -genv A B -x C=D -x E ./a -x F=G",
                "--bind none --env A=B --env C=D ./a -x F=G",
            ),
            ("-genv A=B -env C D ./a", "--env A=B --env C=D ./a"),
            (
                "-n 1 ./a -np : -np 3 ./b -np",
                "-n 1 ./a -np : -n 3 ./b -np",
            ),
            ("--oversubscribe --allow-run-as-root -n 2 ./a", "-n 2 ./a"),
            ("-launcher fork -iface lo --rank-by slot ./a", "./a"),
            (
                "--mca btl self,tcp -n 2 ./a",
                "--ineffective --mca btl self,tcp -n 2 ./a",
            ),
            (
                "-initial-errhandler mpi_errors_return -np 2 ./a",
                "--initial-errhandler mpi_errors_return -n 2 ./a",
            ),
            ("-f hosts -n 2 ./a", "--hostfile hosts -n 2 ./a"),
            (
                "-H a:2 -N 2 -ppn 1 ./a",
                "--host a:2 --npernode 2 --ppn 1 ./a",
            ),
            ("-npersocket 2 ./a", "--map-by ppr:2:socket ./a"),
            ("-wd /x -l ./a", "--wdir /x --tag-output ./a"),
            ("-genvlist A,B ./a", "--inherit only:A,B ./a"),
            ("-n 2 -- ./a -np", "-n 2 -- ./a -np"),
            ("--env A=-np ./a", "--env A=-np ./a"),
            ("--set a=b --netns x,y ./a", "--set a=b --netns x,y ./a"),
        ] {
            assert_eq!(said(theirs), ours);
        }
        assert!(said("-n 2 --nolocal ./a -x").starts_with("--refused --nolocal asks"));
    }
}
