//! Up to how many bytes puts and gets go in protocol messages, for each kind of device.
//!
//! Owns: the table, the file in which a user keeps what was measured, how settings override both.
//! Must not know: how it was measured, which is `ferriband tune putget`'s.
//!
//! A table is text: one row on a line, four fields between tabs, `#` begins a comment.
//!
//! | field | |
//! |---|---|
//! | adapter | vendor and part, `0x02fe77:17986` |
//! | link | `infiniband` or `ethernet` |
//! | put | the most bytes of a put that goes in a message |
//! | get | those of a get |

use crate::Error;
use ferriband_ibv::{AdapterKind, Cm, CmChannel, CmId, Context, LinkLayer, PortSpace};
use ferriband_putget_proto::HEADER_BYTES;
use ferriband_settings::{Values, user_file};
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::{env, fmt, fs};

/// What is known where nobody has measured.
const SHIPPED: &str = include_str!("../crossover.tsv");
/// Where a user's own measurements are, in the directory of settings.
const FILE: &str = "ferriband/putget-crossover.tsv";
/// The longest protocol message that a crossover may ask for, header included.
pub const LONGEST_MESSAGE: u32 = 1 << 16;
/// The shortest that is offered: the paper's best.
pub const USUAL_MESSAGE: u32 = 2048;

/// Up to how many bytes operations go in protocol messages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Crossover {
    /// Of puts.
    pub put: u64,
    /// Of gets.
    pub get: u64,
}

impl Crossover {
    /// As much as fits into the paper's best message: what is used of a device of which nothing is
    /// known.
    pub const USUAL: Crossover = Crossover {
        put: USUAL_MESSAGE as u64 - HEADER_BYTES as u64,
        get: USUAL_MESSAGE as u64 - HEADER_BYTES as u64,
    };

    /// Bytes of a protocol message that has room for both, header included.
    pub fn message_bytes(self) -> u32 {
        let bytes = self.put.max(self.get) + HEADER_BYTES as u64;
        let bytes = u32::try_from(bytes).unwrap_or(LONGEST_MESSAGE);
        bytes.clamp(USUAL_MESSAGE, LONGEST_MESSAGE)
    }

    /// With what is set.
    pub fn set(self, values: &Values) -> Crossover {
        let of = |name: &str, known: u64| match values.text(name) {
            "auto" => known,
            _ => values.number(name),
        };
        Crossover {
            put: of("put_crossover", self.put),
            get: of("get_crossover", self.get),
        }
    }

    /// What is set, else known, for the device that has an address.
    ///
    /// # Errors
    /// The address belongs to no device.
    pub fn at(cm: &'static Cm, address: IpAddr, values: &Values) -> Result<Crossover, Error> {
        let kind = DeviceKind::at(cm, address)?;
        Ok(Crossover::known(&Crossovers::measured(), kind).set(values))
    }

    /// What is measured of a kind of device, else what is shipped, else the usual.
    pub fn known(measured: &Crossovers, kind: DeviceKind) -> Crossover {
        let known = measured.of(kind).or_else(|| Crossovers::shipped().of(kind));
        known.unwrap_or(Crossover::USUAL)
    }
}

/// A kind of device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DeviceKind {
    /// Its adapter.
    pub adapter: AdapterKind,
    /// Its port's link is Ethernet.
    pub is_ethernet: bool,
}

impl DeviceKind {
    /// The kind of the device that has an address.
    ///
    /// # Errors
    /// The address belongs to no device.
    pub fn at(cm: &'static Cm, address: IpAddr) -> Result<DeviceKind, Error> {
        let channel = CmChannel::create(cm)?;
        let id = CmId::create(&channel, PortSpace::Tcp, 0)?;
        id.bind(SocketAddr::new(address, 0))?;
        let context = id.context()?.ok_or(Error::NoAdapter)?;
        DeviceKind::of(&context, id.port_number().max(1))
    }

    fn of(context: &Context, port: u8) -> Result<DeviceKind, Error> {
        Ok(DeviceKind {
            adapter: AdapterKind::from(&context.limits()?),
            is_ethernet: context.port(port)?.link_layer == LinkLayer::Ethernet,
        })
    }

    /// What is said of the link.
    pub fn link(self) -> &'static str {
        match self.is_ethernet {
            true => "ethernet",
            false => "infiniband",
        }
    }

    fn parse(adapter: &str, link: &str) -> Option<DeviceKind> {
        Some(DeviceKind {
            adapter: AdapterKind::parse(adapter)?,
            is_ethernet: match link {
                "ethernet" => true,
                "infiniband" => false,
                _ => return None,
            },
        })
    }
}

impl fmt::Display for DeviceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.adapter, self.link())
    }
}

/// A line that means nothing, counted from 1.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "line {0}: {1:?}: an adapter (vendor:part), its link and two lengths are needed, with tabs between"
)]
pub struct WrongLine(pub usize, pub String);

/// A table. Of a kind of device that it does not name nothing is known.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Crossovers {
    rows: Vec<(DeviceKind, Crossover)>,
}

impl Crossovers {
    /// What is shipped.
    pub fn shipped() -> Crossovers {
        Crossovers::parse(SHIPPED).unwrap_or_default()
    }

    /// The user's file, as settings files are found.
    pub fn path(config_home: Option<&str>, home: Option<&str>) -> Option<PathBuf> {
        user_file(FILE, config_home, home)
    }

    /// What this user has measured. Nothing, if there is no such file or it means nothing: the
    /// values that are shipped serve then.
    pub fn measured() -> Crossovers {
        let text = |name: &str| env::var(name).ok();
        let (config_home, home) = (text("XDG_CONFIG_HOME"), text("HOME"));
        let path = Crossovers::path(config_home.as_deref(), home.as_deref());
        let read = path.and_then(|path| fs::read_to_string(path).ok());
        read.and_then(|text| Crossovers::parse(&text).ok())
            .unwrap_or_default()
    }

    /// # Errors
    /// The first line that means nothing.
    pub fn parse(text: &str) -> Result<Crossovers, WrongLine> {
        let mut table = Crossovers::default();
        for (line, row) in (1..).zip(text.lines()) {
            let row = row.split('#').next().unwrap_or_default().trim_end();
            if row.is_empty() {
                continue;
            }
            let (kind, crossover) =
                parse_row(row).ok_or_else(|| WrongLine(line, row.to_owned()))?;
            table.set(kind, crossover);
        }
        Ok(table)
    }

    /// What is known of a kind of device.
    pub fn of(&self, kind: DeviceKind) -> Option<Crossover> {
        let found = self.rows.iter().find(|(known, _)| *known == kind);
        found.map(|(_, crossover)| *crossover)
    }

    /// Writes a row anew.
    pub fn set(&mut self, kind: DeviceKind, crossover: Crossover) {
        self.rows.retain(|(known, _)| *known != kind);
        self.rows.push((kind, crossover));
    }
}

fn parse_row(row: &str) -> Option<(DeviceKind, Crossover)> {
    let fields: Vec<&str> = row.split('\t').collect();
    let &[adapter, link, put, get] = fields.as_slice() else {
        return None;
    };
    let most = u64::from(LONGEST_MESSAGE) - HEADER_BYTES as u64;
    let bytes = |text: &str| text.parse().ok().filter(|bytes| *bytes <= most);
    let crossover = Crossover {
        put: bytes(put)?,
        get: bytes(get)?,
    };
    Some((DeviceKind::parse(adapter, link)?, crossover))
}

impl fmt::Display for Crossovers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (kind, crossover) in &self.rows {
            let (adapter, link) = (kind.adapter, kind.link());
            writeln!(f, "{adapter}\t{link}\t{}\t{}", crossover.put, crossover.get)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::SETTINGS;

    const OURS: AdapterKind = AdapterKind {
        vendor: 0x02_fe_77,
        part: 0x4642,
    };

    fn kind(is_ethernet: bool) -> DeviceKind {
        DeviceKind {
            adapter: OURS,
            is_ethernet,
        }
    }

    #[test]
    fn a_table_is_read_as_it_is_written_and_the_last_row_counts() {
        let row = "0x02fe77:17986\tinfiniband";
        let text = format!("# ours\n{row}\t1\t2\n{row}\t3\t4 # again\n");
        let mut table = Crossovers::parse(&text).unwrap();
        assert_eq!(table.of(kind(false)), Some(Crossover { put: 3, get: 4 }));
        assert_eq!(table.of(kind(true)), None);
        table.set(
            kind(true),
            Crossover {
                put: 0,
                get: 65_500,
            },
        );
        assert_eq!(Crossovers::parse(&table.to_string()), Ok(table.clone()));
        assert_eq!(Crossover::known(&table, kind(true)).get, 65_500);
    }

    #[test]
    fn both_links_of_our_own_adapter_are_shipped_and_others_have_the_usual() {
        let shipped = Crossovers::parse(SHIPPED).unwrap();
        assert!(shipped.of(kind(false)).is_some() && shipped.of(kind(true)).is_some());
        let part = 1;
        let adapter = AdapterKind { part, ..OURS };
        let other = DeviceKind {
            adapter,
            is_ethernet: false,
        };
        let known = Crossover::known(&Crossovers::default(), other);
        assert_eq!((known, known.message_bytes()), (Crossover::USUAL, 2048));
    }

    #[test]
    fn a_line_that_means_nothing_is_named() {
        for rest in ["infiniband\t1", "token-ring\t1\t2", "ethernet\t1\t65501"] {
            let line = format!("0x1:2\t{rest}");
            let wrong = Crossovers::parse(&format!("\n{line}")).unwrap_err();
            assert_eq!(wrong, WrongLine(2, line));
        }
    }

    #[test]
    fn a_setting_overrides_what_is_known() {
        let known = Crossover { put: 10, get: 20 };
        let values = |name: &str, value: &str| {
            let variable = [(name.to_owned(), value.to_owned())];
            SETTINGS.read(None, variable)
        };
        let put = values("FERRIBAND_PUTGET_PUT_CROSSOVER", "4K").unwrap();
        assert_eq!(known.set(&put), Crossover { put: 4096, get: 20 });
        assert_eq!(known.set(&put).message_bytes(), 4132);
        let get = values("FERRIBAND_PUTGET_GET_CROSSOVER", "0").unwrap();
        assert_eq!(known.set(&get), Crossover { put: 10, get: 0 });
        assert_eq!(known.set(&SETTINGS.read(None, []).unwrap()), known);
        assert!(values("FERRIBAND_PUTGET_GET_CROSSOVER", "64K").is_err());
    }
}
