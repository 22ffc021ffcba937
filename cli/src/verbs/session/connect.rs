//! The queues of a session, and the transitions that connect them to the peer's.

use super::{Endpoint, PORT, QKEY, READS_OUTSTANDING, RECEIVE_DEPTH, SEND_DEPTH, Session};
use crate::args::Service;
use crate::failure::Failure;
use crate::verbs::check;
use ferriband_verbs_sys::*;
use std::ffi::c_int;
use std::ptr;

impl Session<'_> {
    pub(super) fn make_queues(&mut self) -> Result<(), Failure> {
        let library = &self.context.library;
        if self.plan.event {
            // SAFETY: the context is open.
            let channel = unsafe { (library.ibv_create_comp_channel)(self.context.raw) };
            self.channel = self.made(channel, "a completion channel")?;
        }
        let entries = (SEND_DEPTH + RECEIVE_DEPTH) as c_int;
        // SAFETY: the context is open; the channel is ours or NULL.
        let cq = unsafe {
            (library.ibv_create_cq)(self.context.raw, entries, ptr::null_mut(), self.channel, 0)
        };
        self.cq = self.made(cq, "a completion queue")?;
        let mut wanted = ibv_qp_init_attr {
            send_cq: self.cq,
            recv_cq: self.cq,
            cap: ibv_qp_cap {
                max_send_wr: SEND_DEPTH,
                max_recv_wr: RECEIVE_DEPTH,
                max_send_sge: 1,
                max_recv_sge: 1,
                max_inline_data: self.plan.inline_bytes,
            },
            qp_type: match self.plan.service {
                Service::Rc => IBV_QPT_RC,
                Service::Uc => IBV_QPT_UC,
                Service::Ud => IBV_QPT_UD,
            },
            ..ibv_qp_init_attr::default()
        };
        // SAFETY: domain and queue are alive; wanted is a valid struct.
        let qp = unsafe { (library.ibv_create_qp)(self.pd, &mut wanted) };
        self.qp = self.made(qp, &format!("a {:?} queue pair", self.plan.service))?;
        Ok(())
    }

    fn modify(&self, attributes: &mut ibv_qp_attr, mask: u32, state: &str) -> Result<(), Failure> {
        // SAFETY: the queue pair is alive; attributes is a valid struct.
        let rc =
            unsafe { (self.context.library.ibv_modify_qp)(self.qp, attributes, mask as c_int) };
        check(
            rc,
            "move",
            &format!("a {:?} queue pair to {state}", self.plan.service),
        )
    }

    pub(super) fn to_init(&self) -> Result<(), Failure> {
        let mut attributes = ibv_qp_attr {
            qp_state: IBV_QPS_INIT,
            port_num: PORT,
            qkey: QKEY,
            qp_access_flags: match self.plan.service {
                Service::Rc => {
                    IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC
                }
                _ => IBV_ACCESS_REMOTE_WRITE,
            },
            ..ibv_qp_attr::default()
        };
        let last = if self.plan.service == Service::Ud {
            IBV_QP_QKEY
        } else {
            IBV_QP_ACCESS_FLAGS
        };
        self.modify(
            &mut attributes,
            IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | last,
            "INIT",
        )
    }

    /// What to tell the peer.
    pub fn endpoint(&self) -> Endpoint {
        // SAFETY: the queue pair and the region are alive, and these fields do not change.
        let (qpn, mr) = unsafe { ((*self.qp).qp_num, &*self.target_mr) };
        let address = if self.plan.device_memory {
            0
        } else {
            self.target.base as u64
        };
        let psn = (address as u32 >> 12) & 0xff_ffff;
        Endpoint {
            qpn,
            psn,
            lid: self.port.lid,
            gid: self.gid,
            address,
            rkey: mr.rkey,
        }
    }

    /// Moves the queue pair to RTS against this peer.
    pub fn connect(&mut self, peer: Endpoint) -> Result<(), Failure> {
        let own_psn = self.endpoint().psn;
        let ethernet = u32::from(self.port.link_layer) == IBV_LINK_LAYER_ETHERNET;
        let mut address = ibv_ah_attr {
            dlid: peer.lid,
            port_num: PORT,
            is_global: u8::from(ethernet),
            grh: ibv_global_route {
                dgid: ibv_gid { raw: peer.gid },
                hop_limit: 64,
                ..Default::default()
            },
            ..Default::default()
        };
        let mut ready = ibv_qp_attr {
            qp_state: IBV_QPS_RTR,
            path_mtu: self.port.active_mtu,
            dest_qp_num: peer.qpn,
            rq_psn: peer.psn,
            max_dest_rd_atomic: READS_OUTSTANDING,
            min_rnr_timer: 12,
            ah_attr: address,
            ..ibv_qp_attr::default()
        };
        let connected =
            IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
        let mask = match self.plan.service {
            Service::Rc => connected | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
            Service::Uc => connected,
            Service::Ud => IBV_QP_STATE,
        };
        self.modify(&mut ready, mask, "RTR")?;
        let mut sending = ibv_qp_attr {
            qp_state: IBV_QPS_RTS,
            sq_psn: own_psn,
            timeout: 14,
            retry_cnt: 7,
            rnr_retry: 7,
            max_rd_atomic: READS_OUTSTANDING,
            ..ibv_qp_attr::default()
        };
        let mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
        let reliable =
            IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
        self.modify(
            &mut sending,
            if self.plan.service == Service::Rc {
                mask | reliable
            } else {
                mask
            },
            "RTS",
        )?;
        if self.plan.service == Service::Ud {
            // SAFETY: the domain is alive; address is a valid struct.
            let ah = unsafe { (self.context.library.ibv_create_ah)(self.pd, &mut address) };
            self.ah = self.made(ah, "an address handle")?;
        }
        self.peer = Some(peer);
        Ok(())
    }
}
