//! `ip route load FILE`: routes from a file, in one batch.
//!
//! A line is `PREFIX via NEXT-HOP [INTERFACE]`, also as `ip route` of Linux prints it (`dev INTERFACE`); a prefix on
//! several lines has several paths. Or it is one of `bgpdump -m`, the text form of an MRT table dump (RFC 6396):
//! there the first line of a prefix counts, whatever other peers said. Empty lines and those that begin with `#` are
//! passed over. Both families may be in one file; it is loaded whole or not at all.

use super::bulk::{Batch, Outcome};
use super::next_hop::{NextHopError, is_link_local};
use super::route::{MAX_PATHS, Path, PathAction, Source};
use crate::ip::route::RouteError;
use crate::{Error, Router};
use command::{Args, Command, CommandError, CommandSet, Reply, fail, reply};
use serde::Serialize;
use std::collections::HashMap;
use std::fmt;
use std::io::{self, BufRead, BufReader, Read};
use std::net::IpAddr;
use wire::{Family, Prefix};

/// Longest line: an AS path may have hundreds of numbers.
const MAX_LINE: u64 = 64 << 10;
/// Most routes of a file.
const MAX_ROUTES: usize = 32 << 20;
/// What a line of a file may take on the heap, at most, from when it was read until its route is there.
const LINE_BYTES: usize = 512;
/// What operators call the tables that are always there.
const DEFAULT_TABLE: u32 = 0;

/// What is wrong with a file of routes.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    #[error("line {line}: {what}")]
    Line { line: usize, what: String },
    #[error("line {line}: {source}")]
    Read { line: usize, source: io::Error },
    #[error("line {line}: {}", Error::NoMemory)]
    NoMemory { line: usize },
}

/// A line's route.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Said {
    next_hop: IpAddr,
    interface: Option<String>,
}

/// What a file says.
#[derive(Debug, Default)]
struct RouteFile {
    /// In the order of the file.
    routes: Vec<(Prefix, Said)>,
    /// Only the first of a prefix counts: they are lines of a table dump, or all alike.
    only_first: bool,
}

impl RouteFile {
    /// Reads a file; with `by` all next hops are replaced, whatever stands there: dumps of some collectors have
    /// 255.255.255.255 for each IPv6 prefix.
    fn read(file: impl Read, by: Option<IpAddr>) -> Result<RouteFile, LoadError> {
        let mut reader = BufReader::with_capacity(1 << 20, file);
        let mut all = RouteFile::default();
        let mut text = Vec::new();
        for line in 1.. {
            text.clear();
            let read = reader.by_ref().take(MAX_LINE).read_until(b'\n', &mut text);
            if read.map_err(|source| LoadError::Read { line, source })? == 0 {
                break;
            }
            if !heap::has_room() {
                return Err(LoadError::NoMemory { line });
            }
            let wrong = |what: String| LoadError::Line { line, what };
            if text.len() as u64 == MAX_LINE {
                return Err(wrong(format!("longer than {MAX_LINE} bytes")));
            }
            if all.routes.len() == MAX_ROUTES {
                return Err(wrong(format!("more than {MAX_ROUTES} routes")));
            }
            let text = std::str::from_utf8(&text)
                .map_err(|_| wrong("not text (an MRT file goes through 'bgpdump -m')".into()))?;
            all.take(text.trim(), by).map_err(wrong)?;
        }
        Ok(all)
    }

    fn take(&mut self, line: &str, by: Option<IpAddr>) -> Result<(), String> {
        if line.is_empty() || line.starts_with('#') {
            return Ok(());
        }
        if line.starts_with("TABLE_DUMP") {
            self.only_first = true;
            let mut fields = line.split('|').skip(5);
            let prefix = fields.next().ok_or("a table dump has its prefix in the sixth field")?;
            let next_hop = fields.nth(2).ok_or("a table dump has its next hop in the ninth field")?;
            let prefix = parse_prefix(prefix)?;
            self.routes.push((prefix, Said { next_hop: hop_or(by, prefix.family(), next_hop)?, interface: None }));
            return Ok(());
        }
        let mut words = line.split_ascii_whitespace();
        let prefix = words.next().unwrap_or_default();
        // Of which family a default route is its next hop says.
        let prefix = if prefix == DEFAULT { None } else { Some(parse_prefix(prefix)?) };
        if words.next() != Some("via") {
            let prefix = prefix.map_or(DEFAULT.into(), |prefix| prefix.to_string());
            return Err(format!("expected '{prefix} via NEXT-HOP [INTERFACE]', or a line of 'bgpdump -m'"));
        }
        let hop = words.next().unwrap_or_default();
        let family = prefix.map_or(if hop.contains(':') { Family::Ip6 } else { Family::Ip4 }, Prefix::family);
        let next_hop = hop_or(by, family, hop)?;
        let prefix = prefix.unwrap_or(Prefix::default_of(family));
        let interface = match words.next() {
            Some("dev") => Some(words.next().ok_or("an interface's name is missing behind 'dev'")?),
            other => other,
        };
        if let Some(more) = words.next() {
            return Err(format!("unexpected '{}'", excerpt(more)));
        }
        if by.is_none() && is_link_local(next_hop) && interface.is_none() {
            return Err(NextHopError::LinkLocal { hop: next_hop }.to_string());
        }
        self.routes.push((prefix, Said { next_hop, interface: interface.map(String::from) }));
        Ok(())
    }

    /// The families of its routes.
    fn families(&self) -> Vec<Family> {
        let has = |family: &Family| self.routes.iter().any(|(prefix, _)| prefix.family() == *family);
        Family::ALL.into_iter().filter(has).collect()
    }

    /// Has all routes of a next hop's family go there. Gives how many of the other are left out.
    fn send_by(&mut self, next_hop: IpAddr) -> usize {
        let before = self.routes.len();
        self.routes.retain(|(prefix, _)| prefix.family() == Family::of(next_hop));
        let to = Said { next_hop, interface: None };
        self.routes.iter_mut().for_each(|(_, said)| *said = to.clone());
        self.only_first = true;
        before - self.routes.len()
    }

    /// Prefixes with all that is said of them, IPv4 first.
    fn by_prefix(mut self) -> Vec<(Prefix, Vec<Said>)> {
        // Of equals the order stays.
        self.routes.sort_by_key(|(prefix, _)| *prefix);
        let mut all: Vec<(Prefix, Vec<Said>)> = Vec::new();
        for (prefix, said) in self.routes {
            match all.last_mut() {
                Some((known, _)) if *known == prefix && self.only_first => {}
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

/// What a default route is called.
const DEFAULT: &str = "default";

fn parse_prefix(text: &str) -> Result<Prefix, String> {
    let prefix: Prefix = text.parse().map_err(|_| {
        let like = if text.contains(':') { "2001:db8::/32" } else { "10.0.0.0/8" };
        format!("'{}' is no prefix (like {like})", excerpt(text))
    })?;
    Ok(prefix.network())
}

/// The next hop of a line, or any of the prefix's family when all are replaced.
fn hop_or(by: Option<IpAddr>, family: Family, text: &str) -> Result<IpAddr, String> {
    match by {
        Some(_) if !text.is_empty() => Ok(family.unspecified()),
        _ => parse_hop(family, text),
    }
}

fn parse_hop(family: Family, text: &str) -> Result<IpAddr, String> {
    let hop = text.parse().ok().filter(|hop| Family::of(*hop) == family);
    hop.ok_or_else(|| {
        let name = match family {
            Family::Ip4 => "IPv4",
            Family::Ip6 => "IPv6",
        };
        let missing = text == "255.255.255.255";
        let hint = if missing { ": the dump has none; say one with 'via NEXT-HOP' behind the file's name" } else { "" };
        format!("'{}' is no {name} next hop{hint}", excerpt(text))
    })
}

/// What became of a file.
#[derive(Serialize)]
struct Loaded {
    added: usize,
    replaced: usize,
    removed: usize,
    refused: usize,
    passed_over: usize,
    unresolved: usize,
}

impl fmt::Display for Loaded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} routes added, {} replaced, {} removed", self.added, self.replaced, self.removed)?;
        let more = [
            (self.refused, "refused: no room, or through themselves"),
            (self.passed_over, "of the other family passed over"),
            (self.unresolved, "wait for their next hops ('show ip fib PREFIX', 'show ip6 fib PREFIX' say why)"),
        ];
        for (count, what) in more.into_iter().filter(|(count, _)| *count > 0) {
            write!(f, "; {count} {what}")?;
        }
        writeln!(f)
    }
}

/// What a file is loaded for.
struct Wanted {
    /// The identifier of a table, of either family.
    table: u32,
    /// Routes that the API had and the file has not go away, of the families that the file has.
    replace: bool,
    /// The next hop of all routes of its family, which alone are loaded then.
    via: Option<IpAddr>,
}

impl Router {
    /// Puts the routes of a file into tables, as the API's: all, or none when there is an error. Gives also how many
    /// were left out.
    fn load_routes(&mut self, file: impl Read + Send, wanted: &Wanted) -> Result<(Outcome, usize), CommandError> {
        let (file, passed_over) = self.aside(|| {
            let mut file = RouteFile::read(file, wanted.via)?;
            let passed_over = wanted.via.map_or(0, |next_hop| file.send_by(next_hop));
            Ok::<_, LoadError>((file, passed_over))
        })?;
        if wanted.replace && passed_over > 0 && file.routes.is_empty() {
            return fail("no route of the file is of the next hop's family: all others of that family would go away");
        }
        if !heap::room_for(file.routes.len().saturating_mul(LINE_BYTES)) {
            return Err(Error::NoMemory.into());
        }
        let mut batches = self.empty_batches(&file, wanted)?;
        let mut lists = HashMap::new();
        for (prefix, said) in self.aside(|| file.by_prefix()) {
            self.breathe();
            if said.len() > MAX_PATHS {
                return Err(RouteError::TooManyPaths.into());
            }
            let of_family = |batch: &&mut Batch| batch.family() == prefix.family();
            let batch = batches.iter_mut().find(of_family).expect("one for each family of the file");
            let paths = match lists.get(&said) {
                Some(paths) => *paths,
                None => {
                    let path = |said: &Said| {
                        let interface = said.interface.as_deref().map(|name| self.interfaces.find(name)).transpose()?;
                        Ok(Path::new(PathAction::Via { next_hop: said.next_hop, interface }))
                    };
                    let paths = batch.paths(said.iter().map(path).collect::<Result<_, Error>>()?);
                    lists.insert(said, paths);
                    paths
                }
            };
            batch.put(prefix, paths);
        }
        if wanted.replace {
            for batch in &mut batches {
                self.check_room_for(batch)?;
                batch.is_resync = true;
            }
        }
        let places: Vec<_> = batches.iter().map(|batch| (batch.family(), batch.table())).collect();
        if wanted.replace {
            places.iter().for_each(|(family, table)| self.begin_resync(*family, *table, Source::Api));
        }
        let mut outcome = self.change_all_routes(Source::Api, batches)?;
        if wanted.replace {
            let gone = places.iter().map(|(family, table)| self.end_resync(*family, *table, Source::Api));
            outcome.removed += gone.sum::<usize>();
        }
        Ok((outcome, passed_over))
    }

    /// A batch for each family of a file. One without routes says that there shall be none, of either family that has
    /// the table.
    fn empty_batches(&self, file: &RouteFile, wanted: &Wanted) -> Result<Vec<Batch>, Error> {
        let of_file = file.families();
        let families = match wanted.via {
            Some(next_hop) => vec![Family::of(next_hop)],
            None if of_file.is_empty() => {
                let known = |family: &Family| self.find_table(*family, wanted.table).is_ok();
                let known: Vec<_> = Family::ALL.into_iter().filter(known).collect();
                if known.is_empty() { vec![Family::Ip4] } else { known }
            }
            None => of_file,
        };
        let batch = |family: Family| Ok(Batch::new(family, self.find_table(family, wanted.table)?));
        families.into_iter().map(batch).collect()
    }
}

pub(super) fn register(set: &mut CommandSet<Router>) {
    set.add(
        Command::new(
            "ip route load <file:path> {{ [table <table:u32>] | [via <hop:ip>] | [replace] }}",
            "Add the routes of a file in one go, of both families: 'PREFIX via NEXT-HOP [INTERFACE]' or lines of \
             'bgpdump -m'.",
            load,
        )
        .example("ip route load /etc/quiver/routes.txt")
        .example("ip route load /tmp/rib.txt via 100.64.1.2 replace"),
    );
}

fn load(router: &mut Router, args: &Args) -> Result<Box<dyn Reply>, CommandError> {
    let file = router.files.open(std::path::Path::new(args.text("file")?))?;
    let table = args.optional("table")?.unwrap_or(DEFAULT_TABLE);
    let wanted = Wanted { table, replace: args.flag("replace"), via: args.optional("hop")? };
    let (outcome, passed_over) = router.load_routes(file, &wanted)?;
    let Outcome { added, replaced, removed, refused, .. } = outcome;
    let unresolved = router.ip.unresolved(Source::Api);
    reply(Loaded { added, replaced, removed, refused, passed_over, unresolved })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<RouteFile, String> {
        RouteFile::read(text.as_bytes(), None).map_err(|error| error.to_string())
    }

    #[test]
    fn lines_of_both_kinds_are_read() {
        let text = "# comment\n\n10.0.0.0/8 via 192.0.2.1\n10.0.0.0/8 via 192.0.2.2 e1\n default via 192.0.2.3 dev \
         eth0\r\n2001:db8::/32 via 2001:db8:9::1\n10.1.2.3/16 via 192.0.2.1\n2001:db8:1::7/48 via fe80::1 dev \
         e1\ndefault via 2001:db8:9::1\n2001:db8::/32 via 2001:db8:9::2\n";
        let file = read(text).unwrap();
        assert_eq!(file.families(), Family::ALL);
        let all = file.by_prefix();
        let shown: Vec<String> = all.iter().map(|(prefix, said)| format!("{prefix} {}", said.len())).collect();
        let ip6 = ["::/0 1", "2001:db8::/32 2", "2001:db8:1::/48 1"];
        assert_eq!(shown, [&["0.0.0.0/0 1", "10.0.0.0/8 2", "10.1.0.0/16 1"][..], &ip6].concat());
        assert_eq!(all[5].1[0], Said { next_hop: "fe80::1".parse().unwrap(), interface: Some("e1".into()) });
        assert_eq!(all[0].1[0].interface.as_deref(), Some("eth0"));
        let dump = "TABLE_DUMP2|1672531200|B|198.51.100.1|64500|10.0.0.0/8|64500 64501|IGP|198.51.100.1|0|0||NAG||\n\
                    TABLE_DUMP2|1672531200|B|198.51.100.2|64502|10.0.0.0/8|64502|IGP|198.51.100.2|0|0||NAG||\n\
                    TABLE_DUMP2|1672531200|B|2001:db8::1|64502|2001:db8::/32|64502|IGP|2001:db8::1|0|0||NAG||\n";
        let file = read(dump).unwrap();
        assert_eq!(file.routes.len(), 3);
        let all = file.by_prefix();
        let hops: Vec<_> = all.iter().map(|(_, said)| said[0].next_hop.to_string()).collect();
        assert_eq!(hops, ["198.51.100.1", "2001:db8::1"]);
        assert_eq!(all[0].1.len(), 1, "the first line of a prefix counts");
    }

    #[test]
    fn one_next_hop_takes_the_routes_of_its_family() {
        let text =
            "10.0.0.0/8 via 1.1.1.1\n10.0.0.0/8 via 1.1.1.2\n2001:db8::/32 via 2001:db8:9::1\n11.0.0.0/8 via 1.1.1.3";
        for (via, left_out, prefixes) in [("9.9.9.9", 1, 2), ("2001:db8::9", 3, 1)] {
            let mut file = read(text).unwrap();
            let via = via.parse().unwrap();
            assert_eq!(file.send_by(via), left_out);
            let all = file.by_prefix();
            assert_eq!(all.len(), prefixes);
            assert!(all.iter().all(|(_, said)| said == &[Said { next_hop: via, interface: None }]), "{all:?}");
        }
    }

    /// A collector's dumps have this for the next hop of IPv6 prefixes (archive.routeviews.org, July 2022).
    #[test]
    fn next_hops_that_are_replaced_need_not_be_any() {
        let text = "TABLE_DUMP_V2(2,1)|1657031910|B|10.216.15.14|17676|2001:db8:e180::/48|17676 \
         6453|IGP|255.255.255.255|100|0||NAG||\n\
                    2001:db8:1::/48 via fe80::1\n10.0.0.0/8 via gone\n";
        let hop: IpAddr = "2001:db8::63".parse().unwrap();
        let mut file = RouteFile::read(text.as_bytes(), Some(hop)).unwrap();
        assert_eq!(file.send_by(hop), 1);
        assert!(file.routes.iter().all(|(_, said)| said.next_hop == hop) && file.routes.len() == 2);
        let error = read(text).unwrap_err();
        assert_eq!(
            error,
            "line 1: '255.255.255.255' is no IPv6 next hop: the dump has none; say one with 'via NEXT-HOP' behind the \
             file's name"
        );
        assert!(RouteFile::read(&b"10.0.0.0/8 via\n"[..], Some(hop)).is_err(), "a line without is no line");
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        for (text, error) in [
            ("10.0.0.0/8 via 1.1.1.1\n10.0.0.0/33 via 1.1.1.1", "line 2: '10.0.0.0/33' is no prefix"),
            ("10.0.0.0/8", "line 1: expected '10.0.0.0/8 via NEXT-HOP [INTERFACE]'"),
            ("10.0.0.0/8 via", "line 1: '' is no IPv4 next hop"),
            ("10.0.0.0/8 via e0", "line 1: 'e0' is no IPv4 next hop"),
            ("10.0.0.0/8 via 2001:db8::1", "line 1: '2001:db8::1' is no IPv4 next hop"),
            ("2001:db8::/129 via 2001:db8::1", "line 1: '2001:db8::/129' is no prefix (like 2001:db8::/32)"),
            ("# both\n2001:db8::/32", "line 2: expected '2001:db8::/32 via NEXT-HOP [INTERFACE]'"),
            ("2001:db8::/32 via 1.1.1.1", "line 1: '1.1.1.1' is no IPv6 next hop"),
            (
                "2001:db8::/32 via fe80::1",
                "line 1: next hop fe80::1 is link-local, of one link only: name its interface",
            ),
            ("default", "line 1: expected 'default via NEXT-HOP [INTERFACE]'"),
            ("default via e0", "line 1: 'e0' is no IPv4 next hop"),
            ("10.0.0.0/8 via 1.1.1.1 dev", "an interface's name is missing"),
            ("10.0.0.0/8 via 1.1.1.1 e0 metric 20", "unexpected 'metric'"),
            ("TABLE_DUMP2|1|B", "line 1: a table dump has its prefix in the sixth field"),
            ("TABLE_DUMP2|1|B|a|b|10.0.0.0/8|x", "its next hop in the ninth field"),
        ] {
            let found = read(text).unwrap_err();
            assert!(found.contains(error), "{text}: {found}");
        }
        assert!(RouteFile::read(&b"\xff\xfe\n"[..], None).unwrap_err().to_string().contains("bgpdump -m"));
        let found = read("\x1b[2Jx via 1.1.1.1").unwrap_err();
        assert_eq!(found, r"line 1: '\u{1b}[2Jx' is no prefix (like 10.0.0.0/8)");
        let found = read(&format!("{} via 1.1.1.1", "9".repeat(1000))).unwrap_err();
        assert!(found.len() < 100 && found.contains("999...'"), "{found}");
        let long = "1".repeat(MAX_LINE as usize + 1);
        assert!(read(&long).unwrap_err().contains("longer than"));
    }

    #[test]
    fn damaged_files_are_read_or_refused() {
        let good = "10.0.0.0/8 via 192.0.2.1 dev e1\nTABLE_DUMP2|1|B|198.51.100.1|64500|10.0.0.0/8|1 \
         2|IGP|198.51.100.1|0|\n\
             2001:db8::/32 via fe80::1 dev e1\n";
        let mut random = tables::synthetic::Random::new(6);
        let mut read_well = 0;
        for _ in 0..20_000 {
            let mut bytes = good.as_bytes().to_vec();
            for _ in 0..=random.below(4) {
                let at = random.below(bytes.len() as u32) as usize;
                bytes[at] = random.draw() as u8;
            }
            bytes.truncate(random.below(bytes.len() as u32 + 1) as usize);
            if let Ok(file) = RouteFile::read(&bytes[..], None) {
                read_well += 1;
                assert!(file.by_prefix().len() <= 3);
            }
        }
        assert!((500..19_000).contains(&read_well), "{read_well}");
    }
}
