//! A datagram socket's queue pairs, and the ways to those of others.

use super::address::{canonical, to_storage};
use super::{GRH, IS_RECEIVE, SLOT};
use crate::boundary::{Errno, object};
use crate::id::{get, set};
use crate::rsocket::connect::OwnedId;
use crate::rsocket::memory::{Region, Registration, Vectors};
use crate::rsocket::poll::readable;
use crate::rsocket::settings::Settings;
use crate::rsocket::wait::set_nonblocking;
use crate::rsocket::wire::Sender;
use crate::sys::RDMA_UDP_QKEY;
use crate::{qp, resolve, system, verbs};
use ferriband_verbs_sys::*;
use libc::c_int;
use std::net::SocketAddr;
use std::os::fd::RawFd;
use std::time::Instant;

/// What finding the path to another socket may take.
const PATH_TIMEOUT_MS: c_int = 2000;
/// Entries of a GID table that are searched.
const GIDS: c_int = 256;

/// A queue pair of another socket.
pub struct Remote {
    /// The way to it.
    pub handle: AddressHandle,
    /// Its number.
    pub number: u32,
    /// When it was named last.
    pub learned: Instant,
}

/// The way to another socket.
pub struct AddressHandle(*mut ibv_ah);

// SAFETY: libibverbs' objects may be used by any thread.
unsafe impl Send for AddressHandle {}

impl Drop for AddressHandle {
    fn drop(&mut self) {
        // SAFETY: it is ours, and what was sent with it has kept what it needs.
        unsafe { verbs::ibv_destroy_ah(self.0) };
    }
}

/// A queue pair for one local address.
pub struct Pair {
    /// The address.
    pub local: SocketAddr,
    qp: *mut ibv_qp,
    /// Of both directions.
    pub cq: *mut ibv_cq,
    /// Non-blocking.
    pub channel: *mut ibv_comp_channel,
    /// The descriptor of the channel.
    pub fd: RawFd,
    /// An event was asked for and has not been taken.
    pub is_armed: bool,
    inline: usize,
    /// Bytes that fit into a packet of its path.
    pub most: usize,
    /// Places to send from.
    pub free: Vec<usize>,
    /// All of them.
    pub slots: usize,
    outgoing: Region,
    /// Places to receive into.
    pub incoming: Region,
    grh: usize,
    /// The queue pair goes before the registrations, and they before the memory.
    keys: Option<(Registration, Registration)>,
    /// The connection manager's side.
    pub id: OwnedId,
}

// SAFETY: libibverbs' objects may be used by any thread.
unsafe impl Send for Pair {}

impl Drop for Pair {
    fn drop(&mut self) {
        qp::destroy(self.id.get());
        self.keys = None;
    }
}

impl Pair {
    /// Makes one, with its receives.
    pub fn new(local: SocketAddr, settings: &mut Settings) -> Result<Self, Errno> {
        let id = OwnedId::for_datagrams()?;
        let pointer = id.get();
        let (storage, _) = to_storage(&canonical(local));
        // SAFETY: an address of its family.
        unsafe { resolve::bind(pointer, (&raw const storage).cast()) }?;
        if get!(pointer.verbs).is_null() {
            return Err(libc::ENODEV);
        }
        // SAFETY: the device is open.
        let device = unsafe { verbs::query_device(get!(pointer.verbs)) }?;
        settings.fit(u32::try_from(device.max_qp_wr).unwrap_or(0));
        let slots = (settings.send_work as usize).min(settings.send_bytes as usize / SLOT);
        let places = (settings.receive_work as usize).min(settings.receive_bytes as usize / SLOT);
        let (channel, cq) = qp::create_cq(pointer, (slots + places) as u32)?;
        set!(pointer.recv_cq_channel = channel);
        set!(pointer.recv_cq = cq);
        set!(pointer.send_cq_channel = channel);
        set!(pointer.send_cq = cq);
        // SAFETY: the channel was just made.
        let fd = unsafe { (*channel).fd };
        let mut pair = Pair {
            local,
            qp: std::ptr::null_mut(),
            cq,
            channel,
            fd,
            is_armed: false,
            inline: 0,
            most: SLOT,
            free: (0..slots).collect(),
            slots,
            outgoing: Region::private(slots * SLOT)?,
            incoming: Region::private(places * SLOT + GRH)?,
            grh: places * SLOT,
            keys: None,
            id,
        };
        set_nonblocking(fd)?;
        pair.create(settings, slots, places)?;
        for slot in 0..places {
            pair.post_receive(slot)?;
        }
        pair.arm()?;
        Ok(pair)
    }

    fn create(&mut self, settings: &Settings, slots: usize, places: usize) -> Result<(), Errno> {
        let id = self.id.get();
        let mut attr = ibv_qp_init_attr {
            send_cq: self.cq,
            recv_cq: self.cq,
            qp_type: IBV_QPT_UD,
            sq_sig_all: 1,
            cap: ibv_qp_cap {
                max_send_wr: slots as u32,
                max_recv_wr: places as u32,
                max_send_sge: 1,
                max_recv_sge: 2,
                max_inline_data: settings.inline,
            },
            ..Default::default()
        };
        // SAFETY: the queues are the identifier's.
        unsafe { qp::create_plain(id, std::ptr::null_mut(), &mut attr) }?;
        self.qp = get!(id.qp);
        self.inline = attr.cap.max_inline_data as usize;
        self.most = packet_bytes(self.id.get()).min(SLOT);
        let pd = get!(id.pd);
        // SAFETY: the regions live as long as the registrations, beside them.
        let outgoing = unsafe { Registration::new(pd, self.outgoing.at(0), slots * SLOT, false) }?;
        let length = places * SLOT + GRH;
        // SAFETY: as above.
        let incoming = unsafe { Registration::new(pd, self.incoming.at(0), length, false) }?;
        self.keys = Some((outgoing, incoming));
        Ok(())
    }

    /// Its number.
    pub fn number(&self) -> u32 {
        // SAFETY: the pair's queue pair.
        unsafe { (*self.qp).qp_num }
    }

    /// What its datagrams begin with.
    pub fn sender(&self) -> Sender {
        Sender {
            address: self.local.ip(),
            port: self.local.port(),
            flow: match self.local {
                SocketAddr::V4(_) => 0,
                SocketAddr::V6(address) => address.flowinfo(),
            },
        }
    }

    /// Makes a place free for what comes.
    pub fn post_receive(&self, slot: usize) -> Result<(), Errno> {
        let key = self.keys.as_ref().ok_or(libc::EINVAL)?.1.local_key();
        let element = |offset, length| ibv_sge {
            addr: self.incoming.at(offset) as u64,
            length: length as u32,
            lkey: key,
        };
        // The header of the network is not looked at: one place is enough for all.
        let mut list = [element(self.grh, GRH), element(slot * SLOT, SLOT)];
        let mut request = ibv_recv_wr {
            wr_id: IS_RECEIVE | slot as u64,
            next: std::ptr::null_mut(),
            sg_list: list.as_mut_ptr(),
            num_sge: 2,
        };
        // SAFETY: the pair's queue pair and memory.
        unsafe { verbs::post_recv(self.qp, &raw mut request) }
    }

    /// Sends the next datagram from a free place, which there is.
    pub fn send(&mut self, source: &mut Vectors<'_>, remote: &Remote) -> Result<(), Errno> {
        let slot = self.free.pop().ok_or(libc::EAGAIN)?;
        let (header, before) = self.sender().to_bytes();
        let place = self.outgoing.at(slot * SLOT);
        for (index, byte) in header[..before].iter().enumerate() {
            self.outgoing.write(slot * SLOT + index, *byte);
        }
        let length = before + source.left();
        source.copy_to(place.wrapping_add(before), source.left());
        let key = self.keys.as_ref().ok_or(libc::EINVAL)?.0.local_key();
        let mut element = ibv_sge {
            addr: place as u64,
            length: length as u32,
            lkey: key,
        };
        // SAFETY: zeros are NULL and 0.
        let mut request: ibv_send_wr = unsafe { std::mem::zeroed() };
        request.wr_id = slot as u64;
        request.sg_list = &raw mut element;
        request.num_sge = 1;
        request.opcode = IBV_WR_SEND;
        if length <= self.inline {
            request.send_flags = IBV_SEND_INLINE;
        }
        request.wr.ud = ibv_send_wr__bindgen_ty_2__bindgen_ty_3 {
            ah: remote.handle.0,
            remote_qpn: remote.number,
            remote_qkey: RDMA_UDP_QKEY,
        };
        // SAFETY: the pair's queue pair and memory, and an address handle of its domain.
        unsafe { verbs::post_send(self.qp, &mut request) }.inspect_err(|_| self.free.push(slot))
    }

    /// Asks for an event at the next completion; again if it has not come, so that the adapter hears that we are about to sleep.
    pub fn arm(&mut self) -> Result<(), Errno> {
        let mut event = [readable(self.fd)];
        if !self.is_armed || system::poll_now(&mut event)? == 0 {
            // SAFETY: the pair's queue.
            unsafe { verbs::request_notification(self.cq) }?;
            self.is_armed = true;
        }
        Ok(())
    }
}

/// Bytes of a datagram that a packet of the identifier's port carries.
fn packet_bytes(id: &crate::id::Id) -> usize {
    let mut attr = ibv_port_attr::default();
    // SAFETY: the device is open, and the attributes' place lives during the call; the function fills in the beginning that
    // it knows.
    let failed =
        unsafe { verbs::ibv_query_port(get!(id.verbs), get!(id.port_num), (&raw mut attr).cast()) };
    match (failed, attr.active_mtu) {
        (0, mtu @ 1..=5) => 128 << mtu,
        _ => 256,
    }
}

impl Pair {
    /// Our header in front of a received datagram, and its length.
    pub fn header(&self, slot: usize, length: usize) -> Option<(Sender, usize)> {
        let mut bytes = [0; Sender::MOST_BYTES];
        let count = length.min(bytes.len());
        for (index, byte) in bytes[..count].iter_mut().enumerate() {
            *byte = self.incoming.read(slot * SLOT + index);
        }
        Sender::parse(&bytes[..count])
    }
}

/// The way to another socket's queue pair, as the connection manager finds it.
pub fn find_path(
    local: SocketAddr,
    to: SocketAddr,
    context: *mut ibv_context,
    pd: *mut ibv_pd,
) -> Result<AddressHandle, Errno> {
    let id = OwnedId::for_datagrams()?;
    let pointer = id.get();
    let mut from = canonical(local);
    from.set_port(0);
    let ((from, _), (to, _)) = (to_storage(&from), to_storage(&canonical(to)));
    // SAFETY: addresses of their families.
    unsafe {
        resolve::resolve_address(
            pointer,
            (&raw const from).cast(),
            (&raw const to).cast(),
            PATH_TIMEOUT_MS,
        )
    }?
    .complete(pointer)?;
    resolve::resolve_route(pointer, PATH_TIMEOUT_MS)?.complete(pointer)?;
    let (list, port) = (get!(pointer.route.path_rec), get!(pointer.port_num));
    // SAFETY: the identifier's records, of which there is one now.
    let path = unsafe { list.as_ref() }.ok_or(libc::EHOSTUNREACH)?;
    let mut attr = ibv_ah_attr {
        dlid: u16::from_be(path.dlid),
        sl: path.sl,
        static_rate: path.rate,
        port_num: port,
        ..Default::default()
    };
    if path.hop_limit > 1 || path.dlid == 0 {
        attr.is_global = 1;
        attr.grh = ibv_global_route {
            dgid: path.dgid,
            flow_label: u32::from_be(path.flow_label),
            sgid_index: gid_index(context, port, &path.sgid),
            hop_limit: path.hop_limit,
            traffic_class: path.traffic_class,
        };
    }
    // SAFETY: the pair's domain, and attributes that live during the call.
    object(unsafe { verbs::ibv_create_ah(pd, &raw mut attr) }).map(AddressHandle)
}

fn gid_index(context: *mut ibv_context, port: u8, wanted: &ibv_gid) -> u8 {
    let found = (0..GIDS).find(|index| {
        let mut gid = ibv_gid { raw: [0; 16] };
        // SAFETY: the device is open, and the GID's place lives during the call.
        let failed = unsafe { verbs::ibv_query_gid(context, port, *index, &raw mut gid) };
        // SAFETY: all members of a GID are the same 16 bytes.
        failed == 0 && unsafe { gid.raw == wanted.raw }
    });
    found.unwrap_or(0) as u8
}
