//! The server of PMI-1, without its sockets: what a process manager answers to the ranks of a job.
//!
//! Owns: the job's keys and values, who waits in the barrier, how far each rank has come. Must not
//! know: descriptors, processes, what the values mean. In: the bytes that a rank has sent
//! ([`Server::handle_bytes`]), and word that no more will come ([`Server::handle_end`]). Out: bytes
//! for ranks ([`Server::poll_transmit`]) and what the job has to do ([`Server::poll_event`]).
//!
//! The commands are those of Hydra's server of PMI-1, and `getbyidx` of gforker's. What is put can
//! be read at once; PMI promises it only after the next barrier. A key that is put again has the
//! later value. Ranks cannot start others and cannot publish names: they are answered with an
//! error, as is any command that is unknown. Every command is answered but `abort`, which ends the
//! job.

#![forbid(unsafe_code)]

use crate::pmi::{LONGEST, Message};
use std::collections::VecDeque;
use std::collections::btree_map::{BTreeMap, Entry};

/// Characters of the longest name of a job's keys, by what `get_maxes` says. Hydra's number.
pub const MAX_NAME: usize = 256;
/// Characters of the longest key. Hydra's number.
pub const MAX_KEY: usize = 64;
/// Characters of the longest value. Hydra's number.
pub const MAX_VALUE: usize = 1024;
/// Keys that a rank may put.
pub const MAX_KEYS: u32 = 8192;
/// The key of how ranks are dealt to hosts, which the server itself puts.
const MAPPING: &str = "PMI_process_mapping";
/// Characters of a word that is repeated in an error.
const MAX_QUOTE: usize = 64;

/// A job, as its ranks may ask for it.
#[derive(Clone, Debug)]
pub struct Job {
    /// Name of the job's keys: at most [`MAX_NAME`] characters, none a space, and no other job's.
    pub name: String,
    /// For each rank, which of the job's programs it runs.
    pub programs: Vec<u32>,
    /// How many ranks there is room for.
    pub universe: u32,
    /// How many hosts the ranks are dealt to in turn.
    pub hosts: u32,
}

/// How far a rank has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// It has not said `init`.
    New,
    /// It has said `init`, and is a rank that others may wait for.
    Begun,
    /// It has said `finalize`.
    Finalized,
}

/// What the job has to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// End all ranks, because one has said so.
    Aborted {
        /// Who has said it.
        rank: u32,
        /// The status with which the job is to end.
        code: i32,
        /// Why, in the rank's words; may be empty.
        text: String,
    },
    /// End all ranks, because a barrier cannot be completed.
    Stranded {
        /// A rank that waits in the barrier.
        waiting: u32,
        /// A rank that has ended without coming to it.
        ended: u32,
    },
}

/// A line has come that is longer than any command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLong;

/// What the server knows of a rank.
#[derive(Debug)]
struct Rank {
    stage: Stage,
    is_in_barrier: bool,
    has_ended: bool,
    /// Bytes that have come and are no whole line yet.
    rest: Vec<u8>,
    keys: u32,
    spawn: Option<Spawn>,
}

/// A command of several lines, which end with `endcmd`.
#[derive(Debug, Default)]
struct Spawn {
    /// Programs that the rank wants to start, each with a command of its own.
    programs: Option<u32>,
    /// Which of them this is, from 1.
    number: Option<u32>,
}

/// The server of a job.
#[derive(Debug)]
pub struct Server {
    job: Job,
    ranks: Vec<Rank>,
    /// Values by their keys.
    values: BTreeMap<String, String>,
    /// The keys in the order in which they were put.
    order: Vec<String>,
    out: VecDeque<(u32, Vec<u8>)>,
    events: VecDeque<Event>,
    is_stranded: bool,
}

impl Server {
    /// For a job that begins.
    pub fn new(job: Job) -> Self {
        let new = || Rank {
            stage: Stage::New,
            is_in_barrier: false,
            has_ended: false,
            rest: Vec::new(),
            keys: 0,
            spawn: None,
        };
        let ranks = job.programs.iter().map(|_| new()).collect();
        let mut server = Self {
            job,
            ranks,
            values: BTreeMap::new(),
            order: Vec::new(),
            out: VecDeque::new(),
            events: VecDeque::new(),
            is_stranded: false,
        };
        server.put(MAPPING, &server.mapping());
        server
    }

    /// Takes bytes of a rank and answers the lines that they complete. After an error the rank's
    /// connection is of no use.
    pub fn handle_bytes(&mut self, rank: u32, bytes: &[u8]) -> Result<(), TooLong> {
        let mut rest = std::mem::take(&mut self.ranks[rank as usize].rest);
        let mut bytes = bytes;
        while let Some(end) = bytes.iter().position(|byte| *byte == b'\n') {
            rest.extend_from_slice(&bytes[..end]);
            if rest.len() > LONGEST {
                return Err(TooLong);
            }
            self.line(rank, &rest);
            rest.clear();
            bytes = &bytes[end + 1..];
        }
        rest.extend_from_slice(bytes);
        if rest.len() > LONGEST {
            return Err(TooLong);
        }
        self.ranks[rank as usize].rest = rest;
        Ok(())
    }

    /// A rank has ended, or has closed its connection for good.
    pub fn handle_end(&mut self, rank: u32) {
        let own = &mut self.ranks[rank as usize];
        own.has_ended = true;
        own.is_in_barrier = false;
        self.look_for_stranded();
    }

    /// Bytes that a rank is to have; those of one rank in this order.
    pub fn poll_transmit(&mut self) -> Option<(u32, Vec<u8>)> {
        self.out.pop_front()
    }

    /// What the job has to do.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// How far a rank has come.
    pub fn stage(&self, rank: u32) -> Stage {
        self.ranks[rank as usize].stage
    }

    /// How ranks are dealt to hosts: the first host, how many there are, and how many ranks each
    /// takes at a time.
    fn mapping(&self) -> String {
        let hosts = self.job.hosts.max(1);
        let each = if hosts == 1 { self.ranks.len() } else { 1 };
        format!("(vector,(0,{hosts},{each}))")
    }

    fn line(&mut self, rank: u32, line: &[u8]) {
        let Ok(text) = std::str::from_utf8(line) else {
            return self.answer(rank, "unknown_result", "rc=-1 msg=no_text");
        };
        if self.ranks[rank as usize].spawn.is_some() {
            return self.line_of_spawn(rank, text);
        }
        let said = Message::line(text);
        if said.get("mcmd") == Some("spawn") {
            self.ranks[rank as usize].spawn = Some(Spawn::default());
            return;
        }
        match said.name() {
            "init" => self.init(rank, &said),
            "initack" => self.initack(rank),
            "get_maxes" => {
                let maxes = format!(
                    "rc=0 kvsname_max={MAX_NAME} keylen_max={MAX_KEY} vallen_max={MAX_VALUE}"
                );
                self.answer(rank, "maxes", &maxes);
            }
            "get_appnum" => {
                let number = self.job.programs[rank as usize];
                self.answer(rank, "appnum", &format!("rc=0 appnum={number}"));
            }
            "get_my_kvsname" => {
                let name = format!("rc=0 kvsname={}", self.job.name);
                self.answer(rank, "my_kvsname", &name);
            }
            "get_universe_size" => {
                let size = format!("rc=0 size={}", self.job.universe);
                self.answer(rank, "universe_size", &size);
            }
            "barrier_in" => self.barrier_in(rank),
            "put" => self.put_of(rank, &said),
            "get" => self.get(rank, &said),
            "getbyidx" => self.get_by_index(rank, &said),
            "finalize" => {
                self.ranks[rank as usize].stage = Stage::Finalized;
                self.answer(rank, "finalize_ack", "rc=0");
            }
            "abort" => self.events.push_back(Event::Aborted {
                rank,
                code: said
                    .get("exitcode")
                    .and_then(|code| code.parse().ok())
                    .unwrap_or(1),
                text: said.get("msg").unwrap_or_default().to_owned(),
            }),
            "publish_name" => self.answer(rank, "publish_result", "rc=-1 msg=not_supported"),
            "unpublish_name" => self.answer(rank, "unpublish_result", "rc=-1 msg=not_supported"),
            "lookup_name" => self.answer(rank, "lookup_result", "rc=-1 msg=not_supported"),
            other => {
                let name = format!("{}_result", quote(other));
                self.answer(rank, &name, "rc=-1 msg=unknown_command");
            }
        }
    }

    /// Version 1.1 is the only one.
    fn init(&mut self, rank: u32, said: &Message) {
        let is_ours = said.number("pmi_version") == Some(1)
            && said.number("pmi_subversion").is_none_or(|minor| minor <= 1);
        if is_ours {
            self.ranks[rank as usize].stage = Stage::Begun;
        }
        let code = if is_ours { 0 } else { -1 };
        let version = format!("pmi_version=1 pmi_subversion=1 rc={code}");
        self.answer(rank, "response_to_init", &version);
    }

    /// A client that was given no rank by its environment asks like this.
    fn initack(&mut self, rank: u32) {
        let size = self.ranks.len();
        self.answer(rank, "initack", "rc=0");
        self.answer(rank, "set", &format!("size={size}"));
        self.answer(rank, "set", &format!("rank={rank}"));
        self.answer(rank, "set", "debug=0");
    }

    fn barrier_in(&mut self, rank: u32) {
        let own = &mut self.ranks[rank as usize];
        if own.is_in_barrier {
            return self.answer(rank, "barrier_out", "rc=-1 msg=in_the_barrier_already");
        }
        own.is_in_barrier = true;
        if !self.ranks.iter().all(|rank| rank.is_in_barrier) {
            return self.look_for_stranded();
        }
        for (number, rank) in (0..).zip(&mut self.ranks) {
            rank.is_in_barrier = false;
            self.out
                .push_back((number, b"cmd=barrier_out rc=0\n".to_vec()));
        }
    }

    /// A rank that has ended comes to no barrier.
    fn look_for_stranded(&mut self) {
        let number = |found: Option<usize>| found.map(|rank| rank as u32);
        let waiting = number(self.ranks.iter().position(|rank| rank.is_in_barrier));
        let ended = number(self.ranks.iter().position(|rank| rank.has_ended));
        if let (Some(waiting), Some(ended), false) = (waiting, ended, self.is_stranded) {
            self.is_stranded = true;
            self.events.push_back(Event::Stranded { waiting, ended });
        }
    }

    fn put_of(&mut self, rank: u32, said: &Message) {
        let value = said.get("value").unwrap_or_default();
        let why = match said.get("key") {
            _ if !self.is_own_name(said) => "no_such_kvsname",
            None | Some("") => "no_key",
            Some(key) if key.len() > MAX_KEY => "key_too_long",
            Some(MAPPING) => "key_of_the_process_manager",
            Some(_) if value.len() > MAX_VALUE => "value_too_long",
            Some(key) => match self.may_put(rank, key) {
                true => {
                    self.put(key, value);
                    return self.answer(rank, "put_result", "rc=0 msg=success");
                }
                false => "too_many_keys",
            },
        };
        self.answer(rank, "put_result", &format!("rc=-1 msg={why}"));
    }

    /// Counts a key that is new.
    fn may_put(&mut self, rank: u32, key: &str) -> bool {
        if self.values.contains_key(key) {
            return true;
        }
        let keys = &mut self.ranks[rank as usize].keys;
        let has_room = *keys < MAX_KEYS;
        *keys += u32::from(has_room);
        has_room
    }

    fn put(&mut self, key: &str, value: &str) {
        match self.values.entry(key.to_owned()) {
            Entry::Occupied(mut known) => {
                known.insert(value.to_owned());
            }
            Entry::Vacant(new) => {
                self.order.push(key.to_owned());
                new.insert(value.to_owned());
            }
        }
    }

    fn get(&mut self, rank: u32, said: &Message) {
        let key = said.get("key").unwrap_or_default();
        let words = match self.values.get(key) {
            _ if !self.is_own_name(said) => "rc=-1 msg=no_such_kvsname value=unknown".to_owned(),
            Some(value) => format!("rc=0 msg=success value={value}"),
            None => format!("rc=-1 msg=key_{}_not_found value=unknown", quote(key)),
        };
        self.answer(rank, "get_result", &words);
    }

    /// All keys, one at a time: each answer says which is the next one.
    fn get_by_index(&mut self, rank: u32, said: &Message) {
        let index = said.number("idx").unwrap_or(u32::MAX);
        let key = self.order.get(index as usize);
        let words = match key.and_then(|key| Some((key, self.values.get(key)?))) {
            _ if !self.is_own_name(said) => "rc=-1 reason=no_such_kvsname".to_owned(),
            Some((key, value)) => {
                format!(
                    "rc=0 nextidx={} key={key} val={value}",
                    u64::from(index) + 1
                )
            }
            None => "rc=-1 reason=no_more_keyvals".to_owned(),
        };
        self.answer(rank, "getbyidx_results", &words);
    }

    /// A command that starts others is refused once, after the last of its parts.
    fn line_of_spawn(&mut self, rank: u32, text: &str) {
        let own = &mut self.ranks[rank as usize];
        let Some(spawn) = own.spawn.as_mut() else {
            return;
        };
        let number = |value: &str| value.trim().parse().ok();
        match text.trim().split_once('=') {
            Some(("totspawns", value)) => spawn.programs = number(value),
            Some(("spawnssofar", value)) => spawn.number = number(value),
            None if text.trim() == "endcmd" => {
                let is_last = !matches!((spawn.number, spawn.programs), (Some(number), Some(all)) if number < all);
                own.spawn = None;
                if is_last {
                    self.answer(rank, "spawn_result", "rc=-1 msg=not_supported");
                }
            }
            _ => (),
        }
    }

    /// A command that names no keys means those of its job.
    fn is_own_name(&self, said: &Message) -> bool {
        said.get("kvsname").is_none_or(|name| name == self.job.name)
    }

    fn answer(&mut self, rank: u32, name: &str, words: &str) {
        let line = format!("cmd={name} {words}\n");
        self.out.push_back((rank, line.into_bytes()));
    }
}

/// A word of a rank's, as it may stand in an error.
fn quote(word: &str) -> String {
    let plain = |letter: char| match letter {
        letter if letter.is_ascii_graphic() && letter != '=' => letter,
        _ => '_',
    };
    word.chars().map(plain).take(MAX_QUOTE).collect()
}

#[cfg(test)]
mod tests;
