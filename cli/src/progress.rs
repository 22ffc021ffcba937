//! A progress bar that shows up only when the work takes longer than two seconds, and only on a
//! terminal. It has no thread of its own: the floors fork.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::cell::Cell;
use std::time::{Duration, Instant};

/// How long work may take before a bar is worth its space.
const PATIENCE: Duration = Duration::from_secs(2);

/// Progress through a known number of steps.
pub struct Progress {
    bar: ProgressBar,
    started: Instant,
    shown: Cell<bool>,
    begun: Cell<bool>,
}

impl Progress {
    /// A bar of `steps`, hidden at first.
    pub fn new(steps: u64) -> Self {
        let bar = ProgressBar::with_draw_target(Some(steps), ProgressDrawTarget::hidden());
        let style = ProgressStyle::with_template("{bar:30} {pos}/{len} {elapsed} {wide_msg}")
            .expect("the template is a constant with known keys");
        bar.set_style(style);
        Progress {
            bar,
            started: Instant::now(),
            shown: Cell::new(false),
            begun: Cell::new(false),
        }
    }

    /// Says what begins now; the step before it is done.
    pub fn step(&self, message: &str) {
        self.show_after(PATIENCE);
        if self.begun.replace(true) {
            self.bar.inc(1);
        }
        self.bar.set_message(message.to_owned());
    }

    /// Moves to `position` of the steps.
    pub fn at(&self, position: u64) {
        self.show_after(PATIENCE);
        self.bar.set_position(position);
    }

    fn show_after(&self, patience: Duration) {
        if !self.shown.get() && self.started.elapsed() > patience {
            self.shown.set(true);
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
    }

    /// Does something that writes to the terminal, beside the bar.
    pub fn beside<T>(&self, write: impl FnOnce() -> T) -> T {
        self.bar.suspend(write)
    }

    /// Prints a line above the bar.
    pub fn note(&self, line: &str) {
        self.bar.suspend(|| complain!("{line}"));
    }

    /// Removes the bar.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}
