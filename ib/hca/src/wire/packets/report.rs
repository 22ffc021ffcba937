//! A path in the words of whoever runs the program, and what was said of packets on it.

use ferriband_admin::PathReport;
use ferriband_memory::net::{Trouble, TroubleKind};

use super::path::{Carrier, TxPath};

impl TxPath {
    /// The path as whoever runs the program knows it, but for its interface.
    pub fn report(&self) -> PathReport {
        let port = match &self.carrier {
            Carrier::Udp { port, .. } => port,
            Carrier::Host(path) => return path.report(),
        };
        let source = self
            .source()
            .map_or(String::new(), |source| source.to_string());
        let about_us = |trouble: &Trouble| trouble.destination == self.target();
        PathReport {
            source,
            destination: self.target().to_string(),
            source_port: port.port(),
            troubles: port
                .troubles()
                .iter()
                .filter(|trouble| about_us(trouble))
                .map(trouble_report)
                .collect(),
            ..PathReport::default()
        }
    }
}

/// What was said of packets, with the names of RFC 792 and RFC 4443.
fn trouble_report(trouble: &Trouble) -> ferriband_admin::Trouble {
    use TroubleKind::{Icmp, Icmp6, Local};
    let kind = match trouble.kind {
        Icmp(3, 3) | Icmp6(1, 4) => "port_unreachable",
        Icmp(3, 1) | Icmp6(1, 3) => "host_unreachable",
        Icmp(3, 4) | Icmp6(2, _) | Local(libc::EMSGSIZE) => "too_big",
        Icmp(3, 9 | 10 | 13) | Icmp6(1, 1) | Local(libc::EPERM | libc::EACCES) => "prohibited",
        Icmp(3, _) | Icmp6(1, _) => "net_unreachable",
        Icmp(..) | Icmp6(..) => "icmp",
        Local(libc::EAGAIN | libc::ENOBUFS | libc::ENOMEM) => "no_room",
        Local(_) => "no_route",
    };
    ferriband_admin::Trouble {
        kind: kind.into(),
        from: trouble.from.map_or(String::new(), |from| from.to_string()),
        code: match trouble.kind {
            Icmp(kind, code) | Icmp6(kind, code) => [kind.into(), code.into()],
            Local(errno) => [errno, 0],
        },
        mtu: trouble.mtu,
        count: trouble.count,
        ago_ms: trouble.at.elapsed().as_millis() as u64,
    }
}
