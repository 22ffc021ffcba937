//! What the fabric's own manager tells switches and adapters about congestion, when it is asked to (`fabric up --congestion-control`; IBA annex A10, papers/000 II-F).
//!
//! Owns the settings: those of `sim fabric --congestion-control`, as far as the class has words for them. Each switch marks what waits behind four packets of 2 KiB, its ports to adapters even when they lack
//! credits (there is nobody behind them whose congestion it could be); an adapter's flow slows down by an eighth of a packet's time with each mark that comes back.

use ferriband_subnet::graph::Peer;
use ferriband_subnet::manager::Subnet;
use ferriband_wire::attributes::{
    CA_CONGESTION_SETTING, CC_DATA_OFFSET, CCT_BLOCK, CONGESTION_CONTROL_TABLE, CaCongestionEntry,
    CaCongestionSetting, CctBlock, SWITCH_CONGESTION_SETTING, SwitchCongestionSetting,
};
use ferriband_wire::mad::{AttributeId, MAD_LEN, MadHeader, MadStatus, ManagementClass, Method};
use ferriband_wire::{Header, Lid, TransactionId};
use zerocopy::byteorder::big_endian::{U16, U32};

/// Victim mask, threshold and marking rate mean something.
const CONTROL_MAP: u32 = 1 | 1 << 2 | 1 << 4;
/// Of 15: a quarter of a lane's buffer, four packets of 2 KiB.
const THRESHOLD: u8 = 12;
/// Blocks of 64 bytes: packets of all lengths are marked.
const SMALLEST: u8 = 1;
/// Entries of the table: entry i waits i eighths of a packet's time.
const ENTRIES: usize = 2 * CCT_BLOCK;
/// Shift by three bits, which are the upper two.
const EIGHTHS: u16 = 3 << 14;
/// Units of 1.024 us until an index falls by one: a hundred packets of 2 KiB at 10 Gbit/s.
const TIMER: u16 = 164;
/// An index that an adapter notes in its log.
const TRIGGER: u8 = 8;
/// Version of the class.
const CLASS_VERSION: u8 = 2;

fn request<A: Header>(attribute: AttributeId, modifier: u32, value: &A) -> Option<[u8; MAD_LEN]> {
    let mut mad = [0; MAD_LEN];
    let header = MadHeader {
        class: ManagementClass::CONG_CTRL,
        class_version: CLASS_VERSION,
        method: Method::SET,
        status: MadStatus::OK,
        class_specific: 0,
        transaction_id: TransactionId(0),
        attribute,
        attribute_modifier: modifier,
    };
    header.emit(&mut mad).ok()?;
    value.emit(&mut mad[CC_DATA_OFFSET..]).ok()?;
    Some(mad)
}

/// What is to be told to whom. Transactions are the sender's to choose.
pub fn requests(subnet: &Subnet) -> Vec<(Lid, [u8; MAD_LEN])> {
    let mut out = Vec::new();
    for switch in subnet.graph.switches() {
        let mut victim_mask = [0; 32];
        for (port, peer) in (0_u8..=254).zip(&switch.ports) {
            if matches!(peer, Peer::End(_)) {
                SwitchCongestionSetting::add(&mut victim_mask, port);
            }
        }
        let setting = SwitchCongestionSetting {
            control_map: U32::new(CONTROL_MAP),
            victim_mask,
            threshold: THRESHOLD << 4,
            packet_blocks: SMALLEST,
            ..SwitchCongestionSetting::default()
        };
        let told = request(SWITCH_CONGESTION_SETTING, 0, &setting);
        out.extend(told.map(|mad| (Lid(switch.lid as u16), mad)));
    }
    let entry = CaCongestionEntry {
        timer: U16::new(TIMER),
        increase: 1,
        trigger: TRIGGER,
        ..CaCongestionEntry::default()
    };
    let setting = CaCongestionSetting {
        port_control: U16::ZERO,
        control_map: U16::new(u16::MAX),
        entries: [entry; 16],
    };
    for end in subnet.graph.ends() {
        let lid = Lid(end.lid as u16);
        for block in 0..ENTRIES / CCT_BLOCK {
            let entry = |i: usize| U16::new(EIGHTHS | (block * CCT_BLOCK + i) as u16);
            let value = CctBlock {
                limit: U16::new((ENTRIES - 1) as u16),
                reserved: U16::ZERO,
                entries: std::array::from_fn(entry),
            };
            let told = request(CONGESTION_CONTROL_TABLE, block as u32, &value);
            out.extend(told.map(|mad| (lid, mad)));
        }
        let told = request(CA_CONGESTION_SETTING, 0, &setting);
        out.extend(told.map(|mad| (lid, mad)));
    }
    out
}
