//! A host of a live fabric: what a program that `ferriband run --host` has put there finds instead of this machine's own InfiniBand port.
//!
//! Owns the connection to the fabric's process: what the manager has made of the port ([`port`]).
//! Whole packets go both ways by `wire/native/fabric.rs`. Such a host has a registry of its own
//! ([`label`]), so its queue pair numbers are its own. Must not know what packets say. What comes
//! is a stranger's.

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
pub(crate) use group::{InGroup, join_group};
pub use services::{ServiceAt, ServiceQuestion, find_services};
pub(crate) use way::{Way, gid_at, is_own, own_address, seek_way};

/// How old what is known of the port may be.
const FRESH_NS: u64 = 250_000_000;

/// Entries of the P_Key table that programs can name: a block more than one, as the fabric's adapters have.
const PKEYS: usize = 32;

/// The port's P_Key table: what was told of it last.
static PKEY_TABLE: [AtomicU16; PKEYS] = [const { AtomicU16::new(0) }; PKEYS];

/// The port's LMC, 3 bits: what was told of it last.
static LMC: AtomicU8 = AtomicU8::new(0);

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

/// What the fabric says of the adapter, as it was a moment ago.
pub(crate) fn adapter() -> Option<Adapter> {
    static KNOWN: PerProcess<Mutex<(u64, Option<Adapter>)>> = PerProcess::new(Mutex::default);
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
                }
                let lmc = adapter.used().map_or(0, |port| port.lmc);
                LMC.store(lmc, Ordering::Relaxed);
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

/// The port; None on this machine itself, and if the fabric never was there.
pub(crate) fn port() -> Option<AdapterPort> {
    adapter()?.used().cloned()
}

/// Entries of the port's P_Key table.
pub(crate) fn pkeys() -> u32 {
    if host().is_some() { PKEYS as u32 } else { 1 }
}

/// The P_Key at an index of the InfiniBand port's table; 0, which is nobody's, where it has none. What a queue pair sends and compares by.
pub(crate) fn pkey(index: u16) -> u16 {
    if host().is_none() {
        return crate::base::limits::DEFAULT_PKEY;
    }
    let entry = PKEY_TABLE.get(usize::from(index));
    entry.map_or(0, |entry| entry.load(Ordering::Relaxed))
}

/// The same, for who asks what the table is: a process that is not attached has to ask in turn.
pub(crate) fn pkey_now(index: u16) -> u16 {
    if host().is_none() || IS_TOLD.get().load(Ordering::Relaxed) {
        return pkey(index);
    }
    let port = port();
    let key = port.and_then(|port| port.pkeys.get(usize::from(index)).copied());
    key.unwrap_or(0)
}

/// This process is attached: it hears of changes of the table from now on, which is `keys`.
pub(crate) fn attached(keys: &[u16]) {
    keep_pkeys(keys);
    IS_TOLD.get().store(true, Ordering::Relaxed);
}

/// Takes what the fabric says of the table; true if that is news.
pub(crate) fn keep_pkeys(keys: &[u16]) -> bool {
    let keys = keys.iter().copied().chain(std::iter::repeat(0));
    let entries = PKEY_TABLE.iter().zip(keys);
    entries.fold(false, |news, (entry, key)| {
        entry.swap(key, Ordering::Relaxed) != key || news
    })
}

/// Its number at the adapter, by which the fabric knows it. An adapter is one device with one port here, which programs call 1.
pub(crate) fn number() -> u8 {
    adapter().map_or(1, |adapter| adapter.port_used)
}

/// Node GUID.
pub(crate) fn guid() -> Option<Guid> {
    adapter().map(|adapter| Guid(adapter.node_guid))
}

/// GID of the port.
pub(crate) fn gid() -> Option<Gid> {
    port().map(|port| Gid::from_prefix_guid(port.prefix, Guid(port.guid)))
}

/// The bits of a LID that the port's LMC leaves to paths; for each packet: what was heard last.
#[inline]
pub(crate) fn path_bits(lid: u16) -> u8 {
    (lid & ((1 << LMC.load(Ordering::Relaxed)) - 1)) as u8
}

/// True if packets to a LID are for the port.
pub(crate) fn has_lid(lid: Lid) -> bool {
    port().is_some_and(|port| port.lid != 0 && lid.0 >> port.lmc == port.lid >> port.lmc)
}
