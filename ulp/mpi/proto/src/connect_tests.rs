use super::*;
use proptest::prelude::*;

const SECRET: u64 = 0x1234_5678_9abc_def0;

fn end(rank: u32) -> Endpoint {
    Endpoint {
        qpn: 100 + rank,
        psn: 7 * rank,
        mtu: 3,
        lid: 1,
        gid: [rank as u8; 16],
    }
}

/// Two ranks and the datagrams between them.
struct World {
    machines: [Machine; 2],
    /// What is under way, and the rank that it goes to.
    network: Vec<(usize, [u8; DATAGRAM])>,
    now_ns: u64,
    /// Ends that each side's queue pair was connected to.
    connected: [Option<Endpoint>; 2],
    /// Whether each side may send.
    established: [bool; 2],
    failed: [Option<Reason>; 2],
    complaints: u32,
}

impl World {
    fn new() -> Self {
        Self {
            machines: [Machine::new(0, 1, SECRET), Machine::new(1, 0, SECRET)],
            network: Vec::new(),
            now_ns: 0,
            connected: [None; 2],
            established: [false; 2],
            failed: [None; 2],
            complaints: 0,
        }
    }

    fn want(&mut self, rank: usize) {
        if self.machines[rank].is_idle() {
            self.machines[rank].want(end(rank as u32), self.now_ns);
        }
        self.flush(rank);
    }

    fn flush(&mut self, rank: usize) {
        while let Some(datagram) = self.machines[rank].poll_transmit() {
            self.network.push((1 - rank, datagram.emit()));
            self.machines[rank].sent();
        }
    }

    fn act(&mut self, rank: usize, step: Step) {
        match step {
            Step::None => (),
            Step::Answer(remote) => {
                assert_eq!(self.connected[rank], None, "a queue pair is connected once");
                self.connected[rank] = Some(remote);
                self.machines[rank].accept(end(rank as u32), self.now_ns);
            }
            Step::Connect(remote) => {
                assert_eq!(self.connected[rank], None, "a queue pair is connected once");
                self.connected[rank] = Some(remote);
                self.machines[rank].connected();
                self.established[rank] = true;
            }
            Step::Established => {
                assert!(!self.established[rank]);
                self.established[rank] = true;
            }
            Step::Quiet => self.complaints += 1,
            Step::Failed(reason) => self.failed[rank] = Some(reason),
        }
        if self.established[rank] {
            let other = self.connected[1 - rank];
            assert_eq!(other, Some(end(rank as u32)), "the peer can receive");
        }
        self.flush(rank);
    }

    fn deliver(&mut self, at: usize, keep: bool) {
        let (to, bytes) = if keep {
            self.network[at]
        } else {
            self.network.swap_remove(at)
        };
        let datagram = Datagram::parse(&bytes).expect("one of ours");
        assert!(datagram.is_for(to as u32, 2, SECRET));
        let step = self.machines[to].handle_datagram(&datagram);
        self.act(to, step);
    }

    fn pass_time(&mut self, ns: u64) {
        self.now_ns += ns;
        for rank in 0..2 {
            let step = self.machines[rank].handle_timeout(self.now_ns);
            self.act(rank, step);
        }
    }

    fn is_done(&self) -> bool {
        self.machines.iter().all(Machine::is_connected)
    }
}

#[derive(Clone, Debug)]
enum Event {
    Want(usize),
    Deliver(prop::sample::Index),
    Double(prop::sample::Index),
    Lose(prop::sample::Index),
    Wait(u64),
    /// A message of an established side comes to the other.
    Message(usize),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        1 => (0..2_usize).prop_map(Event::Want),
        4 => any::<prop::sample::Index>().prop_map(Event::Deliver),
        2 => any::<prop::sample::Index>().prop_map(Event::Double),
        2 => any::<prop::sample::Index>().prop_map(Event::Lose),
        2 => (1..200 * MILLISECOND).prop_map(Event::Wait),
        1 => (0..2_usize).prop_map(Event::Message),
    ]
}

proptest! {
    /// Whatever is lost, doubled and overtaken, each queue pair is connected once, and to the right end; and once the network is well, both come through.
    #[test]
    fn a_connection_comes_about_in_any_weather(events in prop::collection::vec(event(), 0..60), first in 0..2_usize) {
        let mut world = World::new();
        world.want(first);
        for event in events {
            let under_way = world.network.len();
            match event {
                Event::Want(rank) => world.want(rank),
                Event::Wait(ns) => world.pass_time(ns),
                Event::Message(from) => {
                    if world.established[from] && !world.established[1 - from] {
                        let step = world.machines[1 - from].handle_message();
                        world.act(1 - from, step);
                    }
                }
                _ if under_way == 0 => (),
                Event::Deliver(at) => world.deliver(at.index(under_way), false),
                Event::Double(at) => world.deliver(at.index(under_way), true),
                Event::Lose(at) => { world.network.swap_remove(at.index(under_way)); }
            }
        }
        prop_assert_eq!(world.failed, [None; 2]);
        for _ in 0..100 {
            if world.is_done() {
                break;
            }
            while !world.network.is_empty() {
                world.deliver(0, false);
            }
            world.pass_time(LONGEST_NS);
        }
        prop_assert!(world.is_done(), "{:?}", world.machines);
        prop_assert_eq!(world.established, [true; 2]);
        prop_assert_eq!(world.connected, [Some(end(1)), Some(end(0))]);
    }

    #[test]
    fn what_is_emitted_is_parsed(
        kind in prop::sample::select(vec![Type::Req, Type::Rep, Type::Rtu, Type::Rej]),
        secret: u64, from: u32, to: u32, attempt: u32, reason: u32, qpn in 0..1_u32 << 24, psn in 0..1_u32 << 24,
        mtu in 1..=5_u8, lid: u16, gid: [u8; 16], receive in 0..=MOST_RECEIVE,
    ) {
        let datagram = Datagram {
            kind, secret, from, to, attempt, reason, end: Endpoint { qpn, psn, mtu, lid, gid },
        };
        prop_assert_eq!(Datagram::parse(&datagram.emit()), Some(datagram));
        let card = Card { qpn, lid, is_ethernet: lid == 0, mtu, gid, receive };
        prop_assert_eq!(Card::parse(&card.emit()), Some(card));
    }

    #[test]
    fn any_bytes_are_a_datagram_or_none(bytes in prop::collection::vec(any::<u8>(), 0..200), valid: bool) {
        let mut bytes = bytes;
        if valid && bytes.len() >= 8 {
            bytes.resize(DATAGRAM, 0);
            bytes[..4].copy_from_slice(&MAGIC.to_le_bytes());
            bytes[4..6].copy_from_slice(&VERSION.to_le_bytes());
        }
        if let Some(datagram) = Datagram::parse(&bytes) {
            prop_assert!(datagram.end.qpn < 1 << 24 || datagram.kind == Type::Rej);
        }
    }
}

#[test]
fn two_that_ask_at_once_have_one_connection() {
    let mut world = World::new();
    world.want(0);
    world.want(1);
    while !world.network.is_empty() {
        world.deliver(0, false);
    }
    assert!(world.is_done());
    assert_eq!(
        world.machines[0].side,
        Side::Active,
        "the lower rank's attempt stands"
    );
    assert_eq!(world.machines[1].side, Side::Passive);
}

#[test]
fn silence_is_mentioned_once_and_never_given_up() {
    let mut world = World::new();
    world.want(0);
    let mut sent = 0;
    while world.now_ns < 3_600_000 * MILLISECOND {
        sent += world.network.len();
        world.network.clear();
        let at = world.machines[0].poll_timeout().expect("it asks again");
        let ns = at - world.now_ns;
        world.pass_time(ns);
        assert_eq!(world.complaints, u32::from(world.now_ns >= PATIENCE_NS));
    }
    assert!((3600..3610).contains(&sent), "{sent} datagrams");
    // The peer comes back to MPI.
    while !world.network.is_empty() {
        world.deliver(0, false);
    }
    assert!(world.is_done());
    assert_eq!(world.failed, [None; 2]);
}

#[test]
fn a_refusal_ends_it_and_is_repeated() {
    let mut world = World::new();
    world.want(0);
    let (_, bytes) = world.network.remove(0);
    let request = Datagram::parse(&bytes).expect("a request");
    let step = world.machines[1].handle_datagram(&request);
    assert_eq!(step, Step::Answer(end(0)));
    world.machines[1].refuse(12);
    world.flush(1);
    world.network.clear();
    // The refusal was lost: the question comes again.
    let step = world.machines[1].handle_datagram(&request);
    world.act(1, step);
    world.deliver(0, false);
    assert_eq!(world.failed[0], Some(Reason::Refused(12)));
}

#[test]
fn the_end_of_a_connection_is_told() {
    let mut world = World::new();
    world.want(0);
    while !world.network.is_empty() {
        world.deliver(0, false);
    }
    assert!(world.is_done());
    world.machines[0].refuse(14);
    world.flush(0);
    world.deliver(0, false);
    assert_eq!(world.failed[1], Some(Reason::Ended(14)));
}

#[test]
fn strangers_are_not_heard() {
    let datagram = Datagram {
        kind: Type::Req,
        secret: SECRET,
        from: 1,
        to: 0,
        attempt: 1,
        reason: 0,
        end: end(1),
    };
    assert!(datagram.is_for(0, 2, SECRET));
    assert!(!datagram.is_for(0, 2, SECRET ^ 1), "another job");
    assert!(!datagram.is_for(1, 2, SECRET), "for somebody else");
    assert!(!datagram.is_for(0, 1, SECRET), "there is no such rank");
    let mut bytes = datagram.emit();
    bytes[4] = 9;
    assert_eq!(Datagram::parse(&bytes), None, "another version");
    assert_eq!(Datagram::parse(&datagram.emit()[..100]), None);
}
