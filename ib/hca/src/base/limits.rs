//! What the device offers: its attributes, port and tables.

use ferriband_transport::types::Sge;
use ferriband_wire::Mtu;

use crate::base::error::Error;

/// Vendor identifier: an OUI of the locally administered range, nobody's.
pub const VENDOR_ID: u32 = 0x02_fe_77;
/// Part identifier.
pub const VENDOR_PART_ID: u32 = 0x4642;
/// Queue pairs of a process.
pub const MAX_QP: u32 = 65_000;
/// Requests of a queue.
pub const MAX_QP_WR: u32 = 32_768;
/// Elements of a scatter/gather list.
pub const MAX_SGE: u32 = 30;
/// Inline bytes of a send.
pub const MAX_INLINE: u32 = 1024;
/// Completion queues.
pub const MAX_CQ: u32 = 65_536;
/// Entries of a completion queue.
pub const MAX_CQE: u32 = 4_194_303;
/// Regions and windows of a process.
pub const MAX_MR: u32 = ferriband_transport::direct::layout::MAX_KEYS as u32 - 2;
/// Protection domains.
pub const MAX_PD: u32 = 65_536;
/// Shared receive queues.
pub const MAX_SRQ: u32 = 65_536;
/// Requests of a shared receive queue.
pub const MAX_SRQ_WR: u32 = 32_768;
/// Address handles.
pub const MAX_AH: u32 = 1 << 20;
/// Reads and atomics outstanding on a queue pair.
pub const MAX_RD_ATOM: u32 = 128;
/// Longest region.
pub const MAX_MR_SIZE: u64 = 1 << 47;
/// Bytes of device memory.
pub const MAX_DM: u64 = 64 << 20;
/// Longest message.
pub const MAX_MESSAGE: u32 = 1 << 31;
/// Completion vectors.
pub const COMP_VECTORS: u32 = 4;
/// Processes and queue pairs of multicast groups.
pub const MAX_MCAST_GROUPS: u32 = 4096;
/// Queue pairs of a group.
pub const MAX_MCAST_QPS: u32 = 240;
/// Ticks of the completion timestamp, in kHz: nanoseconds.
pub const CORE_CLOCK_KHZ: u64 = 1_000_000;
/// The port's MTU.
pub const MTU: Mtu = Mtu::M4096;
/// Entries of the GID table; only the first is in use: the port's default GID.
pub const GID_TABLE: u32 = 8;
/// Default partition.
pub const DEFAULT_PKEY: u16 = 0xffff;
/// Subnet prefix of the default GID.
pub const SUBNET_PREFIX: u64 = 0xfe80_0000_0000_0000;

/// A bound on what a queue keeps of a request beside its elements and inline data.
const REQUEST_BYTES: usize = 256;

/// Bytes, at the most, of a queue of requests with so many elements and inline bytes each.
pub(crate) fn queue_bytes(requests: u32, sges: u32, inline: u32) -> usize {
    requests as usize * (REQUEST_BYTES + sges as usize * size_of::<Sge>() + inline as usize)
}

/// Checks that the memory of queues can be had, all of it at once. The queues themselves are allocated by means that end
/// the process where there is none, which a program that asks for too much must not suffer.
///
/// # Errors
/// `NoMemory` if it cannot.
pub(crate) fn check_room(bytes: usize) -> Result<(), Error> {
    let mut room = Vec::<u8>::new();
    room.try_reserve_exact(bytes)
        .map_err(|_| Error::NoMemory("no memory is left for queues of this size"))?;
    // an allocation that nobody looks at may be left out by the compiler
    std::hint::black_box(&room);
    Ok(())
}
