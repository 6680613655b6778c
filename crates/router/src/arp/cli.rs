//! Commands on neighbours, as VPP has them.

use super::NeighbourKey;
use super::control::State;
use crate::Router;
use command::table::centred;
use command::{Args, Command, CommandError, CommandSet, Done, Reply, reply};
use serde::Serialize;
use std::fmt;

pub fn register(set: &mut CommandSet<Router>) {
    set.section(
        "Neighbours",
        "Who is on the wire: learned by ARP, or told. Flags in listings: `S` static, `D` learned, `P` being asked again, \
         `I` not answered yet.",
    );
    for path in ["ip neighbor", "set ip neighbor"] {
        set.add(Command::new(
            &format!("{path} {{del <interface:interface> <address:ip4> [<mac:mac>] | [static] <interface:interface> <address:ip4> <mac:mac> [static] : what}}"),
            "Make a neighbour known, or forget it.",
            set_neighbour,
        )
.configures()
.example(&format!("{path} e0 100.64.1.2 50:7c:6f:20:30:70")));
    }
    for path in ["show ip neighbors", "show ip4 neighbors", "show arp"] {
        set.add(Command::new(
            &format!("{path} [<interface:interface>]"),
            "The neighbours of interfaces.",
            show_neighbours,
        ));
    }
}

fn set_neighbour(router: &mut Router, args: &Args) -> Result<Box<dyn Reply>, CommandError> {
    let interface = router.interfaces.find(args.text("interface")?)?;
    let key = NeighbourKey { interface, address: args.parse("address")? };
    if args.text("what")? == "del" {
        router.remove_neighbour(key)?;
    } else {
        router.set_neighbour(key, args.parse("mac")?, true)?;
    }
    reply(Done)
}

fn show_neighbours(router: &mut Router, args: &Args) -> Result<Box<dyn Reply>, CommandError> {
    let only = args.optional_text("interface").map(|name| router.interfaces.find(name)).transpose()?;
    let wanted = router.neighbours.iter().filter(|(key, _)| only.is_none_or(|index| index == key.interface));
    let neighbours = wanted.map(|(key, neighbour)| {
        let (flags, mac) = match neighbour.state {
            State::Known { mac, is_static: true } => ("S", mac.to_string()),
            State::Known { mac, .. } => ("D", mac.to_string()),
            State::Probing { mac, .. } => ("DP", mac.to_string()),
            State::Incomplete { .. } => ("I", "incomplete".into()),
        };
        ShownNeighbour {
            age: neighbour.since.elapsed().as_secs_f64(),
            ip: key.address.to_string(),
            flags,
            mac,
            interface: router.interfaces.get(key.interface).map_or("?".into(), |interface| interface.name.clone()),
        }
    });
    reply(ShowNeighbours { neighbors: neighbours.collect() })
}

#[derive(Serialize)]
struct ShownNeighbour {
    /// Seconds since it was last heard of, or made known.
    age: f64,
    ip: String,
    flags: &'static str,
    mac: String,
    interface: String,
}

#[derive(Serialize)]
struct ShowNeighbours {
    neighbors: Vec<ShownNeighbour>,
}

impl fmt::Display for ShowNeighbours {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // VPP's columns, to the space.
        writeln!(
            f,
            "     Age                       IP                    Flags      Ethernet              Interface       "
        )?;
        for n in &self.neighbors {
            let (ip, flags, mac) = (centred(&n.ip, 40), centred(n.flags, 6), centred(&n.mac, 20));
            writeln!(f, "{:>12.4}{ip}{flags}{mac}{}", n.age, n.interface)?;
        }
        Ok(())
    }
}
