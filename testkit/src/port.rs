//! The UDP port of RoCEv2, which one user of a host can have.

use std::os::unix::fs::MetadataExt;

/// False, with a word about it, where another user, or the kernel, has the port of RoCEv2.
pub fn port_is_to_be_had() -> bool {
    let sockets = std::fs::read_to_string("/proc/net/udp").unwrap_or_default();
    let own = std::fs::metadata("/proc/self").expect("a process").uid();
    let is_free = !is_anothers(&sockets, own);
    if !is_free {
        eprintln!("skipped: UDP port 4791 is another user's");
    }
    is_free
}

/// True if the list of sockets has one at port 4791 whose user is not `own`.
fn is_anothers(sockets: &str, own: u32) -> bool {
    let owner = |line: &str| {
        let mut fields = line.split_ascii_whitespace();
        let local = fields.nth(1)?;
        let user: u32 = fields.nth(5)?.parse().ok()?;
        local.ends_with(":12B7").then_some(user)
    };
    sockets.lines().filter_map(owner).any(|user| user != own)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_port_is_anothers_if_another_user_has_a_socket_there() {
        let list = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid\n\
            7: 00000000:12B7 00000000:0000 07 00000000:00000000 00:00000000 00000000  1000        0 1 2\n\
            8: 00000000:0035 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 1 2\n";
        assert!(!is_anothers(list, 1000));
        assert!(is_anothers(list, 0));
    }
}
