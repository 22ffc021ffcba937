//! Rules of the tree that no compiler checks: `cargo xtask gates`.
//!
//! They look at the files that git tracks, so what a build leaves behind does not matter.

use crate::{Outcome, arrows, rdma_core, symbols, workspace_root};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::process::Command;

/// Words that mark unfinished work. Put together here, so that this file does not break its own rule.
const UNFINISHED: [&str; 5] = [
    concat!("to", "do!("),
    concat!("unimple", "mented!("),
    concat!("FIX", "ME"),
    concat!("XX", "X"),
    concat!("#[ign", "ore"),
];

/// Paths of the machine that the project grew on: nothing may need them.
const MACHINE: [&str; 3] = [
    concat!("/wo", "rk/main"),
    concat!("/wo", "rk/shared"),
    concat!("../sha", "red/"),
];

/// Rooms without unsafe code.
const SAFE_ROOMS: [&str; 24] = [
    "sys/notes/src/lib.rs",
    "ib/attach/src/lib.rs",
    "ulp/heal/src/lib.rs",
    "ulp/mpi/coll/src/lib.rs",
    "ulp/mpi/proto/src/lib.rs",
    "ulp/mpi/sim/src/lib.rs",
    "ulp/putget/proto/src/lib.rs",
    "ulp/putget/sim/src/lib.rs",
    "ulp/putget/verbs/src/lib.rs",
    "ulp/portals/process/src/lib.rs",
    "ulp/portals/proto/src/lib.rs",
    "ulp/portals/sim/src/lib.rs",
    "ulp/seed/src/lib.rs",
    "ulp/settings/src/lib.rs",
    "ulp/sdp/local/src/lib.rs",
    "ulp/sdp/proto/src/lib.rs",
    "ulp/sdp/wire/src/lib.rs",
    "ulp/sdp/sim/src/lib.rs",
    "ulp/sdp/verbs/src/lib.rs",
    "ib/admin/src/lib.rs",
    "ib/wire/src/lib.rs",
    "ib/cm/src/lib.rs",
    "ib/transport/src/lib.rs",
    "ib/sim/src/lib.rs",
];

/// A file is about 500 lines; past twice that it is split by idea.
const MAX_LINES: usize = 1000;

/// Written by a tool, so exempt from the length rule.
const GENERATED: [&str; 5] = [
    "ulp/mpi/abi/src/entries.rs",
    "ulp/mpi/abi/src/private.rs",
    "ulp/mpi/runtime/src/abi/agreement.rs",
    "abi/verbs-sys/src/bindings.rs",
    "abi/rdmacm-sys/src/bindings.rs",
];

/// The page that says of each public symbol what it does; the private ones of rdma-core stand in docs/rdma-core.md.
const MATRIX: &str = "docs/matrix.md";

/// Rooms whose crates may use those of certain rooms only: `sys/` knows the operating system alone,
/// and the upper protocols reach the adapter by the published C ABI alone.
const ARROWS: [(&str, &[&str]); 5] = [
    ("sys/", &[]),
    ("ulp/host/", &["sys/"]),
    ("ulp/launch/", &["ulp/host", "sys/"]),
    (
        "ulp/sdp/preload/",
        &["ulp/sdp/socket", "ulp/sdp/local", "sys/"],
    ),
    ("ulp/", &["ulp/", "abi/verbs-sys", "abi/rdmacm-sys", "sys/"]),
];

/// Checks every rule and names each breach.
pub fn run(args: &[String]) -> Outcome {
    let root = workspace_root();
    let text_of = |path: &str| std::fs::read_to_string(root.join(path)).ok();
    match args {
        [] => {}
        [option, dir] if option == "--arrows" => {
            println!("{}", arrows::shown(dir.trim_end_matches('/'), &text_of));
            return Ok(());
        }
        [arg, ..] => return Err(format!("gates: unknown argument {arg}")),
    }
    let output = Command::new("git")
        .current_dir(&root)
        .args(["ls-files", "-z"])
        .output()
        .map_err(|error| format!("git: {error}"))?;
    let listed = String::from_utf8_lossy(&output.stdout);
    let manifest = std::fs::read_to_string(root.join("Cargo.toml"))
        .map_err(|error| format!("Cargo.toml: {error}"))?;
    let rooms = rooms(&manifest);
    let mut breaches = Vec::new();
    let mut examples = Examples::default();
    let mut count = 0;
    for path in listed.split('\0').filter(|path| is_ours(path)) {
        // A file that was deleted but not yet committed is no breach.
        let Some(text) = text_of(path) else {
            continue;
        };
        count += 1;
        breaches.extend(breaches_of(path, &text));
        examples.look(path, &text);
        if path.ends_with("Cargo.toml") {
            breaches.extend(arrows_up(path, &text, &rooms));
        }
    }
    breaches.extend(examples.breaches());
    for path in SAFE_ROOMS {
        let text =
            std::fs::read_to_string(root.join(path)).map_err(|error| format!("{path}: {error}"))?;
        if !text.contains("#![forbid(unsafe_code)]") {
            breaches.push(format!(
                "{path}: this room forbids unsafe code and must say so"
            ));
        }
    }
    let read = |path: &str| {
        std::fs::read_to_string(root.join(path)).map_err(|error| format!("{path}: {error}"))
    };
    let paths: Vec<&str> = listed.split('\0').collect();
    breaches.extend(arrows::breaches(&paths, &text_of, &read(arrows::PAGE)?));
    let rows = rdma_core::table()?;
    let public: Vec<&symbols::Row> = rows
        .iter()
        .filter(|row| !row.node.starts_with("IBVERBS_PRIVATE"))
        .collect();
    breaches.extend(untold(&public, &read(MATRIX)?));
    breaches.extend(rdma_core::check_page(&rows).err());
    if breaches.is_empty() {
        println!("gates: {count} files, no breach");
        return Ok(());
    }
    Err(format!("gates:\n  {}", breaches.join("\n  ")))
}

/// Where each crate of ours is, by its name, as the workspace's manifest says.
fn rooms(manifest: &str) -> HashMap<&str, &str> {
    let path_of = |line| {
        Some(line).and_then(|line: &str| {
            let (name, value) = line.split_once(" = { path = \"")?;
            Some((name, value.split_once('"')?.0))
        })
    };
    manifest.lines().filter_map(path_of).collect()
}

/// Crates of ours that a manifest names, and that its room may not use. What tests alone use is
/// free: they may hold one room against another.
fn arrows_up(path: &str, manifest: &str, rooms: &HashMap<&str, &str>) -> Vec<String> {
    let Some((_, allowed)) = ARROWS.iter().find(|(room, _)| path.starts_with(room)) else {
        return Vec::new();
    };
    let tests_own = |line: &&str| line.starts_with("[dev-dependencies");
    let lines = manifest.lines().take_while(|line| !tests_own(line));
    let used = lines.filter_map(|line| {
        let (name, _) = line.split_once([' ', '.'])?;
        rooms.get(name)
    });
    used.filter(|used| !allowed.iter().any(|room| used.starts_with(room)))
        .map(|used| format!("{path}: uses {used}, of a room that it must not know"))
        .collect()
}

/// Which crates have examples in their documentation, and which manifests say that there is none:
/// rustdoc reads a whole crate to find out, one crate after the other.
#[derive(Default)]
struct Examples {
    /// Directories of crates with an example.
    has: BTreeSet<String>,
    /// Manifests of libraries, and whether they have their examples run.
    runs: BTreeMap<String, bool>,
}

impl Examples {
    fn look(&mut self, path: &str, text: &str) {
        if let Some((room, _)) = path.split_once("/src/")
            && path.ends_with(".rs")
        {
            if has_example(text) {
                self.has.insert(room.to_owned());
            }
            if path.ends_with("/src/lib.rs") {
                self.runs.entry(room.to_owned()).or_insert(true);
            }
        }
        if let Some(room) = path.strip_suffix("/Cargo.toml")
            && text.contains("\ndoctest = false\n")
        {
            self.runs.insert(room.to_owned(), false);
        }
    }

    fn breaches(&self) -> impl Iterator<Item = String> + '_ {
        self.runs.iter().filter_map(|(room, runs)| {
            let says = match (self.has.contains(room), runs) {
                (true, false) => "has doctest = false, and documentation has an example",
                (false, true) => "no documentation has an example: say doctest = false in [lib]",
                _ => return None,
            };
            Some(format!("{room}/Cargo.toml: {says}"))
        })
    }
}

/// Whether documentation in this text has a block of Rust.
fn has_example(text: &str) -> bool {
    let mut is_open = false;
    for line in text.lines() {
        let doc = line.trim_start();
        let doc = doc.strip_prefix("///").or_else(|| doc.strip_prefix("//!"));
        let Some(kind) = doc.and_then(|doc| doc.trim_start().strip_prefix("```")) else {
            continue;
        };
        is_open = !is_open;
        let words = ["rust", "no_run", "should_panic", "compile_fail"];
        if is_open && (kind.is_empty() || words.iter().any(|word| kind.starts_with(word))) {
            return true;
        }
    }
    false
}

/// A symbol that the page does not name, or old entry points that it names fewer times than there are versions.
fn untold(exported: &[&symbols::Row], page: &str) -> Vec<String> {
    let is_letter = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut named = HashMap::new();
    for word in page.split(|c| !is_letter(c)) {
        *named.entry(word).or_insert(0) += 1;
    }
    let mut versions: BTreeMap<&str, usize> = BTreeMap::new();
    for symbol in exported {
        *versions.entry(&symbol.name).or_default() += 1;
    }
    versions
        .into_iter()
        .filter(|(name, count)| named.get(name).is_none_or(|times| times < count))
        .map(|(name, count)| {
            format!(
                "{MATRIX}: {name} has {count} exported version(s); the page must say what each does"
            )
        })
        .collect()
}

/// Text that people wrote; captures, images and lock files are not.
fn is_ours(path: &str) -> bool {
    [
        ".rs", ".c", ".h", ".S", ".toml", ".md", ".sh", ".py", "Makefile",
    ]
    .iter()
    .any(|end| path.ends_with(end))
}

fn breaches_of(path: &str, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    // Few texts have any of them: lines are looked at in those alone.
    let marks: Vec<&str> = UNFINISHED
        .into_iter()
        .filter(|word| text.contains(word))
        .collect();
    let parts: Vec<&str> = MACHINE
        .into_iter()
        .filter(|part| text.contains(part))
        .collect();
    let is_suspect = !marks.is_empty() || !parts.is_empty();
    for (index, line) in text.lines().enumerate().filter(|_| is_suspect) {
        let place = format!("{path}:{}", index + 1);
        for word in marks.iter().filter(|word| has_word(line, word)) {
            found.push(format!("{place}: {word} marks unfinished work"));
        }
        for part in parts.iter().filter(|part| line.contains(**part)) {
            found.push(format!("{place}: {part} names a path of one machine"));
        }
    }
    let lines = text.lines().count();
    if path.ends_with(".rs") && lines > MAX_LINES && !GENERATED.contains(&path) {
        found.push(format!(
            "{path}: {lines} lines; split it by idea (at most {MAX_LINES})"
        ));
    }
    found
}

/// True if `word` stands in `line` and is not part of a longer run of the same letters (a mktemp template is not a mark).
fn has_word(line: &str, word: &str) -> bool {
    let is_letter = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric() || c == '_');
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + word.len()..].chars().next();
        let ends_in_letter = word.ends_with(|c: char| c.is_ascii_alphanumeric());
        let starts = !is_letter(before);
        let ends = !ends_in_letter || !is_letter(after);
        starts && ends
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_of_unfinished_work_are_found() {
        for word in UNFINISHED {
            assert_eq!(
                breaches_of("a.rs", &format!("fine\n  {word} here")).len(),
                1,
                "{word}"
            );
        }
        let template = format!("mktemp {}", "X".repeat(6));
        assert!(breaches_of("a.sh", &template).is_empty());
    }

    #[test]
    fn paths_of_a_machine_are_found() {
        assert_eq!(
            breaches_of("a.md", &format!("see {}x", MACHINE[1])).len(),
            1
        );
        assert!(breaches_of("a.md", "the work of /home").is_empty());
    }

    #[test]
    fn arrows_up_are_found() {
        let workspace = "ferriband-a = { path = \"ib/a\" }\nferriband-b = { path = \"ulp/b\" }\n\
            ferriband-c = { path = \"sys/c\" }\nlibc = \"0.2\"\n";
        let rooms = rooms(workspace);
        assert_eq!(rooms.len(), 3);
        let uses = "[dependencies]\nferriband-a = { workspace = true }\n\
            ferriband-b.workspace = true\nferriband-c = { workspace = true }\n\
            libc = { workspace = true }\n";
        let found = |path| arrows_up(path, uses, &rooms).len();
        assert_eq!(found("ib/a/Cargo.toml"), 0);
        assert_eq!(found("ulp/b/Cargo.toml"), 1);
        assert_eq!(found("ulp/host/Cargo.toml"), 2);
        assert_eq!(found("ulp/sdp/preload/Cargo.toml"), 2);
        assert_eq!(found("sys/c/Cargo.toml"), 3);
    }

    #[test]
    fn examples_are_run_and_crates_without_any_are_not_searched() {
        let block = |kind: &str| format!("//! Text.\n//!\n//! ```{kind}\n//! a();\n//! ```\n");
        assert!(has_example(&block("")) && has_example(&block("no_run")));
        assert!(!has_example(&block("text")) && !has_example("let fence = \"```\";\n"));
        let breaches = |manifest: &str, source: &str| {
            let mut examples = Examples::default();
            examples.look("ib/a/Cargo.toml", manifest);
            examples.look("ib/a/src/lib.rs", source);
            examples.breaches().count()
        };
        let none = "[lib]\ndoctest = false\n";
        assert_eq!((breaches("", ""), breaches(none, "")), (1, 0));
        assert_eq!(
            (breaches("", &block("")), breaches(none, &block(""))),
            (0, 1)
        );
    }

    #[test]
    fn symbols_that_the_page_leaves_out_are_found() {
        let table =
            "l\ta\t@@V_1.1\t1\toffered\nl\ta\t@V_1.0\t1\trefused\nl\tb\t@@V_1.1\t1\toffered\n";
        let rows = symbols::parse_table(table).expect("three symbols");
        let exported: Vec<&symbols::Row> = rows.iter().collect();
        assert!(untold(&exported, "| a, b | offered |\nold: a").is_empty());
        assert_eq!(untold(&exported, "| a, b | offered |").len(), 1);
        assert_eq!(untold(&exported, "a a, not_b, bb").len(), 1);
    }

    #[test]
    fn long_files_are_found_unless_generated() {
        let long = "line\n".repeat(MAX_LINES + 1);
        assert_eq!(breaches_of("a.rs", &long).len(), 1);
        assert!(breaches_of(GENERATED[0], &long).is_empty());
        assert!(breaches_of("a.md", &long).is_empty());
    }
}
