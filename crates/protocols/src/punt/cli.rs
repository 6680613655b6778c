//! Commands on punting, as VPP has them.

use super::Punts;
use super::control;
use super::control::{MAX_RATE, Redirect, word};
use command::{Args, Command, CommandError, CommandSet, Done, reply};
use graph::InterfaceIndex;
use router::Router;
use serde::Serialize;
use std::fmt;
use std::net::IpAddr;
use wire::Family;

pub fn register(set: &mut CommandSet<Router>) {
    set.section(
        "Punting to the host",
        "The router punts to the host the packets for its own addresses that it does not process itself, and those \
         of routes `via punt`. They leave through an interface (a TAP), with a new link header and otherwise \
         unchanged. The host, which also has the router's addresses (on lo), answers through the same interface.",
    );
    Family::ALL.into_iter().for_each(|family| register_family(set, family));
}

/// The commands of a family: what they call it, its next hops and an example of one.
fn register_family(set: &mut CommandSet<Router>, family: Family) {
    let ip = word(family);
    let (hop, example) = match family {
        Family::Ip4 => ("ip4", "192.0.2.2"),
        Family::Ip6 => ("ip6", "2001:db8::2"),
    };
    set.add(
        Command::new(
            &format!("{ip} punt redirect add rx {{all | <rx:interface> : from}} via <hop:{hop}> <tx:interface>"),
            "Send punted packets to the host: those of one interface, or of all interfaces without a redirect of \
             their own.",
            |router: &mut Router, args: &Args| {
                let (rx, tx) = (from(router, args)?, router.interfaces.find(args.text("tx")?)?);
                control::add_punt_redirect(router, rx, args.parse("hop")?, tx)?;
                reply(Done)
            },
        )
        .also(&format!("{ip} punt redirect rx {{all | <rx:interface> : from}} via <hop:{hop}> <tx:interface>"))
        .configures()
        .example(&format!("{ip} punt redirect add rx all via {example} tap0")),
    );
    set.add(
        Command::new(
            &format!("{ip} punt redirect del rx {{all | <rx:interface> : from}}"),
            "Stop sending punted packets to the host.",
            move |router: &mut Router, args: &Args| {
                let rx = from(router, args)?;
                control::remove_punt_redirect(router, family, rx)?;
                reply(Done)
            },
        )
        .also(&format!("{ip} punt redirect del rx {{all | <rx:interface> : from}} via [<hop:{hop}>] <tx:interface>"))
        .configures()
        .example(&format!("{ip} punt redirect del rx all")),
    );
    set.add(
        Command::new(
            &format!("set {ip} punt rate {{<rate:u32 1..{MAX_RATE}> | default : value}}"),
            "Limit the number of packets that each worker punts per second. By default there is no limit.",
            move |router: &mut Router, args: &Args| {
                control::set_punt_rate(router, family, args.optional("rate")?);
                reply(Done)
            },
        )
        .configures()
        .example(&format!("set {ip} punt rate 10000")),
    );
    let show = move |router: &mut Router, _: &Args| {
        let name = |index: InterfaceIndex| {
            router.interfaces.get(index).map_or_else(|_| index.to_string(), |interface| interface.name.clone())
        };
        let way = |(rx, redirect): (Option<InterfaceIndex>, &Redirect)| Way {
            rx: rx.map_or_else(|| "all".into(), name),
            next_hop: redirect.next_hop,
            tx: name(redirect.interface),
            forwarding: router.adjacency_text(family, redirect.adjacency),
        };
        reply(ShowPunts {
            redirects: router.state::<Punts>().iter(family).map(way).collect(),
            rate: router.state::<Punts>().rate(family),
        })
    };
    set.add(Command::new(&format!("show {ip} punt redirect"), "Show the redirects of punted packets.", show));
}

/// The interface whose packets are meant; none: all.
fn from(router: &Router, args: &Args) -> Result<Option<InterfaceIndex>, CommandError> {
    Ok(args.optional_text("rx").map(|name| router.interfaces.find(name)).transpose()?)
}

#[derive(Serialize)]
struct Way {
    rx: String,
    next_hop: IpAddr,
    tx: String,
    forwarding: String,
}

#[derive(Serialize)]
struct ShowPunts {
    redirects: Vec<Way>,
    rate: Option<u32>,
}

impl fmt::Display for ShowPunts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.redirects.is_empty() {
            writeln!(f, "no punt redirects")?;
        }
        for Way { rx, next_hop, tx, forwarding } in &self.redirects {
            writeln!(f, " rx {rx} via:\n   {next_hop} {tx}\n forwarding\n  {forwarding}")?;
        }
        match self.rate {
            Some(rate) => writeln!(f, "punted at most: {rate}/s by each worker"),
            None => Ok(()),
        }
    }
}
