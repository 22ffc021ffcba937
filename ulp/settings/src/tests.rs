//! A table of a few rows, read from all of its sources.

use super::*;

static TABLE: Table = Table {
    prefix: "FERRIBAND_X_",
    file_variable: "FERRIBAND_X_SETTINGS",
    file: "ferriband/x.conf",
    shown_by: "ferriband x",
    reserved: &["FERRIBAND_X_FD"],
    rows: &[
        row("eager", Kind::Bytes(0..=8128), "8128"),
        row("way", Kind::OneOf(&["put", "get"]), "get"),
        row("device", Kind::Text, ""),
        row("block", Kind::PowerOr(4096..=65536, "auto"), "32K"),
        row("count", Kind::Number(1..=1 << 30), "16"),
        row("stats", Kind::Flag, "0"),
    ],
};

const fn row(name: &'static str, kind: Kind, default: &'static str) -> Setting {
    Setting {
        name,
        about: "all",
        kind,
        default,
        help: "A row.",
    }
}

fn with(variables: &[(&str, &str)]) -> Result<Values, Wrong> {
    let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    TABLE.read(None, variables.iter().map(owned).collect::<Vec<_>>())
}

#[test]
fn rows_that_cannot_be_are_found() {
    assert_eq!(TABLE.check(), Ok(()));
    const TABLE_OF_NOTHING: Table = Table {
        prefix: "FERRIBAND_X_",
        file_variable: "FERRIBAND_X_SETTINGS",
        file: "x",
        shown_by: "x",
        reserved: &["FERRIBAND_X_FD"],
        rows: &[],
    };
    let wrong = |rows: Vec<Setting>| {
        let table = Table {
            rows: rows.leak(),
            ..TABLE_OF_NOTHING
        };
        table.check().expect_err("wrong")
    };
    const FLAG: Kind = Kind::Flag;
    const ONE: Setting = row("a", FLAG, "0");
    assert!(wrong(vec![row("a", FLAG, "2")]).starts_with("a: its default"));
    assert!(wrong(vec![ONE, ONE]).contains("twice"));
    assert!(wrong(vec![row("A", FLAG, "0")]).contains("letters"));
    assert!(wrong(vec![row("fd", FLAG, "0")]).contains("reserved"));
    assert!(
        wrong(vec![Setting {
            help: "none",
            ..ONE
        }])
        .contains("help")
    );
    let apart = wrong(vec![
        ONE,
        Setting {
            about: "else",
            name: "b",
            ..row("b", FLAG, "0")
        },
        row("c", FLAG, "0"),
    ]);
    assert_eq!(apart, "c: it stands apart from others of its subject");
}

#[test]
fn the_environment_wins_over_the_file_and_that_over_the_default() {
    let file = "# mine\neager = 4K\nway=put  # for now\n device = \"ferri_eth0\"\n\n";
    let variable = ("FERRIBAND_X_EAGER".to_owned(), "100".to_owned());
    let mut values = TABLE
        .read(Some(("x.conf", file)), [variable])
        .expect("good");
    let from = |name| {
        let found = values.iter().find(|(setting, ..)| setting.name == name);
        found.expect("a row").2
    };
    let number = |name| (values.number(name), from(name));
    assert_eq!(number("eager"), (100, From::Environment));
    assert_eq!((values.text("way"), from("way")), ("put", From::File));
    assert_eq!(values.text("device"), "ferri_eth0");
    assert_eq!(number("block"), (32768, From::Default));
    assert!(values.is_set("way") && !values.is_set("block"));
    assert!(values.strangers.is_empty() && !values.flag("stats"));
    values.set("eager", "0").expect("good");
    assert_eq!(values.number("eager"), 0);
}

#[test]
fn nonsense_is_named_with_what_would_be_good() {
    let said = |name: &str, value: &str| with(&[(name, value)]).expect_err("nonsense").0;
    assert_eq!(
        said("FERRIBAND_X_WAY", "shm"),
        "FERRIBAND_X_WAY=shm: it can be put or get"
    );
    assert_eq!(
        said("FERRIBAND_X_EAGER", "8129"),
        "FERRIBAND_X_EAGER=8129: it can be bytes from 0 to 8128"
    );
    for (name, value) in [
        ("EAGER", "-1"),
        ("EAGER", "K"),
        ("EAGER", ""),
        ("WAY", ""),
        ("EAGER", "99999999999999999999G"),
        ("EAGER", "18014398509481985K"),
        ("BLOCK", "5000"),
        ("COUNT", "1K"),
        ("STATS", "2"),
    ] {
        said(&format!("FERRIBAND_X_{name}"), value);
    }
    let bad = TABLE.read(Some(("x.conf", "eager = 1\neager: 2\n")), []);
    assert_eq!(
        bad.expect_err("bad").0,
        "x.conf, line 2: a line is NAME = VALUE"
    );
}

#[test]
fn the_file_is_where_the_environment_says() {
    let path = |named, config, home| TABLE.path(named, config, home);
    let home = Some("/home/me");
    assert_eq!(
        path(None, None, home).as_deref(),
        Some("/home/me/.config/ferriband/x.conf")
    );
    assert_eq!(
        path(None, Some("/etc/x"), home).as_deref(),
        Some("/etc/x/ferriband/x.conf")
    );
    assert_eq!(path(Some("a"), Some("/etc/x"), home).as_deref(), Some("a"));
    assert_eq!(path(Some(""), None, home), None);
    assert_eq!(path(None, Some("relative"), None), None);
}

#[test]
fn an_unknown_name_is_told_of() {
    let values = with(&[
        ("FERRIBAND_X_EAGR", "1"),
        ("FERRIBAND_X_SOMETHING_ELSE", "1"),
        ("FERRIBAND_X_FD", "3"),
        ("FERRIBAND_X_SETTINGS", "/x"),
        ("FERRIBAND_WIRE", "roce"),
    ]);
    assert_eq!(
        values.expect("a warning only").strangers,
        [
            "FERRIBAND_X_EAGR is no setting; is FERRIBAND_X_EAGER meant?",
            "FERRIBAND_X_SOMETHING_ELSE is no setting; `ferriband x` lists them"
        ]
    );
    assert!(TABLE.defaults().set("eagre", "1").is_err());
}
