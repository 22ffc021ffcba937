//! Which adapter of a pair takes subnet management packets and which general ones (rdma-core 56).
//!
//! A node whose planes are adapters of their own has one for each kind. Ours take both, so both names of a pair are the same.

use crate::boundary::entry;
use crate::layout::{CaPair, NAME, name};
use crate::list::given;
use crate::source::{self, Found};
use std::ffi::{c_char, c_int, c_uint};

/// NodeType of a switch (IBA 14.2.5.3).
const SWITCH: u8 = 2;

/// PortState of a port that is down (IBA 14.2.5.6).
const DOWN: u8 = 1;

/// Writes the pair of an adapter, with the same preferred port for both kinds; 0: none is said.
fn pair(ca: &str, port: u8) -> CaPair {
    CaPair {
        smi_name: name(ca),
        smi_preferred_port: port.into(),
        gsi_name: name(ca),
        gsi_preferred_port: port.into(),
    }
}

/// The adapters that make a pair: those with a port that has a GUID and with a name that fits. The error is the system's errno while
/// they cannot be looked for.
fn adapters() -> Result<Vec<Found>, c_int> {
    let mut adapters = Vec::new();
    for ca in source::names()?.into_iter().filter(|ca| ca.len() < NAME) {
        match source::find(&ca) {
            Ok(found) if found.adapter.ports.iter().any(|port| port.guid != 0) => {
                adapters.push(found);
            }
            Err(errno) if source::is_scarcity(errno) => return Err(errno),
            Ok(_) | Err(_) => {}
        }
    }
    Ok(adapters)
}

/// `umad_get_smi_gsi_pairs`: writes at most `max` pairs, without preferred ports; their number.
///
/// # Safety
/// `pairs` has room for `max` pairs.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umad_get_smi_gsi_pairs(pairs: *mut CaPair, max: usize) -> c_int {
    entry(|| {
        let mut count = 0;
        for found in adapters()?.iter().take(max) {
            // SAFETY: the caller's promise, and fewer than `max` were written.
            unsafe { pairs.add(count).write(pair(&found.name, 0)) };
            count += 1;
        }
        Ok(count as c_int)
    })
}

/// `umad_get_smi_gsi_pair_by_ca_name`: the pair of the adapter with this name (NULL: of the first that has such a port), with the port that
/// is asked for (0: its only one, or the first that is not down) as the preferred one. -ENODEV if there is none.
///
/// # Safety
/// `ca_name` is NULL or a string, `to` is NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umad_get_smi_gsi_pair_by_ca_name(
    ca_name: *const c_char,
    portnum: u8,
    to: *mut CaPair,
    _enforce_smi: c_uint,
) -> c_int {
    if to.is_null() {
        return -1;
    }
    entry(|| {
        // SAFETY: the caller's promise.
        let wanted = unsafe { given(ca_name) };
        let adapters = adapters()?;
        let of_name = adapters
            .iter()
            .filter(|found| wanted.as_ref().is_none_or(|ca| *ca == found.name));
        let chosen = of_name
            .filter_map(|found| {
                let port = preferred(found, portnum, wanted.is_some())?;
                Some(pair(&found.name, port))
            })
            .next();
        // SAFETY: the caller's promise, and it is not NULL.
        unsafe { to.write(chosen.ok_or(libc::ENODEV)?) };
        Ok(0)
    })
}

/// The port that is meant. One that is down is taken only of an adapter that the program names.
fn preferred(found: &Found, portnum: u8, is_named: bool) -> Option<u8> {
    let ports = &found.adapter.ports;
    let is_switch = found.adapter.node_type == SWITCH;
    let number = match (portnum, ports.as_slice()) {
        (0, [only]) => Some(only.port),
        (0, _) if is_switch => Some(0),
        (0, _) => None,
        (given, _) => Some(given),
    };
    let mut usable = ports.iter().filter(|port| match number {
        Some(number) => port.port == number && (is_named || port.state > DOWN),
        None => port.state > DOWN,
    });
    usable.next().map(|port| port.port)
}
