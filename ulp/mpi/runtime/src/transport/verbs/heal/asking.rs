//! Asks processes of other hosts for the cards of their ranks, at their TCP ports
//! ([`super::teller`]).
//!
//! Owns: the questions that are wanted, the connections for them, which address of a process was
//! the one that answered. Must not know: when a card is wanted ([`ferriband_heal::Reading`]), what
//! becomes of one. It is the thread's ([`super::thread`]): nothing here waits.
//!
//! What comes back is hostile: only an answer of the job to the question that was sent is one.

use super::echo::Whose;
use ferriband_heal::card::Card;
use ferriband_heal::inquiry::{ANSWER, CardPort, Question};
use rustix::event::PollFlags;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, socket_with};
use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

/// Connections at once.
const MOST: usize = 16;
/// An address is given up if nothing has come of it within this time; the next one is tried. Who
/// waits for the card asks again.
const PATIENCE: Duration = Duration::from_millis(250);

/// Questions that are under way.
#[derive(Default)]
pub struct Asking {
    questions: Vec<Asked>,
    /// By rank: which of its addresses answered last.
    good: BTreeMap<u32, usize>,
}

/// A question.
struct Asked {
    question: Question,
    port: CardPort,
    /// Addresses that were tried.
    tried: usize,
    /// By the one that is tried now.
    line: Option<Line>,
}

/// A connection that may not be there yet.
struct Line {
    stream: TcpStream,
    since: Instant,
    is_sent: bool,
    answer: [u8; ANSWER],
    come: usize,
}

/// What became of a step.
enum Step {
    /// Something has to come first.
    Waits,
    /// There is no answer by this address.
    Failed,
    /// There is one.
    Told(Card),
}

impl Asking {
    /// The card of rank `to` is wanted, which tells it at that port.
    pub fn want(&mut self, whose: &Whose, to: u32, port: CardPort) {
        if self.questions.iter().any(|one| one.question.to == to) {
            return;
        }
        self.questions.push(Asked {
            question: Question {
                secret: whose.secret,
                from: whose.me,
                to,
            },
            port,
            tried: 0,
            line: None,
        });
    }

    /// What can be read or written, as said beside it, when there is something to do.
    pub fn fds(&self) -> impl Iterator<Item = (BorrowedFd<'_>, PollFlags)> {
        let lines = self.questions.iter().filter_map(|one| one.line.as_ref());
        lines.map(|line| match line.is_sent {
            true => (line.stream.as_fd(), PollFlags::IN),
            false => (line.stream.as_fd(), PollFlags::OUT),
        })
    }

    /// When there is something to do in any case.
    pub fn due(&self) -> Option<Instant> {
        let lines = self.questions.iter().filter_map(|one| one.line.as_ref());
        lines.map(|line| line.since + PATIENCE).min()
    }

    /// Goes on with all questions; `told` hears of each card that has come.
    pub fn go_on(&mut self, now: Instant, mut told: impl FnMut(u32, Card)) {
        let mut under_way = 0;
        let good = &mut self.good;
        self.questions.retain_mut(|one| {
            if one.line.is_none() && under_way == MOST {
                return true;
            }
            let rank = one.question.to;
            match one.go_on(good.get(&rank).copied().unwrap_or(0), now) {
                Some((at, card)) => {
                    good.insert(rank, at);
                    told(rank, card);
                    false
                }
                None => {
                    under_way += usize::from(one.line.is_some());
                    one.line.is_some()
                }
            }
        });
    }
}

impl Asked {
    /// Goes on with address after address, from `first` on; which one has answered, with what. No
    /// line is left when all have been tried in vain.
    fn go_on(&mut self, first: usize, now: Instant) -> Option<(usize, Card)> {
        let count = self.port.addresses().count();
        loop {
            if let Some(line) = &mut self.line {
                match line.step(&self.question, now) {
                    Step::Waits => return None,
                    Step::Told(card) => return Some(((first + self.tried - 1) % count, card)),
                    Step::Failed => self.line = None,
                }
            }
            if self.tried == count {
                return None;
            }
            let at = (first + self.tried) % count;
            self.tried += 1;
            let address = self.port.addresses().nth(at);
            self.line = address.and_then(|address| Line::open(address, now).ok());
        }
    }
}

impl Line {
    fn open(to: SocketAddr, now: Instant) -> io::Result<Self> {
        let family = match to {
            SocketAddr::V4(_) => AddressFamily::INET,
            SocketAddr::V6(_) => AddressFamily::INET6,
        };
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(family, SocketType::STREAM, flags, None)?;
        match connect(&socket, &to) {
            Ok(()) | Err(Errno::INPROGRESS) => (),
            Err(error) => return Err(error.into()),
        }
        Ok(Self {
            stream: socket.into(),
            since: now,
            is_sent: false,
            answer: [0; ANSWER],
            come: 0,
        })
    }

    fn step(&mut self, question: &Question, now: Instant) -> Step {
        let waits = |error: &io::Error| {
            let is_early = matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted);
            is_early && now.saturating_duration_since(self.since) < PATIENCE
        };
        if !self.is_sent {
            // Before there is a connection this is too early.
            let bytes = question.emit();
            match self.stream.write(&bytes) {
                Ok(count) if count == bytes.len() => self.is_sent = true,
                Err(error) if waits(&error) => return Step::Waits,
                // So few bytes go as one, or not at all.
                Ok(_) | Err(_) => return Step::Failed,
            }
        }
        while self.come < ANSWER {
            match self.stream.read(&mut self.answer[self.come..]) {
                Ok(0) => return Step::Failed,
                Ok(count) => self.come += count,
                Err(error) if waits(&error) => return Step::Waits,
                Err(_) => return Step::Failed,
            }
        }
        let card = question.card_in(&self.answer);
        card.map_or(Step::Failed, Step::Told)
    }
}

#[cfg(test)]
mod tests {
    use super::super::teller::{self, Teller};
    use super::*;
    use ferriband_heal::card::ADAPTERS;
    use ferriband_ibv::QKey;
    use std::net::TcpListener;

    const ME: Whose = Whose {
        me: 2,
        ranks: 4,
        secret: 77,
        qkey: QKey(5),
    };

    fn card() -> Card {
        Card {
            serial: 8,
            receive: 64,
            addresses: [None; ADAPTERS],
        }
    }

    /// This process's port, by addresses of this host that others can come by.
    fn port_of(listener: &TcpListener) -> Option<CardPort> {
        teller::place(listener, &card())
    }

    /// Goes on until nothing is asked any more: what was told.
    fn told(asking: &mut Asking, mut meanwhile: impl FnMut()) -> Vec<(u32, Card)> {
        let mut all = Vec::new();
        let until = Instant::now() + Duration::from_secs(20);
        while !asking.questions.is_empty() && Instant::now() < until {
            asking.go_on(Instant::now(), |rank, card| all.push((rank, card)));
            meanwhile();
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(asking.questions.is_empty(), "all come to an end");
        all
    }

    #[test]
    fn who_is_asked_tells_its_card() {
        let listener = teller::open().expect("a port");
        let Some(port) = port_of(&listener) else {
            eprintln!("left out: this host has no address");
            return;
        };
        let mut teller = Teller::new(listener, Whose { me: 1, ..ME });
        let mut asking = Asking::default();
        asking.want(&ME, 1, port);
        asking.want(&ME, 1, port);
        let all = told(&mut asking, || teller.serve(&card(), Instant::now()));
        assert_eq!(all, [(1, card())]);
    }

    #[test]
    fn who_says_nothing_or_something_else_is_given_up() {
        let listener = teller::open().expect("a port");
        let Some(port) = port_of(&listener) else {
            eprintln!("left out: this host has no address");
            return;
        };
        let mut asking = Asking::default();
        // The kernel takes the connection, and nobody answers.
        asking.want(&ME, 1, port);
        let begun = Instant::now();
        assert_eq!(told(&mut asking, || ()), []);
        assert!(begun.elapsed() >= PATIENCE);
        // A stranger answers.
        asking.want(&ME, 1, port);
        let answer = Question {
            secret: 78,
            from: 2,
            to: 1,
        };
        let all = told(&mut asking, || {
            while let Ok((mut stream, _)) = listener.accept() {
                let _ = stream.write_all(&answer.answered(&card()));
            }
        });
        assert_eq!(all, []);
        // Nobody listens.
        drop(listener);
        asking.want(&ME, 1, port);
        assert_eq!(told(&mut asking, || ()), []);
    }

    #[test]
    fn many_questions_take_turns() {
        let listener = teller::open().expect("a port");
        let Some(port) = port_of(&listener) else {
            eprintln!("left out: this host has no address");
            return;
        };
        let whose = Whose { ranks: 500, ..ME };
        let mut tellers: Vec<u32> = Vec::new();
        let mut asking = Asking::default();
        for rank in 100..150 {
            asking.want(&whose, rank, port);
        }
        let mut most = 0;
        let until = Instant::now() + Duration::from_secs(20);
        while !asking.questions.is_empty() && Instant::now() < until {
            asking.go_on(Instant::now(), |rank, _| tellers.push(rank));
            most = most.max(asking.fds().count());
            while let Ok((mut stream, _)) = listener.accept() {
                let mut bytes = [0; ferriband_heal::inquiry::QUESTION];
                stream.read_exact(&mut bytes).expect("a question");
                let question = Question::parse(&bytes).expect("it is one");
                let _ = stream.write_all(&question.answered(&card()));
            }
        }
        tellers.sort_unstable();
        assert_eq!(tellers, (100..150).collect::<Vec<u32>>());
        assert!((1..=MOST).contains(&most), "{most} at once");
    }
}
