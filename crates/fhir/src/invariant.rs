//! Invariants of R4 (`ext-1`, `per-1`, `pat-1` …): conditions between the elements of one object that the table of
//! elements can't say. Those of severity error for what v2 messages give; the best-practice ones are not here, nor those
//! between resources (`bundle`) or about contained resources (`check`).

use crate::date_time::DateTime;
use crate::json::{Json, Object};

/// A condition that holds for an object.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Invariant {
    /// Key and text in the standard.
    pub text: &'static str,
    pub holds: fn(&Object) -> bool,
}

const UCUM: &str = "http://unitsofmeasure.org";

macro_rules! invariants {
    ($name:ident: $($text:literal => $holds:expr),+ $(,)?) => {
        const $name: &[Invariant] = &[$(Invariant { text: $text, holds: $holds }),+];
    };
}

invariants!(EXTENSION: "ext-1: either extensions or value[x], not both, not neither" => |o| has(o, "extension") != has_choice(o, "value"));
invariants!(PERIOD: "per-1: start is not after end" => period_in_order);
invariants!(ATTACHMENT: "att-1: data needs contentType" => |o| !has(o, "data") || has(o, "contentType"));
invariants!(CONTACT_POINT: "cpt-2: value needs system" => |o| !has(o, "value") || has(o, "system"));
invariants!(QUANTITY: "qty-3: code needs system" => |o| !has(o, "code") || has(o, "system"));
invariants!(DURATION:
    "qty-3: code needs system" => |o| !has(o, "code") || has(o, "system"),
    "drt-1: a code is of UCUM and has a value" => |o| !has(o, "code") || (text_is(o, "system", UCUM) && has(o, "value")),
);
invariants!(AGE:
    "qty-3: code needs system" => |o| !has(o, "code") || has(o, "system"),
    "age-1: value needs code, system is UCUM" => |o| {
        (has(o, "code") || !has(o, "value")) && (!has(o, "system") || text_is(o, "system", UCUM))
    },
);
invariants!(RATIO: "rat-1: numerator and denominator, or neither and an extension" => |o| {
    has(o, "numerator") == has(o, "denominator") && (has(o, "numerator") || has(o, "extension"))
});
invariants!(TIMING_REPEAT:
    "tim-1: duration needs durationUnit" => |o| !has(o, "duration") || has(o, "durationUnit"),
    "tim-2: period needs periodUnit" => |o| !has(o, "period") || has(o, "periodUnit"),
    "tim-6: durationMax needs duration" => |o| !has(o, "durationMax") || has(o, "duration"),
    "tim-7: periodMax needs period" => |o| !has(o, "periodMax") || has(o, "period"),
    "tim-8: countMax needs count" => |o| !has(o, "countMax") || has(o, "count"),
    "tim-10: timeOfDay or when, not both" => |o| !has(o, "timeOfDay") || !has(o, "when"),
);
invariants!(PATIENT_CONTACT: "pat-1: a contact has a name, telecom, address or organization" => |o| {
    ["name", "telecom", "address", "organization"].iter().any(|name| has(o, name))
});
invariants!(ORGANIZATION:
    "org-1: a name or an identifier" => |o| has(o, "name") || has(o, "identifier"),
    "org-2: no address for home" => |o| !any_is(o, "address", "use", "home"),
    "org-3: no telecom for home" => |o| !any_is(o, "telecom", "use", "home"),
);
invariants!(OBSERVATION:
    "obs-6: no dataAbsentReason beside a value" => |o| !has(o, "dataAbsentReason") || !has_choice(o, "value"),
    "obs-7: no value where a component has the same code" => |o| !has_choice(o, "value") || !component_repeats_code(o),
);
invariants!(REFERENCE_RANGE: "obs-3: low, high or text" => |o| has(o, "low") || has(o, "high") || has(o, "text"));
invariants!(CONDITION:
    "con-4: abated is not active" => |o| {
        !has_choice(o, "abatement") || ["inactive", "resolved", "remission"].iter().any(|s| coded(o, "clinicalStatus", s))
    },
    "con-5: no clinicalStatus for what was entered in error" => |o| {
        !has(o, "clinicalStatus") || !coded(o, "verificationStatus", "entered-in-error")
    },
);
invariants!(ALLERGY:
    "ait-1: clinicalStatus, unless entered in error" => |o| {
        has(o, "clinicalStatus") || coded(o, "verificationStatus", "entered-in-error")
    },
    "ait-2: no clinicalStatus for what was entered in error" => |o| {
        !has(o, "clinicalStatus") || !coded(o, "verificationStatus", "entered-in-error")
    },
);
invariants!(APPOINTMENT:
    "app-2: start and end, or neither" => |o| has(o, "start") == has(o, "end"),
    "app-3: start and end, unless proposed, cancelled or waitlist" => |o| {
        (has(o, "start") && has(o, "end"))
            || ["proposed", "cancelled", "waitlist"].iter().any(|s| text_is(o, "status", s))
    },
    "app-4: cancelationReason only for cancelled or no-show" => |o| {
        !has(o, "cancelationReason") || text_is(o, "status", "cancelled") || text_is(o, "status", "no-show")
    },
);
invariants!(APPOINTMENT_PARTICIPANT: "app-1: a type or an actor" => |o| has(o, "type") || has(o, "actor"));
invariants!(SERVICE_REQUEST: "prr-1: orderDetail needs code" => |o| !has(o, "orderDetail") || has(o, "code"));
invariants!(AUDIT_ENTITY: "sev-1: a name or a query, not both" => |o| !has(o, "name") || !has(o, "query"));

/// The invariants of a type or component.
pub(crate) fn of(path: &str) -> &'static [Invariant] {
    match path {
        "Extension" => EXTENSION,
        "Period" => PERIOD,
        "Attachment" => ATTACHMENT,
        "ContactPoint" => CONTACT_POINT,
        "Quantity" | "Count" | "Distance" => QUANTITY,
        "Duration" => DURATION,
        "Age" => AGE,
        "Ratio" => RATIO,
        "Timing.repeat" => TIMING_REPEAT,
        "Patient.contact" => PATIENT_CONTACT,
        "Organization" => ORGANIZATION,
        "Observation" => OBSERVATION,
        "Observation.referenceRange" => REFERENCE_RANGE,
        "Condition" => CONDITION,
        "AllergyIntolerance" => ALLERGY,
        "Appointment" => APPOINTMENT,
        "Appointment.participant" => APPOINTMENT_PARTICIPANT,
        "ServiceRequest" => SERVICE_REQUEST,
        "AuditEvent.entity" => AUDIT_ENTITY,
        _ => &[],
    }
}

/// Is the element there, if only with an extension (`_name`)?
fn has(object: &Object, name: &str) -> bool {
    object.contains_key(name) || object.keys().any(|key| key.strip_prefix('_') == Some(name))
}

/// Is some type of the choice there?
fn has_choice(object: &Object, stem: &str) -> bool {
    object.keys().any(|key| {
        let name = key.strip_prefix('_').unwrap_or(key);
        name.strip_prefix(stem).is_some_and(|variant| variant.starts_with(|c: char| c.is_ascii_uppercase()))
    })
}

fn text<'o>(object: &'o Object, name: &str) -> Option<&'o str> {
    object.get(name)?.as_str()
}

fn text_is(object: &Object, name: &str, value: &str) -> bool {
    text(object, name) == Some(value)
}

fn items<'o>(object: &'o Object, name: &str) -> &'o [Json] {
    object.get(name).map_or(&[], Json::items)
}

fn any_is(object: &Object, name: &str, inner: &str, value: &str) -> bool {
    items(object, name).iter().filter_map(Json::as_object).any(|item| text_is(item, inner, value))
}

/// Has the CodeableConcept the code? Its system is checked with its binding.
fn coded(object: &Object, name: &str, code: &str) -> bool {
    object.get(name).and_then(Json::as_object).is_some_and(|concept| any_is(concept, "coding", "code", code))
}

fn period_in_order(period: &Object) -> bool {
    let end_of = |name| text(period, name).and_then(|text| DateTime::parse(text).ok());
    match (end_of("start"), end_of("end")) {
        (Some(start), Some(end)) => !start.is_after(&end),
        _ => true,
    }
}

fn component_repeats_code(observation: &Object) -> bool {
    let codings = |of: &'static str, object: &Object| -> Vec<Json> {
        object.get(of).and_then(|code| code.get("coding")).map_or(&[][..], Json::items).to_vec()
    };
    if !observation.contains_key("component") {
        return false;
    }
    let own = codings("code", observation);
    let components = items(observation, "component").iter().filter_map(Json::as_object);
    components.flat_map(|component| codings("code", component)).any(|coding| own.contains(&coding))
}
