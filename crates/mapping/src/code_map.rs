//! Code maps: FHIR ConceptMaps (R4 §13.12) as sorted tables.
//! Not here: what happens to a code without a target (the rule's `unmapped`).

use fhir::Json;
use smol_str::SmolStr;

use crate::fault::{Faults, Place};

/// One code's target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Translation {
    code: SmolStr,
    /// Where the code comes from (`group.source`), if said.
    pub source: Option<SmolStr>,
    pub target: Target,
}

/// What a code becomes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    pub system: Option<SmolStr>,
    pub code: SmolStr,
    pub display: Option<SmolStr>,
}

/// A ConceptMap compiled.
#[derive(Clone, Debug)]
pub(crate) struct CodeMap {
    /// The guide's name, `PatientClass[EncounterClass]`.
    pub name: SmolStr,
    /// Sorted by code.
    translations: Vec<Translation>,
}

impl CodeMap {
    /// The target of a code. A system that is known to be none of the map's sources has no targets here.
    pub(crate) fn translate(&self, code: &str, system: Option<&str>) -> Option<&Translation> {
        let start = self.translations.partition_point(|entry| entry.code.as_str() < code);
        let mut candidates =
            self.translations.get(start..).unwrap_or_default().iter().take_while(|entry| entry.code == code);
        candidates.find(|entry| match (system, &entry.source) {
            (Some(sent), Some(source)) => sent == source,
            _ => true,
        })
    }

    /// Every target code, for the check against the element's own codes.
    pub(crate) fn target_codes(&self) -> impl Iterator<Item = &str> {
        self.translations.iter().map(|entry| entry.target.code.as_str())
    }
}

/// `codes/PatientClass.EncounterClass.json` is named `PatientClass[EncounterClass]`.
pub(crate) fn name_of(path: &str) -> Option<String> {
    let stem = path.strip_prefix("codes/")?.strip_suffix(".json")?;
    Some(bracketed(stem))
}

/// `A.B.C` → `A[B.C]`.
pub(crate) fn bracketed(stem: &str) -> String {
    match stem.split_once('.') {
        Some((name, rest)) => format!("{name}[{rest}]"),
        None => stem.to_owned(),
    }
}

/// Loads a ConceptMap; faults are added.
pub(crate) fn load(file: usize, name: String, text: &str, faults: &mut Faults) -> CodeMap {
    let mut map = CodeMap { name: SmolStr::from(name), translations: Vec::new() };
    let json = match Json::parse(text) {
        Ok(json) => json,
        Err(error) => {
            let line = u32::try_from(error.line).unwrap_or(0);
            faults.add(Place { file, line }, format!("not JSON at column {}", error.column));
            return map;
        }
    };
    let mut loader = Loader { place: Place { file, line: 1 }, faults, found: Vec::new() };
    loader.concept_map(&json);
    map.translations = loader.found;
    map.translations.sort_by(|a, b| a.code.cmp(&b.code).then_with(|| a.source.cmp(&b.source)));
    let twice = map.translations.windows(2).filter_map(|pair| match pair {
        [a, b] if a.code == b.code && a.source == b.source => Some(a.code.clone()),
        _ => None,
    });
    let twice: Vec<SmolStr> = twice.collect();
    for code in twice {
        faults.add(Place { file, line: 1 }, format!("code `{code}` has two targets"));
    }
    map
}

struct Loader<'f> {
    place: Place,
    faults: &'f mut Faults,
    found: Vec<Translation>,
}

impl Loader<'_> {
    fn fault(&mut self, message: impl Into<String>) {
        self.faults.add(self.place, message);
    }

    fn concept_map(&mut self, json: &Json) {
        const MEMBERS: &[&str] = &[
            "resourceType",
            "id",
            "url",
            "version",
            "name",
            "title",
            "status",
            "experimental",
            "date",
            "publisher",
            "description",
            "purpose",
            "copyright",
            "sourceUri",
            "sourceCanonical",
            "targetUri",
            "targetCanonical",
            "group",
        ];
        if json.resource_type() != Some("ConceptMap") {
            self.fault("not a ConceptMap");
        }
        self.known(json, MEMBERS, "ConceptMap");
        let groups = json.get("group").map_or(&[][..], Json::items);
        if groups.is_empty() {
            self.fault("a ConceptMap without groups maps nothing");
        }
        for group in groups {
            self.known(group, &["source", "target", "sourceVersion", "targetVersion", "element"], "group");
            let source = self.text(group, "source");
            let system = self.text(group, "target");
            for element in group.get("element").map_or(&[][..], Json::items) {
                self.element(element, source.as_ref(), system.as_ref());
            }
        }
    }

    fn element(&mut self, element: &Json, source: Option<&SmolStr>, system: Option<&SmolStr>) {
        self.known(element, &["code", "display", "target"], "element");
        let Some(code) = self.text(element, "code") else {
            self.fault("an element without a code");
            return;
        };
        let targets = element.get("target").map_or(&[][..], Json::items);
        let mut usable = targets.iter().filter(|t| t.get("equivalence").and_then(Json::as_str) != Some("unmatched"));
        let (first, second) = (usable.next(), usable.next());
        if second.is_some() {
            self.fault(format!("code `{code}` has two targets"));
        }
        // No target: the code is unmapped on purpose.
        let Some(target) = first else { return };
        self.known(target, &["code", "display", "equivalence", "comment"], "target");
        let Some(target_code) = self.text(target, "code") else {
            self.fault(format!("the target of code `{code}` has no code"));
            return;
        };
        let target = Target { system: system.cloned(), code: target_code, display: self.text(target, "display") };
        self.found.push(Translation { code, source: source.cloned(), target });
    }

    fn text(&mut self, json: &Json, member: &str) -> Option<SmolStr> {
        match json.get(member)? {
            Json::String(text) if !text.trim().is_empty() && text.trim() == text => Some(text.clone()),
            _ => {
                self.fault(format!("`{member}` is not a text, or has spaces around it"));
                None
            }
        }
    }

    fn known(&mut self, json: &Json, members: &[&str], of: &str) {
        let Some(object) = json.as_object() else {
            self.fault(format!("{of} is not an object"));
            return;
        };
        for name in object.keys().filter(|name| !members.contains(&name.as_str())) {
            self.fault(format!("unknown member `{name}` of {of}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(text: &str) -> (CodeMap, Vec<String>) {
        let mut faults = Faults::new(vec!["codes/Sex.json".into()]);
        let map = load(0, "Sex".into(), text, &mut faults);
        (map, faults.finish().into_iter().map(|f| f.message).collect())
    }

    #[test]
    fn translates_by_code_and_source() {
        let (map, faults) = map(r#"{"resourceType":"ConceptMap","status":"active","group":[
                {"source":"urn:a","target":"urn:t","element":[
                    {"code":"M","target":[{"code":"male","display":"Male","equivalence":"equivalent"}]},
                    {"code":"X","target":[{"equivalence":"unmatched"}]}]},
                {"source":"urn:b","target":"urn:t","element":[{"code":"M","target":[{"code":"masculine"}]}]}]}"#);
        assert_eq!(faults, Vec::<String>::new());
        let code = |code, system| map.translate(code, system).map(|t| t.target.code.as_str());
        assert_eq!(code("M", None), Some("male"));
        assert_eq!(code("M", Some("urn:b")), Some("masculine"));
        assert_eq!(code("M", Some("urn:c")), None);
        assert_eq!(code("X", None), None);
        assert_eq!(code("m", None), None);
    }

    #[test]
    fn reports_every_fault() {
        let (_, faults) = map(r#"{"resourceType":"ConceptMap","what":1,"group":[{"element":[{"display":"x"},
                {"code":"A","target":[{"code":"a"},{"code":"b"}]},{"code":"A","target":[{"code":" a"}]}]}]}"#);
        assert_eq!(faults.len(), 5, "{faults:?}");
        assert_eq!(map("{").1.len(), 1);
    }

    #[test]
    fn names_follow_files() {
        assert_eq!(name_of("codes/PatientClass.EncounterClass.json").as_deref(), Some("PatientClass[EncounterClass]"));
        assert_eq!(name_of("codes/Sex.json").as_deref(), Some("Sex"));
        assert_eq!(name_of("segments/Sex.json"), None);
    }
}
