//! The papers whose figures can be run again.
//!
//! Owns: the list. What a paper is stands in `registry.rs`, each paper in a module of its own.

use super::registry::Paper;
use super::{drivers, flow, resilient};

/// All papers.
pub const PAPERS: &[Paper] = &[drivers::PAPER, resilient::PAPER, flow::PAPER];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn papers_figures_and_claims_are_told_apart() {
        for paper in PAPERS {
            let ids: Vec<&str> = paper.figures.iter().map(|figure| figure.id).collect();
            let mut unique = ids.clone();
            unique.dedup();
            assert_eq!(ids, unique);
            assert!(paper.figures.iter().all(|figure| !figure.claims.is_empty()));
        }
    }
}
