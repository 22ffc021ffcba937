//! The judge of multicast tables: whether a packet of each member comes to all others, once, and to nobody else.

use crate::graph::{Graph, Peer};
use crate::routing::multicast::{Ports, ports};
use ferriband_wire::Guid;
use std::collections::BTreeMap;
use std::fmt;

/// A group: its rows by switch, its members as switches' ports (0: the switch itself), and the service level of its packets.
#[derive(Clone, Copy, Debug)]
pub struct Group<'a> {
    /// The row of each switch, in their order.
    pub rows: &'a [Ports],
    /// Who shall get each other's packets.
    pub members: &'a [(u32, u8)],
    /// Their service level.
    pub level: u8,
}

/// What is wrong with a group's rows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MulticastWrong {
    /// A member gets none.
    Missed,
    /// It gets this many.
    Copies(u32),
    /// A port that is none of a member gets some.
    Stray,
    /// They leave by a port without a link.
    Unplugged,
    /// They come to a switch by a port by which they came before.
    Round,
}

/// Packets of a member that do not come as they should.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MulticastFault {
    /// The sender's switch and port.
    pub from: (Guid, u8),
    /// Where it goes wrong: a switch and its port.
    pub at: (Guid, u8),
    /// How.
    pub wrong: MulticastWrong,
}

impl fmt::Display for MulticastFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (from, at) = (self.from, self.at);
        write!(
            f,
            "multicast packets from port {} of switch {}: ",
            from.1, from.0
        )?;
        match self.wrong {
            MulticastWrong::Missed => {
                write!(f, "the member at port {} of {} gets none", at.1, at.0)
            }
            MulticastWrong::Copies(count) => {
                write!(
                    f,
                    "the member at port {} of {} gets {count} copies",
                    at.1, at.0
                )
            }
            MulticastWrong::Stray => write!(f, "port {} of {} is none of a member", at.1, at.0),
            MulticastWrong::Unplugged => write!(f, "port {} of {} has no link", at.1, at.0),
            MulticastWrong::Round => write!(f, "they come to port {} of {} again", at.1, at.0),
        }
    }
}

/// Follows a packet from each member: the faults, the first `most` of them.
pub fn multicast(graph: &Graph, group: &Group<'_>, most: usize) -> Vec<MulticastFault> {
    let mut faults = Vec::new();
    for &from in group.members {
        if faults.len() >= most {
            break;
        }
        follow(graph, group, from, &mut faults);
    }
    faults.truncate(most);
    faults
}

fn follow(graph: &Graph, group: &Group<'_>, from: (u32, u8), faults: &mut Vec<MulticastFault>) {
    let named = |at: (u32, u8)| (graph.switches()[at.0 as usize].guid, at.1);
    let mut wrong = |at, wrong| {
        faults.push(MulticastFault {
            from: named(from),
            at: named(at),
            wrong,
        });
    };
    let others = group.members.iter().filter(|member| **member != from);
    let mut copies: BTreeMap<(u32, u8), u32> = others.map(|member| (*member, 0)).collect();
    let mut came = BTreeMap::new();
    let mut way = vec![from];
    while let Some((switch, input)) = way.pop() {
        if came.insert((switch, input), ()).is_some() {
            wrong((switch, input), MulticastWrong::Round);
            continue;
        }
        let row = group.rows.get(switch as usize).copied().unwrap_or_default();
        for port in ports(&row).filter(|port| *port != input) {
            let at = (switch, port);
            match (port, graph.peer(switch, port)) {
                (1.., Peer::Switch { switch, port }) => way.push((switch, port)),
                (1.., Peer::Nothing) => wrong(at, MulticastWrong::Unplugged),
                _ => match copies.get_mut(&at) {
                    Some(count) => *count += 1,
                    None => wrong(at, MulticastWrong::Stray),
                },
            }
        }
    }
    for (member, count) in copies {
        match count {
            0 => wrong(member, MulticastWrong::Missed),
            1 => {}
            count => wrong(member, MulticastWrong::Copies(count)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::{Scope, deadlock_with_groups};
    use crate::routing::multicast::{Tree, add};
    use crate::routing::{Engine, Options};
    use ferriband_topology::generate::generate;

    fn members(graph: &Graph) -> Vec<(u32, u8)> {
        graph.ends().iter().filter_map(|end| end.attached).collect()
    }

    #[test]
    fn every_member_gets_one_copy_on_any_shape_and_updown_stays_free_of_deadlocks() {
        for shape in [
            "fat-tree:4",
            "ring:5:2",
            "torus:4x4:1",
            "dragonfly:2x2x1",
            "tutorial",
            "fat-tree:4x4x2",
        ] {
            let graph = Graph::from_topology(&generate(shape).unwrap(), 0).unwrap();
            let tree = Tree::new(&graph);
            let all = members(&graph);
            let some: Vec<_> = all.iter().step_by(3).copied().collect();
            let one = vec![all[0]];
            let switches: Vec<_> = [(0, 0), all[1]].into();
            let everybody: Vec<_> = (0..graph.switches().len() as u32)
                .map(|at| (at, 0))
                .collect();
            let rows = tree.rows(&everybody);
            let group = Group {
                rows: &rows,
                members: &everybody,
                level: 0,
            };
            assert_eq!(multicast(&graph, &group, 9), [], "{shape}");
            let groups = [all, some, one, switches];
            let rows: Vec<Vec<Ports>> = groups.iter().map(|group| tree.rows(group)).collect();
            let groups: Vec<Group<'_>> = groups
                .iter()
                .zip(&rows)
                .map(|(members, rows)| Group {
                    rows,
                    members,
                    level: 0,
                })
                .collect();
            for group in &groups {
                assert_eq!(multicast(&graph, group, 9), [], "{shape}");
            }
            let updn = (Engine::find("updn").unwrap().route)(&graph, &Options::default()).unwrap();
            let found = deadlock_with_groups(&graph, &[&updn], Scope::All, &groups);
            assert_eq!(found, None, "{shape}");
        }
    }

    #[test]
    fn faults_in_rows_are_found() {
        let graph = Graph::from_topology(&generate("ring:4:1").unwrap(), 0).unwrap();
        let all = members(&graph);
        let tree = Tree::new(&graph);
        let good = tree.rows(&all);
        let with = |change: &dyn Fn(&mut Vec<Ports>), members: &[(u32, u8)]| {
            let mut rows = good.clone();
            change(&mut rows);
            let group = Group {
                rows: &rows,
                members,
                level: 0,
            };
            multicast(&graph, &group, 100)
                .into_iter()
                .map(|fault| fault.wrong)
                .collect::<Vec<_>>()
        };
        assert_eq!(with(&|_| (), &all), []);
        let missed = with(&|rows| rows[all[0].0 as usize] = [0; 4], &all);
        assert!(missed.contains(&MulticastWrong::Missed), "{missed:?}");
        let stray = with(&|_| (), &all[1..]);
        assert!(stray.contains(&MulticastWrong::Stray), "{stray:?}");
        let unplugged = with(&|rows| add(&mut rows[0], 30), &all);
        assert!(
            unplugged.contains(&MulticastWrong::Unplugged),
            "{unplugged:?}"
        );
        // both ways round the ring at every switch
        let round = with(
            &|rows| {
                rows.iter_mut()
                    .for_each(|row| (1..3).for_each(|port| add(row, port)))
            },
            &all,
        );
        assert!(
            round
                .iter()
                .any(|wrong| matches!(wrong, MulticastWrong::Copies(2..))),
            "{round:?}"
        );
        assert!(round.contains(&MulticastWrong::Round), "{round:?}");
        // and that can deadlock, which is found as well
        let mut rows = good.clone();
        rows.iter_mut()
            .for_each(|row| (1..3).for_each(|port| add(row, port)));
        let group = Group {
            rows: &rows,
            members: &all,
            level: 0,
        };
        let updn = (Engine::find("updn").unwrap().route)(&graph, &Options::default()).unwrap();
        assert_eq!(
            deadlock_with_groups(&graph, &[&updn], Scope::Hosts, &[]),
            None
        );
        assert!(deadlock_with_groups(&graph, &[&updn], Scope::Hosts, &[group]).is_some());
    }
}
