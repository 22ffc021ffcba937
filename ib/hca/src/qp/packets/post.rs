//! Requests of the program, one or a batch, into the machine's queue.
//!
//! Owns nothing. Must not know what becomes of them.

use super::*;

const NOT_READY: Error = Error::Invalid("the queue pair is not ready to send");

impl Qp {
    /// Queues a send and lets its packets go.
    pub(in crate::qp) fn post_packets(
        self: &Arc<Self>,
        engine: &Engine,
        request: &SendRequest<'_>,
    ) -> Result<(), Error> {
        let _handling = crate::roce::handling();
        let mut guard = lock(&self.packets);
        let side = guard.as_deref_mut().ok_or(NOT_READY)?;
        self.enqueue_packets(&mut side.machine, request)?;
        side.machine.settle_sends();
        self.turn(engine, side, Turn::Posted, &mut Catch::nobody());
        Ok(())
    }

    /// Queues several sends, all or none of them, and lets their packets go.
    pub(in crate::qp) fn post_batch_packets<'a>(
        self: &Arc<Self>,
        engine: &Engine,
        requests: impl Iterator<Item = SendRequest<'a>>,
    ) -> Result<(), Error> {
        let _handling = crate::roce::handling();
        let mut guard = lock(&self.packets);
        let side = guard.as_deref_mut().ok_or(NOT_READY)?;
        for (count, request) in (0..).zip(requests) {
            if let Err(error) = self.enqueue_packets(&mut side.machine, &request) {
                side.machine.unqueue_sends(count);
                return Err(error);
            }
        }
        side.machine.settle_sends();
        self.turn(engine, side, Turn::Posted, &mut Catch::nobody());
        Ok(())
    }

    /// Queues a send, to be followed by others or by the machine's `settle_sends`.
    fn enqueue_packets(
        &self,
        machine: &mut QueuePair,
        request: &SendRequest<'_>,
    ) -> Result<(), Error> {
        let mut small;
        let mut large;
        let payload = if request.flags.contains(SendFlags::INLINE) {
            let length: u64 = request.sges.iter().map(|sge| u64::from(sge.length)).sum();
            if length > u64::from(self.cap.max_inline_data) {
                return Err(Error::Invalid(
                    "more inline data than the send queue was created for",
                ));
            }
            let bytes = if length <= 64 {
                small = [0; 64];
                &mut small[..length as usize]
            } else {
                large = [0; limits::MAX_INLINE as usize];
                &mut large[..length as usize]
            };
            crate::direct::app().gather_bytes(request.sges, 0, bytes);
            Payload::Inline(bytes)
        } else {
            Payload::Gather(request.sges)
        };
        let datagram = match (self.qp_type, request.ah) {
            (QpType::Ud, Some(ah)) => Some(Datagram {
                av: ah.av,
                qpn: Qpn(request.remote_qpn),
                qkey: QKey(request.remote_qkey),
                handle: 0,
            }),
            (QpType::Ud, None) => {
                return Err(Error::Invalid("a datagram needs an address handle"));
            }
            _ => None,
        };
        let bind = request.bind.map(|bind| BindWindow {
            window: RKey(bind.window),
            new_key: RKey(bind.rkey),
            region: ferriband_wire::LKey(bind.lkey),
            addr: bind.addr,
            length: bind.length,
            access: bind.access,
        });
        Ok(machine.queue_send(&SendWr {
            wr_id: request.wr_id,
            opcode: request.opcode,
            flags: request.flags,
            payload,
            remote_addr: request.remote_addr,
            rkey: RKey(request.rkey),
            imm_or_key: request.imm_or_key,
            compare_add: request.compare_add,
            swap: request.swap,
            datagram,
            xrc_srq: request.srqn,
            bind,
        })?)
    }
}
