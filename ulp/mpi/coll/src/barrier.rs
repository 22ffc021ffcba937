//! Barriers (P0 IV-B, figures 23 and 24).

use crate::common::{ahead, doublings};
use crate::schedule::{Builder, Peer};
use crate::{Algorithm, Place};

pub fn build(b: &mut Builder, algorithm: Algorithm, me: Place) {
    match algorithm {
        Algorithm::Pairwise => pairwise(b, me),
        Algorithm::Linear => linear(b, me),
        Algorithm::Tutorial if me.size.is_power_of_two() => pairwise(b, me),
        _ => dissemination(b, me),
    }
}

/// Brooks: in round i a rank exchanges messages with the rank whose number differs in bit i, and begins round i + 1 when that
/// one's message has come. Powers of two only.
fn pairwise(b: &mut Builder, me: Place) {
    let mut came = Vec::new();
    for distance in doublings(me.size) {
        let partner = Peer::own(me.rank ^ distance);
        b.notify(partner, &came);
        came = vec![b.await_notice(partner, &came)];
    }
}

/// Han and Finkel, as P0 cites them: in round i rank x sends to x + 2^i, and begins the next when the message of x - 2^i has come.
fn dissemination(b: &mut Builder, me: Place) {
    let mut came = Vec::new();
    for distance in doublings(me.size) {
        b.notify(Peer::own(ahead(me, i64::from(distance))), &came);
        came = vec![b.await_notice(Peer::own(ahead(me, -i64::from(distance))), &came)];
    }
}

/// All tell rank 0, which then tells all.
fn linear(b: &mut Builder, me: Place) {
    if me.rank > 0 {
        b.notify(Peer::own(0), &[]);
        b.await_notice(Peer::own(0), &[]);
        return;
    }
    let came: Vec<u32> = (1..me.size)
        .map(|rank| b.await_notice(Peer::own(rank), &[]))
        .collect();
    for rank in 1..me.size {
        b.notify(Peer::own(rank), &came);
    }
}
