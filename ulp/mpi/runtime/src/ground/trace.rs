//! What a traced rank writes down: its calls, and the messages that it sends and gets.
//!
//! Owns: whether this process is traced, and the names of functions by the address of their text. Must not know: what becomes of the file, which
//! `ferriband trace` reads. Untraced, a call costs one load and one branch. Messages are written down by their number among those from one rank to
//! another, by which both ends find each other; those to oneself have none and are left out.

use super::constants::MPI_ERR_OTHER;
use super::context::COLLECTIVE;
use super::errors::{MpiError, Outcome};
use ferriband_mpi_proto::envelope::Kind;
use ferriband_mpi_proto::heals::Parts;
use ferriband_mpi_proto::settings::MOST_TRACE_EVENTS;
use ferriband_trace::{Event, Tape, Unwritable, What};
pub use ferriband_trace::{Whose, now_ns};
use std::cell::Cell;
use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

static IS_ON: AtomicBool = AtomicBool::new(false);
static TRACE: OnceLock<Trace> = OnceLock::new();

const _: () = assert!(MOST_TRACE_EVENTS <= ferriband_trace::MOST_EVENTS);

/// The kinds of messages: of the program, of a collective.
const MESSAGES: [&str; 2] = ["message", "message of a collective"];

struct Trace {
    tape: Tape,
    /// The indices of the names of [`MESSAGES`].
    kinds: [u16; 2],
    names: Mutex<HashMap<(usize, usize), u16>>,
}

/// Whether this process is traced.
#[inline]
pub fn is_on() -> bool {
    IS_ON.load(Ordering::Relaxed)
}

/// Begins to write, to a file of this rank's in `dir`.
pub fn begin(dir: &Path, whose: &Whose) -> Outcome {
    if is_on() {
        return Ok(());
    }
    let unwritable = |error: Unwritable| MpiError::with(MPI_ERR_OTHER, error.to_string());
    let tape = Tape::begin(dir, whose).map_err(unwritable)?;
    let kinds = MESSAGES.map(|kind| tape.name(kind));
    let trace = Trace {
        tape,
        kinds,
        names: Mutex::default(),
    };
    if TRACE.set(trace).is_ok() {
        IS_ON.store(true, Ordering::Relaxed);
    }
    Ok(())
}

/// A child of a traced process is not traced.
pub fn end() {
    IS_ON.store(false, Ordering::Relaxed);
}

thread_local! {
    static THREAD: Cell<Option<u8>> = const { Cell::new(None) };
}

/// A number of this thread.
fn thread() -> u8 {
    static NEXT: AtomicU8 = AtomicU8::new(0);
    THREAD.with(|number| {
        number.get().unwrap_or_else(|| {
            let new = NEXT
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |next| {
                    Some(next.saturating_add(1))
                })
                .unwrap_or(u8::MAX);
            number.set(Some(new));
            new
        })
    })
}

impl Trace {
    /// The index of a function's name. Names are texts of the library, so their address is theirs alone.
    fn name(&self, function: &str) -> u16 {
        let key = (function.as_ptr() as usize, function.len());
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        *names.entry(key).or_insert_with(|| self.tape.name(function))
    }

    fn call(&self, what: What, at_ns: u64, name: u16) {
        self.tape.write(&Event {
            at_ns,
            what,
            thread: thread(),
            name,
            tag: 0,
            peer: 0,
            seq: 0,
            bytes: 0,
        });
    }
}

/// A call of the program's, from here to its end.
pub struct Span {
    name: u16,
}

/// A call begins; nothing if this process is not traced.
#[inline]
pub fn span(function: &str) -> Option<Span> {
    if is_on() {
        span_from(function, now_ns())
    } else {
        None
    }
}

/// The same; it has begun before.
#[cold]
pub fn span_from(function: &str, at_ns: u64) -> Option<Span> {
    let trace = TRACE.get()?;
    let name = trace.name(function);
    trace.call(What::Call, at_ns, name);
    Some(Span { name })
}

impl Drop for Span {
    fn drop(&mut self) {
        if let Some(trace) = TRACE.get() {
            trace.call(What::Return, now_ns(), self.name);
        }
    }
}

/// A heal that is over just now.
#[derive(Clone, Copy, Debug)]
pub struct Healed {
    /// Its number in this rank.
    pub number: u32,
    /// The rank at the other end.
    pub peer: u32,
    /// Why the connection failed.
    pub cause: &'static str,
    /// Its parts.
    pub parts: Parts,
    /// Bytes that were sent again.
    pub bytes: u64,
    /// Connections that were begun.
    pub tries: u32,
}

/// A connection has been made anew; nothing if this process is not traced.
#[cold]
pub fn healed(heal: &Healed) {
    let Some(trace) = TRACE.get().filter(|_| is_on()) else {
        return;
    };
    let begin = Event {
        at_ns: now_ns().saturating_sub(heal.parts.whole() + heal.parts.detect),
        what: What::Heal,
        thread: thread(),
        name: trace.name(heal.cause),
        tag: heal.tries.cast_signed(),
        peer: heal.peer,
        seq: heal.number,
        bytes: heal.bytes,
    };
    trace.tape.write(&begin);
    let mut at_ns = begin.at_ns;
    for (name, bytes) in Parts::NAMES.iter().zip(heal.parts.all()) {
        trace.tape.write(&Event {
            at_ns,
            what: What::Part,
            name: trace.name(name),
            bytes,
            ..begin
        });
        at_ns += bytes;
    }
}

/// A message that the program, or a collective, has sent to `peer`.
#[cold]
pub fn sent(peer: u32, kind: Kind, seq: u32, tag: i32, context: u64, body: &[u8], length: usize) {
    message(What::Sent, peer, kind, seq, tag, context, body, length);
}

/// One that has come from `peer`.
#[cold]
pub fn came(peer: u32, kind: Kind, seq: u32, tag: i32, context: u64, body: &[u8], length: usize) {
    message(What::Came, peer, kind, seq, tag, context, body, length);
}

#[allow(clippy::too_many_arguments)] // an envelope's fields and what follows it
fn message(
    what: What,
    peer: u32,
    kind: Kind,
    seq: u32,
    tag: i32,
    context: u64,
    body: &[u8],
    length: usize,
) {
    let bytes = match kind {
        Kind::Eager => length as u64,
        // The request, then the length.
        Kind::Rts => body.get(8..16).map_or(0, |eight| {
            u64::from_le_bytes(eight.try_into().expect("eight bytes"))
        }),
        _ => return,
    };
    if let Some(trace) = TRACE.get() {
        trace.tape.write(&Event {
            at_ns: now_ns(),
            what,
            thread: thread(),
            name: trace.kinds[usize::from(context & COLLECTIVE != 0)],
            tag,
            peer,
            seq,
            bytes,
        });
    }
}
