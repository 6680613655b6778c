//! The built-in profiles.

macro_rules! profiles {
    ($($name:literal),* $(,)?) => {
        /// Their names.
        pub const NAMES: &[&str] = &[$($name),*];

        /// The text of one.
        pub fn shipped(name: &str) -> Option<&'static str> {
            match name {
                $($name => Some(include_str!(concat!("../../profiles/", $name, ".toml"))),)*
                _ => None,
            }
        }
    };
}

/// The one that a name means: its own, or T-Rex's for it, a file in the directory of its profiles (`stl/bench.py`).
pub(super) fn known_as(name: &str) -> Option<&'static str> {
    let bare = name.strip_prefix("stl/").unwrap_or(name);
    let stem = bare.strip_suffix(".py").unwrap_or(bare);
    let own = match stem {
        "imix" => "bench-var2-imix",
        "udp_1pkt_simple_bdir" => "udp_1pkt_simple",
        _ => stem,
    };
    NAMES.iter().copied().find(|known| *known == own)
}

profiles![
    "bench",
    "bench-var2-64b",
    "bench-var2-1514b",
    "bench-var2-imix",
    "bench-random-64b",
    "full-table",
    "mpls",
    "ip4-imix-rfc",
    "ip6-cimix",
    "csit-imix",
    "vxlan",
    "udp_1pkt_simple",
    "tcp-syn",
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::Profile;

    #[test]
    fn they_are_known_by_their_names_and_by_those_of_trex() {
        for (name, own) in [
            ("bench", Some("bench")),
            ("imix", Some("bench-var2-imix")),
            ("imix.py", Some("bench-var2-imix")),
            ("stl/bench.py", Some("bench")),
            ("stl/udp_1pkt_simple_bdir.py", Some("udp_1pkt_simple")),
            ("./bench", None),
            ("/opt/trex/stl/bench.py", None),
            ("bench.toml", None),
            ("bench.yaml", None),
        ] {
            assert_eq!(known_as(name), own, "{name}");
        }
    }

    #[test]
    fn all_are_right() {
        for name in NAMES {
            let profile = Profile::load(name).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(profile.name, *name);
            assert!(!profile.description.is_empty(), "{name}");
        }
    }
}
