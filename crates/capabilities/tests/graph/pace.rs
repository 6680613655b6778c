//! Commands that take long are done in pieces: how often others could be answered meanwhile is counted, not how long
//! that took.

use crate::bed::Bed;
use features::config;
use router::Router;
use router::ip::bulk::Batch;
use router::ip::control::{Path, PathAction, Source, TableIndex};
use router::neighbour::NeighbourKey;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::sync_channel;
use std::thread;
use std::time::Duration;
use wire::{Family, MacAddress, Prefix};

/// More than are changed in one piece, several times.
const MANY: u32 = 40_000;
/// So many pieces at least, of 8192 prefixes each.
const PIECES: usize = 4;

/// Counts how often others could be answered in what is done with the router, and has each look at it.
fn breaths_with(bed: &mut Bed, mut look: impl FnMut(&Router) + Send + 'static, act: impl FnOnce(&mut Bed)) -> usize {
    let breaths = Arc::new(AtomicUsize::new(0));
    let count = breaths.clone();
    bed.router.pace.set_piece(Duration::ZERO);
    bed.router.pace.set_between(move |router| {
        count.fetch_add(1, Ordering::Relaxed);
        look(router);
    });
    act(bed);
    bed.router.pace.set_piece(Duration::MAX);
    assert_eq!(bed.router.ip.audit(), Ok(()));
    breaths.load(Ordering::Relaxed)
}

fn breaths(bed: &mut Bed, act: impl FnOnce(&mut Bed)) -> usize {
    breaths_with(bed, |_| {}, act)
}

fn hop(family: Family) -> &'static str {
    match family {
        Family::Ip4 => "10.0.1.2",
        Family::Ip6 => "2001:db8:1::2",
    }
}

/// Prefixes of some length side by side, from a /8 or a /16 on.
fn prefix(family: Family, number: u32) -> Prefix {
    match family {
        Family::Ip4 => format!("{}.{}.{}.0/24", 50 + (number >> 16), number >> 8 & 255, number & 255).parse().unwrap(),
        // Each in a /32 of its own.
        Family::Ip6 => format!("2a{:02x}:{:x}::/48", number >> 16, number & 0xffff).parse().unwrap(),
    }
}

fn with_address6() -> Bed {
    let (mut bed, _) = Bed::with_three_ports();
    bed.command("set interface ip address e1 2001:db8:1::1/64").unwrap();
    bed
}

fn all(family: Family, count: u32, table: TableIndex) -> Batch {
    let mut batch = Batch::new(family, table);
    let paths =
        batch.paths(vec![Path::new(PathAction::Via { next_hop: hop(family).parse().unwrap(), interface: None })]);
    (0..count).for_each(|number| batch.put(prefix(family, number), paths));
    batch
}

fn change(bed: &mut Bed, batch: Batch) {
    bed.router.change_routes(Source::Api, batch).unwrap();
}

#[test]
fn a_batch_of_many_routes_is_merged_in_pieces() {
    for family in Family::ALL {
        let mut bed = with_address6();
        let few = breaths(&mut bed, |bed| change(bed, all(family, 100, TableIndex::DEFAULT)));
        let many = breaths(&mut bed, |bed| change(bed, all(family, MANY, TableIndex::DEFAULT)));
        assert!(many >= few + PIECES, "{family:?}: {many} breaths, {few} of few routes");
    }
}

#[test]
fn a_list_that_many_routes_have_is_repainted_in_pieces() {
    for family in Family::ALL {
        let link =
            |bed: &mut Bed, state: &str| bed.command(&format!("set interface state e1 {state}")).map(drop).unwrap();
        let mut bed = with_address6();
        change(&mut bed, all(family, 100, TableIndex::DEFAULT));
        let few = breaths(&mut bed, |bed| link(bed, "down"));
        let few_back = breaths(&mut bed, |bed| link(bed, "up"));
        change(&mut bed, all(family, MANY, TableIndex::DEFAULT));
        let leads = |router: &Router| router.ip.routes_in(family, TableIndex::DEFAULT).get(prefix(family, 7)).unwrap();
        assert!(leads(&bed.router).installed.is_some());
        let many = breaths(&mut bed, |bed| link(bed, "down"));
        assert!(many >= few + PIECES, "{family:?}: {many} breaths, {few} of few routes");
        assert!(leads(&bed.router).installed.is_none());
        let back = breaths(&mut bed, |bed| link(bed, "up"));
        assert!(
            back >= few_back + PIECES,
            "{family:?}: {back} breaths when the link comes back, {few_back} of few routes"
        );
    }
}

/// What is done for each neighbour of an interface.
#[test]
fn what_all_neighbours_feel_is_done_in_pieces() {
    const NEIGHBOURS: u32 = 10_000;
    let mut bed = with_address6();
    bed.command("set interface ip address e1 16.0.0.1/8").unwrap();
    for family in ["ip4", "ip6"] {
        bed.command(&format!("set ip neighbor-config {family} limit 100000 interface-limit 100000")).unwrap();
    }
    let index = bed.router.interfaces.find("e1").unwrap();
    let set = |bed: &mut Bed, learned: bool| {
        for number in 2..NEIGHBOURS {
            let [_, high, middle, low] = number.to_be_bytes();
            let mac = MacAddress([2, 0, 0, high, middle, low]);
            let addresses =
                [format!("16.{high}.{middle}.{low}"), format!("2001:db8:1::{high:x}:{middle:02x}{low:02x}")];
            for address in addresses {
                let key = NeighbourKey { interface: index, address: address.parse().unwrap() };
                bed.router.set_neighbour(key, mac, !learned).unwrap();
            }
        }
    };
    type Act = fn(&mut Bed);
    let acts: [(&str, bool, Act); 5] = [
        ("limits", true, |bed| bed.command("set ip neighbor-config ip4 age 100").map(drop).unwrap()),
        ("an address goes", true, |bed| bed.command("set interface ip address del e1 16.0.0.1/8").map(drop).unwrap()),
        ("link down", true, |bed| bed.command("set interface state e1 down").map(drop).unwrap()),
        ("mtu", false, |bed| bed.command("set interface mtu packet 1400 e1").map(drop).unwrap()),
        ("deletion", false, |bed| bed.command("delete interface e1").map(drop).unwrap()),
    ];
    for (what, learned, act) in acts {
        set(&mut bed, learned);
        let breaths = breaths(&mut bed, act);
        assert!(breaths >= NEIGHBOURS as usize - 2, "{what}: {breaths} breaths");
    }
}

#[test]
fn the_default_route_goes_last_and_comes_first() {
    for family in Family::ALL {
        let default = Prefix::new(family.unspecified(), 0).unwrap();
        let routes = move |router: &Router| {
            let routes = router.ip.routes_in(family, TableIndex::DEFAULT);
            (routes.contains_key(default), routes.contains_key(prefix(family, 0)))
        };
        let never_without = move |router: &Router| {
            let (has_default, has_another) = routes(router);
            assert!(has_default || !has_another, "{family:?}: routes and no default route");
        };
        let mut bed = with_address6();
        let mut batch = all(family, MANY, TableIndex::DEFAULT);
        let paths = batch.paths(vec![Path::new(PathAction::Drop)]);
        batch.put(default, paths);
        breaths_with(&mut bed, never_without, |bed| change(bed, batch));
        assert_eq!(routes(&bed.router), (true, true));
        let mut gone = Batch::new(family, TableIndex::DEFAULT);
        gone.remove(default);
        (0..MANY).rev().for_each(|number| gone.remove(prefix(family, number)));
        breaths_with(&mut bed, never_without, |bed| change(bed, gone));
        assert_eq!(routes(&bed.router), (false, false));
    }
}

#[test]
fn a_table_of_many_routes_goes_in_pieces() {
    for (family, word) in Family::ALL.into_iter().zip(["ip", "ip6"]) {
        let mut bed = with_address6();
        let mut removal = |count: u32| {
            bed.command(&format!("{word} table add 7")).unwrap();
            let table = bed.router.find_table(family, 7).unwrap();
            let mut batch = Batch::new(family, table);
            let paths = batch.paths(vec![Path::new(PathAction::Drop)]);
            (0..count).for_each(|number| batch.put(prefix(family, number), paths));
            change(&mut bed, batch);
            breaths(&mut bed, |bed| bed.command(&format!("{word} table del 7")).map(drop).unwrap())
        };
        let (few, many) = (removal(100), removal(MANY));
        assert!(many >= few + PIECES, "{family:?}: {many} breaths, {few} of few routes");
    }
}

#[test]
fn a_configuration_of_many_routes_is_collected_in_pieces() {
    let mut bed = with_address6();
    let few = breaths(&mut bed, |bed| drop(config::compare_config(&mut bed.router, &[]).unwrap()));
    let batch = all(Family::Ip4, MANY, TableIndex::DEFAULT);
    bed.router.change_routes(Source::Config, batch).unwrap();
    let mut stated = Vec::new();
    let many = breaths(&mut bed, |bed| stated = config::compare_config(&mut bed.router, &[]).unwrap().removed);
    assert!(many >= few + PIECES, "{many} breaths, {few} of few routes");
    assert_eq!(stated.iter().filter(|line| line.starts_with("ip route add 5")).count(), MANY as usize);
    let file = std::env::temp_dir().join(format!("pieces-{}.conf", std::process::id()));
    let many = breaths(&mut bed, |bed| drop(config::save_config(&mut bed.router, Some(&file), false).unwrap()));
    assert!(many >= few + PIECES, "{many} breaths, {few} of few routes");
    let saved = std::fs::read_to_string(&file).unwrap();
    std::fs::remove_file(&file).unwrap();
    assert_eq!(saved.lines().filter(|line| line.starts_with("ip route add 5")).count(), MANY as usize);
}

#[test]
fn others_are_answered_between_pieces_and_not_within_one() {
    let (mut bed, _) = Bed::with_three_ports();
    let router = &mut bed.router;
    let looks = Arc::new(AtomicUsize::new(0));
    let count = looks.clone();
    router.pace.set_between(move |router| {
        count.fetch_add(1, Ordering::Relaxed);
        router.breathe();
    });
    router.pace.begin("ip route add");
    router.breathe();
    assert_eq!(looks.load(Ordering::Relaxed), 0, "the first piece has just begun");
    router.pace.set_piece(Duration::ZERO);
    (0..3).for_each(|_| router.breathe());
    assert_eq!(looks.load(Ordering::Relaxed), 3, "a look does not begin another");
    let doing = router.pace.status.doing().unwrap();
    assert_eq!((&*doing.what, doing.pieces), ("ip route add", 3));
    router.pace.end();
    assert!(router.pace.status.doing().is_none());
}

#[test]
fn others_are_answered_while_work_is_done_aside() {
    let (mut bed, _) = Bed::with_three_ports();
    let router = &mut bed.router;
    assert_eq!(router.aside(|| thread::current().id()), thread::current().id(), "no one waits for an answer");
    // The work goes on when three have been answered: it would wait for ever if it were done here.
    let (look, looked) = sync_channel(3);
    router.pace.set_piece(Duration::ZERO);
    router.pace.set_between(move |_| {
        let _ = look.try_send(());
    });
    router.pace.begin("load");
    let patience = Duration::from_secs(60);
    let answered =
        router.aside(move || (0..3).map(|_| looked.recv_timeout(patience).is_ok()).filter(|came| *came).count());
    assert_eq!(answered, 3);
    let panics = std::panic::AssertUnwindSafe(|| router.aside(|| -> () { panic!("a defect") }));
    assert!(std::panic::catch_unwind(panics).is_err(), "what panics there panics here");
}
