//! Asynchronous events: the context's descriptor, delivery and acknowledgement.

use crate::acks::Acks;
use crate::boundary::{MinusOne, entry, waiting_entry};
use crate::context::Context;
use crate::object::output;
use crate::{cq, live, qp, srq};
use ferriband_hca as hca;
use ferriband_verbs_sys as sys;
use std::ffi::c_int;

/// What an event is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Subject {
    Cq,
    Qp,
    Srq,
    /// A port, or the device.
    Port,
}

/// What the events of a number are about (ibv_get_async_event(3)).
fn subject(event_type: sys::ibv_event_type) -> Subject {
    match event_type {
        sys::IBV_EVENT_CQ_ERR => Subject::Cq,
        sys::IBV_EVENT_QP_FATAL
        | sys::IBV_EVENT_QP_REQ_ERR
        | sys::IBV_EVENT_QP_ACCESS_ERR
        | sys::IBV_EVENT_COMM_EST
        | sys::IBV_EVENT_SQ_DRAINED
        | sys::IBV_EVENT_PATH_MIG
        | sys::IBV_EVENT_PATH_MIG_ERR
        | sys::IBV_EVENT_QP_LAST_WQE_REACHED => Subject::Qp,
        sys::IBV_EVENT_SRQ_ERR | sys::IBV_EVENT_SRQ_LIMIT_REACHED => Subject::Srq,
        _ => Subject::Port,
    }
}

/// The counter of the object that an event names; None for ports and NULL.
///
/// # Safety
/// The element is a live object of the event's kind.
unsafe fn acks(event: &sys::ibv_async_event) -> Option<&Acks> {
    match subject(event.event_type) {
        // SAFETY: the event's type selects the member, and the caller promises a live object.
        Subject::Cq => unsafe { cq::of(event.element.cq) }
            .ok()
            .map(|cq| &cq.async_acks),
        // SAFETY: as above.
        Subject::Qp => unsafe { qp::of(event.element.qp) }.ok().map(|qp| &qp.acks),
        // SAFETY: as above.
        Subject::Srq => unsafe { srq::of(event.element.srq) }
            .ok()
            .map(|srq| &srq.acks),
        Subject::Port => None,
    }
}

/// `ibv_get_async_event`: waits for the next event (EAGAIN if the program made the descriptor non-blocking). Events of
/// objects that were destroyed in the meantime are dropped here.
///
/// # Safety
/// `context` is a live context and `event` writable.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn ibv_get_async_event(
    context: *mut sys::ibv_context,
    event: *mut sys::ibv_async_event,
) -> c_int {
    waiting_entry(|sleep| {
        // SAFETY: the caller's promise.
        let context = unsafe { Context::of(context) }?;
        if sleep.take_count()?
            && let Some(c) = context.hca().counted_async_event().and_then(deliver)
        {
            // SAFETY: the caller's promise.
            unsafe { output(event, c) }?;
            return Ok(Some(MinusOne(0)));
        }
        let ready = context.hca().async_events();
        sleep.on_count(ready.map_err(|error| error.errno())?);
        Ok(None)
    })
    .0
}

/// The event as C has it, counted for the object that it names; None if there is no such object any
/// more.
fn deliver(raised: hca::AsyncEvent) -> Option<sys::ibv_async_event> {
    let event_type = raised.kind as u32;
    let mut c = sys::ibv_async_event {
        event_type,
        ..Default::default()
    };
    if subject(event_type) == Subject::Port {
        c.element.port_num = raised.element as c_int;
        return Some(c);
    }
    live::with(raised.element, |object: *mut sys::ibv_qp| {
        // The members are pointers of one size: this sets all of them.
        c.element.qp = object;
        // SAFETY: the object cannot be freed while the registry is held.
        if let Some(acks) = unsafe { acks(&c) } {
            acks.delivered();
        }
    })?;
    Some(c)
}

/// `ibv_ack_async_event`.
///
/// # Safety
/// `event` came from `ibv_get_async_event` and was not acknowledged.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_ack_async_event(event: *mut sys::ibv_async_event) {
    entry(|| {
        // SAFETY: the caller's promise.
        let Some(event) = (unsafe { event.as_ref() }) else {
            return;
        };
        // SAFETY: an object with an unacknowledged event is live: its destruction waits for this call.
        if let Some(acks) = unsafe { acks(event) } {
            acks.acknowledged(1);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_event_is_about_the_right_kind_of_object() {
        let about = |wanted| {
            (0..20)
                .filter(|event| subject(*event) == wanted)
                .collect::<Vec<_>>()
        };
        assert_eq!(about(Subject::Cq), [sys::IBV_EVENT_CQ_ERR]);
        assert_eq!(
            about(Subject::Srq),
            [sys::IBV_EVENT_SRQ_ERR, sys::IBV_EVENT_SRQ_LIMIT_REACHED]
        );
        assert_eq!(about(Subject::Qp).len(), 8);
        assert_eq!(subject(sys::IBV_EVENT_DEVICE_FATAL), Subject::Port);
    }
}
