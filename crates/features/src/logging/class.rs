//! From the module that logs to the class that operators know.

use router::capability::List;
use std::collections::BTreeMap;

/// Classes of what belongs to no capability, with the modules that log. A capability says its own
/// ([`router::capability::Description::log_classes`]).
const OWN: [(&str, &str); 15] = [
    ("buffers", "buffers"),
    ("cli", "cli"),
    ("cli_client", "cli"),
    ("cli_server", "cli"),
    ("cli_session", "cli"),
    ("crash", "crash"),
    ("exec", "cli"),
    ("line_editor", "cli"),
    ("telnet", "cli"),
    ("drivers", "drivers"),
    ("graph", "graph"),
    ("quiver", "quiver"),
    ("router", "router"),
    ("startup", "startup"),
    ("trace", "trace"),
];

/// The classes of modules.
pub(super) struct Modules(BTreeMap<&'static str, &'static str>);

/// Longest name of a class.
const MAXIMUM_NAME: usize = 32;

impl Modules {
    pub fn of(capabilities: List) -> Modules {
        let all = capabilities.iter().flat_map(|capability| capability.log_classes);
        Modules(OWN.iter().chain(all).copied().collect())
    }

    /// Classes that can be set before they have said anything.
    pub fn classes(&self) -> impl Iterator<Item = &'static str> {
        self.0.values().copied()
    }

    /// The class of a log target: a module path such as `quiver_router::neighbour::control`, or the name of a class
    /// itself.
    pub fn class<'a>(&self, target: &'a str) -> &'a str {
        let mut parts = target.split("::");
        let first = parts.next().unwrap_or_default();
        let module = parts.next();
        let class = match first.strip_prefix("quiver_").unwrap_or(first) {
            "router" | "protocols" | "features" | "devices" | "drivers" | "control" => match module {
                Some(module) => self.0.get(module).copied().unwrap_or(module),
                None => first.strip_prefix("quiver_").unwrap_or(first),
            },
            name => self.0.get(name).copied().unwrap_or(name),
        };
        let end = class.char_indices().nth(MAXIMUM_NAME).map_or(class.len(), |(at, _)| at);
        &class[..end]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_belongs_to_its_capability_or_device() {
        let own = [&crate::packet_generator::CAPABILITY, &crate::logging::CAPABILITY];
        let modules = Modules::of([router::capability::CAPABILITIES, &own].concat().leak());
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
            ("quiver_router_of_others::x", "router_of_others"),
            ("pg", "pg"),
            ("", ""),
        ] {
            assert_eq!(modules.class(target), class, "{target}");
        }
        assert_eq!(modules.class(&"é".repeat(99)).chars().count(), MAXIMUM_NAME);
    }

    #[test]
    fn known_classes_are_those_of_capabilities_and_of_this_program() {
        let known: Vec<&str> = Modules::of(crate::CAPABILITIES).classes().collect();
        assert!(known.contains(&"pg") && known.contains(&"cli") && !known.contains(&"dhcp"), "{known:?}");
    }
}
