//! Programs are run by an interpreter that reads them as the kernel does, and checked as the kernel
//! checks them.

use super::*;

/// Runs a program; loads beyond the packet return 0, as the kernel's do.
fn run(program: &[FilterStep], packet: &[u8]) -> u32 {
    let load = |offset: u32, bytes: usize| {
        let start = offset as usize;
        packet.get(start..start + bytes).map(|part| {
            part.iter()
                .fold(0u32, |value, &byte| value << 8 | u32::from(byte))
        })
    };
    let (mut a, mut at) = (0u32, 0usize);
    loop {
        let step = program[at];
        at += 1;
        let loaded = match step.code {
            LOAD_WORD => load(step.k, 4),
            LOAD_HALF => load(step.k, 2),
            LOAD_BYTE => load(step.k, 1),
            AND => Some(a & step.k),
            SHIFT_RIGHT => Some(a >> step.k),
            ALWAYS => {
                at += step.k as usize;
                continue;
            }
            EQUAL | AT_LEAST => {
                let holds = if step.code == EQUAL {
                    a == step.k
                } else {
                    a >= step.k
                };
                at += usize::from(if holds { step.jt } else { step.jf });
                continue;
            }
            RETURN => return step.k,
            code if code == RETURN_A.code => return a,
            code => panic!("no instruction {code:#x}"),
        };
        let Some(value) = loaded else { return 0 };
        a = value;
    }
}

/// What the kernel demands of a program: every jump stays inside, shifts are short, and it ends in
/// a return.
fn check(program: &[FilterStep], limit: usize) {
    assert!(program.len() <= limit, "{} of {limit}", program.len());
    for (at, step) in program.iter().enumerate() {
        let far = match step.code {
            ALWAYS => step.k as usize,
            EQUAL | AT_LEAST => usize::from(step.jt.max(step.jf)),
            SHIFT_RIGHT => {
                assert!(step.k < 32);
                0
            }
            _ => 0,
        };
        assert!(
            at + 1 + far < program.len() || matches!(step.code, RETURN | 0x16),
            "step {at} leaves"
        );
    }
    assert!(matches!(program.last().unwrap().code, RETURN | 0x16));
}

/// The seeded generator of these tests: splitmix64.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let x = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}

fn data(qpn: u32) -> Vec<u8> {
    let mut packet = vec![0x64; 28];
    packet[5..8].copy_from_slice(&qpn.to_be_bytes()[1..]);
    packet
}

fn mad(class: u8, attribute: u16, ids: [u32; 2], service: u64) -> Vec<u8> {
    let mut packet = vec![0xee; 20 + 256 + 4];
    packet[4..8].copy_from_slice(&1u32.to_be_bytes());
    packet[20 + 1] = class;
    packet[36..38].copy_from_slice(&attribute.to_be_bytes());
    packet[44..48].copy_from_slice(&ids[0].to_be_bytes());
    packet[48..52].copy_from_slice(&ids[1].to_be_bytes());
    packet[52..60].copy_from_slice(&service.to_be_bytes());
    packet
}

/// Blocks of a few owners, now close together, now far apart; sometimes a single number.
fn random_steering(dice: &mut Dice, most: u64) -> Steering {
    let owners = 1 + dice.below(9);
    let mut steering = Steering::default();
    let mut number = 256 * (1 + dice.below(4)) as u32;
    for _ in 0..dice.below(most) {
        let width = if dice.below(8) == 0 { 1 } else { 256 };
        steering
            .numbers
            .push((number, number + width, dice.below(owners) as u16));
        number += 256 * (1 + dice.below(3) * dice.below(3)) as u32;
    }
    for _ in 0..dice.below(most / 4 + 1) {
        let high = [0, 0, 1, 0x1000_0000, u64::from(u32::MAX)][dice.below(5) as usize];
        let low = [dice.below(1 << 32), 0x0106_0000 | dice.below(65536)][dice.below(2) as usize];
        steering
            .services
            .push((high << 32 | low, dice.below(owners) as u16));
    }
    for slot in 0..dice.below(most / 4 + 1) {
        steering
            .slots
            .push((slot as u32 * 3, dice.below(owners) as u16));
    }
    steering
}

#[test]
fn every_owned_number_service_and_slot_reaches_its_owner() {
    for seed in 0..300 {
        let mut dice = Dice(seed);
        let steering = random_steering(&mut dice, 120);
        let program = program(&steering, MAX_STEPS);
        check(&program, MAX_STEPS);
        for &(start, end, index) in &steering.numbers {
            for qpn in [
                start,
                start + dice.below(u64::from(end - start)) as u32,
                end - 1,
            ] {
                assert_eq!(
                    run(&program, &data(qpn)),
                    u32::from(index),
                    "seed {seed} qpn {qpn:#x}"
                );
            }
        }
        for (at, &(service, index)) in steering.services.iter().enumerate() {
            if steering.services[..at].iter().any(|s| s.0 == service) {
                continue;
            }
            for attribute in [0x10, 0x17] {
                let packet = mad(7, attribute, [dice.next() as u32; 2], service);
                assert_eq!(
                    run(&program, &packet),
                    u32::from(index),
                    "seed {seed} service {service:#x}"
                );
            }
        }
        for &(slot, index) in &steering.slots {
            let ours = slot << 20 | dice.below(1 << 20) as u32;
            let theirs = dice.next() as u32;
            for attribute in [0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x19, 0x1a] {
                let packet = mad(7, attribute, [theirs, ours], dice.next());
                assert_eq!(
                    run(&program, &packet),
                    u32::from(index),
                    "seed {seed} slot {slot}"
                );
            }
            let packet = mad(7, 0x18, [ours, theirs], dice.next());
            assert_eq!(
                run(&program, &packet),
                u32::from(index),
                "seed {seed} slot {slot}"
            );
        }
    }
}

#[test]
fn a_short_program_still_answers_rightly_for_the_widest_ranges() {
    for seed in 0..300 {
        let mut dice = Dice(1_000_000 + seed);
        let steering = random_steering(&mut dice, 1500);
        let limit = MIN_STEPS + dice.below(1000) as usize;
        let program = program(&steering, limit);
        check(&program, limit);
        let mut right = 0;
        for &(start, _, index) in &steering.numbers {
            let got = run(&program, &data(start));
            right += usize::from(got == u32::from(index));
            // A wrong answer is still one of the sockets or anybody.
            assert!(got < 9 || got == u32::from(ANYBODY), "seed {seed}: {got}");
        }
        // Half of the room at least goes to ranges, two steps each.
        let fit = (limit / 2).saturating_sub(40) / 2;
        assert!(
            right >= fit.min(steering.numbers.len()),
            "seed {seed}: {right} of {fit}"
        );
    }
}

#[test]
fn probes_go_where_they_say_and_other_management_to_anybody() {
    let steering = random_steering(&mut Dice(5), 50);
    let program = program(&steering, 1000);
    for index in [0u32, 1, 77, 0xffff] {
        let mut packet = data(0);
        packet[8..12].copy_from_slice(&(0xab_0000 | index).to_be_bytes());
        assert_eq!(run(&program, &packet), index);
    }
    // Attribute 0x10 of the subnet administrator's class is no connection request.
    assert_eq!(run(&program, &mad(3, 0x10, [0; 2], 0)), u32::from(ANYBODY));
}

#[test]
fn nobody_listening_and_nobody_there_are_anybody() {
    let program = program(&Steering::default(), 0);
    check(&program, MIN_STEPS);
    for packet in [
        data(0x123),
        data(0xff_ffff),
        mad(7, 0x10, [0; 2], 0x0106_1234),
        mad(7, 0x13, [0; 2], 0),
    ] {
        assert_eq!(run(&program, &packet), u32::from(ANYBODY));
    }
}

#[test]
fn runts_go_to_the_first_socket_whatever_is_missing() {
    let mut dice = Dice(9);
    let program = program(&random_steering(&mut dice, 80), MAX_STEPS);
    for length in 0..8 {
        assert_eq!(run(&program, &data(0x101)[..length]), 0);
    }
    for length in 8..60 {
        let packet = mad(7, 0x10, [0; 2], 1);
        let got = run(&program, &packet[..length]);
        assert_eq!(got, 0, "{length}");
    }
    for _ in 0..10_000 {
        let bytes: Vec<u8> = (0..dice.below(80)).map(|_| dice.next() as u8).collect();
        let got = run(&program, &bytes);
        // Only a probe may name a socket that does not exist, and the kernel then takes its hash.
        let probe = bytes.len() >= 8 && bytes[5..8] == [0; 3];
        assert!(probe || got < 9 || got == u32::from(ANYBODY));
    }
}

#[test]
fn neighbouring_blocks_of_one_owner_cost_nothing() {
    let many = Steering {
        numbers: (1..1000)
            .map(|block| (block * 256, block * 256 + 256, 3))
            .collect(),
        ..Steering::default()
    };
    let one = Steering {
        numbers: vec![(256, 256_000, 3)],
        ..Steering::default()
    };
    assert_eq!(program(&many, MAX_STEPS), program(&one, MAX_STEPS));
}

#[test]
fn of_overlapping_ranges_the_first_has_the_common_part() {
    let steering = Steering {
        numbers: vec![(300, 400, 2), (256, 350, 1), (390, 395, 3)],
        ..Steering::default()
    };
    let program = program(&steering, 1000);
    let got = [256, 299, 349, 350, 392, 399].map(|qpn| run(&program, &data(qpn)));
    assert_eq!(got, [1, 1, 1, 2, 2, 2]);
}
