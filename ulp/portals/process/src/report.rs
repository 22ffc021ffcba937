//! What the Portals of a process says of itself when `ferriband` asks.
//!
//! Owns: the form of that, and counters of operations by path. Must not know: how it travels, how
//! it is shown.

use crate::memory::Memory;
use crate::process::{Ni, Process};
use ferriband_portals_proto::{ArrivalOp, StatusRegister};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Which way an operation goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Path {
    /// In a message.
    Short,
    /// By RDMA of the target.
    Long,
    /// By a lease.
    Direct,
    /// To this process itself.
    Within,
}

/// Operations that were begun, by what they do and by path, and their bytes.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Begun([[(u64, u64); 4]; 5]);

impl Begun {
    pub fn count(&mut self, op: ArrivalOp, path: Path, length: u64) {
        let (count, bytes) = &mut self.0[op as usize][path as usize];
        *count += 1;
        *bytes = bytes.saturating_add(length);
    }

    /// Those that were begun at all.
    fn report(&self) -> Vec<OperationReport> {
        let ops = ["put", "get", "atomic", "fetch_atomic", "swap"];
        let paths = ["short", "long", "direct", "within"];
        let all = ops.into_iter().zip(self.0).flat_map(|(op, by_path)| {
            let paths = paths.into_iter().zip(by_path);
            paths.map(move |(path, (count, bytes))| OperationReport {
                operation: op.to_owned(),
                path: path.to_owned(),
                count,
                bytes,
            })
        });
        all.filter(|report| report.count > 0).collect()
    }
}

/// Operations of one kind that went one way.
#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug, Default)]
pub struct OperationReport {
    /// put, get, atomic, fetch_atomic, swap.
    pub operation: String,
    /// In a message (short), by RDMA of the target (long), by RDMA of the initiator (direct), to
    /// the process itself (within).
    pub path: String,
    /// How many were begun.
    pub count: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// An interface.
#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug, Default)]
pub struct InterfaceReport {
    /// It matches.
    pub matching: bool,
    /// Its processes are ranks.
    pub logical: bool,
    /// The process's rank; none without a map, or in none.
    pub rank: Option<u32>,
    /// Ranks of the map.
    pub ranks: usize,
    /// Table entries in use.
    pub table: Vec<u32>,
    /// Those of them that let no requests in.
    pub disabled: Vec<u32>,
    /// Entries of all priority lists.
    pub priority_entries: u64,
    /// Entries of all overflow lists.
    pub overflow_entries: u64,
    /// Unexpected headers.
    pub unexpected_headers: u64,
    /// By name: requests that were matched in either list or dropped, triggered operations that
    /// have fired, how often flow control has disabled a table entry.
    pub counters: BTreeMap<String, u64>,
}

/// The Portals of a process.
#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug, Default)]
pub struct PortalsReport {
    /// The open interfaces.
    pub interfaces: Vec<InterfaceReport>,
    /// What was begun.
    pub operations: Vec<OperationReport>,
    /// Operations that wait for a connection, or for room.
    pub waiting: usize,
    /// Entries that are lent, each perhaps to several peers.
    pub lent_entries: usize,
}

impl<M: Memory> Process<M> {
    /// What it is and has done.
    pub fn report(&self) -> PortalsReport {
        let interfaces = self.interfaces.iter().flatten();
        PortalsReport {
            interfaces: interfaces.map(interface).collect(),
            operations: self.begun.report(),
            waiting: self.waiting.values().map(|waiting| waiting.len()).sum(),
            lent_entries: self.leases.lent_entries(),
        }
    }
}

fn interface(ni: &Ni) -> InterfaceReport {
    let (kind, summary) = (ni.interface.kind(), ni.interface.summary());
    let counts = summary.counts;
    let register = |register| u64::try_from(ni.interface.status(register)).unwrap_or(0);
    let counters = [
        ("matched_priority", counts.priority),
        ("matched_overflow", counts.overflow),
        ("counted_direct", counts.direct),
        ("dropped", register(StatusRegister::DropCount)),
        (
            "permission_violations",
            register(StatusRegister::PermissionViolations),
        ),
        (
            "operation_violations",
            register(StatusRegister::OperationViolations),
        ),
        ("triggered", counts.triggered),
        ("pt_disabled", counts.disabled),
    ];
    let is_ranked = kind.logical && !ni.map.is_empty() && ni.rank != u32::MAX;
    InterfaceReport {
        matching: kind.matching,
        logical: kind.logical,
        rank: is_ranked.then_some(ni.rank),
        ranks: ni.map.len(),
        table: summary.table,
        disabled: summary.disabled,
        priority_entries: summary.priority,
        overflow_entries: summary.overflow,
        unexpected_headers: summary.unexpected,
        counters: counters
            .into_iter()
            .map(|(name, count)| (name.to_owned(), count))
            .collect(),
    }
}
