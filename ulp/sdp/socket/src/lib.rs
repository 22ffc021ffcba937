//! Sockets whose bytes go by SDP: what lies between a program's calls and the machines of
//! `ulp/sdp/local`.
//!
//! Owns: where a connection's words lie in this process ([`link`]), what the kernel says of its TCP
//! socket ([`tcp`]), how two processes agree about a connection ([`meet`]). Must not know: the C
//! names of calls. Everything that it asks the kernel goes by system calls that no preloaded library
//! stands before.

pub mod calls;
pub mod diag;
pub mod link;
pub mod meet;
pub mod record;
pub mod segment;
pub mod tcp;
