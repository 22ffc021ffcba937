//! The eventfds by which a peer's process is told.
//!
//! Owns: which eventfd is a box's. Must not know: who waits there.

use super::channel::Channel;
use super::message::{Message, Packet};
use super::pair::Broken;
use crate::own::Event;
use crate::ready::boxes;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::OnceLock;

/// Boxes of a process, its service thread's included.
pub const MOST_BOXES: usize = 256;

/// The eventfds of a peer's process, by the number of the box. Box 0 is its service thread's, which
/// looks after all that have no box of their own.
#[derive(Debug)]
pub struct Bells {
    first: Event,
    others: Box<[OnceLock<Event>]>,
}

impl Bells {
    /// `first` is box 0's.
    pub fn new(first: Event) -> Self {
        let others = std::iter::repeat_with(OnceLock::new);
        let others = others.take(MOST_BOXES - 1).collect();
        Self { first, others }
    }

    /// The peer has a box more.
    ///
    /// # Errors
    /// There is no such box, or it has an eventfd already.
    pub fn add(&self, number: u32, event: Event) -> Result<(), Broken> {
        let at = (number as usize).checked_sub(1).ok_or(Broken)?;
        let place = self.others.get(at).ok_or(Broken)?;
        place.set(event).map_err(|_| Broken)
    }

    /// The peer has told of a box more, whose eventfd has to come alone.
    ///
    /// # Errors
    /// As [`Bells::add`]; what has come is no eventfd.
    pub fn told(&self, number: u32, fds: Vec<OwnedFd>) -> Result<(), Broken> {
        let [fd] = <[OwnedFd; 1]>::try_from(fds).map_err(|_| Broken)?;
        self.add(number, Event::from_fd(fd).map_err(|_| Broken)?)
    }

    /// Tells who waits at a box; the service thread, if no such box is known.
    pub fn ring(&self, number: u64) {
        let at = usize::try_from(number).unwrap_or(usize::MAX);
        let other = self.others.get(at.wrapping_sub(1));
        other
            .and_then(OnceLock::get)
            .unwrap_or(&self.first)
            .signal();
    }
}

/// Tells a peer of the boxes that it does not know, of which `told` is the number. Whoever reads so
/// little that it gets no descriptor is told later; its service thread is told meanwhile.
pub fn tell(channel: &mut Channel, told: &mut u32) {
    while *told < boxes::count() {
        let number = *told + 1;
        let Some(bell) = boxes::get(number) else {
            return;
        };
        let packet = Packet {
            number: 0,
            message: Message::Bell { number },
        };
        if channel.send(&packet, &[bell.as_fd()]).is_err() {
            return;
        }
        *told = number;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_no_box_of_its_own_is_told_by_the_service_thread() {
        let event = || Event::new().expect("an eventfd");
        let twin = |event: &Event| {
            let copy = rustix::io::fcntl_dupfd_cloexec(event, 0).expect("a descriptor");
            Event::from_fd(copy).expect("an eventfd")
        };
        let (first, third) = (event(), event());
        let bells = Bells::new(twin(&first));
        bells.add(3, twin(&third)).expect("free");
        for (number, told) in [(0, 1), (1, 1), (3, 0), (u64::MAX, 1), (256, 1), (255, 1)] {
            bells.ring(number);
            assert_eq!([first.take(), third.take()], [told, 1 - told], "{number}");
        }
        for number in [0, 3, 256, u32::MAX] {
            assert_eq!(bells.add(number, event()), Err(Broken), "{number}");
        }
    }
}
