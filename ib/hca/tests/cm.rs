//! The connection manager within one process: both sides of a connection, by the address of this host.

#![allow(clippy::unwrap_used)]

use std::net::SocketAddr;
use std::sync::Arc;

use ferriband_hca::cm::{CmChannel, ConnWish, News, NewsKind};
use ferriband_hca::engine::Engine;
use ferriband_transport::types::{QpState, QpType};

const TCP: u16 = 0x0106;
const UDP: u16 = 0x0111;

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
    cm.resolve_route(&engine, active).unwrap();
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
    cm.destroy_id(engine, sides.listener).unwrap();
    cm.connect(engine, sides.active, &wish(0x128, &[])).unwrap();
    assert_eq!(
        expect(&sides.here, NewsKind::Rejected).status,
        8,
        "no such service"
    );
    cm.destroy_id(engine, sides.active).unwrap();
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
    let taken = cm.bind(&engine, second, at).unwrap_err();
    assert_eq!(taken.errno(), libc::EADDRINUSE);
    let foreign = cm.bind(&engine, second, "203.0.113.9:4000".parse().unwrap());
    assert_eq!(foreign.unwrap_err().errno(), libc::EADDRNOTAVAIL);
    cm.destroy_id(&engine, first).unwrap();
    cm.bind(&engine, second, at).unwrap();
    cm.destroy_id(&engine, second).unwrap();
    assert_eq!(cm.query(&engine, second).unwrap_err().errno(), libc::ENOENT);
}
