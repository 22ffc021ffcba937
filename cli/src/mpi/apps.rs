//! A job's programs: one, or several with colons between them.

use super::{hosts, places};
use crate::args::{AppArgs, MpirunArgs, NextApp};
use crate::failure::Failure;
use clap::Parser;

/// Stands between two programs.
pub const COLON: &str = ":";

/// The programs of a job, in the order of their ranks.
pub struct Apps {
    list: Vec<AppArgs>,
    /// Ranks of each.
    counts: Vec<u32>,
}

impl Apps {
    /// Takes the command line apart, for a machine with these CPUs.
    pub fn of(args: &MpirunArgs, cpus: &[usize]) -> Result<Self, Failure> {
        let mut parts = args.app.command.split(|word| word == COLON);
        let mut first = args.app.clone();
        first.command = parts.next().unwrap_or_default().to_vec();
        let mut list = vec![first];
        for part in parts {
            let next = NextApp::try_parse_from(part).map_err(|error| {
                let text = error.render().to_string();
                let said = text.lines().next().unwrap_or_default().trim_start_matches("error: ");
                Failure::new(format!("after the colon: {said}"))
                    .remedy("a program of a job is: [-n N] [--env NAME=VALUE] [--wdir DIR] [--host HOST,..] PROGRAM [ARGUMENT ..]; other options come before the first")
                    .status(2)
            })?;
            list.push(next.app);
        }
        let first_words = list.iter().filter_map(|app| app.command.first());
        for word in first_words.map(|word| word.to_string_lossy()) {
            // What is no option is taken for a program.
            if word.starts_with('-') {
                return Err(Failure::new(format!(
                    "mpirun has no option {word}, or has it only before the first program"
                ))
                .remedy("ferriband mpirun --help lists them; a program of such a name is ./NAME")
                .status(2));
            }
        }
        if list.iter().any(|app| app.command.is_empty()) {
            return Err(Failure::new("there is no program before the colon")
                .remedy("mpirun -n 1 ./server : -n 3 ./client")
                .status(2));
        }
        let counts = counts(args, &list, cpus)?;
        Ok(Self { list, counts })
    }

    /// The programs.
    pub fn iter(&self) -> impl Iterator<Item = &AppArgs> {
        self.list.iter()
    }

    /// Ranks of all together.
    pub fn ranks(&self) -> u32 {
        self.counts
            .iter()
            .fold(0, |sum, count| sum.saturating_add(*count))
    }

    /// The program of a rank, and its number.
    pub fn of_rank(&self, rank: u32) -> (u32, &AppArgs) {
        let mut first = 0;
        for (number, (app, count)) in (0..).zip(self.list.iter().zip(&self.counts)) {
            if rank - first < *count {
                return (number, app);
            }
            first += count;
        }
        (0, &self.list[0])
    }
}

/// How many ranks each program has. What is said of machines, hosts and units of this machine is the most that there may be of them where it says so.
fn counts(args: &MpirunArgs, list: &[AppArgs], cpus: &[usize]) -> Result<Vec<u32>, Failure> {
    let per_unit = args.map_by.iter().find_map(|mapping| {
        let units = places::count(cpus, mapping.by);
        let units = u32::try_from(units).unwrap_or(u32::MAX);
        let words = format!("{} on each {}", mapping.per_unit?, mapping.by);
        Some((mapping.per_unit?.saturating_mul(units), words))
    });
    let per_node = args
        .npernode
        .map(|count| (count, format!("{count} on each machine")));
    let limits: Vec<(u32, String)> = per_unit.into_iter().chain(per_node).collect();
    let said = limits.iter().map(|(most, _)| *most).min().or(args.ppn);
    let is_strict = args.no_oversubscribe
        || args
            .map_by
            .iter()
            .any(|mapping| mapping.oversubscribes == Some(false));
    let (mut counts, mut slots, mut most) = (Vec::new(), None, None);
    for app in list {
        let hosts = hosts::of(app, cpus.len())?;
        let count = app.ranks.or(said).or(hosts.map(|hosts| hosts.usual));
        counts.push(count.unwrap_or(1));
        if let Some(hosts) = hosts {
            slots = Some(hosts.usual.max(slots.unwrap_or_default()));
            most = hosts.most.max(most);
        }
    }
    let all = counts
        .iter()
        .fold(0, |sum: u32, count| sum.saturating_add(*count));
    let refuse = |what: &str, limit: u32, remedy: &str| {
        Err(Failure::new(format!(
            "{all} ranks, and {what}: this machine, which is the only one here, takes {limit}"
        ))
        .remedy(remedy)
        .status(2))
    };
    for (limit, words) in &limits {
        if all > *limit {
            return refuse(
                words,
                *limit,
                "leave that out, and all ranks run on this machine",
            );
        }
    }
    if let Some(limit) = most.filter(|limit| all > *limit) {
        return refuse(
            "no more slots than max_slots says",
            limit,
            "raise max_slots, or leave the hosts out",
        );
    }
    let slots = slots.unwrap_or(u32::try_from(cpus.len()).unwrap_or(u32::MAX));
    if is_strict && all > slots {
        return refuse(
            "none without a slot",
            slots,
            "leave --no-oversubscribe (NOOVERSUBSCRIBE) out, or give the hosts more slots",
        );
    }
    Ok(counts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Cli, Command};

    fn apps(words: &str) -> Result<Apps, Failure> {
        let words = words.split(' ').map(Into::into).collect();
        let whole = ["ferriband".into(), "mpirun".into()]
            .into_iter()
            .chain(super::super::words::own(words));
        match Cli::parse_from(whole).command {
            Command::Mpirun(args) => Apps::of(&args, &[0, 1]),
            _ => unreachable!("it is mpirun"),
        }
    }

    #[test]
    fn ranks_are_dealt_to_programs_in_their_order() {
        let job = apps("-np 2 --env A=1 ./a x : -np 3 --wdir /tmp ./b -n 7 : ./c").expect("good");
        assert_eq!(job.ranks(), 6);
        let seen: Vec<(u32, String)> = (0..6)
            .map(|rank| {
                let (number, app) = job.of_rank(rank);
                (number, app.command[0].to_string_lossy().into_owned())
            })
            .collect();
        let names: Vec<&str> = seen.iter().map(|(_, name)| name.as_str()).collect();
        assert_eq!(names, ["./a", "./a", "./b", "./b", "./b", "./c"]);
        assert_eq!(seen[5].0, 2);
        let second = job.of_rank(2).1;
        assert_eq!((second.command.len(), second.env.len()), (3, 0));
    }

    #[test]
    fn there_are_as_many_ranks_as_is_said_in_whatever_words() {
        let ranks = |words| apps(words).map(|job| job.ranks()).ok();
        for (words, count) in [
            ("./a", Some(1)),
            ("-ppn 3 ./a", Some(3)),
            ("-ppn 3 -n 5 ./a", Some(5)),
            ("-N 3 ./a", Some(3)),
            ("-N 3 -n 5 ./a", None),
            ("-npernode 3 -n 2 ./a", Some(2)),
            ("--host localhost:4 ./a", Some(4)),
            ("--host localhost,localhost ./a", Some(2)),
            ("--host localhost:4 -ppn 2 ./a", Some(2)),
            ("-host localhost ./a : -host localhost:2 ./b", Some(3)),
            ("--host localhost:* ./a", Some(2)),
            ("--host localhost -n 7 ./a", Some(7)),
            ("--host localhost:2 --nooversubscribe -n 3 ./a", None),
            ("--map-by slot:NOOVERSUBSCRIBE -n 3 ./a", None),
            ("--map-by slot:NOOVERSUBSCRIBE -n 2 ./a", Some(2)),
            ("--map-by ppr:2:hwthread ./a", Some(4)),
            ("--map-by ppr:2:node ./a", Some(2)),
            ("--map-by ppr:2:node -n 3 ./a", None),
            ("--host nowhere.invalid -n 2 ./a", None),
        ] {
            assert_eq!(ranks(words), count, "{words}");
        }
    }

    #[test]
    fn what_is_no_program_is_said_so() {
        assert!(
            apps("-n 2 ./a : --tag-output ./b").is_err(),
            "an option of the job"
        );
        assert!(apps("--no-such-option -n 2 ./a").is_err());
        assert!(apps("-n 2 ./a :").is_err());
        assert!(apps("-n 2 : ./b").is_err());
    }
}
