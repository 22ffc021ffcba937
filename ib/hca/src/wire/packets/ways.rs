//! What packets go by: the port of RoCEv2, the InfiniBand port, the sockets, and what stands in
//! between.
//!
//! Owns whether each is open, and whether packets are steered here. Must not know queue pairs, nor
//! who takes what has come.

use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use ferriband_memory::Segment;
use ferriband_memory::host::{Host, ProcessRef};
use ferriband_memory::net::RxSocket;
use ferriband_memory::wait::EventFd;
use ferriband_transport::WindowLimit;
use ferriband_transport::types::AddressVector;
use ferriband_wire::mad::{GSI_QKEY, MAD_LEN};
use ferriband_wire::{Bth, Deth, Ext, Headers, Opcode, PKey, Packet, Psn, ROCE_PORT};

use super::arrived::GSI;
use super::batch::RxCounters;
use super::hooks::Hooks;
use super::path::TxPath;
use super::run;
use crate::base::error::Error;
use crate::device::Device;
use crate::device::counters::AllCounts;
use crate::process::process::Process;
use crate::wire::native::port::{LocalPort, WINDOW_BYTES};
use crate::wire::roce::groups::Attached;
use crate::wire::roce::join::{SETTLED, SharedPort};
use crate::wire::roce::ports::{PortPool, Spread};

/// Bytes that a receiving socket may hold, if the system allows so many.
pub(in crate::wire) const RECEIVE_BUFFER_BYTES: usize = 4 << 20;

/// How long joining or leaving waits for others that do the same.
const LOCK_WAIT: Duration = Duration::from_secs(2);
/// How long a change of steering waits in the middle of a verb: packets that reach the wrong
/// process meanwhile are handed over.
const STEER_WAIT: Duration = Duration::from_millis(100);
/// Rounds after which whatever lay in a socket when they began has been taken: a socket holds no
/// more runs of packets than eight times as many, whatever buffer an administrator allows.
pub(in crate::wire) const BACKLOG_ROUNDS: usize = 4096;
/// How often it is looked whether as many bytes were taken as a socket holds.
pub(in crate::wire) const SOME_ROUNDS: usize = 16;

/// What packets of a process go by.
#[derive(Debug)]
pub(crate) struct Ways {
    pub(crate) ports: PortPool,
    pub(crate) hooks: Arc<Hooks>,
    /// The port of RoCEv2, once it is joined.
    pub(in crate::wire) port: OnceLock<SharedPort>,
    pub(in crate::wire) counters: RxCounters,
    pub(in crate::wire) attached: Attached,
    mad_psn: AtomicU32,
    /// Changes with the sockets of senders ([`super::Roce::flows`]).
    pub(in crate::wire) flows_version: AtomicU32,
    /// Packets come that are another process's: the steering is not what the registry says.
    misrouted: AtomicBool,
    /// The registry's steering when packets last reached the wrong process, and since when it is
    /// so.
    epoch: AtomicU64,
    epoch_at: AtomicU64,
}

impl Ways {
    /// What packets of any kind need.
    pub(super) fn new(host: &Host, waker: &Arc<EventFd>) -> Self {
        let hooks = Arc::new(Hooks::new(host.lookout(), waker.clone()));
        Ways {
            ports: PortPool::new(AllCounts::default(), hooks.clone()),
            hooks,
            port: OnceLock::new(),
            counters: RxCounters::default(),
            attached: Attached::default(),
            mad_psn: AtomicU32::new(0),
            flows_version: AtomicU32::new(0),
            misrouted: AtomicBool::new(false),
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
    pub(super) fn leave(self, host: &Host) {
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
            self.misrouted.store(true, Relaxed);
        }
    }

    /// What the progress thread waits for: the sockets of packets. (Those of the InfiniBand port
    /// come by another.)
    pub(crate) fn sockets(&self) -> impl Iterator<Item = &RxSocket> {
        [false, true].into_iter().filter_map(|v6| self.socket(v6))
    }

    /// A number that changes when senders get or lose a socket of their own.
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

    /// Sends a management datagram to another process of the InfiniBand port. False if it is not
    /// taken there.
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

    /// By the progress thread: finds out where everybody's socket is, if packets reach the wrong
    /// process although nothing changes. `round` takes what comes meanwhile.
    pub(super) fn repair(&self, registry: &Host, round: impl FnMut()) {
        if !self.misrouted.swap(false, Relaxed) {
            return;
        }
        let Some(port) = self.port.get() else { return };
        if port.repair(registry, STEER_WAIT, round).is_err() {
            self.misrouted.store(true, Relaxed);
        }
    }

    /// A packet for `owner` came here. If nothing has changed for a while, the steering is wrong.
    pub(in crate::wire) fn was_misrouted(&self, process: &Process) {
        let (epoch, now) = (
            process.registry.steering_epoch(),
            ferriband_memory::wait::now().0,
        );
        if self.epoch.swap(epoch, Relaxed) != epoch || self.epoch_at.load(Relaxed) == 0 {
            self.epoch_at.store(now, Relaxed);
        } else if now - self.epoch_at.load(Relaxed) > SETTLED.as_nanos() as u64
            && !self.misrouted.swap(true, Relaxed)
        {
            // once in a while only
            self.epoch_at.store(now, Relaxed);
            process.waker.signal(1);
        }
    }

    /// Attaches a queue pair to a group on an interface. Attaching it again changes nothing.
    ///
    /// # Errors
    /// What the kernel says to joining: too many memberships (net.ipv4.igmp_max_memberships), no
    /// such family.
    pub(crate) fn attach(&self, group: IpAddr, ifindex: u32, qpn: u32) -> Result<(), Error> {
        let socket = self.socket(group.is_ipv6());
        self.attached.attach(socket, (group, ifindex), qpn)
    }

    /// Detaches a queue pair; with the last one the group is left. False if it was not attached.
    pub(crate) fn detach(&self, group: IpAddr, ifindex: u32, qpn: u32) -> bool {
        let socket = self.socket(group.is_ipv6());
        self.attached.detach(socket, (group, ifindex), qpn)
    }

    /// Packets that were ever taken from the sockets.
    pub(crate) fn taken(&self) -> u64 {
        self.counters.packets.load(Relaxed)
    }
}
