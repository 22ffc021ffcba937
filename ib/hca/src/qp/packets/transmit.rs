//! Packets out: what the machine offers and [`super::wait`] lets go, into runs.
//!
//! Owns how many go in one turn, and the path of the last datagram. Must not know why they go.

use ferriband_transport::types::{AddressVector, Instant};
use ferriband_transport::{AnswerDue, Datagram, Path, QueuePair, Transmit};
use ferriband_wire::{PKey, Packet};

use super::wait::Go;
use super::{PacketSide, Qp};
use crate::base::limits;
use crate::device::pace;
use crate::qp::adapter::Adapter;
use crate::qp::env::PacketEnv;
use crate::wire::packets::path::TxPath;
use crate::wire::packets::run::{self, Run};
use crate::wire::roce::ports::Spread;

/// Packets that one turn of a queue pair sends before others have theirs: four whole runs of 1,040
/// bytes each, the most
/// that an interface of 1,500 bytes leaves.
pub(super) const TURN_PACKETS: usize = 4 * 62;

/// Around a packet: ICRC, UDP and IPv4. A rate counts them.
const BELOW_BYTES: usize = 4 + 8 + 20;
/// Between two notices of congestion to one peer: DCQCN's 50 us.
const NOTIFY_NS: u64 = 50_000;

impl Qp {
    /// Packets out, at most a turn's: all that do not wait.
    pub(super) fn transmit(
        &self,
        adapter: &Adapter,
        side: &mut PacketSide,
        now: Instant,
        run: &mut Run,
    ) -> usize {
        let PacketSide {
            machine,
            path,
            datagram,
            scratch,
            sums,
            wait,
            ..
        } = side;
        let mut env = PacketEnv {
            adapter,
            qp: self,
            scratch,
            region: &mut None,
            sums,
        };
        let limit = &self.ctx.device.pace;
        let together = machine.run_packets() as usize;
        let (mut count, mut answers) = (0, true);
        while count < TURN_PACKETS {
            let due = match answers {
                true => machine.answer_due(),
                false => AnswerDue::None,
            };
            let go = wait.next(due, limit, now.0);
            let (packet, is_request) = match offered(machine, go, now, &mut env, run) {
                Some(offered) => offered,
                None if go == Go::Answer => {
                    answers = false;
                    continue;
                }
                None => break,
            };
            count += 1;
            let length = packet.len + BELOW_BYTES;
            if packet.path == Path::Datagram {
                if let Some(to) = machine.datagram() {
                    wait.pace
                        .charge(limit, now.0, length, self.rate_of_path(to));
                    self.push_datagram(adapter, datagram, to, packet.len, run);
                }
                continue;
            }
            wait.pace.charge(limit, now.0, length, 0);
            let Some(path) = path else { continue };
            run.push(path, packet.len);
            if is_request && !packet.urgent && wait.pace.is_off() {
                // the rest of a long message is more of the same
                let most = together.saturating_sub(run.gathered());
                let most = most.min(TURN_PACKETS - count);
                count += push_middles(machine, path, most, now, &mut env, run);
            }
            if packet.urgent || run.gathered() >= together {
                run.flush(path);
            }
        }
        if let Some(path) = path {
            run.flush(path);
        }
        count
    }

    /// The limit that a datagram's path sets, in kbit/s; 0 for none.
    fn rate_of_path(&self, to: &Datagram) -> u64 {
        match to.av.static_rate {
            0 => 0,
            code => pace::static_rate_kbps(code, self.ctx.device.port().speed_mbps),
        }
    }

    /// A datagram of `len` bytes, in the run's room, goes by its own path, which is kept in `last`.
    fn push_datagram(
        &self,
        adapter: &Adapter,
        last: &mut Option<(AddressVector, u32, TxPath)>,
        to: &Datagram,
        len: usize,
        run: &mut Run,
    ) {
        let same = last
            .as_ref()
            .is_some_and(|(av, qpn, _)| *av == to.av && *qpn == to.qpn.0);
        if !same {
            *last = self
                .datagram_path(adapter, to)
                .map(|path| (to.av, to.qpn.0, path));
        }
        if let Some((_, _, path)) = last {
            run.push(path, len);
            run.flush(path);
        }
    }

    /// Tells the peer that its packets meet congestion (annex A17), not too often.
    #[cold]
    pub(super) fn notify(&self, side: &mut PacketSide, now: Instant) {
        side.marked = false;
        let Some(path) = side
            .path
            .as_ref()
            .filter(|_| now.0 - side.notified_at >= NOTIFY_NS)
        else {
            return;
        };
        side.notified_at = now.0;
        side.oddities.notices_out += 1;
        let notice = Packet::cnp(side.machine.query().dest_qpn, PKey(limits::DEFAULT_PKEY));
        run::with_run(|run| {
            if let Ok(len) = notice.emit(run.room()) {
                run.push(path, len);
                run.flush(path);
            }
        });
    }

    fn datagram_path(&self, adapter: &Adapter, to: &Datagram) -> Option<TxPath> {
        let roce = adapter.opened_roce()?;
        let numbers = (self.qpn, to.qpn.0);
        TxPath::resolve(&self.ctx.device, &roce.ports, &to.av, numbers, Spread::Many).ok()
    }
}

/// A packet of those that may go now, in the run's room, and whether it is a request.
#[inline]
fn offered(
    machine: &mut QueuePair,
    go: Go,
    now: Instant,
    env: &mut PacketEnv<'_>,
    run: &mut Run,
) -> Option<(Transmit, bool)> {
    if let Go::Request { .. } = go
        && let Some(request) = machine.poll_request(now, env, run.room())
    {
        return Some((request, true));
    }
    let or_acknowledgement = Go::Request {
        or_acknowledgement: true,
    };
    if go != or_acknowledgement && !matches!(go, Go::Answer | Go::Acknowledgement) {
        return None;
    }
    let len = machine.poll_answer(env, run.room())?;
    let answer = Transmit {
        len,
        path: Path::Connected,
        urgent: false,
    };
    Some((answer, false))
}

/// Middle packets that follow a request which was just pushed, `most` of them at the most; their
/// number.
fn push_middles(
    machine: &mut QueuePair,
    path: &mut TxPath,
    most: usize,
    now: Instant,
    env: &mut PacketEnv<'_>,
    run: &mut Run,
) -> usize {
    env.sums.clear();
    let alike = run
        .places(most)
        .map_or(0, |places| machine.poll_middles(now, env, places));
    run.push_alike(path, alike as usize, env.sums);
    alike as usize
}
