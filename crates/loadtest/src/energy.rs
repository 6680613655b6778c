//! What a packet costs in energy: by the meters of the processor (RAPL, as Linux shows them below
//! `/sys/class/powercap`), or by what a meter at the plug said before and under load.

use crate::arithmetic::significant;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::{Duration, Instant};

/// Where Linux shows them.
const POWERCAP: &str = "/sys/class/powercap";
/// For how long the machine is watched while it does nothing.
const IDLE: Duration = Duration::from_millis(200);
/// More than any machine takes.
const MOST_WATTS: f64 = 1e6;

/// What a meter at the plug said.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Watts {
    pub idle: f64,
    pub load: f64,
}

impl FromStr for Watts {
    type Err = String;

    /// `12,17`.
    fn from_str(text: &str) -> Result<Watts, String> {
        let watts = |text: &str| text.trim().trim_end_matches(['W', 'w']).parse::<f64>().ok();
        let read = text.split_once(',').and_then(|(idle, load)| Some((watts(idle)?, watts(load)?)));
        match read {
            Some((idle, load)) if 0.0 <= idle && idle <= load && 0.0 < load && load <= MOST_WATTS => {
                Ok(Watts { idle, load })
            }
            _ => Err(format!("'{text}': watts of the machine when it is idle, and no fewer under load, as 12,17")),
        }
    }
}

/// What a run took.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Energy {
    /// Who says so.
    pub source: String,
    pub watts: f64,
    pub idle_watts: f64,
    /// For each packet that came through: of all energy, and of what the machine took more than when it is idle.
    pub microjoules: f64,
    pub microjoules_above_idle: f64,
}

impl Energy {
    /// None: nothing came through.
    fn of(source: String, Watts { idle, load }: Watts, packets_a_second: f64) -> Option<Energy> {
        let each = |watts: f64| watts / packets_a_second * 1e6;
        (packets_a_second > 0.0).then(|| Energy {
            source,
            watts: load,
            idle_watts: idle,
            microjoules: each(load),
            microjoules_above_idle: each((load - idle).max(0.0)),
        })
    }

    /// By a meter at the plug.
    pub fn given(watts: Watts, packets_a_second: f64) -> Option<Energy> {
        Energy::of("as was told".into(), watts, packets_a_second)
    }
}

impl fmt::Display for Energy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} W, {} W when idle: {} uJ a packet, {} uJ of them above idle ({})",
            significant(self.watts),
            significant(self.idle_watts),
            significant(self.microjoules),
            significant(self.microjoules_above_idle),
            self.source
        )
    }
}

/// The processor's meters.
#[derive(Debug)]
pub struct Meters {
    domains: Vec<Domain>,
    idle: f64,
    /// Since when, and how many microjoules until now.
    since: Instant,
    used: u64,
}

/// A part of the machine that is metered.
#[derive(Debug)]
struct Domain {
    name: String,
    file: PathBuf,
    /// Microjoules at which it begins anew.
    range: u64,
    last: u64,
}

impl Domain {
    fn read(&self) -> Option<u64> {
        number(&self.file)
    }

    /// Microjoules since it was asked last.
    fn used(&mut self) -> u64 {
        let Some(now) = self.read() else { return 0 };
        let used = match now >= self.last {
            true => now - self.last,
            false => (self.range - self.last.min(self.range)) + now,
        };
        self.last = now;
        used
    }
}

fn number(file: &Path) -> Option<u64> {
    std::fs::read_to_string(file).ok()?.trim().parse().ok()
}

impl Meters {
    /// Those of this machine, which does nothing as yet. None: it has none that may be read.
    pub fn here() -> Option<Meters> {
        Meters::at(Path::new(POWERCAP), IDLE)
    }

    /// Processors and their memory; what they have inside is in the processors' own.
    fn at(directory: &Path, watch: Duration) -> Option<Meters> {
        let mut domains: Vec<Domain> = Vec::new();
        for entry in std::fs::read_dir(directory).ok()?.flatten() {
            let path = entry.path();
            let name = std::fs::read_to_string(path.join("name")).unwrap_or_default().trim().to_string();
            // By 'mmio' the same processors are metered again.
            let is_another_way = entry.file_name().to_string_lossy().contains("mmio");
            if is_another_way || !name.starts_with("package") && name != "dram" {
                continue;
            }
            let file = path.join("energy_uj");
            let (Some(last), Some(range)) = (number(&file), number(&path.join("max_energy_range_uj"))) else {
                continue;
            };
            domains.push(Domain { name, file, range, last });
        }
        if domains.is_empty() {
            return None;
        }
        domains.sort_by(|a, b| a.name.cmp(&b.name));
        let mut meters = Meters { domains, idle: 0.0, since: Instant::now(), used: 0 };
        std::thread::sleep(watch);
        meters.idle = meters.watts();
        Some(meters)
    }

    /// Begins to count.
    pub fn start(&mut self) {
        self.poll();
        (self.since, self.used) = (Instant::now(), 0);
    }

    /// To be called before a meter has begun anew twice: once a minute is enough.
    pub fn poll(&mut self) {
        self.used += self.domains.iter_mut().map(Domain::used).sum::<u64>();
    }

    /// Of the time since it began to count.
    fn watts(&mut self) -> f64 {
        self.poll();
        self.used as f64 / 1e6 / self.since.elapsed().as_secs_f64().max(1e-9)
    }

    /// What was taken since it began to count, while so many packets came through in a second.
    pub fn energy(&mut self, packets_a_second: f64) -> Option<Energy> {
        let mut names: Vec<&str> = self.domains.iter().map(|domain| domain.name.as_str()).collect();
        names.dedup();
        let source = format!("RAPL: {}, the load tester's own work among it", names.join(", "));
        let load = self.watts();
        Energy::of(source, Watts { idle: self.idle, load }, packets_a_second)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_of_the_small_machine_costs_what_its_owner_measured() {
        // 12 W idle, 17 W under a load of 13.4 Mpps.
        let energy = Energy::given("12,17W".parse().unwrap(), 13.4e6).unwrap();
        assert!((energy.microjoules - 1.2687).abs() < 1e-4 && (energy.microjoules_above_idle - 0.3731).abs() < 1e-4);
        assert_eq!(
            energy.to_string(),
            "17 W, 12 W when idle: 1.269 uJ a packet, 0.373 uJ of them above idle (as was told)"
        );
        assert_eq!(Energy::given(Watts { idle: 1.0, load: 2.0 }, 0.0), None);
        for text in ["", "12", "17,12", "-1,5", "a,b", "0,0", "1,1e9", "nan,nan"] {
            assert!(text.parse::<Watts>().is_err(), "{text}");
        }
    }

    #[test]
    fn meters_of_processors_and_memory_are_read_beyond_their_end() {
        let directory = std::env::temp_dir().join(format!("quiver-powercap-{}", std::process::id()));
        let write = |domain: &str, file: &str, text: &str| {
            std::fs::create_dir_all(directory.join(domain)).unwrap();
            std::fs::write(directory.join(domain).join(file), text).unwrap();
        };
        for (domain, name) in [
            ("intel-rapl:0", "package-0"),
            ("intel-rapl:0:0", "core"),
            ("intel-rapl:0:1", "dram"),
            ("intel-rapl:1", "psys"),
            ("intel-rapl-mmio:0", "package-0"),
        ] {
            write(domain, "name", &format!("{name}\n"));
            write(domain, "max_energy_range_uj", "1000000\n");
            write(domain, "energy_uj", "900000\n");
        }
        let mut meters = Meters::at(&directory, Duration::ZERO).unwrap();
        let names: Vec<&str> = meters.domains.iter().map(|domain| domain.name.as_str()).collect();
        assert_eq!(names, ["dram", "package-0"]);
        meters.start();
        write("intel-rapl:0", "energy_uj", "950000\n");
        meters.poll();
        // It began anew.
        write("intel-rapl:0", "energy_uj", "50000\n");
        write("intel-rapl:0:1", "energy_uj", "900010\n");
        write("intel-rapl:0:0", "energy_uj", "999999\n");
        meters.poll();
        assert_eq!(meters.used, 50_000 + 100_000 + 10);
        // What cannot be read any more adds nothing.
        std::fs::remove_dir_all(&directory).unwrap();
        meters.poll();
        assert_eq!(meters.used, 150_010);
        let energy = meters.energy(1000.0).unwrap();
        assert!(energy.watts > 0.0 && energy.source.starts_with("RAPL: dram, package-0"), "{energy:?}");
        assert!(Meters::at(&directory, Duration::ZERO).is_none());
    }
}
