//! Notices: who follows a router hears what happened to its interfaces, in order, and sees a router that is in order.

use crate::bed::Bed;
use crossbeam_channel::Receiver;
use devices::null::Null;
use drivers::{Device, Link};
use features::config;
use graph::{InterfaceIndex, PerInterface};
use router::capability::{Description, Heard, Notice, Wants};
use router::ip::bulk::Batch;
use router::ip::control::{Path, PathAction, Source, TableIndex};
use router::neighbour::NeighbourKey;
use router::{Options, Router};
use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use wire::{Family, Prefix, Prefix4};

fn heard(follower: &Receiver<Heard>) -> Vec<Heard> {
    follower.try_iter().collect()
}

/// What was heard, with the numbers checked: one follows the other.
fn notices(follower: &Receiver<Heard>, last: &mut u64) -> Vec<Notice> {
    let unwrap = |heard| match heard {
        Heard::Notice(said) => {
            *last += 1;
            assert_eq!(said.number, *last);
            said.notice.clone()
        }
        Heard::Lost => panic!("a follower with room lost something"),
    };
    heard(follower).into_iter().map(unwrap).collect()
}

#[test]
fn what_happens_to_an_interface_is_heard_in_order() {
    let mut bed = Bed::new();
    let (mut last, follower) = bed.router.follow(100, Wants::NONE);
    let mut run = |line: &str| {
        bed.command(line).unwrap_or_else(|error| panic!("{line}: {error}"));
        let index = bed.router.interfaces.find("loop0").or_else(|_| bed.router.interfaces.find("it"));
        (index.unwrap_or(InterfaceIndex(0)), notices(&follower, &mut last))
    };
    let (interface, said) = run("create loopback interface instance 0");
    assert_eq!(said, [Notice::Created(interface)]);
    let states = |up| [Notice::AdminState { interface, up }, Notice::State { interface, up }];
    assert_eq!(run("set interface state loop0 up").1, states(true));
    let address = "192.0.2.1/24".parse().unwrap();
    assert_eq!(run("set interface ip address loop0 192.0.2.1/24").1, [Notice::AddressAdded { interface, address }]);
    assert_eq!(run("set interface mtu packet 1400 loop0").1, [Notice::Mtu(interface)]);
    assert_eq!(run("set interface mac address loop0 02:00:00:00:00:99").1, [Notice::Mac(interface)]);
    let renamed = Notice::Renamed { interface, before: "loop0".into() };
    assert_eq!(run("set interface name loop0 it").1, [renamed]);
    assert_eq!(run("set interface state it up").1, [], "it is up already");
    let [first, second] = states(false);
    let gone = [
        first,
        second,
        Notice::Leaving(interface),
        Notice::AddressRemoved { interface, address },
        Notice::Gone { interface, name: "it".into() },
    ];
    let (_, said) = run("delete loopback interface intfc it");
    // An address is there until everybody has heard that the interface leaves; that it went is heard before its end.
    assert_eq!(said.iter().filter(|said| !matches!(said, Notice::AddressRemoved { .. })).count(), 4, "{said:?}");
    assert!(gone.iter().all(|notice| said.contains(notice)), "{said:?}");
    assert_eq!(said.last(), gone.last());
}

#[test]
fn sub_interfaces_go_before_what_they_lie_on() {
    let mut bed = Bed::new();
    let parent = bed.port("e0", &[]).index;
    for id in 1..=3 {
        bed.command(&format!("create sub-interfaces e0 {id}")).unwrap();
    }
    let subs: Vec<InterfaceIndex> = bed.router.interfaces.sub_interfaces_of(parent).map(|sub| sub.index).collect();
    let (mut last, follower) = bed.router.follow(100, Wants::NONE);
    bed.router.delete_interface(parent).unwrap();
    let said = notices(&follower, &mut last);
    let leaving: Vec<InterfaceIndex> = said
        .iter()
        .filter_map(|said| match said {
            Notice::Leaving(index) => Some(*index),
            _ => None,
        })
        .collect();
    let gone: Vec<InterfaceIndex> = said
        .iter()
        .filter_map(|said| match said {
            Notice::Gone { interface, .. } => Some(*interface),
            _ => None,
        })
        .collect();
    assert_eq!(leaving, [&subs[..], &[parent]].concat());
    assert_eq!(gone.last(), Some(&parent));
    assert_eq!(gone.len(), 4);
}

#[test]
fn a_follower_without_room_hears_that_it_lost_something() {
    let mut bed = Bed::new();
    let (_, slow) = bed.router.follow(2, Wants::NONE);
    let (_, gone) = bed.router.follow(2, Wants::NONE);
    drop(gone);
    for _ in 0..4 {
        bed.command("create loopback interface").unwrap();
    }
    let said = heard(&slow);
    assert!(matches!(&said[..], [Heard::Notice(_), Heard::Notice(_), Heard::Lost]), "{said:?}");
    assert!(slow.recv().is_err(), "nothing comes after the loss");
    let (mut last, again) = bed.router.follow(1, Wants::NONE);
    bed.command("set interface tag loop0 uplink").unwrap();
    assert_eq!(notices(&again, &mut last), [], "nobody hears of tags");
    let interface = bed.router.interfaces.find("loop0").unwrap();
    bed.command("set interface mtu packet 1400 loop0").unwrap();
    assert_eq!(notices(&again, &mut last), [Notice::Mtu(interface)], "the numbers go on from where it began");
}

/// The link of a device that refuses to go down.
struct Stubborn;

impl Link for Stubborn {
    fn is_up(&self) -> bool {
        true
    }

    fn set_admin(&mut self, up: bool) -> io::Result<()> {
        if up { Ok(()) } else { Err(io::Error::other("it does not go down")) }
    }
}

#[test]
fn an_interface_whose_deletion_fails_stays_whole() {
    let mut bed = Bed::new();
    let device = Device { link: Box::new(Stubborn), ..drivers::null::open(0) };
    let parent = bed.router.create_interface("e0", device).unwrap();
    bed.router.set_admin(parent, true).unwrap();
    let (mut last, follower) = bed.router.follow(100, Wants::NONE);
    assert!(bed.router.delete_interface(parent).is_err());
    let said = notices(&follower, &mut last);
    assert!(!said.iter().any(|said| matches!(said, Notice::Leaving(_) | Notice::Gone { .. })), "{said:?}");
    // Nothing of it is left to be done by another operation.
    bed.command("create loopback interface").unwrap();
    assert_eq!(bed.router.interfaces.find("e0").unwrap(), parent);
}

/// Whoever follows and looks at what is named knows all routes at any time.
#[test]
fn a_copy_of_the_routes_stays_the_same() {
    let (mut bed, _) = Bed::with_three_ports();
    let (mut last, follower) = bed.router.follow(10_000, Wants::ALL);
    let (_, deaf) = bed.router.follow(10_000, Wants::NONE);
    let all = |router: &Router, family| -> BTreeSet<Prefix> {
        router.ip.routes_in(family, TableIndex::DEFAULT).keys().collect()
    };
    let mut copy = Family::ALL.map(|family| all(&bed.router, family));
    for line in [
        "ip route add 198.51.0.0/16 via 10.0.0.9",
        "ip route add 198.51.0.0/16 via 10.0.1.9",
        "ip route add 20.0.0.0/24 count 500 via 10.0.0.9",
        "ip route del 20.0.0.0/24 count 100 via 10.0.0.9",
        "set interface ip address e2 203.0.113.1/24",
        "set interface ip address e2 2001:db8:77::1/64",
        "ip route add 2001:db8:88::/48 via 2001:db8:77::9 e2",
        "set ip neighbor e0 10.0.0.77 02:00:00:00:00:77",
        "set interface ip address del e2 203.0.113.1/24",
        "set ip neighbor del e0 10.0.0.77 02:00:00:00:00:77",
        "batch put",
        "batch remove",
        "set ip table max-routes 1000",
        "refused ip route add 60.0.0.0/24 count 500 via 10.0.0.9",
        "set interface state e0 down",
        "delete interface e2",
    ] {
        match line.strip_prefix("batch ") {
            None if line.starts_with("refused ") => {
                let error = bed.command(&line["refused ".len()..]).unwrap_err().to_string();
                assert!(error.contains("max-routes"), "{error}");
            }
            None => drop(bed.command(line).unwrap_or_else(|error| panic!("{line}: {error}"))),
            Some(what) => {
                let mut batch = Batch::default();
                let path = batch.paths(vec![Path::new(PathAction::Drop)]);
                let prefixes =
                    (0..700).map(|n| Prefix4::new(Ipv4Addr::new(40, (n >> 8) as u8, n as u8, 0), 24).unwrap());
                match what {
                    "put" => prefixes.for_each(|prefix| batch.put(prefix, path)),
                    _ => prefixes.step_by(2).for_each(|prefix| batch.remove(prefix)),
                }
                bed.router.change_routes(Source::Api, batch).unwrap();
            }
        }
        let mut said = 0;
        for notice in notices(&follower, &mut last) {
            let Notice::Routes { family, table, prefixes, .. } = notice else { continue };
            assert_eq!(table, TableIndex::DEFAULT);
            for prefix in prefixes.expect("few").iter() {
                let routes = bed.router.ip.routes_in(family, table);
                match routes.contains_key(*prefix) {
                    true => copy[family as usize].insert(*prefix),
                    false => copy[family as usize].remove(prefix),
                };
                said += 1;
            }
        }
        assert_eq!(copy, Family::ALL.map(|family| all(&bed.router, family)), "{line}");
        let changes_none = line.contains("state e0") || line.contains("max-routes");
        assert_eq!(said > 0, !changes_none, "{line}: {said}");
    }
    let is_of_routes =
        |heard: &Heard| matches!(heard, Heard::Notice(said) if matches!(said.notice, Notice::Routes { .. }));
    assert!(!heard(&deaf).iter().any(is_of_routes));
}

#[test]
fn a_neighbour_is_heard_of_when_it_comes_moves_and_goes() {
    let (mut bed, [e0, ..]) = Bed::with_three_ports();
    let (mut last, follower) = bed.router.follow(100, Wants { neighbours: true, ..Wants::NONE });
    let key = NeighbourKey::new(e0.index, "10.0.0.77".parse::<IpAddr>().unwrap());
    for (line, said) in [
        ("set ip neighbor e0 10.0.0.77 02:00:00:00:00:77", 1),
        ("set ip neighbor e0 10.0.0.77 02:00:00:00:00:77", 0),
        ("set ip neighbor e0 10.0.0.77 02:00:00:00:00:78", 1),
        ("set ip neighbor del e0 10.0.0.77 02:00:00:00:00:78", 1),
    ] {
        bed.command(line).unwrap();
        assert_eq!(notices(&follower, &mut last), vec![Notice::Neighbour(key); said], "{line}");
    }
}

#[test]
fn a_loaded_configuration_is_heard_of_once() {
    let mut bed = Bed::new();
    let wanted = config::running_config(&bed.router);
    bed.command("create loopback interface").unwrap();
    let (mut last, follower) = bed.router.follow(100, Wants::NONE);
    config::load_config(&mut bed.router, &wanted, None).unwrap();
    let said = notices(&follower, &mut last);
    assert_eq!(said.iter().filter(|notice| **notice == Notice::Committed).count(), 1);
    assert_eq!(said.last(), Some(&Notice::Committed));
}

/// A capability that publishes a number of single interfaces.
struct Published(PerInterface<u32>);

const PUBLISHES: Description = Description {
    name: "publishes",
    start: |starting| {
        let values = starting.per_interface();
        starting.own(Published(values));
        Ok(())
    },
    ..Description::NONE
};

#[test]
fn what_is_published_of_an_interface_goes_with_it() {
    let list = [quiver_capabilities::CAPABILITIES, &[&PUBLISHES]].concat().leak();
    let options = Options { buffers: 1024, huge_pages: false, ..Options::default() };
    let mut router = Router::with(options, list).unwrap();
    let [gone, stays] = ["a", "b"].map(|name| router.create(name, Box::new(Null)).unwrap());
    let values = router.state::<Published>().0.clone();
    values.set(gone, Some(1));
    values.set(stays, Some(2));
    router.delete_interface(gone).unwrap();
    let mut reader = router.graph.domain().register().unwrap();
    let round = reader.round();
    assert_eq!((values.get(&round, gone), values.get(&round, stays)), (None, Some(&2)));
}

#[test]
#[should_panic(expected = "no capability owns a ")]
fn state_that_nobody_owns_is_named() {
    Bed::new().router.state::<u128>();
}
