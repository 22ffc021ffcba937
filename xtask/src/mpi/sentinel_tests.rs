//! A program may pass each constant that stands for no memory, no handle or no function wherever the standard takes it, without a warning of its compiler.

use super::TABLES;
use super::standard_tests::Scratch;
use super::table::{Function, Parameter, Tables};
use crate::workspace_root;
use std::fmt::Write;
use std::path::Path;
use std::process::Command;

/// What a program may pass for a parameter beside something of its type.
fn sentinels(function: &Function, parameter: &Parameter) -> Vec<String> {
    let name = parameter.name.as_str();
    let base = parameter.c_type.trim_start_matches("const").trim();
    let array = !parameter.brackets.is_empty();
    let list: &[&str] = match base {
        _ if name.ends_with("weights") => &["MPI_UNWEIGHTED", "MPI_WEIGHTS_EMPTY", "0"],
        _ if name == "array_of_errcodes" => &["MPI_ERRCODES_IGNORE"],
        _ if name == "array_of_argv" => &["MPI_ARGVS_NULL"],
        _ if name == "array_of_statuses" => &["MPI_STATUSES_IGNORE"],
        "char *" if name == "argv" => &["MPI_ARGV_NULL"],
        "MPI_Status *" => &["MPI_STATUS_IGNORE"],
        "void *"
            if function.name.contains("attach_buffer")
                || function.name.contains("Buffer_attach") =>
        {
            &["MPI_BUFFER_AUTOMATIC"]
        }
        "void *" if ["sendbuf", "recvbuf", "inbuf", "inoutbuf", "buffer"].contains(&name) => {
            &["MPI_BOTTOM", "MPI_IN_PLACE"]
        }
        "void *" => &["MPI_BOTTOM"],
        "MPI_Group" => &["MPI_GROUP_NULL", "MPI_GROUP_EMPTY"],
        "MPI_Info" if !array => &["MPI_INFO_NULL", "MPI_INFO_ENV"],
        "MPI_Message" => &["MPI_MESSAGE_NULL", "MPI_MESSAGE_NO_PROC"],
        "MPI_Errhandler" => &["MPI_ERRHANDLER_NULL", "MPI_ERRORS_RETURN"],
        "MPI_Comm" => &["MPI_COMM_NULL", "MPI_COMM_SELF"],
        "MPI_Datatype" if !array => &["MPI_DATATYPE_NULL", "MPI_LONG_LONG_INT"],
        "MPI_Op" => &["MPI_OP_NULL", "MPI_NO_OP"],
        "MPI_Win" => &["MPI_WIN_NULL"],
        "MPI_File" => &["MPI_FILE_NULL"],
        "MPI_Session" => &["MPI_SESSION_NULL"],
        "MPI_Request" if !array => &["MPI_REQUEST_NULL"],
        "MPI_T_enum" => &["MPI_T_ENUM_NULL"],
        "MPI_T_cvar_handle" => &["MPI_T_CVAR_HANDLE_NULL"],
        "MPI_T_pvar_handle" => &["MPI_T_PVAR_HANDLE_NULL", "MPI_T_PVAR_ALL_HANDLES"],
        "MPI_T_pvar_session" => &["MPI_T_PVAR_SESSION_NULL"],
        "MPI_Copy_function *" => &["MPI_NULL_COPY_FN", "MPI_DUP_FN"],
        "MPI_Delete_function *" => &["MPI_NULL_DELETE_FN"],
        "MPI_Comm_copy_attr_function *" => &["MPI_COMM_NULL_COPY_FN", "MPI_COMM_DUP_FN"],
        "MPI_Comm_delete_attr_function *" => &["MPI_COMM_NULL_DELETE_FN"],
        "MPI_Type_copy_attr_function *" => &["MPI_TYPE_NULL_COPY_FN", "MPI_TYPE_DUP_FN"],
        "MPI_Type_delete_attr_function *" => &["MPI_TYPE_NULL_DELETE_FN"],
        "MPI_Win_copy_attr_function *" => &["MPI_WIN_NULL_COPY_FN", "MPI_WIN_DUP_FN"],
        "MPI_Win_delete_attr_function *" => &["MPI_WIN_NULL_DELETE_FN"],
        "MPI_Datarep_conversion_function *" => &["MPI_CONVERSION_FN_NULL"],
        "MPI_Datarep_conversion_function_c *" => &["MPI_CONVERSION_FN_NULL_C"],
        "MPI_Offset" => &["MPI_DISPLACEMENT_CURRENT"],
        "int" if array && parameter.kind == "na" => &["0"],
        // Arrays that are looked at by the root alone, MPI_Init's arguments, and places for what nobody asks.
        _ if array || base.ends_with('*') => &["0"],
        _ => &[],
    };
    list.iter().map(|text| (*text).to_owned()).collect()
}

/// A variable of the parameter's type that nobody defines, so that the compiler knows nothing of it.
fn variable(index: usize, parameter: &Parameter) -> String {
    let name = format!("v{index}");
    match parameter.brackets.as_str() {
        _ if parameter.kind == "f" && !parameter.c_type.contains('*') => {
            format!("extern {} *{name};", parameter.c_type)
        }
        "[][3]" => format!("extern {} (*{name})[3];", parameter.c_type),
        "" => format!("extern {} {name};", parameter.c_type),
        _ => format!("extern {} *{name};", parameter.c_type),
    }
}

/// A function for each call. The first of a function has the first constant of each parameter, the next one the second where there is one.
fn program(tables: &Tables) -> String {
    let mut out = String::from("#include <mpi.h>\n");
    let mut calls = String::new();
    let mut variables = 0;
    for function in &tables.functions {
        let shown: Vec<&Parameter> = function
            .parameters
            .iter()
            .filter(|parameter| parameter.kind != "va")
            .collect();
        let plain: Vec<String> = shown
            .iter()
            .map(|parameter| {
                variables += 1;
                let _ = writeln!(out, "{}", variable(variables, parameter));
                format!("v{variables}")
            })
            .collect();
        let choices: Vec<Vec<String>> = shown
            .iter()
            .map(|parameter| sentinels(function, parameter))
            .collect();
        let most = choices.iter().map(Vec::len).max().unwrap_or(0);
        for number in 0..most {
            let list: Vec<&str> = plain
                .iter()
                .zip(&choices)
                .map(|(plain, choices)| choices.get(number).unwrap_or(plain).as_str())
                .collect();
            let (name, returns) = (&function.name, &function.returns);
            let list = list.join(", ");
            let _ = writeln!(
                calls,
                "{returns} {name}_{number}(void);\n{returns} {name}_{number}(void) {{ return {name}({list}); }}"
            );
        }
    }
    out + &calls
}

/// Whether a compiler is there and knows the language.
fn knows(compiler: &str, language: &str, standard: &str) -> bool {
    let mut command = Command::new(compiler);
    command.args(["-x", language, standard, "-fsyntax-only", "/dev/null"]);
    command.output().is_ok_and(|output| output.status.success())
}

fn compile(compiler: &str, language: &str, standard: &str, source: &Path) {
    let output = Command::new(compiler)
        .args([
            "-x",
            language,
            standard,
            "-O2",
            "-Wall",
            "-Wextra",
            "-Wpedantic",
            "-Werror",
            "-c",
            "-o",
            "/dev/null",
            "-I",
        ])
        .arg(workspace_root().join("ulp/mpi/abi/include"))
        .arg(source)
        .output()
        .expect("the compiler runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{compiler} {standard}: {said}");
}

#[test]
fn constants_for_nothing_are_taken_without_a_warning() {
    let tables = Tables::read(&workspace_root().join(TABLES)).expect("the tables are sound");
    let scratch = Scratch::new("sentinels");
    let source = scratch.0.join("sentinels.c");
    let text = program(&tables);
    for constant in &tables.constants {
        let is_handle = constant.c_type.starts_with("MPI_") && constant.name.ends_with("_NULL");
        let is_sentinel = constant.c_type.contains('*') || is_handle;
        assert!(
            !is_sentinel || text.contains(&constant.name),
            "{} is nowhere",
            constant.name
        );
    }
    std::fs::write(&source, text).expect("a file");
    let languages = [
        (
            "c",
            ["gcc", "clang"],
            ["-std=c99", "-std=c11", "-std=c17", "-std=c2x"],
        ),
        (
            "c++",
            ["g++", "clang++"],
            ["-std=c++11", "-std=c++17", "-std=c++20", "-std=c++2b"],
        ),
    ];
    let mut tried = 0;
    for (language, compilers, standards) in languages {
        for compiler in compilers {
            for standard in standards
                .into_iter()
                .filter(|standard| knows(compiler, language, standard))
            {
                compile(compiler, language, standard, &source);
                tried += 1;
            }
        }
    }
    assert!(tried > 0, "there is no compiler");
}
