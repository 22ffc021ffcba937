//! Sockets over queue pairs: rdma-core's own programs for rsocket.

use super::cm::Meeting;
use super::programs::{Figure, Job, Report, Sides, words};

/// A floor, and its name.
pub type Picked<F> = (fn(&F) -> Option<Figure>, &'static str);

fn job<F>(
    program: &'static str,
    proves: &str,
    report: Report,
    (server, client): (&'static str, &'static str),
    (floor, floor_name): Picked<F>,
) -> Job<F> {
    // What both say, without addresses.
    let options = client
        .split_whitespace()
        .skip_while(|word| *word != "PORT")
        .skip(1);
    Job {
        program,
        options: words(&options.collect::<Vec<_>>()),
        proves: proves.to_owned(),
        report,
        sides: Sides::Manager(Meeting {
            settings: "",
            server,
            client,
            server_program: program,
            stays: program == "udpong",
        }),
        floor,
        floor_name,
    }
}

/// What runs on one host and between two, with the floor of a small message one way and that of many bytes.
pub fn all<F>(latency: Picked<F>, stream: Picked<F>) -> Vec<Job<F>> {
    let none: Picked<F> = (|_| None, "");
    vec![
        job(
            "rstream",
            "rsocket: a stream, 64 B there and back",
            Report::Transfer,
            (
                "-b ADDRESS -p PORT -S 64 -C 1 -I 5000",
                "-s ADDRESS -p PORT -S 64 -C 1 -I 5000",
            ),
            latency,
        ),
        job(
            "rstream",
            "rsocket: a stream waited for by rpoll, every byte checked",
            Report::Transfer,
            (
                "-b ADDRESS -p PORT -T a -T v -S 20000 -C 10 -I 20",
                "-s ADDRESS -p PORT -T a -T v -S 20000 -C 10 -I 20",
            ),
            none,
        ),
        job(
            "rstream",
            "rsocket: blocking calls, 64 KiB in a stream",
            Report::Stream,
            (
                "-b ADDRESS -p PORT -T b -S 65536 -C 2000 -I 1",
                "-s ADDRESS -p PORT -T b -S 65536 -C 2000 -I 1",
            ),
            stream,
        ),
        job(
            "riostream",
            "rsocket: mapped buffers, 4 KiB there and back, every byte checked",
            Report::Transfer,
            (
                "-b ADDRESS -p PORT -T v -S 4096 -C 1 -I 1000",
                "-s ADDRESS -p PORT -T v -S 4096 -C 1 -I 1000",
            ),
            none,
        ),
        job(
            "udpong",
            "rsocket: datagrams, 64 B there and back",
            Report::Transfer,
            (
                "-b ADDRESS -p PORT -T e -S 64 -C 1000",
                "-s ADDRESS -p PORT -T e -S 64 -C 1000",
            ),
            latency,
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_socket_runs() {
        let jobs: Vec<Job<()>> = all((|()| None, ""), (|()| None, ""));
        let titles: Vec<String> = jobs.iter().map(Job::title).collect();
        assert_eq!(titles[0], "rstream -S 64 -C 1 -I 5000");
        for program in ["rstream", "riostream", "udpong"] {
            assert!(jobs.iter().any(|job| job.program == program), "{program}");
        }
    }
}
