//! Limits of an interface (ptl_ni_limits_t): what a program may ask for, and what it gets.
//!
//! Owns: defaults, floors and ceilings. Must not know: what is counted against them. Data comes
//! from PtlNIInit.

use crate::handles::MOST_OBJECTS;

bitflags::bitflags! {
    /// What an interface can do beyond the rest (the header's PTL_TARGET_BIND_INACCESSIBLE and so
    /// on).
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
    pub struct Features: u32 {
        /// List entries may name memory that is not accessible.
        const BIND_INACCESSIBLE = 1;
        /// Requests of one initiator of at most max_waw_ordered_size bytes are carried out in order
        /// at all addresses, and not at one alone.
        const TOTAL_DATA_ORDERING = 1 << 1;
        /// Atomic operations are coherent with those of the processor.
        const COHERENT_ATOMICS = 1 << 2;
    }
}

/// Limits of an interface, with the names of the header. Lengths are bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// List entries that exist at once, searches and entries that wait for a trigger among them.
    pub max_entries: u32,
    /// Unexpected headers of all table entries together.
    pub max_unexpected_headers: u32,
    /// Memory descriptors.
    pub max_mds: u32,
    /// Event queues.
    pub max_eqs: u32,
    /// Counting events.
    pub max_cts: u32,
    /// The largest index of the portal table, 63 or more.
    pub max_pt_index: u32,
    /// Pieces of one descriptor or entry with PTL_IOVEC.
    pub max_iovecs: u32,
    /// Entries of one list.
    pub max_list_size: u32,
    /// Triggered operations that wait for their threshold or, having reached it, for the transport.
    pub max_triggered_ops: u32,
    /// A message.
    pub max_msg_size: u64,
    /// An atomic operation that returns nothing.
    pub max_atomic_size: u64,
    /// An atomic operation that returns the value before.
    pub max_fetch_atomic_size: u64,
    /// A message within which a write and what follows it to one address are ordered, 64 or more.
    pub max_waw_ordered_size: u64,
    /// A message within which a read and the write that follows it to one address are ordered, 8 or
    /// more.
    pub max_war_ordered_size: u64,
    /// A PUT or atomic from a descriptor with PTL_MD_VOLATILE whose buffer is free when the call
    /// returns.
    pub max_volatile_size: u64,
    /// What the interface can do beyond the rest.
    pub features: Features,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            max_entries: 16_384,
            max_unexpected_headers: 16_384,
            max_mds: 4_096,
            max_eqs: 1_024,
            max_cts: 4_096,
            max_pt_index: 255,
            max_iovecs: 1_024,
            max_list_size: 16_384,
            max_triggered_ops: 16_384,
            max_msg_size: 1 << 32,
            max_atomic_size: 4_096,
            max_fetch_atomic_size: 4_096,
            max_waw_ordered_size: 64,
            max_war_ordered_size: 8,
            max_volatile_size: 512,
            features: Features::empty(),
        }
    }
}

/// The largest index that a portal table may have.
const LARGEST_PT_INDEX: u32 = 4_095;
/// The most unexpected headers and triggered operations that may be asked for.
const MOST_WAITING: u32 = 1 << 20;

impl Limits {
    /// What an interface gets whose implementation offers `offered` and whose program asks for
    /// `desired` (nothing: what is offered, without features).
    ///
    /// Counts are as desired, within what handles can name. Lengths and features are at most what
    /// is offered, for these are matters of the transport. The floors of the header hold:
    /// max_waw_ordered_size 64 and max_war_ordered_size 8 always, max_pt_index 63 unless the
    /// program asks for less, which the suites do and expect to get (test/sfw, test_limits). What
    /// is 0 was not filled in by the program, which uses it all the same (test/sfw: triggered
    /// operations, fetching atomics): it gets what is offered, fetching atomics what atomics got.
    pub fn granted(desired: Option<&Limits>, offered: &Limits) -> Limits {
        let least = Limits {
            max_pt_index: offered.max_pt_index.max(63),
            ..*offered
        };
        // each costs speed: who asks for none gets none
        let features = desired.map_or(Features::empty(), |desired| desired.features);
        let features = features & offered.features;
        let desired = desired.unwrap_or(&least);
        let count = |wanted: u32, offered: u32, most: u32| match wanted {
            0 => offered.clamp(1, most),
            wanted => wanted.min(most),
        };
        let objects = |wanted, offered| count(wanted, offered, MOST_OBJECTS as u32);
        let waiting = |wanted, offered| count(wanted, offered, MOST_WAITING);
        let length = |wanted: u64, most: u64| match wanted {
            0 => most,
            wanted => wanted.min(most),
        };
        let max_atomic_size = length(desired.max_atomic_size, offered.max_atomic_size);
        let fetched = match desired.max_fetch_atomic_size {
            0 => max_atomic_size,
            wanted => wanted,
        };
        Limits {
            max_entries: objects(desired.max_entries, least.max_entries),
            max_unexpected_headers: waiting(
                desired.max_unexpected_headers,
                least.max_unexpected_headers,
            ),
            max_mds: objects(desired.max_mds, least.max_mds),
            max_eqs: objects(desired.max_eqs, least.max_eqs),
            max_cts: objects(desired.max_cts, least.max_cts),
            max_pt_index: count(desired.max_pt_index, least.max_pt_index, LARGEST_PT_INDEX),
            max_iovecs: objects(desired.max_iovecs, least.max_iovecs),
            max_list_size: objects(desired.max_list_size, least.max_list_size),
            max_triggered_ops: waiting(desired.max_triggered_ops, least.max_triggered_ops),
            max_msg_size: length(desired.max_msg_size, offered.max_msg_size),
            max_atomic_size,
            max_fetch_atomic_size: length(fetched, offered.max_fetch_atomic_size),
            max_waw_ordered_size: length(
                desired.max_waw_ordered_size,
                offered.max_waw_ordered_size,
            )
            .max(64),
            max_war_ordered_size: length(
                desired.max_war_ordered_size,
                offered.max_war_ordered_size,
            )
            .max(8),
            max_volatile_size: length(desired.max_volatile_size, offered.max_volatile_size),
            features,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_asks_for_no_feature_gets_none() {
        let offered = Limits {
            features: Features::all(),
            ..Limits::default()
        };
        let features = |desired| Limits::granted(desired, &offered).features;
        assert_eq!(features(None), Features::empty());
        assert_eq!(features(Some(&offered)), Features::all());
        assert_eq!(features(Some(&Limits::default())), Features::empty());
    }

    #[test]
    fn floors_of_the_header_hold_and_small_wishes_are_granted() {
        let offered = Limits::default();
        let wish = Limits {
            max_entries: 4,
            max_pt_index: 3,
            max_msg_size: 512,
            max_waw_ordered_size: 8,
            max_war_ordered_size: 1,
            ..offered
        };
        let got = Limits::granted(Some(&wish), &offered);
        assert_eq!(
            (got.max_entries, got.max_pt_index, got.max_msg_size),
            (4, 3, 512)
        );
        assert_eq!(
            (got.max_waw_ordered_size, got.max_war_ordered_size),
            (64, 8)
        );
        assert_eq!(Limits::granted(None, &offered), offered);
        let nothing = Limits {
            max_entries: 0,
            max_pt_index: 0,
            max_triggered_ops: 0,
            max_unexpected_headers: 0,
            max_fetch_atomic_size: 0,
            max_volatile_size: 0,
            ..offered
        };
        assert_eq!(Limits::granted(Some(&nothing), &offered), offered);
        let small_atomics = Limits {
            max_atomic_size: 4,
            ..nothing
        };
        let got = Limits::granted(Some(&small_atomics), &offered);
        assert_eq!((got.max_atomic_size, got.max_fetch_atomic_size), (4, 4));
        let few = Limits {
            max_pt_index: 3,
            ..offered
        };
        assert_eq!(Limits::granted(None, &few).max_pt_index, 63);
    }

    #[test]
    fn no_more_is_promised_than_is_offered_or_can_be_named() {
        let offered = Limits {
            features: Features::COHERENT_ATOMICS,
            ..Limits::default()
        };
        let wish = Limits {
            max_volatile_size: 1 << 20,
            max_cts: u32::MAX,
            features: Features::all(),
            ..offered
        };
        let got = Limits::granted(Some(&wish), &offered);
        assert_eq!(
            (got.max_volatile_size, got.max_cts, got.features),
            (512, 0xffff, Features::COHERENT_ATOMICS)
        );
    }
}
