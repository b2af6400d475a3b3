//! Parses YAML text into a tree that knows where each part was written.
//!
//! The tree is small and finite whatever the text: size, depth and the expansion of aliases are
//! limited.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use granit_parser::{Event, Marker, Parser, ScalarStyle, Span, Tag};

use super::placeholder;
use super::problem::Position;

/// The deepest nesting of collections.
const MAX_DEPTH: usize = 32;
/// The most nodes that aliases stand for. The size of the file limits all other nodes.
const MAX_UNFOLDED: usize = 500_000;

/// The most names of keys that are shared. The gateway's own are fewer.
const SHARED_NAMES: usize = 1000;

/// A value and its place.
#[derive(Debug, Clone)]
pub(in crate::config) struct Node {
    pub(in crate::config) place: Position,
    pub(in crate::config) value: Value,
}

/// The kinds of values in the tree.
#[derive(Debug, Clone)]
pub(in crate::config) enum Value {
    /// No value, `null` or `~`.
    Null,
    /// Text as written, with placeholders not replaced. `plain` is true if it has no quotes.
    Scalar { text: String, plain: bool },
    /// `- a` or `[a]`.
    List(Vec<Node>),
    /// `key: value`, in file order; no key occurs twice.
    Table(Vec<(Key, Node)>),
}

/// A key and its place.
#[derive(Debug, Clone)]
pub(in crate::config) struct Key {
    pub(in crate::config) place: Position,
    /// Shared by all keys of the same name: a file may have very many.
    pub(in crate::config) name: Arc<str>,
}

/// The result of parsing a text.
#[derive(Debug)]
pub(in crate::config) struct Tree {
    /// The root; `None` if there is no document, or the text is not YAML.
    pub(in crate::config) root: Option<Node>,
    /// The problems of the text itself.
    pub(in crate::config) problems: Vec<(Position, String)>,
}

/// Parses the one document of `text`.
pub(in crate::config) fn parse(text: &str) -> Tree {
    if let Some(place) = placeholder::reserved(text) {
        return Tree::failed(
            place,
            "a private-use character (U+E000 or U+E001) has no meaning here; remove it".to_owned(),
        );
    }
    let masked = placeholder::mask(text);
    let options = granit_parser::options! {
        flow_nesting_limit: MAX_DEPTH,
        block_nesting_limit: MAX_DEPTH,
        disallow_directives: true,
    };
    let mut builder = Builder {
        parser: Parser::new_from_str_with_options(&masked, options),
        anchors: HashMap::new(),
        names: HashSet::new(),
        unfolded: 0,
        problems: Vec::new(),
    };
    match builder.document() {
        Ok(root) => Tree {
            root,
            problems: builder.problems,
        },
        Err((place, message)) => Tree::failed(place, hint(text, place, &message)),
    }
}

type Failure = (Position, String);

struct Builder<'t, P: granit_parser::BorrowedInput<'t>> {
    parser: Parser<'t, P>,
    anchors: HashMap<usize, Node>,
    /// The first names of keys.
    names: HashSet<Arc<str>>,
    unfolded: usize,
    problems: Vec<Failure>,
}

impl Tree {
    fn failed(place: Position, message: String) -> Self {
        Self {
            root: None,
            problems: vec![(place, message)],
        }
    }
}

impl<'t, P: granit_parser::BorrowedInput<'t>> Builder<'t, P> {
    fn document(&mut self) -> Result<Option<Node>, Failure> {
        let mut root = None;
        loop {
            let (event, span) = self.next()?;
            match event {
                Event::StreamEnd => return Ok(root),
                Event::StreamStart | Event::DocumentEnd => {}
                Event::DocumentStart(..) if root.is_some() => {
                    return Err((
                        start(&span),
                        "a second document begins here; a configuration is one document, so remove this `---` and what follows, or merge it".to_owned(),
                    ));
                }
                Event::DocumentStart(..) => {
                    let (event, span) = self.next()?;
                    root = Some(self.node(event, &span)?);
                }
                _ => return Err((start(&span), "this is not YAML".to_owned())),
            }
        }
    }

    fn next(&mut self) -> Result<(Event<'t>, Span), Failure> {
        match self.parser.next_event() {
            Some(Ok(next)) => Ok(next),
            Some(Err(error)) => Err((at(error.marker()), error.info())),
            None => Ok((Event::StreamEnd, Span::empty(Marker::new(0, 1, 0)))),
        }
    }

    fn node(&mut self, event: Event<'t>, span: &Span) -> Result<Node, Failure> {
        let place = start(span);
        let (value, anchor, tag) = match event {
            Event::Alias(id) => return self.alias(id, place),
            Event::Scalar(text, style, anchor, tag) => {
                let plain = style == ScalarStyle::Plain && tag.is_none();
                (scalar(&text, plain), anchor, tag)
            }
            Event::SequenceStart(_, anchor, tag) => (self.list()?, anchor, tag),
            Event::MappingStart(_, anchor, tag) => (self.table()?, anchor, tag),
            _ => return Err((place, "a value is missing here".to_owned())),
        };
        if let Some(tag) = tag.as_deref() {
            self.refuse_tag(place, tag);
        }
        let node = Node { place, value };
        if anchor != 0 {
            self.anchors.insert(anchor, node.clone());
        }
        Ok(node)
    }

    fn alias(&mut self, id: usize, place: Position) -> Result<Node, Failure> {
        let Some(node) = self.anchors.get(&id).cloned() else {
            return Err((
                place,
                "this alias stands inside the value it names; a value cannot hold itself"
                    .to_owned(),
            ));
        };
        self.count(place, size(&node))?;
        Ok(node)
    }

    fn list(&mut self) -> Result<Value, Failure> {
        let mut items = Vec::new();
        loop {
            let (event, span) = self.next()?;
            if event == Event::SequenceEnd {
                // A file may have very many short lists.
                items.shrink_to_fit();
                return Ok(Value::List(items));
            }
            items.push(self.node(event, &span)?);
        }
    }

    fn table(&mut self) -> Result<Value, Failure> {
        let mut entries: Vec<(Key, Node)> = Vec::new();
        let mut merged = Vec::new();
        loop {
            let (event, span) = self.next()?;
            if event == Event::MappingEnd {
                merge(&mut entries, merged);
                entries.shrink_to_fit();
                return Ok(Value::Table(entries));
            }
            let key = self.node(event, &span)?;
            let (event, span) = self.next()?;
            let mut value = self.node(event, &span)?;
            if matches!(value.value, Value::Null) || value.place.line > key.place.line {
                value.place = key.place;
            }
            let (name, plain) = match key.value {
                Value::Scalar { text, plain } => (text, plain),
                Value::Null => ("null".to_owned(), false),
                Value::List(_) | Value::Table(_) => {
                    self.problems.push((key.place, "this key is a list or a mapping; a key is text, and in quotes it may begin with `{` or `[`".to_owned()));
                    continue;
                }
            };
            if plain && name == "<<" {
                self.merge_source(value, &mut merged);
            } else if let Some((first, _)) = entries.iter().find(|(first, _)| *first.name == *name)
            {
                let message = format!(
                    "the key `{name}` is given twice, first at {}; keep one of them",
                    first.place
                );
                self.problems.push((key.place, message));
            } else {
                entries.push((
                    Key {
                        place: key.place,
                        name: self.shared(name),
                    },
                    value,
                ));
            }
        }
    }

    /// Returns the name of a key, which is shared with the keys before.
    fn shared(&mut self, name: String) -> Arc<str> {
        if let Some(known) = self.names.get(name.as_str()) {
            return Arc::clone(known);
        }
        let name: Arc<str> = name.into();
        if self.names.len() < SHARED_NAMES {
            self.names.insert(Arc::clone(&name));
        }
        name
    }

    /// Collects the entries of `<<: *a` and `<<: [*a, *b]`, which are used where the table has none of
    /// its own.
    fn merge_source(&mut self, value: Node, merged: &mut Vec<(Key, Node)>) {
        match value.value {
            Value::Table(entries) => merged.extend(entries),
            Value::List(items) => items
                .into_iter()
                .for_each(|item| self.merge_source(item, merged)),
            _ => self.problems.push((
                value.place,
                "`<<` takes over the keys of a mapping; write `<<: *anchor`".to_owned(),
            )),
        }
    }

    fn refuse_tag(&mut self, place: Position, tag: &Tag) {
        if !tag.is_yaml_core_schema_tag("str") {
            let message = format!(
                "the tag `{}` has no meaning here; remove it (text from outside is written ${{NAME}} or ${{file:PATH}})",
                tag.original()
            );
            self.problems.push((place, message));
        }
    }

    fn count(&mut self, place: Position, nodes: usize) -> Result<(), Failure> {
        self.unfolded += nodes;
        if self.unfolded > MAX_UNFOLDED {
            return Err((
                place,
                format!("aliases unfold to more than {MAX_UNFOLDED} values; write less with them"),
            ));
        }
        Ok(())
    }
}

fn merge(entries: &mut Vec<(Key, Node)>, merged: Vec<(Key, Node)>) {
    for (key, node) in merged {
        if !entries.iter().any(|(own, _)| own.name == key.name) {
            entries.push((key, node));
        }
    }
}

fn scalar(text: &str, plain: bool) -> Value {
    if plain && matches!(text, "" | "~" | "null" | "Null" | "NULL") {
        return Value::Null;
    }
    Value::Scalar {
        text: placeholder::unmask(text),
        plain,
    }
}

fn size(node: &Node) -> usize {
    1 + match &node.value {
        Value::Null | Value::Scalar { .. } => 0,
        Value::List(items) => items.iter().map(size).sum(),
        Value::Table(entries) => entries.iter().map(|(_, node)| size(node)).sum(),
    }
}

fn start(span: &Span) -> Position {
    at(&span.start)
}

fn at(marker: &Marker) -> Position {
    Position::at(marker.line().max(1), marker.col() + 1)
}

/// Returns the parser's message, with its usual cause.
fn hint(text: &str, place: Position, message: &str) -> String {
    if message.contains(';') {
        return message.to_owned();
    }
    let line = text
        .lines()
        .nth(place.line as usize - 1)
        .unwrap_or_default();
    let indent: String = line.chars().take_while(|c| c.is_whitespace()).collect();
    let cure = if indent.contains('\t') {
        "a tab indents this line: use spaces"
    } else if message.contains("block mapping") || message.contains("indentation") {
        "the keys of one mapping begin in the same column: look at the indentation here and above"
    } else if message.contains("nest") || message.contains("recursion") {
        "nothing in a configuration is nested more than a few levels deep"
    } else if message.contains("anchor") {
        "an alias `*name` needs an `&name` before it; put quotes around a value that begins with `*` or `&`"
    } else if message.contains("mapping values") || message.contains("simple key") {
        "look for a missing `:` or space after `:` here or on the line before, and put quotes around a value that holds `: `"
    } else if message.contains("quote") || message.contains("eof") || message.contains("EOF") {
        "close what was opened before it"
    } else if message.contains("bracket") || message.contains(",") {
        "look at the brackets and commas here and on the line before"
    } else if message.contains("unexpected character") {
        "put quotes around a value that begins with this character"
    } else {
        "look at the indentation and brackets here and on the line before"
    };
    format!("not YAML: {message}; {cure}")
}
