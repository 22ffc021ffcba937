//! The sockets under the RoCE wire.
//!
//! Owns: the system calls that send and receive UDP datagrams with what RoCEv2 needs around them (steering, offload of
//! segmentation both ways, traffic class, groups), and what the kernel says of network interfaces. Works for any port, in any
//! network namespace, without privilege. Must not know: packets' headers, queue pairs, who the peers are.

/// One instruction of a classic BPF program, as the kernel's `sock_filter` has it.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FilterStep {
    /// What it does.
    pub code: u16,
    /// Instructions to skip if a condition holds.
    pub jt: u8,
    /// Instructions to skip if it does not.
    pub jf: u8,
    /// Its operand.
    pub k: u32,
}

const _: () = assert!(size_of::<FilterStep>() == size_of::<libc::sock_filter>());
const _: () = assert!(align_of::<FilterStep>() == align_of::<libc::sock_filter>());
