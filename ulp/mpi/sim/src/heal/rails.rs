//! What a rank does about its adapters and paths: events, closing and opening, cards, probes,
//! Return. The machines are `Adapters`, `Reach`, `Paths` and `Probes` of `ferriband-heal`.

use super::Fault;
use super::device::{Happening, RECEIVES, Spot, numbers};
use super::wire::{Outcome, QueuePairState, SECRET};
use super::world::{Event, World};
use ferriband_heal::card::Card;
use ferriband_heal::datagram::Origin;
use ferriband_heal::{
    AdapterChange, AdapterId, AdapterNews, AdapterStep, Cause, Datagram, Endpoint, Epoch, Health,
    Kind, PathId, ProbeNews, Seen, Source, State, Transmit, Verdict, Word, candidates,
};

const MILLISECOND: u64 = 1_000_000;
/// What has failed so recently is not heard of.
const JUST_NS: u64 = 1100 * MILLISECOND;
/// An adapter that nobody answers counts as back after so long, if it is the last one.
const LAST_NS: u64 = 10_000 * MILLISECOND;
/// What was broken so recently excuses a verdict.
const RECENT_NS: u64 = 600 * MILLISECOND;

impl World {
    /// A rank looks after its adapters. True if something was done.
    pub fn tend_adapters(&mut self, me: usize) -> Outcome<bool> {
        let mut did = false;
        while let Some((adapter, opening, what)) = self.ranks[me].events.pop_front() {
            did = true;
            self.hear_event(me, adapter, opening, what);
        }
        let now = self.now;
        let adapters = &mut self.ranks[me].adapters;
        if adapters.poll_timeout().is_some_and(|at| now >= at) {
            adapters.handle_timeout(now);
        }
        while let Some(step) = self.next_adapter_step(me) {
            did = true;
            self.adapter_step(me, step)?;
        }
        for adapter in 0..self.ranks[me].devices.len() {
            if self.ranks[me].closing[adapter] && !self.lives_on(me, adapter) {
                self.close_device(me, adapter);
                did = true;
            }
        }
        if std::mem::take(&mut self.ranks[me].is_changed) {
            self.publish(me);
            for peer in (0..self.ranks.len()).filter(|peer| *peer != me) {
                self.renew(me, peer);
                let link = &self.ranks[me].links[peer];
                if !link.is_lost && link.session.state() != State::Idle {
                    // It learns from the serial that the card is another one.
                    let by = link.paths.peek(now, |_| true);
                    by.into_iter()
                        .for_each(|by| self.send_probe(me, peer, by, 0));
                }
            }
        }
        Ok(did)
    }

    fn next_adapter_step(&mut self, me: usize) -> Option<AdapterStep> {
        let one = &mut self.ranks[me];
        one.steps.pop_front().or_else(|| one.adapters.poll())
    }

    /// An event says where to look, not what is there: it may be late.
    fn hear_event(&mut self, me: usize, adapter: usize, opening: u32, what: Happening) {
        let device = self.device(me, adapter);
        if opening != device.opening || !device.is_open {
            return;
        }
        let (id, now) = (AdapterId(adapter as u8), self.now);
        let (news, port, cause) = match what {
            Happening::Fatal => (AdapterNews::Fatal, None, Cause::DeviceFatal),
            Happening::Address(port) => (AdapterNews::Address, Some(port), Cause::AddressChanged),
            Happening::Port(port) => {
                let is_up = self.is_active(me, adapter, port) != self.is(Fault::EventBelieved);
                if is_up {
                    (AdapterNews::PortUp(port), None, Cause::PortDown)
                } else {
                    (AdapterNews::PortDown(port), Some(port), Cause::PortDown)
                }
            }
        };
        let had = self.ranks[me].adapters.may_use(id);
        self.ranks[me].adapters.handle(id, news, now);
        if news == AdapterNews::Address {
            self.hasten(me);
        }
        self.ranks[me].is_changed = true;
        if self.is(Fault::BackUnproven) && !had {
            self.unproven(me, id);
        }
        let Some(port) = port else {
            return;
        };
        let current = self.spot(me, adapter, port);
        for link in &mut self.ranks[me].links {
            // Only what was made with the address of before is over.
            let is_old = link
                .queue_pair
                .is_some_and(|at| self.queue_pairs[at].from != current);
            if cause == Cause::PortDown || is_old {
                link.session.handle_port(id, port, cause, now);
            }
        }
    }

    /// A planted fault: nobody is asked whether it carries.
    fn unproven(&mut self, me: usize, id: AdapterId) {
        let now = self.now;
        for turn in 0..8 {
            let at = now.after(turn * 30 * MILLISECOND);
            self.ranks[me].adapters.handle_timeout(at);
            while let Some(step) = self.ranks[me].adapters.poll() {
                match step {
                    AdapterStep::Probe { counter, .. } => {
                        let news = AdapterNews::Probed(counter);
                        self.ranks[me].adapters.handle(id, news, at);
                    }
                    other => self.ranks[me].steps.push_back(other),
                }
            }
        }
    }

    fn adapter_step(&mut self, me: usize, step: AdapterStep) -> Outcome {
        let now = self.now;
        let change = match step {
            AdapterStep::Failed(id) => AdapterChange::Failed(id),
            AdapterStep::NoneLeft => AdapterChange::NoneLeft,
            AdapterStep::Back(id) => {
                self.judge_back(me, id)?;
                AdapterChange::Back(id)
            }
            AdapterStep::Close(id) => {
                self.ranks[me].closing[usize::from(id.0)] = true;
                return Ok(());
            }
            AdapterStep::Reopen(id) => {
                self.open_device(me, id);
                return Ok(());
            }
            AdapterStep::Probe { id, counter } => {
                self.probe_adapter(me, id, counter);
                return Ok(());
            }
        };
        self.ranks[me].is_changed = true;
        for peer in (0..self.ranks.len()).filter(|peer| *peer != me) {
            self.link(me, peer).session.handle_adapters(change, now);
        }
        Ok(())
    }

    /// H8: what is back carries.
    fn judge_back(&self, me: usize, id: AdapterId) -> Outcome {
        let adapter = usize::from(id.0);
        let ports = (1..).zip(&self.device(me, adapter).ports);
        let mut ports = ports.map(|(port, one)| {
            let is_recent = one.failed.0 > 0 && self.now.since(one.failed) < JUST_NS;
            self.carries(self.spot(me, adapter, port)) || is_recent
        });
        let mut peers = self
            .ranks
            .iter()
            .enumerate()
            .filter(|(peer, _)| *peer != me);
        let is_gone = |(peer, one): (usize, &super::rank::Rank)| {
            one.is_over || self.ranks[me].links[peer].is_lost
        };
        let others = (0..4).map(AdapterId).filter(|other| *other != id);
        let is_last = !others
            .into_iter()
            .any(|id| self.ranks[me].adapters.may_use(id));
        if ports.any(|carries| carries) || peers.all(is_gone) || is_last && self.has_waited(me, id)
        {
            return Ok(());
        }
        Err(format!(
            "H8: adapter {adapter} of {me} is back, and carries nothing"
        ))
    }

    /// Whether nothing of an adapter has failed for so long that it counts where there is no other.
    fn has_waited(&self, me: usize, id: AdapterId) -> bool {
        let mut ports = self.device(me, usize::from(id.0)).ports.iter();
        ports.all(|port| self.now.since(port.failed) >= LAST_NS)
    }

    fn lives_on(&self, me: usize, adapter: usize) -> bool {
        let links = self.ranks[me].links.iter();
        let mut all = links.flat_map(|link| [link.queue_pair, link.lane.queue_pair]);
        all.any(|at| at.is_some_and(|at| self.queue_pairs[at].from.adapter == adapter))
    }

    /// Nothing of an adapter is left: completions that nobody has taken, receives, keys.
    fn close_device(&mut self, me: usize, adapter: usize) {
        let now = self.now;
        let mine = |one: &super::wire::QueuePair| one.owner == me && one.from.adapter == adapter;
        for one in self.queue_pairs.iter_mut().filter(|one| mine(one)) {
            one.state = QueuePairState::Destroyed;
            one.limbo.clear();
        }
        let all = &self.queue_pairs;
        self.ranks[me]
            .completions
            .retain(|(at, _)| !mine(&all[*at]));
        for link in &mut self.ranks[me].links {
            link.stale.clear();
        }
        self.ranks[me].closing[adapter] = false;
        self.device_mut(me, adapter).is_open = false;
        let id = AdapterId(adapter as u8);
        self.ranks[me].adapters.handle(id, AdapterNews::Closed, now);
        self.ranks[me].is_changed = true;
    }

    fn open_device(&mut self, me: usize, id: AdapterId) {
        let (now, adapter) = (self.now, usize::from(id.0));
        let device = self.device_mut(me, adapter);
        let outcome = if now < device.absent_until {
            Err(5)
        } else {
            Ok(())
        };
        if outcome.is_ok() {
            (device.is_open, device.is_fatal) = (true, false);
            device.opening += 1;
            device.receives = RECEIVES;
        }
        let ports = device.ports.len() as u8;
        self.ranks[me]
            .adapters
            .handle(id, AdapterNews::Opened(outcome), now);
        if outcome.is_err() {
            return;
        }
        self.ranks[me].is_changed = true;
        self.hasten(me);
        for port in 1..=ports {
            if !self.is_active(me, adapter, port) {
                let news = AdapterNews::PortDown(port);
                self.ranks[me].adapters.handle(id, news, now);
            }
        }
        if self.is(Fault::BackUnproven) {
            self.unproven(me, id);
        }
    }

    /// A probe goes by this adapter to all that may answer.
    fn probe_adapter(&mut self, me: usize, id: AdapterId, counter: u32) {
        if std::mem::take(&mut self.ranks[me].is_changed) {
            // Its paths are new.
            self.publish(me);
            for peer in (0..self.ranks.len()).filter(|peer| *peer != me) {
                self.renew(me, peer);
            }
        }
        let mut has_peer = false;
        for peer in (0..self.ranks.len()).filter(|peer| *peer != me) {
            let link = &self.ranks[me].links[peer];
            if link.is_lost || self.ranks[peer].is_over {
                continue;
            }
            has_peer = true;
            if let Some(by) = link.paths.probe_by(id, counter, self.now) {
                self.send_probe(me, peer, by, counter);
            }
        }
        if !has_peer {
            let now = self.now;
            let news = AdapterNews::Probed(counter);
            self.ranks[me].adapters.handle(id, news, now);
        }
    }

    fn send_probe(&mut self, me: usize, peer: usize, by: PathId, counter: u32) {
        let datagram = Datagram {
            kind: Kind::Probe,
            cause: Cause::First,
            secret: SECRET,
            from: me as u32,
            to: peer as u32,
            epoch: Epoch(counter),
            word: Word::default(),
            errno: 0,
            end: Endpoint::default(),
            path: PathId(0),
            origin: Origin::default(),
            since_us: 0,
            tries: 0,
            after: Epoch::NONE,
        };
        self.transmit(me, peer, &Transmit { datagram, by });
    }

    /// The table of paths to a peer, read anew.
    pub fn renew(&mut self, me: usize, peer: usize) {
        let rank = &self.ranks[me];
        let mut own = Vec::new();
        for (adapter, device) in rank.devices.iter().enumerate() {
            let id = AdapterId(adapter as u8);
            let ports = 1..=device.ports.len() as u8;
            let up =
                ports.filter(|port| rank.adapters.is_open(id) && rank.adapters.is_up(id, *port));
            own.extend(up.map(|port| Source {
                adapter: id,
                port,
                mtu: 5,
                is_suspect: rank.adapters.health(id) != Health::Up,
                ..Source::default()
            }));
        }
        let is_one = self.is(Fault::OnePath);
        let link = self.link(me, peer);
        let mut found = candidates(&own, &link.reach);
        if is_one {
            found.truncate(1);
        }
        link.paths.renew(&found);
        link.session.handle_paths(&link.paths);
    }

    /// It is known anew where a peer is. A probe that nobody has answered may reach it now.
    pub fn reached(&mut self, me: usize, peer: usize) {
        self.renew(me, peer);
        for id in (0..self.ranks[me].devices.len() as u8).map(AdapterId) {
            let paths = &self.ranks[me].links[peer].paths;
            let is_by = |by: PathId| paths.get(by).is_some_and(|path| path.adapter == id);
            if let Some(counter) = self.ranks[me].adapters.unanswered_probe(id)
                && let Some(by) = paths.peek(self.now, is_by)
            {
                self.send_probe(me, peer, by, counter);
            }
        }
    }

    /// A card of the peer's was read.
    pub fn card_read(&mut self, me: usize, peer: usize, card: &Card) {
        if self.is(Fault::OldCard) {
            // The first one counts for ever.
            let first = self.first_board[peer];
            self.link(me, peer).reach = ferriband_heal::Reach::default();
            self.link(me, peer).reach.handle_card(&first);
            self.renew(me, peer);
        } else if self.link(me, peer).reach.handle_card(card) {
            self.reached(me, peer);
        }
    }

    /// Reads the peer's card, where that may help: near from the board, far by asking its process,
    /// which does not always hear, nor at once.
    pub fn read_card(&mut self, me: usize, peer: usize) {
        let now = self.now;
        let link = self.link(me, peer);
        let state = link.session.state();
        if !link.reading.is_due(state, &link.reach, now) {
            return;
        }
        if me % 2 == peer % 2 {
            let card = self.board[peer];
            self.card_read(me, peer, &card);
        } else if self.is_quiet() || !self.rng.chance(100) {
            let at = self.some_time_later();
            self.at(at, Event::Ask(me, peer));
        }
    }

    /// The process of `peer` answers `me` with the card of its rank, also while that computes.
    pub fn answer_card(&mut self, me: usize, peer: usize) {
        let one = &self.ranks[peer];
        if one.is_dead || one.is_over {
            return;
        }
        if self.now < one.stopped_until {
            // The question lies there until then.
            self.at(one.stopped_until, Event::Ask(me, peer));
            return;
        }
        let at = self.some_time_later();
        self.at(at, Event::Card(me, peer, self.told[peer]));
    }

    fn some_time_later(&mut self) -> ferriband_heal::Ns {
        let late = [MILLISECOND, 100 * MILLISECOND][self.rng.below(2) as usize];
        self.now.after(1 + self.rng.below(late))
    }

    /// This side is reached otherwise: its peers may be, too.
    fn hasten(&mut self, me: usize) {
        let now = self.now;
        for link in &mut self.ranks[me].links {
            link.reading.hasten(now);
        }
    }

    /// What the probes to a peer say.
    pub fn look_paths(&mut self, me: usize, peer: usize) -> Outcome {
        let link = &self.ranks[me].links[peer];
        if !self.ranks[me].inbox.is_empty() || link.is_lost {
            return Ok(());
        }
        let now = self.now;
        let state = link.session.state();
        let main = link.queue_pair.map(|at| &self.queue_pairs[at]);
        let has_life = matches!(state, State::Up | State::Replaying | State::Answering);
        let current = main.filter(|_| has_life).map(|one| one.path);
        let oldest = match state {
            // A question goes from port to port: it is one silence.
            State::Fenced | State::Asking => link.began,
            State::Answering => Some(link.since),
            State::Up | State::Replaying => main.and_then(|one| one.oldest),
            _ => None,
        };
        let seen = Seen {
            current,
            oldest,
            is_idle: link.is_idle(),
            may_return: me < peer && state == State::Up,
        };
        let is_hasty = self.is(Fault::ReturnsWhenActive);
        let link = self.link(me, peer);
        link.probes.look(&seen, &mut link.paths, now);
        while let Some(probe) = self.link(me, peer).probes.poll() {
            self.send_probe(me, peer, probe.by, probe.counter);
        }
        let link = self.link(me, peer);
        let mut news = link.probes.poll_news();
        if is_hasty && seen.may_return {
            let better = current.and_then(|current| link.paths.better(current));
            news = better.map(ProbeNews::Return).or(news);
        }
        match news {
            Some(ProbeNews::Silent(by, verdict)) => self.judge_silence(me, peer, by, verdict),
            Some(ProbeNews::Return(by)) => self.go_back(me, peer, by),
            None => Ok(()),
        }
    }

    fn judge_silence(&mut self, me: usize, peer: usize, by: PathId, verdict: Verdict) -> Outcome {
        let is_wrong = self.is(Fault::PeerIsPath) && verdict == Verdict::Peer;
        if !matches!(verdict, Verdict::Path | Verdict::Here) && !is_wrong {
            return Ok(());
        }
        let now = self.now;
        let Some(at) = self.ranks[me].links[peer].queue_pair else {
            return Ok(());
        };
        let one = &self.queue_pairs[at];
        let lost = self.ranks[me].links[peer].probe_lost;
        let is_chance = lost.is_some_and(|then| now.since(then) < RECENT_NS);
        // The adapter there was opened anew, and its card has not been read since: the echo that
        // was asked is no more.
        let link = &self.ranks[me].links[peer];
        let known = link.paths.get(by).and_then(|path| link.reach.of(path));
        let opening = self.device(peer, one.to.adapter).opening;
        let (_, echo) = numbers(one.to.adapter, one.to.port, opening);
        let is_old = known.is_some_and(|known| known.echo != echo);
        if !is_chance && !is_old && !self.was_broken(one.from, one.to, one.route, RECENT_NS) {
            return Err(format!(
                "H9: {me} finds that its path to {peer} is silent ({verdict:?}), and it is not"
            ));
        }
        self.laws.spoil(&self.queue_pairs[at]);
        self.report.silences += 1;
        let adapter = AdapterId(self.queue_pairs[at].from.adapter as u8);
        if verdict == Verdict::Here {
            let news = AdapterNews::Unanswered(peer as u32);
            self.ranks[me].adapters.handle(adapter, news, now);
            self.ranks[me].is_changed = true;
        }
        let link = self.link(me, peer);
        link.paths.failed(by, now);
        let life = link.session.epoch();
        link.session.handle_failure(life, Cause::Silence, now);
        Ok(())
    }

    /// H8: who returns has a path that carries.
    fn go_back(&mut self, me: usize, peer: usize, by: PathId) -> Outcome {
        let now = self.now;
        let link = &self.ranks[me].links[peer];
        let (Some(path), Some(at)) = (link.paths.get(by).copied(), link.queue_pair) else {
            return Ok(());
        };
        let from = self.spot(me, path.adapter.0.into(), path.port);
        let to = Spot::of(&path.dgid);
        let route = path.dlid.wrapping_sub(to.lid());
        let is_passable = self.is_passable(from, to, route) && self.is_passable(to, from, route);
        let has_failed = |spot: Spot| {
            let ports = &self.ranks[spot.rank].devices[spot.adapter].ports;
            now.since(ports[usize::from(spot.port) - 1].failed) < 4 * RECENT_NS
        };
        let is_excused = has_failed(from)
            || has_failed(to)
            || self
                .ruined_at
                .is_some_and(|then| now.since(then) < 4 * RECENT_NS);
        let has_left = self.ranks[peer].is_over || self.ranks[peer].is_dead;
        if !is_passable && !is_excused && !has_left {
            return Err(format!(
                "H8: {me} returns to {path:?} of {peer}, which carries nothing"
            ));
        }
        self.laws.spoil(&self.queue_pairs[at]);
        self.report.returns += 1;
        self.link(me, peer).session.handle_return(by, now);
        Ok(())
    }
}
