//! Papers/004: P. Balaji et al., "Advanced Flow-control Mechanisms for the Sockets Direct Protocol
//! over InfiniBand": the experiments of section 6, by verbs between processes of this host.
//!
//! Owns: which figures there are. The claims are in `claims.rs`, the experiments in
//! `experiments.rs`; `lab.rs` starts the processes, which `worker.rs` is.

mod claims;
mod ends;
mod experiments;
mod filters;
mod lab;
mod socket;
mod worker;

use super::registry::{Axes, Figure, Paper};

pub use ends::ToldEnd;
pub use worker::{command as peer_command, open_adapter};

/// The paper.
pub const PAPER: Paper = Paper {
    id: "004",
    title: "Balaji, Bhagvat, Panda, Thakur, Gropp: Advanced Flow-control Mechanisms for the Sockets Direct Protocol over InfiniBand",
    note: None,
    figures: &[
        Figure {
            id: "6a",
            title: "ping-pong latency of the three flow controls",
            axes: Axes {
                x: "bytes",
                y: "us",
                is_logarithmic: true,
                draws: |_| true,
            },
            run: |options, progress| experiments::run(experiments::LATENCY, options, progress),
            steps: |options| experiments::steps(experiments::LATENCY, options),
            claims: claims::LATENCY,
            printed: &[],
        },
        Figure {
            id: "6b",
            title: "one-way bandwidth of the three flow controls",
            axes: Axes {
                x: "bytes",
                y: "MB/s",
                is_logarithmic: true,
                draws: |_| true,
            },
            run: |options, progress| experiments::run(experiments::BANDWIDTH, options, progress),
            steps: |options| experiments::steps(experiments::BANDWIDTH, options),
            claims: claims::BANDWIDTH,
            printed: &[],
        },
        Figure {
            id: "8",
            title: "bursts of 100 x 4 KiB over computation: communication progress",
            axes: Axes {
                x: "us of computation",
                y: "us a round",
                is_logarithmic: false,
                draws: |_| true,
            },
            run: |options, progress| experiments::run(experiments::PROGRESS, options, progress),
            steps: |options| experiments::steps(experiments::PROGRESS, options),
            claims: claims::PROGRESS,
            printed: &[],
        },
        Figure {
            id: "9",
            title: "buffers in use over message length, 8 x 8 KiB (a) and 8 x 32 KiB (b)",
            axes: Axes {
                x: "bytes",
                y: "percent",
                is_logarithmic: true,
                draws: |_| true,
            },
            run: |options, progress| experiments::run(experiments::BUFFER_USE, options, progress),
            steps: |options| experiments::steps(experiments::BUFFER_USE, options),
            claims: claims::BUFFER_USE,
            printed: &[],
        },
        Figure {
            id: "10",
            title: "chains of filters over the data set's size: virtual microscope (a), isosurface (b)",
            axes: Axes {
                x: "MiB",
                y: "ms",
                is_logarithmic: true,
                draws: |_| true,
            },
            run: |options, progress| experiments::run(experiments::APPLICATIONS, options, progress),
            steps: |options| experiments::steps(experiments::APPLICATIONS, options),
            claims: claims::APPLICATIONS,
            printed: &[],
        },
    ],
};
