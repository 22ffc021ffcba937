//! Records of tables that are read from the nodes when somebody asks: GUIDInfo, P_KeyTable, SLtoVLMappingTable, VLArbitrationTable and MulticastForwardingTable records (IBA 15.2.5).
//!
//! Owns what a question needs to be read, and how a block becomes a record. Who reads is the manager ([`crate::manager::Manager::read`]).

use super::records::{Component, Question};
use super::{Administration, Answered, Refused, is_trusted};
use crate::manager::{Block, Reading, Table};
use ferriband_wire::Lid;
use ferriband_wire::attributes::MulticastForwardingBlock;
use ferriband_wire::mad::{MadStatus, Method};
use ferriband_wire::sa::{SaMad, attribute, status};

/// LID, block; the GUIDs themselves are no components here, as nobody asks by them.
const GUIDS: &[Component] = &[(0, 0, 2), (1, 2, 1)];
/// LID, block, port.
const PKEYS: &[Component] = &[(0, 0, 2), (1, 2, 2), (2, 4, 1)];
/// LID, input, output.
const LANES: &[Component] = &[(0, 0, 2), (1, 2, 1), (2, 3, 1)];
/// LID, output, block.
const ARBITRATION: &[Component] = &[(0, 0, 2), (1, 2, 1), (2, 3, 1)];
/// LID; position and block share two bytes, and are looked at apart.
const GROUPS: &[Component] = &[(0, 0, 2), (POSITION, 2, 0), (BLOCK, 2, 0)];
const POSITION: u32 = 1;
const BLOCK: u32 = 3;
/// Position:4 reserved:3 block:9.
const BLOCK_BITS: u16 = 0x1ff;
/// The first LID of a group.
const FIRST_MLID: u16 = 0xc000;

/// Bytes before a record's table.
const KEY_BYTES: usize = 8;

/// A kind of record.
struct Kind {
    table: Table,
    components: &'static [Component],
    /// Those that are reserved of an adapter, as a mask.
    ports: u64,
    /// Bytes of the table in a record.
    bytes: usize,
}

/// None for another attribute, or groups where there are none.
fn kind(own: &Administration, asked: &SaMad) -> Option<Kind> {
    let (table, components, ports, bytes) = match asked.attribute {
        attribute::GUID_INFO => (Table::Guids, GUIDS, 0, 64),
        attribute::PKEY_TABLE => (Table::PKeys, PKEYS, 1 << 2, 64),
        attribute::SL_TO_VL => (Table::Lanes, LANES, 1 << 1 | 1 << 2, 8),
        attribute::VL_ARBITRATION => (Table::Arbitration, ARBITRATION, 1 << 1, 64),
        attribute::MULTICAST_FORWARDING => {
            let last = own.groups.top()?.checked_sub(FIRST_MLID)?;
            let block = last / MulticastForwardingBlock::LIDS;
            (Table::Groups(block), GROUPS, 0, 64)
        }
        _ => return None,
    };
    Some(Kind {
        table,
        components,
        ports,
        bytes,
    })
}

/// Who may ask what: partition keys are for those who are trusted (IBA C15-0.1.21).
fn admits(asked: &SaMad) -> bool {
    asked.attribute != attribute::PKEY_TABLE || is_trusted(asked)
}

pub(super) fn needs(own: &Administration, asked: &SaMad) -> Option<Reading> {
    let asks = [Method::GET, Method::GET_TABLE].contains(&asked.method);
    let kind = kind(own, asked).filter(|_| asks && admits(asked))?;
    Question::new(asked, kind.components).ok()?;
    let lid = Lid(u16::from_be_bytes([asked.data[0], asked.data[1]]));
    let given = |bit: u32, at: usize| {
        let given = asked.component_mask >> bit & 1 != 0;
        given.then_some(asked.data[at])
    };
    let (port, input) = match kind.table {
        Table::PKeys => (given(2, 4), None),
        Table::Lanes => (given(2, 3), given(1, 2)),
        Table::Arbitration => (given(1, 2), None),
        Table::Guids | Table::Groups(_) => (None, None),
    };
    Some(Reading {
        table: kind.table,
        lid: (asked.component_mask & 1 != 0).then_some(lid),
        port,
        input,
    })
}

pub(super) fn find(own: &Administration, asked: &SaMad) -> Result<Answered, Refused> {
    if !admits(asked) {
        return Err(status::REQUEST_INVALID);
    }
    let Some(kind) = kind(own, asked) else {
        return Ok(Answered::of(KEY_BYTES + 64));
    };
    // a node is meant by any of its port's LIDs: what was read is what is meant; of an adapter ports are no components, for its LID says which
    let without = |mask: u64| SaMad {
        component_mask: asked.component_mask & !mask,
        ..*asked
    };
    let (of_switch, of_adapter) = (without(1), without(1 | kind.ports));
    let switches = Question::new(&of_switch, kind.components)?;
    let adapters = Question::new(&of_adapter, kind.components)?;
    let needs = needs(own, asked).ok_or(status::REQUEST_INVALID)?;
    let read = own.tables.as_ref().filter(|read| read.what == needs);
    let read = read.ok_or(MadStatus::BUSY)?;
    let mut found = Answered::of(KEY_BYTES + kind.bytes);
    for block in &read.blocks {
        let mut record = [0; KEY_BYTES + 64];
        record[..KEY_BYTES].copy_from_slice(&key(kind.table, block));
        record[KEY_BYTES..].copy_from_slice(&block.data);
        let record = &record[..KEY_BYTES + kind.bytes];
        let question = if block.of_switch {
            &switches
        } else {
            &adapters
        };
        if question.wants(record) && in_row(&kind, asked, record) {
            found.push(record)?;
        }
    }
    Ok(found)
}

/// What a record begins with.
fn key(table: Table, block: &Block) -> [u8; KEY_BYTES] {
    let mut key = [0; KEY_BYTES];
    key[..2].copy_from_slice(&block.lid.0.to_be_bytes());
    let modifier = block.modifier;
    match table {
        Table::Guids => key[2] = modifier as u8,
        Table::PKeys => {
            key[2..4].copy_from_slice(&(modifier as u16).to_be_bytes());
            key[4] = block.port;
        }
        Table::Lanes => (key[2], key[3]) = ((modifier >> 8) as u8, modifier as u8),
        Table::Arbitration => (key[2], key[3]) = (block.port, (modifier >> 16) as u8),
        Table::Groups(_) => {
            let row = (modifier >> 28) as u16 & 0xf;
            let at = row << 12 | modifier as u16 & BLOCK_BITS;
            key[2..4].copy_from_slice(&at.to_be_bytes());
        }
    }
    key
}

/// Whether a record of multicast forwarding is of the position and the block that are asked for.
fn in_row(kind: &Kind, asked: &SaMad, record: &[u8]) -> bool {
    if !matches!(kind.table, Table::Groups(_)) {
        return true;
    }
    let at = |bytes: &[u8]| u16::from_be_bytes([bytes[2], bytes[3]]);
    let (own, wanted) = (at(record), at(&asked.data));
    let given = |bit: u32| asked.component_mask >> bit & 1 != 0;
    (!given(POSITION) || own >> 12 == wanted >> 12)
        && (!given(BLOCK) || own & BLOCK_BITS == wanted & BLOCK_BITS)
}
