//! The progress thread: asleep until something rings. While a program polls it looks on, and does what the program leaves.
//!
//! Owns: when it wakes, and what it takes off a polling program. Must not know: how rings and
//! packets are handled ([`crate::progress::round`]).

use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

use ferriband_fork::Settled;
use ferriband_memory::AliveWord;
use ferriband_memory::host::{HAND_OVER_BODY, HAND_OVER_HEAD};
use ferriband_memory::wait::{Epoll, Ready};
use ferriband_sanitizer::Inside;
use ferriband_transport::direct::layout::{PROC_ALIVE, PROC_ASLEEP};

use crate::base::error::Error;
use crate::base::thread::{block_signals, restore_signals};
use crate::lock;
use crate::objects::catch::Catch;
use crate::process::polls::{NOBODY, WAITS};
use crate::progress::Engine;
use crate::qp::serve::ON_THREAD;
use crate::wire::native::fabric::Wire;

/// Empty polls before a polling program yields at each: about 20 us.
const SPIN_POLLS: u32 = 800;
/// How often the progress thread looks whether the program still polls.
const TICK_NS: u64 = 1_000_000;
/// Ticks without an event, after which the thread sleeps as long as the program's thread does.
const STILL_TICKS: u32 = 8;
/// How long a program that polls may have to wait for a core of a crowded machine.
const CROWDED_NS: u64 = 4_000_000;
/// How long the thread watches, when long transfers are posted, whether the program polls: then the program moves them, since
/// two cores that take turns at one transfer lose their caches to each other.
const WATCH_POLLS_NS: u64 = 100_000;
/// How often it looks again while the program does.
const ASSIST_TICK_NS: u64 = 100_000;
/// How often blocked work is looked at in any case.
const BLOCKED_TICK_NS: u64 = 10_000_000;
/// How soon the thread looks again at a timer that is due and could not go off, because another thread was handling packets.
const LATE_TIMER_NS: u64 = 20_000;
/// How soon a connection that could not be made is tried again.
const CONNECT_RETRY_NS: u64 = 2_000_000;
/// Packets since the thread last found nothing, from which on it takes them for a stream.
const STREAM_PACKETS: u64 = 8;
/// How long it waits for the next run of a stream without sleeping.
const STREAM_SPIN_NS: u64 = 30_000;
/// Pauses between two looks, together about 2 us.
const STREAM_PAUSE: u32 = 48;
const TOKEN_WAKER: u64 = u64::MAX;
const TOKEN_BELL: u64 = u64::MAX - 4;
const TOKEN_LISTENER: u64 = u64::MAX - 1;
/// The RoCE wire's sockets: there is nothing to do for them but to look.
const TOKEN_ROCE: u64 = u64::MAX - 2;
/// A tool that listens in has ended.
const TOKEN_TOOL: u64 = u64::MAX - 3;
/// The kernel tells of network interfaces.
const TOKEN_NET: u64 = u64::MAX - 5;
/// Looks in vain after which the thread leaves packets to the polling program again.
const LINGER_LOOKS: u32 = 256;
/// A program that has a single core: each look that finds it polling leaves this part of them.
const LINGER_LESS: u32 = 4;
/// It has several: each such look is worth so many in vain.
const POLLED_LOOKS: u32 = 4;
/// Packets that lie for so long while the program polls are not polled for.
const UNTAKEN_NS: u64 = 20_000;
/// The same of a program that is known to wait for memory at times, and has another core to do so.
const SOON_UNTAKEN_NS: u64 = 2_000;

/// Cores that the control group grants, found out when the first engine starts.
fn granted_cores() -> usize {
    static GRANTED: Settled<usize> = Settled::new();
    *GRANTED.get_or_init(|| std::thread::available_parallelism().map_or(1, usize::from))
}

/// Starts the progress thread. It blocks all signals: they are the program's.
pub(super) fn spawn(engine: &Arc<Engine>) -> Result<(), Error> {
    granted_cores();
    let weak = Arc::downgrade(engine);
    let own = engine.process.own.clone();
    let epoll = Epoll::new()?;
    epoll.add(&*engine.process.waker, TOKEN_WAKER, false)?;
    epoll.add(engine.process.registry.listener(), TOKEN_LISTENER, false)?;
    let started = Arc::new((std::sync::Mutex::new(None), std::sync::Condvar::new()));
    let report = started.clone();
    let mask = block_signals();
    let spawned = std::thread::Builder::new()
        .name("ferriband".into())
        .stack_size(256 << 10)
        .spawn(move || {
            let _inside = Inside::enter();
            ON_THREAD.set(true);
            exact_timers();
            let alive = AliveWord::hold(&own, PROC_ALIVE);
            let held = alive.is_ok();
            *lock(&report.0) = Some(alive.as_ref().map(|_| ()).map_err(|error| *error));
            report.1.notify_all();
            if held {
                run(&weak, &epoll);
            }
        });
    restore_signals(mask);
    let handle = spawned.map_err(|error| {
        let errno = error.raw_os_error().unwrap_or(libc::EAGAIN);
        Error::system("start of the progress thread", errno)
    })?;
    let mut result = lock(&started.0);
    while result.is_none() {
        result = started
            .1
            .wait(result)
            .unwrap_or_else(std::sync::PoisonError::into_inner);
    }
    if let Some(Err(error)) = *result {
        return Err(error.into());
    }
    *lock(&engine.progress.thread) = Some(handle);
    Ok(())
}

/// This thread's waits end when they are to, not up to 50 us later (the kernel's usual slack): some of them are shorter than that.
fn exact_timers() {
    // SAFETY: numbers alone; the call concerns this thread's waits, and fails only where there is no such setting.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1) };
}

/// What the thread saw of the program's polls, and when they last changed.
#[derive(Clone, Copy, Default)]
struct Seen {
    polls: u32,
    at: u64,
    /// Its polls when the thread last looked for packets, and what had been taken from the sockets then.
    looked: u32,
    taken: u64,
    /// Looks left at which the thread handles packets beside a polling program.
    linger: u32,
    /// The sockets of the RoCE wire are among what is waited for, and that of the InfiniBand port.
    armed: bool,
    armed_local: bool,
    armed_bell: bool,
    /// Which sockets of senders are.
    flows: u32,
    stream: Stream,
    /// Ticks at which a thread of the program rested as at the one before.
    still: u32,
}

/// A stream of packets that the thread receives: it looks for the next run a little longer before it sleeps, because a run comes in less
/// time than a wake-up takes, and a sender that has just lost a packet has a small window.
#[derive(Clone, Copy, Default)]
struct Stream {
    taken: u64,
    until: u64,
}

impl Stream {
    /// True while the thread, which found nothing, had better look again.
    fn goes_on(&mut self, engine: &Engine) -> bool {
        let Some(roce) = engine.wires.roce.get() else {
            return false;
        };
        let taken = roce.taken();
        if taken - self.taken >= STREAM_PACKETS {
            self.until = Engine::now().0 + STREAM_SPIN_NS;
        }
        self.taken = taken;
        let goes_on = self.until != 0 && Engine::now().0 < self.until;
        if goes_on {
            // whoever else wants the core has it, and a look at the socket delays its sender
            std::thread::yield_now();
            (0..STREAM_PAUSE).for_each(|_| std::hint::spin_loop());
        }
        goes_on
    }
}

/// The thread: asleep until something rings, except while a program polls, when it ticks to see it stop.
fn run(weak: &std::sync::Weak<Engine>, epoll: &Epoll) {
    let mut ready: Vec<Ready> = Vec::new();
    let mut seen = Seen::default();
    let (mut connecting, mut watching) = (false, false);
    // for what others hand over, once there is a box for it
    let mut post_room = Vec::new();
    loop {
        let timeout = {
            let Some(engine) = weak.upgrade() else { return };
            if engine.progress.stop.load(Ordering::Acquire) {
                return;
            }
            match engine.before_sleep(&mut seen) {
                None if connecting => Some(CONNECT_RETRY_NS),
                Some(ns) if connecting => Some(ns.min(CONNECT_RETRY_NS)),
                timeout => timeout,
            }
        };
        if let Some(engine) = weak.upgrade() {
            engine.arm(epoll, &mut seen);
        }
        if epoll.wait(&mut ready, timeout).is_err() {
            return;
        }
        let Some(engine) = weak.upgrade() else { return };
        // before anybody's end is noticed: what the dead have said came first
        if let Some(post) = engine.open_post_box() {
            if post_room.is_empty() {
                post_room = vec![0; HAND_OVER_HEAD + HAND_OVER_BODY];
                let _ = epoll.add(post, TOKEN_ROCE, false);
            }
            engine.empty_post_box(&mut post_room);
        }
        for event in &ready {
            match event.token {
                TOKEN_BELL => {
                    let _ = engine.process.bell.take();
                }
                TOKEN_WAKER => {
                    let _ = engine.process.waker.take();
                }
                TOKEN_LISTENER => engine.accept(epoll),
                TOKEN_ROCE => {}
                TOKEN_NET => engine.look_at_interfaces(),
                TOKEN_TOOL => {
                    if let Some(roce) = engine.wires.roce.get() {
                        roce.hooks.tool_ended();
                    }
                }
                token => engine.control_ready(token, epoll),
            }
        }
        engine.watch_interfaces(epoll, TOKEN_NET, &mut watching);
        connecting = engine.connect_pending(epoll);
        connecting |= engine.tend_lives(epoll);
        if !ready.is_empty() && engine.rests.kind.load(Ordering::SeqCst) != NOBODY {
            // What is to be done is its to do: with a peer's ring, and with a channel that has just
            // been opened.
            engine.process.bell.signal(1);
        }
        if let Some(roce) = engine.wires.roce.get() {
            roce.repair(engine.to());
            roce.hooks.watch_tools(epoll, TOKEN_TOOL);
        }
    }
}

impl Engine {
    /// How long polling spins before it yields: not at all on a single core. Called by a polling program, so it reads no
    /// files: the share of the cores that the control group grants is asked for once, the cores that the program is
    /// bound to every time.
    pub(super) fn adapt_spinning(&self) {
        let bound = rustix::thread::sched_getaffinity(None).map_or(1, |set| set.count() as usize);
        let cores = bound.min(granted_cores());
        let limit = if cores > 1 { SPIN_POLLS } else { 0 };
        self.polls.spin_limit.store(limit, Ordering::Relaxed);
        self.set_patience();
    }

    /// A program that has not looked for so long does not poll any more.
    fn patience_ns(&self) -> u64 {
        match self.polls.naps.load(Ordering::Relaxed) {
            0 => TICK_NS,
            _ => CROWDED_NS,
        }
    }

    /// True if the thread may sleep without a tick: a thread of the program waits for an event, as
    /// at these polls.
    fn stop_ticking(&self, polls: u32) -> bool {
        if self.rests.kind.load(Ordering::SeqCst) != WAITS || self.wants_time() {
            return false;
        }
        self.rests.ticks.store(false, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        // who comes back from its wait from now on wakes this thread
        let still = self.rests.kind.load(Ordering::SeqCst) == WAITS
            && self.polls.count.load(Ordering::SeqCst) == polls;
        if !still {
            self.rests.ticks.store(true, Ordering::SeqCst);
        }
        still
    }

    /// What the thread does before it waits, and how long it may wait in nanoseconds.
    fn before_sleep(&self, seen: &mut Seen) -> Option<u64> {
        if self.polls.polling.load(Ordering::Acquire) {
            self.look_for_packets(seen);
            let busy = self.assist();
            let (polls, now) = (self.polls.count.load(Ordering::Relaxed), Self::now().0);
            let rests = self.rests.kind.load(Ordering::SeqCst);
            if rests != NOBODY {
                let still = polls == seen.polls;
                self.wake_at_tick(rests, still);
                seen.still = if still { seen.still + 1 } else { 0 };
                seen.at = now;
                if seen.still >= STILL_TICKS && !busy && self.stop_ticking(polls) {
                    return None;
                }
            }
            if polls != seen.polls {
                (seen.polls, seen.at) = (polls, now);
            }
            let idle = now.saturating_sub(seen.at);
            let patience = self.patience_ns();
            if idle < patience {
                let tick = TICK_NS.min(patience - idle);
                let watches = busy && !self.agenda.polled_for.load(Ordering::Relaxed);
                return Some(if watches { ASSIST_TICK_NS } else { tick });
            }
            // nobody polls any more
            self.polls.idle.store(0, Ordering::Relaxed);
            self.rests.inside.store(false, Ordering::Relaxed);
            self.end_polling();
        }
        seen.still = 0;
        self.agenda.assisting.store(false, Ordering::Release);
        self.process.own.store(PROC_ASLEEP, 1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        self.with_peers(|peers| {
            self.serve_all(peers);
        });
        while self.round(true, &mut Catch::nobody()) || seen.stream.goes_on(self) {
            if self.polls.polling.load(Ordering::Acquire) {
                return Some(0);
            }
        }
        if self.agenda.work_count.load(Ordering::Acquire) > 0 {
            // all of it waits for others, whose answers ring; this is for what nobody rings about
            return Some(BLOCKED_TICK_NS);
        }
        match self.first_timer() {
            u64::MAX => None,
            at => Some(at.saturating_sub(Self::now().0).max(LATE_TIMER_NS)),
        }
    }

    /// Packets that a polling program leaves: it polls memory, not a completion queue. Then the thread handles them, until it has
    /// found none for a while. A program that takes them itself is left in peace: each look of the thread may cost it its core. So is one that is
    /// late for what it can see in a completion queue alone (SENDs, responses): it copies what came before, and will poll.
    fn look_for_packets(&self, seen: &mut Seen) {
        let Some(roce) = self.wires.roce.get() else {
            return;
        };
        if self.rests.kind.load(Ordering::SeqCst) != NOBODY {
            // it is woken by them
            return;
        }
        let (polls, taken) = (self.polls.count.load(Ordering::Relaxed), roce.taken());
        if seen.linger == 0 && taken != seen.taken {
            // what came since the last look was taken, and not by the thread
            seen.taken = taken;
            return;
        }
        if seen.linger == 0 || polls != seen.looked {
            // a program that polls a queue and waits for memory in turns (NCCL) is late by whatever is waited here
            let beside = seen.linger > 0 && self.polls.spin_limit.load(Ordering::Relaxed) > 0;
            if beside {
                self.watch_polls(polls, SOON_UNTAKEN_NS);
            } else {
                std::thread::sleep(std::time::Duration::from_nanos(UNTAKEN_NS));
            }
            seen.looked = self.polls.count.load(Ordering::Relaxed);
            if roce.taken() != taken || seen.looked != polls {
                // it polls at this moment, and with each poll it takes them itself
                seen.linger = match beside {
                    true => seen.linger.saturating_sub(POLLED_LOOKS),
                    false => seen.linger / LINGER_LESS,
                };
                seen.taken = roce.taken();
                return;
            }
        }
        let unseen = self.wires.unseen.load(Ordering::Relaxed);
        if roce.round(self.to(), &mut Catch::nobody())
            && self.wires.unseen.load(Ordering::Relaxed) != unseen
        {
            seen.linger = LINGER_LOOKS;
        } else {
            seen.linger = seen.linger.saturating_sub(1);
        }
        seen.taken = roce.taken();
    }

    /// Returns when the program has polled, or after so long. Without sleeping: a wake-up takes longer.
    fn watch_polls(&self, polls: u32, most_ns: u64) {
        let until = Self::now().0 + most_ns;
        while self.polls.count.load(Ordering::Relaxed) == polls && Self::now().0 < until {
            std::hint::spin_loop();
        }
    }

    /// Waits for packets, too, or leaves them to the program that polls.
    fn arm(&self, epoll: &Epoll, seen: &mut Seen) {
        let wanted = !self.polls.polling.load(Ordering::Acquire) || seen.linger > 0;
        if wanted != seen.armed_bell {
            let done = match wanted {
                true => epoll.add(&*self.process.bell, TOKEN_BELL, false),
                false => epoll.remove(&*self.process.bell),
            };
            seen.armed_bell = if done.is_ok() {
                wanted
            } else {
                seen.armed_bell
            };
        }
        let Some(roce) = self.wires.roce.get() else {
            return;
        };
        if let Some(local) = roce.local()
            && wanted != seen.armed_local
        {
            let done = if wanted {
                epoll.add(local.socket(), TOKEN_ROCE, false)
            } else {
                epoll.remove(local.socket())
            };
            for link in local.fabric.iter().filter_map(Wire::link) {
                // one that is gone is not waited for: its end is seen when it is read
                let _ = match wanted {
                    true => epoll.add(&*link, TOKEN_ROCE, false),
                    false => epoll.remove(&*link),
                };
            }
            if done.is_ok() {
                seen.armed_local = wanted;
            }
        }
        if !roce.has_port() {
            return;
        }
        let version = roce.flows_version();
        let changed = if wanted {
            !seen.armed || version != seen.flows
        } else {
            seen.armed
        };
        if changed {
            let (version, flows) = roce.flows();
            for socket in flows {
                // one that is there already stays, and one that was closed has left by itself
                let _ = match wanted {
                    true => epoll.add(&*socket, TOKEN_ROCE, false),
                    false => epoll.remove(&*socket),
                };
            }
            seen.flows = version;
        }
        if wanted == seen.armed {
            return;
        }
        for socket in roce.sockets() {
            let done = if wanted {
                epoll.add(socket, TOKEN_ROCE, false)
            } else {
                epoll.remove(socket)
            };
            if done.is_err() {
                return;
            }
        }
        seen.armed = wanted;
    }

    /// Moves long transfers while the program does something else between its polls. True while some are left.
    fn assist(&self) -> bool {
        let mut polls = self.polls.count.load(Ordering::Relaxed);
        let mut until = 0;
        while self.agenda.work_count.load(Ordering::Acquire) > 0 {
            let now = self.polls.count.load(Ordering::Relaxed);
            if now != polls {
                // whoever polls moves them
                return true;
            }
            if until == 0 {
                until = Self::now().0 + WATCH_POLLS_NS;
            }
            if Self::now().0 < until {
                std::thread::yield_now();
                continue;
            }
            if !self.drive_work(true) {
                return true;
            }
            self.agenda.polled_for.store(false, Ordering::Relaxed);
            polls = now;
        }
        self.agenda.assisting.store(false, Ordering::SeqCst);
        // what was posted meanwhile was not signaled
        self.agenda.work_count.load(Ordering::SeqCst) > 0
    }
}
