//! How a type was made (MPI 5.1.13): what MPI_Type_get_envelope and MPI_Type_get_contents tell.

use crate::datatype::Datatype;

/// The constructor of a type, by its value in the standard ABI.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(i32)]
#[allow(missing_docs)] // MPI's own names
pub enum Combiner {
    Named = 101,
    Dup = 102,
    Contiguous = 103,
    Vector = 104,
    Hvector = 105,
    Indexed = 106,
    Hindexed = 107,
    IndexedBlock = 108,
    HindexedBlock = 109,
    Struct = 110,
    Subarray = 111,
    Darray = 112,
    F90Real = 113,
    F90Complex = 114,
    F90Integer = 115,
    Resized = 116,
    ValueIndex = 117,
}

impl Combiner {
    /// The value of MPI_COMBINER_x.
    pub fn value(self) -> i32 {
        self as i32
    }
}

/// Which of the two functions made a type: it decides where its arguments are found again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Form {
    /// MPI_Type_x: counts are `int`, displacements in bytes are `MPI_Aint`.
    Int,
    /// MPI_Type_x_c: both are `MPI_Count`.
    Count,
}

/// The arguments of a constructor, in the order of the standard's tables.
///
/// Types made by the functions with `MPI_Count` have [`counts`](Self::counts) and can be asked about by
/// MPI_Type_get_envelope_c and MPI_Type_get_contents_c only; the others never have any.
#[derive(Debug, Clone)]
pub struct Contents {
    /// The constructor.
    pub combiner: Combiner,
    /// `array_of_integers`.
    pub integers: Vec<i32>,
    /// `array_of_addresses`.
    pub addresses: Vec<i64>,
    /// `array_of_large_counts`.
    pub counts: Vec<i64>,
    /// `array_of_datatypes`.
    pub types: Vec<Datatype>,
}

impl Contents {
    /// Arguments that are counts in both forms.
    pub(crate) fn of_counts(
        combiner: Combiner,
        form: Form,
        counts: impl IntoIterator<Item = i64>,
        types: Vec<Datatype>,
    ) -> Self {
        Self::of(combiner, form, counts, [], types)
    }

    /// Arguments that are counts, then displacements in bytes.
    pub(crate) fn of(
        combiner: Combiner,
        form: Form,
        counts: impl IntoIterator<Item = i64>,
        bytes: impl IntoIterator<Item = i64>,
        types: Vec<Datatype>,
    ) -> Self {
        let mut contents = Self {
            combiner,
            integers: Vec::new(),
            addresses: Vec::new(),
            counts: Vec::new(),
            types,
        };
        match form {
            Form::Int => {
                // Callers of this form passed `int`s: nothing is cut off.
                contents.integers = counts.into_iter().map(|count| count as i32).collect();
                contents.addresses = bytes.into_iter().collect();
            }
            Form::Count => contents.counts = counts.into_iter().chain(bytes).collect(),
        }
        contents
    }
}
