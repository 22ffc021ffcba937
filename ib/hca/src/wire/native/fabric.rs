//! Whole packets, LRH to VCRC, to and from the live fabric that this host is in.
//!
//! Owns the connection to the fabric's process. Must not know what packets say. What comes is a
//! stranger's.

use std::sync::atomic::{AtomicBool, Ordering};
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
    /// The P_Key table has changed since somebody asked.
    new_pkeys: AtomicBool,
}

impl Wire {
    /// Attaches to the fabric; None on this machine itself, and where the fabric is not there.
    pub fn open() -> Option<Wire> {
        let host = fabric::host()?;
        let link = Link::dial(&host.fabric).ok()?;
        let ask = Ask::OpenPackets {
            host: host.host.clone(),
            port: fabric::number(),
        };
        link.ask(&ask).ok()?;
        // what it is from now on the connection tells
        if let Some(port) = fabric::port() {
            fabric::attached(&port.pkeys);
        }
        if fabric::adapter().is_some_and(|adapter| adapter.paced) {
            // with the usual buffer it would wait longer, no more
            let _ = link.keep_short(PACED_BYTES);
        }
        Some(Wire {
            link: Mutex::new(Some(Arc::new(link))),
            coming: Mutex::default(),
            new_pkeys: AtomicBool::new(false),
        })
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
        if let Ok(packets) = packet::packets(&message) {
            packets.for_each(&mut take);
        } else if let Ok(Answer::PartitionKeys { keys }) = ask::parse(&message)
            && fabric::keep_pkeys(&keys)
        {
            self.new_pkeys.store(true, Ordering::Relaxed);
        }
        true
    }

    /// True once after the P_Key table has changed.
    pub fn has_new_pkeys(&self) -> bool {
        self.new_pkeys.load(Ordering::Relaxed) && self.new_pkeys.swap(false, Ordering::Relaxed)
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
