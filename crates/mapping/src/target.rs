//! Where a rule writes: a FHIR path in the guide's form, resolved against the R4 element table.
//! Not here: registers (`plan`), values (`node`).

use std::fmt::Write;

use smol_str::SmolStr;

use crate::elements::{self, Field};
use crate::node::Step;

/// Greatest slot number; the guide's highest is below 20.
const SLOT_MAX: u16 = 99;

/// A resolved target path.
#[derive(Clone, Debug)]
pub(crate) struct TargetPath {
    pub steps: Vec<Step>,
    /// The last element.
    pub field: Field,
}

/// Resolves `participant[1].type.coding.code` in a type. `$this` is not a path and not for here.
pub(crate) fn resolve(text: &str, root: &str) -> Result<TargetPath, String> {
    if let Some((path, reference)) = text.split_once('(') {
        let kind = reference.trim_end_matches(')');
        return Err(format!("`{text}`: write to = \"{path}\" with resource = \"{kind}\""));
    }
    let mut steps: Vec<Step> = Vec::new();
    let mut at: Option<Field> = None;
    for part in text.split('.') {
        let (name, slot) = split_slot(part)?;
        let parent = at.as_ref().map_or(root, |field| field.path.as_str());
        let field = elements::field(parent, name)?;
        if at.as_ref().is_some_and(|field| field.primitive) {
            if name != "extension" {
                return Err(format!("`{text}`: below a primitive there are only extensions"));
            }
            if let Some(step) = steps.last_mut() {
                step.name = SmolStr::from_iter(["_", step.name.as_str()]);
            }
        }
        if slot > 1 && !field.repeats {
            return Err(format!("`{text}`: `{name}` does not repeat in {parent}, so it has no [{slot}]"));
        }
        steps.push(Step { name: SmolStr::new(name), slot, repeats: field.repeats });
        at = Some(field);
    }
    match at {
        Some(field) => Ok(TargetPath { steps, field }),
        None => Err("empty path".to_owned()),
    }
}

fn split_slot(part: &str) -> Result<(&str, u16), String> {
    let Some((name, rest)) = part.split_once('[') else { return Ok((part, 1)) };
    let slot = rest.strip_suffix(']').and_then(|n| n.parse::<u16>().ok()).filter(|n| (1..=SLOT_MAX).contains(n));
    match slot {
        Some(slot) => Ok((name, slot)),
        None => Err(format!("`{part}`: a slot is [1] to [{SLOT_MAX}]")),
    }
}

impl TargetPath {
    /// Number of steps up to and including the outermost repeating element; all where none repeats.
    pub(crate) fn register_steps(&self) -> usize {
        let repeating = self.steps.iter().position(|step| step.repeats);
        repeating.map_or(self.steps.len(), |index| index.saturating_add(1))
    }
}

/// A register's name: `participant[1]`, `period.start`.
pub(crate) fn register_path(steps: &[Step]) -> SmolStr {
    let mut out = String::new();
    for (i, step) in steps.iter().enumerate() {
        if i > 0 {
            out.push('.');
        }
        out.push_str(&step.name);
        if step.repeats {
            // Writing to a string cannot fail.
            let _ = write!(out, "[{}]", step.slot);
        }
    }
    SmolStr::from(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn register(path: &str, root: &str) -> String {
        let target = resolve(path, root).unwrap();
        register_path(&target.steps[..target.register_steps()]).to_string()
    }

    #[test]
    fn registers_are_cut_after_the_outermost_repeating_element() {
        assert_eq!(register("participant[2].type.coding.code", "Encounter"), "participant[2]");
        assert_eq!(register("period.start", "Encounter"), "period.start");
        assert_eq!(
            register("hospitalization.specialArrangement", "Encounter"),
            "hospitalization.specialArrangement[1]"
        );
        assert_eq!(register("birthDate.extension[1].valueDateTime", "Patient"), "_birthDate.extension[1]");
        assert_eq!(register("deceasedDateTime", "Patient"), "deceasedDateTime");
        assert_eq!(register("category.extension[1].url", "AllergyIntolerance"), "_category[1]");
    }

    #[test]
    fn refuses_what_r4_does_not_have() {
        for (path, root) in [
            ("participant[1].individual(Practitioner)", "Encounter"),
            ("nothing", "Patient"),
            ("name[0]", "Patient"),
            ("gender[2]", "Patient"),
            ("gender.coding", "Patient"),
            ("deceased", "Patient"),
            ("deceasedCode", "Patient"),
            ("", "Patient"),
            ("name[1", "Patient"),
            ("name", "Patent"),
        ] {
            assert!(resolve(path, root).is_err(), "{path}");
        }
    }
}
