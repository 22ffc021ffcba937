//! What sockets say to each other, as bytes. The library itself has no unit tests, for it links libibverbs.

#[allow(dead_code)] // the library uses what the tests do not
#[path = "../src/rsocket/wire.rs"]
mod wire;

use wire::{Control, Greeting, Mapping, Offer, Order, Sender, Target, Word};

/// The figures of rdma-core's `librdmacm/docs/rsocket`: operation in the upper three bits.
#[test]
fn words_have_the_bits_of_the_protocol() {
    let pairs = [
        (Word::Data(0x1234), 0x0000_1234),
        (Word::Data(wire::MOST_BYTES), 0x1fff_ffff),
        (Word::Credits(0xffff), 0x8000_ffff),
        (Word::Mapped(7), 0xc000_0007),
        (Word::Control(Control::Disconnect), 0xe000_0000),
        (Word::Control(Control::KeepAlive), 0xe000_0001),
        (Word::Control(Control::Shutdown), 0xe000_0002),
    ];
    for (word, bits) in pairs {
        assert_eq!(word.to_bits(), bits, "{word:?}");
        assert_eq!(Word::from_bits(bits), word, "{bits:#x}");
    }
}

#[test]
fn any_bits_are_a_word() {
    for operation in 0..8u32 {
        for data in [0, 1, 2, 3, 0x1_0000, 0x1fff_ffff] {
            let bits = operation << 29 | data;
            let again = Word::from_bits(bits).to_bits();
            // Numbers of messages and entries have 16 bits.
            let kept = if matches!(operation, 4 | 6) {
                operation << 29 | data & 0xffff
            } else {
                bits
            };
            assert_eq!(again, kept, "{bits:#x}");
        }
    }
}

fn offer() -> Offer {
    Offer {
        order: Order::Little,
        credits: 384,
        mappings: 0,
        list: Target {
            address: 0x1122_3344_5566_7788,
            key: 0xaabb_ccdd,
            length: 2,
        },
        buffer: Target {
            address: 0x0102_0304_0506_0708,
            key: 0x0a0b_0c0d,
            length: 65_536,
        },
    }
}

/// Numbers in private data are in network order, whoever sends them.
#[test]
fn an_offer_has_the_layout_of_the_protocol() {
    let bytes = offer().to_bytes();
    assert_eq!(&bytes[..8], &[1, 2, 1, 128, 0, 0, 0, 0]);
    assert_eq!(
        &bytes[8..24],
        &[
            0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0xaa, 0xbb, 0xcc, 0xdd, 0, 0, 0, 2
        ]
    );
    assert_eq!(
        &bytes[24..],
        &[1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 12, 13, 0, 1, 0, 0]
    );
    assert_eq!(Offer::parse(&bytes), Some(offer()));
    // A REP's private data are longer than what was put in.
    assert_eq!(
        Offer::parse(&[&bytes[..], &[0; 16]].concat()),
        Some(offer())
    );
}

#[test]
fn what_is_no_offer_is_refused() {
    let bytes = offer().to_bytes();
    for length in 0..bytes.len() {
        assert_eq!(Offer::parse(&bytes[..length]), None);
    }
    let mut other = bytes;
    other[0] = 2;
    assert_eq!(Offer::parse(&other), None);
}

#[test]
fn sizes_of_tables_are_what_eight_bits_can_say() {
    for wanted in [0, 1, 128, 129, 255, 256, 1000, 0x7f00, 0x7fff, u32::MAX] {
        let scaled = wire::scaled(wanted);
        assert!(u32::from(scaled) <= wanted);
        let told = Offer {
            mappings: scaled,
            ..offer()
        };
        let heard = Offer::parse(&told.to_bytes()).expect("an offer");
        assert_eq!(heard.mappings, scaled, "{wanted}");
    }
    assert_eq!(wire::scaled(128), 128);
    assert_eq!(wire::scaled(1000), 768);
}

#[test]
fn entries_are_in_the_order_of_the_side_that_keeps_them() {
    let entry = Mapping {
        offset: 1,
        buffer: Target {
            address: 2,
            key: 3,
            length: 4,
        },
    };
    let little = entry.to_bytes(Order::Little);
    assert_eq!(
        little,
        [
            1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 4, 0, 0, 0
        ]
    );
    let mut big = entry.to_bytes(Order::Big);
    big[..8].reverse();
    big[8..16].reverse();
    big[16..20].reverse();
    big[20..].reverse();
    assert_eq!(big, little);
    assert_eq!(Order::HOST, Order::Little);
}

#[test]
fn headers_of_datagrams_come_back() {
    let senders = [("192.0.2.7", 0, 8), ("2001:db8::7", 5, 24)];
    for (address, flow, length) in senders {
        let sender = Sender {
            address: address.parse().expect("an address"),
            port: 7174,
            flow,
        };
        let (bytes, count) = sender.to_bytes();
        assert_eq!(count, length);
        assert_eq!(&bytes[2..4], &[0x1c, 0x06]);
        assert_eq!(Sender::parse(&bytes[..count]), Some((sender, count)));
        assert_eq!(Sender::parse(&bytes[..count - 1]), None);
    }
    for (address, length) in [("192.0.2.7", 16), ("2001:db8::7", 28)] {
        for has_data in [true, false] {
            let greeting = Greeting {
                has_data,
                pair: 0x12_3456,
                address: address.parse().expect("an address"),
            };
            let (bytes, count) = greeting.to_bytes();
            assert_eq!(count, length);
            assert_eq!(&bytes[..4], b"UUUU");
            assert_eq!(&bytes[8..12], &[0, 0x12, 0x34, 0x56]);
            assert_eq!(Greeting::parse(&bytes[..count]), Some((greeting, count)));
            assert_eq!(Greeting::parse(&bytes[..count - 1]), None);
        }
    }
}

/// Whatever somebody sends to the UDP socket.
#[test]
fn nothing_is_too_strange_to_be_refused() {
    let mut state = 1u64;
    for _ in 0..200_000 {
        let mut bytes = [0u8; 40];
        for byte in &mut bytes {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            *byte = (state >> 56) as u8 % 32;
        }
        let length = (state >> 40) as usize % 41;
        if let Some((_, used)) = Greeting::parse(&bytes[..length]) {
            assert!(used <= length);
        }
        if let Some((_, used)) = Sender::parse(&bytes[..length]) {
            assert!(used <= length);
        }
    }
}
