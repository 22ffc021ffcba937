//! ferriband-hca
