//! What the thread beside the program is for ([`super::thread`]), and what becomes of what it has
//! taken in.
//!
//! Owns: that the thread begins and ends, which adapters it looks at, what their echoes say of this
//! rank, at which port it tells the rank's card. Must not know: what an event changes
//! ([`super::rails`]), how a thread hears of one.
//! Without the thread (`heal=0`, or there could be none) the rank takes events itself, before it
//! sleeps and while it looks after connections.

use super::super::Net;
use super::echo::{Echo, Spot, Whose};
use super::mail::Mail;
use super::rails::Event;
use super::teller;
use super::thread::Watch;
use crate::errors::Outcome;
use ferriband_heal::AdapterId;
use ferriband_heal::datagram::ONLY_ADAPTER;
use ferriband_heal::inquiry::CardPort;
use std::time::Duration;

impl Net {
    /// Starts the thread that hears what devices say by themselves, where connections heal. Where
    /// there can be none the rank hears it before it sleeps.
    pub fn begin_watch(&mut self) {
        if !self.limits.heal.is_on || self.life.watch.is_some() || self.life.is_dead {
            return;
        }
        let Ok(watch) = Watch::begin(self.identity(), self.card()) else {
            return;
        };
        self.life.watch = Some(watch);
        self.tell_card_by_tcp();
        for id in (0..self.rails() as u8).map(AdapterId) {
            self.watch_rail(id);
        }
        self.tell_spots();
        // Another echo has another number.
        self.rails.is_changed |= self.rails.serial() != 0;
    }

    /// Who the thread answers for.
    fn identity(&self) -> Whose {
        Whose {
            me: self.connect.me,
            ranks: self.links.len() as u32,
            secret: self.connect.secret,
            qkey: self.rails.common.key,
        }
    }

    /// Opens a TCP port at which the thread tells this rank's card to ranks of other hosts, where
    /// connections heal: where it is. Without one a peer whose adapters have failed together with
    /// this one's finds it by its datagrams alone.
    pub fn open_card_port(&mut self) -> Option<CardPort> {
        self.life.watch.as_ref()?;
        let listener = teller::open().ok()?;
        let place = teller::place(&listener, &self.card())?;
        self.connect.card_port = Some(listener);
        self.tell_card_by_tcp();
        Some(place)
    }

    fn tell_card_by_tcp(&self) {
        if let (Some(watch), Some(port)) = (&self.life.watch, &self.connect.card_port)
            && let Ok(port) = port.try_clone()
        {
            watch.tell_at(port);
        }
    }

    /// The process of `peer` is asked for its card, if it is known where it tells it.
    pub(super) fn ask_for_card(&self, peer: u32, place: CardPort) {
        if let Some(watch) = &self.life.watch {
            watch.ask(peer, place);
        }
    }

    /// Ends it. What is said from here on is heard before a sleep.
    pub fn end_watch(&mut self) {
        // What it has taken in is heard; who leaves has no use for an error.
        let _ = self.take_events();
        self.life.watch = None;
        self.rail.echo = None;
        for rail in &mut self.rails.others {
            rail.echo = None;
        }
    }

    /// An adapter was opened: the thread looks at it, and answers by it.
    pub(super) fn watch_rail(&mut self, id: AdapterId) {
        let whose = self.identity();
        let port = self.rails.adapters.port(id).unwrap_or(1);
        if self.life.watch.is_none() {
            return;
        }
        let Some(rail) = self.rail_mut(id).filter(|rail| rail.is_open) else {
            return;
        };
        let (context, pd) = (rail.device.context.clone(), rail.device.pd.clone());
        // Without one the rank answers probes, when it looks.
        let echo = Echo::open((id.0, port), &context, &pd, whose).ok();
        rail.echo = echo.as_ref().map(|echo| (port, echo.number()));
        let opening = rail.opening;
        if let Some(watch) = &self.life.watch {
            watch.watch((id.0, opening), &context, echo);
        }
    }

    /// Where the card names another port of an adapter than before, its echo answers by that one:
    /// else probes went to the rank itself, which may be computing.
    pub(super) fn move_echoes(&mut self) {
        for id in (0..self.rails() as u8).map(AdapterId) {
            let port = self.rails.adapters.port(id);
            let rail = self
                .rail(id)
                .filter(|rail| rail.is_open && !rail.is_closing);
            let is_elsewhere = rail
                .and_then(|rail| rail.echo)
                .is_some_and(|(at, _)| port.is_some_and(|port| port != at));
            if is_elsewhere {
                self.forget_rail(id);
                self.watch_rail(id);
            }
        }
    }

    /// An adapter is closed: the thread holds nothing of it any more.
    pub(super) fn forget_rail(&mut self, id: AdapterId) {
        if let Some(watch) = &self.life.watch {
            watch.forget(id.0);
        }
        if let Some(rail) = self.rail_mut(id) {
            rail.echo = None;
        }
    }

    /// Echoes say what the card says.
    pub(super) fn tell_spots(&self) {
        let Some(watch) = &self.life.watch else {
            return;
        };
        watch.set_card(self.card());
        let flags = if self.rails() == 1 { ONLY_ADAPTER } else { 0 };
        for rail in self.all_rails() {
            let Some(port) = rail.echo.and_then(|(port, _)| rail.port(port)) else {
                continue;
            };
            let spot = Spot {
                gid_index: port.face.gid_index,
                is_ethernet: self.rails.common.is_ethernet,
                lid: port.face.lid,
                lmc: port.face.lmc,
                gid: port.face.gid.0,
                ud: port.ud.number().0,
                serial: self.rails.serial(),
                flags,
            };
            watch.set_spot(rail.id.0, spot);
        }
    }

    /// The thread shall call for a look in so many nanoseconds.
    pub(super) fn call_at(&self, ns: u64) {
        if let Some(watch) = &self.life.watch {
            watch.call_in(Duration::from_nanos(ns));
        }
    }

    /// Takes what devices have said by themselves.
    pub(in super::super) fn take_events(&mut self) -> Outcome {
        if self.life.watch.is_none() {
            return self.take_events_here();
        }
        while let Some(mail) = self.life.watch.as_ref().and_then(Watch::take) {
            self.take_mail(mail)?;
        }
        Ok(())
    }

    fn take_mail(&mut self, mail: Mail) -> Outcome {
        match mail {
            Mail::Event {
                adapter,
                opening,
                event,
            } => self.handle_event(Event {
                adapter: AdapterId(adapter),
                opening,
                kind: event.kind,
                subject: event.subject,
            }),
            Mail::Silent { adapter, opening } => {
                let id = AdapterId(adapter);
                let rail = self.rail(id);
                if rail.is_some_and(|rail| rail.opening == opening && rail.is_open) {
                    self.adapter_failed(id);
                }
                Ok(())
            }
            Mail::Probed { datagram } => self.handle_echoed(datagram.from, &datagram),
            Mail::Card { rank, card } => {
                // Of a rank that this one has asked.
                if self.reaches(rank) && self.links[rank as usize].is_some() {
                    self.handle_card(rank, &card)?;
                    self.heed(rank);
                }
                Ok(())
            }
            Mail::Everything => self.look_at_everything(),
        }
    }

    /// More was said than is kept.
    #[cold]
    fn look_at_everything(&mut self) -> Outcome {
        let ports = |rail: &super::super::rail::Rail| {
            let id = rail.id;
            let ports = rail.ports.iter().map(move |port| (id, port.number));
            ports.collect::<Vec<_>>()
        };
        let all: Vec<_> = self.all_rails().flat_map(ports).collect();
        for (id, port) in all {
            if let Some(rail) = self.rail_mut(id).filter(|rail| rail.is_open) {
                rail.double_receives()?;
                self.look_at_port(id, port);
            }
        }
        self.ask_whether_alive()
    }
}
