//! The connections of a process, and how one comes to be and ends.
//!
//! Owns: news of the connection manager, which connection has which number, how transfers ended
//! that nobody has asked about. Must not know: who waits.

use super::link::Link;
use super::{ELEMENT_BYTES, Memory, Way};
use crate::adapter::Adapter;
use crate::hello::{ADDRESS, emit_address, is_somewhere, take_address};
use crate::node::RESOLVE;
use crate::sleep::Sleep;
use crate::trace::{Messages, Tracer};
use crate::{Error, Left};
use ferriband_ibv::{Cm, CmChannel, CmEvent, CmEventKind, CmId, ConnectParams, Pd, PortSpace};
use ferriband_putget_proto::matching::{NotBegun, Outcome};
use ferriband_settings::Values;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// Requests for connections that wait to be taken.
const BACKLOG: u32 = 1024;
/// How often a lost packet is sent again.
const RETRIES: u8 = 7;
/// A SEND without a receive is sent again for ever: a write waits for its read.
const FOR_EVER: u8 = 7;
/// Marks private data as this protocol's, with its version; bytes of a request follow, and where
/// the process listens.
const MARK: [u8; 4] = *b"FPM\x02";
/// What refusals of a foreign protocol begin with, here and of put and get.
const FOREIGN: &[u8] = b"FP";
/// Transfers that are under way, or whose end nobody has asked about.
const MOST: usize = 1 << 16;
/// Tag of the listener.
const LISTENER: u64 = u64::MAX;

/// How far a connection is.
enum Phase {
    /// This side has asked.
    Asking,
    /// A peer has, and its answer to the answer is to come.
    Accepting,
    Standing,
    Over(Left),
}

struct Entry {
    /// None before the route is known, and when the connection is over. It goes before the
    /// identifier.
    link: Option<Link>,
    id: Arc<CmId>,
    phase: Phase,
}

pub(super) struct State {
    channel: Arc<CmChannel>,
    listener: Arc<CmId>,
    pub own: SocketAddr,
    adapters: Vec<Adapter>,
    pub request_bytes: u32,
    entries: BTreeMap<u32, Entry>,
    next: u32,
    /// Connections that nobody has accepted.
    pub arrived: VecDeque<u32>,
    /// Transfers: None while they are under way.
    transfers: HashMap<u64, Option<Outcome>>,
    next_transfer: u64,
    /// Events that completion channels have told.
    pub events: u64,
    /// The process is traced.
    tracer: Option<Arc<Tracer>>,
}

impl State {
    pub fn listen(cm: &'static Cm, at: SocketAddr, request_bytes: u32) -> Result<State, Error> {
        let channel = CmChannel::create(cm)?;
        let listener = CmId::create(&channel, PortSpace::Tcp, LISTENER)?;
        listener.bind(at)?;
        listener.listen(BACKLOG)?;
        let own = listener.local_address().ok_or(Error::NoAdapter)?;
        if !is_somewhere(own) {
            return Err(Error::Unspecified);
        }
        Ok(State {
            channel,
            listener,
            own,
            adapters: Vec::new(),
            request_bytes,
            entries: BTreeMap::new(),
            next: 0,
            arrived: VecDeque::new(),
            transfers: HashMap::new(),
            next_transfer: 0,
            events: 0,
            tracer: None,
        })
    }

    /// As of [`crate::Node::trace`].
    pub fn trace(&mut self, values: &Values) -> Result<(), Error> {
        self.tracer = Tracer::asked_for(self.own, values)?;
        Ok(())
    }

    /// Writes down what a connection does.
    fn trace_link(&self, link: &mut Link, peer: SocketAddr, event: &CmEvent) {
        if let Some(tracer) = &self.tracer {
            let peer_qp = event.peer().map_or(0, |peer| peer.qp_number.0);
            let own_qp = link.qp.number().0;
            link.trace(Messages::new(tracer, peer, own_qp, peer_qp));
        }
    }

    pub fn domain(&mut self) -> Result<Arc<Pd>, Error> {
        let listener = Arc::clone(&self.listener);
        let adapter = Adapter::of(&mut self.adapters, &listener, 1)?;
        Ok(Arc::clone(&self.adapters[adapter].pd))
    }

    /// Asks for a connection; its number.
    pub fn ask(&mut self, to: SocketAddr) -> Result<u32, Error> {
        let number = self.number();
        let id = CmId::create(&self.channel, PortSpace::Tcp, number.into())?;
        let from = SocketAddr::new(self.own.ip(), 0);
        id.resolve_address(Some(from), to, RESOLVE)?;
        let entry = Entry {
            id,
            link: None,
            phase: Phase::Asking,
        };
        self.entries.insert(number, entry);
        Ok(number)
    }

    fn number(&mut self) -> u32 {
        self.next += 1;
        self.next - 1
    }

    /// Whether a connection stands, once that is known.
    pub fn stands(&self, number: u32) -> Option<Result<(), Left>> {
        match self.entries.get(&number).map(|entry| &entry.phase) {
            Some(Phase::Asking | Phase::Accepting) => None,
            Some(Phase::Standing) => Some(Ok(())),
            Some(Phase::Over(left)) => Some(Err(*left)),
            None => Some(Err(Left::Lost)),
        }
    }

    /// Forgets a connection. Whether there was one.
    pub fn remove(&mut self, number: u32) -> bool {
        let Some(mut entry) = self.entries.remove(&number) else {
            return false;
        };
        self.arrived.retain(|arrived| *arrived != number);
        self.end(&mut entry, Left::Lost);
        true
    }

    pub fn remove_all(&mut self) {
        let numbers: Vec<u32> = self.entries.keys().copied().collect();
        for number in numbers {
            self.remove(number);
        }
    }

    /// A connection is over: transfers that are under way are lost, and the peer is told.
    fn end(&mut self, entry: &mut Entry, why: Left) {
        if let Some(mut link) = entry.link.take() {
            link.lost();
            // one whose peer is gone needs no answer
            let _ = entry.id.disconnect();
            self.gather(&mut link);
        }
        entry.phase = Phase::Over(why);
    }

    /// Keeps how transfers of a connection have ended.
    fn gather(&mut self, link: &mut Link) {
        let ended = std::iter::from_fn(|| link.ended());
        self.transfers
            .extend(ended.map(|(token, outcome)| (token, Some(outcome))));
    }

    pub fn start(
        &mut self,
        number: u32,
        way: Way,
        memory: Memory,
        length: u64,
    ) -> Result<u64, NotBegun> {
        if self.transfers.len() >= MOST {
            return Err(NotBegun::Full);
        }
        let mut entry = self.entries.remove(&number).ok_or(NotBegun::Lost)?;
        let token = self.next_transfer;
        let started = match (&entry.phase, &mut entry.link) {
            (Phase::Standing, Some(link)) => link.start(token, way, memory, length),
            _ => Err(NotBegun::Lost),
        };
        if started.is_ok() {
            self.next_transfer += 1;
            self.transfers.insert(token, None);
        }
        self.settle(number, entry);
        started.map(|()| token)
    }

    /// Whether one more transfer may begin, or is refused for good.
    pub fn has_room(&self, number: u32, way: Way, length: u64) -> bool {
        let link = self.entries.get(&number);
        let link = link.and_then(|entry| entry.link.as_ref());
        self.transfers.len() < MOST && link.is_none_or(|link| link.has_room(way, length))
    }

    /// How a transfer has ended, told once; None while it is under way.
    pub fn test(&mut self, token: u64) -> Result<Option<Outcome>, Error> {
        let outcome = *self.transfers.get(&token).ok_or(Error::Unknown)?;
        if outcome.is_some() {
            self.transfers.remove(&token);
        }
        Ok(outcome)
    }

    /// Looks at completions, and takes news of the manager. Whether there was anything.
    pub fn look(&mut self) -> Result<bool, Error> {
        let mut found = false;
        let numbers: Vec<u32> = self.entries.keys().copied().collect();
        for number in numbers {
            let Some(mut entry) = self.entries.remove(&number) else {
                continue;
            };
            let looked = entry.link.as_mut().map_or(Ok(false), Link::look);
            self.settle(number, entry);
            found |= looked?;
        }
        while let Some(event) = self.channel.next_event()? {
            self.managed(event);
            found = true;
        }
        Ok(found)
    }

    /// Puts a connection back, and ends it if it has failed.
    fn settle(&mut self, number: u32, mut entry: Entry) {
        if let Some(link) = &mut entry.link {
            self.gather(link);
            if link.is_over() {
                self.end(&mut entry, Left::Lost);
            }
        }
        self.entries.insert(number, entry);
    }

    /// Asks for events, then looks once more. Whether there was anything.
    pub fn arm(&mut self) -> Result<bool, Error> {
        let mut links = self.entries.values_mut();
        links.try_for_each(|entry| entry.link.as_mut().map_or(Ok(()), Link::arm))?;
        self.look()
    }

    pub fn sleep(&self, time: Option<Duration>) -> Sleep {
        let channels = self.adapters.iter().map(|adapter| &adapter.channel);
        Sleep {
            channels: channels.cloned().collect(),
            manager: Arc::clone(&self.channel),
            time,
        }
    }

    /// Takes events of completion queues. Whether there was one.
    pub fn take_events(&mut self) -> Result<bool, Error> {
        let mut found = false;
        for adapter in &self.adapters {
            while let Some(tag) = adapter.channel.next_event()? {
                found = true;
                self.events += 1;
                let entry = self.entries.get_mut(&(tag as u32));
                if let Some(link) = entry.and_then(|entry| entry.link.as_mut()) {
                    link.disarmed();
                }
            }
        }
        Ok(found)
    }

    fn managed(&mut self, mut event: CmEvent) {
        if event.kind() == CmEventKind::ConnectRequest {
            if let Some(id) = event.take_request()
                && let Err(error) = self.asked(&id, &event)
            {
                let is_foreign = matches!(error, Error::Foreign);
                // a request that is gone needs no answer
                let _ = id.reject(if is_foreign { &MARK } else { b"" });
            }
            return;
        }
        let number = event.id().tag() as u32;
        let Some(mut entry) = self.entries.remove(&number) else {
            return;
        };
        let is_bad = event.result().is_err() || event.kind() == CmEventKind::Disconnected;
        match entry.phase {
            Phase::Asking => {
                if let Err(error) = self.advance(number, &mut entry, &event) {
                    let why = match error {
                        Error::Foreign => Left::Foreign,
                        _ if event.private_data().starts_with(FOREIGN) => Left::Foreign,
                        _ => Left::Unreachable,
                    };
                    self.end(&mut entry, why);
                }
            }
            Phase::Accepting if event.kind() == CmEventKind::Established => {
                entry.phase = Phase::Standing;
                self.arrived.push_back(number);
            }
            Phase::Accepting if is_bad => return,
            Phase::Standing if is_bad => {
                // what has come before counts
                if let Some(link) = &mut entry.link {
                    let _ = link.look();
                }
                self.end(&mut entry, Left::Lost);
            }
            Phase::Accepting | Phase::Standing | Phase::Over(_) => {}
        }
        self.settle(number, entry);
    }

    /// A step of a request by this side.
    fn advance(&mut self, number: u32, entry: &mut Entry, event: &CmEvent) -> Result<(), Error> {
        event.result()?;
        match event.kind() {
            CmEventKind::AddrResolved => Ok(entry.id.resolve_route(RESOLVE)?),
            CmEventKind::RouteResolved => {
                let link = self.link(&entry.id, number)?;
                let link = entry.link.insert(link);
                let data = hello(self.request_bytes, self.own);
                Ok(entry.id.connect(&params(&data, link))?)
            }
            CmEventKind::ConnectResponse => {
                let link = entry.link.as_mut().ok_or(Error::Unknown)?;
                let (peer, listens) = parse(event.private_data()).ok_or(Error::Foreign)?;
                link.agree(self.request_bytes.min(peer));
                self.trace_link(link, listens, event);
                entry.id.ready_qp(&link.qp)?;
                link.ready()?;
                entry.id.establish()?;
                entry.phase = Phase::Standing;
                Ok(())
            }
            CmEventKind::Disconnected => Err(Error::Foreign),
            _ => Ok(()),
        }
    }

    /// A peer asks.
    fn asked(&mut self, id: &Arc<CmId>, event: &CmEvent) -> Result<(), Error> {
        let (peer, listens) = parse(event.private_data()).ok_or(Error::Foreign)?;
        let number = self.number();
        id.set_tag(number.into());
        let mut link = self.link(id, number)?;
        link.agree(self.request_bytes.min(peer));
        self.trace_link(&mut link, listens, event);
        id.ready_qp(&link.qp)?;
        link.ready()?;
        let data = hello(self.request_bytes, self.own);
        id.accept(&params(&data, &link))?;
        let entry = Entry {
            id: Arc::clone(id),
            link: Some(link),
            phase: Phase::Accepting,
        };
        self.entries.insert(number, entry);
        Ok(())
    }

    /// A queue pair in INIT.
    fn link(&mut self, id: &CmId, number: u32) -> Result<Link, Error> {
        let adapter = Adapter::of(&mut self.adapters, id, 1)?;
        let link = Link::new(&self.adapters[adapter], number.into(), self.request_bytes)?;
        id.init_qp(&link.qp)?;
        Ok(link)
    }
}

fn hello(request_bytes: u32, listens: SocketAddr) -> [u8; 8 + ADDRESS] {
    let mut bytes = [0; 8 + ADDRESS];
    bytes[..4].copy_from_slice(&MARK);
    bytes[4..8].copy_from_slice(&request_bytes.to_be_bytes());
    bytes[8..].copy_from_slice(&emit_address(listens));
    bytes
}

/// Bytes of the peer's requests, and where it listens; None if it speaks something else.
fn parse(data: &[u8]) -> Option<(u32, SocketAddr)> {
    let (bytes, mut rest) = data.strip_prefix(&MARK)?.split_first_chunk()?;
    let bytes = u32::from_be_bytes(*bytes);
    let fits = bytes.is_power_of_two() && u64::from(bytes) <= ELEMENT_BYTES;
    let listens = take_address(&mut rest)?;
    fits.then_some((bytes, listens))
}

fn params<'a>(private_data: &'a [u8], link: &'a Link) -> ConnectParams<'a> {
    ConnectParams {
        private_data,
        retry_count: RETRIES,
        rnr_retry_count: FOR_EVER,
        qp: Some(&link.qp),
        ..ConnectParams::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hello_comes_back_and_nothing_else_is_taken_for_one() {
        let listens: SocketAddr = "10.0.0.1:7".parse().unwrap();
        let mut data = hello(1 << 20, listens).to_vec();
        let bytes = data.len();
        data.resize(56, 0);
        assert_eq!(parse(&data), Some((1 << 20, listens)));
        for wrong in [3, 0, 1 << 31] {
            assert_eq!(parse(&hello(wrong, listens)), None);
        }
        assert_eq!(parse(&data[..bytes - 1]), None);
        data[2] = b'G';
        assert_eq!(parse(&data), None);
    }
}
