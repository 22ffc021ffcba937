//! The driver under a machine: works become requests of a queue pair.
//!
//! Owns: where buffers lie and what requests name. Must not know: when.

use crate::endpoint::Error;
use ferriband_ibv::{Access, CompChannel, Cq, Element, Mr, Pd, Qp, RKey, RecvWr, Region};
use ferriband_ibv::{SendFlags, SendWr};
use ferriband_sdp_proto::connection::{ReadWork, SendWork, WriteWork};
use ferriband_sdp_proto::driver::Driver;
use std::sync::Arc;

/// Registered memory of this side.
pub(crate) struct Buffer {
    pub region: Arc<Region>,
    pub mr: Arc<Mr>,
}

impl Buffer {
    pub fn new(pd: &Arc<Pd>, bytes: u32, access: Access) -> Result<Buffer, Error> {
        let region = Region::create(c"ferriband-sdp", bytes as usize)?;
        let mr = Mr::register(pd, &region, access)?;
        Ok(Buffer { region, mr })
    }
}

/// A queue pair with its buffers.
pub(crate) struct Queues {
    pub qp: Arc<Qp>,
    pub send_cq: Arc<Cq>,
    pub receive_cq: Arc<Cq>,
    pub channel: Arc<CompChannel>,
    pub send: Buffer,
    pub receive: Buffer,
    /// None in *credit*.
    pub ring: Option<Buffer>,
    /// Bytes of a receive buffer.
    pub receive_bytes: u32,
    /// Address and key of the peer's ring; known from the connection on.
    pub peer_ring: Option<(u64, RKey)>,
    /// Where the bytes that the program fetches go: registered memory, and where in it.
    pub fetch_to: Option<(Arc<Mr>, usize)>,
    /// Receives that were posted before the machine was there, in the order in which it asks.
    pub early: u16,
    /// Different for each queue pair that lives.
    pub psn_seed: u32,
}

impl Queues {
    /// Posts the receives that the peer is told of.
    pub fn post_early(&mut self) -> Result<(), Error> {
        (0..self.early).try_for_each(|slot| self.post(slot))
    }

    fn post(&self, slot: u16) -> Result<(), Error> {
        let at = usize::from(slot) * self.receive_bytes as usize;
        let elements = [self.receive.mr.element(at, self.receive_bytes)?];
        Ok(self
            .qp
            .post_recv(&mut RecvWr::new(slot.into(), &elements))?)
    }

    /// Memory that the stream's unread bytes are in.
    pub fn unread(&self) -> &Region {
        &self.ring.as_ref().unwrap_or(&self.receive).region
    }
}

impl Driver for Queues {
    type Error = Error;

    fn post_receive(&mut self, slot: u16) -> Result<(), Error> {
        if self.early > 0 {
            self.early -= 1;
            return Ok(());
        }
        self.post(slot)
    }

    fn post_send(&mut self, work: &SendWork) -> Result<(), Error> {
        let head = work.head.bytes();
        let Some(data) = work.data else {
            let elements = [Element::inline(head)];
            let wr = SendWr::send(work.id.0, &elements);
            return Ok(self.qp.post_send(&mut wr.flags(SendFlags::INLINE))?);
        };
        let at = data.at as usize - head.len();
        self.send.region.write(at, head)?;
        let elements = [self.send.mr.element(at, head.len() as u32 + data.bytes)?];
        Ok(self.qp.post_send(&mut SendWr::send(work.id.0, &elements))?)
    }

    fn post_write(&mut self, work: &WriteWork) -> Result<(), Error> {
        let (address, key) = self.peer_ring.unwrap_or_default();
        let elements = [self
            .send
            .mr
            .element(work.from.at as usize, work.from.bytes)?];
        let wr = SendWr::write(work.id.0, address + u64::from(work.to), key, &elements);
        Ok(self.qp.post_send(&mut wr.immediate(work.immediate))?)
    }

    fn post_read(&mut self, work: &ReadWork) -> Result<(), Error> {
        let (mr, at) = self.fetch_to.as_ref().ok_or(Error::NoBuffer)?;
        let elements = [mr.element(*at, work.from.length_bytes)?];
        let (address, key) = (work.from.virtual_address, RKey(work.from.rkey.0));
        let mut wr = SendWr::read(work.id.0, address, key, &elements);
        Ok(self.qp.post_send(&mut wr)?)
    }
}
