//! What MPI ranks say to each other.
//!
//! Owns: bytes between ranks and the machines that write and read them. Must not know: verbs, sockets, whose memory it is. Time and
//! randomness come in as arguments.
#![forbid(unsafe_code)]
