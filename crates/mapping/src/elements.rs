//! What the R4 element table says to a rule: which element a path names, what fits it, which constants it takes.
//! Not here: the table (`fhir::element`) and the check of resources.

use fhir::Json;
use fhir::element::{ElementTable, ValueSet};
use smol_str::SmolStr;

/// An element as a rule sees it.
#[derive(Clone, Debug)]
pub(crate) struct Field {
    /// From the root type on: `Encounter.participant.type`.
    pub path: String,
    /// Its type; `BackboneElement` for what has none.
    pub kind: SmolStr,
    pub repeats: bool,
    pub primitive: bool,
    /// Resource types a reference may point to; empty where any may.
    pub targets: Vec<&'static str>,
    /// The only codes it takes (required binding).
    pub codes: Option<&'static ValueSet>,
}

impl Field {
    pub(crate) fn refers_to(&self, resource: &str) -> bool {
        self.targets.is_empty()
            || self.targets.iter().any(|target| matches!(*target, "Resource" | "DomainResource") || *target == resource)
    }

    pub(crate) fn allows(&self, code: &str) -> bool {
        self.kind != "code" || self.codes.is_none_or(|codes| codes.contains_code(code))
    }
}

/// Kinds of R4 types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TypeKind {
    Primitive,
    Complex,
    Resource,
}

/// The kind of a type by its name.
pub(crate) fn kind(name: &str) -> Option<TypeKind> {
    let table = ElementTable::r4();
    if name.contains('.') {
        None
    } else if table.is_resource_type(name) {
        Some(TypeKind::Resource)
    } else if table.is_primitive(name) {
        Some(TypeKind::Primitive)
    } else {
        table.element(name).map(|_| TypeKind::Complex)
    }
}

/// The element `name` of what is at the path `parent`; choice types by name (`deceasedDateTime`).
pub(crate) fn field(parent: &str, name: &str) -> Result<Field, String> {
    let table = ElementTable::r4();
    let path = format!("{parent}.{name}");
    let found = table.element(&path).filter(|_| !name.is_empty() && !name.starts_with('_'));
    let Some(element) = found else {
        return Err(format!("R4 has no {path}"));
    };
    let [kind] = element.types.as_slice() else {
        return Err(format!("{path} has a choice of types: name one ({})", element.types.join(", ")));
    };
    Ok(Field {
        kind: SmolStr::new_static(kind),
        repeats: element.is_repeating(),
        primitive: table.is_primitive(kind),
        targets: element.targets.clone(),
        codes: element.binding.and_then(|set| table.required_codes(set)),
        path,
    })
}

/// A type as the target `$this`.
pub(crate) fn whole(kind: &str) -> Field {
    Field {
        path: kind.to_owned(),
        kind: SmolStr::new(kind),
        repeats: false,
        primitive: ElementTable::r4().is_primitive(kind),
        targets: Vec::new(),
        codes: None,
    }
}

/// Whether a value of one type may stand where another is asked for.
pub(crate) fn fits(gives: &str, wants: &str) -> bool {
    const SPECIAL: &[(&str, &[&str])] = &[
        ("string", &["markdown"]),
        ("markdown", &["string"]),
        ("code", &["string"]),
        ("id", &["string"]),
        ("uri", &["url", "canonical", "oid", "uuid", "string"]),
        ("url", &["uri"]),
        ("canonical", &["uri"]),
        ("oid", &["uri"]),
        ("uuid", &["uri"]),
        ("positiveInt", &["integer", "unsignedInt"]),
        ("unsignedInt", &["integer"]),
        ("Quantity", &["Age", "Count", "Distance", "Duration", "SimpleQuantity"]),
        ("Duration", &["Quantity"]),
        ("Age", &["Quantity"]),
    ];
    gives == wants || SPECIAL.iter().any(|(from, to)| *from == gives && to.contains(&wants))
}

/// Checks a constant against its element.
pub(crate) fn constant(field: &Field, value: &Json) -> Result<(), String> {
    let wrong = |wanted: &str| Err(format!("{} is {}: its constant is {wanted}", field.path, field.kind));
    let kind = field.kind.as_str();
    match (kind, value) {
        _ if !field.primitive => Err(format!("{} is {kind}, which no constant fills", field.path)),
        ("boolean", Json::Bool(_)) => Ok(()),
        ("boolean", _) => wrong("true or false"),
        ("integer" | "positiveInt" | "unsignedInt" | "decimal", Json::Number(number)) => {
            let least = match kind {
                "positiveInt" => 1,
                "unsignedInt" => 0,
                _ => i64::MIN,
            };
            if number.parse::<i64>().is_ok_and(|n| n >= least) { Ok(()) } else { wrong("a number in its range") }
        }
        ("integer" | "positiveInt" | "unsignedInt" | "decimal", _) => wrong("a number"),
        ("uri" | "url" | "canonical" | "oid" | "uuid" | "id", Json::String(text))
            if text.contains(char::is_whitespace) =>
        {
            wrong("a string without spaces")
        }
        ("code", Json::String(text)) => match field.codes {
            Some(codes) if !codes.contains_code(text) => {
                let known: Vec<&str> = codes.codes().map(|(_, code)| code).take(20).collect();
                Err(format!("{} takes {}, not \"{text}\"", field.path, known.join(", ")))
            }
            _ => Ok(()),
        },
        ("date" | "dateTime" | "instant" | "time" | "base64Binary", _) => {
            Err(format!("{} is {kind}: a constant one would be invented", field.path))
        }
        (_, Json::String(_)) => Ok(()),
        _ => wrong("a string"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_answers() {
        let field = field("Encounter.participant", "individual").unwrap();
        assert_eq!(field.kind, "Reference");
        assert!(field.refers_to("Practitioner") && !field.refers_to("Patient"));
        assert_eq!(super::field("Patient", "deceasedBoolean").unwrap().kind, "boolean");
        assert!(super::field("Patient", "deceased[x]").is_err());
        assert_eq!(kind("Patient"), Some(TypeKind::Resource));
        assert_eq!(kind("HumanName"), Some(TypeKind::Complex));
        assert_eq!(kind("code"), Some(TypeKind::Primitive));
        assert_eq!(kind("Encounter.participant"), None);
    }

    #[test]
    fn constants_have_the_elements_form() {
        let gender = field("Patient", "gender").unwrap();
        assert!(constant(&gender, &Json::from("male")).is_ok());
        assert!(constant(&gender, &Json::from("M")).is_err());
        let active = field("Patient", "active").unwrap();
        assert!(constant(&active, &Json::from(true)).is_ok());
        assert!(constant(&active, &Json::from("true")).is_err());
        assert!(constant(&field("Patient", "name").unwrap(), &Json::from("x")).is_err());
        assert!(constant(&field("Patient", "birthDate").unwrap(), &Json::from("2000")).is_err());
    }
}
