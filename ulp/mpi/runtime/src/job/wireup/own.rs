//! Our own `mpirun`: it has left the segment and the bells to the ranks, as descriptors that the environment names.

use super::claim::{self, Kin};
use super::{Found, Joined, failed};
use crate::errors::Outcome;
use crate::transport::host::Host;
use crate::transport::host::bell::Bells;
use crate::transport::host::segment::Segment;
use ferriband_launch::{client, inherit};
use ferriband_mpi_proto::segment::{
    BELLS, CROWDED, HOST_FD, LOCAL_RANK, MEMFD, PMI, PROGRAM, SYSTEM_V,
};
use std::env;
use std::os::fd::RawFd;

/// What has become of the descriptor that our `mpirun` has left in PMI_FD.
enum LeftPmi {
    /// It is open.
    Open(RawFd),
    /// It was closed on the way. Its number may be another file's.
    Closed,
}

/// The descriptor that our `mpirun` has left in PMI_FD beside a place in its segment. None if a
/// launcher within the job has left another socket there.
fn left_pmi() -> Option<LeftPmi> {
    env::var_os(HOST_FD)?;
    let left = env::var(PMI).ok()?;
    let (number, name) = left.split_once(' ')?;
    if env::var(client::FD).ok()? != number {
        return None;
    }
    let fd = number.parse().ok()?;
    match inherit::name_of(fd) {
        Some(found) if found == name => Some(LeftPmi::Open(fd)),
        Some(found) if found.starts_with("socket:") => None,
        _ => Some(LeftPmi::Closed),
    }
}

/// Whether PMI_FD is our `mpirun`'s, so that this process takes its place in the segment.
pub fn has_pmi() -> bool {
    left_pmi().is_some()
}

/// Takes the place that `mpirun` has left for this process, if it has.
pub fn join() -> Outcome<Found> {
    let Ok(place) = env::var(HOST_FD) else {
        return Ok(Found::Alone);
    };
    let system_v = place.strip_prefix(SYSTEM_V);
    let place_number = number(HOST_FD, system_v.unwrap_or(&place))?;
    let rank = number(LOCAL_RANK, &variable(LOCAL_RANK)?)?.cast_unsigned();
    let bells = variable(BELLS)?
        .split(',')
        .map(|bell| number(BELLS, bell))
        .collect::<Outcome<Vec<RawFd>>>()?;
    let name = format!("rank {rank} of `ferriband mpirun`");
    // Whoever closed them may have opened others with their numbers, which are not ours to touch.
    let has_segment =
        system_v.is_some() || inherit::is_file(place_number, &format!("/memfd:{MEMFD}"));
    let is_whole = has_segment
        && bells
            .iter()
            .all(|bell| inherit::is_file(*bell, "anon_inode:[eventfd]"));
    if !is_whole {
        return Ok(Found::kin(Kin::Closed, &name));
    }
    let opened = match system_v {
        Some(_) => Segment::attach(place_number),
        None => Segment::open(place_number),
    };
    let segment =
        opened.map_err(|error| failed(&format!("the host segment cannot be used: {error}")))?;
    let ranks = segment.layout().ranks();
    if rank >= ranks || bells.len() != ranks as usize {
        return Err(failed(
            "what the launcher has set does not fit its host segment",
        ));
    }
    let started = segment.started(rank);
    if started.is_some_and(|pid| pid != std::process::id()) && claim::is_fork(started) {
        return Ok(Found::kin(Kin::Fork, &name));
    }
    if let Err(holder) = segment.claim(rank) {
        return Ok(Found::kin(Kin::Later(Some(holder)), &name));
    }
    if system_v.is_none() {
        // The segment has a descriptor of its own.
        drop(inherit::take(place_number));
    }
    for bell in &bells {
        inherit::close_on_exec(*bell);
    }
    if let Some(LeftPmi::Open(fd)) = left_pmi() {
        // What this rank starts is not the rank.
        inherit::close_on_exec(fd);
    }
    Ok(Found::Rank(Joined {
        host: Some(Host::new(segment, Bells::new(bells), rank)),
        is_crowded: env::var(CROWDED).is_ok_and(|value| value == "1"),
        program: env::var(PROGRAM).ok().and_then(|value| value.parse().ok()),
    }))
}

fn variable(name: &str) -> Outcome<String> {
    env::var(name).map_err(|_| failed(&format!("{HOST_FD} is set, but not {name}")))
}

fn number(name: &str, value: &str) -> Outcome<RawFd> {
    value
        .parse::<RawFd>()
        .ok()
        .filter(|fd| *fd >= 0)
        .ok_or_else(|| failed(&format!("{name} is \"{value}\", which no launcher sets")))
}
