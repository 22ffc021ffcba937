//! What peers may map of this process.
//!
//! Owns how a region is handed out. Must not know regions of verbs.

use std::sync::Arc;

use ferriband_memory::Segment;
use ferriband_memory::mapping::SharedMapping;

/// How peers can map a region.
#[derive(Debug)]
pub(crate) enum MapSource {
    /// One of our own segments.
    Segment(Arc<Segment>),
    /// A file of the program, and the length of the region.
    File(SharedMapping, u64),
    /// The region was deregistered.
    Gone,
}
