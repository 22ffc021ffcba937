//! The processes of this user that have the adapter open, and what they say of themselves.
//!
//! Owns: joining their registry for the time of a question, and waiting for answers, within bounds. A process that is stopped does not
//! answer.

use crate::failure::Failure;
use ferriband_admin::{ANSWER, ASK, Member};
use ferriband_attach::HostName;
use ferriband_memory::host::{Control, Host, HostError, JoinOptions, MESSAGE_BYTES, Tool};
use std::fs::File;
use std::io::{Read, Seek};
use std::os::fd::{AsFd, AsRawFd};
use std::time::{Duration, Instant};

/// How long all answers together may take.
const PATIENCE: Duration = Duration::from_millis(1500);
/// Longest answer.
const ANSWER_BYTES: u64 = 64 << 20;

/// A process that was asked.
#[derive(Debug)]
pub struct Asked {
    /// Its number in its own pid namespace.
    pub pid: u32,
    /// What it said; None if it did not answer.
    pub answer: Option<Member>,
}

/// Joins the registry of this user's processes: on a host of a live fabric (`ferriband run --host`)
/// of those that run there.
pub fn join() -> Result<Host, Failure> {
    let host = HostName::of_environment();
    let options = JoinOptions {
        label: host.map(|host| host.registry_label()).unwrap_or_default(),
        ..JoinOptions::default()
    };
    Host::join(options).map_err(|error| {
        Failure::new(format!(
            "cannot join the processes that use the adapter: {error}"
        ))
        .remedy("ask what is wrong: ferriband doctor")
    })
}

/// Asks every process of this user, network namespace and machine.
pub fn ask_all() -> Result<Vec<Asked>, Failure> {
    ask(&join()?)
}

/// Asks every other member.
pub fn ask(host: &Host) -> Result<Vec<Asked>, Failure> {
    // those that died unnoticed are no members
    host.reap()
        .map_err(|error| Failure::new(format!("cannot look for processes that ended: {error}")))?;
    let own = host.identity();
    let mut asked = Vec::new();
    for member in host.members() {
        let identity = member.identity;
        // a capture has nothing to say
        if identity == own || Tool::of(&member).is_some() {
            continue;
        }
        let control = match host.connect(member.process) {
            Ok(control) => control.send(&[ASK], &[]).ok().map(|()| control),
            Err(HostError::Gone { .. }) => continue,
            Err(_) => None,
        };
        asked.push((
            Asked {
                pid: identity.pid,
                answer: None,
            },
            control,
        ));
    }
    let end = Instant::now() + PATIENCE;
    for (asked, control) in &mut asked {
        if let Some(control) = control {
            asked.answer = wait(control, end);
        }
    }
    Ok(asked.into_iter().map(|(asked, _)| asked).collect())
}

/// The answer on a connection, if it comes in time.
fn wait(control: &Control, end: Instant) -> Option<Member> {
    let mut message = [0; MESSAGE_BYTES];
    loop {
        match control.recv(&mut message) {
            Ok(Some((length, fds))) if length > 0 && message[0] == ANSWER => {
                return read(File::from(fds.into_iter().next()?));
            }
            Ok(Some(_)) => {}
            Ok(None) => {
                let left = end.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    return None;
                }
                readable(control, left);
            }
            Err(_) => return None,
        }
    }
}

fn read(mut file: File) -> Option<Member> {
    // it was written from its start, and the place in it is shared with the writer
    file.rewind().ok()?;
    let mut text = Vec::new();
    file.take(ANSWER_BYTES).read_to_end(&mut text).ok()?;
    serde_json::from_slice(&text).ok()
}

/// Waits until something can be read, or not much longer than `left`.
fn readable(control: &Control, left: Duration) {
    let mut poll = libc::pollfd {
        fd: control.as_fd().as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: one structure, which is ours.
    unsafe { libc::poll(&raw mut poll, 1, left.as_millis() as i32 + 1) };
}
