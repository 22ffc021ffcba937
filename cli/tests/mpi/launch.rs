//! What stands around a job: its programs and settings, what mpi-info says, and traces.

use super::{FERRIBAND, Program, library_dir};
use ferriband_testkit::Scratch;
use serde_json::Value;
use std::collections::{HashMap, HashSet};
use std::process::{Command, Output, Stdio};

pub fn ferriband(arguments: &[&str]) -> Command {
    let mut command = Command::new(FERRIBAND);
    command
        .env("FERRIBAND_LIB_DIR", library_dir())
        .env("FERRIBAND_MPI_SETTINGS", "")
        .args(arguments)
        .stdin(Stdio::null());
    command
}

pub fn run(arguments: &[&str]) -> Output {
    ferriband(arguments).output().expect("ferriband runs")
}

pub fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

pub fn complained(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn json_of(file: &Scratch) -> Value {
    let text = std::fs::read_to_string(file.path()).expect("it was written");
    serde_json::from_str(&text).expect("JSON")
}

#[test]
fn a_job_may_have_several_programs() {
    let program = Program::new("launched");
    let path = program.0.to_str().expect("a path");
    let report = Scratch::file("report.json");
    let mut line = vec![
        "mpirun",
        "--report",
        report.text(),
        "-np",
        "1",
        path,
        "programs",
    ];
    line.extend([":", "-np", "2", path, "programs"]);
    let output = run(&line);
    let text = said(&output);
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    assert_eq!(
        lines,
        [
            "rank 0 runs program 0",
            "rank 1 runs program 1",
            "rank 2 runs program 1"
        ],
        "{}",
        complained(&output)
    );
    let report = json_of(&report);
    assert_eq!(report["status"], 0);
    let ranks = report["ranks"].as_array().expect("ranks");
    assert_eq!(ranks.len(), 3);
    assert!(
        ranks
            .iter()
            .all(|rank| rank["mpi"] == "finalized" && rank["exit_status"] == 0)
    );
    assert_eq!(ranks[2]["program"], 1);
}

#[test]
fn what_users_of_other_launchers_write_is_understood_or_refused_clearly() {
    let output = run(&[
        "mpirun",
        "--bind-to",
        "none",
        "-genv",
        "ONE",
        "1 and",
        "-x",
        "TWO=2",
        "-np",
        "2",
        "sh",
        "-c",
        "echo $ONE $TWO",
    ]);
    assert_eq!(
        said(&output),
        "1 and 2\n1 and 2\n",
        "{}",
        complained(&output)
    );
    let output = run(&[
        "mpirun",
        "--report-bindings",
        "-l",
        "-n",
        "1",
        "echo",
        "hello",
    ]);
    assert_eq!(said(&output), "[0] hello\n");
    assert!(
        complained(&output).contains("rank 0 may use core"),
        "{}",
        complained(&output)
    );
}

#[test]
fn settings_are_checked_before_a_rank_runs_and_shown_with_their_source() {
    let output = run(&["mpirun", "--set", "rndv=push", "-n", "2", "echo", "never"]);
    assert_eq!(
        (output.status.code(), said(&output).as_str()),
        (Some(2), "")
    );
    assert!(complained(&output).contains("rndv=push: it can be auto or get or put or send"));
    let hello = Program::new("hello");
    let file = Scratch::file("mpi.conf");
    std::fs::write(
        file.path(),
        "# for a test\neager = 4K\nopen_after = 3\nrndv = put\n",
    )
    .expect("written");
    let info = ferriband(&["mpi-info", "--set", "rndv=get", "--json"])
        .env("FERRIBAND_MPI_SETTINGS", file.path())
        .env("FERRIBAND_MPI_OPEN_AFTER", "4")
        .env("FERRIBAND_MPI_OPEN_AFTERS", "4")
        .output()
        .expect("it runs");
    let info: Value = serde_json::from_str(&said(&info)).expect("JSON");
    let of = |name: &str| {
        let all = info["settings"].as_array().expect("settings");
        let one = all.iter().find(|one| one["name"] == name).expect("a row");
        let text = |key: &str| one[key].as_str().unwrap_or_default().to_owned();
        (text("value"), text("source"))
    };
    assert_eq!(of("eager"), ("4K".to_owned(), "file".to_owned()));
    assert_eq!(of("open_after"), ("4".to_owned(), "environment".to_owned()));
    assert_eq!(of("rndv"), ("get".to_owned(), "command line".to_owned()));
    assert_eq!(of("block"), ("32K".to_owned(), "default".to_owned()));
    assert_eq!(
        info["unknown"][0],
        "FERRIBAND_MPI_OPEN_AFTERS is no setting; is FERRIBAND_MPI_OPEN_AFTER meant?"
    );
    assert_eq!(info["functions"]["total"], 664);
    // The library says the same, once for the job.
    let output = hello
        .command(2, &[], &[])
        .env("FERRIBAND_MPI_EAGRE", "1")
        .output()
        .expect("it runs");
    assert_eq!(
        complained(&output),
        "ferriband MPI: FERRIBAND_MPI_EAGRE is no setting; is FERRIBAND_MPI_EAGER meant?\n"
    );
    assert!(output.status.success());
    let shown = said(&run(&["mpi-info", "--functions"]));
    assert!(
        shown.contains("rndv_piece") && shown.contains("  MPI_T_"),
        "{shown}"
    );
}

#[test]
fn directories_and_input_go_to_the_ranks_that_are_to_have_them() {
    let output = run(&[
        "mpirun", "-l", "--wdir", "/", "-n", "2", "pwd", ":", "-n", "1", "--wdir", "/usr", "pwd",
    ]);
    let text = said(&output);
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    assert_eq!(
        lines,
        ["[0] /", "[1] /", "[2] /usr"],
        "{}",
        complained(&output)
    );
    let output = run(&["mpirun", "--wdir", "/there/is/none", "-n", "2", "pwd"]);
    assert_eq!(
        (output.status.code(), said(&output).as_str()),
        (Some(2), "")
    );
    assert!(
        complained(&output).contains("cannot enter /there/is/none"),
        "{}",
        complained(&output)
    );
    let output = run(&["mpirun", "--wdir", "/usr", "-n", "2", "./none"]);
    assert_eq!(output.status.code(), Some(127));
    assert!(
        complained(&output).contains("cannot run /usr/./none: no such program"),
        "{}",
        complained(&output)
    );

    // More than a pipe holds, so that it comes in pieces.
    let words = "what comes from outside\n".repeat(20_000);
    let given = Scratch::file("input");
    std::fs::write(given.path(), &words).expect("written");
    let reads = |who: &str| {
        let output = ferriband(&["mpirun", "-l", "--stdin", who, "-n", "3", "cat"])
            .stdin(std::fs::File::open(given.path()).expect("it is there"))
            .output()
            .expect("ferriband runs");
        assert!(output.status.success(), "{}", complained(&output));
        let text = said(&output);
        [0, 1, 2].map(|rank: u32| {
            let tag = format!("[{rank}] ");
            let own = text.lines().filter_map(|line| line.strip_prefix(&tag));
            own.fold(String::new(), |all, line| all + line + "\n")
        })
    };
    let (nothing, given_to) = ("", words.as_str());
    assert_eq!(reads("none"), [nothing; 3]);
    assert_eq!(reads("1"), [nothing, given_to, nothing]);
    assert_eq!(reads("all"), [given_to; 3]);
}

#[test]
fn ranks_are_bound_to_cores_of_their_own() {
    let allowed = |bind: &str, ranks: usize| {
        let output = run(&[
            "mpirun",
            "--bind",
            bind,
            "-n",
            &ranks.to_string(),
            "grep",
            "Cpus_allowed_list",
            "/proc/self/status",
        ]);
        let text = said(&output);
        let lists: Vec<String> = text.lines().map(str::to_owned).collect();
        assert_eq!(lists.len(), ranks, "{text}{}", complained(&output));
        lists
    };
    let cores = std::thread::available_parallelism().expect("known").get();
    let own: HashSet<String> = allowed("core", cores).into_iter().collect();
    assert_eq!(own.len(), cores, "{own:?}");
    let single = |list: &String| !list.contains(['-', ',']);
    assert!(own.iter().all(single), "{own:?}");
    // Too many for a core each, and unbound ones: where the system likes.
    let all: HashSet<String> = allowed("none", cores).into_iter().collect();
    let crowded: HashSet<String> = allowed("core", cores + 1).into_iter().collect();
    assert_eq!((all.len(), &crowded), (1, &all));
}

#[test]
fn the_compilers_wrapper_shows_what_it_calls_and_links_what_there_is_to_link() {
    let wrapper = |arguments: &[&str]| {
        let output = Command::new(library_dir().join("bin/mpicc"))
            .args(arguments)
            .env("MPICC_CC", "cc")
            .output()
            .expect("mpicc runs");
        assert!(
            output.status.success(),
            "{arguments:?}: {}",
            complained(&output)
        );
        said(&output)
    };
    let lib = library_dir().canonicalize().expect("it is there");
    let (include, link) = (format!("cc -I{}/include", lib.display()), "-lmpi_abi\n");
    let shown = wrapper(&["-show"]);
    assert!(
        shown.starts_with(&include) && shown.ends_with(link),
        "{shown}"
    );
    let shown = wrapper(&["-show", "a.c", "-o", "a"]);
    assert!(
        shown.starts_with(&format!("{include} a.c -o a -L")) && shown.ends_with(link),
        "{shown}"
    );
    assert_eq!(
        wrapper(&["-show", "-c", "a.c"]),
        format!("{include} -c a.c\n")
    );
    assert_eq!(wrapper(&["-compile-info"]), format!("{include}\n"));
    // They ask for the compiler's version: nothing is linked.
    wrapper(&["-v"]);
    assert!(!wrapper(&["--version"]).is_empty());
}

/// The events of a timeline, checked: calls are within their thread's time and one within another, each arrow has two ends, in the order of time, and
/// each end lies within a call. How many calls there are, by name, and how many arrows, by kind.
fn check_timeline(timeline: &Value) -> (HashMap<String, usize>, HashMap<String, usize>) {
    let events = timeline["traceEvents"].as_array().expect("events");
    let number = |event: &Value, key: &str| {
        event[key]
            .as_f64()
            .unwrap_or_else(|| panic!("{key} of {event}"))
    };
    let place = |event: &Value| (number(event, "pid") as u64, number(event, "tid") as u64);
    let mut calls: HashMap<(u64, u64), Vec<(f64, f64)>> = HashMap::new();
    let (mut names, mut arrows) = (HashMap::new(), HashMap::new());
    let (mut begins, mut ends) = (HashMap::new(), HashMap::new());
    for event in events {
        match event["ph"].as_str() {
            Some("X") => {
                let (at, long) = (number(event, "ts"), number(event, "dur"));
                calls.entry(place(event)).or_default().push((at, at + long));
                let name = event["name"].as_str().expect("a name");
                *names.entry(name.to_owned()).or_insert(0) += 1;
            }
            Some("s") => {
                let kind = event["cat"].as_str().expect("a kind");
                *arrows.entry(kind.to_owned()).or_insert(0) += 1;
                assert!(
                    begins.insert(number(event, "id") as u64, event).is_none(),
                    "twice: {event}"
                );
            }
            Some("f") => {
                assert_eq!(event["bp"], "e");
                assert!(
                    ends.insert(number(event, "id") as u64, event).is_none(),
                    "twice: {event}"
                );
            }
            Some("M") => (),
            other => panic!("{other:?} in {event}"),
        }
    }
    assert_eq!(begins.len(), ends.len());
    // A thousandth of a microsecond is a step of the numbers.
    let near = 0.0011;
    for (id, begin) in begins {
        let end = ends[&id];
        assert!(number(begin, "ts") <= number(end, "ts"), "{begin} {end}");
        for one in [begin, end] {
            let at = number(one, "ts");
            let within = calls[&place(one)]
                .iter()
                .any(|(from, to)| *from - near <= at && at <= *to + near);
            assert!(within, "outside of any call: {one}");
        }
    }
    for spans in calls.values_mut() {
        spans.sort_by(|a, b| a.partial_cmp(b).expect("numbers"));
        let mut open: Vec<f64> = Vec::new();
        for (from, to) in spans {
            while open.last().is_some_and(|end| *end <= *from + near) {
                open.pop();
            }
            assert!(
                open.last().is_none_or(|end| *to <= *end + near),
                "calls overlap at {from}"
            );
            open.push(*to);
        }
    }
    (names, arrows)
}

#[test]
fn a_trace_shows_each_call_and_each_message_from_its_sender_to_its_receiver() {
    let program = Program::new("launched");
    let path = program.0.to_str().expect("a path");
    let (json, html) = (Scratch::file("trace.json"), Scratch::file("trace.html"));
    let mut line = vec![
        "trace",
        "-o",
        json.text(),
        "--html",
        html.text(),
        "--json",
        "--",
    ];
    line.extend(["mpirun", "-n", "3", path]);
    let output = run(&line);
    assert!(output.status.success(), "{}", complained(&output));
    let text = said(&output);
    let (job, report) = text
        .split_once('\n')
        .expect("what the job said, then the report");
    assert_eq!(job, "launched: 3 ranks: ok");
    let report: Value = serde_json::from_str(report).expect("JSON");
    let (names, arrows) = check_timeline(&json_of(&json));
    assert_eq!(names["MPI_Init"], 3);
    assert_eq!(names["MPI_Finalize"], 3);
    assert_eq!(
        names["MPI_Sendrecv"], 18,
        "three to each of three, short and long"
    );
    assert_eq!(names["MPI_Allreduce"], 3);
    assert_eq!(arrows["message"], 12, "those to oneself do not travel");
    assert_eq!(report["processes"], 3);
    assert_eq!(report["messages_with_one_end"], 0);
    assert_eq!(report["calls_without_end"], 0);
    let lines = report["functions"].as_array().expect("lines");
    let sends = lines
        .iter()
        .find(|line| line["name"] == "MPI_Sendrecv")
        .expect("a line");
    let quantiles: Vec<u64> = sends["quantiles_ns"]
        .as_array()
        .expect("quantiles")
        .iter()
        .map(|ns| ns.as_u64().expect("a number"))
        .collect();
    assert_eq!((sends["count"].as_u64(), quantiles.len()), (Some(18), 8));
    assert!(
        quantiles.is_sorted() && quantiles[0] >= sends["minimum_ns"].as_u64().expect("a number")
    );
    let page = std::fs::read_to_string(html.path()).expect("it was written");
    assert!(page.starts_with("<!DOCTYPE html>") && page.contains("\"MPI_Sendrecv\""));
    assert!(!page.contains("http"), "it needs nothing else");
}

#[test]
fn a_trace_has_calls_that_may_be_made_at_any_time_and_the_one_that_it_begins_with() {
    let program = Program::new("traced");
    let path = program.0.to_str().expect("a path");
    let json = Scratch::file("traced.json");
    let line = ["trace", "-o", json.text(), "--", "mpirun", "-n", "2", path];
    let output = run(&line);
    assert!(output.status.success(), "{}", complained(&output));
    let (names, _) = check_timeline(&json_of(&json));
    for name in [
        "MPI_Session_init",
        "MPI_Init",
        "MPI_Initialized",
        "MPI_Wtime",
        "MPI_Alloc_mem",
        "MPI_Free_mem",
        "MPI_Status_set_cancelled",
        "MPI_Test_cancelled",
        "MPI_Session_finalize",
        "MPI_Finalize",
    ] {
        assert_eq!(names.get(name), Some(&2), "{name}");
    }
}

#[test]
fn barriers_go_by_the_algorithm_that_is_chosen() {
    let program = Program::new("barriers");
    let path = program.0.to_str().expect("a path");
    let messages = |how: &str| {
        let json = Scratch::file("barriers.json");
        let setting = format!("coll=barrier={how}");
        let mpirun = ["mpirun", "-n", "4", "--set", &setting, path];
        let line = [&["trace", "-o", json.text(), "--"], &mpirun[..]].concat();
        let output = run(&line);
        assert!(output.status.success(), "{}", complained(&output));
        let (names, arrows) = check_timeline(&json_of(&json));
        assert_eq!(names["MPI_Barrier"], 40);
        arrows.into_values().sum::<usize>()
    };
    // of four ranks: each with two others; all to the first one, and back
    let [pairwise, dissemination, linear] = ["pairwise", "dissemination", "linear"].map(messages);
    assert_eq!((pairwise, pairwise - linear), (dissemination, 10 * (8 - 6)));
}

#[test]
fn a_killed_rank_leaves_its_part_of_the_trace() {
    let program = Program::new("launched");
    let path = program.0.to_str().expect("a path");
    let json = Scratch::file("killed.json");
    let scratch = Scratch::directory("trace");
    let mut line = vec!["trace", "-o", json.text(), "--"];
    line.extend(["mpirun", "-n", "3", path, "kill"]);
    let output = ferriband(&line)
        .env("TMPDIR", scratch.path())
        .output()
        .expect("it runs");
    std::fs::remove_dir(scratch.path()).expect("the ranks' files are gone");
    assert_eq!(output.status.code(), Some(137), "{}", complained(&output));
    let timeline = json_of(&json);
    let (names, _) = check_timeline(&timeline);
    assert_eq!(names["MPI_Sendrecv"], 18, "all three had come so far");
    assert_eq!(names.get("MPI_Finalize"), None);
    let events = timeline["traceEvents"].as_array().expect("events");
    let ranks: HashSet<u64> = events
        .iter()
        .filter_map(|event| event["pid"].as_u64())
        .collect();
    assert_eq!(ranks.len(), 3);
    // A ring that is too short keeps the latest.
    let mut line = vec!["trace", "-o", json.text(), "--events", "20", "--", "mpirun"];
    line.extend(["-n", "2", path]);
    let output = run(&line);
    assert!(
        said(&output).contains("events were written over"),
        "{}",
        said(&output)
    );
    let names = names_of(&json_of(&json));
    assert!(names.contains_key("MPI_Finalize"), "{names:?}");
}

/// How many calls there are, by name: a part of a timeline need not hold together.
fn names_of(timeline: &Value) -> HashMap<String, usize> {
    let events = timeline["traceEvents"].as_array().expect("events");
    let mut names = HashMap::new();
    for event in events.iter().filter(|event| event["ph"] == "X") {
        *names
            .entry(event["name"].as_str().expect("a name").to_owned())
            .or_insert(0) += 1;
    }
    names
}

#[test]
fn a_program_without_our_mpi_has_no_trace() {
    let json = Scratch::file("none.json");
    let output = run(&[
        "trace",
        "-o",
        json.text(),
        "--",
        "mpirun",
        "-n",
        "1",
        "true",
    ]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        complained(&output).contains("no process has written a trace"),
        "{}",
        complained(&output)
    );
    let elsewhere = run(&[
        "trace",
        "--merge",
        env!("CARGO_MANIFEST_DIR"),
        "-o",
        json.text(),
    ]);
    assert!(
        said(&elsewhere).contains("0 processes, 0 calls"),
        "{}",
        complained(&elsewhere)
    );
}

#[test]
fn what_is_said_of_fortran_is_kept_and_handles_have_numbers() {
    for name in ["fortran", "numbers"] {
        let program = Program::new(name);
        for ranks in [1, 2] {
            let said = program.succeeds(ranks, &[]);
            assert_eq!(said, format!("{name}: {ranks} ranks: ok\n"));
        }
    }
}

#[test]
fn communicators_begin_with_the_error_handler_that_the_launcher_names() {
    let program = Program::new("initial");
    for (options, handlers) in [
        (&[][..], "fatal fatal fatal"),
        (
            &["-initial-errhandler", "mpi_errors_return"],
            "return return return",
        ),
        (
            &["--set", "initial_errhandler=mpi_errors_abort"],
            "abort abort abort",
        ),
    ] {
        let said = program.succeeds(2, options);
        assert_eq!(said, format!("{handlers}\ninitial: 2 ranks: ok\n"));
    }
    let outside = Program::new("outside");
    let said = outside.succeeds(2, &["-initial-errhandler", "mpi_errors_return"]);
    assert_eq!(said, "outside: 2 ranks: ok\n");
    for handler in ["mpi_errors_are_fatal", "mpi_errors_abort"] {
        let output = outside.run(1, &["-initial-errhandler", handler], &["before"]);
        assert!(!output.status.success());
        let words = "MPI_Barrier: MPI_ERR_OTHER: ";
        assert!(complained(&output).contains(words), "{output:?}");
        assert!(complained(&output).contains("called before MPI_Init"));
    }
    let wrong = program.run(2, &["--initial-errhandler", "none"], &[]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(
        complained(&wrong).contains("mpi_errors_are_fatal or mpi_errors_abort or"),
        "{}",
        complained(&wrong)
    );
    // What the launcher is told, it knows when a rank dies: the others may go on.
    let fails = Program::new("fails");
    let output = fails.run(4, &["--initial-errhandler", "mpi_errors_return"], &["kill"]);
    assert!(
        complained(&output).contains("the other ranks go on"),
        "{}",
        complained(&output)
    );
}
