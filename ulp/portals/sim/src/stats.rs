//! What happened in runs.

macro_rules! stats {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// What happened in a run, or in several.
        #[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
        pub struct Stats {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl Stats {
            /// Counts another run.
            pub fn add(&mut self, other: &Stats) {
                $(self.$name += other.$name;)*
            }

            /// What is counted, by name.
            pub fn all(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($name), self.$name),)*]
            }
        }
    };
}

stats! {
    /// Steps.
    steps,
    /// Requests that went in messages.
    short,
    /// Requests by RDMA.
    long,
    /// Leases that were given.
    lent,
    /// Leases that were over.
    returned,
    /// Puts by leases.
    direct_puts,
    /// Of those, how many took their bytes from the program's memory as they went.
    direct_long,
    /// Gets by leases.
    direct_gets,
    /// Gets by leases that were tried again.
    read_again,
    /// Atomic operations by leases.
    direct_atomics,
    /// Of those, conditional swaps that have swapped.
    direct_swaps,
    /// Operations that a lease did not allow, or not yet.
    not_direct,
    /// Puts by leases that counters of targets have counted.
    counted_direct,
    /// Messages and operations by leases with a fence.
    fenced,
    /// Calls that waited for leases to come back.
    recalls,
    /// Calls that gave up waiting for that.
    given_up,
    /// Requests of a process to itself.
    own,
    /// Requests that were let in.
    admitted,
    /// Requests that were refused.
    refused,
    /// Requests that were cut.
    cut,
    /// Unexpected headers.
    headers,
    /// Unexpected headers that were met.
    met,
    /// Of those, how many were met before their bytes were there.
    met_early,
    /// Table entries that were disabled for want of something.
    disabled,
    /// Of those, how many for want of room in an event queue.
    rings_full,
    /// Table entries that were enabled again.
    enabled,
    /// Atomic operations and exchanges.
    atomics,
    /// Puts from volatile memory.
    volatile,
    /// Triggered operations that fired, on counters, too.
    fired,
    /// Outcomes that were counted.
    counted,
    /// Of those, failures.
    counted_failures,
    /// Events that were taken.
    events,
    /// Entries that were appended.
    appended,
    /// Entries that were unlinked by a call.
    unlinked,
    /// Entries that were not, because something was under way.
    in_use,
    /// Searches.
    searches,
    /// Descriptors that were released.
    released,
    /// Descriptors that were not, because an operation was under way.
    busy,
    /// Memory that RDMA could not reach.
    faults,
    /// Memory in too many pieces for RDMA.
    staged,
    /// RDMA that waited for room in the send queue.
    jobs_waited,
    /// Requests that were told *full*.
    full,
    /// Connections that came to be.
    meetings,
    /// Connections that failed.
    losses,
    /// Processes that died.
    deaths,
    /// Processes that were stopped for a time.
    stops,
    /// Operations that were undeliverable.
    undeliverable,
    /// Messages that a process found unsolicited when it slept.
    unheard,
    /// Sleeps that a message or a completion ended.
    woken,
}
