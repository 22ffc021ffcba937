//! The keys of a fabric, and the file by which its managers share them: OpenSM's configuration, so that `opensm -F FILE` is one of them.
//!
//! Owns the file: by default one in the user's state directory, which goes with the fabric. A key is never shown: who may read the file has it.

use crate::failure::Failure;
use ferriband_attach::is_fabric_name;
use ferriband_subnet::election::SM_KEY;
use ferriband_wire::{MKey, SmKey};
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Longest file that is read.
const MOST_BYTES: u64 = 1 << 20;
/// What is said instead of a file's name where ports are not to be protected.
const NONE: &str = "none";

/// The keys, and where others find them.
#[derive(Debug)]
pub struct Keys {
    /// Lets change ports; 0: anybody may.
    pub mkey: MKey,
    /// By which managers of the fabric know each other, and administration those whom it trusts.
    pub sm_key: SmKey,
    /// The file; None: nobody else has them.
    pub file: Option<PathBuf>,
    /// The file is this fabric's own, and goes with it.
    own: bool,
}

impl Drop for Keys {
    fn drop(&mut self) {
        if let Some(file) = self.file.as_ref().filter(|_| self.own) {
            let _ = std::fs::remove_file(file);
        }
    }
}

impl Keys {
    /// As `--keys` says: "none", a file, or one of the fabric's own.
    pub fn new(wanted: Option<&Path>, fabric: &str, lease_s: u16) -> Result<Keys, Failure> {
        match wanted {
            Some(path) if path == Path::new(NONE) => Ok(Keys::none()),
            Some(path) => {
                let (mkey, sm_key) = shared(path, lease_s)?;
                Ok(Keys {
                    mkey,
                    sm_key,
                    file: Some(path.to_owned()),
                    own: false,
                })
            }
            None => Keys::of_fabric(fabric, lease_s),
        }
    }

    /// Nothing is protected, and managers show OpenSM's usual key.
    pub fn none() -> Keys {
        Keys::unwritten(MKey(0), SM_KEY)
    }

    fn unwritten(mkey: MKey, sm_key: SmKey) -> Keys {
        Keys {
            mkey,
            sm_key,
            file: None,
            own: false,
        }
    }

    /// New ones, in the user's state directory. Where there is none, they are this process's alone.
    fn of_fabric(fabric: &str, lease_s: u16) -> Result<Keys, Failure> {
        let dir = ferriband_admin::incident::directory().map(|dir| dir.join("fabrics"));
        let made = dir.filter(|dir| {
            let mut builder = DirBuilder::new();
            builder.recursive(true).mode(0o700).create(dir).is_ok()
        });
        let Some(dir) = made.filter(|_| is_fabric_name(fabric)) else {
            let (mkey, sm_key) = random()?;
            return Ok(Keys::unwritten(mkey, sm_key));
        };
        let file = dir.join(format!("{fabric}.keys"));
        // of a fabric of this name that did not end in good order: the name is ours now
        match std::fs::remove_file(&file) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                let name = file.display().to_string();
                return Err(Failure::io("remove", &name, &error)
                    .remedy("remove it, or name another file by --keys"));
            }
            _ => {}
        }
        let (mkey, sm_key) = shared(&file, lease_s)?;
        Ok(Keys {
            mkey,
            sm_key,
            file: Some(file),
            own: true,
        })
    }
}

/// Two keys that nobody knows.
fn random() -> Result<(MKey, SmKey), Failure> {
    let mut bytes = [[0; 8]; 2];
    File::open("/dev/urandom")
        .and_then(|mut source| bytes.iter_mut().try_for_each(|key| source.read_exact(key)))
        .map_err(|error| Failure::io("read", "/dev/urandom", &error))?;
    // 0 is no key
    let [mkey, sm_key] = bytes.map(|key| u64::from_ne_bytes(key).max(1));
    Ok((MKey(mkey), SmKey(sm_key)))
}

/// The keys in a file; random ones, and a file that nobody else may read, if there is none yet.
fn shared(path: &Path, lease_s: u16) -> Result<(MKey, SmKey), Failure> {
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
    let (mkey, sm_key) = random()?;
    let text = format!(
        "# The keys of a fabric of Ferriband's. Another of its managers: opensm -F with this file; programs that administration is to trust: saquery --smkey.\n\
         m_key 0x{:016x}\nm_key_protection_level 1\nm_key_lease_period {lease_s}\nsm_key 0x{:016x}\n",
        mkey.0, sm_key.0
    );
    file.write_all(text.as_bytes())
        .map_err(|error| Failure::io("write", &name, &error))?;
    Ok((mkey, sm_key))
}

fn known(path: &Path, name: &str) -> Result<(MKey, SmKey), Failure> {
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
    let key = parse(&text, "m_key").filter(|key| *key != 0);
    let sm_key = parse(&text, "sm_key").map_or(SM_KEY, SmKey);
    key.map(|key| (MKey(key), sm_key)).ok_or_else(|| {
        Failure::new(format!("{name} has no key")).remedy("a line such as: m_key 0x1234")
    })
}

/// A number of a configuration of OpenSM's.
fn parse(text: &str, what: &str) -> Option<u64> {
    let mut lines = text.lines().map(str::split_whitespace);
    let value = lines.find_map(|mut words| match words.next() {
        Some(word) if word == what => words.next(),
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
        assert_eq!(parse("# m_key 0x7\nm_key 0x10\n", "m_key"), Some(16));
        assert_eq!(parse("m_key\nsm_key 0x10\n", "m_key"), None);
        assert_eq!(parse("m_key 1\nsm_key 0x10\n", "sm_key"), Some(16));
        // OpenSM's configuration without one means its usual one
        std::fs::write(&path, "m_key 5\n").expect("ours");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).expect("ours");
        assert_eq!(shared(&path, 60).expect("it has one"), (MKey(5), SM_KEY));
        let _ = std::fs::remove_file(&path);
    }
}
