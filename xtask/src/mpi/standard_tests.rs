//! What we offer is what the standard's header declares: the tables, mpi.h as a C compiler reads it, and the entry points of the library.

use super::STANDARD;
use super::standard::{Facts, What, parse, read};
use crate::workspace_root;
use std::fmt::Write;
use std::path::PathBuf;
use std::process::Command;

/// What mpi.h has beside the standard: `_c` forms that the Forum's own header (mpi-forum/mpi-abi-stubs) declares although the plain forms count with MPI_Count already, so
/// that programs compiled with that header load, and Fortran's integer for the names of handles' numbers before the ABI.
const MORE: [&str; 3] = ["MPI_Fint", "MPI_Precv_init_c", "MPI_Psend_init_c"];

fn standard() -> Facts {
    let table = std::fs::read_to_string(workspace_root().join(STANDARD)).expect("it is there");
    read(&table).expect("it is sound")
}

fn file(path: &str) -> String {
    std::fs::read_to_string(workspace_root().join(path)).expect("it is there")
}

/// A directory for one test, which goes with it.
pub struct Scratch(pub PathBuf);

impl Scratch {
    pub fn new(name: &str) -> Self {
        let name = format!("xtask_{name}.{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).expect("a directory");
        Self(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn the_standards_table_is_whole() {
    let standard = standard();
    let count = |kind| standard.keys().filter(|(what, _)| *what == kind).count();
    assert_eq!(count(What::Function), 662);
    assert_eq!(count(What::Constant), 364);
    assert_eq!(count(What::Callback), 23);
    assert_eq!(count(What::Type), 27);
}

#[test]
fn the_header_declares_what_the_standard_does() {
    let (standard, ours) = (
        standard(),
        parse(&file("ulp/mpi/abi/include/mpi.h")).expect("our own header"),
    );
    for (name, fact) in &standard {
        assert_eq!(ours.get(name), Some(fact), "{name:?}");
    }
    let more: Vec<&str> = ours
        .keys()
        .filter(|name| !standard.contains_key(*name))
        .map(|(_, name)| name.as_str())
        .collect();
    assert_eq!(more, MORE);
}

/// The Rust type that a C type must be at the library's entry; what pointers to functions point to is not told there.
fn rust_type(c_type: &str, standard: &Facts) -> String {
    let stars = c_type.matches('*').count();
    let is_const = c_type.starts_with("const ");
    let base = c_type.trim_start_matches("const ");
    let base = base.split([' ', '(']).next().unwrap_or_default();
    let is = |what| standard.contains_key(&(what, base.to_owned()));
    let rust = match base {
        "int" => "c_int",
        "char" => "c_char",
        "void" => "c_void",
        "double" => "c_double",
        "MPI_Aint" | "MPI_Offset" | "MPI_Count" => "i64",
        "MPI_Status" => "Status",
        _ if is(What::Callback) => "c_void",
        _ if is(What::Type) => match standard[&(What::Type, base.to_owned())].c_type.as_str() {
            "enum" => "c_int",
            "handle" => "Handle",
            // Another name of a callback's type.
            _ => "c_void",
        },
        _ => panic!("{c_type} is not known"),
    };
    let is_callback = rust == "c_void" && base != "void";
    if is_callback {
        return "*const c_void".to_owned();
    }
    let inner = if is_const { "*const " } else { "*mut " };
    match stars {
        0 => rust.to_owned(),
        more => format!("{}{inner}{rust}", "*mut ".repeat(more - 1)),
    }
}

#[test]
fn the_entry_points_take_what_the_standard_says() {
    let standard = standard();
    let entries = file("ulp/mpi/abi/src/entries.rs");
    for ((what, name), fact) in &standard {
        if *what != What::Function {
            continue;
        }
        let head = format!("pub unsafe extern \"C\" fn P{name}(");
        let (_, rest) = entries
            .split_once(&head)
            .unwrap_or_else(|| panic!("no P{name}"));
        let (list, rest) = rest.split_once(')').expect("it ends");
        let returns = rest.trim_start().trim_start_matches("-> ");
        let returns = returns.split(' ').next().expect("a word");
        let found: Vec<&str> = list
            .split(',')
            .filter_map(|parameter| Some(parameter.trim().split_once(": ")?.1))
            .collect();
        let expected: Vec<String> = fact
            .detail
            .split("; ")
            .filter(|c_type| !c_type.is_empty() && *c_type != "...")
            .map(|c_type| rust_type(c_type, &standard))
            .collect();
        assert_eq!(found, expected, "{name}");
        assert_eq!(returns, rust_type(&fact.c_type, &standard), "{name}");
        // The weak name that programs call is this very function.
        assert!(
            entries.contains(&format!("\".set {name}, P{name}\"")),
            "{name}"
        );
    }
}

/// C that does not compile unless each declaration of mpi.h has the standard's type, and does not end with 0 unless each constant has its value.
fn checks(standard: &Facts) -> String {
    let mut out = String::from(
        "#include <mpi.h>\n#include <stddef.h>\n#include <stdio.h>\n#define SAME(a, b) _Static_assert(__builtin_types_compatible_p(a, b), #a \" is not \" #b)\n",
    );
    let mut values = String::new();
    for ((what, name), fact) in standard {
        let list = match fact.detail.replace("; ", ", ") {
            list if list.is_empty() => "void".to_owned(),
            list => list,
        };
        let returns = &fact.c_type;
        let _ = match (what, returns.as_str()) {
            (What::Function, _) => writeln!(
                out,
                "SAME(__typeof__(&{name}), {returns} (*)({list}));\nSAME(__typeof__(&P{name}), {returns} (*)({list}));"
            ),
            (What::Callback, _) => writeln!(out, "SAME({name}, {returns}({list}));"),
            // An object without a size: its pointer is all that there is.
            (What::Type, "handle") => writeln!(
                out,
                "_Static_assert(sizeof({name}) == sizeof(void *), \"\");"
            ),
            (What::Type, "enum") => {
                writeln!(out, "_Static_assert(sizeof({name}) == sizeof(int), \"\");")
            }
            (What::Type, "struct") => writeln!(
                out,
                "struct standard_{name} {{ {}; }};\n_Static_assert(sizeof({name}) == sizeof(struct standard_{name}), \"\");\n{}",
                fact.detail,
                fields(name, &fact.detail)
            ),
            (What::Type, other) => writeln!(out, "SAME({name}, {other});"),
            (What::Constant, c_type) => {
                let is_enum = standard
                    .get(&(What::Type, c_type.to_owned()))
                    .is_some_and(|fact| fact.c_type == "enum");
                // C has an enumerator for an int.
                let c_type = if is_enum { "int" } else { c_type };
                let _ = writeln!(
                    values,
                    "\tcheck(\"{name}\", (long long){}({name}), {});",
                    cast(c_type),
                    fact.detail
                );
                writeln!(out, "SAME(__typeof__({name}), {c_type});")
            }
        };
    }
    let _ = write!(
        out,
        "static int wrong;\nstatic void check(const char *name, long long found, long long due)\n{{\n\tif (found != due)\n\t\twrong = 1, printf(\"%s is %lld, not %lld\\n\", name, found, due);\n}}\nint main(void)\n{{\n{values}\treturn wrong;\n}}\n"
    );
    out
}

/// Where each field of a structure lies.
fn fields(name: &str, list: &str) -> String {
    let mut out = String::new();
    for field in list.split("; ") {
        let field = field.split([' ', '[']).nth(1).unwrap_or_default();
        let _ = writeln!(
            out,
            "_Static_assert(offsetof({name}, {field}) == offsetof(struct standard_{name}, {field}), \"\");"
        );
    }
    out
}

/// A pointer becomes a number of its own width first.
fn cast(c_type: &str) -> &'static str {
    match c_type {
        "int" | "MPI_Offset" => "",
        _ => "(intptr_t)",
    }
}

#[test]
fn a_compiler_finds_the_standards_types_and_values_in_the_header() {
    let scratch = Scratch::new("standard");
    let (source, program) = (scratch.0.join("standard.c"), scratch.0.join("standard"));
    std::fs::write(&source, checks(&standard())).expect("a file");
    let compiled = Command::new("cc")
        .args(["-std=gnu11", "-Wall", "-Werror", "-I"])
        .arg(workspace_root().join("ulp/mpi/abi/include"))
        .arg(&source)
        .arg("-o")
        .arg(&program)
        .output()
        .expect("cc runs");
    let said = String::from_utf8_lossy(&compiled.stderr);
    assert!(compiled.status.success(), "{said}");
    let output = Command::new(&program).output().expect("it runs");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stdout)
    );
}
