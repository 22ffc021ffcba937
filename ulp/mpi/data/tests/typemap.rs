//! Everything that a datatype does, against the naive interpreter of its type map.

#![allow(clippy::unwrap_used)]

mod common;

use common::Naive;
use ferriband_mpi_data::{
    Cursor, Datatype, Form, Kind, Named, Segment, View, copy, external, pack, unpack,
};
use proptest::prelude::*;

/// A buffer that has `count` elements, and the address that MPI would be given.
struct Buffer {
    bytes: Vec<u8>,
    origin: i64,
}

impl Buffer {
    fn new(view: &View, fill: impl Fn(usize) -> u8) -> Self {
        let span = view.span();
        Self {
            bytes: (0..span.len as usize).map(fill).collect(),
            origin: span.offset,
        }
    }

    fn base(&mut self) -> usize {
        (self.bytes.as_mut_ptr().expose_provenance() as i64 - self.origin) as usize
    }

    fn at(&self, offset: i64) -> u8 {
        self.bytes[(offset - self.origin) as usize]
    }
}

fn noise(index: usize) -> u8 {
    (index as u32).wrapping_mul(0x9e37_79b1).to_le_bytes()[3]
}

/// Elements whose number keeps the test small.
fn elements() -> impl Strategy<Value = (Datatype, i64)> {
    (common::datatype(), 0..4_i64).prop_filter("small", |(datatype, _)| datatype.elements() < 3000)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn sizes_and_bounds_are_those_of_the_type_map((datatype, count) in elements()) {
        let naive = Naive::of(&datatype);
        prop_assert_eq!(datatype.size(), naive.size());
        prop_assert_eq!(datatype.lb(), naive.lb());
        prop_assert_eq!(datatype.extent(), naive.extent());
        let (first, end) = naive.true_bounds();
        prop_assert_eq!(datatype.true_lb(), first);
        prop_assert_eq!(datatype.true_extent(), end - first);
        prop_assert_eq!(datatype.elements(), naive.elements.len() as i64);

        // the span, and whether one range has it all in order
        let view = View::new(&datatype, count).unwrap();
        let bytes = naive.bytes(count);
        prop_assert_eq!(view.size(), bytes.len() as i64);
        if let (Some(&least), Some(&most)) = (bytes.iter().min(), bytes.iter().max()) {
            prop_assert_eq!(view.span().offset, least);
            prop_assert_eq!(view.span().len, most + 1 - least);
            let dense = bytes.windows(2).all(|pair| pair[1] == pair[0] + 1);
            let all_in_one = [view.contiguous(), datatype.contiguous(count)];
            // A range that is found is right; and the usual ones are found.
            for span in all_in_one.into_iter().flatten() {
                prop_assert!(dense);
                prop_assert_eq!(span.offset, bytes[0]);
                prop_assert_eq!(span.len, bytes.len() as i64);
            }
            if dense && count == 1 && naive.elements.len() < 4 {
                prop_assert!(view.contiguous().is_some());
            }
        }
    }

    #[test]
    fn packed_bytes_come_in_the_order_of_the_type_map(
        (datatype, count) in elements(),
        splits in prop::collection::vec(1..200_usize, 1..20),
        seek: prop::sample::Index,
    ) {
        let view = View::new(&datatype, count).unwrap();
        let mut buffer = Buffer::new(&view, noise);
        let base = buffer.base();
        let want: Vec<u8> = Naive::of(&datatype).bytes(count).into_iter().map(|at| buffer.at(at)).collect();

        let mut cursor = Cursor::new(view.clone(), base);
        let mut got = vec![0; want.len()];
        let mut at = 0;
        for split in splits.iter().cycle() {
            let room = (*split).min(want.len() - at);
            // SAFETY: the buffer has the elements, `got` has room from `at` on.
            let len = unsafe { cursor.pack(got[at..].as_mut_ptr(), room) };
            prop_assert_eq!(len, room);
            at += len;
            if at == want.len() {
                break;
            }
        }
        prop_assert_eq!(&got, &want);
        prop_assert_eq!(cursor.remaining(), 0);

        // from anywhere to the end
        let from = seek.index(want.len() + 1);
        cursor.seek(from as i64);
        let mut rest = vec![0; want.len() - from];
        // SAFETY: as above.
        unsafe { cursor.pack(rest.as_mut_ptr(), rest.len()) };
        prop_assert_eq!(&rest[..], &want[from..]);

        // and as MPI_Pack does it, behind something else
        let mut out = vec![7; want.len() + 3];
        let size = out.len() as i64;
        // SAFETY: the buffer has the elements, `out` has `size` bytes.
        let end = unsafe { pack(&datatype, count, base, out.as_mut_ptr(), size, 2) };
        prop_assert_eq!(end, Ok(size - 1));
        prop_assert_eq!(&out[2..out.len() - 1], &want[..]);
        prop_assert_eq!((out[1], out[out.len() - 1]), (7, 7));
    }

    #[test]
    fn unpacked_bytes_go_where_the_type_map_says(
        (datatype, count) in elements(),
        splits in prop::collection::vec(1..200_usize, 1..20),
    ) {
        prop_assume!(!overlap(&places(&datatype, count)));
        let view = View::new(&datatype, count).unwrap();
        let mut buffer = Buffer::new(&view, |_| 0xee);
        let input: Vec<u8> = (0..view.size() as usize).map(noise).collect();
        let mut want = Buffer::new(&view, |_| 0xee);
        for (at, byte) in Naive::of(&datatype).bytes(count).into_iter().zip(&input) {
            want.bytes[(at - want.origin) as usize] = *byte;
        }
        let mut cursor = Cursor::new(view.clone(), buffer.base());
        let mut at = 0;
        for split in splits.iter().cycle() {
            let len = (*split).min(input.len() - at);
            // SAFETY: the buffer has the elements, `input` has `len` bytes from `at` on.
            at += unsafe { cursor.unpack(input[at..].as_ptr(), len) };
            if at == input.len() {
                break;
            }
        }
        prop_assert_eq!(&buffer.bytes, &want.bytes);

        let mut whole = Buffer::new(&view, |_| 0xee);
        // SAFETY: the buffer has the elements.
        let end = unsafe {
            unpack(&datatype, count, whole.base(), input.as_ptr(), input.len() as i64, 0)
        };
        prop_assert_eq!(end, Ok(input.len() as i64));
        prop_assert_eq!(&whole.bytes, &want.bytes);
    }

    #[test]
    fn segments_cover_the_same_bytes(
        (datatype, count) in elements(),
        page in 1..7_usize,
        limit in 1..300_i64,
        base in 0x1000_usize..0x2000,
    ) {
        let view = View::new(&datatype, count).unwrap();
        let mut cursor = Cursor::new(view.clone(), base);
        let mut got = Vec::new();
        while cursor.remaining() > 0 {
            let mut out = vec![Segment::default(); page];
            let (filled, bytes) = cursor.segments(limit, &mut out);
            prop_assert!(filled > 0 && bytes > 0 && bytes <= limit);
            let before = got.len() as i64;
            for segment in &out[..filled] {
                prop_assert!(segment.len > 0);
                got.extend((0..segment.len).map(|byte| segment.address.wrapping_add(byte)));
            }
            prop_assert_eq!(got.len() as i64 - before, bytes);
            for pair in out[..filled].windows(2) {
                prop_assert_ne!(pair[0].address.wrapping_add(pair[0].len), pair[1].address);
            }
        }
        let want: Vec<usize> = Naive::of(&datatype)
            .bytes(count)
            .into_iter()
            .map(|at| base.wrapping_add(at as usize))
            .collect();
        prop_assert_eq!(got, want);
    }

    #[test]
    fn elements_are_counted_as_the_type_map_has_them((datatype, count) in elements()) {
        let naive = Naive::of(&datatype);
        let total = naive.size() * count;
        let ends: Vec<i64> = (0..count)
            .flat_map(|_| naive.elements.iter().map(|(kind, _)| kind.size()))
            .scan(0, |end, size| {
                *end += size;
                Some(*end)
            })
            .collect();
        for bytes in 0..=total.min(400) {
            let whole = match (bytes, datatype.size()) {
                (0, _) => Some(0),
                (_, 0) => None,
                (bytes, size) => (bytes % size == 0).then(|| bytes / size),
            };
            prop_assert_eq!(datatype.count_of(bytes), whole);
            let elements = ends.partition_point(|&end| end <= bytes);
            let covered = if elements == 0 { 0 } else { ends[elements - 1] };
            let want = (covered == bytes).then_some(elements as i64);
            prop_assert_eq!(datatype.elements_of(bytes), want, "{} bytes", bytes);
        }
        for (index, end) in ends.iter().enumerate() {
            prop_assert_eq!(datatype.bytes_of(index as i64 + 1), Some(*end));
        }
    }

    #[test]
    fn external32_brings_every_element_back((datatype, count) in elements()) {
        let view = View::new(&datatype, count).unwrap();
        let mut buffer = Buffer::new(&view, |_| 0);
        // Small numbers of each kind fit their representations; floating point ones are chosen to be numbers.
        let places = places(&datatype, count);
        for (index, &(kind, at)) in places.iter().enumerate() {
            let at = (at - buffer.origin) as usize;
            let value = number(kind, index);
            buffer.bytes[at..at + value.len()].copy_from_slice(&value);
        }
        let size = external::size(&datatype, count).unwrap();
        let want: i64 = places.iter().map(|&(kind, _)| external::size_of(kind)).sum();
        prop_assert_eq!(size, want);
        let mut packed = vec![0; size as usize];
        let want = native(&places, &buffer);
        // Elements may overlap: then what is in memory may be no number that fits.
        // SAFETY: the buffer has the elements, `packed` the room.
        let done = unsafe {
            external::pack(&datatype, count, buffer.base(), packed.as_mut_ptr(), size, 0)
        };
        if overlap(&places) {
            return Ok(());
        }
        prop_assert_eq!(done, Ok(size));
        let mut back = Buffer::new(&view, |_| 0);
        // SAFETY: the buffer has the elements, `packed` the bytes.
        unsafe { external::unpack(&datatype, count, back.base(), packed.as_ptr(), size, 0) }.unwrap();
        prop_assert_eq!(native(&places, &back), want);
        // Big-endian: the last byte of an integer is its lowest.
        if let Some(&(Kind::I32 | Kind::Long | Kind::U16 | Kind::Wchar, at)) = places.last() {
            prop_assert_eq!(packed[packed.len() - 1], buffer.at(at));
        }
    }

    #[test]
    fn signatures_forget_places_and_keep_order((datatype, count) in elements()) {
        let kinds: Vec<Kind> = Naive::of(&datatype).elements.iter().map(|&(kind, _)| kind).collect();
        let alike = kinds.iter().map(|kind| {
            *Named::ALL.iter().find(|named| named.kind() == *kind).unwrap()
        });
        let types: Vec<Datatype> = alike.map(Datatype::named).collect();
        let ones = vec![1; types.len()];
        let places: Vec<i64> = (0..types.len() as i64).map(|index| index * 64).collect();
        let flat = Datatype::structure(Form::Count, &ones, &places, &types).unwrap();
        prop_assert_eq!(datatype.signature(), flat.signature());
        let view = View::new(&datatype, count).unwrap();
        prop_assert!(view.signature().matches(&flat.signature().repeat(count)));
        if kinds.len() > 1 && count == 1 {
            let mut turned = types.clone();
            turned.rotate_left(1);
            let turned = Datatype::structure(Form::Count, &ones, &places, &turned).unwrap();
            let mut other = kinds.clone();
            other.rotate_left(1);
            prop_assert_eq!(turned.signature() == datatype.signature(), other == kinds);
        }
    }

    #[test]
    fn copies_between_two_types_are_as_if_sent(
        (from, from_count) in elements(),
        (to, to_count) in elements(),
    ) {
        prop_assume!(!overlap(&places(&to, to_count)));
        let [from, to] = [(from, from_count), (to, to_count)]
            .map(|(datatype, count)| View::new(&datatype, count).unwrap());
        let mut source = Buffer::new(&from, noise);
        let mut target = Buffer::new(&to, |_| 0xee);
        let mut want = Buffer::new(&to, |_| 0xee);
        let [out, into] = [&from, &to].map(|view| Naive::of(view.datatype()).bytes(view.count()));
        for (&from, &to) in out.iter().zip(&into) {
            want.bytes[(to - want.origin) as usize] = source.at(from);
        }
        // SAFETY: both buffers have their elements.
        let len = unsafe { copy(&from, source.base(), &to, target.base()) };
        prop_assert_eq!(len as usize, out.len().min(into.len()));
        prop_assert_eq!(&target.bytes, &want.bytes);
    }
}

/// Blocks that go on where a row of blocks ends join it only if they are as long.
#[test]
fn a_row_is_continued_by_blocks_of_its_length_only() {
    let byte = Datatype::named(Named::Byte);
    let row = Datatype::vector(Form::Int, 5, 1, 2, &byte).unwrap();
    for (length, runs) in [(1, 6), (2, 6), (3, 6)] {
        let types = [row.clone(), byte.clone()];
        let made = Datatype::structure(Form::Int, &[1, length], &[0, 10], &types).unwrap();
        assert_eq!(made.runs(), runs);
        let view = View::new(&made, 1).unwrap();
        let mut out = [Segment::default(); 8];
        let filled = view.segments(0, 0, i64::MAX, &mut out);
        assert_eq!(filled.bytes, 5 + length);
        let last = Segment {
            address: 10,
            len: length as usize,
        };
        assert_eq!(out[filled.segments - 1], last);
    }
}

/// Where the basic elements of `count` elements lie.
fn places(datatype: &Datatype, count: i64) -> Vec<(Kind, i64)> {
    let naive = Naive::of(datatype);
    let one = |index| {
        let shift = index * naive.extent();
        naive
            .elements
            .iter()
            .map(move |&(kind, at)| (kind, at + shift))
    };
    (0..count).flat_map(one).collect()
}

/// The elements' bytes, one after the other.
fn native(places: &[(Kind, i64)], buffer: &Buffer) -> Vec<u8> {
    let bytes = places.iter().flat_map(|&(kind, at)| at..at + kind.size());
    bytes.map(|at| buffer.at(at)).collect()
}

fn overlap(places: &[(Kind, i64)]) -> bool {
    let mut ranges: Vec<(i64, i64)> = places
        .iter()
        .map(|&(kind, at)| (at, at + kind.size()))
        .collect();
    ranges.sort_unstable();
    ranges.windows(2).any(|pair| pair[0].1 > pair[1].0)
}

/// Some number of a kind, as it lies in memory.
fn number(kind: Kind, index: usize) -> Vec<u8> {
    let small = (index % 100) as u8;
    let extended = || {
        let mut bytes = vec![0, 0, 0, 0, 0, 0, 0, 0x80, 0xff, 0x3f, 0, 0, 0, 0, 0, 0];
        bytes[0] = small;
        bytes
    };
    match kind {
        Kind::F80 => extended(),
        Kind::C80 => [extended(), extended()].concat(),
        _ => {
            let mut bytes = vec![0; kind.size() as usize];
            bytes[0] = small;
            bytes
        }
    }
}
