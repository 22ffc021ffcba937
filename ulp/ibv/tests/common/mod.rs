//! Where the libraries of the tests come from.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// The directory that holds Ferriband's `libibverbs.so.1`, freshly built by `cargo xtask libs`.
#[allow(dead_code)] // each test file uses its own half
pub fn library_dir() -> &'static Path {
    static DIR: OnceLock<PathBuf> = OnceLock::new();
    DIR.get_or_init(|| {
        let output = Command::new(env!("CARGO"))
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .args(["run", "--quiet", "--package", "xtask", "--", "libs"])
            .output()
            .expect("cargo runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "cargo xtask libs failed:\n{said}");
        let paths = String::from_utf8(output.stdout).expect("paths");
        let library = PathBuf::from(paths.lines().next().expect("a library"));
        library
            .parent()
            .expect("it lies in a directory")
            .to_path_buf()
    })
}

/// True if a header of the system's is there; else it says which package has it.
#[allow(dead_code)] // as above
pub fn has_header(header: &str, package: &str) -> bool {
    let found = Command::new("cc")
        .args(["-E", "-include", header, "-x", "c", "/dev/null"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .expect("a C compiler, which linking Rust needs anyway");
    if !found.success() {
        eprintln!("skipped: {header} is not installed (apt install {package})");
    }
    found.success()
}

/// Builds the fake library with these macros defined; `None` where the headers are missing.
#[allow(dead_code)] // as above
pub fn fake(name: &str, defined: &[&str]) -> Option<PathBuf> {
    if !has_header("infiniband/verbs.h", "libibverbs-dev") {
        return None;
    }
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c/fake_verbs.c");
    let map = source.with_extension("map");
    let library = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.so"));
    let status = Command::new("cc")
        .args([
            "-std=gnu11",
            "-Wall",
            "-Wextra",
            "-Werror",
            "-O1",
            "-shared",
            "-fPIC",
        ])
        .args(defined.iter().map(|name| format!("-D{name}")))
        .arg(format!("-Wl,-soname,lib{name}.so.1"))
        .arg(format!("-Wl,--version-script={}", map.display()))
        .arg("-o")
        .arg(&library)
        .arg(&source)
        .status()
        .expect("cc runs");
    assert!(status.success(), "compiling fake_verbs.c: {status}");
    Some(library)
}

/// False where another user, or the kernel, has the port of RoCEv2.
#[allow(dead_code)] // as above
pub fn port_is_to_be_had() -> bool {
    let taken = std::fs::read_to_string("/proc/net/udp")
        .unwrap_or_default()
        .lines()
        .filter_map(|line| {
            let mut fields = line.split_ascii_whitespace();
            let local = fields.nth(1)?;
            let uid: u32 = fields.nth(5)?.parse().ok()?;
            local.ends_with(":12B7").then_some(uid)
        })
        // SAFETY: getuid has no preconditions.
        .any(|uid| uid != unsafe { libc::getuid() });
    if taken {
        eprintln!("SKIP: UDP port 4791 is another user's");
    }
    !taken
}
