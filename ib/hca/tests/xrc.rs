//! XRC: three processes on one domain. The target queue pair belongs to the domain and outlives the process that made it;
//! requests reach the shared receive queue that they name, whoever owns it.
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

#[test]
fn a_target_outlives_its_creator_and_reaches_every_shared_receive_queue_of_its_domain() {
    let file = (0xfe77_0001, u64::from(std::process::id()) << 20 | 1);
    let ctx = Context::open(0).unwrap();
    let mut initiator = Initiator::new(&ctx);
    let (mut creator, one, two) = (
        Child::spawn("member"),
        Child::spawn("member"),
        Child::spawn("member"),
    );
    for child in [&creator, &one, &two] {
        child.channel.send(&[file.0, file.1]);
    }
    let ask = |child: &Child, order: &[u64]| {
        child.channel.send(order);
        child.channel.recv()
    };
    let (first, second) = (ask(&one, &[2]), ask(&two, &[2]));
    let target = ask(&creator, &[1, u64::from(initiator.qp.qpn)])[0];
    initiator.connect(target as u32);
    // alternately to both, in order
    for round in 0..3u64 {
        for (at, (child, queue)) in [(&one, &first), (&two, &second)].into_iter().enumerate() {
            let value = 100 * round + at as u64;
            assert_eq!(
                initiator.post(SendOpcode::Send, value, queue),
                WcStatus::Success
            );
            assert_eq!(ask(child, &[4])[..4], [round, 0, 8, value], "round {round}");
        }
    }
    assert_eq!(
        ask(&two, &[3, target]),
        [1],
        "another process opens the target"
    );
    creator.kill();
    // the creator is dead: the target is not
    assert_eq!(
        initiator.post(SendOpcode::Send, 7, &first),
        WcStatus::Success
    );
    assert_eq!(ask(&one, &[4])[1..4], [0, 8, 7]);
    assert_eq!(
        initiator.post(SendOpcode::RdmaWrite, 41, &second),
        WcStatus::Success
    );
    assert_eq!(
        initiator.post(SendOpcode::FetchAdd, 0, &second),
        WcStatus::Success
    );
    assert_eq!(initiator.memory[0], 41, "the value before");
    assert_eq!(
        initiator.post(SendOpcode::RdmaRead, 0, &second),
        WcStatus::Success
    );
    assert_eq!(initiator.memory[0], 42, "the value after");
}

#[test]
fn a_long_message_is_fetched_by_whoever_owns_the_queue() {
    let file = (0xfe77_0004, u64::from(std::process::id()) << 20 | 4);
    let ctx = Context::open(0).unwrap();
    let mut initiator = Initiator::new(&ctx);
    let (creator, owner) = (Child::spawn("member"), Child::spawn("member"));
    for child in [&creator, &owner] {
        child.channel.send(&[file.0, file.1]);
    }
    creator.channel.send(&[1, u64::from(initiator.qp.qpn)]);
    let target = creator.channel.recv()[0];
    owner.channel.send(&[2]);
    let queue = owner.channel.recv();
    initiator.connect(target as u32);
    // from what goes through the channel to what takes several turns
    for (round, words) in [1usize, 1000, 2048, 2049, 8000, 39_000]
        .into_iter()
        .enumerate()
    {
        for (at, word) in initiator.memory[..words].iter_mut().enumerate() {
            *word = (at as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ round as u64;
        }
        let sum = initiator.memory[..words]
            .iter()
            .fold(0, |sum, word| sum ^ word);
        assert_eq!(
            initiator.post_words(SendOpcode::Send, words, 7, &queue),
            WcStatus::Success,
            "{words} words"
        );
        owner.channel.send(&[4]);
        let got = owner.channel.recv();
        assert_eq!(got[..3], [round as u64, 0, 8 * words as u64]);
        assert_eq!(got[3], initiator.memory[0]);
        // each message is longer than the one before, so the rest of the memory is zero still
        assert_eq!(got[5], sum, "{words} words");
    }
}

#[test]
fn a_request_for_a_queue_outside_the_domain_is_invalid_and_ends_the_connection() {
    let pid = u64::from(std::process::id()) << 20;
    let ctx = Context::open(0).unwrap();
    let mut initiator = Initiator::new(&ctx);
    let (creator, stranger) = (Child::spawn("member"), Child::spawn("member"));
    creator.channel.send(&[0xfe77_0002, pid | 2]);
    stranger.channel.send(&[0xfe77_0003, pid | 3]);
    creator.channel.send(&[1, u64::from(initiator.qp.qpn)]);
    let target = creator.channel.recv()[0];
    stranger.channel.send(&[2]);
    let queue = stranger.channel.recv();
    initiator.connect(target as u32);
    assert_eq!(
        initiator.post(SendOpcode::Send, 1, &queue),
        WcStatus::RemInvReqErr
    );
    assert_eq!(initiator.qp.state(), QpState::Err);
}
