//! The words of other launchers: what means this machine is taken with its meaning, and what is refused is refused with the reason.

use super::launch::{complained, run, said};
use std::fs;
use std::path::{Path, PathBuf};

/// Files of hosts, gone at the end.
struct Hosts(PathBuf);

impl Hosts {
    fn new(name: &str, text: &str) -> Self {
        let dir = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let path = dir.join(format!("mpi_hosts.{}.{name}", std::process::id()));
        fs::write(&path, text).expect("written");
        Self(path)
    }

    fn path(&self) -> &str {
        self.0.to_str().expect("a path in ASCII")
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

fn mpirun(words: &[&str]) -> std::process::Output {
    run(&[&["mpirun"], words].concat())
}

/// So many ranks run with these words before the program, and nothing is said.
fn runs(words: &str, ranks: usize) {
    let words: Vec<&str> = words.split_whitespace().collect();
    let output = mpirun(&[&words[..], &["echo", "here"]].concat());
    let complaint = complained(&output);
    assert_eq!(
        said(&output),
        "here\n".repeat(ranks),
        "{words:?}: {complaint}"
    );
    assert_eq!(
        (output.status.code(), complaint.as_str()),
        (Some(0), ""),
        "{words:?}"
    );
}

#[test]
fn hosts_that_are_this_machine_are_taken() {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").expect("it has one");
    let name = name.trim();
    for host in [
        "localhost",
        "localhost:4",
        "localhost,localhost",
        "127.0.0.1",
        "127.0.1.1:2",
        "::1",
        "[::1]:2",
        "localhost.localdomain",
        "ip6-localhost",
        name,
        &format!("{name}:3"),
        "localhost:*",
    ] {
        for option in ["--host", "-host", "-H", "-hosts", "--host="] {
            let space = if option.ends_with('=') { "" } else { " " };
            runs(&format!("{option}{space}{host} -n 2"), 2);
        }
    }
    runs("--host localhost:3", 3);
    runs("-H localhost,127.0.0.1:2", 3);
    runs("-np 1 -host localhost true : -np 2 -host localhost", 2);
}

#[test]
fn files_of_hosts_are_read_as_mpich_and_open_mpi_write_them() {
    let mpich = Hosts::new(
        "mpich",
        "# of MPICH\nlocalhost:2\n127.0.0.1:1 # one more\n\n",
    );
    let open = Hosts::new(
        "open",
        "localhost slots=2 max_slots=4\n127.0.0.1 slots = 1 max-slots=1\n",
    );
    for option in [
        "--hostfile",
        "-hostfile",
        "-machinefile",
        "--machinefile",
        "-f",
    ] {
        for file in [&mpich, &open] {
            runs(&format!("{option} {} -n 2", file.path()), 2);
            runs(&format!("{option} {}", file.path()), 3);
        }
    }
    runs(&format!("--hostfile {} -n 5", open.path()), 5);
    let empty = Hosts::new("empty", "# nobody\n");
    runs(&format!("--hostfile {} -n 2", empty.path()), 2);
    let refused = |file: &Hosts, words: &[&str], why: &str| {
        let output = mpirun(&[&["--hostfile", file.path()], words, &["true"]].concat());
        let complaint = complained(&output);
        assert_eq!(output.status.code(), Some(2), "{complaint}");
        assert!(complaint.contains(why), "{why}: {complaint}");
    };
    refused(&open, &["-n", "6"], "max_slots");
    refused(
        &open,
        &["--nooversubscribe", "-n", "4"],
        "none without a slot",
    );
    let wrong = Hosts::new("wrong", "localhost\nlocalhost slots=many\n");
    refused(&wrong, &[], "line 2: \"many\" is no number of ranks");
    let other = Hosts::new("other", "localhost\nnode7.invalid:4\n");
    refused(&other, &["-n", "2"], "node7.invalid is not this machine");
}

#[test]
fn mappings_and_numbers_for_each_machine_are_taken() {
    for words in [
        "--map-by slot",
        "--map-by :OVERSUBSCRIBE",
        "--map-by node",
        "-map-by core",
        "--map-by socket:SPAN",
        "--map-by numa",
        "--map-by l3cache",
        "--map-by slot:PE=1",
        "--map-by hwthread:HWTCPUS",
        "--map-by ppr:2:node",
        "-ppn 2",
        "--ppn 2",
        "-ppn 1",
        "-perhost 2",
        "-npernode 2",
        "-N 2",
        "--npernode 4",
        "--rank-by slot",
        "--rank-by core",
        "--oversubscribe",
        "-bynode",
        "--use-hwthread-cpus",
        "--bind-to core",
        "--bind-to none",
        "--bind-to socket",
        "--bind-to hwthread:overload-allowed",
        "--bind-to l2cache",
        "-bind-to core:1",
        "--bind-to numa",
        "-launcher fork",
        "-launcher ssh",
        "-bootstrap fork",
        "-iface lo",
        "--allow-run-as-root",
        "-envall",
        "-genvall",
        "-q",
        "--prefix /usr",
        "-cpus-per-proc 1",
        "-rr",
        "--bind-to-core",
    ] {
        runs(&format!("{words} -n 2"), 2);
        runs(&format!("{words} -c 2"), 2);
    }
    for (words, ranks) in [
        ("-ppn 3", 3),
        ("-N 3", 3),
        ("--npernode 2", 2),
        ("--map-by ppr:3:node", 3),
        ("-pernode", 1),
        ("--host localhost:4 -ppn 2", 2),
    ] {
        runs(words, ranks);
    }
}

#[test]
fn what_cannot_be_had_is_refused_with_what_is_true() {
    for (words, why) in [
        (
            &["--host", "node7.invalid", "-n", "2"][..],
            "node7.invalid is not this machine",
        ),
        (
            &["-H", "localhost,192.0.2.1"],
            "192.0.2.1 is not this machine",
        ),
        (
            &["-H", "nobody-of-this-name@localhost"],
            "ranks of the user nobody-of-this-name",
        ),
        (
            &["--host", "localhost:many"],
            "\"many\" is no number of ranks",
        ),
        (&["-N", "1", "-n", "2"], "1 on each machine"),
        (&["--map-by", "ppr:1:node", "-n", "2"], "1 on each machine"),
        (&["--map-by", "rack", "-n", "2"], "it can be slot"),
        (
            &["--map-by", "slot:NOLOCAL", "-n", "2"],
            "there is this one",
        ),
        (&["--nolocal", "-n", "2"], "on other machines alone"),
        (&["-rf", "file", "-n", "2"], "files of ranks are not read"),
        (&["--bind-to", "user:0,1", "-n", "2"], "taskset"),
        (&["--cpu-set", "0,1", "-n", "2"], "taskset"),
        (
            &["--hostfile", "/there/is/none", "-n", "2"],
            "cannot read the file of hosts /there/is/none",
        ),
        (
            &["--stdin", "7", "-n", "3"],
            "for rank 7, and there is none: the job has 3 ranks",
        ),
    ] {
        let output = mpirun(&[words, &["echo", "never"]].concat());
        let complaint = complained(&output);
        assert_eq!(
            (output.status.code(), said(&output).as_str()),
            (Some(2), ""),
            "{words:?}: {complaint}"
        );
        assert!(complaint.contains(why), "{words:?}: {complaint}");
    }
    // Of what concerns another launcher's parts alone it is said that it does nothing.
    let output = mpirun(&["--mca", "btl", "self,tcp", "-n", "2", "echo", "here"]);
    assert_eq!(said(&output), "here\nhere\n");
    assert!(
        complained(&output).contains("--mca btl self,tcp is about another launcher's own parts")
    );
    let output = mpirun(&["--version"]);
    assert!(said(&output).contains("MPI 5.0") && output.status.success());
}

#[test]
fn variables_come_to_ranks_as_their_words_say() {
    let shown = |words: &[&str]| {
        let script = "echo \"$ONE,$TWO,$THREE\"";
        let line = [&["mpirun"], words, &["sh", "-c", script]].concat();
        let output = super::launch::ferriband(&line)
            .envs([("ONE", "1"), ("TWO", "2")])
            .output()
            .expect("it runs");
        (said(&output), complained(&output))
    };
    for (words, expected) in [
        (&[][..], "1,2,\n"),
        (&["-genvall"], "1,2,\n"),
        (&["-genvnone"], ",,\n"),
        (&["-genvlist", "TWO"], ",2,\n"),
        (&["-envexcl", "TWO"], "1,,\n"),
        (&["-envnone", "-env", "THREE", "3"], ",,3\n"),
        (&["-genv", "THREE=a b"], "1,2,a b\n"),
        (&["-x", "ONE", "-x", "THREE=3"], "1,2,3\n"),
    ] {
        assert_eq!(
            shown(words),
            (expected.to_owned(), String::new()),
            "{words:?}"
        );
    }
}

#[test]
fn a_rank_has_as_many_cpus_as_is_said() {
    let cpus = |words: &[&str]| {
        let line = [
            &["mpirun"],
            words,
            &["grep", "Cpus_allowed_list", "/proc/self/status"],
        ]
        .concat();
        let output = run(&line);
        let text = said(&output);
        assert!(
            output.status.success(),
            "{words:?}: {}",
            complained(&output)
        );
        let lists = text
            .lines()
            .filter_map(|line| line.split_whitespace().nth(1));
        let mut lists: Vec<String> = lists.map(str::to_owned).collect();
        lists.sort();
        lists
    };
    let all = cpus(&["-n", "1"]);
    let count = std::thread::available_parallelism().expect("known").get();
    let each = cpus(&["--map-by", "slot:PE=1", "-n", &count.to_string()]);
    let single = |list: &String| !list.contains(['-', ',']);
    assert!(each.len() == count && each.iter().all(single), "{each:?}");
    let pe = format!("slot:PE={count}");
    assert_eq!(cpus(&["--map-by", &pe, "-n", "1"]), all);
    assert_eq!(cpus(&["--bind-to", "board", "-n", "1"]), all);
}
