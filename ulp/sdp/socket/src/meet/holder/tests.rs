//! Both sides agree, and a holder meets those who claim what is not theirs.

use super::super::testing::*;
use super::*;
use rustix::event::{PollFd, Timespec};
use std::net::TcpStream;

fn guest(world: &World) -> Channel {
    let address = channel::own_address(world.holder.name()).expect("a name");
    Channel::connect(&address).expect("connected")
}

/// What a holder answers to a first request with an eventfd.
fn answer(world: &mut World, request: Request) -> Option<Message> {
    let mut guest = guest(world);
    say(&mut guest, Message::Request(request), &[event().as_fd()]);
    let mut news = Vec::new();
    world.holder_serves(NOW, &mut news);
    let said = said(&guest);
    match (said, &news[..]) {
        (Some(Message::Agreed { .. }), [News::Met(_)]) => {}
        // he is named in the status
        (Some(Message::Refused(reason)), [News::Stranger { uid, reason: why }]) => {
            let own = rustix::process::geteuid().as_raw();
            assert_eq!((*uid, *why), (own, reason));
            assert!(matches!(reason, Reason::NotTheSocket | Reason::NotTheUser));
        }
        (Some(Message::Refused(Reason::NotTheSocket)), _) => panic!("he is not named"),
        (_, news) => assert!(news.is_empty(), "{news:?}"),
    }
    said
}

#[test]
fn both_sides_get_one_slot() {
    let mut world = World::with_family();
    let (stream, accepted) = world.connect();
    let [there, here] = met(world.ask(&stream));
    assert_eq!((there.cookie, here.cookie), (accepted, cookie(&stream)));
    assert_eq!((there.role, here.role), (Role::Accepted, Role::Connected));
    assert_eq!((there.ticket.segment, there.ticket.slot), (0, 0));
    assert_eq!((here.ticket.segment, here.ticket.slot), (0, 0));
    there.segment.write(70_000, b"both").expect("inside");
    let mut seen = [0; 4];
    here.segment.read(70_000, &mut seen).expect("inside");
    assert_eq!(&seen, b"both");
    there.peer.ring(0);
    assert_eq!(world.client_bell().take(), 1);
    here.peer.ring(0);
    assert_eq!(world.holder.bell.take(), 1);
}

#[test]
fn a_pair_has_one_channel_and_gives_its_slots_again() {
    let mut world = World::with_family();
    let (first, accepted) = world.connect();
    let [_, here] = met(world.ask(&first));
    let (second, _) = world.connect();
    let [_, other] = met(world.ask(&second));
    assert_eq!(world.holder.guests.len(), 1);
    assert!(Arc::ptr_eq(&here.segment, &other.segment));
    assert_eq!((other.ticket.segment, other.ticket.slot), (0, 1));
    world.client.give_back(here.ticket);
    let news = world.serve(NOW);
    let [News::Left(ticket)] = &news[..] else {
        panic!("{news:?}");
    };
    assert_eq!((ticket.segment, ticket.slot), (0, 0));
    world.holder.give_back(accepted);
    let (third, _) = world.connect();
    let [_, third] = met(world.ask(&third));
    assert_eq!(third.ticket, here.ticket);
}

#[test]
fn a_connection_is_agreed_about_once() {
    let mut world = World::with_family();
    let (stream, accepted) = world.connect();
    met(world.ask(&stream));
    let again = stays(&world.ask(&stream));
    assert_eq!(again, No::Never(Reason::Already));
    let other = answer(&mut world, request(&stream, accepted));
    assert_eq!(other, Some(Message::Refused(Reason::Already)));
}

#[test]
fn the_end_of_a_process_is_told() {
    let mut world = World::with_family();
    let (stream, _) = world.connect();
    met(world.ask(&stream));
    world.client = super::super::client::ClientService::new(event()).expect("this kernel tells");
    let news = world.serve(NOW);
    assert!(matches!(&news[..], [News::Gone { pair: 0 }]), "{news:?}");
    assert_eq!(world.holder.guests.len(), 0);
}

#[test]
fn a_connection_of_somebody_else_is_refused() {
    let mut world = World::new();
    let (victim, accepted) = world.connect();
    let (own, own_accepted) = world.connect();
    let honest = request(&victim, accepted);
    let change = |change: &dyn Fn(&mut Request)| {
        let mut request = honest;
        change(&mut request);
        request
    };
    let other = request(&own, own_accepted);
    let not_theirs = Some(Message::Refused(Reason::NotTheSocket));
    for claim in [
        // a socket of his own, for somebody else's connection
        change(&|claim| claim.connected = other.connected),
        change(&|claim| claim.connected = 0),
        change(&|claim| claim.connected = claim.accepted),
        // addresses of his own connection, for somebody else's socket
        change(&|claim| claim.connected_end = other.connected_end),
        change(&|claim| claim.accepted = other.accepted),
        change(&|claim| claim.accepted_end.set_port(1)),
        change(&|claim| std::mem::swap(&mut claim.accepted_end, &mut claim.connected_end)),
    ] {
        assert_eq!(answer(&mut world, claim), not_theirs, "{claim:?}");
    }
    let unknown = change(&|claim| claim.accepted = claim.connected);
    let not_held = Some(Message::Refused(Reason::NotHeld));
    assert_eq!(answer(&mut world, unknown), not_held);
    let agreed = answer(&mut world, honest);
    assert!(matches!(agreed, Some(Message::Agreed { .. })), "{agreed:?}");
}

#[test]
fn a_connection_that_ends_is_not_taken_over() {
    let mut world = World::new();
    let (stream, accepted) = world.connect();
    let asked = request(&stream, accepted);
    stream.shutdown(std::net::Shutdown::Write).expect("shut");
    let refused = Some(Message::Refused(Reason::NotEstablished));
    assert_eq!(answer(&mut world, asked), refused);
}

#[test]
fn whoever_breaks_the_rules_is_closed_and_others_are_answered() {
    let mut world = World::new();
    let (stream, accepted) = world.connect();
    let request = request(&stream, accepted);
    let strangers: Vec<_> = (0..40)
        .map(|seed| {
            let stranger = guest(&world);
            garbage(&stranger, seed);
            stranger
        })
        .collect();
    let (reader, pipe) = std::io::pipe().expect("a pipe");
    let bell = event();
    let ask = Message::Request(request);
    let over = Message::Over {
        segment: 0,
        slot: 0,
    };
    let rude: Vec<_> = [
        (ask, vec![]),
        (ask, vec![pipe.as_fd()]),
        (ask, vec![bell.as_fd(), bell.as_fd()]),
        (ask, vec![pipe.as_fd(), pipe.as_fd()]),
        (over, vec![]),
        (over, vec![bell.as_fd()]),
        (Message::Later, vec![]),
        (Message::Ask { cookie: accepted }, vec![]),
    ]
    .into_iter()
    .map(|(message, fds)| {
        let mut channel = guest(&world);
        say(&mut channel, message, &fds);
        channel
    })
    .collect();
    let mut news = Vec::new();
    world.holder_serves(NOW, &mut news);
    assert!(news.is_empty());
    assert!(strangers.iter().chain(&rude).all(is_closed));
    assert_eq!(world.holder.guests.len(), 0);
    drop(pipe);
    let mut polled = [PollFd::new(&reader, PollFlags::IN)];
    let look = rustix::event::poll(&mut polled, Some(&Timespec::default()));
    assert_eq!(look, Ok(1), "no descriptor that came is left open");
    let agreed = answer(&mut world, request);
    assert!(matches!(agreed, Some(Message::Agreed { .. })), "{agreed:?}");
}

#[test]
fn whoever_asks_nothing_is_closed_after_a_second() {
    let mut world = World::new();
    let silent = guest(&world);
    world.holder_serves(NOW, &mut Vec::new());
    assert_eq!(world.holder.deadline(), Some(NOW + PATIENCE));
    assert_eq!(said(&silent), None);
    world.holder_serves(NOW + PATIENCE, &mut Vec::new());
    assert!(is_closed(&silent));
    assert_eq!(world.holder.deadline(), None);
}

#[test]
fn what_the_program_says_of_its_socket_is_answered() {
    let mut world = World::new();
    let (stream, accepted) = world.connect();
    let mut guest = guest(&world);
    let ask = Message::Request(request(&stream, accepted));
    say(&mut guest, ask, &[event().as_fd()]);
    say(&mut guest, ask, &[]);
    let answers = std::cell::RefCell::new(vec![No::Later, No::Never(Reason::Unfit)]);
    let sockets = |_| Err(answers.borrow_mut().remove(0));
    world.holder.serve(NOW, &sockets, &mut Vec::new());
    assert_eq!(said(&guest), Some(Message::Later));
    assert_eq!(said(&guest), Some(Message::Refused(Reason::Unfit)));
}

#[test]
fn listeners_of_ipv6_hold_connections_of_ipv4() {
    let mut world = World::new();
    world.listener = std::net::TcpListener::bind("[::]:0").expect("a port");
    world.found();
    let (stream, _) = world.connect();
    met(world.ask(&stream));
    let stream = TcpStream::connect(("::1", world.port())).expect("connected");
    let there = world.listener.accept().expect("accepted").0;
    let table = world.family.as_ref().expect("founded").table();
    table.insert(cookie(&there), world.holder.name());
    world.accepted.push(there);
    met(world.ask(&stream));
}

/// Asks for all streams, as a process of this user or of another one.
fn asks(world: &mut World, is_own_user: bool) -> (Channel, Vec<News>) {
    let mut guest = guest(world);
    let mut news = Vec::new();
    world.holder_serves(NOW, &mut news);
    let known = world.holder.guests.last_mut().expect("accepted");
    (known.is_own_user, known.uid) = match is_own_user {
        true => (true, 1000),
        false => (false, 1001),
    };
    say(&mut guest, Message::Status { from: 0 }, &[]);
    world.holder_serves(NOW, &mut news);
    (guest, news)
}

#[test]
fn the_own_user_is_told_of_streams_and_another_one_is_not() {
    let mut world = World::new();
    let (guest, news) = asks(&mut world, true);
    let [
        News::Status {
            pair,
            number,
            from: 0,
        },
    ] = news[..]
    else {
        panic!("{news:?}");
    };
    let page = [Message::Rows { next: 7 }, Message::Rows { next: -1 }];
    world.holder.tell(pair, number, &page);
    assert_eq!([said(&guest), said(&guest)], page.map(Some));
    let (guest, news) = asks(&mut world, false);
    assert!(news.is_empty(), "{news:?}");
    assert!(is_closed(&guest));
}

#[test]
fn whoever_asks_and_does_not_read_is_closed() {
    let mut world = World::new();
    let (mut guest, mut news) = asks(&mut world, true);
    let page = [Message::Rows { next: 1 }; 64];
    let mut pages = 0;
    while let Some(News::Status { pair, number, .. }) = news.pop() {
        world.holder.tell(pair, number, &page);
        pages += 1;
        assert!(pages < 1000, "what waits has a limit");
        say(&mut guest, Message::Status { from: 1 }, &[]);
        world.holder_serves(NOW, &mut news);
    }
    assert!(world.holder.guests.is_empty());
}

#[test]
fn one_question_is_answered_at_a_time() {
    let mut world = World::new();
    let (mut guest, _) = asks(&mut world, true);
    for from in 1..20 {
        say(&mut guest, Message::Status { from }, &[]);
    }
    let mut news = Vec::new();
    world.holder_serves(NOW, &mut news);
    assert_eq!(news.len(), 1);
}
