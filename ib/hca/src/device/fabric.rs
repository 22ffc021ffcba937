//! A host of a live fabric: what a program that `ferriband run --host` has put there finds instead of this machine's own InfiniBand port.
//!
//! Owns the connection to the fabric's process: what the manager has made of the port ([`port`]).
//! Whole packets go both ways by `wire/native/fabric.rs`. Such a host has a registry of its own
//! ([`label`]), so its queue pair numbers are its own. Must not know what packets say. What comes
//! is a stranger's.

mod fate;
mod group;
mod services;
mod way;

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU16, Ordering};

use ferriband_attach::ask::{Adapter, AdapterPort, Answer, Ask};
use ferriband_attach::{AttachError, HostName, Link};
use ferriband_fork::{PerProcess, Settled};
use ferriband_wire::{Gid, Guid, Lid};

use crate::base::error::Error;
use crate::lock;
pub(crate) use fate::look_into;
pub(crate) use group::{InGroup, join_group};
pub use services::{ServiceAt, ServiceQuestion, find_services};
pub(crate) use way::{Way, gid_at, is_own, own_address, seek_way};

/// How old what is known of the port may be.
const FRESH_NS: u64 = 250_000_000;

/// Entries of the P_Key table that programs can name: a block more than one, as the fabric's adapters have.
const PKEYS: usize = 32;

/// Ports of an adapter that programs can name.
pub(crate) const MOST_PORTS: usize = 8;

/// What was told of a port last, for who looks at each packet.
#[derive(Debug)]
struct Told {
    lid: AtomicU16,
    /// 3 bits.
    lmc: AtomicU8,
    pkeys: [AtomicU16; PKEYS],
}

impl Told {
    const fn nothing() -> Told {
        Told {
            lid: AtomicU16::new(0),
            lmc: AtomicU8::new(0),
            pkeys: [const { AtomicU16::new(0) }; PKEYS],
        }
    }

    /// Bits of a LID that are a path's.
    fn path_mask(&self) -> u8 {
        // 2^7 LIDs at the most
        (1 << self.lmc.load(Ordering::Relaxed)) - 1
    }
}

/// By port, from port 1 on.
static TOLD: [Told; MOST_PORTS] = [const { Told::nothing() }; MOST_PORTS];

fn told(port: u8) -> Option<&'static Told> {
    TOLD.get(usize::from(port).checked_sub(1)?)
}

/// This process is attached, and hears of changes of that table.
static IS_TOLD: PerProcess<AtomicBool> = PerProcess::new(|| AtomicBool::new(false));

/// The host that this process runs on; None: this machine itself.
pub(crate) fn host() -> Option<&'static HostName> {
    static HOST: Settled<Option<HostName>> = Settled::new();
    HOST.get_or_init(HostName::of_environment).as_ref()
}

/// True on a host of a live fabric.
pub fn is_host() -> bool {
    host().is_some()
}

/// The label of its registry.
pub fn label() -> String {
    host().map(HostName::registry_label).unwrap_or_default()
}

/// When the adapter was asked for, and what it was.
static KNOWN: PerProcess<Mutex<(u64, Option<Adapter>)>> = PerProcess::new(Mutex::default);

/// One of the ports has changed: what is known of the adapter is out of date.
pub(crate) fn forget_adapter() {
    lock(KNOWN.get()).0 = 0;
}

/// What the fabric says of the adapter, as it was a moment ago.
pub(crate) fn adapter() -> Option<Adapter> {
    let host = host()?;
    let mut known = lock(KNOWN.get());
    let now = ferriband_memory::wait::now().0;
    if known.0 == 0 || now - known.0 > FRESH_NS {
        let ask = Ask::Adapter {
            host: host.host.clone(),
        };
        let answer = Link::dial(&host.fabric).and_then(|link| link.ask(&ask));
        known.0 = now;
        known.1 = match answer {
            Ok(Answer::Adapter(mut adapter)) => {
                for port in &mut adapter.ports {
                    // three bits in PortInfo
                    port.lmc &= 7;
                    if let Some(told) = told(port.port.max(1)) {
                        told.lid.store(port.lid, Ordering::Relaxed);
                        told.lmc.store(port.lmc, Ordering::Relaxed);
                    }
                }
                Some(adapter)
            }
            // the fabric is gone: a port without a link
            _ => known.1.take().map(|mut adapter| {
                for port in &mut adapter.ports {
                    (port.state, port.phys_state) = (1, 2);
                }
                adapter
            }),
        };
    }
    known.1.clone()
}

/// Err while this host's fabric cannot be asked, because the system has too few descriptors or too little memory.
pub(crate) fn check_reach() -> Result<(), Error> {
    match host().map(|host| Link::dial(&host.fabric)) {
        Some(Err(AttachError::System { call, errno }))
            if ferriband_memory::Error::is_scarcity(errno.raw_os_error()) =>
        {
            Err(Error::system(call, errno.raw_os_error()))
        }
        _ => Ok(()),
    }
}

/// The port that connections of rdma_cm, groups and management use: the first that has a cable.
/// None on this machine itself, and if the fabric never was there.
pub(crate) fn port() -> Option<AdapterPort> {
    adapter()?.used().cloned()
}

/// The port of a number; None as for [`port`], and for a number that none has.
pub(crate) fn port_at(number: u8) -> Option<AdapterPort> {
    let adapter = adapter()?;
    let number = number_of(&adapter, number);
    let mut ports = adapter.ports.into_iter();
    ports.find(|port| port.port == number)
}

/// How many ports there are; 1 on this machine itself.
pub(crate) fn ports() -> u8 {
    adapter().map_or(1, |adapter| match adapter.port_used {
        0 => 1,
        _ => adapter.port_count.clamp(1, MOST_PORTS as u8),
    })
}

/// The number by which the fabric knows a port of programs: a switch has port 0, which they call 1.
fn number_of(adapter: &Adapter, port: u8) -> u8 {
    match adapter.port_used {
        0 => 0,
        _ => port,
    }
}

/// As [`number_of`], of the adapter as it is.
pub(crate) fn number_at(port: u8) -> u8 {
    adapter().map_or(port, |adapter| number_of(&adapter, port))
}

/// What programs call the port that [`port`] says.
pub(crate) fn usual() -> u8 {
    number().max(1)
}

/// Entries of a port's P_Key table.
pub(crate) fn pkeys() -> u32 {
    if host().is_some() { PKEYS as u32 } else { 1 }
}

/// The P_Key at an index of an InfiniBand port's table; 0, which is nobody's, where it has none.
/// What a queue pair sends and compares by.
#[inline(never)]
pub(crate) fn pkey(port: u8, index: u16) -> u16 {
    if host().is_none() {
        return crate::base::limits::DEFAULT_PKEY;
    }
    let entry = told(port).and_then(|told| told.pkeys.get(usize::from(index)));
    entry.map_or(0, |entry| entry.load(Ordering::Relaxed))
}

/// The same, for who asks what the table is: a process that is not attached has to ask in turn.
pub(crate) fn pkey_now(port: u8, index: u16) -> u16 {
    if host().is_none() || IS_TOLD.get().load(Ordering::Relaxed) {
        return pkey(port, index);
    }
    let port = port_at(port);
    let key = port.and_then(|port| port.pkeys.get(usize::from(index)).copied());
    key.unwrap_or(0)
}

/// This process is attached: it hears of changes of a port's table from now on, which is `keys`.
pub(crate) fn attached(port: u8, keys: &[u16]) {
    keep_pkeys(port, keys);
    IS_TOLD.get().store(true, Ordering::Relaxed);
}

/// Takes what the fabric says of a port's table; true if that is news.
pub(crate) fn keep_pkeys(port: u8, keys: &[u16]) -> bool {
    let keys = keys.iter().copied().chain(std::iter::repeat(0));
    let table = told(port).map_or(&[][..], |told| &told.pkeys);
    table.iter().zip(keys).fold(false, |news, (entry, key)| {
        entry.swap(key, Ordering::Relaxed) != key || news
    })
}

/// The number by which the fabric knows the port that [`port`] says; 1 on this machine itself.
pub(crate) fn number() -> u8 {
    adapter().map_or(1, |adapter| adapter.port_used)
}

/// Node GUID.
pub(crate) fn guid() -> Option<Guid> {
    adapter().map(|adapter| Guid(adapter.node_guid))
}

/// GID of the port that [`port`] says.
pub(crate) fn gid() -> Option<Gid> {
    port().map(|port| gid_of(&port))
}

/// GID of a port.
pub(crate) fn gid_of(port: &AdapterPort) -> Gid {
    Gid::from_prefix_guid(port.prefix, Guid(port.guid))
}

/// True if a GID is that of one of the ports.
pub(crate) fn has_gid(gid: Gid) -> bool {
    adapter().is_some_and(|adapter| adapter.ports.iter().any(|port| gid_of(port) == gid))
}

/// The port that has a LID, by what was told last.
#[inline]
fn told_of(lid: Lid) -> Option<(u8, &'static Told)> {
    let has = |told: &Told| {
        let (base, lmc) = (
            told.lid.load(Ordering::Relaxed),
            told.lmc.load(Ordering::Relaxed),
        );
        base != 0 && lid.0 >> lmc == base >> lmc
    };
    let at = TOLD.iter().position(has)?;
    Some((at as u8 + 1, &TOLD[at]))
}

/// The port that packets to a LID are for.
pub(crate) fn port_of_lid(lid: Lid) -> Option<u8> {
    // what was told last is not older than it may be
    adapter()?;
    told_of(lid).map(|(port, _)| port)
}

/// The bits of one of the ports' LIDs that LMC leaves to paths; for each packet: by what was told
/// last.
#[inline]
pub(crate) fn path_bits(lid: Lid) -> u8 {
    told_of(lid).map_or(0, |(_, told)| lid.0 as u8 & told.path_mask())
}

/// A port's path bits that LMC leaves it, of those that a program wants.
pub(crate) fn usable_bits(port: u8, wanted: u8) -> u8 {
    told(port).map_or(0, |told| wanted & told.path_mask())
}
