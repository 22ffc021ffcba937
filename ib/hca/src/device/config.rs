//! The file of devices, as this process takes it.
//!
//! Owns: what becomes of a file that is wrong: the devices are as without it, and the program hears of it by one line.

use crate::base::error::Error;
use ferriband_admin::config::{self, Config};

/// What the file says; nothing if there is none, if it is wrong, or in a program that runs with other rights than its user's.
///
/// # Errors
/// The system's, while it has no descriptor for the file.
pub(crate) fn load() -> Result<Config, Error> {
    let Some(path) = config::path().filter(|_| crate::base::incident::is_own_user()) else {
        return Ok(Config::default());
    };
    let scarce = |errno: &i32| ferriband_memory::Error::is_scarcity(*errno);
    let opened = std::fs::File::open(&path);
    if let Some(errno) = opened
        .err()
        .and_then(|error| error.raw_os_error())
        .filter(scarce)
    {
        return Err(Error::system("open of the file of devices", errno));
    }
    Ok(Config::load(&path).unwrap_or_else(|error| {
        ferriband_fork::tell(format_args!(
            "ferriband: {}: {error}; devices are as without this file",
            path.display()
        ));
        Config::default()
    }))
}
