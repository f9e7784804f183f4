//! Whose element is whose, on a server that others write to as well (DESIGN §5, `ownership = "shared"`).
//!
//! Contract: an element that we never wrote stays as it is; what we write replaces what was there; of identifiers, tags,
//! extensions and contained resources each item is owned by itself. What we once wrote and no longer say goes away: that is
//! why the record names what was ours, too. Pure.
//!
//! The record is `{"kept": {element: value}, "ours": [names]}`; names of items are hashes, since they may be identifiers.

use std::collections::BTreeSet;

use fhir::{ElementTable, Json, Object};
use sha2::{Digest as _, Sha256};
use smol_str::{SmolStr, format_smolstr};

const KEPT: &str = "kept";
const OURS: &str = "ours";
/// Elements of meta that the server sets.
const META_OF_SERVER: [&str; 2] = ["versionId", "lastUpdated"];
/// Bytes of an item's hash in its name: enough to tell the identifiers of one resource apart.
const NAME_BYTES: usize = 8;

/// Records what to keep of the resource on the server: everything that is neither in `ours` nor was ours before.
pub(crate) fn record(ours: &Json, theirs: Option<&Json>, before: Option<&Json>) -> Json {
    let mut names: BTreeSet<SmolStr> = before.map(ours_before).unwrap_or_default();
    let resource_type = ours.resource_type().unwrap_or_default();
    for (name, value) in members(ours).filter(|(name, _)| *name != "resourceType") {
        names.extend(names_of(resource_type, name, value));
    }
    let kept = match (theirs, before.and_then(|before| before.get(KEPT))) {
        (Some(theirs), _) => strangers(resource_type, theirs, &names),
        // Not read again: what was kept still is, unless we say it now.
        (None, Some(kept)) => strangers(resource_type, kept, &names),
        (None, None) => Object::new(),
    };
    let names = names.into_iter().map(Json::String).collect();
    Json::object([(KEPT, Json::Object(kept)), (OURS, Json::Array(names))])
}

/// `ours` with what is kept.
pub(crate) fn merge(ours: &Json, record: &Json) -> Json {
    let mut merged = ours.clone();
    let Some(target) = merged.as_object_mut() else { return merged };
    for (name, value) in record.get(KEPT).into_iter().flat_map(members) {
        add(target, name, value);
    }
    merged
}

fn add(target: &mut Object, name: &SmolStr, kept: &Json) {
    match (target.get_mut(name), kept) {
        (None, _) => {
            target.insert(name.clone(), kept.clone());
        }
        (Some(Json::Array(items)), Json::Array(more)) => items.extend(more.iter().cloned()),
        (Some(Json::Object(ours)), Json::Object(more)) => {
            for (name, value) in more {
                add(ours, name, value);
            }
        }
        // An element of ours: it stays.
        (Some(_), _) => {}
    }
}

fn members(json: &Json) -> impl Iterator<Item = (&SmolStr, &Json)> {
    json.as_object().into_iter().flatten()
}

fn ours_before(record: &Json) -> BTreeSet<SmolStr> {
    record.get(OURS).map_or(&[][..], Json::items).iter().filter_map(Json::as_str).map(SmolStr::new).collect()
}

/// The members of `theirs` that have no name among `ours`.
fn strangers(resource_type: &str, theirs: &Json, ours: &BTreeSet<SmolStr>) -> Object {
    let mut kept = Object::new();
    for (name, value) in members(theirs) {
        let value = match (name.as_str(), value) {
            ("resourceType" | "id", _) => continue,
            // A generated narrative tells what the resource said before (R4 §2.4.2).
            ("text", text) if text.get("status").and_then(Json::as_str) == Some("generated") => continue,
            ("meta", Json::Object(meta)) => {
                let meta = meta.iter().filter(|(name, _)| !META_OF_SERVER.contains(&name.as_str()));
                let meta: Object = meta.filter_map(|(n, v)| Some((n.clone(), strange("meta.", n, v, ours)?))).collect();
                Some(meta).filter(|meta| !meta.is_empty()).map(Json::Object)
            }
            (group, value) => strange("", &group_name(resource_type, group), value, ours),
        };
        kept.extend(value.map(|value| (name.clone(), value)));
    }
    kept
}

/// The value, or those of its items, that have no name among `ours`.
fn strange(prefix: &str, name: &str, value: &Json, ours: &BTreeSet<SmolStr>) -> Option<Json> {
    if let (Some(items), Json::Array(_)) = (item_keys(name), value) {
        let strangers = value.items().iter().filter(|item| !ours.contains(&item_name(prefix, name, items(item))));
        let strangers: Vec<Json> = strangers.cloned().collect();
        return Some(strangers).filter(|items| !items.is_empty()).map(Json::Array);
    }
    (!ours.contains(&format_smolstr!("{prefix}{name}"))).then(|| value.clone())
}

/// The names under which a member of ours is ours.
fn names_of(resource_type: &str, name: &str, value: &Json) -> Vec<SmolStr> {
    if name == "meta" {
        return members(value).flat_map(|(name, value)| names("meta.", name, value)).collect();
    }
    names("", &group_name(resource_type, name), value)
}

fn names(prefix: &str, name: &str, value: &Json) -> Vec<SmolStr> {
    match (item_keys(name), value) {
        (Some(items), Json::Array(_)) => value.items().iter().map(|i| item_name(prefix, name, items(i))).collect(),
        _ => vec![format_smolstr!("{prefix}{name}")],
    }
}

type ItemKey = for<'j> fn(&'j Json) -> [&'j str; 2];

/// For the elements whose items are owned one by one: what tells an item from others.
fn item_keys(name: &str) -> Option<ItemKey> {
    fn text<'j>(item: &'j Json, name: &str) -> &'j str {
        item.get(name).and_then(Json::as_str).unwrap_or_default()
    }
    Some(match name {
        "identifier" => |item| [text(item, "system"), text(item, "value")],
        "tag" | "security" => |item| [text(item, "system"), text(item, "code")],
        "extension" | "modifierExtension" => |item| [text(item, "url"), ""],
        "profile" => |item| [item.as_str().unwrap_or_default(), ""],
        "contained" => |item| [text(item, "id"), ""],
        _ => return None,
    })
}

fn item_name(prefix: &str, name: &str, key: [&str; 2]) -> SmolStr {
    let digest = Sha256::digest(key.join("\n"));
    format_smolstr!("{prefix}{name}#{}", hex::encode(&digest[..NAME_BYTES]))
}

/// `birthDate` for `_birthDate`, `deceased[x]` for `deceasedBoolean`: what cannot be owned apart.
fn group_name(resource_type: &str, name: &str) -> SmolStr {
    let bare = name.strip_prefix('_').unwrap_or(name);
    let upper = bare.char_indices().filter(|(_, c)| c.is_ascii_uppercase()).map(|(at, _)| at);
    for at in upper {
        let choice = format_smolstr!("{}[x]", &bare[..at]);
        if ElementTable::r4().has_element(resource_type, &choice) {
            return choice;
        }
    }
    bare.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &str) -> Json {
        Json::parse(text).unwrap()
    }

    fn again(ours: &str, theirs: &str, before: Option<&Json>) -> (Json, String) {
        let record = record(&json(ours), Some(&json(theirs)), before);
        let merged = merge(&json(ours), &record).to_string();
        (record, merged)
    }

    const OURS_1: &str = r#"{"resourceType":"Patient","identifier":[{"system":"mrn","value":"1"}],"name":[{"family":"A"}],"gender":"male"}"#;

    #[test]
    fn f5_what_others_wrote_stays_and_what_we_say_replaces() {
        let theirs = r#"{"resourceType":"Patient","id":"7","meta":{"versionId":"3","lastUpdated":"x","tag":[{"system":"t","code":"c"}],"source":"s"},
            "identifier":[{"system":"ssn","value":"9"},{"system":"mrn","value":"1","use":"usual"}],"name":[{"family":"Old"}],"photo":[{"title":"p"}],
            "text":{"status":"generated","div":"old"}}"#;
        let (_, merged) = again(OURS_1, theirs, None);
        assert_eq!(
            json(&merged),
            json(
                r#"{"resourceType":"Patient","meta":{"tag":[{"system":"t","code":"c"}],"source":"s"},"identifier":[{"system":"mrn","value":"1"},
                {"system":"ssn","value":"9"}],"name":[{"family":"A"}],"gender":"male","photo":[{"title":"p"}]}"#
            )
        );
    }

    #[test]
    fn what_was_ours_and_is_not_said_any_more_goes_away() {
        let first = record(&json(OURS_1), None, None);
        let theirs = r#"{"resourceType":"Patient","id":"7","identifier":[{"system":"mrn","value":"1"},{"system":"ssn","value":"9"}],
            "name":[{"family":"A"}],"gender":"male","maritalStatus":{"text":"m"}}"#;
        let ours_2 = r#"{"resourceType":"Patient","name":[{"family":"A"}]}"#;
        let (second, merged) = again(ours_2, theirs, Some(&first));
        let expected = r#"{"resourceType":"Patient","identifier":[{"system":"ssn","value":"9"}],"name":[{"family":"A"}],"maritalStatus":{"text":"m"}}"#;
        assert_eq!(json(&merged), json(expected));
        // Without another read the record goes on to say the same.
        let third = record(&json(ours_2), None, Some(&second));
        assert_eq!(third, second);
    }

    #[test]
    fn a_choice_and_the_extension_of_a_primitive_have_one_owner() {
        let ours = r#"{"resourceType":"Patient","deceasedBoolean":true,"birthDate":"1970-01-01"}"#;
        let theirs = r#"{"resourceType":"Patient","deceasedDateTime":"2020","_birthDate":{"extension":[{"url":"t"}]},"multipleBirthInteger":2}"#;
        let (_, merged) = again(ours, theirs, None);
        let expected =
            r#"{"resourceType":"Patient","birthDate":"1970-01-01","deceasedBoolean":true,"multipleBirthInteger":2}"#;
        assert_eq!(merged, expected);
    }

    #[test]
    fn extensions_and_tags_are_owned_one_by_one() {
        let ours = r#"{"resourceType":"Patient","meta":{"tag":[{"system":"s","code":"1"}]},"extension":[{"url":"a","valueCode":"x"}]}"#;
        let theirs = r#"{"resourceType":"Patient","meta":{"tag":[{"system":"s","code":"2"}],"profile":["p"]},"extension":[{"url":"b"},{"url":"a","valueCode":"old"}]}"#;
        let (record, merged) = again(ours, theirs, None);
        let expected = r#"{"resourceType":"Patient","extension":[{"url":"a","valueCode":"x"},{"url":"b"}],"meta":{"profile":["p"],"tag":[{"code":"1","system":"s"},{"code":"2","system":"s"}]}}"#;
        assert_eq!(merged, expected);
        let quiet = record.get(OURS).unwrap().to_string();
        assert!(!quiet.contains("\"1\"") && quiet.contains("meta.tag#"), "{quiet}");
    }

    #[test]
    fn what_we_start_to_say_is_ours_from_then_on() {
        let theirs = r#"{"resourceType":"Patient","gender":"other","active":true}"#;
        let (first, _) = again(r#"{"resourceType":"Patient"}"#, theirs, None);
        let ours = json(r#"{"resourceType":"Patient","gender":"male"}"#);
        let second = record(&ours, None, Some(&first));
        assert_eq!(merge(&ours, &second).to_string(), r#"{"resourceType":"Patient","active":true,"gender":"male"}"#);
        let third = record(&json(r#"{"resourceType":"Patient"}"#), None, Some(&second));
        assert_eq!(
            merge(&json(r#"{"resourceType":"Patient"}"#), &third).to_string(),
            r#"{"resourceType":"Patient","active":true}"#
        );
    }
}
