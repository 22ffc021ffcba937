//! What the elements are that operations combine.

/// What one basic element is: its bits, not its name. Types of one kind convert and reduce alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
#[allow(missing_docs)] // the names say it: I signed, U unsigned, F binary floating point, C complex of two F, L logical; bits
pub enum Kind {
    Byte,
    Packed,
    /// A character of one byte.
    Char,
    /// `wchar_t` of 4 bytes.
    Wchar,
    I8,
    I16,
    I32,
    I64,
    I128,
    U8,
    U16,
    U32,
    U64,
    /// `long`: 8 bytes.
    Long,
    /// `unsigned long`: 8 bytes.
    Ulong,
    F16,
    F32,
    F64,
    /// `long double` of the x87: 80 bits in 16 bytes.
    F80,
    /// IEEE binary128.
    F128,
    C16,
    C32,
    C64,
    C80,
    C128,
    /// C's and C++'s bool.
    Bool,
    L8,
    L16,
    L32,
    L64,
    L128,
    /// A value and an index, for [`Op::Minloc`](crate::Op) and its sister: `float` and `int`.
    FloatInt,
    DoubleInt,
    LongInt,
    IntInt,
    ShortInt,
    LongDoubleInt,
    FloatFloat,
    DoubleDouble,
}

impl Kind {
    /// Bytes of data in one element (a pair's padding does not count).
    pub const fn size(self) -> i64 {
        match self {
            Self::Byte
            | Self::Packed
            | Self::Char
            | Self::I8
            | Self::U8
            | Self::Bool
            | Self::L8 => 1,
            Self::I16 | Self::U16 | Self::F16 | Self::L16 => 2,
            Self::Wchar | Self::I32 | Self::U32 | Self::F32 | Self::C16 | Self::L32 => 4,
            Self::I64
            | Self::U64
            | Self::Long
            | Self::Ulong
            | Self::F64
            | Self::C32
            | Self::L64 => 8,
            Self::I128 | Self::F80 | Self::F128 | Self::C64 | Self::L128 => 16,
            Self::C80 | Self::C128 => 32,
            Self::ShortInt => 6,
            Self::FloatInt | Self::IntInt | Self::FloatFloat => 8,
            Self::DoubleInt | Self::LongInt => 12,
            Self::DoubleDouble => 16,
            Self::LongDoubleInt => 20,
        }
    }

    /// Alignment that C gives to the element, in bytes.
    pub const fn align(self) -> i64 {
        match self.parts() {
            Some([(value, _), (index, _)]) => {
                if value.align() > index.align() {
                    value.align()
                } else {
                    index.align()
                }
            }
            None => match self {
                Self::C16 => 2,
                Self::C32 => 4,
                Self::C64 => 8,
                Self::C80 | Self::C128 => 16,
                _ => self.size(),
            },
        }
    }

    /// Bytes from one element of an array to the next.
    pub const fn extent(self) -> i64 {
        match self.parts() {
            Some([_, (index, at)]) => round_up(at + index.size(), self.align()),
            None => self.size(),
        }
    }

    /// The two members of a pair with their places; nothing for the others.
    pub const fn parts(self) -> Option<[(Self, i64); 2]> {
        Some(match self {
            Self::FloatInt => [(Self::F32, 0), (Self::I32, 4)],
            Self::DoubleInt => [(Self::F64, 0), (Self::I32, 8)],
            Self::LongInt => [(Self::Long, 0), (Self::I32, 8)],
            Self::IntInt => [(Self::I32, 0), (Self::I32, 4)],
            Self::ShortInt => [(Self::I16, 0), (Self::I32, 4)],
            Self::LongDoubleInt => [(Self::F80, 0), (Self::I32, 16)],
            Self::FloatFloat => [(Self::F32, 0), (Self::F32, 4)],
            Self::DoubleDouble => [(Self::F64, 0), (Self::F64, 8)],
            _ => return None,
        })
    }
}

/// `bytes` rounded up to a multiple of `align`, which is a power of two.
const fn round_up(bytes: i64, align: i64) -> i64 {
    (bytes + align - 1) & !(align - 1)
}
