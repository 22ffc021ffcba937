//! The file of devices, as this process takes it.
//!
//! Owns: what becomes of a file that is wrong: the devices are as without it, and the program hears of it by one line.

use ferriband_admin::config::{self, Config};

/// What the file says; nothing if there is none, if it is wrong, or in a program that runs with other rights than its user's.
pub(crate) fn load() -> Config {
    let Some(path) = config::path().filter(|_| crate::incident::is_own_user()) else {
        return Config::default();
    };
    Config::load(&path).unwrap_or_else(|error| {
        ferriband_fork::tell(format_args!(
            "ferriband: {}: {error}; devices are as without this file",
            path.display()
        ));
        Config::default()
    })
}
