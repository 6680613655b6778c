//! Commands on the DHCP client, as VPP has them.

use super::control::{self, Client, State};
use super::{DhcpClients, DhcpError};
use command::{Args, Command, CommandError, CommandSet, Done, Reply, reply};
use graph::InterfaceIndex;
use router::Router;
use serde::Serialize;
use std::fmt;
use std::time::Instant;

pub fn register(set: &mut CommandSet<Router>) {
    set.section(
        "DHCP client",
        "An interface can get its address and a default route from a DHCP server (RFC 2131). See \
         [IPv4](ip4.md#dhcp-client).",
    );
    set.add(
        Command::new(
            "set dhcp client [del] intfc <interface:interface> [hostname <hostname:word>]",
            "Start the DHCP client of an interface, with an optional host name; or stop it and release the address.",
            set_client,
        )
        .configures()
        .example("set dhcp client intfc e0 hostname edge1")
        .example("set dhcp client del intfc e0"),
    );
    set.add(
        Command::new(
            "show dhcp client [intfc <interface:interface>]",
            "Show the DHCP clients and their leases.",
            show_clients,
        )
        .example("show dhcp client intfc e0"),
    );
}

fn set_client(router: &mut Router, args: &Args) -> Result<Box<dyn Reply>, CommandError> {
    let index = router.interfaces.find(args.text("interface")?)?;
    match args.flag("del") {
        true => control::remove_client(router, index)?,
        false => control::set_client(router, index, args.optional_text("hostname"))?,
    }
    reply(Done)
}

fn show_clients(router: &mut Router, args: &Args) -> Result<Box<dyn Reply>, CommandError> {
    let wanted = match args.optional_text("interface") {
        Some(name) => {
            let index = router.interfaces.find(name)?;
            router.state::<DhcpClients>().get(index).ok_or_else(|| DhcpError::NoClient(name.into()))?;
            Some(index)
        }
        None => None,
    };
    let clients =
        router.state::<DhcpClients>().iter().filter(|(index, _)| wanted.is_none_or(|wanted| wanted == *index));
    let clients = clients.map(|(index, client)| shown(router, index, client)).collect();
    reply(ShowClients { clients })
}

fn shown(router: &Router, index: InterfaceIndex, client: &Client) -> Shown {
    let now = Instant::now();
    let left = |at: Option<Instant>| at.map(|at| at.saturating_duration_since(now).as_secs());
    let lease = client.lease.as_ref();
    Shown {
        index: index.0,
        interface: router.interfaces.get(index).map_or_else(|_| "?".into(), |interface| interface.name.clone()),
        state: client.state.name(),
        hostname: client.hostname.clone(),
        address: lease.map(|lease| lease.prefix.to_string()),
        gateway: lease.and_then(|lease| lease.router).map(|router| router.to_string()),
        server: lease.map(|lease| lease.server.to_string()),
        dns: lease.into_iter().flat_map(|lease| lease.name_servers.iter().flatten()).map(ToString::to_string).collect(),
        renewal: left(lease.and_then(|lease| lease.renewal)),
        rebinding: left(lease.and_then(|lease| lease.rebinding)),
        expiry: left(lease.and_then(|lease| lease.expiry)),
        sent: client.sent,
        waits: client.state == State::Paused,
    }
}

#[derive(Serialize)]
struct Shown {
    index: u32,
    interface: String,
    state: &'static str,
    hostname: Option<String>,
    address: Option<String>,
    gateway: Option<String>,
    server: Option<String>,
    dns: Vec<String>,
    /// Seconds from now; none: never.
    renewal: Option<u64>,
    rebinding: Option<u64>,
    expiry: Option<u64>,
    /// Messages, since the client was set.
    sent: u64,
    /// For the link.
    waits: bool,
}

#[derive(Serialize)]
struct ShowClients {
    clients: Vec<Shown>,
}

impl fmt::Display for ShowClients {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.clients.is_empty() {
            return writeln!(f, "no interface has a DHCP client");
        }
        for client in &self.clients {
            write!(f, "[{}] {} state {}", client.index, client.interface, client.state)?;
            if let Some(hostname) = &client.hostname {
                write!(f, " hostname {hostname}")?;
            }
            if client.waits {
                f.write_str(" (link or interface is down)")?;
            }
            let Some(address) = &client.address else {
                writeln!(f, " no address")?;
                continue;
            };
            write!(f, " addr {address}")?;
            let named = [("gw", &client.gateway), ("server", &client.server)];
            for (name, value) in named {
                if let Some(value) = value {
                    write!(f, " {name} {value}")?;
                }
            }
            if !client.dns.is_empty() {
                write!(f, " dns {}", client.dns.join(","))?;
            }
            writeln!(f)?;
            match (client.renewal, client.rebinding, client.expiry) {
                (Some(renewal), Some(rebinding), Some(expiry)) => {
                    writeln!(f, "    renewal in {renewal} s, rebinding in {rebinding} s, expires in {expiry} s")?;
                }
                _ => writeln!(f, "    never expires")?,
            }
        }
        Ok(())
    }
}
