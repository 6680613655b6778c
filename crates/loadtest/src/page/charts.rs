//! The charts, as SVG.

use crate::arithmetic::scaled;
use crate::load::Shares;
use crate::method::matrix::{Matrix, Row};
use crate::method::ramp::{PortPoint, Ramp};
use crate::method::search::Search;
use crate::method::soak::Soak;
use crate::method::sweep::Sweep;
use crate::method::trial::{Moment, Trial};
use plotters::coord::Shift;
use plotters::prelude::*;
use std::collections::BTreeMap;

const SIZE: (u32, u32) = (1000, 380);
const FONT: &str = "sans-serif";
/// Colours that are told apart in print and by those who see few of them (Okabe and Ito, 2008).
const COLOURS: [RGBColor; 8] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(120, 94, 240),
    RGBColor(110, 110, 110),
];

/// A drawing, and what its colours are: the legend stands below it, where it hides nothing.
pub struct Chart {
    pub svg: String,
    pub legend: Vec<(String, RGBColor)>,
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Failure<'a> = DrawingAreaErrorKind<<SVGBackend<'a> as DrawingBackend>::ErrorType>;

fn colour(number: usize) -> RGBColor {
    COLOURS[number % COLOURS.len()]
}

/// A drawing. Text in memory takes all that is written to it, so it cannot fail.
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

/// The power of ten that an axis of powers shows.
fn power(exponent: &f64) -> String {
    if exponent.fract().abs() < 1e-6 { rate(&10f64.powf(*exponent)) } else { String::new() }
}

/// Something above zero for an axis that has to end somewhere.
fn above(value: f64) -> f64 {
    if value > 0.0 { value * 1.05 } else { 1.0 }
}

fn tested(matrix: &Matrix) -> impl Iterator<Item = (&Row, &Trial)> {
    matrix.rows.iter().filter_map(|row| Some((row, row.trial.as_ref()?)))
}

/// Names of tests, short enough to stand below bars: `U 64b Multi`.
fn short(name: &str) -> String {
    name.replace("Unidirectional", "U").replace("Bidirectional", "B")
}

/// Rows of bars below which names stand; each bar is (place, from, to, colour).
fn bars(
    title: &str,
    unit: &str,
    names: &[String],
    top: f64,
    label: impl Fn(&f64) -> String,
    bars: &[(f64, f64, f64, f64, RGBColor)],
    legend: Vec<(String, RGBColor)>,
) -> Chart {
    let svg = svg(|area| {
        let mut chart = ChartBuilder::on(area)
            .caption(title, (FONT, 18))
            .margin(10)
            .margin_right(16)
            .x_label_area_size(32)
            .y_label_area_size(76)
            .build_cartesian_2d(0f64..(names.len() as f64).max(1.0), 0f64..top)?;
        chart
            .configure_mesh()
            .disable_x_mesh()
            .light_line_style(TRANSPARENT)
            .bold_line_style(BLACK.mix(0.12))
            .x_labels(0)
            .y_desc(unit)
            .y_label_formatter(&label)
            .label_style((FONT, 13))
            .axis_desc_style((FONT, 13))
            .draw()?;
        let style = (FONT, 13).into_font().into_text_style(area);
        for (at, name) in names.iter().enumerate() {
            let (x, y) = chart.backend_coord(&(at as f64 + 0.5, 0.0));
            let text = style.pos(plotters::style::text_anchor::Pos::new(
                plotters::style::text_anchor::HPos::Center,
                plotters::style::text_anchor::VPos::Top,
            ));
            area.draw(&Text::new(name.clone(), (x, y + 8), text))?;
        }
        for &(left, right, from, to, colour) in bars {
            chart.draw_series([Rectangle::new([(left, from), (right, to)], colour.filled())])?;
        }
        Ok(())
    });
    Chart { svg, legend }
}

/// Packets a second of each test, devices side by side.
pub fn comparison(matrices: &[&Matrix]) -> Chart {
    let names: Vec<&str> =
        matrices.first().map_or(Vec::new(), |first| first.rows.iter().map(|row| row.name.as_str()).collect());
    let most =
        matrices.iter().flat_map(|matrix| tested(matrix)).map(|(_, trial)| trial.sent_pps.max(trial.received_pps));
    let top = above(most.fold(0.0, f64::max));
    let (mut all, mut legend) = (Vec::new(), Vec::new());
    let width = 0.8 / matrices.len().max(1) as f64;
    for (number, matrix) in matrices.iter().enumerate() {
        legend.push((matrix.device.clone(), colour(number)));
        for (row, trial) in tested(matrix) {
            let Some(at) = names.iter().position(|name| *name == row.name) else { continue };
            let left = at as f64 + 0.1 + number as f64 * width;
            all.push((left, left + width * 0.92, 0.0, trial.received_pps, colour(number)));
            // What was offered, as a line.
            all.push((left, left + width * 0.92, trial.sent_pps, trial.sent_pps + top * 0.004, RGBColor(60, 60, 60)));
        }
    }
    let names: Vec<String> = names.iter().map(|name| short(name)).collect();
    bars("Packets a second", "packets/s", &names, top, rate, &all, legend)
}

/// Trials and their names.
pub type Named<'a> = Vec<(String, &'a Trial)>;

/// Those of a table.
pub fn of_matrix(matrix: &Matrix) -> Named<'_> {
    tested(matrix).map(|(row, trial)| (short(&row.name), trial)).collect()
}

/// Parts of each test, one on the other.
fn stacked(
    trials: &Named<'_>,
    title: &str,
    unit: &str,
    label: impl Fn(&f64) -> String,
    top: Option<f64>,
    parts: impl Fn(&Trial) -> Vec<(String, f64)>,
) -> Chart {
    let known = trials.iter().filter(|(_, trial)| !trial.device_load.is_empty());
    let rows: Vec<(String, Vec<(String, f64)>)> = known.map(|(name, trial)| (name.clone(), parts(trial))).collect();
    // The largest of all get colours of their own.
    let mut totals: BTreeMap<&str, f64> = BTreeMap::new();
    for (name, value) in rows.iter().flat_map(|(_, parts)| parts) {
        *totals.entry(name).or_default() += value;
    }
    let mut order: Vec<(&str, f64)> = totals.into_iter().collect();
    order.sort_by(|a, b| b.1.total_cmp(&a.1));
    let named: Vec<&str> = order.iter().take(COLOURS.len() - 1).map(|(name, _)| *name).collect();
    let place = |name: &str| named.iter().position(|known| *known == name).unwrap_or(named.len());
    let mut all = Vec::new();
    let mut most: f64 = 0.0;
    for (at, (_, parts)) in rows.iter().enumerate() {
        let mut values = vec![0.0; named.len() + 1];
        parts.iter().for_each(|(name, value)| values[place(name)] += value);
        let mut from = 0.0;
        for (number, value) in values.into_iter().enumerate().filter(|(_, value)| *value > 0.0) {
            all.push((at as f64 + 0.15, at as f64 + 0.85, from, from + value, colour(number)));
            from += value;
        }
        most = most.max(from);
    }
    let mut legend: Vec<(String, RGBColor)> =
        named.iter().enumerate().map(|(at, name)| (name.to_string(), colour(at))).collect();
    if order.len() > named.len() {
        legend.push(("others".into(), colour(named.len())));
    }
    let names: Vec<String> = rows.iter().map(|(name, _)| name.clone()).collect();
    bars(title, unit, &names, top.unwrap_or_else(|| above(most)), label, &all, legend)
}

/// Clocks of each packet by node.
pub fn clocks(device: &str, trials: &Named<'_>) -> Chart {
    let parts = |trial: &Trial| {
        let received: u64 = trial.device_load.iter().map(|worker| worker.received()).sum();
        let nodes = trial.device_load.iter().flat_map(|worker| &worker.nodes);
        let busy = |node: &crate::load::NodeLoad| node.busy_clocks() / (received as f64).max(1.0);
        nodes.map(|node| (node.name.clone(), busy(node))).filter(|(_, clocks)| *clocks > 0.05).collect()
    };
    stacked(trials, &format!("Clocks of a packet in {device}"), "clocks", |value| format!("{value:.0}"), None, parts)
}

/// What the workers did, in shares of their time.
pub fn shares(device: &str, trials: &Named<'_>) -> Chart {
    let parts = |trial: &Trial| {
        let workers = trial.device_load.len().max(1) as f64;
        let sum =
            |of: fn(&Shares) -> f64| trial.device_load.iter().map(|worker| of(&worker.shares())).sum::<f64>() / workers;
        [
            ("input", sum(|all| all.input)),
            ("graph", sum(|all| all.graph)),
            ("output", sum(|all| all.output)),
            ("driver polling", sum(|all| all.polling)),
            ("epoll and between", sum(|all| all.waiting)),
        ]
        .map(|(name, share)| (name.to_string(), 100.0 * share))
        .to_vec()
    };
    stacked(
        trials,
        &format!("Time of the workers of {device}"),
        "%",
        |value| format!("{value:.0} %"),
        Some(100.0),
        parts,
    )
}

/// Its name, its points and its colour.
type Line = (String, Vec<(f64, f64)>, RGBColor);

/// Lines over one axis; each has a name, points and a colour. The vertical axis may be one of powers of ten.
struct Lines<'a> {
    title: &'a str,
    across: &'a str,
    up: &'a str,
    lines: Vec<Line>,
    is_log: bool,
    /// Of the right axis: what stands there where the left one has its top, and what it is.
    right: Option<(f64, &'a str)>,
    /// Places with a word.
    marks: Vec<(f64, String)>,
}

impl Lines<'_> {
    fn draw(self) -> Chart {
        let points = || self.lines.iter().flat_map(|(_, points, _)| points);
        let width = above(points().map(|(x, _)| *x).fold(0.0, f64::max)) / 1.05;
        let exponent = |y: f64| if self.is_log { y.max(1e-9).log10() } else { y };
        let top = match self.is_log {
            true => (exponent(points().map(|(_, y)| *y).fold(1.0, f64::max)) + 0.3).ceil(),
            false => above(points().map(|(_, y)| *y).fold(0.0, f64::max)),
        };
        let bottom = match self.is_log {
            true => points().filter(|(_, y)| *y > 0.0).map(|(_, y)| exponent(*y)).fold(top - 1.0, f64::min).floor(),
            false => 0.0,
        };
        let label: &dyn Fn(&f64) -> String = if self.is_log { &power } else { &rate };
        let svg = svg(|area| {
            let mut chart = ChartBuilder::on(area)
                .caption(self.title, (FONT, 18))
                .margin(10)
                .x_label_area_size(40)
                .y_label_area_size(76)
                .right_y_label_area_size(if self.right.is_some() { 60 } else { 16 })
                .build_cartesian_2d(0f64..width, bottom..top)?
                .set_secondary_coord(0f64..width, 0f64..self.right.map_or(1.0, |(top, _)| top));
            chart
                .configure_mesh()
                .light_line_style(TRANSPARENT)
                .bold_line_style(BLACK.mix(0.12))
                .x_desc(self.across)
                .y_desc(self.up)
                .y_labels(if self.is_log { (top - bottom) as usize + 1 } else { 8 })
                .y_label_formatter(&label)
                .label_style((FONT, 13))
                .axis_desc_style((FONT, 13))
                .draw()?;
            if let Some((_, what)) = self.right {
                chart
                    .configure_secondary_axes()
                    .y_desc(what)
                    .label_style((FONT, 13))
                    .axis_desc_style((FONT, 13))
                    .y_label_formatter(&|value| format!("{value:.0} %"))
                    .draw()?;
            }
            for (x, word) in &self.marks {
                let line = [(*x, bottom), (*x, top)];
                chart.draw_series([PathElement::new(line, RGBColor(190, 30, 30).stroke_width(1))])?;
                let style = (FONT, 12).into_font().color(&RGBColor(190, 30, 30));
                chart.draw_series([Text::new(word.clone(), (*x, top - (top - bottom) * 0.02), style)])?;
            }
            for (_, points, colour) in &self.lines {
                let shown = points.iter().filter(|(_, y)| !self.is_log || *y > 0.0).map(|(x, y)| (*x, exponent(*y)));
                chart.draw_series(LineSeries::new(shown, colour.stroke_width(2)))?;
            }
            Ok(())
        });
        Chart { svg, legend: self.lines.into_iter().map(|(name, _, colour)| (name, colour)).collect() }
    }
}

fn named(ramp: &Ramp) -> String {
    if ramp.label.is_empty() { ramp.total.device.clone() } else { format!("{}, {}", ramp.total.device, ramp.label) }
}

/// What was sent and what came over time, and where overload begins.
pub fn ramp(ramps: &[&Ramp]) -> Chart {
    let sum = |ramp: &Ramp, of: fn(&PortPoint) -> f64| {
        ramp.points.iter().map(|point| (point.at, point.ports.iter().map(of).sum::<f64>())).collect::<Vec<_>>()
    };
    let mut lines = Vec::new();
    if let Some(first) = ramps.first() {
        lines.push(("sent".to_string(), sum(first, |port| port.sent_pps), RGBColor(150, 150, 150)));
    }
    let mut marks = Vec::new();
    for (number, ramp) in ramps.iter().enumerate() {
        lines.push((format!("{} received", named(ramp)), sum(ramp, |port| port.received_pps), colour(number)));
        marks.extend(
            ramp.overload
                .as_ref()
                .map(|at| (at.at, format!("{}: {}pps, {:.1} %", named(ramp), scaled(at.sent_pps), at.percent))),
        );
    }
    // The right axis has its top where the left one has: as many percent as that many packets are.
    let top = above(lines.iter().flat_map(|(_, points, _)| points).map(|(_, y)| *y).fold(0.0, f64::max));
    let percent = ramps.first().and_then(|ramp| {
        let point = ramp.points.iter().rev().find(|point| point.ports.iter().any(|port| port.sent_pps > 0.0))?;
        let (pps, percent) = point
            .ports
            .iter()
            .fold((0.0, 0.0), |(pps, percent), port| (pps + port.sent_pps, percent + port.sent_percent));
        Some(percent / point.ports.len() as f64 / pps * top)
    });
    let right = percent.map(|percent| (percent, "% of the line"));
    Lines { title: "Packets a second", across: "seconds", up: "packets/s", lines, is_log: false, right, marks }.draw()
}

/// Loss over time.
pub fn loss(ramps: &[&Ramp]) -> Chart {
    let worst = |ramp: &Ramp| {
        let most = |ports: &[PortPoint]| ports.iter().map(|port| 100.0 * port.loss).fold(0.0, f64::max);
        ramp.points.iter().map(|point| (point.at, most(&point.ports))).collect()
    };
    let lines = ramps.iter().enumerate().map(|(number, ramp)| (named(ramp), worst(ramp), colour(number))).collect();
    Lines {
        title: "Loss",
        across: "seconds",
        up: "% of what was sent",
        lines,
        is_log: false,
        right: None,
        marks: Vec::new(),
    }
    .draw()
}

/// Packets a second of one test after the other.
pub fn timeline(matrix: &Matrix) -> Chart {
    let (mut sent, mut received, mut marks, mut from) = (Vec::new(), Vec::new(), Vec::new(), 0.0);
    for (row, trial) in tested(matrix) {
        marks.push((from, short(&row.name)));
        for moment in &trial.timeline {
            sent.push((from + moment.at, moment.sent_pps));
            received.push((from + moment.at, moment.received_pps));
        }
        from += trial.seconds;
    }
    let lines = vec![("sent".into(), sent, RGBColor(150, 150, 150)), ("received".into(), received, colour(0))];
    let title = format!("Packets a second through {}", matrix.device);
    Lines { title: &title, across: "seconds of tests", up: "packets/s", lines, is_log: true, right: None, marks }.draw()
}

/// Packets a second by size of frames, beside what both lines carry.
pub fn sweep(sweeps: &[&Sweep]) -> Chart {
    let mut lines = Vec::new();
    if let Some(first) = sweeps.first() {
        let wire = first.steps.iter().map(|step| (f64::from(step.frame), step.twice_wire_speed)).collect();
        lines.push(("2x wire speed".to_string(), wire, RGBColor(150, 150, 150)));
    }
    for (number, sweep) in sweeps.iter().enumerate() {
        let carried = sweep.steps.iter().map(|step| (f64::from(step.frame), step.trial.received_pps)).collect();
        lines.push((sweep.device.clone(), carried, colour(number)));
    }
    let across = "bytes of a frame, with frame check sequence";
    Lines {
        title: "Packets a second by size",
        across,
        up: "packets/s",
        lines,
        is_log: false,
        right: None,
        marks: Vec::new(),
    }
    .draw()
}

/// Packets a second over time, with the longest delays.
pub fn soak(soak: &Soak) -> Chart {
    let rate = |of: fn(&Moment) -> f64| soak.total.timeline.iter().map(|moment| (moment.at, of(moment))).collect();
    let lines = vec![
        ("sent".into(), rate(|moment| moment.sent_pps), RGBColor(150, 150, 150)),
        ("received".into(), rate(|moment| moment.received_pps), colour(0)),
    ];
    let marks = soak.outliers.iter().take(5).map(|outlier| (outlier.at, format!("{:.0} us", outlier.us))).collect();
    let title = format!("Packets a second through {}", soak.total.device);
    Lines { title: &title, across: "seconds", up: "packets/s", lines, is_log: false, right: None, marks }.draw()
}

/// Loss by load, of all trials of searches.
pub fn trials(searches: &[&Search]) -> Chart {
    let line = |(number, search): (usize, &&Search)| {
        let all = search.trials.iter().chain(&search.curve);
        let mut points: Vec<(f64, f64)> =
            all.map(|trial| (100.0 * trial.load / search.most_pps, 100.0 * trial.loss_ratio)).collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        (format!("{}, {}", search.device, search.profile), points, colour(number))
    };
    let lines = searches.iter().enumerate().map(line).collect();
    let across = "load, % of the line";
    Lines { title: "Loss by load", across, up: "% lost", lines, is_log: false, right: None, marks: Vec::new() }.draw()
}

/// Delay by load.
pub fn latency_by_load(searches: &[&Search]) -> Chart {
    let line = |(number, search): (usize, &&Search)| {
        let points = search.latency.iter().filter_map(|at| Some((100.0 * at.load / search.most_pps, at.latency?.p99)));
        (format!("{}, {}", search.device, search.profile), points.collect(), colour(number))
    };
    let lines = searches.iter().enumerate().map(line).collect();
    let (across, up) = ("load, % of the line", "microseconds");
    Lines { title: "Delay by load", across, up, lines, is_log: true, right: None, marks: Vec::new() }.draw()
}

/// Delays by percentile, a line for each test.
pub fn latency(matrix: &Matrix) -> Chart {
    let lines = tested(matrix).filter_map(|(row, trial)| Some((row, trial.latency?))).enumerate();
    let lines = lines.map(|(number, (row, all))| {
        // Each further nine is a step further.
        let points =
            [(0.0, all.min), (0.3, all.p50), (2.0, all.p99), (3.0, all.p99_9), (4.0, all.p99_99), (5.0, all.max)];
        (short(&row.name), points.to_vec(), colour(number))
    });
    let lines = lines.collect();
    let title = format!("Delay through {}, by percentile", matrix.device);
    let across = "nines: 0 the least, 0.3 the median, 2 is 99 %, 3 is 99.9 %, 4 is 99.99 %, 5 the longest";
    Lines { title: &title, across, up: "microseconds", lines, is_log: true, right: None, marks: Vec::new() }.draw()
}
