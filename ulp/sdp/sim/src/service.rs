//! The service thread of a process: it sleeps until the kernel, the peer or its own side has news
//! of the connection, and closes the socket when the program's threads have ended.

use crate::Plant;
use crate::host::{Host, is_running};
use crate::memory::shared;
use crate::world::KERNEL;
use ferriband_sdp_local::{BOX, CONNECTION_OVER, Closing, PEER_ENDED, Reader, Service, Shared};

pub(crate) fn serve(host: &Host<'_>, process: usize) {
    let mut news = KERNEL;
    loop {
        look(host, news);
        if host.agreed() {
            Reader(host).offer();
        }
        let runs = |fiber: usize| host.fates[fiber].process == process && is_running(host, fiber);
        if host.processes[process].exits.get() || !(0..host.fates.len()).any(runs) {
            break;
        }
        news = host.wait_news(None, u64::MAX);
    }
    // the last holder closes
    news = KERNEL;
    while host.holders[host.side].get() == 1 {
        look(host, news);
        Reader(host).want_bytes(BOX);
        let written = host
            .memory
            .borrow()
            .word(shared(1 - host.side, Shared::Head));
        host.closing_head[host.side].set(written);
        let closing = Service(host).may_close();
        if closing != Closing::Wait {
            let resets = closing == Closing::Reset && !host.is_planted(Plant::EndForReset);
            host.resets[host.side].set(resets);
            break;
        }
        news = host.wait_news(None, u64::MAX);
    }
}

/// Whoever waits here hears of a ring itself.
fn look(host: &Host<'_>, news: u8) {
    if news & KERNEL == 0 && !host.is_planted(Plant::RingAnswered) {
        return Service(host).rung();
    }
    let (ended, over) = host.kernel_ends();
    let deaf = host.is_planted(Plant::EndUnheard);
    let ended = if ended && !deaf { PEER_ENDED } else { 0 };
    let over = if over && !deaf { CONNECTION_OVER } else { 0 };
    Service(host).look(ended | over);
}
