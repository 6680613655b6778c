//! How an interface checks the sources of its packets.

/// How the sources of an interface's packets are checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SourceCheck {
    pub mode: Mode,
    /// The default route counts as a route to a source.
    pub allow_default: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// There is a route to the source.
    Loose,
    /// A route to the source leads out by the interface that the packet came by.
    Strict,
}

impl std::fmt::Display for SourceCheck {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self.mode {
            Mode::Loose => "loose",
            Mode::Strict => "strict",
        })?;
        if self.allow_default { f.write_str(" allow-default") } else { Ok(()) }
    }
}
