//! All counter tables of a program, by name. What clears counters, shows them or exports them reads this list, so a new
//! table needs no change there.

use crate::CounterTable;
use crate::index::{MAX_ERRORS, MAX_INTERFACES, MAX_NODES};
use std::io;
use std::sync::Arc;

/// What each entry of a table is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Of {
    /// The interface of this index.
    Interface,
    /// The node of this index.
    Node,
    /// The named error of this number ([`crate::Graph::errors`]).
    Error,
    /// Something else, of which there are at most so many.
    Other(usize),
}

impl Of {
    /// How many entries a table may have.
    pub fn capacity(self) -> usize {
        match self {
            Of::Interface => MAX_INTERFACES,
            Of::Node => MAX_NODES,
            Of::Error => MAX_ERRORS,
            Of::Other(capacity) => capacity,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    Packets,
    Bytes,
}

/// One word of each entry of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Column {
    /// As `show interface` prints it, such as `rx packets`.
    pub name: &'static str,
    pub unit: Unit,
    /// Whether it has a line in `show interface` where it is not zero.
    pub is_shown: bool,
}

impl Column {
    pub const fn packets(name: &'static str) -> Column {
        Column { name, unit: Unit::Packets, is_shown: true }
    }

    pub const fn bytes(name: &'static str) -> Column {
        Column { name, unit: Unit::Bytes, is_shown: true }
    }

    /// For exporters only.
    pub const fn not_shown(mut self) -> Column {
        self.is_shown = false;
        self
    }
}

/// A table, and what it counts.
#[derive(Clone)]
pub struct Listed {
    pub table: Arc<CounterTable>,
    pub of: Of,
    /// One for each word of an entry.
    pub columns: &'static [Column],
    /// What is counted, in a sentence.
    pub help: &'static str,
}

/// The tables, in the order in which they were added.
#[derive(Default)]
pub struct Directory {
    all: Vec<Listed>,
}

impl Directory {
    /// Makes a table, with a row for each of `workers`, and lists it. Its memory is that of a descriptor, which others
    /// may map to read it.
    ///
    /// # Errors
    /// When the system refuses the memory.
    ///
    /// # Panics
    /// When there is a table of this name already: a programmer's error that shows at the first start.
    pub fn table(
        &mut self,
        name: &str,
        workers: usize,
        of: Of,
        columns: &'static [Column],
        help: &'static str,
    ) -> io::Result<Arc<CounterTable>> {
        let table = CounterTable::new(name, workers, of.capacity(), columns.len())?;
        self.list(Listed { table: table.clone(), of, columns, help });
        Ok(table)
    }

    /// Lists a table that is there.
    ///
    /// # Panics
    /// As [`Directory::table`], when it has other words than columns, and when another table of interfaces has a column
    /// of that name.
    pub fn list(&mut self, listed: Listed) {
        let name = listed.table.name();
        assert!(self.all.iter().all(|other| other.table.name() != name), "two tables of counters are called {name}");
        assert_eq!(listed.table.width(), listed.columns.len(), "columns of {name}");
        let has = |other: &Listed, name| other.columns.iter().any(|column| column.name == name);
        let taken = |column: &&Column| self.of(listed.of).any(|other| has(other, column.name));
        if let Some(column) = listed.columns.iter().find(taken).filter(|_| listed.of == Of::Interface) {
            panic!("two columns of interfaces are called {}", column.name);
        }
        self.all.push(listed);
    }

    pub fn iter(&self) -> impl Iterator<Item = &Listed> {
        self.all.iter()
    }

    /// Those of one kind of entries.
    pub fn of(&self, of: Of) -> impl Iterator<Item = &Listed> {
        self.all.iter().filter(move |listed| listed.of == of)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_found_by_what_they_count() {
        let mut directory = Directory::default();
        let columns = const { &[Column::packets("a packets"), Column::bytes("a bytes").not_shown()] };
        let table = directory.table("/if/a", 2, Of::Interface, columns, "Packets of a.").unwrap();
        directory.table("/b", 2, Of::Other(3), const { &[Column::packets("b")] }, "Packets of b.").unwrap();
        table.add(1, 7, 1, 5);
        let found: Vec<_> = directory.of(Of::Interface).map(|listed| listed.table.sum(7, 1)).collect();
        assert_eq!((found, directory.iter().count()), (vec![5], 2));
        let shown: Vec<bool> = directory.iter().flat_map(|listed| listed.columns).map(|one| one.is_shown).collect();
        assert_eq!(shown, [true, false, true]);
    }

    #[test]
    #[should_panic(expected = "two tables of counters are called /a")]
    fn a_name_is_given_once() {
        let mut directory = Directory::default();
        for _ in 0..2 {
            directory.table("/a", 1, Of::Node, const { &[Column::packets("a")] }, "Packets of a.").unwrap();
        }
    }
}
