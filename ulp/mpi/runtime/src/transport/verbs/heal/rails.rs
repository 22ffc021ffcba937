//! The adapters of this process: which can be used, what becomes of one that failed, and what is
//! known of where peers are (docs/design/heal.md, 5.6).
//!
//! Owns: the adapters beside the one in hand, their health ([`Adapters`]), events, opening and
//! closing, the own card, paths to peers. Must not know: queue pairs to peers beyond whether there
//! are any on an adapter.
//!
//! One adapter is *in hand*: the one whose completions are looked at. All code that takes what has
//! come uses that one; what goes to a peer uses the adapter of its connection.

use super::super::errors::failed;
use super::super::rail::{Common, Face, Own, Rail};
use super::super::{Net, RECEIVES};
use super::mail::wants_attention;
use crate::errors::{MpiError, Outcome};
use crate::transport::contract::Roster;
use ferriband_heal::card::{ADAPTERS, Address, Card};
use ferriband_heal::{
    AdapterChange, AdapterId, AdapterNews, AdapterStep, Adapters, Cause, Health, Ns, Session,
    Source, State, candidates,
};
use ferriband_ibv::{Context, Device, EventKind, Subject, VerbsError};
use std::sync::Arc;

/// Adapters on which nothing lives are looked at in one of so many rounds.
const IDLE: u32 = 256;

/// The adapters beside the one in hand, and what is known of all.
pub struct Rails {
    pub(in super::super) common: Common,
    pub(in super::super) others: Vec<Rail>,
    pub(super) adapters: Adapters,
    /// Of the own card; even.
    serial: u32,
    /// The own card has to be written anew, and paths found anew.
    pub(super) is_changed: bool,
    /// Why an adapter could not be opened again, as it was last tried.
    not_opened: Option<String>,
    /// Rounds since all adapters were looked at.
    rounds: u32,
}

/// What an adapter says: which one, in which opening of it, and what.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Event {
    pub(in super::super) adapter: AdapterId,
    pub(in super::super) opening: u32,
    pub(in super::super) kind: EventKind,
    pub(in super::super) subject: Subject,
}

impl Rails {
    pub(in super::super) fn new(common: Common) -> Self {
        Self {
            common,
            others: Vec::new(),
            adapters: Adapters::new(&[]),
            serial: 0,
            is_changed: false,
            not_opened: None,
            rounds: 0,
        }
    }

    /// One more, with receives.
    pub(in super::super) fn add(&mut self, context: Arc<Context>, own: Own<'_>) -> Outcome {
        let id = AdapterId(self.others.len() as u8 + 1);
        let mut rail = Rail::new(context, (id, 1), &self.common, own)?;
        rail.more_receives(RECEIVES.min(rail.most_receives()))?;
        self.others.push(rail);
        Ok(())
    }

    /// All that can be opened are.
    pub(in super::super) fn begin(&mut self, first: &Rail) {
        let all = || std::iter::once(first).chain(&self.others);
        let ports: Vec<u8> = all().map(|rail| rail.ports.len() as u8).collect();
        let mut adapters = Adapters::new(&ports);
        for rail in all() {
            tell_ports(&mut adapters, rail, Ns(0));
        }
        self.adapters = adapters;
    }

    /// What the others are told.
    pub(in super::super) fn card(&self, in_hand: &Rail) -> Card {
        let mut addresses = [None; ADAPTERS];
        for rail in std::iter::once(in_hand).chain(&self.others) {
            let port = self.adapters.port(rail.id).unwrap_or(1);
            let Some(port) = rail.port(port) else {
                continue;
            };
            let is_active = self.adapters.may_use(rail.id) && rail.is_open;
            if let Some(place) = addresses.get_mut(usize::from(rail.id.0)) {
                *place = Some(Address {
                    ud: port.ud.number().0,
                    echo: rail.echo_at(port.number),
                    lid: port.face.lid,
                    lmc: port.face.lmc,
                    mtu: port.face.mtu.to_c() as u8,
                    is_ethernet: self.common.is_ethernet,
                    is_active,
                    port: port.number,
                    gid: port.face.gid.0,
                });
            }
        }
        Card {
            serial: self.serial,
            receive: self.common.receive,
            addresses,
        }
    }

    /// A session that is new hears which adapters there are: it knows the first alone.
    pub(in super::super) fn introduce(&self, session: &mut Session, now: Ns) {
        for id in (0..=self.others.len() as u8).map(AdapterId) {
            let change = match self.adapters.may_use(id) {
                true => AdapterChange::Back(id),
                false => AdapterChange::Failed(id),
            };
            session.handle_adapters(change, now);
        }
    }

    pub(super) fn serial(&self) -> u32 {
        self.serial
    }

    /// The adapter that sessions use first.
    fn preferred(&self) -> AdapterId {
        let all = (0..=self.others.len() as u8).map(AdapterId);
        let mut usable = all.filter(|id| self.adapters.may_use(*id));
        usable.next().unwrap_or_default()
    }
}

/// Tells which ports of an adapter that was opened are not up.
fn tell_ports(adapters: &mut Adapters, rail: &Rail, now: Ns) {
    for port in rail.ports.iter().filter(|port| !port.face.is_active) {
        adapters.handle(rail.id, AdapterNews::PortDown(port.number), now);
    }
}

impl Net {
    /// All adapters, the one in hand first.
    pub(in super::super) fn all_rails(&self) -> impl Iterator<Item = &Rail> {
        std::iter::once(&self.rail).chain(&self.rails.others)
    }

    pub(in super::super) fn rail(&self, id: AdapterId) -> Option<&Rail> {
        self.all_rails().find(|rail| rail.id == id)
    }

    pub(in super::super) fn rail_mut(&mut self, id: AdapterId) -> Option<&mut Rail> {
        let all = std::iter::once(&mut self.rail).chain(&mut self.rails.others);
        all.into_iter().find(|rail| rail.id == id)
    }

    /// The adapter of the connection to `peer`: of its queue pair, or of the keys that it knows.
    /// The first to ask chooses one.
    pub(in super::super) fn rail_of(&mut self, peer: u32) -> &mut Rail {
        let preferred = self.rails.preferred();
        let on = *self.link(peer).wire.on.get_or_insert(preferred);
        if self.rail.id == on {
            return &mut self.rail;
        }
        let others = &mut self.rails.others;
        match others.iter_mut().find(|rail| rail.id == on) {
            Some(rail) => rail,
            None => &mut self.rail,
        }
    }

    /// The name of the adapter of the connection to `peer`.
    pub(in super::super) fn name_to(&self, peer: u32) -> &str {
        let link = self.links[peer as usize].as_deref();
        let on = link.and_then(|link| link.wire.on).unwrap_or_default();
        let rail = self.rail(on).unwrap_or(&self.rail);
        &rail.device.name
    }

    /// Whether a round is more than a look at the adapter in hand: of an only one that has failed,
    /// too, since that wants attention for ever.
    #[inline]
    pub fn needs_care(&self) -> bool {
        wants_attention() || self.life.has_rails
    }

    /// Adapters that a round looks at.
    pub fn rails(&self) -> usize {
        1 + self.rails.others.len()
    }

    /// A round begins: whether it looks at adapters on which nothing lives, too.
    pub fn looks_at_all(&mut self) -> bool {
        self.rails.rounds = (self.rails.rounds + 1) % IDLE;
        self.rails.rounds == 0 || !self.connect.setting_up.is_empty()
    }

    /// The next round looks at all adapters: what comes to one that was armed with something unseen
    /// wakes nobody.
    pub(in super::super) fn look_at_all_next(&mut self) {
        self.rails.rounds = IDLE - 1;
    }

    /// Takes the adapter at that place in hand, if it is looked at; [`Net::put_back`] undoes that.
    pub fn take_in_hand(&mut self, at: usize, all: bool) -> bool {
        let rail = match at.checked_sub(1) {
            None => &self.rail,
            Some(at) => &self.rails.others[at],
        };
        let is_idle = at != 0 && rail.numbers.is_empty() && rail.receives.looked.is_empty();
        let is_due = rail.is_open && (all || !is_idle);
        if is_due {
            self.put_back(at);
        }
        is_due
    }

    /// The adapter at that place was in hand.
    pub fn put_back(&mut self, at: usize) {
        if let Some(at) = at.checked_sub(1) {
            std::mem::swap(&mut self.rail, &mut self.rails.others[at]);
        }
    }

    /// Does something for each open adapter, while it is in hand.
    pub(in super::super) fn for_each_rail(
        &mut self,
        mut what: impl FnMut(&mut Self) -> Outcome,
    ) -> Outcome {
        let mut outcome = Ok(());
        for at in 0..self.rails() {
            if self.take_in_hand(at, true) {
                outcome = outcome.and(what(self));
                self.put_back(at);
            }
        }
        outcome
    }
}

impl Net {
    /// Takes the events of all adapters, where no thread does.
    pub(super) fn take_events_here(&mut self) -> Outcome {
        self.for_each_rail(|net| {
            loop {
                let (adapter, opening) = (net.rail.id, net.rail.opening);
                let event = match net.rail.device.context.next_async_event() {
                    Ok(None) => return Ok(()),
                    Ok(Some(event)) => event,
                    Err(_) if net.limits.heal.is_on => {
                        net.adapter_failed(adapter);
                        return Ok(());
                    }
                    Err(error) => return Err(failed(&net.rail.device.name, error)),
                };
                net.handle_event(Event {
                    adapter,
                    opening,
                    kind: event.kind,
                    subject: event.subject,
                })?;
            }
        })
    }

    /// An adapter has said something. What is of another opening of it is nothing.
    pub(in super::super) fn handle_event(&mut self, event: Event) -> Outcome {
        let id = event.adapter;
        let Some(rail) = self.rail_mut(id) else {
            return Ok(());
        };
        if rail.opening != event.opening || !rail.is_open {
            return Ok(());
        }
        match (event.kind, event.subject) {
            (EventKind::SrqLimitReached, _) => rail.double_receives()?,
            (EventKind::LastWqeReached, Subject::Qp { number, .. }) => {
                if let Some(peer) = rail.numbers.rank_of(number.0) {
                    self.has_stopped(peer);
                }
            }
            (EventKind::PathMigrated, Subject::Qp { number, .. }) => {
                if let Some(peer) = rail.numbers.rank_of(number.0) {
                    self.heard_of_migration(peer);
                }
            }
            (
                EventKind::QpFatal
                | EventKind::PathMigrationError
                | EventKind::QpRequestError
                | EventKind::QpAccessError,
                Subject::Qp { number, .. },
            ) => {
                if let Some(peer) = rail.numbers.rank_of(number.0) {
                    self.has_failed(peer, Cause::QpError);
                }
            }
            (EventKind::DeviceFatal | EventKind::CqError | EventKind::SrqError, _) => {
                match self.limits.heal.is_on {
                    true => self.adapter_failed(id),
                    false => self.life.failure = Some(format!("{:?}", event.kind)),
                }
            }
            (
                EventKind::PortActive
                | EventKind::PortError
                | EventKind::LidChange
                | EventKind::GidChange,
                Subject::Port(port),
            ) if self.limits.heal.is_on => self.look_at_port(id, port),
            _ => (),
        }
        Ok(())
    }

    /// An adapter is in error.
    #[cold]
    pub(in super::super) fn adapter_failed(&mut self, id: AdapterId) {
        let now = self.connect.now();
        self.rails.adapters.handle(id, AdapterNews::Fatal, now);
        self.rails.is_changed = true;
        self.heed_adapters();
    }

    /// An event says where to look, not what is there: it may be late.
    pub(super) fn look_at_port(&mut self, id: AdapterId, number: u8) {
        let (now, common) = (self.connect.now(), self.rails.common);
        let Some(rail) = self.rail_mut(id) else {
            return;
        };
        // What cannot be asked, three times, stays as it was: nothing says that it has changed.
        let mut answers = (0..3).filter_map(|_| rail.device.face(number, &common).ok());
        let Some(face) = answers.next() else {
            return;
        };
        let Some(port) = rail.port_mut(number) else {
            return;
        };
        let before = std::mem::replace(&mut port.face, face);
        if before == face {
            return;
        }
        self.heed_adapters();
        self.rails.is_changed = true;
        if !face.is_active {
            // Its address stays: that is asked for anew when it is up.
            if let Some(port) = self.rail_mut(id).and_then(|rail| rail.port_mut(number)) {
                port.face = Face {
                    is_active: false,
                    ..before
                };
            }
            if self.has_other_port(id, number) {
                let news = AdapterNews::PortDown(number);
                self.rails.adapters.handle(id, news, now);
                self.leave_port(id, number, Cause::PortDown, |_| true);
            }
            return;
        }
        self.rails
            .adapters
            .handle(id, AdapterNews::PortUp(number), now);
        self.arm_seconds();
        if (before.gid, before.lid) != (face.gid, face.lid) {
            self.rails.adapters.handle(id, AdapterNews::Address, now);
            self.hasten_reading();
            let at = (face.lid, face.gid.0);
            // Only what was made with the address of before is over.
            self.leave_port(id, number, Cause::AddressChanged, |made_at| made_at != at);
        }
    }

    /// Whether there is a port beside this one that connections can move to. Where there is none,
    /// the adapter itself repeats what is lost while the port is down, and no life ends for it.
    fn has_other_port(&self, id: AdapterId, number: u8) -> bool {
        let adapters = &self.rails.adapters;
        let mut all = self
            .all_rails()
            .flat_map(|rail| rail.ports.iter().map(|port| (rail.id, port)));
        all.any(|(of, port)| {
            (of, port.number) != (id, number) && adapters.may_use(of) && port.face.is_active
        })
    }

    /// Lives by a port are over, of those whose queue pair was made at such an address.
    fn leave_port(
        &mut self,
        id: AdapterId,
        number: u8,
        cause: Cause,
        is_it: impl Fn((u16, [u8; 16])) -> bool,
    ) {
        let now = self.connect.now();
        for peer in 0..self.links.len() as u32 {
            let Some(link) = self.links[peer as usize].as_deref() else {
                continue;
            };
            let wire = &link.wire;
            let is_by_it = wire.made_by == Some((id, number)) && is_it(wire.made_at);
            // To another address nobody goes over: the peer knows none.
            let goes_on = is_by_it && cause == Cause::PortDown && self.go_over(peer, cause);
            if is_by_it && !goes_on {
                let session = &mut self.link(peer).wire.session;
                session.handle_port(id, number, cause, now);
                self.heed(peer);
            }
        }
    }

    /// The adapter of the connection to `peer` does nothing more for it: it has refused to, and
    /// what was to be known to it the next one learns.
    #[cold]
    pub(in super::super) fn leave_adapter(&mut self, peer: u32) {
        let rail = self.rail_of(peer);
        let (id, is_in_use) = (rail.id, rail.is_open && !rail.is_closing);
        if is_in_use {
            self.adapter_failed(id);
        }
        self.link(peer).wire.keyed_on = Some((id, 0));
        self.end_life(peer, Cause::DeviceFatal);
    }

    /// The connection to `peer` has met status 12.
    pub(in super::super) fn is_unanswered(&mut self, peer: u32) {
        let (now, on) = (self.connect.now(), self.link(peer).wire.on);
        if let Some(id) = on {
            let news = AdapterNews::Unanswered(peer);
            self.rails.adapters.handle(id, news, now);
            self.heed_adapters();
        }
    }

    /// Adapters have something to do, or wait for something.
    pub(super) fn heed_adapters(&mut self) {
        // They are looked after with whoever has a connection, else with whoever can have one.
        let mut all = self.links.iter().enumerate();
        let any = all.find_map(|(peer, link)| link.as_ref().map(|_| peer as u32));
        let any = any.or_else(|| (0..self.links.len() as u32).find(|peer| self.reaches(*peer)));
        if let Some(peer) = any {
            self.heed(peer);
        }
    }

    /// Whether adapters wait for something.
    pub(super) fn adapters_due(&self) -> Option<Ns> {
        let is_closing = self.all_rails().any(|rail| rail.is_closing);
        let now = (is_closing || self.rails.is_changed).then_some(Ns(0));
        now.or_else(|| self.rails.adapters.poll_timeout())
    }

    /// Looks after the adapters, where no completion is in hand.
    pub(super) fn tend_adapters<R: Roster>(&mut self, roster: &R) -> Outcome {
        self.take_events()?;
        if !self.limits.heal.is_on {
            return Ok(());
        }
        let now = self.connect.now();
        let adapters = &mut self.rails.adapters;
        if adapters.poll_timeout().is_some_and(|at| now >= at) {
            adapters.handle_timeout(now);
        }
        loop {
            while let Some(step) = self.rails.adapters.poll() {
                self.adapter_step(roster, step)?;
            }
            if !self.close_adapters() {
                break;
            }
        }
        if std::mem::take(&mut self.rails.is_changed) {
            self.tell_card(roster)?;
        }
        Ok(())
    }

    fn adapter_step<R: Roster>(&mut self, roster: &R, step: AdapterStep) -> Outcome {
        let change = match step {
            AdapterStep::Failed(id) => AdapterChange::Failed(id),
            AdapterStep::NoneLeft => AdapterChange::NoneLeft,
            AdapterStep::Back(id) => AdapterChange::Back(id),
            AdapterStep::Close(id) => {
                if let Some(rail) = self.rail_mut(id) {
                    rail.is_closing = true;
                }
                return Ok(());
            }
            AdapterStep::Reopen(id) => {
                self.reopen_adapter(id);
                return Ok(());
            }
            AdapterStep::Probe { id, counter } => return self.probe_adapter(roster, id, counter),
        };
        self.rails.is_changed = true;
        let now = self.connect.now();
        for peer in 0..self.links.len() as u32 {
            if let Some(link) = self.links[peer as usize].as_deref_mut() {
                link.wire.session.handle_adapters(change, now);
                self.heed(peer);
            }
        }
        Ok(())
    }

    /// Adapters on which nothing lives any more are closed. True if there was one.
    fn close_adapters(&mut self) -> bool {
        let now = self.connect.now();
        let mut did = false;
        for id in (0..self.rails() as u8).map(AdapterId) {
            let lives_on = self.links.iter().flatten().any(|link| {
                let queues = [&link.wire.queue, &link.long.lane.queue];
                link.wire.on == Some(id) && queues.iter().any(|queue| queue.qp.is_some())
            });
            let Some(rail) = self.rail_mut(id) else {
                continue;
            };
            if rail.is_closing && !lives_on {
                (rail.is_closing, rail.is_open) = (false, false);
                self.forget_rail(id);
                self.rails.adapters.handle(id, AdapterNews::Closed, now);
                self.life.has_rails = true;
                did = true;
            }
        }
        did
    }

    /// Opens an adapter again, with new queues and keys.
    fn reopen_adapter(&mut self, id: AdapterId) {
        let now = self.connect.now();
        let opened = self.open_again(id);
        let (errno, why) = match opened {
            Ok(()) => (Ok(()), None),
            Err((errno, why)) => (Err(errno), Some(why)),
        };
        self.rails.not_opened = why;
        self.rails
            .adapters
            .handle(id, AdapterNews::Opened(errno), now);
        if errno.is_err() {
            return;
        }
        let Self { rail, rails, .. } = self;
        let mut all = std::iter::once(&*rail).chain(&rails.others);
        if let Some(rail) = all.find(|rail| rail.id == id) {
            tell_ports(&mut rails.adapters, rail, now);
        }
        rails.is_changed = true;
        self.life.has_rails = self.rails() > 1;
        self.hasten_reading();
    }

    /// This rank is reached otherwise. Peers that do not answer may be, too: their cards are read
    /// at once.
    fn hasten_reading(&mut self) {
        let now = self.connect.now();
        for peer in 0..self.links.len() as u32 {
            if let Some(link) = self.links[peer as usize].as_deref_mut() {
                link.wire.reading.hasten(now);
                self.heed(peer);
            }
        }
    }

    /// Why an adapter that has failed cannot be used again, where that is known.
    pub(super) fn why_not_opened(&self) -> Option<&str> {
        self.rails.not_opened.as_deref()
    }

    /// Else an errno, and why in words.
    fn open_again(&mut self, id: AdapterId) -> Result<(), (u32, String)> {
        const ENODEV: u32 = libc::ENODEV.unsigned_abs();
        const EIO: u32 = libc::EIO.unsigned_abs();
        let common = self.rails.common;
        let gone = |name: &str| (ENODEV, format!("{name} is not there"));
        let old = self.rail(id).ok_or_else(|| gone("it"))?;
        let (name, opening) = (old.device.name.clone(), old.opening.wrapping_add(1));
        let verb = |error: VerbsError| (error.errno().unsigned_abs(), format!("{name}: {error}"));
        let devices = Device::list(common.verbs).map_err(verb)?;
        let device = devices.iter().find(|device| device.name() == name);
        let context = device.ok_or_else(|| gone(&name))?.open().map_err(verb)?;
        let own = Own {
            stages: &self.stages.memory,
            returns: &self.blocks.returns,
        };
        let other = |error: MpiError| (EIO, error.text.to_string());
        let mut rail = Rail::new(context, (id, opening), &common, own).map_err(other)?;
        let count = RECEIVES.min(rail.most_receives());
        rail.more_receives(count).map_err(other)?;
        if let Some(place) = self.rail_mut(id) {
            *place = rail;
        }
        self.watch_rail(id);
        Ok(())
    }

    /// The own card is another one: it is written anew, the paths are found anew, and each peer
    /// sees by a datagram that there is a newer card.
    pub(super) fn tell_card<R: Roster>(&mut self, roster: &R) -> Outcome {
        self.move_echoes();
        self.rails.serial = self.rails.serial.wrapping_add(2);
        roster.publish(&self.card());
        self.tell_spots();
        let now = self.connect.now();
        for peer in 0..self.links.len() as u32 {
            self.renew_paths(peer);
            let Some(link) = self.links[peer as usize].as_deref() else {
                continue;
            };
            let wire = &link.wire;
            if !matches!(wire.session.state(), State::Idle | State::Lost)
                && let Some(by) = wire.paths.peek(now, |_| true)
            {
                self.probe(peer, by, 0)?;
            }
        }
        Ok(())
    }

    /// A probe goes by this adapter to all that may answer.
    fn probe_adapter<R: Roster>(&mut self, roster: &R, id: AdapterId, counter: u32) -> Outcome {
        if std::mem::take(&mut self.rails.is_changed) {
            // Its paths are new.
            self.tell_card(roster)?;
        }
        let now = self.connect.now();
        let mut has_peer = false;
        for peer in 0..self.links.len() as u32 {
            let Some(link) = self.links[peer as usize].as_deref() else {
                continue;
            };
            let state = link.wire.session.state();
            if matches!(state, State::Idle | State::Lost) || roster.is_over(peer) {
                continue;
            }
            has_peer = true;
            if let Some(by) = link.wire.paths.probe_by(id, counter, now) {
                self.probe(peer, by, counter)?;
            }
        }
        if !has_peer {
            let news = AdapterNews::Probed(counter);
            self.rails.adapters.handle(id, news, now);
        }
        Ok(())
    }

    /// The table of paths to `peer`, read anew.
    pub(in super::super) fn renew_paths(&mut self, peer: u32) {
        let (adapters, common) = (&self.rails.adapters, self.rails.common);
        let mut own: Vec<Source> = Vec::new();
        for rail in self.all_rails().filter(|rail| rail.is_open) {
            let is_open = adapters.is_open(rail.id);
            let is_suspect = adapters.health(rail.id) != Health::Up;
            let ports = rail.ports.iter().filter(|port| {
                is_open && adapters.is_up(rail.id, port.number) && port.face.gid.0 != [0; 16]
            });
            own.extend(ports.map(|port| rail.source(port, common.is_ethernet, is_suspect)));
        }
        own.sort_by_key(|source| source.adapter.0);
        let Some(link) = self.links[peer as usize].as_deref_mut() else {
            return;
        };
        let wire = &mut link.wire;
        let mut found = candidates(&own, &wire.reach);
        // Verbs name no UDP port, so all routes of a pair on Ethernet are one.
        found.retain(|path| path.udp_port == 0);
        wire.paths.renew(&found);
        wire.session.handle_paths(&wire.paths);
        wire.follow_table();
    }
}
