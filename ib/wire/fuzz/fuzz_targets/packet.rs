//! Any bytes, to every parser of the crate: none panics, and what parses is emitted to bytes that parse to the same.
#![no_main]

use ferriband_wire::cm::IpCmHeader;
use ferriband_wire::pcap::PcapReader;
use ferriband_wire::{AnyMad, EmitError, Header, NativePacket, Packet, RocePacket};
use libfuzzer_sys::fuzz_target;

/// Emits what was parsed; None for a reserved syndrome or code, which is received but never sent.
fn emitted(
    len: usize,
    emit: impl FnOnce(&mut [u8]) -> Result<usize, EmitError>,
) -> Option<Vec<u8>> {
    let mut out = vec![0; len];
    match emit(&mut out) {
        Ok(written) => assert_eq!(written, len),
        Err(EmitError::ReservedSyndrome(_) | EmitError::Reserved { .. }) => return None,
        Err(error) => panic!("parsed, but not emitted: {error}"),
    }
    Some(out)
}

fuzz_target!(|bytes: &[u8]| {
    if let Ok(packet) = Packet::parse(bytes) {
        let _ = packet.to_string();
        if let Some(again) = emitted(packet.wire_len(), |out| packet.emit(out)) {
            assert_eq!(Packet::parse(&again), Ok(packet));
        }
    }
    if let Ok(packet) = NativePacket::parse_unchecked(bytes) {
        let _ = packet.to_string();
        if let Some(again) = emitted(packet.wire_len(), |out| packet.emit(out)) {
            assert_eq!(NativePacket::parse(&again), Ok(packet));
        }
    }
    if let Ok(packet) = RocePacket::parse(bytes) {
        let _ = packet.to_string();
        if let Some(again) = emitted(packet.wire_len(), |out| packet.emit(out)) {
            assert_eq!(RocePacket::parse(&again), Ok(packet));
        }
    }
    let _ = (
        NativePacket::parse(bytes),
        RocePacket::parse_ethernet(bytes),
    );
    if let Ok(mad) = AnyMad::parse(bytes) {
        let _ = mad.to_string();
        let again = emitted(bytes.len(), |out| {
            let all = out.len();
            let rest = match &mad {
                AnyMad::Cm(mad) => mad.emit(out)?,
                AnyMad::Smp(mad) => mad.emit(out)?,
                AnyMad::Sa(mad) => mad.emit(out)?,
                AnyMad::Other(_) => &mut [],
            };
            Ok(all - rest.len())
        });
        if let (Some(again), false) = (again, matches!(mad, AnyMad::Other(_))) {
            assert_eq!(AnyMad::parse(&again), Ok(mad));
        }
    }
    if let Ok(header) = IpCmHeader::from_hello(bytes) {
        let data = header.in_hello(&bytes[..IpCmHeader::IN_HELLO]).expect("a Hello");
        assert_eq!(IpCmHeader::from_hello(data.as_bytes()), Ok(header));
    }
    if let Ok((header, _)) = IpCmHeader::parse(bytes) {
        let again = emitted(IpCmHeader::LEN, |out| {
            header.emit(out).map(|_| IpCmHeader::LEN)
        });
        assert_eq!(
            again.map(|bytes| IpCmHeader::parse(&bytes).map(|(h, _)| h)),
            Some(Ok(header))
        );
    }
    if let Ok(capture) = PcapReader::new(bytes) {
        for record in capture.flatten() {
            let _ = RocePacket::parse_ethernet(record.bytes);
        }
    }
});
