//! `ferriband run` and `ferriband env`: find the drop-in libraries and put them before the
//! system's.
//!
//! Owns: the search for the library directory and the environment of a program. The program is
//! executed in place of this process, so that its pid, signals and exit status are its own.

use crate::args::{AdapterArgs, HostWire, Sysfs};
use crate::caller;
use crate::failure::Failure;
use crate::fault;
use crate::text;
use ferriband_attach::{DEFAULT_FABRIC, is_fabric_name};
use rustix::process::{Resource, getrlimit, setrlimit};
use std::env;
use std::ffi::{CString, OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// Overrides the search.
pub const LIB_DIR_VARIABLE: &str = "FERRIBAND_LIB_DIR";
/// The library that a directory must hold to be ours.
pub const VERBS_SONAME: &str = "libibverbs.so.1";
const CM_SONAME: &str = "librdmacm.so.1";
const SEARCH_PATH: &str = "LD_LIBRARY_PATH";
/// Libraries that the loader puts before a program's own.
pub const PRELOAD: &str = "LD_PRELOAD";
/// The library that shows programs the files of our devices under /sys and /dev.
const SYSFS_LIBRARY: &str = "libferriband_sysfs.so";
/// Options of AddressSanitizer, in programs that are built with it.
const ASAN_OPTIONS: &str = "ASAN_OPTIONS";
/// Whether it looks for its own library in the first place.
const ASAN_LINK_ORDER: &str = "verify_asan_link_order";
/// The devices that a program finds, in order.
pub const DEVICES_VARIABLE: &str = "FERRIBAND_DEVICES";
/// How peers of the same host are reached.
pub const WIRE_VARIABLE: &str = "FERRIBAND_WIRE";
/// Bytes that a segment of the adapter's shared memory may have.
const SEGMENT_BYTES: u64 = 64 << 20;
/// Fault rules that the program brings along, separated by semicolons.
const FAULTS_VARIABLE: &str = "FERRIBAND_FAULTS";

/// The directory of the drop-in libraries, absolute.
pub fn lib_dir() -> Result<PathBuf, Failure> {
    if let Some(dir) = env::var_os(LIB_DIR_VARIABLE).filter(|dir| !dir.is_empty()) {
        let dir = PathBuf::from(dir);
        return holds_verbs(&dir).ok_or_else(|| {
            Failure::new(format!(
                "{LIB_DIR_VARIABLE} names {}, where there is no {VERBS_SONAME}",
                dir.display()
            ))
            .remedy(format!(
                "unset {LIB_DIR_VARIABLE}, or point it at the directory of Ferriband's libraries"
            ))
        });
    }
    let exe = env::current_exe()
        .map_err(|error| Failure::io("find", "this program's own file", &error))?;
    let places = candidates(&exe);
    places.iter().find_map(|dir| holds_verbs(dir)).ok_or_else(|| {
        let looked = places.iter().map(|dir| dir.display().to_string()).collect::<Vec<_>>().join(", ");
        Failure::new(format!("cannot find Ferriband's {VERBS_SONAME}; looked in {looked}")).remedy(format!(
            "build it with: cargo xtask libs    (or install with: make install; or set {LIB_DIR_VARIABLE})"
        ))
    })
}

/// The program `ferriband`: this one, or the one that lies beside `ferriband-dev`.
pub fn ferriband() -> Result<PathBuf, Failure> {
    let exe = env::current_exe()
        .map_err(|error| Failure::io("find", "this program's own file", &error))?;
    Ok(match exe.file_name() {
        Some(name) if name == "ferriband-dev" => exe.with_file_name("ferriband"),
        _ => exe,
    })
}

/// Where the libraries may be, seen from the executable: beside an installed bin, or in the target
/// directory of a build (target/PROFILE/ferriband and target/TRIPLE/PROFILE/ferriband).
fn candidates(exe: &Path) -> Vec<PathBuf> {
    let above = |levels: usize| exe.ancestors().nth(levels).map(Path::to_owned);
    let installed = above(2).map(|prefix| prefix.join("lib/ferriband"));
    let built = [2, 3]
        .into_iter()
        .filter_map(above)
        .map(|target| target.join("ferriband/lib"));
    installed.into_iter().chain(built).collect()
}

fn holds_verbs(dir: &Path) -> Option<PathBuf> {
    dir.join(VERBS_SONAME)
        .is_file()
        .then(|| dir.canonicalize().unwrap_or_else(|_| dir.to_owned()))
}

/// The search path of the loader with `dir` first and once.
fn search_path(dir: &Path, inherited: Option<&OsStr>) -> OsString {
    let mut path = dir.as_os_str().to_owned();
    let parts = inherited
        .unwrap_or_default()
        .as_bytes()
        .split(|&byte| byte == b':' || byte == b';');
    for part in parts.filter(|part| !part.is_empty() && *part != dir.as_os_str().as_bytes()) {
        path.push(":");
        path.push(OsStr::from_bytes(part));
    }
    path
}

/// The loader's search path for a program that this process starts: `dir`, then what the caller has
/// set.
///
/// # Errors
/// The directory's name would end where the loader's list has its next entry.
fn checked_search_path(dir: &Path) -> Result<OsString, Failure> {
    let ends_entry = |byte: &u8| matches!(byte, b':' | b';');
    if dir.as_os_str().as_bytes().iter().any(ends_entry) {
        let what = format!(
            "the library directory {} has a ':' or ';' in its name",
            dir.display()
        );
        return Err(
            Failure::new(what).remedy("the dynamic loader cannot be told of it: move it elsewhere")
        );
    }
    Ok(search_path(dir, env::var_os(SEARCH_PATH).as_deref()))
}

/// What is preloaded: libraries of ours, first and once. A name with a slash is what the loader ignores without a word in programs that gain
/// privilege; in a directory whose name would end the word there, the bare name does, which the search path leads to.
fn preload(dir: &Path, libraries: &[&str], inherited: Option<&OsStr>) -> OsString {
    let ends_word = |byte: &u8| byte.is_ascii_whitespace() || *byte == b':';
    let mut list = OsString::new();
    let mut ours = Vec::new();
    for library in libraries {
        let full = dir.join(library).into_os_string();
        ours.push(if full.as_bytes().iter().any(ends_word) {
            OsString::from(library)
        } else {
            full
        });
    }
    let parts = inherited
        .unwrap_or_default()
        .as_bytes()
        .split(|byte| ends_word(byte))
        .map(OsStr::from_bytes);
    let others = parts.filter(|part| !part.is_empty() && ours.iter().all(|own| own != part));
    for part in ours.iter().map(OsString::as_os_str).chain(others) {
        if !list.is_empty() {
            list.push(":");
        }
        list.push(part);
    }
    list
}

/// The options of AddressSanitizer with which it starts behind a preloaded library: it demands that its own comes first, so that it sees each
/// allocation, which ours leave to it. None if the user says something of that himself.
fn asan_options(inherited: Option<OsString>) -> Option<OsString> {
    let mut list = inherited.unwrap_or_default();
    let says = |part: &[u8]| part.starts_with(ASAN_LINK_ORDER.as_bytes());
    let separates = |byte: &u8| matches!(byte, b':' | b',') || byte.is_ascii_whitespace();
    if list.as_bytes().split(separates).any(says) {
        return None;
    }
    if !list.is_empty() {
        list.push(":");
    }
    list.push(ASAN_LINK_ORDER);
    list.push("=0");
    Some(list)
}

/// The variables that a program needs to find our libraries and the files of our devices, with their values.
pub fn settings() -> Result<Vec<(&'static str, OsString)>, Failure> {
    settings_with(Sysfs::default(), false)
}

/// The variable alone that lets a program find our libraries.
pub fn library_settings() -> Result<Vec<(&'static str, OsString)>, Failure> {
    settings_with(Sysfs::None, false)
}

/// The same; `sysfs` says whether it finds the files, `bundled` that it brings libraries like ours along, whose names nobody knows: what is preloaded
/// comes before any of them, whatever its file is called.
fn settings_with(sysfs: Sysfs, bundled: bool) -> Result<Vec<(&'static str, OsString)>, Failure> {
    let dir = lib_dir()?;
    let mut settings = vec![(SEARCH_PATH, checked_search_path(&dir)?)];
    let wanted = [
        (SYSFS_LIBRARY, sysfs == Sysfs::Preload),
        (VERBS_SONAME, bundled),
        (CM_SONAME, bundled),
    ];
    let preloaded: Vec<&str> = wanted
        .into_iter()
        .filter(|(library, wanted)| *wanted && dir.join(library).is_file())
        .map(|(library, _)| library)
        .collect();
    if !preloaded.is_empty() {
        let list = preload(&dir, &preloaded, env::var_os(PRELOAD).as_deref());
        settings.push((PRELOAD, list));
        settings.extend(asan_options(env::var_os(ASAN_OPTIONS)).map(|list| (ASAN_OPTIONS, list)));
    }
    Ok(settings)
}

/// The variables that preload `library` of ours, before what the caller preloads, and nothing else.
///
/// # Errors
/// It is not where our libraries are, or the loader cannot be told of that directory.
pub fn preload_settings(library: &str) -> Result<Vec<(&'static str, OsString)>, Failure> {
    let dir = lib_dir()?;
    if !dir.join(library).is_file() {
        let what = format!("there is no {library} in {}", dir.display());
        return Err(Failure::new(what).remedy(
            "build it with: cargo xtask libs    (or install all of Ferriband with: make install)",
        ));
    }
    let list = preload(&dir, &[library], env::var_os(PRELOAD).as_deref());
    let by_name = !list.as_bytes().starts_with(dir.as_os_str().as_bytes());
    let mut settings = vec![(PRELOAD, list)];
    if by_name {
        settings.push((SEARCH_PATH, checked_search_path(&dir)?));
    }
    settings.extend(asan_options(env::var_os(ASAN_OPTIONS)).map(|list| (ASAN_OPTIONS, list)));
    Ok(settings)
}

/// What [`WIRE_VARIABLE`] says of a wire.
pub fn wire_name(wire: HostWire) -> &'static str {
    match wire {
        HostWire::Direct => "direct",
        HostWire::Roce => "roce",
        HostWire::Packets => "packets",
    }
}

/// The variables that say what a program shall see of the adapter.
fn adapter_settings(adapter: &AdapterArgs) -> Vec<(&'static str, OsString)> {
    let mut settings = Vec::new();
    if !adapter.device.is_empty() {
        settings.push((DEVICES_VARIABLE, adapter.device.join(",").into()));
    }
    if let Some(wire) = adapter.wire {
        settings.push((WIRE_VARIABLE, wire_name(wire).into()));
    }
    settings
}

/// The variables that put a program on a host of a live fabric, which must be up.
fn host_settings(adapter: &AdapterArgs) -> Result<Vec<(&'static str, OsString)>, Failure> {
    let Some(words) = &adapter.host else {
        return Ok(Vec::new());
    };
    let found = crate::fabric::live::host(words);
    let (host, address) =
        found.map_err(|failure| named_before_host(failure, words, &ferriband_attach::running()))?;
    let mut settings = vec![
        (ferriband_attach::HOST_VARIABLE, host.to_string().into()),
        (
            ferriband_attach::ADDRESS_VARIABLE,
            address.to_string().into(),
        ),
    ];
    // it has this adapter and no other
    if adapter.device.is_empty() {
        settings.push((DEVICES_VARIABLE, ferriband_attach::DEVICE.into()));
    }
    Ok(settings)
}

/// Where the fabric is not among those that are `up`, says how a command that runs programs is told of another: by a word before the host, while the commands
/// that look after fabrics, which the failure was written for, have an option.
fn named_before_host(failure: Failure, words: &str, up: &[String]) -> Failure {
    let (fabric, host) = words.split_once('/').unwrap_or((DEFAULT_FABRIC, words));
    let is_name = is_fabric_name(fabric) && !host.is_empty();
    let Some(other) = up
        .first()
        .filter(|_| is_name && !up.iter().any(|name| name == fabric))
    else {
        return failure;
    };
    failure.remedy(format!(
        "up: {}; FABRIC/HOST says which is meant ({other}/{host}); or start one with: ferriband fabric up --name {fabric} --background fat-tree:4x4x2",
        up.join(", ")
    ))
}

/// All variables of a program that shall see the adapter so: where the libraries are, which devices it has, and on a host of a live fabric what makes it the
/// host's (its name, its address, its files). What `run`, `env` and a rank of `mpirun --fabric-hosts` have.
fn environment(adapter: &AdapterArgs) -> Result<Vec<(&'static str, OsString)>, Failure> {
    let mut settings = settings_with(adapter.sysfs, adapter.bundled)?;
    settings.extend(adapter_settings(adapter));
    settings.extend(host_settings(adapter)?);
    Ok(settings)
}

/// The environment of a program on the host `[FABRIC/]HOST`, as of `ferriband run --host`.
pub fn environment_on(host: &str) -> Result<Vec<(&'static str, OsString)>, Failure> {
    environment(&AdapterArgs {
        host: Some(host.to_owned()),
        ..AdapterArgs::default()
    })
}

/// `ferriband env`: the settings as shell code, or as JSON.
pub fn print_settings(adapter: &AdapterArgs, json: bool) -> Result<ExitCode, Failure> {
    let settings = environment(adapter)?;
    if json {
        let object: serde_json::Map<_, _> = settings
            .iter()
            .map(|(name, value)| {
                (
                    (*name).to_owned(),
                    value.to_string_lossy().into_owned().into(),
                )
            })
            .collect();
        text::print_json(&object)?;
        return Ok(ExitCode::SUCCESS);
    }
    for (name, value) in settings {
        text::print_line(&format!(
            "export {name}={}",
            quote(&value.to_string_lossy())
        ))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// A word that a POSIX shell reads back as it is.
pub fn quote(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./:=,+@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// `ferriband run`: becomes the program. Returns only when that failed.
pub fn run(
    adapter: &AdapterArgs,
    faults: &[String],
    command: &[OsString],
) -> Result<ExitCode, Failure> {
    let program = &command[0];
    // what was typed is judged before what is installed
    let faults = match faults {
        [] => None,
        faults => Some((FAULTS_VARIABLE, fault::for_program(faults)?.into())),
    };
    let mut settings = environment(adapter)?;
    settings.extend(faults);
    if let Some(path) = resolve(program) {
        warn_of_privilege(&path);
    }
    if let Err(failure) = file_limit() {
        complain!("ferriband: {failure}");
    }
    let error = become_program(command, settings);
    Err(explain(program, &error))
}

/// Executes a program, the first of the words, in place of this process, with these variables set.
/// Returns only when that failed.
pub fn become_program(words: &[OsString], settings: Vec<(&'static str, OsString)>) -> io::Error {
    let (program, arguments) = words.split_first().expect("clap demands at least one word");
    let mut command = Command::new(program);
    caller::give_back(&mut command);
    command.args(arguments).envs(settings).exec()
}

/// What to say of an RDMA program that could not be executed, with the status that a shell would
/// give.
pub fn explain(program: &OsStr, error: &io::Error) -> Failure {
    let packages = "check the spelling, or install it (ibverbs-utils and perftest hold the usual RDMA programs)";
    explain_with(program, error, packages)
}

/// Why a program could not be executed; `missing` says what to do where there is none of that name.
pub fn explain_with(program: &OsStr, error: &io::Error, missing: &str) -> Failure {
    let name = program.to_string_lossy();
    match (error.raw_os_error(), resolve(program)) {
        (Some(libc::ENOENT), None) if name.starts_with('-') => Failure::new(format!(
            "cannot run {name}: no such option, and no such program"
        ))
        .remedy("see which options there are with --help")
        .status(127),
        (Some(libc::ENOENT | libc::ENOTDIR), None) => {
            Failure::new(format!("cannot run {name}: no such program"))
                .remedy(missing)
                .status(127)
        }
        (Some(libc::ENOENT), Some(path)) => Failure::new(format!(
            "cannot run {}: the interpreter that it names does not exist",
            path.display()
        ))
        .remedy("look at its first line (#!...), or at its loader with: readelf -l")
        .status(126),
        (Some(libc::EACCES), path) => {
            let path = path.unwrap_or_else(|| program.into());
            let failure = Failure::new(format!("cannot run {}: permission denied", path.display()));
            if path.is_dir() {
                return failure.remedy("it is a directory").status(126);
            }
            failure
                .remedy(format!(
                    "make it executable with: chmod +x {}",
                    quote(&path.to_string_lossy())
                ))
                .status(126)
        }
        _ => Failure::io("run", &name, error).status(126),
    }
}

/// The file that execvp would try: the word itself when it holds a slash, else the first of that
/// name in PATH.
pub fn resolve(program: &OsStr) -> Option<PathBuf> {
    if program.as_bytes().contains(&b'/') {
        return Path::new(program).exists().then(|| program.into());
    }
    let path = env::var_os("PATH")?;
    let found: Vec<PathBuf> = env::split_paths(&path)
        .map(|dir| dir.join(program))
        .filter(|file| file.is_file())
        .collect();
    let executable = |file: &&PathBuf| {
        file.metadata()
            .is_ok_and(|data| data.permissions().mode() & 0o111 != 0)
    };
    found
        .iter()
        .find(executable)
        .or_else(|| found.first())
        .cloned()
}

/// The loader ignores LD_LIBRARY_PATH in programs that gain privilege: say so, because what the
/// user would see is the system's library and no device.
fn warn_of_privilege(path: &Path) {
    let set_id = path
        .metadata()
        .is_ok_and(|data| data.permissions().mode() & 0o6000 != 0);
    let capable = CString::new(path.as_os_str().as_bytes()).is_ok_and(|path| {
        // SAFETY: two C strings that live through the call; a length of zero asks for the size only.
        unsafe {
            libc::getxattr(
                path.as_ptr(),
                c"security.capability".as_ptr(),
                std::ptr::null_mut(),
                0,
            ) > 0
        }
    });
    if set_id || capable {
        complain!(
            "ferriband: {} gains privilege when executed (set-user-ID or file capabilities): the dynamic loader \
             ignores {SEARCH_PATH} there, so it will use the system's libraries.\n  Run a copy of it without that mark.",
            path.display()
        );
    }
}

/// Whether an adapter can be opened under the limit on files: shared memory is a file to the
/// kernel, and a file may not be longer than `ulimit -f` says. What a program would see is an
/// adapter that cannot be opened.
///
/// # Errors
/// The limit is too low, and may not be lifted.
pub fn file_limit() -> Result<(), Failure> {
    // SAFETY: a name that ends in zero.
    let fd = unsafe { libc::memfd_create(c"ferriband".as_ptr(), libc::MFD_CLOEXEC) };
    if fd < 0 {
        return Ok(());
    }
    // SAFETY: a new descriptor.
    let file = unsafe { OwnedFd::from_raw_fd(fd) };
    match ferriband_limit::set_length(file.as_fd(), SEGMENT_BYTES) {
        Err(error) if error.raw_os_error() == Some(libc::EFBIG) => Err(Failure::new(
            "no adapter can be opened: the limit on the size of files (ulimit -f) is lower than its shared memory, which is a file to the kernel",
        )
        .remedy("raise the limit where it was set (ulimit -f)")),
        _ => Ok(()),
    }
}

/// Makes room for so many descriptors, here and in processes started from here, as far as this
/// process is allowed to.
pub fn allow_descriptors(wanted: u64) {
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current.is_some_and(|current| current < wanted) {
        limit.current = Some(limit.maximum.map_or(wanted, |most| wanted.min(most)));
        // it is lower than what is allowed
        let _ = setrlimit(Resource::Nofile, limit);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_directory_comes_first_and_once() {
        let path = search_path(Path::new("/ours"), Some(OsStr::new("/a:/ours::/b")));
        assert_eq!(path, "/ours:/a:/b");
        assert_eq!(search_path(Path::new("/ours"), None), "/ours");
    }

    #[test]
    fn the_files_library_is_preloaded_first_and_once() {
        let inherited = Some(OsStr::new("/a.so /b.so:/ours/libferriband_sysfs.so"));
        let list = preload(Path::new("/ours"), &[SYSFS_LIBRARY], inherited);
        assert_eq!(list, "/ours/libferriband_sysfs.so:/a.so:/b.so");
        let both = [SYSFS_LIBRARY, VERBS_SONAME];
        let list = preload(Path::new("/ours"), &both, inherited);
        assert_eq!(
            list,
            "/ours/libferriband_sysfs.so:/ours/libibverbs.so.1:/a.so:/b.so"
        );
        assert_eq!(
            preload(Path::new("/our dir"), &both, None),
            "libferriband_sysfs.so:libibverbs.so.1"
        );
    }

    #[test]
    fn what_the_user_says_to_address_sanitizer_stays() {
        let options = |inherited: Option<&str>| asan_options(inherited.map(OsString::from));
        assert_eq!(options(None), Some("verify_asan_link_order=0".into()));
        assert_eq!(
            options(Some("detect_leaks=0")),
            Some("detect_leaks=0:verify_asan_link_order=0".into())
        );
        assert_eq!(options(Some("verify_asan_link_order=1")), None);
        assert_eq!(options(Some("a=1 verify_asan_link_order=1:b=2")), None);
    }

    #[test]
    fn devices_and_wire_become_variables_only_when_asked_for() {
        assert!(adapter_settings(&AdapterArgs::default()).is_empty());
        let adapter = AdapterArgs {
            device: vec!["ferri_eth0".into(), "ferri0".into()],
            wire: Some(HostWire::Roce),
            ..AdapterArgs::default()
        };
        assert_eq!(
            adapter_settings(&adapter),
            [
                (DEVICES_VARIABLE, "ferri_eth0,ferri0".into()),
                (WIRE_VARIABLE, "roce".into())
            ]
        );
    }

    #[test]
    fn a_fabric_is_named_before_its_host() {
        let up = ["mine".to_owned(), "yours".to_owned()];
        let said = |words| {
            let failure = Failure::new("it failed").remedy("--name");
            named_before_host(failure, words, &up).to_string()
        };
        for words in ["H1", "other/H1"] {
            let said = said(words);
            assert!(said.contains("up: mine, yours; FABRIC/HOST"), "{said}");
            assert!(said.contains("(mine/H1)"), "{said}");
        }
        // where the name is not what was wrong, what was said stays
        for words in ["mine/H1", "no name/H1", "other/"] {
            assert_eq!(said(words), "it failed\n  --name");
        }
        let alone = named_before_host(Failure::new("it failed"), "H1", &[]);
        assert_eq!(alone.to_string(), "it failed");
    }

    #[test]
    fn installed_and_built_layouts_are_searched() {
        let found = candidates(Path::new("/p/target/release/ferriband"));
        assert!(
            found.contains(&"/p/target/ferriband/lib".into()),
            "{found:?}"
        );
        let found = candidates(Path::new("/usr/local/bin/ferriband"));
        assert_eq!(found[0], Path::new("/usr/local/lib/ferriband"));
    }

    #[test]
    fn quoting_survives_a_shell() {
        for word in ["plain", "", "a b", "it's", "$HOME `x` \"y\" \\"] {
            let output = Command::new("sh")
                .arg("-c")
                .arg(format!("printf %s {}", quote(word)))
                .output()
                .expect("sh runs");
            assert_eq!(String::from_utf8_lossy(&output.stdout), word);
        }
    }

    #[test]
    fn failures_have_the_statuses_of_a_shell() {
        let missing = explain(
            OsStr::new("no-such-program-here"),
            &io::Error::from_raw_os_error(libc::ENOENT),
        );
        assert_eq!(missing.exit_status, 127);
        let denied = explain(
            OsStr::new("/etc/passwd"),
            &io::Error::from_raw_os_error(libc::EACCES),
        );
        assert_eq!(denied.exit_status, 126);
        let directory = explain(
            OsStr::new("/tmp"),
            &io::Error::from_raw_os_error(libc::EACCES),
        );
        assert!(directory.to_string().contains("directory"));
    }
}
