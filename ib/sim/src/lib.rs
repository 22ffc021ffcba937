//! ferriband-sim
