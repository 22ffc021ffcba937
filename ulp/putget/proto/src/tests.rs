//! Two machines over queue pairs in memory, whose RDMA ends when the test says so.

use crate::memory::{Answer, Asked, Granted, Memory};
use crate::message::{BadMessage, Header, Kind, Segment};
use crate::status::Status;
use crate::wire::{DirectJob, DirectOp, Job, NotBegun, Posting, Wire};
use crate::{Config, Connection, HEADER_BYTES, NotStarted, Start, Started, Violation};
use proptest::prelude::*;
use std::collections::VecDeque;

mod direct;

/// Memory of one side: one buffer, at addresses from 0 on.
#[derive(Default)]
struct World {
    bytes: Vec<u8>,
    /// What a request takes: (offset, length) for the tag; a tag beyond them is no memory.
    windows: Vec<(usize, usize)>,
    /// Source and destination of this side's requests.
    local: Vec<u8>,
    sent: VecDeque<Sent>,
    /// Operations by leases that were carried out and whose ends were not told, in their order.
    over: VecDeque<(DirectJob, Posting)>,
    /// Values that adapters have found, by job.
    found: Vec<(DirectJob, Vec<u8>)>,
    counted: Vec<(u64, u64)>,
    /// Words that gets have brought, with their tokens.
    brought: Vec<(u64, u64)>,
    returned: Vec<u64>,
    rdma: VecDeque<Rdma>,
    rdma_room: usize,
    held: usize,
    done: Vec<(u64, Answer)>,
    order: Vec<u32>,
}

/// What is on its way by the messages' queue pair: a message, or the bytes of a put by a lease.
struct Sent {
    bytes: Vec<u8>,
    solicited: bool,
    fence: bool,
    direct: Option<(DirectJob, Posting)>,
}

struct Rdma {
    job: Job,
    writes: bool,
    hold: Hold,
    remote: Vec<Segment>,
}

#[derive(Clone, Copy)]
struct Hold {
    at: usize,
    length: usize,
}

impl Memory for World {
    type Hold = Hold;

    fn admit(&mut self, asked: &Asked<'_>) -> Result<Granted<Hold>, Status> {
        self.order.push(asked.tag);
        let window = self.windows.get(asked.tag as usize);
        let (at, room) = *window.ok_or(Status::NoMemory)?;
        let length = (asked.length as usize).min(room);
        self.held += 1;
        Ok(Granted {
            hold: Hold { at, length },
            length: length as u64,
            offset: at as u64,
            tag: 77,
        })
    }

    fn place(&mut self, hold: Hold, data: &[u8]) {
        assert_eq!(data.len(), hold.length);
        self.bytes[hold.at..][..hold.length].copy_from_slice(data);
    }

    fn fetch(&mut self, hold: Hold, to: &mut [u8]) {
        to.copy_from_slice(&self.bytes[hold.at..][..hold.length]);
    }

    fn exchange(&mut self, hold: Hold, data: &[u8], to: &mut [u8]) {
        self.fetch(hold, to);
        self.place(hold, &data[..hold.length]);
    }

    fn ended(&mut self, _: Hold, _: Status) {
        self.held -= 1;
    }

    fn gather(&mut self, _: u64, to: &mut [u8]) {
        to.copy_from_slice(&self.local[..to.len()]);
    }

    fn scatter(&mut self, token: u64, data: &[u8]) {
        if let Ok(word) = data.try_into() {
            self.brought.push((token, u64::from_ne_bytes(word)));
        }
        self.local[..data.len()].copy_from_slice(data);
    }

    fn done(&mut self, token: u64, answer: Answer) {
        self.done.push((token, answer));
    }

    fn counted(&mut self, token: u64, length: u64) {
        self.counted.push((token, length));
    }

    fn returned(&mut self, token: u64) {
        self.returned.push(token);
    }
}

impl World {
    fn post(&mut self, job: Job, writes: bool, hold: Hold, to: &[Segment]) -> Result<(), NotBegun> {
        let total: u64 = to.iter().map(|segment| segment.length).sum();
        assert_eq!(total, hold.length as u64);
        if self.rdma.len() >= self.rdma_room {
            return Err(NotBegun::Full);
        }
        self.rdma.push_back(Rdma {
            job,
            writes,
            hold,
            remote: to.to_vec(),
        });
        Ok(())
    }
}

impl Wire for World {
    fn send(&mut self, message: &[u8], solicited: bool, fence: bool) {
        self.sent.push_back(Sent {
            bytes: message.to_vec(),
            solicited,
            fence,
            direct: None,
        });
    }

    fn direct(&mut self, job: DirectJob, posting: &Posting) -> Result<bool, NotBegun> {
        let mut bytes = Vec::new();
        if posting.op == DirectOp::Put {
            bytes.resize(posting.remote.length as usize, 0);
            self.gather(posting.token, &mut bytes);
        }
        self.sent.push_back(Sent {
            bytes,
            solicited: posting.immediate.is_some(),
            fence: posting.fence,
            direct: Some((job, *posting)),
        });
        Ok(true)
    }

    fn read(&mut self, job: Job, to: Hold, from: &[Segment]) -> Result<(), NotBegun> {
        self.post(job, false, to, from)
    }

    fn write(&mut self, job: Job, from: Hold, to: &[Segment]) -> Result<(), NotBegun> {
        self.post(job, true, from, to)
    }
}

struct Side {
    machine: Connection<Hold>,
    world: World,
    /// Completions that would wake somebody up.
    events: usize,
}

const CONFIG: Config = Config {
    message_bytes: 256,
    receives: 8,
    requests: 4,
};

fn side(config: Config, peer: Config) -> Side {
    let world = World {
        bytes: vec![0; 4096],
        local: (0..4096_u32).map(|n| n as u8).collect(),
        windows: vec![(0, 4096), (16, 8), (100, 0)],
        rdma_room: 2,
        ..World::default()
    };
    let machine = Connection::new(config, peer).unwrap();
    let events = 0;
    Side {
        machine,
        world,
        events,
    }
}

fn pair() -> [Side; 2] {
    [side(CONFIG, CONFIG), side(CONFIG, CONFIG)]
}

/// One message or operation from a side to the other, if there is one that no fence keeps.
fn carry(sides: &mut [Side; 2], from: usize) -> bool {
    let world = &mut sides[from].world;
    let reads = world.over.iter().any(|(_, posting)| posting.op.reads());
    if world.sent.front().is_none_or(|sent| sent.fence && reads) {
        return false;
    }
    let Some(sent) = world.sent.pop_front() else {
        return false;
    };
    if let Some((job, posting)) = sent.direct {
        direct::carry_out(sides, from, job, &posting, &sent.bytes);
        return true;
    }
    let to = &mut sides[1 - from];
    to.events += usize::from(sent.solicited);
    to.machine
        .handle_message(&sent.bytes, &mut to.world)
        .unwrap();
    true
}

/// One RDMA operation of a side, if there is one.
fn move_bytes(sides: &mut [Side; 2], of: usize) -> bool {
    let Some(rdma) = sides[of].world.rdma.pop_front() else {
        return false;
    };
    let (mut at, mut left) = (rdma.hold.at, rdma.hold.length);
    for segment in &rdma.remote {
        let (there, length) = (segment.address as usize, segment.length as usize);
        assert_eq!(segment.key, 99);
        if rdma.writes {
            let bytes = sides[of].world.bytes[at..][..length].to_vec();
            sides[1 - of].world.local[there..][..length].copy_from_slice(&bytes);
        } else {
            let bytes = sides[1 - of].world.local[there..][..length].to_vec();
            sides[of].world.bytes[at..][..length].copy_from_slice(&bytes);
        }
        (at, left) = (at + length, left - length);
    }
    assert_eq!(left, 0);
    let side = &mut sides[of];
    side.events += 1;
    side.machine.handle_rdma(rdma.job, &mut side.world).unwrap();
    true
}

fn settle(sides: &mut [Side; 2]) {
    loop {
        let moved = [
            carry(sides, 0),
            carry(sides, 1),
            move_bytes(sides, 0),
            move_bytes(sides, 1),
            direct::complete(sides, 0),
            direct::complete(sides, 1),
        ];
        if moved == [false; 6] {
            return;
        }
    }
}

fn start(kind: Kind, tag: u32, length: u64) -> Start<'static> {
    Start {
        kind,
        tag,
        address: &[],
        length,
        payload: if kind == Kind::Get {
            0
        } else {
            length as usize
        },
        long: None,
        acknowledge: false,
        solicit: false,
        token: 5,
    }
}

const WHOLE: [Segment; 1] = [Segment {
    address: 0,
    length: 1000,
    key: 99,
}];

fn begin(side: &mut Side, start: &Start<'_>) -> Result<Started, NotStarted> {
    side.machine.start(start, &mut side.world)
}

#[test]
fn a_short_put_is_one_message_of_36_bytes_and_its_data() {
    let mut sides = pair();
    assert_eq!(
        begin(&mut sides[0], &start(Kind::Put, 0, 220)),
        Ok(Started::Over)
    );
    assert_eq!(sides[0].world.sent[0].bytes.len(), HEADER_BYTES + 220);
    assert_eq!(HEADER_BYTES, 36);
    settle(&mut sides);
    assert_eq!(sides[1].world.bytes[..220], sides[0].world.local[..220]);
    assert_eq!((sides[0].events, sides[1].events), (0, 1));
    let too_long = begin(&mut sides[0], &start(Kind::Put, 0, 221));
    assert_eq!(too_long, Err(NotStarted::TooLong));
}

#[test]
fn a_long_put_costs_its_target_two_events_and_its_initiator_none() {
    let mut sides = pair();
    let long = Start {
        long: Some(&WHOLE),
        ..start(Kind::Put, 0, 1000)
    };
    assert_eq!(begin(&mut sides[0], &long), Ok(Started::Answered));
    settle(&mut sides);
    assert_eq!(sides[1].world.bytes[..1000], sides[0].world.local[..1000]);
    assert_eq!((sides[0].events, sides[1].events), (0, 2));
    assert_eq!(sides[0].world.done.len(), 1);
    let waited_for = Start {
        solicit: true,
        acknowledge: true,
        ..long
    };
    begin(&mut sides[0], &waited_for).unwrap();
    settle(&mut sides);
    assert_eq!((sides[0].events, sides[1].events), (1, 4));
}

#[test]
fn gets_bring_the_targets_bytes_by_either_way() {
    let mut sides = pair();
    sides[1].world.bytes.fill(3);
    begin(&mut sides[0], &start(Kind::Get, 1, 200)).unwrap();
    settle(&mut sides);
    // the window of tag 1 has 8 bytes
    assert_eq!(sides[0].world.local[..9], [3, 3, 3, 3, 3, 3, 3, 3, 8]);
    let answer = sides[0].world.done[0].1;
    assert_eq!((answer.length, answer.offset, answer.tag), (8, 16, 77));
    let parts = [(2000, 10), (3000, 0), (0, 490)].map(|(address, length)| Segment {
        address,
        length,
        key: 99,
    });
    let long = Start {
        long: Some(&parts),
        ..start(Kind::Get, 0, 500)
    };
    begin(&mut sides[0], &long).unwrap();
    settle(&mut sides);
    let local = &sides[0].world.local;
    assert!(
        local[2000..2010]
            .iter()
            .chain(&local[..490])
            .all(|&byte| byte == 3)
    );
    assert_ne!(local[2010], 3);
    assert_eq!(sides[1].world.held, 0);
}

#[test]
fn an_exchange_puts_and_gets() {
    let mut sides = pair();
    sides[1].world.bytes.fill(9);
    begin(&mut sides[0], &start(Kind::Exchange, 0, 8)).unwrap();
    settle(&mut sides);
    assert_eq!(sides[1].world.bytes[..9], [0, 1, 2, 3, 4, 5, 6, 7, 9]);
    assert_eq!(sides[0].world.local[..8], [9; 8]);
}

#[test]
fn a_refusal_says_why() {
    let mut sides = pair();
    let put = Start {
        acknowledge: true,
        solicit: true,
        ..start(Kind::Put, 8, 4)
    };
    begin(&mut sides[0], &put).unwrap();
    let long = Start {
        long: Some(&WHOLE),
        ..start(Kind::Get, 8, 1000)
    };
    begin(&mut sides[0], &long).unwrap();
    // nobody asked for an acknowledgement: nothing comes
    begin(&mut sides[0], &start(Kind::Put, 8, 4)).unwrap();
    settle(&mut sides);
    let statuses: Vec<Status> = sides[0]
        .world
        .done
        .iter()
        .map(|done| done.1.status)
        .collect();
    assert_eq!(statuses, [Status::NoMemory; 2]);
    assert_eq!((sides[0].events, sides[1].events), (1, 3));
}

#[test]
fn too_many_requests_wait_and_then_go_on() {
    let mut sides = pair();
    let get = start(Kind::Get, 0, 4);
    for _ in 0..4 {
        begin(&mut sides[0], &get).unwrap();
    }
    assert_eq!(begin(&mut sides[0], &get), Err(NotStarted::Full));
    assert!(sides[0].machine.waits_for_all());
    settle(&mut sides);
    assert!(!sides[0].machine.waits_for_all());
    assert_eq!(begin(&mut sides[0], &get), Ok(Started::Answered));
}

#[test]
fn answers_that_nobody_waits_for_do_not_take_the_last_receive_unseen() {
    let mut sides = pair();
    let long = Start {
        long: Some(&WHOLE),
        ..start(Kind::Put, 0, 1000)
    };
    for _ in 0..4 {
        begin(&mut sides[0], &long).unwrap();
        while carry(&mut sides, 0) || move_bytes(&mut sides, 1) {}
    }
    let solicited: Vec<bool> = sides[1]
        .world
        .sent
        .iter()
        .map(|sent| sent.solicited)
        .collect();
    // half of eight receives are taken then
    assert_eq!(solicited, [false, false, false, true]);
}

#[test]
fn a_lost_connection_ends_everything_once() {
    let mut sides = pair();
    let long = Start {
        long: Some(&WHOLE),
        ..start(Kind::Put, 0, 1000)
    };
    for _ in 0..3 {
        begin(&mut sides[0], &long).unwrap();
    }
    while carry(&mut sides, 0) {}
    assert_eq!(sides[1].world.held, 3);
    for side in &mut sides {
        side.machine.handle_lost(&mut side.world);
        side.machine.handle_lost(&mut side.world);
    }
    assert_eq!(sides[1].world.held, 0);
    assert_eq!(sides[0].world.done.len(), 3);
    assert!(
        sides[0]
            .world
            .done
            .iter()
            .all(|done| done.1.status == Status::Undeliverable)
    );
    assert_eq!(begin(&mut sides[0], &long), Err(NotStarted::Lost));
}

#[test]
fn breaches_are_named() {
    let message = |header: Header, payload: &[u8]| {
        let mut bytes = Vec::new();
        header.emit(&[], &mut bytes);
        bytes.extend_from_slice(payload);
        bytes
    };
    let say = |bytes: &[u8]| {
        let mut side = side(CONFIG, CONFIG);
        side.machine.handle_message(bytes, &mut side.world)
    };
    let unknown = message(Header::new(Kind::Response, 3), &[]);
    assert_eq!(say(&unknown), Err(Violation::Response(3)));
    let mut credits = Header::new(Kind::Credits, 0);
    credits.returned = 1;
    assert_eq!(say(&message(credits, &[])), Err(Violation::Credits));
    let truncated = Violation::Message(BadMessage::Truncated { needed: 36, got: 7 });
    assert_eq!(say(&[1; 7]), Err(truncated));
    let mut huge = Header::new(Kind::Get, 0);
    huge.length = u64::MAX;
    assert_eq!(say(&message(huge, &[])), Ok(()));
    let mut wrapping = Header::new(Kind::Put, 0);
    wrapping.set_segments(&[Segment {
        address: u64::MAX,
        length: 2,
        key: 0,
    }]);
    wrapping.length = 2;
    assert!(matches!(
        say(&message(wrapping, &[])),
        Err(Violation::Message(_))
    ));
}

proptest! {
    /// Whatever a peer sends, this side neither panics nor touches memory outside its windows, nor
    /// holds memory for ever.
    #[test]
    fn any_bytes_may_come(
        messages in proptest::collection::vec(
            (0..10_u8, 0..10_u8, 0..3_u8, any::<[u8; 31]>(), 0..64_usize), 1..40),
    ) {
        let mut side = side(CONFIG, CONFIG);
        for (kind, flags, status, rest, payload) in messages {
            let mut bytes = vec![kind, flags, status % 2, 0, 0];
            bytes.extend_from_slice(&rest);
            // mostly near what is allowed
            bytes[8..11].fill(0);
            bytes[12..15].fill(0);
            bytes[16..23].fill(0);
            bytes.resize(HEADER_BYTES + payload, 1);
            if side.machine.handle_message(&bytes, &mut side.world).is_err() {
                break;
            }
            if let Some(rdma) = side.world.rdma.pop_front() {
                side.machine.handle_rdma(rdma.job, &mut side.world).unwrap();
            }
            side.world.sent.clear();
        }
        side.world.rdma.clear();
        side.machine.handle_lost(&mut side.world);
        prop_assert_eq!(side.world.held, 0);
    }

    /// Requests of both sides in any order, with messages and RDMA carried in any order between
    /// them: each has one end, memory is held by none, requests are admitted in their order, and
    /// no message finds no receive.
    #[test]
    fn every_request_ends_once(steps in proptest::collection::vec((0..2_usize, 0..9_u8), 1..400)) {
        let mut sides = pair();
        let mut begun = [0, 0];
        let mut asked: [Vec<u32>; 2] = [Vec::new(), Vec::new()];
        for (which, step) in steps {
            let long = WHOLE;
            let kind = [Kind::Put, Kind::Get, Kind::Exchange][usize::from(step) % 3];
            let tag = u32::from(step) % 4;
            let wish = match step {
                0..=2 => start(kind, tag, 40),
                3 => Start { acknowledge: true, solicit: true, ..start(kind, tag, 8) },
                4 | 5 => Start { long: Some(&long), ..start(
                    if step == 4 { Kind::Put } else { Kind::Get }, 0, 1000) },
                6 => { move_bytes(&mut sides, which); continue; }
                _ => { carry(&mut sides, which); continue; }
            };
            match begin(&mut sides[which], &wish) {
                Ok(started) => {
                    begun[which] += usize::from(started == Started::Answered);
                    asked[which].push(wish.tag);
                }
                Err(why) => prop_assert_eq!(why, NotStarted::Full),
            }
            for side in &sides {
                prop_assert!(side.world.sent.len() <= usize::from(CONFIG.receives));
            }
        }
        settle(&mut sides);
        for which in 0..2 {
            prop_assert_eq!(sides[which].world.done.len(), begun[which]);
            prop_assert_eq!(sides[which].world.held, 0);
            prop_assert!(sides[which].machine.is_quiet());
            prop_assert_eq!(&sides[1 - which].world.order, &asked[which]);
        }
    }
}
