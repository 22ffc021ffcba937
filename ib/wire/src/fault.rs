//! Fault rules: which packets a fault meets and what it does to them, as text (`drop opcode=rc-send probability=0.01`) and as the
//! words that lie in shared memory. Owns meaning and both forms. Must not know where rules are kept, nor who follows them.

use crate::capture::Ends;
use crate::opcode::Opcode;
use crate::pcapng::Direction;
use crate::types::{Lid, Psn, Qpn};
use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

/// What a fault does to a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[repr(u8)]
pub enum Action {
    /// It vanishes.
    Drop = 1,
    /// It comes twice.
    Duplicate = 2,
    /// It comes later.
    Delay = 3,
    /// One after it overtakes it.
    Reorder = 4,
    /// A bit of it changes, after the ICRC was computed.
    Corrupt = 5,
}

impl Action {
    /// All of them.
    pub const ALL: [Action; 5] = [
        Action::Drop,
        Action::Duplicate,
        Action::Delay,
        Action::Reorder,
        Action::Corrupt,
    ];

    /// Its name in a rule.
    pub const fn name(self) -> &'static str {
        match self {
            Action::Drop => "drop",
            Action::Duplicate => "duplicate",
            Action::Delay => "delay",
            Action::Reorder => "reorder",
            Action::Corrupt => "corrupt",
        }
    }
}

/// A set of opcodes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct OpcodeSet([u64; 4]);

impl OpcodeSet {
    /// Every code, those without a meaning among them.
    pub const ALL: OpcodeSet = OpcodeSet([u64::MAX; 4]);
    /// None.
    pub const NONE: OpcodeSet = OpcodeSet([0; 4]);

    /// Whether a code is in it.
    pub const fn has(&self, code: u8) -> bool {
        self.0[code as usize / 64] >> (code % 64) & 1 != 0
    }

    fn add(&mut self, code: u8) {
        self.0[usize::from(code) / 64] |= 1 << (code % 64);
    }

    /// The opcodes that a list names: `0x04`, or words that begin words of the opcode's name, in their order (`rc-send-only`,
    /// `rc-send`, `ack`, `read-response`), several separated by commas.
    ///
    /// # Errors
    /// The part that names nothing.
    pub fn parse(text: &str) -> Result<OpcodeSet, RuleError<'_>> {
        let mut set = OpcodeSet::NONE;
        for part in text.split(',').map(str::trim) {
            if let Some(code) = number(part).and_then(|code| u8::try_from(code).ok()) {
                set.add(code);
                continue;
            }
            let mut found = false;
            for opcode in Opcode::ALL
                .iter()
                .filter(|opcode| named(part, opcode.info().name))
            {
                set.add(opcode.code());
                found = true;
            }
            if !found {
                return Err(RuleError::Opcode(part));
            }
        }
        Ok(set)
    }
}

/// True if the words of `text` begin words of `name`, in order.
fn named(text: &str, name: &str) -> bool {
    let mut words = name.split(' ');
    let begins = |word: &str, with: &str| {
        word.get(..with.len())
            .is_some_and(|start| start.eq_ignore_ascii_case(with))
    };
    let mut any = false;
    for wanted in text.split(['-', '_', ' ']).filter(|word| !word.is_empty()) {
        any = true;
        if !words.any(|word| begins(word, wanted)) {
            return false;
        }
    }
    any
}

impl fmt::Display for OpcodeSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut first = true;
        for code in (0..=u8::MAX).filter(|code| self.has(*code)) {
            let comma = if first { "" } else { "," };
            first = false;
            write!(f, "{comma}{code:#04x}")?;
        }
        Ok(())
    }
}

/// Always, as a probability: chances out of 2^32.
const ALWAYS: u64 = 1 << 32;
/// What a delay or a reordering waits if nothing is said.
pub const DEFAULT_DELAY_US: u32 = 1_000;
/// Longest delay: ten seconds.
pub const MOST_DELAY_US: u32 = 10_000_000;

/// Which path a rule is about: all that is said has to hold.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Path {
    /// The address, or the GID, of the other end: where a packet that comes is from, where one that
    /// goes is for.
    pub peer: Option<IpAddr>,
    /// The source LID of a packet of InfiniBand.
    pub slid: Option<Lid>,
    /// The destination LID of a packet of InfiniBand.
    pub dlid: Option<Lid>,
    /// The UDP source port of a packet of RoCEv2: by it routers choose among equal ways.
    pub udp_port: Option<u16>,
}

impl Path {
    /// All paths.
    pub const ALL: Path = Path {
        peer: None,
        slid: None,
        dlid: None,
        udp_port: None,
    };

    /// Whether a packet with these ends takes the path.
    fn meets(&self, ends: &Ends, direction: Direction) -> bool {
        let far = ends
            .addresses()
            .map(|(source, destination)| match direction {
                Direction::Inbound => source,
                Direction::Outbound => destination,
            });
        let (slid, dlid, port) = match ends {
            Ends::Roce(ends) => (None, None, Some(ends.source_port)),
            Ends::Native(headers) => (Some(headers.lrh.slid), Some(headers.lrh.dlid), None),
        };
        self.peer
            .is_none_or(|peer| far.is_some_and(|far| far.to_canonical() == peer))
            && self.slid.is_none_or(|lid| Some(lid) == slid)
            && self.dlid.is_none_or(|lid| Some(lid) == dlid)
            && self.udp_port.is_none_or(|wanted| Some(wanted) == port)
    }

    /// As three words: LIDs and port, each with a bit that says whether it is there, then the
    /// address.
    fn to_words(self) -> [u64; 3] {
        let peer = self.peer.map(|peer| match peer {
            IpAddr::V4(v4) => v4.to_ipv6_mapped().to_bits(),
            IpAddr::V6(v6) => v6.to_bits(),
        });
        let numbers = [
            self.slid.map(|lid| lid.0),
            self.dlid.map(|lid| lid.0),
            self.udp_port,
        ];
        let mut first = u64::from(peer.is_some()) << PEER_BIT;
        for (at, number) in numbers.into_iter().enumerate() {
            let is_there = u64::from(number.is_some()) << (PEER_BIT + 1 + at);
            first |= u64::from(number.unwrap_or(0)) << (16 * at) | is_there;
        }
        let peer = peer.unwrap_or(0);
        [first, (peer >> 64) as u64, peer as u64]
    }

    fn from_words([first, high, low]: [u64; 3]) -> Path {
        let number = |at: u32| {
            let is_there = first >> (PEER_BIT as u32 + 1 + at) & 1 != 0;
            is_there.then_some((first >> (16 * at)) as u16)
        };
        let peer = Ipv6Addr::from_bits(u128::from(high) << 64 | u128::from(low));
        Path {
            peer: (first >> PEER_BIT & 1 != 0).then(|| IpAddr::V6(peer).to_canonical()),
            slid: number(0).map(Lid),
            dlid: number(1).map(Lid),
            udp_port: number(2),
        }
    }
}

/// In a path's first word: whether it has an address. The bits behind it are for LIDs and port.
const PEER_BIT: usize = 48;

/// A fault rule.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rule {
    /// What happens.
    pub action: Action,
    /// To packets with these opcodes.
    pub opcodes: OpcodeSet,
    /// From or to this queue pair.
    pub qpn: Option<Qpn>,
    /// With a sequence number from the first to the second, both included, counted modulo 2^24.
    pub psn: Option<(Psn, Psn)>,
    /// That come or go.
    pub direction: Option<Direction>,
    /// By this interface.
    pub ifindex: Option<u32>,
    /// On this path.
    pub path: Path,
    /// Chances out of 2^32.
    chance: u64,
    /// That many times at most; 0 for no end.
    pub count: u64,
    /// How long a delay lasts, and a reordered packet waits for another at most.
    pub delay_us: u32,
}

/// Words of a rule in shared memory.
pub const RULE_WORDS: usize = 14;
/// The last three of them: the path.
const PATH_WORDS: usize = 11;

/// What is wrong with a rule's text.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum RuleError<'a> {
    #[error("'{0}' is no fault: drop, duplicate, delay, reorder or corrupt")]
    Action(&'a str),
    #[error(
        "'{0}' says nothing of a fault: opcode=, qpn=, psn=, direction=, device=, peer=, slid=, dlid=, udp-port=, probability=, count= or delay-us="
    )]
    Key(&'a str),
    #[error("'{0}' names no opcode: write a code (0x04) or words of its name (rc-send-only, ack)")]
    Opcode(&'a str),
    #[error("'{1}' is no value of {0}")]
    Value(&'a str, &'a str),
    #[error("there is no device {0}")]
    Device(&'a str),
}

fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

fn of_24_bits(text: &str) -> Option<u32> {
    number(text).filter(|&n| n < 1 << 24).map(|n| n as u32)
}

fn of_16_bits(text: &str) -> Option<u16> {
    number(text).and_then(|n| u16::try_from(n).ok())
}

/// A packet as a rule looks at it.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// The packet from its BTH on; nothing is known of it otherwise.
    pub packet: &'a [u8],
    /// The queue pair of this host that sends it, if one does.
    pub local_qpn: Option<Qpn>,
    /// Whether it came or goes.
    pub direction: Direction,
    /// The interface.
    pub ifindex: u32,
    /// The headers below the packet; they may be left out where no rule is about a path.
    pub ends: Option<Ends>,
}

impl Rule {
    /// Does something to every packet.
    pub const fn new(action: Action) -> Rule {
        Rule {
            action,
            opcodes: OpcodeSet::ALL,
            qpn: None,
            psn: None,
            direction: None,
            ifindex: None,
            path: Path::ALL,
            chance: ALWAYS,
            count: 0,
            delay_us: DEFAULT_DELAY_US,
        }
    }

    /// Sets the probability, from 0 to 1; what lies outside counts as the nearer of them.
    pub fn set_probability(&mut self, probability: f64) {
        // a float to an integer saturates
        self.chance = ((probability * ALWAYS as f64).round() as u64).min(ALWAYS);
    }

    /// The probability.
    pub fn probability(&self) -> f64 {
        self.chance as f64 / ALWAYS as f64
    }

    /// Whether a draw of 32 random bits hits.
    pub const fn draws(&self, random: u32) -> bool {
        (random as u64) < self.chance
    }

    /// Whether the rule is about this packet.
    pub fn meets(&self, subject: &Subject<'_>) -> bool {
        let [opcode, _, _, _, _, q1, q2, q3, _, p1, p2, p3, ..] = *subject.packet else {
            return false;
        };
        let dest = Qpn(u32::from_be_bytes([0, q1, q2, q3]));
        let psn = Psn::new(u32::from_be_bytes([0, p1, p2, p3]));
        let within = |(first, last): (Psn, Psn)| {
            let ahead = |psn: Psn| psn.get().wrapping_sub(first.get()) % Psn::MODULUS;
            ahead(psn) <= ahead(last)
        };
        self.opcodes.has(opcode)
            && self.direction.is_none_or(|way| way == subject.direction)
            && self.ifindex.is_none_or(|index| index == subject.ifindex)
            && self
                .qpn
                .is_none_or(|qpn| qpn == dest || Some(qpn) == subject.local_qpn)
            && self.psn.is_none_or(within)
            && (self.path == Path::ALL
                || subject
                    .ends
                    .is_some_and(|ends| self.path.meets(&ends, subject.direction)))
    }

    /// Reads a rule: the action, then `key=value` or `--key value` in any order. `device` turns a device's name into its interface's
    /// number.
    ///
    /// # Errors
    /// The first word that is wrong.
    pub fn parse<'a>(
        text: &'a str,
        device: impl Fn(&str) -> Option<u32>,
    ) -> Result<Rule, RuleError<'a>> {
        let mut words = text.split_whitespace();
        let name = words.next().unwrap_or("");
        let action = Action::ALL.into_iter().find(|action| action.name() == name);
        let mut rule = Rule::new(action.ok_or(RuleError::Action(name))?);
        while let Some(word) = words.next() {
            let bare = word.trim_start_matches('-');
            let (key, value) = match bare.split_once('=') {
                Some(both) => both,
                None if bare.len() < word.len() => (bare, words.next().unwrap_or("")),
                None => return Err(RuleError::Key(word)),
            };
            rule.set(key, value, &device)?;
        }
        Ok(rule)
    }

    fn set<'a>(
        &mut self,
        key: &'a str,
        value: &'a str,
        device: &impl Fn(&str) -> Option<u32>,
    ) -> Result<(), RuleError<'a>> {
        let wrong = RuleError::Value(key, value);
        match key {
            "opcode" => self.opcodes = OpcodeSet::parse(value)?,
            "qpn" => self.qpn = Some(Qpn(of_24_bits(value).ok_or(wrong)?)),
            "psn" => {
                let (first, last) = value.split_once('-').unwrap_or((value, value));
                let psn = |text| of_24_bits(text).map(Psn::new).ok_or(wrong);
                self.psn = Some((psn(first)?, psn(last)?));
            }
            "direction" => {
                self.direction = Some(match value {
                    "tx" => Direction::Outbound,
                    "rx" => Direction::Inbound,
                    _ => return Err(wrong),
                });
            }
            "device" => self.ifindex = Some(device(value).ok_or(RuleError::Device(value))?),
            "peer" => {
                let peer: IpAddr = value.parse().map_err(|_| wrong)?;
                self.path.peer = Some(peer.to_canonical());
            }
            "slid" => self.path.slid = Some(Lid(of_16_bits(value).ok_or(wrong)?)),
            "dlid" => self.path.dlid = Some(Lid(of_16_bits(value).ok_or(wrong)?)),
            "udp-port" => self.path.udp_port = Some(of_16_bits(value).ok_or(wrong)?),
            "probability" => {
                let probability: f64 = value.parse().map_err(|_| wrong)?;
                if !(0.0..=1.0).contains(&probability) {
                    return Err(wrong);
                }
                self.set_probability(probability);
            }
            "count" => self.count = number(value).ok_or(wrong)?,
            "delay-us" => {
                let delay = number(value).filter(|&us| us <= MOST_DELAY_US.into());
                self.delay_us = delay.ok_or(wrong)? as u32;
            }
            _ => return Err(RuleError::Key(key)),
        }
        Ok(())
    }

    /// The rule's text, as [`Rule::parse`] reads it. `device` names an interface's device.
    pub fn describe<'a, N: fmt::Display>(
        &'a self,
        device: impl Fn(u32) -> N + 'a,
    ) -> impl fmt::Display + 'a {
        Described(self, device)
    }

    /// As words.
    pub fn to_words(&self) -> [u64; RULE_WORDS] {
        let mut words = [0; RULE_WORDS];
        words[0] = self.action as u64 | self.direction.map_or(0, |way| way as u64) << 8;
        // of each number one more, 0 for none
        words[1] = self.qpn.map_or(0, |qpn| u64::from(qpn.0) + 1)
            | self.ifindex.map_or(0, |index| u64::from(index) + 1) << 32;
        words[2] = self.psn.map_or(0, |(first, last)| {
            1 << 63 | u64::from(first.get()) | u64::from(last.get()) << 24
        });
        words[3] = self.chance;
        words[4] = self.count;
        words[5] = self.delay_us.into();
        words[6..10].copy_from_slice(&self.opcodes.0);
        words[PATH_WORDS..].copy_from_slice(&self.path.to_words());
        words
    }

    /// Back from words; None for words that are no rule's.
    pub fn from_words(words: &[u64; RULE_WORDS]) -> Option<Rule> {
        let action = Action::ALL
            .into_iter()
            .find(|action| *action as u64 == words[0] & 0xff)?;
        let direction = match words[0] >> 8 {
            0 => None,
            1 => Some(Direction::Inbound),
            2 => Some(Direction::Outbound),
            _ => return None,
        };
        let mut opcodes = OpcodeSet::NONE;
        opcodes.0.copy_from_slice(&words[6..10]);
        let delay_us = u32::try_from(words[5])
            .ok()
            .filter(|us| *us <= MOST_DELAY_US);
        Some(Rule {
            action,
            opcodes,
            qpn: (words[1] as u32).checked_sub(1).map(Qpn),
            psn: (words[2] >> 63 != 0)
                .then(|| (Psn::new(words[2] as u32), Psn::new((words[2] >> 24) as u32))),
            direction,
            ifindex: ((words[1] >> 32) as u32).checked_sub(1),
            path: Path::from_words([words[PATH_WORDS], words[12], words[13]]),
            chance: words[3].min(ALWAYS),
            count: words[4],
            delay_us: delay_us?,
        })
    }
}

struct Described<'a, F>(&'a Rule, F);

impl<N: fmt::Display, F: Fn(u32) -> N> fmt::Display for Described<'_, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Described(rule, device) = self;
        f.write_str(rule.action.name())?;
        if rule.opcodes != OpcodeSet::ALL {
            write!(f, " opcode={}", rule.opcodes)?;
        }
        if let Some(qpn) = rule.qpn {
            write!(f, " qpn={qpn}")?;
        }
        if let Some((first, last)) = rule.psn {
            write!(f, " psn={first}-{last}")?;
        }
        match rule.direction {
            Some(Direction::Inbound) => f.write_str(" direction=rx")?,
            Some(Direction::Outbound) => f.write_str(" direction=tx")?,
            None => {}
        }
        if let Some(ifindex) = rule.ifindex {
            write!(f, " device={}", device(ifindex))?;
        }
        let path = &rule.path;
        if let Some(peer) = path.peer {
            write!(f, " peer={peer}")?;
        }
        let numbers = [
            ("slid", path.slid.map(|lid| lid.0)),
            ("dlid", path.dlid.map(|lid| lid.0)),
            ("udp-port", path.udp_port),
        ];
        for (key, number) in numbers {
            if let Some(number) = number {
                write!(f, " {key}={number}")?;
            }
        }
        if rule.chance != ALWAYS {
            f.write_str(" probability=")?;
            write_probability(f, rule)?;
        }
        if rule.count != 0 {
            write!(f, " count={}", rule.count)?;
        }
        if matches!(rule.action, Action::Delay | Action::Reorder) {
            write!(f, " delay-us={}", rule.delay_us)?;
        }
        Ok(())
    }
}

/// As short as reads back the same.
fn write_probability(f: &mut fmt::Formatter<'_>, rule: &Rule) -> fmt::Result {
    for digits in 1..=10_i32 {
        let unit = 10_f64.powi(digits);
        let rounded = (rule.probability() * unit).round() / unit;
        let mut read = *rule;
        read.set_probability(rounded);
        if read.chance == rule.chance {
            return write!(f, "{rounded}");
        }
    }
    write!(f, "{}", rule.probability())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture::Endpoints;
    use crate::lrh::Lrh;
    use crate::native::NativeHeaders;
    use crate::types::{Sl, Vl};
    use proptest::prelude::*;

    fn parse(text: &str) -> Result<Rule, RuleError<'_>> {
        Rule::parse(text, |name| (name == "ferri_eth0").then_some(7))
    }

    fn packet(opcode: Opcode, qpn: u32, psn: u32) -> [u8; 12] {
        let mut bytes = [0; 12];
        bytes[0] = opcode.code();
        bytes[4..8].copy_from_slice(&qpn.to_be_bytes());
        bytes[8..].copy_from_slice(&psn.to_be_bytes());
        bytes
    }

    fn going(packet: &[u8], local: u32) -> Subject<'_> {
        Subject {
            packet,
            local_qpn: Some(Qpn(local)),
            direction: Direction::Outbound,
            ifindex: 7,
            ends: None,
        }
    }

    fn by_ethernet(source: &str, destination: &str, source_port: u16) -> Ends {
        Ends::Roce(Endpoints {
            source: source.parse().expect("an address"),
            destination: destination.parse().expect("an address"),
            source_port,
            traffic_class: 0,
            hop_limit: 64,
            identification: None,
        })
    }

    fn by_infiniband(slid: u16, dlid: u16) -> Ends {
        Ends::Native(NativeHeaders {
            lrh: Lrh {
                vl: Vl(0),
                sl: Sl(0),
                dlid: Lid(dlid),
                slid: Lid(slid),
            },
            grh: None,
        })
    }

    #[test]
    fn a_rule_of_a_path_meets_one_direction_of_it() {
        let bytes = packet(Opcode::RcSendOnly, 1, 0);
        let meets = |text: &str, ends, direction| {
            parse(text).expect("a rule").meets(&Subject {
                direction,
                ends: Some(ends),
                ..going(&bytes, 0)
            })
        };
        let (tx, rx) = (Direction::Outbound, Direction::Inbound);
        let there = by_ethernet("192.0.2.1", "192.0.2.2", 50_000);
        let back = by_ethernet("::ffff:192.0.2.2", "::ffff:192.0.2.1", 50_001);
        let to = "drop peer=192.0.2.2";
        assert!(meets(to, there, tx) && meets(to, back, rx));
        assert!(!meets(to, there, rx) && !meets(to, back, tx));
        let one_way = "drop peer=::ffff:192.0.2.2 direction=tx";
        assert!(meets(one_way, there, tx) && !meets(one_way, back, rx));
        let port = "drop --udp-port 50000";
        assert!(meets(port, there, tx) && !meets(port, back, tx));
        let lids = "drop slid=0x10 dlid=32";
        assert!(meets(lids, by_infiniband(16, 32), rx));
        for (other, text) in [
            (by_infiniband(32, 16), lids),
            (by_infiniband(16, 33), lids),
            (there, lids),
            (by_infiniband(16, 32), port),
            (by_infiniband(16, 32), to),
        ] {
            assert!(!meets(text, other, tx), "{text}: {other:?}");
        }
        // nothing is known of the path
        assert!(!parse(to).expect("a rule").meets(&going(&bytes, 0)));
    }

    #[test]
    fn opcodes_are_named_by_beginnings_of_their_words() {
        let has = |text, opcode: Opcode| OpcodeSet::parse(text).expect("named").has(opcode.code());
        assert!(has("rc-send-only", Opcode::RcSendOnly));
        assert!(has("rc-send-only", Opcode::RcSendOnlyImm));
        assert!(!has("rc-send-only", Opcode::UcSendOnly));
        assert!(has("ack", Opcode::RcAcknowledge) && has("ack", Opcode::XrcAtomicAcknowledge));
        assert!(has("read-resp", Opcode::RcReadResponseMiddle));
        assert!(!has("read-resp", Opcode::RcReadRequest));
        assert!(has("0x04,ud", Opcode::RcSendOnly) && has("0x04,ud", Opcode::UdSendOnlyImm));
        assert_eq!(
            OpcodeSet::parse("send,nothing"),
            Err(RuleError::Opcode("nothing"))
        );
        assert!(OpcodeSet::parse("").is_err());
    }

    #[test]
    fn a_rule_meets_what_it_says_and_nothing_else() {
        let rule =
            parse("drop --opcode rc-send qpn=0x12 psn=0xfffffe-1 direction=tx device=ferri_eth0")
                .expect("a rule");
        let near = packet(Opcode::RcSendOnly, 0x12, 0);
        assert!(rule.meets(&going(&near, 0)));
        // the sender's own number counts, too
        assert!(rule.meets(&going(&packet(Opcode::RcSendOnly, 0x99, 0xff_ffff), 0x12)));
        for (other, local) in [
            (packet(Opcode::RcSendOnly, 0x12, 2), 0),
            (packet(Opcode::RcSendOnly, 0x12, 0xff_fffd), 0),
            (packet(Opcode::RcSendOnly, 0x13, 0), 0),
            (packet(Opcode::RcAcknowledge, 0x12, 0), 0x12),
        ] {
            assert!(!rule.meets(&going(&other, local)), "{other:x?}");
        }
        assert!(!rule.meets(&Subject {
            direction: Direction::Inbound,
            ..going(&near, 0)
        }));
        assert!(!rule.meets(&Subject {
            ifindex: 8,
            ..going(&near, 0)
        }));
        assert!(!rule.meets(&going(&near[..11], 0)));
    }

    #[test]
    fn probabilities_are_shares_of_all_draws() {
        let never = parse("drop probability=0").expect("a rule");
        let always = parse("drop").expect("a rule");
        assert!(!never.draws(0) && always.draws(u32::MAX));
        let half = parse("drop probability=0.5").expect("a rule");
        assert!(half.draws(u32::MAX / 2) && !half.draws(u32::MAX / 2 + 1));
        let text = |rule: &str| parse(rule).expect("a rule").describe(|_| "").to_string();
        assert_eq!(text("drop probability=0.01"), "drop probability=0.01");
        assert_eq!(text("drop probability=1e-3"), "drop probability=0.001");
    }

    #[test]
    fn what_is_wrong_is_named() {
        assert_eq!(parse("lose"), Err(RuleError::Action("lose")));
        assert_eq!(parse("drop qp=1"), Err(RuleError::Key("qp")));
        assert_eq!(parse("drop now"), Err(RuleError::Key("now")));
        assert_eq!(
            parse("drop qpn=0x1000000"),
            Err(RuleError::Value("qpn", "0x1000000"))
        );
        assert_eq!(
            parse("drop probability=1.5"),
            Err(RuleError::Value("probability", "1.5"))
        );
        assert_eq!(
            parse("drop device=ferri_x"),
            Err(RuleError::Device("ferri_x"))
        );
        assert_eq!(
            parse("delay delay-us=10000001"),
            Err(RuleError::Value("delay-us", "10000001"))
        );
        assert_eq!(
            parse("drop peer=host"),
            Err(RuleError::Value("peer", "host"))
        );
        assert_eq!(
            parse("drop dlid=65536"),
            Err(RuleError::Value("dlid", "65536"))
        );
        assert_eq!(parse("drop --count"), Err(RuleError::Value("count", "")));
    }

    fn any_rule() -> impl Strategy<Value = Rule> {
        (
            (
                proptest::sample::select(Action::ALL.to_vec()),
                proptest::option::of(0u32..1 << 24),
                proptest::option::of((0u32..1 << 24, 0u32..1 << 24)),
            ),
            (
                proptest::option::of(proptest::sample::select(vec![
                    Direction::Inbound,
                    Direction::Outbound,
                ])),
                any::<bool>(),
                0..=ALWAYS,
                any::<u64>(),
                0..=MOST_DELAY_US,
            ),
            (
                proptest::option::of(any::<[u64; 4]>()),
                proptest::option::of(any::<IpAddr>()),
                any::<[Option<u16>; 3]>(),
            ),
        )
            .prop_map(
                |(
                    (action, qpn, psn),
                    (direction, device, chance, count, delay_us),
                    (opcodes, peer, [slid, dlid, udp_port]),
                )| {
                    Rule {
                        action,
                        opcodes: opcodes
                            .filter(|set| *set != [0; 4])
                            .map_or(OpcodeSet::ALL, OpcodeSet),
                        qpn: qpn.map(Qpn),
                        psn: psn.map(|(first, last)| (Psn::new(first), Psn::new(last))),
                        direction,
                        ifindex: device.then_some(7),
                        path: Path {
                            peer: peer.map(|peer| peer.to_canonical()),
                            slid: slid.map(Lid),
                            dlid: dlid.map(Lid),
                            udp_port,
                        },
                        chance,
                        count,
                        delay_us: if matches!(action, Action::Delay | Action::Reorder) {
                            delay_us
                        } else {
                            DEFAULT_DELAY_US
                        },
                    }
                },
            )
    }

    proptest! {
        #[test]
        fn text_and_words_are_read_as_written(rule in any_rule()) {
            prop_assert_eq!(Rule::from_words(&rule.to_words()), Some(rule));
            let text = rule.describe(|_| "ferri_eth0").to_string();
            prop_assert_eq!(parse(&text), Ok(rule), "{}", text);
        }

        #[test]
        fn any_words_are_read_or_refused(words: [u64; RULE_WORDS], packet in proptest::collection::vec(any::<u8>(), 0..20)) {
            if let Some(rule) = Rule::from_words(&words) {
                rule.meets(&going(&packet, 0));
            }
        }
    }
}
