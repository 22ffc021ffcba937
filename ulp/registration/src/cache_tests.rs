use super::*;
use std::cell::Cell;
use std::rc::Rc;

const PAGE: u64 = 4096;

/// Registers by counting: what is kept says how many there were before, and lives while it is used.
struct Registrar {
    made: Cell<u32>,
    refuses_writing: Cell<bool>,
}

impl Registrar {
    fn new() -> Self {
        Self {
            made: Cell::new(0),
            refuses_writing: Cell::new(false),
        }
    }

    fn register(&self, rights: Rights) -> Result<Rc<u32>, ()> {
        if rights == Rights::Write && self.refuses_writing.get() {
            return Err(());
        }
        self.made.set(self.made.get() + 1);
        Ok(Rc::new(self.made.get()))
    }
}

/// Memory where the kernel maps nothing of its own accord, so that no other test's falls into what is unmapped here.
struct Aside(u64, u64);

impl Aside {
    fn new(at: u64, pages: u64) -> Self {
        Self::map(at, pages * PAGE, libc::MAP_FIXED_NOREPLACE);
        Self(at, pages * PAGE)
    }

    fn map(at: u64, length: u64, flag: libc::c_int) {
        let start = std::ptr::with_exposed_provenance_mut(at as usize);
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | flag;
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping at a place of the test's own.
        let got = unsafe { libc::mmap(start, length as usize, rights, flags, -1, 0) };
        assert_eq!(got.addr() as u64, at);
    }

    fn unmap(&self, at: u64, length: u64) {
        // SAFETY: memory of the test's own, that nobody refers to.
        let done = unsafe {
            libc::munmap(
                std::ptr::with_exposed_provenance_mut(at as usize),
                length as usize,
            )
        };
        assert_eq!(done, 0);
    }
}

impl Drop for Aside {
    fn drop(&mut self) {
        self.unmap(self.0, self.1);
    }
}

/// None where the kernel lets nobody watch memory (containers): there is nothing to be tested then.
fn cache(limit: u64) -> Option<Cache<Rc<u32>>> {
    match Cache::new(limit) {
        Ok(cache) => Some(cache),
        Err(error) => {
            eprintln!("SKIP: userfaultfd: {error}");
            None
        }
    }
}

#[test]
fn one_registration_serves_what_lies_in_it() {
    let Some(mut cache) = cache(1 << 20) else {
        return;
    };
    let (memory, registrar) = (Aside::new(0x31_0000_0000, 16), Registrar::new());
    let mut find = |start: u64, length: u64, rights| {
        cache
            .find((memory.0 + start, length), rights, |_, _, rights| {
                registrar.register(rights)
            })
            .map(|kept| *kept)
    };
    assert_eq!(find(100, 5000, Rights::Read), Some(1));
    assert_eq!(
        find(0, 2 * PAGE, Rights::Write),
        Some(1),
        "whole pages, and for writing"
    );
    assert_eq!(find(4 * PAGE, 1, Rights::Read), Some(2), "apart");
    assert_eq!(
        find(PAGE, 3 * PAGE + 1, Rights::Read),
        Some(3),
        "joins both"
    );
    assert_eq!(find(0, 5 * PAGE, Rights::Write), Some(3));
    assert_eq!(
        find(8 * PAGE, 300 * PAGE, Rights::Read),
        None,
        "too long to be kept"
    );
    registrar.refuses_writing.set(true);
    assert_eq!(find(8 * PAGE, PAGE, Rights::Read), Some(4));
    assert_eq!(find(8 * PAGE, PAGE, Rights::Read), Some(4));
    assert_eq!(
        find(8 * PAGE, PAGE, Rights::Write),
        None,
        "constants are not written"
    );
}

#[test]
fn the_one_not_used_for_longest_makes_room() {
    let Some(mut cache) = cache(2 * PAGE) else {
        return;
    };
    let (memory, registrar) = (Aside::new(0x32_0000_0000, 16), Registrar::new());
    let mut find = |page: u64| {
        cache
            .find((memory.0 + page * PAGE, 8), Rights::Read, |_, _, rights| {
                registrar.register(rights)
            })
            .map(|kept| *kept)
    };
    assert_eq!((find(0), find(2), find(0)), (Some(1), Some(2), Some(1)));
    assert_eq!(find(4), Some(3));
    assert_eq!((find(0), find(2)), (Some(1), Some(4)));
}

/// Whatever is done to a range, its registration is not found again.
#[test]
fn memory_that_has_changed_is_registered_anew() {
    let Some(mut cache) = cache(1 << 20) else {
        return;
    };
    let (memory, registrar) = (Aside::new(0x33_0000_0000, 64), Registrar::new());
    let at = memory.0 + 8 * PAGE;
    let pointer = |at: u64| std::ptr::with_exposed_provenance_mut::<libc::c_void>(at as usize);
    let aside = memory.0 + 32 * PAGE;
    let length = 4 * PAGE as usize;
    for round in 0..300_u32 {
        let mut find = || {
            cache
                .find((at, 4 * PAGE), Rights::Read, |_, _, rights| {
                    registrar.register(rights)
                })
                .map(|kept| *kept)
        };
        let before = find();
        assert_eq!(find(), before, "nothing has happened");
        // SAFETY: memory of the test's own, that nobody refers to.
        unsafe {
            match round % 6 {
                0 => {
                    memory.unmap(at, 4 * PAGE);
                    Aside::map(at, 4 * PAGE, libc::MAP_FIXED_NOREPLACE);
                }
                1 => Aside::map(at, PAGE, libc::MAP_FIXED),
                2 => assert_eq!(
                    libc::madvise(pointer(at + PAGE), 4096, libc::MADV_DONTNEED),
                    0
                ),
                3 => {
                    let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
                    let moved = libc::mremap(pointer(at), length, length, flags, pointer(aside));
                    assert_eq!(moved, pointer(aside));
                    Aside::map(at, 4 * PAGE, libc::MAP_FIXED_NOREPLACE);
                }
                4 => {
                    // Another mapping is moved onto it.
                    Aside::map(aside, 4 * PAGE, libc::MAP_FIXED);
                    let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
                    let moved = libc::mremap(pointer(aside), length, length, flags, pointer(at));
                    assert_eq!(moved, pointer(at));
                    Aside::map(aside, 4 * PAGE, libc::MAP_FIXED_NOREPLACE);
                }
                _ => {
                    // Another thread does it, and says so.
                    let unmapped = std::thread::scope(|scope| {
                        scope
                            .spawn(|| memory.unmap(at + 3 * PAGE, PAGE))
                            .join()
                            .is_ok()
                    });
                    assert!(unmapped);
                    Aside::map(at + 3 * PAGE, PAGE, libc::MAP_FIXED_NOREPLACE);
                }
            }
        }
        assert_ne!(find(), before, "round {round}");
    }
    assert_eq!(cache.counts.stale, 300);
}

/// What is next to a range is of no interest, and a mapping stays one mapping: it can be moved whole.
#[test]
fn a_neighbour_may_come_and_go() {
    let Some(mut cache) = cache(1 << 20) else {
        return;
    };
    let (memory, registrar) = (Aside::new(0x34_0000_0000, 16), Registrar::new());
    let mut find = || {
        cache
            .find((memory.0 + 4 * PAGE, PAGE), Rights::Read, |_, _, rights| {
                registrar.register(rights)
            })
            .map(|kept| *kept)
    };
    assert_eq!(find(), Some(1));
    memory.unmap(memory.0 + 5 * PAGE, PAGE);
    Aside::map(memory.0 + 5 * PAGE, PAGE, libc::MAP_FIXED_NOREPLACE);
    memory.unmap(memory.0 + 3 * PAGE, PAGE);
    Aside::map(memory.0 + 3 * PAGE, PAGE, libc::MAP_FIXED_NOREPLACE);
    assert_eq!(find(), Some(1));
    let other = Aside::new(0x35_0000_0000, 16);
    let registered = cache.find((other.0 + PAGE, PAGE), Rights::Read, |_, _, rights| {
        registrar.register(rights)
    });
    assert!(registered.is_some());
    let pointer = |at: u64| std::ptr::with_exposed_provenance_mut::<libc::c_void>(at as usize);
    let to = 0x36_0000_0000_u64;
    // SAFETY: memory of the test's own, that nobody refers to; it goes to where nothing is, and back.
    unsafe {
        let length = 16 * PAGE as usize;
        let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
        assert_eq!(
            libc::mremap(pointer(other.0), length, length, flags, pointer(to)),
            pointer(to)
        );
        assert_eq!(
            libc::mremap(pointer(to), length, length, flags, pointer(other.0)),
            pointer(other.0)
        );
    }
}

/// What is in use when it leaves the cache lives on.
#[test]
fn who_uses_a_registration_keeps_it() {
    let Some(mut cache) = cache(PAGE) else {
        return;
    };
    let (memory, registrar) = (Aside::new(0x37_0000_0000, 4), Registrar::new());
    let mut find = |page: u64| {
        cache.find((memory.0 + page * PAGE, 8), Rights::Read, |_, _, rights| {
            registrar.register(rights)
        })
    };
    let used = find(0).expect("registered");
    let other = find(1).expect("registered");
    assert_eq!((Rc::strong_count(&used), Rc::strong_count(&other)), (1, 2));
}
