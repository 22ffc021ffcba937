//! How connections come about: cards, set-up datagrams, queue pairs.

use super::errors::failed;
use super::heal::PATH;
use super::id::Id;
use super::link::Link;
use super::memory::Buffers;
use super::queue::{DEPTH, first_psn};
use super::{GRH, INLINE, Net, PORT, Reached, Ready};
use crate::constants::MPI_ERR_PROC_ABORTED;
use crate::errors::{MpiError, Outcome};
use crate::transport::contract::Roster;
use ferriband_heal::datagram::DATAGRAM;
use ferriband_heal::{Datagram, Endpoint, Epoch, Ns, Session, State};
use ferriband_ibv::{
    Access, Ah, Gid, Lid, Mtu, Qp, QpCaps, QpInit, QpType, Qpn, Route, Rtr, Rts, VerbsError,
};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

/// READs that one side has under way at most.
const READS: u32 = 16;
/// What is not answered is repeated so often.
const RETRIES: u8 = 7;
/// A peer without a posted receive is tried again for ever: its process is there, and will come to
/// it.
const FOR_EVER: u8 = 7;
/// The pause before that, in the API's code: 0.01 ms.
const RNR_TIMER: u8 = 1;

/// How connections are made: by datagrams, whose buffers are here.
pub struct Connect {
    pub(super) ud: Arc<Qp>,
    pub(super) datagrams: Buffers,
    /// Datagrams that are under way from here.
    pub(super) under_way: u32,
    /// Receives of datagrams that the queue pair has given back, since it has failed.
    pub(super) flushed: u32,
    /// The job's secret, which each datagram of its ranks carries.
    pub(super) secret: u64,
    pub(super) me: u32,
    /// By rank: whether it is reached by the device.
    pub(super) reached: Box<[Reached]>,
    /// Ranks whose connection is being set up.
    pub(super) setting_up: Vec<u32>,
    /// Ranks to which words about the connection wait for room.
    pub(super) unsent_words: Vec<u32>,
    /// When the device was opened.
    pub(super) started: Instant,
}

impl Connect {
    /// Nanoseconds since the device was opened.
    pub(super) fn now(&self) -> Ns {
        Ns(u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }
}

/// The ranks behind our queue pairs.
pub struct Numbers {
    ranks: HashMap<u32, u32>,
    /// The last that was asked for, and its rank.
    last: (u32, u32),
}

impl Default for Numbers {
    fn default() -> Self {
        Self {
            ranks: HashMap::new(),
            last: NO_PAIR,
        }
    }
}

/// No queue pair has that number.
const NO_PAIR: (u32, u32) = (u32::MAX, 0);

impl Numbers {
    /// The rank behind the queue pair `number`.
    #[inline]
    pub(super) fn rank_of(&mut self, number: u32) -> Option<u32> {
        if self.last.0 == number {
            return Some(self.last.1);
        }
        let rank = *self.ranks.get(&number)?;
        self.last = (number, rank);
        Some(rank)
    }

    /// The queue pair `number` is to `peer`.
    pub(super) fn insert(&mut self, number: u32, peer: u32) {
        self.ranks.insert(number, peer);
    }

    /// The queue pairs to `peer` are no more.
    pub(super) fn forget_all_of(&mut self, peer: u32) {
        self.ranks.retain(|_, rank| *rank != peer);
        self.last = NO_PAIR;
    }
}

impl Net {
    /// Whether `peer` can be sent to; the first to ask begins to connect.
    #[inline]
    pub(super) fn ready<R: Roster>(&mut self, roster: &R, peer: u32) -> Outcome<Ready> {
        if let Some(link) = &self.links[peer as usize]
            && link.is_ready()
        {
            return Ok(Ready::Yes);
        }
        self.begin(roster, peer)
    }

    #[cold]
    fn begin<R: Roster>(&mut self, roster: &R, peer: u32) -> Outcome<Ready> {
        if let Some(link) = &self.links[peer as usize] {
            if let Some(why) = &link.wire.lost {
                return Err(MpiError::with(MPI_ERR_PROC_ABORTED, why.clone()));
            }
            if link.wire.session.state() != State::Idle {
                return Ok(Ready::NotYet);
            }
        }
        // A rank that has not come to MPI_Init has left no card; its message waits.
        if !self.find_way(roster, peer)? {
            return Ok(Ready::NotYet);
        }
        let now = self.connect.now();
        self.link(peer).wire.session.want(now);
        self.heed(peer);
        if !self.has_more() {
            self.drive(roster, peer)?;
        }
        Ok(Ready::NotYet)
    }

    /// A set-up datagram may lie in buffer `index`.
    pub(super) fn take_datagram<R: Roster>(
        &mut self,
        index: u32,
        length: u32,
        roster: &R,
    ) -> Outcome {
        let mut bytes = [0; DATAGRAM];
        let is_whole = length as usize == DATAGRAM + GRH as usize;
        self.connect.datagrams.read(index, GRH, &mut bytes);
        self.listen(index)?;
        let ranks = self.links.len() as u32;
        let datagram = Datagram::parse(&bytes).filter(|_| is_whole);
        // What is no datagram for this rank from one of the job is nothing: anybody may send to a
        // datagram queue pair.
        let Some(datagram) =
            datagram.filter(|one| one.is_for(self.connect.me, ranks, self.connect.secret))
        else {
            return Ok(());
        };
        let peer = datagram.from;
        // Without a card nobody can be answered; the datagram comes again.
        if !self.reaches(peer) || !self.find_way(roster, peer)? {
            return Ok(());
        }
        let now = self.connect.now();
        let session = &mut self.link(peer).wire.session;
        session.handle_datagram(&datagram, PATH, now);
        self.heed(peer);
        Ok(())
    }
}

impl Net {
    /// Whether `peer` is reached by the device.
    pub fn reaches(&self, peer: u32) -> bool {
        self.connect.reached[peer as usize].is_by_device()
    }

    /// What is known of the connection to `peer`.
    pub(super) fn link(&mut self, peer: u32) -> &mut Link {
        let (me, secret) = (self.connect.me, self.connect.secret);
        self.links[peer as usize].get_or_insert_with(|| {
            let limits = ferriband_heal::Limits {
                heal_for: self.limits.heal.for_ns.map(Ns),
                ..ferriband_heal::Limits::default()
            };
            Box::new(Link::new(Session::new(me, peer, secret, limits)))
        })
    }

    /// Finds where datagrams for `peer` go; false as long as it has left no card.
    fn find_way<R: Roster>(&mut self, roster: &R, peer: u32) -> Outcome<bool> {
        if self.link(peer).wire.way.is_some() {
            return Ok(true);
        }
        let Some(card) = roster.card(peer) else {
            return Ok(false);
        };
        if card.is_ethernet != self.device.card.is_ethernet {
            let text = "it is on another kind of network";
            return Err(self.lose(peer, text, MPI_ERR_PROC_ABORTED));
        }
        let route = self.route(card.lid, card.gid);
        let ah = Ah::create(&self.device.pd, &route)
            .map_err(|error| failed(&self.device.name, error))?;
        let by_packets = self.limits.bundle != 0 && self.goes_by_packets(peer);
        let path = self.path_to(&card);
        let link = self.link(peer);
        link.wire.way = Some((ah, card.qpn));
        link.wire.paths.renew(&[path]);
        link.together.bundle = if by_packets { card.receive } else { 0 };
        Ok(true)
    }

    fn route(&self, lid: u16, gid: [u8; 16]) -> Route {
        Route {
            dlid: Lid(lid),
            global: self
                .device
                .card
                .is_ethernet
                .then_some((Gid(gid), self.device.gid_index)),
            hop_limit: 64,
            port: PORT,
            ..Route::default()
        }
    }

    /// Makes the queue pair for `peer`, unless there is one; its end.
    pub(super) fn queue_pair(&mut self, peer: u32) -> Result<Endpoint, VerbsError> {
        if self.link(peer).wire.queue.qp.is_none() {
            let caps = QpCaps {
                send_wr: DEPTH,
                recv_wr: 0,
                send_sge: 1,
                recv_sge: 1,
                inline: INLINE as u32,
            };
            let init = QpInit {
                caps,
                srq: Some(&self.receives.srq),
                ..QpInit::new(QpType::Rc, &self.device.cq, &self.device.cq)
            };
            let qp = Qp::create(&self.device.pd, &init)?;
            qp.init(
                PORT,
                0,
                Access::LOCAL_WRITE | Access::REMOTE_READ | Access::REMOTE_WRITE,
            )?;
            self.numbers.insert(qp.number().0, peer);
            let link = self.link(peer);
            link.wire.psn = first_psn(qp.number().0);
            link.wire.queue.qp = Some(qp);
        }
        let (card, mtu) = (self.device.card, self.device.mtu);
        let link = self.link(peer);
        let qpn = link.wire.queue.qp.as_ref().map_or(0, |qp| qp.number().0);
        Ok(Endpoint {
            qpn,
            psn: link.wire.psn,
            mtu: mtu.to_c() as u8,
            lid: card.lid,
            gid: card.gid,
        })
    }

    /// Takes the queue pair for `peer` to where it may send to `end`, in the life `epoch`.
    pub(super) fn connect(
        &mut self,
        peer: u32,
        epoch: Epoch,
        end: &Endpoint,
    ) -> Result<(), VerbsError> {
        let mtu = self.mtu_to(end);
        let link = self.link(peer);
        let (Some(qp), psn) = (link.wire.queue.qp.clone(), link.wire.psn) else {
            return Ok(());
        };
        (link.wire.mtu, link.wire.end) = (mtu.bytes(), *end);
        link.wire.id = Id::Peer(peer).in_life(epoch.0);
        self.take_up(&qp, psn, end)
    }

    fn mtu_to(&self, end: &Endpoint) -> Mtu {
        Mtu::from_c(self.device.mtu.to_c().min(u32::from(end.mtu)))
    }

    /// Takes `qp`, whose sends begin with `psn`, to where it may send to `end`.
    pub(super) fn take_up(&self, qp: &Qp, psn: u32, end: &Endpoint) -> Result<(), VerbsError> {
        let deep = |most: u32| u8::try_from(most.min(READS)).unwrap_or(1).max(1);
        let (theirs, ours) = (
            deep(self.device.limits.max_rd_atomic),
            deep(self.device.limits.max_init_rd_atomic),
        );
        qp.ready_to_receive(&Rtr {
            peer: Qpn(end.qpn),
            route: self.route(end.lid, end.gid),
            rq_psn: end.psn,
            mtu: self.mtu_to(end),
            max_dest_rd_atomic: theirs,
            min_rnr_timer: RNR_TIMER,
        })?;
        qp.ready_to_send(&Rts {
            sq_psn: psn,
            max_rd_atomic: ours,
            timeout: self.device.timeout,
            retry_cnt: RETRIES,
            rnr_retry: FOR_EVER,
        })
    }

    /// READs that may be under way to one peer.
    pub(super) fn most_reads(&self) -> u32 {
        self.device.limits.max_init_rd_atomic.clamp(1, READS)
    }
}
