//! What a process says of its connections when `ferriband` asks.
//!
//! Owns: the form of that. Must not know: how it travels ([`ferriband_tell`]), how it is shown.

use crate::node::{Node, State};
use crate::users::Users;
use ferriband_putget_proto::{Leased, Stats};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// By this name processes are found that can be asked.
pub const PROTOCOL: &str = "putget";

/// Leases.
#[derive(Serialize, Deserialize, Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LeaseReport {
    /// How many there are.
    pub count: u64,
    /// Bytes of their memory.
    pub bytes: u64,
}

/// A connection, or one that is being made.
#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug)]
pub struct ConnectionReport {
    /// Where the peer listens.
    pub peer: SocketAddr,
    /// Its user, by its own word; none before it was heard of.
    pub uid: Option<u32>,
    /// Requests may be begun.
    pub stands: bool,
    /// The adapter.
    pub device: Option<String>,
    /// Leases that the peer holds.
    pub leases_given: LeaseReport,
    /// Leases that the process holds.
    pub leases_held: LeaseReport,
    /// What it has done, by name.
    pub counters: BTreeMap<String, u64>,
}

/// A process.
#[derive(Serialize, Deserialize, Clone, PartialEq, Debug)]
pub struct Report {
    /// Its program.
    pub program: String,
    /// Where it listens.
    pub address: SocketAddr,
    /// Its user.
    pub uid: u32,
    /// It is traced.
    pub traced: bool,
    /// Its connections.
    pub connections: Vec<ConnectionReport>,
    /// What all connections have done, those that are over among them, by name.
    pub counters: BTreeMap<String, u64>,
    /// Its Portals; null without.
    pub portals: Value,
}

impl From<Leased> for LeaseReport {
    fn from(leased: Leased) -> LeaseReport {
        let Leased { count, bytes } = leased;
        LeaseReport { count, bytes }
    }
}

/// Counters by their names: `begun_short_puts`, `served_short_puts`, `refused`.
fn named(stats: &Stats) -> BTreeMap<String, u64> {
    let begun = stats.begun.named();
    let served = stats.served.named();
    let begun = begun.map(|(name, count)| (format!("begun_{name}"), count));
    let served = served.map(|(name, count)| (format!("served_{name}"), count));
    let paths = stats.paths.named();
    let paths = paths.map(|(name, count)| (name.to_owned(), count));
    begun.chain(served).chain(paths).collect()
}

fn program() -> String {
    let path = std::env::current_exe().ok();
    let name = path.as_ref().and_then(|path| path.file_name());
    name.map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default()
}

impl<U: Users> Node<U> {
    /// What the process is and has done.
    pub fn report(&self) -> Report {
        let mut all = self.past;
        let links = self.places.iter().filter_map(|place| place.link.as_ref());
        links.for_each(|link| all.add(link.machine.stats()));
        let peers = self.peers.iter();
        let connections = peers.filter_map(|entry| {
            let (place, stands) = match &entry.state {
                State::Nobody => return None,
                State::Joined(place, stands) => (Some(*place), *stands),
                State::Asking(..) | State::Awaited(_) => (None, false),
            };
            let place = place.and_then(|place| self.places.get(usize::from(place)));
            let link = place.and_then(|place| place.link.as_ref());
            let (given, held) = link.map(|link| link.machine.leased()).unwrap_or_default();
            Some(ConnectionReport {
                peer: entry.address,
                uid: Some(entry.uid).filter(|uid| *uid != u32::MAX),
                stands,
                device: link.map(|link| self.adapters[link.adapter].context.device().name()),
                leases_given: given.into(),
                leases_held: held.into(),
                counters: link
                    .map(|link| named(link.machine.stats()))
                    .unwrap_or_default(),
            })
        });
        Report {
            program: program(),
            address: self.own,
            uid: self.settings.uid,
            traced: self.tracer.is_some(),
            connections: connections.collect(),
            counters: named(&all),
            portals: self.users.report(),
        }
    }

    /// That as a text.
    pub(crate) fn tell(&self) -> String {
        // a report has nothing that is no JSON
        serde_json::to_string(&self.report()).unwrap_or_default()
    }
}
