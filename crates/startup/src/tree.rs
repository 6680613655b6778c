//! Text to words and nested blocks, each with its place.

/// Deepest nesting of blocks.
const MAXIMUM_DEPTH: usize = 32;

/// Line and column of a character, counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    pub line: usize,
    pub column: usize,
}

/// What is wrong, and where.
#[derive(Debug)]
pub struct Complaint {
    pub place: Place,
    pub message: String,
}

impl Complaint {
    pub fn new(place: Place, message: impl Into<String>) -> Self {
        Self { place, message: message.into() }
    }
}

#[derive(Debug)]
pub(crate) struct Node<'a> {
    pub place: Place,
    pub kind: NodeKind<'a>,
}

#[derive(Debug)]
pub(crate) enum NodeKind<'a> {
    Word(&'a str),
    Block(Block<'a>),
}

#[derive(Debug)]
pub(crate) struct Block<'a> {
    pub nodes: Vec<Node<'a>>,
    /// Where its closing brace is.
    pub end: Place,
}

/// A word or brace with its place.
struct Token<'a> {
    place: Place,
    text: &'a str,
}

/// Reads the whole text as the inside of a block.
pub(crate) fn parse(text: &str) -> Result<Block<'_>, Complaint> {
    let mut outer: Vec<(Place, Vec<Node<'_>>)> = Vec::new();
    let mut nodes = Vec::new();
    for Token { place, text } in tokens(text) {
        match text {
            "{" if outer.len() == MAXIMUM_DEPTH => {
                return Err(Complaint::new(place, format!("blocks nested deeper than {MAXIMUM_DEPTH}")));
            }
            "{" => outer.push((place, std::mem::take(&mut nodes))),
            "}" => {
                let (opened, before) = outer.pop().ok_or_else(|| Complaint::new(place, "'}' without '{'"))?;
                let inside = std::mem::replace(&mut nodes, before);
                nodes.push(Node { place: opened, kind: NodeKind::Block(Block { nodes: inside, end: place }) });
            }
            _ => nodes.push(Node { place, kind: NodeKind::Word(text) }),
        }
    }
    match outer.pop() {
        Some((opened, _)) => Err(Complaint::new(opened, "'{' is never closed")),
        None => Ok(Block { nodes, end: end_of(text) }),
    }
}

fn end_of(text: &str) -> Place {
    Place { line: text.lines().count().max(1), column: text.lines().last().map_or(0, |line| line.chars().count()) + 1 }
}

fn tokens(text: &str) -> impl Iterator<Item = Token<'_>> {
    text.lines().enumerate().flat_map(|(index, line)| {
        let mut rest = line;
        let mut column = 1;
        std::iter::from_fn(move || {
            let trimmed = rest.trim_start();
            column += rest[..rest.len() - trimmed.len()].chars().count();
            rest = trimmed;
            // A comment begins where a word could begin and takes the rest of the line.
            let first = rest.chars().next().filter(|c| *c != '#')?;
            let length = match first {
                '{' | '}' => 1,
                _ => rest.find(|c: char| c.is_whitespace() || matches!(c, '{' | '}')).unwrap_or(rest.len()),
            };
            let (text, after) = rest.split_at(length);
            let place = Place { line: index + 1, column };
            column += text.chars().count();
            rest = after;
            Some(Token { place, text })
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_keeps_its_place() {
        let block = parse("unix { # comment { \n  exec é x}").unwrap();
        let NodeKind::Block(unix) = &block.nodes[1].kind else {
            panic!("no block");
        };
        let words: Vec<(usize, usize)> = unix.nodes.iter().map(|node| (node.place.line, node.place.column)).collect();
        assert_eq!(words, [(2, 3), (2, 8), (2, 10)]);
        assert_eq!((unix.end.line, unix.end.column), (2, 11));
    }

    #[test]
    fn unbalanced_braces_are_named_where_they_are() {
        let complaint = |text: &str| {
            let complaint = parse(text).unwrap_err();
            (complaint.place.line, complaint.place.column, complaint.message)
        };
        assert_eq!(complaint("a {\n b {\n}"), (1, 3, "'{' is never closed".into()));
        assert_eq!(complaint("a { }\n}"), (2, 1, "'}' without '{'".into()));
        assert_eq!(complaint(&"{".repeat(99)).2, "blocks nested deeper than 32");
    }
}
