//! The exported symbols of a drop-in library and the linker's version script made from them.
//!
//! The list is the contract: one `name@@NODE` (default version) or `name@NODE` (hidden, for programs linked long ago) per
//! line, as `readelf --dyn-syms` prints them for the library that is replaced.

use std::collections::BTreeMap;

/// One line of the list.
#[derive(Debug, PartialEq, Eq)]
pub struct Symbol<'a> {
    /// Name without version.
    pub name: &'a str,
    /// Version node.
    pub node: &'a str,
    /// True for `@@`, the version that new programs bind to.
    pub is_default: bool,
}

/// Parses the list; empty lines are skipped.
pub fn parse(text: &str) -> Result<Vec<Symbol<'_>>, String> {
    text.lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .map(|line| {
            let (name, version) = line
                .split_once('@')
                .ok_or_else(|| format!("no version in `{line}`"))?;
            let (node, is_default) = match version.strip_prefix('@') {
                Some(node) => (node, true),
                None => (version, false),
            };
            Ok(Symbol {
                name,
                node,
                is_default,
            })
        })
        .collect()
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
fn sort_key(node: &str) -> (bool, Vec<u32>, &str) {
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
