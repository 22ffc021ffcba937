//! Ranks of MPI on hosts of a live fabric are there as programs of `ferriband run --host` are: by name, by address, by the files that they see.

mod fabrics;

use fabrics::*;
use ferriband_testkit::library_dir;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

/// A program that is there as long as its test runs.
struct Program(PathBuf);

impl Program {
    /// One that says where its ranks are, and exchanges messages between them.
    fn on_hosts(name: &str) -> Program {
        Program::of("on_hosts", name)
    }

    fn of(source: &str, name: &str) -> Program {
        let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.{source}"));
        let source = format!("{}/tests/mpi/{source}.c", env!("CARGO_MANIFEST_DIR"));
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

/// A job of two ranks, on the first two hosts of a fabric, that exchange messages until they are
/// told to end.
struct Job {
    process: Child,
    says: BufReader<ChildStdout>,
    /// It ends when this file is there.
    end: PathBuf,
    /// Where it writes down what happens to it.
    state: PathBuf,
    _program: Program,
}

/// What a rank has counted.
#[derive(Debug, PartialEq, Eq)]
struct Counted {
    heals: u64,
    migrations: u64,
}

impl Job {
    fn on(fabric: &Fabric) -> Job {
        let program = Program::of("goes_on", &fabric.name);
        let state = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{}.state", fabric.name));
        let _ = std::fs::remove_dir_all(&state);
        std::fs::create_dir_all(&state).expect("writable");
        let end = state.join("end");
        let on = format!("{}/H1,H2", fabric.name);
        let end_text = end.to_str().expect("text").to_owned();
        let words = [
            "mpirun",
            "-n",
            "2",
            "--timeout",
            "100",
            "--fabric-hosts",
            &on,
        ];
        let mut process = ferriband(&[&words[..], &[program.path(), &end_text]].concat())
            .env("XDG_STATE_HOME", &state)
            .stdout(Stdio::piped())
            .spawn()
            .expect("mpirun runs");
        let says = BufReader::new(process.stdout.take().expect("a pipe"));
        let mut job = Job {
            process,
            says,
            end,
            state,
            _program: program,
        };
        job.goes_on();
        job
    }

    /// Messages go to and fro: some hundred more from now on.
    fn goes_on(&mut self) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now = now.expect("it is later").as_millis();
        let mut count = 0;
        while count < 3 {
            let mut line = String::new();
            self.says.read_line(&mut line).expect("text");
            let at = line.trim().rsplit_once(" at ").map(|(_, at)| at);
            let at = at.and_then(|at| at.parse::<u128>().ok());
            let at = at.unwrap_or_else(|| panic!("no round: {line}"));
            count += u32::from(at >= now);
        }
    }

    /// It ends well; what its ranks have counted.
    fn end(mut self) -> [Counted; 2] {
        std::fs::write(&self.end, "").expect("writable");
        let mut said = String::new();
        self.says.read_to_string(&mut said).expect("text");
        let status = self.process.wait().expect("our child");
        assert!(status.success(), "{status}: {said}");
        [0, 1].map(|rank| {
            let mut lines = said.lines();
            let begin = format!("rank {rank}: ");
            let line = lines.find_map(|line| line.strip_prefix(&begin));
            let line = line.unwrap_or_else(|| panic!("nothing of rank {rank}: {said}"));
            let mut numbers = line.split(", ").skip(1).map(|part| {
                let number = part.split(' ').next().expect("a word");
                number.parse().expect("a number")
            });
            let mut next = || numbers.next().expect("there are two");
            Counted {
                heals: next(),
                migrations: next(),
            }
        })
    }

    /// What `ferriband why` shows of it.
    fn why(&self, more: &[&str]) -> String {
        let output = ferriband(&[&["why", "--last", "20"], more].concat())
            .env("XDG_STATE_HOME", &self.state)
            .output()
            .expect("ferriband runs");
        text(&output.stdout)
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = std::fs::remove_dir_all(&self.state);
    }
}

fn topology(name: &str, text: &str) -> String {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.net"));
    std::fs::write(&path, text).expect("writable");
    path.to_str().expect("our names are text").to_owned()
}

/// Two hosts of two ports, which lead to two switches with a cable; a third one manages.
const TWO_PORTS: &str = "\
Switch 4 \"S1\"
[1] \"H1\"[1]
[2] \"H2\"[1]
[4] \"S2\"[4]

Switch 4 \"S2\"
[1] \"H1\"[2]
[2] \"H2\"[2]
[3] \"H3\"[1]
[4] \"S1\"[4]

Hca 2 \"H1\"
[1] \"S1\"[1]
[2] \"S2\"[1]

Hca 2 \"H2\"
[1] \"S1\"[2]
[2] \"S2\"[2]

Hca 1 \"H3\"
[1] \"S2\"[3]
";

/// The fabric's manager dies, then a switch, and the ports at it are down: connections go on by
/// their second ports, for which nobody need manage, and none is made anew.
#[test]
fn a_job_goes_on_without_a_heal_where_a_port_a_switch_and_the_manager_die() {
    let fabric = Fabric::up(
        &topology("goes-on-ports", TWO_PORTS),
        &["--manager", "none"],
    );
    let host = format!("{}/H3", fabric.name);
    let manager = ferriband(&["run", "--host", &host, "--", FERRIBAND, "fabric", "manage"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let mut manager = Ending(manager.expect("it runs"));
    fabric.wait_for_links();
    let mut job = Job::on(&fabric);
    let _ = (manager.0.kill(), manager.0.wait());
    job.goes_on();
    fabric.say(&["power", "S1", "off"]);
    job.goes_on();
    let why = job.why(&[]);
    assert!(
        why.contains("went on by its second path, without a heal"),
        "{why}"
    );
    assert!(why.contains("fabric      S1 is switched off"), "{why}");
    assert!(why.contains("the port went down (port_down)"), "{why}");
    let counted = job.end();
    let each = |counted: &Counted| counted.heals == 0 && counted.migrations >= 1;
    assert!(counted.iter().all(each), "{counted:?}");
}

/// Two hosts on two switches, which other two connect.
const TWO_WAYS: &str = "\
Switch 4 \"S1\"
[1] \"H1\"[1]
[3] \"T1\"[1]
[4] \"T2\"[1]

Switch 4 \"S2\"
[1] \"H2\"[1]
[3] \"T1\"[2]
[4] \"T2\"[2]

Switch 2 \"T1\"
[1] \"S1\"[3]
[2] \"S2\"[3]

Switch 2 \"T2\"
[1] \"S1\"[4]
[2] \"S2\"[4]

Hca 1 \"H1\"
[1] \"S1\"[1]

Hca 1 \"H2\"
[1] \"S2\"[1]
";

/// The switch on the way from one host to the other dies: by another LID there is a way over
/// another switch, and whether the adapters go over to it or the manager leads both LIDs there
/// first, the job goes on.
#[test]
fn a_job_goes_on_by_another_lid_when_a_switch_dies() {
    let fabric = Fabric::up(&topology("goes-on-lids", TWO_WAYS), &["--lmc", "1"]);
    fabric.wait_for_links();
    let mut job = Job::on(&fabric);
    let [h1, h2] = ["H1", "H2"].map(|name| fabric.host(name).lid.to_string());
    let words = ["fabric", "why", &h1, &h2, "--name", &fabric.name];
    let way = text(&output(&words).stdout);
    let first = if way.contains(" T1 ") { "T1" } else { "T2" };
    let cable = if first == "T1" { "3" } else { "4" };
    // it spoils all packets, of which no manager hears
    fabric.say(&["errors", "S1", cable, "1"]);
    job.goes_on();
    let why = job.why(&[]);
    assert!(
        why.contains("went on by its second path, without a heal"),
        "{why}"
    );
    assert!(why.contains("spoils 100 % of packets"), "{why}");
    fabric.say(&["errors", "S1", cable, "0"]);
    let second = if first == "T1" { "T2" } else { "T1" };
    fabric.say(&["power", second, "off"]);
    job.goes_on();
    let counted = job.end();
    assert!(counted.iter().all(|one| one.migrations >= 1), "{counted:?}");
}
