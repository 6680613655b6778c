//! From the module that logs to the class that operators know.

/// Classes that can be set before they have said anything.
pub(super) const KNOWN: [&str; 25] = [
    "af_packet",
    "af_xdp",
    "buffers",
    "capture",
    "cli",
    "config",
    "crash",
    "dhcp",
    "drivers",
    "ethernet",
    "graph",
    "icmp",
    "inspect",
    "interface",
    "ip",
    "ip4",
    "logging",
    "memif",
    "neighbor",
    "pg",
    "quiver",
    "router",
    "startup",
    "tap",
    "trace",
];

/// Longest name of a class.
const MAXIMUM_NAME: usize = 32;

/// The class of a log target: a module path such as `quiver_router::neighbour::control`, or the name
/// of a class itself.
pub fn of(target: &str) -> &str {
    let mut parts = target.split("::");
    let first = parts.next().unwrap_or_default();
    let module = parts.next();
    let class = match first.strip_prefix("quiver_").unwrap_or(first) {
        "router" | "protocols" | "features" | "devices" | "drivers" | "control" => match module {
            Some("packet_generator") => "pg",
            Some("neighbour") => "neighbor", // as commands spell it
            Some("addresses" | "notice") => "interface",
            Some("cli_server" | "cli_session" | "cli_client" | "exec" | "line_editor" | "telnet") => "cli",
            Some(module) => module,
            None => first.strip_prefix("quiver_").unwrap_or(first),
        },
        name => name,
    };
    let end = class.char_indices().nth(MAXIMUM_NAME).map_or(class.len(), |(at, _)| at);
    &class[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_belongs_to_its_capability_or_device() {
        for (target, class) in [
            ("quiver_router::neighbour::control", "neighbor"),
            ("quiver_features::packet_generator::cli", "pg"),
            ("quiver_protocols::dhcp::control", "dhcp"),
            ("quiver_devices::tap", "tap"),
            ("quiver_router::addresses::ip6", "interface"),
            ("quiver_router", "router"),
            ("quiver_control::cli_server", "cli"),
            ("quiver_control::exec", "cli"),
            ("quiver_control::startup", "startup"),
            ("quiver_drivers::af_packet", "af_packet"),
            ("quiver_graph::worker", "graph"),
            ("quiver::daemon", "quiver"),
            ("pg", "pg"),
            ("", ""),
        ] {
            assert_eq!(of(target), class, "{target}");
        }
        assert_eq!(of(&"é".repeat(99)).chars().count(), MAXIMUM_NAME);
    }

    #[test]
    fn known_classes_are_sorted_and_of_this_program() {
        assert!(KNOWN.is_sorted());
        assert!(KNOWN.contains(&of(module_path!())));
    }
}
