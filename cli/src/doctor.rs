//! `ferriband doctor`: what this machine allows, and what each missing thing costs.
//!
//! Owns: the probes. Each tries the mechanism itself, on a child process where that is needed,
//! instead of reading version numbers; limits and hints only explain what was found.

mod network;
mod sdp;

use crate::failure::Failure;
use crate::floor::{Affinity, allow_cma};
use crate::launch;
use crate::text::{print_json, print_line};
use crate::verbs::{Library, Source};
use serde::Serialize;
use std::ffi::CString;
use std::fs::{self, OpenOptions};
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::FileExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::Path;
use std::process::ExitCode;
use std::{process, ptr};

/// How much a finding matters.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
enum State {
    /// As it should be.
    Fine,
    /// Said because people ask; costs nothing.
    Note,
    /// Works, at a cost.
    Degraded,
    /// Cannot work.
    Broken,
}

/// One thing that was looked at.
#[derive(Serialize)]
struct Finding {
    name: &'static str,
    state: State,
    found: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    cost: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    remedy: Option<String>,
}

impl Finding {
    fn new(name: &'static str, state: State, found: impl Into<String>) -> Self {
        Finding {
            name,
            state,
            found: found.into(),
            cost: None,
            remedy: None,
        }
    }

    fn fine(name: &'static str, found: impl Into<String>) -> Self {
        Self::new(name, State::Fine, found)
    }

    fn cost(mut self, cost: impl Into<String>) -> Self {
        self.cost = Some(cost.into());
        self
    }

    fn remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = Some(remedy.into());
        self
    }
}

/// `ferriband doctor`.
pub fn command(json: bool) -> Result<ExitCode, Failure> {
    // The library comes last: the probes before it fork, and it may start threads.
    let mut findings = vec![
        cores(),
        cross_memory_attach(),
        proc_mem(),
        memfd(),
        sockets(),
        open_files(),
        procmap_query(),
        user_namespaces(),
        locked_memory(),
        network::port(),
        network::socket_room(),
    ];
    findings.extend(sdp::findings());
    findings.extend([confinement(), kernel(), library()]);
    let worst = findings
        .iter()
        .map(|finding| finding.state)
        .max()
        .unwrap_or(State::Fine);
    if json {
        print_json(&findings)?;
    } else {
        for finding in &findings {
            show(finding)?;
        }
        print_line(match worst {
            State::Fine | State::Note => "\nEverything that Ferriband needs is here.",
            State::Degraded => "\nFerriband works here, slower than it could: see what costs.",
            State::Broken => "\nFerriband cannot work here: see what is broken.",
        })?;
    }
    Ok(ExitCode::from(match worst {
        State::Fine | State::Note => 0,
        State::Degraded => 1,
        State::Broken => 2,
    }))
}

fn show(finding: &Finding) -> Result<(), Failure> {
    let mark = match finding.state {
        State::Fine => "ok    ",
        State::Note => "note  ",
        State::Degraded => "slower",
        State::Broken => "BROKEN",
    };
    print_line(&format!("{mark}  {:<22} {}", finding.name, finding.found))?;
    if let Some(cost) = &finding.cost {
        print_line(&format!("{:32}cost: {cost}", ""))?;
    }
    if let Some(remedy) = &finding.remedy {
        print_line(&format!("{:32}do: {remedy}", ""))?;
    }
    Ok(())
}

fn library() -> Finding {
    let name = "drop-in library";
    let adapters = Library::open(Source::Ours).and_then(|library| {
        let names = library
            .contexts(None)?
            .iter()
            .map(|context| context.name.clone())
            .collect::<Vec<_>>();
        Ok((library.path.display().to_string(), names))
    });
    match adapters {
        Ok((path, names)) if names.is_empty() => {
            Finding::new(name, State::Broken, format!("{path} shows no adapter"))
                .cost("programs say that there is no device")
        }
        Ok((path, names)) => Finding::fine(name, format!("{path}: {}", names.join(", "))),
        Err(failure) => Finding::new(name, State::Broken, failure.to_string().replace('\n', ";"))
            .cost("programs would use the system's library and find no device")
            .remedy(format!(
                "cargo xtask libs, make install, or set {}",
                launch::LIB_DIR_VARIABLE
            )),
    }
}

/// Processors of this process, and the quota of its control group.
fn cores() -> Finding {
    let name = "processor cores";
    let count = Affinity::save().map_or(1, |affinity| affinity.processors().len());
    let quota = fs::read_to_string("/sys/fs/cgroup/cpu.max")
        .ok()
        .and_then(|text| {
            let (quota, period) = text.trim().split_once(' ')?;
            Some(quota.parse::<f64>().ok()? / period.parse::<f64>().ok()?)
        });
    let effective = quota.map_or(count as f64, |quota| quota.min(count as f64));
    let found = match quota {
        Some(quota) => format!("{count}, of which a control group grants the time of {quota:.1}"),
        None => count.to_string(),
    };
    if effective >= 2.0 {
        return Finding::fine(name, found);
    }
    Finding::new(name, State::Degraded, found)
        .cost("two processes that poll share one core: each message waits for a turn (sched_yield, about 1 us)")
        .remedy("give the container or the machine a second core; programs that sleep for events lose less")
}

/// A child that waits until its standing socket closes, and whose one word of memory is known.
struct Victim {
    pid: libc::pid_t,
    word: Box<u64>,
    _leash: OwnedFd,
}

impl Victim {
    fn start() -> io::Result<Self> {
        let mut ends = [0; 2];
        // SAFETY: ends has room for two descriptors.
        if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) } != 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor was just opened and is owned by nobody else.
        let reader = unsafe { OwnedFd::from_raw_fd(ends[0]) };
        // SAFETY: the descriptor was just opened and is owned by nobody else.
        let leash = unsafe { OwnedFd::from_raw_fd(ends[1]) };
        let word = Box::new(0u64);
        // SAFETY: the child below only calls what is safe between fork and _exit.
        let pid = unsafe { libc::fork() };
        if pid < 0 {
            return Err(io::Error::last_os_error());
        }
        if pid == 0 {
            allow_cma();
            // SAFETY: the child's own copy of the writing end: closed so that the parent's is the last.
            unsafe { libc::close(ends[1]) };
            let mut byte = 0u8;
            // SAFETY: one byte of our own; returns at the end of file, when the parent closes or dies.
            unsafe { libc::read(reader.as_raw_fd(), (&raw mut byte).cast(), 1) };
            // SAFETY: the word is alive here as in the parent, at the same address.
            let seen = unsafe { ptr::read_volatile(&raw const *word) };
            // SAFETY: ends a forked child without running the parent's destructors.
            unsafe { libc::_exit(i32::from(seen == 0)) };
        }
        Ok(Victim {
            pid,
            word,
            _leash: leash,
        })
    }

    fn address(&self) -> u64 {
        &raw const *self.word as u64
    }

    /// Lets it go, and tells whether its word had changed.
    fn was_written(self) -> bool {
        let pid = self.pid;
        drop(self);
        let mut status = 0;
        // SAFETY: our own child, and a valid int.
        unsafe { libc::waitpid(pid, &mut status, 0) };
        status == 0
    }
}

fn attach_remedy() -> String {
    let scope = fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").unwrap_or_default();
    match scope.trim() {
        "2" | "3" => format!(
            "kernel.yama.ptrace_scope is {}: set it to 1 or 0",
            scope.trim()
        ),
        _ if seccomp_mode() == 2 => {
            "a seccomp filter may forbid it: in Docker or Podman, --cap-add=SYS_PTRACE".to_owned()
        }
        _ => "look for a security module that forbids attaching".to_owned(),
    }
}

fn cross_memory_attach() -> Finding {
    let name = "cross-memory attach";
    let try_it = || -> io::Result<bool> {
        let victim = Victim::start()?;
        let value = 1u64;
        let here = libc::iovec {
            iov_base: (&raw const value).cast_mut().cast(),
            iov_len: 8,
        };
        let there = libc::iovec {
            iov_base: victim.address() as *mut libc::c_void,
            iov_len: 8,
        };
        // SAFETY: our side is a live word; the other side is checked by the kernel.
        let moved = unsafe { libc::process_vm_writev(victim.pid, &here, 1, &there, 1, 0) };
        let error = io::Error::last_os_error();
        let written = victim.was_written();
        if moved == 8 { Ok(written) } else { Err(error) }
    };
    let scope = fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope");
    let yama = scope.map_or("no Yama".to_owned(), |text| {
        format!("Yama ptrace_scope {}", text.trim())
    });
    match try_it() {
        Ok(true) => Finding::fine(name, format!("process_vm_writev reaches another process ({yama})")),
        Ok(false) => Finding::new(name, State::Broken, "process_vm_writev succeeds without writing")
            .remedy("this kernel or emulator is not to be trusted with shared memory"),
        Err(error) => Finding::new(name, State::Degraded, format!("process_vm_writev: {error} ({yama})"))
            .cost("RDMA to private memory is done by the target: a wake-up (about 6 us) and a second copy each")
            .remedy(attach_remedy()),
    }
}

fn proc_mem() -> Finding {
    let name = "/proc/PID/mem";
    let try_it = || -> io::Result<bool> {
        let victim = Victim::start()?;
        let file = OpenOptions::new()
            .write(true)
            .open(format!("/proc/{}/mem", victim.pid))?;
        file.write_all_at(&1u64.to_ne_bytes(), victim.address())?;
        Ok(victim.was_written())
    };
    match try_it() {
        Ok(true) => Finding::fine(name, "a descriptor can pin another process's memory"),
        Ok(false) => Finding::new(name, State::Note, "writing succeeds without effect"),
        Err(error) => Finding::new(name, State::Note, format!("not writable: {error}"))
            .cost("identity of a peer is rechecked around each copy instead of being pinned"),
    }
}

/// Bytes of shared memory that the adapter may make one segment of.
const USUAL_BYTES: u64 = 64 << 20;

fn memfd() -> Finding {
    let name = "sealed shared memory";
    let broken = |what: &str| {
        Finding::new(
            name,
            State::Broken,
            format!("{what}: {}", io::Error::last_os_error()),
        )
        .cost("processes cannot share rings: nothing works between them")
        .remedy("needs Linux 3.17 or later, and a seccomp filter that allows memfd_create")
    };
    let label = CString::new("ferriband-doctor").expect("a constant without NUL");
    // SAFETY: a C string that lives through the call.
    let fd =
        unsafe { libc::memfd_create(label.as_ptr(), libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING) };
    if fd < 0 {
        return broken("memfd_create");
    }
    // SAFETY: the descriptor was just opened and is owned by nobody else.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    if let Err(error) = ferriband_limit::set_length(fd.as_fd(), USUAL_BYTES) {
        return Finding::new(name, State::Broken, format!("{USUAL_BYTES} bytes: {error}"))
            .cost("processes cannot share rings: nothing works between them but MPI on one host")
            .remedy(
                "shared memory is a file to the kernel: raise the limit on their size (ulimit -f)",
            );
    }
    // SAFETY: a descriptor of our own and an integer argument.
    let sealed = unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_ADD_SEALS, libc::F_SEAL_SHRINK) };
    if sealed != 0 {
        return broken("sealing a memfd");
    }
    // SAFETY: a descriptor of our own and an integer argument.
    if unsafe { libc::ftruncate(fd.as_raw_fd(), 0) } == 0 {
        return Finding::new(name, State::Broken, "a sealed memfd can be truncated")
            .cost("a faulty peer could kill this process by SIGBUS");
    }
    Finding::fine(name, "memfd_create and seals")
}

fn sockets() -> Finding {
    let name = "local sockets";
    let bind = || -> io::Result<UnixListener> {
        let address =
            SocketAddr::from_abstract_name(format!("ferriband-doctor-{}", process::id()))?;
        UnixListener::bind_addr(&address)
    };
    match bind() {
        Ok(_) => Finding::fine(name, "Unix sockets, abstract names included"),
        Err(error) => Finding::new(
            name,
            State::Broken,
            format!("no abstract Unix socket: {error}"),
        )
        .cost("processes on this host do not find each other")
        .remedy("look for a security profile that forbids abstract Unix sockets"),
    }
}

fn limit(resource: libc::__rlimit_resource_t) -> Option<u64> {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: a valid rlimit to write to.
    (unsafe { libc::getrlimit(resource, &mut limit) } == 0).then_some(limit.rlim_cur)
}

fn open_files() -> Finding {
    let name = "open files";
    match limit(libc::RLIMIT_NOFILE) {
        Some(files) if files >= 1024 => Finding::fine(name, format!("limit {files}")),
        Some(files) => Finding::new(name, State::Degraded, format!("limit {files}"))
            .cost("each peer process takes descriptors: fewer peers, then EMFILE")
            .remedy("ulimit -n 4096"),
        None => Finding::new(name, State::Note, "limit unknown"),
    }
}

/// PROCMAP_QUERY of linux/fs.h: _IOWR('f', 17, struct procmap_query).
const PROCMAP_QUERY: libc::c_ulong = 0xc068_6611;

/// struct procmap_query of linux/fs.h.
#[repr(C)]
#[derive(Default)]
struct ProcmapQuery {
    size: u64,
    query_flags: u64,
    query_addr: u64,
    vma_start: u64,
    vma_end: u64,
    vma_flags: u64,
    vma_page_size: u64,
    vma_offset: u64,
    inode: u64,
    dev_major: u32,
    dev_minor: u32,
    vma_name_size: u32,
    build_id_size: u32,
    vma_name_addr: u64,
    build_id_addr: u64,
}

fn procmap_query() -> Finding {
    let name = "mapping queries";
    let mut query = ProcmapQuery {
        size: size_of::<ProcmapQuery>() as u64,
        query_addr: &raw const PROBE as u64,
        ..Default::default()
    };
    let answered = fs::File::open("/proc/self/maps").is_ok_and(|maps| {
        // SAFETY: an open descriptor, and a struct of the size that the request encodes.
        unsafe { libc::ioctl(maps.as_raw_fd(), PROCMAP_QUERY, &mut query) == 0 }
    });
    if answered && query.vma_start <= query.query_addr && query.query_addr < query.vma_end {
        return Finding::fine(name, "PROCMAP_QUERY (Linux 6.11)");
    }
    Finding::new(name, State::Note, "no PROCMAP_QUERY (Linux before 6.11)")
        .cost("registering memory reads /proc/self/maps as text: slower where a program has thousands of mappings")
}

static PROBE: u64 = 0;

fn user_namespaces() -> Finding {
    let name = "user namespaces";
    // SAFETY: the child only calls unshare and _exit.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        // SAFETY: concerns only this child.
        let rc = unsafe { libc::unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWNS) };
        // SAFETY: ends a forked child without running the parent's destructors.
        unsafe { libc::_exit(i32::from(rc != 0)) };
    }
    let mut status = 1;
    if pid > 0 {
        // SAFETY: our own child, and a valid int.
        unsafe { libc::waitpid(pid, &mut status, 0) };
    }
    if pid > 0 && status == 0 {
        return Finding::fine(name, "allowed");
    }
    Finding::new(name, State::Note, "not allowed")
        .cost("no rootless view of /dev/infiniband and /sys/class/infiniband for programs that look there themselves")
}

fn locked_memory() -> Finding {
    let found = match limit(libc::RLIMIT_MEMLOCK) {
        Some(libc::RLIM_INFINITY) => "unlimited".to_owned(),
        Some(bytes) => format!("limit {} KiB", bytes >> 10),
        None => "unknown".to_owned(),
    };
    Finding::new(
        "locked memory",
        State::Note,
        format!("{found}; it does not matter: nothing is pinned here"),
    )
}

/// The mode in /proc/self/status: 0 none, 1 strict, 2 filter.
fn seccomp_mode() -> u32 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("Seccomp:"));
    line.and_then(|mode| mode.trim().parse().ok()).unwrap_or(0)
}

fn confinement() -> Finding {
    let marks = [
        ("/.dockerenv", "Docker"),
        ("/run/.containerenv", "Podman"),
        ("/run/systemd/container", "systemd-nspawn"),
    ];
    let container = marks
        .iter()
        .find(|(path, _)| Path::new(path).exists())
        .map(|(_, name)| *name);
    let kubernetes = std::env::var_os("KUBERNETES_SERVICE_HOST").map(|_| "Kubernetes");
    let place = container
        .or(kubernetes)
        .map_or("no container seen".to_owned(), |name| {
            format!("inside {name}")
        });
    let filter = if seccomp_mode() == 2 {
        "a seccomp filter is active"
    } else {
        "no seccomp filter"
    };
    Finding::new("confinement", State::Note, format!("{place}; {filter}"))
}

fn kernel() -> Finding {
    let mut release = String::new();
    let read = fs::File::open("/proc/sys/kernel/osrelease")
        .and_then(|mut file| file.read_to_string(&mut release));
    match read {
        Ok(_) => Finding::new("kernel", State::Note, format!("Linux {}", release.trim())),
        Err(error) => Finding::new("kernel", State::Note, format!("unknown: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_query_has_the_size_that_its_request_encodes() {
        assert_eq!(
            size_of::<ProcmapQuery>(),
            (PROCMAP_QUERY >> 16 & 0x3fff) as usize
        );
    }

    #[test]
    fn a_victim_tells_whether_it_was_written() {
        assert!(!Victim::start().expect("forks").was_written());
    }

    #[test]
    fn states_are_ordered_by_what_they_cost() {
        assert!(
            State::Fine < State::Note
                && State::Note < State::Degraded
                && State::Degraded < State::Broken
        );
    }
}
