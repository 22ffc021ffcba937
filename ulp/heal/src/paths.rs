//! The paths to one peer, and which of them is tried next.
//!
//! Owns: at most 32 candidates, and when each last failed and was last heard of. Must not know: how
//! a path table is read. Source: the paper's Figure 3 (the path of before, then others).

use crate::number::{AdapterId, Ns, PathId};

/// Paths of a peer at most.
pub const MOST: usize = 32;
/// A path that failed is tried behind those that did not, for so long.
const AVOIDED_NS: u64 = 10_000_000_000;

/// Own adapter and port, address of the peer, route.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Path {
    /// Own adapter.
    pub adapter: AdapterId,
    /// Its port.
    pub port: u8,
    /// Index of the GID that it sends from.
    pub sgid_index: u8,
    /// Low bits of the LID that it sends from.
    pub slid_bits: u8,
    /// LID of the peer's port; 0 on Ethernet.
    pub dlid: u16,
    /// GID of the peer's port.
    pub dgid: [u8; 16],
    /// UDP source port; 0 where there is none.
    pub udp_port: u16,
    /// The peer's adapter.
    pub peer: AdapterId,
    /// Path MTU, as the verbs API codes it.
    pub mtu: u8,
}

#[derive(Clone, Copy, Debug)]
struct Candidate {
    path: Path,
    failed: Option<Ns>,
    heard: Option<Ns>,
}

/// The paths to one peer.
#[derive(Clone, Debug, Default)]
pub struct Paths {
    all: Vec<Candidate>,
    /// Where the last one that was tried lies.
    last: Option<usize>,
}

impl Paths {
    /// The path table was read anew: these are the candidates, the best first; those behind the
    /// first 32 are left out. What is known of a path that was there before stays known.
    pub fn renew(&mut self, found: &[Path]) {
        let last = self
            .last
            .and_then(|at| self.all.get(at))
            .map(|one| one.path);
        let known = |path: &Path| self.all.iter().find(|one| one.path == *path).copied();
        let fresh = |path: &Path| Candidate {
            path: *path,
            failed: None,
            heard: None,
        };
        let all = found.iter().take(MOST);
        self.all = all
            .map(|path| known(path).unwrap_or_else(|| fresh(path)))
            .collect();
        self.last = self.all.iter().position(|one| Some(one.path) == last);
    }

    /// The path to try next: the one of before at first, then the others in turn; those that failed
    /// within 10 s come last.
    pub fn next(&mut self, now: Ns) -> Option<PathId> {
        let count = self.all.len();
        let first = self.last.map_or(0, |at| at + 1);
        let is_avoided = |at: usize| {
            let failed = self.all[at].failed;
            failed.is_some_and(|then| now.since(then) < AVOIDED_NS)
        };
        let mut turn = (0..count).map(|offset| (first + offset) % count);
        let found = turn
            .clone()
            .find(|at| !is_avoided(*at))
            .or_else(|| turn.next())?;
        self.last = Some(found);
        Some(PathId(found as u8))
    }

    /// Nothing could be done by this path.
    pub fn failed(&mut self, id: PathId, now: Ns) {
        if let Some(one) = self.all.get_mut(usize::from(id.0)) {
            one.failed = Some(now);
        }
    }

    /// Something of the peer has come by this path.
    pub fn heard(&mut self, id: PathId, now: Ns) {
        if let Some(one) = self.all.get_mut(usize::from(id.0)) {
            (one.heard, one.failed) = (Some(now), None);
        }
    }

    /// When something of the peer last came by this path.
    pub fn last_heard(&self, id: PathId) -> Option<Ns> {
        self.all.get(usize::from(id.0))?.heard
    }

    /// The path with this number.
    pub fn get(&self, id: PathId) -> Option<&Path> {
        self.all.get(usize::from(id.0)).map(|one| &one.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(dlid: u16) -> Path {
        Path {
            dlid,
            ..Path::default()
        }
    }

    #[test]
    fn paths_are_tried_in_turn_and_those_that_failed_last() {
        let mut paths = Paths::default();
        assert_eq!(paths.next(Ns(0)), None);
        paths.renew(&[path(1), path(2), path(3)]);
        let mut turn = |now, times: usize| -> Vec<u8> {
            (0..times)
                .filter_map(|_| paths.next(Ns(now)))
                .map(|id| id.0)
                .collect()
        };
        assert_eq!(turn(0, 4), [0, 1, 2, 0]);
        paths.failed(PathId(1), Ns(5));
        let mut turn = |now, times: usize| -> Vec<u8> {
            (0..times)
                .filter_map(|_| paths.next(Ns(now)))
                .map(|id| id.0)
                .collect()
        };
        assert_eq!(turn(6, 3), [2, 0, 2]);
        assert_eq!(turn(6 + AVOIDED_NS, 3), [0, 1, 2]);
        for id in 0..3 {
            paths.failed(PathId(id), Ns(AVOIDED_NS));
        }
        assert_eq!(
            paths.next(Ns(AVOIDED_NS)),
            Some(PathId(0)),
            "one that failed is better than none"
        );
        paths.heard(PathId(2), Ns(AVOIDED_NS));
        assert_eq!(paths.next(Ns(AVOIDED_NS)), Some(PathId(2)));
        assert_eq!(paths.last_heard(PathId(2)), Some(Ns(AVOIDED_NS)));
    }

    #[test]
    fn what_is_known_of_a_path_outlives_a_new_table() {
        let mut paths = Paths::default();
        paths.renew(&[path(1), path(2)]);
        paths.failed(PathId(1), Ns(0));
        paths.renew(&[path(2), path(3)]);
        assert_eq!(paths.next(Ns(1)), Some(PathId(1)));
        assert_eq!(paths.get(PathId(1)), Some(&path(3)));
        assert_eq!(paths.get(PathId(2)), None);
    }
}
