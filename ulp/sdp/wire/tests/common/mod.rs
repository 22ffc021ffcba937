//! Strategies for messages, shared by the tests of this crate.
#![allow(dead_code)] // each test binary uses its part

use ferriband_sdp_wire::*;
use proptest::prelude::*;

pub fn header() -> impl Strategy<Value = MessageHeader> {
    any::<(u8, u16, u32, u32)>().prop_map(|(flags, bufs, mseq, mseq_ack)| MessageHeader {
        flags: Flags::from_bits_truncate(flags),
        bufs,
        mseq: MessageSeq(mseq),
        mseq_ack: MessageSeq(mseq_ack),
    })
}

fn ring() -> impl Strategy<Value = Ring> {
    (any::<u64>(), any::<u32>(), 1..=u32::MAX).prop_map(|(address, rkey, size_bytes)| Ring {
        virtual_address: address.min(u64::MAX - u64::from(size_bytes - 1)),
        rkey: RKey(rkey),
        size_bytes,
    })
}

pub fn flow_control() -> impl Strategy<Value = Option<FlowControl>> {
    prop_oneof![
        Just(None),
        Just(Some(FlowControl::Credit)),
        ring().prop_map(|ring| Some(FlowControl::Ring(ring))),
        (ring(), any::<u32>(), 0..1_u32 << 24).prop_map(|(ring, window, second_qp)| {
            let window_bytes = window % ring.size_bytes + 1;
            Some(FlowControl::Nic {
                ring,
                window_bytes,
                second_qp,
            })
        }),
    ]
}

pub fn addresses() -> impl Strategy<Value = Addresses> {
    prop_oneof![
        any::<([u8; 4], [u8; 4])>().prop_map(|(source, destination)| Addresses::V4 {
            source: source.into(),
            destination: destination.into(),
        }),
        any::<([u8; 16], [u8; 16])>().prop_map(|(source, destination)| Addresses::V6 {
            source: source.into(),
            destination: destination.into(),
        }),
    ]
}

pub fn hello() -> impl Strategy<Value = Hello> {
    (
        any::<(u8, u8, u8, u16, u32, u32, u16)>(),
        addresses(),
        flow_control(),
    )
        .prop_map(|(fields, addresses, flow_control)| {
            let (version, capabilities, max_adverts, ext_max_adverts, desired, local, port) =
                fields;
            Hello {
                version: Version(version),
                capabilities: Capabilities::from_bits_truncate(capabilities),
                max_adverts,
                ext_max_adverts,
                desired_remote_receive_bytes: desired,
                local_receive_bytes: local,
                port,
                addresses,
                flow_control,
            }
        })
}

pub fn hello_ack() -> impl Strategy<Value = HelloAck> {
    (any::<(u8, u8, u32)>(), flow_control()).prop_map(
        |((version, max_adverts, actual_receive_bytes), flow_control)| HelloAck {
            version: Version(version),
            max_adverts,
            actual_receive_bytes,
            flow_control,
        },
    )
}

fn mode_change() -> impl Strategy<Value = ModeChange> {
    let halves = vec![ConnectionHalf::Receive, ConnectionHalf::Send];
    let modes = vec![
        TransferMode::Buffered,
        TransferMode::Combined,
        TransferMode::Pipelined,
    ];
    (
        proptest::sample::select(halves),
        proptest::sample::select(modes),
    )
        .prop_map(|(half, mode)| ModeChange { half, mode })
}

fn advert() -> impl Strategy<Value = Advert> {
    any::<(u32, u32, u64)>().prop_map(|(length_bytes, rkey, virtual_address)| Advert {
        length_bytes,
        rkey: RKey(rkey),
        virtual_address,
    })
}

/// What a message says, any of all; those that may carry data have none.
pub fn body() -> impl Strategy<Value = Body<'static>> {
    let size = any::<u32>;
    prop_oneof![
        hello().prop_map(Body::Hello),
        hello_ack().prop_map(Body::HelloAck),
        proptest::sample::select(vec![
            Body::DisConn,
            Body::AbortConn,
            Body::SendSm,
            Body::SrcAvailCancel,
            Body::SinkAvailCancel,
            Body::SinkCancelAck,
            Body::SuspCommAck,
        ]),
        size().prop_map(|length_bytes| Body::RdmaWrCompl { length_bytes }),
        size().prop_map(|length_bytes| Body::RdmaRdCompl { length_bytes }),
        mode_change().prop_map(Body::ModeChange),
        size().prop_map(|size_bytes| Body::ChRcvBuf { size_bytes }),
        size().prop_map(|size_bytes| Body::ChRcvBufAck { size_bytes }),
        any::<u64>().prop_map(|id| Body::SuspComm {
            service_id: ServiceId(id),
        }),
        (advert(), any::<u32>()).prop_map(|(advert, non_discards)| Body::SinkAvail {
            advert,
            non_discards,
            data: &[],
        }),
        advert().prop_map(|advert| Body::SrcAvail { advert, data: &[] }),
        Just(Body::Data(&[])),
    ]
}

/// The same message with `data`, if it may carry any.
pub fn with_data<'a>(body: Body<'a>, data: &'a [u8]) -> Body<'a> {
    match body {
        Body::Data(_) => Body::Data(data),
        Body::SrcAvail { advert, .. } => Body::SrcAvail { advert, data },
        Body::SinkAvail {
            advert,
            non_discards,
            ..
        } => Body::SinkAvail {
            advert,
            non_discards,
            data,
        },
        other => other,
    }
}
