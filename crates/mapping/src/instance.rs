//! A resource while the rules of one message build it: registers with their items, then a contribution.
//! Not here: what identifies it (`identity`).
//! Contract: items are in the order of their places in the message; a null stands only where no rule gave a value.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use fhir::{Json, Object, ResourceKey};
use smol_str::SmolStr;

use crate::contribution::{Contribution, Register, RegisterPath, Scope, Strength};
use crate::node::{Node, Step, has_value};
use crate::plan::RegisterName;

/// Which item of a register: segment index and repetition. Single values have one item, `ONLY`.
pub(crate) type ItemKey = (u32, u16);

/// The item of what does not repeat.
pub(crate) const ONLY: ItemKey = (0, 0);

/// A resource being built.
#[derive(Clone, Debug)]
pub(crate) struct Instance {
    pub resource: SmolStr,
    /// Index of the segment that began it.
    pub segment: u32,
    /// The resource whose rule made it (`resource = …`).
    pub parent: Option<usize>,
    registers: Vec<Building>,
}

#[derive(Clone, Debug)]
struct Building {
    register: u32,
    strength: Strength,
    null: bool,
    items: Vec<(ItemKey, Node)>,
}

impl Instance {
    pub(crate) fn new(resource: SmolStr, segment: u32, parent: Option<usize>) -> Self {
        Self { resource, segment, parent, registers: Vec::with_capacity(8) }
    }

    /// Puts a value into an item of a register. False where the place was taken.
    pub(crate) fn put(&mut self, register: u32, strength: Strength, item: ItemKey, steps: &[Step], node: Node) -> bool {
        let items = &mut self.building(register, strength).items;
        // Sorted by place; rules mostly write the last item or a new one behind it.
        match items.binary_search_by_key(&item, |(key, _)| *key) {
            Ok(index) => items.get_mut(index).is_some_and(|(_, built)| built.put(steps, node)),
            Err(index) => {
                let mut built = Node::Empty;
                let used = built.put(steps, node);
                items.insert(index, (item, built));
                used
            }
        }
    }

    /// Notes an explicit null (`""`, HL7 v2 §2.5.3).
    pub(crate) fn put_null(&mut self, register: u32, strength: Strength) {
        self.building(register, strength).null = true;
    }

    fn building(&mut self, register: u32, strength: Strength) -> &mut Building {
        let found = self.registers.iter().position(|b| b.register == register && b.strength == strength);
        let index = found.unwrap_or(self.registers.len());
        if found.is_none() {
            self.registers.push(Building { register, strength, null: false, items: Vec::new() });
        }
        // The index is of an element that is there or was pushed just now.
        #[expect(clippy::indexing_slicing, reason = "see above")]
        &mut self.registers[index]
    }

    /// Whether any rule gave it anything.
    pub(crate) fn is_empty(&self) -> bool {
        self.registers.is_empty()
    }

    /// The items of a register, in order.
    pub(crate) fn items(&self, register: u32) -> Vec<&Node> {
        let of_register = self.registers.iter().filter(|b| b.register == register).flat_map(|b| &b.items);
        let mut items: Vec<&(ItemKey, Node)> = of_register.collect();
        items.sort_by_key(|(key, _)| *key);
        items.into_iter().map(|(_, node)| node).collect()
    }

    /// The registers written, by number.
    pub(crate) fn written(&self) -> impl Iterator<Item = u32> + '_ {
        self.registers.iter().map(|building| building.register)
    }

    /// A copy with only the registers of some names.
    pub(crate) fn only(&self, names: &[RegisterName], wanted: impl Fn(&str) -> bool) -> Instance {
        let keep = |building: &&Building| name_of(names, building.register).is_some_and(|name| wanted(&name.path));
        let registers = self.registers.iter().filter(keep).cloned().collect();
        Instance { resource: self.resource.clone(), registers, ..*self }
    }

    /// The value of each register, references resolved.
    pub(crate) fn finish(
        mut self,
        names: &[RegisterName],
        resolve: &impl Fn(usize) -> Option<Json>,
    ) -> BTreeMap<RegisterPath, Register> {
        self.registers.sort_by_key(|building| (building.register, std::cmp::Reverse(building.strength)));
        let mut built: Vec<Built<'_>> = Vec::with_capacity(self.registers.len());
        for Building { register, strength, null, items } in self.registers {
            let Some(name) = name_of(names, register) else { continue };
            let items = finish_items(items, name, resolve);
            match built.last_mut() {
                // The same register, less strongly: only where the stronger said nothing.
                Some(last) if last.register == register => {
                    if last.items.is_empty() && !items.is_empty() {
                        *last = Built { register, name, strength, null, items };
                    }
                }
                _ => built.push(Built { register, name, strength, null, items }),
            }
        }
        if built.iter().any(|built| built.name.sibling.is_some()) {
            align(&mut built);
        }
        let registers = built.into_iter().filter(|built| built.null || !built.items.is_empty()).map(|built| {
            let Built { name, strength, items, .. } = built;
            let empty = items.is_empty();
            let mut values = items.into_iter().map(|(_, json)| json);
            let value = if name.items && !empty { Some(Json::Array(values.collect())) } else { values.next() };
            (name.path.clone(), Register { strength, value })
        });
        registers.collect()
    }
}

/// A register whose items are JSON already.
struct Built<'n> {
    register: u32,
    name: &'n RegisterName,
    strength: Strength,
    null: bool,
    items: Vec<(ItemKey, Json)>,
}

fn name_of(names: &[RegisterName], register: u32) -> Option<&RegisterName> {
    names.get(usize::try_from(register).ok()?)
}

fn finish_items(
    items: Vec<(ItemKey, Node)>,
    name: &RegisterName,
    resolve: &impl Fn(usize) -> Option<Json>,
) -> Vec<(ItemKey, Json)> {
    let finished = items.into_iter().filter_map(|(key, node)| Some((key, node.finish(resolve).json?)));
    finished.filter(|(_, json)| !name.extension || has_value(json)).collect()
}

/// A repeating primitive and its extensions get items for the same places, `null` where one is missing (R4 §2.6.2.3).
fn align(built: &mut [Built<'_>]) {
    let keys = |built: &Built<'_>| built.items.iter().map(|(key, _)| *key).collect::<Vec<_>>();
    let found: Vec<(u32, Vec<ItemKey>)> = built.iter().map(|built| (built.register, keys(built))).collect();
    for built in built.iter_mut() {
        let sibling = built.name.sibling.and_then(|sibling| found.iter().find(|(register, _)| *register == sibling));
        let Some((_, theirs)) = sibling.filter(|(_, theirs)| !theirs.is_empty() && !built.items.is_empty()) else {
            continue;
        };
        let mine = keys(built);
        let missing = theirs.iter().filter(|key| mine.binary_search(key).is_err());
        built.items.extend(missing.map(|key| (*key, Json::Null)));
        built.items.sort_by_key(|(key, _)| *key);
    }
}

/// Contributions of one message, one per resource.
#[derive(Debug, Default)]
pub(crate) struct Gathered {
    /// With [`ResourceKey::full_url`].
    found: BTreeMap<ResourceKey, (SmolStr, Contribution)>,
}

impl Gathered {
    /// Adds what an instance says; returns the registers where it contradicts an earlier one, which stays.
    pub(crate) fn add(
        &mut self,
        (key, url): (&ResourceKey, &SmolStr),
        scope: Scope,
        registers: BTreeMap<RegisterPath, Register>,
    ) -> Vec<SmolStr> {
        let Some((_, contribution)) = self.found.get_mut(key) else {
            self.found.insert(key.clone(), (url.clone(), Contribution { resource: key.clone(), scope, registers }));
            return Vec::new();
        };
        let mut conflicts = Vec::new();
        for (path, register) in registers {
            match contribution.registers.entry(path) {
                Entry::Vacant(free) => {
                    free.insert(register);
                }
                Entry::Occupied(mut taken) => {
                    if !join(taken.get_mut(), register) {
                        conflicts.push(taken.key().clone());
                    }
                }
            }
        }
        conflicts
    }

    /// The `fullUrl`s of the resources spoken of, in the order of their keys.
    pub(crate) fn urls(&self) -> impl Iterator<Item = &SmolStr> {
        self.found.values().map(|(url, _)| url)
    }

    pub(crate) fn finish(self) -> Vec<Contribution> {
        self.found.into_values().map(|(_, contribution)| contribution).collect()
    }
}

/// A value with one member.
pub(crate) fn single(name: &'static str, value: Json) -> Json {
    let mut object = Object::new();
    object.insert(SmolStr::new_static(name), value);
    Json::Object(object)
}

/// Joins a later register into an earlier one; false where it contradicts.
fn join(earlier: &mut Register, later: Register) -> bool {
    match (&mut earlier.value, later.value) {
        (_, None) => true,
        (None, value) => {
            *earlier = Register { strength: later.strength, value };
            true
        }
        (Some(mine), Some(theirs)) if later.strength == earlier.strength => match (mine, theirs) {
            (Json::Array(items), Json::Array(more)) => {
                for item in more {
                    if !items.contains(&item) {
                        items.push(item);
                    }
                }
                true
            }
            (mine, theirs) => *mine == theirs,
        },
        (Some(mine), Some(theirs)) => {
            if later.strength > earlier.strength {
                *mine = theirs;
                earlier.strength = later.strength;
            }
            true
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> Vec<RegisterName> {
        let name = |path: &str, items, sibling| RegisterName {
            path: path.into(),
            items,
            extension: path.starts_with("extension"),
            sibling,
        };
        vec![
            name("name[1]", true, None),
            name("status", false, None),
            name("category[1]", true, Some(3)),
            name("_category[1]", true, Some(2)),
            name("extension[1]", true, None),
        ]
    }

    fn show(instance: Instance) -> Vec<String> {
        let registers = instance.finish(&names(), &|_| None);
        registers
            .into_iter()
            .map(|(path, r)| format!("{path} {:?} {}", r.strength, r.value.unwrap_or(Json::Null)))
            .collect()
    }

    fn text(text: &str) -> Node {
        Node::Content(Json::from(text))
    }

    #[test]
    fn items_come_in_order_and_nulls_only_alone() {
        let mut instance = Instance::new("Patient".into(), 0, None);
        instance.put(0, Strength::Asserts, (2, 1), &[], text("c"));
        instance.put(0, Strength::Asserts, (1, 2), &[], text("b"));
        instance.put(0, Strength::Asserts, (1, 1), &[], text("a"));
        instance.put_null(0, Strength::Asserts);
        instance.put_null(1, Strength::Fills);
        instance.put(4, Strength::Asserts, (1, 1), &[], Node::Object(Vec::new()));
        assert_eq!(show(instance), [r#"name[1] Asserts ["a","b","c"]"#, "status Fills null"]);
    }

    #[test]
    fn an_assertion_is_stronger_than_a_filling() {
        let mut instance = Instance::new("Patient".into(), 0, None);
        instance.put(1, Strength::Fills, ONLY, &[], text("f"));
        instance.put(1, Strength::Asserts, ONLY, &[], text("a"));
        assert_eq!(show(instance), [r#"status Asserts "a""#]);
    }

    #[test]
    fn extensions_of_repeating_primitives_align() {
        let mut instance = Instance::new("AllergyIntolerance".into(), 0, None);
        instance.put(2, Strength::Asserts, (1, 1), &[], text("food"));
        instance.put(3, Strength::Asserts, (1, 2), &[], text("x"));
        assert_eq!(show(instance), [r#"_category[1] Asserts [null,"x"]"#, r#"category[1] Asserts ["food",null]"#]);
    }

    #[test]
    fn the_first_of_two_that_contradict_stays() {
        let key = ResourceKey { resource_type: "Patient".into(), system: "s".into(), value: "v".into() };
        let url = key.full_url();
        let register = |value: Json| Register { strength: Strength::Asserts, value: Some(value) };
        let list = |texts: &[&str]| Json::Array(texts.iter().map(|t| Json::from(*t)).collect());
        let mut gathered = Gathered::default();
        let one = BTreeMap::from([("a".into(), register(Json::from("1"))), ("n[1]".into(), register(list(&["x"])))]);
        let two =
            BTreeMap::from([("a".into(), register(Json::from("2"))), ("n[1]".into(), register(list(&["x", "y"])))]);
        assert!(gathered.add((&key, &url), Scope::Subject, one).is_empty());
        assert_eq!(gathered.add((&key, &url), Scope::Subject, two), ["a"]);
        let registers = &gathered.finish()[0].registers;
        assert_eq!(registers["a"].value, Some(Json::from("1")));
        assert_eq!(registers["n[1]"].value, Some(list(&["x", "y"])));
    }
}
