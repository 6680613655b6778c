//! Lines as operators type them: completed, explained, read, and carried out by a router whose
//! devices are stand-ins and whose worker runs.

use crate::Directory;
use command::CommandSet;
use router::{Devices, Options, Router};
use std::hint::black_box;
use std::thread;

/// Lines of one input; more find nothing new.
const MOST_LINES: usize = 32;
/// What is there to be named.
const BEFORE: &[&str] = &[
    "create packet-generator interface pg0",
    "create tap id 0 name e0",
    "set interface ip address e0 10.0.0.1/24",
    "set interface state e0 up",
    "ip route add 20.0.0.0/8 via 10.0.0.2",
];

pub fn run(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let commands = capabilities::commands();
    let directory = Directory::new();
    let options = Options { buffers: 1024, huge_pages: false, devices: Devices::DryRun, ..Options::default() };
    let mut router = capabilities::router(options).expect("a router");
    router.files = directory.files();
    let worker = router.graph.worker(0).expect("a worker");
    thread::scope(|scope| {
        scope.spawn(|| worker.run());
        for line in BEFORE {
            commands.execute(&mut router, line).unwrap_or_else(|error| panic!("{line}: {error}"));
        }
        for line in text.lines().take(MOST_LINES) {
            one(&commands, &mut router, line);
        }
        router.graph.stop();
    });
}

fn one(commands: &CommandSet<Router>, router: &mut Router, line: &str) {
    black_box(commands.help(line));
    let values = |kind: &str| router::values(router, kind);
    let completion = commands.complete(line, &values);
    black_box(completion.common_prefix().len());
    let (name, is_of_session) = match commands.parse(line) {
        Ok(parsed) => (parsed.command.name().to_string(), parsed.command.is_of_session()),
        Err(error) => {
            black_box(error.to_string());
            return;
        }
    };
    // A session's own are not the router's; a ping's answer waits for the network.
    if is_of_session {
        return;
    }
    match commands.execute(router, line) {
        Ok(_) if name == "ping" => {}
        Ok(reply) => {
            black_box((reply.text().len(), reply.json()));
        }
        Err(error) => {
            black_box(error.to_string());
        }
    }
    while router.events_waiting() > 0 {
        router.handle_events();
    }
    router.tick();
}
