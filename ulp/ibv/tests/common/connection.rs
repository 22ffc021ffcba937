//! Connections by the connection manager of Ferriband's own library, for the tests.
#![allow(dead_code)] // each test file uses its own part

use ferriband_ibv::{
    Access, Choice, Cm, CmChannel, CmEvent, CmEventKind, CmId, Cq, Mr, Pd, PortSpace, Qp, QpInit,
    QpState, QpType, RecvWr, Region, SendFlags, SendWr, Verbs, Wc,
};
use ferriband_testkit::library;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// A hang is a failure, however busy the machine.
pub const PATIENCE: Duration = Duration::from_secs(60);
/// How long resolving may take.
pub const RESOLVE: Duration = Duration::from_secs(2);

pub fn manager() -> &'static Cm {
    static MANAGER: OnceLock<&Cm> = OnceLock::new();
    MANAGER.get_or_init(|| {
        let path = match std::env::var_os("IBV_TEST_LIBRARY") {
            Some(path) => path.into(),
            None => library("libibverbs.so.1"),
        };
        let verbs = Verbs::load(&Choice::File(path)).expect("our own library");
        Cm::load(verbs).expect("the connection manager beside it")
    })
}

pub fn channel() -> Arc<CmChannel> {
    CmChannel::create(manager()).expect("a channel")
}

/// The next event, which must be of this kind.
pub fn expect(channel: &Arc<CmChannel>, kind: CmEventKind) -> CmEvent {
    let event = channel.wait_event(PATIENCE).expect("a channel");
    let event = event.unwrap_or_else(|| panic!("no {kind:?} within {PATIENCE:?}"));
    assert_eq!(event.kind(), kind, "{event:?} {:?}", event.result());
    event
}

/// A listener on a port of its choice.
pub fn listen(channel: &Arc<CmChannel>, space: PortSpace, tag: u64) -> (Arc<CmId>, SocketAddr) {
    let id = CmId::create(channel, space, tag).expect("an identifier");
    id.bind("127.0.0.1:0".parse().expect("an address"))
        .expect("bound");
    id.listen(8).expect("it listens");
    let at = id.local_address().expect("it has an address");
    assert_ne!(at.port(), 0);
    (id, at)
}

/// An identifier whose route to an address is resolved.
pub fn resolved(channel: &Arc<CmChannel>, space: PortSpace, tag: u64, to: SocketAddr) -> Arc<CmId> {
    let id = CmId::create(channel, space, tag).expect("an identifier");
    assert!(id.context().expect("no failure").is_none());
    id.resolve_address(None, to, RESOLVE).expect("asked");
    let event = expect(channel, CmEventKind::AddrResolved);
    assert!(Arc::ptr_eq(event.id(), &id) && event.result().is_ok());
    drop(event);
    id.resolve_route(RESOLVE).expect("asked");
    expect(channel, CmEventKind::RouteResolved);
    assert_eq!(id.peer_address(), Some(to));
    id
}

/// A domain, a completion queue, memory and a queue pair of an identifier: one side of a
/// connection.
pub struct Side {
    pub cq: Arc<Cq>,
    pub mr: Arc<Mr>,
    pub memory: Arc<Region>,
    pub qp: Arc<Qp>,
}

impl Side {
    /// With the queue pair that `make` makes.
    pub fn with(id: &Arc<CmId>, make: impl FnOnce(&Arc<Pd>, &QpInit<'_>) -> Arc<Qp>) -> Side {
        let context = id.context().expect("no failure").expect("it has a device");
        let pd = Pd::alloc(&context).expect("a domain");
        let cq = Cq::create(&context, 16, None, 0).expect("a queue");
        let qp = make(&pd, &QpInit::new(QpType::Rc, &cq, &cq));
        let memory = Region::create(c"test", 4096).expect("memory");
        let mr = Mr::register(&pd, &memory, Access::LOCAL_WRITE).expect("registered");
        Side { cq, mr, memory, qp }
    }

    /// With the identifier's own queue pair.
    pub fn managed(id: &Arc<CmId>) -> Side {
        Side::with(id, |pd, init| {
            let qp = id.create_qp(pd, init).expect("a queue pair");
            assert_eq!(qp.state(), Ok(QpState::Init));
            qp
        })
    }

    /// With a queue pair that the program brings up.
    pub fn by_hand(id: &Arc<CmId>) -> Side {
        Side::with(id, |pd, init| {
            let qp = Qp::create(pd, init).expect("a queue pair");
            id.init_qp(&qp).expect("INIT");
            qp
        })
    }

    pub fn receive(&self) {
        let buffer = [self.mr.element(0, 1024).expect("inside")];
        self.qp
            .post_recv(&mut RecvWr::new(7, &buffer))
            .expect("posted");
    }

    pub fn send(&self, text: &[u8]) {
        self.memory.write(2048, text).expect("inside");
        let part = [self.mr.element(2048, text.len() as u32).expect("inside")];
        self.qp
            .post_send(&mut SendWr::send(1, &part).flags(SendFlags::SIGNALED))
            .expect("posted");
    }

    pub fn wait(&self) -> Wc {
        let end = Instant::now() + PATIENCE;
        let mut wcs = [Wc::default()];
        while self.cq.poll(&mut wcs).expect("polling") == 0 {
            assert!(Instant::now() < end, "no completion within {PATIENCE:?}");
        }
        wcs[0]
    }

    /// What was received.
    pub fn text(&self) -> Vec<u8> {
        let wc = self.wait();
        assert!(wc.is_ok() && wc.id() == 7, "{wc:?}");
        let mut text = vec![0; wc.byte_len() as usize];
        self.memory.read(0, &mut text).expect("inside");
        text
    }
}
