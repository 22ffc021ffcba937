//! The Portals 4 interfaces of a process, over the connections of `ferriband-putget-verbs`.
//!
//! Owns: which interfaces are open, where the process listens, how long a call waits ([`with`] and
//! its kin); how operations travel. Must not know: C types, which are `ulp/portals/abi`'s.
//!
//! All four interfaces of a process share its listener, one connection to each peer and one
//! progress.

#![warn(missing_docs)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod choice;
mod local;
mod memory;
mod presence;

use ferriband_host::fork::PerProcess;
use ferriband_host::wake;
use ferriband_ibv::{Choice, Cm, ErrorKind, Verbs};
use ferriband_portals_process::{
    self as process, Ni, ORDERED_BYTES, Process, Recall, Short, settings as names,
};
use ferriband_portals_proto::{
    CtEvent, Features, Handle, Interface, Limits, MdInit, NOT_WATCHED, NiKind, Operation,
    Process as Id, PtlError, Taken,
};
use ferriband_putget_proto::Config;
use ferriband_putget_verbs::crossover::Crossover;
use ferriband_putget_verbs::settings::{self, SETTINGS, Values};
use ferriband_putget_verbs::{Error, Node, Server, Settings, Waited};
use ferriband_registration::Way;
use local::{Local, Over, id_of};
use memory::Program;
use std::fmt::Display;
use std::io::Write;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Receives that are posted for each peer.
const RECEIVES: u16 = 16;
/// Requests of a peer that are answered at a time.
const REQUESTS: u16 = 64;
/// The most bytes of an atomic operation, and of a volatile put: they go short.
const ATOMIC_BYTES: u64 = 512;
/// The longest message.
const LONGEST: u64 = 1 << 32;
/// How long the last PtlNIFini waits for what is under way, of both sides.
const LEAVE: Duration = Duration::from_secs(5);
/// A peer that has asked for nothing for so long is done with a process that leaves.
const QUIET: Duration = Duration::from_millis(2);
/// A peer that has connected to a process that leaves has so long to ask for something first.
const FIRST: Duration = Duration::from_millis(20);
/// So long after PtlNIFini ranks of the map that were never met may still come.
const LATE: Duration = Duration::from_millis(50);
/// How long a call waits for what is about to end.
const MOMENT: Duration = Duration::from_millis(100);
/// PTL_PID_ANY.
const PID_ANY: u32 = 0xffff;

/// What an interface offers.
pub fn offered() -> Limits {
    Limits {
        max_msg_size: LONGEST,
        max_atomic_size: ATOMIC_BYTES,
        max_fetch_atomic_size: ATOMIC_BYTES,
        max_waw_ordered_size: ORDERED_BYTES,
        max_war_ordered_size: ORDERED_BYTES,
        max_volatile_size: ATOMIC_BYTES,
        features: Features::BIND_INACCESSIBLE.union(Features::TOTAL_DATA_ORDERING),
        ..Limits::default()
    }
}

/// The Portals of this process.
#[derive(Default)]
struct Open {
    /// PtlInit less PtlFini.
    initialised: u32,
    server: Option<Arc<Server<Local>>>,
}

#[derive(Default)]
struct Portals {
    open: Mutex<Open>,
    /// Whether there was a PtlInit more than PtlFini.
    is_initialised: AtomicBool,
}

/// A forked child finds it as before PtlInit.
static PORTALS: PerProcess<Portals> = PerProcess::new(Portals::default);

fn open() -> MutexGuard<'static, Open> {
    let open = PORTALS.get().open.lock();
    open.unwrap_or_else(PoisonError::into_inner)
}

fn set_initialised(is_initialised: bool) {
    let set = &PORTALS.get().is_initialised;
    set.store(is_initialised, Ordering::Relaxed);
}

/// PtlInit.
pub fn init() {
    let mut open = open();
    open.initialised += 1;
    set_initialised(true);
}

/// Whether Portals may be called.
pub fn is_initialised() -> bool {
    PORTALS.get().is_initialised.load(Ordering::Relaxed)
}

/// PtlFini. The last one ends what PtlNIFini has not ended.
pub fn fini() {
    let mut open = open();
    open.initialised = open.initialised.saturating_sub(1);
    set_initialised(open.initialised > 0);
    if open.initialised == 0
        && let Some(server) = open.server.take()
    {
        drop(open);
        leave(&server);
    }
}

/// PtlAbort: waits end with PTL_ABORTED, now and later.
pub fn abort() {
    if let Some(server) = &open().server {
        server.with(|node| node.users.aborted = true);
    }
}

/// PtlNIInit: the interface's handle and limits.
///
/// # Errors
/// PTL_NO_INIT before PtlInit; PTL_PID_IN_USE where somebody listens at the port, or where the
/// process listens at another; PTL_FAIL without an adapter.
pub fn ni_init(
    kind: NiKind,
    pid: u32,
    desired: Option<&Limits>,
) -> Result<(Handle, Limits), PtlError> {
    let mut open = open();
    if open.initialised == 0 {
        return Err(PtlError::NoInit);
    }
    let server = match &open.server {
        Some(server) => Arc::clone(server),
        None => {
            let server = Arc::new(listen(pid)?);
            open.server = Some(Arc::clone(&server));
            server
        }
    };
    server.with(|node| {
        let users = &mut node.users.process;
        let place = usize::from(kind.index());
        if let Some(ni) = &mut users.interfaces[place] {
            ni.opened += 1;
            return Ok((ni.interface.handle(), *ni.interface.limits()));
        }
        if pid != PID_ANY && pid != users.id.pid {
            return Err(PtlError::PidInUse);
        }
        let limits = Limits::granted(desired, &offered());
        let interface = Interface::new(kind, limits);
        let handle = interface.handle();
        users.interfaces[place] = Some(Ni {
            interface,
            opened: 1,
            map: Vec::new(),
            rank: 0,
        });
        Ok((handle, limits))
    })
}

/// Listens where the process shall be known.
fn listen(pid: u32) -> Result<Server<Local>, PtlError> {
    let port = match pid {
        PID_ANY => 0,
        pid => u16::try_from(pid).map_err(|_| PtlError::ArgInvalid)?,
    };
    let values = settings::values(&SETTINGS).map_err(fail)?;
    let named = settings::values(&names::SETTINGS).map_err(fail)?;
    let choice = Choice::from_env().map_err(fail)?;
    let verbs = Verbs::load(&choice).map_err(fail)?;
    let cm = Cm::load(verbs).map_err(fail)?;
    let uid = choice::uid();
    let nobody = Id { nid: 0, pid: 0 };
    let (mut in_use, mut failed) = (false, None);
    for address in choice::addresses(named.text("iface_name")) {
        let at = SocketAddr::new(IpAddr::V4(address), port);
        let crossover = match Crossover::at(cm, at.ip(), &values) {
            Ok(crossover) => crossover,
            Err(error) => {
                failed = Some(error);
                continue;
            }
        };
        let mut users = Local {
            process: Process::new(nobody, uid, Program::default()),
            aborted: false,
        };
        let Crossover { put, get } = crossover;
        users.process.short = Short { put, get };
        match Node::listen(cm, at, settings_of(crossover.message_bytes(), uid), users) {
            Ok(node) => return serve(node, &values),
            Err(Error::Verbs(error))
                if error.kind() == ErrorKind::Busy || error.errno() == libc::EADDRINUSE =>
            {
                in_use = true;
            }
            Err(error) => failed = Some(error),
        }
    }
    match (in_use, failed) {
        (true, _) => Err(PtlError::PidInUse),
        (false, Some(error)) => Err(fail(error)),
        (false, None) => Err(fail("no address of this host belongs to an adapter")),
    }
}

/// Says why PtlNIInit fails, which PTL_FAIL does not tell.
fn fail(why: impl Display) -> PtlError {
    let line = format!("ferriband Portals: PtlNIInit: {why}\n");
    // at once, because other processes write there, too; where nobody listens, nothing is lost
    let _ = std::io::stderr().write_all(line.as_bytes());
    PtlError::Fail
}

/// How connections are made whose messages have up to so many bytes.
fn settings_of(message_bytes: u32, uid: u32) -> Settings {
    Settings {
        config: Config {
            message_bytes,
            receives: RECEIVES,
            requests: REQUESTS,
        },
        message_bytes,
        uid,
    }
}

/// How the program's memory is registered, as it is set.
fn way(values: &Values) -> Way {
    match values.text("regcache") {
        "odp" => Way::OnDemand,
        "uffd" => Way::Cache,
        "none" => Way::Each,
        _ => Way::Auto,
    }
}

fn serve(mut node: Node<Local>, values: &Values) -> Result<Server<Local>, PtlError> {
    node.trace(values).map_err(fail)?;
    node.users.process.id = id_of(node.address()).ok_or(PtlError::Fail)?;
    let pd = node.own_domain().map_err(fail)?;
    let limits = pd.context().limits().map_err(fail)?;
    let memory = &mut node.users.process.memory;
    memory.reach_by(&pd, &limits, way(values)).map_err(fail)?;
    Server::begin(node).map_err(|_| PtlError::NoSpace)
}

/// PtlNIFini. The last one of the last interface waits for what is under way, and leaves.
///
/// # Errors
/// PTL_ARG_INVALID for what is no interface.
pub fn ni_fini(ni: Handle) -> Result<(), PtlError> {
    let server = server()?;
    let (is_last, closes) = with_server(&server, ni, |node, place| {
        let state = node.users.process.ni(ni)?;
        state.opened -= 1;
        let is_over = state.opened == 0;
        let others = node
            .users
            .process
            .interfaces
            .iter()
            .flatten()
            .any(|ni| ni.opened > 0);
        if is_over && others {
            node.users.process.interfaces[place] = None;
        }
        Ok((is_over && !others, is_over && others))
    })?;
    if closes {
        // peers are told by the interface's absence; the memory is the program's again afterwards
        let recall = Recall::Interface(ni.interface());
        let is_back = |node: &mut Node<Local>| node.users.process.is_back(recall).then_some(());
        server.wait(None, is_back).map_err(|_| PtlError::Fail)?;
    }
    if is_last {
        open().server = None;
        leave(&server);
    }
    Ok(())
}

/// Waits until peers have what was sent, then ends all connections.
fn leave(server: &Arc<Server<Local>>) {
    let end = wake::now() + LEAVE;
    // one that is never taken is given up
    let _ = server.wait(Some(end), |node| {
        (node.users.process.rests() && node.is_drained()).then_some(())
    });
    linger(server, end);
    server.with(|node| {
        node.leave_all();
        node.users.process.interfaces = [const { None }; 4];
    });
}

/// Serves peers that come late: they cannot know that this process leaves. Ends when nobody is
/// about to connect, nobody has connected a moment ago, and nobody has asked for anything for a
/// time.
fn linger(server: &Arc<Server<Local>>, end: Duration) {
    let late = wake::now() + LATE;
    let mut until = late;
    let seen = |node: &Node<Local>| (node.users.process.asked, node.users.process.met());
    let mut met = server.with(|node| node.users.process.met());
    let mut known = None;
    let mut first = Duration::ZERO;
    while wake::now() < end {
        let news = server.wait(Some(until.min(end)), |node| {
            let seen = seen(node);
            (Some(seen) != known).then_some(seen)
        });
        let now = wake::now();
        until = match news {
            Ok(Waited::Done(seen)) => {
                known = Some(seen);
                if seen.1 > met {
                    (met, first) = (seen.1, now + FIRST);
                }
                first.max(now + QUIET)
            }
            Ok(Waited::TimedOut) => {
                let look = |node: &mut Node<Local>| {
                    let is_meeting = node.is_meeting() || Some(seen(node)) != known;
                    (is_meeting, node.users.process.is_met())
                };
                match server.with(look) {
                    (true, _) => now + QUIET,
                    (false, false) if now < late => late,
                    _ => return,
                }
            }
            Err(_) => return,
        };
    }
}

fn server() -> Result<Arc<Server<Local>>, PtlError> {
    let open = open();
    match (&open.server, open.initialised) {
        (_, 0) => Err(PtlError::NoInit),
        (Some(server), _) => Ok(Arc::clone(server)),
        (None, _) => Err(PtlError::ArgInvalid),
    }
}

fn with_server<R>(
    server: &Server<Local>,
    handle: Handle,
    call: impl FnOnce(&mut Node<Local>, usize) -> Result<R, PtlError>,
) -> Result<R, PtlError> {
    server.with(|node| {
        node.users.process.ni(handle)?;
        call(node, usize::from(handle.interface()))
    })
}

/// Calls with the interface that an object is of. What the call has caused to begin begins.
///
/// # Errors
/// PTL_NO_INIT, PTL_ARG_INVALID for a handle of no open interface; those of the call.
pub fn with<R>(
    handle: Handle,
    call: impl FnOnce(&mut Interface) -> Result<R, PtlError>,
) -> Result<R, PtlError> {
    with_server(&*server()?, handle, |node, _| {
        call(&mut node.users.process.ni(handle)?.interface)
    })
}

/// PtlPut, PtlGet, PtlAtomic, PtlFetchAtomic, PtlSwap, on a descriptor of an interface.
///
/// # Errors
/// Those of [`Interface::start`], but PTL_NO_SPACE, which no program expects: a call waits until
/// some of what is under way has ended. PTL_ARG_INVALID for a rank that the map does not have.
pub fn start(md: Handle, operation: Operation) -> Result<(), PtlError> {
    let begin = |node: &mut Node<Local>| {
        node.users.process.ni(md)?;
        process::begin(&mut Over(node), md.interface(), operation)
    };
    // a connection may have to be asked for: the thread hears of it
    let server = server()?;
    match server.with(begin) {
        Err(PtlError::NoSpace) => {}
        begun => return begun,
    }
    let begun = server.wait(None, |node| match begin(node) {
        Err(PtlError::NoSpace) if node.users.aborted => Some(Err(PtlError::Aborted)),
        Err(PtlError::NoSpace) => None,
        begun => Some(begun),
    });
    match begun.map_err(|_| PtlError::Fail)? {
        Waited::Done(begun) => begun,
        Waited::TimedOut => Err(PtlError::Fail),
    }
}

/// PtlSetMap.
///
/// # Errors
/// PTL_ARG_INVALID on a physical interface, and for a map without ranks.
pub fn set_map(ni: Handle, map: Vec<Id>) -> Result<(), PtlError> {
    with_server(&*server()?, ni, |node, _| {
        let own = node.users.process.id;
        let state = node.users.process.ni(ni)?;
        if !state.interface.kind().logical || map.is_empty() {
            return Err(PtlError::ArgInvalid);
        }
        let rank = map.iter().position(|id| *id == own);
        state.rank = rank.map_or(u32::MAX, |rank| rank as u32);
        state.map = map;
        Ok(())
    })
}

/// PtlGetMap.
///
/// # Errors
/// PTL_ARG_INVALID on a physical interface.
pub fn map(ni: Handle) -> Result<Vec<Id>, PtlError> {
    with_server(&*server()?, ni, |node, _| {
        let state = node.users.process.ni(ni)?;
        match state.interface.kind().logical {
            true => Ok(state.map.clone()),
            false => Err(PtlError::ArgInvalid),
        }
    })
}

/// PtlGetPhysId and, with the rank of a logical interface, PtlGetId; PtlGetUid.
///
/// # Errors
/// PTL_ARG_INVALID for a handle of no open interface.
pub fn identity(ni: Handle) -> Result<(Id, Option<u32>, u32), PtlError> {
    with_server(&*server()?, ni, |node, _| {
        let (id, uid) = (node.users.process.id, node.users.process.uid);
        let state = node.users.process.ni(ni)?;
        let rank = state.interface.kind().logical.then_some(state.rank);
        Ok((id, rank, uid))
    })
}

/// Waits until `found` finds something. Where `ends` is true, PtlAbort ends it, also before it has
/// begun.
fn wait<R>(
    handle: Handle,
    end: Option<Duration>,
    ends: bool,
    mut found: impl FnMut(&mut Interface) -> Result<Option<R>, PtlError>,
) -> Result<Option<R>, PtlError> {
    let waited = server()?.wait(end, |node| {
        if ends && node.users.aborted {
            return Some(Err(PtlError::Aborted));
        }
        let found = match node.users.process.ni(handle) {
            Ok(ni) => found(&mut ni.interface),
            Err(error) => Err(error),
        };
        match found {
            Ok(None) => None,
            Ok(Some(found)) => Some(Ok(found)),
            Err(error) => Some(Err(error)),
        }
    });
    match waited.map_err(|_| PtlError::Fail)? {
        Waited::Done(found) => found.map(Some),
        Waited::TimedOut => Ok(None),
    }
}

/// Looks once. A program that asks again and again is served by that.
fn look<R>(
    handle: Handle,
    found: impl FnMut(&mut Interface) -> Result<Option<R>, PtlError>,
) -> Result<Option<R>, PtlError> {
    wait(handle, Some(Duration::ZERO), false, found)
}

/// PtlCTGet.
///
/// # Errors
/// PTL_ARG_INVALID for a stale counter.
pub fn ct_get(ct: Handle) -> Result<CtEvent, PtlError> {
    let value = look(ct, |interface| interface.ct_get(ct).map(Some))?;
    value.ok_or(PtlError::Fail)
}

/// PtlCTWait: what the counter said when it reached the test.
///
/// # Errors
/// PTL_ARG_INVALID for a stale counter; PTL_ABORTED.
pub fn ct_wait(ct: Handle, test: u64) -> Result<CtEvent, PtlError> {
    let reached = reached(&[(ct, test)], &mut [NOT_WATCHED], None)?;
    reached.map(|(_, value)| value).ok_or(PtlError::Fail)
}

/// PtlCTPoll: which counter, and what it said when it reached its test. A time of None is for ever.
///
/// # Errors
/// PTL_CT_NONE_REACHED when the time is over; those of [`ct_wait`].
pub fn ct_poll(
    tests: &[(Handle, u64)],
    time: Option<Duration>,
) -> Result<(usize, CtEvent), PtlError> {
    let end = time.map(|time| wake::now() + time);
    let reached = reached(tests, &mut vec![NOT_WATCHED; tests.len()], end)?;
    reached.ok_or(PtlError::CtNoneReached)
}

/// Waits until a counter reaches its test.
fn reached(
    tests: &[(Handle, u64)],
    watches: &mut [u64],
    end: Option<Duration>,
) -> Result<Option<(usize, CtEvent)>, PtlError> {
    let (first, _) = *tests.first().ok_or(PtlError::ArgInvalid)?;
    let waited = wait(first, end, true, |interface| {
        let reached = interface.ct_poll(tests, watches);
        if reached != Ok(None) {
            interface.ct_unwatch(tests, watches);
        }
        reached
    });
    if !matches!(waited, Ok(Some(_))) {
        // an interface that is gone watches nothing
        let _ = with(first, |interface| {
            interface.ct_unwatch(tests, watches);
            Ok(())
        });
    }
    waited
}

/// PtlEQGet.
///
/// # Errors
/// PTL_EQ_EMPTY, PTL_ARG_INVALID for a stale queue.
pub fn eq_get(eq: Handle) -> Result<Taken, PtlError> {
    let taken = look(eq, |interface| match interface.eq_get(eq) {
        Ok(taken) => Ok(Some(taken)),
        Err(PtlError::EqEmpty) => Ok(None),
        Err(error) => Err(error),
    })?;
    taken.ok_or(PtlError::EqEmpty)
}

/// PtlEQWait, PtlEQPoll: which queue, and its event. A time of None is for ever.
///
/// # Errors
/// PTL_EQ_EMPTY when the time is over, PTL_ARG_INVALID for a stale queue, PTL_ABORTED.
pub fn eq_poll(eqs: &[Handle], time: Option<Duration>) -> Result<(usize, Taken), PtlError> {
    let first = *eqs.first().ok_or(PtlError::ArgInvalid)?;
    let end = time.map(|time| wake::now() + time);
    let taken = wait(first, end, true, |interface| match interface.eq_poll(eqs) {
        Ok(taken) => Ok(Some(taken)),
        Err(PtlError::EqEmpty) => Ok(None),
        Err(error) => Err(error),
    })?;
    taken.ok_or(PtlError::EqEmpty)
}

/// PtlLEUnlink, which calls the entry back from peers that reach it themselves, and waits a moment
/// for that.
///
/// # Errors
/// Those of [`Interface::entry_unlink`]; PTL_IN_USE also where a peer does not answer.
pub fn le_unlink(le: Handle) -> Result<(), PtlError> {
    let server = server()?;
    let recall = Recall::Entry(le);
    let end = wake::now() + MOMENT;
    with_server(&server, le, |node, _| {
        process::recall(&mut Over(node), recall);
        Ok(())
    })?;
    let unlinked = server.wait(Some(end), |node| {
        let process = &mut node.users.process;
        let is_back = process.is_back(recall);
        is_back.then(|| process.ni(le)?.interface.entry_unlink(le))
    });
    server.with(|node| node.users.process.recalled(recall));
    match unlinked.map_err(|_| PtlError::Fail)? {
        Waited::Done(unlinked) => unlinked,
        Waited::TimedOut => Err(PtlError::InUse),
    }
}

/// PtlPTDisable: returns when nothing of the table entry is under way, and no peer reaches entries
/// of it itself.
///
/// # Errors
/// PTL_ARG_INVALID for a table entry that is not allocated.
pub fn pt_disable(ni: Handle, index: u32) -> Result<(), PtlError> {
    let recall = Recall::Table(ni.interface(), index);
    // what is lent of it is called back, since it is on other terms
    with(ni, |interface| interface.pt_disable(index))?;
    let disabled = server()?.wait(None, |node| {
        let process = &mut node.users.process;
        let is_back = process.is_back(recall);
        let quiet = process
            .ni(ni)
            .and_then(|ni| ni.interface.pt_is_quiet(index));
        match quiet {
            Ok(quiet) => (quiet && is_back).then_some(Ok(())),
            Err(error) => Some(Err(error)),
        }
    });
    match disabled.map_err(|_| PtlError::Fail)? {
        Waited::Done(disabled) => disabled,
        Waited::TimedOut => Err(PtlError::Fail),
    }
}

/// PtlMDBind.
///
/// # Errors
/// Those of [`Interface::md_bind`].
pub fn md_bind(ni: Handle, init: &MdInit) -> Result<Handle, PtlError> {
    with_server(&*server()?, ni, |node, _| {
        let bound = node.users.process.ni(ni)?.interface.md_bind(init)?;
        let process = &mut node.users.process;
        if !process.memory.holds(init.region.pieces().as_slice()) {
            process.ni(ni)?.interface.md_may_fault(bound);
        }
        Ok(bound)
    })
}

/// PtlMDRelease, which waits a moment for what is about to end.
///
/// # Errors
/// PTL_IN_USE where an operation stays under way, PTL_ARG_INVALID for a stale handle.
pub fn md_release(md: Handle) -> Result<(), PtlError> {
    let end = wake::now() + MOMENT;
    let released = wait(md, Some(end), false, |interface| {
        match interface.md_release(md) {
            Err(PtlError::InUse) => Ok(None),
            Err(error) => Err(error),
            Ok(()) => Ok(Some(())),
        }
    })?;
    released.ok_or(PtlError::InUse)
}
