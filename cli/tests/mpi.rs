//! C programs, compiled by our mpicc, as ranks under `ferriband mpirun`: they check themselves what they receive.

#[path = "mpi/callers.rs"]
mod callers;
#[path = "mpi/children.rs"]
mod children;
#[path = "mpi/eachcall.rs"]
mod eachcall;
#[path = "mpi/faces.rs"]
mod faces;
#[path = "mpi/failures.rs"]
mod failures;
#[path = "mpi/foreign.rs"]
mod foreign;
#[path = "mpi/forms.rs"]
mod forms;
#[path = "mpi/heals.rs"]
mod heals;
#[path = "mpi/input.rs"]
mod input;
#[path = "mpi/launch.rs"]
mod launch;
#[path = "mpi/matrix.rs"]
mod matrix;
#[path = "mpi/pmi.rs"]
mod pmi;
#[path = "mpi/ulfm.rs"]
mod ulfm;

use ferriband_testkit::library_dir;

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

const FERRIBAND: &str = env!("CARGO_BIN_EXE_ferriband");
const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../ulp/mpi/abi/tests/c");
/// Seconds after which a job that hangs is a failure. Far more than any takes.
const PATIENCE: &str = "300";

/// Compiles a program of `ulp/mpi/abi/tests/c`; where it lies: under a name of its own, because tests run beside one another.
fn compile(name: &str) -> PathBuf {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let file = format!("mpi_{name}.{}.{number}", std::process::id());
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join(file);
    let output = Command::new(library_dir().join("bin/mpicc"))
        .args(["-O2", "-Wall", "-Wextra", "-Werror", "-o"])
        .arg(&out)
        .arg(format!("{SOURCES}/{name}.c"))
        .output()
        .expect("mpicc runs");
    assert!(
        output.status.success(),
        "mpicc {name}.c:\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    out
}

/// A program that is there as long as its test runs.
struct Program(PathBuf);

impl Program {
    fn new(name: &str) -> Self {
        Self(compile(name))
    }

    fn command(&self, ranks: u32, options: &[&str], arguments: &[&str]) -> Command {
        let mut command = Command::new(FERRIBAND);
        command
            .env("FERRIBAND_LIB_DIR", library_dir())
            .args(["mpirun", "-n", &ranks.to_string(), "--timeout", PATIENCE])
            .args(options)
            .arg(&self.0)
            .args(arguments)
            .stdin(Stdio::null());
        command
    }

    fn run(&self, ranks: u32, options: &[&str], arguments: &[&str]) -> Output {
        self.command(ranks, options, arguments)
            .output()
            .expect("mpirun runs")
    }

    /// The job ends well and says what is expected.
    fn succeeds(&self, ranks: u32, options: &[&str]) -> String {
        let output = self.run(ranks, options, &[]);
        let (said, complained) = (
            String::from_utf8_lossy(&output.stdout).into_owned(),
            String::from_utf8_lossy(&output.stderr).into_owned(),
        );
        assert!(
            output.status.success(),
            "{ranks} ranks: {}\n{said}{complained}",
            output.status
        );
        assert_eq!(complained, "", "{ranks} ranks");
        said
    }

    /// No process of the program is left.
    fn leaves_nobody(&self) {
        let file = self.0.canonicalize().expect("the program is there");
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            let left: Vec<String> = std::fs::read_dir("/proc")
                .expect("/proc")
                .flatten()
                .filter(|entry| {
                    std::fs::read_link(entry.path().join("exe")).is_ok_and(|exe| exe == file)
                })
                .map(|entry| entry.file_name().to_string_lossy().into_owned())
                .collect();
            if left.is_empty() {
                return;
            }
            assert!(Instant::now() < deadline, "processes are left: {left:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[test]
fn each_rank_says_hello() {
    let hello = Program::new("hello");
    for ranks in [1, 2, 4, 8] {
        let said = hello.succeeds(ranks, &[]);
        let mut lines: Vec<&str> = said.lines().collect();
        lines.sort_unstable();
        let expected: Vec<String> = (0..ranks)
            .map(|rank| format!("hello from {rank} of {ranks}"))
            .collect();
        assert_eq!(lines, expected);
    }
    let tagged = hello.succeeds(3, &["--tag-output"]);
    for rank in 0..3 {
        assert!(
            tagged.contains(&format!("[{rank}] hello from {rank} of 3\n")),
            "{tagged}"
        );
    }
    // Without a launcher a program is alone.
    let alone = Command::new(&hello.0)
        .env("LD_LIBRARY_PATH", library_dir())
        .output()
        .expect("the program runs");
    assert_eq!(
        String::from_utf8_lossy(&alone.stdout),
        "hello from 0 of 1\n"
    );
}

#[test]
fn messages_arrive_whole_and_in_order() {
    for name in [
        "ring",
        "pairs",
        "collectives",
        "schedules",
        "turns",
        "swaps",
        "together",
        "errors",
        "handlers",
        "profiled",
        "datatypes",
        "derived",
        "mixed",
        "operations",
        "modes",
        "order",
        "persistent",
        "rounds",
        "partitioned",
        "groups",
        "attributes",
        "sides",
        "topologies",
        "sessions",
        "threads",
        "faults",
        "long",
        "waits",
    ] {
        let program = Program::new(name);
        for ranks in [1, 2, 3, 4, 8] {
            let said = program.succeeds(ranks, &[]);
            assert_eq!(said, format!("{name}: {ranks} ranks: ok\n"));
        }
    }
}

#[test]
fn both_sides_of_a_host_copy_a_message_or_only_one_does() {
    let program = Program::new("long");
    for least in ["0", "1", "1M"] {
        let set = format!("both_copy={least}");
        let said = program.succeeds(2, &["--set", &set]);
        assert_eq!(said, "long: 2 ranks: ok\n", "{set}");
    }
}

#[test]
fn long_messages_come_in_pieces_where_no_memory_is_read() {
    for name in [
        "ring",
        "pairs",
        "collectives",
        "schedules",
        "turns",
        "derived",
        "mixed",
        "modes",
        "order",
        "persistent",
        "rounds",
        "partitioned",
        "long",
    ] {
        let program = Program::new(name);
        for ranks in [2, 4] {
            let said = program.succeeds(ranks, &["--env", "FERRIBAND_MPI_READS_PEERS=0"]);
            assert_eq!(said, format!("{name}: {ranks} ranks: ok\n"));
        }
    }
}

/// What a job prints whose ranks all share one core.
fn on_one_core(program: &Program, ranks: u32, options: &[&str]) -> String {
    let core = std::fs::read_to_string("/proc/self/status").expect("one's own status");
    let cores = core
        .lines()
        .find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    let cores = cores.expect("the cores that may be used").trim();
    let core = cores.split(['-', ',']).next().expect("one core");
    let mpirun = program.command(ranks, options, &[]);
    let output = Command::new("taskset")
        .args(["-c", core])
        .arg(mpirun.get_program())
        .args(mpirun.get_args())
        .env("FERRIBAND_LIB_DIR", library_dir())
        .stdin(Stdio::null())
        .output()
        .expect("taskset runs");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn collectives_are_right_where_ranks_share_a_core() {
    // As on a machine with one core: each step of a collective is a turn there.
    let program = Program::new("turns");
    for (ranks, reads) in [(2, "1"), (5, "1"), (5, "0")] {
        let reads = format!("FERRIBAND_MPI_READS_PEERS={reads}");
        let said = on_one_core(&program, ranks, &["--env", &reads]);
        assert_eq!(said, format!("turns: {ranks} ranks: ok\n"));
    }
}

#[test]
fn ranks_that_only_ask_give_the_core_to_those_that_they_ask_about() {
    // A time slice is some milliseconds, and a step of a word that goes round is some microseconds where nobody spins one away.
    let program = Program::new("asks");
    for options in [&[][..], &["--same-host", "verbs"]] {
        let said = on_one_core(&program, 4, options);
        let step = said
            .strip_prefix("asks: ")
            .and_then(|said| said.split_once(" us a step\n"))
            .expect("it says how long a step took");
        assert_eq!(step.1, "asks: 4 ranks: ok\n");
        let took: f64 = step.0.parse().expect("a number");
        assert!(took < 1000.0, "{took} us a step with {options:?}");
    }
}

#[test]
fn collectives_are_right_by_messages_too() {
    // On one host they go by shared memory unless other algorithms are asked for.
    let algorithms = "FERRIBAND_MPI_COLL=barrier=dissemination,bcast=binomial,reduce=binomial,allreduce=recursive_doubling,\
        gather=binomial,scatter=binomial,allgather=bruck,alltoall=bruck,reduce_scatter=reduce_scatterv,scan=recursive_doubling";
    for name in ["collectives", "schedules", "together"] {
        let program = Program::new(name);
        let said = program.succeeds(3, &["--env", algorithms]);
        assert_eq!(said, format!("{name}: 3 ranks: ok\n"));
    }
}

#[test]
fn the_same_messages_go_by_verbs() {
    for (name, ranks, long) in [
        ("ring", 2, "get"),
        ("ring", 3, "put"),
        ("pairs", 2, "put"),
        ("pairs", 4, "get"),
        ("collectives", 4, "get"),
        ("schedules", 3, "get"),
        ("schedules", 4, "put"),
        ("datatypes", 2, "get"),
        ("derived", 2, "put"),
        ("fills", 2, "get"),
        ("fills", 3, "put"),
    ] {
        let program = Program::new(name);
        let long = format!("FERRIBAND_MPI_RNDV={long}");
        let said = program.succeeds(ranks, &["--same-host", "verbs", "--env", &long]);
        assert_eq!(said, format!("{name}: {ranks} ranks: ok\n"));
    }
    // The fast path from the first message on, in a block that wraps often; and never.
    for (name, fast) in [
        ("pairs", "FERRIBAND_MPI_BLOCK=4096"),
        ("schedules", "FERRIBAND_MPI_BLOCK=4096"),
        ("pairs", "FERRIBAND_MPI_FAST_CHANNELS=0"),
        ("fills", "FERRIBAND_MPI_BLOCK=4096"),
        ("fills", "FERRIBAND_MPI_FAST_CHANNELS=0"),
    ] {
        let program = Program::new(name);
        let first = [
            "--same-host",
            "verbs",
            "--env",
            "FERRIBAND_MPI_OPEN_AFTER=1",
        ];
        let said = program.succeeds(3, &[&first[..], &["--env", fast]].concat());
        assert_eq!(said, format!("{name}: 3 ranks: ok\n"));
    }
    // Where the device has no paging on demand, what is kept registered is dropped when its memory is another.
    let remap = Program::new("remap");
    for way in ["auto", "uffd", "none"] {
        let way = format!("FERRIBAND_MPI_REGCACHE={way}");
        let options = ["--same-host", "verbs", "--env", &way];
        let refused = remap.run(2, &options, &[]).stderr;
        if String::from_utf8_lossy(&refused).contains("cannot watch memory (userfaultfd)") {
            eprintln!("left out: {way}, the kernel lets nobody watch memory here");
            continue;
        }
        assert_eq!(remap.succeeds(2, &options), "remap: 2 ranks: ok\n");
    }
    let ring = Program::new("ring");
    let counted = ring.run(
        2,
        &["--same-host", "verbs", "--env", "FERRIBAND_MPI_STATS=1"],
        &[],
    );
    let told = String::from_utf8_lossy(&counted.stderr);
    for rank in 0..2 {
        let begins = format!("ferriband MPI: rank {rank}: 1 remote peers; fast path: ");
        assert!(counted.status.success() && told.contains(&begins), "{told}");
    }
    // By shared memory, too: a message to each side in a round of the ring at the least.
    let counted = ring.run(3, &["--set", "stats=1"], &[]);
    let told = String::from_utf8_lossy(&counted.stderr);
    for rank in 0..3 {
        let begins = format!("ferriband MPI: rank {rank}: ");
        let line = told.lines().find_map(|line| line.strip_prefix(&begins));
        let records = line.and_then(|line| {
            let (peers, rest) = line.split_once(" peers on this host: ")?;
            let records = rest.split_once(" records in shared memory")?.0;
            Some((peers.parse::<u64>().ok()?, records.parse::<u64>().ok()?))
        });
        assert!(
            records.is_some_and(|(peers, records)| (1..3).contains(&peers) && records > 0),
            "{told}"
        );
    }
    let hello = Program::new("hello");
    let wrong = hello.run(2, &["--env", "FERRIBAND_MPI_SAME_HOST=shm"], &[]);
    let complained = String::from_utf8_lossy(&wrong.stderr);
    assert!(
        complained.contains("FERRIBAND_MPI_SAME_HOST=shm: it can be mapped or verbs"),
        "{complained}"
    );
    let wrong = hello.run(
        2,
        &[
            "--same-host",
            "verbs",
            "--env",
            "FERRIBAND_MPI_DEVICE=mlx9_0",
        ],
        &[],
    );
    let complained = String::from_utf8_lossy(&wrong.stderr);
    assert!(
        complained.contains("no active device mlx9_0 (FERRIBAND_MPI_DEVICE)")
            && complained.contains("ferri0"),
        "{complained}"
    );
}

/// What `fast` says after a run of three ranks, or as many as it wants, with these settings beside those that it always has; and the counters.
fn run_fast(program: &Program, argument: &str, settings: &[&str]) -> String {
    let ranks = if matches!(argument, "pause" | "grow" | "flood") {
        2
    } else {
        3
    };
    let mut options = vec![
        "--same-host",
        "verbs",
        "--env",
        "FERRIBAND_MPI_OPEN_AFTER=1",
    ];
    options.extend(["--env", "FERRIBAND_MPI_STATS=1"]);
    for setting in settings {
        options.extend(["--env", setting]);
    }
    let output = program.run(ranks, &options, &[argument]);
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        format!("fast: {ranks} ranks: ok\n"),
        "{settings:?}: {told}"
    );
    told
}

#[test]
fn the_fast_path_holds_in_all_designs() {
    let program = Program::new("fast");
    for (design, block, mirror) in [
        ("fixed-top", "32768", true),
        ("fixed-bottom", "16384", false),
        ("variable-top", "8192", true),
        ("variable-bottom", "8192", false),
    ] {
        let design_set = format!("FERRIBAND_MPI_DESIGN={design}");
        let block = format!("FERRIBAND_MPI_BLOCK={block}");
        let told = run_fast(&program, "", &[&design_set, &block]);
        assert!(told.contains(&format!("fast path: {design}, ")), "{told}");
        assert_eq!(!told.contains(", 0 of mirrors, "), mirror, "{told}");
        run_fast(&program, "pause", &[&design_set]);
    }
    run_fast(
        &program,
        "close",
        &[
            "FERRIBAND_MPI_FAST_CHANNELS=1",
            "FERRIBAND_MPI_DESIGN=variable-top",
        ],
    );
    run_fast(&program, "grow", &["FERRIBAND_MPI_BLOCK=auto"]);
}

#[test]
fn what_is_kept_stays_whole_while_settings_change_and_buffers_run_short() {
    let program = Program::new("fast");
    run_fast(&program, "switch", &[]);
    for acks in ["FERRIBAND_MPI_ACKS=1", "FERRIBAND_MPI_ACKS=0"] {
        run_fast(&program, "flood", &[acks]);
        run_fast(&program, "flood", &[acks, "FERRIBAND_MPI_FAST_CHANNELS=0"]);
    }
}

/// Whether two hosts can be made here.
fn has_network_namespaces() -> bool {
    let may = Command::new("unshare")
        .args(["--user", "--map-current-user", "--keep-caps", "--net"])
        .args(["ip", "link", "add", "one", "type", "veth"])
        .output();
    let may = may.is_ok_and(|may| may.status.success());
    if !may {
        eprintln!("left out: no network namespaces here");
    }
    may
}

/// Runs programs with 2 and with 4 ranks on two hosts.
fn two_hosts(programs: &[Program], environment: &[(&str, &str)]) -> Output {
    Command::new("unshare")
        .args(["--user", "--map-current-user", "--keep-caps", "--net", "sh"])
        .arg(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/tests/mpi_two_hosts.sh"
        ))
        .arg(FERRIBAND)
        .args(programs.iter().map(|program| &program.0))
        .env("FERRIBAND_LIB_DIR", library_dir())
        .envs(environment.iter().copied())
        .stdin(Stdio::null())
        .output()
        .expect("unshare runs")
}

#[test]
fn ranks_of_two_hosts_meet_by_roce() {
    if !has_network_namespaces() {
        return;
    }
    let programs = ["ring", "schedules", "modes", "sessions", "fills", "remap"].map(Program::new);
    let output = two_hosts(&programs, &[]);
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(
        said,
        "ring: 2 ranks: ok\nring: 4 ranks: ok\nschedules: 2 ranks: ok\nschedules: 4 ranks: ok\n\
         modes: 2 ranks: ok\nmodes: 4 ranks: ok\nsessions: 2 ranks: ok\nsessions: 4 ranks: ok\n\
         fills: 2 ranks: ok\nfills: 4 ranks: ok\nremap: 2 ranks: ok\nremap: 4 ranks: ok\n",
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(output.status.success());
}

#[test]
fn long_messages_of_all_kinds_between_hosts_come_by_send_or_are_written() {
    if !has_network_namespaces() {
        return;
    }
    let programs = ["lanes", "heard"].map(Program::new);
    for (lanes, way) in [("landed", "auto"), ("written", "put")] {
        let environment = [("LANES", lanes), ("FERRIBAND_MPI_RNDV", way)];
        let output = two_hosts(&programs, &environment);
        assert_eq!(
            String::from_utf8_lossy(&output.stdout),
            "lanes: 2 ranks: ok\nlanes: 4 ranks: ok\nheard: 2 ranks: ok\nheard: 4 ranks: ok\n",
            "{way}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        assert!(output.status.success());
    }
}

#[test]
fn long_messages_of_all_kinds_come_by_each_way_between_ranks_of_one_host() {
    let program = Program::new("lanes");
    let verbs = ["--same-host", "verbs", "--set"];
    for (lanes, way) in [
        ("landed", "rndv=send"),
        ("written", "rndv=put"),
        ("written", "rndv=get"),
        ("written", "rndv=auto"),
    ] {
        let lanes = format!("LANES={lanes}");
        for ranks in [2, 4] {
            let options = [&verbs[..], &[way, "--env", &lanes]].concat();
            let said = program.succeeds(ranks, &options);
            assert_eq!(said, format!("lanes: {ranks} ranks: ok\n"), "{way}");
        }
    }
    let said = program.succeeds(4, &[]);
    assert_eq!(said, "lanes: 4 ranks: ok\n");
    program.leaves_nobody();
}

/// Packets that a host sends, 5,000 or more, while messages go to and fro between two, and how many of them go as frames.
fn packets_and_frames(may_frame: bool) -> (u64, u64) {
    let latency = Program::new("latency");
    let home = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join(format!("frames.{}.{may_frame}", std::process::id()));
    let settings = home.join("ferriband");
    std::fs::create_dir_all(&settings).expect("a directory");
    let text = format!("[device.ferri_va]\nframes = {may_frame}\n");
    std::fs::write(settings.join("devices.toml"), text).expect("a file");
    let home_name = home.to_str().expect("a name");
    let environment = [("COUNT", "5000"), ("XDG_CONFIG_HOME", home_name)];
    let output = two_hosts(&[latency], &environment);
    std::fs::remove_dir_all(&home).expect("the directory is there");
    let said = String::from_utf8_lossy(&output.stdout);
    let numbers: Vec<u64> = said
        .split_whitespace()
        .filter_map(|word| word.parse().ok())
        .collect();
    let [packets, frames] = numbers[..] else {
        panic!("{said}{}", String::from_utf8_lossy(&output.stderr));
    };
    assert!(packets >= 5000, "{packets} packets");
    (packets, frames)
}

#[test]
fn short_messages_between_two_hosts_go_as_frames_unless_it_is_forbidden() {
    if !has_network_namespaces() {
        return;
    }
    // where a rank waits for a core for milliseconds, its peer gives frames up for a while: on a busy machine not every run has many
    let mut runs = Vec::new();
    let many = (0..4).any(|_| {
        let (packets, frames) = packets_and_frames(true);
        runs.push((packets, frames));
        frames > packets / 10
    });
    assert!(many, "packets and frames of them: {runs:?}");
    assert_eq!(packets_and_frames(false).1, 0);
}

#[test]
fn a_rank_that_fails_ends_the_job_and_nothing_is_left() {
    let fails = Program::new("fails");
    for (how, status, word) in [
        ("kill", 137, "rank 3 was killed by signal 9"),
        ("abort", 42, "MPI_Abort with code 42"),
        ("exit", 1, "without MPI_Finalize"),
        ("error", 6, "MPI_ERR_RANK"),
    ] {
        let output = fails.run(4, &[], &[how]);
        let complained = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(status), "{how}: {complained}");
        assert!(complained.contains(word), "{how}: {complained}");
        fails.leaves_nobody();
    }
    let output = fails.run(4, &["--same-host", "verbs"], &["kill"]);
    assert_eq!(output.status.code(), Some(137), "by verbs");
    fails.leaves_nobody();
    let output = fails.run(4, &[], &["status"]);
    assert_eq!(
        output.status.code(),
        Some(9),
        "the first status that is not zero"
    );
    assert!(output.stderr.is_empty());
}

#[test]
fn the_others_go_on_without_a_rank_that_dies_where_all_have_chosen_so() {
    let survives = Program::new("survives");
    let by_verbs: &[&str] = &["--same-host", "verbs"];
    let by_lane: &[&str] = &["--same-host", "verbs", "--set", "rndv=send"];
    for (ranks, way) in [
        (3, &[][..]),
        (5, &[]),
        (8, &[]),
        (4, by_verbs),
        (5, by_verbs),
        (4, by_lane),
        (5, by_lane),
    ] {
        for how in [&[][..], &["early"]] {
            goes_on(&survives, ranks, way, how);
        }
    }
}

fn goes_on(survives: &Program, ranks: u32, way: &[&str], how: &[&str]) {
    let output = survives.run(ranks, way, how);
    let complained = String::from_utf8_lossy(&output.stderr);
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        format!("survives: {ranks} ranks: ok\n"),
        "{complained}"
    );
    // The dead one's status is the job's.
    assert_eq!(output.status.code(), Some(137), "{complained}");
    assert!(
        complained.contains("was killed by signal 9; the other ranks go on"),
        "{complained}"
    );
    survives.leaves_nobody();
}

#[test]
fn a_launcher_that_ends_takes_its_ranks_along() {
    let fails = Program::new("fails");
    for signal in [libc::SIGTERM, libc::SIGKILL] {
        let mut job = fails
            .command(2, &[], &["wait"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("mpirun runs");
        let started = Instant::now();
        let ranks = format!("/proc/{0}/task/{0}/children", job.id());
        let count = || {
            std::fs::read_to_string(&ranks)
                .unwrap_or_default()
                .split_whitespace()
                .count()
        };
        while count() < 2 {
            assert!(
                started.elapsed() < Duration::from_secs(60),
                "the ranks do not start"
            );
            std::thread::sleep(Duration::from_millis(5));
        }
        // SAFETY: a child that has not been waited for.
        unsafe { libc::kill(job.id().cast_signed(), signal) };
        let status = job.wait().expect("it ends");
        if signal == libc::SIGTERM {
            assert_eq!(status.code(), Some(128 + signal));
        }
        fails.leaves_nobody();
    }
}

#[test]
fn input_goes_to_the_first_rank() {
    use std::io::Write;
    let echo = Program::new("echo");
    let mut job = echo
        .command(3, &[], &[])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("mpirun runs");
    let numbers: String = (0..20000).map(|number| format!("{number}\n")).collect();
    job.stdin
        .take()
        .expect("a pipe")
        .write_all(numbers.as_bytes())
        .expect("it is read");
    let output = job.wait_with_output().expect("it ends");
    assert!(output.status.success());
    assert_eq!(String::from_utf8_lossy(&output.stdout), "sum 199990000\n");
}

#[test]
fn what_cannot_be_run_says_so() {
    let run = |arguments: &[&str]| {
        Command::new(FERRIBAND)
            .env("FERRIBAND_LIB_DIR", library_dir())
            .arg("mpirun")
            .args(arguments)
            .stdin(Stdio::null())
            .output()
            .expect("mpirun runs")
    };
    let missing = run(&["-n", "2", "no-such-program-anywhere"]);
    assert_eq!(missing.status.code(), Some(127));
    assert!(String::from_utf8_lossy(&missing.stderr).contains("no such program"));
    assert_eq!(run(&["-n", "0", "true"]).status.code(), Some(2));
    assert_eq!(
        run(&["-np", "3", "true"]).status.code(),
        Some(0),
        "programs without MPI run, too"
    );
    let late = run(&["-n", "2", "--timeout", "0.2", "sleep", "600"]);
    assert_eq!(late.status.code(), Some(124));
}
