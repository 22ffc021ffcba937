//! The responder's memory of READs and atomics: what is still to be answered, and what may have to be answered
//! again because a response was lost (IBA 9.7.5.1.2).
//!
//! Owns `max_dest_rd_atomic` entries in a ring. A requester keeps to that number, so an entry that falls out
//! belongs to a request whose answer has arrived. Knows no memory and no packets.

use ferriband_wire::{Psn, RKey, Reth};

/// What a request left behind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Saved {
    /// A READ: its whole range. The data are read again when it is answered again.
    Read { key: RKey, addr: u64, length: u32 },
    /// An atomic: the value before it, for it must not be executed twice (I2).
    Atomic { original: u64 },
}

/// Responses that are to be sent now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Job {
    psn: Psn,
    addr: u64,
    remaining: u32,
    begun: bool,
    /// Asked for by a duplicate; may be dropped without loss.
    replay: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Resource {
    first_psn: Psn,
    packets: u32,
    msn: u32,
    saved: Saved,
    job: Option<Job>,
}

/// The next response packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Response {
    /// Part of a READ.
    Read {
        psn: Psn,
        msn: u32,
        key: RKey,
        addr: u64,
        length: u32,
        first: bool,
        last: bool,
        /// It was answered before.
        again: bool,
    },
    /// The saved value.
    Atomic { psn: Psn, msn: u32, original: u64 },
}

#[derive(Debug, Default)]
pub(crate) struct Resources {
    ring: Box<[Option<Resource>]>,
    /// Where the next entry goes: the oldest one's place.
    next: usize,
    /// Entries with a job.
    jobs: u32,
    /// The oldest of them, while that is known.
    oldest: Option<usize>,
}

impl Resources {
    pub fn new(max_dest_rd_atomic: u8) -> Self {
        Resources {
            ring: vec![None; max_dest_rd_atomic.into()].into(),
            next: 0,
            jobs: 0,
            oldest: None,
        }
    }

    pub fn clear(&mut self) {
        self.ring.fill(None);
        (self.jobs, self.oldest) = (0, None);
    }

    /// Whether one more request fits: false when more are unanswered than the peer was told it may have (I8).
    pub fn has_room(&self) -> bool {
        match self.ring.get(self.next) {
            None => false,
            Some(Some(Resource { job: Some(job), .. })) => job.replay,
            Some(_) => true,
        }
    }

    fn push(&mut self, resource: Resource) {
        debug_assert!(self.has_room());
        if self.ring[self.next].is_some_and(|old| old.job.is_some()) {
            self.jobs -= 1;
        }
        self.ring[self.next] = Some(resource);
        self.jobs += 1;
        // that of a duplicate may have been there
        self.oldest = self.oldest.filter(|oldest| *oldest != self.next);
        self.next = (self.next + 1) % self.ring.len();
    }

    pub fn push_read(&mut self, psn: Psn, packets: u32, msn: u32, reth: Reth) {
        let (addr, length) = (reth.virtual_address, reth.dma_length);
        let job = Job {
            psn,
            addr,
            remaining: length,
            begun: false,
            replay: false,
        };
        let saved = Saved::Read {
            key: reth.rkey,
            addr,
            length,
        };
        self.push(Resource {
            first_psn: psn,
            packets,
            msn,
            saved,
            job: Some(job),
        });
    }

    pub fn push_atomic(&mut self, psn: Psn, msn: u32, original: u64) {
        let job = Job {
            psn,
            addr: 0,
            remaining: 0,
            begun: false,
            replay: false,
        };
        let saved = Saved::Atomic { original };
        self.push(Resource {
            first_psn: psn,
            packets: 1,
            msn,
            saved,
            job: Some(job),
        });
    }

    /// A READ that came again. It is answered only if it asks for a part of a remembered one, by address and by
    /// PSN (I3); `packets` is what it takes.
    pub fn replay_read(&mut self, psn: Psn, packets: u32, reth: Reth) -> bool {
        let found = self.ring.iter_mut().flatten().find(|resource| {
            let Saved::Read { key, addr, length } = resource.saved else {
                return false;
            };
            let skipped = psn.sub(resource.first_psn.get()).get();
            let Some(offset) = reth.virtual_address.checked_sub(addr) else {
                return false;
            };
            skipped < resource.packets
                && packets <= resource.packets - skipped
                && key == reth.rkey
                && offset <= u64::from(length)
                && u64::from(reth.dma_length) <= u64::from(length) - offset
        });
        let Some(resource) = found else { return false };
        self.oldest = None;
        let replay = resource.job.is_none_or(|job| job.replay);
        self.jobs += u32::from(resource.job.is_none());
        resource.job = Some(Job {
            psn,
            addr: reth.virtual_address,
            remaining: reth.dma_length,
            begun: false,
            replay,
        });
        true
    }

    /// An atomic that came again: its saved value is sent again. An unknown one is dropped (I2).
    pub fn replay_atomic(&mut self, psn: Psn) -> bool {
        let found = self.ring.iter_mut().flatten().find(|resource| {
            matches!(resource.saved, Saved::Atomic { .. }) && resource.first_psn == psn
        });
        let Some(resource) = found else { return false };
        self.oldest = None;
        if resource.job.is_none() {
            self.jobs += 1;
            resource.job = Some(Job {
                psn,
                addr: 0,
                remaining: 0,
                begun: false,
                replay: true,
            });
        }
        true
    }

    /// Takes the next response packet, oldest request first.
    pub fn take(&mut self, mtu: u32) -> Option<Response> {
        if self.jobs == 0 {
            return None;
        }
        let oldest = self.oldest.or_else(|| self.find_oldest())?;
        let resource = self.ring[oldest].as_mut()?;
        let job = resource.job.as_mut()?;
        let (psn, msn) = (job.psn, resource.msn);
        let (response, last) = match resource.saved {
            Saved::Atomic { original } => (Response::Atomic { psn, msn, original }, true),
            Saved::Read { key, .. } => {
                let length = job.remaining.min(mtu);
                let last = length == job.remaining;
                let (addr, first) = (job.addr, !job.begun);
                job.psn = job.psn.next();
                job.addr = job.addr.wrapping_add(length.into());
                job.remaining -= length;
                job.begun = true;
                (
                    Response::Read {
                        psn,
                        msn,
                        key,
                        addr,
                        length,
                        first,
                        last,
                        again: job.replay,
                    },
                    last,
                )
            }
        };
        self.oldest = (!last).then_some(oldest);
        if last {
            resource.job = None;
            self.jobs -= 1;
        }
        Some(response)
    }

    /// The oldest entry with a job.
    fn find_oldest(&self) -> Option<usize> {
        let has_job = |at: &usize| matches!(&self.ring[*at], Some(Resource { job: Some(_), .. }));
        (self.next..self.ring.len())
            .chain(0..self.next)
            .find(has_job)
    }

    pub fn has_jobs(&self) -> bool {
        self.jobs > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reth(addr: u64, length: u32, key: u32) -> Reth {
        Reth {
            virtual_address: addr,
            rkey: RKey(key),
            dma_length: length,
        }
    }

    fn drain(resources: &mut Resources) -> Vec<Response> {
        std::iter::from_fn(|| resources.take(256)).collect()
    }

    #[test]
    fn i2_a_duplicate_atomic_gets_the_saved_value_and_an_unknown_one_nothing() {
        let mut resources = Resources::new(2);
        resources.push_atomic(Psn::new(5), 1, 77);
        drain(&mut resources);
        assert!(resources.replay_atomic(Psn::new(5)));
        let expected = Response::Atomic {
            psn: Psn::new(5),
            msn: 1,
            original: 77,
        };
        assert_eq!(drain(&mut resources), [expected]);
        assert!(!resources.replay_atomic(Psn::new(6)));
        resources.push_atomic(Psn::new(6), 2, 0);
        resources.push_atomic(Psn::new(7), 3, 0);
        assert!(
            !resources.replay_atomic(Psn::new(5)),
            "it fell out of the ring"
        );
    }

    #[test]
    fn i3_a_replay_outside_the_original_read_is_refused() {
        let mut resources = Resources::new(1);
        let start = Psn::new(0xff_ffff);
        resources.push_read(start, 3, 1, reth(1000, 600, 9));
        drain(&mut resources);
        assert!(
            !resources.replay_read(start, 3, reth(1000, 601, 9)),
            "longer"
        );
        assert!(
            !resources.replay_read(start, 3, reth(999, 600, 9)),
            "earlier"
        );
        assert!(
            !resources.replay_read(start, 3, reth(1001, 600, 9)),
            "later end"
        );
        assert!(
            !resources.replay_read(start, 3, reth(1000, 600, 8)),
            "other key"
        );
        assert!(
            !resources.replay_read(start.add(1), 3, reth(1256, 344, 9)),
            "more PSNs than are left"
        );
        assert!(
            !resources.replay_read(start.add(3), 1, reth(1512, 88, 9)),
            "PSN behind it"
        );
        assert!(
            !resources.replay_read(start, 1, reth(u64::MAX, 2, 9)),
            "wraps around"
        );
        assert!(resources.replay_read(start.add(2), 1, reth(1512, 88, 9)));
        let [
            Response::Read {
                psn,
                addr: 1512,
                length: 88,
                first: true,
                last: true,
                ..
            },
        ] = drain(&mut resources)[..]
        else {
            panic!("one packet")
        };
        assert_eq!(psn, Psn::new(1));
    }

    #[test]
    fn i8_more_unanswered_requests_than_agreed_do_not_fit() {
        let mut resources = Resources::new(2);
        resources.push_read(Psn::new(0), 1, 1, reth(0, 1, 1));
        resources.push_atomic(Psn::new(1), 2, 0);
        assert!(!resources.has_room());
        resources.take(256);
        assert!(resources.has_room());
        drain(&mut resources);
        resources.replay_atomic(Psn::new(1));
        assert!(resources.has_room(), "an answer given again does not count");
        assert!(!Resources::new(0).has_room());
    }

    fn psns(responses: &[Response]) -> Vec<u32> {
        let psn = |response: &Response| match response {
            Response::Read { psn, .. } | Response::Atomic { psn, .. } => psn.get(),
        };
        responses.iter().map(psn).collect()
    }

    #[test]
    fn what_is_asked_for_again_goes_before_the_rest_of_a_newer_request() {
        let mut resources = Resources::new(2);
        resources.push_read(Psn::new(0), 2, 1, reth(0, 300, 1));
        assert_eq!(psns(&drain(&mut resources)), [0, 1]);
        resources.push_read(Psn::new(2), 3, 2, reth(0, 700, 1));
        assert_eq!(psns(&[resources.take(256).unwrap()]), [2]);
        assert!(resources.replay_read(Psn::new(0), 2, reth(0, 300, 1)));
        assert_eq!(psns(&[resources.take(256).unwrap()]), [0]);
        // the duplicate's entry is taken by a third request, which is the newest
        resources.push_read(Psn::new(5), 1, 3, reth(0, 8, 1));
        assert_eq!(psns(&drain(&mut resources)), [3, 4, 5]);
    }

    #[test]
    fn responses_leave_in_the_order_of_their_requests() {
        let mut resources = Resources::new(3);
        resources.push_read(Psn::new(0), 2, 1, reth(0, 300, 1));
        resources.push_atomic(Psn::new(2), 2, 4);
        resources.push_read(Psn::new(3), 1, 3, reth(0, 0, 1));
        assert_eq!(psns(&drain(&mut resources)), [0, 1, 2, 3]);
    }
}
