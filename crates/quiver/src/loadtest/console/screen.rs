//! The console at a terminal: what ports do, graphs of the last minutes, the messages, and the input line.

use super::{Steered, TICK, words};
use loadtest::arithmetic::scaled;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Style};
use ratatui::text::Line;
use ratatui::widgets::{Block, Paragraph, Sparkline};
use ratatui::{DefaultTerminal, Frame};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use tui_input::Input;
use tui_input::backend::crossterm::EventHandler;
use words::{Done, Waiting};

/// Rates that are kept for the graph: more than a terminal is wide.
const PAST: usize = 600;
/// Messages, and input lines, that are kept.
const SAID: usize = 500;
const TYPED: usize = 100;
/// Height of the graphs of past rates.
const GRAPH: u16 = 4;
/// Message lines that are always visible, and that a page key scrolls by.
const SPEECH: u16 = 4;
const PAGE: usize = 4;

/// The state of the screen.
struct Screen {
    input: Input,
    said: VecDeque<String>,
    typed: Vec<String>,
    /// Which input line is shown; their number means the line being typed.
    at: usize,
    sent: VecDeque<u64>,
    received: VecDeque<u64>,
    seen: f64,
    /// Lines of the last answer, and lines scrolled back.
    answer: usize,
    back: usize,
    is_over: bool,
}

/// Shows the screen until the operator leaves.
///
/// # Errors
/// What failed, as text.
pub fn run(steered: &mut Steered, notes: Vec<String>, interrupted: &AtomicBool) -> Result<(), String> {
    let mut terminal = ratatui::try_init().map_err(|error| format!("terminal: {error}"))?;
    let outcome = Screen::new(notes).show(steered, &mut terminal, interrupted);
    ratatui::restore();
    // The results stay in the terminal.
    let last = steered.stop_all();
    super::say(&last)?;
    outcome
}

impl Screen {
    fn new(notes: Vec<String>) -> Screen {
        let mut screen = Screen {
            input: Input::default(),
            said: VecDeque::new(),
            typed: Vec::new(),
            at: 0,
            sent: VecDeque::new(),
            received: VecDeque::new(),
            seen: -1.0,
            answer: 0,
            back: 0,
            is_over: false,
        };
        notes.iter().for_each(|note| screen.say(&format!("Note: {note}")));
        screen.say("'start -f bench -m 1kpps' sends, 'help' lists what else there is, 'quit' leaves.");
        screen
    }

    fn say(&mut self, text: &str) {
        (self.answer, self.back) = (text.trim_end().lines().count(), 0);
        for line in text.trim_end().lines() {
            if self.said.len() == SAID {
                self.said.pop_front();
            }
            self.said.push_back(line.to_string());
        }
    }

    fn show(
        &mut self,
        steered: &mut Steered,
        terminal: &mut DefaultTerminal,
        interrupted: &AtomicBool,
    ) -> Result<(), String> {
        let wrong = |error: std::io::Error| format!("terminal: {error}");
        let mut is_stale = true;
        while !self.is_over && !interrupted.load(Ordering::Relaxed) {
            for text in steered.tick()? {
                self.say(&text);
                is_stale = true;
            }
            is_stale |= self.look(steered);
            if is_stale {
                terminal.draw(|frame| self.draw(frame, steered)).map_err(wrong)?;
            }
            is_stale = event::poll(TICK).map_err(wrong)?;
            if is_stale {
                self.take(&event::read().map_err(wrong)?, steered);
            }
        }
        Ok(())
    }

    /// Adds the rates of a new view to the graph.
    fn look(&mut self, steered: &Steered) -> bool {
        let view = steered.console.view();
        if view.at == self.seen {
            return false;
        }
        self.seen = view.at;
        for (past, now) in [(&mut self.sent, view.sent_pps()), (&mut self.received, view.received_pps())] {
            if past.len() == PAST {
                past.pop_front();
            }
            past.push_back(now as u64);
        }
        true
    }

    fn take(&mut self, event: &Event, steered: &mut Steered) {
        let Event::Key(KeyEvent { code, modifiers, kind, .. }) = event else { return };
        if *kind == KeyEventKind::Release {
            return;
        }
        let is_control = modifiers.contains(KeyModifiers::CONTROL);
        match code {
            KeyCode::Char('c' | 'd') if is_control && self.input.value().is_empty() => self.is_over = true,
            KeyCode::Char('c') if is_control => self.input.reset(),
            KeyCode::Enter => self.enter(steered),
            // A line feed that was typed before raw mode began.
            KeyCode::Char('j') if is_control => self.enter(steered),
            KeyCode::Up if self.at > 0 => self.recall(self.at - 1),
            KeyCode::Down if self.at < self.typed.len() => self.recall(self.at + 1),
            KeyCode::Tab => self.complete(),
            KeyCode::PageUp => self.back = (self.back + PAGE).min(SAID),
            KeyCode::PageDown => self.back = self.back.saturating_sub(PAGE),
            _ => {
                self.input.handle_event(event);
            }
        }
    }

    fn recall(&mut self, at: usize) {
        self.at = at;
        self.input = Input::new(self.typed.get(at).cloned().unwrap_or_default());
    }

    /// Completes the first word, if only one begins like that.
    fn complete(&mut self) {
        let begun = self.input.value().to_string();
        let mut names = words::names();
        names.retain(|name| name.starts_with(&begun));
        match names.as_slice() {
            [name] => self.input = Input::new(format!("{name} ")),
            [] => {}
            several => self.say(&several.join("  ")),
        }
    }

    fn enter(&mut self, steered: &mut Steered) {
        let line = self.input.value_and_reset().trim().to_string();
        if line.is_empty() {
            return;
        }
        if self.typed.last() != Some(&line) {
            self.typed.push(line.clone());
            if self.typed.len() > TYPED {
                self.typed.remove(0);
            }
        }
        self.at = self.typed.len();
        self.say(&format!("> {line}"));
        match words::carry_out(&mut steered.console, &line) {
            Ok(Done::Said(text)) => self.say(&text),
            Ok(Done::Quit) => self.is_over = true,
            Ok(Done::Wait(Waiting::Until(_) | Waiting::Idle)) => {
                self.say("only a script waits: here one sees how it goes")
            }
            Err(why) => self.say(&why),
        }
    }

    fn draw(&self, frame: &mut Frame<'_>, steered: &Steered) {
        let view = steered.console.view();
        let lines = view.lines();
        let whole = frame.area();
        // On a small screen the graphs are left out first, then the end of the table.
        let most = whole.height.saturating_sub(1);
        // A long answer gets at most two thirds.
        let speech = (self.answer as u16 + 1).clamp(SPEECH, (most / 3 * 2).max(SPEECH));
        let has_graphs = most >= lines.len() as u16 + 2 * GRAPH + speech;
        let graph = Constraint::Length(if has_graphs { GRAPH } else { 0 });
        let table = (lines.len() as u16).min(most.saturating_sub(speech));
        let [top, sent, received, speech, input] =
            Layout::vertical([Constraint::Length(table), graph, graph, Constraint::Min(0), Constraint::Length(1)])
                .areas(whole);
        let styled = |line: &String| {
            let style = match line.split_whitespace().next() {
                Some("Port") => Style::new().bold().reversed(),
                Some("state") if line.contains("TRANSMITTING") => Style::new().fg(Color::Green),
                Some("link") if line.contains("DOWN") => Style::new().fg(Color::Red),
                Some("lost") if line.split_whitespace().any(|word| word.parse::<u64>().is_ok_and(|lost| lost > 0)) => {
                    Style::new().fg(Color::Red)
                }
                _ => Style::new(),
            };
            Line::styled(line.clone(), style)
        };
        frame.render_widget(Paragraph::new(lines.iter().map(styled).collect::<Vec<_>>()), top);
        if has_graphs {
            draw_past(frame, sent, "sent", &self.sent, Color::Cyan);
            draw_past(frame, received, "received", &self.received, Color::Green);
        }
        let rows: Vec<String> = self.said.iter().flat_map(|line| wrapped(line, speech.width.into())).collect();
        let height = usize::from(speech.height);
        let first = rows.len().saturating_sub(height).saturating_sub(self.back.min(rows.len().saturating_sub(height)));
        let said: Vec<Line<'_>> = rows.iter().skip(first).map(|line| Line::raw(line.as_str())).collect();
        frame.render_widget(Paragraph::new(said), speech);
        let width = input.width.saturating_sub(3);
        let scroll = self.input.visual_scroll(width.into());
        let typed: String = self.input.value().chars().skip(scroll).collect();
        frame.render_widget(Paragraph::new(format!("> {typed}")), input);
        let cursor = (self.input.visual_cursor() - scroll) as u16 + 2;
        frame.set_cursor_position((input.x + cursor.min(input.width.saturating_sub(1)), input.y));
    }
}

/// A line, wrapped to a width.
fn wrapped(line: &str, width: usize) -> Vec<String> {
    let letters: Vec<char> = line.chars().collect();
    match letters.is_empty() {
        true => vec![String::new()],
        false => letters.chunks(width.max(1)).map(|piece| piece.iter().collect()).collect(),
    }
}

/// The last rates as bars, the newest at the right.
fn draw_past(frame: &mut Frame<'_>, area: Rect, what: &str, past: &VecDeque<u64>, colour: Color) {
    let skip = past.len().saturating_sub(area.width.into());
    let shown: Vec<u64> = past.iter().skip(skip).copied().collect();
    let most = shown.iter().copied().max().unwrap_or(0);
    let title = format!("{what}, up to {}pps, a bar for each look", scaled(most as f64));
    let bars = Sparkline::default().data(&shown).style(Style::new().fg(colour)).block(Block::new().title(title));
    frame.render_widget(bars, area);
}
