//! Automatic path migration: Migrated -> Rearm -> Armed -> Migrated (IBA 17.2.8).
//!
//! Pure functions over the state, what a program asks for, the MigReq bit of arriving packets and
//! the path they came by.

use crate::types::{MigState, QpAttr};

/// By which path of a connection packets have come. The driver knows the addresses.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum CameBy {
    /// By the primary path, or by one that is neither.
    #[default]
    Primary,
    /// By the alternate path.
    Alternate,
    /// Both paths have the same addresses.
    Either,
}

/// What a modify call that names the path migration state does (IBA 11.2.5.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Asked {
    /// The state is as it was.
    Nothing,
    /// Rearm: packets say so to the peer from now on.
    Rearm,
    /// Over to the alternate path.
    Migrate,
    /// The program may not ask for that in this state.
    Refused,
}

/// What a packet asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Migration {
    /// Nothing.
    Stay,
    /// Both sides have an alternate path loaded: armed.
    Arm,
    /// Go over to the alternate path.
    Migrate,
    /// The peer migrated and this side cannot follow.
    Impossible,
}

/// A program names the state `wanted`; `loaded`: there is an alternate path, or the call brings
/// one. Armed is the adapters' word alone. Migrated is asked for in Armed; in Migrated it changes
/// nothing, which the IBA calls an error and adapters accept: programs name it with their other
/// attributes.
pub(crate) const fn on_request(state: MigState, wanted: MigState, loaded: bool) -> Asked {
    match (state, wanted) {
        (MigState::Migrated, MigState::Migrated) => Asked::Nothing,
        (MigState::Armed, MigState::Migrated) => Asked::Migrate,
        (MigState::Rearm, MigState::Migrated) | (_, MigState::Armed) => Asked::Refused,
        (_, MigState::Rearm) if loaded => Asked::Rearm,
        (_, MigState::Rearm) => Asked::Refused,
    }
}

/// A packet arrived. `migrated`: its MigReq bit.
pub(crate) const fn on_packet(state: MigState, migrated: bool, by: CameBy) -> Migration {
    match (state, migrated, by) {
        // The peer is in Rearm or Armed: both have loaded the alternate path.
        (MigState::Rearm, false, _) => Migration::Arm,
        (MigState::Armed, true, CameBy::Alternate | CameBy::Either) => Migration::Migrate,
        // Before it rearms the peer sends such packets by the primary path.
        (MigState::Rearm, true, CameBy::Alternate) => Migration::Impossible,
        _ => Migration::Stay,
    }
}

/// An alternate path has been loaded.
pub(crate) const fn is_loaded(attr: &QpAttr) -> bool {
    // ports are numbered from 1
    attr.alt_port_num != 0
}

/// Makes the alternate path the primary one. The old primary stays as alternate, unarmed.
pub(crate) fn migrate(attr: &mut QpAttr) {
    std::mem::swap(&mut attr.av, &mut attr.alt_av);
    std::mem::swap(&mut attr.pkey_index, &mut attr.alt_pkey_index);
    std::mem::swap(&mut attr.port_num, &mut attr.alt_port_num);
    std::mem::swap(&mut attr.timeout, &mut attr.alt_timeout);
    attr.path_mig_state = MigState::Migrated;
}

#[cfg(test)]
mod tests {
    use super::*;
    use MigState::{Armed, Migrated, Rearm};

    /// IBA 17.2.8: what a program may name, from each state; without an alternate path, with one.
    #[test]
    fn each_pair_of_states_has_its_answer() {
        use Asked::{Migrate, Nothing, Refused};
        let table = [
            (Migrated, Migrated, [Nothing, Nothing]),
            (Migrated, Rearm, [Refused, Asked::Rearm]),
            (Migrated, Armed, [Refused, Refused]),
            (Rearm, Migrated, [Refused, Refused]),
            (Rearm, Rearm, [Refused, Asked::Rearm]),
            (Rearm, Armed, [Refused, Refused]),
            (Armed, Migrated, [Migrate, Migrate]),
            (Armed, Rearm, [Refused, Asked::Rearm]),
            (Armed, Armed, [Refused, Refused]),
        ];
        for (from, to, answers) in table {
            for (loaded, answer) in [false, true].into_iter().zip(answers) {
                let got = on_request(from, to, loaded);
                assert_eq!(got, answer, "{from:?} to {to:?}, loaded: {loaded}");
            }
        }
    }

    /// IBA 17.2.8: what a packet does in each state, by MigReq and the path that it came by.
    #[test]
    fn each_packet_has_its_answer() {
        use Migration::{Arm, Impossible, Migrate, Stay};
        let table = [
            (Migrated, false, [Stay, Stay, Stay]),
            (Migrated, true, [Stay, Stay, Stay]),
            (Rearm, false, [Arm, Arm, Arm]),
            (Rearm, true, [Stay, Impossible, Stay]),
            (Armed, false, [Stay, Stay, Stay]),
            (Armed, true, [Stay, Migrate, Migrate]),
        ];
        for (state, migrated, answers) in table {
            let ways = [CameBy::Primary, CameBy::Alternate, CameBy::Either];
            for (by, answer) in ways.into_iter().zip(answers) {
                let got = on_packet(state, migrated, by);
                assert_eq!(got, answer, "{state:?}, MigReq {migrated}, {by:?}");
            }
        }
    }
}
