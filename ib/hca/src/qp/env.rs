//! What a packet queue pair asks of its process: registered memory by key, receives, windows.
//!
//! Owns nothing; a view of one queue pair for one call. Must not know: packets. Every access looks
//! at the key table anew, so what was revoked before the call is refused (I7); deregistration waits
//! for the wire's lock, under which all this runs.

use std::sync::Arc;

use ferriband_transport::direct::layout::{KeyEntry, key_index};
use ferriband_transport::direct::{self, BindRequest};
use ferriband_transport::env::{
    AtomicOp, BindWindow, Environment, MemoryError, SgeOwner, SharedReceive,
};
use ferriband_transport::types::{Access, Sge};
use ferriband_wire::{PKey, RKey};

use crate::base::limits;
use crate::device::fabric;
use crate::lock;
use crate::objects::srq::Srq;
use crate::process::keys;
use crate::qp::Qp;
use crate::qp::adapter::Adapter;
use crate::wire::direct::app::app;

/// The surroundings of a queue pair.
pub(crate) struct PacketEnv<'a> {
    pub adapter: &'a Adapter,
    pub qp: &'a Qp,
    /// Elements of the receive that was taken last: reused, so that taking one allocates nothing.
    pub scratch: &'a mut Vec<Sge>,
    /// The region that the last WRITE went to, while the wire's lock is held: it can go away only
    /// after that.
    pub region: &'a mut Option<KeyEntry>,
    /// CRCs of what was gathered apart last, piece by piece, where copying brought them.
    pub sums: &'a mut Vec<u32>,
}

impl PacketEnv<'_> {
    fn pd(&self) -> u32 {
        match (&self.qp.pd, &self.qp.target) {
            (Some(pd), _) => pd.id,
            (None, Some(target)) => target.packets_pd(),
            (None, None) => 0,
        }
    }

    /// A shared receive queue that the packets of an XRC target may name.
    fn extended_srq(&self, number: u32) -> Option<Arc<Srq>> {
        let target = self.qp.target.as_ref()?;
        target.srq(&self.adapter.targets, number)
    }

    /// The domain of a list's elements.
    fn owner_pd(&self, owner: SgeOwner) -> u32 {
        match (owner, &self.qp.srq) {
            (SgeOwner::Srq(number), _) if number != 0 => self
                .adapter
                .targets
                .srq_by_number(number)
                .map_or(0, |srq| srq.pd.id),
            (_, Some(srq)) => srq.pd.id,
            (_, None) => self.pd(),
        }
    }

    /// The elements of a list that `offset..offset + len` touches as process addresses, in order,
    /// one at a time.
    fn each_piece(
        &self,
        pd: u32,
        sges: &[Sge],
        offset: u32,
        len: usize,
        need: Access,
        mut each: impl FnMut(Sge, usize),
    ) -> Result<(), MemoryError> {
        let (mut skip, mut done) = (u64::from(offset), 0);
        for sge in sges {
            let length = u64::from(sge.length);
            if skip >= length {
                skip -= length;
                continue;
            }
            if done == len {
                break;
            }
            let piece = ((length - skip) as usize).min(len - done);
            let addr = self.piece_at(pd, sge, skip, piece, need)?;
            each(
                Sge {
                    addr,
                    length: piece as u32,
                    lkey: 0,
                },
                done,
            );
            skip = 0;
            done += piece;
        }
        if done == len {
            Ok(())
        } else {
            Err(MemoryError::Range)
        }
    }

    /// What `offset..offset + len` of a list of one element is as process addresses: most lists
    /// are, and their key is looked up once.
    fn whole_piece(
        &self,
        pd: u32,
        sge: &Sge,
        offset: u32,
        len: usize,
        need: Access,
    ) -> Result<Sge, MemoryError> {
        if offset as usize + len > sge.length as usize {
            return Err(MemoryError::Range);
        }
        let addr = self.piece_at(pd, sge, offset.into(), len, need)?;
        Ok(Sge {
            addr,
            length: len as u32,
            lkey: 0,
        })
    }

    /// The process address of `len` bytes from `skip` of an element. What is sent is checked as a
    /// whole, so that nothing of it goes out if it reaches beyond its region; of what is written
    /// to, the part that data reaches: an adapter looks at nothing else.
    #[inline]
    fn piece_at(
        &self,
        pd: u32,
        sge: &Sge,
        skip: u64,
        len: usize,
        need: Access,
    ) -> Result<u64, MemoryError> {
        let own = &self.adapter.process.own;
        let part = Sge {
            addr: sge.addr.wrapping_add(skip),
            length: len as u32,
            lkey: sge.lkey,
        };
        let addr = match need.contains(Access::LOCAL_WRITE) {
            true => keys::local(own, pd, &part, need),
            false => keys::local(own, pd, sge, need).map(|addr| addr.wrapping_add(skip)),
        };
        addr.ok_or(MemoryError::Key)
    }

    /// The process address behind a remote key.
    fn remote(
        &self,
        key: RKey,
        addr: u64,
        length: u64,
        access: Access,
    ) -> Result<u64, MemoryError> {
        self.remote_entry(key, addr, length, access)
            .map(|(_, to)| to)
    }

    /// The same, with the key's entry.
    fn remote_entry(
        &self,
        key: RKey,
        addr: u64,
        length: u64,
        access: Access,
    ) -> Result<(KeyEntry, u64), MemoryError> {
        let entry = KeyEntry::read(&**self.adapter.process.own, key.0).ok_or(MemoryError::Key)?;
        let scoped = entry.only_qp == 0 || entry.only_qp == self.qp.qpn + 1;
        if entry.pd != self.pd() || !scoped {
            return Err(MemoryError::Key);
        }
        if !entry.access.contains(access) {
            return Err(MemoryError::Access);
        }
        let offset = entry.offset_of(addr, length).ok_or(MemoryError::Range)?;
        let to = entry.addr.wrapping_add(offset);
        Ok((entry, to))
    }

    /// A WRITE goes there, as far as was looked.
    fn remote_target(&mut self, key: RKey, addr: u64, length: u64) -> Result<u64, MemoryError> {
        let (entry, to) = self.remote_entry(key, addr, length, Access::REMOTE_WRITE)?;
        // a window may be taken back while packets come
        *self.region = Some(entry).filter(|entry| !entry.window);
        Ok(to)
    }
}

/// What the kernel copied must be all of it.
fn whole(moved: usize, len: usize) -> Result<(), MemoryError> {
    if moved == len {
        Ok(())
    } else {
        Err(MemoryError::Fault)
    }
}

fn at(addr: u64, length: usize) -> [Sge; 1] {
    [Sge {
        addr,
        length: length as u32,
        lkey: 0,
    }]
}

impl Environment for PacketEnv<'_> {
    fn gather(&mut self, sges: &[Sge], offset: u32, out: &mut [u8]) -> Result<(), MemoryError> {
        let (pd, len) = (self.pd(), out.len());
        if let ([one], true) = (sges, len > 0) {
            let piece = self.whole_piece(pd, one, offset, len, Access::empty())?;
            app().gather_bytes(&[piece], 0, out);
            return Ok(());
        }
        // all of it is allowed before any of it moves
        self.each_piece(pd, sges, offset, len, Access::empty(), |_, _| {})?;
        self.each_piece(pd, sges, offset, len, Access::empty(), |piece, done| {
            let end = done + piece.length as usize;
            app().gather_bytes(&[piece], 0, &mut out[done..end]);
        })
    }

    fn gather_again(
        &mut self,
        sges: &[Sge],
        offset: u32,
        out: &mut [u8],
    ) -> Result<(), MemoryError> {
        let (pd, len, mut moved) = (self.pd(), out.len(), 0);
        self.each_piece(pd, sges, offset, len, Access::empty(), |_, _| {})?;
        self.each_piece(pd, sges, offset, len, Access::empty(), |piece, done| {
            let end = done + piece.length as usize;
            moved += app().gather_bytes_if_there(&[piece], 0, &mut out[done..end]);
        })?;
        whole(moved, len)
    }

    fn gather_apart(
        &mut self,
        sges: &[Sge],
        offset: u32,
        out: &mut [u8],
        stride: usize,
        piece: usize,
    ) -> Result<(), MemoryError> {
        self.sums.clear();
        let whole = (out.len() + stride - piece) / stride * piece;
        let places = out.chunks_mut(stride).filter(|place| place.len() >= piece);
        let offsets = (offset..).step_by(piece.max(1));
        // most lists are of one element: its key is looked up once
        let ([one], true) = (sges, piece > 0) else {
            return places
                .zip(offsets)
                .try_for_each(|(place, at)| self.gather(sges, at, &mut place[..piece]));
        };
        let mut from = self.whole_piece(self.pd(), one, offset, whole, Access::empty())?;
        from.length = piece as u32;
        for place in places {
            match app().gather_summed(from.addr, &mut place[..piece]) {
                Some(crc) => self.sums.push(crc),
                None => _ = app().gather_bytes(&[from], 0, &mut place[..piece]),
            }
            from.addr = from.addr.wrapping_add(piece as u64);
        }
        Ok(())
    }

    fn scatter(
        &mut self,
        owner: SgeOwner,
        sges: &[Sge],
        offset: u32,
        data: &[u8],
    ) -> Result<(), MemoryError> {
        let (pd, need) = (self.owner_pd(owner), Access::LOCAL_WRITE);
        if let ([one], true) = (sges, !data.is_empty()) {
            let piece = self.whole_piece(pd, one, offset, data.len(), need)?;
            app().scatter_bytes(&[piece], 0, data);
            return Ok(());
        }
        self.each_piece(pd, sges, offset, data.len(), need, |_, _| {})?;
        self.each_piece(pd, sges, offset, data.len(), need, |piece, done| {
            let end = done + piece.length as usize;
            app().scatter_bytes(&[piece], 0, &data[done..end]);
        })
    }

    fn check_remote(
        &mut self,
        key: RKey,
        addr: u64,
        length: u32,
        access: Access,
    ) -> Result<(), MemoryError> {
        if access == Access::REMOTE_WRITE {
            // the packet's bytes go there next
            self.remote_target(key, addr, length.into())
        } else {
            self.remote(key, addr, length.into(), access)
        }
        .map(|_| ())
    }

    fn remote_write(&mut self, key: RKey, addr: u64, data: &[u8]) -> Result<(), MemoryError> {
        let len = data.len() as u64;
        let known = self.region.as_ref().filter(|entry| entry.key == key.0);
        let to = match known.and_then(|entry| Some((entry, entry.offset_of(addr, len)?))) {
            Some((entry, offset)) => entry.addr.wrapping_add(offset),
            None => self.remote_target(key, addr, len)?,
        };
        app().scatter_bytes(&at(to, data.len()), 0, data);
        Ok(())
    }

    fn remote_read(&mut self, key: RKey, addr: u64, out: &mut [u8]) -> Result<(), MemoryError> {
        let from = self.remote(key, addr, out.len() as u64, Access::REMOTE_READ)?;
        app().gather_bytes(&at(from, out.len()), 0, out);
        Ok(())
    }

    fn remote_read_again(
        &mut self,
        key: RKey,
        addr: u64,
        out: &mut [u8],
    ) -> Result<(), MemoryError> {
        let (len, access) = (out.len(), Access::REMOTE_READ);
        let from = self.remote(key, addr, len as u64, access)?;
        whole(app().gather_bytes_if_there(&at(from, len), 0, out), len)
    }

    fn remote_atomic(&mut self, key: RKey, addr: u64, op: AtomicOp) -> Result<u64, MemoryError> {
        let word = self.remote(key, addr, 8, Access::REMOTE_ATOMIC)?;
        let op = match op {
            AtomicOp::CompareSwap { compare, swap } => direct::AtomicOp::CompareSwap(compare, swap),
            AtomicOp::FetchAdd { add } => direct::AtomicOp::FetchAdd(add),
        };
        if !word.is_multiple_of(8) {
            return Err(MemoryError::Range);
        }
        Ok(direct::Host::local_atomic(self.adapter, word, op))
    }

    fn invalidate_remote(&mut self, key: RKey) -> Result<(), MemoryError> {
        self.invalidate_local(key)
    }

    fn invalidate_local(&mut self, key: RKey) -> Result<(), MemoryError> {
        if self
            .adapter
            .memory()
            .invalidate_window(self.pd(), self.qp.qpn, key.0)
        {
            Ok(())
        } else {
            Err(MemoryError::Key)
        }
    }

    fn bind_window(&mut self, bind: &BindWindow) -> Result<(), MemoryError> {
        let request = BindRequest {
            window: key_index(bind.window.0) as u32,
            rkey: bind.new_key.0,
            lkey: bind.region.0,
            addr: bind.addr,
            length: bind.length,
            access: bind.access,
        };
        if self
            .adapter
            .memory()
            .bind_window(self.pd(), self.qp.qpn, &request)
        {
            Ok(())
        } else {
            Err(MemoryError::Access)
        }
    }

    fn take_shared_receive(&mut self, xrc_srq: Option<u32>, sges: &mut [Sge]) -> SharedReceive {
        let taken = match (xrc_srq, &self.qp.srq) {
            (Some(number), _) => match self.extended_srq(number) {
                Some(srq) => {
                    let taken = lock(&srq.queue).take(self.scratch);
                    srq.check_limit();
                    taken
                }
                None => return SharedReceive::NoSuchQueue,
            },
            (None, Some(srq)) => {
                let taken = lock(&srq.queue).take(self.scratch);
                srq.check_limit();
                taken
            }
            (None, None) => self.qp.take_receive(self.scratch),
        };
        let Some(wqe) = taken else {
            return SharedReceive::Empty;
        };
        let count = self.scratch.len().min(sges.len());
        sges[..count].copy_from_slice(&self.scratch[..count]);
        SharedReceive::Taken {
            wr_id: wqe.wr_id,
            num_sge: count,
        }
    }

    fn has_xrc_srq(&mut self, number: u32) -> bool {
        self.extended_srq(number).is_some()
    }

    fn pkey(&self, index: u16) -> PKey {
        // the port is looked up where there can be several
        PKey(match self.qp.ctx.device.is_ethernet() {
            true => limits::DEFAULT_PKEY,
            false => fabric::pkey(self.qp.port(), index),
        })
    }
}
