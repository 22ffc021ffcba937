//! Whole packets, LRH to VCRC, to and from the live fabric that this host is in.
//!
//! Owns the connection to the fabric's process. Must not know what packets say. What comes is a
//! stranger's.

use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ferriband_attach::ask::{self, Answer, Ask};
use ferriband_attach::{AttachError, Link, Piece, packet};
use ferriband_transport::Drop as Lost;

use crate::device::fabric;
use crate::lock;

/// How long a packet waits for room: the fabric's process may have no core for a while, and its
/// links may be slow, or have no credits.
const ROOM_PATIENCE: Duration = Duration::from_secs(1);
/// Where links take time, bytes of packets that wait in the socket: they have been sent as far as
/// their queue pairs know, whose time-outs run.
const PACED_BYTES: usize = 64 << 10;
/// Bytes of packets in a message, so that it is one piece and no other thread's comes between.
const MESSAGE_BYTES: usize = 24 << 10;

/// Packets to and from the fabric.
#[derive(Debug)]
pub(crate) struct Wire {
    /// None once the fabric's process is gone.
    link: Mutex<Option<Arc<Link>>>,
    /// A message whose end has not come.
    coming: Mutex<Vec<u8>>,
    /// Number of the port.
    port: u8,
    /// The P_Key table has changed since somebody asked.
    new_pkeys: AtomicBool,
    /// What the fabric said last of the port's link: [`UNKNOWN`], [`DOWN`], [`ACTIVE`]; and whether
    /// that has changed since somebody asked.
    link_state: AtomicU8,
    new_link: AtomicBool,
}

const UNKNOWN: u8 = 0;
const DOWN: u8 = 1;
const ACTIVE: u8 = 2;

/// What a port has had to tell.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct News {
    /// Its number.
    pub port: u8,
    /// Its P_Key table has changed.
    pub pkeys: bool,
    /// Its link carries packets from now on, or no more.
    pub active: Option<bool>,
}

impl Wire {
    /// Attaches each port to the fabric; none on this machine itself, and where the fabric is not
    /// there.
    pub fn open_all() -> Vec<Wire> {
        match fabric::host() {
            Some(_) => (1..=fabric::ports()).filter_map(Wire::open).collect(),
            None => Vec::new(),
        }
    }

    fn open(port: u8) -> Option<Wire> {
        let host = fabric::host()?;
        let link = Link::dial(&host.fabric).ok()?;
        let ask = Ask::OpenPackets {
            host: host.host.clone(),
            port: fabric::number_at(port),
        };
        link.ask(&ask).ok()?;
        // what it is from now on the connection tells
        if let Some(known) = fabric::port_at(port) {
            fabric::attached(port, &known.pkeys);
        }
        if fabric::adapter().is_some_and(|adapter| adapter.paced) {
            // with the usual buffer it would wait longer, no more
            let _ = link.keep_short(PACED_BYTES);
        }
        Some(Wire {
            link: Mutex::new(Some(Arc::new(link))),
            coming: Mutex::default(),
            port,
            new_pkeys: AtomicBool::new(false),
            link_state: AtomicU8::new(UNKNOWN),
            new_link: AtomicBool::new(false),
        })
    }

    /// Number of its port.
    pub fn port(&self) -> u8 {
        self.port
    }

    /// What the progress thread waits for.
    pub fn link(&self) -> Option<Arc<Link>> {
        lock(&self.link).clone()
    }

    /// Sends packets; `emit` writes each to the room that it gets, and says how long it is, or that
    /// there are no more. False if there was no room in time.
    pub fn send(&self, mut emit: impl FnMut(&mut [u8]) -> Option<usize>) -> bool {
        // to who is gone it is lost, and on a wire nobody hears of that
        let Some(link) = self.link() else { return true };
        let mut message = Vec::with_capacity(MESSAGE_BYTES + packet::PACKET_BYTES);
        let mut room = [0; packet::PACKET_BYTES];
        let mut sent = true;
        while let Some(length) = emit(&mut room) {
            packet::push(&mut message, &room[..length]);
            if message.len() >= MESSAGE_BYTES {
                sent &= put(&link, &message);
                message.clear();
            }
        }
        if !message.is_empty() {
            sent &= put(&link, &message);
        }
        sent
    }

    /// Takes the next message, if one is there; each packet in it is given to `take`. False if
    /// there was none.
    pub fn receive(&self, mut take: impl FnMut(&[u8])) -> bool {
        let Some(link) = self.link() else {
            return false;
        };
        let mut coming = lock(&self.coming);
        loop {
            match link.receive_piece(&mut coming) {
                Ok(Piece::Last) => break,
                Ok(Piece::More) => {}
                Ok(Piece::Nothing) => return false,
                Err(_) => {
                    *lock(&self.link) = None;
                    return false;
                }
            }
        }
        let message = std::mem::take(&mut *coming);
        drop(coming);
        match packet::packets(&message) {
            Ok(packets) => packets.for_each(&mut take),
            Err(_) => self.take_word(&message),
        }
        true
    }

    /// What the fabric says of the port.
    #[cold]
    fn take_word(&self, message: &[u8]) {
        match ask::parse(message) {
            Ok(Answer::PartitionKeys { keys }) if fabric::keep_pkeys(self.port, &keys) => {
                self.new_pkeys.store(true, Ordering::Relaxed);
            }
            Ok(Answer::PortState { active }) => {
                let state = if active { ACTIVE } else { DOWN };
                let before = self.link_state.swap(state, Ordering::Relaxed);
                fabric::forget_adapter();
                if before != state && before != UNKNOWN {
                    self.new_link.store(true, Ordering::Relaxed);
                }
            }
            _ => {}
        }
    }

    /// What there is to tell, once.
    pub fn news(&self) -> Option<News> {
        let (pkeys, link) = (&self.new_pkeys, &self.new_link);
        if !pkeys.load(Ordering::Relaxed) && !link.load(Ordering::Relaxed) {
            return None;
        }
        let active = link.swap(false, Ordering::Relaxed);
        Some(News {
            port: self.port,
            pkeys: pkeys.swap(false, Ordering::Relaxed),
            active: active.then(|| self.link_state.load(Ordering::Relaxed) == ACTIVE),
        })
    }

    /// Tells the port of a packet, LRH to DETH at least, that had another key than the queue pair
    /// which it was for. Nobody waits until there is room for that.
    #[cold]
    pub fn tell_wrong_key(&self, lost: Lost, packet: &[u8]) {
        let which = match lost {
            Lost::PKey => packet::Wrong::PKey,
            Lost::QKey => packet::Wrong::QKey,
            _ => return,
        };
        if let Some(link) = self.link() {
            let _ = link.send(&packet::wrong(which, packet), Duration::ZERO);
        }
    }
}

fn put(link: &Link, message: &[u8]) -> bool {
    !matches!(link.send(message, ROOM_PATIENCE), Err(AttachError::Late))
}
