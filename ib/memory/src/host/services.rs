//! Services of the communication manager: who has which service ID at which address, and who listens there.
//!
//! Owns: that a service is had once on a host, as a port is; looking up the listener. An rdma_cm port is the service ID that it
//! stands for. Must not know: the messages, or what a service ID is made of.

use super::layout::{SERVICES, State, header};
use super::multicast::words_of;
use super::registry::{Held, ProcessRef, Registry};
use super::{CREATE_ATTEMPTS, Host, HostError, random};
use ferriband_wire::Gid;
use std::net::Ipv6Addr;
use std::time::Duration;

/// Its owner accepts connections; without it the service is only reserved, as a bound port is.
pub const SERVICE_LISTENS: u32 = 1;
/// Others that have this bit too may reserve the same as long as none of them listens (RDMA_OPTION_ID_REUSEADDR).
pub const SERVICE_SHARED: u32 = 2;
/// A wildcard address stands for its own family only (RDMA_OPTION_ID_AFONLY).
pub const SERVICE_ONE_FAMILY: u32 = 4;

/// What a process has, or wants to have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Service {
    /// Service ID.
    pub id: u64,
    /// At which of the host's GIDs. All zeros stand for every one, ::ffff:0.0.0.0 for every IPv4-mapped one.
    pub gid: Gid,
    /// [`SERVICE_LISTENS`], [`SERVICE_SHARED`], [`SERVICE_ONE_FAMILY`].
    pub flags: u32,
    /// The owner's own.
    pub word: u64,
}

/// A service and who has it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ServiceEntry {
    /// Its owner.
    pub process: ProcessRef,
    /// What it has.
    pub service: Service,
}

/// A service that we have.
#[derive(Clone, Copy, Debug)]
pub struct ServiceClaim(Held);

impl Host {
    /// Reserves a service, or listens on it at once. Of several processes that try at the same time one gets it at most.
    ///
    /// # Errors
    /// `ServiceTaken`, `Full`, `Forked`, `Expelled`.
    pub fn service_claim(&self, service: &Service) -> Result<ServiceClaim, HostError> {
        for _ in 0..CREATE_ATTEMPTS {
            match self.claim(|| self.registry.service_claim(self.me, service))? {
                Attempt::Made(claim) => return Ok(claim),
                // Somebody who died holds nothing; whoever is half there may draw back.
                Attempt::Taken {
                    by,
                    settled,
                    wildcard,
                } => {
                    let alive = by == self.me || self.reap_process(by)? == super::Fate::Alive;
                    if settled && alive {
                        return Err(HostError::ServiceTaken {
                            owner: by,
                            wildcard,
                        });
                    }
                }
            }
            std::thread::sleep(Duration::from_micros(20 + random()? % 500));
        }
        Err(HostError::ServiceTaken {
            owner: self.me,
            wildcard: false,
        })
    }

    /// Listens on a service that was only reserved. Use the claim returned, not the one before.
    ///
    /// # Errors
    /// `ServiceTaken` if somebody else has it, too (both may have had [`SERVICE_SHARED`]); then, and with the others, the old
    /// claim stays good: `Full`, `Forked`, `Expelled`.
    pub fn service_listen(&self, claim: ServiceClaim) -> Result<ServiceClaim, HostError> {
        self.check_member()?;
        let entry = self
            .registry
            .service_of(claim.0)
            .ok_or(HostError::Expelled)?;
        // A second entry is made before the first one goes: there is no moment at which the service is nobody's.
        let wanted = Service {
            flags: entry.service.flags | SERVICE_LISTENS,
            ..entry.service
        };
        for _ in 0..CREATE_ATTEMPTS {
            match self.claim(|| {
                self.registry
                    .service_claim_beside(self.me, &wanted, Some(claim.0))
            })? {
                Attempt::Made(made) => {
                    self.service_release(claim);
                    return Ok(made);
                }
                Attempt::Taken {
                    by,
                    settled,
                    wildcard,
                } => {
                    let alive = by == self.me || self.reap_process(by)? == super::Fate::Alive;
                    if settled && alive {
                        return Err(HostError::ServiceTaken {
                            owner: by,
                            wildcard,
                        });
                    }
                }
            }
            std::thread::sleep(Duration::from_micros(20 + random()? % 500));
        }
        Err(HostError::ServiceTaken {
            owner: self.me,
            wildcard: false,
        })
    }

    /// Gives a service back; false if that had happened.
    pub fn service_release(&self, claim: ServiceClaim) -> bool {
        if self.check_fork().is_err() {
            return false;
        }
        let freed = self.registry.free(&SERVICES, claim.0);
        self.registry.add(header::SERVICE_EPOCH, 1);
        freed
    }
}

enum Attempt {
    Made(ServiceClaim),
    Taken {
        by: ProcessRef,
        /// It has it; else it is about to, and may draw back as we do.
        settled: bool,
        /// One of the two is for every address.
        wildcard: bool,
    },
}

impl Registry {
    fn service_claim(&self, owner: ProcessRef, service: &Service) -> Result<Attempt, HostError> {
        self.service_claim_beside(owner, service, None)
    }

    /// Claims unless another entry than `beside` is in the way. A claim under way shows its words before it looks at the others, so
    /// of two that conflict one at least sees the other.
    fn service_claim_beside(
        &self,
        owner: ProcessRef,
        service: &Service,
        beside: Option<Held>,
    ) -> Result<Attempt, HostError> {
        let held = self.claim(&SERVICES, owner, 0..SERVICES.count)?;
        let [high, low] = words_of(&service.gid);
        // Until these are stored the entry shows its predecessor's: in the way of somebody at worst, who then tries again.
        let words = [
            service.id,
            high,
            low,
            u64::from(service.flags),
            service.word,
        ];
        self.fill(&SERVICES, held, &words);
        let conflict = (0..self.used(&SERVICES)).find_map(|index| {
            if index == held.index || beside.is_some_and(|b| b.index == index) {
                return None;
            }
            let (entry, settled) = self.service_at(index)?;
            conflicts(&entry.service, service).then_some(Attempt::Taken {
                by: entry.process,
                settled,
                wildcard: is_wildcard(&entry.service.gid) || is_wildcard(&service.gid),
            })
        });
        if let Some(taken) = conflict {
            self.free(&SERVICES, held);
            return Ok(taken);
        }
        let held = self.publish(&SERVICES, held, State::Live)?;
        self.add(header::SERVICE_EPOCH, 1);
        Ok(Attempt::Made(ServiceClaim(held)))
    }

    /// An entry that is live (true) or being claimed.
    fn service_at(&self, index: usize) -> Option<(ServiceEntry, bool)> {
        let claim = self.claim_word(&SERVICES, index);
        if !claim.is(State::Live) && !claim.is(State::Claimed) {
            return None;
        }
        let [id, high, low, flags, word] =
            std::array::from_fn(|word| self.load(SERVICES.at(index, word + 1)));
        let now = self.claim_word(&SERVICES, index);
        // Published meanwhile: the words are the same. Freed: they are nobody's.
        if now.with(State::Claimed) != claim.with(State::Claimed) || now.is(State::Free) {
            return None;
        }
        let gid = Gid((u128::from(high) << 64 | u128::from(low)).to_be_bytes());
        let service = Service {
            id,
            gid,
            flags: flags as u32,
            word,
        };
        Some((
            ServiceEntry {
                process: claim.owner(),
                service,
            },
            claim.is(State::Live),
        ))
    }

    fn service_of(&self, held: Held) -> Option<ServiceEntry> {
        let (entry, settled) = self.service_at(held.index)?;
        (settled && self.claim_word(&SERVICES, held.index) == held.claim).then_some(entry)
    }

    /// Who listens on a service at one of the host's GIDs. An entry for just this address comes before one for all.
    pub fn service_find(&self, id: u64, gid: &Gid) -> Option<ServiceEntry> {
        self.service_find_of(id, gid, |_| true)
    }

    /// The same among the services of some processes.
    pub fn service_find_of(
        &self,
        id: u64,
        gid: &Gid,
        counts: impl Fn(ProcessRef) -> bool,
    ) -> Option<ServiceEntry> {
        self.services()
            .into_iter()
            .filter(|entry| {
                let service = &entry.service;
                service.id == id
                    && service.flags & SERVICE_LISTENS != 0
                    && covers(service, gid)
                    && counts(entry.process)
            })
            .min_by_key(|entry| (entry.service.gid != *gid, is_any(&entry.service.gid)))
    }

    /// All services, reserved and listened on.
    pub fn services(&self) -> Vec<ServiceEntry> {
        (0..self.used(&SERVICES))
            .filter_map(|index| self.service_at(index))
            .filter_map(|(entry, settled)| settled.then_some(entry))
            .collect()
    }

    /// Changes whenever the table has changed.
    pub fn service_epoch(&self) -> u64 {
        self.load(header::SERVICE_EPOCH)
    }
}

fn is_mapped(gid: &Gid) -> bool {
    gid.0[..10] == [0; 10] && gid.0[10..12] == [0xff; 2]
}

fn is_any(gid: &Gid) -> bool {
    gid.0 == [0; 16]
}

/// An address that stands for every address: as in Linux (`cma_any_addr`) a loopback address, too.
fn is_wildcard(gid: &Gid) -> bool {
    let address = Ipv6Addr::from(gid.0);
    match address.to_ipv4_mapped() {
        Some(v4) => v4.is_unspecified() || v4.is_loopback(),
        None => address.is_unspecified() || address.is_loopback(),
    }
}

/// True if what is meant for `gid` is the service's.
fn covers(service: &Service, gid: &Gid) -> bool {
    let any_v4 = is_mapped(&service.gid) && service.gid.0[12..] == [0; 4];
    service.gid == *gid
        || any_v4 && is_mapped(gid)
        || is_any(&service.gid) && !(service.flags & SERVICE_ONE_FAMILY != 0 && is_mapped(gid))
}

fn conflicts(a: &Service, b: &Service) -> bool {
    let overlap = covers(a, &b.gid) || covers(b, &a.gid);
    let both_share = a.flags & b.flags & SERVICE_SHARED != 0;
    let listened = (a.flags | b.flags) & SERVICE_LISTENS != 0;
    a.id == b.id && overlap && (listened || !both_share)
}
