//! The quantities of the API, each a type of its own, and the sets of flags.

use ferriband_verbs_sys as sys;
use std::fmt;

macro_rules! quantities {
    ($($(#[$doc:meta])* $name:ident($inner:ty);)*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
        pub struct $name(pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:#x}", self.0)
            }
        }
    )*};
}

quantities! {
    /// Number of a queue pair, 24 bits.
    Qpn(u32);
    /// Local identifier of a port.
    Lid(u16);
    /// Q_Key of a datagram queue pair.
    QKey(u32);
    /// Key by which this process's requests name registered memory.
    LKey(u32);
    /// Key by which a peer's requests name registered memory.
    RKey(u32);
}

/// Global identifier of a port, in the order of the wire.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Gid(pub [u8; 16]);

impl Gid {
    pub(crate) fn to_c(self) -> sys::ibv_gid {
        sys::ibv_gid { raw: self.0 }
    }
}

impl fmt::Debug for Gid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", std::net::Ipv6Addr::from(self.0))
    }
}

impl fmt::Display for Gid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

bitflags::bitflags! {
    /// What a memory region, or a connection, lets requests do.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct Access: u32 {
        /// Receives and READs of this process may write it.
        const LOCAL_WRITE = sys::IBV_ACCESS_LOCAL_WRITE;
        /// RDMA WRITEs of peers.
        const REMOTE_WRITE = sys::IBV_ACCESS_REMOTE_WRITE;
        /// RDMA READs of peers.
        const REMOTE_READ = sys::IBV_ACCESS_REMOTE_READ;
        /// Atomic operations of peers.
        const REMOTE_ATOMIC = sys::IBV_ACCESS_REMOTE_ATOMIC;
        /// Pages are looked up when they are needed instead of being pinned.
        const ON_DEMAND = sys::IBV_ACCESS_ON_DEMAND;
        /// The adapter may write in any order: never with the RDMA fast path.
        const RELAXED_ORDERING = sys::IBV_ACCESS_RELAXED_ORDERING;
    }
}

macro_rules! closed {
    ($(#[$doc:meta])* $name:ident: $c:ty { $($(#[$vdoc:meta])* $variant:ident = $value:path,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum $name {
            $($(#[$vdoc])* $variant,)*
            /// A value that this wrapper does not know.
            Unknown(u32),
        }

        impl $name {
            /// From the C API's value; what is not known is kept.
            pub const fn from_c(value: u32) -> Self {
                $(if value == $value as u32 { return $name::$variant; })*
                $name::Unknown(value)
            }

            /// The C API's value.
            pub const fn to_c(self) -> u32 {
                match self {
                    $($name::$variant => $value as u32,)*
                    $name::Unknown(value) => value,
                }
            }
        }
    };
}
pub(crate) use closed;

closed! {
    /// Transport service of a queue pair.
    QpType: sys::ibv_qp_type {
        /// Reliable connection.
        Rc = sys::IBV_QPT_RC,
        /// Unreliable connection.
        Uc = sys::IBV_QPT_UC,
        /// Unreliable datagram.
        Ud = sys::IBV_QPT_UD,
        /// Initiator of an extended reliable connection.
        XrcSend = sys::IBV_QPT_XRC_SEND,
        /// Target of an extended reliable connection: belongs to an XRC domain.
        XrcRecv = sys::IBV_QPT_XRC_RECV,
    }
}

closed! {
    /// State of a queue pair.
    QpState: sys::ibv_qp_state {
        /// Made, or taken back.
        Reset = sys::IBV_QPS_RESET,
        /// May take receives.
        Init = sys::IBV_QPS_INIT,
        /// Ready to receive.
        Rtr = sys::IBV_QPS_RTR,
        /// Ready to send.
        Rts = sys::IBV_QPS_RTS,
        /// Send queue drained.
        Sqd = sys::IBV_QPS_SQD,
        /// Send queue error.
        Sqe = sys::IBV_QPS_SQE,
        /// Everything is flushed.
        Error = sys::IBV_QPS_ERR,
    }
}

closed! {
    /// Path MTU.
    Mtu: sys::ibv_mtu {
        /// 256 bytes.
        Mtu256 = sys::IBV_MTU_256,
        /// 512 bytes.
        Mtu512 = sys::IBV_MTU_512,
        /// 1,024 bytes.
        Mtu1024 = sys::IBV_MTU_1024,
        /// 2,048 bytes.
        Mtu2048 = sys::IBV_MTU_2048,
        /// 4,096 bytes.
        Mtu4096 = sys::IBV_MTU_4096,
    }
}

impl Mtu {
    /// Bytes of a packet's payload, 256 to 4,096; of a value that this wrapper does not know, the nearer of the two.
    #[must_use]
    pub fn bytes(self) -> u32 {
        128 << self.to_c().clamp(1, 5)
    }
}

closed! {
    /// State of a port.
    PortState: sys::ibv_port_state {
        /// No link.
        Down = sys::IBV_PORT_DOWN,
        /// Link, not yet configured.
        Init = sys::IBV_PORT_INIT,
        /// Configured, not yet active.
        Armed = sys::IBV_PORT_ARMED,
        /// Usable.
        Active = sys::IBV_PORT_ACTIVE,
    }
}

closed! {
    /// What lies under a port.
    LinkLayer: u32 {
        /// Old adapters, which are InfiniBand.
        Unspecified = sys::IBV_LINK_LAYER_UNSPECIFIED,
        /// InfiniBand: addressed by LID.
        InfiniBand = sys::IBV_LINK_LAYER_INFINIBAND,
        /// Ethernet: addressed by GID.
        Ethernet = sys::IBV_LINK_LAYER_ETHERNET,
    }
}

/// Where packets of a connection or an address handle go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Route {
    /// LID of the other port; 0 on Ethernet.
    pub dlid: Lid,
    /// GID of the other port and the index of ours: needed on Ethernet and beyond a subnet.
    pub global: Option<(Gid, u8)>,
    /// Hop limit of a global route.
    pub hop_limit: u8,
    /// Service level, 0 to 15.
    pub sl: u8,
    /// Traffic class of a global route.
    pub traffic_class: u8,
    /// Our port, from 1.
    pub port: u8,
    /// Which of our port's LIDs packets come from: the low bits of it; 0 on Ethernet.
    pub path_bits: u8,
}

impl Route {
    pub(crate) fn to_c(self) -> sys::ibv_ah_attr {
        let mut attr = sys::ibv_ah_attr {
            dlid: self.dlid.0,
            sl: self.sl,
            src_path_bits: self.path_bits,
            port_num: self.port,
            ..Default::default()
        };
        if let Some((dgid, sgid_index)) = self.global {
            attr.is_global = 1;
            attr.grh = sys::ibv_global_route {
                dgid: dgid.to_c(),
                flow_label: 0,
                sgid_index,
                hop_limit: self.hop_limit,
                traffic_class: self.traffic_class,
            };
        }
        attr
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_values_survive() {
        assert_eq!(QpState::from_c(6), QpState::Error);
        assert_eq!(QpState::from_c(77), QpState::Unknown(77));
        assert_eq!(QpState::Unknown(77).to_c(), 77);
        assert_eq!(QpType::XrcRecv.to_c(), 10);
    }

    #[test]
    fn a_route_without_a_gid_has_no_grh() {
        let route = Route {
            dlid: Lid(7),
            port: 1,
            ..Route::default()
        };
        assert_eq!(route.to_c().is_global, 0);
        assert_eq!(route.to_c().dlid, 7);
        let route = Route {
            global: Some((Gid([9; 16]), 3)),
            ..route
        };
        assert_eq!(route.to_c().is_global, 1);
        assert_eq!(route.to_c().grh.sgid_index, 3);
    }
}
