//! The TCP port at which this process tells its rank's card, to ranks of other hosts that have lost
//! its adapters (docs/design/heal.md, section 5.4).
//!
//! Owns: the port, and who is connected to it. Must not know: what a card says, when one is wanted.
//! It is the thread's ([`super::thread`]), so it answers also while the program computes.
//!
//! Anybody may connect. Only a rank of the job is answered; who says nothing is sent away when
//! another one comes for whom there is no room, and in any case after two seconds.

use super::echo::Whose;
use ferriband_heal::card::Card;
use ferriband_heal::inquiry::{CardPort, QUESTION, Question};
use rustix::net::sockopt::{set_ipv6_v6only, set_socket_reuseaddr};
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, listen, socket_with};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

/// Connections at once.
const GUESTS: usize = 64;
/// A connection lasts so long at most.
const PATIENCE: Duration = Duration::from_secs(2);
/// Where there is no descriptor for one more, none is taken for so long.
const PAUSE: Duration = Duration::from_millis(100);
/// Connections that the kernel keeps until they are taken.
const BACKLOG: i32 = 256;

/// Opens a port, for all addresses of the host.
pub fn open() -> io::Result<TcpListener> {
    of(AddressFamily::INET6, IpAddr::V6(Ipv6Addr::UNSPECIFIED))
        .or_else(|_| of(AddressFamily::INET, IpAddr::V4(Ipv4Addr::UNSPECIFIED)))
}

fn of(family: AddressFamily, address: IpAddr) -> io::Result<TcpListener> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(family, SocketType::STREAM, flags, None)?;
    if address.is_ipv6() {
        set_ipv6_v6only(&socket, false)?;
    }
    set_socket_reuseaddr(&socket, true)?;
    bind(&socket, &SocketAddr::new(address, 0))?;
    listen(&socket, BACKLOG)?;
    Ok(socket.into())
}

/// Where others come to that port: by the addresses of the card's adapters, then by the host's
/// others.
pub fn place(listener: &TcpListener, card: &Card) -> Option<CardPort> {
    let port = listener.local_addr().ok()?.port();
    let of_card = card.addresses.iter().flatten();
    let of_card = of_card.filter(|one| one.is_ethernet);
    let of_card = of_card.map(|one| IpAddr::from(Ipv6Addr::from(one.gid)));
    let others = ferriband_host::interfaces();
    let others = others.into_iter().map(|one| one.address);
    CardPort::new(port, of_card.chain(others))
}

/// Who answers at the port.
pub struct Teller {
    listener: TcpListener,
    whose: Whose,
    guests: Vec<Guest>,
    /// None is taken before.
    not_before: Option<Instant>,
}

/// Who is connected and has not asked yet.
struct Guest {
    stream: TcpStream,
    since: Instant,
    question: [u8; QUESTION],
    come: usize,
}

impl Teller {
    /// Answers at this port.
    pub fn new(listener: TcpListener, whose: Whose) -> Self {
        Self {
            listener,
            whose,
            guests: Vec::new(),
            not_before: None,
        }
    }

    /// What is readable when there is something to do.
    pub fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let port = self.not_before.is_none().then(|| self.listener.as_fd());
        let guests = self.guests.iter().map(|guest| guest.stream.as_fd());
        port.into_iter().chain(guests)
    }

    /// When there is something to do although nothing is readable.
    pub fn due(&self) -> Option<Instant> {
        let guests = self.guests.iter().map(|guest| guest.since + PATIENCE);
        guests.chain(self.not_before).min()
    }

    /// Answers all who have asked, with that card, and takes who has come.
    pub fn serve(&mut self, card: &Card, now: Instant) {
        let whose = &self.whose;
        self.guests.retain_mut(|guest| {
            now.saturating_duration_since(guest.since) < PATIENCE && guest.stays(whose, card)
        });
        if self.not_before.is_some_and(|at| now < at) {
            return;
        }
        self.not_before = None;
        for _ in 0..GUESTS {
            let stream = match self.listener.accept() {
                Ok((stream, _)) => stream,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if is_of_guest(&error) => continue,
                Err(_) => {
                    // Of the kernel's memory or descriptors: asking again at once would keep a core
                    // busy. Those of guests help.
                    self.guests.clear();
                    self.not_before = Some(now + PAUSE);
                    return;
                }
            };
            if stream.set_nonblocking(true).is_err() {
                continue;
            }
            let mut guest = Guest {
                stream,
                since: now,
                question: [0; QUESTION],
                come: 0,
            };
            // Mostly its question has come with it.
            if guest.stays(&self.whose, card) {
                if self.guests.len() == GUESTS {
                    // All who have asked are answered: this one has been silent for longest.
                    self.guests.remove(0);
                }
                self.guests.push(guest);
            }
        }
    }
}

impl Guest {
    /// Hears it out, and answers. False once there is no more to be done for it.
    fn stays(&mut self, whose: &Whose, card: &Card) -> bool {
        while self.come < QUESTION {
            match self.stream.read(&mut self.question[self.come..]) {
                Ok(0) => return false,
                Ok(count) => self.come += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => (),
                Err(error) => return error.kind() == ErrorKind::WouldBlock,
            }
        }
        let question = Question::parse(&self.question);
        let asked = question.filter(|one| one.is_for(whose.me, whose.ranks, whose.secret));
        if let Some(question) = asked {
            // A connection on which nothing has been sent has room for so much. Who is not there
            // any more asks again.
            let _ = self.stream.write(&question.answered(card));
        }
        false
    }
}

/// Whether only the one who came is at fault.
fn is_of_guest(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::ConnectionAborted | ErrorKind::ConnectionReset | ErrorKind::Interrupted
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferriband_heal::card::ADAPTERS;
    use ferriband_heal::inquiry::ANSWER;
    use ferriband_ibv::QKey;

    const WHOSE: Whose = Whose {
        me: 1,
        ranks: 4,
        secret: 77,
        qkey: QKey(5),
    };
    const QUESTION_OF_2: Question = Question {
        secret: 77,
        from: 2,
        to: 1,
    };

    fn card(serial: u32) -> Card {
        Card {
            serial,
            receive: 64,
            addresses: [None; ADAPTERS],
        }
    }

    fn teller() -> (Teller, SocketAddr) {
        let listener = open().expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let to = SocketAddr::from(([127, 0, 0, 1], port));
        (Teller::new(listener, WHOSE), to)
    }

    fn comes(to: SocketAddr) -> TcpStream {
        let stream = TcpStream::connect(to).expect("the port is open");
        let wait = Some(Duration::from_secs(20));
        stream.set_read_timeout(wait).expect("a time");
        stream
    }

    /// What somebody hears who says this.
    fn hears(teller: &mut Teller, to: SocketAddr, said: &[u8]) -> Vec<u8> {
        let mut stream = comes(to);
        stream.write_all(said).expect("it is sent");
        teller.serve(&card(6), Instant::now());
        let mut heard = Vec::new();
        // Who is sent away with bytes unread is told so by a reset.
        let _ = stream.read_to_end(&mut heard);
        heard
    }

    #[test]
    fn a_rank_of_the_job_hears_the_card_and_a_stranger_nothing() {
        let (mut teller, to) = teller();
        let heard = hears(&mut teller, to, &QUESTION_OF_2.emit());
        let bytes: [u8; ANSWER] = heard.try_into().expect("an answer");
        assert_eq!(QUESTION_OF_2.card_in(&bytes), Some(card(6)));
        let stranger = Question {
            secret: 78,
            ..QUESTION_OF_2
        };
        assert_eq!(hears(&mut teller, to, &stranger.emit()), [0; 0]);
        assert_eq!(hears(&mut teller, to, &[9; QUESTION]), [0; 0]);
        assert_eq!(hears(&mut teller, to, &[9; 5000]), [0; 0]);
        assert!(teller.guests.is_empty());
    }

    #[test]
    fn a_question_may_come_in_parts() {
        let (mut teller, to) = teller();
        let mut slow = comes(to);
        let bytes = QUESTION_OF_2.emit();
        for part in bytes.chunks(5) {
            slow.write_all(part).expect("it is sent");
            teller.serve(&card(2), Instant::now());
        }
        let mut answer = [0; ANSWER];
        slow.read_exact(&mut answer).expect("an answer");
        assert_eq!(QUESTION_OF_2.card_in(&answer), Some(card(2)));
    }

    #[test]
    fn who_says_nothing_is_sent_away_and_never_in_the_way() {
        let (mut teller, to) = teller();
        let crowd: Vec<TcpStream> = (0..GUESTS + 3)
            .map(|_| {
                let silent = comes(to);
                teller.serve(&card(2), Instant::now());
                silent
            })
            .collect();
        assert_eq!(teller.guests.len(), GUESTS);
        assert_eq!(
            hears(&mut teller, to, &QUESTION_OF_2.emit()).len(),
            ANSWER,
            "another one is answered all the same"
        );
        let due = teller.due().expect("they go");
        assert!(due <= Instant::now() + PATIENCE);
        teller.serve(&card(2), due + PATIENCE);
        assert_eq!((teller.guests.len(), teller.due()), (0, None));
        drop(crowd);
    }

    #[test]
    fn others_come_by_the_addresses_of_the_adapters_first() {
        let listener = open().expect("a port");
        let mut known = card(2);
        let gid = Ipv4Addr::new(10, 9, 8, 7).to_ipv6_mapped().octets();
        known.addresses[0] = Some(ferriband_heal::card::Address {
            is_ethernet: true,
            gid,
            ..Default::default()
        });
        let place = place(&listener, &known).expect("it has one");
        let port = listener.local_addr().expect("an address").port();
        let first = place.addresses().next();
        assert_eq!(first, Some(SocketAddr::from(([10, 9, 8, 7], port))));
    }
}
