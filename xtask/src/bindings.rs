//! Regenerates `abi/verbs-sys/src/bindings.rs` with bindgen (`cargo install bindgen-cli`; needs libclang and the
//! development headers of rdma-core).

use crate::{Outcome, value, workspace_root};
use std::process::Command;

/// Types that the C interface names. Everything else of the headers stays out.
const TYPES: &str = "ibv_.*|_ibv_.*|verbs_context|_compat_ibv_port_attr|ib_uverbs_ah_attr|ib_uverbs_qp_attr|\
                     ib_uverbs_global_route|ib_user_path_rec";
/// Types that the libc crate supplies, with what only they refer to.
const FROM_LIBC: &str = "pthread_.*|__pthread.*|__atomic_wide_counter.*|timespec|__time_t|__syscall_slong_t|ssize_t|__ssize_t";

/// One run of bindgen over the wrapper header.
fn run_bindgen(bindgen: &str, output: &std::path::Path) -> Outcome {
    let header = workspace_root().join("abi/verbs-sys/src/wrapper.h");
    crate::run(
        Command::new(bindgen)
            .arg(header)
            .args(["--default-enum-style", "consts", "--no-prepend-enum-name"])
            .args(["--with-derive-default", "--no-doc-comments", "--use-core"])
            .args(["--rust-edition", "2024", "--rust-target", "1.85"])
            .args(["--allowlist-type", TYPES, "--allowlist-var", "_?IBV_.*"])
            .args(["--blocklist-type", FROM_LIBC, "--blocklist-function", ".*"])
            .args([
                "--raw-line",
                "use libc::{pthread_cond_t, pthread_mutex_t, timespec};",
            ])
            .arg("--output")
            .arg(output),
    )
}

/// Parses the arguments and writes or compares the file.
pub fn run(args: &[String]) -> Outcome {
    let mut bindgen = "bindgen".to_owned();
    let mut check = false;
    let mut rest = args.iter();
    while let Some(arg) = rest.next() {
        match arg.as_str() {
            "--bindgen" => bindgen = value(arg, &mut rest)?.to_owned(),
            "--check" => check = true,
            other => return Err(format!("bindings: unknown argument {other}")),
        }
    }
    let checked_in = workspace_root().join("abi/verbs-sys/src/bindings.rs");
    if !check {
        return run_bindgen(&bindgen, &checked_in);
    }
    let fresh = std::env::temp_dir().join(format!("ferriband-bindings-{}.rs", std::process::id()));
    run_bindgen(&bindgen, &fresh)?;
    let same = std::fs::read(&fresh).ok() == std::fs::read(&checked_in).ok();
    std::fs::remove_file(&fresh).map_err(|error| format!("{}: {error}", fresh.display()))?;
    if same {
        Ok(())
    } else {
        Err(format!(
            "{} differs from what bindgen writes now",
            checked_in.display()
        ))
    }
}
