//! Address handles.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use ferriband_transport::types::AddressVector;

use crate::base::error::Error;
use crate::objects::domain::Domain;

/// A path to a port, for datagrams.
#[derive(Debug)]
pub struct Ah {
    /// Its protection domain.
    pub pd: Arc<Domain>,
    /// The path.
    pub av: AddressVector,
    /// What the C face stores to find its object.
    pub cookie: AtomicUsize,
}

impl Ah {
    pub(crate) fn new(pd: Arc<Domain>, av: AddressVector) -> Result<Arc<Self>, Error> {
        pd.ctx.check_alive()?;
        if av.port_num == 0 || av.port_num > pd.ctx.device.ports() {
            return Err(Error::Invalid("no such port"));
        }
        if av.is_global
            && pd
                .ctx
                .query_gid(av.port_num, u32::from(av.sgid_index))
                .is_err()
        {
            return Err(Error::Invalid("no such index in the GID table"));
        }
        if !av.is_global && av.dlid.0 == 0 {
            return Err(Error::Invalid(
                "a path in the subnet needs a destination LID",
            ));
        }
        if av.is_global && av.dgid.is_multicast() && !pd.ctx.device.is_ethernet() {
            pd.ctx.host.meet_group(&av.dgid);
        }
        pd.use_it();
        Ok(Arc::new(Ah {
            pd,
            av,
            cookie: AtomicUsize::new(0),
        }))
    }

    /// Ends the handle.
    pub fn destroy(&self) -> Result<(), Error> {
        self.pd.ctx.status.life.check()?;
        self.pd.release();
        Ok(())
    }

    /// The global route header of a datagram of `payload` bytes (IBA 8.3), as it stands before the
    /// payload.
    pub fn grh(&self, payload: u16) -> [u8; 40] {
        let mut grh = [0; 40];
        let first =
            6 << 28 | u32::from(self.av.traffic_class) << 20 | self.av.flow_label & 0xf_ffff;
        grh[..4].copy_from_slice(&first.to_be_bytes());
        // BTH, DETH and ICRC count; the payload is padded to words
        let length = 12 + 8 + payload.next_multiple_of(4) + 4;
        grh[4..6].copy_from_slice(&length.to_be_bytes());
        grh[6] = 0x1b;
        grh[7] = self.av.hop_limit;
        let source = self.pd.ctx.query_gid(1, u32::from(self.av.sgid_index));
        grh[8..24].copy_from_slice(&source.map(|entry| entry.gid.0).unwrap_or_default());
        grh[24..].copy_from_slice(&self.av.dgid.0);
        grh
    }
}
