//! What a command measured, as it is kept (JSON) and drawn ([`crate::page`]).

use crate::method::matrix::Matrix;
use crate::method::ramp::Ramp;
use crate::method::saturate::Saturation;
use crate::method::search::Search;
use crate::method::soak::Soak;
use crate::method::sweep::Sweep;
use crate::others::Others;
use crate::report::Machine;
use serde::{Deserialize, Serialize};

/// Of the data: changes when what is there means something else.
pub const FORMAT: &str = "quiver-loadtest-session/1";
/// How a file begins that has one.
pub const BEGINNING: &str = "{\n  \"format\": \"quiver-loadtest-session/";
/// Charts and sums have room for figures up to this.
const LARGEST: f64 = 1e18;
/// The longest file that is read.
const MOST: u64 = 256 << 20;

/// Tests that belong together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Session {
    pub format: String,
    /// What others used of the cores, in the test in which it was the most.
    #[serde(default)]
    pub others: Others,
    pub program: String,
    /// As it was typed.
    pub command: String,
    /// Seconds since 1970.
    pub started: f64,
    pub machine: Machine,
    pub tests: Vec<Test>,
    pub notes: Vec<String>,
}

/// What was done, and what came of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "method", rename_all = "kebab-case")]
pub enum Test {
    Ramp(Box<Ramp>),
    Matrix(Matrix),
    Saturate(Saturation),
    Sweep(Sweep),
    Search(Box<Search>),
    Soak(Box<Soak>),
}

impl Test {
    /// What others used of the cores meanwhile, at its most.
    pub fn others(&self) -> Option<&Others> {
        match self {
            Test::Ramp(ramp) => Some(&ramp.total.others),
            Test::Matrix(matrix) => matrix.others(),
            Test::Saturate(saturation) => saturation.others(),
            Test::Sweep(sweep) => sweep.others(),
            Test::Search(search) => Some(&search.others),
            Test::Soak(soak) => Some(&soak.total.others),
        }
    }
}

impl Session {
    pub fn new(command: String, machine: Machine) -> Session {
        let started = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        Session {
            format: FORMAT.into(),
            others: Others::default(),
            program: format!("quiver {}", env!("CARGO_PKG_VERSION")),
            command,
            started: started.map_or(0.0, |since| since.as_secs_f64()),
            machine,
            tests: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// Adds a test that was done.
    pub fn add(&mut self, test: Test) {
        if let Some(others) = test.others() {
            self.others = Others::worst_of([&self.others, others]).cloned().unwrap_or_default();
        }
        self.tests.push(test);
    }

    /// Reads one that was kept.
    ///
    /// # Errors
    /// What is wrong with the file, in words.
    pub fn read(path: &str) -> Result<Session, String> {
        let wrong = |error: &dyn std::fmt::Display| format!("{path}: {error}");
        let text = command::Files::anywhere().read_text(path.as_ref(), MOST).map_err(|error| error.to_string())?;
        let value: serde_json::Value = serde_json::from_str(&text).map_err(|error| wrong(&error))?;
        if !is_bounded(&value) {
            return Err(wrong(&format!("it has a number beyond {LARGEST:e}: no figure of a test is so large")));
        }
        match value.get("format").and_then(serde_json::Value::as_str) {
            Some(FORMAT) => serde_json::from_value(value).map_err(|error| wrong(&error)),
            Some(other) => Err(wrong(&format!("its format is '{other}', not '{FORMAT}'"))),
            None => Err(wrong(&format!("it has no 'format': sessions have '{FORMAT}'"))),
        }
    }
}

/// Whether all numbers are such that they can be summed up and drawn.
fn is_bounded(value: &serde_json::Value) -> bool {
    match value {
        serde_json::Value::Number(number) => number.as_f64().is_some_and(|number| number.abs() <= LARGEST),
        serde_json::Value::Array(values) => values.iter().all(is_bounded),
        serde_json::Value::Object(values) => values.values().all(is_bounded),
        _ => true,
    }
}
