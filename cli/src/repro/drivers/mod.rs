//! Papers/002: J. A. Schutt, "Experiences with Prototype InfiniBand Hardware": the tables of its
//! two drivers, by `libferriband_putget`'s code between two processes.
//!
//! Owns: which tables there are. The claims are in `claims.rs`, what the paper prints in
//! `printed.rs`, the experiments in `experiments.rs`; the processes are `crate::putget`'s.

mod claims;
mod experiments;
mod printed;

use super::registry::{Axes, Figure, Paper};

/// The paper.
pub const PAPER: Paper = Paper {
    id: "002",
    title: "Schutt: Experiences with Prototype InfiniBand Hardware",
    note: None,
    figures: &[
        Figure {
            id: "table2",
            title: "the first driver, on one host and between two: round trips of 4 B, throughput",
            axes: Axes {
                x: "bytes",
                y: "MB/s",
                is_logarithmic: true,
                draws: |series| series.starts_with("MB/s "),
            },
            run: experiments::first_driver,
            steps: experiments::first_driver_steps,
            claims: claims::TABLE_2,
            printed: printed::TABLE_2,
        },
        Figure {
            id: "table3",
            title: "the second driver with protocol messages of 4,096 B between two hosts: round trips",
            axes: Axes {
                x: "bytes",
                y: "us",
                is_logarithmic: true,
                draws: |series| !series.starts_with("first driver"),
            },
            run: experiments::second_driver,
            steps: experiments::second_driver_steps,
            claims: claims::TABLE_3,
            printed: printed::TABLE_3,
        },
        Figure {
            id: "table4",
            title: "the second driver by length of its protocol messages, between two hosts: round trips, throughput",
            axes: Axes {
                x: "bytes",
                y: "MB/s",
                is_logarithmic: true,
                draws: |series| series.starts_with("MB/s "),
            },
            run: |options, progress| experiments::protocols(options, progress, experiments::ROWS),
            steps: |options| experiments::protocols_steps(options, experiments::ROWS),
            claims: claims::TABLE_4,
            printed: printed::TABLE_4,
        },
        Figure {
            id: "fig7",
            title: "round trips over length by length of the protocol messages",
            axes: Axes {
                x: "bytes",
                y: "us",
                is_logarithmic: true,
                draws: |series| series.starts_with("us "),
            },
            run: |options, progress| experiments::protocols(options, progress, experiments::CURVE),
            steps: |options| experiments::protocols_steps(options, experiments::CURVE),
            claims: claims::FIGURE_7,
            printed: printed::FIGURE_7,
        },
        Figure {
            id: "latency",
            title: "what a round trip of 4 B is made of, on one host; notifications, headers, processors",
            axes: Axes {
                x: "bytes",
                y: "us",
                is_logarithmic: true,
                draws: |series| series.starts_with("us "),
            },
            run: experiments::accounting,
            steps: experiments::accounting_steps,
            claims: claims::LATENCY,
            printed: printed::LATENCY,
        },
    ],
};
