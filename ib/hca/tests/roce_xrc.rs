//! Extended connections over packets: the process that made a target executes what comes for it, with the shared receive queues that it
//! owns.
#![allow(clippy::unwrap_used)]

mod common;

use common::extended::{Initiator, member_role};
use common::process::{self, Child};
use ferriband_hca::*;
use ferriband_transport::types::*;

#[test]
fn child_entry() {
    process::run_role(&[("member", member_role)]);
}

fn ask(child: &Child, order: &[u64]) -> Vec<u64> {
    child.channel.send(order);
    child.channel.recv()
}

/// A member of the domain of a file that no other test names.
fn member(file: u64) -> Child {
    let child = Child::spawn("member");
    child
        .channel
        .send(&[0xfe77_1000, u64::from(std::process::id()) << 20 | file]);
    child
}

on_all_packets!(
    a_target_of_another_process_executes_every_operation_in_the_domain_of_the_queue_named,
    {
        let ctx = Context::open(0).unwrap();
        let mut initiator = Initiator::new(&ctx);
        let child = member(1);
        // two queues, each with a protection domain of its own
        let queues = [ask(&child, &[2]), ask(&child, &[2])];
        let target = ask(&child, &[1, u64::from(initiator.qp.qpn)])[0];
        initiator.connect(target as u32);
        assert!(initiator.qp.packet_counters().is_some());
        for round in 0..3u64 {
            for (at, queue) in queues.iter().enumerate() {
                let value = 100 * round + at as u64;
                assert_eq!(
                    initiator.post(SendOpcode::Send, value, queue),
                    WcStatus::Success
                );
                assert_eq!(ask(&child, &[4, at as u64])[..4], [round, 0, 8, value]);
                assert_eq!(
                    initiator.post(SendOpcode::RdmaWrite, value, queue),
                    WcStatus::Success
                );
                assert_eq!(
                    initiator.post(SendOpcode::FetchAdd, 0, queue),
                    WcStatus::Success
                );
                assert_eq!(initiator.memory[0], value, "the value before");
                assert_eq!(
                    initiator.post(SendOpcode::RdmaRead, 0, queue),
                    WcStatus::Success
                );
                assert_eq!(initiator.memory[0], value + 1, "the value after");
            }
        }
        // a key of the first queue's domain is not valid by way of the second
        let crossed = [queues[1][0], queues[0][1], queues[0][2]];
        assert_eq!(
            initiator.post(SendOpcode::RdmaWrite, 5, &crossed),
            WcStatus::RemAccessErr
        );
        assert_eq!(initiator.qp.state(), QpState::Err);
    }
);

on_packets!(
    a_target_lives_while_any_handle_of_it_does_in_the_process_that_made_it,
    {
        let ctx = Context::open(0).unwrap();
        let mut initiator = Initiator::new(&ctx);
        let (child, other) = (member(2), member(2));
        let queue = ask(&child, &[2]);
        let target = ask(&child, &[1, u64::from(initiator.qp.qpn)])[0];
        initiator.connect(target as u32);
        assert_eq!(ask(&other, &[3, target]), [1]);
        assert_eq!(
            initiator.post(SendOpcode::Send, 1, &queue),
            WcStatus::Success
        );
        assert_eq!(ask(&child, &[4])[..4], [0, 0, 8, 1]);
        // the first handle goes; another process still has one
        assert_eq!(ask(&child, &[5, 0]), [1]);
        assert_eq!(
            initiator.post(SendOpcode::Send, 2, &queue),
            WcStatus::Success
        );
        assert_eq!(ask(&child, &[4])[..4], [1, 0, 8, 2]);
        // the last one goes, and nobody answers any more
        assert_eq!(ask(&other, &[5, 0]), [1]);
        assert_eq!(
            initiator.post(SendOpcode::Send, 3, &queue),
            WcStatus::RetryExcErr
        );
    }
);

on_packets!(
    a_request_for_a_queue_that_the_targets_process_does_not_own_is_invalid,
    {
        let ctx = Context::open(0).unwrap();
        // of another process, and of no domain at all
        for file in [3, 4] {
            let mut initiator = Initiator::new(&ctx);
            let (child, other) = (member(file), member(3));
            let queue = ask(&other, &[2]);
            let target = ask(&child, &[1, u64::from(initiator.qp.qpn)])[0];
            initiator.connect(target as u32);
            let opcode = if file == 3 {
                SendOpcode::Send
            } else {
                SendOpcode::RdmaWrite
            };
            assert_eq!(initiator.post(opcode, 1, &queue), WcStatus::RemInvReqErr);
            assert_eq!(initiator.qp.state(), QpState::Err);
        }
    }
);

#[test]
fn on_ferri0_a_domain_that_others_have_open_keeps_to_the_direct_wire() {
    let name = "on_ferri0_a_domain_that_others_have_open_keeps_to_the_direct_wire";
    common::namespace::run_on_packets(name, &common::namespace::NATIVE, || {
        let ctx = Context::open(0).unwrap();
        let (child, other) = (member(7), member(7));
        let queues = [ask(&child, &[2]), ask(&other, &[2])];
        let mut initiator = Initiator::new(&ctx);
        let target = ask(&child, &[1, u64::from(initiator.qp.qpn)])[0];
        initiator.connect(target as u32);
        // the one end has asked, and the other
        assert!(initiator.qp.packet_counters().is_none());
        for (at, (owner, queue)) in [&child, &other].into_iter().zip(&queues).enumerate() {
            assert_eq!(
                initiator.post(SendOpcode::Send, at as u64, queue),
                WcStatus::Success
            );
            assert_eq!(ask(owner, &[4])[..4], [0, 0, 8, at as u64]);
        }
    });
}
