//! Files that outlive processes, as users meet them: devices.toml by `up` and `down`, incidents by `why`. No library is needed.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Output};

/// A home of its own for each test, removed at the end.
struct Home(PathBuf);

impl Home {
    fn new(name: &str) -> Self {
        let dir = std::env::temp_dir().join(format!("ferriband-{name}-{}", std::process::id()));
        fs::create_dir_all(&dir).expect("the temporary directory is writable");
        Home(dir)
    }

    fn run(&self, arguments: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_ferriband"))
            .args(arguments)
            .env("HOME", &self.0)
            .env_remove("XDG_CONFIG_HOME")
            .env_remove("XDG_STATE_HOME")
            .output()
            .expect("ferriband runs")
    }

    fn devices(&self) -> PathBuf {
        self.0.join(".config/ferriband/devices.toml")
    }

    fn incidents(&self, text: &str) {
        let dir = self.0.join(".local/state/ferriband");
        fs::create_dir_all(&dir).expect("ours");
        fs::write(dir.join("incidents"), text).expect("ours");
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_device_is_named_changed_taken_down_and_forgotten() {
    let home = Home::new("updown");
    let up = [
        "up",
        "storage",
        "--interface",
        "lo",
        "--mtu",
        "512",
        "--dscp",
        "26",
        "--rate",
        "10Gbit",
        "--gid",
        "127.0.0.1,::1",
    ];
    assert_eq!(home.run(&up).status.code(), Some(0));
    let written = fs::read_to_string(home.devices()).expect("it was written");
    for line in [
        "[device.storage]",
        "enabled = true",
        "interface = \"lo\"",
        "mtu = 512",
        "dscp = 26",
        "rate = \"10Gbit\"",
        "gids = [\"127.0.0.1\", \"::1\"]",
    ] {
        assert!(
            written.lines().any(|found| found == line),
            "{line} in\n{written}"
        );
    }
    let mode = |path: PathBuf| fs::metadata(path).expect("there").permissions().mode() & 0o777;
    assert_eq!(mode(home.devices()), 0o600);
    // what is not named stays
    let json = home.run(&["down", "storage", "--json"]);
    assert!(text(&json.stdout).contains("\"enabled\": false"));
    let written = fs::read_to_string(home.devices()).expect("there");
    assert!(written.contains("enabled = false") && written.contains("mtu = 512"));
    assert_eq!(
        home.run(&["down", "storage", "--forget"]).status.code(),
        Some(0)
    );
    assert!(
        !fs::read_to_string(home.devices())
            .expect("there")
            .contains("storage")
    );
    let left: Vec<_> = fs::read_dir(home.0.join(".config/ferriband"))
        .expect("there")
        .collect();
    assert_eq!(left.len(), 1, "nothing but the file");
}

#[test]
fn what_cannot_be_is_refused_and_a_wrong_file_is_not_written_over() {
    let home = Home::new("refused");
    for (line, code, says) in [
        (&["up", "storage"][..], 1, "--interface"),
        (&["up", "bad/name", "--interface", "lo"], 1, "bad/name"),
        (
            &["up", "a", "--interface", "lo", "--mtu", "1500"],
            2,
            "1500",
        ),
        (
            &["up", "a", "--interface", "lo", "--rate", "much"],
            2,
            "much",
        ),
        (&["up", "a", "--interface", "lo", "--dscp", "64"], 2, "64"),
        (&["up", "ferri0", "--interface", "lo"], 1, "InfiniBand"),
        (&["down", "nobody"], 1, "nobody"),
    ] {
        let output = home.run(line);
        assert_eq!(output.status.code(), Some(code), "{line:?}");
        assert!(
            text(&output.stderr).contains(says),
            "{line:?}: {}",
            text(&output.stderr)
        );
        assert!(!home.devices().exists(), "{line:?}");
    }
    fs::create_dir_all(home.devices().parent().expect("a directory")).expect("ours");
    fs::write(home.devices(), "[device.a]\nmtu = 3\n").expect("ours");
    let output = home.run(&["up", "ferri_lo"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        text(&output.stderr).contains("line 2"),
        "{}",
        text(&output.stderr)
    );
    let kept = fs::read_to_string(home.devices()).expect("there");
    assert_eq!(kept, "[device.a]\nmtu = 3\n");
}

#[test]
fn incidents_are_explained_the_newest_first() {
    let home = Home::new("why");
    let nothing = home.run(&["why"]);
    assert_eq!(nothing.status.code(), Some(3));
    assert_eq!(text(&home.run(&["why", "--json"]).stdout).trim(), "[]");
    home.incidents(concat!(
        r#"{"at_ms":1,"pid":7,"program":"old","event":"connection_failed","outcome":"rejected","active":true,"reason":8}"#,
        "\nnonsense\n",
        r#"{"at_ms":2,"pid":8,"program":"new","event":"request_failed","status":13,"operation":"SEND","qp":{"rnr_retry":2}}"#,
        "\n",
    ));
    let shown = home.run(&["why"]);
    assert_eq!(shown.status.code(), Some(0));
    let shown = text(&shown.stdout);
    assert!(
        shown.contains("new (pid 8): SEND ended with status 13"),
        "{shown}"
    );
    assert!(shown.contains("no receive posted, 3 times"), "{shown}");
    assert!(
        !shown.contains("old") && shown.contains("1 earlier: ferriband why --last 2"),
        "{shown}"
    );
    let both = text(&home.run(&["why", "--last", "5"]).stdout);
    let place = |what: &str| both.find(what).expect("it is shown");
    assert!(place("new (pid 8)") < place("old (pid 7)"), "{both}");
    let one = text(&home.run(&["why", "--pid", "7", "--json"]).stdout);
    assert!(
        one.contains("no program of it listens") && !one.contains("\"new\""),
        "{one}"
    );
}
