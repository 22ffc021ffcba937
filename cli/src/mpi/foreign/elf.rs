//! What an ELF file says to the loader: which libraries it needs, and where it looks for them. Files of 64 bits and little-endian, as all that run here; any bytes
//! are taken, and what is no such file says nothing.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Longer tables than these are no program's.
const MOST_HEADERS: usize = 128;
const LONGEST_DYNAMIC: u64 = 1 << 16;
const LONGEST_STRINGS: u64 = 1 << 24;

const LOAD: u32 = 1;
const DYNAMIC: u32 = 2;
const NEEDED: u64 = 1;
const STRTAB: u64 = 5;
const STRSZ: u64 = 10;
const RPATH: u64 = 15;
const RUNPATH: u64 = 29;

/// What it says.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// Names of libraries, in their order.
    pub libraries: Vec<String>,
    /// Directories that come before those of the environment,
    pub rpath: Vec<String>,
    /// and those that come after.
    pub runpath: Vec<String>,
}

struct Segment {
    kind: u32,
    offset: u64,
    address: u64,
    length: u64,
}

/// Reads it; none if it is no such file.
pub fn needs(path: &Path) -> Option<Needs> {
    // What is not a file might not come to an end.
    if !std::fs::metadata(path).ok()?.is_file() {
        return None;
    }
    let file = File::open(path).ok()?;
    let bytes = |at: u64, length: u64| {
        let mut bytes = vec![0; length as usize];
        file.read_exact_at(&mut bytes, at).ok().map(|()| bytes)
    };
    let header = bytes(0, 64)?;
    if !header.starts_with(b"\x7fELF\x02\x01") {
        return None;
    }
    let size = u64::from(half(&header, 54)?);
    let count = usize::from(half(&header, 56)?).min(MOST_HEADERS);
    if size < 56 {
        return None;
    }
    let table = bytes(word(&header, 32)?, size.checked_mul(count as u64)?)?;
    let segments: Vec<Segment> = table
        .chunks_exact(size as usize)
        .filter_map(segment)
        .collect();
    let dynamic = segments.iter().find(|one| one.kind == DYNAMIC)?;
    let entries = bytes(dynamic.offset, dynamic.length.min(LONGEST_DYNAMIC))?;
    let pairs: Vec<(u64, u64)> = entries
        .chunks_exact(16)
        .filter_map(|pair| Some((word(pair, 0)?, word(pair, 8)?)))
        .take_while(|(tag, _)| *tag != 0)
        .collect();
    let value = |tag| {
        pairs
            .iter()
            .find(|(found, _)| *found == tag)
            .map(|(_, value)| *value)
    };
    let at = value(STRTAB)?;
    let holder = segments
        .iter()
        .find(|one| one.kind == LOAD && at >= one.address && at - one.address < one.length)?;
    let offset = (at - holder.address).checked_add(holder.offset)?;
    let strings = bytes(offset, value(STRSZ)?.min(LONGEST_STRINGS))?;
    let text = |at: u64| {
        let rest = strings.get(usize::try_from(at).ok()?..)?;
        let end = rest.iter().position(|byte| *byte == 0)?;
        Some(String::from_utf8_lossy(&rest[..end]).into_owned())
    };
    let list = |tag| {
        let text = value(tag).and_then(text).unwrap_or_default();
        text.split(':')
            .filter(|part| !part.is_empty())
            .map(str::to_owned)
            .collect()
    };
    Some(Needs {
        libraries: pairs
            .iter()
            .filter(|(tag, _)| *tag == NEEDED)
            .filter_map(|(_, at)| text(*at))
            .collect(),
        rpath: list(RPATH),
        runpath: list(RUNPATH),
    })
}

fn segment(bytes: &[u8]) -> Option<Segment> {
    Some(Segment {
        kind: u32::from_le_bytes(bytes.get(..4)?.try_into().ok()?),
        offset: word(bytes, 8)?,
        address: word(bytes, 16)?,
        length: word(bytes, 32)?,
    })
}

fn half(bytes: &[u8], at: usize) -> Option<u16> {
    let two = bytes.get(at..at + 2)?.try_into().ok()?;
    Some(u16::from_le_bytes(two))
}

fn word(bytes: &[u8], at: usize) -> Option<u64> {
    let eight = bytes.get(at..at + 8)?.try_into().ok()?;
    Some(u64::from_le_bytes(eight))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_says_what_it_needs_and_anything_else_says_nothing() {
        let own = std::env::current_exe().expect("this program's file");
        let needs = super::needs(&own).expect("an ELF file");
        assert!(
            needs.libraries.iter().any(|name| name == "libc.so.6"),
            "{needs:?}"
        );
        for other in ["/etc/passwd", "/", "/dev/null", "/there/is/none"] {
            assert_eq!(super::needs(Path::new(other)), None, "{other}");
        }
    }

    #[test]
    fn a_file_that_is_cut_or_wrong_says_nothing_and_does_no_harm() {
        let own = std::env::current_exe().expect("this program's file");
        let mut head = vec![0; 4096];
        File::open(own)
            .and_then(|file| file.read_exact_at(&mut head, 0))
            .expect("it is read");
        let path = std::env::temp_dir().join(format!("ferriband-elf-{}", std::process::id()));
        for length in [0, 5, 63, 64, 100, 4096] {
            std::fs::write(&path, &head[..length]).expect("written");
            assert_eq!(super::needs(&path), None, "{length} bytes");
        }
        for at in (32..64).chain(64..400) {
            let mut wrong = head.clone();
            wrong[at] = 0xff;
            std::fs::write(&path, &wrong).expect("written");
            assert!(super::needs(&path).is_none_or(|needs| needs.libraries.len() < 4096));
        }
        std::fs::remove_file(path).expect("it was there");
    }
}
