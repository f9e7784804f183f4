//! The R4 element table (FHIR R4 4.0.1, StructureDefinitions of datatypes and resources): which element exists, of which
//! types, how often, bound to which codes, referring to which resources.
//!
//! The facts are in `data/`; they're parsed once. Not here: the check of a resource against the table (`check`).

mod load;

use std::collections::BTreeMap;
use std::sync::LazyLock;

use smol_str::SmolStr;

use crate::invariant::Invariant;
use crate::primitive::Primitive;

/// One element of the table, or one type of a choice element.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Element {
    /// Path within the type that defines it: `HumanName.family`, `Encounter.hospitalization.admitSource`.
    pub path: String,
    /// Types it may have: one, except for a choice written `value[x]`. The types of the target for a content reference.
    pub types: Vec<&'static str>,
    /// Least number of occurrences; each variant of a choice carries the choice's number.
    pub min: u32,
    /// Greatest number of occurrences; `None` is `*`.
    pub max: Option<u32>,
    /// Value set of a *required* binding (R4 §4.1.5.1), without version.
    pub binding: Option<&'static str>,
    /// Value set of an *extensible* binding, where the table carries its codes.
    pub extensible: Option<&'static str>,
    /// Resource types a Reference may point to; empty where any may.
    pub targets: Vec<&'static str>,
    /// Path of the element whose content this one repeats.
    pub content_reference: Option<&'static str>,
}

impl Element {
    /// May it occur more than once (a JSON array, R4 §2.6.2.1)?
    pub fn is_repeating(&self) -> bool {
        self.max.is_none_or(|max| max > 1)
    }
}

/// Index of a [`Shape`] in the table.
pub(crate) type ShapeId = usize;

/// What a value of a type may look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A JSON string, number or boolean.
    Primitive(Primitive),
    /// A JSON object with the shape's properties.
    Complex,
    /// A resource of a type of its own, e.g. in `contained`.
    AnyResource,
}

/// The content of a type or of a component inside one (`Encounter.hospitalization`).
#[derive(Debug)]
pub(crate) struct Shape {
    /// The type or component by itself.
    pub root: Element,
    pub kind: Kind,
    /// Is it a resource type that can be instantiated?
    pub resource: bool,
    /// Sorted by name; each variant of a choice has its own.
    pub properties: Vec<Property>,
    /// `value[x]` as one element.
    pub choices: Vec<Element>,
    /// Alternatives of which at least one must be there: indexes into `properties`.
    pub required: Vec<Vec<usize>>,
    pub invariants: &'static [Invariant],
}

/// A JSON member of a shape.
#[derive(Debug)]
pub(crate) struct Property {
    /// `valueQuantity`
    pub name: SmolStr,
    pub shape: ShapeId,
    pub repeats: bool,
    /// Index into `choices` of the choice it's a variant of.
    pub choice: Option<usize>,
    /// Index into the table's value sets, for a required or extensible binding.
    pub value_set: Option<usize>,
    pub element: Element,
}

impl Shape {
    pub(crate) fn property(&self, name: &str) -> Option<&Property> {
        let at = self.properties.binary_search_by(|p| p.name.as_str().cmp(name)).ok()?;
        self.properties.get(at)
    }
}

/// The codes of a value set.
#[derive(Debug, Default)]
pub struct ValueSet {
    systems: BTreeMap<&'static str, Vec<&'static str>>,
}

impl ValueSet {
    /// Is the code of this system in the set?
    pub fn contains(&self, system: &str, code: &str) -> bool {
        self.systems.get(system).is_some_and(|codes| codes.binary_search(&code).is_ok())
    }

    /// Is the code in the set, whatever its system (for an element of type `code`)?
    pub fn contains_code(&self, code: &str) -> bool {
        self.systems.values().any(|codes| codes.binary_search(&code).is_ok())
    }

    /// Does the set draw from this system?
    pub fn contains_system(&self, system: &str) -> bool {
        self.systems.contains_key(system)
    }

    /// The codes as (system, code), sorted.
    pub fn codes(&self) -> impl Iterator<Item = (&'static str, &'static str)> + '_ {
        self.systems.iter().flat_map(|(system, codes)| codes.iter().map(|code| (*system, *code)))
    }
}

/// The R4 element table. Elements are found by path, through datatypes, choices and content references.
#[derive(Debug)]
pub struct ElementTable {
    shapes: Vec<Shape>,
    /// Root types by name.
    types: BTreeMap<&'static str, ShapeId>,
    value_sets: Vec<ValueSet>,
    value_set_names: BTreeMap<&'static str, usize>,
}

static R4: LazyLock<ElementTable> = LazyLock::new(|| load::load(load::ELEMENTS, load::CODES));

impl ElementTable {
    /// FHIR R4, 4.0.1.
    pub fn r4() -> &'static ElementTable {
        &R4
    }

    /// The element at a path such as `Encounter.hospitalization.admitSource`, `Patient.name.family`,
    /// `Patient.deceasedBoolean`, `Patient.deceased[x]` or `Patient.birthDate.extension.url`. A type's name alone gives the
    /// type itself. `_birthDate` is the same element as `birthDate`.
    pub fn element(&self, path: &str) -> Option<&Element> {
        let mut names = path.split('.');
        let mut shape = self.shape(self.type_id(names.next()?)?)?;
        let mut element = &shape.root;
        while let Some(name) = names.next() {
            if name.ends_with("[x]") {
                let choice = shape.choices.iter().find(|c| c.path.rsplit('.').next() == Some(name))?;
                return names.next().is_none().then_some(choice);
            }
            let property = self.property_or_sibling(shape, name)?;
            element = &property.element;
            shape = self.shape(property.shape)?;
        }
        Some(element)
    }

    /// Which members along a path below a type are variants of a choice: their places in `members`, each with the choice's
    /// name (`deceased[x]`). The walk ends at a member the table does not have.
    pub fn choices_along(&self, type_name: &str, members: &[&str]) -> Vec<(usize, &str)> {
        let mut found = Vec::new();
        let mut shape = self.type_id(type_name).and_then(|id| self.shape(id));
        for (at, name) in members.iter().enumerate() {
            let Some((within, property)) = shape.and_then(|s| Some((s, self.property_or_sibling(s, name)?))) else {
                break;
            };
            let choice = property.choice.and_then(|choice| within.choices.get(choice));
            found.extend(choice.and_then(|c| c.path.rsplit('.').next()).map(|stem| (at, stem)));
            shape = self.shape(property.shape);
        }
        found
    }

    /// `_birthDate` holds the id and extensions of the primitive `birthDate` (R4 §2.6.2.3).
    fn property_or_sibling<'t>(&'t self, shape: &'t Shape, name: &str) -> Option<&'t Property> {
        let Some(bare) = name.strip_prefix('_') else { return shape.property(name) };
        let property = shape.property(bare)?;
        matches!(self.shape(property.shape)?.kind, Kind::Primitive(_)).then_some(property)
    }

    /// May the element at the path occur more than once? `None` where there's no such element.
    pub fn is_repeating(&self, path: &str) -> Option<bool> {
        self.element(path).map(Element::is_repeating)
    }

    /// The type of the element at the path; `None` for `value[x]` with several types, and where there's no such element.
    pub fn type_of(&self, path: &str) -> Option<&'static str> {
        match self.element(path)?.types.as_slice() {
            [only] => Some(only),
            _ => None,
        }
    }

    /// Names of the resource types, sorted; without the abstract `Resource` and `DomainResource`.
    pub fn resource_types(&self) -> impl Iterator<Item = &'static str> + '_ {
        self.types.iter().filter(|(_, id)| self.shape(**id).is_some_and(|s| s.resource)).map(|(name, _)| *name)
    }

    /// Is it the name of a resource type?
    pub fn is_resource_type(&self, name: &str) -> bool {
        self.resource(name).is_some()
    }

    /// Has the type (or component, by path) an element of this name?
    pub fn has_element(&self, of: &str, name: &str) -> bool {
        self.element(&[of, name].join(".")).is_some()
    }

    /// Is it the name of a primitive type (R4 §2.24.0.1)?
    pub fn is_primitive(&self, type_name: &str) -> bool {
        self.primitive(type_name).is_some()
    }

    /// The primitive type of this name.
    pub fn primitive(&self, type_name: &str) -> Option<Primitive> {
        match self.shape(self.type_id(type_name)?)?.kind {
            Kind::Primitive(primitive) => Some(primitive),
            _ => None,
        }
    }

    /// The codes of a value set, by URL with or without `|version`; `None` for sets the table doesn't list.
    pub fn required_codes(&self, value_set: &str) -> Option<&ValueSet> {
        let url = value_set.split('|').next()?;
        self.value_set(*self.value_set_names.get(url)?)
    }

    pub(crate) fn type_id(&self, name: &str) -> Option<ShapeId> {
        self.types.get(name).copied()
    }

    pub(crate) fn shape(&self, id: ShapeId) -> Option<&Shape> {
        self.shapes.get(id)
    }

    /// The shape of a resource type that can be instantiated.
    pub(crate) fn resource(&self, name: &str) -> Option<&Shape> {
        self.shape(self.type_id(name)?).filter(|shape| shape.resource)
    }

    pub(crate) fn value_set(&self, index: usize) -> Option<&ValueSet> {
        self.value_sets.get(index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> &'static ElementTable {
        ElementTable::r4()
    }

    #[test]
    fn every_line_of_the_data_is_an_element() {
        let blocks = load::blocks(load::ELEMENTS);
        let rows = load::ELEMENTS.lines().filter(|row| row.starts_with('.')).count();
        assert_eq!(blocks.iter().map(|b| b.lines.len()).sum::<usize>(), rows);
        for block in &blocks {
            for line in &block.lines {
                let path = [block.name, line.path].join(".");
                let element = table().element(&path).unwrap_or_else(|| panic!("{path}"));
                assert!(!element.types.is_empty(), "{path}");
                let codes = element.binding.or(element.extensible);
                let unlisted = ["mimetypes", "ucum-units", "currencies", "LL379-9"];
                assert!(
                    codes.is_none_or(
                        |url| unlisted.iter().any(|u| url.ends_with(u)) || table().required_codes(url).is_some()
                    ),
                    "{path}"
                );
            }
        }
        for shape in &table().shapes {
            assert!(shape.properties.windows(2).all(|w| w[0].name < w[1].name), "{}", shape.root.path);
        }
    }

    #[test]
    fn paths_walk_through_types() {
        let path = |p: &str| table().element(p).map(|e| e.path.as_str());
        assert_eq!(path("Patient"), Some("Patient"));
        assert_eq!(path("Patient.name.family"), Some("HumanName.family"));
        assert_eq!(path("Patient.name.period.start"), Some("Period.start"));
        assert_eq!(path("Patient.id"), Some("Patient.id"));
        assert_eq!(path("Encounter.hospitalization.admitSource"), Some("Encounter.hospitalization.admitSource"));
        assert_eq!(path("Encounter.hospitalization.extension.url"), Some("Extension.url"));
        assert_eq!(
            path("Encounter.hospitalization.modifierExtension"),
            Some("Encounter.hospitalization.modifierExtension")
        );
        assert_eq!(path("Patient.birthDate.extension.valueDateTime"), Some("Extension.valueDateTime"));
        assert_eq!(path("Patient._birthDate.extension.url"), Some("Extension.url"));
        assert_eq!(path("Patient._name.extension"), None);
        assert_eq!(path("Patient.deceased[x]"), Some("Patient.deceased[x]"));
        assert_eq!(path("Observation.component.referenceRange.low.value"), Some("Quantity.value"));
        assert_eq!(path("Bundle.entry.link.url"), Some("Bundle.link.url"));
        assert_eq!(path("Timing.repeat.boundsPeriod.start"), Some("Period.start"));
        for absent in [
            "Patent",
            "Patient.nickName",
            "Patient.deceased",
            "Patient.deceasedString",
            "Meta.project",
            "",
            "Patient.",
            "Patient.birthDate.value",
            "Patient.resourceType",
            "Patient.deceased[x].extension",
            "Encounter.period.start.coding",
        ] {
            assert_eq!(path(absent), None, "{absent}");
        }
    }

    #[test]
    fn elements_carry_what_the_standard_says() {
        let status = table().element("Encounter.status").unwrap();
        assert_eq!((status.min, status.max), (1, Some(1)));
        assert_eq!(status.binding, Some("http://hl7.org/fhir/ValueSet/encounter-status"));
        let class = table().element("Encounter.class").unwrap();
        assert_eq!((class.binding, class.extensible.is_some()), (None, true));
        assert_eq!(table().element("Encounter.subject").unwrap().targets, ["Group", "Patient"]);
        assert_eq!(table().element("Patient.deceased[x]").unwrap().types, ["boolean", "dateTime"]);
        assert_eq!(table().type_of("Patient.deceasedDateTime"), Some("dateTime"));
        assert_eq!(table().type_of("Patient.deceased[x]"), None);
        assert_eq!(table().type_of("Patient.id"), Some("id"));
        assert_eq!(table().type_of("Encounter.hospitalization"), Some("BackboneElement"));
        let range = table().element("Observation.component.referenceRange").unwrap();
        assert_eq!(
            (range.content_reference, range.types.as_slice()),
            (Some("Observation.referenceRange"), &["BackboneElement"][..])
        );
        assert_eq!(table().is_repeating("Patient.name"), Some(true));
        assert_eq!(table().is_repeating("Patient.birthDate"), Some(false));
        assert_eq!(table().is_repeating("Patient.nothing"), None);
    }

    #[test]
    fn types_and_codes_are_known() {
        assert_eq!(table().resource_types().count(), 146);
        assert!(
            table().is_resource_type("Binary")
                && !table().is_resource_type("Resource")
                && !table().is_resource_type("HumanName")
        );
        assert!(table().has_element("Patient", "identifier") && !table().has_element("Provenance", "identifier"));
        assert!(table().is_primitive("code") && !table().is_primitive("HumanName") && !table().is_primitive("x"));
        let genders = table().required_codes("http://hl7.org/fhir/ValueSet/administrative-gender|4.0.1").unwrap();
        assert!(genders.contains("http://hl7.org/fhir/administrative-gender", "female"));
        assert!(genders.contains_code("unknown") && !genders.contains_code("F") && !genders.contains("x", "female"));
        assert_eq!(genders.codes().count(), 4);
        assert!(table().required_codes("http://hl7.org/fhir/ValueSet/mimetypes").is_none());
    }
}
