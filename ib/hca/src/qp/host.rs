//! What the direct wire's machine asks of the process that it runs in, answered with real memory.

use ferriband_memory::Span;
use ferriband_memory::remote::{RemoteFault, RemoteProcess};
use ferriband_transport::direct::layout::QpEntry;
use ferriband_transport::direct::{AtomicOp, BindRequest, Fault, Host, RemoteSpan};
use ferriband_transport::types::{Access, Sge};

use crate::process::keys;
use crate::process::peer::Peer;
use crate::qp::adapter::Adapter;
use crate::qp::{PeerLink, Qp};
use crate::wire::direct::app::{CHUNK_BYTES, app};

/// Copies of one piece stay well below this; the machine never moves more than a message at once.
fn len(bytes: u64) -> usize {
    bytes as usize
}

impl Host for Adapter {
    type Seg = Span;
    type Link = PeerLink;

    #[inline]
    fn slot(&self) -> u32 {
        self.process.slot
    }

    fn chunk_bytes(&self) -> u64 {
        CHUNK_BYTES
    }

    #[inline]
    fn own(&self) -> &Span {
        &self.process.own
    }

    #[inline]
    fn claim_mark(&self) -> usize {
        self.process.marks.claim()
    }

    #[inline]
    fn release_mark(&self, mark: usize) {
        self.process.marks.release(mark);
    }

    #[inline]
    fn local(&self, pd: u32, sge: &Sge, need: Access) -> Option<u64> {
        keys::local(&self.process.own, pd, sge, need)
    }

    #[inline]
    fn gather(&self, seg: &Span, off: usize, from: &[Sge], skip: u64, bytes: u64) {
        app().gather(from, skip, len(bytes), seg, off);
    }

    #[inline]
    fn scatter(&self, seg: &Span, off: usize, to: &[Sge], skip: u64, bytes: u64) {
        app().scatter(to, skip, len(bytes), seg, off);
    }

    #[inline]
    fn put(&self, bytes: &[u8], to: &[Sge], skip: u64) {
        app().scatter_bytes(to, skip, bytes);
    }

    #[inline]
    fn fetch(&self, from: &[Sge], skip: u64, bytes: &mut [u8]) {
        app().gather_bytes(from, skip, bytes);
    }

    #[inline]
    fn remote_write(
        &self,
        link: &PeerLink,
        to: RemoteSpan,
        from: &[Sge],
        skip: u64,
        bytes: u64,
    ) -> Result<(), Fault> {
        reach(
            link,
            (to, bytes),
            |addr| app().gather_to_addr(from, skip, len(bytes), addr),
            |remote, peer| remote.write(from, skip, to.addr, len(bytes), || peer.lives()),
        )
    }

    #[inline]
    fn remote_read(
        &self,
        link: &PeerLink,
        from: RemoteSpan,
        to: &[Sge],
        skip: u64,
        bytes: u64,
    ) -> Result<(), Fault> {
        reach(
            link,
            (from, bytes),
            |addr| app().scatter_from_addr(to, skip, len(bytes), addr),
            |remote, peer| remote.read(to, skip, from.addr, len(bytes), || peer.lives()),
        )
    }

    fn remote_atomic(&self, link: &PeerLink, at: RemoteSpan, op: AtomicOp) -> Option<u64> {
        let peer = &*link.0;
        if peer.is_self() {
            return at
                .addr
                .is_multiple_of(8)
                .then(|| self.local_atomic(at.addr, op));
        }
        if at.map_id == 0 || !at.map_offset.is_multiple_of(8) {
            return None;
        }
        match peer.mapped(at.map_id, at.map_offset, 8) {
            Some(addr) => Some(self.local_atomic(addr, op)),
            None => {
                peer.want_map(at.map_id);
                None
            }
        }
    }

    fn local_atomic(&self, addr: u64, op: AtomicOp) -> u64 {
        let done = match op {
            AtomicOp::CompareSwap(compare, swap) => app().compare_swap(addr, compare, swap),
            AtomicOp::FetchAdd(add) => app().fetch_add(addr, add),
        };
        done.expect("the machine checks the alignment of atomics")
    }

    fn extended_target(&self, qpn: u32) -> Option<QpEntry> {
        self.targets.get(&self.process, qpn)?.entry(&self.process)
    }

    fn invalidate(&self, pd: u32, qpn: u32, rkey: u32) -> bool {
        self.memory().invalidate_window(pd, qpn, rkey)
    }

    fn bind(&self, pd: u32, qpn: u32, bind: &BindRequest) -> bool {
        self.memory().bind_window(pd, qpn, bind)
    }
}

/// Moves `bytes` bytes to or from a peer's memory: by `here` where that is mapped, at this address,
/// else by `there`. `Gone` for a peer that has died meanwhile, `Forbidden` where neither is
/// possible.
#[inline(always)]
fn reach(
    link: &PeerLink,
    (at, bytes): (RemoteSpan, u64),
    here: impl Fn(u64) -> usize,
    there: impl FnOnce(&RemoteProcess, &Peer<Qp>) -> Result<(), RemoteFault>,
) -> Result<(), Fault> {
    let peer = &*link.0;
    if peer.is_self() {
        here(at.addr);
        return Ok(());
    }
    if at.map_id != 0 {
        if let Some(addr) = peer.mapped(at.map_id, at.map_offset, bytes) {
            here(addr);
            return match peer.lives() {
                true => Ok(()),
                false => Err(Fault::Gone),
            };
        }
        peer.want_map(at.map_id);
    }
    let channel = peer.channel.get();
    let remote = channel.and_then(|channel| channel.remote.as_ref());
    let remote = remote.ok_or(Fault::Forbidden)?;
    there(remote, peer).map_err(fault)
}

fn fault(fault: RemoteFault) -> Fault {
    match fault {
        RemoteFault::Gone => Fault::Gone,
        RemoteFault::Unmapped { .. } => Fault::RemoteUnmapped,
        RemoteFault::LocalUnmapped => Fault::LocalUnmapped,
        RemoteFault::Forbidden(_) => Fault::Forbidden,
    }
}
