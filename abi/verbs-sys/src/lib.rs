//! ferriband-verbs-sys
