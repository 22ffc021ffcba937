//! Registration looks at the memory, as an adapter's driver does that pins it.

#![allow(clippy::unwrap_used)]

mod common;

use common::party::*;
use common::process::{self, Channel, Child};
use ferriband_hca::{Context, Error, Mr, MrInit, Pd};
use ferriband_transport::types::{Access, SendOpcode, Sge, WcStatus};
use std::os::fd::{AsRawFd, FromRawFd};
use std::sync::Arc;

const PAGE: u64 = 4096;
const READ: i32 = libc::PROT_READ;
const WRITE: i32 = libc::PROT_READ | libc::PROT_WRITE;

#[test]
fn child_entry() {
    process::run_role(&[("peer", peer_role)]);
}

fn peer_role(channel: Channel) {
    obey(channel);
}

/// Pages of private memory with some rights.
struct Pages(u64, u64);

impl Pages {
    fn new(pages: u64, prot: i32) -> Pages {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        let len = (pages * PAGE) as usize;
        // SAFETY: a new mapping at an address of the kernel's choice.
        let base = unsafe { libc::mmap(std::ptr::null_mut(), len, prot, flags, -1, 0) };
        assert_ne!(base, libc::MAP_FAILED);
        Pages(base as u64, pages * PAGE)
    }

    /// A file of these bytes, read-only here, and the file, which peers may map as long as it is open.
    fn of_file(bytes: &[u8; PAGE as usize]) -> (Pages, std::fs::File) {
        // SAFETY: a new descriptor.
        let raw = unsafe {
            libc::memfd_create(
                c"read-only".as_ptr(),
                libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING,
            )
        };
        assert!(raw >= 0);
        // SAFETY: just made, ours.
        let mut file = unsafe { std::fs::File::from_raw_fd(raw) };
        std::io::Write::write_all(&mut file, bytes).unwrap();
        let fd = file.as_raw_fd();
        // what cannot shrink peers may map
        // SAFETY: a property of a file of ours.
        let sealed = unsafe { libc::fcntl(fd, libc::F_ADD_SEALS, libc::F_SEAL_SHRINK) };
        assert_eq!(sealed, 0);
        // SAFETY: a new mapping at an address of the kernel's choice.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes.len(),
                READ,
                libc::MAP_SHARED,
                fd,
                0,
            )
        };
        assert_ne!(base, libc::MAP_FAILED);
        (Pages(base as u64, PAGE), file)
    }

    fn protect(&self, prot: i32) {
        let at = std::ptr::with_exposed_provenance_mut(self.0 as usize);
        // SAFETY: our own mapping.
        assert_eq!(unsafe { libc::mprotect(at, self.1 as usize, prot) }, 0);
    }

    fn register(&self, pd: &Arc<Pd>, access: Access) -> Result<Arc<Mr>, Error> {
        register(pd, self.0, self.1, access)
    }

    /// Whether its first page is there.
    fn is_resident(&self) -> bool {
        let mut state = [0u8];
        let at = std::ptr::with_exposed_provenance_mut(self.0 as usize);
        // SAFETY: one page, one byte.
        let result = unsafe { libc::mincore(at, PAGE as usize, state.as_mut_ptr()) };
        assert_eq!(result, 0);
        state[0] & 1 == 1
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        let at = std::ptr::with_exposed_provenance_mut(self.0 as usize);
        // SAFETY: our own mapping, not used any more.
        unsafe { libc::munmap(at, self.1 as usize) };
    }
}

fn register(pd: &Arc<Pd>, addr: u64, length: u64, access: Access) -> Result<Arc<Mr>, Error> {
    pd.reg_mr(MrInit {
        addr,
        length,
        iova: addr,
        access,
    })
}

#[track_caller]
fn efault(result: Result<Arc<Mr>, Error>) {
    assert_eq!(
        result.map(|_| ()).unwrap_err().errno(),
        libc::EFAULT,
        "bad address"
    );
}

/// Rights for which the pages must be writable, as remote rights can be asked for.
fn writers() -> [Access; 4] {
    let local = Access::LOCAL_WRITE;
    [
        local,
        local | Access::REMOTE_WRITE,
        local | Access::REMOTE_ATOMIC,
        Access::MW_BIND,
    ]
}

#[test]
fn memory_that_cannot_be_pinned_is_efault() {
    let pd = Context::open(0).unwrap().alloc_pd().unwrap();
    let readers = [Access::empty(), Access::REMOTE_READ];
    let none = Pages::new(2, libc::PROT_NONE);
    let read_only = Pages::new(2, READ);
    for access in writers() {
        efault(none.register(&pd, access));
        efault(read_only.register(&pd, access));
    }
    for access in readers {
        efault(none.register(&pd, access));
        read_only
            .register(&pd, access)
            .unwrap()
            .deregister()
            .unwrap();
    }
    // address 0 is nobody's
    for access in readers.into_iter().chain(writers()) {
        efault(register(&pd, 0, PAGE, access));
    }
    pd.dealloc().expect("what was refused does not count");
}

#[test]
fn peers_read_a_file_that_is_mapped_read_only() {
    let ctx = Context::open(0).unwrap();
    let end = Endpoint::new(&ctx, Setup::default()).unwrap();
    let info = end.info(0);
    end.connect(info.qpn, info.lid).unwrap();
    let (pages, _file) = Pages::of_file(&[7; PAGE as usize]);
    efault(pages.register(&end.pd, Access::LOCAL_WRITE));
    let mr = pages.register(&end.pd, Access::REMOTE_READ).unwrap();
    let file = Info {
        addr: pages.0,
        key: mr.key(),
        ..info
    };
    end.post(&Ask::new(SendOpcode::RdmaRead, PAGE as u32, &file))
        .unwrap();
    assert_eq!(end.wait().status, WcStatus::Success as u32);
    assert_eq!(end.memory.extremes(0, PAGE as usize), (7, 7));
    end.post(&Ask::new(SendOpcode::RdmaWrite, 8, &file))
        .unwrap();
    assert_eq!(end.wait().status, WcStatus::RemAccessErr as u32);
    mr.deregister().unwrap();
    end.close();
}

#[test]
fn an_on_demand_region_is_not_looked_at() {
    let pd = Context::open(0).unwrap().alloc_pd().unwrap();
    let later = Pages::new(2, libc::PROT_NONE);
    let mr = later
        .register(&pd, Access::LOCAL_WRITE | Access::ON_DEMAND)
        .unwrap();
    mr.deregister().unwrap();
    let ready = Pages::new(2, WRITE);
    let mr = ready
        .register(&pd, Access::LOCAL_WRITE | Access::ON_DEMAND)
        .unwrap();
    assert!(!ready.is_resident(), "its pages come when they are used");
    mr.deregister().unwrap();
    let mr = ready.register(&pd, Access::LOCAL_WRITE).unwrap();
    assert!(ready.is_resident());
    mr.deregister().unwrap();
}

#[test]
fn an_on_demand_region_is_what_lies_there_when_a_peer_asks() {
    let mut pair = Pair::alike(
        Party::There(Child::spawn("peer")),
        Party::Here(Agent::new()),
        Setup::default(),
    );
    let Pair { a, b, ai, bi } = &mut pair;
    let (pages, _file) = Pages::of_file(&[7; PAGE as usize]);
    let Party::Here(agent) = &*b else {
        unreachable!("just made")
    };
    let access = Access::REMOTE_READ | Access::ON_DEMAND;
    let mr = pages.register(&agent.end(bi.at).pd, access).unwrap();
    let region = Info {
        addr: pages.0,
        key: mr.key(),
        ..*bi
    };
    let mut reads = |byte| {
        a.post(ai, &Ask::new(SendOpcode::RdmaRead, PAGE as u32, &region));
        assert_eq!(a.wait(ai).status, WcStatus::Success as u32);
        assert_eq!(a.extremes(ai, 0, PAGE as usize), (byte, byte));
    };
    // a peer that may map a region does so between two requests
    for _ in 0..20 {
        reads(7);
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    // another file takes the place of the first
    let (second, _other) = Pages::of_file(&[9; PAGE as usize]);
    let [from, to] =
        [second.0, pages.0].map(|at| std::ptr::with_exposed_provenance_mut(at as usize));
    let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
    // SAFETY: both are ours, and the first is used by peers alone, by its address.
    let moved = unsafe { libc::mremap(from, PAGE as usize, PAGE as usize, flags, to) };
    assert_eq!(moved, to);
    std::mem::forget(second);
    reads(9);
    mr.deregister().unwrap();
}

#[test]
fn a_reservation_of_64_gib_is_registered_and_takes_no_memory() {
    let pd = Context::open(0).unwrap().alloc_pd().unwrap();
    let reserved = Pages::new(64 << 18, WRITE);
    let mr = reserved.register(&pd, Access::LOCAL_WRITE).unwrap();
    assert!(!reserved.is_resident());
    mr.deregister().unwrap();
}

#[test]
fn a_refused_reregistration_leaves_the_region_as_it_was() {
    let ctx = Context::open(0).unwrap();
    let end = Endpoint::new(&ctx, Setup::default()).unwrap();
    let pd = &end.pd;
    let pages = Pages::new(2, READ);
    let mr = pages.register(pd, Access::REMOTE_READ).unwrap();
    let refused = |result: Result<(), Error>| {
        assert_eq!(result.unwrap_err().errno(), libc::EFAULT);
        assert_eq!(mr.extent(), (pages.0, pages.1));
    };
    let none = Pages::new(2, libc::PROT_NONE);
    refused(mr.reregister(None, Some((none.0, none.1)), None));
    refused(mr.reregister(None, Some((none.0, none.1)), Some(Access::LOCAL_WRITE)));
    refused(mr.reregister(None, None, Some(Access::LOCAL_WRITE)));
    // still readable by its key
    let sge = Sge {
        addr: pages.0,
        length: 8,
        lkey: mr.key(),
    };
    pd.check_range(&sge, false).unwrap();
    assert!(pd.check_range(&sge, true).is_err());
    // nothing that names the memory is asked for: the memory is not looked at
    let other = ctx.alloc_pd().unwrap();
    none.protect(READ);
    pages.protect(libc::PROT_NONE);
    mr.reregister(Some(other.domain()), None, None).unwrap();
    mr.reregister(Some(pd.domain()), None, Some(Access::ON_DEMAND))
        .unwrap();
    pages.protect(WRITE);
    mr.reregister(None, None, Some(Access::LOCAL_WRITE))
        .unwrap();
    pd.check_range(&sge, true).unwrap();
    mr.deregister().unwrap();
    other.dealloc().unwrap();
    end.close();
}
