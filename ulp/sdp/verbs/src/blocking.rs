//! Calls that wait, which may go without copies: the program's own memory is registered for the
//! time of the call, and the reader fetches from the writer's by RDMA READ.
//!
//! Owns: when a write offers its memory, and when a read fetches. Must not know: how a caller
//! waits.

use crate::endpoint::Error;
use crate::stream::{Received, Stream};
use ferriband_ibv::Lent;
use std::sync::Arc;

/// Bytes of the longest offer.
const LONGEST: usize = 1 << 30;
/// Writes that go by copies after the peer has read nothing of an offer: it takes no part, or its
/// reads are short.
const REST: u32 = 32;

/// Whether a write goes on waiting for the peer to read its offer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wait {
    /// It does.
    Longer,
    /// The offer is taken back, and what is left goes by copies: the peer may wait for this side to
    /// read, or have room for what it does not read yet.
    NoLonger,
}

impl Stream {
    /// From which length on a write offers the program's memory, and a read fetches into it; None:
    /// never, which is so at first.
    pub fn set_zero_copy(&mut self, least: Option<u64>) {
        self.zero_copy = least;
    }

    /// Gives all bytes. `wait` is called when nothing can be done: it waits until something has
    /// happened, or returns at once.
    ///
    /// # Errors
    /// The connection is over, or what `wait` says. If memory is offered then, the connection ends.
    pub fn write<E: From<Error>>(
        &mut self,
        bytes: &[u8],
        mut wait: impl FnMut(&mut Stream) -> Result<Wait, E>,
    ) -> Result<(), E> {
        let mut given = 0;
        while self.offers(bytes.len() - given) {
            let end = bytes.len().min(given + LONGEST);
            let read = self.write_offer(&bytes[given..end], &mut wait)?;
            given += read;
            self.rests = if read == 0 { REST } else { 0 };
        }
        if self.is_long(bytes.len()) {
            self.rests = self.rests.saturating_sub(1);
        }
        while given < bytes.len() {
            given += self.send(&bytes[given..], false)?;
            if given < bytes.len() {
                wait(self)?;
            }
        }
        Ok(())
    }

    /// Takes bytes, one at least, or the stream's end. `wait` is called when nothing can be done.
    /// Where there is no room for any, nothing is received.
    ///
    /// # Errors
    /// The connection is over, or what `wait` says. If bytes are fetched then, the connection ends.
    pub fn read<E: From<Error>>(
        &mut self,
        to: &mut [u8],
        mut wait: impl FnMut(&mut Stream) -> Result<Wait, E>,
    ) -> Result<Received, E> {
        while !to.is_empty() {
            match self.take(to)? {
                Received::Nothing => {}
                received => return Ok(received),
            }
            match self.fetchable() {
                None => {
                    wait(self)?;
                }
                Some(most) if self.is_long(to.len().min(most as usize)) => {
                    let length = to.len().min(most as usize);
                    match self.read_offer(&mut to[..length], &mut wait)? {
                        Received::Nothing => {}
                        received => return Ok(received),
                    }
                }
                Some(_) => self.refuse_offer()?,
            }
        }
        Ok(Received::Nothing)
    }

    fn is_long(&self, length: usize) -> bool {
        self.zero_copy.is_some_and(|least| length as u64 >= least)
    }

    fn offers(&self, length: usize) -> bool {
        length > 0 && self.rests == 0 && self.is_long(length) && self.machine().may_offer()
    }

    /// Returns how many bytes the peer has read.
    fn write_offer<E: From<Error>>(
        &mut self,
        bytes: &[u8],
        wait: &mut impl FnMut(&mut Stream) -> Result<Wait, E>,
    ) -> Result<usize, E> {
        let pd = Arc::clone(self.pd());
        let written = Lent::for_peers(&pd, bytes, |lent| {
            let written = self.write_lent(lent, bytes.len() as u32, wait);
            self.end_lending();
            written
        });
        written.map_err(Error::from)?
    }

    fn write_lent<E: From<Error>>(
        &mut self,
        lent: &Lent,
        length: u32,
        wait: &mut impl FnMut(&mut Stream) -> Result<Wait, E>,
    ) -> Result<usize, E> {
        self.offer_lent(lent, length)?;
        loop {
            if let Some(read) = self.take_offer()? {
                return Ok(read as usize);
            }
            if wait(self)? == Wait::NoLonger {
                self.cancel_offer()?;
            }
        }
    }

    /// Nothing is received if the peer has taken its offer back.
    fn read_offer<E: From<Error>>(
        &mut self,
        to: &mut [u8],
        wait: &mut impl FnMut(&mut Stream) -> Result<Wait, E>,
    ) -> Result<Received, E> {
        let (pd, length) = (Arc::clone(self.pd()), to.len() as u32);
        let read = Lent::for_requests(&pd, to, |lent| {
            let read = self.read_lent(lent, length, wait);
            self.end_lending();
            read
        });
        read.map_err(Error::from)?
    }

    fn read_lent<E: From<Error>>(
        &mut self,
        lent: &Arc<Lent>,
        length: u32,
        wait: &mut impl FnMut(&mut Stream) -> Result<Wait, E>,
    ) -> Result<Received, E> {
        self.fetch_lent(lent, length)?;
        loop {
            match self.take_fetched()? {
                Some(0) => return Ok(Received::Nothing),
                Some(bytes) => return Ok(Received::Bytes(bytes as usize)),
                None => wait(self)?,
            };
        }
    }
}
