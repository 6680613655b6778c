//! Commands on interfaces, as VPP has them.

use super::features::of_interfaces;
use super::{Interface, InterfaceConfig};
use crate::Router;
use crate::listing::{Keys, Listing};
use command::table::centred;
use command::{Args, Command, CommandError, CommandSet, Done, Reply, Text, fail, reply};
use drivers::input::Mode;
use graph::InterfaceIndex;
use graph::directory::Of;
use serde::{Serialize, Serializer};
use std::fmt;
use wire::Prefix;

type Answer = Result<Box<dyn Reply>, CommandError>;

pub fn register(set: &mut CommandSet<Router>) {
    set.section(
        "Interfaces",
        "Interfaces receive and send packets: TAP devices, interfaces of the host, sinks. A new interface is down. \
         It forwards packets when it is up and has an address.",
    );
    register_settings(set);
    register_queues(set);
    register_deletion(set);
    set.add(
        Command::new(
            "show interface [<interface:interface>] [{address|features : what}]",
            "Show interfaces: state, MTU and counters; or their addresses, or their features.",
            show_interface,
        )
        .also("show interface (<interface:interface> : more)+")
        .example("show interface e0"),
    );
    set.add(Command::new(
        "show interface address [<interface:interface>]",
        "Show interfaces with their addresses.",
        show_address,
    ));
    set.add(
        Command::new(
            "clear interfaces [<interface:interface>]",
            "Reset the counters of all interfaces, or of one.",
            |router: &mut Router, args: &Args| {
                let chosen: Vec<InterfaceIndex> = match args.optional_text("interface") {
                    Some(name) => vec![router.interfaces.find(name)?],
                    None => router.interfaces.iter().map(|interface| interface.index).collect(),
                };
                chosen.into_iter().for_each(|index| router.clear_interface_counters(index));
                reply(Done)
            },
        )
        .also("clear hardware-interfaces [{brief | verbose | detail}] [<interface:interface>]"),
    );
}

fn register_settings(set: &mut CommandSet<Router>) {
    set.add(
        Command::new(
            "set interface state <interface:interface> {up|down:state}",
            "Set an interface up or down.",
            |router: &mut Router, args: &Args| {
                let index = find(router, args)?;
                router.set_admin(index, args.text("state")? == "up")?;
                reply(Done)
            },
        )
        .configures()
        .example("set interface state e0 up"),
    );
    set.add(
        Command::new(
            "set interface ip address {del <interface:interface> {<prefix:prefix> | all : which} | \
             <interface:interface> <prefix:prefix> : what}",
            "Add an address to an interface, or remove one or all.",
            |router: &mut Router, args: &Args| {
                let index = find(router, args)?;
                match (args.text("what")? == "del", args.optional("prefix")?) {
                    (false, Some(Prefix::V4(prefix))) => router.add_address(index, prefix)?,
                    (false, Some(Prefix::V6(prefix))) => router.add_address6(index, prefix)?,
                    (true, Some(Prefix::V4(prefix))) => router.remove_address(index, prefix)?,
                    (true, Some(Prefix::V6(prefix))) => router.remove_address6(index, prefix)?,
                    (_, None) => {
                        router.remove_addresses(index)?;
                        router.remove_addresses6(index)?;
                    }
                }
                reply(Done)
            },
        )
        .configures()
        .example("set interface ip address e0 100.64.1.1/30")
        .example("set interface ip address del e0 100.64.1.1/30")
        .example("set interface ip address e0 2001:db8:0:1::2/64")
        .example("set interface ip address del e0 all"),
    );
    set.add(
        Command::new(
            "set interface unnumbered {del <interface:interface> | <interface:interface> use <lender:interface> : \
             what}",
            "Make an interface unnumbered: it uses the addresses of another (on point-to-point links). Or undo that.",
            |router: &mut Router, args: &Args| {
                let index = find(router, args)?;
                match args.optional_text("lender") {
                    Some(lender) => router.set_unnumbered(index, router.interfaces.find(lender)?)?,
                    None => router.reset_unnumbered(index)?,
                }
                reply(Done)
            },
        )
        .configures()
        .example("set interface unnumbered e0 use loop0")
        .example("set interface unnumbered del e0"),
    );
    set.add(
        Command::new(
            "set interface mtu [{packet|ip4|ip6|mpls : of}] {<mtu:u32 68..9216> | default : value} \
             <interface:interface>",
            "Set the MTU of an interface: of the link, of any protocol, of IPv4, of IPv6. The smallest applies.",
            |router: &mut Router, args: &Args| {
                let (index, mtu) = (find(router, args)?, args.optional("mtu")?);
                match (args.optional_text("of"), mtu) {
                    (Some("ip4"), mtu) => router.set_ip4_mtu(index, mtu)?,
                    (Some("ip6"), mtu) => router.set_ip6_mtu(index, mtu)?,
                    (Some("mpls"), mtu) => router.set_mpls_mtu(index, mtu)?,
                    (Some(_), Some(mtu)) => router.set_mtu(index, mtu)?,
                    (Some(_), None) => router.reset_mtu(index)?,
                    (None, mtu) => router.set_link_mtu(index, mtu)?,
                }
                router.mtu_advice(index)?.map_or_else(|| reply(Done), |advice| reply(Text(advice)))
            },
        )
        .configures()
        .example("set interface mtu 9000 e0")
        .example("set interface mtu packet 1500 e0")
        .example("set interface mtu ip4 1400 e0"),
    );
    set.add(
        Command::new(
            "set interface mac address <interface:interface> {<mac:mac> | default : value}",
            "Set the MAC address of an interface, or return to that of its device.",
            |router: &mut Router, args: &Args| {
                let index = find(router, args)?;
                match args.optional("mac")? {
                    Some(mac) => router.set_mac(index, mac)?,
                    None => router.reset_mac(index)?,
                }
                reply(Done)
            },
        )
        .configures()
        .example("set interface mac address e0 02:fe:00:00:00:01"),
    );
    set.add(
        Command::new(
            "set interface secondary-mac-address <interface:interface> <mac:mac> [{add|del : act}]",
            "Add or remove a secondary MAC address. The interface also receives frames for it.",
            |router: &mut Router, args: &Args| {
                let present = args.optional_text("act") != Some("del");
                router.set_secondary_mac(find(router, args)?, args.parse("mac")?, present)?;
                reply(Done)
            },
        )
        .configures()
        .example("set interface secondary-mac-address e0 00:00:5e:00:01:07")
        .example("set interface secondary-mac-address e0 00:00:5e:00:01:07 del"),
    );
    set.add(
        Command::new(
            "set interface promiscuous {on|off:state} <interface:interface>",
            "Receive every frame on the link, for captures and SPAN. Frames for other stations are not routed.",
            |router: &mut Router, args: &Args| {
                router.set_promiscuous(find(router, args)?, args.text("state")? == "on")?;
                reply(Done)
            },
        )
        .configures()
        .example("set interface promiscuous on e0"),
    );
    set.add(
        Command::new(
            "set interface name <interface:interface> <name:word>",
            "Rename an interface.",
            |router: &mut Router, args: &Args| {
                let index = find(router, args)?;
                router.rename_interface(index, args.text("name")?)?;
                reply(Done)
            },
        )
        .configures()
        .example("set interface name e0 uplink"),
    );
    set.add(
        Command::new(
            "set interface tag {del <interface:interface> | <interface:interface> <tag:word> : what}",
            "Set or remove the tag of an interface: a word of your own, at most 63 bytes, shown beside its name.",
            |router: &mut Router, args: &Args| {
                let index = find(router, args)?;
                let is_set = args.text("what")? != "del";
                router.set_tag(index, if is_set { Some(args.text("tag")?) } else { None })?;
                reply(Done)
            },
        )
        .configures()
        .example("set interface tag e0 transit-7")
        .example("set interface tag del e0"),
    );
}

fn register_queues(set: &mut CommandSet<Router>) {
    set.add(
        Command::new(
            "set interface rx-placement <interface:interface> [queue <queue:u32 0..255>] {worker <worker:u32> | \
             default : place}",
            "Choose the worker that polls a receive queue (queue 0 by default), or let the router choose the one \
             with the fewest queues. Workers are numbered from 0.",
            |router: &mut Router, args: &Args| {
                let (index, queue) = (find(router, args)?, args.optional("queue")?.unwrap_or(0));
                let worker = args.optional::<u32>("worker")?.map(|worker| worker as usize);
                router.place_receive_queue(index, queue, worker)?;
                reply(Done)
            },
        )
        .configures()
        .example("set interface rx-placement e0 worker 0")
        .example("set interface rx-placement e0 queue 1 worker 1"),
    );
    set.add(
        Command::new(
            "set interface rx-mode <interface:interface> [queue <queue:u32 0..255>] {polling|interrupt|adaptive : \
             mode}",
            "Set the mode of one receive queue, or of all: polled in every round; woken by an interrupt; or \
             adaptive, polled for a while after each interrupt. Adaptive is the default where the device can signal \
             packets.",
            |router: &mut Router, args: &Args| {
                let mode = match args.text("mode")? {
                    "polling" => Mode::Polling,
                    "interrupt" => Mode::Interrupt,
                    _ => Mode::Adaptive,
                };
                router.set_receive_mode(find(router, args)?, args.optional("queue")?, mode)?;
                reply(Done)
            },
        )
        .configures()
        .example("set interface rx-mode e0 polling")
        .example("set interface rx-mode e0 queue 1 interrupt"),
    );
}

fn register_deletion(set: &mut CommandSet<Router>) {
    set.add(
        Command::new(
            "delete interface <interface:interface>",
            "Remove an interface with its routes, neighbours and streams.",
            |router: &mut Router, args: &Args| {
                let index = find(router, args)?;
                router.delete_interface(index)?;
                reply(Done)
            },
        )
        .configures()
        .example("delete interface e0"),
    );
}

/// The interface that a command gives by name or by number.
fn find(router: &Router, args: &Args) -> Result<InterfaceIndex, CommandError> {
    Ok(match args.optional("index")? {
        Some(number) => router.interfaces.get(InterfaceIndex(number))?.index,
        None => router.interfaces.find(args.text("interface")?)?,
    })
}

/// Interfaces, page by page.
type Shown<T> = Listing<Keys<InterfaceIndex, T>>;

/// The interface that a command names, or all of them in the order of their names.
fn listed<T: Send + 'static>(
    router: &Router,
    args: &Args,
    show: fn(&Router, InterfaceIndex) -> Option<T>,
) -> Result<Shown<T>, CommandError> {
    let several: Result<Vec<InterfaceIndex>, crate::Error> =
        args.groups("more").map(|one| router.interfaces.find(one.text("interface").unwrap_or_default())).collect();
    let keys = match (several?, args.optional_text("interface")) {
        (several, _) if !several.is_empty() => several,
        (_, Some(name)) => vec![router.interfaces.find(name)?],
        (_, None) => {
            let mut all: Vec<&Interface> = router.interfaces.iter().collect();
            all.sort_by(|a, b| a.name.cmp(&b.name));
            all.into_iter().map(|interface| interface.index).collect()
        }
    };
    Ok(Listing::of_keys(router, keys, show))
}

/// Makes an interface and returns its name. Without a name it gets the default name of its kind.
pub fn create(router: &mut Router, name: Option<&str>, config: Box<dyn InterfaceConfig>) -> Answer {
    let name = name.map_or_else(|| config.default_name(router), str::to_string);
    router.create(&name, config)?;
    reply(Text(format!("{name}\n")))
}

/// `delete tap` and similar commands: each deletes interfaces of its own kind only, which it calls `what`.
pub fn delete_of<T: InterfaceConfig>(router: &mut Router, args: &Args, what: &str) -> Answer {
    let index = find(router, args)?;
    let interface = router.interfaces.get(index)?;
    if interface.options::<T>().is_none() {
        let (name, driver) = (&interface.name, interface.driver);
        return fail(format!("{name} is no {what} but of the driver {driver}: 'delete interface {name}' removes it"));
    }
    router.delete_interface(index)?;
    reply(Done)
}

fn show_interface(router: &mut Router, args: &Args) -> Answer {
    match args.optional_text("what") {
        Some("address") => return show_address(router, args),
        Some("features") => return of_interfaces(router, args.optional_text("interface")),
        _ => {}
    }
    router.check_links();
    reply(ShowInterface { interfaces: listed(router, args, shown_interface)? })
}

fn shown_interface(router: &Router, index: InterfaceIndex) -> Option<ShownInterface> {
    let (interface, at) = (router.interfaces.get(index).ok()?, index.0 as usize);
    let listed = router.graph.directory.of(Of::Interface);
    let counters = listed.flat_map(|listed| {
        let columns = listed.columns.iter().enumerate().filter(|(_, column)| column.is_shown);
        columns.map(|(word, column)| (column.name, listed.table.sum(at, word)))
    });
    Some(ShownInterface {
        name: interface.name.clone(),
        index: interface.index.0,
        state: if interface.admin_up { "up" } else { "down" },
        link: if router.interfaces.link_up(interface) { "up" } else { "down" },
        tag: interface.tag.clone(),
        mtu: interface.mtu,
        ip4_mtu: interface.mtus.ip4,
        ip6_mtu: interface.mtus.ip6,
        mpls_mtu: interface.mtus.mpls,
        counters: Counters(counters.collect()),
    })
}

fn show_address(router: &mut Router, args: &Args) -> Answer {
    reply(ShowAddress { interfaces: listed(router, args, shown_address)? })
}

fn shown_address(router: &Router, index: InterfaceIndex) -> Option<ShownAddress> {
    let interface = router.interfaces.get(index).ok()?;
    Some(ShownAddress {
        name: interface.name.clone(),
        state: if interface.admin_up { "up" } else { "dn" },
        unnumbered: interface.lender.and_then(|lender| Some(router.interfaces.get(lender).ok()?.name.clone())),
        addresses: router.interfaces.addresses_of(interface).iter().map(ToString::to_string).collect(),
        table: router.ip.id_of(interface.ip4.table),
        fib: interface.ip4.table.0,
        addresses6: interface.ip6.addresses.iter().map(ToString::to_string).collect(),
        link_local: interface.ip6.link_local.map(|address| address.to_string()),
        table6: router.ip.id_of(interface.ip6.table),
        fib6: interface.ip6.table.0,
    })
}

/// All counters of an interface, by name.
struct Counters(Vec<(&'static str, u64)>);

impl Serialize for Counters {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, count)| (name.replace(' ', "_"), count)))
    }
}

#[derive(Serialize)]
struct ShownInterface {
    name: String,
    index: u32,
    state: &'static str,
    link: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    tag: Option<String>,
    mtu: u16,
    /// None: the MTU of all protocols applies.
    ip4_mtu: Option<u16>,
    ip6_mtu: Option<u16>,
    mpls_mtu: Option<u16>,
    counters: Counters,
}

#[derive(Serialize)]
struct ShowInterface {
    interfaces: Shown<ShownInterface>,
}

impl fmt::Display for ShowInterface {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // VPP's columns, exactly.
        let (name, counter, count) = (centred("Name", 32), centred("Counter", 16), centred("Count", 16));
        let (index, state, mtu) = (centred("Idx", 5), centred("State", 10), "MTU (L3/IP4/IP6/MPLS)");
        writeln!(f, "{name}{index}{state}{mtu}{counter}{count}")?;
        self.interfaces.try_each(|interface| {
            let (index, state) = (centred(&interface.index.to_string(), 5), centred(interface.state, 10));
            let of = |mtu: Option<u16>| mtu.unwrap_or(0);
            let (ip4, ip6, mpls) = (of(interface.ip4_mtu), of(interface.ip6_mtu), of(interface.mpls_mtu));
            let mtus = format!("{}/{ip4}/{ip6}/{mpls}", interface.mtu);
            let mtu = centred(&mtus, 21);
            write!(f, "{:<32}{index}{state}{mtu}", interface.name)?;
            let mut indent = 0;
            for (name, count) in interface.counters.0.iter().filter(|(_, count)| *count > 0) {
                writeln!(f, "{:indent$}{name:<16}{count:>16}", "")?;
                indent = 68;
            }
            if indent == 0 {
                writeln!(f)?;
            }
            // The state is the administrative one; VPP's column has no place for the link.
            if interface.state == "up" && interface.link == "down" {
                writeln!(f, "  link down")?;
            }
            if let Some(tag) = &interface.tag {
                writeln!(f, "  tag {tag}")?;
            }
            Ok(())
        })
    }
}

#[derive(Serialize)]
struct ShownAddress {
    name: String,
    state: &'static str,
    /// The interface whose addresses it uses.
    #[serde(skip_serializing_if = "Option::is_none")]
    unnumbered: Option<String>,
    addresses: Vec<String>,
    table: u32,
    /// The table's index.
    fib: u16,
    /// The same for IPv6.
    addresses6: Vec<String>,
    link_local: Option<String>,
    table6: u32,
    fib6: u16,
}

#[derive(Serialize)]
struct ShowAddress {
    interfaces: Shown<ShownAddress>,
}

impl fmt::Display for ShowAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.interfaces.try_each(|interface| {
            writeln!(f, "{} ({}):", interface.name, interface.state)?;
            if let Some(lender) = &interface.unnumbered {
                writeln!(f, "  unnumbered, use {lender}")?;
            }
            for address in &interface.addresses {
                match interface.fib {
                    0 => writeln!(f, "  L3 {address}")?,
                    fib => writeln!(f, "  L3 {address} ip4 table-id {} fib-idx {fib}", interface.table)?,
                }
            }
            for address in &interface.addresses6 {
                match interface.fib6 {
                    0 => writeln!(f, "  L3 {address}")?,
                    fib => writeln!(f, "  L3 {address} ip6 table-id {} fib-idx {fib}", interface.table6)?,
                }
            }
            Ok(())
        })
    }
}
