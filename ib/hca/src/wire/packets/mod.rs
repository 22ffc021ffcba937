//! Packets: queue pairs' packets in UDP datagrams (RoCEv2), and those of the InfiniBand port from
//! process to process.
//!
//! Owns: the port that the processes of a network namespace share, and what goes through it; the
//! InfiniBand port's way within the host ([`port`](super::native::port)). Must not know: the C ABI;
//! what a packet does to a queue pair (`ferriband-transport`).

pub(crate) mod arrived;
pub(in crate::wire) mod batch;
pub(crate) mod hooks;
pub(crate) mod path;
mod report;
pub(crate) mod run;
pub(in crate::wire) mod rx;

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use arrayvec::ArrayVec;
use ferriband_memory::Segment;
use ferriband_memory::host::{Host, ProcessRef};
use ferriband_memory::net::RxSocket;
use ferriband_memory::wait::EventFd;
use ferriband_transport::WindowLimit;
use ferriband_transport::types::{AddressVector, Instant};
use ferriband_wire::mad::{GSI_QKEY, MAD_LEN};
use ferriband_wire::{Bth, Deth, Ext, Headers, Opcode, PKey, Packet, Psn, Qpn, ROCE_PORT};

use crate::base::error::Error;
use crate::device::Device;
use crate::device::counters::AllCounts;
use crate::objects::catch::Catch;
use crate::qp::Qp;
use crate::wire::native::port::{LocalPort, WINDOW_BYTES};
use crate::wire::roce::flows::MOST_FLOWS;
use crate::wire::roce::groups::Attached;
use crate::wire::roce::join::{SETTLED, SharedPort};
use crate::wire::roce::ports::{PortPool, Spread};
use crate::wire::to::To;
use crate::{FastMutex, lock};
use batch::RxCounters;
use hooks::Hooks;
use path::TxPath;
use rx::RxSide;

/// Bytes that a receiving socket may hold, if the system allows so many.
pub(in crate::wire) const RECEIVE_BUFFER_BYTES: usize = 4 << 20;

/// How long joining or leaving waits for others that do the same.
const LOCK_WAIT: Duration = Duration::from_secs(2);
/// How long a change of steering waits in the middle of a verb: packets that go astray meanwhile
/// are handed over.
const STEER_WAIT: Duration = Duration::from_millis(100);
/// Rounds after which whatever lay in a socket when they began has been taken: a socket holds no
/// more runs of packets than eight times as many, whatever buffer an administrator allows.
pub(in crate::wire) const BACKLOG_ROUNDS: usize = 4096;
/// How often it is looked whether as many bytes were taken as a socket holds.
pub(in crate::wire) const SOME_ROUNDS: usize = 16;
/// Rounds of a polling program between two looks at the address family that brought nothing last.
const OTHER_FAMILY_EVERY: u32 = 32;
/// The general services' queue pair.
pub(crate) const GSI: Qpn = Qpn(1);

/// The wire as one process has it.
#[derive(Debug)]
pub(crate) struct Roce {
    pub(crate) ports: PortPool,
    pub(crate) hooks: Arc<Hooks>,
    /// The port of RoCEv2, once it is joined.
    pub(in crate::wire) port: OnceLock<SharedPort>,
    rx: FastMutex<RxSide>,
    pub(in crate::wire) counters: RxCounters,
    pub(in crate::wire) attached: Attached,
    mad_psn: AtomicU32,
    rounds: AtomicU32,
    /// Changes with the sockets of senders ([`Roce::flows`]).
    pub(in crate::wire) flows_version: AtomicU32,
    /// The last packet came over IPv6.
    family: AtomicBool,
    /// Everything that had arrived by then was handled.
    caught_up_at: AtomicU64,
    /// Packets come that are another process's: the steering is not what the registry says.
    astray: AtomicBool,
    /// The registry's steering when packets last went astray, and since when it is so.
    epoch: AtomicU64,
    epoch_at: AtomicU64,
}

thread_local! {
    /// This thread handles packets: it must not wait for itself.
    static HANDLING: Cell<bool> = const { Cell::new(false) };
}

/// While it lives, this thread holds locks of packets.
pub(crate) struct Handling(bool);

/// To be held around everything that is done under a queue pair's packet lock.
pub(crate) fn handling() -> Handling {
    Handling(HANDLING.replace(true))
}

impl Drop for Handling {
    fn drop(&mut self) {
        HANDLING.set(self.0);
    }
}

impl Roce {
    /// What packets of any kind need.
    pub(crate) fn new(host: &Host, waker: &Arc<EventFd>) -> Self {
        let hooks = Arc::new(Hooks::new(host.lookout(), waker.clone()));
        Roce {
            ports: PortPool::new(AllCounts::default(), hooks.clone()),
            hooks,
            port: OnceLock::new(),
            rx: FastMutex::new(RxSide::new()),
            counters: RxCounters::default(),
            attached: Default::default(),
            mad_psn: AtomicU32::new(0),
            rounds: AtomicU32::new(0),
            flows_version: AtomicU32::new(0),
            family: AtomicBool::new(false),
            caught_up_at: AtomicU64::new(0),
            astray: AtomicBool::new(false),
            epoch: AtomicU64::new(0),
            epoch_at: AtomicU64::new(0),
        }
    }

    /// Joins the port of RoCEv2. One at a time.
    ///
    /// # Errors
    /// The port is taken by somebody who does not share it: another user's adapter, or the kernel's
    /// own.
    pub(crate) fn join_port(&self, host: &Host) -> Result<(), Error> {
        self.ports.counts.open_ethernet(host);
        let joined = SharedPort::join(host, ROCE_PORT, RECEIVE_BUFFER_BYTES, LOCK_WAIT)?;
        let _ = self.port.set(joined);
        Ok(())
    }

    /// Opens the InfiniBand port for packets. One at a time.
    ///
    /// # Errors
    /// What the host's registry says.
    pub(crate) fn open_local(
        &self,
        host: &Host,
        process: &Arc<Segment>,
        bell: &Arc<EventFd>,
    ) -> Result<(), Error> {
        self.ports.counts.open_native(host);
        let opened = LocalPort::open(host, process.clone(), bell.clone())?;
        let _ = self.ports.local.set(Arc::new(opened));
        Ok(())
    }

    /// The port of RoCEv2 is joined.
    pub(crate) fn has_port(&self) -> bool {
        self.port.get().is_some()
    }

    /// The InfiniBand port, if it takes packets.
    pub(crate) fn local(&self) -> Option<&Arc<LocalPort>> {
        self.ports.local.get()
    }

    /// What a queue pair may have outstanding: what fits a socket here, and a peer's like it, while
    /// nobody reads it.
    pub(crate) fn window(&self, ethernet: bool) -> WindowLimit {
        let least = self.sockets().map(RxSocket::buffer_bytes).min();
        let bytes = match ethernet {
            true => (least.unwrap_or(0) / 2) as u32,
            false => WINDOW_BYTES,
        };
        let whole = WindowLimit::default();
        WindowLimit {
            requests_bytes: whole.requests_bytes.min(bytes),
            responses_bytes: whole.responses_bytes.min(bytes),
        }
    }

    /// Leaves the port in good order.
    pub(crate) fn leave(self, host: &Host) {
        self.hooks.close();
        // if others are stopped in the middle of a change, closing the sockets has to do: the
        // others find out
        if let Some(port) = self.port.into_inner() {
            let _ = port.leave(host, LOCK_WAIT);
        }
    }

    /// A block of numbers has come: packets for it are steered here.
    pub(crate) fn steer(&self, registry: &Host) {
        let Some(port) = self.port.get() else { return };
        if port.attach(registry, STEER_WAIT).is_err() {
            self.astray.store(true, Relaxed);
        }
    }

    /// What the progress thread waits for: the sockets of packets. (Those of the InfiniBand port
    /// come by another.)
    pub(crate) fn sockets(&self) -> impl Iterator<Item = &RxSocket> {
        [false, true].into_iter().filter_map(|v6| self.socket(v6))
    }

    /// Those of senders that have one of their own, which come and go with a number that changes
    /// then.
    pub(crate) fn flows(&self) -> (u32, ArrayVec<Arc<RxSocket>, MOST_FLOWS>) {
        let rx = lock(&self.rx);
        (self.flows_version(), rx.flow_sockets())
    }

    /// That number.
    pub(crate) fn flows_version(&self) -> u32 {
        self.flows_version.load(Relaxed)
    }

    /// The receiving socket of a family.
    pub(in crate::wire) fn socket(&self, v6: bool) -> Option<&RxSocket> {
        self.port.get()?.rx(v6)
    }

    /// Sends a management datagram from queue pair 1 to queue pair 1.
    pub(crate) fn send_mad(&self, device: &Device, av: &AddressVector, mad: &[u8; MAD_LEN]) {
        if let Ok(path) = TxPath::resolve(device, &self.ports, av, (GSI.0, GSI.0), Spread::Many) {
            self.send_mad_by(&path, mad);
        }
    }

    /// The same by the InfiniBand port, to another process. False if it is not taken there.
    pub(crate) fn send_mad_to(&self, device: &Device, to: ProcessRef, mad: &[u8; MAD_LEN]) -> bool {
        TxPath::to_process(device, &self.ports, to).is_some_and(|path| self.send_mad_by(&path, mad))
    }

    /// False if it did not go.
    fn send_mad_by(&self, path: &TxPath, mad: &[u8; MAD_LEN]) -> bool {
        let psn = Psn::new(self.mad_psn.fetch_add(1, Relaxed) & 0xff_ffff);
        let headers = Headers::new(
            Bth {
                // what stands first in its port's table, as a limited member's queue pair 1 has it
                pkey: PKey(path.pkey()),
                ..Bth::new(Opcode::UdSendOnly, GSI, psn)
            },
            Ext {
                deth: Some(Deth {
                    qkey: GSI_QKEY,
                    src_qpn: GSI,
                }),
                ..Ext::default()
            },
        );
        run::with_run(|run| {
            let packet = Packet {
                headers,
                payload: mad,
            };
            let before = run.lost;
            let Ok(len) = packet.emit(run.room()) else {
                return false;
            };
            run.push(path, len);
            run.flush(path);
            run.lost == before
        })
    }

    /// By the progress thread: finds out where everybody's socket is, if packets go astray although
    /// nothing changes.
    pub(crate) fn repair(&self, to: To<'_>) {
        if !self.astray.swap(false, Relaxed) {
            return;
        }
        let Some(port) = self.port.get() else { return };
        let repaired = port.repair(&to.adapter.process.registry, STEER_WAIT, || {
            self.round(to, &mut Catch::nobody());
        });
        if repaired.is_err() {
            self.astray.store(true, Relaxed);
        }
    }

    /// A packet for `owner` came here. If nothing has changed for a while, the steering is wrong.
    pub(in crate::wire) fn went_astray(&self, to: To<'_>) {
        let (epoch, now) = (
            to.adapter.process.registry.steering_epoch(),
            ferriband_memory::wait::now().0,
        );
        if self.epoch.swap(epoch, Relaxed) != epoch || self.epoch_at.load(Relaxed) == 0 {
            self.epoch_at.store(now, Relaxed);
        } else if now - self.epoch_at.load(Relaxed) > SETTLED.as_nanos() as u64
            && !self.astray.swap(true, Relaxed)
        {
            // once in a while only
            self.epoch_at.store(now, Relaxed);
            to.adapter.process.waker.signal(1);
        }
    }

    /// Handles what has arrived. True if anything had.
    pub(crate) fn round(&self, to: To<'_>, catch: &mut Catch<'_>) -> bool {
        if self.hooks.deadline() != u64::MAX
            && self.hooks.deadline() <= ferriband_memory::wait::now().0
        {
            self.hooks.fire(to, self);
        }
        let Some(mut rx) = self.rx.try_lock() else {
            return false;
        };
        let _handling = handling();
        let rounds = self.rounds.load(Relaxed).wrapping_add(1);
        self.rounds.store(rounds, Relaxed);
        // a look at an empty socket is a system call: a polling program looks at the family in use,
        // now and then at the other
        let both = !catch.somebody_polls() || rounds.is_multiple_of(OTHER_FAMILY_EVERY);
        let last = self.family.load(Relaxed);
        let mut worked = rx.take_flows(to, self, rounds, catch);
        let skip = catch.somebody_polls() && rx.may_skip_all(rounds, worked);
        for v6 in [false, true] {
            let wanted = !skip && (both || v6 == last);
            let Some(socket) = self.socket(v6).filter(|_| wanted) else {
                continue;
            };
            if rx.take(to, self, socket, catch) {
                self.family.store(v6, Relaxed);
                worked = true;
            }
        }
        if let Some(local) = self.local() {
            worked |= rx.take_local(to, self, local, catch);
        }
        if !worked {
            rx.idle(to);
        }
        worked
    }

    /// Sends pending acknowledgements, before nobody looks for packets for a while. (Whoever holds
    /// the lock looks on, and does it when nothing comes.)
    pub(crate) fn send_owed(&self, to: To<'_>) {
        if let Some(mut rx) = self.rx.try_lock() {
            let _handling = handling();
            rx.idle(to);
        }
    }

    /// Handles all that has arrived by now. A time-out may be judged only after that: to a process
    /// that was stopped, or had to wait for a core, its peers seem silent although their answers
    /// lie in its sockets. False if another thread is handling packets, which had better be asked
    /// again soon.
    pub(crate) fn catch_up(&self, to: To<'_>) -> bool {
        let now = ferriband_memory::wait::now().0;
        let Some(mut rx) = self.rx.try_lock() else {
            return false;
        };
        let _handling = handling();
        for socket in self.sockets() {
            rx.drain(to, self, socket);
        }
        rx.drain_flows(to, self);
        if let Some(local) = self.local() {
            (0..BACKLOG_ROUNDS)
                .take_while(|_| rx.take_local(to, self, local, &mut Catch::nobody()))
                .count();
        }
        self.caught_up_at.fetch_max(now, Relaxed);
        true
    }

    /// When [`Roce::catch_up`] last began and came to its end: what has not arrived until a
    /// deadline before is late.
    pub(crate) fn caught_up_at(&self) -> Instant {
        Instant(self.caught_up_at.load(Relaxed))
    }

    /// Handles a run of packets that another process got and handed over. Hold nothing.
    pub(crate) fn handed(&self, to: To<'_>, head: &[u8], body: &[u8]) {
        let mut rx = lock(&self.rx);
        let _handling = handling();
        rx.take_handed(to, self, head, body, &mut Catch::nobody());
    }

    /// Waits until no packet is in the middle of being handled: what was revoked before is not
    /// touched after.
    pub(crate) fn quiesce(&self, qps: &[Option<Arc<Qp>>]) {
        if HANDLING.get() {
            return;
        }
        drop(lock(&self.rx));
        for qp in qps.iter().flatten() {
            qp.wait_for_packets();
        }
    }

    /// Packets that were ever taken from the sockets.
    pub(crate) fn taken(&self) -> u64 {
        self.counters.packets.load(Relaxed)
    }
}
