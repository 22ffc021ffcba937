//! Adapters as they really are, their ports and addresses, and what is on its way between them.

use ferriband_heal::Ns;

/// Receives of an adapter for messages by SEND.
pub const RECEIVES: u32 = 48;

/// A port.
#[derive(Clone, Copy, Debug, Default)]
pub struct Port {
    pub down_until: Ns,
    /// It is ACTIVE before, and carries nothing yet.
    pub carries_at: Ns,
    /// When it last failed.
    pub failed: Ns,
    pub address: u32,
}

/// An adapter.
#[derive(Clone, Debug)]
pub struct Device {
    /// How often it was opened.
    pub opening: u32,
    pub is_open: bool,
    pub is_fatal: bool,
    /// It cannot be opened before.
    pub absent_until: Ns,
    pub ports: Vec<Port>,
    /// Receives that are posted.
    pub receives: u32,
}

impl Device {
    pub fn new(ports: u8) -> Self {
        Self {
            opening: 0,
            is_open: true,
            is_fatal: false,
            absent_until: Ns(0),
            ports: vec![Port::default(); ports.into()],
            receives: RECEIVES,
        }
    }
}

/// An address of a port: what its GID says.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Spot {
    pub rank: usize,
    pub adapter: usize,
    pub port: u8,
    pub address: u32,
}

impl Spot {
    pub fn gid(self) -> [u8; 16] {
        let mut gid = [0; 16];
        gid[..4].copy_from_slice(&[self.rank as u8, self.adapter as u8, self.port, 1]);
        gid[4..8].copy_from_slice(&self.address.to_le_bytes());
        gid
    }

    pub fn of(gid: &[u8; 16]) -> Self {
        let [rank, adapter, port, _, address @ ..] = *gid;
        let [a, b, c, d, ..] = address;
        Self {
            rank: rank.into(),
            adapter: adapter.into(),
            port,
            address: u32::from_le_bytes([a, b, c, d]),
        }
    }

    /// The first LID of its port.
    pub fn lid(self) -> u16 {
        16 * (1 + 8 * self.rank as u16 + 2 * self.adapter as u16 + u16::from(self.port))
    }
}

/// What carries nothing, in one direction: all paths that it names.
#[derive(Clone, Copy, Debug)]
pub struct Ruin {
    pub from: usize,
    pub to: usize,
    pub adapters: Option<(usize, usize)>,
    pub route: Option<u16>,
}

impl Ruin {
    pub fn is_of(&self, from: Spot, to: Spot, route: u16) -> bool {
        let adapters = (from.adapter, to.adapter);
        (self.from, self.to) == (from.rank, to.rank)
            && self.adapters.is_none_or(|one| one == adapters)
            && self.route.is_none_or(|one| one == route)
    }
}

/// A datagram on its way, to a queue pair of this number.
#[derive(Clone, Debug)]
pub struct Flight {
    pub to: Spot,
    pub route: u16,
    pub number: u32,
    pub bytes: Vec<u8>,
}

/// What an adapter tells its process.
#[derive(Clone, Copy, Debug)]
pub enum Happening {
    Fatal,
    Port(u8),
    Address(u8),
}

/// The number of a queue pair of datagrams, and of the echo's.
pub fn numbers(adapter: usize, port: u8, opening: u32) -> (u32, u32) {
    let ud = 2 * (1 + ((opening << 2 | adapter as u32) << 2 | u32::from(port)));
    (ud, ud + 1)
}
