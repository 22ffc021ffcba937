//! What goes wrong in a run: programs killed, transports that fail, sides that give up, readers
//! that stop.
//!
//! Owns: when. Must not know: what must hold then.

use super::fabric::Wire;
use super::world::World;

impl World {
    /// What goes wrong in this run, if anything does.
    pub(super) fn plan(&mut self) {
        let latest = self.rng.pick(&[50, 500, 5_000]);
        let at = self.rng.range(1, latest);
        let side = self.rng.below(2) as usize;
        let program = &mut self.sides[side].program;
        match self.rng.below(12) {
            0 => self.kill = Some((side, at)),
            1 => self.reset_at = at,
            2 => self.abort = Some((side, at)),
            3 | 4 => program.reads_until = self.rng.below(program.total + 200),
            5..=8 if program.total > 0 => program.computes_at = self.rng.range(1, program.total),
            9 | 10 => program.reads_from = at,
            _ => {}
        }
    }

    /// What the plan of the run has for this step.
    pub(super) fn strike(&mut self) {
        let now = self.stats.steps;
        if let Some((side, at)) = self.kill
            && at == now
        {
            self.note(|_| format!("s{side} is killed"));
            self.sides[side].dead = true;
            self.lose();
        }
        if self.reset_at == now {
            self.lose();
        }
        if let Some((side, at)) = self.abort
            && at == now
        {
            self.note(|_| format!("s{side} gives up"));
            self.sides[side].machine.abort();
            self.sides[side].stale = true;
        }
        let over = self.sides.iter().any(|side| side.machine.over().is_some());
        if over && !self.lost && self.rng.chance(5) {
            self.lose();
        }
    }

    pub(super) fn lose(&mut self) {
        if !self.lost {
            self.note(|_| "the transport fails".into());
            self.lost = true;
            self.stats.losses += 1;
            let wires = self.wires.iter_mut().chain(&mut self.offers);
            wires.for_each(Wire::lose);
        }
    }

    pub(super) fn tell_lost(&mut self, side: usize) {
        self.note(|_| format!("s{side} hears of the loss"));
        self.sides[side].told_lost = true;
        self.sides[side].machine.handle_lost();
        self.look_again(side);
    }
}
