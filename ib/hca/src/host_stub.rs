use ferriband_wire::*;
use std::os::fd::*;
#[derive(Debug, Clone, thiserror::Error)]
pub enum HostError {
    #[error("gone")]
    Gone { process: u32 },
    #[error("other")]
    Other,
}
impl HostError {
    pub fn errno(&self) -> i32 {
        libc::EIO
    }
}
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessRef {
    pub slot: u32,
    pub generation: u32,
}
#[derive(Default)]
pub struct JoinOptions {}
pub struct Identity {
    pub pid: i32,
    pub start_time: u64,
}
pub struct Host {
    l: Listener,
}
pub struct Listener(OwnedFd);
#[derive(Debug)]
pub struct Control(OwnedFd);
impl AsFd for Control {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
impl AsFd for &Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
impl Control {
    pub fn send(&self, _: &[u8], _: &[BorrowedFd<'_>]) -> Result<(), HostError> {
        Err(HostError::Other)
    }
    pub fn recv(&self, _: &mut [u8]) -> Result<Option<(usize, Vec<OwnedFd>)>, HostError> {
        Ok(None)
    }
}
impl Listener {
    pub fn accept(&self) -> Result<Option<Control>, HostError> {
        Ok(None)
    }
}
impl Host {
    pub fn join(_: JoinOptions) -> Result<Host, HostError> {
        Ok(Host {
            l: Listener(rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC).unwrap()),
        })
    }
    pub fn me(&self) -> ProcessRef {
        ProcessRef {
            slot: 1,
            generation: 1,
        }
    }
    pub fn guid(&self) -> Guid {
        Guid(0x0200_0000_0000_0001)
    }
    pub fn lid(&self) -> Lid {
        Lid(1)
    }
    pub fn identity(&self) -> Identity {
        Identity {
            pid: 1,
            start_time: 1,
        }
    }
    pub fn claim_qpn_block(&self) -> Result<u32, HostError> {
        use std::sync::atomic::*;
        static N: AtomicU32 = AtomicU32::new(1);
        Ok(N.fetch_add(1, Ordering::Relaxed))
    }
    pub fn owner_of_qpn(&self, q: Qpn) -> Option<ProcessRef> {
        (q.0 >= 256).then(|| self.me())
    }
    pub fn listener(&self) -> &Listener {
        &self.l
    }
    pub fn connect(&self, _: ProcessRef) -> Result<Control, HostError> {
        Err(HostError::Gone { process: 0 })
    }
    pub fn reap_process(&self, _: ProcessRef) {}
}
pub fn before_fork() {}
pub fn after_fork_in_parent() {}
pub fn close_all_after_fork() {}
pub struct HostKey;
impl HostKey {
    pub fn current(_: &str) -> Result<HostKey, HostError> {
        Ok(HostKey)
    }
    pub fn guid(&self) -> Guid {
        Guid(0x0200_0000_0000_0001)
    }
}
