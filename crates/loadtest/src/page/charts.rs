//! The charts, as SVG.

use super::axes::{self, Scale};
use super::palette::{self, Colours, Part};
use crate::arithmetic::{scaled, significant};
use crate::load::{Kind, Shares};
use crate::method::matrix::{Matrix, Row};
use crate::method::ramp::{PortPoint, Ramp};
use crate::method::search::Search;
use crate::method::soak::Soak;
use crate::method::sweep::Sweep;
use crate::method::trial::{Moment, Trial};
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

const SIZE: (u32, u32) = (1000, 380);
const FONT: &str = "sans-serif";
/// Heights of letters, in pixels: on axes, and at marks.
const AXIS_LETTERS: f64 = 13.0;
const MARK_LETTERS: f64 = 12.0;
/// Space for axes, in pixels.
const MARGIN: u32 = 10;
const LEFT: u32 = 76;
const RIGHT: u32 = 60;
const NO_RIGHT: u32 = 16;
/// Rows of text at marks.
const MARK_ROWS: usize = 5;

/// A drawing, and the meaning of its colours: the legend is below it, where it hides nothing.
pub struct Chart {
    pub svg: String,
    pub legend: Vec<Key>,
}

/// The meaning of a colour.
pub struct Key {
    pub name: String,
    pub colour: RGBColor,
    pub is_dashed: bool,
}

impl Key {
    fn new(name: impl Into<String>, colour: RGBColor) -> Key {
        Key { name: name.into(), colour, is_dashed: false }
    }
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Failure<'a> = DrawingAreaErrorKind<<SVGBackend<'a> as DrawingBackend>::ErrorType>;

/// Draws an SVG. Writing to text in memory cannot fail.
fn svg(draw: impl for<'a> FnOnce(&Area<'a>) -> Result<(), Failure<'a>>) -> String {
    let mut text = String::new();
    {
        let area = SVGBackend::with_string(&mut text, SIZE).into_drawing_area();
        let drawn = area.fill(&WHITE).and_then(|()| draw(&area)).and_then(|()| area.present());
        if let Err(error) = drawn {
            log::warn!("a chart cannot be drawn: {error}");
        }
    }
    text
}

/// `14.9 M` of packets a second.
fn rate(value: &f64) -> String {
    scaled(*value).trim().into()
}

/// The power of ten at a place of a logarithmic axis.
fn power(exponent: &f64) -> String {
    if exponent.fract().abs() < 1e-6 { rate(&10f64.powf(*exponent)) } else { String::new() }
}

fn tested(matrix: &Matrix) -> impl Iterator<Item = (&Row, &Trial)> {
    matrix.rows.iter().filter_map(|row| Some((row, row.trial.as_ref()?)))
}

/// Names of tests, short enough to fit below bars: `U 64b Multi`.
fn short(name: &str) -> String {
    name.replace("Unidirectional", "U").replace("Bidirectional", "B")
}

/// A bar: its horizontal range, and its range of values.
struct Bar {
    left: f64,
    right: f64,
    from: f64,
    to: f64,
    colour: RGBColor,
}

/// Rows of bars, with names below.
struct Bars<'a> {
    title: &'a str,
    unit: &'a str,
    names: &'a [String],
    scale: Scale,
    label: &'a dyn Fn(&f64) -> String,
    bars: Vec<Bar>,
    /// Heights of whole bars and their places, for bars that are cut off.
    totals: Vec<(f64, f64, f64)>,
    legend: Vec<Key>,
}

impl Bars<'_> {
    fn draw(self) -> Chart {
        let (bottom, top) = self.scale.range();
        let is_log = matches!(self.scale, Scale::Log(..));
        let label = |value: &f64| if is_log { power(value) } else { (self.label)(value) };
        // Names that are wider than their bars are written in two rows.
        let slot = f64::from(SIZE.0 - LEFT - 2 * MARGIN - NO_RIGHT) / self.names.len().max(1) as f64;
        let is_narrow = self.names.iter().any(|name| axes::width(name, AXIS_LETTERS) + 6.0 > slot);
        let letters = (2.0 * slot / AXIS_LETTERS / 0.6).max(3.0) as usize;
        let svg = svg(|area| {
            let mut chart = ChartBuilder::on(area)
                .caption(self.title, (FONT, 18))
                .margin(MARGIN)
                .margin_right(NO_RIGHT)
                .x_label_area_size(if is_narrow { 46 } else { 32 })
                .y_label_area_size(LEFT)
                .build_cartesian_2d(0f64..(self.names.len() as f64).max(1.0), bottom..top)?;
            chart
                .configure_mesh()
                .disable_x_mesh()
                .light_line_style(TRANSPARENT)
                .bold_line_style(BLACK.mix(0.12))
                .x_labels(0)
                .y_desc(self.unit)
                .y_labels(if is_log { (top - bottom) as usize + 1 } else { 8 })
                .y_label_formatter(&label)
                .label_style((FONT, AXIS_LETTERS))
                .axis_desc_style((FONT, AXIS_LETTERS))
                .draw()?;
            for (at, name) in self.names.iter().enumerate() {
                let (x, y) = chart.backend_coord(&(at as f64 + 0.5, bottom));
                let name: String = if is_narrow { name.chars().take(letters).collect() } else { name.clone() };
                let row = if is_narrow && at % 2 == 1 { 16 } else { 0 };
                word(area, &name, (x, y + 8 + row), AXIS_LETTERS, BLACK, HPos::Center, VPos::Top)?;
            }
            for Bar { left, right, from, to, colour } in &self.bars {
                let (from, to) = (self.scale.place(*from), self.scale.place(*to));
                chart.draw_series([Rectangle::new([(*left, from), (*right, to)], colour.filled())])?;
            }
            // A bar that exceeds the top has a gap, and its height is written there.
            for (left, right, total) in
                self.totals.iter().filter(|(.., total)| self.scale == Scale::Broken(top) && *total > top)
            {
                let gap = |at: f64| top * at;
                let teeth = 8;
                let tooth = |n: i32| left + (right - left) * f64::from(n) / f64::from(teeth);
                let edge =
                    |low: f64| (0..=teeth).map(move |n| (tooth(n), gap(low + if n % 2 == 0 { 0.0 } else { 0.02 })));
                let shape: Vec<(f64, f64)> =
                    edge(0.84).chain(edge(0.87).collect::<Vec<_>>().into_iter().rev()).collect();
                chart.draw_series([Polygon::new(shape, WHITE.filled())])?;
                let (x, y) = chart.backend_coord(&((left + right) / 2.0, gap(0.97)));
                let told = (self.label)(total);
                let half = (axes::width(&told, AXIS_LETTERS) / 2.0 + 4.0) as i32;
                area.draw(&Rectangle::new([(x - half, y - 1), (x + half, y + 15)], WHITE.mix(0.85).filled()))?;
                word(area, &told, (x, y), AXIS_LETTERS, BLACK, HPos::Center, VPos::Top)?;
            }
            Ok(())
        });
        Chart { svg, legend: self.legend }
    }
}

/// Writes a word at a place of the drawing, in pixels.
fn word<'a>(
    area: &Area<'a>,
    text: &str,
    at: (i32, i32),
    letters: f64,
    colour: RGBColor,
    across: HPos,
    up: VPos,
) -> Result<(), Failure<'a>> {
    let style = (FONT, letters).into_font().color(&colour).pos(Pos::new(across, up));
    area.draw(&Text::new(text.to_string(), at, style))
}

/// Packets a second of each test, devices side by side.
pub fn comparison(matrices: &[&Matrix], colours: &mut Colours) -> Chart {
    let names: Vec<&str> =
        matrices.first().map_or(Vec::new(), |first| first.rows.iter().map(|row| row.name.as_str()).collect());
    let rates: Vec<f64> =
        matrices.iter().flat_map(|matrix| tested(matrix)).map(|(_, trial)| trial.received_pps).collect();
    let sent = matrices.iter().flat_map(|matrix| tested(matrix)).map(|(_, trial)| trial.sent_pps).fold(0.0, f64::max);
    let scale = match axes::of_bars(&rates) {
        Scale::Log(bottom, top) => Scale::Log(bottom, top.max(axes::above(sent).log10().ceil())),
        Scale::Linear(top) => Scale::Linear(top.max(axes::above(sent))),
        other => other,
    };
    let (bottom, top) = scale.range();
    let (mut all, mut legend) = (Vec::new(), Vec::new());
    let width = 0.8 / matrices.len().max(1) as f64;
    for (number, matrix) in matrices.iter().enumerate() {
        let colour = colours.device(&matrix.device);
        legend.push(Key::new(&matrix.device, colour));
        for (row, trial) in tested(matrix) {
            let Some(at) = names.iter().position(|name| *name == row.name) else { continue };
            let left = at as f64 + 0.1 + number as f64 * width;
            let right = left + width * 0.92;
            all.push(Bar { left, right, from: 0.0, to: trial.received_pps, colour });
            // The rate offered, as a line of the same height on any scale.
            let to = match scale {
                Scale::Log(..) => 10f64.powf(trial.sent_pps.max(1.0).log10() + 0.006 * (top - bottom)),
                _ => trial.sent_pps + top * 0.006,
            };
            all.push(Bar { left, right, from: trial.sent_pps, to, colour: palette::OFFERED });
        }
    }
    legend.push(Key::new("offered", palette::OFFERED));
    let names: Vec<String> = names.iter().map(|name| short(name)).collect();
    let title = "Packets a second";
    Bars { title, unit: "packets/s", names: &names, scale, label: &rate, bars: all, totals: Vec::new(), legend }.draw()
}

/// Trials and their names.
pub type Named<'a> = Vec<(String, &'a Trial)>;

/// The trials of a table.
pub fn of_matrix(matrix: &Matrix) -> Named<'_> {
    tested(matrix).map(|(row, trial)| (short(&row.name), trial)).collect()
}

/// Most nodes, or parts of time, that a chart shows by name; the rest is grouped.
const MOST_PARTS: usize = 9;

/// A part of a bar: what it is, and how much.
type Share = (String, RGBColor, f64);

/// Parts of each test, stacked. `whole`: their common sum; none: it varies.
fn stacked(
    trials: &Named<'_>,
    title: &str,
    unit: &str,
    label: &dyn Fn(&f64) -> String,
    whole: Option<f64>,
    mut parts: impl FnMut(&Trial) -> Vec<Share>,
) -> Chart {
    let known = trials.iter().filter(|(_, trial)| !trial.device_load.is_empty());
    let rows: Vec<(String, Vec<Share>)> = known.map(|(name, trial)| (name.clone(), parts(trial))).collect();
    // In the order in which packets reach them; the smallest are grouped.
    let mut order: Vec<(&str, RGBColor, f64)> = Vec::new();
    for (name, colour, value) in rows.iter().flat_map(|(_, parts)| parts) {
        match order.iter_mut().find(|(known, ..)| known == name) {
            Some((.., sum)) => *sum += value,
            None => order.push((name, *colour, *value)),
        }
    }
    let mut sums: Vec<f64> = order.iter().map(|(.., sum)| *sum).collect();
    sums.sort_by(|a, b| b.total_cmp(a));
    let least = sums.get(MOST_PARTS - 1).copied().unwrap_or(0.0);
    let named: Vec<(&str, RGBColor)> = order
        .iter()
        .filter(|(.., sum)| *sum >= least)
        .take(MOST_PARTS)
        .map(|(name, colour, _)| (*name, *colour))
        .collect();
    let others = palette::part(Part::Waiting);
    let (mut all, mut totals) = (Vec::new(), Vec::new());
    for (at, (_, parts)) in rows.iter().enumerate() {
        let (left, right) = (at as f64 + 0.15, at as f64 + 0.85);
        let mut values = vec![0.0; named.len() + 1];
        for (name, _, value) in parts {
            values[named.iter().position(|(known, _)| known == name).unwrap_or(named.len())] += value;
        }
        let mut from = 0.0;
        for (number, value) in values.into_iter().enumerate().filter(|(_, value)| *value > 0.0) {
            let colour = named.get(number).map_or(others, |(_, colour)| *colour);
            all.push(Bar { left, right, from, to: from + value, colour });
            from += value;
        }
        totals.push((left, right, from));
    }
    let mut legend: Vec<Key> = named.iter().map(|(name, colour)| Key::new(*name, *colour)).collect();
    if order.len() > named.len() {
        legend.push(Key::new("other nodes", others));
    }
    let names: Vec<String> = rows.iter().map(|(name, _)| name.clone()).collect();
    let heights: Vec<f64> = totals.iter().map(|(.., total)| *total).collect();
    let scale = whole.map_or_else(|| axes::of_stacks(&heights), Scale::Linear);
    Bars { title, unit, names: &names, scale, label, bars: all, totals, legend }.draw()
}

/// Clocks of each packet by node.
pub fn clocks(device: &str, trials: &Named<'_>, colours: &mut Colours) -> Chart {
    let parts = |trial: &Trial| {
        let received: u64 = trial.device_load.iter().map(|worker| worker.received()).sum();
        let mut all: Vec<Share> = Vec::new();
        for node in trial.device_load.iter().flat_map(|worker| &worker.nodes) {
            let clocks = node.busy_clocks() / (received as f64).max(1.0);
            if clocks <= 0.05 {
                continue;
            }
            let part = match node.kind {
                Kind::Input => Part::Input,
                Kind::Output => Part::Output,
                Kind::Graph => Part::Graph,
            };
            match all.iter_mut().find(|(name, ..)| *name == node.name) {
                Some((.., sum)) => *sum += clocks,
                None => all.push((node.name.clone(), colours.nodes.colour(&node.name, part), clocks)),
            }
        }
        all
    };
    let title = format!("Clocks of a packet in {device}");
    stacked(trials, &title, "clocks", &|value| format!("{value:.0}"), None, parts)
}

/// What the workers did, as shares of their time.
pub fn shares(device: &str, trials: &Named<'_>) -> Chart {
    let parts = |trial: &Trial| {
        let workers = trial.device_load.len().max(1) as f64;
        let sum =
            |of: fn(&Shares) -> f64| trial.device_load.iter().map(|worker| of(&worker.shares())).sum::<f64>() / workers;
        [
            ("input", Part::Input, sum(|all| all.input)),
            ("graph", Part::Graph, sum(|all| all.graph)),
            ("output", Part::Output, sum(|all| all.output)),
            ("idle polls", Part::Polling, sum(|all| all.polling)),
            ("waiting (epoll) and between nodes", Part::Waiting, sum(|all| all.waiting)),
        ]
        .map(|(name, part, share)| (name.to_string(), palette::part(part), 100.0 * share))
        .to_vec()
    };
    let title = format!("Time of the workers of {device}");
    stacked(trials, &title, "%", &|value| format!("{value:.0} %"), Some(100.0), parts)
}

/// A line of a chart.
struct Line {
    key: Key,
    points: Vec<(f64, f64)>,
}

impl Line {
    fn new(name: impl Into<String>, points: Vec<(f64, f64)>, colour: RGBColor) -> Line {
        Line { key: Key::new(name, colour), points }
    }
}

/// Lines over one axis. The vertical axis may be logarithmic.
#[derive(Default)]
struct Lines<'a> {
    title: &'a str,
    across: &'a str,
    up: &'a str,
    lines: Vec<Line>,
    is_log: bool,
    /// For the right axis: its value at the top of the left axis, and its label.
    right: Option<(f64, &'a str)>,
    /// Marked places, each with a word.
    marks: Vec<(f64, String)>,
    /// Words that replace numbers along the horizontal axis, each with its place.
    ticks: &'a [(f64, &'a str)],
}

impl Lines<'_> {
    fn draw(self) -> Chart {
        let points = || self.lines.iter().flat_map(|line| &line.points);
        let width =
            axes::above(points().map(|(x, _)| *x).fold(0.0, f64::max)) / if self.ticks.is_empty() { 1.05 } else { 1.0 };
        let exponent = |y: f64| if self.is_log { y.max(1e-9).log10() } else { y };
        let right = if self.right.is_some() { RIGHT } else { NO_RIGHT };
        let (from, to) = (f64::from(MARGIN + LEFT), f64::from(SIZE.0 - MARGIN - right));
        let words: Vec<(f64, &str)> =
            self.marks.iter().map(|(x, word)| (from + 3.0 + (to - from) * x / width, word.as_str())).collect();
        let standing = axes::stand(&words, MARK_LETTERS, to, MARK_ROWS);
        let rows = standing.iter().flatten().map(|standing| standing.row + 1).max().unwrap_or(0);
        // Words are above the lines, and need this share of the height.
        let headroom = 0.055 * rows as f64;
        let bottom = match self.is_log {
            true => points().filter(|(_, y)| *y > 0.0).map(|(_, y)| exponent(*y)).fold(f64::INFINITY, f64::min).floor(),
            false => 0.0,
        };
        let bottom = if bottom.is_finite() { bottom } else { 0.0 };
        let most = points().map(|(_, y)| *y).fold(0.0, f64::max);
        let highest = match self.is_log {
            true => exponent(most).max(bottom) + 0.2,
            false => axes::above(most),
        };
        let top = bottom + (highest - bottom) / (1.0 - headroom);
        let label: &dyn Fn(&f64) -> String = if self.is_log { &power } else { &rate };
        // The right axis has the same height as the left one.
        let right_top = self.right.map_or(1.0, |(percent, _)| percent * top / axes::above(most));
        let svg = svg(|area| {
            let mut chart = ChartBuilder::on(area)
                .caption(self.title, (FONT, 18))
                .margin(MARGIN)
                .x_label_area_size(40)
                .y_label_area_size(LEFT)
                .right_y_label_area_size(right)
                .build_cartesian_2d(0f64..width, bottom..top)?
                .set_secondary_coord(0f64..width, 0f64..right_top);
            let mut mesh = chart.configure_mesh();
            mesh.light_line_style(TRANSPARENT)
                .bold_line_style(BLACK.mix(0.12))
                .x_desc(self.across)
                .x_label_formatter(&|value| significant(*value))
                .y_desc(self.up)
                .y_labels(if self.is_log { (top - bottom) as usize + 1 } else { 8 })
                .y_label_formatter(&label)
                .label_style((FONT, AXIS_LETTERS))
                .axis_desc_style((FONT, AXIS_LETTERS));
            if !self.ticks.is_empty() {
                mesh.x_labels(0).disable_x_mesh();
            }
            mesh.draw()?;
            if let Some((_, what)) = self.right {
                chart
                    .configure_secondary_axes()
                    .y_desc(what)
                    .label_style((FONT, AXIS_LETTERS))
                    .axis_desc_style((FONT, AXIS_LETTERS))
                    .y_label_formatter(&|value| format!("{} %", significant(*value)))
                    .draw()?;
            }
            for (x, name) in self.ticks {
                chart.draw_series([PathElement::new([(*x, bottom), (*x, top)], BLACK.mix(0.12).stroke_width(1))])?;
                let (x, y) = chart.backend_coord(&(*x, bottom));
                word(area, name, (x, y + 6), AXIS_LETTERS, BLACK, HPos::Center, VPos::Top)?;
            }
            for line in &self.lines {
                let shown = line.points.iter().filter(|(_, y)| !self.is_log || *y > 0.0);
                let shown = shown.map(|(x, y)| (*x, exponent(*y)));
                let style = line.key.colour.stroke_width(2);
                match line.key.is_dashed {
                    true => chart.draw_series(DashedLineSeries::new(shown, 7, 4, style)).map(drop)?,
                    false => chart.draw_series(LineSeries::new(shown, style)).map(drop)?,
                }
            }
            for (x, _) in &self.marks {
                let line = [(*x, bottom), (*x, top)];
                chart.draw_series([PathElement::new(line, palette::MARK.stroke_width(1))])?;
            }
            for ((x, text), standing) in self.marks.iter().zip(&standing) {
                let Some(standing) = standing else { continue };
                let (x, y) = chart.backend_coord(&(*x, top));
                let (x, across) = if standing.is_left { (x - 3, HPos::Right) } else { (x + 3, HPos::Left) };
                let y = y + 3 + (standing.row as f64 * 16.0) as i32;
                // A word must not be crossed by the lines of other marks.
                let long = axes::width(text, MARK_LETTERS) as i32;
                let left = if standing.is_left { x - long } else { x };
                let behind = [(left, y - 1), (left + long, y + MARK_LETTERS as i32 + 1)];
                area.draw(&Rectangle::new(behind, WHITE.mix(0.9).filled()))?;
                word(area, text, (x, y), MARK_LETTERS, palette::MARK, across, VPos::Top)?;
            }
            Ok(())
        });
        Chart { svg, legend: self.lines.into_iter().map(|line| line.key).collect() }
    }
}

/// Names of lines: a name that is repeated, from another session, gets a number.
fn told_apart(names: impl Iterator<Item = String>) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for name in names {
        let again = (2..).map(|n| format!("{name} ({n})"));
        let free = std::iter::once(name.clone()).chain(again).find(|name| !all.contains(name));
        all.extend(free);
    }
    all
}

fn named(ramp: &Ramp) -> String {
    if ramp.label.is_empty() { ramp.total.device.clone() } else { format!("{}, {}", ramp.total.device, ramp.label) }
}

/// What was sent and received over time, and where overload begins.
pub fn ramp(ramps: &[&Ramp], colours: &mut Colours) -> Chart {
    let sum = |ramp: &Ramp, of: fn(&PortPoint) -> f64| {
        ramp.points.iter().map(|point| (point.at, point.ports.iter().map(of).sum::<f64>())).collect::<Vec<_>>()
    };
    let mut lines = Vec::new();
    if let Some(first) = ramps.first() {
        lines.push(Line::new("sent", sum(first, |port| port.sent_pps), palette::OFFERED));
    }
    let mut marks = Vec::new();
    for (ramp, name) in ramps.iter().zip(told_apart(ramps.iter().map(|ramp| named(ramp)))) {
        let received = sum(ramp, |port| port.received_pps);
        lines.push(Line::new(format!("{name} received"), received, colours.device(&name)));
        marks.extend(ramp.overload.as_ref().map(|at| {
            (at.at, format!("{name} loses from {}pps on, {:.1} % of the line", scaled(at.sent_pps), at.percent))
        }));
    }
    // The right axis shows the packets of the left axis as percent, with the same top.
    let top = axes::above(lines.iter().flat_map(|line| &line.points).map(|(_, y)| *y).fold(0.0, f64::max));
    let percent = ramps.first().and_then(|ramp| {
        let point = ramp.points.iter().rev().find(|point| point.ports.iter().any(|port| port.sent_pps > 0.0))?;
        let (pps, percent) = point
            .ports
            .iter()
            .fold((0.0, 0.0), |(pps, percent), port| (pps + port.sent_pps, percent + port.sent_percent));
        Some(percent / point.ports.len() as f64 / pps * top)
    });
    let right = percent.map(|percent| (percent, "% of the line"));
    let title = "Packets a second";
    Lines { title, across: "seconds", up: "packets/s", lines, right, marks, ..Lines::default() }.draw()
}

/// Loss over time.
pub fn loss(ramps: &[&Ramp], colours: &mut Colours) -> Chart {
    let mut lines = Vec::new();
    for (ramp, name) in ramps.iter().zip(told_apart(ramps.iter().map(|ramp| named(ramp)))) {
        let most = |ports: &[PortPoint]| ports.iter().map(|port| 100.0 * port.loss).fold(0.0, f64::max);
        let points = ramp.points.iter().map(|point| (point.at, most(&point.ports))).collect();
        lines.push(Line::new(&name, points, colours.device(&name)));
    }
    let (title, up) = ("Loss of what was sent in each sample", "% of what was sent");
    Lines { title, across: "seconds", up, lines, ..Lines::default() }.draw()
}

/// Packets a second, one test after the other.
pub fn timeline(matrix: &Matrix, colours: &mut Colours) -> Chart {
    let (mut sent, mut received, mut marks, mut from) = (Vec::new(), Vec::new(), Vec::new(), 0.0);
    for (row, trial) in tested(matrix) {
        marks.push((from, short(&row.name)));
        for moment in &trial.timeline {
            sent.push((from + moment.at, moment.sent_pps));
            received.push((from + moment.at, moment.received_pps));
        }
        from += trial.seconds;
    }
    let colour = colours.device(&matrix.device);
    let lines = vec![
        Line::new("sent", sent, palette::OFFERED),
        Line::new(format!("{} received", matrix.device), received, colour),
    ];
    let title = format!("Packets a second through {}", matrix.device);
    Lines { title: &title, across: "seconds of tests", up: "packets/s", lines, is_log: true, marks, ..Lines::default() }
        .draw()
}

/// Packets a second by size of frames, beside the limits of both lines.
pub fn sweep(sweeps: &[&Sweep], colours: &mut Colours) -> Chart {
    let mut lines = Vec::new();
    if let Some(first) = sweeps.first() {
        let wire = first.steps.iter().map(|step| (f64::from(step.frame), step.twice_wire_speed)).collect();
        lines.push(Line::new("2x wire speed", wire, palette::OFFERED));
    }
    for (sweep, name) in sweeps.iter().zip(told_apart(sweeps.iter().map(|sweep| sweep.device.clone()))) {
        let carried = sweep.steps.iter().map(|step| (f64::from(step.frame), step.trial.received_pps)).collect();
        lines.push(Line::new(&name, carried, colours.device(&name)));
    }
    let across = "bytes of a frame, with frame check sequence";
    // A logarithmic scale if a device carries little of the line: its curve would lie on the axis.
    let most = |line: &Line| line.points.iter().map(|(_, y)| *y).fold(0.0, f64::max);
    let highest: Vec<f64> = lines.iter().map(most).collect();
    let is_log = matches!(axes::of_bars(&highest), Scale::Log(..));
    Lines { title: "Packets a second by size", across, up: "packets/s", lines, is_log, ..Lines::default() }.draw()
}

/// Packets a second over time, with the longest delays.
pub fn soak(soak: &Soak, colours: &mut Colours) -> Chart {
    let rate = |of: fn(&Moment) -> f64| soak.total.timeline.iter().map(|moment| (moment.at, of(moment))).collect();
    let device = &soak.total.device;
    let lines = vec![
        Line::new("sent", rate(|moment| moment.sent_pps), palette::OFFERED),
        Line::new(format!("{device} received"), rate(|moment| moment.received_pps), colours.device(device)),
    ];
    let marks = soak.outliers.iter().take(5).map(|outlier| (outlier.at, format!("{:.0} us", outlier.us))).collect();
    let title = format!("Packets a second through {device}");
    Lines { title: &title, across: "seconds", up: "packets/s", lines, marks, ..Lines::default() }.draw()
}

fn searched(search: &Search) -> String {
    format!("{}, {}", search.device, search.profile)
}

/// Loss by load, of all trials of the searches.
pub fn trials(searches: &[&Search], colours: &mut Colours) -> Chart {
    let mut lines = Vec::new();
    for (search, name) in searches.iter().zip(told_apart(searches.iter().map(|search| searched(search)))) {
        let all = search.trials.iter().chain(&search.curve);
        let mut points: Vec<(f64, f64)> =
            all.map(|trial| (100.0 * trial.load / search.most_pps, 100.0 * trial.loss_ratio)).collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        lines.push(Line::new(&name, points, colours.device(&name)));
    }
    let across = "load, % of the line";
    Lines { title: "Loss by load", across, up: "% lost", lines, ..Lines::default() }.draw()
}

/// Delay by load.
pub fn latency_by_load(searches: &[&Search], colours: &mut Colours) -> Chart {
    let mut lines = Vec::new();
    for (search, name) in searches.iter().zip(told_apart(searches.iter().map(|search| searched(search)))) {
        let points = search.latency.iter().filter_map(|at| Some((100.0 * at.load / search.most_pps, at.latency?.p99)));
        lines.push(Line::new(&name, points.collect(), colours.device(&name)));
    }
    let (across, up) = ("load, % of the line", "microseconds");
    Lines { title: "Delay by load", across, up, lines, is_log: true, ..Lines::default() }.draw()
}

/// The places of percentiles on their axis.
const PERCENTILES: [(f64, &str); 6] =
    [(0.15, "least"), (1.0, "p50"), (2.0, "p99"), (3.0, "p99.9"), (4.0, "p99.99"), (4.85, "longest")];

/// Delays by percentile, a line for each test: the colour shows the profile; tests in both directions are dashed.
pub fn latency(matrix: &Matrix, colours: &mut Colours) -> Chart {
    let mut lines = Vec::new();
    for (row, all) in tested(matrix).filter_map(|(row, trial)| Some((row, trial.latency?))) {
        let values = [all.min, all.p50, all.p99, all.p99_9, all.p99_99, all.max];
        let points = PERCENTILES.iter().zip(values).map(|((x, _), us)| (*x, us)).collect();
        let name = short(&row.name);
        let load = name.split_once(' ').map_or(name.as_str(), |(_, load)| load);
        let mut line = Line::new(&name, points, colours.load(load));
        line.key.is_dashed = name.starts_with('B');
        lines.push(line);
    }
    let title = format!("Delay through {}, by percentile", matrix.device);
    let across = "share of the packets that were as fast";
    let ticks = &PERCENTILES;
    Lines { title: &title, across, up: "microseconds", lines, is_log: true, ticks, ..Lines::default() }.draw()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_the_same_name_is_told_apart() {
        let names = ["a", "b", "a", "a (2)", "a"].map(String::from);
        assert_eq!(told_apart(names.into_iter()), ["a", "b", "a (2)", "a (2) (2)", "a (3)"]);
    }
}
