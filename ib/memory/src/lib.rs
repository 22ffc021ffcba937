//! ferriband-memory
