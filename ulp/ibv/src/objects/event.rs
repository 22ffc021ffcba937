//! Asynchronous events of a device.

use super::context::Context;
use crate::error::VerbsError;
use crate::types::{Qpn, closed};
use ferriband_verbs_sys as sys;

closed! {
    /// What happened.
    EventKind: sys::ibv_event_type {
        /// A completion queue overran.
        CqError = sys::IBV_EVENT_CQ_ERR,
        /// A queue pair failed.
        QpFatal = sys::IBV_EVENT_QP_FATAL,
        /// A peer's request was invalid.
        QpRequestError = sys::IBV_EVENT_QP_REQ_ERR,
        /// A peer's request was not allowed.
        QpAccessError = sys::IBV_EVENT_QP_ACCESS_ERR,
        /// The first message came to a queue pair that is ready to receive.
        CommunicationEstablished = sys::IBV_EVENT_COMM_EST,
        /// A send queue has drained.
        SendQueueDrained = sys::IBV_EVENT_SQ_DRAINED,
        /// The alternate path has taken over.
        PathMigrated = sys::IBV_EVENT_PATH_MIG,
        /// It has failed to.
        PathMigrationError = sys::IBV_EVENT_PATH_MIG_ERR,
        /// The device failed.
        DeviceFatal = sys::IBV_EVENT_DEVICE_FATAL,
        /// A link came up.
        PortActive = sys::IBV_EVENT_PORT_ACTIVE,
        /// A link went down.
        PortError = sys::IBV_EVENT_PORT_ERR,
        /// A port's LID changed.
        LidChange = sys::IBV_EVENT_LID_CHANGE,
        /// A shared receive queue failed.
        SrqError = sys::IBV_EVENT_SRQ_ERR,
        /// A shared receive queue fell below its limit.
        SrqLimitReached = sys::IBV_EVENT_SRQ_LIMIT_REACHED,
        /// A queue pair in error will take no more receives from its shared queue.
        LastWqeReached = sys::IBV_EVENT_QP_LAST_WQE_REACHED,
        /// A port's GID table changed.
        GidChange = sys::IBV_EVENT_GID_CHANGE,
    }
}

/// What it happened to. The tag is what the object was given when it was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subject {
    /// A completion queue.
    Cq {
        /// Its tag.
        tag: u64,
    },
    /// A queue pair.
    Qp {
        /// Its number.
        number: Qpn,
        /// Its tag.
        tag: u64,
    },
    /// A shared receive queue.
    Srq {
        /// Its tag.
        tag: u64,
    },
    /// A port, counted from 1.
    Port(u8),
    /// The device, or something that this wrapper does not make.
    Device,
}

/// An event: what, and to what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AsyncEvent {
    /// What happened.
    pub kind: EventKind,
    /// What it happened to.
    pub subject: Subject,
}

/// Takes and acknowledges the next event.
pub(super) fn next(context: &Context) -> Result<Option<AsyncEvent>, VerbsError> {
    let mut event = sys::ibv_async_event {
        element: sys::ibv_async_event__bindgen_ty_1 { port_num: 0 },
        event_type: 0,
    };
    loop {
        // SAFETY: an open context and a writable event.
        let returned =
            unsafe { (context.f().ibv_get_async_event)(context.as_ptr(), &raw mut event) };
        if returned == 0 {
            break;
        }
        let error = VerbsError::last("ibv_get_async_event");
        match error.errno() {
            libc::EAGAIN => return Ok(None),
            libc::EINTR => (),
            _ => return Err(error),
        }
    }
    // SAFETY: the event was just taken and is not acknowledged, so its object is not destroyed: destruction waits for that.
    let told = unsafe { told(&event) };
    // SAFETY: once for each event that was taken.
    unsafe { (context.f().ibv_ack_async_event)(&raw mut event) };
    Ok(Some(told))
}

/// What an event says.
///
/// # Safety
/// The event was taken from the library and is not acknowledged yet.
unsafe fn told(event: &sys::ibv_async_event) -> AsyncEvent {
    let kind = EventKind::from_c(event.event_type);
    let subject = match kind {
        EventKind::CqError => {
            // SAFETY: the library sets the field that belongs to the kind.
            let cq = unsafe { event.element.cq };
            // SAFETY: the object lives until the acknowledgement.
            let tag = unsafe { (&raw const (*cq).cq_context).read() };
            Subject::Cq {
                tag: tag.addr() as u64,
            }
        }
        EventKind::QpFatal
        | EventKind::QpRequestError
        | EventKind::QpAccessError
        | EventKind::CommunicationEstablished
        | EventKind::SendQueueDrained
        | EventKind::PathMigrated
        | EventKind::PathMigrationError
        | EventKind::LastWqeReached => {
            // SAFETY: as above.
            let qp = unsafe { event.element.qp };
            // SAFETY: as above.
            let tag = unsafe { (&raw const (*qp).qp_context).read() };
            // SAFETY: as above.
            let number = unsafe { (&raw const (*qp).qp_num).read() };
            Subject::Qp {
                number: Qpn(number),
                tag: tag.addr() as u64,
            }
        }
        EventKind::SrqError | EventKind::SrqLimitReached => {
            // SAFETY: as above.
            let srq = unsafe { event.element.srq };
            // SAFETY: as above.
            let tag = unsafe { (&raw const (*srq).srq_context).read() };
            Subject::Srq {
                tag: tag.addr() as u64,
            }
        }
        EventKind::PortActive
        | EventKind::PortError
        | EventKind::LidChange
        | EventKind::GidChange => {
            // SAFETY: as above.
            let port = unsafe { event.element.port_num };
            Subject::Port(u8::try_from(port).unwrap_or(0))
        }
        EventKind::DeviceFatal | EventKind::Unknown(_) => Subject::Device,
    };
    AsyncEvent { kind, subject }
}
