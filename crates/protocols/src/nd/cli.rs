//! Commands on Neighbor Discovery.

use super::dad;
use super::dad::MAX_TRANSMITS;
use super::proxy;
use command::table::{Align, Table};
use command::{Args, Command, CommandSet, Done, reply};
use graph::InterfaceIndex;
use router::Router;
use router::neighbour::cli::name_of;
use serde::Serialize;
use std::fmt;
use std::net::Ipv6Addr;

pub fn register(set: &mut CommandSet<Router>) {
    set.section(
        "IPv6 Neighbor Discovery",
        "Before the router uses an address, it asks the link whether another station has it (RFC 4862). Meanwhile \
         `show ip6 interface` marks the address as tentative. An address that another station has is marked as \
         duplicate. It is not used until the interface goes down and up, or the address is configured again.",
    );
    set.add(
        Command::new(
            &format!("set ip6 dad {{transmits <transmits:u32 0..{MAX_TRANSMITS}> | default}}"),
            "Set the number of probes of duplicate address detection, one second apart (RFC 4862: one). With 0, \
             addresses are used at once.",
            |router: &mut Router, args: &Args| {
                let transmits = if args.flag("disable") { Some(0) } else { args.optional("transmits")? };
                dad::set_dad_transmits(router, transmits);
                reply(Done)
            },
        )
        .also(&format!("set ip6 dad {{disable | enable [transmits <transmits:u32 0..{MAX_TRANSMITS}>]}}"))
        .configures()
        .example("set ip6 dad transmits 2")
        .example("set ip6 dad default"),
    );
    set.add(
        Command::new(
            "set ip6 nd proxy <host:ip6> <interface:interface> [del]",
            "Answer Neighbor Discovery for a host behind this interface, on the other interfaces whose networks \
             contain its address. A route to the host is added.",
            |router: &mut Router, args: &Args| {
                let index = router.interfaces.find(args.text("interface")?)?;
                let host = args.parse("host")?;
                match args.flag("del") {
                    false => proxy::add_proxied_host(router, index, host)?,
                    true => proxy::remove_proxied_host(router, index, host)?,
                }
                reply(Done)
            },
        )
        .also("set ip6 nd proxy <interface:interface> [del] <host:ip6>")
        .configures()
        .example("set ip6 nd proxy 2001:db8:0:1::9 e1"),
    );
    set.add(Command::new(
        "show ip6 nd proxy",
        "Show the hosts of ND proxy, their interfaces, and the interfaces on which the router answers for them.",
        |router: &mut Router, _: &Args| {
            let answers = |host: &Ipv6Addr| {
                let on = router.interfaces.iter().filter(|interface| interface.ip6.proxied.contains(host));
                on.map(|interface| interface.name.clone()).collect()
            };
            let shown = |(index, host): (InterfaceIndex, Ipv6Addr)| ShownHost {
                address: host.to_string(),
                interface: name_of(router, index),
                answered_on: answers(&host),
            };
            reply(ShowProxy { hosts: proxy::proxied_hosts(router).map(shown).collect() })
        },
    ));
}

#[derive(Serialize)]
struct ShownHost {
    address: String,
    /// Where it is.
    interface: String,
    answered_on: Vec<String>,
}

#[derive(Serialize)]
struct ShowProxy {
    hosts: Vec<ShownHost>,
}

impl fmt::Display for ShowProxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.hosts.is_empty() {
            return writeln!(f, "no hosts are answered for");
        }
        let mut table = Table::new("  ").column("Address", Align::Left, 39).column("Behind", Align::Left, 16);
        table = table.column("Answered on", Align::Left, 0);
        for host in &self.hosts {
            let on = if host.answered_on.is_empty() { "no interface".into() } else { host.answered_on.join(", ") };
            table.row([&host.address, &host.interface, &on]);
        }
        write!(f, "{table}")
    }
}
