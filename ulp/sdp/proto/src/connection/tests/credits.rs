//! The last credits of *credit* and *ring*: sides that answer each other with them, in every order.

use super::*;
use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};

/// A side whose transport carries out each work at once. What that gives the peer waits in `coming`
/// until the peer's machine looks.
#[derive(Clone)]
struct Node {
    machine: Connection,
    coming: VecDeque<(Head, u32)>,
    /// What its program may yet do: give a byte, offer, fetch a byte.
    gives: u8,
    offers: u8,
    fetches: u8,
}

/// What happens at a side.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Act {
    Look,
    Give,
    Read,
    Offer,
    Fetch,
    Refuse,
    Cancel,
}

const ACTS: [Act; 7] = [
    Act::Look,
    Act::Give,
    Act::Read,
    Act::Offer,
    Act::Fetch,
    Act::Refuse,
    Act::Cancel,
];

type Nodes = [Node; 2];

fn nodes(flow: Flow, gives: u8, fetches: u8) -> Nodes {
    let config = config(flow, 4, 1);
    let mut nodes = [(); 2].map(|()| Node {
        machine: Connection::new(config, Peer::of(&config)).expect("the numbers are possible"),
        coming: VecDeque::new(),
        gives,
        offers: 1,
        fetches,
    });
    (0..2).for_each(|side| settle(&mut nodes, side));
    nodes
}

/// Hands over what the machine of a side has, and tells it of the completions.
fn settle(nodes: &mut Nodes, side: usize) {
    loop {
        let me = &mut nodes[side].machine;
        let Some(work) = me.poll_work() else {
            let _ = (me.take_fetched(), me.take_offer());
            match me.poll_work() {
                None => return,
                Some(_) => unreachable!("what the program is told makes no work"),
            }
        };
        let id = match work {
            Work::Receive { .. } => continue,
            Work::Read(read) => read.id,
            Work::Send(send) => {
                let data = send.data.map_or(0, |data| data.bytes);
                let length = send.head.bytes().len() as u32 + data;
                nodes[1 - side].coming.push_back((send.head, length));
                send.id
            }
            Work::Write(_) => unreachable!("nothing is given in ring"),
        };
        let me = &mut nodes[side].machine;
        me.handle_sent(Pair::Stream, id).expect("it was under way");
    }
}

/// False if that cannot be.
fn act(nodes: &mut Nodes, side: usize, act: Act) -> bool {
    let me = &mut nodes[side];
    match act {
        Act::Look => {
            let Some((head, length)) = me.coming.pop_front() else {
                return false;
            };
            let looked = me
                .machine
                .handle_message(Pair::Stream, head.bytes(), length);
            looked.expect("the machine's own messages");
        }
        Act::Give if me.gives > 0 && me.machine.reserve().is_some() => {
            me.gives -= 1;
            me.machine.commit(1, false);
        }
        Act::Read if me.machine.readable().is_some() => me.machine.consume(1),
        Act::Offer if me.offers > 0 && me.machine.may_offer() => {
            me.offers -= 1;
            me.machine.offer(advert(10));
        }
        Act::Fetch if me.fetches > 0 && me.machine.fetchable().is_some() => {
            me.fetches -= 1;
            me.machine.fetch(1);
        }
        Act::Refuse if me.machine.fetchable().is_some() => me.machine.refuse_offer(),
        Act::Cancel if me.machine.offer.is_some() => me.machine.cancel_offer(),
        _ => return false,
    }
    settle(nodes, side);
    true
}

fn credits(nodes: &Nodes) -> [u32; 2] {
    nodes.each_ref().map(|node| node.machine.account().credits)
}

/// What tells two states apart: all but counters.
fn key(nodes: &Nodes) -> u64 {
    let mut hasher = DefaultHasher::new();
    shown(nodes).hash(&mut hasher);
    hasher.finish()
}

fn shown(nodes: &Nodes) -> String {
    let shown = |node: &Node| {
        let machine = Connection {
            stats: Stats::default(),
            ..node.machine.clone()
        };
        let left = (node.gives, node.offers, node.fetches);
        format!("{machine:?} {:?} {left:?}", node.coming)
    };
    nodes.each_ref().map(shown).concat()
}

/// Follows every order of what may happen. At rest one side has a credit, which it tells of new
/// receives with. Returns how many states there are, and in how many both have none while messages
/// are under way.
fn search(first: Nodes) -> (usize, usize) {
    let mut known = HashSet::from([key(&first)]);
    let mut open = vec![first];
    let mut none = 0;
    while let Some(nodes) = open.pop() {
        let rests = nodes.iter().all(|node| node.coming.is_empty());
        if credits(&nodes) == [0, 0] {
            assert!(!rests, "both wait for ever: {}", shown(&nodes));
            none += 1;
        }
        for (side, what) in (0..2).flat_map(|side| ACTS.map(|what| (side, what))) {
            let mut next = nodes.clone();
            if act(&mut next, side, what) && known.insert(key(&next)) {
                open.push(next);
            }
        }
    }
    (known.len(), none)
}

/// Each offers, fetches, takes its own offer back and refuses the rest, and neither has looked
/// since the offers came.
#[test]
fn answers_that_cross_with_the_last_credits_leave_one_to_tell_of_receives() {
    for flow in [Flow::Credit, Flow::Ring { receives: 4 }] {
        let mut nodes = nodes(flow, 0, 1);
        for what in [Act::Offer, Act::Look, Act::Fetch, Act::Cancel, Act::Refuse] {
            for side in 0..2 {
                assert!(act(&mut nodes, side, what), "{flow:?}: {what:?} of {side}");
            }
        }
        assert_eq!(credits(&nodes), [0, 0], "{flow:?}");
        assert!(nodes.iter().all(|node| node.coming.len() == 3), "{flow:?}");
        assert!(act(&mut nodes, 0, Act::Look));
        // the first of the answers told of the receive that the offer had taken
        assert_eq!(credits(&nodes), [1, 0], "{flow:?}");
        while (0..2).any(|side| act(&mut nodes, side, Act::Look)) {}
        assert!(
            credits(&nodes).iter().all(|credits| *credits > 0),
            "{flow:?}"
        );
        let over = |node: &Node| node.machine.offer.is_none() && !node.machine.source.is_open();
        assert!(nodes.iter().all(over), "{flow:?}");
    }
}

#[test]
fn in_no_order_are_both_sides_left_without_a_credit() {
    for flow in [Flow::Credit, Flow::Ring { receives: 4 }] {
        let (states, none) = search(nodes(flow, 0, 1));
        assert!(states > 10_000 && none > 100, "{flow:?}: {states}, {none}");
    }
}
