//! `bind` and `connect` on a host of a live fabric: any address means that host's own, so that servers of two hosts may listen on one port, and who asks for
//! localhost finds them there. Who connects to another host without having bound a socket does so from its own address, as the others see it.
//!
//! Hosts have addresses of 127.0.0.0/8, which reach each other on this machine without anybody's leave; `ferriband run --host` says which in the environment.

use crate::netlink::Socket;
use crate::{answer, real};
use ferriband_attach::number_at;
use std::ffi::{CStr, c_int, c_void};
use std::mem::size_of;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The host's address.
const VARIABLE: &CStr = c"FERRIBAND_ADDRESS";

/// Allocates nothing: programs call `connect` anywhere.
pub fn host() -> Option<Ipv4Addr> {
    // SAFETY: a C string; who changes the environment while others read it is as wrong as with any getenv.
    let value = unsafe { libc::getenv(VARIABLE.as_ptr()) };
    if value.is_null() {
        return None;
    }
    // SAFETY: ends with a zero.
    unsafe { CStr::from_ptr(value) }.to_str().ok()?.parse().ok()
}

/// An address of IPv4, or one of IPv6 that may hold one of IPv4.
#[derive(Clone, Copy)]
enum Address {
    V4(libc::sockaddr_in),
    V6(libc::sockaddr_in6),
}

impl Address {
    /// What a program gave; None for other families, and for what is too short.
    ///
    /// # Safety
    /// `address` is NULL or points to `length` bytes.
    unsafe fn read(address: *const c_void, length: libc::socklen_t) -> Option<Address> {
        let length = length as usize;
        if address.is_null() || length < size_of::<libc::sa_family_t>() {
            return None;
        }
        // SAFETY: the caller's promise.
        let family = unsafe { address.cast::<libc::sa_family_t>().read_unaligned() };
        match c_int::from(family) {
            libc::AF_INET if length >= size_of::<libc::sockaddr_in>() => {
                // SAFETY: as long as this structure.
                let given = unsafe { address.cast::<libc::sockaddr_in>().read_unaligned() };
                Some(Address::V4(given))
            }
            libc::AF_INET6 if length >= size_of::<libc::sockaddr_in6>() => {
                // SAFETY: as long as this structure.
                let given = unsafe { address.cast::<libc::sockaddr_in6>().read_unaligned() };
                Some(Address::V6(given))
            }
            _ => None,
        }
    }

    /// The address that a socket is bound to.
    fn of(socket: c_int) -> Option<Address> {
        // SAFETY: zeros are an address of no family.
        let mut name: libc::sockaddr_storage = unsafe { std::mem::zeroed() };
        let mut length = size_of::<libc::sockaddr_storage>() as libc::socklen_t;
        // SAFETY: a place of this length.
        let done = unsafe { libc::getsockname(socket, (&raw mut name).cast(), &raw mut length) };
        // SAFETY: as long as the kernel says, which is no longer than the place.
        (done == 0).then(|| unsafe { Address::read((&raw const name).cast(), length) })?
    }

    fn ip(&self) -> IpAddr {
        match self {
            Address::V4(v4) => Ipv4Addr::from(u32::from_be(v4.sin_addr.s_addr)).into(),
            Address::V6(v6) => Ipv6Addr::from(v6.sin6_addr.s6_addr).into(),
        }
    }

    /// In the network's order.
    fn port(&self) -> u16 {
        match self {
            Address::V4(v4) => v4.sin_port,
            Address::V6(v6) => v6.sin6_port,
        }
    }

    /// The same port, of that host; IPv6 sees it as a mapped address.
    fn at(mut self, host: Ipv4Addr) -> Address {
        match &mut self {
            Address::V4(v4) => v4.sin_addr.s_addr = u32::from(host).to_be(),
            Address::V6(v6) => v6.sin6_addr.s6_addr = host.to_ipv6_mapped().octets(),
        }
        self
    }

    /// The structure and its length.
    fn raw(&self) -> (*const c_void, libc::socklen_t) {
        match self {
            Address::V4(v4) => (
                std::ptr::from_ref(v4).cast(),
                size_of::<libc::sockaddr_in>() as libc::socklen_t,
            ),
            Address::V6(v6) => (
                std::ptr::from_ref(v6).cast(),
                size_of::<libc::sockaddr_in6>() as libc::socklen_t,
            ),
        }
    }
}

/// The C library's `bind`.
pub fn real_bind(socket: c_int, address: *const c_void, length: libc::socklen_t) -> c_int {
    real::call!(-1, fn bind(socket => c_int, address => *const c_void, length => libc::socklen_t) -> c_int)
}

/// The C library's `connect`.
pub fn real_connect(socket: c_int, address: *const c_void, length: libc::socklen_t) -> c_int {
    real::call!(-1, fn connect(socket => c_int, address => *const c_void, length => libc::socklen_t) -> c_int)
}

/// Calls with what an address is replaced with. What a socket that takes IPv6 alone answers to a mapped address, `v6_alone`, has it called with what the program gave,
/// as has an address that nothing replaces.
fn call(
    function: fn(c_int, *const c_void, libc::socklen_t) -> c_int,
    socket: c_int,
    replaced: Option<Address>,
    v6_alone: c_int,
    (address, length): (*const c_void, libc::socklen_t),
) -> c_int {
    if let Some(replaced) = replaced {
        let (own, own_length) = replaced.raw();
        let done = function(socket, own, own_length);
        let refused = matches!(replaced, Address::V6(_)) && done != 0;
        if !(refused && crate::errno() == v6_alone) {
            return done;
        }
    }
    function(socket, address, length)
}

/// `bind`. A socket that takes IPv6 alone has no such address, and is bound as the program says.
///
/// # Safety
/// As of the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bind(
    socket: c_int,
    address: *const c_void,
    length: libc::socklen_t,
) -> c_int {
    if let Some(netlink) = Socket::of(socket) {
        // SAFETY: the caller's promise.
        return answer(-1, || unsafe { netlink.bind(address, length) });
    }
    let own = host().and_then(|host| {
        // SAFETY: the caller's promise.
        let given = unsafe { Address::read(address, length) }?;
        given.ip().is_unspecified().then(|| given.at(host))
    });
    call(real_bind, socket, own, libc::EINVAL, (address, length))
}

/// Where a connection goes that a program asks for.
enum Way {
    /// Where the program says.
    AsAsked,
    /// A stream to localhost: to the host's own address, where somebody listens.
    Home(Address),
    /// To a host of the fabric.
    Host(Address),
}

fn way(host: Ipv4Addr, socket: c_int, to: Address) -> Way {
    match to.ip().to_canonical() {
        IpAddr::V4(v4) if number_at(v4).is_some() => Way::Host(to),
        ip if ip == Ipv4Addr::LOCALHOST || ip == Ipv6Addr::LOCALHOST => {
            match is_stream(socket) && listens(host, to.port()) {
                true => Way::Home(to.at(host)),
                false => Way::AsAsked,
            }
        }
        _ => Way::AsAsked,
    }
}

/// Gives a socket that has no address yet the host's own: the kernel would take 127.0.0.1, which is every host's. Its port is chosen when it connects, so that as many
/// connections are possible as without. What does not succeed is left to `connect` to complain of.
fn leave_from(host: Ipv4Addr, socket: c_int) {
    let Some(name) = Address::of(socket) else {
        return;
    };
    if name.port() != 0 || !name.ip().is_unspecified() {
        return;
    }
    let before = crate::errno();
    let one: c_int = 1;
    // SAFETY: the option's value is as long as is told.
    unsafe {
        libc::setsockopt(
            socket,
            libc::IPPROTO_IP,
            libc::IP_BIND_ADDRESS_NO_PORT,
            (&raw const one).cast(),
            size_of::<c_int>() as libc::socklen_t,
        );
    }
    let own = name.at(host);
    let (own, length) = own.raw();
    real_bind(socket, own, length);
    crate::set_errno(before);
}

fn is_stream(socket: c_int) -> bool {
    let mut kind: c_int = 0;
    let mut length = size_of::<c_int>() as libc::socklen_t;
    // SAFETY: a value of the length that is told.
    let done = unsafe {
        libc::getsockopt(
            socket,
            libc::SOL_SOCKET,
            libc::SO_TYPE,
            (&raw mut kind).cast(),
            &raw mut length,
        )
    };
    done == 0 && kind == libc::SOCK_STREAM
}

/// Whether somebody listens at this address and port (in the network's order): a socket of ours cannot have it then. Nobody notices.
fn listens(host: Ipv4Addr, port: u16) -> bool {
    // SAFETY: a new socket, which is closed below.
    let probe = unsafe { libc::socket(libc::AF_INET, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0) };
    if probe < 0 {
        return false;
    }
    let (one, length): (c_int, _) = (1, size_of::<c_int>() as libc::socklen_t);
    let at = libc::sockaddr_in {
        sin_family: libc::AF_INET as _,
        sin_port: port,
        sin_addr: libc::in_addr {
            s_addr: u32::from(host).to_be(),
        },
        sin_zero: [0; 8],
    };
    // SAFETY: the option's value and the address are as long as is told.
    let (bound, error) = unsafe {
        // connections that were there a moment ago do not count
        libc::setsockopt(
            probe,
            libc::SOL_SOCKET,
            libc::SO_REUSEADDR,
            (&raw const one).cast(),
            length,
        );
        let bound = libc::bind(
            probe,
            (&raw const at).cast(),
            size_of::<libc::sockaddr_in>() as libc::socklen_t,
        );
        (bound, crate::errno())
    };
    // SAFETY: ours.
    unsafe { libc::close(probe) };
    bound != 0 && error == libc::EADDRINUSE
}

/// `connect`. On a host of a live fabric localhost is that host, and, where nobody listens on it, this machine. A socket that takes IPv6 alone goes to the machine.
///
/// # Safety
/// As of the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn connect(
    socket: c_int,
    address: *const c_void,
    length: libc::socklen_t,
) -> c_int {
    if let Some(netlink) = Socket::of(socket) {
        // SAFETY: the caller's promise.
        return answer(-1, || unsafe { netlink.connect(address, length) });
    }
    let way = host().and_then(|host| {
        // SAFETY: the caller's promise.
        let to = unsafe { Address::read(address, length) }?;
        Some((host, way(host, socket, to)))
    });
    let to = match way {
        None | Some((_, Way::AsAsked)) => None,
        Some((host, Way::Home(to) | Way::Host(to))) => {
            leave_from(host, socket);
            Some(to)
        }
    };
    call(
        real_connect,
        socket,
        to,
        libc::ENETUNREACH,
        (address, length),
    )
}
