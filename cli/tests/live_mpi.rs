//! Ranks of MPI on hosts of a live fabric are there as programs of `ferriband run --host` are: by name, by address, by the files that they see.

mod fabrics;

use fabrics::*;
use ferriband_testkit::library_dir;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A program that is there as long as its test runs.
struct Program(PathBuf);

impl Program {
    /// One that says where its ranks are, and exchanges messages between them.
    fn on_hosts(name: &str) -> Program {
        let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.on_hosts"));
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/mpi/on_hosts.c");
        let compiled = Command::new(library_dir().join("bin/mpicc"))
            .args(["-O2", "-Wall", "-Wextra", "-Werror", "-o"])
            .arg(&out)
            .arg(source)
            .output()
            .expect("mpicc runs");
        assert!(compiled.status.success(), "{compiled:?}");
        Program(out)
    }

    fn path(&self) -> &str {
        self.0.to_str().expect("text")
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[test]
fn ranks_are_on_their_hosts_by_name_address_and_files() {
    let fabric = Fabric::up("fat-tree:2x2x1", &[]);
    fabric.wait_for_links();
    let hosts = fabric.hosts();
    let (here, there) = (&hosts[0], hosts.last().expect("a host"));
    let program = Program::on_hosts(&fabric.name);
    let packets = || {
        fabric.status()["packets"]["delivered"]
            .as_u64()
            .expect("a number")
    };
    let before = packets();
    // the second is of the first one's fabric, which is not the default
    let on = format!("{}/{},{}", fabric.name, here.name, there.name);
    let job = ["mpirun", "-n", "4", "--timeout", "100", "--fabric-hosts"];
    let said = good(&[&job[..], &[&on, program.path()]].concat());
    for rank in 0..4 {
        let host = [here, there][rank % 2];
        let name = &host.name;
        for line in [
            format!("rank {rank}: names {name} {name} {name}\n"),
            format!("rank {rank}: address {}\n", host.address),
            format!("rank {rank}: 2 near, the first is {}\n", rank % 2),
            format!("rank {rank}: /sys there\n"),
        ] {
            assert!(said.contains(&line), "{line}{said}");
        }
    }
    assert!(packets() > before + 100, "they went by the fabric");
}

#[test]
fn a_rank_has_the_environment_of_a_program_of_its_host() {
    let fabric = Fabric::up("fat-tree:2x2x1", &[]);
    let hosts = fabric.hosts();
    let names = [&hosts[0].name, &hosts[1].name].map(|name| format!("{}/{name}", fabric.name));
    // what `mpirun` says of the job, and what a shell changes by itself or cannot hold (a name with
    // a dash, as cargo's for ferriband-dev), is not the host's
    let of_host = |said: String| {
        let mut lines: Vec<String> = said.lines().map(str::to_owned).collect();
        let others = [
            "FERRIBAND_MPI_",
            "PMI_",
            "_=",
            "PWD=",
            "OLDPWD=",
            "SHLVL=",
            "CARGO_BIN_EXE_",
        ];
        lines.retain(|line| !others.iter().any(|name| line.starts_with(name)));
        lines.sort();
        lines
    };
    for (rank, host) in names.iter().enumerate() {
        let program = of_host(good(&["run", "--host", host, "--", "env"]));
        let script = format!("test $FERRIBAND_MPI_LOCAL_RANK = {rank} && env || true");
        let list = names.join(",");
        let job = ["mpirun", "-n", "2", "--fabric-hosts", &list, "sh", "-c"];
        let ranks = of_host(good(&[&job[..], &[&script]].concat()));
        assert_eq!(ranks, program, "{host}");
        let has = |what: &str| ranks.iter().any(|line| line.starts_with(what));
        assert!(has("FERRIBAND_ADDRESS=127.") && has("LD_PRELOAD=/"));
    }
}

#[test]
fn who_names_no_fabric_that_is_up_is_told_how_to_name_one() {
    let fabric = Fabric::up("ring:3:1", &[]);
    let host = &fabric.hosts()[0].name;
    let bad = format!("nofab/{host}");
    for words in [
        &["run", "--host", &bad, "--", "true"][..],
        &["mpirun", "--fabric-hosts", &bad, "true"],
    ] {
        let refused = output(words);
        let said = text(&refused.stderr);
        assert!(!refused.status.success(), "{words:?}");
        assert!(
            said.contains("FABRIC/HOST says which") && !said.contains("(--name"),
            "{words:?}: {said}"
        );
        assert!(said.contains(&format!("/{host})")), "{words:?}: {said}");
    }
    // a host that its fabric, named before it in the list, does not have
    let list = format!("{}/{host},nohost", fabric.name);
    let refused = output(&["mpirun", "--fabric-hosts", &list, "true"]);
    let said = text(&refused.stderr);
    assert!(
        !refused.status.success() && said.contains("nohost") && !said.contains("is up"),
        "{said}"
    );
}
