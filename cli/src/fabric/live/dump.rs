//! `ferriband fabric dump`: what passes a link of a live fabric, as lines or as a capture file.
//!
//! Owns the forms, and when it ends. What passes is told by the fabric's process ([`ferriband_attach::tap`]).

use super::failed;
use crate::args::{DumpFormat, FabricDumpArgs};
use crate::dump::time_of_day;
use crate::failure::Failure;
use crate::stop::Stop;
use ferriband_attach::ask::{Answer, Ask};
use ferriband_attach::tap::{self, Tapped};
use ferriband_attach::{AttachError, Link};
use ferriband_wire::pcap::{LinkType, PcapWriter};
use ferriband_wire::pcapng::{Direction, InterfaceId, PcapngWriter, Remark};
use ferriband_wire::{AnyMad, NativePacket};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// How long it waits before it looks whether it is to end.
const LOOK: Duration = Duration::from_millis(50);

type Sink = BufWriter<Box<dyn Write>>;

enum Form {
    Lines(Sink),
    Pcapng(PcapngWriter<Sink>, InterfaceId),
    Pcap(PcapWriter<Sink>),
}

impl Form {
    fn open(args: &FabricDumpArgs) -> io::Result<Form> {
        let path = args.write.as_deref().filter(|path| path.as_os_str() != "-");
        let sink: Box<dyn Write> = match path {
            Some(path) => Box::new(File::create(path)?),
            None => Box::new(io::stdout()),
        };
        let sink = BufWriter::new(sink);
        let named_pcap = path.is_some_and(|path| path.extension().is_some_and(|end| end == "pcap"));
        let classic = args
            .format
            .map_or(named_pcap, |format| format == DumpFormat::Pcap);
        Ok(
            match (args.write.is_some() || args.format.is_some(), classic) {
                (false, _) => Form::Lines(sink),
                (true, true) => Form::Pcap(PcapWriter::new(sink, LinkType::Erf)?),
                (true, false) => {
                    let application = concat!("ferriband ", env!("CARGO_PKG_VERSION"));
                    let mut writer = PcapngWriter::new(sink, application)?;
                    let name = format!("{}:{}", args.node, args.port);
                    let link = writer.interface(&name, "a link of a fabric", LinkType::Erf)?;
                    Form::Pcapng(writer, link)
                }
            },
        )
    }

    fn write(&mut self, tapped: &Tapped<'_>) -> io::Result<()> {
        match self {
            Form::Lines(sink) => writeln!(sink, "{}", line(tapped)),
            Form::Pcap(writer) => writer.write(tapped.time_ns, tapped.bytes),
            Form::Pcapng(writer, link) => {
                let remark = Remark {
                    direction: Some(match tapped.out {
                        true => Direction::Outbound,
                        false => Direction::Inbound,
                    }),
                    ..Remark::default()
                };
                writer.write(*link, tapped.time_ns, tapped.bytes, remark)
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Form::Lines(sink) => sink.flush(),
            Form::Pcap(writer) => writer.flush(),
            Form::Pcapng(writer, _) => writer.flush(),
        }
    }
}

/// A packet in words.
fn line(tapped: &Tapped<'_>) -> String {
    let way = if tapped.out { "tx" } else { "rx" };
    let mut line = format!("{} {way}", time_of_day(tapped.time_ns));
    match NativePacket::parse(tapped.bytes) {
        Ok(packet) => {
            let lrh = packet.lrh;
            line += &format!(
                " LID {} to {} VL {} SL {} {}",
                lrh.slid.0, lrh.dlid.0, lrh.vl.0, lrh.sl.0, packet.packet
            );
            let managed = packet.packet.bth().dest_qpn.0 <= 1;
            if let Ok(mad) = AnyMad::parse(packet.packet.payload)
                && managed
            {
                line += &format!(" {mad}");
            }
        }
        Err(error) => line += &format!(" {} bytes: {error}", tapped.bytes.len()),
    }
    line
}

/// `ferriband fabric dump`.
pub fn command(args: &FabricDumpArgs) -> Result<ExitCode, Failure> {
    let link = Link::dial(&args.named.name).map_err(failed)?;
    let ask = Ask::Tap {
        node: args.node.clone(),
        port: args.port,
    };
    let name = match &args.write {
        Some(path) => path.display().to_string(),
        None => "standard output".to_owned(),
    };
    match link.ask(&ask).map_err(failed)? {
        Answer::Opened { .. } => {}
        _ => return Err(Failure::new("the fabric's process answers something else")),
    }
    let fail = |error: io::Error| match error.kind() {
        io::ErrorKind::BrokenPipe => {
            Failure::new("nobody reads any more").status((128 + libc::SIGPIPE) as u8)
        }
        _ => Failure::io("write to", &name, &error),
    };
    let mut form = Form::open(args).map_err(fail)?;
    let stop = Stop::install();
    complain!(
        "ferriband: looking at port {} of {} and the port at the other end of its cable",
        args.port,
        args.node
    );
    let deadline = args.duration.map(|duration| Instant::now() + duration);
    let most = args.count.unwrap_or(u64::MAX);
    let (mut taken, mut lost) = (0, 0_u64);
    let over = || stop.asked() || deadline.is_some_and(|at| Instant::now() >= at);
    while taken < most && !over() {
        let message = match link.receive(Some(LOOK)) {
            Ok(None) => continue,
            Ok(Some(message)) => message,
            Err(AttachError::Gone) => break,
            Err(error) => return Err(failed(error)),
        };
        for tapped in tap::packets(&message).map_err(failed)? {
            lost += u64::from(tapped.lost);
            if taken < most {
                form.write(&tapped).map_err(fail)?;
                taken += 1;
            }
        }
        form.flush().map_err(fail)?;
    }
    form.flush().map_err(fail)?;
    complain!("ferriband: {taken} packets; {lost} lost because we were too slow");
    Ok(ExitCode::SUCCESS)
}
