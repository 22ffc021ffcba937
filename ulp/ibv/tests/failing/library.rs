//! The libraries of verbs that fail one call, compiled.

use ferriband_testkit::{Cc, Place, has_header};
use std::path::{Path, PathBuf};
use std::thread;

/// Where the sources lie, from the package of the test that has this module.
pub fn sources() -> PathBuf {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut roots = package.ancestors();
    let root = roots.find(|root| root.join("ulp/ibv/tests/failing").is_dir());
    root.expect("a package of this workspace")
        .join("ulp/ibv/tests/failing")
}

/// A directory with both libraries, which let those in `real` do the work. None without headers.
pub fn libraries(place: Place) -> Option<PathBuf> {
    compiled(place, "failing", &[])
}

/// As [`libraries`], in another directory, with what upper protocols know our own library by: they
/// do what they do for our adapter alone.
#[allow(
    dead_code,
    reason = "not each of the tests that have this module wants it"
)]
pub fn our_libraries(place: Place) -> Option<PathBuf> {
    compiled(place, "failing-ours", &["-DFAILING_IS_OURS"])
}

/// A directory with both libraries, for which `options` are set.
fn compiled(place: Place, name: &str, options: &[&str]) -> Option<PathBuf> {
    if !has_header("rdma/rdma_cma.h", "librdmacm-dev") {
        return None;
    }
    let directory = place.out(&format!("{name}-{}", env!("CARGO_PKG_NAME")));
    std::fs::create_dir_all(&directory).expect("a directory");
    let verbs = directory.join("libibverbs.so.1");
    for (name, file, needs) in [
        ("verbs", "libibverbs.so.1", None),
        ("rdmacm", "librdmacm.so.1", Some(&verbs)),
    ] {
        let source = sources().join(format!("failing_{name}.c"));
        // tests run side by side: whoever has loaded the old file keeps it
        let fresh = directory.join(format!("{file}.{:?}", thread::current().id()));
        let fresh = Cc::of(source, fresh)
            .options(["-O1"])
            .options(options)
            .options([format!("-Wl,-soname,libfailing_{name}.so.1")])
            .shared()
            .links(needs)
            .compile();
        std::fs::rename(&fresh, directory.join(file)).expect("moved");
    }
    Some(directory)
}
