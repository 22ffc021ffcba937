//! Two processes that measure together: fork, processor pinning, a shared mapping, and the wait
//! loop that both sides poll in.
//!
//! Owns: the life of the second process. Must not know: what is measured. The second process runs
//! between fork and `_exit` and therefore may only touch memory, make system calls and never
//! allocate (the first process may have threads, for a progress bar).

use crate::failure::Failure;
use std::sync::atomic::{AtomicU64, Ordering};
use std::{io, mem, ptr};

/// Polls between two looks at whether the other process still lives: some milliseconds, so that
/// the look costs nothing and a killed peer does not leave us spinning.
const POLLS_PER_LOOK: u32 = 1 << 22;

/// The other process, as the polling side sees it.
#[derive(Clone, Copy)]
pub struct Peer {
    /// Its process id.
    pub pid: libc::pid_t,
    /// True when it is our child, false when it is our parent.
    is_child: bool,
}

impl Peer {
    /// Whether the other process still runs.
    #[cold]
    #[inline(never)]
    fn lives(&self) -> bool {
        if !self.is_child {
            // SAFETY: getppid has no preconditions.
            return unsafe { libc::getppid() } == self.pid;
        }
        // SAFETY: siginfo_t is plain data for which all zeroes is a value.
        let mut info: libc::siginfo_t = unsafe { mem::zeroed() };
        let options = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
        // SAFETY: info is a valid siginfo_t to write to; WNOWAIT leaves the child to be reaped later.
        let rc = unsafe { libc::waitid(libc::P_PID, self.pid as libc::id_t, &mut info, options) };
        // SAFETY: si_pid is what waitid fills in, and zero when nothing changed state.
        rc == 0 && unsafe { info.si_pid() } == 0
    }

    /// Polls until `word` holds `value`. False when the peer is gone. No pause instruction: the
    /// programs that we are compared with poll without one.
    #[inline(always)]
    pub fn wait_for(&self, word: &AtomicU64, value: u64) -> bool {
        loop {
            for _ in 0..POLLS_PER_LOOK {
                if word.load(Ordering::Acquire) == value {
                    return true;
                }
            }
            if !self.lives() {
                return false;
            }
        }
    }

    /// Like [`Self::wait_for`], but gives the processor away after each failed poll.
    #[inline(always)]
    pub fn yield_for(&self, word: &AtomicU64, value: u64) -> bool {
        loop {
            for _ in 0..1 << 12 {
                if word.load(Ordering::Acquire) == value {
                    return true;
                }
                // SAFETY: sched_yield has no preconditions.
                unsafe { libc::sched_yield() };
            }
            if !self.lives() {
                return false;
            }
        }
    }
}

/// An anonymous mapping, shared with the forked process or private to each.
pub struct Mapping {
    base: *mut u8,
    length_bytes: usize,
}

impl Mapping {
    /// A mapping that both processes of a later fork see.
    pub fn shared(length_bytes: usize) -> Result<Self, Failure> {
        Self::new(length_bytes, libc::MAP_SHARED)
    }

    /// A mapping that each process of a later fork has for itself, at the same address.
    pub fn private(length_bytes: usize) -> Result<Self, Failure> {
        Self::new(length_bytes, libc::MAP_PRIVATE)
    }

    fn new(length_bytes: usize, sharing: libc::c_int) -> Result<Self, Failure> {
        // SAFETY: an anonymous mapping at an address of the kernel's choice touches nothing of ours.
        let base = unsafe {
            libc::mmap(
                ptr::null_mut(),
                length_bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                sharing | libc::MAP_ANONYMOUS | libc::MAP_POPULATE,
                -1,
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(Failure::os(
                "map",
                &format!("{length_bytes} bytes of memory"),
            ));
        }
        Ok(Mapping {
            base: base.cast(),
            length_bytes,
        })
    }

    /// The first byte.
    pub fn base(&self) -> *mut u8 {
        self.base
    }

    /// Writes every byte, so that a private page is this process's own after a fork.
    pub fn touch(&self, value: u8) {
        // SAFETY: the mapping is length_bytes long, writable, and nobody holds a reference to it.
        unsafe { ptr::write_bytes(self.base, value, self.length_bytes) };
    }

    /// The word at byte `offset`, as an atomic that the other process may share.
    pub fn word(&self, offset: usize) -> &AtomicU64 {
        assert!(offset.is_multiple_of(8) && offset + 8 <= self.length_bytes);
        // SAFETY: inside the mapping, aligned, and only ever reached as an atomic.
        unsafe { AtomicU64::from_ptr(self.base.add(offset).cast()) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: base and length are those of our own mmap, and no borrow of it outlives self.
        unsafe { libc::munmap(self.base.cast(), self.length_bytes) };
    }
}

/// The processors that this thread may use, restored when dropped.
pub struct Affinity {
    saved: libc::cpu_set_t,
}

impl Affinity {
    /// Reads the current set.
    pub fn save() -> Result<Self, Failure> {
        // SAFETY: cpu_set_t is plain data for which all zeroes is the empty set.
        let mut saved: libc::cpu_set_t = unsafe { mem::zeroed() };
        // SAFETY: saved is a cpu_set_t of the size given.
        let rc = unsafe { libc::sched_getaffinity(0, mem::size_of_val(&saved), &mut saved) };
        if rc != 0 {
            return Err(Failure::os(
                "read",
                "the set of processors that this process may use",
            ));
        }
        Ok(Affinity { saved })
    }

    /// Numbers of the processors in the set, ascending.
    pub fn processors(&self) -> Vec<usize> {
        (0..libc::CPU_SETSIZE as usize)
            // SAFETY: the index is below CPU_SETSIZE.
            .filter(|&cpu| unsafe { libc::CPU_ISSET(cpu, &self.saved) })
            .collect()
    }
}

impl Drop for Affinity {
    fn drop(&mut self) {
        // SAFETY: saved came from sched_getaffinity.
        unsafe { libc::sched_setaffinity(0, mem::size_of_val(&self.saved), &self.saved) };
    }
}

/// Binds the calling thread to one processor. Without permission it stays where it is: the
/// measurement is then noisier, not wrong.
pub fn pin(cpu: usize) {
    // SAFETY: cpu_set_t is plain data for which all zeroes is the empty set.
    let mut set: libc::cpu_set_t = unsafe { mem::zeroed() };
    // SAFETY: callers pass numbers out of Affinity::processors, below CPU_SETSIZE.
    unsafe { libc::CPU_SET(cpu, &mut set) };
    // SAFETY: set is a cpu_set_t of the size given.
    unsafe { libc::sched_setaffinity(0, mem::size_of_val(&set), &set) };
}

/// Where the two sides of a measurement run.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Placement {
    /// The first two processors of the set.
    TwoCores,
    /// The first processor of the set, for both.
    OneCore,
    /// Wherever the scheduler puts them.
    Anywhere,
}

/// Runs `child` in a forked process and `parent` here, and returns what `parent` measured. `None`
/// when either side gave up because the other had died.
pub fn run_pair<T>(
    placement: Placement,
    child: impl FnOnce(Peer) -> bool,
    parent: impl FnOnce(Peer) -> Option<T>,
) -> Result<Option<T>, Failure> {
    let affinity = Affinity::save()?;
    let cpus = affinity.processors();
    let (here, there) = match placement {
        Placement::TwoCores => (cpus.first().copied(), cpus.get(1).copied()),
        Placement::OneCore => (cpus.first().copied(), cpus.first().copied()),
        Placement::Anywhere => (None, None),
    };
    allow_cma();
    // SAFETY: getpid has no preconditions.
    let parent_pid = unsafe { libc::getpid() };
    // SAFETY: the child calls only what is safe between fork and _exit: see the module's head.
    let pid = unsafe { libc::fork() };
    if pid < 0 {
        return Err(Failure::os("start", "a second process to measure with"));
    }
    if pid == 0 {
        // SAFETY: prctl with these arguments only changes this process's own flags.
        unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
        allow_cma();
        there.into_iter().for_each(pin);
        let fine = child(Peer {
            pid: parent_pid,
            is_child: false,
        });
        // SAFETY: _exit runs no destructors and no handlers: what a forked child may call.
        unsafe { libc::_exit(i32::from(!fine)) };
    }
    here.into_iter().for_each(pin);
    let result = parent(Peer {
        pid,
        is_child: true,
    });
    if result.is_none() {
        // SAFETY: pid is our own unreaped child, so the number cannot have been reused.
        unsafe { libc::kill(pid, libc::SIGKILL) };
    }
    let mut status = 0;
    // SAFETY: status is a valid int, pid is our child.
    while unsafe { libc::waitpid(pid, &mut status, 0) } < 0
        && io::Error::last_os_error().kind() == io::ErrorKind::Interrupted
    {}
    drop(affinity);
    Ok(result.filter(|_| status == 0))
}

/// Lets any process of this user copy into this one where Yama would only let ancestors.
pub fn allow_cma() {
    // SAFETY: changes only this process's own Yama setting; EINVAL without Yama is fine.
    unsafe { libc::prctl(libc::PR_SET_PTRACER, libc::PR_SET_PTRACER_ANY) };
}
