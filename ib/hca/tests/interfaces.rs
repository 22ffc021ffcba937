//! Ethernet ports follow the kernel's network interfaces: events, states, GIDs, and what becomes of
//! connections.
#![allow(clippy::unwrap_used)]

mod common;

use std::net::IpAddr;
use std::process::Command;
use std::sync::Arc;

use common::memory::Kind;
use common::namespace::run_with_devices;
use common::party::*;
use common::{eventually, process};
use ferriband_admin::Counter;
use ferriband_hca::*;
use ferriband_transport::types::*;

#[test]
fn child_entry() {
    process::run_role(&[("obey", obey)]);
}

const SETUP: Setup = Setup {
    service: QpType::Rc,
    memory: Kind::Private,
    len: 4096,
    mr_access: ALL,
    qp_access: ALL,
    send_wr: 16,
    recv_wr: 16,
    sge: 1,
    inline: 0,
    cqe: 32,
    timeout: 14,
    retry: 7,
    rnr_retry: 7,
    min_rnr: 1,
    events: false,
};

/// `ip` of iproute2 succeeds.
fn ip(arguments: &str) -> bool {
    let status = Command::new("ip")
        .args(arguments.split_whitespace())
        .status();
    status.is_ok_and(|status| status.success())
}

/// An end of a pair of interfaces that has no address, and whose other end is up. False, said,
/// where there can be none.
fn link(name: &str) -> bool {
    let made = ip(&format!("link add {name} type veth peer name p{name}"))
        && [name, &format!("p{name}")]
            .iter()
            .all(|end| ip(&format!("link set {end} addrgenmode none")))
        && ip(&format!("link set p{name} up"));
    if !made {
        eprintln!("SKIPPED: no pair of interfaces can be made");
    }
    made
}

/// As [`link`], up and with the address 10.77.0.1.
fn make(name: &str) -> bool {
    let made = link(name);
    if made {
        assert!(ip(&format!("addr add 10.77.0.1/24 dev {name}")));
        assert!(ip(&format!("link set {name} up")));
    }
    made
}

/// The next event's kind, and the port's number.
fn next_event(ctx: &Context) -> (AsyncKind, usize) {
    let mut poll = libc::pollfd {
        fd: ctx.async_fd(),
        events: libc::POLLIN,
        revents: 0,
    };
    let patience = common::PATIENCE.as_millis() as i32;
    // SAFETY: one entry, ours.
    let ready = unsafe { libc::poll(&raw mut poll, 1, patience) };
    assert_eq!(ready, 1, "an event");
    let event = ctx.next_async_event().unwrap();
    (event.kind, event.element)
}

fn addresses(ctx: &Context) -> Vec<IpAddr> {
    let all = 0..ctx.query_port(1).unwrap().gid_table;
    all.filter_map(|index| ctx.device.source(index)).collect()
}

#[test]
fn a_port_goes_down_and_up_with_its_interface() {
    let name = "a_port_goes_down_and_up_with_its_interface";
    run_with_devices(name, "ferri_updown,ferri_other", || {
        if !make("updown") || !link("other") {
            return;
        }
        let (ctx, again) = (Context::open(0).unwrap(), Context::open(0).unwrap());
        let other = Context::open(1).unwrap();
        let active = |ctx: &Arc<Context>| ctx.query_port(1).unwrap().active;
        assert!(active(&ctx));
        for _ in 0..3 {
            assert!(ip("link set updown down"));
            assert_eq!(next_event(&ctx), (AsyncKind::PortErr, 1));
            assert!(!active(&ctx), "whoever hears of it sees it");
            assert!(ip("link set updown up"));
            assert_eq!(next_event(&ctx), (AsyncKind::PortActive, 1));
            assert!(active(&ctx));
        }
        // every context hears, and those of other interfaces do not
        for _ in 0..3 {
            assert_eq!(next_event(&again), (AsyncKind::PortErr, 1));
            assert_eq!(next_event(&again), (AsyncKind::PortActive, 1));
        }
        assert!(ip("link set other up"));
        assert_eq!(next_event(&other), (AsyncKind::PortActive, 1));
    });
}

#[test]
fn a_port_goes_down_and_up_with_its_carrier() {
    let name = "a_port_goes_down_and_up_with_its_carrier";
    run_with_devices(name, "ferri_carrier", || {
        if !make("carrier") {
            return;
        }
        // without a time-out nothing else would have what is lost sent again
        let endless = Setup {
            timeout: 0,
            ..SETUP
        };
        // SAFETY: this process has one thread yet that reads the environment.
        unsafe { std::env::set_var("FERRIBAND_FAULTS", "drop opcode=rc-write-only count=1") };
        let ctx = Context::open(0).unwrap();
        let active = || ctx.query_port(1).unwrap().active;
        let mut pair = Pair::alike(Party::here(), Party::here(), endless);
        let lost = Ask::new(SendOpcode::RdmaWrite, 8, &pair.bi).id(1);
        pair.a.post(&pair.ai, &lost);
        pair.a.expect_quiet(&pair.ai, 30);
        assert!(active());
        // the other end goes, as a cable that is pulled: this one stays switched on
        assert!(ip("link set pcarrier down"));
        assert_eq!(next_event(&ctx), (AsyncKind::PortErr, 1));
        assert!(!active(), "whoever hears of it sees it");
        assert!(ip("link set pcarrier up"));
        assert_eq!(next_event(&ctx), (AsyncKind::PortActive, 1));
        assert!(active());
        pair.a.expect(&pair.ai, 1, WcStatus::Success);
        pair.exchange();
    });
}

#[test]
fn a_connection_goes_by_the_address_that_its_gid_has() {
    let name = "a_connection_goes_by_the_address_that_its_gid_has";
    run_with_devices(name, "ferri_moved", || {
        if !make("moved") {
            return;
        }
        let endless = Setup {
            timeout: 0,
            ..SETUP
        };
        let ctx = Context::open(0).unwrap();
        let mut pair = Pair::alike(Party::here(), Party::here(), endless);
        pair.exchange();
        let strangers = || ctx.port_counters()[Counter::WrongSource as usize];
        assert_eq!(strangers(), 0);
        let changed = |change: &str| {
            assert!(ip(change), "{change}");
            assert_eq!(next_event(&ctx), (AsyncKind::GidChange, 1), "{change}");
        };
        // the peer's address stays one of this host, and the port has another
        changed("addr del 10.77.0.1/24 dev moved");
        assert!(ip("addr add 10.77.0.1/32 dev lo"));
        changed("addr add 10.77.0.3/24 dev moved");
        let lost = Ask::new(SendOpcode::RdmaWrite, 8, &pair.bi).id(1);
        pair.a.post(&pair.ai, &lost);
        eventually("packets to come from the new address", || strangers() > 0);
        pair.a.expect_quiet(&pair.ai, 30);
        assert!(ip("addr del 10.77.0.1/32 dev lo"));
        changed("addr del 10.77.0.3/24 dev moved");
        changed("addr add 10.77.0.1/24 dev moved");
        pair.a.expect(&pair.ai, 1, WcStatus::Success);
        pair.exchange();
        // the way there is taken away and given back
        assert!(ip("route del local 10.77.0.1 dev moved table local"));
        pair.a.post(&pair.ai, &lost);
        pair.a.expect_quiet(&pair.ai, 30);
        assert!(ip(
            "route add local 10.77.0.1 dev moved table local src 10.77.0.1"
        ));
        pair.a.expect(&pair.ai, 1, WcStatus::Success);
    });
}

#[test]
fn addresses_that_come_and_go_change_the_gids() {
    let name = "addresses_that_come_and_go_change_the_gids";
    run_with_devices(name, "ferri_gids", || {
        if !make("gids") {
            return;
        }
        let ctx = Context::open(0).unwrap();
        let [first, second] = ["10.77.0.1", "10.77.0.2"].map(|text| text.parse().unwrap());
        assert_eq!(addresses(&ctx), [first]);
        assert!(ip("addr add 10.77.0.2/24 dev gids"));
        assert_eq!(next_event(&ctx), (AsyncKind::GidChange, 1));
        assert_eq!(addresses(&ctx), [first, second]);
        // one that moves to another host, and back
        assert!(ip("addr del 10.77.0.2/24 dev gids"));
        assert_eq!(next_event(&ctx), (AsyncKind::GidChange, 1));
        assert_eq!(addresses(&ctx), [first]);
        assert!(ip("addr add 10.77.0.2/24 dev gids"));
        assert_eq!(next_event(&ctx), (AsyncKind::GidChange, 1));
        assert_eq!(ctx.device.source(1), Some(second), "in its place");
    });
}

#[test]
fn what_was_lost_is_asked_for_when_the_interface_is_back() {
    let name = "what_was_lost_is_asked_for_when_the_interface_is_back";
    run_with_devices(name, "ferri_goeson", || {
        if !make("goeson") {
            return;
        }
        // SAFETY: this process has one thread yet that reads the environment.
        unsafe { std::env::set_var("FERRIBAND_FAULTS", "drop opcode=rc-write-only count=1") };
        // without a time-out nothing else would ever find out
        let endless = Setup {
            timeout: 0,
            ..SETUP
        };
        let mut pair = Pair::alike(Party::here(), Party::here(), endless);
        let lost = Ask::new(SendOpcode::RdmaWrite, 8, &pair.bi).id(1);
        pair.a.post(&pair.ai, &lost);
        pair.a.expect_quiet(&pair.ai, 30);
        assert!(ip("link set goeson down"));
        pair.a.expect_quiet(&pair.ai, 30);
        assert!(ip("link set goeson up"));
        pair.a.expect(&pair.ai, 1, WcStatus::Success);
        pair.exchange();
    });
}

#[test]
fn a_device_fails_with_its_interface() {
    let name = "a_device_fails_with_its_interface";
    run_with_devices(name, "ferri_gone", || {
        if !make("gone") {
            return;
        }
        let mut pair = Pair::alike(Party::here(), Party::here(), SETUP);
        pair.exchange();
        let ctx = Context::open(0).unwrap();
        let ifindex = ctx.device.info.ifindex;
        assert!(missing([ifindex, 0].into_iter()).is_empty());
        pair.b.recv(&pair.bi, 5, 0, 8);
        assert!(ip("link del gone"));
        assert_eq!(next_event(&ctx).0, AsyncKind::DeviceFatal);
        pair.b.expect(&pair.bi, 5, WcStatus::WrFlushErr);
        assert_eq!(ctx.alloc_pd().unwrap_err().errno(), libc::EIO);
        assert_eq!(Context::open(0).unwrap_err().errno(), libc::ENODEV);
        eventually("the list to miss it", || {
            missing([ifindex, 0].into_iter()) == [ifindex]
        });
    });
}
