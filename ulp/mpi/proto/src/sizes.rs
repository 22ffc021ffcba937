//! Which way a message goes, by its length: one table for each transport.
//!
//! Owns: the lengths, and who moves long messages, as settings say it. The runtime fills its tables
//! from here when it connects, and `ferriband mpi-info` prints them. Must not know: how a message
//! is moved.

use crate::segment::{PLACE, PLACING};
use crate::settings::{Values, plan};

/// Up to which length a message goes which way by memory that two ranks of a host share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedSizes {
    /// Longest message that is sent eagerly, whatever the channel's block.
    pub eager: usize,
    /// Longest one that is sent eagerly as far as a block takes it.
    pub eager_near: usize,
    /// Shortest and longest message that goes by an exchange buffer; none does if the first is
    /// longer.
    pub exchange: (usize, usize),
    /// Whether the receiver reads longer ones from the sender's memory; else they come in pieces.
    pub reads_peers: bool,
    /// Shortest message that both sides copy; none: no message is.
    pub both_copy: Option<u64>,
}

/// Up to which length a message goes which way by verbs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VerbsSizes {
    /// Longest message that is sent eagerly.
    pub eager: usize,
    /// Longest one that is sent eagerly by packets of our adapter.
    pub eager_packets: usize,
    /// Who moves longer ones.
    pub rendezvous: Rendezvous,
    /// Bytes of one of its READs or WRITEs.
    pub piece: usize,
}

/// Who moves a long message by verbs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rendezvous {
    /// The sender, by SEND, where it goes by packets of our adapter, else the receiver.
    Auto,
    /// The receiver, by READ.
    Get,
    /// The sender, by WRITE.
    Put,
    /// The sender, by SEND, into the receive that the receiver has posted for it on a queue pair of
    /// its own; by WRITE what does not lie in one run of bytes.
    Send,
}

/// A row of such a table: messages of so many bytes go so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Bytes of the shortest.
    pub from: u64,
    /// Bytes of the longest; none: all that are longer.
    pub to: Option<u64>,
    /// How the message and its receive come together.
    pub protocol: Protocol,
    /// What moves the bytes, and on what that depends.
    pub way: String,
}

/// How a message and its receive come together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// The bytes go at once.
    Eager,
    /// The bytes go at once, by a buffer that two ranks use in turn.
    Exchange,
    /// The receiver is told of the message, and the bytes go once a receive has met it.
    Rendezvous,
}

impl Protocol {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Eager => "eager",
            Self::Exchange => "exchange buffer",
            Self::Rendezvous => "rendezvous",
        }
    }
}

/// A longest message: who has set `eager` alone means it everywhere.
fn longest(values: &Values, name: &str) -> usize {
    let says_so = values.is_set(name) || !values.is_set("eager");
    values.number(if says_so { name } else { "eager" }) as usize
}

impl SharedSizes {
    /// As settings have it.
    pub fn of(values: &Values) -> Self {
        let eager = values.number("eager") as usize;
        let eager_near = longest(values, "eager_near");
        let least = match values.number("swap") {
            0 => usize::MAX,
            least => least as usize,
        };
        Self {
            eager,
            eager_near,
            exchange: (least, eager.max(eager_near).min(PLACE as usize)),
            reads_peers: values.flag("reads_peers"),
            both_copy: Some(values.number("both_copy")).filter(|least| *least != 0),
        }
    }

    /// Where the channels' blocks take messages of `longest` bytes.
    pub fn within(self, longest: usize) -> Self {
        Self {
            eager_near: self.eager_near.min(longest),
            ..self
        }
    }

    /// The table, in the order of what is tried.
    pub fn rows(&self) -> Vec<Row> {
        let mut rows = Vec::new();
        let (least, most) = (self.exchange.0 as u64, self.exchange.1 as u64);
        if least <= most {
            rows.push(Row {
                from: least,
                to: Some(most),
                protocol: Protocol::Exchange,
                way: format!(
                    "a buffer that the pair uses in turn, while messages go to and fro, in jobs of up to {PLACING} ranks; else as below"
                ),
            });
        }
        rows.push(Row {
            from: 0,
            to: Some(self.eager as u64),
            protocol: Protocol::Eager,
            way: "a record in the receiver's block of shared memory (Veloblock)".to_owned(),
        });
        let eager = self.eager.max(self.eager_near) as u64;
        if eager > self.eager as u64 {
            rows.push(Row {
                from: self.eager as u64 + 1,
                to: Some(eager),
                protocol: Protocol::Eager,
                way: "a record in that block, where it takes one so long; else as longer ones"
                    .to_owned(),
            });
        }
        rows.push(Row {
            from: eager + 1,
            to: None,
            protocol: Protocol::Rendezvous,
            way: self.long(),
        });
        rows
    }

    fn long(&self) -> String {
        if !self.reads_peers {
            return "in pieces by the channel".to_owned();
        }
        let both = self.both_copy.map_or(String::new(), |least| {
            format!(
                ", and from {least} bytes on the sender writes the half of it if it waits and there is a core for each rank"
            )
        });
        format!(
            "the receiver reads it from the sender's memory{both}; where the kernel forbids that, in pieces by the channel"
        )
    }
}

impl VerbsSizes {
    /// As settings have it.
    pub fn of(values: &Values) -> Self {
        Self {
            eager: values.number("eager") as usize,
            eager_packets: longest(values, "eager_packets"),
            rendezvous: match values.text("rndv") {
                "get" => Rendezvous::Get,
                "put" => Rendezvous::Put,
                "send" => Rendezvous::Send,
                _ => Rendezvous::Auto,
            },
            piece: values.number("rndv_piece") as usize,
        }
    }

    /// The table. `values` say how short messages go.
    pub fn rows(&self, values: &Values) -> Vec<Row> {
        let mut rows = vec![Row {
            from: 0,
            to: Some(self.eager as u64),
            protocol: Protocol::Eager,
            way: short(values),
        }];
        let eager = self.eager.max(self.eager_packets) as u64;
        if eager > self.eager as u64 && values.number("bundle") != 0 {
            rows.push(Row {
                from: self.eager as u64 + 1,
                to: Some(eager),
                protocol: Protocol::Eager,
                way: "SEND where our adapter makes packets; else as longer ones".to_owned(),
            });
        }
        let piece = self.piece;
        let by_pieces = format!("READs and WRITEs of {piece} bytes at most");
        let way = match self.rendezvous {
            Rendezvous::Put => "RDMA WRITE by the sender",
            Rendezvous::Get => "RDMA READ by the receiver",
            Rendezvous::Send => "SEND into the program's buffer, or RDMA WRITE by the sender",
            Rendezvous::Auto => {
                "SEND into the program's buffer where our adapter makes packets, else RDMA READ by the receiver"
            }
        };
        rows.push(Row {
            from: rows.last().and_then(|row| row.to).unwrap_or(0) + 1,
            to: None,
            protocol: Protocol::Rendezvous,
            way: format!("{way}; {by_pieces}"),
        });
        rows
    }
}

fn short(values: &Values) -> String {
    let (plan, grows) = plan(values);
    match values.number("fast_channels") {
        0 => "SEND; the RDMA fast path is off".to_owned(),
        channels => format!(
            "SEND; after {} messages RDMA WRITE into a block of {} bytes ({}{}), for {channels} peers at most",
            values.number("open_after"),
            plan.size(),
            plan.design().name(),
            if grows { ", growing" } else { "" },
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::SETTINGS;

    fn set(pairs: &[(&str, &str)]) -> Values {
        let mut values = SETTINGS.defaults();
        for (name, value) in pairs {
            values.set(name, value).expect("a value");
        }
        values
    }

    /// Each length has a row of its own, besides those of the exchange buffer.
    fn is_whole(rows: &[Row]) -> bool {
        let mut next = 0;
        for row in rows.iter().filter(|row| row.protocol != Protocol::Exchange) {
            if row.from != next {
                return false;
            }
            next = row.to.map_or(0, |to| to + 1);
        }
        next == 0
    }

    #[test]
    fn what_is_set_for_all_holds_where_nothing_else_is_said() {
        let (near, far) = (SharedSizes::of(&set(&[])), VerbsSizes::of(&set(&[])));
        assert_eq!((near.eager, near.eager_near), (8128, 64 << 10));
        assert_eq!((near.exchange, near.both_copy), ((256, 65536), Some(65536)));
        assert_eq!((far.eager, far.eager_packets), (8128, 64 << 10));
        assert_eq!((far.rendezvous, far.piece), (Rendezvous::Auto, 1 << 20));
        let short = set(&[("eager", "4K")]);
        let (near, far) = (SharedSizes::of(&short), VerbsSizes::of(&short));
        assert_eq!((near.eager_near, far.eager_packets), (4096, 4096));
        assert_eq!(near.exchange, (256, 4096));
        assert_eq!(near.within(1000).eager_near, 1000);
        let other = set(&[("eager", "4K"), ("eager_near", "16K"), ("both_copy", "0")]);
        let near = SharedSizes::of(&other);
        assert_eq!((near.exchange.1, near.both_copy), (16384, None));
        let scheme = |name| VerbsSizes::of(&set(&[("rndv", name)])).rendezvous;
        assert_eq!(scheme("put"), Rendezvous::Put);
        assert_eq!(scheme("get"), Rendezvous::Get);
        assert_eq!(scheme("send"), Rendezvous::Send);
    }

    #[test]
    fn each_length_has_its_row() {
        for pairs in [
            &[][..],
            &[("eager", "1K")],
            &[("eager", "0"), ("swap", "0")],
            &[("bundle", "0"), ("reads_peers", "0")],
            &[("eager_near", "100"), ("eager_packets", "100")],
        ] {
            let values = set(pairs);
            let near = SharedSizes::of(&values).rows();
            let far = VerbsSizes::of(&values).rows(&values);
            assert!(is_whole(&near) && is_whole(&far), "{pairs:?}");
        }
        let all = SharedSizes::of(&set(&[])).rows();
        assert_eq!((all[0].protocol, all.len()), (Protocol::Exchange, 4));
        let none = SharedSizes::of(&set(&[("swap", "0")])).rows();
        assert_eq!(none.len(), 3);
        let off = set(&[("fast_channels", "0"), ("rndv", "put")]);
        let far = VerbsSizes::of(&off).rows(&off);
        assert!(far[0].way.contains("off") && far[2].way.starts_with("RDMA WRITE by the sender"));
    }
}
