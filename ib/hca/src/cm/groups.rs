//! Memberships of identifiers in multicast groups.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use ferriband_cm::Enhanced;
use ferriband_transport::types::AddressVector;

use super::id::Stage;
use super::news::{ConnParam, News, NewsKind, UdParam};
use super::{Cm, CmAddress, HOP_LIMIT, State, route};
use crate::base::error::Error;
use crate::device::fabric::{self, InGroup};
use crate::lock;
use crate::progress::Engine;
use ferriband_wire::{Lid, Sl};

/// The queue pair number of everybody who is attached to a group.
const MULTICAST_QPN: u32 = 0xff_ffff;

/// A membership of a multicast group.
#[derive(Debug)]
pub(super) struct Group {
    pub id: u32,
    /// Through a fabric: the host's part in it.
    _in_fabric: Option<InGroup>,
    pub reported: Arc<AtomicU32>,
}

impl Cm {
    /// Joins a multicast group; MULTICAST_JOIN follows with the group's address vector, or MULTICAST_ERROR. On a host of a fabric its administration is waited for.
    ///
    /// # Errors
    /// `Invalid` for an identifier of connections, without a device, once a path was asked for, and for an address that is no group's.
    pub fn join(
        &self,
        engine: &Engine,
        id: u32,
        address: impl Into<CmAddress>,
        user: u64,
    ) -> Result<u32, Error> {
        engine.check_alive()?;
        let address: CmAddress = address.into();
        let (mgid, mlid, in_fabric) = self.with(engine, id, |_, found| {
            if !found.is_datagram()
                || !matches!(found.stage, Stage::Bound | Stage::AddressResolved)
            {
                return Err(Error::Invalid(
                    "only an identifier of datagrams joins groups, once it has an address and before it asks for a path",
                ));
            }
            let place = found.place.as_ref();
            let place = place.ok_or(Error::Invalid("the identifier has no device yet"))?;
            let native = address.service.is_some();
            let (mgid, mlid) = route::group(&place.device, address.at.ip(), native)
                .ok_or(Error::Invalid("no multicast address"))?;
            let in_fabric = fabric::host().is_some() && !place.device.is_ethernet();
            Ok((mgid, mlid, in_fabric.then_some(found.qkey)))
        })?;
        // the administration may take its time, and must not be waited for under the lock
        let joined = in_fabric.map(|qkey| fabric::join_group(mgid, qkey));
        let (status, joined) = match joined.transpose() {
            Ok(joined) => (0, joined),
            Err(errno) => (-errno, None),
        };
        let (mlid, sl) = match &joined {
            Some(joined) => (Lid(joined.group.mlid), Sl(joined.group.sl & 0xf)),
            None => (mlid, Sl(0)),
        };
        let mut state = lock(&self.state);
        let State {
            ids, groups, next, ..
        } = &mut *state;
        let found = ids.get(&id).ok_or(Error::NotFound("no such identifier"))?;
        let place = found
            .place
            .as_ref()
            .ok_or(Error::Invalid("the identifier has no device yet"))?;
        let number = *next;
        *next = next.checked_add(1).unwrap_or(1);
        let group = Group {
            id,
            _in_fabric: joined,
            reported: Arc::default(),
        };
        found.channel.events.push(News {
            kind: match status {
                0 => NewsKind::MulticastJoin,
                _ => NewsKind::MulticastError,
            },
            user,
            id,
            listener: None,
            group: Some(number),
            status,
            enhanced: Enhanced::default(),
            conn: ConnParam::default(),
            ud: Some(UdParam {
                qp_num: MULTICAST_QPN,
                qkey: found.qkey,
                av: AddressVector {
                    dgid: mgid,
                    dlid: mlid,
                    sl,
                    sgid_index: place.sgid_index,
                    hop_limit: if place.device.is_ethernet() {
                        HOP_LIMIT
                    } else {
                        1
                    },
                    traffic_class: found.tos,
                    is_global: true,
                    port_num: place.device.usual_port(),
                    ..AddressVector::default()
                },
            }),
            arg: 0,
            reported: group.reported.clone(),
        });
        groups.insert(number, group);
        Ok(number)
    }

    /// Leaves a group. Gives the number of its events that were handed out.
    ///
    /// # Errors
    /// `NotFound`.
    pub fn leave(&self, engine: &Engine, group: u32) -> Result<u32, Error> {
        engine.life.check_epoch()?;
        let mut state = lock(&self.state);
        let gone = state
            .groups
            .remove(&group)
            .ok_or(Error::NotFound("no such membership"))?;
        if let Some(id) = state.ids.get(&gone.id) {
            id.channel.events.retract(|news| news.group == Some(group));
        }
        Ok(gone.reported.load(Ordering::Acquire))
    }
}
