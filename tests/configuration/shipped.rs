//! The shipped configurations: they load, show the defaults, and show no secret.

use std::path::Path;

use nsgate::config::load::{self, Loaded};
use nsgate::config::{
    BatchConfig, ContextConfig, Implementation, Issuer, KeySource, Limits, Listen, Pool, Telemetry,
};

/// Loads `config/NAME` as if every file and variable that it mentions were there.
fn shipped(name: &str) -> Loaded {
    let folder = tempfile::tempdir().unwrap();
    for file in ["admin.token", "lake.secret", "jwks.json"] {
        std::fs::write(folder.path().join(file), format!("from-{file}\n")).unwrap();
    }
    let named = rcgen::generate_simple_self_signed(["gateway.test".to_owned()]).unwrap();
    for file in [
        "server.crt",
        "clients.pem",
        "idp-ca.pem",
        "lake-ca.pem",
        "client.crt",
    ] {
        std::fs::write(folder.path().join(file), named.cert.pem()).unwrap();
    }
    for file in ["server.key", "client.key"] {
        std::fs::write(folder.path().join(file), named.signing_key.serialize_pem()).unwrap();
    }
    let text = std::fs::read_to_string(
        Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("config")
            .join(name),
    )
    .unwrap();
    let base = folder.path().to_str().unwrap();
    let env = |name: &str| match name {
        "NSGATE_QUICKSTART_DIR" => Some(base.to_owned()),
        "WAREHOUSE_URI" => Some("http://127.0.0.1:2333".to_owned()),
        "LAKE_URI" => Some("http://127.0.0.1:2334".to_owned()),
        "WAREHOUSE_KEY" | "WAREHOUSE_SERVICE_TOKEN" => Some(format!("from-{name}")),
        _ => None,
    };
    load::from_str(&text, name, folder.path(), &env).unwrap_or_else(|problems| panic!("{problems}"))
}

#[test]
fn the_example_loads_and_shows_the_defaults() {
    let Loaded {
        config, warnings, ..
    } = shipped("gateway.yaml");
    assert_eq!(warnings, []);
    let listen = Listen {
        tls: None,
        health_path: None,
        ..config.listen
    };
    assert_eq!(listen, Listen::default());
    assert_eq!(
        config.admin.token.as_ref().unwrap().expose(),
        "from-admin.token"
    );
    let rate = config.limits.rate.unwrap();
    assert_eq!((rate.requests, rate.burst), (500, 1000));
    let limits = Limits {
        rate: None,
        ..config.limits
    };
    assert_eq!(limits, Limits::default());
    assert_eq!(config.context, ContextConfig::default());
    let log = config.batch.log.clone();
    let file = log.file().unwrap();
    assert!(
        file.is_absolute() && file.ends_with("data/batches.redb"),
        "{log}"
    );
    assert_eq!(
        BatchConfig {
            log: BatchConfig::default().log,
            ..config.batch
        },
        BatchConfig::default()
    );
    assert_eq!(
        Telemetry {
            access_log_context: Vec::new(),
            ..config.telemetry
        },
        Telemetry::default()
    );

    let issuer = &config.auth.issuers[0];
    let default = Issuer::new("https://idp.example", "catalog");
    assert_eq!(
        (&issuer.algorithms, issuer.leeway),
        (&default.algorithms, default.leeway)
    );
    assert_eq!(issuer.keys.source, KeySource::Discovery);

    let Implementation::Rest(rest) = &config.backends["warehouse"].implementation else {
        panic!("rest")
    };
    assert_eq!(rest.pool, Pool::default());
    assert_eq!(rest.headers[0].0, "x-api-key");
    assert_eq!(
        rest.service_authorization.as_ref().unwrap(),
        "Bearer from-WAREHOUSE_SERVICE_TOKEN"
    );
    assert_eq!(config.mounts[0].backend_namespace, ["prod"]);
    assert_eq!(config.mounts[1].backend_namespace, Vec::<String>::new());
}

#[test]
fn nothing_shown_of_a_configuration_holds_a_secret() {
    let config = shipped("gateway.yaml").config;
    for shown in [config.redacted().to_string(), format!("{config:?}")] {
        for secret in ["from-admin.token", "from-lake.secret", "from-WAREHOUSE"] {
            assert!(!shown.contains(secret), "{secret} in {shown}");
        }
    }
    let shown = config.redacted();
    assert_eq!(shown["admin"]["token"], "***");
    assert_eq!(
        shown["backends"]["warehouse"]["service_authorization"],
        "***"
    );
    assert_eq!(
        shown["backends"]["warehouse"]["properties"]["headers.x-api-key"],
        "***"
    );
    assert_eq!(
        shown["backends"]["warehouse"]["properties"]["uri"],
        "http://127.0.0.1:2333/"
    );
}

#[test]
fn the_quickstart_loads_without_a_warning() {
    let Loaded {
        config, warnings, ..
    } = shipped("../python/nsgate/demo/gateway.yaml");
    assert_eq!(warnings, []);
    assert_eq!(
        config.auth.issuers[0].issuer,
        "https://quickstart.nsgate.test"
    );
    assert!(
        matches!(&config.auth.issuers[0].keys.source, KeySource::File(path) if path.ends_with("jwks.json"))
    );
    assert_eq!(config.mounts[1].namespace, ["research", "lake"]);
    assert_eq!(config.mounts[1].backend_namespace, Vec::<String>::new());
}

#[cfg(feature = "dir")]
#[test]
fn the_embedded_configuration_loads() {
    let config = shipped("embedded.yaml").config;
    let Implementation::Dir(dir) = &config.backends["lab"].implementation else {
        panic!("dir")
    };
    assert!(Path::new(&dir.properties["root"]).is_absolute());
}
