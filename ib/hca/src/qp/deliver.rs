//! The adapter and its queue pairs as the wires of packets know them.
//!
//! Owns nothing.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use ferriband_memory::host::{HAND_OVER_HEAD, ProcessRef};
use ferriband_transport::types::Instant;
use ferriband_wire::Gid;

use crate::device::Device;
use crate::objects::catch::Catch;
use crate::objects::event::AsyncKind;
use crate::process::process::Process;
use crate::qp::Qp;
use crate::qp::adapter::Adapter;
use crate::qp::packets::incoming::Incoming;
use crate::wire::native::fabric::News;
use crate::wire::to::{Deliver, Queue};

impl Adapter {
    /// The queue pairs of the InfiniBand device.
    fn native_queue_pairs(&self) -> Vec<Arc<Qp>> {
        let qps = self.table.qps.read();
        let qps = qps.unwrap_or_else(std::sync::PoisonError::into_inner);
        let native = |qp: &&Arc<Qp>| !qp.ctx.device.is_ethernet();
        qps.iter().flatten().filter(native).cloned().collect()
    }
}

impl Deliver for Adapter {
    type Queue = Qp;

    fn process(&self) -> &Process {
        &self.process
    }

    #[inline]
    fn version(&self) -> u64 {
        self.table.version.load(Ordering::Acquire)
    }

    fn gid(&self) -> Gid {
        Adapter::gid(self)
    }

    fn queue(&self, qpn: u32) -> Option<Arc<Qp>> {
        self.qp_by_number(qpn)
    }

    #[inline]
    fn queue_of_packets(&self, qpn: u32) -> Option<Arc<Qp>> {
        self.qp_of_packets(qpn)
    }

    fn hand_over(&self, to: ProcessRef, head: &[u8; HAND_OVER_HEAD], packets: &[u8]) -> bool {
        self.post_box()
            .is_ok_and(|post| post.send(to, head, packets).is_ok())
    }

    #[cold]
    fn port_changed(&self, news: News) {
        let port = usize::from(news.port);
        let tell = |kind| self.owners.tell(0, kind, port);
        if news.pkeys {
            tell(AsyncKind::PkeyChange);
        }
        match news.active {
            Some(true) => tell(AsyncKind::PortActive),
            Some(false) => tell(AsyncKind::PortErr),
            None => return,
        }
        for qp in self.native_queue_pairs() {
            match news.active {
                // packets that were lost meanwhile are asked for
                Some(true) if qp.port() == news.port => qp.ask_now(self),
                Some(false) => {
                    qp.fail_over(Some(news.port));
                }
                _ => {}
            }
        }
    }
}

impl Queue for Qp {
    type Adapter = Adapter;
    type Incoming<'q> = Incoming<'q>;

    #[inline]
    fn number(&self) -> u32 {
        self.qpn
    }

    #[inline]
    fn is_datagram(&self) -> bool {
        Qp::is_datagram(self)
    }

    #[inline]
    fn device(&self) -> &Device {
        &self.ctx.device
    }

    fn has_address(&self, address: IpAddr) -> bool {
        self.ctx.device.index_of(address).is_some()
    }

    fn open_for_datagrams(&self) {
        Qp::open_for_datagrams(self);
    }

    #[inline]
    fn packets_in(
        self: &Arc<Self>,
        adapter: &Adapter,
        now: Instant,
        from: (IpAddr, bool),
        run: impl FnOnce(&mut Incoming<'_>),
    ) {
        Qp::packets_in(self, adapter, now, from, run);
    }

    #[inline]
    fn turn_packets(self: &Arc<Self>, adapter: &Adapter, catch: &mut Catch<'_>) -> bool {
        Qp::turn_packets(self, adapter, catch)
    }

    fn send_owed(self: &Arc<Self>, adapter: &Adapter) {
        Qp::send_owed(self, adapter);
    }
}
