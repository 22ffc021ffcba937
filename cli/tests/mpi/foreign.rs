//! Programs of another MPI: they are refused, or said to be what they are. The other MPI is a library of a few lines here.

use super::launch::{complained, ferriband, said};
use super::library_dir;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A directory with a library of another MPI and programs of it, gone at the end.
struct Foreign(PathBuf);

impl Foreign {
    fn new(name: &str, library: &str) -> Self {
        let dir = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let dir = dir.join(format!("mpi_foreign.{}.{name}", std::process::id()));
        fs::create_dir_all(&dir).expect("a directory");
        let made = Self(dir);
        made.file("mpi.c", "int MPI_Init(void *c, void *v) { return c == v; }");
        made.file(
            "solver.c",
            "int MPI_Init(void *, void *); int solve(void) { return MPI_Init(0, 0); }",
        );
        made.file("direct.c", "#include <stdio.h>\nint MPI_Init(void *, void *);\nint main(void) { MPI_Init(0, 0); puts(\"alone\"); return 0; }");
        made.file("indirect.c", "#include <stdio.h>\nint solve(void);\nint main(void) { solve(); puts(\"alone\"); return 0; }");
        let soname = format!("-Wl,-soname,{library}");
        made.cc(&["-shared", "-fPIC", &soname, "mpi.c", "-o", library]);
        let origin = "-Wl,-rpath,$ORIGIN";
        let own = format!("./{library}");
        made.cc(&[
            "-shared",
            "-fPIC",
            "-Wl,-soname,libsolver.so",
            "solver.c",
            &own,
            origin,
            "-o",
            "libsolver.so",
        ]);
        made.cc(&["direct.c", &own, origin, "-o", "direct"]);
        made.cc(&[
            "indirect.c",
            "./libsolver.so",
            origin,
            "-Wl,--allow-shlib-undefined",
            "-o",
            "indirect",
        ]);
        made
    }

    fn file(&self, name: &str, text: &str) {
        fs::write(self.0.join(name), text).expect("written");
    }

    fn cc(&self, arguments: &[&str]) {
        let output = Command::new("cc")
            .current_dir(&self.0)
            .args(arguments)
            .output()
            .expect("cc runs");
        assert!(
            output.status.success(),
            "{arguments:?}: {}",
            complained(&output)
        );
    }

    fn mpirun(&self, words: &[&str]) -> Output {
        ferriband(&[&["mpirun"], words].concat())
            .current_dir(&self.0)
            .output()
            .expect("it runs")
    }
}

impl Drop for Foreign {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_program_that_is_linked_to_another_mpi_is_refused_with_its_name() {
    for (name, library, of) in [
        ("open", "libmpi.so.40", "Open MPI"),
        ("cray", "libmpi_gnu_123.so.12", "Cray MPICH"),
        ("ibm", "libmpi_ibm.so.3", "IBM Spectrum MPI"),
    ] {
        let foreign = Foreign::new(name, library);
        for words in [
            &["-n", "2", "./direct"][..],
            &["-n", "2", "./indirect"],
            &["-n", "1", "true", ":", "-n", "1", "./direct"],
        ] {
            let output = foreign.mpirun(words);
            let complaint = complained(&output);
            assert_eq!(output.status.code(), Some(1), "{words:?}: {complaint}");
            assert_eq!(said(&output), "", "nothing has run");
            for part in [library, of, "bin/mpicc", "mpicc_abi", "--allow-foreign"] {
                assert!(complaint.contains(part), "{words:?}, {part}: {complaint}");
            }
        }
        let output = foreign.mpirun(&["--allow-foreign", "-n", "2", "./direct"]);
        assert_eq!(said(&output), "alone\nalone\n", "{}", complained(&output));
        assert_eq!(
            (output.status.code(), complained(&output).as_str()),
            (Some(0), "")
        );
    }
}

#[test]
fn a_program_of_mpich_is_started_and_it_is_told_if_it_does_not_ask_for_the_others() {
    for (name, library) in [("mpich", "libmpich.so.12"), ("intel", "libmpi.so.12")] {
        let foreign = Foreign::new(name, library);
        foreign.file(
            "slow.c",
            "#include <stdio.h>\n#include <unistd.h>\nint MPI_Init(void *, void *);\nint main(void) { MPI_Init(0, 0); puts(\"alone\"); fflush(stdout); usleep(300000); return 0; }",
        );
        let own = format!("./{library}");
        foreign.cc(&["slow.c", &own, "-Wl,-rpath,$ORIGIN", "-o", "slow"]);
        let output = foreign.mpirun(&["-n", "2", "./slow"]);
        let complaint = complained(&output);
        assert_eq!(said(&output), "alone\nalone\n", "{complaint}");
        assert!(
            output.status.success() && complaint.contains(library),
            "{complaint}"
        );
        assert!(
            complaint.contains("asked for the others by PMI-1"),
            "{complaint}"
        );
    }
}

#[test]
fn a_program_is_found_where_it_will_be() {
    let foreign = Foreign::new("found", "libmpi.so.40");
    let dir = foreign.0.to_str().expect("a path in ASCII");
    // by --wdir, and by PATH
    let output = ferriband(&["mpirun", "--wdir", dir, "-n", "1", "./direct"])
        .output()
        .expect("it runs");
    assert_eq!(output.status.code(), Some(1), "{}", complained(&output));
    let output = ferriband(&["mpirun", "-n", "1", "direct"])
        .env("PATH", dir)
        .output()
        .expect("it runs");
    assert_eq!(output.status.code(), Some(1), "{}", complained(&output));
    assert!(complained(&output).contains("libmpi.so.40"));
}

#[test]
fn what_loads_another_mpi_later_is_told_at_the_end() {
    let foreign = Foreign::new("later", "libmpi.so.40");
    foreign.file(
        "loads.c",
        "#include <dlfcn.h>\n#include <stdio.h>\n#include <unistd.h>\nint main(void) { void *m = dlopen(\"./libmpi.so.40\", RTLD_NOW); puts(m ? \"loaded\" : \"not\"); fflush(stdout); usleep(300000); return !m; }",
    );
    foreign.cc(&["loads.c", "-ldl", "-o", "loads"]);
    foreign.file("script", "#!/bin/sh\n./loads\n");
    let script = foreign.0.join("script");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).expect("ours");
    for program in ["./loads", "./script"] {
        let output = foreign.mpirun(&["-n", "2", program]);
        let complaint = complained(&output);
        assert_eq!(said(&output), "loaded\nloaded\n", "{complaint}");
        assert_eq!(output.status.code(), Some(0));
        let told = complaint.matches("a rank has loaded ").count();
        assert_eq!(told, 1, "{program}: {complaint}");
        assert!(complaint.contains("libmpi.so.40 (Open MPI)"), "{complaint}");
        let output = foreign.mpirun(&["--allow-foreign", "-n", "2", program]);
        assert_eq!(complained(&output), "");
    }
}

#[test]
fn programs_of_ours_and_of_no_mpi_run_without_a_word() {
    let hello = super::Program::new("hello");
    let hello = hello.0.to_str().expect("a path in ASCII");
    let script = format!("sleep 0.3; {hello}");
    for words in [
        &["date"][..],
        &["sh", "-c", "sleep 0.3; echo done"],
        &["sh", "-c", &script],
        &[hello],
        &["true"],
    ] {
        let line = [&["mpirun", "-n", "2"], words].concat();
        let output = ferriband(&line).output().expect("it runs");
        assert_eq!(
            (output.status.code(), complained(&output).as_str()),
            (Some(0), ""),
            "{words:?}"
        );
    }
    // A library of another beside ours is the program's own affair.
    let foreign = Foreign::new("both", "libmpi.so.40");
    foreign.file("both.c", "#include <mpi.h>\nint solve(void);\nint main(void) { MPI_Init(0, 0); MPI_Finalize(); return 0; }");
    let output = Command::new(library_dir().join("bin/mpicc"))
        .current_dir(&foreign.0)
        .args([
            "both.c",
            "-Wl,--no-as-needed",
            "./libmpi.so.40",
            "-Wl,-rpath,$ORIGIN",
            "-o",
            "both",
        ])
        .output()
        .expect("mpicc runs");
    assert!(output.status.success(), "{}", complained(&output));
    let output = foreign.mpirun(&["-n", "1", "true", ":", "-n", "1", "./both"]);
    assert!(
        !complained(&output).contains("linked to"),
        "{}",
        complained(&output)
    );
}
