//! The mappings of this process, as the kernel lists them.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::fd::AsRawFd;

const QUERY: libc::c_ulong = 0xc068_6611;
/// Bytes of the kernel's question.
const SIZE: u64 = 104;

/// The list.
pub struct Maps(Option<File>);

impl Maps {
    /// Opens it.
    pub fn open() -> Self {
        Self(File::open("/proc/self/maps").ok())
    }

    /// Start and end of the mapping at `address`, if there is one.
    pub fn around(&self, address: u64) -> Option<(u64, u64)> {
        let mut asked = [0_u64; SIZE as usize / 8];
        asked[0] = SIZE;
        asked[2] = address;
        if let Some(file) = &self.0 {
            // SAFETY: a local structure of the call's shape; kernels before 6.11 do not know it.
            let returned = unsafe { libc::ioctl(file.as_raw_fd(), QUERY, asked.as_mut_ptr()) };
            if returned == 0 {
                return Some((asked[3], asked[4]));
            }
        }
        self.all()
            .into_iter()
            .find(|(start, end)| *start <= address && address < *end)
    }

    /// All of them.
    pub fn all(&self) -> Vec<(u64, u64)> {
        let Ok(file) = File::open("/proc/self/maps") else {
            return Vec::new();
        };
        let lines = BufReader::new(file).split(b'\n').map_while(Result::ok);
        lines.filter_map(|line| range(&line)).collect()
    }
}

/// The two numbers that a line begins with.
fn range(line: &[u8]) -> Option<(u64, u64)> {
    let line = std::str::from_utf8(line.split(|byte| *byte == b' ').next()?).ok()?;
    let (start, end) = line.split_once('-')?;
    let number = |text| u64::from_str_radix(text, 16).ok();
    Some((number(start)?, number(end)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_at_an_address_is_found_both_ways() {
        let here = 5_u8;
        let address = (&raw const here).expose_provenance() as u64;
        let (asked, read) = (Maps::open(), Maps(None));
        let found = asked.around(address).expect("a stack");
        assert!(found.0 <= address && address < found.1);
        assert_eq!(read.around(address), Some(found));
        assert_eq!(asked.around(1), None);
        assert!(read.all().contains(&found));
        assert_eq!(range(b"1000-2000 r--p 0 0"), Some((4096, 8192)));
        assert_eq!(range(b"nothing"), None);
        assert_eq!(range(b""), None);
    }
}
