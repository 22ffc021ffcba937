//! Names and files of hosts, as users of other launchers write them: all of them must be this machine, and what they say of numbers holds.

use crate::args::AppArgs;
use crate::failure::Failure;
use std::ffi::{CStr, CString};
use std::fs::File;
use std::io::Read;
use std::net::{IpAddr, Ipv6Addr, ToSocketAddrs};

/// Bytes of the longest file that is read.
const LONGEST_FILE: u64 = 1 << 20;

/// What hosts say of this machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Slots {
    /// Ranks that they have room for.
    pub usual: u32,
    /// More than this there may not be, if all say so.
    pub most: Option<u32>,
}

/// One host, as it is written.
#[derive(Debug, Default, PartialEq, Eq)]
struct Entry {
    user: Option<String>,
    name: String,
    slots: Option<u32>,
    most: Option<u32>,
    /// As many slots as there are CPUs.
    all: bool,
}

/// What the hosts of a program say; none if none are named. `cpus` is how many CPUs there are.
pub fn of(app: &AppArgs, cpus: usize) -> Result<Option<Slots>, Failure> {
    let mut entries = Vec::new();
    for list in &app.host {
        for word in list
            .split(',')
            .map(str::trim)
            .filter(|word| !word.is_empty())
        {
            entries.push(entry(word).map_err(|why| bad(&format!("--host {list}"), &why))?);
        }
    }
    for path in &app.hostfile {
        let text = read(path)?;
        for (number, line) in (1..).zip(text.lines()) {
            let found =
                line_of_file(line).map_err(|why| bad(&format!("{path}, line {number}"), &why))?;
            entries.extend(found);
        }
    }
    if entries.is_empty() {
        return Ok(None);
    }
    let machine = Machine::new();
    let mut slots = Slots {
        usual: 0,
        most: Some(0),
    };
    for entry in &entries {
        machine.check(entry)?;
        let own = match (entry.all, entry.slots) {
            (true, _) => u32::try_from(cpus).unwrap_or(u32::MAX),
            (_, Some(slots)) => slots,
            (_, None) => entry.most.map_or(1, |most| most.min(1)),
        };
        slots.usual = slots.usual.saturating_add(own);
        slots.most = match (slots.most, entry.most) {
            (Some(sum), Some(most)) => Some(sum.saturating_add(most)),
            _ => None,
        };
    }
    Ok(Some(slots))
}

fn bad(place: &str, why: &str) -> Failure {
    Failure::new(format!("{place}: {why}"))
        .remedy("a host is NAME, NAME:RANKS, or in a file NAME slots=RANKS")
        .status(2)
}

fn read(path: &str) -> Result<String, Failure> {
    let mut text = String::new();
    let read = File::open(path).and_then(|file| file.take(LONGEST_FILE).read_to_string(&mut text));
    match read {
        Ok(_) => Ok(text),
        Err(error) => Err(
            Failure::io("read", &format!("the file of hosts {path}"), &error)
                .remedy("ranks run on this machine, with or without such a file")
                .status(2),
        ),
    }
}

/// `[USER@]NAME[:RANKS]`, with an address of IPv6 in brackets if something follows it.
fn entry(word: &str) -> Result<Entry, String> {
    let (user, host) = match word.split_once('@') {
        Some((user, host)) => (Some(user.to_owned()), host),
        None => (None, word),
    };
    let (name, count) = if let Some(rest) = host.strip_prefix('[') {
        let (name, rest) = rest.split_once(']').ok_or("a bracket is not closed")?;
        (name, rest.strip_prefix(':'))
    } else if host.parse::<Ipv6Addr>().is_ok() {
        (host, None)
    } else {
        match host.split_once(':') {
            Some((name, count)) => (name, Some(count)),
            None => (host, None),
        }
    };
    if name.is_empty() {
        return Err(format!("\"{word}\" names no host"));
    }
    let all = count == Some("*");
    let slots = match count.filter(|_| !all) {
        Some(count) => Some(number(count)?),
        None => None,
    };
    Ok(Entry {
        user,
        name: name.to_owned(),
        slots,
        most: None,
        all,
    })
}

fn number(text: &str) -> Result<u32, String> {
    text.parse()
        .map_err(|_| format!("\"{text}\" is no number of ranks"))
}

/// A line of a file: a host, and words NAME=VALUE; nothing if it is empty or a comment.
fn line_of_file(line: &str) -> Result<Option<Entry>, String> {
    let line = line.split(['#', ';']).next().unwrap_or_default();
    // Open MPI lets spaces stand around the sign.
    let line = line.replace(" =", "=").replace("= ", "=");
    let mut words = line.split_whitespace();
    let Some(host) = words.next() else {
        return Ok(None);
    };
    let mut found = entry(host)?;
    for word in words {
        let (name, value) = word.split_once('=').unwrap_or((word, ""));
        match name.replace('-', "_").as_str() {
            "slots" | "count" | "cpu" | "cpus" => found.slots = Some(number(value)?),
            "max_slots" | "slots_max" | "cpu_max" | "count_max" | "maxprocs" => {
                found.most = Some(number(value)?);
            }
            "user" | "username" | "user_name" => found.user = Some(value.to_owned()),
            // Interfaces, sockets and shells of other machines.
            "ifhn" | "binding" | "port" | "boards" | "sockets" | "cores" | "sockets_per_board"
            | "cores_per_socket" => (),
            // Some write the number alone behind the name.
            _ => found.slots = Some(number(word)?),
        }
    }
    Ok(Some(found))
}

/// The names and addresses of this machine.
struct Machine {
    name: String,
    addresses: Vec<IpAddr>,
}

impl Machine {
    fn new() -> Self {
        let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        Self {
            name: name.trim().to_ascii_lowercase(),
            addresses: addresses(),
        }
    }

    /// An error that says which host is another machine, or whose ranks are another user's.
    fn check(&self, entry: &Entry) -> Result<(), Failure> {
        if !self.is_called(&entry.name) {
            return Err(Failure::new(format!(
                "{} is not this machine ({}): this launcher starts ranks of one machine only",
                entry.name, self.name
            ))
            .remedy("leave the host out, or name localhost, to run all ranks here; the same program runs on several machines under mpiexec.hydra, prterun, Open MPI's mpirun and srun --mpi=pmi2")
            .status(2));
        }
        match &entry.user {
            Some(user) if !is_own_user(user) => Err(Failure::new(format!(
                "{user}@{} asks for ranks of the user {user}: they are always of the user who calls mpirun",
                entry.name
            ))
            .remedy("leave the user out, or call mpirun as that user")
            .status(2)),
            _ => Ok(()),
        }
    }

    fn is_called(&self, name: &str) -> bool {
        let name = name.trim_end_matches('.').to_ascii_lowercase();
        let bare = |name: &str| name.split('.').next().unwrap_or_default().to_owned();
        let usual = [
            "localhost",
            "localhost4",
            "localhost6",
            "ip6-localhost",
            "ip6-loopback",
        ];
        if usual.contains(&bare(&name).as_str()) || name.ends_with(".localhost") {
            return true;
        }
        if let Ok(address) = name.split('%').next().unwrap_or_default().parse::<IpAddr>() {
            return self.has(address);
        }
        // One of the two may have the domain in it.
        let is_short = !name.contains('.') || !self.name.contains('.');
        if name == self.name
            || (is_short && !self.name.is_empty() && bare(&name) == bare(&self.name))
        {
            return true;
        }
        (name.as_str(), 0)
            .to_socket_addrs()
            .is_ok_and(|mut found| found.any(|address| self.has(address.ip())))
    }

    fn has(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        address.is_loopback() || self.addresses.contains(&address)
    }
}

/// The addresses of all interfaces.
fn addresses() -> Vec<IpAddr> {
    let mut list = Vec::new();
    let mut first: *mut libc::ifaddrs = std::ptr::null_mut();
    // SAFETY: a local pointer; the list that it leads to then is the C library's, and is read as long as it lives.
    unsafe {
        if libc::getifaddrs(&raw mut first) != 0 {
            return list;
        }
        let mut next = first;
        while !next.is_null() {
            let address = (*next).ifa_addr;
            if !address.is_null() {
                match i32::from((*address).sa_family) {
                    libc::AF_INET => {
                        let found = (*address.cast::<libc::sockaddr_in>()).sin_addr.s_addr;
                        list.push(IpAddr::from(found.to_ne_bytes()));
                    }
                    libc::AF_INET6 => {
                        let found = (*address.cast::<libc::sockaddr_in6>()).sin6_addr.s6_addr;
                        list.push(IpAddr::from(found));
                    }
                    _ => (),
                }
            }
            next = (*next).ifa_next;
        }
        libc::freeifaddrs(first);
    }
    list
}

fn is_own_user(name: &str) -> bool {
    let Ok(wanted) = CString::new(name) else {
        return false;
    };
    // SAFETY: a string; what is found is the C library's, and read before another call. No other thread runs.
    unsafe {
        let user = libc::geteuid();
        let found = libc::getpwnam(wanted.as_ptr());
        if !found.is_null() {
            return (*found).pw_uid == user;
        }
        let own = libc::getpwuid(user);
        !own.is_null() && CStr::from_ptr((*own).pw_name) == wanted.as_c_str()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_read_in_all_their_forms() {
        let of = |text: &str| entry(text).map(|one| (one.name, one.slots));
        let some = |name: &str, slots| Ok((name.to_owned(), slots));
        assert_eq!(of("localhost"), some("localhost", None));
        assert_eq!(of("localhost:4"), some("localhost", Some(4)));
        assert_eq!(of("me@127.0.0.1:2"), some("127.0.0.1", Some(2)));
        assert_eq!(of("::1"), some("::1", None));
        assert_eq!(of("[::1]:3"), some("::1", Some(3)));
        assert_eq!(of("[fe80::1]"), some("fe80::1", None));
        assert!(entry("a:*").is_ok_and(|one| one.all));
        for wrong in ["a:x", "[::1", ":4", "me@"] {
            assert!(of(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn lines_of_files_are_mpichs_and_open_mpis() {
        let of = |line: &str| {
            let found = line_of_file(line).expect("it is one").expect("a host");
            (found.name, found.slots, found.most)
        };
        let host = |slots, most| ("h".to_owned(), slots, most);
        assert_eq!(of("h"), host(None, None));
        assert_eq!(of("h:4   # of MPICH"), host(Some(4), None));
        assert_eq!(of(" h slots=2 max_slots = 4"), host(Some(2), Some(4)));
        assert_eq!(of("h slots =2 max-slots=4 port=22"), host(Some(2), Some(4)));
        assert_eq!(of("h 3"), host(Some(3), None));
        assert_eq!(of("h:2 ifhn=h-ib user=me"), host(Some(2), None));
        for nothing in ["", "  ", "# a comment", "; another"] {
            assert_eq!(line_of_file(nothing), Ok(None));
        }
        assert!(line_of_file("h slots=many").is_err());
    }

    #[test]
    fn this_machine_is_known_by_its_names_and_addresses() {
        let machine = Machine {
            name: "node7.cluster".to_owned(),
            addresses: vec![IpAddr::from([10, 0, 0, 7]), "fd00::7".parse().expect("one")],
        };
        for name in [
            "localhost",
            "LOCALHOST.localdomain",
            "ip6-localhost",
            "x.localhost",
            "127.0.0.1",
            "127.0.1.1",
            "::1",
            "::ffff:127.0.0.1",
            "10.0.0.7",
            "fd00::7",
            "node7",
            "Node7.cluster",
            "node7.cluster.",
        ] {
            assert!(machine.is_called(name), "{name}");
        }
        for name in [
            "10.0.0.8",
            "0.0.0.0",
            "fd00::8",
            "node8.invalid",
            "node7.other.invalid",
        ] {
            assert!(!machine.is_called(name), "{name}");
        }
        assert!(Machine::new().is_called(Machine::new().name.as_str()));
    }
}
