//! Functions of the API that need no device: names of enum values, rates, structure copies, fork answers.
//! They know nothing of contexts or of the adapter.

pub mod fork;
pub mod grh;
pub mod marshal;
pub mod rates;
pub mod strings;
