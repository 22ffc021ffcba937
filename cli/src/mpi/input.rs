//! Standard input: to the ranks that are to have it.

use super::ranks::Rank;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::process::ChildStdin;

/// Reads standard input when all that was read has been written.
pub struct Input {
    to: Vec<Pipe>,
    open: bool,
}

struct Pipe {
    pipe: ChildStdin,
    rest: Vec<u8>,
}

impl Input {
    /// To those of `ranks` that have a pipe.
    pub fn new(ranks: &mut [Rank]) -> Self {
        let to: Vec<Pipe> = ranks
            .iter_mut()
            .filter_map(Rank::take_input)
            .map(|pipe| {
                unblock(pipe.as_raw_fd());
                Pipe {
                    pipe,
                    rest: Vec::new(),
                }
            })
            .collect();
        Self { open: true, to }
    }

    /// What to wait for.
    pub fn poll(&self, list: &mut Vec<libc::pollfd>) {
        let mut add = |fd, events| {
            list.push(libc::pollfd {
                fd,
                events,
                revents: 0,
            });
        };
        if self.wants_more() {
            add(libc::STDIN_FILENO, libc::POLLIN);
        }
        for pipe in self.to.iter().filter(|pipe| !pipe.rest.is_empty()) {
            add(pipe.pipe.as_raw_fd(), libc::POLLOUT);
        }
    }

    fn wants_more(&self) -> bool {
        self.open && !self.to.is_empty() && self.to.iter().all(|pipe| pipe.rest.is_empty())
    }

    /// Passes on what has come.
    pub fn relay(&mut self, is_ready: &impl Fn(RawFd) -> bool) {
        if self.wants_more() && is_ready(libc::STDIN_FILENO) {
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
