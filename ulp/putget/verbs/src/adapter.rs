//! An open adapter with what all connections on it share: a domain, a channel, completion queues
//! and buffers for messages.
//!
//! Owns: these. Must not know: connections.

use crate::Error;
use ferriband_ibv::{Access, CmId, CompChannel, Context, Cq, Element, Mr, Pd, Region};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// Connections whose completions share two queues.
pub(crate) const GROUP: u32 = 64;
/// Buffers for messages that are made at a time.
const CHUNK: usize = 64;

/// Completion queues of up to [`GROUP`] connections: those of received messages and of RDMA. Of
/// sent messages each connection has its own.
#[derive(Debug)]
pub(crate) struct Group {
    pub received: Arc<Cq>,
    pub rdma: Arc<Cq>,
    /// Held by each connection of the group.
    pub seat: Arc<Seat>,
}

/// What the connections of a group have in common.
#[derive(Debug, Default)]
pub(crate) struct Seat {
    /// Their requests of RDMA that are under way.
    pub rdma: AtomicU32,
}

impl Group {
    fn has_room(&self) -> bool {
        Arc::strong_count(&self.seat) <= GROUP as usize
    }

    /// Whether a connection has a request of RDMA under way.
    pub fn has_rdma(&self) -> bool {
        self.seat.rdma.load(Ordering::Relaxed) > 0
    }
}

/// An open adapter.
pub(crate) struct Adapter {
    pub context: Arc<Context>,
    pub pd: Arc<Pd>,
    pub channel: Arc<CompChannel>,
    pub groups: Vec<Group>,
    pub buffers: Buffers,
}

impl Adapter {
    fn open(context: &Arc<Context>, message_bytes: u32) -> Result<Adapter, Error> {
        let channel = CompChannel::create(context)?;
        channel.set_nonblocking()?;
        let pd = Pd::alloc(context)?;
        Ok(Adapter {
            context: Arc::clone(context),
            channel,
            groups: Vec::new(),
            buffers: Buffers::new(&pd, message_bytes as usize),
            pd,
        })
    }

    /// Which of the open adapters an identifier is bound to; opened, behind the others, if none is.
    pub fn of(adapters: &mut Vec<Adapter>, id: &CmId, message_bytes: u32) -> Result<usize, Error> {
        let context = id.context()?.ok_or(Error::NoAdapter)?;
        let mut known = adapters.iter();
        if let Some(known) = known.position(|adapter| Arc::ptr_eq(&adapter.context, &context)) {
            return Ok(known);
        }
        adapters.push(Adapter::open(&context, message_bytes)?);
        Ok(adapters.len() - 1)
    }

    /// Room for one more connection; in which group.
    pub fn room(&mut self, receives: u32, rdma: u32) -> Result<usize, Error> {
        let with_room = self.groups.iter().position(Group::has_room);
        let group = match with_room {
            Some(group) => group,
            None => {
                let (context, on) = (&self.context, Some(&self.channel));
                self.groups.push(Group {
                    received: Cq::create(context, GROUP * receives, on, NO_LINK)?,
                    rdma: Cq::create(context, GROUP * rdma, on, NO_LINK)?,
                    seat: Arc::default(),
                });
                self.groups.len() - 1
            }
        };
        Ok(group)
    }
}

/// Tag of completion queues that are no connection's own.
pub(crate) const NO_LINK: u64 = u64::MAX;

/// Buffers for messages that do not go inline, and for what operations by leases put or bring,
/// where it fits into one. As many are made as are ever under way at a time.
pub(crate) struct Buffers {
    pd: Arc<Pd>,
    bytes: usize,
    chunks: Vec<Arc<Mr>>,
    free: Vec<usize>,
}

/// One of them.
#[derive(Debug)]
pub(crate) struct Buffer(usize);

impl Buffers {
    fn new(pd: &Arc<Pd>, bytes: usize) -> Buffers {
        Buffers {
            pd: Arc::clone(pd),
            bytes,
            chunks: Vec::new(),
            free: Vec::new(),
        }
    }

    /// Bytes of a buffer.
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Copies a message into a free buffer.
    pub fn fill(&mut self, message: &[u8]) -> Result<(Buffer, Element<'static>), Error> {
        let (buffer, element) = self.take(message.len() as u32)?;
        if let Some(region) = self.chunks[buffer.0 / CHUNK].region() {
            region.write(buffer.0 % CHUNK * self.bytes, message)?;
        }
        Ok((buffer, element))
    }

    /// Copies so many bytes of a buffer out.
    pub fn read(&self, buffer: &Buffer, length: u32, to: &mut Vec<u8>) -> Result<(), Error> {
        to.resize(length as usize, 0);
        if let Some(region) = self.chunks[buffer.0 / CHUNK].region() {
            region.read(buffer.0 % CHUNK * self.bytes, to)?;
        }
        Ok(())
    }

    /// A free buffer, and its first bytes.
    pub fn take(&mut self, length: u32) -> Result<(Buffer, Element<'static>), Error> {
        if self.free.is_empty() {
            let region = Region::create(c"ferriband-putget", self.bytes * CHUNK)?;
            let mr = Mr::register(&self.pd, &region, Access::LOCAL_WRITE)?;
            let first = self.chunks.len() * CHUNK;
            self.chunks.push(mr);
            self.free.extend((first..first + CHUNK).rev());
        }
        let number = self.free.pop().unwrap_or_default();
        let (mr, at) = (&self.chunks[number / CHUNK], number % CHUNK * self.bytes);
        let element = mr.element(at, length)?;
        Ok((Buffer(number), element))
    }

    /// Nobody reads it any more.
    pub fn free(&mut self, buffer: Buffer) {
        self.free.push(buffer.0);
    }
}
