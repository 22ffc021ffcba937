//! The exported symbols of a drop-in library, and what the linker is given for them: a version script and entry points.
//!
//! Owns the table of rdma-core's symbols (`abi/symbols.tsv`, one row for each symbol in each version node) and the plain list
//! `name@@NODE` of libraries that replace none of rdma-core's. Knows neither releases nor documents: `rdma_core.rs` writes the table.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// The table, from the workspace's root.
pub const TABLE: &str = "abi/symbols.tsv";

/// What becomes of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// A function of this name does what rdma-core documents.
    Offered,
    /// As `Offered`, and no adapter is needed for it.
    Pure,
    /// Ours, not rdma-core's: what our libraries say to each other.
    Private,
    /// The call returns EOPNOTSUPP and sets errno.
    Refused,
    /// The call returns NULL with errno EOPNOTSUPP.
    RefusedNull,
    /// The call returns -1 with errno EOPNOTSUPP.
    RefusedMinusOne,
    /// The call returns and does nothing.
    NoEffect,
    /// A variable of one byte with the value 0.
    Variable,
}

/// Each state with the word that stands for it in the table.
const STATES: [(State, &str); 8] = [
    (State::Offered, "offered"),
    (State::Pure, "pure"),
    (State::Private, "private"),
    (State::Refused, "refused"),
    (State::RefusedNull, "refused-null"),
    (State::RefusedMinusOne, "refused-minus-one"),
    (State::NoEffect, "no-effect"),
    (State::Variable, "variable"),
];

impl State {
    /// The word of the table.
    pub fn word(self) -> &'static str {
        let row = STATES.iter().find(|(state, _)| *state == self);
        row.expect("each state has a word").1
    }

    /// The function of `abi/verbs/src/refusals.rs` that answers for such a symbol; none if the symbol has code of its own.
    fn answer(self) -> Option<&'static str> {
        match self {
            State::Refused => Some("ferriband_refuses"),
            State::RefusedNull => Some("ferriband_refuses_null"),
            State::RefusedMinusOne => Some("ferriband_refuses_minus_one"),
            State::NoEffect => Some("ferriband_has_no_effect"),
            State::Offered | State::Pure | State::Private | State::Variable => None,
        }
    }
}

/// One row of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The library's soname up to `.so`.
    pub library: String,
    /// Name without version.
    pub name: String,
    /// Version node.
    pub node: String,
    /// True for `@@`, the version that new programs bind to.
    pub is_default: bool,
    /// The first release of rdma-core that has the symbol in this node; `ours` for ours.
    pub since: String,
    /// What becomes of a call.
    pub state: State,
}

/// The line above the rows.
pub const HEAD: &str = "library\tsymbol\tnode\tsince\tstate";

/// Parses the table; lines that begin with `#` and the head are skipped.
pub fn parse_table(text: &str) -> Result<Vec<Row>, String> {
    text.lines()
        .filter(|line| !line.starts_with('#') && *line != HEAD && !line.is_empty())
        .map(|line| {
            let fields: Vec<&str> = line.split('\t').collect();
            let [library, name, version, since, word] = fields.as_slice() else {
                return Err(format!("{TABLE}: `{line}` has not five fields"));
            };
            let (is_default, node) = split_version(version)
                .ok_or_else(|| format!("{TABLE}: `{line}`: a version is @NODE or @@NODE"))?;
            let state = STATES.iter().find(|(_, known)| known == word);
            let (state, _) = state.ok_or_else(|| {
                let known: Vec<&str> = STATES.iter().map(|(_, word)| *word).collect();
                format!(
                    "{TABLE}: {name} of {library} ({version}): `{word}` is none of the states {}",
                    known.join(", ")
                )
            })?;
            Ok(Row {
                library: (*library).to_owned(),
                name: (*name).to_owned(),
                node: node.to_owned(),
                is_default,
                since: (*since).to_owned(),
                state: *state,
            })
        })
        .collect()
}

/// `@@NODE` or `@NODE`.
fn split_version(version: &str) -> Option<(bool, &str)> {
    match (version.strip_prefix("@@"), version.strip_prefix('@')) {
        (Some(node), _) => Some((true, node)),
        (None, Some(node)) => Some((false, node)),
        (None, None) => None,
    }
}

/// A name in a version node.
#[derive(Debug, PartialEq, Eq)]
pub struct Symbol<'a> {
    /// Name without version.
    pub name: &'a str,
    /// Version node.
    pub node: &'a str,
    /// True for `@@`, the version that new programs bind to.
    pub is_default: bool,
}

/// The symbols of one library of the table.
pub fn of_library<'a>(rows: &'a [Row], library: &str) -> Vec<Symbol<'a>> {
    rows.iter()
        .filter(|row| row.library == library)
        .map(|row| Symbol {
            name: &row.name,
            node: &row.node,
            is_default: row.is_default,
        })
        .collect()
}

/// Parses a plain list, as `readelf --dyn-syms` prints names; empty lines are skipped.
pub fn parse(text: &str) -> Result<Vec<Symbol<'_>>, String> {
    text.lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .map(|line| {
            let at = line
                .find('@')
                .ok_or_else(|| format!("no version in `{line}`"))?;
            let (name, version) = line.split_at(at);
            let (is_default, node) = split_version(version).expect("it begins with @");
            Ok(Symbol {
                name,
                node,
                is_default,
            })
        })
        .collect()
}

/// The entry points that have no code of their own, and the hidden versions of those that have, as assembly; empty if there are none.
///
/// `.symver` gives each label its name and node. A hidden version is an entry of its own that jumps to the function, because an alias
/// of a symbol of another object file cannot be defined.
pub fn entries(rows: &[Row], library: &str) -> String {
    let mut by_name: BTreeMap<&str, Vec<&Row>> = BTreeMap::new();
    for row in rows.iter().filter(|row| row.library == library) {
        by_name.entry(&row.name).or_default().push(row);
    }
    let mut text = String::new();
    let mut number = 0;
    for (name, versions) in by_name {
        for state in versions
            .iter()
            .map(|row| row.state)
            .collect::<BTreeSet<_>>()
        {
            let mut labels = Vec::new();
            let has_code = state.answer().is_none() && state != State::Variable;
            for row in versions.iter().filter(|row| row.state == state) {
                if !(has_code && row.is_default) {
                    number += 1;
                    let at = if row.is_default { "@@" } else { "@" };
                    let version = format!("{name}{at}{}", row.node);
                    labels.push((format!("ferriband_version_{number}"), version));
                }
            }
            if !labels.is_empty() {
                text.push_str(&entry(name, state, &labels));
            }
        }
    }
    match text.is_empty() {
        true => text,
        false => format!("{text}\t.section .note.GNU-stack,\"\",@progbits\n"),
    }
}

/// One entry point under several labels, each with the versioned name that it gets.
fn entry(name: &str, state: State, labels: &[(String, String)]) -> String {
    let (section, kind) = match state {
        State::Variable => (".bss", "@object"),
        _ => (".text", "@function"),
    };
    let mut text = format!("\t{section}\n");
    for (label, version) in labels {
        let _ = write!(
            text,
            "\t.globl {label}\n\t.type {label}, {kind}\n{label}:\n\t.symver {label}, {version}\n"
        );
    }
    match state {
        State::Variable => text.push_str("\t.zero 1\n"),
        _ => {
            let target = state.answer().unwrap_or(name);
            let _ = write!(
                text,
                "\t.cfi_startproc\n\tjmp {target}@PLT\n\t.cfi_endproc\n"
            );
        }
    }
    for (label, _) in labels {
        let _ = writeln!(text, "\t.size {label}, . - {label}");
    }
    text
}

/// The version script: each node lists its default symbols; a hidden symbol gets its node from a `.symver`
/// directive, so its node need only exist. Public nodes inherit from one another in ascending order, as upstream's do.
///
/// What is not listed is local. That rule stands in the last node, because GNU ld applies the rules of a hidden symbol's
/// own node to it: in the first node, where hidden symbols live, it would hide them altogether.
pub fn version_script(symbols: &[Symbol<'_>]) -> String {
    let mut nodes: BTreeMap<(bool, Vec<u32>, &str), Vec<&str>> = BTreeMap::new();
    for symbol in symbols {
        let names = nodes.entry(sort_key(symbol.node)).or_default();
        if symbol.is_default {
            names.push(symbol.name);
        }
    }
    let mut script = String::new();
    let mut parent = None;
    let last = nodes.keys().next_back().map(|(_, _, node)| *node);
    for ((is_private, _, node), names) in &nodes {
        script.push_str(&format!("{node} {{\n"));
        if !names.is_empty() {
            script.push_str("\tglobal:\n");
        }
        for name in names {
            script.push_str(&format!("\t\t{name};\n"));
        }
        if last == Some(node) {
            script.push_str("\tlocal:\n\t\t*;\n");
        }
        match parent {
            Some(parent) if !is_private => script.push_str(&format!("}} {parent};\n\n")),
            _ => script.push_str("};\n\n"),
        }
        if !is_private {
            parent = Some(*node);
        }
    }
    script
}

/// The script of a library whose symbols have no versions: what is listed, one name a line, is exported, the rest is local.
pub fn export_script(list: &str) -> String {
    let names = list.lines().map(str::trim).filter(|name| !name.is_empty());
    let listed: String = names.map(|name| format!("\t\t{name};\n")).collect();
    format!("{{\n\tglobal:\n{listed}\tlocal:\n\t\t*;\n}};\n")
}

/// Orders public nodes by number (1.9 before 1.10) and private ones after them.
pub fn sort_key(node: &str) -> (bool, Vec<u32>, &str) {
    let suffix = node.rsplit('_').next().unwrap_or(node);
    let numbers = suffix
        .split('.')
        .filter_map(|part| part.parse().ok())
        .collect();
    (node.contains("PRIVATE"), numbers, node)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROWS: &str = "# text\nlibrary\tsymbol\tnode\tsince\tstate\n\
        lib\task\t@P_34\t40\toffered\n\
        lib\task\t@@P_57\t57\toffered\n\
        lib\tcmd\t@P_34\t40\trefused\n\
        lib\tcmd\t@@P_57\t57\trefused\n\
        lib\told\t@V_1.0\t1\trefused-null\n\
        lib\told\t@@V_1.1\t1\toffered\n\
        other\tflag\t@@V_1.1\t1\tvariable\n";

    #[test]
    fn rows_are_read_and_unknown_states_are_named() {
        let rows = parse_table(ROWS).expect("seven rows");
        assert_eq!(rows.len(), 7);
        assert_eq!(of_library(&rows, "lib").len(), 6);
        assert!(!rows[0].is_default && rows[1].is_default);
        let wrong = parse_table("lib\ta\t@@V_1.1\t1\tmissing\n").expect_err("no such state");
        assert!(wrong.contains("a of lib") && wrong.contains("missing"));
    }

    #[test]
    fn entries_are_made_for_refusals_and_for_hidden_versions() {
        let rows = parse_table(ROWS).expect("rows");
        let text = entries(&rows, "lib");
        assert!(text.contains(", ask@P_34\n") && text.contains("jmp ask@PLT"));
        assert!(!text.contains("ask@@"), "the function itself has code");
        assert!(text.contains(", cmd@@P_57\n") && text.contains(", cmd@P_34\n"));
        assert_eq!(text.matches("jmp ferriband_refuses@PLT").count(), 1);
        assert!(text.contains(", old@V_1.0\n") && text.contains("jmp ferriband_refuses_null@PLT"));
        assert!(!text.contains("jmp old@PLT"));
        assert!(entries(&rows, "other").contains(".zero 1"));
        assert_eq!(entries(&rows, "none"), "");
    }

    #[test]
    fn default_and_hidden_versions_are_told_apart() {
        let symbols = parse("a@@V_1.1\na@V_1.0\n").expect("two symbols");
        assert!(symbols[0].is_default && !symbols[1].is_default);
        assert!(parse("unversioned").is_err());
    }

    #[test]
    fn a_preloaded_library_has_no_nodes() {
        let script = export_script("open\n\nstat\n");
        assert!(
            script.starts_with('{') && script.contains("\topen;") && script.contains("\tstat;")
        );
    }

    #[test]
    fn nodes_are_ordered_by_number_and_chained() {
        let symbols =
            parse("p@@V_PRIVATE_34\nten@@V_1.10\nnine@@V_1.9\na@@V_1.1\na@V_1.0\n").expect("list");
        let script = version_script(&symbols);
        let order: Vec<usize> = [
            "V_1.0 {",
            "V_1.1 {",
            "V_1.9 {",
            "V_1.10 {",
            "V_PRIVATE_34 {",
        ]
        .iter()
        .map(|node| script.find(node).expect("each node is present"))
        .collect();
        assert!(order.is_sorted());
        assert!(script.contains("} V_1.9;"), "1.10 inherits from 1.9");
        let rule = script.find("local:").expect("the rest is local");
        assert!(
            rule > *order.last().expect("nodes"),
            "in the last node only"
        );
        assert_eq!(
            script.matches("\ta;").count(),
            1,
            "the hidden version is not listed twice"
        );
    }
}
