//! Transactions (R4 §3.1.0.11.2): every entry or none.
//!
//! Contract: all entries are decided on the state before the transaction; two entries about one resource are refused;
//! a reference to another entry's `fullUrl` becomes a reference to the resource that entry is about.

use std::collections::{BTreeMap, BTreeSet};

use fhir::Json;
use smol_str::{SmolStr, format_smolstr};

use crate::batch::{entries, response_bundle, response_entry};
use crate::engine::{Engine, Plan};
use crate::outcome::Refusal;
use crate::request::{Answer, Method, Prefer, Request};

/// One entry, decided.
struct Decided {
    request: Request,
    plan: Plan,
    full_url: Option<SmolStr>,
}

/// `fullUrl` of an entry to what it is about, and which entry that is.
type Targets = BTreeMap<SmolStr, (SmolStr, usize)>;

impl Engine {
    pub(crate) fn transaction(&mut self, bundle: &Json, prefer: Prefer) -> Result<Answer, Refusal> {
        let answer = self.all_or_nothing(|engine| engine.transact(bundle, prefer));
        self.counters.transactions += 1;
        answer
    }

    fn transact(&mut self, bundle: &Json, prefer: Prefer) -> Result<Answer, Refusal> {
        let mut decided = Vec::new();
        for (number, entry) in entries(bundle).iter().enumerate() {
            decided.push(self.decide(entry, prefer).map_err(|refusal| refusal.in_entry(number))?);
        }
        refuse_overlaps(&decided)?;
        let targets = targets(&decided)?;
        let mut order: Vec<usize> = (0..decided.len()).collect();
        // Stable: entries of one method keep the order they were sent in.
        order.sort_by_key(|number| decided[*number].request.method);
        let mut answered: Vec<(usize, Json)> = Vec::new();
        for number in order {
            let Decided { request, plan, .. } = &decided[number];
            let last = if self.profile.resolves_entries_in_order { number } else { usize::MAX };
            let mut resource = request.resource.clone();
            let resolved = resource.as_mut().map_or(Ok(()), |resource| resolve(resource, &targets, last));
            let answer = resolved.and_then(|()| self.apply(plan, request, resource));
            let answer = answer.map_err(|refusal| refusal.in_entry(number))?;
            answered.push((number, response_entry(&self.base_url, request, answer)));
        }
        answered.sort_by_key(|(number, _)| *number);
        let responses = answered.into_iter().map(|(_, entry)| entry).collect();
        Ok(Answer::of(response_bundle("transaction-response", responses)))
    }

    fn decide(&mut self, entry: &Json, prefer: Prefer) -> Result<Decided, Refusal> {
        let request = Request::from_entry(entry, &self.base_url, prefer)?;
        if request.path.is_empty() {
            return Err(Refusal::not_supported("a bundle inside a bundle is not supported"));
        }
        let searches = match request.method {
            Method::Get => request.path.len() == 1,
            _ => request.path.get(1).is_some_and(|segment| segment == "_search"),
        };
        if searches {
            // It would have to find what the other entries wrote, which the index learns of only afterwards.
            return Err(Refusal::not_supported("a search inside a transaction is not supported"));
        }
        let plan = self.plan(&request)?;
        let full_url = entry.get("fullUrl").and_then(Json::as_str).map(SmolStr::from);
        Ok(Decided { request, plan, full_url })
    }
}

/// R4 §3.1.0.11.2: "If any resource identities overlap […] the transaction SHALL fail". Two conditional entries that match nothing
/// overlap when their criteria are the same.
fn refuse_overlaps(decided: &[Decided]) -> Result<(), Refusal> {
    let (mut keys, mut conditions) = (BTreeSet::new(), BTreeSet::new());
    for (number, entry) in decided.iter().enumerate() {
        let conditional = match (entry.request.method, entry.request.path.len()) {
            (Method::Post, _) => entry.request.if_none_exist.as_ref(),
            (Method::Put, 1) => Some(&entry.request.query),
            _ => None,
        };
        let new = entry.plan.key().is_none_or(|key| keys.insert(key))
            && conditional.is_none_or(|criteria| conditions.insert((&entry.request.path[0], criteria)));
        if !new {
            return Err(Refusal::new(400, "duplicate", "another entry is about the same resource").in_entry(number));
        }
    }
    Ok(())
}

fn targets(decided: &[Decided]) -> Result<Targets, Refusal> {
    let mut targets = Targets::new();
    for (number, entry) in decided.iter().enumerate() {
        let (Some(full_url), Some(key)) = (&entry.full_url, entry.plan.key()) else { continue };
        if targets.insert(full_url.clone(), (format_smolstr!("{key}"), number)).is_some() {
            return Err(Refusal::new(400, "duplicate", "another entry has the same fullUrl").in_entry(number));
        }
    }
    Ok(targets)
}

/// Rewrites every `reference` that names an entry up to number `last`.
fn resolve(value: &mut Json, targets: &Targets, last: usize) -> Result<(), Refusal> {
    match value {
        Json::Array(items) => items.iter_mut().try_for_each(|item| resolve(item, targets, last)),
        Json::Object(members) => members.iter_mut().try_for_each(|(name, member)| match member {
            Json::String(reference) if name == "reference" => {
                match targets.get(reference) {
                    Some((target, number)) if *number <= last => *reference = target.clone(),
                    _ if reference.starts_with("urn:") => {
                        return Err(Refusal::new(400, "not-found", "a reference names no entry of the transaction"));
                    }
                    _ => {}
                }
                Ok(())
            }
            _ => resolve(member, targets, last),
        }),
        _ => Ok(()),
    }
}
