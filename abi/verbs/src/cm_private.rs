//! The connection manager for librdmacm: private functions, version node FERRIBAND_PRIVATE_1, as `ferriband-cm-abi` lays them down.
//!
//! Converts between its C structures and the adapter's; returns 0 or an errno and never sets `errno`.

use crate::boundary::{Failure, entry};
use crate::convert;
use ferriband_cm_abi as abi;
use ferriband_hca::Engine;
use ferriband_hca::cm::{CmAddress, CmChannel, ConnParam, ConnWish, IdOption, News, NewsKind};
use ferriband_hca::fabric::{ServiceQuestion, find_services};
use ferriband_transport::types::{QpState, QpType};
use ferriband_verbs_sys as sys;
use libc::{sockaddr, sockaddr_storage, socklen_t};
use std::ffi::{c_int, c_void};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::sync::Arc;
use std::time::Duration;

/// The signatures are those that the face calls: a difference is an error here.
const _: abi::CmFunctions = abi::CmFunctions {
    version: ferriband_cm_version,
    channel_open: ferriband_cm_channel_open,
    channel_fd: ferriband_cm_channel_fd,
    channel_close: ferriband_cm_channel_close,
    create_id: ferriband_cm_create_id,
    destroy_id: ferriband_cm_destroy_id,
    bind: ferriband_cm_bind,
    resolve_addr: ferriband_cm_resolve_addr,
    resolve_route: ferriband_cm_resolve_route,
    listen: ferriband_cm_listen,
    connect: ferriband_cm_connect,
    accept: ferriband_cm_accept,
    reject: ferriband_cm_reject,
    disconnect: ferriband_cm_disconnect,
    notify: ferriband_cm_notify,
    init_qp_attr: ferriband_cm_init_qp_attr,
    query: ferriband_cm_query,
    set_option: ferriband_cm_set_option,
    join: ferriband_cm_join,
    leave: ferriband_cm_leave,
    migrate: ferriband_cm_migrate,
    write_event: ferriband_cm_write_event,
    find_services: ferriband_cm_find_services,
    get_event: ferriband_cm_get_event,
};

/// A path is looked for at the most so long.
const MOST_PATIENCE: Duration = Duration::from_secs(60);

/// 0 or an errno, which stays out of the thread's `errno`.
#[repr(transparent)]
struct Errno(c_int);

impl Failure for Errno {
    #[cold]
    fn failure(errno: i32) -> Self {
        Errno(errno)
    }
}

/// Runs a function's body behind the panic boundary.
fn call(body: impl FnOnce() -> Result<(), i32>) -> c_int {
    entry(|| Errno(body().err().unwrap_or(0))).0
}

/// Runs a body with the process's engine.
fn with_engine(body: impl FnOnce(&Engine) -> Result<(), i32>) -> c_int {
    call(|| {
        let engine = Engine::get().map_err(|error| error.errno())?;
        body(&engine)
    })
}

fn errno(error: ferriband_hca::Error) -> i32 {
    error.errno()
}

/// A channel behind the pointer that the face holds.
///
/// # Safety
/// The pointer is NULL or came from `channel_open` and was not closed.
unsafe fn channel(pointer: *mut abi::fb_channel) -> Result<Arc<CmChannel>, i32> {
    let pointer: *const CmChannel = pointer.cast_const().cast();
    if pointer.is_null() {
        return Err(libc::EINVAL);
    }
    // SAFETY: the caller's promise: one count is the face's.
    unsafe { Arc::increment_strong_count(pointer) };
    // SAFETY: the count just added is ours.
    Ok(unsafe { Arc::from_raw(pointer) })
}

/// Writes a result.
///
/// # Safety
/// The pointer is NULL or writable.
unsafe fn put<T>(to: *mut T, value: T) -> Result<(), i32> {
    if to.is_null() {
        return Err(libc::EINVAL);
    }
    // SAFETY: the caller's promise.
    unsafe { to.write(value) };
    Ok(())
}

/// `struct sockaddr_ib` of Linux: a GID and a service, big-endian as on the wire.
#[repr(C)]
#[derive(Clone, Copy)]
struct SockaddrIb {
    family: libc::sa_family_t,
    pkey: u16,
    flowinfo: u32,
    gid: [u8; 16],
    service: u64,
    service_mask: u64,
    scope: u64,
}

/// `AF_IB` of Linux.
const AF_IB: c_int = 27;

const _: () = assert!(size_of::<SockaddrIb>() == 48);

/// Reads an address.
///
/// # Safety
/// The pointer is NULL or readable for `length` bytes.
unsafe fn address(from: *const sockaddr, length: socklen_t) -> Result<CmAddress, i32> {
    if from.is_null() || (length as usize) < size_of::<libc::sa_family_t>() {
        return Err(libc::EINVAL);
    }
    // SAFETY: the caller's promise, and there are two bytes.
    let family = c_int::from(unsafe { (&raw const (*from).sa_family).read_unaligned() });
    match family {
        libc::AF_INET if length as usize >= size_of::<libc::sockaddr_in>() => {
            // SAFETY: as above, and as long as the structure.
            let v4 = unsafe { from.cast::<libc::sockaddr_in>().read_unaligned() };
            let ip = Ipv4Addr::from(u32::from_be(v4.sin_addr.s_addr));
            Ok(SocketAddr::from(SocketAddrV4::new(ip, u16::from_be(v4.sin_port))).into())
        }
        libc::AF_INET6 if length as usize >= size_of::<libc::sockaddr_in6>() => {
            // SAFETY: as above, and as long as the structure.
            let v6 = unsafe { from.cast::<libc::sockaddr_in6>().read_unaligned() };
            let ip = Ipv6Addr::from(v6.sin6_addr.s6_addr);
            let port = u16::from_be(v6.sin6_port);
            Ok(SocketAddr::from(SocketAddrV6::new(ip, port, 0, v6.sin6_scope_id)).into())
        }
        AF_IB if length as usize >= size_of::<SockaddrIb>() => {
            // SAFETY: as above, and as long as the structure.
            let ib = unsafe { from.cast::<SockaddrIb>().read_unaligned() };
            let (service, mask) = (u64::from_be(ib.service), u64::from_be(ib.service_mask));
            Ok(CmAddress::native(
                ferriband_wire::Gid(ib.gid),
                service,
                mask,
            ))
        }
        libc::AF_INET | libc::AF_INET6 | AF_IB => Err(libc::EINVAL),
        _ => Err(libc::EAFNOSUPPORT),
    }
}

/// An address as C has it; family 0 if there is none. `native`: it is of AF_IB, and this is its service without the port.
fn storage(address: Option<SocketAddr>, native: Option<u64>) -> sockaddr_storage {
    // SAFETY: plain bytes, of which zeros are family 0.
    let mut storage: sockaddr_storage = unsafe { std::mem::zeroed() };
    let place = &raw mut storage;
    match (address, native) {
        (None, _) => {}
        (Some(address), Some(space)) => {
            let c = SockaddrIb {
                family: AF_IB as libc::sa_family_t,
                pkey: ferriband_hca::limits::DEFAULT_PKEY.to_be(),
                flowinfo: 0,
                gid: ferriband_wire::Gid::from(address.ip()).0,
                service: (space | u64::from(address.port())).to_be(),
                service_mask: u64::MAX,
                scope: 0,
            };
            // SAFETY: the storage is longer and aligned for every address.
            unsafe { place.cast::<SockaddrIb>().write(c) };
        }
        (Some(SocketAddr::V4(v4)), None) => {
            let c = libc::sockaddr_in {
                sin_family: libc::AF_INET as libc::sa_family_t,
                sin_port: v4.port().to_be(),
                sin_addr: libc::in_addr {
                    s_addr: u32::from(*v4.ip()).to_be(),
                },
                sin_zero: [0; 8],
            };
            // SAFETY: the storage is longer and aligned for every address.
            unsafe { place.cast::<libc::sockaddr_in>().write(c) };
        }
        (Some(SocketAddr::V6(v6)), None) => {
            let c = libc::sockaddr_in6 {
                sin6_family: libc::AF_INET6 as libc::sa_family_t,
                sin6_port: v6.port().to_be(),
                sin6_flowinfo: 0,
                sin6_addr: libc::in6_addr {
                    s6_addr: v6.ip().octets(),
                },
                sin6_scope_id: v6.scope_id(),
            };
            // SAFETY: as above.
            unsafe { place.cast::<libc::sockaddr_in6>().write(c) };
        }
    }
    storage
}

fn qp_type(value: u8) -> Result<QpType, i32> {
    Ok(match u32::from(value) {
        sys::IBV_QPT_RC => QpType::Rc,
        sys::IBV_QPT_UC => QpType::Uc,
        sys::IBV_QPT_UD => QpType::Ud,
        sys::IBV_QPT_XRC_SEND => QpType::XrcSend,
        sys::IBV_QPT_XRC_RECV => QpType::XrcRecv,
        _ => return Err(libc::EINVAL),
    })
}

/// The parameters of a connection, and a vendor's options.
fn wish<'a>(param: &'a abi::fb_conn_param, ece: Option<&abi::fb_ece>) -> ConnWish<'a> {
    let ece = ece.copied().unwrap_or_default();
    ConnWish {
        qp_num: param.qp_num,
        qkey: param.qkey,
        responder_resources: param.responder_resources,
        initiator_depth: param.initiator_depth,
        flow_control: param.flow_control != 0,
        retry_count: param.retry_count,
        rnr_retry_count: param.rnr_retry_count,
        srq: param.srq != 0,
        enhanced: ferriband_cm::Enhanced {
            vendor_id: ece.vendor_id,
            options: ece.options,
        },
        private_data: &param.private_data[..param.private_data_len.into()],
    }
}

/// `ferriband_cm_version`.
#[unsafe(no_mangle)]
pub extern "C" fn ferriband_cm_version() -> c_int {
    abi::FERRIBAND_CM_VERSION
}

/// `ferriband_cm_channel_open`.
///
/// # Safety
/// `to` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_cm_channel_open(to: *mut *mut abi::fb_channel) -> c_int {
    call(|| {
        let made = CmChannel::open().map_err(errno)?;
        // SAFETY: the caller's promise.
        unsafe { put(to, Arc::into_raw(made).cast_mut().cast()) }
    })
}

/// `ferriband_cm_channel_fd`.
///
/// # Safety
/// `pointer` is NULL or a live channel.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_cm_channel_fd(pointer: *mut abi::fb_channel) -> c_int {
    // SAFETY: the caller's promise.
    match unsafe { channel(pointer) } {
        Ok(channel) => channel.fd().unwrap_or(-1),
        Err(_) => -1,
    }
}

/// `ferriband_cm_channel_close`.
///
/// # Safety
/// `pointer` is NULL or a live channel, which nobody uses any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_cm_channel_close(pointer: *mut abi::fb_channel) {
    entry(|| {
        if !pointer.is_null() {
            // SAFETY: the caller's promise: the face's count is given up.
            drop(unsafe { Arc::<CmChannel>::from_raw(pointer.cast_const().cast()) });
        }
    });
}

/// `ferriband_cm_create_id`.
///
/// # Safety
/// `of` is a live channel and `id` writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_cm_create_id(
    of: *mut abi::fb_channel,
    user: u64,
    ps: u16,
    kind: u8,
    id: *mut u32,
) -> c_int {
    with_engine(|engine| {
        // SAFETY: the caller's promise.
        let channel = unsafe { channel(of) }?;
        let made = engine
            .cm()
            .create_id(&channel, user, ps, qp_type(kind)?)
            .map_err(errno)?;
        // SAFETY: the caller's promise.
        unsafe { put(id, made) }
    })
}

/// `ferriband_cm_destroy_id`.
///
/// # Safety
/// `events_reported` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_cm_destroy_id(id: u32, events_reported: *mut u32) -> c_int {
    with_engine(|engine| {
        let reported = engine.cm().destroy_id(engine, id).map_err(errno)?;
        // SAFETY: the caller's promise.
        unsafe { put(events_reported, reported) }
    })
}

/// `ferriband_cm_bind`.
///
/// # Safety
/// `to` is readable for `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_cm_bind(
    id: u32,
    to: *const sockaddr,
    length: socklen_t,
) -> c_int {
    with_engine(|engine| {
        // SAFETY: the caller's promise.
        let address = unsafe { address(to, length) }?;
        engine.cm().bind(engine, id, address).map_err(errno)
    })
}

/// `ferriband_cm_resolve_addr`.
///
/// # Safety
/// `from` is NULL or readable for its length, `to` readable for its.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_cm_resolve_addr(
    id: u32,
    from: *const sockaddr,
    from_length: socklen_t,
    to: *const sockaddr,
    to_length: socklen_t,
    _timeout_ms: c_int,
) -> c_int {
    with_engine(|engine| {
        let from = if from.is_null() {
            None
        } else {
            // SAFETY: the caller's promise.
            Some(unsafe { address(from, from_length) }?)
        };
        // SAFETY: the caller's promise.
        let to = unsafe { address(to, to_length) }?;
        engine
            .cm()
            .resolve_addr(engine, id, from, to)
            .map_err(errno)
    })
}

/// `ferriband_cm_resolve_route`.
#[unsafe(no_mangle)]
pub extern "C" fn ferriband_cm_resolve_route(id: u32, timeout_ms: c_int) -> c_int {
    // the kernel reads a negative time as a very long one
    let patience = u64::try_from(timeout_ms).map_or(MOST_PATIENCE, Duration::from_millis);
    call(|| {
        let engine = Engine::get().map_err(|error| error.errno())?;
        let cm = engine.cm();
        cm.resolve_route(&engine, id, patience.min(MOST_PATIENCE))
            .map_err(errno)
    })
}

/// `ferriband_cm_listen`.
#[unsafe(no_mangle)]
pub extern "C" fn ferriband_cm_listen(id: u32, backlog: c_int) -> c_int {
    let backlog = u32::try_from(backlog).unwrap_or(0);
    with_engine(|engine| engine.cm().listen(engine, id, backlog).map_err(errno))
}

/// `ferriband_cm_connect`.
///
/// # Safety
/// `param` is readable, `ece` NULL or readable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_cm_connect(
    id: u32,
    param: *const abi::fb_conn_param,
    ece: *const abi::fb_ece,
) -> c_int {
    with_engine(|engine| {
        // SAFETY: the caller's promise.
        let param = unsafe { param.as_ref() }.ok_or(libc::EINVAL)?;
        // SAFETY: the caller's promise.
        let ece = unsafe { ece.as_ref() };
        engine
            .cm()
            .connect(engine, id, &wish(param, ece))
            .map_err(errno)
    })
}

/// `ferriband_cm_accept`.
///
/// # Safety
/// `param` and `ece` are NULL or readable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_cm_accept(
    id: u32,
    user: u64,
    param: *const abi::fb_conn_param,
    ece: *const abi::fb_ece,
) -> c_int {
    with_engine(|engine| {
        // SAFETY: the caller's promise.
        let ece = unsafe { ece.as_ref() };
        // SAFETY: the caller's promise.
        match unsafe { param.as_ref() } {
            None => engine.cm().ready(engine, id),
            Some(param) => engine.cm().accept(engine, id, user, &wish(param, ece)),
        }
        .map_err(errno)
    })
}

/// `ferriband_cm_reject`.
///
/// # Safety
/// `data` is readable for `length` bytes, or NULL with length 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_cm_reject(
    id: u32,
    data: *const u8,
    length: u8,
    reason: u8,
) -> c_int {
    with_engine(|engine| {
        let bytes = if data.is_null() || length == 0 {
            &[]
        } else {
            // SAFETY: the caller's promise; the bytes are the caller's for the call only.
            unsafe { std::slice::from_raw_parts(data, length.into()) }
        };
        engine
            .cm()
            .reject(engine, id, reason.into(), bytes)
            .map_err(errno)
    })
}

/// `ferriband_cm_disconnect`.
#[unsafe(no_mangle)]
pub extern "C" fn ferriband_cm_disconnect(id: u32) -> c_int {
    with_engine(|engine| match engine.cm().disconnect(engine, id) {
        Ok(true) => Ok(()),
        Ok(false) => Err(libc::EALREADY),
        Err(error) => Err(errno(error)),
    })
}

/// `ferriband_cm_notify`.
#[unsafe(no_mangle)]
pub extern "C" fn ferriband_cm_notify(id: u32, event: c_int) -> c_int {
    with_engine(|engine| match u32::try_from(event) {
        Ok(sys::IBV_EVENT_COMM_EST) => engine.cm().established(engine, id).map_err(errno),
        Ok(sys::IBV_EVENT_PATH_MIG) => engine.cm().migrated(engine, id).map_err(errno),
        _ => Err(libc::EINVAL),
    })
}

/// `ferriband_cm_init_qp_attr`.
///
/// # Safety
/// `attr` is readable and writable, `mask` writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_cm_init_qp_attr(
    id: u32,
    attr: *mut sys::ibv_qp_attr,
    mask: *mut c_int,
) -> c_int {
    with_engine(|engine| {
        if attr.is_null() {
            return Err(libc::EINVAL);
        }
        // SAFETY: the caller's promise.
        let wanted = unsafe { (*attr).qp_state };
        let to = match wanted {
            sys::IBV_QPS_INIT => QpState::Init,
            sys::IBV_QPS_RTR => QpState::Rtr,
            sys::IBV_QPS_RTS => QpState::Rts,
            _ => return Err(libc::EINVAL),
        };
        let (known, named) = engine.cm().qp_attr(engine, id, to).map_err(errno)?;
        let mut c = convert::qp_attr_to_c(&known);
        c.qp_state = wanted;
        // SAFETY: the caller's promise.
        unsafe { put(attr, c) }?;
        // SAFETY: the caller's promise.
        unsafe { put(mask, named.bits() as c_int) }
    })
}

/// `ferriband_cm_query`.
///
/// # Safety
/// `info` is writable for as many bytes as its first member says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_cm_query(id: u32, info: *mut abi::fb_cm_info) -> c_int {
    with_engine(|engine| {
        if info.is_null() {
            return Err(libc::EINVAL);
        }
        // SAFETY: the caller's promise.
        if (unsafe { (*info).size } as usize) < size_of::<abi::fb_cm_info>() {
            return Err(libc::EINVAL);
        }
        let known = engine.cm().query(engine, id).map_err(errno)?;
        let gid = |gid: ferriband_wire::Gid| sys::ibv_gid { raw: gid.0 };
        let path = abi::fb_path {
            dgid: gid(known.dgid),
            sgid: gid(known.sgid),
            dlid: known.dlid.0,
            slid: known.lid.0,
            flow_label: 0,
            pkey: ferriband_hca::limits::DEFAULT_PKEY,
            hop_limit: 64,
            traffic_class: known.traffic_class,
            sl: known.sl.0,
            mtu: known.mtu.map_or(0, |mtu| mtu as u8),
            rate: known.rate,
            packet_life_time: known.packet_life,
        };
        let full = abi::fb_cm_info {
            size: size_of::<abi::fb_cm_info>() as u32,
            device_index: known
                .device
                .as_ref()
                .map_or(-1, |device| device.info.index as i32),
            node_guid: known
                .device
                .as_ref()
                .map_or(0, |device| device.info.guid.0.to_be()),
            port_num: u8::from(known.device.is_some()),
            num_paths: u8::from(known.routed && known.device.is_some()),
            pkey: ferriband_hca::limits::DEFAULT_PKEY,
            reserved: 0,
            sgid: gid(known.sgid),
            dgid: gid(known.dgid),
            src_addr: storage(known.src, known.native),
            dst_addr: storage(known.dst, known.native),
            paths: [path; 2],
        };
        // SAFETY: the caller's promise, and its structure is as long as ours.
        unsafe { put(info, full) }
    })
}

/// `ferriband_cm_set_option`.
///
/// # Safety
/// `value` is readable for `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_cm_set_option(
    id: u32,
    level: c_int,
    name: c_int,
    value: *const c_void,
    length: usize,
) -> c_int {
    /// RDMA_OPTION_ID and its options.
    const LEVEL_ID: c_int = 0;
    const TOS: c_int = 0;
    const REUSEADDR: c_int = 1;
    const AFONLY: c_int = 2;
    const ACK_TIMEOUT: c_int = 3;
    with_engine(|engine| {
        if level != LEVEL_ID {
            return Err(libc::ENOSYS);
        }
        // SAFETY: the caller's promise, for one byte.
        let byte = || unsafe { value.cast::<u8>().read() };
        // SAFETY: the caller's promise, for four bytes.
        let int = || unsafe { value.cast::<c_int>().read_unaligned() };
        let option = match (name, length) {
            (TOS, 1) if !value.is_null() => IdOption::Tos(byte()),
            (REUSEADDR, 4) if !value.is_null() => IdOption::ReuseAddress(int() != 0),
            (AFONLY, 4) if !value.is_null() => IdOption::OneFamily(int() != 0),
            (ACK_TIMEOUT, 1) if !value.is_null() => IdOption::AckTimeout(byte() & 31),
            (TOS | REUSEADDR | AFONLY | ACK_TIMEOUT, _) => return Err(libc::EINVAL),
            _ => return Err(libc::ENOSYS),
        };
        engine.cm().set_option(engine, id, option).map_err(errno)
    })
}

/// `ferriband_cm_join`.
///
/// # Safety
/// `to` is readable for `length` bytes, `group` writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_cm_join(
    id: u32,
    to: *const sockaddr,
    length: socklen_t,
    _flags: u16,
    user: u64,
    group: *mut u32,
) -> c_int {
    with_engine(|engine| {
        // SAFETY: the caller's promise.
        let address = unsafe { address(to, length) }?;
        let joined = engine.cm().join(engine, id, address, user).map_err(errno)?;
        // SAFETY: the caller's promise.
        unsafe { put(group, joined) }
    })
}

/// `ferriband_cm_leave`.
///
/// # Safety
/// `events_reported` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_cm_leave(group: u32, events_reported: *mut u32) -> c_int {
    with_engine(|engine| {
        let reported = engine.cm().leave(engine, group).map_err(errno)?;
        // SAFETY: the caller's promise.
        unsafe { put(events_reported, reported) }
    })
}

/// `ferriband_cm_migrate`.
///
/// # Safety
/// `to` is a live channel and `events_reported` writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_cm_migrate(
    id: u32,
    to: *mut abi::fb_channel,
    events_reported: *mut u32,
) -> c_int {
    with_engine(|engine| {
        // SAFETY: the caller's promise.
        let channel = unsafe { channel(to) }?;
        let reported = engine.cm().migrate(engine, id, &channel).map_err(errno)?;
        // SAFETY: the caller's promise.
        unsafe { put(events_reported, reported) }
    })
}

/// `ferriband_cm_write_event`.
#[unsafe(no_mangle)]
pub extern "C" fn ferriband_cm_write_event(id: u32, event: u32, status: c_int, arg: u64) -> c_int {
    const OWN: [NewsKind; 3] = [
        NewsKind::User,
        NewsKind::AddrinfoResolved,
        NewsKind::AddrinfoError,
    ];
    with_engine(|engine| {
        let kind = OWN.into_iter().find(|kind| *kind as u32 == event);
        let kind = kind.ok_or(libc::EINVAL)?;
        let cm = engine.cm();
        cm.write_event(engine, id, kind, status, arg).map_err(errno)
    })
}

/// `ferriband_cm_find_services`.
///
/// # Safety
/// `name` is NULL or has 64 bytes; `gid` and `count` are writable, `services` for `most`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_cm_find_services(
    service_id: u64,
    name: *const u8,
    gid: *mut sys::ibv_gid,
    services: *mut abi::fb_service,
    most: u32,
    count: *mut u32,
) -> c_int {
    let to_c = |gid: ferriband_wire::Gid| sys::ibv_gid { raw: gid.0 };
    call(|| {
        let question = match name.is_null() {
            true => ServiceQuestion::Id(service_id),
            // SAFETY: the caller's promise.
            false => ServiceQuestion::Name(unsafe { name.cast::<[u8; 64]>().read() }),
        };
        let (own, found) = find_services(&question)?;
        // SAFETY: the caller's promise.
        unsafe { put(gid, to_c(own)) }?;
        // SAFETY: the caller's promise.
        unsafe { put(count, found.len() as u32) }?;
        for (index, at) in found.iter().take(most as usize).enumerate() {
            let service = abi::fb_service {
                service_id: at.id,
                gid: to_c(at.gid),
                pkey: at.pkey,
                reserved: [0; 6],
            };
            // SAFETY: the caller's promise: there is room for so many.
            unsafe { put(services.add(index), service) }?;
        }
        Ok(())
    })
}

/// `ferriband_cm_get_event`.
///
/// # Safety
/// `of` is a live channel and `event` writable for as many bytes as its first member says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_cm_get_event(
    of: *mut abi::fb_channel,
    event: *mut abi::fb_cm_event,
) -> c_int {
    call(|| {
        // SAFETY: the caller's promise.
        let channel = unsafe { channel(of) }?;
        if event.is_null() {
            return Err(libc::EINVAL);
        }
        // SAFETY: the caller's promise.
        if (unsafe { (*event).size } as usize) < size_of::<abi::fb_cm_event>() {
            return Err(libc::EINVAL);
        }
        let news = channel.counted_event().map_err(errno)?;
        let news = news.ok_or(libc::EAGAIN)?;
        // SAFETY: the caller's promise, and its structure is as long as ours.
        unsafe { put(event, event_to_c(&news)) }
    })
}

fn event_to_c(news: &News) -> abi::fb_cm_event {
    let conn = &news.conn;
    let param = match &news.ud {
        None if news.kind == NewsKind::User => {
            let mut param = abi::fb_event_param {
                conn: conn_to_c(conn, news.kind),
            };
            param.arg = news.arg;
            param
        }
        Some(ud) => abi::fb_event_param {
            ud: abi::fb_ud_param {
                qp_num: ud.qp_num,
                qkey: ud.qkey,
                ah_attr: convert::address_vector_to_c(&ud.av),
                private_data_len: conn.private_len,
                reserved: [0; 7],
                private_data: conn.private_data,
            },
        },
        None => abi::fb_event_param {
            conn: conn_to_c(conn, news.kind),
        },
    };
    abi::fb_cm_event {
        size: size_of::<abi::fb_cm_event>() as u32,
        event: news.kind as u32,
        user: news.user,
        id: news.id,
        status: news.status,
        ece: abi::fb_ece {
            vendor_id: news.enhanced.vendor_id,
            options: news.enhanced.options,
        },
        param,
    }
}

fn conn_to_c(conn: &ConnParam, kind: NewsKind) -> abi::fb_conn_param {
    abi::fb_conn_param {
        qp_num: conn.qp_num,
        qkey: 0,
        private_data_len: conn.private_len,
        srq: conn.srq.into(),
        responder_resources: conn.responder_resources,
        initiator_depth: conn.initiator_depth,
        flow_control: conn.flow_control.into(),
        retry_count: conn.retry_count,
        rnr_retry_count: conn.rnr_retry_count,
        valid: matches!(kind, NewsKind::ConnectRequest | NewsKind::ConnectResponse).into(),
        private_data: conn.private_data,
    }
}
