//! Connections of a process with itself, and a service thread as a program's has.

use super::Epoll;
use crate::calls::{self, Answer, Progress};
use crate::link::Link;
use crate::meet::bells::{Bells, Ringer};
use crate::order;
use crate::own::{Event, Segment, memory};
use crate::ready::{self, boxes, kernel};
use crate::segment::{LENGTH, Role};
use crate::table::{Left, Pin, Table};
use crate::testing::soon;
use ferriband_sdp_local::{CONNECTION_OVER, PEER_ENDED, Reader, Service, Writer};
use ferriband_sdp_proto::change::Phase;
use rustix::io::Errno;
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, IntoRawFd};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

/// A socket of the program. It is closed as a program's is.
pub struct Socket {
    pub number: i32,
}

pub fn table() -> &'static Table {
    Table::get().expect("memory")
}

fn borrow<'a>(number: i32) -> BorrowedFd<'a> {
    // SAFETY: a number of the test's own.
    unsafe { BorrowedFd::borrow_raw(number) }
}

/// Two ends of a TCP connection that nobody has linked.
pub fn pair() -> (Socket, Socket) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let here = TcpStream::connect(listener.local_addr().expect("bound")).expect("connected");
    let there = listener.accept().expect("accepted").0;
    let end = |stream: TcpStream| {
        stream.set_nonblocking(true).expect("set");
        stream.set_nodelay(true).expect("set");
        let number = stream.into_raw_fd();
        drop(table().enter(number).expect("a record"));
        Socket { number }
    };
    (end(here), end(there))
}

/// What the library does when the program closes a number.
pub fn close_number(number: i32) {
    let table = table();
    let left = table.leave(number);
    ready::closed(number, &left);
    if let Left::Last(last) = &left
        && let Some(link) = last.link()
    {
        let call = link.on(borrow(number));
        soon(|| crate::calls::may_close(call));
    }
    // SAFETY: the test's own descriptor.
    unsafe { rustix::io::close(number) };
}

impl Drop for Socket {
    fn drop(&mut self) {
        close_number(self.number);
    }
}

impl Socket {
    pub fn pin(&self) -> Pin<'static> {
        table().pin(self.number).expect("a stream")
    }

    pub fn fd(&self) -> BorrowedFd<'_> {
        borrow(self.number)
    }

    /// What dup(2) does.
    pub fn duplicate(&self) -> Self {
        let number = rustix::io::dup(self.fd()).expect("room").into_raw_fd();
        table().alias(&self.pin(), number);
        ready::aliased(self.number, number);
        Self { number }
    }

    /// send(2) that does not wait. None: there is no room.
    pub fn try_send(&self, bytes: &[u8]) -> Option<usize> {
        let pin = self.pin();
        let part = libc::iovec {
            iov_base: bytes.as_ptr().cast_mut().cast(),
            iov_len: bytes.len(),
        };
        let by_kernel = |bytes: &[u8]| {
            let flags = rustix::net::SendFlags::DONTWAIT | rustix::net::SendFlags::NOSIGNAL;
            match rustix::net::send(self.fd(), bytes, flags) {
                Ok(sent) => Some(sent),
                Err(Errno::AGAIN) => None,
                Err(error) => panic!("send: {error}"),
            }
        };
        let Some(link) = pin.link() else {
            let sent = by_kernel(bytes);
            order::by_kernel();
            return sent;
        };
        let call = link.on(self.fd());
        match calls::send(
            call,
            &[part],
            bytes.len() as u64,
            &mut Progress::default(),
            &mut || Err(libc::EAGAIN),
        ) {
            Answer::Bytes(sent) => Some(sent as usize),
            Answer::Kernel(done) => {
                // so many went by SDP before another thread changed the direction
                let done = done as usize;
                let sent = by_kernel(&bytes[done..]);
                calls::sent_by_kernel(call);
                match done {
                    0 => sent,
                    _ => Some(done + sent.unwrap_or(0)),
                }
            }
            Answer::Error(libc::EAGAIN) => None,
            Answer::Error(errno) => panic!("send: {errno}"),
            Answer::Sleep(nap) => panic!("send: {nap:?}"),
        }
    }

    /// All of it, which has to fit.
    pub fn send(&self, bytes: &[u8]) {
        assert_eq!(self.try_send(bytes), Some(bytes.len()));
    }

    /// recv(2) that does not wait.
    pub fn try_receive(&self, most: usize) -> Result<Vec<u8>, Errno> {
        let mut bytes = vec![0; most];
        let pin = self.pin();
        let part = libc::iovec {
            iov_base: bytes.as_mut_ptr().cast(),
            iov_len: most,
        };
        let by_kernel = |bytes: &mut [u8]| {
            let flags = rustix::net::RecvFlags::DONTWAIT;
            rustix::net::recv(self.fd(), bytes, flags).map(|(received, _)| received)
        };
        let received = match pin.link() {
            None => by_kernel(&mut bytes)?,
            Some(link) => {
                let call = link.on(self.fd());
                let mut patience = || Err(libc::EAGAIN);
                match calls::receive(
                    call,
                    &mut [part],
                    most as u64,
                    &mut Progress::default(),
                    &mut patience,
                ) {
                    Answer::Bytes(received) => received as usize,
                    Answer::Kernel(_) => {
                        let received = by_kernel(&mut bytes);
                        calls::received_by_kernel(call);
                        received?
                    }
                    Answer::Error(errno) => return Err(Errno::from_raw_os_error(errno)),
                    Answer::Sleep(nap) => panic!("receive: {nap:?}"),
                }
            }
        };
        bytes.truncate(received);
        Ok(bytes)
    }

    /// What is there.
    pub fn receive(&self, most: usize) -> Vec<u8> {
        self.try_receive(most).expect("bytes, or the end")
    }

    pub fn phases(&self) -> [Phase; 2] {
        let pin = self.pin();
        let call = pin.link().expect("linked").on(self.fd());
        [Writer(&call).phase(), Reader(&call).phase()]
    }

    /// What this end sends goes by TCP from here on.
    pub fn go_back(&self) -> bool {
        let pin = self.pin();
        let link = pin.link();
        link.is_none_or(|link| Writer(&link.on(self.fd())).go_back())
    }

    /// shutdown(2) of what this end sends.
    pub fn shut(&self) {
        let end = |link: &Link<'_>| Writer(&link.on(self.fd())).end();
        soon(|| self.pin().link().is_none_or(end));
        let how = rustix::net::Shutdown::Write;
        rustix::net::shutdown(self.fd(), how).expect("connected");
    }

    /// The connection ends as if this end had died with something unread.
    pub fn reset(self) {
        let linger = Some(std::time::Duration::ZERO);
        rustix::net::sockopt::set_socket_linger(self.fd(), linger).expect("set");
    }
}

/// The service thread, and the slots of this process's connections with itself.
pub struct World {
    shared: Arc<Shared>,
    segments: Mutex<(Vec<Arc<Segment>>, u64)>,
    thread: Option<thread::JoinHandle<()>>,
}

struct Shared {
    own: Arc<Event>,
    bells: Arc<Bells>,
    announced: AtomicU32,
    numbers: Mutex<Vec<i32>>,
    epoll: rustix::fd::OwnedFd,
    over: AtomicBool,
    /// How often the thread woke up.
    woken: AtomicU64,
}

const OWN: u64 = u64::MAX;

impl World {
    pub fn new() -> Self {
        let own = Arc::new(Event::new().expect("an eventfd"));
        let copy = own.as_fd().try_clone_to_owned().expect("a descriptor");
        let first = Event::from_fd(copy).expect("an eventfd");
        let flags = rustix::event::epoll::CreateFlags::CLOEXEC;
        let epoll = rustix::event::epoll::create(flags).expect("a descriptor");
        let watched = kernel::Event {
            events: kernel::IN | kernel::ET,
            data: OWN,
        };
        let add = libc::EPOLL_CTL_ADD;
        kernel::ctl(
            epoll.as_raw_fd(),
            add,
            own.as_fd().as_raw_fd(),
            Some(watched),
        )
        .expect("added");
        let shared = Arc::new(Shared {
            own,
            bells: Arc::new(Bells::new(first)),
            announced: AtomicU32::new(0),
            numbers: Mutex::new(Vec::new()),
            epoll,
            over: AtomicBool::new(false),
            woken: AtomicU64::new(0),
        });
        let service = shared.clone();
        let thread = Some(thread::spawn(move || service.serve()));
        let segments = Mutex::new((Vec::new(), 0));
        Self {
            shared,
            segments,
            thread,
        }
    }

    /// Both ends of a connection get a link.
    pub fn link(&self, here: &Socket, there: &Socket) {
        let mut segments = self.segments.lock().expect("no panic");
        let slot = segments.1 % 64;
        segments.1 += 1;
        if slot == 0 {
            let segment = memory(LENGTH).expect("memory");
            segments.0.push(Arc::new(segment));
        }
        let segment = segments.0.last().expect("one").clone();
        drop(segments);
        for (socket, role) in [(here, Role::Connected), (there, Role::Accepted)] {
            let (bells, own) = (self.shared.bells.clone(), self.shared.own.clone());
            let pin = socket.pin();
            let link = Link::new(segment.clone(), slot, role, pin.record(), bells, own);
            assert!(ready::fits(&pin));
            assert!(pin.put_link(link.expect("a slot")).is_ok());
            assert!(ready::linked(&pin, socket.number));
            let watched = kernel::Event {
                events: kernel::IN | kernel::RDHUP | kernel::ET,
                data: socket.number as u64,
            };
            let (epoll, add) = (self.shared.epoll.as_raw_fd(), libc::EPOLL_CTL_ADD);
            kernel::ctl(epoll, add, socket.number, Some(watched)).expect("added");
            let mut numbers = self.shared.numbers.lock().expect("no panic");
            numbers.push(socket.number);
        }
    }

    /// An end says that it looks at both.
    pub fn offer(&self, socket: &Socket) -> bool {
        let pin = socket.pin();
        let call = pin.link().expect("linked").on(socket.fd());
        Reader(&call).offer()
    }

    /// Both directions go by SDP, once everything that was sent by TCP was read.
    pub fn change_over(&self, here: &Socket, there: &Socket) {
        for (from, to) in [(here, there), (there, here)] {
            assert!(self.offer(to));
            soon(|| {
                from.send(b"!");
                soon(|| to.try_receive(64).is_ok());
                from.phases()[0] == Phase::Sdp
            });
        }
    }

    pub fn woken(&self) -> u64 {
        self.shared.woken.load(Ordering::SeqCst)
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.shared.over.store(true, Ordering::SeqCst);
        self.shared.own.signal();
        let thread = self.thread.take().expect("dropped once");
        thread.join().expect("the service is well");
    }
}

impl Shared {
    fn serve(&self) {
        let mut events = [kernel::Event::default(); 64];
        while !self.over.load(Ordering::SeqCst) {
            self.announce();
            let (time, signals) = (None, None);
            let patience = kernel::Patience { time, signals };
            let (epoll, most) = (self.epoll.as_raw_fd(), events.len());
            // SAFETY: an array of so many.
            let count = unsafe { kernel::wait(epoll, events.as_mut_ptr(), most, patience) };
            self.woken.fetch_add(1, Ordering::SeqCst);
            for event in &events[..count.unwrap_or(0)] {
                match event.data {
                    OWN => self.rung(),
                    number => self.heard(number as i32),
                }
            }
        }
    }

    fn announce(&self) {
        let mut announced = self.announced.load(Ordering::SeqCst);
        while announced < boxes::count() {
            announced += 1;
            let bell = boxes::get(announced).expect("made").sender();
            let copy = bell.try_clone_to_owned().expect("a descriptor");
            let ringer = Ringer::socket(copy).expect("a socket");
            self.bells.add(announced, ringer).expect("new");
            self.announced.store(announced, Ordering::SeqCst);
        }
    }

    fn rung(&self) {
        let numbers = self.numbers.lock().expect("no panic").clone();
        for number in numbers {
            let Some(pin) = table().pin(number) else {
                continue;
            };
            let Some(link) = pin.link() else { continue };
            if link.take_told() {
                Service(&link.on(borrow(number))).rung();
                ready::told(&pin, false);
            }
        }
    }

    fn heard(&self, number: i32) {
        let Some(pin) = table().pin(number) else {
            return;
        };
        let Some(link) = pin.link() else { return };
        let bits = kernel::state(borrow(number));
        let mut ended = 0;
        if bits & (kernel::RDHUP | kernel::HUP) != 0 {
            ended |= PEER_ENDED;
        }
        if bits & kernel::HUP != 0 {
            ended |= CONNECTION_OVER;
        }
        Service(&link.on(borrow(number))).look(ended);
        ready::told(&pin, true);
    }
}

/// Whether an instance serves a socket by its words.
pub fn is_linked(epoll: &Epoll, socket: &Socket) -> bool {
    let known = ready::instance_of(epoll.0).expect("known");
    let mut inside = known.inside.enter().expect("free");
    let at = inside.find(socket.number, socket.pin().taken());
    inside.at(at.expect("registered")).linked.is_some()
}
