//! What can be wrong with the arguments of a datatype or an operation, and the standard's class for each.

/// An error class of MPI (9.4), by its value in the standard ABI.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(i32)]
pub enum Class {
    /// `MPI_ERR_COUNT`: a count is negative.
    Count = 2,
    /// `MPI_ERR_TYPE`: a datatype cannot be used so.
    Type = 3,
    /// `MPI_ERR_OP`: an operation does not apply to a datatype.
    Op = 10,
    /// `MPI_ERR_DIMS`: a number of dimensions is wrong.
    Dims = 12,
    /// `MPI_ERR_ARG`: some other argument is wrong.
    Arg = 13,
    /// `MPI_ERR_OTHER`.
    Other = 16,
    /// `MPI_ERR_CONVERSION`: a value does not fit the external representation.
    Conversion = 25,
    /// `MPI_ERR_UNSUPPORTED_DATAREP`: a representation that is not known.
    UnsupportedDatarep = 54,
}

impl Class {
    /// The class as MPI functions return it.
    pub fn code(self) -> i32 {
        self as i32
    }
}

/// Why a datatype was not made, or data was not moved or reduced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A number of elements or blocks is negative.
    #[error("count {0} is negative")]
    Count(i64),
    /// A number of elements in a block is negative.
    #[error("blocklength {value} of block {index} is negative")]
    Blocklength {
        /// Which block.
        index: usize,
        /// What was passed.
        value: i64,
    },
    /// Arrays that belong together differ in length.
    #[error("arrays of {expected} and of {got} elements were passed together")]
    Lengths {
        /// The length of the first.
        expected: usize,
        /// The length of the other.
        got: usize,
    },
    /// Size, extent or a displacement would not fit 64 bits.
    #[error("the datatype's size, bounds or displacements do not fit 64 bits")]
    Overflow,
    /// Types are nested deeper than this library follows.
    #[error("datatypes are nested deeper than {0} levels")]
    TooDeep(u32),
    /// A number of dimensions under 1.
    #[error("{0} dimensions: at least 1 is needed")]
    Dimensions(usize),
    /// An array dimension is not as the constructor needs it.
    #[error("dimension {dimension}: {what} is {value}, which is out of range")]
    Dimension {
        /// Which dimension, from 0.
        dimension: usize,
        /// The argument.
        what: &'static str,
        /// What was passed.
        value: i64,
    },
    /// The process grid does not have the stated number of processes, or the rank is not in it.
    #[error("{what} is {value}, but the process grid has {expected} processes")]
    Grid {
        /// The argument.
        what: &'static str,
        /// What was passed.
        value: i64,
        /// Processes of the grid.
        expected: i64,
    },
    /// A constant of an argument is unknown.
    #[error("{what} has the unknown value {value}")]
    Constant {
        /// The argument.
        what: &'static str,
        /// What was passed.
        value: i64,
    },
    /// No Fortran type has the wanted precision and range, or no type has the wanted size.
    #[error("no datatype matches: {0}")]
    NoMatch(&'static str),
    /// The operation is not defined for the datatype (6.9.2).
    #[error("{op} is not defined for {datatype}")]
    Operation {
        /// The operation's name.
        op: &'static str,
        /// The datatype's name, or what it is.
        datatype: &'static str,
    },
    /// A derived datatype where a predefined one is needed.
    #[error("a predefined operation needs a predefined datatype")]
    NotPredefined,
    /// A packed buffer ends too early, or its position lies outside it.
    #[error("the buffer has {room} bytes left at its position and {needed} are needed")]
    Room {
        /// Bytes needed.
        needed: i64,
        /// Bytes from the position to the end.
        room: i64,
    },
    /// A value has no external32 representation.
    #[error("a value does not fit the {0} bytes that external32 has for its type")]
    Conversion(usize),
    /// A data representation other than external32.
    #[error("only the data representation external32 is known")]
    Datarep,
}

impl Error {
    /// The standard's class of this error.
    pub fn class(&self) -> Class {
        match self {
            Self::Count(_) => Class::Count,
            Self::Blocklength { .. }
            | Self::Lengths { .. }
            | Self::Overflow
            | Self::Dimension { .. }
            | Self::Grid { .. }
            | Self::Constant { .. }
            | Self::NoMatch(_)
            | Self::Room { .. } => Class::Arg,
            Self::Dimensions(_) => Class::Dims,
            Self::TooDeep(_) => Class::Other,
            Self::Operation { .. } | Self::NotPredefined => Class::Op,
            Self::Conversion(_) => Class::Conversion,
            Self::Datarep => Class::UnsupportedDatarep,
        }
    }
}
