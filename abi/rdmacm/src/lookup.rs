//! Names that are looked up while the program goes on: `rdma_resolve_addrinfo` and `rdma_query_addrinfo`.
//!
//! A look-up has a thread of its own, which asks the system's resolver or subnet administration ([`crate::services`]), keeps the result in the identifier, and says so by an event,
//! ADDRINFO_RESOLVED or ADDRINFO_ERROR. An identifier has one look-up at a time, from the question until the program has taken the result.

use crate::addrinfo::{Failed, look_up, rdma_freeaddrinfo};
use crate::boundary::{Errno, check, status, waiting_status};
use crate::events::{Asked, synchronous};
use crate::id::{Id, get};
use crate::private::call;
use crate::rsocket::service::without_signals;
use crate::sys::*;
use crate::{services, verbs};
use ferriband_verbs_sys::{IBV_LINK_LAYER_ETHERNET, ibv_port_attr};
use libc::sockaddr;
use std::ffi::{CStr, CString, c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

const SA: c_int = RAI_SA as c_int;
const DNS: c_int = RAI_DNS as c_int;

/// An identifier's look-up.
#[derive(Default)]
pub struct Lookup {
    /// Asked, and the result was not taken.
    is_asked: bool,
    found: Option<Found>,
}

/// A result that the program has not taken.
struct Found(*mut rdma_addrinfo);

// SAFETY: memory of the C library's heap, which has one owner.
unsafe impl Send for Found {}

impl Drop for Found {
    fn drop(&mut self) {
        // SAFETY: the result is this owner's.
        unsafe { rdma_freeaddrinfo(self.0) };
    }
}

/// What is asked: copies of what the program passed.
struct Question {
    node: Option<CString>,
    service: Option<CString>,
    hints: Option<Hints>,
}

/// Hints, with the addresses that they name.
struct Hints {
    fields: rdma_addrinfo,
    source: Vec<u8>,
    destination: Vec<u8>,
}

// SAFETY: its pointers lead to its own memory.
unsafe impl Send for Hints {}

impl Hints {
    /// # Safety
    /// The addresses have their lengths.
    unsafe fn copy(from: &rdma_addrinfo) -> Self {
        // SAFETY: the caller's promise, twice.
        let address = |at: *const sockaddr, length| match at.is_null() {
            true => Vec::new(),
            // SAFETY: as above.
            false => unsafe { std::slice::from_raw_parts(at.cast::<u8>(), length) }.to_vec(),
        };
        // SAFETY: zeros are NULL and 0.
        let mut fields: rdma_addrinfo = unsafe { std::mem::zeroed() };
        fields.ai_flags = from.ai_flags;
        fields.ai_family = from.ai_family;
        fields.ai_qp_type = from.ai_qp_type;
        fields.ai_port_space = from.ai_port_space;
        Hints {
            fields,
            source: address(from.ai_src_addr, from.ai_src_len as usize),
            destination: address(from.ai_dst_addr, from.ai_dst_len as usize),
        }
    }

    /// As the C interface has them, as long as these live.
    fn fields(&mut self) -> &rdma_addrinfo {
        self.fields.ai_src_addr = self.source.as_mut_ptr().cast();
        self.fields.ai_src_len = self.source.len() as libc::socklen_t;
        self.fields.ai_dst_addr = self.destination.as_mut_ptr().cast();
        self.fields.ai_dst_len = self.destination.len() as libc::socklen_t;
        &self.fields
    }
}

impl Question {
    /// EINVAL without any of them, ENOTSUP for flags that exclude each other and for a host's name at subnet administration.
    ///
    /// # Safety
    /// Names end in NUL, the hints' addresses have their lengths.
    unsafe fn copy(
        node: *const c_char,
        service: *const c_char,
        hints: *const rdma_addrinfo,
    ) -> Result<Self, Errno> {
        // SAFETY: the caller's promise, here and below.
        let hints = unsafe { hints.as_ref() };
        let flags = hints.map_or(0, |hints| hints.ai_flags);
        if flags & SA != 0 && (flags & DNS != 0 || !node.is_null()) {
            return Err(libc::ENOTSUP);
        }
        if node.is_null() && service.is_null() && (hints.is_none() || flags & SA != 0) {
            return Err(libc::EINVAL);
        }
        let text = |text: *const c_char| match text.is_null() {
            true => None,
            // SAFETY: the caller's promise.
            false => Some(unsafe { CStr::from_ptr(text) }.to_owned()),
        };
        Ok(Question {
            node: text(node),
            service: text(service),
            // SAFETY: the caller's promise.
            hints: hints.map(|hints| unsafe { Hints::copy(hints) }),
        })
    }

    fn asks_administration(&self) -> bool {
        let flags = self.hints.as_ref().map_or(0, |hints| hints.fields.ai_flags);
        flags & SA != 0
    }

    fn ask(mut self) -> Result<Found, Failed> {
        if self.asks_administration() {
            let service = self.service.ok_or(libc::EINVAL)?;
            return Ok(Found(services::find(&service)?));
        }
        let text = |text: &Option<CString>| {
            let text = text.as_deref();
            text.map_or(std::ptr::null(), CStr::as_ptr)
        };
        let (node, service) = (text(&self.node), text(&self.service));
        let hints = self.hints.as_mut().map(Hints::fields);
        let hints = hints.map_or(std::ptr::null(), std::ptr::from_ref);
        // SAFETY: names and hints are this question's, which lives until the end.
        unsafe { look_up(node, service, hints) }.map(Found)
    }
}

fn lock(lookup: &Mutex<Lookup>) -> MutexGuard<'_, Lookup> {
    // Each change leaves it whole.
    lookup.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The look-up's thread: asks, keeps the result, and says so. The identifier may be gone by then; then the event is nobody's.
fn run(question: Question, handle: u32, lookup: &Mutex<Lookup>) {
    let asked = catch_unwind(AssertUnwindSafe(|| question.ask().map_err(Failed::errno)));
    let mut state = lock(lookup);
    let (event, status) = match asked.unwrap_or(Err(libc::EIO)) {
        Ok(found) => {
            state.found = Some(found);
            (RDMA_CM_EVENT_ADDRINFO_RESOLVED, 0)
        }
        Err(errno) => {
            state.is_asked = false;
            (RDMA_CM_EVENT_ADDRINFO_ERROR, -errno)
        }
    };
    // SAFETY: numbers only.
    if call(|f| unsafe { (f.write_event)(handle, event, status, 0) }).is_err() {
        *state = Lookup::default();
    }
}

/// EINVAL for an identifier that is not bound to a port, EOPNOTSUPP for a port of Ethernet: it has no subnet administration.
fn must_be_on_infiniband(id: &Id) -> Result<(), Errno> {
    if id.lock().device.is_none() {
        return Err(libc::EINVAL);
    }
    let mut attr = ibv_port_attr::default();
    let (context, port) = (get!(id.verbs), get!(id.port_num));
    // SAFETY: the device is open, and the attributes' place lives during the call; the function fills in the beginning that it knows.
    check(unsafe { verbs::ibv_query_port(context, port, (&raw mut attr).cast()) })?;
    match u32::from(attr.link_layer) {
        IBV_LINK_LAYER_ETHERNET => Err(libc::EOPNOTSUPP),
        _ => Ok(()),
    }
}

/// Asks for a name.
///
/// EBUSY while one is looked up, or its result was not taken; EINVAL, ENOTSUP; EAGAIN without a thread.
///
/// # Safety
/// As for [`rdma_resolve_addrinfo`].
unsafe fn resolve(
    id: &Id,
    node: *const c_char,
    service: *const c_char,
    hints: *const rdma_addrinfo,
) -> Result<Asked, Errno> {
    // SAFETY: the caller's promise.
    let question = unsafe { Question::copy(node, service, hints) }?;
    if question.asks_administration() {
        must_be_on_infiniband(id)?;
    }
    let lookup = id.lock().lookup.clone();
    if std::mem::replace(&mut lock(&lookup).is_asked, true) {
        return Err(libc::EBUSY);
    }
    let (handle, theirs) = (id.handle(), lookup.clone());
    let started = without_signals(|| {
        std::thread::Builder::new()
            .name("addrinfo".into())
            .spawn(move || run(question, handle, &theirs))
    });
    if started.is_err() {
        lock(&lookup).is_asked = false;
        return Err(libc::EAGAIN);
    }
    Ok(Asked::Event)
}

/// `rdma_resolve_addrinfo`: ADDRINFO_RESOLVED or ADDRINFO_ERROR follows; a synchronous identifier waits for it.
///
/// # Safety
/// As the C interface demands.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn rdma_resolve_addrinfo(
    id: *mut rdma_cm_id,
    node: *const c_char,
    service: *const c_char,
    hints: *const rdma_addrinfo,
) -> c_int {
    // SAFETY: the caller's promise.
    let ask = |id: &Id| unsafe { resolve(id, node, service, hints) };
    // SAFETY: the caller's promise.
    waiting_status(|sleep| unsafe { synchronous(sleep, id, ask) })
}

/// `rdma_query_addrinfo`: the result, once; the program frees it. ENOENT if there is none.
///
/// # Safety
/// As the C interface demands.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn rdma_query_addrinfo(
    id: *mut rdma_cm_id,
    info: *mut *mut rdma_addrinfo,
) -> c_int {
    status(|| {
        // SAFETY: the caller's promise.
        let id = unsafe { Id::of(id) }?;
        if info.is_null() {
            return Err(libc::EINVAL);
        }
        let lookup: Arc<Mutex<Lookup>> = id.lock().lookup.clone();
        let mut state = lock(&lookup);
        let found = state.found.take().ok_or(libc::ENOENT)?;
        state.is_asked = false;
        // SAFETY: the caller's promise, and it is not NULL.
        unsafe { info.write(found.0) };
        std::mem::forget(found);
        Ok(())
    })
}
