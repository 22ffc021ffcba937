use super::*;
use crate::table::{self, Table};
use crate::testing::{Fork, alone, child, join, kill, sleep_for_ever, soon};
use std::os::fd::{BorrowedFd, OwnedFd};

fn file() -> OwnedFd {
    ferriband_host::segment::create(c"test", PAGE as u64).expect("memory")
}

fn opened_anew(file: &OwnedFd) -> OwnedFd {
    let name = format!("/proc/self/fd/{}", file.as_raw_fd());
    rustix::fs::open(name, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()).expect("/proc")
}

/// A word that children write and their parents read.
fn said() -> Pages {
    Pages::reserve(PAGE, Seen::ByChildren).expect("memory")
}

fn say(said: &Pages, at: usize) {
    said.word(at * 8).store(table::thread(), Ordering::SeqCst);
}

fn heard(said: &Pages, at: usize) -> u64 {
    soon(|| said.word(at * 8).load(Ordering::SeqCst) != 0);
    said.word(at * 8).load(Ordering::SeqCst)
}

#[test]
fn a_process_lock_ends_with_any_close() {
    let _alone = alone();
    let file = file();
    let other = opened_anew(&file);
    let locked = || raw::byte_is_locked(other.as_fd(), 3);
    assert_eq!(locked(), Ok(false));
    raw::byte_lock(file.as_fd(), libc::F_SETLK, 3).expect("locked");
    assert_eq!(locked(), Ok(true));
    drop(opened_anew(&file));
    assert_eq!(locked(), Ok(false), "why F_SETLK is not used");
}

#[test]
fn a_descriptor_s_lock_lives_on_in_a_child() {
    let _alone = alone();
    let file = file();
    let own = opened_anew(&file);
    raw::lock_byte(own.as_fd(), 3).expect("locked");
    let sleeper = child(Fork::Bare, sleep_for_ever);
    drop(own);
    let locked = || raw::byte_is_locked(file.as_fd(), 3) == Ok(true);
    assert!(locked(), "why the descriptor is closed");
    kill(sleeper);
    soon(|| !locked());
}

#[test]
fn a_number_ends_with_its_process_and_not_with_its_children() {
    let _alone = alone();
    Table::get().expect("memory");
    let said = said();
    let parent = child(Fork::Called, || {
        say(&said, 0);
        let _ = child(Fork::Bare, || {
            say(&said, 1);
            sleep_for_ever();
        });
        sleep_for_ever();
    });
    let (first, second) = (heard(&said, 0), heard(&said, 1));
    assert_ne!(first >> 32, second >> 32);
    assert_ne!(first >> 32, table::thread() >> 32);
    assert!(thread_lives(first) && thread_lives(second) && thread_lives(table::thread()));
    let family = Family::get().expect("made");
    let entry = family.entry(place((second >> 32) as u32));
    let grandchild = entry.pid.load(Ordering::SeqCst).cast_signed();
    assert!(
        family
            .living()
            .any(|(pid, _)| pid == grandchild.cast_unsigned())
    );
    kill(parent);
    soon(|| !thread_lives(first));
    assert!(thread_lives(second));
    // SAFETY: the process that was made above, which lives.
    assert_eq!(unsafe { libc::kill(grandchild, libc::SIGKILL) }, 0);
    soon(|| !thread_lives(second));
}

#[test]
fn a_number_ends_with_exec() {
    let _alone = alone();
    Table::get().expect("memory");
    let said = said();
    let sleeper = child(Fork::Called, || {
        say(&said, 0);
        let arguments = [c"sleep".as_ptr(), c"100".as_ptr(), ptr::null()];
        // SAFETY: a list of texts with its end.
        unsafe { libc::execv(c"/bin/sleep".as_ptr(), arguments.as_ptr()) };
    });
    let thread = heard(&said, 0);
    soon(|| !thread_lives(thread));
    // SAFETY: a child that was not waited for.
    assert_eq!(unsafe { libc::kill(sleeper, 0) }, 0);
    kill(sleeper);
}

#[test]
fn a_number_survives_whoever_closes_all() {
    let _alone = alone();
    Table::get().expect("memory");
    let said = said();
    let closer = child(Fork::Called, || {
        say(&said, 0);
        let arguments = [3, i32::MAX as isize, 0, 0, 0, 0];
        // SAFETY: this process does nothing more with descriptors.
        unsafe { raw::system_call(libc::SYS_close_range, arguments) }.expect("closed");
        say(&said, 1);
        sleep_for_ever();
    });
    let (before, after) = (heard(&said, 0), heard(&said, 1));
    assert_eq!(before, after);
    assert!(thread_lives(before));
    kill(closer);
    soon(|| !thread_lives(before));
}

#[test]
fn a_number_holds_in_another_namespace_of_processes() {
    let _alone = alone();
    Table::get().expect("memory");
    let said = said();
    let starter = child(Fork::Called, || {
        let spaces = (libc::CLONE_NEWUSER | libc::CLONE_NEWPID) as isize;
        // SAFETY: this process has one thread.
        let apart = unsafe { raw::system_call(libc::SYS_unshare, [spaces, 0, 0, 0, 0, 0]) };
        if apart.is_err() {
            said.word(0).store(u64::MAX, Ordering::SeqCst);
            return;
        }
        let inside = child(Fork::Called, || {
            say(&said, 0);
            soon(|| said.word(8).load(Ordering::SeqCst) != 0);
        });
        join(inside);
    });
    let thread = heard(&said, 0);
    if thread == u64::MAX {
        eprintln!("this machine does not allow namespaces of one's own");
        join(starter);
        return;
    }
    let family = Family::get().expect("made");
    let entry = family.entry(place((thread >> 32) as u32));
    assert_eq!(entry.pid.load(Ordering::SeqCst), 1);
    assert!(thread_lives(thread));
    said.word(8).store(1, Ordering::SeqCst);
    join(starter);
    soon(|| !thread_lives(thread));
}

#[test]
fn threads_differ_and_a_child_of_any_kind_is_another() {
    let _alone = alone();
    Table::get().expect("memory");
    let mine = table::thread();
    assert_eq!(mine, table::thread());
    let other = std::thread::spawn(table::thread).join().expect("told");
    assert_eq!(mine >> 32, other >> 32);
    assert_ne!(mine, other);
    for how in [Fork::Called, Fork::Bare] {
        join(child(how, || {
            let child = table::thread();
            assert_ne!(child >> 32, mine >> 32);
            assert_eq!(child, table::thread());
            assert!(child & 0xffff_ffff < 1 << 31 && child & 0xffff_ffff > 0);
            assert!(thread_lives(child) && thread_lives(mine));
        }));
    }
}

#[test]
fn a_place_that_is_taken_again_is_not_its_old_holder() {
    let _alone = alone();
    let family = Family::get().expect("memory");
    let first = family.reserve().expect("a place");
    assert!(family.lives(first.holder));
    Family::give_up(first);
    soon(|| !family.lives(first.holder));
    // until the place is taken again, by this thread or by another test's
    let mut held = Vec::new();
    while family
        .entry(place(first.holder))
        .holder
        .load(Ordering::SeqCst)
        == first.holder
    {
        held.push(family.reserve().expect("a place"));
    }
    assert!(!family.lives(first.holder));
    for one in held {
        Family::give_up(one);
    }
    assert!(family.lives(NAMELESS), "nobody can tell");
    // SAFETY: a number that is no descriptor.
    let none = unsafe { BorrowedFd::borrow_raw(i32::MAX) };
    assert_eq!(raw::byte_is_locked(none, 0), Err(Errno::BADF));
}
