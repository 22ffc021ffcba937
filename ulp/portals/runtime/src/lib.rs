//! The Portals 4 interfaces of a process, over the connections of `ferriband-putget-verbs`.
//!
//! Owns: which interfaces are open, where the process listens, how long a call waits ([`with`] and
//! its kin); how operations travel. Must not know: C types, which are `ulp/portals/abi`'s.
//!
//! All four interfaces of a process share its listener, one connection to each peer and one
//! progress.

#![warn(missing_docs)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod address;
mod arithmetic;
mod choice;
mod memory;
mod moving;
mod process;

use ferriband_host::wake;
use ferriband_ibv::{Choice, Cm, ErrorKind, Verbs};
use ferriband_portals_proto::{
    CtEvent, Features, Handle, Interface, Limits, NiKind, Operation, Process as Id, PtlError, Taken,
};
use ferriband_putget_proto::Config;
use ferriband_putget_verbs::{Error, Node, Server, Settings, Waited};
use process::{Ni, Process, id_of};
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Bytes of a protocol message, header and address included.
const MESSAGE_BYTES: u32 = 2048;
/// Receives that are posted for each peer.
const RECEIVES: u16 = 16;
/// Requests of a peer that are answered at a time.
const REQUESTS: u16 = 64;
/// The most bytes of an atomic operation, and of a volatile put: they go short.
const ATOMIC_BYTES: u64 = 512;
/// The longest message.
const LONGEST: u64 = 1 << 32;
/// How long the last PtlNIFini waits for what is under way.
const LEAVE: Duration = Duration::from_secs(5);
/// PTL_PID_ANY.
const PID_ANY: u32 = 0xffff;

/// What an interface offers.
pub fn offered() -> Limits {
    Limits {
        max_msg_size: LONGEST,
        max_atomic_size: ATOMIC_BYTES,
        max_fetch_atomic_size: ATOMIC_BYTES,
        max_waw_ordered_size: moving::ORDERED_BYTES,
        max_war_ordered_size: moving::ORDERED_BYTES,
        max_volatile_size: ATOMIC_BYTES,
        features: Features::empty(),
        ..Limits::default()
    }
}

/// The Portals of this process.
struct Open {
    /// PtlInit less PtlFini.
    initialised: u32,
    server: Option<Arc<Server<Process>>>,
}

static OPEN: Mutex<Open> = Mutex::new(Open {
    initialised: 0,
    server: None,
});

fn open() -> MutexGuard<'static, Open> {
    OPEN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// PtlInit.
pub fn init() {
    open().initialised += 1;
}

/// PtlFini. The last one ends what PtlNIFini has not ended.
pub fn fini() {
    let mut open = open();
    open.initialised = open.initialised.saturating_sub(1);
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
        let users = &mut node.users;
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
fn listen(pid: u32) -> Result<Server<Process>, PtlError> {
    let port = match pid {
        PID_ANY => 0,
        pid => u16::try_from(pid).map_err(|_| PtlError::ArgInvalid)?,
    };
    let choice = Choice::from_env().map_err(|_| PtlError::Fail)?;
    let verbs = Verbs::load(&choice).map_err(|_| PtlError::Fail)?;
    let cm = Cm::load(verbs).map_err(|_| PtlError::Fail)?;
    let uid = choice::uid();
    let settings = Settings {
        config: Config {
            message_bytes: MESSAGE_BYTES,
            receives: RECEIVES,
            requests: REQUESTS,
        },
        message_bytes: MESSAGE_BYTES,
        uid,
    };
    let nobody = Id { nid: 0, pid: 0 };
    let mut failed = PtlError::Fail;
    for address in choice::addresses() {
        let at = SocketAddr::new(IpAddr::V4(address), port);
        match Node::listen(cm, at, settings, Process::new(nobody, uid)) {
            Ok(node) => return serve(node),
            Err(Error::Verbs(error)) if error.kind() == ErrorKind::Busy => {
                failed = PtlError::PidInUse;
            }
            Err(Error::Verbs(error)) if error.errno() == libc::EADDRINUSE => {
                failed = PtlError::PidInUse;
            }
            Err(_) => {}
        }
    }
    Err(failed)
}

fn serve(mut node: Node<Process>) -> Result<Server<Process>, PtlError> {
    node.users.id = id_of(node.address()).ok_or(PtlError::Fail)?;
    let pd = node.own_domain().map_err(|_| PtlError::Fail)?;
    node.users.register_all(&pd).map_err(|_| PtlError::Fail)?;
    Server::begin(node).map_err(|_| PtlError::NoSpace)
}

/// PtlNIFini. The last one of the last interface waits for what is under way, and leaves.
///
/// # Errors
/// PTL_ARG_INVALID for what is no interface.
pub fn ni_fini(ni: Handle) -> Result<(), PtlError> {
    let server = server()?;
    let is_last = with_server(&server, ni, |node, place| {
        let state = node.users.ni(ni)?;
        state.opened -= 1;
        let is_over = state.opened == 0;
        let others = node
            .users
            .interfaces
            .iter()
            .flatten()
            .any(|ni| ni.opened > 0);
        if is_over && others {
            node.users.interfaces[place] = None;
        }
        Ok(is_over && !others)
    })?;
    if is_last {
        open().server = None;
        leave(&server);
    }
    Ok(())
}

/// Waits until peers have what was sent, then ends all connections.
fn leave(server: &Arc<Server<Process>>) {
    let end = wake::now() + LEAVE;
    // one that is never taken is given up
    let _ = server.wait(Some(end), |node| {
        let users = &node.users;
        let rests = users.moving.is_empty() && users.waiting.is_empty() && users.own.is_empty();
        (rests && node.is_drained()).then_some(())
    });
    server.with(|node| {
        node.leave_all();
        node.users.interfaces = [const { None }; 4];
    });
}

fn server() -> Result<Arc<Server<Process>>, PtlError> {
    let open = open();
    match (&open.server, open.initialised) {
        (_, 0) => Err(PtlError::NoInit),
        (Some(server), _) => Ok(Arc::clone(server)),
        (None, _) => Err(PtlError::ArgInvalid),
    }
}

fn with_server<R>(
    server: &Server<Process>,
    handle: Handle,
    call: impl FnOnce(&mut Node<Process>, usize) -> Result<R, PtlError>,
) -> Result<R, PtlError> {
    server.with(|node| {
        node.users.ni(handle)?;
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
        call(&mut node.users.ni(handle)?.interface)
    })
}

/// PtlPut, PtlGet, PtlAtomic, PtlFetchAtomic, PtlSwap, on a descriptor of an interface.
///
/// # Errors
/// Those of [`Interface::start`]; PTL_ARG_INVALID for a rank that the map does not have.
pub fn start(md: Handle, operation: Operation) -> Result<(), PtlError> {
    // a connection may have to be asked for: the thread hears of it
    let server = server()?;
    server.with(|node| {
        node.users.ni(md)?;
        moving::begin(node, md.interface(), operation)
    })
}

/// PtlSetMap.
///
/// # Errors
/// PTL_ARG_INVALID on a physical interface, and for a map without ranks.
pub fn set_map(ni: Handle, map: Vec<Id>) -> Result<(), PtlError> {
    with_server(&*server()?, ni, |node, _| {
        let own = node.users.id;
        let state = node.users.ni(ni)?;
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
        let state = node.users.ni(ni)?;
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
        let (id, uid) = (node.users.id, node.users.uid);
        let state = node.users.ni(ni)?;
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
        let found = match node.users.ni(handle) {
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

/// PtlCTWait.
///
/// # Errors
/// PTL_ARG_INVALID for a stale counter; PTL_ABORTED.
pub fn ct_wait(ct: Handle, test: u64) -> Result<CtEvent, PtlError> {
    let reached = wait(ct, None, true, |interface| interface.ct_test(ct, test))?;
    reached.ok_or(PtlError::Fail)
}

/// PtlCTPoll: which counter, and what it says. A time of None is for ever.
///
/// # Errors
/// PTL_CT_NONE_REACHED when the time is over; those of [`ct_wait`].
pub fn ct_poll(
    tests: &[(Handle, u64)],
    time: Option<Duration>,
) -> Result<(usize, CtEvent), PtlError> {
    let (first, _) = *tests.first().ok_or(PtlError::ArgInvalid)?;
    let end = time.map(|time| wake::now() + time);
    let reached = wait(first, end, true, |interface| {
        match interface.ct_poll(tests) {
            Ok(reached) => Ok(Some(reached)),
            Err(PtlError::CtNoneReached) => Ok(None),
            Err(error) => Err(error),
        }
    })?;
    reached.ok_or(PtlError::CtNoneReached)
}

/// PtlEQGet.
///
/// # Errors
/// PTL_EQ_EMPTY, PTL_ARG_INVALID for a stale queue.
pub fn eq_get(eq: Handle) -> Result<Taken, PtlError> {
    let now = Some(Duration::ZERO);
    let taken = wait(eq, now, false, |interface| match interface.eq_get(eq) {
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

/// PtlPTDisable: returns when nothing of the table entry is under way.
///
/// # Errors
/// PTL_ARG_INVALID for a table entry that is not allocated.
pub fn pt_disable(ni: Handle, index: u32) -> Result<(), PtlError> {
    with(ni, |interface| interface.pt_disable(index))?;
    wait(ni, None, false, |interface| {
        let quiet = interface.pt_is_quiet(index)?;
        Ok(quiet.then_some(()))
    })?;
    Ok(())
}

/// PtlMDRelease, which waits a moment for what is about to end.
///
/// # Errors
/// PTL_IN_USE where an operation stays under way, PTL_ARG_INVALID for a stale handle.
pub fn md_release(md: Handle) -> Result<(), PtlError> {
    let end = wake::now() + Duration::from_millis(100);
    let released = wait(md, Some(end), false, |interface| {
        match interface.md_release(md) {
            Err(PtlError::InUse) => Ok(None),
            Err(error) => Err(error),
            Ok(()) => Ok(Some(())),
        }
    })?;
    released.ok_or(PtlError::InUse)
}
