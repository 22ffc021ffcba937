//! A process on packets that comes late: it was stopped, or ends without a word. Nobody is taken for dead who has answered.
#![allow(clippy::unwrap_used)]

mod common;

use std::time::{Duration, Instant};

use common::party::*;
use common::process::{self, Channel, Child};
use ferriband_hca::*;
use ferriband_transport::types::*;

#[test]
fn child_entry() {
    process::run_role(&[("obey", obey), ("last", last_role)]);
}

/// 4.096 us << 18: a second for each try.
const SECONDS: Setup = Setup {
    len: 64 << 10,
    ..PATIENT
};
const TRY: Duration = Duration::from_millis(1074);

on_packets!(
    who_was_stopped_reads_what_has_arrived_before_it_takes_a_peer_for_dead,
    {
        let once = Setup {
            retry: 0,
            ..SECONDS
        };
        // the stopped one has asked a third process, which is stopped before that
        let mut asked = Pair::alike(Party::there(), Party::there(), once);
        asked.exchange();
        asked.b.child().stop();
        let ask = Ask::new(SendOpcode::RdmaWrite, 8, &asked.bi);
        asked
            .a
            .start_stream(&asked.ai, &ask, 1, Duration::from_millis(1));
        // it has posted as soon as it is given the processor; it must not be stopped before
        std::thread::sleep(Duration::from_millis(300));
        let begin = Instant::now();
        asked.a.child().stop();
        // many packets lie before the answer in its socket
        let mut here = Party::here();
        for _ in 0..40 {
            let mine = here.make(SECONDS);
            send_to_nobody(&mut here, &mine, &asked.ai);
        }
        asked.b.child().resume();
        while begin.elapsed() < TRY + Duration::from_millis(300) {
            std::thread::sleep(Duration::from_millis(10));
        }
        asked.a.child().resume();
        let flow = asked.a.end_stream();
        assert_eq!((flow.done, flow.status), (1, None), "{flow:?}");
    }
);

/// Sends towards a process, to a queue pair that it does not have (of the same block of numbers): it lies in its socket.
fn send_to_nobody(here: &mut Party, mine: &Info, of: &Info) {
    let nobody = Info {
        qpn: of.qpn ^ 0x80,
        ..*of
    };
    here.connect(mine, &nobody);
    here.post(mine, &Ask::new(SendOpcode::RdmaWrite, 64, &nobody));
}

on_packets!(
    a_process_that_ends_without_destroying_anything_has_acknowledged_what_it_received,
    {
        // acknowledgements wait for replies once these have come at once; the last has no reply, and then the process ends
        for _ in 0..10 {
            let setup = Setup {
                timeout: 14,
                retry: 7,
                ..SECONDS
            };
            let end = Endpoint::new(&Context::open(0).unwrap(), setup).unwrap();
            let child = Child::spawn("last");
            child.channel.send(&[u64::from(end.qp.qpn)]);
            let qpn = child.channel.recv()[0] as u32;
            end.connect(qpn, 0).unwrap();
            child.channel.send(&[]);
            let peer = Info {
                qpn,
                ..Info::default()
            };
            for round in 0..=REPLIES {
                end.recv(round, 0, 64, None).unwrap();
                end.post(&Ask::new(SendOpcode::Send, 8, &peer).id(1 << 32 | round))
                    .unwrap();
                let completions = if round < REPLIES { 2 } else { 1 };
                for _ in 0..completions {
                    let got = end.wait();
                    assert_eq!(got.status, 0, "{got:?} in round {round}");
                }
            }
        }
    }
);

/// Messages that are answered; one more is not.
const REPLIES: u64 = 50;

fn last_role(channel: Channel) {
    let words = channel.recv();
    let end = Endpoint::new(&Context::open(0).unwrap(), SECONDS).unwrap();
    end.connect(words[0] as u32, 0).unwrap();
    for round in 0..8 {
        end.recv(round, 0, 64, None).unwrap();
    }
    channel.send(&[u64::from(end.qp.qpn)]);
    channel.recv();
    let mut answered = 0;
    loop {
        let Some(got) = end.wait_for(common::PATIENCE) else {
            return;
        };
        assert_eq!(got.status, 0);
        if got.wr_id >> 32 == 1 {
            continue;
        }
        if answered == REPLIES {
            // the role ends the process by exit; nothing is destroyed
            std::mem::forget(end);
            return;
        }
        answered += 1;
        end.recv(answered, 0, 64, None).unwrap();
        end.post(&Ask::new(SendOpcode::Send, 8, &Info::default()).id(1 << 32 | answered))
            .unwrap();
    }
}
