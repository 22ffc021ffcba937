//! The wrapper on a library that only writes down what it was asked: versions, order of destruction, refusals.

mod common;

use ferriband_ibv::{
    Access, Ah, Choice, CompChannel, Context, Cq, Device, Element, ErrorKind, EventKind, LKey, Lid,
    LinkLayer, LoadError, Mr, Pd, PortState, Qp, QpCaps, QpInit, QpState, QpType, Qpn, RKey,
    RecvWr, Region, Route, SendFlags, SendWr, Srq, Subject, Verbs, Wc, WcStatus, WrOpcode, Xrcd,
    leaked,
};
use std::ffi::{CStr, CString, c_char};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A loaded fake, with its own two questions.
struct Fake {
    verbs: &'static Verbs,
    log: unsafe extern "C" fn() -> *const c_char,
    busy: unsafe extern "C" fn(*const c_char),
}

impl Fake {
    /// Each test builds a file of its own: the loader hands out one copy for each file, and logs must not mix.
    fn load(name: &str, defined: &[&str]) -> Option<Fake> {
        let path = common::fake(name, defined)?;
        let verbs = Verbs::load(&Choice::File(path.clone())).expect("the fake is complete");
        assert_eq!(verbs.path(), path);
        assert!(!verbs.is_ours());
        // SAFETY: the fake defines both with these prototypes.
        Some(unsafe {
            Fake {
                verbs,
                log: std::mem::transmute::<
                    *mut libc::c_void,
                    unsafe extern "C" fn() -> *const c_char,
                >(symbol(&path, c"fake_log")),
                busy: std::mem::transmute::<*mut libc::c_void, unsafe extern "C" fn(*const c_char)>(
                    symbol(&path, c"fake_busy"),
                ),
            }
        })
    }

    /// What was called since the last question.
    fn log(&self) -> Vec<String> {
        // SAFETY: the fake's own function.
        let text = unsafe { CStr::from_ptr((self.log)()) };
        text.to_str()
            .expect("text")
            .lines()
            .map(String::from)
            .collect()
    }

    fn busy(&self, kind: &CStr) {
        // SAFETY: the fake's own function copies the string.
        unsafe { (self.busy)(kind.as_ptr()) };
    }

    fn open(&self) -> Arc<Context> {
        let devices = Device::list(self.verbs).expect("a list");
        assert_eq!(devices[0].name(), "fake0");
        assert_eq!(devices[0].guid(), 0x0102_0304_0506_0708);
        devices[0].open().expect("it opens")
    }
}

fn symbol(path: &Path, name: &CStr) -> *mut libc::c_void {
    let file = CString::new(path.as_os_str().as_bytes()).expect("a path");
    // SAFETY: the file is loaded already.
    let library = unsafe { libc::dlopen(file.as_ptr(), libc::RTLD_NOW | libc::RTLD_NOLOAD) };
    assert!(!library.is_null());
    // SAFETY: an open handle and a string.
    let at = unsafe { libc::dlsym(library, name.as_ptr()) };
    assert!(!at.is_null(), "{name:?}");
    at
}

/// Everything that the fake can make, dropped in the worst order, is destroyed children first. (Objects are counted
/// process-wide, so this test also looks at what EBUSY leaves.)
#[test]
fn whatever_the_order_of_drops_children_go_first_and_busy_ones_stay() {
    let Some(fake) = Fake::load("order", &[]) else {
        return;
    };
    let context = fake.open();
    let channel = CompChannel::create(&context).expect("a channel");
    let cq = Cq::create(&context, 9, Some(&channel), 5).expect("a queue");
    let pd = Pd::alloc(&context).expect("a domain");
    let srq = Srq::create(&pd, 16, 1, 6).expect("a queue");
    let route = Route {
        dlid: Lid(3),
        port: 1,
        ..Route::default()
    };
    let ah = Ah::create(&pd, &route).expect("a handle");
    let region = Region::create(c"test", 4096).expect("memory");
    let mr = Mr::register(&pd, &region, Access::LOCAL_WRITE).expect("registered");
    let init = QpInit {
        srq: Some(&srq),
        ..QpInit::new(QpType::Rc, &cq, &cq)
    };
    let qp = Qp::create(&pd, &init).expect("a queue pair");
    let made = [
        "+list",
        "+context",
        "+channel",
        "+cq 9 channel 1 vector 0",
        "+pd",
        "+srq 16",
        "+ah 3 global 0",
        "+mr by reg_mr access 0x1",
        "+qp type 2 srq 1",
    ];
    assert_eq!(fake.log(), made);

    // Parents first: nothing of it is destroyed while a child lives.
    drop((context, channel, cq, pd, srq));
    assert_eq!(fake.log(), [""; 0]);
    drop(qp);
    assert_eq!(fake.log(), ["-qp", "-cq", "-channel", "-srq"]);
    drop(ah);
    assert_eq!(fake.log(), ["-ah"]);
    let memory = Arc::downgrade(&region);
    drop(region);
    assert!(memory.upgrade().is_some(), "registered memory stays mapped");
    drop(mr);
    assert_eq!(fake.log(), ["-mr", "-pd", "-context", "-list"]);
    assert!(memory.upgrade().is_none());
    assert_eq!(leaked(), 0);

    // A region that cannot be deregistered keeps its memory, and with it everything below.
    let context = fake.open();
    let pd = Pd::alloc(&context).expect("a domain");
    let region = Region::create(c"test", 4096).expect("memory");
    let memory = Arc::downgrade(&region);
    let mr = Mr::register(&pd, &region, Access::LOCAL_WRITE).expect("registered");
    fake.busy(c"mr");
    fake.log();
    drop((context, pd, region, mr));
    assert_eq!(fake.log(), ["-mr"]);
    assert_eq!(leaked(), 1);
    assert!(
        memory.upgrade().is_some(),
        "an adapter may still write there"
    );
}

#[test]
fn a_queue_pair_that_cannot_be_closed_comes_back_with_the_reason() {
    let Some(fake) = Fake::load("close", &[]) else {
        return;
    };
    let context = fake.open();
    let pd = Pd::alloc(&context).expect("a domain");
    let cq = Cq::create(&context, 9, None, 0).expect("a queue");
    let qp = Qp::create(&pd, &QpInit::new(QpType::Rc, &cq, &cq)).expect("a queue pair");
    let other = Arc::clone(&qp);
    fake.log();
    // whoever else holds it may be using it
    let kept = qp.close().expect_err("it is held");
    assert_eq!(kept.error.errno(), libc::EBUSY);
    assert_eq!(fake.log(), [""; 0]);
    drop(other);
    // a peer in the middle of an access
    fake.busy(c"qp");
    let kept = kept.qp.close().expect_err("the device says so");
    assert_eq!(kept.error.errno(), libc::EBUSY);
    assert_eq!(fake.log(), ["-qp"]);
    kept.qp.stop(QpState::Error).expect("it is there");
    fake.busy(c"");
    fake.log();
    kept.qp.close().expect("it is closed");
    assert_eq!(fake.log(), ["-qp"], "once");
    drop((pd, cq, context));
    assert_eq!(fake.log(), ["-pd", "-cq", "-context", "-list"]);
}

#[test]
fn a_queue_pair_is_taken_to_rts_with_exactly_what_its_service_needs() {
    let Some(fake) = Fake::load("states", &[]) else {
        return;
    };
    let context = fake.open();
    let pd = Pd::alloc(&context).expect("a domain");
    let cq = Cq::create(&context, 9, None, 0).expect("a queue");
    let rtr = ferriband_ibv::Rtr {
        peer: Qpn(5),
        route: Route {
            dlid: Lid(3),
            port: 1,
            ..Route::default()
        },
        rq_psn: 1,
        mtu: ferriband_ibv::Mtu::Mtu1024,
        max_dest_rd_atomic: 4,
        min_rnr_timer: 12,
    };
    let rts = ferriband_ibv::Rts {
        sq_psn: 1,
        max_rd_atomic: 4,
        timeout: 14,
        retry_cnt: 7,
        rnr_retry: 7,
    };
    let made = |qp_type| Qp::create(&pd, &QpInit::new(qp_type, &cq, &cq)).expect("a queue pair");
    fake.log();
    let rc = made(QpType::Rc);
    rc.init(1, 0, Access::REMOTE_READ).expect("INIT");
    rc.ready_to_receive(&rtr).expect("RTR");
    rc.ready_to_send(&rts).expect("RTS");
    assert_eq!(rc.state(), Ok(QpState::Rts));
    rc.stop(QpState::Error).expect("ERR");
    // The masks of the verbs manual: INIT state|pkey|port|access, RTR and RTS as ibv_modify_qp(3) lists them.
    assert_eq!(
        fake.log(),
        [
            "+qp type 2 srq 0",
            "modify to 1 mask 0x39",
            "modify to 2 mask 0x129181",
            "modify to 3 mask 0x12e01",
            "modify to 6 mask 0x1",
        ]
    );
    let ud = made(QpType::Ud);
    ud.init_ud(1, 0, ferriband_ibv::QKey(9)).expect("INIT");
    ud.ready_ud(0).expect("RTS");
    assert_eq!(
        fake.log(),
        [
            "+qp type 4 srq 0",
            "modify to 1 mask 0x71",
            "modify to 2 mask 0x1",
            "modify to 3 mask 0x10001",
        ]
    );
    let uc = made(QpType::Uc);
    uc.init(1, 0, Access::REMOTE_WRITE).expect("INIT");
    uc.ready_to_receive(&rtr).expect("RTR");
    uc.ready_to_send(&rts).expect("RTS");
    assert_eq!(
        fake.log(),
        [
            "+qp type 3 srq 0",
            "modify to 1 mask 0x39",
            "modify to 2 mask 0x101181",
            "modify to 3 mask 0x10001",
        ]
    );
    let answer = rc.in_order(WrOpcode::RdmaWrite);
    assert!(
        answer.blocks_of_128 && !answer.whole_message && !answer.last_byte_last,
        "{answer:?}"
    );
}

#[test]
fn chains_say_how_far_they_came() {
    let Some(fake) = Fake::load("chains", &[]) else {
        return;
    };
    let context = fake.open();
    let pd = Pd::alloc(&context).expect("a domain");
    let cq = Cq::create(&context, 9, None, 0).expect("a queue");
    let caps = QpCaps {
        send_wr: 8,
        recv_wr: 8,
        send_sge: 2,
        recv_sge: 2,
        inline: 33,
    };
    let qp = Qp::create(
        &pd,
        &QpInit {
            caps,
            ..QpInit::new(QpType::Rc, &cq, &cq)
        },
    )
    .expect("a pair");
    assert_eq!(
        qp.max_inline(),
        64,
        "what the library granted, not what was asked for"
    );
    let region = Region::create(c"test", 4096).expect("memory");
    let mr = Mr::register(&pd, &region, Access::LOCAL_WRITE).expect("registered");
    fake.log();

    let elements = [
        mr.element(0, 8).expect("inside"),
        mr.element(4088, 8).expect("inside"),
    ];
    assert!(mr.element(4089, 8).is_err());
    qp.post_send(&mut SendWr::send(1, &elements).flags(SendFlags::SIGNALED))
        .expect("posted");
    assert_eq!(
        fake.log(),
        ["send 1 opcode 2 flags 2 sges 2 imm 0 next 0 on 77"]
    );
    let mut chain = [
        SendWr::write(2, 64, RKey(9), &elements[..1]).immediate(77),
        SendWr::read(3, 64, RKey(9), &elements[..1]),
        SendWr::send(100, &[]),
        SendWr::send(4, &[]),
    ];
    let refused = qp
        .post_send_chain(&mut chain)
        .expect_err("the queue is full");
    assert_eq!(
        (refused.posted, refused.error.kind()),
        (2, ErrorKind::NoMemory)
    );
    assert_eq!(
        fake.log(),
        [
            "send 2 opcode 1 flags 0 sges 1 imm 77 next 1 on 77",
            "send 3 opcode 4 flags 0 sges 1 imm 0 next 1 on 77",
        ]
    );

    // Borrowed bytes that are not inline never reach the library, nor does inline data beyond the room.
    let long = [7; 65];
    let borrowed = [Element::inline(&long[..8])];
    let too_long = [Element::inline(&long)];
    let error = qp
        .post_send(&mut SendWr::send(1, &borrowed))
        .expect_err("refused");
    assert_eq!(
        (error.call(), error.errno()),
        ("ibv_post_send", libc::EINVAL)
    );
    let inline = SendFlags::INLINE;
    assert!(
        qp.post_send(&mut SendWr::send(1, &too_long).flags(inline))
            .is_err()
    );
    let mut chain = [
        SendWr::send(5, &borrowed).flags(inline),
        SendWr::send(6, &borrowed),
    ];
    assert_eq!(
        qp.post_send_chain(&mut chain).expect_err("refused").posted,
        1
    );
    assert_eq!(
        fake.log(),
        ["send 5 opcode 2 flags 8 sges 1 imm 0 next 0 on 77"]
    );

    let mut chain = [
        RecvWr::new(1, &elements),
        RecvWr::new(100, &elements),
        RecvWr::new(2, &elements),
    ];
    let refused = qp
        .post_recv_chain(&mut chain)
        .expect_err("the queue is full");
    assert_eq!((refused.posted, refused.error.call()), (1, "ibv_post_recv"));
    assert!(
        qp.post_recv(&mut RecvWr::new(3, &borrowed)).is_err(),
        "the adapter would write a borrowed slice"
    );
    assert_eq!(fake.log(), ["recv 1 on 77"]);
    // SAFETY: the fake reads no element.
    let foreign = [unsafe { Element::foreign(0x1000, 4, LKey(5)) }];
    qp.post_recv(&mut RecvWr::new(4, &foreign)).expect("posted");
    // The fake has no function for shared receive queues: not offered, instead of a crash.
    let srq = Srq::create(&pd, 16, 1, 6).expect("a queue");
    let error = srq
        .post_recv(&mut RecvWr::new(1, &elements))
        .expect_err("not offered");
    assert_eq!(error.kind(), ErrorKind::NotSupported);
}

#[test]
fn completions_and_events_are_taken_as_they_come() {
    let Some(fake) = Fake::load("events", &[]) else {
        return;
    };
    let context = fake.open();
    let channel = CompChannel::create(&context).expect("a channel");
    let cq = Cq::create(&context, 9, Some(&channel), 0xfeed_0000_beef).expect("a queue");
    let pd = Pd::alloc(&context).expect("a domain");
    let srq = Srq::create(&pd, 16, 1, 42).expect("a queue");
    let mut wcs = [Wc::default(); 3];
    assert_eq!(cq.poll(&mut wcs[..2]), Ok(2));
    assert!(wcs[0].is_ok() && wcs[1].id() == 1);
    assert_eq!(wcs[1].status(), WcStatus::Unknown(99));
    let error = cq.poll(&mut wcs).expect_err("the fake refuses three");
    assert_eq!((error.call(), error.errno()), ("ibv_poll_cq", libc::EIO));
    fake.log();
    cq.arm(true).expect("armed");
    assert_eq!(
        channel.next_event(),
        Ok(Some(0xfeed_0000_beef)),
        "through an interrupted call"
    );
    assert_eq!(channel.next_event(), Ok(None));
    srq.arm_limit(4).expect("armed");
    let event = context
        .next_async_event()
        .expect("no failure")
        .expect("an event");
    assert_eq!(event.kind, EventKind::SrqLimitReached);
    assert_eq!(event.subject, Subject::Srq { tag: 42 });
    assert_eq!(context.next_async_event(), Ok(None));
    assert_eq!(
        fake.log(),
        ["notify 1", "ack cq 1 1", "limit 4 mask 2", "ack 15"]
    );
    assert_eq!(
        srq.room_and_limit().expect_err("not there").kind(),
        ErrorKind::NotSupported
    );
}

#[test]
fn what_an_old_library_lacks_is_done_without_or_refused() {
    let Some(fake) = Fake::load("old", &["WITHOUT_OPTIONAL", "WITHOUT_EXTENDED"]) else {
        return;
    };
    let context = fake.open();
    let limits = context.limits().expect("the plain question");
    assert!(limits.max_qp == 7 && limits.xrc && !limits.on_demand && !limits.implicit_on_demand);
    let port = context.port(1).expect("the short structure");
    assert_eq!(
        (port.state, port.lid, port.link_layer),
        (PortState::Active, Lid(5), LinkLayer::Unspecified)
    );
    assert_eq!(
        context.port(2).expect_err("there is one").kind(),
        ErrorKind::Invalid
    );
    assert_eq!(context.gid(1, 0).expect("an entry").0, [0xfe; 16]);
    assert_eq!(context.gid(1, 1).expect_err("none").errno(), libc::ENODATA);
    assert_eq!(context.pkey(1, 0), Ok(0x8001));
    let error = Xrcd::open(&context, None).expect_err("not offered");
    assert_eq!(
        (error.call(), error.kind()),
        ("ibv_open_xrcd", ErrorKind::NotSupported)
    );
    let pd = Pd::alloc(&context).expect("a domain");
    let region = Region::create(c"test", 4096).expect("memory");
    fake.log();
    let relaxed = Access::LOCAL_WRITE | Access::RELAXED_ORDERING;
    let mr = Mr::register(&pd, &region, relaxed).expect("without what may be left out");
    assert_eq!(fake.log(), ["+mr by reg_mr access 0x1"]);
    assert_eq!(
        (mr.lkey(), mr.rkey(), mr.address()),
        (LKey(11), RKey(12), region.address())
    );
    let cq = Cq::create(&context, 1, None, 0).expect("a queue");
    let qp = Qp::create(&pd, &QpInit::new(QpType::Rc, &cq, &cq)).expect("a queue pair");
    assert_eq!(qp.in_order(WrOpcode::RdmaWrite), Default::default());
}

#[test]
fn rights_that_may_be_ignored_go_by_the_newer_function() {
    let Some(fake) = Fake::load("newer", &[]) else {
        return;
    };
    let context = fake.open();
    let pd = Pd::alloc(&context).expect("a domain");
    let region = Region::create(c"test", 4096).expect("memory");
    fake.log();
    Mr::register(&pd, &region, Access::LOCAL_WRITE | Access::RELAXED_ORDERING).expect("registered");
    assert_eq!(fake.log(), ["+mr by iova2 access 0x100001", "-mr"]);
    fake.verbs.fork_init().expect("the fake agrees");
    assert_eq!(fake.log(), ["fork_init"]);
}

#[test]
fn a_function_under_another_version_is_missing_and_named() {
    let Some(path) = common::fake("versions", &["OLD_NODE"]) else {
        return;
    };
    let error = Verbs::load(&Choice::File(path.clone()))
        .expect_err("ibv_open_device@IBVERBS_1.1 is not there");
    assert_eq!(
        error,
        LoadError::Symbol(path, "ibv_open_device", "IBVERBS_1.1")
    );
    let text = error.to_string();
    assert!(
        text.contains("versions.so") && text.contains("FERRIBAND_VERBS"),
        "{text}"
    );
    let missing = PathBuf::from("/nonexistent/libibverbs.so.1");
    let text = Verbs::load(&Choice::File(missing))
        .expect_err("no file")
        .to_string();
    assert!(text.contains("/nonexistent/libibverbs.so.1"), "{text}");
}
