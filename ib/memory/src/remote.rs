//! Another process's private memory.
//!
//! Owns: how bytes move between a list of our memory and an address in another process, and what a failure there
//! means. Must not know: whether a key permits it.
//!
//! Two ways, measured on the development machine (one way; "+ tail": with the last piece as an element of its own):
//!
//! | bytes | pinned: /proc/PID/mem | + tail | bulk: process_vm_writev | + tail |
//! |---|---|---|---|---|
//! | 8 | 0.59 us | not needed | 0.68 us | not needed |
//! | 1024 | 0.66 us | 1.14 us | 0.69 us | 0.94 us |
//! | 4096 | 0.81 us | 1.28 us | 0.73 us | 0.96 us |
//! | 65536 | 8.9 us | 9.5 us | 4.0 us | 4.2 us |
//!
//! So the pinned way takes reads up to 2 KiB and writes of one aligned piece (flags, credits, counters), the bulk way
//! the rest; each stands in where the other is forbidden.
//!
//! *Pinned.* The descriptor opened at connect time holds the target's address space: after exec, exit, or reuse of the
//! process number, transfers through it fail; they can never reach a stranger. The kernel writes through it even
//! where the target's mapping is read-only and private (it is the debugger's way). That the memory is writable is checked when it is
//! registered ([`crate::populate`]); a program that protects it later is written to all the same, as by an
//! adapter, which pinned the pages. The exception are on-demand regions, which nobody looks at.
//!
//! *Bulk.* process_vm_writev names its target by number. The caller's `alive` is asked before each call and after the
//! last one, but between question and call the target may end or exec. So the number should be that of a thread that an
//! exec ends (the adapter passes its peer's progress thread): a late call then finds nobody, where the process's own number
//! would lead into the new program (seen in 4 of 6 runs on a loaded machine). What remains is the reuse of a thread's
//! number within that moment, by a process that we may trace.
//!
//! *Last byte last.* A single call does not keep the order of bytes: the kernel copies by `rep movsb`. Here the last naturally
//! aligned piece (8 bytes or fewer) is an element of its own in the same call: the kernel copies element after element, and the
//! stores of one string instruction come before those of the next. It copies that piece by one store or by ascending bytes; on
//! processors with fast short `rep movsb` (FSRM) kernels use that instead, whose order within 8 bytes nobody promises, but
//! which showed none of 2,366,600 words in part (Xeon, Linux 6.18).

use crate::Error;
use crate::app::AppMemory;
use crate::copy::tail_bytes;
use ferriband_transport::types::Sge;
use libc::iovec;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};

/// Reads up to this size take the pinned way.
const PINNED_MAX_READ_BYTES: usize = 2048;

/// Bytes of one system call: bounds the time between two looks at `alive`, and how long a SIGKILL may wait.
const CHUNK_BYTES: usize = 16 << 20;

/// Elements of our own list in one system call; longer lists take several.
const MAX_PIECES: usize = 34;

/// Why a transfer with another process's memory failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RemoteFault {
    /// The process exited, or runs another program now. Nothing was moved, or an unknown part.
    #[error("the process is gone")]
    Gone,
    /// The target has no such memory (or not for writing) from this byte of the transfer on; what lies before it
    /// was moved.
    #[error("the remote memory is not mapped from byte {offset} of the transfer on")]
    Unmapped {
        /// Bytes moved.
        offset: usize,
    },
    /// Our own list names memory that is not mapped, or ends before the transfer does.
    #[error("the local memory is not mapped")]
    LocalUnmapped,
    /// The kernel does not let us (Yama, another user namespace, seccomp, a target that is not dumpable).
    #[error("access to the process is forbidden: {}", std::io::Error::from_raw_os_error(*.0))]
    Forbidden(i32),
}

/// Which ways to a process are open; see [`RemoteProcess::probe`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Permitted {
    /// /proc/PID/mem can be read and written.
    pub pinned: bool,
    /// process_vm_readv and process_vm_writev work.
    pub bulk: bool,
}

impl Permitted {
    /// Whether transfers can work at all; if not, the target has to execute them.
    pub const fn any(self) -> bool {
        self.pinned || self.bulk
    }
}

/// A process whose memory we move bytes to and from.
#[derive(Debug)]
pub struct RemoteProcess {
    pid: i32,
    /// /proc/PID/mem, unless it may not be opened.
    mem: Option<OwnedFd>,
    bulk: bool,
}

/// When a process started, in clock ticks since boot (field 22 of /proc/PID/stat): with the process number and the boot,
/// its identity until it calls exec.
///
/// # Errors
/// `NoSuchProcess`, if it does not exist or its /proc entry is hidden.
pub fn start_time(pid: i32) -> Result<u64, Error> {
    let gone = Error::NoSuchProcess { pid };
    let stat = std::fs::read(format!("/proc/{pid}/stat")).map_err(|_| gone)?;
    // The command's name is in parentheses and may contain anything, parentheses too.
    let close = stat.iter().rposition(|&b| b == b')').ok_or(gone)?;
    let rest = std::str::from_utf8(&stat[close + 1..]).map_err(|_| gone)?;
    // Field 3 comes first after the name.
    rest.split_ascii_whitespace()
        .nth(22 - 3)
        .and_then(|f| f.parse().ok())
        .ok_or(gone)
}

impl RemoteProcess {
    /// Opens the process with number `pid` in our process namespace, if it started at `expected_start`
    /// ([`start_time`] as the process itself published it). `_memory` vouches for the local lists of later transfers.
    /// That /proc/PID/mem may not be opened is no error: [`RemoteProcess::probe`] tells.
    ///
    /// # Errors
    /// `NoSuchProcess`, if it is gone or another process has its number.
    pub fn open(pid: i32, expected_start: u64, _memory: AppMemory) -> Result<RemoteProcess, Error> {
        let file = std::fs::File::options()
            .read(true)
            .write(true)
            .open(format!("/proc/{pid}/mem"));
        // Asked after opening: were the number reused in between, the start time would differ.
        if start_time(pid)? != expected_start {
            return Err(Error::NoSuchProcess { pid });
        }
        Ok(RemoteProcess {
            pid,
            mem: file.ok().map(OwnedFd::from),
            bulk: true,
        })
    }

    /// The process number.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Finds out which ways are open, by reading the 8 bytes at `addr` of the target, which must equal `expected`, and
    /// writing the same back. The word must be the target's own, and constant. Ways that are closed are not tried
    /// again; a value that differs closes both, since then it is not the process that published the address.
    pub fn probe(&mut self, addr: u64, expected: u64) -> Permitted {
        let pinned = self.mem.is_some() && self.probe_one(addr, expected, Way::Pinned);
        self.bulk = self.probe_one(addr, expected, Way::Bulk);
        if !pinned {
            self.mem = None;
        }
        Permitted {
            pinned,
            bulk: self.bulk,
        }
    }

    /// Writes `len` bytes of the list, from byte `skip`, to `remote_addr` of the process; ascending, the last byte
    /// visible last. No allocation. `alive` is one look at the target's [`crate::AliveWord`].
    ///
    /// # Errors
    /// See [`RemoteFault`].
    #[inline]
    pub fn write(
        &self,
        local: &[Sge],
        skip: u64,
        remote_addr: u64,
        len: usize,
        alive: impl Fn() -> bool,
    ) -> Result<(), RemoteFault> {
        self.transfer(Direction::Write, local, skip, remote_addr, len, &alive)
    }

    /// Reads `len` bytes at `remote_addr` of the process into the list, from byte `skip`. No allocation. `alive` as
    /// for [`RemoteProcess::write`]. When it reports Gone, the bytes read are not to be believed.
    ///
    /// # Errors
    /// See [`RemoteFault`].
    #[inline]
    pub fn read(
        &self,
        local: &[Sge],
        skip: u64,
        remote_addr: u64,
        len: usize,
        alive: impl Fn() -> bool,
    ) -> Result<(), RemoteFault> {
        self.transfer(Direction::Read, local, skip, remote_addr, len, &alive)
    }

    fn transfer(
        &self,
        direction: Direction,
        local: &[Sge],
        skip: u64,
        remote_addr: u64,
        len: usize,
        alive: &dyn Fn() -> bool,
    ) -> Result<(), RemoteFault> {
        let way = self.way(direction, remote_addr, len)?;
        let mut done = 0;
        while done < len {
            if way == Way::Bulk && !alive() {
                return Err(RemoteFault::Gone);
            }
            let remote = remote_addr.wrapping_add(done as u64);
            let step = Step::new(
                way,
                direction,
                local,
                skip + done as u64,
                remote,
                len - done,
            );
            if step.bytes == 0 {
                return Err(RemoteFault::LocalUnmapped);
            }
            match self.call(way, direction, &step, remote) {
                Ok(0) => return Err(RemoteFault::Gone),
                Ok(moved) => done += moved,
                Err(libc::EINTR) => {}
                Err(errno) => {
                    return Err(self.fault(way, direction, errno, &step, remote, done, alive));
                }
            }
        }
        if way == Way::Bulk && !alive() {
            return Err(RemoteFault::Gone);
        }
        Ok(())
    }

    /// Which way is faster, of those that are open.
    #[inline]
    fn way(&self, direction: Direction, remote_addr: u64, len: usize) -> Result<Way, RemoteFault> {
        let pinned_is_faster = match direction {
            Direction::Read => len <= PINNED_MAX_READ_BYTES,
            // One element: the whole is the tail. (Two bytes would be two elements there.)
            Direction::Write => {
                let end = remote_addr.wrapping_add(len as u64) as usize;
                matches!(len, 1 | 4 | 8) && end.is_multiple_of(len)
            }
        };
        match (self.mem.is_some(), self.bulk) {
            (true, bulk) if pinned_is_faster || !bulk => Ok(Way::Pinned),
            (_, true) => Ok(Way::Bulk),
            _ => Err(RemoteFault::Forbidden(libc::EPERM)),
        }
    }

    /// One system call; bytes moved or errno.
    #[inline]
    fn call(&self, way: Way, direction: Direction, step: &Step, remote: u64) -> Result<usize, i32> {
        let (pieces, count) = (step.pieces.as_ptr(), step.pieces.count);
        let moved = match (way, &self.mem) {
            (Way::Pinned, Some(mem)) => {
                let (fd, count, at) = (mem.as_raw_fd(), count as i32, remote as i64);
                match direction {
                    // SAFETY: the pieces are ours or the application's (the capability given to `open`).
                    Direction::Write => unsafe { libc::pwritev(fd, pieces, count, at) },
                    // SAFETY: as above.
                    Direction::Read => unsafe { libc::preadv(fd, pieces, count, at) },
                }
            }
            (Way::Pinned, None) => return Err(libc::EPERM),
            (Way::Bulk, _) => {
                // One element there, several here: the kernel moves our elements one after the other, so the tail comes
                // last; a second element there would pin its page a second time.
                let far = iovec {
                    iov_base: std::ptr::with_exposed_provenance_mut(remote as usize),
                    iov_len: step.bytes,
                };
                let (pid, count) = (self.pid, count as u64);
                match direction {
                    // SAFETY: as above; the far addresses are the target's matter.
                    Direction::Write => unsafe {
                        libc::process_vm_writev(pid, pieces, count, &far, 1, 0)
                    },
                    // SAFETY: as above.
                    Direction::Read => unsafe {
                        libc::process_vm_readv(pid, pieces, count, &far, 1, 0)
                    },
                }
            }
        };
        usize::try_from(moved).map_err(|_| {
            std::io::Error::last_os_error()
                .raw_os_error()
                .unwrap_or(libc::EIO)
        })
    }

    /// What a failed call means.
    #[cold]
    #[allow(clippy::too_many_arguments)]
    fn fault(
        &self,
        way: Way,
        direction: Direction,
        errno: i32,
        step: &Step,
        remote: u64,
        done: usize,
        alive: &dyn Fn() -> bool,
    ) -> RemoteFault {
        if errno == libc::ESRCH || (way == Way::Bulk && !alive()) {
            return RemoteFault::Gone;
        }
        match (errno, way) {
            (libc::EIO | libc::EINVAL | libc::EOVERFLOW, _) => {
                RemoteFault::Unmapped { offset: done }
            }
            (libc::EFAULT, Way::Pinned) => RemoteFault::LocalUnmapped,
            // The one errno for both sides.
            (libc::EFAULT, Way::Bulk) if self.local_is_mapped(direction, step, remote) => {
                RemoteFault::Unmapped { offset: done }
            }
            (libc::EFAULT, Way::Bulk) => RemoteFault::LocalUnmapped,
            _ => RemoteFault::Forbidden(errno),
        }
    }

    /// After EFAULT at the first byte of `step`: whether our side is mapped, so that the fault is the target's.
    fn local_is_mapped(&self, direction: Direction, step: &Step, remote: u64) -> bool {
        let mut byte = 0u8;
        let ours = iovec {
            iov_base: (&raw mut byte).cast(),
            iov_len: 1,
        };
        let one = |at| iovec {
            iov_base: at,
            iov_len: 1,
        };
        let (pid, from) = match direction {
            // Can we read our own first byte?
            Direction::Write => (std::process::id() as i32, one(step.pieces.first_addr())),
            // Whether we could write ours cannot be tried without writing; whether the target's can be read, can.
            Direction::Read => (
                self.pid,
                one(std::ptr::with_exposed_provenance_mut(remote as usize)),
            ),
        };
        // SAFETY: reads one byte into a variable of ours.
        let got = unsafe { libc::process_vm_readv(pid, &ours, 1, &from, 1, 0) };
        match direction {
            Direction::Write => got == 1,
            Direction::Read => got != 1,
        }
    }

    fn probe_one(&self, addr: u64, expected: u64, way: Way) -> bool {
        let mut word = 0u64;
        let list = [Sge {
            addr: (&raw mut word).expose_provenance() as u64,
            length: 8,
            lkey: 0,
        }];
        for direction in [Direction::Read, Direction::Write] {
            let step = Step::new(way, direction, &list, 0, addr, 8);
            let moved = self.call(way, direction, &step, addr);
            // SAFETY: our own variable; volatile, because the kernel wrote it.
            if moved != Ok(8) || unsafe { (&raw const word).read_volatile() } != expected {
                return false;
            }
        }
        true
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Pinned,
    Bulk,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    Read,
    Write,
}

/// One system call's worth of a transfer: our pieces, of which the last ones are the tail.
struct Step {
    pieces: Pieces,
    bytes: usize,
}

impl Step {
    #[inline]
    fn new(
        way: Way,
        direction: Direction,
        local: &[Sge],
        skip: u64,
        remote: u64,
        left: usize,
    ) -> Step {
        let bytes = left.min(CHUNK_BYTES);
        let end = remote.wrapping_add(bytes as u64) as usize;
        let tail = if direction == Direction::Write && bytes == left {
            tail_bytes(end, bytes)
        } else {
            0
        };
        let mut pieces = Pieces::new();
        let body = pieces.fill(local, skip, bytes - tail, MAX_PIECES - 2);
        if body < bytes - tail || tail == 0 {
            // The rest, tail included, comes with the next call.
            return Step {
                pieces,
                bytes: body,
            };
        }
        // In an element of its own. A tail that lies in two elements of the list is moved in two pieces: its last
        // byte still comes last, and programs that poll words do not cut them. The pinned way moves elements by the
        // kernel's memcpy, which stores the second of two bytes first (seen): they go one by one.
        let first = if way == Way::Pinned && tail == 2 {
            1
        } else {
            tail
        };
        let mut moved = pieces.fill(local, skip + body as u64, first, MAX_PIECES);
        moved += pieces.fill(
            local,
            skip + (body + moved) as u64,
            tail - first,
            MAX_PIECES,
        );
        Step {
            pieces,
            bytes: body + moved,
        }
    }
}

/// A list of pieces of our memory for one system call, on the stack.
struct Pieces {
    list: [MaybeUninit<iovec>; MAX_PIECES],
    count: usize,
}

impl Pieces {
    #[inline]
    fn new() -> Pieces {
        Pieces {
            list: [const { MaybeUninit::uninit() }; MAX_PIECES],
            count: 0,
        }
    }

    /// Appends up to `len` bytes of `local` from byte `skip` while there are fewer than `limit` pieces; gives the bytes.
    #[inline]
    fn fill(&mut self, local: &[Sge], mut skip: u64, len: usize, limit: usize) -> usize {
        let mut done = 0;
        for sge in local {
            let length = u64::from(sge.length);
            if skip >= length {
                skip -= length;
                continue;
            }
            if done == len || self.count == limit {
                break;
            }
            let n = ((length - skip) as usize).min(len - done);
            let addr = sge.addr.wrapping_add(skip) as usize;
            self.list[self.count] = MaybeUninit::new(iovec {
                iov_base: std::ptr::with_exposed_provenance_mut(addr),
                iov_len: n,
            });
            self.count += 1;
            skip = 0;
            done += n;
        }
        done
    }

    fn as_ptr(&self) -> *const iovec {
        self.list.as_ptr().cast()
    }

    fn first_addr(&self) -> *mut libc::c_void {
        assert!(self.count > 0, "a step has at least one piece");
        // SAFETY: the first `count` elements are initialised.
        unsafe { self.list[0].assume_init() }.iov_base
    }
}

#[cfg(test)]
pub(crate) mod tests;
