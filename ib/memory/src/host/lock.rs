//! The lock under which a process joins: one joiner at a time, so that the first one makes the registry alone.
//!
//! Owns: a directory to flock and a name to bind. The name *is* the lock: it is unique in exactly the domain's network
//! namespace, whatever file systems its members see, and goes with its holder. flock on a directory before it is for queueing,
//! and stands in where another user squats on the name. Must not know: what is done under the lock.
//!
//! The directory is the only thing in a file system, is always empty, and stays: removing it would let two processes lock two
//! directories of one path.

use super::HostError;
use super::fork_fd::ForkFd;
use super::identity::HostKey;
use super::names::{self, Dialled};
use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// First and longest pause between two attempts, until an eighth of the time waited is longer ([`Pause`]).
const PAUSE: (Duration, Duration) = (Duration::from_micros(40), Duration::from_millis(3));
/// Longest pause of all.
const LONG_PAUSE: Duration = Duration::from_millis(250);
/// How long the directory is waited for before the name is tried without it, and how often from then on.
const QUEUE_WAIT: Duration = Duration::from_millis(250);
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// A name that is bound but on which nobody of ours has listened for this long is not held by a joiner.
const SQUATTED_AFTER: Duration = Duration::from_millis(100);

/// Held until dropped.
#[derive(Debug)]
pub(super) struct DomainLock {
    name: Option<ForkFd>,
    directory: Option<ForkFd>,
}

impl DomainLock {
    /// Waits up to `wait` for the lock of a domain. Time in which the whole machine (or this process) stood still does not count: who
    /// held the lock did not get on either.
    ///
    /// # Errors
    /// `LockTimeout` with the holder, if the kernel tells; `NotOurs` for a directory that somebody planted;
    /// `NameTaken` if the name is squatted and there is no directory to lock either.
    pub(super) fn acquire(key: &HostKey, wait: Duration) -> Result<DomainLock, HostError> {
        // The directory is shared with the user's other domains: if one of those has stopped while holding it, the
        // name is still to be had.
        let directory = open_directory(key.uid)?;
        let mut flocked = Flocked::Contended;
        let (mut pause, mut next_look) = (Pause::new(), QUEUE_WAIT);
        let mut nobody_since: Option<Instant> = None;
        loop {
            if flocked == Flocked::Contended {
                flocked = flock(directory.as_ref())?;
            }
            // Who has not got the directory tries the name seldom: there may be a thousand who queue.
            let looks = flocked != Flocked::Contended || pause.waited >= next_look;
            if looks {
                next_look = pause.waited + LOOK_EVERY;
                if let Some(name) = names::bind_lock(key)? {
                    return Ok(DomainLock {
                        name: Some(name),
                        directory: directory.filter(|_| flocked == Flocked::Held),
                    });
                }
            }
            if pause.waited >= wait {
                return Err(timeout(key, wait));
            }
            pause.sleep();
            if !pause.is_long() || !looks {
                continue;
            }
            match names::dial_lock(key)? {
                Dialled::Foreign | Dialled::Nobody => {
                    let since = *nobody_since.get_or_insert_with(Instant::now);
                    if since.elapsed() >= SQUATTED_AFTER {
                        // Then the directory is the lock, and who has it is waited for.
                        match flocked {
                            Flocked::Held => {
                                return Ok(DomainLock {
                                    name: None,
                                    directory,
                                });
                            }
                            Flocked::Contended => {}
                            Flocked::Impossible => return Err(HostError::NameTaken),
                        }
                    }
                }
                Dialled::Member(..) | Dialled::Full => nobody_since = None,
            }
        }
    }
}

impl Drop for DomainLock {
    fn drop(&mut self) {
        self.name = None;
        if let Some(fd) = self.directory.as_ref().and_then(|d| d.get().ok()) {
            // Unlocked, not only closed: a child forked meanwhile shares the open file.
            let _ = rustix::fs::flock(fd, FlockOperation::Unlock);
        }
    }
}

fn timeout(key: &HostKey, wait: Duration) -> HostError {
    let holder = match names::dial_lock(key) {
        Ok(Dialled::Member(_, who)) if who.pid != 0 => Some(who.pid),
        _ => None,
    };
    HostError::LockTimeout {
        waited_ms: wait.as_millis() as u64,
        holder,
    }
}

/// What became of locking the directory.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Flocked {
    Held,
    Contended,
    /// There is none, or it is on a file system without locks.
    Impossible,
}

fn flock(directory: Option<&ForkFd>) -> Result<Flocked, HostError> {
    let Some(directory) = directory else {
        return Ok(Flocked::Impossible);
    };
    Ok(
        match rustix::fs::flock(directory.get()?, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Flocked::Held,
            Err(Errno::WOULDBLOCK | Errno::INTR) => Flocked::Contended,
            Err(_) => Flocked::Impossible,
        },
    )
}

/// Pauses that grow by half each time up to their longest, and with the time waited: a thousand processes that look every few milliseconds
/// would keep the one from finishing that they wait for, and an eighth more is no great delay for who has waited long.
struct Pause {
    next: Duration,
    /// The time spent in pauses; of one that took far longer than it was to take, no more than four times that.
    waited: Duration,
}

impl Pause {
    fn new() -> Pause {
        Pause {
            next: PAUSE.0,
            waited: Duration::ZERO,
        }
    }

    fn is_long(&self) -> bool {
        self.next >= PAUSE.1
    }

    fn sleep(&mut self) {
        let start = Instant::now();
        std::thread::sleep(self.next);
        self.count(start.elapsed());
    }

    fn count(&mut self, took: Duration) {
        // timers of a machine at rest are late by up to a millisecond
        let counted = took.min(self.next * 4 + Duration::from_millis(1));
        self.waited += counted;
        let longest = (self.waited / 8).clamp(PAUSE.1, LONG_PAUSE);
        self.next = (self.next * 3 / 2).min(longest);
    }
}

/// Where the directory goes: beside the user's other run-time files if that place is truly the user's, else in /tmp.
fn directory_path(uid: u32) -> PathBuf {
    let run = PathBuf::from(format!("/run/user/{uid}"));
    let ours = open_nofollow(&run).is_ok_and(|fd| check_owner(&fd, uid, &run).is_ok());
    if ours {
        run.join("ferriband")
    } else {
        let map = std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
        PathBuf::from(format!("/tmp/ferriband-{}", outside(uid, &map)))
    }
}

/// What a user is called outside of our user namespace, by its table of ranges (user_namespaces(7)): whoever is root in one of his own has
/// nothing to do with the true root's files.
fn outside(uid: u32, map: &str) -> u32 {
    let range = |line: &str| -> Option<u32> {
        let mut words = line.split_ascii_whitespace().map(str::parse::<u32>);
        let (inner, outer, count) = (
            words.next()?.ok()?,
            words.next()?.ok()?,
            words.next()?.ok()?,
        );
        let place = uid.checked_sub(inner).filter(|place| *place < count)?;
        outer.checked_add(place)
    };
    map.lines().find_map(range).unwrap_or(uid)
}

fn open_directory(uid: u32) -> Result<Option<ForkFd>, HostError> {
    let path = directory_path(uid);
    ForkFd::make(|| open_checked(&path, uid))
}

/// Makes the directory if need be, and opens it; None where there is no place for one (a read-only file system), or where it is
/// that of a user whom our user namespace cannot name: nobody we know planted it, and it is no use to us.
fn open_checked(path: &Path, uid: u32) -> Result<Option<OwnedFd>, HostError> {
    match rustix::fs::mkdir(path, Mode::RWXU) {
        Ok(()) | Err(Errno::EXIST | Errno::ROFS | Errno::NOENT | Errno::ACCESS | Errno::NOSPC) => {}
        Err(e) => return Err(HostError::system("mkdir of the lock directory", e)),
    }
    let fd = match open_nofollow(path) {
        Ok(fd) => fd,
        Err(Errno::NOENT) => return Ok(None),
        Err(Errno::LOOP | Errno::NOTDIR) => return Err(not_ours(path, "is not a directory")),
        Err(Errno::ACCESS) => {
            // that of the true root, for us who are called root in a user namespace
            let owner = rustix::fs::lstat(path).map(|stat| stat.st_uid);
            if owner.is_ok_and(|owner| has_no_name_here(owner, uid)) {
                return Ok(None);
            }
            return Err(not_ours(path, "cannot be opened"));
        }
        Err(e) => return Err(HostError::system("open of the lock directory", e)),
    };
    match check_owner(&fd, uid, path) {
        Ok(()) => Ok(Some(fd)),
        Err(error) => match rustix::fs::fstat(&fd) {
            Ok(stat) if has_no_name_here(stat.st_uid, uid) => Ok(None),
            _ => Err(error),
        },
    }
}

fn open_nofollow(path: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::empty())
}

fn check_owner(fd: &OwnedFd, uid: u32, path: &Path) -> Result<(), HostError> {
    let stat = rustix::fs::fstat(fd).map_err(|e| HostError::system("fstat", e))?;
    if stat.st_uid != uid {
        return Err(not_ours(path, "belongs to another user"));
    }
    if stat.st_mode & 0o077 != 0 {
        return Err(not_ours(
            path,
            "is open to other users (its mode must be 0700)",
        ));
    }
    Ok(())
}

/// The owner of a file is a user whom our user namespace cannot name.
fn has_no_name_here(owner: u32, uid: u32) -> bool {
    const OVERFLOW_UID: u32 = 65534;
    let all_named = std::fs::read_to_string("/proc/self/uid_map")
        .is_ok_and(|map| map.split_ascii_whitespace().eq(["0", "0", "4294967295"]));
    owner == OVERFLOW_UID && uid != OVERFLOW_UID && !all_named
}

fn not_ours(path: &Path, why: &'static str) -> HostError {
    HostError::NotOurs {
        path: path.display().to_string(),
        why,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn scratch(name: &str) -> PathBuf {
        let dir =
            std::env::temp_dir().join(format!("ferriband-lock-test-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        std::fs::create_dir(&dir).unwrap();
        dir
    }

    #[test]
    fn who_waits_long_looks_seldom_and_a_machine_that_stood_still_costs_no_patience() {
        let mut pause = Pause::new();
        let mut looks = 0;
        while pause.waited < Duration::from_secs(10) {
            pause.count(pause.next);
            looks += 1;
        }
        assert!((50..200).contains(&looks), "{looks}");
        assert_eq!(pause.next, LONG_PAUSE);
        let before = pause.waited;
        pause.count(Duration::from_secs(3600));
        assert!(pause.waited - before <= Duration::from_millis(1001));
    }

    #[test]
    fn a_user_has_one_name_inside_and_outside_of_a_namespace() {
        assert_eq!(outside(7, "         0          0 4294967295\n"), 7);
        assert_eq!(outside(0, "0 1000 1\n"), 1000);
        assert_eq!(outside(12, "0 1000 1\n1 100000 65536\n"), 100_011);
        // those that have none, and what is no table
        assert_eq!(outside(9, "0 1000 1\n"), 9);
        assert_eq!(outside(9, "0 4294967295 20\n\nx y z\n1 2\n"), 9);
        assert_eq!(outside(9, ""), 9);
    }

    #[test]
    fn directory_is_made_once_and_closed_to_others() {
        let dir = scratch("made");
        let uid = rustix::process::geteuid().as_raw();
        let path = dir.join("d");
        for _ in 0..2 {
            assert!(open_checked(&path, uid).unwrap().is_some());
        }
        assert_eq!(
            std::fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o700
        );
        assert!(open_checked(&dir.join("no/such"), uid).unwrap().is_none());
        std::fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn planted_directories_are_refused() {
        let dir = scratch("planted");
        let uid = rustix::process::geteuid().as_raw();
        let refused = |path: &Path, uid: u32, reason: &str| match open_checked(path, uid) {
            Err(HostError::NotOurs { why, .. }) => assert!(why.contains(reason), "{why}"),
            other => panic!("{path:?}: {other:?}"),
        };
        let (open, file, link) = (dir.join("open"), dir.join("file"), dir.join("link"));
        std::fs::create_dir(&open).unwrap();
        std::fs::set_permissions(&open, std::fs::Permissions::from_mode(0o770)).unwrap();
        std::fs::write(&file, "").unwrap();
        std::fs::create_dir(dir.join("real")).unwrap();
        symlink(dir.join("real"), &link).unwrap();
        refused(&open, uid, "open to other users");
        refused(&file, uid, "not a directory");
        refused(&link, uid, "not a directory");
        std::fs::set_permissions(&open, std::fs::Permissions::from_mode(0o700)).unwrap();
        refused(&open, uid + 1, "another user");
        std::fs::remove_dir_all(dir).unwrap();
    }
}
