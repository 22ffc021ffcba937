//! A connected side with calls that wait, as the paper's programs use it.
//!
//! Owns: waiting (looking again for a time, then asleep on the channel), and the thread that stands
//! for the interrupt of *nic*. Must not know: what is sent.
//!
//! *credit* and *ring* go on in the program's calls alone: the paper's library has no thread. In
//! *nic* a completion wakes a thread, which flushes what waits in the software-handled part of the
//! send buffer (papers/004, section 5.2). While the program calls by itself the thread only looks
//! every [`MODERATION`] whether it still does, as adapters moderate their interrupts.

use crate::failure::Failure;
use ferriband_ibv::CompChannel;
use ferriband_sdp_proto::connection::{Flow, Usage};
use ferriband_sdp_verbs::{Error, Received, Stream};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Between two interrupts while the program calls by itself.
const MODERATION: Duration = Duration::from_micros(100);
/// A thread that sleeps looks again after this time at the latest.
const LONGEST_SLEEP_MS: i32 = 5;
/// A call that has looked for so long yields its core between looks: the other process may need
/// it.
const ALONE: Duration = Duration::from_micros(20);
/// Looks between two readings of the clock.
const LOOKS: u32 = 16;
/// Without any progress for so long a call fails: the other process is gone.
const PATIENCE: Duration = Duration::from_secs(30);

/// A connected side.
pub struct Socket {
    shared: Arc<Shared>,
    interrupts: Option<JoinHandle<()>>,
    spin: Duration,
}

struct Shared {
    state: Mutex<State>,
    channel: Arc<CompChannel>,
    /// Calls of the program. While one waits, the lowest bit is set.
    calls: AtomicU64,
    ends: AtomicBool,
}

struct State {
    stream: Stream,
    /// The send queue was asked for an event that has not been taken.
    is_armed: bool,
}

fn explain(error: Error) -> Failure {
    Failure::new(format!("a connection of the experiment: {error}"))
}

impl Socket {
    /// A side that looks again for `spin` before it sleeps.
    pub fn new(stream: Stream, flow: Flow, spin: Duration) -> Self {
        let shared = Arc::new(Shared {
            channel: Arc::clone(stream.channel()),
            state: Mutex::new(State {
                stream,
                is_armed: false,
            }),
            calls: AtomicU64::new(0),
            ends: AtomicBool::new(false),
        });
        let interrupts = matches!(flow, Flow::Nic { .. }).then(|| {
            let shared = Arc::clone(&shared);
            thread::spawn(move || shared.serve_interrupts())
        });
        Socket {
            shared,
            interrupts,
            spin,
        }
    }

    /// Gives all bytes to the connection.
    pub fn send(&self, bytes: &[u8]) -> Result<(), Failure> {
        let mut given = 0;
        self.call(|stream| {
            given += stream.send(&bytes[given..], false)?;
            Ok((given == bytes.len()).then_some(()))
        })
    }

    /// Takes as many bytes as there is room for.
    pub fn receive(&self, bytes: &mut [u8]) -> Result<(), Failure> {
        let mut taken = 0;
        self.call(|stream| {
            match stream.receive(&mut bytes[taken..])? {
                Received::Bytes(count) => taken += count,
                Received::End => return Err(ferriband_sdp_proto::connection::Over::Lost.into()),
                Received::Nothing => {}
            }
            Ok((taken == bytes.len()).then_some(()))
        })
    }

    /// Waits until everything that was given has left.
    pub fn flush(&self) -> Result<(), Failure> {
        self.call(|stream| {
            stream.progress()?;
            let account = stream.machine().account();
            Ok((account.waiting == 0 && account.segments == 0).then_some(()))
        })
    }

    /// Looks at the connection, after all completions that are there were taken.
    pub fn look<T>(&self, look: impl FnOnce(&Stream) -> T) -> Result<T, Failure> {
        let mut state = self.shared.lock();
        while state.stream.progress().map_err(explain)? > 0 {}
        Ok(look(&state.stream))
    }

    /// How full the buffers are, without taking completions.
    pub fn usage(&self) -> Usage {
        self.shared.lock().stream.machine().usage()
    }

    /// A call of the program: tries until it is done.
    fn call(
        &self,
        mut attempt: impl FnMut(&mut Stream) -> Result<Option<()>, Error>,
    ) -> Result<(), Failure> {
        let shared = &self.shared;
        let mut state = shared.lock();
        shared.calls.fetch_add(1, Ordering::Relaxed);
        let mut done = attempt(&mut state.stream).map_err(explain)?;
        if done.is_none() {
            let begun = Instant::now();
            while done.is_none() {
                for _ in 0..LOOKS {
                    done = attempt(&mut state.stream).map_err(explain)?;
                    if done.is_some() {
                        break;
                    }
                }
                let waited = begun.elapsed();
                if waited > PATIENCE {
                    return Err(Failure::new(
                        "a connection of the experiment made no progress",
                    ));
                }
                if waited > ALONE {
                    thread::yield_now();
                }
                if done.is_none() && waited >= self.spin {
                    (state, done) = self.sleep(state, &mut attempt)?;
                }
            }
        }
        shared.calls.fetch_add(1, Ordering::Relaxed);
        shared.arm(&mut state).map_err(explain)
    }

    fn sleep<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        attempt: &mut impl FnMut(&mut Stream) -> Result<Option<()>, Error>,
    ) -> Result<(MutexGuard<'a, State>, Option<()>), Failure> {
        self.shared.take_events(&mut state).map_err(explain)?;
        state.stream.arm(false).map_err(explain)?;
        state.is_armed = true;
        // both queues: what came before they were armed has no event
        state.stream.progress().map_err(explain)?;
        let done = attempt(&mut state.stream).map_err(explain)?;
        if done.is_some() {
            return Ok((state, done));
        }
        drop(state);
        wait(&self.shared.channel, LONGEST_SLEEP_MS);
        let mut state = self.shared.lock();
        state.stream.progress().map_err(explain)?;
        Ok((state, None))
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        self.shared.ends.store(true, Ordering::Relaxed);
        if let Some(interrupts) = self.interrupts.take() {
            // it panics only where this thread would have
            let _ = interrupts.join();
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks for the completion that flushes what waits, if something does and *nic* is used.
    fn arm(&self, state: &mut State) -> Result<(), Error> {
        while state.stream.machine().wants_completion() && !state.is_armed {
            state.stream.arm(true)?;
            state.is_armed = true;
            // a completion that came before has no event
            state.stream.progress()?;
        }
        Ok(())
    }

    fn take_events(&self, state: &mut State) -> Result<(), Error> {
        while self.channel.next_event()?.is_some() {}
        state.is_armed = false;
        Ok(())
    }

    /// The thread that stands for the interrupt.
    fn serve_interrupts(&self) {
        let mut seen = 0;
        while !self.ends.load(Ordering::Relaxed) {
            if !wait(&self.channel, LONGEST_SLEEP_MS) {
                continue;
            }
            let calls = self.calls.load(Ordering::Relaxed);
            if calls != seen || calls % 2 == 1 {
                seen = calls;
                thread::sleep(MODERATION);
                continue;
            }
            let mut state = self.lock();
            let flushed = self.take_events(&mut state).and_then(|()| {
                while state.stream.progress()? > 0 {}
                self.arm(&mut state)
            });
            // the program's next call meets the same failure and tells of it
            if flushed.is_err() {
                return;
            }
        }
    }
}

/// Waits for an event on the channel. Returns whether there is one.
fn wait(channel: &CompChannel, longest_ms: i32) -> bool {
    let mut poll = libc::pollfd {
        fd: channel.fd().as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: one structure, which lives for the call.
    unsafe { libc::poll(&raw mut poll, 1, longest_ms) > 0 }
}
