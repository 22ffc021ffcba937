//! The place where the programs run: a network of our own with guests in it, and us.
//!
//! Owns: interfaces, addresses, guests, and the running of one program on one side. Must not know: the programs.
//!
//! All of it lies in namespaces that this process alone keeps alive (see `mod.rs`), so nothing is taken down here.

use super::guest::{Guest, Parts, Task};
use std::fs::{self, File};
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Our interface, a bridge with the guests' cards in it; our device is named after it.
pub const BRIDGE: &str = "br0";
const OUR_DEVICE: &str = "ferri_br0";
const KERNEL_DEVICE: &str = "rxe0";
/// How long a server may take until it listens.
const LISTEN_PATIENCE: Duration = Duration::from_secs(20);
/// UDP port 4791, as in /proc/net/udp.
const ROCE_PORT: u16 = 4791;
/// Where nobody listens (the service "discard").
const DISCARD: u16 = 9;
const AWAKE_EVERY: Duration = Duration::from_millis(5);
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// Where a program runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// On our adapter.
    Ours,
    /// On Soft-RoCE, in the guest of this number.
    Kernel(usize),
}

/// Which address of a side is meant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Family {
    /// IPv4, of the range for documentation.
    V4,
    /// IPv6, of the range for documentation.
    V6,
}

/// What says that a server may be called.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ready {
    /// It listens on its TCP port.
    Tcp,
    /// It listens for connections of the connection manager.
    Cm,
    /// The same at a port that cannot be chosen.
    CmAt(u16),
    /// It is in the multicast group [`GROUP`].
    Group,
}

/// The multicast group of mckey, and how /proc/net/igmp writes it.
pub const GROUP: &str = "239.1.2.3";
const GROUP_HEX: &str = "030201EF";

/// Interfaces, guests, and what is known of the devices.
pub struct Lab {
    guests: Vec<Guest>,
    ferriband: PathBuf,
    directory: PathBuf,
    outputs: u32,
    ours: Device,
    kernels: Device,
}

/// Entries of a device's GID table that hold its IPv4 and its IPv6 address.
#[derive(Clone, Copy)]
struct Device {
    v4: u32,
    v6: u32,
}

/// A program that runs on one side.
pub enum Running {
    /// Here.
    Ours(Child, PathBuf),
    /// In a guest.
    Kernel(usize, Task),
}

/// What a program did.
pub struct Output {
    /// Everything that it printed.
    pub text: String,
    /// How it ended; `None` if it was killed here.
    pub status: Option<i32>,
}

impl Output {
    /// True when the program ended by itself with status 0.
    pub fn is_fine(&self) -> bool {
        self.status == Some(0)
    }

    /// In words.
    pub fn ending(&self) -> String {
        match self.status {
            None => "did not end and was killed".to_owned(),
            Some(0) => "ended well".to_owned(),
            Some(status) if status < 0 => format!("died of signal {}", -status),
            Some(status) => format!("ended with status {status}"),
        }
    }
}

/// Runs a tool of the system, which must succeed.
fn tool(words: &str) -> Result<(), String> {
    let mut words = words.split_ascii_whitespace();
    let program = words.next().expect("a command has a program");
    crate::run(Command::new(program).args(words))
}

impl Lab {
    /// Makes the network in this process's namespace and boots `guests` guests into it. `directory` is empty and ours.
    pub fn make(
        kernel: &Path,
        ferriband: &Path,
        directory: &Path,
        guests: usize,
    ) -> Result<Lab, String> {
        tool("ip link set lo up")?;
        tool(&format!(
            "ip link add {BRIDGE} address 02:00:5e:00:53:01 type bridge mcast_snooping 0"
        ))?;
        // link-local addresses are usable at once
        let patient = format!("/proc/sys/net/ipv6/conf/{BRIDGE}/accept_dad");
        fs::write(&patient, "0").map_err(|error| format!("{patient}: {error}"))?;
        for address in addresses(Side::Ours) {
            tool(&format!("ip addr add {address} dev {BRIDGE}"))?;
        }
        tool(&format!("ip link set {BRIDGE} up"))?;
        // where multicast groups are, for rdma_resolve_addr
        tool(&format!("ip route add 224.0.0.0/4 dev {BRIDGE}"))?;
        let init = directory.join("init");
        fs::write(&init, include_str!("../../interop/guest-init"))
            .and_then(|()| {
                fs::set_permissions(&init, std::os::unix::fs::PermissionsExt::from_mode(0o755))
            })
            .map_err(|error| format!("{}: {error}", init.display()))?;
        let mut started = Vec::new();
        for number in 0..guests {
            let tap = format!("tap{number}");
            tool(&format!("ip tuntap add dev {tap} mode tap"))?;
            tool(&format!("ip link set {tap} master {BRIDGE} up"))?;
            started.push(Guest::start(&Parts {
                kernel,
                init: &init,
                directory: directory.join(format!("guest{number}")),
                tap,
                addresses: addresses(Side::Kernel(number)),
            })?);
        }
        for (number, guest) in started.iter_mut().enumerate() {
            guest.wait_until_ready()?;
            keep_awake(&address(Side::Kernel(number), Family::V4))?;
        }
        let nothing = Device { v4: 0, v6: 0 };
        let mut lab = Lab {
            guests: started,
            ferriband: ferriband.to_owned(),
            directory: directory.to_owned(),
            outputs: 0,
            ours: nothing,
            kernels: nothing,
        };
        lab.ours = lab.look_at(Side::Ours)?;
        lab.kernels = lab.look_at(Side::Kernel(0))?;
        Ok(lab)
    }

    /// Finds a device's addresses in its GID table.
    fn look_at(&mut self, side: Side) -> Result<Device, String> {
        let mut running = self.start(side, "ibv_devinfo -v")?;
        self.wait(&mut running, Duration::from_secs(30));
        let output = self.finish(running)?;
        let entry = |family| {
            let wanted = gid(side, family);
            output
                .text
                .lines()
                .find_map(|line| {
                    let (index, rest) = line.trim().strip_prefix("GID[")?.split_once("]:")?;
                    let found = rest
                        .trim()
                        .split(',')
                        .next()?
                        .parse::<std::net::Ipv6Addr>()
                        .ok()?;
                    (found == wanted).then(|| index.trim().parse().ok())?
                })
                .ok_or_else(|| {
                    format!(
                        "the device of {side:?} has no GID {wanted}; ibv_devinfo -v {}:\n{}",
                        output.ending(),
                        output.text
                    )
                })
        };
        Ok(Device {
            v4: entry(Family::V4)?,
            v6: entry(Family::V6)?,
        })
    }

    /// Fills in what a template leaves open: `{dev}`, `{gid}` and `{own}` of the side where the
    /// command runs, `{server}`, `{tcp}` (its address for programs that exchange theirs over TCP,
    /// and listen for IPv4 alone) and `{port}`, `{e}` for `-e` in a guest alone, `{programs}` for
    /// the directory of our own, `{verbs}` for what has these find the libraries of verbs that are
    /// the side's.
    pub fn fill(
        &self,
        template: &str,
        side: Side,
        server: Side,
        family: Family,
        port: u16,
    ) -> String {
        let (name, device) = match side {
            Side::Ours => (OUR_DEVICE, self.ours),
            Side::Kernel(_) => (KERNEL_DEVICE, self.kernels),
        };
        let gid = match family {
            Family::V4 => device.v4,
            Family::V6 => device.v6,
        };
        template
            .replace("{dev}", name)
            .replace("{gid}", &gid.to_string())
            .replace("{own}", &address(side, family))
            .replace("{server}", &address(server, family))
            .replace("{tcp}", &address(server, Family::V4))
            .replace("{port}", &port.to_string())
            .replace("{group}", GROUP)
            .replace("{e}", if side == Side::Ours { "" } else { "-e" })
            .replace("{verbs}", &self.verbs_of(side))
            .replace("{programs}", &super::own::directory().display().to_string())
    }

    fn verbs_of(&self, side: Side) -> String {
        match side {
            Side::Ours => "env".to_owned(),
            Side::Kernel(_) => {
                let libraries = super::own::directory();
                format!(
                    "env FERRIBAND_VERBS=system LD_LIBRARY_PATH={}",
                    libraries.display()
                )
            }
        }
    }

    /// Starts a program. Words are parted by blanks, there is no quoting.
    pub fn start(&mut self, side: Side, command: &str) -> Result<Running, String> {
        if let Side::Kernel(number) = side {
            let task = self.guests[number].run(&format!("exec {command}"))?;
            return Ok(Running::Kernel(number, task));
        }
        self.outputs += 1;
        let path = self.directory.join(format!("{}.out", self.outputs));
        let file = File::create(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        let again = file
            .try_clone()
            .map_err(|error| format!("{}: {error}", path.display()))?;
        let child = Command::new(&self.ferriband)
            .args(["run", "--device", OUR_DEVICE, "--wire", "roce", "--"])
            .args(command.split_ascii_whitespace())
            .stdin(Stdio::null())
            .stdout(file)
            .stderr(again)
            .spawn()
            .map_err(|error| format!("{}: {error}", self.ferriband.display()))?;
        Ok(Running::Ours(child, path))
    }

    /// True when a program has ended.
    pub fn has_ended(&mut self, running: &mut Running) -> bool {
        match running {
            Running::Ours(child, _) => child.try_wait().is_ok_and(|status| status.is_some()),
            Running::Kernel(number, task) => self.guests[*number].status(*task).is_some(),
        }
    }

    /// Waits for a program's end, no longer than `limit`.
    pub fn wait(&mut self, running: &mut Running, limit: Duration) {
        until(limit, || self.has_ended(running));
    }

    /// Kills a program if it still runs, and returns what it did.
    pub fn finish(&mut self, running: Running) -> Result<Output, String> {
        match running {
            Running::Ours(mut child, path) => {
                let ended = child.try_wait().ok().flatten();
                if ended.is_none() {
                    // An error says that it has just ended.
                    let _ = child.kill();
                    let _ = child.wait();
                }
                let bytes = fs::read(&path).unwrap_or_default();
                let _ = fs::remove_file(&path);
                let status = ended.map(|status| {
                    let signal = std::os::unix::process::ExitStatusExt::signal(&status);
                    status.code().unwrap_or_else(|| -signal.unwrap_or(0))
                });
                Ok(Output {
                    text: String::from_utf8_lossy(&bytes).into_owned(),
                    status,
                })
            }
            Running::Kernel(number, task) => {
                let guest = &mut self.guests[number];
                let status = guest.stop(task)?;
                // a shell writes a signal as 128 and its number
                let status = status.map(|status| if status > 128 { 128 - status } else { status });
                Ok(Output {
                    text: guest.output(task),
                    status,
                })
            }
        }
    }

    /// Waits until a server may be called, or has ended, or took too long: what its client then says is the result.
    pub fn wait_for_server(
        &mut self,
        side: Side,
        server: &mut Running,
        ready: Ready,
        port: u16,
    ) -> Result<(), String> {
        let Side::Kernel(number) = side else {
            until(LISTEN_PATIENCE, || {
                is_ready_here(ready, port) || self.has_ended(server)
            });
            return Ok(());
        };
        let question = match ready {
            Ready::Tcp => format!("await_tcp {port}"),
            Ready::Cm => format!("await_cm {port}"),
            Ready::CmAt(fixed) => format!("await_cm {fixed}"),
            Ready::Group => format!("await_group {GROUP_HEX}"),
        };
        let answer = self.guests[number].run(&question)?;
        let mut asking = Running::Kernel(number, answer);
        until(LISTEN_PATIENCE, || {
            self.has_ended(&mut asking) || self.has_ended(server)
        });
        self.finish(asking).map(drop)
    }

    /// Starts or stops losing packets in every guest.
    pub fn set_loss(&mut self, lossy: bool) -> Result<(), String> {
        let command = if lossy { "lossy" } else { "lossless" };
        self.guests
            .iter_mut()
            .try_for_each(|guest| guest.ask(command).map(drop))
    }

    /// Interrupts the loss, or goes on with it; what was lost is counted on.
    pub fn pause_loss(&mut self, pause: bool) -> Result<(), String> {
        let command = if pause { "lose 0%" } else { "lose 1%" };
        self.guests
            .iter_mut()
            .try_for_each(|guest| guest.ask(command).map(drop))
    }

    /// How many packets that the first guest sent have been lost since loss began.
    pub fn lost(&mut self) -> Result<u64, String> {
        let answer = self.guests[0].ask("lost")?;
        answer
            .trim()
            .parse()
            .map_err(|_| format!("netem told no losses: {answer}"))
    }

    /// What the guests' kernel calls itself.
    pub fn kernel_version(&mut self) -> Result<String, String> {
        Ok(self.guests[0].ask("uname -r")?.trim().to_owned())
    }
}

/// Sends a guest a small datagram now and then, for as long as this process lives. User-Mode Linux loses the signal of a packet once in
/// thousands, and then sleeps until the next packet, which for datagrams is a question of its neighbours seconds later.
fn keep_awake(guest: &str) -> Result<(), String> {
    let failed = |error| format!("a UDP socket to the guest {guest}: {error}");
    let socket = UdpSocket::bind((address(Side::Ours, Family::V4), 0)).map_err(failed)?;
    let to = (guest.to_owned(), DISCARD);
    thread::spawn(move || {
        loop {
            // Nobody listens there; that the guest says so now and then is no matter.
            let _ = socket.send_to(&[0], (to.0.as_str(), to.1));
            thread::sleep(AWAKE_EVERY);
        }
    });
    Ok(())
}

/// Waits until `done`, no longer than `limit`.
pub fn until(limit: Duration, mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + limit;
    while !done() && Instant::now() < deadline {
        thread::sleep(LOOK_EVERY);
    }
}

fn number(side: Side) -> usize {
    match side {
        Side::Ours => 1,
        Side::Kernel(number) => number + 2,
    }
}

fn address(side: Side, family: Family) -> String {
    match family {
        Family::V4 => format!("192.0.2.{}", number(side)),
        Family::V6 => format!("2001:db8::{}", number(side)),
    }
}

fn addresses(side: Side) -> [String; 2] {
    [
        format!("{}/24", address(side, Family::V4)),
        format!("{}/64", address(side, Family::V6)),
    ]
}

fn gid(side: Side, family: Family) -> std::net::Ipv6Addr {
    let text = address(side, family);
    let parsed: std::net::IpAddr = text.parse().expect("the lab's addresses are addresses");
    match parsed {
        std::net::IpAddr::V4(v4) => v4.to_ipv6_mapped(),
        std::net::IpAddr::V6(v6) => v6,
    }
}

fn is_ready_here(ready: Ready, port: u16) -> bool {
    let table = |name: &str| fs::read_to_string(format!("/proc/net/{name}")).unwrap_or_default();
    match ready {
        Ready::Tcp => ["tcp", "tcp6"]
            .iter()
            .any(|name| has_port(&table(name), port, Some("0A"))),
        // a program's receiving sockets are made when it listens, or with its first queue pair
        Ready::Cm | Ready::CmAt(_) => ["udp", "udp6"]
            .iter()
            .any(|name| has_port(&table(name), ROCE_PORT, None)),
        Ready::Group => table("igmp").contains(GROUP_HEX),
    }
}

/// Whether one of the kernel's tables of sockets has one with this local port, and in this state if one is named.
fn has_port(table: &str, port: u16, state: Option<&str>) -> bool {
    table.lines().skip(1).any(|line| {
        let mut fields = line.split_ascii_whitespace().skip(1);
        let local = fields.next().and_then(|address| address.rsplit(':').next());
        let found = fields.nth(1);
        local.is_some_and(|hex| u16::from_str_radix(hex, 16) == Ok(port))
            && (state.is_none() || found == state)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 00000000:4853 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1
   1: 00000000:12B7 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 2
";

    #[test]
    fn sockets_are_found_by_port_and_state() {
        assert!(has_port(TABLE, 0x4853, Some("0A")));
        assert!(!has_port(TABLE, 0x4853, Some("01")));
        assert!(has_port(TABLE, ROCE_PORT, None));
        assert!(!has_port(TABLE, 80, None));
    }

    #[test]
    fn a_gid_is_the_address_of_its_side() {
        assert_eq!(gid(Side::Ours, Family::V4).to_string(), "::ffff:192.0.2.1");
        assert_eq!(gid(Side::Kernel(1), Family::V6).to_string(), "2001:db8::3");
    }
}
