//! Writes the entry points of the standard ABI: each converts what it was given and calls the runtime.

use super::table::{Function, Parameter, State, Tables};
use std::fmt::Write;

const HEAD: &str = "\
// Written by `cargo xtask mpi` from ulp/mpi/abi/table: change the table, not this file.
//
// SAFETY of every block here: the pointers are the caller's, as the standard demands of it; each is passed on or read and written once, at
// its own width.
#![allow(non_snake_case, unused_imports, clippy::missing_safety_doc, clippy::too_many_arguments, clippy::undocumented_unsafe_blocks, missing_docs)]

";

/// `entries.rs`.
pub fn entries(tables: &Tables) -> String {
    let mut out = format!(
        "{HEAD}use crate::convert::{{Array, Handle, Number, OutCount, OutHandle, Status, id}};\nuse crate::private::*;\nuse core::ffi::{{c_char, c_double, c_int, c_void}};\n\n"
    );
    for function in tables.all() {
        entry(tables, function, &mut out);
    }
    out.push_str("#[cfg(feature = \"final\")]\ncore::arch::global_asm!(\n");
    for function in tables.all() {
        let name = &function.name;
        let _ = writeln!(
            out,
            "    \".weak {name}\",\n    \".type {name}, @function\",\n    \".set {name}, P{name}\","
        );
    }
    out.push_str(");\n");
    out
}

/// `private.rs`: the runtime's symbols, declared.
pub fn private(tables: &Tables) -> String {
    let mut out = format!(
        "{HEAD}use crate::convert::{{Array, Status}};\nuse core::ffi::{{c_char, c_double, c_int, c_void}};\n\nunsafe extern \"C\" {{\n"
    );
    for (name, function) in offered(tables) {
        let list: Vec<String> = function
            .parameters
            .iter()
            .flat_map(private_parameters)
            .collect();
        let _ = writeln!(
            out,
            "    pub fn {name}({}) -> {};",
            list.join(", "),
            private_return(function)
        );
    }
    out.push_str("    pub fn ferriband_mpi_unsupported(object: c_int, handle: i32, function: *const c_char) -> c_int;\n}\n");
    out
}

/// The runtime's check that what it defines is what is declared.
pub fn agreement(tables: &Tables) -> String {
    let mut out = String::from(
        "// Written by `cargo xtask mpi` from ulp/mpi/abi/table: change the table, not this file.\n//\n// Each line fails to compile if the runtime's function is not what the faces declare.\n\n\
         #![allow(unused_imports)]\n\nuse crate::ground::array::Array;\nuse crate::ground::status::Status;\nuse std::ffi::{c_char, c_double, c_int, c_void};\n\n",
    );
    for (name, function) in offered(tables) {
        let list: Vec<String> = function
            .parameters
            .iter()
            .flat_map(private_parameters)
            .map(|parameter| {
                parameter
                    .split_once(": ")
                    .map_or(String::new(), |(_, kind)| kind.to_owned())
            })
            .collect();
        let _ = writeln!(
            out,
            "const _: unsafe extern \"C\" fn({}) -> {} = super::{name};",
            list.join(", "),
            private_return(function)
        );
    }
    out.push_str("const _: unsafe extern \"C\" fn(c_int, i32, *const c_char) -> c_int = super::ferriband_mpi_unsupported;\n");
    out
}

/// What the runtime exports.
pub fn private_symbols(tables: &Tables) -> String {
    let mut out: String = offered(tables)
        .iter()
        .map(|(name, _)| format!("{name}@@FERRIBAND_MPI_PRIVATE_1\n"))
        .collect();
    for own in [
        "ferriband_mpi_unsupported",
        "ferriband_mpi_heals",
        "ferriband_mpi_stats",
        "ferriband_mpi_switch",
    ] {
        writeln!(out, "{own}@@FERRIBAND_MPI_PRIVATE_1").expect("a string takes it");
    }
    out
}

/// What the face exports.
pub fn public_symbols(tables: &Tables) -> String {
    tables
        .all()
        .flat_map(|function| {
            [
                format!("{}\n", function.name),
                format!("P{}\n", function.name),
            ]
        })
        .collect()
}

/// The constants as the runtime knows them: handles are numbers there.
pub fn constants(tables: &Tables) -> String {
    let mut out = String::from(
        "// Written by `cargo xtask mpi` from ulp/mpi/abi/table: change the table, not this file.\n//\n// The constants of the MPI 5.0 standard ABI under the standard's names; a handle is its number.\n#![allow(missing_docs, dead_code)]\n\n",
    );
    for constant in tables.constants.iter().chain(&tables.extension_constants) {
        if let Some(value) = super::table::number(&constant.value) {
            let kind = if constant.c_type.contains('*') {
                "usize"
            } else {
                "i32"
            };
            let shown = if constant.value.starts_with("0x") && value > 9 {
                format!("{value:#x}")
            } else {
                value.to_string()
            };
            let _ = writeln!(out, "pub const {}: {kind} = {shown};", constant.name);
        }
    }
    out
}

/// Each private symbol once, with the function of the narrow form.
fn offered(tables: &Tables) -> Vec<(String, &Function)> {
    let mut list: Vec<(String, &Function)> = Vec::new();
    for function in tables.all() {
        if function.state == State::Offered {
            let name = tables.private_name(function);
            if list.iter().all(|(other, _)| *other != name) {
                list.push((name, function));
            }
        }
    }
    list
}

/// The parameters of the private function that stand for one of the public function.
fn private_parameters(parameter: &Parameter) -> Vec<String> {
    let name = rust_name(&parameter.name);
    let one = |kind: &str| vec![format!("{name}: {kind}")];
    match parameter.kind.as_str() {
        "h" => one("i32"),
        "ho" | "hio" => one("*mut i32"),
        "ha" | "na" => one("Array"),
        "n" | "w" => one("i64"),
        "no" | "nio" => one("*mut i64"),
        "wp" => one(pointer(parameter, "i64").as_str()),
        "f" => vec![
            format!("{name}: *const c_void"),
            format!("{name}_thunk: *const c_void"),
        ],
        "va" => Vec::new(),
        _ => one(&face_type(parameter)),
    }
}

fn private_return(function: &Function) -> &'static str {
    if function.returns == "double" {
        "c_double"
    } else {
        "c_int"
    }
}

/// The Rust type of a parameter of the public function.
fn face_type(parameter: &Parameter) -> String {
    let base = parameter
        .c_type
        .replace("const", "")
        .replace('*', "")
        .trim()
        .to_owned();
    let rust = match base.as_str() {
        "int" => "c_int",
        "char" => "c_char",
        "void" => "c_void",
        "double" => "c_double",
        "MPI_Aint" | "MPI_Offset" | "MPI_Count" => "i64",
        "MPI_Status" => "Status",
        "MPI_T_cb_safety" | "MPI_T_source_order" => "c_int",
        _ if parameter.kind == "f" || base.ends_with("_function") => {
            return "*const c_void".to_owned();
        }
        _ => "Handle",
    };
    pointer(parameter, rust)
}

/// `kind` with the stars and brackets of the declaration. Of two dimensions the inner one is plain memory.
fn pointer(parameter: &Parameter, kind: &str) -> String {
    let levels =
        parameter.c_type.matches('*').count() + usize::from(!parameter.brackets.is_empty());
    let innermost = if parameter.c_type.starts_with("const") {
        "*const "
    } else {
        "*mut "
    };
    match levels {
        0 => kind.to_owned(),
        more => format!("{}{innermost}{kind}", "*mut ".repeat(more - 1)),
    }
}

fn rust_name(name: &str) -> &str {
    match name {
        "type" => "kind",
        other => other,
    }
}

fn entry(tables: &Tables, function: &Function, out: &mut String) {
    let shown: Vec<&Parameter> = function
        .parameters
        .iter()
        .filter(|parameter| parameter.kind != "va")
        .collect();
    let used = matches!(function.state, State::Offered | State::Face);
    let list: Vec<String> = shown
        .iter()
        .map(|parameter| {
            let speaks = used
                || parameter.kind == "ho"
                || Some(&parameter.name) == function.handler.as_ref();
            let mark = if speaks { "" } else { "_" };
            format!(
                "{mark}{}: {}",
                rust_name(&parameter.name),
                face_type(parameter)
            )
        })
        .collect();
    let returns = match function.returns.as_str() {
        "int" => "c_int",
        "double" => "c_double",
        "MPI_Aint" => "i64",
        _ => "Handle",
    };
    let _ = writeln!(
        out,
        "#[unsafe(no_mangle)]\npub unsafe extern \"C\" fn P{}({}) -> {returns} {{",
        function.name,
        list.join(", ")
    );
    let body = match function.state {
        State::Offered => call(tables, function, &shown),
        State::Face => own(function, &shown),
        State::Tools => tools(tables, function),
        State::Core | State::Later => refuse(tables, function, &shown),
    };
    out.push_str(&body);
    out.push_str("}\n\n");
}

/// What the face answers alone.
fn own(function: &Function, shown: &[&Parameter]) -> String {
    let name = |index: usize| rust_name(&shown[index].name);
    if function.name.ends_with("_toint") {
        format!("    id({})\n", name(0))
    } else if function.name.ends_with("_fromint") {
        format!("    Handle::of({})\n", name(0))
    } else if function.name.ends_with("_add") {
        format!("    {}.wrapping_add({})\n", name(0), name(1))
    } else {
        format!("    {}.wrapping_sub({})\n", name(0), name(1))
    }
}

fn tools(tables: &Tables, function: &Function) -> String {
    let class = if function.name == "MPI_T_init_thread" {
        "MPI_T_ERR_CANNOT_INIT"
    } else {
        "MPI_T_ERR_NOT_INITIALIZED"
    };
    format!("    {} // {class}\n", tables.value(class).unwrap_or(1))
}

/// Null handles to where handles were asked for, and the error to the object's handler.
fn refuse(tables: &Tables, function: &Function, shown: &[&Parameter]) -> String {
    let mut body = String::new();
    for parameter in shown.iter().filter(|parameter| parameter.kind == "ho") {
        let object = object_of(parameter).to_uppercase();
        let null = tables.value(&format!("MPI_{object}_NULL")).unwrap_or(0);
        let _ = writeln!(
            body,
            "    unsafe {{ OutHandle::null({}, {null:#x}) }};",
            rust_name(&parameter.name)
        );
    }
    let owner = shown
        .iter()
        .find(|parameter| Some(&parameter.name) == function.handler.as_ref());
    let (object, handle) = match owner {
        None if function.handler.as_deref() == Some("MPI_FILE_NULL") => (3, "0".to_owned()),
        None => (0, "0".to_owned()),
        Some(parameter) => {
            let number = ["Comm", "Win", "File", "Session"]
                .iter()
                .position(|kind| *kind == object_of(parameter))
                .map_or(0, |at| at + 1);
            (number, format!("id({})", rust_name(&parameter.name)))
        }
    };
    let _ = writeln!(
        body,
        "    unsafe {{ ferriband_mpi_unsupported({object}, {handle}, c\"{}\".as_ptr()) }}",
        function.name
    );
    body
}

fn object_of(parameter: &Parameter) -> &str {
    parameter
        .c_type
        .trim_start_matches("const")
        .trim()
        .trim_end_matches('*')
        .trim()
        .trim_start_matches("MPI_")
}

fn call(tables: &Tables, function: &Function, shown: &[&Parameter]) -> String {
    let private = tables.private_name(function);
    let mut before = String::new();
    let mut after = String::new();
    let mut arguments = Vec::new();
    for parameter in shown {
        let name = rust_name(&parameter.name);
        match parameter.kind.as_str() {
            "h" => arguments.push(format!("id({name})")),
            "ho" | "hio" => {
                let how = if parameter.kind == "ho" {
                    "empty"
                } else {
                    "full"
                };
                let _ = writeln!(
                    before,
                    "    let mut {name} = unsafe {{ OutHandle::{how}({name}) }};"
                );
                arguments.push(format!("{name}.place()"));
                let _ = writeln!(after, "    unsafe {{ {name}.store() }};");
            }
            "no" | "nio" => {
                let how = if parameter.kind == "no" {
                    "empty"
                } else {
                    "full"
                };
                let _ = writeln!(
                    before,
                    "    let mut {name} = unsafe {{ OutCount::{how}({name}) }};"
                );
                arguments.push(format!("{name}.place()"));
                let _ = writeln!(after, "    unsafe {{ {name}.store() }};");
            }
            "ha" | "na" => arguments.push(format!("Array::of({name})")),
            "n" => arguments.push(format!("{name}.wide()")),
            "f" => {
                arguments.push(name.to_owned());
                let base = object_of(parameter);
                arguments.push(format!("crate::thunks::{}()", base.to_lowercase()));
            }
            "ip" if parameter.brackets.matches('[').count() > 1 => {
                arguments.push(format!("{name}.cast()"));
            }
            _ => arguments.push(name.to_owned()),
        }
    }
    let call = format!("unsafe {{ {private}({}) }}", arguments.join(", "));
    if after.is_empty() {
        format!("{before}    {call}\n")
    } else {
        format!("{before}    let code = {call};\n{after}    code\n")
    }
}
