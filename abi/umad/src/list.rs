//! `umad_get_ca*`: which adapters and ports there are.

use crate::boundary::{entry, guard, set_errno};
use crate::layout::{Ca, DeviceNode, MAX_PORTS, NAME, Port, name};
use crate::source::{self, Found};
use ferriband_attach::ask::AdapterPort;
use std::ffi::{CStr, c_char, c_int};
use std::ptr::null_mut;

/// `umad_init`.
#[unsafe(no_mangle)]
pub extern "C" fn umad_init() -> c_int {
    0
}

/// `umad_done`.
#[unsafe(no_mangle)]
pub extern "C" fn umad_done() -> c_int {
    0
}

/// A C string, or none for NULL.
///
/// # Safety
/// `text` is NULL or a string.
pub unsafe fn given(text: *const c_char) -> Option<String> {
    if text.is_null() {
        return None;
    }
    // SAFETY: the caller's promise.
    let text = unsafe { CStr::from_ptr(text) };
    Some(text.to_string_lossy().into_owned())
}

/// How good a port is for somebody who named none: 2 active, 1 with a link, 0 else; None for one that carries no InfiniBand.
fn rank(found: &Found, index: usize) -> Option<u8> {
    let layer = &found.link_layers[index];
    if layer != "InfiniBand" && layer != "IB" {
        return None;
    }
    let port = &found.adapter.ports[index];
    Some(match (port.state, port.phys_state) {
        (4, _) => 2,
        (_, 5) => 1,
        _ => 0,
    })
}

/// The adapter and the port that are meant: those that are named, else the best.
///
/// # Errors
/// ENODEV, and the system's errno while none can be looked for.
pub fn choose(ca: Option<String>, port: c_int) -> Result<(Found, u8), c_int> {
    let names = match ca {
        Some(ca) => vec![ca],
        None => source::names()?,
    };
    let mut best: Option<(u8, Found, u8)> = None;
    for name in names {
        let found = match source::find(&name) {
            Ok(found) => found,
            Err(errno) if source::is_scarcity(errno) => return Err(errno),
            Err(_) => continue,
        };
        for index in 0..found.adapter.ports.len() {
            let number = found.adapter.ports[index].port;
            // a switch has one port for this, whatever is asked for
            let meant = port <= 0 || found.adapter.node_type == 2 || port == c_int::from(number);
            let Some(rank) = rank(&found, index).filter(|_| meant) else {
                continue;
            };
            if best.as_ref().is_none_or(|(other, ..)| *other < rank) {
                best = Some((rank, found.clone(), number));
            }
        }
    }
    let (_, found, port) = best.ok_or(libc::ENODEV)?;
    Ok((found, port))
}

/// The adapter that is meant.
fn choose_ca(ca: Option<String>) -> Result<Found, c_int> {
    match ca {
        Some(ca) => source::find(&ca),
        None => choose(None, 0).map(|(found, _)| found),
    }
}

/// `umad_get_cas_names`: writes at most `max` names; their number.
///
/// # Safety
/// `cas` has room for `max` names of 20 bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umad_get_cas_names(cas: *mut [c_char; NAME], max: c_int) -> c_int {
    entry(|| {
        let mut count = 0;
        for ca in source::names()? {
            if count == max.max(0) || ca.len() >= NAME {
                break;
            }
            // SAFETY: the caller's promise, and fewer than `max` were written.
            unsafe { cas.add(count as usize).write(name(&ca)) };
            count += 1;
        }
        Ok(count)
    })
}

/// `umad_get_ca_portguids`: the GUIDs of the ports from 0 on, 0 where there is none; their number.
///
/// # Safety
/// `ca` is NULL or a string, `guids` NULL or has room for `max` of them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umad_get_ca_portguids(
    ca: *const c_char,
    guids: *mut u64,
    max: c_int,
) -> c_int {
    entry(|| {
        // SAFETY: the caller's promise.
        let found = choose_ca(unsafe { given(ca) })?;
        if guids.is_null() {
            return Ok(0);
        }
        let count = port_count(&found) + 1;
        if count as c_int > max {
            return Err(libc::ENOMEM);
        }
        for number in 0..count {
            let port = found.adapter.ports.iter();
            let guid = port
                .filter(|port| usize::from(port.port) == number)
                .map(|port| port.guid)
                .next();
            // SAFETY: the caller's promise: `number` is below `max`.
            unsafe { guids.add(number).write(guid.unwrap_or(0).to_be()) };
        }
        Ok(count as c_int)
    })
}

/// What `numports` says: of a switch nothing but port 0 counts here.
fn port_count(found: &Found) -> usize {
    let ports = found.adapter.ports.iter().map(|port| port.port);
    usize::from(ports.max().unwrap_or(0)).min(MAX_PORTS - 1)
}

/// A port in the program's words. Its keys are allocated; None if there is no memory.
fn fill_port(ca: &str, link_layer: &str, port: &AdapterPort) -> Option<Port> {
    // SAFETY: calloc has no conditions.
    let pkeys: *mut u16 = unsafe { libc::calloc(port.pkeys.len().max(1), 2) }.cast();
    if pkeys.is_null() {
        return None;
    }
    for (index, key) in port.pkeys.iter().enumerate() {
        // SAFETY: there is room for all of them.
        unsafe { pkeys.add(index).write(*key) };
    }
    Some(Port {
        ca_name: name(ca),
        portnum: port.port.into(),
        base_lid: port.lid.into(),
        lmc: port.lmc.into(),
        sm_lid: port.sm_lid.into(),
        sm_sl: port.sm_sl.into(),
        state: port.state.into(),
        phys_state: port.phys_state.into(),
        rate: port.rate_mbps / 1000,
        capmask: port.capabilities.to_be(),
        gid_prefix: port.prefix.to_be(),
        port_guid: port.guid.to_be(),
        pkeys_size: port.pkeys.len() as u32,
        pkeys,
        link_layer: name(link_layer),
    })
}

/// `umad_get_ca`.
///
/// # Safety
/// `ca_name` is NULL or a string, `ca` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umad_get_ca(ca_name: *const c_char, ca: *mut Ca) -> c_int {
    entry(|| {
        // SAFETY: the caller's promise.
        let found = choose_ca(unsafe { given(ca_name) })?;
        let mut ports = [null_mut(); MAX_PORTS];
        for (port, link_layer) in found.adapter.ports.iter().zip(&found.link_layers) {
            let Some(place) = ports.get_mut(usize::from(port.port)) else {
                continue;
            };
            let Some(filled) = fill_port(&found.name, link_layer, port) else {
                return Err(libc::ENOMEM);
            };
            // SAFETY: calloc has no conditions.
            let room: *mut Port = unsafe { libc::calloc(1, size_of::<Port>()) }.cast();
            if room.is_null() {
                return Err(libc::ENOMEM);
            }
            // SAFETY: room for one was just allocated.
            unsafe { room.write(filled) };
            *place = room;
        }
        let filled = Ca {
            ca_name: name(&found.name),
            node_type: found.adapter.node_type.into(),
            numports: port_count(&found) as c_int,
            fw_ver: name(&found.firmware),
            ca_type: name(&found.kind),
            hw_ver: name(&found.hardware),
            node_guid: found.adapter.node_guid.to_be(),
            system_guid: found.system_guid.to_be(),
            ports,
        };
        // SAFETY: the caller's promise.
        unsafe { ca.write(filled) };
        Ok(0)
    })
}

/// `umad_release_ca`.
///
/// # Safety
/// `ca` is NULL or was filled by `umad_get_ca`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umad_release_ca(ca: *mut Ca) -> c_int {
    // SAFETY: the caller's promise.
    let Some(ca) = (unsafe { ca.as_mut() }) else {
        return -libc::ENODEV;
    };
    for port in &mut ca.ports {
        // SAFETY: each is NULL or from `umad_get_ca`, and is forgotten.
        unsafe { umad_release_port(*port) };
        // SAFETY: as above.
        unsafe { libc::free((*port).cast()) };
        *port = null_mut();
    }
    0
}

/// `umad_get_port`.
///
/// # Safety
/// `ca_name` is NULL or a string, `port` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umad_get_port(
    ca_name: *const c_char,
    portnum: c_int,
    port: *mut Port,
) -> c_int {
    entry(|| {
        // SAFETY: the caller's promise.
        let (found, number) = choose(unsafe { given(ca_name) }, portnum)?;
        let at = found.adapter.ports.iter();
        let index = at.map(|port| port.port).position(|port| port == number);
        let index = index.ok_or(libc::ENODEV)?;
        let filled = fill_port(
            &found.name,
            &found.link_layers[index],
            &found.adapter.ports[index],
        );
        // SAFETY: the caller's promise.
        unsafe { port.write(filled.ok_or(libc::ENOMEM)?) };
        Ok(0)
    })
}

/// `umad_release_port`.
///
/// # Safety
/// `port` is NULL or was filled by `umad_get_port`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umad_release_port(port: *mut Port) -> c_int {
    // SAFETY: the caller's promise.
    let Some(port) = (unsafe { port.as_mut() }) else {
        return -libc::ENODEV;
    };
    // SAFETY: allocated by `fill_port`, and forgotten.
    unsafe { libc::free(port.pkeys.cast()) };
    port.pkeys = null_mut();
    port.pkeys_size = 0;
    0
}

/// `umad_get_issm_path`: opening that file says under Linux that a manager is there. Here whoever registers for a manager's packets is one, so the path is of a file
/// that can be opened, and nothing comes of it.
///
/// # Safety
/// `ca_name` is NULL or a string, `path` has room for `max` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umad_get_issm_path(
    ca_name: *const c_char,
    portnum: c_int,
    path: *mut c_char,
    max: c_int,
) -> c_int {
    entry(|| {
        // SAFETY: the caller's promise.
        choose(unsafe { given(ca_name) }, portnum)?;
        let text = c"/dev/null";
        if max < text.to_bytes_with_nul().len() as c_int {
            return Err(libc::EINVAL);
        }
        // SAFETY: the caller's promise, and it fits.
        unsafe { path.copy_from_nonoverlapping(text.as_ptr(), text.to_bytes_with_nul().len()) };
        Ok(0)
    })
}

/// `umad_get_ca_device_list`: NULL with errno 0 if there are none.
#[unsafe(no_mangle)]
pub extern "C" fn umad_get_ca_device_list() -> *mut DeviceNode {
    let listed = guard(|| {
        let mut head = null_mut();
        for ca in source::names()?.iter().rev() {
            // the node, and its name behind it
            let bytes = size_of::<DeviceNode>() + ca.len() + 1;
            // SAFETY: calloc has no conditions.
            let node: *mut DeviceNode = unsafe { libc::calloc(1, bytes) }.cast();
            if node.is_null() {
                // SAFETY: a list of ours.
                unsafe { umad_free_ca_device_list(head) };
                return Err(libc::ENOMEM);
            }
            // SAFETY: one past the node, within what was allocated.
            let text: *mut c_char = unsafe { node.add(1) }.cast();
            // SAFETY: room for the name and the zero that calloc left.
            unsafe { text.copy_from_nonoverlapping(ca.as_ptr().cast(), ca.len()) };
            // SAFETY: the node is ours and of its size.
            unsafe {
                node.write(DeviceNode {
                    next: head,
                    ca_name: text,
                });
            }
            head = node;
        }
        Ok(head)
    });
    set_errno(listed.as_ref().err().copied().unwrap_or(0));
    listed.unwrap_or(null_mut())
}

/// `umad_free_ca_device_list`.
///
/// # Safety
/// `head` is NULL or a list from `umad_get_ca_device_list`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umad_free_ca_device_list(head: *mut DeviceNode) {
    let mut node = head;
    while !node.is_null() {
        // SAFETY: the caller's promise.
        let next = unsafe { (*node).next };
        // SAFETY: it was allocated by calloc and is not looked at again.
        unsafe { libc::free(node.cast()) };
        node = next;
    }
}

/// `umad_sort_ca_device_list`: by name; `size` is the list's length, 0 if it is not known.
///
/// # Safety
/// `head` points to a list from `umad_get_ca_device_list`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umad_sort_ca_device_list(
    head: *mut *mut DeviceNode,
    size: usize,
) -> c_int {
    let mut nodes = Vec::new();
    // SAFETY: the caller's promise.
    let mut node = unsafe { *head };
    while !node.is_null() {
        // SAFETY: the caller's promise.
        let name = unsafe { given((*node).ca_name) }.unwrap_or_default();
        nodes.push((name, node));
        // SAFETY: as above.
        node = unsafe { (*node).next };
    }
    if size != 0 && size != nodes.len() {
        return libc::EINVAL;
    }
    nodes.sort();
    let mut next = null_mut();
    for (_, node) in nodes.into_iter().rev() {
        // SAFETY: each is a node of the list.
        unsafe { (*node).next = next };
        next = node;
    }
    // SAFETY: the caller's promise.
    unsafe { *head = next };
    0
}
