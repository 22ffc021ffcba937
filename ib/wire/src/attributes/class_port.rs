//! ClassPortInfo (IBA 13.4.8.1): what an agent of a class can do, and where to turn instead.

use super::{tc_sl_fl, word_bits};
use crate::error::{EmitError, ParseError};
use crate::header::{Header, U24};
use crate::types::{Gid, Lid, PKey, QKey, Qpn, Sl, TimeCode};
use zerocopy::byteorder::big_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// A ClassPortInfo as it travels.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct ClassPortInfoWire {
    base_version: u8,
    class_version: u8,
    capability_mask: U16,
    /// CapabilityMask2:27 RespTimeValue:5.
    capability_mask2: U32,
    redirect: AgentWire,
    trap: AgentWire,
}

/// Where an agent is, as it travels.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct AgentWire {
    gid: [u8; 16],
    /// TClass:8 SL:4 FlowLabel:20.
    class: U32,
    lid: U16,
    pkey: U16,
    /// Reserved where requests are redirected to.
    hop_limit: u8,
    qpn: U24,
    qkey: U32,
}

/// Where an agent is: all that is needed to send it a MAD. All zeros for none.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Agent {
    /// Its port's GID.
    pub gid: Gid,
    /// Traffic class towards it.
    pub traffic_class: u8,
    /// Service level towards it.
    pub sl: Sl,
    /// Flow label towards it, 20 bits.
    pub flow_label: u32,
    /// Its port's LID; 0 if the GID must be resolved.
    pub lid: Lid,
    /// Partition.
    pub pkey: PKey,
    /// Hop limit towards it; traps only.
    pub hop_limit: u8,
    /// Its queue pair.
    pub qpn: Qpn,
    /// Q_Key of its queue pair.
    pub qkey: QKey,
}

impl Agent {
    fn from_wire(wire: &AgentWire) -> Self {
        let class = wire.class.get();
        let [traffic_class, sl, ..] = class.to_be_bytes();
        Agent {
            gid: Gid(wire.gid),
            traffic_class,
            sl: Sl(sl >> 4),
            flow_label: word_bits(class, 0, 20),
            lid: Lid(wire.lid.get()),
            pkey: PKey(wire.pkey.get()),
            hop_limit: wire.hop_limit,
            qpn: Qpn(wire.qpn.get()),
            qkey: QKey(wire.qkey.get()),
        }
    }

    fn to_wire(self) -> Result<AgentWire, EmitError> {
        Ok(AgentWire {
            gid: self.gid.0,
            class: U32::new(tc_sl_fl(self.traffic_class, self.sl, self.flow_label)?),
            lid: U16::new(self.lid.0),
            pkey: U16::new(self.pkey.0),
            hop_limit: self.hop_limit,
            qpn: U24::new("QP", self.qpn.0)?,
            qkey: U32::new(self.qkey.0),
        })
    }
}

/// What an agent of a class can do.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ClassPortInfo {
    /// MAD base version.
    pub base_version: u8,
    /// Version of the class.
    pub class_version: u8,
    /// Abilities; bits 8 and up are the class's own.
    pub capability_mask: u16,
    /// More abilities of the class, 27 bits.
    pub capability_mask2: u32,
    /// The agent answers within this time.
    pub response_time: TimeCode,
    /// Where requests of this class must go instead. Its hop limit must be 0.
    pub redirect: Agent,
    /// Where traps of this class go.
    pub trap: Agent,
}

impl ClassPortInfo {
    /// Ability: the agent sends traps.
    pub const IS_TRAP_SUPPORTED: u16 = 1;
    /// Ability: the agent answers Get(Notice).
    pub const IS_GET_NOTICE_SUPPORTED: u16 = 1 << 1;
}

impl Header for ClassPortInfo {
    type Wire = ClassPortInfoWire;
    const NAME: &'static str = "ClassPortInfo";

    fn from_wire(wire: &ClassPortInfoWire) -> Result<Self, ParseError> {
        let mask2 = wire.capability_mask2.get();
        Ok(ClassPortInfo {
            base_version: wire.base_version,
            class_version: wire.class_version,
            capability_mask: wire.capability_mask.get(),
            capability_mask2: word_bits(mask2, 5, 27),
            // Five bits.
            response_time: TimeCode(word_bits(mask2, 0, 5) as u8),
            redirect: Agent {
                hop_limit: 0,
                ..Agent::from_wire(&wire.redirect)
            },
            trap: Agent::from_wire(&wire.trap),
        })
    }

    fn to_wire(&self) -> Result<ClassPortInfoWire, EmitError> {
        crate::header::fits("RedirectHopLimit", self.redirect.hop_limit.into(), 0)?;
        Ok(ClassPortInfoWire {
            base_version: self.base_version,
            class_version: self.class_version,
            capability_mask: U16::new(self.capability_mask),
            capability_mask2: U32::new(
                super::place_word("CapabilityMask2", self.capability_mask2, 5, 27)?
                    | super::place_word("RespTimeValue", self.response_time.0.into(), 0, 5)?,
            ),
            redirect: self.redirect.to_wire()?,
            trap: self.trap.to_wire()?,
        })
    }
}
