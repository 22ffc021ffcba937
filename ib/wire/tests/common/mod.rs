//! Strategies for headers and packets, shared by the tests of this crate.
#![allow(dead_code, unused_macros)] // each test binary uses its part

use ferriband_wire::*;
use proptest::prelude::*;

pub fn u24() -> impl Strategy<Value = u32> {
    prop_oneof![Just(0), Just(0xff_ffff), 0..1_u32 << 24]
}

pub fn opcode() -> impl Strategy<Value = Opcode> {
    proptest::sample::select(Opcode::ALL)
}

pub fn bth(opcode: Opcode) -> impl Strategy<Value = Bth> {
    (any::<[bool; 5]>(), any::<u16>(), u24(), u24()).prop_map(
        move |([solicited, migrated, fecn, becn, ack_req], pkey, qpn, psn)| Bth {
            opcode,
            solicited,
            migrated,
            pkey: PKey(pkey),
            fecn,
            becn,
            dest_qpn: Qpn(qpn),
            ack_req,
            psn: Psn::new(psn),
        },
    )
}

pub fn reth() -> impl Strategy<Value = Reth> {
    any::<(u64, u32, u32)>().prop_map(|(virtual_address, rkey, dma_length)| Reth {
        virtual_address,
        rkey: RKey(rkey),
        dma_length,
    })
}

pub fn atomic_eth() -> impl Strategy<Value = AtomicEth> {
    any::<(u64, u32, u64, u64)>().prop_map(|(virtual_address, rkey, swap_add, compare)| AtomicEth {
        virtual_address,
        rkey: RKey(rkey),
        swap_add,
        compare,
    })
}

pub fn deth() -> impl Strategy<Value = Deth> {
    (any::<u32>(), u24()).prop_map(|(qkey, qpn)| Deth {
        qkey: QKey(qkey),
        src_qpn: Qpn(qpn),
    })
}

pub fn aeth() -> impl Strategy<Value = Aeth> {
    let syndrome = any::<u8>()
        .prop_map(Syndrome::from_code)
        .prop_filter("reserved syndromes are not sent", |s| {
            !matches!(s, Syndrome::Reserved(_))
        });
    (syndrome, u24()).prop_map(|(syndrome, msn)| Aeth {
        syndrome,
        msn: Msn(msn),
    })
}

/// The extension headers of `opcode`, with any contents.
pub fn ext(opcode: Opcode) -> impl Strategy<Value = Ext> {
    let info = opcode.info();
    (
        (u24(), u24(), deth(), reth()),
        (
            atomic_eth(),
            aeth(),
            any::<u64>(),
            any::<[u8; 4]>(),
            any::<u32>(),
        ),
    )
        .prop_map(
            move |((ee_context, xrc_srq, deth, reth), (atomic, aeth, original, bytes, rkey))| {
                fn when<T>(present: bool, header: T) -> Option<T> {
                    present.then_some(header)
                }
                Ext {
                    rdeth: when(info.has(ExtKind::Rdeth), Rdeth { ee_context }),
                    deth: when(info.has(ExtKind::Deth), deth),
                    xrceth: when(info.has(ExtKind::XrcEth), XrcEth { xrc_srq }),
                    reth: when(info.has(ExtKind::Reth), reth),
                    atomic: when(info.has(ExtKind::AtomicEth), atomic),
                    aeth: when(info.has(ExtKind::Aeth), aeth),
                    atomic_ack: when(info.has(ExtKind::AtomicAckEth), AtomicAckEth { original }),
                    imm: when(info.has(ExtKind::ImmDt), ImmDt { bytes }),
                    ieth: when(info.has(ExtKind::Ieth), Ieth { rkey: RKey(rkey) }),
                }
            },
        )
}

/// Payload that `opcode` may carry.
pub fn payload(opcode: Opcode) -> impl Strategy<Value = Vec<u8>> {
    let sizes = match opcode.info().payload {
        PayloadRule::None => 0..=0,
        PayloadRule::Sixteen => 16..=16,
        PayloadRule::NonEmpty => 1..=300,
        PayloadRule::Full | PayloadRule::Any => 0..=300,
    };
    proptest::collection::vec(any::<u8>(), sizes)
}

/// Headers and payload of any packet of any opcode.
pub fn packet() -> impl Strategy<Value = (Headers, Vec<u8>)> {
    opcode().prop_flat_map(|opcode| {
        (bth(opcode), ext(opcode), payload(opcode))
            .prop_map(|(bth, ext, payload)| (Headers { bth, ext }, payload))
    })
}

pub fn lrh() -> impl Strategy<Value = Lrh> {
    (0_u8..16, 0_u8..16, any::<u16>(), any::<u16>()).prop_map(|(vl, sl, dlid, slid)| Lrh {
        vl: Vl(vl),
        sl: Sl(sl),
        dlid: Lid(dlid),
        slid: Lid(slid),
    })
}

pub fn grh() -> impl Strategy<Value = Grh> {
    (
        any::<(u8, u8)>(),
        0_u32..1 << 20,
        any::<([u8; 16], [u8; 16])>(),
    )
        .prop_map(
            |((traffic_class, hop_limit), flow_label, (sgid, dgid))| Grh {
                traffic_class,
                flow_label,
                hop_limit,
                sgid: Gid(sgid),
                dgid: Gid(dgid),
            },
        )
}

pub fn ipv4() -> impl Strategy<Value = Ipv4> {
    any::<(u8, u16, bool, u8, [u8; 4], [u8; 4])>().prop_map(
        |(tos, identification, dont_fragment, ttl, source, destination)| Ipv4 {
            tos,
            identification,
            dont_fragment,
            ttl,
            source: source.into(),
            destination: destination.into(),
        },
    )
}

pub fn roce_headers() -> impl Strategy<Value = RoceHeaders> {
    let ip = prop_oneof![ipv4().prop_map(RoceIp::V4), grh().prop_map(RoceIp::V6)];
    (ip, any::<u16>()).prop_map(|(ip, source_port)| RoceHeaders { ip, source_port })
}

/// parse(emit(x)) == x, and emit fills exactly `LEN` bytes and refuses one less.
pub fn header_round_trip<H: Header + PartialEq + std::fmt::Debug>(header: H) {
    let mut out = vec![0xa5; H::LEN + 3];
    let rest = header.emit(&mut out).expect("fits").len();
    assert_eq!(rest, 3);
    assert_eq!(out[H::LEN..], [0xa5; 3]);
    let (parsed, rest) = H::parse(&out).expect("parses");
    assert_eq!((parsed, rest), (header, &[0xa5; 3][..]));
    assert_eq!(
        header.emit(&mut out[..H::LEN - 1]),
        Err(EmitError::BufferTooSmall {
            needed: H::LEN,
            got: H::LEN - 1
        })
    );
    assert!(matches!(
        H::parse(&out[..H::LEN - 1]),
        Err(ParseError::Truncated { .. })
    ));
}

/// Sets one field at a time to ones and checks which bits that sets: byte, bit from the top, width.
/// Returns how many bits the fields cover. The figures in
/// the tests are those of the tables of the IBA.
macro_rules! layout {
    ($base:expr, $($($field:ident).+ = $value:expr => ($byte:expr, $bit:expr, $width:expr);)*) => {{
        let base = $base;
        let mut covered = bits_set(&base, &base);
        $({
            let mut message = base;
            message.$($field).+ = $value;
            let set = bits_set(&base, &message);
            let expected: Vec<usize> = ($byte * 8 + $bit..$byte * 8 + $bit + $width).collect();
            assert_eq!(set, expected, stringify!($($field).+));
            covered.extend(set);
        })*
        covered.sort();
        let all = covered.len();
        covered.dedup();
        assert_eq!(covered.len(), all, "fields overlap");
        all
    }};
}

/// The bits in which two messages differ, from the top of the first byte.
pub fn bits_set<H: Header>(base: &H, message: &H) -> Vec<usize> {
    let emitted = |message: &H| {
        let mut out = vec![0; H::LEN];
        message.emit(&mut out).expect("fits");
        out
    };
    let (base, message) = (emitted(base), emitted(message));
    (0..base.len() * 8)
        .filter(|bit| (base[bit / 8] ^ message[bit / 8]) << (bit % 8) & 0x80 != 0)
        .collect()
}

/// A frame of native.hex, by its number in the original capture.
pub fn native_frame(number: u32) -> Vec<u8> {
    let title = format!("# {number}:");
    let line = include_str!("../golden/native.hex")
        .lines()
        .skip_while(|line| !line.starts_with(&title))
        .nth(1)
        .expect("the frame");
    (0..line.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&line[at..at + 2], 16).expect("hexadecimal"))
        .collect()
}
