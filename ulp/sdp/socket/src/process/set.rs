//! What the user has set of this process's sockets.
//!
//! Owns: the values that are obeyed here, and when they are read: once, as the library is loaded.
//! Must not know: which settings there are, and where they come from, which is `ulp/settings`'s.

use crate::meet::directory::Directory;
use crate::spin::{self, Spin};
use crate::tunnel::{Peers, Ranges};
use ferriband_sdp_proto::settings::{LONGEST_FILE, SETTINGS, Values};
use ferriband_sdp_verbs::FlowKind;
use rustix::fs::{Mode, OFlags};
use std::env;
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Exchanges after which a connection is worth to be taken over.
static EXCHANGES: AtomicU32 = AtomicU32::new(3);
/// Bytes after which it is.
static BYTES: AtomicU64 = AtomicU64::new(16 << 10);

/// With whom connections go by queue pairs, and the flow control that is asked for.
static HOSTS: OnceLock<(Peers, FlowKind)> = OnceLock::new();

/// By which directory peers in other network namespaces are found, if it can be opened.
static MEETS: OnceLock<Option<Directory>> = OnceLock::new();

/// Reads what is set, and gives where the process is to write its counts; empty: nowhere. A value
/// that means nothing is refused by `ferriband sdp run`; here it leaves all as it is by default.
pub fn read() -> String {
    let file = file();
    let file = file
        .as_ref()
        .map(|(name, text)| (name.as_str(), text.as_str()));
    let variables = env::vars_os();
    let variables = variables.filter_map(|(name, value)| {
        // what is no text is none of these
        Some((name.into_string().ok()?, value.into_string().ok()?))
    });
    let values = SETTINGS.read(file, variables);
    obey(&values.unwrap_or_else(|_| SETTINGS.defaults()))
}

fn obey(values: &Values) -> String {
    let exchanges = values.number("after_exchanges");
    EXCHANGES.store(exchanges as u32, Ordering::Relaxed);
    BYTES.store(values.number("after_bytes"), Ordering::Relaxed);
    spin::set(match values.text("spin") {
        "0" => Spin::Never,
        "always" => Spin::Always,
        _ => Spin::Auto,
    });
    let flow = match values.text("flow") {
        "credit" => FlowKind::Credit,
        "ring" => FlowKind::Ring,
        _ => FlowKind::Nic,
    };
    // a range that means nothing leaves all as it is by default
    let peers = Peers {
        ranges: Ranges::parse(values.text("ranges")).unwrap_or_default(),
        same_host: values.text("same_host") == "verbs",
    };
    if !peers.is_nobody() {
        let _ = HOSTS.set((peers, flow));
    }
    let meet = values.text("meet");
    if !meet.is_empty() {
        // what is wrong with it `ferriband sdp run` says; here its sockets' rows in `status` do
        let _ = MEETS.set(Directory::open(Path::new(meet)).ok());
    }
    values.text("counters").to_owned()
}

/// Name and text of the settings file; None if there is none that can be read.
fn file() -> Option<(String, String)> {
    let value = |name: &str| env::var(name).ok();
    let [named, config, home] = [SETTINGS.file_variable, "XDG_CONFIG_HOME", "HOME"].map(value);
    let path = SETTINGS.path(named.as_deref(), config.as_deref(), home.as_deref())?;
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let file = rustix::fs::open(path.as_str(), flags, Mode::empty()).ok()?;
    let mut text = vec![0; LONGEST_FILE as usize + 1];
    let mut length = 0;
    loop {
        match rustix::io::read(&file, &mut text[length..]).ok()? {
            0 => break,
            more => length += more,
        }
    }
    // one that is longer than it may be is not read
    text.truncate(length);
    let text = String::from_utf8(text).ok()?;
    (length as u64 <= LONGEST_FILE).then_some((path, text))
}

/// Bytes below which a peer may ask as soon as it is connected.
const AT_ONCE: u64 = 1024;

/// With whom connections go by queue pairs; None if there is nobody.
pub(super) fn hosts() -> Option<&'static (Peers, FlowKind)> {
    HOSTS.get()
}

/// The directory by which peers in other network namespaces are found; None: they are not.
pub(super) fn meets() -> Option<&'static Directory> {
    MEETS.get()?.as_ref()
}

/// Whether a directory is set that could not be opened.
pub(super) fn meets_nowhere() -> bool {
    matches!(MEETS.get(), Some(None))
}

/// Whether peers ask so early that each connection is to be known as soon as it was accepted.
#[inline]
pub(super) fn is_early() -> bool {
    exchanges() <= 1 || bytes() < AT_ONCE
}

/// Whether each connection is wanted, however few exchanges there will be.
#[inline]
pub(super) fn wants_each() -> bool {
    exchanges() <= 1
}

/// Exchanges after which a connection is worth to be taken over; 0: with its first send.
#[inline]
pub(super) fn exchanges() -> u32 {
    EXCHANGES.load(Ordering::Relaxed)
}

/// Bytes in both directions after which it is; 0: with its first call.
#[inline]
pub(super) fn bytes() -> u64 {
    BYTES.load(Ordering::Relaxed)
}
