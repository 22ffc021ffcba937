//! Whether the process at a channel's other end holds the other end of a TCP connection.
//!
//! Owns: the checks of users and socket numbers. Must not know: messages. A user and a cookie come
//! from the kernel, by two ways that must agree: SO_PEERCRED of the channel, `sock_diag` of the
//! socket, which is asked in this network namespace, or by what the peer gives in its own.

use super::No;
use super::message::Reason;
use super::place::means_a_host;
use crate::diag::{Diag, Holder};
use crate::own::Own;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::net::SocketAddr;

/// TCP_ESTABLISHED.
const ESTABLISHED: u8 = 1;
/// TCP_CLOSE_WAIT.
const CLOSE_WAIT: u8 = 8;
/// The uid that stands for those without a number here, where the kernel does not tell it.
const OVERFLOW: u32 = 65534;

/// What the kernel is asked by.
#[derive(Debug)]
pub struct Credentials {
    diag: Diag,
    /// Stands for every user whom this user namespace cannot name.
    overflow: u32,
    own: u32,
}

impl Credentials {
    /// Of this process, as it is. One that changes its user makes new services: the kernel
    /// remembers who they were of.
    ///
    /// # Errors
    /// `sock_diag` cannot be asked.
    pub fn new() -> Result<Self, Errno> {
        Ok(Self {
            diag: Diag::open()?,
            overflow: overflow().unwrap_or(OVERFLOW),
            own: rustix::process::geteuid().as_raw(),
        })
    }

    /// Whether this process is still the user's that it was.
    pub fn are_current(&self) -> bool {
        rustix::process::geteuid().as_raw() == self.own
    }

    /// Whether a user is this process's.
    pub fn is_own(&self, uid: u32) -> bool {
        uid == self.own && uid != self.overflow
    }

    /// The socket at `there` that is connected to `here`, if its holder may be spoken to at all.
    ///
    /// # Errors
    /// Why not. Nobody has accepted it so far: later.
    pub fn look(&self, there: SocketAddr, here: SocketAddr) -> Result<Holder, No> {
        let found = match self.diag.holder(there, here) {
            Ok(Some(found)) => found,
            Ok(None) => return Err(No::Never(Reason::Elsewhere)),
            Err(_) => return Err(No::Never(Reason::NoDiag)),
        };
        self.may_meet(&found).map(|()| found)
    }

    /// Whether nobody has accepted the socket at `there` that is connected to `here`, whose stream
    /// this side may have ended. One that was accepted and closed has ended its own as well.
    pub fn is_unaccepted(&self, there: SocketAddr, here: SocketAddr) -> bool {
        let found = self.diag.holder(there, here).ok().flatten();
        found.is_some_and(|found| {
            found.inode == 0 && [ESTABLISHED, CLOSE_WAIT].contains(&found.state)
        })
    }

    /// The socket at `there` that is connected to `here`, in the network namespace of a peer.
    ///
    /// # Errors
    /// Why its holder may not be spoken to.
    pub fn look_by(&self, diag: &Diag, there: SocketAddr, here: SocketAddr) -> Result<Holder, No> {
        // one of this namespace's own may have ends that are called so in every other
        match self.diag.holder(there, here) {
            Ok(None) => {}
            Ok(Some(_)) => return Err(No::Never(Reason::NotTheSocket)),
            Err(_) => return Err(No::Never(Reason::NoDiag)),
        }
        let found = match diag.holder(there, here) {
            Ok(Some(found)) if means_a_host(there) && means_a_host(here) => found,
            _ => return Err(No::Never(Reason::NotTheSocket)),
        };
        self.may_meet(&found).map(|()| found)
    }

    /// Whether there are two users that can be told apart.
    ///
    /// # Errors
    /// One has no number in this user namespace.
    pub fn are_known(&self, uid: u32) -> Result<(), Reason> {
        match uid == self.overflow || self.own == self.overflow {
            true => Err(Reason::UnknownUser),
            false => Ok(()),
        }
    }

    fn may_meet(&self, found: &Holder) -> Result<(), No> {
        if found.state != ESTABLISHED {
            return Err(No::Never(Reason::NotEstablished));
        }
        if found.inode == 0 {
            return Err(No::Later);
        }
        if found.uid == self.overflow || self.own == self.overflow {
            return Err(No::Never(Reason::UnknownUser));
        }
        Ok(())
    }

    /// Whether a process of this user, which names the socket by this cookie, holds `found`.
    ///
    /// # Errors
    /// It does not.
    pub fn compare(&self, found: &Holder, uid: u32, cookie: u64) -> Result<(), Reason> {
        if uid == self.overflow {
            return Err(Reason::UnknownUser);
        }
        if uid != found.uid {
            return Err(Reason::NotTheUser);
        }
        if cookie != found.cookie {
            return Err(Reason::NotTheSocket);
        }
        Ok(())
    }
}

fn overflow() -> Option<u32> {
    let path = c"/proc/sys/kernel/overflowuid";
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let file = Own::make(|| rustix::fs::open(path, flags, Mode::empty())).ok()?;
    let mut text = [0; 16];
    let length = rustix::io::read(&file, &mut text).ok()?;
    let text = std::str::from_utf8(&text[..length]).ok()?;
    text.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    const FOUND: Holder = Holder {
        uid: 1000,
        inode: 5,
        cookie: 77,
        state: ESTABLISHED,
    };

    fn credentials(own: u32) -> Credentials {
        Credentials {
            own,
            ..Credentials::new().expect("this kernel tells")
        }
    }

    #[test]
    fn a_socket_that_nobody_can_have_agreed_about_is_left_alone() {
        let credentials = credentials(1000);
        let with = |change: fn(&mut Holder)| {
            let mut found = FOUND;
            change(&mut found);
            credentials.may_meet(&found)
        };
        assert_eq!(with(|_| ()), Ok(()));
        let never = |reason| Err(No::Never(reason));
        assert_eq!(with(|found| found.inode = 0), Err(No::Later));
        assert_eq!(with(|found| found.state = 8), never(Reason::NotEstablished));
        assert_eq!(with(|found| found.uid = 1001), Ok(()));
        let overflow = credentials.overflow;
        let unknown = Holder {
            uid: overflow,
            ..FOUND
        };
        assert_eq!(credentials.may_meet(&unknown), never(Reason::UnknownUser));
        // two users without a number are not one user
        let nobody = self::credentials(overflow);
        assert_eq!(nobody.may_meet(&unknown), never(Reason::UnknownUser));
    }

    #[test]
    fn user_and_cookie_are_both_compared() {
        let credentials = credentials(1000);
        assert_eq!(credentials.compare(&FOUND, 1000, 77), Ok(()));
        let other = credentials.compare(&FOUND, 1001, 77);
        assert_eq!(other, Err(Reason::NotTheUser));
        let other = credentials.compare(&FOUND, 1000, 78);
        assert_eq!(other, Err(Reason::NotTheSocket));
        let unknown = Holder {
            uid: credentials.overflow,
            ..FOUND
        };
        let other = credentials.compare(&unknown, credentials.overflow, 77);
        assert_eq!(other, Err(Reason::UnknownUser));
    }

    #[test]
    fn the_kernel_says_who_holds_a_socket_and_since_when() {
        let credentials = Credentials::new().expect("this kernel tells");
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let there = listener.local_addr().expect("bound");
        let stream = TcpStream::connect(there).expect("connected");
        let here = stream.local_addr().expect("one");
        assert_eq!(credentials.look(there, here), Err(No::Later));
        let accepted = listener.accept().expect("accepted");
        let found = credentials.look(there, here).expect("a holder");
        assert_eq!(found.uid, credentials.own);
        drop((accepted, stream));
        assert!(credentials.look(there, here).is_err());
        assert_eq!(overflow(), Some(credentials.overflow));
    }
}
