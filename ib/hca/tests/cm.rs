//! The connection manager on one host: both sides of a connection in one process, and in two.

#![allow(clippy::unwrap_used)]

mod common;

use std::net::SocketAddr;
use std::sync::Arc;

use common::process::{self, Channel, Child};
use ferriband_hca::Engine;
use ferriband_hca::cm::{CmAddress, CmChannel, ConnWish, News, NewsKind};
use ferriband_transport::types::{QpState, QpType};

/// How long a path may be looked for.
const PATH_PATIENCE: std::time::Duration = std::time::Duration::from_secs(2);
const TCP: u16 = 0x0106;
const UDP: u16 = 0x0111;

#[test]
fn child_entry() {
    process::run_role(&[("accept", accept_all)]);
}

/// Listens on a port of its choice, says which, and accepts as many connections as it is told; says so when all are established.
fn accept_all(channel: Channel) {
    let engine = Engine::get().unwrap();
    let (cm, events) = (engine.cm(), CmChannel::open().unwrap());
    let listener = cm.create_id(&events, 1, TCP, QpType::Rc).unwrap();
    let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
    cm.bind(&engine, listener, any).unwrap();
    cm.listen(&engine, listener, 0).unwrap();
    let port = cm.query(&engine, listener).unwrap().src.unwrap().port();
    let count = channel.recv()[0];
    channel.send(&[port.into()]);
    let (mut established, mut qpn) = (0, 0x100_000);
    while established < count {
        let news = events.next_event().unwrap();
        match news.kind {
            NewsKind::ConnectRequest => {
                qpn += 1;
                cm.accept(&engine, news.id, 2, &wish(qpn, &[])).unwrap();
            }
            NewsKind::Established => established += 1,
            other => panic!("{other:?}"),
        }
    }
    channel.send(&[established]);
    // until somebody kills it
    channel.wait_forever();
    channel.recv();
}

/// Identifiers on the way to a port of this host, their routes resolved.
fn resolve_many(engine: &Arc<Engine>, here: &Arc<CmChannel>, port: u16, count: u64) -> Vec<u32> {
    let cm = engine.cm();
    let to = SocketAddr::from(([127, 0, 0, 1], port));
    let make = |user| {
        let id = cm.create_id(here, user, TCP, QpType::Rc).unwrap();
        cm.resolve_addr(engine, id, None, to).unwrap();
        expect(here, NewsKind::AddrResolved);
        cm.resolve_route(engine, id, PATH_PATIENCE).unwrap();
        expect(here, NewsKind::RouteResolved);
        id
    };
    (1..=count).map(make).collect()
}

/// A post box takes ten messages on many systems; what is lost is asked for again after seconds only, so that a loss in each
/// ten would take minutes.
#[test]
fn a_burst_of_requests_reaches_another_process_whole() {
    const COUNT: u64 = 400;
    let server = Child::spawn("accept");
    server.channel.send(&[COUNT]);
    let port = server.channel.recv()[0] as u16;
    let engine = Engine::get().unwrap();
    let (cm, here) = (engine.cm(), CmChannel::open().unwrap());
    let ids = resolve_many(&engine, &here, port, COUNT);
    for (index, id) in ids.iter().enumerate() {
        cm.connect(&engine, *id, &wish(0x200_000 + index as u32, &[]))
            .unwrap();
    }
    for _ in 0..COUNT {
        let response = expect(&here, NewsKind::ConnectResponse);
        cm.ready(&engine, response.id).unwrap();
    }
    assert_eq!(server.channel.recv(), [COUNT]);
    for id in ids {
        cm.destroy_id(&engine, id).unwrap();
    }
}

#[test]
fn the_end_of_a_killed_process_ends_its_connections() {
    let mut server = Child::spawn("accept");
    server.channel.send(&[3]);
    let port = server.channel.recv()[0] as u16;
    let engine = Engine::get().unwrap();
    let (cm, here) = (engine.cm(), CmChannel::open().unwrap());
    let ids = resolve_many(&engine, &here, port, 4);
    for (index, id) in ids[..3].iter().enumerate() {
        cm.connect(&engine, *id, &wish(0x300_000 + index as u32, &[]))
            .unwrap();
        expect(&here, NewsKind::ConnectResponse);
        cm.ready(&engine, *id).unwrap();
    }
    assert_eq!(server.channel.recv(), [3]);
    server.kill();
    let next = |past: NewsKind| loop {
        // nothing of the dead is under way any more: their connections are forgotten at once
        let news = here.next_event().unwrap();
        if news.kind != past {
            break news;
        }
    };
    for _ in 0..3 {
        assert_eq!(next(NewsKind::TimewaitExit).kind, NewsKind::Disconnected);
    }
    // and its service is nobody's any more
    cm.connect(&engine, ids[3], &wish(0x300_010, &[])).unwrap();
    let refused = next(NewsKind::TimewaitExit);
    assert_eq!((refused.kind, refused.status), (NewsKind::Rejected, 8));
    for id in ids {
        cm.destroy_id(&engine, id).unwrap();
    }
}

/// perftest asks before the other side has bound its second listener.
#[test]
fn a_request_waits_a_moment_for_its_listener() {
    const TRIES: usize = 100;
    let engine = Engine::get().unwrap();
    let (cm, here) = (engine.cm(), CmChannel::open().unwrap());
    let there = CmChannel::open().unwrap();
    let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
    // a thread that is not scheduled for the time of waiting is too late: that happens, but not always
    let accepted = (0..TRIES).any(|_| {
        let listener = cm.create_id(&there, 7, TCP, QpType::Rc).unwrap();
        cm.bind(&engine, listener, any).unwrap();
        let port = cm.query(&engine, listener).unwrap().src.unwrap().port();
        let active = resolve_many(&engine, &here, port, 1)[0];
        cm.connect(&engine, active, &wish(0x400_000, &[])).unwrap();
        cm.listen(&engine, listener, 1).unwrap();
        let found = loop {
            // whichever comes: a request there, or a refusal here
            if let Some(id) = pending(&there) {
                cm.destroy_id(&engine, id).unwrap();
                break true;
            }
            if pending(&here).is_some() {
                break false;
            }
            std::thread::yield_now();
        };
        cm.destroy_id(&engine, active).unwrap();
        cm.destroy_id(&engine, listener).unwrap();
        found
    });
    assert!(accepted);
}

/// The identifier of the next event of a channel, if there is one.
fn pending(channel: &Arc<CmChannel>) -> Option<u32> {
    let mut ready = libc::pollfd {
        fd: channel.events.fd(),
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: one structure, which is ours.
    let count = unsafe { libc::poll(&mut ready, 1, 0) };
    (count == 1).then(|| channel.next_event().unwrap().id)
}

/// Who asks and withdraws, again and again, fills neither the listener's channel nor its backlog.
#[test]
fn requests_that_are_withdrawn_leave_nothing_behind() {
    let sides = resolved(TCP, QpType::Rc);
    let (engine, cm) = (&sides.engine, sides.engine.cm());
    let port = cm
        .query(engine, sides.listener)
        .unwrap()
        .src
        .unwrap()
        .port();
    for count in 0..50 {
        let id = resolve_many(engine, &sides.here, port, 1)[0];
        cm.connect(engine, id, &wish(0x600_000 + count, &[]))
            .unwrap();
        cm.destroy_id(engine, id).unwrap();
        assert_eq!(pending(&sides.there), None);
    }
    cm.connect(engine, sides.active, &wish(0x600_100, &[]))
        .unwrap();
    let request = expect(&sides.there, NewsKind::ConnectRequest);
    for id in [sides.active, request.id, sides.listener] {
        cm.destroy_id(engine, id).unwrap();
    }
}

/// GIDs and service IDs instead of IP addresses and ports: no IP header in the private data, and a port space of its own.
#[test]
fn native_addresses_need_no_ip() {
    const IB: u16 = 0x013f;
    const SPACE: u64 = 0x013f_0000;
    const ALL: u64 = u64::MAX;
    let engine = Engine::get().unwrap();
    let (cm, here) = (engine.cm(), CmChannel::open().unwrap());
    let there = CmChannel::open().unwrap();
    let gid = engine.gid();
    let listener = cm.create_id(&there, 7, IB, QpType::Rc).unwrap();
    let wrong = CmAddress::native(gid, 0x77_0000, ALL);
    assert!(cm.bind(&engine, listener, wrong).is_err());
    cm.bind(&engine, listener, CmAddress::native(gid, SPACE, ALL))
        .unwrap();
    cm.listen(&engine, listener, 1).unwrap();
    let known = cm.query(&engine, listener).unwrap();
    assert_eq!(known.native, Some(SPACE));
    let port = known.src.unwrap().port();
    assert_ne!(port, 0);
    let active = cm.create_id(&here, 9, IB, QpType::Rc).unwrap();
    let to = CmAddress::native(gid, SPACE | u64::from(port), ALL);
    cm.resolve_addr(&engine, active, None, to).unwrap();
    expect(&here, NewsKind::AddrResolved);
    cm.resolve_route(&engine, active, PATH_PATIENCE).unwrap();
    expect(&here, NewsKind::RouteResolved);
    let data = [0x5a; 92];
    cm.connect(&engine, active, &wish(0x500_000, &data))
        .unwrap();
    let request = expect(&there, NewsKind::ConnectRequest);
    assert_eq!(request.conn.private_data[..92], data);
    let made = cm.query(&engine, request.id).unwrap();
    assert_eq!((made.native, made.dgid, made.sgid), (Some(SPACE), gid, gid));
    cm.accept(&engine, request.id, 11, &wish(0x500_001, &[]))
        .unwrap();
    expect(&here, NewsKind::ConnectResponse);
    cm.ready(&engine, active).unwrap();
    expect(&there, NewsKind::Established);
    for id in [active, request.id, listener] {
        cm.destroy_id(&engine, id).unwrap();
    }
}

/// A request for a datagram service at a listener for connections, and the other way round: nobody listens for that.
#[test]
fn a_request_of_another_service_than_the_listeners_is_refused() {
    const IB: u16 = 0x013f;
    const SPACE: u64 = 0x013f_0000;
    let engine = Engine::get().unwrap();
    let cm = engine.cm();
    let gid = engine.gid();
    let at = |port: u16| CmAddress::native(gid, SPACE | u64::from(port), u64::MAX);
    for (asked, listens) in [(QpType::Ud, QpType::Rc), (QpType::Rc, QpType::Ud)] {
        let (here, there) = (CmChannel::open().unwrap(), CmChannel::open().unwrap());
        let listener = cm.create_id(&there, 7, IB, listens).unwrap();
        cm.bind(&engine, listener, at(0)).unwrap();
        cm.listen(&engine, listener, 1).unwrap();
        let port = cm.query(&engine, listener).unwrap().src.unwrap().port();
        let active = cm.create_id(&here, 9, IB, asked).unwrap();
        cm.resolve_addr(&engine, active, None, at(port)).unwrap();
        let resolved = expect(&here, NewsKind::AddrResolved);
        assert_eq!(resolved.ud.is_some(), asked == QpType::Ud);
        cm.resolve_route(&engine, active, PATH_PATIENCE).unwrap();
        expect(&here, NewsKind::RouteResolved);
        cm.connect(&engine, active, &wish(0x510_000, b"anybody?"))
            .unwrap();
        let (kind, status, length) = match asked {
            QpType::Ud => (NewsKind::Unreachable, 2, 136),
            _ => (NewsKind::Rejected, 28, 148),
        };
        let answer = expect(&here, kind);
        assert_eq!(
            (answer.status, answer.conn.private_len, answer.ud.is_some()),
            (status, length, asked == QpType::Ud)
        );
        assert_eq!(pending(&there), None);
        for id in [active, listener] {
            cm.destroy_id(&engine, id).unwrap();
        }
    }
}

#[test]
fn a_group_is_joined_by_its_address_without_a_route_to_it() {
    let engine = Engine::get().unwrap();
    let (cm, here) = (engine.cm(), CmChannel::open().unwrap());
    let id = cm.create_id(&here, 9, UDP, QpType::Ud).unwrap();
    let from: SocketAddr = "127.0.0.1:0".parse().unwrap();
    let group: SocketAddr = "239.1.2.3:0".parse().unwrap();
    cm.resolve_addr(&engine, id, Some(from.into()), group)
        .unwrap();
    expect(&here, NewsKind::AddrResolved);
    assert!(cm.join(&engine, id, from, 5).is_err(), "no group");
    let membership = cm.join(&engine, id, group, 5).unwrap();
    let joined = expect(&here, NewsKind::MulticastJoin);
    let ud = joined.ud.unwrap();
    assert_eq!((joined.user, ud.qp_num), (5, 0xff_ffff));
    let mapped = [
        0xff, 0x12, 0x40, 0x1b, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0x0f, 1, 2, 3,
    ];
    assert_eq!(ud.av.dgid.0, mapped);
    assert!(ud.av.dlid.0 >= 0xc000);
    assert_eq!(cm.leave(&engine, membership).unwrap(), 1);
    cm.destroy_id(&engine, id).unwrap();
}

/// Each connection has queue pairs of its own: a number in use elsewhere would make the other connection stale.
fn wish(qp_num: u32, private_data: &[u8]) -> ConnWish<'_> {
    ConnWish {
        qp_num,
        qkey: 0,
        responder_resources: 1,
        initiator_depth: 1,
        flow_control: false,
        retry_count: 7,
        rnr_retry_count: 7,
        srq: false,
        enhanced: Default::default(),
        private_data,
    }
}

fn expect(channel: &Arc<CmChannel>, kind: NewsKind) -> News {
    let news = channel.next_event().unwrap();
    assert_eq!(news.kind, kind, "{news:?}");
    news
}

struct Sides {
    engine: Arc<Engine>,
    here: Arc<CmChannel>,
    there: Arc<CmChannel>,
    listener: u32,
    active: u32,
}

fn resolved(space: u16, qp_type: QpType) -> Sides {
    let engine = Engine::get().unwrap();
    let (here, there) = (CmChannel::open().unwrap(), CmChannel::open().unwrap());
    let cm = engine.cm();
    let listener = cm.create_id(&there, 7, space, qp_type).unwrap();
    let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
    cm.bind(&engine, listener, any).unwrap();
    cm.listen(&engine, listener, 4).unwrap();
    let at = cm.query(&engine, listener).unwrap().src.unwrap();
    let active = cm.create_id(&here, 9, space, qp_type).unwrap();
    cm.resolve_addr(&engine, active, None, at).unwrap();
    expect(&here, NewsKind::AddrResolved);
    cm.resolve_route(&engine, active, PATH_PATIENCE).unwrap();
    expect(&here, NewsKind::RouteResolved);
    Sides {
        engine,
        here,
        there,
        listener,
        active,
    }
}

#[test]
fn a_connection_is_asked_for_accepted_used_and_ended() {
    let sides = resolved(TCP, QpType::Rc);
    let (engine, cm) = (&sides.engine, sides.engine.cm());
    cm.connect(engine, sides.active, &wish(0x123, b"question"))
        .unwrap();
    let request = expect(&sides.there, NewsKind::ConnectRequest);
    assert_eq!((request.user, request.conn.qp_num), (7, 0x123));
    assert_eq!(&request.conn.private_data[..8], b"question");
    assert_eq!(
        request.conn.private_len, 56,
        "what remains after the IP header"
    );
    let (attr, _) = cm.qp_attr(engine, request.id, QpState::Rtr).unwrap();
    assert_eq!(attr.dest_qpn.0, 0x123);
    cm.accept(engine, request.id, 11, &wish(0x124, b"answer"))
        .unwrap();
    let response = expect(&sides.here, NewsKind::ConnectResponse);
    assert_eq!((response.user, response.id), (9, sides.active));
    assert_eq!(&response.conn.private_data[..6], b"answer");
    cm.qp_attr(engine, sides.active, QpState::Rts).unwrap();
    cm.ready(engine, sides.active).unwrap();
    assert_eq!(expect(&sides.there, NewsKind::Established).user, 11);
    cm.disconnect(engine, request.id).unwrap();
    expect(&sides.here, NewsKind::Disconnected);
    cm.disconnect(engine, sides.active).unwrap();
    expect(&sides.there, NewsKind::Disconnected);
    // address, route, response, end
    assert_eq!(cm.destroy_id(engine, sides.active).unwrap(), 4);
    assert_eq!(cm.destroy_id(engine, request.id).unwrap(), 2);
    assert_eq!(cm.destroy_id(engine, sides.listener).unwrap(), 1);
}

#[test]
fn nobody_listening_and_a_refusal_are_told_with_their_reasons() {
    let sides = resolved(TCP, QpType::Rc);
    let (engine, cm) = (&sides.engine, sides.engine.cm());
    cm.connect(engine, sides.active, &wish(0x127, &[])).unwrap();
    let request = expect(&sides.there, NewsKind::ConnectRequest);
    cm.reject(engine, request.id, 28, b"no").unwrap();
    let refused = expect(&sides.here, NewsKind::Rejected);
    assert_eq!(
        (refused.status, &refused.conn.private_data[..2]),
        (28, &b"no"[..])
    );
    cm.destroy_id(engine, request.id).unwrap();
    // an identifier asks once
    let again = cm.connect(engine, sides.active, &wish(0x128, &[]));
    assert_eq!(again.unwrap_err().errno(), libc::EINVAL);
    let at = cm.query(engine, sides.listener).unwrap().src.unwrap();
    cm.destroy_id(engine, sides.listener).unwrap();
    let other = resolve_many(engine, &sides.here, at.port(), 1)[0];
    cm.connect(engine, other, &wish(0x128, &[])).unwrap();
    assert_eq!(
        expect(&sides.here, NewsKind::Rejected).status,
        8,
        "no such service"
    );
    for id in [sides.active, other] {
        cm.destroy_id(engine, id).unwrap();
    }
}

#[test]
fn a_datagram_service_tells_its_queue_pair() {
    let sides = resolved(UDP, QpType::Ud);
    let (engine, cm) = (&sides.engine, sides.engine.cm());
    cm.connect(engine, sides.active, &wish(0x125, b"who"))
        .unwrap();
    let request = expect(&sides.there, NewsKind::ConnectRequest);
    assert_eq!(&request.conn.private_data[..3], b"who");
    cm.accept(engine, request.id, 1, &wish(0x126, b"me"))
        .unwrap();
    let answer = expect(&sides.here, NewsKind::Established);
    let ud = answer.ud.unwrap();
    assert_eq!((ud.qp_num, ud.qkey), (0x126, 0x0123_4567));
    assert!(ud.av.dlid.0 != 0);
    for id in [sides.active, request.id, sides.listener] {
        cm.destroy_id(engine, id).unwrap();
    }
}

#[test]
fn an_address_is_had_once_and_must_be_ours() {
    let engine = Engine::get().unwrap();
    let (cm, channel) = (engine.cm(), CmChannel::open().unwrap());
    let make = || cm.create_id(&channel, 0, TCP, QpType::Rc).unwrap();
    let (first, second) = (make(), make());
    let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
    cm.bind(&engine, first, any).unwrap();
    let at = cm.query(&engine, first).unwrap().src.unwrap();
    // as in Linux, to which a loopback address is a wildcard: with those it is not the other errno
    let taken = cm.bind(&engine, second, at).unwrap_err();
    assert_eq!(taken.errno(), libc::EADDRNOTAVAIL);
    let elsewhere: SocketAddr = "203.0.113.9:4000".parse().unwrap();
    let foreign = cm.bind(&engine, second, elsewhere);
    assert_eq!(foreign.unwrap_err().errno(), libc::EADDRNOTAVAIL);
    cm.destroy_id(&engine, first).unwrap();
    cm.bind(&engine, second, at).unwrap();
    cm.destroy_id(&engine, second).unwrap();
    assert_eq!(cm.query(&engine, second).unwrap_err().errno(), libc::ENOENT);
}
