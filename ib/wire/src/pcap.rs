//! Capture files in the classic pcap format, so that Wireshark can read what we send and tests can read what others
//! sent. Writing is generic over `io::Write`; reading walks a slice. Knows only how many bytes a packet has.

use std::io::{self, Write};
use zerocopy::byteorder::{big_endian, little_endian};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Link type of a capture: what its packets begin with (the tcpdump group's LINKTYPE numbers).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum LinkType {
    /// Ethernet frames.
    Ethernet = 1,
    /// IPv4 or IPv6 packets.
    Raw = 101,
    /// InfiniBand packets from the LRH to the VCRC, each in an Endace ERF record: what Wireshark reads.
    Erf = 197,
    /// InfiniBand packets from the LRH to the VCRC, bare: the assigned number, which Wireshark 4.0 does not read.
    Infiniband = 247,
}

impl LinkType {
    /// From the LINKTYPE number.
    pub const fn from_code(code: u32) -> Option<Self> {
        Some(match code {
            1 => LinkType::Ethernet,
            101 => LinkType::Raw,
            197 => LinkType::Erf,
            247 => LinkType::Infiniband,
            _ => return None,
        })
    }
}

/// Magic number of captures with nanosecond timestamps.
const MAGIC_NANOSECONDS: u32 = 0xa1b2_3c4d;
/// Magic number of captures with microsecond timestamps.
const MAGIC_MICROSECONDS: u32 = 0xa1b2_c3d4;
/// Longest packet that Wireshark takes, and more than any of ours.
pub(crate) const SNAP_LEN: u32 = 262_144;
const NS_PER_S: u64 = 1_000_000_000;

#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct FileHeader {
    magic: little_endian::U32,
    version_major: little_endian::U16,
    version_minor: little_endian::U16,
    time_zone: little_endian::U32,
    accuracy: little_endian::U32,
    snap_len: little_endian::U32,
    link_type: little_endian::U32,
}

#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RecordHeader {
    seconds: little_endian::U32,
    fraction: little_endian::U32,
    captured_len: little_endian::U32,
    original_len: little_endian::U32,
}

/// Header of an ERF record. The writer and reader put it on and take it off: callers see packets.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(crate) struct ErfHeader {
    /// Seconds in units of 2^-32, the one little-endian field.
    timestamp: little_endian::U64,
    /// Extension headers follow: 1 bit; record type: 7 bits.
    record_type: u8,
    flags: u8,
    /// Header and packet, rounded up to 8 bytes (the rounding is not captured).
    record_len: big_endian::U16,
    lost: big_endian::U16,
    packet_len: big_endian::U16,
}

const ERF_INFINIBAND: u8 = 21;
/// Records vary in length.
const ERF_FLAG_VARYING: u8 = 1 << 2;

impl ErfHeader {
    /// None for a packet that the record's 16 bits of length cannot hold.
    pub(crate) fn new(timestamp_ns: u64, packet_len: usize) -> Option<Self> {
        let record_len = (size_of::<Self>() + packet_len).next_multiple_of(8);
        let (seconds, fraction_ns) = (timestamp_ns / NS_PER_S, timestamp_ns % NS_PER_S);
        Some(ErfHeader {
            timestamp: ((seconds << 32) | ((fraction_ns << 32) / NS_PER_S)).into(),
            record_type: ERF_INFINIBAND,
            flags: ERF_FLAG_VARYING,
            record_len: u16::try_from(record_len).ok()?.into(),
            lost: 0.into(),
            packet_len: u16::try_from(packet_len).ok()?.into(),
        })
    }
}

/// Writes a capture file, little-endian, with nanosecond timestamps.
#[derive(Debug)]
pub struct PcapWriter<W: Write> {
    out: W,
    link_type: LinkType,
}

impl<W: Write> PcapWriter<W> {
    /// Writes the file header.
    pub fn new(mut out: W, link_type: LinkType) -> io::Result<Self> {
        let header = FileHeader {
            magic: MAGIC_NANOSECONDS.into(),
            version_major: 2.into(),
            version_minor: 4.into(),
            time_zone: 0.into(),
            accuracy: 0.into(),
            snap_len: SNAP_LEN.into(),
            link_type: (link_type as u32).into(),
        };
        out.write_all(header.as_bytes())?;
        Ok(PcapWriter { out, link_type })
    }

    /// What its packets begin with.
    pub fn link_type(&self) -> LinkType {
        self.link_type
    }

    /// Writes one packet, stamped in nanoseconds since the epoch of the caller's choice. Fails with `InvalidInput`
    /// for a time beyond 2^32 seconds or a packet beyond 256 KiB (64 KiB in an ERF record).
    pub fn write(&mut self, timestamp_ns: u64, packet: &[u8]) -> io::Result<()> {
        let invalid = |what: &'static str| io::Error::new(io::ErrorKind::InvalidInput, what);
        let seconds = u32::try_from(timestamp_ns / NS_PER_S)
            .map_err(|_| invalid("pcap timestamps end at 2^32 seconds"))?;
        let too_long = || invalid("packet longer than the capture format allows");
        let erf = match self.link_type {
            LinkType::Erf => Some(ErfHeader::new(timestamp_ns, packet.len()).ok_or_else(too_long)?),
            _ => None,
        };
        let erf = erf.as_ref().map_or(&[][..], IntoBytes::as_bytes);
        let len = u32::try_from(erf.len() + packet.len())
            .ok()
            .filter(|len| *len <= SNAP_LEN)
            .ok_or_else(too_long)?;
        let header = RecordHeader {
            seconds: seconds.into(),
            // Below 10^9.
            fraction: ((timestamp_ns % NS_PER_S) as u32).into(),
            captured_len: len.into(),
            original_len: len.into(),
        };
        self.out.write_all(header.as_bytes())?;
        self.out.write_all(erf)?;
        self.out.write_all(packet)
    }

    /// Passes on what the output holds back.
    pub fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    /// Gives the output back, flushed.
    pub fn finish(mut self) -> io::Result<W> {
        self.out.flush()?;
        Ok(self.out)
    }
}

/// Why bytes are not a capture file.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PcapError {
    /// The magic number is none of pcap's four.
    #[error("{0:#010x} is not the magic number of a pcap file")]
    Magic(u32),
    /// The file ends within a header or packet.
    #[error("the capture ends within {0}")]
    Truncated(&'static str),
    /// A packet claims to be longer than the format allows.
    #[error("a captured packet of {0} bytes: the file is damaged")]
    TooLong(u32),
    /// An ERF record that does not hold a bare InfiniBand packet.
    #[error("ERF record of type {0:#04x}, expected 0x15 (InfiniBand)")]
    ErfType(u8),
}

/// One packet of a capture.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PcapRecord<'a> {
    /// Nanoseconds since the capture's epoch.
    pub timestamp_ns: u64,
    /// Length on the wire; more than `bytes` if the capture cut the packet.
    pub original_len: u32,
    /// The captured bytes.
    pub bytes: &'a [u8],
}

/// Reads a capture file of either byte order and either resolution, packet by packet. After an error it ends.
#[derive(Clone, Debug)]
pub struct PcapReader<'a> {
    rest: &'a [u8],
    /// The file's fields are big-endian.
    swapped: bool,
    /// Nanoseconds in a unit of the timestamp's fraction.
    fraction_ns: u64,
    link_type: u32,
}

impl<'a> PcapReader<'a> {
    /// Reads the file header.
    pub fn new(bytes: &'a [u8]) -> Result<Self, PcapError> {
        let (header, rest) =
            FileHeader::ref_from_prefix(bytes).map_err(|_| PcapError::Truncated("its header"))?;
        let (swapped, fraction_ns) = match (header.magic.get(), header.magic.get().swap_bytes()) {
            (MAGIC_NANOSECONDS, _) => (false, 1),
            (MAGIC_MICROSECONDS, _) => (false, 1000),
            (_, MAGIC_NANOSECONDS) => (true, 1),
            (_, MAGIC_MICROSECONDS) => (true, 1000),
            (other, _) => return Err(PcapError::Magic(other)),
        };
        let link_type = field(header.link_type, swapped);
        Ok(PcapReader {
            rest,
            swapped,
            fraction_ns,
            link_type,
        })
    }

    /// The capture's LINKTYPE number; compare with `LinkType`.
    pub const fn link_type(&self) -> u32 {
        self.link_type
    }

    fn record(&mut self) -> Result<PcapRecord<'a>, PcapError> {
        let (header, rest) = RecordHeader::ref_from_prefix(self.rest)
            .map_err(|_| PcapError::Truncated("a packet's header"))?;
        let get = |value| field(value, self.swapped);
        let len = get(header.captured_len);
        if len > SNAP_LEN {
            return Err(PcapError::TooLong(len));
        }
        let (bytes, rest) = rest
            .split_at_checked(len as usize)
            .ok_or(PcapError::Truncated("a packet"))?;
        let fraction_ns = u64::from(get(header.fraction)) * self.fraction_ns;
        let mut record = PcapRecord {
            timestamp_ns: u64::from(get(header.seconds)) * NS_PER_S + fraction_ns,
            original_len: get(header.original_len),
            bytes,
        };
        if self.link_type == LinkType::Erf as u32 {
            let (erf, packet) = ErfHeader::ref_from_prefix(bytes)
                .map_err(|_| PcapError::Truncated("an ERF record's header"))?;
            if erf.record_type != ERF_INFINIBAND {
                return Err(PcapError::ErfType(erf.record_type));
            }
            record.original_len = erf.packet_len.get().into();
            // What is captured beyond the packet is the record's rounding.
            record.bytes = packet.get(..erf.packet_len.get().into()).unwrap_or(packet);
        }
        self.rest = rest;
        Ok(record)
    }
}

fn field(value: little_endian::U32, swapped: bool) -> u32 {
    if swapped {
        big_endian::U32::from_bytes(value.to_bytes()).get()
    } else {
        value.get()
    }
}

impl<'a> Iterator for PcapReader<'a> {
    type Item = Result<PcapRecord<'a>, PcapError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let record = self.record();
        if record.is_err() {
            self.rest = &[];
        }
        Some(record)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn file(link_type: LinkType, packets: &[(u64, Vec<u8>)]) -> Vec<u8> {
        let mut writer = PcapWriter::new(Vec::new(), link_type).expect("a Vec takes it");
        for (timestamp_ns, bytes) in packets {
            writer.write(*timestamp_ns, bytes).expect("a Vec takes it");
        }
        writer.finish().expect("a Vec takes it")
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            packets in proptest::collection::vec(
                (0..(1_u64 << 32) * NS_PER_S, proptest::collection::vec(any::<u8>(), 0..50)), 0..5),
            code in proptest::sample::select(vec![1_u32, 101, 197, 247]),
        ) {
            let link_type = LinkType::from_code(code).expect("one of ours");
            let bytes = file(link_type, &packets);
            let reader = PcapReader::new(&bytes).expect("a capture");
            prop_assert_eq!(reader.link_type(), code);
            let read: Vec<(u64, Vec<u8>)> = reader
                .map(|record| record.expect("whole"))
                .map(|record| (record.timestamp_ns, record.bytes.to_vec()))
                .collect();
            prop_assert_eq!(read, packets);
        }

        #[test]
        fn any_bytes_end(mut bytes in proptest::collection::vec(any::<u8>(), 0..200), magic: bool, erf: bool) {
            if magic && bytes.len() >= 24 {
                bytes[..4].copy_from_slice(&MAGIC_MICROSECONDS.to_be_bytes());
                if erf {
                    bytes[20..24].copy_from_slice(&(LinkType::Erf as u32).to_be_bytes());
                }
                // Lengths small enough to be there.
                for at in (24 + 8..bytes.len()).step_by(16) {
                    bytes[at..].iter_mut().take(3).for_each(|byte| *byte = 0);
                }
            }
            if let Ok(reader) = PcapReader::new(&bytes) {
                prop_assert!(reader.count() <= bytes.len() / size_of::<RecordHeader>() + 1);
            }
        }
    }

    #[test]
    fn a_cut_file_says_so_once() {
        let bytes = file(LinkType::Raw, &[(5, vec![1, 2, 3]), (6, vec![4])]);
        let mut reader = PcapReader::new(&bytes[..bytes.len() - 1]).expect("a capture");
        assert!(matches!(
            reader.next(),
            Some(Ok(PcapRecord {
                timestamp_ns: 5,
                original_len: 3,
                ..
            }))
        ));
        assert_eq!(reader.next(), Some(Err(PcapError::Truncated("a packet"))));
        assert_eq!(reader.next(), None);
        assert!(matches!(
            PcapReader::new(&[0; 24]),
            Err(PcapError::Magic(0))
        ));
    }

    /// As an Endace card wrote it: `1505 0138 0000 0122` for 290 bytes on its second port.
    #[test]
    fn erf_records_are_laid_out_as_by_the_card() {
        let bytes = file(LinkType::Erf, &[(1_500_000_000, vec![7; 290])]);
        let record = &bytes[size_of::<FileHeader>() + size_of::<RecordHeader>()..];
        assert_eq!(record[..8], [0, 0, 0, 0x80, 1, 0, 0, 0]);
        assert_eq!(record[8..16], [0x15, 0x04, 0x01, 0x38, 0, 0, 0x01, 0x22]);
        assert_eq!(record.len(), 16 + 290);
        let mut ethernet = bytes.clone();
        ethernet[size_of::<FileHeader>() + size_of::<RecordHeader>() + 8] = 2;
        let mut reader = PcapReader::new(&ethernet).expect("a capture");
        assert_eq!(reader.next(), Some(Err(PcapError::ErfType(2))));
    }

    #[test]
    fn what_the_format_cannot_hold_is_refused() {
        let mut writer = PcapWriter::new(Vec::new(), LinkType::Raw).expect("a Vec takes it");
        let kind = |result: io::Result<()>| result.map_err(|error| error.kind());
        assert_eq!(
            kind(writer.write((1 << 32) * NS_PER_S, &[])),
            Err(io::ErrorKind::InvalidInput)
        );
        assert_eq!(
            kind(writer.write(0, &vec![0; 262_145])),
            Err(io::ErrorKind::InvalidInput)
        );
    }
}
