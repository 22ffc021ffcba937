//! A capture as a file, as lines, or as JSON.
//!
//! Owns: the forms. Names, decoding and the shape of packets are `ferriband-wire`'s.

use crate::args::{DumpArgs, DumpFormat};
use crate::domain::Devices;
use crate::failure::Failure;
use ferriband_wire::capture::{Captured, Ends, Fate};
use ferriband_wire::pcap::{LinkType, PcapWriter};
use ferriband_wire::pcapng::{Direction, InterfaceId, PcapngWriter, Remark};
use ferriband_wire::{AnyMad, Packet, Qpn};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter, Write};

/// The general services' queue pair, whose payload is a management datagram.
const GSI: Qpn = Qpn(1);
/// Longest packet from its IP header on.
const PACKET_BYTES: usize = 9216;

type Sink = BufWriter<Box<dyn Write>>;

enum Form {
    Lines(Sink),
    Json(Sink),
    Pcapng(PcapngWriter<Sink>, BTreeMap<u32, InterfaceId>),
    Pcap(PcapWriter<Sink>),
    /// A file of one kind of packets: the first one says which. Before that there is the file alone.
    Empty(Sink),
}

/// Where packets are written to.
pub struct Output {
    form: Option<Form>,
    name: String,
    devices: Devices,
    room: Vec<u8>,
    /// Packets that a file of another kind of packets could not hold.
    misfits: u64,
}

impl Output {
    /// Opens what the command line says.
    pub fn open(args: &DumpArgs) -> Result<Self, Failure> {
        let path = args.write.as_deref().filter(|path| path.as_os_str() != "-");
        let name = path.map_or("standard output".into(), |path| path.display().to_string());
        let sink: Box<dyn Write> = match path {
            Some(path) => Box::new(
                File::create(path).map_err(|error| Failure::io("write to", &name, &error))?,
            ),
            None => Box::new(io::stdout()),
        };
        let sink = BufWriter::with_capacity(1 << 18, sink);
        let named_pcap = path.is_some_and(|path| path.extension().is_some_and(|e| e == "pcap"));
        let classic = args
            .format
            .map_or(named_pcap, |format| format == DumpFormat::Pcap);
        let failed = |error: io::Error| Failure::io("write to", &name, &error);
        let form = if args.write.is_none() && args.format.is_none() {
            if args.json {
                Form::Json(sink)
            } else {
                Form::Lines(sink)
            }
        } else if classic {
            Form::Empty(sink)
        } else {
            let application = concat!("ferriband ", env!("CARGO_PKG_VERSION"));
            Form::Pcapng(
                PcapngWriter::new(sink, application).map_err(failed)?,
                BTreeMap::new(),
            )
        };
        Ok(Output {
            form: Some(form),
            name,
            devices: Devices::now(),
            room: vec![0; PACKET_BYTES],
            misfits: 0,
        })
    }

    /// Writes a packet.
    pub fn packet(&mut self, captured: &Captured<'_>) -> Result<(), Failure> {
        let device = self.devices.name(captured.ifindex);
        let Ok((len, whole)) = captured.emit(&mut self.room) else {
            // longer than a datagram can be: no adapter of ours writes it
            return Ok(());
        };
        if matches!(self.form, Some(Form::Empty(_))) {
            self.begin(link_type(captured))?;
        }
        let bytes = &self.room[..len];
        let Some(form) = &mut self.form else {
            return Ok(());
        };
        let written = match form {
            Form::Lines(sink) => writeln!(sink, "{}", line(captured, &device)),
            Form::Json(sink) => writeln!(sink, "{}", json(captured, &device)),
            Form::Empty(_) => Ok(()),
            Form::Pcap(writer) if writer.link_type() != link_type(captured) => {
                self.misfits += 1;
                Ok(())
            }
            Form::Pcap(writer) => writer.write(captured.time_ns, bytes),
            Form::Pcapng(writer, interfaces) => interface(writer, interfaces, captured, &device)
                .and_then(|id| {
                    let remark = Remark {
                        direction: Some(captured.direction),
                        comment: &fate(captured),
                        original_len: (whole > len).then_some(whole as u32),
                    };
                    writer.write(id, captured.time_ns, bytes, remark)
                }),
        };
        self.done(written)
    }

    /// The head of a classic capture file, whose packets are all of one kind.
    fn begin(&mut self, link_type: LinkType) -> Result<(), Failure> {
        let Some(Form::Empty(sink)) = self.form.take() else {
            return Ok(());
        };
        match PcapWriter::new(sink, link_type) {
            Ok(writer) => {
                self.form = Some(Form::Pcap(writer));
                Ok(())
            }
            Err(error) => self.done(Err(error)),
        }
    }

    /// Packets that were left out, because a classic capture file holds those of one kind alone.
    pub fn misfits(&self) -> u64 {
        self.misfits
    }

    /// Passes on what is held back, for whoever follows the file.
    pub fn flush(&mut self) -> Result<(), Failure> {
        let flushed = match &mut self.form {
            Some(Form::Lines(sink) | Form::Json(sink) | Form::Empty(sink)) => sink.flush(),
            Some(Form::Pcapng(writer, _)) => writer.flush(),
            Some(Form::Pcap(writer)) => writer.flush(),
            None => Ok(()),
        };
        self.done(flushed)
    }

    /// The end of the capture.
    pub fn finish(&mut self) -> Result<(), Failure> {
        // a file without packets is a capture all the same
        self.begin(LinkType::Raw)?;
        self.flush()?;
        self.form = None;
        Ok(())
    }

    /// A reader that goes away ends the capture quietly.
    fn done(&mut self, result: io::Result<()>) -> Result<(), Failure> {
        match result {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                self.form = None;
                Err(Failure::new("nobody reads any more").status((128 + libc::SIGPIPE) as u8))
            }
            Err(error) => Err(Failure::io("write to", &self.name, &error)),
        }
    }
}

/// What a packet's bytes begin with. InfiniBand packets lie in ERF records, because Wireshark 4.0 does not read the link type that was
/// assigned to them bare.
fn link_type(captured: &Captured<'_>) -> LinkType {
    match captured.ends {
        Ends::Roce(_) => LinkType::Raw,
        Ends::Native(_) => LinkType::Erf,
    }
}

fn interface(
    writer: &mut PcapngWriter<Sink>,
    known: &mut BTreeMap<u32, InterfaceId>,
    captured: &Captured<'_>,
    device: &str,
) -> io::Result<InterfaceId> {
    if let Some(id) = known.get(&captured.ifindex) {
        return Ok(*id);
    }
    let link_type = link_type(captured);
    let from = match link_type {
        LinkType::Raw => "Ferriband adapter, from the IP header on",
        _ => "Ferriband adapter, from the LRH to the VCRC",
    };
    let id = writer.interface(device, from, link_type)?;
    known.insert(captured.ifindex, id);
    Ok(id)
}

/// What became of the packet, if anything is to be said of it.
fn fate(captured: &Captured<'_>) -> String {
    match (captured.fate, captured.rule) {
        (Fate::Passed, _) => String::new(),
        (fate, Some(rule)) => format!("{fate} (rule {rule})"),
        (fate, None) => fate.to_string(),
    }
}

/// The transport packet, if it is one; a cut one shows its headers only if they are there.
fn transport<'a>(captured: &Captured<'a>) -> Option<Packet<'a>> {
    let whole = captured.bytes.len() == captured.length;
    let end = captured.bytes.len() - if whole { 4.min(captured.length) } else { 0 };
    Packet::parse(&captured.bytes[..end]).ok()
}

/// A management datagram in words.
fn management(packet: &Packet<'_>) -> Option<String> {
    if packet.bth().dest_qpn != GSI {
        return None;
    }
    AnyMad::parse(packet.payload)
        .ok()
        .map(|mad| mad.to_string())
}

fn way(direction: Direction) -> &'static str {
    match direction {
        Direction::Inbound => "rx",
        Direction::Outbound => "tx",
    }
}

/// One line: time, direction, device, addresses, the packet, its fate.
fn line(captured: &Captured<'_>, device: &str) -> String {
    let (headers, _) = captured.headers();
    let mut line = format!(
        "{} {} {device} {headers}",
        time_of_day(captured.time_ns),
        way(captured.direction)
    );
    match transport(captured) {
        Some(packet) => {
            line += &format!(" {packet}");
            if let Some(mad) = management(&packet) {
                line += &format!(" {mad}");
            }
        }
        None => line += &format!(" {} bytes that are no packet", captured.length),
    }
    let fate = fate(captured);
    if !fate.is_empty() {
        line += &format!(" [{fate}]");
    }
    line
}

/// Hours, minutes and seconds of the day in UTC.
pub fn time_of_day(time_ns: u64) -> String {
    let (seconds, rest) = (time_ns / 1_000_000_000, time_ns % 1_000_000_000);
    let day = seconds % 86_400;
    format!(
        "{:02}:{:02}:{:02}.{rest:09}",
        day / 3600,
        day / 60 % 60,
        day % 60
    )
}

/// One object.
fn json(captured: &Captured<'_>, device: &str) -> serde_json::Value {
    let packet = transport(captured);
    let (_, whole) = captured.headers();
    let mut object = serde_json::json!({
        "time_ns": captured.time_ns,
        "direction": way(captured.direction),
        "device": device,
        "length": captured.length,
        "icrc_ok": (captured.bytes.len() == captured.length).then_some(whole.is_some()),
        "fate": match captured.fate {
            Fate::Passed => "passed",
            fate => fate.text(),
        },
        "rule": captured.rule,
        "local_qpn": captured.local_qpn.map(|qpn| qpn.0),
    });
    if let Some((source, destination)) = captured.ends.addresses() {
        object["source"] = source.to_string().into();
        object["destination"] = destination.to_string().into();
    }
    match &captured.ends {
        Ends::Roce(ends) => {
            object["source_port"] = ends.source_port.into();
            object["traffic_class"] = ends.traffic_class.into();
        }
        Ends::Native(headers) => {
            object["slid"] = headers.lrh.slid.0.into();
            object["dlid"] = headers.lrh.dlid.0.into();
            object["sl"] = headers.lrh.sl.0.into();
        }
    }
    let Some(packet) = packet else { return object };
    let bth = packet.bth();
    object["opcode"] = packet.headers.info().name.into();
    object["opcode_code"] = bth.opcode.code().into();
    object["qpn"] = bth.dest_qpn.0.into();
    object["psn"] = bth.psn.get().into();
    object["ack_requested"] = bth.ack_req.into();
    object["payload"] = packet.payload.len().into();
    object["text"] = packet.to_string().into();
    if let Some(aeth) = packet.ext().aeth {
        object["aeth"] = aeth.to_string().into();
    }
    if let Some(mad) = management(&packet) {
        object["mad"] = mad.into();
    }
    object
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_day_keeps_its_nanoseconds() {
        assert_eq!(
            time_of_day(86_400_000_000_000 + 3_723_000_000_007),
            "01:02:03.000000007"
        );
    }
}
