//! Sizes of a socket: the defaults, the administrator's, and what the program asks for.
//!
//! The administrator's are files in `/etc/rdma/rsocket`, each with one number, as rdma-core has them.

use ferriband_fork::Settled;
use std::time::Duration;

/// The most that the wire's numbers allow in a queue.
pub const MOST_WORK: u32 = 0xfffe;
/// The fewest that a queue has.
const FEWEST_WORK: u32 = 16;
/// Bytes that must be free to send at all; also the largest datagram, header included.
pub const LOW_WATER: u32 = 2048;
/// The largest buffer: memory is taken for each connection.
const MOST_BUFFER: u32 = 1 << 28;

/// Sizes that a socket has before it connects.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Bytes that may be under way.
    pub send_bytes: u32,
    /// Bytes that may lie here unread. Even.
    pub receive_bytes: u32,
    /// Bytes that go with the request itself.
    pub inline: u32,
    /// Requests of the send queue.
    pub send_work: u32,
    /// Receives, and so messages that may lie here unread.
    pub receive_work: u32,
    /// Buffers that the other side may map.
    pub mappings: u16,
}

struct Defaults {
    settings: Settings,
    polling: Duration,
}

/// What they are, found out when it is first asked for.
fn defaults() -> &'static Defaults {
    static DEFAULTS: Settled<Defaults> = Settled::new();
    DEFAULTS.get_or_init(find)
}

fn find() -> Defaults {
    let mut settings = Settings {
        send_bytes: 1 << 17,
        receive_bytes: 1 << 17,
        inline: configured("inline_default").unwrap_or(64),
        send_work: configured("sqsize_default").unwrap_or(384),
        receive_work: configured("rqsize_default").unwrap_or(384),
        mappings: super::wire::scaled(configured("iomap_size").unwrap_or(0)),
    };
    if let Some(bytes) = configured("mem_default") {
        settings.set_receive_bytes(bytes);
    }
    if let Some(bytes) = configured("wmem_default") {
        settings.set_send_bytes(bytes);
    }
    Defaults {
        settings,
        polling: Duration::from_micros(configured("polling_time").unwrap_or(10).into()),
    }
}

/// The number in a file of the administrator's, if there is one.
fn configured(name: &str) -> Option<u32> {
    let path = std::path::Path::new("/etc/rdma/rsocket").join(name);
    let text = std::fs::read_to_string(path).ok()?;
    text.trim().parse().ok()
}

/// How long a call polls before it sleeps.
pub fn polling() -> Duration {
    defaults().polling
}

impl Default for Settings {
    fn default() -> Self {
        defaults().settings.clone()
    }
}

impl Settings {
    /// Bytes that may be under way, within what is possible.
    pub fn set_send_bytes(&mut self, bytes: u32) {
        self.send_bytes = bytes.clamp(2 * LOW_WATER, MOST_BUFFER);
    }

    /// Bytes that may lie here unread, within what is possible.
    pub fn set_receive_bytes(&mut self, bytes: u32) {
        self.receive_bytes = bytes.clamp(2 * LOW_WATER, MOST_BUFFER) & !1;
    }

    /// Queues within what the protocol and the device can.
    pub fn fit(&mut self, device_work: u32) {
        let most = device_work.clamp(FEWEST_WORK, MOST_WORK);
        self.send_work = self.send_work.clamp(FEWEST_WORK, most);
        self.receive_work = self.receive_work.clamp(FEWEST_WORK, most);
    }
}
