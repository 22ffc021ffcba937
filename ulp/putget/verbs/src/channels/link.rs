//! The queue pair of one connection: requests of the machine are posted, completions handed to it.
//!
//! Owns: requests, and memory until they have completed. Must not know: how connections are made.

use super::{ELEMENT_BYTES, Memory, Way};
use crate::Error;
use crate::adapter::Adapter;
use crate::trace::{Begun, Messages, Name};
use ferriband_ibv::{Cq, Element, Qp, QpCaps, QpInit, QpState, QpType, RecvWr, SendWr};
use ferriband_ibv::{Wc, WcStatus};
use ferriband_putget_proto::matching::{Channel, NotBegun, Outcome, Request};
use ferriband_trace::now_ns;
use std::collections::HashMap;
use std::sync::Arc;

/// Requests that each work queue holds.
const DEPTH: u32 = 128;
/// Identifiers of completions.
const SEND: u64 = 0;
const RECEIVE: u64 = 1;
/// How long the peer is to wait before it sends again what has found no receive: 0.04 ms (IBA table
/// 45). Programs post their reads first, so it is seldom waited; a write may wait for its read for
/// long, and each try takes time of a processor.
const RNR_TIMER: u8 = 4;

pub(super) struct Link {
    /// It goes before the memory.
    pub qp: Arc<Qp>,
    cq: Arc<Cq>,
    machine: Channel,
    memory: HashMap<u64, Memory>,
    is_armed: bool,
    /// The process is traced.
    trace: Option<Box<Traced>>,
}

/// Messages of a connection, and transfers that are under way.
struct Traced {
    messages: Messages,
    transfers: HashMap<u64, Begun>,
}

impl Link {
    /// A queue pair in RESET, whose completions announce themselves with this tag.
    pub fn new(adapter: &Adapter, tag: u64, request_bytes: u32) -> Result<Link, Error> {
        let cq = Cq::create(&adapter.context, 2 * DEPTH, Some(&adapter.channel), tag)?;
        let init = QpInit {
            caps: QpCaps {
                send_wr: DEPTH,
                recv_wr: DEPTH,
                send_sge: 1,
                recv_sge: 1,
                inline: 0,
            },
            signal_all: true,
            ..QpInit::new(QpType::Rc, &cq, &cq)
        };
        Ok(Link {
            qp: Qp::create(&adapter.pd, &init)?,
            cq,
            machine: Channel::new(request_bytes, DEPTH),
            memory: HashMap::new(),
            is_armed: false,
            trace: None,
        })
    }

    /// Writes messages and transfers down.
    pub fn trace(&mut self, messages: Messages) {
        self.trace = Some(Box::new(Traced {
            messages,
            transfers: HashMap::new(),
        }));
    }

    /// The peer has told how many bytes its requests take; nothing has begun.
    pub fn agree(&mut self, request_bytes: u32) {
        self.machine = Channel::new(request_bytes, DEPTH);
    }

    /// The queue pair is in RTS.
    pub fn ready(&self) -> Result<(), Error> {
        Ok(self.qp.set_min_rnr_timer(RNR_TIMER)?)
    }

    /// Begins a transfer.
    pub fn start(
        &mut self,
        token: u64,
        way: Way,
        memory: Memory,
        length: u64,
    ) -> Result<(), NotBegun> {
        match way {
            Way::Write => self.machine.write(token, length)?,
            Way::Read => self.machine.read(token, length)?,
        }
        self.memory.insert(token, memory);
        if let Some(trace) = &mut self.trace {
            let name = match way {
                Way::Write => Name::Write,
                Way::Read => Name::Read,
            };
            let begun = trace.messages.tracer.begin(name, length, now_ns());
            trace.transfers.extend(begun.map(|begun| (token, begun)));
        }
        self.post();
        Ok(())
    }

    /// Whether one more may begin, or is refused for good.
    pub fn has_room(&self, way: Way, length: u64) -> bool {
        self.machine.is_over() || self.machine.has_room(way == Way::Write, length)
    }

    /// Posts what can be posted.
    fn post(&mut self) {
        while let Some(request) = self.machine.poll_receive() {
            let element = self.element(&request);
            let mut wr = RecvWr::new(RECEIVE, element.as_slice());
            if self.qp.post_recv(&mut wr).is_err() {
                return self.lost();
            }
        }
        while let Some(request) = self.machine.poll_send() {
            let element = self.element(&request);
            let wr = SendWr::send(SEND, element.as_slice());
            if let Some(trace) = &mut self.trace {
                trace
                    .messages
                    .sent(Name::Matching, request.length, now_ns());
            }
            if self
                .qp
                .post_send(&mut wr.immediate(request.follow))
                .is_err()
            {
                return self.lost();
            }
        }
    }

    /// Memory of a request; none if it has no bytes. A request never crosses the end of an element:
    /// its bytes are a power of two.
    fn element(&self, request: &Request) -> Option<Element<'static>> {
        if request.length == 0 {
            return None;
        }
        let elements = &self.memory.get(&request.token)?.elements;
        let element = elements.get((request.at / ELEMENT_BYTES) as usize)?;
        element.part((request.at % ELEMENT_BYTES) as u32, request.length as u32)
    }

    /// Takes completions, and posts what they make room for. Whether there was one.
    pub fn look(&mut self) -> Result<bool, Error> {
        let mut wcs = [Wc::default(); 16];
        let mut found = false;
        loop {
            let count = self.cq.poll(&mut wcs)?;
            wcs[..count].iter().for_each(|wc| self.completed(wc));
            found |= count > 0;
            if count < wcs.len() {
                break;
            }
        }
        if found {
            self.post();
        }
        Ok(found)
    }

    fn completed(&mut self, wc: &Wc) {
        if self.machine.is_over() {
            return;
        }
        let is_send = wc.id() == SEND;
        let too_long = match is_send {
            true => WcStatus::RemoteInvalidRequest,
            false => WcStatus::LocalLength,
        };
        let handled = match wc.status() {
            WcStatus::Success if is_send => self.machine.handle_sent(),
            WcStatus::Success => {
                let follow = wc.immediate().unwrap_or(u32::MAX);
                let bytes = u64::from(wc.byte_len());
                if let Some(trace) = &mut self.trace {
                    trace.messages.came(Name::Matching, bytes);
                }
                self.machine.handle_received(bytes, follow)
            }
            status if status == too_long => {
                self.machine.handle_too_long(is_send);
                return self.stop();
            }
            _ => return self.lost(),
        };
        if handled.is_err() {
            self.lost();
        }
    }

    /// The connection is over. Memory stays registered until the queue pair has gone, which touches
    /// it no more then.
    pub fn lost(&mut self) {
        self.machine.handle_lost();
        self.stop();
    }

    fn stop(&self) {
        // one that has failed is in this state
        let _ = self.qp.stop(QpState::Error);
    }

    /// The next transfer that has ended.
    pub fn ended(&mut self) -> Option<(u64, Outcome)> {
        let (token, outcome) = self.machine.poll_ended()?;
        if let Some(trace) = &mut self.trace
            && let Some(begun) = trace.transfers.remove(&token)
        {
            trace.messages.tracer.end(begun);
        }
        if !self.machine.is_over() {
            self.memory.remove(&token);
        }
        Some((token, outcome))
    }

    /// Whether the connection is over.
    pub fn is_over(&self) -> bool {
        self.machine.is_over()
    }

    /// Asks for an event at the next completion; completions that are there may not tell one.
    pub fn arm(&mut self) -> Result<(), Error> {
        if !self.is_armed {
            self.cq.arm(false)?;
            self.is_armed = true;
        }
        Ok(())
    }

    /// An event was told.
    pub fn disarmed(&mut self) {
        self.is_armed = false;
    }
}
