//! A number of elements of a type, seen as one stream of packed bytes: where each byte lies, in segments; how many elements a
//! number of bytes is.

use crate::datatype::Datatype;
use crate::error::Error;
use crate::map::Uniform;
use crate::program::{Item, Sink, repeat, walk};
use ferriband_arithmetic::Kind;

/// A range of places relative to a buffer's address, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Span {
    /// Its beginning; may be negative.
    pub offset: i64,
    /// Its length.
    pub len: i64,
}

/// A range of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Segment {
    /// Its address.
    pub address: usize,
    /// Its length in bytes.
    pub len: usize,
}

/// What [`View::segments`] found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Filled {
    /// Segments written.
    pub segments: usize,
    /// Bytes that they cover: add them to the position to go on.
    pub bytes: i64,
}

/// `count` elements of a type. Made once per request; its arithmetic has been checked.
#[derive(Debug, Clone)]
pub struct View {
    datatype: Datatype,
    count: i64,
    root: Option<Item>,
}

impl View {
    /// Of `count` elements. [`Error::Count`] if it is negative, [`Error::Overflow`] if the data's size or places do not fit.
    pub fn new(datatype: &Datatype, count: i64) -> Result<Self, Error> {
        if count < 0 {
            return Err(Error::Count(count));
        }
        datatype.size().checked_mul(count).ok_or(Error::Overflow)?;
        span(datatype, count).ok_or(Error::Overflow)?;
        Ok(Self {
            root: repeat(&datatype.map().program, count, datatype.extent()),
            datatype: datatype.clone(),
            count,
        })
    }

    /// The type.
    pub fn datatype(&self) -> &Datatype {
        &self.datatype
    }

    /// The number of elements.
    pub fn count(&self) -> i64 {
        self.count
    }

    /// Bytes of packed data.
    pub fn size(&self) -> i64 {
        self.root.as_ref().map_or(0, |root| root.size)
    }

    /// The smallest range that has all the data: what a temporary buffer must hold for user-defined operations, whose functions
    /// address it as `buffer - offset`.
    pub fn span(&self) -> Span {
        span(&self.datatype, self.count).unwrap_or_default()
    }

    /// The one range that the data fills without gaps and in order, if it does.
    pub fn contiguous(&self) -> Option<Span> {
        match &self.root {
            None => Some(Span::default()),
            Some(Item {
                offset,
                size,
                shape: crate::program::Shape::Block,
                ..
            }) => Some(Span {
                offset: *offset,
                len: *size,
            }),
            Some(_) => None,
        }
    }

    /// The signature of the whole.
    pub fn signature(&self) -> crate::signature::Signature {
        self.datatype.signature().repeat(self.count)
    }

    /// Fills `out` with the segments of memory that hold the packed bytes from `from` on, for a buffer at `base`, joining
    /// neighbours; stops when `out` is full or after `limit` bytes. The way to give data to RDMA READ or WRITE, a page at a time.
    pub fn segments(&self, base: usize, from: i64, limit: i64, out: &mut [Segment]) -> Filled {
        let mut sink = Collect {
            base,
            out,
            segments: 0,
            bytes: 0,
        };
        if let Some(root) = &self.root {
            let from = from.clamp(0, root.size);
            let to = from.saturating_add(limit.max(0)).min(root.size);
            walk(root, 0, from, to, &mut sink);
        }
        Filled {
            segments: sink.segments,
            bytes: sink.bytes,
        }
    }

    /// Gives the runs of bytes `from..to` to a sink.
    pub(crate) fn walk(&self, from: i64, to: i64, sink: &mut impl Sink) {
        if let Some(root) = &self.root {
            walk(root, 0, from, to, sink);
        }
    }

    /// As [`walk`](Self::walk), the whole, with elements of different kinds apart.
    pub(crate) fn walk_exact(&self, sink: &mut impl Sink) {
        let map = self.datatype.map();
        if let Some(root) = repeat(map.exact(), self.count, map.extent()) {
            walk(&root, 0, 0, root.size, sink);
        }
    }
}

/// As [`View::span`]; nothing if it does not fit.
fn span(datatype: &Datatype, count: i64) -> Option<Span> {
    if count == 0 || datatype.size() == 0 {
        return Some(Span::default());
    }
    let last = datatype.extent().checked_mul(count - 1)?;
    let first = datatype.true_lb();
    let end = first.checked_add(datatype.true_extent())?;
    let offset = first.min(first.checked_add(last)?);
    let end = end.max(end.checked_add(last)?);
    Some(Span {
        offset,
        len: end.checked_sub(offset)?,
    })
}

struct Collect<'a> {
    base: usize,
    out: &'a mut [Segment],
    segments: usize,
    bytes: i64,
}

impl Sink for Collect<'_> {
    fn run(&mut self, offset: i64, len: i64, _: Kind) -> bool {
        let address = self.base.wrapping_add(offset as usize);
        if let Some(last) = self.segments.checked_sub(1).map(|last| &mut self.out[last])
            && last.address.wrapping_add(last.len) == address
        {
            last.len += len as usize;
        } else {
            let Some(next) = self.out.get_mut(self.segments) else {
                return false;
            };
            *next = Segment {
                address,
                len: len as usize,
            };
            self.segments += 1;
        }
        self.bytes += len;
        true
    }
}

/// Elements and bytes, for MPI_Get_count, MPI_Get_elements and MPI_Status_set_elements (MPI 3.2.5, 5.1.11).
impl Datatype {
    /// How many whole elements `bytes` of packed data are (MPI_Get_count); `None` is MPI_UNDEFINED: not a whole number, or any
    /// number would do.
    pub fn count_of(&self, bytes: i64) -> Option<i64> {
        match (self.size(), bytes) {
            (_, 0) => Some(0),
            (0, _) => None,
            (size, bytes) => (bytes % size == 0).then(|| bytes / size),
        }
    }

    /// How many basic elements `bytes` of packed data begin with whole (MPI_Get_elements); `None` is MPI_UNDEFINED: the last one is cut.
    pub fn elements_of(&self, bytes: i64) -> Option<i64> {
        let size = self.size();
        if bytes <= 0 || size == 0 {
            return (bytes == 0).then_some(0);
        }
        if let Uniform::One(kind) = self.map().uniform {
            return (bytes % kind.size() == 0).then(|| bytes / kind.size());
        }
        let (rest, cut) = self.map().exact().elements_within(bytes % size);
        if cut {
            return None;
        }
        (bytes / size)
            .checked_mul(self.elements())?
            .checked_add(rest)
    }

    /// How many bytes of packed data the first `elements` basic elements are (MPI_Status_set_elements); `None` if they do not
    /// fit 64 bits, or if there are some and the type has none.
    pub fn bytes_of(&self, elements: i64) -> Option<i64> {
        let each = self.elements();
        if elements <= 0 || each == 0 {
            return (elements == 0).then_some(0);
        }
        let rest = self.map().exact().bytes_within(elements % each);
        (elements / each)
            .checked_mul(self.size())?
            .checked_add(rest)
    }
}
