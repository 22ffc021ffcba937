//! Sockets of AF_INET_SDP, over Ferriband's own adapter: what a C program does with them, and Java
//! and others that were written for such sockets. Without the library, or without an adapter, the
//! family is not there.

mod two;

use ferriband_testkit::{Cc, library};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;
use two::{scratch, source};

fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        Cc::of(source("inet_sdp.c"), scratch("inet-sdp"))
            .options(["-O2", "-D_FORTIFY_SOURCE=2"])
            .compile()
    })
}

fn preloaded(program: &Path) -> Command {
    let mut command = Command::new("timeout");
    command
        .args(["--kill-after=1", "100"])
        .arg(program)
        .env("LC_ALL", "C")
        .env("LD_PRELOAD", library("libferriband_sdp.so"))
        .env("FERRIBAND_SDP_SETTINGS", "");
    command
}

fn says(output: &Output, expected: &str) {
    let said = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {said}{errors}", output.status);
    assert_eq!((&*said, &*errors), (expected, ""));
}

/// Runs the program in a mode.
fn does(mode: &str, expected: &str) {
    let output = preloaded(program()).arg(mode).output();
    says(&output.expect("timeout runs"), &format!("{expected}\n"));
}

#[test]
fn names_and_bytes_are_those_of_the_connection() {
    does("echo", "200 echoes");
}

#[test]
fn both_directions_carry_much_at_once_also_for_children() {
    does("much", "8 MiB each way");
}

#[test]
fn a_stream_that_has_ended_is_answered() {
    does("half", "an answer after the end");
}

#[test]
fn a_reset_and_a_death_are_told_as_resets() {
    does("reset", "reset, and killed");
}

#[test]
fn a_connection_comes_later_where_connect_does_not_wait() {
    does("later", "connected later");
}

#[test]
fn who_is_refused_is_told_so_and_never_gets_tcp() {
    does("refused", "refused");
}

#[test]
fn a_port_is_taken_until_its_last_number_was_closed() {
    does("bound", "bound");
}

#[test]
fn a_stranger_at_the_loopback_port_never_reaches_the_program() {
    does("stranger", "no stranger");
}

#[test]
fn an_epoll_instance_tells_of_what_can_be_accepted() {
    does("watched", "three accepted");
}

#[test]
fn a_reader_that_waits_holds_the_writer_up() {
    does("full", "held up");
}

#[test]
fn a_program_that_ends_has_sent_everything() {
    does("ends", "all came");
}

#[test]
fn children_accept_by_turns() {
    does("children", "six by two");
}

#[test]
fn without_the_library_or_an_adapter_there_is_no_such_family() {
    let plain = Command::new(program()).arg("none").output();
    says(&plain.expect("it runs"), "no such family\n");
    let mut without = preloaded(program());
    without.env("FERRIBAND_VERBS", "/nowhere/libibverbs.so.1");
    let output = without.arg("none").output().expect("timeout runs");
    says(&output, "no such family\n");
}

#[test]
fn a_program_that_makes_none_opens_no_adapter() {
    let mut command = preloaded(Path::new("cat"));
    let output = command.arg("/proc/self/maps").output().expect("cat runs");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("libferriband_sdp.so"), "{said}");
    assert!(!said.contains("libibverbs"), "{said}");
}
