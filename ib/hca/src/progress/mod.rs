//! The process-wide engine: what all contexts of a process share, and the progress that everybody makes.
//!
//! Owns the process segment, the key table, the queue pairs by index, the peers, and the hand-over between polling
//! programs and the progress thread. While a program polls, it drives everything itself, without a system call; when
//! it stops, the progress thread notices within a tick, sets the sleeping word that makes peers ring, and waits.

pub(crate) mod admin;
mod ask;
mod connect;
mod engine;
mod lives;
mod meet;
mod rest;
mod round;
mod tails;
mod thread;
mod yielding;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};

use ferriband_fork::PerProcess;
use ferriband_memory::host::{BlockKind, HandOver};
use ferriband_transport::direct::layout::{
    BLOCK_QPS, MAX_BLOCKS, PROC_BLOCKS, QP_BYTES, qp_offset,
};
use ferriband_transport::types::Instant;
use ferriband_wire::Gid;

use crate::base::error::Error;
use crate::base::fork;
use crate::base::limits;
use crate::device::Device;
use crate::lock;
use crate::objects::owner::Owners;
use crate::objects::regions::Regions;
use crate::objects::srq::Srq;
use crate::process::agenda::Agenda;
use crate::process::ends::Ends;
use crate::process::message::MSG_MAP_GONE;
use crate::process::peer::{MAX_MAPS, PeerLink};
use crate::process::peers::MapSource;
use crate::process::peers::{Peers, next_version};
use crate::process::polls::{Polls, Rests};
use crate::process::process::{NEVER, Process};
use crate::qp::Qp;
use crate::qp::table::{Numbers, Table};
use crate::qp::wires::Wires;
use crate::wire::packets::Roce;
use crate::xrc::targets::Targets;
use engine::Loop;
use meet::Meetings;
pub use rest::Waiting;

/// The engine. One per process and fork epoch, while a context is open.
pub struct Engine {
    pub(crate) process: Process,
    pub(crate) peers: Peers,
    pub(crate) agenda: Agenda<Qp>,
    pub(crate) polls: Polls,
    pub(crate) rests: Rests,
    /// Queue pairs whose other side has ended the connection.
    pub(crate) ends: Ends,
    pub(crate) regions: Regions,
    pub(crate) targets: Targets,
    pub(crate) table: Table,
    pub(crate) wires: Wires,
    pub(crate) owners: Owners,
    pub(crate) progress: Loop,
    meetings: Meetings,
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Engine(slot {})", self.process.slot)
    }
}

/// The current engine. A forked child has none, whatever its parent's threads were doing, and starts afresh.
static CURRENT: PerProcess<Mutex<Weak<Engine>>> = PerProcess::new(Mutex::default);

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
        let process = Process::join(crate::device::fabric::label())?;
        admin::bring_faults(&process.registry);
        let engine = Arc::new(Engine {
            progress: Loop::new(&process.registry),
            peers: Peers::new(&process)?,
            process,
            agenda: Agenda::default(),
            polls: Polls::default(),
            rests: Rests::default(),
            ends: Ends::default(),
            regions: Regions::default(),
            targets: Targets::default(),
            table: Table::default(),
            wires: Wires::default(),
            owners: Owners::default(),
            meetings: Meetings::default(),
        });
        for device in crate::device::all() {
            device.opened(engine.process.lid);
        }
        engine.watch(&engine.peers.own);
        thread::spawn(&engine)?;
        Ok(engine)
    }

    /// Err in a forked child, and after the device failed. Every call on a queue asks this: one
    /// comparison.
    #[inline]
    pub fn check_alive(&self) -> Result<(), Error> {
        if self.process.alive_in.load(Ordering::Relaxed) != fork::epoch() {
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
        if self.process.epoch != fork::epoch() {
            return Err(Error::Gone(
                "it was opened before a fork, by the parent process",
            ));
        }
        Ok(())
    }

    /// Ends the device: every later verb fails.
    #[cold]
    pub fn fail(&self) {
        self.process.alive_in.store(NEVER, Ordering::Release);
    }

    /// Now, on the clock of the timers.
    pub(crate) fn now() -> Instant {
        ferriband_memory::wait::now()
    }

    /// The default GID.
    pub fn gid(&self) -> Gid {
        crate::device::fabric::gid()
            .unwrap_or_else(|| Gid::from_prefix_guid(limits::SUBNET_PREFIX, self.process.guid))
    }

    /// Takes a queue pair number of a kind, and its local index. The number says which wires the queue pair may take, so that both
    /// ends choose alike.
    pub(crate) fn claim_qpn(&self, kind: BlockKind) -> Result<(u32, u32), Error> {
        let mut numbers = lock(&self.table.numbers);
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
        let block = self.process.registry.claim_qpn_block(kind)?;
        let entries = qp_offset(ordinal * BLOCK_QPS as usize);
        if let Err(error) = self
            .process
            .own
            .commit(entries, BLOCK_QPS as usize * QP_BYTES)
        {
            self.process.registry.release_qpn_block(block);
            return Err(error.into());
        }
        numbers.blocks.push((block, kind));
        self.process.own.store(
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
            && let Some(roce) = self.wires.roce.get()
        {
            roce.steer(self);
        }
        Ok(())
    }

    /// Gives an index back. `incarnation` is what the next queue pair of the index continues, so that it takes no answer to
    /// its predecessor's records for its own.
    pub(crate) fn release_qpn(&self, index: u32, incarnation: u32) {
        let mut numbers = lock(&self.table.numbers);
        let (_, kind) = numbers.blocks[(index / BLOCK_QPS) as usize];
        numbers.free[kind as usize].insert(0, index);
        numbers.incarnations.insert(index, incarnation);
    }

    /// The incarnation of the last queue pair that had the index.
    pub(crate) fn last_incarnation(&self, index: u32) -> u32 {
        lock(&self.table.numbers)
            .incarnations
            .get(&index)
            .copied()
            .unwrap_or(0)
    }

    pub(crate) fn insert_qp(&self, qp: &Arc<Qp>) {
        let mut qps = self
            .table
            .qps
            .write()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        let index = qp.index as usize;
        if qps.len() <= index {
            qps.resize(index + 1, None);
        }
        qps[index] = Some(qp.clone());
        self.table.version.fetch_add(1, Ordering::AcqRel);
    }

    pub(crate) fn remove_qp(&self, qp: &Qp) {
        let mut qps = self
            .table
            .qps
            .write()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(slot) = qps.get_mut(qp.index as usize) {
            *slot = None;
        }
        self.table.version.fetch_add(1, Ordering::AcqRel);
        drop(qps);
        self.progress.tails.forget(qp);
        lock(&self.agenda.timers).retain(|(_, index), _| *index != qp.index);
        let mut work = lock(&self.agenda.work);
        work.retain(|other| other.index != qp.index);
        self.agenda.work_count.store(work.len(), Ordering::Release);
    }

    /// The RoCE wire, its port joined if it is not.
    ///
    /// # Errors
    /// What [`Roce::join_port`] says.
    pub(crate) fn roce(&self) -> Result<&Roce, Error> {
        self.packets(Roce::has_port, |roce| {
            // for packets that reach another process first; without the box they are lost, and sent again
            let _ = self.post_box();
            roce.join_port(&self.process.registry)
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
            |roce| {
                roce.open_local(
                    &self.process.registry,
                    &self.process.own,
                    &self.process.bell,
                )
            },
        )
    }

    fn packets(
        &self,
        is_open: impl Fn(&Roce) -> bool,
        open: impl FnOnce(&Roce) -> Result<(), Error>,
    ) -> Result<&Roce, Error> {
        if let Some(roce) = self.wires.roce.get().filter(|roce| is_open(roce)) {
            return Ok(roce);
        }
        let _one = lock(&self.wires.roce_opening);
        let roce = self
            .wires
            .roce
            .get_or_init(|| Roce::new(&self.process.registry, &self.process.waker));
        if !is_open(roce) {
            open(roce)?;
            // the thread waits for its sockets from now on
            self.process.waker.signal(1);
        }
        Ok(roce)
    }

    /// Packets, if any of their carriers was opened.
    pub(crate) fn opened_roce(&self) -> Option<&Roce> {
        self.wires.roce.get()
    }

    /// Where other processes of this host put what is for this one; opened if it is not.
    ///
    /// # Errors
    /// What the host's registry says.
    pub(crate) fn post_box(&self) -> Result<&HandOver, Error> {
        if let Some(post_box) = self.wires.post_box.get() {
            return Ok(post_box);
        }
        let _one = lock(&self.wires.post_opening);
        if self.wires.post_box.get().is_none() {
            let _ = self.wires.post_box.set(self.process.registry.hand_over()?);
            self.process.waker.signal(1);
        }
        self.wires
            .post_box
            .get()
            .ok_or(Error::NotFound("the post box was not opened"))
    }

    /// The post box if it is open.
    pub(crate) fn open_post_box(&self) -> Option<&HandOver> {
        self.wires.post_box.get()
    }

    /// Acknowledgements that wait for a program's replies go.
    fn settle_debts(self: &Arc<Self>) {
        let Ok(qps) = self.table.qps.try_read().map(|qps| qps.clone()) else {
            return;
        };
        let carried = self.table.carried.try_lock();
        let targets: Vec<_> = carried.map_or(Vec::new(), |all| all.values().cloned().collect());
        for qp in qps.iter().flatten().chain(&targets) {
            qp.send_last(self);
        }
    }

    /// A service was claimed or given back: requests for it are steered accordingly.
    pub(crate) fn services_changed(&self) {
        if let Some(roce) = self.wires.roce.get() {
            roce.steer(self);
        }
    }

    /// A shared receive queue of an XRC domain by number.
    pub(crate) fn srq_by_number(&self, number: u32) -> Option<Arc<Srq>> {
        self.targets
            .srqs
            .read()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .get(&number)
            .cloned()
    }

    /// A queue pair by local index.
    #[inline]
    pub(crate) fn qp(&self, index: u32) -> Option<Arc<Qp>> {
        let qps = self
            .table
            .qps
            .read()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        qps.get(index as usize)?.clone()
    }

    /// A queue pair of this process by number.
    #[inline]
    pub(crate) fn qp_by_number(&self, qpn: u32) -> Option<Arc<Qp>> {
        let index = ferriband_transport::direct::layout::find_qp(&**self.process.own, qpn)?;
        self.qp(index).filter(|qp| qp.qpn == qpn)
    }

    pub(crate) fn peer_list(&self) -> Arc<Vec<PeerLink>> {
        self.peers
            .list
            .read()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .clone()
    }

    /// Gives a new peer a place among those looked at in every round, if one is left.
    pub(crate) fn watch(&self, link: &PeerLink) {
        if !self
            .peers
            .watched
            .iter()
            .any(|slot| slot.set(link.clone()).is_ok())
        {
            self.peers.many.store(true, Ordering::Release);
        }
    }

    /// To be called with the list of peers locked, after it changed.
    pub(crate) fn peers_changed(&self) {
        self.peers.version.store(next_version(), Ordering::Release);
    }

    /// Remembers how peers can map a region; 0 if no identifier is left.
    pub(crate) fn keep_mapping(&self, source: MapSource) -> u32 {
        let mut maps = lock(&self.peers.maps);
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
        let mut maps = lock(&self.peers.maps);
        let mut holders = lock(&self.peers.map_holders);
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
        self.progress.stop.store(true, Ordering::Release);
        self.process.waker.signal(1);
        let thread = lock(&self.progress.thread).take();
        if let Some(thread) = thread
            && self.process.epoch == fork::epoch()
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
            if let Some(cm) = engine.progress.cm.get() {
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
        if self.process.epoch == fork::epoch() {
            if let Some(cm) = self.progress.cm.get() {
                // the thread has let go of it
                cm.say_goodbye(self, || self.receive_all());
            }
            self.shut_down();
            if let Some(roce) = self.wires.roce.take() {
                roce.leave(&self.process.registry);
            }
        }
    }
}
