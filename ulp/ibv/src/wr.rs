//! Work requests: builders over borrowed arrays, in the layout of the C API, so posting copies nothing.
//!
//! ```
//! use ferriband_ibv::{Element, RKey, SendFlags, SendWr};
//!
//! let inline = [Element::inline(b"eight by")];
//! let wr = SendWr::write(7, 0x7f00_0000_1000, RKey(0x42), &inline).flags(SendFlags::INLINE);
//! assert_eq!(wr.byte_len(), 8);
//! ```

use crate::objects::ah::Ah;
use crate::types::{LKey, QKey, Qpn, RKey, closed};
use ferriband_verbs_sys as sys;
use std::marker::PhantomData;

closed! {
    /// What a send queue can be asked for.
    WrOpcode: sys::ibv_wr_opcode {
        /// RDMA WRITE.
        RdmaWrite = sys::IBV_WR_RDMA_WRITE,
        /// RDMA WRITE with immediate data.
        RdmaWriteWithImm = sys::IBV_WR_RDMA_WRITE_WITH_IMM,
        /// SEND.
        Send = sys::IBV_WR_SEND,
        /// SEND with immediate data.
        SendWithImm = sys::IBV_WR_SEND_WITH_IMM,
        /// RDMA READ.
        RdmaRead = sys::IBV_WR_RDMA_READ,
        /// Compare and swap.
        CompareSwap = sys::IBV_WR_ATOMIC_CMP_AND_SWP,
        /// Fetch and add.
        FetchAdd = sys::IBV_WR_ATOMIC_FETCH_AND_ADD,
    }
}

bitflags::bitflags! {
    /// How a request is to be executed.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct SendFlags: u32 {
        /// Only after all READs and atomics before it.
        const FENCE = sys::IBV_SEND_FENCE;
        /// With a completion.
        const SIGNALED = sys::IBV_SEND_SIGNALED;
        /// Wakes a receiver that asked for solicited events only.
        const SOLICITED = sys::IBV_SEND_SOLICITED;
        /// The bytes are copied during the call: elements may be any slices, and need no key.
        const INLINE = sys::IBV_SEND_INLINE;
    }
}

/// A piece of memory in a request: registered memory with its key, or (in inline requests only) any bytes.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct Element<'a> {
    pub(crate) c: sys::ibv_sge,
    /// The bytes of an inline element are borrowed; registered memory is kept by its region.
    borrowed: PhantomData<&'a [u8]>,
}

/// The key that no element but an inline one has: 0 is no valid local key of any provider's region that a program registered.
const NO_KEY: u32 = 0;

impl<'a> Element<'a> {
    /// Bytes for an inline request. In a request that is not inline the post refuses it with EINVAL.
    ///
    /// # Panics
    /// If the slice is longer than `u32::MAX`; inline room is a kilobyte or so.
    #[inline]
    pub fn inline(bytes: &'a [u8]) -> Element<'a> {
        let length = u32::try_from(bytes.len()).expect("inline data is shorter than 4 GiB");
        Element {
            c: sys::ibv_sge {
                addr: bytes.as_ptr() as u64,
                length,
                lkey: NO_KEY,
            },
            borrowed: PhantomData,
        }
    }

    /// Registered memory, by numbers that the caller has checked.
    #[inline]
    pub(crate) fn of(addr: u64, length: u32, key: LKey) -> Element<'static> {
        Element {
            c: sys::ibv_sge {
                addr,
                length,
                lkey: key.0,
            },
            borrowed: PhantomData,
        }
    }

    /// Memory that is registered as foreign (the program's own buffers, or an implicit on-demand region over all memory).
    ///
    /// # Safety
    /// Until the request that this element is posted in has completed, `[addr, addr + length)` stays valid memory that the
    /// adapter may read and, in receives, READs and atomics, write, and no Rust reference to it is used in a way that
    /// contradicts that.
    #[inline]
    pub unsafe fn foreign(addr: u64, length: u32, key: LKey) -> Element<'static> {
        Element::of(addr, length, key)
    }

    /// A part of it: `length` bytes from `at` on. None if it has not so many.
    #[inline]
    pub fn part(&self, at: u32, length: u32) -> Option<Element<'a>> {
        let end = at.checked_add(length)?;
        let inside = end <= self.c.length;
        inside.then_some(Element {
            c: sys::ibv_sge {
                addr: self.c.addr + u64::from(at),
                length,
                lkey: self.c.lkey,
            },
            borrowed: PhantomData,
        })
    }

    /// Length in bytes.
    #[inline]
    pub fn byte_len(&self) -> u32 {
        self.c.length
    }

    /// True if this element stands for borrowed bytes.
    #[inline]
    fn is_inline(&self) -> bool {
        self.c.lkey == NO_KEY
    }
}

/// A request for a send queue.
#[repr(transparent)]
pub struct SendWr<'a> {
    pub(crate) c: sys::ibv_send_wr,
    borrowed: PhantomData<&'a ()>,
}

impl<'a> SendWr<'a> {
    #[inline]
    fn new(id: u64, opcode: u32, elements: &'a [Element<'a>]) -> SendWr<'a> {
        SendWr {
            c: sys::ibv_send_wr {
                wr_id: id,
                // The C API does not write through it.
                sg_list: elements.as_ptr().cast_mut().cast(),
                num_sge: i32::try_from(elements.len()).unwrap_or(i32::MAX),
                opcode,
                ..Default::default()
            },
            borrowed: PhantomData,
        }
    }

    /// SEND.
    #[inline]
    pub fn send(id: u64, elements: &'a [Element<'a>]) -> SendWr<'a> {
        SendWr::new(id, sys::IBV_WR_SEND, elements)
    }

    /// RDMA WRITE to `[remote, ..)` under the peer's key.
    #[inline]
    pub fn write(id: u64, remote: u64, key: RKey, elements: &'a [Element<'a>]) -> SendWr<'a> {
        SendWr::new(id, sys::IBV_WR_RDMA_WRITE, elements).remote(remote, key)
    }

    /// RDMA READ from `[remote, ..)` under the peer's key.
    #[inline]
    pub fn read(id: u64, remote: u64, key: RKey, elements: &'a [Element<'a>]) -> SendWr<'a> {
        SendWr::new(id, sys::IBV_WR_RDMA_READ, elements).remote(remote, key)
    }

    /// Adds to the aligned 64-bit word at `remote`; its old value comes into the element.
    #[inline]
    pub fn fetch_add(
        id: u64,
        remote: u64,
        key: RKey,
        add: u64,
        elements: &'a [Element<'a>],
    ) -> SendWr<'a> {
        SendWr::new(id, sys::IBV_WR_ATOMIC_FETCH_AND_ADD, elements).atomic(remote, key, add, 0)
    }

    /// Sets the aligned 64-bit word at `remote` to `swap` if it is `compare`; its old value comes into the element.
    #[inline]
    pub fn compare_swap(
        id: u64,
        (remote, key): (u64, RKey),
        (compare, swap): (u64, u64),
        elements: &'a [Element<'a>],
    ) -> SendWr<'a> {
        SendWr::new(id, sys::IBV_WR_ATOMIC_CMP_AND_SWP, elements).atomic(remote, key, compare, swap)
    }

    #[inline]
    fn remote(mut self, remote_addr: u64, rkey: RKey) -> Self {
        self.c.wr.rdma = sys::ibv_send_wr__bindgen_ty_2__bindgen_ty_1 {
            remote_addr,
            rkey: rkey.0,
        };
        self
    }

    #[inline]
    fn atomic(mut self, remote_addr: u64, rkey: RKey, compare_add: u64, swap: u64) -> Self {
        self.c.wr.atomic = sys::ibv_send_wr__bindgen_ty_2__bindgen_ty_2 {
            remote_addr,
            compare_add,
            swap,
            rkey: rkey.0,
        };
        self
    }

    /// Flags, instead of none.
    #[inline]
    pub fn flags(mut self, flags: SendFlags) -> Self {
        self.c.send_flags = flags.bits();
        self
    }

    /// Immediate data, in the host's order. Only SEND and RDMA WRITE carry it; others are left as they are and refused by
    /// nobody, so this asserts.
    ///
    /// # Panics
    /// If the request is neither.
    #[inline]
    pub fn immediate(mut self, data: u32) -> Self {
        self.c.opcode = match self.c.opcode {
            sys::IBV_WR_SEND => sys::IBV_WR_SEND_WITH_IMM,
            sys::IBV_WR_RDMA_WRITE => sys::IBV_WR_RDMA_WRITE_WITH_IMM,
            other => panic!("requests of opcode {other} carry no immediate data"),
        };
        self.c.__bindgen_anon_1.imm_data = data.to_be();
        self
    }

    /// Destination of a datagram.
    #[inline]
    pub fn to(mut self, ah: &'a Ah, qp: Qpn, key: QKey) -> Self {
        self.c.wr.ud = sys::ibv_send_wr__bindgen_ty_2__bindgen_ty_3 {
            ah: ah.as_ptr(),
            remote_qpn: qp.0,
            remote_qkey: key.0,
        };
        self
    }

    /// The shared receive queue that a request of an XRC initiator is for.
    #[inline]
    pub fn srq(mut self, number: u32) -> Self {
        self.c.qp_type.xrc.remote_srqn = number;
        self
    }

    /// The elements, as they were given.
    #[inline]
    fn elements(&self) -> &'a [Element<'a>] {
        match usize::try_from(self.c.num_sge) {
            Ok(0) | Err(_) => &[],
            // SAFETY: pointer and count come from a slice that lives as long as `'a`; the element is transparent over `ibv_sge`.
            Ok(count) => unsafe { std::slice::from_raw_parts(self.c.sg_list.cast(), count) },
        }
    }

    /// Bytes of all elements.
    pub fn byte_len(&self) -> u64 {
        self.elements()
            .iter()
            .map(|e| u64::from(e.byte_len()))
            .sum()
    }

    /// What must hold so that the adapter reads no memory that it may not: borrowed bytes only inline, and inline no more than
    /// the queue pair has room for (so no provider is tempted to keep the address).
    #[inline]
    pub(crate) fn is_sound(&self, max_inline: u32) -> bool {
        let (mut total, mut borrowed) = (0u64, false);
        for element in self.elements() {
            total += u64::from(element.c.length);
            borrowed |= element.is_inline() && element.c.length > 0;
        }
        if self.c.send_flags & sys::IBV_SEND_INLINE != 0 {
            total <= u64::from(max_inline)
        } else {
            !borrowed
        }
    }
}

/// A request for a receive queue, or a shared one.
#[repr(transparent)]
pub struct RecvWr<'a> {
    pub(crate) c: sys::ibv_recv_wr,
    borrowed: PhantomData<&'a ()>,
}

impl<'a> RecvWr<'a> {
    /// A buffer for one message.
    #[inline]
    pub fn new(id: u64, elements: &'a [Element<'a>]) -> RecvWr<'a> {
        RecvWr {
            c: sys::ibv_recv_wr {
                wr_id: id,
                // The C API does not write through it.
                sg_list: elements.as_ptr().cast_mut().cast(),
                num_sge: i32::try_from(elements.len()).unwrap_or(i32::MAX),
                ..Default::default()
            },
            borrowed: PhantomData,
        }
    }

    /// No element may be borrowed bytes: the adapter writes them later.
    #[inline]
    pub(crate) fn is_sound(&self) -> bool {
        let count = usize::try_from(self.c.num_sge).unwrap_or(0);
        (0..count).all(|at| {
            // SAFETY: pointer and count come from a slice that lives as long as `'a`.
            let element = unsafe { self.c.sg_list.add(at).read() };
            element.lkey != NO_KEY || element.length == 0
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn borrowed_bytes_go_inline_or_not_at_all() {
        let elements = [Element::inline(&[1, 2, 3]), Element::of(64, 5, LKey(9))];
        let wr = SendWr::send(1, &elements);
        assert_eq!(wr.byte_len(), 8);
        assert!(!wr.is_sound(1024));
        let wr = SendWr::send(1, &elements).flags(SendFlags::INLINE);
        assert!(wr.is_sound(8));
        assert!(!wr.is_sound(7));
        assert!(!RecvWr::new(1, &elements[..1]).is_sound());
        assert!(RecvWr::new(1, &elements[1..]).is_sound());
        assert!(SendWr::send(1, &[]).is_sound(0));
    }

    #[test]
    fn immediate_data_travels_in_network_order() {
        let wr = SendWr::write(1, 2, RKey(3), &[]).immediate(0x0102_0304);
        assert_eq!(wr.c.opcode, sys::IBV_WR_RDMA_WRITE_WITH_IMM);
        // SAFETY: both fields of the union are plain words.
        let word = unsafe { wr.c.__bindgen_anon_1.imm_data };
        assert_eq!(word.to_ne_bytes(), [1, 2, 3, 4]);
    }
}
