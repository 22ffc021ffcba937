//! The service thread of a process: it sleeps until the kernel, the peer or its own side has news of
//! the connection, and closes the socket when the program's threads have ended.

use crate::Plant;
use crate::host::{Host, is_over, is_running};
use crate::world::Sleep;
use ferriband_sdp_local::{CONNECTION_OVER, FUTEX, PEER_ENDED, Reader, Writer};
use ferriband_sdp_proto::change::Phase;

pub(crate) fn serve(host: &Host<'_>, process: usize) {
    loop {
        let (ended, over) = host.kernel_ends();
        let deaf = host.is_planted(Plant::EndUnheard);
        let ended = if ended && !deaf { PEER_ENDED } else { 0 };
        let over = if over && !deaf { CONNECTION_OVER } else { 0 };
        if host.agreed() {
            Reader(host).offer();
        }
        Reader(host).heard(ended | over);
        let writer = Writer(host);
        if ended | over != 0 || writer.is_recalled() || writer.phase() == Phase::Back {
            writer.go_back();
        }
        let runs = |fiber: usize| host.fates[fiber].process == process && is_running(host, fiber);
        if host.processes[process].exits.get() || !(0..host.fates.len()).any(runs) {
            break;
        }
        host.wait_news();
    }
    close(host);
}

/// The last close. What the program has not read is recalled; it waits for the peer only if that
/// has begun to go back by itself, so that no copy of what was read is left to be reset.
fn close(host: &Host<'_>) {
    if host.holders[host.side].get() > 1 {
        return;
    }
    let reader = Reader(host);
    let mut wants = false;
    while let Ok(false) = reader.give_up() {
        if reader.phase() == Phase::Sdp {
            break;
        }
        if wants {
            reader.sleep();
        } else {
            reader.want_bytes(FUTEX);
        }
        wants = !wants;
    }
    while !is_over(host, host.side) && !Writer(host).go_back() {
        host.wait(Sleep::Write);
    }
}
