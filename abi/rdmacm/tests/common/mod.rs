//! The drop-in libraries, built once for all tests of a process.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The directory that holds `libibverbs.so.1` and `librdmacm.so.1`, freshly built by `cargo xtask libs`.
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
            .expect("the library lies in a directory")
            .to_path_buf()
    })
}

/// False where another user, or the kernel, has the port of RoCEv2.
#[allow(dead_code)] // not every test sends packets
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
        eprintln!("skipped: UDP port 4791 is another user's");
    }
    !taken
}
