//! Management datagrams of nobody's good will for a process that listens: requests that are nearly right, answers to identifiers that
//! it may have, raw bytes. No panic, and what waits for the consumer stays within the backlog.
#![no_main]

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};

use ferriband_hca::cm::{CmChannel, ConnWish, NewsKind};
use ferriband_hca::Engine;
use ferriband_hca::fuzzing;
use ferriband_transport::types::QpType;
use ferriband_wire::Gid;
use libfuzzer_sys::fuzz_target;

const TCP: u16 = 0x0106;
const UDP: u16 = 0x0111;
const PORT: u16 = 7_777;
/// Requests that a listener takes; and what may stand in the channel besides.
const BACKLOG: u32 = 16;
const MOST_EVENTS: usize = 4_096;

struct Process {
    engine: Arc<Engine>,
    channel: Arc<CmChannel>,
    listeners: [u32; 2],
}

fn process() -> &'static Process {
    static PROCESS: OnceLock<Process> = OnceLock::new();
    PROCESS.get_or_init(|| {
        let engine = Engine::get().expect("a host");
        let channel = CmChannel::open().expect("a descriptor");
        let listen = |space, qp_type| {
            let cm = engine.cm();
            let id = cm.create_id(&channel, 1, space, qp_type).expect("room");
            let at = SocketAddr::from(([127, 0, 0, 1], PORT));
            cm.bind(&engine, id, at).expect("free");
            cm.listen(&engine, id, BACKLOG).expect("free");
            id
        };
        let listeners = [listen(TCP, QpType::Rc), listen(UDP, QpType::Ud)];
        Process {
            engine,
            channel,
            listeners,
        }
    })
}

fn is_readable(channel: &CmChannel) -> bool {
    let mut ready = libc::pollfd {
        fd: channel.events.fd(),
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: one structure, which is ours.
    unsafe { libc::poll(&mut ready, 1, 0) == 1 }
}

/// A message of the connection manager from few bytes: a valid head, an attribute, and for requests a service that exists.
fn message(seed: &[u8]) -> [u8; 256] {
    let mut mad = [0; 256];
    let len = seed.len().min(256 - 24);
    mad[24..24 + len].copy_from_slice(&seed[..len]);
    (mad[0], mad[1], mad[2], mad[3]) = (1, 7, 2, 3);
    let kind = seed.first().copied().unwrap_or(0);
    let attribute = 0x10 + kind % 12;
    (mad[16], mad[17]) = (0, attribute);
    mad[8..16].copy_from_slice(&u64::from(kind).to_be_bytes());
    let space = match attribute {
        0x10 => Some(TCP),
        0x17 => Some(UDP),
        _ => None,
    };
    if let Some(space) = space {
        let service = u64::from(space) << 16 | u64::from(PORT);
        mad[32..40].copy_from_slice(&service.to_be_bytes());
    }
    mad
}

fuzz_target!(|bytes: &[u8]| {
    let process = process();
    let (engine, cm) = (&*process.engine, process.engine.cm());
    let mut qpn = 0x1000;
    let mut held = Vec::new();
    let mut rest = bytes;
    while let [what, which, after @ ..] = rest {
        let len = after.len().min(232);
        rest = &after[len.min(8 + usize::from(*which))..];
        let from = Gid([*which & 3; 16]);
        let slot = (what & 0x80 != 0).then_some(u32::from(*which & 7));
        match what & 3 {
            0 | 1 => fuzzing::management(engine, slot, from, &message(&after[..len])),
            2 => {
                let mut mad = [0; 256];
                mad[..len].copy_from_slice(&after[..len]);
                fuzzing::management(engine, slot, from, &mad);
            }
            _ => {
                let mut head = [0; 64];
                let short = len.min(64);
                head[..short].copy_from_slice(&after[..short]);
                fuzzing::datagram(engine, &head, after);
            }
        }
        if what & 4 != 0 {
            continue;
        }
        let mut events = 0;
        while is_readable(&process.channel) {
            let news = process.channel.next_event().expect("there is one");
            events += 1;
            assert!(events < MOST_EVENTS);
            if news.kind != NewsKind::ConnectRequest {
                continue;
            }
            qpn += 1;
            let wish = ConnWish {
                qp_num: qpn,
                qkey: 0,
                responder_resources: 1,
                initiator_depth: 1,
                flow_control: false,
                retry_count: 7,
                rnr_retry_count: 7,
                srq: false,
                enhanced: Default::default(),
                private_data: &[],
            };
            let _ = cm.accept(engine, news.id, 2, &wish);
            held.push(news.id);
        }
    }
    for id in held {
        let _ = cm.destroy_id(engine, id);
    }
    while is_readable(&process.channel) {
        let news = process.channel.next_event().expect("there is one");
        if !process.listeners.contains(&news.id) {
            let _ = cm.destroy_id(engine, news.id);
        }
    }
});
