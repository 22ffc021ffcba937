//! Transfers with real processes: both ways, every fault, the order of bytes.

use super::*;
use crate::alive::AliveWord;
use crate::test_order::{AREA_BYTES, Sender, run_receiver};
use crate::test_process::{Child, eventually, rounds};
use crate::{Access, Segment};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Words of the segment beyond those of the order test.
const ADDR: usize = 256;
const READY: usize = 264;
const GO: usize = 272;
const PROBE: usize = 280;
const ALIVE: usize = 512;
const MAGIC: u64 = 0x5eed_0fca_5cad_e000;
const AREA: usize = AREA_BYTES + 3 * 4096;

/// What the children of these tests do: offer private memory and say where. See [`crate::test_process`].
pub(crate) fn child(role: &str, segment: Segment) {
    let segment = Arc::new(segment);
    let held = segment.clone();
    std::thread::spawn(move || {
        let _word = AliveWord::hold(&held, ALIVE).unwrap();
        loop {
            std::thread::sleep(std::time::Duration::from_secs(1));
        }
    });
    eventually("the word", || AliveWord::is_alive(&segment, ALIVE));
    // The area, private, and after it a page that is not mapped.
    let area =
        std::mem::ManuallyDrop::new(Segment::private(AREA.next_multiple_of(4096) + 4096).unwrap());
    let end = area.base_addr() as usize + AREA.next_multiple_of(4096);
    // SAFETY: unmaps the last page of our own mapping, which nobody touches.
    unsafe { rustix::mm::munmap(std::ptr::with_exposed_provenance_mut(end), 4096) }.unwrap();
    let probe = Box::leak(Box::new(MAGIC));
    segment.store(
        PROBE,
        std::ptr::from_ref(probe).expose_provenance() as u64,
        Ordering::Relaxed,
    );
    segment.store(ADDR, area.base_addr(), Ordering::Relaxed);
    if role == "remote-secret" {
        // SAFETY: changes only who may look at this process.
        unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 0) };
    }
    segment.store(READY, 1, Ordering::Release);
    if role == "remote-poll" {
        return run_receiver(&segment, area.base_addr() as usize);
    }
    eventually("go", || segment.load(GO, Ordering::Acquire) != 0);
    if role == "remote-exec" {
        use std::os::unix::process::CommandExt;
        panic!("{}", std::process::Command::new("sleep").arg("60").exec());
    }
}

struct Target {
    segment: Segment,
    child: Child,
    remote: RemoteProcess,
    addr: u64,
}

fn target(role: &str, segment: Segment) -> Target {
    let child = Child::spawn(role, &segment);
    eventually("the target", || segment.load(READY, Ordering::Acquire) == 1);
    // SAFETY: these tests hand in ranges of their own buffers, which they do not borrow meanwhile.
    let memory = unsafe { AppMemory::assume_registered() };
    let start = start_time(child.pid()).unwrap();
    let remote = RemoteProcess::open(child.pid(), start, memory).unwrap();
    let addr = segment.load(ADDR, Ordering::Relaxed);
    Target {
        segment,
        child,
        remote,
        addr,
    }
}

impl Target {
    fn new(role: &str) -> Target {
        target(role, Segment::create("remote-test", 4096).unwrap())
    }

    fn alive(&self) -> bool {
        AliveWord::is_alive(&self.segment, ALIVE)
    }

    fn write(&self, list: &[Sge], skip: u64, off: u64, len: usize) -> Result<(), RemoteFault> {
        self.remote
            .write(list, skip, self.addr + off, len, || self.alive())
    }

    fn read(&self, list: &[Sge], skip: u64, off: u64, len: usize) -> Result<(), RemoteFault> {
        self.remote
            .read(list, skip, self.addr + off, len, || self.alive())
    }

    /// Both ways, the pinned one only, the bulk one only.
    fn restrict(&mut self, pinned: bool, bulk: bool) {
        if !pinned {
            self.remote.mem = None;
        }
        self.remote.bulk = bulk;
    }
}

fn cut(segment: &Segment, off: usize, lengths: &[u32]) -> Vec<Sge> {
    let mut addr = segment.base_addr() + off as u64;
    let piece = |&length: &u32| {
        let sge = Sge {
            addr,
            length,
            lkey: 0,
        };
        addr += u64::from(length);
        sge
    };
    lengths.iter().map(piece).collect()
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 13 + i / 256) as u8).collect()
}

#[test]
fn lists_arrive_and_return_on_each_way() {
    for (pinned, bulk) in [(true, true), (true, false), (false, true)] {
        let mut t = Target::new("remote-serve");
        t.restrict(pinned, bulk);
        let ours = Segment::private(1 << 17).unwrap();
        let bytes = pattern(70_000);
        ours.copy_in(0, &bytes);
        let fragments: Vec<u32> = (0..60).map(|i| i * 7 % 40).collect();
        let lists: [(&[u32], u64, &[usize]); 4] = [
            (&[70_000], 5, &[1, 8, 9, 100, 2048, 2049, 4096, 65536]),
            (&[3, 0, 5, 60_000], 1, &[2, 7, 8, 3000, 50_000]),
            (&fragments, 11, &[500, 1000]),
            (&[1, 1, 1, 1, 1, 1, 1, 1, 1], 0, &[9]),
        ];
        for (lengths, skip, sizes) in lists {
            let list = cut(&ours, 0, lengths);
            for &len in sizes {
                for off in [0, 3, 4090] {
                    t.write(&list, skip, off, len).unwrap();
                    let back = Segment::private(1 << 17).unwrap();
                    t.read(&cut(&back, 0, lengths), skip, off, len).unwrap();
                    let mut got = vec![0; len];
                    back.copy_out(skip as usize, &mut got);
                    assert_eq!(
                        got,
                        bytes[skip as usize..skip as usize + len],
                        "{len} at {off}"
                    );
                }
            }
        }
        assert_eq!(
            t.write(&cut(&ours, 0, &[8]), 0, 0, 9),
            Err(RemoteFault::LocalUnmapped)
        );
        t.write(&[], 0, 0, 0).unwrap();
    }
}

#[test]
fn faults_name_the_side_and_the_byte() {
    for (pinned, bulk) in [(true, false), (false, true)] {
        let mut t = Target::new("remote-serve");
        t.restrict(pinned, bulk);
        let ours = Segment::private(3 * 4096).unwrap();
        let end = AREA.next_multiple_of(4096) as u64;
        let list = cut(&ours, 0, &[8192]);
        let cut_short = Err(RemoteFault::Unmapped { offset: 4096 });
        assert_eq!(t.write(&list, 0, end - 4096, 8192), cut_short);
        assert_eq!(t.read(&list, 0, end - 4096, 8192), cut_short);
        let none = Err(RemoteFault::Unmapped { offset: 0 });
        assert_eq!(t.write(&list, 0, end, 8), none);
        assert_eq!(t.read(&list, 0, end, 8), none);
        assert_eq!(t.write(&list, 0, u64::MAX - t.addr - 100, 8), none);
        let hole = [Sge {
            addr: 4096,
            length: 64,
            lkey: 0,
        }];
        assert_eq!(t.write(&hole, 0, 0, 64), Err(RemoteFault::LocalUnmapped));
        assert_eq!(t.read(&hole, 0, 0, 64), Err(RemoteFault::LocalUnmapped));
    }
}

#[test]
fn dead_and_exec_ed_targets_are_gone_on_each_way() {
    for role in ["remote-serve", "remote-exec"] {
        for (pinned, bulk) in [(true, true), (true, false), (false, true)] {
            let mut t = Target::new(role);
            t.restrict(pinned, bulk);
            let ours = Segment::private(8192).unwrap();
            let list = cut(&ours, 0, &[8192]);
            t.write(&list, 0, 0, 8192).unwrap();
            if role == "remote-exec" {
                t.segment.store(GO, 1, Ordering::Release);
                let pid = t.child.pid();
                let comm = || std::fs::read(format!("/proc/{pid}/comm")).unwrap_or_default();
                eventually("exec", || comm() == b"sleep\n");
                assert!(t.child.is_running());
            } else {
                t.child.kill();
            }
            for len in [8, 2048, 8192] {
                assert_eq!(
                    t.write(&list, 0, 0, len),
                    Err(RemoteFault::Gone),
                    "{role} {len}"
                );
                assert_eq!(
                    t.read(&list, 0, 0, len),
                    Err(RemoteFault::Gone),
                    "{role} {len}"
                );
            }
        }
    }
}

#[test]
fn identity_is_checked_at_open() {
    let t = Target::new("remote-serve");
    // SAFETY: no transfer follows.
    let memory = unsafe { AppMemory::assume_registered() };
    let (pid, start) = (t.child.pid(), start_time(t.child.pid()).unwrap());
    let refused = RemoteProcess::open(pid, start + 1, memory).unwrap_err();
    assert_eq!(refused, Error::NoSuchProcess { pid });
    drop(t);
    assert_eq!(
        RemoteProcess::open(pid, start, memory).unwrap_err().errno(),
        libc::ESRCH
    );
}

#[test]
fn probe_finds_both_ways_open_and_a_wrong_word_closes_them() {
    let mut t = Target::new("remote-serve");
    let word = t.segment.load(PROBE, Ordering::Relaxed);
    assert_eq!(
        t.remote.probe(word, MAGIC),
        Permitted {
            pinned: true,
            bulk: true
        }
    );
    let closed = t.remote.probe(word, MAGIC + 1);
    assert!(!closed.any());
    let ours = Segment::private(8).unwrap();
    let refused = Err(RemoteFault::Forbidden(libc::EPERM));
    assert_eq!(t.write(&cut(&ours, 0, &[8]), 0, 0, 8), refused);
}

#[test]
fn process_that_is_not_dumpable_is_closed_to_ordinary_users() {
    // Root may look into any process; a forked child that gave root away stands for the ordinary user.
    let t = Target::new("remote-secret");
    let (pid, start) = (t.child.pid(), start_time(t.child.pid()).unwrap());
    let (word, verdict) = (t.segment.load(PROBE, Ordering::Relaxed), EventPipe::new());
    // SAFETY: the child makes plain system calls and exits without unwinding.
    let forked = unsafe { libc::fork() };
    if forked == 0 {
        // SAFETY: drops rights of this child only. (As an ordinary user it changes nothing.)
        unsafe { libc::syscall(libc::SYS_setresuid, 65534, 65534, 65534) };
        // SAFETY: one word of the stack is all that is handed in.
        let memory = unsafe { AppMemory::assume_registered() };
        let open = RemoteProcess::open(pid, start, memory);
        let any = open.map(|mut r| r.probe(word, MAGIC).any());
        verdict.put(if any == Ok(false) { b'c' } else { b'o' });
        // SAFETY: ends the forked child.
        unsafe { libc::_exit(0) };
    }
    assert_eq!(verdict.get(), b'c');
    // SAFETY: reaps the child forked above.
    unsafe { libc::waitpid(forked, std::ptr::null_mut(), 0) };
}

/// One byte from a forked child.
struct EventPipe(OwnedFd, OwnedFd);

impl EventPipe {
    fn new() -> EventPipe {
        let (read, write) = std::io::pipe().unwrap();
        EventPipe(read.into(), write.into())
    }

    fn put(&self, byte: u8) {
        rustix::io::write(&self.1, &[byte]).unwrap();
    }

    fn get(&self) -> u8 {
        let mut byte = [0];
        rustix::io::read(&self.0, &mut byte).unwrap();
        byte[0]
    }
}

#[test]
fn last_byte_is_visible_last_in_the_target() {
    for (pinned, bulk) in [(true, true), (false, true), (true, false)] {
        let segment = Segment::create("remote-order", 4096).unwrap();
        let fd = segment.fd().unwrap().try_clone_to_owned().unwrap();
        let control = Segment::from_fd(fd, 4096, Access::ReadWrite).unwrap();
        let mut sender = Sender::new_large(&control, rounds(100_000));
        let mut t = target("remote-poll", segment);
        t.restrict(pinned, bulk);
        while let Some((off, len, bytes)) = sender.next() {
            let addr = bytes.as_ptr().expose_provenance() as u64;
            let list = [Sge {
                addr,
                length: len as u32,
                lkey: 0,
            }];
            t.write(&list, 0, off as u64, len).unwrap();
        }
        assert_eq!(
            sender.finish(),
            0,
            "torn buffers (pinned {pinned}, bulk {bulk})"
        );
    }
}
