//! What a datatype looks like in memory: a program of loops over contiguous runs, in the order of the type map.
//!
//! A [`Seq`] is what one element of a type holds; its [`Item`]s follow each other in the packed stream and each knows how many
//! bytes come before it, so any byte is found by one binary search per level. Bodies of loops are shared between the types that
//! are made of each other. Depth is bounded by arithmetic: a loop has at least two rounds, or a body of more than [`INLINE`]
//! items, so each level at least doubles the bytes (whose number fits `i64`) or stands for [`INLINE`] levels of the type.
//!
//! Places are computed with wrapping arithmetic: the origin of a loop may lie outside 64 bits where its data does not.

use ferriband_arithmetic::Kind;
use std::sync::Arc;

/// A sequence of at most so many items is copied into a larger one; a longer one is referred to.
const INLINE: usize = 16;

/// Runs that follow each other without a pattern become a table from this number on.
const TABLE: usize = 4;

/// What lies at one place of the packed stream.
#[derive(Debug, Clone)]
pub(crate) struct Item {
    /// Place of its first byte, relative to what contains it.
    pub offset: i64,
    /// Bytes of packed data.
    pub size: i64,
    /// Bytes of packed data before it in its sequence.
    pub before: i64,
    /// Basic elements before it in its sequence; as `kind`, in exact programs only.
    pub elements_before: i64,
    /// What its elements are; meaningful in exact programs only (see [`Builder`]).
    pub kind: Kind,
    pub shape: Shape,
}

#[derive(Debug, Clone)]
pub(crate) enum Shape {
    /// `size` bytes at `offset`.
    Block,
    /// `count` times `block` bytes, `stride` apart.
    Strided { block: i64, count: i64, stride: i64 },
    /// Runs without a pattern, relative to `offset`; `block` is the length of each, or 0 if they differ.
    Table { block: i64, entries: Arc<[Entry]> },
    /// `count` times the body, `stride` apart.
    Loop {
        count: i64,
        stride: i64,
        body: Arc<Seq>,
    },
}

/// One run of a table.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Entry {
    pub offset: i64,
    pub len: i64,
    /// Bytes of packed data before it in its table.
    pub before: i64,
}

/// What one element of a type, or one round of a loop, holds.
#[derive(Debug, Default)]
pub(crate) struct Seq {
    pub items: Vec<Item>,
    /// Bytes of packed data.
    pub size: i64,
    /// Basic elements; in exact programs only.
    pub elements: i64,
    /// Contiguous runs in it, as they will be met (saturating).
    pub runs: i64,
    /// True if all its items are blocks.
    pub plain: bool,
}

impl Item {
    pub(crate) fn block(offset: i64, size: i64, kind: Kind) -> Self {
        Self {
            offset,
            size,
            before: 0,
            elements_before: 0,
            kind,
            shape: Shape::Block,
        }
    }

    /// Basic elements in it; of an exact program.
    fn elements(&self) -> i64 {
        match &self.shape {
            Shape::Loop { count, body, .. } => count * body.elements,
            _ => self.size / self.kind.size(),
        }
    }

    fn runs(&self) -> i64 {
        match &self.shape {
            Shape::Block => 1,
            Shape::Strided { count, .. } => *count,
            Shape::Table { entries, .. } => entries.len() as i64,
            Shape::Loop { count, body, .. } => count.saturating_mul(body.runs),
        }
    }
}

/// `count` times the sequence, `stride` apart, as one item; `None` if there is nothing in it. The size must fit `i64`.
pub(crate) fn repeat(seq: &Arc<Seq>, count: i64, stride: i64) -> Option<Item> {
    if seq.size == 0 || count <= 0 {
        return None;
    }
    let size = seq.size * count;
    if let [only] = seq.items.as_slice() {
        if count == 1 {
            return Some(only.clone());
        }
        let shape = match &only.shape {
            Shape::Block if stride == only.size => Some(Shape::Block),
            Shape::Block => Some(Shape::Strided {
                block: only.size,
                count,
                stride,
            }),
            &Shape::Strided {
                block,
                count: inner,
                stride: step,
            } if stride == inner.wrapping_mul(step) => Some(Shape::Strided {
                block,
                count: inner * count,
                stride: step,
            }),
            Shape::Loop {
                count: inner,
                stride: step,
                body,
            } if stride == inner.wrapping_mul(*step) => Some(Shape::Loop {
                count: inner * count,
                stride: *step,
                body: body.clone(),
            }),
            _ => None,
        };
        if let Some(shape) = shape {
            return Some(Item {
                offset: only.offset,
                size,
                before: 0,
                elements_before: 0,
                kind: only.kind,
                shape,
            });
        }
    }
    Some(Item {
        offset: 0,
        size,
        before: 0,
        elements_before: 0,
        kind: seq.items[0].kind,
        shape: Shape::Loop {
            count,
            stride,
            body: seq.clone(),
        },
    })
}

/// Puts a sequence together, joining what touches.
///
/// An *exact* program keeps elements of different kinds apart, for conversion and for counting elements; the others join
/// whatever is adjacent.
#[derive(Debug)]
pub(crate) struct Builder {
    items: Vec<Item>,
    exact: bool,
}

impl Builder {
    pub(crate) fn new(exact: bool) -> Self {
        Self {
            items: Vec::new(),
            exact,
        }
    }

    /// Appends a sequence whose origin lies at `shift`.
    pub(crate) fn push_seq(&mut self, seq: &Arc<Seq>, shift: i64) {
        if seq.items.len() <= INLINE {
            for item in &seq.items {
                self.push(item, shift);
            }
        } else {
            self.items.push(Item {
                offset: shift,
                size: seq.size,
                before: 0,
                elements_before: 0,
                kind: seq.items[0].kind,
                shape: Shape::Loop {
                    count: 1,
                    stride: 0,
                    body: seq.clone(),
                },
            });
        }
    }

    /// Appends an item, `shift` bytes further on than it says.
    pub(crate) fn push(&mut self, item: &Item, shift: i64) {
        if item.size == 0 {
            return;
        }
        let offset = item.offset.wrapping_add(shift);
        if matches!(item.shape, Shape::Block)
            && let Some(last) = self.items.last_mut()
            && (!self.exact || last.kind == item.kind)
        {
            match &mut last.shape {
                Shape::Block if last.offset.wrapping_add(last.size) == offset => {
                    last.size += item.size;
                    return;
                }
                Shape::Strided {
                    block,
                    count,
                    stride,
                } if *block == item.size
                    && last.offset.wrapping_add(count.wrapping_mul(*stride)) == offset =>
                {
                    *count += 1;
                    last.size += item.size;
                    return;
                }
                _ => {}
            }
        }
        let mut item = item.clone();
        item.offset = offset;
        self.items.push(item);
    }

    /// The sequence: runs of blocks with a pattern have become strided items, those without it tables.
    pub(crate) fn finish(self) -> Arc<Seq> {
        let mut items = Vec::with_capacity(self.items.len().min(64));
        let mut rest = self.items.as_slice();
        while let Some(first) = rest.first() {
            let alike = |item: &&Item| {
                matches!(item.shape, Shape::Block) && (!self.exact || item.kind == first.kind)
            };
            let blocks = rest.iter().take_while(alike).count();
            if blocks == 0 {
                items.push(first.clone());
                rest = &rest[1..];
            } else {
                compress(&rest[..blocks], &mut items);
                rest = &rest[blocks..];
            }
        }
        let (mut size, mut elements) = (0, 0);
        for item in &mut items {
            item.before = size;
            item.elements_before = elements;
            size += item.size;
            elements += item.elements();
        }
        Arc::new(Seq {
            size,
            elements,
            runs: items
                .iter()
                .fold(0, |runs: i64, item| runs.saturating_add(item.runs())),
            plain: items.iter().all(|item| matches!(item.shape, Shape::Block)),
            items,
        })
    }
}

/// Blocks of one kind: long arithmetic progressions become strided items, what lies between them tables or blocks.
fn compress(blocks: &[Item], items: &mut Vec<Item>) {
    let (mut at, mut loose) = (0, 0);
    while at < blocks.len() {
        let count = progression(&blocks[at..]);
        if count < TABLE {
            at += 1;
            continue;
        }
        table(&blocks[loose..at], items);
        let first = &blocks[at];
        items.push(Item {
            offset: first.offset,
            size: first.size * count as i64,
            before: 0,
            elements_before: 0,
            kind: first.kind,
            shape: Shape::Strided {
                block: first.size,
                count: count as i64,
                stride: blocks[at + 1].offset.wrapping_sub(first.offset),
            },
        });
        at += count;
        loose = at;
    }
    table(&blocks[loose..], items);
}

/// How many of the first blocks have one size and one distance.
fn progression(blocks: &[Item]) -> usize {
    let [first, second, ..] = blocks else {
        return blocks.len();
    };
    if second.size != first.size {
        return 1;
    }
    let stride = second.offset.wrapping_sub(first.offset);
    let mut count = 2;
    while let Some(next) = blocks.get(count)
        && next.size == first.size
        && next.offset.wrapping_sub(blocks[count - 1].offset) == stride
    {
        count += 1;
    }
    count
}

fn table(blocks: &[Item], items: &mut Vec<Item>) {
    if blocks.len() < TABLE {
        items.extend_from_slice(blocks);
        return;
    }
    let mut before = 0;
    let length = blocks[0].size;
    let alike = blocks.iter().all(|block| block.size == length);
    let entries = blocks
        .iter()
        .map(|block| {
            let entry = Entry {
                offset: block.offset,
                len: block.size,
                before,
            };
            before += block.size;
            entry
        })
        .collect();
    items.push(Item {
        offset: 0,
        size: before,
        before: 0,
        elements_before: 0,
        kind: blocks[0].kind,
        shape: Shape::Table {
            block: if alike { length } else { 0 },
            entries,
        },
    });
}

impl Seq {
    /// How many basic elements end within the first `bytes` bytes, and whether one is cut there; of an exact program. Needs one
    /// step per level, whatever the numbers are.
    pub(crate) fn elements_within(&self, bytes: i64) -> (i64, bool) {
        let (mut seq, mut left, mut elements) = (self, bytes, 0);
        loop {
            if left >= seq.size {
                return (elements + seq.elements, left > seq.size);
            }
            let index = seq
                .items
                .partition_point(|item| item.before + item.size <= left);
            let item = &seq.items[index];
            elements += item.elements_before;
            left -= item.before;
            match &item.shape {
                Shape::Loop { body, .. } => {
                    elements += left / body.size * body.elements;
                    left %= body.size;
                    seq = body;
                }
                _ => {
                    let each = item.kind.size();
                    return (elements + left / each, left % each != 0);
                }
            }
        }
    }

    /// How many bytes the first `wanted` basic elements are, at most all of them; of an exact program.
    pub(crate) fn bytes_within(&self, wanted: i64) -> i64 {
        let (mut seq, mut left, mut bytes) = (self, wanted, 0);
        loop {
            if left >= seq.elements {
                return bytes + seq.size;
            }
            let index = seq
                .items
                .partition_point(|item| item.elements_before + item.elements() <= left);
            let item = &seq.items[index];
            bytes += item.before;
            left -= item.elements_before;
            match &item.shape {
                Shape::Loop { body, .. } => {
                    bytes += left / body.elements * body.size;
                    left %= body.elements;
                    seq = body;
                }
                _ => return bytes + left * item.kind.size(),
            }
        }
    }
}

/// What runs of a program are given to. Each method returns false to stop the walk.
pub(crate) trait Sink {
    /// `len` bytes at `offset`.
    fn run(&mut self, offset: i64, len: i64, kind: Kind) -> bool;

    /// `count` times `block` bytes, `stride` apart.
    fn strided(&mut self, offset: i64, block: i64, count: i64, stride: i64, kind: Kind) -> bool {
        (0..count)
            .all(|index| self.run(offset.wrapping_add(index.wrapping_mul(stride)), block, kind))
    }

    /// Whole entries of a table, all of length `block` unless that is 0.
    fn table(&mut self, origin: i64, entries: &[Entry], block: i64, kind: Kind) -> bool {
        let _ = block;
        entries
            .iter()
            .all(|entry| self.run(origin.wrapping_add(entry.offset), entry.len, kind))
    }

    /// `count` whole rounds of a body that has blocks only.
    fn rounds(&mut self, origin: i64, count: i64, stride: i64, body: &Seq) -> bool {
        (0..count).all(|index| {
            let origin = origin.wrapping_add(index.wrapping_mul(stride));
            body.items
                .iter()
                .all(|item| self.run(origin.wrapping_add(item.offset), item.size, item.kind))
        })
    }
}

/// Gives the runs of bytes `from..to` of an item's packed stream to `sink`, in order. False if the sink stopped.
///
/// `0 <= from <= to <= item.size`.
pub(crate) fn walk(item: &Item, origin: i64, from: i64, to: i64, sink: &mut impl Sink) -> bool {
    if from >= to {
        return true;
    }
    if from == 0 && to == item.size {
        return walk_whole(item, origin, sink);
    }
    let origin = origin.wrapping_add(item.offset);
    let kind = item.kind;
    match &item.shape {
        Shape::Block => sink.run(origin.wrapping_add(from), to - from, kind),
        &Shape::Strided { block, stride, .. } => {
            let place = |index: i64| origin.wrapping_add(index.wrapping_mul(stride));
            pieces(block, from, to, sink, |sink, piece| match piece {
                Piece::Part { index, from, to } => {
                    sink.run(place(index).wrapping_add(from), to - from, kind)
                }
                Piece::Whole { index, count } => {
                    sink.strided(place(index), block, count, stride, kind)
                }
            })
        }
        Shape::Table { block, entries } => {
            walk_table(entries, origin, from, to, *block, kind, sink)
        }
        Shape::Loop { stride, body, .. } => {
            let place = |index: i64| origin.wrapping_add(index.wrapping_mul(*stride));
            pieces(body.size, from, to, sink, |sink, piece| match piece {
                Piece::Part { index, from, to } => walk_seq(body, place(index), from, to, sink),
                Piece::Whole { index, count } => {
                    walk_rounds(body, place(index), count, *stride, sink)
                }
            })
        }
    }
}

/// As [`walk`], all of it: nothing needs to be divided.
fn walk_whole(item: &Item, origin: i64, sink: &mut impl Sink) -> bool {
    let origin = origin.wrapping_add(item.offset);
    match &item.shape {
        Shape::Block => sink.run(origin, item.size, item.kind),
        &Shape::Strided {
            block,
            count,
            stride,
        } => sink.strided(origin, block, count, stride, item.kind),
        Shape::Table { block, entries } => sink.table(origin, entries, *block, item.kind),
        Shape::Loop {
            count,
            stride,
            body,
        } => walk_rounds(body, origin, *count, *stride, sink),
    }
}

/// Whole rounds of a loop.
fn walk_rounds(body: &Seq, origin: i64, count: i64, stride: i64, sink: &mut impl Sink) -> bool {
    if body.plain {
        return sink.rounds(origin, count, stride, body);
    }
    (0..count).all(|index| {
        let origin = origin.wrapping_add(index.wrapping_mul(stride));
        body.items.iter().all(|item| walk_whole(item, origin, sink))
    })
}

/// A range of a repetition, cut at its rounds.
enum Piece {
    Part { index: i64, from: i64, to: i64 },
    Whole { index: i64, count: i64 },
}

/// Cuts bytes `from..to` of rounds of `size` bytes into a part, whole rounds, and a part.
fn pieces<S>(
    size: i64,
    from: i64,
    to: i64,
    sink: &mut S,
    mut give: impl FnMut(&mut S, Piece) -> bool,
) -> bool {
    let (mut index, head) = (from / size, from % size);
    let mut left = to - from;
    if head != 0 {
        let len = left.min(size - head);
        let part = Piece::Part {
            index,
            from: head,
            to: head + len,
        };
        if !give(sink, part) {
            return false;
        }
        left -= len;
        index += 1;
    }
    let count = left / size;
    if count > 0 && !give(sink, Piece::Whole { index, count }) {
        return false;
    }
    let to = left % size;
    let index = index + count;
    to == 0 || give(sink, Piece::Part { index, from: 0, to })
}

fn walk_table(
    entries: &[Entry],
    origin: i64,
    mut from: i64,
    to: i64,
    block: i64,
    kind: Kind,
    sink: &mut impl Sink,
) -> bool {
    let mut first = entries.partition_point(|entry| entry.before + entry.len <= from);
    let Some(entry) = entries.get(first) else {
        return true;
    };
    let head = from - entry.before;
    if head != 0 {
        let len = (entry.len - head).min(to - from);
        if !sink.run(origin.wrapping_add(entry.offset + head), len, kind) {
            return false;
        }
        from += len;
        first += 1;
    }
    let rest = &entries[first..];
    let whole = if rest.last().is_some_and(|last| last.before + last.len <= to) {
        rest.len()
    } else {
        rest.partition_point(|entry| entry.before + entry.len <= to)
    };
    if whole > 0 && !sink.table(origin, &rest[..whole], block, kind) {
        return false;
    }
    match rest.get(whole) {
        Some(entry) if from.max(entry.before) < to => {
            sink.run(origin.wrapping_add(entry.offset), to - entry.before, kind)
        }
        _ => true,
    }
}

/// As [`walk`], for a sequence.
pub(crate) fn walk_seq(seq: &Seq, origin: i64, from: i64, to: i64, sink: &mut impl Sink) -> bool {
    if from >= to {
        return true;
    }
    let first = match from {
        0 => 0,
        _ => seq
            .items
            .partition_point(|item| item.before + item.size <= from),
    };
    for item in &seq.items[first..] {
        if item.before >= to {
            break;
        }
        let start = (from - item.before).max(0);
        let end = (to - item.before).min(item.size);
        if !walk(item, origin, start, end, sink) {
            return false;
        }
    }
    true
}
