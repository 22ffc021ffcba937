//! The state of messages between two ranks, with what moves them.

use crate::constants::{MPI_ERRORS_ABORT, MPI_ERRORS_ARE_FATAL};
use crate::errors::Outcome;
use crate::ground::job::Job;
use crate::objects::comms::WORLD;
use crate::p2p::point::Point;
use crate::transport::Transports;

/// Messages between two ranks, and what moves them.
pub struct Runtime {
    /// Messages between two ranks.
    pub point: Point,
    /// What moves them.
    pub transports: Transports,
    /// What is known of the job.
    pub job: Job,
}

impl Runtime {
    /// For a process that is a rank of the transports' host, or alone.
    pub fn new(transports: Transports, job: Job) -> Outcome<Self> {
        let host = transports.host.as_ref();
        let (rank, size) = host.map_or((0, 1), |host| (host.me(), host.ranks()));
        Ok(Self {
            point: Point::new(rank, size)?,
            transports,
            job,
        })
    }

    /// Whether an error of the world ends this rank: the program has not asked for errors to be
    /// returned.
    pub fn is_error_fatal(&self) -> bool {
        let handler = self.point.objects.comms[WORLD].errhandler;
        [MPI_ERRORS_ARE_FATAL, MPI_ERRORS_ABORT].contains(&handler)
    }

    /// Keeps the launcher's knowledge of that.
    pub fn note_fatal(&self) {
        if let Some(host) = &self.transports.host {
            host.set_fatal(self.is_error_fatal());
        }
    }
}
