//! Handles: the numbers under which objects of a context can be imported by another context of the same process.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Objects of one kind by handle, from 1.
pub struct Handles<T> {
    table: Mutex<Table<T>>,
}

struct Table<T> {
    last: u32,
    entries: HashMap<u32, Arc<T>>,
}

impl<T> Default for Handles<T> {
    fn default() -> Self {
        Handles {
            table: Mutex::new(Table {
                last: 0,
                entries: HashMap::new(),
            }),
        }
    }
}

impl<T> Handles<T> {
    fn lock(&self) -> MutexGuard<'_, Table<T>> {
        // Each update is one map operation: a panic elsewhere leaves the table whole.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Enters an object and returns its handle. Handles come round after 2^32 objects; those in use are skipped.
    pub fn add(&self, object: Arc<T>) -> u32 {
        let mut table = self.lock();
        loop {
            table.last = table.last.wrapping_add(1);
            let handle = table.last;
            if handle != 0 && !table.entries.contains_key(&handle) {
                table.entries.insert(handle, object);
                return handle;
            }
        }
    }

    /// The object of a handle.
    pub fn get(&self, handle: u32) -> Option<Arc<T>> {
        self.lock().entries.get(&handle).cloned()
    }

    /// Forgets a handle.
    pub fn remove(&self, handle: u32) {
        self.lock().entries.remove(&handle);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles_name_their_object_until_removed() {
        let handles = Handles::default();
        let (first, second) = (handles.add(Arc::new("a")), handles.add(Arc::new("b")));
        assert_ne!(first, second);
        assert_eq!(handles.get(first).as_deref(), Some(&"a"));
        handles.remove(first);
        assert!(handles.get(first).is_none());
        assert_eq!(handles.get(second).as_deref(), Some(&"b"));
    }

    #[test]
    fn handles_in_use_are_skipped_after_wrapping() {
        let handles = Handles::default();
        let first = handles.add(Arc::new(0));
        handles.lock().last = u32::MAX - 1;
        let next = [handles.add(Arc::new(1)), handles.add(Arc::new(2))];
        assert_eq!(next, [u32::MAX, 2], "0 is no handle and {first} is taken");
    }
}
