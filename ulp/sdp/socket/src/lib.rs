//! Sockets whose bytes go by SDP: what lies between a program's calls and the machines of
//! `ulp/sdp/local`.
//!
//! Owns: where a connection's words lie in this process ([`link`]), what the kernel says of its TCP
//! socket ([`tcp`]), how two processes agree about a connection ([`meet`]), which record stands for
//! which descriptor ([`table`]), what a program's calls do and what serves them ([`process`]),
//! how a connection to another host goes by queue pairs ([`tunnel`]), sockets that speak SDP from
//! their first byte ([`inet_sdp`]), which processes hold a record
//! ([`arena`], [`holder`]), where the library hides descriptors of its own ([`own`]), who waits for
//! what ([`ready`]). Must not know: the C names of calls.
//! Everything that it asks the kernel goes by system calls that no preloaded library stands before.

pub mod arena;
pub mod calls;
pub mod diag;
pub mod holder;
pub mod inet_sdp;
pub mod link;
pub mod meet;
pub mod numbers;
mod order;
pub mod own;
mod pages;
mod parts;
pub mod process;
mod raw;
pub mod ready;
pub mod record;
pub mod segment;
mod signals;
pub mod spin;
pub mod table;
pub mod tcp;
pub mod tunnel;

#[cfg(test)]
mod testing;
