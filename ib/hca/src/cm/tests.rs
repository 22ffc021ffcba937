//! Requests of SDP as the bytes of a stranger.

#![allow(clippy::unwrap_used)]

use std::net::SocketAddr;

use ferriband_cm::Route;
use ferriband_transport::types::QpType;
use ferriband_wire::cm::{CmMad, CmPath, IpCmHeader, IpPair, PortSpace, PrivateData, Req};
use ferriband_wire::mad::MAD_LEN;
use ferriband_wire::{CommId, Guid, Mtu, PKey, Psn, Qpn, ServiceId, TimeCode, TransactionId};

use super::engine::Engine;
use super::{CmChannel, NewsKind};

/// A REQ for a port of SDP's, of a stranger whose connection has this number.
fn request(
    engine: &Engine,
    number: u32,
    port: u16,
    private_data: PrivateData<92>,
) -> [u8; MAD_LEN] {
    let req = Req {
        local_comm_id: CommId(number),
        service_id: ServiceId::from_port(PortSpace::Sdp, port),
        local_ca_guid: Guid(0x77),
        local_qpn: Qpn(0x800_000 + number),
        responder_resources: 1,
        initiator_depth: 1,
        remote_response_timeout: TimeCode(20),
        starting_psn: Psn::new(number),
        local_response_timeout: TimeCode(20),
        pkey: PKey(0xffff),
        path_mtu_code: Mtu::M1024 as u8,
        max_cm_retries: 15,
        primary: CmPath {
            local_gid: engine.gid(),
            remote_gid: engine.gid(),
            ..CmPath::default()
        },
        private_data,
        ..Req::default()
    };
    let mut mad = [0; MAD_LEN];
    CmMad::new(TransactionId(number.into()), req)
        .emit(&mut mad)
        .unwrap();
    mad
}

#[test]
fn a_request_of_sdp_without_a_hello_is_refused_unheard() {
    let engine = Engine::get().unwrap();
    let (cm, there) = (engine.cm(), CmChannel::open().unwrap());
    let space = PortSpace::Sdp as u16;
    assert!(cm.create_id(&there, 7, space, QpType::Ud).is_err());
    let listener = cm.create_id(&there, 7, space, QpType::Rc).unwrap();
    // every address of both families: such a listener asks for no address in the request
    let any: SocketAddr = "[::]:0".parse().unwrap();
    cm.bind(&engine, listener, any).unwrap();
    cm.listen(&engine, listener, 4).unwrap();
    let port = cm.query(&engine, listener).unwrap().src.unwrap().port();
    let header = IpCmHeader {
        source_port: 5,
        addresses: IpPair::V4 {
            source: [10, 0, 0, 1].into(),
            destination: [10, 0, 0, 2].into(),
        },
    };
    let hello = header.in_hello(&[0; 92]).unwrap();
    let mut data = *hello.as_bytes();
    data[0] = 0xff;
    let mut ancient = *hello.as_bytes();
    ancient[17] = 0x10;
    // the addressing annex's header is none either
    let annex: PrivateData<92> = header.before(&[]).unwrap();
    let requests = [data.into(), ancient.into(), annex, hello];
    for (number, private_data) in (1..).zip(requests) {
        let mad = request(&engine, number, port, private_data);
        let from = Route::Host {
            slot: engine.process.slot,
        };
        cm.message(&engine, from, None, &mad);
    }
    let told = there.events.drain(|_| true);
    assert_eq!(told.len(), 1, "{told:?}");
    let news = &told[0];
    assert_eq!(news.kind, NewsKind::ConnectRequest);
    assert_eq!(news.conn.private_len, 92);
    assert_eq!(news.conn.private_data[..92], *hello.as_bytes());
    let made = cm.query(&engine, news.id).unwrap();
    let (from, to) = (
        SocketAddr::from(([10, 0, 0, 1], 5)),
        SocketAddr::from(([10, 0, 0, 2], port)),
    );
    assert_eq!((made.dst, made.src), (Some(from), Some(to)));
    for id in [news.id, listener] {
        cm.destroy_id(&engine, id).unwrap();
    }
}
