//! Capture files in the pcapng format: what the classic format of `pcap` cannot say, which interface a packet belongs
//! to, whether it came or went, and a remark of ours about it. Writing only; generic over `io::Write`. Every block
//! goes out in one `write_all`, so that a reader that follows the file never sees half of one for long.

use crate::pcap::{ErfHeader, LinkType, SNAP_LEN};
use std::io::{self, Write};
use zerocopy::IntoBytes;

/// Block types (draft-ietf-opsawg-pcapng, section 4).
const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const INTERFACE_DESCRIPTION: u32 = 1;
const ENHANCED_PACKET: u32 = 6;

/// Tells the reader which byte order this is.
const BYTE_ORDER_MAGIC: u32 = 0x1a2b_3c4d;
/// Section length: not told, for it is not known while writing.
const UNKNOWN_LENGTH: u64 = u64::MAX;

/// Options of every block, and those of the three blocks above.
const END_OF_OPTIONS: u16 = 0;
const COMMENT: u16 = 1;
const SHB_USER_APPLICATION: u16 = 4;
const IF_NAME: u16 = 2;
const IF_DESCRIPTION: u16 = 3;
const IF_TIMESTAMP_RESOLUTION: u16 = 9;
const EPB_FLAGS: u16 = 2;

/// Timestamps count units of 10^-9 s.
const NANOSECONDS: u8 = 9;

/// Blocks are multiples of this.
const ALIGNMENT: usize = 4;

/// Most interfaces of one file: a limit, for the writer keeps a byte for each.
const MAX_INTERFACES: usize = 1 << 16;

/// Whether a packet came or went, seen from this host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum Direction {
    /// It came.
    Inbound = 1,
    /// It went.
    Outbound = 2,
}

/// An interface of a capture file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InterfaceId(u32);

/// What there is to say about a packet beside its bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Remark<'a> {
    /// Whether it came or went, if known.
    pub direction: Option<Direction>,
    /// Text that a dissector shows with it; empty for none.
    pub comment: &'a str,
    /// Length on the wire, if the packet was cut.
    pub original_len: Option<u32>,
}

/// Writes a capture file of one section, little-endian, with nanosecond timestamps.
#[derive(Debug)]
pub struct PcapngWriter<W: Write> {
    out: W,
    interfaces: Vec<LinkType>,
    /// The block being made; kept for its memory.
    block: Vec<u8>,
}

impl<W: Write> PcapngWriter<W> {
    /// Writes the section header, which names the program that makes the file (empty: none is named).
    pub fn new(out: W, application: &str) -> io::Result<Self> {
        let mut writer = PcapngWriter {
            out,
            interfaces: Vec::new(),
            block: Vec::new(),
        };
        writer.begin(SECTION_HEADER);
        writer.put(&BYTE_ORDER_MAGIC.to_le_bytes());
        // Version 1.0.
        writer.put(&1_u16.to_le_bytes());
        writer.put(&0_u16.to_le_bytes());
        writer.put(&UNKNOWN_LENGTH.to_le_bytes());
        writer.text(SHB_USER_APPLICATION, application)?;
        writer.end()?;
        Ok(writer)
    }

    /// Adds an interface; its packets begin with what `link_type` says. Empty texts are left out. Fails with
    /// `InvalidInput` for texts beyond 64 KiB and for too many interfaces.
    pub fn interface(
        &mut self,
        name: &str,
        description: &str,
        link_type: LinkType,
    ) -> io::Result<InterfaceId> {
        if self.interfaces.len() == MAX_INTERFACES {
            return Err(invalid("too many interfaces in one capture file"));
        }
        // Link types are below 2^16 here and in the format.
        let link = link_type as u32 as u16;
        self.begin(INTERFACE_DESCRIPTION);
        self.put(&link.to_le_bytes());
        self.put(&0_u16.to_le_bytes());
        self.put(&SNAP_LEN.to_le_bytes());
        self.text(IF_NAME, name)?;
        self.text(IF_DESCRIPTION, description)?;
        self.option(IF_TIMESTAMP_RESOLUTION, &[NANOSECONDS])?;
        self.end()?;
        // Below 2^16.
        let id = InterfaceId(self.interfaces.len() as u32);
        self.interfaces.push(link_type);
        Ok(id)
    }

    /// Writes one packet, stamped in nanoseconds since the epoch of the caller's choice. Fails with `InvalidInput`
    /// for a packet beyond 256 KiB (64 KiB in an ERF record), a comment beyond 64 KiB, and an interface of another
    /// file.
    pub fn write(
        &mut self,
        interface: InterfaceId,
        timestamp_ns: u64,
        packet: &[u8],
        remark: Remark<'_>,
    ) -> io::Result<()> {
        let link_type = *self
            .interfaces
            .get(interface.0 as usize)
            .ok_or_else(|| invalid("an interface of another capture file"))?;
        let too_long = || invalid("packet longer than the capture format allows");
        let erf = match link_type {
            LinkType::Erf => Some(ErfHeader::new(timestamp_ns, packet.len()).ok_or_else(too_long)?),
            _ => None,
        };
        let erf = erf.as_ref().map_or(&[][..], IntoBytes::as_bytes);
        let captured_len = u32::try_from(erf.len() + packet.len())
            .ok()
            .filter(|len| *len <= SNAP_LEN)
            .ok_or_else(too_long)?;
        let [high, low] = [timestamp_ns >> 32, timestamp_ns & u64::from(u32::MAX)];
        self.begin(ENHANCED_PACKET);
        self.put(&interface.0.to_le_bytes());
        // Two words, each of 32 bits.
        self.put(&(high as u32).to_le_bytes());
        self.put(&(low as u32).to_le_bytes());
        self.put(&captured_len.to_le_bytes());
        // As long as captured, or longer: an ERF header counts in both.
        let original_len = remark.original_len.map_or(captured_len, |len| {
            // At most 16.
            len.saturating_add(erf.len() as u32).max(captured_len)
        });
        self.put(&original_len.to_le_bytes());
        self.put(erf);
        self.put(packet);
        self.pad();
        self.text(COMMENT, remark.comment)?;
        if let Some(direction) = remark.direction {
            self.option(EPB_FLAGS, &(direction as u32).to_le_bytes())?;
        }
        self.end()
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

    /// Begins a block; its length is put in by `end`.
    fn begin(&mut self, block_type: u32) {
        self.block.clear();
        self.put(&block_type.to_le_bytes());
        self.put(&[0; 4]);
    }

    fn put(&mut self, bytes: &[u8]) {
        self.block.extend_from_slice(bytes);
    }

    fn pad(&mut self) {
        let len = self.block.len().next_multiple_of(ALIGNMENT);
        self.block.resize(len, 0);
    }

    fn text(&mut self, code: u16, text: &str) -> io::Result<()> {
        if text.is_empty() {
            return Ok(());
        }
        self.option(code, text.as_bytes())
    }

    fn option(&mut self, code: u16, value: &[u8]) -> io::Result<()> {
        let len = u16::try_from(value.len()).map_err(|_| invalid("text beyond 64 KiB"))?;
        self.put(&code.to_le_bytes());
        self.put(&len.to_le_bytes());
        self.put(value);
        self.pad();
        Ok(())
    }

    /// Ends the options and the block, and writes it.
    fn end(&mut self) -> io::Result<()> {
        self.option(END_OF_OPTIONS, &[])?;
        let len = u32::try_from(self.block.len() + size_of::<u32>())
            .map_err(|_| invalid("block longer than the capture format allows"))?
            .to_le_bytes();
        self.block[4..8].copy_from_slice(&len);
        self.put(&len);
        self.out.write_all(&self.block)
    }
}

fn invalid(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, what)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A block as the format's draft defines it, of a little-endian file.
    #[derive(Debug, PartialEq)]
    struct Block {
        block_type: u32,
        body: Vec<u8>,
    }

    fn word(bytes: &[u8], at: usize) -> u32 {
        u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
    }

    fn half(bytes: &[u8], at: usize) -> u16 {
        u16::from_le_bytes(bytes[at..at + 2].try_into().expect("two bytes"))
    }

    /// A reader that shares nothing with the writer: lengths before and after a block agree and are aligned.
    fn blocks(mut file: &[u8]) -> Vec<Block> {
        let mut blocks = Vec::new();
        while !file.is_empty() {
            let len = word(file, 4) as usize;
            assert!(len.is_multiple_of(4) && len >= 12, "length {len}");
            assert_eq!(word(file, len - 4) as usize, len);
            blocks.push(Block {
                block_type: word(file, 0),
                body: file[8..len - 4].to_vec(),
            });
            file = &file[len..];
        }
        blocks
    }

    /// The options at the end of a block, which must end with the end of options.
    fn options(mut bytes: &[u8]) -> Vec<(u16, Vec<u8>)> {
        let mut options = Vec::new();
        loop {
            let (code, len) = (half(bytes, 0), usize::from(half(bytes, 2)));
            let padded = len.div_ceil(4) * 4;
            assert!(
                bytes[4 + len..4 + padded].iter().all(|byte| *byte == 0),
                "pad"
            );
            if code == 0 {
                assert_eq!((len, bytes.len()), (0, 4));
                return options;
            }
            options.push((code, bytes[4..4 + len].to_vec()));
            bytes = &bytes[4 + padded..];
        }
    }

    #[derive(Debug, PartialEq, Clone)]
    struct Captured {
        interface: u32,
        timestamp_ns: u64,
        original_len: u32,
        bytes: Vec<u8>,
        options: Vec<(u16, Vec<u8>)>,
    }

    fn packet(block: &Block) -> Captured {
        assert_eq!(block.block_type, 6);
        let body = &block.body;
        let len = word(body, 12) as usize;
        let padded = len.div_ceil(4) * 4;
        assert!(body[20 + len..20 + padded].iter().all(|byte| *byte == 0));
        Captured {
            interface: word(body, 0),
            timestamp_ns: u64::from(word(body, 4)) << 32 | u64::from(word(body, 8)),
            original_len: word(body, 16),
            bytes: body[20..20 + len].to_vec(),
            options: options(&body[20 + padded..]),
        }
    }

    fn a_packet() -> impl Strategy<Value = (usize, u64, Vec<u8>, Option<Direction>, String)> {
        let direction = proptest::sample::select(vec![
            None,
            Some(Direction::Inbound),
            Some(Direction::Outbound),
        ]);
        (
            0_usize..2,
            any::<u64>(),
            proptest::collection::vec(any::<u8>(), 0..60),
            direction,
            "\\PC{0,9}",
        )
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(packets in proptest::collection::vec(a_packet(), 0..6), name in "[a-z]{1,9}") {
            let mut writer = PcapngWriter::new(Vec::new(), "ferriband").expect("a Vec takes it");
            let interfaces = [
                writer.interface(&name, "the first", LinkType::Ethernet).expect("a Vec takes it"),
                writer.interface("ferri0", "", LinkType::Infiniband).expect("a Vec takes it"),
            ];
            let mut expected = Vec::new();
            for (interface, timestamp_ns, bytes, direction, comment) in &packets {
                let remark = Remark { direction: *direction, comment, original_len: None };
                writer.write(interfaces[*interface], *timestamp_ns, bytes, remark).expect("a Vec takes it");
                let mut options = Vec::new();
                if !comment.is_empty() {
                    options.push((1, comment.as_bytes().to_vec()));
                }
                if let Some(direction) = direction {
                    let bits = if *direction == Direction::Inbound { 1 } else { 2 };
                    options.push((2, vec![bits, 0, 0, 0]));
                }
                expected.push(Captured {
                    interface: *interface as u32,
                    timestamp_ns: *timestamp_ns,
                    original_len: bytes.len() as u32,
                    bytes: bytes.clone(),
                    options,
                });
            }
            let file = writer.finish().expect("a Vec takes it");
            let blocks = blocks(&file);
            let types: Vec<u32> = blocks[..3].iter().map(|block| block.block_type).collect();
            prop_assert_eq!(types, [0x0a0d_0d0a, 1, 1]);
            let section = &blocks[0].body;
            prop_assert_eq!(&section[..16], &[0x4d, 0x3c, 0x2b, 0x1a, 1, 0, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255]);
            prop_assert_eq!(options(&section[16..]), [(4, b"ferriband".to_vec())]);
            let (first, second) = (&blocks[1].body, &blocks[2].body);
            prop_assert_eq!((half(first, 0), half(second, 0)), (1, 247));
            let described = vec![(2, name.into_bytes()), (3, b"the first".to_vec()), (9, vec![9])];
            prop_assert_eq!(options(&first[8..]), described);
            prop_assert_eq!(options(&second[8..]), [(2, b"ferri0".to_vec()), (9, vec![9])]);
            let read: Vec<Captured> = blocks[3..].iter().map(packet).collect();
            prop_assert_eq!(read, expected);
        }
    }

    #[test]
    fn native_packets_go_in_erf_records() {
        let mut writer = PcapngWriter::new(Vec::new(), "").expect("a Vec takes it");
        let erf = writer
            .interface("ferri0", "", LinkType::Erf)
            .expect("a Vec takes it");
        writer
            .write(erf, 1_500_000_000, &[7; 290], Remark::default())
            .expect("a Vec takes it");
        let file = writer.finish().expect("a Vec takes it");
        let captured = packet(&blocks(&file)[2]);
        assert_eq!(captured.bytes[..8], [0, 0, 0, 0x80, 1, 0, 0, 0]);
        assert_eq!(
            captured.bytes[8..16],
            [0x15, 0x04, 0x01, 0x38, 0, 0, 0x01, 0x22]
        );
        assert_eq!(captured.bytes[16..], [7; 290]);
    }

    #[test]
    fn a_cut_packet_keeps_its_length_and_what_does_not_fit_leaves_no_trace() {
        let mut writer = PcapngWriter::new(Vec::new(), "").expect("a Vec takes it");
        let interface = writer
            .interface("eth0", "", LinkType::Ethernet)
            .expect("a Vec takes it");
        let kind = |result: io::Result<()>| result.map_err(|error| error.kind());
        let refused = Err(io::ErrorKind::InvalidInput);
        let long = vec![0; 262_145];
        assert_eq!(
            kind(writer.write(interface, 0, &long, Remark::default())),
            refused
        );
        let text = "x".repeat(65_536);
        let remark = Remark {
            comment: &text,
            ..Remark::default()
        };
        assert_eq!(kind(writer.write(interface, 0, &[1], remark)), refused);
        assert_eq!(
            kind(writer.write(InterfaceId(1), 0, &[1], Remark::default())),
            refused
        );
        let remark = Remark {
            original_len: Some(1_500),
            ..Remark::default()
        };
        writer
            .write(interface, 5, &[1, 2, 3], remark)
            .expect("a Vec takes it");
        let file = writer.finish().expect("a Vec takes it");
        let captured: Vec<Captured> = blocks(&file)[2..].iter().map(packet).collect();
        assert_eq!(captured.len(), 1);
        assert_eq!(
            (captured[0].original_len, &captured[0].bytes[..]),
            (1_500, &[1, 2, 3][..])
        );
    }
}
