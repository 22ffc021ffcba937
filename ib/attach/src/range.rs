//! The addresses that a fabric's hosts have while it lives, which no other fabric of the network namespace has then.
//!
//! A range is claimed by the abstract name of a socket, which goes with the process however it ends. Abstract names and addresses belong to a network
//! namespace and not to a user: so does a claim.

use crate::{AttachError, MOST_HOSTS, PLACE_BITS};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, socket_with};
use std::os::fd::OwnedFd;

/// Ranges that there are: 127.64.0.0/16 to 127.127.0.0/16.
const RANGES: u32 = 64;

/// A claim, which lasts as long as this value.
#[derive(Debug)]
pub struct Range {
    number: u32,
    _claim: OwnedFd,
}

impl Range {
    /// The first range that no other fabric has.
    ///
    /// # Errors
    /// `NoRange` if others have all of them, `System`.
    pub fn claim() -> Result<Range, AttachError> {
        Range::claim_among("ferriband/addresses-1")
    }

    fn claim_among(names: &str) -> Result<Range, AttachError> {
        let system = |call| move |errno| AttachError::System { call, errno };
        for number in 0..RANGES {
            let name = format!("{names}/{number}");
            let name = SocketAddrUnix::new_abstract_name(name.as_bytes())
                .map_err(system("socket name"))?;
            let kind = SocketType::DGRAM;
            let claim = socket_with(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None)
                .map_err(system("socket"))?;
            match bind(&claim, &name) {
                Ok(()) => {
                    return Ok(Range {
                        number,
                        _claim: claim,
                    });
                }
                Err(Errno::ADDRINUSE) => {}
                Err(errno) => return Err(system("bind")(errno)),
            }
        }
        Err(AttachError::NoRange)
    }

    /// The number of a host, which says its address ([`crate::address`]), by its place among the hosts of the fabric: less than [`MOST_HOSTS`].
    pub fn number(&self, place: u32) -> u32 {
        self.number << PLACE_BITS | place.min(MOST_HOSTS - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address;
    use std::net::Ipv4Addr;

    /// Names that nobody else claims.
    fn own_names(test: &str) -> String {
        format!("ferriband/test-{}-{test}", std::process::id())
    }

    #[test]
    fn two_fabrics_at_once_have_no_address_in_common() {
        let names = own_names("two");
        let claim = || Range::claim_among(&names).unwrap();
        let (one, other) = (claim(), claim());
        let ends = |range: &Range| [0, MOST_HOSTS - 1].map(|place| address(range.number(place)));
        let addresses = [[127, 64, 0, 1], [127, 64, 255, 255]].map(Ipv4Addr::from);
        assert_eq!(ends(&one), addresses);
        let addresses = [[127, 65, 0, 1], [127, 65, 255, 255]].map(Ipv4Addr::from);
        assert_eq!(ends(&other), addresses);
        drop(one);
        assert_eq!(ends(&claim())[0], Ipv4Addr::new(127, 64, 0, 1));
    }

    #[test]
    fn there_is_an_end_of_ranges_and_the_last_one_is_of_hosts_too() {
        let names = own_names("all");
        let mut claims = Vec::new();
        let error = loop {
            match Range::claim_among(&names) {
                Ok(claim) => claims.push(claim),
                Err(error) => break error,
            }
        };
        assert_eq!(error, AttachError::NoRange);
        assert_eq!(claims.len(), RANGES as usize);
        let number = claims.pop().unwrap().number(MOST_HOSTS - 1);
        assert_eq!(crate::number_at(address(number)), Some(number));
    }
}
