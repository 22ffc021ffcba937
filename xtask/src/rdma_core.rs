//! `cargo xtask symbols`: what rdma-core's releases export, beside what our libraries do.
//!
//! Owns the writing of `abi/symbols.tsv` from rdma-core's history (its version maps at each tag), the page `docs/rdma-core.md` about it,
//! and the comparison with a library that somebody else built. The states in the table are people's and are kept.

use crate::symbols::{self, HEAD, Row, State, TABLE, sort_key};
use crate::{Outcome, value, workspace_root};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

/// A library of rdma-core that one of ours replaces.
struct Replaced {
    /// The soname up to `.so`.
    name: &'static str,
    /// The file name that programs are linked to.
    soname: &'static str,
    /// Its version map in rdma-core's tree.
    map: &'static str,
}

const REPLACED: [Replaced; 3] = [
    Replaced {
        name: "libibverbs",
        soname: "libibverbs.so.1",
        map: "libibverbs/libibverbs.map.in",
    },
    Replaced {
        name: "librdmacm",
        soname: "librdmacm.so.1",
        map: "librdmacm/librdmacm.map",
    },
    Replaced {
        name: "libibumad",
        soname: "libibumad.so.3",
        map: "libibumad/libibumad.map",
    },
];

/// The oldest release whose private symbols are offered: the first with today's name of their node.
const OLDEST: u32 = 34;

/// Names that maps list and no release defines, so no library exports them.
const UNDEFINED: [&str; 4] = [
    "ibv_query_device_ex",
    "ibv_cmd_query_device",
    "rdma_get_local_addr",
    "rdma_get_peer_addr",
];

/// What a map says that the private node is called: the release's number takes the place of this.
const PRIVATE_NUMBER: &str = "@IBVERBS_PABI_VERSION@";

/// The page about the table, and the marks around the part that is written here.
const PAGE: &str = "docs/rdma-core.md";
const BEGIN: &str = "<!-- symbols: begin -->\n";
const END: &str = "<!-- symbols: end -->\n";

const USAGE: &str = "\
usage: cargo xtask symbols                        write the part of docs/rdma-core.md that the table makes
       cargo xtask symbols --rdma-core GIT        first write abi/symbols.tsv anew from the tags of that clone of rdma-core
       cargo xtask symbols --library FILE ...     compare: fail if a library of rdma-core exports what the table does not have
       cargo xtask symbols --check                fail if the page is not what the table makes";

/// `cargo xtask symbols`.
pub fn run(args: &[String]) -> Outcome {
    let mut libraries = Vec::new();
    let mut history = None;
    let mut check = false;
    let mut rest = args.iter();
    while let Some(arg) = rest.next() {
        match arg.as_str() {
            "--rdma-core" => history = Some(value(arg, &mut rest)?.to_owned()),
            "--library" => libraries.push(value(arg, &mut rest)?.to_owned()),
            "--check" => check = true,
            "--help" => {
                println!("{USAGE}");
                return Ok(());
            }
            other => return Err(format!("symbols: unknown argument {other}\n{USAGE}")),
        }
    }
    if let Some(git) = history {
        write_table(&git)?;
    }
    let rows = table()?;
    for library in &libraries {
        compare(&rows, Path::new(library))?;
    }
    match (libraries.is_empty(), check) {
        (false, _) => Ok(()),
        (true, true) => check_page(&rows),
        (true, false) => write(PAGE, &page(&rows, &read(PAGE)?)?),
    }
}

/// The rows of the table.
pub fn table() -> Result<Vec<Row>, String> {
    symbols::parse_table(&read(TABLE)?)
}

/// Fails if the page says something else than the table.
pub fn check_page(rows: &[Row]) -> Outcome {
    let text = read(PAGE)?;
    match page(rows, &text)? == text {
        true => Ok(()),
        false => Err(format!(
            "{PAGE} is not what {TABLE} makes: run cargo xtask symbols"
        )),
    }
}

fn read(path: &str) -> Result<String, String> {
    std::fs::read_to_string(workspace_root().join(path)).map_err(|error| format!("{path}: {error}"))
}

fn write(path: &str, text: &str) -> Outcome {
    std::fs::write(workspace_root().join(path), text).map_err(|error| format!("{path}: {error}"))
}

/// Fails if the library exports a symbol in a node that the table does not have for it.
fn compare(rows: &[Row], file: &Path) -> Outcome {
    let output = Command::new("readelf")
        .args(["--dyn-syms", "--wide"])
        .arg(file)
        .output()
        .map_err(|error| format!("readelf: {error}"))?;
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let library = REPLACED
        .iter()
        .find(|library| name.starts_with(library.soname))
        .ok_or_else(|| {
            format!(
                "{}: none of the libraries that are replaced",
                file.display()
            )
        })?;
    let known: BTreeSet<(&str, &str)> = rows
        .iter()
        .filter(|row| row.library == library.name)
        .map(|row| (row.name.as_str(), row.node.as_str()))
        .collect();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let theirs = defined(&text);
    if !output.status.success() || theirs.is_empty() {
        return Err(format!("{}: no exported symbols", file.display()));
    }
    let missing: Vec<String> = theirs
        .iter()
        .filter(|symbol| !known.contains(*symbol))
        .map(|(name, node)| format!("{name} in {node}"))
        .collect();
    match missing.is_empty() {
        true => {
            let shown = file.display();
            println!("{shown}: {} symbols, all of them in {TABLE}", theirs.len());
            Ok(())
        }
        false => Err(format!(
            "{}: {TABLE} lacks {} of its symbols: {}",
            file.display(),
            missing.len(),
            missing.join(", ")
        )),
    }
}

/// The defined symbols with a version in what readelf prints, but the nodes' own.
fn defined(text: &str) -> BTreeSet<(&str, &str)> {
    let rows = text.lines().filter_map(|line| {
        let columns: Vec<&str> = line.split_whitespace().collect();
        match columns.as_slice() {
            [_, _, _, _, _, _, section, name, ..] => {
                let (name, version) = name.split_once('@')?;
                section.parse::<u32>().ok()?;
                Some((name, version.trim_start_matches('@')))
            }
            _ => None,
        }
    });
    rows.collect()
}

/// What one release's map lists, as names by node; a private node with the number that this release gives it.
fn listed(map: &str, private: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut node = String::new();
    let mut is_comment = false;
    for line in map.lines().map(str::trim) {
        let line = line.replace(PRIVATE_NUMBER, private);
        if is_comment || line.starts_with("/*") {
            is_comment = !line.contains("*/");
        } else if let Some(name) = line.strip_suffix('{') {
            name.trim().clone_into(&mut node);
        } else if line.starts_with('}') || line.contains('*') || line.ends_with(':') {
            continue;
        } else if let Some(name) = line.strip_suffix(';') {
            found.push((name.trim().to_owned(), node.clone()));
        }
    }
    found
}

/// A release: its number, and where it is in the history.
struct Release {
    number: u32,
    revision: String,
}

/// The releases that the clone has, the oldest first: the tags vN or vN.0, and what is checked out if that is newer.
fn releases(git: &str) -> Result<Vec<Release>, String> {
    let tags = ask(git, &["tag", "--list", "v*"])?;
    let mut found: Vec<Release> = tags
        .lines()
        .filter_map(|tag| {
            let number = tag.strip_prefix('v')?;
            let number = number.strip_suffix(".0").unwrap_or(number).parse().ok()?;
            Some(Release {
                number,
                revision: tag.to_owned(),
            })
        })
        .collect();
    let head: u32 = setting(git, "HEAD", "PACKAGE_VERSION")?
        .trim_end_matches(".0")
        .parse()
        .map_err(|_| format!("{git}: CMakeLists.txt at HEAD has no version of the form N.0"))?;
    if found.iter().all(|release| release.number < head) {
        found.push(Release {
            number: head,
            revision: "HEAD".to_owned(),
        });
    }
    found.sort_by_key(|release| release.number);
    Ok(found)
}

/// What git prints.
fn ask(git: &str, args: &[&str]) -> Result<String, String> {
    let output = Command::new("git")
        .arg("-C")
        .arg(git)
        .args(args)
        .output()
        .map_err(|error| format!("git: {error}"))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(format!(
            "git -C {git} {}: {}",
            args.join(" "),
            String::from_utf8_lossy(&output.stderr).trim()
        )),
    }
}

/// A variable of rdma-core's CMakeLists.txt.
fn setting(git: &str, revision: &str, name: &str) -> Result<String, String> {
    let text = ask(git, &["show", &format!("{revision}:CMakeLists.txt")])?;
    let start = format!("set({name} ");
    text.lines()
        .find_map(|line| line.trim().strip_prefix(start.as_str()))
        .map(|value| value.trim_matches(|c| c == '"' || c == ')').to_owned())
        .ok_or_else(|| format!("{git}: CMakeLists.txt of {revision} does not set {name}"))
}

/// Writes the table anew, with the states that it has; a symbol that is new in it gets the state `missing`, which nothing accepts.
fn write_table(git: &str) -> Outcome {
    let before = read(TABLE).unwrap_or_default();
    let mut states = BTreeMap::new();
    let mut ours = Vec::new();
    for row in before.lines().filter(|line| !line.starts_with('#')) {
        let fields: Vec<&str> = row.split('\t').collect();
        if let [library, name, version, since, state] = fields.as_slice() {
            states.insert(
                (
                    (*library).to_owned(),
                    (*name).to_owned(),
                    version.trim_start_matches('@').to_owned(),
                ),
                (*state).to_owned(),
            );
            if *since == "ours" {
                ours.push(row.to_owned());
            }
        }
    }
    let mut text = format!(
        "# The symbols of rdma-core's libraries, node by node, with the release that brought each. `cargo xtask symbols --rdma-core GIT`\n\
         # writes this file and keeps the last column. States: offered, pure (needs no adapter), private (ours), refused (EOPNOTSUPP),\n\
         # refused-null, refused-minus-one, no-effect, variable; xtask/src/symbols.rs says what the linker makes of them.\n{HEAD}\n"
    );
    let releases = releases(git)?;
    for library in &REPLACED {
        let mut lines: Vec<String> = ours
            .iter()
            .filter(|row| row.starts_with(&format!("{}\t", library.name)))
            .cloned()
            .collect();
        for ((name, node), (since, is_default)) in history(git, &releases, library)? {
            let key = (library.name.to_owned(), name.clone(), node.clone());
            let sibling = || {
                let mut others = states.iter().filter(|((of, symbol, at), _)| {
                    of == library.name
                        && *symbol == name
                        && sort_key(at).0 == sort_key(&node).0
                        && at != "IBVERBS_1.0"
                });
                others.next_back().map(|(_, state)| state.clone())
            };
            let state = states.get(&key).cloned().or_else(sibling);
            let state = state.unwrap_or_else(|| "missing".to_owned());
            let at = if is_default { "@@" } else { "@" };
            let name_of_library = library.name;
            lines.push(format!(
                "{name_of_library}\t{name}\t{at}{node}\t{since}\t{state}"
            ));
        }
        lines.sort_by(|one, other| {
            let key = |line: &str| {
                let mut fields = line.split('\t').skip(1);
                let name = fields.next().unwrap_or_default().to_owned();
                let version = fields.next().unwrap_or_default().trim_start_matches('@');
                let (is_private, numbers, node) = sort_key(version);
                (is_private, numbers, node.to_owned(), name)
            };
            key(one).cmp(&key(other))
        });
        text.push_str(&(lines.join("\n") + "\n"));
    }
    write(TABLE, &text)
}

/// Each symbol in each node of a library, by name and node: the release that brought it, and whether new programs bind to it there.
type History = BTreeMap<(String, String), (u32, bool)>;

/// What the releases' maps say of a library.
fn history(git: &str, releases: &[Release], library: &Replaced) -> Result<History, String> {
    let mut since: BTreeMap<(String, String), u32> = BTreeMap::new();
    for release in releases {
        let map = format!("{}:{}", release.revision, library.map);
        let Ok(map) = ask(git, &["show", &map]) else {
            continue;
        };
        let private = setting(git, &release.revision, "IBVERBS_PABI_VERSION").unwrap_or_default();
        for (name, node) in listed(&map, &private) {
            let is_old = node.contains("PRIVATE") && release.number < OLDEST;
            if !is_old && !UNDEFINED.contains(&name.as_str()) {
                since.entry((name, node)).or_insert(release.number);
            }
        }
    }
    if since.is_empty() {
        return Err(format!("{git}: no release has {}", library.map));
    }
    let mut newest: BTreeMap<&str, &str> = BTreeMap::new();
    for (name, node) in since.keys() {
        let at = newest.entry(name).or_insert(node);
        if sort_key(at) < sort_key(node) {
            *at = node;
        }
    }
    let is_default: Vec<bool> = since
        .keys()
        .map(|(name, node)| newest[name.as_str()] == node)
        .collect();
    Ok(since
        .into_iter()
        .zip(is_default)
        .map(|((key, release), is_default)| (key, (release, is_default)))
        .collect())
}

/// The page with the part between the marks written anew.
fn page(rows: &[Row], before: &str) -> Result<String, String> {
    let marks = || {
        format!(
            "{PAGE}: the marks {} and {} are gone",
            BEGIN.trim(),
            END.trim()
        )
    };
    let (head, rest) = before.split_once(BEGIN).ok_or_else(marks)?;
    let (_, tail) = rest.split_once(END).ok_or_else(marks)?;
    let mut text = format!("{head}{BEGIN}");
    for library in &REPLACED {
        text.push_str(&format!("### {}\n\n", library.soname));
        text.push_str("| node | since release | symbols | new there, by what becomes of a call |\n|---|---|---|---|\n");
        let rows: Vec<&Row> = rows
            .iter()
            .filter(|row| row.library == library.name)
            .collect();
        let nodes: BTreeSet<_> = rows.iter().map(|row| sort_key(&row.node)).collect();
        let mut earlier = BTreeSet::new();
        for (is_private, _, node) in nodes {
            text.push_str(&line(&rows, node, is_private, &mut earlier));
        }
        text.push('\n');
    }
    Ok(format!("{text}{END}{tail}"))
}

/// One node's line. A private node repeats those of the node before it, so only what is new in it is named.
fn line<'a>(
    rows: &[&'a Row],
    node: &str,
    is_private: bool,
    earlier: &mut BTreeSet<&'a str>,
) -> String {
    let here: Vec<&&Row> = rows.iter().filter(|row| row.node == node).collect();
    let mut by_state: BTreeMap<State, Vec<&str>> = BTreeMap::new();
    for row in &here {
        if !is_private || earlier.insert(&row.name) {
            by_state.entry(row.state).or_default().push(&row.name);
        }
    }
    let told: Vec<String> = by_state
        .iter()
        .map(|(state, names)| format!("**{}**: {}", state.word(), names.join(", ")))
        .collect();
    let since = here.iter().filter_map(|row| row.since.parse::<u32>().ok());
    let since = since
        .min()
        .map_or_else(|| "ours".to_owned(), |release| release.to_string());
    let told = match told.is_empty() {
        true => "none".to_owned(),
        false => told.join("; "),
    };
    format!("| {node} | {since} | {} | {told} |\n", here.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAP: &str = "/* a comment */\nV_1.0 {\n\tglobal:\n\t\tone;\n\t\t/* two lines\n\t\t of; comment */\n\n\tlocal: *;\n};\n\
        V_1.1 {\n\tglobal:\n\t\tone;\n\t\ttwo;\n} V_1.0;\n\
        V_PRIVATE_@IBVERBS_PABI_VERSION@ {\n\tglobal:\n\t\tdriver_@IBVERBS_PABI_VERSION@;\n};\n";

    #[test]
    fn maps_are_read() {
        let found = listed(MAP, "57");
        let shown: Vec<String> = found
            .iter()
            .map(|(name, node)| format!("{name}@{node}"))
            .collect();
        assert_eq!(
            shown,
            [
                "one@V_1.0",
                "one@V_1.1",
                "two@V_1.1",
                "driver_57@V_PRIVATE_57"
            ]
        );
    }

    #[test]
    fn exported_symbols_are_those_with_a_section() {
        let text = "   Num:    Value          Size Type    Bind   Vis      Ndx Name\n\
            1: 0000 0 FUNC GLOBAL DEFAULT UND malloc@GLIBC_2.2.5 (2)\n\
            2: 0001 9 FUNC GLOBAL DEFAULT 12 one@V_1.0\n\
            3: 0001 9 FUNC GLOBAL DEFAULT 12 one@@V_1.1\n\
            4: 0000 0 OBJECT GLOBAL DEFAULT ABS V_1.0\n";
        let found: Vec<_> = defined(text).into_iter().collect();
        assert_eq!(found, [("one", "V_1.0"), ("one", "V_1.1")]);
    }

    #[test]
    fn a_page_without_marks_is_an_error() {
        assert!(page(&[], "text").is_err());
        let text = format!("head\n{BEGIN}old\n{END}tail\n");
        let new = page(&[], &text).expect("marks");
        assert!(new.starts_with("head\n") && new.ends_with("tail\n") && !new.contains("old"));
    }
}
