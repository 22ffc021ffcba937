//! The surroundings of a simulated queue pair: memory that tells the model of every effect, and shared receives.

use super::memory::{Memory, PD};
use super::model::{Model, Receive, violated};
use super::mutation::Mutation;
use ferriband_transport::env::{
    AtomicOp, BindWindow, Environment, MemoryError, SgeOwner, SharedReceive,
};
use ferriband_transport::types::{Access, Sge};
use ferriband_wire::RKey;
use std::collections::VecDeque;

/// A shared receive queue of an adapter.
#[derive(Debug, Default)]
pub(super) struct Srq {
    pub number: u32,
    pub key: u32,
    pub queue: VecDeque<Receive>,
}

/// What a machine sees while it is called.
pub(super) struct Surroundings<'a> {
    pub side: usize,
    pub memory: &'a mut Memory,
    pub srq: &'a mut Srq,
    pub model: &'a mut Model,
    pub mutation: Option<Mutation>,
}

/// The list element of a receive.
pub(super) fn sge_of(receive: &Receive, key: u32) -> Sge {
    // A wrong local key is one that no region has.
    let lkey = if receive.bad { key | 1 } else { key };
    Sge {
        addr: receive.addr,
        length: receive.length,
        lkey,
    }
}

impl Environment for Surroundings<'_> {
    fn gather(&mut self, sges: &[Sge], offset: u32, out: &mut [u8]) -> Result<(), MemoryError> {
        let length = out.len();
        self.memory
            .walk(sges, offset, length, Access::empty(), |bytes, at| {
                out[at..at + bytes.len()].copy_from_slice(bytes);
            })
    }

    fn scatter(
        &mut self,
        owner: SgeOwner,
        sges: &[Sge],
        offset: u32,
        data: &[u8],
    ) -> Result<(), MemoryError> {
        let side = &self.model.sides[self.side];
        let is_receive = owner != SgeOwner::QueuePair
            || sges
                .first()
                .is_some_and(|sge| sge.lkey >> 8 == side.recv_key >> 8);
        // The planted bug places one byte less than it should.
        let lost = usize::from(is_receive && self.mutation == Some(Mutation::LoseLastByte));
        let data = &data[..data.len() - lost];
        self.memory.walk(
            sges,
            offset,
            data.len(),
            Access::LOCAL_WRITE,
            |bytes, at| {
                bytes.copy_from_slice(&data[at..at + bytes.len()]);
            },
        )?;
        if is_receive {
            let addr = sges.first().map_or(0, |sge| sge.addr);
            let check = self.model.receive_bytes(self.side, addr, offset, data);
            self.model.note(check);
        }
        Ok(())
    }

    fn check_remote(
        &mut self,
        key: RKey,
        addr: u64,
        length: u32,
        access: Access,
    ) -> Result<(), MemoryError> {
        if self.mutation == Some(Mutation::SkipKeyCheck) {
            return Ok(());
        }
        self.memory
            .span(key.0, PD, addr, length.into(), access)
            .map(|_| ())
    }

    fn remote_write(&mut self, key: RKey, addr: u64, data: &[u8]) -> Result<(), MemoryError> {
        let span = self
            .memory
            .span(key.0, PD, addr, data.len() as u64, Access::REMOTE_WRITE);
        match span {
            Ok(bytes) => bytes.copy_from_slice(data),
            Err(_) if self.mutation == Some(Mutation::SkipKeyCheck) => {}
            Err(error) => return Err(error),
        }
        let times = if self.mutation == Some(Mutation::ExecuteTwice) {
            2
        } else {
            1
        };
        for _ in 0..times {
            let check = self.model.remote_write(self.side, key.0, addr, data);
            self.model.note(check);
        }
        Ok(())
    }

    fn remote_read(&mut self, key: RKey, addr: u64, out: &mut [u8]) -> Result<(), MemoryError> {
        let length = out.len() as u64;
        let bytes = self
            .memory
            .span(key.0, PD, addr, length, Access::REMOTE_READ)?;
        out.copy_from_slice(bytes);
        Ok(())
    }

    fn remote_atomic(&mut self, key: RKey, addr: u64, op: AtomicOp) -> Result<u64, MemoryError> {
        if !addr.is_multiple_of(8) {
            let check = violated("I7", "an aligned atomic", format!("{addr:#x}"));
            self.model.note(check);
        }
        let bytes = self
            .memory
            .span(key.0, PD, addr, 8, Access::REMOTE_ATOMIC)?;
        let mut word = [0; 8];
        word.copy_from_slice(bytes);
        let original = u64::from_ne_bytes(word);
        bytes.copy_from_slice(&op.apply(original).to_ne_bytes());
        let check = self
            .model
            .remote_atomic(self.side, addr, |old| op.apply(old), original);
        self.model.note(check);
        Ok(original)
    }

    fn invalidate_remote(&mut self, key: RKey) -> Result<(), MemoryError> {
        self.memory.invalidate(key.0)
    }

    fn invalidate_local(&mut self, key: RKey) -> Result<(), MemoryError> {
        self.memory.invalidate(key.0)
    }

    fn bind_window(&mut self, bind: &BindWindow) -> Result<(), MemoryError> {
        // Windows belong to the adapter's tables; here only that the range lies in the region matters.
        let (addr, length) = (bind.addr, bind.length);
        self.memory
            .span(bind.region.0, PD, addr, length, Access::empty())
            .map(|_| ())
    }

    fn take_shared_receive(&mut self, xrc_srq: Option<u32>, sges: &mut [Sge]) -> SharedReceive {
        if xrc_srq.is_some_and(|number| number != self.srq.number) {
            return SharedReceive::NoSuchQueue;
        }
        let Some(receive) = self.srq.queue.pop_front() else {
            return SharedReceive::Empty;
        };
        self.model.sides[self.side].receives.push(receive);
        sges[0] = sge_of(&receive, self.srq.key);
        SharedReceive::Taken {
            wr_id: receive.wr_id,
            num_sge: 1,
        }
    }
}
