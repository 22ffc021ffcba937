//! Reads the figures out of what the programs print.

use super::programs::{Figure, Report};

/// perftest's "MB" is 2^20 bytes.
const MEBIBYTE: f64 = 1_048_576.0;

/// The figure in a program's output. `Ok(None)` for a program that prints none; `Err` says what
/// is missing.
pub fn figure(report: Report, output: &str) -> Result<Option<Figure>, String> {
    match report {
        Report::Silent => Ok(None),
        Report::DeviceInfo if !output.contains("PORT_ACTIVE") => {
            Err("no port is active".to_owned())
        }
        Report::DeviceInfo => Ok(None),
        Report::PingPong => ping_pong(output).map(|us| Some(Figure::Nanoseconds(us * 1e3))),
        // bytes, iterations, min, max, typical, average, deviation, 99 %, 99.9 %
        Report::Latency => row(output, 9).map(|row| Some(Figure::Nanoseconds(row[4] * 1e3))),
        // bytes, iterations, peak, average, millions of messages per second
        Report::Bandwidth => {
            row(output, 5).map(|row| Some(Figure::BytesPerSecond(row[3] * MEBIBYTE)))
        }
        Report::Transfer => transfer(output).map(|(_, us)| Some(Figure::Nanoseconds(us * 1e3))),
        Report::Stream => {
            transfer(output).map(|(gigabits, _)| Some(Figure::BytesPerSecond(gigabits * 1e9 / 8.0)))
        }
        Report::Shows(what) if !output.contains(what) => Err(format!("it does not show {what}")),
        Report::Shows(_) => Ok(None),
        // iterations, latency (median, average, overall), MiB/s and messages per second (average, overall)
        Report::UcxLatency => row(output, 8).map(|row| Some(Figure::Nanoseconds(row[1] * 1e3))),
        Report::UcxBandwidth => {
            row(output, 8).map(|row| Some(Figure::BytesPerSecond(row[5] * MEBIBYTE)))
        }
        Report::FabricPingPong => fabric(output).map(|us| Some(Figure::Nanoseconds(us * 1e3))),
        Report::Iperf => {
            iperf(output).map(|megabits| Some(Figure::BytesPerSecond(megabits * 1e6 / 8.0)))
        }
        Report::Rate => row(output, 5).map(|row| Some(Figure::MessagesPerSecond(row[4] * 1e6))),
    }
}

fn ping_pong(output: &str) -> Result<f64, String> {
    let line = output.lines().find(|line| line.ends_with("usec/iter"));
    let number = line.and_then(|line| line.split_ascii_whitespace().rev().nth(1));
    number
        .and_then(|number| number.parse().ok())
        .ok_or_else(|| "it printed no time per iteration".to_owned())
}

/// Gbit/s and microseconds for each transfer: the end of the last line that has a time before them.
fn transfer(output: &str) -> Result<(f64, f64), String> {
    let read = |line: &str| {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let [.., time, gigabits, us] = words[..] else {
            return None;
        };
        time.strip_suffix('s')?.parse::<f64>().ok()?;
        Some((gigabits.parse().ok()?, us.parse().ok()?))
    };
    (output.lines().rev().find_map(read)).ok_or_else(|| "it printed no line of results".to_owned())
}

/// The last line that says what was received: `... 364 MBytes  1530 Mbits/sec    receiver`.
fn iperf(output: &str) -> Result<f64, String> {
    let line = output.lines().rev().find(|line| line.ends_with("receiver"));
    let words = line.map(|line| line.split_ascii_whitespace().rev());
    words
        .and_then(|mut words| words.nth(2)?.parse().ok())
        .ok_or_else(|| "it printed no line of results".to_owned())
}

/// The last line of fi_pingpong's table: bytes, sent, acknowledged, total, time, MB/s, microseconds, messages.
fn fabric(output: &str) -> Result<f64, String> {
    let lines = output.lines().rev();
    let rows = lines.map(|line| line.split_ascii_whitespace().collect::<Vec<_>>());
    let row = rows
        .into_iter()
        .find(|row| row.len() == 8 && row[2].starts_with('='));
    row.and_then(|row| row[6].parse().ok())
        .ok_or_else(|| "it printed no line of results".to_owned())
}

/// The last line that consists of `columns` numbers: perftest's result.
fn row(output: &str, columns: usize) -> Result<Vec<f64>, String> {
    let numbers = |line: &str| {
        line.split_ascii_whitespace()
            .map(str::parse)
            .collect::<Result<Vec<f64>, _>>()
            .ok()
    };
    output
        .lines()
        .rev()
        .filter_map(numbers)
        .find(|row| row.len() == columns)
        .ok_or_else(|| "it printed no line of results".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    // Lines as perftest 4.5 and rdma-core 44.0 print them (formats of their sources).
    const LATENCY: &str = "\
 #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]   99% percentile[usec]
 2       1000          0.46           12.35        0.51                0.55            0.10            0.90             12.35
---------------------------------------------------------------------------------------\n";
    const BANDWIDTH: &str = "\
 #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]
 65536      5000             11523.10            11480.33                   0.183685
---------------------------------------------------------------------------------------\n";

    #[test]
    fn perftest_lines_are_read() {
        assert_eq!(
            figure(Report::Latency, LATENCY),
            Ok(Some(Figure::Nanoseconds(510.0)))
        );
        assert_eq!(
            figure(Report::Bandwidth, BANDWIDTH),
            Ok(Some(Figure::BytesPerSecond(11480.33 * MEBIBYTE)))
        );
        let Ok(Some(Figure::MessagesPerSecond(rate))) = figure(Report::Rate, BANDWIDTH) else {
            panic!("a rate")
        };
        assert!((rate - 183_685.0).abs() < 1e-3);
    }

    #[test]
    fn lines_of_iperf_are_read() {
        let output = "\
[ 27]   0.00-1.00   sec   165 MBytes  1380 Mbits/sec    0    384 KBytes
[ 27]   0.00-1.00   sec   165 MBytes  1380 Mbits/sec    0             sender
[ 27]   0.00-1.00   sec   160 MBytes  1360 Mbits/sec                  receiver

iperf Done.\n";
        let figure = |output| figure(Report::Iperf, output);
        assert_eq!(figure(output), Ok(Some(Figure::BytesPerSecond(170e6))));
        assert!(figure("iperf3: error - unable to connect").is_err());
    }

    #[test]
    fn pingpong_lines_are_read() {
        let output = "8192000 bytes in 0.01 seconds = 9000.00 Mbit/sec\n1000 iters in 0.01 seconds = 6.54 usec/iter\n";
        assert_eq!(
            figure(Report::PingPong, output),
            Ok(Some(Figure::Nanoseconds(6540.0)))
        );
    }

    // A line as rstream of rdma-core 44.0 prints it.
    const STREAM: &str = "\
name      bytes   xfers   iters   total       time     Gb/sec    usec/xfer
custom    64k     5k      1       625m        0.07s     73.14       7.17\n";

    #[test]
    fn lines_of_sockets_are_read() {
        assert_eq!(
            figure(Report::Transfer, STREAM),
            Ok(Some(Figure::Nanoseconds(7170.0)))
        );
        let Ok(Some(Figure::BytesPerSecond(rate))) = figure(Report::Stream, STREAM) else {
            panic!("a bandwidth")
        };
        assert!((rate / 9.1425e9 - 1.0).abs() < 1e-9);
    }

    #[test]
    fn lines_of_the_stacks_are_read() {
        let ucx = "|     Test     | # iterations | 50.0%ile | average |\n                        5000      0.639     0.706     0.710       10.81      10.90     1416624     1416624\n";
        assert_eq!(
            figure(Report::UcxLatency, ucx),
            Ok(Some(Figure::Nanoseconds(639.0)))
        );
        let bandwidth = Figure::BytesPerSecond(10.90 * MEBIBYTE);
        assert_eq!(figure(Report::UcxBandwidth, ucx), Ok(Some(bandwidth)));
        let fabric = "bytes   #sent   #ack     total       time     MB/sec    usec/xfer   Mxfers/sec\n64      2k      =2k      250k        0.15s      0.17      2.50       0.00\n";
        assert_eq!(
            figure(Report::FabricPingPong, fabric),
            Ok(Some(Figure::Nanoseconds(2500.0)))
        );
        assert_eq!(figure(Report::Shows("rc"), "Transport: rc"), Ok(None));
    }

    #[test]
    fn missing_results_are_errors() {
        for report in [
            Report::Shows("rc_verbs"),
            Report::UcxLatency,
            Report::UcxBandwidth,
            Report::FabricPingPong,
            Report::PingPong,
            Report::Latency,
            Report::Bandwidth,
            Report::Rate,
            Report::Transfer,
            Report::Stream,
            Report::DeviceInfo,
        ] {
            assert!(
                figure(report, "No IB devices found\n").is_err(),
                "{report:?}"
            );
        }
    }
}
