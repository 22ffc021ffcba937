//! What compilers, profiling tools and error handlers of the program meet: the header, the names of the library, and whose error handler is asked.

use super::{FERRIBAND, PATIENCE, Program, SOURCES, library_dir};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

#[test]
fn the_header_is_for_old_compilers_too() {
    let source = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let source = source.join(format!("mpi_header.{}.c", std::process::id()));
    std::fs::write(&source, "#include <mpi.h>\nint main(void) { return 0; }\n").expect("a file");
    let has_cxx = Command::new("g++").arg("--version").output().is_ok();
    for language in [&["c", "-std=c89"], &["c++", "-std=c++98"]] {
        if language[0] == "c++" && !has_cxx {
            continue;
        }
        let output = Command::new(library_dir().join("bin/mpicc"))
            .arg("-x")
            .args(language)
            .args(["-pedantic-errors", "-Wall", "-Wextra", "-fsyntax-only"])
            .arg(&source)
            .output()
            .expect("mpicc runs");
        let complained = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{language:?}: {complained}");
        assert_eq!(complained, "");
    }
    std::fs::remove_file(&source).expect("it is there");
}

#[test]
fn the_library_exports_each_function_twice() {
    let output = Command::new("nm")
        .args(["-D", "--defined-only", "--format=posix"])
        .arg(library_dir().join("libmpi_abi.so.1"))
        .output()
        .expect("nm runs");
    let text = String::from_utf8_lossy(&output.stdout);
    let names: BTreeMap<&str, (&str, &str)> = text
        .lines()
        .filter_map(|line| {
            let mut words = line.split(' ');
            Some((words.next()?, (words.next()?, words.next()?)))
        })
        .collect();
    let mut functions = 0;
    for (name, (kind, address)) in &names {
        if name.starts_with("MPI_") || name.starts_with("MPIX_") {
            assert_eq!(*kind, "W", "{name}: a profiling library's own comes first");
            let other = names.get(format!("P{name}").as_str());
            assert_eq!(other, Some(&("T", *address)), "P{name}");
            functions += 1;
        }
    }
    // Those of the ABI, and those that mpi-ext.h declares.
    assert_eq!(functions, 664 + 10);
    assert_eq!(names.len(), 2 * functions, "and nothing else");
}

#[test]
fn a_tool_of_its_own_library_sees_the_programs_calls() {
    let tool = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let tool = Built(tool.join(format!("libmpi_tool.{}.so", std::process::id())));
    let source = |name: &str| format!("{SOURCES}/{name}.c");
    mpicc(&["-shared", "-fPIC", &source("tool"), "-o", tool.path()]);
    let linked = Built(tool.0.with_extension("linked"));
    mpicc(&[&source("tooled"), tool.path(), "-o", linked.path()]);
    let plain = Program::new("tooled");
    let preload = format!("LD_PRELOAD={}", tool.path());
    let program = plain.0.to_str().expect("a path");
    for line in [&["env", &preload, program][..], &[linked.path()]] {
        let output = mpirun(line);
        let said = String::from_utf8_lossy(&output.stdout);
        assert_eq!(said, "tooled: 2 ranks: ok\n", "{output:?}");
        let complained = String::from_utf8_lossy(&output.stderr);
        for rank in 0..2 {
            let words = format!("tool: rank {rank}: 1 init, 1 sends, 1 receives, 1 communicators");
            assert!(complained.contains(&words), "{complained}");
        }
    }
}

fn mpicc(arguments: &[&str]) {
    let output = Command::new(library_dir().join("bin/mpicc"))
        .args(["-O2", "-Wall", "-Wextra", "-Werror"])
        .args(arguments)
        .output()
        .expect("mpicc runs");
    let complained = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{complained}");
}

/// A job of two ranks.
fn mpirun(line: &[&str]) -> Output {
    Command::new(FERRIBAND)
        .env("FERRIBAND_LIB_DIR", library_dir())
        .args(["mpirun", "-n", "2", "--timeout", PATIENCE])
        .args(line)
        .output()
        .expect("mpirun runs")
}

/// A file that a test has built, gone with it.
struct Built(PathBuf);

impl Built {
    fn path(&self) -> &str {
        self.0.to_str().expect("a path")
    }
}

impl Drop for Built {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[test]
fn errors_of_files_end_the_job_if_the_program_wants_that() {
    let program = Program::new("handlers");
    for handler in ["fatal", "abort"] {
        let output = program.run(2, &[], &[handler]);
        assert!(!output.status.success());
        let complained = String::from_utf8_lossy(&output.stderr);
        let words = "MPI_File_delete: MPI_ERR_UNSUPPORTED_OPERATION";
        assert!(complained.contains(words), "{complained}");
    }
}

/// Rows of the table of functions: name, chapter, state, handler, what it returns, parameters.
const FUNCTIONS: &str = include_str!(concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../ulp/mpi/abi/table/functions.tsv"
));

/// A program that calls each function with nothing: 0, null pointers and handles of nothing, on MPI_COMM_WORLD where there is a communicator.
fn calls_with_nothing() -> String {
    let mut lines = String::new();
    for row in FUNCTIONS.lines().skip(1) {
        let [name, _, _, handler, returns, parameters] = row.split('\t').collect::<Vec<_>>()[..]
        else {
            panic!("{row}");
        };
        // These begin, end, return no error code, or wait for a message that nobody sends.
        let is_left_out = [
            "Init",
            "Init_thread",
            "Finalize",
            "Abort",
            "Probe",
            "Mprobe",
        ]
        .iter()
        .any(|other| name.strip_prefix("MPI_") == Some(other));
        if is_left_out || returns != "int" || name.ends_with("_toint") {
            continue;
        }
        let mut asked = if name.starts_with("MPI_T_") {
            "nobody"
        } else {
            "self"
        };
        let mut list = Vec::new();
        for parameter in parameters.split("; ").filter(|text| !text.is_empty()) {
            let declaration = parameter.split(':').next().expect("a declaration");
            let is_named = declaration.split(' ').nth(1) == Some(handler);
            let kind = declaration.split(' ').next().expect("a type");
            list.push(match kind {
                "MPI_Comm" if !declaration.contains('*') => "MPI_COMM_WORLD",
                "..." => continue,
                _ => "0",
            });
            asked = match kind {
                "MPI_Comm" if is_named => "world",
                "MPI_File" if is_named => "files",
                _ => asked,
            };
        }
        if handler == "MPI_FILE_NULL" {
            asked = "files";
        }
        let list = list.join(", ");
        lines += &format!("\tresult(\"{name}\", \"{asked}\", {name}({list}));\n");
    }
    NOTHING.replace("CALLS", &lines)
}

/// What stands around the calls: they are made before MPI_Init, by a rank, and after MPI_Finalize.
const NOTHING: &str = r#"
#include "check.h"

static int calls, wrong, may_be_used;
static const char *asked = "nobody";

static void on_comm(MPI_Comm *comm, int *code, ...)
{
	calls += *code != MPI_SUCCESS;
	asked = *comm == MPI_COMM_SELF ? "self" : *comm == MPI_COMM_WORLD ? "world" : "another";
}

static void on_file(MPI_File *file, int *code, ...)
{
	calls += *code != MPI_SUCCESS;
	asked = *file == MPI_FILE_NULL ? "files" : "another";
}

static void result(const char *name, const char *due, int code)
{
	int is_due = may_be_used ? strcmp(asked, due) == 0 && calls == (strcmp(due, "nobody") != 0) : calls == 0;
	if (!may_be_used && (strcmp(due, "world") == 0 || strcmp(due, "files") == 0))
		is_due = is_due && code == MPI_ERR_OTHER;
	if (code != MPI_SUCCESS && !is_due) {
		fprintf(stderr, "%s: error %d asks %s %d times, not %s\n", name, code, asked, calls, due);
		wrong = 1;
	}
	calls = 0;
	asked = "nobody";
}

static void all(void)
{
CALLS}

int main(int argc, char **argv)
{
	MPI_Errhandler comms, files;
	all();
	begin(&argc, &argv);
	MPI_Comm_create_errhandler(on_comm, &comms);
	MPI_File_create_errhandler(on_file, &files);
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, comms);
	MPI_Comm_set_errhandler(MPI_COMM_SELF, comms);
	MPI_File_set_errhandler(MPI_FILE_NULL, files);
	may_be_used = 1;
	all();
	may_be_used = 0;
	MPI_File_set_errhandler(MPI_FILE_NULL, MPI_ERRORS_RETURN);
	end("nothing");
	all();
	return wrong;
}
"#;

#[test]
fn each_call_with_nothing_asks_the_handler_of_its_row() {
    let built = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let built = Built(built.join(format!("mpi_nothing.{}.program", std::process::id())));
    let source = Built(built.0.with_extension("c"));
    std::fs::write(&source.0, calls_with_nothing()).expect("a file");
    mpicc(&["-I", SOURCES, source.path(), "-o", built.path()]);
    let output = mpirun(&["-initial-errhandler", "mpi_errors_return", built.path()]);
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(said, "nothing: 2 ranks: ok\n");
    assert!(output.status.success());
}
