//! Standard input: for the ranks that are to have it.
//!
//! One rank that has it has this process's own descriptor: nothing is read before the rank reads it, and what it leaves is there for whoever comes next. Where all ranks
//! have it, each reads a regular file by itself, from where it stands; anything else is read here and copied to all, and that goes ahead of the ranks by as much as a
//! pipe holds.

use crate::args::StdinTo;
use crate::failure::Failure;
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::process::{ChildStdin, Stdio};

const STDIN: RawFd = libc::STDIN_FILENO;
/// A job in the background of its terminal looks this often whether it is in the foreground.
const LOOK_MS: i32 = 200;

/// Who has the standard input, and how.
pub struct Input {
    to: StdinTo,
    way: Way,
}

enum Way {
    /// Whoever has it has the descriptor.
    Descriptor,
    /// Each rank has a descriptor of its own of the file; these are the same.
    Files(Vec<File>),
    Pump(Pump),
}

impl Input {
    /// For a job of `ranks` ranks.
    pub fn new(to: StdinTo, ranks: u32) -> Result<Self, Failure> {
        if let StdinTo::Rank(rank) = to
            && rank >= ranks
        {
            let last = ranks.saturating_sub(1);
            return Err(Failure::new(format!(
                "the standard input is for rank {rank}, and there is none: the job has {ranks} ranks"
            ))
            .remedy(format!("--stdin takes none, all, or a rank from 0 to {last}"))
            .status(2));
        }
        let way = match to {
            StdinTo::All if ranks > 1 => match (0..ranks).map(|_| reopen()).collect() {
                Ok(files) => Way::Files(files),
                Err(_) => Way::Pump(Pump::new()),
            },
            _ => Way::Descriptor,
        };
        Ok(Self { to, way })
    }

    /// What a rank is started with.
    pub fn of_rank(&self, rank: u32) -> Stdio {
        if !self.to.takes(rank) {
            return Stdio::null();
        }
        match &self.way {
            Way::Descriptor => Stdio::inherit(),
            Way::Files(files) => match files[rank as usize].try_clone() {
                Ok(file) => file.into(),
                Err(_) => Stdio::null(),
            },
            Way::Pump(_) => Stdio::piped(),
        }
    }

    /// Whether a rank reads this process's terminal. The kernel lets those of the foreground do that alone, so such a rank is of this process's group.
    pub fn shares_terminal(&self, rank: u32) -> bool {
        matches!(self.way, Way::Descriptor) && self.to.takes(rank) && is_own_terminal()
    }

    /// The pipe to a rank that was started with one.
    pub fn add(&mut self, pipe: Option<ChildStdin>) {
        if let (Way::Pump(pump), Some(pipe)) = (&mut self.way, pipe) {
            pump.add(pipe);
        }
    }

    /// What to wait for; and for how long at the most, in milliseconds.
    pub fn poll(&self, list: &mut Vec<libc::pollfd>) -> Option<i32> {
        match &self.way {
            Way::Pump(pump) => pump.poll(list),
            _ => None,
        }
    }

    /// Passes on what has come.
    pub fn relay(&mut self, is_ready: &impl Fn(RawFd) -> bool) {
        if let Way::Pump(pump) = &mut self.way {
            pump.relay(is_ready);
        }
    }
}

impl Drop for Input {
    /// Whoever comes next reads on behind what a rank has read.
    fn drop(&mut self) {
        let Way::Files(files) = &mut self.way else {
            return;
        };
        let places = files
            .iter_mut()
            .filter_map(|file| file.stream_position().ok());
        if let (Some(place), Ok(mut own)) = (places.max(), own()) {
            // A descriptor that was a file is one still; where it is not, nobody reads on.
            let _ = own.seek(SeekFrom::Start(place));
        }
    }
}

/// Opens the file of this process's standard input again, with a place of its own in it.
fn own() -> io::Result<File> {
    Ok(io::stdin().as_fd().try_clone_to_owned()?.into())
}

/// The standard input once more, with a place of its own; an error where it is no file to read, or may not be opened.
fn reopen() -> io::Result<File> {
    let mut own = own()?;
    // SAFETY: a query.
    let flags = unsafe { libc::fcntl(STDIN, libc::F_GETFL) };
    if !own.metadata()?.is_file() || flags & libc::O_ACCMODE == libc::O_WRONLY {
        return Err(ErrorKind::Unsupported.into());
    }
    let place = own.stream_position()?;
    let mut file = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(format!("/proc/self/fd/{STDIN}"))?;
    file.seek(SeekFrom::Start(place))?;
    Ok(file)
}

/// Whether the standard input is the terminal of this process's session.
fn is_own_terminal() -> bool {
    // SAFETY: queries.
    unsafe { libc::isatty(STDIN) == 1 && libc::tcgetsid(STDIN) == libc::getsid(0) }
}

/// Whether to read would stop this process, because the terminal is another job's.
fn would_stop() -> bool {
    // SAFETY: queries.
    is_own_terminal() && unsafe { libc::tcgetpgrp(STDIN) != libc::getpgrp() }
}

/// Reads standard input when all that was read has been written.
struct Pump {
    to: Vec<Pipe>,
    open: bool,
}

struct Pipe {
    pipe: ChildStdin,
    rest: Vec<u8>,
}

impl Pump {
    fn new() -> Self {
        Self {
            to: Vec::new(),
            open: true,
        }
    }

    fn add(&mut self, pipe: ChildStdin) {
        unblock(pipe.as_raw_fd());
        self.to.push(Pipe {
            pipe,
            rest: Vec::new(),
        });
    }

    fn poll(&self, list: &mut Vec<libc::pollfd>) -> Option<i32> {
        let mut add = |fd, events| {
            list.push(libc::pollfd {
                fd,
                events,
                revents: 0,
            });
        };
        for pipe in self.to.iter().filter(|pipe| !pipe.rest.is_empty()) {
            add(pipe.pipe.as_raw_fd(), libc::POLLOUT);
        }
        if !self.wants_more() {
            return None;
        }
        if would_stop() {
            return Some(LOOK_MS);
        }
        add(STDIN, libc::POLLIN);
        None
    }

    fn wants_more(&self) -> bool {
        self.open && !self.to.is_empty() && self.to.iter().all(|pipe| pipe.rest.is_empty())
    }

    fn relay(&mut self, is_ready: &impl Fn(RawFd) -> bool) {
        if self.wants_more() && is_ready(STDIN) {
            let mut bytes = [0; 65536];
            match io::stdin().lock().read(&mut bytes) {
                Ok(0) => self.open = false,
                Ok(count) => {
                    for pipe in &mut self.to {
                        pipe.rest.extend_from_slice(&bytes[..count]);
                    }
                }
                Err(error)
                    if matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::WouldBlock) => {}
                Err(_) => self.open = false,
            }
        }
        let open = self.open;
        self.to
            .retain_mut(|pipe| match pipe.pipe.write(&pipe.rest) {
                _ if pipe.rest.is_empty() => open,
                Ok(count) => {
                    pipe.rest.drain(..count);
                    open || !pipe.rest.is_empty()
                }
                Err(error) => {
                    matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::WouldBlock)
                }
            });
    }
}

/// Writing to `fd` takes what there is room for.
fn unblock(fd: RawFd) {
    // SAFETY: flags of a descriptor of our own.
    unsafe {
        let flags = libc::fcntl(fd, libc::F_GETFL);
        libc::fcntl(fd, libc::F_SETFL, flags | libc::O_NONBLOCK);
    }
}
