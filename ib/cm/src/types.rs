//! What goes in and comes out besides parameters: names, routes, errors.

use crate::table::{Kind, State};
use ferriband_transport::types::AddressVector;
use ferriband_wire::cm::RejectReason;
use ferriband_wire::mad::MAD_LEN;
use ferriband_wire::{EmitError, Gid, Guid, Lid, Mtu, PKey, TimeCode};

/// The driver's name for a listener or an identifier; the machine only hands it back.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash, Default)]
pub struct UserId(pub u64);

/// Where a message comes from or goes to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Route {
    /// To queue pair 1 of another port.
    Gsi {
        /// The driver's number of the local device.
        device: u16,
        /// Index of the local GID.
        sgid_index: u8,
        /// The way.
        av: AddressVector,
    },
    /// To another process of this host, or this one: no packet leaves it.
    Host {
        /// Number of the process.
        slot: u32,
    },
}

impl Route {
    /// Who is at the other end, for comparing.
    pub(crate) const fn peer(&self) -> Peer {
        match self {
            Route::Gsi { av, .. } if av.is_global => Peer::Gid(av.dgid.0),
            Route::Gsi { device, av, .. } => Peer::Lid(*device, av.dlid.0),
            Route::Host { slot } => Peer::Process(*slot),
        }
    }
}

/// The other end of a route.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Peer {
    Gid([u8; 16]),
    Lid(u16, u16),
    Process(u32),
}

/// The local end of a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LocalEnd {
    /// The driver's number of the device.
    pub device: u16,
    /// GUID of the adapter, as it stands in REQ and REP.
    pub guid: Guid,
    /// Port from 1.
    pub port_num: u8,
    /// Index of the path's GID.
    pub sgid_index: u8,
    /// Index of the path's P_Key.
    pub pkey_index: u16,
    /// Packets always have a GRH (RoCE); otherwise they have one if the hop limit is greater than 1.
    pub ethernet: bool,
    /// Largest path MTU of the port.
    pub max_mtu: Mtu,
    /// The adapter acknowledges within this time.
    pub ack_delay: TimeCode,
}

/// What the machine asks about the ports of this host.
pub trait Ports {
    /// The local end of a path that ends at `gid` (or `lid`, where there are LIDs) in the partition `pkey`; the message came
    /// along `from`. The error is the reason of the REJ, as a rule `PrimaryRemoteGid`; for an alternate path the machine
    /// turns it into that path's.
    fn local_end(
        &self,
        from: &Route,
        gid: &Gid,
        lid: Lid,
        pkey: PKey,
    ) -> Result<LocalEnd, RejectReason>;

    /// True if who listens here listens to what comes along `from`. False where the driver answers
    /// for a port that the consumer does not have: there nobody listens.
    fn serves(&self, from: &Route) -> bool {
        let _ = from;
        true
    }
}

/// What comes from outside.
#[derive(Clone, Copy, Debug)]
pub enum Input<'a> {
    /// A message. The driver has checked Q_Key and P_Key.
    Mad {
        /// Where an answer goes.
        from: Route,
        /// The local GID that was addressed, if that is known: selects among listeners for SIDR_REQ.
        to: Option<Gid>,
        /// The message.
        mad: &'a [u8; MAD_LEN],
    },
    /// A process of this host has died: nothing will come from it.
    ProcessGone(u32),
    /// A local device is no longer there.
    DeviceGone(u16),
}

/// Why a call is refused. Nothing was changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum CmError {
    /// There is no such identifier, or no such listener.
    #[error("no such identifier")]
    NoSuchId,
    /// Not in this state.
    #[error("not possible in state {0:?}")]
    State(State),
    /// It is connected already.
    #[error("connected already")]
    Connected,
    /// The table is full.
    #[error("too many identifiers")]
    TooMany,
    /// Somebody listens there.
    #[error("the service is taken")]
    InUse,
    /// A value does not fit its field, or the private data are too long.
    #[error("{0}")]
    Value(#[from] EmitError),
    /// No connection of this service can be asked for.
    #[error("not a connected service")]
    Service,
}

/// Why a message had no effect; for counters and traces.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Discard {
    /// Not a message of the connection manager.
    Malformed,
    /// Its identifiers are nobody's here.
    Unknown,
    /// Identifiers, transaction, queue pair or address are not those of the connection.
    Foreign,
    /// Not in this state.
    Unexpected(State, Kind),
    /// A table, a backlog or a queue is full.
    Full,
}
