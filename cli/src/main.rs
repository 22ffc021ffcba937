//! `ferriband`: what users run.

fn main() -> std::process::ExitCode {
    ferriband_commands::ferriband()
}
