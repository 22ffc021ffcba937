//! The connections that the service looks after, and which of them peers have told of.
//!
//! Owns: that news of one costs a look at the words of their segments, of which each has 64
//! connections, and not at each connection. Must not know: what is done with one.

use super::Process;
use super::carried::Carried;
use crate::ready;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;

/// Connections by their record's index.
#[derive(Default)]
pub(super) struct Carrying {
    all: BTreeMap<u32, Carried>,
    /// Those of a word, by its address, which stays as long as one of them is there.
    words: BTreeMap<usize, Vec<u32>>,
    /// Those that another process may hold, too.
    shared: BTreeSet<u32>,
}

impl Carrying {
    pub fn get(&self, index: u32) -> Option<&Carried> {
        self.all.get(&index)
    }

    pub fn get_mut(&mut self, index: u32) -> Option<&mut Carried> {
        self.all.get_mut(&index)
    }

    pub fn iter(&self) -> impl Iterator<Item = (u32, &Carried)> {
        self.all.iter().map(|(index, carried)| (*index, carried))
    }

    /// Adds one, in the place of another with the same record.
    pub fn insert(&mut self, index: u32, carried: Carried, may_be_shared: bool) {
        self.remove(index);
        self.words.entry(word(&carried)).or_default().push(index);
        self.all.insert(index, carried);
        if may_be_shared {
            self.shared.insert(index);
        }
    }

    pub fn remove(&mut self, index: u32) -> Option<Carried> {
        let carried = self.all.remove(&index)?;
        self.shared.remove(&index);
        let word = word(&carried);
        if let Some(of_word) = self.words.get_mut(&word) {
            of_word.retain(|other| *other != index);
            if of_word.is_empty() {
                self.words.remove(&word);
            }
        }
        Some(carried)
    }

    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.all.len()
    }

    pub fn into_all(self) -> impl Iterator<Item = Carried> {
        self.all.into_values()
    }

    /// Whether another process may hold it, too.
    pub fn may_be_shared(&self, index: u32) -> bool {
        self.shared.contains(&index)
    }

    /// A child was made, which may hold each of them.
    pub fn forked(&mut self) {
        self.shared = self.all.keys().copied().collect();
    }

    /// Takes what peers have told. What another process holds as well is among it in any case: that
    /// process, which hears the same bell, may have taken the only bit, or this one is to leave it.
    pub fn take_told(&mut self, process: &'static Process) -> Vec<u32> {
        let Self { all, words, shared } = self;
        shared.retain(|index| all.get(index).is_some_and(|one| one.is_shared(process)));
        let mut told: Vec<_> = shared.iter().copied().collect();
        for of_word in words.values() {
            let any = of_word.first().and_then(|index| all.get(index));
            if any.is_none_or(|any| any.told.word().load(Ordering::SeqCst) == 0) {
                continue;
            }
            let is_told = |index: &&u32| {
                let takes = |carried: &&Carried| carried.is_told() && ready::takes(carried.taken);
                let carried = all.get(index).filter(takes);
                carried.and_then(|carried| carried.with(process, |link, _| link.take_told()))
                    == Some(true)
            };
            told.extend(of_word.iter().filter(is_told));
        }
        told.sort_unstable();
        told.dedup();
        told
    }
}

/// Where peers tell of a connection.
fn word(carried: &Carried) -> usize {
    std::ptr::from_ref(carried.told.word()).addr()
}
