//! Writes mpi.h.

use super::table::{Function, Tables};
use std::fmt::Write;

/// Handles: pointers to structures that nobody defines.
const HANDLES: [&str; 11] = [
    "Op",
    "Comm",
    "Group",
    "Win",
    "File",
    "Session",
    "Message",
    "Info",
    "Errhandler",
    "Request",
    "Datatype",
];
/// Handles of the tools interface.
const TOOLS: [&str; 6] = [
    "T_enum",
    "T_cvar_handle",
    "T_pvar_handle",
    "T_pvar_session",
    "T_event_registration",
    "T_event_instance",
];
/// Enumerations that functions name.
const ENUMS: [&str; 2] = ["MPI_T_cb_safety", "MPI_T_source_order"];

/// The header of the MPI 5.0 standard ABI.
pub fn write(tables: &Tables) -> String {
    let mut out = String::from(
        "/* The C header of the MPI 5.0 standard ABI, as Ferriband offers it. Written by `cargo xtask mpi` from ulp/mpi/abi/table. */\n\
         #ifndef MPI_H_ABI\n#define MPI_H_ABI\n\n#include <stdint.h>\n\n#ifdef __cplusplus\nextern \"C\" {\n#endif\n\n\
         typedef intptr_t MPI_Aint;\ntypedef int64_t MPI_Offset;\ntypedef int64_t MPI_Count;\n\n\
         typedef struct {\n\tint MPI_SOURCE;\n\tint MPI_TAG;\n\tint MPI_ERROR;\n\tint MPI_internal[5];\n} MPI_Status;\n\n",
    );
    for name in HANDLES.iter().chain(&TOOLS) {
        let _ = writeln!(out, "typedef struct MPI_ABI_{name} *MPI_{name};");
    }
    for name in ENUMS {
        let _ = writeln!(out, "\ntypedef enum {name} {{");
        // C89 and C++98 have no comma behind the last one.
        let constants = tables.constants.iter().filter(|c| c.c_type == name);
        let lines: Vec<String> = constants
            .map(|constant| format!("\t{} = {}", constant.name, constant.value))
            .collect();
        let _ = writeln!(out, "{}\n}} {name};", lines.join(",\n"));
    }
    out.push('\n');
    for callback in &tables.callbacks {
        let _ = writeln!(
            out,
            "typedef {} ({})({});",
            callback.returns,
            callback.name,
            callback.parameters.replace("; ", ", ")
        );
    }
    for kind in ["Comm", "File", "Win", "Session"] {
        let _ = writeln!(
            out,
            "typedef MPI_{kind}_errhandler_function MPI_{kind}_errhandler_fn;"
        );
    }
    out.push('\n');
    for constant in &tables.constants {
        let (name, value) = (&constant.name, &constant.value);
        let _ = match constant.c_type.as_str() {
            kind if ENUMS.contains(&kind) => Ok(()),
            "=" | "-" | "int" if !value.starts_with('-') => writeln!(out, "#define {name} {value}"),
            "int" => writeln!(out, "#define {name} ({value})"),
            kind => writeln!(out, "#define {name} (({kind}){value})"),
        };
    }
    declare(&tables.functions, &mut out);
    write_before_abi(tables, &mut out);
    out.push_str("\n#ifdef __cplusplus\n}\n#endif\n\n#endif\n");
    out
}

/// Prototypes, with those of the profiling interface.
fn declare(functions: &[Function], out: &mut String) {
    for prefix in ["", "P"] {
        out.push('\n');
        for function in functions {
            let declarations: Vec<&str> = function
                .parameters
                .iter()
                .map(|parameter| parameter.declaration.as_str())
                .collect();
            let list = if declarations.is_empty() {
                "void".to_owned()
            } else {
                declarations.join(", ")
            };
            let returns = &function.returns;
            let _ = writeln!(out, "{returns} {prefix}{}({list});", function.name);
        }
    }
}

/// The header of what is no part of the standard.
pub fn write_extensions(tables: &Tables) -> String {
    let mut out = String::from(
        "/* Extensions of MPI that Ferriband offers: user-level failure mitigation (ULFM). No part of the\n\
         \x20* standard and its ABI: programs that call these run with libraries that have them. Written by\n\
         \x20* `cargo xtask mpi` from ulp/mpi/abi/table. */\n\
         #ifndef MPI_EXT_H_FERRIBAND\n#define MPI_EXT_H_FERRIBAND\n\n#include <mpi.h>\n\n#ifdef __cplusplus\nextern \"C\" {\n#endif\n\n\
         #define FERRIBAND_HAVE_MPI_EXT_ULFM 1\n",
    );
    for constant in &tables.extension_constants {
        let _ = writeln!(out, "#define {} {}", constant.name, constant.value);
    }
    declare(&tables.extensions, &mut out);
    out.push_str("\n#ifdef __cplusplus\n}\n#endif\n\n#endif\n");
    out
}

/// What handles' numbers were called before the ABI had them. MPI 5.0 keeps these names (19.3.4), the ABI does not: what its library offers is the same under names without Fortran's.
fn write_before_abi(tables: &Tables, out: &mut String) {
    out.push_str(
        "\n/* Not of the ABI, but of MPI (5.0, 19.3.4): C programs name handles' numbers so. Each is a function of the ABI, so that what is compiled with them\n\
         \x20  runs with any library of it. MPI_Fint is Fortran's INTEGER as compilers have it unasked. -DFERRIBAND_MPI_ABI_ONLY leaves them out. */\n\
         #ifndef FERRIBAND_MPI_ABI_ONLY\ntypedef int MPI_Fint;\n",
    );
    for prefix in ["", "P"] {
        for function in &tables.functions {
            let name = &function.name;
            for (now, before) in [("_toint", "_c2f"), ("_fromint", "_f2c")] {
                if let Some(kind) = name.strip_suffix(now) {
                    let _ = writeln!(out, "#define {prefix}{kind}{before} {prefix}{name}");
                }
            }
        }
    }
    out.push_str("#endif\n");
}
