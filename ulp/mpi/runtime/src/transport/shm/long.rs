//! Long messages between ranks of a host, whose memory both sides can reach: who copies which part.
//!
//! The receiver reads. From `both_copy` bytes on it lets the sender write chunks from the end on,
//! which happens in the sender's rounds of progress; a sender that does something else is not
//! waited for. From there on, while the sender waits in MPI, the message may come in pieces through
//! the block instead ([`super::ways`]).
//!
//! Owns: which way a long message comes, and which receivers may want help with which messages.
//! Must not know: requests, what is said about a message.

use super::joint::{Offer, copy_as_requested, copy_request, fetch_jointly};
use super::open::longest;
use super::pages::LargePages;
use super::remote::read_peer;
use super::ways::{Way, Ways};
use crate::constants::{MPI_ERR_BUFFER, MPI_ERR_PROC_ABORTED};
use crate::ground::memory::{Sink, Source};
use crate::handle::Token;
use crate::transport::contract::{Asked, Fetch, Fetched, LongSend, Offered, Place, Refused};
use crate::transport::host::Host;
use crate::transport::limits::SharedLimits;
use ferriband_mpi_proto::fast::Shape;
use std::collections::HashMap;
use std::io;
use std::time::Instant;

/// Bytes of the pieces in which messages go through blocks that are large enough for many of them.
const LARGE_PIECE: usize = 32 << 10;

/// Bytes of a piece where a record has `longest` at most.
pub fn piece(longest: usize) -> usize {
    match longest {
        LARGE_PIECE.. => LARGE_PIECE,
        _ => Shape::DEFAULT.longest() as usize,
    }
}

/// Long messages of one host.
pub struct Long {
    limits: SharedLimits,
    /// Long buffers, which the kernel may put into large pages.
    pages: LargePages,
    /// Which way messages come.
    pub ways: Ways,
    /// Messages that their receivers may want help with.
    helped: HashMap<Token, Helped>,
    /// Their receivers, and how many are for each.
    receivers: Vec<(u32, u32)>,
}

/// A message that its receiver may let this rank copy a part of.
struct Helped {
    to: u32,
    /// What the receiver calls it.
    name: u64,
    source: Source,
}

impl Long {
    /// None is under way.
    pub(super) fn new(limits: SharedLimits) -> Self {
        Self {
            limits,
            pages: LargePages::new(limits.large_pages),
            ways: Ways::default(),
            helped: HashMap::new(),
            receivers: Vec::new(),
        }
    }

    /// Whether both sides may copy a message of `length` bytes.
    fn is_joint(&self, length: usize) -> bool {
        let least = self.limits.both_copy;
        least.is_some_and(|least| length as u64 >= least)
    }

    /// How rank `to` can have a message, until [`Long::withdraw`]. It may want help with it.
    pub fn offer(&mut self, to: u32, what: &LongSend) -> Offered {
        let LongSend {
            token,
            name,
            source,
        } = *what;
        // Elements with gaps are not to be read: the receiver asks for them.
        let Some(address) = source.address() else {
            return Offered::Parts;
        };
        self.pages.note(Some(address), source.len());
        if self.is_joint(source.len()) {
            self.helped.insert(token, Helped { to, name, source });
            match self.receivers.iter_mut().find(|(rank, _)| *rank == to) {
                Some((_, count)) => *count += 1,
                None => self.receivers.push((to, 1)),
            }
        }
        Offered::Readable(Place { address, rkey: 0 })
    }

    /// The message that `token` names is over.
    #[inline]
    pub fn withdraw(&mut self, token: Token) {
        if self.has_offers()
            && let Some(Helped { to, .. }) = self.helped.remove(&token)
            && let Some(at) = self.receivers.iter().position(|(rank, _)| *rank == to)
        {
            self.receivers[at].1 -= 1;
            if self.receivers[at].1 == 0 {
                self.receivers.swap_remove(at);
            }
        }
    }

    /// Whether receivers may want help.
    #[inline(always)]
    pub fn has_offers(&self) -> bool {
        !self.receivers.is_empty()
    }

    /// How a message of `peer`, some bytes, comes that has met its receive: it is read, or comes in
    /// pieces.
    pub fn fetch(&mut self, host: &Host, peer: u32, what: &Fetch) -> Fetched {
        let place = what.offered.place();
        let Some(place) = place.filter(|_| self.limits.reads_peers) else {
            return Fetched::Ask {
                asked: Asked::Pieces,
                note: 0,
            };
        };
        self.pages.note(what.sink.address(), what.sink.len());
        let way = self.pick_way(host, peer, what);
        if way == Some(Way::Pieces) {
            self.ways.asked();
            return Fetched::Ask {
                asked: Asked::Pieces,
                note: 0,
            };
        }
        let timed = way.is_some();
        let since = timed.then(Instant::now);
        let read = self.read_offered(host, (peer, what.send, place.address), &what.sink);
        match read.map_err(|error| self.refused(error)) {
            Ok(()) => {
                if let Some(since) = since {
                    self.ways.read(what.sink.len() as u64, since);
                }
                Fetched::Here
            }
            Err(Refused::Always) => {
                if timed {
                    self.ways.asked();
                }
                Fetched::Ask {
                    asked: Asked::Pieces,
                    note: 0,
                }
            }
            Err(Refused::Gone) => Fetched::Failed(MPI_ERR_PROC_ABORTED),
            Err(Refused::This(_)) => Fetched::Failed(MPI_ERR_BUFFER),
        }
    }

    /// Which way a message of `peer` had better come while this program waits; none if there is no
    /// choice: it is read.
    fn pick_way(&mut self, host: &Host, peer: u32, what: &Fetch) -> Option<Way> {
        let may = !what.sink.has_gaps()
            && what.waits
            && self.is_joint(what.sink.len())
            && longest(host) >= LARGE_PIECE
            && host.waits(peer);
        may.then(|| self.ways.pick(what.sink.len() as u64))
    }

    /// Reads the message that `peer` calls `request`, at `address` there.
    fn read_offered(
        &self,
        host: &Host,
        (peer, request, address): (u32, u64, u64),
        sink: &Sink,
    ) -> io::Result<()> {
        if sink.has_gaps() || !self.is_joint(sink.len()) {
            return read_peer(host.pid(peer), address, sink);
        }
        let offer = Offer {
            from: peer,
            request,
            address,
        };
        fetch_jointly(host, offer, sink)
    }

    /// Reads what lies at `address` of rank `peer`.
    pub fn read(
        &mut self,
        host: &Host,
        peer: u32,
        address: u64,
        sink: &Sink,
    ) -> Result<(), Refused> {
        read_peer(host.pid(peer), address, sink).map_err(|error| self.refused(error))
    }

    /// Whether memory of other ranks can be read, as far as is known.
    pub fn may_read(&self) -> bool {
        self.limits.reads_peers
    }

    /// What it means that memory of a peer cannot be read.
    #[cold]
    fn refused(&mut self, error: io::Error) -> Refused {
        match error.raw_os_error() {
            Some(libc::EPERM | libc::ENOSYS | libc::EACCES) => {
                self.limits.reads_peers = false;
                Refused::Always
            }
            Some(libc::ESRCH) => Refused::Gone,
            _ => Refused::This(error),
        }
    }

    /// Writes a chunk for each receiver that copies a message of this rank just now. True if there
    /// was one.
    #[cold]
    pub fn help(&mut self, host: &Host) -> bool {
        let mut did = false;
        for at in 0..self.receivers.len() {
            let (peer, _) = self.receivers[at];
            let Some(request) = copy_request(host, peer) else {
                continue;
            };
            // What names no message of this rank is nobody's to copy: the receiver then reads by
            // itself.
            let is_it = |one: &&Helped| one.to == peer && one.name == request.request;
            let Some(helped) = self.helped.values().find(is_it) else {
                continue;
            };
            match copy_as_requested(host, peer, &request, &helped.source) {
                Ok(ran) => did |= ran,
                Err(error) => {
                    if let Some(libc::EPERM | libc::ENOSYS | libc::EACCES) = error.raw_os_error() {
                        self.limits.both_copy = None;
                        self.helped.clear();
                        self.receivers.clear();
                        break;
                    }
                }
            }
        }
        did
    }

    /// Whether a receiver would have this rank copy something.
    pub fn has_copy_request(&self, host: &Host) -> bool {
        let mut receivers = self.receivers.iter();
        receivers.any(|(peer, _)| copy_request(host, *peer).is_some())
    }
}
