//! The receiving side: a record of a peer, and what the program is told of it.

use std::sync::Arc;

use ferriband_transport::direct::{Consumer, Handled, Record, TargetEvent, TargetSink};
use ferriband_transport::types::{Completion, QpState};

use crate::lock;
use crate::objects::catch::Catch;
use crate::objects::event::AsyncKind;
use crate::objects::srq::Srq;
use crate::qp::PeerLink;
use crate::qp::Qp;
use crate::qp::adapter::Adapter;
use crate::xrc::TargetProxy;

/// What a record brought, beside its answer. A record for an ordinary queue pair leaves out which one: its ring remembers.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    /// The target queue pair of an XRC domain that it was for, and the shared receive queue that it named.
    extended: Option<(Arc<TargetProxy>, Arc<Srq>)>,
    completion: Option<Completion>,
    event: Option<TargetEvent>,
}

impl TargetSink for Outcome {
    fn received(&mut self, completion: Completion) {
        self.completion = Some(completion);
    }

    fn event(&mut self, event: TargetEvent) {
        self.event = Some(event);
    }
}

impl Outcome {
    pub(crate) fn of_extended(target: Arc<TargetProxy>, srq: Arc<Srq>) -> Self {
        Outcome {
            extended: Some((target, srq)),
            ..Outcome::default()
        }
    }

    /// True if something has to be told to the program.
    #[inline]
    pub(crate) fn tells(&self) -> bool {
        self.completion.is_some() || self.event.is_some()
    }

    /// Tells the program. To be called after the record is acknowledged; `qp` is the queue pair that it was for.
    pub(crate) fn deliver(&self, adapter: &Adapter, qp: Option<&Arc<Qp>>, catch: &mut Catch<'_>) {
        if let Some((target, srq)) = &self.extended {
            if let (Some((_, cq)), Some(completion)) = (&srq.xrc, &self.completion) {
                cq.push_or_hand(completion, catch);
            }
            srq.check_limit();
            match self.event {
                Some(TargetEvent::Established) | None => {}
                Some(event) => target.fail(&adapter.process, event),
            }
            return;
        }
        let Some(qp) = qp else { return };
        if let (Some(cq), Some(completion)) = (&qp.recv_cq, &self.completion) {
            cq.push_or_hand(completion, catch);
        }
        if let Some(srq) = &qp.srq {
            srq.check_limit();
        }
        if let Some(event) = self.event {
            qp.target_event(event);
        }
    }
}

impl Qp {
    /// Executes a record of a peer. What the program has to be told is left for later.
    pub(crate) fn receive(
        self: &Arc<Self>,
        adapter: &Adapter,
        link: &PeerLink,
        ring: &Consumer,
        record: &Record,
        chunk: u64,
    ) -> (Handled, Outcome) {
        let mut outcome = Outcome::default();
        let mut recv = lock(&self.recv);
        let handled = match &self.srq {
            Some(srq) => {
                let mut queue = lock(&srq.queue);
                recv.handle(adapter, link, ring, record, &mut queue, chunk, &mut outcome)
            }
            None => recv.handle(
                adapter,
                link,
                ring,
                record,
                &mut lock(&self.rq),
                chunk,
                &mut outcome,
            ),
        };
        (handled, outcome)
    }

    #[cold]
    fn target_event(&self, event: TargetEvent) {
        match event {
            TargetEvent::Established => {
                if self.state_now() == QpState::Rtr {
                    self.raise(AsyncKind::CommEst);
                }
                return;
            }
            TargetEvent::AccessError => self.raise(AsyncKind::QpAccessErr),
            TargetEvent::RequestError => self.raise(AsyncKind::QpReqErr),
            TargetEvent::ReceiveError => {}
        }
        self.enter_error();
    }
}
