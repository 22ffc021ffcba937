//! An adapter of this process that is open, and what is made of it for all peers: what is lost with
//! it, and made anew when it is opened again.
//!
//! Owns: protection domain, completion queue, shared receives, the datagram queue pair of each
//! port, keys of the runtime's own memory and of the program's, which rank is behind which queue
//! pair. Must not know: which adapter a connection uses ([`super::heal`]).

use super::errors::{NoBuffers, failed, refused};
use super::memory::{Area, Buffers, Reach};
use super::numbers::Numbers;
use super::receive::{BATCH, Receives};
use super::{DATAGRAMS, GRH, Id, MOST_DATAGRAMS, MOST_RECEIVES, lane};
use crate::errors::Outcome;
use ferriband_heal::datagram::DATAGRAM;
use ferriband_heal::{AdapterId, Source};
use ferriband_ibv::{
    Access, CompChannel, Context, Cq, DeviceLimits, Gid, LinkLayer, Mr, Mtu, Pd, PortState, QKey,
    Qp, QpCaps, QpInit, QpState, QpType, RecvWr, Srq, Verbs, VerbsError, Wc,
};
use ferriband_registration::Way as Registration;
use std::collections::VecDeque;
use std::sync::Arc;

/// Ports of an adapter that are used at most.
const MOST_PORTS: u8 = 4;

/// What all adapters of a process have in common.
#[derive(Clone, Copy)]
pub struct Common {
    pub(super) verbs: &'static Verbs,
    pub(super) is_ethernet: bool,
    /// They are ours, on Ethernet: what goes to other hosts they cut into packets themselves.
    pub(super) makes_packets: bool,
    /// There may be lanes: completions of theirs have room.
    pub(super) has_lanes: bool,
    /// Bytes of a receive buffer.
    pub(super) receive: u32,
    /// How long a request waits for an answer before it is repeated, as verbs code it.
    pub(super) timeout: u8,
    /// How the program's memory is registered.
    pub(super) registration: Registration,
    /// Ranks of the world.
    pub(super) ranks: u32,
    /// Key of the job's datagram queue pairs.
    pub(super) key: QKey,
}

/// The runtime's own memory that each adapter knows.
#[derive(Clone, Copy)]
pub struct Own<'a> {
    /// Staging buffers.
    pub(super) stages: &'a Area,
    /// The words that take credit.
    pub(super) returns: &'a Area,
}

/// An adapter, as it was opened.
pub struct Device {
    pub(super) context: Arc<Context>,
    pub(super) name: String,
    pub(super) limits: DeviceLimits,
    pub(super) makes_packets: bool,
    /// Bytes of a receive buffer.
    pub(super) receive: u32,
    pub(super) timeout: u8,
    pub(super) pd: Arc<Pd>,
    pub(super) channel: Arc<CompChannel>,
    pub(super) cq: Arc<Cq>,
    /// Completions that it holds.
    pub(super) entries: u32,
}

/// What a port is like.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Face {
    pub(super) is_active: bool,
    pub(super) gid_index: u8,
    pub(super) gid: Gid,
    pub(super) lid: u16,
    /// As many low bits of the LID lead to the port all the same.
    pub(super) lmc: u8,
    pub(super) mtu: Mtu,
}

/// A port, and its queue pair of datagrams.
pub struct Port {
    pub(super) number: u8,
    /// What it was like when that was last asked.
    pub(super) face: Face,
    pub(super) ud: Arc<Qp>,
    pub(super) datagrams: Buffers,
    /// Datagrams that are under way from here.
    pub(super) under_way: u32,
    /// Receives of datagrams that the queue pair has given back, since it has failed.
    pub(super) flushed: u32,
}

/// An adapter and what is made of it.
pub struct Rail {
    pub(super) id: AdapterId,
    /// How often it was opened.
    pub(super) opening: u32,
    /// Its queues may be polled. One that has failed stays here, and is not polled, until it is
    /// opened again.
    pub(super) is_open: bool,
    /// It is closed as soon as nothing lives on it.
    pub(super) is_closing: bool,
    pub(super) receives: Receives,
    pub(super) numbers: Numbers,
    pub(super) ports: Vec<Port>,
    /// The port of its echo, and the number of the echo's queue pair; none: nobody echoes.
    pub(super) echo: Option<(u8, u32)>,
    /// The program's memory.
    pub(super) reach: Reach,
    /// By what it knows the staging buffers.
    pub(super) stages: Arc<Mr>,
    /// By what it knows the words that take credit.
    pub(super) returns: Arc<Mr>,
    pub(super) device: Device,
}

impl Rail {
    /// Makes of an open device what all peers share.
    pub(super) fn new(
        context: Arc<Context>,
        (id, opening): (AdapterId, u32),
        common: &Common,
        own: Own<'_>,
    ) -> Outcome<Self> {
        let device = Device::new(context, common)?;
        let name = &device.name;
        let memory = |error: NoBuffers| error.of(name);
        let returned = Access::LOCAL_WRITE | Access::REMOTE_WRITE;
        let stages = own.stages.register(&device.pd, Access::LOCAL_WRITE);
        let returns = own.returns.register(&device.pd, returned);
        let reach = Reach::new(&device.pd, &device.limits, common.registration)
            .map_err(|error| refused("watch memory (userfaultfd)", name, &error))?;
        let ports = 1..=device.limits.ports.clamp(1, MOST_PORTS);
        let ports = ports.map(|number| Port::new(&device, number, common));
        Ok(Self {
            id,
            opening,
            is_open: true,
            is_closing: false,
            receives: Receives::new(&device)?,
            numbers: Numbers::default(),
            ports: ports.collect::<Outcome<_>>()?,
            echo: None,
            reach,
            stages: stages.map_err(memory)?,
            returns: returns.map_err(memory)?,
            device,
        })
    }

    /// Number of the queue pair of the echo that answers by this port; 0: none does.
    pub(super) fn echo_at(&self, port: u8) -> u32 {
        let echo = self.echo.filter(|(at, _)| *at == port);
        echo.map_or(0, |(_, number)| number)
    }

    /// The port of this number.
    pub(super) fn port(&self, number: u8) -> Option<&Port> {
        self.ports.get(usize::from(number.checked_sub(1)?))
    }

    /// The port of this number.
    pub(super) fn port_mut(&mut self, number: u8) -> Option<&mut Port> {
        self.ports.get_mut(usize::from(number.checked_sub(1)?))
    }

    /// Where paths may leave by the port of this number.
    pub(super) fn source(&self, port: &Port, is_ethernet: bool, is_suspect: bool) -> Source {
        Source {
            adapter: self.id,
            port: port.number,
            sgid_index: port.face.gid_index,
            is_ethernet,
            mtu: port.face.mtu.to_c() as u8,
            is_suspect,
            lmc: port.face.lmc,
        }
    }

    /// The most receives that may be posted.
    pub(super) fn most_receives(&self) -> u32 {
        MOST_RECEIVES.min(self.device.limits.max_srq_wr)
    }

    /// Posts receives that were not posted before, until `count` are in use, and asks to be told
    /// when few are left.
    pub(super) fn more_receives(&mut self, count: u32) -> Outcome {
        let most = self.most_receives();
        let receives = &mut self.receives;
        receives
            .spent
            .extend(receives.used..count.max(receives.used));
        receives.used = receives.used.max(count);
        self.give_back()?;
        if self.receives.used < most {
            self.receives
                .srq
                .arm_limit(self.receives.used / 4)
                .map_err(|error| failed(&self.device.name, error))?;
        }
        Ok(())
    }

    /// Twice as many receives, if there may be more.
    pub(super) fn double_receives(&mut self) -> Outcome {
        let most = self.most_receives();
        if self.receives.used < most {
            self.more_receives((self.receives.used * 2).min(most))
        } else {
            Ok(())
        }
    }

    /// Posts receive buffers that have been read again.
    #[inline]
    pub(super) fn give_back(&mut self) -> Outcome {
        while let Some(index) = self.receives.spent.last().copied() {
            let elements = [self.receives.buffers.element(index, self.device.receive)];
            let mut receive = RecvWr::new(Id::Receive(index).code(), &elements);
            self.receives
                .srq
                .post_recv(&mut receive)
                .map_err(|error| failed(&self.device.name, error))?;
            self.receives.spent.pop();
        }
        Ok(())
    }

    /// Posts the receive of a datagram at this port again.
    pub(super) fn listen(&self, port: u8, index: u32) -> Outcome {
        let Some(port) = self.port(port) else {
            return Ok(());
        };
        port.post(index)
            .map_err(|error| failed(&self.device.name, error))
    }

    /// The queue pair of datagrams, if it has failed and given back all requests, begins anew under
    /// its number, which others know. Datagrams that were under way are lost, as any may be.
    pub(super) fn listen_anew(&mut self, port: u8, key: QKey) -> Outcome {
        let Some(port) = self.port_mut(port) else {
            return Ok(());
        };
        if port.flushed < DATAGRAMS || port.under_way != 0 {
            return Ok(());
        }
        port.flushed = 0;
        let begun = port.ud.stop(QpState::Reset);
        let begun = begun.and_then(|()| port.begin(key));
        begun.map_err(|error| failed(&self.device.name, error))
    }
}

impl Device {
    fn new(context: Arc<Context>, common: &Common) -> Outcome<Self> {
        let name = context.device().name();
        let verb = |error| failed(&name, error);
        let limits = context.limits().map_err(verb)?;
        let pd = Pd::alloc(&context).map_err(verb)?;
        let channel = CompChannel::create(&context).map_err(verb)?;
        channel.set_nonblocking().map_err(verb)?;
        context.set_nonblocking().map_err(verb)?;
        let lanes = if common.has_lanes {
            common.ranks.min(lane::MOST)
        } else {
            0
        };
        let ports = u32::from(limits.ports.clamp(1, MOST_PORTS));
        // Room for every completion that there can be: all receives, and all requests of all peers
        // once they fail.
        let entries = (MOST_RECEIVES + ports * (DATAGRAMS + MOST_DATAGRAMS))
            .saturating_add(common.ranks.saturating_mul(super::queue::DEPTH))
            .saturating_add(lanes * 2 * lane::DEPTH)
            .min(limits.max_cqe);
        let cq = Cq::create(&context, entries, Some(&channel), 0).map_err(verb)?;
        Ok(Self {
            limits,
            makes_packets: common.makes_packets,
            receive: common.receive,
            timeout: common.timeout,
            pd,
            channel,
            cq,
            entries,
            name,
            context,
        })
    }

    /// What a port is like now. One that has no address is not active.
    ///
    /// # Errors
    ///
    /// It cannot be asked, or is active and its addresses cannot.
    pub(super) fn face(&self, number: u8, common: &Common) -> Result<Face, VerbsError> {
        let port = self.context.port(number)?;
        let is_ethernet = port.link_layer == LinkLayer::Ethernet;
        let gid = best_gid(&self.context, &self.name, (number, port.gids), is_ethernet);
        let is_alike = is_ethernet == common.is_ethernet;
        let may_be_active = port.state == PortState::Active && is_alike;
        let gid = match gid {
            Err(error) if may_be_active => return Err(error),
            gid => gid.ok().flatten(),
        };
        let (gid_index, gid) = gid.unwrap_or_default();
        Ok(Face {
            is_active: may_be_active && gid != Gid::default(),
            gid_index,
            gid,
            lid: port.lid.0,
            lmc: port.lmc,
            mtu: port.active_mtu,
        })
    }
}

impl Receives {
    fn new(device: &Device) -> Outcome<Self> {
        let most = MOST_RECEIVES.min(device.limits.max_srq_wr);
        let srq = Srq::create(&device.pd, most, 1, 0).map_err(|e| failed(&device.name, e))?;
        let access = if device.limits.on_demand {
            Access::LOCAL_WRITE | Access::ON_DEMAND
        } else {
            Access::LOCAL_WRITE
        };
        let name = c"ferriband-mpi-receive";
        let buffers = Buffers::new(&device.pd, name, most, device.receive, access);
        Ok(Self {
            srq,
            buffers: buffers.map_err(|error| error.of(&device.name))?,
            used: 0,
            spent: Vec::new(),
            parked: VecDeque::new(),
            batch: Box::new([Wc::default(); BATCH]),
            looked: 0..0,
        })
    }
}

impl Port {
    fn new(device: &Device, number: u8, common: &Common) -> Outcome<Self> {
        let size = GRH + DATAGRAM as u32;
        let access = Access::LOCAL_WRITE;
        let name = c"ferriband-mpi-setup";
        let datagrams = Buffers::new(&device.pd, name, DATAGRAMS, size, access)
            .map_err(|error| error.of(&device.name))?;
        let caps = QpCaps {
            send_wr: MOST_DATAGRAMS,
            recv_wr: DATAGRAMS,
            send_sge: 1,
            recv_sge: 1,
            inline: DATAGRAM as u32,
        };
        let init = QpInit {
            caps,
            ..QpInit::new(QpType::Ud, &device.cq, &device.cq)
        };
        let ud = Qp::create(&device.pd, &init).map_err(|error| failed(&device.name, error))?;
        let face = device.face(number, common);
        let port = Self {
            number,
            face: face.map_err(|error| failed(&device.name, error))?,
            ud,
            datagrams,
            under_way: 0,
            flushed: 0,
        };
        port.begin(common.key)
            .map_err(|error| failed(&device.name, error))?;
        Ok(port)
    }

    /// From RESET on. A queue pair that fails on the way gives its receives back, and begins anew
    /// then, as behind any later failure ([`Rail::listen_anew`]).
    fn begin(&self, key: QKey) -> Result<(), VerbsError> {
        let begun = self.ud.init_ud(self.number, 0, key);
        if begun.is_err() && !has_failed(&self.ud) {
            return begun;
        }
        for index in 0..DATAGRAMS {
            self.post(index)?;
        }
        match begun.and_then(|()| self.ud.ready_ud(0)) {
            Err(_) if has_failed(&self.ud) => Ok(()),
            begun => begun,
        }
    }

    fn post(&self, index: u32) -> Result<(), VerbsError> {
        let elements = [self.datagrams.element(index, GRH + DATAGRAM as u32)];
        let id = Id::Datagram(self.number, index).code();
        self.ud.post_recv(&mut RecvWr::new(id, &elements))
    }
}

/// Whether a queue pair has failed by itself: one that does not work yet says so by nothing but its
/// state, and refuses the next one as a wrong argument.
#[cold]
pub fn has_failed(qp: &Qp) -> bool {
    matches!(qp.state(), Ok(QpState::Error))
}

/// The entry of the GID table that peers are given: on Ethernet the first of RoCE v2 that is an
/// IPv4 address, else the first of RoCE v2. An error where none was found and not all could be
/// read.
fn best_gid(
    context: &Context,
    name: &str,
    (port, count): (u8, u32),
    is_ethernet: bool,
) -> Result<Option<(u8, Gid)>, VerbsError> {
    let mut best = Ok(None);
    for index in 0..count.min(256) {
        let gid = match context.gid(port, index) {
            Ok(gid) => gid,
            Err(error) => {
                if matches!(best, Ok(None)) {
                    best = Err(error);
                }
                continue;
            }
        };
        if gid.0 == [0; 16] {
            continue;
        }
        let found = (index as u8, gid);
        if !is_ethernet {
            return Ok(Some(found));
        }
        let kind = format!("/sys/class/infiniband/{name}/ports/{port}/gid_attrs/types/{index}");
        // Where nothing says what an entry is (our own adapter has no such file), all are of RoCE
        // v2.
        let is_old = std::fs::read_to_string(kind).is_ok_and(|kind| !kind.contains("v2"));
        if is_old {
            continue;
        }
        if gid.0[..12] == [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff] {
            return Ok(Some(found));
        }
        if !matches!(best, Ok(Some(_))) {
            best = Ok(Some(found));
        }
    }
    best
}
