//! The second path of a connection, to which devices go over by themselves (automatic path
//! migration, IBA 17.2.8): loading it, arming it, asking for it.
//!
//! Owns: the calls, by the standard attributes of `ibv_modify_qp` alone. Must not know: which path
//! is a good one. Devices that offer it say so ([`super::context::DeviceLimits::path_migration`]).

use super::qp::{Qp, Rts};
use crate::error::VerbsError;
use crate::types::{Lid, Route, closed};
use ferriband_verbs_sys as sys;
use std::ffi::c_int;

closed! {
    /// What a device does with the second path of a connection.
    PathState: sys::ibv_mig_state {
        /// Nothing: the connection is as it is, or has gone over.
        Migrated = sys::IBV_MIG_MIGRATED,
        /// The other end is told that a path is loaded.
        Rearm = sys::IBV_MIG_REARM,
        /// Both ends have one loaded, and go over to it when the path in use fails.
        Armed = sys::IBV_MIG_ARMED,
    }
}

/// A path to load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SecondPath {
    /// The way, whose port may be another one of the device.
    pub route: Route,
    /// How long an answer by it may take, as [`Rts::timeout`].
    pub timeout: u8,
}

/// Which path a connection uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PathInUse {
    /// Our port.
    pub port: u8,
    /// LID of the other port; 0 on Ethernet.
    pub dlid: Lid,
    /// What becomes of the second path.
    pub state: PathState,
}

const LOAD: u32 = sys::IBV_QP_ALT_PATH | sys::IBV_QP_PATH_MIG_STATE;

impl SecondPath {
    /// Attributes that load and arm it, to be named by [`LOAD`].
    fn in_state(&self, qp_state: sys::ibv_qp_state) -> sys::ibv_qp_attr {
        sys::ibv_qp_attr {
            qp_state,
            path_mig_state: sys::IBV_MIG_REARM,
            alt_ah_attr: self.route.to_c(),
            alt_port_num: self.route.port,
            alt_timeout: self.timeout,
            ..Default::default()
        }
    }
}

impl Qp {
    /// RTR to RTS, of a reliable connection, with a second path that is loaded and armed.
    pub fn ready_to_send_armed(&self, rts: &Rts, second: &SecondPath) -> Result<(), VerbsError> {
        self.ready_to_send_with(rts, second.in_state(sys::IBV_QPS_RTS), LOAD)
    }

    /// Loads another second path and arms it. In RTS, which the queue pair stays in.
    pub fn load_path(&self, second: &SecondPath) -> Result<(), VerbsError> {
        self.modify(&mut second.in_state(sys::IBV_QPS_RTS), LOAD)
    }

    /// Goes over to the second path now, if that is armed.
    ///
    /// # Errors
    /// EINVAL where it is loaded and not armed yet.
    pub fn migrate(&self) -> Result<(), VerbsError> {
        let mut attr = sys::ibv_qp_attr {
            qp_state: sys::IBV_QPS_RTS,
            path_mig_state: sys::IBV_MIG_MIGRATED,
            ..Default::default()
        };
        self.modify(&mut attr, sys::IBV_QP_PATH_MIG_STATE)
    }

    /// The path in use, as the device knows it.
    pub fn path_in_use(&self) -> Result<PathInUse, VerbsError> {
        let mask = sys::IBV_QP_AV | sys::IBV_QP_PORT | sys::IBV_QP_PATH_MIG_STATE;
        let attr = self.query(mask as c_int)?;
        Ok(PathInUse {
            port: attr.ah_attr.port_num,
            dlid: Lid(attr.ah_attr.dlid),
            state: PathState::from_c(attr.path_mig_state),
        })
    }
}
