//! A socket for what one sender sends to the shared port.
//!
//! Owns: how it takes a sender's datagrams away from the socket of all, and gives them back, without losing one. The kernel finds a socket that is
//! connected to the sender at the first look and keeps the way for it (early demultiplexing), and need not say with each datagram where it came
//! from and went to: a fifth of a small packet's way. Must not know: which sender is worth it.
//!
//! *Between binding and connecting* the new socket gets whatever is sent to its address, from anybody to any process of the host. So it asks for all
//! that [`RxSocket::bind`] asks for until [`RxSocket::settle`], and whoever opens it receives what has come, as from the socket of all,
//! before.

use super::rx::{RxMeta, RxSocket};
use super::{options, system};
use crate::Error;
use std::net::{IpAddr, SocketAddr, SocketAddrV6};
use std::os::fd::AsFd;

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
