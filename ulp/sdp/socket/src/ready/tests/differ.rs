//! Random calls on a connection by TCP alone and on one that is linked, changes over and goes back,
//! one after the other: both tell the same.

use super::hammer::Random;
use super::world::{Socket, World, pair};
use super::*;

const SEQUENCES: u64 = 150;
const CALLS: u64 = 80;
/// More unread bytes than this are not sent: the two have different room.
const MOST: usize = 12_000;

/// A connection, and two instances that watch it.
struct Side {
    ends: [Socket; 2],
    instances: [Epoll; 2],
}

/// What is done, at one of two ends.
#[derive(Clone, Copy, Debug)]
enum Operation {
    Send(usize),
    Receive(usize),
    Shut,
    Control(usize, i32, u32),
    Poll(u32),
}

/// What came of it.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Outcome {
    Bytes(Result<Vec<u8>, Errno>),
    Sent(Option<usize>),
    Done(Result<(), Errno>),
    Told(u32),
}

impl Side {
    fn new() -> Self {
        let (here, there) = pair();
        Self {
            ends: [here, there],
            instances: [Epoll::new(), Epoll::new()],
        }
    }

    fn carry_out(&self, end: usize, operation: Operation) -> Outcome {
        let socket = &self.ends[end];
        match operation {
            Operation::Send(length) => {
                let bytes: Vec<_> = (0..length).map(|at| at as u8).collect();
                Outcome::Sent(socket.try_send(&bytes))
            }
            Operation::Receive(length) => Outcome::Bytes(receive(socket, length)),
            Operation::Shut => {
                socket.shut();
                Outcome::Done(Ok(()))
            }
            Operation::Control(instance, op, events) => {
                let data = end as u64;
                let instance = &self.instances[instance];
                Outcome::Done(instance.try_ctl(op, socket.number, events, data))
            }
            Operation::Poll(events) => Outcome::Told(poll_one(socket.number, events, NOW)),
        }
    }

    /// What the instances tell of each end at this moment, added to what they have told.
    fn add_told(&self, told: &mut [[u32; 2]; 2]) {
        for (instance, told) in self.instances.iter().zip(told) {
            for (events, end) in instance.wait(NOW) {
                told[end as usize] |= events;
            }
        }
    }
}

/// What is there, at most `length`: a receive ends where what carries the bytes changes.
fn receive(socket: &Socket, length: usize) -> Result<Vec<u8>, Errno> {
    let mut all = socket.try_receive(length)?;
    while all.len() < length {
        match socket.try_receive(length - all.len()) {
            Ok(more) if !more.is_empty() => all.extend(more),
            _ => break,
        }
    }
    Ok(all)
}

fn operation(random: &mut Random, unread: usize) -> Operation {
    let flags = [0, 0, ET, ONESHOT, ET | ONESHOT];
    match random.below(12) {
        0..=2 if unread < MOST => Operation::Send(1 + random.below(4000) as usize),
        0..=5 => Operation::Receive(1 + random.below(5000) as usize),
        6..=9 => {
            let ops = [
                libc::EPOLL_CTL_ADD,
                libc::EPOLL_CTL_MOD,
                libc::EPOLL_CTL_DEL,
            ];
            let op = ops[[0, 0, 1, 1, 1, 2][random.below(6) as usize]];
            let mut events = flags[random.below(5) as usize];
            for bit in [IN, OUT, RDHUP] {
                events |= if random.below(3) > 0 { bit } else { 0 };
            }
            if random.below(12) == 0 {
                events |= EXCLUSIVE;
            }
            Operation::Control(random.below(2) as usize, op, events)
        }
        _ => Operation::Poll([IN, OUT, IN | OUT | RDHUP][random.below(3) as usize]),
    }
}

#[test]
fn a_linked_connection_tells_what_tcp_tells() {
    let _alone = alone();
    let mut compared = 0;
    for seed in 0..SEQUENCES {
        let world = World::new();
        let (plain, linked) = (Side::new(), Side::new());
        let mut random = Random::new(seed);
        let (link_at, back_at) = (random.below(CALLS), random.below(CALLS * 2));
        let mut unread = [0_usize; 2];
        let (mut shut, mut is_linked) = ([false; 2], false);
        let mut registered = [[None; 2]; 2];
        let mut was_shared = [false; 2];
        let mut history = Vec::new();
        for call in 0..CALLS {
            let [here, there] = &linked.ends;
            if call == link_at {
                // what an end has ended in TCP, no ring carries on: the service asks whether the
                // connection is whole, and takes a link that came too late back at once
                is_linked = !shut.contains(&true);
                if is_linked {
                    world.link(here, there);
                }
            }
            if is_linked {
                world.offer(here);
                world.offer(there);
            }
            if call == back_at {
                linked.ends[random.below(2) as usize].go_back();
            }
            let end = random.below(2) as usize;
            let mut operation = operation(&mut random, unread[1 - end]);
            if shut[end] && matches!(operation, Operation::Send(_)) {
                continue;
            }
            if random.below(60) == 0 && !shut[end] {
                operation = Operation::Shut;
                shut[end] = true;
            }
            history.push((end, operation));
            let one = plain.carry_out(end, operation);
            let mut other = linked.carry_out(end, operation);
            for _ in 0..200 {
                let is_told = matches!(other, Outcome::Told(_) | Outcome::Bytes(Err(_)));
                if one == other || !is_told {
                    break;
                }
                // the end of a stream, and the rest of TCP, take their time
                std::thread::sleep(Duration::from_millis(1));
                other = linked.carry_out(end, operation);
            }
            assert_eq!(
                one, other,
                "seed {seed}, {end}: {operation:?} after {history:?}"
            );
            match &one {
                Outcome::Sent(Some(sent)) => unread[1 - end] += sent,
                Outcome::Bytes(Ok(bytes)) => unread[end] -= bytes.len(),
                _ => {}
            }
            if let (Operation::Control(instance, op, events), Outcome::Done(Ok(()))) =
                (operation, &one)
            {
                let is_there = op != libc::EPOLL_CTL_DEL;
                registered[instance][end] = is_there.then_some(events);
            }
            // the link, and the end of it, make an edge where there is none by TCP
            let is_back = call >= back_at || shut.contains(&true);
            let is_changing = (link_at..link_at + 3).contains(&call) || is_back;
            // so does an addition, by the kernel's registration, one call later
            let is_new = history
                .iter()
                .rev()
                .take(2)
                .any(|(_, last)| matches!(last, Operation::Control(_, libc::EPOLL_CTL_ADD, _)));
            let mut told = [[[0; 2]; 2]; 2];
            // a busy machine's TCP takes its time, but not for ever
            let looks = if is_changing || is_new { 100 } else { 5_000 };
            for look in 0..looks {
                plain.add_told(&mut told[0]);
                linked.add_told(&mut told[1]);
                if told[0] == told[1] && (look > 0 || call % 4 != 0) {
                    break;
                }
                std::thread::sleep(Duration::from_micros(200));
            }
            for (instance, end) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
                let [one, other] = [0, 1].map(|side: usize| told[side][instance][end]);
                // where both wait for an end, what is told for one is an edge for the other, which a
                // busy machine's may see after the other is gone
                let is_edge = registered[instance][end].is_some_and(|events| events & ET != 0);
                was_shared[end] |= registered.iter().all(|one| one[end].is_some());
                let may_differ = is_changing || is_new || was_shared[end] && is_edge;
                assert!(
                    one == other || one == 0 && may_differ,
                    "seed {seed}, call {call} (link {link_at}, back {back_at}): {told:x?} {history:?}"
                );
                compared += 1;
            }
        }
    }
    assert!(compared > 10_000, "{compared}");
}
