//! Two processes meet about a TCP connection, take it over and go on in the middle of its streams.

use ferriband_host::wake;
use ferriband_sdp_local::{PEER_ENDED, Reader, Service, Writer};
use ferriband_sdp_proto::change::Phase;
use ferriband_sdp_socket::calls::{self, Answer};
use ferriband_sdp_socket::link::Link;
use ferriband_sdp_socket::meet::channel::{self, Channel, Received};
use ferriband_sdp_socket::meet::client::ClientService;
use ferriband_sdp_socket::meet::family::Family;
use ferriband_sdp_socket::meet::holder::HolderService;
use ferriband_sdp_socket::meet::message::{Message, Name, Packet, Reason, Request};
use ferriband_sdp_socket::meet::{Met, News, No, PATIENCE};
use ferriband_sdp_socket::own::Event;
use ferriband_sdp_socket::record::Record;
use ferriband_sdp_socket::{diag, tcp};
use rustix::event::{PollFd, PollFlags, Timespec};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Exchanges by TCP alone, before the two meet, and afterwards.
const BEFORE: usize = 20;
const ROUNDS: usize = 400;
const LENGTHS: [usize; 6] = [1, 3, 64, 1000, 5000, 40_000];
/// Two processes of a busy machine get so long for what takes milliseconds.
const LONG: Duration = Duration::from_secs(60);

/// A forked process, which is killed if it does not end by itself.
struct Child(libc::pid_t);

fn fork(body: impl FnOnce()) -> Child {
    // SAFETY: the child allocates and calls the kernel, which this C library's forked children may.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0, "a child");
    if pid == 0 {
        let body = std::panic::AssertUnwindSafe(body);
        let is_fine = std::panic::catch_unwind(body).is_ok();
        // SAFETY: ends the child, in which nothing but the body may run.
        unsafe { libc::_exit(i32::from(!is_fine)) }
    }
    Child(pid)
}

impl Child {
    fn end(mut self) {
        let (begun, mut status) = (Instant::now(), 0);
        // SAFETY: our own child and a local variable.
        while unsafe { libc::waitpid(self.0, &raw mut status, libc::WNOHANG) } == 0 {
            assert!(begun.elapsed() < LONG, "the child ends");
            thread::sleep(Duration::from_millis(1));
        }
        self.0 = 0;
        assert!(libc::WIFEXITED(status), "no signal has ended the child");
        assert_eq!(libc::WEXITSTATUS(status), 0, "the child's checks hold");
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if self.0 != 0 {
            // SAFETY: our own child, which has not been waited for.
            unsafe { libc::kill(self.0, libc::SIGKILL) };
            // SAFETY: as for kill; no status is asked for.
            unsafe { libc::waitpid(self.0, std::ptr::null_mut(), 0) };
        }
    }
}

/// One end that was met about.
struct End {
    socket: TcpStream,
    link: Link<'static>,
    over: Arc<AtomicBool>,
    service: Option<thread::JoinHandle<()>>,
}

impl End {
    fn new(socket: TcpStream, met: &Met, own: &Arc<Event>) -> Self {
        let record: &Record = Box::leak(Box::default());
        let link = || met.link(record, own.clone()).expect("descriptors");
        let over = Arc::new(AtomicBool::new(false));
        let (told, copy, twin) = (over.clone(), socket.try_clone(), link());
        let copy = copy.expect("a descriptor");
        // what a service thread does for a connection
        let service = thread::spawn(move || {
            while !told.load(Ordering::Relaxed) {
                let ended = tcp::info(copy.as_fd()).is_ok_and(|info| info.peer_ended);
                Service(&twin.on(copy.as_fd())).look(if ended { PEER_ENDED } else { 0 });
                thread::sleep(Duration::from_micros(200));
            }
        });
        Self {
            socket,
            link: link(),
            over,
            service: Some(service),
        }
    }

    fn send(&self, bytes: &[u8]) {
        let mut done = 0;
        while done < bytes.len() {
            let left = &bytes[done..];
            let part = libc::iovec {
                iov_base: left.as_ptr().cast_mut().cast(),
                iov_len: left.len(),
            };
            let call = self.link.on(self.socket.as_fd());
            let length = left.len() as u64;
            let sent = calls::run(call, |progress| {
                calls::send(call, &[part], length, progress, &mut || Ok(None))
            });
            done += match sent {
                Answer::Bytes(sent) => sent as usize,
                Answer::Kernel(done) => {
                    let done = done as usize;
                    let sent = done + (&self.socket).write(&left[done..]).expect("sent");
                    calls::sent_by_kernel(call);
                    sent
                }
                answer => panic!("send: {answer:?}"),
            };
        }
    }

    fn receive(&self, into: &mut [u8]) {
        let mut done = 0;
        while done < into.len() {
            let left = &mut into[done..];
            let part = libc::iovec {
                iov_base: left.as_mut_ptr().cast(),
                iov_len: left.len(),
            };
            let call = self.link.on(self.socket.as_fd());
            let length = left.len() as u64;
            let received = calls::run(call, |progress| {
                calls::receive(call, &mut [part], length, progress, &mut || Ok(None))
            });
            let more = match received {
                Answer::Bytes(received) => received as usize,
                Answer::Kernel(_) => {
                    let received = (&self.socket).read(left).expect("received");
                    calls::received_by_kernel(call);
                    received
                }
                answer => panic!("receive: {answer:?}"),
            };
            assert_ne!(more, 0, "the stream ends after {done} bytes");
            done += more;
        }
    }

    fn offer(&self) {
        assert!(Reader(&self.link.on(self.socket.as_fd())).offer());
    }

    fn phases(&self) -> [Phase; 2] {
        let call = self.link.on(self.socket.as_fd());
        [Writer(&call).phase(), Reader(&call).phase()]
    }
}

impl Drop for End {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        if let Some(service) = self.service.take() {
            let _ = service.join();
        }
    }
}

/// Bytes that tell where they belong.
fn text(from: u64, length: usize) -> Vec<u8> {
    (from..from + length as u64)
        .map(|at| (at ^ (at >> 8) ^ (at >> 16)) as u8)
        .collect()
}

fn event() -> Arc<Event> {
    Arc::new(Event::new().expect("an eventfd"))
}

fn now() -> Duration {
    wake::now()
}

fn cookie(stream: &TcpStream) -> u64 {
    diag::cookie(stream.as_fd()).expect("a socket")
}

fn ends(stream: &TcpStream) -> [SocketAddr; 2] {
    let own = stream.local_addr().expect("one");
    [own, stream.peer_addr().expect("one")]
}

/// Waits until one of them can be read, or 100 ms.
fn wait<'a>(interest: impl Iterator<Item = (BorrowedFd<'a>, PollFlags)>) {
    let mut polled: Vec<_> = interest
        .map(|(fd, events)| PollFd::from_borrowed_fd(fd, events))
        .collect();
    let most = Timespec {
        tv_sec: 0,
        tv_nsec: 100_000_000,
    };
    rustix::event::poll(&mut polled, Some(&most)).expect("a look");
}

/// Serves as a holder, and as its family if that is here, until something has come of it; and
/// whether a peer has rung meanwhile.
fn serve_until_met(
    holder: &mut HolderService,
    mut family: Option<&mut Family>,
    accepted: &TcpStream,
) -> (Met, bool) {
    let sockets = |asked: u64| match asked == cookie(accepted) {
        true => Ok(ends(accepted)),
        false => Err(No::Never(Reason::NotHeld)),
    };
    let begun = Instant::now();
    let (mut met, mut rung) = (None, false);
    loop {
        assert!(begun.elapsed() < LONG, "somebody asks");
        let families = family.iter().flat_map(|family| family.interest());
        wait(holder.interest().chain(families));
        if let Some(family) = &mut family {
            family.serve(now());
        }
        let mut news = Vec::new();
        holder.serve(now(), &sockets, &mut news);
        for news in news {
            match news {
                News::Met(new) => met = Some(new),
                News::Rung => rung = true,
                other => panic!("{other:?}"),
            }
        }
        if let Some(met) = met.take() {
            return (met, rung);
        }
    }
}

/// Asks, and waits for the answer; the deadline is the client's own.
fn ask(client: &mut ClientService, stream: &TcpStream) -> Result<Met, (No, Option<u32>)> {
    client.ask(stream.as_fd(), now()).map_err(|no| (no, None))?;
    let begun = Instant::now();
    loop {
        assert!(begun.elapsed() < LONG, "there is an end");
        wait(client.interest());
        let mut news = Vec::new();
        client.serve(now(), &mut news);
        for news in news {
            match news {
                News::Met(met) => return Ok(met),
                News::Stays { why, by, .. } => return Err((why, by)),
                _ => {}
            }
        }
    }
}

/// The listening program's part of an echo.
fn echo(
    stream: TcpStream,
    holder: &mut HolderService,
    family: Option<&mut Family>,
    own: &Arc<Event>,
) {
    let mut bytes = vec![0; 1 << 16];
    for round in 0..BEFORE {
        let length = LENGTHS[round % LENGTHS.len()];
        (&stream)
            .read_exact(&mut bytes[..length])
            .expect("received");
        (&stream).write_all(&bytes[..length]).expect("sent");
    }
    let (met, _) = serve_until_met(holder, family, &stream);
    let end = End::new(stream, &met, own);
    for round in 0..ROUNDS {
        if round == 50 {
            end.offer();
        }
        let length = LENGTHS[round % LENGTHS.len()];
        end.receive(&mut bytes[..length]);
        end.send(&bytes[..length]);
    }
    assert_eq!(end.phases(), [Phase::Sdp; 2]);
    // the peer has read everything when it ends its stream
    assert_eq!((&end.socket).read(&mut bytes).expect("the end"), 0);
}

/// The connecting program's part; gives what came of asking.
fn talk(stream: TcpStream, client: &mut ClientService, own: &Arc<Event>) {
    let mut at = 0;
    let mut received = vec![0; 1 << 16];
    for round in 0..BEFORE {
        let sent = text(at, LENGTHS[round % LENGTHS.len()]);
        (&stream).write_all(&sent).expect("sent");
        let received = &mut received[..sent.len()];
        (&stream).read_exact(received).expect("received");
        assert!(received == sent, "round {round} by TCP");
        at += sent.len() as u64;
    }
    let met = ask(client, &stream).expect("both take part");
    assert_eq!(met.cookie, cookie(&stream));
    assert_eq!((met.ticket.segment, met.ticket.slot), (0, 0));
    let end = End::new(stream, &met, own);
    for round in 0..ROUNDS {
        if round == 100 {
            end.offer();
        }
        let sent = text(at, LENGTHS[round % LENGTHS.len()]);
        end.send(&sent);
        let received = &mut received[..sent.len()];
        end.receive(received);
        assert!(received == sent, "round {round}");
        at += sent.len() as u64;
    }
    assert_eq!(end.phases(), [Phase::Sdp; 2]);
    // by TCP fewer bytes went than in all, so the ring has carried the others
    let by_tcp = tcp::info(end.socket.as_fd()).expect("told").sent;
    assert!(by_tcp < at / 2, "{by_tcp} of {at} bytes by TCP");
    client.give_back(met.ticket);
    // children of other tests may hold the socket, too
    end.socket
        .shutdown(std::net::Shutdown::Write)
        .expect("shut");
}

#[test]
fn an_echo_of_two_processes_is_taken_over() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let there = listener.local_addr().expect("bound");
    // before any connection, so that no client comes too early
    let mut family = Family::bind(there.port()).expect("a name");
    let child = fork(|| {
        let own = event();
        let mut holder = HolderService::new(own.clone()).expect("this kernel tells");
        let stream = listener.accept().expect("accepted").0;
        family.table().insert(cookie(&stream), holder.name());
        echo(stream, &mut holder, Some(&mut family), &own);
    });
    let stream = TcpStream::connect(there).expect("connected");
    let own = event();
    let mut client = ClientService::new(own.clone()).expect("this kernel tells");
    talk(stream, &mut client, &own);
    child.end();
}

#[test]
fn a_family_knows_what_a_forked_worker_has_accepted() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let there = listener.local_addr().expect("bound");
    let mut family = Family::bind(there.port()).expect("a name");
    let worker = fork(|| {
        family.forked();
        let own = event();
        let mut holder = HolderService::new(own.clone()).expect("this kernel tells");
        let stream = listener.accept().expect("accepted").0;
        family.table().insert(cookie(&stream), holder.name());
        // only the process that has forked it answers for the family
        echo(stream, &mut holder, None, &own);
    });
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                wait(family.interest());
                family.serve(now());
            }
        });
        let stream = TcpStream::connect(there).expect("connected");
        let own = event();
        let mut client = ClientService::new(own.clone()).expect("this kernel tells");
        let talked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            talk(stream, &mut client, &own);
        }));
        over.store(true, Ordering::Relaxed);
        talked.expect("the client's checks hold");
    });
    worker.end();
}

#[test]
fn a_silent_squatter_costs_a_second_and_nothing_else() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let there = listener.local_addr().expect("bound");
    let name = channel::family_address(there.port(), 0).expect("a name");
    let _squatter = channel::listen(&name).expect("free");
    let stream = TcpStream::connect(there).expect("connected");
    let _accepted = listener.accept().expect("accepted");
    let mut client = ClientService::new(event()).expect("this kernel tells");
    let begun = Instant::now();
    let answer = ask(&mut client, &stream).err();
    assert_eq!(answer, Some((No::Never(Reason::NoAnswer), None)));
    assert!(begun.elapsed() >= PATIENCE);
}

const ANOTHER: u32 = 4321;

/// Becomes another user; false if this process may not.
fn become_another() -> bool {
    // SAFETY: numbers.
    let done = unsafe { libc::setresuid(ANOTHER, ANOTHER, ANOTHER) };
    done == 0
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

#[test]
fn another_user_gets_nothing_of_a_connection() {
    if !is_root() {
        eprintln!("skipped: only root can become another user");
        return;
    }
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let stream = TcpStream::connect(listener.local_addr().expect("bound")).expect("connected");
    let accepted = listener.accept().expect("accepted").0;
    let own = event();
    let mut holder = HolderService::new(own).expect("this kernel tells");
    let name = holder.name();
    let [connected_end, accepted_end] = ends(&stream);
    let request = Request {
        connected: cookie(&stream),
        accepted: cookie(&accepted),
        connected_end,
        accepted_end,
    };
    // he knows everything about the connection, and the holder's name
    let child = fork(|| {
        assert!(become_another());
        let mut channel = connect(name);
        let packet = Packet {
            number: 1,
            message: Message::Request(request),
        };
        let bell = event();
        // the holder may have closed it already
        let _ = channel.send(&packet, &[bell.as_fd()]);
        let begun = Instant::now();
        loop {
            assert!(begun.elapsed() < LONG, "the holder closes it");
            match channel.receive() {
                Received::Ended => return,
                Received::Nothing => wait([channel.interest()].into_iter()),
                other => panic!("{other:?}"),
            }
        }
    });
    let over = Instant::now() + Duration::from_millis(500);
    let mut news = Vec::new();
    while Instant::now() < over {
        wait(holder.interest());
        let sockets = |_| Ok([accepted_end, connected_end]);
        holder.serve(now(), &sockets, &mut news);
    }
    assert!(news.is_empty(), "{news:?}");
    child.end();
}

#[test]
fn another_user_who_answers_for_a_socket_is_not_believed() {
    if !is_root() {
        eprintln!("skipped: only root can become another user");
        return;
    }
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let there = listener.local_addr().expect("bound");
    let stream = TcpStream::connect(there).expect("connected");
    let _accepted = listener.accept().expect("accepted");
    let name = Name(*b"somebody else is");
    let (mut told, mut tell) = std::io::pipe().expect("a pipe");
    let child = fork(|| {
        assert!(become_another());
        let family = channel::family_address(there.port(), 0).expect("a name");
        let family = channel::listen(&family).expect("free");
        let own = channel::own_address(name).expect("a name");
        let own = channel::listen(&own).expect("free");
        tell.write_all(b"!").expect("told");
        let mut visitor = accept(family.as_fd());
        let number = match first(&visitor) {
            Received::Packet(packet, _) => packet.number,
            other => panic!("{other:?}"),
        };
        let message = Message::At(name);
        visitor
            .send(&Packet { number, message }, &[])
            .expect("sent");
        // who comes has looked who this is, and says nothing
        let guest = accept(own.as_fd());
        assert!(matches!(first(&guest), Received::Ended));
    });
    told.read_exact(&mut [0]).expect("the child listens");
    let mut client = ClientService::new(event()).expect("this kernel tells");
    let answer = ask(&mut client, &stream).err();
    assert_eq!(answer, Some((No::Never(Reason::NotTheUser), Some(ANOTHER))));
    child.end();
}

#[test]
fn two_users_tell_each_other_by_sockets() {
    if !is_root() {
        eprintln!("skipped: only root can become another user");
        return;
    }
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let there = listener.local_addr().expect("bound");
    let mut family = Family::bind(there.port()).expect("a name");
    let child = fork(|| {
        assert!(become_another());
        let stream = TcpStream::connect(there).expect("connected");
        (&stream)
            .read_exact(&mut [0])
            .expect("the peer has accepted");
        let mut client = ClientService::new(event()).expect("this kernel tells");
        let met = ask(&mut client, &stream).expect("both take part");
        met.peer.ring(7);
        let begun = Instant::now();
        let mut news = Vec::new();
        while !news.iter().any(|news| matches!(news, News::Rung)) {
            assert!(begun.elapsed() < LONG, "the peer rings");
            wait(client.interest());
            client.serve(now(), &mut news);
        }
    });
    let mut accepted = listener.accept().expect("accepted").0;
    let mut holder = HolderService::new(event()).expect("this kernel tells");
    family.table().insert(cookie(&accepted), holder.name());
    accepted.write_all(b"!").expect("sent");
    let (met, rung) = serve_until_met(&mut holder, Some(&mut family), &accepted);
    let begun = Instant::now();
    let mut news: Vec<News> = rung.then_some(News::Rung).into_iter().collect();
    let sockets = |_: u64| Err(No::Never(Reason::NotHeld));
    while !news.iter().any(|news| matches!(news, News::Rung)) {
        assert!(begun.elapsed() < LONG, "the peer rings");
        wait(holder.interest());
        holder.serve(now(), &sockets, &mut news);
    }
    met.peer.ring(0);
    child.end();
}

fn connect(name: Name) -> Channel {
    let address = channel::own_address(name).expect("a name");
    Channel::connect(&address).expect("connected")
}

fn accept(listener: BorrowedFd<'_>) -> Channel {
    let begun = Instant::now();
    loop {
        assert!(begun.elapsed() < LONG, "one comes");
        wait([(listener, PollFlags::IN)].into_iter());
        if let Ok(channel) = channel::accept(listener) {
            return channel;
        }
    }
}

/// What comes first.
fn first(channel: &Channel) -> Received {
    let begun = Instant::now();
    loop {
        assert!(begun.elapsed() < LONG, "something comes");
        match channel.receive() {
            Received::Nothing => wait([channel.interest()].into_iter()),
            other => return other,
        }
    }
}
