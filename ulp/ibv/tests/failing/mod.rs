//! The libraries of verbs that fail one call, and programs that run over them with each call
//! failing in turn.

mod library;

use ferriband_testkit::{Cc, Place};
pub use library::libraries;
use library::sources;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

/// What any program calls that makes a connection, at either of its sides.
const ALWAYS: [&str; 23] = [
    "rdma_create_event_channel",
    "rdma_create_id",
    "rdma_destroy_id",
    "rdma_bind_addr",
    "rdma_listen",
    "rdma_get_devices",
    "rdma_init_qp_attr",
    "rdma_get_cm_event",
    "rdma_ack_cm_event",
    "ibv_alloc_pd",
    "ibv_dealloc_pd",
    "ibv_create_comp_channel",
    "ibv_destroy_comp_channel",
    "ibv_reg_mr",
    "ibv_dereg_mr",
    "ibv_create_cq",
    "ibv_destroy_cq",
    "ibv_create_qp",
    "ibv_modify_qp",
    "ibv_destroy_qp",
    "ibv_req_notify_cq",
    "ibv_post_send",
    "ibv_post_recv",
];
/// What is called at one side or at the other, as it comes: who asks for the connection, and who
/// sleeps.
const AT_TIMES: [&str; 8] = [
    "rdma_resolve_addr",
    "rdma_resolve_route",
    "rdma_connect",
    "rdma_accept",
    "rdma_establish",
    "rdma_disconnect",
    "ibv_poll_cq",
    "ibv_get_cq_event",
];
/// Which call of each function fails in each run of `cargo test`; if [`ALL`] is set, each call
/// whatsoever, too.
const TIMES: [usize; 2] = [1, 4];
/// Set, it lets each call fail in turn.
const ALL: &str = "FERRIBAND_TEST_EACH_CALL";
/// More calls than any of the programs makes.
const MOST: usize = 2000;
/// A program that takes longer hangs.
const SECONDS: &str = "100";
/// Programs that run at a time: they wait most of it.
const PARALLEL: usize = 4;

/// Compiles `tests/c/failing.c` against a library of ours, and against `arm.h`.
pub fn program(place: Place, library: &str) -> PathBuf {
    let name = format!("{}-failing", env!("CARGO_PKG_NAME"));
    let fresh = format!("{name}.{:?}", thread::current().id());
    let fresh = Cc::new(place, "failing", &fresh)
        .options(["-O2"])
        .options([Path::new("-I"), &sources()])
        .on_libraries()
        .links([library, "-lpthread", "-ldl"])
        .compile();
    let program = place.out(&name);
    std::fs::rename(&fresh, &program).expect("moved");
    program
}

/// Runs a program over the failing libraries.
pub fn run(
    program: &Path,
    words: &[&str],
    failing: &Path,
    real: &Path,
    variables: &[(&str, &str)],
) -> Output {
    Command::new("timeout")
        .args(["-k", "5", SECONDS])
        .arg(program)
        .args(words)
        .env("FERRIBAND_VERBS", failing.join("libibverbs.so.1"))
        .env("FAILING_REAL", real)
        .env("LD_LIBRARY_PATH", real)
        .envs(variables.iter().copied())
        .output()
        .expect("it starts")
}

/// A program's run: the side that fails, which call, of which function or of any.
struct Case {
    side: &'static str,
    call: usize,
    function: Option<&'static str>,
}

/// Runs a program with calls failing at each of its two sides, and demands that it ends well. It
/// says which call has failed, or `none`.
pub fn each_call_fails(program: &Path, failing: &Path, real: &Path) {
    let most = std::env::var_os(ALL).map_or(0, |_| MOST);
    let mut cases = Vec::new();
    for side in ["0", "1"] {
        let of_each = ALWAYS.into_iter().chain(AT_TIMES);
        let of_each = of_each.flat_map(|name| TIMES.map(|call| (call, Some(name))));
        let of_all = (1..=most).map(|call| (call, None));
        let both = of_each.chain(of_all);
        cases.extend(both.map(|(call, function)| Case {
            side,
            call,
            function,
        }));
    }
    let next = AtomicUsize::new(0);
    // no call of this number: of the first side, of the second
    let last = [AtomicUsize::new(MOST), AtomicUsize::new(MOST)];
    let (seen, wrong) = (Mutex::new(BTreeSet::new()), Mutex::new(Vec::new()));
    let look = || {
        while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
            let Case {
                side,
                call,
                function,
            } = case;
            let last = &last[usize::from(*side == "1")];
            if function.is_none() && *call > last.load(Ordering::Relaxed) {
                continue;
            }
            let (number, mut words) = (call.to_string(), vec![*side]);
            words.push(&number);
            words.extend(function);
            let output = run(program, &words, failing, real, &[]);
            let name = String::from_utf8_lossy(&output.stdout).trim().to_owned();
            if function.is_none() && name == "none" {
                last.fetch_min(*call, Ordering::Relaxed);
            }
            let said = String::from_utf8_lossy(&output.stderr);
            // what the library says names the call
            let is_told = |line: &str| line.starts_with("ferriband ") && line.contains(&name);
            if !output.status.success() || !said.lines().all(is_told) {
                let what = format!("{words:?} ({name}): {}: {said}", output.status);
                let mut wrong = wrong.lock().unwrap_or_else(PoisonError::into_inner);
                wrong.push(what);
            }
            let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
            seen.insert(name);
        }
    };
    thread::scope(|scope| (0..PARALLEL).for_each(|_| drop(scope.spawn(look))));
    let wrong = wrong.into_inner().unwrap_or_else(PoisonError::into_inner);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let seen = seen.into_inner().unwrap_or_else(PoisonError::into_inner);
    for name in ALWAYS {
        assert!(seen.contains(name), "{name} did not fail: {seen:?}");
    }
}
