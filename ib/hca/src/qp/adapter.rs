//! The adapter: what all contexts of a process share, but for the loop that drives it.
//!
//! Owns the queue pairs by index, and that each wire is opened once; else the structures of the
//! rooms below, each with what it is about. Must not know who makes progress.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::sync::{Arc, Mutex, OnceLock, RwLock};

use ferriband_memory::host::{BlockKind, HOOK_PACKETS, HandOver};
use ferriband_transport::direct::layout::PROC_ASLEEP;
use ferriband_wire::Gid;

use crate::base::error::Error;
use crate::base::limits;
use crate::lock;
use crate::objects::open::OpenDevice;
use crate::objects::owner::Owners;
use crate::objects::regions::Regions;
use crate::process::agenda::Agenda;
use crate::process::ends::Ends;
use crate::process::peers::Peers;
use crate::process::process::Process;
use crate::process::status::Status;
use crate::qp::Qp;
use crate::wire::packets;
use crate::xrc::targets::Targets;

/// Queue pair numbers of this process.
#[derive(Debug, Default)]
pub(crate) struct Numbers {
    pub(crate) blocks: Vec<(u32, BlockKind)>,
    /// Of each kind: indexes that were given back, the longest ago last, and those of the newest
    /// block that were never used.
    pub(crate) free: [Vec<u32>; 3],
    pub(crate) fresh: [std::ops::Range<u32>; 3],
    /// Of indexes that were used before.
    pub(crate) incarnations: BTreeMap<u32, u32>,
}

/// Queue pairs of a process.
#[derive(Debug, Default)]
pub(crate) struct Table {
    pub(crate) qps: RwLock<Vec<Option<Arc<Qp>>>>,
    /// Changes with the table.
    pub(crate) version: AtomicU64,
    /// XRC targets whose packets this process executes, by number.
    pub(crate) carried: Mutex<BTreeMap<u32, Arc<Qp>>>,
    pub(crate) numbers: Mutex<Numbers>,
}

/// Packets, with this process's queue pairs.
pub(crate) type Roce = packets::Roce<Adapter>;

/// What a process sends and receives by, beside the rings.
#[derive(Debug, Default)]
pub(crate) struct Wires {
    /// Packets, once a queue pair or a listener needs them.
    pub(crate) roce: OnceLock<Roce>,
    pub(crate) roce_opening: Mutex<()>,
    /// Where other processes of this host put what is for this one, once anything may come.
    pub(crate) post_box: OnceLock<HandOver>,
    pub(crate) post_opening: Mutex<()>,
    /// Requests by packets that a program sees nothing of in its completion queues; a hint, which
    /// may miss some.
    pub(crate) unseen: AtomicU64,
}

/// What queue pairs and wires work with. One per process and fork epoch, while a context is open.
#[derive(Debug)]
pub struct Adapter {
    pub(crate) process: Process,
    pub(crate) peers: Peers<Qp>,
    pub(crate) agenda: Agenda<Qp>,
    pub(crate) status: Arc<Status>,
    /// Queue pairs whose other side has ended the connection.
    pub(crate) ends: Ends,
    pub(crate) regions: Regions,
    pub(crate) targets: Targets,
    pub(crate) table: Table,
    pub(crate) wires: Wires,
    pub(crate) owners: Owners,
}

impl Deref for Adapter {
    type Target = Status;

    #[inline]
    fn deref(&self) -> &Status {
        &self.status
    }
}

impl Adapter {
    /// That of the process that has opened a device.
    pub(crate) fn of(device: &OpenDevice) -> Arc<Self> {
        let adapter = device.host.adapter().downcast();
        adapter.expect("there is no other kind of adapter")
    }

    pub(crate) fn new(process: Process) -> Result<Self, Error> {
        Ok(Adapter {
            peers: Peers::new(&process)?,
            status: Status::new(process.bell.clone()),
            process,
            agenda: Agenda::default(),
            ends: Ends::default(),
            regions: Regions::default(),
            targets: Targets::default(),
            table: Table::default(),
            wires: Wires::default(),
            owners: Owners::default(),
        })
    }

    /// Err in a forked child, and after the device failed.
    ///
    /// # Errors
    /// `Gone`.
    #[inline]
    pub fn check_alive(&self) -> Result<(), Error> {
        self.status.life.check()
    }

    /// Ends the device: every later verb fails.
    #[cold]
    pub fn fail(&self) {
        self.status.life.fail();
    }

    /// The default GID.
    pub fn gid(&self) -> Gid {
        crate::device::fabric::gid()
            .unwrap_or_else(|| Gid::from_prefix_guid(limits::SUBNET_PREFIX, self.process.guid))
    }

    /// Puts a queue pair on the list of those to be driven.
    pub(crate) fn schedule(&self, qp: &Arc<Qp>) {
        if qp.scheduled.swap(true, Ordering::AcqRel) {
            return;
        }
        let mut work = lock(&self.agenda.work);
        work.push(qp.clone());
        self.agenda.work_count.store(work.len(), Ordering::Release);
    }

    /// Wakes the thread for work that a posting program leaves behind: always for a long transfer,
    /// otherwise if it sleeps.
    pub(crate) fn kick(&self, long_transfer: bool) {
        if long_transfer
            && self.agenda.polled_for.load(Ordering::Relaxed)
            && self.polls.polling.load(Ordering::Acquire)
        {
            // the program moved its last long transfer itself; if it does not this time, the
            // thread's tick finds out
            return;
        }
        let wake = if long_transfer {
            // the work is on its list before the thread is found to know of it
            fence(Ordering::SeqCst);
            !self.agenda.assisting.swap(true, Ordering::AcqRel)
        } else {
            self.process.own.load(PROC_ASLEEP, Ordering::Acquire) != 0
        };
        match wake {
            true if long_transfer => self.process.waker.signal(1),
            true => self.process.bell.signal(1),
            false => {}
        }
    }

    /// Drives a queue pair again at a time.
    pub(crate) fn set_timer(&self, qp: &Arc<Qp>, at: u64) {
        let mut timers = lock(&self.agenda.timers);
        timers.insert((at, qp.index), qp.clone());
        let first = timers.keys().next().map_or(u64::MAX, |(at, _)| *at);
        let before = self.agenda.next_timer.swap(first, Ordering::AcqRel);
        drop(timers);
        if first < before {
            self.kick(false);
        }
    }

    /// A request was executed that makes no completion here.
    #[inline]
    pub(crate) fn note_unseen(&self) {
        let count = self.wires.unseen.load(Ordering::Relaxed).wrapping_add(1);
        self.wires.unseen.store(count, Ordering::Relaxed);
    }

    /// True if a new queue pair shall take packets although a direct wire would do. Asked when one
    /// is created, so a tool that was killed is found out here at the latest.
    pub(crate) fn packets_wanted(&self) -> bool {
        if !self.process.registry.hooks().any(HOOK_PACKETS) {
            return false;
        }
        self.process.registry.settle_hooks();
        self.process.registry.hooks().any(HOOK_PACKETS)
    }
}
