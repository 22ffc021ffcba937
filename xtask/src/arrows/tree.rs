//! The modules of a crate over its files, and what each file names of the others.
//!
//! A path is followed to the file that defines what it names, through every `use` on the way: a
//! door (`pub use`) is not what is meant. What a macro makes and methods of a type that a file
//! never names stay hidden.

use super::source::{self, Module, Named, Use};
use std::collections::{HashMap, HashSet};

/// How many `use` a path is followed through.
const MOST_DOORS: usize = 16;

/// What one file names of another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrow {
    /// The file that names, by its path in the workspace.
    pub from: String,
    /// The line, counted from 1.
    pub line: usize,
    /// The path that stands there.
    pub names: String,
    /// The file that defines it.
    pub to: String,
    /// What kind of naming it is.
    pub kind: Naming,
    /// True between a file and one in its own folder of children, at any depth.
    pub is_family: bool,
}

/// How something is named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Naming {
    /// By a path to one thing.
    One,
    /// All of a module: `use super::*`.
    All,
    /// By an inherent `impl` of its type.
    Impl,
}

/// What is known of a crate.
#[derive(Debug, Default)]
pub struct Crate {
    /// Its files, without those of tests, in the order in which they are reached.
    pub files: Vec<String>,
    /// What they name of each other, in the order of files and lines.
    pub arrows: Vec<Arrow>,
}

/// Reads the crate in the directory `dir`; `text_of` gives a file by its path in the workspace.
pub fn read(dir: &str, text_of: &dyn Fn(&str) -> Option<String>) -> Crate {
    let mut found = Crate::default();
    for root in ["lib.rs", "main.rs"] {
        let src = format!("{dir}/src");
        let file = format!("{src}/{root}");
        let Some(text) = text_of(&file) else {
            continue;
        };
        let mut tree = Tree {
            text_of,
            files: vec![file],
            modules: HashMap::new(),
            order: Vec::new(),
        };
        tree.place(Vec::new(), 0, &src, source::read(&text));
        let arrows = tree.arrows();
        found.arrows.extend(arrows);
        let new = tree.files.into_iter();
        let known: HashSet<String> = found.files.iter().cloned().collect();
        found.files.extend(new.filter(|file| !known.contains(file)));
    }
    found
        .arrows
        .sort_by(|a, b| (&a.from, a.line, &a.to).cmp(&(&b.from, b.line, &b.to)));
    found
}

struct Tree<'a> {
    text_of: &'a dyn Fn(&str) -> Option<String>,
    files: Vec<String>,
    modules: HashMap<Vec<String>, Placed>,
    order: Vec<Vec<String>>,
}

/// A module, and the file that it stands in.
struct Placed {
    file: usize,
    /// True if the file is its own, false if its body stands in its parent's file.
    is_file: bool,
    children: HashSet<String>,
    module: Module,
}

impl Tree<'_> {
    /// Takes a module in, and all below it. Files of its children lie in `dir`.
    fn place(&mut self, path: Vec<String>, file: usize, dir: &str, mut module: Module) {
        let inline = std::mem::take(&mut module.inline);
        let outer = std::mem::take(&mut module.files);
        let names = inline.iter().map(|(name, _)| name);
        let names = names.chain(outer.iter().map(|(name, _)| name));
        let placed = Placed {
            file,
            is_file: self.modules.values().all(|other| other.file != file),
            children: names.cloned().collect(),
            module,
        };
        self.modules.insert(path.clone(), placed);
        self.order.push(path.clone());
        for (name, body) in inline {
            let dir = format!("{dir}/{name}");
            self.place(joined(&path, &name), file, &dir, body);
        }
        for (name, given) in outer {
            self.place_file(joined(&path, &name), file, dir, given.as_deref());
        }
    }

    /// Takes in a module that is a file, if it is there (it may be another system's).
    fn place_file(&mut self, path: Vec<String>, parent: usize, dir: &str, given: Option<&str>) {
        let name = path.last().map_or("", String::as_str);
        let own = format!("{dir}/{name}");
        let places = match given {
            Some(given) => {
                let place = normal(&format!("{}/{given}", folder(&self.files[parent])));
                vec![(place.clone(), folder(&place).to_owned())]
            }
            None => vec![
                (format!("{own}.rs"), own.clone()),
                (format!("{own}/mod.rs"), own),
            ],
        };
        for (place, children) in places {
            if let Some(text) = (self.text_of)(&place) {
                self.files.push(place);
                let module = source::read(&text);
                self.place(path, self.files.len() - 1, &children, module);
                return;
            }
        }
    }

    /// All arrows, and inherent impls of types that another file defines.
    fn arrows(&self) -> Vec<Arrow> {
        let mut found = Vec::new();
        for path in &self.order {
            let placed = &self.modules[path];
            let module = &placed.module;
            let mut add = |named: &Named, kind| {
                let whole = self.absolute(path, &named.path, MOST_DOORS);
                let to = whole.and_then(|whole| self.defined(&whole, MOST_DOORS));
                if let Some(to) = to.filter(|&to| to != placed.file) {
                    found.push(self.arrow(placed.file, named, kind, to));
                }
            };
            for of in module.uses.iter().filter(|of| !of.is_public) {
                let is_module = of.bound.is_none() && self.is_module(path, &of.named.path);
                let kind = if is_module { Naming::All } else { Naming::One };
                add(&of.named, kind);
            }
            for named in &module.named {
                add(named, Naming::One);
            }
            for named in &module.impls {
                add(named, Naming::Impl);
            }
        }
        found
    }

    fn arrow(&self, from: usize, named: &Named, kind: Naming, to: usize) -> Arrow {
        let (own, other) = (self.own_path(from), self.own_path(to));
        Arrow {
            from: self.files[from].clone(),
            line: named.line,
            names: named.path.join("::"),
            to: self.files[to].clone(),
            kind,
            is_family: own.starts_with(other) || other.starts_with(own),
        }
    }

    /// The path of the module that a file is.
    fn own_path(&self, file: usize) -> &[String] {
        let is_own = |path: &&Vec<String>| {
            let placed = &self.modules[*path];
            placed.file == file && placed.is_file
        };
        self.order.iter().find(is_own).map_or(&[], Vec::as_slice)
    }

    /// True if `path` is a module of this crate.
    fn is_module(&self, at: &[String], path: &[String]) -> bool {
        self.absolute(at, path, MOST_DOORS)
            .is_some_and(|whole| self.modules.contains_key(&whole))
    }

    /// What `path` means in the module `at`, from the root of the crate; none if it leads out of
    /// it. `most`: through how many `use`, for a name may be brought in by way of itself.
    fn absolute(&self, at: &[String], path: &[String], most: usize) -> Option<Vec<String>> {
        let mut base = at.to_vec();
        let first = path.first()?.as_str();
        match first {
            "crate" => return Some(path[1..].to_vec()),
            "super" | "self" => {
                let climbs = path
                    .iter()
                    .take_while(|part| *part == "super" || *part == "self");
                for part in climbs.clone() {
                    if part == "super" {
                        base.pop()?;
                    }
                }
                base.extend_from_slice(&path[climbs.count()..]);
                return Some(base);
            }
            _ => {}
        }
        let placed = self.modules.get(at)?;
        let is_own = placed.children.contains(first) || placed.module.items.contains(first);
        if !is_own {
            let uses = &placed.module.uses;
            let names = |of: &&Use| of.bound.as_deref() == Some(first);
            if let Some(of) = uses.iter().find(names) {
                let mut whole = self.absolute(at, &of.named.path, most.checked_sub(1)?)?;
                whole.extend_from_slice(&path[1..]);
                return Some(whole);
            }
            let through = self.through_globs(at, first, 2)?;
            return Some([&through, &path[1..]].concat());
        }
        base.extend_from_slice(path);
        Some(base)
    }

    /// Where `name` comes from, if a `use` of everything brings it into the module `at`.
    fn through_globs(&self, at: &[String], name: &str, most: usize) -> Option<Vec<String>> {
        let globs = self.modules.get(at)?.module.uses.iter();
        let globs = globs.filter(|of| of.bound.is_none() && of.is_of_module);
        for of in globs {
            let Some(from) = self.plain(at, &of.named.path) else {
                continue;
            };
            let Some(placed) = self.modules.get(&from) else {
                continue;
            };
            // What a module brings in for itself is seen by those below it alone.
            let is_seen = |of: &Use| of.is_public || at.starts_with(&from);
            let is_bound =
                |of: &Use| of.is_of_module && of.bound.as_deref() == Some(name) && is_seen(of);
            let is_here = placed.module.items.contains(name)
                || placed.children.contains(name)
                || placed.module.uses.iter().any(is_bound);
            if is_here {
                return Some(joined(&from, name));
            }
            if most > 0
                && from != at
                && let Some(found) = self.through_globs(&from, name, most - 1)
            {
                return Some(found);
            }
        }
        None
    }

    /// A path of a `use` of everything from the root of the crate, by its modules alone.
    fn plain(&self, at: &[String], path: &[String]) -> Option<Vec<String>> {
        let first = path.first()?.as_str();
        let is_child = self.modules.get(at)?.children.contains(first);
        match first {
            "crate" | "super" | "self" => self.absolute(at, path, MOST_DOORS),
            _ if is_child => Some([at, path].concat()),
            _ => None,
        }
    }

    /// The file that defines what a path from the root names, through doors; none if that is
    /// another crate's.
    fn defined(&self, path: &[String], most: usize) -> Option<usize> {
        let depth = (0..=path.len())
            .rev()
            .find(|&length| self.modules.contains_key(&path[..length]))?;
        let (at, rest) = path.split_at(depth);
        let placed = &self.modules[at];
        let Some(name) = rest.first() else {
            return Some(placed.file);
        };
        if placed.module.items.contains(name) || most == 0 {
            return Some(placed.file);
        }
        let names = |of: &&Use| of.is_of_module && of.bound.as_ref() == Some(name);
        if let Some(of) = placed.module.uses.iter().find(names) {
            let door = self.absolute(at, &of.named.path, MOST_DOORS)?;
            return self.defined(&[&door, &rest[1..]].concat(), most - 1);
        }
        match self.through_globs(at, name, 2) {
            Some(door) => self.defined(&[&door, &rest[1..]].concat(), most - 1),
            None => Some(placed.file),
        }
    }
}

fn joined(path: &[String], name: &str) -> Vec<String> {
    let mut longer = path.to_vec();
    longer.push(name.to_owned());
    longer
}

/// The directory of a file.
fn folder(file: &str) -> &str {
    file.rsplit_once('/').map_or("", |(folder, _)| folder)
}

/// A path without `.` and `..`.
fn normal(path: &str) -> String {
    let mut parts = Vec::new();
    for part in path.split('/') {
        match part {
            "." | "" => {}
            ".." => {
                parts.pop();
            }
            _ => parts.push(part),
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The arrows of a small crate, as `from:line -> to`, with the kind where it is not one name.
    fn arrows(files: &[(&str, &str)]) -> Vec<String> {
        let short = |file: &str| file.trim_start_matches("c/src/").to_owned();
        let text_of = |path: &str| {
            let of = |(name, _): &&(&str, &str)| format!("c/src/{name}") == path;
            files.iter().find(of).map(|(_, text)| (*text).to_owned())
        };
        let show = |arrow: Arrow| {
            let family = if arrow.is_family { " family" } else { "" };
            let kind = match arrow.kind {
                Naming::One => String::new(),
                kind => format!(" {kind:?}"),
            };
            let (from, to) = (short(&arrow.from), short(&arrow.to));
            format!("{from}:{} -> {to}{kind}{family}", arrow.line)
        };
        read("c", &text_of).arrows.into_iter().map(show).collect()
    }

    #[test]
    fn a_path_is_followed_through_doors() {
        let lib = (
            "lib.rs",
            "pub mod a;\nmod b;\nmod d;\npub use b::B;\npub use d::*;",
        );
        let b = ("b.rs", "mod deep;\npub use deep::B;");
        let deep = ("b/deep.rs", "pub struct B;");
        let d = ("d.rs", "pub struct D;");
        let a = (
            "a.rs",
            "use crate::{B, D};\nfn f() { crate::D::new() }\nuse crate::{self as all};\nfn g(_: all::B) {}",
        );
        assert_eq!(
            arrows(&[lib, a, b, deep, d]),
            [
                "a.rs:1 -> b/deep.rs",
                "a.rs:1 -> d.rs",
                "a.rs:2 -> d.rs",
                "a.rs:3 -> lib.rs family",
                "a.rs:4 -> b/deep.rs"
            ]
        );
    }

    #[test]
    fn super_self_and_children_are_found_in_modules_of_every_depth() {
        let lib = ("lib.rs", "mod a;\nmod e;");
        let a = (
            "a/mod.rs",
            "mod b;\nmod c;\nfn f() { b::g(); self::c::h() }",
        );
        let b = (
            "a/b.rs",
            "use super::c;\nfn g() { c::h() }\nmod inner { use super::super::c::h;\nuse super::g; }",
        );
        let c = ("a/c.rs", "pub fn h() { super::super::e::i() }");
        let e = ("e.rs", "pub fn i() {}");
        assert_eq!(
            arrows(&[lib, a, b, c, e]),
            [
                "a/b.rs:1 -> a/c.rs",
                "a/b.rs:2 -> a/c.rs",
                "a/b.rs:3 -> a/c.rs",
                "a/c.rs:1 -> e.rs",
                "a/mod.rs:3 -> a/b.rs family",
                "a/mod.rs:3 -> a/c.rs family"
            ]
        );
    }

    #[test]
    fn other_crates_and_tests_are_no_arrows() {
        let lib = ("lib.rs", "mod a;\nmod std_like;\n#[cfg(test)]\nmod tests;");
        let a = (
            "a.rs",
            "use std::fmt;\nuse other::std_like::X;\npub fn f() { fmt::g(); ::std_like::h() }",
        );
        let like = (
            "std_like.rs",
            "#[cfg(test)]\nmod tests { use crate::a::f; }",
        );
        let tests = ("tests.rs", "use crate::a;");
        assert!(arrows(&[lib, a, like, tests]).is_empty());
    }

    #[test]
    fn files_are_found_where_path_says() {
        let lib = ("lib.rs", "#[path = \"sub/x.rs\"]\nmod a;\nmod b;");
        let x = ("sub/x.rs", "mod y;\nuse crate::b::B;");
        let y = ("sub/y.rs", "use super::super::b::B;");
        let b = ("b.rs", "pub struct B;");
        assert_eq!(
            arrows(&[lib, x, y, b]),
            ["sub/x.rs:2 -> b.rs", "sub/y.rs:1 -> b.rs"]
        );
    }

    #[test]
    fn what_brings_in_all_and_impls_of_others_are_told_apart() {
        let lib = ("lib.rs", "mod a;\nmod b;");
        let a = ("a.rs", "pub struct A;\npub enum K { L }\nimpl A {}");
        let b = (
            "b.rs",
            "use crate::a::*;\nuse crate::a::K::*;\nimpl A {}\nimpl Clone for A {}",
        );
        assert_eq!(
            arrows(&[lib, a, b]),
            [
                "b.rs:1 -> a.rs All",
                "b.rs:2 -> a.rs",
                "b.rs:3 -> a.rs Impl"
            ]
        );
    }
}
