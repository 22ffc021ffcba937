//! How connections come about: cards, set-up datagrams, queue pairs.

use super::heal::Needed;
use super::id::Id;
use super::link::Link;
use super::queue::{DEPTH, first_psn};
use super::rail::has_failed;
use super::{GRH, INLINE, Net, Reached, Ready};
use crate::constants::MPI_ERR_PROC_ABORTED;
use crate::errors::{MpiError, Outcome};
use crate::transport::contract::Roster;
use ferriband_heal::datagram::DATAGRAM;
use ferriband_heal::{AdapterId, Datagram, Endpoint, Epoch, Ns, Path, PathId, Session, State};
use ferriband_ibv::{Access, Mtu, Qp, QpCaps, QpInit, QpType, Qpn, Rtr, Rts, VerbsError};
use std::net::TcpListener;
use std::time::Instant;

/// READs that one side has under way at most.
const READS: u32 = 16;
/// A queue pair that fails before it is anything is made again so often.
const TRIES: u32 = 8;
/// What is not answered is repeated so often.
const RETRIES: u8 = 7;
/// A peer without a posted receive is tried again for ever: its process is there, and will come to
/// it.
const FOR_EVER: u8 = 7;
/// The pause before that, in the API's code: 0.01 ms.
const RNR_TIMER: u8 = 1;

/// Who is connected, and who is being.
pub struct Connect {
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
    /// Where this rank's card is told to ranks of other hosts, if there are any.
    pub(super) card_port: Option<TcpListener>,
}

impl Connect {
    /// Nanoseconds since the device was opened.
    pub(super) fn now(&self) -> Ns {
        Ns(u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX))
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

    /// A set-up datagram may lie in buffer `index` of a port of the adapter in hand.
    pub(super) fn take_datagram<R: Roster>(
        &mut self,
        (port, index): (u8, u32),
        length: u32,
        roster: &R,
    ) -> Outcome {
        let mut bytes = [0; DATAGRAM];
        let is_whole = length as usize == DATAGRAM + GRH as usize;
        let Some(place) = self.rail.port(port) else {
            return Ok(());
        };
        place.datagrams.read(index, GRH, &mut bytes);
        self.rail.listen(port, index)?;
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
        if self.reaches(peer) && self.find_way(roster, peer)? {
            self.handle_datagram(peer, port, &datagram)?;
        }
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
            let mut session = Session::new(me, peer, secret, limits);
            self.rails.introduce(&mut session, self.connect.now());
            let detect = Ns(self.limits.heal.detect_ns);
            Box::new(Link::new(session, &self.log, detect))
        })
    }

    /// Finds where datagrams for `peer` go; false as long as it has left no card.
    fn find_way<R: Roster>(&mut self, roster: &R, peer: u32) -> Outcome<bool> {
        if self.link(peer).wire.reach.serial().is_some() {
            return Ok(true);
        }
        let Some(card) = roster.card(peer) else {
            return Ok(false);
        };
        let is_ethernet = self.rails.common.is_ethernet;
        let mut addresses = card.addresses.iter().flatten();
        if !addresses.any(|one| one.is_ethernet == is_ethernet) {
            let text = "it is on another kind of network";
            return Err(self.lose(peer, text, MPI_ERR_PROC_ABORTED));
        }
        let by_packets = self.limits.bundle != 0 && self.goes_by_packets(peer);
        let link = self.link(peer);
        if !link.wire.reach.handle_card(&card) {
            return Ok(false);
        }
        link.together.bundle = if by_packets { card.receive } else { 0 };
        self.renew_paths(peer);
        Ok(true)
    }

    /// Makes the queue pair for `peer` on an adapter, by one of its ports, unless there is one: its
    /// end. What peers know of keys on another adapter, or of another opening of it, is void then.
    pub(super) fn make(
        &mut self,
        peer: u32,
        adapter: AdapterId,
        port: u8,
    ) -> Result<Endpoint, u32> {
        let rail = self
            .rail(adapter)
            .filter(|rail| rail.is_open && !rail.is_closing);
        let port_of = rail.and_then(|rail| rail.port(port.max(1)));
        let face = port_of.ok_or(libc::ENODEV.unsigned_abs())?.face;
        self.move_keys(peer, adapter)?;
        if self.link(peer).wire.queue.qp.is_none() {
            self.new_queue_pair(peer, adapter, port.max(1))
                .map_err(|error| self.no_queue_pair(peer, &error))?;
        }
        let lids = self.lids_of(adapter, port.max(1));
        let wire = &mut self.link(peer).wire;
        wire.lids = lids;
        (wire.made_by, wire.made_at) = (Some((adapter, port.max(1))), (face.lid, face.gid.0));
        let qpn = wire.queue.qp.as_ref().map_or(0, |qp| qp.number().0);
        Ok(Endpoint {
            qpn,
            psn: wire.psn,
            mtu: face.mtu.to_c() as u8,
            lid: face.lid,
            gid: face.gid.0,
            other_lid: lids.other.map_or(0, |(_, lid)| lid),
        })
    }

    fn new_queue_pair(
        &mut self,
        peer: u32,
        adapter: AdapterId,
        port: u8,
    ) -> Result<(), VerbsError> {
        let Some(rail) = self.rail_mut(adapter) else {
            return Ok(());
        };
        let caps = QpCaps {
            send_wr: DEPTH,
            recv_wr: 0,
            send_sge: 1,
            recv_sge: 1,
            inline: INLINE as u32,
        };
        let init = QpInit {
            caps,
            srq: Some(&rail.receives.srq),
            ..QpInit::new(QpType::Rc, &rail.device.cq, &rail.device.cq)
        };
        let access = Access::LOCAL_WRITE | Access::REMOTE_READ | Access::REMOTE_WRITE;
        let mut tries = 0..TRIES;
        let qp = loop {
            let qp = Qp::create(&rail.device.pd, &init)?;
            match qp.init(port, 0, access) {
                // It has failed before it was anything: another one is made.
                Err(_) if has_failed(&qp) && tries.next().is_some() => (),
                done => break done.map(|()| qp)?,
            }
        };
        rail.numbers.insert(qp.number().0, peer);
        let stage = rail.stages.lkey();
        let most_reads = rail.device.limits.max_init_rd_atomic.clamp(1, READS);
        let link = self.link(peer);
        link.long.most_reads = most_reads;
        link.wire.psn = first_psn(qp.number().0);
        (link.wire.queue.qp, link.wire.queue.stage) = (Some(qp), stage);
        Ok(())
    }

    /// Takes the queue pair for `peer` to where it may send to `end`, in the life `epoch`.
    pub(super) fn connect(
        &mut self,
        peer: u32,
        epoch: Epoch,
        end: &Endpoint,
        by: PathId,
    ) -> Result<(), u32> {
        if self.link(peer).long.given_up.voids_keys() {
            // The peer was told keys that are void since: it is asked again.
            return Err(libc::EAGAIN.unsigned_abs());
        }
        let wire = &self.link(peer).wire;
        // The table was read anew, and the path is no more, or another one has its number.
        let path = wire.paths.get(by).copied();
        let path = path.filter(|path| wire.made_by == Some((path.adapter, path.port)));
        let path = path.ok_or(libc::ESTALE.unsigned_abs())?;
        let path = Path {
            dgid: end.gid,
            dlid: if path.dgid == end.gid {
                path.dlid
            } else {
                end.lid
            },
            ..path
        };
        let mtu = Mtu::from_c(u32::from(path.mtu.min(end.mtu).max(1)));
        let link = self.link(peer);
        let (Some(qp), psn) = (link.wire.queue.qp.clone(), link.wire.psn) else {
            return Ok(());
        };
        (link.wire.mtu, link.wire.end, link.wire.path) = (mtu.bytes(), *end, path);
        link.wire.by = Some(by);
        link.wire.id = Id::Peer(peer).in_life(epoch.0);
        self.choose_second(peer, end);
        self.take_up(peer, &qp, psn, end)
            .map_err(|error| self.no_queue_pair(peer, &error))
    }

    /// The queue pair for `peer` cannot be made, or connected: the errno.
    #[cold]
    pub(super) fn no_queue_pair(&mut self, peer: u32, error: &VerbsError) -> u32 {
        self.is_refused(peer, Needed::QueuePair, error);
        error.errno().unsigned_abs()
    }

    /// Takes `qp`, whose sends begin with `psn`, to where it may send to `end`, by the path of the
    /// connection.
    pub(super) fn take_up(
        &mut self,
        peer: u32,
        qp: &Qp,
        psn: u32,
        end: &Endpoint,
    ) -> Result<(), VerbsError> {
        let deep = |most: u32| u8::try_from(most.min(READS)).unwrap_or(1).max(1);
        let wire = &self.link(peer).wire;
        let (path, mtu) = (wire.path, wire.path.mtu.min(end.mtu).max(1));
        let route = self.route(&path);
        let second = self.path_to_load(peer);
        let device = &self.rail_of(peer).device;
        let (theirs, ours) = (
            deep(device.limits.max_rd_atomic),
            deep(device.limits.max_init_rd_atomic),
        );
        qp.ready_to_receive(&Rtr {
            peer: Qpn(end.qpn),
            route,
            rq_psn: end.psn,
            mtu: Mtu::from_c(u32::from(mtu)),
            max_dest_rd_atomic: theirs,
            min_rnr_timer: RNR_TIMER,
        })?;
        let rts = Rts {
            sq_psn: psn,
            max_rd_atomic: ours,
            timeout: device.timeout,
            retry_cnt: RETRIES,
            rnr_retry: FOR_EVER,
        };
        if let Some(second) = second {
            if qp.ready_to_send_armed(&rts, &second).is_ok() {
                return Ok(());
            }
            // The adapter refuses it: without one it is as good as ever.
            self.link(peer).wire.second = None;
        }
        qp.ready_to_send(&rts)
    }
}
