//! Congestion control by service level, which a manager may ask for instead of queue pairs.

use super::tests::*;
use super::*;
use crate::congestion::{Marking, Scope, Throttle};
use crate::host::Pace;
use crate::switch::{Buffering, Pick};
use std::sync::Arc;

#[test]
fn an_index_of_a_service_level_holds_up_all_that_a_host_sends_on_it_and_nothing_else() {
    // B and C fill r; B sends to q, which is free, besides
    let beside = |scope: Scope, sl: u8| {
        let settings = Settings {
            switch: SwitchModel {
                marking: Some(Marking {
                    threshold_blocks: 330,
                    marking_rate: 3,
                    smallest_bytes: 64,
                }),
                ..model(Buffering::VirtualOutput, Pick::RoundRobin)
            },
            ..Settings::default()
        };
        let mut net = net(&figure_12(), settings);
        let throttle = Arc::new(Throttle {
            table: Throttle::even(128, 1),
            increase: 40,
            timer: Time::from_us(60),
            minimum: 0,
            scope,
        });
        for node in [B, C] {
            net.adapter_mut(node).unwrap().set_throttle(&throttle);
            net.add_flow(node, saturated(LID_R));
        }
        let pace = Pace::Every(FlowSpec::gap(&SDR, LENGTH, 0.4));
        let spec = FlowSpec {
            sl,
            pace,
            ..half(LID_Q)
        };
        assert_eq!(net.add_flow(B, spec), Some(1));
        net.run_until(Time::from_us(6_000));
        net.begin();
        let mut most = [0; 2];
        for until in (6_100..=36_000).step_by(100) {
            net.run_until(Time::from_us(until));
            let now = net.now();
            let adapter = net.adapter_mut(B).unwrap();
            let indices = [0, 1].map(|flow| adapter.ccti(now, flow));
            if scope == Scope::ServiceLevel && sl == 0 {
                assert_eq!(indices[0], indices[1], "it is one");
            }
            for (most, index) in most.iter_mut().zip(indices) {
                *most = index.max(*most);
            }
        }
        (net.share(B, 0), net.share(B, 1), most)
    };
    for (scope, sl) in [(Scope::QueuePair, 0), (Scope::ServiceLevel, 1)] {
        let (full, free, [own, other]) = beside(scope, sl);
        println!("{scope:?}: {full:.3} {free:.3}, {own} {other}");
        close("to q", free, 0.4, 0.02);
        assert!(own > 0 && other == 0, "{scope:?}: {own} {other}");
    }
    let (full, free, [own, other]) = beside(Scope::ServiceLevel, 0);
    println!("both on one level: {full:.3} {free:.3}, {own} {other}");
    assert!(own > 0 && free < 0.35, "{own} {other} {free}");
}
