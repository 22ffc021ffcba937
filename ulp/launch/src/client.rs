//! The client of PMI-1 and PMI-2, over a socket that the process manager has left to this process.
//!
//! Hydra, gforker, Slurm's `--mpi=pmi2` and `ferriband mpirun` serve PMI-1, the first three PMI-2,
//! too.

#![forbid(unsafe_code)]

use crate::pmi::{Command, LONGEST_KEY, LONGEST_VALUE, Message, Taken, Version};
use crate::{Error, Outcome, Place, inherit};
use std::env;
use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

/// Environment of a rank: the descriptor of its socket to the process manager.
pub const FD: &str = "PMI_FD";
/// Environment of a rank: host and port of the process manager, where there is no descriptor.
pub const PORT: &str = "PMI_PORT";
/// Environment of a rank: its number.
pub const RANK: &str = "PMI_RANK";
/// Environment of a rank: how many ranks the job has.
pub const SIZE: &str = "PMI_SIZE";
/// Environment of a rank that connects by [`PORT`]: its number.
pub const ID: &str = "PMI_ID";

/// A key that no rank puts.
const NOBODY: &str = "ferriband-nobody";
/// Beginning of the error where the process manager has ended.
const GONE: &str = "the launcher's process manager does not answer any more";

/// How a process reaches its process manager.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// By the open socket that [`FD`] names.
    Descriptor,
    /// By TCP, to the host and port that [`PORT`] names.
    Port,
}

/// A connection to a process manager that speaks PMI.
pub struct Pmi {
    stream: File,
    version: Version,
    /// Bytes that have come and are no whole reply yet.
    rest: Vec<u8>,
    place: Place,
}

fn number(name: &str) -> Option<u32> {
    env::var(name).ok()?.parse().ok()
}

impl Pmi {
    /// Connects and agrees on `version`. Without one it is version 1, which nearly every process
    /// manager speaks, else version 2.
    pub fn open(by: By, version: Option<Version>) -> Outcome<Self> {
        let place = Place {
            job: env::var("PMI_JOBID").unwrap_or_default(),
            rank: number(RANK).unwrap_or(0),
            ranks: number(SIZE).unwrap_or(0),
            program: None,
        };
        let mut pmi = Self::new(by.connect()?, place);
        if by == By::Port {
            pmi.acknowledge()?;
        }
        pmi.agree(version)?;
        Ok(pmi)
    }

    fn new(stream: File, place: Place) -> Self {
        Self {
            stream,
            version: Version::One,
            rest: Vec::new(),
            place,
        }
    }

    /// A client of rank `rank` of `ranks` over a socket of the test's.
    #[cfg(test)]
    pub(crate) fn over(
        socket: std::os::unix::net::UnixStream,
        rank: u32,
        ranks: u32,
        version: Option<Version>,
    ) -> Outcome<Self> {
        let place = Place {
            job: String::new(),
            rank,
            ranks,
            program: None,
        };
        let mut pmi = Self::new(File::from(OwnedFd::from(socket)), place);
        pmi.agree(version)?;
        Ok(pmi)
    }

    /// Agrees on a version of PMI, and asks for the job's name.
    fn agree(&mut self, version: Option<Version>) -> Outcome {
        let wanted = version.unwrap_or(Version::One);
        let spoken = self.greet(wanted)?;
        if spoken != wanted && (version.is_some() || self.greet(Version::Two)? != Version::Two) {
            return Err(Error::new(
                "the launcher's process manager speaks another version of PMI",
            ));
        }
        match (spoken, wanted) {
            (Version::One, Version::One) => self.begin_one()?,
            _ => self.begin_two()?,
        }
        Ok(())
    }

    /// Says by its number in the environment which rank this is, and takes rank and size. Only a
    /// process manager that was reached by a port does not know the rank.
    fn acknowledge(&mut self) -> Outcome {
        let who = env::var(ID).unwrap_or_else(|_| "0".to_owned());
        self.tell(&Command::new("initack").with("pmiid", who))?;
        loop {
            let reply = self.hear()?;
            match reply.name() {
                "initack" => (),
                "set" => {
                    if let Some(size) = reply.number("size") {
                        self.place.ranks = size;
                    }
                    if let Some(rank) = reply.number("rank") {
                        self.place.rank = rank;
                    }
                    if reply.get("debug").is_some() {
                        return Ok(());
                    }
                }
                _ => return Err(unexpected("initack", &reply)),
            }
        }
    }

    fn greet(&mut self, version: Version) -> Outcome<Version> {
        let (major, minor) = match version {
            Version::One => (1, 1),
            Version::Two => (2, 0),
        };
        let hello = Command::new("init")
            .with("pmi_version", major)
            .with("pmi_subversion", minor);
        let reply = self.ask(&hello, "response_to_init")?;
        Ok(match reply.number("pmi_version") {
            Some(1) if reply.is_good() => Version::One,
            Some(2) if reply.is_good() => Version::Two,
            // A process manager that refuses a version speaks the other one.
            _ if version == Version::One => Version::Two,
            _ => Version::One,
        })
    }

    fn begin_one(&mut self) -> Outcome {
        let reply = self.ask(&Command::new("get_appnum"), "appnum")?;
        self.place.program = reply.number("appnum");
        let reply = self.ask(&Command::new("get_my_kvsname"), "my_kvsname")?;
        let name = reply
            .get("kvsname")
            .ok_or_else(|| unexpected("get_my_kvsname", &reply))?;
        name.clone_into(&mut self.place.job);
        Ok(())
    }

    fn begin_two(&mut self) -> Outcome {
        self.version = Version::Two;
        let mut hello = Command::new("fullinit");
        // Hydra 5 refuses a field without a value.
        if !self.place.job.is_empty() {
            hello = hello.with("pmijobid", &self.place.job);
        }
        let hello = hello
            .with("pmirank", self.place.rank)
            .with("threaded", "FALSE");
        let reply = self.ask(&hello, "fullinit-response")?;
        if !reply.is_good() {
            return Err(unexpected("fullinit", &reply));
        }
        if let (Some(rank), Some(size)) = (reply.number("rank"), reply.number("size")) {
            self.place.rank = rank;
            self.place.ranks = size;
        }
        self.place.program = reply.number("appnum");
        let reply = self.ask(&Command::new("job-getid"), "job-getid-response")?;
        if let Some(job) = reply.get("jobid") {
            job.clone_into(&mut self.place.job);
        }
        Ok(())
    }

    /// Who this process is.
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// The socket, which can be read when a reply has come.
    pub fn fd(&self) -> RawFd {
        self.stream.as_raw_fd()
    }

    /// Leaves a value for all ranks, which they find after the next fence. A key is put once.
    pub fn put(&mut self, key: &str, value: &str) -> Outcome {
        debug_assert!(key.len() <= LONGEST_KEY && value.len() <= LONGEST_VALUE);
        let (command, answer) = match self.version {
            Version::One => (
                Command::new("put").with("kvsname", &self.place.job),
                "put_result",
            ),
            Version::Two => (Command::new("kvs-put"), "kvs-put-response"),
        };
        let reply = self.ask(&command.with("key", key).with("value", value), answer)?;
        if reply.is_good() {
            Ok(())
        } else {
            Err(unexpected("put", &reply))
        }
    }

    /// What a rank has put before the last fence.
    pub fn get(&mut self, key: &str) -> Outcome<String> {
        let answer = match self.version {
            Version::One => "get_result",
            Version::Two => "kvs-get-response",
        };
        let reply = self.ask(&self.question(key), answer)?;
        match reply.get("value") {
            Some(value) if reply.is_good() => Ok(value.to_owned()),
            _ => Err(unexpected(&format!("get {key}"), &reply)),
        }
    }

    /// Comes to a fence.
    pub fn begin_fence(&mut self) -> Outcome {
        let name = match self.version {
            Version::One => "barrier_in",
            Version::Two => "kvs-fence",
        };
        self.tell(&Command::new(name))
    }

    /// Whether the fence is over: its answer has come. Before that nothing else may be asked.
    pub fn is_fence_over(&mut self) -> Outcome<bool> {
        let reply = match self.take()? {
            Some(reply) => reply,
            None if inherit::wait_readable(&[self.fd()], 0) => {
                self.read()?;
                match self.take()? {
                    Some(reply) => reply,
                    None => return Ok(false),
                }
            }
            None => return Ok(false),
        };
        match reply.name() {
            "barrier_out" if reply.is_good() => Ok(true),
            "kvs-fence-response" if reply.is_good() => {
                // Hydra answers before all have come to the fence. But it answers a question for a
                // key that nobody has put only when all have.
                self.tell(&self.question(NOBODY))?;
                Ok(false)
            }
            "kvs-get-response" => Ok(true),
            _ => Err(unexpected("barrier", &reply)),
        }
    }

    /// The command that asks for the value of a key.
    fn question(&self, key: &str) -> Command {
        let command = match self.version {
            Version::One => Command::new("get").with("kvsname", &self.place.job),
            Version::Two => Command::new("kvs-get")
                .with("jobid", &self.place.job)
                .with("srcid", -1),
        };
        command.with("key", key)
    }

    /// Has all ranks of the job ended with status `code`.
    pub fn abort(&mut self, code: i32, text: &str) {
        let command = match self.version {
            Version::One => Command::new("abort").with("exitcode", code),
            Version::Two => Command::new("abort")
                .with("isworld", "TRUE")
                .with("exitcode", code),
        };
        // A process manager that has ended takes its ranks along.
        let _ = self.tell(&command.with("msg", text));
    }

    /// Says that this rank may end without the job being ended for it.
    pub fn leave(mut self) {
        let (name, answer) = match self.version {
            Version::One => ("finalize", "finalize_ack"),
            Version::Two => ("finalize", "finalize-response"),
        };
        // A process manager that has ended needs not know.
        let _ = self.ask(&Command::new(name), answer);
    }

    fn ask(&mut self, command: &Command, answer: &str) -> Outcome<Message> {
        self.tell(command)?;
        let reply = self.hear()?;
        if reply.name() == answer {
            Ok(reply)
        } else {
            Err(unexpected(answer, &reply))
        }
    }

    fn tell(&mut self, command: &Command) -> Outcome {
        self.stream
            .write_all(&command.emit(self.version))
            .map_err(|error| Error::new(format!("{GONE}: {error}")))
    }

    fn hear(&mut self) -> Outcome<Message> {
        loop {
            if let Some(reply) = self.take()? {
                return Ok(reply);
            }
            self.read()?;
        }
    }

    fn take(&mut self) -> Outcome<Option<Message>> {
        match Message::take(&self.rest, self.version) {
            Taken::Message(reply, length) => {
                self.rest.drain(..length);
                Ok(Some(reply))
            }
            Taken::NotYet => Ok(None),
            Taken::Nonsense => Err(Error::new("what comes over PMI_FD is no PMI")),
        }
    }

    fn read(&mut self) -> Outcome {
        let mut bytes = [0; 4096];
        match self.stream.read(&mut bytes) {
            Ok(0) => Err(Error::new(GONE)),
            Ok(count) => {
                self.rest.extend_from_slice(&bytes[..count]);
                Ok(())
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => Ok(()),
            Err(error) => Err(Error::new(format!("{GONE}: {error}"))),
        }
    }
}

impl By {
    /// A name of the place that the process manager has given to this process. None if the socket
    /// that it was left is not open, or the descriptor's number now belongs to something else.
    pub fn place_name(self) -> Option<String> {
        let variable = |name: &str| env::var(name).unwrap_or_default();
        if self == Self::Port {
            return Some(format!("port {} {}", variable(PORT), variable(ID)));
        }
        let text = variable(FD);
        let Ok(fd) = text.parse::<RawFd>() else {
            // No launcher sets it so; `connect` reports what is wrong.
            return Some(text);
        };
        inherit::name_of(fd).filter(|name| name.starts_with("socket:"))
    }

    fn connect(self) -> Outcome<File> {
        if self == Self::Port {
            let text = env::var(PORT).unwrap_or_default();
            let stream = TcpStream::connect(&text)
                .map_err(|error| Error::new(format!("{PORT}={text} cannot be reached: {error}")))?;
            return Ok(File::from(OwnedFd::from(stream)));
        }
        let text = env::var(FD).unwrap_or_default();
        let fd = text.parse::<RawFd>().ok().filter(|fd| *fd >= 0);
        let fd =
            fd.ok_or_else(|| Error::new(format!("{FD} is {text:?}, which no launcher sets")))?;
        let fd = inherit::take(fd).map_err(|error| Error::new(format!("{FD}={text}: {error}")))?;
        Ok(File::from(fd))
    }
}

#[cold]
fn unexpected(asked: &str, reply: &Message) -> Error {
    let said = reply.get("msg").or(reply.get("errmsg")).unwrap_or_default();
    Error::new(format!(
        "the launcher's process manager answers {asked} with {:?} {said}",
        reply.name()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader};
    use std::os::unix::net::UnixStream;

    fn client(stream: UnixStream, version: Version) -> Pmi {
        Pmi {
            stream: File::from(OwnedFd::from(stream)),
            version,
            rest: Vec::new(),
            place: Place {
                job: "kvs".to_owned(),
                rank: 1,
                ranks: 2,
                program: None,
            },
        }
    }

    #[test]
    fn a_fence_is_over_when_its_answer_has_come_in_whatever_pieces() {
        let (ours, mut theirs) = UnixStream::pair().expect("a pair");
        let mut pmi = client(ours, Version::One);
        pmi.begin_fence().expect("told");
        assert!(!pmi.is_fence_over().expect("nothing came"));
        theirs.write_all(b"cmd=barr").expect("sent");
        assert!(!pmi.is_fence_over().expect("half came"));
        theirs.write_all(b"ier_out\n").expect("sent");
        assert!(pmi.is_fence_over().expect("it came"));
        let mut line = String::new();
        BufReader::new(theirs.try_clone().expect("a copy"))
            .read_line(&mut line)
            .expect("a line");
        assert_eq!(line, "cmd=barrier_in\n");
        drop(theirs);
        let error = pmi.get("x").expect_err("it is gone");
        assert!(error.to_string().contains("does not answer"), "{error}");
    }

    #[test]
    fn a_fence_of_pmi_2_is_over_when_what_nobody_has_put_is_known_not_to_be_there() {
        let (ours, mut theirs) = UnixStream::pair().expect("a pair");
        let mut pmi = client(ours, Version::Two);
        let say = |theirs: &mut UnixStream, text: &str| {
            theirs
                .write_all(format!("{:6}{text}", text.len()).as_bytes())
                .expect("sent");
        };
        pmi.begin_fence().expect("told");
        say(&mut theirs, "cmd=kvs-fence-response;rc=0;");
        assert!(!pmi.is_fence_over().expect("the others may not have come"));
        assert!(!pmi.is_fence_over().expect("nothing came"));
        say(&mut theirs, "cmd=kvs-get-response;found=FALSE;rc=0;");
        assert!(pmi.is_fence_over().expect("they have"));
        drop(pmi);
        let mut said = String::new();
        theirs.read_to_string(&mut said).expect("words");
        let (fence, get) = (said.find("cmd=kvs-fence;"), said.find("cmd=kvs-get;"));
        assert!(fence < get && fence.is_some(), "{said}");
    }

    #[test]
    fn what_is_not_there_is_an_error_with_the_engines_words() {
        let (ours, mut theirs) = UnixStream::pair().expect("a pair");
        let mut pmi = client(ours, Version::One);
        theirs
            .write_all(b"cmd=get_result rc=-1 msg=key_not_found value=unknown\n")
            .expect("sent");
        let error = pmi.get("x").expect_err("no such key");
        assert!(error.to_string().contains("key_not_found"), "{error}");
    }
}
