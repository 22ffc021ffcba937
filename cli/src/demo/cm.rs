//! The programs that find each other by the connection manager: rdma-core's examples, and perftest with `-R`.
//!
//! Owns their words. A word of a template may be a placeholder: ADDRESS, IPV6 and LINK are the server's addresses, OWN is that of
//! whoever runs the program, PORT a port of this run.

use super::programs::{Job, Report, Sides, words};
use std::process::Command;

/// A server and a client, each with words of its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Meeting {
    /// Settings of the environment for both, as a shell takes them before a program's name.
    pub settings: &'static str,
    /// The server's words, without the program.
    pub server: &'static str,
    /// The client's.
    pub client: &'static str,
    /// The server's program, if it is another one.
    pub server_program: &'static str,
    /// The server serves until somebody ends it.
    pub stays: bool,
}

fn job<F>(
    program: &'static str,
    title: &'static str,
    proves: &str,
    server: &'static str,
    client: &'static str,
) -> Job<F> {
    Job {
        program,
        options: words(&title.split_whitespace().collect::<Vec<_>>()),
        proves: proves.to_owned(),
        report: Report::Silent,
        sides: Sides::Manager(Meeting {
            settings: "",
            server,
            client,
            server_program: program,
            stays: false,
        }),
        floor: |_| None,
        floor_name: "",
    }
}

fn serving_on<F>(mut job: Job<F>) -> Job<F> {
    if let Sides::Manager(meeting) = &mut job.sides {
        meeting.stays = true;
    }
    job
}

fn served_by<F>(mut job: Job<F>, program: &'static str) -> Job<F> {
    if let Sides::Manager(meeting) = &mut job.sides {
        meeting.server_program = program;
    }
    job
}

/// True if what a program says of its options contains this; false if it is not installed.
pub fn usage_has(program: &str, text: &str) -> bool {
    let usage = Command::new(program).arg("-h").output();
    usage.is_ok_and(|said| {
        String::from_utf8_lossy(&[said.stdout, said.stderr].concat()).contains(text)
    })
}

/// What runs on one host and between two.
pub fn all<F>() -> Vec<Job<F>> {
    let mut jobs = vec![
        job(
            "rping",
            "-C 50 -V",
            "rdma_cm: READ and WRITE by advertised keys, every byte checked",
            "-s -a ADDRESS -p PORT -C 50 -V",
            "-c -a ADDRESS -p PORT -C 50 -V",
        ),
        job(
            "rping",
            "-q -S 4096 -C 20 -V",
            "rdma_cm: queue pairs of the program's own",
            "-s -q -a ADDRESS -p PORT -S 4096 -C 20 -V",
            "-c -q -a ADDRESS -p PORT -S 4096 -C 20 -V",
        ),
        serving_on(job(
            "rping",
            "-P -C 20 -V",
            "rdma_cm: a persistent server",
            "-s -P -a ADDRESS -p PORT -V",
            "-c -a ADDRESS -p PORT -C 20 -V",
        )),
        job(
            "ucmatose",
            "-c 20 -C 10",
            "rdma_cm: twenty connections at once",
            "-b ADDRESS -p PORT -c 20 -C 10",
            "-s ADDRESS -p PORT -c 20 -C 10",
        ),
        job(
            "ucmatose",
            "-m -t 32 -c 3",
            "rdma_cm: identifiers move to another channel; type of service",
            "-m -t 32 -b ADDRESS -p PORT -c 3",
            "-m -t 32 -s ADDRESS -p PORT -c 3",
        ),
        served_by(
            job(
                "rdma_client",
                "",
                "rdma_cm: synchronous endpoints",
                "-s ADDRESS -p PORT",
                "-s ADDRESS -p PORT",
            ),
            "rdma_server",
        ),
        served_by(
            job(
                "rdma_xclient",
                "",
                "rdma_cm: endpoints with a shared receive queue, inline unasked",
                "-p PORT",
                "-s ADDRESS -p PORT",
            ),
            "rdma_xserver",
        ),
        served_by(
            job(
                "rdma_xclient",
                "-c x",
                "rdma_cm: extended reliable connections",
                "-c x -p PORT",
                "-c x -s ADDRESS -p PORT",
            ),
            "rdma_xserver",
        ),
        job(
            "udaddy",
            "-c 5",
            "rdma_cm: datagram services",
            "-b ADDRESS -c 5",
            "-s ADDRESS -c 5",
        ),
        job(
            "mckey",
            "-m 239.77.1.2",
            "rdma_cm: a multicast group of IPv4",
            "-m 239.77.1.2 -b OWN",
            "-m 239.77.1.2 -b OWN -s",
        ),
        cmtime(),
    ];
    for (program, what) in [
        ("ib_send_lat", "SEND"),
        ("ib_write_lat", "RDMA WRITE"),
        ("ib_read_lat", "RDMA READ"),
        ("ib_atomic_lat", "atomics"),
        ("ib_send_bw", "SEND in a stream"),
        ("ib_write_bw", "RDMA WRITE in a stream"),
        ("ib_read_bw", "RDMA READ in a stream"),
        ("ib_atomic_bw", "atomics in a stream"),
    ] {
        jobs.push(job(
            program,
            "-R",
            &format!("{what}, connected by rdma_cm"),
            "-R -F -n 500 -p PORT",
            "-R -F -n 500 -p PORT ADDRESS",
        ));
    }
    jobs
}

/// cmtime takes other options since a release between rdma-core 56 and 65: its two sides then meet at a controller's address, and both end.
fn cmtime<F>() -> Job<F> {
    const PROVES: &str = "rdma_cm: 200 connections in one burst, and their end";
    match usage_has("cmtime", "controller_address") {
        true => job(
            "cmtime",
            "-c 200",
            PROVES,
            "-L -C ADDRESS -b ADDRESS -p PORT -c 200",
            "-C ADDRESS -b OWN -p PORT -c 200",
        ),
        false => serving_on(job(
            "cmtime",
            "-c 200",
            PROVES,
            "-b ADDRESS -p PORT -c 200",
            "-s ADDRESS -p PORT -c 200",
        )),
    }
}

/// What needs a loopback address.
pub fn native<F>() -> Vec<Job<F>> {
    vec![job(
        "rping",
        "-a ::1",
        "rdma_cm: over the loopback address of IPv6",
        "-s -a IPV6 -p PORT -C 20 -V",
        "-c -a IPV6 -p PORT -C 20 -V",
    )]
}

/// What needs the addresses of an Ethernet device.
pub fn between<F>() -> Vec<Job<F>> {
    vec![
        job(
            "rping",
            "(IPv6)",
            "rdma_cm: over IPv6",
            "-s -a IPV6 -p PORT -C 20 -V",
            "-c -a IPV6 -p PORT -C 20 -V",
        ),
        job(
            "rping",
            "(link-local)",
            "rdma_cm: over link-local IPv6 with its scope",
            "-s -a LINK -p PORT -C 20 -V",
            "-c -a LINK -p PORT -C 20 -V",
        ),
        job(
            "mckey",
            "-m ff15::77",
            "rdma_cm: a multicast group of IPv6",
            "-m ff15::77 -b OWN6",
            "-m ff15::77 -b OWN6 -s",
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_program_of_the_connection_manager_runs() {
        let jobs: Vec<Job<()>> = all().into_iter().chain(native()).chain(between()).collect();
        for program in [
            "rping",
            "ucmatose",
            "rdma_client",
            "rdma_xclient",
            "udaddy",
            "mckey",
            "cmtime",
        ] {
            assert!(jobs.iter().any(|job| job.program == program), "{program}");
        }
        assert_eq!(
            jobs.iter()
                .filter(|job| job.program.starts_with("ib_"))
                .count(),
            8
        );
    }
}
