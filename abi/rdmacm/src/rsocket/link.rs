//! A stream's queue pair: its buffers, its credits, and what travels over it.
//!
//! Each side writes its bytes into a ring of the other side's, which grants half of it at a time by writing an entry into
//! the sender's list of targets. The word that comes with a WRITE takes one posted receive and one place in the list of
//! messages, so words of data need credits; the four that carry credits and the connection's own affairs do not, and rely on
//! the adapter's patience with a receiver that is not ready.
//!
//! Owns the queue pair's work and the memory behind it. Must not know how the connection came about, who waits, or what a
//! program is told. What the other side says is checked here: more bytes than were granted, or more messages than credits, end
//! the connection.

use super::memory::{Region, Registration, Vectors};
use super::settings::{LOW_WATER, Settings};
use super::wire::{Control, Mapping, Offer, Order, Target, Word};
use crate::boundary::Errno;
use crate::id::{Id, get, set};
use crate::{qp, verbs};
use ferriband_verbs_sys::*;
use std::collections::VecDeque;
use std::os::fd::RawFd;
use std::sync::atomic::{Ordering, fence};

/// Entries of the list of targets.
const TARGETS: usize = 2;
/// Words that need no credit and may be under way.
const CONTROL_WORK: u32 = 4;
/// The first piece of a long message, so that the other side begins early; it doubles up to `MOST_PIECE`.
pub const FIRST_PIECE: usize = 2048;
/// The longest piece.
pub const MOST_PIECE: usize = 65_536;
/// Completions taken at a time.
const BATCH: usize = 16;
/// In the number of a receive's completion.
const IS_RECEIVE: u64 = 1 << 63;

/// What the other side, or the adapter, said since the last look.
#[derive(Default)]
pub struct Heard {
    /// Bytes.
    pub data: bool,
    /// It neither sends nor takes anything any more, or has heard that of us.
    pub disconnect: bool,
    /// It sends nothing any more.
    pub shutdown: bool,
    /// The connection does not work any more.
    pub failure: Option<Errno>,
}

/// A queue pair with its buffers.
pub struct Link {
    id: *const Id,
    qp: *mut ibv_qp,
    cq: *mut ibv_cq,
    channel: *mut ibv_comp_channel,
    fd: RawFd,
    /// An event of the completion channel was asked for and has not been taken.
    is_armed: bool,
    inline: usize,
    /// The list of targets, the table of mapped buffers, the ring.
    exposed: Region,
    ring: usize,
    mappings: u16,
    outgoing: Region,
    // Dropped before the memory that they are of.
    list_key: Registration,
    ring_key: Registration,
    outgoing_key: Registration,

    /// What is left of the entry in use.
    target: Target,
    target_index: usize,
    /// Number of the next message, and of the first one that has no credit.
    sent: u16,
    granted_to_us: u16,
    work_free: u32,
    work: u32,
    control_free: u32,
    control_slot: usize,
    send_free: usize,
    send_at: usize,
    send_bytes: usize,

    /// Messages that have arrived and were not read.
    messages: VecDeque<u32>,
    most_messages: usize,
    receive_work: u16,
    /// Receives that the adapter has.
    posted: usize,
    ring_bytes: usize,
    ring_at: usize,
    /// Bytes of the ring that nobody needs, and where they begin.
    ring_free: usize,
    grant_at: usize,
    /// Bytes that the other side may still write.
    granted: usize,
    /// Messages read, and the number at which new credits are due.
    read: u16,
    credits_due: u16,

    order: Order,
    list: Target,
    list_index: u32,
    pub(super) remote_table: Target,
    pub(super) mapped: super::iomap::Mapped,
}

// SAFETY: libibverbs' objects may be used by any thread; the identifier outlives the link, as its owner sees to.
unsafe impl Send for Link {}

impl Link {
    /// Makes a queue pair for an identifier that is bound to a device, and posts its receives.
    ///
    /// # Safety
    /// The identifier outlives the link.
    pub unsafe fn new(id: &Id, settings: &mut Settings, table: u16) -> Result<Self, Errno> {
        // SAFETY: the identifier's device is open.
        let device = unsafe { verbs::query_device(get!(id.verbs)) }?;
        settings.fit(u32::try_from(device.max_qp_wr).unwrap_or(0));
        create_cq(id, settings)?;
        let made = create_pair(id, settings)
            // SAFETY: the caller's promise.
            .and_then(|inline| unsafe { Self::with_buffers(id, settings, inline, table) });
        // Without the queue pair the completion queue is not destroyed with it.
        made.inspect_err(|_| qp::destroy(id))
    }

    unsafe fn with_buffers(
        id: &Id,
        settings: &Settings,
        inline: u32,
        table: u16,
    ) -> Result<Self, Errno> {
        let list_bytes = TARGETS * Target::BYTES + usize::from(table) * Mapping::BYTES;
        let ring = list_bytes.next_multiple_of(super::memory::PAGE);
        let ring_bytes = settings.receive_bytes as usize;
        let send_bytes = settings.send_bytes as usize;
        let exposed = Region::exposed(ring + ring_bytes)?;
        let outgoing_bytes = send_bytes + CONTROL_WORK as usize * Target::BYTES;
        let outgoing = Region::private(outgoing_bytes)?;
        let pd = get!(id.pd);
        // SAFETY: the regions live as long as the registrations, beside them; the identifier keeps its domain.
        let list_key = unsafe { Registration::new(pd, exposed.at(0), list_bytes, true) }?;
        // SAFETY: as above.
        let ring_key = unsafe { Registration::new(pd, exposed.at(ring), ring_bytes, true) }?;
        // SAFETY: as above.
        let outgoing_key = unsafe { Registration::new(pd, outgoing.at(0), outgoing_bytes, false) }?;
        let receive_work = settings.receive_work as u16;
        let work = settings.send_work - CONTROL_WORK;
        let channel = get!(id.recv_cq_channel);
        let mut link = Link {
            id: std::ptr::from_ref(id),
            qp: get!(id.qp),
            cq: get!(id.recv_cq),
            channel,
            // SAFETY: the identifier's channel.
            fd: unsafe { (*channel).fd },
            is_armed: false,
            inline: inline as usize,
            exposed,
            ring,
            mappings: table,
            outgoing,
            list_key,
            ring_key,
            outgoing_key,
            target: Target::default(),
            target_index: 0,
            sent: 0,
            granted_to_us: 0,
            work_free: work,
            work,
            control_free: CONTROL_WORK,
            control_slot: 0,
            send_free: send_bytes,
            send_at: 0,
            send_bytes,
            messages: VecDeque::with_capacity(usize::from(receive_work)),
            most_messages: usize::from(receive_work),
            receive_work,
            posted: 0,
            ring_bytes,
            ring_at: 0,
            ring_free: ring_bytes / 2,
            grant_at: ring_bytes / 2,
            granted: ring_bytes / 2,
            read: 0,
            credits_due: receive_work / 2,
            order: Order::HOST,
            list: Target::default(),
            list_index: 1,
            remote_table: Target::default(),
            mapped: super::iomap::Mapped::default(),
        };
        let mut receives = settings.receive_work as usize;
        while receives != 0 {
            let some = receives.min(BATCH);
            link.post_receives(some)?;
            receives -= some;
        }
        Ok(link)
    }

    /// What the other side is told when it connects.
    pub fn offer(&self) -> Offer {
        Offer {
            order: Order::HOST,
            credits: self.receive_work,
            mappings: self.mappings,
            list: Target {
                address: self.exposed.at(0) as u64,
                key: self.list_key.remote_key(),
                length: TARGETS as u32,
            },
            buffer: Target {
                address: self.exposed.at(self.ring) as u64,
                key: self.ring_key.remote_key(),
                length: (self.ring_bytes / 2) as u32,
            },
        }
    }

    /// Learns what the other side offers.
    pub fn take_offer(&mut self, offer: &Offer) {
        self.order = offer.order;
        self.list = offer.list;
        self.target = offer.buffer;
        self.granted_to_us = offer.credits;
        let entries = u64::from(offer.list.length) * Target::BYTES as u64;
        self.remote_table = Target {
            address: offer.list.address.wrapping_add(entries),
            key: offer.list.key,
            length: offer.mappings.into(),
        };
    }

    /// Bytes lie here unread.
    pub fn has_data(&self) -> bool {
        !self.messages.is_empty()
    }

    /// Something can be sent now.
    pub fn can_send(&mut self) -> bool {
        self.has_room() && self.target().length != 0
    }

    /// There is room for one more message, wherever it goes.
    pub(super) fn has_room(&self) -> bool {
        self.work_free != 0
            && self.send_free >= LOW_WATER as usize
            && self.sent != self.granted_to_us
    }

    /// A word of the connection's own can be sent.
    pub fn can_control(&self) -> bool {
        self.control_free != 0
    }

    /// Everything that was sent has arrived.
    pub fn is_drained(&self) -> bool {
        self.control_free == CONTROL_WORK && self.work_free == self.work
    }

    /// The adapter has given back every receive: nothing more can arrive.
    pub fn is_flushed(&self) -> bool {
        self.posted == 0
    }

    /// The descriptor that becomes readable after [`Link::arm`].
    pub fn fd(&self) -> RawFd {
        self.fd
    }

    /// Asks for an event at the next completion. Look at the queue once more before sleeping.
    ///
    /// One that was asked for and has not come is asked for again, which changes nothing but that the adapter hears that we are about
    /// to sleep: it leaves the queue to a program that polls, and would look for it after a millisecond only.
    pub fn arm(&mut self) -> Result<(), Errno> {
        let mut event = [super::poll::readable(self.fd)];
        if !self.is_armed || crate::system::poll_now(&mut event)? == 0 {
            // SAFETY: the link's queue.
            unsafe { verbs::request_notification(self.cq) }?;
            self.is_armed = true;
        }
        Ok(())
    }

    /// Takes the event; false if there was none.
    pub fn take_event(&mut self) -> bool {
        // SAFETY: the link's channel, which is non-blocking.
        let was_there = unsafe { verbs::take_cq_event(self.channel) };
        if was_there {
            self.is_armed = false;
        }
        was_there
    }

    /// The entry in use, or the next one if the other side has written it.
    pub(super) fn target(&mut self) -> Target {
        if self.target.length == 0 {
            let at = self.target_index * Target::BYTES;
            let length: u32 = self.exposed.read(at + 12);
            if length != 0 {
                // The length is the entry's end, and becomes visible last.
                fence(Ordering::Acquire);
                self.target = Target {
                    address: self.exposed.read(at),
                    key: self.exposed.read(at + 8),
                    length,
                };
                // The other side writes it again only when this buffer is full.
                self.exposed.write(at + 12, 0u32);
            }
        }
        self.target
    }

    /// Sends the next bytes of `source`, at most `most`, and says how many. [`Link::can_send`] was true.
    pub fn send(&mut self, source: &mut Vectors<'_>, most: usize) -> Result<usize, Errno> {
        let target = self.target();
        let length = most
            .min(source.left())
            .min(self.send_free)
            .min(target.length as usize);
        let place = self.place(source, length);
        let bytes = length as u32;
        self.target.address = target.address.wrapping_add(length as u64);
        self.target.length -= bytes;
        if self.target.length == 0 {
            self.target_index = (self.target_index + 1) % TARGETS;
        }
        self.sent = self.sent.wrapping_add(1);
        self.work_free -= 1;
        self.send_free -= length;
        self.post(place, Word::Data(bytes), target.address, target.key)?;
        Ok(length)
    }

    /// Writes the next bytes of `source` into a mapped buffer of the other side's, which learns nothing of it.
    pub(super) fn write_direct(
        &mut self,
        source: &mut Vectors<'_>,
        most: usize,
        address: u64,
        key: u32,
    ) -> Result<usize, Errno> {
        let length = most.min(source.left()).min(self.send_free);
        let place = self.place(source, length);
        self.work_free -= 1;
        self.send_free -= length;
        self.post(place, Word::Direct(length as u32), address, key)?;
        Ok(length)
    }

    /// Writes an entry into the other side's table of mapped buffers. [`Link::has_room`] was true.
    pub(super) fn write_mapping(&mut self, index: u16, mapping: Mapping) -> Result<(), Errno> {
        let bytes = mapping.to_bytes(self.order);
        let list = [libc::iovec {
            iov_base: bytes.as_ptr().cast_mut().cast(),
            iov_len: bytes.len(),
        }];
        // SAFETY: the bytes live during the call; they are only read.
        let mut source = unsafe { Vectors::new(&list) }?;
        let place = self.place(&mut source, Mapping::BYTES);
        let offset = u64::from(index) * Mapping::BYTES as u64;
        let address = self.remote_table.address.wrapping_add(offset);
        self.sent = self.sent.wrapping_add(1);
        self.work_free -= 1;
        self.send_free -= Mapping::BYTES;
        self.post(place, Word::Mapped(index), address, self.remote_table.key)
    }

    /// An entry of our table of mapped buffers, as the other side wrote it.
    pub(super) fn mapping(&self, index: u16) -> Mapping {
        let at = TARGETS * Target::BYTES + usize::from(index) * Mapping::BYTES;
        Mapping {
            offset: self.exposed.read(at),
            buffer: Target {
                address: self.exposed.read(at + 8),
                key: self.exposed.read(at + 16),
                length: self.exposed.read(at + 20),
            },
        }
    }

    /// Entries of our table.
    pub(super) fn mappings(&self) -> u16 {
        self.mappings
    }

    /// Brings bytes to where they are sent from: the program's own place if they go with the request, otherwise our buffer,
    /// in one piece or around its end.
    fn place(&mut self, source: &mut Vectors<'_>, length: usize) -> Place {
        let element = |address: *const u8, length: usize, lkey| ibv_sge {
            addr: address as u64,
            length: length as u32,
            lkey,
        };
        let is_inline = length <= self.inline;
        if is_inline && let Some(address) = source.take_whole(length) {
            return Place {
                elements: [element(address, length, 0), ibv_sge::default()],
                count: 1,
                is_inline,
            };
        }
        let key = self.outgoing_key.local_key();
        let first = length.min(self.send_bytes - self.send_at);
        let (start, second) = (self.outgoing.at(self.send_at), length - first);
        source.copy_to(start, first);
        let mut place = Place {
            elements: [element(start, first, key), ibv_sge::default()],
            count: 1,
            is_inline,
        };
        if second != 0 {
            source.copy_to(self.outgoing.at(0), second);
            place.elements[1] = element(self.outgoing.at(0), second, key);
            place.count = 2;
        }
        self.send_at = (self.send_at + length) % self.send_bytes;
        place
    }

    /// Tells the other side something of the connection. [`Link::can_control`] was true.
    pub fn control(&mut self, control: Control) -> Result<(), Errno> {
        self.control_free -= 1;
        self.post(Place::default(), Word::Control(control), 0, 0)
    }

    /// An empty WRITE without a word: it is answered if the other side's adapter is there. [`Link::can_control`] was true.
    pub fn probe(&mut self) -> Result<(), Errno> {
        self.control_free -= 1;
        let word = Word::Control(Control::KeepAlive);
        self.request(Place::default(), IBV_WR_RDMA_WRITE, word, 0, 0)
    }

    /// Grants what is due: a free half of the ring, and messages that have been read.
    pub fn grant(&mut self) -> Result<(), Errno> {
        let half = self.ring_bytes / 2;
        let has_buffer = self.ring_free >= half;
        let has_credits = self.read.wrapping_sub(self.credits_due).cast_signed() >= 0;
        if self.control_free == 0 || !(has_buffer || has_credits) {
            return Ok(());
        }
        self.credits_due = self.read.wrapping_add(self.receive_work / 2);
        let word = Word::Credits(self.read.wrapping_add(self.receive_work));
        if !has_buffer {
            self.control_free -= 1;
            return self.post(Place::default(), word, 0, 0);
        }
        let entry = Target {
            address: self.exposed.at(self.ring + self.grant_at) as u64,
            key: self.ring_key.remote_key(),
            length: half as u32,
        };
        let address = (self.list.address)
            .wrapping_add(u64::from(self.list_index).wrapping_mul(Target::BYTES as u64));
        self.list_index = (self.list_index + 1) % self.list.length.max(1);
        self.ring_free -= half;
        self.granted += half;
        self.grant_at = (self.grant_at + half) % (2 * half);
        self.post_entry(&entry.to_bytes(self.order), word, address)
    }

    fn post_entry(&mut self, entry: &[u8; 16], word: Word, address: u64) -> Result<(), Errno> {
        let is_inline = self.inline >= entry.len();
        let mut element = ibv_sge {
            addr: entry.as_ptr() as u64,
            length: entry.len() as u32,
            lkey: 0,
        };
        if !is_inline {
            // As many places as words that may be under way; they complete in order.
            self.control_slot = (self.control_slot + 1) % CONTROL_WORK as usize;
            let at = self.send_bytes + self.control_slot * entry.len();
            for (index, byte) in entry.iter().enumerate() {
                self.outgoing.write(at + index, *byte);
            }
            element.addr = self.outgoing.at(at) as u64;
            element.lkey = self.outgoing_key.local_key();
        }
        self.control_free -= 1;
        let place = Place {
            elements: [element, ibv_sge::default()],
            count: 1,
            is_inline,
        };
        self.post(place, word, address, self.list.key)
    }

    fn post(&self, place: Place, word: Word, address: u64, key: u32) -> Result<(), Errno> {
        let opcode = match word {
            Word::Direct(_) => IBV_WR_RDMA_WRITE,
            _ => IBV_WR_RDMA_WRITE_WITH_IMM,
        };
        self.request(place, opcode, word, address, key)
    }

    fn request(
        &self,
        mut place: Place,
        opcode: ibv_wr_opcode,
        word: Word,
        address: u64,
        key: u32,
    ) -> Result<(), Errno> {
        // SAFETY: zeros are NULL and 0.
        let mut request: ibv_send_wr = unsafe { std::mem::zeroed() };
        request.wr_id = word.to_bits().into();
        request.sg_list = place.elements.as_mut_ptr();
        request.num_sge = place.count;
        request.opcode = opcode;
        if place.is_inline {
            request.send_flags = IBV_SEND_INLINE;
        }
        request.__bindgen_anon_1.imm_data = word.to_bits().to_be();
        request.wr.rdma = ibv_send_wr__bindgen_ty_2__bindgen_ty_1 {
            remote_addr: address,
            rkey: key,
        };
        // SAFETY: the link's queue pair; the elements live during the call, and what they name until it completes.
        unsafe { verbs::post_send(self.qp, &mut request) }
    }

    /// Posts up to `BATCH` receives, which are empty: a word brings everything.
    fn post_receives(&mut self, count: usize) -> Result<(), Errno> {
        if count == 0 {
            return Ok(());
        }
        let mut chain = [ibv_recv_wr {
            wr_id: IS_RECEIVE,
            next: std::ptr::null_mut(),
            sg_list: std::ptr::null_mut(),
            num_sge: 0,
        }; BATCH];
        let first = chain.as_mut_ptr();
        for index in 1..count.min(BATCH) {
            chain[index - 1].next = first.wrapping_add(index);
        }
        // SAFETY: the link's queue pair, and a chain that lives during the call.
        unsafe { verbs::post_recv(self.qp, first) }?;
        self.posted += count.min(BATCH);
        Ok(())
    }

    /// Takes what completed. `is_open` says that words may still come.
    pub fn poll(&mut self, is_open: bool) -> Heard {
        let mut heard = Heard::default();
        let mut places = [ibv_wc::default(); BATCH];
        loop {
            // SAFETY: the link's queue.
            let count = match unsafe { verbs::poll_cq(self.cq, &mut places) } {
                Ok(count) => count,
                Err(error) => {
                    heard.failure = Some(error);
                    return heard;
                }
            };
            let mut receives = 0;
            for completion in &places[..count] {
                if completion.wr_id & IS_RECEIVE != 0 {
                    self.posted = self.posted.saturating_sub(1);
                    receives += self.received(completion, &mut heard);
                } else {
                    self.completed(completion, &mut heard);
                }
            }
            if is_open
                && !heard.disconnect
                && heard.failure.is_none()
                && let Err(error) = self.post_receives(receives)
            {
                heard.failure = Some(error);
            }
            if count < BATCH {
                return heard;
            }
        }
    }

    /// A word came; 1 if its receive must be posted again.
    fn received(&mut self, completion: &ibv_wc, heard: &mut Heard) -> usize {
        if completion.status != IBV_WC_SUCCESS {
            // What came before is here; nothing else will come.
            heard.failure.get_or_insert(libc::ECONNRESET);
            return 0;
        }
        // SAFETY: both members are 32 bits.
        let bits = u32::from_be(unsafe { completion.__bindgen_anon_1.imm_data });
        match Word::from_bits(bits) {
            Word::Data(length) => {
                let is_granted = length as usize <= self.granted;
                if !is_granted || self.messages.len() >= self.most_messages {
                    heard.failure = Some(libc::EPROTO);
                    return 0;
                }
                self.granted -= length as usize;
                if length == 0 {
                    self.read = self.read.wrapping_add(1);
                } else {
                    self.messages.push_back(length);
                    heard.data = true;
                }
            }
            Word::Credits(last) => self.granted_to_us = last,
            // It took one of the other side's credits.
            Word::Mapped(_) => self.read = self.read.wrapping_add(1),
            Word::Control(Control::Disconnect) => heard.disconnect = true,
            Word::Control(Control::Shutdown) => heard.shutdown = true,
            Word::Control(_) => {}
            Word::Direct(_) | Word::Unknown(_) => heard.failure = Some(libc::EPROTO),
        }
        1
    }

    fn completed(&mut self, completion: &ibv_wc, heard: &mut Heard) {
        let word = Word::from_bits(completion.wr_id as u32);
        match word {
            Word::Data(bytes) | Word::Direct(bytes) => {
                self.work_free += 1;
                self.send_free += bytes as usize;
            }
            Word::Mapped(_) => {
                self.work_free += 1;
                self.send_free += Mapping::BYTES;
            }
            Word::Credits(_) | Word::Control(_) => self.control_free += 1,
            Word::Unknown(_) => {}
        }
        let status = completion.status;
        if status != IBV_WC_SUCCESS {
            heard.failure.get_or_insert(match status {
                // Nobody answers any more.
                IBV_WC_RETRY_EXC_ERR | IBV_WC_RNR_RETRY_EXC_ERR | IBV_WC_WR_FLUSH_ERR => {
                    libc::ECONNRESET
                }
                _ => libc::EIO,
            });
        } else if word == Word::Control(Control::Disconnect) {
            heard.disconnect = true;
        }
    }

    /// Copies unread bytes into the program's buffers, and says how many. With `peek` they stay unread.
    pub fn receive(&mut self, sink: &mut Vectors<'_>, peek: bool) -> usize {
        let mut at = self.ring_at;
        let mut total = 0;
        for index in 0.. {
            let message = if peek { index } else { 0 };
            let Some(length) = self.messages.get_mut(message) else {
                break;
            };
            let wanted = sink.left();
            if wanted == 0 {
                break;
            }
            let part = (*length as usize).min(wanted);
            let is_whole = part == *length as usize;
            if !peek {
                *length -= part as u32;
            }
            let first = part.min(self.ring_bytes - at);
            sink.copy_from(self.exposed.at(self.ring + at), first);
            sink.copy_from(self.exposed.at(self.ring), part - first);
            at = (at + part) % self.ring_bytes;
            total += part;
            if !peek && is_whole {
                self.messages.pop_front();
                self.read = self.read.wrapping_add(1);
            }
        }
        if !peek {
            self.ring_at = at;
            self.ring_free += total;
        }
        total
    }

    /// The protection domain, for mapped buffers.
    pub(super) fn domain(&self) -> *mut ibv_pd {
        // SAFETY: the identifier outlives the link.
        let id = unsafe { &*self.id };
        get!(id.pd)
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        // The queue pair goes before the memory that it works on.
        // SAFETY: the identifier outlives the link.
        qp::destroy(unsafe { &*self.id });
    }
}

/// Where the bytes of a request lie.
#[derive(Default)]
struct Place {
    elements: [ibv_sge; 2],
    count: i32,
    is_inline: bool,
}

/// One completion queue for both directions, whose events never make a thread wait in the channel itself.
fn create_cq(id: &Id, settings: &Settings) -> Result<(), Errno> {
    let (channel, cq) = qp::create_cq(id, settings.send_work + settings.receive_work)?;
    set!(id.recv_cq_channel = channel);
    set!(id.recv_cq = cq);
    set!(id.send_cq_channel = channel);
    set!(id.send_cq = cq);
    // SAFETY: the channel was just made.
    super::wait::set_nonblocking(unsafe { (*channel).fd }).inspect_err(|_| qp::destroy(id))
}

/// The queue pair; what goes inline in it.
fn create_pair(id: &Id, settings: &Settings) -> Result<u32, Errno> {
    let mut attr = ibv_qp_init_attr {
        send_cq: get!(id.send_cq),
        recv_cq: get!(id.recv_cq),
        qp_type: IBV_QPT_RC,
        sq_sig_all: 1,
        cap: ibv_qp_cap {
            max_send_wr: settings.send_work,
            max_recv_wr: settings.receive_work,
            max_send_sge: 2,
            max_recv_sge: 1,
            max_inline_data: settings.inline,
        },
        ..Default::default()
    };
    // SAFETY: the queues are the identifier's.
    unsafe { qp::create_plain(id, std::ptr::null_mut(), &mut attr) }?;
    Ok(attr.cap.max_inline_data)
}
