//! Which devices are opened, and what is made of them for all peers.

use super::block::Blocks;
use super::bundle::Coalesce;
use super::errors::{NoBuffers, failed};
use super::heal::Rails;
use super::life::Life;
use super::memory::Area;
use super::moves::Moves;
use super::rail::{Common, Own, Rail};
use super::setup::Connect;
use super::stages::{STAGES, Stages};
use super::stats::Stats;
use super::{LONG_RECEIVE, Net, PORT, RECEIVE, RECEIVES, Reached, STAGE};
use crate::constants::MPI_ERR_OTHER;
use crate::errors::{MpiError, Outcome};
use crate::transport::limits::{Rendezvous, Wanted};
use crate::transport::polling::Polling;
use ferriband_heal::AdapterId;
use ferriband_heal::card::Card;
use ferriband_heal::kept::Budget;
use ferriband_ibv::{Choice, Context, Device, EventKind, LinkLayer, PortState, QKey, Verbs};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// For how long a device is opened again that has failed before or while it was opened.
const DEVICE_PATIENCE: Duration = Duration::from_secs(10);
/// For how long a device is opened again whose link is down.
const LINK_PATIENCE: Duration = Duration::from_secs(2);
/// Between two tries a pause of the time that has passed, divided by this. So a device that fails
/// each half second is met between two failures.
const PAUSE_SHARE: u32 = 16;
const SHORTEST_PAUSE: Duration = Duration::from_millis(1);

impl Net {
    /// Opens a device for rank `me` of a world, by which `reached` says which ranks are reached;
    /// and others beside it, by which connections go on when it fails.
    pub fn open(
        wanted: Wanted<'_>,
        me: u32,
        reached: Box<[Reached]>,
        secret: u64,
    ) -> Outcome<Self> {
        let ranks = reached.len() as u32;
        let no_device = |text: String| MpiError::with(MPI_ERR_OTHER, text);
        let choice = Choice::from_env().map_err(|error| no_device(error.to_string()))?;
        let verbs = Verbs::load(&choice).map_err(|error| no_device(error.to_string()))?;
        let key = qkey(secret);
        let Opened {
            rail,
            others,
            mut passed_over,
            common,
            stages,
            returns,
        } = open_first(verbs, wanted, ranks, key)?;
        let mut rails = Rails::new(common);
        let own = Own {
            stages: &stages,
            returns: &returns,
        };
        for other in others {
            if let Err(error) = rails.add(other, own) {
                passed_over.push(error.text.to_string());
            }
        }
        for why in passed_over {
            complain!("ferriband MPI: rank {me}: a device is not used: {why}");
        }
        rails.begin(&rail);
        let has_rails = !rails.others.is_empty();
        // What is kept in staging buffers is a part of it that is set aside, so that nobody counts
        // them.
        let stage = u64::from(stages.size());
        let held = Stages::most_held(wanted.limits.heal.log / 4 / stage);
        let log = wanted.limits.heal.log - u64::from(held) * stage;
        let mut net = Self {
            rail,
            rails,
            stages: Stages::new(stages, held),
            log: Arc::new(Budget::new(log)),
            connect: Connect::new(me, reached, secret),
            links: (0..ranks).map(|_| None).collect(),
            blocks: Blocks::new(returns),
            moves: Moves::default(),
            coalesce: Coalesce::default(),
            life: Life::new(has_rails),
            limits: wanted.limits,
            stats: Stats::default(),
        };
        net.begin_watch();
        Ok(net)
    }

    /// What this rank leaves for the others.
    pub fn card(&self) -> Card {
        self.rails.card(&self.rail)
    }

    /// Posts receive buffers of the adapter in hand that have been read again.
    #[inline]
    pub fn give_back(&mut self) -> Outcome {
        self.rail.give_back()
    }
}

impl Common {
    /// Of the first device.
    fn new(context: &Context, wanted: Wanted<'_>, ranks: u32, key: QKey) -> Outcome<Self> {
        let verbs = context.device().verbs();
        let port = context
            .port(PORT)
            .map_err(|error| failed(&context.device().name(), error))?;
        let is_ethernet = port.link_layer == LinkLayer::Ethernet;
        // What other hosts send to it comes in bundles.
        let makes_packets = verbs.is_ours() && is_ethernet;
        Ok(Self {
            verbs,
            is_ethernet,
            makes_packets,
            has_lanes: match wanted.limits.rendezvous {
                Rendezvous::Auto => makes_packets,
                Rendezvous::Send => true,
                Rendezvous::Get | Rendezvous::Put => false,
            },
            receive: if makes_packets { LONG_RECEIVE } else { RECEIVE },
            timeout: wanted.timeout,
            registration: wanted.registration,
            ranks,
            key,
        })
    }
}

impl Connect {
    fn new(me: u32, reached: Box<[Reached]>, secret: u64) -> Self {
        Self {
            secret,
            me,
            reached,
            setting_up: Vec::new(),
            unsent_words: Vec::new(),
            started: Instant::now(),
            card_port: None,
        }
    }
}

impl Blocks {
    fn new(returns: Area) -> Self {
        Self {
            inbounds: Vec::new(),
            polling: Polling::new(),
            place: 0,
            returns,
            owing: Vec::new(),
            judged: Instant::now(),
        }
    }
}

/// The device that is wanted, and what is made of it.
struct Opened {
    rail: Rail,
    /// Those beside it, opened alone.
    others: Vec<Arc<Context>>,
    /// Why others cannot be used.
    passed_over: Vec<String>,
    common: Common,
    stages: Area,
    returns: Area,
}

/// Opens the device that is wanted. One that has failed, or fails meanwhile, is opened again.
fn open_first(verbs: &'static Verbs, wanted: Wanted<'_>, ranks: u32, key: QKey) -> Outcome<Opened> {
    let begun = Instant::now();
    loop {
        let Unusable { error, patience } = match choose(verbs, wanted) {
            Err(unusable) => unusable,
            Ok(chosen) => {
                let context = Arc::clone(&chosen.first);
                match Opened::new(chosen, wanted, ranks, key) {
                    Ok(opened) => return Ok(opened),
                    Err(error) => Unusable {
                        error,
                        patience: if has_failed(&context) {
                            DEVICE_PATIENCE
                        } else {
                            Duration::ZERO
                        },
                    },
                }
            }
        };
        let spent = begun.elapsed();
        if !wanted.limits.heal.is_on || spent >= patience {
            return Err(error);
        }
        std::thread::sleep((spent / PAUSE_SHARE).max(SHORTEST_PAUSE));
    }
}

/// Whether a device says that it has failed.
fn has_failed(context: &Context) -> bool {
    let is_silent = context.set_nonblocking().is_err();
    while !is_silent && let Ok(Some(event)) = context.next_async_event() {
        if event.kind == EventKind::DeviceFatal {
            return true;
        }
    }
    false
}

impl Opened {
    fn new(chosen: Chosen, wanted: Wanted<'_>, ranks: u32, key: QKey) -> Outcome<Self> {
        let Chosen {
            first: context,
            others,
            passed_over,
        } = chosen;
        let name = context.device().name();
        let common = Common::new(&context, wanted, ranks, key)?;
        let memory = |error: NoBuffers| error.of(&name);
        let stage = STAGE.max(common.receive);
        let stages = Area::new(c"ferriband-mpi-stage", STAGES, stage).map_err(memory)?;
        let returns = Area::new(c"ferriband-mpi-return", ranks, 8).map_err(memory)?;
        let own = Own {
            stages: &stages,
            returns: &returns,
        };
        let mut rail = Rail::new(context, (AdapterId(0), 1), &common, own)?;
        rail.more_receives(RECEIVES.min(rail.most_receives()))?;
        Ok(Self {
            rail,
            others,
            passed_over,
            common,
            stages,
            returns,
        })
    }
}

/// A Q_Key of the job; its highest bit is for the privileged.
fn qkey(secret: u64) -> QKey {
    QKey((secret >> 32 ^ secret) as u32 & 0x7fff_ffff)
}

/// Devices that are open.
struct Chosen {
    /// The one that is wanted.
    first: Arc<Context>,
    /// Those that are as good as it, if connections are made anew and no device was named.
    others: Vec<Arc<Context>>,
    /// Why others, which may be as good, are not among them.
    passed_over: Vec<String>,
}

/// Why no device can be used.
struct Unusable {
    error: MpiError,
    /// One of them has failed, or its link is down, and either may be over soon: for how long they
    /// are tried again. Else zero.
    patience: Duration,
}

fn choose(verbs: &'static Verbs, wanted: Wanted<'_>) -> Result<Chosen, Unusable> {
    let devices = Device::list(verbs).map_err(|error| Unusable {
        error: failed("the list of devices", error),
        patience: Duration::ZERO,
    })?;
    let names: Vec<String> = devices.iter().map(Device::name).collect();
    let mut passed_over = Vec::new();
    let mut patience = Duration::ZERO;
    let mut all: Vec<(Arc<Context>, LinkLayer)> = Vec::new();
    let most = match wanted.name {
        None if wanted.limits.heal.is_on => wanted.limits.heal.rails,
        _ => 1,
    };
    for device in &devices {
        if all.len() == most || wanted.name.is_some_and(|name| name != device.name()) {
            continue;
        }
        let opened = device.open();
        let (context, port) = match opened.and_then(|one| one.port(PORT).map(|port| (one, port))) {
            Ok(both) => both,
            Err(error) => {
                if error.errno() == libc::EIO {
                    patience = DEVICE_PATIENCE;
                }
                passed_over.push(format!("{}: {error}", device.name()));
                continue;
            }
        };
        if port.state != PortState::Active {
            patience = patience.max(LINK_PATIENCE);
        }
        let is_right = port.state == PortState::Active
            && (wanted.name.is_some()
                || !wanted.far
                || port.link_layer == LinkLayer::Ethernet
                || leads_away(verbs));
        let is_alike = all.first().is_none_or(|(_, kind)| *kind == port.link_layer);
        if is_right && is_alike {
            all.push((context, port.link_layer));
        }
    }
    let mut all = all.into_iter().map(|(context, _)| context);
    if let Some(first) = all.next() {
        return Ok(Chosen {
            first,
            others: all.collect(),
            passed_over,
        });
    }
    let what = match wanted.name {
        Some(name) => format!("no active device {name} (FERRIBAND_MPI_DEVICE)"),
        None if wanted.far => "no active device that leads to other hosts".to_owned(),
        None => "no active device".to_owned(),
    };
    let mut text = format!(
        "{what} in {}; there are: {}",
        verbs.path().display(),
        if names.is_empty() {
            "none".to_owned()
        } else {
            names.join(", ")
        }
    );
    for why in passed_over {
        text = format!("{text}; {why}");
    }
    let error = MpiError::with(MPI_ERR_OTHER, text);
    Err(Unusable { error, patience })
}

/// True if InfiniBand ports lead to other hosts: our own do on a host of a live fabric only
/// (`ferriband mpirun --fabric-hosts`), else they end at this host.
fn leads_away(verbs: &Verbs) -> bool {
    !verbs.is_ours() || std::env::var_os("FERRIBAND_HOST").is_some()
}
