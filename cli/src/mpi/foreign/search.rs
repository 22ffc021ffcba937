//! Where the loader finds libraries: as glibc's ld.so(8) says it, as far as is needed to see which MPI a program gets.

use super::elf;
use std::collections::{HashMap, HashSet, VecDeque};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// The loader's own list of libraries.
const CACHE: &str = "/etc/ld.so.cache";
const MAGIC: &[u8] = b"glibc-ld.so.cache1.1";
/// Where it looks at last.
const USUAL: [&str; 6] = [
    "/lib64",
    "/usr/lib64",
    "/lib",
    "/usr/lib",
    "/lib/x86_64-linux-gnu",
    "/usr/lib/x86_64-linux-gnu",
];
/// Files that are looked at, of one program.
const MOST: usize = 512;
/// What has nothing to do with MPI, and every program has.
const PLAIN: [&str; 8] = [
    "libc.so.6",
    "libm.so.6",
    "libpthread.so.0",
    "libdl.so.2",
    "librt.so.1",
    "libgcc_s.so.1",
    "libstdc++.so.6",
    "ld-linux-x86-64.so.2",
];

/// The places of one environment.
pub struct Search {
    environment: Vec<PathBuf>,
    cache: HashMap<String, PathBuf>,
}

impl Search {
    /// With our directory before what LD_LIBRARY_PATH names, as ranks have it.
    pub fn new(lib: &Path, path: Option<&OsStr>) -> Self {
        let named = std::env::split_paths(path.unwrap_or_default());
        Self {
            environment: [lib.to_owned()].into_iter().chain(named).collect(),
            cache: std::fs::read(CACHE)
                .ok()
                .and_then(|bytes| parse(&bytes))
                .unwrap_or_default(),
        }
    }

    /// The libraries that the loader loads with a program: by the names that they are asked for, and their files where they are found. Those that the program needs itself come
    /// first.
    pub fn closure(&self, program: &Path) -> Vec<(String, Option<PathBuf>)> {
        let mut found = Vec::new();
        let mut known = HashSet::new();
        let mut files = VecDeque::from([program.to_owned()]);
        while let Some(file) = files.pop_front() {
            let Some(needs) = elf::needs(&file) else {
                continue;
            };
            for name in &needs.libraries {
                let is_new = known.insert(name.clone()) && known.len() < MOST;
                if !is_new || PLAIN.contains(&name.as_str()) {
                    continue;
                }
                let library = self.find(name, &file, &needs);
                files.extend(library.clone());
                found.push((name.clone(), library));
            }
        }
        found
    }

    fn find(&self, name: &str, for_file: &Path, needs: &elf::Needs) -> Option<PathBuf> {
        if name.contains('/') {
            return Some(PathBuf::from(name)).filter(|file| file.is_file());
        }
        let origin = for_file
            .canonicalize()
            .ok()
            .and_then(|file| Some(file.parent()?.display().to_string()))
            .unwrap_or_default();
        let own = |list: &[String]| {
            let expand = |dir: &String| {
                let dir = dir.replace("${ORIGIN}", &origin);
                PathBuf::from(dir.replace("$ORIGIN", &origin))
            };
            list.iter().map(expand).collect::<Vec<_>>()
        };
        let rpath = match needs.runpath.is_empty() {
            true => own(&needs.rpath),
            false => Vec::new(),
        };
        let there = |dir: &PathBuf| {
            let file = dir.join(name);
            file.is_file().then_some(file)
        };
        rpath
            .iter()
            .chain(&self.environment)
            .find_map(there)
            .or_else(|| own(&needs.runpath).iter().find_map(there))
            .or_else(|| self.cache.get(name).cloned())
            .or_else(|| USUAL.iter().map(PathBuf::from).find_map(|dir| there(&dir)))
    }
}

/// The list of libraries in the loader's cache: a header, entries of 24 bytes, and strings that are named by their place in the file.
fn parse(bytes: &[u8]) -> Option<HashMap<String, PathBuf>> {
    let bytes = bytes.strip_prefix(MAGIC).map(|_| bytes)?;
    let word = |at: usize| {
        let four = bytes.get(at..at + 4)?.try_into().ok()?;
        Some(u32::from_le_bytes(four) as usize)
    };
    let text = |at: usize| {
        let rest = bytes.get(at..)?;
        let end = rest.iter().position(|byte| *byte == 0)?;
        std::str::from_utf8(&rest[..end]).ok()
    };
    let count = word(MAGIC.len())?.min(bytes.len() / 24);
    let mut list = HashMap::new();
    for index in 0..count {
        let at = 48 + index * 24;
        let (name, file) = (text(word(at + 4)?)?, text(word(at + 8)?)?);
        list.entry(name.to_owned())
            .or_insert_with(|| PathBuf::from(file));
    }
    Some(list)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loaders_list_is_read_by_its_measures() {
        let mut bytes = MAGIC.to_vec();
        bytes.extend(1_u32.to_le_bytes());
        bytes.resize(48, 0);
        let strings = 48 + 24_u32;
        for word in [0x303, strings, strings + 10, 0, 0, 0] {
            bytes.extend(word.to_le_bytes());
        }
        bytes.extend(b"liba.so.1\0/x/liba.so.1.2\0");
        let list = parse(&bytes).expect("a list");
        assert_eq!(list["liba.so.1"], Path::new("/x/liba.so.1.2"));
        assert_eq!(parse(&bytes[..60]), None);
        assert_eq!(parse(b"something else"), None);
    }

    #[test]
    fn a_program_has_the_libraries_of_its_libraries() {
        let own = std::env::current_exe().expect("this program's file");
        let search = Search::new(Path::new("/there/is/none"), None);
        for (name, file) in search.closure(&own) {
            assert!(file.is_some(), "{name} is not found");
        }
    }
}
