//! Programs that look at files or ask the kernel about devices, under the preloaded library: C programs that try each function, and what people
//! use in a shell.

use ferriband_testkit::{Cc, place};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

const LIST: &str = include_str!("../link/symbols.txt");

/// The library, freshly built.
fn library() -> PathBuf {
    ferriband_testkit::library("libferriband_sysfs.so")
}

/// What a program prints and says, and whether it succeeded.
fn run(program: &str, arguments: &[&str]) -> (bool, String) {
    let output = Command::new(program)
        .args(arguments)
        .env("LD_PRELOAD", library())
        .env("FERRIBAND_DEVICES", "ferri_lo")
        .env("LC_ALL", "C")
        .output()
        .expect("the program runs");
    let text = [output.stdout, output.stderr].concat();
    (
        output.status.success(),
        String::from_utf8_lossy(&text).into_owned(),
    )
}

fn prints(program: &str, arguments: &[&str], expected: &str) {
    let (succeeded, text) = run(program, arguments);
    assert!(succeeded, "{program} {arguments:?}: {text}");
    assert_eq!(text, expected, "{program} {arguments:?}");
}

/// Compiles a program of `tests/c`, which prints nothing if all is well.
fn prints_nothing(name: &str) {
    let program = Cc::new(place!(), name, &format!("sysfs-{name}"))
        .options(["-O2", "-D_FORTIFY_SOURCE=2", "-pthread"])
        .compile();
    prints(program.to_str().expect("our names are text"), &[], "");
}

#[test]
fn every_function_answers_as_for_a_file() {
    prints_nothing("files");
}

#[test]
fn forked_children_of_busy_threads() {
    prints_nothing("forks");
}

#[test]
fn every_function_answers_as_for_a_netlink_socket() {
    prints_nothing("netlink");
}

#[test]
fn cancelled_threads() {
    prints_nothing("cancel");
}

/// What a program prints, run on these devices; None where there is no such program.
fn printed(program: &str, arguments: &[&str], devices: &str) -> Option<String> {
    if !Path::new(program).exists() {
        eprintln!("left out: no {program}");
        return None;
    }
    let output = Command::new(program)
        .args(arguments)
        .env("LD_PRELOAD", library())
        .env("FERRIBAND_DEVICES", devices)
        .output()
        .expect("the program runs");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {error}");
    Some(String::from_utf8(output.stdout).expect("text"))
}

#[test]
fn rdma_of_iproute2_shows_devices_and_links() {
    let rdma = |arguments: &[&str]| printed("/usr/bin/rdma", arguments, "ferri0,ferri_lo");
    let Some(links) = rdma(&["link", "show"]) else {
        return;
    };
    let lines: Vec<&str> = links.lines().map(str::trim_end).collect();
    let [infiniband, ethernet] = lines[..] else {
        panic!("two links: {links}");
    };
    assert!(
        infiniband.starts_with("link ferri0/1 subnet_prefix fe80:0000:0000:0000 lid "),
        "{links}"
    );
    assert!(
        infiniband.ends_with("state ACTIVE physical_state LINK_UP"),
        "{links}"
    );
    assert_eq!(
        ethernet,
        "link ferri_lo/1 state ACTIVE physical_state LINK_UP netdev lo"
    );
    assert_eq!(
        rdma(&["link", "show", "ferri_lo/1"]).as_deref(),
        links
            .lines()
            .nth(1)
            .map(|line| format!("{line}\n"))
            .as_deref()
    );

    let json = rdma(&["link", "show", "-j"]).expect("as above");
    for part in [r#""ifname":"ferri_lo","port":1"#, r#""netdev":"lo""#] {
        assert!(json.contains(part), "{json}");
    }

    // what the files say
    let devices = rdma(&["dev", "show", "-d"]).expect("as above");
    for (index, name) in ["ferri0", "ferri_lo"].into_iter().enumerate() {
        let of = |file: &str| {
            let path = format!("/sys/class/infiniband/{name}/{file}");
            let text = printed("/bin/cat", &[&path], "ferri0,ferri_lo");
            text.expect("there is a cat").trim_end().to_owned()
        };
        for part in [
            format!("{index}: {name}: node_type ca "),
            format!(" fw {} ", of("fw_ver")),
            format!(" node_guid {} ", of("node_guid")),
            format!(" sys_image_guid {} ", of("sys_image_guid")),
        ] {
            assert!(devices.contains(&part), "{part}: {devices}");
        }
    }
    assert!(devices.contains("MEM_WINDOW_TYPE_2B"), "{devices}");

    let system = rdma(&["system", "show"]).expect("as above");
    assert!(
        system.contains("netns exclusive") && system.contains("copy-on-fork on"),
        "{system}"
    );
    let counters = rdma(&["statistic", "show"]).expect("as above");
    assert!(
        counters.contains("link ferri_lo/1") && counters.contains("duplicate_request"),
        "{counters}"
    );
}

#[test]
fn rdma_of_iproute2_says_what_cannot_be_done() {
    if !Path::new("/usr/bin/rdma").exists() {
        eprintln!("left out: no iproute2");
        return;
    }
    for arguments in [
        &["link", "add", "rxe0", "type", "rxe", "netdev", "lo"][..],
        &["resource", "show"],
        &["dev", "set", "ferri_lo", "name", "other"],
    ] {
        let (succeeded, text) = run("/usr/bin/rdma", arguments);
        assert!(!succeeded, "{arguments:?}: {text}");
        assert!(
            text.contains("Operation not supported"),
            "{arguments:?}: {text}"
        );
    }
}

#[test]
fn a_shell_finds_the_files() {
    let device = "/sys/class/infiniband/ferri_lo";
    prints("ls", &["/sys/class/infiniband"], "ferri_lo\n");
    prints("ls", &[&format!("{device}/device/net/")], "lo\n");
    prints("cat", &[&format!("{device}/ports/1/state")], "4: ACTIVE\n");
    prints(
        "cat",
        &["/sys/class/infiniband_verbs/uverbs0/ibdev"],
        "ferri_lo\n",
    );
    let script = "for d in /sys/class/infiniband/*/ports/1; do read layer < $d/link_layer; echo $d $layer; done; \
        test -c /dev/infiniband/uverbs0 && test -r /dev/infiniband/uverbs0 && echo device";
    for shell in ["sh", "bash"] {
        let expected = format!("{device}/ports/1 Ethernet\ndevice\n");
        prints(shell, &["-c", script], &expected);
    }
}

/// What `ibstatus` of infiniband-diags does, and shells, and programs that they execute there.
#[test]
fn a_shell_changes_directory_there_and_its_programs_are_there_too() {
    let script = "cd /sys/class/infiniband || exit 1; for dev in *; do echo $dev; (cd $dev/ports; echo *); done; \
        cd ferri_lo; /bin/pwd -P; cat ports/1/link_layer; ls -d ../*; cd /sys/class; env | grep ^FERRIBAND_SYSFS; ls -d net";
    let expected = "ferri_lo\n1\n/sys/class/infiniband/ferri_lo\nEthernet\n../ferri_lo\nnet\n";
    for shell in ["sh", "bash"] {
        prints(shell, &["-c", script], expected);
    }
    // a program that was executed there, and has gone elsewhere
    let there = "cd /sys/class/infiniband; exec sh -c 'test -d ferri_lo && cd /sys/class && exec ls -d net'";
    prints("sh", &["-c", there], "net\n");
}

#[test]
fn ibstatus_prints_the_ports() {
    if !Path::new("/usr/sbin/ibstatus").exists() {
        eprintln!("left out: no infiniband-diags");
        return;
    }
    let (succeeded, text) = run("/usr/sbin/ibstatus", &[]);
    assert!(succeeded, "{text}");
    for wanted in [
        "Infiniband device 'ferri_lo' port 1 status:",
        "state:\t\t 4: ACTIVE",
        "phys state:\t 5: LinkUp",
        "link_layer:\t Ethernet",
    ] {
        assert!(text.contains(wanted), "{wanted}: {text}");
    }
}

#[test]
fn a_walk_through_the_tree_ends() {
    let (succeeded, text) = run("find", &["/sys/class/infiniband", "-type", "f"]);
    assert!(succeeded, "{text}");
    let files: BTreeSet<&str> = text.lines().collect();
    assert!(
        files.contains("/sys/class/infiniband/ferri_lo/ports/1/gids/0"),
        "{text}"
    );
    // 64 GIDs with two attributes each, and counters
    assert!(
        files.contains("/sys/class/infiniband/ferri_lo/ports/1/counters/port_rcv_data"),
        "{text}"
    );
    assert!(
        (200..300).contains(&files.len()),
        "{} files: {text}",
        files.len()
    );
    let (succeeded, text) = run("ls", &["-lR", "/sys/class/infiniband", "/dev/infiniband"]);
    assert!(succeeded, "{text}");
    assert!(
        text.contains("231, 192") && text.contains("lo -> /sys/class/net/lo"),
        "{text}"
    );
}

/// The port's LID is asked of the adapter itself, which a program that only reads files has not opened.
#[test]
fn the_lid_is_that_of_the_host() {
    let output = Command::new("cat")
        .arg("/sys/class/infiniband/ferri0/ports/1/lid")
        .env("LD_PRELOAD", library())
        .env("FERRIBAND_DEVICES", "ferri0")
        .output()
        .expect("cat runs");
    let text = String::from_utf8_lossy(&output.stdout);
    let digits = text.trim().strip_prefix("0x");
    let lid = digits.and_then(|digits| u16::from_str_radix(digits, 16).ok());
    assert!(lid.is_some_and(|lid| lid > 0 && lid < 0xc000), "{text}");
}

#[test]
fn exactly_the_listed_functions_are_exported_without_versions() {
    let output = Command::new("readelf")
        .args(["--dyn-syms", "--wide"])
        .arg(library())
        .output()
        .expect("readelf of binutils, which every C compiler brings");
    let text = String::from_utf8_lossy(&output.stdout);
    let exported: BTreeSet<&str> = text
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>())
        .filter(|columns| columns.len() >= 8 && columns[6].parse::<u32>().is_ok())
        .map(|columns| columns[7])
        .collect();
    let wanted: BTreeSet<&str> = LIST.lines().collect();
    assert_eq!(exported, wanted);
}
