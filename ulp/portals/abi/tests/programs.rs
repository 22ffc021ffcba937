//! Programs in C that are written to `portals4.h`, on Ferriband's own adapter.

#[path = "../../../ibv/tests/failing/mod.rs"]
mod failing;

use ferriband_testkit::{Cc, library_dir, place};
use std::path::PathBuf;
use std::process::Command;

/// Compiles a program of `tests/c`, and runs it.
fn runs_well(name: &str, words: &[&str]) {
    runs_well_with(name, words, &[]);
}

/// The variables that choose how memory is registered.
const WAYS: [(&str, &str); 3] = [
    ("FERRIBAND_PUTGET_REGCACHE", "odp"),
    ("FERRIBAND_PUTGET_REGCACHE", "uffd"),
    ("FERRIBAND_PUTGET_REGCACHE", "none"),
];

/// Compiles a program of `tests/c`, and runs it with these variables. What it says on stderr.
fn runs_well_with(name: &str, words: &[&str], variables: &[(&str, &str)]) -> String {
    // tests run side by side: each has its own
    let values: Vec<&str> = variables.iter().map(|(_, value)| *value).collect();
    let program = format!("portals-{name}-{}-{}", words.join("-"), values.join("-"));
    let program = Cc::new(place!(), name, &program)
        .options(["-O2"])
        .on_libraries()
        .links(["-lportals", "-lpthread"])
        .compile();
    let output = Command::new("timeout")
        .arg("60")
        .arg(&program)
        .args(words)
        .env("LD_LIBRARY_PATH", library_dir())
        .envs(variables.iter().copied())
        .output()
        .expect("it starts");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{}: {said}", output.status);
    assert_eq!(output.stdout, b"ok\n");
    said
}

#[test]
fn an_interface_that_cannot_be_opened_says_why() {
    let said = runs_well_with(
        "refused",
        &[],
        &[("FERRIBAND_PUTGET_PUT_CROSSOVER", "never")],
    );
    assert!(said.starts_with("ferriband Portals: PtlNIInit: "), "{said}");
    assert!(said.contains("FERRIBAND_PUTGET_PUT_CROSSOVER"), "{said}");
}

#[test]
fn two_processes_put_get_match_and_trigger() {
    runs_well("pair", &[]);
}

#[test]
fn a_wait_for_a_counter_returns_it_as_it_was_reached() {
    runs_well("edges", &["counts"]);
}

#[test]
fn who_leaves_serves_peers_that_come_late() {
    runs_well("edges", &["late"]);
}

#[test]
fn a_call_waits_where_as_much_as_can_be_is_under_way() {
    runs_well("edges", &["many"]);
}

#[test]
fn memory_that_is_not_there_is_segv_for_who_asks() {
    runs_well("edges", &["holes"]);
}

#[test]
fn memory_of_a_descriptor_that_is_not_there_is_segv_and_the_connection_stays() {
    runs_well("edges", &["wrong"]);
}

#[test]
fn a_forked_child_finds_portals_as_before_its_first_call() {
    runs_well("edges", &["forks"]);
}

#[test]
fn a_program_that_asks_for_a_counter_is_served_by_its_own_calls() {
    runs_well("edges", &["asks"]);
}

#[test]
fn memory_is_reached_whichever_way_it_is_registered() {
    for way in WAYS {
        runs_well_with("pair", &[], &[way]);
        runs_well_with("edges", &["holes"], &[way]);
        runs_well_with("faults", &["19"], &[way]);
    }
}

#[test]
fn fault_2_no_more_is_volatile_than_is_kept() {
    runs_well("faults", &["2"]);
}

#[test]
fn fault_1_of_shmem_a_broadcast_of_large_volatile_puts_ends() {
    runs_well("faults", &["shmem-1"]);
}

#[test]
fn fault_62_no_atomic_operation_is_lost() {
    runs_well("faults", &["62"]);
}

#[test]
fn fault_49_each_of_four_interfaces_gets_what_is_its_own() {
    runs_well("faults", &["49"]);
}

#[test]
fn fault_19_messages_over_64_kib_are_whole() {
    runs_well("faults", &["19"]);
}

#[test]
fn fault_47_many_peers_are_served() {
    runs_well("faults", &["47"]);
}

#[test]
fn fault_48_flow_control_goes_on_after_each_recovery() {
    runs_well("faults", &["48"]);
}

#[test]
fn entries_are_reached_by_their_initiators_counted_and_taken_away_under_fire() {
    runs_well("heap", &[]);
}

/// The program of `tests/c/failing.c`, and the failing libraries.
fn failing_program() -> Option<(PathBuf, PathBuf)> {
    let failing = failing::libraries(place!())?;
    let program = failing::program(place!(), "-lportals");
    Some((program, failing))
}

#[test]
fn whichever_call_of_verbs_fails_each_operation_ends_and_the_next_life_is_good() {
    let Some((program, failing)) = failing_program() else {
        return;
    };
    failing::each_call_fails(&program, &failing, library_dir());
}

#[test]
fn settings_choose_which_operations_go_in_messages() {
    let Some((program, failing)) = failing_program() else {
        return;
    };
    let put = |bytes| ("FERRIBAND_PUTGET_PUT_CROSSOVER", bytes);
    let get = |bytes| ("FERRIBAND_PUTGET_GET_CROSSOVER", bytes);
    for (length, settings, reads_and_writes) in [
        ("1000", vec![], "0 0"),
        ("1000", vec![put("100")], "1 0"),
        ("1000", vec![get("100")], "0 1"),
        // longer than what any adapter is shipped with
        ("20000", vec![], "1 1"),
        ("20000", vec![put("24K"), get("24K")], "0 0"),
        // what is ordered goes in messages whatever is set
        ("64", vec![put("0"), get("0")], "0 0"),
    ] {
        let words = ["paths", length];
        let output = failing::run(&program, &words, &failing, library_dir(), &settings);
        let said = String::from_utf8_lossy(&output.stdout);
        assert_eq!(said.trim(), reads_and_writes, "{length} {settings:?}");
        assert!(output.status.success());
    }
}

#[test]
fn a_stopped_peer_is_waited_for_and_one_whose_host_is_gone_is_undeliverable() {
    let Some((program, failing)) = failing_program() else {
        return;
    };
    let output = failing::run(&program, &["stopped"], &failing, library_dir(), &[]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {said}", output.status);
    assert_eq!(output.stdout, b"ok\n");
}
