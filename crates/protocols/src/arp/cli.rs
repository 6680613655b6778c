//! ARP commands: proxy ARP, and conflicts over this router's addresses.

use super::proxy::{self, Proxies};
use command::table::centred;
use command::{Args, Command, CommandSet, Done, fail, reply};
use router::Router;
use router::neighbour::cli::name_of;
use router::neighbour::policy::Range;
use serde::Serialize;
use std::fmt;

pub fn register(set: &mut CommandSet<Router>) {
    set.add(
        Command::new(
            "set arp accept {enable|disable : state}",
            "Learn neighbours from unsolicited ARP, too; or only those that the router asked for or that ask for it \
             (the default).",
            |router: &mut Router, args: &Args| {
                router.set_arp_accept(args.text("state")? == "enable");
                reply(Done)
            },
        )
        .configures(),
    );
    register_proxy(set);
    register_conflicts(set);
    router::neighbour::arping::register(set);
}

fn register_proxy(set: &mut CommandSet<Router>) {
    set.add(
        Command::new(
            "set arp proxy {{ [del] | [table-id <table:u32>] | start <start:ip4> | end <end:ip4> }}",
            "Set ranges of addresses for which interfaces with proxy ARP answer, if their route leads elsewhere (RFC \
             1027).",
            |router: &mut Router, args: &Args| {
                if let Some(table @ 1..) = args.optional::<u32>("table")? {
                    return fail(format!("no such table: {table} (there is only 0)"));
                }
                let range = Range { start: args.parse("start")?, end: args.parse("end")? };
                match args.flag("del") {
                    false => router.add_proxied(range)?,
                    true => router.remove_proxied(range)?,
                }
                reply(Done)
            },
        )
        .configures()
        .example("set arp proxy start 100.64.1.10 end 100.64.1.20")
        .example("set arp proxy del start 100.64.1.10 end 100.64.1.20"),
    );
    set.add(
        Command::new(
            "set interface proxy-arp <interface:interface> {enable|on|disable|off : state}",
            "Enable proxy ARP on an interface for the addresses of `set arp proxy`, or disable it.",
            |router: &mut Router, args: &Args| {
                let index = router.interfaces.find(args.text("interface")?)?;
                proxy::set(router, index, matches!(args.text("state")?, "enable" | "on"))?;
                reply(Done)
            },
        )
        .configures()
        .example("set interface proxy-arp e0 enable"),
    );
    set.add(Command::new(
        "show arp proxy",
        "Show the address ranges of proxy ARP and the interfaces on which it is enabled.",
        |router: &mut Router, _: &Args| {
            let ranges = router.neighbours.policy().proxied.iter();
            let ranges = ranges.map(|range| ShownRange { start: range.start.to_string(), end: range.end.to_string() });
            let interfaces = router.interfaces.iter().filter(|known| router.state::<Proxies>().is_on(known.index));
            let interfaces = interfaces.map(|interface| interface.name.clone()).collect();
            reply(ShowProxy { ranges: ranges.collect(), interfaces })
        },
    ));
}

fn register_conflicts(set: &mut CommandSet<Router>) {
    set.add(Command::new(
        "show arp conflicts",
        "Show stations that claimed an address of the router, and how often it was defended (RFC 5227).",
        |router: &mut Router, _: &Args| {
            let conflicts = router.neighbours.conflicts().iter().map(|(key, conflict)| ShownConflict {
                age: conflict.last.elapsed().as_secs_f64(),
                ip: key.address.to_string(),
                mac: conflict.mac.to_string(),
                defended: conflict.defended,
                interface: name_of(router, key.interface),
            });
            reply(ShowConflicts { conflicts: conflicts.collect() })
        },
    ));
    set.add(Command::new(
        "clear arp conflicts",
        "Clear the list of address conflicts.",
        |router: &mut Router, _: &Args| {
            router.clear_conflicts();
            reply(Done)
        },
    ));
}

#[derive(Serialize)]
struct ShownRange {
    start: String,
    end: String,
}

#[derive(Serialize)]
struct ShowProxy {
    ranges: Vec<ShownRange>,
    interfaces: Vec<String>,
}

impl fmt::Display for ShowProxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // VPP's lines, except for the last.
        let none = if self.ranges.is_empty() { " nothing" } else { "" };
        writeln!(f, "Proxy arps enabled for:{none}")?;
        for range in &self.ranges {
            writeln!(f, "Fib_index 0   {} - {} ", range.start, range.end)?;
        }
        if !self.interfaces.is_empty() {
            writeln!(f, "On: {}", self.interfaces.join(", "))?;
        }
        Ok(())
    }
}

#[derive(Serialize)]
struct ShownConflict {
    /// Seconds since it was seen last.
    age: f64,
    ip: String,
    mac: String,
    /// How often we announced the address because of it.
    defended: u32,
    interface: String,
}

#[derive(Serialize)]
struct ShowConflicts {
    conflicts: Vec<ShownConflict>,
}

impl fmt::Display for ShowConflicts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (age, ip, mac) = (centred("Age", 12), centred("IP", 20), centred("Ethernet", 20));
        writeln!(f, "{age}{ip}{mac}{}Interface", centred("Defended", 10))?;
        for c in &self.conflicts {
            let (ip, mac, defended) = (centred(&c.ip, 20), centred(&c.mac, 20), centred(&c.defended.to_string(), 10));
            writeln!(f, "{:>12.4}{ip}{mac}{defended}{}", c.age, c.interface)?;
        }
        Ok(())
    }
}
