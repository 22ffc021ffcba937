//! `ferriband-dev`: measurements for those who work on Ferriband.

fn main() -> std::process::ExitCode {
    ferriband_commands::ferriband_dev()
}
