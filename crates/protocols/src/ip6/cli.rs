//! Commands on IPv6 of interfaces, as VPP has them. Addresses are given by `set interface ip address`, routes by
//! `ip route`.

use command::{Args, Command, CommandSet, Done, Text, reply};
use router::Router;
use router::ip::source_check;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;
use wire::Family;

pub fn register(set: &mut CommandSet<Router>) {
    set.section(
        "IPv6 on interfaces",
        "IPv6 is enabled on an interface with an IPv6 address (`set interface ip address`), or by command. Without \
         an address, the interface has only its link-local address.",
    );
    set.add(
        Command::new(
            "enable ip6 interface <interface:interface>",
            "Enable IPv6 on an interface, with a link-local address that follows from its MAC address.",
            |router: &mut Router, args: &Args| {
                router.enable_ip6(router.interfaces.find(args.text("interface")?)?)?;
                reply(Done)
            },
        )
        .configures()
        .example("enable ip6 interface e0"),
    );
    set.add(
        Command::new(
            "disable ip6 interface <interface:interface>",
            "Disable IPv6 on an interface. An interface with IPv6 addresses keeps it.",
            |router: &mut Router, args: &Args| {
                let name = args.text("interface")?;
                if router.disable_ip6(router.interfaces.find(name)?)? {
                    return reply(Text(format!("{name} takes part until its IPv6 addresses are taken away\n")));
                }
                reply(Done)
            },
        )
        .configures()
        .example("disable ip6 interface e0"),
    );
    set.add(
        Command::new(
            "set ip6 link-local address <interface:interface> {<address:ip6> | default : value}",
            "Set the link-local address of an interface. By default it follows from the MAC address.",
            |router: &mut Router, args: &Args| {
                let index = router.interfaces.find(args.text("interface")?)?;
                router.set_link_local(index, args.optional("address")?)?;
                reply(Done)
            },
        )
        .configures()
        .example("set ip6 link-local address e0 fe80::1"),
    );
    set.add(source_check::command(Family::Ip6));
    set.add(
        Command::new(
            "show ip6 interface [<interface:interface>]",
            "Show the interfaces on which IPv6 is enabled, with addresses and groups.",
            |router: &mut Router, args: &Args| {
                let only = args.optional_text("interface").map(|name| router.interfaces.find(name)).transpose()?;
                let chosen = router
                    .interfaces
                    .iter()
                    .filter(|interface| interface.ip6.is_enabled() && only.is_none_or(|only| only == interface.index));
                let interfaces = chosen.map(|interface| {
                    let view = super::Ip6View::new(&interface.ip6);
                    Shown {
                        name: interface.name.clone(),
                        state: if interface.admin_up { "up" } else { "down" },
                        link_local: interface.ip6.link_local.map(|address| address.to_string()),
                        addresses: interface.ip6.addresses.iter().map(ToString::to_string).collect(),
                        groups: view.groups().map(|group| group.to_string()).collect(),
                        unused: view.unused().map(|(address, why)| (address.to_string(), why.to_string())).collect(),
                        mtu: interface.ip6_mtu,
                    }
                });
                reply(ShowInterfaces { interfaces: interfaces.collect() })
            },
        )
        .example("show ip6 interface e0"),
    );
}

#[derive(Serialize)]
struct Shown {
    name: String,
    state: &'static str,
    link_local: Option<String>,
    addresses: Vec<String>,
    groups: Vec<String>,
    /// Own addresses that are not used, and why not.
    unused: BTreeMap<String, String>,
    mtu: u16,
}

#[derive(Serialize)]
struct ShowInterfaces {
    interfaces: Vec<Shown>,
}

impl Shown {
    /// Writes an address of its own.
    fn write_own(&self, f: &mut fmt::Formatter<'_>, own: &str) -> fmt::Result {
        let address = own.split('/').next().unwrap_or(own);
        match self.unused.get(address) {
            Some(why) => writeln!(f, "    {own} [{why}]"),
            None => writeln!(f, "    {own}"),
        }
    }
}

impl fmt::Display for ShowInterfaces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for interface in &self.interfaces {
            writeln!(f, "{} is admin {}", interface.name, interface.state)?;
            writeln!(f, "  Link-local address(es):")?;
            interface.link_local.iter().try_for_each(|address| interface.write_own(f, address))?;
            if !interface.addresses.is_empty() {
                writeln!(f, "  Global unicast address(es):")?;
                interface.addresses.iter().try_for_each(|address| interface.write_own(f, address))?;
            }
            writeln!(f, "  Joined group address(es):")?;
            interface.groups.iter().try_for_each(|group| writeln!(f, "    {group}"))?;
            writeln!(f, "  MTU is {}", interface.mtu)?;
        }
        Ok(())
    }
}
