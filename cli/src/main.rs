//! ferriband
fn main() {}
