//! Numbers of management datagrams: classes, methods, attributes, and the queue pairs they go to
//! (IBA 13.4.4, 13.4.5). Knows no header.

use crate::types::Qpn;
use std::fmt;

/// Queue pair of the subnet management interface.
pub const SMI_QPN: Qpn = Qpn(0);
/// Queue pair of the general services interface.
pub const GSI_QPN: Qpn = Qpn(1);

macro_rules! numbers {
    ($(#[$doc:meta])* $name:ident($inner:ty) { $($(#[$item_doc:meta])* $item:ident = $number:literal, $text:literal;)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
        pub struct $name(pub $inner);

        impl $name {
            $(#[doc = concat!($text, ".")] $(#[$item_doc])* pub const $item: $name = $name($number);)*

            /// The IBA's name; None for numbers without one.
            pub const fn name(self) -> Option<&'static str> {
                match self.0 {
                    $($number => Some($text),)*
                    _ => None,
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self.name() {
                    Some(name) => f.write_str(name),
                    None => write!(f, concat!(stringify!($name), " {:#x}"), self.0),
                }
            }
        }
    };
}

pub(crate) use numbers;

numbers! {
    /// Management class (IBA 13.4.4). Vendors and applications have ranges of their own.
    ManagementClass(u8) {
        SUBN_LID_ROUTED = 0x01, "SubnLIDRouted";
        SUBN_ADM = 0x03, "SubnAdm";
        PERF = 0x04, "Perf";
        BM = 0x05, "BM";
        DEV_MGT = 0x06, "DevMgt";
        COM_MGT = 0x07, "ComMgt";
        SNMP = 0x08, "SNMP";
        CONG_CTRL = 0x21, "CongCtrl";
        SUBN_DIRECTED_ROUTE = 0x81, "SubnDirectedRoute";
    }
}

impl ManagementClass {
    /// True for the two classes of subnet management.
    pub const fn is_subnet_management(self) -> bool {
        matches!(
            self,
            ManagementClass::SUBN_LID_ROUTED | ManagementClass::SUBN_DIRECTED_ROUTE
        )
    }

    /// Where MADs of this class are sent, unless a manager has redirected them: the subnet
    /// management interface takes these two classes only, the general services interface all others
    /// (IBA 13.5).
    pub const fn queue_pair(self) -> Qpn {
        if self.is_subnet_management() {
            SMI_QPN
        } else {
            GSI_QPN
        }
    }

    /// The class version in use; None for classes that are not known here.
    pub const fn version(self) -> Option<u8> {
        match self {
            ManagementClass::SUBN_LID_ROUTED
            | ManagementClass::SUBN_DIRECTED_ROUTE
            | ManagementClass::PERF
            | ManagementClass::BM
            | ManagementClass::DEV_MGT => Some(1),
            ManagementClass::SUBN_ADM | ManagementClass::COM_MGT | ManagementClass::CONG_CTRL => {
                Some(2)
            }
            _ => None,
        }
    }
}

numbers! {
    /// Method, with the response bit as its top bit (IBA 13.4.5; subnet administration: IBA
    /// 15.2.2).
    Method(u8) {
        GET = 0x01, "Get";
        SET = 0x02, "Set";
        SEND = 0x03, "Send";
        TRAP = 0x05, "Trap";
        REPORT = 0x06, "Report";
        TRAP_REPRESS = 0x07, "TrapRepress";
        GET_TABLE = 0x12, "GetTable";
        GET_TRACE_TABLE = 0x13, "GetTraceTable";
        GET_MULTI = 0x14, "GetMulti";
        DELETE = 0x15, "Delete";
        GET_RESP = 0x81, "GetResp";
        REPORT_RESP = 0x86, "ReportResp";
        GET_TABLE_RESP = 0x92, "GetTableResp";
        GET_MULTI_RESP = 0x94, "GetMultiResp";
        DELETE_RESP = 0x95, "DeleteResp";
    }
}

impl Method {
    const RESPONSE: u8 = 1 << 7;

    /// True for answers: the response bit, and TrapRepress, which has none.
    pub const fn is_response(self) -> bool {
        self.0 & Self::RESPONSE != 0 || self.0 == Method::TRAP_REPRESS.0
    }

    /// The method that answers this one; None for Send, which is answered by nothing or another
    /// Send, and for answers.
    pub const fn response(self) -> Option<Method> {
        match self {
            Method::SEND => None,
            Method::SET => Some(Method::GET_RESP),
            Method::TRAP => Some(Method::TRAP_REPRESS),
            Method::GET_TRACE_TABLE => Some(Method::GET_TABLE_RESP),
            _ if self.is_response() => None,
            Method(other) => Some(Method(other | Self::RESPONSE)),
        }
    }
}

/// Attribute, a number that each class gives a meaning of its own: `cm::Message::attribute`,
/// `smp::attribute`, `sa::attribute`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct AttributeId(pub u16);

impl AttributeId {
    /// ClassPortInfo: in every class but subnet management.
    pub const CLASS_PORT_INFO: AttributeId = AttributeId(0x0001);
    /// Notice: in every class.
    pub const NOTICE: AttributeId = AttributeId(0x0002);
    /// InformInfo: subscription to notices.
    pub const INFORM_INFO: AttributeId = AttributeId(0x0003);
}

impl fmt::Display for AttributeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#06x}", self.0)
    }
}
