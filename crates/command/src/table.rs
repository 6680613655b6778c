//! Columns of text, as `show` commands print them.
//!
//! A column is at least as wide as asked, so that tables look as VPP's do, and grows with
//! its content, so that nothing is cut.

use std::fmt;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    Left,
    Right,
    /// An odd space goes to the left, as in VPP's headings.
    Centre,
}

struct Column {
    title: String,
    title_align: Align,
    align: Align,
    width: usize,
}

/// A table under construction; `Display` prints it with a newline after every row.
pub struct Table {
    separator: String,
    columns: Vec<Column>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// An empty table whose columns are separated by `separator`.
    pub fn new(separator: &str) -> Self {
        Self { separator: separator.to_string(), columns: Vec::new(), rows: Vec::new() }
    }

    /// Adds a column at least `width` characters wide; the title is aligned as its cells.
    #[must_use]
    pub fn column(self, title: &str, align: Align, width: usize) -> Self {
        self.titled_column(title, align, align, width)
    }

    /// Adds a column whose title is aligned otherwise than its cells.
    #[must_use]
    pub fn titled_column(mut self, title: &str, title_align: Align, align: Align, width: usize) -> Self {
        self.columns.push(Column { title: title.to_string(), title_align, align, width });
        self
    }

    /// Adds a row. Cells that are left out at the end are empty.
    ///
    /// # Panics
    /// When there are more cells than columns.
    pub fn row<T: ToString>(&mut self, cells: impl IntoIterator<Item = T>) {
        let cells: Vec<String> = cells.into_iter().map(|cell| cell.to_string()).collect();
        assert!(cells.len() <= self.columns.len(), "more cells than columns");
        self.rows.push(cells);
    }

    /// Whether no row was added.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    fn widths(&self) -> Vec<usize> {
        let mut widths: Vec<usize> =
            self.columns.iter().map(|column| column.width.max(column.title.chars().count())).collect();
        for row in &self.rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(cell.chars().count());
            }
        }
        widths
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let widths = self.widths();
        if self.columns.iter().any(|column| !column.title.is_empty()) {
            let titles = self.columns.iter().zip(&widths);
            let titles: Vec<String> =
                titles.map(|(column, width)| padded(&column.title, column.title_align, *width)).collect();
            writeln!(f, "{}", titles.join(&self.separator).trim_end())?;
        }
        for row in &self.rows {
            let cells: Vec<String> = row
                .iter()
                .zip(self.columns.iter().zip(&widths))
                .map(|(cell, (column, width))| padded(cell, column.align, *width))
                .collect();
            writeln!(f, "{}", cells.join(&self.separator).trim_end())?;
        }
        Ok(())
    }
}

fn padded(text: &str, align: Align, width: usize) -> String {
    match align {
        Align::Left => format!("{text:<width$}"),
        Align::Right => format!("{text:>width$}"),
        Align::Centre => {
            let spaces = width.saturating_sub(text.chars().count());
            let left = spaces.div_ceil(2);
            format!("{:left$}{text}{:right$}", "", "", right = spaces - left)
        }
    }
}

/// Centres text as VPP does: an odd space goes to the left.
pub fn centred(text: &str, width: usize) -> String {
    let right = width.saturating_sub(text.chars().count()) / 2;
    format!("{text:>0$}{1:right$}", width.saturating_sub(right), "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_looks_as_show_interface_does() {
        let mut table = Table::new("")
            .titled_column("Name", Align::Centre, Align::Left, 32)
            .column("Idx", Align::Centre, 5)
            .column("State", Align::Centre, 10)
            .column("MTU (L3/IP4/IP6/MPLS)", Align::Centre, 21);
        table.row(["local0", "0", "down", "0/0/0/0"]);
        assert_eq!(
            table.to_string(),
            "              Name               Idx    State  MTU (L3/IP4/IP6/MPLS)\n\
             local0                            0     down          0/0/0/0\n"
        );
    }

    #[test]
    fn columns_grow_with_their_content_and_rows_may_be_short() {
        let mut table = Table::new("  ").column("a", Align::Left, 0).column("n", Align::Right, 3);
        table.row(["wide", "1"]);
        table.row(["x"]);
        assert_eq!(table.to_string(), "a       n\nwide    1\nx\n");
    }
}
