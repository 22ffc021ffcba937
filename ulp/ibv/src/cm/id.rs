//! Identifiers: what is asked of the connection manager, and what it knows.

use super::channel::{CmChannel, Ids};
use super::library::Functions;
use super::params::{ACCEPT_ROOM, Beside, ConnectParams, PortSpace, REJECT_ROOM, milliseconds};
use crate::error::VerbsError;
use crate::objects::context::Context;
use crate::objects::event::EventKind;
use crate::objects::pd::Pd;
use crate::objects::qp::{Qp, QpInit};
use crate::objects::{after_destruction, any_thread};
use crate::types::{Gid, QpState};
use ferriband_rdmacm_sys as cm;
use ferriband_verbs_sys as sys;
use std::ffi::{c_int, c_void};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// An identifier: a listener, or one side of a connection. It is destroyed when nobody holds it any
/// more; a connection ends then.
pub struct CmId {
    at: NonNull<cm::rdma_cm_id>,
    space: PortSpace,
    tag: AtomicU64,
    channel: Arc<CmChannel>,
}

any_thread!(CmId);

/// An option of an identifier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CmOption {
    /// Traffic class of its path. Before the route is resolved.
    TrafficClass(u8),
    /// Others may bind the same address. Before it is bound.
    ReuseAddress(bool),
    /// The unspecified IPv6 address does not stand for IPv4. Before it listens.
    OneFamily(bool),
    /// How long its queue pair waits for an acknowledgement: 4.096 us times 2 to this power. Before
    /// it connects or accepts.
    AckTimeout(u8),
}

impl CmId {
    /// Makes an identifier whose events come by the channel. The tag is the program's.
    ///
    /// # Errors
    /// EINVAL for a port space that the library, or the kernel, does not offer.
    pub fn create(
        channel: &Arc<CmChannel>,
        space: PortSpace,
        tag: u64,
    ) -> Result<Arc<CmId>, VerbsError> {
        let mut ids = channel.lock();
        let mut at = std::ptr::null_mut();
        let context = std::ptr::null_mut();
        // SAFETY: the channel lives, the result is writable.
        let returned = unsafe {
            (channel.f().rdma_create_id)(channel.as_ptr(), &raw mut at, context, space.to_c())
        };
        VerbsError::check("rdma_create_id", returned)?;
        let at = NonNull::new(at).ok_or(VerbsError::new("rdma_create_id", libc::EIO))?;
        Ok(CmId::entered(at, space, tag, channel, &mut ids))
    }

    /// The identifier of a request to a listener, whose tag it has at first.
    ///
    /// # Safety
    /// It is new, of the listener's channel, and nobody else's; `ids` is the channel's table.
    pub(super) unsafe fn adopted(
        at: NonNull<cm::rdma_cm_id>,
        listener: &CmId,
        ids: &mut Ids,
    ) -> Arc<CmId> {
        CmId::entered(at, listener.space, listener.tag(), &listener.channel, ids)
    }

    fn entered(
        at: NonNull<cm::rdma_cm_id>,
        space: PortSpace,
        tag: u64,
        channel: &Arc<CmChannel>,
        ids: &mut Ids,
    ) -> Arc<CmId> {
        let id = Arc::new(CmId {
            at,
            space,
            tag: AtomicU64::new(tag),
            channel: Arc::clone(channel),
        });
        ids.insert(at.as_ptr().addr(), Arc::downgrade(&id));
        id
    }

    /// The program's number for it.
    pub fn tag(&self) -> u64 {
        self.tag.load(Ordering::Relaxed)
    }

    /// Gives it another number.
    pub fn set_tag(&self, tag: u64) {
        self.tag.store(tag, Ordering::Relaxed);
    }

    /// What its port is a port of.
    pub fn port_space(&self) -> PortSpace {
        self.space
    }

    /// Where its events come.
    pub fn channel(&self) -> &Arc<CmChannel> {
        &self.channel
    }

    /// Sets an option.
    pub fn set_option(&self, option: CmOption) -> Result<(), VerbsError> {
        let byte = |name, value: u8| (name, c_int::from(value), 1);
        let word = |name, value: bool| (name, c_int::from(value), size_of::<c_int>());
        let (name, mut value, length) = match option {
            CmOption::TrafficClass(class) => byte(cm::RDMA_OPTION_ID_TOS, class),
            CmOption::ReuseAddress(on) => word(cm::RDMA_OPTION_ID_REUSEADDR, on),
            CmOption::OneFamily(on) => word(cm::RDMA_OPTION_ID_AFONLY, on),
            CmOption::AckTimeout(code) => byte(cm::RDMA_OPTION_ID_ACK_TIMEOUT, code),
        };
        self.call("rdma_set_option", |f, id| {
            let (level, name) = (cm::RDMA_OPTION_ID as c_int, name as c_int);
            // SAFETY: the identifier lives; a number in this host's order begins with its low byte,
            // and has the length that is said.
            unsafe { (f.rdma_set_option)(id, level, name, (&raw mut value).cast(), length) }
        })
    }

    /// Binds it to an address here; port 0 chooses one.
    ///
    /// # Errors
    /// EADDRINUSE, or EADDRNOTAVAIL where one of the two means every address; EADDRNOTAVAIL or
    /// ENODEV for an address of no device of this host's; EINVAL if it is bound.
    pub fn bind(&self, to: SocketAddr) -> Result<(), VerbsError> {
        let mut to = Address::from(to);
        self.call("rdma_bind_addr", |f, id| {
            // SAFETY: the identifier and the address live.
            unsafe { (f.rdma_bind_addr)(id, to.as_ptr()) }
        })
    }

    /// Listens; `backlog` requests may wait to be taken.
    ///
    /// # Errors
    /// EADDRINUSE, EINVAL if it listens or goes somewhere.
    pub fn listen(&self, backlog: u32) -> Result<(), VerbsError> {
        let backlog = c_int::try_from(backlog).unwrap_or(c_int::MAX);
        self.call("rdma_listen", |f, id| {
            // SAFETY: the identifier lives.
            unsafe { (f.rdma_listen)(id, backlog) }
        })
    }

    /// Looks for the device and the address from which `to` is reached; ADDR_RESOLVED or ADDR_ERROR
    /// follows.
    pub fn resolve_address(
        &self,
        from: Option<SocketAddr>,
        to: SocketAddr,
        patience: Duration,
    ) -> Result<(), VerbsError> {
        let mut from = from.map(Address::from);
        let mut to = Address::from(to);
        let from = from
            .as_mut()
            .map_or(std::ptr::null_mut(), |from| from.as_ptr());
        self.call("rdma_resolve_addr", |f, id| {
            // SAFETY: the identifier and the addresses live.
            unsafe { (f.rdma_resolve_addr)(id, from, to.as_ptr(), milliseconds(patience)) }
        })
    }

    /// Looks for the path; ROUTE_RESOLVED or ROUTE_ERROR follows.
    ///
    /// # Errors
    /// EINVAL unless the address is resolved.
    pub fn resolve_route(&self, patience: Duration) -> Result<(), VerbsError> {
        self.call("rdma_resolve_route", |f, id| {
            // SAFETY: the identifier lives.
            unsafe { (f.rdma_resolve_route)(id, milliseconds(patience)) }
        })
    }

    /// Asks for the connection; ESTABLISHED, CONNECT_RESPONSE (with a queue pair of the program's),
    /// REJECTED, UNREACHABLE or CONNECT_ERROR follows.
    ///
    /// # Errors
    /// EINVAL unless the route is resolved and there is a queue pair; EMSGSIZE for private data
    /// beyond [`PortSpace::connect_room`].
    pub fn connect(&self, params: &ConnectParams<'_>) -> Result<(), VerbsError> {
        let room = self.space.connect_room();
        self.call_with("rdma_connect", room, params, |f| f.rdma_connect)
    }

    /// Accepts a request; ESTABLISHED follows.
    ///
    /// # Errors
    /// EINVAL for an identifier of no request, or without a queue pair; EMSGSIZE for private data
    /// beyond [`ACCEPT_ROOM`].
    pub fn accept(&self, params: &ConnectParams<'_>) -> Result<(), VerbsError> {
        self.call_with("rdma_accept", ACCEPT_ROOM, params, |f| f.rdma_accept)
    }

    /// Refuses a request.
    ///
    /// # Errors
    /// EINVAL for an identifier of no request; EMSGSIZE for private data beyond [`REJECT_ROOM`].
    pub fn reject(&self, private_data: &[u8]) -> Result<(), VerbsError> {
        let length = fitting("rdma_reject", private_data, REJECT_ROOM)?;
        self.call("rdma_reject", |f, id| {
            // SAFETY: the identifier and the bytes live.
            unsafe { (f.rdma_reject)(id, private_data.as_ptr().cast::<c_void>(), length) }
        })
    }

    /// Says that the program's own queue pair is ready, after CONNECT_RESPONSE.
    ///
    /// # Errors
    /// EINVAL if the identifier has a queue pair of its own; EOPNOTSUPP of a library that has no
    /// such call (rdma-core before 23).
    pub fn establish(&self) -> Result<(), VerbsError> {
        let establish = self.f().rdma_establish;
        let missing = VerbsError::new("rdma_establish", libc::EOPNOTSUPP);
        let establish = establish.ok_or(missing)?;
        self.call("rdma_establish", |_, id| {
            // SAFETY: the identifier lives.
            unsafe { establish(id) }
        })
    }

    /// Ends the connection, or answers the other side's end. DISCONNECTED follows when the other
    /// side has answered. The identifier's queue pair goes to the error state: what is outstanding
    /// is flushed.
    pub fn disconnect(&self) -> Result<(), VerbsError> {
        self.call("rdma_disconnect", |f, id| {
            // SAFETY: the identifier lives.
            unsafe { (f.rdma_disconnect)(id) }
        })
    }

    /// Tells the connection manager of an event of the queue pair, such as that data came before
    /// the other side's last message ([`EventKind::CommunicationEstablished`]).
    pub fn notify(&self, event: EventKind) -> Result<(), VerbsError> {
        self.call("rdma_notify", |f, id| {
            // SAFETY: the identifier lives.
            unsafe { (f.rdma_notify)(id, event.to_c()) }
        })
    }

    /// The device that it is bound to: one object for all identifiers of the device. `None` before
    /// it is bound to one.
    pub fn context(&self) -> Result<Option<Arc<Context>>, VerbsError> {
        let context = self.read(|id| {
            // SAFETY: the identifier lives, and is looked at under the channel's lock.
            unsafe { (&raw const (*id).verbs).read() }
        });
        NonNull::new(context)
            .map(|context| self.channel.manager().context(context))
            .transpose()
    }

    /// The port of the device that it is bound to, from 1; 0 before.
    pub fn port_number(&self) -> u8 {
        self.read(|id| {
            // SAFETY: as in `context`.
            unsafe { (&raw const (*id).port_num).read() }
        })
    }

    /// The address and port here, as far as they are known.
    pub fn local_address(&self) -> Option<SocketAddr> {
        let address = self.read(|id| {
            // SAFETY: as in `context`; an address of any family lies in the storage.
            unsafe { (&raw const (*id).route.addr.__bindgen_anon_1.src_storage).read() }
        });
        socket_address(&address)
    }

    /// The address and port there, as far as they are known.
    pub fn peer_address(&self) -> Option<SocketAddr> {
        let address = self.read(|id| {
            // SAFETY: as above.
            unsafe { (&raw const (*id).route.addr.__bindgen_anon_2.dst_storage).read() }
        });
        socket_address(&address)
    }

    /// The GIDs here and there; zeros before they are known.
    pub fn gids(&self) -> (Gid, Gid) {
        self.read(|id| {
            // SAFETY: as in `context`.
            let at = unsafe { (&raw const (*id).route.addr.addr.ibaddr).read() };
            // SAFETY: all bit patterns of both fields are bytes.
            unsafe { (Gid(at.sgid.raw), Gid(at.dgid.raw)) }
        })
    }

    /// Makes the identifier's queue pair, in INIT: receives may be posted. The connection manager
    /// takes it from state to state.
    ///
    /// # Errors
    /// EINVAL if it has one, is bound to no device, or the domain is another device's; those of
    /// [`Qp::create`].
    pub fn create_qp(
        self: &Arc<Self>,
        pd: &Arc<Pd>,
        init: &QpInit<'_>,
    ) -> Result<Arc<Qp>, VerbsError> {
        Qp::create_managed(self, pd, init, |attr| {
            let alone = self.channel.lock();
            let id = self.at.as_ptr();
            // SAFETY: the identifier, the domain and what the attributes name live.
            let returned = unsafe { (self.f().rdma_create_qp)(id, pd.as_ptr(), attr) };
            VerbsError::check("rdma_create_qp", returned)?;
            // SAFETY: the identifier lives, and the lock is held.
            let made = unsafe { (&raw const (*id).qp).read() };
            drop(alone);
            Ok(made)
        })
    }

    /// Destroys the identifier's queue pair, which nobody uses any more.
    pub(crate) fn destroy_qp(&self) {
        let alone = self.channel.lock();
        // SAFETY: the queue pair's object calls this once, when it goes.
        unsafe { (self.f().rdma_destroy_qp)(self.at.as_ptr()) };
        drop(alone);
    }

    /// Takes a queue pair of the program's own from RESET to INIT: receives may be posted.
    ///
    /// # Errors
    /// EINVAL if the identifier is bound to no device; EOPNOTSUPP of a library without
    /// `rdma_init_qp_attr` (rdma-core before 23).
    pub fn init_qp(&self, qp: &Qp) -> Result<(), VerbsError> {
        self.take_to(qp, QpState::Init, |_| ())
    }

    /// Takes a queue pair of the program's own from INIT to RTS: before [`CmId::accept`], or after
    /// CONNECT_RESPONSE.
    ///
    /// # Errors
    /// EINVAL if the connection is not far enough; as [`CmId::init_qp`].
    pub fn ready_qp(&self, qp: &Qp) -> Result<(), VerbsError> {
        // INIT again: what peers may do is known once a connection is asked for.
        [QpState::Init, QpState::Rtr, QpState::Rts]
            .into_iter()
            .try_for_each(|state| self.take_to(qp, state, |_| ()))
    }

    /// Takes another queue pair to RTS the way of this connection, towards a queue pair of the
    /// peer's that the manager knows nothing of. When as [`CmId::ready_qp`].
    ///
    /// # Errors
    /// As [`CmId::ready_qp`].
    pub fn ready_beside(&self, qp: &Qp, beside: &Beside) -> Result<(), VerbsError> {
        [QpState::Init, QpState::Rtr, QpState::Rts]
            .into_iter()
            .try_for_each(|state| {
                self.take_to(qp, state, |attr| {
                    attr.dest_qp_num = beside.peer.0;
                    attr.rq_psn = beside.rq_psn;
                    attr.sq_psn = beside.sq_psn;
                })
            })
    }

    fn take_to(
        &self,
        qp: &Qp,
        state: QpState,
        change: impl FnOnce(&mut sys::ibv_qp_attr),
    ) -> Result<(), VerbsError> {
        let missing = VerbsError::new("rdma_init_qp_attr", libc::EOPNOTSUPP);
        let ask = self.f().rdma_init_qp_attr.ok_or(missing)?;
        let mut attr = sys::ibv_qp_attr {
            qp_state: state.to_c(),
            ..Default::default()
        };
        let mut mask = 0;
        self.call("rdma_init_qp_attr", |_, id| {
            // SAFETY: the identifier lives, both results are writable.
            unsafe { ask(id, &raw mut attr, &raw mut mask) }
        })?;
        change(&mut attr);
        qp.apply(&mut attr, mask)
    }

    fn call_with(
        &self,
        name: &'static str,
        room: usize,
        params: &ConnectParams<'_>,
        which: impl FnOnce(
            &Functions,
        ) -> unsafe extern "C" fn(
            *mut cm::rdma_cm_id,
            *mut cm::rdma_conn_param,
        ) -> c_int,
    ) -> Result<(), VerbsError> {
        fitting(name, params.private_data, room)?;
        let mut param = params.to_c();
        self.call(name, |f, id| {
            // SAFETY: the identifier lives, and is looked at under the channel's lock.
            let own = unsafe { (&raw const (*id).qp).read() };
            if own.is_null() == params.qp.is_none() {
                return libc::EINVAL;
            }
            // SAFETY: the identifier, the parameters and their bytes live.
            unsafe { which(f)(id, &raw mut param) }
        })
    }

    /// A call that answers 0, or -1 with errno, alone in the channel.
    fn call(
        &self,
        name: &'static str,
        call: impl FnOnce(&Functions, *mut cm::rdma_cm_id) -> c_int,
    ) -> Result<(), VerbsError> {
        let alone = self.channel.lock();
        let outcome = VerbsError::check(name, call(self.f(), self.at.as_ptr()));
        drop(alone);
        outcome
    }

    /// Looks at the C structure, alone in the channel.
    fn read<T>(&self, look: impl FnOnce(*const cm::rdma_cm_id) -> T) -> T {
        let alone = self.channel.lock();
        let seen = look(self.at.as_ptr());
        drop(alone);
        seen
    }

    fn f(&self) -> &'static Functions {
        self.channel.f()
    }
}

/// The length of private data that fit.
fn fitting(call: &'static str, data: &[u8], room: usize) -> Result<u8, VerbsError> {
    u8::try_from(data.len())
        .ok()
        .filter(|length| usize::from(*length) <= room)
        .ok_or(VerbsError::new(call, libc::EMSGSIZE))
}

impl fmt::Debug for CmId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CmId")
            .field("space", &self.space)
            .field("tag", &self.tag())
            .field("at", &self.at)
            .finish_non_exhaustive()
    }
}

impl Drop for CmId {
    fn drop(&mut self) {
        let mut ids = self.channel.lock();
        ids.remove(&self.at.as_ptr().addr());
        // SAFETY: its queue pair and its events hold it, so none is left; an event that the library
        // was about to give would have been given under the lock.
        let returned = unsafe { (self.f().rdma_destroy_id)(self.at.as_ptr()) };
        drop(ids);
        after_destruction(returned, || Arc::clone(&self.channel));
    }
}

/// A socket address as C has it.
struct Address(libc::sockaddr_storage);

impl Address {
    fn as_ptr(&mut self) -> *mut libc::sockaddr {
        (&raw mut self.0).cast()
    }
}

impl From<SocketAddr> for Address {
    fn from(address: SocketAddr) -> Self {
        // SAFETY: zeros are an address of no family.
        let mut storage: libc::sockaddr_storage = unsafe { std::mem::zeroed() };
        let port = address.port().to_be();
        match address {
            SocketAddr::V4(v4) => {
                let c = libc::sockaddr_in {
                    sin_family: libc::AF_INET as libc::sa_family_t,
                    sin_port: port,
                    sin_addr: libc::in_addr {
                        s_addr: u32::from(*v4.ip()).to_be(),
                    },
                    sin_zero: [0; 8],
                };
                // SAFETY: the storage is large enough, and aligned, for addresses of every family.
                unsafe { (&raw mut storage).cast::<libc::sockaddr_in>().write(c) };
            }
            SocketAddr::V6(v6) => {
                let c = libc::sockaddr_in6 {
                    sin6_family: libc::AF_INET6 as libc::sa_family_t,
                    sin6_port: port,
                    sin6_flowinfo: v6.flowinfo().to_be(),
                    sin6_addr: libc::in6_addr {
                        s6_addr: v6.ip().octets(),
                    },
                    sin6_scope_id: v6.scope_id(),
                };
                // SAFETY: as above.
                unsafe { (&raw mut storage).cast::<libc::sockaddr_in6>().write(c) };
            }
        }
        Address(storage)
    }
}

/// The address in a storage; `None` of other families than the two of IP.
fn socket_address(storage: &libc::sockaddr_storage) -> Option<SocketAddr> {
    match c_int::from(storage.ss_family) {
        libc::AF_INET => {
            // SAFETY: the family says what lies there.
            let c = unsafe { (&raw const *storage).cast::<libc::sockaddr_in>().read() };
            let ip = IpAddr::from(Ipv4Addr::from(u32::from_be(c.sin_addr.s_addr)));
            Some(SocketAddr::new(ip, u16::from_be(c.sin_port)))
        }
        libc::AF_INET6 => {
            // SAFETY: as above.
            let c = unsafe { (&raw const *storage).cast::<libc::sockaddr_in6>().read() };
            let ip = Ipv6Addr::from(c.sin6_addr.s6_addr);
            let (port, flow) = (u16::from_be(c.sin6_port), u32::from_be(c.sin6_flowinfo));
            Some(SocketAddrV6::new(ip, port, flow, c.sin6_scope_id).into())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_come_back_from_c() {
        for text in ["192.0.2.7:7174", "[2001:db8::1]:1", "[fe80::1%5]:65535"] {
            let address: SocketAddr = text.parse().expect("an address");
            assert_eq!(socket_address(&Address::from(address).0), Some(address));
        }
        // SAFETY: zeros are an address of no family.
        let none: libc::sockaddr_storage = unsafe { std::mem::zeroed() };
        assert_eq!(socket_address(&none), None);
    }

    #[test]
    fn private_data_have_the_room_of_their_message() {
        let sdp = PortSpace::Sdp.connect_room();
        assert_eq!(fitting("rdma_connect", &[0; 92], sdp), Ok(92));
        let error = fitting("rdma_connect", &[0; 93], sdp).expect_err("too long");
        assert_eq!(error.errno(), libc::EMSGSIZE);
        assert_eq!(fitting("rdma_reject", &[0; 148], REJECT_ROOM), Ok(148));
        assert!(fitting("rdma_accept", &[0; 256], ACCEPT_ROOM).is_err());
    }
}
