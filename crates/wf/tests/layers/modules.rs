//! Finds cycles between the modules of a crate, from the source text.
//!
//! A module is a file. Module `a` depends on module `b` if code in `a` names an item that is defined in `b`, in a
//! `use` declaration or in a path. Re-exports are followed to the file that defines the item, so `pub use` lines of
//! a parent are not dependencies of the parent. Items of an own ancestor (`super::X`, where `X` is defined in the
//! parent's `mod.rs` or in `lib.rs`) do not count, because a folder and its `mod.rs` are one unit. Code under
//! `#[cfg(test)]` does not count either.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::iter::Peekable;
use std::path::{Path, PathBuf};

use proc_macro2::token_stream::IntoIter;
use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// Segments of a module path. The root of the crate has none.
pub(crate) type ModulePath = Vec<String>;

/// A dependency of one module on another, with the first mention that causes it.
pub(crate) struct Edge {
    pub(crate) from: ModulePath,
    pub(crate) to: ModulePath,
    line: usize,
    item: String,
}

/// Modules of one crate by path.
pub(crate) struct Modules(BTreeMap<ModulePath, Module>);

impl Modules {
    /// Reads the crate whose root (`lib.rs` or `main.rs`) is the file `root`.
    pub(crate) fn read(root: &Path) -> Self {
        let mut files = BTreeMap::new();
        collect_files(root.parent().expect("a folder"), &mut Vec::new(), root, &mut files);
        let read = |file: PathBuf| (fs::read_to_string(&file).expect("a readable file"), file);
        Self::parse(files.into_iter().map(|(path, file)| (path, read(file))).collect())
    }

    /// Parses source texts, each with the name of its file.
    fn parse(sources: BTreeMap<ModulePath, (String, PathBuf)>) -> Self {
        let paths: BTreeSet<ModulePath> = sources.keys().cloned().collect();
        let mut modules = BTreeMap::new();
        for (path, (text, file)) in sources {
            let tokens: TokenStream =
                text.parse().unwrap_or_else(|error| panic!("{}: {error}", file.display()));
            let mut scan = Scan { path: &path, all: &paths, module: Module::new(file) };
            scan.items(tokens.clone());
            scan.paths(tokens, &mut path.clone());
            let module = scan.module;
            modules.insert(path, module);
        }
        let tests = modules.iter().flat_map(|(path, module): (&ModulePath, &Module)| {
            module.test_modules.iter().map(|name| joined(path, name))
        });
        let tests: Vec<ModulePath> = tests.collect();
        modules.retain(|path, _| !tests.iter().any(|test| path.starts_with(test)));
        Self(modules)
    }

    /// Returns the file of a module, from the folder of the crate.
    pub(crate) fn file(&self, path: &ModulePath) -> String {
        let file = self.0[path].file.to_string_lossy();
        let start = file.rfind("/src/").map_or(0, |at| at + 1);
        file[start..].to_owned()
    }

    /// Returns the dependencies between modules, without those on ancestors.
    pub(crate) fn edges(&self) -> Vec<Edge> {
        let mut edges = Vec::new();
        for (from, module) in &self.0 {
            let mut seen = BTreeSet::new();
            for Mention { path, line } in &module.mentions {
                let Some(to) = self.definition(path, 0) else { continue };
                if !from.starts_with(&to) && seen.insert(to.clone()) {
                    let item = format!("crate::{}", path.join("::"));
                    edges.push(Edge { from: from.clone(), to, line: *line, item });
                }
            }
        }
        edges
    }

    /// Describes an edge for the output of a test.
    pub(crate) fn describe(&self, Edge { from, to, line, item }: &Edge) -> String {
        format!("    {}:{line} uses {item} of {}", self.file(from), self.file(to))
    }

    /// Returns the module that defines the item at `path`, or `None` if `path` is a module or outside.
    fn definition(&self, path: &[String], depth: usize) -> Option<ModulePath> {
        let owner_len = (0..=path.len()).rev().find(|len| self.0.contains_key(&path[..*len]))?;
        let (owner, rest) = path.split_at(owner_len);
        let (name, rest) = rest.split_first()?;
        let module = &self.0[owner];
        if name == "*" || module.items.contains(name) || depth > 8 {
            return Some(owner.to_vec());
        }
        let follow = |target: &[String]| {
            let path: ModulePath = target.iter().chain(rest).cloned().collect();
            self.definition(&path, depth + 1)
        };
        if let Some(target) = module.imports.get(name) {
            return follow(target);
        }
        let glob = module.globs.iter().find(|glob| {
            let names = |m: &Module| m.items.contains(name) || m.imports.contains_key(name);
            self.0.get(*glob).is_some_and(names)
        });
        match glob {
            Some(glob) => follow(&joined(glob, name)),
            None => Some(owner.to_vec()),
        }
    }
}

/// Returns the edges of each cycle: of each set of modules that all reach each other.
pub(crate) fn cycles(edges: Vec<Edge>) -> Vec<Vec<Edge>> {
    let mut next: BTreeMap<ModulePath, Vec<ModulePath>> = BTreeMap::new();
    for edge in &edges {
        next.entry(edge.from.clone()).or_default().push(edge.to.clone());
    }
    let reach: BTreeMap<ModulePath, BTreeSet<ModulePath>> =
        next.keys().map(|from| (from.clone(), reachable(from, &next))).collect();
    let mut cycles: BTreeMap<BTreeSet<ModulePath>, Vec<Edge>> = BTreeMap::new();
    for edge in edges {
        if reach.get(&edge.to).is_some_and(|reached| reached.contains(&edge.from)) {
            let mutual =
                |other: &&ModulePath| reach.get(*other).is_some_and(|r| r.contains(&edge.from));
            let members = reach[&edge.from].iter().filter(mutual).cloned().collect();
            cycles.entry(members).or_default().push(edge);
        }
    }
    cycles.into_values().collect()
}

fn reachable(
    from: &ModulePath,
    next: &BTreeMap<ModulePath, Vec<ModulePath>>,
) -> BTreeSet<ModulePath> {
    let (mut reached, mut open) = (BTreeSet::new(), vec![from]);
    while let Some(path) = open.pop() {
        for to in next.get(path).into_iter().flatten() {
            if reached.insert(to.clone()) {
                open.push(to);
            }
        }
    }
    reached
}

fn joined(path: &[String], name: &str) -> ModulePath {
    path.iter().cloned().chain([name.to_owned()]).collect()
}

fn collect_files(
    folder: &Path,
    path: &mut ModulePath,
    root: &Path,
    files: &mut BTreeMap<ModulePath, PathBuf>,
) {
    for entry in fs::read_dir(folder).expect("a readable folder") {
        let file = entry.expect("a readable folder").path();
        let name = file.file_stem().and_then(|name| name.to_str()).expect("UTF-8").to_owned();
        let is_root = path.is_empty() && ["lib", "main"].contains(&name.as_str());
        if file.is_dir() {
            path.push(name);
            collect_files(&file, path, root, files);
            path.pop();
        } else if file.extension().is_some_and(|it| it == "rs") && (!is_root || file == root) {
            let is_parent = is_root || name == "mod";
            files.insert(if is_parent { path.clone() } else { joined(path, &name) }, file);
        }
    }
}

/// The names that one file defines and uses.
struct Module {
    file: PathBuf,
    /// Paths of imported names, from the root of the crate.
    imports: BTreeMap<String, ModulePath>,
    globs: Vec<ModulePath>,
    items: BTreeSet<String>,
    mentions: Vec<Mention>,
    test_modules: BTreeSet<String>,
}

/// A path in the code, from the root of the crate.
struct Mention {
    path: ModulePath,
    line: usize,
}

impl Module {
    fn new(file: PathBuf) -> Self {
        let (imports, items) = (BTreeMap::new(), BTreeSet::new());
        let (globs, mentions, test_modules) = (Vec::new(), Vec::new(), BTreeSet::new());
        Self { file, imports, globs, items, mentions, test_modules }
    }
}

/// Reads the tokens of one file.
struct Scan<'a> {
    path: &'a ModulePath,
    all: &'a BTreeSet<ModulePath>,
    module: Module,
}

impl Scan<'_> {
    /// Records `use` declarations and the names of items.
    fn items(&mut self, tokens: TokenStream) {
        let mut tokens = tokens.into_iter().peekable();
        let mut is_public = false;
        while let Some(token) = tokens.next() {
            match &token {
                TokenTree::Punct(mark) if mark.as_char() == '#' => self.skip_if_test(&mut tokens),
                TokenTree::Ident(word) if word == "pub" => {
                    is_public = true;
                    continue;
                }
                // Of `pub(crate)`.
                TokenTree::Group(group)
                    if is_public && group.delimiter() == Delimiter::Parenthesis =>
                {
                    continue;
                }
                TokenTree::Ident(word) if word == "use" => {
                    let line = word.span().start().line;
                    let tree = tokens.by_ref().take_while(|token| !is_punct(Some(token), ';'));
                    let tree = tree.collect();
                    self.use_tree(&[], tree, is_public, line);
                }
                TokenTree::Ident(word) if DEFINING.contains(&word.to_string().as_str()) => {
                    tokens.next_if(|token| is_punct(Some(token), '!'));
                    if let Some(TokenTree::Ident(name)) = tokens.peek() {
                        self.module.items.insert(name.to_string());
                    }
                }
                TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => {
                    self.items(group.stream());
                }
                _ => {}
            }
            is_public = false;
        }
    }

    /// Records each leaf of a `use` tree.
    fn use_tree(&mut self, prefix: &[String], tree: TokenStream, is_public: bool, line: usize) {
        let mut path = prefix.to_vec();
        let mut alias = None;
        let mut tokens = tree.into_iter();
        while let Some(token) = tokens.next() {
            match token {
                TokenTree::Ident(word) if word == "as" => {
                    alias = tokens.next().map(|name| name.to_string());
                }
                TokenTree::Ident(word) => path.push(word.to_string()),
                TokenTree::Group(group) => {
                    self.use_tree(&path, group.stream(), is_public, line);
                    path.clear();
                }
                TokenTree::Punct(mark) if mark.as_char() == '*' => path.push("*".to_owned()),
                TokenTree::Punct(mark) if mark.as_char() == ',' => {
                    let path = std::mem::replace(&mut path, prefix.to_vec());
                    self.import(path, alias.take(), is_public, line);
                }
                _ => {}
            }
        }
        if path != prefix {
            self.import(path, alias, is_public, line);
        }
    }

    fn import(
        &mut self,
        mut path: ModulePath,
        alias: Option<String>,
        is_public: bool,
        line: usize,
    ) {
        if path.len() > 1 && path.last().is_some_and(|last| last == "self") {
            path.pop();
        }
        let Some(last) = path.last().cloned() else { return };
        let Some(path) = self.absolute(&path, self.path) else { return };
        if last == "*" {
            self.module.globs.push(path[..path.len() - 1].to_vec());
        } else {
            self.module.imports.insert(alias.unwrap_or(last), path.clone());
        }
        let is_reexport = is_public && path.starts_with(self.path);
        if !is_reexport {
            self.module.mentions.push(Mention { path, line });
        }
    }

    /// Records the paths outside of `use` declarations. `at` is the path of the module around them.
    fn paths(&mut self, tokens: TokenStream, at: &mut ModulePath) {
        let mut tokens = tokens.into_iter().peekable();
        let mut inline_module = None;
        while let Some(token) = tokens.next() {
            match token {
                TokenTree::Punct(mark) if mark.as_char() == '#' => self.skip_if_test(&mut tokens),
                // The end of a path that does not begin with a name, such as `<T as Trait>::NAME`.
                TokenTree::Punct(mark) if mark.as_char() == ':' && is_punct(tokens.peek(), ':') => {
                    tokens.next();
                    tokens.next_if(|token| matches!(token, TokenTree::Ident(_)));
                }
                TokenTree::Ident(word) if word == "use" => {
                    while tokens.next_if(|token| !is_punct(Some(token), ';')).is_some() {}
                }
                TokenTree::Ident(word) if word == "mod" => {
                    inline_module = tokens.next().map(|name| name.to_string());
                }
                TokenTree::Ident(word) => {
                    let line = word.span().start().line;
                    let path = rest_of_path(word.to_string(), &mut tokens);
                    if path.len() > 1
                        && let Some(path) = self.absolute(&path, at)
                    {
                        self.module.mentions.push(Mention { path, line });
                    }
                }
                TokenTree::Group(group) => {
                    let depth = at.len();
                    at.extend(inline_module.take());
                    self.paths(group.stream(), at);
                    at.truncate(depth);
                }
                _ => {}
            }
        }
    }

    /// Returns `path` from the root of the crate, or `None` if it begins outside of the crate.
    fn absolute(&self, path: &[String], at: &[String]) -> Option<ModulePath> {
        let (first, rest) = path.split_first()?;
        let join = |base: &[String], rest: &[String]| Some([base, rest].concat());
        match first.as_str() {
            "crate" => join(&[], rest),
            "self" => join(at, rest),
            "super" => {
                let supers = path.iter().take_while(|segment| *segment == "super").count();
                join(&at[..at.len().checked_sub(supers)?], &path[supers..])
            }
            name if self.all.contains(&joined(self.path, name)) => join(self.path, path),
            name => join(self.module.imports.get(name)?, rest),
        }
    }

    /// Skips the item after `#[cfg(test)]`, and records it if it is a module in a file of its own.
    fn skip_if_test(&mut self, tokens: &mut Peekable<IntoIter>) {
        let Some(TokenTree::Group(attribute)) = tokens.peek() else { return };
        let text: String = attribute.stream().to_string().split_whitespace().collect();
        if !text.starts_with("cfg(test") && !text.starts_with("cfg(all(test") {
            return;
        }
        while let Some(token) = tokens.next() {
            match token {
                TokenTree::Ident(word) if word == "mod" => {
                    if let Some(TokenTree::Ident(name)) = tokens.peek() {
                        self.module.test_modules.insert(name.to_string());
                    }
                }
                TokenTree::Punct(mark) if mark.as_char() == ';' => return,
                TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => return,
                _ => {}
            }
        }
    }
}

/// Words after which an item is named.
const DEFINING: [&str; 9] =
    ["fn", "struct", "enum", "union", "trait", "type", "const", "static", "macro_rules"];

fn rest_of_path(first: String, tokens: &mut Peekable<IntoIter>) -> ModulePath {
    let mut path = vec![first];
    loop {
        let mut ahead = tokens.clone();
        if !(is_punct(ahead.next().as_ref(), ':') && is_punct(ahead.next().as_ref(), ':')) {
            return path;
        }
        let Some(TokenTree::Ident(word)) = ahead.next() else { return path };
        path.push(word.to_string());
        *tokens = ahead;
    }
}

fn is_punct(token: Option<&TokenTree>, character: char) -> bool {
    matches!(token, Some(TokenTree::Punct(mark)) if mark.as_char() == character)
}

/// Returns the cycles of a crate with these files, each as the sorted names of its modules.
fn cycles_of(files: &[(&str, &str)]) -> Vec<String> {
    let path = |name: &str| match name {
        "" => Vec::new(),
        name => name.split("::").map(str::to_owned).collect(),
    };
    let sources = files.iter().map(|(name, text)| (path(name), ((*text).to_owned(), name.into())));
    let modules = Modules::parse(sources.collect());
    let members = |cycle: Vec<Edge>| {
        let names: BTreeSet<String> = cycle.iter().map(|edge| edge.from.join("::")).collect();
        names.into_iter().collect::<Vec<_>>().join(" ")
    };
    cycles(modules.edges()).into_iter().map(members).collect()
}

#[test]
fn finds_cycles_through_uses_paths_and_reexports() {
    let uses = [
        ("", "mod a; mod b;"),
        ("a", "use crate::b::X; pub fn y() {}"),
        ("b", "pub struct X; fn f() { crate::a::y() }"),
    ];
    assert_eq!(cycles_of(&uses), ["a b"]);
    let reexports = [
        ("", "mod a; mod b; pub use a::Y;"),
        ("a", "use super::b::{self, c::Z}; pub struct Y; fn f() { b::x() }"),
        ("b", "pub mod c; pub fn x() {}"),
        ("b::c", "use crate::Y; pub struct Z;"),
    ];
    assert_eq!(cycles_of(&reexports), ["a b::c"]);
}

#[test]
fn ignores_ancestors_reexports_and_tests() {
    let parent = [
        ("", "mod a;"),
        ("a", "mod b; pub use b::X; pub struct Y; fn f() { b::g() }"),
        ("a::b", "use super::Y; pub struct X; pub fn g() {}"),
    ];
    assert!(cycles_of(&parent).is_empty());
    let tests = [
        ("", "mod a; mod b;"),
        ("a", "use crate::b::X; pub struct Y;"),
        ("b", "pub struct X; #[cfg(test)] mod tests { use crate::a::Y; } #[cfg(test)] mod more;"),
        ("b::more", "use crate::a::Y;"),
    ];
    assert!(cycles_of(&tests).is_empty());
}
