//! The wrapper on a connection manager that only writes down what it was asked: order of
//! destruction, acknowledgements, time-outs, what events say, functions that are missing.

mod common;

use ferriband_ibv::{
    Choice, Cm, CmChannel, CmError, CmEvent, CmEventKind, CmId, CmOption, ConnectParams, Cq,
    ErrorKind, EventKind, LoadError, Pd, PortSpace, Qp, QpInit, QpType, RejectReason, Verbs,
    leaked,
};
use ferriband_testkit::{Cc, has_header, place};
use std::ffi::{CStr, CString, c_char, c_int, c_uint};
use std::net::SocketAddr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

type Log = unsafe extern "C" fn() -> *const c_char;
type Push = unsafe extern "C" fn(c_uint, c_int, c_int, *const c_char);
type Interrupt = unsafe extern "C" fn();

/// A loaded fake, with its own questions.
struct Fake {
    cm: &'static Cm,
    log: Log,
    push: Push,
    interrupt: Interrupt,
}

/// A directory with a fake library of verbs and a fake connection manager that is linked to it, or
/// to `other`'s.
fn build(name: &str, defined: &[&str], other: Option<&Path>) -> Option<PathBuf> {
    if !has_header("rdma/rdma_cma.h", "librdmacm-dev") {
        return None;
    }
    let verbs = common::fake(name, &[])?;
    let directory = verbs.with_file_name(format!("cm-{name}"));
    std::fs::create_dir_all(&directory).expect("a directory");
    let beside = directory.join("libibverbs.so.1");
    std::fs::copy(verbs, &beside).expect("a copy");
    let library = directory.join("librdmacm.so.1");
    Cc::of(place!().source("fake_rdmacm.c"), library)
        .options(["-O1"])
        .options(defined.iter().map(|name| format!("-D{name}")))
        .shared()
        .links([other.map_or(beside, |other| other.join("libibverbs.so.1"))])
        .compile();
    Some(directory)
}

impl Fake {
    fn load(name: &str, defined: &[&str]) -> Option<Fake> {
        let directory = build(name, defined, None)?;
        let choice = Choice::File(directory.join("libibverbs.so.1"));
        let verbs = Verbs::load(&choice).expect("the fake is complete");
        let cm = Cm::load(verbs).expect("the fake is complete");
        assert_eq!(cm.path(), directory.join("librdmacm.so.1"));
        let symbol = |name: &CStr| symbol(cm.path(), name);
        // SAFETY: the fake defines these with these prototypes.
        Some(unsafe {
            Fake {
                cm,
                log: std::mem::transmute::<*mut libc::c_void, Log>(symbol(c"fake_cm_log")),
                push: std::mem::transmute::<*mut libc::c_void, Push>(symbol(c"fake_cm_push")),
                interrupt: std::mem::transmute::<*mut libc::c_void, Interrupt>(symbol(
                    c"fake_cm_interrupt",
                )),
            }
        })
    }

    /// What was called since the last question.
    fn log(&self) -> Vec<String> {
        // SAFETY: the fake's own function.
        let text = unsafe { CStr::from_ptr((self.log)()) };
        let text = text.to_str().expect("text");
        text.lines().map(String::from).collect()
    }

    /// Puts an event of the identifier of this number into the channel.
    fn push(&self, number: c_uint, kind: u32, status: c_int, data: Option<&CStr>) {
        let data = data.map_or(std::ptr::null(), CStr::as_ptr);
        // SAFETY: the fake's own function copies the string.
        unsafe { (self.push)(number, kind as c_int, status, data) };
    }

    fn tell(&self, number: c_uint, kind: CmEventKind, status: c_int) {
        self.push(number, kind.to_c(), status, None);
    }

    fn channel(&self) -> Arc<CmChannel> {
        CmChannel::create(self.cm).expect("a channel")
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

fn create(channel: &Arc<CmChannel>, tag: u64) -> Arc<CmId> {
    CmId::create(channel, PortSpace::Tcp, tag).expect("an identifier")
}

fn take(channel: &Arc<CmChannel>) -> CmEvent {
    channel.next_event().expect("no failure").expect("an event")
}

/// An identifier with a device.
fn resolved(fake: &Fake, channel: &Arc<CmChannel>, number: c_uint) -> Arc<CmId> {
    let id = create(channel, u64::from(number));
    fake.tell(number, CmEventKind::AddrResolved, 0);
    assert_eq!(take(channel).kind(), CmEventKind::AddrResolved);
    id
}

/// Objects that could not be destroyed are counted process-wide: no test here has any.
#[test]
fn whatever_the_order_of_drops_events_go_before_identifiers_and_queue_pairs_too() {
    let Some(fake) = Fake::load("cm_order", &[]) else {
        return;
    };
    let channel = fake.channel();
    let id = resolved(&fake, &channel, 0);
    let context = id.context().expect("no failure").expect("a device");
    let pd = Pd::alloc(&context).expect("a domain");
    let cq = Cq::create(&context, 4, None, 0).expect("a queue");
    let init = QpInit::new(QpType::Rc, &cq, &cq);
    let qp = id.create_qp(&pd, &init).expect("a queue pair");
    let second = id.create_qp(&pd, &init).expect_err("it has one");
    assert_eq!(
        (second.call(), second.kind()),
        ("rdma_create_qp", ErrorKind::Invalid)
    );
    fake.tell(0, CmEventKind::Disconnected, 0);
    let event = take(&channel);
    fake.log();

    // Parents first, and nothing goes while a child is there.
    drop((channel, id, pd, cq, context));
    assert_eq!(fake.log(), [""; 0]);
    drop(qp);
    assert_eq!(fake.log(), ["-qp of 0", "-devices"]);
    drop(event);
    assert_eq!(fake.log(), ["ack 0 10", "-id 0", "-channel"]);
    assert_eq!(leaked(), 0);
}

#[test]
fn a_request_goes_with_its_event_unless_it_is_taken() {
    let Some(fake) = Fake::load("cm_requests", &[]) else {
        return;
    };
    let channel = fake.channel();
    let listener = create(&channel, 5);
    listener.listen(u32::MAX).expect("it listens");
    assert_eq!(fake.log(), ["+channel", "+id 0", "listen 0 2147483647"]);
    let request = CmEventKind::ConnectRequest;
    fake.push(0, request.to_c(), 0, Some(c"who"));
    fake.tell(0, request, 0);
    let mut event = take(&channel);
    assert_eq!((event.id().tag(), event.private_data()), (5, &b"who"[..]));
    let peer = event.peer().expect("a request's");
    assert_eq!((peer.qp_number.0, peer.initiator_depth), (77, 4));
    let child = event.take_request().expect("a request");
    drop(event);
    drop(take(&channel));
    assert_eq!(
        fake.log(),
        ["+id 1", "ack 0 4", "+id 2", "ack 0 4", "-id 2"]
    );
    child.reject(b"no").expect("refused");
    drop(child);
    assert_eq!(fake.log(), ["reject 1 no", "-id 1"]);

    // What comes for an identifier that goes at that moment: acknowledged, and a request destroyed.
    drop(listener);
    fake.tell(0, request, 0);
    fake.tell(0, CmEventKind::Established, 0);
    assert!(channel.next_event().expect("no failure").is_none());
    assert_eq!(
        fake.log(),
        ["-id 0", "+id 3", "-id 3", "ack 0 4", "ack 0 9"]
    );
}

#[test]
fn events_say_what_went_wrong() {
    let Some(fake) = Fake::load("cm_events", &[]) else {
        return;
    };
    let channel = fake.channel();
    let id = create(&channel, 1);
    let failed = |kind: CmEventKind, status| {
        fake.tell(0, kind, status);
        let event = take(&channel);
        assert!(Arc::ptr_eq(event.id(), &id) && event.peer().is_none());
        match event.result() {
            Err(CmError::Failed(error)) => (error.call(), error.errno(), error.kind()),
            other => panic!("{other:?}"),
        }
    };
    let timeout = libc::ETIMEDOUT;
    let unreachable = ErrorKind::Unreachable;
    assert_eq!(
        failed(CmEventKind::AddrError, -timeout),
        ("rdma_resolve_addr", timeout, unreachable)
    );
    assert_eq!(
        failed(CmEventKind::RouteError, -timeout),
        ("rdma_resolve_route", timeout, unreachable)
    );
    assert_eq!(
        failed(CmEventKind::Unreachable, -timeout),
        ("rdma_connect", timeout, unreachable)
    );
    // iWARP tells refusals by an errno.
    assert_eq!(
        failed(CmEventKind::Rejected, -libc::ECONNREFUSED),
        ("rdma_connect", libc::ECONNREFUSED, ErrorKind::Refused)
    );
    assert_eq!(
        failed(CmEventKind::DeviceRemoval, 0).2,
        ErrorKind::DeviceGone
    );
    assert_eq!(failed(CmEventKind::ConnectError, 0).1, libc::EIO);

    fake.push(0, CmEventKind::Rejected.to_c(), 99, Some(c"why"));
    let event = take(&channel);
    let unknown = CmError::Rejected(RejectReason::Unknown(99));
    assert_eq!(event.result(), Err(unknown));
    assert_eq!(event.private_data(), b"why");
    // A number of the program's lies where other events have the address of private data.
    fake.push(0, 18, 0, None);
    let event = take(&channel);
    assert_eq!(event.kind(), CmEventKind::Unknown(18));
    assert_eq!((event.private_data(), event.peer()), (&[][..], None));
    fake.push(0, CmEventKind::Disconnected.to_c(), 0, Some(c"nobody's"));
    assert_eq!(take(&channel).private_data(), b"");
}

#[test]
fn calls_pass_on_what_they_are_given() {
    let Some(fake) = Fake::load("cm_calls", &[]) else {
        return;
    };
    let channel = fake.channel();
    let id = resolved(&fake, &channel, 0);
    fake.log();
    let four: SocketAddr = "192.0.2.1:5".parse().expect("an address");
    let six: SocketAddr = "[2001:db8::1]:5".parse().expect("an address");
    assert_eq!(
        id.bind(six).expect_err("the fake refuses").kind(),
        ErrorKind::AddressInUse
    );
    id.resolve_address(None, four, Duration::from_micros(1_500_001))
        .expect("asked");
    id.resolve_address(Some(six), six, Duration::MAX)
        .expect("asked");
    id.resolve_route(Duration::from_millis(20)).expect("asked");
    assert_eq!(
        fake.log(),
        [
            "bind 0 family 10",
            "resolve 0 from 0 to 2 in 1501",
            "resolve 0 from 10 to 10 in 2147483647",
            "route 0 in 20",
        ]
    );
    id.set_option(CmOption::AckTimeout(19)).expect("set");
    id.set_option(CmOption::TrafficClass(96)).expect("set");
    id.set_option(CmOption::ReuseAddress(true)).expect("set");
    id.set_option(CmOption::OneFamily(false)).expect("set");
    assert_eq!(
        fake.log(),
        [
            "option 0 0.3 19 in 1",
            "option 0 0.0 96 in 1",
            "option 0 0.1 1 in 4",
            "option 0 0.2 0 in 4",
        ]
    );

    let context = id.context().expect("no failure").expect("a device");
    let pd = Pd::alloc(&context).expect("a domain");
    let cq = Cq::create(&context, 4, None, 0).expect("a queue");
    let qp = Qp::create(&pd, &QpInit::new(QpType::Rc, &cq, &cq)).expect("a queue pair");
    fake.log();
    let by_hand = ConnectParams {
        private_data: &[1; 56],
        initiator_depth: 3,
        retry_count: 6,
        rnr_retry_count: 5,
        qp: Some(&qp),
        ..ConnectParams::default()
    };
    let without = ConnectParams::default();
    assert_eq!(
        id.connect(&without).expect_err("no queue pair").kind(),
        ErrorKind::Invalid
    );
    let long = ConnectParams {
        private_data: &[1; 57],
        ..by_hand
    };
    assert_eq!(
        id.connect(&long).expect_err("no room").errno(),
        libc::EMSGSIZE
    );
    assert_eq!(fake.log(), [""; 0]);
    id.init_qp(&qp).expect("INIT");
    id.connect(&by_hand).expect("asked");
    id.ready_qp(&qp).expect("RTS");
    id.establish().expect("said");
    let is_connected = id.notify(EventKind::CommunicationEstablished);
    assert_eq!(is_connected.expect_err("said").errno(), libc::EISCONN);
    id.disconnect().expect("asked");
    assert_eq!(
        fake.log(),
        [
            "attributes 0 of 1".to_string(),
            format!("connect 0 qp {} data 56 depth 3 retries 6 5", qp.number().0),
            "attributes 0 of 1".to_string(),
            "attributes 0 of 2".to_string(),
            "attributes 0 of 3".to_string(),
            "establish 0".to_string(),
            "notify 0 4".to_string(),
            "disconnect 0".to_string(),
        ]
    );
    let own = id
        .create_qp(&pd, &QpInit::new(QpType::Rc, &cq, &cq))
        .expect("a queue pair");
    assert!(
        id.accept(&by_hand).is_err(),
        "two queue pairs for one connection"
    );
    id.accept(&without).expect("accepted");
    assert_eq!(
        fake.log(),
        ["+qp of 0", "accept 0 qp 0 data 0 depth 255 retries 7 7"]
    );
    drop(own);
    assert!(id.accept(&without).is_err());
}

#[test]
fn whoever_waits_is_woken_by_an_event_and_by_nothing_else() {
    let Some(fake) = Fake::load("cm_waits", &[]) else {
        return;
    };
    let channel = fake.channel();
    let _id = create(&channel, 1);
    let before = Instant::now();
    let nothing = channel.wait_event(Duration::from_millis(30));
    assert!(nothing.expect("no failure").is_none());
    assert!(before.elapsed() >= Duration::from_millis(30));
    // SAFETY: the fake's own function.
    unsafe { (fake.interrupt)() };
    assert!(channel.next_event().expect("through a signal").is_none());
    std::thread::scope(|threads| {
        let waits = threads.spawn(|| channel.wait_event(Duration::from_secs(60)));
        std::thread::sleep(Duration::from_millis(20));
        fake.tell(0, CmEventKind::AddrChange, 0);
        let event = waits.join().expect("no panic").expect("no failure");
        assert_eq!(event.expect("an event").kind(), CmEventKind::AddrChange);
    });
}

#[test]
fn what_an_old_manager_lacks_is_refused_and_strangers_are_named() {
    let Some(fake) = Fake::load("cm_old", &["OLD"]) else {
        return;
    };
    let channel = fake.channel();
    let id = resolved(&fake, &channel, 0);
    let error = id.establish().expect_err("not there");
    assert_eq!(
        (error.call(), error.kind()),
        ("rdma_establish", ErrorKind::NotSupported)
    );
    let sdp = CmId::create(&channel, PortSpace::Sdp, 1).expect_err("not offered");
    assert_eq!(
        (sdp.call(), sdp.kind()),
        ("rdma_create_id", ErrorKind::Invalid)
    );

    // A manager of another installation lies beside the library of verbs.
    let other = build("cm_other", &[], None).expect("as the first");
    let mixed = build("cm_mixed", &[], Some(&other)).expect("as the first");
    let load = |directory: &Path| {
        Verbs::load(&Choice::File(directory.join("libibverbs.so.1"))).expect("complete")
    };
    load(&other);
    let error = Cm::load(load(&mixed)).expect_err("two libraries of verbs");
    let (manager, verbs) = (mixed.join("librdmacm.so.1"), mixed.join("libibverbs.so.1"));
    assert_eq!(error, LoadError::Mixed(manager, verbs));
    assert!(error.to_string().contains("cm-cm_mixed/librdmacm.so.1"));
}
