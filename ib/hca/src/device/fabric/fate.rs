//! What became of packets that got no answer: the fabric's process knows, whoever manages, and what
//! it says is written down for `ferriband why`.
//!
//! Owns: the question, from a thread of its own, because a queue pair does not wait for it. Must
//! not know: what a program makes of the silence.

use std::sync::atomic::{AtomicUsize, Ordering};

use ferriband_admin::PathLost;
use ferriband_attach::Link;
use ferriband_attach::ask::{Answer, Ask, PathEnd};
use ferriband_fork::PerProcess;
use ferriband_transport::types::AddressVector;

use crate::base::incident;
use crate::device::fabric::{host, told};

/// Questions at a time. A thousand queue pairs by one path make a thousand of the same: what is
/// more is not asked.
const MOST: usize = 4;

/// Asks what became of packets of a queue pair by a path, and writes down what the fabric says of
/// it, unless it carries. Nothing on this machine itself.
#[cold]
pub(crate) fn look_into(device: &str, qpn: u32, port: u8, path: &AddressVector) {
    static ASKERS: PerProcess<AtomicUsize> = PerProcess::new(|| AtomicUsize::new(0));
    let (Some(host), Some(own)) = (host(), told(port)) else {
        return;
    };
    let bits = u16::from(path.src_path_bits & own.path_mask());
    let from = own.lid.load(Ordering::Relaxed) & !u16::from(own.path_mask()) | bits;
    let asked = PathLost {
        device: device.to_owned(),
        qpn,
        port,
        from,
        to: path.dlid.0,
        ..PathLost::default()
    };
    let askers = ASKERS.get();
    if askers.fetch_add(1, Ordering::Relaxed) >= MOST {
        askers.fetch_sub(1, Ordering::Relaxed);
        return;
    }
    let started = crate::base::thread::spawn_silently("ferriband-fate", move || {
        ask(&host.fabric, asked);
        askers.fetch_sub(1, Ordering::Relaxed);
    });
    if started.is_err() {
        askers.fetch_sub(1, Ordering::Relaxed);
    }
}

fn ask(fabric: &str, asked: PathLost) {
    let question = Ask::Path {
        from: asked.from,
        to: asked.to,
    };
    let answer = Link::dial(fabric).and_then(|link| link.ask(&question));
    let Ok(Answer::Path(word)) = answer else {
        return;
    };
    if word.end != PathEnd::Arrives || !word.losses.is_empty() {
        incident::path_lost(PathLost {
            fabric: fabric.to_owned(),
            says: match word.end {
                PathEnd::Arrives => word.losses.join("; "),
                _ => word.says,
            },
            links: word.links,
            ..asked
        });
    }
}
