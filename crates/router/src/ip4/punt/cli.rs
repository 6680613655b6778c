//! Commands on punting, as VPP has them.

use super::control::{MAX_RATE, Redirect};
use crate::Router;
use command::{Args, Command, CommandError, CommandSet, Done, reply};
use graph::InterfaceIndex;
use serde::Serialize;
use std::fmt;
use std::net::Ipv4Addr;

pub fn register(set: &mut CommandSet<Router>) {
    set.section(
        "Punting to the host",
        "Packets that are for the router and that nothing in it takes, and those of routes `via punt`, go to the host \
         through an interface (a TAP), unchanged but for the link header. The host, which has the router's addresses \
         as well (on lo), answers by the same interface.",
    );
    set.add(
        Command::new(
            "ip punt redirect add rx {all | <rx:interface> : from} via <hop:ip4> <tx:interface>",
            "Send punted packets of one interface, or of all that have no way of their own, to the host.",
            |router: &mut Router, args: &Args| {
                let (rx, tx) = (from(router, args)?, router.interfaces.find(args.text("tx")?)?);
                router.add_punt_redirect(rx, args.parse("hop")?, tx)?;
                reply(Done)
            },
        )
        .configures()
        .example("ip punt redirect add rx all via 192.0.2.2 tap0"),
    );
    set.add(
        Command::new(
            "ip punt redirect del rx {all | <rx:interface> : from}",
            "Send punted packets to the host no more.",
            |router: &mut Router, args: &Args| {
                let rx = from(router, args)?;
                router.remove_punt_redirect(rx)?;
                reply(Done)
            },
        )
        .configures()
        .example("ip punt redirect del rx all"),
    );
    set.add(
        Command::new(
            &format!("set ip punt rate {{<rate:u32 1..{MAX_RATE}> | default : value}}"),
            "Set how many packets a second each worker punts at most; the default is no bound.",
            |router: &mut Router, args: &Args| {
                router.set_punt_rate(args.optional("rate")?);
                reply(Done)
            },
        )
        .configures()
        .example("set ip punt rate 10000"),
    );
    set.add(Command::new("show ip punt redirect", "Show where punted packets go.", |router: &mut Router, _| {
        let name = |index: InterfaceIndex| {
            router.interfaces.get(index).map_or_else(|_| index.to_string(), |interface| interface.name.clone())
        };
        let way = |(rx, redirect): (Option<InterfaceIndex>, &Redirect)| Way {
            rx: rx.map_or_else(|| "all".into(), name),
            next_hop: redirect.next_hop,
            tx: name(redirect.interface),
            forwarding: router.adjacency_text(wire::Family::Ip4, redirect.adjacency),
        };
        reply(ShowPunts { redirects: router.punts.iter().map(way).collect(), rate: router.punts.rate })
    }));
}

/// The interface whose packets are meant; none: all.
fn from(router: &Router, args: &Args) -> Result<Option<InterfaceIndex>, CommandError> {
    Ok(args.optional_text("rx").map(|name| router.interfaces.find(name)).transpose()?)
}

#[derive(Serialize)]
struct Way {
    rx: String,
    next_hop: Ipv4Addr,
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
