//! In which network namespace a peer's socket is, and whose it is there, as the kernel says it.
//!
//! Owns: what a process gives of its namespace for that, and what is checked of what a peer gives.
//! Must not know: messages, and who asks.
//!
//! A peer gives a descriptor of its network namespace, and a socket of `sock_diag` that it has
//! opened there. That they are of one namespace the kernel tells by numbers. Any user can make a
//! network namespace with any addresses in a user namespace of his own, and connections in it whose
//! ends are called as another's. So only namespaces are believed that belong to this process's own
//! user namespace: whoever may make those could speak for everybody in it anyway.
//!
//! The socket tells of one connection and of no other: a filter that cannot be removed drops all
//! else. So who gets it learns nothing that its peer does not know.

use super::message::Reason;
use super::pair::Broken;
use crate::diag::Diag;
use crate::own::Own;
use crate::raw::system_call;
use rustix::fs::{Mode, OFlags, Stat};
use rustix::io::Errno;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// The user namespace that a namespace belongs to; its kind; its number (Linux 6.18).
const NS_GET_USERNS: isize = 0xb701;
const NS_GET_NSTYPE: isize = 0xb703;
const NS_GET_ID: isize = 0x8008_b70d;

/// This process's namespaces.
#[derive(Debug)]
pub struct Place {
    namespace: Own,
    /// The user namespace, by device and inode.
    users: (u64, u64),
}

/// A network namespace that is believed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Namespace(u64);

impl Place {
    /// Those in which this process is.
    ///
    /// # Errors
    /// As open(2): no /proc.
    pub fn new() -> Result<Self, Errno> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let open = |path| Own::make(|| rustix::fs::open(path, flags, Mode::empty()));
        let users = rustix::fs::fstat(open(c"/proc/thread-self/ns/user")?)?;
        Ok(Self {
            namespace: open(c"/proc/thread-self/ns/net")?,
            users: which(&users),
        })
    }

    /// What peers are given of the network namespace.
    pub fn namespace(&self) -> BorrowedFd<'_> {
        self.namespace.as_fd()
    }

    /// Whether peers that see things as this process does believe its own namespace.
    ///
    /// # Errors
    /// Why not.
    pub fn is_believed(&self) -> Result<(), Reason> {
        self.believe(&self.namespace).map(drop)
    }

    /// What a peer has given to prove its end: a ticket, and with the first its network namespace,
    /// which is kept in `namespace`.
    ///
    /// # Errors
    /// Other descriptors than these.
    pub fn open(
        &self,
        fds: Vec<OwnedFd>,
        namespace: &mut Option<Result<Namespace, Reason>>,
    ) -> Result<(Own, Result<Namespace, Reason>), Broken> {
        if fds.len() != 1 + usize::from(namespace.is_none()) {
            return Err(Broken);
        }
        let mut fds = fds.into_iter().map(|fd| Own::hide(fd).map_err(|_| Broken));
        let ticket = fds.next().ok_or(Broken)??;
        if let Some(given) = fds.next() {
            *namespace = Some(self.believe(&given?));
        }
        Ok((ticket, namespace.ok_or(Broken)?))
    }

    /// The namespace that a peer gives.
    ///
    /// # Errors
    /// It is none, or is not believed.
    pub fn believe(&self, given: &Own) -> Result<Namespace, Reason> {
        if !is_network(given) {
            return Err(Reason::OtherOwner);
        }
        let kind = control(given.as_fd(), NS_GET_NSTYPE, 0);
        let owner = control(given.as_fd(), NS_GET_USERNS, 0);
        let owner = owner.map_err(|_| Reason::OtherOwner)?;
        // SAFETY: the kernel has just made it for this call.
        let owner = unsafe { OwnedFd::from_raw_fd(owner as i32) };
        let owner = rustix::fs::fstat(&owner).map_err(|_| Reason::OtherOwner)?;
        if kind != Ok(libc::CLONE_NEWNET as isize) || which(&owner) != self.users {
            return Err(Reason::OtherOwner);
        }
        let mut number = 0_u64;
        let told = control(given.as_fd(), NS_GET_ID, (&raw mut number) as isize);
        told.map_err(|_| Reason::NoNamespaces)?;
        Ok(Namespace(number))
    }
}

impl Namespace {
    /// The socket of `sock_diag` that a peer gives, which has to be of this namespace.
    ///
    /// # Errors
    /// It is none, or of another.
    pub fn diag(self, given: Own) -> Result<Diag, Reason> {
        let diag = Diag::of_peer(given).map_err(|_| Reason::NotTheSocket)?;
        match diag.namespace() {
            Ok(number) if number == self.0 => Ok(diag),
            Ok(_) => Err(Reason::NotTheSocket),
            Err(_) => Err(Reason::NoNamespaces),
        }
    }
}

fn which(of: &Stat) -> (u64, u64) {
    (of.st_dev, of.st_ino)
}

/// Whether a descriptor is that of a network namespace. Nothing else is asked of one that is not: a
/// file system of the peer's own could let this thread wait.
fn is_network(given: &Own) -> bool {
    let path = format!("/proc/self/fd/{}", given.as_fd().as_raw_fd());
    let mut name = [0; 64];
    let read = rustix::fs::readlinkat_raw(rustix::fs::CWD, path.as_str(), &mut name);
    // files have a slash before all else
    read.is_ok_and(|length| name[..length].starts_with(b"net:["))
}

fn control(of: BorrowedFd<'_>, request: isize, argument: isize) -> Result<isize, Errno> {
    let arguments = [of.as_raw_fd() as isize, request, argument, 0, 0, 0];
    // SAFETY: of a namespace the kernel writes no more than what the argument points to, if any.
    unsafe { system_call(libc::SYS_ioctl, arguments) }
}

/// Whether an address means a host of a network, and not whatever host the asking one is, or is
/// next to.
pub fn means_a_host(address: SocketAddr) -> bool {
    match address.ip().to_canonical() {
        IpAddr::V4(ip) => {
            let is_special = ip.is_loopback() || ip.is_unspecified() || ip.is_link_local();
            !is_special && !ip.is_multicast() && !ip.is_broadcast()
        }
        IpAddr::V6(ip) => {
            let is_special = ip.is_loopback() || ip.is_unspecified();
            !is_special && !ip.is_unicast_link_local() && !ip.is_multicast()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    fn ends() -> (TcpStream, TcpStream, [SocketAddr; 2]) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let here = TcpStream::connect(listener.local_addr().expect("bound")).expect("connected");
        let there = listener.accept().expect("accepted").0;
        let [own, peer] = [here.local_addr(), here.peer_addr()];
        (here, there, [own.expect("one"), peer.expect("one")])
    }

    fn copy(of: impl AsFd) -> Own {
        Own::copy(of.as_fd()).expect("room")
    }

    fn place() -> Option<(Place, Namespace)> {
        let place = Place::new().expect("there is /proc");
        match place.believe(&copy(place.namespace())) {
            Ok(namespace) => Some((place, namespace)),
            Err(Reason::NoNamespaces) => {
                eprintln!("SKIP: this kernel gives namespaces no numbers");
                None
            }
            // this process is in a user namespace, its network is the host's
            Err(reason) => {
                eprintln!("SKIP: {reason}");
                None
            }
        }
    }

    #[test]
    fn a_ticket_tells_of_one_connection_alone() {
        let Some((_, namespace)) = place() else {
            return;
        };
        let (_here, _there, [own, peer]) = ends();
        let (_a, _b, [other, to]) = ends();
        let ticket = Diag::ticket(own, peer).expect("a socket");
        let diag = namespace.diag(copy(ticket)).expect("of this namespace");
        let found = diag.holder(own, peer).expect("an answer");
        let uid = found.expect("it is there").uid;
        assert_eq!(uid, rustix::process::getuid().as_raw());
        assert!(!matches!(diag.holder(other, to), Ok(Some(_))));
        assert!(!matches!(diag.holder(peer, own), Ok(Some(_))));
        assert!(matches!(diag.holder(own, peer), Ok(Some(_))), "as before");
    }

    #[test]
    fn what_is_no_namespace_and_no_ticket_is_refused() {
        let Some((place, namespace)) = place() else {
            return;
        };
        let (here, _there, _) = ends();
        let file = std::fs::File::open("/proc/self/ns/user").expect("it is there");
        let other = std::fs::File::open("/proc/self/status").expect("it is there");
        for wrong in [copy(&here), copy(&file), copy(&other)] {
            assert_eq!(place.believe(&wrong), Err(Reason::OtherOwner));
        }
        for wrong in [copy(&here), copy(&other)] {
            let refused = namespace.diag(wrong).err();
            assert_eq!(refused, Some(Reason::NotTheSocket));
        }
        let elsewhere = Namespace(namespace.0 + 1);
        let ticket = Diag::ticket(
            "192.0.2.1:1".parse().expect("one"),
            "192.0.2.2:2".parse().expect("one"),
        );
        let refused = elsewhere.diag(copy(ticket.expect("a socket"))).err();
        assert_eq!(refused, Some(Reason::NotTheSocket));
    }

    #[test]
    fn addresses_that_every_host_has_mean_none() {
        let means = |text: &str| means_a_host(text.parse().expect("an address"));
        for none in [
            "127.0.0.1:1",
            "[::1]:1",
            "[::ffff:127.0.0.1]:1",
            "0.0.0.0:1",
            "169.254.1.1:1",
            "[fe80::1]:1",
        ] {
            assert!(!means(none), "{none}");
        }
        assert!(means("10.0.0.1:1") && means("[fd00::1]:1"));
    }
}
