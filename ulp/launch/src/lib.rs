//! Who the peers of a process are: what a launcher says to the ranks of a job, and they to it.
//!
//! Owns: the text of PMI-1 and PMI-2 ([`pmi`]), a client for each protocol ([`client`]: PMI-1 and
//! PMI-2 over a socket; [`pmix`]: PMIx by its library), which of them a process's environment names
//! ([`find`]), and the server of PMI-1 without its sockets ([`server`]). Must not know: MPI, SDP or
//! Portals, what the values mean that ranks leave for one another, how ranks of one host meet.
//! Every upper protocol with ranks uses this crate; `ferriband mpirun` is the server.

#![warn(missing_docs)]

pub mod client;
pub mod inherit;
pub mod pmi;
pub mod pmix;
pub mod server;

use client::{By, Pmi};
use pmi::Version;
use pmix::Pmix;
use std::env;
use std::fmt;
use std::os::fd::RawFd;

/// What went wrong between a process and its launcher, as a sentence for the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error(String);

impl Error {
    #[cold]
    fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl std::error::Error for Error {}

/// What a call of this crate returns.
pub type Outcome<T = ()> = Result<T, Error>;

/// Who this process is, by its launcher.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Name of the job, common to all its ranks and to no other job.
    pub job: String,
    /// Rank in the job.
    pub rank: u32,
    /// Ranks of the job.
    pub ranks: u32,
    /// Which of the job's programs this process runs, if the launcher says it.
    pub program: Option<u32>,
}

/// A process manager that the environment names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// One that speaks PMI; in this version if one is asked for.
    Pmi(By, Option<Version>),
    /// One that speaks PMIx.
    Pmix,
}

/// Which process manager the environment names. `engine` is the user's choice: auto, pmi1, pmi2,
/// pmix, or any other word for none. With `passes_over_fd` the descriptor in PMI_FD is not looked
/// at: it is left by a launcher with which this process speaks in another way.
pub fn find(engine: &str, passes_over_fd: bool) -> Option<Which> {
    let has = |name: &str| env::var_os(name).is_some_and(|value| !value.is_empty());
    let by = if has(client::FD) && !passes_over_fd {
        Some(By::Descriptor)
    } else {
        has(client::PORT).then_some(By::Port)
    };
    match (engine, by) {
        ("pmi1", Some(by)) => Some(Which::Pmi(by, Some(Version::One))),
        ("pmi2", Some(by)) => Some(Which::Pmi(by, Some(Version::Two))),
        ("auto", Some(by)) => Some(Which::Pmi(by, None)),
        ("auto" | "pmix", _) if has(pmix::NAMESPACE) => Some(Which::Pmix),
        _ => None,
    }
}

impl Which {
    /// A name of the place that the process manager has given to this process, unique among the
    /// processes of a host. None if the descriptor that leads to the process manager is not open
    /// any more, or leads to something else.
    pub fn place_name(self) -> Option<String> {
        match self {
            Self::Pmi(by, _) => by.place_name(),
            Self::Pmix => Some(pmix::place_name()),
        }
    }

    /// Connects. `pmix_library` is the file of PMIx's library; empty for the usual one.
    pub fn open(self, pmix_library: &str) -> Outcome<Engine> {
        match self {
            Self::Pmi(by, version) => Pmi::open(by, version).map(Engine::Pmi),
            Self::Pmix => Pmix::open(pmix_library).map(|pmix| Engine::Pmix(Box::new(pmix))),
        }
    }
}

/// A connection to the process manager that has started this process.
pub enum Engine {
    /// By PMI-1 or PMI-2.
    Pmi(Pmi),
    /// By PMIx.
    Pmix(Box<Pmix>),
}

impl Engine {
    /// Who this process is. An error if the process manager contradicts itself.
    pub fn place(&self) -> Outcome<Place> {
        let place = match self {
            Self::Pmi(pmi) => pmi.place(),
            Self::Pmix(pmix) => pmix.place(),
        };
        if place.ranks == 0 || place.rank >= place.ranks {
            return Err(Error::new(format!(
                "the launcher says that this is rank {} of {}",
                place.rank, place.ranks
            )));
        }
        Ok(place.clone())
    }

    /// Leaves `value` of rank `rank`, which is this process, for the other ranks: they find it
    /// after the next fence. The value has at most [`pmi::LONGEST_VALUE`] characters, none a space.
    pub fn put(&mut self, rank: u32, key: &str, value: &str) -> Outcome {
        match self {
            Self::Pmi(pmi) => pmi.put(&format!("ferriband-{key}-{rank}"), value),
            Self::Pmix(pmix) => pmix.put(&format!("ferriband-{key}"), value),
        }
    }

    /// What `rank` has left.
    pub fn get(&mut self, rank: u32, key: &str) -> Outcome<String> {
        match self {
            Self::Pmi(pmi) => pmi.get(&format!("ferriband-{key}-{rank}")),
            Self::Pmix(pmix) => pmix.get(rank, &format!("ferriband-{key}")),
        }
    }

    /// Comes to a fence: it is over when all ranks of the job have come to it.
    pub fn begin_fence(&mut self) -> Outcome {
        match self {
            Self::Pmi(pmi) => pmi.begin_fence(),
            Self::Pmix(pmix) => pmix.begin_fence(),
        }
    }

    /// Whether the fence is over. Until it is, nothing else may be asked.
    pub fn is_fence_over(&mut self) -> Outcome<bool> {
        match self {
            Self::Pmi(pmi) => pmi.is_fence_over(),
            Self::Pmix(pmix) => pmix.is_fence_over(),
        }
    }

    /// The descriptor that can be read when a fence may be over.
    pub fn fd(&self) -> RawFd {
        match self {
            Self::Pmi(pmi) => pmi.fd(),
            Self::Pmix(pmix) => pmix.fd(),
        }
    }

    /// Has all ranks of the job ended, with status `code`. Whether this process is ended, too, is
    /// the launcher's choice.
    pub fn abort(&mut self, code: i32, text: &str) {
        match self {
            Self::Pmi(pmi) => pmi.abort(code, text),
            Self::Pmix(pmix) => pmix.abort(code, text),
        }
    }

    /// Says that this rank may end.
    pub fn leave(self) {
        match self {
            Self::Pmi(pmi) => pmi.leave(),
            Self::Pmix(pmix) => pmix.leave(),
        }
    }
}
