//! The types of rdma-core's `rdma/rdma_cma.h`, `rdma/rsocket.h` and `infiniband/ib.h`, as Rust sees them; those of verbs
//! come from `ferriband-verbs-sys`, those of the system from libc.
//!
//! This crate owns layouts and constants, nothing else. The text comes from bindgen over the headers named in
//! `src/wrapper.h` (`cargo xtask bindings` writes it again). Every size, alignment and offset that bindgen measured is
//! asserted at compile time in the generated file; the tests below assert by hand what the inline functions of
//! `rdma_verbs.h` and programs reach into.
//!
//! A union's members are `ManuallyDrop`, for bindgen cannot know that the types of the other crates are `Copy`.

#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
compile_error!(
    "the checked-in layouts are those of x86_64 Linux; run `cargo xtask bindings` on your target first"
);

#[allow(
    missing_docs,
    non_camel_case_types,
    non_upper_case_globals,
    non_snake_case,
    dead_code
)]
#[allow(
    clippy::all,
    clippy::undocumented_unsafe_blocks,
    clippy::pub_underscore_fields
)]
mod bindings;

pub use bindings::*;

/// Port space of the Sockets Direct Protocol: a number that Linux's connection manager had, and no release of rdma-core names.
pub const RDMA_PS_SDP: rdma_port_space = 0x0001;
/// Bits of a service ID that name an IP port space. By hand: bindgen makes a signed number of it.
pub const RDMA_IB_IP_PS_MASK: u64 = 0xffff_ffff_ffff_0000;
/// Bits of a service ID that name a port.
pub const RDMA_IB_IP_PORT_MASK: u64 = 0x0000_0000_0000_ffff;
/// Service IDs of the TCP port space.
pub const RDMA_IB_IP_PS_TCP: u64 = 0x0000_0000_0106_0000;
/// Service IDs of the UDP port space.
pub const RDMA_IB_IP_PS_UDP: u64 = 0x0000_0000_0111_0000;
/// Service IDs of the InfiniBand port space.
pub const RDMA_IB_PS_IB: u64 = 0x0000_0000_013f_0000;

// What rdma-core's headers have gained since 44, whose text the bindings are of. `rdma_cm_event.param` has a member `arg`, 64 bits, at its beginning.

/// `rdma_resolve_addrinfo` has succeeded.
pub const RDMA_CM_EVENT_ADDRINFO_RESOLVED: rdma_cm_event_type = 16;
/// `rdma_resolve_addrinfo` has failed.
pub const RDMA_CM_EVENT_ADDRINFO_ERROR: rdma_cm_event_type = 17;
/// The program's own, by `rdma_write_cm_event`.
pub const RDMA_CM_EVENT_USER: rdma_cm_event_type = 18;
/// rdma-core's own, which no program is given.
pub const RDMA_CM_EVENT_INTERNAL: rdma_cm_event_type = 19;
/// Names of services, by subnet administration.
pub const RAI_SA: u32 = 0x10;
/// Names by the system's resolver, as without either flag.
pub const RAI_DNS: u32 = 0x20;

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::{offset_of, size_of};

    /// Figures measured with a C compiler on Debian 12 (rdma-core 44.0).
    #[test]
    fn layouts_that_inlined_callers_depend_on() {
        assert_eq!(size_of::<rdma_cm_id>(), 416);
        let offsets = [
            offset_of!(rdma_cm_id, verbs),
            offset_of!(rdma_cm_id, channel),
            offset_of!(rdma_cm_id, context),
            offset_of!(rdma_cm_id, qp),
            offset_of!(rdma_cm_id, route),
            offset_of!(rdma_cm_id, ps),
            offset_of!(rdma_cm_id, port_num),
            offset_of!(rdma_cm_id, event),
            offset_of!(rdma_cm_id, send_cq_channel),
            offset_of!(rdma_cm_id, send_cq),
            offset_of!(rdma_cm_id, recv_cq_channel),
            offset_of!(rdma_cm_id, recv_cq),
            offset_of!(rdma_cm_id, srq),
            offset_of!(rdma_cm_id, pd),
            offset_of!(rdma_cm_id, qp_type),
        ];
        assert_eq!(
            offsets,
            [
                0, 8, 16, 24, 32, 344, 348, 352, 360, 368, 376, 384, 392, 400, 408
            ]
        );
        assert_eq!(size_of::<rdma_addr>(), 296);
        assert_eq!(offset_of!(rdma_addr, addr), 256);
        assert_eq!(size_of::<rdma_route>(), 312);
        assert_eq!(size_of::<rdma_conn_param>(), 24);
        assert_eq!(size_of::<rdma_ud_param>(), 56);
        assert_eq!(size_of::<rdma_cm_event>(), 80);
        assert_eq!(offset_of!(rdma_cm_event, param), 24);
        assert_eq!(size_of::<rdma_addrinfo>(), 96);
        assert_eq!(size_of::<sockaddr_ib>(), 48);
        assert_eq!(size_of::<rdma_event_channel>(), 4);
    }

    /// Programs read the numbers of events, port spaces and options.
    #[test]
    fn numbers_that_programs_compile_in() {
        assert_eq!(RDMA_CM_EVENT_ADDR_RESOLVED, 0);
        assert_eq!(RDMA_CM_EVENT_ESTABLISHED, 9);
        assert_eq!(RDMA_CM_EVENT_TIMEWAIT_EXIT, 15);
        assert_eq!(
            (RDMA_CM_EVENT_ADDRINFO_RESOLVED, RDMA_CM_EVENT_USER),
            (16, 18)
        );
        assert_eq!((RDMA_PS_IPOIB, RDMA_PS_IB), (2, 0x13f));
        assert_eq!(
            (u64::from(RDMA_PS_TCP) << 16, u64::from(RDMA_PS_UDP) << 16),
            (RDMA_IB_IP_PS_TCP, RDMA_IB_IP_PS_UDP)
        );
        assert_eq!(RDMA_IB_IP_PS_MASK, !RDMA_IB_IP_PORT_MASK);
        assert_eq!((SOL_RDMA, RDMA_ROUTE), (0x10000, 4));
        assert_eq!(RDMA_OPTION_ID_ACK_TIMEOUT, 3);
    }
}
