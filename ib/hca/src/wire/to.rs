//! Where packets that came go, as the wires know it.
//!
//! Owns nothing. Must not know who makes progress, nor who answers for queue pair 1.

use std::net::IpAddr;
use std::sync::Arc;

use ferriband_memory::host::{HAND_OVER_HEAD, ProcessRef};
use ferriband_memory::net::RxMeta;
use ferriband_transport::types::Instant;
use ferriband_transport::{Drop as Lost, PacketMeta};
use ferriband_wire::{Gid, Opcode, Packet, Psn};

use crate::device::Device;
use crate::objects::catch::Catch;
use crate::process::process::Process;
use crate::wire::native::fabric::News;
use crate::wire::native::meta::NativeMeta;

/// What a process's queue pairs work with. There is one of it, known when the crate is compiled: no
/// call by it is dearer than to the type itself.
pub(crate) trait Deliver: Sized {
    /// A queue pair of the process.
    type Queue: Queue<Adapter = Self>;

    fn process(&self) -> &Process;

    /// Changes with the table: what was found under another number is looked for anew.
    fn version(&self) -> u64;

    /// The default GID.
    fn gid(&self) -> Gid;

    /// The queue pair that has a number.
    fn queue(&self, qpn: u32) -> Option<Arc<Self::Queue>>;

    /// The queue pair that takes the packets for a number.
    fn queue_of_packets(&self, qpn: u32) -> Option<Arc<Self::Queue>>;

    /// Gives packets to another process, whose they are. False if it does not take them.
    fn hand_over(&self, to: ProcessRef, head: &[u8; HAND_OVER_HEAD], packets: &[u8]) -> bool;

    /// The fabric has changed a port of the InfiniBand device.
    fn port_changed(&self, news: News);
}

/// A queue pair, as the wires know it.
pub(crate) trait Queue: Sized {
    type Adapter;
    /// It, while packets of one source come in under one lock.
    type Incoming<'q>: Incoming;

    fn number(&self) -> u32;
    fn is_datagram(&self) -> bool;
    fn device(&self) -> &Device;

    /// True if an address is one of its port's.
    fn has_address(&self, address: IpAddr) -> bool;

    /// It takes datagrams by packets from now on, if it sends them by the direct wire.
    fn open_for_datagrams(&self);

    /// Packets of one source, `from`, which says whether they come together.
    fn packets_in(
        self: &Arc<Self>,
        adapter: &Self::Adapter,
        now: Instant,
        from: (IpAddr, bool),
        run: impl FnOnce(&mut Self::Incoming<'_>),
    );

    /// After a batch: answers and completions. True if it keeps an acknowledgement back.
    fn turn_packets(self: &Arc<Self>, adapter: &Self::Adapter, catch: &mut Catch<'_>) -> bool;

    /// An acknowledgement that it keeps back goes.
    fn send_owed(self: &Arc<Self>, adapter: &Self::Adapter);
}

/// A queue pair that takes packets from one source.
pub(crate) trait Incoming {
    /// A packet, its ICRC checked; `marked` if a switch found congestion on its way. False if it
    /// changes nothing.
    fn take(&mut self, marked: bool, meta: &PacketMeta<'_>, packet: &Packet<'_>) -> bool;

    /// A packet that has come right after one that was taken and is like it but for its PSN, AckReq
    /// (`numbers`) and payload. False if it has to be looked at as any other.
    fn take_alike(&mut self, opcode: Opcode, numbers: (Psn, bool), payload: &[u8]) -> bool;

    /// Why the last packet was not taken, if that is known.
    fn lost(&self) -> Option<Lost>;

    /// The peer waits for more than an acknowledgement.
    fn owes_more(&self) -> bool;

    /// What came has left nothing to tell, to answer or to send.
    fn is_settled(&self) -> bool;
}

/// Who answers for queue pair 1, the general services'. Asked for its packets alone.
pub(crate) trait Services {
    /// A whole packet came by RoCEv2; `transport` is what of it begins with the BTH, `handed` says
    /// that another process handed it over. False if it is not taken.
    fn came(&self, meta: &RxMeta, datagram: &[u8], transport: &[u8], handed: bool) -> bool;

    /// A whole packet came by the InfiniBand port, from BTH to ICRC; `transport` is without the
    /// ICRC. False if it is not taken.
    fn came_by_port(&self, meta: &NativeMeta, packet: &[u8], transport: &[u8]) -> bool;

    /// True if a packet, of whatever queue pair, is to be handed over to another process.
    fn is_anothers(&self, meta: &RxMeta, datagram: &[u8]) -> bool;
}

/// What takes packets.
pub(crate) struct To<'a, D> {
    pub(crate) adapter: &'a D,
    pub(crate) services: &'a dyn Services,
}

impl<D> Clone for To<'_, D> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<D> Copy for To<'_, D> {}
