//! Counting of delivered and acknowledged events.
//!
//! A program that was handed an event holds the address of an object. Destroying that object waits until each such
//! event was acknowledged (`ibv_ack_cq_events`, `ibv_ack_async_event`), so that no thread is left with a dangling
//! address between its get and its ack.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Events of one kind about one object.
#[derive(Default)]
pub struct Acks {
    count: Mutex<Count>,
    changed: Condvar,
}

#[derive(Default)]
struct Count {
    outstanding: u64,
    /// Threads that wait for the last acknowledgement: to wake nobody is a system call, too.
    waiters: u32,
}

impl Acks {
    fn lock(&self) -> MutexGuard<'_, Count> {
        // The count stays right even if a holder panicked: each update is a single store.
        self.count.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An event is handed to the program.
    pub fn delivered(&self) {
        self.lock().outstanding += 1;
    }

    /// The program acknowledges `count` events. More than were delivered is the program's mistake and
    /// must not make a later event count as acknowledged: the surplus is dropped.
    pub fn acknowledged(&self, count: u32) {
        let mut now = self.lock();
        now.outstanding = now.outstanding.saturating_sub(count.into());
        if now.outstanding == 0 && now.waiters > 0 {
            self.changed.notify_all();
        }
    }

    /// Waits until every delivered event is acknowledged.
    pub fn wait(&self) {
        let mut now = self.lock();
        while now.outstanding > 0 {
            now.waiters += 1;
            now = self
                .changed
                .wait(now)
                .unwrap_or_else(PoisonError::into_inner);
            now.waiters -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;

    #[test]
    fn waiting_ends_with_the_last_acknowledgement() {
        let acks = Arc::new(Acks::default());
        let done = Arc::new(AtomicBool::new(false));
        acks.delivered();
        acks.delivered();
        let waiter = std::thread::spawn({
            let (acks, done) = (Arc::clone(&acks), Arc::clone(&done));
            move || {
                acks.wait();
                done.store(true, Ordering::SeqCst);
            }
        });
        acks.acknowledged(1);
        std::thread::sleep(Duration::from_millis(20));
        assert!(
            !done.load(Ordering::SeqCst),
            "one event is still outstanding"
        );
        acks.acknowledged(1);
        waiter.join().expect("the waiter ends");
        assert!(done.load(Ordering::SeqCst));
    }

    #[test]
    fn surplus_acknowledgements_do_not_excuse_later_events() {
        let acks = Acks::default();
        acks.acknowledged(5);
        acks.delivered();
        assert_eq!(acks.lock().outstanding, 1);
        acks.acknowledged(1);
        acks.wait();
    }
}
