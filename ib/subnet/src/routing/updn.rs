//! UpDown: paths go up towards a root first, then down; never up again, so nothing waits in a circle (papers/000 section II-E).
//!
//! On small trees the tables are OpenSM's. In large ones it takes all switches for roots, so that its tables are MinHop's; and on other shapes it keeps one direction for each switch while it searches, finds paths
//! that go up again, or gives up, as on rings, tori and meshes, where its detection of roots finds none.
//! Roots do not reach each other where nothing above joins them, as with OpenSM: they have no hosts.

use super::hops::{Hops, ranks};
use super::{Options, RouteError, Routing, balance};
use crate::graph::Graph;
use std::cmp::Reverse;

/// A switch is a root if more than this part of all end ports is equally far from it, ...
const MOST: (u32, u32) = (9, 10);
/// ... and not more than this part at any other distance.
const FEW: (u32, u32) = (1, 20);

pub(super) fn route(graph: &Graph, options: &Options) -> Result<Routing, RouteError> {
    let given = given_roots(graph, options)?;
    let shortest = given.is_empty().then(|| Hops::shortest(graph));
    let found = shortest.as_ref().map(|hops| detected_roots(graph, hops));
    let roots = found.filter(|roots| !roots.is_empty()).unwrap_or(given);
    let centre = || Some(vec![centre(graph, shortest.as_ref()?)?]);
    let alone = roots.is_empty();
    let roots = if alone {
        centre().unwrap_or_default()
    } else {
        roots
    };
    let mut hops = Hops::directed(graph, heights(graph, &roots));
    if let (Err(_), false, Some(centre)) = (all_hosts_meet(graph, &hops, "updn"), alone, centre()) {
        // trees side by side, each with roots of its own
        hops = Hops::directed(graph, heights(graph, &centre));
    }
    all_hosts_meet(graph, &hops, "updn")?;
    Ok(Routing::plain(balance::tables(graph, &hops, false)))
}

/// A link between switches, as UpDown sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UpLink {
    /// Its lower end: switch and port.
    pub lower: (u32, u8),
    /// Its upper end.
    pub upper: (u32, u8),
}

/// How far each switch is from the nearest of some roots (None: not at all), and which end of each link is up: the one nearer to a root, of equally near ones that with the lower GUID.
///
/// # Errors
/// A root that is no switch.
pub fn directions(
    graph: &Graph,
    options: &Options,
) -> Result<(Vec<Option<u32>>, Vec<UpLink>), RouteError> {
    let roots = given_roots(graph, options)?;
    let heights = heights(graph, &roots);
    let mut links = Vec::new();
    for from in 0..graph.switches().len() as u32 {
        let up = graph
            .links(from)
            .filter(|link| heights[link.1 as usize] > heights[from as usize]);
        links.extend(up.map(|(port, to, back)| UpLink {
            lower: (from, port),
            upper: (to, back),
        }));
    }
    Ok((ranks(graph, &roots), links))
}

/// The roots that the user named.
pub(super) fn given_roots(graph: &Graph, options: &Options) -> Result<Vec<u32>, RouteError> {
    let find = |guid| {
        let mut switches = (0..).zip(graph.switches());
        let found = switches.find(|(_, switch)| switch.guid == guid);
        found
            .map(|(index, _)| index)
            .ok_or(RouteError::NoSuchRoot(guid))
    };
    options.roots.iter().map(|&guid| find(guid)).collect()
}

/// Switches from which nearly all end ports are equally far: the top of a fat tree. Empty: there is no top.
///
/// In a large tree that is true of all switches, since the end ports near by are few; so of these, those nearest to the end ports on average, give or
/// take a tenth.
fn detected_roots(graph: &Graph, hops: &Hops) -> Vec<u32> {
    let hosts = graph.hosts();
    let all: u32 = hosts.iter().sum();
    let mut roots = Vec::new();
    for switch in 0..graph.switches().len() as u32 {
        let mut at = [0_u32; 256];
        for (to, &hosts) in (0..).zip(&hosts) {
            if let Some(hops) = hops.between(switch, to) {
                at[usize::from(hops)] += hosts;
            }
        }
        let over = |part: (u32, u32)| {
            at.iter()
                .filter(|&&count| count * part.1 > all * part.0)
                .count()
        };
        if over(MOST) == 1 && over(FEW) == 1 {
            let far = (0_u64..)
                .zip(at)
                .map(|(hops, count)| hops * u64::from(count));
            roots.push((switch, far.sum::<u64>()));
        }
    }
    let least = roots.iter().map(|root| root.1).min().unwrap_or(0);
    roots.retain(|root| root.1 * 10 <= least * 11);
    roots.into_iter().map(|root| root.0).collect()
}

/// The switch from which the end ports are nearest, on the whole; the first of several. None where hosts are joined without a switch.
fn centre(graph: &Graph, hops: &Hops) -> Option<u32> {
    let hosts = graph.hosts();
    let far = |&from: &u32| {
        let ways = (0..).zip(&hosts);
        let ways = ways.map(|(to, &hosts)| {
            u64::from(hosts) * hops.between(from, to).map_or(1 << 16, u64::from)
        });
        ways.sum::<u64>()
    };
    let switches = 0..graph.switches().len() as u32;
    switches.min_by_key(far)
}

/// How high each switch stands over the roots that are found, or the centre.
pub(super) fn tree_heights(graph: &Graph) -> Vec<u32> {
    let hops = Hops::shortest(graph);
    let mut roots = detected_roots(graph, &hops);
    if roots.is_empty() {
        roots.extend(centre(graph, &hops));
    }
    heights(graph, &roots)
}

/// How high each switch stands: the nearer to a root, and then the lower its GUID, the higher.
fn heights(graph: &Graph, roots: &[u32]) -> Vec<u32> {
    let ranks = ranks(graph, roots);
    let key = |&switch: &u32| {
        let at = switch as usize;
        let rank = ranks[at].unwrap_or(u32::MAX);
        Reverse((rank, graph.switches()[at].guid.0, switch))
    };
    by_order(graph, key)
}

/// The place of each switch when they are sorted by a key.
pub(super) fn by_order<K: Ord>(graph: &Graph, key: impl Fn(&u32) -> K) -> Vec<u32> {
    let mut switches: Vec<u32> = (0..graph.switches().len() as u32).collect();
    switches.sort_by_key(key);
    let mut places = vec![0; switches.len()];
    for (place, &switch) in (0..).zip(&switches) {
        places[switch as usize] = place;
    }
    places
}

/// Every switch with hosts has a path to every other.
pub(super) fn all_hosts_meet(
    graph: &Graph,
    hops: &Hops,
    engine: &'static str,
) -> Result<(), RouteError> {
    let hosts = graph.hosts();
    let with = || (0..).zip(&hosts).filter(|(_, hosts)| **hosts > 0);
    for (to, _) in with() {
        for (from, _) in with() {
            if hops.between(from, to).is_none() {
                let guid = |switch: u32| graph.switches()[switch as usize].guid;
                return Err(RouteError::NoRoute {
                    engine,
                    from: guid(from),
                    to: guid(to),
                });
            }
        }
    }
    Ok(())
}
