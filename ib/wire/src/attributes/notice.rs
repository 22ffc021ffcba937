//! Notice (IBA 13.4.8.2) and InformInfo (IBA 13.4.8.3): what has happened in a subnet, and who wants to hear of it.

use crate::error::{EmitError, ParseError};
use crate::header::{Header, U24, bits, fits, flag, place};
use crate::types::{Gid, Lid, Qpn, TimeCode};
use zerocopy::byteorder::big_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Bytes of a notice's details.
pub const NOTICE_DETAILS: usize = 54;

/// A Notice as it travels. In a trap by an SMP the issuer's GID is left out.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct NoticeWire {
    /// IsGeneric:1 Type:7.
    kind: u8,
    producer: U24,
    trap: U16,
    issuer_lid: U16,
    /// NoticeToggle:1 NoticeCount:15.
    count: U16,
    details: [u8; NOTICE_DETAILS],
    issuer_gid: [u8; 16],
}

/// How much a notice matters: 7 bits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct NoticeType(pub u8);

impl NoticeType {
    /// Fatal.
    pub const FATAL: NoticeType = NoticeType(0);
    /// Urgent.
    pub const URGENT: NoticeType = NoticeType(1);
    /// Security.
    pub const SECURITY: NoticeType = NoticeType(2);
    /// Subnet management.
    pub const SUBNET_MANAGEMENT: NoticeType = NoticeType(3);
    /// Informational.
    pub const INFORMATIONAL: NoticeType = NoticeType(4);
}

/// Who makes a generic notice: the node's type.
pub mod producer {
    /// A channel adapter.
    pub const CHANNEL_ADAPTER: u32 = 1;
    /// A switch.
    pub const SWITCH: u32 = 2;
    /// A router.
    pub const ROUTER: u32 = 3;
    /// A class's manager.
    pub const CLASS_MANAGER: u32 = 4;
    /// Whoever it is, in a subscription.
    pub const ANY: u32 = 0xff_ffff;
}

/// Numbers of generic traps (IBA 14.2.5.1, 15.2.5).
pub mod trap {
    /// A port is in service: made by administration.
    pub const IN_SERVICE: u16 = 64;
    /// A port is out of service: made by administration.
    pub const OUT_OF_SERVICE: u16 = 65;
    /// A multicast group was made: made by administration.
    pub const GROUP_MADE: u16 = 66;
    /// A multicast group is gone: made by administration.
    pub const GROUP_GONE: u16 = 67;
    /// The state of a link of a switch has changed.
    pub const LINK_STATE: u16 = 128;
    /// Local link integrity is below its threshold.
    pub const LINK_INTEGRITY: u16 = 129;
    /// Buffers were overrun too often.
    pub const BUFFER_OVERRUN: u16 = 130;
    /// No flow control packets came in time.
    pub const FLOW_CONTROL_WATCHDOG: u16 = 131;
    /// The capabilities of a port have changed.
    pub const CAPABILITIES: u16 = 144;
    /// The system image GUID has changed.
    pub const SYSTEM_IMAGE: u16 = 145;
    /// A management key was wrong.
    pub const BAD_MKEY: u16 = 256;
    /// A partition key was wrong.
    pub const BAD_PKEY: u16 = 257;
    /// A Q_Key was wrong.
    pub const BAD_QKEY: u16 = 258;
    /// A partition key was wrong, at a switch's port.
    pub const BAD_PKEY_AT_SWITCH: u16 = 259;
    /// Any, in a subscription.
    pub const ANY: u16 = 0xffff;
}

/// What has happened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Notice {
    /// The IBA has given the trap its number; else a vendor has.
    pub generic: bool,
    /// How much it matters, 7 bits.
    pub kind: NoticeType,
    /// Who makes it ([`producer`]), or the vendor's number: 24 bits.
    pub producer: u32,
    /// What it is ([`trap`]), or a device's number.
    pub trap: u16,
    /// The port that says so.
    pub issuer_lid: Lid,
    /// Changes with each new notice of an agent that keeps some.
    pub toggle: bool,
    /// How many an agent keeps, 15 bits.
    pub count: u16,
    /// What each trap has for itself.
    pub details: [u8; NOTICE_DETAILS],
    /// The same port.
    pub issuer_gid: Gid,
}

impl Notice {
    /// A generic notice, without details.
    pub const fn new(kind: NoticeType, producer: u32, trap: u16, issuer_lid: Lid) -> Notice {
        Notice {
            generic: true,
            kind,
            producer,
            trap,
            issuer_lid,
            toggle: false,
            count: 0,
            details: [0; NOTICE_DETAILS],
            issuer_gid: Gid([0; 16]),
        }
    }

    /// The GID that traps 64 to 67 are about.
    pub fn gid(&self) -> Gid {
        let mut gid = [0; 16];
        gid.copy_from_slice(&self.details[6..22]);
        Gid(gid)
    }

    /// Writes the GID that traps 64 to 67 are about.
    pub fn set_gid(&mut self, gid: Gid) {
        self.details[6..22].copy_from_slice(&gid.0);
    }
}

impl Header for Notice {
    type Wire = NoticeWire;
    const NAME: &'static str = "Notice";

    fn from_wire(wire: &NoticeWire) -> Result<Self, ParseError> {
        let count = wire.count.get();
        Ok(Notice {
            generic: wire.kind >> 7 != 0,
            kind: NoticeType(wire.kind & 0x7f),
            producer: wire.producer.get(),
            trap: wire.trap.get(),
            issuer_lid: Lid(wire.issuer_lid.get()),
            toggle: count >> 15 != 0,
            count: count & 0x7fff,
            details: wire.details,
            issuer_gid: Gid(wire.issuer_gid),
        })
    }

    fn to_wire(&self) -> Result<NoticeWire, EmitError> {
        let count = fits("NoticeCount", self.count.into(), 15)? as u16;
        Ok(NoticeWire {
            kind: flag(self.generic, 7) | place("Type", self.kind.0, 0, 7)?,
            producer: U24::new("ProducerType", self.producer)?,
            trap: U16::new(self.trap),
            issuer_lid: U16::new(self.issuer_lid.0),
            count: U16::new(u16::from(self.toggle) << 15 | count),
            details: self.details,
            issuer_gid: self.issuer_gid.0,
        })
    }
}

/// An InformInfo as it travels.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct InformInfoWire {
    gid: [u8; 16],
    lid_begin: U16,
    lid_end: U16,
    reserved: U16,
    generic: u8,
    subscribe: u8,
    kind: U16,
    trap: U16,
    qpn: U24,
    /// reserved:3 RespTimeValue:5.
    response_time: u8,
    reserved2: u8,
    producer: U24,
}

/// Who wants to hear of what.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InformInfo {
    /// The port that notices are to be about; zeros: the LIDs say.
    pub gid: Gid,
    /// The first LID of ports that notices are to be from; 0xffff: all.
    pub lid_begin: Lid,
    /// The last one.
    pub lid_end: Lid,
    /// 1: traps that the IBA has numbered; 0: a vendor's; others mean nothing.
    pub generic: u8,
    /// 1: notices are wanted; 0: no more.
    pub subscribe: u8,
    /// How much a notice is to matter; 0xffff: whatever it is.
    pub kind: u16,
    /// The trap ([`trap`]), or a device's number.
    pub trap: u16,
    /// The queue pair that a subscription is of, in what ends it.
    pub qpn: Qpn,
    /// A report is answered within this time.
    pub response_time: TimeCode,
    /// Who is to make them ([`producer`]), or a vendor's number: 24 bits.
    pub producer: u32,
}

impl Header for InformInfo {
    type Wire = InformInfoWire;
    const NAME: &'static str = "InformInfo";

    fn from_wire(wire: &InformInfoWire) -> Result<Self, ParseError> {
        Ok(InformInfo {
            gid: Gid(wire.gid),
            lid_begin: Lid(wire.lid_begin.get()),
            lid_end: Lid(wire.lid_end.get()),
            generic: wire.generic,
            subscribe: wire.subscribe,
            kind: wire.kind.get(),
            trap: wire.trap.get(),
            qpn: Qpn(wire.qpn.get()),
            response_time: TimeCode(bits(wire.response_time, 0, 5)),
            producer: wire.producer.get(),
        })
    }

    fn to_wire(&self) -> Result<InformInfoWire, EmitError> {
        Ok(InformInfoWire {
            gid: self.gid.0,
            lid_begin: U16::new(self.lid_begin.0),
            lid_end: U16::new(self.lid_end.0),
            reserved: U16::ZERO,
            generic: self.generic,
            subscribe: self.subscribe,
            kind: U16::new(self.kind),
            trap: U16::new(self.trap),
            qpn: U24::new("QPN", self.qpn.0)?,
            response_time: place("RespTimeValue", self.response_time.0, 0, 5)?,
            reserved2: 0,
            producer: U24::new("ProducerType", self.producer)?,
        })
    }
}
