//! Registers: target paths cut after their outermost repeating element, and never one inside another: where a map of a
//! type writes `code` and another `code.text`, both write into `code`.

use std::collections::{BTreeMap, BTreeSet};

use smol_str::SmolStr;

use crate::node::{Step, is_extension};
use crate::plan::{Bind, RegisterName, Rule, Target};
use crate::target::{TargetPath, register_path};

/// Targets seen, then registers numbered.
#[derive(Default)]
pub(super) struct Registers {
    seen: Vec<(SmolStr, Vec<Step>)>,
    wanted: BTreeSet<(SmolStr, Vec<Step>)>,
    numbers: BTreeMap<(SmolStr, Vec<Step>), u32>,
    names: Vec<RegisterName>,
}

impl Registers {
    /// Notes a target of a resource type. The number returned stands for it until [`Registers::place`].
    pub(super) fn note(&mut self, resource: &str, target: &TargetPath) -> u32 {
        let number = u32::try_from(self.seen.len()).unwrap_or(u32::MAX);
        let cut = target.steps.get(..target.register_steps()).unwrap_or_default().to_vec();
        self.wanted.insert((SmolStr::new(resource), cut));
        self.seen.push((SmolStr::new(resource), target.steps.clone()));
        number
    }

    /// Numbers the registers once all targets are noted.
    pub(super) fn settle(&mut self) {
        for (resource, steps) in &self.wanted {
            let inside = (1..steps.len())
                .filter_map(|end| steps.get(..end))
                .any(|prefix| self.wanted.contains(&(resource.clone(), prefix.to_vec())));
            if !inside {
                let number = u32::try_from(self.names.len()).unwrap_or(u32::MAX);
                let items = steps.last().is_some_and(|step| step.repeats);
                self.numbers.insert((resource.clone(), steps.clone()), number);
                let extension = steps.last().is_some_and(|step| is_extension(&step.name));
                self.names.push(RegisterName { path: register_path(steps), items, extension, sibling: None });
            }
        }
        let numbers = &self.numbers;
        let pairs: Vec<(u32, u32)> = numbers
            .iter()
            .filter_map(|((resource, steps), number)| {
                let (last, front) = steps.split_last()?;
                let plain = last.name.strip_prefix('_').filter(|_| last.repeats)?;
                let mut sibling = front.to_vec();
                sibling.push(Step { name: SmolStr::new(plain), ..last.clone() });
                Some((*number, *numbers.get(&(resource.clone(), sibling))?))
            })
            .collect();
        for (extended, plain) in pairs {
            self.pair(extended, plain);
            self.pair(plain, extended);
        }
    }

    fn pair(&mut self, of: u32, with: u32) {
        if let Some(name) = usize::try_from(of).ok().and_then(|of| self.names.get_mut(of)) {
            name.sibling = Some(with);
        }
    }

    fn find(&self, noted: u32) -> Option<(u32, bool, Vec<Step>)> {
        let (resource, steps) = self.seen.get(usize::try_from(noted).ok()?)?;
        (1..=steps.len()).find_map(|end| {
            let prefix = steps.get(..end)?;
            let number = self.numbers.get(&(resource.clone(), prefix.to_vec()))?;
            let items = prefix.last().is_some_and(|step| step.repeats);
            Some((*number, items, steps.get(end..).unwrap_or_default().to_vec()))
        })
    }

    /// Replaces noted numbers in rules by registers.
    pub(super) fn place<'r>(&self, rules: impl Iterator<Item = &'r mut Rule>) {
        for rule in rules {
            if let Target::Register { register, items, steps } = &mut rule.target
                && let Some(found) = self.find(*register)
            {
                (*register, *items, *steps) = found;
            }
        }
    }

    /// Replaces noted numbers in the references of bindings by registers.
    pub(super) fn place_references<'b>(&self, binds: impl Iterator<Item = &'b mut Bind>) {
        for reference in binds.flat_map(|bind| &mut bind.references) {
            if let Some(found) = self.find(reference.register) {
                (reference.register, reference.items, reference.steps) = found;
            }
        }
    }

    /// Register names of a type.
    pub(super) fn of<'s>(&'s self, resource: &'s str) -> impl Iterator<Item = &'s str> {
        let of_type = self.numbers.iter().filter(move |((of, _), _)| of == resource);
        of_type.filter_map(|(_, number)| self.names.get(usize::try_from(*number).ok()?)).map(|name| name.path.as_str())
    }

    pub(super) fn finish(self) -> Vec<RegisterName> {
        self.names
    }
}
