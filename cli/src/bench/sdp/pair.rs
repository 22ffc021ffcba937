//! Two programs that send to one another by a socket, as plain as they can be: `ferriband
//! socket-pair`, which `bench --sdp` runs with and without the library of SDP.
//!
//! Owns: the loops. Must not know: what carries the bytes. The first process listens and measures,
//! and starts the second one with its own environment.

use super::many;
use crate::args::{SocketPairArgs, SocketTraffic};
use crate::failure::Failure;
use crate::text::print_line;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::process::{Child, Command, ExitCode};
use std::time::{Duration, Instant};

/// Before anything is measured: a connection grows its windows, and goes over to SDP.
const WARM_UP: Duration = Duration::from_millis(150);
/// How long is measured.
const MEASURED: Duration = Duration::from_millis(300);
/// Round trips between two looks at the clock.
const BATCH: u32 = 16;
/// A reader's buffer, where messages are not longer.
const BUFFER: usize = 64 << 10;

/// A connected socket.
pub(super) trait Stream: Read + Write {
    fn set_nonblocking(&self, nonblocking: bool) -> io::Result<()>;
}

impl Stream for TcpStream {
    fn set_nonblocking(&self, nonblocking: bool) -> io::Result<()> {
        TcpStream::set_nonblocking(self, nonblocking)
    }
}

impl Stream for UnixStream {
    fn set_nonblocking(&self, nonblocking: bool) -> io::Result<()> {
        UnixStream::set_nonblocking(self, nonblocking)
    }
}

/// Prints one way of a message in nanoseconds, or the bytes of a second.
pub fn command(args: &SocketPairArgs) -> Result<ExitCode, Failure> {
    let failed = |error: io::Error| Failure::io("measure by", "a socket", &error);
    let figure = match &args.peer {
        Some(peer) if args.traffic == SocketTraffic::Requests => {
            requests(args, peer).map(|rate| Some(rate.to_string()))
        }
        Some(peer) => second(args, peer).map(|()| None),
        None => first(args).map(Some),
    };
    if let Some(figure) = figure.map_err(failed)? {
        print_line(&figure)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Listens, starts the second process, measures.
fn first(args: &SocketPairArgs) -> io::Result<String> {
    match args.traffic {
        SocketTraffic::Connections => return Ok(first_of_short(args)?.to_string()),
        SocketTraffic::Many | SocketTraffic::Idle => return many::first(args),
        _ => {}
    }
    let (mut child, mut stream): (Child, Box<dyn Stream>) = if args.unix {
        let name = format!("ferriband-socket-pair-{}", std::process::id());
        let listener = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name)?)?;
        let child = start(args, &name)?;
        (child, Box::new(listener.accept()?.0))
    } else {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        set_congestion(&listener, args)?;
        let child = start(args, &listener.local_addr()?.to_string())?;
        let stream = listener.accept()?.0;
        prepare(&stream, args)?;
        (child, Box::new(stream))
    };
    let figure = measure(&mut *stream, args)?;
    drop(stream);
    match child.wait()?.success() {
        true => Ok(figure.to_string()),
        false => Err(io::Error::other("the second process failed")),
    }
}

/// Serves one connection after the other; gives how many in a second.
fn first_of_short(args: &SocketPairArgs) -> io::Result<f64> {
    let name = format!("ferriband-socket-pair-{}", std::process::id());
    let (address, mut accept): (String, Box<Accept>) = if args.unix {
        let listener = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name)?)?;
        (name, Box::new(move || Ok(Box::new(listener.accept()?.0))))
    } else {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        set_congestion(&listener, args)?;
        let address = listener.local_addr()?.to_string();
        (
            address,
            Box::new(move || Ok(Box::new(listener.accept()?.0))),
        )
    };
    let mut child = start(args, &address)?;
    let mut bytes = vec![0; args.bytes];
    let mut serve = || -> io::Result<()> {
        let mut stream = accept()?;
        match receive(&mut *stream, &mut bytes)? {
            true => send(&mut *stream, &bytes),
            false => Ok(()),
        }
    };
    let begin = Instant::now();
    while begin.elapsed() < WARM_UP {
        serve()?;
    }
    let (start, mut served) = (Instant::now(), 0);
    while start.elapsed() < MEASURED {
        serve()?;
        served += 1;
    }
    let rate = f64::from(served) / start.elapsed().as_secs_f64();
    // it ends with the first connection that it does not get
    drop(accept);
    child.wait()?;
    Ok(rate)
}

/// Takes the next connection.
type Accept = dyn FnMut() -> io::Result<Box<dyn Stream>>;

/// Connects, exchanges and closes until nobody listens.
fn second_of_short(args: &SocketPairArgs, peer: &str) -> io::Result<()> {
    let mut bytes = vec![0; args.bytes];
    let name = match args.unix {
        true => Some(SocketAddr::from_abstract_name(peer)?),
        false => None,
    };
    loop {
        let stream = match &name {
            Some(name) => {
                UnixStream::connect_addr(name).map(|one| Box::new(one) as Box<dyn Stream>)
            }
            None => TcpStream::connect(peer).map(|one| Box::new(one) as Box<dyn Stream>),
        };
        let Ok(mut stream) = stream else {
            return Ok(());
        };
        // the last one may be accepted by nobody
        let sent = send(&mut *stream, &bytes);
        if !sent
            .and_then(|()| receive(&mut *stream, &mut bytes))
            .unwrap_or(false)
        {
            return Ok(());
        }
    }
}

pub(super) fn start(args: &SocketPairArgs, peer: &str) -> io::Result<Child> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(std::env::args_os().skip(1));
    command.args(["--peer", peer]);
    debug_assert!(args.peer.is_none());
    command.spawn()
}

/// Connects, and does what the first one expects.
fn second(args: &SocketPairArgs, peer: &str) -> io::Result<()> {
    match args.traffic {
        SocketTraffic::Connections => return second_of_short(args, peer),
        SocketTraffic::Many | SocketTraffic::Idle => return many::second(args, peer),
        _ => {}
    }
    let mut stream: Box<dyn Stream> = if args.unix {
        let address = SocketAddr::from_abstract_name(peer)?;
        Box::new(UnixStream::connect_addr(&address)?)
    } else {
        let stream = TcpStream::connect(peer)?;
        prepare(&stream, args)?;
        Box::new(stream)
    };
    let mut bytes = vec![0; args.bytes];
    if args.traffic == SocketTraffic::Stream {
        let start = Instant::now();
        while start.elapsed() < WARM_UP + MEASURED {
            for _ in 0..BATCH {
                stream.write_all(&bytes)?;
            }
        }
        return Ok(());
    }
    let polled = args.traffic == SocketTraffic::Polled;
    stream.set_nonblocking(polled)?;
    while receive(&mut *stream, &mut bytes)? {
        send(&mut *stream, &bytes)?;
    }
    Ok(())
}

/// Requests of a second.
fn requests(args: &SocketPairArgs, peer: &str) -> io::Result<f64> {
    let mut stream = TcpStream::connect(peer)?;
    stream.set_nodelay(true)?;
    let request = format!("{}\r\n", args.line);
    let end = format!("{}\r\n", args.answer);
    let mut bytes = vec![0; BUFFER];
    let mut ask = || -> io::Result<()> {
        stream.write_all(request.as_bytes())?;
        let mut done = 0;
        while !bytes[..done].ends_with(end.as_bytes()) {
            match stream.read(&mut bytes[done..])? {
                0 => return Err(ErrorKind::UnexpectedEof.into()),
                got => done += got,
            }
        }
        Ok(())
    };
    let begin = Instant::now();
    while begin.elapsed() < WARM_UP {
        ask()?;
    }
    let (start, mut asked) = (Instant::now(), 0);
    while start.elapsed() < MEASURED {
        ask()?;
        asked += 1;
    }
    Ok(f64::from(asked) / start.elapsed().as_secs_f64())
}

/// A ping-pong goes without delay; a stream as programs leave it.
fn prepare(stream: &TcpStream, args: &SocketPairArgs) -> io::Result<()> {
    set_congestion(stream, args)?;
    stream.set_nodelay(args.traffic != SocketTraffic::Stream)
}

pub(super) fn set_congestion(socket: &impl AsRawFd, args: &SocketPairArgs) -> io::Result<()> {
    let Some(name) = &args.congestion else {
        return Ok(());
    };
    // SAFETY: a name and its length.
    let set = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_CONGESTION,
            name.as_ptr().cast(),
            name.len() as libc::socklen_t,
        )
    };
    match set {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Sends all bytes, in a socket that may not sleep, too.
pub(super) fn send(stream: &mut dyn Stream, bytes: &[u8]) -> io::Result<()> {
    let mut done = 0;
    while done < bytes.len() {
        match stream.write(&bytes[done..]) {
            Ok(written) => done += written,
            Err(error) if error.kind() == ErrorKind::WouldBlock => std::hint::spin_loop(),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Receives a whole message. False: the peer has closed before it.
pub(super) fn receive(stream: &mut dyn Stream, bytes: &mut [u8]) -> io::Result<bool> {
    let mut done = 0;
    while done < bytes.len() {
        match stream.read(&mut bytes[done..]) {
            Ok(0) => return Ok(false),
            Ok(got) => done += got,
            Err(error) if error.kind() == ErrorKind::WouldBlock => std::hint::spin_loop(),
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}

fn measure(stream: &mut dyn Stream, args: &SocketPairArgs) -> io::Result<f64> {
    let begin = Instant::now();
    if args.traffic == SocketTraffic::Stream {
        let mut bytes = vec![0; args.bytes.max(BUFFER)];
        while begin.elapsed() < WARM_UP {
            if stream.read(&mut bytes)? == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
        }
        let start = Instant::now();
        let mut sum = 0;
        loop {
            match stream.read(&mut bytes)? {
                0 => return Ok(sum as f64 / start.elapsed().as_secs_f64()),
                got => sum += got,
            }
        }
    }
    let mut bytes = vec![0; args.bytes];
    stream.set_nonblocking(args.traffic == SocketTraffic::Polled)?;
    let mut round = || -> io::Result<()> {
        for _ in 0..BATCH {
            send(stream, &bytes)?;
            if !receive(stream, &mut bytes)? {
                return Err(ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(())
    };
    while begin.elapsed() < WARM_UP {
        round()?;
    }
    let (start, mut trips) = (Instant::now(), 0);
    while start.elapsed() < MEASURED {
        round()?;
        trips += BATCH;
    }
    Ok(start.elapsed().as_nanos() as f64 / f64::from(trips) / 2.0)
}
