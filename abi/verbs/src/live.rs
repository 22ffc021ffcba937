//! Which objects events may name.
//!
//! The adapter remembers a number for each queue and hands it back with an event. Numbers are never used twice, so an
//! event that was raised just before its queue was destroyed finds no entry and is dropped, and the
//! program is never handed the address of a freed object.

use ferriband_fork::PerProcess;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

#[derive(Default)]
struct Registry {
    last: usize,
    objects: HashMap<usize, usize>,
}

static REGISTRY: PerProcess<Mutex<Registry>> = PerProcess::new(Mutex::default);

fn lock() -> MutexGuard<'static, Registry> {
    // Each update is one map operation: a panic elsewhere leaves the map whole.
    REGISTRY
        .get()
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
}

/// A number that was never given before, and never 0.
pub fn number() -> usize {
    let mut registry = lock();
    registry.last += 1;
    registry.last
}

/// Enters the object that bears `number` by its C address: events about it are delivered from now on.
pub fn enter<C>(number: usize, object: *mut C) {
    lock().objects.insert(number, object as usize);
}

/// Removes an object: from now on no event about it reaches the program.
pub fn leave(number: usize) {
    lock().objects.remove(&number);
}

/// Runs `deliver` on the C address of an object while it cannot leave; None if it has left.
pub fn with<C, R>(number: usize, deliver: impl FnOnce(*mut C) -> R) -> Option<R> {
    let registry = lock();
    registry
        .objects
        .get(&number)
        .map(|address| deliver(*address as *mut C))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_not_reused_and_the_departed_are_not_found() {
        let mut object = 7u32;
        let first = number();
        enter(first, &raw mut object);
        assert_eq!(
            with(first, |pointer: *mut u32| pointer == &raw mut object),
            Some(true)
        );
        leave(first);
        assert_eq!(with(first, |_: *mut u32| ()), None);
        assert_ne!(first, number());
    }
}
