//! The objects that a program names by handles: communicators, groups, datatypes, operations, info
//! objects, attributes, topologies, and what of a process is there before and after MPI.
//!
//! Owns: what each of them is. Must not know: how a message is sent, how a collective is done, what
//! the job is; no message is sent here.

pub mod attr;
pub mod comm;
pub mod comms;
pub mod datatype;
pub mod group;
pub mod info;
pub mod operation;
pub mod process;
pub mod topology;
pub mod types;
