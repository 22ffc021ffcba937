//! One case: an operation of a service at one size, measured for latency, then for bandwidth, then
//! checked byte by byte.
//!
//! Client and server run the same three phases with a barrier before each. Two-sided operations
//! are answered by the server; one-sided ones need it only to stay alive, except that WRITE is
//! measured as a ping-pong in which each side polls the last byte, as fast paths do.

use super::channel::Channel;
use crate::args::{Operation, Service};
use crate::failure::Failure;
use crate::verbs::Context;
use crate::verbs::session::{Plan, RECEIVE_DEPTH, SEND_DEPTH, Session, pattern};
use serde::{Deserialize, Serialize};
use std::time::{Duration, Instant};

/// What is measured.
#[derive(Serialize, Deserialize, Debug, Clone)]
pub struct Case {
    /// Transport service.
    pub service: Service,
    /// Operation.
    pub operation: Operation,
    /// Bytes of a message.
    pub size_bytes: usize,
    /// Messages of the latency phase.
    pub latency_iterations: u32,
    /// Messages of the bandwidth phase.
    pub bandwidth_iterations: u32,
    /// Messages up to this size go inline.
    pub inline_bytes: u32,
    /// Sleep for completions.
    pub event: bool,
    /// The target is device memory.
    pub device_memory: bool,
}

/// The last byte that ends a latency phase before all its messages are sent.
const OVER: u8 = 255;

/// Longest latency phase of programs that poll their memory. On a machine where others compute, the
/// kernel gives each of the two its core again only after a time slice, for each message.
const LONGEST_POLLED: Duration = Duration::from_secs(3);

/// Percentiles of one message's time.
#[derive(Serialize, Debug, Clone)]
pub struct Latency {
    /// How many messages were measured: fewer than planned where time was up before.
    pub messages: u32,
    /// True for half a round trip, false for a whole one.
    pub one_way: bool,
    /// The least.
    pub min_ns: f64,
    /// The median.
    pub p50_ns: f64,
    /// 99 of 100 are at most this.
    pub p99_ns: f64,
    /// 999 of 1000 are at most this.
    pub p999_ns: f64,
}

/// What was found.
#[derive(Serialize, Debug, Clone)]
pub struct Measured {
    /// Of what.
    #[serde(flatten)]
    pub case: Case,
    /// One message at a time.
    pub latency: Latency,
    /// Payload, many messages at a time.
    pub bytes_per_second: f64,
    /// Messages, many at a time.
    pub messages_per_second: f64,
}

/// How the two sides take part in an operation.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shape {
    /// The target posts receives and sees completions.
    TwoSided,
    /// The target polls its memory.
    Polled,
    /// The target does nothing.
    OneSided,
}

impl Case {
    /// Service and operation, as the table shows them.
    pub fn name(&self) -> String {
        let operation = match self.operation {
            Operation::Send => "SEND",
            Operation::SendImm => "SEND_IMM",
            Operation::Write => "WRITE",
            Operation::WriteImm => "WRITE_IMM",
            Operation::Read => "READ",
            Operation::CmpSwap => "CMP_SWAP",
            Operation::FetchAdd => "FETCH_ADD",
        };
        format!(
            "{} {operation}",
            format!("{:?}", self.service).to_uppercase()
        )
    }

    fn shape(&self) -> Shape {
        match self.operation {
            Operation::Send | Operation::SendImm | Operation::WriteImm => Shape::TwoSided,
            // Nobody can sleep for a byte of memory: the event mode waits for its own completion.
            Operation::Write if !self.event => Shape::Polled,
            _ => Shape::OneSided,
        }
    }

    fn with_immediate(&self) -> bool {
        matches!(self.operation, Operation::SendImm | Operation::WriteImm)
    }

    fn plan(&self) -> Plan {
        Plan {
            service: self.service,
            largest_bytes: self.size_bytes,
            inline_bytes: self.inline_bytes,
            event: self.event,
            device_memory: self.device_memory,
        }
    }

    fn post(&self, session: &mut Session, operand: u64) -> Result<(), Failure> {
        session.post(self.operation, self.size_bytes, operand)
    }

    /// The last byte that announces message `number`: never what was there before, never [`OVER`].
    fn mark(number: u32) -> u8 {
        (number % 254) as u8 + 1
    }
}

fn connect<'a>(
    context: &'a Context,
    case: &Case,
    channel: &mut Channel,
) -> Result<Session<'a>, Failure> {
    let mut session = Session::new(context, case.plan())?;
    channel.say(&session.endpoint())?;
    session.connect(channel.hear()?)?;
    Ok(session)
}

/// The measuring side.
pub fn run_client(
    context: &Context,
    case: &Case,
    channel: &mut Channel,
) -> Result<Measured, Failure> {
    let mut session = connect(context, case, channel)?;
    let latency = client_latency(&mut session, case, channel)?;
    let seconds = client_bandwidth(&mut session, case, channel)?;
    client_check(&mut session, case, channel)?;
    channel.barrier()?;
    let messages_per_second = f64::from(case.bandwidth_iterations) / seconds;
    Ok(Measured {
        case: case.clone(),
        latency,
        bytes_per_second: messages_per_second * case.size_bytes as f64,
        messages_per_second,
    })
}

/// The answering side.
pub fn run_server(context: &Context, case: &Case, channel: &mut Channel) -> Result<(), Failure> {
    let mut session = connect(context, case, channel)?;
    server_latency(&mut session, case, channel)?;
    server_bandwidth(&mut session, case, channel)?;
    server_check(&mut session, case, channel)?;
    // Objects go only when the client needs them no more.
    channel.barrier()
}

/// The operand of request `number`: the immediate value, an addend of 1, or the value to compare with.
fn operand(case: &Case, number: u64) -> u64 {
    match case.operation {
        Operation::FetchAdd => 1,
        _ => number,
    }
}

fn client_latency(
    session: &mut Session,
    case: &Case,
    channel: &mut Channel,
) -> Result<Latency, Failure> {
    let count = case.latency_iterations;
    let warm_up = count / 10 + 1;
    let mut samples = Vec::with_capacity(count as usize);
    let shape = case.shape();
    if shape == Shape::TwoSided {
        session.post_receive(case.size_bytes)?;
    }
    channel.barrier()?;
    let begun = Instant::now();
    let mut last = begun;
    for number in 0..count + warm_up {
        if shape == Shape::Polled && last - begun > LONGEST_POLLED {
            session.set_last_byte(case.size_bytes, OVER);
            let sent = session.sent + 1;
            case.post(session, operand(case, number.into()))?;
            session.wait(|session| session.sent == sent)?;
            break;
        }
        if shape == Shape::Polled {
            session.set_last_byte(case.size_bytes, Case::mark(number));
        }
        case.post(session, operand(case, number.into()))?;
        let want = u64::from(number) + 1;
        match shape {
            Shape::TwoSided => {
                session.wait(|session| session.received == want)?;
                if number + 1 < count + warm_up {
                    session.post_receive(case.size_bytes)?;
                }
            }
            Shape::Polled => {
                session.wait_for_last_byte(case.size_bytes, &[Case::mark(number)])?;
            }
            Shape::OneSided => session.wait(|session| session.sent == want)?,
        }
        // The source may be reused, and the queue has room, only when the request has completed.
        session.wait(|session| session.sent == want)?;
        let now = Instant::now();
        // a busy machine has less time for warming up, too
        if number >= warm_up || now - begun > LONGEST_POLLED / 4 {
            samples.push((now - last).as_nanos() as f64);
        }
        last = now;
    }
    samples.truncate(count as usize);
    Ok(percentiles(samples, shape != Shape::OneSided))
}

fn percentiles(mut samples: Vec<f64>, one_way: bool) -> Latency {
    samples.sort_by(f64::total_cmp);
    let at = |share: f64| {
        let index = (samples.len() as f64 * share).ceil() as usize;
        let sample = samples
            .get(index.clamp(1, samples.len().max(1)) - 1)
            .copied()
            .unwrap_or(f64::NAN);
        if one_way { sample / 2.0 } else { sample }
    };
    Latency {
        messages: samples.len() as u32,
        one_way,
        min_ns: at(0.0),
        p50_ns: at(0.5),
        p99_ns: at(0.99),
        p999_ns: at(0.999),
    }
}

fn server_latency(
    session: &mut Session,
    case: &Case,
    channel: &mut Channel,
) -> Result<(), Failure> {
    let total = case.latency_iterations + case.latency_iterations / 10 + 1;
    let shape = case.shape();
    if shape == Shape::TwoSided {
        session.post_receive(case.size_bytes)?;
    }
    channel.barrier()?;
    for number in 0..total {
        let want = u64::from(number) + 1;
        match shape {
            Shape::TwoSided => {
                session.wait(|session| session.received == want)?;
                if number + 1 < total {
                    session.post_receive(case.size_bytes)?;
                }
            }
            Shape::Polled => {
                let marks = [Case::mark(number), OVER];
                if session.wait_for_last_byte(case.size_bytes, &marks)? == OVER {
                    break;
                }
                session.set_last_byte(case.size_bytes, Case::mark(number));
            }
            Shape::OneSided => break,
        }
        case.post(session, operand(case, number.into()))?;
        session.wait(|session| session.sent == want)?;
    }
    Ok(())
}

/// Seconds of the bandwidth phase. Two-sided messages go in batches that the server has posted
/// receives for: then the unreliable services lose none, and waiting for the batch's last
/// receive is part of the time, getting ready for the next is not.
fn client_bandwidth(
    session: &mut Session,
    case: &Case,
    channel: &mut Channel,
) -> Result<f64, Failure> {
    let mut seconds = 0.0;
    let mut left = case.bandwidth_iterations;
    let done_before = session.sent;
    let first = u64::from(case.latency_iterations + case.latency_iterations / 10 + 1);
    let mut posted = 0u64;
    channel.barrier()?;
    while left > 0 {
        let batch = batch(case, left);
        if case.shape() == Shape::TwoSided {
            channel.hear::<()>()?;
        }
        let begin_ns = monotonic_ns();
        for _ in 0..batch {
            if posted - (session.sent - done_before) >= u64::from(SEND_DEPTH) {
                session.wait(|session| {
                    posted - (session.sent - done_before) < u64::from(SEND_DEPTH)
                })?;
            }
            case.post(session, operand(case, first + posted))?;
            posted += 1;
        }
        session.wait(|session| session.sent - done_before == posted)?;
        let mut end_ns = monotonic_ns();
        if case.shape() == Shape::TwoSided {
            end_ns = end_ns.max(channel.hear::<u64>()?);
        }
        seconds += (end_ns - begin_ns) as f64 / 1e9;
        left -= batch;
    }
    Ok(seconds)
}

fn batch(case: &Case, left: u32) -> u32 {
    if case.shape() == Shape::TwoSided {
        left.min(RECEIVE_DEPTH)
    } else {
        left
    }
}

fn server_bandwidth(
    session: &mut Session,
    case: &Case,
    channel: &mut Channel,
) -> Result<(), Failure> {
    channel.barrier()?;
    let mut left = case.bandwidth_iterations;
    while case.shape() == Shape::TwoSided && left > 0 {
        let batch = batch(case, left);
        for _ in 0..batch {
            session.post_receive(case.size_bytes)?;
        }
        let want = session.received + u64::from(batch);
        channel.say(&())?;
        session.wait(|session| session.received == want)?;
        channel.say(&monotonic_ns())?;
        left -= batch;
    }
    Ok(())
}

/// A clock that both processes read alike.
fn monotonic_ns() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: time is a valid timespec to write to.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

const CHECK_SEED: u64 = 0x5eed;
const CHECK_IMMEDIATE: u64 = 0xfeed_f00d;

/// The last message of the case: the server compares what arrived, or the client what it read.
fn client_check(session: &mut Session, case: &Case, channel: &mut Channel) -> Result<(), Failure> {
    session.fill_source(CHECK_SEED, case.size_bytes);
    channel.barrier()?;
    let sent = session.sent + 1;
    let done = u64::from(case.latency_iterations)
        + u64::from(case.latency_iterations / 10 + 1)
        + u64::from(case.bandwidth_iterations);
    let operand = match case.operation {
        Operation::SendImm | Operation::WriteImm => CHECK_IMMEDIATE,
        _ => operand(case, done),
    };
    case.post(session, operand)?;
    session.wait(|session| session.sent == sent)?;
    match case.operation {
        Operation::Read
            if session.source(case.size_bytes) != pattern(!CHECK_SEED, case.size_bytes) =>
        {
            Err(Failure::new(
                "the last READ returned other bytes than the target held",
            ))
        }
        // Every atomic so far took effect exactly once, or this is another number.
        Operation::CmpSwap | Operation::FetchAdd if session.source(8) != done.to_ne_bytes() => {
            Err(Failure::new(format!(
                "the last atomic returned {:?} instead of {done}",
                session.source(8)
            )))
        }
        _ => Ok(()),
    }?;
    channel.barrier()
}

fn server_check(session: &mut Session, case: &Case, channel: &mut Channel) -> Result<(), Failure> {
    let two_sided = case.shape() == Shape::TwoSided;
    let received = session.received + 1;
    if two_sided {
        session.post_receive(case.size_bytes)?;
    }
    if case.operation == Operation::Read {
        session.set_target(&pattern(!CHECK_SEED, case.size_bytes))?;
    }
    channel.barrier()?;
    if two_sided {
        session.wait(|session| session.received == received)?;
    }
    channel.barrier()?;
    let arrives = matches!(
        case.operation,
        Operation::Send | Operation::SendImm | Operation::Write | Operation::WriteImm
    );
    if arrives && session.target(case.size_bytes) != pattern(CHECK_SEED, case.size_bytes) {
        return Err(Failure::new(format!(
            "{} of {} bytes: the last message arrived with other bytes than were sent",
            case.name(),
            case.size_bytes
        )));
    }
    if case.with_immediate() && u64::from(session.last_immediate) != CHECK_IMMEDIATE {
        return Err(Failure::new(format!(
            "{}: immediate data arrived as {:#x} instead of {CHECK_IMMEDIATE:#x}",
            case.name(),
            session.last_immediate
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_take_the_nearest_rank() {
        let latency = percentiles((1..=1000).rev().map(f64::from).collect(), false);
        assert_eq!(
            (
                latency.min_ns,
                latency.p50_ns,
                latency.p99_ns,
                latency.p999_ns
            ),
            (1.0, 500.0, 990.0, 999.0)
        );
        assert_eq!(percentiles(vec![8.0], true).p50_ns, 4.0);
    }

    #[test]
    fn marks_change_with_every_message() {
        assert!(
            (0..1000).all(|number| Case::mark(number) != Case::mark(number + 1)
                && ![0, OVER].contains(&Case::mark(number)))
        );
    }
}
