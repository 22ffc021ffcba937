//! The RoCEv2 wire: queue pairs' packets in UDP datagrams.
//!
//! Owns: the port that the processes of a network namespace share, and what goes through it. Must not know: the C ABI; what a
//! packet does to a queue pair (`ferriband-transport`).

pub(crate) mod env;
pub mod join;
pub(crate) mod rx;
pub mod steer;
pub(crate) mod tx;

use std::cell::Cell;
use std::sync::Arc;

use ferriband_memory::net::RxSocket;
use ferriband_wire::ROCE_PORT;

use crate::cq::Catch;
use crate::engine::Engine;
use crate::error::Error;
use crate::qp::Qp;
use crate::{FastMutex, lock};
use rx::{RxCounters, RxSide};
use tx::PortPool;

/// Says how the wire of a queue pair on an Ethernet device is chosen: `roce` sends packets to peers of the same host, too.
pub const WIRE_VARIABLE: &str = "FERRIBAND_WIRE";
/// Bytes that a receiving socket may hold, if the system allows so many.
const RECEIVE_BUFFER_BYTES: usize = 4 << 20;

/// The wire as one process has it.
#[derive(Debug)]
pub(crate) struct Roce {
    pub(crate) ports: PortPool,
    sockets: Vec<RxSocket>,
    rx: FastMutex<RxSide>,
    counters: RxCounters,
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

/// True if peers of the same host are to be reached by packets, too.
pub(crate) fn forced() -> bool {
    std::env::var_os(WIRE_VARIABLE).is_some_and(|value| value == "roce")
}

impl Roce {
    /// Opens the receiving sockets.
    ///
    /// # Errors
    /// The port is taken by somebody who does not share it: another user's adapter, or the kernel's own.
    pub(crate) fn open() -> Result<Self, Error> {
        let mut sockets = vec![RxSocket::bind(false, ROCE_PORT, RECEIVE_BUFFER_BYTES)?];
        // a host without IPv6 has only the one
        if let Ok(v6) = RxSocket::bind(true, ROCE_PORT, RECEIVE_BUFFER_BYTES) {
            sockets.push(v6);
        }
        Ok(Roce {
            ports: PortPool::default(),
            sockets,
            rx: FastMutex::new(RxSide::new()),
            counters: RxCounters::default(),
        })
    }

    /// What the progress thread waits for.
    pub(crate) fn sockets(&self) -> &[RxSocket] {
        &self.sockets
    }

    /// Handles what has arrived. True if anything had.
    pub(crate) fn round(&self, engine: &Engine, catch: &mut Catch<'_>) -> bool {
        let Some(mut rx) = self.rx.try_lock() else {
            return false;
        };
        let _handling = handling();
        let mut worked = false;
        for socket in &self.sockets {
            worked |= rx.take(engine, socket, &self.counters, catch);
        }
        if !worked {
            rx.idle(engine);
        }
        worked
    }

    /// Waits until no packet is in the middle of being handled: what was revoked before is not touched after.
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
        self.counters
            .packets
            .load(std::sync::atomic::Ordering::Relaxed)
    }
}
