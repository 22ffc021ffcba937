//! XRC domains, their target queue pairs and their shared receive queues.
//!
//! Owns: who has a domain open, the numbers of targets and SRQs, and how long each lasts. A domain lasts while any
//! process has it open; its targets last as long and need no process of their own (IBA A14: the target belongs to the
//! domain); an SRQ lasts as long as its process.
//! Must not know: what the adapter's words in a target mean.
//!
//! There is no table of domains: a domain is a 64-bit number, hashed from the file's device and inode (or drawn
//! for a private one), and the openings that carry it. So nothing has to be made or unmade in two steps.

use super::HostError;
use super::identity::mix;
use super::layout::{Claim, State, XRC_OPENINGS, XRC_SRQS, XRC_TARGETS, header};
use super::registry::{Held, ProcessRef, Registry, XRC_QPN_BASE};
use ferriband_wire::Qpn;

/// 64-bit words of a target queue pair that are the adapter's.
pub const XRC_TARGET_WORDS: usize = 13;

/// Bits of a target's index in its number; the three above come from the entry's tag, so that a number rests a while.
const TARGET_INDEX_BITS: u32 = 13;
/// Bits of an SRQ's index in its number; ten more come from the entry's tag.
const SRQ_INDEX_BITS: u32 = 14;

/// How to open a domain.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum XrcOpen {
    /// It must exist (no O_CREAT).
    Existing,
    /// Made if there is none (O_CREAT).
    OrCreate,
    /// It must not exist (O_CREAT | O_EXCL).
    CreateNew,
}

/// One opening of a domain by one process.
#[derive(Clone, Copy, Debug)]
pub struct XrcDomain {
    /// The domain's number, never 0; equal for all its openings.
    pub id: u64,
    held: Held,
}

/// A target queue pair's entry, in one of its lives.
#[derive(Clone, Copy, Debug)]
pub struct XrcTarget {
    /// Its queue pair number.
    pub qpn: Qpn,
    /// Its domain.
    pub domain: u64,
    held: Held,
}

impl XrcTarget {
    /// Index of the entry, below 8,192: for tables beside this one.
    pub fn index(&self) -> usize {
        self.held.index
    }

    /// The process that claimed it, which may be gone.
    pub fn creator(&self) -> ProcessRef {
        self.held.claim.owner()
    }
}

/// An XRC shared receive queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct XrcSrq {
    /// The process that owns it.
    pub process: ProcessRef,
    /// Its domain.
    pub domain: u64,
    /// The adapter's words.
    pub words: [u64; 2],
}

/// What an attempt to make a domain found.
#[derive(Debug)]
pub(super) enum Created {
    Made(XrcDomain),
    /// Somebody has it open.
    Exists,
    /// Somebody else is just opening it.
    Contended,
}

/// Number of the domain that a file stands for.
pub(super) fn domain_of_file(device: u64, inode: u64) -> u64 {
    mix(mix(device) ^ inode) | 1
}

impl Registry {
    // Domains.

    pub(super) fn xrc_private_domain(&self, owner: ProcessRef) -> u64 {
        // Even, where those of files are odd.
        let drawn = self.add(header::PRIVATE_DOMAINS, 1);
        (mix(mix(owner.to_word()) ^ drawn) | 2) & !1
    }

    /// Opens without asking who else has: the private and the O_CREAT case.
    pub(super) fn xrc_join_domain(
        &self,
        owner: ProcessRef,
        id: u64,
    ) -> Result<XrcDomain, HostError> {
        let held = self.fill_opening(owner, id)?;
        let held = self.publish(&XRC_OPENINGS, held, State::Live)?;
        Ok(XrcDomain { id, held })
    }

    /// Opens a domain that must not exist. An opening under way shows as claimed; two that see each other both draw back, and
    /// so never both succeed.
    pub(super) fn xrc_create_domain(
        &self,
        owner: ProcessRef,
        id: u64,
    ) -> Result<Created, HostError> {
        let held = self.fill_opening(owner, id)?;
        let others = (0..self.used(&XRC_OPENINGS)).filter_map(|index| {
            let claim = self.claim_word(&XRC_OPENINGS, index);
            let same = index != held.index
                && claim.is_owned()
                && self.load(XRC_OPENINGS.at(index, 1)) == id;
            same.then_some(claim.is(State::Live))
        });
        // Live beats claimed: true if any of them is live.
        if let Some(exists) = others.reduce(|a, b| a || b) {
            self.free(&XRC_OPENINGS, held);
            return Ok(if exists {
                Created::Exists
            } else {
                Created::Contended
            });
        }
        let held = self.publish(&XRC_OPENINGS, held, State::Live)?;
        Ok(Created::Made(XrcDomain { id, held }))
    }

    fn fill_opening(&self, owner: ProcessRef, id: u64) -> Result<Held, HostError> {
        let held = self.claim(&XRC_OPENINGS, owner, 0..XRC_OPENINGS.count)?;
        self.store(XRC_OPENINGS.at(held.index, 1), id);
        Ok(held)
    }

    /// Closes an opening; the domain and its targets go with the last one. False if it was closed before.
    pub(super) fn xrc_domain_close(&self, domain: XrcDomain) -> bool {
        let freed = self.free(&XRC_OPENINGS, domain.held);
        if freed {
            self.free_targets_without_domain();
        }
        freed
    }

    /// The processes that have a domain open, each once.
    pub fn xrc_domain_members(&self, id: u64) -> Vec<ProcessRef> {
        let mut members: Vec<_> = (0..self.used(&XRC_OPENINGS))
            .filter_map(|index| self.read::<1>(&XRC_OPENINGS, index))
            .filter(|(_, [domain])| *domain == id)
            .map(|(claim, _)| claim.owner())
            .collect();
        members.sort_unstable();
        members.dedup();
        members
    }

    /// Frees the targets of domains that nobody has open. The targets are listed before the openings: so what is freed
    /// was made before the moment at which its domain was seen closed, and never belongs to a later opening's life.
    pub(super) fn free_targets_without_domain(&self) {
        let targets: Vec<(Held, u64)> = (0..self.used(&XRC_TARGETS))
            .filter_map(|index| {
                let (claim, [_, domain]) = self.read(&XRC_TARGETS, index)?;
                claim
                    .is(State::Shared)
                    .then_some((Held { index, claim }, domain))
            })
            .collect();
        if targets.is_empty() {
            return;
        }
        // Openings under way count: their word may already be what keeps the domain.
        let mut open: Vec<u64> = (0..self.used(&XRC_OPENINGS))
            .filter(|&index| self.claim_word(&XRC_OPENINGS, index).is_owned())
            .map(|index| self.load(XRC_OPENINGS.at(index, 1)))
            .collect();
        open.sort_unstable();
        for (held, domain) in targets {
            if open.binary_search(&domain).is_err() {
                self.free(&XRC_TARGETS, held);
            }
        }
    }

    // Target queue pairs.

    pub(super) fn xrc_tgt_claim(&self, domain: &XrcDomain) -> Result<XrcTarget, HostError> {
        let owner = domain.held.claim.owner();
        let held = self.claim(&XRC_TARGETS, owner, 0..XRC_TARGETS.count)?;
        let qpn = target_qpn(held);
        self.store(XRC_TARGETS.at(held.index, 1), u64::from(qpn.0));
        self.store(XRC_TARGETS.at(held.index, 2), domain.id);
        for word in 0..XRC_TARGET_WORDS {
            self.store(XRC_TARGETS.at(held.index, 3 + word), 0);
        }
        Ok(XrcTarget {
            qpn,
            domain: domain.id,
            held,
        })
    }

    pub(super) fn xrc_tgt_publish(&self, target: XrcTarget) -> Result<XrcTarget, HostError> {
        let held = self.publish(&XRC_TARGETS, target.held, State::Shared)?;
        Ok(XrcTarget { held, ..target })
    }

    /// The published target with this number, whoever made it.
    pub fn xrc_tgt_find(&self, qpn: Qpn) -> Option<XrcTarget> {
        let offset = qpn.0.checked_sub(XRC_QPN_BASE)?;
        if offset >= 1 << 16 {
            return None;
        }
        let index = (offset & ((1 << TARGET_INDEX_BITS) - 1)) as usize;
        let (claim, [number, domain]) = self.read(&XRC_TARGETS, index)?;
        (claim.is(State::Shared) && number == u64::from(qpn.0)).then_some(XrcTarget {
            qpn,
            domain,
            held: Held { index, claim },
        })
    }

    /// The published targets: their numbers, and who made each.
    pub fn xrc_targets(&self) -> Vec<(Qpn, ProcessRef)> {
        (0..self.used(&XRC_TARGETS))
            .filter_map(|index| self.read::<1>(&XRC_TARGETS, index))
            .filter(|(claim, _)| claim.is(State::Shared))
            .map(|(claim, [number])| (Qpn(number as u32 & 0xff_ffff), claim.owner()))
            .collect()
    }

    /// True while the entry has not been freed since `target` was claimed or found.
    pub fn xrc_tgt_is_current(&self, target: &XrcTarget) -> bool {
        self.claim_word(&XRC_TARGETS, target.held.index) == target.held.claim
    }

    /// Loads word `word` of a target, below [`XRC_TARGET_WORDS`].
    pub fn xrc_tgt_load(&self, target: &XrcTarget, word: usize) -> u64 {
        self.load(target_word(target, word))
    }

    /// Stores word `word` of a target. After a free it lands in whatever the entry became: check
    /// [`Registry::xrc_tgt_is_current`] first, and prefer [`Registry::xrc_tgt_cas`] over values that carry a sequence.
    pub fn xrc_tgt_store(&self, target: &XrcTarget, word: usize, value: u64) {
        self.store(target_word(target, word), value);
    }

    /// Stores `new` in word `word` if `current` is there. Ok and Err carry the value found.
    ///
    /// # Errors
    /// The value found, if it was not `current`.
    pub fn xrc_tgt_cas(
        &self,
        target: &XrcTarget,
        word: usize,
        current: u64,
        new: u64,
    ) -> Result<u64, u64> {
        self.cas(target_word(target, word), current, new)
    }

    /// Frees a target, claimed or published, whoever made it. False if that had happened before.
    pub fn xrc_tgt_free(&self, target: XrcTarget) -> bool {
        self.free(&XRC_TARGETS, target.held)
    }

    // Shared receive queues.

    pub(super) fn xrc_srq_claim(
        &self,
        owner: ProcessRef,
        domain: u64,
        words: [u64; 2],
    ) -> Result<u32, HostError> {
        // Entry 0 stays unused, so that no number is 0.
        let held = self.claim(&XRC_SRQS, owner, 1..XRC_SRQS.count)?;
        for (word, value) in [domain, words[0], words[1]].into_iter().enumerate() {
            self.store(XRC_SRQS.at(held.index, word + 1), value);
        }
        self.publish(&XRC_SRQS, held, State::Live)?;
        Ok(srq_number(held.index, held.claim))
    }

    /// The shared receive queue with this number.
    pub fn xrc_srq_find(&self, number: u32) -> Option<XrcSrq> {
        let index = (number & ((1 << SRQ_INDEX_BITS) - 1)) as usize;
        let (claim, [domain, a, b]) = self.read(&XRC_SRQS, index)?;
        let found = claim.is(State::Live) && srq_number(index, claim) == number;
        found.then(|| XrcSrq {
            process: claim.owner(),
            domain,
            words: [a, b],
        })
    }

    pub(super) fn xrc_srq_free(&self, owner: ProcessRef, number: u32) -> bool {
        let index = (number & ((1 << SRQ_INDEX_BITS) - 1)) as usize;
        let claim = self.claim_word(&XRC_SRQS, index);
        let ours =
            claim.is(State::Live) && claim.owner() == owner && srq_number(index, claim) == number;
        ours && self.free(&XRC_SRQS, Held { index, claim })
    }
}

fn target_qpn(held: Held) -> Qpn {
    let turn = u32::from(held.claim.tag()) & 7;
    Qpn(XRC_QPN_BASE | turn << TARGET_INDEX_BITS | held.index as u32)
}

fn target_word(target: &XrcTarget, word: usize) -> usize {
    assert!(
        word < XRC_TARGET_WORDS,
        "a target has {XRC_TARGET_WORDS} words, asked for number {word}"
    );
    XRC_TARGETS.at(target.held.index, 3 + word)
}

/// 24 bits: index, and which claim of the entry.
fn srq_number(index: usize, claim: Claim) -> u32 {
    index as u32 | (u32::from(claim.tag()) & 0x3ff) << SRQ_INDEX_BITS
}
