//! Commands on multicast listeners.

use super::control::Listening;
use super::querier;
use command::{Args, Command, CommandSet, Done, reply};
use router::Router;
use router::interface::Interface;
use serde::Serialize;
use std::fmt;

pub fn register(set: &mut CommandSet<Router>) {
    set.section(
        "IPv6 multicast listeners",
        "The router reports the groups of its own addresses to the link (MLD, RFC 3810), so that snooping switches \
         forward Neighbor Discovery to it. On a link without a multicast router these switches need a querier: `set \
         ip6 mld querier`.",
    );
    set.add(
        Command::new(
            "set ip6 mld querier <interface:interface> {enable | disable : how}",
            "Make the router an MLD querier on a link, or not. The querier with the lowest address is active.",
            |router: &mut Router, args: &Args| {
                let index = router.interfaces.find(args.text("interface")?)?;
                querier::set_mld_querier(router, index, args.text("how")? == "enable")?;
                reply(Done)
            },
        )
        .configures()
        .example("set ip6 mld querier e0 enable"),
    );
    set.add(
        Command::new(
            "show ip6 mld [<interface:interface>]",
            "Show the groups that the router reports, the querier, and the groups of other listeners.",
            |router: &mut Router, args: &Args| {
                let only = args.optional_text("interface").map(|name| router.interfaces.find(name)).transpose()?;
                let chosen = router.interfaces.iter().filter(|one| only.is_none_or(|only| only == one.index));
                reply(ShowMld { interfaces: chosen.filter_map(|interface| shown(router, interface)).collect() })
            },
        )
        .example("show ip6 mld e0"),
    );
}

#[derive(Serialize)]
struct Shown {
    name: String,
    /// Of MLD, as the routers on the link understand it.
    version: u8,
    reported: Vec<String>,
    /// `this router`, or the address of another; none: this router is not to ask.
    querier: Option<String>,
    /// With the seconds for which it is believed.
    heard: Vec<(String, f64)>,
}

fn shown(router: &Router, interface: &Interface) -> Option<Shown> {
    let listener = router.state::<Listening>().listener(interface.index)?;
    let now = router.state::<Listening>().now();
    let querier = querier::mld_querier(router, interface.index);
    let heard = querier.into_iter().flat_map(|querier| querier.groups(now));
    Some(Shown {
        name: interface.name.clone(),
        version: listener.version(now),
        reported: listener.groups.iter().map(ToString::to_string).collect(),
        querier: querier.map(|querier| querier.other().map_or("this router".into(), |other| other.to_string())),
        heard: heard.map(|(group, left)| (group.to_string(), left.as_secs_f64())).collect(),
    })
}

#[derive(Serialize)]
struct ShowMld {
    interfaces: Vec<Shown>,
}

impl fmt::Display for ShowMld {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.interfaces.is_empty() {
            return writeln!(f, "No interface of IPv6 can be used");
        }
        for Shown { name, version, reported, querier, heard } in &self.interfaces {
            write!(f, "{name}: version {version}")?;
            match querier {
                Some(querier) => writeln!(f, ", querier {querier}")?,
                None => writeln!(f)?,
            }
            writeln!(f, "  Reported group(s):")?;
            reported.iter().try_for_each(|group| writeln!(f, "    {group}"))?;
            if !heard.is_empty() {
                writeln!(f, "  Group(s) of others:")?;
            }
            heard.iter().try_for_each(|(group, left)| writeln!(f, "    {group} for {left:.0} s"))?;
        }
        Ok(())
    }
}
