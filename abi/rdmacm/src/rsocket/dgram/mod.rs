//! Datagram sockets: a UDP socket, and queue pairs beside it.
//!
//! A datagram to somebody whose queue pair is not known goes through the UDP socket, behind a header that names the sender's
//! own queue pair; the answer names the other's, and from then on datagrams go from queue pair to queue pair. There is a
//! queue pair for each local address that something was sent from. Datagrams may be lost, and are when there is no room.
//!
//! The UDP socket is read by the service thread only. Its datagrams come from anybody: what is kept of them is bounded.

mod address;
mod pair;

use super::memory::Vectors;
use super::settings::{LOW_WATER, Settings};
use super::stream::Edges;
use super::wait::{Call, Listener, Patience, Waiters};
use super::wire::{Greeting, Sender};
use super::{Inner, Socket, table};
use crate::boundary::{Errno, errno};
use crate::id::get;
use crate::verbs;
use address::{from_raw, name_of, to_storage, udp_socket};
use ferriband_verbs_sys::*;
use libc::{c_int, c_void, sockaddr, sockaddr_storage, socklen_t};
use pair::{Pair, Remote, find_path};
use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Bytes of a place for a datagram, our header included.
const SLOT: usize = LOW_WATER as usize;
/// Bytes in front of a received datagram.
const GRH: usize = 40;
/// Other sockets that are known at a time; one more, and the one that was longest unused is forgotten.
const MOST_DESTINATIONS: usize = 4096;
/// After this long a datagram goes through the UDP socket once more: the other side may have been started anew.
const TRUSTED: Duration = Duration::from_secs(5);
/// Datagrams read from the UDP socket in one go.
const GREETINGS: usize = 64;
/// In the number of a receive's completion.
const IS_RECEIVE: u64 = 1 << 63;

/// A datagram socket.
pub struct Datagrams {
    udp: OwnedFd,
    state: Mutex<State>,
}

struct State {
    settings: Settings,
    /// The service thread reads the UDP socket.
    is_served: bool,
    is_shut: bool,
    // Dropped before the queue pairs whose domains its address handles are of.
    destinations: HashMap<SocketAddr, Destination>,
    pairs: Vec<Pair>,
    connected: Option<SocketAddr>,
    /// Datagrams that nobody has read.
    arrived: VecDeque<Arrived>,
    /// What came.
    edges: Edges,
    /// Somebody found no room to send.
    is_blocked: bool,
}

/// A datagram: in a place of a queue pair, or, if it came through the UDP socket, beside.
enum Arrived {
    InPlace {
        pair: usize,
        slot: usize,
        length: usize,
    },
    Beside {
        from: SocketAddr,
        bytes: Vec<u8>,
    },
}

struct Destination {
    /// The queue pair here that sends to it.
    pair: usize,
    /// The queue pair there, once it is known.
    remote: Option<Remote>,
    used: Instant,
}

impl State {
    /// Takes what has completed.
    fn process(&mut self) {
        let most = self.settings.receive_work as usize;
        let mut places = [ibv_wc::default(); 16];
        for (index, pair) in self.pairs.iter_mut().enumerate() {
            loop {
                // SAFETY: the pair's queue.
                let count = unsafe { verbs::poll_cq(pair.cq, &mut places) }.unwrap_or(0);
                for completion in &places[..count] {
                    let slot = (completion.wr_id & !IS_RECEIVE) as usize;
                    if completion.wr_id & IS_RECEIVE == 0 {
                        pair.free.push(slot);
                        continue;
                    }
                    if completion.status != IBV_WC_SUCCESS {
                        continue;
                    }
                    let length = (completion.byte_len as usize).saturating_sub(GRH).min(SLOT);
                    let is_whole = pair.header(slot, length).is_some();
                    if is_whole && self.arrived.len() < most {
                        self.edges.to_read();
                        self.arrived.push_back(Arrived::InPlace {
                            pair: index,
                            slot,
                            length,
                        });
                    } else {
                        // Lost, as datagrams are. A place that cannot be posted again is lost, too.
                        let _ = pair.post_receive(slot);
                    }
                }
                if count < places.len() {
                    break;
                }
            }
        }
        if self.is_blocked && self.can_send() {
            self.is_blocked = false;
            self.edges.to_write();
        }
    }

    fn can_send(&self) -> bool {
        // Before there is a queue pair there is the UDP socket.
        self.pairs.iter().all(|pair| !pair.free.is_empty())
    }

    fn is_drained(&self) -> bool {
        self.pairs.iter().all(|pair| pair.free.len() == pair.slots)
    }
}

/// A new datagram socket.
pub fn open(domain: c_int) -> Result<Arc<Socket>, Errno> {
    crate::private::functions()?;
    let udp = udp_socket(domain)?;
    let fd = udp.as_raw_fd();
    let datagrams = Datagrams {
        udp,
        state: Mutex::new(State {
            settings: Settings::default(),
            is_served: false,
            is_shut: false,
            destinations: HashMap::new(),
            pairs: Vec::new(),
            connected: None,
            arrived: VecDeque::new(),
            edges: Edges::default(),
            is_blocked: false,
        }),
    };
    Ok(Arc::new(Socket::new(fd, Inner::Datagram(datagrams))))
}

impl Datagrams {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Each change leaves it whole, and a panic ends the call only.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fd(&self) -> RawFd {
        self.udp.as_raw_fd()
    }

    /// Has the service thread read the UDP socket.
    fn serve_from_now(&self, state: &mut State) -> Result<(), Errno> {
        if !state.is_served {
            table::service()?.watch(self.fd(), self.fd())?;
            state.is_served = true;
        }
        Ok(())
    }

    /// `bind`.
    ///
    /// # Safety
    /// `to` has `length` bytes.
    pub unsafe fn bind(&self, to: *const sockaddr, length: socklen_t) -> Result<(), Errno> {
        let mut state = self.lock();
        // SAFETY: the caller's promise.
        if unsafe { libc::bind(self.fd(), to, length) } != 0 {
            return Err(errno());
        }
        self.serve_from_now(&mut state)
    }

    /// `connect`: where `rsend` goes.
    ///
    /// # Safety
    /// `to` has `length` bytes.
    pub unsafe fn connect(&self, to: *const sockaddr, length: socklen_t) -> Result<(), Errno> {
        // SAFETY: the caller's promise.
        let address = unsafe { from_raw(to, length) }?;
        let mut state = self.lock();
        // SAFETY: the caller's promise.
        if unsafe { libc::connect(self.fd(), to, length) } != 0 {
            return Err(errno());
        }
        self.serve_from_now(&mut state)?;
        self.destination(&mut state, address)?;
        state.connected = Some(address);
        Ok(())
    }

    /// Makes sure that there is a queue pair to send to this address from.
    fn destination(&self, state: &mut State, to: SocketAddr) -> Result<(), Errno> {
        let now = Instant::now();
        if let Some(known) = state.destinations.get_mut(&to) {
            known.used = now;
            return Ok(());
        }
        let local = self.local_for(to)?;
        let pair = match state.pairs.iter().position(|pair| pair.local == local) {
            Some(pair) => pair,
            None => {
                let pair = Pair::new(local, &mut state.settings)?;
                state.pairs.push(pair);
                state.pairs.len() - 1
            }
        };
        if state.destinations.len() >= MOST_DESTINATIONS {
            let oldest = state
                .destinations
                .iter()
                .min_by_key(|(_, known)| known.used);
            let oldest = oldest.map(|(address, _)| *address);
            oldest.and_then(|address| state.destinations.remove(&address));
        }
        let known = Destination {
            pair,
            remote: None,
            used: now,
        };
        state.destinations.insert(to, known);
        Ok(())
    }

    /// The address that the kernel would send from.
    fn local_for(&self, to: SocketAddr) -> Result<SocketAddr, Errno> {
        let bound = name_of(self.fd())?;
        if bound.port() == 0 {
            // The kernel chooses a port when something is sent; it must be known before.
            let (any, length) = to_storage(&SocketAddr::new(bound.ip(), 0));
            // SAFETY: an address of this length.
            if unsafe { libc::bind(self.fd(), (&raw const any).cast(), length) } != 0 {
                return Err(errno());
            }
            return self.local_for(to);
        }
        if !bound.ip().is_unspecified() {
            return Ok(bound);
        }
        let (storage, length) = to_storage(&to);
        let probe = udp_socket(c_int::from(storage.ss_family))?;
        // SAFETY: an address of this length.
        if unsafe { libc::connect(probe.as_raw_fd(), (&raw const storage).cast(), length) } != 0 {
            return Err(errno());
        }
        let mut local = name_of(probe.as_raw_fd())?;
        local.set_port(bound.port());
        Ok(local)
    }

    /// Sends one datagram, to `to` or to where the socket is connected.
    ///
    /// EDESTADDRREQ, EMSGSIZE, EAGAIN, ENODEV, ASLEEP.
    ///
    /// # Safety
    /// `to` is NULL or as long as it says.
    pub unsafe fn send(
        &self,
        socket: &Arc<Socket>,
        call: &mut Call,
        mut source: Vectors<'_>,
        (to, length): (*const sockaddr, socklen_t),
        flags: c_int,
    ) -> Result<usize, Errno> {
        let count = source.left();
        if count > SLOT - Greeting::MOST_BYTES {
            return Err(libc::EMSGSIZE);
        }
        let mut state = self.lock();
        let to = if to.is_null() {
            state.connected.ok_or(libc::EDESTADDRREQ)?
        } else {
            // SAFETY: the caller's promise.
            unsafe { from_raw(to, length) }?
        };
        if state.is_shut {
            return Err(libc::EPIPE);
        }
        self.serve_from_now(&mut state)?;
        self.destination(&mut state, to)?;
        let index = state.destinations[&to].pair;
        let fits = count + Sender::MOST_BYTES <= state.pairs[index].most;
        let is_known = |state: &State| {
            let remote = state
                .destinations
                .get(&to)
                .and_then(|known| known.remote.as_ref());
            remote.is_some_and(|remote| remote.learned.elapsed() < TRUSTED)
        };
        if !fits || !is_known(&state) {
            return self.greet(&state.pairs[index], to, &mut source, true);
        }
        if state.pairs[index].free.is_empty() {
            state.is_blocked = true;
            drop(state);
            state = self.until(socket, call, socket.patience(flags), |state| {
                !state.pairs[index].free.is_empty()
            })?;
        }
        let State {
            destinations,
            pairs,
            ..
        } = &mut *state;
        let remote = destinations
            .get(&to)
            .and_then(|known| known.remote.as_ref());
        // It may have been forgotten meanwhile; then this one is lost.
        if let Some(remote) = remote {
            pairs[index].send(&mut source, remote)?;
        }
        Ok(count)
    }

    /// Sends through the UDP socket, naming the queue pair.
    fn greet(
        &self,
        pair: &Pair,
        to: SocketAddr,
        source: &mut Vectors<'_>,
        has_data: bool,
    ) -> Result<usize, Errno> {
        let greeting = Greeting {
            has_data,
            pair: pair.number(),
            address: pair.local.ip(),
        };
        let (header, before) = greeting.to_bytes();
        let mut bytes = [0u8; SLOT];
        bytes[..before].copy_from_slice(&header[..before]);
        let count = source.left();
        source.copy_to(bytes[before..].as_mut_ptr(), count);
        let (storage, length) = to_storage(&to);
        // SAFETY: bytes and address have these lengths.
        let sent = unsafe {
            libc::sendto(
                self.fd(),
                bytes.as_ptr().cast(),
                before + count,
                libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL,
                (&raw const storage).cast(),
                length,
            )
        };
        if sent < 0 { Err(errno()) } else { Ok(count) }
    }

    /// Receives one datagram: how many bytes had room, and who sent it.
    pub fn receive(
        &self,
        socket: &Arc<Socket>,
        call: &mut Call,
        mut sink: Vectors<'_>,
        flags: c_int,
    ) -> Result<(usize, sockaddr_storage), Errno> {
        let mut state = self.until(socket, call, socket.patience(flags), |state| {
            !state.arrived.is_empty() || state.is_shut
        })?;
        let State { arrived, pairs, .. } = &mut *state;
        let Some(first) = arrived.front() else {
            // SAFETY: zeros are an address of no family.
            return Ok((0, unsafe { std::mem::zeroed() }));
        };
        let (count, from) = match first {
            Arrived::InPlace { pair, slot, length } => {
                let pair = &pairs[*pair];
                let (sender, before) = pair.header(*slot, *length).ok_or(libc::EIO)?;
                let count = (length - before).min(sink.left());
                sink.copy_from(pair.incoming.at(slot * SLOT + before), count);
                let from = match sender.address {
                    IpAddr::V4(address) => SocketAddrV4::new(address, sender.port).into(),
                    IpAddr::V6(address) => {
                        SocketAddrV6::new(address, sender.port, sender.flow, 0).into()
                    }
                };
                (count, from)
            }
            Arrived::Beside { from, bytes } => {
                let count = bytes.len().min(sink.left());
                sink.copy_from(bytes.as_ptr(), count);
                (count, *from)
            }
        };
        if flags & libc::MSG_PEEK == 0
            && let Some(Arrived::InPlace { pair, slot, .. }) = arrived.pop_front()
        {
            // A place that cannot be posted again is lost.
            let _ = pairs[pair].post_receive(slot);
        }
        Ok((count, to_storage(&from).0))
    }

    /// Waits until `test` is true of the state, which is returned locked.
    fn until(
        &self,
        socket: &Arc<Socket>,
        call: &mut Call,
        patience: Patience,
        mut test: impl FnMut(&mut State) -> bool,
    ) -> Result<MutexGuard<'_, State>, Errno> {
        call.until(socket, patience, || {
            let mut state = self.lock();
            state.process();
            test(&mut state).then_some(state)
        })
    }

    /// What poll(2) would say, and how often something came.
    pub fn readiness(&self, wanted: i16) -> (i16, Edges) {
        let mut state = self.lock();
        state.process();
        let mut ready = 0;
        if !state.arrived.is_empty() || state.is_shut {
            ready |= wanted & (libc::POLLIN | libc::POLLRDNORM);
        }
        let writing = wanted & (libc::POLLOUT | libc::POLLWRNORM);
        if state.can_send() {
            ready |= writing;
        } else if writing != 0 {
            state.is_blocked = true;
        }
        (ready, state.edges)
    }

    /// Asks for events, and tells `each` descriptor behind which they come.
    pub fn arm(&self, each: &mut dyn FnMut(RawFd) -> Result<(), Errno>) -> Result<(), Errno> {
        for pair in &mut self.lock().pairs {
            pair.arm()?;
            each(pair.fd)?;
        }
        Ok(())
    }

    /// Tells `each` descriptor behind which events come.
    pub fn descriptors(&self, each: &mut dyn FnMut(RawFd)) {
        self.lock().pairs.iter().for_each(|pair| each(pair.fd));
    }

    /// Takes the events that came.
    pub fn take_events(&self, waiters: &Waiters, own: &dyn Listener) {
        let mut was_there = false;
        for pair in &mut self.lock().pairs {
            // SAFETY: the pair's channel, which is non-blocking.
            if unsafe { verbs::take_cq_event(pair.channel) } {
                pair.is_armed = false;
                was_there = true;
            }
        }
        if was_there {
            waiters.wake_others(Some(own));
        }
    }

    /// `shutdown`.
    pub fn shut(&self, how: c_int, waiters: &Waiters) -> Result<(), Errno> {
        if !matches!(how, libc::SHUT_RD | libc::SHUT_WR | libc::SHUT_RDWR) {
            return Err(libc::EINVAL);
        }
        let mut state = self.lock();
        if state.connected.is_none() {
            return Err(libc::ENOTCONN);
        }
        state.is_shut = true;
        state.edges.both();
        drop(state);
        waiters.wake();
        Ok(())
    }

    /// Before the socket ends: what was sent leaves. Datagrams that do not leave in time are lost.
    ///
    /// ASLEEP.
    pub fn linger(&self, socket: &Arc<Socket>, call: &mut Call) -> Result<(), Errno> {
        const LINGER: Duration = Duration::from_secs(1);
        let end = *call.end.get_or_insert_with(|| Instant::now() + LINGER);
        let patience = Patience::Until(end);
        self.until(socket, call, patience, |state| state.is_drained())
            .map(drop)
    }

    /// Ends the socket.
    pub fn end(&self) {
        self.lock().is_shut = true;
    }

    /// The UDP socket has something.
    pub fn serve(&self, waiters: &Waiters) {
        for _ in 0..GREETINGS {
            let mut bytes = [0u8; SLOT];
            // SAFETY: zeros are an address of no family.
            let mut from: sockaddr_storage = unsafe { std::mem::zeroed() };
            let mut length = size_of::<sockaddr_storage>() as socklen_t;
            // SAFETY: the places have these lengths.
            let count = unsafe {
                libc::recvfrom(
                    self.fd(),
                    bytes.as_mut_ptr().cast(),
                    bytes.len(),
                    libc::MSG_DONTWAIT,
                    (&raw mut from).cast(),
                    &raw mut length,
                )
            };
            // An error of an earlier datagram is told here, too, and taken by this.
            let Ok(count) = usize::try_from(count) else {
                if errno() == libc::EAGAIN {
                    return;
                }
                continue;
            };
            // SAFETY: the kernel's address.
            let Ok(from) = (unsafe { from_raw((&raw const from).cast(), length) }) else {
                continue;
            };
            if let Some((greeting, before)) = Greeting::parse(&bytes[..count]) {
                self.heed(greeting, &bytes[before..count], from);
                waiters.wake();
            }
        }
    }

    /// Somebody names a queue pair, and perhaps sends something.
    fn heed(&self, greeting: Greeting, data: &[u8], from: SocketAddr) {
        let mut state = self.lock();
        if state.is_shut || self.destination(&mut state, from).is_err() {
            return;
        }
        let index = state.destinations[&from].pair;
        if greeting.has_data {
            let mut none = Vectors::none();
            // Lost like any datagram, if it is.
            let _ = self.greet(&state.pairs[index], from, &mut none, false);
        }
        let known = state.destinations[&from].remote.as_ref();
        let number = known.map(|remote| remote.number);
        if number == Some(greeting.pair) {
            let known = state.destinations.get_mut(&from);
            if let Some(remote) = known.and_then(|known| known.remote.as_mut()) {
                remote.learned = Instant::now();
            }
        } else {
            let local = state.pairs[index].local;
            let id = state.pairs[index].id.get();
            let (context, pd) = (get!(id.verbs), get!(id.pd));
            drop(state);
            let handle = find_path(local, from, context, pd);
            state = self.lock();
            if let Some(known) = state.destinations.get_mut(&from) {
                known.remote = handle.ok().map(|handle| Remote {
                    handle,
                    number: greeting.pair,
                    learned: Instant::now(),
                });
            }
        }
        if greeting.has_data && state.arrived.len() < state.settings.receive_work as usize {
            state.edges.to_read();
            state.arrived.push_back(Arrived::Beside {
                from,
                bytes: data.to_vec(),
            });
        }
    }

    /// Asks for other sizes; without effect once there is a queue pair.
    pub fn set_size(
        &self,
        set: impl FnOnce(&mut Settings) -> Result<bool, Errno>,
    ) -> Result<bool, Errno> {
        let mut state = self.lock();
        if state.pairs.is_empty() {
            return set(&mut state.settings);
        }
        set(&mut state.settings.clone())
    }

    /// Reads sizes.
    pub fn settings<R>(&self, look: impl FnOnce(&Settings) -> R) -> R {
        look(&self.lock().settings)
    }

    /// An option of the UDP socket.
    ///
    /// # Safety
    /// `value` has `length` bytes.
    pub unsafe fn set_option(
        &self,
        level: c_int,
        name: c_int,
        value: *const c_void,
        length: socklen_t,
    ) -> Result<(), Errno> {
        // SAFETY: the caller's promise.
        match unsafe { libc::setsockopt(self.fd(), level, name, value, length) } {
            0 => Ok(()),
            _ => Err(errno()),
        }
    }

    /// An option of the UDP socket.
    ///
    /// # Safety
    /// `value` has `*length` bytes.
    pub unsafe fn get_option(
        &self,
        level: c_int,
        name: c_int,
        value: *mut c_void,
        length: *mut socklen_t,
    ) -> Result<(), Errno> {
        // SAFETY: the caller's promise.
        match unsafe { libc::getsockopt(self.fd(), level, name, value, length) } {
            0 => Ok(()),
            _ => Err(errno()),
        }
    }

    /// The address here.
    pub fn name(&self) -> Result<sockaddr_storage, Errno> {
        name_of(self.fd()).map(|address| to_storage(&address).0)
    }

    /// The address that it is connected to.
    pub fn peer(&self) -> Result<sockaddr_storage, Errno> {
        let connected = self.lock().connected.ok_or(libc::ENOTCONN)?;
        Ok(to_storage(&connected).0)
    }
}
