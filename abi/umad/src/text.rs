//! `umad_*_str`: what numbers are called.

use std::ffi::{CStr, c_char};

/// Names by number.
type Names = &'static [(u16, &'static CStr)];

const CLASSES: Names = &[
    (0x01, c"Subn"),
    (0x81, c"Subn"),
    (0x03, c"SubnAdm"),
    (0x04, c"Perf"),
    (0x05, c"BM"),
    (0x06, c"DevMgt"),
    (0x07, c"ComMgt"),
    (0x08, c"SNMP"),
    (0x10, c"DevAdm"),
    (0x11, c"BootMgt"),
    (0x12, c"BIS"),
    (0x21, c"CongestionManagment"),
];
const METHODS: Names = &[
    (0x01, c"Get"),
    (0x02, c"Set"),
    (0x81, c"GetResp"),
    (0x03, c"Send"),
    (0x05, c"Trap"),
    (0x06, c"Report"),
    (0x86, c"ReportResp"),
    (0x07, c"TrapRepress"),
];
const SA_METHODS: Names = &[
    (0x12, c"GetTable"),
    (0x92, c"GetTableResp"),
    (0x15, c"Delete"),
    (0x95, c"DeleteResp"),
    (0x14, c"GetMulti"),
    (0x94, c"GetMultiResp"),
    (0x13, c"GetTraceTable"),
];
const SA_STATUS: Names = &[
    (0, c"Success"),
    (1, c"No Resources"),
    (2, c"Request Invalid"),
    (3, c"No Records"),
    (4, c"Too Many Records"),
    (5, c"Invalid GID"),
    (6, c"Insufficient Components"),
    (7, c"Request Denied"),
    (8, c"Priority Suggested"),
];
const ATTRIBUTES: Names = &[
    (0x01, c"Class Port Info"),
    (0x02, c"Notice"),
    (0x03, c"Inform Info"),
];
const SM_ATTRIBUTES: Names = &[
    (0x10, c"NodeDescription"),
    (0x11, c"NodeInfo"),
    (0x12, c"SwitchInfo"),
    (0x14, c"GUIDInfo"),
    (0x15, c"PortInfo"),
    (0x16, c"P_KeyTable"),
    (0x17, c"SLtoVLMappingTable"),
    (0x18, c"VLArbitrationTable"),
    (0x19, c"LinearForwardingTable"),
    (0x1a, c"RandomForwardingTable"),
    (0x1b, c"MulticastForwardingTable"),
    (0x1c, c"LinkSpeedWidthPairsTable"),
    (0x1d, c"VendorSpecificMadsTable"),
    (0x1e, c"HierarchyInfo"),
    (0x20, c"SMInfo"),
    (0x30, c"VendorDiag"),
    (0x31, c"LedInfo"),
    (0x32, c"CableInfo"),
    (0x33, c"PortInfoExtended"),
];
const SA_ATTRIBUTES: Names = &[
    (0x11, c"NodeRecord"),
    (0x12, c"PortInfoRecord"),
    (0x13, c"SLtoVLMappingTableRecord"),
    (0x14, c"SwitchInfoRecord"),
    (0x15, c"LinearForwardingTableRecord"),
    (0x16, c"RandomForwardingTableRecord"),
    (0x17, c"MulticastForwardingTableRecord"),
    (0x18, c"SMInfoRecord"),
    (0x19, c"LinkSpeedWidthPairsTableRecord"),
    (0xf3, c"InformInfoRecord"),
    (0x20, c"LinkRecord"),
    (0x30, c"GuidInfoRecord"),
    (0x31, c"ServiceRecord"),
    (0x33, c"P_KeyTableRecord"),
    (0x35, c"PathRecord"),
    (0x36, c"VLArbitrationTableRecord"),
    (0x38, c"MCMemberRecord"),
    (0x39, c"TraceRecord"),
    (0x3a, c"MultiPathRecord"),
    (0x3b, c"ServiceAssociationRecord"),
    (0x3c, c"HierarchyInfoRecord"),
    (0x3d, c"CableInfoRecord"),
    (0x3e, c"PortInfoExtendedRecord"),
];
const CM_ATTRIBUTES: Names = &[
    (0x10, c"ConnectRequest"),
    (0x11, c"MsgRcptAck"),
    (0x12, c"ConnectReject"),
    (0x13, c"ConnectReply"),
    (0x14, c"ReadyToUse"),
    (0x15, c"DisconnectRequest"),
    (0x16, c"DisconnectReply"),
    (0x17, c"ServiceIDResReq"),
    (0x18, c"ServiceIDResReqResp"),
    (0x19, c"LoadAlternatePath"),
    (0x1a, c"AlternatePathResponse"),
    (0x1b, c"SuggestAlternatePath"),
    (0x1c, c"SuggestPathResponse"),
];

const SUBN_ADM: u8 = 3;
const COM_MGT: u8 = 7;

fn find(number: u16, tables: &[Names]) -> Option<&'static CStr> {
    let mut all = tables.iter().copied().flatten();
    all.find(|(own, _)| *own == number).map(|(_, name)| *name)
}

fn or_unknown(name: Option<&'static CStr>) -> *const c_char {
    name.unwrap_or(c"<unknown>").as_ptr()
}

/// `umad_class_str`.
#[unsafe(no_mangle)]
pub extern "C" fn umad_class_str(class: u8) -> *const c_char {
    let range = match class {
        0x09..=0x0f | 0x30..=0x4f => Some(c"Vendor"),
        0x10..=0x2f => Some(c"Application"),
        _ => None,
    };
    or_unknown(find(class.into(), &[CLASSES]).or(range))
}

/// `umad_method_str`.
#[unsafe(no_mangle)]
pub extern "C" fn umad_method_str(class: u8, method: u8) -> *const c_char {
    let own: Names = if class == SUBN_ADM { SA_METHODS } else { &[] };
    or_unknown(find(method.into(), &[own, METHODS]))
}

/// `umad_common_mad_status_str`; `status` as on the wire.
#[unsafe(no_mangle)]
pub extern "C" fn umad_common_mad_status_str(status: u16) -> *const c_char {
    let status = u16::from_be(status);
    let name = match (status & 1, status & 2, status >> 2 & 7) {
        (1, ..) => c"Busy",
        (_, 2, _) => c"Redirection required",
        (.., 1) => c"Bad Version",
        (.., 2) => c"Method not supported",
        (.., 3) => c"Method/Attribute combo not supported",
        (.., 7) => c"Invalid attribute/modifier field",
        _ => c"Success",
    };
    name.as_ptr()
}

/// `umad_sa_mad_status_str`; `status` as on the wire.
#[unsafe(no_mangle)]
pub extern "C" fn umad_sa_mad_status_str(status: u16) -> *const c_char {
    let code = u16::from_be(status) >> 8;
    find(code, &[SA_STATUS])
        .unwrap_or(c"Undefined Error")
        .as_ptr()
}

/// `umad_attribute_str`; `attribute` as on the wire.
#[unsafe(no_mangle)]
pub extern "C" fn umad_attribute_str(class: u8, attribute: u16) -> *const c_char {
    let own: Names = match class {
        0x01 | 0x81 => SM_ATTRIBUTES,
        SUBN_ADM => SA_ATTRIBUTES,
        COM_MGT => CM_ATTRIBUTES,
        _ => &[],
    };
    or_unknown(find(u16::from_be(attribute), &[own, ATTRIBUTES]))
}
