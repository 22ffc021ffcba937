//! What a library keeps for its process, and what a forked child finds of it.
//!
//! fork copies one thread: a lock that another thread held stays locked in the child for good, and what it guarded may be half
//! changed. So a child never touches a lock, nor what a lock guards, that its parent may have held:
//!
//! * objects carry the [`generation`] in which they were made, and a call compares it before it does anything else;
//! * state of the whole process lies in a [`PerProcess`], which a child finds new;
//! * what is found out once and never changes lies in a [`Settled`], which needs no lock;
//! * the few tables that a child has to read lie in a [`Table`], whose lock is held over fork. While it is held no other lock is
//!   taken and nothing waits, so a fork cannot meet a circle of locks.
//!
//! Owns: the count of forks, and the registration of handlers. Must not know: whose state it is. Each library has its own copy.

mod cells;
mod table;

use std::sync::atomic::{AtomicU32, Ordering};

pub use cells::{PerProcess, Settled};
pub use table::Table;

/// Counts forks on the way from the process that loaded this library to this one.
static GENERATION: AtomicU32 = AtomicU32::new(0);

/// Changes in the child of a fork, and never else. What was made in another generation belongs to a process above this one.
#[inline(always)]
pub fn generation() -> u32 {
    GENERATION.load(Ordering::Relaxed)
}

extern "C" fn count() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
}

at_fork!(None, None, Some(count));

/// Writes a line to the program's stderr. The standard library's stderr has a lock, which another thread may have held at a fork,
/// and ends a thread by a panic where nothing can be written.
pub fn tell(line: std::fmt::Arguments<'_>) {
    let line = format!("{line}\n");
    // SAFETY: the line's bytes. A program without stderr is not told, and one whose stderr takes no
    // more goes on.
    ferriband_limit::without_signals(|| unsafe {
        libc::write(libc::STDERR_FILENO, line.as_ptr().cast(), line.len())
    });
}

/// A handler of fork; makes async-signal-safe calls only.
pub type Handler = Option<extern "C" fn()>;

/// Enters handlers of fork: before it, and after it in the parent and in the child. For [`at_fork`].
#[doc(hidden)]
pub fn register(before: Handler, in_parent: Handler, in_child: Handler) {
    let of = |handler: Handler| handler.map(|handler| handler as unsafe extern "C" fn());
    // SAFETY: the handlers are static functions of a library that is never unmapped. It fails without memory alone, while the
    // program is loaded: nobody is there yet who could be told.
    unsafe { libc::pthread_atfork(of(before), of(in_parent), of(in_child)) };
}

/// Has handlers called around each fork, from the moment on when the library is loaded: a thread that forks while another makes
/// its first call finds them, too.
#[macro_export]
macro_rules! at_fork {
    ($before:expr, $in_parent:expr, $in_child:expr) => {
        const _: () = {
            extern "C" fn register() {
                $crate::register($before, $in_parent, $in_child);
            }
            #[used]
            // SAFETY: the loader calls what lies in this section, with arguments that a C function may ignore.
            #[unsafe(link_section = ".init_array")]
            static AT_LOAD: extern "C" fn() = register;
        };
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    /// The exit status of a forked child that runs `body`; a child that hangs is ended, with None.
    fn in_child(body: impl FnOnce() -> i32) -> Option<i32> {
        // SAFETY: the child runs what a forked child of a program with threads may, and ends without returning.
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            // SAFETY: numbers only.
            unsafe { libc::alarm(10) };
            let status = body();
            // SAFETY: ends the child.
            unsafe { libc::_exit(status) };
        }
        let mut status = 0;
        // SAFETY: our own child.
        assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
        libc::WIFEXITED(status).then(|| libc::WEXITSTATUS(status))
    }

    #[test]
    fn a_child_has_another_generation_and_a_grandchild_too() {
        let before = generation();
        let status = in_child(|| {
            let here = generation().wrapping_sub(before) as i32;
            let below = in_child(|| generation().wrapping_sub(before) as i32).unwrap_or(99);
            here * 10 + below
        });
        assert_eq!(status, Some(12));
        assert_eq!(generation(), before, "nothing changes in the parent");
    }

    #[test]
    fn a_child_finds_new_what_another_thread_had_locked() {
        static VALUE: PerProcess<Mutex<u32>> = PerProcess::new(|| Mutex::new(7));
        let (held, release) = (
            std::sync::mpsc::channel::<()>(),
            std::sync::mpsc::channel::<()>(),
        );
        let holder = std::thread::spawn(move || {
            let mut value = VALUE.get().lock().expect("no panic");
            *value = 8;
            held.0.send(()).expect("the test waits");
            // until the test is over
            let _ = release.1.recv();
        });
        held.1.recv().expect("the thread runs");
        let status = in_child(|| *VALUE.get().lock().expect("no panic") as i32);
        assert_eq!(status, Some(7));
        drop(release.0);
        holder.join().expect("no panic");
        assert_eq!(
            *VALUE.get().lock().expect("no panic"),
            8,
            "the parent's stays"
        );
    }

    #[test]
    fn a_child_keeps_what_is_settled_and_settles_what_another_thread_was_at() {
        static DONE: Settled<u32> = Settled::new();
        static BEGUN: Settled<u32> = Settled::new();
        let address = std::ptr::from_ref(DONE.get_or_init(|| 5)) as usize;
        let (begun, release) = (
            std::sync::mpsc::channel::<()>(),
            std::sync::mpsc::channel::<()>(),
        );
        let slow = std::thread::spawn(move || {
            *BEGUN.get_or_init(|| {
                begun.0.send(()).expect("the test waits");
                let _ = release.1.recv();
                1
            })
        });
        begun.1.recv().expect("the thread runs");
        let status = in_child(|| {
            let same = std::ptr::from_ref(DONE.get_or_init(|| 6)) as usize == address;
            i32::from(same) * 10 + *BEGUN.get_or_init(|| 2) as i32
        });
        assert_eq!(status, Some(12));
        drop(release.0);
        assert_eq!(slow.join().expect("no panic"), 1);
        assert_eq!(*BEGUN.get_or_init(|| 3), 1, "the first answer stands");
    }

    #[test]
    fn a_table_is_whole_and_free_in_children_of_busy_threads() {
        static TABLE: Table<Vec<u64>> = Table::new(Vec::new());
        extern "C" fn before() {
            TABLE.hold();
        }
        extern "C" fn after() {
            TABLE.release(|_| {});
        }
        extern "C" fn in_child_of_it() {
            TABLE.release(|table| table.push(0));
        }
        register(Some(before), Some(after), Some(in_child_of_it));
        static STOP: AtomicU32 = AtomicU32::new(0);
        let busy: Vec<_> = (1..4)
            .map(|number| {
                std::thread::spawn(move || {
                    while STOP.load(Ordering::Relaxed) == 0 {
                        let mut table = TABLE.lock();
                        // each change is of two steps that belong together
                        table.push(number);
                        table.push(number);
                        if table.len() > 1000 {
                            table.clear();
                        }
                    }
                })
            })
            .collect();
        for _ in 0..50 {
            let status = in_child(|| {
                let table = TABLE.lock();
                i32::from(table.len() % 2 == 1 && table.last() == Some(&0))
            });
            assert_eq!(
                status,
                Some(1),
                "the pairs are whole, with the child's own entry"
            );
        }
        STOP.store(1, Ordering::Relaxed);
        busy.into_iter()
            .for_each(|thread| thread.join().expect("no panic"));
    }
}
