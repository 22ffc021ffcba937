//! The directory by which processes of several network namespaces find each other: setting `meet`.
//!
//! Owns: names in it, how they come and go, and that nobody is led elsewhere by one. Must not know:
//! what is said at a name. Others may write there too: a name proves nothing, is never followed as
//! a link, and only one of ours of which no process listens is removed.

use super::channel::{self, Channel};
use super::message::Name;
use crate::own::Own;
use crate::raw::system_call;
use rustix::fs::{AtFlags, FileType, FlockOperation, Mode, OFlags, RawDir};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use rustix::rand::{GetRandomFlags, getrandom};
use std::ffi::CString;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::path::Path;

/// What all names begin with.
const PREFIX: &str = "ferriband-sdp";
/// Names that a new process looks after, beside those that it needs. Each process leaves two at
/// most, so those of the dead stay few.
const SWEPT: usize = 16;
/// Names that are read at most.
const MOST_NAMES: usize = 1 << 14;
/// Every user may connect: who it is, the kernel says.
const FOR_ALL: isize = 0o666;

/// A directory that processes of several network namespaces see.
#[derive(Debug)]
pub struct Directory(Own);

/// A socket that others can ask. Its name in a directory is removed with the last process that
/// listens there.
#[derive(Debug)]
pub struct Door {
    listener: Option<Own>,
    name: Option<(&'static Directory, String)>,
}

impl Directory {
    /// Opens it.
    ///
    /// # Errors
    /// As open(2).
    pub fn open(path: &Path) -> Result<Self, Errno> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Own::make(|| rustix::fs::open(path, flags, Mode::empty())).map(Self)
    }

    /// Takes a name, from which on everybody can connect.
    ///
    /// # Errors
    /// ADDRINUSE: a process has it. As bind(2), listen(2).
    pub fn listen(&'static self, name: &str) -> Result<Door, Errno> {
        let socket = channel::socket()?;
        let address = self.address(name)?;
        let bound = match rustix::net::bind(&socket, &address) {
            Err(Errno::ADDRINUSE) if self.remove(name) => rustix::net::bind(&socket, &address),
            bound => bound,
        };
        bound?;
        let door = Door {
            listener: Some(socket),
            name: Some((self, name.to_owned())),
        };
        // where a filter forbids it, processes of the same user alone can connect
        let _ = self.open_to_all(name);
        rustix::net::listen(&door, channel::BACKLOG)?;
        Ok(door)
    }

    /// Connects to whoever listens at a name.
    ///
    /// # Errors
    /// CONNREFUSED: nobody does. As open(2), connect(2).
    pub fn connect(&self, name: &str) -> Result<Channel, Errno> {
        let there = self.find(name)?;
        let address = format!("/proc/self/fd/{}", there.as_fd().as_raw_fd());
        let connected = Channel::connect(&SocketAddrUnix::new(address)?);
        if matches!(connected, Err(Errno::CONNREFUSED)) {
            self.remove(name);
        }
        connected
    }

    /// The socket with this name itself, whatever the name is replaced by meanwhile.
    fn find(&self, name: &str) -> Result<Own, Errno> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let open = || rustix::fs::openat(&self.0, name, flags, Mode::empty());
        let there = match Own::make(open) {
            Err(Errno::NOENT) => return Err(Errno::CONNREFUSED),
            there => there?,
        };
        let mode = rustix::fs::fstat(&there)?.st_mode;
        match FileType::from_raw_mode(mode) {
            FileType::Socket => Ok(there),
            _ => Err(Errno::NOTSOCK),
        }
    }

    fn address(&self, name: &str) -> Result<SocketAddrUnix, Errno> {
        // short enough, however long the directory's own path is
        let directory = self.0.as_fd().as_raw_fd();
        SocketAddrUnix::new(format!("/proc/self/fd/{directory}/{name}"))
    }

    /// No link is followed: another user may have replaced the name.
    fn open_to_all(&self, name: &str) -> Result<(), Errno> {
        let name = CString::new(name).map_err(|_| Errno::INVAL)?;
        let directory = self.0.as_fd().as_raw_fd() as isize;
        let flags = libc::AT_SYMLINK_NOFOLLOW as isize;
        let arguments = [directory, name.as_ptr() as isize, FOR_ALL, flags, 0, 0];
        // SAFETY: the kernel reads the name, which ends with a 0.
        unsafe { system_call(libc::SYS_fchmodat2, arguments) }.map(drop)
    }

    /// Whether a name is a socket's that no process has any more. One that is bound and does not
    /// listen so far is a socket of another type to who asks so.
    fn is_dead(&self, name: &str) -> bool {
        let ask = || {
            let there = self.find(name)?;
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            let (family, kind) = (AddressFamily::UNIX, SocketType::DGRAM);
            let socket = Own::make(|| rustix::net::socket_with(family, kind, flags, None))?;
            let address = format!("/proc/self/fd/{}", there.as_fd().as_raw_fd());
            rustix::net::connect(&socket, &SocketAddrUnix::new(address)?)
        };
        // as `find` has it of one that is not there
        self.find(name).is_ok() && ask() == Err(Errno::CONNREFUSED)
    }

    /// Removes a name that no process has any more. One process at a time does it, so that none
    /// removes what another has taken since. False: it is there as before.
    fn remove(&self, name: &str) -> bool {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        // of this process alone: a lock belongs to what open(2) has made
        let Ok(lock) = Own::make(|| rustix::fs::openat(&self.0, c".", flags, Mode::empty())) else {
            return false;
        };
        // whoever holds it looks after the names, or stands in the way: nothing is waited for
        rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok()
            && self.is_dead(name)
            && rustix::fs::unlinkat(&self.0, name, AtFlags::empty()).is_ok()
    }

    /// Removes some names of processes that were killed.
    pub fn sweep(&self) {
        let names = self.names();
        let mut start = [0; 4];
        let _ = getrandom(&mut start, GetRandomFlags::empty());
        let start = u32::from_ne_bytes(start) as usize % names.len().max(1);
        let some = names.iter().cycle().skip(start);
        for name in some.take(SWEPT.min(names.len())) {
            if self.is_dead(name) {
                self.remove(name);
            }
        }
    }

    fn names(&self) -> Vec<String> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let Ok(all) = Own::make(|| rustix::fs::openat(&self.0, c".", flags, Mode::empty())) else {
            return Vec::new();
        };
        let mut room = Vec::with_capacity(4096);
        let mut entries = RawDir::new(&all, room.spare_capacity_mut());
        let mut names = Vec::new();
        while names.len() < MOST_NAMES
            && let Some(Ok(entry)) = entries.next()
        {
            let name = entry.file_name().to_str().unwrap_or_default();
            if name.starts_with(PREFIX) {
                names.push(name.to_owned());
            }
        }
        names
    }
}

impl Door {
    /// One without a name in a directory.
    pub fn of(listener: Own) -> Self {
        Self {
            listener: Some(listener),
            name: None,
        }
    }
}

impl AsFd for Door {
    fn as_fd(&self) -> BorrowedFd<'_> {
        let listener = self.listener.as_ref();
        listener.expect("it is taken in drop alone").as_fd()
    }
}

impl Door {
    /// This process listens there no more. The name is left: a thread may be asleep on the socket,
    /// which the kernel keeps as long.
    pub fn close(mut self) -> Option<Left> {
        self.listener = None;
        let (directory, name) = self.name.take()?;
        Some(Left { directory, name })
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        self.listener = None;
        if let Some((directory, name)) = self.name.take() {
            directory.remove(&name);
        }
    }
}

/// A name that this process has left.
#[derive(Debug)]
pub struct Left {
    directory: &'static Directory,
    name: String,
}

impl Left {
    /// Removes it, if nobody listens there any more. False: somebody does, as a forked process.
    pub fn remove(&self) -> bool {
        self.directory.remove(&self.name)
    }
}

/// The name of a port's family.
pub fn family_name(port: u16, place: u8) -> String {
    format!("{PREFIX}.{port}.{place}")
}

/// The name of a process's own socket.
pub fn process_name(name: Name) -> String {
    let hex: String = name.0.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{PREFIX}-{hex}")
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::channel::{Received, accept};
    use super::super::message::{Message, Packet};
    use super::*;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::path::PathBuf;
    use std::sync::atomic::{AtomicU32, Ordering};

    /// A directory of a test, which is removed with it.
    pub struct Scratch {
        pub path: PathBuf,
        pub directory: &'static Directory,
    }

    impl Scratch {
        pub fn new() -> Self {
            static NEXT: AtomicU32 = AtomicU32::new(0);
            let (pid, next) = (std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
            let path = std::env::temp_dir().join(format!("ferriband-meet-{pid}-{next}"));
            fs::create_dir(&path).expect("a new directory");
            let directory = Directory::open(&path).expect("it is there");
            Self {
                path,
                directory: Box::leak(Box::new(directory)),
            }
        }

        pub fn names(&self) -> usize {
            self.directory.names().len()
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.path);
        }
    }

    /// A name without a process: the socket is closed, the name stays.
    fn dead(scratch: &Scratch, name: &str) {
        let mut door = scratch.directory.listen(name).expect("free");
        door.name = None;
    }

    #[test]
    fn whoever_connects_reaches_the_one_who_listens() {
        let scratch = Scratch::new();
        let name = family_name(80, 0);
        let refused = scratch.directory.connect(&name).err();
        assert_eq!(refused, Some(Errno::CONNREFUSED));
        let door = scratch.directory.listen(&name).expect("free");
        let mode = fs::metadata(scratch.path.join(&name)).expect("a name");
        assert_eq!(mode.permissions().mode() & 0o777, 0o666);
        let taken = scratch.directory.listen(&name).err();
        assert_eq!(taken, Some(Errno::ADDRINUSE));
        let mut here = scratch.directory.connect(&name).expect("it listens");
        let there = accept(door.as_fd()).expect("one has come");
        let (number, message) = (1, Message::Later);
        here.send(&Packet { number, message }, &[]).expect("sent");
        assert!(matches!(there.receive(), Received::Packet(..)));
        drop(door);
        assert_eq!(scratch.names(), 0);
    }

    #[test]
    fn names_of_the_dead_are_removed_by_who_finds_them() {
        let scratch = Scratch::new();
        let name = family_name(80, 0);
        dead(&scratch, &name);
        let refused = scratch.directory.connect(&name).err();
        assert_eq!(refused, Some(Errno::CONNREFUSED));
        assert_eq!(scratch.names(), 0, "who asks there");
        dead(&scratch, &name);
        let door = scratch.directory.listen(&name).expect("who needs it");
        for number in 0..10 * SWEPT {
            dead(&scratch, &process_name(Name([number as u8; 16])));
        }
        for _ in 0..100 {
            scratch.directory.sweep();
        }
        assert_eq!(scratch.names(), 1, "who comes later");
        assert!(scratch.directory.connect(&name).is_ok());
        drop(door);
    }

    #[test]
    fn nobody_is_led_elsewhere_and_nothing_else_is_removed() {
        let scratch = Scratch::new();
        let elsewhere = Scratch::new();
        let door = elsewhere.directory.listen("secret").expect("free");
        let link = family_name(80, 0);
        symlink(elsewhere.path.join("secret"), scratch.path.join(&link)).expect("a link");
        assert!(scratch.directory.connect(&link).is_err());
        assert!(accept(door.as_fd()).is_err(), "nobody has come");
        let file = family_name(80, 1);
        fs::write(scratch.path.join(&file), b"kept").expect("a file");
        assert!(scratch.directory.connect(&file).is_err());
        for name in [&link, &file] {
            let taken = scratch.directory.listen(name).err();
            assert_eq!(taken, Some(Errno::ADDRINUSE));
        }
        scratch.directory.sweep();
        assert_eq!(scratch.names(), 2);
        // one that is bound and does not listen so far is alive
        let bound = channel::socket().expect("a socket");
        let address = scratch.directory.address(&family_name(81, 0));
        rustix::net::bind(&bound, &address.expect("short")).expect("free");
        assert!(scratch.directory.connect(&family_name(81, 0)).is_err());
        assert_eq!(scratch.names(), 3);
    }
}
