//! Long listings come page by page, as their readers take them.

use command::{Format, Reply};
use quiver_router::listing::{Listings, Look, PAGE};
use quiver_router::{Options, Router};
use std::sync::mpsc::{Receiver, channel};

fn router() -> Router {
    let options = Options { buffers: 4096, huge_pages: false, ..Options::default() };
    let mut router = Router::new(options).unwrap();
    for line in [
        "create null interface name n0",
        "set interface state n0 up",
        // Of several lengths, around each other, and in two tables.
        "ip route add count 9000 10.0.0.0/30 via n0",
        "ip route add count 300 10.0.0.0/24 via n0",
        "ip route add 10.0.0.0/8 via n0",
        "ip route add count 9000 2001:db8::/64 via n0",
        "ip route add 2001:db8::/32 via n0",
        "ip table add 7",
        "ip route add table 7 192.0.2.0/24 via n0",
    ] {
        let done = quiver_router::commands().execute(&mut router, line);
        done.unwrap_or_else(|error| panic!("{line}: {error}"));
    }
    router
}

/// What is asked of the router from now on.
fn asked(router: &mut Router) -> Receiver<Look> {
    let (ask, asked) = channel();
    router.listings = Listings::by(move |look| ask.send(look).is_ok());
    asked
}

/// A reply as its reader writes it on a thread of its own, while `each` has the router after each page. How many pages
/// there were, too.
fn read(
    router: &mut Router,
    asked: &Receiver<Look>,
    line: &str,
    format: Format,
    mut each: impl FnMut(&mut Router, usize),
) -> (String, usize) {
    let reply: Box<dyn Reply> = quiver_router::commands().execute(router, line).unwrap();
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
    let lines = ["show ip fib", "show ip6 fib", "show ip fib detail", "show fib entry", "show ip fib table 7"];
    let whole: Vec<[String; 2]> = lines
        .iter()
        .map(|line| {
            let reply = quiver_router::commands().execute(&mut router, line).unwrap();
            [Format::Text, Format::Json].map(|format| reply.render(format))
        })
        .collect();
    let asked = asked(&mut router);
    for (line, whole) in lines.iter().zip(whole) {
        for (format, whole) in [Format::Text, Format::Json].into_iter().zip(whole) {
            let (paged, pages) = read(&mut router, &asked, line, format, |_, _| {});
            assert!(paged == whole, "{line}: {} bytes in pages, {} at once", paged.len(), whole.len());
            assert!(pages >= whole.matches("10.0.").count() / PAGE, "{line}: {pages} pages");
        }
    }
}

#[test]
fn a_listing_goes_on_where_it_was_though_routes_come_and_go() {
    let mut router = router();
    let asked = asked(&mut router);
    let (text, _) = read(&mut router, &asked, "show ip fib table 0", Format::Text, |router, page| {
        if page == 1 {
            // What was shown already, and most of what comes.
            let lines = ["ip route del count 8000 10.0.0.0/30 via n0", "ip route add 172.16.0.0/12 via n0"];
            for line in lines {
                quiver_router::commands().execute(router, line).unwrap_or_else(|error| panic!("{line}: {error}"));
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
            quiver_router::commands().execute(router, "ip table del 7").unwrap();
        }
    });
    assert!(text.contains("192.0.2.0/24"), "{text}");
}

#[test]
fn who_lists_while_the_router_goes_comes_to_an_end() {
    let mut router = router();
    let asked = asked(&mut router);
    let reply = quiver_router::commands().execute(&mut router, "show ip fib").unwrap();
    drop(asked);
    assert!(reply.text().starts_with("ipv4-VRF:0"));
}
