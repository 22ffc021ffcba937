//! A connected side, as its program uses it. No call waits.
//!
//! Owns: copies to and from the buffers, and completions. Must not know: when to call again;
//! [`Stream::arm`] and [`Stream::channel`] are for whoever sleeps.

use crate::endpoint::Error;
use crate::hello::FlowKind;
use crate::queues::{FetchTo, Queues, pair_of};
use ferriband_ibv::{CmId, CompChannel, Cq, Lent, Mr, Pd, Wc, WcOpcode};
use ferriband_sdp_proto::connection::{Connection, Flow, HEAD_BYTES, WorkId};
use ferriband_sdp_proto::driver::drive;
use ferriband_sdp_wire::{Advert, RKey};
use std::net::SocketAddr;
use std::sync::Arc;

/// Completions that are taken at a time.
const BATCH: usize = 16;

/// What became of a receive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Received {
    /// So many bytes.
    Bytes(usize),
    /// The peer sends no more, and all was read.
    End,
    /// There is nothing.
    Nothing,
}

/// Memory that the peer may read.
enum Offered {
    /// Ours, which stays registered.
    Own { _mr: Arc<Mr> },
    /// The program's.
    Lent,
}

/// A connected side.
pub struct Stream {
    machine: Connection,
    queues: Queues,
    /// What the peer may read, as long as it may.
    offered: Option<Offered>,
    /// From which length on a write goes without copies, and how many go by copies before.
    pub(crate) zero_copy: Option<u64>,
    pub(crate) rests: u32,
    lost: bool,
    /// The manager's, if it has set the connection up.
    id: Option<Arc<CmId>>,
}

impl Stream {
    pub(crate) fn new(
        machine: Connection,
        queues: Queues,
        id: Option<Arc<CmId>>,
    ) -> Result<Stream, Error> {
        let mut stream = Stream {
            machine,
            queues,
            offered: None,
            zero_copy: None,
            rests: 0,
            lost: false,
            id,
        };
        stream.drive()?;
        Ok(stream)
    }

    /// Takes bytes of the program: as many as there is room for, perhaps none. `more`: others
    /// follow at once (MSG_MORE).
    ///
    /// # Errors
    /// The connection is over.
    pub fn send(&mut self, bytes: &[u8], more: bool) -> Result<usize, Error> {
        let mut given = 0;
        let mut looked = false;
        while given < bytes.len() {
            let Some(piece) = self.machine.reserve() else {
                if looked {
                    break;
                }
                self.progress()?;
                looked = true;
                continue;
            };
            let left = &bytes[given..];
            let part = &left[..left.len().min(piece.bytes as usize)];
            self.queues.send.region.write(piece.at as usize, part)?;
            given += part.len();
            self.machine
                .commit(part.len() as u32, more || given < bytes.len());
            self.drive()?;
            looked = false;
        }
        if given < bytes.len() && !more {
            // the call ends here: what it gave is not held back
            self.machine.end_call();
            self.drive()?;
        }
        match self.machine.over() {
            Some(over) if given == 0 => Err(over.into()),
            _ => Ok(given),
        }
    }

    /// Gives bytes to the program. What the peer offers as the next is to come by messages: whoever
    /// wants to fetch it looks ([`Stream::fetchable`]) before.
    ///
    /// # Errors
    /// The connection is over, and what came before was read.
    pub fn receive(&mut self, to: &mut [u8]) -> Result<Received, Error> {
        let received = self.take(to)?;
        if received == Received::Nothing && self.machine.fetchable().is_some() {
            self.refuse_offer()?;
        }
        Ok(received)
    }

    /// As [`Stream::receive`], and leaves an offer as it is.
    pub(crate) fn take(&mut self, to: &mut [u8]) -> Result<Received, Error> {
        if self.machine.readable().is_none() {
            self.progress()?;
        }
        let mut taken = 0;
        while let Some(piece) = self.machine.readable().filter(|_| taken < to.len()) {
            let length = (to.len() - taken).min(piece.bytes as usize);
            let part = &mut to[taken..taken + length];
            self.queues.unread().read(piece.at as usize, part)?;
            self.machine.consume(length as u32);
            taken += length;
        }
        if taken > 0 {
            self.drive()?;
            return Ok(Received::Bytes(taken));
        }
        if self.machine.is_at_end() {
            return Ok(Received::End);
        }
        match self.machine.over() {
            Some(over) => Err(over.into()),
            None => Ok(Received::Nothing),
        }
    }

    /// TCP_CORK.
    ///
    /// # Errors
    /// The queue pair takes no work.
    pub fn set_cork(&mut self, corked: bool) -> Result<(), Error> {
        self.machine.set_cork(corked);
        self.drive()
    }

    /// The program sends no more.
    ///
    /// # Errors
    /// The queue pair takes no work.
    pub fn shut_down(&mut self) -> Result<(), Error> {
        self.machine.shut_down();
        self.drive()
    }

    /// Ends the connection at once, for both sides: AbortConn.
    ///
    /// # Errors
    /// As the verbs API.
    pub fn abort(&mut self) -> Result<(), Error> {
        self.machine.abort();
        self.drive()
    }

    /// The peer has left, as the connection manager says: what has arrived can be read, nothing
    /// else comes.
    ///
    /// # Errors
    /// As the verbs API.
    pub fn end(&mut self) -> Result<(), Error> {
        // what came before the end stands in the completion queues
        self.progress()?;
        self.lost = true;
        self.machine.handle_lost();
        Ok(())
    }

    /// Leaves the connection: the peer hears of it by the connection manager. Both streams have
    /// ended ([`Connection::is_finished`]), or what is under way is given up. A stream that is
    /// dropped leaves as well.
    pub fn leave(&mut self) {
        if let Some(id) = self.id.take() {
            // the queue pairs are the program's own: the manager does not stop them
            self.queues.stop();
            // the peer may have left before, and the device may be gone
            let _ = id.disconnect();
        }
    }

    /// Offers `length` bytes at `at` of registered memory as the next of the stream: the peer may
    /// read them from there. Until [`Stream::take_offer`] gives something, nobody writes them and
    /// nothing else is sent. The memory has remote-read access, and lies in the endpoint's domain.
    ///
    /// # Errors
    /// No offer may be made ([`Connection::may_offer`]), or the place lies outside.
    pub fn offer(&mut self, mr: &Arc<Mr>, at: usize, length: u32) -> Result<(), Error> {
        mr.element(at, length)?;
        let own = Offered::Own {
            _mr: Arc::clone(mr),
        };
        self.offer_at(own, mr.rkey(), mr.address() + at as u64, length)
    }

    /// As [`Stream::offer`], of memory that a call of the program lends.
    pub(crate) fn offer_lent(&mut self, lent: &Lent, length: u32) -> Result<(), Error> {
        self.offer_at(Offered::Lent, lent.rkey(), lent.address(), length)
    }

    fn offer_at(
        &mut self,
        offered: Offered,
        key: ferriband_ibv::RKey,
        address: u64,
        length: u32,
    ) -> Result<(), Error> {
        if !self.machine.may_offer() || length == 0 {
            return Err(Error::NoOffer);
        }
        self.machine.offer(Advert {
            length_bytes: length,
            rkey: RKey(key.0),
            virtual_address: address,
        });
        self.offered = Some(offered);
        self.drive()
    }

    /// The program has its memory back: what is under way with it ends the connection.
    pub(crate) fn end_lending(&mut self) {
        let offers = matches!(self.offered, Some(Offered::Lent));
        if offers || matches!(self.queues.fetch_to, Some(FetchTo::Lent(_))) {
            (self.offered, self.queues.fetch_to) = (None, None);
            self.lost = true;
            self.queues.stop();
            self.machine.handle_lost();
        }
    }

    /// Takes the offer back; the peer may read until [`Stream::take_offer`] gives something.
    ///
    /// # Errors
    /// The queue pair takes no work.
    pub fn cancel_offer(&mut self) -> Result<(), Error> {
        self.machine.cancel_offer();
        self.drive()
    }

    /// How many of the offered bytes the peer has read, once it reads no more. The others are to be
    /// sent anew.
    ///
    /// # Errors
    /// The connection is over.
    pub fn take_offer(&mut self) -> Result<Option<u32>, Error> {
        self.progress()?;
        let read = self.machine.take_offer();
        if read.is_some() {
            self.offered = None;
            self.drive()?;
        } else if let Some(over) = self.machine.over() {
            return Err(over.into());
        }
        Ok(read)
    }

    /// Bytes that the peer offers as the next of its stream.
    pub fn fetchable(&self) -> Option<u32> {
        self.machine.fetchable()
    }

    /// Reads the first `length` bytes of the peer's offer to `at` of registered memory.
    ///
    /// # Errors
    /// Fewer are fetchable, or the place lies outside.
    pub fn fetch(&mut self, mr: &Arc<Mr>, at: usize, length: u32) -> Result<(), Error> {
        mr.element(at, length)?;
        self.fetch_at(FetchTo::Own(Arc::clone(mr), at), length)
    }

    /// As [`Stream::fetch`], to memory that a call of the program lends.
    pub(crate) fn fetch_lent(&mut self, lent: &Arc<Lent>, length: u32) -> Result<(), Error> {
        self.fetch_at(FetchTo::Lent(Arc::clone(lent)), length)
    }

    fn fetch_at(&mut self, to: FetchTo, length: u32) -> Result<(), Error> {
        if length == 0 || self.machine.fetchable().is_none_or(|most| most < length) {
            return Err(Error::NoOffer);
        }
        self.queues.fetch_to = Some(to);
        self.machine.fetch(length);
        self.drive()
    }

    /// How many bytes the last fetch has brought, once it is over.
    ///
    /// # Errors
    /// The connection is over.
    pub fn take_fetched(&mut self) -> Result<Option<u32>, Error> {
        self.progress()?;
        let bytes = self.machine.take_fetched();
        if bytes.is_some() {
            self.queues.fetch_to = None;
        } else if let Some(over) = self.machine.over() {
            return Err(over.into());
        }
        Ok(bytes)
    }

    /// What is left of the peer's offer is to come by messages.
    ///
    /// # Errors
    /// The queue pair takes no work.
    pub fn refuse_offer(&mut self) -> Result<(), Error> {
        self.machine.refuse_offer();
        self.drive()
    }

    /// Takes the completions that are there, and does what follows from them. Returns how many.
    ///
    /// # Errors
    /// The verbs API fails, or the queue pair takes no work. That the connection is over is told by
    /// the other calls.
    pub fn progress(&mut self) -> Result<usize, Error> {
        let received = self.take_receives()?;
        let sent = self.take_sends()?;
        if self.lost {
            self.machine.handle_lost();
        }
        if self.machine.over().is_none() {
            self.drive()?;
        }
        Ok(received + sent)
    }

    /// Asks for an event on the channel at the next completion: of either queue, or of the send
    /// queue alone (`only_sends`: the program computes, and what waits in the software-handled part
    /// is to leave). Whoever calls this looks once more ([`Stream::progress`]) before it sleeps.
    ///
    /// # Errors
    /// As the verbs API.
    pub fn arm(&self, only_sends: bool) -> Result<(), Error> {
        self.queues.send_cq.arm(false)?;
        if !only_sends {
            self.queues.receive_cq.arm(false)?;
        }
        Ok(())
    }

    /// The channel that the two completion queues announce themselves on. It does not block.
    pub fn channel(&self) -> &Arc<CompChannel> {
        &self.queues.channel
    }

    /// The domain that memory for [`Stream::offer`] and [`Stream::fetch`] is registered in.
    pub fn pd(&self) -> &Arc<Pd> {
        &self.queues.pd
    }

    /// This side's address, where the connection manager has set the connection up.
    pub fn address(&self) -> Option<SocketAddr> {
        self.id.as_ref()?.local_address()
    }

    /// The machine, for its counters and its state.
    pub fn machine(&self) -> &Connection {
        &self.machine
    }

    /// Its flow control.
    pub fn flow(&self) -> FlowKind {
        match self.machine.flow() {
            Flow::Credit => FlowKind::Credit,
            Flow::Ring { .. } => FlowKind::Ring,
            Flow::Nic { .. } => FlowKind::Nic,
        }
    }

    fn drive(&mut self) -> Result<(), Error> {
        drive(&mut self.machine, &mut self.queues)
    }

    fn take_receives(&mut self) -> Result<usize, Error> {
        let mut wcs = [Wc::default(); BATCH];
        let count = poll(&self.queues.receive_cq, &mut wcs)?;
        for wc in &wcs[..count] {
            if !wc.is_ok() {
                self.lost = true;
            } else if wc.opcode() == WcOpcode::RecvRdmaWithImm {
                let immediate = wc.immediate().unwrap_or(0);
                self.note(|machine| machine.handle_write(wc.byte_len(), immediate));
            } else {
                let (pair, slot) = pair_of(wc.id());
                let (memory, stride) = self.queues.receives(pair)?;
                let mut prefix = [0; HEAD_BYTES];
                let prefix = &mut prefix[..HEAD_BYTES.min(wc.byte_len() as usize)];
                memory
                    .region
                    .read(slot as usize * stride as usize, prefix)?;
                self.note(|machine| machine.handle_message(pair, prefix, wc.byte_len()));
            }
        }
        Ok(count)
    }

    fn take_sends(&mut self) -> Result<usize, Error> {
        let mut wcs = [Wc::default(); BATCH];
        let count = poll(&self.queues.send_cq, &mut wcs)?;
        for wc in &wcs[..count] {
            if wc.is_ok() {
                let (pair, id) = pair_of(wc.id());
                self.note(|machine| machine.handle_sent(pair, WorkId(id)));
            } else {
                self.lost = true;
            }
        }
        Ok(count)
    }

    /// A violation ends the connection: the queue pair goes into error, which the peer hears of as
    /// of any loss.
    fn note<E>(&mut self, handle: impl FnOnce(&mut Connection) -> Result<(), E>) {
        if handle(&mut self.machine).is_err() {
            self.lost = true;
            // the machine remembers why
            self.queues.stop();
        }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.leave();
    }
}

fn poll(cq: &Cq, wcs: &mut [Wc; BATCH]) -> Result<usize, Error> {
    Ok(cq.poll(wcs)?)
}
