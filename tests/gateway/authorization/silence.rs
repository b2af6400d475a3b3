//! A denied caller learns which permission is needed, and not what exists.

use http::Method;
use serde_json::{Value, json};

use super::{fresh, setup};
use crate::client::{Reply, empty};

/// Returns the parts of an answer that must not differ: without its own id, date, length and trace.
fn said(reply: &Reply) -> (u16, Vec<String>, Value) {
    let mut body = reply.json();
    body.as_object_mut().unwrap().remove("instance");
    let own = ["x-request-id", "date", "content-length", "traceparent"];
    let headers = reply.headers.iter();
    let headers = headers.filter(|(name, _)| !own.contains(&name.as_str()));
    let mut headers: Vec<String> = headers
        .map(|(name, value)| format!("{name}: {value:?}"))
        .collect();
    headers.sort();
    (reply.status, headers, body)
}

#[tokio::test]
async fn a_denial_is_the_same_whatever_there_is() {
    let world = setup().start().await;
    fresh(&world);
    let nobody = world.client_with(&json!({"scope": "other"}));
    let tails = [
        "describe",
        "exists",
        "version/list",
        "drop",
        "query",
        "unheard/of",
    ];
    for (kind, namespaces, extra) in [
        (
            "table",
            ["own%24t1", "own%24missing", "own%24n%24missing", "own%24x"],
            &tails[..],
        ),
        (
            "namespace",
            ["own", "own%24n", "own%24missing", "own%24t1"],
            &["describe", "drop", "create"],
        ),
        // These have a rule like `own`'s, but no mount.
        (
            "table",
            ["lost%24t1", "lost%24t2", "lost%24x", "lost%24n%24t"],
            &tails[..],
        ),
        // These have neither a rule nor a mount.
        (
            "table",
            ["nowhere%24t1", "elsewhere%24t1", "other", "%24"],
            &tails[..],
        ),
    ] {
        for tail in extra {
            let mut first = None;
            for id in namespaces {
                let target = format!("/v1/{kind}/{id}/{tail}");
                let reply = nobody.post(&target, &json!({})).await;
                assert_eq!(reply.outcome(), (403, Some(15)), "{target}: {reply:?}");
                let said = said(&reply);
                assert_eq!(first.get_or_insert_with(|| said.clone()), &said, "{target}");
            }
        }
    }
    // An answer below a mount and one without a mount must read alike, apart from the rule's own
    // name.
    let both = ["own", "lost"].map(|id| format!("/v1/table/{id}%24t1/drop"));
    let [own, lost] = both.each_ref().map(|target| nobody.post_nothing(target));
    let (own, lost) = (own.await, lost.await);
    assert_eq!(own.words().replace("[own]", "[lost]"), lost.words());
}

#[tokio::test]
async fn a_denial_says_what_is_needed_and_keeps_the_values() {
    let world = setup().start().await;
    let client = world.client_with(&json!({"scope": "catalog.read"}));
    let denied = client.post_nothing("/v1/table/own%24t1/drop").await;
    assert_eq!(
        denied.words(),
        "not allowed to write: the rule for [own] needs the scope `catalog.write`"
    );
    let challenge = denied.header("www-authenticate");
    assert_eq!(
        challenge,
        Some(r#"Bearer error="insufficient_scope", scope="catalog.write""#)
    );
    let denied = client.post_nothing("/v1/table/foreign%24t1/drop").await;
    assert!(
        denied.words().contains("claim `team`"),
        "{}",
        denied.words()
    );
    assert!(!String::from_utf8_lossy(&denied.body).contains("theirs"));
    let denied = client.post_nothing("/v1/table/nowhere%24t1/drop").await;
    assert_eq!(
        denied.words(),
        "not allowed to write: no rule covers this name"
    );
}

/// The decision is made first, so it must not depend on the body or its form.
#[tokio::test]
async fn who_is_denied_is_denied_before_the_body_is_read() {
    let world = setup().start().await;
    fresh(&world);
    let nobody = world.client_with(&json!({}));
    for body in ["{", "[]", r#"{"id":["own","t2"]}"#, ""] {
        let reply = nobody.post_bytes("/v1/table/own%24t1/rename", body).await;
        assert_eq!(reply.outcome(), (403, Some(15)), "{body}");
    }
    let unauthenticated = world.anonymous();
    let target = "/v1/table/own%24t1/describe";
    let reply = unauthenticated
        .send(Method::POST, target, empty())
        .await
        .unwrap();
    assert_eq!(reply.outcome(), (401, Some(16)));
}
