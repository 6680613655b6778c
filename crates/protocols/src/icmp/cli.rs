//! What is set of ICMP.

use super::Icmp;
use super::config::REDIRECTS;
use super::control;
use super::control::{MAX_BURST, MAX_RATE};
use command::{Args, Command, CommandError, CommandSet, Done, reply};
use graph::InterfaceIndex;
use router::Router;
use serde::Serialize;
use std::fmt;
use std::net::Ipv4Addr;
use wire::Family;

pub fn register(set: &mut CommandSet<Router>) {
    register_errors(set);
    super::ping::cli::register(set);
}

/// The interface that a command names.
fn find(router: &Router, args: &Args) -> Result<InterfaceIndex, CommandError> {
    Ok(router.interfaces.find(args.text("interface")?)?)
}

fn register_errors(set: &mut CommandSet<Router>) {
    set.section(
        "ICMP",
        "The router sends ICMP errors about packets that it does not forward. A rate limit for each worker covers \
         them and TCP resets. A redirect tells a host about a better next hop on its own network; its packets are \
         forwarded nevertheless.",
    );
    set.add(
        Command::new(
            &format!(
                "set ip icmp error-rate {{<rate:u32 1..{MAX_RATE}> [burst <burst:u32 1..{MAX_BURST}>] | \
             default : value}}"
            ),
            "Limit the ICMP errors, and the TCP resets, that each worker sends: per second, and in a burst.",
            |router: &mut Router, args: &Args| {
                let burst = args.optional("burst")?.unwrap_or(router::reply::policy::DEFAULT_LIMIT.burst);
                control::set_icmp_limit(router, args.optional("rate")?.map(|rate| (rate, burst)));
                reply(Done)
            },
        )
        .configures()
        .example("set ip icmp error-rate 10000 burst 500")
        .example("set ip icmp error-rate default"),
    );
    for (family, word) in REDIRECTS {
        let redirect = match family {
            Family::Ip4 => "ICMP",
            Family::Ip6 => "ICMPv6",
        };
        let syntax = format!("set interface {word} redirects <interface:interface> {{enable | disable : switch}}");
        let help = format!("Send {redirect} redirects to hosts on an interface, or not (the default).");
        let set_redirects = move |router: &mut Router, args: &Args| {
            let index = find(router, args)?;
            control::set_redirects(router, family, index, args.text("switch")? == "enable")?;
            reply(Done)
        };
        let example = format!("set interface {word} redirects e0 enable");
        set.add(Command::new(&syntax, &help, set_redirects).configures().example(&example));
    }
    set.add(Command::new("show ip icmp", "Show the settings of ICMP.", |router: &mut Router, _| {
        let limit = router.state::<Icmp>().limit;
        let [redirects, redirects6] = Family::ALL.map(|family| {
            let interfaces =
                router.state::<Icmp>().redirects(family).filter_map(|index| router.interfaces.get(index).ok());
            interfaces.map(|interface| interface.name.clone()).collect()
        });
        reply(ShowIcmp {
            errors_per_second: limit.per_second,
            burst: limit.burst,
            router_id: control::router_id(router),
            redirects,
            redirects6,
        })
    }));
}

#[derive(Serialize)]
struct ShowIcmp {
    errors_per_second: u32,
    burst: u32,
    router_id: Option<Ipv4Addr>,
    redirects: Vec<String>,
    redirects6: Vec<String>,
}

impl fmt::Display for ShowIcmp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ShowIcmp { errors_per_second, burst, router_id, redirects, redirects6 } = self;
        writeln!(f, "errors: {errors_per_second}/s by each worker, {burst} at once")?;
        let router_id = router_id.map_or("none".into(), |address| address.to_string());
        writeln!(f, "router id: {router_id}")?;
        for (what, redirects) in [("redirects", redirects), ("ip6 redirects", redirects6)] {
            let redirects = if redirects.is_empty() { "none".into() } else { redirects.join(", ") };
            writeln!(f, "interfaces with {what}: {redirects}")?;
        }
        Ok(())
    }
}
