//! A MAD of any class: what a reader of captures does with the payload of a packet to queue pair 0 or 1.

use crate::cm::CmMad;
use crate::error::ParseError;
use crate::mad::{MadHeader, ManagementClass};
use crate::sa::SaMad;
use crate::smp::Smp;
use std::fmt;

/// A MAD of a class that is known here, or its header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(clippy::large_enum_variant)] // a MAD is a MAD; only the rare other class is smaller
pub enum AnyMad {
    /// Communication management.
    Cm(CmMad),
    /// Subnet management.
    Smp(Smp),
    /// Subnet administration.
    Sa(SaMad),
    /// Another class, or a ComMgt attribute that is no message.
    Other(MadHeader),
}

impl AnyMad {
    /// Reads a whole MAD of 256 bytes.
    pub fn parse(bytes: &[u8]) -> Result<Self, ParseError> {
        let (header, _) = MadHeader::parse_mad(bytes)?;
        match header.class {
            ManagementClass::COM_MGT => match CmMad::parse(bytes) {
                Err(ParseError::MadAttribute { .. }) => Ok(AnyMad::Other(header)),
                parsed => parsed.map(AnyMad::Cm),
            },
            ManagementClass::SUBN_ADM => SaMad::parse_mad(bytes).map(AnyMad::Sa),
            class if class.is_subnet_management() => Smp::parse_mad(bytes).map(AnyMad::Smp),
            _ => Ok(AnyMad::Other(header)),
        }
    }

    /// The part that all MADs have.
    pub fn class(&self) -> ManagementClass {
        match self {
            AnyMad::Cm(_) => ManagementClass::COM_MGT,
            AnyMad::Smp(smp) => smp.class(),
            AnyMad::Sa(_) => ManagementClass::SUBN_ADM,
            AnyMad::Other(header) => header.class,
        }
    }
}

/// One line, as `ferriband dump` prints it.
impl fmt::Display for AnyMad {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AnyMad::Cm(mad) => mad.fmt(f),
            AnyMad::Smp(mad) => mad.fmt(f),
            AnyMad::Sa(mad) => mad.fmt(f),
            AnyMad::Other(header) => header.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::header::Header;
    use crate::mad::{AttributeId, MAD_LEN, Method};
    use crate::types::TransactionId;
    use proptest::prelude::*;

    fn mad(class: ManagementClass, method: Method, attribute: AttributeId) -> [u8; MAD_LEN] {
        let mut mad = [0; MAD_LEN];
        MadHeader::new(class, method, attribute, TransactionId(7))
            .emit(&mut mad)
            .expect("fits");
        mad
    }

    #[test]
    fn each_class_has_its_own_reading() {
        let line = |class, method, attribute| {
            let mad = AnyMad::parse(&mad(class, method, attribute)).expect("a MAD");
            assert_eq!(mad.class(), class);
            mad.to_string()
        };
        let rtu = line(ManagementClass::COM_MGT, Method::SEND, AttributeId(0x14));
        assert_eq!(rtu, "CM RTU comm=0x00000000 remote=0x00000000");
        let info = line(
            ManagementClass::COM_MGT,
            Method::GET,
            AttributeId::CLASS_PORT_INFO,
        );
        assert_eq!(
            info,
            "ComMgt Get(0x0001) tid=0x0000000000000007 modifier=0x0 status=0x0000"
        );
        let node = line(
            ManagementClass::SUBN_DIRECTED_ROUTE,
            Method::GET,
            crate::smp::attribute::NODE_INFO,
        );
        assert!(
            node.starts_with("SubnDirectedRoute Get(0x0011)") && node.ends_with("hop=0/0 path=[]")
        );
        let path = line(
            ManagementClass::SUBN_ADM,
            Method::GET_TABLE,
            crate::sa::attribute::PATH,
        );
        assert!(path.starts_with("SubnAdm GetTable(0x0035)"));
        let counters = line(ManagementClass::PERF, Method::GET, AttributeId(0x12));
        assert!(counters.starts_with("Perf Get(0x0012)"));
    }

    proptest! {
        #[test]
        fn any_bytes_parse_or_fail(mut bytes in proptest::collection::vec(any::<u8>(), MAD_LEN), class: u8, version in 0_u8..4) {
            prop_assert!(AnyMad::parse(&bytes[1..]).is_err());
            bytes[..3].copy_from_slice(&[1, class, version]);
            if let Ok(mad) = AnyMad::parse(&bytes) {
                prop_assert_eq!(mad.class().0, class);
                prop_assert!(!mad.to_string().is_empty());
            }
        }
    }
}
