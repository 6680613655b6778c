//! Section `plugins`. Capabilities are built in: nothing is loaded, and nothing needs to be.

use std::path::PathBuf;

use super::reader::{Given, Key, Reading};
use super::tree::{Block, Complaint};

pub(super) const KEYS: &[Key] = &[
    Key::value("path", "directories"),
    Key::values("add-path", "directories"),
    Key::named_with("plugin", "the name of a plugin or 'default'", &["enable", "disable", "skip-version-check"]),
    Key::value("name-filter", "a word").idle("nothing is loaded"),
    Key::value("vat-path", "directories").idle("nothing is loaded"),
    Key::value("vat-name-filter", "a word").idle("nothing is loaded"),
];

pub(super) const PLUGIN_KEYS: &[Key] = &[Key::flag("enable"), Key::flag("disable"), Key::flag("skip-version-check")];

/// Which plugins VPP would load.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plugins {
    pub path: Option<PathBuf>,
    pub add_path: Vec<PathBuf>,
    /// Whether plugins that are not named are enabled, when it is said.
    pub default: Option<bool>,
    /// Plugins by name, and whether each is enabled, when it is said.
    pub plugins: Vec<(String, Option<bool>)>,
}

impl Plugins {
    pub(super) fn read(&mut self, block: &Block<'_>, reading: &mut Reading) -> Result<(), Complaint> {
        for given in reading.keys("plugins", block, KEYS)? {
            let value = &given.value;
            match given.key {
                "path" => self.path = Some(value.path()),
                "add-path" => self.add_path.push(value.path()),
                "plugin" => {
                    let enabled = plugin(value.text, &given, reading)?;
                    match value.text {
                        "default" => self.default = enabled,
                        name => self.plugins.push((name.into(), enabled)),
                    }
                }
                key => unreachable!("key {key} is listed"),
            }
        }
        Ok(())
    }

    pub(super) fn finish(&self, reading: &mut Reading) {
        if *self == Self::default() {
            return;
        }
        let wanted = self.plugins.iter().filter(|(_, enabled)| *enabled == Some(true));
        let wanted: Vec<&str> = wanted.map(|(name, _)| name.as_str()).collect();
        let named = if wanted.is_empty() { String::new() } else { format!(" ({} too)", wanted.join(", ")) };
        reading.warnings.push(format!(
            "plugins: no plugins are loaded{named}: what this version can do is built in, and '?' in a session lists it"
        ));
    }
}

/// Whether a plugin is enabled, when it is said.
fn plugin(name: &str, given: &Given<'_>, reading: &mut Reading) -> Result<Option<bool>, Complaint> {
    let mut said = given.words.clone();
    if let Some(block) = given.block {
        let keys = reading.keys(&format!("plugins plugin {name}"), block, PLUGIN_KEYS)?;
        said.extend(keys.iter().map(|given| (given.key, given.value.place)));
    }
    let mut enabled = None;
    for (word, place) in said {
        let says = match word {
            "enable" => true,
            "disable" => false,
            _ => continue,
        };
        if enabled.replace(says).is_some() {
            return Err(Complaint::new(place, format!("plugin '{name}' cannot be both enabled and disabled")));
        }
    }
    Ok(enabled)
}
