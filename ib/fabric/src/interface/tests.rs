//! Two interfaces and a wire between them that loses what it is told to.

use super::*;
use proptest::prelude::*;

const CLASS: ManagementClass = ManagementClass::SUBN_ADM;

fn long_message(length: usize) -> Vec<u8> {
    let mut message = vec![0; 56];
    MadHeader::new(
        CLASS,
        Method::GET_TABLE_RESP,
        ferriband_wire::mad::AttributeId(0x11),
        ferriband_wire::TransactionId(0),
    )
    .emit(&mut message)
    .unwrap();
    message[24..27].copy_from_slice(&[1, 1, 1]);
    message.extend((0..length).map(|at| (at % 253) as u8));
    message
}

fn agent(plain: bool) -> Wanted {
    Wanted {
        class: CLASS,
        version: 2,
        oui: 0,
        methods: 0,
        rmpp: true,
        plain,
    }
}

proptest! {
    /// Whatever is lost, a message comes whole, once, or its sender hears of it.
    #[test]
    fn a_long_message_survives_losses(
        length in 0_usize..30_000,
        lost in proptest::collection::btree_set(0_usize..400, 0..12),
    ) {
        let (mut a, mut b) = (Interface::new(), Interface::new());
        let sender = a.register(agent(true)).unwrap();
        let receiver = b.register(agent(true)).unwrap();
        let mut message = long_message(length);
        message[8..12].copy_from_slice(&receiver.0.to_be_bytes());
        let (here, there) = (
            Far { lid: Lid(1), ..Far::default() },
            Far { lid: Lid(2), ..Far::default() },
        );
        a.send(Time(0), sender, there, &message, Time(0), 0).unwrap();
        let (mut now, mut count, mut came) = (Time(0), 0, Vec::new());
        let mut failed = false;
        for _ in 0..100_000 {
            let mut quiet = true;
            while let Some(sent) = a.poll_transmit() {
                count += 1;
                quiet = false;
                if !lost.contains(&count) {
                    b.receive(now, here, &sent.mad);
                }
            }
            while let Some(sent) = b.poll_transmit() {
                count += 1;
                quiet = false;
                if !lost.contains(&count) {
                    a.receive(now, there, &sent.mad);
                }
            }
            while let Some(delivery) = b.poll_deliver() {
                came.push(delivery.bytes);
            }
            failed |= a.poll_deliver().is_some_and(|delivery| delivery.timed_out);
            if quiet {
                let Some(due) = a.poll_timeout().into_iter().chain(b.poll_timeout()).min() else { break };
                now = due;
                a.handle_timeout(now);
                b.handle_timeout(now);
            }
        }
        prop_assert!(came.len() == 1 || failed, "{} came", came.len());
        if let Some(bytes) = came.first() {
            prop_assert_eq!(&bytes[56..], &message[56..]);
        }
        prop_assert!(a.poll_timeout().is_none() && b.poll_timeout().is_none());
    }

    #[test]
    fn any_bytes_are_taken(
        mads in proptest::collection::vec(proptest::collection::vec(any::<u8>(), MAD_LEN), 1..40),
        class in prop::sample::select(vec![0x01_u8, 0x03, 0x04, 0x10, 0x32, 0x81]),
    ) {
        let mut own = Interface::new();
        let mut ids = Vec::new();
        for class in [1, 3, 4, 0x32] {
            let wanted = Wanted { class: ManagementClass(class), version: 1, methods: u128::MAX, ..agent(false) };
            ids.push(own.register(wanted).unwrap());
        }
        for (number, bytes) in mads.into_iter().enumerate() {
            let mut mad: [u8; MAD_LEN] = bytes.try_into().unwrap();
            mad[..3].copy_from_slice(&[1, class, 1]);
            if number % 2 == 0 {
                mad[8..16].copy_from_slice(&[0, 0, 0, ids[1].0 as u8, 0, 0, 0, 1]);
                let flags = 1 | mad[26] & 6;
                mad[24..27].copy_from_slice(&[1, 1, flags]);
            }
            own.receive(Time(number as u64), Far::default(), &mad);
            let _ = own.send(Time(0), ids[number % 4], Far::default(), &mad[..number % 256], Time(5), 1);
        }
        own.handle_timeout(Time::NEVER);
        while own.poll_deliver().is_some() {}
        while own.poll_transmit().is_some() {}
    }
}

#[test]
fn long_messages_that_have_come_keep_no_new_one_out() {
    // as many answers one after another as a program that asks and asks gets, within a moment
    let mut own = Interface::new();
    let wanted = Wanted {
        plain: true,
        ..agent(true)
    };
    let id = own.register(wanted).unwrap();
    for number in 0..3 * MOST_COMING as u32 {
        let mut mad = [0; MAD_LEN];
        mad[..4].copy_from_slice(&[1, 3, 2, 0x92]);
        mad[8..12].copy_from_slice(&id.0.to_be_bytes());
        mad[12..16].copy_from_slice(&number.to_be_bytes());
        // the first segment and the last, with 20 bytes of the class's head and 8 of data
        mad[24..36].copy_from_slice(&[1, 1, 7, 0, 0, 0, 0, 1, 0, 0, 0, 28]);
        own.receive(Time(u64::from(number)), Far::default(), &mad);
        let delivery = own.poll_deliver().expect("it is whole");
        assert_eq!(delivery.bytes.len(), 64, "number {number}");
    }
}
