//! Names of enum values for people: the IBA's own terms, in lower case.

use ferriband_verbs_sys as sys;
use std::ffi::{CStr, c_char};

const UNKNOWN: &CStr = c"unknown";

fn name(table: &'static [&'static CStr], index: i64) -> *const c_char {
    usize::try_from(index)
        .ok()
        .and_then(|index| table.get(index))
        .unwrap_or(&UNKNOWN)
        .as_ptr()
}

/// Completion statuses by number (IBA 11.6.2).
const WC_STATUS: [&CStr; 24] = [
    c"success",
    c"local length error",
    c"local QP operation error",
    c"local EE context operation error",
    c"local protection error",
    c"Work Request Flushed Error",
    c"memory management operation error",
    c"bad response error",
    c"local access error",
    c"remote invalid request error",
    c"remote access error",
    c"remote operation error",
    c"transport retry counter exceeded",
    c"RNR retry counter exceeded",
    c"local RDD violation error",
    c"remote invalid RD request",
    c"aborted error",
    c"invalid EE context number",
    c"invalid EE context state",
    c"fatal error",
    c"response timeout error",
    c"general error",
    c"TM error",
    c"TM software rendezvous",
];

/// Asynchronous events by number (IBA 11.6.3).
const EVENTS: [&CStr; 21] = [
    c"CQ error",
    c"local work queue catastrophic error",
    c"invalid request local work queue error",
    c"local access violation work queue error",
    c"communication established",
    c"send queue drained",
    c"path migrated",
    c"path migration request error",
    c"local catastrophic error",
    c"port active",
    c"port error",
    c"LID change",
    c"P_Key change",
    c"SM change",
    c"SRQ catastrophic error",
    c"SRQ limit reached",
    c"last WQE reached",
    c"client reregistration",
    c"GID table change",
    c"WQ fatal",
    c"device speed change",
];

/// Operations of send requests by number; 12 and 13 are nobody's.
const OPERATIONS: [&CStr; 16] = [
    c"rdma-write",
    c"rdma-write-with-imm",
    c"send",
    c"send-with-imm",
    c"rdma-read",
    c"atomic-cmp-and-swp",
    c"atomic-fetch-and-add",
    c"local-inv",
    c"bind-mw",
    c"send-with-inv",
    c"tso",
    c"driver1",
    UNKNOWN,
    UNKNOWN,
    c"flush",
    c"atomic-write",
];

/// Node types from 0; the IBA's are 1 to 3, the rest are Linux's.
const NODE_TYPES: [&CStr; 8] = [
    UNKNOWN,
    c"InfiniBand channel adapter",
    c"InfiniBand switch",
    c"InfiniBand router",
    c"iWARP NIC",
    c"usNIC",
    c"usNIC UDP",
    c"unspecified",
];

/// Logical port states (IBA 14.2.5.6, PortState).
const PORT_STATES: [&CStr; 6] = [
    c"no state change (NOP)",
    c"down",
    c"init",
    c"armed",
    c"active",
    c"active defer",
];

/// `ibv_wc_status_str`: the name of a completion status.
#[unsafe(no_mangle)]
pub extern "C" fn ibv_wc_status_str(status: sys::ibv_wc_status) -> *const c_char {
    name(&WC_STATUS, status.into())
}

/// `ibv_event_type_str`: the name of an asynchronous event.
#[unsafe(no_mangle)]
pub extern "C" fn ibv_event_type_str(event: sys::ibv_event_type) -> *const c_char {
    name(&EVENTS, event.into())
}

/// `ibv_wr_opcode_str`: the name of an operation.
#[unsafe(no_mangle)]
pub extern "C" fn ibv_wr_opcode_str(opcode: sys::ibv_wr_opcode) -> *const c_char {
    name(&OPERATIONS, opcode.into())
}

/// `ibv_node_type_str`: the name of a node type.
#[unsafe(no_mangle)]
pub extern "C" fn ibv_node_type_str(node_type: sys::ibv_node_type) -> *const c_char {
    name(&NODE_TYPES, node_type.into())
}

/// `ibv_port_state_str`: the name of a port state.
#[unsafe(no_mangle)]
pub extern "C" fn ibv_port_state_str(port_state: sys::ibv_port_state) -> *const c_char {
    name(&PORT_STATES, port_state.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(pointer: *const c_char) -> &'static str {
        // SAFETY: the functions under test return static, NUL-terminated strings.
        unsafe { CStr::from_ptr(pointer) }.to_str().expect("ASCII")
    }

    #[test]
    fn each_value_has_its_name() {
        assert_eq!(text(ibv_wc_status_str(sys::IBV_WC_SUCCESS)), "success");
        assert_eq!(
            text(ibv_wc_status_str(sys::IBV_WC_RETRY_EXC_ERR)),
            "transport retry counter exceeded"
        );
        assert_eq!(
            text(ibv_wc_status_str(sys::IBV_WC_TM_RNDV_INCOMPLETE)),
            "TM software rendezvous"
        );
        assert_eq!(
            text(ibv_event_type_str(sys::IBV_EVENT_WQ_FATAL)),
            "WQ fatal"
        );
        assert_eq!(
            text(ibv_event_type_str(sys::IBV_EVENT_QP_LAST_WQE_REACHED)),
            "last WQE reached"
        );
        assert_eq!(
            text(ibv_node_type_str(sys::IBV_NODE_CA)),
            "InfiniBand channel adapter"
        );
        assert_eq!(
            text(ibv_node_type_str(sys::IBV_NODE_UNSPECIFIED)),
            "unspecified"
        );
        assert_eq!(text(ibv_port_state_str(sys::IBV_PORT_ACTIVE)), "active");
    }

    #[test]
    fn values_outside_the_enums_are_unknown() {
        assert_eq!(text(ibv_wc_status_str(24)), "unknown");
        assert_eq!(text(ibv_event_type_str(u32::MAX)), "unknown");
        assert_eq!(text(ibv_node_type_str(-1)), "unknown");
        assert_eq!(text(ibv_port_state_str(6)), "unknown");
    }
}
