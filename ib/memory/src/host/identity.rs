//! Who a process is, and which host domain it belongs to.
//!
//! Owns: reading pid, pid namespace, start time, boot id and network namespace from /proc, and the names that
//! follow from them. Must not know: the registry's tables.

use super::HostError;
use ferriband_wire::Guid;
use std::os::unix::fs::MetadataExt;

/// Longest label of a domain, in bytes.
pub const LABEL_BYTES: usize = 24;

/// One process: a number alone is reused, so the namespace that it counts in and the start time go with it. An
/// exec keeps all three; it is told apart by the [`super::ProcessRef`] that the new image claims afresh.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct ProcessIdentity {
    /// Process number in its own pid namespace.
    pub pid: u32,
    /// Inode of that namespace (/proc/self/ns/pid).
    pub pid_namespace: u64,
    /// Start time in clock ticks since boot: field 22 of /proc/PID/stat.
    pub start_time: u64,
}

impl ProcessIdentity {
    /// The calling process.
    ///
    /// # Errors
    /// `System` or `Proc` if /proc is not mounted or not readable.
    pub fn current() -> Result<ProcessIdentity, HostError> {
        let stat = std::fs::read("/proc/self/stat")
            .map_err(|e| HostError::io("read /proc/self/stat", &e))?;
        Ok(ProcessIdentity {
            pid: std::process::id(),
            pid_namespace: inode_of("/proc/self/ns/pid")?,
            start_time: start_time_of(&stat).ok_or(HostError::Proc {
                what: "/proc/self/stat has no field 22",
            })?,
        })
    }
}

impl ProcessIdentity {
    /// True if /proc says that the process is stopped. To be asked in its own pid namespace.
    pub(super) fn is_stopped(&self) -> bool {
        std::fs::read(format!("/proc/{}/stat", self.pid)).is_ok_and(|stat| {
            start_time_of(&stat) == Some(self.start_time)
                && matches!(state_of(&stat), Some(b'T' | b't'))
        })
    }
}

/// The key of a host domain: processes with equal keys share a registry.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HostKey {
    /// Effective user id.
    pub uid: u32,
    /// Boot id of the kernel: the UUID's 128 bits.
    pub boot_id: u128,
    /// Inode of the network namespace.
    pub net_namespace: u64,
    /// Splits one domain into several; empty by default.
    pub label: String,
}

impl HostKey {
    /// The domain of the calling thread (a thread may have left its process's network namespace).
    ///
    /// # Errors
    /// `Label` for a label that is longer than [`LABEL_BYTES`] or holds other characters than a-z, 0-9 and '-';
    /// `System` or `Proc` if /proc is not mounted or not readable.
    pub fn current(label: &str) -> Result<HostKey, HostError> {
        let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
        if label.len() > LABEL_BYTES || !label.bytes().all(plain) {
            return Err(HostError::Label);
        }
        let boot = std::fs::read("/proc/sys/kernel/random/boot_id")
            .map_err(|e| HostError::io("read /proc/sys/kernel/random/boot_id", &e))?;
        Ok(HostKey {
            uid: rustix::process::geteuid().as_raw(),
            boot_id: uuid_of(&boot).ok_or(HostError::Proc {
                what: "the boot id is not a UUID",
            })?,
            net_namespace: inode_of("/proc/thread-self/ns/net")?,
            label: label.to_owned(),
        })
    }

    /// What the names of this domain's sockets begin with, in the abstract namespace of unix sockets. At most 78
    /// bytes, of the 107 that a name may have.
    pub fn name_prefix(&self) -> String {
        let boot8 = (self.boot_id >> 96) as u32;
        let slash = if self.label.is_empty() { "" } else { "/" };
        format!(
            "ferriband/5/{}/{boot8:08x}/{}{slash}{}",
            self.uid, self.net_namespace, self.label
        )
    }

    /// The label as a word for the registry's header.
    pub(super) fn label_word(&self) -> u64 {
        self.label
            .bytes()
            .fold(0, |h, b| mix(h ^ u64::from(b) ^ 0x100))
    }

    /// The GUID of the domain's device: hashed from the key, so that it is the same for every process and after
    /// every restart until the next boot; an EUI-64 with the local bit set and the group bit clear.
    pub fn guid(&self) -> Guid {
        let words = [
            (self.boot_id >> 64) as u64,
            self.boot_id as u64,
            u64::from(self.uid),
            self.net_namespace,
            self.label_word(),
        ];
        let hash = words
            .into_iter()
            .fold(0x6665_7272_6962_616e, |h, w| mix(h ^ w));
        Guid(hash & !(3 << 56) | 2 << 56)
    }
}

/// One round of a 64-bit finaliser: a bijection whose every output bit depends on every input bit.
pub(super) const fn mix(x: u64) -> u64 {
    let x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// True if /proc counts processes as this process does: else its numbers must not be looked up there.
pub(super) fn proc_is_of_our_namespace() -> bool {
    std::fs::read_link("/proc/self")
        .ok()
        .and_then(|link| link.to_str().and_then(|s| s.parse::<u32>().ok()))
        == Some(std::process::id())
}

/// Start time out of a stat line. The command in parentheses may itself hold spaces and parentheses, so fields are
/// counted after the last one.
fn start_time_of(stat: &[u8]) -> Option<u64> {
    let after = stat.iter().rposition(|&b| b == b')')? + 1;
    let text = std::str::from_utf8(&stat[after..]).ok()?;
    // Field 3 is the first one after the command.
    text.split_ascii_whitespace().nth(22 - 3)?.parse().ok()
}

/// State letter out of a stat line: field 3.
fn state_of(stat: &[u8]) -> Option<u8> {
    let after = stat.iter().rposition(|&b| b == b')')? + 1;
    stat[after..]
        .iter()
        .copied()
        .find(|byte| !byte.is_ascii_whitespace())
}

fn uuid_of(text: &[u8]) -> Option<u128> {
    let digits = std::str::from_utf8(text).ok()?.trim().replace('-', "");
    if digits.len() != 32 {
        return None;
    }
    u128::from_str_radix(&digits, 16).ok()
}

fn inode_of(path: &'static str) -> Result<u64, HostError> {
    Ok(std::fs::metadata(path)
        .map_err(|e| HostError::io(path, &e))?
        .ino())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn start_time_is_counted_after_the_last_parenthesis() {
        let tail = "S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4711 20 21\n";
        for comm in ["(sh)", "(a b) c)", "(()", "(x) S 1 2 3)"] {
            let line = format!("42 {comm} {tail}");
            assert_eq!(start_time_of(line.as_bytes()), Some(4711), "{comm}");
        }
        for bad in [
            "",
            "42 (sh",
            "42 (sh) S 1 2",
            "42 (sh) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 x",
        ] {
            assert_eq!(start_time_of(bad.as_bytes()), None, "{bad}");
        }
        assert_eq!(start_time_of(&[0xff, b')', 0xff]), None);
    }

    #[test]
    fn own_identity_is_stable_and_real() {
        let a = ProcessIdentity::current().unwrap();
        assert_eq!(a, ProcessIdentity::current().unwrap());
        assert_eq!(a.pid, std::process::id());
        assert!(a.start_time > 0 && a.pid_namespace > 0);
    }

    #[test]
    fn keys_name_their_domain_within_the_limit_of_a_socket_name() {
        let key = HostKey {
            uid: u32::MAX,
            boot_id: u128::MAX,
            net_namespace: u64::MAX,
            label: "x".repeat(LABEL_BYTES),
        };
        assert!(key.name_prefix().len() + "/p4095".len() <= 107);
        assert_ne!(
            key.name_prefix(),
            HostKey {
                label: String::new(),
                ..key.clone()
            }
            .name_prefix()
        );
        for bad in ["A", "a/b", "a b", "\u{e4}", &"x".repeat(LABEL_BYTES + 1)] {
            assert!(
                matches!(HostKey::current(bad), Err(HostError::Label)),
                "{bad}"
            );
        }
    }

    #[test]
    fn guid_is_local_unicast_and_differs_by_each_part_of_the_key() {
        let key = HostKey {
            uid: 1,
            boot_id: 2 << 64 | 3,
            net_namespace: 4,
            label: String::new(),
        };
        let guids = [
            key.guid(),
            HostKey {
                uid: 2,
                ..key.clone()
            }
            .guid(),
            HostKey {
                boot_id: 2 << 64 | 4,
                ..key.clone()
            }
            .guid(),
            HostKey {
                boot_id: 1 << 64 | 3,
                ..key.clone()
            }
            .guid(),
            HostKey {
                net_namespace: 5,
                ..key.clone()
            }
            .guid(),
            HostKey {
                label: "a".into(),
                ..key.clone()
            }
            .guid(),
        ];
        for (i, g) in guids.iter().enumerate() {
            assert_eq!(g.0 >> 56 & 3, 2);
            assert!(guids[..i].iter().all(|h| h != g));
        }
        assert_eq!(key.guid(), key.clone().guid());
    }

    #[test]
    fn uuids_parse_or_are_refused() {
        assert_eq!(
            uuid_of(b"00000000-0000-0000-0000-0000000000ff\n"),
            Some(255)
        );
        assert_eq!(uuid_of(b"00000000-0000"), None);
        assert_eq!(uuid_of(b"zz000000-0000-0000-0000-0000000000ff"), None);
        assert_eq!(uuid_of(&[0xff; 32]), None);
    }
}
