//! What each room is told of the job.

/// What the runtime is told of its job.
#[derive(Clone, Copy, Debug)]
pub struct Job {
    /// Rounds without news before the core is given away.
    pub spins: u32,
    /// Whether MPI_Finalize tells what has gone which way.
    pub stats: bool,
    /// MPI_THREAD_SINGLE to MPI_THREAD_MULTIPLE.
    pub threads: i32,
    /// Which of the job's programs this is.
    pub program: u32,
}
