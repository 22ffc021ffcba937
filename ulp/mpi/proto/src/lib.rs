//! What MPI ranks say to each other.
//!
//! Owns: the bytes between ranks ([`envelope`], and what of one goes without it: [`brief`]), the
//! machines that put them into a block of the receiver's memory and find them there ([`fast`]),
//! which receive takes which message ([`matching`]), what lies where in the segment that the ranks
//! of a host share ([`segment`]), how both sides of a long message copy it ([`joint`]), how members
//! agree although some die ([`agree`]), what a user may set ([`settings`]), which way a message of
//! which length goes with that ([`sizes`]), and what a rank says to people of its heals
//! ([`heals`]). Must not know: verbs, sockets, whose memory it is. Time and randomness come
//! in as arguments.
#![forbid(unsafe_code)]

pub mod agree;
pub mod brief;
pub mod envelope;
pub mod fast;
pub mod heals;
pub mod joint;
pub mod matching;
pub mod replay;
pub mod resume;
pub mod segment;
pub mod settings;
pub mod sizes;
