//! The beginning and the end: what the launcher has left, and the last barrier.

use crate::coll::state::{Guard, Mpi};
use crate::coll::{self, choose};
use crate::constants::MPI_THREAD_MULTIPLE;
use crate::errors::Outcome;
use crate::ground::job::Job;
use crate::job::settings::Chosen;
use crate::job::wait::wait_for;
use crate::job::wireup::{self, Found};
use crate::objects::comms::{SELF, WORLD};
use crate::p2p::runtime::Runtime;
use crate::trace;
use crate::transport::Transports;
use crate::transport::host::kernel;
use crate::transport::limits::{Limits, SharedLimits, Wanted};
use crate::transport::round::Owner;
use ferriband_mpi_proto::segment::Life;
use std::path::Path;
use std::time::{Duration, Instant};

/// Rounds of polling before the core is given away: about 20 microseconds.
const SPINS: u32 = 2000;

/// Nobody waits longer for others that have still to leave.
const LINGER: Duration = Duration::from_secs(5);

/// The runtime of this process: a rank if a launcher has left what a rank needs, else alone.
pub fn start(threads: i32) -> Outcome<Mpi> {
    let chosen = Chosen::read()?;
    let (joined, is_kin) = match wireup::join(&chosen.engine)? {
        Found::Rank(joined) => (Some(joined), false),
        Found::Kin => (None, true),
        Found::Alone => (None, false),
    };
    let is_crowded = joined.as_ref().is_some_and(|joined| joined.is_crowded);
    let program = joined.as_ref().and_then(|joined| joined.program);
    let host = joined.and_then(|joined| joined.host);
    let limits = SharedLimits {
        reads_peers: chosen.shared.reads_peers,
        // Where cores are short a sender that has begun may be kept from going on, and its receiver
        // would wait for it.
        both_copy: chosen.shared.both_copy.filter(|_| !is_crowded),
        large_pages: chosen.large_pages,
    };
    let job = Job {
        spins: if is_crowded { 0 } else { SPINS },
        // What is asked of a job is not asked of what its ranks start.
        stats: chosen.stats && !is_kin,
        threads: threads.min(MPI_THREAD_MULTIPLE),
        program: program.unwrap_or(0),
    };
    if let Some(host) = &host {
        host.set_life(Life::Alive);
        kernel::let_ranks_read();
    }
    let transports = Transports::new(host, chosen.same_host, chosen.shared, limits);
    let mut runtime = Mpi::new(Runtime::new(transports, job)?);
    runtime.set_table(choose::table(&chosen.coll, chosen.coll_table.as_deref())?);
    for comm in [WORLD, SELF] {
        runtime.point.objects.comms[comm].errhandler = chosen.errhandler;
    }
    runtime.note_fatal();
    if let Some(dir) = chosen.trace.as_ref().filter(|_| !is_kin) {
        begin_trace(&runtime, dir, chosen.trace_events)?;
    }
    if runtime.point.rank == 0 && !is_kin {
        for stranger in &chosen.strangers {
            complain!("ferriband MPI: {stranger}");
        }
    }
    reach_others(&mut runtime.transports, &chosen)?;
    Ok(runtime)
}

/// Writes down from here on what this rank does.
fn begin_trace(runtime: &Runtime, dir: &Path, events: u64) -> Outcome {
    let (ranks, job) = match &runtime.transports.host {
        Some(host) => (host.ranks(), host.secret()),
        None => (1, u64::from(std::process::id())),
    };
    let whose = trace::Whose {
        rank: runtime.point.rank,
        ranks,
        job,
        label: &format!("rank {}", runtime.point.rank),
        events,
    };
    trace::begin(dir, &whose)
}

/// Opens what other ranks are reached by, and tells those that share no memory with this one how it
/// is reached.
fn reach_others(transports: &mut Transports, chosen: &Chosen) -> Outcome {
    let host = transports.host.as_ref();
    let wanted = Wanted {
        name: chosen.device.as_deref(),
        far: host.is_some_and(|host| !host.is_alone()),
        timeout: chosen.timeout,
        registration: chosen.registration,
        limits: Limits {
            eager_packets: chosen.verbs.eager_packets,
            rendezvous: chosen.verbs.rendezvous,
            bundle: chosen.bundle,
            piece: chosen.verbs.piece,
            fast: chosen.fast,
            acks: chosen.acks,
            heal: chosen.heal,
        },
    };
    let card = transports.open(wanted)?;
    let has_far = transports.host.as_ref().is_some_and(wireup::has_far_ranks);
    let Some(card) = card.filter(|_| has_far) else {
        return Ok(());
    };
    let port = transports.open_card_port();
    match &transports.host {
        Some(host) => wireup::exchange(host, &card, port.as_ref()),
        None => Ok(()),
    }
}

/// Waits for all ranks and for what is still to be sent; without sessions this rank may go.
pub fn finish(guard: &mut Guard) -> Outcome {
    let is_last = guard.point.objects.sessions.is_empty();
    // What has gone without a word would be waited for for ever.
    guard.transports.close()?;
    wait_for(guard, |guard| guard.transports.is_drained())?;
    // Without those that have died, or die meanwhile, there is no barrier: the others do not wait.
    if !guard.point.objects.comms[WORLD].broken
        && let Err(error) = coll::barrier(guard, WORLD)
        && !guard.point.objects.comms[WORLD].broken
    {
        return Err(error);
    }
    if is_last {
        depart(guard)
    } else {
        guard.transports.reopen();
        Ok(())
    }
}

/// The last session ends, and there is no world: there is nobody to wait for.
pub fn leave(guard: &mut Guard) -> Outcome {
    // Nobody waits for who may still ask this rank.
    guard.part_from_agreements()?;
    guard.transports.close()?;
    depart(guard)
}

/// Waits for what is still to be sent, and tells the launcher that this rank may go.
fn depart(guard: &mut Guard) -> Outcome {
    guard.look_for_losses();
    if guard.point.impaired {
        guard.settle_due()?;
        guard.part_from_agreements()?;
    }
    wait_for(guard, |guard| {
        guard.point.stalled.is_empty() && guard.transports.is_drained()
    })?;
    if let Some(host) = &guard.transports.host {
        host.set_life(Life::Finalized);
        // Who waits for an answer to what a death has ended sleeps, and gets none.
        let is_waited_for = |rank: &u32| *rank != host.me() && host.is_near(*rank);
        if guard
            .point
            .objects
            .comms
            .get(WORLD)
            .is_some_and(|world| world.broken)
        {
            (0..host.ranks())
                .filter(is_waited_for)
                .for_each(|rank| host.ring(rank));
        }
    }
    if guard.job.stats {
        guard.transports.tell(guard.point.rank);
    }
    guard.transports.leave_report();
    linger(guard);
    wireup::leave();
    Ok(())
}

/// Answers peers that wait for acknowledgements of their last messages, until all are content. The
/// device stays: a session may begin, and the others know this rank by it.
fn linger(guard: &mut Guard) {
    let begun = Instant::now();
    // What ranks say in another segment is not seen here; their engine says it.
    let has_far = guard
        .transports
        .host
        .as_ref()
        .is_some_and(wireup::has_far_ranks);
    if has_far {
        wireup::begin_last_fence();
    }
    let mut is_passed = !has_far;
    while guard.transports.has_net() && begun.elapsed() < LINGER {
        is_passed = is_passed || wireup::is_last_fence_over();
        if is_passed && !is_needed(guard, has_far) {
            break;
        }
        // What fails now fails for somebody who has gone.
        let _ = Transports::look_at_device(&mut guard.p2p);
        let _ = guard.unstall();
        std::thread::sleep(Duration::from_micros(200));
    }
    guard.transports.reopen();
    guard.transports.rest();
}

/// Whether a rank still needs something of this one's transports. The dead want nothing. Those of
/// another segment are not seen.
fn is_needed(guard: &Guard, has_far: bool) -> bool {
    let mut peers = (0..).zip(&guard.point.peers);
    peers.any(|(rank, peer)| !peer.lost && guard.transports.is_needed_by(rank, !has_far))
}
