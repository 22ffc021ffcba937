//! What a connection says to a peer that is not Ferriband, packet by packet: a socket that speaks RoCEv2 by hand.
#![allow(clippy::unwrap_used)]

mod common;

use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use common::endpoint::{Ask, Endpoint, Setup};
use common::namespace::run_on_packets;
use ferriband_hca::*;
use ferriband_transport::types::*;
use ferriband_wire::{
    Aeth, Bth, Ext, Headers, Kind, Msn, Mtu, Opcode, Packet, Psn, Qpn, ROCE_PORT, RoceHeaders,
    RoceIp, Syndrome,
};

const HOME: Ipv4Addr = Ipv4Addr::LOCALHOST;
const AWAY: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 9);
const PEER_QPN: u32 = 0x77;
const ROUNDS: u32 = 40;
/// Rounds after which acknowledgements have learnt to wait for the program's reply.
const SETTLED: u32 = 8;
/// Plays of that many rounds of which one has to go undisturbed.
const TRIES: u32 = 50;
/// ECT(0) in the traffic class: the sender reacts to congestion.
const ECT0: u8 = 2;

/// An adapter made of one socket.
struct Peer {
    socket: UdpSocket,
    headers: RoceHeaders,
    to: u32,
}

impl Peer {
    fn new(to: u32, traffic_class: u8) -> Self {
        // SAFETY: a socket of our own; what it returns is checked.
        let fd = unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
        assert!(fd >= 0);
        // SAFETY: just opened, nobody else's.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        let set = |level, option, value: libc::c_int| {
            // SAFETY: an option that is an int, ours.
            let result = unsafe {
                libc::setsockopt(
                    fd.as_raw_fd(),
                    level,
                    option,
                    (&raw const value).cast(),
                    size_of_val(&value) as _,
                )
            };
            assert_eq!(result, 0, "option {option}");
        };
        set(libc::SOL_SOCKET, libc::SO_REUSEADDR, 1);
        set(libc::SOL_SOCKET, libc::SO_REUSEPORT, 1);
        set(libc::IPPROTO_IP, libc::IP_TOS, traffic_class.into());
        set(
            libc::IPPROTO_IP,
            libc::IP_MTU_DISCOVER,
            libc::IP_PMTUDISC_PROBE,
        );
        let name = libc::sockaddr_in {
            sin_family: libc::AF_INET as _,
            sin_port: ROCE_PORT.to_be(),
            sin_addr: libc::in_addr {
                s_addr: u32::from_ne_bytes(AWAY.octets()),
            },
            sin_zero: [0; 8],
        };
        // SAFETY: a whole address of the length that is given.
        let bound = unsafe {
            libc::bind(
                fd.as_raw_fd(),
                (&raw const name).cast(),
                size_of_val(&name) as _,
            )
        };
        assert_eq!(bound, 0, "{}", std::io::Error::last_os_error());
        let socket = UdpSocket::from(fd);
        socket
            .set_read_timeout(Some(Duration::from_secs(5)))
            .unwrap();
        Peer {
            socket,
            headers: RoceHeaders {
                ip: RoceIp::v4(AWAY, HOME, 0),
                source_port: ROCE_PORT,
            },
            to,
        }
    }

    fn send(&self, opcode: Opcode, psn: Psn, ext: Ext, payload: &[u8]) {
        let bth = Bth {
            ack_req: opcode == Opcode::RcSendOnly,
            ..Bth::new(opcode, Qpn(self.to), psn)
        };
        let packet = Packet {
            headers: Headers::new(bth, ext),
            payload,
        };
        let mut bytes = vec![0; packet.wire_len()];
        packet.emit(&mut bytes).unwrap();
        let icrc = self.headers.icrc(bytes.len()).unwrap().finish_with(&bytes);
        bytes.extend(icrc.to_le_bytes());
        let to = SocketAddrV4::new(HOME, ROCE_PORT);
        self.socket.send_to(&bytes, to).unwrap();
    }

    /// The next packet's opcode and PSN.
    fn next(&self) -> (Opcode, Psn) {
        let mut bytes = [0; 2048];
        let mut len = 0;
        while len == 0 {
            // an empty one is nobody's: a sender learns by it how the kernel numbers
            len = self.socket.recv(&mut bytes).expect("a packet");
        }
        let packet = Packet::parse(&bytes[..len - 4]).unwrap();
        assert_eq!(packet.bth().dest_qpn, Qpn(PEER_QPN));
        (packet.opcode(), packet.bth().psn)
    }
}

/// A queue pair that is connected to [`Peer`].
fn connected(ctx: &Arc<Context>) -> Endpoint {
    let end = Endpoint::new(ctx, Setup::default()).unwrap();
    end.to_init().unwrap();
    use QpAttrMask as M;
    let mut av = end.path(0);
    av.dgid.0[10..12].fill(0xff);
    av.dgid.0[12..].copy_from_slice(&AWAY.octets());
    let attr = QpAttr {
        state: QpState::Rtr,
        av,
        path_mtu: Mtu::M1024,
        dest_qpn: Qpn(PEER_QPN),
        rq_psn: Psn::new(0xff_fff0),
        max_dest_rd_atomic: 4,
        min_rnr_timer: 1,
        ..QpAttr::default()
    };
    let mask = M::STATE | M::AV | M::PATH_MTU | M::DEST_QPN | M::RQ_PSN;
    end.qp
        .modify(&attr, mask | M::MAX_DEST_RD_ATOMIC | M::MIN_RNR_TIMER)
        .unwrap();
    end.to_rts().unwrap();
    end
}

/// Plays ping-pong with a program that polls, and says in how many of the later rounds the reply came before the acknowledgement of
/// what it replies to.
fn replies_ahead(traffic_class: u8) -> u32 {
    let ctx = Context::open(0).unwrap();
    let end = connected(&ctx);
    let peer = Peer::new(end.info(0).qpn, traffic_class);
    let mut ahead = 0;
    for round in 0..ROUNDS {
        let psn = Psn::new((0xff_fff0 + round) & 0xff_ffff);
        end.recv(1, 0, 64, None).unwrap();
        peer.send(Opcode::RcSendOnly, psn, Ext::default(), &[7; 8]);
        assert_eq!(end.wait().status, WcStatus::Success as u32);
        let ask = Ask::new(SendOpcode::Send, 8, &end.info(0));
        end.post(&ask).unwrap();
        // both have to come, whichever is first
        let (mut acknowledged, mut replied) = (None, None);
        for place in 0.. {
            let (opcode, number) = peer.next();
            if round > 0 && psn.after(number) {
                // on a busy machine this side asks once more whether what it said last has arrived
                continue;
            }
            assert_eq!(number, psn, "both directions began alike");
            match opcode.kind() {
                Kind::Ack => acknowledged = acknowledged.or(Some(place)),
                _ => {
                    assert_eq!(opcode, Opcode::RcSendOnly);
                    replied = replied.or(Some(place));
                }
            }
            if acknowledged.is_some() && replied.is_some() {
                break;
            }
        }
        if round >= SETTLED {
            ahead += u32::from(replied < acknowledged);
        }
        let aeth = Aeth {
            syndrome: Syndrome::from_code(0x1f),
            msn: Msn(round + 1),
        };
        let ext = Ext {
            aeth: Some(aeth),
            ..Ext::default()
        };
        peer.send(Opcode::RcAcknowledge, psn, ext, &[]);
        assert_eq!(end.wait().status, WcStatus::Success as u32);
    }
    ahead
}

#[test]
fn a_peer_that_may_be_soft_roce_hears_of_its_request_before_the_reply() {
    run_on_packets(
        "a_peer_that_may_be_soft_roce_hears_of_its_request_before_the_reply",
        &[],
        || assert_eq!(replies_ahead(0), 0),
    );
}

#[test]
fn a_peer_that_reacts_to_congestion_gets_reply_and_acknowledgement_together() {
    run_on_packets(
        "a_peer_that_reacts_to_congestion_gets_reply_and_acknowledgement_together",
        &[],
        // where others want the processor a time slice often ends between the two: then the acknowledgement has gone alone
        || {
            let most = || (replies_ahead(ECT0) > (ROUNDS - SETTLED) / 2).then_some(());
            assert!((0..TRIES).find_map(|_| most()).is_some());
        },
    );
}
