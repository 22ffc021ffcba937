//! The predefined datatypes (MPI 3.2.2, 5.1, 6.9.4; their values in 20), and what their elements are.
//!
//! Fortran's default kinds follow C's: INTEGER, REAL and LOGICAL have 4 bytes, DOUBLE PRECISION 8. REAL*16 is IEEE binary128, as
//! gfortran has it; `long double` is the x87's 80 bits in 16 bytes.

use ferriband_arithmetic::Kind;

/// The groups of 6.9.2, which say what operations a predefined type takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Group {
    /// C integers.
    CInteger,
    /// Fortran integers.
    FortranInteger,
    /// Floating point.
    Floating,
    /// Logicals and bools.
    Logical,
    /// Complex numbers.
    Complex,
    /// MPI_BYTE.
    Byte,
    /// MPI_AINT, MPI_OFFSET, MPI_COUNT.
    MultiLanguage,
    /// Value and index.
    Pair,
    /// Printable characters.
    Character,
    /// MPI_PACKED.
    Packed,
}

macro_rules! named {
    ($($variant:ident $value:literal $name:literal $kind:ident $group:ident,)*) => {
        /// A predefined datatype; its discriminant is its handle's value in the standard ABI.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u16)]
        #[allow(missing_docs)] // MPI's own names
        pub enum Named {
            $($variant = $value,)*
        }

        impl Named {
            /// Every predefined type, in the order of their values.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The name that MPI_Type_get_name gives until another is set.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }

            /// What its elements are.
            pub const fn kind(self) -> Kind {
                match self {
                    $(Self::$variant => Kind::$kind,)*
                }
            }

            /// Which operations it takes.
            pub const fn group(self) -> Group {
                match self {
                    $(Self::$variant => Group::$group,)*
                }
            }

            /// The type with this value in the standard ABI.
            pub const fn from_value(value: u32) -> Option<Self> {
                match value {
                    $($value => Some(Self::$variant),)*
                    _ => None,
                }
            }
        }
    };
}

named! {
    Aint 0x201 "MPI_AINT" I64 MultiLanguage,
    Count 0x202 "MPI_COUNT" I64 MultiLanguage,
    Offset 0x203 "MPI_OFFSET" I64 MultiLanguage,
    Packed 0x207 "MPI_PACKED" Packed Packed,
    Short 0x208 "MPI_SHORT" I16 CInteger,
    Int 0x209 "MPI_INT" I32 CInteger,
    Long 0x20a "MPI_LONG" Long CInteger,
    LongLong 0x20b "MPI_LONG_LONG_INT" I64 CInteger,
    UnsignedShort 0x20c "MPI_UNSIGNED_SHORT" U16 CInteger,
    Unsigned 0x20d "MPI_UNSIGNED" U32 CInteger,
    UnsignedLong 0x20e "MPI_UNSIGNED_LONG" Ulong CInteger,
    UnsignedLongLong 0x20f "MPI_UNSIGNED_LONG_LONG" U64 CInteger,
    Float 0x210 "MPI_FLOAT" F32 Floating,
    CFloatComplex 0x212 "MPI_C_COMPLEX" C32 Complex,
    CxxFloatComplex 0x213 "MPI_CXX_FLOAT_COMPLEX" C32 Complex,
    Double 0x214 "MPI_DOUBLE" F64 Floating,
    CDoubleComplex 0x216 "MPI_C_DOUBLE_COMPLEX" C64 Complex,
    CxxDoubleComplex 0x217 "MPI_CXX_DOUBLE_COMPLEX" C64 Complex,
    Logical 0x218 "MPI_LOGICAL" L32 Logical,
    Integer 0x219 "MPI_INTEGER" I32 FortranInteger,
    Real 0x21a "MPI_REAL" F32 Floating,
    Complex 0x21b "MPI_COMPLEX" C32 Complex,
    DoublePrecision 0x21c "MPI_DOUBLE_PRECISION" F64 Floating,
    DoubleComplex 0x21d "MPI_DOUBLE_COMPLEX" C64 Complex,
    Character 0x21e "MPI_CHARACTER" Char Character,
    LongDouble 0x220 "MPI_LONG_DOUBLE" F80 Floating,
    CLongDoubleComplex 0x224 "MPI_C_LONG_DOUBLE_COMPLEX" C80 Complex,
    CxxLongDoubleComplex 0x225 "MPI_CXX_LONG_DOUBLE_COMPLEX" C80 Complex,
    FloatInt 0x228 "MPI_FLOAT_INT" FloatInt Pair,
    DoubleInt 0x229 "MPI_DOUBLE_INT" DoubleInt Pair,
    LongInt 0x22a "MPI_LONG_INT" LongInt Pair,
    TwoInt 0x22b "MPI_2INT" IntInt Pair,
    ShortInt 0x22c "MPI_SHORT_INT" ShortInt Pair,
    LongDoubleInt 0x22d "MPI_LONG_DOUBLE_INT" LongDoubleInt Pair,
    TwoReal 0x230 "MPI_2REAL" FloatFloat Pair,
    TwoDoublePrecision 0x231 "MPI_2DOUBLE_PRECISION" DoubleDouble Pair,
    TwoInteger 0x232 "MPI_2INTEGER" IntInt Pair,
    CBool 0x238 "MPI_C_BOOL" Bool Logical,
    CxxBool 0x239 "MPI_CXX_BOOL" Bool Logical,
    Wchar 0x23c "MPI_WCHAR" Wchar Character,
    Int8T 0x240 "MPI_INT8_T" I8 CInteger,
    Uint8T 0x241 "MPI_UINT8_T" U8 CInteger,
    Char 0x243 "MPI_CHAR" Char Character,
    SignedChar 0x244 "MPI_SIGNED_CHAR" I8 CInteger,
    UnsignedChar 0x245 "MPI_UNSIGNED_CHAR" U8 CInteger,
    Byte 0x247 "MPI_BYTE" Byte Byte,
    Int16T 0x248 "MPI_INT16_T" I16 CInteger,
    Uint16T 0x249 "MPI_UINT16_T" U16 CInteger,
    Int32T 0x250 "MPI_INT32_T" I32 CInteger,
    Uint32T 0x251 "MPI_UINT32_T" U32 CInteger,
    Int64T 0x258 "MPI_INT64_T" I64 CInteger,
    Uint64T 0x259 "MPI_UINT64_T" U64 CInteger,
    Logical1 0x2c0 "MPI_LOGICAL1" L8 Logical,
    Integer1 0x2c1 "MPI_INTEGER1" I8 FortranInteger,
    Logical2 0x2c8 "MPI_LOGICAL2" L16 Logical,
    Integer2 0x2c9 "MPI_INTEGER2" I16 FortranInteger,
    Real2 0x2ca "MPI_REAL2" F16 Floating,
    Logical4 0x2d0 "MPI_LOGICAL4" L32 Logical,
    Integer4 0x2d1 "MPI_INTEGER4" I32 FortranInteger,
    Real4 0x2d2 "MPI_REAL4" F32 Floating,
    Complex4 0x2d3 "MPI_COMPLEX4" C16 Complex,
    Logical8 0x2d8 "MPI_LOGICAL8" L64 Logical,
    Integer8 0x2d9 "MPI_INTEGER8" I64 FortranInteger,
    Real8 0x2da "MPI_REAL8" F64 Floating,
    Complex8 0x2db "MPI_COMPLEX8" C32 Complex,
    Logical16 0x2e0 "MPI_LOGICAL16" L128 Logical,
    Integer16 0x2e1 "MPI_INTEGER16" I128 FortranInteger,
    Real16 0x2e2 "MPI_REAL16" F128 Floating,
    Complex16 0x2e3 "MPI_COMPLEX16" C64 Complex,
    Complex32 0x2eb "MPI_COMPLEX32" C128 Complex,
}

impl Named {
    /// The handle's value in the standard ABI.
    pub const fn value(self) -> u32 {
        self as u32
    }

    /// Bytes of data in one element.
    pub const fn size(self) -> i64 {
        self.kind().size()
    }

    /// Bytes from one element of an array to the next.
    pub const fn extent(self) -> i64 {
        self.kind().extent()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::{align_of, size_of};

    #[test]
    fn values_lead_back_to_their_types() {
        for &named in Named::ALL {
            assert_eq!(Named::from_value(named.value()), Some(named));
            assert!(named.name().starts_with("MPI_"));
        }
        assert_eq!(Named::from_value(0x200), None); // MPI_DATATYPE_NULL
        assert_eq!(Named::ALL.len(), 70);
    }

    #[test]
    fn sizes_of_fixed_width_types_stand_in_their_values() {
        // The ABI keeps log2 of the size in bits 3 to 5 of those values (MPI 20).
        for &named in Named::ALL {
            if (0x240..0x280).contains(&named.value()) || named.value() >= 0x2c0 {
                assert_eq!(
                    named.size(),
                    1 << (named.value() >> 3 & 7),
                    "{}",
                    named.name()
                );
            }
        }
    }

    #[test]
    fn pairs_are_laid_out_as_c_structures() {
        #[repr(C)]
        struct Pair<A, B>(A, B);
        #[repr(C, align(16))]
        struct LongDouble([u8; 16]);
        let c = [
            (
                Named::FloatInt,
                size_of::<Pair<f32, i32>>(),
                align_of::<Pair<f32, i32>>(),
            ),
            (
                Named::DoubleInt,
                size_of::<Pair<f64, i32>>(),
                align_of::<Pair<f64, i32>>(),
            ),
            (
                Named::LongInt,
                size_of::<Pair<i64, i32>>(),
                align_of::<Pair<i64, i32>>(),
            ),
            (
                Named::TwoInt,
                size_of::<Pair<i32, i32>>(),
                align_of::<Pair<i32, i32>>(),
            ),
            (
                Named::ShortInt,
                size_of::<Pair<i16, i32>>(),
                align_of::<Pair<i16, i32>>(),
            ),
            (
                Named::LongDoubleInt,
                size_of::<Pair<LongDouble, i32>>(),
                align_of::<Pair<LongDouble, i32>>(),
            ),
        ];
        for (named, size, align) in c {
            assert_eq!(named.extent(), size as i64, "{}", named.name());
            assert_eq!(named.kind().align(), align as i64, "{}", named.name());
        }
    }

    #[test]
    fn a_pair_has_the_bytes_of_its_members() {
        for &named in Named::ALL {
            if let Some([(value, _), (index, _)]) = named.kind().parts() {
                assert_eq!(
                    named.size(),
                    value.size() + index.size(),
                    "{}",
                    named.name()
                );
            }
        }
    }
}
