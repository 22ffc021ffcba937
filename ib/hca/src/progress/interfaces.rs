//! Ethernet ports follow the kernel: programs hear when an interface goes down or up or loses its
//! carrier, when its addresses change, and when it is deleted; and queue pairs go by the addresses
//! and routes that there are.
//!
//! Owns: the socket on which the kernel tells of changes, and what programs were told last. The
//! progress thread looks when something comes; nobody else ever does. Must not know what becomes of
//! packets meanwhile.

use std::collections::BTreeMap;
use std::sync::{Mutex, OnceLock};

use ferriband_memory::host::PORT_STOPS;
use ferriband_memory::net::NetWatch;
use ferriband_memory::wait::Epoll;

use crate::device::{Device, Seen, by_index};
use crate::lock;
use crate::objects::event::AsyncKind;
use crate::objects::owner::PORT;
use crate::progress::Engine;

/// The interfaces of the devices that this process has opened.
#[derive(Debug, Default)]
pub(super) struct Interfaces {
    watch: OnceLock<NetWatch>,
    /// By the devices' indices, as programs know them.
    told: Mutex<BTreeMap<usize, Seen>>,
}

impl Engine {
    /// A device is being opened: from now on its program hears of changes. Where the kernel tells
    /// nobody, or there is no descriptor left, ports show how they are when they are asked.
    pub(crate) fn follow_interface(&self, device: &Device) {
        if !device.is_ethernet() {
            return;
        }
        let Interfaces { watch, told } = &self.progress.interfaces;
        if watch.get().is_none()
            && let Ok(new) = NetWatch::open()
            && watch.set(new).is_ok()
        {
            // the thread waits for it from now on
            self.process.waker.signal(1);
        }
        lock(told)
            .entry(device.info.index)
            .or_insert_with(|| device.look_again());
    }

    /// By the progress thread: waits for the kernel's words, too, once there is somebody to tell.
    pub(super) fn watch_interfaces(&self, epoll: &Epoll, token: u64, watching: &mut bool) {
        if !*watching && let Some(watch) = self.progress.interfaces.watch.get() {
            *watching = epoll.add(watch, token, false).is_ok();
        }
    }

    /// The kernel has said something.
    #[cold]
    pub(super) fn look_at_interfaces(&self) {
        let Interfaces { watch, told } = &self.progress.interfaces;
        let changes = watch.get().map(NetWatch::changes).unwrap_or_default();
        let mut news = Vec::new();
        let mut others = Vec::new();
        for (index, told) in lock(told).iter_mut() {
            let Some(device) = by_index(*index) else {
                continue;
            };
            if changes.has(device.info.ifindex) {
                let now = device.look_again();
                if now != *told {
                    let before = std::mem::replace(told, now.clone());
                    news.push((device, before, now));
                    continue;
                }
            }
            others.push((device.info.ifindex, told.up));
        }
        for (device, before, now) in news {
            if before.gids != now.gids {
                self.renew_paths(device.info.ifindex);
            }
            self.tell_of_interface(&device, &before, &now);
        }
        if changes.has_routes() {
            others.sort_unstable();
            others.dedup();
            for (ifindex, is_up) in others {
                self.renew_paths(ifindex);
                // the routes of an interface that has gone down go after it: nothing is to be had
                // by it yet, though packets to this host still arrive
                if is_up {
                    self.ask_by(ifindex);
                }
            }
        }
    }

    /// Addresses of an interface have changed, or routes: its queue pairs' packets go by what is
    /// there.
    fn renew_paths(&self, ifindex: u32) {
        for qp in self.queue_pairs() {
            if qp.ctx.device.info.ifindex == ifindex {
                qp.renew_path();
            }
        }
    }

    fn tell_of_interface(&self, device: &Device, before: &Seen, now: &Seen) {
        let ifindex = device.info.ifindex;
        let mut contexts = self.owners.of(ifindex);
        // several devices may share an interface
        contexts.retain(|context| context.device_index() == device.info.index);
        let tell = |kind| {
            contexts
                .iter()
                .for_each(|context| context.raise(kind, PORT));
        };
        if now.gone {
            for context in &contexts {
                self.end_device(context, false);
            }
            return;
        }
        let stopped = self.process.registry.port_word(ifindex) & PORT_STOPS != 0;
        match (before.up, now.up) {
            // it was down, and stays so
            _ if stopped => {}
            (true, false) => tell(AsyncKind::PortErr),
            (false, true) => tell(AsyncKind::PortActive),
            _ => {}
        }
        if before.gids != now.gids {
            tell(AsyncKind::GidChange);
        }
        if now.up && before != now {
            self.ask_by(ifindex);
        }
    }
}
