//! The state of messages between two ranks, with what moves them.

use crate::constants::{MPI_ERRORS_ABORT, MPI_ERRORS_ARE_FATAL};
use crate::errors::Outcome;
use crate::ground::job::Job;
use crate::host::{self, Host, LargePages, Shm};
use crate::net::Net;
use crate::objects::comms::WORLD;
use crate::p2p::point::Point;
use crate::transport::contract::Reached;
use crate::transport::shm::ways::Ways;
use ferriband_mpi_proto::sizes::SharedSizes;

/// Messages between two ranks, and what moves them.
pub struct Runtime {
    /// Messages between two ranks.
    pub point: Point,
    /// By what each rank of the world is reached.
    pub reached: Box<[Reached]>,
    /// The other ranks of the host; none if this process is alone.
    pub host: Option<Host>,
    /// Ranks that are reached by verbs; none if no rank is.
    pub net: Option<Box<Net>>,
    /// The channels between this rank and those of its host.
    pub shm: Shm,
    /// Ranks of this host that have been offered long messages, and how many of them are not over.
    pub offered: Vec<(u32, u32)>,
    /// Long buffers, which the kernel may put into large pages.
    pub pages: LargePages,
    /// Which way long messages of this host come.
    pub ways: Ways,
    /// What was set.
    pub settings: Settings,
}

/// What was set, by the room that it is for.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Lengths of messages by memory that ranks share, and the longest that is sent eagerly
    /// everywhere.
    pub sizes: SharedSizes,
    /// Long messages of one host.
    pub shm: host::limits::Limits,
    /// The job.
    pub job: Job,
}

impl Runtime {
    /// For a process that is rank of the world's `host`, or alone.
    pub fn new(host: Option<Host>, mut settings: Settings) -> Outcome<Self> {
        if let Some(host) = &host {
            settings.sizes = settings.sizes.within(host.longest());
        }
        let (rank, size) = host
            .as_ref()
            .map_or((0, 1), |host| (host.me(), host.ranks()));
        Ok(Self {
            point: Point::new(rank, size)?,
            reached: [Reached::Own].into(),
            host,
            net: None,
            shm: Shm::new(size, settings.sizes.exchange),
            offered: Vec::new(),
            pages: LargePages::new(settings.shm.large_pages),
            ways: Ways::default(),
            settings,
        })
    }

    /// Keeps the launcher's knowledge of whether an error of the world ends this rank.
    pub fn note_fatal(&self) {
        if let Some(host) = &self.host {
            let handler = self.point.objects.comms[WORLD].errhandler;
            host.set_fatal([MPI_ERRORS_ARE_FATAL, MPI_ERRORS_ABORT].contains(&handler));
        }
    }
}
