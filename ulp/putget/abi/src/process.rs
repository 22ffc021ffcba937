//! The process: buffers of the program, found by tags, and what is under way on them.
//!
//! Owns: registrations, tokens, notifications as places in the program's memory. Must not know: C
//! types of the calls.

use ferriband_ibv::{Access, Element, Mr, Pd};
use ferriband_putget_proto::tags::{Direction, Note, Range, TagError, Tags, Told};
use ferriband_putget_proto::{Answer, Asked, Granted, Kind, NotStarted, Segment};
use ferriband_putget_proto::{Start, Started, Status};
use ferriband_putget_verbs::crossover::Crossover;
use ferriband_putget_verbs::{Left, Node, Peer, Server, Users};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// What peers and this process may do with a buffer.
const ACCESS: Access = Access::LOCAL_WRITE
    .union(Access::REMOTE_WRITE)
    .union(Access::REMOTE_READ);
/// The most bytes that one element of a request names.
pub const LONGEST: u64 = 1 << 30;

/// A notification as it lies in the program's memory (`ferriband_putget_notification_t`).
#[repr(C)]
pub struct Notification {
    state: u32,
    status: u32,
    length: u64,
}

/// Bytes of a notification; its state is the first word, its status the second.
pub const NOTIFICATION_BYTES: usize = size_of::<Notification>();

/// A request of this process's.
struct Own {
    tag: u32,
    kind: Kind,
    acknowledgement: Option<Note>,
}

/// Which buffer a peer's request holds, and how much of it.
#[derive(Clone, Copy, Debug)]
pub struct Hold {
    tag: u32,
    kind: Kind,
    length: u64,
}

/// Memory of the program, and those who wait.
pub struct Process {
    tags: Tags,
    registered: BTreeMap<u32, Arc<Mr>>,
    /// Notifications that have not fired: the buffer that each lies in, and how often it was handed
    /// over.
    notes: HashMap<Note, (u32, u32)>,
    /// How many of them lie in a buffer.
    waiting: HashMap<u32, usize>,
    own: HashMap<u64, Own>,
    next: u64,
    /// Peers that have connected and that nobody has accepted.
    pub arrived: VecDeque<Peer>,
    /// Peers that this process has asked itself.
    pub asked: Vec<Peer>,
    /// Peers whose connections were lost, or did not come to be.
    pub left: Vec<(Peer, Left)>,
    /// Up to how many bytes operations go in messages.
    pub crossover: Crossover,
}

/// Why a call was refused, as errno.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Errno(pub i32);

impl From<TagError> for Errno {
    fn from(why: TagError) -> Errno {
        Errno(match why {
            TagError::Unknown(_) => libc::ENOENT,
            TagError::Taken(_) | TagError::Bound(_) => libc::EEXIST,
            TagError::Full => libc::ENOSPC,
            TagError::Busy(_) => libc::EBUSY,
            TagError::TooLong { .. } => libc::EMSGSIZE,
        })
    }
}

impl From<NotStarted> for Errno {
    fn from(why: NotStarted) -> Errno {
        Errno(match why {
            NotStarted::Full => libc::EAGAIN,
            NotStarted::TooLong => libc::EMSGSIZE,
            NotStarted::Lost => libc::ENOTCONN,
        })
    }
}

/// The program's memory at a buffer.
///
/// # Safety
/// `[address, address + length)` lies in memory that the program has registered, and has promised
/// to keep and to let the library write.
unsafe fn write(address: u64, data: &[u8]) {
    let to: *mut u8 = std::ptr::with_exposed_provenance_mut(address as usize);
    // SAFETY: the caller's promise.
    unsafe { std::ptr::copy(data.as_ptr(), to, data.len()) };
}

/// As [`write()`], the other way.
///
/// # Safety
/// As of [`write()`].
unsafe fn read(address: u64, to: &mut [u8]) {
    let from: *const u8 = std::ptr::with_exposed_provenance(address as usize);
    // SAFETY: the caller's promise.
    unsafe { std::ptr::copy(from, to.as_mut_ptr(), to.len()) };
}

impl Process {
    /// Without buffers.
    pub fn new(crossover: Crossover) -> Process {
        Process {
            tags: Tags::default(),
            registered: BTreeMap::new(),
            notes: HashMap::new(),
            waiting: HashMap::new(),
            own: HashMap::new(),
            next: 0,
            arrived: VecDeque::new(),
            asked: Vec::new(),
            left: Vec::new(),
            crossover,
        }
    }

    /// Registers memory of the program; its tag.
    ///
    /// # Errors
    /// As `ferriband_putget_register`, by errno.
    ///
    /// # Safety
    /// Until it is unregistered the memory stays mapped, and peers and this library may read and
    /// write it.
    pub unsafe fn register(
        &mut self,
        pd: &Arc<Pd>,
        range: Range,
        wish: Option<u32>,
    ) -> Result<u32, Errno> {
        let tag = self.tags.register(range, wish)?;
        let Range { address, length } = range;
        // SAFETY: the caller's promise.
        let mr = unsafe { Mr::register_foreign(pd, address, length as usize, ACCESS) };
        match mr {
            Ok(mr) => {
                self.registered.insert(tag, mr);
                Ok(tag)
            }
            Err(error) => {
                self.tags.unregister(tag)?;
                Err(Errno(error.errno()))
            }
        }
    }

    pub(crate) fn unregister(&mut self, tag: u32) -> Result<(), Errno> {
        if self.waiting.get(&tag).is_some_and(|count| *count > 0) {
            return Err(Errno(libc::EBUSY));
        }
        let bound = self.tags.unbind(tag)?;
        if let Err(why) = self.tags.unregister(tag) {
            // it was bound, and is again
            if let Some((direction, note)) = bound {
                self.tags.bind(tag, direction, note)?;
            }
            return Err(why.into());
        }
        if let Some((_, note)) = bound {
            self.settle(note);
        }
        self.registered.remove(&tag);
        Ok(())
    }

    /// The buffer that a notification lies in.
    fn buffer_of(&self, note: Note) -> Option<u32> {
        let size = size_of::<Notification>() as u64;
        let end = note.0.checked_add(size)?;
        let aligned = note.0.is_multiple_of(align_of::<Notification>() as u64);
        let holds = |tag: &&u32| {
            let range = self.tags.range(**tag);
            range.is_ok_and(|of| of.address <= note.0 && end <= of.address + of.length)
        };
        self.registered
            .keys()
            .find(holds)
            .copied()
            .filter(|_| aligned)
    }

    /// A notification is handed over: its buffer has to stay.
    fn expect(&mut self, note: Note) -> Result<(), Errno> {
        if let Some((_, times)) = self.notes.get_mut(&note) {
            *times += 1;
            return Ok(());
        }
        let tag = self.buffer_of(note).ok_or(Errno(libc::EINVAL))?;
        self.notes.insert(note, (tag, 1));
        *self.waiting.entry(tag).or_default() += 1;
        Ok(())
    }

    /// A notification is the program's again.
    fn settle(&mut self, note: Note) {
        let Some((tag, times)) = self.notes.get_mut(&note) else {
            return;
        };
        *times -= 1;
        if *times > 0 {
            return;
        }
        if let Some(count) = self.waiting.get_mut(tag) {
            *count -= 1;
        }
        self.notes.remove(&note);
    }

    fn notify(&mut self, tag: u32, direction: Direction, note: Note) -> Result<(), Errno> {
        self.tags.bind(tag, direction, note)?;
        if let Err(errno) = self.expect(note) {
            self.tags.unbind(tag)?;
            return Err(errno);
        }
        Ok(())
    }

    pub(crate) fn cancel(&mut self, tag: u32) -> Result<(), Errno> {
        let (_, note) = self.tags.unbind(tag)?.ok_or(Errno(libc::ENOENT))?;
        self.settle(note);
        Ok(())
    }

    /// Writes what has fired into the program's memory.
    fn tell(&mut self) {
        while let Some(told) = self.tags.next_told() {
            // SAFETY: the structure lies in a registered buffer, which stays until it has fired.
            unsafe { fire(&told) };
            self.settle(told.note);
        }
    }
}

/// # Safety
/// The notification lies in memory that the program has registered.
unsafe fn fire(told: &Told) {
    let at: *mut Notification = std::ptr::with_exposed_provenance_mut(told.note.0 as usize);
    let status = match told.status {
        Status::Ok => 0,
        Status::NoMemory => 1,
        Status::TooLong => 2,
        Status::Fault => 3,
        Status::Undeliverable => 4,
        _ => 5,
    };
    // SAFETY: the caller's promise.
    unsafe {
        (&raw mut (*at).status).write_volatile(status);
        (&raw mut (*at).length).write_volatile(told.length);
        AtomicU32::from_ptr(&raw mut (*at).state).store(1, Ordering::Release);
    }
}

impl Users for Process {
    type Hold = Hold;

    fn admit(&mut self, _: Peer, asked: &Asked<'_>) -> Result<Granted<Hold>, Status> {
        if asked.kind == Kind::Exchange {
            return Err(Status::NotAllowed);
        }
        self.tags.hold(asked.tag, asked.length)?;
        let (tag, kind, length) = (asked.tag, asked.kind, asked.length);
        Ok(Granted {
            hold: Hold { tag, kind, length },
            length,
            offset: 0,
            tag: 0,
        })
    }

    fn place(&mut self, hold: Hold, data: &[u8]) {
        if let Ok(range) = self.tags.range(hold.tag) {
            // SAFETY: as many bytes as were granted, of a buffer that is held.
            unsafe { write(range.address, data) };
        }
    }

    fn fetch(&mut self, hold: Hold, to: &mut [u8]) {
        if let Ok(range) = self.tags.range(hold.tag) {
            // SAFETY: as many bytes as were granted, of a buffer that is held.
            unsafe { read(range.address, to) };
        }
    }

    fn exchange(&mut self, _: Hold, _: &[u8], _: &mut [u8]) {
        // none is admitted
    }

    fn elements(&mut self, hold: Hold, to: &mut Vec<Element<'static>>) -> Result<(), Status> {
        let mr = self.registered.get(&hold.tag).ok_or(Status::Fault)?;
        let range = self.tags.range(hold.tag)?;
        let mut at = 0;
        while at < hold.length {
            let length = (hold.length - at).min(LONGEST);
            // SAFETY: a part of a buffer that is held until the request has ended.
            to.push(unsafe { Element::foreign(range.address + at, length as u32, mr.lkey()) });
            at += length;
        }
        Ok(())
    }

    fn ended(&mut self, hold: Hold, status: Status) {
        let direction = Direction::of_peer(hold.kind);
        let length = if status == Status::Ok { hold.length } else { 0 };
        self.tags
            .release(hold.tag, direction, Some((status, length)));
        self.tell();
    }

    fn gather(&mut self, token: u64, to: &mut [u8]) {
        let own = self.own.get(&token);
        if let Some(Ok(range)) = own.map(|own| self.tags.range(own.tag)) {
            // SAFETY: as many bytes as were asked for, of a buffer that is held.
            unsafe { read(range.address, to) };
        }
    }

    fn scatter(&mut self, token: u64, data: &[u8]) {
        let own = self.own.get(&token);
        if let Some(Ok(range)) = own.map(|own| self.tags.range(own.tag)) {
            // SAFETY: no more bytes than were asked for, of a buffer that is held.
            unsafe { write(range.address, data) };
        }
    }

    fn done(&mut self, token: u64, answer: Answer) {
        let Some(own) = self.own.remove(&token) else {
            return;
        };
        let end = (answer.status, answer.length);
        // what was not asked for is not told: the request is ignored then
        let known = answer.status == Status::Ok
            || answer.status == Status::Undeliverable
            || own.acknowledgement.is_some();
        let direction = Direction::of_own(own.kind);
        self.tags.release(own.tag, direction, known.then_some(end));
        if let Some(note) = own.acknowledgement {
            self.tags.tell(note, answer.status, answer.length);
        }
        self.tell();
    }

    /// A notification may be bound while the request that fires it is under way.
    fn waits_for_all(&self) -> bool {
        self.own
            .values()
            .any(|own| self.tags.is_bound(own.tag, Direction::of_own(own.kind)))
    }

    fn joined(&mut self, peer: Peer) {
        if !self.asked.contains(&peer) {
            self.arrived.push_back(peer);
        }
    }

    fn left(&mut self, peer: Peer, why: Left) {
        self.arrived.retain(|arrived| *arrived != peer);
        self.asked.retain(|asked| *asked != peer);
        self.left.retain(|(left, _)| *left != peer);
        self.left.push((peer, why));
    }
}

/// Binds a notification to a buffer.
///
/// # Errors
/// As `ferriband_putget_notify`, by errno.
pub fn bind(
    server: &Server<Process>,
    tag: u32,
    direction: Direction,
    note: Note,
) -> Result<(), Errno> {
    // the thread arms for what comes unsolicited if that can fire it
    let is_late = server.with(|node| {
        let bound = node.users.notify(tag, direction, note);
        bound.map(|()| node.users.waits_for_all())
    })?;
    if is_late {
        server.nudge();
    }
    Ok(())
}

/// Begins a put or a get.
///
/// # Errors
/// As `ferriband_putget_put`, by errno.
pub fn begin(
    node: &mut Node<Process>,
    peer: Peer,
    kind: Kind,
    (local, remote): (u32, u32),
    length: u64,
    acknowledgement: Option<Note>,
) -> Result<(), Errno> {
    let rooms = node.rooms(peer, 0).ok_or(Errno(libc::ENOTCONN))?;
    let users = &mut node.users;
    let direction = Direction::of_own(kind);
    let range = users.tags.hold(local, length)?;
    if let Some(note) = acknowledgement
        && let Err(errno) = users.expect(note)
    {
        users.tags.release(local, direction, None);
        return Err(errno);
    }
    let short = match kind {
        Kind::Put => rooms.0.min(users.crossover.put),
        _ => rooms.1.min(users.crossover.get),
    };
    let key = users.registered.get(&local).map_or(0, |mr| mr.rkey().0);
    let segments = [Segment {
        address: range.address,
        length,
        key,
    }];
    let token = users.next;
    users.next += 1;
    let own = Own {
        tag: local,
        kind,
        acknowledgement,
    };
    users.own.insert(token, own);
    let start = Start {
        kind,
        tag: remote,
        address: &[],
        length,
        payload: if kind == Kind::Put {
            length as usize
        } else {
            0
        },
        long: (length > short).then_some(&segments[..]),
        acknowledge: acknowledgement.is_some(),
        solicit: acknowledgement.is_some() || users.tags.is_bound(local, direction),
        token,
    };
    let started = node.start(peer, &start);
    let users = &mut node.users;
    if started == Ok(Started::Answered) {
        return Ok(());
    }
    users.own.remove(&token);
    let end = (Status::Ok, length);
    users
        .tags
        .release(local, direction, started.is_ok().then_some(end));
    users.tell();
    if started.is_err()
        && let Some(note) = acknowledgement
    {
        users.settle(note);
    }
    Ok(started.map(drop)?)
}
