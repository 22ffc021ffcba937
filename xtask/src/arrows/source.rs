//! What a source says: its modules, what each brings in by `use`, and which paths its code names.
//!
//! What stands under `#[cfg(test)]`, `cfg(loom)` or `cfg(fuzzing)` is left out: tests may hold one
//! room against another. Nothing is known here of files or of what a path means.

use super::lexer::{Kind, Token, tokens};
use std::collections::HashSet;

/// A module, as one file says it.
#[derive(Debug, Default)]
pub struct Module {
    /// Modules whose body stands in this one: name and body.
    pub inline: Vec<(String, Module)>,
    /// Modules whose body is a file: name, and what `#[path]` says.
    pub files: Vec<(String, Option<String>)>,
    /// Names of the items that the module defines itself.
    pub items: HashSet<String>,
    /// What `use` brings in.
    pub uses: Vec<Use>,
    /// Paths of two parts and more outside of `use`.
    pub named: Vec<Named>,
    /// Types with an inherent `impl` here.
    pub impls: Vec<Named>,
}

/// One path of a `use`.
#[derive(Debug, PartialEq, Eq)]
pub struct Use {
    /// The path, without `as` and without `*`.
    pub named: Named,
    /// The name that it gets here; none for `*`.
    pub bound: Option<String>,
    /// True if others may name it here: a door.
    pub is_public: bool,
    /// True if it stands in the module itself, false if it stands in the body of a function.
    pub is_of_module: bool,
}

/// A path and its line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// The parts between `::`.
    pub path: Vec<String>,
    /// Counted from 1.
    pub line: usize,
}

/// Words after which an item goes on to a `;`, however many braces stand before.
const ENDS_BY_SEMICOLON: [&str; 5] = ["use", "static", "let", "type", "const"];

/// Words that begin an item with a body in braces.
const ENDS_BY_BODY: [&str; 11] = [
    "fn",
    "mod",
    "struct",
    "enum",
    "union",
    "trait",
    "impl",
    "unsafe",
    "async",
    "extern",
    "macro_rules",
];

/// Words after which the name of an item stands.
const DEFINES: [&str; 8] = [
    "fn", "struct", "enum", "union", "trait", "type", "const", "static",
];

/// Reads a source. What is no Rust is read as far as it goes: the compiler says what is wrong.
pub fn read(text: &str) -> Module {
    let mut reader = Reader {
        tokens: tokens(text),
        at: 0,
    };
    reader.module()
}

struct Reader<'a> {
    tokens: Vec<Token<'a>>,
    at: usize,
}

impl<'a> Reader<'a> {
    /// Reads a module up to its closing brace or the end of the text.
    fn module(&mut self) -> Module {
        let mut module = Module::default();
        let mut depth = 0;
        let mut path = None;
        let mut public_at = usize::MAX;
        while let Some(kind) = self.kind(self.at) {
            match kind {
                Kind::Sign(b'#') if self.is_attribute() => {
                    if let Some(given) = self.attribute(depth) {
                        path = Some(given);
                    }
                    continue;
                }
                Kind::Sign(b'{') => depth += 1,
                Kind::Sign(b'}') if depth == 0 => break,
                Kind::Sign(b'}') => depth -= 1,
                Kind::Word("pub") => {
                    self.at += 1;
                    self.visibility();
                    public_at = self.at;
                    continue;
                }
                Kind::Word("mod") => {
                    self.child(&mut module, path.take());
                    continue;
                }
                Kind::Word("use") if self.kind(self.at + 1) != Some(Kind::Sign(b'<')) => {
                    let is_public = public_at == self.at;
                    self.at += 1;
                    self.use_tree(&[], &mut |named, bound| {
                        module.uses.push(Use {
                            named,
                            bound,
                            is_public,
                            is_of_module: depth == 0,
                        });
                    });
                    continue;
                }
                Kind::Word("impl") => module.impls.extend(self.inherent()),
                Kind::Word(word) => {
                    if depth == 0 {
                        module.items.extend(self.defined(word));
                    }
                    if let Some(named) = self.path() {
                        module.named.push(named);
                        continue;
                    }
                }
                _ => {}
            }
            self.at += 1;
        }
        module
    }

    fn kind(&self, at: usize) -> Option<Kind<'a>> {
        self.tokens.get(at).map(|token| token.kind)
    }

    fn word(&self, at: usize) -> Option<&'a str> {
        match self.kind(at) {
            Some(Kind::Word(word)) => Some(word),
            _ => None,
        }
    }

    fn is_sign(&self, at: usize, sign: u8) -> bool {
        self.kind(at) == Some(Kind::Sign(sign))
    }

    /// True if the `#` here begins an attribute, outer or inner.
    fn is_attribute(&self) -> bool {
        let next = self.at + 1;
        self.is_sign(next, b'[') || self.is_sign(next, b'!') && self.is_sign(next + 1, b'[')
    }

    /// Goes past an attribute, and past what it says is for tests. Returns what `path` gives.
    fn attribute(&mut self, depth: usize) -> Option<String> {
        let is_inner = self.is_sign(self.at + 1, b'!');
        let start = self.at + 2 + usize::from(is_inner);
        let end = self.closing(start - 1);
        self.at = end + 1;
        match (self.word(start), self.kind(start + 2)) {
            (Some("path"), Some(Kind::Text(path))) => return Some(path.to_owned()),
            (Some("cfg"), _) if self.is_for_tests(start + 2, end) => {
                if is_inner {
                    self.skip_body(depth);
                } else {
                    self.skip_item();
                }
            }
            _ => {}
        }
        None
    }

    /// Where what is opened at `open` is closed: the index of the closing sign, or the end.
    fn closing(&self, open: usize) -> usize {
        let mut depth = 0;
        for at in open..self.tokens.len() {
            match self.tokens[at].kind {
                Kind::Sign(b'(' | b'[' | b'{') => depth += 1,
                Kind::Sign(b')' | b']' | b'}') => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                return at;
            }
        }
        self.tokens.len()
    }

    /// True if a condition of `cfg` that begins at `at` holds in tests alone.
    fn is_for_tests(&self, at: usize, end: usize) -> bool {
        let arguments = || {
            let close = self.closing(at + 1).min(end);
            let mut starts = vec![at + 2];
            let mut next = at + 2;
            while next < close {
                match self.kind(next) {
                    Some(Kind::Sign(b'(')) => next = self.closing(next),
                    Some(Kind::Sign(b',')) if next + 1 < close => starts.push(next + 1),
                    _ => {}
                }
                next += 1;
            }
            starts
        };
        let holds = |start: usize| self.is_for_tests(start, end);
        match self.word(at) {
            Some("test" | "loom" | "fuzzing") => true,
            Some("all") => arguments().into_iter().any(holds),
            Some("any") => arguments().into_iter().all(holds),
            _ => false,
        }
    }

    /// Goes to the end of the body that this is in, `depth` braces inside of the module.
    fn skip_body(&mut self, depth: usize) {
        let mut depth = depth + 1;
        while let Some(kind) = self.kind(self.at) {
            match kind {
                Kind::Sign(b'{') => depth += 1,
                Kind::Sign(b'}') => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                return;
            }
            self.at += 1;
        }
    }

    /// Goes past the item, field, variant, arm or statement here, and the attributes before it.
    fn skip_item(&mut self) {
        while self.is_sign(self.at, b'#') && self.is_sign(self.at + 1, b'[') {
            self.at = self.closing(self.at + 1) + 1;
        }
        if self.word(self.at) == Some("pub") {
            self.at += 1;
            self.visibility();
        }
        let first = self.word(self.at).unwrap_or("");
        let is_function = matches!(self.word(self.at + 1), Some("fn" | "unsafe" | "extern"));
        let by_semicolon = ENDS_BY_SEMICOLON.contains(&first) && !is_function;
        let by_body = ENDS_BY_BODY.contains(&first) || first == "const" && is_function;
        while let Some(kind) = self.kind(self.at) {
            match kind {
                Kind::Sign(b';') => {
                    self.at += 1;
                    return;
                }
                Kind::Sign(b',') if !by_semicolon && !by_body => {
                    self.at += 1;
                    return;
                }
                Kind::Sign(b'}' | b')' | b']') => return,
                Kind::Sign(open @ (b'{' | b'(' | b'[')) => {
                    self.at = self.closing(self.at) + 1;
                    if open == b'{' && !by_semicolon {
                        return;
                    }
                }
                _ => self.at += 1,
            }
        }
    }

    /// Goes past what stands in parentheses behind `pub`.
    fn visibility(&mut self) {
        let is_place = matches!(self.word(self.at + 1), Some("crate" | "super" | "self"))
            && self.is_sign(self.at + 2, b')');
        if self.is_sign(self.at, b'(') && (is_place || self.word(self.at + 1) == Some("in")) {
            self.at = self.closing(self.at) + 1;
        }
    }

    /// Takes `mod name;` or `mod name { ... }`.
    fn child(&mut self, module: &mut Module, path: Option<String>) {
        self.at += 1;
        let Some(name) = self.word(self.at).map(str::to_owned) else {
            return;
        };
        self.at += 1;
        match self.kind(self.at) {
            Some(Kind::Sign(b';')) => module.files.push((name, path)),
            Some(Kind::Sign(b'{')) => {
                self.at += 1;
                module.inline.push((name, self.module()));
            }
            _ => return,
        }
        self.at += 1;
    }

    /// Takes a tree of `use` apart; `found` gets each path, and the name that it gets here.
    fn use_tree(&mut self, prefix: &[String], found: &mut impl FnMut(Named, Option<String>)) {
        let mut path = prefix.to_vec();
        if self.kind(self.at) == Some(Kind::Colons) {
            // A path of the other crates: the part before `::` is empty, and nobody has that name.
            path.push(String::new());
            self.at += 1;
        }
        while let Some(token) = self.tokens.get(self.at).copied() {
            let line = token.line;
            match token.kind {
                Kind::Word(word) => {
                    self.at += 1;
                    if word != "self" || path.is_empty() {
                        path.push(word.to_owned());
                    }
                    if self.kind(self.at) == Some(Kind::Colons) {
                        self.at += 1;
                        continue;
                    }
                    let mut bound = path.last().cloned();
                    if self.word(self.at) == Some("as") {
                        bound = self.word(self.at + 1).map(str::to_owned);
                        self.at += 2;
                    }
                    return found(Named { path, line }, bound);
                }
                Kind::Sign(b'*') => {
                    self.at += 1;
                    return found(Named { path, line }, None);
                }
                Kind::Sign(b'{') => {
                    let end = self.closing(self.at);
                    self.at += 1;
                    while self.at < end {
                        self.use_tree(&path, found);
                        // Past the comma, and past whatever a broken text has in its place.
                        while self.at < end && !self.is_sign(self.at, b',') {
                            self.at += 1;
                        }
                        self.at += 1;
                    }
                    self.at = end + 1;
                    return;
                }
                _ => return,
            }
        }
    }

    /// The name of the item that the word here defines.
    fn defined(&self, word: &str) -> Option<String> {
        let behind = match word {
            "macro_rules" => 2,
            _ if DEFINES.contains(&word) => 1,
            _ => return None,
        };
        self.word(self.at + behind).map(str::to_owned)
    }

    /// Takes the path that begins here, if it has two parts and more.
    fn path(&mut self) -> Option<Named> {
        let before = self.at.checked_sub(1).and_then(|at| self.kind(at));
        let is_argument = before == Some(Kind::Sign(b'$')) && self.word(self.at) != Some("crate");
        let goes_on = self.kind(self.at + 1) == Some(Kind::Colons);
        if is_argument || !goes_on || matches!(before, Some(Kind::Colons | Kind::Sign(b'.'))) {
            return None;
        }
        let line = self.tokens[self.at].line;
        let path = self.parts();
        (path.len() > 1).then_some(Named { path, line })
    }

    /// Takes the parts of the path that begins with the word here.
    fn parts(&mut self) -> Vec<String> {
        let mut path = Vec::new();
        while let Some(word) = self.word(self.at) {
            path.push(word.to_owned());
            self.at += 1;
            if self.kind(self.at) != Some(Kind::Colons) || self.word(self.at + 1).is_none() {
                break;
            }
            self.at += 1;
        }
        path
    }

    /// The type of the inherent `impl` that begins here; none for a trait's, and for `impl Trait`.
    fn inherent(&mut self) -> Option<Named> {
        let before = self.at.checked_sub(1).and_then(|at| self.kind(at));
        let is_item = matches!(
            before,
            None | Some(Kind::Sign(b'}' | b'{' | b';' | b']') | Kind::Word("unsafe"))
        );
        if !is_item {
            return None;
        }
        let start = self.at;
        self.at += 1;
        self.skip_angles();
        let line = self.tokens.get(self.at).map_or(0, |token| token.line);
        let path = self.parts();
        self.skip_angles();
        let is_inherent = self.is_sign(self.at, b'{') || self.word(self.at) == Some("where");
        // What stands in the head is read again: it names paths as other code does.
        self.at = start;
        (is_inherent && !path.is_empty()).then_some(Named { path, line })
    }

    /// Goes past `<...>`.
    fn skip_angles(&mut self) {
        if !self.is_sign(self.at, b'<') {
            return;
        }
        let mut depth = 0;
        while let Some(kind) = self.kind(self.at) {
            let is_arrow = self.is_sign(self.at - 1, b'-') || self.is_sign(self.at - 1, b'=');
            match kind {
                Kind::Sign(b'<') => depth += 1,
                Kind::Sign(b'>') if !is_arrow => depth -= 1,
                _ => {}
            }
            self.at += 1;
            if depth == 0 {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Paths that a module names, in and outside of `use`, as `path@line`.
    fn paths(module: &Module) -> Vec<String> {
        let uses = module.uses.iter().map(|of| &of.named);
        uses.chain(&module.named)
            .map(|named| format!("{}@{}", named.path.join("::"), named.line))
            .collect()
    }

    #[test]
    fn trees_of_use_are_taken_apart() {
        let module = read(
            "use crate::a::{self, B, c::{D as E, F},\n g::*};\npub(in crate::x) use self::h;\n\
             fn f() { use super::super::I as _; }\nuse ::std::io;",
        );
        let shown = |of: &Use| {
            let bound = of.bound.as_deref().unwrap_or("*");
            let kinds = (of.is_public, of.is_of_module);
            (of.named.path.join("::"), bound.to_owned(), kinds)
        };
        let expected = [
            ("crate::a", "a", (false, true)),
            ("crate::a::B", "B", (false, true)),
            ("crate::a::c::D", "E", (false, true)),
            ("crate::a::c::F", "F", (false, true)),
            ("crate::a::g", "*", (false, true)),
            ("self::h", "h", (true, true)),
            ("super::super::I", "_", (false, false)),
            ("::std::io", "io", (false, true)),
        ];
        let found: Vec<_> = module.uses.iter().map(shown).collect();
        let expected: Vec<_> = expected
            .map(|(path, bound, kinds)| (path.to_owned(), bound.to_owned(), kinds))
            .into();
        assert_eq!(found, expected);
        assert_eq!(module.uses[4].named.line, 2);
    }

    #[test]
    fn paths_in_code_are_found() {
        let module = read(
            "fn f(a: crate::b::C) -> d::E {\n g::<h::I>(); a.j::<K>(); $crate::l(); $m::n(); \
             <T as o::P>::q() }\nstruct S(pub crate::r::S, pub(crate) u8);",
        );
        assert_eq!(
            paths(&module),
            [
                "crate::b::C@1",
                "d::E@1",
                "h::I@2",
                "crate::l@2",
                "o::P@2",
                "crate::r::S@3"
            ]
        );
    }

    #[test]
    fn what_is_for_tests_is_left_out() {
        let module = read(
            "#[cfg(test)] mod tests;\n#[cfg(test)] mod more { use super::*; }\n\
             #[cfg(all(unix, test))] use crate::a::B;\n#[cfg(any(test, loom))] #[inline] fn c() { d::e() }\n\
             struct S { #[cfg(test)] f: g::H<u8>, i: j::K }\n#[cfg(any(test, unix))] use crate::l::M;\n\
             #[cfg(not(test))] use crate::n::O;\n#[cfg(test)] pub(crate) const fn p() { q::r() }\n\
             #[cfg(test)] const S: [t::U; 1] = [t::U { v: 1 }];\n#[cfg(feature = \"test\")] use w::X;",
        );
        assert!(module.files.is_empty() && module.inline.is_empty());
        assert_eq!(
            paths(&module),
            ["crate::l::M@6", "crate::n::O@7", "w::X@10", "j::K@5"]
        );
        assert!(paths(&read("#![cfg(test)]\nuse crate::a;")).is_empty());
        let inner = read("mod a { #![cfg(test)] fn f() { b::c() } }\nuse crate::d;");
        assert_eq!(paths(&inner), ["crate::d@2"]);
        assert!(paths(&inner.inline[0].1).is_empty());
    }

    #[test]
    fn modules_and_items_are_found() {
        let module = read(
            "pub mod a;\n#[path = \"x/b.rs\"]\nmod b;\nmod c { pub fn d() {} mod e; }\n\
             pub const fn f() { fn not_of_the_module() {} }\nmacro_rules! g { () => {} }\nenum H { I }",
        );
        let expected = [
            ("a".to_owned(), None),
            ("b".to_owned(), Some("x/b.rs".to_owned())),
        ];
        assert_eq!(module.files, expected);
        assert_eq!(module.inline[0].0, "c");
        assert!(module.inline[0].1.items.contains("d"));
        assert_eq!(module.inline[0].1.files, [("e".to_owned(), None)]);
        for item in ["f", "g", "H"] {
            assert!(module.items.contains(item), "{item}");
        }
        assert!(!module.items.contains("not_of_the_module"));
    }

    #[test]
    fn inherent_impls_are_told_from_those_of_traits() {
        let module = read(
            "impl A { fn f() -> impl B {} }\nimpl<T: Fn() -> u8> c::D<T> where T: E {}\n\
             impl F for G {}\nunsafe impl<'a> H<'a> for I {}\nfn f(_: impl J) {}",
        );
        let found: Vec<_> = module
            .impls
            .iter()
            .map(|named| named.path.join("::"))
            .collect();
        assert_eq!(found, ["A", "c::D"]);
    }
}
