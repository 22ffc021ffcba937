//! What carries the messages of connection managers: the InfiniBand port's packets, post boxes, and
//! queue pair 1 of another port.
//!
//! Owns nothing. Must not know what a message says.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use ferriband_memory::host::{HAND_OVER_HEAD, HOOK_PACKETS};
use ferriband_transport::types::AddressVector;
use ferriband_wire::mad::MAD_LEN;

use super::Cm;
use super::outbox::Refused;
use crate::device::{self, Device};
use crate::lock;
use crate::progress::Engine;
use crate::wire::native::port::LocalPort;

/// True if messages between processes of this host shall be seen.
pub(super) fn wants_mads_in_packets(engine: &Engine) -> bool {
    crate::device::wanted::forced(false) || engine.process.registry.hooks().any(HOOK_PACKETS)
}

/// The InfiniBand port takes packets from now on, if messages shall be seen and there is one.
pub(super) fn open_for_mads(engine: &Engine) {
    if wants_mads_in_packets(engine)
        && let Some(device) = native_device()
    {
        // without it they come by the post box
        let _ = engine.packets_of(device);
    }
}

/// On a host of a fabric: its packets come to this process from now on, those of connection
/// managers among them.
pub(crate) fn open_to_fabric(engine: &Engine) {
    if crate::device::fabric::host().is_some()
        && let Some(device) = native_device()
    {
        // without them nobody out there is heard, which who asks finds out
        let _ = engine.packets_of(device);
    }
}

/// True if of this host's processes it is for this one to say that nobody listens for a
/// service: of those that take packets of the InfiniBand port the first.
pub(super) fn speaks_for_host(engine: &Engine) -> bool {
    let local = engine.opened_roce().and_then(|roce| roce.local());
    let takes = |process| {
        let is_open = |local: &Arc<LocalPort>| local.socket().is_open_at(process);
        // where that cannot be asked, two answers are better than none
        local.is_some_and(|local| is_open(local).unwrap_or(false))
    };
    let me = engine.process.registry.me();
    let mut before = engine.process.registry.members().into_iter();
    !before.any(|member| member.process.slot < me.slot && takes(member.process))
}

/// Sends a message to another process as a packet of the InfiniBand port. False if it is not taken
/// there.
pub(super) fn send_mad_in_packet(engine: &Engine, slot: u32, mad: &[u8; MAD_LEN]) -> bool {
    let member = engine.process.registry.member_in(slot);
    let Some((device, member)) = native_device().zip(member) else {
        return false;
    };
    engine.watch_life(member.process);
    let roce = engine.packets_of(device);
    roce.is_ok_and(|roce| roce.send_mad_to(device, member.process, mad))
}

/// Puts something into another process's post box, now or as soon as it has room.
///
/// # Errors
/// It is lost.
pub(super) fn hand_to(
    engine: &Engine,
    slot: u32,
    head: &[u8; HAND_OVER_HEAD],
    body: &[u8],
) -> Result<(), Refused> {
    let mut outbox = lock(&Cm::of(engine).outbox);
    let handed = outbox.hand(engine, slot, head, body);
    let due = outbox.due();
    let before = engine.agenda.cm_deadline.fetch_min(due, Ordering::AcqRel);
    drop(outbox);
    if due < before {
        engine.kick(false);
    }
    if let Some(member) = engine.process.registry.member_in(slot) {
        // whoever is talked to may end without a word
        engine.watch_life(member.process);
    }
    handed
}

/// The InfiniBand device.
fn native_device() -> Option<&'static Arc<Device>> {
    crate::device::all()
        .iter()
        .find(|device| !device.is_ethernet())
}

/// To queue pair 1 of another port.
pub(super) fn send(engine: &Engine, device: u16, av: &AddressVector, mad: &[u8; MAD_LEN]) {
    if let Some(device) = device::by_index(device.into())
        && let Ok(roce) = engine.packets_of(&device)
    {
        roce.send_mad(&device, av, mad);
    }
}
