//! How two sides meet: by the connection manager, with Hello in its REQ and HelloAck in its REP.
//!
//! Owns: identifiers and their events, which port spaces there are, which adapter an address has.
//! Must not know: what a connection is for, and who may ask for one: that is decided by whoever
//! takes [`Event::Asked`].
//!
//! A connection stands at the service ID of its port, (1 << 16) + port (IBA annex A4), where the
//! library has that port space, as Ferriband's has. Beside a library that has none, both sides use
//! the TCP port space with the short forms of Hello and HelloAck. A listener listens in each space
//! that its library has; who asks uses SDP's if it can.
//!
//! No call waits. What takes time is told by [`Manager::next_event`], when [`Manager::fd`] is readable.

use crate::endpoint::{Adapter, Endpoint, Error, FOR_EVER, RETRIES, TIMEOUT};
use crate::hello::{self, BadAck, FlowKind, Told};
use crate::stream::Stream;
use ferriband_ibv::{Cm, CmChannel, CmError, CmEvent, CmEventKind, CmId, CmOption, ConnectParams};
use ferriband_ibv::{ErrorKind, PortSpace, VerbsError};
use ferriband_sdp_proto::connection::Config;
use ferriband_sdp_wire::Refusal;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Duration;

/// How long an address, or a route, is looked for.
const RESOLVE: Duration = Duration::from_secs(1);

/// Which listener or connection of a manager.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Key(u64);

/// Why a connection that was asked for does not come to be.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Failed {
    /// The peer refuses, and says why.
    #[error("the peer refuses: {0:?}")]
    Refused(Refusal),
    /// The connection manager says why.
    #[error(transparent)]
    Manager(#[from] CmError),
    /// This side cannot.
    #[error(transparent)]
    Here(#[from] Error),
    /// The peer has accepted with bytes that are no acceptance.
    #[error(transparent)]
    Acknowledged(#[from] BadAck),
}

impl From<VerbsError> for Failed {
    fn from(error: VerbsError) -> Self {
        Failed::Here(error.into())
    }
}

/// News of the connection manager.
pub enum Event {
    /// Somebody asks a listener.
    Asked(Request),
    /// What was asked for stands.
    Stands(Key, Box<Stream>),
    /// What was asked for does not come to be.
    Failed(Key, Failed),
    /// What was accepted stands at the peer as well.
    Established(Key),
    /// The peer has left, or the device is gone: [`Stream::end`] is due.
    Ended(Key),
}

/// A request, to be accepted or refused. One that is dropped is refused without a reason.
pub struct Request {
    id: Arc<CmId>,
    told: Told,
    adapter: Arc<Adapter>,
    /// Whom it is for.
    pub listener: Key,
    /// The address and port of the socket that asks.
    pub from: SocketAddr,
    /// The address and port that it asks.
    pub to: SocketAddr,
}

impl Request {
    /// The flow control that it asks for: credits of one that speaks the standard alone.
    pub fn flow(&self) -> FlowKind {
        self.told.kind()
    }

    /// Refuses it.
    pub fn refuse(self, why: Refusal) {
        refuse(&self.id, why);
    }
}

/// A request by this side.
struct Asking {
    id: Arc<CmId>,
    config: Config,
    /// From the request on.
    endpoint: Option<Endpoint>,
}

/// A listener. Dropping it ends it.
pub struct Listener {
    key: Key,
    ids: Vec<Arc<CmId>>,
}

impl Listener {
    /// Which it is.
    pub fn key(&self) -> Key {
        self.key
    }

    /// Where it listens.
    pub fn address(&self) -> Option<SocketAddr> {
        self.ids.first().and_then(|id| id.local_address())
    }
}

/// Connections of a process by the connection manager.
pub struct Manager {
    channel: Arc<CmChannel>,
    spaces: Vec<PortSpace>,
    adapters: Vec<Arc<Adapter>>,
    asking: BTreeMap<Key, Asking>,
    next: u64,
}

impl Manager {
    /// Begins to use a library.
    ///
    /// # Errors
    /// ENODEV where the kernel has no connection manager, or the library no adapter; EMFILE.
    pub fn new(cm: &'static Cm) -> Result<Manager, Error> {
        let channel = CmChannel::create(cm)?;
        let has = |space| CmId::create(&channel, space, 0).map(drop);
        let spaces = match has(PortSpace::Sdp) {
            Ok(()) => vec![PortSpace::Sdp, PortSpace::Tcp],
            Err(error) if error.kind() == ErrorKind::Invalid => vec![PortSpace::Tcp],
            Err(error) => return Err(error.into()),
        };
        Ok(Manager {
            channel,
            spaces,
            adapters: Vec::new(),
            asking: BTreeMap::new(),
            next: 1,
        })
    }

    /// As on a machine whose library has no port space of SDP's.
    pub fn without_sdp(cm: &'static Cm) -> Result<Manager, Error> {
        let manager = Manager::new(cm)?;
        let spaces = vec![PortSpace::Tcp];
        Ok(Manager { spaces, ..manager })
    }

    /// Readable while there may be news.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.channel.fd()
    }

    /// Listens at an address, in each port space; port 0 chooses one.
    ///
    /// # Errors
    /// The address belongs to no adapter, or somebody listens there in all of them.
    pub fn listen(&mut self, at: SocketAddr, backlog: u32) -> Result<Listener, Error> {
        let key = self.key();
        let mut ids: Vec<Arc<CmId>> = Vec::new();
        let mut failed = None;
        for space in &self.spaces {
            let port = ids.first().and_then(|id| id.local_address());
            let at = port.unwrap_or(at);
            let listening = CmId::create(&self.channel, *space, key.0).and_then(|id| {
                if at.is_ipv6() {
                    id.set_option(CmOption::OneFamily(true))?;
                }
                id.bind(at)?;
                id.listen(backlog)?;
                Ok(id)
            });
            match listening {
                Ok(id) => ids.push(id),
                Err(error) => failed = Some(error),
            }
        }
        match (ids.is_empty(), failed) {
            (true, Some(error)) => Err(error.into()),
            _ => Ok(Listener { key, ids }),
        }
    }

    /// Asks who listens at `to` for a connection of a socket at `from`; if that is None, of any
    /// address that leads there. [`Event::Stands`] or [`Event::Failed`] follows.
    ///
    /// # Errors
    /// The address belongs to no adapter.
    pub fn ask(
        &mut self,
        from: Option<SocketAddr>,
        to: SocketAddr,
        config: Config,
    ) -> Result<Key, Error> {
        config.check()?;
        let key = self.key();
        let space = self.spaces[0];
        let id = CmId::create(&self.channel, space, key.0)?;
        // the socket's port may be another's in this space, which names that one's peer
        id.set_option(CmOption::ReuseAddress(true))?;
        id.resolve_address(from, to, RESOLVE)?;
        let endpoint = None;
        let asking = Asking {
            id,
            config,
            endpoint,
        };
        self.asking.insert(key, asking);
        Ok(key)
    }

    /// Gives up a request of this side's.
    pub fn give_up(&mut self, key: Key) {
        self.asking.remove(&key);
    }

    /// Accepts a request. What is sent before [`Event::Established`] may have to be sent again.
    ///
    /// # Errors
    /// As the verbs API; the peer's numbers do not fit this side's. The peer was refused then.
    pub fn accept(&mut self, request: Request, config: Config) -> Result<(Key, Stream), Failed> {
        let Request {
            id, told, adapter, ..
        } = request;
        if let Err(why) = told.fits(&config) {
            refuse(&id, why);
            return Err(Failed::Refused(why));
        }
        let key = self.key();
        id.set_tag(key.0);
        let accepted = accept(&id, &adapter, &told, config);
        if accepted.is_err() {
            refuse(&id, Refusal::NoResources);
        }
        Ok((key, accepted?))
    }

    /// The next news, if there are any.
    ///
    /// # Errors
    /// The channel is of no use any more.
    pub fn next_event(&mut self) -> Result<Option<Event>, Error> {
        while let Some(event) = self.channel.next_event()? {
            if let Some(event) = self.take(event) {
                return Ok(Some(event));
            }
        }
        Ok(None)
    }

    fn key(&mut self) -> Key {
        let key = Key(self.next);
        self.next += 1;
        key
    }

    fn take(&mut self, mut event: CmEvent) -> Option<Event> {
        let key = Key(event.id().tag());
        match event.kind() {
            CmEventKind::ConnectRequest => {
                let id = event.take_request()?;
                match self.asked(&id, &event) {
                    Ok(request) => Some(Event::Asked(request)),
                    Err(why) => {
                        refuse(&id, why);
                        None
                    }
                }
            }
            CmEventKind::Disconnected | CmEventKind::DeviceRemoval
                if !self.asking.contains_key(&key) =>
            {
                // the answer, if the peer has asked for the end
                let _ = event.id().disconnect();
                Some(Event::Ended(key))
            }
            CmEventKind::Established if !self.asking.contains_key(&key) => {
                Some(Event::Established(key))
            }
            _ => match self.advance(key, &event) {
                Ok(None) => None,
                Ok(Some(stream)) => {
                    self.asking.remove(&key);
                    Some(Event::Stands(key, Box::new(stream)))
                }
                Err(why) => {
                    self.asking.remove(&key)?;
                    Some(Event::Failed(key, why))
                }
            },
        }
    }

    fn asked(&mut self, id: &Arc<CmId>, event: &CmEvent) -> Result<Request, Refusal> {
        let ends = (id.peer_address(), id.local_address());
        let (Some(from), Some(to)) = ends else {
            return Err(Refusal::Addresses);
        };
        let told = hello::read_hello(id.port_space(), event.private_data(), from, to)?;
        let adapter = self.adapter(id).map_err(|_| Refusal::NoResources)?;
        // by RoCE the request, and all bytes, come from the address that the GID is
        let (_, there) = id.gids();
        if adapter.is_ethernet() && hello::ip_of(there.0) != from.ip() {
            return Err(Refusal::Addresses);
        }
        Ok(Request {
            id: Arc::clone(id),
            told,
            adapter,
            listener: Key(event.id().tag()),
            from,
            to,
        })
    }

    /// A step of a request by this side.
    fn advance(&mut self, key: Key, event: &CmEvent) -> Result<Option<Stream>, Failed> {
        if let Some(why) = Refusal::parse(event.private_data())
            && event.kind() == CmEventKind::Rejected
        {
            return Err(Failed::Refused(why));
        }
        event.result()?;
        match event.kind() {
            CmEventKind::AddrResolved => event.id().resolve_route(RESOLVE)?,
            CmEventKind::RouteResolved => self.request(key)?,
            CmEventKind::ConnectResponse => return self.answered(key, event),
            _ => {}
        }
        Ok(None)
    }

    fn request(&mut self, key: Key) -> Result<(), Failed> {
        let Some(asking) = self.asking.get(&key) else {
            return Ok(());
        };
        let (id, config) = (Arc::clone(&asking.id), asking.config);
        let from = id.local_address().ok_or(Error::NoAdapter)?;
        let endpoint = Endpoint::managed(&self.adapter(&id)?, config, &id)?;
        let question = hello::hello(id.port_space(), &endpoint.end(), from);
        // of a library that has no such option the time is its own
        let _ = id.set_option(CmOption::AckTimeout(TIMEOUT));
        id.connect(&params(&question, &endpoint))?;
        if let Some(asking) = self.asking.get_mut(&key) {
            asking.endpoint = Some(endpoint);
        }
        Ok(())
    }

    fn answered(&mut self, key: Key, event: &CmEvent) -> Result<Option<Stream>, Failed> {
        let asking = self.asking.get_mut(&key);
        let Some((asking, endpoint)) =
            asking.and_then(|asking| asking.endpoint.take().map(|end| (asking, end)))
        else {
            return Ok(None);
        };
        let told = hello::read_hello_ack(asking.id.port_space(), event.private_data())?;
        let stream = endpoint.join(&asking.id, &told)?;
        asking.id.establish()?;
        Ok(Some(stream))
    }

    /// The adapter that an identifier is bound to: one for all connections of its port.
    fn adapter(&mut self, id: &CmId) -> Result<Arc<Adapter>, Error> {
        let context = id.context()?.ok_or(Error::NoAdapter)?;
        let port = id.port_number();
        let mut known = self.adapters.iter();
        if let Some(known) = known.find(|adapter| adapter.is(&context, port)) {
            return Ok(Arc::clone(known));
        }
        let adapter = Adapter::new(&context, port)?;
        self.adapters.push(Arc::clone(&adapter));
        Ok(adapter)
    }
}

fn accept(
    id: &Arc<CmId>,
    adapter: &Arc<Adapter>,
    told: &Told,
    config: Config,
) -> Result<Stream, Failed> {
    let endpoint = Endpoint::managed(adapter, config, id)?;
    let is_standard = told.flow_control.is_none();
    let answer = hello::hello_ack(id.port_space(), &endpoint.end(), is_standard);
    let _ = id.set_option(CmOption::AckTimeout(TIMEOUT));
    let qp = Arc::clone(endpoint.qp());
    let stream = endpoint.join(id, told)?;
    let params = ConnectParams {
        qp: Some(&qp),
        ..params_of(&answer)
    };
    id.accept(&params)?;
    Ok(stream)
}

fn params<'a>(private_data: &'a [u8], endpoint: &'a Endpoint) -> ConnectParams<'a> {
    ConnectParams {
        qp: Some(endpoint.qp()),
        ..params_of(private_data)
    }
}

/// One READ at a time each way, and tries without end where there is no receive: the flow control
/// *nic* lives on it.
fn params_of(private_data: &[u8]) -> ConnectParams<'_> {
    ConnectParams {
        private_data,
        responder_resources: 1,
        initiator_depth: 1,
        retry_count: RETRIES,
        rnr_retry_count: FOR_EVER,
        qp: None,
    }
}

fn refuse(id: &CmId, why: Refusal) {
    let mut bytes = [0; Refusal::LEN];
    if why.emit(&mut bytes).is_ok() {
        // an identifier whose request is gone needs no answer
        let _ = id.reject(&bytes);
    }
}
