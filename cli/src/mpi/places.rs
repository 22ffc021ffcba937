//! Which CPUs a rank may run on: how ranks are dealt to the machine, and how they are bound.

use crate::args::{Binding, Mapping, Unit};
use std::collections::BTreeMap;
use std::fs;

/// The CPUs of this machine that ranks may use, in the order in which they are dealt.
pub struct Places {
    cpus: Vec<usize>,
    /// Units, for a binding to one: each with its CPUs.
    units: Vec<Vec<usize>>,
    binding: Binding,
    per_rank: usize,
    is_crowded: bool,
}

impl Places {
    /// For a job of `ranks` ranks.
    pub fn new(cpus: &[usize], ranks: u32, binding: Binding, mapping: &Mapping) -> Self {
        let binding = match (binding, mapping.cpus) {
            // As Open MPI's PE= does.
            (_, Some(count)) => Binding::Cpus(count),
            (binding, None) => binding,
        };
        let per_rank = match binding {
            Binding::Cpus(count) => count,
            _ => 1,
        };
        let bound_to = match binding {
            Binding::Unit(unit) => unit,
            _ => Unit::Machine,
        };
        Self {
            cpus: dealt(&units(cpus, mapping.by, key)),
            units: units(cpus, bound_to, key),
            binding,
            per_rank,
            is_crowded: ranks as usize * per_rank > cpus.len(),
        }
    }

    /// The CPUs of a rank, if it is bound to some.
    pub fn of_rank(&self, rank: u32) -> Option<Vec<usize>> {
        let first = rank as usize * self.per_rank;
        match self.binding {
            Binding::None => None,
            Binding::Cpus(_) if self.is_crowded => None,
            Binding::Cpus(count) => Some(self.cpus[first..first + count].to_vec()),
            Binding::Unit(_) => {
                let own = self.cpus[first % self.cpus.len()];
                self.units.iter().find(|unit| unit.contains(&own)).cloned()
            }
        }
    }
}

/// How many units of a kind there are.
pub fn count(cpus: &[usize], unit: Unit) -> usize {
    units(cpus, unit, key).len()
}

/// The CPUs by the units that they are of.
fn units(cpus: &[usize], unit: Unit, key: impl Fn(usize, Unit) -> String) -> Vec<Vec<usize>> {
    let mut order: Vec<Vec<usize>> = Vec::new();
    let mut places = BTreeMap::new();
    for cpu in cpus {
        let place = *places.entry(key(*cpu, unit)).or_insert(order.len());
        if place == order.len() {
            order.push(Vec::new());
        }
        order[place].push(*cpu);
    }
    order
}

/// One of each unit in turn, but for those of one CPU or of all: these are taken as they come.
fn dealt(units: &[Vec<usize>]) -> Vec<usize> {
    let longest = units.iter().map(Vec::len).max().unwrap_or_default();
    (0..longest)
        .flat_map(|place| units.iter().filter_map(move |unit| unit.get(place)))
        .copied()
        .collect()
}

/// What two CPUs of one unit have alike. Where the kernel does not say it, all are of one unit.
fn key(cpu: usize, unit: Unit) -> String {
    let base = format!("/sys/devices/system/cpu/cpu{cpu}");
    let read = |path: &str| fs::read_to_string(format!("{base}/{path}")).unwrap_or_default();
    match unit {
        Unit::Machine => String::new(),
        Unit::Cpu => cpu.to_string(),
        Unit::Core => format!(
            "{} {}",
            read("topology/physical_package_id").trim(),
            read("topology/core_id").trim()
        ),
        Unit::Package => read("topology/physical_package_id"),
        Unit::Numa => (0..1024)
            .find(|node| fs::exists(format!("{base}/node{node}")).unwrap_or_default())
            .map_or_else(String::new, |node: u32| node.to_string()),
        Unit::L1 | Unit::L2 | Unit::L3 => {
            let level = match unit {
                Unit::L1 => "1",
                Unit::L2 => "2",
                _ => "3",
            };
            (0..8)
                .find(|index| {
                    let is =
                        |file, what| read(&format!("cache/index{index}/{file}")).trim() == what;
                    is("level", level) && !is("type", "Instruction")
                })
                .map_or_else(String::new, |index| {
                    read(&format!("cache/index{index}/shared_cpu_list"))
                })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_dealt_to_units_in_turn_and_bound_to_what_is_theirs() {
        // two packages of four CPUs
        let cpus: Vec<usize> = (0..8).collect();
        let key = |cpu: usize, unit: Unit| match unit {
            Unit::Package => (cpu / 4).to_string(),
            Unit::Cpu => cpu.to_string(),
            _ => String::new(),
        };
        assert_eq!(
            dealt(&units(&cpus, Unit::Package, key)),
            [0, 4, 1, 5, 2, 6, 3, 7]
        );
        assert_eq!(dealt(&units(&cpus, Unit::Cpu, key)), cpus);
        assert_eq!(dealt(&units(&cpus, Unit::Machine, key)), cpus);
        let mapping = Mapping::default();
        let places = Places::new(&cpus, 4, Binding::Cpus(2), &mapping);
        assert_eq!(places.of_rank(3), Some(vec![6, 7]));
        let crowded = Places::new(&cpus, 5, Binding::Cpus(2), &mapping);
        assert_eq!(crowded.of_rank(0), None);
        let unbound = Places::new(&cpus, 2, Binding::None, &mapping);
        assert_eq!(unbound.of_rank(0), None);
        let more = Mapping {
            cpus: Some(4),
            ..mapping
        };
        let places = Places::new(&cpus, 2, Binding::None, &more);
        assert_eq!(places.of_rank(1), Some(vec![4, 5, 6, 7]));
    }

    #[test]
    fn each_unit_of_this_machine_has_a_cpu_of_its() {
        let cpus = super::super::ranks::cores().expect("known");
        for unit in [
            Unit::Cpu,
            Unit::Core,
            Unit::L1,
            Unit::L3,
            Unit::Numa,
            Unit::Package,
        ] {
            assert!((1..=cpus.len()).contains(&count(&cpus, unit)), "{unit}");
            let bound = Places::new(&cpus, 1, Binding::Unit(unit), &Mapping::default());
            assert!(
                bound.of_rank(0).is_some_and(|own| own.contains(&cpus[0])),
                "{unit}"
            );
        }
        assert_eq!(count(&cpus, Unit::Machine), 1);
    }
}
