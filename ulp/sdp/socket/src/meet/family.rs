//! Where a listening TCP socket is asked who holds what it has accepted.
//!
//! Owns: the Unix socket of a port, and the answers. Must not know: sockets and their users. What
//! it says is routing and proves nothing: whoever gets it checks the holder.

use super::PATIENCE;
use super::channel::{self, Channel, Received};
use super::directory::{self, Directory, Door, Left};
use super::message::{Message, Packet};
use super::table::Table;
use rustix::event::PollFlags;
use rustix::io::Errno;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;

/// Families that one port can have: listeners with SO_REUSEPORT, and strangers who took a name.
pub const PLACES: u8 = 4;
/// Channels that ask at one time.
const MOST_VISITORS: usize = 64;
/// Messages of one channel in one call.
const MOST_MESSAGES: usize = 16;

/// The processes that hold one listening socket, as one of them sees it. A forked child has its
/// own.
#[derive(Debug)]
pub struct Family {
    port: u16,
    place: u8,
    listener: Door,
    table: Arc<Table>,
    visitors: Vec<Visitor>,
}

#[derive(Debug)]
struct Visitor {
    channel: Channel,
    /// It is closed at this time.
    until: Duration,
}

impl Family {
    /// Takes the first free name of a port in this network namespace.
    ///
    /// # Errors
    /// EADDRINUSE if all are taken; as socket(2), listen(2), mmap(2).
    pub fn bind(port: u16) -> Result<Self, Errno> {
        Self::first(port, Table::new()?, |place| {
            channel::listen(&channel::family_address(port, place)?).map(Door::of)
        })
    }

    /// Takes the first free name of a port in a directory, for processes of other network
    /// namespaces. They ask by a number of the connection's two ends ([`super::ends_number`]).
    ///
    /// # Errors
    /// EADDRINUSE if all are taken; as bind(2), listen(2), mmap(2).
    pub fn bind_in(at: &'static Directory, port: u16) -> Result<Self, Errno> {
        Self::first(port, Table::by_lower_half()?, |place| {
            at.listen(&directory::family_name(port, place))
        })
    }

    fn first(
        port: u16,
        table: Table,
        listen: impl Fn(u8) -> Result<Door, Errno>,
    ) -> Result<Self, Errno> {
        for place in 0..PLACES {
            match listen(place) {
                Err(Errno::ADDRINUSE) => {}
                Err(error) => return Err(error),
                Ok(listener) => {
                    let visitors = Vec::new();
                    return Ok(Self {
                        port,
                        place,
                        listener,
                        table: Arc::new(table),
                        visitors,
                    });
                }
            }
        }
        Err(Errno::ADDRINUSE)
    }

    /// The TCP port, and which of its names this family has.
    pub fn place(&self) -> (u16, u8) {
        (self.port, self.place)
    }

    /// Who holds what: whoever accepts a socket says so here.
    pub fn table(&self) -> &Arc<Table> {
        &self.table
    }

    /// In a forked child: the channels are the parent's.
    pub fn forked(&mut self) {
        self.visitors.clear();
    }

    /// Nobody asks this process any more.
    pub fn close(self) -> Option<Left> {
        self.listener.close()
    }

    /// Answers whoever has asked. `now` is CLOCK_MONOTONIC's.
    pub fn serve(&mut self, now: Duration) {
        for _ in 0..MOST_VISITORS {
            let Ok(channel) = channel::accept(self.listener.as_fd()) else {
                break;
            };
            if self.visitors.len() == MOST_VISITORS {
                // whoever has come first has had the longest time
                self.visitors.remove(0);
            }
            let until = now + PATIENCE;
            self.visitors.push(Visitor { channel, until });
        }
        let table = &self.table;
        self.visitors
            .retain_mut(|visitor| now < visitor.until && visitor.answer(table));
    }

    /// What [`Family::serve`] has to be called for.
    pub fn interest(&self) -> impl Iterator<Item = (BorrowedFd<'_>, PollFlags)> {
        let channels = self
            .visitors
            .iter()
            .map(|visitor| visitor.channel.interest());
        std::iter::once((self.listener.as_fd(), PollFlags::IN)).chain(channels)
    }

    /// When [`Family::serve`] has to be called at the latest.
    pub fn deadline(&self) -> Option<Duration> {
        self.visitors.iter().map(|visitor| visitor.until).min()
    }
}

impl Visitor {
    /// False if the channel is over.
    fn answer(&mut self, table: &Table) -> bool {
        for _ in 0..MOST_MESSAGES {
            let (number, cookie) = match self.channel.receive() {
                Received::Packet(packet, fds) if fds.is_empty() => match packet.message {
                    Message::Ask { cookie } => (packet.number, cookie),
                    _ => return false,
                },
                Received::Nothing => break,
                _ => return false,
            };
            let message = table.find(cookie).map_or(Message::Nowhere, Message::At);
            if self.channel.send(&Packet { number, message }, &[]).is_err() {
                return false;
            }
        }
        self.channel.flush().is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::super::message::Name;
    use super::*;

    const NOW: Duration = Duration::from_secs(100);

    /// Ports of these tests are no TCP ports of anybody: names are free.
    fn family(port: u16) -> (Family, Channel) {
        let family = Family::bind(port).expect("a free name");
        let (port, place) = family.place();
        let address = channel::family_address(port, place).expect("a name");
        let visitor = Channel::connect(&address).expect("connected");
        (family, visitor)
    }

    fn ask(channel: &mut Channel, number: u32, cookie: u64) {
        let message = Message::Ask { cookie };
        channel
            .send(&Packet { number, message }, &[])
            .expect("sent");
    }

    fn answer(channel: &Channel) -> Option<Packet> {
        match channel.receive() {
            Received::Packet(packet, fds) if fds.is_empty() => Some(packet),
            _ => None,
        }
    }

    #[test]
    fn a_family_says_who_holds_a_socket() {
        let (mut family, mut visitor) = family(1);
        let name = Name(*b"here is a holder");
        family.table().insert(7, name);
        ask(&mut visitor, 1, 7);
        ask(&mut visitor, 2, 8);
        family.serve(NOW);
        let at = Message::At(name);
        let packet = |number, message| Some(Packet { number, message });
        assert_eq!(answer(&visitor), packet(1, at));
        assert_eq!(answer(&visitor), packet(2, Message::Nowhere));
        assert_eq!(family.deadline(), Some(NOW + PATIENCE));
        family.serve(NOW + PATIENCE);
        assert!(matches!(visitor.receive(), Received::Ended));
        assert_eq!(family.deadline(), None);
    }

    #[test]
    fn four_families_have_names_at_a_port() {
        let families: Vec<_> = (0..4).map(|_| Family::bind(2).expect("free")).collect();
        let places: Vec<_> = families.iter().map(|family| family.place().1).collect();
        assert_eq!(places, [0, 1, 2, 3]);
        assert_eq!(Family::bind(2).err(), Some(Errno::ADDRINUSE));
    }

    #[test]
    fn whoever_talks_nonsense_is_closed_and_others_are_answered() {
        let (mut family, mut visitor) = family(3);
        let address = channel::family_address(3, family.place().1).expect("a name");
        let strangers: Vec<_> = (0..20_usize)
            .map(|number| {
                let stranger = Channel::connect(&address).expect("connected");
                let bytes = vec![number as u8 * 13; 1 + number * 97];
                rustix::io::write(&stranger, &bytes).expect("sent");
                stranger
            })
            .collect();
        let mut wrong = Channel::connect(&address).expect("connected");
        let message = Message::Later;
        let number = 0;
        wrong.send(&Packet { number, message }, &[]).expect("sent");
        ask(&mut visitor, 9, 1);
        family.serve(NOW);
        let message = Message::Nowhere;
        assert_eq!(answer(&visitor), Some(Packet { number: 9, message }));
        for stranger in strangers.iter().chain([&wrong]) {
            assert!(matches!(stranger.receive(), Received::Ended));
        }
        assert_eq!(family.visitors.len(), 1);
    }

    #[test]
    fn silent_visitors_keep_nobody_out() {
        let (mut family, first) = family(4);
        let address = channel::family_address(4, family.place().1).expect("a name");
        let mut silent = Vec::new();
        for _ in 0..3 * MOST_VISITORS {
            silent.push(Channel::connect(&address).expect("connected"));
            family.serve(NOW);
        }
        assert_eq!(family.visitors.len(), MOST_VISITORS);
        assert!(matches!(first.receive(), Received::Ended));
        let mut last = Channel::connect(&address).expect("connected");
        ask(&mut last, 1, 1);
        family.serve(NOW);
        assert!(answer(&last).is_some());
    }
}
