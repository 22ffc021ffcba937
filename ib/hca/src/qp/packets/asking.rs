//! The link of a queue pair was down and is back, or leads elsewhere.
//!
//! Owns: that it asks at once for what is not acknowledged, and goes by the addresses that there
//! are. Must not know how links come and go, nor how packets go ([`super`]).

use std::sync::Arc;

use ferriband_transport::types::{AddressVector, QpType};

use super::{Qp, Turn};
use crate::base::error::Error;
use crate::lock;
use crate::objects::catch::Catch;
use crate::qp::adapter::Adapter;
use crate::wire::packets::path::TxPath;
use crate::wire::roce::ports::{PortPool, Spread};

impl Qp {
    /// What is not acknowledged is asked for now, whenever its turn would come.
    #[cold]
    pub(crate) fn ask_now(self: &Arc<Self>, adapter: &Adapter) {
        let _handling = crate::wire::packets::handling();
        let mut guard = lock(&self.packets);
        if let Some(side) = guard.as_deref_mut() {
            side.machine.ask_now();
            self.turn(adapter, side, Turn::Due, &mut Catch::nobody());
        }
    }

    /// The path of the connection to `remote_qpn`.
    ///
    /// # Errors
    /// It leads nowhere.
    pub(super) fn connection_path(
        &self,
        pool: &PortPool,
        av: &AddressVector,
        remote_qpn: u32,
    ) -> Result<TxPath, Error> {
        let spread = match self.qp_type {
            QpType::Uc => Spread::One,
            _ => Spread::Reliable,
        };
        let numbers = (self.qpn, remote_qpn);
        TxPath::resolve(&self.ctx.device, pool, av, numbers, spread)
    }

    /// Addresses of its interface have changed, or routes. Packets come from the address that its
    /// entry of the GID table has; where it has none, from the one of before, which may come back.
    #[cold]
    pub(crate) fn renew_path(&self) {
        let Some(ways) = self.adapter.opened_roce() else {
            return;
        };
        let mut guard = lock(&self.packets);
        let Some(side) = guard.as_deref_mut() else {
            return;
        };
        side.datagram = None;
        let Some(path) = &side.path else { return };
        path.forget_way();
        let attr = side.machine.query();
        let source = self.ctx.device.source(attr.av.sgid_index.into());
        if source.is_some()
            && source != path.source()
            && let Ok(renewed) = self.connection_path(&ways.ports, &attr.av, attr.dest_qpn.0)
        {
            side.path = Some(renewed);
        }
    }
}
