//! What ranks say to each other about failures: that a communicator is revoked, and what its
//! members agree about although some of them die (the ULFM extension: `docs/design/ulfm.md`).
//!
//! Owns: what of this is sent to whom, and what is made of it. Must not know: how a communicator is
//! made, who finds out that a rank has died.

use crate::constants::{MPI_ERR_INTERN, MPI_ERR_PROC_ABORTED};
use crate::errors::{MpiError, Outcome, broken};
use crate::ground::memory::{Buffer, Source};
use crate::handle::Token;
use crate::objects::comm::Remote;
use crate::objects::comms::WORLD;
use crate::objects::group::Group;
use crate::p2p::circles::{Circle, End, Pending, Revoked, members};
use crate::p2p::request::{Request, Work};
use crate::p2p::runtime::Runtime;
use crate::transport::contract::{Body, Head, Message};
use ferriband_mpi_proto::agree::{Agreements, Decision, Members, Vote, Word};
use ferriband_mpi_proto::envelope::Kind;
use std::collections::BTreeMap;

/// The tag of the word that a communicator is revoked; those of agreements are their numbers.
const REVOKED: i32 = -1;
/// What requests have as context that are words of ranks and belong to no communicator.
const NO_CONTEXT: u64 = u64::MAX;
/// Words about agreements of communicators that are not known yet, at most, for each rank of the
/// world: as many communicators as are being made at a time.
const EARLY: usize = 4096;

impl Runtime {
    /// Ranks of the world that belong to a communicator and have died, as this one has learned of
    /// them.
    pub fn failed_of(&self, comm: u32) -> Vec<u32> {
        self.point.failed_of(comm)
    }

    /// Begins an agreement of a communicator's members about `flag`; the request that is over with
    /// it.
    pub fn begin_agreement(&mut self, comm: u32, flag: u32, end: End) -> Outcome<u32> {
        self.look_for_losses();
        self.settle_due()?;
        let failed = self.failed_of(comm);
        let context = self.open_circle(comm)?;
        let own_context = self.point.objects.comms.new_context();
        let request = Request::special(Work::Agreement, comm);
        let request = self.point.requests.add(request)?;
        let entry = &self.point.objects.comms[comm];
        let (group, side) = members(entry);
        let numbered = |ranks: &[u32]| {
            let known = ranks.iter().filter_map(|world| group.rank_of(*world));
            Members::of(group.size(), known)
        };
        let mut flags = [u32::MAX; 2];
        flags[side] = flag;
        let vote = Vote {
            flags,
            failed: numbered(&failed),
            acked: numbered(&failed[..failed.len().min(entry.acked as usize)]),
            context: own_context,
        };
        if let Some(circle) = self.point.faults.circles.get_mut(&context) {
            let number = circle.agreements.begin(vote);
            circle.pending.insert(number, Pending { request, end });
        }
        self.carry_agreements(context)?;
        Ok(request)
    }

    /// Nobody waits for an agreement any more: what it says goes nowhere.
    #[cold]
    pub fn forget_agreement(&mut self, request: u32) {
        for circle in self.point.faults.circles.values_mut() {
            circle
                .pending
                .retain(|_, pending| pending.request != request);
        }
    }

    /// The communicator of members that have agreed is gone. What they keep stays until all of them
    /// have freed it.
    #[cold]
    pub fn free_circle(&mut self, context: u64) -> Outcome {
        if let Some(circle) = self.point.faults.circles.get_mut(&context) {
            circle.agreements.free();
        }
        self.carry_agreements(context)
    }

    /// All members that live have freed a communicator: nobody says anything of it any more.
    fn forget_circle(&mut self, context: u64) {
        let faults = &mut self.point.faults;
        faults.circles.remove(&context);
        faults.revoked.remove(&context);
        faults.early.retain(|(_, _, of, _)| *of != context);
    }

    /// The members of a communicator can agree; its context.
    fn open_circle(&mut self, comm: u32) -> Outcome<u64> {
        let entry = &self.point.objects.comms[comm];
        let context = entry.context;
        if self.point.faults.circles.contains_key(&context) {
            return Ok(context);
        }
        let (group, _) = members(entry);
        let me = group.rank_of(self.point.rank);
        let me = me.ok_or_else(|| MpiError::new(MPI_ERR_INTERN))?;
        let is_lost = |world: u32| self.point.peers[world as usize].lost;
        let numbers = (0..group.size()).zip(group.ranks());
        let dead = numbers.filter(|(_, world)| is_lost(*world));
        let dead = Members::of(group.size(), dead.map(|(member, _)| member));
        let circle = Circle {
            agreements: Agreements::new(me, group.size(), dead),
            group,
            pending: BTreeMap::new(),
        };
        self.point.faults.circles.insert(context, circle);
        for (from, tag, of, bytes) in std::mem::take(&mut self.point.faults.early) {
            if of == context {
                self.hear_of_agreement(from, tag, context, &bytes)?;
            } else {
                self.point.faults.early.push((from, tag, of, bytes));
            }
        }
        Ok(context)
    }

    /// A word about failures has come from a rank of the world.
    pub fn take_fault(&mut self, from: u32, tag: i32, context: u64, bytes: Box<[u8]>) -> Outcome {
        if tag == REVOKED {
            return self.hear_of_revoke(from, context);
        }
        if !self.point.faults.circles.contains_key(&context) {
            match self.point.objects.comms.of_context(context) {
                Some(comm) => drop(self.open_circle(comm)?),
                // Who says so has agreed with this rank: it has forgotten it, as all have.
                None if Word::parse(&bytes, 0) == Some(Word::Freed) => {
                    return self.tell_fault(from, tag, context, &Word::Forget.emit());
                }
                None if Word::parse(&bytes, 0) == Some(Word::Forget) => return Ok(()),
                None => {
                    let most = EARLY * self.point.peers.len();
                    if self.point.faults.early.len() == most {
                        return Err(broken(from));
                    }
                    let word = (from, tag, context, bytes);
                    self.point.faults.early.push(word);
                    return Ok(());
                }
            }
        }
        self.hear_of_agreement(from, tag, context, &bytes)?;
        self.carry_agreements(context)
    }

    fn hear_of_agreement(&mut self, from: u32, tag: i32, context: u64, bytes: &[u8]) -> Outcome {
        let Some(circle) = self.point.faults.circles.get_mut(&context) else {
            return Ok(());
        };
        let word = Word::parse(bytes, circle.group.size());
        let (Some(member), Some(word)) = (circle.group.rank_of(from), word) else {
            return Err(broken(from));
        };
        circle.agreements.handle(member, tag.cast_unsigned(), word);
        Ok(())
    }

    /// Sends what the members of a communicator are to hear, and ends what they have decided.
    fn carry_agreements(&mut self, context: u64) -> Outcome {
        loop {
            let Some(circle) = self.point.faults.circles.get_mut(&context) else {
                return Ok(());
            };
            if let Some((member, number, word)) = circle.agreements.poll_transmit() {
                if let Some(to) = circle.group.world(member) {
                    self.tell_fault(to, number.cast_signed(), context, &word.emit())?;
                }
            } else if let Some((number, decision)) = circle.agreements.poll_decision() {
                let pending = circle.pending.remove(&number);
                let group = circle.group.clone();
                self.learn_of(&group, &decision);
                if let Some(Pending { request, end }) = pending {
                    self.end_agreement(request, end, &group, &decision);
                }
            } else {
                if circle.agreements.is_forgotten() {
                    self.forget_circle(context);
                }
                return Ok(());
            }
        }
    }

    /// Those that have failed, as members say who may have learned it first.
    fn learn_of(&mut self, group: &Group, decision: &Decision) {
        self.look_for_losses();
        let failed: Vec<u32> = decision
            .failed
            .iter()
            .filter_map(|member| group.world(member))
            .collect();
        for world in failed {
            if world != self.point.rank && !self.point.peers[world as usize].lost {
                self.lose(world);
            }
        }
    }

    fn end_agreement(&mut self, request: u32, end: End, group: &Group, decision: &Decision) {
        let comm = self.point.requests[request].comm;
        match end {
            End::Agree(flag) => {
                let entry = &self.point.objects.comms[comm];
                // On two sides each gets the other's bits.
                let side = match &entry.remote {
                    None => 0,
                    Some(_) => 1 - members(entry).1,
                };
                flag.fill(&decision.flags[side].to_ne_bytes());
                if !decision.is_acked {
                    self.point.requests[request].status.error = MPI_ERR_PROC_ABORTED;
                }
            }
            End::Shrink(fresh) => {
                if let Err(error) = self.populate(fresh, group, decision) {
                    self.point.requests[request].status.error = error.class;
                }
            }
        }
        self.finish(request);
    }

    /// A communicator gets those of `group` that have not failed, and its context.
    fn populate(&mut self, fresh: u32, group: &Group, decision: &Decision) -> Outcome {
        let lives = |world: &u32| {
            let member = group.rank_of(*world);
            member.is_some_and(|member| !decision.failed.contains(member))
        };
        let left = |of: &Group| Group::of(of.ranks().filter(lives).collect());
        let is_lost = |world: u32| self.point.peers[world as usize].lost;
        let entry = &self.point.objects.comms[fresh];
        let own = left(&entry.group);
        let theirs = entry.remote.as_ref().map(|remote| left(&remote.group));
        let rank = own.rank_of(self.point.rank);
        let rank = rank.ok_or_else(|| MpiError::new(MPI_ERR_INTERN))?;
        let is_broken =
            own.ranks().any(is_lost) || theirs.iter().any(|theirs| theirs.ranks().any(is_lost));
        let entry = &mut self.point.objects.comms[fresh];
        entry.remote = theirs.map(|theirs| Box::new(Remote::new(&own, theirs)));
        entry.reach = own.clone();
        (entry.group, entry.rank, entry.broken) = (own, rank, is_broken);
        self.point.name_comm(fresh, decision.context)
    }

    /// A word about failures for a rank of the world.
    fn tell_fault(&mut self, to: u32, tag: i32, context: u64, bytes: &[u8]) -> Outcome {
        let mut message = Message {
            head: Head {
                tag,
                context,
                ..Head::of(Kind::Fault)
            },
            body: Body::EMPTY,
            source: Source::EMPTY,
            token: Token::NONE,
        };
        if !bytes.is_empty() {
            let mut memory = Buffer::new(bytes.len());
            memory.bytes_mut().copy_from_slice(bytes);
            message.source = memory.source();
            let mut request = Request::send(Work::Eager, WORLD, NO_CONTEXT, to, message.source);
            request.memory = Some(memory);
            request.freed = true;
            let request = self.point.requests.add(request)?;
            message.token = self.point.requests.slab.token(request);
        }
        self.queue(to, message)
    }

    /// MPIX_Comm_revoke.
    pub fn revoke(&mut self, comm: u32) -> Outcome {
        let context = self.point.objects.comms[comm].context;
        if self.point.faults.revoked.contains_key(&context) {
            return Ok(());
        }
        let me = self.point.rank;
        let group = Some(members(&self.point.objects.comms[comm]).0);
        let entry = Revoked { by: me, group };
        self.point.faults.revoked.insert(context, entry);
        self.interrupt(comm);
        self.spread_revoke(context)?;
        self.settle_due()
    }

    /// A rank says that a communicator is revoked. Who hears it tells the others only if that rank
    /// dies, which tells all of them while it lives (lazy reliable broadcast).
    fn hear_of_revoke(&mut self, from: u32, context: u64) -> Outcome {
        if self.point.faults.revoked.contains_key(&context) {
            return Ok(());
        }
        let entry = Revoked {
            by: from,
            group: None,
        };
        self.point.faults.revoked.insert(context, entry);
        match self.point.objects.comms.of_context(context) {
            Some(comm) => self.become_revoked(comm),
            None => Ok(()),
        }
    }

    /// A communicator of this process is one that others have revoked.
    pub fn become_revoked(&mut self, comm: u32) -> Outcome {
        let context = self.point.objects.comms[comm].context;
        let group = members(&self.point.objects.comms[comm]).0;
        let Some(entry) = self.point.faults.revoked.get_mut(&context) else {
            return Ok(());
        };
        entry.group = Some(group);
        let by = entry.by;
        self.interrupt(comm);
        if self.point.peers[by as usize].lost {
            self.spread_revoke(context)?;
        }
        Ok(())
    }

    /// Tells all others of a communicator that it is revoked.
    fn spread_revoke(&mut self, context: u64) -> Outcome {
        let me = self.point.rank;
        let Some(entry) = self.point.faults.revoked.get_mut(&context) else {
            return Ok(());
        };
        let Some(group) = entry.group.clone() else {
            return Ok(());
        };
        entry.by = me;
        for to in group.ranks().filter(|to| *to != me) {
            if !self.point.peers[to as usize].lost {
                self.tell_fault(to, REVOKED, context, &[])?;
            }
        }
        Ok(())
    }

    /// A rank of the world has died: members of communicators that agree hear of it, and what it
    /// has revoked is revoked by this one, too.
    pub fn tell_of_death(&mut self, rank: u32) -> Outcome {
        let contexts: Vec<u64> = self.point.faults.circles.keys().copied().collect();
        for context in contexts {
            if let Some(circle) = self.point.faults.circles.get_mut(&context)
                && let Some(member) = circle.group.rank_of(rank)
            {
                circle.agreements.died(member);
                self.carry_agreements(context)?;
            }
        }
        let revoked = self.point.faults.revoked.iter();
        let heard = revoked.filter(|(_, entry)| entry.by == rank);
        let contexts: Vec<u64> = heard.map(|(context, _)| *context).collect();
        for context in contexts {
            self.spread_revoke(context)?;
        }
        Ok(())
    }

    /// This rank leaves MPI after deaths: whoever may still ask for its last decisions has them.
    pub fn part_from_agreements(&mut self) -> Outcome {
        let contexts: Vec<u64> = self.point.faults.circles.keys().copied().collect();
        for context in contexts {
            if let Some(circle) = self.point.faults.circles.get_mut(&context) {
                circle.agreements.part();
            }
            self.carry_agreements(context)?;
        }
        Ok(())
    }
}
