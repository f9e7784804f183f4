//! What is found out about a server at start, and which servers are refused.

mod scene;

use sandbox::{Failure, Profile};
use scene::{config, count, encounter, patient, provenance, sandbox, settle, transact};
use writer::{Capabilities, Config, ConnectError, Identity, Ownership, Writer};

async fn capabilities(profile: Profile, identity: Identity) -> Result<Capabilities, ConnectError> {
    let running = sandbox(profile).await;
    let writer = Writer::connect(Config { identity, ..config(&running.base_url) }).await?;
    Ok(writer.capabilities().clone())
}

#[tokio::test]
async fn a_server_that_keeps_to_the_standard_can_do_everything() {
    let found = capabilities(Profile::default(), Identity::Server).await.unwrap();
    let text = found.to_string();
    assert!(text.contains("(probed)") && !text.contains(": no"), "{text}");
    assert!(found.allows_several_writers() && found.warnings(Identity::Server).is_empty());
}

#[tokio::test]
async fn the_probe_leaves_three_resources_however_often_it_runs() {
    let running = sandbox(Profile::default()).await;
    for identity in [Identity::Server, Identity::Client, Identity::Server] {
        Writer::connect(Config { identity, ..config(&running.base_url) }).await.unwrap();
        let resources = running.sandbox.resources();
        assert_eq!((resources.len(), count(&running)), (3, 0), "{identity:?}");
        assert!(resources.iter().all(|resource| resource.to_string().contains("It is about nobody")));
    }
    assert_eq!(running.sandbox.counters().deletes, 0);
}

#[tokio::test]
async fn two_probes_at_once_do_not_disturb_each_other() {
    let running = sandbox(Profile::default()).await;
    let (one, two) =
        tokio::join!(Writer::connect(config(&running.base_url)), Writer::connect(config(&running.base_url)));
    for writer in [one.unwrap(), two.unwrap()] {
        assert!(writer.capabilities().conditional_update && writer.capabilities().if_match);
    }
}

#[tokio::test]
async fn f4_each_deviation_is_found() {
    let found = capabilities(Profile { ignores_if_match: true, ..Profile::default() }, Identity::Server).await.unwrap();
    assert!(!found.if_match && !found.allows_several_writers() && found.warnings(Identity::Server).len() == 1);
    let found = capabilities(Profile { answers_409_for_412: true, ..Profile::default() }, Identity::Server).await;
    assert!(found.unwrap().if_match);
    let found = capabilities(Profile { stale_search: 5, ..Profile::default() }, Identity::Server).await.unwrap();
    assert!(!found.current_search && found.conditional_update && found.warnings(Identity::Server).len() == 1);
    let in_order = Profile { resolves_entries_in_order: true, ..Profile::default() };
    assert!(capabilities(in_order, Identity::Server).await.unwrap().resolves_entries);
}

#[tokio::test]
async fn f4_a_server_that_gives_all_ids_itself() {
    let profile = Profile { refuses_client_ids: true, ..Profile::default() };
    assert!(!capabilities(profile.clone(), Identity::Server).await.unwrap().client_ids);
    let refused = capabilities(profile, Identity::Client).await.unwrap_err();
    assert!(matches!(refused, ConnectError::Unsuitable(why) if why.contains("choose ids")), "{refused}");
}

#[tokio::test]
async fn ids_of_ours_are_deterministic_and_tell_nothing() {
    let running = sandbox(Profile::default()).await;
    let client = Config { identity: Identity::Client, ownership: Ownership::Shared, ..config(&running.base_url) };
    let writer = Writer::connect(client).await.unwrap();
    let mut p = patient("4711", "A");
    let mut e = encounter("v1", &p);
    let mut v = provenance("m1", &[&p, &e]);
    settle(&writer, &mut [&mut p, &mut e, &mut v]).await;
    let server_id = p.known.as_ref().unwrap().server_id.clone();
    assert_eq!(server_id.strip_prefix("Patient/"), p.key.full_url().strip_prefix("urn:uuid:"));
    let subject = scene::held(&running, &e).get("subject").unwrap().to_string();
    assert!(subject.contains(server_id.as_str()));
    let again = transact(&writer, &[&p, &e, &v].map(scene::forgotten).each_ref()).await.unwrap();
    assert!(again.iter().all(|written| !written.created));
    assert_eq!(count(&running), 3);
}

#[tokio::test]
async fn a_server_that_is_down_may_come_up() {
    let running = sandbox(Profile::default()).await;
    for (status, transient) in [(503, true), (401, false)] {
        let failure = Failure { status, times: u32::MAX, retry_after_s: None };
        running.sandbox.set_profile(|profile| profile.fails_with = Some(failure));
        let error = Writer::connect(config(&running.base_url)).await.unwrap_err();
        assert_eq!(error.is_transient(), transient, "{error:?}");
    }
    let base_url = running.base_url.clone();
    running.stop().await;
    assert!(Writer::connect(config(&base_url)).await.unwrap_err().is_transient());
}
