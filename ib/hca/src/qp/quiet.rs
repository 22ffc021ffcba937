//! Taking memory back: no access to it is in flight when a revocation returns.
//!
//! Owns nothing. Must not know regions.

use std::time::{Duration, Instant};

use ferriband_transport::direct::Link;
use ferriband_transport::direct::mark::{self, Revoked};

use crate::base::error::Error;
use crate::lock;
use crate::objects::regions::{Memory, Quiet};
use crate::process::peers::MapSource;
use crate::qp::adapter::Adapter;

/// How long a deregistration waits for a peer that stopped in the middle of an access.
const STOPPED_PEER_WAIT: Duration = Duration::from_secs(2);

impl Adapter {
    /// Its registered memory.
    pub(crate) fn memory(&self) -> Memory<'_> {
        Memory {
            regions: &self.regions,
            process: &self.process,
            quiet: self,
        }
    }
}

impl Quiet for Adapter {
    fn keep_mapping(&self, source: MapSource) -> u32 {
        self.peers.keep_mapping(source)
    }

    fn forget_mapping(&self, id: u32) {
        self.peers.forget_mapping(id);
    }

    /// Waits until no access to what was revoked is in flight, here or in a peer.
    fn wait_for_marks(&self, what: Revoked) -> Result<(), Error> {
        if let Some(roce) = self.wires.roce.get() {
            let mut qps = self
                .table
                .qps
                .read()
                .unwrap_or_else(std::sync::PoisonError::into_inner)
                .clone();
            qps.extend(lock(&self.table.carried).values().cloned().map(Some));
            roce.quiesce(|| {
                qps.iter().flatten().for_each(|qp| qp.wait_for_packets());
            });
        }
        // records of peers are executed under the ring's consumer lock: having held it is having
        // waited
        let peers = self.peers.all();
        let mut deadline = None;
        for link in peers.iter() {
            let Some(channel) = link.0.channel.get() else {
                continue;
            };
            self.wait_for_records(channel);
            while mark::in_flight(&**channel.table, self.process.slot, what)
                && link.0.lives()
                && !link.dead()
            {
                let deadline = *deadline.get_or_insert_with(|| Instant::now() + STOPPED_PEER_WAIT);
                if Instant::now() > deadline {
                    return Err(Error::Busy(
                        "a peer process stopped in the middle of an access; it cannot begin another",
                    ));
                }
                std::thread::yield_now();
            }
        }
        Ok(())
    }
}
