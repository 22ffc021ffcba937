//! Operations of this process: from the call to the last of their events.
//!
//! Owns: what is told and counted of an operation, and when its descriptors are free. Must not
//! know: how it travels. Data comes from a program's calls and a transport.

use crate::event::{Event, EventKind};
use crate::handles::Key;
use crate::interface::Interface;
use crate::md::{Checked, MdOptions};
use crate::{
    AckInfo, AckRequest, ArrivalOp, List, NiFail, OpId, Operation, Pieces, PtlError, Response,
    Started,
};

/// An operation under way.
#[derive(Debug)]
pub(crate) struct Underway {
    put: Option<Key>,
    get: Option<Key>,
    response: Response,
    sent: bool,
    length: u64,
    pt_index: u32,
    user_ptr: u64,
    atomic: Option<(crate::AtomicOp, crate::Datatype)>,
}

/// Which ways a program has heard of a failure by.
#[derive(Clone, Copy, Default)]
struct Heard {
    event: bool,
    count: bool,
}

impl Interface {
    /// Whether an operation can be started: fewer than 65,536 are under way.
    pub fn has_room(&self) -> bool {
        !self.objects.operations.is_full()
    }

    /// Starts an operation, one of a program's call or one of [`Interface::next_due`].
    ///
    /// # Errors
    /// PTL_ARG_INVALID for a stale descriptor, a range outside of it, a length past the interface's
    /// limits, an operation that is not legal ([`crate::is_legal`]), a full acknowledgement without
    /// event queue, a counting one without counter, or a target of the other kind of interface.
    /// PTL_NO_SPACE when it [has no room](Interface::has_room).
    pub fn start(&mut self, operation: Operation) -> Result<Started, PtlError> {
        let Checked { put, get } = self.check(&operation)?;
        let Operation {
            op,
            length,
            ack,
            pt_index,
            user_ptr,
            atomic,
            ..
        } = operation;
        let response = match (op.reads(), ack) {
            (true, _) => Response::Reply,
            (false, AckRequest::None) => Response::None,
            (false, ack) => Response::Ack(ack),
        };
        // A GET has no data to send, and so tells no SEND.
        let sent = op == ArrivalOp::Get;
        let underway = Underway {
            put,
            get,
            response,
            sent,
            length,
            pt_index,
            user_ptr,
            atomic,
        };
        let id = self
            .objects
            .operations
            .insert(underway)
            .ok_or(PtlError::NoSpace)?;
        let options = put
            .or(get)
            .and_then(|key| self.objects.mds.get(key))
            .map_or(MdOptions::empty(), |md| md.options);
        let volatile = options.contains(MdOptions::VOLATILE) && op.writes();
        let mds = [put, get].into_iter().flatten();
        let mut mds = mds.filter_map(|key| self.objects.mds.get(key));
        let may_fault = mds.any(|md| md.may_fault);
        Ok(Started {
            id: OpId(id),
            out: self.use_md(put, operation.put.map(|local| local.offset), length),
            back: self.use_md(get, operation.get.map(|local| local.offset), length),
            response,
            volatile,
            unordered: options.contains(MdOptions::UNORDERED),
            unreliable: options.contains(MdOptions::UNRELIABLE),
            may_fault,
        })
    }

    /// The data of an operation has been read: its buffer is free. Tells SEND. An operation without
    /// a response ends.
    pub fn sent(&mut self, op: OpId) {
        self.send_told(op.0, NiFail::Ok);
        if self
            .objects
            .operations
            .get(op.0)
            .is_some_and(|underway| underway.response == Response::None)
        {
            self.finish(op.0);
        }
        self.carry_out_fired();
    }

    /// The acknowledgement of an operation has come. Tells SEND before, if that has not been told;
    /// then ACK. The operation ends.
    ///
    /// A transport that loses the target after [`Interface::sent`] passes [`NiFail::Undeliverable`]
    /// here.
    pub fn acked(&mut self, op: OpId, ack: AckInfo) {
        let Some(underway) = self.objects.operations.get(op.0) else {
            return;
        };
        let Response::Ack(request) = underway.response else {
            return;
        };
        self.send_told(op.0, NiFail::Ok);
        self.ack_told(op.0, request, ack, Heard::default());
        self.finish(op.0);
        self.carry_out_fired();
    }

    /// The reply to an operation has come, and its data is in place. Tells SEND before, if that has
    /// not been told; then REPLY. The operation ends.
    pub fn replied(&mut self, op: OpId, reply: AckInfo) {
        let Some(underway) = self.objects.operations.get(op.0) else {
            return;
        };
        if underway.response != Response::Reply {
            return;
        }
        self.send_told(op.0, NiFail::Ok);
        self.reply_told(op.0, reply);
        self.finish(op.0);
        self.carry_out_fired();
    }

    /// An operation could not be delivered: nothing of it will come back, its buffers are not
    /// touched any more. The operation ends.
    ///
    /// The failure of a PUT or atomic is told once and counted once: in SEND, if that is still to
    /// come and the descriptor tells, or counts, it, else in ACK (PtlPut: an acknowledgement
    /// follows a send that succeeded). A fetch or swap tells it in SEND and, because another
    /// descriptor waits for it, in REPLY. Open: the specification does not say what a fetch whose
    /// request was not delivered tells.
    pub fn failed(&mut self, op: OpId, fail: NiFail) {
        let Some(underway) = self.objects.operations.get(op.0) else {
            return;
        };
        let response = underway.response;
        let info = AckInfo {
            fail,
            length: 0,
            offset: 0,
            list: List::Priority,
        };
        let heard = self.send_told(op.0, fail);
        match response {
            Response::Reply => self.reply_told(op.0, info),
            Response::Ack(request) => self.ack_told(op.0, request, info, heard),
            Response::None => {}
        }
        self.finish(op.0);
        self.carry_out_fired();
    }

    /// Operations under way.
    pub fn operations(&self) -> usize {
        self.objects.operations.len()
    }

    fn use_md(&mut self, md: Option<Key>, offset: Option<u64>, length: u64) -> Pieces {
        let md = md.and_then(|key| self.objects.mds.get_mut(key));
        let Some((md, offset)) = md.zip(offset) else {
            return Pieces::None;
        };
        md.pending += 1;
        md.region.cut(offset, length)
    }

    fn finish(&mut self, op: Key) {
        let Some(underway) = self.objects.operations.remove(op) else {
            return;
        };
        for key in [underway.put, underway.get].into_iter().flatten() {
            if let Some(md) = self.objects.mds.get_mut(key) {
                md.pending -= 1;
            }
        }
    }

    /// Tells and counts SEND, unless that was done, and says what a program can have heard of it
    /// now.
    fn send_told(&mut self, op: Key, fail: NiFail) -> Heard {
        let Some(underway) = self.objects.operations.get_mut(op) else {
            return Heard::default();
        };
        if std::mem::replace(&mut underway.sent, true) {
            return Heard::default();
        }
        let length = underway.length;
        let event = underway.event(
            EventKind::Send,
            AckInfo {
                fail,
                length,
                offset: 0,
                list: List::Priority,
            },
        );
        let Some(md) = underway.put.and_then(|key| self.objects.mds.get(key)) else {
            return Heard::default();
        };
        let (options, eq, ct) = (md.options, md.eq, md.ct);
        let tells = eq.is_some() && !options.contains(MdOptions::EVENT_SEND_DISABLE);
        if tells && (fail != NiFail::Ok || !options.contains(MdOptions::EVENT_SUCCESS_DISABLE)) {
            self.tell(eq, event);
        }
        let counts = ct.is_some() && options.contains(MdOptions::EVENT_CT_SEND);
        if counts {
            // What is counted is the length that was asked for: the target's is not known yet.
            self.count(
                ct,
                fail,
                options
                    .contains(MdOptions::EVENT_CT_BYTES)
                    .then_some(length),
            );
        }
        Heard {
            event: tells,
            count: counts,
        }
    }

    /// Tells and counts an acknowledgement (ptl_ack_req_t), but for what has been heard already.
    fn ack_told(&mut self, op: Key, request: AckRequest, ack: AckInfo, heard: Heard) {
        let Some(underway) = self.objects.operations.get(op) else {
            return;
        };
        let event = underway.event(EventKind::Ack, ack);
        let Some(md) = underway.put.and_then(|key| self.objects.mds.get(key)) else {
            return;
        };
        let (options, eq, ct) = (md.options, md.eq, md.ct);
        let quiet = options.contains(MdOptions::EVENT_SUCCESS_DISABLE) && ack.fail == NiFail::Ok;
        if request == AckRequest::Full && !quiet && !heard.event {
            self.tell(eq, event);
        }
        if heard.count || !options.contains(MdOptions::EVENT_CT_ACK) {
            return;
        }
        if request == AckRequest::OperationComplete {
            // It counts operations, and says nothing of what the target did: only what did not get
            // there is a failure.
            let fail = if ack.fail == NiFail::Undeliverable {
                ack.fail
            } else {
                NiFail::Ok
            };
            self.count(ct, fail, None);
        } else {
            self.count(
                ct,
                ack.fail,
                options
                    .contains(MdOptions::EVENT_CT_BYTES)
                    .then_some(ack.length),
            );
        }
    }

    fn reply_told(&mut self, op: Key, reply: AckInfo) {
        let Some(underway) = self.objects.operations.get(op) else {
            return;
        };
        let event = underway.event(EventKind::Reply, reply);
        let Some(md) = underway.get.and_then(|key| self.objects.mds.get(key)) else {
            return;
        };
        let (options, eq, ct) = (md.options, md.eq, md.ct);
        if reply.fail != NiFail::Ok || !options.contains(MdOptions::EVENT_SUCCESS_DISABLE) {
            self.tell(eq, event);
        }
        if options.contains(MdOptions::EVENT_CT_REPLY) {
            self.count(
                ct,
                reply.fail,
                options
                    .contains(MdOptions::EVENT_CT_BYTES)
                    .then_some(reply.length),
            );
        }
    }
}

impl Underway {
    fn event(&self, kind: EventKind, info: AckInfo) -> Event {
        Event {
            ni_fail: info.fail,
            list: info.list,
            atomic: self.atomic,
            rlength: self.length,
            mlength: info.length,
            remote_offset: info.offset,
            ..Event::bare(kind, self.pt_index, self.user_ptr)
        }
    }
}
