//! What a server can do, and whether that is enough.

use std::collections::BTreeSet;
use std::fmt;

use smol_str::SmolStr;

use crate::config::Identity;
use crate::matching::Element;

/// What was found out about a server at start.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "independent findings")]
pub struct Capabilities {
    /// `CapabilityStatement.software`: name and version.
    pub software: String,
    /// Tried out; otherwise read off the CapabilityStatement, because the server takes no `Basic` resource.
    pub probed: bool,
    /// A conditional update in a transaction finds the resource with that identifier.
    pub conditional_update: bool,
    /// `urn:uuid` references between entries become references to the resources.
    pub resolves_entries: bool,
    /// `ifMatch` with an old version fails the transaction.
    pub if_match: bool,
    /// Resources are found by `_tag`, also by a conditional update.
    pub tag_matching: bool,
    /// A client may choose the id of a new resource.
    pub client_ids: bool,
    /// Identifiers with `\`, `,`, `|` or `$` are found. Where they are not, such resources get ids of ours.
    pub odd_identifiers: bool,
    /// Types that the CapabilityStatement says can be searched by `identifier`; empty where it says it of none, which is
    /// then taken for an omission. Resources of other types get ids of ours.
    pub by_identifier: BTreeSet<SmolStr>,
    /// A search finds what was written just before.
    pub current_search: bool,
    /// Answers to transactions tell the version of each resource.
    pub versions_in_answers: bool,
}

impl Capabilities {
    /// What makes the server unsuitable, if anything.
    pub(crate) fn fault(&self, identity: Identity) -> Option<&'static str> {
        let faults = [
            (
                identity == Identity::Client && !self.client_ids,
                "it does not let clients choose ids; use identity = \"server\"",
            ),
            (
                identity == Identity::Server && !self.conditional_update,
                "it does not support conditional updates; if nobody else writes to it, use identity = \"client\"",
            ),
            (
                identity == Identity::Server && !self.resolves_entries,
                "it does not resolve references between entries; if nobody else writes to it, use identity = \"client\"",
            ),
            (!self.tag_matching && !self.client_ids, "it neither matches on _tag nor lets clients choose ids"),
        ];
        faults.iter().find(|(applies, _)| *applies).map(|(_, fault)| *fault)
    }

    /// What can go wrong with this server that with others cannot.
    pub fn warnings(&self, identity: Identity) -> Vec<&'static str> {
        let searches = identity == Identity::Server;
        let warnings = [
            (!self.if_match, "it ignores ifMatch: what others write meanwhile is overwritten"),
            (!self.versions_in_answers, "its answers tell no versions: what others write meanwhile is overwritten"),
            (
                searches && !self.current_search,
                "its searches lag behind its writes: after a lost answer a resource may be created twice",
            ),
        ];
        warnings.into_iter().filter(|(applies, _)| *applies).map(|(_, warning)| warning).collect()
    }

    /// Whether resources of a type are found by their identifier (types without that element are matched otherwise).
    pub(crate) fn finds_by_identifier(&self, resource_type: &str) -> bool {
        self.by_identifier.is_empty()
            || self.by_identifier.contains(resource_type)
            || Element::of(resource_type) == Element::Tag
    }

    /// Whether several processes may write to the server at once: a version that somebody else wrote is noticed.
    pub fn allows_several_writers(&self) -> bool {
        self.if_match && self.versions_in_answers
    }
}

impl fmt::Display for Capabilities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let findings = [
            ("conditional update", self.conditional_update),
            ("references between entries", self.resolves_entries),
            ("ifMatch", self.if_match),
            ("match on _tag", self.tag_matching),
            ("client ids", self.client_ids),
            ("odd identifiers", self.odd_identifiers),
            ("search sees the last write", self.current_search),
            ("versions in answers", self.versions_in_answers),
        ];
        write!(f, "{} ({})", self.software, if self.probed { "probed" } else { "as it says of itself" })?;
        for (number, (name, found)) in findings.iter().enumerate() {
            write!(f, "{} {name}: {}", if number == 0 { ":" } else { "," }, if *found { "yes" } else { "no" })?;
        }
        Ok(())
    }
}
