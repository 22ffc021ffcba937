//! `ferriband fabric manage`: our subnet manager at an adapter's port, by whichever `libibumad.so.3` the loader finds: ours on a host of a live fabric, the system's before an
//! adapter of this machine or before ibsim. Or before ibsim without a library ([`Ibsim`]). It brings the subnet up once, and ends.
//!
//! Owns the library's functions ([`Umad`]) and the clock. What is asked is the manager's business.

use super::ibsim::Ibsim;
use crate::args::ManageArgs;
use crate::failure::Failure;
use crate::text::{counted, print_json, print_line};
use ferriband_subnet::manager::{Config, Event, Instant, Manager};
use ferriband_subnet::routing::Options;
use ferriband_wire::mad::{MAD_LEN, ManagementClass};
use ferriband_wire::smp::Smp;
use ferriband_wire::{Header, TransactionId};
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::process::ExitCode;
use std::time::Instant as Clock;

/// The library.
const LIBRARY: &CStr = c"libibumad.so.3";
/// How long the library waits for an answer, and how often it sends again, in milliseconds. The manager asks again by itself after that: before ibsim the library does not.
const ANSWER_MS: c_int = 500;
const RETRIES: c_int = 2;
/// What the manager waits for an answer before it asks again, in nanoseconds: longer than the library takes.
const PATIENCE_NS: u64 = 2_000_000_000;
/// Requests outstanding, unless the user says: an adapter's port has room for few; the simulator is to have work while the manager thinks.
const WINDOW: u32 = 16;
const IBSIM_WINDOW: u32 = 64;
/// How often it looks, while packets may come, whether routes are computed, in milliseconds.
const LOOK_MS: u64 = 1;
/// Of the management packets' upper half of transactions, which the library overwrites.
const SEED: u32 = 1;

type Init = unsafe extern "C" fn() -> c_int;
type OpenPort = unsafe extern "C" fn(*const c_char, c_int) -> c_int;
type Register = unsafe extern "C" fn(c_int, c_int, c_int, u8, *mut c_void) -> c_int;
type Size = unsafe extern "C" fn() -> usize;
type SetAddress = unsafe extern "C" fn(*mut c_void, c_int, c_int, c_int, c_int) -> c_int;
type Send = unsafe extern "C" fn(c_int, c_int, *mut c_void, c_int, c_int, c_int) -> c_int;
type Receive = unsafe extern "C" fn(c_int, *mut c_void, *mut c_int, c_int) -> c_int;
type Status = unsafe extern "C" fn(*mut c_void) -> c_int;

/// An open port, and the library's functions.
struct Umad {
    port: c_int,
    agent: c_int,
    head: usize,
    set_address: SetAddress,
    send: Send,
    receive: Receive,
    status: Status,
    /// For a head and a packet.
    room: Vec<u64>,
}

fn last_error() -> std::io::Error {
    std::io::Error::last_os_error()
}

impl Umad {
    /// Opens a port. `device` None: the first one that there is.
    fn open(device: Option<&str>, port: u8) -> Result<Umad, Failure> {
        // SAFETY: a C string; what the library does when it is loaded is its own business.
        let library = unsafe { libc::dlopen(LIBRARY.as_ptr(), libc::RTLD_NOW) };
        if library.is_null() {
            return Err(Failure::new("libibumad.so.3 cannot be loaded").remedy(
                "install it (libibumad3), or run this on a host of a live fabric: ferriband run --host HOST -- ferriband fabric manage",
            ));
        }
        let find = |name: &CStr| {
            // SAFETY: an open library and a C string.
            let found = unsafe { libc::dlsym(library, name.as_ptr()) };
            match found.is_null() {
                true => Err(Failure::new(format!(
                    "libibumad.so.3 has no function {}",
                    name.to_string_lossy()
                ))),
                false => Ok(found),
            }
        };
        /// A function of the library, as a type.
        macro_rules! function {
            ($name:literal, $type:ty) => {{
                let found = find($name)?;
                // SAFETY: rdma-core's umad.h declares the function of this name so.
                unsafe { std::mem::transmute::<*mut c_void, $type>(found) }
            }};
        }
        let init = function!(c"umad_init", Init);
        let open = function!(c"umad_open_port", OpenPort);
        let register = function!(c"umad_register", Register);
        let size = function!(c"umad_size", Size);
        // SAFETY: no arguments.
        if unsafe { init() } < 0 {
            return Err(Failure::io("open", "libibumad.so.3", &last_error()));
        }
        let device = device.and_then(|name| CString::new(name).ok());
        let name = device
            .as_ref()
            .map_or(std::ptr::null(), |name| name.as_ptr());
        // SAFETY: NULL or a C string.
        let id = unsafe { open(name, port.into()) };
        if id < 0 {
            let error = std::io::Error::from_raw_os_error(-id);
            return Err(Failure::io("open", &format!("port {port} of an adapter"), &error)
                .remedy("ibstat lists adapters; on a host of a live fabric: ferriband run --host HOST -- ferriband fabric manage"));
        }
        let class = ManagementClass::SUBN_DIRECTED_ROUTE.0.into();
        // SAFETY: an open port, and no methods that are asked of us.
        let agent = unsafe { register(id, class, 1, 0, std::ptr::null_mut()) };
        if agent < 0 {
            let error = std::io::Error::from_raw_os_error(-agent);
            return Err(Failure::io("manage by", "the port", &error));
        }
        // SAFETY: no arguments.
        let head = unsafe { size() };
        Ok(Umad {
            port: id,
            agent,
            head,
            room: vec![0; (head + MAD_LEN).div_ceil(8)],
            set_address: function!(c"umad_set_addr", SetAddress),
            send: function!(c"umad_send", Send),
            receive: function!(c"umad_recv", Receive),
            status: function!(c"umad_status", Status),
        })
    }

    fn send(&mut self, smp: &Smp) -> Result<(), Failure> {
        let at = self.room.as_mut_ptr().cast::<c_void>();
        // SAFETY: as long as a head and a packet.
        let bytes = unsafe { std::slice::from_raw_parts_mut(at.cast::<u8>(), self.room.len() * 8) };
        bytes[..self.head].fill(0);
        if smp.emit(&mut bytes[self.head..]).is_err() {
            return Ok(());
        }
        // SAFETY: a head; permissive LID, queue pair 0.
        unsafe { (self.set_address)(at, 0xffff, 0, 0, 0) };
        // SAFETY: head and packet, which the library copies.
        let done = unsafe {
            (self.send)(
                self.port,
                self.agent,
                at,
                MAD_LEN as c_int,
                ANSWER_MS,
                RETRIES,
            )
        };
        match done {
            done if done < 0 => Err(Failure::io("send", "a management packet", &last_error())),
            _ => Ok(()),
        }
    }

    /// The next packet, if one comes in time; one that nobody answered is none.
    fn receive(&mut self, patience_ms: c_int) -> Result<Option<Smp>, Failure> {
        let at = self.room.as_mut_ptr().cast::<c_void>();
        let mut length = MAD_LEN as c_int;
        // SAFETY: a head and room for as many bytes as `length` says.
        let got = unsafe { (self.receive)(self.port, at, &raw mut length, patience_ms) };
        if got < 0 {
            let waits = [libc::ETIMEDOUT, libc::EWOULDBLOCK, libc::EINTR];
            return match waits.contains(&-got) {
                true => Ok(None),
                false => Err(Failure::io("receive", "a management packet", &last_error())),
            };
        }
        // SAFETY: a head that the library has filled.
        if unsafe { (self.status)(at) } != 0 {
            return Ok(None);
        }
        // SAFETY: as long as a head and a packet.
        let bytes = unsafe { std::slice::from_raw_parts(at.cast::<u8>(), self.room.len() * 8) };
        let Ok(smp) = Smp::parse_mad(&bytes[self.head..self.head + MAD_LEN]) else {
            return Ok(None);
        };
        Ok(Some(smp))
    }
}

/// The way that packets take.
enum Way {
    Umad(Umad),
    Ibsim(Ibsim),
}

impl Way {
    fn send(&mut self, smp: &Smp) -> Result<(), Failure> {
        match self {
            Way::Umad(umad) => umad.send(smp),
            Way::Ibsim(ibsim) => {
                ibsim.send(smp);
                Ok(())
            }
        }
    }

    /// The next packet, if one comes in time. Both ways write the upper half of a transaction anew.
    fn receive(&mut self, patience_ms: c_int) -> Result<Option<Smp>, Failure> {
        let mut came = match self {
            Way::Umad(umad) => umad.receive(patience_ms),
            Way::Ibsim(ibsim) => ibsim.receive(patience_ms),
        }?;
        if let Some(smp) = &mut came {
            let number = smp.transaction_id.0 & u64::from(u32::MAX);
            smp.transaction_id = TransactionId(u64::from(SEED) << 32 | number);
        }
        Ok(came)
    }
}

/// `ferriband fabric manage`. Exit status: 0 the subnet is up, 1 it is not, or nodes did not do what they were told.
pub fn command(args: &ManageArgs) -> Result<ExitCode, Failure> {
    let engine = super::engine(&args.engine)?;
    let (mut way, port) = if args.ibsim {
        let ibsim = Ibsim::open()?;
        let port = ibsim.port()?;
        (Way::Ibsim(ibsim), port)
    } else {
        let umad = Umad::open(args.device.as_deref(), args.port)?;
        (Way::Umad(umad), args.port)
    };
    let mut config = Config::new(port, *engine);
    (config.options, config.lmc) = (Options::default(), args.lmc);
    let usual = if args.ibsim { IBSIM_WINDOW } else { WINDOW };
    (config.window, config.timeout_ns) = (args.window.unwrap_or(usual), PATIENCE_NS);
    config.aside = true;
    let mut manager = Manager::new(config, SEED);
    let begun = Clock::now();
    let now = || Instant(u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX));
    let (done, routes) = std::sync::mpsc::channel();
    let mut computing = false;
    manager.sweep();
    let event = loop {
        while let Some(smp) = manager.poll_transmit(now()) {
            way.send(&smp)?;
        }
        match manager.poll_event() {
            Some(Event::Same | Event::Read(_)) | None => {}
            Some(Event::Up(subnet)) => break Ok(subnet),
            Some(Event::Failed(error)) => break Err(error),
        }
        if let Some(work) = manager.poll_work() {
            let done = done.clone();
            // nobody waits for it any more once the manager has failed
            std::thread::spawn(move || drop(done.send(work.run())));
            computing = true;
        }
        let due = manager.poll_timeout().map_or(u64::MAX, |due| due.0);
        let mut left = due.saturating_sub(now().0) / 1_000_000 + 1;
        if computing {
            if let Ok(routed) = routes.try_recv() {
                manager.handle_routes(routed);
                computing = false;
                continue;
            }
            left = left.min(LOOK_MS);
        }
        match way.receive(c_int::try_from(left).unwrap_or(c_int::MAX))? {
            Some(smp) => {
                manager.handle_smp(&smp);
            }
            None if manager.poll_timeout().is_some_and(|due| due <= now()) => {
                manager.handle_timeout(now());
            }
            None => {}
        }
    };
    let took = begun.elapsed();
    let subnet =
        event.map_err(|error| Failure::new(format!("the subnet does not come up: {error}")))?;
    let (switches, ends) = (subnet.graph.switches().len(), subnet.graph.ends().len());
    if args.json.json {
        print_json(&serde_json::json!({
            "engine": engine.name,
            "switches": switches,
            "end_ports": ends,
            "requests": subnet.requests,
            "trouble": subnet.trouble.len(),
            "bring_up_ns": u64::try_from(took.as_nanos()).unwrap_or(u64::MAX),
        }))?;
    } else {
        print_line(&format!(
            "the subnet is up in {:.3} s by {}: {}, {}, {} requests{}",
            took.as_secs_f64(),
            engine.name,
            counted(switches, "switch", "switches"),
            counted(ends, "end port", "end ports"),
            subnet.requests,
            match subnet.trouble.len() {
                0 => String::new(),
                some => format!(", but {some} nodes did not do what they were told"),
            }
        ))?;
    }
    Ok(match subnet.trouble.is_empty() {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(1),
    })
}
