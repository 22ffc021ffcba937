//! What interfaces make of devices and tables.

use super::*;
use ferriband_memory::net::NetAddress;

fn interface(ifindex: u32, name: &str, addresses: &[&str]) -> Netdev {
    Netdev {
        ifindex,
        name: name.into(),
        mac: Some([2, 0, 0, 0, 0, ifindex as u8]),
        mtu: 1500,
        up: true,
        loopback: name == "lo",
        speed_mbps: Some(10_000),
        carrier: true,
        addresses: addresses
            .iter()
            .map(|text| NetAddress {
                ip: text.parse().unwrap(),
                prefix: 24,
                scope: 0,
                usable: true,
            })
            .collect(),
    }
}

fn names(list: &[DeviceInfo]) -> Vec<&str> {
    list.iter().map(|info| info.name.as_str()).collect()
}

#[test]
fn the_native_device_comes_first_then_usable_interfaces_by_index() {
    let down = Netdev {
        up: false,
        ..interface(3, "eth1", &["10.0.0.9"])
    };
    let list = plan(
        &[
            interface(4, "eth2", &["10.0.2.1"]),
            interface(1, "lo", &["127.0.0.1", "::1"]),
            interface(2, "eth0", &["10.0.0.1"]),
            down,
            interface(5, "empty", &[]),
        ],
        None,
        Guid(7),
        &Config::default(),
    );
    assert_eq!(names(&list), ["ferri0", "ferri_eth0", "ferri_eth2"]);
    assert_eq!(
        list.iter().map(|info| info.index).collect::<Vec<_>>(),
        [0, 1, 2]
    );
    assert_eq!(list[1].guid, Guid(0x0000_00ff_fe00_0002));
}

#[test]
fn names_choose_and_order_and_may_name_what_is_not_usable_by_itself() {
    let interfaces = [
        interface(1, "lo", &["127.0.0.1"]),
        interface(2, "eth0", &["10.0.0.1"]),
    ];
    let list = plan(
        &interfaces,
        Some("ferri_lo, ferri0,ferri_none,nonsense"),
        Guid(7),
        &Config::default(),
    );
    assert_eq!(names(&list), ["ferri_lo", "ferri0"]);
}

fn config(text: &str) -> Config {
    Config::parse(text).unwrap()
}

#[test]
fn the_file_names_replaces_and_switches_off_devices() {
    let interfaces = [
        interface(1, "lo", &["127.0.0.1"]),
        interface(2, "eth0", &["10.0.0.1"]),
        interface(3, "eth1", &["10.0.1.1"]),
        interface(4, "eth2", &["10.0.2.1"]),
    ];
    let file = config(
        "[device.ferri_eth0]\nenabled = false\n[device.storage]\ninterface = \"eth1\"\nmtu = 512\n\
         [device.also]\ninterface = \"eth1\"\n[device.loop]\ninterface = \"lo\"\n\
         [device.absent]\ninterface = \"eth9\"\n",
    );
    let list = plan(&interfaces, None, Guid(7), &file);
    assert_eq!(
        names(&list),
        ["ferri0", "loop", "also", "storage", "ferri_eth2"]
    );
    assert_eq!(list[3].settings.mtu, Some(512));
    assert_ne!(list[2].guid, list[3].guid);
    assert_eq!(list[2].interface, "eth1");
    // names choose among them; what was switched off is there for who names it
    let named = plan(
        &interfaces,
        Some("storage,ferri_eth0,absent"),
        Guid(7),
        &file,
    );
    assert_eq!(names(&named), ["storage", "ferri_eth0"]);
    let without = plan(
        &interfaces,
        None,
        Guid(7),
        &config("[device.ferri0]\nenabled = false\n"),
    );
    assert_eq!(names(&without), ["ferri_eth0", "ferri_eth1", "ferri_eth2"]);
}

#[test]
fn addresses_keep_their_place_in_the_table() {
    let parse = |texts: &[&str]| -> Vec<IpAddr> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    };
    let mut gids = Vec::new();
    update(&mut gids, &parse(&["2001:db8::1", "10.0.0.1", "fe80::1"]));
    assert_eq!(
        gids.iter().flatten().copied().collect::<Vec<_>>(),
        parse(&["fe80::1", "10.0.0.1", "2001:db8::1"])
    );
    update(&mut gids, &parse(&["2001:db8::1", "fe80::1"]));
    assert_eq!(gids[1], None);
    update(
        &mut gids,
        &parse(&["2001:db8::1", "fe80::1", "10.0.0.2", "10.0.0.3"]),
    );
    assert_eq!(
        gids.iter().flatten().copied().collect::<Vec<_>>(),
        parse(&["fe80::1", "10.0.0.2", "2001:db8::1", "10.0.0.3"])
    );
}

#[test]
fn the_mtu_leaves_room_for_all_headers() {
    assert_eq!(mtu_of(1500), Some(Mtu::M1024));
    assert_eq!(mtu_of(4096 + 88), Some(Mtu::M4096));
    assert_eq!(mtu_of(4096 + 87), Some(Mtu::M2048));
    assert_eq!(mtu_of(256 + 87), None);
}

#[test]
fn an_address_and_its_gid_are_one() {
    for text in ["10.1.2.3", "fe80::5", "2001:db8::7"] {
        let address: IpAddr = text.parse().unwrap();
        assert_eq!(address_of(&gid_of(address)), address);
    }
}
