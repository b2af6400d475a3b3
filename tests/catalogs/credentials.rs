//! Tokens of real token servers: client credentials from Authlib, token exchange from idpy-oidc.

use serde_json::{Value, json};

use crate::client::Client;
use crate::harness::{Behind, Catalog, Gateway, Process, Python, block_on};

const LIST: &str = "/v1/namespace/%24/list";

/// The set-up: a real catalog that requires tokens of a real server.
struct Guarded {
    tokens: Process,
    uri: String,
    _catalog: Catalog,
}

impl Guarded {
    fn start(python: &'static Python) -> Self {
        let catalog = Catalog::start(python);
        let mut command = python.script("tokens.py");
        command.arg(catalog.port().to_string());
        let tokens = Process::start(&mut command);
        let uri = format!("http://127.0.0.1:{}", tokens.word_after("port "));
        Self {
            tokens,
            uri,
            _catalog: catalog,
        }
    }

    /// Returns the catalog mounted at the root, with `oauth` and what `more` adds.
    fn behind(&self, path: &str, exchange: bool, more: &Value) -> Behind<'static> {
        let mut keys = json!({
            "service_authorization": null,
            "health": { "interval": "100ms" },
            "oauth": {
                "token_url": format!("{}{path}", self.uri),
                "client_id": "nsgate",
                "client_secret": "p@ss/w%r+d",
                "exchange": exchange,
            },
        });
        let more = more.as_object().unwrap().clone();
        keys["oauth"].as_object_mut().unwrap().extend(more);
        Behind {
            more: keys,
            ..Behind::kept("lake", format!("{}/catalog", self.uri), &[])
        }
    }
}

#[test]
fn the_gateway_shows_its_own_token_to_a_real_resource_server() {
    let Some(python) = Python::ready() else {
        return;
    };
    let guarded = Guarded::start(python);
    let more = json!({ "scope": "catalog.write", "audience": "lake" });
    let gateway = Gateway::before(&[guarded.behind("/token", false, &more)]);
    // The request is the gateway's health check.
    assert_eq!(guarded.tokens.word_after("let in authlib "), "GET");
    // A caller is not the gateway, so its own request is refused.
    let refused = block_on(gateway.client().get(LIST));
    assert_eq!(refused.outcome(), (401, Some(16)), "{refused:?}");
}

#[test]
fn a_callers_token_is_traded_at_a_real_server() {
    let Some(python) = Python::ready() else {
        return;
    };
    let guarded = Guarded::start(python);
    let behind = guarded.behind("/exchange", true, &json!({}));
    let gateway = Gateway::trusting(
        &[behind],
        &json!([{
            "issuer": "https://tokens.test",
            "audiences": ["reader"],
            "algorithms": ["ES256"],
            "keys": { "url": format!("{}/jwks.json", guarded.uri) },
        }]),
    );
    let server = Client::new(guarded.uri.trim_start_matches("http://").parse().unwrap());
    let token = block_on(server.get("/user")).ok().body;
    let token = std::str::from_utf8(&token).unwrap();
    let bearer = format!("Bearer {token}");

    // The catalog takes only the tokens of the gateway's client, and this one is another client's.
    let direct = block_on(
        server
            .header("authorization", &bearer)
            .get(&format!("/catalog{LIST}")),
    );
    assert_eq!(direct.status, 401, "{direct:?}");
    let client = Client::new(gateway.address().parse().unwrap());
    let client = client.header("authorization", &bearer);
    for _ in 0..3 {
        let listed = block_on(client.get(LIST)).ok();
        assert_eq!(listed.json(), json!({ "namespaces": [] }));
    }
    let said = guarded.tokens.line_after("let in idpyoidc ");
    assert!(said.starts_with("GET v1/namespace/"), "{said}");
}
