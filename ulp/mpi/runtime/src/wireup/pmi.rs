//! PMI-1 and PMI-2: over a socket that the engine has left to this process. Hydra, gforker and Slurm's `--mpi=pmi2` speak both.

use super::{Place, failed};
use crate::errors::Outcome;
use crate::host::inherit;
use ferriband_mpi_proto::pmi::{Command, LONGEST_KEY, LONGEST_VALUE, Reply, Taken, Version};
use std::env;
use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

/// Names the descriptor of that socket.
pub const FD: &str = "PMI_FD";
/// Names host and port, where there is no descriptor.
pub const PORT: &str = "PMI_PORT";

/// A key that no rank puts.
const NOBODY: &str = "ferriband-nobody";
/// What an engine that is gone says by its silence.
const GONE: &str = "the launcher's process manager does not answer any more";

/// The connection to the engine.
pub struct Pmi {
    stream: File,
    version: Version,
    /// What has come and was not asked for yet.
    rest: Vec<u8>,
    place: Place,
}

fn number(name: &str) -> Option<u32> {
    env::var(name).ok()?.parse().ok()
}

impl Pmi {
    /// Says hello, in the version that is asked for; else in version 1, which every engine speaks, and if one does not, in version 2.
    pub fn open(version: Option<Version>) -> Outcome<Self> {
        let mut pmi = Self {
            stream: connect()?,
            version: Version::One,
            rest: Vec::new(),
            place: Place {
                job: env::var("PMI_JOBID").unwrap_or_default(),
                rank: number("PMI_RANK").unwrap_or(0),
                ranks: number("PMI_SIZE").unwrap_or(0),
                program: None,
            },
        };
        if env::var_os(FD).is_none() {
            pmi.acknowledge()?;
        }
        let wanted = version.unwrap_or(Version::One);
        let spoken = pmi.greet(wanted)?;
        if spoken != wanted && (version.is_some() || pmi.greet(Version::Two)? != Version::Two) {
            return Err(failed(
                "the launcher's process manager speaks another version of PMI",
            ));
        }
        match (spoken, wanted) {
            (Version::One, Version::One) => pmi.begin_one()?,
            _ => pmi.begin_two()?,
        }
        Ok(pmi)
    }

    /// Over a port the engine first wants to know who this is, and then says it.
    fn acknowledge(&mut self) -> Outcome {
        let who = env::var("PMI_ID").unwrap_or_else(|_| "0".to_owned());
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
            // An engine that refuses says which version it speaks.
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

    pub fn place(&self) -> &Place {
        &self.place
    }

    pub fn fd(&self) -> RawFd {
        self.stream.as_raw_fd()
    }

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

    pub fn begin_fence(&mut self) -> Outcome {
        let name = match self.version {
            Version::One => "barrier_in",
            Version::Two => "kvs-fence",
        };
        self.tell(&Command::new(name))
    }

    /// Whether the answer has come. Between the two nothing else may be asked.
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
                // Hydra says so at once, whoever else has come. But what nobody has put is not there only when all have come as far as who asks for it.
                self.tell(&self.question(NOBODY))?;
                Ok(false)
            }
            "kvs-get-response" => Ok(true),
            _ => Err(unexpected("barrier", &reply)),
        }
    }

    /// What asks for the value of a key.
    fn question(&self, key: &str) -> Command {
        let command = match self.version {
            Version::One => Command::new("get").with("kvsname", &self.place.job),
            Version::Two => Command::new("kvs-get")
                .with("jobid", &self.place.job)
                .with("srcid", -1),
        };
        command.with("key", key)
    }

    /// The engine kills this process, too, if it likes.
    pub fn abort(&mut self, code: i32, text: &str) {
        let command = match self.version {
            Version::One => Command::new("abort").with("exitcode", code),
            Version::Two => Command::new("abort")
                .with("isworld", "TRUE")
                .with("exitcode", code),
        };
        // Who cannot be told has gone, and this process goes anyway.
        let _ = self.tell(&command.with("msg", text));
    }

    pub fn leave(mut self) {
        let (name, answer) = match self.version {
            Version::One => ("finalize", "finalize_ack"),
            Version::Two => ("finalize", "finalize-response"),
        };
        // An engine that is gone needs no farewell.
        let _ = self.ask(&Command::new(name), answer);
    }

    fn ask(&mut self, command: &Command, answer: &str) -> Outcome<Reply> {
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
            .map_err(|error| failed(&format!("{GONE}: {error}")))
    }

    fn hear(&mut self) -> Outcome<Reply> {
        loop {
            if let Some(reply) = self.take()? {
                return Ok(reply);
            }
            self.read()?;
        }
    }

    fn take(&mut self) -> Outcome<Option<Reply>> {
        match Reply::take(&self.rest, self.version) {
            Taken::Reply(reply, length) => {
                self.rest.drain(..length);
                Ok(Some(reply))
            }
            Taken::NotYet => Ok(None),
            Taken::Nonsense => Err(failed("what comes over PMI_FD is no PMI")),
        }
    }

    fn read(&mut self) -> Outcome {
        let mut bytes = [0; 4096];
        match self.stream.read(&mut bytes) {
            Ok(0) => Err(failed(GONE)),
            Ok(count) => {
                self.rest.extend_from_slice(&bytes[..count]);
                Ok(())
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => Ok(()),
            Err(error) => Err(failed(&format!("{GONE}: {error}"))),
        }
    }
}

/// What this process's place with the engine is called; none if the socket that it was left is not there. A number that now names something else is no such socket.
pub fn place_of_environment() -> Option<String> {
    let Ok(text) = env::var(FD) else {
        let variable = |name: &str| env::var(name).unwrap_or_default();
        return Some(format!("port {} {}", variable(PORT), variable("PMI_ID")));
    };
    let Ok(fd) = text.parse::<RawFd>() else {
        // Nobody's: what is wrong is said by whoever takes it.
        return Some(text);
    };
    inherit::name_of(fd).filter(|name| name.starts_with("socket:"))
}

fn connect() -> Outcome<File> {
    if let Ok(text) = env::var(FD) {
        let fd = text.parse::<RawFd>().ok().filter(|fd| *fd >= 0);
        let fd = fd.ok_or_else(|| failed(&format!("{FD} is {text:?}, which no launcher sets")))?;
        let fd = inherit::take(fd).map_err(|error| failed(&format!("{FD}={text}: {error}")))?;
        return Ok(File::from(fd));
    }
    let text = env::var(PORT).unwrap_or_default();
    let stream = TcpStream::connect(&text)
        .map_err(|error| failed(&format!("{PORT}={text} cannot be reached: {error}")))?;
    Ok(File::from(OwnedFd::from(stream)))
}

#[cold]
fn unexpected(asked: &str, reply: &Reply) -> crate::errors::MpiError {
    let said = reply.get("msg").or(reply.get("errmsg")).unwrap_or_default();
    failed(&format!(
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
        assert!(error.text.contains("does not answer"), "{}", error.text);
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
        assert!(error.text.contains("key_not_found"), "{}", error.text);
    }
}
