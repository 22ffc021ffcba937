//! Laws of the codec: what is written is read, lengths must agree, no bytes panic.

mod common;

use common::{addresses, body, header, hello, hello_ack, with_data};
use ferriband_sdp_wire::*;
use proptest::prelude::*;

const PATTERN: u8 = 0xa5;

fn filled_up(body: &Body<'_>) -> bool {
    matches!(body, Body::Hello(_) | Body::HelloAck(_))
}

fn is_of_another_form(parsed: Result<Message<'_>, ParseError>) -> bool {
    matches!(parsed, Err(ParseError::Magic { .. }))
}

/// Bytes that are more likely than any to be read far: an identifier that exists, the right length.
fn plausible() -> impl Strategy<Value = Vec<u8>> {
    let bytes = proptest::collection::vec(any::<u8>(), Bsdh::LEN..220);
    (proptest::sample::select(Mid::ALL), bytes, 0_u32..4).prop_map(|(mid, mut bytes, off)| {
        let length = bytes.len() as u32 - off;
        bytes[0] = mid.code();
        bytes[4..8].copy_from_slice(&length.to_be_bytes());
        if bytes.len() > 17 {
            bytes[17] = if bytes[17] & 1 == 0 { 0x40 } else { 0x60 };
        }
        bytes
    })
}

proptest! {
    #[test]
    fn what_is_written_is_read(
        header in header(),
        body in body(),
        data in proptest::collection::vec(any::<u8>(), 0..300),
    ) {
        let message = Message { header, body: with_data(body, &data) };
        let mut out = vec![PATTERN; 700];
        let len = message.emit(&mut out).expect("fits");
        prop_assert_eq!(len, message.len_bytes());
        prop_assert!(out[len..].iter().all(|byte| *byte == PATTERN));
        prop_assert_eq!(Message::parse(&out[..len]), Ok(message));

        let (bsdh, _) = Bsdh::parse(&out).expect("a BSDH");
        prop_assert_eq!(bsdh.mid, message.body.mid());
        prop_assert_eq!(bsdh.length_bytes as usize, len);
        prop_assert_eq!(bsdh.message_header(), header);

        let mut short = vec![PATTERN; len - 1];
        prop_assert_eq!(
            message.emit(&mut short),
            Err(EmitError::BufferTooSmall { needed: len, got: len - 1 })
        );
        prop_assert!(short.iter().all(|byte| *byte == PATTERN));
    }

    #[test]
    fn the_length_must_be_the_number_of_bytes(header in header(), body in body()) {
        let message = Message { header, body };
        let mut out = vec![0; 300];
        let len = message.emit(&mut out).expect("fits");
        let differs = |got| ParseError::Length {
            mid: body.mid(),
            expected: len as u32,
            got,
        };
        if len > Bsdh::LEN {
            prop_assert_eq!(Message::parse(&out[..len - 1]), Err(differs(len - 1)));
        }
        let longer = Message::parse(&out[..len + 1]);
        if filled_up(&body) {
            prop_assert_eq!(longer, Ok(message));
        } else {
            prop_assert_eq!(longer, Err(differs(len + 1)));
        }
    }

    #[test]
    fn a_length_below_that_of_the_header_is_none(header in header(), length in 0_u32..16) {
        let mut out = [0; Bsdh::LEN];
        Message { header, body: Body::DisConn }.emit(&mut out).expect("fits");
        out[4..8].copy_from_slice(&length.to_be_bytes());
        prop_assert_eq!(
            Message::parse(&out),
            Err(ParseError::Length { mid: Mid::DisConn, expected: length, got: Bsdh::LEN })
        );
    }

    #[test]
    fn bytes_behind_the_last_header_are_refused(header in header(), body in body()) {
        let message = Message { header, body };
        let mut out = vec![0; 300];
        let len = message.emit(&mut out).expect("fits");
        out[4..8].copy_from_slice(&(len as u32 + 3).to_be_bytes());
        let surplus = ParseError::Surplus { mid: body.mid(), expected: len, got: len + 3 };
        match Message::parse(&out[..len + 3]) {
            Ok(longer) => prop_assert_eq!(longer.body, with_data(body, &[0; 3])),
            Err(error) => prop_assert_eq!(error, surplus),
        }
        let carries_data = with_data(body, &[0; 3]) != body;
        prop_assert_eq!(Message::parse(&out[..len + 3]).is_ok(), carries_data);
    }

    #[test]
    fn any_bytes_are_taken_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let addresses = Addresses::V4 { source: [0; 4].into(), destination: [0; 4].into() };
        let _ = Bsdh::parse(&bytes);
        let _ = Message::parse(&bytes);
        let _ = Message::parse_short_hello(&bytes, addresses);
        let _ = Message::parse_short_hello_ack(&bytes);
    }

    #[test]
    fn what_is_read_can_be_written(bytes in plausible()) {
        if let Ok(message) = Message::parse(&bytes) {
            let mut out = vec![0; 300];
            let len = message.emit(&mut out).expect("what a parser gives is valid");
            prop_assert_eq!(Message::parse(&out[..len]), Ok(message));
        }
    }

    #[test]
    fn bytes_in_place_of_the_negotiation_make_no_error(
        header in header(),
        hello in hello(),
        ack in hello_ack(),
        byte in 0..FlowControl::LEN,
        change in 1..=u8::MAX,
    ) {
        let bodies = [(Body::Hello(hello), 68), (Body::HelloAck(ack), 24)];
        for (body, negotiation) in bodies {
            let mut out = [0; 256];
            let len = Message { header, body }.emit(&mut out).expect("fits");
            out[negotiation + byte] ^= change;
            let parsed = Message::parse(&out[..len]).expect("the negotiation is no part of it");
            // All else is untouched, and what was read can be sent.
            let without = |body| match body {
                Body::Hello(hello) => Body::Hello(Hello { flow_control: None, ..hello }),
                Body::HelloAck(ack) => Body::HelloAck(HelloAck { flow_control: None, ..ack }),
                other => other,
            };
            prop_assert_eq!(without(parsed.body), without(body));
            let mut again = [0; 256];
            let len = parsed.emit(&mut again).expect("what a parser gives is valid");
            prop_assert_eq!(Message::parse(&again[..len]), Ok(parsed));
        }
    }

    #[test]
    fn short_forms_say_the_same(header in header(), hello in hello(), ack in hello_ack()) {
        // the first messages acknowledge nothing
        let header = MessageHeader { mseq_ack: MessageSeq(0), ..header };
        let asks = Message { header, body: Body::Hello(hello) };
        let mut out = [PATTERN; 64];
        prop_assert_eq!(asks.emit_short(&mut out), Ok(SHORT_HELLO_LEN));
        prop_assert!(out[SHORT_HELLO_LEN..].iter().all(|byte| *byte == PATTERN));
        prop_assert_eq!(Message::parse_short_hello(&out, hello.addresses), Ok(asks));
        prop_assert!(is_of_another_form(Message::parse_short_hello_ack(&out)));

        let accepts = Message { header, body: Body::HelloAck(ack) };
        prop_assert_eq!(accepts.emit_short(&mut out), Ok(SHORT_HELLO_ACK_LEN));
        prop_assert_eq!(Message::parse_short_hello_ack(&out), Ok(accepts));
        let asks = Message::parse_short_hello(&out, hello.addresses);
        prop_assert!(is_of_another_form(asks));
    }

    #[test]
    fn a_short_form_that_is_cut_is_refused(
        header in header(),
        hello in hello(),
        addresses in addresses(),
        cut in 0..SHORT_HELLO_LEN,
    ) {
        let mut out = [0; SHORT_HELLO_LEN];
        let asks = Message { header, body: Body::Hello(hello) };
        asks.emit_short(&mut out).expect("fits");
        prop_assert_eq!(
            Message::parse_short_hello(&out[..cut], addresses),
            Err(ParseError::Truncated {
                what: "short Hello",
                needed: SHORT_HELLO_LEN,
                got: cut
            })
        );
    }

    #[test]
    fn only_the_handshake_has_a_short_form(header in header(), body in body()) {
        let message = Message { header, body };
        let refused = message.emit_short(&mut [0; 64]) == Err(EmitError::NoShortForm(body.mid()));
        prop_assert_eq!(refused, !filled_up(&body));
    }
}

#[test]
fn unknown_identifiers_are_an_error_of_their_own() {
    for code in 0..=u8::MAX {
        let mut bytes = [0; Bsdh::LEN];
        bytes[0] = code;
        let unknown = Message::parse(&bytes) == Err(ParseError::UnknownMid(code));
        assert_eq!(unknown, Mid::from_code(code).is_none());
    }
}

#[test]
fn a_ring_that_no_receiver_takes_is_not_written() {
    let flow_control = Some(FlowControl::Ring(Ring {
        virtual_address: u64::MAX,
        rkey: RKey(1),
        size_bytes: 2,
    }));
    let ack = HelloAck {
        version: Version::OFED,
        max_adverts: 1,
        actual_receive_bytes: 4096,
        flow_control,
    };
    let message = Message {
        header: MessageHeader::default(),
        body: Body::HelloAck(ack),
    };
    let refused = Err(EmitError::Field {
        field: "ring address",
        value: u64::MAX,
    });
    assert_eq!(message.emit(&mut [0; 256]), refused);
    assert_eq!(message.emit_short(&mut [0; 256]), refused);
}
