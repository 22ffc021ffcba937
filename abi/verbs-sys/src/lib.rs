//! The types of rdma-core's `infiniband/verbs.h` and `infiniband/sa.h`, as Rust sees them.
//!
//! This crate owns layouts and constants, nothing else (`newer.rs`: those that came after the headers of rdma-core 44): it has no functions, knows nothing of our adapter, and
//! links no library. The text comes from bindgen over the headers named in `src/wrapper.h`
//! (`cargo xtask bindings` writes it again), so builders need neither clang nor the headers. Every size, alignment
//! and offset that bindgen measured is asserted at compile time in the generated file; the tests below
//! assert the few that the ABI rests on by hand, so that a regeneration against other headers is noticed.

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
mod newer;

pub use bindings::*;
pub use newer::*;

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::{offset_of, size_of};

    /// Figures measured with a C compiler on Debian 12 (rdma-core 44.0).
    #[test]
    fn layouts_that_inlined_callers_depend_on() {
        assert_eq!(size_of::<ibv_device>(), 664);
        assert_eq!(size_of::<ibv_context_ops>(), 256);
        assert_eq!(size_of::<ibv_context>(), 328);
        assert_eq!(size_of::<verbs_context>(), 648);
        assert_eq!(offset_of!(verbs_context, sz), 312);
        assert_eq!(offset_of!(verbs_context, context), 320);
        assert_eq!(size_of::<ibv_qp_ex>(), 352);
        assert_eq!(size_of::<ibv_cq_ex>(), 288);
        assert_eq!(size_of::<ibv_wc>(), 48);
        assert_eq!(size_of::<ibv_sge>(), 16);
    }

    /// `ibv_qp_ex` and `ibv_cq_ex` begin with what callers treat as `ibv_qp` and `ibv_cq`.
    #[test]
    fn extended_objects_begin_with_the_plain_ones() {
        assert_eq!(offset_of!(ibv_qp_ex, qp_base), 0);
        assert_eq!(offset_of!(ibv_cq_ex, context), offset_of!(ibv_cq, context));
        assert_eq!(offset_of!(ibv_cq_ex, cqe), offset_of!(ibv_cq, cqe));
        assert_eq!(offset_of!(ibv_cq_ex, mutex), offset_of!(ibv_cq, mutex));
        assert_eq!(
            offset_of!(ibv_cq_ex, async_events_completed),
            offset_of!(ibv_cq, async_events_completed)
        );
    }

    /// `ibv_query_port` fills the shorter structure of old headers: it must be a prefix of the new one.
    #[test]
    fn port_attributes_grew_at_the_end() {
        assert_eq!(offset_of!(ibv_port_attr, flags), 47);
        assert_eq!(offset_of!(ibv_port_attr, port_cap_flags2), 48);
        assert_eq!(size_of::<ibv_port_attr>(), 52);
    }
}
