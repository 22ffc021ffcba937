//! Types by their properties: Fortran's kinds (MPI 19.1.9), sizes (MPI_Type_match_size), and pairs (MPI_Type_get_value_index, 6.9.4).

use crate::datatype::Datatype;
use crate::envelope::{Combiner, Contents, Form};
use crate::error::Error;
use crate::named::Named;

/// What MPI_Type_create_f90_x makes a type for. `None` is MPI_UNDEFINED.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum F90 {
    /// `selected_real_kind(precision, range)`.
    Real {
        /// Decimal digits.
        precision: Option<i32>,
        /// Decimal exponent.
        range: Option<i32>,
    },
    /// The complex type of such a real.
    Complex {
        /// Decimal digits.
        precision: Option<i32>,
        /// Decimal exponent.
        range: Option<i32>,
    },
    /// `selected_int_kind(range)`.
    Integer {
        /// Decimal digits.
        range: i32,
    },
}

/// MPI_UNDEFINED in the standard ABI: contents tell it again.
const UNDEFINED: i64 = -32766;

/// Decimal precision and exponent range of the reals, from the smallest: gfortran's kinds 4, 8, 10 and 16.
const REALS: [(i32, i32, Named, Named); 4] = [
    (6, 37, Named::Real4, Named::Complex8),
    (15, 307, Named::Real8, Named::Complex16),
    (18, 4931, Named::LongDouble, Named::CLongDoubleComplex),
    (33, 4931, Named::Real16, Named::Complex32),
];

/// Decimal range of the integers.
const INTEGERS: [(i32, Named); 5] = [
    (2, Named::Integer1),
    (4, Named::Integer2),
    (9, Named::Integer4),
    (18, Named::Integer8),
    (38, Named::Integer16),
];

impl Datatype {
    /// MPI_Type_create_f90_real, _complex and _integer: the smallest type that has at least the wanted precision and range.
    /// The standard wants one handle for equal arguments: whoever has handles remembers what was asked.
    ///
    /// [`Error::NoMatch`] if no type is large enough, or if neither precision nor range is given.
    pub fn f90(wanted: F90) -> Result<Self, Error> {
        let undefined = |value: Option<i32>| value.map_or(UNDEFINED, i64::from);
        let (named, combiner, arguments) = match wanted {
            F90::Real { precision, range } | F90::Complex { precision, range } => {
                let (real, complex) = smallest_real(precision, range)?;
                let arguments = vec![undefined(precision), undefined(range)];
                match wanted {
                    F90::Real { .. } => (real, Combiner::F90Real, arguments),
                    _ => (complex, Combiner::F90Complex, arguments),
                }
            }
            F90::Integer { range } => {
                let fits = |entry: &&(i32, Named)| range <= entry.0;
                let found = INTEGERS.iter().find(fits);
                let &(_, named) = found.ok_or(Error::NoMatch("an integer of so many digits"))?;
                (named, Combiner::F90Integer, vec![range.into()])
            }
        };
        let contents = Contents::of_counts(combiner, Form::Int, arguments, Vec::new());
        Self::with_basic(Self::named(named).map().clone(), contents, Some(named))
    }
}

fn smallest_real(precision: Option<i32>, range: Option<i32>) -> Result<(Named, Named), Error> {
    if precision.is_none() && range.is_none() {
        return Err(Error::NoMatch("neither precision nor range is given"));
    }
    let fits = |entry: &&(i32, i32, Named, Named)| {
        precision.unwrap_or(0) <= entry.0 && range.unwrap_or(0) <= entry.1
    };
    let found = REALS.iter().find(fits);
    found
        .map(|&(_, _, real, complex)| (real, complex))
        .ok_or(Error::NoMatch("a real of this precision and range"))
}

/// The argument `typeclass` of MPI_Type_match_size, by its value in the standard ABI.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(i32)]
pub enum TypeClass {
    /// MPI_TYPECLASS_INTEGER.
    Integer = 192,
    /// MPI_TYPECLASS_REAL.
    Real = 193,
    /// MPI_TYPECLASS_COMPLEX.
    Complex = 194,
}

impl TypeClass {
    /// From an argument; [`Error::Constant`] if it is unknown.
    pub fn from_value(value: i32) -> Result<Self, Error> {
        match value {
            192 => Ok(Self::Integer),
            193 => Ok(Self::Real),
            194 => Ok(Self::Complex),
            _ => Err(Error::Constant {
                what: "typeclass",
                value: value.into(),
            }),
        }
    }
}

/// MPI_Type_match_size: the Fortran type of `size` bytes; [`Error::NoMatch`] if there is none.
pub fn match_size(class: TypeClass, size: i64) -> Result<Named, Error> {
    let named = match (class, size) {
        (TypeClass::Integer, 1) => Named::Integer1,
        (TypeClass::Integer, 2) => Named::Integer2,
        (TypeClass::Integer, 4) => Named::Integer4,
        (TypeClass::Integer, 8) => Named::Integer8,
        (TypeClass::Integer, 16) => Named::Integer16,
        (TypeClass::Real, 2) => Named::Real2,
        (TypeClass::Real, 4) => Named::Real4,
        (TypeClass::Real, 8) => Named::Real8,
        (TypeClass::Real, 16) => Named::Real16,
        (TypeClass::Complex, 4) => Named::Complex4,
        (TypeClass::Complex, 8) => Named::Complex8,
        (TypeClass::Complex, 16) => Named::Complex16,
        (TypeClass::Complex, 32) => Named::Complex32,
        _ => {
            return Err(Error::NoMatch(
                "no Fortran type of this class has this size",
            ));
        }
    };
    Ok(named)
}

/// MPI_Type_get_value_index: the predefined pair of these two types; `None` is MPI_DATATYPE_NULL.
pub fn value_index(value: Named, index: Named) -> Option<Named> {
    match (value, index) {
        (Named::Float, Named::Int) => Some(Named::FloatInt),
        (Named::Double, Named::Int) => Some(Named::DoubleInt),
        (Named::Long, Named::Int) => Some(Named::LongInt),
        (Named::Int, Named::Int) => Some(Named::TwoInt),
        (Named::Short, Named::Int) => Some(Named::ShortInt),
        (Named::LongDouble, Named::Int) => Some(Named::LongDoubleInt),
        (Named::Real, Named::Real) => Some(Named::TwoReal),
        (Named::DoublePrecision, Named::DoublePrecision) => Some(Named::TwoDoublePrecision),
        (Named::Integer, Named::Integer) => Some(Named::TwoInteger),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_sufficient_kind_is_chosen() {
        let real = |precision, range| {
            Datatype::f90(F90::Real { precision, range }).map(|made| made.basic().unwrap())
        };
        assert_eq!(real(Some(6), None), Ok(Named::Real4));
        assert_eq!(real(Some(3), Some(38)), Ok(Named::Real8));
        assert_eq!(real(None, Some(308)), Ok(Named::LongDouble));
        assert_eq!(real(Some(19), None), Ok(Named::Real16));
        assert!(real(Some(34), None).is_err());
        assert!(real(None, None).is_err());
        let integer = Datatype::f90(F90::Integer { range: 10 }).unwrap();
        assert_eq!(integer.size(), 8);
        assert_eq!(integer.contents().integers, [10]);
        assert!(integer.is_predefined() && integer.as_named().is_none());
    }

    #[test]
    fn contents_tell_the_arguments_again() {
        let complex = F90::Complex {
            precision: Some(7),
            range: None,
        };
        let made = Datatype::f90(complex).unwrap();
        assert_eq!(made.size(), 16);
        assert_eq!(made.contents().combiner, Combiner::F90Complex);
        assert_eq!(made.contents().integers, [7, -32766]);
        assert!(made.contents().types.is_empty());
    }

    #[test]
    fn matched_types_have_the_size() {
        for class in [TypeClass::Integer, TypeClass::Real, TypeClass::Complex] {
            for size in 0..40 {
                if let Ok(named) = match_size(class, size) {
                    assert_eq!(named.size(), size);
                }
            }
        }
        assert!(match_size(TypeClass::Real, 10).is_err());
    }
}
