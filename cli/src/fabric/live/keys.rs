//! The management key of a fabric's ports, and the file by which its managers share it: OpenSM's configuration, so that `opensm -F FILE` is one of them.
//!
//! Owns the file. A key is never shown: who may read the file has it.

use crate::failure::Failure;
use ferriband_wire::MKey;
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

/// Longest file that is read.
const MOST_BYTES: u64 = 1 << 20;

/// The key in a file; a random one, and a file that nobody else may read, if there is none yet.
pub fn shared(path: &Path, lease_s: u16) -> Result<MKey, Failure> {
    let name = path.display().to_string();
    let made = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path);
    let mut file = match made {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::AlreadyExists => return known(path, &name),
        Err(error) => return Err(Failure::io("make", &name, &error)),
    };
    let mut bytes = [0; 8];
    File::open("/dev/urandom")
        .and_then(|mut source| source.read_exact(&mut bytes))
        .map_err(|error| Failure::io("read", "/dev/urandom", &error))?;
    // 0 is no key
    let key = u64::from_ne_bytes(bytes).max(1);
    let text = format!(
        "# The management key of a fabric of Ferriband's. Another of its managers: opensm -F with this file.\n\
         m_key 0x{key:016x}\nm_key_protection_level 1\nm_key_lease_period {lease_s}\n"
    );
    file.write_all(text.as_bytes())
        .map_err(|error| Failure::io("write", &name, &error))?;
    Ok(MKey(key))
}

fn known(path: &Path, name: &str) -> Result<MKey, Failure> {
    let failed = |error: std::io::Error| Failure::io("read", name, &error);
    let file = File::open(path).map_err(failed)?;
    let about = file.metadata().map_err(failed)?;
    if about.mode() & 0o077 != 0 {
        return Err(
            Failure::new(format!("others may read {name}, and with it the key"))
                .remedy(format!("chmod 600 {name}")),
        );
    }
    let mut text = String::new();
    file.take(MOST_BYTES)
        .read_to_string(&mut text)
        .map_err(failed)?;
    let key = parse(&text).filter(|key| *key != 0);
    key.map(MKey).ok_or_else(|| {
        Failure::new(format!("{name} has no key")).remedy("a line such as: m_key 0x1234")
    })
}

/// The key of a configuration of OpenSM's.
fn parse(text: &str) -> Option<u64> {
    let mut lines = text.lines().map(str::split_whitespace);
    let value = lines.find_map(|mut words| match words.next() {
        Some("m_key") => words.next(),
        _ => None,
    })?;
    match value.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => value.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_made_once_and_shared_by_its_file_alone() {
        use std::os::unix::fs::PermissionsExt;
        let path = std::env::temp_dir().join(format!("ferriband-keys-{}", std::process::id()));
        let key = shared(&path, 60).expect("a new one");
        let about = std::fs::metadata(&path).expect("it is there");
        assert_eq!(about.permissions().mode() & 0o777, 0o600);
        assert_eq!(shared(&path, 60).expect("the same"), key);
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).expect("ours");
        assert!(shared(&path, 60).is_err(), "others may read it");
        let _ = std::fs::remove_file(&path);
        assert_eq!(parse("# m_key 0x7\nm_key 0x10\n"), Some(16));
        assert_eq!(parse("m_key\nsm_key 0x10\n"), None);
    }
}
