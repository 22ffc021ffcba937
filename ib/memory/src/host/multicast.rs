//! The multicast table: which queue pairs of the domain are attached to which group.
//!
//! Owns: attach, detach, list. Must not know: how a datagram reaches the members.

use super::HostError;
use super::layout::{MULTICAST, State, header};
use super::registry::{Held, ProcessRef, Registry};
use ferriband_wire::{Gid, Lid, Qpn};

/// One attachment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MulticastMember {
    /// Owner of the queue pair.
    pub process: ProcessRef,
    /// The queue pair.
    pub qpn: Qpn,
    /// Multicast LID that it was attached with.
    pub mlid: Lid,
}

impl Registry {
    pub(super) fn multicast_attach(
        &self,
        owner: ProcessRef,
        mgid: &Gid,
        mlid: Lid,
        qpn: Qpn,
    ) -> Result<(), HostError> {
        if self.attachment(owner, mgid, mlid, qpn).is_some() {
            return Ok(());
        }
        let held = self.claim(&MULTICAST, owner, 0..MULTICAST.count)?;
        let [high, low] = words_of(mgid);
        for (word, value) in [high, low, qp_word(mlid, qpn)].into_iter().enumerate() {
            self.store(MULTICAST.at(held.index, word + 1), value);
        }
        self.publish(&MULTICAST, held, State::Live)?;
        self.add(header::MULTICAST_EPOCH, 1);
        Ok(())
    }

    pub(super) fn multicast_detach(
        &self,
        owner: ProcessRef,
        mgid: &Gid,
        mlid: Lid,
        qpn: Qpn,
    ) -> bool {
        let Some(held) = self.attachment(owner, mgid, mlid, qpn) else {
            return false;
        };
        let freed = self.free(&MULTICAST, held);
        self.add(header::MULTICAST_EPOCH, 1);
        freed
    }

    /// The members of a group, in no particular order; `out` is cleared first. Looks at every attachment of the domain:
    /// keep the list and compare [`Registry::multicast_epoch`] (read before listing).
    pub fn multicast_members(&self, mgid: &Gid, out: &mut Vec<MulticastMember>) {
        out.clear();
        let wanted = words_of(mgid);
        for index in 0..self.used(&MULTICAST) {
            if let Some((claim, [high, low, qp])) = self.read(&MULTICAST, index)
                && [high, low] == wanted
            {
                let (qpn, mlid) = (Qpn(qp as u32), Lid((qp >> 32) as u16));
                out.push(MulticastMember {
                    process: claim.owner(),
                    qpn,
                    mlid,
                });
            }
        }
    }

    /// Changes whenever the table has changed.
    pub fn multicast_epoch(&self) -> u64 {
        self.load(header::MULTICAST_EPOCH)
    }

    fn attachment(&self, owner: ProcessRef, mgid: &Gid, mlid: Lid, qpn: Qpn) -> Option<Held> {
        let [high, low] = words_of(mgid);
        (0..self.used(&MULTICAST)).find_map(|index| {
            let (claim, words) = self.read::<3>(&MULTICAST, index)?;
            (claim.owner() == owner && words == [high, low, qp_word(mlid, qpn)])
                .then_some(Held { index, claim })
        })
    }
}

fn qp_word(mlid: Lid, qpn: Qpn) -> u64 {
    u64::from(qpn.0) | u64::from(mlid.0) << 32
}

pub(super) fn words_of(mgid: &Gid) -> [u64; 2] {
    let raw = u128::from_be_bytes(mgid.0);
    [(raw >> 64) as u64, raw as u64]
}
