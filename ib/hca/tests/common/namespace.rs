//! A network of a test's own: the packet wire on the loopback interface, with nobody else on it.

use std::ffi::CString;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::process::Command;

use ferriband_hca::*;

/// A test whose body runs in a process that has `ferri_lo` and sends packets to everybody.
#[macro_export]
macro_rules! on_packets {
    ($name:ident, $body:block) => {
        #[test]
        fn $name() {
            common::namespace::run_on_packets(stringify!($name), &[], || $body);
        }
    };
}

/// Two tests with one body: on `ferri_lo` as [`on_packets`] does it, and on `ferri0` with packets between its processes.
#[macro_export]
macro_rules! on_all_packets {
    ($name:ident, $body:block) => {
        mod $name {
            #[allow(unused_imports)]
            use super::*;

            fn body() $body

            #[test]
            fn ethernet() {
                let name = concat!(stringify!($name), "::ethernet");
                common::namespace::run_on_packets(name, &[], body);
            }

            #[test]
            fn infiniband() {
                let name = concat!(stringify!($name), "::infiniband");
                common::namespace::run_on_packets(name, &common::namespace::NATIVE, body);
            }
        }
    };
}

/// The environment of a process whose `ferri0` sends packets.
pub const NATIVE: [(&str, &str); 2] = [
    ("FERRIBAND_DEVICES", "ferri0"),
    ("FERRIBAND_WIRE", "packets"),
];

/// Runs the body of the test `name` in a process of its own that has `ferri_lo` alone and sends packets to everybody, in a network
/// of its own where the system allows one. `also` is set in its environment.
pub fn run_on_packets(name: &str, also: &[(&str, &str)], body: impl FnOnce()) {
    run(name, also, libc::CLONE_NEWUSER | libc::CLONE_NEWNET, body);
}

/// The same with a network of its own alone, so that there are other users in it. Only root may; others skip the test, and say so.
pub fn run_among_users(name: &str, body: impl FnOnce()) {
    // SAFETY: no preconditions.
    if unsafe { libc::geteuid() } != 0 {
        eprintln!("SKIPPED {name}: only root can be two users");
        return;
    }
    run(name, &[], libc::CLONE_NEWNET, body);
}

/// Runs the body with a network of its own, whose devices it makes itself before it opens one that
/// `devices` names. Only root may; others skip the test, and say so.
pub fn run_with_devices(name: &str, devices: &str, body: impl FnOnce()) {
    if std::env::var_os(INSIDE).is_some() {
        return body();
    }
    // SAFETY: no preconditions.
    if unsafe { libc::geteuid() } != 0 {
        eprintln!("SKIPPED {name}: only root can make interfaces");
        return;
    }
    run(
        name,
        &[("FERRIBAND_DEVICES", devices)],
        libc::CLONE_NEWUSER | libc::CLONE_NEWNET,
        body,
    );
}

/// Set in the process that a test starts.
const INSIDE: &str = "FERRIBAND_HCA_TEST_INSIDE";

fn run(name: &str, also: &[(&str, &str)], unshared: i32, body: impl FnOnce()) {
    if std::env::var_os(INSIDE).is_some() {
        let ctx = Context::open(0).unwrap();
        let native = std::env::var("FERRIBAND_DEVICES").is_ok_and(|name| name == "ferri0");
        let expected = match native {
            true => LinkLayer::InfiniBand,
            false => LinkLayer::Ethernet,
        };
        assert_eq!(ctx.query_port(1).unwrap().link_layer, expected);
        return body();
    }
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", name, "--nocapture", "--test-threads=1"])
        .env(INSIDE, "1")
        .env("FERRIBAND_DEVICES", "ferri_lo")
        .env("FERRIBAND_WIRE", "roce")
        .envs(also.iter().copied());
    // SAFETY: neither has preconditions.
    let (user, group) = unsafe { (libc::geteuid(), libc::getegid()) };
    let text = |text: String| CString::new(text).unwrap();
    let maps = [
        (c"/proc/self/setgroups", text("deny".into())),
        (c"/proc/self/gid_map", text(format!("{group} {group} 1"))),
        (c"/proc/self/uid_map", text(format!("{user} {user} 1"))),
    ];
    let begin = move || {
        // SAFETY: changes only when this process is to die; the test that starts it waits for it.
        unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
        // where namespaces are forbidden the port is shared with whoever else of this user has it
        // SAFETY: unshare takes a number.
        if unsafe { libc::unshare(unshared) } != 0 {
            return Ok(());
        }
        if unshared & libc::CLONE_NEWUSER != 0 {
            maps.iter().for_each(|(file, text)| write(file, text));
        }
        loopback_up()
    };
    // SAFETY: the closure makes only async-signal-safe calls.
    unsafe { command.pre_exec(begin) };
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && said.contains("1 passed"),
        "{:?}: {said}{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
}

/// Writes a file. Safe between fork and exec.
pub fn write(file: &std::ffi::CStr, text: &CString) {
    // SAFETY: C strings; open, write and close are async-signal-safe.
    unsafe {
        let fd = libc::open(file.as_ptr(), libc::O_WRONLY);
        libc::write(fd, text.as_ptr().cast(), text.as_bytes().len());
        libc::close(fd);
    }
}

/// Brings the loopback interface of this network up. Safe between fork and exec.
pub fn loopback_up() -> io::Result<()> {
    // SAFETY: an ifreq is plain data; socket, ioctl and close are async-signal-safe.
    let done = unsafe {
        let mut request: libc::ifreq = std::mem::zeroed();
        request.ifr_name[0] = b'l' as libc::c_char;
        request.ifr_name[1] = b'o' as libc::c_char;
        request.ifr_ifru.ifru_flags = libc::IFF_UP as libc::c_short;
        let fd = libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0);
        let done = libc::ioctl(fd, libc::SIOCSIFFLAGS, &request);
        libc::close(fd);
        done
    };
    if done == 0 {
        return Ok(());
    }
    Err(io::Error::last_os_error())
}

/// Gives the loopback interface one more address.
///
/// # Errors
/// EPERM without a network of one's own; without IPv6 there are others.
pub fn loopback_address(address: std::net::Ipv6Addr) -> io::Result<()> {
    /// What SIOCSIFADDR takes of IPv6 (netdevice(7), ipv6(7)).
    #[repr(C)]
    struct In6Ifreq {
        address: [u8; 16],
        prefix_length: u32,
        index: libc::c_int,
    }
    let socket = std::net::UdpSocket::bind((std::net::Ipv6Addr::UNSPECIFIED, 0))?;
    let request = In6Ifreq {
        address: address.octets(),
        prefix_length: 128,
        // SAFETY: a C string.
        index: unsafe { libc::if_nametoindex(c"lo".as_ptr()) } as libc::c_int,
    };
    // SAFETY: the structure is what the request takes, and lives during the call.
    match unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFADDR, &raw const request) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
