//! Local delivery: which node of this router takes a packet that is for the router. The same for both families.
//!
//! `ip4-local` and `ip6-local` distinguish protocols. UDP continues by its port: capabilities register nodes for ports
//! ([`listen_udp`]). Packets that no node takes go to `ip4-punt` or `ip6-punt`. If the host does not
//! want them either, the router answers: TCP with a reset, other packets with an ICMP error.

pub mod cli;
pub mod control;
mod reset;
mod tcp_reset;
mod transport;
mod udp;

pub use control::{UdpListeners, listen_udp, unlisten_udp};
pub(crate) use udp::PortTable;
pub use udp::{DatagramAt, datagram_at};

use graph::Behaviour;
use router::Error;
use router::by_family::ByFamily;
use router::capability::{Chapter, Description, Stage, Starting};
pub use router::reply::policy::Policy;
use tcp_reset::TcpReset;
use udp::UdpLookup;
use wire::Family;

pub const CAPABILITY: Description = Description {
    name: "local",
    codes: &[control::LocalError::CODES],
    description: "Local delivery: UDP ports, TCP resets",
    start,
    nodes: &[udp::NAME4, tcp_reset::NAME4, udp::NAME6, tcp_reset::NAME6],
    commands: cli::register,
    chapters: &[
        Chapter {
            stage: Stage::Local,
            title: "UDP and TCP",
            about: "Datagrams and segments to this router itself.",
            nodes: &[udp::NAME4, tcp_reset::NAME4],
        },
        Chapter { stage: Stage::Network, title: "IPv6", about: "", nodes: &[udp::NAME6, tcp_reset::NAME6] },
    ],
    ..Description::NONE
};

fn start(starting: &mut Starting<'_>) -> Result<(), Error> {
    let (policy, ports) = (starting.shared::<Policy>(), starting.shared::<PortTable>());
    let Starting { graph, core, .. } = starting;
    let shared = ports.clone();
    let mut register = |family: Family| {
        let (policy, view) = (policy.clone(), core.view.clone());
        let reset = move || TcpReset::new(family, policy.clone(), view.clone());
        graph.register(tcp_reset::spec(family), move |_| Behaviour::Map(Box::new(reset())))?;
        let ports = shared.clone();
        let lookup = move || UdpLookup::new(family, ports.clone());
        graph.register(udp::spec(family), move |_| Behaviour::Map(Box::new(lookup())))
    };
    let nodes = ByFamily { ip4: register(Family::Ip4)?, ip6: register(Family::Ip6)? };
    starting.own(UdpListeners::new(nodes, ports));
    Ok(())
}
