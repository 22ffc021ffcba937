//! What the target executes: requests become records of the ring.
//!
//! Owns the making of records: in one, in pieces, or as a list of ranges that the target reads. It must not know what becomes of
//! them.

use super::*;

impl<L: Link> Sender<L> {
    /// Hands the request to the target. Long ones go in pieces, or as a list of ranges that the target reads.
    pub(super) fn push<H: Host<Link = L, Seg = L::Seg>>(
        &self,
        host: &H,
        link: &L,
        slot: usize,
        mut done: u64,
    ) -> Step {
        let wqe = &self.wqes[slot];
        let Some(kind) = kind_of(wqe.opcode) else {
            return Step::Done(WcStatus::LocQpOpErr);
        };
        let length = u64::from(wqe.length);
        if wqe.is_atomic() && length != 8 {
            return Step::Done(WcStatus::LocLenErr);
        }
        // one executor at a time: an extended connection may reach several processes
        if self.in_ring.get() > 0 && self.ring_slot.get() != link.slot() {
            return Step::Partial(done);
        }
        let mut buffer = Ranges::new();
        let need = if kind == Kind::Read || wqe.is_atomic() {
            Access::LOCAL_WRITE
        } else {
            Access::empty()
        };
        let local = match self.local(host, slot, need, &mut buffer) {
            Ok(local) => local,
            Err(status) => return Step::Done(status),
        };
        if self.qp_type == QpType::Ud {
            return self.push_datagram(host, link, slot, local, wqe.remote_qpn);
        }
        self.ring_slot.set(link.slot());
        // once some of it went through the ring, the rest does
        let pull = kind == Kind::Send
            && length > INLINE_THRESHOLD
            && !wqe.is_inline()
            && !self.no_pull
            && wqe.pushed.get() == 0
            && link.reachable();
        loop {
            let piece = if pull {
                length
            } else {
                (length - done).min(INLINE_THRESHOLD)
            };
            if !self.push_piece(
                host,
                link,
                slot,
                local,
                Piece {
                    kind,
                    done,
                    length: piece,
                    pull,
                },
            ) {
                return Step::Blocked(done);
            }
            done += piece;
            if done == length {
                return Step::InRing;
            }
        }
    }

    /// One record. False: no room.
    #[inline]
    fn push_piece<H: Host<Link = L, Seg = L::Seg>>(
        &self,
        host: &H,
        link: &L,
        slot: usize,
        local: Local<'_>,
        piece: Piece,
    ) -> bool {
        let wqe = &self.wqes[slot];
        let Piece {
            kind,
            done,
            length,
            pull,
        } = piece;
        let atomic = wqe.is_atomic();
        let carries = matches!(kind, Kind::Send | Kind::WriteImm | Kind::Write);
        let in_record = carries && !pull && length <= 8;
        let room = match kind {
            _ if atomic || in_record => 0,
            _ if pull => local.as_ranges().len() * 16,
            _ => length as usize,
        };
        let mut tx = link.tx();
        let Some(place) = tx.reserve(room) else {
            return false;
        };
        let mut data = place.data;
        if pull {
            for (index, range) in local.as_ranges().iter().enumerate() {
                link.pair().store(place.data_at + index * 16, range.addr);
                link.pair()
                    .store(place.data_at + index * 16 + 8, u64::from(range.length));
            }
        } else if in_record {
            let mut bytes = [0; 8];
            match local {
                Local::Inline(inline) => bytes[..length as usize]
                    .copy_from_slice(&inline[done as usize..][..length as usize]),
                Local::Ranges(ranges) => host.fetch(ranges, done, &mut bytes[..length as usize]),
            }
            data = u64::from_le_bytes(bytes);
        } else if carries {
            fill(host, link.pair(), place.data_at, local, done, length);
        } else if atomic {
            data = wqe.swap;
        }
        let mut flags = RecordFlags::empty();
        flags.set(RecordFlags::IN_RECORD, in_record);
        flags.set(RecordFlags::PULL, pull);
        flags.set(RecordFlags::LAST, done + length == u64::from(wqe.length));
        flags.set(
            RecordFlags::IMM,
            matches!(wqe.opcode, SendOpcode::SendImm | SendOpcode::RdmaWriteImm),
        );
        flags.set(RecordFlags::INVALIDATE, wqe.opcode == SendOpcode::SendInv);
        flags.set(
            RecordFlags::SOLICITED,
            wqe.flags.contains(SendFlags::SOLICITED),
        );
        let seq = self.seq.get();
        let record = Record {
            kind,
            flags,
            dst_qpn: self.attr.dest_qpn,
            src_qpn: self.qpn,
            seq: seq | (wqe.remote_key & 0xff_0000) << 8,
            length: length as u32,
            imm: wqe.imm,
            key: wqe.rkey,
            addr: if pull {
                local.as_ranges().len() as u64
            } else {
                wqe.remote_addr.wrapping_add(if atomic { 0 } else { done })
            },
            arg: if atomic {
                wqe.compare_add
            } else {
                // a message without a payload of its own, its data placed already, begins here too
                u64::from(wqe.length) << 32 | if length == 0 { 0 } else { done }
            },
            data,
            extra: wqe.remote_key as u16,
        };
        tx.publish(link.pair(), place, &record, self.owner());
        drop(tx);
        self.seq.set((seq + 1) & SEQ_MASK);
        self.in_ring.set(self.in_ring.get() + 1);
        wqe.pushed.set(wqe.pushed.get() + 1);
        link.ring_doorbell();
        true
    }

    /// A datagram for every member of a multicast group. `pushed` counts the members served, so a full ring is taken up
    /// where it was left.
    pub(super) fn fan_out<H: Host<Link = L, Seg = L::Seg>>(
        &self,
        host: &H,
        slot: usize,
        members: &[(L, u32)],
    ) -> Step {
        let wqe = &self.wqes[slot];
        let mut buffer = Ranges::new();
        let local = match self.local(host, slot, Access::empty(), &mut buffer) {
            Ok(local) => local,
            Err(status) => return Step::Done(status),
        };
        while let Some((link, qpn)) = members.get(wqe.pushed.get() as usize) {
            if !link.dead() {
                if !link.ready() {
                    return Step::Blocked(0);
                }
                if let Step::Blocked(done) = self.push_datagram(host, link, slot, local, *qpn) {
                    return Step::Blocked(done);
                }
            }
            wqe.pushed.set(wqe.pushed.get() + 1);
        }
        Step::Done(WcStatus::Success)
    }

    pub(super) fn push_datagram<H: Host<Link = L, Seg = L::Seg>>(
        &self,
        host: &H,
        link: &L,
        slot: usize,
        local: Local<'_>,
        dst_qpn: u32,
    ) -> Step {
        let wqe = &self.wqes[slot];
        let length = wqe.length as usize;
        let grh = if wqe.has_grh { 40 } else { 0 };
        let mut tx = link.tx();
        let Some(place) = tx.reserve(grh + length) else {
            return Step::Blocked(0);
        };
        if wqe.has_grh {
            link.pair().copy_in(place.data_at, &self.grhs[slot]);
        }
        if length > 0 {
            fill(
                host,
                link.pair(),
                place.data_at + grh,
                local,
                0,
                length as u64,
            );
        }
        let mut flags = RecordFlags::LAST;
        flags.set(RecordFlags::GRH, wqe.has_grh);
        flags.set(RecordFlags::IMM, wqe.opcode == SendOpcode::SendImm);
        flags.set(
            RecordFlags::SOLICITED,
            wqe.flags.contains(SendFlags::SOLICITED),
        );
        let record = Record {
            kind: Kind::Datagram,
            flags,
            dst_qpn,
            src_qpn: self.qpn,
            seq: 0,
            length: (grh + length) as u32,
            imm: wqe.imm,
            key: wqe.remote_key,
            addr: u64::from(wqe.route.0),
            arg: 0,
            data: place.data,
            extra: wqe.route.1,
        };
        tx.publish(link.pair(), place, &record, NO_OWNER);
        drop(tx);
        link.ring_doorbell();
        Step::Done(WcStatus::Success)
    }
}

/// A request's bytes into the payload area.
#[inline]
fn fill<H: Host>(host: &H, pair: &H::Seg, at: usize, local: Local<'_>, skip: u64, len: u64) {
    match local {
        Local::Inline(bytes) => pair.copy_in(at, &bytes[skip as usize..][..len as usize]),
        Local::Ranges(ranges) => host.gather(pair, at, ranges, skip, len),
    }
}

/// A piece of a message as one record carries it.
#[derive(Clone, Copy)]
struct Piece {
    kind: Kind,
    done: u64,
    length: u64,
    pull: bool,
}
