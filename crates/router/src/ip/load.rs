//! `ip route load FILE`: routes from a file, in one batch.
//!
//! A line is `PREFIX via NEXT-HOP [INTERFACE]`, also as `ip route` of Linux prints it (`dev INTERFACE`); a prefix on several lines
//! has several paths. Or it is one of `bgpdump -m`, the text form of an MRT table dump (RFC 6396): there the first
//! line of a prefix counts, whatever other peers said. Empty lines and those that begin with `#` are passed over,
//! IPv6 prefixes counted.

use super::bulk::{Batch, Outcome};
use super::route::{MAX_PATHS, Path, Source, TableIndex, Way};
use crate::{Error, Router};
use command::{Args, Command, CommandError, CommandSet, Reply, reply};
use serde::Serialize;
use std::collections::HashMap;
use std::fmt;
use std::io::{self, BufRead, BufReader, Read};
use std::net::Ipv4Addr;
use wire::{Family, Prefix4};

/// Longest line: an AS path may have hundreds of numbers.
const MAX_LINE: u64 = 64 << 10;
/// Most routes of a file.
const MAX_ROUTES: usize = 32 << 20;

/// What is wrong with a file of routes.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    #[error("line {line}: {what}")]
    Line { line: usize, what: String },
    #[error("line {line}: {source}")]
    Read { line: usize, source: io::Error },
}

/// A line's route.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Said {
    next_hop: Ipv4Addr,
    interface: Option<String>,
}

/// What a file says.
#[derive(Debug, Default)]
struct RouteFile {
    /// In the order of the file.
    routes: Vec<(Prefix4, Said)>,
    /// Lines of a table dump: then only the first of a prefix counts.
    is_dump: bool,
    ip6: usize,
}

impl RouteFile {
    fn read(file: impl Read) -> Result<RouteFile, LoadError> {
        let mut reader = BufReader::with_capacity(1 << 20, file);
        let mut all = RouteFile::default();
        let mut text = Vec::new();
        for line in 1.. {
            text.clear();
            let read = reader.by_ref().take(MAX_LINE).read_until(b'\n', &mut text);
            if read.map_err(|source| LoadError::Read { line, source })? == 0 {
                break;
            }
            let wrong = |what: String| LoadError::Line { line, what };
            if text.len() as u64 == MAX_LINE {
                return Err(wrong(format!("longer than {MAX_LINE} bytes")));
            }
            if all.routes.len() == MAX_ROUTES {
                return Err(wrong(format!("more than {MAX_ROUTES} routes")));
            }
            let text = std::str::from_utf8(&text)
                .map_err(|_| wrong("not text (an MRT file goes through `bgpdump -m')".into()))?;
            all.take(text.trim()).map_err(wrong)?;
        }
        Ok(all)
    }

    fn take(&mut self, line: &str) -> Result<(), String> {
        if line.is_empty() || line.starts_with('#') {
            return Ok(());
        }
        if line.starts_with("TABLE_DUMP") {
            self.is_dump = true;
            let mut fields = line.split('|').skip(5);
            let prefix = fields.next().ok_or("a table dump has its prefix in the sixth field")?;
            let next_hop = fields.nth(2).ok_or("a table dump has its next hop in the ninth field")?;
            if prefix.contains(':') {
                self.ip6 += 1;
                return Ok(());
            }
            self.routes.push((parse_prefix(prefix)?, Said { next_hop: parse_hop(next_hop)?, interface: None }));
            return Ok(());
        }
        let mut words = line.split_ascii_whitespace();
        let prefix = words.next().unwrap_or_default();
        if prefix.contains(':') {
            self.ip6 += 1;
            return Ok(());
        }
        let prefix = if prefix == "default" { "0.0.0.0/0" } else { prefix };
        let prefix = parse_prefix(prefix)?;
        if words.next() != Some("via") {
            return Err(format!("expected `{prefix} via NEXT-HOP [INTERFACE]', or a line of `bgpdump -m'"));
        }
        let next_hop = parse_hop(words.next().unwrap_or_default())?;
        let interface = match words.next() {
            Some("dev") => Some(words.next().ok_or("an interface's name is missing behind `dev'")?),
            other => other,
        };
        if let Some(more) = words.next() {
            return Err(format!("unexpected `{}'", excerpt(more)));
        }
        self.routes.push((prefix, Said { next_hop, interface: interface.map(String::from) }));
        Ok(())
    }

    /// Prefixes with all that is said of them.
    fn by_prefix(mut self) -> Vec<(Prefix4, Vec<Said>)> {
        // Of equals the order stays.
        self.routes.sort_by_key(|(prefix, _)| *prefix);
        let mut all: Vec<(Prefix4, Vec<Said>)> = Vec::new();
        for (prefix, said) in self.routes {
            match all.last_mut() {
                Some((known, _)) if *known == prefix && self.is_dump => {}
                Some((known, paths)) if *known == prefix => paths.push(said),
                _ => all.push((prefix, vec![said])),
            }
        }
        all
    }
}

/// The beginning of a word, fit for a terminal.
fn excerpt(word: &str) -> String {
    let shown: String = word.chars().take(40).flat_map(char::escape_debug).collect();
    if word.chars().nth(40).is_some() { shown + "..." } else { shown }
}

fn parse_prefix(text: &str) -> Result<Prefix4, String> {
    let prefix: Prefix4 = text.parse().map_err(|_| format!("`{}' is no prefix (like 10.0.0.0/8)", excerpt(text)))?;
    Ok(prefix.network())
}

fn parse_hop(text: &str) -> Result<Ipv4Addr, String> {
    text.parse().map_err(|_| format!("`{}' is no IPv4 next hop", excerpt(text)))
}

/// What became of a file.
#[derive(Serialize)]
struct Loaded {
    added: usize,
    replaced: usize,
    removed: usize,
    refused: usize,
    ip6_skipped: usize,
    unresolved: usize,
}

impl fmt::Display for Loaded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} routes added, {} replaced, {} removed", self.added, self.replaced, self.removed)?;
        let more = [
            (self.refused, "refused: no room, or through themselves"),
            (self.ip6_skipped, "of IPv6 passed over"),
            (self.unresolved, "wait for their next hops (`show ip fib PREFIX' says why)"),
        ];
        for (count, what) in more.into_iter().filter(|(count, _)| *count > 0) {
            write!(f, "; {count} {what}")?;
        }
        writeln!(f)
    }
}

impl Router {
    /// Puts the routes of a file into a table, as the API's. With `replace` those that the API had and the file
    /// has not go away.
    fn load_routes(
        &mut self,
        file: impl Read,
        table: TableIndex,
        replace: bool,
        via: Option<Ipv4Addr>,
    ) -> Result<(Outcome, usize), CommandError> {
        let file = RouteFile::read(file)?;
        let ip6 = file.ip6;
        let mut batch = Batch::new(Family::Ip4, table);
        let mut lists = HashMap::new();
        for (prefix, mut said) in file.by_prefix() {
            if let Some(next_hop) = via {
                said = vec![Said { next_hop, interface: None }];
            }
            if said.len() > MAX_PATHS {
                return Err(Error::TooManyPaths.into());
            }
            let paths = match lists.get(&said) {
                Some(paths) => *paths,
                None => {
                    let path = |said: &Said| {
                        let interface = said.interface.as_deref().map(|name| self.interfaces.find(name)).transpose()?;
                        Ok(Path::new(Way::Via { next_hop: said.next_hop.into(), interface }))
                    };
                    let paths = batch.paths(said.iter().map(path).collect::<Result<_, Error>>()?);
                    lists.insert(said, paths);
                    paths
                }
            };
            batch.put(prefix, paths);
        }
        if replace {
            self.check_room_for(&batch)?;
            batch.is_resync = true;
            self.begin_resync(Family::Ip4, table, Source::Api);
        }
        let mut outcome = self.change_routes(Source::Api, batch)?;
        if replace {
            outcome.removed += self.end_resync(Family::Ip4, table, Source::Api);
        }
        Ok((outcome, ip6))
    }
}

pub(super) fn register(set: &mut CommandSet<Router>) {
    set.add(
        Command::new(
            "ip route load <file:path> {{ [table <table:u32>] | [via <hop:ip4>] | [replace] }}",
            "Add the routes of a file in one go: `PREFIX via NEXT-HOP [INTERFACE]' or lines of `bgpdump -m'.",
            load,
        )
        .example("ip route load /etc/quiver/routes.txt")
        .example("ip route load /tmp/rib.txt via 100.64.1.2 replace"),
    );
}

fn load(router: &mut Router, args: &Args) -> Result<Box<dyn Reply>, CommandError> {
    let file = router.files.open(std::path::Path::new(args.text("file")?))?;
    let (outcome, ip6_skipped) = router.load_routes(
        file,
        super::vrf::table(router, Family::Ip4, args)?,
        args.flag("replace"),
        args.optional("hop")?,
    )?;
    let Outcome { added, replaced, removed, refused, .. } = outcome;
    let unresolved = router.ip.unresolved(Source::Api);
    reply(Loaded { added, replaced, removed, refused, ip6_skipped, unresolved })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<RouteFile, String> {
        RouteFile::read(text.as_bytes()).map_err(|error| error.to_string())
    }

    #[test]
    fn lines_of_both_kinds_are_read() {
        let text = "# comment\n\n10.0.0.0/8 via 192.0.2.1\n10.0.0.0/8 via 192.0.2.2 e1\n default via 192.0.2.3 dev eth0\r\n2001:db8::/32 via ::1\n10.1.2.3/16 via 192.0.2.1";
        let file = read(text).unwrap();
        assert_eq!(file.ip6, 1);
        let all = file.by_prefix();
        let shown: Vec<String> = all.iter().map(|(prefix, said)| format!("{prefix} {}", said.len())).collect();
        assert_eq!(shown, ["0.0.0.0/0 1", "10.0.0.0/8 2", "10.1.0.0/16 1"]);
        assert_eq!(all[0].1[0].interface.as_deref(), Some("eth0"));
        let dump = "TABLE_DUMP2|1672531200|B|198.51.100.1|64500|10.0.0.0/8|64500 64501|IGP|198.51.100.1|0|0||NAG||\n\
                    TABLE_DUMP2|1672531200|B|198.51.100.2|64502|10.0.0.0/8|64502|IGP|198.51.100.2|0|0||NAG||\n\
                    TABLE_DUMP2|1672531200|B|2001:db8::1|64502|2001:db8::/32|64502|IGP|2001:db8::1|0|0||NAG||\n";
        let file = read(dump).unwrap();
        assert_eq!((file.ip6, file.routes.len()), (1, 2));
        let all = file.by_prefix();
        assert_eq!((all.len(), all[0].1[0].next_hop), (1, Ipv4Addr::new(198, 51, 100, 1)));
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        for (text, error) in [
            ("10.0.0.0/8 via 1.1.1.1\n10.0.0.0/33 via 1.1.1.1", "line 2: `10.0.0.0/33' is no prefix"),
            ("10.0.0.0/8", "line 1: expected `10.0.0.0/8 via NEXT-HOP [INTERFACE]'"),
            ("10.0.0.0/8 via", "line 1: `' is no IPv4 next hop"),
            ("10.0.0.0/8 via e0", "line 1: `e0' is no IPv4 next hop"),
            ("10.0.0.0/8 via 1.1.1.1 dev", "an interface's name is missing"),
            ("10.0.0.0/8 via 1.1.1.1 e0 metric 20", "unexpected `metric'"),
            ("TABLE_DUMP2|1|B", "line 1: a table dump has its prefix in the sixth field"),
            ("TABLE_DUMP2|1|B|a|b|10.0.0.0/8|x", "its next hop in the ninth field"),
        ] {
            let found = read(text).unwrap_err();
            assert!(found.contains(error), "{text}: {found}");
        }
        assert!(RouteFile::read(&b"\xff\xfe\n"[..]).unwrap_err().to_string().contains("bgpdump -m"));
        let found = read("\x1b[2Jx via 1.1.1.1").unwrap_err();
        assert_eq!(found, r"line 1: `\u{1b}[2Jx' is no prefix (like 10.0.0.0/8)");
        let found = read(&format!("{} via 1.1.1.1", "9".repeat(1000))).unwrap_err();
        assert!(found.len() < 100 && found.contains("999...'"), "{found}");
        let long = "1".repeat(MAX_LINE as usize + 1);
        assert!(read(&long).unwrap_err().contains("longer than"));
    }

    #[test]
    fn damaged_files_are_read_or_refused() {
        let good =
            "10.0.0.0/8 via 192.0.2.1 dev e1\nTABLE_DUMP2|1|B|198.51.100.1|64500|10.0.0.0/8|1 2|IGP|198.51.100.1|0|\n";
        let mut random = tables::synthetic::Random::new(6);
        let mut read_well = 0;
        for _ in 0..20_000 {
            let mut bytes = good.as_bytes().to_vec();
            for _ in 0..=random.below(4) {
                let at = random.below(bytes.len() as u32) as usize;
                bytes[at] = random.draw() as u8;
            }
            bytes.truncate(random.below(bytes.len() as u32 + 1) as usize);
            if let Ok(file) = RouteFile::read(&bytes[..]) {
                read_well += 1;
                assert!(file.by_prefix().len() <= 2);
            }
        }
        assert!((1000..19_000).contains(&read_well), "{read_well}");
    }
}
