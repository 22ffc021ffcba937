//! What happened in runs.

/// What happened in a run, or in several.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Stats {
    /// Steps.
    pub steps: u64,
    /// Requests that were admitted or refused: puts in messages.
    pub short_puts: u64,
    /// Puts by RDMA.
    pub long_puts: u64,
    /// Gets in messages.
    pub short_gets: u64,
    /// Gets by RDMA.
    pub long_gets: u64,
    /// Exchanges.
    pub exchanges: u64,
    /// Requests that were refused.
    pub refused: u64,
    /// Grants of fewer bytes than were asked for.
    pub cut: u64,
    /// RDMA that was not begun because memory could not be reached.
    pub faults: u64,
    /// RDMA that waited for room in the send queue.
    pub jobs_waited: u64,
    /// Requests that were told *full*.
    pub full: u64,
    /// Messages that only gave credits back.
    pub credits: u64,
    /// Notifications that fired.
    pub notes: u64,
    /// Buffers that were unregistered.
    pub unregistered: u64,
    /// Buffers that were not, because an operation was under way.
    pub busy: u64,
    /// Connections that failed between two processes that lived.
    pub losses: u64,
    /// Processes that died.
    pub deaths: u64,
    /// Processes that were stopped for a time.
    pub stops: u64,
    /// Requests that were undeliverable.
    pub undeliverable: u64,
    /// Messages that a process found unsolicited when it slept.
    pub unheard: u64,
    /// Sleeps that a message or a completion ended.
    pub woken: u64,
    /// Messages that were looked at while RDMA of their connection was half done.
    pub between_pieces: u64,
    /// Leases that were given.
    pub leases: u64,
    /// Puts by leases.
    pub direct_puts: u64,
    /// Gets by leases.
    pub direct_gets: u64,
    /// Puts by leases that were counted.
    pub counted: u64,
}

impl Stats {
    /// Counts another run.
    pub fn add(&mut self, other: &Stats) {
        let mut other = *other;
        for (mine, others) in self.fields().into_iter().zip(other.fields()) {
            *mine += *others;
        }
    }

    fn fields(&mut self) -> [&mut u64; 26] {
        [
            &mut self.steps,
            &mut self.short_puts,
            &mut self.long_puts,
            &mut self.short_gets,
            &mut self.long_gets,
            &mut self.exchanges,
            &mut self.refused,
            &mut self.cut,
            &mut self.faults,
            &mut self.jobs_waited,
            &mut self.full,
            &mut self.credits,
            &mut self.notes,
            &mut self.unregistered,
            &mut self.busy,
            &mut self.losses,
            &mut self.deaths,
            &mut self.stops,
            &mut self.undeliverable,
            &mut self.unheard,
            &mut self.woken,
            &mut self.between_pieces,
            &mut self.leases,
            &mut self.direct_puts,
            &mut self.direct_gets,
            &mut self.counted,
        ]
    }
}
