//! Faults of rule files: all at once, with file and line; and plans that do not depend on the order of files.

mod support;

use mapping::Plan;
use support::{a01, borrowed, map_with, plan, rule_files, sender};

/// The test rules with one file replaced or added.
fn faults(path: &str, text: &str) -> Vec<String> {
    let mut files = rule_files();
    files.retain(|(known, _)| known != path);
    files.push((path.to_owned(), text.to_owned()));
    match Plan::compile(&borrowed(&files)) {
        Ok(_) => Vec::new(),
        Err(faults) => faults.iter().map(ToString::to_string).collect(),
    }
}

fn rule(body: &str) -> Vec<String> {
    let text = format!("map = \"PD1[Patient]\"\nresource = \"Patient\"\n\n[[rule]]\nrows = [1]\n{body}\n");
    faults("segments/PD1.Patient.toml", &text)
}

#[track_caller]
fn one(found: &[String], wanted: &str) {
    assert!(found.len() == 1 && found[0].contains(wanted), "{found:#?}");
}

#[test]
fn content_alone_identifies_only_where_there_is_some_and_no_identifier() {
    let identity = rule_files().into_iter().find(|(path, _)| path == "identity.toml").unwrap().1;
    let with = |section: &str| {
        let (before, _) = identity.split_once("[RelatedPerson]").unwrap();
        faults(
            "identity.toml",
            &format!("{before}[RelatedPerson]\nscope = \"subject\"\ncontent_only = true\n{section}"),
        )
    };
    assert_eq!(with("content = [\"name\"]"), Vec::<String>::new());
    one(&with(""), "`content_only` goes with `content`");
    one(&with("content = [\"name\"]\nidentifier_types = [\"SS\"]"), "without identifiers");
}

#[test]
fn a_rule_is_checked_against_r4() {
    assert_eq!(rule("from = \"PD1-1\"\nto = \"active\""), Vec::<String>::new());
    for (body, wanted) in [
        ("from = \"PD1-1\"\nto = \"nonsense\"", "R4 has no Patient.nonsense"),
        ("from = \"PD1-1\"\nto = \"deceased\"", "R4 has no Patient.deceased"),
        ("from = \"PD1-1\"\nto = \"gender[2]\"", "does not repeat"),
        ("from = \"PD1-1\"\nto = \"name[1]\"", "needs a datatype map"),
        ("from = \"PD1-1\"\nto = \"name[1]\"\nas = \"CWE[Coding]\"", "gives Coding"),
        ("from = \"PD1-1\"\nto = \"name[1]\"\nas = \"XPN[Nothing]\"", "there are XPN[HumanName], XPN[string]"),
        ("from = \"PD1-1\"\nto = \"active\"\nas = \"date\"", "gives date"),
        ("from = \"PD1-1\"\nto = \"active\"\nvalue = \"yes\"", "true or false"),
        ("from = \"PD1-1\"\nto = \"gender\"\nvalue = \"M\"", "takes"),
        ("from = \"PD1-1\"\nto = \"birthDate\"\nvalue = \"2000\"", "invented"),
        ("from = \"PD1-1\"\nto = \"name[1]\"\nvalue = \"x\"", "no constant fills"),
        ("from = \"PD1-1\"\nto = \"gender\"\ncode = \"Nothing\"", "no code map"),
        ("from = \"PD1-1\"\nto = \"gender\"\ncode = \"PatientClass[EncounterClass]\"", "does not take: EMER, IMP"),
        ("from = \"PD1-1\"\nto = \"gender\"\ncode = \"AdministrativeSex\"\nunmapped = \"keep\"", "cannot be kept"),
        ("from = \"PD1-1\"\nto = \"gender\"\nunmapped = \"keep\"", "without `code`"),
        ("from = \"PD1\"\nto = \"active\"", "whole segment"),
        ("from = \"PD1-x\"\nto = \"active\"", "not a number"),
        ("from = \"PD1-1\"\nto = \"active\"\nwhen = 'PD1-2 IS GREAT'", "when: "),
        ("from = \"PD1-1\"\nto = \"active\"\nunknown = 1", "unknown key `unknown`"),
        ("from = \"PD1-1\"", "`to` is missing"),
        ("from = \"PD1-4\"\nto = \"generalPractitioner[1](Practitioner)\"", "resource = \"Practitioner\""),
        (
            "from = \"PD1-4\"\nto = \"managingOrganization\"\nas = \"XCN[Practitioner]\"\nresource = \"Practitioner\"",
            "refers to Organization",
        ),
        (
            "from = \"PD1-4\"\nto = \"gender\"\nas = \"XCN[Practitioner]\"\nresource = \"Practitioner\"",
            "needs a Reference",
        ),
        ("from = \"PD1-4\"\nto = \"$this\"\nas = \"CX[Identifier]\"", "whose target is Patient"),
    ] {
        let found = rule(body);
        one(&found, wanted);
        assert!(found[0].starts_with("segments/PD1.Patient.toml:"), "{found:?}");
    }
}

#[test]
fn two_rules_for_one_slot_need_different_conditions() {
    one(
        &rule("from = \"PD1-1\"\nto = \"active\"\n[[rule]]\nrows = [2]\nfrom = \"PD1-2\"\nto = \"active\""),
        "under the same condition",
    );
    let told_apart = "from = \"PD1-1\"\nto = \"active\"\n[[rule]]\nrows = [2]\nfrom = \"PD1-2\"\nto = \"active\"\nwhen = 'PD1-1 NOT VALUED'";
    assert_eq!(rule(told_apart), Vec::<String>::new());
}

#[test]
fn every_fault_is_reported_at_once_in_order() {
    let text = "map = \"PD1[Patient]\"\nresource = \"Patient\"\nbad = 1\n\n[[rule]]\nrows = [1]\nfrom = \"PD1-1\"\nto = \"nope\"\n\n[[rule]]\nrows = []\nfrom = \"PD1-2\"\nto = \"active\"\nvalue = 3\n";
    let found = faults("segments/PD1.Patient.toml", text);
    let lines: Vec<&str> = found.iter().map(|fault| fault.split(':').nth(1).unwrap()).collect();
    assert_eq!(lines, ["3", "6", "11", "11"], "{found:#?}");
}

#[test]
fn maps_messages_and_tables_are_checked() {
    let cyclic = "map = \"CX[Patient-Alternate]\"\ntarget = \"Patient\"\n[[rule]]\nrows = [1]\nfrom = \"CX\"\nas = \"CX[Patient-Alternate]\"\nto = \"$this\"\n";
    one(&faults("datatypes/CX.Patient-Alternate.toml", cyclic), "applies itself");
    one(&faults("datatypes/TS.Nope.toml", "map = \"TS[Nope]\"\ntarget = \"Nope\"\n"), "not an R4 type");
    one(
        &faults("datatypes/TS.date.toml", "map = \"DTM[date]\"\ntarget = \"date\"\n"),
        "belongs in a file named DTM.date.toml",
    );
    one(&faults("readme.md", ""), "not a place for a rule file");
    one(&faults("systems.toml", "[systems]\nLN = \"loinc\"\n"), "not an absolute URI");
    one(&faults("manifest.toml", "version = \"1\"\nfhir = \"5.0.0\"\nhl7 = []\n"), "4.0.1 only");
    let identity = rule_files().into_iter().find(|(path, _)| path == "identity.toml").unwrap().1;
    let missing = identity.replace("[Location]\nscope = \"shared\"\ncontent = [\"name\"]", "");
    one(&faults("identity.toml", &missing), "rules make Location");
    let wrong = identity.replace("content = [\"code\"]", "content = [\"codes\"]");
    assert_eq!(faults("identity.toml", &wrong).len(), 2);
}

#[test]
fn bindings_are_checked() {
    let message = |segments: &str, bind: &str| {
        let text = format!(
            "structure = \"ADT_A03\"\nevents = [\"A03\"]\nsegments = \"{segments}\"\n\n[[bind]]\npath = \"PID\"\nmap = \"PID[Patient]\"\nresource = \"Patient[1]\"\n{bind}"
        );
        faults("messages/ADT_A03.toml", &text)
    };
    assert_eq!(message("MSH PID [{AL1}]", ""), Vec::<String>::new());
    one(&message("MSH PID [{AL1}", ""), "bracket");
    let al1 = "[[bind]]\npath = \"AL1\"\nmap = \"AL1[AllergyIntolerance]\"\nresource = \"AllergyIntolerance[1]\"\n";
    for (bind, wanted) in [
        ("references = { patient = \"Patient[2]\" }", "no binding makes `Patient[2]`"),
        ("references = { subject = \"Patient[1]\" }", "R4 has no AllergyIntolerance.subject"),
        ("references = { encounter = \"Patient[1]\" }", "refers to Encounter"),
        ("when = 'AL1-3'", "when: "),
    ] {
        one(&message("MSH PID [{AL1}]", &format!("{al1}{bind}")), wanted);
    }
    one(
        &message("MSH PID [{AL1}]", "[[bind]]\npath = \"DG1\"\nmap = \"DG1[Condition]\"\nresource = \"Condition[1]\""),
        "no place",
    );
    let far = format!(
        "{al1}[[bind]]\npath = \"DG1\"\nmap = \"DG1[Condition]\"\nresource = \"Condition[1]\"\nreferences = {{ \"evidence[1].detail\" = \"AllergyIntolerance[1]\" }}"
    );
    one(&message("MSH PID [{AL1}] [{DG1}]", &far), "cannot be told");
}

#[test]
fn the_order_of_files_changes_nothing() {
    let mut files = rule_files();
    files.reverse();
    let reversed = Plan::compile(&borrowed(&files)).unwrap();
    let plan = plan();
    assert_eq!(reversed.digest(), plan.digest());
    let text =
        a01("PID|1||123^^^HOSP^MR||Smith^John\nPV1|1|I|WARD^^BED||||1^D^J^^^^^^H||||||||||||V1^^^HOSP^VN\nAL1|1||P");
    assert_eq!(map_with(&plan, &text, &sender()).unwrap(), map_with(&reversed, &text, &sender()).unwrap());
}
