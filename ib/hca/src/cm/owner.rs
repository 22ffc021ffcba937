//! Whose a management datagram is, among the processes of this host.
//!
//! Owns nothing; the host's registry knows who listens on which service. Must not know what becomes
//! of the message.

use ferriband_cm::Machine;
use ferriband_memory::host::ProcessRef;
use ferriband_wire::cm::{CmMad, Message};
use ferriband_wire::mad::MAD_LEN;
use ferriband_wire::{CommId, Gid};

use crate::device::gid_of;
use crate::progress::Engine;

/// Whose a message is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Owner {
    /// This process's, or nobody's who could be found.
    Here,
    /// That of the process in this slot.
    Other(u32),
    /// A request for a service that nobody listens on.
    Unheard,
    /// An answer to a process that is gone.
    Nobody,
}

/// The process whose a message is that came by the port of RoCEv2, by its identifiers or its
/// service. Who has not joined that port neither gets such messages nor answers them.
pub(crate) fn owner_of_mad(engine: &Engine, to: &Gid, mad: &[u8; MAD_LEN]) -> Owner {
    owner_among(engine, to, mad, |process| {
        engine.process.registry.steering_of(process).is_some()
    })
}

/// As [`owner_of_mad`], among the processes that `takes` names.
fn owner_among(
    engine: &Engine,
    to: &Gid,
    mad: &[u8; MAD_LEN],
    takes: impl Fn(ProcessRef) -> bool,
) -> Owner {
    let Ok(parsed) = CmMad::parse(mad) else {
        return Owner::Here;
    };
    let service = match &parsed.message {
        Message::Req(req) => Some(req.service_id),
        Message::SidrReq(req) => Some(req.service_id),
        _ => None,
    };
    let slot = match service {
        Some(service) => match engine
            .process
            .registry
            .service_find_of(service.0, to, takes)
        {
            Some(entry) => entry.process.slot,
            None => return Owner::Unheard,
        },
        None => {
            let slot = Machine::slot_of(recipient(&parsed.message));
            match engine.process.registry.member_in(slot) {
                Some(member) if takes(member.process) => slot,
                _ => return Owner::Nobody,
            }
        }
    };
    if slot == engine.process.slot {
        Owner::Here
    } else {
        Owner::Other(slot)
    }
}

/// Whose a message is that came by a fabric: its port is every process's, so who asks over IP says
/// which of the host's addresses is meant.
pub(super) fn owner_of_far_mad(engine: &Engine, port: &Gid, mad: &[u8; MAD_LEN]) -> Owner {
    let meant = CmMad::parse(mad).ok().and_then(|parsed| {
        let (service, data) = match &parsed.message {
            Message::Req(req) => (req.service_id, req.private_data.as_bytes().to_vec()),
            Message::SidrReq(req) => (req.service_id, req.private_data.as_bytes().to_vec()),
            _ => return None,
        };
        let (header, _) = ferriband_cm::ip_request(service, &data)?;
        Some(gid_of(header.addresses.destination()))
    });
    owner_among(engine, meant.as_ref().unwrap_or(port), mad, |_| true)
}

/// Whose identifier an answer is for.
fn recipient(message: &Message) -> CommId {
    match message {
        Message::Req(_) | Message::SidrReq(_) => CommId::default(),
        Message::Mra(m) => m.remote_comm_id,
        Message::Rej(m) => m.remote_comm_id,
        Message::Rep(m) => m.remote_comm_id,
        Message::Rtu(m) => m.remote_comm_id,
        Message::Dreq(m) => m.remote_comm_id,
        Message::Drep(m) => m.remote_comm_id,
        Message::Lap(m) => m.remote_comm_id,
        Message::Apr(m) => m.remote_comm_id,
        Message::SidrRep(m) => m.request_id,
    }
}
