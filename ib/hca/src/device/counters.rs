//! Counters of ports, as this process keeps them for everybody on the host to see.
//!
//! Owns: the places in the host's registry where it counts, one for each device that has taken packets. Must not know: what is counted where.

use std::sync::OnceLock;

use ferriband_admin::Counter;
use ferriband_memory::host::{Host, PORT_COUNTERS, PortCounters};

const _: () = assert!(Counter::COUNT <= PORT_COUNTERS);

/// The counters of one port. Where the registry has no room left, nothing is counted.
#[derive(Clone, Debug, Default)]
pub(crate) struct PortCounts(Option<PortCounters>);

impl PortCounts {
    /// Counts: one relaxed addition.
    #[inline]
    pub fn add(&self, counter: Counter, by: u64) {
        if let Some(counters) = &self.0 {
            counters.add(counter as usize, by);
        }
    }
}

/// The counters of all ports, by interface.
#[derive(Debug, Default)]
pub(crate) struct AllCounts {
    ethernet: OnceLock<Vec<(u32, PortCounts)>>,
    /// The InfiniBand port's, whose number is 0.
    native: OnceLock<PortCounts>,
}

impl AllCounts {
    /// The Ethernet devices take packets from now on.
    pub fn open_ethernet(&self, host: &Host) {
        self.ethernet.get_or_init(|| {
            let ethernet = crate::device::all()
                .iter()
                .filter(|device| device.is_ethernet());
            ethernet
                .map(|device| {
                    let ifindex = device.info.ifindex;
                    (ifindex, PortCounts(host.count_port(ifindex).ok()))
                })
                .collect()
        });
    }

    /// The InfiniBand port does.
    pub fn open_native(&self, host: &Host) {
        self.native
            .get_or_init(|| PortCounts(host.count_port(0).ok()));
    }

    /// Those of an interface; those of the first if it is none of ours, as that by which a host talks to itself.
    #[inline]
    pub fn of(&self, ifindex: u32) -> &PortCounts {
        static NOWHERE: PortCounts = PortCounts(None);
        if ifindex == 0 {
            return self.native.get().unwrap_or(&NOWHERE);
        }
        let ethernet = self.ethernet.get().map_or(&[][..], Vec::as_slice);
        let exact = ethernet.iter().find(|(of, _)| *of == ifindex);
        exact
            .or(ethernet.first())
            .map_or(&NOWHERE, |(_, counts)| counts)
    }
}

/// What all processes of this host and user have counted at an interface, those that ended included.
pub(crate) fn sums(host: &Host, ifindex: u32) -> [u64; Counter::COUNT] {
    let mut sums = [0u64; Counter::COUNT];
    for count in host.port_counts() {
        if count.ifindex == ifindex {
            for (sum, value) in sums.iter_mut().zip(count.counters) {
                *sum = sum.wrapping_add(value);
            }
        }
    }
    sums
}
