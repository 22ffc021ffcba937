//! The process-wide engine: what all contexts of a process share, and the progress that everybody makes.
//!
//! Owns the process segment, the key table, the queue pairs by index, the peers, and the hand-over between polling
//! programs and the progress thread. While a program polls, it drives everything itself, without a system call; when
//! it stops, the progress thread notices within a tick, sets the sleeping word that makes peers ring, and waits.

pub(crate) mod admin;
mod ask;
mod connect;
mod lives;
mod rest;
mod round;
mod tails;
mod thread;
mod yielding;

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, RwLock, Weak};

use ferriband_fork::PerProcess;
use ferriband_memory::Segment;
use ferriband_memory::host::{BlockKind, Control, HandOver, Host as HostRegistry};
use ferriband_memory::wait::EventFd;
use ferriband_transport::direct::layout::{
    BLOCK_QPS, MAGIC, MARKS, MAX_BLOCKS, PROC_BLOCKS, PROC_IDENTITY, PROC_LEN, PROC_MAGIC,
    QP_BYTES, qp_offset,
};
use ferriband_transport::types::Instant;
use ferriband_wire::{Gid, Guid, Lid};

use crate::base::error::Error;
use crate::base::fork;
use crate::base::limits;
use crate::cm::Cm;
use crate::device::Device;
use crate::lock;
use crate::objects::context::Context;
use crate::objects::mr::WindowState;
use crate::objects::srq::Srq;
use crate::process::ends::Ends;
use crate::process::keys::KeyTable;
use crate::process::message::MSG_MAP_GONE;
use crate::process::peer::{MAX_MAPS, PeerLink};
use crate::process::peers::MapSource;
use crate::qp::Qp;
use crate::wire::packets::Roce;
pub use rest::Waiting;

/// Peers that are looked at in every round, itself among them.
const WATCHED_PEERS: usize = 8;

/// No epoch: those of forks have 32 bits.
const NEVER: u64 = u64::MAX;

/// Claims of the process's in-flight marks by its threads.
#[derive(Debug)]
pub(crate) struct Marks([AtomicBool; MARKS]);

thread_local! {
    static LAST_MARK: Cell<usize> = const { Cell::new(usize::MAX) };
}

impl Marks {
    fn new() -> Self {
        Marks([const { AtomicBool::new(false) }; MARKS])
    }

    #[inline]
    pub(crate) fn claim(&self) -> usize {
        let last = LAST_MARK.get();
        if last < MARKS && !self.0[last].swap(true, Ordering::Acquire) {
            return last;
        }
        self.claim_any()
    }

    #[cold]
    fn claim_any(&self) -> usize {
        loop {
            for (index, taken) in self.0.iter().enumerate() {
                if !taken.swap(true, Ordering::Acquire) {
                    LAST_MARK.set(index);
                    return index;
                }
            }
            std::thread::yield_now();
        }
    }

    #[inline]
    pub(crate) fn release(&self, mark: usize) {
        self.0[mark].store(false, Ordering::Release);
    }
}

/// Queue pair numbers of this process.
#[derive(Debug, Default)]
struct Numbers {
    blocks: Vec<(u32, BlockKind)>,
    /// Of each kind: indexes that were given back, the longest ago last, and those of the newest block that were never used.
    free: [Vec<u32>; 3],
    fresh: [std::ops::Range<u32>; 3],
    /// Of indexes that were used before.
    incarnations: BTreeMap<u32, u32>,
}

/// The engine. One per process and fork epoch, while a context is open.
pub struct Engine {
    pub(crate) slot: u32,
    pub(crate) generation: u32,
    pub(crate) epoch: u64,
    pub(crate) own: Arc<Segment>,
    pub(crate) registry: HostRegistry,
    pub(crate) guid: Guid,
    pub(crate) lid: Lid,
    pub(crate) marks: Marks,
    pub(crate) keys: Mutex<KeyTable>,
    pub(crate) windows: Mutex<BTreeMap<u32, WindowState>>,
    pub(crate) bound_regions: Mutex<BTreeMap<u32, usize>>,
    pub(crate) maps: Mutex<BTreeMap<u32, MapSource>>,
    /// Which peers have mapped what.
    pub(crate) map_holders: Mutex<Vec<(u32, PeerLink)>>,
    numbers: Mutex<Numbers>,
    pub(crate) qps: RwLock<Vec<Option<Arc<Qp>>>>,
    /// Changes with the table of queue pairs.
    pub(crate) qps_version: AtomicU64,
    pub(crate) srqs: RwLock<BTreeMap<u32, Arc<Srq>>>,
    pub(crate) xrc_targets: Mutex<BTreeMap<u32, Arc<crate::xrc::TargetProxy>>>,
    /// XRC targets whose packets this process executes, by number.
    pub(crate) xrc_carried: Mutex<BTreeMap<u32, Arc<Qp>>>,
    pub(crate) peers: RwLock<Arc<Vec<PeerLink>>>,
    /// The first peers, each looked at in every round; a dead one keeps its place while the device is open.
    pub(crate) watched: [OnceLock<PeerLink>; WATCHED_PEERS],
    /// There have been more: only those that set their pending bit are looked at.
    pub(crate) many_peers: AtomicBool,
    /// Changes with the list of peers.
    pub(crate) peers_version: AtomicU64,
    pub(crate) self_link: PeerLink,
    /// Wakes the progress thread.
    pub(crate) waker: Arc<EventFd>,
    /// Wakes whoever looks for packets and records: a program's thread that sleeps in the library,
    /// or the progress thread.
    pub(crate) bell: Arc<EventFd>,
    /// Queue pairs that need to be driven, and how many.
    work: Mutex<Vec<Arc<Qp>>>,
    /// Where other processes of this host put what is for this one, once anything may come.
    post_box: OnceLock<HandOver>,
    cm: OnceLock<Cm>,
    /// Queue pairs whose other side has ended the connection.
    pub(crate) ends: Ends,
    /// When the connection manager's timer goes off.
    pub(crate) cm_deadline: AtomicU64,
    contexts: Mutex<Vec<Weak<Context>>>,
    ports_seen: Mutex<admin::Ports>,
    /// Packets, once a queue pair or a listener needs them.
    pub(crate) roce: OnceLock<Roce>,
    roce_opening: Mutex<()>,
    post_opening: Mutex<()>,
    work_count: AtomicUsize,
    tails: tails::Tails,
    timers: Mutex<BTreeMap<(u64, u32), Arc<Qp>>>,
    next_timer: AtomicU64,
    /// Somebody polls: the progress thread only looks on.
    polling: AtomicBool,
    polls: AtomicU32,
    /// The thread knows of long transfers: it need not be told of more.
    assisting: AtomicBool,
    /// The program polled for its last long transfer, and so moved it.
    polled_for: AtomicBool,
    /// Requests by packets that a program sees nothing of in its completion queues; a hint, which may miss some.
    unseen: AtomicU64,
    idle_polls: AtomicU32,
    /// Polls in a row that found nothing, how many of them spin, and after how many the next yields.
    empty_polls: AtomicU32,
    spin_limit: AtomicU32,
    yield_after: AtomicU32,
    /// Sleeps left before it is looked again whether the machine is crowded; 0 while it is not
    /// known to be.
    naps: AtomicU32,
    /// Completion queues.
    pub(crate) queues: AtomicU32,
    /// Which kind of thread of the program sleeps in the library.
    rests: AtomicU32,
    /// The program waits for events inside the library, and has come back for the next until
    /// lately.
    inside: AtomicBool,
    /// The progress thread handles packets for all who wait for events, whose number is more than
    /// one at times.
    by_thread: AtomicBool,
    /// The progress thread looks at each tick who polls or rests.
    ticks: AtomicBool,
    stop: AtomicBool,
    /// The epoch while the device works; [`NEVER`] once it has failed.
    alive_in: AtomicU64,
    /// Connections that have not said who they are.
    strangers: Mutex<BTreeMap<u64, Control>>,
    lives: Mutex<lives::Lives>,
    tokens: AtomicU64,
    thread: Mutex<Option<std::thread::JoinHandle<()>>>,
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Engine(slot {})", self.slot)
    }
}

/// The current engine. A forked child has none, whatever its parent's threads were doing, and starts afresh.
static CURRENT: PerProcess<Mutex<Weak<Engine>>> = PerProcess::new(Mutex::default);

/// Versions of peer lists are unique over all engines of the process: 0 is none.
fn next_version() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

impl Engine {
    /// The process's engine; started if there is none.
    ///
    /// # Errors
    /// What the host's registry, memory or the thread's start say.
    pub fn get() -> Result<Arc<Self>, Error> {
        let mut current = lock(CURRENT.get());
        if let Some(engine) = current.upgrade() {
            return Ok(engine);
        }
        let engine = Self::start()?;
        // a child has its parent's handlers of exit
        static AT_EXIT: AtomicBool = AtomicBool::new(false);
        if !AT_EXIT.load(Ordering::Relaxed) {
            fork::at_exit(take_leave);
            AT_EXIT.store(true, Ordering::Relaxed);
        }
        *current = Arc::downgrade(&engine);
        Ok(engine)
    }

    fn start() -> Result<Arc<Self>, Error> {
        let registry = HostRegistry::join(ferriband_memory::host::JoinOptions {
            label: crate::device::fabric::label(),
            ..Default::default()
        })?;
        admin::bring_faults(&registry);
        let ports_seen = Mutex::new(admin::Ports::now(&registry));
        let own = Arc::new(Segment::create("ferriband-process", PROC_LEN)?);
        own.commit(0, qp_offset(0))?;
        let me = registry.me();
        use std::sync::atomic::Ordering::Release;
        own.store(PROC_MAGIC, MAGIC, Release);
        own.store(
            PROC_IDENTITY,
            u64::from(me.slot) | u64::from(me.generation) << 32,
            Release,
        );
        let waker = Arc::new(EventFd::new(false)?);
        let bell = Arc::new(EventFd::new(false)?);
        let pair = Arc::new(Segment::private(
            ferriband_transport::direct::layout::PAIR_LEN,
        )?);
        let self_link = connect::self_link(me.slot, me.generation, &own, pair, &bell);
        let engine = Arc::new(Engine {
            slot: me.slot,
            generation: me.generation,
            epoch: fork::epoch(),
            guid: registry.guid(),
            lid: registry.lid(),
            own,
            registry,
            marks: Marks::new(),
            keys: Mutex::default(),
            windows: Mutex::default(),
            bound_regions: Mutex::default(),
            maps: Mutex::default(),
            map_holders: Mutex::default(),
            numbers: Mutex::default(),
            qps: RwLock::default(),
            qps_version: AtomicU64::new(0),
            srqs: RwLock::default(),
            xrc_targets: Mutex::default(),
            xrc_carried: Mutex::default(),
            peers: RwLock::new(Arc::new(vec![self_link.clone()])),
            watched: [const { OnceLock::new() }; WATCHED_PEERS],
            many_peers: AtomicBool::new(false),
            peers_version: AtomicU64::new(next_version()),
            self_link,
            waker,
            bell,
            work: Mutex::default(),
            post_box: OnceLock::new(),
            cm: OnceLock::new(),
            ends: Ends::default(),
            cm_deadline: AtomicU64::new(u64::MAX),
            contexts: Mutex::default(),
            ports_seen,
            roce: OnceLock::new(),
            roce_opening: Mutex::new(()),
            post_opening: Mutex::new(()),
            work_count: AtomicUsize::new(0),
            tails: tails::Tails::default(),
            timers: Mutex::default(),
            next_timer: AtomicU64::new(u64::MAX),
            polling: AtomicBool::new(false),
            polls: AtomicU32::new(0),
            assisting: AtomicBool::new(false),
            polled_for: AtomicBool::new(false),
            unseen: AtomicU64::new(0),
            idle_polls: AtomicU32::new(0),
            empty_polls: AtomicU32::new(0),
            spin_limit: AtomicU32::new(0),
            yield_after: AtomicU32::new(0),
            naps: AtomicU32::new(0),
            queues: AtomicU32::new(0),
            rests: AtomicU32::new(0),
            inside: AtomicBool::new(false),
            by_thread: AtomicBool::new(false),
            ticks: AtomicBool::new(true),
            stop: AtomicBool::new(false),
            alive_in: AtomicU64::new(fork::epoch()),
            strangers: Mutex::default(),
            lives: Mutex::default(),
            tokens: AtomicU64::new(0),
            thread: Mutex::default(),
        });
        for device in crate::device::all() {
            device.opened(engine.lid);
        }
        engine.watch(&engine.self_link);
        thread::spawn(&engine)?;
        Ok(engine)
    }

    /// Err in a forked child, and after the device failed. Every call on a queue asks this: one
    /// comparison.
    #[inline]
    pub fn check_alive(&self) -> Result<(), Error> {
        if self.alive_in.load(Ordering::Relaxed) != fork::epoch() {
            return self.why_not_alive();
        }
        Ok(())
    }

    #[cold]
    fn why_not_alive(&self) -> Result<(), Error> {
        self.check_epoch()?;
        Err(Error::Gone("an internal error made it fatal"))
    }

    /// Err in a forked child.
    #[inline]
    pub(crate) fn check_epoch(&self) -> Result<(), Error> {
        if self.epoch != fork::epoch() {
            return Err(Error::Gone(
                "it was opened before a fork, by the parent process",
            ));
        }
        Ok(())
    }

    /// Ends the device: every later verb fails.
    #[cold]
    pub fn fail(&self) {
        self.alive_in.store(NEVER, Ordering::Release);
    }

    /// Now, on the clock of the timers.
    pub(crate) fn now() -> Instant {
        ferriband_memory::wait::now()
    }

    /// The default GID.
    pub fn gid(&self) -> Gid {
        crate::device::fabric::gid()
            .unwrap_or_else(|| Gid::from_prefix_guid(limits::SUBNET_PREFIX, self.guid))
    }

    /// Takes a queue pair number of a kind, and its local index. The number says which wires the queue pair may take, so that both
    /// ends choose alike.
    pub(crate) fn claim_qpn(&self, kind: BlockKind) -> Result<(u32, u32), Error> {
        let mut numbers = lock(&self.numbers);
        let of = kind as usize;
        let index = match numbers.fresh[of].next() {
            Some(index) => index,
            None => match numbers.free[of].pop() {
                Some(index) => index,
                None => {
                    self.claim_block(&mut numbers, kind)?;
                    numbers.fresh[of]
                        .next()
                        .ok_or(Error::NoMemory("a block of queue pair numbers is empty"))?
                }
            },
        };
        let (block, _) = numbers.blocks[(index / BLOCK_QPS) as usize];
        Ok((block * BLOCK_QPS + index % BLOCK_QPS, index))
    }

    fn claim_block(&self, numbers: &mut Numbers, kind: BlockKind) -> Result<(), Error> {
        let ordinal = numbers.blocks.len();
        if ordinal >= MAX_BLOCKS {
            return Err(Error::NoMemory("the process has max_qp queue pairs"));
        }
        let block = self.registry.claim_qpn_block(kind)?;
        let entries = qp_offset(ordinal * BLOCK_QPS as usize);
        if let Err(error) = self.own.commit(entries, BLOCK_QPS as usize * QP_BYTES) {
            self.registry.release_qpn_block(block);
            return Err(error.into());
        }
        numbers.blocks.push((block, kind));
        self.own.store(
            PROC_BLOCKS + ordinal * 8,
            u64::from(block) + 1,
            Ordering::Release,
        );
        let first = ordinal as u32 * BLOCK_QPS;
        // A process that is killed and started again gets the same block: with the same numbers in the same order it would look, to peers
        // on other hosts that have not heard of its end, like the one before (a stale connection, IBA 12.9.8).
        let begin = match kind {
            BlockKind::Native => first,
            BlockKind::Auto | BlockKind::Packets => first + random_below(BLOCK_QPS),
        };
        numbers.fresh[kind as usize] = begin..first + BLOCK_QPS;
        numbers.free[kind as usize].extend((first..begin).rev());
        if kind != BlockKind::Native
            && let Some(roce) = self.roce.get()
        {
            roce.steer(self);
        }
        Ok(())
    }

    /// Gives an index back. `incarnation` is what the next queue pair of the index continues, so that it takes no answer to
    /// its predecessor's records for its own.
    pub(crate) fn release_qpn(&self, index: u32, incarnation: u32) {
        let mut numbers = lock(&self.numbers);
        let (_, kind) = numbers.blocks[(index / BLOCK_QPS) as usize];
        numbers.free[kind as usize].insert(0, index);
        numbers.incarnations.insert(index, incarnation);
    }

    /// The incarnation of the last queue pair that had the index.
    pub(crate) fn last_incarnation(&self, index: u32) -> u32 {
        lock(&self.numbers)
            .incarnations
            .get(&index)
            .copied()
            .unwrap_or(0)
    }

    pub(crate) fn insert_qp(&self, qp: &Arc<Qp>) {
        let mut qps = self
            .qps
            .write()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        let index = qp.index as usize;
        if qps.len() <= index {
            qps.resize(index + 1, None);
        }
        qps[index] = Some(qp.clone());
        self.qps_version.fetch_add(1, Ordering::AcqRel);
    }

    pub(crate) fn remove_qp(&self, qp: &Qp) {
        let mut qps = self
            .qps
            .write()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(slot) = qps.get_mut(qp.index as usize) {
            *slot = None;
        }
        self.qps_version.fetch_add(1, Ordering::AcqRel);
        drop(qps);
        self.tails.forget(qp);
        lock(&self.timers).retain(|(_, index), _| *index != qp.index);
        let mut work = lock(&self.work);
        work.retain(|other| other.index != qp.index);
        self.work_count.store(work.len(), Ordering::Release);
    }

    /// The RoCE wire, its port joined if it is not.
    ///
    /// # Errors
    /// What [`Roce::join_port`] says.
    pub(crate) fn roce(&self) -> Result<&Roce, Error> {
        self.packets(Roce::has_port, |roce| {
            // for packets that reach another process first; without the box they are lost, and sent again
            let _ = self.post_box();
            roce.join_port(&self.registry)
        })
    }

    /// What carries the packets of a device, opened if it is not.
    ///
    /// # Errors
    /// What [`Roce::join_port`] and [`Roce::open_local`] say.
    pub(crate) fn packets_of(&self, device: &Device) -> Result<&Roce, Error> {
        if device.is_ethernet() {
            return self.roce();
        }
        self.packets(
            |roce| roce.local().is_some(),
            |roce| roce.open_local(&self.registry, &self.own, &self.bell),
        )
    }

    fn packets(
        &self,
        is_open: impl Fn(&Roce) -> bool,
        open: impl FnOnce(&Roce) -> Result<(), Error>,
    ) -> Result<&Roce, Error> {
        if let Some(roce) = self.roce.get().filter(|roce| is_open(roce)) {
            return Ok(roce);
        }
        let _one = lock(&self.roce_opening);
        let roce = self
            .roce
            .get_or_init(|| Roce::new(&self.registry, &self.waker));
        if !is_open(roce) {
            open(roce)?;
            // the thread waits for its sockets from now on
            self.waker.signal(1);
        }
        Ok(roce)
    }

    /// Packets, if any of their carriers was opened.
    pub(crate) fn opened_roce(&self) -> Option<&Roce> {
        self.roce.get()
    }

    /// Where other processes of this host put what is for this one; opened if it is not.
    ///
    /// # Errors
    /// What the host's registry says.
    pub(crate) fn post_box(&self) -> Result<&HandOver, Error> {
        if let Some(post_box) = self.post_box.get() {
            return Ok(post_box);
        }
        let _one = lock(&self.post_opening);
        if self.post_box.get().is_none() {
            let _ = self.post_box.set(self.registry.hand_over()?);
            self.waker.signal(1);
        }
        self.post_box
            .get()
            .ok_or(Error::NotFound("the post box was not opened"))
    }

    /// The post box if it is open.
    pub(crate) fn open_post_box(&self) -> Option<&HandOver> {
        self.post_box.get()
    }

    /// The connection manager.
    pub fn cm(&self) -> &Cm {
        // messages of other processes may come from now on; without the box they are lost, and asked for again
        let _ = self.post_box();
        self.cm.get_or_init(|| {
            self.open_for_mads();
            let word = || {
                let mut bytes = [0; 8];
                // without randomness the identifiers are predictable, no more
                let _ = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty());
                u64::from_ne_bytes(bytes)
            };
            Cm::new(self.slot, [word(), word()])
        })
    }

    /// Acknowledgements that wait for a program's replies go.
    fn settle_debts(self: &Arc<Self>) {
        let Ok(qps) = self.qps.try_read().map(|qps| qps.clone()) else {
            return;
        };
        let carried = self.xrc_carried.try_lock();
        let targets: Vec<_> = carried.map_or(Vec::new(), |all| all.values().cloned().collect());
        for qp in qps.iter().flatten().chain(&targets) {
            qp.send_last(self);
        }
    }

    /// The connection manager, if the program has used it.
    #[inline]
    pub(crate) fn used_cm(&self) -> Option<&Cm> {
        self.cm.get()
    }

    /// A service was claimed or given back: requests for it are steered accordingly.
    pub(crate) fn services_changed(&self) {
        if let Some(roce) = self.roce.get() {
            roce.steer(self);
        }
    }

    /// A shared receive queue of an XRC domain by number.
    pub(crate) fn srq_by_number(&self, number: u32) -> Option<Arc<Srq>> {
        self.srqs
            .read()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .get(&number)
            .cloned()
    }

    /// A queue pair by local index.
    #[inline]
    pub(crate) fn qp(&self, index: u32) -> Option<Arc<Qp>> {
        let qps = self
            .qps
            .read()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        qps.get(index as usize)?.clone()
    }

    /// A queue pair of this process by number.
    #[inline]
    pub(crate) fn qp_by_number(&self, qpn: u32) -> Option<Arc<Qp>> {
        let index = ferriband_transport::direct::layout::find_qp(&**self.own, qpn)?;
        self.qp(index).filter(|qp| qp.qpn == qpn)
    }

    pub(crate) fn peer_list(&self) -> Arc<Vec<PeerLink>> {
        self.peers
            .read()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .clone()
    }

    /// Gives a new peer a place among those looked at in every round, if one is left.
    pub(crate) fn watch(&self, link: &PeerLink) {
        if !self
            .watched
            .iter()
            .any(|slot| slot.set(link.clone()).is_ok())
        {
            self.many_peers.store(true, Ordering::Release);
        }
    }

    /// To be called with the list of peers locked, after it changed.
    pub(crate) fn peers_changed(&self) {
        self.peers_version.store(next_version(), Ordering::Release);
    }

    /// Remembers how peers can map a region; 0 if no identifier is left.
    pub(crate) fn keep_mapping(&self, source: MapSource) -> u32 {
        let mut maps = lock(&self.maps);
        let id = (1..MAX_MAPS as u32)
            .find(|id| !maps.contains_key(id))
            .unwrap_or(0);
        if id != 0 {
            maps.insert(id, source);
        }
        id
    }

    /// The region behind an identifier is deregistered: peers that have mapped it are told to unmap it.
    pub(crate) fn forget_mapping(&self, id: u32) {
        if id == 0 {
            return;
        }
        let mut maps = lock(&self.maps);
        let mut holders = lock(&self.map_holders);
        if !holders.iter().any(|(held, _)| *held == id) {
            maps.remove(&id);
            return;
        }
        // the identifier is not given out again: a peer may still hold the mapping under it
        maps.insert(id, MapSource::Gone);
        let mut message = [0; 8];
        message[0] = MSG_MAP_GONE;
        message[4..].copy_from_slice(&id.to_le_bytes());
        for (_, link) in holders.extract_if(.., |(held, _)| *held == id) {
            if let Some(control) = lock(&link.0.control).as_ref() {
                // a peer that takes no more messages keeps the mapping until one of us ends
                let _ = control.send(&message, &[]);
            }
        }
    }

    /// Leaves the host: called when the last context closes.
    pub(crate) fn shut_down(&self) {
        self.stop.store(true, Ordering::Release);
        self.waker.signal(1);
        let thread = lock(&self.thread).take();
        if let Some(thread) = thread
            && self.epoch == fork::epoch()
            && thread.thread().id() != std::thread::current().id()
        {
            let _ = thread.join();
        }
    }
}

/// A number that differs from process to process.
fn random_below(bound: u32) -> u32 {
    let mut bytes = [0; 4];
    // without randomness it is 0, as good as any
    let _ = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty());
    u32::from_ne_bytes(bytes) % bound
}

/// The process ends without having closed its devices: whoever is connected is told, as by a kernel that cleans up.
extern "C" fn take_leave() {
    let leave = || {
        // another thread may be in the middle of something that never ends
        let current = CURRENT.get().try_lock().ok();
        let engine = current.map(|mut current| std::mem::take(&mut *current));
        if let Some(engine) = engine.and_then(|engine| engine.upgrade()) {
            // what was taken is acknowledged, too: nobody would after this
            engine.settle_debts();
            if let Some(cm) = engine.cm.get() {
                engine.leave_to_thread();
                cm.say_goodbye(&engine, || {});
            }
            // the process may be the last to hold it, and its end is not this handler's matter
            std::mem::forget(engine);
        }
    };
    // an ending process has nobody to tell of an error in this
    let _ = std::panic::catch_unwind(leave);
}

impl Drop for Engine {
    fn drop(&mut self) {
        if self.epoch == fork::epoch() {
            if let Some(cm) = self.cm.get() {
                // the thread has let go of it
                cm.say_goodbye(self, || self.receive_all());
            }
            self.shut_down();
            if let Some(roce) = self.roce.take() {
                roce.leave(&self.registry);
            }
        }
    }
}
