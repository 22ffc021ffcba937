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
        /// All data of one initiator is ordered, whatever its length.
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
    /// `desired` (nothing: what is offered).
    ///
    /// Counts are as desired, within what handles can name. Lengths and features are at most what
    /// is offered, for these are matters of the transport. The floors of the header hold:
    /// max_waw_ordered_size 64 and max_war_ordered_size 8 always, max_pt_index 63 unless the
    /// program asks for less, which the suites do and expect to get (test/sfw, test_limits). A
    /// count of 0 is raised to 1.
    pub fn granted(desired: Option<&Limits>, offered: &Limits) -> Limits {
        let least = Limits {
            max_pt_index: offered.max_pt_index.max(63),
            ..*offered
        };
        let desired = desired.unwrap_or(&least);
        let objects = |wanted: u32| wanted.clamp(1, MOST_OBJECTS as u32);
        let length = |wanted: u64, most: u64| wanted.min(most);
        Limits {
            max_entries: objects(desired.max_entries),
            max_unexpected_headers: desired.max_unexpected_headers.clamp(1, MOST_WAITING),
            max_mds: objects(desired.max_mds),
            max_eqs: objects(desired.max_eqs),
            max_cts: objects(desired.max_cts),
            max_pt_index: desired.max_pt_index.clamp(1, LARGEST_PT_INDEX),
            max_iovecs: objects(desired.max_iovecs),
            max_list_size: objects(desired.max_list_size),
            max_triggered_ops: desired.max_triggered_ops.clamp(1, MOST_WAITING),
            max_msg_size: length(desired.max_msg_size, offered.max_msg_size),
            max_atomic_size: length(desired.max_atomic_size, offered.max_atomic_size),
            max_fetch_atomic_size: length(
                desired.max_fetch_atomic_size,
                offered.max_fetch_atomic_size,
            ),
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
            features: desired.features & offered.features,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floors_of_the_header_hold_and_small_wishes_are_granted() {
        let offered = Limits::default();
        let wish = Limits {
            max_entries: 4,
            max_pt_index: 3,
            max_msg_size: 512,
            max_waw_ordered_size: 8,
            max_war_ordered_size: 0,
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
