//! Asking the processes of this network namespace for their streams.
//!
//! Owns: how those that take part are found, and the questions. Must not know: how it is shown.
//! Each process has a name in the kernel's list of Unix sockets as soon as it listens, or asks for
//! a connection. What comes back may be anything: it is bounded in time and number, and believed
//! only as far as its user is the asking one's.

use super::channel::{self, Channel, Received};
use super::message::{Message, Name, Packet};
use super::report::{About, Row, Stranger};
use ferriband_host::wake;
use rustix::event::{PollFd, Timespec};
use rustix::io::Errno;
use std::time::Duration;

/// Streams of one process at most: descriptor numbers that are told apart.
const MOST_ROWS: usize = 1 << 20;
/// Messages of one channel in one turn.
const MOST_IN_A_TURN: usize = 256;
/// A listening socket in the kernel's list.
const LISTENS: &str = "00010000";

/// What a process says.
#[derive(Debug)]
pub struct Report {
    /// The process.
    pub about: About,
    /// Who has spoken for what is not his.
    pub strangers: Vec<Stranger>,
    /// Its streams, by descriptor number.
    pub rows: Vec<Row>,
}

/// What came of asking a process.
#[derive(Debug)]
pub enum Answer {
    /// All of it.
    Report(Report),
    /// It was not asked: only its own user and root may.
    OfAnotherUser,
    /// No answer in time, or none to be used: it is stopped, or of another version.
    Silent,
}

/// A process that takes part.
#[derive(Debug)]
pub struct Told {
    /// Its number here; 0 if it has none.
    pub pid: u32,
    /// Its user.
    pub uid: u32,
    /// What came of asking.
    pub answer: Answer,
}

/// The names of processes that take part, out of the text of /proc/net/unix.
pub fn names(list: &str) -> Vec<Name> {
    let name = |line: &str| {
        let mut words = line.split_ascii_whitespace();
        let (flags, path) = (words.nth(3)?, words.nth(3)?);
        let hex = path.strip_prefix("@ferriband-sdp-")?;
        let is_name = flags == LISTENS
            && hex.len() == 32
            && hex.bytes().all(|digit| digit.is_ascii_hexdigit());
        let byte = |at: usize| u8::from_str_radix(&hex[at * 2..at * 2 + 2], 16).ok();
        let mut name = [0; 16];
        for (at, to) in name.iter_mut().enumerate() {
            *to = is_name.then(|| byte(at)).flatten()?;
        }
        Some(Name(name))
    };
    list.lines().filter_map(name).collect()
}

/// Asks each of these at once; an answer may take so long, and all of them ten times as long.
/// Processes that have ended meanwhile are left out.
pub fn ask(names: &[Name], patience: Duration) -> Vec<Told> {
    let own = rustix::process::geteuid().as_raw();
    let begun = wake::now();
    let mut questions: Vec<_> = names
        .iter()
        .filter_map(|name| Question::begin(*name, own, begun + patience))
        .collect();
    let end = begun + patience * 10;
    loop {
        let now = wake::now().min(end);
        let open = || questions.iter().filter(|question| question.is_open());
        let Some(until) = open().map(|question| question.until.min(end)).min() else {
            break;
        };
        let channels = open().filter_map(|question| question.channel.as_ref());
        let interest = channels.map(Channel::interest);
        let mut polled: Vec<_> = interest
            .map(|(descriptor, events)| PollFd::from_borrowed_fd(descriptor, events))
            .collect();
        let left = Timespec::try_from(until.saturating_sub(now)).ok();
        // whatever has ended it, all are looked at
        let _ = rustix::event::poll(&mut polled, left.as_ref());
        drop(polled);
        let now = wake::now();
        for question in &mut questions {
            question.go_on(now, patience, end);
        }
    }
    questions.into_iter().filter_map(Question::told).collect()
}

/// One process that is asked.
struct Question {
    pid: u32,
    uid: u32,
    /// None once all was said.
    channel: Option<Channel>,
    until: Duration,
    from: i32,
    about: Option<About>,
    strangers: Vec<Stranger>,
    rows: Vec<Row>,
    outcome: Outcome,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Open,
    All,
    Silent,
    OfAnotherUser,
    Gone,
}

impl Question {
    /// None: the process is gone.
    fn begin(name: Name, own: u32, until: Duration) -> Option<Self> {
        let mut question = Self {
            pid: 0,
            uid: 0,
            channel: None,
            until,
            from: 0,
            about: None,
            strangers: Vec::new(),
            rows: Vec::new(),
            outcome: Outcome::Silent,
        };
        let channel = channel::own_address(name).and_then(|at| Channel::connect(&at));
        let channel = match channel {
            Ok(channel) => channel,
            Err(Errno::CONNREFUSED) => return None,
            // too many wait there already
            Err(_) => return Some(question),
        };
        question.pid = channel.pid().ok()?;
        question.uid = channel.uid().ok()?;
        question.outcome = match own {
            0 => Outcome::Open,
            own if own == question.uid => Outcome::Open,
            _ => Outcome::OfAnotherUser,
        };
        question.channel = Some(channel);
        if question.is_open() {
            question.next();
        }
        Some(question)
    }

    fn is_open(&self) -> bool {
        self.outcome == Outcome::Open
    }

    /// Asks for the streams from the next number on.
    fn next(&mut self) {
        let packet = Packet {
            number: 0,
            message: Message::Status { from: self.from },
        };
        let channel = self.channel.as_mut();
        if channel.is_none_or(|channel| channel.send(&packet, &[]).is_err()) {
            self.outcome = Outcome::Silent;
        }
    }

    fn go_on(&mut self, now: Duration, patience: Duration, end: Duration) {
        for _ in 0..MOST_IN_A_TURN {
            let (true, Some(channel)) = (self.is_open(), &self.channel) else {
                return;
            };
            match channel.receive() {
                Received::Packet(packet, fds) if fds.is_empty() => self.hear(packet.message),
                Received::Nothing => break,
                Received::Ended if self.about.is_none() && !self.lives() => {
                    self.outcome = Outcome::Gone;
                }
                _ => self.outcome = Outcome::Silent,
            }
            self.until = now + patience;
        }
        if self.is_open() && (self.until <= now || end <= now) {
            self.outcome = Outcome::Silent;
        }
    }

    fn lives(&self) -> bool {
        let pid = i32::try_from(self.pid)
            .ok()
            .and_then(rustix::process::Pid::from_raw);
        // one that may not be asked lives
        pid.is_none_or(|pid| rustix::process::test_kill_process(pid) != Err(Errno::SRCH))
    }

    fn hear(&mut self, message: Message) {
        match message {
            Message::About(about) if self.about.is_none() => self.about = Some(about),
            Message::Stranger(stranger) if self.strangers.len() < MOST_IN_A_TURN => {
                self.strangers.push(stranger);
            }
            Message::Row(row) if self.rows.len() < MOST_ROWS => self.rows.push(row),
            Message::Rows { next: -1 } if self.about.is_some() => {
                self.outcome = Outcome::All;
                self.channel = None;
            }
            Message::Rows { next } if next > self.from => {
                self.from = next;
                self.next();
            }
            _ => self.outcome = Outcome::Silent,
        }
    }

    fn told(self) -> Option<Told> {
        let answer = match (self.outcome, self.about) {
            (Outcome::Gone, _) => return None,
            (Outcome::All, Some(about)) => Answer::Report(Report {
                about,
                strangers: self.strangers,
                rows: self.rows,
            }),
            (Outcome::OfAnotherUser, _) => Answer::OfAnotherUser,
            _ => Answer::Silent,
        };
        Some(Told {
            pid: self.pid,
            uid: self.uid,
            answer,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::holder::HolderService;
    use super::super::testing::{NOW, event};
    use super::super::{News, PATIENCE};
    use super::*;
    use crate::meet::report::{NOWHERE, Side, Traffic};
    use std::sync::atomic::{AtomicBool, Ordering};

    const LIST: &str = "Num       RefCount Protocol Flags    Type St Inode Path\n\
        0000000000000001: 00000002 00000000 00010000 0005 01 100 @ferriband-sdp-000102030405060708090a0b0c0d0e0f\n\
        0000000000000002: 00000003 00000000 00000000 0005 03 101 @ferriband-sdp-000102030405060708090a0b0c0d0e0f\n\
        0000000000000003: 00000002 00000000 00010000 0005 01 102 @ferriband-sdp.80.0\n\
        0000000000000004: 00000002 00000000 00010000 0005 01 103 @ferriband-sdp-+102030405060708090a0b0c0d0e0f0\n\
        0000000000000005: 00000002 00000000 00010000 0005 01 104 @ferriband-sdp-00\u{e9}\u{e9}030405060708090a0b0c0d0e\n\
        0000000000000006: 00000002 00000000 00010000 0001 01 105 /run/ferriband-sdp-x\n\
        0000000000000007: 00000002 00000000 00010000 0001 01 106\n";

    #[test]
    fn names_are_those_that_listen() {
        let expected = Name([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]);
        assert_eq!(names(LIST), [expected]);
        assert_eq!(names(""), []);
    }

    fn about() -> Message {
        Message::About(About {
            pid: 7,
            eligible: 1,
            upgraded: 0,
            program: About::name(b"program"),
        })
    }

    fn row(number: i32) -> Message {
        Message::Row(Row {
            number,
            side: Side::Accepted,
            own: NOWHERE,
            peer: NOWHERE,
            phases: None,
            flow: None,
            why: None,
            by: None,
            traffic: Traffic::default(),
        })
    }

    /// A process that answers as `say` says, as long as it is asked.
    fn asked(say: impl Fn(i32) -> Vec<Message> + Sync) -> Answer {
        let mut holder = HolderService::new(event()).expect("this kernel tells");
        let (name, over) = (holder.name(), AtomicBool::new(false));
        let mut told = std::thread::scope(|scope| {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    let mut news = Vec::new();
                    holder.serve(NOW, &|_| unreachable!("nothing is requested"), &mut news);
                    for news in news {
                        if let News::Status { pair, number, from } = news {
                            holder.tell(pair, number, &say(from));
                        }
                    }
                    std::thread::sleep(Duration::from_millis(1));
                }
            });
            let told = ask(&[name], PATIENCE);
            over.store(true, Ordering::Relaxed);
            told
        });
        assert_eq!(told.len(), 1);
        let told = told.remove(0);
        assert_eq!(told.pid, std::process::id());
        told.answer
    }

    #[test]
    fn all_pages_of_an_answer_are_taken() {
        let answer = asked(|from| match from {
            0 => vec![about(), row(3), row(4), Message::Rows { next: 9 }],
            9 => vec![row(9), Message::Rows { next: -1 }],
            other => panic!("{other} is no page"),
        });
        let Answer::Report(report) = answer else {
            panic!("{answer:?}");
        };
        assert_eq!(report.about.program(), "program");
        let numbers: Vec<_> = report.rows.iter().map(|row| row.number).collect();
        assert_eq!(numbers, [3, 4, 9]);
    }

    #[test]
    fn an_answer_that_cannot_be_is_none() {
        let pages: [fn(i32) -> Vec<Message>; 4] = [
            |_| vec![about(), Message::Rows { next: 0 }],
            |_| vec![about(), about()],
            |_| vec![Message::Rows { next: -1 }],
            |_| vec![about(), Message::Later],
        ];
        for page in pages {
            assert!(matches!(asked(page), Answer::Silent));
        }
    }

    #[test]
    fn a_process_that_is_gone_is_left_out() {
        let holder = HolderService::new(event()).expect("this kernel tells");
        let name = holder.name();
        drop(holder);
        assert!(ask(&[name], PATIENCE).is_empty());
    }
}
