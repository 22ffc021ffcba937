//! Events, and what the library does when one comes.
//!
//! | event | duty |
//! |---|---|
//! | ADDR_RESOLVED | the identifier's device, addresses and GIDs are filled in |
//! | ROUTE_RESOLVED | its path records are |
//! | CONNECT_REQUEST | a new identifier is made; a synchronous listener's are synchronous |
//! | CONNECT_RESPONSE | with a queue pair: it goes to RTS, the RTU is sent, and the event becomes ESTABLISHED; without: the program does it, by `rdma_establish` |
//! | REJECTED | the queue pair goes to the error state |
//! | MULTICAST_JOIN | the queue pair is attached to the group |
//! | USER | the program's own number is in it |

use crate::boundary::{Errno, check, entry, errno, status, waiting_status};
use crate::channel;
use crate::id::{self, Id, get, set};
use crate::multicast;
use crate::object::Object;
use crate::private::{call, functions};
use crate::qp::{AUTOMATIC_DEPTH, AUTOMATIC_RESOURCES};
use crate::sys::*;
use crate::{qp, resolve, verbs};
use ferriband_cancel::Sleep;
use ferriband_cm_abi::{FB_MAX_PRIVATE_DATA, fb_cm_event, fb_conn_param, fb_ece, fb_ud_param};
use ferriband_verbs_sys::ibv_ece;
use std::ffi::{c_char, c_int, c_void};
use std::mem::ManuallyDrop;
use std::os::fd::RawFd;

/// An event: the program reads the C structure, whose private data lie behind it.
type Event = Object<rdma_cm_event, EventOwn>;

struct EventOwn {
    private_data: [u8; FB_MAX_PRIVATE_DATA],
    /// Whose acknowledgement it is: for CONNECT_REQUEST the listener's.
    counts_for: *mut rdma_cm_id,
    /// The membership that it counts for instead.
    group: Option<u64>,
}

/// The descriptor that a thread reads a count from before it takes an event with [`counted`].
///
/// EIO after the device has failed.
///
/// # Safety
/// `channel` is a channel.
unsafe fn descriptor(channel: *mut rdma_event_channel) -> Result<RawFd, Errno> {
    // SAFETY: the caller's promise.
    let raw = unsafe { channel::raw(channel) }?;
    // SAFETY: the channel is open.
    match unsafe { (functions()?.channel_fd)(raw) } {
        -1 => Err(libc::EIO),
        fd => Ok(fd),
    }
}

/// Takes the event for a count that was read; None if there is none that the program is to see.
///
/// # Safety
/// `channel` is a channel.
unsafe fn counted(channel: *mut rdma_event_channel) -> Result<Option<*mut rdma_cm_event>, Errno> {
    // SAFETY: the caller's promise.
    let raw_channel = unsafe { channel::raw(channel) }?;
    // SAFETY: all of its fields are numbers.
    let mut raw: fb_cm_event = unsafe { std::mem::zeroed() };
    raw.size = size_of::<fb_cm_event>() as u32;
    // SAFETY: the channel is open, and the event's place lives during the call.
    match call(|f| unsafe { (f.get_event)(raw_channel, &raw mut raw) }) {
        Err(libc::EAGAIN) => Ok(None),
        // SAFETY: libibverbs' events name identifiers that live until this event is acknowledged.
        other => other.map(|()| unsafe { take(&raw) }),
    }
}

/// Takes the channel's next event that the program is to see. Waits for it where the descriptor
/// says so, and cannot be cancelled.
///
/// # Safety
/// `channel` is a channel.
unsafe fn next(channel: *mut rdma_event_channel) -> Result<*mut rdma_cm_event, Errno> {
    loop {
        // SAFETY: the caller's promise.
        let fd = unsafe { descriptor(channel) }?;
        let mut count = 0u64;
        // SAFETY: eight bytes that live during the call.
        if unsafe { libc::read(fd, (&raw mut count).cast(), size_of::<u64>()) } < 0 {
            return Err(errno());
        }
        // SAFETY: the caller's promise.
        if let Some(event) = unsafe { counted(channel) }? {
            return Ok(event);
        }
    }
}

/// Makes the program's event of libibverbs' one, with its duty; None if the program does not see it.
///
/// # Safety
/// `raw` came from libibverbs and was not looked at before.
unsafe fn take(raw: &fb_cm_event) -> Option<*mut rdma_cm_event> {
    let is_multicast = matches!(
        raw.event,
        RDMA_CM_EVENT_MULTICAST_JOIN | RDMA_CM_EVENT_MULTICAST_ERROR
    );
    if is_multicast {
        // SAFETY: the caller's promise.
        return unsafe { take_multicast(raw) };
    }
    let pointer = if raw.user == 0 {
        // The identifier of a request that was not accepted yet: its end shows when the program uses it. As from the
        // kernel, only ESTABLISHED is told, and what the program has asked for itself.
        let pointer = id::find(raw.id)?;
        let is_own = (RDMA_CM_EVENT_ADDRINFO_RESOLVED..=RDMA_CM_EVENT_USER).contains(&raw.event);
        if raw.event != RDMA_CM_EVENT_ESTABLISHED && !is_own {
            // SAFETY: identifiers in the table live.
            unsafe { Id::of(pointer) }.ok()?.complete_event(None);
            return None;
        }
        pointer
    } else {
        raw.user as *mut rdma_cm_id
    };
    // SAFETY: the caller's promise.
    let id = unsafe { Id::of(pointer) }.ok()?;
    id.hand_over();
    let event = new_event(raw, pointer);
    // SAFETY: it was just made, and the program does not have it yet.
    let is_told = unsafe { perform(raw, id, event) };
    if is_told {
        return Some(event);
    }
    // SAFETY: the program never saw it.
    unsafe { Event::free(event) };
    id.complete_event(None);
    None
}

/// An event with the parameters of its identifier's service.
fn new_event(raw: &fb_cm_event, pointer: *mut rdma_cm_id) -> *mut rdma_cm_event {
    // SAFETY: zeros are NULL and 0.
    let mut c: rdma_cm_event = unsafe { std::mem::zeroed() };
    c.id = pointer;
    c.event = raw.event;
    c.status = raw.status;
    Event::leak(
        c,
        EventOwn {
            private_data: [0; FB_MAX_PRIVATE_DATA],
            counts_for: pointer,
            group: None,
        },
    )
}

/// The duty of an event; false if the program does not see it.
///
/// # Safety
/// `event` is an event that the program does not have yet.
unsafe fn perform(raw: &fb_cm_event, id: &Id, event: *mut rdma_cm_event) -> bool {
    if raw.event == RDMA_CM_EVENT_USER {
        // SAFETY: the caller's promise; a number lies where libibverbs has put one, and the union begins with it.
        unsafe { (&raw mut (*event).param).cast::<u64>().write(raw.param.arg) };
        return true;
    }
    // SAFETY: the caller's promise.
    unsafe { fill_parameters(raw, id.is_datagram(), event) };
    // SAFETY: the caller's promise; nobody else has it.
    let c = unsafe { &mut *event };
    let connect_error = id.lock().connect_error;
    match raw.event {
        RDMA_CM_EVENT_ADDR_RESOLVED => {
            let outcome = resolve::query(id, resolve::What::Addresses);
            becomes(c, outcome, RDMA_CM_EVENT_ADDR_ERROR);
        }
        RDMA_CM_EVENT_ROUTE_RESOLVED => {
            let outcome = resolve::query(id, resolve::What::Paths);
            becomes(c, outcome, RDMA_CM_EVENT_ROUTE_ERROR);
        }
        RDMA_CM_EVENT_CONNECT_REQUEST => {
            // SAFETY: the identifier is the listener.
            match unsafe { new_request(raw, id) } {
                Ok(child) => {
                    c.listen_id = id.c();
                    c.id = child;
                }
                Err(_) => return false,
            }
        }
        RDMA_CM_EVENT_CONNECT_RESPONSE if get!(id.qp).is_null() => {
            id.lock().remote_ece = raw.ece;
        }
        RDMA_CM_EVENT_CONNECT_RESPONSE => {
            c.event = RDMA_CM_EVENT_ESTABLISHED;
            let outcome = answer_response(id, raw.ece);
            if outcome.is_err() {
                id.lock().connect_error = true;
            }
            becomes(c, outcome, RDMA_CM_EVENT_CONNECT_ERROR);
        }
        RDMA_CM_EVENT_REJECTED | RDMA_CM_EVENT_DISCONNECTED if connect_error => return false,
        RDMA_CM_EVENT_REJECTED => {
            // The program is told of the rejection; a queue pair that refuses the error state changes nothing in that.
            let _ = qp::to_error(id);
        }
        _ => {}
    }
    true
}

/// An error in a duty turns the event into another one, with the errno as its status.
fn becomes(c: &mut rdma_cm_event, outcome: Result<(), Errno>, event: rdma_cm_event_type) {
    if let Err(errno) = outcome {
        c.event = event;
        c.status = -errno;
    }
}

/// Copies the parameters; private data lie in the event itself.
///
/// # Safety
/// `event` is an event that the program does not have yet.
unsafe fn fill_parameters(raw: &fb_cm_event, is_datagram: bool, event: *mut rdma_cm_event) {
    let own = event
        .cast::<u8>()
        .wrapping_add(Event::OWN_OFFSET)
        .cast::<EventOwn>();
    let store = |bytes: &[u8; FB_MAX_PRIVATE_DATA], length: u8| {
        if length == 0 {
            return std::ptr::null();
        }
        // SAFETY: the caller's promise: the event begins with its C part and goes on with ours.
        let place = unsafe { &raw mut (*own).private_data };
        // SAFETY: as above.
        unsafe { place.write(*bytes) };
        place.cast_const().cast::<c_void>()
    };
    let param = if is_datagram {
        // SAFETY: libibverbs fills the parameters of the identifier's service; all of them are numbers.
        let ud: fb_ud_param = unsafe { raw.param.ud };
        rdma_cm_event__bindgen_ty_1 {
            ud: ManuallyDrop::new(rdma_ud_param {
                private_data: store(&ud.private_data, ud.private_data_len),
                private_data_len: ud.private_data_len,
                ah_attr: ud.ah_attr,
                qp_num: ud.qp_num,
                qkey: ud.qkey,
            }),
        }
    } else {
        // SAFETY: as above.
        let conn: fb_conn_param = unsafe { raw.param.conn };
        rdma_cm_event__bindgen_ty_1 {
            conn: ManuallyDrop::new(rdma_conn_param {
                private_data: store(&conn.private_data, conn.private_data_len),
                private_data_len: conn.private_data_len,
                responder_resources: conn.responder_resources,
                initiator_depth: conn.initiator_depth,
                flow_control: conn.flow_control,
                retry_count: conn.retry_count,
                rnr_retry_count: conn.rnr_retry_count,
                srq: conn.srq,
                qp_num: conn.qp_num,
            }),
        }
    };
    // SAFETY: the caller's promise.
    unsafe { (*event).param = param };
}

/// The identifier of a request. If it cannot be made, libibverbs refuses the request.
///
/// # Safety
/// `listener` is the identifier that the event names.
unsafe fn new_request(raw: &fb_cm_event, listener: &Id) -> Result<*mut rdma_cm_id, Errno> {
    let refuse = |error| {
        let mut reported = 0;
        // SAFETY: the result's place lives during the call. The request is gone if this fails.
        let _ = call(|f| unsafe { (f.destroy_id)(raw.id, &raw mut reported) });
        error
    };
    // SAFETY: the listener's channel is open.
    let pointer = unsafe {
        id::allocate(
            get!(listener.channel),
            get!(listener.context),
            get!(listener.ps),
            get!(listener.qp_type),
        )
    }
    .map_err(refuse)?;
    // SAFETY: it was just made.
    let child = unsafe { Id::of(pointer) }?;
    child.enter(raw.id);
    let mut state = child.lock();
    if !child.is_datagram() {
        // SAFETY: a connection's parameters.
        let conn = unsafe { raw.param.conn };
        state.initiator_depth = conn.initiator_depth;
        state.responder_resources = conn.responder_resources;
    }
    state.remote_ece = raw.ece;
    drop(state);
    let prepare = || {
        if listener.lock().is_synchronous {
            // SAFETY: the new identifier has no channel of its own yet.
            unsafe { id::migrate(child, std::ptr::null_mut()) }?;
        }
        resolve::query(child, resolve::What::Everything)
    };
    if let Err(error) = prepare() {
        // SAFETY: nobody else knows it.
        unsafe { id::destroy(pointer) }?;
        return Err(error);
    }
    Ok(pointer)
}

/// Moves the queue pair of a connection that was answered to RTS, and says so to the other side.
fn answer_response(id: &Id, ece: fb_ece) -> Result<(), Errno> {
    let mut mine = id.lock().local_ece;
    let mut agreed = ibv_ece {
        vendor_id: ece.vendor_id,
        options: ece.options,
        comp_mask: 0,
    };
    if ece.vendor_id == 0 {
        agreed.vendor_id = mine.vendor_id;
        agreed.options = 0;
    } else if ece.vendor_id != mine.vendor_id {
        let _ = qp::to_error(id);
        return Err(libc::EINVAL);
    }
    id.lock().remote_ece.vendor_id = ece.vendor_id;
    let pair = get!(id.qp);
    // SAFETY: the identifier's queue pair.
    if let Err(error) = supported(unsafe { verbs::ibv_set_ece(pair, &raw mut agreed) }) {
        let _ = qp::to_error(id);
        return Err(error);
    }
    finish(id)?;
    // SAFETY: as above.
    let asked = unsafe { verbs::ibv_query_ece(pair, &raw mut agreed) };
    if let Err(error) = supported(asked) {
        let _ = qp::to_error(id);
        return Err(error);
    }
    mine.options = if asked == 0 { agreed.options } else { 0 };
    id.lock().local_ece = mine;
    Ok(())
}

/// Success, or that there are no such options.
pub fn supported(errno: c_int) -> Result<(), Errno> {
    check(if errno == libc::EOPNOTSUPP { 0 } else { errno })
}

/// The queue pair, if there is one, goes to RTS; then the other side is told.
pub fn finish(id: &Id) -> Result<(), Errno> {
    let ready = qp::to_rtr(id, AUTOMATIC_RESOURCES)
        .and_then(|()| qp::to_rts(id, AUTOMATIC_DEPTH))
        .and_then(|()| {
            // SAFETY: null parameters say that the queue pair is ready.
            call(|f| unsafe {
                (f.accept)(id.handle(), id.user(), std::ptr::null(), std::ptr::null())
            })
        });
    if ready.is_err() {
        let _ = qp::to_error(id);
    }
    ready
}

/// A multicast event: it names the membership.
///
/// # Safety
/// As for [`take`].
unsafe fn take_multicast(raw: &fb_cm_event) -> Option<*mut rdma_cm_event> {
    let pointer = multicast::find(raw.user)?;
    // SAFETY: a membership's identifier lives until its events are acknowledged.
    let id = unsafe { Id::of(pointer) }.ok()?;
    let event = new_event(raw, pointer);
    // SAFETY: it was just made, and the program does not have it yet.
    unsafe { fill_parameters(raw, true, event) };
    // SAFETY: as above.
    let c = unsafe { &mut *event };
    let own = event
        .cast::<u8>()
        .wrapping_add(Event::OWN_OFFSET)
        .cast::<EventOwn>();
    // SAFETY: as above; the event goes on with our part.
    unsafe { (*own).group = Some(raw.user) };
    // SAFETY: the parameters are those of datagrams.
    let ud: &mut rdma_ud_param = unsafe { &mut *(&raw mut c.param).cast() };
    ud.private_data = multicast::context(id, raw.user);
    if raw.event == RDMA_CM_EVENT_MULTICAST_JOIN {
        let outcome = multicast::attach(id, raw.user, &ud.ah_attr);
        becomes(c, outcome, RDMA_CM_EVENT_MULTICAST_ERROR);
    }
    Some(event)
}

/// Acknowledges an event, which is freed.
///
/// # Safety
/// `event` came from [`next`] and was not acknowledged.
unsafe fn acknowledge(event: *mut rdma_cm_event) -> Result<(), Errno> {
    // SAFETY: the caller's promise.
    let own = unsafe { Event::of(event) }?;
    let (counts_for, group) = (own.counts_for, own.group);
    // SAFETY: the caller's promise.
    unsafe { Event::free(event) };
    // SAFETY: the identifier lives until this acknowledgement.
    let id = unsafe { Id::of(counts_for) }?;
    id.complete_event(group);
    Ok(())
}

/// Acknowledges the event that the last synchronous call left in the identifier.
///
/// # Safety
/// `id->event` is NULL or an event that was not acknowledged.
pub unsafe fn forget_last(id: &Id) {
    let last = get!(id.event);
    set!(id.event = std::ptr::null_mut());
    if !last.is_null() {
        // SAFETY: the caller's promise. It is not NULL, so it cannot fail.
        let _ = unsafe { acknowledge(last) };
    }
}

/// What a call has asked libibverbs for.
#[must_use]
pub enum Asked {
    /// No event follows.
    Nothing,
    /// An event follows.
    Event,
}

impl Asked {
    /// The rest of the call, if nobody can cancel the thread, or the channel does not wait.
    pub fn complete(self, id: &Id) -> Result<(), Errno> {
        match self {
            Asked::Nothing => Ok(()),
            Asked::Event => complete(id),
        }
    }
}

/// Takes the event of a synchronous identifier's call, and judges it; nothing for others.
pub fn complete(id: &Id) -> Result<(), Errno> {
    if !id.lock().is_synchronous {
        return Ok(());
    }
    // SAFETY: a synchronous identifier's event is the library's.
    unsafe { forget_last(id) };
    let mut wait = Wait::default();
    loop {
        // SAFETY: its channel is its own.
        let event = unsafe { next(get!(id.channel)) }?;
        // SAFETY: the event was just taken.
        if let Some(judged) = unsafe { wait.judge(id, event) } {
            return judged;
        }
    }
}

/// The wait of a synchronous identifier's call for its event.
#[derive(Default)]
pub struct Wait {
    /// The program's own events, which stay for the program: they are put back at the end.
    others: Vec<*mut rdma_cm_event>,
}

impl Drop for Wait {
    fn drop(&mut self) {
        self.put_others_back();
    }
}

impl Wait {
    /// What the event says of the call; None if it is one of the program's own.
    ///
    /// # Safety
    /// `event` was taken from the channel of `id`.
    unsafe fn judge(&mut self, id: &Id, event: *mut rdma_cm_event) -> Option<Result<(), Errno>> {
        // SAFETY: the caller's promise.
        let told = unsafe { &*event };
        if told.event == RDMA_CM_EVENT_USER {
            self.others.push(event);
            return None;
        }
        self.put_others_back();
        set!(id.event = event);
        Some(judge(told))
    }

    fn put_others_back(&mut self) {
        for other in self.others.drain(..) {
            // SAFETY: it was taken by this call, and is not used any more.
            unsafe { put_back(other) };
        }
    }

    /// What the event says of the call; None if the thread must sleep for it.
    pub fn go_on(&mut self, sleep: &mut Sleep, id: &Id) -> Result<Option<()>, Errno> {
        // SAFETY: the channel of a synchronous identifier is its own.
        while let Some(event) = unsafe { await_next(sleep, get!(id.channel)) }? {
            // SAFETY: the event was just taken.
            if let Some(judged) = unsafe { self.judge(id, event) } {
                return judged.map(Some);
            }
        }
        Ok(None)
    }
}

/// A call that asks, once, and then, on a synchronous identifier, waits for the event.
///
/// # Safety
/// `id` is NULL or an identifier.
pub unsafe fn synchronous(
    sleep: &mut Sleep,
    id: *mut rdma_cm_id,
    ask: impl FnOnce(&Id) -> Result<Asked, Errno>,
) -> Result<Option<()>, Errno> {
    // SAFETY: the caller's promise.
    let id = unsafe { Id::of(id) }?;
    let mut wait = match sleep.take_kept::<Wait>() {
        Some(wait) => wait,
        None => {
            if matches!(ask(id)?, Asked::Nothing) || !id.lock().is_synchronous {
                return Ok(Some(()));
            }
            // SAFETY: a synchronous identifier's event is the library's.
            unsafe { forget_last(id) };
            Box::default()
        }
    };
    let result = wait.go_on(sleep, id)?;
    if result.is_none() {
        sleep.keep(wait);
    }
    Ok(result)
}

/// Puts an event of the program's own into the channel again.
///
/// # Safety
/// `event` is such an event, and was not acknowledged.
unsafe fn put_back(event: *mut rdma_cm_event) {
    // SAFETY: the caller's promise; the union begins with the program's number.
    let (c, arg) = unsafe { (&*event, (&raw const (*event).param).cast::<u64>().read()) };
    // SAFETY: the identifier lives until the event is acknowledged.
    if let Ok(id) = unsafe { Id::of(c.id) } {
        // It is lost with an adapter that has failed.
        let _ = write(id, c.event, c.status, arg);
    }
    // SAFETY: the caller's promise. It is not NULL, so it cannot fail.
    let _ = unsafe { acknowledge(event) };
}

/// Puts an event into the identifier's channel.
pub fn write(id: &Id, event: rdma_cm_event_type, status: c_int, arg: u64) -> Result<(), Errno> {
    // SAFETY: numbers only.
    call(|f| unsafe { (f.write_event)(id.handle(), event, status, arg) })
}

/// What an event says of the call that waited for it.
pub fn judge(event: &rdma_cm_event) -> Result<(), Errno> {
    match (event.event, event.status) {
        (RDMA_CM_EVENT_REJECTED, status) if status != 0 => Err(libc::ECONNREFUSED),
        (_, 0) => Ok(()),
        (_, status) => Err(status.saturating_abs()),
    }
}

/// Takes the next event of a synchronous identifier; cannot be cancelled.
///
/// # Safety
/// `id` is synchronous.
pub unsafe fn next_of(id: &Id) -> Result<*mut rdma_cm_event, Errno> {
    // SAFETY: its channel is its own.
    unsafe { next(get!(id.channel)) }
}

/// Takes the next event; None if the thread must sleep for it.
///
/// # Safety
/// `channel` is a channel.
pub unsafe fn await_next(
    sleep: &mut Sleep,
    channel: *mut rdma_event_channel,
) -> Result<Option<*mut rdma_cm_event>, Errno> {
    if sleep.take_count()?
        // SAFETY: the caller's promise.
        && let Some(event) = unsafe { counted(channel) }?
    {
        return Ok(Some(event));
    }
    // SAFETY: the caller's promise.
    sleep.on_count(unsafe { descriptor(channel) }?);
    Ok(None)
}

/// `rdma_get_cm_event`: waits unless the descriptor says O_NONBLOCK; then EAGAIN.
///
/// # Safety
/// As the C interface demands.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn rdma_get_cm_event(
    channel: *mut rdma_event_channel,
    event: *mut *mut rdma_cm_event,
) -> c_int {
    waiting_status(|sleep| {
        if event.is_null() {
            return Err(libc::EINVAL);
        }
        // SAFETY: the caller's promise.
        let taken = unsafe { await_next(sleep, channel) }?;
        // SAFETY: the caller's promise, and it is not NULL.
        Ok(taken.map(|taken| unsafe { event.write(taken) }))
    })
}

/// `rdma_ack_cm_event`.
///
/// # Safety
/// `event` is NULL or came from [`rdma_get_cm_event`] and was not acknowledged.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn rdma_ack_cm_event(event: *mut rdma_cm_event) -> c_int {
    // SAFETY: the caller's promise.
    status(|| unsafe { acknowledge(event) })
}

/// `rdma_write_cm_event`: USER alone may be written, any other kind is EINVAL.
///
/// # Safety
/// As the C interface demands.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn rdma_write_cm_event(
    id: *mut rdma_cm_id,
    event: rdma_cm_event_type,
    event_status: c_int,
    arg: u64,
) -> c_int {
    status(|| {
        // SAFETY: the caller's promise.
        let id = unsafe { Id::of(id) }?;
        if event != RDMA_CM_EVENT_USER {
            return Err(libc::EINVAL);
        }
        write(id, event, event_status, arg)
    })
}

/// `rdma_event_str`: the name of an event.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn rdma_event_str(event: rdma_cm_event_type) -> *const c_char {
    const NAMES: [&std::ffi::CStr; 20] = [
        c"RDMA_CM_EVENT_ADDR_RESOLVED",
        c"RDMA_CM_EVENT_ADDR_ERROR",
        c"RDMA_CM_EVENT_ROUTE_RESOLVED",
        c"RDMA_CM_EVENT_ROUTE_ERROR",
        c"RDMA_CM_EVENT_CONNECT_REQUEST",
        c"RDMA_CM_EVENT_CONNECT_RESPONSE",
        c"RDMA_CM_EVENT_CONNECT_ERROR",
        c"RDMA_CM_EVENT_UNREACHABLE",
        c"RDMA_CM_EVENT_REJECTED",
        c"RDMA_CM_EVENT_ESTABLISHED",
        c"RDMA_CM_EVENT_DISCONNECTED",
        c"RDMA_CM_EVENT_DEVICE_REMOVAL",
        c"RDMA_CM_EVENT_MULTICAST_JOIN",
        c"RDMA_CM_EVENT_MULTICAST_ERROR",
        c"RDMA_CM_EVENT_ADDR_CHANGE",
        c"RDMA_CM_EVENT_TIMEWAIT_EXIT",
        c"RDMA_CM_EVENT_ADDRINFO_RESOLVED",
        c"RDMA_CM_EVENT_ADDRINFO_ERROR",
        c"RDMA_CM_EVENT_USER",
        c"RDMA_CM_EVENT_INTERNAL",
    ];
    let name = NAMES.get(event as usize).unwrap_or(&c"UNKNOWN EVENT");
    entry(|| Ok(name.as_ptr().cast_mut())).cast_const()
}
