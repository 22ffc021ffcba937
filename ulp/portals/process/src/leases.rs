//! Entries that peers reach without a request: to whom this process has lent them, and when they
//! are called back.
//!
//! Owns: what is lent to whom, and which of this process's operations may go by a lease of its
//! target's. Must not know: how a lease travels, which is the machine's.
//!
//! A peer is lent an entry when it has asked for it once. What is lent is called back when its
//! terms are others, whatever the cause; who is about to take the entry away calls it back first
//! ([`recall`]) and waits until it [`Process::is_back`].

use crate::connections::{Connections, Peer};
use crate::memory::{By, Memory};
use crate::process::{Moving, Process};
use crate::report::Path;
use ferriband_portals_proto::Terms;
use ferriband_portals_proto::{ArrivalOp, AtomicOp, Datatype, Handle, NiKind, Operation, Piece};
use ferriband_putget_proto::{
    Direct, DirectOp, Lease, NotDirect, Rights, Segment, Started, Status,
};
use std::collections::BTreeSet;

/// Bytes of what is beside the table index in a lease: which interface.
const BESIDE_BYTES: usize = 4;

/// An entry that is lent.
struct Lent<M: Memory> {
    token: u64,
    ni: u8,
    pt_index: u32,
    terms: Terms,
    /// Keeps the memory reachable, and its key; none where it cannot be.
    reachable: Option<(M::Registration, u32)>,
    holders: BTreeSet<Peer>,
    /// Nobody is lent it any more.
    closing: bool,
}

/// What is lent.
pub(crate) struct Leases<M: Memory> {
    lent: Vec<Lent<M>>,
    next: u64,
    /// Who has asked for a table entry, and may be lent its entry.
    asked: Vec<(Peer, u8, u32)>,
}

impl<M: Memory> Default for Leases<M> {
    fn default() -> Leases<M> {
        Leases {
            lent: Vec::new(),
            next: 0,
            asked: Vec::new(),
        }
    }
}

impl<M: Memory> Leases<M> {
    /// Entries that peers hold.
    pub fn lent_entries(&self) -> usize {
        let lent = self.lent.iter();
        lent.filter(|lent| !lent.holders.is_empty()).count()
    }
}

/// What is called back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Recall {
    /// One entry, by its handle.
    Entry(Handle),
    /// All of a table entry of an interface.
    Table(u8, u32),
    /// All of an interface.
    Interface(u8),
}

impl Recall {
    fn means<M: Memory>(self, lent: &Lent<M>) -> bool {
        match self {
            Recall::Entry(entry) => lent.terms.entry == entry,
            Recall::Table(ni, pt_index) => (lent.ni, lent.pt_index) == (ni, pt_index),
            Recall::Interface(ni) => lent.ni == ni,
        }
    }
}

const fn beside(ni: u8) -> [u8; BESIDE_BYTES] {
    [0, 0, 0, ni]
}

impl<M: Memory> Process<M> {
    /// A request of a peer to a table entry was let in: it may be lent the entry.
    pub(crate) fn asked_for(&mut self, peer: Peer, ni: u8, pt_index: u32) {
        if NiKind::from_index(ni).matching {
            return;
        }
        let mut lent = self.leases.lent.iter();
        let is_lent = lent.any(|lent| {
            (lent.ni, lent.pt_index) == (ni, pt_index)
                && (lent.holders.contains(&peer) || lent.closing || lent.reachable.is_none())
        });
        if !is_lent && self.terms_for(peer, ni, pt_index).is_some() {
            self.leases.asked.push((peer, ni, pt_index));
        }
    }

    /// What requests to a table entry may do without being looked at. Ranks that are not known may
    /// have to be refused.
    fn terms(&self, ni: u8, pt_index: u32) -> Option<Terms> {
        let state = self.interfaces[usize::from(ni & 3)].as_ref()?;
        let kind = state.interface.kind();
        match kind.logical && state.map.is_empty() {
            true => None,
            false => state.interface.terms(pt_index),
        }
    }

    /// As [`Process::terms`], if they are those of this peer: its request may have been let in by
    /// another entry in front, which anybody may use.
    fn terms_for(&self, peer: Peer, ni: u8, pt_index: u32) -> Option<Terms> {
        let uid = self.uid_of(peer)?;
        let terms = self.terms(ni, pt_index)?;
        terms.are_for(uid).then_some(terms)
    }

    /// What a peer is lent of a table entry as its terms are, with its memory made reachable.
    fn lend(&mut self, peer: Peer, ni: u8, pt_index: u32) -> Option<&mut Lent<M>> {
        let terms = self.terms_for(peer, ni, pt_index)?;
        let is_it = |lent: &Lent<M>| {
            (lent.ni, lent.pt_index) == (ni, pt_index) && lent.terms == terms && !lent.closing
        };
        let known = self.leases.lent.iter().position(is_it);
        let at = match known {
            Some(at) => at,
            None => {
                let piece = Piece {
                    address: terms.start,
                    length: terms.length,
                };
                self.leases.next += 1;
                self.leases.lent.push(Lent {
                    token: self.leases.next,
                    ni,
                    pt_index,
                    terms,
                    reachable: self
                        .memory
                        .register(&piece, terms.puts || terms.atomics, By::Lent)
                        .ok(),
                    holders: BTreeSet::new(),
                    closing: false,
                });
                self.leases.lent.len() - 1
            }
        };
        Some(&mut self.leases.lent[at])
    }

    /// Whether nothing is lent of what was called back.
    pub fn is_back(&self, recall: Recall) -> bool {
        let mut lent = self.leases.lent.iter();
        lent.all(|lent| !recall.means(lent) || lent.holders.is_empty())
    }

    /// What was called back may be lent again, if it is still there.
    pub fn recalled(&mut self, recall: Recall) {
        let lent = self.leases.lent.iter_mut();
        let terms = lent.filter(|lent| recall.means(lent));
        terms.for_each(|lent| lent.closing = false);
    }

    /// A peer has put so many bytes by a lease that counts.
    pub fn counted(&mut self, lease: u64, length: u64) {
        let mut lent = self.leases.lent.iter();
        let Some(lent) = lent.find(|lent| lent.token == lease) else {
            return;
        };
        let (ni, entry) = (lent.ni, lent.terms.entry);
        self.with(ni, |interface| interface.count_direct(entry, length));
    }

    /// A peer does not reach an entry's memory any more.
    pub fn returned(&mut self, peer: Peer, lease: u64) {
        let mut lent = self.leases.lent.iter_mut();
        if let Some(lent) = lent.find(|lent| lent.token == lease) {
            lent.holders.remove(&peer);
        }
    }

    /// Registers the memory of an operation by a lease that is too long to be copied, and names it.
    ///
    /// # Errors
    /// It cannot be reached.
    pub fn reach_own(
        &mut self,
        token: u64,
        mut each: impl FnMut(&Piece, &M::Registration),
    ) -> Result<(), Status> {
        let moving = self.moving.get_mut(&token).ok_or(Status::Fault)?;
        // copied data lie elsewhere
        let own = match (moving.operation.op, &moving.copied) {
            (ArrivalOp::Get, _) => &moving.back,
            (_, None) => &moving.out,
            (_, Some(_)) => return Err(Status::Fault),
        };
        let mut registered = Vec::new();
        let writes = moving.operation.op == ArrivalOp::Get;
        for piece in own.as_slice() {
            let (registration, _) = self.memory.register(piece, writes, By::Own)?;
            each(piece, &registration);
            registered.push(registration);
        }
        moving.registered = registered;
        Ok(())
    }
}

/// Calls what is lent back, and lends it to nobody until [`Process::recalled`].
pub fn recall<C: Connections>(node: &mut C, recall: Recall) {
    for lent in &mut node.process().leases.lent {
        lent.closing |= recall.means(lent);
    }
    call_back(node);
}

/// Lends entries to who has asked for them, and calls back what is lent on terms that do not stand.
pub(crate) fn advance<C: Connections>(node: &mut C) {
    call_back(node);
    for (peer, ni, pt_index) in std::mem::take(&mut node.process().leases.asked) {
        let atomics = node.process().memory.has_atomics();
        let Some(lent) = node.process().lend(peer, ni, pt_index) else {
            continue;
        };
        let Some((_, key)) = lent.reachable else {
            continue;
        };
        if !lent.holders.insert(peer) {
            continue;
        }
        let (token, terms) = (lent.token, lent.terms);
        let mut rights = Rights::empty();
        rights.set(Rights::PUT, terms.puts);
        rights.set(Rights::GET, terms.gets);
        rights.set(Rights::ATOMIC, terms.atomics && atomics);
        rights.set(Rights::COUNTS, terms.counts);
        let lease = Lease {
            token,
            tag: pt_index,
            address: &beside(ni),
            rights,
            memory: Segment {
                address: terms.start,
                length: terms.length,
                key,
            },
        };
        if !node.lease(peer, &lease) {
            node.process().returned(peer, token);
        }
    }
}

fn call_back<C: Connections>(node: &mut C) {
    let process = node.process();
    let stale = |process: &Process<C::Memory>, lent: &Lent<C::Memory>| {
        lent.closing || process.terms(lent.ni, lent.pt_index) != Some(lent.terms)
    };
    let all = process.leases.lent.iter();
    let all: Vec<_> = all
        .filter(|lent| stale(process, lent))
        .flat_map(|lent| lent.holders.iter().map(|peer| (*peer, lent.token)))
        .collect();
    for (peer, token) in all {
        node.revoke(peer, token);
    }
    let process = node.process();
    let mut lent = std::mem::take(&mut process.leases.lent);
    let ends = |lent: &Lent<C::Memory>| {
        lent.holders.is_empty() && process.terms(lent.ni, lent.pt_index) != Some(lent.terms)
    };
    lent.retain(|lent| !ends(lent));
    process.leases.lent = lent;
}

/// What of an operation may go by a lease.
fn direct_op<M: Memory>(process: &Process<M>, moving: &Moving<M>) -> Option<DirectOp> {
    let Operation {
        op,
        length,
        atomic,
        operand,
        ..
    } = moving.operation;
    let is_word = length == 8 && matches!(atomic, Some((_, Datatype::Int64 | Datatype::Uint64)));
    let word = || {
        let mut word = [0; 8];
        process.data(moving, &mut word);
        u64::from_ne_bytes(word)
    };
    Some(match (op, atomic) {
        (ArrivalOp::Put, _) => DirectOp::Put,
        (ArrivalOp::Get, _) => DirectOp::Get,
        (ArrivalOp::Atomic | ArrivalOp::FetchAtomic, Some((AtomicOp::Sum, _))) if is_word => {
            DirectOp::Add(word())
        }
        (ArrivalOp::Swap, Some((AtomicOp::Cswap, _))) if is_word => DirectOp::Swap {
            compare: u64::from_ne_bytes(std::array::from_fn(|at| operand[at])),
            swap: word(),
        },
        _ => return None,
    })
}

/// What became of an operation that might go by a lease.
pub(crate) enum Tried<M: Memory> {
    /// It has begun.
    Begun,
    /// It waits for room.
    Full(Box<Moving<M>>),
    /// It goes by message.
    ByMessage(Box<Moving<M>>),
}

/// Begins an operation by a lease, if it may go so.
pub(crate) fn try_direct<C: Connections>(
    node: &mut C,
    peer: Peer,
    moving: Box<Moving<C::Memory>>,
) -> Tried<C::Memory> {
    let (ni, operation) = (moving.ni, moving.operation);
    if NiKind::from_index(ni).matching || !node.has_leases(peer) {
        return Tried::ByMessage(moving);
    }
    let Some(op) = direct_op(node.process(), &moving) else {
        return Tried::ByMessage(moving);
    };
    let observed = moving.is_answered();
    let token = node.process().enter(moving);
    let direct = Direct {
        op,
        tag: operation.pt_index,
        address: &beside(ni),
        offset: operation.remote_offset,
        length: operation.length,
        observed,
        token,
    };
    let why = match node.direct(peer, &direct) {
        Ok(started) => {
            let counters = &mut node.process().begun;
            counters.count(operation.op, Path::Direct, operation.length);
            if started == Started::Over {
                node.process().sent_short(token, true);
            }
            return Tried::Begun;
        }
        Err(why) => why,
    };
    match (node.process().take_back(token), why) {
        (None, _) => Tried::Begun,
        (Some(moving), NotDirect::Full) => Tried::Full(moving),
        (Some(moving), NotDirect::ByMessage | NotDirect::Lost) => Tried::ByMessage(moving),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address;
    use crate::process::Ni;
    use ferriband_portals_proto::{AckRequest, EntryInit, EntryOptions, Interface, Limits, List};
    use ferriband_portals_proto::{Local, MdInit, MdOptions, PtOptions, Region};
    use ferriband_putget_proto::{Answer, Asked, Kind, NotStarted, Start};

    /// A program's memory that has no bytes.
    #[derive(Default)]
    struct Nothing {
        /// How often staged memory was copied back.
        unstaged: u32,
    }

    impl Memory for Nothing {
        type Registration = ();
        type Staged = ();

        fn gather(&self, _: &[Piece], _: &mut [u8]) {}

        fn scatter(&mut self, _: &[u8], _: &[Piece]) {}

        fn register(&mut self, _: &Piece, _: bool, _: By) -> Result<((), u32), Status> {
            Ok(((), 4))
        }

        fn stage(&mut self, _: &[Piece], _: bool) -> ((), Piece) {
            let (address, length) = (0, 0);
            ((), Piece { address, length })
        }

        fn unstage(&mut self, (): &(), _: u64, _: &[Piece]) {
            self.unstaged += 1;
        }

        fn replace(&mut self, _: u64, _: u64, _: u64) -> bool {
            true
        }
    }

    /// Connections that keep what leases they are asked for, and have no room for requests.
    struct Wires {
        process: Process<Nothing>,
        lent: Vec<(Peer, u64, Rights)>,
        revoked: Vec<(Peer, u64)>,
        room: bool,
        /// Whether peers have given leases, and what has begun by them.
        leased: bool,
        begun: Vec<u64>,
    }

    impl Connections for Wires {
        type Memory = Nothing;

        fn process(&mut self) -> &mut Process<Nothing> {
            &mut self.process
        }

        fn peer(&mut self, _: ferriband_portals_proto::Process) -> Peer {
            Peer(0)
        }

        fn is_joined(&self, _: Peer) -> bool {
            true
        }

        fn join(&mut self, _: Peer) -> bool {
            true
        }

        fn rooms(&self, _: Peer, _: usize) -> Option<(u64, u64)> {
            Some((8, 8))
        }

        fn start(&mut self, _: Peer, _: &Start<'_>) -> Result<Started, NotStarted> {
            Err(NotStarted::Full)
        }

        fn has_leases(&self, _: Peer) -> bool {
            self.leased
        }

        fn direct(&mut self, _: Peer, direct: &Direct<'_>) -> Result<Started, NotDirect> {
            self.begun.push(direct.token);
            Ok(Started::Answered)
        }

        fn lease(&mut self, peer: Peer, lease: &Lease<'_>) -> bool {
            if self.room {
                self.lent.push((peer, lease.token, lease.rights));
            }
            self.room
        }

        fn revoke(&mut self, peer: Peer, token: u64) {
            self.revoked.push((peer, token));
        }
    }

    impl Wires {
        fn new(logical: bool) -> Wires {
            let kind = NiKind {
                matching: false,
                logical,
            };
            let id = ferriband_portals_proto::Process { nid: 1, pid: 1 };
            let mut process = Process::new(id, 0, Nothing::default());
            process.interfaces[usize::from(kind.index())] = Some(Ni {
                interface: Interface::new(kind, Limits::default()),
                opened: 1,
                map: Vec::new(),
                rank: 0,
            });
            for peer in 0..3 {
                process.identified(Peer(peer), id, 0);
            }
            let (lent, revoked) = (Vec::new(), Vec::new());
            Wires {
                process,
                lent,
                revoked,
                room: true,
                leased: false,
                begun: Vec::new(),
            }
        }

        fn ni(&mut self) -> &mut Ni {
            let mut open = self.process.interfaces.iter_mut().flatten();
            open.next().unwrap()
        }

        /// A table entry with a persistent entry.
        fn append(&mut self) -> Handle {
            self.append_for(EntryInit::UID_ANY, EntryOptions::empty())
        }

        /// An entry for a user, with options beside those that every entry has.
        fn append_for(&mut self, uid: u32, options: EntryOptions) -> Handle {
            let interface = &mut self.ni().interface;
            let _ = interface.pt_alloc(PtOptions::empty(), Handle::EQ_NONE, Some(4));
            let init = EntryInit {
                region: Region::flat(0x1000, 64),
                ct: Handle::CT_NONE,
                uid,
                options: options | EntryOptions::OP_PUT | EntryOptions::OP_GET,
                match_id: ferriband_portals_proto::Peer::Rank(0),
                match_bits: 0,
                ignore_bits: 0,
                min_free: 0,
            };
            interface.entry_append(4, &init, List::Priority, 0).unwrap()
        }

        /// A peer asks for eight bytes.
        fn ask(&mut self, peer: u32) {
            let kind = self.ni().interface.kind();
            let asked = Asked {
                kind: Kind::Get,
                tag: 4,
                address: &address::emit(kind, &get(None, 8), 0),
                length: 8,
                acknowledged: false,
            };
            let granted = self.process.admit(Peer(peer), &asked);
            if let Ok(granted) = granted {
                self.process.ended(granted.hold, Status::Ok);
            }
            crate::moving::advance(self);
        }
    }

    fn get(get: Option<Local>, length: u64) -> Operation {
        let id = ferriband_portals_proto::Process { nid: 2, pid: 2 };
        Operation {
            op: ArrivalOp::Get,
            put: None,
            get,
            length,
            ack: AckRequest::None,
            target: ferriband_portals_proto::Peer::Physical(id),
            pt_index: 4,
            match_bits: 0,
            remote_offset: 0,
            user_ptr: 0,
            hdr_data: 0,
            atomic: None,
            operand: [0; 32],
        }
    }

    #[test]
    fn an_entry_is_lent_once_to_who_has_asked_for_it() {
        let mut wires = Wires::new(false);
        wires.append();
        for peer in [0, 0, 1, 0, 1] {
            wires.ask(peer);
        }
        let rights = Rights::PUT | Rights::GET;
        assert_eq!(wires.lent, [(Peer(0), 1, rights), (Peer(1), 1, rights)]);
        // one that was not given may be given later
        wires.room = false;
        wires.ask(2);
        wires.room = true;
        wires.ask(2);
        assert_eq!(wires.lent.len(), 3);
        assert_eq!(wires.revoked, []);
    }

    #[test]
    fn a_disabled_table_entry_calls_back_what_is_lent() {
        let mut wires = Wires::new(false);
        wires.append();
        wires.ask(0);
        let interface = &mut wires.ni().interface;
        interface.pt_disable(4).unwrap();
        crate::moving::advance(&mut wires);
        assert_eq!(wires.revoked, [(Peer(0), 1)]);
        let recall = Recall::Table(0, 4);
        assert!(!wires.process.is_back(recall));
        wires.process.returned(Peer(0), 1);
        assert!(wires.process.is_back(recall));
        wires.ni().interface.pt_enable(4).unwrap();
        wires.ask(0);
        assert_eq!(wires.lent.len(), 2);
    }

    #[test]
    fn what_is_called_back_is_lent_to_nobody_until_that_is_over() {
        let mut wires = Wires::new(false);
        let entry = wires.append();
        wires.ask(0);
        recall(&mut wires, Recall::Entry(entry));
        assert_eq!(wires.revoked, [(Peer(0), 1)]);
        wires.ask(1);
        assert_eq!(wires.lent.len(), 1);
        wires.process.returned(Peer(0), 1);
        assert!(wires.process.is_back(Recall::Entry(entry)));
        wires.process.recalled(Recall::Entry(entry));
        wires.ask(1);
        assert_eq!(wires.lent.len(), 2);
    }

    #[test]
    fn an_unlinked_entry_is_another_one_afterwards() {
        let mut wires = Wires::new(false);
        let entry = wires.append();
        wires.ask(0);
        wires.process.returned(Peer(0), 1);
        wires.ni().interface.entry_unlink(entry).unwrap();
        wires.append();
        wires.ask(0);
        let tokens: Vec<u64> = wires.lent.iter().map(|lent| lent.1).collect();
        assert_eq!(tokens, [1, 2]);
    }

    #[test]
    fn an_entry_of_one_user_is_lent_to_no_other() {
        let mut wires = Wires::new(false);
        // the request of the other user is let in by an entry that is gone then
        wires.append_for(EntryInit::UID_ANY, EntryOptions::USE_ONCE);
        wires.append_for(0, EntryOptions::empty());
        let id = wires.process.id;
        wires.process.identified(Peer(1), id, 7);
        wires.ask(1);
        assert_eq!(wires.lent, []);
        wires.ask(0);
        assert_eq!(wires.lent.len(), 1);
    }

    #[test]
    fn a_get_that_had_no_room_as_a_message_and_goes_by_a_lease_is_left_as_it_comes() {
        let mut wires = Wires::new(false);
        let pieces = [0x2000, 0x3000, 0x4000].map(|address| Piece {
            address,
            length: 64,
        });
        let bound = wires.ni().interface.md_bind(&MdInit {
            region: Region::Iovec(pieces.to_vec()),
            options: MdOptions::empty(),
            eq: Handle::EQ_NONE,
            ct: Handle::CT_NONE,
        });
        let md = bound.unwrap();
        let own = Local { md, offset: 0 };
        crate::moving::begin(&mut wires, 0, get(Some(own), 192)).unwrap();
        assert_eq!(wires.begun, []);
        wires.leased = true;
        crate::moving::advance(&mut wires);
        let answer = Answer {
            status: Status::Ok,
            length: 192,
            offset: 0,
            tag: 0,
        };
        wires.process.done(wires.begun[0], answer);
        assert_eq!(wires.process.memory.unstaged, 0);
        assert!(wires.process.rests());
    }

    #[test]
    fn ranks_without_a_map_are_lent_nothing() {
        let mut wires = Wires::new(true);
        wires.append();
        wires.ask(0);
        assert_eq!(wires.lent, []);
        let id = wires.process.id;
        wires.ni().map = vec![id];
        wires.ask(0);
        assert_eq!(wires.lent.len(), 1);
    }
}
