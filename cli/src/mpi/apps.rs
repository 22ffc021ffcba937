//! A job's programs: one, or several with colons between them.

use crate::args::{AppArgs, MpirunArgs, NextApp};
use crate::failure::Failure;
use clap::Parser;

/// Stands between two programs.
pub const COLON: &str = ":";

/// The programs of a job, in the order of their ranks.
#[derive(Clone)]
pub struct Apps {
    list: Vec<AppArgs>,
}

impl Apps {
    /// Takes the command line apart.
    pub fn of(args: &MpirunArgs) -> Result<Self, Failure> {
        let mut parts = args.app.command.split(|word| word == COLON);
        let mut first = args.app.clone();
        first.command = parts.next().unwrap_or_default().to_vec();
        let mut list = vec![first];
        for part in parts {
            let next = NextApp::try_parse_from(part).map_err(|error| {
                let text = error.render().to_string();
                let said = text.lines().next().unwrap_or_default().trim_start_matches("error: ");
                Failure::new(format!("after the colon: {said}"))
                    .remedy("a program of a job is: [-n N] [--env NAME=VALUE] [--wdir DIR] PROGRAM [ARGUMENT ..]; other options come before the first")
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
        Ok(Self { list })
    }

    /// The programs.
    pub fn iter(&self) -> impl Iterator<Item = &AppArgs> {
        self.list.iter()
    }

    /// Ranks of all together.
    pub fn ranks(&self) -> u32 {
        self.list
            .iter()
            .fold(0, |sum, app| sum.saturating_add(app.ranks))
    }

    /// The program of a rank, and its number.
    pub fn of_rank(&self, rank: u32) -> (u32, &AppArgs) {
        let mut first = 0;
        for (number, app) in (0..).zip(&self.list) {
            if rank - first < app.ranks {
                return (number, app);
            }
            first += app.ranks;
        }
        (0, &self.list[0])
    }
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
            Command::Mpirun(args) => Apps::of(&args),
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
