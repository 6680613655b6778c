//! Long listings are sent page by page, as fast as their clients read.

use command::{Format, Reply};
use router::listing::{Listings, Look};
use router::{Options, Router};
use std::sync::mpsc::{Receiver, channel};

fn router() -> Router {
    let options = Options { buffers: 4096, huge_pages: false, ..Options::default() };
    let mut router = quiver_capabilities::router(options).unwrap();
    for line in [
        "create null interface name n0",
        "set interface state n0 up",
        // Routes of several lengths, nested, and in two tables.
        "ip route add count 9000 10.0.0.0/30 via n0",
        "ip route add count 300 10.0.0.0/24 via n0",
        "ip route add 10.0.0.0/8 via n0",
        "ip route add count 9000 2001:db8::/64 via n0",
        "ip route add 2001:db8::/32 via n0",
        "ip table add 7",
        "ip route add table 7 192.0.2.0/24 via n0",
        "mpls table add 0",
        "mpls table add 9",
        "mpls local-label add count 1500 100 eos ip4-lookup-in-table 0",
        "mpls local-label add table 9 count 600 100 non-eos mpls-lookup-in-table 0",
    ] {
        let done = quiver_capabilities::commands().execute(&mut router, line);
        done.unwrap_or_else(|error| panic!("{line}: {error}"));
    }
    router
}

/// Makes replies paged from now on. Returns the requests for pages.
fn asked(router: &mut Router) -> Receiver<Look> {
    let (ask, asked) = channel();
    router.listings = Listings::by(move |look| ask.send(look).is_ok());
    asked
}

/// Writes a reply on a thread of its own, as a client's reader does. Calls `each` with the router after each page.
/// Returns the number of pages, too.
fn read(
    router: &mut Router,
    asked: &Receiver<Look>,
    line: &str,
    format: Format,
    mut each: impl FnMut(&mut Router, usize),
) -> (String, usize) {
    let reply: Box<dyn Reply> = quiver_capabilities::commands().execute(router, line).unwrap();
    let reader = std::thread::spawn(move || reply.render(format));
    let mut pages = 0;
    while !reader.is_finished() {
        if let Ok(look) = asked.try_recv() {
            look(router);
            pages += 1;
            each(router, pages);
        }
        std::thread::yield_now();
    }
    (reader.join().unwrap(), pages)
}

#[test]
fn pages_together_are_the_table_as_it_stands() {
    let mut router = router();
    let commands = quiver_capabilities::commands();
    for at in 0..1200 {
        let lines = [
            format!("create null interface name loop{at}"),
            format!("set interface ip address loop{at} 172.{}.{}.1/30", 16 + at / 256, at % 256),
            format!("ip neighbor loop{at} 172.{}.{}.2 02:00:00:00:00:01", 16 + at / 256, at % 256),
        ];
        for line in lines {
            let done = commands.execute(&mut router, &line);
            done.unwrap_or_else(|error| panic!("{line}: {error}"));
        }
    }
    let lines = [
        ("show ip fib", 22),
        ("show ip6 fib", 18),
        ("show ip fib detail", 22),
        ("show fib entry", 40),
        ("show ip fib table 7", 1),
        ("show mpls fib", 5),
        ("show mpls fib detail", 5),
        ("show mpls fib table 9 650 non-eos", 1),
        ("show interface", 3),
        ("show interface address", 3),
        ("show running-config", 40),
        ("show ip neighbors", 3),
        ("show adj", 3),
        ("show fib path-lists", 6),
        ("show fib paths", 6),
        ("show load-balance", 1),
    ];
    let whole: Vec<[String; 2]> = lines
        .iter()
        .map(|(line, _)| {
            let reply = commands.execute(&mut router, line).unwrap();
            [Format::Text, Format::Json].map(|format| reply.render(format))
        })
        .collect();
    let asked = asked(&mut router);
    for ((line, least), whole) in lines.iter().zip(whole) {
        for (format, whole) in [Format::Text, Format::Json].into_iter().zip(whole) {
            let (paged, pages) = read(&mut router, &asked, line, format, |_, _| {});
            // Neighbours grow older between two commands.
            let ageless = |text: &str| match line.contains("neighbors") {
                true => text.chars().filter(|c| c.is_alphabetic() || *c == '\n').collect(),
                false => text.to_string(),
            };
            let (paged, whole) = (ageless(&paged), ageless(&whole));
            assert!(paged == whole, "{line}: {} bytes in pages, {} at once", paged.len(), whole.len());
            assert!(pages >= *least, "{line}: {pages} pages");
        }
    }
}

#[test]
fn a_listing_goes_on_where_it_was_though_routes_come_and_go() {
    let mut router = router();
    let asked = asked(&mut router);
    let (text, _) = read(&mut router, &asked, "show ip fib table 0", Format::Text, |router, page| {
        if page == 1 {
            // Routes that were shown already, and most of those that are still to come.
            let lines = ["ip route del count 8000 10.0.0.0/30 via n0", "ip route add 172.16.0.0/12 via n0"];
            for line in lines {
                quiver_capabilities::commands().execute(router, line).unwrap_or_else(|error| panic!("{line}: {error}"));
            }
        }
    });
    let routes: Vec<&str> = text.lines().filter(|line| line.starts_with(|c: char| c.is_ascii_digit())).collect();
    let mut sorted = routes.clone();
    sorted.sort_unstable();
    sorted.dedup();
    assert_eq!(routes.len(), sorted.len(), "nothing comes twice");
    assert!(routes.contains(&"10.0.140.156/30") && routes.contains(&"172.16.0.0/12"), "what is there now is shown");
    assert!(!routes.contains(&"10.0.124.252/30"), "what is gone is not");
}

#[test]
fn a_table_that_goes_ends_its_listing() {
    let mut router = router();
    let asked = asked(&mut router);
    let (text, _) = read(&mut router, &asked, "show ip fib table 7", Format::Text, |router, page| {
        if page == 1 {
            quiver_capabilities::commands().execute(router, "ip table del 7").unwrap();
        }
    });
    assert!(text.contains("192.0.2.0/24"), "{text}");
}

#[test]
fn who_lists_while_the_router_goes_comes_to_an_end() {
    let mut router = router();
    let asked = asked(&mut router);
    let reply = quiver_capabilities::commands().execute(&mut router, "show ip fib").unwrap();
    drop(asked);
    assert!(reply.text().starts_with("ipv4-VRF:0"));
}

/// Each page is short, whatever it lists: no other client waits for long.
#[test]
fn pages_of_a_configuration_are_short_whatever_there_is_much_of() {
    let mut router = router();
    let whole = quiver_capabilities::commands().execute(&mut router, "show running-config").unwrap().text();
    let asked = asked(&mut router);
    let (text, pages) = read(&mut router, &asked, "show running-config", Format::Text, |router, page| {
        if page == 4 {
            quiver_capabilities::commands().execute(router, "mpls table del 9").unwrap();
            let line = "ip route add table 7 198.51.100.0/24 via n0";
            quiver_capabilities::commands().execute(router, line).unwrap();
        }
    });
    assert!(whole.contains("\nmpls local-label add table 9 ") && !text.contains("\nmpls local-label add table 9 "));
    assert!(text.contains("\nip route add table 7 198.51.100.0/24 via n0\n"), "what came before its turn is shown");
    let lines = text.lines().count();
    assert!(pages >= lines / 700, "{lines} lines in {pages} pages");
}
