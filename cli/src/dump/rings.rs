//! The rings that processes have sent us.
//!
//! Owns: accepting them, emptying them, and the order of time over all of them. A process that ends leaves its ring behind for us; one
//! that writes nonsense is not listened to any more. Must not know: what a record says.

use crate::failure::Failure;
use ferriband_memory::host::{Control, Host, MSG_TAP, TapReader};
use ferriband_memory::wait::{Epoll, Ready};
use std::os::fd::OwnedFd;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Processes that are listened to at the same time.
const MOST_RINGS: usize = 1024;
/// Records taken from one ring before the next has its turn.
const TURN: usize = 16_384;
/// A record this old is hardly followed by an older one of another process: only by one of a thread that lost its core meanwhile.
const SETTLED_NS: u64 = 10_000_000;
/// Bytes of a record before which its time stands.
const TIME: std::ops::Range<usize> = 0..8;
const TOKEN_LISTENER: u64 = 0;

struct Ring {
    reader: TapReader,
    control: Control,
    /// The process has closed its end, so all that will ever come is there.
    over: bool,
}

/// All of them.
pub struct Rings {
    epoll: Epoll,
    ready: Vec<Ready>,
    /// Connections that have not sent their ring yet.
    callers: Vec<Control>,
    rings: Vec<Ring>,
    /// Taken, not yet told.
    pending: Vec<(u64, Vec<u8>)>,
    /// When the last look began.
    looked_ns: u64,
    /// Of rings that are gone.
    lost: u64,
}

fn now_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_nanos() as u64)
}

impl Rings {
    /// None yet.
    pub fn new(host: &Host) -> Result<Self, Failure> {
        let failed = |error: ferriband_memory::Error| {
            Failure::new(format!("cannot wait for processes: {error}"))
        };
        let epoll = Epoll::new().map_err(failed)?;
        epoll
            .add(host.listener(), TOKEN_LISTENER, false)
            .map_err(failed)?;
        Ok(Rings {
            epoll,
            ready: Vec::new(),
            callers: Vec::new(),
            rings: Vec::new(),
            pending: Vec::new(),
            looked_ns: 0,
            lost: 0,
        })
    }

    /// Waits for a process to call, for so long at the most.
    pub fn wait(&mut self, at_most: Duration) {
        // an interrupted wait is a short one
        let _ = self
            .epoll
            .wait(&mut self.ready, Some(at_most.as_nanos() as u64));
    }

    /// Takes what is there. True if anything was.
    pub fn look(&mut self, host: &Host) -> bool {
        self.looked_ns = now_ns();
        self.accept(host);
        let before = self.pending.len();
        let mut record = Vec::new();
        for ring in &mut self.rings {
            for _ in 0..TURN {
                if !ring.reader.read(&mut record) {
                    break;
                }
                let Some(time) = record.get(TIME).and_then(|bytes| bytes.try_into().ok()) else {
                    continue;
                };
                self.pending
                    .push((u64::from_le_bytes(time), record.clone()));
            }
        }
        self.drop_ended();
        self.pending.len() > before
    }

    fn accept(&mut self, host: &Host) {
        while let Ok(Some(control)) = host.listener().accept_last_words() {
            if self.callers.len() + self.rings.len() < MOST_RINGS {
                self.callers.push(control);
            }
        }
        let callers = std::mem::take(&mut self.callers);
        for control in callers {
            let mut bytes = [0; 64];
            match control.recv(&mut bytes) {
                Ok(None) => self.callers.push(control),
                Ok(Some((length, fds))) if length >= 1 && bytes[0] == MSG_TAP => {
                    if let Some(reader) = open(fds) {
                        self.rings.push(Ring {
                            reader,
                            control,
                            over: false,
                        });
                    }
                }
                // a joiner that wanted the registry, or somebody who wants an adapter of us
                Ok(Some(_)) | Err(_) => {}
            }
        }
    }

    /// Forgets rings of processes that have ended, once they are empty.
    fn drop_ended(&mut self) {
        let mut lost = 0;
        self.rings.retain_mut(|ring| {
            // over at the last look: what it had written was taken in this one
            if ring.over || ring.reader.is_broken() {
                let mut rest = Vec::new();
                while ring.reader.read(&mut rest) {
                    let time = rest.get(TIME).and_then(|bytes| bytes.try_into().ok());
                    if let Some(time) = time {
                        self.pending.push((u64::from_le_bytes(time), rest.clone()));
                    }
                }
                lost += ring.reader.lost();
                return false;
            }
            let mut bytes = [0; 64];
            ring.over = ring.control.recv(&mut bytes).is_err();
            true
        });
        self.lost += lost;
    }

    /// The records in the order of their times: those that nothing older can follow, or all.
    pub fn take(&mut self, all: bool) -> Vec<Vec<u8>> {
        self.pending.sort_by_key(|(time, _)| *time);
        let until = if all {
            self.pending.len()
        } else {
            let settled = self.looked_ns.saturating_sub(SETTLED_NS);
            self.pending.partition_point(|(time, _)| *time <= settled)
        };
        let ready = self.pending.drain(..until);
        ready.map(|(_, record)| record).collect()
    }

    /// Records that found no room.
    pub fn lost(&self) -> u64 {
        let now: u64 = self.rings.iter().map(|ring| ring.reader.lost()).sum();
        self.lost.saturating_add(now)
    }
}

fn open(fds: Vec<OwnedFd>) -> Option<TapReader> {
    TapReader::open(fds.into_iter().next()?).ok()
}
