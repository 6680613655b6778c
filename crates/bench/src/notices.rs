//! How soon a thread that follows the router hears of an operation, counted from its beginning: the operation itself,
//! what all capabilities do about it, and waking the thread up.

use super::Spread;
use crossbeam_channel::bounded;
use devices::loopback::LoopbackOptions;
use router::capability::{Heard, Notice, Wants};
use router::ip::control::{Path, PathAction, Source};
use router::{Error, Options, Router};
use serde::Serialize;
use std::net::Ipv4Addr;
use std::thread;
use std::time::Instant;
use wire::Prefix4;

pub const NAME: &str = "notices";
/// Interfaces that are there already.
const INTERFACES: u32 = 1000;
/// Operations of each kind.
const TURNS: u32 = 200;

#[derive(Serialize)]
pub struct Outcome {
    pub operation: &'static str,
    /// Microseconds from the beginning of the operation until its last notice is heard.
    pub heard_us: Spread,
}

/// Measures operations on interfaces and routes of a router with many interfaces.
///
/// # Errors
/// When the router cannot be made.
pub fn measure() -> Result<Vec<Outcome>, Error> {
    let mut router = capabilities::router(Options { workers: 1, ..Options::default() })?;
    for instance in 0..INTERFACES {
        create(&mut router, instance)?;
    }
    let (_, heard) = router.follow(1 << 16, Wants::ALL);
    let (send, times) = bounded::<(Notice, Instant)>(1 << 16);
    let listener = thread::spawn(move || {
        while let Ok(Heard::Notice(said)) = heard.recv() {
            if send.send((said.notice.clone(), Instant::now())).is_err() {
                return;
            }
        }
    });
    let mut outcomes = Vec::new();
    let mut run = |operation, act: &mut dyn FnMut(&mut Router, u32) -> Result<(), Error>| -> Result<(), Error> {
        let mut all = Vec::new();
        for turn in 0..TURNS {
            while times.try_recv().is_ok() {}
            let before = Instant::now();
            act(&mut router, turn)?;
            // The mark comes behind all that the operation said.
            router.say(Notice::Committed);
            let mut last = before;
            while let Ok((notice, at)) = times.recv()
                && notice != Notice::Committed
            {
                last = at;
            }
            all.push((last - before).as_secs_f64() * 1e6);
        }
        outcomes.push(Outcome { operation, heard_us: Spread::of(all) });
        Ok(())
    };
    let address = |turn: u32| Prefix4::new(Ipv4Addr::from(0x0a00_0001 + (turn << 8)), 24).expect("24 is a length");
    let route = |turn: u32| Prefix4::new(Ipv4Addr::from(0x2000_0000 + (turn << 8)), 24).expect("24 is a length");
    run("interface created", &mut |router, turn| create(router, INTERFACES + turn))?;
    run("interface up", &mut |router, turn| {
        let index = router.interfaces.find(&format!("loop{turn}"))?;
        router.set_admin(index, true)
    })?;
    run("address added", &mut |router, turn| {
        let index = router.interfaces.find(&format!("loop{turn}"))?;
        router.add_address(index, address(turn))
    })?;
    run("route added", &mut |router, turn| {
        router.add_route(route(turn), Source::Config, vec![Path::new(PathAction::Drop)], false)
    })?;
    run("interface deleted", &mut |router, turn| {
        let index = router.interfaces.find(&format!("loop{turn}"))?;
        router.delete_interface(index)
    })?;
    drop(router);
    let _ = listener.join();
    Ok(outcomes)
}

fn create(router: &mut Router, instance: u32) -> Result<(), Error> {
    let options = LoopbackOptions { instance, mac: None };
    router.create(&format!("loop{instance}"), Box::new(options)).map(drop)
}
