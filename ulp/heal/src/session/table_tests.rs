//! The table of section 3 of docs/design/heal.md as data, row by row.
//!
//! Each cell begins in its column's state in life 5 (ASKING: question 6 is under way; FENCED: the
//! fence is told and not done), then the event happens, then the owner does all that it is told.
//! What came out is one line: steps, datagrams, and the state at the end.

use super::*;
use crate::datagram::Origin;
use crate::paths::{Path, Paths};

const SECRET: u64 = 77;
const PEER: u32 = 5;
/// The life that there is or was.
const LIFE: Epoch = Epoch(5);
const NOW: Ns = Ns(1_000_000);

/// The column's state; UP as the side that asked, and as the one that answered.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Column {
    Idle,
    Up,
    UpAnswerer,
    Fenced,
    Asking,
    Answering,
    Replaying,
    Lost,
}

const COLUMNS: [Column; 8] = [
    Column::Idle,
    Column::Up,
    Column::UpAnswerer,
    Column::Fenced,
    Column::Asking,
    Column::Answering,
    Column::Replaying,
    Column::Lost,
];

struct Owner {
    session: Session,
    paths: Paths,
    qpn: u32,
    log: Vec<String>,
}

fn end(qpn: u32) -> Endpoint {
    Endpoint {
        qpn,
        mtu: 5,
        ..Endpoint::default()
    }
}

impl Owner {
    fn new(me: u32) -> Self {
        let top = Epoch(LIFE.0 - 1);
        let mut paths = Paths::default();
        paths.renew(&[1, 2].map(|dlid| Path {
            dlid,
            ..Path::default()
        }));
        Self {
            session: Session::new(me, PEER, SECRET, Limits::default())
                .behind(top, Taken::default()),
            paths,
            qpn: 100,
            log: Vec::new(),
        }
    }

    fn datagram(&self, kind: Kind, epoch: u32) -> Datagram {
        Datagram {
            kind,
            cause: Cause::Peer,
            secret: SECRET,
            from: PEER,
            to: self.session.who.me,
            epoch: Epoch(epoch),
            word: Word::default(),
            errno: 111,
            end: end(9),
            path: PathId(0),
            origin: Origin::default(),
            since_us: 0,
            tries: 0,
            after: LIFE,
        }
        .bare()
    }

    fn get(&mut self, kind: Kind, epoch: u32) {
        let datagram = self.datagram(kind, epoch);
        self.session.handle_datagram(&datagram, PathId(0), NOW);
    }

    fn send(&mut self, now: Ns) {
        while let Some(Transmit { datagram, by }) = self.session.poll_transmit(&mut self.paths, now)
        {
            self.session.transmitted();
            let kind = format!("{:?}", datagram.kind).to_uppercase();
            let by = if by.0 == 0 { "" } else { "'" };
            self.log.push(format!("{kind}{}{by}", datagram.epoch.0));
        }
    }

    /// Does all that there is to do, but does not end a replay.
    fn settle(&mut self, now: Ns) {
        self.send(now);
        while let Some(step) = self.session.poll_step() {
            let word = match step {
                Step::Fence { .. } => {
                    self.session.fenced(Taken::default(), now);
                    "fence".to_owned()
                }
                Step::Make { .. } => {
                    self.qpn += 1;
                    self.session.made(Ok(end(self.qpn)), now);
                    "make".to_owned()
                }
                Step::Connect { epoch, .. } => {
                    self.session.connected(Ok(()), now);
                    format!("connect{}", epoch.0)
                }
                Step::Replay { .. } => "replay".to_owned(),
                Step::Up => "up".to_owned(),
                Step::Lost(reason) => format!("lost {reason:?}"),
            };
            self.log.push(word);
            self.send(now);
        }
    }

    fn in_column(column: Column, me: u32) -> Self {
        let mut owner = Self::new(me);
        match column {
            Column::Idle => (),
            Column::Answering | Column::UpAnswerer => owner.get(Kind::Req, LIFE.0),
            _ => owner.session.want(NOW),
        }
        owner.settle(NOW);
        match column {
            Column::Idle | Column::Answering => (),
            Column::UpAnswerer => owner.get(Kind::Rtu, LIFE.0),
            _ => owner.get(Kind::Rep, LIFE.0),
        }
        owner.settle(NOW);
        if !matches!(column, Column::Idle | Column::Answering | Column::Replaying) {
            owner.session.replayed(0, NOW);
            owner.settle(NOW);
        }
        match column {
            Column::Fenced | Column::Asking => {
                owner.session.handle_failure(LIFE, Cause::QpError, NOW);
                owner.send(NOW);
            }
            Column::Lost => owner.session.handle_peer(PeerNews::Dead, NOW),
            _ => (),
        }
        if column == Column::Fenced {
            assert!(matches!(
                owner.session.poll_step(),
                Some(Step::Fence { .. })
            ));
        } else {
            owner.settle(NOW);
        }
        owner.log.clear();
        owner
    }

    /// What has come out; the fence that is under way in FENCED is done first.
    fn outcome(mut self) -> String {
        if self.session.stage == Stage::Fencing {
            self.session.fenced(Taken::default(), NOW);
        }
        self.settle(NOW);
        let state = format!("{:?}", self.session.state()).to_uppercase();
        self.log.push(state);
        self.log.join(" ")
    }
}

#[derive(Clone, Copy, Debug)]
enum Event {
    Nothing,
    Want,
    Get(Kind, u32),
    /// Of this number, asked in this life.
    Old(u32, u32),
    Message,
    Failure(u32),
    HealFor,
    Failed,
    Back,
    NoneLeft,
    Peer(PeerNews),
    Refuse,
    Replayed,
}

fn apply(owner: &mut Owner, event: Event) {
    let session = &mut owner.session;
    match event {
        Event::Nothing => (),
        Event::Want => session.want(NOW),
        Event::Get(kind, epoch) => owner.get(kind, epoch),
        Event::Old(epoch, after) => {
            let mut datagram = owner.datagram(Kind::Req, epoch);
            datagram.after = Epoch(after);
            owner.session.handle_datagram(&datagram, PathId(0), NOW);
        }
        Event::Message => session.handle_message(NOW),
        Event::Failure(of) => session.handle_failure(Epoch(of), Cause::QpError, NOW),
        Event::HealFor => {
            for second in 1..=300 {
                session.outbox = Outbox::default();
                session.handle_timeout(NOW.after(second * 1_000_000_000));
            }
        }
        Event::Failed => session.handle_adapters(AdapterChange::Failed(AdapterId(0)), NOW),
        Event::Back => session.handle_adapters(AdapterChange::Back(AdapterId(0)), NOW),
        Event::NoneLeft => session.handle_adapters(AdapterChange::NoneLeft, NOW),
        Event::Peer(news) => session.handle_peer(news, NOW),
        Event::Refuse => session.refuse(12, NOW),
        Event::Replayed => session.replayed(0, NOW),
    }
}

/// Which rank this is: the peer is 5.
const LOWER: u32 = 3;
const HIGHER: u32 = 8;

/// The event; this side's rank; the cells in the order of [`COLUMNS`]. `-`: as if nothing had
/// happened. `F`: fence, make, REQ6, ASKING.
type Row = (Event, u32, [&'static str; 8]);

const F: &str = "fence make REQ6 ASKING";
const DF: &str = "DOWN5 fence make REQ6 ASKING";
const A7: &str = "connect7 REP7 ANSWERING";
const F7: &str = "fence make connect7 REP7 ANSWERING";
const OPEN: &str = "replay REPLAYING";
const WAIT: &str = "DOWN5 fence FENCED";

#[rustfmt::skip]
const ROWS: &[Row] = &[
    (Event::Want, LOWER, ["make REQ5 ASKING", "-", "-", "-", "-", "-", "-", "-"]),
    (Event::Get(Kind::Req, 5), LOWER, ["make connect5 REP5 ANSWERING", "-", "-",
        "DOWN5 make REQ6 ASKING", "DOWN5 ASKING", "REP5 ANSWERING", "-", "REJ5 LOST"]),
    (Event::Get(Kind::Req, 4), LOWER, ["make connect4 REP4 ANSWERING", "-", "-", "-", "-", "-", "-",
        "REJ4 LOST"]),
    (Event::Get(Kind::Req, 7), LOWER, ["make connect7 REP7 ANSWERING", F7, F7,
        "make connect7 REP7 ANSWERING", "REQ8' ASKING", F7, F7, "REJ7 LOST"]),
    (Event::Get(Kind::Req, 7), HIGHER, ["make connect7 REP7 ANSWERING", F7, F7,
        "make connect7 REP7 ANSWERING", A7, F7, F7, "REJ7 LOST"]),
    // The own question is 6: the lower's stands, the higher withdraws its own.
    (Event::Get(Kind::Req, 6), LOWER, ["make connect6 REP6 ANSWERING",
        "fence make connect6 REP6 ANSWERING", "fence make connect6 REP6 ANSWERING",
        "make connect6 REP6 ANSWERING", "-", "fence make connect6 REP6 ANSWERING",
        "fence make connect6 REP6 ANSWERING", "REJ6 LOST"]),
    (Event::Get(Kind::Req, 6), HIGHER, ["make connect6 REP6 ANSWERING",
        "fence make connect6 REP6 ANSWERING", "fence make connect6 REP6 ANSWERING",
        "make connect6 REP6 ANSWERING", "connect6 REP6 ANSWERING",
        "fence make connect6 REP6 ANSWERING", "fence make connect6 REP6 ANSWERING", "REJ6 LOST"]),
    // Asked before life 5, which is open everywhere but in ANSWERING.
    (Event::Old(7, 4), HIGHER, ["make connect7 REP7 ANSWERING", "-", "-", "make REQ8 ASKING", "-", F7,
        "-", "REJ7 LOST"]),
    (Event::Get(Kind::Rep, 6), LOWER, ["-", "DOWN6 UP", "DOWN6 UP", "DOWN6 make REQ6 ASKING",
        "connect6 RTU6 replay REPLAYING", "DOWN6 ANSWERING", "DOWN6 REPLAYING", "REJ6 LOST"]),
    (Event::Get(Kind::Rep, 5), LOWER, ["-", "RTU5 UP", "-", "DOWN5 make REQ6 ASKING",
        "DOWN5 ASKING", "DOWN5 ANSWERING", "RTU5 REPLAYING", "REJ5 LOST"]),
    (Event::Get(Kind::Rep, 4), LOWER, ["-", "DOWN4 UP", "DOWN4 UP", "DOWN4 make REQ6 ASKING",
        "DOWN4 ASKING", "DOWN4 ANSWERING", "DOWN4 REPLAYING", "REJ4 LOST"]),
    (Event::Get(Kind::Rtu, 5), LOWER, ["-", "-", "-", "-", "-", OPEN, "-", "REJ5 LOST"]),
    (Event::Get(Kind::Rtu, 6), LOWER, ["-", "-", "-", "-", "-", "-", "-", "REJ6 LOST"]),
    (Event::Get(Kind::Rtu, 4), LOWER, ["-", "-", "-", "-", "-", "-", "-", "REJ4 LOST"]),
    (Event::Get(Kind::Rej, 5), LOWER, ["-", "fence lost Ended(111) LOST",
        "fence lost Ended(111) LOST", "lost Ended(111) LOST", "fence lost Refused(111) LOST",
        "fence lost Refused(111) LOST", "fence lost Ended(111) LOST", "-"]),
    (Event::Get(Kind::Rej, 6), LOWER, ["-", "-", "-", "-", "fence lost Refused(111) LOST", "-", "-",
        "-"]),
    (Event::Get(Kind::Rej, 4), LOWER, ["-", "-", "-", "-", "-", "-", "-", "-"]),
    (Event::Get(Kind::Down, 4), LOWER, ["-", "-", "-", "-", "-", "-", "-", "REJ4 LOST"]),
    (Event::Get(Kind::Down, 5), LOWER, ["-", F, F, "-", "-", F, F, "REJ5 LOST"]),
    (Event::Get(Kind::Down, 6), LOWER, ["-", "fence make REQ7 ASKING", "fence make REQ7 ASKING",
        "make REQ7 ASKING", "REQ7' ASKING", "fence make REQ7 ASKING", "fence make REQ7 ASKING",
        "REJ6 LOST"]),
    (Event::Get(Kind::Probe, 9), LOWER, ["PROBED9 IDLE", "PROBED9 UP", "PROBED9 UP",
        "PROBED9 make REQ6 ASKING", "PROBED9 ASKING", "PROBED9 ANSWERING", "PROBED9 REPLAYING",
        "PROBED9 LOST"]),
    (Event::Get(Kind::Probed, 9), LOWER, ["-", "-", "-", "make REQ6 ASKING", "REQ6 ASKING", "-",
        "-", "-"]),
    (Event::Message, LOWER, ["-", "-", "-", "-", "-", OPEN, "-", "-"]),
    (Event::Failure(5), LOWER, ["-", DF, DF, "-", "-", DF, DF, "-"]),
    (Event::Failure(4), LOWER, ["-", "-", "-", "-", "-", "-", "-", "-"]),
    (Event::HealFor, LOWER, ["-", "-", "-", "REJ5 lost Silent { for_ns: 300000000000 } LOST",
        "REJ6 fence lost Silent { for_ns: 300000000000 } LOST",
        "REJ5 fence lost Silent { for_ns: 300000000000 } LOST", "-", "-"]),
    (Event::Failed, LOWER, ["-", WAIT, WAIT, "FENCED", "fence FENCED", WAIT, WAIT, "-"]),
    (Event::NoneLeft, LOWER, ["-", WAIT, WAIT, "FENCED", "fence FENCED", WAIT, WAIT, "-"]),
    (Event::Back, LOWER, ["-", "-", "-", "-", "-", "-", "-", "-"]),
    (Event::Peer(PeerNews::Dead), LOWER, ["lost Dead LOST", "fence lost Dead LOST",
        "fence lost Dead LOST", "lost Dead LOST", "fence lost Dead LOST", "fence lost Dead LOST",
        "fence lost Dead LOST", "-"]),
    (Event::Peer(PeerNews::Over), LOWER, ["-", "-", "-", "lost Over LOST", "fence lost Over LOST",
        "fence lost Over LOST", "fence lost Over LOST", "-"]),
    (Event::Peer(PeerNews::Alive), LOWER, ["-", "-", "-", "-", "-", "-", "-", "-"]),
    (Event::Refuse, LOWER, ["lost Own(12) LOST", "REJ5 fence lost Own(12) LOST",
        "REJ5 fence lost Own(12) LOST", "REJ5 lost Own(12) LOST", "REJ6 fence lost Own(12) LOST",
        "REJ5 fence lost Own(12) LOST", "REJ5 fence lost Own(12) LOST", "-"]),
    (Event::Replayed, LOWER, ["-", "-", "-", "-", "-", "-", "up UP", "-"]),
];

#[test]
fn each_cell_of_the_table_is_as_the_design_says() {
    let mut wrong = Vec::new();
    for (event, me, cells) in ROWS {
        for (column, cell) in COLUMNS.iter().zip(cells) {
            let outcome = |event| {
                let mut owner = Owner::in_column(*column, *me);
                apply(&mut owner, event);
                owner.outcome()
            };
            let seen = outcome(*event);
            let expected = match *cell {
                "-" => outcome(Event::Nothing),
                cell => cell.to_owned(),
            };
            if seen != expected {
                wrong.push(format!(
                    "{event:?} of {me} in {column:?}: {seen}, not {expected}"
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn the_third_question_by_another_path_begins_a_new_life() {
    let mut owner = Owner::in_column(Column::Answering, LOWER);
    let again = owner.datagram(Kind::Req, LIFE.0);
    let ask = |owner: &mut Owner| owner.session.handle_datagram(&again, PathId(1), NOW);
    for _ in 0..5 {
        ask(&mut owner);
    }
    owner.settle(NOW);
    assert_eq!(
        owner.log,
        ["REP5"],
        "they may have been sent before the answer came"
    );
    owner.log.clear();
    let later = NOW.after(4_000_000);
    owner.session.handle_timeout(later);
    for _ in 0..2 {
        ask(&mut owner);
    }
    owner.settle(later);
    assert_eq!(owner.log, ["REP5"]);
    owner.log.clear();
    ask(&mut owner);
    owner.settle(later);
    assert_eq!(owner.log, ["DOWN5'", "fence", "make", "REQ6'"]);
}

#[test]
fn what_happens_while_a_life_is_connected_is_not_forgotten() {
    // Each: the events between the step and its answer, and what comes then.
    let cases: [(&[Event], &str); 5] = [
        (&[Event::Get(Kind::Rep, 6)], "RTU6 replay REPLAYING"),
        (&[Event::Get(Kind::Down, 6)], "DOWN6 fence make REQ7 ASKING"),
        (&[Event::Failure(6)], "DOWN6 fence make REQ7 ASKING"),
        (&[Event::Peer(PeerNews::Dead)], "fence lost Dead LOST"),
        // Withdrawn by the peer, to answer question 6.
        (&[Event::Old(7, 5)], "RTU6 replay REPLAYING"),
    ];
    for (events, expected) in cases {
        let mut owner = Owner::in_column(Column::Asking, LOWER);
        owner.get(Kind::Rep, 6);
        assert!(matches!(
            owner.session.poll_step(),
            Some(Step::Connect { .. })
        ));
        for event in events {
            apply(&mut owner, *event);
        }
        assert_eq!(owner.session.poll_step(), None, "one step at a time");
        owner.session.connected(Ok(()), NOW);
        assert_eq!(owner.outcome(), expected, "{events:?}");
    }
    let mut owner = Owner::in_column(Column::Asking, LOWER);
    owner.get(Kind::Rep, 6);
    owner.session.poll_step();
    owner.session.connected(Err(110), NOW);
    assert_eq!(owner.outcome(), "DOWN6' fence make REQ7' ASKING");
}

#[test]
fn an_adapter_that_comes_back_is_used_at_once_and_one_that_cannot_is_tried_again() {
    let mut owner = Owner::in_column(Column::Up, LOWER);
    apply(&mut owner, Event::NoneLeft);
    owner.settle(NOW);
    assert_eq!(
        owner.session.poll_timeout(),
        Some(NOW.after(1_000_000_000)),
        "of the report"
    );
    apply(&mut owner, Event::Back);
    assert!(matches!(owner.session.poll_step(), Some(Step::Make { .. })));
    owner.session.made(Err(12), NOW);
    assert_eq!(owner.session.poll_step(), None);
    assert_eq!(owner.session.poll_timeout(), Some(NOW.after(1_000_000)));
    owner.session.handle_timeout(NOW.after(1_000_000));
    assert!(matches!(owner.session.poll_step(), Some(Step::Make { .. })));
}

#[test]
fn heals_without_a_message_between_back_off() {
    assert_eq!(
        pauses_of_lives(0),
        [
            0, 0, 0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1000, 1000, 1000
        ]
    );
    assert_eq!(pauses_of_lives(99)[..6], [0, 0, 0, 1, 2, 4]);
    assert_eq!(pauses_of_lives(100), [0; 16], "they are no storm");
}

/// The pauses before 16 lives that carry nothing and last so many milliseconds each.
fn pauses_of_lives(last_ms: u64) -> Vec<u64> {
    let mut owner = Owner::in_column(Column::Replaying, LOWER);
    let mut pauses = Vec::new();
    let mut now = NOW;
    for life in LIFE.0..LIFE.0 + 16 {
        now = now.after(last_ms * 1_000_000);
        owner
            .session
            .handle_failure(Epoch(life), Cause::QpError, now);
        owner.settle(now);
        let began = now;
        while owner.session.state() == State::Fenced {
            now = owner.session.poll_timeout().expect("it asks again");
            owner.session.handle_timeout(now);
            owner.settle(now);
        }
        let pause = now.since(began);
        pauses.push(pause / 1_000_000);
        owner.get(Kind::Rep, life + 1);
        owner.settle(now);
    }
    pauses
}

#[test]
fn a_report_adds_up() {
    let mut owner = Owner::in_column(Column::Up, LOWER);
    assert!(
        owner
            .session
            .poll_report()
            .is_some_and(|report| report.cause == Cause::First)
    );
    let at = |us: u64| NOW.after(us * 1000);
    owner
        .session
        .handle_failure(LIFE, Cause::RetryExceeded, at(0));
    owner.session.poll_step();
    owner.session.fenced(Taken::default(), at(10));
    owner.settle(at(10));
    let answer = owner.datagram(Kind::Rep, 6);
    owner.session.handle_datagram(&answer, PathId(1), at(30));
    owner.settle(at(30));
    owner.session.replayed(64, at(70));
    let report = owner.session.poll_report().expect("it is over");
    let parts = [report.fence_ns, report.reconnect_ns, report.replay_ns];
    assert_eq!(parts, [10_000, 20_000, 40_000]);
    assert_eq!(
        (report.cause, report.to, report.epoch),
        (Cause::RetryExceeded, PathId(1), Epoch(6))
    );
    assert_eq!((report.bytes, report.tries, report.lasts), (64, 1, false));
}

#[test]
fn a_life_that_went_over_to_another_port_ends_with_that_port() {
    let mut owner = Owner::in_column(Column::Up, LOWER);
    let by_port = |port: u8| Path {
        port,
        ..Path::default()
    };
    owner.paths.renew(&[by_port(1), by_port(2)]);
    owner.session.handle_paths(&owner.paths);
    let all: Vec<_> = owner.paths.ids().collect();
    let at = |port: u8| {
        let mut all = all.iter().copied();
        let found = all.find(|id| owner.paths.get(*id) == Some(&by_port(port)));
        found.expect("it is in the table")
    };
    let [first, second] = [at(1), at(2)];
    let ends = |session: &mut Session, port: u8| {
        session.handle_port(AdapterId(0), port, Cause::PortDown, NOW);
        session.state()
    };
    owner.session.handle_migration(Epoch(LIFE.0 - 1), first);
    owner.session.handle_migration(LIFE, second);
    assert_eq!(
        ends(&mut owner.session, 1),
        State::Up,
        "nothing lives on it"
    );
    assert_eq!(ends(&mut owner.session, 2), State::Fenced);
    owner.settle(NOW);
    owner.session.handle_migration(LIFE, first);
    assert_eq!(owner.session.remote.by, second, "that life is over");
}

#[test]
fn an_hour_of_silence_loses_nobody_where_heal_for_is_none() {
    let limits = Limits {
        heal_for: None,
        ..Limits::default()
    };
    let mut owner = Owner::new(LOWER);
    owner.session = Session::new(LOWER, PEER, SECRET, limits);
    owner.session.want(NOW);
    owner.settle(NOW);
    let mut now = NOW;
    while now < NOW.after(3_600_000_000_000) {
        now = owner.session.poll_timeout().expect("it asks again");
        owner.session.handle_timeout(now);
        owner.settle(now);
    }
    let questions = owner.log.iter().filter(|line| line.starts_with("REQ1"));
    let count = questions.count();
    // Each 25 ms for a minute, each 250 ms to the tenth, then each second.
    assert!((7500..7620).contains(&count), "{count} questions");
    assert_eq!(owner.session.state(), State::Asking);
    owner.get(Kind::Rep, 1);
    owner.settle(now);
    assert_eq!(owner.session.state(), State::Replaying);
}
