//! Connections to other hosts as the host's registry has them, and what is said for those who were killed.
//!
//! A process that ends in order takes leave of its peers; one that is killed cannot. Who it was connected to on this host notices by
//! itself; a peer on another host would hear nothing. So each connection over the network is written down, and the process that finds
//! another one dead sends the DREQ that it owes. Owns the form of such a record. Must not know how a death is noticed.

use ferriband_cm::{Machine, Route, Summary};
use ferriband_memory::host::{CONNECTION_WORDS, Inherited};
use ferriband_transport::types::AddressVector;
use ferriband_wire::cm::{CmMad, Dreq, PrivateData};
use ferriband_wire::mad::MAD_LEN;
use ferriband_wire::{CommId, Gid, Lid, Qpn, Sl, TransactionId};

use super::id::Id;
use super::{Cm, HOP_LIMIT, route};
use crate::progress::Engine;

/// Connections of the dead that one look takes over at the most: what the registry's table holds.
const MOST_INHERITED: usize = 8192;

fn halves(gid: &Gid) -> [u64; 2] {
    let whole = u128::from_be_bytes(gid.0);
    [(whole >> 64) as u64, whole as u64]
}

fn whole(high: u64, low: u64) -> Gid {
    Gid((u128::from(high) << 64 | u128::from(low)).to_be_bytes())
}

/// A connection in the registry's words; None for one that does not leave this host.
fn words(connection: &Summary, sgid: &Gid) -> Option<[u64; CONNECTION_WORDS]> {
    let Route::Gsi { av, .. } = connection.route else {
        return None;
    };
    let [d_high, d_low] = halves(&av.dgid);
    let [s_high, s_low] = halves(sgid);
    let remote = connection.remote?;
    Some([
        u64::from(connection.comm.0) | u64::from(remote.0) << 32,
        connection.remote_qpn.0.into(),
        d_high,
        d_low,
        s_high,
        s_low,
        u64::from(av.dlid.0) | u64::from(av.sl.0) << 16,
    ])
}

/// The last word of a dead process, where it goes, and from which of our GIDs.
fn last_word(dead: &Inherited) -> Option<(AddressVector, Gid, [u8; MAD_LEN])> {
    let [ids, qpn, d_high, d_low, s_high, s_low, way] = dead.words;
    let message = Dreq {
        local_comm_id: CommId(ids as u32),
        remote_comm_id: CommId((ids >> 32) as u32),
        remote_qpn: Qpn(qpn as u32 & 0xff_ffff),
        private_data: PrivateData::default(),
    };
    let mut mad = [0; MAD_LEN];
    // any transaction does: a DREQ begins an exchange
    CmMad::new(TransactionId(ids), message)
        .emit(&mut mad)
        .ok()?;
    let to = AddressVector {
        // by the port that is used where nobody names one
        dgid: whole(d_high, d_low),
        ..AddressVector::default()
    };
    let dlid = Lid(way as u16);
    // through a fabric by LID, over Ethernet by GID
    let to = match dlid {
        Lid(0) => AddressVector {
            hop_limit: HOP_LIMIT,
            is_global: true,
            ..to
        },
        dlid => AddressVector {
            dlid,
            sl: Sl((way >> 16) as u8 & 0xf),
            ..to
        },
    };
    Some((to, whole(s_high, s_low), mad))
}

impl Id {
    /// Writes the connection down, if it leads to another host.
    pub(super) fn open_record(&mut self, engine: &Engine, machine: &Machine) {
        let (Some(comm), Some(place), None) = (self.comm, &self.place, &self.record) else {
            return;
        };
        let Some(connection) = machine.summary(comm) else {
            return;
        };
        let Some(words) = words(&connection, &place.gid()) else {
            return;
        };
        // a full table costs the peer the news of our death, nothing else
        self.record = engine.process.registry.connection_open(&words).ok();
        // with packets forced the other end may be a process of this host
        if let Some(owner) = engine.process.registry.owner_of_qpn(connection.remote_qpn)
            && route::place_of_gid(&self.dgid, Lid(0)).is_some()
        {
            engine.watch_life(owner);
        }
    }

    /// The connection has ended in order.
    pub(super) fn close_record(&mut self, engine: &Engine) {
        if let Some(record) = self.record.take() {
            engine.process.registry.connection_close(record);
        }
    }
}

impl Cm {
    /// Takes leave for the processes of this host that could not.
    pub(crate) fn speak_for_the_dead(engine: &Engine) {
        for _ in 0..MOST_INHERITED {
            let Some(dead) = engine.process.registry.connection_inherit() else {
                return;
            };
            let Some((to, sgid, mad)) = last_word(&dead) else {
                continue;
            };
            let Some(place) = route::place_of_gid(&sgid, Lid(0)) else {
                continue;
            };
            let Ok(roce) = engine.packets_of(&place.device) else {
                continue;
            };
            let av = AddressVector {
                sgid_index: place.sgid_index,
                ..to
            };
            roce.send_mad(&place.device, &av, &mad);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferriband_memory::host::ProcessRef;
    use ferriband_wire::cm::Message;

    #[test]
    fn what_is_written_down_becomes_a_dreq() {
        let (here, there) = (whole(1, 2), whole(3, 4));
        let connection = Summary {
            comm: CommId(0x0030_1234),
            remote: Some(CommId(0x0050_9876)),
            state: ferriband_cm::table::State::Established,
            local_qpn: Qpn(7),
            remote_qpn: Qpn(0x123),
            active: true,
            route: Route::Gsi {
                device: 1,
                sgid_index: 0,
                av: AddressVector {
                    dgid: there,
                    is_global: true,
                    ..AddressVector::default()
                },
            },
        };
        let process = ProcessRef {
            slot: 3,
            generation: 1,
        };
        let words = words(&connection, &here).expect("it leaves the host");
        let (to, from, mad) = last_word(&Inherited { process, words }).expect("a message");
        assert!(to.is_global);
        assert_eq!((to.dgid, to.dlid, from), (there, Lid(0), here));
        let Message::Dreq(dreq) = CmMad::parse(&mad).expect("whole").message else {
            panic!("no DREQ");
        };
        assert_eq!(
            (dreq.local_comm_id, dreq.remote_comm_id, dreq.remote_qpn),
            (connection.comm, CommId(0x0050_9876), Qpn(0x123))
        );
    }

    #[test]
    fn through_a_fabric_it_goes_by_lid() {
        let process = ProcessRef {
            slot: 3,
            generation: 1,
        };
        let words = [7 | 9 << 32, 0x123, 3, 4, 1, 2, 0x5_0012];
        let (to, from, _) = last_word(&Inherited { process, words }).expect("a message");
        assert_eq!((to.dlid, to.sl, to.is_global), (Lid(0x12), Sl(5), false));
        assert_eq!(from, whole(1, 2));
    }
}
