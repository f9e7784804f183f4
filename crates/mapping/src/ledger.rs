//! The ledger: what became of every valued part of a message (DESIGN §6, "no silent loss").
//! Not here: its text and JSON (`explain`).
//! Contract: while mapping, rules leave marks, numbers only; the fate of each leaf is read off the marks when asked
//! for, so every valued leaf has exactly one fate whatever the rules did.

use std::collections::{BTreeMap, BTreeSet};

use hl7::{Location, Message, State};
use smol_str::SmolStr;

use crate::grammar::Placement;
use crate::issue::IssueCode;
use crate::plan::{Ignore, Plan, RuleOrigin};
use crate::source::Source;
use crate::value::{At, Value, positions, segment_at};

/// What happened at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Outcome {
    Mapped,
    /// Not mapped, for a reason with a code.
    Dropped(IssueCode),
    Failed(IssueCode),
}

/// A trace of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Mark {
    pub at: At,
    pub trail: Trail,
    /// Index of the resource the rule wrote into.
    pub instance: usize,
    pub outcome: Outcome,
}

/// A rule, and the application of the datatype map that it is a rule of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Trail {
    pub rule: u32,
    /// Index into the applications.
    pub via: Option<u32>,
}

/// A datatype map applied by a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Application {
    pub at: At,
    pub map: usize,
    pub trail: Trail,
}

/// A rule that met a leaf, and where that put it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace<'p> {
    /// The rule.
    pub rule: RuleOrigin<'p>,
    /// Type and FHIR path in the resource: `Patient.name[1].family`.
    pub path: SmolStr,
}

/// What a mapping leaves behind about the message, without holding it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ledger {
    structure: usize,
    /// In the order of rules; sorted when read.
    marks: Vec<Mark>,
    applications: Vec<Application>,
    placements: Vec<Placement>,
    /// Rules by number, constants among them, which leave no mark at a leaf.
    wrote: Vec<u32>,
}

/// What became of a valued leaf.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate<'p> {
    /// In a resource, by these rules.
    Mapped(Vec<Trace<'p>>),
    /// In the raw message only; with a code where there is a reason.
    Kept(Option<IssueCode>),
    /// In the raw message only, by a rule that says why.
    Ignored {
        /// The rule's reason.
        why: &'p str,
        /// Path of its file, empty for HL7's own delimiters.
        file: &'p str,
        /// Its line.
        line: u32,
    },
    /// It should have been mapped but could not.
    Failed(IssueCode, Vec<Trace<'p>>),
}

/// The four fates as a key of counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FateKind {
    /// See [`Fate::Mapped`].
    Mapped,
    /// See [`Fate::Kept`].
    Kept,
    /// See [`Fate::Ignored`].
    Ignored,
    /// See [`Fate::Failed`].
    Failed,
}

impl FateKind {
    /// Lower-case name, as metrics have it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Mapped => "mapped",
            Self::Kept => "kept",
            Self::Ignored => "ignored",
            Self::Failed => "failed",
        }
    }
}

impl Fate<'_> {
    /// Which of the four it is.
    pub fn kind(&self) -> FateKind {
        match self {
            Self::Mapped(_) => FateKind::Mapped,
            Self::Kept(_) => FateKind::Kept,
            Self::Ignored { .. } => FateKind::Ignored,
            Self::Failed(..) => FateKind::Failed,
        }
    }
}

/// A valued leaf and its fate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leaf<'p> {
    /// Where it stands.
    pub location: Location,
    /// What became of it.
    pub fate: Fate<'p>,
}

impl Ledger {
    pub(crate) fn new(
        structure: usize,
        marks: Vec<Mark>,
        applications: Vec<Application>,
        placements: Vec<Placement>,
        wrote: Vec<u32>,
    ) -> Self {
        Self { structure, marks, applications, placements, wrote }
    }

    pub(crate) fn structure_name(&self, plan: &Plan) -> SmolStr {
        plan.structures.get(self.structure).map(|structure| structure.name.clone()).unwrap_or_default()
    }

    /// Every valued leaf of the message in order, each with its fate.
    pub fn leaves<'p>(&self, message: &Message<'_>, plan: &'p Plan) -> Vec<Leaf<'p>> {
        let mut out = Vec::new();
        let (_, numbers) = positions(message);
        self.each(message, plan, &mut |at, reader| {
            let occurrence = usize::try_from(at.segment).ok().and_then(|i| numbers.get(i)).copied().unwrap_or(1);
            out.push(Leaf { location: at.location(message, occurrence), fate: reader.fate(at) });
        });
        out
    }

    /// The rules that wrote something, constants too, and those that applied the datatype maps these stand in.
    pub fn fired<'p>(&self, plan: &'p Plan) -> impl Iterator<Item = RuleOrigin<'p>> {
        let mut rules: BTreeSet<u32> = self.wrote.iter().copied().collect();
        for mark in self.marks.iter().filter(|mark| mark.outcome == Outcome::Mapped) {
            let mut trail = Some(mark.trail);
            while let Some(Trail { rule, via }) = trail {
                rules.insert(rule);
                let application = via.and_then(|index| self.applications.get(usize::try_from(index).ok()?));
                trail = application.map(|application| application.trail);
            }
        }
        rules.into_iter().filter_map(|rule| plan.origin(rule))
    }

    /// Numbers of leaves by segment name and fate, for metrics. Segments without a place in HL7 count as `Z` or `?`.
    pub fn counts(&self, message: &Message<'_>, plan: &Plan) -> BTreeMap<(SmolStr, FateKind), u64> {
        let mut counts = BTreeMap::new();
        self.each(message, plan, &mut |at, reader| {
            let index = usize::try_from(at.segment).unwrap_or(usize::MAX);
            let name = segment_at(message, at.segment).map_or("", |segment| segment.name());
            // Names of segments the rules do not know come from outside: they must not become labels without bound.
            let name = match self.placements.get(index) {
                Some(Placement::Unknown) if name.starts_with('Z') => "Z",
                Some(Placement::Unknown) | None => "?",
                Some(_) => name,
            };
            let count: &mut u64 = counts.entry((SmolStr::new(name), reader.kind(at))).or_default();
            *count = count.saturating_add(1);
        });
        counts
    }

    fn each<'p>(&self, message: &Message<'_>, plan: &'p Plan, found: &mut impl FnMut(At, &Reader<'_, '_, 'p>)) {
        let mut marks = self.marks.clone();
        marks.sort_unstable();
        marks.dedup();
        let mut applications: Vec<&Application> = self.applications.iter().collect();
        applications.sort_by_key(|application| application.at);
        for index in 0..message.segment_count() {
            let reader = Reader {
                ledger: self,
                message,
                plan,
                ignores: self.ignores(index, plan),
                marks: &marks,
                applications: &applications,
            };
            for_each_leaf(message, index, &mut |at| found(at, &reader));
        }
    }

    /// The `[[ignore]]` rules of the maps bound where the segment stands.
    fn ignores<'p>(&self, segment: usize, plan: &'p Plan) -> Vec<&'p Ignore> {
        let Some(Placement::Placed(placed)) = self.placements.get(segment) else { return Vec::new() };
        let binds = plan.structures.get(self.structure).and_then(|structure| structure.binds.get(placed.slot));
        let maps = binds.into_iter().flatten().filter_map(|bind| plan.segment_maps.get(bind.map));
        maps.flat_map(|map| &map.ignores).collect()
    }
}

/// Reads the fates of one segment's leaves off a ledger.
struct Reader<'r, 'm, 'p> {
    ledger: &'r Ledger,
    message: &'r Message<'m>,
    plan: &'p Plan,
    /// Of the maps bound where the segment stands.
    ignores: Vec<&'p Ignore>,
    /// Sorted by place.
    marks: &'r [Mark],
    /// Sorted by place.
    applications: &'r [&'r Application],
}

impl<'p> Reader<'_, '_, 'p> {
    /// The marks at a leaf or around it: those of its repetition, and those of its whole field.
    fn marks_of(&self, at: At) -> impl Iterator<Item = &Mark> {
        let of = |repetition: u16| {
            let key = (at.segment, at.field, repetition);
            let before = |mark: &Mark| (mark.at.segment, mark.at.field, mark.at.repetition) < key;
            let start = self.marks.partition_point(before);
            let rest = self.marks.get(start..).unwrap_or_default();
            rest.iter().take_while(move |mark| (mark.at.segment, mark.at.field, mark.at.repetition) == key)
        };
        of(0).chain(of(at.repetition)).filter(move |mark| mark.at.covers(at))
    }

    /// The outcome that decides: a failure must be seen, else one rule that mapped it is enough.
    fn decides(&self, at: At) -> Option<Outcome> {
        self.marks_of(at).map(|mark| mark.outcome).max_by_key(|outcome| match outcome {
            Outcome::Failed(_) => 2,
            Outcome::Mapped => 1,
            Outcome::Dropped(_) => 0,
        })
    }

    /// The fate without its rules.
    fn kind(&self, at: At) -> FateKind {
        match self.decides(at) {
            Some(Outcome::Failed(_)) => FateKind::Failed,
            Some(Outcome::Mapped) => FateKind::Mapped,
            Some(Outcome::Dropped(_)) => FateKind::Kept,
            None => self.unmarked(at).kind(),
        }
    }

    fn fate(&self, at: At) -> Fate<'p> {
        match self.decides(at) {
            Some(Outcome::Failed(code)) => Fate::Failed(code, self.traces(at, Outcome::Failed(code))),
            Some(Outcome::Mapped) => Fate::Mapped(self.traces(at, Outcome::Mapped)),
            Some(Outcome::Dropped(code)) => Fate::Kept(Some(code)),
            None => self.unmarked(at),
        }
    }

    fn traces(&self, at: At, outcome: Outcome) -> Vec<Trace<'p>> {
        let marks = self.marks_of(at).filter(|mark| mark.outcome == outcome);
        let mut trails: Vec<Trail> = marks.map(|mark| mark.trail).collect();
        trails.sort_unstable();
        trails.dedup();
        let applications = &self.ledger.applications;
        let trace = |trail: Trail| {
            Some(Trace { rule: self.plan.origin(trail.rule)?, path: path(trail, applications, self.plan) })
        };
        trails.into_iter().filter_map(trace).collect()
    }

    fn unmarked(&self, at: At) -> Fate<'p> {
        let index = usize::try_from(at.segment).unwrap_or(usize::MAX);
        let name = segment_at(self.message, at.segment).map_or("", |segment| segment.name());
        if name == "MSH" && at.field <= 2 {
            return Fate::Ignored { why: "delimiters and encoding characters", file: "", line: 0 };
        }
        let own = self.ignores.iter().find(|ignore| match &ignore.source {
            Source::Segment { segment: None, field, parts: [component, subcomponent] } => {
                let place =
                    At { repetition: 0, field: *field, component: *component, subcomponent: *subcomponent, ..at };
                place.covers(at)
            }
            _ => false,
        });
        if let Some(ignore) = own.copied().or_else(|| self.ignored_below(at)) {
            let file = self.plan.files.get(ignore.file).map_or("", SmolStr::as_str);
            return Fate::Ignored { why: &ignore.why, file, line: ignore.line };
        }
        match self.ledger.placements.get(index) {
            Some(Placement::Repeated) => Fate::Kept(Some(IssueCode::SegmentRepeated)),
            Some(Placement::Unknown) if !name.starts_with('Z') => Fate::Kept(Some(IssueCode::UnknownSegment)),
            _ => Fate::Kept(None),
        }
    }

    /// The `[[ignore]]` rule for a leaf in a datatype map that was applied around it.
    fn ignored_below(&self, at: At) -> Option<&'p Ignore> {
        let key = (at.segment, at.field, at.repetition);
        let place =
            |application: &&Application| (application.at.segment, application.at.field, application.at.repetition);
        let start = self.applications.partition_point(|application| place(application) < key);
        let around = self.applications.get(start..).unwrap_or_default().iter();
        let around = around.take_while(|application| place(application) == key);
        around.filter(|application| application.at.covers(at)).find_map(|application| {
            let below =
                if application.at.component == 0 { [at.component, at.subcomponent] } else { [at.subcomponent, 0] };
            let covers = |parts: &[u16; 2]| {
                parts.iter().zip(below).all(|(part, below)| *part == 0 || below == 0 || *part == below)
            };
            let ignores = &self.plan.value_maps.get(application.map)?.ignores;
            ignores.iter().find(|ignore| matches!(&ignore.source, Source::Value { parts } if covers(parts)))
        })
    }
}

/// Type and FHIR path of a rule's target: a datatype map's target is below the target of the rule that applied it.
pub(crate) fn path(trail: Trail, applications: &[Application], plan: &Plan) -> SmolStr {
    let mut parts: Vec<&str> = Vec::new();
    let mut at = Some(trail);
    while let Some(trail) = at {
        let origin = usize::try_from(trail.rule).ok().and_then(|rule| plan.origins.get(rule));
        let Some(origin) = origin else { break };
        let via = trail.via.and_then(|via| applications.get(usize::try_from(via).ok()?));
        if origin.resource || via.is_none() {
            parts.push(&origin.target);
            break;
        }
        if !origin.path.is_empty() {
            parts.push(&origin.path);
        }
        at = via.map(|application| application.trail);
    }
    parts.reverse();
    SmolStr::from(parts.join("."))
}

/// Calls `found` with the place of every valued leaf of a segment: the finest parts that hold something, `""` included.
fn for_each_leaf(message: &Message<'_>, index: usize, found: &mut impl FnMut(At)) {
    let number = u32::try_from(index).unwrap_or(u32::MAX);
    let Some(segment) = segment_at(message, number) else { return };
    let is_header = segment.name() == "MSH";
    for field in 1..=segment.field_count() {
        let Ok(field_number) = u16::try_from(field) else { return };
        let element = segment.field(field);
        if element.state() == State::Absent {
            continue;
        }
        let at = At { segment: number, field: field_number, repetition: 1, component: 1, subcomponent: 1 };
        if is_header && field <= 2 {
            found(at);
            continue;
        }
        for (repetition, element) in (1..).zip(element.repetitions()) {
            let at = At { repetition, component: 0, subcomponent: 0, ..at };
            if element.state() != State::Absent {
                leaves_below(Value { element, at }, found);
            }
        }
    }
}

fn leaves_below(value: Value<'_>, found: &mut impl FnMut(At)) {
    for (component, element) in (1..).zip(value.element.components()) {
        if element.state() == State::Absent {
            continue;
        }
        for (subcomponent, element) in (1..).zip(element.subcomponents()) {
            if element.state() != State::Absent {
                found(At { component, subcomponent, ..value.at });
            }
        }
    }
}
