//! `ferriband mpirun`: starts the ranks of an MPI job on this machine and stays with them until all have ended.
//!
//! Owns: the job's segment and bells, the ranks' processes, their output and input, signals, the
//! service of PMI-1 to programs that are not ours, and what becomes of the other ranks when one
//! fails. Nothing of a job lies in a file system: the segment is a memfd, the bells are eventfds,
//! and the ranks die with this process.

mod apps;
mod foreign;
mod hosts;
pub mod info;
mod input;
mod output;
mod places;
mod pmi;
mod ranks;
mod report;
pub mod scratch;
mod share;
pub mod signals;
pub mod tune;
pub mod words;

use crate::args::{Mapping, MpirunArgs, StdinTo, Unit};
use crate::failure::Failure;
use crate::launch;
use apps::Apps;
use ferriband_attach::DEFAULT_FABRIC;
use ferriband_launch::server::{Event, Stage};
use ferriband_mpi_proto::segment::Life;
use ferriband_mpi_proto::settings::SETTINGS;
use foreign::Watch;
use input::Input;
use places::Places;
use pmi::Pmi;
use ranks::{End, Rank, Started};
use share::Share;
use signals::{Signal, Signals};
use std::ffi::OsString;
use std::io::ErrorKind;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Ranks that were asked to end are killed after this.
const GRACE: Duration = Duration::from_millis(200);
/// Unfinished lines are shown after this.
const PATIENCE_MS: i32 = 100;
/// The status of a job that took too long, as of timeout(1).
const TIMED_OUT: u8 = 124;

/// Runs the job; its status is the first of a rank that is not zero.
pub fn command(args: &MpirunArgs) -> Result<ExitCode, Failure> {
    if let Some(why) = &args.refused {
        return Err(Failure::new(why.as_str()).status(2));
    }
    let begun = Instant::now();
    // What means nothing is said here once, and not by each rank.
    let settings_of_job = settings(args)?;
    let cores = ranks::cores()?;
    let apps = Apps::of(args, &cores)?;
    let count = apps.ranks();
    if !args.allow_foreign {
        foreign::check(&apps)?;
    }
    for words in &args.ineffective {
        complain!(
            "ferriband mpirun: {words} is about another launcher's own parts, and has no effect here"
        );
    }
    let mapping = mapping(&args.map_by);
    let places = Places::new(&cores, count, args.bind, &mapping);
    launch::allow_descriptors(u64::from(count) * 5 + 64);
    pmi::keep_own();
    let share = Share::make(count)?;
    let mut input = Input::new(args.stdin, count)?;
    let signals = Signals::take()?;
    ranks::adopt_orphans();
    let netns = ranks::hosts(&args.netns)?;
    let environments = environments(&args.fabric_hosts)?;
    // at the most one of the two has more than one
    let hosts = netns.len().max(environments.len());
    let mut job = Job {
        args,
        apps: &apps,
        share: &share,
        signals,
        pmi: Pmi::new(&apps, hosts, cores.len()),
        stranded: None,
        ranks: Vec::new(),
        ending: None,
        status: 0,
        is_settled: false,
        lost: 0,
        cause: None,
        watch: Watch::new(args.allow_foreign),
    };
    let host_of = |rank: u32| rank as usize % hosts;
    // All of them before the first rank runs, which asks about each.
    for rank in 0..count {
        share.set_host(rank, host_of(rank) as u32);
    }
    for rank in 0..count {
        let started = Started {
            environment: &environments[host_of(rank) % environments.len()],
            chosen: &settings_of_job,
            apps: &apps,
            cores: &cores,
            bound: places.of_rank(rank),
            netns: netns.get(host_of(rank)),
            mask: job.signals.mask(),
            is_in_group: input.shares_terminal(rank),
        };
        let begun = job.pmi.connect(rank).and_then(|socket| {
            let input = input.of_rank(rank);
            Rank::start(rank, args, &share, &started, &socket, input)
        });
        match begun {
            Ok((started, pipe)) => {
                job.ranks.push(started);
                input.add(pipe);
            }
            Err(failure) => {
                job.end(u8::from(failure.exit_status == 0).max(failure.exit_status));
                job.attend(&mut input, None)?;
                return Err(failure);
            }
        }
    }
    let deadline = args
        .timeout
        .map(|seconds| Instant::now() + Duration::from_secs_f64(seconds));
    job.attend(&mut input, deadline)?;
    drop(input);
    if let Some(cause) = &job.cause {
        complain!("ferriband mpirun: {cause}");
    }
    if let Some(path) = &args.report {
        job.report(path, begun.elapsed())?;
    }
    Ok(ExitCode::from(job.status))
}

/// All that was said of it together: the last word of each kind holds.
fn mapping(said: &[Mapping]) -> Mapping {
    said.iter().fold(Mapping::default(), |whole, next| Mapping {
        by: match next.by {
            Unit::Cpu => whole.by,
            other => other,
        },
        per_unit: next.per_unit.or(whole.per_unit),
        cpus: next.cpus.or(whole.cpus),
        oversubscribes: next.oversubscribes.or(whole.oversubscribes),
    })
}

/// Variables of ranks, with their values.
type Environment = Vec<(&'static str, OsString)>;

/// What the ranks of each host have; one for all where no hosts of a fabric are named.
fn environments(fabric_hosts: &[String]) -> Result<Vec<Environment>, Failure> {
    if fabric_hosts.is_empty() {
        return Ok(vec![launch::library_settings()?]);
    }
    let hosts = with_fabrics(fabric_hosts);
    hosts
        .iter()
        .map(|host| launch::environment_on(host))
        .collect()
}

/// The hosts of a list `[FABRIC/]HOST,...`, where one without a fabric is of the same as the one before it.
fn with_fabrics(hosts: &[String]) -> Vec<String> {
    let mut fabric = DEFAULT_FABRIC;
    let mut whole = Vec::with_capacity(hosts.len());
    for words in hosts {
        let (named, host) = words.split_once('/').unwrap_or((fabric, words));
        fabric = named;
        whole.push(format!("{fabric}/{host}"));
    }
    whole
}

/// What `--set` and `--same-host` set, as variables of the ranks' environment.
fn settings(args: &MpirunArgs) -> Result<Vec<(String, String)>, Failure> {
    let mut pairs = args.set.clone();
    if let Some(way) = args.same_host {
        pairs.push(format!("same_host={}", way.setting()));
    }
    if let Some(handler) = &args.initial_errhandler {
        pairs.push(format!("initial_errhandler={handler}"));
    }
    info::check(&pairs)?;
    Ok(pairs
        .iter()
        .filter_map(|pair| pair.split_once('='))
        .map(|(name, value)| (SETTINGS.variable(name), value.to_owned()))
        .collect())
}

struct Job<'a> {
    args: &'a MpirunArgs,
    apps: &'a Apps,
    share: &'a Share,
    signals: Signals,
    pmi: Pmi,
    /// A rank that waits in a barrier of PMI, and one that does not come to it any more.
    stranded: Option<(u32, u32)>,
    ranks: Vec<Rank>,
    /// When the ranks were asked to end.
    ending: Option<Instant>,
    /// The first status that was not zero.
    status: u8,
    /// A rank has ended the job with status 0: how ranks end then says nothing.
    is_settled: bool,
    /// Ranks that have died while the others went on.
    lost: u32,
    /// Why the job was ended, for the person at the terminal.
    cause: Option<String>,
    watch: Watch,
}

impl Job<'_> {
    /// Looks after the ranks until all have ended and all that they wrote is passed on.
    fn attend(&mut self, input: &mut Input, deadline: Option<Instant>) -> Result<(), Failure> {
        loop {
            let now = Instant::now();
            if deadline.is_some_and(|deadline| now >= deadline) && self.ending.is_none() {
                self.cause = Some(format!(
                    "the job took more than {} s",
                    self.args.timeout.unwrap_or_default()
                ));
                self.end(TIMED_OUT);
            }
            if self.ending.is_some_and(|since| now >= since + GRACE) {
                self.signal(libc::SIGKILL);
            }
            let alive = self.ranks.iter().any(|rank| rank.end.is_none());
            if !alive && self.ranks.iter().all(Rank::is_silent) {
                break;
            }
            if !alive && self.ending.is_some() {
                // Whoever still holds the pipes is killed below.
                ranks::kill_orphans();
            }
            self.wait(input, deadline)?;
        }
        ranks::kill_orphans();
        let (share, pmi) = (self.share, &self.pmi);
        self.watch
            .tell(self.ranks.len(), |rank| is_unborn(share, pmi, rank));
        Ok(())
    }

    /// One wait for anything, and what it brought.
    fn wait(&mut self, input: &mut Input, deadline: Option<Instant>) -> Result<(), Failure> {
        let mut list = vec![libc::pollfd {
            fd: self.signals.fd(),
            events: libc::POLLIN,
            revents: 0,
        }];
        for rank in &self.ranks {
            rank.poll(&mut list);
        }
        let first = list.len();
        self.pmi.poll(&mut list);
        let of_pmi = first..list.len();
        let look = input.poll(&mut list);
        let until = self.ending.map(|since| since + GRACE).or(deadline);
        let mut timeout = until.map_or(-1, |until| {
            i32::try_from(until.saturating_duration_since(Instant::now()).as_millis() + 1)
                .unwrap_or(i32::MAX)
        });
        let is_short = self.ending.is_some() || self.ranks.iter().any(Rank::has_rest);
        let short = is_short.then_some(PATIENCE_MS);
        for at_most in [short, look, self.watch.timeout()].into_iter().flatten() {
            timeout = if timeout < 0 {
                at_most
            } else {
                timeout.min(at_most)
            };
        }
        let begun = Instant::now();
        // SAFETY: a local array, as long as is said.
        let ready = unsafe { libc::poll(list.as_mut_ptr(), list.len() as libc::nfds_t, timeout) };
        // Few of many are ready at a time.
        let of_ready = list.iter().filter(|entry| entry.revents != 0);
        let fds: Vec<i32> = of_ready.map(|entry| entry.fd).collect();
        let is_ready = |fd: i32| fds.contains(&fd);
        let is_quiet = ready == 0 && begun.elapsed().as_millis() >= PATIENCE_MS as u128;
        let has_written = self.ranks.iter().any(|rank| rank.is_first(&is_ready));
        let (share, pmi) = (self.share, &self.pmi);
        self.watch
            .look(&self.ranks, has_written, |rank| is_unborn(share, pmi, rank));
        let mut written = Ok(());
        for rank in &mut self.ranks {
            written = written.and(rank.relay(&is_ready, is_quiet, self.args.tag_output));
        }
        if let (Err(error), None) = (written, self.ending) {
            if error.kind() == ErrorKind::BrokenPipe {
                // Nobody reads what the ranks write: as a program dies that writes to a closed pipe.
                self.end(128 + libc::SIGPIPE as u8);
            } else {
                self.cause = Some(format!("cannot write what the ranks write: {error}"));
                self.end(1);
            }
        }
        input.relay(&is_ready);
        self.serve_pmi(&list[of_pmi]);
        if is_ready(self.signals.fd()) {
            for signal in self.signals.read() {
                self.heard(signal);
            }
        }
        self.reap();
        Ok(())
    }

    /// A signal has come to this process.
    fn heard(&mut self, signal: Signal) {
        let pass_on = |signal| self.ranks.iter().for_each(|rank| rank.pass_on(signal));
        match signal.number {
            libc::SIGCHLD => (),
            libc::SIGINT | libc::SIGTERM | libc::SIGHUP if self.ending.is_some() => {
                self.signal(libc::SIGKILL)
            }
            libc::SIGINT | libc::SIGTERM | libc::SIGHUP => {
                pass_on(signal);
                self.ending = Some(Instant::now());
                self.note(128 + signal.number as u8);
            }
            libc::SIGTSTP => {
                pass_on(Signal {
                    number: libc::SIGSTOP,
                    ..signal
                });
                // SAFETY: stops this process, as the terminal asked.
                unsafe { libc::raise(libc::SIGSTOP) };
                self.signal(libc::SIGCONT);
            }
            _ => pass_on(signal),
        }
    }

    /// Takes the ends of ranks that have ended.
    fn reap(&mut self) {
        while let Some((pid, end)) = ranks::next_end() {
            let Some(index) = self.ranks.iter().position(|rank| rank.pid == pid) else {
                continue;
            };
            self.ranks[index].end = Some(end);
            self.ranks[index].ended = Some(Instant::now());
            self.pmi.drain(index as u32);
            self.heed_pmi();
            self.note(end.status());
            self.judge(index);
        }
        self.end_if_stranded();
    }

    /// How a rank has ended; none if it lives, or could not be started.
    fn end_of(&self, index: usize) -> Option<End> {
        self.ranks.get(index)?.end
    }

    /// Ends the job if the end of a rank, if it has ended, is one that the others cannot go on
    /// after.
    fn judge(&mut self, index: usize) {
        let (Some(end), None) = (self.end_of(index), self.ending) else {
            return;
        };
        let rank = index as u32;
        let life = self.share.life(rank);
        let fatal = match (life, self.pmi.stage(rank)) {
            // nobody waits for the only rank
            (Life::Unborn, Stage::Begun) if self.ranks.len() == 1 && end.status() == 0 => None,
            (Life::Unborn, Stage::Begun) => end.is_fatal_to_pmi(self.pmi.is_closed(rank)),
            (Life::Unborn, Stage::Finalized) => end.is_fatal(Life::Finalized),
            _ => end.is_fatal(life),
        };
        let Some(cause) = fatal else { return };
        if life == Life::Alive && self.goes_on_without(index) {
            self.lost += 1;
            self.share.tell_death(rank, self.lost);
            let cause = cause.unwrap_or_default();
            complain!("ferriband mpirun: rank {index} {cause}; the other ranks go on");
            return;
        }
        if let Some(cause) = cause {
            self.cause = Some(format!("rank {index} {cause}; the other ranks are ended"));
        }
        let status = self.status.max(1);
        self.end(status);
    }

    /// Answers ranks that speak PMI. `list` is what its server waited for.
    fn serve_pmi(&mut self, list: &[libc::pollfd]) {
        let closed = self.pmi.relay(list);
        self.heed_pmi();
        for rank in closed {
            self.judge(rank as usize);
        }
    }

    /// Does what ranks have asked for by PMI.
    fn heed_pmi(&mut self) {
        while let Some(event) = self.pmi.next_event() {
            match event {
                // how OpenSHMEM's shmem_global_exit ends a job well
                Event::Aborted { code: 0, .. } if self.ending.is_none() => {
                    self.end(0);
                    self.is_settled = true;
                }
                Event::Aborted { rank, code, text } if self.ending.is_none() => {
                    let why = if text.is_empty() {
                        text
                    } else {
                        format!(": {text}")
                    };
                    self.cause = Some(format!(
                        "rank {rank} has aborted the job by PMI{why}; the other ranks are ended"
                    ));
                    self.end((code as u8).max(1));
                }
                Event::Stranded { waiting, ended } => self.stranded = Some((waiting, ended)),
                Event::Aborted { .. } => (),
            }
        }
    }

    /// Ends the job if a barrier of PMI waits for a rank that has ended, though nothing was wrong
    /// with its end.
    fn end_if_stranded(&mut self) {
        let Some((waiting, ended)) = self.stranded else {
            return;
        };
        if self.ending.is_none() && self.end_of(ended as usize).is_some() {
            self.cause = Some(format!(
                "rank {waiting} waits in a barrier of PMI for rank {ended}, which has ended; the other ranks are ended"
            ));
            let status = self.status.max(1);
            self.end(status);
        }
    }

    /// Whether all ranks that are left go on when one dies: they have chosen so, or the user has.
    fn goes_on_without(&self, dead: usize) -> bool {
        let left = (0..)
            .zip(&self.ranks)
            .filter(|(_, rank)| rank.end.is_none());
        let mut left = left.filter(|(index, _)| *index != dead).peekable();
        let tolerates = self.args.with_ft.unwrap_or(false);
        left.peek().is_some() && left.all(|(index, _)| self.share.survives(index as u32, tolerates))
    }

    /// Asks all ranks to end; those that do not are killed.
    fn end(&mut self, status: u8) {
        self.note(status);
        self.ending = Some(Instant::now());
        self.signal(libc::SIGTERM);
    }

    fn note(&mut self, status: u8) {
        if self.status == 0 && !self.is_settled {
            self.status = status;
        }
    }

    fn signal(&self, signal: i32) {
        for rank in &self.ranks {
            rank.signal(signal);
        }
    }
}

impl StdinTo {
    /// Whether rank `rank` gets the input.
    fn takes(self, rank: u32) -> bool {
        match self {
            Self::None => false,
            Self::All => true,
            Self::Rank(one) => one == rank,
        }
    }
}

impl End {
    /// Whether the others cannot go on, and what there is to say about it. A rank that aborts has said it itself.
    fn is_fatal(self, life: Life) -> Option<Option<String>> {
        match (self, life) {
            (_, Life::Aborted) => Some(None),
            (End::Signal(signal), _) => Some(Some(format!("was killed by signal {signal}"))),
            (End::Status(status), Life::Alive) => Some(Some(format!(
                "ended with status {status} without MPI_Finalize"
            ))),
            (End::Status(status), Life::Unborn) if status != 0 => {
                Some(Some(format!("ended with status {status} before MPI_Init")))
            }
            (End::Status(_), _) => None,
        }
    }

    /// Whether the others cannot go on after the end of a rank that has begun with PMI and has not
    /// finalized. Where another process still has its socket, that may be the rank.
    fn is_fatal_to_pmi(self, is_closed: bool) -> Option<Option<String>> {
        match self {
            End::Status(0) if !is_closed => None,
            End::Status(status) => Some(Some(format!(
                "ended with status {status} without PMI's finalize"
            ))),
            End::Signal(_) => self.is_fatal(Life::Alive),
        }
    }
}

/// Whether a rank has begun neither with our MPI nor with PMI.
fn is_unborn(share: &Share, pmi: &Pmi, rank: u32) -> bool {
    share.life(rank) == Life::Unborn && pmi.stage(rank) == Stage::New
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_without_a_fabric_is_of_the_one_before_it() {
        let whole = |list: &str| {
            let hosts: Vec<String> = list.split(',').map(str::to_owned).collect();
            with_fabrics(&hosts).join(",")
        };
        assert_eq!(whole("H0,H1"), "fabric/H0,fabric/H1");
        assert_eq!(whole("a/H0,H1"), "a/H0,a/H1");
        assert_eq!(whole("H0,a/H1,H2,b/H3,H4"), "fabric/H0,a/H1,a/H2,b/H3,b/H4");
    }
}
