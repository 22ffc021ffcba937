//! What each seed of the world of packets did, a line each: `packets [FIRST] [COUNT]`; or what
//! transfers over networks that lose packets came to: `packets goodput [FIRST] [COUNT]`. The lines
//! of two versions of the machines that behave alike are equal to the byte.
use ferriband_sim::packet::goodput::{Network, Transfer, measure};
use ferriband_sim::packet::{Options, run_seed};
use ferriband_transport::types::SendOpcode;
use ferriband_wire::Mtu;

/// A veth pair and 25 Gb/s through a switch.
const NETWORKS: [Network; 2] = [
    Network {
        send_rate: 10_000,
        receive_rate: 5_300,
        delay_ns: 3_000,
        buffer_bytes: 4 << 20,
        loss_per_mille: 0,
        holds: false,
    },
    Network {
        send_rate: 3_000,
        receive_rate: 4_000,
        delay_ns: 5_000,
        buffer_bytes: 100 << 10,
        loss_per_mille: 0,
        holds: false,
    },
];

fn transfers(seed: u64) {
    let operations = [
        SendOpcode::RdmaWrite,
        SendOpcode::Send,
        SendOpcode::RdmaRead,
    ];
    for network in NETWORKS {
        for (loss_per_mille, holds) in [(0, false), (10, false), (10, true), (100, true)] {
            for operation in operations {
                let network = Network {
                    loss_per_mille,
                    holds,
                    ..network
                };
                let transfer = Transfer {
                    operation,
                    message_bytes: 64 << 10,
                    messages: 32,
                    mtu: Mtu::M1024,
                };
                let came = measure(network, transfer, seed);
                println!("{seed} {loss_per_mille} {holds} {operation:?} {came:?}");
            }
        }
    }
}

fn main() {
    let mut args = std::env::args()
        .skip(1)
        .filter_map(|arg| arg.parse::<u64>().ok());
    let (first, count) = (args.next().unwrap_or(0), args.next().unwrap_or(1000));
    let goodput = std::env::args().any(|arg| arg == "goodput");
    for seed in first..first + count {
        if goodput {
            transfers(seed);
            continue;
        }
        match run_seed(seed, &Options::default()) {
            Ok(report) => println!("{seed} {report:?}"),
            Err(failure) => println!("{seed} {failure}"),
        }
    }
}
