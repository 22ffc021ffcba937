//! The ways on Ferriband's own adapter, also as a device that offers less would have them.

use ferriband_ibv::{Access, Choice, Device, DeviceLimits, Pd, Verbs};
use ferriband_registration::{Purpose, Reach, Refusal, Use, Way};
use ferriband_testkit::library;
use std::ptr::with_exposed_provenance_mut;
use std::sync::Arc;

const PAGE: u64 = 4096;
const PURPOSES: [Purpose; 3] = [Purpose::Own, Purpose::Neighbor, Purpose::Stranger];

fn domain() -> (Arc<Pd>, DeviceLimits) {
    let library = library("libibverbs.so.1");
    let verbs = Verbs::load(&Choice::File(library)).expect("our own library");
    let devices = Device::list(verbs).expect("a list");
    let first = devices.iter().find(|device| device.name() == "ferri0");
    let context = first.expect("the adapter of this host").open();
    let context = context.expect("it opens");
    let limits = context.limits().expect("limits");
    (Pd::alloc(&context).expect("a domain"), limits)
}

/// Pages of the test's own, the last of which is not there.
fn pages(count: u64) -> u64 {
    let length = (count * PAGE) as usize;
    let rights = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: a new mapping.
    let at = unsafe { libc::mmap(std::ptr::null_mut(), length, rights, flags, -1, 0) };
    assert_ne!(at, libc::MAP_FAILED);
    let at = at.expose_provenance() as u64;
    let last = with_exposed_provenance_mut((at + (count - 1) * PAGE) as usize);
    // SAFETY: a page of it, that nobody refers to.
    assert_eq!(unsafe { libc::munmap(last, PAGE as usize) }, 0);
    at
}

fn writes() -> Access {
    Access::LOCAL_WRITE | Access::REMOTE_WRITE
}

#[test]
fn a_region_for_all_memory_serves_this_process_and_neighbors_and_no_stranger() {
    let (pd, limits) = domain();
    let mut reach = Reach::new(&pd, &limits, Way::Auto).expect("on demand");
    let at = pages(4);
    let mut key = |from: u64, purpose| {
        let range = reach.range(at + from, 8, writes(), purpose);
        range.expect("it is there").rkey()
    };
    let (own, neighbor) = (key(0, Purpose::Own), key(0, Purpose::Neighbor));
    assert_ne!(
        own, neighbor,
        "nobody gets a key of what is this process's own"
    );
    assert_eq!(
        (key(PAGE, Purpose::Own), key(PAGE, Purpose::Neighbor)),
        (own, neighbor)
    );
    let stranger = key(0, Purpose::Stranger);
    assert!(stranger != neighbor && stranger != own);
    assert_eq!(key(0, Purpose::Stranger), stranger, "kept");
    assert_ne!(key(PAGE, Purpose::Stranger), stranger);
}

#[test]
fn a_device_without_a_region_for_all_memory_keeps_what_it_pages_on_demand() {
    let (pd, limits) = domain();
    let limits = DeviceLimits {
        implicit_on_demand: false,
        ..limits
    };
    let mut reach = Reach::new(&pd, &limits, Way::Auto).expect("on demand");
    let at = pages(4);
    let mut key = |length: usize, access: Access, purpose| {
        let range = reach.range(at, length, access, purpose);
        range.expect("it is there").rkey()
    };
    for purpose in PURPOSES {
        let whole = key(2 * PAGE as usize, writes(), purpose);
        assert_eq!(key(PAGE as usize, writes(), purpose), whole, "{purpose:?}");
        assert_ne!(key(PAGE as usize, Access::REMOTE_READ, purpose), whole);
    }
    let own = key(PAGE as usize, writes(), Purpose::Own);
    assert_ne!(key(PAGE as usize, writes(), Purpose::Stranger), own);
}

#[test]
fn what_is_not_there_is_refused_by_each_way() {
    let (pd, limits) = domain();
    let at = pages(4);
    for way in [Way::Auto, Way::OnDemand, Way::Cache, Way::Each] {
        let Ok(mut reach) = Reach::new(&pd, &limits, way) else {
            eprintln!("SKIP: userfaultfd is not to be had");
            continue;
        };
        for purpose in PURPOSES {
            assert!(
                reach
                    .range(at, 3 * PAGE as usize, writes(), purpose)
                    .is_ok()
            );
            let hole = reach.range(at + 2 * PAGE, 2 * PAGE as usize, writes(), purpose);
            assert!(hole.is_err(), "{way:?} {purpose:?}");
        }
        assert!(
            reach
                .pinned(at, 4 * PAGE as usize, Access::LOCAL_WRITE)
                .is_err()
        );
        assert!(
            reach
                .pinned(at, 3 * PAGE as usize, Access::LOCAL_WRITE)
                .is_ok()
        );
        let lasting = reach.lasting(at, 4 * PAGE as usize, writes());
        let on_demand = matches!(way, Way::Auto | Way::OnDemand);
        assert_eq!(matches!(lasting, Err(Refusal::Unreachable)), on_demand);
        assert!(lasting.is_err());
        let (first, again) = (
            reach.lasting(at, 8, writes()),
            reach.lasting(at, 8, writes()),
        );
        let key = |one: &Result<ferriband_registration::Reachable, Refusal>| {
            one.as_ref().expect("it is there").rkey()
        };
        assert_ne!(key(&first), key(&again), "each has its own, and ends it");
        assert!(reach.allows(at, 3 * PAGE, Use::Write) && reach.allows(0, 0, Use::Write));
        assert!(!reach.allows(at, 4 * PAGE, Use::Read));
    }
}
