//! A stream socket: what state it is in, and how its bytes come and go.
//!
//! Everything of a socket lies behind one lock, which nobody holds while asleep. Whoever looks at the socket first takes what
//! its queue pair has completed ([`Stream::process`]); the end of a connection is heard by [`super::connect`].

use super::connect::{Listening, OwnedId};
use super::link::{FIRST_PIECE, Link, MOST_PIECE};
use super::memory::Vectors;
use super::options::Options;
use super::settings::Settings;
use super::wait::{ASLEEP, Call, Listener, Patience, set_nonblocking, to_its_end};
use super::wire::Control;
use super::{Inner, Socket, table};
use crate::boundary::Errno;
use crate::connect as cm;
use libc::{c_int, sockaddr_storage};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

/// How long closing waits for what was sent to arrive, unless SO_LINGER says otherwise. A peer that is stopped takes nothing.
const LINGER: Duration = Duration::from_secs(60);

/// Where a socket is between its making and its end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    /// Made, or bound.
    Fresh,
    /// Takes connections.
    Listening,
    /// Looks for the device and the address.
    Resolving,
    /// Looks for the path.
    Routing,
    /// Has asked.
    Connecting,
    /// Has answered.
    Accepting,
    /// Bytes may come or go.
    Connected,
    /// The connection manager says that it is over; what arrived before is still being told.
    Ending,
    /// Could not connect.
    Refused,
    /// Both sides have said that they are done, or one of them is gone.
    Closed,
    /// The adapter gave up.
    Broken,
}

impl Phase {
    /// On the way to a connection.
    pub fn is_opening(self) -> bool {
        matches!(
            self,
            Phase::Resolving | Phase::Routing | Phase::Connecting | Phase::Accepting
        )
    }

    /// Was connected, once.
    pub fn has_link(self) -> bool {
        matches!(
            self,
            Phase::Connected | Phase::Ending | Phase::Closed | Phase::Broken
        )
    }
}

/// How often something came that a reader or a writer may wait for: an edge, in epoll's words.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Edges {
    /// Bytes, connections, or the end.
    pub reading: u32,
    /// Room, after there was none, or the end.
    pub writing: u32,
}

impl Edges {
    /// One for readers.
    pub fn to_read(&mut self) {
        self.reading = self.reading.wrapping_add(1);
    }

    /// One for writers.
    pub fn to_write(&mut self) {
        self.writing = self.writing.wrapping_add(1);
    }

    /// One for both.
    pub fn both(&mut self) {
        self.to_read();
        self.to_write();
    }
}

/// A stream socket's state.
pub struct Stream {
    /// Queue pair and buffers, from asking or answering on. Dropped before the identifier that they belong to.
    pub link: Option<Link>,
    /// The connection manager's side.
    pub id: OwnedId,
    /// Where it is.
    pub phase: Phase,
    /// The other side may still send.
    pub is_readable: bool,
    /// This side may still send.
    pub is_writable: bool,
    /// This side has said that it sends nothing more.
    pub has_shut: bool,
    /// What SO_ERROR tells, once.
    pub error: Errno,
    /// The result of `rconnect` was told.
    pub is_told: bool,
    /// Sizes, of this socket or of those that it accepts.
    pub settings: Settings,
    /// Options.
    pub options: Options,
    /// How often a look-up was tried.
    pub tries: u32,
    /// The path that the program chose.
    pub route: Option<Vec<u8>>,
    /// Where it connects to.
    pub destination: sockaddr_storage,
    /// Connections that wait to be accepted.
    pub listening: Option<Listening>,
    /// The listening socket that it came from, until it is connected.
    pub parent: Weak<Socket>,
    /// What came.
    pub edges: Edges,
    /// Somebody found no room to send.
    is_blocked: bool,
}

impl Stream {
    /// A socket over an identifier.
    pub fn new(id: OwnedId, settings: Settings) -> Self {
        Stream {
            link: None,
            id,
            phase: Phase::Fresh,
            is_readable: false,
            is_writable: false,
            has_shut: false,
            error: 0,
            is_told: false,
            settings,
            options: Options::default(),
            tries: 0,
            route: None,
            // SAFETY: zeros are an address of no family.
            destination: unsafe { std::mem::zeroed() },
            listening: None,
            parent: Weak::new(),
            edges: Edges::default(),
            is_blocked: false,
        }
    }

    /// Bytes lie here unread.
    pub fn has_data(&self) -> bool {
        self.link.as_ref().is_some_and(Link::has_data)
    }

    /// Something can be sent now.
    pub fn can_send(&mut self) -> bool {
        self.is_writable && self.link.as_mut().is_some_and(Link::can_send)
    }

    /// Buffers were mapped that the other side has not been told of.
    fn has_untold(&self) -> bool {
        self.link.as_ref().is_some_and(Link::has_untold)
    }

    /// Takes what has completed, and grants what is due.
    pub fn process(&mut self) {
        self.take_completions();
        if self.is_blocked && self.is_ready_to_write() {
            self.edges.to_write();
        }
    }

    fn take_completions(&mut self) {
        let Some(link) = &mut self.link else { return };
        let is_open = self.phase == Phase::Connected;
        let heard = link.poll(is_open);
        if heard.data {
            self.edges.to_read();
        }
        if self.phase == Phase::Ending && (heard.disconnect || link.is_flushed()) {
            return self.end(Phase::Closed);
        }
        if !is_open {
            return;
        }
        // The last words may come with the failure that follows them.
        if heard.disconnect {
            return self.end(Phase::Closed);
        }
        if heard.shutdown {
            self.is_readable = false;
            self.edges.to_read();
            if !self.is_writable {
                return self.end(Phase::Closed);
            }
        }
        if let Some(error) = heard.failure.or_else(|| link.grant().err()) {
            self.fail(error);
        }
    }

    /// Nothing comes or goes any more. What has come can still be read.
    pub fn end(&mut self, phase: Phase) {
        self.phase = phase;
        self.is_readable = false;
        self.is_writable = false;
        self.edges.both();
    }

    /// The connection does not work any more.
    pub fn fail(&mut self, error: Errno) {
        self.error = error;
        self.end(Phase::Broken);
    }

    /// The pending error, which is told once.
    pub fn take_error(&mut self) -> Errno {
        std::mem::take(&mut self.error)
    }

    /// Something to read, or nothing will come.
    fn is_ready_to_read(&self) -> bool {
        self.has_data() || !self.is_readable
    }

    /// Room to send, or nothing will go.
    fn is_ready_to_write(&mut self) -> bool {
        let is_ready = !self.is_writable || self.can_send();
        self.is_blocked = !is_ready;
        is_ready
    }

    /// What poll(2) says of a socket like this.
    pub fn readiness(&mut self, wanted: i16) -> i16 {
        let (reading, writing) = (
            wanted & (libc::POLLIN | libc::POLLRDNORM),
            wanted & (libc::POLLOUT | libc::POLLWRNORM),
        );
        match self.phase {
            Phase::Fresh => libc::POLLHUP | writing,
            Phase::Listening => match &self.listening {
                Some(listening) if listening.has_some() => reading,
                _ => 0,
            },
            Phase::Refused => reading | writing | libc::POLLERR | libc::POLLHUP,
            phase if phase.is_opening() => 0,
            phase => {
                let mut ready = 0;
                if self.is_ready_to_read() {
                    ready |= reading;
                }
                if writing != 0 && self.is_ready_to_write() {
                    ready |= writing;
                }
                if !self.is_readable {
                    ready |= wanted & libc::POLLRDHUP;
                }
                // What has come is read before the end is told, which a program may take for an error.
                let is_over = matches!(phase, Phase::Closed | Phase::Broken);
                if is_over && !self.has_data() {
                    ready |= libc::POLLHUP;
                }
                if phase == Phase::Broken && self.error != 0 {
                    ready |= libc::POLLERR;
                }
                ready
            }
        }
    }
}

/// The lock of a stream's state. Each change leaves it whole, and a panic ends the call only.
pub fn lock(stream: &Mutex<Stream>) -> MutexGuard<'_, Stream> {
    stream.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Socket {
    /// The state of a stream socket; EOPNOTSUPP for datagrams.
    pub fn stream(&self) -> Result<&Mutex<Stream>, Errno> {
        match &self.inner {
            Inner::Stream(stream) => Ok(stream),
            Inner::Datagram(_) => Err(libc::EOPNOTSUPP),
        }
    }

    /// How long a call with these flags waits.
    pub fn patience(&self, flags: c_int) -> Patience {
        if self.is_nonblocking() || flags & libc::MSG_DONTWAIT != 0 {
            Patience::None
        } else {
            Patience::Endless
        }
    }

    /// Waits until `test` is true of the state, which is returned locked.
    ///
    /// EAGAIN when patience is at its end, EINTR, ASLEEP.
    pub fn until(
        self: &Arc<Self>,
        call: &mut Call,
        patience: Patience,
        mut test: impl FnMut(&mut Stream) -> bool,
    ) -> Result<MutexGuard<'_, Stream>, Errno> {
        let stream = self.stream()?;
        call.until(self, patience, || {
            let mut state = lock(stream);
            state.process();
            test(&mut state).then_some(state)
        })
    }

    /// Takes the queue pair's event. Others that slept for it look for themselves.
    pub fn take_event(&self, own: &dyn Listener) {
        let Inner::Stream(stream) = &self.inner else {
            return;
        };
        let mut state = lock(stream);
        let was_there = state.link.as_mut().is_some_and(Link::take_event);
        drop(state);
        if was_there {
            self.waiters.wake_others(Some(own));
        }
    }

    /// A connection that is on its way is waited for; ENOTCONN if there is none.
    fn must_be_connected(
        self: &Arc<Self>,
        call: &mut Call,
        patience: Patience,
    ) -> Result<(), Errno> {
        let state = lock(self.stream()?);
        match state.phase {
            phase if phase.has_link() => return Ok(()),
            phase if !phase.is_opening() => return Err(libc::ENOTCONN),
            _ => {}
        }
        drop(state);
        let mut state = self.until(call, patience, |state| !state.phase.is_opening())?;
        if state.phase.has_link() {
            return Ok(());
        }
        match state.take_error() {
            0 => Err(libc::ENOTCONN),
            error => Err(error),
        }
    }

    /// Receives into `sink`: how many bytes; 0 at the end of the stream.
    ///
    /// EAGAIN, ECONNRESET, ENOTCONN, EINTR, ASLEEP, and what broke the connection.
    pub fn receive(
        self: &Arc<Self>,
        call: &mut Call,
        mut sink: Vectors<'_>,
        flags: c_int,
    ) -> Result<usize, Errno> {
        let patience = self.patience(flags);
        if sink.left() == 0 {
            return self.must_be_connected(call, patience).map(|()| 0);
        }
        sink.skip(call.done);
        let peeks = flags & libc::MSG_PEEK != 0;
        let waits_for_all = flags & libc::MSG_WAITALL != 0 && !peeks;
        loop {
            let mut state = match self.ready_to_receive(call, patience) {
                Ok(state) => state,
                Err(error) if call.done == 0 || error == ASLEEP => return Err(error),
                Err(_) => return Ok(call.done),
            };
            let link = state.link.as_mut().ok_or(libc::ENOTCONN)?;
            let part = link.receive(&mut sink, peeks);
            call.done += part;
            if part == 0 {
                let error = match call.done {
                    0 => state.take_error(),
                    _ => 0,
                };
                return if error == 0 {
                    Ok(call.done)
                } else {
                    Err(error)
                };
            }
            if state.phase == Phase::Connected
                && let Some(link) = &mut state.link
                && let Err(error) = link.grant()
            {
                state.fail(error);
            }
            if sink.left() == 0 || !waits_for_all {
                return Ok(call.done);
            }
        }
    }

    /// Waits until something can be read, or nothing will come.
    fn ready_to_receive(
        self: &Arc<Self>,
        call: &mut Call,
        patience: Patience,
    ) -> Result<MutexGuard<'_, Stream>, Errno> {
        let state = lock(self.stream()?);
        if state.has_data() {
            return Ok(state);
        }
        drop(state);
        self.must_be_connected(call, patience)?;
        self.until(call, patience, |state| state.is_ready_to_read())
    }

    /// Sends what `source` has, all of it unless the call does not wait.
    ///
    /// EAGAIN, EPIPE after this side has shut down, ECONNRESET, ENOTCONN, EINTR, ASLEEP.
    pub fn send(
        self: &Arc<Self>,
        call: &mut Call,
        mut source: Vectors<'_>,
        flags: c_int,
    ) -> Result<usize, Errno> {
        let patience = self.patience(flags);
        if source.left() == 0 {
            return self.must_be_connected(call, patience).map(|()| 0);
        }
        source.skip(call.done);
        let mut piece = first_piece(call);
        loop {
            let mut state = match self.ready_to_send(call, patience) {
                Ok(state) => state,
                Err(error) if call.done == 0 || error == ASLEEP => return Err(error),
                Err(_) => return Ok(call.done),
            };
            let link = state.link.as_mut().ok_or(libc::ENOTCONN)?;
            match link.send(&mut source, piece) {
                Ok(part) => call.done += part,
                Err(error) => {
                    state.fail(error);
                    return match call.done {
                        0 => Err(state.take_error()),
                        done => Ok(done),
                    };
                }
            }
            if source.left() == 0 {
                return Ok(call.done);
            }
            piece = (2 * piece).min(MOST_PIECE);
        }
    }

    /// Waits until something can be sent, and what must go before it has gone.
    pub fn ready_to_send(
        self: &Arc<Self>,
        call: &mut Call,
        patience: Patience,
    ) -> Result<MutexGuard<'_, Stream>, Errno> {
        // Completions are taken when there is no room, or now and then by whoever reads.
        let mut state = lock(self.stream()?);
        let is_ready = !state.has_untold() && state.can_send();
        if !is_ready {
            drop(state);
            self.must_be_connected(call, patience)?;
            self.send_mappings(call, patience)?;
            state = self.until(call, patience, Stream::is_ready_to_write)?;
        }
        if state.is_writable {
            return Ok(state);
        }
        Err(match (state.has_shut, state.take_error()) {
            (true, _) => libc::EPIPE,
            (false, 0) => libc::ECONNRESET,
            (false, error) => error,
        })
    }

    /// `shutdown`: says what ends, and waits until what was sent has arrived.
    ///
    /// ENOTCONN, EINVAL, ASLEEP.
    pub fn shut(self: &Arc<Self>, call: &mut Call, how: c_int) -> Result<(), Errno> {
        if call.stage == 0 && !self.begin_to_shut(how)? {
            return Ok(());
        }
        let last = match lock(self.stream()?).is_readable {
            true => Control::Shutdown,
            false => Control::Disconnect,
        };
        self.tell_end(call, last, LINGER)
    }

    /// Ends what a program wants ended. True if the other side is to be told.
    fn begin_to_shut(&self, how: c_int) -> Result<bool, Errno> {
        let mut state = lock(self.stream()?);
        if state.phase == Phase::Listening {
            drop(state);
            self.stop_listening();
            return Ok(false);
        }
        if !state.phase.has_link() {
            return Err(libc::ENOTCONN);
        }
        let (reads, writes) = match how {
            libc::SHUT_RD => (false, state.is_writable),
            libc::SHUT_WR => (state.is_readable, false),
            libc::SHUT_RDWR => (false, false),
            _ => return Err(libc::EINVAL),
        };
        if state.phase != Phase::Connected {
            return Ok(false);
        }
        let wrote = state.is_writable;
        state.is_readable = reads;
        state.is_writable = writes;
        state.has_shut |= !writes;
        state.edges.both();
        drop(state);
        self.waiters.wake();
        let was_said = !wrote && reads;
        Ok(!writes && !was_said)
    }

    /// Sends a last word, and waits until all that was sent has arrived. The stages of the call
    /// are: begun, said.
    fn tell_end(
        self: &Arc<Self>,
        call: &mut Call,
        last: Control,
        patience: Duration,
    ) -> Result<(), Errno> {
        const BEGUN: u32 = 1;
        const SAID: u32 = 2;
        call.stage = call.stage.max(BEGUN);
        let end = *call.end.get_or_insert_with(|| Instant::now() + patience);
        let patience = Patience::Until(end);
        let over = |state: &Stream| state.phase != Phase::Connected;
        if call.stage < SAID {
            let mut state = self.until(call, patience, |state| {
                over(state) || state.link.as_ref().is_some_and(Link::can_control)
            })?;
            if !over(&state)
                && let Some(link) = &mut state.link
                && let Err(error) = link.control(last)
            {
                state.fail(error);
            }
            call.stage = SAID;
        }
        let state = self.until(call, patience, |state| {
            over(state) || state.link.as_ref().is_some_and(Link::is_drained)
        })?;
        drop(state);
        self.waiters.wake();
        Ok(())
    }

    /// Begins to close a stream socket: it takes and gives nothing any more.
    pub fn begin_to_close_stream(&self) {
        self.stop_listening();
        let Ok(stream) = self.stream() else { return };
        let mut state = lock(stream);
        state.is_readable = false;
        state.is_writable = false;
        state.has_shut = true;
    }

    /// Waits until what was sent has arrived, unless the program said that it need not. It ends
    /// here whether the other side has heard of it or not.
    ///
    /// ASLEEP.
    pub fn linger(self: &Arc<Self>, call: &mut Call) -> Result<(), Errno> {
        let state = lock(self.stream()?);
        let linger = state.options.linger.unwrap_or(LINGER);
        let is_connected = state.phase == Phase::Connected;
        drop(state);
        if !is_connected || linger.is_zero() {
            return Ok(());
        }
        self.tell_end(call, Control::Disconnect, linger)
    }

    /// Ends the connection for the connection manager, too.
    pub fn hang_up(&self, state: &mut Stream) {
        if state.link.is_some() {
            state.end(Phase::Closed);
            // The other side may have ended it before.
            let id = state.id.get();
            let _ = cm::disconnect(id).and_then(|asked| asked.complete(id));
        }
        self.waiters.wake();
    }

    /// The process ends, with this socket open: what was sent arrives until `end`, and the other side hears of it.
    pub fn abort(self: &Arc<Self>, end: Instant) {
        let Inner::Stream(stream) = &self.inner else {
            return;
        };
        // Threads still run, and one may hold it, or this one does, in the middle of a call: then the end of the process itself
        // is noticed, on this host at least.
        let Ok(state) = stream.try_lock() else {
            return;
        };
        let is_connected = state.phase == Phase::Connected;
        drop(state);
        let left = end.saturating_duration_since(Instant::now());
        if is_connected && !left.is_zero() {
            // It ends here whether the other side has heard of it or not.
            let _ = to_its_end(|call| self.tell_end(call, Control::Disconnect, left));
        }
        if let Ok(mut state) = stream.try_lock() {
            self.hang_up(&mut state);
        }
    }

    /// Takes no connection any more; those that nobody accepted end.
    fn stop_listening(&self) {
        let Ok(stream) = self.stream() else { return };
        let mut state = lock(stream);
        let Some(listening) = state.listening.take() else {
            return;
        };
        state.phase = Phase::Refused;
        state.error = libc::EINVAL;
        state.edges.both();
        drop(state);
        for socket in listening.into_sockets() {
            socket.drop_connection();
        }
        self.waiters.wake();
    }

    /// Ends a connection that the program never had, without waiting for anything.
    pub fn drop_connection(self: &Arc<Self>) {
        if let Ok(stream) = self.stream() {
            self.hang_up(&mut lock(stream));
        }
        self.close();
    }

    /// A connection stands: it is kept alive if the program wants that.
    pub fn keep_alive(&self, state: &Stream) {
        if let Some(idle) = state.options.keep_alive()
            && state.phase == Phase::Connected
            && let Ok(service) = table::service()
        {
            service.set_timer(self.fd, Some(idle));
        }
    }

    /// Asks whether the other side is still there, and when to ask again.
    pub fn tick_stream(&self) {
        let Ok(stream) = self.stream() else { return };
        let mut state = lock(stream);
        state.process();
        if state.phase == Phase::Connected
            && state.options.keep_alive().is_some()
            && let Some(link) = &mut state.link
            && link.can_control()
            && let Err(error) = link.probe()
        {
            state.fail(error);
        }
        self.keep_alive(&state);
        drop(state);
        self.waiters.wake();
    }
}

/// How much a call sends in its next piece: twice as much as in the one before.
pub fn first_piece(call: &Call) -> usize {
    call.done.clamp(FIRST_PIECE, MOST_PIECE)
}

/// A new stream socket.
pub fn open(domain: c_int) -> Result<Arc<Socket>, Errno> {
    let id = OwnedId::new(domain)?;
    let fd = id.fd();
    set_nonblocking(fd)?;
    let stream = Stream::new(id, Settings::default());
    Ok(Arc::new(Socket::new(fd, Inner::Stream(Mutex::new(stream)))))
}
