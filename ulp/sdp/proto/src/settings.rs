//! What a user may set of SDP's sockets: the rows of their table of settings.
//!
//! Owns: names, kinds, defaults and meanings ([`SETTINGS`]). Must not know: where values come from,
//! which is `ulp/settings`'s. A new setting is a row here, and whoever obeys it.

use ferriband_settings::Kind;
pub use ferriband_settings::{LONGEST_FILE, Setting, Table, Values, Wrong};

/// What a user may set of SDP's sockets.
pub static SETTINGS: Table = Table {
    prefix: "FERRIBAND_SDP_",
    file_variable: "FERRIBAND_SDP_SETTINGS",
    file: "ferriband/sdp.conf",
    shown_by: "ferriband sdp env",
    reserved: &[],
    rows: &[
        Setting {
            name: "after_exchanges",
            about: "connections",
            kind: Kind::Number(0..=1 << 20),
            default: "3",
            help: "A connection asks to go by SDP with this exchange, a send that follows a receive; 0 or 1: with its first send.",
        },
        Setting {
            name: "after_bytes",
            about: "connections",
            kind: Kind::Bytes(0..=1 << 40),
            default: "16K",
            help: "A connection asks to go by SDP after so many bytes in both directions together, however few exchanges there were; 0: with its first call.",
        },
        Setting {
            name: "spin",
            about: "waiting",
            kind: Kind::OneOf(&["auto", "0", "always"]),
            default: "auto",
            help: "Whether a thread that finds nothing looks again before it sleeps: as long as it learns that this pays, never (0), or 10 ms before each sleep (always), which takes a core.",
        },
        Setting {
            name: "meet",
            about: "hosts",
            kind: Kind::Text,
            default: "",
            help: "A directory that containers of this host share, by which programs in different network namespaces find each other; empty: connections between them stay TCP.",
        },
        Setting {
            name: "same_host",
            about: "hosts",
            kind: Kind::OneOf(&["local", "verbs"]),
            default: "local",
            help: "What carries connections within this network namespace: rings in shared memory (local), or queue pairs of an adapter (verbs), where both ends set it; slower than TCP, for measuring SDP itself.",
        },
        Setting {
            name: "ranges",
            about: "hosts",
            kind: Kind::Text,
            default: "",
            help: "Addresses and ranges (192.0.2.0/24 2001:db8::1) of hosts with which connections go by queue pairs of an adapter, found by rdma_cm; empty: none.",
        },
        Setting {
            name: "flow",
            about: "hosts",
            kind: Kind::OneOf(&["credit", "ring", "nic"]),
            default: "nic",
            help: "The flow control that this process asks for, by queue pairs.",
        },
        Setting {
            name: "zero_copy",
            about: "hosts",
            kind: Kind::BytesOr(1..=1 << 40, &["auto", "never"]),
            default: "auto",
            help: "From which length on a blocking write of programs on queue pairs goes without copies: as `ferriband tune sdp` has measured for the adapter, or as is shipped for it (auto). Sockets go by copies.",
        },
        Setting {
            name: "counters",
            about: "reports",
            kind: Kind::Text,
            default: "",
            help: "A file that each process appends a line of JSON to when it ends: how many of its connections could have gone by SDP, and how many did.",
        },
    ],
};

/// The setting `zero_copy`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ZeroCopy {
    /// As is known of the adapter.
    Auto,
    /// Writes of so many bytes and more.
    From(u64),
    /// No write.
    Never,
}

impl ZeroCopy {
    /// What is set.
    pub fn of(values: &Values) -> Self {
        match values.text("zero_copy") {
            "auto" => ZeroCopy::Auto,
            "never" => ZeroCopy::Never,
            _ => ZeroCopy::From(values.number("zero_copy")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_row_holds_together() {
        assert_eq!(SETTINGS.check(), Ok(()));
    }

    #[test]
    fn zero_copy_is_a_length_or_a_word() {
        let of = |value: &str| {
            let mut values = SETTINGS.read(None, []).expect("defaults");
            values
                .set("zero_copy", value)
                .map(|()| ZeroCopy::of(&values))
        };
        assert_eq!(of("auto"), Ok(ZeroCopy::Auto));
        assert_eq!(of("never"), Ok(ZeroCopy::Never));
        assert_eq!(of("256K"), Ok(ZeroCopy::From(1 << 18)));
        let wrong = of("0").expect_err("no length");
        assert!(wrong.0.contains("auto or never or bytes"), "{wrong}");
    }
}
