//! Where things lie in a process segment and in a pair segment. Offsets are bytes.
//!
//! A process segment is written by its owner; peers write only its pending bits. Its tables are sparse: pages that
//! no entry uses cost nothing.

use super::Words;
use crate::types::Access;

/// First word of a process segment: "FERRI" and the layout's version.
pub const MAGIC: u64 = 0x4645_5252_4900_0002;
/// Offset of the magic word.
pub const PROC_MAGIC: usize = 0;
/// Offset of the owner's slot and generation (slot in the low 32 bits).
pub const PROC_IDENTITY: usize = 8;
/// Offset of the owner's pid.
pub const PROC_PID: usize = 16;
/// Offset of the owner's start time in clock ticks.
pub const PROC_START: usize = 24;
/// Offset of the lock that says that the owner lives (a robust mutex; 64 bytes).
pub const PROC_ALIVE: usize = 64;
/// Offset of the word that is 1 while nobody in the owner polls and its progress thread sleeps.
pub const PROC_ASLEEP: usize = 128;
/// Offset of the summary of pending words: bit i says that word i has bits.
pub const PROC_PENDING_SUMMARY: usize = 192;
/// Offset of the pending bits, one per process slot.
pub const PROC_PENDING: usize = 256;
/// Process slots on a host.
pub const MAX_PROCESSES: usize = 4096;
/// Offset of the in-flight marks.
pub const PROC_MARKS: usize = 1024;
/// In-flight marks of a process.
pub const MARKS: usize = 32;
/// Bytes of a mark: a line of its own.
pub const MARK_BYTES: usize = 64;
/// Offset of the list of QPN blocks that the owner holds: block number + 1, in order.
pub const PROC_BLOCKS: usize = 4096;
/// QPN blocks that a process may hold.
pub const MAX_BLOCKS: usize = 256;
/// Queue pairs of a block.
pub const BLOCK_QPS: u32 = 256;
/// Offset of the queue pair table.
pub const PROC_QPS: usize = 8192;
/// Bytes of a queue pair's entry.
pub const QP_BYTES: usize = 32;
/// Queue pairs of a process.
pub const MAX_QPS: usize = MAX_BLOCKS * BLOCK_QPS as usize;
/// Offset of the key table.
pub const PROC_KEYS: usize = 4 << 20;
/// Bytes of a key's entry: one line.
pub const KEY_BYTES: usize = 64;
/// Regions and windows of a process.
pub const MAX_KEYS: usize = 1 << 18;
/// Length of a process segment.
pub const PROC_LEN: usize = PROC_KEYS + MAX_KEYS * KEY_BYTES;

/// Offset of a queue pair's entry by local index.
pub const fn qp_offset(index: usize) -> usize {
    PROC_QPS + (index % MAX_QPS) * QP_BYTES
}

/// Offset of a key's entry by table index.
pub const fn key_offset(index: usize) -> usize {
    PROC_KEYS + (index % MAX_KEYS) * KEY_BYTES
}

/// Table index of a key: its upper 24 bits; the low 8 vary from use to use.
pub const fn key_index(key: u32) -> usize {
    (key >> 8) as usize
}

const QP_VALID: u64 = 1 << 63;
const QP_RECEIVES: u64 = 1 << 62;
/// Of an entry that is not valid: its queue pair is in the error state.
const QP_FAILED: u64 = 1 << 61;

/// A queue pair as its peers see it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QpEntry {
    /// Its number.
    pub qpn: u32,
    /// Requests are accepted: RTR, RTS or SQD.
    pub receives: bool,
    /// Remote rights.
    pub access: Access,
    /// Protection domain.
    pub pd: u32,
    /// The peer's queue pair.
    pub dest_qpn: u32,
    /// The peer's process slot.
    pub dest_slot: u32,
}

impl QpEntry {
    /// Publishes the entry; the word with the valid bit goes last.
    pub fn write<W: Words>(&self, seg: &W, index: usize) {
        let at = qp_offset(index);
        seg.store(at + 8, u64::from(self.pd));
        seg.store(
            at + 16,
            u64::from(self.dest_qpn) | u64::from(self.dest_slot) << 32,
        );
        let receives = if self.receives { QP_RECEIVES } else { 0 };
        seg.store(
            at,
            QP_VALID | receives | u64::from(self.access.bits() & 0xf) << 32 | u64::from(self.qpn),
        );
    }

    /// Takes the entry back. The caller then waits for marks.
    pub fn revoke<W: Words>(seg: &W, index: usize) {
        seg.store(qp_offset(index), 0);
        seg.fence();
    }

    /// Takes the entry back from peers, and leaves behind that the queue pair is in the error state: for those who ask why nothing answers.
    pub fn fail<W: Words>(seg: &W, index: usize, qpn: u32) {
        seg.store(qp_offset(index), QP_FAILED | u64::from(qpn));
        seg.fence();
    }

    /// True if an entry was taken back because its queue pair, of this number, is in the error state.
    pub fn has_failed<W: Words>(seg: &W, index: usize, qpn: u32) -> bool {
        seg.load(qp_offset(index)) == QP_FAILED | u64::from(qpn)
    }

    /// Reads the entry; None when it is not valid.
    #[inline]
    pub fn read<W: Words>(seg: &W, index: usize) -> Option<Self> {
        let at = qp_offset(index);
        let word = seg.load(at);
        if word & QP_VALID == 0 {
            return None;
        }
        let dest = seg.load(at + 16);
        Some(QpEntry {
            qpn: word as u32 & 0xff_ffff,
            receives: word & QP_RECEIVES != 0,
            access: Access::from_bits_truncate((word >> 32) as u32 & 0xf),
            pd: seg.load(at + 8) as u32,
            dest_qpn: dest as u32,
            dest_slot: (dest >> 32) as u32,
        })
    }
}

/// Index of a queue pair in the table of the process that owns it; None if it does not hold the number's block.
pub fn find_qp<W: Words>(seg: &W, qpn: u32) -> Option<u32> {
    let block = u64::from(qpn / BLOCK_QPS) + 1;
    (0..MAX_BLOCKS)
        .map(|ordinal| (ordinal, seg.load(PROC_BLOCKS + ordinal * 8)))
        .take_while(|(_, held)| *held != 0)
        .find(|(_, held)| *held == block)
        .map(|(ordinal, _)| ordinal as u32 * BLOCK_QPS + qpn % BLOCK_QPS)
}

const KEY_VALID: u64 = 1 << 63;
const KEY_WINDOW: u64 = 1 << 62;

/// A memory region or bound window as its peers see it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KeyEntry {
    /// The whole key.
    pub key: u32,
    /// Rights.
    pub access: Access,
    /// First address by which requests name it.
    pub iova: u64,
    /// Length in bytes.
    pub length: u64,
    /// Process address of its first byte.
    pub addr: u64,
    /// Protection domain.
    pub pd: u32,
    /// Identifier of the mapping that covers it, 0 for private memory.
    pub map_id: u32,
    /// Offset of its first byte in the mapping's file.
    pub map_offset: u64,
    /// For a type 2 window: the one queue pair that may be addressed by it, +1; else 0.
    pub only_qp: u32,
    /// It is a window, not a region.
    pub window: bool,
}

impl KeyEntry {
    /// Publishes the entry; the word with the valid bit goes last.
    pub fn write<W: Words>(&self, seg: &W, index: usize) {
        let at = key_offset(index);
        seg.store(at + 8, self.iova);
        seg.store(at + 16, self.length);
        seg.store(at + 24, self.addr);
        seg.store(at + 32, u64::from(self.pd) | u64::from(self.map_id) << 32);
        seg.store(at + 40, self.map_offset);
        seg.store(at + 48, u64::from(self.only_qp));
        let window = if self.window { KEY_WINDOW } else { 0 };
        // bits 32..53 hold the rights, all 21 of them
        seg.store(
            at,
            KEY_VALID
                | window
                | u64::from(self.access.bits() & 0x1f_ffff) << 32
                | u64::from(self.key),
        );
    }

    /// Takes the entry back. The caller then waits for marks.
    pub fn revoke<W: Words>(seg: &W, index: usize) {
        seg.store(key_offset(index), 0);
        seg.fence();
    }

    /// Reads the entry of `key`; None when it is not valid or belongs to another use of the slot.
    #[inline]
    pub fn read<W: Words>(seg: &W, key: u32) -> Option<Self> {
        let index = key_index(key);
        if index >= MAX_KEYS {
            return None;
        }
        let at = key_offset(index);
        let word = seg.load(at);
        if word & KEY_VALID == 0 || word as u32 != key {
            return None;
        }
        let pd_map = seg.load(at + 32);
        Some(KeyEntry {
            key,
            access: Access::from_bits_truncate((word >> 32) as u32 & 0x1f_ffff),
            iova: seg.load(at + 8),
            length: seg.load(at + 16),
            addr: seg.load(at + 24),
            pd: pd_map as u32,
            map_id: (pd_map >> 32) as u32,
            map_offset: seg.load(at + 40),
            only_qp: seg.load(at + 48) as u32,
            window: word & KEY_WINDOW != 0,
        })
    }

    /// Offset into the region of `len` bytes at `addr`; None when they do not lie inside. No sum can wrap
    /// (CVE-2016-8636).
    #[inline]
    pub fn offset_of(&self, addr: u64, len: u64) -> Option<u64> {
        let offset = addr.wrapping_sub(self.iova);
        if offset <= self.length && len <= self.length - offset {
            Some(offset)
        } else {
            None
        }
    }
}

/// Records of a ring.
pub const RING_RECORDS: usize = 1024;
/// Bytes of a record: one line.
pub const RECORD_BYTES: usize = 64;
/// Bytes of a ring's payload area.
pub const RING_DATA: usize = 256 << 10;
/// Offset of the head word in a ring: the position below which everything was answered, and above it (16 bits) the count
/// of answers that lie in records.
pub const RING_HEAD: usize = 0;
/// Offset of the records in a ring.
pub const RING_RECORDS_AT: usize = 128;
/// Offset of the payload area in a ring.
pub const RING_DATA_AT: usize = RING_RECORDS_AT + RING_RECORDS * RECORD_BYTES;
/// Length of a ring.
pub const RING_LEN: usize = (RING_DATA_AT + RING_DATA).next_multiple_of(4096);
/// Length of a pair segment: the ring of the lower slot, then that of the higher.
pub const PAIR_LEN: usize = 2 * RING_LEN;

/// Offset of the ring from process slot `from` to `to` in their pair segment.
pub const fn ring_offset(from: u32, to: u32) -> usize {
    if from <= to { 0 } else { RING_LEN }
}
