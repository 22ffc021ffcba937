//! Papers/003: M. J. Koop, P. Shamis, I. Rabinovitz, D. K. Panda, "Designing High-Performance and
//! Resilient Message Passing on InfiniBand": what the acknowledgements of Ferriband's MPI cost,
//! what they hold, and how long a recovery takes.
//!
//! Owns: which figures there are. The claims are in `claims.rs`, the experiments in
//! `experiments.rs`; `jobs.rs` runs the programs `messages.c` and `kernels.c`, `flaps.rs` links
//! that go down beneath them.

mod claims;
pub mod experiments;
pub mod flaps;
pub mod jobs;

use super::registry::{Axes, Figure, Paper};

/// The paper.
pub const PAPER: Paper = Paper {
    id: "003",
    title: "Koop, Shamis, Rabinovitz, Panda: Designing High-Performance and Resilient Message Passing on InfiniBand",
    note: Some(
        "This is software on one host: adapters are programs, hosts are network namespaces, and all of them share its processors. The paper's is a cluster of 72 hosts with adapters in hardware.",
    ),
    figures: &[
        Figure {
            id: "fig4",
            title: "latency and bandwidth of RPut, RGet and the lane, each existing and resilient; bandwidth both ways",
            axes: Axes {
                x: "bytes",
                y: "us",
                is_logarithmic: true,
                draws: |series| series.starts_with("us "),
            },
            run: experiments::sizes,
            steps: experiments::sizes_steps,
            claims: claims::FIGURE_4,
            printed: &[],
        },
        Figure {
            id: "fig5",
            title: "kernels of applications, each existing and resilient",
            axes: Axes {
                x: "kernel: 1 sort, 2 HPL, 3 PTRANS, 4 RandomAccess, 5 FFT",
                y: "ms (of FFT for 10^9 operations)",
                is_logarithmic: true,
                draws: |series| series.starts_with("ms "),
            },
            run: experiments::kernels,
            steps: experiments::kernels_steps,
            claims: claims::FIGURE_5,
            printed: &[],
        },
        Figure {
            id: "table1",
            title: "memory of a process that messages are buffered in, average of the maxima, with acknowledgements and without",
            axes: Axes {
                x: "ranks",
                y: "MB",
                is_logarithmic: false,
                draws: |_| true,
            },
            run: experiments::buffers,
            steps: experiments::buffers_steps,
            claims: claims::TABLE_1,
            printed: claims::PRINTED_1,
        },
        Figure {
            id: "recovery",
            title: "from a failure to the first message: queue pair error and its parts, link flap, adapter",
            axes: Axes {
                x: "percent of all recoveries",
                y: "us",
                is_logarithmic: true,
                draws: |series| series.starts_with("us "),
            },
            run: experiments::recovery,
            steps: experiments::recovery_steps,
            claims: claims::RECOVERY,
            printed: claims::PRINTED_RECOVERY,
        },
    ],
};
