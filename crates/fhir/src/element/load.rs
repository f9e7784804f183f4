//! Reads `data/` into the element table. The data are part of the program and a test reads them whole, so a line that
//! makes no sense is left out rather than reported.

use std::collections::BTreeMap;

use smol_str::SmolStr;

use super::{Element, ElementTable, Kind, Property, Shape, ShapeId, ValueSet};
use crate::invariant;
use crate::primitive::Primitive;

pub(super) const ELEMENTS: &str = include_str!("../../data/elements.tsv");
pub(super) const CODES: &str = include_str!("../../data/codes.tsv");

/// A line of the elements file.
pub(super) struct Line {
    /// `hospitalization.admitSource`
    pub path: &'static str,
    types: Vec<&'static str>,
    min: u32,
    max: Option<u32>,
    value_set: &'static str,
    targets: Vec<&'static str>,
    content_reference: Option<&'static str>,
}

/// A type with its lines.
pub(super) struct Block {
    pub name: &'static str,
    base: Option<&'static str>,
    pub lines: Vec<Line>,
}

pub(super) fn load(elements: &'static str, codes: &'static str) -> ElementTable {
    let blocks = blocks(elements);
    let (value_sets, value_set_names) = value_sets(codes);
    let mut loader =
        Loader { shapes: Vec::new(), ids: BTreeMap::new(), blocks: &blocks, value_set_names: &value_set_names };
    loader.declare();
    loader.fill();
    let types = blocks.iter().filter_map(|b| Some((b.name, *loader.ids.get(b.name)?))).collect();
    ElementTable { shapes: loader.shapes, types, value_sets, value_set_names }
}

pub(super) fn blocks(text: &'static str) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    for row in text.lines() {
        if row.starts_with('.') {
            if let (Some(block), Some(line)) = (blocks.last_mut(), line(row)) {
                block.lines.push(line);
            }
        } else {
            let mut columns = row.split('\t');
            let name = columns.next().unwrap_or_default();
            blocks.push(Block { name, base: columns.next(), lines: Vec::new() });
        }
    }
    blocks
}

fn line(row: &'static str) -> Option<Line> {
    let mut columns = row.split('\t');
    let path = columns.next()?.strip_prefix('.')?;
    let types = list(columns.next()?);
    let (min, max) = columns.next()?.split_once("..")?;
    let max = if max == "*" { None } else { Some(max.parse().ok()?) };
    Some(Line {
        path,
        types,
        min: min.parse().ok()?,
        max,
        value_set: columns.next().unwrap_or_default(),
        targets: list(columns.next().unwrap_or_default()),
        content_reference: columns.next(),
    })
}

fn list(column: &'static str) -> Vec<&'static str> {
    column.split(',').filter(|item| !item.is_empty()).collect()
}

fn value_sets(text: &'static str) -> (Vec<ValueSet>, BTreeMap<&'static str, usize>) {
    let mut sets: Vec<ValueSet> = Vec::new();
    let mut names = BTreeMap::new();
    for row in text.lines() {
        let mut columns = row.split('\t');
        let (Some(name), Some(system)) = (columns.next(), columns.next()) else { continue };
        let index = *names.entry(name).or_insert_with(|| {
            sets.push(ValueSet::default());
            sets.len().saturating_sub(1)
        });
        let mut codes: Vec<_> = columns.collect();
        codes.sort_unstable();
        if let Some(set) = sets.get_mut(index) {
            set.systems.insert(system, codes);
        }
    }
    (sets, names)
}

struct Loader<'b> {
    shapes: Vec<Shape>,
    /// Shapes by type name and by the path of a component.
    ids: BTreeMap<String, ShapeId>,
    blocks: &'b [Block],
    value_set_names: &'b BTreeMap<&'static str, usize>,
}

impl Loader<'_> {
    /// A shape for each type and each component, still without properties.
    fn declare(&mut self) {
        for block in self.blocks {
            let kind = match Primitive::named(block.name) {
                Some(primitive) => Kind::Primitive(primitive),
                None if matches!(block.name, "Resource" | "DomainResource") => Kind::AnyResource,
                None => Kind::Complex,
            };
            let resource =
                matches!(block.base, Some("Resource" | "DomainResource")) && !matches!(kind, Kind::AnyResource);
            self.add(block.name.to_owned(), root(block.name), kind, resource);
            for line in &block.lines {
                if is_component(line) {
                    let element = element(block.name, line);
                    self.add(element.path.clone(), element, Kind::Complex, false);
                }
            }
        }
    }

    fn add(&mut self, path: String, root: Element, kind: Kind, resource: bool) {
        self.ids.insert(path, self.shapes.len());
        let (properties, choices, required) = (Vec::new(), Vec::new(), Vec::new());
        let invariants = invariant::of(&root.path);
        self.shapes.push(Shape { root, kind, resource, properties, choices, required, invariants });
    }

    fn fill(&mut self) {
        for block in self.blocks {
            self.inherit(block.name, block.base);
            for line in &block.lines {
                let (parent, leaf) = match line.path.rsplit_once('.') {
                    Some((parent, leaf)) => ([block.name, parent].join("."), leaf),
                    None => (block.name.to_owned(), line.path),
                };
                if is_component(line) {
                    self.inherit(&[block.name, line.path].join("."), line.types.first().copied());
                }
                self.own(&parent, leaf, block.name, line);
            }
        }
        for shape in &mut self.shapes {
            finish(shape);
        }
    }

    /// Adds what the base type (and its base) has, as elements of `path`.
    fn inherit(&mut self, path: &str, base: Option<&'static str>) {
        let mut base = base;
        let blocks = self.blocks;
        while let Some(block) = base.and_then(|name| blocks.iter().find(|b| b.name == name)) {
            for line in &block.lines {
                self.own(path, line.path, path, line);
            }
            base = block.base;
        }
    }

    /// Adds an element to the shape at `parent`: one property, or one for each type of a choice.
    fn own(&mut self, parent: &str, leaf: &'static str, owner: &str, line: &Line) {
        let Some(parent) = self.ids.get(parent).copied() else { return };
        let mut whole = element(owner, line);
        if let Some(target) = line.content_reference {
            let content = self.ids.get(target).and_then(|id| self.shapes.get(*id));
            whole.types = content.map(|shape| shape.root.types.clone()).unwrap_or_default();
        }
        if let Some(stem) = leaf.strip_suffix("[x]") {
            self.choice(parent, stem, &whole);
            return;
        }
        let shape = match line.content_reference {
            Some(target) => self.ids.get(target),
            None if is_component(line) => self.ids.get(&whole.path),
            None => line.types.first().and_then(|name| self.ids.get(*name)),
        };
        if let Some(shape) = shape.copied() {
            self.push(parent, SmolStr::new(leaf), shape, None, whole);
        }
    }

    fn choice(&mut self, parent: ShapeId, stem: &str, whole: &Element) {
        let Some(choices) = self.shapes.get_mut(parent).map(|shape| &mut shape.choices) else { return };
        let choice = choices.len();
        choices.push(whole.clone());
        for name in &whole.types {
            let Some(shape) = self.ids.get(*name).copied() else { continue };
            let mut variant = whole.clone();
            variant.types = vec![name];
            let stem_path = variant.path.trim_end_matches("[x]").to_owned();
            variant.path = stem_path + &capitalised(name);
            self.push(parent, SmolStr::from(stem.to_owned() + &capitalised(name)), shape, Some(choice), variant);
        }
    }

    fn push(&mut self, parent: ShapeId, name: SmolStr, shape: ShapeId, choice: Option<usize>, element: Element) {
        let value_set = element.binding.or(element.extensible).and_then(|url| self.value_set_names.get(url).copied());
        if let Some(parent) = self.shapes.get_mut(parent) {
            let repeats = element.is_repeating();
            parent.properties.push(Property { name, shape, repeats, choice, value_set, element });
        }
    }
}

/// Sorts the properties and notes which must be there.
fn finish(shape: &mut Shape) {
    shape.properties.sort_by(|a, b| a.name.cmp(&b.name));
    let mut required: BTreeMap<(Option<usize>, SmolStr), Vec<usize>> = BTreeMap::new();
    for (index, property) in shape.properties.iter().enumerate() {
        if property.element.min > 0 {
            let name = if property.choice.is_some() { SmolStr::default() } else { property.name.clone() };
            required.entry((property.choice, name)).or_default().push(index);
        }
    }
    shape.required = required.into_values().collect();
}

/// A component defined in place has a shape of its own.
fn is_component(line: &Line) -> bool {
    matches!(line.types.as_slice(), ["BackboneElement" | "Element"])
}

fn root(name: &'static str) -> Element {
    Element {
        path: name.to_owned(),
        types: vec![name],
        min: 0,
        max: None,
        binding: None,
        extensible: None,
        targets: Vec::new(),
        content_reference: None,
    }
}

fn element(owner: &str, line: &Line) -> Element {
    let extensible = line.value_set.strip_prefix('~');
    let binding = Some(line.value_set).filter(|url| !url.is_empty() && extensible.is_none());
    Element {
        path: [owner, line.path].join("."),
        types: line.types.clone(),
        min: line.min,
        max: line.max,
        binding,
        extensible,
        targets: line.targets.clone(),
        content_reference: line.content_reference,
    }
}

fn capitalised(name: &str) -> String {
    let mut letters = name.chars();
    letters.next().map(|first| first.to_ascii_uppercase().to_string() + letters.as_str()).unwrap_or_default()
}
