//! A client and a server in two network namespaces meet by a directory, and strangers who see it
//! get nothing. Each test runs itself again in a user namespace of its own, where it may make
//! network namespaces; where that is not allowed it says so.

use ferriband_sdp_socket::diag::{self, Diag};
use ferriband_sdp_socket::meet::channel::{Channel, Received, accept};
use ferriband_sdp_socket::meet::client::ClientService;
use ferriband_sdp_socket::meet::directory::{self, Directory};
use ferriband_sdp_socket::meet::family::Family;
use ferriband_sdp_socket::meet::holder::HolderService;
use ferriband_sdp_socket::meet::message::{Message, Name, Packet, Reason, Request};
use ferriband_sdp_socket::meet::place::Place;
use ferriband_sdp_socket::meet::{Met, News, No, ends_number};
use ferriband_sdp_socket::own::Event;
use std::env;
use std::fs::File;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd, FromRawFd};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

const NOW: Duration = Duration::from_secs(1000);
const SERVER: &str = "192.0.2.1";
const CLIENT: &str = "192.0.2.2";
/// Set in the run that is in namespaces of its own.
const INSIDE: &str = "FERRIBAND_TEST_INSIDE";
/// What an impostor is told: the two ends, the accepted one first, the holder's name, the
/// directory.
const TARGET: &str = "FERRIBAND_TEST_TARGET";

/// Runs a test in a user namespace and a network namespace of its own.
fn inside(name: &str, test: impl FnOnce()) {
    if env::var_os(INSIDE).is_some() {
        return test();
    }
    let ready =
        "ip link set lo up && ip link add eth0 type veth peer name eth1 && ip link del eth0";
    let may = alone("sh")
        .args(["-c", ready])
        .stderr(Stdio::null())
        .status();
    if !may.is_ok_and(|status| status.success()) {
        eprintln!("SKIP: namespaces, veth or iproute2 are not to be had here");
        return;
    }
    let program = env::current_exe().expect("this program");
    let mut command = alone(&program.to_string_lossy());
    let command = command
        .args(["--exact", name, "--nocapture"])
        .env(INSIDE, "1");
    assert!(command.status().expect("it runs").success(), "{name}");
}

fn alone(program: &str) -> Command {
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--net", "--", program]);
    command
}

fn sh(text: &str) {
    let status = Command::new("sh").args(["-c", text]).status();
    assert!(status.expect("a shell").success(), "{text}");
}

/// A server in this thread's network namespace, and a client in another, where a thread of its own
/// has made its socket and service.
struct World {
    path: PathBuf,
    at: &'static Directory,
    family: Option<Family>,
    holder: HolderService,
    client: ClientService,
    /// The connection's ends: the client's, the server's.
    here: TcpStream,
    there: TcpStream,
    /// The network namespaces: the client's, the server's.
    namespaces: [File; 2],
}

fn namespace() -> File {
    File::open("/proc/thread-self/ns/net").expect("there is /proc")
}

/// This thread is in another network namespace from now on.
fn enter(namespace: &File) {
    // SAFETY: a system call without pointers, of this thread alone.
    let entered = unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET) };
    assert_eq!(entered, 0);
}

impl World {
    fn new(has_family: bool) -> Self {
        let path = env::temp_dir().join(format!("ferriband-foreign-{}", std::process::id()));
        std::fs::create_dir(&path).expect("a new directory");
        let at: &'static Directory =
            Box::leak(Box::new(Directory::open(&path).expect("it is there")));
        sh("ip link set lo up");
        let pid = std::process::id();
        let (send, joined) = std::sync::mpsc::channel();
        let (go, may_go) = std::sync::mpsc::channel::<u16>();
        let client = std::thread::spawn(move || {
            // SAFETY: a system call without pointers, of this thread alone.
            assert_eq!(unsafe { libc::unshare(libc::CLONE_NEWNET) }, 0);
            sh(&format!(
                "ip link set lo up && ip link add eth0 type veth peer name eth0 netns {pid} && \
                 ip addr add {CLIENT}/24 dev eth0 && ip link set eth0 up"
            ));
            send.send(()).expect("the server waits");
            let port = may_go.recv().expect("the server listens");
            let here = TcpStream::connect((SERVER, port)).expect("connected");
            let mut client = ClientService::new(event()).expect("this kernel tells");
            client.meet(at).expect("there is /proc");
            (client, here, namespace())
        });
        joined.recv().expect("the client joins");
        sh(&format!(
            "ip addr add {SERVER}/24 dev eth0 && ip link set eth0 up"
        ));
        let listener = TcpListener::bind((SERVER, 0)).expect("a port");
        let port = listener.local_addr().expect("bound").port();
        let mut holder = HolderService::new(event()).expect("this kernel tells");
        holder.meet(at).expect("a free name");
        let family = has_family.then(|| Family::bind_in(at, port).expect("a free name"));
        go.send(port).expect("the client waits");
        let there = listener.accept().expect("accepted").0;
        let (client, here, abroad) = client.join().expect("connected");
        let mut world = World {
            path,
            at,
            family,
            holder,
            client,
            here,
            there,
            namespaces: [abroad, namespace()],
        };
        world.accepted();
        world
    }

    fn accepted(&mut self) {
        let [own, peer] = ends(&self.there);
        let number = ends_number(own, peer);
        self.holder.holds(number, cookie(&self.there));
        if let Some(family) = &self.family {
            family
                .table()
                .insert(1 << 32 | u64::from(number), self.holder.name());
        }
    }

    fn port(&self) -> u16 {
        ends(&self.there)[0].port()
    }

    /// In the client's network namespace.
    fn client<T>(&mut self, does: impl FnOnce(&mut ClientService, &TcpStream) -> T) -> T {
        enter(&self.namespaces[0]);
        let done = does(&mut self.client, &self.here);
        enter(&self.namespaces[1]);
        done
    }

    fn client_serves(&mut self, news: &mut Vec<News>) {
        self.client(|client, _| client.serve(NOW, news));
    }

    fn asks(&mut self) {
        self.client(|client, here| client.ask(here.as_fd(), NOW))
            .expect("asked");
    }

    fn serve(&mut self) -> Vec<News> {
        let mut news = Vec::new();
        for _ in 0..6 {
            self.client_serves(&mut news);
            if let Some(family) = &mut self.family {
                family.serve(NOW);
            }
            self.holder_serves(&mut news);
        }
        self.client_serves(&mut news);
        news
    }

    fn holder_serves(&mut self, news: &mut Vec<News>) {
        let (there, own) = (&self.there, cookie(&self.there));
        let sockets = |asked: u64| match asked == own {
            true => Ok(ends(there)),
            false => Err(No::Never(Reason::NotHeld)),
        };
        self.holder.serve(NOW, &sockets, news);
    }

    /// The client asks; None: this kernel gives namespaces no numbers.
    fn ask(&mut self) -> Option<Vec<News>> {
        self.asks();
        let news = self.serve();
        let is_old = |news: &News| {
            let told = No::Never(Reason::NoNamespaces);
            matches!(news, News::Stays { why, .. } if *why == told)
        };
        if news.iter().any(is_old) {
            eprintln!("SKIP: this kernel gives namespaces no numbers");
            return None;
        }
        Some(news)
    }

    fn claim(&self) -> Request {
        let [connected_end, accepted_end] = ends(&self.here);
        Request {
            connected: cookie(&self.here),
            accepted: 0,
            connected_end,
            accepted_end,
        }
    }

    /// A stranger at the holder's name in the directory.
    fn stranger(&self) -> Channel {
        let name = directory::process_name(self.holder.name());
        self.at.connect(&name).expect("it listens")
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

fn event() -> Arc<Event> {
    Arc::new(Event::new().expect("an eventfd"))
}

fn cookie(stream: &TcpStream) -> u64 {
    diag::cookie(stream.as_fd()).expect("a socket")
}

fn ends(stream: &TcpStream) -> [SocketAddr; 2] {
    let own = stream.local_addr().expect("one");
    [own, stream.peer_addr().expect("one")]
}

fn say(channel: &mut Channel, message: Message, fds: &[std::os::fd::BorrowedFd<'_>]) {
    let packet = Packet { number: 5, message };
    channel.send(&packet, fds).expect("sent");
}

fn said(channel: &Channel) -> Option<Message> {
    match channel.receive() {
        Received::Packet(packet, _) => Some(packet.message),
        _ => None,
    }
}

fn met(news: Vec<News>) -> Vec<Met> {
    let met = news.into_iter().map(|news| match news {
        News::Met(met) => met,
        other => panic!("{other:?}"),
    });
    met.collect()
}

#[test]
fn two_network_namespaces_meet_by_a_directory() {
    inside("two_network_namespaces_meet_by_a_directory", || {
        let mut world = World::new(true);
        let Some(news) = world.ask() else { return };
        let met = met(news);
        assert_eq!(met.len(), 2);
        assert!(met.iter().all(|met| met.is_narrow));
        met[0].segment.write(4096, b"seen").expect("inside");
        let mut seen = [0; 4];
        met[1].segment.read(4096, &mut seen).expect("inside");
        assert_eq!(&seen, b"seen");
        // it has a slot: whoever claims it once more has none
        let claim = world.claim();
        let (place, ticket) = world.client(|_, _| {
            let ticket = Diag::ticket(claim.connected_end, claim.accepted_end);
            (
                Place::new().expect("there is /proc"),
                ticket.expect("a socket"),
            )
        });
        let mut stranger = world.stranger();
        let fds = [ticket.as_fd(), place.namespace()];
        say(&mut stranger, Message::Claim(claim), &fds);
        world.serve();
        let already = Message::Refused(Reason::Already);
        assert_eq!(said(&stranger), Some(already));
    });
}

/// The answer to a claim, and what the holder has learned of whoever made it.
fn answer(world: &mut World, stranger: &Channel) -> (Option<Message>, Vec<Reason>) {
    let deed = |news| match news {
        News::Stranger { reason, .. } => Some(reason),
        News::Gone { .. } => None,
        other => panic!("{other:?}"),
    };
    let news = world.serve();
    (said(stranger), news.into_iter().filter_map(deed).collect())
}

#[test]
fn whoever_claims_what_is_not_his_gets_nothing_and_is_named() {
    inside(
        "whoever_claims_what_is_not_his_gets_nothing_and_is_named",
        || {
            let mut world = World::new(true);
            let claim = world.claim();
            let place = Place::new().expect("there is /proc");
            let ticket = Diag::ticket(claim.connected_end, claim.accepted_end).expect("a socket");
            // a namespace in which there is no such socket: the holder's own
            let mut stranger = world.stranger();
            let fds = [ticket.as_fd(), place.namespace()];
            say(&mut stranger, Message::Claim(claim), &fds);
            let (said_so, deeds) = answer(&mut world, &stranger);
            if said_so == Some(Message::Refused(Reason::NoNamespaces)) {
                eprintln!("SKIP: this kernel gives namespaces no numbers");
                return;
            }
            assert_eq!(said_so, Some(Message::Refused(Reason::NotTheSocket)));
            assert_eq!(deeds, [Reason::NotTheSocket]);
            // no claim before
            let mut stranger = world.stranger();
            let request = Request {
                accepted: cookie(&world.there),
                ..claim
            };
            let bell = event();
            say(&mut stranger, Message::Request(request), &[bell.as_fd()]);
            let (said_so, deeds) = answer(&mut world, &stranger);
            assert_eq!(said_so, Some(Message::Refused(Reason::NotTheSocket)));
            assert_eq!(deeds, [Reason::NotTheSocket]);
            // no namespace, and none at all
            let file = File::open("/proc/self/status").expect("it is there");
            let mut stranger = world.stranger();
            say(
                &mut stranger,
                Message::Claim(claim),
                &[ticket.as_fd(), file.as_fd()],
            );
            let (said_so, deeds) = answer(&mut world, &stranger);
            assert_eq!(said_so, Some(Message::Refused(Reason::OtherOwner)));
            assert_eq!(deeds, [Reason::OtherOwner]);
            let mut stranger = world.stranger();
            say(&mut stranger, Message::Claim(claim), &[ticket.as_fd()]);
            assert_eq!(answer(&mut world, &stranger), (None, vec![]));
            let mut stranger = world.stranger();
            say(&mut stranger, Message::Status { from: 0 }, &[]);
            assert_eq!(
                answer(&mut world, &stranger),
                (None, vec![]),
                "who is elsewhere is told nothing"
            );
            // and the honest one gets it
            let news = world.ask().expect("as before");
            assert_eq!(met(news).len(), 2);
        },
    );
}

#[test]
fn an_impostor_who_calls_his_own_sockets_as_anothers_gets_nothing() {
    const NAME: &str = "an_impostor_who_calls_his_own_sockets_as_anothers_gets_nothing";
    if let Ok(target) = env::var(TARGET) {
        return impostor(&target);
    }
    inside(NAME, || {
        let mut world = World::new(true);
        let [own, peer] = ends(&world.there);
        let name = directory::process_name(world.holder.name());
        let target = format!("{own} {peer} {name} {}", world.path.display());
        let program = env::current_exe().expect("this program");
        let mut impostor = alone(&program.to_string_lossy())
            .args(["--exact", NAME, "--nocapture"])
            .env(TARGET, target)
            .spawn()
            .expect("it runs");
        let mut news = Vec::new();
        let status = loop {
            world.holder_serves(&mut news);
            match impostor.try_wait().expect("our child") {
                Some(status) => break status,
                None => std::thread::sleep(Duration::from_millis(1)),
            }
        };
        assert!(status.success());
        let is_named = |news: &News| {
            matches!(
                news,
                News::Stranger {
                    reason: Reason::OtherOwner,
                    ..
                }
            )
        };
        assert!(news.iter().any(is_named), "{news:?}");
    });
}

/// In namespaces of his own a user has made a connection whose ends are called as another's, of
/// which even TCP's timestamps count from one number.
fn impostor(target: &str) {
    let mut words = target.split(' ');
    let mut next = || words.next().expect("a word");
    let ends = [next(), next()].map(|end| end.parse::<SocketAddr>().expect("an address"));
    let (name, path) = (next(), next());
    let [accepted_end, connected_end] = ends;
    sh(&format!(
        "ip link set lo up && ip addr add {SERVER} dev lo && ip addr add {CLIENT} dev lo"
    ));
    let listener = TcpListener::bind(accepted_end).expect("it is free here");
    let here = connect_from(connected_end, accepted_end);
    let _there = listener.accept().expect("accepted");
    let place = Place::new().expect("there is /proc");
    let ticket = Diag::ticket(connected_end, accepted_end).expect("a socket");
    let at: &'static Directory = Box::leak(Box::new(
        Directory::open(std::path::Path::new(path)).expect("it is there"),
    ));
    let mut channel = at.connect(name).expect("it listens");
    let claim = Request {
        connected: cookie(&here),
        accepted: 0,
        connected_end,
        accepted_end,
    };
    say(
        &mut channel,
        Message::Claim(claim),
        &[ticket.as_fd(), place.namespace()],
    );
    let answer = loop {
        match channel.receive() {
            Received::Nothing => std::thread::sleep(Duration::from_millis(1)),
            other => break other,
        }
    };
    let Received::Packet(packet, fds) = answer else {
        panic!("{answer:?}");
    };
    assert_eq!(packet.message, Message::Refused(Reason::OtherOwner));
    assert!(fds.is_empty());
}

fn connect_from(own: SocketAddr, peer: SocketAddr) -> TcpStream {
    // SAFETY: a system call without pointers.
    let made = unsafe { libc::socket(libc::AF_INET, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0) };
    assert!(made >= 0);
    // SAFETY: it was just made for this.
    let stream = unsafe { TcpStream::from_raw_fd(made) };
    rustix::net::bind(&stream, &own).expect("a free address");
    rustix::net::connect(&stream, &peer).expect("it listens");
    assert_eq!(stream.as_raw_fd(), made);
    stream
}

#[test]
fn whoever_binds_the_name_of_a_port_gets_nothing_and_is_named() {
    inside(
        "whoever_binds_the_name_of_a_port_gets_nothing_and_is_named",
        || {
            let mut world = World::new(false);
            let door = world.at.listen(&directory::family_name(world.port(), 0));
            let door = door.expect("a free name");
            let false_name = Name(*b"a false holder's");
            let holder = world.at.listen(&directory::process_name(false_name));
            let holder = holder.expect("a free name");
            // says that it has agreed; says that it holds the socket, and proves another
            for is_bold in [true, false] {
                world.asks();
                let mut news = Vec::new();
                if let Ok(mut family) = accept(door.as_fd()) {
                    let Received::Packet(packet, _) = family.receive() else {
                        panic!("it has asked");
                    };
                    let (number, message) = (packet.number, Message::At(false_name));
                    family.send(&Packet { number, message }, &[]).expect("sent");
                }
                world.client_serves(&mut news);
                let mut channel = accept(holder.as_fd()).expect("it has come");
                let Received::Packet(packet, _) = channel.receive() else {
                    panic!("it claims");
                };
                let Message::Claim(claim) = packet.message else {
                    panic!("{packet:?}");
                };
                let number = packet.number;
                if is_bold {
                    let memory =
                        ferriband_sdp_socket::own::memory(ferriband_sdp_socket::segment::LENGTH);
                    let (memory, bell) = (memory.expect("memory"), event());
                    let message = Message::Agreed {
                        segment: 0,
                        slot: 0,
                    };
                    let fds = [memory.as_fd(), bell.as_fd()];
                    channel
                        .send(&Packet { number, message }, &fds)
                        .expect("sent");
                } else {
                    let place = Place::new().expect("there is /proc");
                    let ticket = Diag::ticket(claim.connected_end, claim.accepted_end);
                    let ticket = ticket.expect("a socket");
                    let message = Message::Held {
                        cookie: cookie(&world.there),
                    };
                    let fds = [ticket.as_fd(), place.namespace()];
                    channel
                        .send(&Packet { number, message }, &fds)
                        .expect("sent");
                }
                for _ in 0..3 {
                    world.client_serves(&mut news);
                }
                let stays = |news: &News| matches!(news, News::Stays { by: Some(_), .. });
                assert!(
                    !news.iter().any(|news| matches!(news, News::Met(_))),
                    "{news:?}"
                );
                assert!(news.iter().any(stays), "{is_bold}: {news:?}");
            }
        },
    );
}
