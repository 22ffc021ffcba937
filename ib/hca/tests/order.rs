//! The last byte of an RDMA WRITE between processes comes last, whatever the memory (invariant I4): a receiver that polls it finds
//! all others there. Both sides look at their memory only, as the fast paths of message libraries do.
#![allow(clippy::unwrap_used)]

mod common;

use common::endpoint::{Ask, Endpoint, Info, Setup};
use common::memory::Kind;
use common::process::{self, Channel, Child};
use common::{PATIENCE, rounds};
use ferriband_hca::Context;
use ferriband_transport::types::SendOpcode;
use std::time::{Duration, Instant};

/// Sizes of messages: one piece, pieces of the ring, one call, many pages.
const SIZES: [usize; 10] = [1, 8, 13, 64, 200, 1024, 2047, 4096, 9000, 65_536];
/// Where the word lies that acknowledges a round, behind all messages.
const ACK: usize = 72 << 10;
const LEN: usize = 76 << 10;
/// How long each kind of memory is tried.
const TIME: Duration = Duration::from_millis(300);

/// Offset and length of a round's message.
fn plan(round: u64) -> (usize, usize) {
    let sizes = SIZES.len() as u64;
    (
        (round / sizes % 8) as usize,
        SIZES[(round % sizes) as usize],
    )
}

/// The byte of a round's message. The 80 messages of a period end in bytes that younger ones have written since.
fn stamp(round: u64) -> u8 {
    (round % 251 + 1) as u8
}

fn setup(memory: Kind) -> Setup {
    Setup {
        memory,
        len: LEN,
        ..Setup::default()
    }
}

fn info(words: &[u64]) -> Info {
    Info {
        at: 0,
        qpn: words[0] as u32,
        addr: words[1],
        key: words[2] as u32,
        lid: words[3] as u16,
    }
}

fn words(end: &Endpoint) -> Vec<u64> {
    let info = end.info(0);
    let (qpn, key, lid) = (info.qpn.into(), info.key.into(), info.lid.into());
    vec![qpn, info.addr, key, lid]
}

/// Waits until a byte of the own memory has a value; now and then looks at the completion queue, as a program does.
fn poll_byte(end: &Endpoint, at: usize, value: u8) {
    let begin = Instant::now();
    loop {
        for _ in 0..256 {
            if end.memory.byte(at) == value {
                return;
            }
        }
        if let Some(got) = end.poll() {
            assert_eq!(got.status, 0);
        }
        assert!(begin.elapsed() < PATIENCE, "byte {at} never became {value}");
        std::thread::yield_now();
    }
}

/// The receiver: acknowledges every round with the round's stamp, and with the number of bytes that were missing.
fn receiver(channel: Channel) {
    let first = channel.recv();
    if first[1] != 0 {
        // SAFETY: a flag of this process.
        assert_eq!(unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 0) }, 0);
    }
    let ctx = Context::open(0).unwrap();
    let end = Endpoint::new(&ctx, setup(Kind::from_word(first[0]))).unwrap();
    channel.send(&words(&end));
    let peer = info(&channel.recv());
    end.connect(peer.qpn, peer.lid).unwrap();
    channel.send(&[]);
    for round in 0.. {
        let (off, len) = plan(round);
        let (last, value) = (off + len - 1, stamp(round));
        poll_byte(&end, last, value);
        let torn = (off..last).rev().any(|at| end.memory.byte(at) != value);
        end.memory.set(ACK, u8::from(torn));
        end.memory.set(ACK + 1, value);
        let ack = Ask {
            from: ACK,
            addr: peer.addr + ACK as u64,
            ..Ask::new(SendOpcode::RdmaWrite, 2, &peer)
        };
        end.post(&ack).unwrap();
        assert_eq!(end.wait().status, 0);
        if channel_is_over(&channel, round) {
            return;
        }
    }
}

/// Every 64 rounds the sender says whether there will be more.
fn channel_is_over(channel: &Channel, round: u64) -> bool {
    round % 64 == 63 && channel.try_recv().is_none_or(|more| more == [0])
}

/// Messages without which a run says nothing.
const ENOUGH: u64 = 320;

/// Sends for a while; gives the rounds and how many messages were torn.
fn send(memory: Kind, forbidden: bool) -> (u64, u64) {
    let child = Child::spawn_ordinary("receiver");
    child.channel.send(&[memory as u64, forbidden.into()]);
    let peer = info(&child.channel.recv());
    let ctx = Context::open(0).unwrap();
    let end = Endpoint::new(&ctx, setup(memory)).unwrap();
    child.channel.send(&words(&end));
    child.channel.recv();
    end.connect(peer.qpn, peer.lid).unwrap();
    let (begin, mut torn) = (Instant::now(), 0);
    for round in 0.. {
        let (off, len) = plan(round);
        end.memory.fill(off, len, stamp(round));
        let write = Ask {
            from: off,
            addr: peer.addr + off as u64,
            ..Ask::new(SendOpcode::RdmaWrite, len as u32, &peer)
        };
        end.post(&write).unwrap();
        assert_eq!(end.wait().status, 0);
        poll_byte(&end, ACK + 1, stamp(round));
        torn += u64::from(end.memory.byte(ACK));
        if round % 64 == 63 {
            // on a busy machine it takes longer until enough were looked at
            let more = round + 1 < ENOUGH || begin.elapsed() < TIME * rounds(1) as u32;
            child.channel.send(&[more.into()]);
            if !more {
                end.close();
                return (round + 1, torn);
            }
        }
    }
    unreachable!()
}

#[test]
fn child_entry() {
    process::run_role(&[("receiver", receiver)]);
}

#[test]
fn the_last_byte_of_a_write_comes_last_in_every_kind_of_memory() {
    for (memory, forbidden) in [
        (Kind::Private, false),
        (Kind::Shared, false),
        (Kind::Device, false),
        (Kind::Private, true),
    ] {
        let (count, torn) = send(memory, forbidden);
        println!("{memory:?}, forbidden {forbidden}: {count} messages");
        assert_eq!(torn, 0, "{memory:?}, {count} messages");
    }
}
