//! The operations on MPLS: tables of labels, where labels lead, interfaces that take them.

use super::key::{LabelAction, LabelKey};
use super::table::{self, LabelRoute, MAX_TABLES};
use crate::ip::control::{LabelTableIndex, MAX_PATHS, Path, PathAction, Source, TableIndex, join_paths};
use crate::ip::marks::MAX_LABELS;
use crate::ip::path_list::{ListId, ListRef, Of, User};
use crate::ip::route::RouteError;
use crate::{Error, Router};
use graph::InterfaceIndex;
use std::collections::{BTreeMap, BTreeSet};

/// Why something about labels is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MplsError {
    #[error("there is no MPLS table {0} ('show mpls table' lists them): 'mpls table add {0}' makes it")]
    NoTable(u32),
    #[error("MPLS table {0} is there already")]
    TableThere(u32),
    #[error(
        "there may be {MAX_TABLES} MPLS tables, and there are, or were a moment ago: remove one ('show mpls table')"
    )]
    TooManyTables,
    #[error("no memory for another MPLS table: {0}")]
    NoMemory(String),
    #[error("{interface} takes labelled packets, of MPLS table 0: 'set interface mpls {interface} disable' first")]
    OfInterface { interface: String },
    #[error("label {label} of MPLS table {of} leads into MPLS table {id}: 'mpls local-label del {label}' first")]
    TableInUse { id: u32, label: u32, of: u32 },
    #[error("label {0} means something of its own (RFC 3032 2.1): local labels begin with 16")]
    Reserved(u32),
    #[error("no local label {} {} ('show mpls fib' lists them)", .0.label(), end(*.0))]
    NoSuchLabel(LabelKey),
    #[error("local label {} {} has no such path", .0.label(), end(*.0))]
    NoSuchPath(LabelKey),
    #[error("{0} labels: at most {MAX_LABELS} fit before a packet")]
    TooManyLabels(usize),
    #[error("label {0} is taken off by whoever sees it, and never put before a packet (RFC 3032 2.1, RFC 6790)")]
    NeverSent(u32),
    #[error("what is inside is known of the last label only: say 'eos'")]
    NeedsBottom,
    #[error("the next label is there above others only: say 'non-eos'")]
    NeedsOthers,
    #[error("labels are put on packets to a next hop: name one, as in 'via 192.0.2.1 e0 out-labels 17'")]
    LabelsWithoutHop,
    #[error("{0} labels from {1} on: labels end with 1048575")]
    BeyondLast(u32, u32),
    #[error("{0} is no MPLS tunnel: a label leads onto one, or to a next hop, as in 'via 192.0.2.1 {0}'")]
    OntoNoTunnel(String),
    #[error("{0} is no MPLS tunnel ('show mpls tunnel' lists them)")]
    NoTunnel(String),
    #[error("{0} has no such path ('show mpls tunnel' lists them)")]
    NoSuchTunnelPath(String),
    #[error(
        "a tunnel's path leads to a next hop with labels of the pipe model, as in 'via 192.0.2.1 e0 out-labels 17'; \
         what \
         is inside it may have labels of its own"
    )]
    NotForTunnels,
    #[error("a tunnel would lead into itself: name another interface")]
    TunnelIntoItself,
}

crate::codes! { MplsError {
    NoTable => "mpls-no-table",
    TableThere => "mpls-table-there",
    TooManyTables => "mpls-too-many-tables",
    NoMemory => "mpls-no-memory",
    OfInterface => "mpls-of-interface",
    TableInUse => "mpls-table-in-use",
    Reserved => "mpls-reserved",
    NoSuchLabel => "mpls-no-such-label",
    NoSuchPath => "mpls-no-such-path",
    TooManyLabels => "mpls-too-many-labels",
    NeverSent => "mpls-never-sent",
    NeedsBottom => "mpls-needs-bottom",
    NeedsOthers => "mpls-needs-others",
    LabelsWithoutHop => "mpls-labels-without-hop",
    BeyondLast => "mpls-beyond-last",
    OntoNoTunnel => "mpls-onto-no-tunnel",
    NoTunnel => "mpls-no-tunnel",
    NoSuchTunnelPath => "mpls-no-such-tunnel-path",
    NotForTunnels => "mpls-not-for-tunnels",
    TunnelIntoItself => "mpls-tunnel-into-itself",
} }

/// What commands call where a label is.
pub fn end(key: LabelKey) -> &'static str {
    if key.is_bottom() { "eos" } else { "non-eos" }
}

/// What a change of a label may take on the heap, at most, while it is made.
const LABEL_BYTES: usize = 256;

/// Labels to be changed together in a table: each with one of the lists of paths, or none to be removed.
#[derive(Debug, Clone, Default)]
pub struct LabelBatch {
    lists: Vec<Vec<Path>>,
    changes: Vec<(LabelKey, Option<usize>)>,
}

impl LabelBatch {
    /// Paths that labels of this batch may have.
    pub fn paths(&mut self, paths: Vec<Path>) -> usize {
        self.lists.push(join_paths(Vec::new(), paths));
        self.lists.len() - 1
    }

    /// Makes these the paths of a label, new or not. Of the same label the last change counts.
    pub fn put(&mut self, key: LabelKey, paths: usize) {
        self.changes.push((key, Some(paths)));
    }

    pub fn remove(&mut self, key: LabelKey) {
        self.changes.push((key, None));
    }
}

impl crate::ip::control::Ip {
    /// The labels that use a list.
    pub(crate) fn labels_of(&self, id: ListId) -> Vec<LabelKey> {
        let list = self.lists.get(id);
        match (list.key.of, list.few_users()) {
            (_, Some(users)) => users.iter().filter_map(User::label).collect(),
            (Of::Labels { table, .. }, None) => {
                let routes = self.labels.get(table).into_iter().flat_map(|labels| labels.routes());
                routes.filter(|(_, route)| route.list == id).map(|(key, _)| key).collect()
            }
            _ => Vec::new(),
        }
    }

    /// The paths of a label.
    pub fn label_paths(&self, table: LabelTableIndex, key: LabelKey) -> Option<&[Path]> {
        self.label_list(table, key).map(|list| &*self.lists.get(list).key.paths)
    }

    /// The list of a label.
    fn label_list(&self, table: LabelTableIndex, key: LabelKey) -> Option<ListId> {
        self.labels.get(table)?.get(key).map(|route| route.list)
    }

    /// Gives a label another list, or none: table, users and what lookups find. The list that it had.
    fn put_label(
        &mut self,
        table: LabelTableIndex,
        key: LabelKey,
        source: Source,
        list: Option<ListId>,
    ) -> Option<ListId> {
        let way = list.map_or(LabelAction::MISS, |list| self.lists.label_way(list));
        let route = list.map(|list| LabelRoute { source, list });
        let before = self.labels.get_mut(table).set(key, route, way).map(|route| route.list);
        self.have_gone += usize::from(list.is_none() && before.is_some());
        if before != list {
            list.into_iter().for_each(|list| self.lists.add_user(list, || key.into()));
            if let Some(before) = before {
                self.lists.remove_user(before, || key.into());
            }
        }
        before
    }
}

/// What makes the list of a label's paths the same as others'.
fn list_ref(table: LabelTableIndex, key: LabelKey, paths: &[Path]) -> ListRef<'_> {
    let of = Of::Labels { table, is_bottom: key.is_bottom() };
    ListRef { of, table: TableIndex::DEFAULT, host: None, holds_itself: false, paths }
}

impl Router {
    /// The MPLS table of an identifier.
    ///
    /// # Errors
    /// When there is none.
    pub fn find_label_table(&self, id: u32) -> Result<LabelTableIndex, Error> {
        Ok(self.ip.labels.find(id).ok_or(MplsError::NoTable(id))?)
    }

    /// Makes an MPLS table, with nothing in it but what labels mean of themselves.
    ///
    /// # Errors
    /// When there is one of that identifier, or there are too many.
    pub fn add_label_table(&mut self, id: u32) -> Result<LabelTableIndex, Error> {
        if self.ip.labels.find(id).is_some() {
            return Err(MplsError::TableThere(id).into());
        }
        let made = self.ip.labels.add(id).map_err(|error| MplsError::NoMemory(error.to_string()))?;
        Ok(made.ok_or(MplsError::TooManyTables)?)
    }

    /// Takes an MPLS table away, with its labels.
    ///
    /// # Errors
    /// When there is none, or an interface or another table's label has it; then nothing has changed.
    pub fn remove_label_table(&mut self, id: u32) -> Result<(), Error> {
        let index = self.find_label_table(id)?;
        if index == LabelTableIndex::DEFAULT
            && let Some(interface) = self.interfaces.iter().find(|interface| interface.mpls)
        {
            return Err(MplsError::OfInterface { interface: interface.name.clone() }.into());
        }
        for (other, labels) in self.ip.labels.iter().filter(|(other, _)| *other != index) {
            for (key, route) in labels.routes() {
                let paths = &self.ip.lists.get(route.list).key.paths;
                if paths.iter().any(|path| path.way == PathAction::LookupLabel(index)) {
                    let of = self.ip.labels.id_of(other);
                    return Err(MplsError::TableInUse { id, label: key.label(), of }.into());
                }
            }
        }
        let all: Vec<LabelKey> =
            self.ip.labels.get(index).into_iter().flat_map(|it| it.routes()).map(|r| r.0).collect();
        let mut gone = BTreeSet::new();
        for key in all {
            gone.extend(self.ip.put_label(index, key, Source::Config, None));
        }
        gone.into_iter().for_each(|list| self.drop_unused(list));
        self.ip.labels.remove(&self.graph, index);
        self.graph.domain().collect();
        Ok(())
    }

    /// Has an interface take labelled packets, or not.
    ///
    /// # Errors
    /// When there is no such interface, or no MPLS table 0.
    pub fn set_mpls(&mut self, index: InterfaceIndex, is_enabled: bool) -> Result<(), Error> {
        self.interfaces.get(index)?;
        if is_enabled {
            self.find_label_table(0)?;
        }
        self.interfaces.get_mut(index)?.mpls = is_enabled;
        self.publish_facts();
        Ok(())
    }

    /// Adds paths to where a label leads; with `replace` these become its only ones.
    ///
    /// # Errors
    /// When a path names an interface that does not exist or makes no sense for a label, or there are too many; then
    /// nothing has changed.
    pub fn add_label(
        &mut self,
        table: LabelTableIndex,
        key: LabelKey,
        source: Source,
        paths: Vec<Path>,
        replace: bool,
    ) -> Result<(), Error> {
        let known = self.ip.label_paths(table, key).filter(|_| !replace).map_or(Vec::new(), <[Path]>::to_vec);
        self.put_paths(table, key, source, join_paths(known, paths))
    }

    fn put_paths(
        &mut self,
        table: LabelTableIndex,
        key: LabelKey,
        source: Source,
        paths: Vec<Path>,
    ) -> Result<(), Error> {
        self.check_label_paths(key, &paths)?;
        let list = self.acquire_list(list_ref(table, key, &paths), self.ip.label_list(table, key))?;
        if source == Source::Config {
            let into = paths.iter().filter_map(|path| path.way.table_of(None, TableIndex::DEFAULT));
            into.for_each(|(family, table)| self.has_stated(family, table));
        }
        let before = self.ip.put_label(table, key, source, Some(list));
        before.filter(|before| *before != list).into_iter().for_each(|before| self.drop_unused(before));
        Ok(())
    }

    fn check_label_paths(&self, key: LabelKey, paths: &[Path]) -> Result<(), Error> {
        if !table::is_free(key.label()) {
            return Err(MplsError::Reserved(key.label()).into());
        }
        if paths.len() > MAX_PATHS {
            return Err(RouteError::TooManyPaths.into());
        }
        for path in paths {
            match path.way {
                PathAction::LookupIn(..) if !key.is_bottom() => return Err(MplsError::NeedsBottom.into()),
                PathAction::LookupLabel(_) if key.is_bottom() => return Err(MplsError::NeedsOthers.into()),
                PathAction::Attached(index) if !self.ip.tunnels.contains_key(&index) => {
                    return Err(MplsError::OntoNoTunnel(self.interfaces.get(index)?.name.clone()).into());
                }
                _ => {}
            }
            check_labels(path)?;
        }
        self.check_paths(TableIndex::DEFAULT, paths)
    }

    /// Takes paths off a label, or the label away when none are named.
    ///
    /// # Errors
    /// When there is no such label or path.
    pub fn remove_label(&mut self, table: LabelTableIndex, key: LabelKey, paths: &[Path]) -> Result<(), Error> {
        let route = self.ip.labels.get(table).and_then(|labels| labels.get(key)).ok_or(MplsError::NoSuchLabel(key))?;
        let before = &self.ip.lists.get(route.list).key.paths;
        if !paths.iter().all(|gone| before.iter().any(|path| gone.means(path))) {
            return Err(MplsError::NoSuchPath(key).into());
        }
        let stays = |path: &&Path| !paths.is_empty() && !paths.iter().any(|gone| gone.means(path));
        let left: Vec<Path> = before.iter().filter(stays).cloned().collect();
        if !left.is_empty() {
            return self.put_paths(table, key, route.source, left);
        }
        let gone = self.ip.put_label(table, key, route.source, None);
        gone.into_iter().for_each(|gone| self.drop_unused(gone));
        Ok(())
    }

    /// Carries many changes out in a table that is there, or none of them. Labels that are to be removed may be gone
    /// already.
    ///
    /// # Errors
    /// As [`Router::add_label`].
    pub fn change_labels(&mut self, table: LabelTableIndex, source: Source, batch: LabelBatch) -> Result<(), Error> {
        let LabelBatch { lists, changes } = batch;
        let coming = changes.iter().filter(|(_, list)| list.is_some()).count();
        if coming > 0 && !heap::room_for(coming.saturating_mul(LABEL_BYTES)) {
            return Err(Error::NoMemory);
        }
        // At the bottom or not, a list is another.
        let mut ids: BTreeMap<(usize, bool, Option<ListId>), ListId> = BTreeMap::new();
        let mut wanted = Vec::with_capacity(changes.len());
        for (key, list) in &changes {
            let Some(list) = *list else {
                wanted.push(None);
                continue;
            };
            let before = self.ip.label_list(table, *key);
            let kind = (list, key.is_bottom(), before);
            if let Some(known) = ids.get(&kind).filter(|_| table::is_free(key.label())) {
                wanted.push(Some(*known));
                continue;
            }
            let paths = &lists[list];
            let checked = self.check_label_paths(*key, paths);
            match checked.and_then(|()| self.acquire_list(list_ref(table, *key, paths), before)) {
                Ok(id) => {
                    ids.insert(kind, id);
                    wanted.push(Some(id));
                }
                Err(error) => {
                    ids.into_values().for_each(|id| self.drop_unused(id));
                    return Err(error);
                }
            }
        }
        let mut gone: BTreeSet<ListId> = ids.values().copied().collect();
        for ((key, _), list) in changes.into_iter().zip(wanted) {
            gone.extend(self.ip.put_label(table, key, source, list));
        }
        gone.into_iter().for_each(|list| self.drop_unused(list));
        Ok(())
    }

    /// Takes every path of labels that names an interface.
    pub(crate) fn remove_label_paths_of(&mut self, gone: InterfaceIndex) {
        let lists: Vec<ListId> = self.ip.lists_by(gone).collect();
        for list in lists {
            let key = &self.ip.lists.get(list).key;
            let Of::Labels { table, .. } = key.of else { continue };
            let paths: Vec<Path> =
                key.paths.iter().filter(|path| path.way.interface() == Some(gone)).cloned().collect();
            for label in self.ip.labels_of(list) {
                self.breathe();
                if let Err(error) = self.remove_label(table, label, &paths) {
                    log::error!(target: "mpls", "label {} is not up to date: {error}", label.label());
                }
            }
        }
    }
}

/// Whether labels of a path can be put before packets.
pub fn check_labels(path: &Path) -> Result<(), Error> {
    use wire::mpls::{ENTROPY_INDICATOR, IMPLICIT_NULL, ROUTER_ALERT};
    let Some(stated) = path.labels.as_deref() else { return Ok(()) };
    let labels = &stated.labels;
    if labels.len() > MAX_LABELS {
        return Err(MplsError::TooManyLabels(labels.len()).into());
    }
    // What an interface is that a path leads onto is for others to say: behind a tunnel is a next hop.
    if !labels.is_empty() && !path.way.has_hop() && !matches!(path.way, PathAction::Attached(_)) {
        return Err(MplsError::LabelsWithoutHop.into());
    }
    if let Some(label) = labels.iter().find(|label| matches!(**label, ROUTER_ALERT | ENTROPY_INDICATOR)) {
        return Err(MplsError::NeverSent(*label).into());
    }
    if labels.len() > 1 && labels.contains(&IMPLICIT_NULL) {
        return Err(MplsError::NeverSent(IMPLICIT_NULL).into());
    }
    Ok(())
}
