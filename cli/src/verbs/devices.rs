//! `ferriband devices`: adapters with the state, addresses and limits that programs see.

use super::{Context, Library, Source};
use crate::failure::Failure;
use crate::text::{Table, print_json, print_line};
use ferriband_admin::config::{self, Config, PREFIX};
use ferriband_verbs_sys::*;
use serde::Serialize;
use std::net::Ipv6Addr;
use std::process::ExitCode;

/// A device as programs see it.
#[derive(Serialize)]
pub struct Device {
    /// Its name.
    pub name: String,
    library: String,
    firmware: String,
    node_guid: String,
    limits: Limits,
    /// Its ports.
    pub ports: Vec<Port>,
}

#[derive(Serialize)]
struct Limits {
    queue_pairs: i32,
    work_requests_per_queue: i32,
    scatter_gather_entries: i32,
    completion_queues: i32,
    completions_per_queue: i32,
    memory_regions: i32,
    region_bytes: u64,
    shared_receive_queues: i32,
    reads_outstanding: i32,
}

/// A port as programs see it.
#[derive(Serialize)]
pub struct Port {
    number: u8,
    /// Its state.
    pub state: &'static str,
    /// InfiniBand or Ethernet.
    pub link_layer: &'static str,
    lid: u16,
    /// The entries of its GID table that are in use.
    pub gids: Vec<String>,
    /// Present MTU in bytes.
    pub active_mtu: u32,
    max_mtu: u32,
    max_message_bytes: u32,
}

/// The devices of Ferriband's own library, each with the name of its interface if it has one.
pub fn list() -> Result<Vec<(Device, Option<String>)>, Failure> {
    let library = Library::open(Source::Ours)?;
    // the library has said what is wrong with the file
    let config = config::path()
        .and_then(|path| Config::load(&path).ok())
        .unwrap_or_default();
    library
        .contexts(None)?
        .iter()
        .map(|context| Ok((describe(context)?, interface_of(&config, &context.name))))
        .collect()
}

/// The interface that a device's name stands for: as the file of devices says, else by its name.
fn interface_of(config: &Config, name: &str) -> Option<String> {
    match config.devices.get(name) {
        Some(device) => Some(device.interface.clone()).filter(|interface| !interface.is_empty()),
        None => name.strip_prefix(PREFIX).map(str::to_owned),
    }
}

/// `ferriband devices`.
pub fn command(system: bool, json: bool) -> Result<ExitCode, Failure> {
    let library = Library::open(Source::from_flag(system))?;
    let contexts = library.contexts(None)?;
    let devices = contexts
        .iter()
        .map(describe)
        .collect::<Result<Vec<_>, _>>()?;
    if json {
        print_json(&devices)?;
        return Ok(ExitCode::SUCCESS);
    }
    if devices.is_empty() {
        return Err(
            Failure::new(format!("{} has no adapter", library.path.display())).remedy(if system {
                "this machine has none; drop --system for Ferriband's own"
            } else {
                "ask why with: ferriband doctor"
            }),
        );
    }
    table(&devices).print()?;
    for device in &devices {
        let limits = &device.limits;
        print_line(&format!(
            "\n{}: {} QPs of {} requests, {} entries each; {} CQs of {}; {} MRs; {} SRQs; {} reads outstanding",
            device.name,
            limits.queue_pairs,
            limits.work_requests_per_queue,
            limits.scatter_gather_entries,
            limits.completion_queues,
            limits.completions_per_queue,
            limits.memory_regions,
            limits.shared_receive_queues,
            limits.reads_outstanding
        ))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn table(devices: &[Device]) -> Table {
    let mut table = Table::new([
        "adapter",
        "port",
        "state",
        "link layer",
        "LID",
        "MTU",
        "GID",
    ])
    .right_align(&[1, 4, 5]);
    for device in devices {
        for port in &device.ports {
            let first = port.gids.first().cloned().unwrap_or_default();
            table.row([
                device.name.clone(),
                port.number.to_string(),
                port.state.to_owned(),
                port.link_layer.to_owned(),
                port.lid.to_string(),
                port.active_mtu.to_string(),
                first,
            ]);
            for gid in port.gids.iter().skip(1) {
                let blank = String::new;
                table.row([
                    blank(),
                    blank(),
                    blank(),
                    blank(),
                    blank(),
                    blank(),
                    gid.clone(),
                ]);
            }
        }
    }
    table
}

fn describe(context: &Context) -> Result<Device, Failure> {
    let attributes = context.attributes()?;
    let ports = (1..=attributes.phys_port_cnt)
        .map(|port| describe_port(context, port))
        .collect::<Result<_, _>>()?;
    let firmware = attributes
        .fw_ver
        .iter()
        .take_while(|&&c| c != 0)
        .map(|&c| char::from(c as u8))
        .collect();
    Ok(Device {
        name: context.name.clone(),
        library: context.library.path.display().to_string(),
        firmware,
        node_guid: format!("{:#018x}", u64::from_be(attributes.node_guid)),
        limits: Limits {
            queue_pairs: attributes.max_qp,
            work_requests_per_queue: attributes.max_qp_wr,
            scatter_gather_entries: attributes.max_sge,
            completion_queues: attributes.max_cq,
            completions_per_queue: attributes.max_cqe,
            memory_regions: attributes.max_mr,
            region_bytes: attributes.max_mr_size,
            shared_receive_queues: attributes.max_srq,
            reads_outstanding: attributes.max_qp_rd_atom,
        },
        ports,
    })
}

fn describe_port(context: &Context, number: u8) -> Result<Port, Failure> {
    let port = context.port(number)?;
    let mut gids = Vec::new();
    for index in 0..port.gid_tbl_len {
        let gid = context.gid(number, index)?;
        if gid[8..] != [0; 8] {
            gids.push(Ipv6Addr::from(gid).to_string());
        }
    }
    Ok(Port {
        number,
        state: state_name(port.state),
        link_layer: match u32::from(port.link_layer) {
            IBV_LINK_LAYER_INFINIBAND | IBV_LINK_LAYER_UNSPECIFIED => "InfiniBand",
            IBV_LINK_LAYER_ETHERNET => "Ethernet",
            _ => "unknown",
        },
        lid: port.lid,
        gids,
        active_mtu: mtu_bytes(port.active_mtu),
        max_mtu: mtu_bytes(port.max_mtu),
        max_message_bytes: port.max_msg_sz,
    })
}

fn state_name(state: ibv_port_state) -> &'static str {
    match state {
        IBV_PORT_DOWN => "down",
        IBV_PORT_INIT => "init",
        IBV_PORT_ARMED => "armed",
        IBV_PORT_ACTIVE => "active",
        IBV_PORT_ACTIVE_DEFER => "active-defer",
        _ => "unknown",
    }
}

/// Bytes of an `ibv_mtu`: 1 is 256, and each next one doubles.
pub fn mtu_bytes(mtu: ibv_mtu) -> u32 {
    if (IBV_MTU_256..=IBV_MTU_4096).contains(&mtu) {
        128 << mtu
    } else {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mtu_codes_are_those_of_the_architecture() {
        assert_eq!(
            [1, 2, 3, 4, 5, 0, 6].map(mtu_bytes),
            [256, 512, 1024, 2048, 4096, 0, 0]
        );
    }
}
