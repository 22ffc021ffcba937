//! How a joiner finds the domain's registry.
//!
//! Owns: asking the members' names in the order of their slots, and the ways to get the descriptor: reopened from
//! /proc/PID/fd, which needs nothing of the member (it may be stopped, or starved of its core), or else out of the
//! welcome that a listener sends (across pid namespaces). Must not know: what the registry holds.
//!
//! Under the lock no member appears, and the kernel answers for each name exactly; so "nobody" is a fact, not a guess.

use super::HostError;
use super::control;
use super::identity::{HostKey, ProcessIdentity};
use super::names::{self, Dialled, Prober};
use super::registry::{MEMFD_NAME, PROCESS_LIMIT, Registry};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// Members that are asked at the same time for a welcome.
const BATCH: usize = 16;
/// Batches of members that are waited for before the search gives up.
const BATCHES: usize = 8;
/// Slots in which [`glance`] looks for a member: joiners take the lowest that is free.
const GLANCED: u32 = 64;
/// Descriptors of one process that are looked at, and processes.
const DESCRIPTORS: usize = 1 << 16;
const PROCESSES: usize = 1 << 16;

/// A member that was reached and not yet heard.
struct Asked {
    slot: u32,
    fd: OwnedFd,
}

/// The registry of a domain, or None if it has no member. To be called under the domain's lock. `by_number` says that /proc
/// counts processes as we do, so that the members' numbers may be looked up there.
///
/// # Errors
/// `NoAnswer` if there are members of which none could be got to hand it over: they are stopped, and hidden in
/// another pid namespace or not dumpable.
pub(super) fn find(
    key: &HostKey,
    me: &ProcessIdentity,
    answer_wait: Duration,
    by_number: bool,
) -> Result<Option<Registry>, HostError> {
    let prober = Prober::new(key)?;
    let mut asked = Vec::new();
    let mut silent: Option<u32> = None;
    let mut batches = 0;
    for slot in 0..PROCESS_LIMIT as u32 {
        if !prober.is_present(slot)? {
            continue;
        }
        match names::dial(key, slot) {
            Ok(Dialled::Member(fd, who)) => {
                let registry = if by_number {
                    from_proc(key, me, who.pid, Some(slot))?
                } else {
                    None
                };
                if registry.is_some() {
                    return Ok(registry);
                }
                silent.get_or_insert(who.pid);
                asked.push(Asked { slot, fd });
            }
            Ok(Dialled::Nobody | Dialled::Foreign) => {}
            Err(error) if is_scarcity(&error) => return Err(error),
            Ok(Dialled::Full) | Err(_) => _ = silent.get_or_insert(0),
        }
        if asked.len() == BATCH && batches < BATCHES {
            batches += 1;
            if let Some(registry) = welcomed(key, &mut asked, answer_wait)? {
                return Ok(Some(registry));
            }
            asked.clear();
        }
    }
    if let Some(registry) = welcomed(key, &mut asked, answer_wait)? {
        return Ok(Some(registry));
    }
    let Some(pid) = silent else {
        return Ok(None);
    };
    if by_number && let Some(registry) = from_any_process(key, me)? {
        return Ok(Some(registry));
    }
    // Whoever was silent may have died meanwhile: then it is no reason to refuse.
    for slot in 0..PROCESS_LIMIT as u32 {
        if prober.is_present(slot)?
            && !matches!(
                names::dial(key, slot),
                Ok(Dialled::Nobody | Dialled::Foreign)
            )
        {
            return Err(HostError::NoAnswer { pid });
        }
    }
    Ok(None)
}

/// The registry as a member in one of the first slots has it, for whoever only wants to look at it;
/// None if no such member can
/// be found without waiting for it. Without the domain's lock: somebody may join or leave
/// meanwhile.
pub(super) fn glance(key: &HostKey, me: &ProcessIdentity) -> Result<Option<Registry>, HostError> {
    let prober = Prober::new(key)?;
    for slot in 0..GLANCED {
        if prober.is_present(slot)?
            && let Dialled::Member(_, who) = names::dial(key, slot)?
            && let Some(registry) = from_proc(key, me, who.pid, Some(slot))?
        {
            return Ok(Some(registry));
        }
    }
    Ok(None)
}

/// Waits for the first welcome of those asked.
fn welcomed(
    key: &HostKey,
    asked: &mut Vec<Asked>,
    wait: Duration,
) -> Result<Option<Registry>, HostError> {
    let deadline = Instant::now() + wait;
    while !asked.is_empty() {
        let left = deadline.saturating_duration_since(Instant::now());
        let timeout = Timespec {
            tv_sec: left.as_secs() as i64,
            tv_nsec: i64::from(left.subsec_nanos()),
        };
        let mut fds: Vec<_> = asked
            .iter()
            .map(|a| PollFd::new(&a.fd, PollFlags::IN))
            .collect();
        match poll(&mut fds, Some(&timeout)) {
            Ok(0) => return Ok(None),
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) if !left.is_zero() => continue,
            Err(e) => return Err(HostError::system("poll", e)),
        }
        let ready: Vec<bool> = fds.iter().map(|f| !f.revents().is_empty()).collect();
        for index in (0..asked.len()).rev().filter(|&i| ready[i]) {
            let one = asked.swap_remove(index);
            // the kernel drops the registry from a welcome for which this process has no descriptor, without a word
            rustix::io::fcntl_dupfd_cloexec(&one.fd, 0).map_err(|e| HostError::system("dup", e))?;
            if let Some((process, fd)) = control::receive_welcome(&one.fd)
                && let Ok(registry) = Registry::open(fd, key)
                && process.slot == one.slot
                && registry.is_live(process)
            {
                return Ok(Some(registry));
            }
        }
    }
    Ok(None)
}

/// The registry that process `pid` holds, if it is a member (in `slot`, if known) by the registry's own word. A forked child
/// that still has the descriptor of a domain long gone is no member and does not count.
///
/// # Errors
/// `System` while this process has no descriptor to look.
fn from_proc(
    key: &HostKey,
    me: &ProcessIdentity,
    pid: u32,
    slot: Option<u32>,
) -> Result<Option<Registry>, HostError> {
    if pid == 0 {
        return Ok(None);
    }
    let wanted = format!("/memfd:{MEMFD_NAME}");
    let Some(listed) = unless_scarce(std::fs::read_dir(format!("/proc/{pid}/fd")))? else {
        return Ok(None);
    };
    for entry in listed.take(DESCRIPTORS).flatten() {
        let path = entry.path();
        let is_registry = std::fs::read_link(&path)
            .is_ok_and(|link| link.to_str().is_some_and(|s| s.starts_with(&wanted)));
        if !is_registry {
            continue;
        }
        let opened = std::fs::File::options().read(true).write(true).open(&path);
        let Some(file) = unless_scarce(opened)? else {
            continue;
        };
        let Ok(registry) = Registry::open(file.into(), key) else {
            continue;
        };
        let is_holder = |slot: usize| {
            registry.member_at(slot).is_some_and(|m| {
                m.identity.pid == pid && m.identity.pid_namespace == me.pid_namespace
            })
        };
        let found = match slot {
            Some(slot) => is_holder(slot as usize),
            None => (0..PROCESS_LIMIT).any(is_holder),
        };
        if found {
            return Ok(Some(registry));
        }
    }
    Ok(None)
}

/// What was opened; None if it cannot be, for a reason that lies with it.
fn unless_scarce<T>(opened: std::io::Result<T>) -> Result<Option<T>, HostError> {
    match opened {
        Ok(opened) => Ok(Some(opened)),
        Err(error) => match HostError::io("open in /proc", &error) {
            error if is_scarcity(&error) => Err(error),
            _ => Ok(None),
        },
    }
}

fn is_scarcity(error: &HostError) -> bool {
    matches!(error, HostError::System { errno, .. } if crate::Error::is_scarcity(*errno))
}

/// The last resort: members that are stopped with a full backlog do not even tell their number.
fn from_any_process(key: &HostKey, me: &ProcessIdentity) -> Result<Option<Registry>, HostError> {
    let Some(listed) = unless_scarce(std::fs::read_dir("/proc"))? else {
        return Ok(None);
    };
    let pids = listed
        .take(PROCESSES)
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    for pid in pids {
        if let Some(registry) = from_proc(key, me, pid, None)? {
            return Ok(Some(registry));
        }
    }
    Ok(None)
}
