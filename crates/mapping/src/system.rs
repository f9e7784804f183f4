//! Systems: of identifiers by their assigning authority, of codes by the name of their coding system.
//! Not here: which identifier identifies (`identity`).
//! Contract: a system comes from the message or from configuration, never from a guess.

use std::collections::BTreeMap;

use smol_str::{SmolStr, SmolStrBuilder};

use crate::convert::is_oid;
use crate::sender::Sender;

/// The parts of an HD (HL7 v2 §2.A.36), unescaped.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Authority {
    pub namespace: Option<SmolStr>,
    pub universal: Option<SmolStr>,
    pub universal_type: Option<SmolStr>,
}

impl Authority {
    /// The system of the authority. What is configured for the namespace (or the universal id) goes first, so that a
    /// sender's namespace means the same with and without its OID; then the universal id; then the namespace.
    pub(crate) fn system(&self, sender: &Sender) -> Option<SmolStr> {
        let names = [&self.namespace, &self.universal];
        let configured = names.into_iter().flatten().find_map(|name| sender.authorities.get(name.as_str()));
        if let Some(system) = configured {
            return Some(SmolStr::from(system.as_str()));
        }
        if let Some(system) = self.universal_system() {
            return Some(system);
        }
        let namespace = self.namespace.as_deref()?;
        (!sender.namespace_base.is_empty()).then(|| encoded(&sender.namespace_base, namespace))
    }

    /// Table 0301: ISO, UUID and URI name something as a URI does; an OID without its type is still an OID.
    fn universal_system(&self) -> Option<SmolStr> {
        let id = self.universal.as_deref()?;
        match self.universal_type.as_deref() {
            Some("ISO") | None if is_oid(id) => Some(SmolStr::from_iter(["urn:oid:", id])),
            Some("UUID" | "GUID") => {
                let id = uuid::Uuid::try_parse(id).ok()?;
                Some(SmolStr::new(id.urn().encode_lower(&mut uuid::Uuid::encode_buffer())))
            }
            Some("URI" | "URL") if is_absolute_uri(id) => Some(SmolStr::new(id)),
            _ => None,
        }
    }
}

fn is_absolute_uri(text: &str) -> bool {
    let scheme = text.split_once(':').map_or("", |(scheme, _)| scheme);
    scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && !text.contains(|c: char| c.is_whitespace() || c.is_control())
}

/// A name behind a URI prefix, percent-encoded (RFC 3986 §2.1).
fn encoded(base: &str, name: &str) -> SmolStr {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    let mut out = SmolStrBuilder::new();
    out.push_str(base);
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push('%');
            for nibble in [byte >> 4, byte & 0xf] {
                out.push(char::from(HEX.get(usize::from(nibble)).copied().unwrap_or(b'0')));
            }
        }
    }
    out.finish()
}

/// The URI of a coding system's name (table 0396) or OID. `HL7nnnn` is table nnnn.
pub(crate) fn coding_system(name: &str, systems: &BTreeMap<SmolStr, SmolStr>) -> Option<SmolStr> {
    let name = name.trim();
    if let Some(system) = systems.get(name) {
        return Some(system.clone());
    }
    let digits = name.strip_prefix("HL7")?;
    let table = digits.len() == 4 && digits.bytes().all(|b| b.is_ascii_digit());
    table.then(|| SmolStr::from_iter(["http://terminology.hl7.org/CodeSystem/v2-", digits]))
}

/// The parts of an XTN that make a number: 1, 5, 6, 7, 8, 12.
#[derive(Clone, Debug, Default)]
pub(crate) struct Telephone {
    pub free_text: Option<SmolStr>,
    pub country: Option<SmolStr>,
    pub area: Option<SmolStr>,
    pub local: Option<SmolStr>,
    pub extension: Option<SmolStr>,
    pub unformatted: Option<SmolStr>,
}

impl Telephone {
    /// The guide's assembly (v2-to-FHIR XTN[ContactPoint] rows 1, 13–16, 22): `+5 6 7 X8`, else XTN.12, else XTN.1.
    /// Also tells which of the six parts it used.
    pub(crate) fn number(&self) -> Option<(SmolStr, &'static [u16])> {
        const ASSEMBLED: &[u16] = &[5, 6, 7, 8];
        let Some(local) = &self.local else {
            let whole = [(&self.unformatted, &[12_u16][..]), (&self.free_text, &[1_u16][..])];
            return whole.into_iter().find_map(|(text, parts)| Some((text.clone()?, parts)));
        };
        let mut out = SmolStrBuilder::new();
        if let Some(country) = &self.country {
            if !country.starts_with('+') {
                out.push('+');
            }
            out.push_str(country);
            out.push(' ');
        }
        if let Some(area) = &self.area {
            out.push_str(area);
            out.push(' ');
        }
        out.push_str(local);
        if let Some(extension) = &self.extension {
            out.push_str(" X");
            out.push_str(extension);
        }
        Some((out.finish(), ASSEMBLED))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sender::Zone;

    fn system(namespace: &str, universal: &str, kind: &str, sender: &Sender) -> Option<String> {
        let part = |text: &str| (!text.is_empty()).then(|| SmolStr::new(text));
        let authority =
            Authority { namespace: part(namespace), universal: part(universal), universal_type: part(kind) };
        authority.system(sender).map(|s| s.to_string())
    }

    #[test]
    fn authorities_have_one_system_each() {
        let mut sender = Sender::new("a", Zone::named("UTC").unwrap());
        sender.authorities.insert("HOSP".into(), "https://hosp.example/mrn".into());
        let found = |n, u, k| system(n, u, k, &sender);
        assert_eq!(found("HOSP", "", "").as_deref(), Some("https://hosp.example/mrn"));
        assert_eq!(found("HOSP", "1.2.3", "ISO").as_deref(), Some("https://hosp.example/mrn"));
        assert_eq!(found("X", "1.2.3", "ISO").as_deref(), Some("urn:oid:1.2.3"));
        assert_eq!(found("", "1.2.3", "").as_deref(), Some("urn:oid:1.2.3"));
        assert_eq!(found("X Y&Z", "", "").as_deref(), Some("urn:id:X%20Y%26Z"));
        assert_eq!(found("X", "x.example", "DNS").as_deref(), Some("urn:id:X"));
        assert_eq!(found("", "https://a.example", "URI").as_deref(), Some("https://a.example"));
        assert_eq!(found("", "not an oid", "ISO"), None);
        assert_eq!(found("", "", "ISO"), None);
        sender.namespace_base.clear();
        assert_eq!(system("X", "", "", &sender), None);
    }

    #[test]
    fn coding_systems_by_name_table_and_oid() {
        let systems = BTreeMap::from([("LN".into(), "http://loinc.org".into())]);
        assert_eq!(coding_system("LN", &systems).as_deref(), Some("http://loinc.org"));
        assert_eq!(
            coding_system("HL70001", &systems).as_deref(),
            Some("http://terminology.hl7.org/CodeSystem/v2-0001")
        );
        assert_eq!(coding_system("HL7001", &systems), None);
        assert_eq!(coding_system("L", &systems), None);
    }

    #[test]
    fn telephones_are_assembled() {
        let t = |text: &str| (!text.is_empty()).then(|| SmolStr::new(text));
        let number = |one: &str, [c, a, l, x]: [&str; 4], twelve: &str| {
            let telephone = Telephone {
                free_text: t(one),
                country: t(c),
                area: t(a),
                local: t(l),
                extension: t(x),
                unformatted: t(twelve),
            };
            telephone.number().map(|(text, _)| text.to_string())
        };
        assert_eq!(number("(1)2", ["", "", "", ""], "").as_deref(), Some("(1)2"));
        assert_eq!(number("x", ["1", "555", "1234", "9"], "").as_deref(), Some("+1 555 1234 X9"));
        assert_eq!(number("", ["", "555", "1234", ""], "99").as_deref(), Some("555 1234"));
        assert_eq!(number("1", ["", "555", "", ""], "99").as_deref(), Some("99"));
        assert_eq!(number("", ["1", "", "", ""], ""), None);
    }
}
