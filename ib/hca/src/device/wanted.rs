//! Which wire the environment wants.
//!
//! Owns the variable. Must not know: the wires.

use super::fabric;

/// Says how the wire of a queue pair is chosen: with `roce` Ethernet devices send packets to peers
/// of the same host, too; with `packets` the InfiniBand device does as well.
pub const WIRE_VARIABLE: &str = "FERRIBAND_WIRE";

/// True if peers of the same host are to be reached by packets, too, from Ethernet devices or from
/// the InfiniBand device.
pub(crate) fn forced(ethernet: bool) -> bool {
    let wire = std::env::var_os(WIRE_VARIABLE);
    // on a host of a fabric there is no other wire
    !ethernet && fabric::host().is_some()
        || wire.is_some_and(|value| value == "packets" || ethernet && value == "roce")
}
