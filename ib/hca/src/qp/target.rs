//! Handles of XRC targets.
//!
//! Owns nothing. Must not know what a target does with requests.

use std::sync::Arc;

use ferriband_transport::types::QpType;

use crate::base::error::Error;
use crate::objects::xrcd::Xrcd;
use crate::qp::adapter::Adapter;
use crate::qp::{Qp, QpInit};
use crate::xrc::{Handle, make_target, open_target};

impl Qp {
    /// A new target queue pair of an XRC domain.
    ///
    /// # Errors
    /// What the host's registry says.
    pub fn make_target(xrcd: &Arc<Xrcd>, init: QpInit) -> Result<Arc<Self>, Error> {
        let adapter = Adapter::of(&xrcd.ctx);
        adapter.check_alive()?;
        let qpn = make_target(&adapter.process, &xrcd.domain)?;
        Self::handle(&adapter, xrcd, qpn, init)
    }

    /// A handle of an existing target queue pair of an XRC domain, whoever made it.
    ///
    /// # Errors
    /// `Invalid` if the domain has no such target.
    pub fn open_target(xrcd: &Arc<Xrcd>, qpn: u32) -> Result<Arc<Self>, Error> {
        let adapter = Adapter::of(&xrcd.ctx);
        adapter.check_alive()?;
        open_target(&adapter.process, &xrcd.domain, qpn)?;
        let init = QpInit {
            qp_type: QpType::XrcRecv,
            send_cq: None,
            recv_cq: None,
            srq: None,
            xrcd: None,
            cap: Default::default(),
            signal_all: false,
        };
        Self::handle(&adapter, xrcd, qpn, init)
    }

    fn handle(
        adapter: &Adapter,
        xrcd: &Arc<Xrcd>,
        qpn: u32,
        init: QpInit,
    ) -> Result<Arc<Self>, Error> {
        let proxy = adapter
            .targets
            .get(&adapter.process, qpn)
            .ok_or(Error::Gone("the XRC target was destroyed"))?;
        let init = QpInit {
            xrcd: Some(xrcd.clone()),
            ..init
        };
        let qp = Qp::create(&xrcd.ctx, None, init, Some(proxy.clone()))?;
        let handle: Arc<dyn Handle> = qp.clone();
        proxy.tell(Arc::downgrade(&handle));
        Ok(qp)
    }
}
