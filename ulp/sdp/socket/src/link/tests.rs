//! Two ends of a real TCP connection in one process, each with a link of its own.

use super::*;
use crate::calls::{self, Answer};
use ferriband_sdp_local::{PEER_ENDED, Reader, Service as Look, Writer};
use ferriband_sdp_proto::change::Phase;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::thread;

/// One end.
struct End {
    socket: TcpStream,
    link: Link<'static>,
}

impl End {
    fn call(&self) -> Call<'_, 'static> {
        self.link.on(self.socket.as_fd())
    }

    fn send(&self, bytes: &[u8]) {
        let mut done = 0;
        while done < bytes.len() {
            let left = &bytes[done..];
            let part = libc::iovec {
                iov_base: left.as_ptr().cast_mut().cast(),
                iov_len: left.len(),
            };
            let length = left.len() as u64;
            let sent = calls::run(self.call(), |progress| {
                calls::send(self.call(), &[part], length, progress, &mut || Ok(None))
            });
            done += match sent {
                Answer::Bytes(sent) => sent as usize,
                Answer::Kernel(done) => {
                    let done = done as usize;
                    let sent = done + (&self.socket).write(&left[done..]).expect("sent");
                    calls::sent_by_kernel(self.call());
                    sent
                }
                answer => panic!("send: {answer:?}"),
            };
        }
    }

    /// 0 at the end.
    fn receive(&self, into: &mut [u8]) -> usize {
        let part = libc::iovec {
            iov_base: into.as_mut_ptr().cast(),
            iov_len: into.len(),
        };
        let length = into.len() as u64;
        let received = calls::run(self.call(), |progress| {
            calls::receive(self.call(), &mut [part], length, progress, &mut || Ok(None))
        });
        match received {
            Answer::Bytes(received) => received as usize,
            Answer::Kernel(_) => {
                let received = (&self.socket).read(into).expect("received");
                calls::received_by_kernel(self.call());
                received
            }
            answer => panic!("receive: {answer:?}"),
        }
    }

    fn receive_all(&self, into: &mut [u8]) {
        let mut done = 0;
        while done < into.len() {
            let more = self.receive(&mut into[done..]);
            assert_ne!(more, 0, "the stream ends after {done} bytes");
            done += more;
        }
    }

    fn phases(&self) -> [Phase; 2] {
        [Writer(&self.call()).phase(), Reader(&self.call()).phase()]
    }
}

/// What the service thread of a process does for these ends, until all are done.
struct Service {
    over: Arc<AtomicU32>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Service {
    fn of(ends: [&End; 2]) -> Self {
        let over = Arc::new(AtomicU32::new(0));
        let ends = ends.map(|end| {
            let socket = end.socket.try_clone().expect("a descriptor");
            (end.link.twin(), socket)
        });
        let told = over.clone();
        let thread = thread::spawn(move || {
            while told.load(Ordering::Relaxed) == 0 {
                for (link, socket) in &ends {
                    let ended = tcp::info(socket.as_fd()).is_ok_and(|info| info.peer_ended);
                    let call = link.on(socket.as_fd());
                    Look(&call).look(if ended { PEER_ENDED } else { 0 });
                }
                thread::sleep(Duration::from_micros(100));
            }
        });
        let thread = Some(thread);
        Service { over, thread }
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.over.store(1, Ordering::Relaxed);
        let thread = self.thread.take().expect("dropped once");
        thread.join().expect("the service is well");
    }
}

impl Link<'static> {
    /// As another thread has it.
    fn twin(&self) -> Self {
        let (segment, record) = (self.segment.clone(), self.record);
        let (peer, own) = (self.peer.clone(), self.own.clone());
        Link::new(segment, self.slot, self.role, record, peer, own).expect("a slot")
    }
}

fn pair() -> (End, End) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let here = TcpStream::connect(listener.local_addr().expect("bound")).expect("connected");
    let there = listener.accept().expect("accepted").0;
    let segment = crate::own::memory(LENGTH).expect("memory");
    let segment = Arc::new(segment);
    let end = |socket, role| {
        let record = Box::leak(Box::new(Record::default()));
        let peer = Arc::new(Bells::new(Event::new().expect("one")));
        let own = Arc::new(Event::new().expect("one"));
        let link = Link::new(segment.clone(), 5, role, record, peer, own).expect("a slot");
        End { socket, link }
    };
    (end(here, Role::Connected), end(there, Role::Accepted))
}

/// Bytes that tell where they belong.
fn text(from: u64, length: usize) -> Vec<u8> {
    (from..from + length as u64)
        .map(|at| (at ^ (at >> 8) ^ (at >> 16)) as u8)
        .collect()
}

#[test]
fn an_echo_is_taken_over_and_goes_back_in_the_middle_of_the_stream() {
    let (here, there) = pair();
    let _service = Service::of([&here, &there]);
    const LENGTHS: [usize; 6] = [1, 3, 64, 1000, 5000, 40_000];
    const ROUNDS: usize = 600;
    let server = thread::spawn(move || {
        let mut bytes = vec![0; 1 << 16];
        for round in 0..ROUNDS {
            if round == 100 {
                assert!(Reader(&there.call()).offer());
            }
            if round == 400 {
                assert_eq!(there.phases(), [Phase::Sdp; 2]);
                assert!(Writer(&there.call()).go_back());
            }
            let length = LENGTHS[round % LENGTHS.len()];
            there.receive_all(&mut bytes[..length]);
            there.send(&bytes[..length]);
        }
        assert_eq!(there.phases()[0], Phase::Done);
        there
    });
    let mut at = 0;
    for round in 0..ROUNDS {
        if round == 200 {
            assert!(Reader(&here.call()).offer());
        }
        let sent = text(at, LENGTHS[round % LENGTHS.len()]);
        here.send(&sent);
        let mut received = vec![0; sent.len()];
        here.receive_all(&mut received);
        assert!(received == sent, "round {round}");
        at += sent.len() as u64;
    }
    let there = server.join().expect("the server is well");
    assert_eq!(here.phases(), [Phase::Sdp, Phase::Done]);
    drop(there);
}

#[test]
fn streams_arrive_whole_wherever_they_change() {
    const LENGTH: usize = 3 << 20;
    for changes in 0..12_u64 {
        let (here, there) = pair();
        let _service = Service::of([&here, &there]);
        let writer = thread::spawn(move || {
            let all = text(0, LENGTH);
            for (number, piece) in all
                .chunks(1 + 4097 * (1 + changes as usize % 5))
                .enumerate()
            {
                here.send(piece);
                if number as u64 == 40 + 10 * changes {
                    assert!(Writer(&here.call()).go_back() || changes == u64::MAX);
                }
            }
            assert!(Writer(&here.call()).go_back());
            here.socket.shutdown(Shutdown::Write).expect("shut");
            here
        });
        let mut all = vec![0; LENGTH + 1];
        let mut done = 0;
        loop {
            if done > 100_000 * changes as usize {
                Reader(&there.call()).offer();
            }
            let most = (done + 1 + 977 * (changes as usize + 1)).min(all.len());
            match there.receive(&mut all[done..most]) {
                0 => break,
                more => done += more,
            }
        }
        assert_eq!(done, LENGTH);
        assert!(all[..done] == text(0, LENGTH), "change {changes}");
        writer.join().expect("the writer is well");
    }
}
