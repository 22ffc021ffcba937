//! Portals 4.3 in one process, as a machine without clock, thread, socket or memory.
//!
//! Owns: the state of a network interface: its portal table with lists and unexpected headers,
//! memory descriptors, events, counters and triggered operations, and the rules by which they
//! change. Must not know: how requests travel, whose memory an address is in, what an atomic
//! operation computes, which process a rank is, who sleeps. Data comes from the calls of a program
//! ([`Interface`]'s methods named after the C ABI) and from a transport.
//!
//! A transport at the target asks [`Interface::arrive`] for each request, in the order in which an
//! initiator's requests to a table entry came. It moves the data of a [`Grant`], says
//! [`Interface::delivered`], and answers with [`Grant::answer`] or [`AckInfo::refused`]. At the
//! initiator it calls [`Interface::start`], and [`Interface::sent`], [`Interface::acked`],
//! [`Interface::replied`] or [`Interface::failed`] as things become known. After any call,
//! [`Interface::next_due`] has the triggered operations that are to be started, in order, and
//! [`Interface::take_news`] says whether a waiting program may have something to see.
//!
//! Sources are the header of Portals 4.3 with the specification's text (sandialabs/portals4,
//! include/portals4.h), cited by the name of the call or constant, and where it is silent what the
//! suites beside it (test/basic, test/sfw) expect. Questions that neither answers stand in the
//! comments as "open".
//!
//! Laws, each with a test in `tests/`: a request has one fate and its answer says the same;
//! requests of one initiator to one table entry match in order; no byte outside an entry's range is
//! granted, and nothing of an entry is under way once its unlinking is told or returned; PUT,
//! AUTO_UNLINK and AUTO_FREE are told in this order, each once; counters lose nothing, and triggers
//! fire once, in the order of thresholds; a disabled table entry matches nothing; everything that
//! can grow has a bound.
//!
//! A PUT of eight bytes from a process to itself, with a counting acknowledgement:
//!
//! ```
//! use ferriband_portals_proto::*;
//! # fn main() -> Result<(), PtlError> {
//! let kind = NiKind { matching: false, logical: false };
//! let mut ni = Interface::new(kind, Limits::granted(None, &Limits::default()));
//! let (ct, me) = (ni.ct_alloc()?, Process { nid: 1, pid: 2 });
//! let pt_index = ni.pt_alloc(PtOptions::empty(), Handle::EQ_NONE, None)?;
//! let entry = EntryInit {
//!     region: Region::flat(0x1000, 64),
//!     ct: Handle::CT_NONE,
//!     uid: EntryInit::UID_ANY,
//!     options: EntryOptions::OP_PUT,
//!     match_id: Peer::Physical(me),
//!     match_bits: 0,
//!     ignore_bits: 0,
//!     min_free: 0,
//! };
//! ni.entry_append(pt_index, &entry, List::Priority, 0)?;
//! let options = MdOptions::EVENT_CT_ACK;
//! let region = Region::flat(0x2000, 8);
//! let md = ni.md_bind(&MdInit { region, options, eq: Handle::EQ_NONE, ct })?;
//! let operation = Operation {
//!     op: ArrivalOp::Put,
//!     put: Some(Local { md, offset: 0 }),
//!     get: None,
//!     length: 8,
//!     ack: AckRequest::Counting,
//!     target: Peer::Physical(me),
//!     pt_index,
//!     match_bits: 0,
//!     remote_offset: 16,
//!     user_ptr: 0,
//!     hdr_data: 0,
//!     atomic: None,
//!     operand: [0; 32],
//! };
//! let started = ni.start(operation)?;
//! // The transport sends the request and, here, is its target, too.
//! let arrival = Arrival {
//!     ni: kind,
//!     initiator: me,
//!     rank: 0,
//!     uid: 0,
//!     op: operation.op,
//!     atomic: operation.atomic,
//!     pt_index: operation.pt_index,
//!     match_bits: operation.match_bits,
//!     remote_offset: operation.remote_offset,
//!     length: operation.length,
//!     hdr_data: operation.hdr_data,
//! };
//! let answer = match ni.arrive(&arrival) {
//!     Admission::Granted(grant) => {
//!         assert_eq!(grant.pieces.as_slice(), [Piece { address: 0x1010, length: 8 }]);
//!         // It copies from `started.out` to `grant.pieces`.
//!         ni.delivered(grant.hold, Delivery::Done);
//!         grant.answer(Delivery::Done)
//!     }
//!     Admission::Refused(fail) => AckInfo::refused(fail),
//! };
//! ni.sent(started.id);
//! ni.acked(started.id, answer);
//! assert_eq!(ni.ct_get(ct)?, CtEvent { success: 1, failure: 0 });
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]

mod append;
mod atomic;
mod counter;
mod error;
mod event;
mod handles;
mod initiator;
mod interface;
mod lease;
mod limits;
mod list;
mod matching;
mod md;
mod region;
mod request;
mod table;
mod target;
mod trigger;
mod unexpected;

#[cfg(test)]
mod tests;

pub use atomic::{ATOMIC_OPS, AtomicOp, DATATYPES, Datatype};
pub use counter::CtEvent;
pub use error::{NiFail, PtlError};
pub use event::{Event, EventKind, Taken};
pub use handles::{Handle, HandleKind};
pub use interface::{Counts, Interface, NOT_WATCHED, News, StatusRegister, Summary};
pub use lease::Terms;
pub use limits::{Features, Limits};
pub use list::{EntryInit, EntryOptions, SearchOp};
pub use md::{AckRequest, Local, MdInit, MdOptions, Operation, Response, Started};
pub use region::{Piece, Pieces, Region};
pub use request::{
    AckInfo, Admission, Arrival, ArrivalOp, Delivery, Grant, HoldId, List, NiKind, OpId, Peer,
    Process, is_legal,
};
pub use table::PtOptions;
