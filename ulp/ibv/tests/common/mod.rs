//! The fake library of verbs, which only writes down what it was asked.

use ferriband_testkit::{Cc, has_header, place};
use std::path::PathBuf;

/// Builds the fake library with these macros defined; `None` where the headers are missing.
pub fn fake(name: &str, defined: &[&str]) -> Option<PathBuf> {
    if !has_header("infiniband/verbs.h", "libibverbs-dev") {
        return None;
    }
    let library = Cc::new(place!(), "fake_verbs", &format!("{name}.so"))
        .options(["-O1"])
        .options(defined.iter().map(|name| format!("-D{name}")))
        .options([format!("-Wl,-soname,lib{name}.so.1")])
        .shared()
        .compile();
    Some(library)
}
