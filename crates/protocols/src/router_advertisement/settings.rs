//! What operators may have a router advertise on a link (RFC 4861 section 6.2.1), within the bounds of the RFC.

use std::collections::BTreeMap;
use std::net::Ipv6Addr;
use wire::Prefix6;
use wire::nd::{FOREVER, Preference, domain_name_len};

/// Bounds of RFC 4861 section 6.2.1, in seconds.
const INTERVAL: std::ops::RangeInclusive<u16> = 4..=1800;
const LEAST_INTERVAL: u16 = 3;
const LONGEST_LIFETIME: u16 = 9000;
/// RFC 4861 section 10.
pub const MAX_INITIAL: u8 = 3;
pub const MAX_INITIAL_INTERVAL: u16 = 16;

/// The most name servers, and bytes of search names, so that everything except prefixes fits one packet of the least
/// MTU.
const MAX_SERVERS: usize = 8;
const MAX_SEARCH_BYTES: usize = 400;
/// The most prefixes with settings of their own.
const MAX_PREFIXES: usize = 64;

/// Why settings are refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    #[error("an interval of at most {0} s: RFC 4861 has {from} to {to}", from = INTERVAL.start(), to = INTERVAL.end())]
    MaxInterval(u16),
    #[error(
        "an interval of at least {min} s: RFC 4861 has {LEAST_INTERVAL} to three quarters of the longest, which is \
         {max} s"
    )]
    MinInterval { min: u16, max: u16 },
    #[error("a lifetime of {lifetime} s: RFC 4861 has 0, or {max} (the longest interval) to {LONGEST_LIFETIME}")]
    Lifetime { lifetime: u16, max: u16 },
    #[error("preferred for {preferred} s, longer than valid, which is {valid} s (RFC 4861 4.6.2)")]
    Preferred { preferred: u32, valid: u32 },
    #[error("{0} is no prefix of hosts: it is link-local or of groups")]
    NoPrefix(Prefix6),
    #[error("{0} is no address of a name server")]
    NoServer(Ipv6Addr),
    #[error("'{0}' is no domain name: labels of letters, digits and -, at most 63 each, 253 in all")]
    NoDomain(String),
    #[error("too many name servers (at most {MAX_SERVERS})")]
    TooManyServers,
    #[error("the search list would take {0} bytes (at most {MAX_SEARCH_BYTES})")]
    SearchTooLong(usize),
    #[error("too many prefixes (at most {MAX_PREFIXES})")]
    TooManyPrefixes,
    #[error("nothing was said of {0} before")]
    NotThere(String),
}

router::codes! { SettingsError {
    MaxInterval => "router-advertisement-longest-interval",
    MinInterval => "router-advertisement-shortest-interval",
    Lifetime => "router-advertisement-lifetime",
    Preferred => "router-advertisement-preferred-lifetime",
    NoPrefix => "router-advertisement-no-prefix",
    NoServer => "router-advertisement-no-server",
    NoDomain => "router-advertisement-no-domain",
    TooManyServers => "router-advertisement-too-many-servers",
    SearchTooLong => "router-advertisement-search-too-long",
    TooManyPrefixes => "router-advertisement-too-many-prefixes",
    NotThere => "router-advertisement-not-there",
} }

/// What the router advertises about a prefix. Times are in seconds; [`FOREVER`] means no end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PrefixSettings {
    pub valid: u32,
    pub preferred: u32,
    pub is_advertised: bool,
    /// Whether the addresses of the prefix are on the link (L).
    pub on_link: bool,
    /// Whether hosts form their own addresses from the prefix (A), which requires 64 bits.
    pub autonomous: bool,
}

impl Default for PrefixSettings {
    /// RFC 4861 section 6.2.1.
    fn default() -> PrefixSettings {
        PrefixSettings { valid: 2_592_000, preferred: 604_800, is_advertised: true, on_link: true, autonomous: true }
    }
}

impl PrefixSettings {
    /// # Errors
    /// When the preferred lifetime is longer than the valid lifetime.
    pub fn check(&self) -> Result<(), SettingsError> {
        let PrefixSettings { valid, preferred, .. } = *self;
        if preferred > valid { Err(SettingsError::Preferred { preferred, valid }) } else { Ok(()) }
    }
}

/// What the router advertises on a link. Times are in seconds unless noted otherwise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    pub is_suppressed: bool,
    /// Whether hosts get addresses by DHCPv6 (M), or only other settings (O).
    pub managed: bool,
    pub other: bool,
    /// Whether the Ethernet address is included.
    pub tells_link_address: bool,
    /// Whether a host that asks gets an answer of its own.
    pub answers_directly: bool,
    /// How long the router is a default router; 0: it is none. `None`: three times the longest interval.
    pub lifetime: Option<u16>,
    pub max_interval: u16,
    /// `None`: three quarters of the longest interval.
    pub min_interval: Option<u16>,
    /// How many advertisements come sooner at the beginning, and the longest interval between these.
    pub initial_count: u8,
    pub initial_interval: u16,
    pub preference: Preference,
    /// The hop limit for hosts; 0: not specified.
    pub hop_limit: u8,
    /// Milliseconds for which hosts consider a neighbour reachable, and between their solicitations; 0: not specified.
    pub reachable: u32,
    pub retransmit: u32,
    /// The settings of prefixes that have none of their own.
    pub default_prefix: PrefixSettings,
    pub prefixes: BTreeMap<Prefix6, PrefixSettings>,
    /// Each with its lifetime; `None`: three times the longest interval (RFC 8106 section 5.1).
    pub servers: BTreeMap<Ipv6Addr, Option<u32>>,
    pub search: BTreeMap<String, Option<u32>>,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            is_suppressed: true,
            managed: false,
            other: false,
            tells_link_address: true,
            answers_directly: false,
            lifetime: None,
            // VPP's default.
            max_interval: 200,
            min_interval: None,
            initial_count: MAX_INITIAL,
            initial_interval: MAX_INITIAL_INTERVAL,
            preference: Preference::Medium,
            hop_limit: 64,
            reachable: 0,
            retransmit: 0,
            default_prefix: PrefixSettings::default(),
            prefixes: BTreeMap::new(),
            servers: BTreeMap::new(),
            search: BTreeMap::new(),
        }
    }
}

impl Settings {
    /// # Errors
    /// When a value is outside the RFC's bounds.
    pub fn check(&self) -> Result<(), SettingsError> {
        let max = self.max_interval;
        if !INTERVAL.contains(&max) {
            return Err(SettingsError::MaxInterval(max));
        }
        if let Some(min) = self.min_interval
            && !(LEAST_INTERVAL..=(max / 4 * 3).max(LEAST_INTERVAL)).contains(&min)
        {
            return Err(SettingsError::MinInterval { min, max });
        }
        if let Some(lifetime) = self.lifetime
            && lifetime != 0
            && !(max..=LONGEST_LIFETIME).contains(&lifetime)
        {
            return Err(SettingsError::Lifetime { lifetime, max });
        }
        self.default_prefix.check()?;
        for (prefix, settings) in &self.prefixes {
            settings.check()?;
            let address = prefix.address();
            if address.is_multicast() || address.is_unicast_link_local() || prefix.length() == 0 {
                return Err(SettingsError::NoPrefix(*prefix));
            }
        }
        if self.prefixes.len() > MAX_PREFIXES {
            return Err(SettingsError::TooManyPrefixes);
        }
        if self.servers.len() > MAX_SERVERS {
            return Err(SettingsError::TooManyServers);
        }
        if let Some(server) = self.servers.keys().find(|server| server.is_multicast() || server.is_unspecified()) {
            return Err(SettingsError::NoServer(*server));
        }
        let mut bytes = 0;
        for name in self.search.keys() {
            bytes += domain_name_len(name).ok_or_else(|| SettingsError::NoDomain(name.clone()))?;
        }
        if bytes > MAX_SEARCH_BYTES { Err(SettingsError::SearchTooLong(bytes)) } else { Ok(()) }
    }

    /// The shortest time in seconds between two advertisements.
    pub fn least_interval(&self) -> u16 {
        self.min_interval.unwrap_or((self.max_interval / 4 * 3).max(LEAST_INTERVAL)).min(self.max_interval)
    }

    /// The lifetime of what has none of its own: three times the longest interval.
    pub fn usual_lifetime(&self) -> u16 {
        self.max_interval * 3
    }

    /// The settings of a prefix.
    pub fn of_prefix(&self, prefix: Prefix6) -> PrefixSettings {
        self.prefixes.get(&prefix).copied().unwrap_or(self.default_prefix)
    }
}

/// A time as it is written in commands.
pub(super) fn written(seconds: u32) -> String {
    if seconds == FOREVER { "infinite".into() } else { seconds.to_string() }
}
