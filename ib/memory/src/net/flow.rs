//! A socket for what one sender sends to the shared port.
//!
//! Owns: how it takes a sender's datagrams away from the socket of all, and gives them back, without losing one. The kernel finds a socket that is
//! connected to the sender at the first look and keeps the way for it (early demultiplexing), and need not say with each datagram where it came
//! from and went to: a fifth of a small packet's way. Must not know: which sender is worth it.
//!
//! *Between binding and connecting* the new socket gets whatever is sent to its address, from anybody to any process of the host. So it asks for all
//! that [`RxSocket::bind`] asks for until [`RxSocket::settle`], and whoever opens it receives what has come, as from the socket of all,
//! before.
//!
//! *One by one.* A socket that takes runs asks the kernel with each look how what came is to be cut, which a look at single datagrams can be spared
//! ([`RxSocket::gather`], [`RxSocket::receive_plain`]): a twentieth of a small packet's way.

use super::rx::{RX_BUFFER_BYTES, RxMeta, RxRing, RxSocket};
use super::{last_errno, options, system};
use crate::Error;
use std::net::{IpAddr, SocketAddr, SocketAddrV6};
use std::os::fd::{AsFd, AsRawFd};

impl RxSocket {
    /// Opens a socket of `port` for what comes from the sender of `like`, a datagram that the socket of all has received there, by the address that
    /// it was sent to. What has come already is to be received before [`RxSocket::settle`].
    ///
    /// # Errors
    /// `System`: EADDRNOTAVAIL if the address is not ours any more, ENETUNREACH if there is no way to the sender, EMFILE and the like.
    pub fn bind_flow(like: &RxMeta, port: u16, buffer_bytes: usize) -> Result<RxSocket, Error> {
        let local = place(like.destination, port, like.ifindex);
        let sender = place(like.source, like.source_port, like.ifindex);
        let socket = RxSocket::bind_to(&local, buffer_bytes)?;
        rustix::net::connect(socket.as_fd(), &sender)
            .map_err(|e| system("connect to a sender", e.raw_os_error()))?;
        Ok(socket)
    }

    /// From now on everything that comes here is taken for what `like` was, but for its length and its traffic class: the kernel is asked for nothing else.
    /// The hop limit is that of `like`.
    ///
    /// # Errors
    /// `System`: the kernel does not let go of an option.
    pub fn settle(&mut self, like: &RxMeta) -> Result<(), Error> {
        let fd = self.as_fd();
        if self.is_v6() {
            let level = libc::IPPROTO_IPV6;
            options::set(fd, level, libc::IPV6_RECVPKTINFO, 0, "IPV6_RECVPKTINFO")?;
            options::set(fd, level, libc::IPV6_RECVHOPLIMIT, 0, "IPV6_RECVHOPLIMIT")?;
        } else {
            options::set(fd, libc::IPPROTO_IP, libc::IP_PKTINFO, 0, "IP_PKTINFO")?;
            options::set(fd, libc::IPPROTO_IP, libc::IP_RECVTTL, 0, "IP_RECVTTL")?;
        }
        self.known = Some(*like);
        Ok(())
    }

    /// Whether the kernel puts datagrams together, or cuts apart what came as a run. Without it [`RxSocket::receive_plain`] may be used as soon as what
    /// came before has been received: the kernel no longer says how it is to be cut.
    ///
    /// # Errors
    /// `System`: EBADF in a forked child.
    pub fn gather(&self, runs: bool) -> Result<(), Error> {
        options::set(
            self.as_fd(),
            libc::SOL_UDP,
            libc::UDP_GRO,
            i32::from(runs),
            "UDP_GRO",
        )
    }

    /// True if nothing has come that is not received yet.
    pub fn is_empty(&self) -> bool {
        let flags = libc::MSG_DONTWAIT | libc::MSG_PEEK;
        // SAFETY: no byte is written.
        let got = unsafe { libc::recv(self.as_fd().as_raw_fd(), std::ptr::null_mut(), 0, flags) };
        got < 0 && last_errno() == libc::EAGAIN
    }

    /// Receives one datagram into the ring, whose former content is gone, of a socket that is settled and takes no runs. It is taken to be of traffic
    /// class `tos`: the kernel is asked for its bytes alone. Never waits: false if there is none.
    ///
    /// # Errors
    /// `System`: EBADF in a forked child; ENOMEM.
    #[inline]
    pub fn receive_plain(&self, ring: &mut RxRing, tos: u8) -> Result<bool, Error> {
        let Some(known) = self.known else {
            return Ok(self.receive(ring, 1)? > 0);
        };
        let (fd, room) = (self.as_fd().as_raw_fd(), ring.first_room());
        // SAFETY: the buffer lives through the call and is as long as is said. The call never waits, so it need be no point of cancellation.
        let got = unsafe {
            libc::syscall(
                libc::SYS_recvfrom,
                fd,
                room.as_mut_ptr(),
                RX_BUFFER_BYTES.min(room.len()),
                libc::MSG_DONTWAIT,
                std::ptr::null_mut::<libc::sockaddr>(),
                std::ptr::null_mut::<libc::socklen_t>(),
            )
        };
        match usize::try_from(got) {
            Ok(length) => {
                ring.fill_first(RxMeta { tos, ..known }, length);
                Ok(true)
            }
            Err(_) => match last_errno() {
                libc::EAGAIN | libc::EINTR => Ok(false),
                errno => Err(system("receiving of a datagram", errno)),
            },
        }
    }

    /// Gives the sender of `like` back to the socket of all: nothing more comes here, and what has come can still be received.
    ///
    /// # Errors
    /// `System`: EBADF in a forked child.
    pub fn turn_away(&self, like: &RxMeta) -> Result<(), Error> {
        // no sender has the port that is shared, nor is this host's own address a peer's
        let port = self.port()?;
        let nobody = place(like.destination, port, like.ifindex);
        rustix::net::connect(self.as_fd(), &nobody)
            .map_err(|e| system("connect to nobody", e.raw_os_error()))
    }
}

fn place(address: IpAddr, port: u16, ifindex: u32) -> SocketAddr {
    match address {
        IpAddr::V6(v6) if v6.is_unicast_link_local() => {
            SocketAddrV6::new(v6, port, 0, ifindex).into()
        }
        other => SocketAddr::new(other, port),
    }
}
