//! Who has an address on the fabric, and how one gets there.
//!
//! Addresses are known to the fabric's process, as IP over InfiniBand would find them by asking everybody. The way is what subnet administration says, asked by a
//! management packet like any other: whoever manages the fabric answers.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use ferriband_attach::ask::AdapterPort;
use ferriband_attach::ask::{Answer, Ask, Registration};
use ferriband_attach::mad::{self, MadHead};
use ferriband_attach::{AttachError, Link, address, number_at};
use ferriband_fork::PerProcess;
use ferriband_wire::attributes::{PathRecord, PathRecordMask, PortState};
use ferriband_wire::mad::{
    DEFAULT_PKEY, GSI_QKEY, GSI_QPN, MAD_LEN, MadStatus, ManagementClass, Method,
};
use ferriband_wire::sa::{SaMad, attribute};
use ferriband_wire::{Gid, Guid, Header, Lid, Mtu, Sl, TimeCode};

use crate::device::fabric::{FRESH_NS, adapter, host, number, port};
use crate::lock;

/// Subnet administration has so long for an answer; then it is asked again, where it is by then.
const ANSWER: Duration = Duration::from_secs(1);
/// While there is no way, the next question comes after this: the manager may be at work.
const PAUSE: Duration = Duration::from_millis(100);
/// Ways that are looked for at a time, each by a thread of its own; who wants one more looks himself.
const MOST_SEEKERS: usize = 64;
/// Version of the class SubnAdm.
const SUBN_ADM_VERSION: u8 = 2;

/// A way to a port of the fabric.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Way {
    /// Its LID.
    pub lid: Lid,
    /// The service level to it.
    pub sl: Sl,
    /// The longest packets that get there.
    pub mtu: Mtu,
    /// Rate, the IBA's code.
    pub rate: u8,
    /// A packet gets there within this time, or never.
    pub packet_life: TimeCode,
}

impl Default for Way {
    fn default() -> Self {
        Way {
            lid: Lid(0),
            sl: Sl(0),
            mtu: Mtu::M256,
            rate: 0,
            packet_life: TimeCode(0),
        }
    }
}

/// This host's IP address; None on this machine itself.
pub(crate) fn own_address() -> Option<Ipv4Addr> {
    adapter().map(|adapter| address(adapter.number))
}

/// Of the addresses of the fabric's hosts: true for this one's own. None for any other address, and on this machine itself.
pub(crate) fn is_own(ip: IpAddr) -> Option<bool> {
    host()?;
    match ip.to_canonical() {
        IpAddr::V4(v4) => number_at(v4).map(|_| own_address() == Some(v4)),
        IpAddr::V6(_) => None,
    }
}

/// GID of the used port of the host that has an address; None if none of this fabric has it.
pub(crate) fn gid_at(ip: IpAddr) -> Option<Gid> {
    static KNOWN: PerProcess<Mutex<BTreeMap<Ipv4Addr, (u64, Gid)>>> =
        PerProcess::new(Mutex::default);
    /// Addresses that are remembered.
    const MOST: usize = 1024;
    let IpAddr::V4(ip) = ip.to_canonical() else {
        return None;
    };
    number_at(ip)?;
    let mut known = lock(KNOWN.get());
    let now = ferriband_memory::wait::now().0;
    if let Some((at, gid)) = known.get(&ip)
        && now - at < FRESH_NS
    {
        return Some(*gid);
    }
    let link = Link::dial(&host()?.fabric).ok()?;
    let Ok(Answer::Adapter(adapter)) = link.ask(&Ask::HostAt { address: ip }) else {
        return None;
    };
    let port = adapter.used()?;
    let gid = Gid::from_prefix_guid(port.prefix, Guid(port.guid));
    if known.len() >= MOST {
        known.clear();
    }
    known.insert(ip, (now, gid));
    Some(gid)
}

/// Looks for the way to a port as long as `patience`, and tells it to `told`: from a thread of its own. The error is an errno: ENETDOWN while the own port has no
/// link or no manager, ETIMEDOUT if nobody answers, EHOSTUNREACH if there is no way. None of them is final before the time is up: while a manager re-routes,
/// or another takes over, there is no way to hosts that were reached before and will be again.
pub(crate) fn seek_way(
    gid: Gid,
    patience: Duration,
    told: impl FnOnce(Result<Way, i32>) + Send + 'static,
) {
    static SEEKERS: PerProcess<AtomicUsize> = PerProcess::new(|| AtomicUsize::new(0));
    let seekers = SEEKERS.get();
    let until = Instant::now() + patience;
    if seekers.fetch_add(1, Ordering::Relaxed) >= MOST_SEEKERS {
        seekers.fetch_sub(1, Ordering::Relaxed);
        return told(way_until(gid, until));
    }
    // a thread that cannot be started drops what it was to run: it lies where it can be taken back
    let told = Arc::new(Mutex::new(Some(told)));
    let theirs = told.clone();
    let started = crate::base::thread::spawn_silently("ferriband-way", move || {
        let way = way_until(gid, until);
        seekers.fetch_sub(1, Ordering::Relaxed);
        if let Some(told) = lock(&*theirs).take() {
            told(way);
        }
    });
    if started.is_err() {
        seekers.fetch_sub(1, Ordering::Relaxed);
        if let Some(told) = lock(&*told).take() {
            told(way_until(gid, until));
        }
    }
}

fn way_until(gid: Gid, until: Instant) -> Result<Way, i32> {
    loop {
        let way = way_to(gid, until.saturating_duration_since(Instant::now()));
        let left = until.saturating_duration_since(Instant::now());
        match way {
            Err(libc::ENETDOWN | libc::ETIMEDOUT | libc::EHOSTUNREACH) if left > PAUSE => {
                std::thread::sleep(PAUSE);
            }
            way => return way,
        }
    }
}

/// The way to a port, asked for once; within `patience` if that is less than [`ANSWER`], but not less than a tenth of it.
fn way_to(gid: Gid, patience: Duration) -> Result<Way, i32> {
    let own = managed_port()?;
    let record = PathRecord {
        dgid: gid,
        sgid: Gid::from_prefix_guid(own.prefix, Guid(own.guid)),
        reversible: true,
        paths_wanted: 1,
        pkey: DEFAULT_PKEY,
        ..PathRecord::default()
    };
    let mask = PathRecordMask::DGID
        | PathRecordMask::SGID
        | PathRecordMask::REVERSIBLE
        | PathRecordMask::PATHS_WANTED
        | PathRecordMask::PKEY;
    let mut question = SaMad {
        component_mask: mask.bits(),
        ..SaMad::new(Method::GET, attribute::PATH)
    };
    question.set_data(&record).map_err(|_| libc::EINVAL)?;
    let answer = ask(&own, &question, patience, false)?;
    let answer = SaMad::parse_mad(&answer).map_err(|_| libc::EPROTO)?;
    if answer.status != MadStatus::OK {
        return Err(libc::EHOSTUNREACH);
    }
    let path: PathRecord = answer.data_as().map_err(|_| libc::EPROTO)?;
    Ok(Way {
        lid: path.dlid,
        sl: path.sl,
        mtu: Mtu::from_code(path.mtu.value).ok_or(libc::EPROTO)?,
        rate: path.rate.value,
        packet_life: TimeCode(path.packet_lifetime.value),
    })
}

/// The used port, while it has a link and a manager; ENETDOWN.
pub(in crate::device::fabric) fn managed_port() -> Result<AdapterPort, i32> {
    let own = port().ok_or(libc::ENETDOWN)?;
    match own.state == PortState::ACTIVE.0 && own.sm_lid != 0 {
        true => Ok(own),
        false => Err(libc::ENETDOWN),
    }
}

/// Asks subnet administration one question, and waits for the answer, within `patience` if that is less than [`ANSWER`], but not less than a tenth of it: its packet, or
/// if it may be long the packets' heads once and all of their data.
pub(in crate::device::fabric) fn ask(
    own: &AdapterPort,
    question: &SaMad,
    patience: Duration,
    may_be_long: bool,
) -> Result<Vec<u8>, i32> {
    let to = MadHead {
        qpn: GSI_QPN,
        qkey: GSI_QKEY,
        lid: Lid(own.sm_lid),
        sl: Sl(own.sm_sl & 0xf),
        timeout_ms: patience.clamp(ANSWER / 10, ANSWER).as_millis() as u32,
        ..MadHead::default()
    };
    let host = host().ok_or(libc::ENETDOWN)?;
    let errno = |error: AttachError| match error {
        AttachError::Late => libc::ETIMEDOUT,
        _ => libc::ENETDOWN,
    };
    let link = Link::dial(&host.fabric).map_err(errno)?;
    let open = Ask::OpenMads {
        host: host.host.clone(),
        port: number(),
    };
    let Answer::Opened { token } = link.ask(&open).map_err(errno)? else {
        return Err(libc::EPROTO);
    };
    let register = Ask::Register {
        token,
        agent: Registration {
            class: ManagementClass::SUBN_ADM.0,
            version: SUBN_ADM_VERSION,
            rmpp: may_be_long,
            ..Registration::default()
        },
    };
    let answer = Link::dial(&host.fabric).and_then(|other| other.ask(&register));
    let Answer::Registered { agent } = answer.map_err(errno)? else {
        return Err(libc::EPROTO);
    };
    let mut bytes = [0; MAD_LEN];
    question.emit(&mut bytes).map_err(|_| libc::EINVAL)?;
    let patience = Duration::from_millis(u64::from(to.timeout_ms));
    link.send(&MadHead { agent, ..to }.message(&bytes), patience)
        .map_err(errno)?;
    // what is given up is told by the fabric's process: it alone counts the time
    let patience = patience * 2;
    let message = link.receive(Some(patience)).map_err(errno)?;
    let message = message.ok_or(libc::ETIMEDOUT)?;
    let (head, bytes) = mad::parse(&message).map_err(|_| libc::EPROTO)?;
    if head.status != 0 {
        return Err(i32::try_from(head.status).unwrap_or(libc::EIO));
    }
    Ok(bytes.to_vec())
}
