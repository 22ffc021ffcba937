use super::*;

/// What the gate says of a small crate `c` with these files under src, by a page with these tables.
fn said(files: &[(&str, &str)], page: &str) -> Vec<String> {
    let paths: Vec<String> = files
        .iter()
        .map(|(name, _)| format!("c/src/{name}"))
        .collect();
    let mut listed: Vec<&str> = paths.iter().map(String::as_str).collect();
    listed.extend(["c/Cargo.toml", "docs/Cargo.toml"]);
    let text_of = |path: &str| {
        let at = paths.iter().position(|other| other == path)?;
        Some(files[at].1.to_owned())
    };
    breaches(&listed, &text_of, &format!("{}\n\n{page}", tables::HEADING))
}

/// A message, if it is the only one and all of `parts` stand in it.
fn assert_says(said: &[String], parts: &[&str]) {
    assert_eq!(said.len(), 1, "{said:#?}");
    for part in parts {
        assert!(said[0].contains(part), "{part}: {}", said[0]);
    }
}

const LIB: (&str, &str) = ("lib.rs", "mod a;\nmod b;\nmod d;\npub use a::A;");
const A: (&str, &str) = ("a.rs", "use crate::b::B;\npub struct A;");
const A_ALONE: (&str, &str) = ("a.rs", "pub struct A;");
const B: (&str, &str) = ("b.rs", "\npub fn b() -> crate::A {}\npub struct B;");
const D: (&str, &str) = ("d.rs", "");
/// Makes a circle with b, and so with a.
const D_WITH_B: (&str, &str) = ("d.rs", "use crate::b::B;\npub struct D;");
const B_WITH_D: (&str, &str) = ("b.rs", "use crate::{A, d::D};\npub struct B;");

#[test]
fn a_circle_of_files_is_found() {
    let says = said(&[LIB, A, B, D], "");
    let parts = [
        "c/src/a.rs:1: names crate::b::B of b",
        "c/src/b.rs:2: names crate::A of a",
        "2 files",
    ];
    assert_says(&says, &parts);
    assert!(said(&[LIB, A_ALONE, B, D], "").is_empty());
}

#[test]
fn a_circle_that_stands_may_not_grow() {
    let page = "### Circles that stand\n| c | a b |";
    assert!(said(&[LIB, A, B, D], page).is_empty());
    let parts = [
        "c/src/b.rs:1: names crate::d::D of d",
        "c/src/d.rs:1: names crate::b::B of b",
        "2 files",
    ];
    assert_says(&said(&[LIB, A, B_WITH_D, D_WITH_B], page), &parts);
}

#[test]
fn two_circles_that_stand_may_not_become_one() {
    let lib = ("lib.rs", "mod a; mod b; mod d; mod e;");
    let a = ("a.rs", "use crate::b;\nuse crate::d;");
    let a_alone = ("a.rs", "use crate::b;");
    let b = ("b.rs", "use crate::a;");
    let d = ("d.rs", "use crate::e;");
    let e = ("e.rs", "use crate::d;\nuse crate::b;");
    let page = "### Circles that stand\n| c | a b; d e |";
    assert!(said(&[lib, a_alone, b, d, e], page).is_empty());
    assert_says(
        &said(&[lib, a, b, d, e], page),
        &["a.rs:2: names crate::d of d", "e.rs:2: names crate::b of b"],
    );
}

#[test]
fn a_circle_that_has_shrunk_or_gone_is_to_be_struck_off() {
    let page = "### Circles that stand\n| c | a b d |";
    let parts = ["ARCHITECTURE.md:4:", "`| c | a b |`"];
    assert_says(&said(&[LIB, A, B, D], page), &parts);
    assert_says(
        &said(&[LIB, A_ALONE, B, D], page),
        &["ARCHITECTURE.md:4:", "remove this row"],
    );
    // Split in two: each is allowed, and the row has to say so.
    let lib = ("lib.rs", "mod a; mod b; mod d; mod e;");
    let files = [
        lib,
        ("a.rs", "use crate::b;"),
        ("b.rs", "use crate::a;"),
        ("d.rs", "use crate::e;"),
        ("e.rs", "use crate::d;"),
    ];
    assert_says(
        &said(&files, "### Circles that stand\n| c | a b d e |"),
        &["`| c | a b; d e |`"],
    );
}

#[test]
fn a_crate_by_its_name_alone_may_have_any_circle_but_must_have_one() {
    let page = "### Circles that stand\n| c | all files |";
    assert!(said(&[LIB, A, B_WITH_D, D_WITH_B], page).is_empty());
    assert_says(
        &said(&[LIB, A_ALONE, B, D], page),
        &["ARCHITECTURE.md:4:", "remove this row"],
    );
}

#[test]
fn a_file_and_its_children_make_no_circle() {
    let lib = ("lib.rs", "mod a;\nuse a::A;");
    let a = ("a.rs", "mod b; mod d;\nuse b::B;\npub struct A;");
    let b = (
        "a/b.rs",
        "use super::A;\nfn f() { crate::g() }\npub struct B;",
    );
    let d = ("a/d.rs", "use super::b::B;\npub struct D;");
    assert!(said(&[lib, a, b, d], "").is_empty());
    let b = ("a/b.rs", "use super::d::D;\npub struct B;");
    assert_says(
        &said(&[lib, a, b, d], ""),
        &["a/b.rs:1: names super::d::D of a/d"],
    );
}

const ROOMS: &str = "### c\n| room | files | may use |\n|---|---|---|\n| base | src/base | |\n\
    | side | src/side.rs | base |\n| deep | src/base/deep | base |\n| top | src/top src/lib | above, not side |\n";

/// A crate that keeps the rules of `ROOMS`, but for what `side`, `deep` and `top` say.
fn rooms(
    side: &'static str,
    deep: &'static str,
    top: &'static str,
) -> [(&'static str, &'static str); 6] {
    [
        ("lib.rs", "mod base; mod side; mod top;"),
        ("base/mod.rs", "mod deep; mod kept;\npub struct Base;"),
        ("base/kept.rs", "pub struct Kept;"),
        ("side.rs", side),
        ("base/deep.rs", deep),
        ("top/mod.rs", top),
    ]
}

#[test]
fn a_room_uses_what_its_row_says() {
    let kept = rooms(
        "use crate::base::Base;\npub struct Side;",
        "use super::kept::Kept;\npub struct Deep;",
        "use crate::base::{Base, deep::Deep};\npub struct Top;",
    );
    assert_eq!(said(&kept, ROOMS), Vec::<String>::new());
    let up = rooms(
        "fn f() { crate::top::Top::new(); crate::top::g() }",
        "pub struct Deep;",
        "pub struct Top;",
    );
    let parts = [
        "c/src/side.rs:1: names crate::top::Top::new of top/mod of room top",
        "room side may use base",
    ];
    assert_says(&said(&up, ROOMS), &parts);
    let out = rooms("pub struct Side;", "", "\nuse crate::side::Side;");
    assert_says(
        &said(&out, ROOMS),
        &["c/src/top/mod.rs:2: ", "room top may use base, deep"],
    );
    // The longest place wins: what lies in base/deep is not of room base.
    let beside = rooms("use crate::base::deep::Deep;", "pub struct Deep;", "");
    assert_says(
        &said(&beside, ROOMS),
        &["c/src/side.rs:1: names crate::base::deep::Deep"],
    );
}

#[test]
fn an_arrow_in_the_family_counts_for_rooms() {
    let mut files = rooms("", "pub struct Deep;", "");
    files[1].1 = "mod deep; mod kept;\nuse deep::Deep;\npub struct Base;";
    assert_says(
        &said(&files, ROOMS),
        &["c/src/base/mod.rs:2: names deep::Deep", "may use no other"],
    );
}

#[test]
fn every_file_has_a_room_and_every_room_a_file() {
    let files = rooms("", "", "");
    let without = ROOMS
        .replace("| side | src/side.rs | base |\n", "")
        .replace(", not side", "");
    assert_says(&said(&files, &without), &["c/src/side.rs: lies in no room"]);
    let more = format!("{ROOMS}| more | src/more | above |");
    assert_says(
        &said(&files, &more),
        &["ARCHITECTURE.md:10: no file of c lies in room more"],
    );
}

#[test]
fn all_of_a_module_and_impls_in_other_rooms_are_found() {
    let all = rooms("use crate::base::*;", "", "");
    assert_says(
        &said(&all, ROOMS),
        &["c/src/side.rs:1: brings in all of crate::base"],
    );
    let inherent = rooms(
        "use crate::base::Base;\nimpl Base {}\nimpl Clone for Base {}",
        "",
        "",
    );
    assert_says(
        &said(&inherent, ROOMS),
        &["c/src/side.rs:2: `impl Base` in room side"],
    );
    // In a crate without a table both are free.
    assert!(said(&all, "").is_empty() && said(&inherent, "").is_empty());
}

#[test]
fn arrows_that_stand_may_only_shrink() {
    let up = rooms(
        "use crate::top::{Top, g};\nuse crate::base::*;",
        "pub struct Deep;",
        "pub struct Top;",
    );
    let page = format!(
        "{ROOMS}### Arrows that stand\n| crate | arrows |\n|---|---|\n| c | side -> top, * |"
    );
    assert!(said(&up, &page).is_empty());
    let longer = page.replace("top, *", "top, *; base/mod -> deep");
    assert_says(&said(&up, &longer), &["`base/mod -> deep` of c is gone"]);
    let other = page.replace("side -> top, *", "side -> *");
    assert_says(
        &said(&up, &other),
        &["c/src/side.rs:1: names crate::top::Top"],
    );
    assert_says(
        &said(&[("lib.rs", "")], "### Arrows that stand\n| c | a -> b |"),
        &["no table of rooms"],
    );
}

#[test]
fn tables_of_crates_that_are_not_there_are_found() {
    let files = [("lib.rs", "")];
    for page in [
        "### no\n",
        "### Circles that stand\n| docs | a b |",
        "### Arrows that stand\n| no | a -> b |",
    ] {
        assert_says(&said(&files, page), &["is no crate; remove this"]);
    }
}
