#![allow(missing_docs)]
use std::io::{IoSlice, IoSliceMut};
use std::os::fd::*;
use std::sync::atomic::{AtomicU32, Ordering};
use ferriband_wire::*;
use rustix::net::*;
#[derive(Debug, Clone, thiserror::Error)]
pub enum HostError { #[error("gone")] Gone { process: u32 }, #[error("other {0}")] Other(rustix::io::Errno) }
impl HostError { pub fn errno(&self) -> i32 { libc::EIO } }
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessRef { pub slot: u32, pub generation: u32 }
#[derive(Default)]
pub struct JoinOptions {}
pub struct Identity { pub pid: u32, pub start_time: u64 }
pub struct Host { l: Listener, slot: u32, next: AtomicU32 }
pub struct Listener(OwnedFd);
#[derive(Debug)]
pub struct Control(OwnedFd);
impl AsFd for Control { fn as_fd(&self) -> BorrowedFd<'_> { self.0.as_fd() } }
impl AsFd for &Listener { fn as_fd(&self) -> BorrowedFd<'_> { self.0.as_fd() } }
fn name(slot: u32) -> SocketAddrUnix { SocketAddrUnix::new_abstract_name(format!("ferri-stub-{slot}").as_bytes()).unwrap() }
fn sock() -> OwnedFd { socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, None).unwrap() }
impl Control {
    pub fn send(&self, b: &[u8], fds: &[BorrowedFd<'_>]) -> Result<(), HostError> {
        let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
        let mut anc = SendAncillaryBuffer::new(&mut space);
        if !fds.is_empty() { anc.push(SendAncillaryMessage::ScmRights(fds)); }
        sendmsg(&self.0, &[IoSlice::new(b)], &mut anc, SendFlags::NOSIGNAL).map(|_| ()).map_err(HostError::Other)
    }
    pub fn recv(&self, b: &mut [u8]) -> Result<Option<(usize, Vec<OwnedFd>)>, HostError> {
        let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
        let mut anc = RecvAncillaryBuffer::new(&mut space);
        match recvmsg(&self.0, &mut [IoSliceMut::new(b)], &mut anc, RecvFlags::CMSG_CLOEXEC) {
            Ok(m) if m.bytes == 0 => Err(HostError::Gone { process: 0 }),
            Ok(m) => {
                let mut v = vec![];
                for a in anc.drain() { if let RecvAncillaryMessage::ScmRights(f) = a { v.extend(f); } }
                Ok(Some((m.bytes, v)))
            }
            Err(rustix::io::Errno::AGAIN) => Ok(None),
            Err(e) => Err(HostError::Other(e)),
        }
    }
}
impl Listener {
    pub fn accept(&self) -> Result<Option<Control>, HostError> {
        match accept_with(&self.0, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) { Ok(f) => Ok(Some(Control(f))), Err(rustix::io::Errno::AGAIN) => Ok(None), Err(e) => Err(HostError::Other(e)) }
    }
}
impl Host {
    pub fn join(_: JoinOptions) -> Result<Host, HostError> {
        let s = sock();
        for slot in 1..1024 {
            if bind(&s, &name(slot)).is_ok() { listen(&s, 1024).unwrap(); return Ok(Host { l: Listener(s), slot, next: AtomicU32::new(0) }); }
        }
        Err(HostError::Gone { process: 0 })
    }
    pub fn me(&self) -> ProcessRef { ProcessRef { slot: self.slot, generation: 1 } }
    pub fn guid(&self) -> Guid { Guid(0x0200_0000_0000_0001) }
    pub fn lid(&self) -> Lid { Lid(1) }
    pub fn identity(&self) -> Identity { Identity { pid: std::process::id(), start_time: ferriband_memory::remote::start_time(std::process::id() as i32).unwrap() } }
    pub fn claim_qpn_block(&self) -> Result<u32, HostError> { Ok(self.slot * 64 + self.next.fetch_add(1, Ordering::Relaxed)) }
    pub fn owner_of_qpn(&self, q: Qpn) -> Option<ProcessRef> { let slot = q.0 / 256 / 64; (slot > 0).then_some(ProcessRef { slot, generation: 1 }) }
    pub fn listener(&self) -> &Listener { &self.l }
    pub fn connect(&self, p: ProcessRef) -> Result<Control, HostError> {
        let s = sock();
        match connect(&s, &name(p.slot)) { Ok(()) => Ok(Control(s)), Err(rustix::io::Errno::CONNREFUSED) => Err(HostError::Gone { process: p.slot }), Err(e) => Err(HostError::Other(e)) }
    }
    pub fn reap_process(&self, _: ProcessRef) {}
}
pub fn before_fork() {}
pub fn after_fork_in_parent() {}
pub fn close_all_after_fork() {}
pub struct HostKey;
impl HostKey { pub fn current(_: &str) -> Result<HostKey, HostError> { Ok(HostKey) } pub fn guid(&self) -> Guid { Guid(0x0200_0000_0000_0001) } }
