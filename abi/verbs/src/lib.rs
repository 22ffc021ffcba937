//! ferriband-verbs
