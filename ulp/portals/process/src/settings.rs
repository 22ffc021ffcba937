//! What a user may set of Portals: the rows of its table of settings, named as the reference
//! implementation names its own.
//!
//! Owns: names, kinds, defaults and meanings. Must not know: where values come from. What concerns
//! connections is put/get's (FERRIBAND_PUTGET_TRACE).

use ferriband_settings::{Kind, Setting, Table};

/// What a user may set of Portals.
pub static SETTINGS: Table = Table {
    prefix: "PTL_",
    file_variable: "FERRIBAND_PORTALS_SETTINGS",
    file: "ferriband/portals.conf",
    shown_by: "ferriband putget settings",
    reserved: &[],
    rows: &[Setting {
        name: "iface_name",
        about: "names",
        kind: Kind::Text,
        default: "",
        help: "The network interface whose IPv4 address is the process's nid; empty: the first that is up, else the loopback one.",
    }],
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_one_and_other_settings_of_the_reference_are_strangers() {
        assert_eq!(SETTINGS.check(), Ok(()));
        let variables = [("PTL_IFACE_NAME", "eth1"), ("PTL_DEBUG", "1")];
        let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let values = SETTINGS.read(None, variables).unwrap();
        assert_eq!(values.text("iface_name"), "eth1");
        assert_eq!(values.strangers.len(), 1);
    }
}
