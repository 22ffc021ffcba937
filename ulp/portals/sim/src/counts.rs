//! A plain model of an initiator's events and of counters with what waits for them.
//!
//! Owns: what is told and counted of an operation, what counters say, and in which order triggered
//! operations fire. Must not know: lists, connections.

use crate::Law;
use crate::process::{Effect, Own};
use crate::world::World;
use ferriband_portals_proto::{AckInfo, AckRequest, CtEvent, List, MdOptions, NiFail};

impl Own {
    const fn has(&self, option: MdOptions) -> bool {
        self.options.contains(option)
    }
}

impl World {
    /// SEND is told of an operation, unless it was. Whether a program can have heard of it now by
    /// an event, and by a count.
    fn tell_send(&mut self, op: usize, fail: NiFail) -> (bool, bool) {
        let known = &mut self.ops[op];
        if std::mem::replace(&mut known.sent, true) {
            return (false, false);
        }
        let Some(put) = known.put else {
            return (false, false);
        };
        let (me, ni, length) = (known.me, known.ni, known.length);
        let tells = put.eq.is_some() && !put.has(MdOptions::EVENT_SEND_DISABLE);
        if tells && (fail != NiFail::Ok || !put.has(MdOptions::EVENT_SUCCESS_DISABLE)) {
            known.send.tell(fail);
            self.expect_event(me, ni, put.eq);
        }
        let counts = put.ct.is_some() && put.has(MdOptions::EVENT_CT_SEND);
        if counts {
            let bytes = put.has(MdOptions::EVENT_CT_BYTES).then_some(length);
            self.count(me, ni, put.ct, fail, bytes);
        }
        (tells, counts)
    }

    fn tell_ack(&mut self, op: usize, request: AckRequest, info: AckInfo, heard: (bool, bool)) {
        let known = &mut self.ops[op];
        let (me, ni) = (known.me, known.ni);
        let Some(put) = known.put else {
            return;
        };
        let quiet = put.has(MdOptions::EVENT_SUCCESS_DISABLE) && info.fail == NiFail::Ok;
        if request == AckRequest::Full && !quiet && !heard.0 && put.eq.is_some() {
            known.answer.tell(info);
            self.expect_event(me, ni, put.eq);
        }
        if heard.1 || !put.has(MdOptions::EVENT_CT_ACK) {
            return;
        }
        let bytes = put.has(MdOptions::EVENT_CT_BYTES).then_some(info.length);
        match request {
            AckRequest::OperationComplete if info.fail == NiFail::Undeliverable => {
                self.count(me, ni, put.ct, info.fail, None);
            }
            AckRequest::OperationComplete => self.count(me, ni, put.ct, NiFail::Ok, None),
            _ => self.count(me, ni, put.ct, info.fail, bytes),
        }
    }

    fn tell_reply(&mut self, op: usize, info: AckInfo) {
        let known = &mut self.ops[op];
        let (me, ni) = (known.me, known.ni);
        let Some(get) = known.get else {
            return;
        };
        let quiet = get.has(MdOptions::EVENT_SUCCESS_DISABLE) && info.fail == NiFail::Ok;
        if !quiet && get.eq.is_some() {
            known.answer.tell(info);
            self.expect_event(me, ni, get.eq);
        }
        if get.has(MdOptions::EVENT_CT_REPLY) {
            let bytes = get.has(MdOptions::EVENT_CT_BYTES).then_some(info.length);
            self.count(me, ni, get.ct, info.fail, bytes);
        }
    }

    fn expect_event(&mut self, me: usize, ni: usize, eq: Option<usize>) {
        if let Some(eq) = eq {
            self.processes[me].ni_mut(ni).queues[eq].told += 1;
        }
    }

    /// The bytes of an operation were read.
    pub(crate) fn sent(&mut self, op: usize) {
        let (me, ni) = (self.ops[op].me, self.ops[op].ni);
        self.tell_send(op, NiFail::Ok);
        if self.ops[op].ack == AckRequest::None && self.ops[op].get.is_none() {
            self.ops[op].over = true;
        }
        self.carry_out(me, ni);
    }

    /// An operation was answered.
    pub(crate) fn answered(&mut self, op: usize, info: AckInfo) {
        let (me, ni, ack) = (self.ops[op].me, self.ops[op].ni, self.ops[op].ack);
        self.sent(op);
        match (self.ops[op].get.is_some(), ack) {
            (true, _) => self.tell_reply(op, info),
            (false, AckRequest::None) => {}
            (false, ack) => self.tell_ack(op, ack, info, (false, false)),
        }
        self.ops[op].over = true;
        self.carry_out(me, ni);
    }

    /// An operation has reached nobody, or nobody knows.
    pub(crate) fn undeliverable(&mut self, op: usize) {
        let (me, ni, ack) = (self.ops[op].me, self.ops[op].ni, self.ops[op].ack);
        let fail = NiFail::Undeliverable;
        self.note(|_| format!("p{me}: {op} is undeliverable"));
        self.stats.undeliverable += 1;
        let info = AckInfo {
            fail,
            length: 0,
            offset: 0,
            list: List::Priority,
        };
        let heard = self.tell_send(op, fail);
        match (self.ops[op].get.is_some(), ack) {
            (true, _) => self.tell_reply(op, info),
            (false, AckRequest::None) => {}
            (false, ack) => self.tell_ack(op, ack, info, heard),
        }
        self.ops[op].over = true;
        self.carry_out(me, ni);
    }

    /// An outcome is counted.
    pub(crate) fn count(
        &mut self,
        me: usize,
        ni: usize,
        ct: Option<usize>,
        fail: NiFail,
        bytes: Option<u64>,
    ) {
        let Some(ct) = ct else {
            return;
        };
        self.stats.counted += 1;
        match fail {
            NiFail::Ok => self.bump(me, ni, ct, (bytes.unwrap_or(1), 0)),
            _ => {
                self.stats.counted_failures += 1;
                self.bump(me, ni, ct, (0, 1));
                self.uncounted = Some((me, ni, ct));
            }
        }
    }

    /// A counter changes; what has reached its threshold fires, in order.
    pub(crate) fn bump(&mut self, me: usize, ni: usize, ct: usize, by: (u64, u64)) {
        let ni = self.processes[me].ni_mut(ni);
        let counter = &mut ni.counters[ct];
        counter.success += by.0;
        counter.failure += by.1;
        let sum = counter.success + counter.failure;
        let reached = |waits: &(usize, u64, u64, Effect)| waits.0 == ct && waits.1 <= sum;
        let mut fired: Vec<_> = ni.waiting.iter().copied().filter(reached).collect();
        ni.waiting.retain(|waits| !reached(waits));
        fired.sort_by_key(|(_, threshold, number, _)| (*threshold, *number));
        ni.fired
            .extend(fired.into_iter().map(|(_, _, _, effect)| effect));
    }

    /// Does what has fired.
    pub(crate) fn carry_out(&mut self, me: usize, ni: usize) {
        while let Some(effect) = self.processes[me].ni_mut(ni).fired.pop_front() {
            self.stats.fired += 1;
            match effect {
                Effect::Inc(ct, by) => self.bump(me, ni, ct, (by, 0)),
                Effect::Start(op) => {
                    self.note(|_| format!("p{me}: {op} fires"));
                    self.take_place(op);
                    self.processes[me].due.push(op);
                }
            }
        }
    }

    /// Law 7: counters say what they have to.
    pub(crate) fn check_counters(&mut self, me: usize) {
        for number in 0..4 {
            let Some(ni) = &self.processes[me].nis[number] else {
                continue;
            };
            let counters: Vec<_> = ni.counters.clone();
            for (ct, counter) in counters.into_iter().enumerate() {
                let is = self.interface(me, number).ct_get(counter.handle);
                let (success, failure) = (counter.success, counter.failure);
                if is != Ok(CtEvent { success, failure }) {
                    let what =
                        format!("p{me}: counter {ct} of {number} says {is:?}, due is {counter:?}");
                    self.fail(Law::Count, what);
                }
            }
        }
    }
}
