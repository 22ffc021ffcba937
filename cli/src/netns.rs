//! Two hosts out of one: two network namespaces joined by a veth pair, made without privilege.
//!
//! Owns: namespaces, interfaces and addresses of a demonstration between hosts. Nothing of it outlives this process and the
//! programs that it starts: a namespace ends with the last process or descriptor in it, and takes its interfaces along. Must not
//! know: what runs there.

mod rtnetlink;

use rtnetlink::Socket;
use std::fs::{self, File};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

/// The interface of either host, and so the device `ferri_eth0`.
pub const INTERFACE: &str = "eth0";
/// The device that Ferriband makes of it.
pub const DEVICE: &str = "ferri_eth0";

/// One of the two hosts.
pub struct Host {
    namespace: File,
    /// Its IPv4 address, of the range for documentation: entry 1 of its GID table. Entry 0 is its link-local address, entry 2
    /// its IPv6 address.
    pub address: Ipv4Addr,
}

/// Two hosts and the wire between them.
pub struct TwoHosts {
    /// Where this process is, too.
    pub first: Host,
    /// The other.
    pub second: Host,
}

/// Why there can be no two hosts here.
#[derive(Debug)]
pub struct Forbidden(pub String);

impl Forbidden {
    fn new(what: &str, error: &io::Error) -> Self {
        let hint = match error.raw_os_error() {
            // what the kernel says is about disks
            Some(libc::ENOSPC) => {
                ": the limit is reached (sysctl user.max_user_namespaces, user.max_net_namespaces)"
            }
            Some(libc::EOPNOTSUPP) => ": the kernel has no such interfaces (module veth)",
            _ => "",
        };
        Forbidden(format!("cannot {what}: {error}{hint}"))
    }
}

impl Host {
    fn new(number: u8, namespace: File) -> Self {
        Host {
            namespace,
            address: Ipv4Addr::new(192, 0, 2, number),
        }
    }

    fn number(&self) -> u8 {
        self.address.octets()[3]
    }

    /// Its link-local IPv6 address.
    pub fn link_local(&self) -> Ipv6Addr {
        Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, self.number().into())
    }

    /// Its IPv6 address, of the range for documentation.
    pub fn ipv6(&self) -> Ipv6Addr {
        Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, self.number().into())
    }

    /// The namespace, for a child to enter.
    pub fn namespace(&self) -> BorrowedFd<'_> {
        self.namespace.as_fd()
    }

    /// Brings the calling thread there, and what it starts from then on.
    pub fn enter(&self) -> io::Result<()> {
        enter(self.namespace.as_fd())
    }

    /// Addresses and links, from inside.
    fn configure(&self) -> io::Result<()> {
        let mut socket = Socket::open()?;
        let interface = rtnetlink::index_of(INTERFACE)?;
        socket.set_link(rtnetlink::index_of("lo")?, true)?;
        // our own link-local address instead of the kernel's, which is not usable before a second has passed
        socket.no_automatic_address(interface)?;
        socket.add_address(interface, IpAddr::V4(self.address), 24)?;
        socket.set_link(interface, true)?;
        // a host without IPv6 is one as well
        for address in [self.link_local(), self.ipv6()] {
            if let Err(error) = socket.add_address(interface, IpAddr::V6(address), 64)
                && !no_ipv6(&error)
            {
                return Err(error);
            }
        }
        Ok(())
    }
}

/// Sets the interface of the host that the calling thread is on up or down, as `ip link set` does.
pub fn set_link(is_up: bool) -> io::Result<()> {
    Socket::open()?.set_link(rtnetlink::index_of(INTERFACE)?, is_up)
}

fn no_ipv6(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EOPNOTSUPP | libc::EACCES | libc::EAFNOSUPPORT)
    )
}

/// Enters a network namespace with the calling thread. Safe between fork and exec.
pub fn enter(namespace: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: setns takes a descriptor, which is open, and a kind.
    match unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

fn unshare(what: libc::c_int) -> io::Result<()> {
    // SAFETY: unshare takes a number.
    match unsafe { libc::unshare(what) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

fn current() -> Result<File, Forbidden> {
    // of the thread, not of the process: the two may differ
    File::open("/proc/thread-self/ns/net")
        .map_err(|error| Forbidden::new("open this network namespace", &error))
}

/// Makes the two hosts and leaves this process, which must have a single thread, in the first.
///
/// # Errors
/// Namespaces or veth are forbidden here.
pub fn two_hosts() -> Result<TwoHosts, Forbidden> {
    become_own_user()?;
    unshare(libc::CLONE_NEWNET)
        .map_err(|error| Forbidden::new("make a network namespace", &error))?;
    let first = Host::new(1, current()?);
    unshare(libc::CLONE_NEWNET)
        .map_err(|error| Forbidden::new("make a second network namespace", &error))?;
    let second = Host::new(2, current()?);
    let at = |host: &Host, what, act: &dyn Fn() -> io::Result<()>| {
        host.enter()
            .and_then(|()| act())
            .map_err(|error| Forbidden::new(what, &error))
    };
    at(&first, "make a veth pair", &|| {
        Socket::open()?.add_veth(INTERFACE, INTERFACE, second.namespace())
    })?;
    at(&second, "give the second host its address", &|| {
        second.configure()
    })?;
    at(&first, "give the first host its address", &|| {
        first.configure()
    })?;
    Ok(TwoHosts { first, second })
}

/// A user namespace of our own, in which everybody may make network namespaces; nobody's number changes. Root goes without where
/// there are none.
fn become_own_user() -> Result<(), Forbidden> {
    // SAFETY: neither has preconditions.
    let (user, group) = unsafe { (libc::geteuid(), libc::getegid()) };
    if let Err(error) = unshare(libc::CLONE_NEWUSER) {
        if user == 0 {
            return Ok(());
        }
        return Err(Forbidden::new(
            "make a user namespace (sysctl user.max_user_namespaces, kernel.unprivileged_userns_clone, \
             kernel.apparmor_restrict_unprivileged_userns)",
            &error,
        ));
    }
    let write = |file: &str, text: String| {
        fs::write(format!("/proc/self/{file}"), text)
            .map_err(|error| Forbidden::new(&format!("write {file} of a user namespace"), &error))
    };
    // a kernel before 3.19 has no such file, and needs none
    if fs::exists("/proc/self/setgroups").unwrap_or(false) {
        write("setgroups", "deny".into())?;
    }
    write("gid_map", format!("{group} {group} 1"))?;
    write("uid_map", format!("{user} {user} 1"))
}
