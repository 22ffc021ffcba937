use super::message::{attributes_in, messages};
use super::*;

const PORT: u32 = 4711;
const SEQUENCE: u32 = 99;

/// A request with attributes that are numbers of four bytes.
fn request(kind: u16, flags: u16, numbers: &[(u16, u32)]) -> Vec<u8> {
    let header = Header {
        kind,
        flags: flags | message::REQUEST,
        sequence: SEQUENCE,
    };
    let message = Message::new(&header, header.flags, 0);
    numbers
        .iter()
        .fold(message, |message, (kind, value)| message.u32(*kind, *value))
        .finished()
}

/// The types of the answers and their attributes.
type Answer<'a> = (Header, Vec<(u16, &'a [u8])>);

fn parsed(bytes: &[u8]) -> Vec<Answer<'_>> {
    messages(bytes)
        .map(|(header, whole)| {
            assert_eq!(header.sequence, SEQUENCE);
            assert_eq!(whole[12..16], PORT.to_ne_bytes(), "the receiver's port");
            (header, attributes(whole).collect())
        })
        .collect()
}

fn value<'a>(attributes: &[(u16, &'a [u8])], kind: u16) -> Option<&'a [u8]> {
    attributes.iter().find(|one| one.0 == kind).map(|one| one.1)
}

/// The error of the only answer.
fn error_of(sent: &[u8]) -> i32 {
    let answers = answers(sent, PORT);
    let all: Vec<_> = messages(&answers).collect();
    assert_eq!(all.len(), 1, "{all:?}");
    let (header, whole) = &all[0];
    assert_eq!(header.kind, 2, "NLMSG_ERROR");
    assert_eq!(&whole[20..], sent, "the whole request follows");
    i32::from_ne_bytes(*whole[16..].first_chunk().expect("an error"))
}

#[test]
fn a_dump_has_every_device_and_an_end() {
    let bytes = answers(
        &request(command::GET, message::DUMP | message::ACK, &[]),
        PORT,
    );
    let all = parsed(&bytes);
    let (end, devices) = all.split_last().expect("an end");
    assert_eq!((end.0.kind, end.0.flags), (3, message::MULTI), "NLMSG_DONE");
    assert_eq!(devices.len(), device::all().len());
    for ((header, attributes), device) in devices.iter().zip(device::all()) {
        let info = device.info();
        assert_eq!((header.kind, header.flags), (command::GET, message::MULTI));
        let name = value(attributes, attr::DEV_NAME).expect("a name");
        assert_eq!(name.strip_suffix(b"\0"), Some(info.name.as_bytes()));
        let guid = value(attributes, attr::NODE_GUID).expect("a GUID");
        assert_eq!(guid, info.guid.0.to_ne_bytes());
        let protocol = value(attributes, attr::DEV_PROTOCOL).expect("a protocol");
        let ethernet = info.link_layer == LinkLayer::Ethernet;
        assert_eq!(protocol, if ethernet { &b"roce\0"[..] } else { b"ib\0" });
    }
}

#[test]
fn a_port_says_what_its_link_layer_has() {
    for device in device::all() {
        let info = device.info();
        let numbers = [(attr::DEV_INDEX, info.index as u32), (attr::PORT_INDEX, 1)];
        let bytes = answers(&request(command::PORT_GET, message::ACK, &numbers), PORT);
        let all = parsed(&bytes);
        let [(_, port), (acknowledged, _)] = &all[..] else {
            panic!("{all:?}");
        };
        assert_eq!(acknowledged.kind, 2, "NLMSG_ERROR with 0");
        let ethernet = info.link_layer == LinkLayer::Ethernet;
        for kind in [attr::LID, attr::SUBNET_PREFIX, attr::CAP_FLAGS] {
            assert_eq!(value(port, kind).is_some(), !ethernet, "{kind}");
        }
        let interface = value(port, attr::NDEV_NAME).and_then(|name| name.strip_suffix(b"\0"));
        assert_eq!(interface.is_some(), ethernet);
        assert_eq!(interface.unwrap_or_default(), info.interface.as_bytes());
    }
}

#[test]
fn counters_are_those_of_hw_counters() {
    let ethernet = device::all().iter().find(|device| is_ethernet(device));
    let Some(device) = ethernet else {
        return;
    };
    let index = device.info().index as u32;
    let numbers = [(attr::DEV_INDEX, index), (attr::PORT_INDEX, 1)];
    let bytes = answers(&request(command::STAT_GET, 0, &numbers), PORT);
    let all = parsed(&bytes);
    let table = value(&all[0].1, attr::STAT_HWCOUNTERS).expect("a table");
    let names: Vec<_> = attributes_in(table)
        .map(|(kind, entry)| {
            assert_eq!(kind, attr::STAT_HWCOUNTER_ENTRY);
            let entry: Vec<_> = attributes_in(entry).collect();
            let number = value(&entry, attr::STAT_HWCOUNTER_ENTRY_VALUE).expect("a value");
            assert_eq!(number.len(), 8);
            value(&entry, attr::STAT_HWCOUNTER_ENTRY_NAME).expect("a name")
        })
        .collect();
    let wanted = Counter::ALL.into_iter().filter(|one| !one.is_standard());
    let wanted: Vec<String> = wanted.map(|one| format!("{}\0", one.name())).collect();
    assert_eq!(
        names,
        wanted.iter().map(String::as_bytes).collect::<Vec<_>>()
    );
}

#[test]
fn the_system_says_that_forks_need_nothing() {
    let bytes = answers(&request(command::SYS_GET, 0, &[]), PORT);
    let all = parsed(&bytes);
    assert_eq!(all.len(), 1, "nobody asked for an acknowledgement: {all:?}");
    assert_eq!(value(&all[0].1, attr::SYS_COPY_ON_FORK), Some(&[1][..]));
}

#[test]
fn what_is_not_there_is_refused() {
    let beyond = device::all().len() as u32;
    let (device, port) = ((attr::DEV_INDEX, 0), (attr::PORT_INDEX, 1));
    let no_device = (attr::DEV_INDEX, beyond);
    let invalid: [(u16, &[(u16, u32)]); 7] = [
        (command::GET, &[]),
        (command::GET, &[no_device]),
        (command::PORT_GET, &[device]),
        (command::PORT_GET, &[port]),
        (command::PORT_GET, &[device, (attr::PORT_INDEX, 0)]),
        (command::PORT_GET, &[device, (attr::PORT_INDEX, 257)]),
        (command::PORT_GET, &[no_device, port]),
    ];
    for (kind, numbers) in invalid {
        assert_eq!(
            error_of(&request(kind, 0, numbers)),
            -libc::EINVAL,
            "{kind} {numbers:?}"
        );
    }
    // RES_GET, SET, a command that no kernel has, another client
    for kind in [NLDEV | 9, NLDEV | 2, NLDEV | 500, (2 << 10) | 1] {
        for flags in [0, message::DUMP, message::ACK] {
            assert_eq!(
                error_of(&request(kind, flags, &[device])),
                -libc::EOPNOTSUPP
            );
        }
    }
    let of_queue_pairs = [device, port, (attr::STAT_RES, 1)];
    assert_eq!(
        error_of(&request(command::STAT_GET, 0, &of_queue_pairs)),
        -libc::EOPNOTSUPP
    );
}

#[test]
fn several_requests_are_answered_in_order_and_broken_ones_not_at_all() {
    let one = request(command::SYS_GET, message::ACK, &[]);
    let two = request(NLDEV | 2, 0, &[(attr::DEV_INDEX, 0)]);
    let bytes = answers(&[one.clone(), two.clone()].concat(), PORT);
    let kinds: Vec<u16> = messages(&bytes).map(|(header, _)| header.kind).collect();
    assert_eq!(kinds, [command::SYS_GET, 2, 2]);
    for length in 0..one.len() {
        assert!(answers(&one[..length], PORT).is_empty(), "{length} bytes");
    }
    // a length of zero must not go round for ever; attributes that are cut are not there
    let mut zero = one.clone();
    zero[..4].fill(0);
    assert!(answers(&zero, PORT).is_empty());
    let mut cut = request(command::GET, 0, &[(attr::DEV_INDEX, 0)]);
    for length in [0_u16, 3, 4, 9, u16::MAX] {
        cut[16..18].copy_from_slice(&length.to_ne_bytes());
        assert_eq!(error_of(&cut), -libc::EINVAL, "{length}");
    }
}
