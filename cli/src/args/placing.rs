//! Where ranks are put on the machine, in the words of Hydra and of Open MPI.

use std::fmt;

/// What a machine has several of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Unit {
    /// What the system calls a CPU: a core, or one of its hardware threads.
    Cpu,
    /// A core with all its hardware threads.
    Core,
    /// What shares a cache of the first level,
    L1,
    /// of the second,
    L2,
    /// or of the third.
    L3,
    /// A node of memory.
    Numa,
    /// A processor package.
    Package,
    /// The whole machine.
    Machine,
}

impl Unit {
    fn of(word: &str) -> Option<Self> {
        Some(match word {
            "hwthread" | "slot" => Self::Cpu,
            "core" | "cpu" => Self::Core,
            "l1cache" | "l1" => Self::L1,
            "l2cache" | "l2" => Self::L2,
            "l3cache" | "l3" => Self::L3,
            "numa" => Self::Numa,
            "socket" | "package" => Self::Package,
            "board" | "machine" | "node" => Self::Machine,
            _ => return None,
        })
    }
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Cpu => "CPU",
            Self::Core => "core",
            Self::L1 => "first-level cache",
            Self::L2 => "second-level cache",
            Self::L3 => "third-level cache",
            Self::Numa => "NUMA node",
            Self::Package => "package",
            Self::Machine => "machine",
        })
    }
}

/// Where ranks may run: `--bind`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Binding {
    /// Where the system likes.
    None,
    /// Each on so many CPUs of its own, if there are enough.
    Cpus(usize),
    /// On the unit that its own CPU is of.
    Unit(Unit),
}

/// How ranks are dealt to the machine: `--map-by`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// In turn to units of this kind.
    pub by: Unit,
    /// So many to each such unit, and no more.
    pub per_unit: Option<u32>,
    /// CPUs for each rank.
    pub cpus: Option<usize>,
    /// Whether there may be more ranks than slots, if it is said.
    pub oversubscribes: Option<bool>,
}

impl Default for Mapping {
    fn default() -> Self {
        Self {
            by: Unit::Cpu,
            per_unit: None,
            cpus: None,
            oversubscribes: None,
        }
    }
}

/// `core`, `none`, `socket` and so on, with what may follow a colon.
pub fn binding(text: &str) -> Result<Binding, String> {
    let text = text.to_ascii_lowercase();
    let (unit, rest) = text.split_once(':').unwrap_or((&text, ""));
    if matches!(unit, "user" | "cpu-list") {
        let why = "CPUs are not named here: start mpirun itself under `taskset -c LIST`, and give --bind core";
        return Err(why.to_owned());
    }
    let mut count = 1;
    for word in rest.split([':', ',']).filter(|word| !word.is_empty()) {
        match word {
            // They are what is done anyway.
            "overload-allowed" | "if-supported" => (),
            number => {
                count = number
                    .parse()
                    .ok()
                    .filter(|count| (1..4096).contains(count))
                    .ok_or_else(|| format!("nothing is known of \"{word}\" behind a colon"))?;
            }
        }
    }
    match (unit, Unit::of(unit)) {
        ("none" | "rr", _) => Ok(Binding::None),
        (_, Some(Unit::Cpu | Unit::Core)) => Ok(Binding::Cpus(count)),
        (_, Some(Unit::Machine)) => Ok(Binding::None),
        (_, Some(unit)) => Ok(Binding::Unit(unit)),
        (_, None) => Err(
            "it can be core, hwthread, l1cache, l2cache, l3cache, numa, socket, package or none"
                .to_owned(),
        ),
    }
}

/// `UNIT[:MODIFIER,..]` or `ppr:N:UNIT[:MODIFIER,..]`; the unit may be left out.
pub fn mapping(text: &str) -> Result<Mapping, String> {
    let text = text.to_ascii_lowercase();
    let mut mapping = Mapping::default();
    let mut words = text.split([':', ',']);
    let mut unit = words.next().unwrap_or_default();
    if unit == "ppr" {
        let count = words.next().and_then(|word| word.parse::<u32>().ok());
        let count = count.filter(|count| *count > 0);
        mapping.per_unit =
            Some(count.ok_or("ppr is followed by a number and a unit, as in ppr:2:node")?);
        unit = words.next().unwrap_or_default();
    }
    match unit {
        // All machines are this one.
        "" | "seq" | "span" => (),
        "rankfile" => {
            return Err(
                "files of ranks are not read: ranks are dealt to this machine alone".to_owned(),
            );
        }
        other => {
            let known = "it can be slot, hwthread, core, l1cache, l2cache, l3cache, numa, socket, package, board or node, or ppr:N: and one of them";
            mapping.by = Unit::of(other).ok_or(known)?;
        }
    }
    for word in words.filter(|word| !word.is_empty()) {
        match word.split_once('=').unwrap_or((word, "")) {
            ("oversubscribe", _) => mapping.oversubscribes = Some(true),
            ("nooversubscribe", _) => mapping.oversubscribes = Some(false),
            ("pe", count) => {
                let count = count.parse().ok().filter(|count| (1..4096).contains(count));
                mapping.cpus = Some(count.ok_or("PE= is followed by a number of CPUs")?);
            }
            // Each CPU of the system is a place for a rank, and there is one machine.
            (
                "span" | "hwtcpus" | "corecpus" | "inherit" | "noinherit" | "ordered" | "display",
                _,
            ) => (),
            ("nolocal", _) => {
                return Err(
                    "NOLOCAL asks for other machines alone, and there is this one".to_owned(),
                );
            }
            _ => return Err(format!("the modifier \"{word}\" is not known here")),
        }
    }
    Ok(mapping)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mappings_are_read_with_all_their_modifiers() {
        let plain = Mapping::default();
        for text in ["slot", "hwthread", ":SPAN", "slot:HWTCPUS", "", "seq"] {
            assert_eq!(mapping(text), Ok(plain), "{text}");
        }
        let node = mapping("node:OVERSUBSCRIBE,PE=2").expect("known");
        assert_eq!((node.by, node.cpus), (Unit::Machine, Some(2)));
        assert_eq!(node.oversubscribes, Some(true));
        let few = mapping("ppr:2:socket:nooversubscribe").expect("known");
        assert_eq!((few.by, few.per_unit), (Unit::Package, Some(2)));
        assert_eq!(few.oversubscribes, Some(false));
        for text in [
            "ppr:0:node",
            "ppr:x",
            "rack",
            "slot:PE=0",
            "node:NOLOCAL",
            "rankfile:FILE=x",
        ] {
            assert!(mapping(text).is_err(), "{text}");
        }
    }

    #[test]
    fn bindings_are_read_with_what_follows_the_colon() {
        assert_eq!(binding("core"), Ok(Binding::Cpus(1)));
        assert_eq!(binding("hwthread:overload-allowed"), Ok(Binding::Cpus(1)));
        assert_eq!(binding("core:2"), Ok(Binding::Cpus(2)));
        assert_eq!(binding("NUMA"), Ok(Binding::Unit(Unit::Numa)));
        assert_eq!(binding("board"), Ok(Binding::None));
        assert_eq!(binding("none"), Ok(Binding::None));
        assert!(binding("user:0,1").is_err_and(|why| why.contains("taskset")));
        assert!(binding("cores").is_err() && binding("core:0").is_err());
    }
}
