//! Opening a device, and what is made of it for all peers.

use super::block::Blocks;
use super::bundle::Coalesce;
use super::errors::{failed, refused};
use super::life::Life;
use super::memory::{Buffers, Reach};
use super::moves::Moves;
use super::receive::{BATCH, Receives};
use super::setup::{Connect, Numbers};
use super::stages::{STAGES, Stages};
use super::stats::Stats;
use super::{
    DATAGRAMS, GRH, Id, LONG_RECEIVE, MOST_DATAGRAMS, MOST_RECEIVES, Net, PORT, RECEIVE, RECEIVES,
    Reached, STAGE, lane,
};
use crate::constants::MPI_ERR_OTHER;
use crate::errors::{MpiError, Outcome};
use crate::transport::limits::{Rendezvous, Wanted};
use crate::transport::polling::Polling;
use ferriband_heal::datagram::DATAGRAM;
use ferriband_ibv::{
    Access, Choice, CompChannel, Context, Cq, DeviceLimits, Gid, LinkLayer, Mtu, Pd, PortState,
    QKey, Qp, QpCaps, QpInit, QpState, QpType, RecvWr, Srq, Verbs, Wc,
};
use ferriband_mpi_proto::card::Card;
use ferriband_registration::Way as Registration;
use std::collections::{HashMap, VecDeque};
use std::ffi::CStr;
use std::sync::Arc;
use std::time::Instant;

/// The device itself, and what is the same for all peers.
pub struct Device {
    pub(super) context: Arc<Context>,
    pub(super) name: String,
    pub(super) limits: DeviceLimits,
    /// What this rank leaves for the others.
    pub(super) card: Card,
    pub(super) gid_index: u8,
    /// This device is ours, on Ethernet: what goes to other hosts it cuts into packets itself.
    pub(super) makes_packets: bool,
    /// There may be lanes: completions of theirs have room.
    pub(super) has_lanes: bool,
    pub(super) mtu: Mtu,
    /// How long a request waits for an answer before it is repeated, as verbs code it.
    pub(super) timeout: u8,
    pub(super) pd: Arc<Pd>,
    pub(super) channel: Arc<CompChannel>,
    pub(super) cq: Arc<Cq>,
    /// Completions that it holds.
    pub(super) entries: u32,
}

impl Net {
    /// Opens a device for rank `me` of a world, by which `reached` says which ranks are reached.
    pub fn open(
        wanted: Wanted<'_>,
        me: u32,
        reached: Box<[Reached]>,
        secret: u64,
    ) -> Outcome<Self> {
        let ranks = reached.len() as u32;
        let mut device = Device::open(wanted, ranks)?;
        let receives = Receives::new(&device)?;
        let stage = STAGE.max(device.card.receive);
        let access = Access::LOCAL_WRITE;
        let stages = device.buffers(c"ferriband-mpi-stage", STAGES, stage, access)?;
        let connect = Connect::new(&device, me, reached, secret)?;
        device.card.qpn = connect.ud.number().0;
        let blocks = Blocks::new(&device, ranks)?;
        let moves = Moves::new(&device, wanted.registration)?;
        let mut net = Self {
            receives,
            stages: Stages::new(stages),
            connect,
            links: (0..ranks).map(|_| None).collect(),
            numbers: Numbers::default(),
            blocks,
            moves,
            coalesce: Coalesce::default(),
            life: Life::new(),
            limits: wanted.limits,
            stats: Stats::default(),
            device,
        };
        net.more_receives(RECEIVES.min(net.most_receives()))?;
        Ok(net)
    }

    /// The most receives that may be posted.
    fn most_receives(&self) -> u32 {
        MOST_RECEIVES.min(self.device.limits.max_srq_wr)
    }

    /// What this rank leaves for the others.
    pub fn card(&self) -> &Card {
        &self.device.card
    }

    /// Posts receives that were not posted before, until `count` are in use, and asks to be told
    /// when few are left.
    pub(super) fn more_receives(&mut self, count: u32) -> Outcome {
        self.receives
            .spent
            .extend(self.receives.used..count.max(self.receives.used));
        self.receives.used = self.receives.used.max(count);
        self.give_back()?;
        if self.receives.used < self.most_receives() {
            self.receives
                .srq
                .arm_limit(self.receives.used / 4)
                .map_err(|error| failed(&self.device.name, error))?;
        }
        Ok(())
    }

    /// Twice as many receives, if there may be more.
    pub(super) fn double_receives(&mut self) -> Outcome {
        let most = self.most_receives();
        if self.receives.used < most {
            self.more_receives((self.receives.used * 2).min(most))
        } else {
            Ok(())
        }
    }

    /// Posts receive buffers that have been read again.
    pub fn give_back(&mut self) -> Outcome {
        while let Some(index) = self.receives.spent.last().copied() {
            let elements = [self
                .receives
                .buffers
                .element(index, self.device.card.receive)];
            let mut receive = RecvWr::new(Id::Receive(index).code(), &elements);
            self.receives
                .srq
                .post_recv(&mut receive)
                .map_err(|error| failed(&self.device.name, error))?;
            self.receives.spent.pop();
        }
        Ok(())
    }

    /// Posts the receive of a datagram again.
    pub(super) fn listen(&self, index: u32) -> Outcome {
        post_datagram(&self.connect.ud, &self.connect.datagrams, index)
            .map_err(|error| failed(&self.device.name, error))
    }

    /// The queue pair of datagrams, if it has failed and given back all requests, begins anew under
    /// its number, which others know. Datagrams that were under way are lost, as any may be.
    pub(super) fn listen_anew(&mut self) -> Outcome {
        let connect = &mut self.connect;
        if connect.flushed < DATAGRAMS || connect.under_way != 0 {
            return Ok(());
        }
        connect.flushed = 0;
        let (ud, key) = (&connect.ud, qkey(connect.secret));
        let begun = ud.stop(QpState::Reset);
        let begun = begun.and_then(|()| begin_datagrams(ud, key, &connect.datagrams));
        begun.map_err(|error| failed(&self.device.name, error))
    }

    /// Key of the job's datagram queue pairs.
    pub(super) fn qkey(&self) -> QKey {
        qkey(self.connect.secret)
    }
}

impl Device {
    /// Opens a device for one of `ranks`. Its card has no datagram queue pair yet.
    fn open(wanted: Wanted<'_>, ranks: u32) -> Outcome<Self> {
        let no_device = |text: String| MpiError::with(MPI_ERR_OTHER, text);
        let choice = Choice::from_env().map_err(|error| no_device(error.to_string()))?;
        let verbs = Verbs::load(&choice).map_err(|error| no_device(error.to_string()))?;
        let context = choose(verbs, wanted)?;
        let name = context.device().name();
        let verb = |error| failed(&name, error);
        let limits = context.limits().map_err(verb)?;
        let port = context.port(PORT).map_err(verb)?;
        let is_ethernet = port.link_layer == LinkLayer::Ethernet;
        let (gid_index, gid) = best_gid(&context, &name, port.gids, is_ethernet)?;
        let pd = Pd::alloc(&context).map_err(verb)?;
        let channel = CompChannel::create(&context).map_err(verb)?;
        channel.set_nonblocking().map_err(verb)?;
        context.set_nonblocking().map_err(verb)?;
        // What other hosts send to it comes in bundles.
        let makes_packets = verbs.is_ours() && is_ethernet;
        let has_lanes = match wanted.limits.rendezvous {
            Rendezvous::Auto => makes_packets,
            Rendezvous::Send => true,
            Rendezvous::Get | Rendezvous::Put => false,
        };
        let lanes = if has_lanes { ranks.min(lane::MOST) } else { 0 };
        // Room for every completion that there can be: all receives, and all requests of all peers
        // once they fail.
        let entries = (MOST_RECEIVES + DATAGRAMS + MOST_DATAGRAMS)
            .saturating_add(ranks.saturating_mul(super::queue::DEPTH))
            .saturating_add(lanes * 2 * lane::DEPTH)
            .min(limits.max_cqe);
        let cq = Cq::create(&context, entries, Some(&channel), 0).map_err(verb)?;
        let card = Card {
            qpn: 0,
            lid: port.lid.0,
            is_ethernet,
            mtu: port.active_mtu.to_c() as u8,
            gid: gid.0,
            receive: if makes_packets { LONG_RECEIVE } else { RECEIVE },
        };
        Ok(Self {
            limits,
            card,
            gid_index,
            makes_packets,
            has_lanes,
            mtu: port.active_mtu,
            timeout: wanted.timeout,
            pd,
            channel,
            cq,
            entries,
            name,
            context,
        })
    }

    /// `count` buffers of `size` bytes each, which requests may name.
    fn buffers(&self, what: &CStr, count: u32, size: u32, access: Access) -> Outcome<Buffers> {
        Buffers::new(&self.pd, what, count, size, access)
            .map_err(|error| refused("register memory for messages", &self.name, &error))
    }
}

impl Receives {
    fn new(device: &Device) -> Outcome<Self> {
        let most = MOST_RECEIVES.min(device.limits.max_srq_wr);
        let srq = Srq::create(&device.pd, most, 1, 0).map_err(|e| failed(&device.name, e))?;
        let access = if device.limits.on_demand {
            Access::LOCAL_WRITE | Access::ON_DEMAND
        } else {
            Access::LOCAL_WRITE
        };
        let size = device.card.receive;
        Ok(Self {
            srq,
            buffers: device.buffers(c"ferriband-mpi-receive", most, size, access)?,
            used: 0,
            spent: Vec::new(),
            parked: VecDeque::new(),
            batch: Box::new([Wc::default(); BATCH]),
            looked: 0..0,
        })
    }
}

impl Connect {
    fn new(device: &Device, me: u32, reached: Box<[Reached]>, secret: u64) -> Outcome<Self> {
        let datagrams = device.buffers(
            c"ferriband-mpi-setup",
            DATAGRAMS,
            GRH + DATAGRAM as u32,
            Access::LOCAL_WRITE,
        )?;
        let ud = datagram_queue(&device.pd, &device.cq, qkey(secret), &datagrams)
            .map_err(|error| failed(&device.name, error))?;
        Ok(Self {
            ud,
            datagrams,
            under_way: 0,
            flushed: 0,
            secret,
            me,
            reached,
            setting_up: Vec::new(),
            unsent_words: Vec::new(),
            started: Instant::now(),
        })
    }
}

impl Blocks {
    fn new(device: &Device, ranks: u32) -> Outcome<Self> {
        let access = Access::LOCAL_WRITE | Access::REMOTE_WRITE;
        Ok(Self {
            inbounds: Vec::new(),
            polling: Polling::new(),
            place: 0,
            returns: device.buffers(c"ferriband-mpi-return", ranks, 8, access)?,
            owing: Vec::new(),
            judged: Instant::now(),
        })
    }
}

impl Moves {
    fn new(device: &Device, registration: Registration) -> Outcome<Self> {
        let reach = Reach::new(&device.pd, &device.limits, registration)
            .map_err(|error| refused("watch memory (userfaultfd)", &device.name, &error))?;
        Ok(Self {
            reach,
            offers: HashMap::new(),
            transfers: Vec::new(),
            movers: Vec::new(),
        })
    }
}

/// A Q_Key of the job; its highest bit is for the privileged.
fn qkey(secret: u64) -> QKey {
    QKey((secret >> 32 ^ secret) as u32 & 0x7fff_ffff)
}

fn post_datagram(
    ud: &Qp,
    datagrams: &Buffers,
    index: u32,
) -> Result<(), ferriband_ibv::VerbsError> {
    let elements = [datagrams.element(index, GRH + DATAGRAM as u32)];
    ud.post_recv(&mut RecvWr::new(Id::Datagram(index).code(), &elements))
}

fn datagram_queue(
    pd: &Arc<Pd>,
    cq: &Arc<Cq>,
    key: QKey,
    datagrams: &Buffers,
) -> Result<Arc<Qp>, ferriband_ibv::VerbsError> {
    let caps = QpCaps {
        send_wr: MOST_DATAGRAMS,
        recv_wr: DATAGRAMS,
        send_sge: 1,
        recv_sge: 1,
        inline: DATAGRAM as u32,
    };
    let init = QpInit {
        caps,
        ..QpInit::new(QpType::Ud, cq, cq)
    };
    let ud = Qp::create(pd, &init)?;
    begin_datagrams(&ud, key, datagrams)?;
    Ok(ud)
}

/// From RESET on.
fn begin_datagrams(
    ud: &Qp,
    key: QKey,
    datagrams: &Buffers,
) -> Result<(), ferriband_ibv::VerbsError> {
    ud.init_ud(PORT, 0, key)?;
    for index in 0..DATAGRAMS {
        post_datagram(ud, datagrams, index)?;
    }
    ud.ready_ud(0)
}

/// The device that is wanted, opened.
fn choose(verbs: &'static Verbs, wanted: Wanted<'_>) -> Outcome<Arc<Context>> {
    let devices =
        ferriband_ibv::Device::list(verbs).map_err(|error| failed("the list of devices", error))?;
    let names: Vec<String> = devices.iter().map(ferriband_ibv::Device::name).collect();
    let mut complaint = String::new();
    for device in &devices {
        if wanted.name.is_some_and(|name| name != device.name()) {
            continue;
        }
        let context = match device.open() {
            Ok(context) => context,
            Err(error) => {
                complaint = format!("; {}: {error}", device.name());
                continue;
            }
        };
        let port = context
            .port(PORT)
            .map_err(|error| failed(&device.name(), error))?;
        let is_right = port.state == PortState::Active
            && (wanted.name.is_some()
                || !wanted.far
                || port.link_layer == LinkLayer::Ethernet
                || leads_away(verbs));
        if is_right {
            return Ok(context);
        }
    }
    let what = match wanted.name {
        Some(name) => format!("no active device {name} (FERRIBAND_MPI_DEVICE)"),
        None if wanted.far => "no active device that leads to other hosts".to_owned(),
        None => "no active device".to_owned(),
    };
    Err(MpiError::with(
        MPI_ERR_OTHER,
        format!(
            "{what} in {}; there are: {}{complaint}",
            verbs.path().display(),
            if names.is_empty() {
                "none".to_owned()
            } else {
                names.join(", ")
            }
        ),
    ))
}

/// True if InfiniBand ports lead to other hosts: our own do on a host of a live fabric only
/// (`ferriband mpirun --fabric-hosts`), else they end at this host.
fn leads_away(verbs: &Verbs) -> bool {
    !verbs.is_ours() || std::env::var_os("FERRIBAND_HOST").is_some()
}

/// The entry of the GID table that peers are given: on Ethernet the first of RoCE v2 that is an
/// IPv4 address, else the first of RoCE v2.
fn best_gid(context: &Context, name: &str, count: u32, is_ethernet: bool) -> Outcome<(u8, Gid)> {
    let mut best: Option<(u8, Gid)> = None;
    for index in 0..count.min(256) {
        let Ok(gid) = context.gid(PORT, index) else {
            continue;
        };
        if gid.0 == [0; 16] {
            continue;
        }
        let found = (index as u8, gid);
        if !is_ethernet {
            return Ok(found);
        }
        let kind = format!("/sys/class/infiniband/{name}/ports/{PORT}/gid_attrs/types/{index}");
        // Where nothing says what an entry is (our own adapter has no such file), all are of RoCE
        // v2.
        let is_old = std::fs::read_to_string(kind).is_ok_and(|kind| !kind.contains("v2"));
        if is_old {
            continue;
        }
        if gid.0[..12] == [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff] {
            return Ok(found);
        }
        best.get_or_insert(found);
    }
    best.ok_or_else(|| MpiError::with(MPI_ERR_OTHER, format!("{name} has no GID to be reached by")))
}
