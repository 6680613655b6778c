//! What commands name of the file system obeys `cli-file-root`: held over the whole grammar.

use crate::commands::Running;
use command::Files;

/// Names of parameters that stand for something in the file system, and must have a type that says so.
const SPEAKING: [&str; 12] = [
    "file",
    "filename",
    "path",
    "socket_file",
    "directory",
    "pcap",
    "prog",
    "program",
    "namespace",
    "netns",
    "host_ns",
    "script",
];

/// For each parameter that names a path a line in which it is `{}`: a new one needs its line here.
const LINES: [(&str, &str, &str); 11] = [
    ("create interface af_xdp", "file", "create interface af_xdp host-if none0 prog {}"),
    ("create interface af_xdp", "namespace", "create interface af_xdp host-if none0 netns {}"),
    ("create memif socket", "file", "create memif socket id 7 filename {}"),
    ("create tap", "namespace", "create tap id 7 host-ns {}"),
    ("ip route load", "file", "ip route load {}"),
    ("lcp create", "namespace", "lcp create e0 host-if x0 netns {}"),
    ("lcp default netns", "namespace", "lcp default netns {}"),
    ("load", "file", "load {}"),
    ("packet-generator new", "pcap", "packet-generator new { name x interface pg0 pcap {} }"),
    ("pcap trace", "file", "pcap trace rx file {}"),
    ("save", "file", "save {}"),
];

#[test]
fn every_path_in_the_grammar_obeys_the_root_directory() {
    let directory = std::env::temp_dir().join(format!("quiver-paths-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let root = std::fs::canonicalize(&directory).unwrap();
    let mut running = Running::new();
    running.router.files = Files::beneath(&directory).unwrap();
    let commands = quiver_capabilities::commands();
    let mut left: Vec<_> = LINES.to_vec();
    for command in commands.commands().into_iter().filter(|command| !command.is_of_session()) {
        for (name, kind) in command.values() {
            assert!(
                kind.is_some() || !SPEAKING.contains(&name),
                "<{name}:...> of '{}' names a path: give it the type path, socket or netns",
                command.name()
            );
            let Some(kind) = kind else { continue };
            let at = left.iter().position(|(of, parameter, _)| (*of, *parameter) == (command.name(), name));
            let at = at.unwrap_or_else(|| panic!("no line tries <{name}:...> of '{}'", command.name()));
            let (_, _, line) = left.remove(at);
            for outside in ["/etc/passwd", "../outside", "/proc/self/ns/net", "/tmp"] {
                let line = line.replace("{}", outside);
                let refusal = running.execute(&line).err().expect("it lies outside").to_string();
                let why = format!("{outside}: outside of {}, where commands may use files", root.display());
                assert_eq!(refusal, format!("{}: {why}", command.name()), "{kind:?} {line}");
            }
        }
    }
    assert!(left.is_empty(), "no such parameters any more: {left:?}");
    running.stop();
    std::fs::remove_dir_all(&directory).unwrap();
}

#[test]
fn names_that_are_no_paths_are_not_confined() {
    let directory = std::env::temp_dir().join(format!("quiver-paths-names-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let mut running = Running::new();
    running.router.files = Files::beneath(&directory).unwrap();
    let inside = std::fs::canonicalize(&directory).unwrap().join("memif.sock");
    for (id, socket) in [(1, "@name"), (2, "abstract:other"), (3, inside.to_str().unwrap())] {
        let line = format!("create memif socket id {id} filename {socket}");
        running.must(&line);
    }
    // A namespace's name is the host's; it is looked for and not found.
    let line = "create tap host-ns no-such-namespace-here";
    let refusal = running.execute(line).err().unwrap().to_string();
    assert!(!refusal.contains("outside of"), "{refusal}");
    running.stop();
    std::fs::remove_dir_all(&directory).unwrap();
}
