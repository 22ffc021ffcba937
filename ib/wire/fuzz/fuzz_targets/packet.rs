//! Any bytes, to every parser of the crate: none panics, and what parses is emitted to bytes that parse to the same.
#![no_main]

use ferriband_wire::pcap::PcapReader;
use ferriband_wire::{EmitError, NativePacket, Packet, RocePacket};
use libfuzzer_sys::fuzz_target;

/// Emits what was parsed; None for a reserved syndrome, which is received but never sent.
fn emitted(
    len: usize,
    emit: impl FnOnce(&mut [u8]) -> Result<usize, EmitError>,
) -> Option<Vec<u8>> {
    let mut out = vec![0; len];
    match emit(&mut out) {
        Ok(written) => assert_eq!(written, len),
        Err(EmitError::ReservedSyndrome(_)) => return None,
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
    if let Ok(capture) = PcapReader::new(bytes) {
        for record in capture.flatten() {
            let _ = RocePacket::parse_ethernet(record.bytes);
        }
    }
});
