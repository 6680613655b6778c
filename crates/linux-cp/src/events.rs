//! What the reader of netlink says, as control hears it.

use crate::follow::{Event, Order};
use crate::from_linux::{self, Hint};
use crate::state::Pairs;
use crate::{audit, followed, vlan, vrf};
use router::Router;
use router::ip::bulk::Batch;
use router::ip::route::Source;
use std::net::{IpAddr, Ipv4Addr};

/// Control hears of the reader.
pub fn handle(router: &mut Router, event: Event) {
    match event {
        Event::Links { namespace, links, was_down, lost } => {
            let pairs = router.state::<Pairs>();
            let changed = links.into_iter().filter_map(|link| Some((pairs.with_link(&namespace, link)?, link)));
            let hint = |(phy, link)| Hint {
                phy,
                was_down: was_down.contains(&link),
                lost: lost.range(first_of(link)..).take_while(|(of, _)| *of == link).map(|(_, one)| *one).collect(),
            };
            let hints: Vec<Hint> = changed.map(hint).collect();
            vlan::end_gone(router, |router| from_linux::look(router, hints));
        }
        Event::Vlans { namespace, vlans } => vlan::found(router, &namespace, vlans),
        Event::Vrfs { namespace, vrfs } => vrf::found(router, &namespace, vrfs),
        Event::Neighbours(neighbours) => {
            for ((interface, address), standing) in neighbours {
                // The pair may be gone by now.
                if router.state::<Pairs>().of(interface).is_none_or(|pair| pair.link.is_none()) {
                    continue;
                }
                from_linux::neighbour(router, interface, address, standing);
                router.breathe();
            }
        }
        Event::Permanent { interfaces, neighbours } => {
            for interface in interfaces {
                let of_it = neighbours.iter().filter(|(of, _)| *of == interface);
                router.remove_found_neighbours(interface, &of_it.map(|(_, address)| *address).collect());
                router.breathe();
            }
        }
        Event::Routes(batches) => routes(router, batches),
        Event::Audit => confirm(router),
    }
}

/// Before all addresses of a link.
fn first_of(link: u32) -> (u32, IpAddr) {
    (link, IpAddr::V4(Ipv4Addr::UNSPECIFIED))
}

fn routes(router: &mut Router, batches: Vec<(u32, Batch)>) {
    let batches = followed::still_there(router, batches);
    let refused = match router.change_all_routes(Source::Linux, batches) {
        Ok(outcome) => Some(outcome.refused),
        Err(error) => {
            log::error!("routes of Linux are refused, and tried again: {error}");
            None
        }
    };
    if let Some(reader) = &router.state::<Pairs>().reader {
        reader.order(Order::Done(refused));
    }
    followed::drop_tables(router);
}

/// After lost messages: what differs still is set right.
fn confirm(router: &mut Router) {
    match audit::audit(router) {
        Ok(found) if found.differences == 0 => log::info!("messages of Linux were lost, and nothing is missing"),
        Ok(found) => {
            log::warn!("messages of Linux were lost: {} differences are set right", found.differences);
            audit::repair(router, &found);
        }
        Err(error) => log::warn!("messages of Linux were lost, and Linux cannot be read: {error}"),
    }
}
