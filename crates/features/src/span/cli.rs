//! Commands on SPAN, as VPP has them.

use super::control::{self, Session, Spans};
use command::{Args, Command, CommandError, CommandSet, Done, Reply, reply};
use router::Router;
use serde::Serialize;
use std::fmt;

type Answer = Result<Box<dyn Reply>, CommandError>;

pub fn register(set: &mut CommandSet<Router>) {
    set.section(
        "Mirrored interfaces (SPAN)",
        "SPAN sends copies of the packets that an interface receives, sends, or both, out of other interfaces.",
    );
    set.add(
        Command::new(
            "set interface span <interface:interface> {disable | destination <destination:interface> \
             [{both|rx|tx|disable : directions}]}",
            "Mirror the packets of one interface to another, or stop that.",
            set_span,
        )
        .configures()
        .example("set interface span e0 destination e1 both")
        .example("set interface span e0 destination e1 disable")
        .example("set interface span e0 disable"),
    );
    set.add(Command::new("show interface span", "Show the mirrored interfaces and their destinations.", show_span));
}

fn set_span(router: &mut Router, args: &Args) -> Answer {
    let source = router.interfaces.find(args.text("interface")?)?;
    let Some(destination) = args.optional_text("destination") else {
        control::clear(router, source)?;
        return reply(Done);
    };
    let destination = router.interfaces.find(destination)?;
    let (rx, tx) = match args.optional_text("directions") {
        Some("rx") => (true, false),
        Some("tx") => (false, true),
        Some("disable") => (false, false),
        _ => (true, true),
    };
    control::set(router, source, destination, rx, tx)?;
    reply(Done)
}

fn show_span(router: &mut Router, _: &Args) -> Answer {
    let name = |index| router.interfaces.get(index).map_or_else(|_| "?".into(), |found| found.name.clone());
    let mut sources: Vec<_> =
        router.state::<Spans>().iter().map(|(source, sessions)| (name(source), sessions)).collect();
    sources.sort_by(|a, b| a.0.cmp(&b.0));
    let of = |(source, sessions): (String, &[Session])| {
        let session = |session: &Session| ShownSession {
            source: source.clone(),
            destination: name(session.destination),
            device: session.directions(),
        };
        sessions.iter().map(session).collect::<Vec<_>>()
    };
    reply(ShowSpan { sessions: sources.into_iter().flat_map(of).collect() })
}

#[derive(Serialize)]
struct ShownSession {
    source: String,
    destination: String,
    device: &'static str,
}

#[derive(Serialize)]
struct ShowSpan {
    sessions: Vec<ShownSession>,
}

impl fmt::Display for ShowSpan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // VPP's columns. There is no bridging yet whose packets could be mirrored.
        writeln!(f, "{:<32} {:<32}  {:>6}   {:>6}", "Source", "Destination", "Device", "L2")?;
        let mut before = None;
        for ShownSession { source, destination, device } in &self.sessions {
            let shown = if before == Some(source) { "" } else { source };
            writeln!(f, "{shown:<32} {destination:<32} ({device:>6}) ({:>6})", "none")?;
            before = Some(source);
        }
        Ok(())
    }
}
