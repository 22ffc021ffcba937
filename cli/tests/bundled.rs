//! Programs that bring a libibverbs of their own under a name of its own, as wheels of PyPI do.

use std::fs;
use std::path::Path;
use std::process::Command;

use ferriband_testkit::library_dir;

/// What stands for the bundled copy: it knows of no device.
const COPY: &str = r#"
#include <stddef.h>
void **ibv_get_device_list(int *count) { static void *none[1]; if (count) *count = 0; return none; }
"#;
const PROGRAM: &str = r#"
#include <stdio.h>
void **ibv_get_device_list(int *count);
int main(void) { int count = -1; void **list = ibv_get_device_list(&count); printf("%d\n", list ? count : -1); return 0; }
"#;

fn compile(dir: &Path, arguments: &[&str]) {
    let output = Command::new("cc").current_dir(dir).args(arguments).output();
    let output = output.expect("a C compiler is there");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "cc {arguments:?}:\n{said}");
}

fn devices(dir: &Path, options: &[&str]) -> i32 {
    let output = Command::new(env!("CARGO_BIN_EXE_ferriband"))
        .arg("run")
        .args(options)
        .arg(dir.join("program"))
        .env("FERRIBAND_LIB_DIR", library_dir())
        .output()
        .expect("ferriband runs");
    let said = String::from_utf8_lossy(&output.stdout);
    let number = said.trim().parse();
    number.unwrap_or_else(|_| panic!("{said}{}", String::from_utf8_lossy(&output.stderr)))
}

#[test]
fn a_program_with_its_own_libibverbs_finds_our_devices_when_it_is_asked_to() {
    let dir = &Path::new(env!("CARGO_TARGET_TMPDIR")).join("bundled");
    fs::create_dir_all(dir).expect("the temporary directory is writable");
    fs::write(dir.join("copy.c"), COPY).expect("writable");
    fs::write(dir.join("program.c"), PROGRAM).expect("writable");
    fs::write(
        dir.join("copy.map"),
        "IBVERBS_1.1 { global: ibv_get_device_list; local: *; };\n",
    )
    .expect("writable");
    let name = "libibverbs-1de1263b.so.1.14.48.0";
    let soname = format!("-Wl,-soname,{name}");
    let script = "-Wl,--version-script=copy.map";
    compile(
        dir,
        &["-shared", "-fPIC", &soname, script, "-o", name, "copy.c"],
    );
    compile(
        dir,
        &["-o", "program", "program.c", name, "-Wl,-rpath,$ORIGIN"],
    );
    assert_eq!(devices(dir, &[]), 0);
    assert!(devices(dir, &["--bundled"]) >= 1);
    assert!(devices(dir, &["--bundled", "--sysfs", "none"]) >= 1);
}
