//! What must hold between any two steps of a run, and at its end.
//!
//! Owns: the laws F4 to F6. F1 to F3 are looked at where bytes are read and land.

use super::side::Side;
use super::world::World;
use super::{Kind, Law};
use ferriband_sdp_proto::connection::{Flow, Over};

impl World {
    /// Why a work of `side` that finds no receive should have found one.
    pub(super) fn is_promised(&self, side: usize) -> Option<&'static str> {
        let other = &self.sides[1 - side];
        let Flow::Nic { window_bytes, .. } = other.config.flow else {
            return Some("the flow control promises one");
        };
        if self.wires[side].executed < u64::from(other.config.receives()) {
            return Some("the first receives are not used up");
        }
        let seen = !other.stale && self.wires[side].arrivals.is_empty();
        let looks = !other.dead && !other.program.computing && other.machine.over().is_none();
        let spare = other.machine.account().spare.unwrap_or(0);
        (seen && looks && spare >= window_bytes).then_some("a window is free")
    }

    /// F5, as far as it holds between any two steps.
    pub(super) fn check_credits(&mut self) {
        if self.lost {
            return;
        }
        for side in 0..2 {
            let (me, other) = (&self.sides[side], &self.sides[1 - side]);
            let wire = &self.wires[side];
            let receives = wire.receives.len();
            let posted = usize::from(other.machine.account().posted);
            if other.machine.over().is_none() && receives + wire.arrivals.len() != posted {
                let waiting = wire.arrivals.len();
                let what = format!("{receives} receives and {waiting} arrivals, {posted} posted");
                return self.fail(Law::Credits, what);
            }
            let credits = me.machine.account().credits as usize;
            if self.kind == Kind::Nic {
                self.check_windows(1 - side);
            } else if credits + wire.taking() > receives {
                let works = wire.taking();
                let what =
                    format!("s{side}: {credits} credits, {works} works, {receives} receives");
                return self.fail(Law::Credits, what);
            }
        }
    }

    fn check_windows(&mut self, side: usize) {
        let me = &self.sides[side];
        let Flow::Nic { window_bytes, .. } = me.config.flow else {
            return;
        };
        let account = me.machine.account();
        let space = window_bytes * u32::from(me.config.receives());
        let windows = window_bytes * u32::from(account.posted);
        let unread = me.machine.usage().receive_bytes;
        if unread + windows + account.spare.unwrap_or(0) != space {
            let what = format!("s{side}: {unread} unread, windows of {windows}, {account:?}");
            self.fail(Law::Credits, what);
        }
    }

    /// A machine that has no work has posted all the receives that it may.
    pub(super) fn check_spare(&mut self, side: usize) {
        let me = &self.sides[side];
        if let Flow::Nic { window_bytes, .. } = me.config.flow
            && me.machine.over().is_none()
        {
            let spare = me.machine.account().spare.unwrap_or(0);
            if spare >= window_bytes {
                let what = format!("s{side}: {spare} spare bytes, a window is {window_bytes}");
                self.fail(Law::Credits, what);
            }
        }
    }

    /// Nothing is possible any more.
    pub(super) fn check_end(&mut self) {
        let ended = |side: &Side| side.dead || side.program.computing;
        for side in 0..2 {
            if self.lost {
                let me = &self.sides[side];
                if !ended(me) && me.machine.over().is_none() && !me.machine.is_finished() {
                    self.fail(Law::Progress, format!("s{side} has not heard of the loss"));
                }
                continue;
            }
            self.check_direction(side);
            self.check_answered(side);
            if !self.sides.iter().any(ended) && self.kind != Kind::Nic {
                self.check_told(side);
            }
        }
        let done = |side: &Side| side.program.at_end && side.program.shut;
        let over = |side: &Side| side.machine.over() == Some(Over::Lost);
        if !self.lost && self.sides.iter().all(done) {
            let finished = self.sides.iter().all(|side| side.machine.is_finished());
            if !finished || self.sides.iter().any(over) {
                self.fail(
                    Law::Progress,
                    "both streams have ended, and a side is not finished",
                );
            }
        }
    }

    /// F6: what `side` has given has arrived, or it waits for good reason.
    fn check_direction(&mut self, side: usize) {
        let (me, other) = (&self.sides[side], &self.sides[1 - side]);
        let (given, read) = (me.program.given, other.program.read);
        let account = me.machine.account();
        let all = me.program.shut && account.waiting == 0;
        if other.program.reads() {
            // in ring, what waits for room waits for the program's next call
            let waits = me.program.computing && self.kind == Kind::Ring;
            let due = me.program.computing || (all && other.program.at_end);
            if !waits && (read != given || !due) {
                let what = format!("s{side} has given {given}, {read} were read, {account:?}");
                self.fail(Law::Progress, what);
            }
            return;
        }
        let computes = me.program.computing || other.program.computing;
        if all || computes || me.program.offering {
            return;
        }
        let unread = other.machine.usage().receive_bytes;
        let full = match self.kind {
            Kind::Credit => account.credits <= 2 && unread > 0,
            Kind::Ring => unread > 0,
            Kind::Nic => self.wires[side].receives.is_empty() && unread > 0,
        };
        if !full {
            let what = format!("s{side} waits, {unread} bytes are unread, {account:?}");
            self.fail(Law::Progress, what);
        }
    }

    /// F6: an offer that was taken back is over, whatever the peer reads.
    fn check_answered(&mut self, side: usize) {
        let (me, other) = (&self.sides[side], &self.sides[1 - side]);
        let looks = !other.program.computing && other.machine.over().is_none();
        let waits = me.program.offering && me.program.cancelled;
        if waits && looks && me.machine.over().is_none() {
            self.fail(
                Law::Progress,
                format!("s{side} has taken its offer back, and hears nothing"),
            );
        }
    }

    /// F5 at rest: what a side does not know of it has not been told.
    fn check_told(&mut self, side: usize) {
        let credits = self.sides[side].machine.account().credits as i32;
        let other = self.sides[1 - side].machine.account();
        if credits + other.untold != i32::from(other.posted) {
            let what = format!("s{side} has {credits} credits, {other:?}");
            self.fail(Law::Credits, what);
        }
    }
}
