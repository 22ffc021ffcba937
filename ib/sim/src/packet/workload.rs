//! Random work: what a side posts, errors included.

use super::memory::{Memory, PD};
use super::model::{FOREIGN_PD, Plan, Posted, REMOTE, Side};
use crate::rng::Rng;
use ferriband_transport::types::{Access, QpType, SendOpcode, WcStatus};

/// Bytes of a side's own buffers, of its receive buffers, and of what it opens to its peer.
pub(super) const LOCAL_BYTES: usize = 96 << 10;
/// Untouched pages cost nothing; there is room for the longest message of every request.
pub(super) const RECV_BYTES: usize = 1 << 20;
pub(super) const WRITE_BYTES: usize = 64 << 10;
const SOURCE_BYTES: usize = 16 << 10;
const ATOMIC_WORDS: u64 = 4;

/// Keys and addresses of a side's regions, and how much of them is used.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    pub local_key: u32,
    pub local_base: u64,
    pub local_used: usize,
    pub recv_key: u32,
    pub recv_base: u64,
    pub recv_used: usize,
    /// WRITE area, then READ source, then words for atomics.
    pub remote_key: u32,
    pub remote_base: u64,
    /// Bytes of the WRITE area that the peer has been given.
    pub write_used: usize,
    pub read_only_key: u32,
    pub read_only_base: u64,
    pub foreign_key: u32,
    pub foreign_base: u64,
}

/// The byte of the READ source at `at`.
fn source_byte(at: usize) -> u8 {
    (at * 31 + (at >> 8) * 7 + 3) as u8
}

impl Layout {
    pub fn new(memory: &mut Memory) -> Self {
        let (local_key, local_base) = memory.add(PD, LOCAL_BYTES, Access::LOCAL_WRITE);
        let (recv_key, recv_base) = memory.add(PD, RECV_BYTES, Access::LOCAL_WRITE);
        let words = ATOMIC_WORDS as usize * 8;
        let (remote_key, remote_base) = memory.add(PD, WRITE_BYTES + SOURCE_BYTES + words, REMOTE);
        let source: Vec<u8> = (0..SOURCE_BYTES).map(source_byte).collect();
        memory.poke(remote_key, remote_base + WRITE_BYTES as u64, &source);
        let (read_only_key, read_only_base) = memory.add(PD, 4096, Access::empty());
        let (foreign_key, foreign_base) = memory.add(FOREIGN_PD, 4096, REMOTE);
        Layout {
            local_key,
            local_base,
            local_used: 0,
            recv_key,
            recv_base,
            recv_used: 0,
            remote_key,
            remote_base,
            write_used: 0,
            read_only_key,
            read_only_base,
            foreign_key,
            foreign_base,
        }
    }

    /// Takes `bytes` of the receive region; None when it is used up.
    pub fn take_recv(&mut self, bytes: usize) -> Option<u64> {
        let at = self.recv_used;
        self.recv_used = at.checked_add(bytes).filter(|&end| end <= RECV_BYTES)?;
        Some(self.recv_base + at as u64)
    }

    fn take_local(&mut self, bytes: usize) -> Option<u64> {
        let at = self.local_used;
        self.local_used = at.checked_add(bytes).filter(|&end| end <= LOCAL_BYTES)?;
        Some(self.local_base + at as u64)
    }
}

/// What may be generated.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mix {
    pub errors_per_mille: u64,
    pub favour: Option<SendOpcode>,
}

/// Operations of a service.
fn operations(qp_type: QpType) -> &'static [SendOpcode] {
    use SendOpcode::*;
    match qp_type {
        QpType::Rc | QpType::XrcSend => &[
            Send,
            Send,
            SendImm,
            SendInv,
            RdmaWrite,
            RdmaWrite,
            RdmaWriteImm,
            RdmaRead,
            RdmaRead,
            CmpSwap,
            FetchAdd,
            LocalInv,
            BindMw,
        ],
        QpType::Uc => &[Send, SendImm, RdmaWrite, RdmaWriteImm],
        QpType::Ud => &[Send, SendImm],
        QpType::XrcRecv => &[],
    }
}

fn length(rng: &mut Rng, side: &Side) -> usize {
    let mtu = side.mtu;
    let longest = if side.qp_type == QpType::Ud {
        mtu
    } else {
        8 * mtu
    };
    let length = match rng.below(8) {
        0 => 0,
        1 => 1,
        2 => mtu - 1,
        3 => mtu,
        4 => mtu + 1,
        5 => rng.range(2, 64) as usize,
        6 => rng.range(1, 8) as usize * mtu,
        _ => rng.range(1, 8 * mtu as u64) as usize,
    };
    length.min(longest).min(4096 * 2)
}

/// A random request of `side` towards the regions of `peer`; None when buffers are used up.
pub(super) fn generate(
    rng: &mut Rng,
    mix: Mix,
    side: &Side,
    own: &mut Layout,
    peer: &mut Layout,
    memories: &mut [Memory],
    peer_adapter: usize,
) -> Option<Posted> {
    let ops = operations(side.qp_type);
    if ops.is_empty() {
        return None;
    }
    let op = match mix.favour {
        Some(op) if ops.contains(&op) && rng.chance(600) => op,
        _ => rng.pick(ops),
    };
    let atomic = matches!(op, SendOpcode::CmpSwap | SendOpcode::FetchAdd);
    let local_op = matches!(op, SendOpcode::LocalInv | SendOpcode::BindMw);
    let bytes = match op {
        _ if atomic => 8,
        _ if local_op => 0,
        SendOpcode::RdmaRead => length(rng, side).min(SOURCE_BYTES / 2),
        _ => length(rng, side),
    };
    let local_addr = own.take_local(bytes)?;
    let mut data = vec![0; if atomic { 0 } else { bytes }];
    let (mut remote_addr, mut rkey) = (0, 0);
    let mut imm_or_key = rng.next_u64() as u32;
    match op {
        SendOpcode::RdmaRead => {
            let at = rng.below((SOURCE_BYTES - bytes) as u64 + 1) as usize;
            data.iter_mut()
                .enumerate()
                .for_each(|(i, byte)| *byte = source_byte(at + i));
            (remote_addr, rkey) = (
                peer.remote_base + (WRITE_BYTES + at) as u64,
                peer.remote_key,
            );
        }
        SendOpcode::CmpSwap | SendOpcode::FetchAdd => {
            let words = (WRITE_BYTES + SOURCE_BYTES) as u64 + 8 * rng.below(ATOMIC_WORDS);
            (remote_addr, rkey) = (peer.remote_base + words, peer.remote_key);
        }
        SendOpcode::RdmaWrite | SendOpcode::RdmaWriteImm => {
            rng.fill(&mut data);
            let at = peer.write_used;
            peer.write_used = at.checked_add(bytes).filter(|&end| end <= WRITE_BYTES)?;
            (remote_addr, rkey) = (peer.remote_base + at as u64, peer.remote_key);
        }
        SendOpcode::SendInv => {
            rng.fill(&mut data);
            imm_or_key = memories[peer_adapter].add(PD, 8, REMOTE).0;
        }
        SendOpcode::LocalInv => imm_or_key = memories[side.adapter].add(PD, 8, REMOTE).0,
        _ => rng.fill(&mut data),
    }
    if op != SendOpcode::RdmaRead && !atomic {
        memories[side.adapter].poke(own.local_key, local_addr, &data);
    }
    let packets = match op {
        _ if local_op => 0,
        _ if atomic => 1,
        _ => data.len().div_ceil(side.mtu).max(1) as u32,
    };
    let mut posted = Posted {
        op,
        signaled: rng.chance(600),
        solicited: rng.chance(200)
            && matches!(
                op,
                SendOpcode::Send
                    | SendOpcode::SendImm
                    | SendOpcode::SendInv
                    | SendOpcode::RdmaWriteImm
            ),
        fence: rng.chance(100),
        ssn: side.posted.iter().filter(|p| p.packets > 0).count() as u32 + u32::from(!local_op),
        plan: Plan::Good,
        data,
        local_addr,
        remote_addr,
        rkey,
        compare_add: rng.below(3),
        swap: rng.below(3),
        imm_or_key,
        packets,
        start: side.psn_total,
        progress: 0,
        early: Vec::new(),
        original: None,
        answers: vec![false; packets as usize],
        pieces: 0,
        asked_to: 0,
        last_byte_out: false,
    };
    if rng.chance(mix.errors_per_mille) {
        plant_error(rng, &mut posted, side, peer);
    }
    Some(posted)
}

/// Makes a request that has to fail, and says how.
fn plant_error(rng: &mut Rng, posted: &mut Posted, side: &Side, peer: &Layout) {
    let access = Plan::RemoteFails(WcStatus::RemAccessErr);
    if posted.op == SendOpcode::LocalInv {
        posted.imm_or_key |= 1;
        posted.plan = Plan::LocalFails(WcStatus::LocQpOpErr);
    } else if posted.is_send() && !posted.data.is_empty() {
        posted.plan = Plan::LocalFails(WcStatus::LocProtErr);
    } else if posted.is_atomic() && rng.chance(300) {
        posted.remote_addr += rng.range(1, 7);
        posted.plan = Plan::RemoteFails(WcStatus::RemInvReqErr);
    } else if side.reliable() && (posted.is_atomic() || !posted.data.is_empty() && posted.rkey != 0)
    {
        let opened = (WRITE_BYTES + SOURCE_BYTES) as u64 + 8 * ATOMIC_WORDS;
        match rng.below(5) {
            0 => posted.rkey |= 0x55,
            // All but its last byte lies in range: nothing of it may be written, nor may it be read by a request that
            // asks for that byte.
            4 if !posted.is_atomic() => {
                posted.last_byte_out = true;
                posted.remote_addr = peer.remote_base + opened + 1 - posted.data.len() as u64;
            }
            1 => posted.remote_addr = u64::MAX - 7,
            2 => (posted.rkey, posted.remote_addr) = (peer.foreign_key, peer.foreign_base),
            // Longer messages are out of its range as well, which is the same status.
            _ => (posted.rkey, posted.remote_addr) = (peer.read_only_key, peer.read_only_base),
        }
        // 8 bytes before the end of the address space: aligned, so that an atomic fails for its range.
        if posted.remote_addr == u64::MAX - 7 && posted.data.len() <= 8 && !posted.is_atomic() {
            posted.remote_addr += 7;
        }
        posted.plan = access;
    }
}
