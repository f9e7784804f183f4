//! The abstract message syntax of a structure (HL7 v2 §2.12) as a flat list of slots, and the tolerant placement of
//! segments in it: forward only, loops allowed, what has no place forward is placed by name and noted.
//! Not here: which rules a slot carries (`plan`).

use smol_str::SmolStr;

use crate::source::is_segment_name;

/// Deepest nesting of groups; HL7's structures use four.
const DEPTH_MAX: usize = 12;

/// One place for a segment.
#[derive(Clone, Debug)]
pub(crate) struct Slot {
    /// `ROL`.
    pub segment: SmolStr,
    /// `PID:ROL`, `NEXT_OF_KIN.NK1`.
    pub path: SmolStr,
    pub repeats: bool,
    /// Index of the innermost group.
    pub group: usize,
}

/// A segment group; group 0 is the message.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    name: SmolStr,
    pub parent: Option<usize>,
    pub repeats: bool,
    /// Slots `start..end` are inside.
    start: usize,
    end: usize,
}

/// A structure's syntax.
#[derive(Clone, Debug)]
pub(crate) struct Grammar {
    pub slots: Vec<Slot>,
    pub groups: Vec<Group>,
}

impl Grammar {
    /// Reads `MSH [{SFT}] PID [{PID:ROL}] [{GROUP( A [B] )}]`.
    pub(crate) fn parse(text: &str) -> Result<Grammar, String> {
        let root = Group { name: SmolStr::default(), parent: None, repeats: false, start: 0, end: 0 };
        let mut reader = Reader { tokens: tokens(text), at: 0, slots: Vec::new(), groups: vec![root] };
        reader.sequence(0, false, 0)?;
        if let Some(token) = reader.tokens.get(reader.at) {
            return Err(format!("`{token}` closes nothing"));
        }
        let Reader { slots, mut groups, .. } = reader;
        if let Some(root) = groups.first_mut() {
            root.end = slots.len();
        }
        if slots.first().is_none_or(|slot| slot.segment != "MSH") {
            return Err("a structure begins with MSH".to_owned());
        }
        for (i, slot) in slots.iter().enumerate() {
            if slots.iter().take(i).any(|earlier| earlier.path == slot.path) {
                return Err(format!(
                    "two places have the path `{}`: name them apart (`PID:ROL`) or group them",
                    slot.path
                ));
            }
        }
        Ok(Grammar { slots, groups })
    }

    /// The slot with this path.
    pub(crate) fn slot(&self, path: &str) -> Option<usize> {
        self.slots.iter().position(|slot| slot.path == path)
    }

    /// The groups around a slot, innermost first, the message last.
    pub(crate) fn around(&self, slot: usize) -> impl Iterator<Item = usize> + '_ {
        let innermost = self.slots.get(slot).map(|slot| slot.group);
        std::iter::successors(innermost, |group| self.groups.get(*group)?.parent)
    }
}

fn tokens(text: &str) -> Vec<String> {
    let mut tokens = Vec::new();
    let mut word = String::new();
    for c in text.chars() {
        if c.is_whitespace() || "[]{}()".contains(c) {
            if !word.is_empty() {
                tokens.push(std::mem::take(&mut word));
            }
            if !c.is_whitespace() {
                tokens.push(c.to_string());
            }
        } else {
            word.push(c);
        }
    }
    if !word.is_empty() {
        tokens.push(word);
    }
    tokens
}

struct Reader {
    tokens: Vec<String>,
    at: usize,
    slots: Vec<Slot>,
    groups: Vec<Group>,
}

impl Reader {
    fn take(&mut self) -> Option<String> {
        let token = self.tokens.get(self.at).cloned();
        self.at = self.at.saturating_add(1);
        token
    }

    fn at(&self, wanted: &str) -> bool {
        self.tokens.get(self.at).is_some_and(|token| token == wanted)
    }

    /// Items up to a closing bracket or the end.
    fn sequence(&mut self, group: usize, repeats: bool, depth: usize) -> Result<(), String> {
        if depth > DEPTH_MAX {
            return Err("groups nest too deeply".to_owned());
        }
        while !(self.at("]") || self.at("}") || self.at(")") || self.at >= self.tokens.len()) {
            self.item(group, repeats, depth.saturating_add(1))?;
        }
        Ok(())
    }

    fn item(&mut self, group: usize, repeats: bool, depth: usize) -> Result<(), String> {
        let token = self.take().unwrap_or_default();
        match token.as_str() {
            "[" => self.bracketed("]", group, repeats, depth),
            "{" => self.bracketed("}", group, true, depth),
            "(" => Err("a group has a name: NAME( … )".to_owned()),
            name if self.at("(") => {
                self.take();
                self.group(name, group, repeats, depth)
            }
            name => self.segment(name, group, repeats),
        }
    }

    fn bracketed(&mut self, close: &str, group: usize, repeats: bool, depth: usize) -> Result<(), String> {
        let before = self.slots.len();
        self.sequence(group, repeats, depth)?;
        if !self.at(close) {
            return Err(format!("a bracket without `{close}`"));
        }
        self.take();
        if self.slots.len() == before {
            return Err("empty brackets".to_owned());
        }
        Ok(())
    }

    fn group(&mut self, name: &str, parent: usize, repeats: bool, depth: usize) -> Result<(), String> {
        let index = self.groups.len();
        let start = self.slots.len();
        let path = self.below(parent, name);
        self.groups.push(Group { name: path, parent: Some(parent), repeats, start, end: start });
        self.sequence(index, false, depth)?;
        if !self.at(")") {
            return Err(format!("group `{name}` without `)`"));
        }
        self.take();
        let end = self.slots.len();
        if let Some(group) = self.groups.get_mut(index) {
            group.end = end;
        }
        Ok(())
    }

    fn segment(&mut self, name: &str, group: usize, repeats: bool) -> Result<(), String> {
        let segment = name.rsplit(':').next().unwrap_or(name);
        if !name.split(':').all(is_segment_name) {
            return Err(format!("`{name}` is not a segment name"));
        }
        let path = self.below(group, name);
        self.slots.push(Slot { segment: SmolStr::new(segment), path, repeats, group });
        Ok(())
    }

    fn below(&self, group: usize, name: &str) -> SmolStr {
        match self.groups.get(group) {
            Some(parent) if !parent.name.is_empty() => SmolStr::from_iter([parent.name.as_str(), ".", name]),
            _ => SmolStr::new(name),
        }
    }
}

/// Where a segment came to stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Placed {
    pub slot: usize,
    /// Unique number of this coming of the slot.
    pub iteration: u32,
    pub out_of_order: bool,
}

/// What became of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Placement {
    Placed(Placed),
    /// The structure has the segment once and had it already.
    Repeated,
    /// The structure does not have the segment.
    Unknown,
}

/// A walk through a structure, segment by segment.
#[derive(Debug)]
pub(crate) struct Placer<'g> {
    grammar: &'g Grammar,
    cursor: Option<usize>,
    /// Per group the number of its current coming; 0 before the first.
    groups: Vec<u32>,
    /// Per slot the coming of its group in which it was last filled.
    filled: Vec<Option<u32>>,
    next: u32,
}

impl<'g> Placer<'g> {
    pub(crate) fn new(grammar: &'g Grammar) -> Self {
        Self {
            grammar,
            cursor: None,
            groups: vec![0; grammar.groups.len()],
            filled: vec![None; grammar.slots.len()],
            next: 0,
        }
    }

    /// The number of a group's current coming.
    pub(crate) fn iteration(&self, group: usize) -> u32 {
        self.groups.get(group).copied().unwrap_or(0)
    }

    /// Places the next segment.
    pub(crate) fn place(&mut self, segment: &str) -> Placement {
        if let Some((slot, looped)) = self.forward(segment) {
            self.enter(slot, looped);
            self.cursor = Some(slot);
            return Placement::Placed(self.fill(slot, false));
        }
        let mut known = false;
        for (index, slot) in self.grammar.slots.iter().enumerate().filter(|(_, slot)| slot.segment == segment) {
            known = true;
            let here = self.iteration(slot.group);
            let taken = self.filled.get(index).copied().flatten().is_some_and(|iteration| iteration == here);
            if slot.repeats || !taken {
                return Placement::Placed(self.fill(index, true));
            }
        }
        if known { Placement::Repeated } else { Placement::Unknown }
    }

    /// The slot ahead for `segment`, and the group that begins anew for it.
    fn forward(&self, segment: &str) -> Option<(usize, Option<usize>)> {
        let Some(cursor) = self.cursor else {
            return self.find(segment, 0, self.grammar.slots.len()).map(|slot| (slot, None));
        };
        let here = self.grammar.slots.get(cursor)?;
        if here.repeats && here.segment == segment {
            return Some((cursor, None));
        }
        for index in self.grammar.around(cursor) {
            let group = self.grammar.groups.get(index)?;
            let after = cursor.saturating_add(1);
            if let Some(slot) = self.find(segment, after, group.end) {
                return Some((slot, None));
            }
            if group.repeats
                && let Some(slot) = self.find(segment, group.start, after)
            {
                return Some((slot, Some(index)));
            }
        }
        None
    }

    fn find(&self, segment: &str, from: usize, to: usize) -> Option<usize> {
        let range = self.grammar.slots.get(from..to)?;
        range.iter().position(|slot| slot.segment == segment).map(|offset| from.saturating_add(offset))
    }

    /// Numbers the groups that begin with this step.
    fn enter(&mut self, slot: usize, looped: Option<usize>) {
        let previous = self.cursor;
        let grammar = self.grammar;
        let mut anew = true;
        for index in grammar.around(slot) {
            let inside =
                previous.is_some_and(|at| grammar.groups.get(index).is_some_and(|g| (g.start..g.end).contains(&at)));
            // Groups inside the one that loops begin anew with it; groups around both places go on.
            anew = anew && (!inside || looped.is_some());
            if anew {
                self.begin(index);
            }
            if looped == Some(index) {
                anew = false;
            }
        }
    }

    fn begin(&mut self, group: usize) {
        self.next = self.next.saturating_add(1);
        if let Some(iteration) = self.groups.get_mut(group) {
            *iteration = self.next;
        }
    }

    fn fill(&mut self, slot: usize, out_of_order: bool) -> Placed {
        let grammar = self.grammar;
        if out_of_order {
            for group in grammar.around(slot) {
                if self.iteration(group) == 0 {
                    self.begin(group);
                }
            }
        }
        let here = grammar.slots.get(slot).map(|s| self.iteration(s.group));
        if let Some(filled) = self.filled.get_mut(slot) {
            *filled = here;
        }
        self.next = self.next.saturating_add(1);
        Placed { slot, iteration: self.next, out_of_order }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A01: &str = "MSH [{SFT}] EVN PID [PD1] [{PID:ROL}] [{NEXT_OF_KIN( NK1 [{OH2}] )}] PV1 [PV2] [{PV1:ROL}] [{DG1}] \
                       [{PROCEDURE( PR1 [{ROL}] )}] [{GT1}] [{INSURANCE( IN1 [IN2] [{IN3}] [{AUTHORIZATION( AUT [{PRT}] )}] )}]";

    fn walk(grammar: &Grammar, segments: &str) -> Vec<String> {
        let mut placer = Placer::new(grammar);
        segments
            .split(' ')
            .map(|name| match placer.place(name) {
                Placement::Placed(at_slot) => {
                    let path = &grammar.slots[at_slot.slot].path;
                    format!("{path}{}", if at_slot.out_of_order { "!" } else { "" })
                }
                other => format!("{name} {other:?}"),
            })
            .collect()
    }

    #[test]
    fn follows_groups_and_loops() {
        let grammar = Grammar::parse(A01).unwrap();
        assert_eq!(
            walk(
                &grammar,
                "MSH EVN PID ROL NK1 OH2 NK1 PV1 ROL ROL DG1 DG1 PR1 ROL PR1 IN1 IN3 IN3 AUT PRT AUT IN1 IN2"
            ),
            [
                "MSH",
                "EVN",
                "PID",
                "PID:ROL",
                "NEXT_OF_KIN.NK1",
                "NEXT_OF_KIN.OH2",
                "NEXT_OF_KIN.NK1",
                "PV1",
                "PV1:ROL",
                "PV1:ROL",
                "DG1",
                "DG1",
                "PROCEDURE.PR1",
                "PROCEDURE.ROL",
                "PROCEDURE.PR1",
                "INSURANCE.IN1",
                "INSURANCE.IN3",
                "INSURANCE.IN3",
                "INSURANCE.AUTHORIZATION.AUT",
                "INSURANCE.AUTHORIZATION.PRT",
                "INSURANCE.AUTHORIZATION.AUT",
                "INSURANCE.IN1",
                "INSURANCE.IN2",
            ]
        );
    }

    #[test]
    fn what_has_no_place_ahead_is_placed_by_name() {
        let grammar = Grammar::parse(A01).unwrap();
        assert_eq!(
            walk(&grammar, "MSH PID PV1 PD1 PD1 PID EVN ZZZ DG1 IN1 DG1"),
            [
                "MSH",
                "PID",
                "PV1",
                "PD1!",
                "PD1 Repeated",
                "PID Repeated",
                "EVN!",
                "ZZZ Unknown",
                "DG1",
                "INSURANCE.IN1",
                "DG1!"
            ]
        );
    }

    #[test]
    fn iterations_number_groups() {
        let grammar = Grammar::parse(A01).unwrap();
        let mut placer = Placer::new(&grammar);
        let group = grammar.slots[grammar.slot("INSURANCE.IN1").unwrap()].group;
        let mut seen = Vec::new();
        for name in ["MSH", "PID", "IN1", "IN2", "AUT", "IN1", "IN3"] {
            placer.place(name);
            seen.push(placer.iteration(group));
        }
        assert_eq!(seen[..2], [0, 0]);
        assert!(seen[2] > 0 && seen[2] == seen[3] && seen[3] == seen[4]);
        assert!(seen[5] > seen[4] && seen[5] == seen[6]);
    }

    #[test]
    fn refuses_bad_syntax() {
        for bad in [
            "",
            "PID",
            "MSH [",
            "MSH ]",
            "MSH {SFT",
            "MSH (A)",
            "MSH A( PID",
            "MSH pid",
            "MSH PID PID",
            "MSH []",
            "MSH A( PID ) ]",
        ] {
            assert!(Grammar::parse(bad).is_err(), "{bad}");
        }
    }
}
