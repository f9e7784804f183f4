//! The compiled rules: what the executor walks. Paths are numbers, conditions are trees, maps are indices.
//! Not here: how it is compiled (`compile`) or executed (`execute`).
//! Contract: a plan is immutable, `Send + Sync`, and the same for the same files in whatever order they came.

use std::collections::BTreeMap;

use fhir::Json;
use smol_str::SmolStr;

use crate::code_map::CodeMap;
use crate::condition::Condition;
use crate::contribution::{Scope, Strength};
use crate::fault::Fault;
use crate::grammar::Grammar;
use crate::node::Step;
use crate::primitive::Primitive;
use crate::source::Source;

/// A rule file, read by the caller.
#[derive(Clone, Copy, Debug)]
pub struct RuleFile<'a> {
    /// Path relative to the rule directory, with `/`: `segments/PID.Patient.toml`.
    pub path: &'a str,
    /// The file's text.
    pub text: &'a str,
}

/// Rule files compiled and checked against the R4 element table.
#[derive(Clone, Debug)]
pub struct Plan {
    pub(crate) version: String,
    pub(crate) digest: String,
    /// The rules as the agent of a Provenance.
    pub(crate) agent: Json,
    pub(crate) files: Vec<SmolStr>,
    pub(crate) origins: Vec<Origin>,
    pub(crate) bindings: Vec<Origin>,
    pub(crate) registers: Vec<RegisterName>,
    pub(crate) segment_maps: Vec<SegmentMap>,
    pub(crate) value_maps: Vec<ValueMap>,
    pub(crate) code_maps: Vec<CodeMap>,
    pub(crate) systems: BTreeMap<SmolStr, SmolStr>,
    pub(crate) structures: Vec<Structure>,
    /// `ADT^A01` → structures.
    pub(crate) events: BTreeMap<SmolStr, Vec<usize>>,
    pub(crate) identities: BTreeMap<SmolStr, Identity>,
}

impl Plan {
    /// Compiles all files of a rule directory. Every fault of every file is reported at once; nothing is half loaded.
    pub fn compile(files: &[RuleFile<'_>]) -> Result<Plan, Vec<Fault>> {
        crate::compile::compile(files)
    }

    /// The version of `manifest.toml`.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// SHA-256 over the sorted files, in hex.
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// The structures with rules, in order.
    pub fn structures(&self) -> impl Iterator<Item = &str> {
        self.structures.iter().map(|structure| structure.name.as_str())
    }

    /// The events with rules (`ADT^A01`), in order.
    pub fn events(&self) -> impl Iterator<Item = &str> {
        self.events.keys().map(SmolStr::as_str)
    }

    /// Every rule with its map, guide rows and target, in file order: what tests of coverage hold against.
    pub fn rules(&self) -> impl Iterator<Item = RuleOrigin<'_>> {
        self.origins.iter().map(|origin| self.describe(origin))
    }

    /// Every binding with its structure, guide rows and resource label, in file order.
    pub fn bindings(&self) -> impl Iterator<Item = RuleOrigin<'_>> {
        self.bindings.iter().map(|origin| self.describe(origin))
    }

    pub(crate) fn origin(&self, rule: u32) -> Option<RuleOrigin<'_>> {
        self.origins.get(usize::try_from(rule).ok()?).map(|origin| self.describe(origin))
    }

    fn describe<'p>(&'p self, origin: &'p Origin) -> RuleOrigin<'p> {
        RuleOrigin {
            file: self.files.get(origin.file).map_or("", SmolStr::as_str),
            line: origin.line,
            map: &origin.map,
            rows: &origin.rows,
            target: &origin.target,
        }
    }
}

/// Where a rule is written and what it writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RuleOrigin<'p> {
    /// Path of the file.
    pub file: &'p str,
    /// Line of the rule.
    pub line: u32,
    /// The guide's name of the map.
    pub map: &'p str,
    /// The guide's rows the rule implements.
    pub rows: &'p [u32],
    /// Type and FHIR path it writes.
    pub target: &'p str,
}

#[derive(Clone, Debug)]
pub(crate) struct Origin {
    pub file: usize,
    pub line: u32,
    pub map: SmolStr,
    pub rows: Vec<u32>,
    /// Type and path.
    pub target: SmolStr,
    /// The path alone, empty for `$this`.
    pub path: SmolStr,
    /// Whether the type is a resource, so that the target says it all.
    pub resource: bool,
}

/// A register of a resource type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RegisterName {
    pub path: SmolStr,
    /// Whether its value is an array of items.
    pub items: bool,
    /// Whether it holds extensions.
    pub extension: bool,
    /// The register of the primitive whose extensions this one holds, or the other way round.
    pub sibling: Option<u32>,
}

/// `PV1[Encounter]`.
#[derive(Clone, Debug)]
pub(crate) struct SegmentMap {
    pub rules: Vec<Rule>,
    pub ignores: Vec<Ignore>,
}

/// `XPN[HumanName]`.
#[derive(Clone, Debug)]
pub(crate) struct ValueMap {
    /// The guide's name.
    pub name: SmolStr,
    /// R4 type: complex, primitive or resource.
    pub target: SmolStr,
    pub rules: Vec<Rule>,
    pub ignores: Vec<Ignore>,
}

/// `[[ignore]]`.
#[derive(Clone, Debug)]
pub(crate) struct Ignore {
    pub source: Source,
    pub why: SmolStr,
    pub file: usize,
    pub line: u32,
}

/// One rule.
#[derive(Clone, Debug)]
pub(crate) struct Rule {
    /// Index into `origins`.
    pub id: u32,
    pub source: Source,
    pub condition: Option<Condition>,
    pub action: Action,
    pub target: Target,
    pub strength: Strength,
    /// For a constant: the parts of the message its condition turns on.
    pub reads: Vec<Source>,
}

/// Where a rule's value goes.
#[derive(Clone, Debug)]
pub(crate) enum Target {
    /// `$this`.
    This,
    /// Below the value of a datatype map.
    Value(Vec<Step>),
    /// Into a resource's register, and below it.
    Register { register: u32, items: bool, steps: Vec<Step> },
}

/// What a rule does with the value it reads.
#[derive(Clone, Debug)]
pub(crate) enum Action {
    Constant(Json),
    Primitive {
        kind: Primitive,
        code: Option<CodeUse>,
    },
    Datatype {
        map: usize,
        code: Option<CodeUse>,
    },
    /// The datatype map makes a resource of its own, the rule's target refers to it.
    Resource {
        map: usize,
    },
    /// The datatype map writes into the resource at hand.
    Merge {
        map: usize,
    },
}

/// `code = …`, `unmapped = …`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CodeUse {
    pub map: usize,
    pub unmapped: Unmapped,
    pub shape: CodeShape,
}

/// What happens to a code without a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unmapped {
    Keep,
    Omit,
    Park,
}

/// What a translated code becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CodeShape {
    Plain(Primitive),
    Coding,
    CodeableConcept,
}

/// A message structure with its bindings.
#[derive(Clone, Debug)]
pub(crate) struct Structure {
    pub name: SmolStr,
    pub grammar: Grammar,
    /// The label of the subject.
    pub subject: usize,
    pub labels: Vec<Label>,
    /// Per slot of the grammar.
    pub binds: Vec<Vec<Bind>>,
}

/// A resource a structure makes, by its label.
#[derive(Clone, Debug)]
pub(crate) struct Label {
    /// `Condition[1]`.
    pub name: SmolStr,
    pub resource: SmolStr,
    pub span: Span,
}

/// How far one instance of a label reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Span {
    /// One per message.
    Message,
    /// One per coming of a group.
    Group(usize),
    /// One per segment in the slot.
    Slot(usize),
}

/// `[[bind]]`.
#[derive(Clone, Debug)]
pub(crate) struct Bind {
    pub map: usize,
    pub label: usize,
    pub condition: Option<Condition>,
    pub references: Vec<BindReference>,
}

/// One entry of `references`.
#[derive(Clone, Debug)]
pub(crate) struct BindReference {
    pub register: u32,
    pub items: bool,
    pub steps: Vec<Step>,
    pub label: usize,
}

/// What identifies resources of a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IdentifiedBy {
    /// The message: there is one in each.
    Message,
    /// Content alone: their identifiers are of something else than this resource.
    Content,
    /// A business identifier, else content.
    Identifier,
}

/// `[Patient]` of `identity.toml`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    pub scope: Scope,
    /// Identifier type codes by preference.
    pub types: Vec<SmolStr>,
    /// Registers of identifiers by preference; empty: all of them.
    pub slots: Vec<SmolStr>,
    /// Registers whose content identifies where no identifier does.
    pub content: Vec<SmolStr>,
    pub required: bool,
    pub by: IdentifiedBy,
    /// Whether the type has room for an identifier of ours.
    pub has_identifier: bool,
}
