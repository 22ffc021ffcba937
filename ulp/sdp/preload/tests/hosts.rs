//! Connections between two hosts, which are two network namespaces, by queue pairs: programs that
//! are preloaded at both ends print what they print by TCP, and their bytes go by queue pairs; in
//! the middle of it the server executes itself or another, forks, or dies, and the adapter loses
//! all packets. On one host they do so where the setting same_host says verbs. What carries a
//! connection, and why it is TCP, is as `ferriband sdp status` says. Where the system allows no
//! namespaces, the tests say so.

mod two;

use ferriband_testkit::{ferriband, library_dir};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use two::{Runs, USERS, by_tcp, may_be_others, may_have_hosts};
use two::{program, run, run_here, scratch, source};

const RANGES: &str = "FERRIBAND_SDP_RANGES=192.0.2.0/24 FERRIBAND_SDP_AFTER_EXCHANGES=1";

#[test]
fn bytes_go_by_queue_pairs_with_each_flow_control() {
    if !may_have_hosts() {
        return;
    }
    for flow in ["nic", "ring", "credit"] {
        for mode in ["blocking", "epoll"] {
            let settings = format!("{RANGES} FERRIBAND_SDP_FLOW={flow}");
            let run = run(mode, 6000, &settings, true);
            assert_eq!(run.upgraded, 2, "{flow} {mode}: {}", run.said);
            let by_tcp = by_tcp(&run.said);
            // an adapter that a busy machine keeps from answering is left for TCP
            assert!(by_tcp < 50, "{flow} {mode}: {by_tcp} %");
        }
    }
}

#[test]
fn a_program_that_sends_all_before_it_reads_goes_on() {
    if may_have_hosts() {
        by_tcp(&run("stream", 6000, RANGES, true).said);
    }
}

#[test]
fn hosts_that_are_not_listed_and_one_side_alone_stay_tcp() {
    if !may_have_hosts() {
        return;
    }
    for settings in ["", "FERRIBAND_SDP_RANGES=198.51.100.0/24"] {
        let run = run("blocking", 2000, settings, false);
        assert_eq!((run.upgraded, by_tcp(&run.said)), (0, 100));
    }
}

#[test]
fn a_server_that_executes_another_program_or_forks_goes_on_by_tcp() {
    if !may_have_hosts() {
        return;
    }
    for mode in ["exec", "plain", "fork"] {
        let run = run(mode, 6000, RANGES, true);
        assert!(run.upgraded >= 1, "{mode}: {}", run.said);
        assert!(by_tcp(&run.said) > 10, "{mode}: {}", run.said);
    }
}

#[test]
fn a_server_that_is_killed_resets_the_connection() {
    if may_have_hosts() {
        let run = run("die", 6000, RANGES, true);
        run.tells_of_death();
    }
}

#[test]
fn an_adapter_that_loses_all_packets_is_left_for_tcp() {
    if may_have_hosts() {
        let half = format!("{} fault add drop --device ferri_eth0", ferriband());
        let run = two_hosts("half", RANGES, true, &half).run();
        assert_eq!(run.upgraded, 2, "{}", run.said);
        let (half, rest) = run.said.split_once('\n').expect("lines");
        assert_eq!(half, "half");
        assert!(by_tcp(rest) > 10, "{}", run.said);
    }
}

const HERE: &str = "FERRIBAND_SDP_SAME_HOST=verbs FERRIBAND_SDP_AFTER_EXCHANGES=1";

#[test]
fn on_one_host_bytes_go_by_queue_pairs_where_it_is_set() {
    if !may_have_hosts() {
        return;
    }
    for (address, flow) in [
        ("127.0.0.1", "nic"),
        ("127.0.0.1", "credit"),
        ("192.0.2.1", "ring"),
    ] {
        let settings = format!("{HERE} FERRIBAND_SDP_FLOW={flow}");
        let run = run_here(address, "epoll", 3000, [&settings; 2], true);
        assert_eq!(run.upgraded, 2, "{address} {flow}: {}", run.said);
        assert!(by_tcp(&run.said) < 50, "{address} {flow}: {}", run.said);
    }
}

#[test]
fn on_one_host_a_client_alone_that_wants_queue_pairs_stays_tcp() {
    if may_have_hosts() {
        let local = "FERRIBAND_SDP_AFTER_EXCHANGES=1";
        let run = run_here("127.0.0.1", "blocking", 2000, [local, HERE], false);
        assert_eq!((run.upgraded, by_tcp(&run.said)), (0, 100));
    }
}

#[test]
fn a_server_reads_the_end_of_clients_that_close() {
    if !may_have_hosts() {
        return;
    }
    let there = run("closes", 30, RANGES, true);
    let here = run_here("127.0.0.1", "closes", 30, [HERE; 2], true);
    for run in [there, here] {
        assert_eq!(run.upgraded, 2, "{}", run.said);
        assert!(by_tcp(&run.said) < 50, "{}", run.said);
    }
}

#[test]
fn programs_that_fork_while_the_adapter_is_opened_go_on() {
    if may_have_hosts() {
        by_tcp(&run("forks", 2000, RANGES, false).said);
        by_tcp(&run_here("127.0.0.1", "forks", 2000, [HERE; 2], false).said);
    }
}

#[test]
fn tcp_is_kept_alive_beside_queue_pairs_unless_the_program_has_set_it() {
    if may_have_hosts() {
        let run = run("alive", 200, RANGES, true);
        assert_eq!(run.upgraded, 2, "{}", run.said);
        by_tcp(&run.said);
    }
}

fn two_hosts<'a>(mode: &'a str, settings: &'a str, is_taken_over: bool, half: &'a str) -> Runs<'a> {
    Runs {
        script: "two_hosts.sh",
        address: "192.0.2.2",
        mode,
        rounds: 6000,
        sides: [settings; 2],
        is_taken_over,
        half,
    }
}

/// What `ferriband sdp status` says of the connections at the client's host while both programs
/// are in the middle, once no peer is waited for.
fn connections(runs: Runs<'_>) -> Vec<Value> {
    let said = scratch("status");
    let half = format!(
        "for try in $(seq 40); do {} sdp status --json > {said}; \
         grep -q '\"asked\"' {said} || break; sleep 0.5; done",
        ferriband(),
        said = said.display()
    );
    let runs = Runs {
        mode: "half",
        half: &half,
        ..runs
    };
    assert!(runs.run().said.contains("all came back"));
    connections_of(&said)
}

/// The connections in what was written to a file, which goes.
fn connections_of(said: &Path) -> Vec<Value> {
    let status = fs::read_to_string(said).expect("a status");
    let _ = fs::remove_file(said);
    let mut status: Value = serde_json::from_str(&status).expect("JSON");
    let processes = status["processes"].as_array_mut().expect("processes");
    let connections = processes.iter_mut().map(|one| one["connections"].take());
    let connections = connections.flat_map(|all| all.as_array().cloned().expect("a list"));
    connections.collect()
}

#[test]
fn status_tells_queue_pairs_from_rings() {
    if !may_have_hosts() {
        return;
    }
    let early = "FERRIBAND_SDP_AFTER_EXCHANGES=1";
    let by = |flow| format!("{HERE} FERRIBAND_SDP_FLOW={flow}");
    for (settings, transport, flow) in [
        (early.to_owned(), "local", Value::Null),
        (by("credit"), "verbs", "credit".into()),
        (by("ring"), "verbs", "ring".into()),
        (by("nic"), "verbs", "nic".into()),
    ] {
        let runs = Runs {
            script: "one_host.sh",
            address: "127.0.0.1",
            rounds: 200,
            ..two_hosts("half", &settings, true, "")
        };
        let connections = connections(runs);
        assert_eq!(connections.len(), 2, "{connections:#?}");
        for one in connections {
            assert_eq!(one["transport"], transport, "{one:#}");
            assert_eq!(one["flow_control"], flow, "{one:#}");
            assert_eq!(one["out"]["carried_by"], "sdp", "{one:#}");
            assert_eq!(one["reason"], Value::Null, "{one:#}");
        }
    }
}

#[test]
fn status_says_why_a_connection_to_another_host_is_tcp() {
    if !may_have_hosts() {
        return;
    }
    let early = "FERRIBAND_SDP_AFTER_EXCHANGES=1";
    let elsewhere = format!("{early} FERRIBAND_SDP_RANGES=198.51.100.0/24");
    let nobody_there = format!("{RANGES} FERRIBAND_VERBS=/nonexistent");
    for (server, client, reason) in [
        (early, early, "elsewhere"),
        (RANGES, &elsewhere, "not_listed"),
        (early, RANGES, "no_host_answers"),
        (&elsewhere, RANGES, "not_listed_there"),
        (RANGES, &nobody_there, "no_adapter"),
    ] {
        let runs = Runs {
            sides: [server, client],
            rounds: 200,
            ..two_hosts("half", "", false, "")
        };
        let connections = connections(runs);
        let reasons: Vec<_> = connections.iter().map(|one| &one["reason"]).collect();
        assert_eq!(reasons, [reason], "{connections:#?}");
        assert_eq!(connections[0]["transport"], "tcp");
    }
}

#[test]
fn on_one_host_the_connection_of_two_users_stays_tcp() {
    if !may_be_others() {
        eprintln!("SKIP: only root has two users at hand");
        return;
    }
    let place = std::env::temp_dir().join(format!("ferriband-here-{}", std::process::id()));
    fs::create_dir(&place).expect("a new directory");
    let for_all = |path: &Path| {
        let mode = fs::Permissions::from_mode(0o755);
        fs::set_permissions(path, mode).expect("our own");
    };
    for_all(&place);
    let built = fs::read_dir(library_dir()).expect("libraries");
    let built = built.map(|entry| entry.expect("an entry").path());
    let files = built.filter(|path| path.is_file());
    for from in files.chain([program().to_owned()]) {
        let to = place.join(from.file_name().expect("a file"));
        fs::copy(&from, &to).expect("room");
        for_all(&to);
    }
    let at = place.display();
    let name = program().file_name().expect("a file").display();
    let [server, client] = USERS.map(|user| {
        format!(
            "exec setpriv --reuid {user} --regid {user} --clear-groups env \
             LD_PRELOAD={at}/libferriband_sdp.so FERRIBAND_SDP_SETTINGS= {HERE} {at}/{name}"
        )
    });
    let said = scratch("status");
    let half = format!("{} sdp status --json > {}", ferriband(), said.display());
    let output = Command::new("timeout")
        .args(["--kill-after", "5", "120", "unshare", "--net", "--", "sh"])
        .arg(source("one_host.sh"))
        .env("SERVER", format!("{server} server 17080 half 200"))
        .env(
            "CLIENT",
            format!("{client} client 127.0.0.1 17080 half 200"),
        )
        .env("HALF", half)
        .output()
        .expect("a shell");
    let _ = fs::remove_dir_all(&place);
    let told = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        told.ends_with("all came back, 100% by tcp\n"),
        "{told}{errors}"
    );
    let connections = connections_of(&said);
    let reasons: Vec<_> = connections.iter().map(|one| &one["reason"]).collect();
    assert!(
        reasons.contains(&&Value::from("other_user")),
        "{connections:#?}"
    );
}
