//! The wrapper on Ferriband's own library: each service carries messages between queue pairs of this process, and RC between two.

use ferriband_ibv::{
    Access, Ah, Choice, CompChannel, Context, Cq, Device, Element, EventKind, LinkLayer, Mr, Mtu,
    Pd, PortState, QKey, Qp, QpCaps, QpInit, QpState, QpType, Qpn, RKey, RecvWr, Region, Route,
    Rtr, Rts, SendFlags, SendWr, Srq, Subject, Verbs, Wc, WcFlags, WcOpcode, WcStatus, WrOpcode,
    XrcSrqInit, Xrcd, leaked,
};
use ferriband_testkit::{library, library_dir};
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// A hang is a failure, however busy the machine.
const PATIENCE: Duration = Duration::from_secs(60);

const ALL: Access = Access::LOCAL_WRITE
    .union(Access::REMOTE_WRITE)
    .union(Access::REMOTE_READ)
    .union(Access::REMOTE_ATOMIC);

fn verbs() -> &'static Verbs {
    static VERBS: OnceLock<&Verbs> = OnceLock::new();
    VERBS.get_or_init(|| {
        let path = match std::env::var_os("IBV_TEST_LIBRARY") {
            Some(path) => path.into(),
            None => library("libibverbs.so.1"),
        };
        let verbs = Verbs::load(&Choice::File(path)).expect("our own library");
        assert!(verbs.is_ours());
        verbs
    })
}

/// Each test opens the adapter of one host for itself.
fn open() -> Arc<Context> {
    let devices = Device::list(verbs()).expect("a list");
    let first = devices.iter().find(|device| device.name() == "ferri0");
    first
        .expect("the adapter of this host is always there")
        .open()
        .expect("it opens")
}

/// A domain, a completion queue and registered memory: one side of a conversation.
struct Side {
    cq: Arc<Cq>,
    pd: Arc<Pd>,
    mr: Arc<Mr>,
    memory: Arc<Region>,
}

impl Side {
    fn new(context: &Arc<Context>) -> Side {
        let pd = Pd::alloc(context).expect("a domain");
        let memory = Region::create(c"test", 1 << 16).expect("memory");
        let mr = Mr::register(&pd, &memory, ALL).expect("registered");
        let cq = Cq::create(context, 64, None, 0).expect("a queue");
        Side { cq, pd, mr, memory }
    }

    fn qp(&self, qp_type: QpType, srq: Option<&Arc<Srq>>) -> Arc<Qp> {
        let caps = QpCaps {
            send_wr: 16,
            recv_wr: 16,
            send_sge: 4,
            recv_sge: 4,
            inline: 128,
        };
        let init = QpInit {
            caps,
            srq,
            ..QpInit::new(qp_type, &self.cq, &self.cq)
        };
        Qp::create(&self.pd, &init).expect("a queue pair")
    }

    fn part(&self, at: usize, length: u32) -> [Element<'static>; 1] {
        [self.mr.element(at, length).expect("inside")]
    }

    fn bytes(&self, at: usize, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        self.memory.read(at, &mut bytes).expect("inside");
        bytes
    }
}

/// The next completion.
fn wait(cq: &Cq) -> Wc {
    let end = Instant::now() + PATIENCE;
    let mut wcs = [Wc::default()];
    while cq.poll(&mut wcs).expect("polling") == 0 {
        assert!(Instant::now() < end, "no completion within {PATIENCE:?}");
    }
    wcs[0]
}

/// The next completion, which must be this one and good.
fn done(cq: &Cq, id: u64) -> Wc {
    let wc = wait(cq);
    assert!(wc.is_ok() && wc.id() == id, "{wc:?} instead of {id}");
    wc
}

/// Takes a connection's queue pair to RTS.
fn connect(context: &Context, qp: &Qp, peer: Qpn) {
    let lid = context.port(1).expect("a port").lid;
    qp.init(
        1,
        0,
        if qp.qp_type() == QpType::XrcSend {
            Access::empty()
        } else {
            ALL
        },
    )
    .expect("INIT");
    let route = Route {
        dlid: lid,
        port: 1,
        ..Route::default()
    };
    qp.ready_to_receive(&Rtr {
        peer,
        route,
        rq_psn: 0xff_fffe,
        mtu: Mtu::Mtu1024,
        max_dest_rd_atomic: 4,
        min_rnr_timer: 1,
    })
    .expect("RTR");
    let rts = Rts {
        sq_psn: 0xff_fffe,
        max_rd_atomic: 4,
        timeout: 14,
        retry_cnt: 7,
        rnr_retry: 7,
    };
    qp.ready_to_send(&rts).expect("RTS");
}

#[test]
fn the_adapter_says_what_it_can() {
    let context = open();
    assert_eq!(context.device().name(), "ferri0");
    let limits = context.limits().expect("limits");
    assert!(
        limits.xrc && limits.on_demand && limits.implicit_on_demand,
        "{limits:?}"
    );
    assert!(
        limits.max_sge >= 4 && limits.max_srq_wr >= 1024 && limits.ports == 1,
        "{limits:?}"
    );
    let port = context.port(1).expect("a port");
    assert_eq!(
        (port.state, port.link_layer),
        (PortState::Active, LinkLayer::InfiniBand)
    );
    assert_ne!(context.gid(1, 0).expect("an entry").0, [0; 16]);
    assert_eq!(context.pkey(1, 0), Ok(0xffff));
    assert!(context.port(2).is_err());
}

#[test]
fn rc_carries_every_operation() {
    let context = open();
    let (a, b) = (Side::new(&context), Side::new(&context));
    let (qa, qb) = (a.qp(QpType::Rc, None), b.qp(QpType::Rc, None));
    connect(&context, &qa, qb.number());
    connect(&context, &qb, qa.number());
    assert_eq!(qa.state(), Ok(QpState::Rts));
    let order = qb.in_order(WrOpcode::RdmaWrite);
    assert!(
        order.last_byte_last && !order.whole_message && !order.blocks_of_128,
        "{order:?}"
    );

    // SEND of two elements, one of them elsewhere; then inline with immediate data.
    a.memory.write(0, b"two ").expect("inside");
    a.memory.write(500, b"parts").expect("inside");
    let parts = [a.part(0, 4)[0], a.part(500, 5)[0]];
    let buffer = b.part(100, 64);
    qb.post_recv(&mut RecvWr::new(7, &buffer)).expect("posted");
    qa.post_send(&mut SendWr::send(1, &parts).flags(SendFlags::SIGNALED))
        .expect("posted");
    assert_eq!(done(&b.cq, 7).byte_len(), 9);
    assert_eq!(done(&a.cq, 1).opcode(), WcOpcode::Send);
    assert_eq!(b.bytes(100, 9), b"two parts");
    qb.post_recv(&mut RecvWr::new(8, &buffer)).expect("posted");
    let text = String::from("borrowed");
    let inline = [Element::inline(text.as_bytes())];
    let flags = SendFlags::INLINE | SendFlags::SIGNALED;
    qa.post_send(&mut SendWr::send(2, &inline).flags(flags).immediate(0x1234_5678))
        .expect("posted");
    drop(text);
    let wc = done(&b.cq, 8);
    assert_eq!(
        (wc.immediate(), wc.opcode()),
        (Some(0x1234_5678), WcOpcode::Recv)
    );
    done(&a.cq, 2);
    assert_eq!(b.bytes(100, 8), b"borrowed");

    // A chain: WRITE, READ back, and an atomic.
    b.memory
        .word(64)
        .expect("aligned")
        .store(40, Ordering::Relaxed);
    let (to, key) = (b.mr.address(), b.mr.rkey());
    let (from, back, old) = (a.part(0, 4), a.part(1000, 4), a.part(2000, 8));
    let mut chain = [
        SendWr::write(3, to + 300, key, &from),
        SendWr::read(4, to + 300, key, &back),
        SendWr::fetch_add(5, to + 64, key, 2, &old).flags(SendFlags::SIGNALED),
        SendWr::compare_swap(6, (to + 64, key), (42, 77), &old).flags(SendFlags::SIGNALED),
    ];
    qa.post_send_chain(&mut chain).expect("posted");
    assert_eq!(done(&a.cq, 5).opcode(), WcOpcode::FetchAdd);
    assert_eq!(done(&a.cq, 6).opcode(), WcOpcode::CompareSwap);
    assert_eq!(a.bytes(1000, 4), b"two ");
    assert_eq!(
        b.memory.word(64).expect("aligned").load(Ordering::Acquire),
        77
    );
    assert_eq!(
        a.memory
            .word(2000)
            .expect("aligned")
            .load(Ordering::Acquire),
        42
    );

    // A key that names nothing, and what becomes of what follows.
    let mut bad = SendWr::write(7, to, RKey(key.0 ^ 0xff00), &from).flags(SendFlags::SIGNALED);
    qa.post_send(&mut bad).expect("posted");
    qa.post_send(&mut SendWr::send(8, &from)).expect("posted");
    assert_eq!(wait(&a.cq).status(), WcStatus::RemoteAccess);
    assert_eq!(wait(&a.cq).status(), WcStatus::Flushed);
}

/// Memory that was never registered by itself, under one key for all memory.
#[test]
fn an_implicit_region_stands_for_all_memory() {
    let context = open();
    let (a, b) = (Side::new(&context), Side::new(&context));
    let (qa, qb) = (a.qp(QpType::Rc, None), b.qp(QpType::Rc, None));
    connect(&context, &qa, qb.number());
    connect(&context, &qb, qa.number());
    // SAFETY: no remote rights.
    let all = unsafe { Mr::register_implicit(&a.pd, Access::LOCAL_WRITE) }.expect("registered");
    assert!(all.region().is_none() && all.element(0, 1).is_err());
    let heap = vec![5u8; 100_000];
    // SAFETY: the vector lives until the completion, and is only read.
    let element =
        [
            unsafe {
                Element::foreign(heap.as_ptr().expose_provenance() as u64, 60_000, all.lkey())
            },
        ];
    let mut write =
        SendWr::write(1, b.mr.address(), b.mr.rkey(), &element).flags(SendFlags::SIGNALED);
    qa.post_send(&mut write).expect("posted");
    done(&a.cq, 1);
    assert_eq!(b.bytes(0, 60_000), &heap[..60_000]);
    let mut element = [b.mr.element(0, 4096).expect("inside")];
    // A hint that may be refused for a region that is not on demand; it must not end anything.
    let _ = b.mr.prefetch(&mut element, true);
}

#[test]
fn a_shared_receive_queue_serves_two_connections_and_says_when_it_runs_low() {
    let context = open();
    context.set_nonblocking().expect("a descriptor");
    let (a, b) = (Side::new(&context), Side::new(&context));
    let srq = Srq::create(&b.pd, 16, 2, 99).expect("a queue");
    assert!(srq.room_and_limit().expect("a query").0 >= 16);
    let pairs: Vec<_> = (0..2)
        .map(|_| {
            let (qa, qb) = (a.qp(QpType::Rc, None), b.qp(QpType::Rc, Some(&srq)));
            connect(&context, &qa, qb.number());
            connect(&context, &qb, qa.number());
            (qa, qb)
        })
        .collect();
    let buffers: Vec<_> = (0..4).map(|i| b.part(i * 64, 64)).collect();
    let mut chain: Vec<_> = buffers
        .iter()
        .enumerate()
        .map(|(i, part)| RecvWr::new(i as u64, part))
        .collect();
    srq.post_recv_chain(&mut chain).expect("posted");
    srq.arm_limit(3).expect("armed");
    assert_eq!(srq.room_and_limit().expect("a query").1, 3);
    for (i, (qa, qb)) in pairs.iter().enumerate() {
        let text = [b'0' + i as u8; 8];
        let inline = [Element::inline(&text)];
        qa.post_send(
            &mut SendWr::send(i as u64, &inline).flags(SendFlags::INLINE | SendFlags::SIGNALED),
        )
        .expect("posted");
        let wc = done(&b.cq, i as u64);
        assert_eq!(wc.qp_number(), qb.number());
        assert_eq!(b.bytes(i * 64, 8), text);
        done(&a.cq, i as u64);
    }
    let end = Instant::now() + PATIENCE;
    let event = loop {
        match context.next_async_event().expect("no failure") {
            Some(event) if event.kind == EventKind::CommunicationEstablished => (),
            Some(event) => break event,
            None => assert!(Instant::now() < end, "no event within {PATIENCE:?}"),
        }
    };
    assert_eq!(
        (event.kind, event.subject),
        (EventKind::SrqLimitReached, Subject::Srq { tag: 99 })
    );
}

#[test]
fn datagrams_say_where_they_came_from() {
    let context = open();
    let (a, b) = (Side::new(&context), Side::new(&context));
    let (qa, qb) = (a.qp(QpType::Ud, None), b.qp(QpType::Ud, None));
    for qp in [&qa, &qb] {
        qp.init_ud(1, 0, QKey(0x1234)).expect("INIT");
        qp.ready_ud(0).expect("RTS");
    }
    let route = Route {
        dlid: context.port(1).expect("a port").lid,
        port: 1,
        ..Route::default()
    };
    let ah = Ah::create(&a.pd, &route).expect("a handle");
    let buffer = b.part(0, 256);
    qb.post_recv(&mut RecvWr::new(3, &buffer)).expect("posted");
    a.memory.write(0, b"datagram").expect("inside");
    let part = a.part(0, 8);
    let mut wr =
        SendWr::send(4, &part)
            .flags(SendFlags::SIGNALED)
            .to(&ah, qb.number(), QKey(0x1234));
    qa.post_send(&mut wr).expect("posted");
    done(&a.cq, 4);
    let wc = done(&b.cq, 3);
    assert_eq!((wc.byte_len(), wc.source_qp()), (48, qa.number()));
    assert!(!wc.flags().contains(WcFlags::IMMEDIATE));
    assert_eq!(b.bytes(40, 8), b"datagram");
}

#[test]
fn one_initiator_reaches_two_queues_of_a_domain() {
    let context = open();
    let (a, b) = (Side::new(&context), Side::new(&context));
    let xrcd = Xrcd::open(&context, None).expect("a domain");
    let cqs = [
        Cq::create(&context, 8, None, 0).expect("a queue"),
        Cq::create(&context, 8, None, 0).expect("a queue"),
    ];
    let srqs = cqs.each_ref().map(|cq| {
        Srq::create_xrc(&b.pd, XrcSrqInit { xrcd: &xrcd, cq }, 8, 1, 0).expect("a queue")
    });
    let initiator = a.qp(QpType::XrcSend, None);
    let target = Qp::create_xrc_target(&xrcd, 5).expect("a target");
    assert_eq!(target.qp_type(), QpType::XrcRecv);
    connect(&context, &initiator, target.number());
    connect(&context, &target, initiator.number());
    let again = Qp::open_xrc_target(&xrcd, target.number(), 6).expect("another handle");
    assert_eq!(again.number(), target.number());
    // The target lives while one of its handles does.
    drop(target);
    for (i, (srq, cq)) in srqs.iter().zip(&cqs).enumerate() {
        let buffer = b.part(i * 64, 64);
        srq.post_recv(&mut RecvWr::new(10 + i as u64, &buffer))
            .expect("posted");
        let text = [b'A' + i as u8; 16];
        let inline = [Element::inline(&text)];
        let mut wr = SendWr::send(i as u64, &inline)
            .flags(SendFlags::INLINE | SendFlags::SIGNALED)
            .srq(srq.number().expect("a number"));
        initiator.post_send(&mut wr).expect("posted");
        assert_eq!(done(cq, 10 + i as u64).byte_len(), 16);
        done(&a.cq, i as u64);
        assert_eq!(b.bytes(i * 64, 16), text);
    }
    // One-sided requests name memory through the queue's domain.
    let part = a.part(0, 8);
    a.memory.write(0, b"one side").expect("inside");
    let mut wr = SendWr::write(9, b.mr.address() + 512, b.mr.rkey(), &part)
        .flags(SendFlags::SIGNALED)
        .srq(srqs[0].number().expect("a number"));
    initiator.post_send(&mut wr).expect("posted");
    done(&a.cq, 9);
    assert_eq!(b.bytes(512, 8), b"one side");
}

#[test]
fn an_armed_queue_wakes_who_waits_on_its_channel() {
    let context = open();
    let (a, b) = (Side::new(&context), Side::new(&context));
    let channel = CompChannel::create(&context).expect("a channel");
    channel.set_nonblocking().expect("a descriptor");
    let cq = Cq::create(&context, 8, Some(&channel), 31).expect("a queue");
    let qa = a.qp(QpType::Rc, None);
    let qb = Qp::create(&b.pd, &QpInit::new(QpType::Rc, &cq, &cq)).expect("a queue pair");
    connect(&context, &qa, qb.number());
    connect(&context, &qb, qa.number());
    assert_eq!(channel.next_event(), Ok(None));
    let buffer = b.part(0, 64);
    qb.post_recv(&mut RecvWr::new(1, &buffer)).expect("posted");
    cq.arm(false).expect("armed");
    let inline = [Element::inline(b"wake up")];
    qa.post_send(&mut SendWr::send(1, &inline).flags(SendFlags::INLINE))
        .expect("posted");
    let end = Instant::now() + PATIENCE;
    let tag = loop {
        if let Some(tag) = channel.next_event().expect("no failure") {
            break tag;
        }
        assert!(Instant::now() < end, "no event within {PATIENCE:?}");
        std::thread::yield_now();
    };
    assert_eq!(tag, 31);
    done(&cq, 1);
}

/// The child of the test below: says who it is, learns who asks, and answers one SEND by a WRITE and a SEND.
#[test]
fn child_of_the_test_of_two_processes() {
    if std::env::var_os("IBV_TEST_CHILD").is_none() {
        return;
    }
    let context = open();
    let side = Side::new(&context);
    let qp = side.qp(QpType::Rc, None);
    let buffer = side.part(0, 64);
    qp_line(&qp, &side);
    let (peer, addr, key) = parse(&read_line(&mut BufReader::new(std::io::stdin())));
    connect(&context, &qp, peer);
    qp.post_recv(&mut RecvWr::new(1, &buffer)).expect("posted");
    println!("ready");
    done(&side.cq, 1);
    let mut answer = side.bytes(0, 64);
    answer.reverse();
    side.memory.write(1024, &answer).expect("inside");
    let part = side.part(1024, 64);
    qp.post_send(&mut SendWr::write(2, addr + 4096, key, &part))
        .expect("posted");
    qp.post_send(&mut SendWr::send(3, &part[..0]).flags(SendFlags::SIGNALED))
        .expect("posted");
    done(&side.cq, 3);
}

fn qp_line(qp: &Qp, side: &Side) {
    println!(
        "qp {} {} {}",
        qp.number().0,
        side.mr.address(),
        side.mr.rkey().0
    );
    std::io::stdout().flush().expect("a pipe");
}

fn parse(line: &str) -> (Qpn, u64, RKey) {
    let mut words = line
        .split_whitespace()
        .skip(1)
        .map(|word| word.parse::<u64>().expect("a number"));
    let mut next = || words.next().expect("three numbers");
    (Qpn(next() as u32), next(), RKey(next() as u32))
}

fn read_line(from: &mut impl BufRead) -> String {
    loop {
        let mut line = String::new();
        assert_ne!(
            from.read_line(&mut line).expect("a pipe"),
            0,
            "the other process has ended"
        );
        // The test harness writes lines of its own.
        if let Some(at) = line.find("qp ").or_else(|| line.find("ready")) {
            return line[at..].to_string();
        }
    }
}

#[test]
fn two_processes_talk() {
    let context = open();
    let side = Side::new(&context);
    let qp = side.qp(QpType::Rc, None);
    let mut child = Command::new(std::env::current_exe().expect("this program"))
        .args([
            "--exact",
            "child_of_the_test_of_two_processes",
            "--nocapture",
        ])
        .env("IBV_TEST_CHILD", "1")
        .env("IBV_TEST_LIBRARY", verbs().path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the child starts");
    let mut from = BufReader::new(child.stdout.take().expect("a pipe"));
    let mut to = child.stdin.take().expect("a pipe");
    let (peer, ..) = parse(&read_line(&mut from));
    connect(&context, &qp, peer);
    let line = format!(
        "qp {} {} {}\n",
        qp.number().0,
        side.mr.address(),
        side.mr.rkey().0
    );
    to.write_all(line.as_bytes()).expect("a pipe");
    read_line(&mut from);
    let text: [u8; 64] = std::array::from_fn(|i| i as u8);
    side.memory.write(0, &text).expect("inside");
    let (part, buffer) = (side.part(0, 64), side.part(64, 64));
    qp.post_recv(&mut RecvWr::new(2, &buffer)).expect("posted");
    qp.post_send(&mut SendWr::send(1, &part).flags(SendFlags::SIGNALED))
        .expect("posted");
    let ids = [wait(&side.cq), wait(&side.cq)];
    assert!(ids.iter().all(Wc::is_ok), "{ids:?}");
    let reversed: Vec<u8> = text.iter().rev().copied().collect();
    assert_eq!(
        side.bytes(4096, 64),
        reversed,
        "the WRITE came before the SEND behind it"
    );
    let status = child.wait().expect("our child");
    assert!(status.success(), "{status}");
    drop((qp, side, context));
    assert_eq!(leaked(), 0);
}

/// The child of the test below: which library the environment's choice leads to.
#[test]
fn child_of_the_test_of_the_choice() {
    if std::env::var_os("IBV_TEST_CHOICE").is_none() {
        return;
    }
    let choice = Choice::from_env().expect("a good value");
    match Verbs::load(&choice) {
        Ok(verbs) => println!(
            "choice: loaded {} {}",
            verbs.is_ours(),
            verbs.path().display()
        ),
        Err(error) => println!("choice: failed {error}"),
    }
}

#[test]
fn the_systems_library_is_found_behind_ours() {
    let ours = library_dir();
    let ask = |choice: &str| {
        let output = Command::new(std::env::current_exe().expect("this program"))
            .args(["--exact", "child_of_the_test_of_the_choice", "--nocapture"])
            .env("IBV_TEST_CHOICE", "1")
            .env("FERRIBAND_VERBS", choice)
            .env("LD_LIBRARY_PATH", ours)
            .output()
            .expect("the child starts");
        let text = String::from_utf8(output.stdout).expect("text");
        let (_, said) = text.split_once("choice: ").expect("the child's answer");
        said.to_string()
    };
    let said = ask("ferriband");
    assert!(said.starts_with("loaded true "), "{said}");
    let said = ask("system");
    // Without the system's package there is only ours, and that is said.
    assert!(
        said.starts_with("loaded false ") || said.contains("only libibverbs.so.1 found"),
        "{said}"
    );
    let said = ask("/nonexistent");
    assert!(said.starts_with("failed /nonexistent"), "{said}");
}
