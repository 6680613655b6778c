//! What a session knows of its client's terminal, and its settings.

use std::fmt;

use crate::SessionDefaults;
use command::Args;
use serde::Serialize;

/// Most lines of one output that are paged by default, as in VPP.
pub(crate) const PAGER_LIMIT: u32 = 100_000;

/// The client's window in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    pub width: u16,
    pub height: u16,
}

impl Window {
    /// A text that is higher than the window has its lines cut to one row each, so that long listings scroll less. A
    /// shorter text is left whole.
    pub fn fit(self, text: &str) -> String {
        let (width, height) = (usize::from(self.width), usize::from(self.height));
        // Terminals that do not know their size report zero.
        if width == 0 || text.lines().count() <= height {
            return text.to_string();
        }
        text.lines().flat_map(|line| line.chars().take(width).chain(['\n'])).collect()
    }
}

/// How much of one command's output was shown, over all its replies.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Progress {
    /// Rows shown since the last stop.
    pub rows: usize,
    /// Lines written.
    pub lines: u32,
    /// The operator has asked for all of the rest at once.
    pub unpaged: bool,
}

pub(crate) struct Terminal {
    pub name: String,
    pub window: Window,
    /// Whether colours are used.
    pub ansi: bool,
    pub pager: bool,
    /// Most lines of one output that are paged.
    pub pager_limit: u32,
    pub progress: Progress,
}

impl Terminal {
    pub fn new(manners: &SessionDefaults) -> Self {
        Self {
            name: String::new(),
            // The defaults for a terminal that reports nothing.
            window: Window { width: 80, height: 24 },
            ansi: false,
            pager: manners.pager,
            pager_limit: manners.pager_limit,
            progress: Progress::default(),
        }
    }

    /// Takes the terminal's type, which decides whether it has colours.
    pub fn set_name(&mut self, name: &str) {
        self.name = name.to_string();
        self.ansi = self.is_ansi_capable();
    }

    fn is_ansi_capable(&self) -> bool {
        !matches!(self.name.as_str(), "" | "dumb")
    }

    /// Columns of a row, where the cursor can move from one row to another; else 0.
    pub fn columns(&self) -> usize {
        if self.is_ansi_capable() { usize::from(self.window.width) } else { 0 }
    }

    pub fn set_pager(&mut self, args: &Args) {
        set(&mut self.pager, args);
        // The grammar has checked that it is a number.
        if let Ok(Some(limit)) = args.optional("limit") {
            self.pager_limit = limit;
        }
    }

    pub fn set_ansi(&mut self, args: &Args) {
        set(&mut self.ansi, args);
    }

    /// A text in a style (an SGR parameter of ECMA-48), if the terminal has colours.
    pub fn styled(&self, style: &str, text: &str) -> String {
        match self.ansi {
            true => format!("\x1b[{style}m{text}\x1b[0m"),
            false => text.to_string(),
        }
    }

    pub fn shown(&self, mode: &'static str, history: Option<usize>) -> ShownTerminal {
        ShownTerminal {
            name: self.name.clone(),
            mode,
            width: self.window.width,
            height: self.window.height,
            ansi_capable: self.is_ansi_capable(),
            ansi: self.ansi,
            history: history.is_some(),
            history_limit: history.unwrap_or(0),
            pager: self.pager,
            pager_limit: self.pager_limit,
        }
    }
}

/// Sets a setting to the `state` that a command gave, if it gave one.
pub(crate) fn set(setting: &mut bool, args: &Args) {
    if let Some(state) = args.optional_text("state") {
        *setting = state == "on";
    }
}

/// The reply of `show terminal`.
#[derive(Serialize)]
pub(crate) struct ShownTerminal {
    name: String,
    mode: &'static str,
    width: u16,
    height: u16,
    ansi_capable: bool,
    ansi: bool,
    history: bool,
    history_limit: usize,
    pager: bool,
    pager_limit: u32,
}

impl fmt::Display for ShownTerminal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let yes = |is: bool| if is { "yes" } else { "no" };
        writeln!(f, "Terminal name:   {}", self.name)?;
        writeln!(f, "Terminal mode:   {}", self.mode)?;
        writeln!(f, "Terminal width:  {}", self.width)?;
        writeln!(f, "Terminal height: {}", self.height)?;
        writeln!(f, "ANSI capable:    {}", yes(self.ansi_capable))?;
        writeln!(f, "ANSI enabled:    {}", yes(self.ansi))?;
        writeln!(f, "History enabled: {}", yes(self.history))?;
        writeln!(f, "History limit:   {}", self.history_limit)?;
        writeln!(f, "Pager enabled:   {}", yes(self.pager))?;
        writeln!(f, "Pager limit:     {}", self.pager_limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listing_higher_than_the_window_is_cut_to_its_width() {
        let window = Window { width: 4, height: 2 };
        assert_eq!(window.fit("abcdef\ng\nh\n"), "abcd\ng\nh\n");
        assert_eq!(window.fit("abcdef\ng\n"), "abcdef\ng\n");
    }

    #[test]
    fn a_terminal_without_a_name_or_a_dumb_one_has_no_colours() {
        for (name, shown) in [("xterm", "\x1b[1mtext\x1b[0m"), ("dumb", "text"), ("", "text")] {
            let mut terminal = Terminal::new(&SessionDefaults::default());
            terminal.set_name(name);
            assert_eq!(terminal.styled("1", "text"), shown, "{name}");
        }
    }
}
