//! `trace filter`: which packets `trace add` marks.

use command::{Args, Command, CommandError, CommandSet, Done, Reply, fail, reply};
use graph::{Head, Predicate};
use router::{Error, Router};
use serde::Serialize;
use std::fmt;
use std::sync::Arc;
use wire::filter::{Filter, LinkType};

/// A filter as an operator set it.
#[derive(Clone)]
pub struct TraceFilter {
    /// Packets that match are marked; else those that do not.
    include: bool,
    filter: Arc<Filter>,
}

/// The filter that is set, if there is one.
#[derive(Default)]
pub(super) struct Filtering(pub Option<TraceFilter>);

/// A filter as the graph takes it.
pub(crate) fn predicate(filter: &Arc<Filter>, wanted: bool) -> Predicate {
    let filter = filter.clone();
    Box::new(move |head: &Head<'_>| {
        let link = if head.framed { LinkType::Ethernet } else { LinkType::Ip };
        filter.matches_head(head.bytes, head.length, link) == wanted
    })
}

pub fn register(set: &mut CommandSet<Router>) {
    for (word, help) in [
        ("include", "Trace only packets that match, such as `udp and port 53`."),
        ("exclude", "Trace only packets that do not match."),
    ] {
        let include = word == "include";
        set.add(Command::new(
            &format!("trace filter {word} <expression:rest>"),
            help,
            move |router: &mut Router, args: &Args| set_filter(router, include, args.text("expression")?),
        ));
    }
    set.add(Command::new("trace filter none", "Trace all packets again.", |router: &mut Router, _: &Args| {
        set_trace_filter(router, None);
        reply(Done)
    }));
    set.add(Command::new("show trace filter", "Show the trace filter.", |router: &mut Router, _: &Args| {
        let filter = router.state::<Filtering>().0.as_ref();
        reply(ShowFilter {
            mode: filter.map_or("none", |filter| if filter.include { "include" } else { "exclude" }),
            expression: filter.map(|filter| filter.filter.to_string()),
        })
    }));
}

/// That not all packets are marked.
pub(super) fn notice(filter: &TraceFilter) -> String {
    let (mode, expression) = (if filter.include { "include" } else { "exclude" }, &filter.filter);
    format!("filter: {mode} {expression} ('trace filter none' marks all packets)\n")
}

fn set_filter(router: &mut Router, include: bool, expression: &str) -> Result<Box<dyn Reply>, CommandError> {
    // VPP's form: `trace filter include NODE N`.
    if let [node, count] = expression.split_whitespace().collect::<Vec<_>>()[..]
        && count.parse::<u32>().is_ok()
        && router.graph.find(node).is_ok()
    {
        return fail(format!(
            "filters are by packet, not by node: write an expression such as 'udp and port 53', \
             then 'trace add NODE {count}'"
        ));
    }
    let filter = Arc::new(Filter::parse(expression).map_err(Error::from)?);
    set_trace_filter(router, Some(TraceFilter { include, filter }));
    reply(Done)
}

fn set_trace_filter(router: &mut Router, filter: Option<TraceFilter>) {
    router.graph.call(|_| {
        let predicate = filter.as_ref().map(|filter| predicate(&filter.filter, filter.include));
        Box::new(move |core| core.tracer.set_filter(predicate))
    });
    router.state_mut::<Filtering>().0 = filter;
}

#[derive(Serialize)]
struct ShowFilter {
    mode: &'static str,
    expression: Option<String>,
}

impl fmt::Display for ShowFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.expression {
            Some(expression) => writeln!(f, "{}: {expression}", self.mode),
            None => writeln!(f, "no trace filter: all packets are marked"),
        }
    }
}
