//! Programs in two network namespaces of one host, as in two containers: with a directory that both
//! see they go by shared memory, and print what they print by TCP; in the middle of it the server
//! executes itself or another, forks, or dies. Where the system allows no namespaces, or its kernel
//! gives them no numbers, the tests say so.

mod two;

use ferriband_testkit::library;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use two::{Run, USERS, by_tcp, may_be_others, may_have_hosts, scratch};

/// A directory of a test, which is removed with it.
struct Shared(PathBuf);

impl Shared {
    fn new() -> Self {
        let path = scratch("meet");
        fs::create_dir(&path).expect("a new directory");
        Self(path)
    }

    fn names(&self) -> usize {
        fs::read_dir(&self.0).expect("it is there").count()
    }

    fn run(&self, mode: &str) -> Run {
        let settings = format!("FERRIBAND_SDP_MEET={}", self.0.display());
        two::run(mode, 6000, &settings, true)
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// NS_GET_ID, of which the proof is made.
fn may_meet() -> bool {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let mut numbers = release
        .split(['.', '-'])
        .map(|number| number.parse().unwrap_or(0));
    let version: [u32; 2] = [(); 2].map(|()| numbers.next().unwrap_or(0));
    if version < [6, 18] {
        eprintln!("SKIP: Linux {release} gives network namespaces no numbers");
        return false;
    }
    may_have_hosts()
}

#[test]
fn bytes_go_by_shared_memory() {
    if !may_meet() {
        return;
    }
    for mode in ["blocking", "epoll"] {
        let shared = Shared::new();
        let run = shared.run(mode);
        assert_eq!(run.upgraded, 2, "{mode}: {}", run.said);
        assert!(by_tcp(&run.said) < 50, "{mode}: {}", run.said);
        assert!(shared.names() < 3, "each removes its own where it can");
    }
}

#[test]
fn a_program_that_sends_all_before_it_reads_goes_on() {
    if may_meet() {
        by_tcp(&Shared::new().run("stream").said);
    }
}

#[test]
fn without_a_directory_that_both_see_they_stay_tcp() {
    if !may_meet() {
        return;
    }
    let missing = scratch("missing");
    let settings = format!("FERRIBAND_SDP_MEET={}", missing.display());
    for settings in ["", &settings] {
        let run = two::run("blocking", 2000, settings, false);
        assert_eq!((run.upgraded, by_tcp(&run.said)), (0, 100));
    }
}

#[test]
fn a_server_that_executes_another_program_or_forks_goes_on() {
    if !may_meet() {
        return;
    }
    for mode in ["exec", "plain", "fork"] {
        let run = Shared::new().run(mode);
        assert!(run.upgraded >= 1, "{mode}: {}", run.said);
        by_tcp(&run.said);
    }
}

#[test]
fn a_server_that_is_killed_resets_the_connection_and_its_names_go_with_the_next() {
    if !may_meet() {
        return;
    }
    let shared = Shared::new();
    let run = shared.run("die");
    run.tells_of_death();
    assert!(shared.names() >= 2, "the dead server's");
    let run = shared.run("blocking");
    assert_eq!(run.upgraded, 2, "{}", run.said);
    assert!(shared.names() < 3, "the next has removed them");
}

#[test]
fn programs_of_two_users_meet_in_a_directory_for_all() {
    if !may_be_others() || !may_meet() {
        eprintln!("SKIP: only root has two users at hand");
        return;
    }
    let place = std::env::temp_dir().join(format!("ferriband-users-{}", std::process::id()));
    fs::create_dir(&place).expect("a new directory");
    let place = Shared(place);
    let path = |name: &str| place.0.join(name);
    let for_all = |path: &Path, mode| {
        fs::set_permissions(path, Permissions::from_mode(mode)).expect("our own");
    };
    for_all(&place.0, 0o755);
    fs::create_dir(path("meet")).expect("a new directory");
    for_all(&path("meet"), 0o1777);
    let library = library("libferriband_sdp.so");
    for (from, to) in [(library.as_path(), "library"), (two::program(), "program")] {
        fs::copy(from, path(to)).expect("room");
        for_all(&path(to), 0o755);
    }
    let at = place.0.display();
    let [server, client] = USERS.map(|user| {
        format!(
            "umask 077; exec setpriv --reuid {user} --regid {user} --clear-groups env \
             LD_PRELOAD={at}/library FERRIBAND_SDP_SETTINGS= FERRIBAND_SDP_MEET={at}/meet \
             TAKEN_OVER=1 {at}/program"
        )
    });
    for mode in ["blocking", "epoll"] {
        let output = Command::new("timeout")
            .args(["--kill-after", "5", "120", "unshare", "--net", "--", "sh"])
            .arg(two::source("two_hosts.sh"))
            .env("SERVER", format!("{server} server 17080 {mode} 6000"))
            .env(
                "CLIENT",
                format!("{client} client 192.0.2.2 17080 {mode} 6000"),
            )
            .env("HALF", "")
            .output()
            .expect("a shell");
        let said = String::from_utf8_lossy(&output.stdout);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{mode}: {said}{errors}");
        assert!(by_tcp(&said) < 50, "{mode}: {said}{errors}");
    }
}
