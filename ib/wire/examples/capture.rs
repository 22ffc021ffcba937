//! Writes two captures, one packet of every opcode in each: `native.pcap` (InfiniBand in ERF records, with and without GRH) and
//! `roce.pcap` (RoCEv2 over IPv4 and IPv6 in Ethernet frames). To look at with Wireshark or
//! `tshark -V -r native.pcap`.
//!
//! `cargo run -p ferriband-wire --example capture -- DIRECTORY`

use ferriband_wire::pcap::{LinkType, PcapWriter};
use ferriband_wire::*;
use std::error::Error;
use std::fs::File;
use std::io::BufWriter;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;

fn main() -> Result<(), Box<dyn Error>> {
    let directory = PathBuf::from(std::env::args_os().nth(1).unwrap_or_else(|| ".".into()));
    let create = |name: &str| File::create(directory.join(name)).map(BufWriter::new);
    let mut native = PcapWriter::new(create("native.pcap")?, LinkType::Erf)?;
    let mut roce = PcapWriter::new(create("roce.pcap")?, LinkType::Ethernet)?;
    let payload: Vec<u8> = (0..)
        .take(1021)
        .map(|i: u32| i.to_le_bytes()[0] ^ 0x5a)
        .collect();
    let mut buffer = [0; 2048];
    let mut time_ns = 1_700_000_000_000_000_000;
    for (number, &opcode) in (0_u16..).zip(Opcode::ALL) {
        let rule = opcode.info().payload;
        let len = [1021, 16, 0]
            .into_iter()
            .find(|len| rule.allows(*len, 1021))
            .unwrap_or(0);
        let packet = Packet {
            headers: headers(opcode, number.into()),
            payload: &payload[..len],
        };
        let lrh = Lrh {
            vl: Vl(1),
            sl: Sl(2),
            dlid: Lid(3),
            slid: Lid(4),
        };
        let grh = Grh {
            traffic_class: 5,
            flow_label: 6,
            hop_limit: 7,
            sgid: Gid::from_prefix_guid(0xfe80 << 48, Guid(8)),
            dgid: Gid::from_prefix_guid(0xfe80 << 48, Guid(9)),
        };
        for grh in [None, Some(grh)] {
            let len = NativePacket { lrh, grh, packet }.emit(&mut buffer)?;
            native.write(time_ns, &buffer[..len])?;
            time_ns += 1_000;
        }
        let v4 = RoceIp::v4(
            Ipv4Addr::new(10, 0, 0, 1),
            Ipv4Addr::new(10, 0, 0, 2),
            number,
        );
        let v6 = RoceIp::v6(Ipv6Addr::LOCALHOST, Ipv6Addr::LOCALHOST);
        for (ip, udp_checksum) in [(v4, false), (v6, true)] {
            let headers = RoceHeaders {
                ip,
                source_port: 0xc000 | number,
            };
            let ethernet = Ethernet {
                destination: [2; 6],
                source: [4; 6],
                ether_type: ip.ether_type(),
            };
            let rest = ethernet.emit(&mut buffer)?;
            let len = RocePacket {
                headers,
                udp_checksum,
                packet,
            }
            .emit(rest)?;
            roce.write(time_ns, &buffer[..Ethernet::LEN + len])?;
            time_ns += 1_000;
        }
        println!("{packet}");
    }
    native.finish()?;
    roce.finish()?;
    Ok(())
}

/// Headers of `opcode` with recognisable contents.
fn headers(opcode: Opcode, number: u32) -> Headers {
    let has = |kind| opcode.info().has(kind);
    let rkey = RKey(0x1234_5678);
    let virtual_address = 0x7f00_1122_3344_5560;
    let ext = Ext {
        rdeth: has(ExtKind::Rdeth).then_some(Rdeth {
            ee_context: 0x0e_e0_0e,
        }),
        deth: has(ExtKind::Deth).then_some(Deth {
            qkey: QKey(0x1111_1111),
            src_qpn: Qpn(0x15),
        }),
        xrceth: has(ExtKind::XrcEth).then_some(XrcEth { xrc_srq: 0xabcdef }),
        reth: has(ExtKind::Reth).then_some(Reth {
            virtual_address,
            rkey,
            dma_length: 1021,
        }),
        atomic: has(ExtKind::AtomicEth).then_some(AtomicEth {
            virtual_address,
            rkey,
            swap_add: 99,
            compare: 47,
        }),
        aeth: has(ExtKind::Aeth).then_some(Aeth {
            syndrome: Syndrome::Ack(CreditCode::from_credits(100)),
            msn: Msn(number),
        }),
        atomic_ack: has(ExtKind::AtomicAckEth).then_some(AtomicAckEth { original: 42 }),
        imm: has(ExtKind::ImmDt).then_some(ImmDt {
            bytes: [0xab, 0xcd, 0, 3],
        }),
        ieth: has(ExtKind::Ieth).then_some(Ieth { rkey }),
    };
    Headers::new(
        Bth::new(opcode, Qpn(0x14), Psn::new(0xff_ff00 + number)),
        ext,
    )
}
