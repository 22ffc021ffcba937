//! The C face of management packets: `libibumad.so.3`, a drop-in for that of rdma-core 44 to 65.
//!
//! A program that runs on a host of a live fabric (`ferriband run --host`) finds that host's adapter, and sends and gets management packets through the fabric's
//! process: what a file /dev/infiniband/umadN is under Linux is a socket here, so a program may wait for it with poll(2) as it does there. Elsewhere the
//! library lists what /sys shows, and no port can be opened. Owns conversions and the checks of pointers; who gets which packet is the fabric's business
//! (`ferriband-fabric`, `interface`).
//!
//! The structures are those of rdma-core's `umad.h`; [`layout`] has them.

mod boundary;
mod layout;
mod list;
mod pairs;
mod port;
mod source;
mod text;
