//! The primitives a rule may name in `as`: FHIR's own, and the few that take more than one part of a value.
//! Not here: their conversion (`convert`).

/// A primitive of Rust.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Primitive {
    String,
    Markdown,
    Code,
    Id,
    Uri,
    Url,
    Canonical,
    Oid,
    Uuid,
    Boolean,
    Integer,
    PositiveInt,
    UnsignedInt,
    Decimal,
    Date,
    DateTime,
    Instant,
    Time,
    Base64Binary,
    /// HD → system.
    Authority,
    /// The HD of an EI (components 2 to 4) → system.
    EntityAuthority,
    /// CX → system, with the sender's default.
    IdentifierSystem,
    /// Name or OID of a coding system, or a whole CWE → system.
    CodingSystem,
    /// XTN → number.
    Telephone,
    /// The whole value with its separators.
    Full,
}

/// Names in rule files and the R4 types they give.
const PRIMITIVES: &[(Primitive, &str, &str)] = &[
    (Primitive::String, "string", "string"),
    (Primitive::Markdown, "markdown", "markdown"),
    (Primitive::Code, "code", "code"),
    (Primitive::Id, "id", "id"),
    (Primitive::Uri, "uri", "uri"),
    (Primitive::Url, "url", "url"),
    (Primitive::Canonical, "canonical", "canonical"),
    (Primitive::Oid, "oid", "oid"),
    (Primitive::Uuid, "uuid", "uuid"),
    (Primitive::Boolean, "boolean", "boolean"),
    (Primitive::Integer, "integer", "integer"),
    (Primitive::PositiveInt, "positiveInt", "positiveInt"),
    (Primitive::UnsignedInt, "unsignedInt", "unsignedInt"),
    (Primitive::Decimal, "decimal", "decimal"),
    (Primitive::Date, "date", "date"),
    (Primitive::DateTime, "dateTime", "dateTime"),
    (Primitive::Instant, "instant", "instant"),
    (Primitive::Time, "time", "time"),
    (Primitive::Base64Binary, "base64Binary", "base64Binary"),
    (Primitive::Authority, "authority", "uri"),
    (Primitive::EntityAuthority, "entity-authority", "uri"),
    (Primitive::IdentifierSystem, "identifier-system", "uri"),
    (Primitive::CodingSystem, "coding-system", "uri"),
    (Primitive::Telephone, "telephone", "string"),
    (Primitive::Full, "full", "string"),
];

impl Primitive {
    /// The primitive of a name in `as`.
    pub(crate) fn named(name: &str) -> Option<Primitive> {
        PRIMITIVES.iter().find(|(_, known, _)| *known == name).map(|(primitive, ..)| *primitive)
    }

    /// The primitive that makes an R4 primitive type.
    pub(crate) fn of_type(kind: &str) -> Option<Primitive> {
        PRIMITIVES.iter().find(|(_, name, gives)| *name == kind && name == gives).map(|(primitive, ..)| *primitive)
    }

    /// The R4 type it gives.
    pub(crate) fn produces(self) -> &'static str {
        PRIMITIVES.iter().find(|(primitive, ..)| *primitive == self).map_or("string", |(_, _, gives)| *gives)
    }

    /// Whether it takes the whole text with its separators (M14) rather than the first component.
    pub(crate) fn is_text(self) -> bool {
        matches!(self, Primitive::String | Primitive::Markdown | Primitive::Full)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_primitive_has_one_name() {
        for (primitive, name, gives) in PRIMITIVES {
            assert_eq!(Primitive::named(name), Some(*primitive));
            assert_eq!(primitive.produces(), *gives);
        }
        assert_eq!(Primitive::of_type("authority"), None);
        assert_eq!(Primitive::of_type("dateTime"), Some(Primitive::DateTime));
        assert_eq!(Primitive::named("XPN[HumanName]"), None);
    }
}
