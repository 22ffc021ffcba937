//! A stream that goes over and back arrives whole, whatever R has read by then, and whether R reads
//! SDP to its end or goes to the kernel's socket at once.

use super::*;
use proptest::prelude::*;
use std::collections::VecDeque;

/// W's stream is the numbers from 0 on: `before` by TCP, `inside` by SDP, `after` by TCP.
#[derive(Clone, Copy, Debug)]
struct Lengths {
    before: u64,
    inside: u64,
    after: u64,
}

/// What R reads, if it takes `steps[i]` bytes at most at a time, and leaves SDP after `leaves`
/// reads if W has gone back by then.
fn read(lengths: Lengths, copy_from: u64, steps: &[u64], leaves: usize) -> Vec<u64> {
    let Lengths {
        before,
        inside,
        after,
    } = lengths;
    let marks = Marks {
        offset: before,
        end: inside,
        copy_from,
    };
    let sdp: Vec<u64> = (before..before + inside).collect();
    let mut tcp: VecDeque<u64> = (0..before)
        .chain(before + copy_from..before + inside + after)
        .collect();
    let mut place = Place {
        from_tcp: 0,
        from_sdp: 0,
    };
    let mut out = Vec::new();
    // what R had read when W looked is read before W goes back
    let mut phase = Phase::Sdp;
    for at in 0.. {
        let step = steps[at % steps.len()].max(1);
        if place.from_tcp >= before && place.from_sdp >= copy_from {
            phase = Phase::Done;
        }
        if phase == Phase::Done && at >= leaves {
            let bytes = place.pass_over_now(&marks, inside.max(1));
            let bytes = bytes.expect("R's own reading is possible");
            out.extend(tcp.drain(..).skip(bytes as usize));
            return out;
        }
        let next = place.next(phase, &marks, inside, inside.max(1));
        match next.expect("W's marks are possible") {
            Next::Tcp { most } => {
                let many = step.min(most.unwrap_or(step)).min(tcp.len() as u64);
                if many == 0 {
                    return out;
                }
                out.extend(tcp.drain(..many as usize));
                place.from_tcp += many;
            }
            Next::Sdp { bytes } => {
                let many = step.min(bytes);
                let from = place.from_sdp as usize;
                out.extend(&sdp[from..from + many as usize]);
                place.from_sdp += many;
            }
            Next::Empty => phase = Phase::Done,
            Next::PassOver { bytes } => {
                let many = step.min(bytes);
                tcp.drain(..many as usize);
                place.from_tcp += many;
            }
        }
    }
    out
}

proptest! {
    #[test]
    fn the_stream_arrives_whole(
        before in 0_u64..40,
        inside in 0_u64..40,
        after in 0_u64..40,
        looked in 0_u64..40,
        steps in prop::collection::vec(1_u64..9, 1..6),
        leaves in 0_usize..40,
    ) {
        let lengths = Lengths { before, inside, after };
        let read = read(lengths, looked.min(inside), &steps, leaves);
        prop_assert_eq!(read, (0..before + inside + after).collect::<Vec<_>>());
    }

    #[test]
    fn any_words_of_the_peer_are_answered(
        from_tcp: u64, from_sdp: u64, offset: u64, end: u64, copy_from: u64, head: u64, buffer: u64,
        phase in 0_u32..5,
    ) {
        let place = Place { from_tcp, from_sdp };
        let marks = Marks { offset, end, copy_from };
        let phase = Phase::from_word(phase).expect("one of them");
        if let Ok(Next::Sdp { bytes }) = place.next(phase, &marks, head, buffer) {
            prop_assert!(bytes <= buffer);
        }
        let _ = place.pass_over_now(&marks, buffer);
    }
}
