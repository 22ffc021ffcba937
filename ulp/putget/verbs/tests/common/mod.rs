//! Ferriband's own library, and processes whose memory is found by tags.
#![allow(dead_code)] // each test file uses its own part

use ferriband_ibv::{Access, Choice, Cm, Element, Mr, Region, Verbs};
use ferriband_putget_proto::tags::{Direction, Note, Range, Tags, Told};
use ferriband_putget_proto::{Answer, Asked, Config, Granted, Kind, NotStarted, Segment};
use ferriband_putget_proto::{Start, Started, Status};
use ferriband_putget_verbs::{Left, Node, Peer, Server, Settings, Users, Waited};
use ferriband_testkit::library;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// A hang is a failure, however busy the machine.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// The library, loaded once.
pub fn cm() -> &'static Cm {
    static CM: OnceLock<&Cm> = OnceLock::new();
    CM.get_or_init(|| {
        let verbs =
            Verbs::load(&Choice::File(library("libibverbs.so.1"))).expect("our own library");
        Cm::load(verbs).expect("the connection manager beside it")
    })
}

/// A request of this process's.
#[derive(Clone, Copy)]
struct Own {
    tag: u32,
    kind: Kind,
    length: u64,
    acknowledged: Option<Note>,
}

/// A process as the paper has it.
#[derive(Default)]
pub struct Process {
    pub tags: Tags,
    memory: HashMap<u32, Arc<Mr>>,
    own: HashMap<u64, Own>,
    next: u64,
    pub joined: Vec<Peer>,
    pub left: Vec<(Peer, Left)>,
    pub told: Vec<Told>,
    /// Memory that a peer's requests hold.
    pub held: usize,
    /// Puts by leases that count: token and length.
    pub counted: Vec<(u64, u64)>,
    /// Leases that came back.
    pub returned: Vec<u64>,
    /// Own requests and operations that have ended.
    pub ended: Vec<(u64, Answer)>,
}

/// Which buffer, and how much of it.
#[derive(Clone, Copy)]
pub struct Hold {
    tag: u32,
    kind: Kind,
    length: u64,
}

impl Users for Process {
    type Hold = Hold;

    fn admit(&mut self, _: Peer, asked: &Asked<'_>) -> Result<Granted<Hold>, Status> {
        self.tags.hold(asked.tag, asked.length)?;
        self.held += 1;
        let (tag, kind, length) = (asked.tag, asked.kind, asked.length);
        Ok(Granted {
            hold: Hold { tag, kind, length },
            length,
            offset: 0,
            tag: 0,
        })
    }

    fn place(&mut self, hold: Hold, data: &[u8]) {
        self.region(hold.tag).write(0, data).expect("it fits");
    }

    fn fetch(&mut self, hold: Hold, to: &mut [u8]) {
        self.region(hold.tag).read(0, to).expect("it fits");
    }

    fn exchange(&mut self, hold: Hold, data: &[u8], to: &mut [u8]) {
        self.fetch(hold, to);
        self.place(hold, data);
    }

    fn elements(&mut self, hold: Hold, to: &mut Vec<Element<'static>>) -> Result<(), Status> {
        let length = u32::try_from(hold.length).expect("short");
        to.push(self.memory[&hold.tag].element(0, length).expect("it fits"));
        Ok(())
    }

    fn ended(&mut self, hold: Hold, status: Status) {
        self.held -= 1;
        let direction = Direction::of_peer(hold.kind);
        self.tags
            .release(hold.tag, direction, Some((status, hold.length)));
    }

    fn gather(&mut self, token: u64, to: &mut [u8]) {
        let tag = self.own[&token].tag;
        self.region(tag).read(0, to).expect("it fits");
    }

    fn scatter(&mut self, token: u64, data: &[u8]) {
        let tag = self.own[&token].tag;
        self.region(tag).write(0, data).expect("it fits");
    }

    fn done(&mut self, token: u64, answer: Answer) {
        let own = self.own.remove(&token).expect("it is under way");
        self.ended.push((token, answer));
        let end = Some((answer.status, answer.length));
        let direction = Direction::of_own(own.kind);
        let known = answer.status == Status::Ok || own.acknowledged.is_some();
        self.tags.release(own.tag, direction, end.filter(|_| known));
        if let Some(note) = own.acknowledged {
            self.tags.tell(note, answer.status, answer.length);
        }
    }

    fn own_elements(&mut self, token: u64, to: &mut Vec<Element<'static>>) -> Result<(), Status> {
        let own = &self.own[&token];
        let mr = &self.memory[&own.tag];
        to.push(mr.element(0, own.length as u32).expect("it fits"));
        Ok(())
    }

    fn counted(&mut self, _: Peer, lease: u64, length: u64) {
        self.counted.push((lease, length));
    }

    fn returned(&mut self, _: Peer, lease: u64) {
        self.returned.push(lease);
    }

    fn joined(&mut self, peer: Peer) {
        self.joined.push(peer);
    }

    fn left(&mut self, peer: Peer, why: Left) {
        self.left.push((peer, why));
    }
}

impl Process {
    fn region(&self, tag: u32) -> &Arc<Region> {
        self.memory[&tag].region().expect("memory of our own")
    }
}

impl Process {
    /// Memory of a tag that a peer may reach itself.
    pub fn lendable(&self, tag: u32) -> Segment {
        let mr = &self.memory[&tag];
        Segment {
            address: mr.address(),
            length: mr.region().expect("memory of our own").size() as u64,
            key: mr.rkey().0,
        }
    }

    /// The memory of a tag.
    pub fn region_of(&self, tag: u32) -> Arc<Region> {
        Arc::clone(self.region(tag))
    }

    /// Takes note of an operation on memory of a tag; its token.
    pub fn note(&mut self, tag: u32, kind: Kind, length: u64) -> u64 {
        self.tags.hold(tag, length).expect("it has so many");
        let own = Own {
            tag,
            kind,
            length,
            acknowledged: None,
        };
        self.next += 1;
        self.own.insert(self.next - 1, own);
        self.next - 1
    }
}

/// A process with its thread.
pub struct Side {
    pub server: Server<Process>,
}

/// Messages of this length, header included.
pub const MESSAGE: u32 = 2048;

impl Side {
    pub fn new(receives: u16, requests: u16) -> Side {
        let config = Config {
            message_bytes: MESSAGE,
            receives,
            requests,
        };
        let settings = Settings {
            config,
            message_bytes: MESSAGE,
            uid: 0,
        };
        let at = SocketAddr::from(([127, 0, 0, 1], 0));
        let node = Node::listen(cm(), at, settings, Process::default()).expect("it listens");
        let server = Server::begin(node).expect("a thread");
        Side { server }
    }

    pub fn address(&self) -> SocketAddr {
        self.server.with(|node| node.address())
    }

    /// Waits for something.
    pub fn until<R>(&self, found: impl FnMut(&mut Node<Process>) -> Option<R>) -> R {
        let end = ferriband_host::wake::now() + PATIENCE;
        match self.server.wait(Some(end), found).expect("it looks") {
            Waited::Done(done) => done,
            Waited::TimedOut => panic!("nothing within {PATIENCE:?}"),
        }
    }

    /// A connection to another process.
    pub fn join(&self, address: SocketAddr) -> Peer {
        let peer = self.server.with(|node| {
            let peer = node.peer(address);
            node.join(peer).expect("asked");
            peer
        });
        self.until(|node| {
            assert_eq!(node.users.left, [], "it is there");
            node.is_joined(peer).then_some(())
        });
        peer
    }

    /// A buffer that has this tag.
    pub fn register(&self, tag: u32, length: usize) {
        self.server.with(|node| {
            let pd = node.own_domain().expect("an adapter");
            let region = Region::create(c"buffer", length).expect("memory");
            let remote = Access::REMOTE_WRITE | Access::REMOTE_READ | Access::REMOTE_ATOMIC;
            let all = remote | Access::LOCAL_WRITE;
            let mr = Mr::register(&pd, &region, all).expect("a registration");
            let (address, length) = (mr.address(), length as u64);
            let range = Range { address, length };
            node.users.tags.register(range, Some(tag)).expect("free");
            node.users.memory.insert(tag, mr);
        });
    }

    pub fn write(&self, tag: u32, at: usize, bytes: &[u8]) {
        self.server
            .with(|node| node.users.region(tag).write(at, bytes).expect("it fits"));
    }

    pub fn read(&self, tag: u32, at: usize, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        self.server.with(|node| {
            node.users
                .region(tag)
                .read(at, &mut bytes)
                .expect("it fits")
        });
        bytes
    }

    pub fn bind(&self, tag: u32, direction: Direction, note: u64) {
        self.server.with(|node| {
            node.users
                .tags
                .bind(tag, direction, Note(note))
                .expect("free")
        });
    }

    /// The next notification or acknowledgement.
    pub fn told(&self) -> Told {
        self.until(|node| node.users.tags.next_told())
    }

    /// Begins a put or a get, once there is room.
    pub fn ask(
        &self,
        peer: Peer,
        kind: Kind,
        (local, remote): (u32, u32),
        length: u64,
        long: bool,
        acknowledge: Option<u64>,
    ) {
        self.until(|node| ask(node, peer, kind, (local, remote), length, long, acknowledge));
    }
}

/// Begins a put or a get, if there is room.
pub fn ask(
    node: &mut Node<Process>,
    peer: Peer,
    kind: Kind,
    (local, remote): (u32, u32),
    length: u64,
    long: bool,
    acknowledge: Option<u64>,
) -> Option<()> {
    let users = &mut node.users;
    let token = users.next;
    let direction = Direction::of_own(kind);
    let solicit = acknowledge.is_some() || users.tags.is_bound(local, direction);
    users.tags.hold(local, length).expect("it has so many");
    let mr = &users.memory[&local];
    let segments = [Segment {
        address: mr.address(),
        length,
        key: mr.rkey().0,
    }];
    let own = Own {
        tag: local,
        kind,
        length,
        acknowledged: acknowledge.map(Note),
    };
    users.own.insert(token, own);
    users.next += 1;
    let start = Start {
        kind,
        tag: remote,
        address: &[],
        length,
        payload: if kind == Kind::Get {
            0
        } else {
            length as usize
        },
        long: long.then_some(&segments[..]),
        acknowledge: acknowledge.is_some(),
        solicit,
        token,
    };
    let started = node.start(peer, &start);
    let users = &mut node.users;
    match started {
        Ok(Started::Answered) => Some(()),
        Ok(Started::Over) => {
            users.own.remove(&token);
            users
                .tags
                .release(local, direction, Some((Status::Ok, length)));
            Some(())
        }
        Err(NotStarted::Full) => {
            users.own.remove(&token);
            users.tags.release(local, direction, None);
            None
        }
        Err(why) => panic!("{why}"),
    }
}
