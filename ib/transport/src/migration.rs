//! Automatic path migration: Migrated -> Rearm -> Armed -> Migrated (IBA 17.2.8).
//!
//! Pure functions over the state, the MigReq bit of arriving packets and the path they came by.

use crate::context::QpEvent;
use crate::types::{MigState, QpAttr};

/// What a packet or a failure asks for.
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

/// A packet arrived. `migrated`: its MigReq bit; `on_alternate`: it came by the alternate path.
pub(crate) const fn on_packet(state: MigState, migrated: bool, on_alternate: bool) -> Migration {
    match (state, migrated, on_alternate) {
        // The peer is in Rearm or Armed: both have loaded the alternate path.
        (MigState::Rearm, false, _) => Migration::Arm,
        (MigState::Armed, true, true) => Migration::Migrate,
        (MigState::Rearm, true, true) => Migration::Impossible,
        _ => Migration::Stay,
    }
}

/// Makes the alternate path the primary one. The old primary stays as alternate, unarmed.
pub(crate) fn migrate(attr: &mut QpAttr) -> QpEvent {
    std::mem::swap(&mut attr.av, &mut attr.alt_av);
    std::mem::swap(&mut attr.pkey_index, &mut attr.alt_pkey_index);
    std::mem::swap(&mut attr.port_num, &mut attr.alt_port_num);
    std::mem::swap(&mut attr.timeout, &mut attr.alt_timeout);
    attr.path_mig_state = MigState::Migrated;
    QpEvent::PathMig
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arming_needs_the_peer_to_have_rearmed() {
        assert_eq!(on_packet(MigState::Rearm, true, false), Migration::Stay);
        assert_eq!(on_packet(MigState::Rearm, false, false), Migration::Arm);
        assert_eq!(on_packet(MigState::Migrated, false, false), Migration::Stay);
    }

    #[test]
    fn only_an_armed_side_follows_a_migration_and_only_by_the_alternate_path() {
        assert_eq!(on_packet(MigState::Armed, true, true), Migration::Migrate);
        assert_eq!(on_packet(MigState::Armed, true, false), Migration::Stay);
        assert_eq!(on_packet(MigState::Armed, false, true), Migration::Stay);
        assert_eq!(
            on_packet(MigState::Rearm, true, true),
            Migration::Impossible
        );
    }
}
