//! What Linux says of routes and next-hop objects, as somebody would say it who is not Linux.

use graph::InterfaceIndex;
use linux_cp::{Kernel, Links, Messages};
use router::ip::route::{Path, TableIndex};
use std::collections::{BTreeMap, BTreeSet};
use wire::{Family, Prefix};

/// Of a byte in front of each datagram: what happens besides.
const LOOK: u8 = 1;
const LINK_DOWN: u8 = 2;
const HAND_OVER: u8 = 4;
/// The number of the main table (linux/rtnetlink.h).
const MAIN: u32 = 254;
/// That of a VRF.
const VRF: u32 = 10;
/// It comes from a routing daemon, in frames, and not from Linux.
const FRAMES: u8 = 8;

pub fn run(input: &[u8]) {
    let links = Links::from([(7, InterfaceIndex(1)), (8, InterfaceIndex(2))]);
    let (mut kernel, mut router) = (Kernel::default(), BTreeMap::new());
    let vrf = Family::ALL.map(|family| ((VRF, family), TableIndex(3)));
    let main = Family::ALL.map(|family| ((MAIN, family), TableIndex::DEFAULT));
    kernel.follow(&main.into_iter().chain(vrf).collect());
    kernel.set_vrf(9, Some(VRF));
    let mut rest = input;
    while let Some((&[what, length], after)) = rest.split_first_chunk::<2>() {
        let (datagram, after) = after.split_at(usize::from(length).min(after.len()));
        rest = after;
        if what & FRAMES != 0 {
            frames(&mut kernel, datagram);
            continue;
        }
        if what & LOOK != 0 {
            kernel.begin_look();
        }
        for message in Messages(datagram).flatten() {
            let _ = kernel.hear(&message, what & LOOK != 0);
            let _ = linux_cp::parse_link(message.payload);
        }
        if what & LOOK != 0 {
            for family in Family::ALL {
                kernel.end_look(family);
            }
            kernel.finish_look();
        }
        if what & LINK_DOWN != 0 {
            kernel.links_down(&BTreeSet::from([7]));
        }
        if what & HAND_OVER != 0 {
            hand_over(&mut kernel, &links, &mut router, 3);
        }
    }
    kernel.links_changed(&BTreeSet::from([7, 8]));
    while kernel.backlog() > 0 {
        hand_over(&mut kernel, &links, &mut router, 1000);
    }
    let mut should = BTreeMap::new();
    for (table, family) in [MAIN, VRF].into_iter().flat_map(|table| Family::ALL.map(|family| (table, family))) {
        let wanted = kernel.wanted(table, family, &links);
        let routes = wanted.prefixes().filter_map(|prefix| Some(((table, prefix), wanted.paths(prefix)?.to_vec())));
        should.extend(routes);
    }
    assert_eq!(router, should, "the router has what Linux has");
}

fn frames(kernel: &mut Kernel, mut bytes: &[u8]) {
    while let Ok(Some((messages, length))) = linux_cp::first_frame(bytes) {
        bytes = &bytes[length..];
        for message in Messages(messages).flatten() {
            let _ = kernel.put_alone(message.payload);
            let _ = kernel.remove_all(message.payload).is_ok_and(|_| kernel.put_alone(message.payload).is_ok());
        }
    }
}

fn hand_over(kernel: &mut Kernel, links: &Links, router: &mut BTreeMap<(u32, Prefix), Vec<Path>>, most: usize) {
    let (batches, _) = kernel.take(links, most);
    let changes = batches.iter().flat_map(|(table, batch)| batch.iter().map(move |change| (*table, change)));
    for (table, (prefix, paths)) in changes {
        match paths {
            Some(paths) => router.insert((table, prefix), paths.to_vec()),
            None => router.remove(&(table, prefix)),
        };
    }
}
