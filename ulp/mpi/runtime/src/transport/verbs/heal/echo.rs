//! The echo: a queue pair of datagrams that answers PROBE while the program computes, so that its
//! peers tell a process that is silent from a path that is (docs/design/heal.md, section 5.4).
//!
//! Owns: that queue pair, its completions and buffers, and where answers go. Must not know:
//! sessions, whether an answer matters. It is the thread's ([`super::thread`]); what the rank's
//! card says of the adapter is lent to it.
//!
//! Whatever comes is hostile: only a PROBE of a rank of the job is answered, by 128 bytes for 128.

use super::super::memory::Buffers;
use super::super::{GRH, Id};
use ferriband_heal::datagram::{DATAGRAM, Origin};
use ferriband_heal::{AdapterId, Cause, Datagram, Endpoint, Kind, PathId, Word};
use ferriband_ibv::{
    Access, Ah, CompChannel, Context, Cq, Element, Gid, Lid, Pd, QKey, Qp, QpCaps, QpInit, QpState,
    QpType, Qpn, RecvWr, Route, SendFlags, SendWr, VerbsError, Wc,
};
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

/// Datagrams that lie here before they are looked at: three of each of 21 peers.
const PROBES: u32 = 64;
/// Answers that are under way.
const ANSWERS: u32 = 64;
/// Ways to peers that are kept.
const WAYS: usize = 32;
/// Completions that are taken at once.
const BATCH: usize = 8;

/// Whose the echo is.
#[derive(Clone, Copy, Debug)]
pub struct Whose {
    /// World rank.
    pub me: u32,
    /// Ranks of the world.
    pub ranks: u32,
    /// What only ranks of the job know.
    pub secret: u64,
    /// Key of the job's queue pairs of datagrams.
    pub qkey: QKey,
}

/// What the rank's card says of the adapter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spot {
    /// Index of its GID.
    pub gid_index: u8,
    /// Whether ways have a GID.
    pub is_ethernet: bool,
    /// LID of the port; 0 on Ethernet.
    pub lid: u16,
    /// As many low bits of it lead to the port all the same.
    pub lmc: u8,
    /// GID of the port.
    pub gid: [u8; 16],
    /// Number of the queue pair that the rank itself looks at.
    pub ud: u32,
    /// Serial of the card.
    pub serial: u32,
    /// Flags of the rank's datagrams.
    pub flags: u8,
}

impl Spot {
    /// Which of its LIDs answers one that comes from `lid`: the low bits of LIDs are those of the
    /// route (IBA 4.1.3), and an answer takes the route of its question.
    fn bits_to(&self, lid: u16) -> u8 {
        let mask = (1_u16 << self.lmc.min(7)) - 1;
        if self.is_ethernet {
            0
        } else {
            (lid & mask) as u8
        }
    }
}

/// Where an answer goes: LID and GID of the peer's port, index of the own GID.
type To = (u16, [u8; 16], u8);

/// The echo of one adapter.
pub struct Echo {
    whose: Whose,
    adapter: u8,
    port: u8,
    qp: Arc<Qp>,
    cq: Arc<Cq>,
    channel: Arc<CompChannel>,
    pd: Arc<Pd>,
    buffers: Buffers,
    ways: Vec<(To, Arc<Ah>)>,
    /// The way that goes next for another one.
    next_way: usize,
    /// Answers that are under way.
    under_way: u32,
    /// Receives that the queue pair has given back, since it has failed.
    flushed: u32,
}

impl Echo {
    /// The echo of `adapter`, which answers by `port`.
    pub fn open(
        (adapter, port): (u8, u8),
        context: &Arc<Context>,
        pd: &Arc<Pd>,
        whose: Whose,
    ) -> io::Result<Self> {
        let verb = |error: VerbsError| io::Error::from_raw_os_error(error.errno());
        let channel = CompChannel::create(context).map_err(verb)?;
        channel.set_nonblocking().map_err(verb)?;
        let cq = Cq::create(context, PROBES + ANSWERS, Some(&channel), 0).map_err(verb)?;
        let bytes = GRH + DATAGRAM as u32;
        let access = Access::LOCAL_WRITE;
        let buffers = Buffers::new(pd, c"ferriband-mpi-echo", PROBES, bytes, access)
            .map_err(|error| io::Error::from_raw_os_error(error.errno()))?;
        let caps = QpCaps {
            send_wr: ANSWERS,
            recv_wr: PROBES,
            send_sge: 1,
            recv_sge: 1,
            inline: DATAGRAM as u32,
        };
        let init = QpInit {
            caps,
            ..QpInit::new(QpType::Ud, &cq, &cq)
        };
        let echo = Self {
            whose,
            adapter,
            port,
            qp: Qp::create(pd, &init).map_err(verb)?,
            cq,
            channel,
            pd: Arc::clone(pd),
            buffers,
            ways: Vec::new(),
            next_way: 0,
            under_way: 0,
            flushed: 0,
        };
        echo.begin().map_err(verb)?;
        echo.cq.arm(false).map_err(verb)?;
        Ok(echo)
    }

    /// Number of its queue pair, for the card.
    pub fn number(&self) -> u32 {
        self.qp.number().0
    }

    /// Readable when something has come.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.channel.fd()
    }

    /// From RESET on.
    fn begin(&self) -> Result<(), VerbsError> {
        self.qp.init_ud(self.port, 0, self.whose.qkey)?;
        for index in 0..PROBES {
            self.listen(index)?;
        }
        self.qp.ready_ud(0)
    }

    fn listen(&self, index: u32) -> Result<(), VerbsError> {
        let elements = [self.buffers.element(index, GRH + DATAGRAM as u32)];
        self.qp.post_recv(&mut RecvWr::new(
            Id::Datagram(self.port, index).code(),
            &elements,
        ))?;
        Ok(())
    }

    /// Answers all that has come, from `spot`; `told` hears of each PROBE.
    pub fn answer_all(
        &mut self,
        spot: &Spot,
        mut told: impl FnMut(&Datagram),
    ) -> Result<(), VerbsError> {
        while self.channel.next_event()?.is_some() {}
        self.cq.arm(false)?;
        let mut batch = [Wc::default(); BATCH];
        loop {
            let count = self.cq.poll(&mut batch)?;
            for wc in &batch[..count] {
                self.completed(wc, spot, &mut told)?;
            }
            if count == 0 {
                return Ok(());
            }
        }
    }

    fn completed(
        &mut self,
        wc: &Wc,
        spot: &Spot,
        told: &mut impl FnMut(&Datagram),
    ) -> Result<(), VerbsError> {
        match Id::of(wc.id()) {
            Some(Id::Datagram(_, index)) if wc.is_ok() => {
                let probe = self.read(index, wc.byte_len());
                self.listen(index)?;
                if let Some(probe) = probe {
                    told(&probe);
                    self.answer(&probe, spot)?;
                }
                Ok(())
            }
            Some(Id::Datagram(..)) => {
                self.flushed += 1;
                self.begin_anew()
            }
            _ => {
                self.under_way = self.under_way.saturating_sub(1);
                self.begin_anew()
            }
        }
    }

    /// The queue pair, if it has failed and given back all requests, begins anew under its number,
    /// which others know.
    fn begin_anew(&mut self) -> Result<(), VerbsError> {
        if self.flushed < PROBES || self.under_way != 0 {
            return Ok(());
        }
        self.flushed = 0;
        self.qp.stop(QpState::Reset)?;
        self.begin()
    }

    /// The PROBE in a buffer, if there is one for this rank.
    fn read(&self, index: u32, length: u32) -> Option<Datagram> {
        let mut bytes = [0; DATAGRAM];
        self.buffers.read(index, GRH, &mut bytes);
        let is_whole = length == GRH + DATAGRAM as u32;
        let datagram = Datagram::parse(&bytes).filter(|_| is_whole)?;
        is_probe(&datagram, &self.whose).then_some(datagram)
    }

    fn answer(&mut self, probe: &Datagram, spot: &Spot) -> Result<(), VerbsError> {
        if self.under_way >= ANSWERS {
            // It counts as lost, as any may be.
            return Ok(());
        }
        let Ok(way) = self.way(probe, spot) else {
            // To an address that cannot be reached nothing goes.
            return Ok(());
        };
        let bytes = answer_of(probe, &self.whose, spot, (self.adapter, self.number())).emit();
        let elements = [Element::inline(&bytes)];
        let mut request = SendWr::send(Id::Sent(self.port).code(), &elements)
            .flags(SendFlags::INLINE | SendFlags::SIGNALED)
            .to(&way, Qpn(probe.origin.ud), self.whose.qkey);
        self.qp.post_send(&mut request)?;
        self.under_way += 1;
        Ok(())
    }

    fn way(&mut self, probe: &Datagram, spot: &Spot) -> Result<Arc<Ah>, VerbsError> {
        let key: To = (probe.end.lid, probe.end.gid, spot.gid_index);
        if let Some((_, way)) = self.ways.iter().find(|(known, _)| *known == key) {
            return Ok(Arc::clone(way));
        }
        let route = Route {
            dlid: Lid(key.0),
            global: spot.is_ethernet.then_some((Gid(key.1), spot.gid_index)),
            hop_limit: 64,
            port: self.port,
            path_bits: spot.bits_to(key.0),
            ..Route::default()
        };
        let way = Ah::create(&self.pd, &route)?;
        let kept = (key, Arc::clone(&way));
        if self.ways.len() < WAYS {
            self.ways.push(kept);
        } else {
            self.ways[self.next_way] = kept;
            self.next_way = (self.next_way + 1) % WAYS;
        }
        Ok(way)
    }
}

fn is_probe(datagram: &Datagram, whose: &Whose) -> bool {
    datagram.kind == Kind::Probe && datagram.is_for(whose.me, whose.ranks, whose.secret)
}

/// What a PROBE is answered with.
fn answer_of(probe: &Datagram, whose: &Whose, spot: &Spot, (adapter, echo): (u8, u32)) -> Datagram {
    Datagram {
        kind: Kind::Probed,
        cause: Cause::First,
        secret: whose.secret,
        from: whose.me,
        to: probe.from,
        epoch: probe.epoch,
        word: Word::default(),
        errno: 0,
        end: Endpoint {
            lid: spot
                .lid
                .wrapping_add(u16::from(spot.bits_to(probe.end.lid))),
            gid: spot.gid,
            ..Endpoint::default()
        },
        path: PathId(0),
        origin: Origin {
            adapter: AdapterId(adapter),
            flags: spot.flags,
            ud: spot.ud,
            echo,
            serial: spot.serial,
        },
        since_us: 0,
        tries: 0,
        after: ferriband_heal::Epoch::NONE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferriband_heal::Epoch;

    const WHOSE: Whose = Whose {
        me: 1,
        ranks: 4,
        secret: 77,
        qkey: QKey(5),
    };

    fn probe() -> Datagram {
        let mut probe = answer_of(
            &Datagram::parse(&seed()).expect("a datagram"),
            &Whose { me: 0, ..WHOSE },
            &Spot::default(),
            (2, 9),
        );
        (probe.kind, probe.to, probe.epoch) = (Kind::Probe, 1, Epoch(0x8000_0007));
        probe
    }

    /// The bytes of a datagram to begin with.
    fn seed() -> [u8; DATAGRAM] {
        let mut bytes = [0; DATAGRAM];
        bytes[..8].copy_from_slice(&[0x70, 0x75, 0x46, 0x4d, 6, 0, 6, 0]);
        bytes[52] = 1;
        bytes
    }

    #[test]
    fn a_probe_is_answered_with_its_counter_and_where_the_rank_is() {
        let spot = Spot {
            lid: 3,
            gid: [7; 16],
            ud: 21,
            serial: 12,
            flags: 1,
            ..Spot::default()
        };
        let answer = answer_of(&probe(), &WHOSE, &spot, (2, 9));
        let again = Datagram::parse(&answer.emit()).expect("it is one");
        assert_eq!(again.kind, Kind::Probed);
        assert_eq!((again.from, again.to), (1, 0));
        assert_eq!(again.epoch, Epoch(0x8000_0007));
        assert_eq!((again.end.lid, again.end.gid), (3, [7; 16]));
        let origin = again.origin;
        assert_eq!((origin.adapter.0, origin.flags), (2, 1));
        assert_eq!((origin.ud, origin.echo, origin.serial), (21, 9, 12));
        assert!(again.is_for(0, 4, 77));
    }

    #[test]
    fn only_a_probe_of_the_job_for_this_rank_is_one() {
        assert!(is_probe(&probe(), &WHOSE));
        let with = |change: fn(&mut Datagram)| {
            let mut other = probe();
            change(&mut other);
            is_probe(&other, &WHOSE)
        };
        assert!(!with(|one| one.secret = 78));
        assert!(!with(|one| one.to = 2));
        assert!(!with(|one| one.from = 4), "there is no such rank");
        assert!(!with(|one| one.from = 1), "it is this one");
        assert!(
            !with(|one| one.kind = Kind::Probed),
            "echoes would never end"
        );
        assert!(!with(|one| one.kind = Kind::Down));
    }
}
