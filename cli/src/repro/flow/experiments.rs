//! The experiments of papers/004, section 6: what is measured, how long, over what.
//!
//! Owns: lengths, iterations, the order of the runs: each run measures every flow control at a
//! place of the x axis before it goes on, so that all three saw the same machine. Must not know:
//! what the paper claims.

use super::lab::{Chain, Lab};
use super::worker::{Application, Found, Kind, Part, Side};
use crate::failure::Failure;
use crate::progress::Progress;
use crate::repro::data::{Data, Samples};
use crate::repro::registry::Options;

/// N and S of all experiments but one (papers/004, section 6.2.3).
const BUFFERS: u16 = 8;
const BUFFER_BYTES: u32 = 8 << 10;
/// S of figure 9(b).
const LONG_BUFFER_BYTES: u32 = 32 << 10;
/// A call looks again for so long where each process has a core: longer than any wait without
/// computation.
const SPIN_US: u64 = 500;
/// A call looks again for so long where processes share cores.
const SHORT_SPIN_US: u64 = 5;

/// Lengths of figure 6(a), bytes.
const PING_PONG_BYTES: &[u64] = &[1, 4, 16, 64, 256, 1024, 4096];
/// Lengths of figure 6(b), bytes.
const STREAM_BYTES: &[u64] = &[
    1, 16, 64, 256, 512, 1024, 2048, 4096, 8192, 16_384, 32_768, 65_536,
];
/// Lengths of figure 9, bytes.
const USE_BYTES: &[u64] = &[16, 64, 256, 512, 1024, 2048, 4096, 8192];
/// Computations of figure 8, us.
const COMPUTE_US: &[u64] = &[0, 250, 500, 750, 1000, 1250, 1500, 1750, 2000];
/// Sizes of the data set of figure 10, MiB; the paper's is 1 GiB on 25 processors.
const DATA_MIB: &[u64] = &[4, 8, 16, 32];
const QUICK_DATA_MIB: &[u64] = &[1];
/// Instances of a chain; the paper has five and six, for 26 and 24 processors.
const INSTANCES: usize = 2;
/// Bytes of a unit of work.
const UNIT_BYTES: usize = 1024;
/// How often a filter goes over a unit.
const PASSES: u32 = 2;

/// What is measured over the places of an x axis.
pub struct Plan {
    /// What the series are called behind the flow control's name.
    suffix: &'static str,
    places: &'static [u64],
    quick_places: Option<&'static [u64]>,
    /// S.
    buffer_bytes: u32,
    processes: usize,
    trial: fn(&mut Lab, &Trial) -> Result<f64, Failure>,
}

/// One measurement: a flow control at a place.
struct Trial {
    side: Side,
    x: u64,
    is_quick: bool,
}

impl Trial {
    /// So many iterations, or few.
    fn iterations(&self, whole: u32, quick: u32) -> u32 {
        if self.is_quick { quick } else { whole }
    }
}

const PAIR: Plan = Plan {
    suffix: "",
    places: &[],
    quick_places: None,
    buffer_bytes: BUFFER_BYTES,
    processes: 2,
    trial: latency,
};

/// Figure 6(a).
pub const LATENCY: &[Plan] = &[Plan {
    places: PING_PONG_BYTES,
    trial: latency,
    ..PAIR
}];
/// Figure 6(b).
pub const BANDWIDTH: &[Plan] = &[Plan {
    places: STREAM_BYTES,
    trial: bandwidth,
    ..PAIR
}];
/// Figure 8.
pub const PROGRESS: &[Plan] = &[Plan {
    places: COMPUTE_US,
    trial: burst_time,
    ..PAIR
}];
/// Figure 9.
pub const BUFFER_USE: &[Plan] = &[
    Plan {
        suffix: " 8x8K",
        places: USE_BYTES,
        trial: buffer_use,
        ..PAIR
    },
    Plan {
        suffix: " 8x32K",
        places: USE_BYTES,
        buffer_bytes: LONG_BUFFER_BYTES,
        trial: buffer_use,
        ..PAIR
    },
];
/// Figure 10.
pub const APPLICATIONS: &[Plan] = &[
    Plan {
        suffix: " microscope",
        processes: INSTANCES * 5,
        trial: |lab, trial| application(lab, trial, Application::Microscope),
        ..CHAINS
    },
    Plan {
        suffix: " isosurface",
        processes: INSTANCES * 4,
        trial: |lab, trial| application(lab, trial, Application::Isosurface),
        ..CHAINS
    },
];
const CHAINS: Plan = Plan {
    places: DATA_MIB,
    quick_places: Some(QUICK_DATA_MIB),
    ..PAIR
};

impl Plan {
    fn places(&self, options: &Options) -> Vec<u64> {
        match self.quick_places {
            Some(places) if options.is_quick => places.to_vec(),
            _ if options.is_quick => {
                // the last is kept: claims rest on it
                let mut kept: Vec<u64> = self.places.iter().rev().step_by(2).copied().collect();
                kept.reverse();
                kept
            }
            _ => self.places.to_vec(),
        }
    }
}

/// Steps of [`run`].
pub fn steps(plans: &[Plan], options: &Options) -> u64 {
    let places: usize = plans.iter().map(|plan| plan.places(options).len()).sum();
    places as u64 * u64::from(options.runs) * Kind::ALL.len() as u64
}

/// Measures what the plans say.
pub fn run(plans: &[Plan], options: &Options, progress: &Progress) -> Result<Data, Failure> {
    let mut samples = Samples::default();
    for plan in plans {
        let mut lab = Lab::start(plan.processes, options.wire)?;
        for run in 0..options.runs {
            for x in plan.places(options) {
                for kind in Kind::ALL {
                    let (runs, name) = (options.runs, format!("{}{}", kind.name(), plan.suffix));
                    progress.step(&format!("run {}/{runs}: {name} at {x}", run + 1));
                    let side = Side {
                        kind,
                        buffers: BUFFERS,
                        buffer_bytes: plan.buffer_bytes,
                        coalesce: options.coalesce,
                    };
                    let is_quick = options.is_quick;
                    let value = (plan.trial)(&mut lab, &Trial { side, x, is_quick });
                    samples.add(
                        &name,
                        x,
                        value
                            .map_err(|failure| Failure::new(format!("{name} at {x}: {failure}")))?,
                    );
                }
            }
        }
        lab.finish()?;
    }
    Ok(samples.data())
}

/// Both processes have the same part. Returns what the first and the second have found.
fn pair(lab: &mut Lab, trial: &Trial, part: Part) -> Result<[Found; 2], Failure> {
    let chain = Chain {
        parts: vec![part; 2],
    };
    let found = lab.run(trial.side, SPIN_US, &[chain])?;
    Ok([found[0][0], found[0][1]])
}

/// Half of a round trip, us.
fn latency(lab: &mut Lab, trial: &Trial) -> Result<f64, Failure> {
    let rounds = trial.iterations(10_000, 500);
    let part = Part::PingPong {
        bytes: trial.x as usize,
        rounds,
    };
    let [first, _] = pair(lab, trial, part)?;
    Ok(first.elapsed_ns / 2.0 / 1e3)
}

/// MB/s one way.
fn bandwidth(lab: &mut Lab, trial: &Trial) -> Result<f64, Failure> {
    // 10,000 messages of 32 KiB and more take seconds
    let whole = if trial.x >= 32 << 10 { 2000 } else { 10_000 };
    let messages = trial.iterations(whole, 1000);
    let part = Part::Stream {
        bytes: trial.x as usize,
        messages,
        is_sampled: false,
    };
    let [first, _] = pair(lab, trial, part)?;
    let bytes = trial.x as f64 * f64::from(messages);
    Ok(bytes / first.elapsed_ns * 1e3)
}

/// Buffers in use at the end whose buffers are fuller, percent.
fn buffer_use(lab: &mut Lab, trial: &Trial) -> Result<f64, Failure> {
    // short messages need many until the buffers are full
    let fill = trial.side.space_bytes() / trial.x as u32;
    let messages = trial.iterations(10_000, 1000).max(4 * fill);
    let messages = messages.min(trial.iterations(100_000, 10_000));
    let part = Part::Stream {
        bytes: trial.x as usize,
        messages,
        is_sampled: true,
    };
    let ends = pair(lab, trial, part)?;
    Ok(ends
        .map(|end| end.used_share)
        .into_iter()
        .fold(0.0, f64::max)
        * 100.0)
}

/// A round of bursts, us.
fn burst_time(lab: &mut Lab, trial: &Trial) -> Result<f64, Failure> {
    let part = Part::Bursts {
        bytes: 4096,
        messages: 100,
        compute_us: trial.x,
        rounds: trial.iterations(20, 10),
    };
    let [first, _] = pair(lab, trial, part)?;
    Ok(first.elapsed_ns / 1e3)
}

/// Time for the data set, ms.
fn application(lab: &mut Lab, trial: &Trial, application: Application) -> Result<f64, Failure> {
    let units = ((trial.x as usize) << 20) / UNIT_BYTES / INSTANCES;
    let parts = (0..application.filters().len()).map(|position| Part::Filter {
        application,
        position,
        bytes: UNIT_BYTES,
        // a data set is at most some GiB
        units: units as u32,
        passes: PASSES,
    });
    let parts: Vec<Part> = parts.collect();
    let chains: Vec<Chain> = (0..INSTANCES)
        .map(|_| Chain {
            parts: parts.clone(),
        })
        .collect();
    let found = lab.run(trial.side, SHORT_SPIN_US, &chains)?;
    let views: Vec<&Found> = found.iter().filter_map(|chain| chain.last()).collect();
    let seen = super::filters::seen(application.filters(), UNIT_BYTES, units, PASSES);
    if views.iter().any(|view| view.seen != seen) {
        return Err(Failure::new("the viewer has not seen what was read"));
    }
    let slowest = views.iter().map(|view| view.elapsed_ns).fold(0.0, f64::max);
    Ok(slowest / 1e6)
}
