//! Topologies that are graphs, distributed or not.
//!
//! Owns: what the program's arrays say of a graph. Must not know: how a communicator is made.

use super::raise::on_comm;
use super::topology::{first, make, no_topology, numbers, placed, show, topology};
use super::values::{put, rank_of};
use crate::coll::create;
use crate::coll::state::Guard;
use crate::constants::*;
use crate::errors::{MpiError, Outcome};
use crate::objects::attr::Attributes;
use crate::objects::info::Info;
use crate::objects::process::process;
use crate::objects::topology::{Distributed, Graph, Topology, check_ranks};
use std::ffi::c_int;
use std::sync::Arc;

/// The graph that a program describes.
unsafe fn drawn(
    guard: &Guard,
    comm: u32,
    nodes: c_int,
    index: *const c_int,
    edges: *const c_int,
) -> Outcome<Graph> {
    // SAFETY: the program's arrays; the last index is the number of edges.
    unsafe {
        let index = numbers(index, nodes, MPI_ERR_ARG)?;
        let count = index.last().copied().unwrap_or(0);
        let edges = numbers(edges, count, MPI_ERR_ARG)?;
        Graph::new(index, edges, guard.point.objects.comms[comm].group.size())
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_graph_create(
    comm: i32,
    nodes: c_int,
    index: *const c_int,
    edges: *const c_int,
    _reorder: c_int,
    newcomm: *mut i32,
) -> c_int {
    let body = |guard: &mut Guard, comm| {
        // SAFETY: the program's arrays.
        let graph = unsafe { drawn(guard, comm, nodes, index, edges) }?;
        first(
            guard,
            comm,
            graph.index.len() as u32,
            Topology::Graph(graph),
        )
    };
    // SAFETY: as above.
    unsafe { make("MPI_Graph_create", comm, newcomm, body) }
}

/// A duplicate with a topology.
fn distribute(guard: &mut Guard, comm: u32, graph: Distributed, info: i32) -> Outcome<Option<u32>> {
    let hints = process().hints(info)?;
    let made = create::dup(guard, comm, Attributes::default(), Info::default())?;
    guard.point.objects.comms[made].info = hints;
    guard.point.objects.comms[made].topology = Some(Arc::new(Topology::Distributed(graph)));
    Ok(Some(made))
}

/// Weights, if there are any: the two constants are addresses that nothing lies at.
unsafe fn weights(list: *const c_int, count: c_int) -> Outcome<Vec<c_int>> {
    if [MPI_UNWEIGHTED, MPI_WEIGHTS_EMPTY].contains(&list.addr()) {
        return Ok(Vec::new());
    }
    // SAFETY: the program's array.
    unsafe { numbers(list, count, MPI_ERR_ARG) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_dist_graph_create_adjacent(
    comm: i32,
    indegree: c_int,
    sources: *const c_int,
    source_weights: *const c_int,
    outdegree: c_int,
    destinations: *const c_int,
    destination_weights: *const c_int,
    info: i32,
    _reorder: c_int,
    newcomm: *mut i32,
) -> c_int {
    let body = |guard: &mut Guard, index: u32| {
        // SAFETY: the program's arrays.
        let graph = unsafe {
            Distributed {
                sources: numbers(sources, indegree, MPI_ERR_ARG)?,
                source_weights: weights(source_weights, indegree)?,
                destinations: numbers(destinations, outdegree, MPI_ERR_ARG)?,
                destination_weights: weights(destination_weights, outdegree)?,
                weighted: source_weights.addr() != MPI_UNWEIGHTED,
            }
        };
        let size = guard.point.objects.comms[index].group.size();
        check_ranks(&graph.sources, size)?;
        check_ranks(&graph.destinations, size)?;
        distribute(guard, index, graph, info)
    };
    // SAFETY: as above.
    unsafe { make("MPI_Dist_graph_create_adjacent", comm, newcomm, body) }
}

/// Each process may name any edges: all hear of all, and keep their own.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_dist_graph_create(
    comm: i32,
    count: c_int,
    sources: *const c_int,
    degrees: *const c_int,
    destinations: *const c_int,
    edge_weights: *const c_int,
    info: i32,
    _reorder: c_int,
    newcomm: *mut i32,
) -> c_int {
    let body = |guard: &mut Guard, index: u32| {
        let weighted = edge_weights.addr() != MPI_UNWEIGHTED;
        // SAFETY: the program's arrays; the degrees say how many destinations there are.
        let (sources, degrees, destinations, weights) = unsafe {
            let sources = numbers(sources, count, MPI_ERR_ARG)?;
            let degrees = numbers(degrees, count, MPI_ERR_ARG)?;
            let edges = degrees.iter().try_fold(0_i32, |sum, degree| {
                let degree = Some(*degree).filter(|degree| *degree >= 0)?;
                sum.checked_add(degree)
            });
            let edges = edges.ok_or_else(|| MpiError::with(MPI_ERR_ARG, "a bad degree"))?;
            let destinations = numbers(destinations, edges, MPI_ERR_ARG)?;
            (
                sources,
                degrees,
                destinations,
                weights(edge_weights, edges)?,
            )
        };
        let size = guard.point.objects.comms[index].group.size();
        check_ranks(&sources, size)?;
        check_ranks(&destinations, size)?;
        let from = sources.iter().zip(&degrees).flat_map(|(source, degree)| {
            std::iter::repeat_n(*source, degree.cast_unsigned() as usize)
        });
        let word = |number: i32| u64::from(number.cast_unsigned());
        let mine: Vec<u64> = from
            .zip(&destinations)
            .enumerate()
            .flat_map(|(at, (from, to))| {
                let weight = weights.get(at).copied().unwrap_or(0);
                [word(from), word(*to), word(weight)]
            })
            .collect();
        let all = create::gather_lists(guard, index, &mine)?.concat();
        let mut graph = Distributed {
            weighted,
            ..Distributed::default()
        };
        let own = word(guard.point.objects.comms[index].rank.cast_signed());
        let number = |word: u64| (word as u32).cast_signed();
        for edge in all.chunks_exact(3) {
            if edge[0] == own {
                graph.destinations.push(number(edge[1]));
                graph.destination_weights.push(number(edge[2]));
            }
            if edge[1] == own {
                graph.sources.push(number(edge[0]));
                graph.source_weights.push(number(edge[2]));
            }
        }
        distribute(guard, index, graph, info)
    };
    // SAFETY: as above.
    unsafe { make("MPI_Dist_graph_create", comm, newcomm, body) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_graph_map(
    comm: i32,
    nodes: c_int,
    index: *const c_int,
    edges: *const c_int,
    rank: *mut c_int,
) -> c_int {
    on_comm("MPI_Graph_map", comm, |guard, comm| {
        // SAFETY: the program's arrays and pointer.
        unsafe {
            let graph = drawn(guard, comm, nodes, index, edges)?;
            placed(guard, comm, graph.index.len() as u32, rank)
        }
    })
}

fn graph(guard: &Guard, comm: u32) -> Outcome<Graph> {
    match topology(guard, comm).as_deref() {
        Some(Topology::Graph(graph)) => Ok(graph.clone()),
        _ => Err(no_topology("graph")),
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_graphdims_get(
    comm: i32,
    nodes: *mut c_int,
    edges: *mut c_int,
) -> c_int {
    on_comm("MPI_Graphdims_get", comm, |guard, index| {
        let graph = graph(guard, index)?;
        // SAFETY: the program's pointers.
        unsafe {
            put(nodes, graph.index.len() as c_int)?;
            put(edges, graph.edges.len() as c_int)
        }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_graph_get(
    comm: i32,
    index_room: c_int,
    edge_room: c_int,
    index: *mut c_int,
    edges: *mut c_int,
) -> c_int {
    on_comm("MPI_Graph_get", comm, |guard, comm| {
        let graph = graph(guard, comm)?;
        // SAFETY: the program's arrays.
        unsafe {
            show(&graph.index, index, index_room)?;
            show(&graph.edges, edges, edge_room)
        }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_graph_neighbors_count(
    comm: i32,
    rank: c_int,
    count: *mut c_int,
) -> c_int {
    on_comm("MPI_Graph_neighbors_count", comm, |guard, index| {
        let graph = graph(guard, index)?;
        let rank = rank_of(guard, index, rank, MPI_ERR_RANK)?;
        // SAFETY: the program's pointer.
        unsafe { put(count, graph.of(rank).len() as c_int) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_graph_neighbors(
    comm: i32,
    rank: c_int,
    room: c_int,
    neighbors: *mut c_int,
) -> c_int {
    on_comm("MPI_Graph_neighbors", comm, |guard, index| {
        let graph = graph(guard, index)?;
        let rank = rank_of(guard, index, rank, MPI_ERR_RANK)?;
        // SAFETY: the program's array.
        unsafe { show(graph.of(rank), neighbors, room) }
    })
}

fn distributed(guard: &Guard, comm: u32) -> Outcome<Distributed> {
    match topology(guard, comm).as_deref() {
        Some(Topology::Distributed(graph)) => Ok(graph.clone()),
        _ => Err(no_topology("distributed graph")),
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_dist_graph_neighbors_count(
    comm: i32,
    indegree: *mut c_int,
    outdegree: *mut c_int,
    weighted: *mut c_int,
) -> c_int {
    on_comm("MPI_Dist_graph_neighbors_count", comm, |guard, index| {
        let graph = distributed(guard, index)?;
        // SAFETY: the program's pointers.
        unsafe {
            put(indegree, graph.sources.len() as c_int)?;
            put(outdegree, graph.destinations.len() as c_int)?;
            put(weighted, c_int::from(graph.weighted))
        }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_dist_graph_neighbors(
    comm: i32,
    in_room: c_int,
    sources: *mut c_int,
    source_weights: *mut c_int,
    out_room: c_int,
    destinations: *mut c_int,
    destination_weights: *mut c_int,
) -> c_int {
    on_comm("MPI_Dist_graph_neighbors", comm, |guard, index| {
        let graph = distributed(guard, index)?;
        // Nobody asks for weights by a null pointer or by the constants.
        let wants = |list: *mut c_int| {
            graph.weighted && ![0, MPI_UNWEIGHTED, MPI_WEIGHTS_EMPTY].contains(&list.addr())
        };
        // SAFETY: the program's arrays.
        unsafe {
            show(&graph.sources, sources, in_room)?;
            show(&graph.destinations, destinations, out_room)?;
            if wants(source_weights) {
                show(&graph.source_weights, source_weights, in_room)?;
            }
            if wants(destination_weights) {
                show(&graph.destination_weights, destination_weights, out_room)?;
            }
        }
        Ok(())
    })
}
