//! A client meets squatters, silence and holders that break the rules.

use super::super::family::Family;
use super::super::holder::HolderService;
use super::super::testing::*;
use super::*;
use crate::own::Own;
use crate::segment::LENGTH;
use ferriband_host::segment::Segment;
use std::net::TcpStream;

impl World {
    /// What tells the connecting side.
    pub fn client_bell(&self) -> &Event {
        &self.client.bell
    }
}

/// A stranger at a port's name.
fn squat(port: u16, place: u8) -> Own {
    channel::listen(&channel::family_address(port, place).expect("a name")).expect("free")
}

/// The one who has asked a listener.
fn visitor(listener: &Own) -> (Channel, Packet) {
    let channel = channel::accept(listener.as_fd()).expect("one has asked");
    match channel.receive() {
        Received::Packet(packet, _) => (channel, packet),
        other => panic!("{other:?}"),
    }
}

fn reply(channel: &mut Channel, number: u32, message: Message, fds: &[BorrowedFd<'_>]) {
    let packet = Packet { number, message };
    channel.send(&packet, fds).expect("sent");
}

#[test]
fn nobody_is_asked_before_the_peer_has_accepted() {
    let mut world = World::with_family();
    let stream = TcpStream::connect(("127.0.0.1", world.port())).expect("connected");
    assert_eq!(world.client.ask(stream.as_fd(), NOW), Err(No::Later));
}

#[test]
fn that_nobody_takes_part_is_remembered_for_a_second() {
    let mut world = World::new();
    let (stream, _) = world.connect();
    let nobody = Err(No::Never(Reason::Nobody));
    assert_eq!(world.client.ask(stream.as_fd(), NOW), nobody);
    world.found();
    let (stream, _) = world.connect();
    let soon = NOW + QUIET - Duration::from_millis(1);
    assert_eq!(world.client.ask(stream.as_fd(), soon), nobody);
    assert_eq!(world.client.ask(stream.as_fd(), NOW + QUIET), Ok(()));
    met(world.serve(NOW + QUIET));
}

#[test]
fn a_holder_that_is_not_known_leaves_tcp() {
    let mut world = World::with_family();
    let (stream, accepted) = world.connect();
    let family = world.family.as_ref().expect("founded");
    family.table().remove(accepted, world.holder.name());
    let not_held = No::Never(Reason::NotHeld);
    assert_eq!(stays(&world.ask(&stream)), not_held);
    // a process that has died
    let family = world.family.as_ref().expect("founded");
    family.table().insert(accepted, Name(*b"nobody is here!!"));
    assert_eq!(stays(&world.ask(&stream)), not_held);
    // one that holds other sockets
    let other = HolderService::new(event()).expect("this kernel tells");
    let family = world.family.as_ref().expect("founded");
    family.table().insert(accepted, other.name());
    world.client.ask(stream.as_fd(), NOW).expect("asked");
    let mut other = other;
    let mut news = world.serve(NOW);
    other.serve(NOW, &|_| Err(not_held), &mut news);
    news.extend(world.serve(NOW));
    assert_eq!(stays(&news), not_held);
}

#[test]
fn squatters_do_not_stand_between_two_that_take_part() {
    type Answer<'a> = &'a dyn Fn(&mut Channel, u32);
    let holder = |name: &'static [u8; 16]| Message::At(Name(*name));
    let answers: [Answer<'_>; 8] = [
        &|_, _| (),
        &|channel, _| garbage(channel, 3),
        &|channel, _| garbage(channel, 8),
        &|channel, number| reply(channel, number, Message::Nowhere, &[]),
        &|channel, number| reply(channel, number + 1, Message::Nowhere, &[]),
        &|channel, number| reply(channel, number, holder(b"nobody is here!!"), &[]),
        &|channel, number| reply(channel, number, Message::Later, &[event().as_fd()]),
        &|channel, number| {
            for _ in 0..50 {
                reply(channel, number, holder(b"nobody is there!"), &[]);
            }
        },
    ];
    for answer in answers {
        let mut world = World::new();
        let squatter = squat(world.port(), 0);
        world.found();
        let place = world.family.as_ref().map(Family::place);
        assert_eq!(place, Some((world.port(), 1)));
        let (stream, _) = world.connect();
        world.client.ask(stream.as_fd(), NOW).expect("asked");
        let (mut channel, packet) = visitor(&squatter);
        assert!(matches!(packet.message, Message::Ask { .. }));
        answer(&mut channel, packet.number);
        met(world.serve(NOW));
    }
}

#[test]
fn squatters_alone_leave_tcp() {
    let mut world = World::new();
    let _silent = squat(world.port(), 0);
    let (stream, _) = world.connect();
    assert!(world.ask(&stream).is_empty());
    assert_eq!(world.client.deadline(), Some(NOW + PATIENCE));
    let late = world.serve(NOW + PATIENCE);
    assert_eq!(stays(&late), No::Never(Reason::NoAnswer));
    assert_eq!(world.client.deadline(), None);

    // an answer to another question is none
    for (off, reason) in [(0, Reason::NotHeld), (1, Reason::Nonsense)] {
        let mut world = World::new();
        let squatter = squat(world.port(), 0);
        let (stream, _) = world.connect();
        world.client.ask(stream.as_fd(), NOW).expect("asked");
        let (mut channel, packet) = visitor(&squatter);
        reply(&mut channel, packet.number + off, Message::Nowhere, &[]);
        assert_eq!(stays(&world.serve(NOW)), No::Never(reason));
    }

    let mut world = World::new();
    let rude = squat(world.port(), 0);
    let (stream, _) = world.connect();
    world.client.ask(stream.as_fd(), NOW).expect("asked");
    let (channel, _) = visitor(&rude);
    garbage(&channel, 4);
    let news = world.serve(NOW);
    assert_eq!(stays(&news), No::Never(Reason::Nonsense));
}

/// A holder that does as it likes, named by a family; the client's request has come.
fn impostor() -> (World, TcpStream, Channel, u32) {
    let mut world = World::with_family();
    let (stream, accepted) = world.connect();
    let name = Name((u128::from(accepted) << 64).to_be_bytes());
    let family = world.family.as_ref().expect("founded");
    family.table().insert(accepted, name);
    let listener = channel::listen(&channel::own_address(name).expect("a name")).expect("free");
    assert!(world.ask(&stream).is_empty());
    let (channel, packet) = visitor(&listener);
    assert!(matches!(packet.message, Message::Request(_)));
    (world, stream, channel, packet.number)
}

#[test]
fn a_holder_that_breaks_the_rules_is_left() {
    let segment = Segment::create(c"test", LENGTH).expect("memory");
    let short = Segment::create(c"test", LENGTH - 1).expect("memory");
    let (pipe, _writer) = std::io::pipe().expect("a pipe");
    let bell = event();
    let agreed = |segment, slot| Message::Agreed { segment, slot };
    let [memory, short] = [segment.as_fd(), short.as_fd()];
    for (message, fds) in [
        (agreed(0, 0), vec![]),
        (agreed(0, 0), vec![memory]),
        (agreed(0, 0), vec![short, bell.as_fd()]),
        (agreed(0, 0), vec![pipe.as_fd(), bell.as_fd()]),
        (agreed(0, 0), vec![memory, pipe.as_fd()]),
        (agreed(0, 64), vec![memory, bell.as_fd()]),
        (agreed(1, 0), vec![memory, bell.as_fd()]),
        (Message::Later, vec![memory]),
        (Message::Nowhere, vec![]),
    ] {
        let (mut world, _stream, mut channel, number) = impostor();
        reply(&mut channel, number, message, &fds);
        let news = world.serve(NOW);
        assert_eq!(stays(&news), No::Never(Reason::Broken), "{message:?}");
        assert!(is_closed(&channel));
        assert!(world.client.partners.is_empty());
    }
    let (mut world, _stream, channel, _) = impostor();
    garbage(&channel, 5);
    assert_eq!(stays(&world.serve(NOW)), No::Never(Reason::Broken));
}

#[test]
fn what_a_holder_says_is_the_answer() {
    let (mut world, _stream, mut channel, number) = impostor();
    reply(&mut channel, number, Message::Later, &[]);
    assert_eq!(stays(&world.serve(NOW)), No::Later);
    let (mut world, _stream, mut channel, number) = impostor();
    let refused = Message::Refused(Reason::Unfit);
    reply(&mut channel, number, refused, &[]);
    assert_eq!(stays(&world.serve(NOW)), No::Never(Reason::Unfit));
}

#[test]
fn one_that_is_silent_gives_way_to_the_next() {
    let mut world = World::with_family();
    let (stream, accepted) = world.connect();
    let name = Name((u128::from(accepted) << 64 | 1).to_be_bytes());
    let family = world.family.as_ref().expect("founded");
    family.table().insert(accepted, name);
    let _silent = channel::listen(&channel::own_address(name).expect("a name")).expect("free");
    // another family of the port knows better
    let other = squat(world.port(), 1);
    assert!(world.ask(&stream).is_empty());
    let (mut other, packet) = visitor(&other);
    let better = Message::At(world.holder.name());
    reply(&mut other, packet.number, better, &[]);
    assert!(world.serve(NOW).is_empty());
    assert_eq!(world.client.deadline(), Some(NOW + TURN));
    met(world.serve(NOW + TURN));
}

#[test]
fn a_process_that_is_known_is_asked_before_the_families() {
    let mut world = World::with_family();
    let (stream, _) = world.connect();
    met(world.ask(&stream));
    // no family is there to say so
    world.family = None;
    let (stream, _) = world.connect();
    met(world.ask(&stream));
    // another process holds the next one: what is known is wrong
    world.found();
    let (stream, accepted) = world.connect();
    let mut other = HolderService::new(event()).expect("this kernel tells");
    let family = world.family.as_ref().expect("founded");
    family.table().insert(accepted, other.name());
    let socket = world.accepted.pop().expect("one");
    assert!(world.ask(&stream).is_empty());
    let mut news = Vec::new();
    other.serve(
        NOW,
        &|_| Ok(super::super::testing::ends(&socket)),
        &mut news,
    );
    news.extend(world.serve(NOW));
    let [_, here] = met(news);
    assert_eq!(here.ticket.pair, 1);
    // two are known: neither is guessed
    assert_eq!(world.client.guess((world.port(), false)), None);
}

#[test]
fn a_slot_that_comes_too_late_is_given_back() {
    let (mut world, _stream, mut channel, number) = impostor();
    assert_eq!(world.client.deadline(), Some(NOW + PATIENCE));
    assert!(world.serve(NOW + TURN).is_empty());
    let late = world.serve(NOW + PATIENCE);
    assert_eq!(stays(&late), No::Never(Reason::NoAnswer));
    let segment = Segment::create(c"test", LENGTH).expect("memory");
    let bell = event();
    let agreed = Message::Agreed {
        segment: 0,
        slot: 7,
    };
    let fds = [segment.as_fd(), bell.as_fd()];
    reply(&mut channel, number, agreed, &fds);
    assert!(world.serve(NOW + PATIENCE).is_empty());
    let over = Message::Over {
        segment: 0,
        slot: 7,
    };
    assert_eq!(said(&channel), Some(over));
    // what is said about questions that nobody has asked
    reply(&mut channel, 99, Message::Refused(Reason::Unfit), &[]);
    assert!(world.serve(NOW + PATIENCE).is_empty());
    assert_eq!(said(&channel), None);
}
