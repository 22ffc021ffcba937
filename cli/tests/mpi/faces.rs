//! What compilers, profiling tools and error handlers of the program meet: the header, the names of the library, and whose error handler is asked.

use super::{PATIENCE, Program, SOURCES, library_dir};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

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
        if name.starts_with("MPI_") {
            assert_eq!(*kind, "W", "{name}: a profiling library's own comes first");
            let other = names.get(format!("P{name}").as_str());
            assert_eq!(other, Some(&("T", *address)), "P{name}");
            functions += 1;
        }
    }
    assert_eq!(functions, 664);
    assert_eq!(names.len(), 2 * 664, "and nothing else");
}

#[test]
fn a_tool_of_its_own_library_sees_the_programs_calls() {
    let tool = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let tool = Built(tool.join(format!("libmpi_tool.{}.so", std::process::id())));
    let mpicc = |arguments: &[&str]| {
        let output = Command::new(library_dir().join("bin/mpicc"))
            .args(["-O2", "-Wall", "-Wextra", "-Werror"])
            .args(arguments)
            .output()
            .expect("mpicc runs");
        let complained = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{complained}");
    };
    let source = |name: &str| format!("{SOURCES}/{name}.c");
    mpicc(&["-shared", "-fPIC", &source("tool"), "-o", tool.path()]);
    let linked = Built(tool.0.with_extension("linked"));
    mpicc(&[&source("tooled"), tool.path(), "-o", linked.path()]);
    let plain = Program::new("tooled");
    let preload = format!("LD_PRELOAD={}", tool.path());
    let program = plain.0.to_str().expect("a path");
    for line in [&["env", &preload, program][..], &[linked.path()]] {
        let output = Command::new(super::FERRIBAND)
            .env("FERRIBAND_LIB_DIR", library_dir())
            .args(["mpirun", "-n", "2", "--timeout", PATIENCE])
            .args(line)
            .output()
            .expect("mpirun runs");
        let said = String::from_utf8_lossy(&output.stdout);
        assert_eq!(said, "tooled: 2 ranks: ok\n", "{output:?}");
        let complained = String::from_utf8_lossy(&output.stderr);
        for rank in 0..2 {
            let words = format!("tool: rank {rank}: 1 init, 1 sends, 1 receives, 1 communicators");
            assert!(complained.contains(&words), "{complained}");
        }
    }
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
