//! The code tables of the communication manager: why a connection is refused, what became of an alternate path, of a
//! service resolution, and which message is meant (IBA 12.6).

use crate::error::EmitError;
use std::fmt;

macro_rules! codes {
    ($(#[$doc:meta])* $name:ident($int:ty), $field:literal { $($variant:ident = $code:literal, $text:literal;)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        pub enum $name {
            $(#[doc = concat!("Code ", stringify!($code), ": ", $text, ".")] $variant,)*
            /// A reserved code. Received it is reported as it came; it is never sent.
            Reserved($int),
        }

        impl $name {
            /// Every defined code, ascending.
            pub const ALL: &'static [$name] = &[$($name::$variant),*];

            /// From the code on the wire; total.
            pub const fn from_code(code: $int) -> Self {
                match code {
                    $($code => $name::$variant,)*
                    other => $name::Reserved(other),
                }
            }

            /// The number, reserved ones included: for programs that are told numbers.
            pub const fn number(self) -> $int {
                match self {
                    $($name::$variant => $code,)*
                    $name::Reserved(code) => code,
                }
            }

            /// The code on the wire. Fails for reserved codes.
            pub(super) const fn code(self) -> Result<$int, EmitError> {
                match self {
                    $name::Reserved(code) => Err(EmitError::Reserved { field: $field, value: code as u16 }),
                    defined => Ok(defined.number()),
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    $($name::$variant => f.write_str($text),)*
                    $name::Reserved(code) => write!(f, "reserved code {code}"),
                }
            }
        }
    };
}

codes! {
    /// Why a connection is refused, or given up (IBA 12.6).
    RejectReason(u16), "Reason" {
        NoQp = 1, "no queue pair available";
        NoEec = 2, "no end-to-end context available";
        NoResources = 3, "no resources available";
        Timeout = 4, "timeout";
        UnsupportedRequest = 5, "unsupported request";
        InvalidCommId = 6, "invalid communication identifier";
        InvalidCommInstance = 7, "invalid communication instance";
        InvalidServiceId = 8, "invalid service identifier";
        InvalidTransportType = 9, "invalid transport service type";
        StaleConnection = 10, "stale connection";
        RdcDoesNotExist = 11, "no such reliable datagram channel";
        PrimaryRemoteGid = 12, "primary remote port GID rejected";
        PrimaryRemoteLid = 13, "primary remote port LID rejected";
        InvalidPrimarySl = 14, "invalid primary service level";
        InvalidPrimaryTrafficClass = 15, "invalid primary traffic class";
        InvalidPrimaryHopLimit = 16, "invalid primary hop limit";
        InvalidPrimaryPacketRate = 17, "invalid primary packet rate";
        AlternateRemoteGid = 18, "alternate remote port GID rejected";
        AlternateRemoteLid = 19, "alternate remote port LID rejected";
        InvalidAlternateSl = 20, "invalid alternate service level";
        InvalidAlternateTrafficClass = 21, "invalid alternate traffic class";
        InvalidAlternateHopLimit = 22, "invalid alternate hop limit";
        InvalidAlternatePacketRate = 23, "invalid alternate packet rate";
        PortAndCmRedirection = 24, "port and connection manager redirection";
        PortRedirection = 25, "port redirection";
        InvalidPathMtu = 26, "invalid path MTU";
        InsufficientResponderResources = 27, "insufficient responder resources";
        Consumer = 28, "rejected by the consumer";
        RnrRetryCount = 29, "RNR retry count rejected";
        DuplicateCommId = 30, "duplicate local communication identifier";
        UnsupportedClassVersion = 31, "unsupported class version";
        InvalidPrimaryFlowLabel = 32, "invalid primary flow label";
        InvalidAlternateFlowLabel = 33, "invalid alternate flow label";
        VendorOption = 35, "vendor option not supported";
    }
}

codes! {
    /// What became of an alternate path (IBA chapter 12): the AP status of an APR.
    ApStatus(u8), "APStatus" {
        Loaded = 0, "alternate path loaded";
        InvalidCommId = 1, "invalid communication identifier";
        NotSupported = 2, "alternate paths not supported";
        Rejected = 3, "alternate path rejected";
        Redirect = 4, "request for redirection";
        DuplicateOfPrimary = 5, "the path is in use already";
        InvalidQpn = 6, "invalid queue pair number";
        InvalidLid = 7, "port LID rejected";
        InvalidGid = 8, "port GID rejected";
        InvalidFlowLabel = 9, "flow label rejected";
        InvalidTrafficClass = 10, "traffic class rejected";
        InvalidHopLimit = 11, "hop limit rejected";
        InvalidPacketRate = 12, "packet rate rejected";
        InvalidSl = 13, "service level rejected";
    }
}

codes! {
    /// Answer to a service resolution (IBA chapter 12): the status of a SIDR_REP.
    SidrStatus(u8), "Status" {
        Valid = 0, "valid";
        NotSupported = 1, "service identifier not supported";
        Rejected = 2, "rejected by the service";
        NoQp = 3, "no queue pair available";
        Redirect = 4, "request for redirection";
        UnsupportedVersion = 5, "version not supported";
    }
}

codes! {
    /// What the accepting side says about the REQ's alternate path (IBA 12.6).
    Failover(u8), "FailoverAccepted" {
        Accepted = 0, "alternate path accepted";
        NotSupported = 1, "alternate paths not supported";
        Rejected = 2, "alternate path rejected";
    }
}

codes! {
    /// The message that an MRA acknowledges (IBA 12.6).
    MraOf(u8), "MessageMRAed" {
        Req = 0, "REQ";
        Rep = 1, "REP";
        Lap = 2, "LAP";
    }
}

codes! {
    /// The message that a REJ refuses (IBA 12.6).
    RejOf(u8), "MessageREJected" {
        Req = 0, "REQ";
        Rep = 1, "REP";
        Other = 2, "another message, or none";
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every code of 16 bits, or of 8, decodes; the defined ones come back and the reserved ones are not sent.
    #[test]
    fn codes_decode_and_come_back() {
        let mut defined = 0;
        for code in 0..=u16::MAX {
            let reason = RejectReason::from_code(code);
            assert_eq!(reason.number(), code);
            match reason {
                RejectReason::Reserved(_) => {
                    let refused = EmitError::Reserved {
                        field: "Reason",
                        value: code,
                    };
                    assert_eq!(reason.code(), Err(refused));
                }
                _ => {
                    assert_eq!(reason.code(), Ok(code));
                    defined += 1;
                }
            }
        }
        // 1 to 33 and 35.
        assert_eq!((defined, RejectReason::ALL.len()), (34, 34));
        assert_eq!(RejectReason::from_code(34), RejectReason::Reserved(34));
        assert!(
            RejectReason::ALL
                .windows(2)
                .all(|pair| pair[0].number() < pair[1].number())
        );
        for code in 0..=u8::MAX {
            assert_eq!(ApStatus::from_code(code).code().is_ok(), code <= 13);
            assert_eq!(SidrStatus::from_code(code).code().is_ok(), code <= 5);
            assert_eq!(Failover::from_code(code).number(), code);
        }
    }

    #[test]
    fn reasons_say_what_they_are() {
        assert_eq!(
            RejectReason::from_code(28).to_string(),
            "rejected by the consumer"
        );
        assert_eq!(
            RejectReason::from_code(8).to_string(),
            "invalid service identifier"
        );
        assert_eq!(RejectReason::from_code(34).to_string(), "reserved code 34");
        let mut texts: Vec<String> = RejectReason::ALL.iter().map(|r| r.to_string()).collect();
        texts.sort();
        texts.dedup();
        assert_eq!(texts.len(), RejectReason::ALL.len());
    }
}
