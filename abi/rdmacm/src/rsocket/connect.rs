//! How a stream's connection comes about, and how it ends: the connection manager's side of a socket.
//!
//! An identifier without a channel of the program's, whose own channel never waits: each step begins with a call that answers
//! EAGAIN and goes on when the thread of [`super::service`] sees the step's event.

use super::link::Link;
use super::stream::{Phase, Stream, lock};
use super::wait::{Call, Patience, set_nonblocking};
use super::wire::Offer;
use super::{Inner, Socket, table};
use crate::boundary::Errno;
use crate::events::complete;
use crate::id::{self, Id, get};
use crate::sys::*;
use crate::{address, connect, endpoint, resolve};
use ferriband_verbs_sys::{IBV_QPT_RC, IBV_QPT_UD};
use libc::{c_int, sockaddr, sockaddr_storage};
use std::collections::VecDeque;
use std::os::fd::RawFd;
use std::sync::{Arc, Mutex, Weak};

/// How often a look-up that took too long is tried again, each time with twice the patience.
const MOST_TRIES: u32 = 6;
/// The patience of the first try.
const FIRST_PATIENCE_MS: c_int = 1000;
/// Connections that may wait to be accepted, whatever the program says.
const MOST_WAITING: usize = 4096;
/// Requests taken in one go, so that one listener does not keep the others waiting.
const REQUESTS: usize = 16;
/// The header of a request between addresses that are GIDs.
const IB_HEADER: usize = 36;
/// As many READs and atomics as the device carries; none are used.
const AUTOMATIC: u8 = 0xff;

/// An identifier that goes with its socket.
pub struct OwnedId(*mut rdma_cm_id);

// SAFETY: identifiers may be used by any thread, one call at a time: the socket's lock sees to that.
unsafe impl Send for OwnedId {}

impl OwnedId {
    /// A new one, of this address family.
    ///
    /// ENODEV, EMFILE, ENOMEM.
    pub fn new(domain: c_int) -> Result<Self, Errno> {
        let none = std::ptr::null_mut();
        // SAFETY: no channel, no context.
        let pointer = unsafe { id::create(none, none.cast(), RDMA_PS_TCP, IBV_QPT_RC) }
            .map_err(super::descriptors_or)?;
        let id = OwnedId(pointer);
        // SAFETY: the place lies in the identifier's C structure.
        unsafe { (*id.get().source()).ss_family = domain as libc::sa_family_t };
        Ok(id)
    }

    /// A new one for datagrams, whose calls wait.
    ///
    /// ENODEV, EMFILE, ENOMEM.
    pub fn for_datagrams() -> Result<Self, Errno> {
        let none = std::ptr::null_mut();
        // SAFETY: no channel, no context.
        unsafe { id::create(none, none.cast(), RDMA_PS_UDP, IBV_QPT_UD) }
            .map(OwnedId)
            .map_err(super::descriptors_or)
    }

    /// The identifier.
    pub fn get<'a>(&self) -> &'a Id {
        // SAFETY: it lives until this is dropped, with the state that all users have locked.
        unsafe { Id::of(self.0) }.expect("an identifier is not NULL")
    }

    /// Its channel's descriptor.
    pub fn fd(&self) -> RawFd {
        let id = self.get();
        // SAFETY: an identifier without the program's channel has its own.
        unsafe { (*get!(id.channel)).fd }
    }
}

impl Drop for OwnedId {
    fn drop(&mut self) {
        // SAFETY: its queue pair went with the link, and nobody else uses it. It cannot be refused: it is not NULL.
        let _ = unsafe { id::destroy(self.0) };
    }
}

/// Connections of a listening socket that wait to be accepted.
pub struct Listening {
    ready: VecDeque<Arc<Socket>>,
    /// Answered, not yet connected.
    coming: Vec<RawFd>,
    most: usize,
}

impl Listening {
    /// One is ready.
    pub fn has_some(&self) -> bool {
        !self.ready.is_empty()
    }

    fn is_full(&self) -> bool {
        self.ready.len() + self.coming.len() >= self.most
    }

    /// All that nobody will accept.
    pub fn into_sockets(self) -> Vec<Arc<Socket>> {
        let coming = self.coming.iter().filter_map(|fd| table::find(*fd).ok());
        self.ready.into_iter().chain(coming).collect()
    }
}

impl Stream {
    /// Asks the connection manager for the device and the address.
    fn resolve(&mut self) -> Result<(), Errno> {
        let patience = FIRST_PATIENCE_MS << self.tries;
        self.tries += 1;
        self.phase = Phase::Resolving;
        let to: *const sockaddr_storage = &raw const self.destination;
        // SAFETY: the address is of its family, as was checked when it came.
        unsafe { resolve::resolve_address(self.id.get(), std::ptr::null(), to.cast(), patience) }?
            .complete(self.id.get())
    }

    /// Asks for the path, or names the one that the program chose.
    fn find_route(&mut self) -> Result<(), Errno> {
        let patience = FIRST_PATIENCE_MS << self.tries;
        self.tries += 1;
        self.phase = Phase::Routing;
        let Some(route) = self.route.take() else {
            return resolve::resolve_route(self.id.get(), patience)?.complete(self.id.get());
        };
        let (level, name) = (RDMA_OPTION_IB as c_int, RDMA_OPTION_IB_PATH as c_int);
        let id = self.id.get();
        // SAFETY: the path has this length.
        unsafe { resolve::set_option(id, level, name, route.as_ptr().cast(), route.len()) }?;
        complete(id)
    }

    /// Makes the queue pair and asks for the connection.
    fn ask(&mut self) -> Result<(), Errno> {
        self.phase = Phase::Connecting;
        let id = self.id.get();
        let table = self.settings.mappings;
        // SAFETY: the stream drops the link before the identifier.
        let link = unsafe { Link::new(id, &mut self.settings, table) }?;
        let offer = link.offer().to_bytes();
        self.link = Some(link);
        let data = [&[0; IB_HEADER][..header(id)], &offer].concat();
        let param = parameters(&data);
        // SAFETY: the private data have their length.
        unsafe { connect::connect(id, Some(&param)) }?.complete(id)
    }

    /// The other side's answer has come.
    fn establish(&mut self) -> Result<(), Errno> {
        let id = self.id.get();
        let offer = Offer::parse(&private_data(id)).ok_or(libc::EPROTO)?;
        let link = self.link.as_mut().ok_or(libc::EINVAL)?;
        link.take_offer(&offer);
        self.connected();
        Ok(())
    }

    fn connected(&mut self) {
        self.phase = Phase::Connected;
        self.is_readable = true;
        self.is_writable = true;
        self.edges.both();
        self.process();
    }

    /// Goes on from `step`, the result of what the present phase waits for, as far as it goes without waiting.
    fn advance(&mut self, mut step: Result<(), Errno>) {
        loop {
            let tries_again = step == Err(libc::ETIMEDOUT) && self.tries <= MOST_TRIES;
            step = match (self.phase, step) {
                (_, Err(libc::EAGAIN)) => return,
                (Phase::Resolving, Err(_)) if tries_again => self.resolve(),
                (Phase::Routing, Err(_)) if tries_again => self.find_route(),
                (_, Err(error)) => return self.refuse(error),
                (Phase::Resolving, Ok(())) => {
                    self.tries = 0;
                    self.find_route()
                }
                (Phase::Routing, Ok(())) => self.ask(),
                (Phase::Connecting, Ok(())) => match self.establish() {
                    Ok(()) => return,
                    Err(error) => Err(error),
                },
                (Phase::Accepting, Ok(())) => return self.connected(),
                _ => return,
            };
        }
    }

    fn refuse(&mut self, error: Errno) {
        self.end(Phase::Refused);
        self.error = error;
        self.link = None;
    }

    /// Hears what the connection manager says of a connection that stands, or stood.
    /// False if it says nothing any more.
    fn hear_end(&mut self) -> bool {
        loop {
            match complete(self.id.get()) {
                Err(libc::EAGAIN) => return true,
                Err(error) if is_lasting(error) => return false,
                _ => {}
            }
            let id = self.id.get();
            let event = get!(id.event);
            // SAFETY: the event that was just left in the identifier.
            let kind = unsafe { event.as_ref() }.map(|event| event.event);
            let is_end = matches!(
                kind,
                Some(RDMA_CM_EVENT_DISCONNECTED | RDMA_CM_EVENT_DEVICE_REMOVAL)
            );
            if is_end && self.phase == Phase::Connected {
                // The other side's last words were acknowledged before this was sent, and yet may not have been told here:
                // they have when the adapter has given back every receive.
                self.is_writable = false;
                self.phase = Phase::Ending;
                match connect::disconnect(id).and_then(|asked| asked.complete(id)) {
                    Ok(()) | Err(libc::EAGAIN) => self.process(),
                    Err(_) => self.end(Phase::Closed),
                }
            }
        }
    }
}

/// What a request's private data begin with: the header of addresses, which the connection manager writes in front of them
/// or, where addresses are GIDs, into room that is left for it.
fn header(id: &Id) -> usize {
    // SAFETY: the place lies in the identifier's C structure.
    let family = unsafe { (*id.source()).ss_family };
    if i32::from(family) == address::AF_IB {
        IB_HEADER
    } else {
        0
    }
}

/// Parameters of a connection with this private data.
fn parameters(data: &[u8]) -> rdma_conn_param {
    rdma_conn_param {
        private_data: data.as_ptr().cast(),
        private_data_len: data.len() as u8,
        responder_resources: AUTOMATIC,
        initiator_depth: AUTOMATIC,
        flow_control: 1,
        retry_count: 7,
        rnr_retry_count: 7,
        srq: 0,
        qp_num: 0,
    }
}

/// An error of the channel itself: the adapter has failed.
fn is_lasting(error: Errno) -> bool {
    matches!(error, libc::EBADF | libc::EIO | libc::ENODEV)
}

/// The private data of the event that was left in an identifier.
fn private_data(id: &Id) -> Vec<u8> {
    let event = get!(id.event);
    if event.is_null() {
        return Vec::new();
    }
    // SAFETY: the event belongs to the identifier until its next call; a connection's parameters are numbers and a pointer.
    let conn: &rdma_conn_param = unsafe { &*(&raw const (*event).param).cast() };
    if conn.private_data.is_null() {
        return Vec::new();
    }
    // SAFETY: the data have this length, and lie in the event.
    unsafe { std::slice::from_raw_parts(conn.private_data.cast(), conn.private_data_len.into()) }
        .to_vec()
}

impl Socket {
    /// `bind`.
    ///
    /// # Safety
    /// `to` is NULL or an address of its family.
    pub unsafe fn bind_stream(&self, to: *const sockaddr) -> Result<(), Errno> {
        let state = lock(self.stream()?);
        if state.phase != Phase::Fresh {
            return Err(libc::EINVAL);
        }
        // SAFETY: the caller's promise.
        unsafe { resolve::bind(state.id.get(), to) }
    }

    /// `listen`.
    pub fn listen(&self, backlog: c_int) -> Result<(), Errno> {
        let mut state = lock(self.stream()?);
        let most = usize::try_from(backlog).unwrap_or(0).clamp(1, MOST_WAITING);
        match state.phase {
            Phase::Listening => {
                if let Some(listening) = &mut state.listening {
                    listening.most = most;
                }
                return Ok(());
            }
            Phase::Fresh => {}
            _ => return Err(libc::EINVAL),
        }
        // What is not taken yet waits there: a request that found no room would come again only after seconds.
        connect::listen(state.id.get(), 0)?;
        state.phase = Phase::Listening;
        state.listening = Some(Listening {
            ready: VecDeque::new(),
            coming: Vec::new(),
            most,
        });
        table::service()?.watch(self.fd, self.fd)
    }

    /// `accept`: a connection that stands, and its number. Without a number it stays, as the
    /// system's do.
    ///
    /// EINVAL, EAGAIN, EMFILE, EINTR, ASLEEP.
    pub fn accept(self: &Arc<Self>, call: &mut Call) -> Result<(Arc<Socket>, RawFd), Errno> {
        let patience = self.patience(0);
        if lock(self.stream()?).phase != Phase::Listening {
            return Err(libc::EINVAL);
        }
        let mut state = self.until(call, patience, |state| {
            state.listening.as_ref().is_none_or(Listening::has_some)
        })?;
        let listening = state.listening.as_mut().ok_or(libc::EINVAL)?;
        let number = listening.ready.front().ok_or(libc::EAGAIN)?.new_number()?;
        let accepted = listening.ready.pop_front().ok_or(libc::EAGAIN)?;
        drop(state);
        // There is room for one more now.
        table::service()?.watch(self.fd, self.fd)?;
        Ok((accepted, number))
    }

    /// `connect` of a stream.
    ///
    /// EINPROGRESS, EALREADY, EISCONN, ASLEEP, and why it could not.
    ///
    /// # Safety
    /// `to` is an address of its family, or NULL.
    pub unsafe fn connect_stream(
        self: &Arc<Self>,
        call: &mut Call,
        to: *const sockaddr,
        length: usize,
    ) -> Result<(), Errno> {
        if call.stage == 0 {
            // SAFETY: the caller's promise.
            let waits = unsafe { self.begin_to_connect(to, length) }?;
            if waits && matches!(self.patience(0), Patience::None) {
                return Err(libc::EINPROGRESS);
            }
            call.stage = 1;
        }
        let mut state = self.until(call, Patience::Endless, |state| !state.phase.is_opening())?;
        state.is_told = true;
        if state.phase.has_link() {
            return Ok(());
        }
        match state.take_error() {
            0 => Err(libc::ECONNABORTED),
            error => Err(error),
        }
    }

    /// Takes the first step of a connection. True if there is a result to wait for.
    ///
    /// # Safety
    /// As for [`Socket::connect_stream`].
    unsafe fn begin_to_connect(&self, to: *const sockaddr, length: usize) -> Result<bool, Errno> {
        let mut state = lock(self.stream()?);
        match state.phase {
            Phase::Fresh => {
                // SAFETY: the caller's promise.
                let needed = unsafe { address::required(to) }? as usize;
                if length < needed {
                    return Err(libc::EINVAL);
                }
                let place = (&raw mut state.destination).cast::<u8>();
                // SAFETY: the address has this length, and any address fits into the storage.
                unsafe { place.copy_from_nonoverlapping(to.cast(), needed) };
                table::service()?.watch(self.fd, self.fd)?;
                let step = state.resolve();
                state.advance(step);
                self.keep_alive(&state);
            }
            phase if phase.is_opening() => return Err(libc::EALREADY),
            phase if phase.has_link() && state.is_told => return Err(libc::EISCONN),
            phase if phase.has_link() || phase == Phase::Refused => {}
            _ => return Err(libc::EINVAL),
        }
        Ok(state.phase.is_opening())
    }

    /// The connection manager has something to say.
    pub fn serve_stream(self: &Arc<Self>) {
        let Ok(stream) = self.stream() else { return };
        let mut state = lock(stream);
        let was_opening = state.phase.is_opening();
        match state.phase {
            Phase::Listening => {
                drop(state);
                self.take_requests(stream);
                return;
            }
            phase if phase.is_opening() => {
                let step = complete(state.id.get());
                state.advance(step);
            }
            _ => {
                if !state.hear_end()
                    && let Ok(service) = table::service()
                {
                    service.forget(self.fd);
                }
            }
        }
        let parent = if state.phase.is_opening() {
            None
        } else {
            std::mem::take(&mut state.parent).upgrade()
        };
        let is_connected = state.phase == Phase::Connected;
        if is_connected && was_opening {
            self.keep_alive(&state);
        }
        drop(state);
        self.waiters.wake();
        if let Some(parent) = parent {
            parent.has_come(self, is_connected);
        }
    }

    /// Answers requests of a listening socket, unless enough wait to be accepted already.
    fn take_requests(self: &Arc<Self>, stream: &Mutex<Stream>) {
        for _ in 0..REQUESTS {
            let state = lock(stream);
            let Some(listening) = &state.listening else {
                return;
            };
            if listening.is_full() {
                // The next `accept` looks again.
                if let Ok(service) = table::service() {
                    service.pause(self.fd, self.fd);
                }
                return;
            }
            // SAFETY: the listener is synchronous.
            let request = match unsafe { endpoint::get_request(state.id.get()) } {
                Ok(pointer) => OwnedId(pointer),
                Err(libc::EAGAIN) => return,
                Err(error) if is_lasting(error) => {
                    if let Ok(service) = table::service() {
                        service.forget(self.fd);
                    }
                    return;
                }
                // Something else was said, or one request could not be taken.
                Err(_) => continue,
            };
            let mut child = Box::new(Stream::new(request, state.settings.clone()));
            child.options = state.options.clone();
            child.parent = Arc::downgrade(self);
            drop(state);
            // One that cannot be answered is refused; its identifier goes.
            if let Err(refused) = self.answer(child) {
                refused.refuse_request();
            }
        }
    }

    /// Answers one request: a queue pair for it, and what we offer.
    fn answer(self: &Arc<Self>, mut child: Box<Stream>) -> Result<(), Box<Stream>> {
        let fd = child.id.fd();
        let prepared = set_nonblocking(fd).and_then(|()| child.prepare());
        let Ok(data) = prepared else {
            return Err(child);
        };
        let param = parameters(&data);
        // SAFETY: the private data have their length.
        let asked = unsafe { connect::accept(child.id.get(), Some(&param)) };
        let step = asked.and_then(|asked| asked.complete(child.id.get()));
        if step.is_err() && step != Err(libc::EAGAIN) {
            return Err(child);
        }
        child.phase = Phase::Accepting;
        let socket = Arc::new(Socket::new(fd, Inner::Stream(Mutex::new(*child))));
        table::insert(fd, &socket);
        if let Ok(stream) = self.stream()
            && let Some(listening) = &mut lock(stream).listening
        {
            listening.coming.push(fd);
        }
        match table::service().and_then(|service| service.watch(fd, fd)) {
            Ok(()) => {}
            Err(_) => self.has_come(&socket, false),
        }
        if step.is_ok()
            && let Ok(stream) = socket.stream()
        {
            let mut state = lock(stream);
            state.advance(Ok(()));
            // It is told now, and not again when the connection ends: then it is the program's.
            state.parent = Weak::new();
            drop(state);
            self.has_come(&socket, true);
        }
        Ok(())
    }

    /// A connection that was answered stands, or will not.
    fn has_come(&self, child: &Arc<Socket>, is_connected: bool) {
        let mut kept = false;
        if let Ok(stream) = self.stream() {
            let state = &mut *lock(stream);
            if let Some(listening) = &mut state.listening {
                listening.coming.retain(|fd| *fd != child.fd);
                if is_connected {
                    listening.ready.push_back(child.clone());
                    state.edges.to_read();
                    kept = true;
                }
            }
        }
        if kept {
            self.waiters.wake();
        } else {
            child.drop_connection();
        }
        // A place may have become free.
        if let Ok(service) = table::service() {
            let _ = service.watch(self.fd, self.fd);
        }
    }
}

impl Stream {
    /// Makes the queue pair of a request, and says what is offered.
    fn prepare(&mut self) -> Result<Vec<u8>, Errno> {
        let id = self.id.get();
        let data = private_data(id);
        let offer = data.get(header(id)..).and_then(Offer::parse);
        let offer = offer.ok_or(libc::EPROTO)?;
        let table = self.settings.mappings;
        // SAFETY: the stream drops the link before the identifier.
        let mut link = unsafe { Link::new(id, &mut self.settings, table) }?;
        link.take_offer(&offer);
        let bytes = link.offer().to_bytes().to_vec();
        self.link = Some(link);
        Ok(bytes)
    }

    fn refuse_request(self) {
        // SAFETY: no data. The request may be gone already.
        let _ =
            unsafe { connect::reject(self.id.0, std::ptr::null(), 0, connect::CONSUMER_REJECT) };
    }
}
