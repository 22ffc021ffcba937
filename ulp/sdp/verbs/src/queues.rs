//! The driver under a machine: works become requests of a queue pair.
//!
//! Owns: where buffers lie and what requests name. Must not know: when.

use crate::endpoint::Error;
use ferriband_ibv::{
    Access, CompChannel, Cq, Element, Lent, Mr, Pd, Qp, QpState, RKey, RecvWr, Region,
};
use ferriband_ibv::{SendFlags, SendWr};
use ferriband_sdp_proto::connection::{MESSAGE_BYTES, Pair, ReadWork, SendWork, WriteWork};
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

/// The second queue pair of *nic*, by which zero copy goes, with its receive buffers. It shares the
/// completion queues of the first.
pub(crate) struct Second {
    pub qp: Arc<Qp>,
    pub receive: Buffer,
}

/// Marks the numbers of requests of the second queue pair.
const OF_SECOND: u64 = 1 << 63;

/// Which queue pair a completion is of, and what its request had as number there.
pub(crate) fn pair_of(id: u64) -> (Pair, u64) {
    match id & OF_SECOND {
        0 => (Pair::Stream, id),
        _ => (Pair::Offers, id & !OF_SECOND),
    }
}

fn number(pair: Pair, id: u64) -> u64 {
    match pair {
        Pair::Stream => id,
        Pair::Offers => id | OF_SECOND,
    }
}

/// Where bytes that the program fetches go.
pub(crate) enum FetchTo {
    /// Registered memory of ours, from there on.
    Own(Arc<Mr>, usize),
    /// The program's.
    Lent(Arc<Lent>),
}

/// A queue pair with its buffers, and the second one, if there is one.
pub(crate) struct Queues {
    pub pd: Arc<Pd>,
    pub qp: Arc<Qp>,
    /// From the connection on only if the peer has one.
    pub second: Option<Second>,
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
    /// Where the bytes that the program fetches go.
    pub fetch_to: Option<FetchTo>,
    /// Receives that were posted before the machine was there, in the order in which it asks.
    pub early: u16,
    /// Different for each queue pair that lives.
    pub psn_seed: u32,
}

impl Queues {
    /// Posts the receives that the peer is told of.
    pub fn post_early(&mut self) -> Result<(), Error> {
        (0..self.early).try_for_each(|slot| self.post(Pair::Stream, slot))
    }

    fn post(&self, pair: Pair, slot: u16) -> Result<(), Error> {
        let (memory, stride) = self.receives(pair)?;
        let at = usize::from(slot) * stride as usize;
        let elements = [memory.mr.element(at, stride)?];
        let mut wr = RecvWr::new(number(pair, slot.into()), &elements);
        Ok(self.qp(pair)?.post_recv(&mut wr)?)
    }

    fn qp(&self, pair: Pair) -> Result<&Qp, Error> {
        match pair {
            Pair::Stream => Ok(&self.qp),
            Pair::Offers => Ok(&self.second.as_ref().ok_or(Error::NoSecond)?.qp),
        }
    }

    /// The receive buffers of a queue pair, and the bytes of each.
    pub fn receives(&self, pair: Pair) -> Result<(&Buffer, u32), Error> {
        match pair {
            Pair::Stream => Ok((&self.receive, self.receive_bytes)),
            Pair::Offers => {
                let second = self.second.as_ref().ok_or(Error::NoSecond)?;
                Ok((&second.receive, MESSAGE_BYTES))
            }
        }
    }

    /// Takes the queue pairs into error: the peer hears of it as of any loss.
    pub fn stop(&self) {
        let second = self.second.as_ref().map(|second| &second.qp);
        for qp in [Some(&self.qp), second].into_iter().flatten() {
            // one that cannot be stopped is in error already
            let _ = qp.stop(QpState::Error);
        }
    }

    /// Memory that the stream's unread bytes are in.
    pub fn unread(&self) -> &Region {
        &self.ring.as_ref().unwrap_or(&self.receive).region
    }
}

impl Driver for Queues {
    type Error = Error;

    fn post_receive(&mut self, pair: Pair, slot: u16) -> Result<(), Error> {
        if pair == Pair::Stream && self.early > 0 {
            self.early -= 1;
            return Ok(());
        }
        self.post(pair, slot)
    }

    fn post_send(&mut self, work: &SendWork) -> Result<(), Error> {
        let head = work.head.bytes();
        let Some(data) = work.data else {
            let elements = [Element::inline(head)];
            let wr = SendWr::send(number(work.pair, work.id.0), &elements);
            let qp = self.qp(work.pair)?;
            return Ok(qp.post_send(&mut wr.flags(SendFlags::INLINE))?);
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
        let length = work.from.length_bytes;
        let elements = [match &self.fetch_to {
            None => return Err(Error::NoBuffer),
            Some(FetchTo::Own(mr, at)) => mr.element(*at, length)?,
            Some(FetchTo::Lent(lent)) => lent.element(length)?,
        }];
        let (address, key) = (work.from.virtual_address, RKey(work.from.rkey.0));
        let mut wr = SendWr::read(number(work.pair, work.id.0), address, key, &elements);
        Ok(self.qp(work.pair)?.post_send(&mut wr)?)
    }
}
