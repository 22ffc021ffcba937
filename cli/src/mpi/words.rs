//! What users of other launchers write, in this one's words.

use super::apps::COLON;
use std::ffi::OsString;

/// Takes one value that is written behind it, `--x V`; those that may be written `--x=V` are clap's.
const WITH_VALUE: [&str; 23] = [
    "-n",
    "--np",
    "--env",
    "--wdir",
    "--stdin",
    "--bind",
    "--bind-to",
    "--set",
    "--hostfile",
    "--host",
    "--hosts",
    "--machinefile",
    "--machine",
    "--ppn",
    "--npernode",
    "--map-by",
    "--report",
    "--same-host",
    "--netns",
    "--fabric-hosts",
    "--timeout",
    "--genvlist",
    "--initial-errhandler",
];

/// The same words, with those of Hydra and of Open MPI's mpirun translated, as far as the first word of each program.
pub fn own(words: Vec<OsString>) -> Vec<OsString> {
    let mut own = Vec::with_capacity(words.len());
    let mut words = words.into_iter();
    while let Some(word) = words.next() {
        let Some(text) = word
            .to_str()
            .filter(|text| text.starts_with('-') && text.len() > 1)
        else {
            // A program: what follows is its own, as far as a colon.
            let mut word = Some(word);
            while let Some(one) = word {
                let is_end = one == COLON;
                own.push(one);
                if is_end {
                    break;
                }
                word = words.next();
            }
            continue;
        };
        let known = match text {
            "-np" => "-n",
            "-bind-to" => "--bind-to",
            // MPI 5.0, portable process startup
            "-initial-errhandler" => "--initial-errhandler",
            "-wd" | "-wdir" | "-cwd" | "--wd" => "--wdir",
            "-hostfile" | "-f" | "-H" | "-host" | "-hosts" | "-machinefile" | "-machine" => {
                "--hostfile"
            }
            "-ppn" | "-map-by" | "-npernode" => "--hostfile",
            "-report-bindings" => "--report-bindings",
            "-prepend-rank" | "-tag-output" => "--tag-output",
            "-h" | "-help" => "--help",
            "-s" => "--stdin",
            // It is so anyway: ranks see the environment, may be more than cores, and root is a user.
            "-genvall"
            | "--genvall"
            | "--oversubscribe"
            | "-oversubscribe"
            | "--allow-run-as-root" => continue,
            "-genvlist" | "--genvlist" => {
                words.next();
                continue;
            }
            "-x" => {
                if let Some(pair) = words.next()
                    && pair.to_string_lossy().contains('=')
                {
                    own.extend(["--env".into(), pair]);
                }
                continue;
            }
            "-genv" | "-env" | "--genv" => {
                if let (Some(mut name), Some(value)) = (words.next(), words.next()) {
                    name.push("=");
                    name.push(value);
                    own.extend(["--env".into(), name]);
                }
                continue;
            }
            "--" => {
                own.push(word);
                continue;
            }
            other => other,
        };
        let takes_value = WITH_VALUE.contains(&known);
        own.push(known.into());
        if takes_value {
            own.extend(words.next());
        }
    }
    own
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
            ("--bind-to core -np 4 ./a", "--bind-to core -n 4 ./a"),
            (
                "-bind-to none -genv A B -x C=D -x E ./a -x F=G",
                "--bind-to none --env A=B --env C=D ./a -x F=G",
            ),
            (
                "-n 1 ./a -np : -np 3 ./b -np",
                "-n 1 ./a -np : -n 3 ./b -np",
            ),
            ("--oversubscribe --allow-run-as-root -n 2 ./a", "-n 2 ./a"),
            (
                "-initial-errhandler mpi_errors_return -np 2 ./a",
                "--initial-errhandler mpi_errors_return -n 2 ./a",
            ),
            ("-f hosts -n 2 ./a", "--hostfile hosts -n 2 ./a"),
            ("-wd /x -l ./a", "--wdir /x -l ./a"),
            ("-n 2 -- ./a -np", "-n 2 -- ./a -np"),
            ("--env A=-np ./a", "--env A=-np ./a"),
        ] {
            assert_eq!(said(theirs), ours);
        }
    }
}
