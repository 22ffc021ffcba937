//! Options of sockets: those of TCP that mean something here, and those of queue pairs.
//!
//! What TCP does and a queue pair does not need (segments, congestion, delays) is accepted, kept, and without effect.

use super::settings::{MOST_WORK, Settings};
use super::stream::{Phase, Stream, lock};
use super::{Inner, Socket, table, wire};
use crate::boundary::{Errno, status};
use crate::id::get;
use crate::resolve;
use crate::sys::*;
use ferriband_verbs_sys::{ibv_path_data, ibv_sa_path_rec};
use libc::{c_int, c_void, socklen_t};
use std::sync::Mutex;
use std::time::Duration;

/// Options that a stream socket keeps.
#[derive(Clone, Default, Debug)]
pub struct Options {
    reuse_address: bool,
    keep_alive: bool,
    /// Seconds without a sign before the other side is asked for one; 0 is the system's.
    keep_idle: u32,
    out_of_band_inline: bool,
    no_delay: bool,
    only_v6: bool,
    type_of_service: c_int,
    /// How long closing waits; None is as long as it takes within reason.
    pub linger: Option<Duration>,
}

impl Options {
    /// How often the other side is asked for a sign, if at all.
    pub fn keep_alive(&self) -> Option<Duration> {
        self.keep_alive.then(|| self.idle())
    }

    fn idle(&self) -> Duration {
        const SYSTEMS: &str = "/proc/sys/net/ipv4/tcp_keepalive_time";
        const TWO_HOURS: u64 = 7200;
        let seconds = match self.keep_idle {
            0 => std::fs::read_to_string(SYSTEMS)
                .ok()
                .and_then(|text| text.trim().parse().ok())
                .unwrap_or(TWO_HOURS),
            seconds => seconds.into(),
        };
        Duration::from_secs(seconds.max(1))
    }
}

/// The value of an option.
///
/// # Safety
/// `value` is NULL or has `length` bytes.
unsafe fn read<T: Copy>(value: *const c_void, length: socklen_t) -> Result<T, Errno> {
    if value.is_null() {
        return Err(libc::EFAULT);
    }
    if (length as usize) < size_of::<T>() {
        return Err(libc::EINVAL);
    }
    // SAFETY: the caller's promise; the types that are asked for are numbers.
    Ok(unsafe { value.cast::<T>().read_unaligned() })
}

/// Gives the value of an option.
///
/// # Safety
/// `to` has `*length` bytes.
unsafe fn write<T: Copy>(value: T, to: *mut c_void, length: *mut socklen_t) -> Result<(), Errno> {
    if to.is_null() || length.is_null() {
        return Err(libc::EFAULT);
    }
    // SAFETY: the caller's promise.
    if (unsafe { *length } as usize) < size_of::<T>() {
        return Err(libc::EINVAL);
    }
    // SAFETY: the caller's promise.
    unsafe {
        to.cast::<T>().write_unaligned(value);
        length.write(size_of::<T>() as socklen_t);
    };
    Ok(())
}

fn size(value: c_int) -> Result<u32, Errno> {
    u32::try_from(value).map_err(|_| libc::EINVAL)
}

/// Sizes that both kinds of sockets have; false if it is none of them.
fn set_size(
    settings: &mut Settings,
    level: c_int,
    name: c_int,
    value: c_int,
) -> Result<bool, Errno> {
    match (level, name) {
        // As in the kernel, a socket has twice what was asked for.
        (libc::SOL_SOCKET, libc::SO_RCVBUF) => {
            settings.set_receive_bytes(size(value)?.saturating_mul(2));
        }
        (libc::SOL_SOCKET, libc::SO_SNDBUF) => {
            settings.set_send_bytes(size(value)?.saturating_mul(2));
        }
        (SOL_RDMA_LEVEL, SQSIZE) => settings.send_work = size(value)?.min(MOST_WORK),
        (SOL_RDMA_LEVEL, RQSIZE) => settings.receive_work = size(value)?.min(MOST_WORK),
        (SOL_RDMA_LEVEL, INLINE) => settings.inline = size(value)?.min(MOST_WORK),
        (SOL_RDMA_LEVEL, IOMAPSIZE) => settings.mappings = wire::scaled(size(value)?),
        _ => return Ok(false),
    }
    Ok(true)
}

fn get_size(settings: &Settings, level: c_int, name: c_int) -> Option<c_int> {
    let value = match (level, name) {
        (libc::SOL_SOCKET, libc::SO_RCVBUF) => settings.receive_bytes,
        (libc::SOL_SOCKET, libc::SO_SNDBUF) => settings.send_bytes,
        (SOL_RDMA_LEVEL, SQSIZE) => settings.send_work,
        (SOL_RDMA_LEVEL, RQSIZE) => settings.receive_work,
        (SOL_RDMA_LEVEL, INLINE) => settings.inline,
        (SOL_RDMA_LEVEL, IOMAPSIZE) => settings.mappings.into(),
        _ => return None,
    };
    Some(value.cast_signed())
}

const SOL_RDMA_LEVEL: c_int = SOL_RDMA as c_int;
const SQSIZE: c_int = RDMA_SQSIZE as c_int;
const RQSIZE: c_int = RDMA_RQSIZE as c_int;
const INLINE: c_int = RDMA_INLINE as c_int;
const IOMAPSIZE: c_int = RDMA_IOMAPSIZE as c_int;
const ROUTE: c_int = RDMA_ROUTE as c_int;

impl Stream {
    /// Hands an option to the connection manager.
    fn tell_manager(&self, name: u32, value: *const c_void, length: usize) -> Result<(), Errno> {
        let level = RDMA_OPTION_ID as c_int;
        // SAFETY: the value has this length, as its caller has read it already.
        unsafe { resolve::set_option(self.id.get(), level, name as c_int, value, length) }
    }

    /// # Safety
    /// `value` has `length` bytes.
    unsafe fn set_option(
        &mut self,
        level: c_int,
        name: c_int,
        value: *const c_void,
        length: socklen_t,
    ) -> Result<(), Errno> {
        let is_fresh = matches!(self.phase, Phase::Fresh | Phase::Listening);
        if level == SOL_RDMA_LEVEL && !is_fresh {
            return Err(libc::EINVAL);
        }
        if (level, name) == (SOL_RDMA_LEVEL, ROUTE) {
            if value.is_null()
                || !(length as usize).is_multiple_of(size_of::<ibv_path_data>())
                || length == 0
            {
                return Err(libc::EINVAL);
            }
            // SAFETY: the caller's promise.
            let bytes = unsafe { std::slice::from_raw_parts(value.cast(), length as usize) };
            self.route = Some(<[u8]>::to_vec(bytes));
            return Ok(());
        }
        // SAFETY: the caller's promise. All others begin with an int.
        let number: c_int = unsafe { read(value, length) }?;
        let is_on = number != 0;
        // Buffers are made with the connection; what is asked for later comes too late, as the kernel may decide, too.
        let mut later = self.settings.clone();
        let settings = if self.link.is_none() {
            &mut self.settings
        } else {
            &mut later
        };
        if set_size(settings, level, name, number)? {
            return Ok(());
        }
        let whole = length as usize;
        match (level, name) {
            (libc::SOL_SOCKET, libc::SO_REUSEADDR) => {
                if self.phase == Phase::Fresh {
                    self.tell_manager(RDMA_OPTION_ID_REUSEADDR, value, whole)?;
                }
                self.options.reuse_address = is_on;
            }
            (libc::SOL_SOCKET, libc::SO_LINGER) => {
                // SAFETY: the caller's promise.
                let linger: libc::linger = unsafe { read(value, length) }?;
                let seconds = u64::try_from(linger.l_linger).unwrap_or(0);
                let is_on = linger.l_onoff != 0;
                self.options.linger = is_on.then_some(Duration::from_secs(seconds));
            }
            (libc::SOL_SOCKET, libc::SO_KEEPALIVE) => self.options.keep_alive = is_on,
            (libc::SOL_SOCKET, libc::SO_OOBINLINE) => self.options.out_of_band_inline = is_on,
            (libc::IPPROTO_IP, libc::IP_TOS) => {
                let byte = number as u8;
                self.tell_manager(RDMA_OPTION_ID_TOS, (&raw const byte).cast(), 1)?;
                self.options.type_of_service = number;
            }
            (libc::IPPROTO_TCP, libc::TCP_KEEPIDLE) if number <= 0 => return Err(libc::EINVAL),
            (libc::IPPROTO_TCP, libc::TCP_KEEPIDLE) => self.options.keep_idle = size(number)?,
            (libc::IPPROTO_TCP, libc::TCP_NODELAY) => self.options.no_delay = is_on,
            (
                libc::IPPROTO_TCP,
                libc::TCP_KEEPCNT | libc::TCP_KEEPINTVL | libc::TCP_MAXSEG | libc::TCP_CONGESTION,
            ) => {}
            (libc::IPPROTO_IPV6, libc::IPV6_V6ONLY) => {
                self.tell_manager(RDMA_OPTION_ID_AFONLY, value, whole)?;
                self.options.only_v6 = is_on;
            }
            _ => return Err(libc::ENOTSUP),
        }
        Ok(())
    }

    /// # Safety
    /// `value` has `*length` bytes.
    unsafe fn get_option(
        &mut self,
        level: c_int,
        name: c_int,
        value: *mut c_void,
        length: *mut socklen_t,
    ) -> Result<(), Errno> {
        // SAFETY: the caller's promise, here and below.
        let give = |number: c_int| unsafe { write(number, value, length) };
        if let Some(number) = get_size(&self.settings, level, name) {
            return give(number);
        }
        let options = &self.options;
        match (level, name) {
            (libc::SOL_SOCKET, libc::SO_REUSEADDR) => give(options.reuse_address.into()),
            (libc::SOL_SOCKET, libc::SO_KEEPALIVE) => give(options.keep_alive.into()),
            (libc::SOL_SOCKET, libc::SO_OOBINLINE) => give(options.out_of_band_inline.into()),
            (libc::SOL_SOCKET, libc::SO_BROADCAST) => give(0),
            (libc::SOL_SOCKET, libc::SO_TYPE) => give(libc::SOCK_STREAM),
            (libc::SOL_SOCKET, libc::SO_ACCEPTCONN) => {
                give((self.phase == Phase::Listening).into())
            }
            (libc::SOL_SOCKET, libc::SO_ERROR) => {
                let error = self.take_error();
                give(error)
            }
            (libc::SOL_SOCKET, libc::SO_LINGER) => {
                let seconds = options.linger.map_or(0, |time| time.as_secs());
                let linger = libc::linger {
                    l_onoff: options.linger.is_some().into(),
                    l_linger: c_int::try_from(seconds).unwrap_or(c_int::MAX),
                };
                // SAFETY: the caller's promise.
                unsafe { write(linger, value, length) }
            }
            (libc::IPPROTO_IP, libc::IP_TOS) => give(options.type_of_service),
            (libc::IPPROTO_TCP, libc::TCP_NODELAY) => give(options.no_delay.into()),
            (libc::IPPROTO_TCP, libc::TCP_KEEPIDLE) => {
                give(c_int::try_from(options.idle().as_secs()).unwrap_or(c_int::MAX))
            }
            (libc::IPPROTO_TCP, libc::TCP_KEEPCNT | libc::TCP_KEEPINTVL) => give(1),
            (libc::IPPROTO_TCP, libc::TCP_CONGESTION) => {
                // SAFETY: the caller's promise.
                unsafe { write(*b"none", value, length) }
            }
            (libc::IPPROTO_TCP, libc::TCP_MAXSEG) => give(self.path_mtu()),
            (libc::IPPROTO_TCP, libc::TCP_INFO) => {
                const ESTABLISHED: u8 = 1;
                const CLOSE: u8 = 7;
                // SAFETY: all of its fields are numbers.
                let mut info: libc::tcp_info = unsafe { std::mem::zeroed() };
                info.tcpi_state = match self.phase {
                    Phase::Connected => ESTABLISHED,
                    _ => CLOSE,
                };
                info.tcpi_snd_mss = self.path_mtu().cast_unsigned();
                info.tcpi_rcv_mss = info.tcpi_snd_mss;
                info.tcpi_snd_cwnd = self.settings.send_work;
                // SAFETY: the caller's promise; a program may know a shorter structure.
                unsafe { write_some(&info, value, length) }
            }
            (libc::IPPROTO_IPV6, libc::IPV6_V6ONLY) => give(options.only_v6.into()),
            // SAFETY: the caller's promise.
            (SOL_RDMA_LEVEL, ROUTE) => unsafe { self.give_route(value, length) },
            _ => Err(libc::ENOTSUP),
        }
    }

    /// Bytes of the path's packets; 2048 before there is a path.
    fn path_mtu(&self) -> c_int {
        match self.paths().first() {
            Some(path) => 128 << (path.mtu & 7),
            None => 2048,
        }
    }

    fn paths(&self) -> &[ibv_sa_path_rec] {
        let id = self.id.get();
        let (list, count) = (get!(id.route.path_rec), get!(id.route.num_paths));
        if list.is_null() {
            return &[];
        }
        // SAFETY: the identifier's records, which stay as long as it; the state is locked.
        unsafe { std::slice::from_raw_parts(list, usize::try_from(count).unwrap_or(0)) }
    }

    /// # Safety
    /// As for `get_option`.
    unsafe fn give_route(&self, value: *mut c_void, length: *mut socklen_t) -> Result<(), Errno> {
        if value.is_null() || length.is_null() {
            return Err(libc::EFAULT);
        }
        let chosen = self.route.as_deref().map(<[u8]>::to_vec);
        let bytes = chosen.unwrap_or_else(|| self.paths().iter().flat_map(path_bytes).collect());
        // SAFETY: the caller's promise.
        let room = unsafe { *length } as usize;
        let entry = size_of::<ibv_path_data>();
        if room < entry {
            return Err(libc::EINVAL);
        }
        let length_given = bytes.len().min(room / entry * entry);
        // SAFETY: the caller's promise: there is room.
        unsafe {
            value
                .cast::<u8>()
                .copy_from_nonoverlapping(bytes.as_ptr(), length_given);
            length.write(length_given as socklen_t);
        };
        Ok(())
    }
}

/// Gives as much of a structure as the caller knows.
///
/// # Safety
/// `to` has `*length` bytes.
unsafe fn write_some<T>(value: &T, to: *mut c_void, length: *mut socklen_t) -> Result<(), Errno> {
    if to.is_null() || length.is_null() {
        return Err(libc::EFAULT);
    }
    // SAFETY: the caller's promise.
    let part = (unsafe { *length } as usize).min(size_of::<T>());
    // SAFETY: as above.
    unsafe {
        to.cast::<u8>()
            .copy_from_nonoverlapping(std::ptr::from_ref(value).cast(), part);
        length.write(part as socklen_t);
    };
    Ok(())
}

/// A path record as RDMA_ROUTE has it: the attribute of subnet administration, network order.
fn path_bytes(path: &ibv_sa_path_rec) -> [u8; size_of::<ibv_path_data>()] {
    const EXACTLY: u8 = 2 << 6;
    let mut bytes = [0; size_of::<ibv_path_data>()];
    bytes[..4].copy_from_slice(&u32::from(path.preference).to_ne_bytes());
    // SAFETY: all members of a GID are the same 16 bytes.
    let (to, from) = unsafe { (path.dgid.raw, path.sgid.raw) };
    bytes[16..32].copy_from_slice(&to);
    bytes[32..48].copy_from_slice(&from);
    bytes[48..50].copy_from_slice(&path.dlid.to_ne_bytes());
    bytes[50..52].copy_from_slice(&path.slid.to_ne_bytes());
    let flow = u32::from_be(path.flow_label) << 8 | u32::from(path.hop_limit);
    bytes[52..56].copy_from_slice(&flow.to_be_bytes());
    bytes[56] = path.traffic_class;
    bytes[57] = (path.reversible as u8) << 7 | 1;
    bytes[58..60].copy_from_slice(&path.pkey.to_ne_bytes());
    bytes[60..62].copy_from_slice(&u16::from(path.sl).to_be_bytes());
    bytes[62] = path.mtu | EXACTLY;
    bytes[63] = path.rate | EXACTLY;
    bytes[64] = path.packet_life_time | EXACTLY;
    bytes
}

/// # Safety
/// `value` has `length` bytes.
unsafe fn set_stream(
    socket: &Socket,
    stream: &Mutex<Stream>,
    (level, name): (c_int, c_int),
    value: *const c_void,
    length: socklen_t,
) -> Result<(), Errno> {
    let mut state = lock(stream);
    // SAFETY: the caller's promise.
    unsafe { state.set_option(level, name, value, length) }?;
    let is_timed = [
        (libc::SOL_SOCKET, libc::SO_KEEPALIVE),
        (libc::IPPROTO_TCP, libc::TCP_KEEPIDLE),
    ];
    if is_timed.contains(&(level, name)) {
        let idle = state.options.keep_alive();
        drop(state);
        table::service()?.set_timer(socket.fd, idle);
    }
    Ok(())
}

/// `rsetsockopt`: ENOTSUP for options that do not exist here, EINVAL for RDMA ones of a connection.
///
/// # Safety
/// As the C interface demands.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn rsetsockopt(
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *const c_void,
    length: socklen_t,
) -> c_int {
    status(|| {
        let socket = table::find(fd)?;
        match &socket.inner {
            // SAFETY: the caller's promise.
            Inner::Stream(stream) => unsafe {
                set_stream(&socket, stream, (level, name), value, length)
            },
            Inner::Datagram(datagrams) => {
                let is_size = matches!(
                    (level, name),
                    (SOL_RDMA_LEVEL, _) | (libc::SOL_SOCKET, libc::SO_RCVBUF | libc::SO_SNDBUF)
                );
                if is_size {
                    // SAFETY: the caller's promise.
                    let number = unsafe { read(value, length) }?;
                    if !datagrams.set_size(|settings| set_size(settings, level, name, number))? {
                        return Err(libc::ENOTSUP);
                    }
                }
                if level == SOL_RDMA_LEVEL {
                    return Ok(());
                }
                // SAFETY: the caller's promise.
                unsafe { datagrams.set_option(level, name, value, length) }
            }
        }
    })
}

/// `rgetsockopt`.
///
/// # Safety
/// As the C interface demands.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn rgetsockopt(
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *mut c_void,
    length: *mut socklen_t,
) -> c_int {
    status(|| {
        let socket = table::find(fd)?;
        match &socket.inner {
            // SAFETY: the caller's promise.
            Inner::Stream(stream) => unsafe { lock(stream).get_option(level, name, value, length) },
            Inner::Datagram(datagrams) => {
                match datagrams.settings(|settings| get_size(settings, level, name)) {
                    // SAFETY: the caller's promise.
                    Some(number) => unsafe { write(number, value, length) },
                    // SAFETY: the caller's promise.
                    None => unsafe { datagrams.get_option(level, name, value, length) },
                }
            }
        }
    })
}
