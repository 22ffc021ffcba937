//! Regenerates the checked-in bindings of `abi/verbs-sys` and `abi/rdmacm-sys` with bindgen (`cargo install bindgen-cli`; needs
//! libclang and the development headers of rdma-core, librdmacm's included).

use crate::{Outcome, value, workspace_root};
use std::path::Path;
use std::process::Command;

/// One generated file.
struct Bindings {
    /// The crate's directory: `src/wrapper.h` there becomes `src/bindings.rs`.
    directory: &'static str,
    /// Types that the C interface names. Everything else of the headers stays out.
    types: &'static str,
    /// Constants.
    constants: &'static str,
    /// Further options.
    options: &'static [&'static str],
    /// What the generated text imports for types that it leaves to other crates.
    imports: &'static [&'static str],
}

const ALL: [Bindings; 2] = [
    Bindings {
        directory: "abi/verbs-sys",
        types: "ibv_.*|_ibv_.*|verbs_context|_compat_ibv_port_attr|ib_uverbs_ah_attr|ib_uverbs_qp_attr|\
                ib_uverbs_global_route|ib_user_path_rec",
        constants: "_?IBV_.*",
        options: &[],
        imports: &["use libc::{pthread_cond_t, pthread_mutex_t, timespec};"],
    },
    Bindings {
        directory: "abi/rdmacm-sys",
        types: "rdma_.*|sockaddr_ib|ib_addr",
        constants: "_?RDMA_.*|RAI_.*|SOL_RDMA|AF_IB|PF_IB",
        options: &[
            "--blocklist-type",
            FROM_OTHERS,
            // Bindgen makes signed numbers of masks of 64 bits: the crate spells them out.
            "--blocklist-var",
            "RDMA_IB_(IP_)?(PS|PORT)_.*",
            // Real unions, although it cannot know that foreign members are Copy.
            "--default-non-copy-union-style",
            "manually_drop",
        ],
        imports: &[
            "use ferriband_verbs_sys::*;",
            "use libc::{sockaddr, sockaddr_in, sockaddr_in6, sockaddr_storage, socklen_t};",
        ],
    },
];

/// Types that the libc crate supplies, with what only they refer to.
const FROM_LIBC: &str = "pthread_.*|__pthread.*|__atomic_wide_counter.*|timespec|__time_t|__syscall_slong_t|ssize_t|__ssize_t";

/// Types that verbs' crate and libc supply to librdmacm's.
const FROM_OTHERS: &str = "ibv_.*|_ibv_.*|_compat_ibv.*|verbs_.*|rdma_driver_id|sockaddr|sockaddr_(in|in6|storage)|in_addr.*|\
                           in6_addr.*|sa_family_t|in_port_t|_*socklen_t";

/// One run of bindgen over a wrapper header.
fn run_bindgen(bindgen: &str, bindings: &Bindings, output: &Path) -> Outcome {
    let header = workspace_root()
        .join(bindings.directory)
        .join("src/wrapper.h");
    let mut command = Command::new(bindgen);
    command
        .arg(header)
        .args(["--default-enum-style", "consts", "--no-prepend-enum-name"])
        .args(["--with-derive-default", "--no-doc-comments", "--use-core"])
        .args(["--rust-edition", "2024", "--rust-target", "1.85"])
        .args(["--allowlist-type", bindings.types])
        .args(["--allowlist-var", bindings.constants])
        .args(["--blocklist-type", FROM_LIBC])
        .args(["--blocklist-function", ".*"])
        .args(bindings.options);
    for import in bindings.imports {
        command.args(["--raw-line", import]);
    }
    crate::run(command.arg("--output").arg(output))
}

/// Parses the arguments and writes or compares the files.
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
    for bindings in &ALL {
        let checked_in = workspace_root()
            .join(bindings.directory)
            .join("src/bindings.rs");
        if check {
            compare(&bindgen, bindings, &checked_in)?;
        } else {
            run_bindgen(&bindgen, bindings, &checked_in)?;
        }
    }
    Ok(())
}

/// Fails if bindgen writes something else now than is checked in.
fn compare(bindgen: &str, bindings: &Bindings, checked_in: &Path) -> Outcome {
    let fresh = std::env::temp_dir().join(format!("ferriband-bindings-{}.rs", std::process::id()));
    run_bindgen(bindgen, bindings, &fresh)?;
    let same = std::fs::read(&fresh).ok() == std::fs::read(checked_in).ok();
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
