//! `umad_open_port`, and what is done with an open one. A port's number is the descriptor of its socket to the fabric's process.

use crate::boundary::{entry, set_errno, waiting_entry};
use crate::layout::{ADDRESS, FLOW_LABEL, GID, GRH_PRESENT, HEAD, HOP_LIMIT, PKEY_INDEX, RegAttr};
use crate::list::{choose, given};
use crate::source::{errno_of, is_scarcity};
use ferriband_attach::ask::{Answer, Ask, Registration};
use ferriband_attach::mad::{HEAD_BYTES, MAD, MadHead};
use ferriband_attach::{HostName, Link, Piece, receive_piece_on, send_on, wait_on};
use ferriband_cancel::Sleep;
use ferriband_fork::Table;
use std::collections::BTreeMap;
use std::ffi::{c_char, c_int, c_long, c_void};
use std::os::fd::{BorrowedFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

const _: () = assert!(HEAD == HEAD_BYTES);

/// How long a packet waits for room on its way to the fabric's process.
const ROOM_PATIENCE: Duration = Duration::from_secs(30);
/// Classes of vendors that have an OUI.
const VENDORS: std::ops::RangeInclusive<c_int> = 0x30..=0x4f;
/// Longest message.
const MOST_BYTES: usize = 32 << 20;

/// An open port.
#[derive(Debug)]
struct Open {
    fabric: String,
    token: u64,
    /// Who sends, and who receives: a message's pieces stay together. The room is used again.
    sending: Mutex<Vec<u8>>,
    receiving: Mutex<Coming>,
}

/// What has come.
#[derive(Debug, Default)]
struct Coming {
    message: Vec<u8>,
    /// It is whole, and was too long for who asked.
    waits: bool,
}

/// A port by its descriptor: this process's, or in a forked child the parent's.
#[derive(Debug)]
enum Entry {
    Ours(Arc<Open>),
    Parents,
}

/// By descriptor.
static OPEN: Table<BTreeMap<RawFd, Entry>> = Table::new(BTreeMap::new());
static DEBUG: AtomicI32 = AtomicI32::new(0);

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn open_of(fd: c_int) -> Result<Arc<Open>, c_int> {
    match OPEN.lock().get(&fd) {
        Some(Entry::Ours(open)) => Ok(open.clone()),
        Some(Entry::Parents) => Err(libc::EIO),
        None => Err(libc::EBADF),
    }
}

extern "C" fn before_fork() {
    OPEN.hold();
}

extern "C" fn after_fork_in_parent() {
    OPEN.release(|_| {});
}

extern "C" fn after_fork_in_child() {
    OPEN.release(|open| {
        for entry in open.values_mut() {
            // A thread of the parent's may have been in the middle of it.
            if let Entry::Ours(open) = std::mem::replace(entry, Entry::Parents) {
                std::mem::forget(open);
            }
        }
    });
}

ferriband_fork::at_fork!(
    Some(before_fork),
    Some(after_fork_in_parent),
    Some(after_fork_in_child)
);

/// A descriptor of an open port, borrowed for one call: a program that closes it meanwhile has broken the interface, and gets another's errors.
fn borrow<'a>(fd: c_int) -> Result<BorrowedFd<'a>, c_int> {
    if fd < 0 {
        return Err(libc::EBADF);
    }
    // SAFETY: not -1; system calls check the rest.
    Ok(unsafe { BorrowedFd::borrow_raw(fd) })
}

/// `umad_open_port`.
///
/// # Safety
/// `ca_name` is NULL or a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umad_open_port(ca_name: *const c_char, portnum: c_int) -> c_int {
    entry(|| {
        // SAFETY: the caller's promise.
        let (_, port) = choose(unsafe { given(ca_name) }, portnum)?;
        // a device without a fabric: there is nothing that management packets could go through
        let host = HostName::of_environment().ok_or(libc::EOPNOTSUPP)?;
        let link = Link::dial(&host.fabric).map_err(|error| errno_of(&error))?;
        let ask = Ask::OpenMads {
            host: host.host,
            port,
        };
        let Answer::Opened { token } = link.ask(&ask).map_err(|error| errno_of(&error))? else {
            return Err(libc::EIO);
        };
        let fd = OwnedFd::from(link).into_raw_fd();
        let open = Open {
            fabric: host.fabric,
            token,
            sending: Mutex::default(),
            receiving: Mutex::default(),
        };
        let before = OPEN.lock().insert(fd, Entry::Ours(Arc::new(open)));
        // of a program that closed the descriptor itself; what goes with it may take other locks
        drop(before);
        Ok(fd)
    })
}

/// `umad_open_smi_port`: a port for subnet management packets. Each port of an adapter takes them.
///
/// # Safety
/// `ca_name` is NULL or a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umad_open_smi_port(ca_name: *const c_char, portnum: c_int) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { umad_open_port(ca_name, portnum) }
}

/// `umad_close_port`.
#[unsafe(no_mangle)]
pub extern "C" fn umad_close_port(fd: c_int) -> c_int {
    let entry = OPEN.lock().remove(&fd);
    if entry.is_some() {
        // SAFETY: it is ours, or this child's copy of its parent's, and nobody finds it any more.
        drop(unsafe { OwnedFd::from_raw_fd(fd) });
    }
    0
}

/// `umad_get_fd`.
#[unsafe(no_mangle)]
pub extern "C" fn umad_get_fd(fd: c_int) -> c_int {
    fd
}

/// How the sleep for a packet ended: 0 if there may be one, -EIO if poll(2) failed, and errno says
/// why; None before the first sleep, which is for it.
///
/// ETIMEDOUT.
fn wait(sleep: &mut Sleep, fd: c_int, timeout_ms: c_int) -> Result<Option<c_int>, c_int> {
    match sleep.take_ready() {
        Err(error) => {
            set_errno(error);
            Ok(Some(-libc::EIO))
        }
        Ok(ready) => match ready.first() {
            Some(packets) if packets.revents != 0 => Ok(Some(0)),
            Some(_) => Err(libc::ETIMEDOUT),
            None => {
                sleep_for_packets(sleep, fd, timeout_ms);
                Ok(None)
            }
        },
    }
}

/// A negative time-out is none.
fn sleep_for_packets(sleep: &mut Sleep, fd: c_int, timeout_ms: c_int) {
    let timeout = u64::try_from(timeout_ms).ok().map(Duration::from_millis);
    sleep.on(fd, libc::POLLIN);
    if let Some(until) = sleep.deadline(timeout) {
        sleep.until(until);
    }
}

/// True if a packet is here that was too long for who asked.
fn has_waiting(fd: c_int) -> bool {
    open_of(fd).is_ok_and(|open| lock(&open.receiving).waits)
}

/// `umad_poll`: 0 when something is there.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn umad_poll(fd: c_int, timeout_ms: c_int) -> c_int {
    waiting_entry(|sleep| match has_waiting(fd) {
        true => Ok(Some(0)),
        false => wait(sleep, fd, timeout_ms),
    })
}

/// `umad_send`: 0 when the packet is on its way.
///
/// # Safety
/// `umad` points to a head and `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umad_send(
    fd: c_int,
    agent: c_int,
    umad: *mut c_void,
    length: c_int,
    timeout_ms: c_int,
    retries: c_int,
) -> c_int {
    entry(|| {
        let open = open_of(fd)?;
        let length = usize::try_from(length).map_err(|_| libc::EINVAL)?;
        if umad.is_null() || length > MOST_BYTES {
            return Err(libc::EINVAL);
        }
        // SAFETY: the caller's promise; the head's first four words are to be written.
        let own = unsafe { std::slice::from_raw_parts_mut(umad.cast::<u8>(), HEAD + length) };
        own[0..4].copy_from_slice(&agent.to_ne_bytes());
        own[8..12].copy_from_slice(&timeout_ms.to_ne_bytes());
        own[12..16].copy_from_slice(&retries.to_ne_bytes());
        let mut message = lock(&open.sending);
        message.clear();
        message.push(MAD);
        message.extend_from_slice(own);
        let until = Instant::now() + ROOM_PATIENCE;
        match send_on(borrow(fd)?, &message, Some(until)) {
            Ok(()) => Ok(0),
            Err(_) => Err(libc::EIO),
        }
    })
}

/// `umad_recv`: the agent that a packet is for. `length` is the room behind the head, and then the packet's bytes; for a packet that is longer the head alone is
/// written, its bytes to `length`, and the packet waits.
///
/// # Safety
/// `umad` is NULL or points to a head and `*length` bytes that are writable.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn umad_recv(
    fd: c_int,
    umad: *mut c_void,
    length: *mut c_int,
    timeout_ms: c_int,
) -> c_int {
    waiting_entry(|sleep| {
        // SAFETY: the caller's promise.
        let taken = unsafe { take_packet(fd, umad, length) };
        if taken != Err(libc::EWOULDBLOCK) || timeout_ms == 0 {
            return taken.map(Some);
        }
        let waited = wait(sleep, fd, timeout_ms)?;
        if waited == Some(0) {
            // another thread has taken what this one has slept for
            sleep_for_packets(sleep, fd, timeout_ms);
            return Ok(None);
        }
        Ok(waited)
    })
}

/// What [`umad_recv`] does if something is there.
///
/// EWOULDBLOCK.
///
/// # Safety
/// As there.
unsafe fn take_packet(fd: c_int, umad: *mut c_void, length: *mut c_int) -> Result<c_int, c_int> {
    // SAFETY: the caller's promise.
    let length = unsafe { length.as_mut() }.ok_or(libc::EINVAL)?;
    let room = usize::try_from(*length).map_err(|_| libc::EINVAL)?;
    if umad.is_null() {
        return Err(libc::EINVAL);
    }
    let open = open_of(fd)?;
    let mut coming = lock(&open.receiving);
    let Coming { message, waits } = &mut *coming;
    if !std::mem::take(waits) {
        take_whole(fd, message)?;
    }
    let head = message.get(1..).ok_or(libc::EIO)?;
    let said = MadHead::parse(head).map_err(|_| libc::EIO)?;
    let bytes = (said.length as usize).saturating_sub(HEAD);
    // SAFETY: the caller's promise.
    let own = unsafe { std::slice::from_raw_parts_mut(umad.cast::<u8>(), HEAD + room) };
    if bytes > room {
        own[..HEAD].copy_from_slice(&head[..HEAD]);
        *length = bytes as c_int;
        *waits = true;
        return Err(libc::ENOSPC);
    }
    let rest = message.get(1..).ok_or(libc::EIO)?;
    let whole = rest.len().min(HEAD + room);
    own[..whole].copy_from_slice(&rest[..whole]);
    *length = whole.saturating_sub(HEAD) as c_int;
    Ok(said.agent as c_int)
}

/// The next message, whole.
fn take_whole(fd: c_int, message: &mut Vec<u8>) -> Result<(), c_int> {
    message.clear();
    loop {
        let piece = receive_piece_on(borrow(fd)?, message);
        match piece.map_err(|error| errno_of(&error))? {
            Piece::Last => return Ok(()),
            Piece::Nothing if message.is_empty() => return Err(libc::EWOULDBLOCK),
            Piece::More => {}
            // the rest of what has begun is on its way
            Piece::Nothing => {
                wait_on(borrow(fd)?, None).map_err(|_| libc::EIO)?;
            }
        }
    }
}

/// Asks the fabric's process, by a connection of its own: on the port's own come packets.
fn ask(open: &Open, ask: &Ask) -> Result<Answer, c_int> {
    let link = Link::dial(&open.fabric).map_err(|error| errno_of(&error))?;
    let answer = link.ask_plainly(ask);
    match answer.map_err(|error| errno_of(&error))? {
        Answer::Refused { errno, .. } => Err(errno),
        answer => Ok(answer),
    }
}

fn register(fd: c_int, agent: Registration) -> Result<u32, c_int> {
    let open = open_of(fd)?;
    let token = open.token;
    match ask(&open, &Ask::Register { token, agent })? {
        Answer::Registered { agent } => Ok(agent),
        _ => Err(libc::EIO),
    }
}

/// A mask of methods; NULL for none.
///
/// # Safety
/// `mask` is NULL or points to 128 bits.
unsafe fn methods(mask: *const c_long) -> [u64; 2] {
    if mask.is_null() {
        return [0; 2];
    }
    // SAFETY: the caller's promise: 16 bytes.
    unsafe { mask.cast::<[u64; 2]>().read_unaligned() }
}

/// `umad_register`: the number of the agent.
///
/// # Safety
/// `method_mask` is NULL or points to 128 bits.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umad_register(
    fd: c_int,
    mgmt_class: c_int,
    mgmt_version: c_int,
    rmpp_version: u8,
    method_mask: *mut c_long,
) -> c_int {
    entry(|| {
        let agent = Registration {
            class: mgmt_class as u8,
            version: mgmt_version as u8,
            oui: if VENDORS.contains(&mgmt_class) {
                OPENIB_OUI
            } else {
                0
            },
            // SAFETY: the caller's promise.
            methods: unsafe { methods(method_mask) },
            rmpp: rmpp_version != 0,
        };
        register(fd, agent)
            .map(|agent| agent as c_int)
            .map_err(refusal)
    })
}

/// What `umad_register` says of a refusal: EPERM, but for what the system refuses this process.
fn refusal(errno: c_int) -> c_int {
    match errno {
        libc::EIO | libc::EBADF => errno,
        errno if is_scarcity(errno) => errno,
        _ => libc::EPERM,
    }
}

/// Of OpenIB: what `umad_register` takes for classes that need one.
const OPENIB_OUI: u32 = 0x00_1405;

/// `umad_register_oui`.
///
/// # Safety
/// `oui` points to three bytes, `method_mask` is NULL or points to 128 bits.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umad_register_oui(
    fd: c_int,
    mgmt_class: c_int,
    rmpp_version: u8,
    oui: *const [u8; 3],
    method_mask: *mut c_long,
) -> c_int {
    entry(|| {
        if !VENDORS.contains(&mgmt_class) || oui.is_null() {
            return Err(libc::EINVAL);
        }
        // SAFETY: the caller's promise.
        let [a, b, c] = unsafe { oui.read() };
        let agent = Registration {
            class: mgmt_class as u8,
            version: 1,
            oui: u32::from_be_bytes([0, a, b, c]),
            // SAFETY: the caller's promise.
            methods: unsafe { methods(method_mask) },
            rmpp: rmpp_version != 0,
        };
        register(fd, agent)
            .map(|agent| agent as c_int)
            .map_err(refusal)
    })
}

/// `umad_register2`: 0, or an errno that is not negative.
///
/// # Safety
/// `attr` and `agent_id` are NULL or point to one each.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umad_register2(
    fd: c_int,
    attr: *mut RegAttr,
    agent_id: *mut u32,
) -> c_int {
    -entry(|| {
        // SAFETY: the caller's promise.
        let (attr, agent_id) = unsafe { (attr.as_mut(), agent_id.as_mut()) };
        let (attr, agent_id) = attr.zip(agent_id).ok_or(libc::EINVAL)?;
        if attr.flags != 0 {
            // what is not known is cleared: the program asks again without it (umad_register2(3))
            attr.flags = 0;
            return Err(libc::EINVAL);
        }
        let agent = Registration {
            class: attr.mgmt_class,
            version: attr.mgmt_class_version,
            oui: attr.oui,
            methods: attr.method_mask,
            rmpp: attr.rmpp_version != 0,
        };
        *agent_id = register(fd, agent)?;
        Ok(0)
    })
}

/// `umad_unregister`.
#[unsafe(no_mangle)]
pub extern "C" fn umad_unregister(fd: c_int, agent: c_int) -> c_int {
    entry(|| {
        let open = open_of(fd)?;
        let (token, agent) = (open.token, agent as u32);
        ask(&open, &Ask::Unregister { token, agent }).map(|_| 0)
    })
}

/// `umad_size`.
#[unsafe(no_mangle)]
pub extern "C" fn umad_size() -> usize {
    HEAD
}

/// `umad_get_mad`.
///
/// # Safety
/// `umad` points to a head with a packet behind it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umad_get_mad(umad: *mut c_void) -> *mut c_void {
    // SAFETY: the caller's promise.
    unsafe { umad.byte_add(HEAD) }
}

/// `umad_get_mad_addr`.
///
/// # Safety
/// `umad` points to a head.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umad_get_mad_addr(umad: *mut c_void) -> *mut c_void {
    // SAFETY: the caller's promise.
    unsafe { umad.byte_add(ADDRESS) }
}

/// The head.
///
/// # Safety
/// `umad` points to one that nobody else writes now.
unsafe fn head<'a>(umad: *mut c_void) -> &'a mut [u8; HEAD] {
    // SAFETY: the caller's promise; bytes have no alignment.
    unsafe { &mut *umad.cast() }
}

/// `umad_status`.
///
/// # Safety
/// `umad` points to a head.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umad_status(umad: *mut c_void) -> c_int {
    // SAFETY: the caller's promise.
    let head = unsafe { head(umad) };
    c_int::from_ne_bytes([head[4], head[5], head[6], head[7]])
}

/// `umad_set_grh`: `addr` has the flow label in the machine's order; NULL for none.
///
/// # Safety
/// `umad` points to a head, `addr` is NULL or points to an address.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umad_set_grh(umad: *mut c_void, addr: *mut c_void) -> c_int {
    // SAFETY: the caller's promise.
    let own = &mut unsafe { head(umad) }[ADDRESS..];
    own[GRH_PRESENT] = u8::from(!addr.is_null());
    if !addr.is_null() {
        // SAFETY: the caller's promise; an address has 44 bytes.
        let given = unsafe { addr.cast::<[u8; HEAD - ADDRESS]>().read_unaligned() };
        own[HOP_LIMIT..HOP_LIMIT + 2].copy_from_slice(&given[HOP_LIMIT..HOP_LIMIT + 2]);
        own[GID..GID + 16].copy_from_slice(&given[GID..GID + 16]);
        let mut label: [u8; 4] = [0; 4];
        label.copy_from_slice(&given[FLOW_LABEL..FLOW_LABEL + 4]);
        let label = u32::from_ne_bytes(label).to_be_bytes();
        own[FLOW_LABEL..FLOW_LABEL + 4].copy_from_slice(&label);
    }
    0
}

/// `umad_set_pkey`.
///
/// # Safety
/// `umad` points to a head.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umad_set_pkey(umad: *mut c_void, index: c_int) -> c_int {
    // SAFETY: the caller's promise.
    let own = &mut unsafe { head(umad) }[ADDRESS..];
    own[PKEY_INDEX..PKEY_INDEX + 2].copy_from_slice(&(index as u16).to_ne_bytes());
    0
}

/// `umad_get_pkey`.
///
/// # Safety
/// `umad` points to a head.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umad_get_pkey(umad: *mut c_void) -> c_int {
    // SAFETY: the caller's promise.
    let own = &unsafe { head(umad) }[ADDRESS..];
    u16::from_ne_bytes([own[PKEY_INDEX], own[PKEY_INDEX + 1]]).into()
}

/// `umad_set_addr`: all in the machine's order.
///
/// # Safety
/// `umad` points to a head.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umad_set_addr(
    umad: *mut c_void,
    dlid: c_int,
    dqp: c_int,
    sl: c_int,
    qkey: c_int,
) -> c_int {
    let (dlid, dqp, qkey) = ((dlid as u16).to_be(), (dqp as u32).to_be(), qkey as u32);
    // SAFETY: the caller's promise.
    unsafe { umad_set_addr_net(umad, dlid, dqp, sl, qkey.to_be()) }
}

/// `umad_set_addr_net`: all but the service level as on the wire.
///
/// # Safety
/// `umad` points to a head.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umad_set_addr_net(
    umad: *mut c_void,
    dlid: u16,
    dqp: u32,
    sl: c_int,
    qkey: u32,
) -> c_int {
    // SAFETY: the caller's promise.
    let own = &mut unsafe { head(umad) }[ADDRESS..];
    own[0..4].copy_from_slice(&dqp.to_ne_bytes());
    own[4..8].copy_from_slice(&qkey.to_ne_bytes());
    own[8..10].copy_from_slice(&dlid.to_ne_bytes());
    own[10] = sl as u8;
    0
}

/// `umad_debug`: sets the level, unless it is negative; the level.
#[unsafe(no_mangle)]
pub extern "C" fn umad_debug(level: c_int) -> c_int {
    if level >= 0 {
        DEBUG.store(level, Ordering::Relaxed);
    }
    DEBUG.load(Ordering::Relaxed)
}

/// `umad_addr_dump`: writes an address to standard error.
///
/// # Safety
/// `addr` points to an address.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umad_addr_dump(addr: *mut c_void) {
    // SAFETY: the caller's promise; an address has 44 bytes.
    let bytes = unsafe { addr.cast::<[u8; HEAD - ADDRESS]>().read_unaligned() };
    let mut whole = [0; HEAD];
    whole[ADDRESS..].copy_from_slice(&bytes);
    if let Ok(head) = MadHead::parse(&whole) {
        ferriband_fork::tell(format_args!(
            "umad address: qpn {} qkey {:#x} lid {} sl {} pkey_index {} grh_present {}",
            head.qpn.0, head.qkey.0, head.lid.0, head.sl.0, head.pkey_index, bytes[GRH_PRESENT]
        ));
    }
}

/// `umad_dump`: writes a head to standard error.
///
/// # Safety
/// `umad` points to a head.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umad_dump(umad: *mut c_void) {
    // SAFETY: the caller's promise.
    if let Ok(said) = MadHead::parse(unsafe { head(umad) }) {
        ferriband_fork::tell(format_args!(
            "umad: agent {} status {:#x} timeout {} ms",
            said.agent, said.status, said.timeout_ms
        ));
    }
    // SAFETY: as above.
    unsafe { umad_addr_dump(umad_get_mad_addr(umad)) };
}
