//! The profiles that come along.

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
    fn all_are_right() {
        for name in NAMES {
            let profile = Profile::load(name).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(profile.name, *name);
            assert!(!profile.description.is_empty(), "{name}");
        }
    }
}
