//! The C face of the adapter: `libibverbs.so.1`, a drop-in for that of rdma-core 44 to 65.
//!
//! Owns the conversion between C structures and the adapter's types, the checks of pointers that come from programs, and the
//! panic boundary. It must not know how anything is done: each entry point converts, calls the adapter (`ib/hca`),
//! and converts back. A pointer that a program passes is either NULL, which is refused, or trusted to be what its
//! type says, as with every C library.
//!
//! Where to look: [`ops`] is the table that inlined callers reach; [`post`], [`cq`] and [`qp_ex`] are the hot path;
//! [`object`] explains what programs hold; `abi/symbols.tsv` has the exported symbols with their version nodes, from which
//! `cargo xtask libs` makes the linker's version script and the entry points of what is refused ([`refusals`]).

pub mod acks;
pub mod ah;
pub mod boundary;
pub mod buf;
pub mod channel;
pub mod cm_private;
pub mod context;
pub mod convert;
pub mod cq;
pub mod cq_ex;
pub mod device;
pub mod dm;
pub mod events;
pub mod handles;
pub mod live;
pub mod mr;
pub mod mw;
pub mod netlink;
pub mod object;
pub mod ops;
pub mod pd;
pub mod post;
pub mod pure;
pub mod qp;
pub mod qp_ex;
pub mod query;
pub mod refusals;
pub mod srq;
pub mod sysfs;
pub mod watched;
pub mod xrcd;
