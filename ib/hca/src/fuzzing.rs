//! Doors for the fuzz target: what comes from a socket, without one. Built for fuzzing alone (`--cfg fuzzing`).

use ferriband_cm::Route;
use ferriband_memory::host::HAND_OVER_HEAD;
use ferriband_transport::types::AddressVector;
use ferriband_wire::Gid;
use ferriband_wire::mad::MAD_LEN;

use crate::cm::engine::Engine;
use crate::cm::owner::owner_of_mad;

/// A management datagram: out of the post box of the process in `slot`, or from the network.
pub fn management(engine: &Engine, slot: Option<u32>, from: Gid, mad: &[u8; MAD_LEN]) {
    let route = match slot {
        Some(slot) => Route::Host { slot },
        None => Route::Gsi {
            device: 0,
            sgid_index: 0,
            av: AddressVector {
                dgid: from,
                is_global: true,
                port_num: 1,
                ..AddressVector::default()
            },
        },
    };
    let to = engine.gid();
    let _ = owner_of_mad(engine, &to, mad);
    engine.cm().message(engine, route, Some(to), mad);
}

/// A packet for queue pair 1 as another process hands it over.
pub fn datagram(engine: &Engine, head: &[u8; HAND_OVER_HEAD], bytes: &[u8]) {
    let _ = crate::cm::arrive::ask_again(engine, head, bytes, true);
}
