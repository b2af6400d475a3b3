//! The files that a configuration names: no message repeats what is in them, and nothing in them is passed over in
//! silence.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use nsgate::config::load;
use rcgen::{CertificateParams, KeyPair};
use tempfile::TempDir;

/// The keys that name files, and those whose value may stand in a file.
const PLACES: [&str; 20] = [
    "listen: { tls: { certificate: FILE, private_key: FILE } }",
    "listen: { tls: { certificate: good.crt, private_key: FILE } }",
    "listen: { tls: { certificate: good.crt, private_key: good.key, client_ca: FILE } }",
    "admin: { tls: { certificate: FILE, private_key: good.key } }",
    "batch: { log: postgres://u@db.example/d, log_tls: { ca: FILE } }",
    "more: { keys: { file: FILE } }",
    "more: { keys: { url: 'https://idp.example', ca: FILE } }",
    "more: { leeway: '${file:FILE}' }",
    "more: { algorithms: ['${file:FILE}'] }",
    "more: { keys: { url: '${file:FILE}' } }",
    "more: { accept_id_tokens: '${file:FILE}' }",
    "backend: { tls: { ca: FILE } }",
    "backend: { tls: { certificate: FILE, private_key: FILE } }",
    "backend: { oauth: { token_url: 'https://idp.example', client_id: a, client_secret: b }, tls: { ca: FILE } }",
    "backend: { service_authorization: '${file:FILE}' }",
    "backend: { endpoints: ['${file:FILE}'] }",
    "limits: { header_bytes: '${file:FILE}' }",
    "limits: { connections: '${file:FILE}' }",
    "batch: { log: 'postgres://u@db.example/d?${file:FILE}' }",
    "telemetry: { otlp: '${file:FILE}' }",
];

/// Writes a configuration with one more section, and for issuers and the backend one more key.
fn write(folder: &Path, more: &str) {
    let of = |name: &str| more.strip_prefix(name).unwrap_or_default();
    let inside = |table: &str| match table.trim().strip_prefix('{') {
        Some(keys) => format!(", {}", keys.trim().strip_suffix('}').unwrap()),
        None => String::new(),
    };
    let (issuer, backend) = (inside(of("more:")), inside(of("backend:")));
    let section = if issuer.is_empty() && backend.is_empty() {
        more
    } else {
        ""
    };
    let text = format!(
        "auth: {{ issuers: [{{ issuer: https://idp.example, audiences: [a]{issuer} }}] }}
backends:
  lake: {{ implementation: rest, properties: {{ uri: https://127.0.0.1:1 }}, authorization: none{backend} }}
mounts: [{{ namespace: [], backend: lake }}]
{section}
"
    );
    std::fs::write(folder.join("gateway.yaml"), text).unwrap();
}

/// Runs `nsgate check`; returns everything that it prints, and whether it is content.
fn check(folder: &Path) -> (String, bool) {
    let output = Command::new(env!("CARGO_BIN_EXE_nsgate"))
        .args(["check", "--config", "gateway.yaml"])
        .env_clear()
        .current_dir(folder)
        .output()
        .unwrap();
    let said = [output.stdout, output.stderr].concat();
    (String::from_utf8(said).unwrap(), output.status.success())
}

/// Makes a folder with the files `good.crt` and `good.key`; returns it with their contents.
fn folder() -> (TempDir, String, String) {
    let folder = tempfile::tempdir().unwrap();
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(["gate.example".to_owned()]).unwrap();
    let certificate = params.self_signed(&key).unwrap().pem();
    let key = key.serialize_pem();
    std::fs::write(folder.path().join("good.crt"), &certificate).unwrap();
    std::fs::write(folder.path().join("good.key"), &key).unwrap();
    (folder, certificate, key)
}

/// Fails if a part of `secret` is in `said`: as text, or as the numbers of its bytes.
fn assert_hidden(said: &str, secret: &str, place: &str) {
    for part in secret.as_bytes().windows(8) {
        let numbers = format!("{part:?}");
        let numbers = numbers.trim_matches(['[', ']']);
        assert!(!said.contains(numbers), "{place}: {said}");
        let text = str::from_utf8(part).unwrap();
        assert!(!said.contains(text), "{place}: {text} in {said}");
    }
}

#[test]
fn no_message_repeats_what_a_file_contains() {
    let (folder, _, key) = folder();
    let body: String = key.lines().filter(|line| !line.starts_with('-')).collect();
    let forms = [
        key.trim_end().replace('\n', "\\n"),
        key.replace('\n', " "),
        key.replace("-----END", "-----ENT"),
        key.replacen("PRIVATE", &format!("PRIVATE {body}"), 1),
        body.clone(),
        format!("\"{body}\""),
        format!("{{\"keys\": \"{body}\"}}"),
        format!("{{\"keys\": [\"{body}\"], \"{body}\": 1}}"),
        format!("{{\"keys\": [], \"keys\": [{{\"{body}\": 1}}]}}"),
        format!("https://{body}:x"),
        format!("{body}://x"),
        "4711081547110815".to_owned(),
    ];
    for form in &forms {
        std::fs::write(folder.path().join("secret"), form).unwrap();
        let secret = if form.contains(&body) { &body } else { form };
        let secret = secret.replace("\\n", "\n");
        let secrets = secret.lines().filter(|line| !line.contains("---"));
        let secrets: Vec<&str> = secrets.collect();
        for place in PLACES {
            write(folder.path(), &place.replace("FILE", "secret"));
            let (said, is_content) = check(folder.path());
            // A key in PEM is what belongs to some of these keys.
            let fits = form.contains("-----ENT") || place.contains("private_key");
            assert!(
                !is_content || fits || !place.contains(": FILE"),
                "{place}: {form}"
            );
            for secret in &secrets {
                assert_hidden(&said, secret, place);
            }
        }
    }
}

#[test]
fn a_section_that_would_not_be_read_is_named_with_its_line() {
    let (folder, certificate, key) = folder();
    let joined = format!("{}{certificate}", certificate.trim_end());
    let named = |name: &str| certificate.replace(" CERTIFICATE", &format!(" {name}"));
    let lines = certificate.lines().count();
    let second = format!("line {}", lines + 1);
    let indented = certificate.replace("-----BEGIN", "  -----BEGIN");
    let crl = named("X509 CRL");
    let cut: String = certificate.lines().take(3).collect::<Vec<_>>().join("\n");
    let encrypted = key.replace("PRIVATE", "ENCRYPTED PRIVATE");
    let legacy = key.replace(
        "PRIVATE KEY-----\n",
        "RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-256-CBC,00\n\n",
    );
    let cases = [
        (joined, format!("line {lines}")),
        (
            format!("{certificate}{}", named("TRUSTED CERTIFICATE")),
            second.clone(),
        ),
        (
            format!("{certificate}{}", named("X509 CERTIFICATE")),
            second.clone(),
        ),
        (format!("{certificate}{}", named("PKCS7")), second.clone()),
        (format!("{certificate}{crl}"), second.clone()),
        (format!("{certificate}{indented}"), second.clone()),
        (
            format!("{certificate}\u{feff}{certificate}"),
            second.clone(),
        ),
        (
            format!(
                "{certificate}{}",
                certificate.replace("-----BEGIN", "----BEGIN")
            ),
            second.clone(),
        ),
        (
            format!(
                "{certificate}{}",
                certificate.replace("-----BEGIN", "—BEGIN")
            ),
            second.clone(),
        ),
        (format!("{certificate}{cut}"), second.clone()),
        (format!("{certificate}{encrypted}"), second.clone()),
        (format!("{certificate}{legacy}"), second),
        (
            format!("{certificate}{}", certificate.replace("BEGIN ", "BEGIN-")),
            "1 lines `-----BEGIN …` and 2 lines `-----END …`".to_owned(),
        ),
    ];
    let places = [
        "listen: { tls: { certificate: file.pem, private_key: good.key } }",
        "listen: { tls: { certificate: good.crt, private_key: good.key, client_ca: file.pem } }",
        "backend: { tls: { ca: file.pem } }",
        "backend: { oauth: { token_url: 'https://idp.example', client_id: a, client_secret: b }, tls: { ca: file.pem } }",
        "more: { keys: { url: 'https://idp.example', ca: file.pem } }",
    ];
    for (text, expected) in &cases {
        std::fs::write(folder.path().join("file.pem"), text).unwrap();
        for place in places {
            write(folder.path(), place);
            let (said, is_content) = check(folder.path());
            assert!(
                !is_content && said.contains(expected),
                "{place}: {said}\n{text}"
            );
        }
    }
    let two = format!("{key}{}", KeyPair::generate().unwrap().serialize_pem());
    std::fs::write(folder.path().join("file.pem"), two).unwrap();
    write(
        folder.path(),
        "listen: { tls: { certificate: good.crt, private_key: file.pem } }",
    );
    let (said, is_content) = check(folder.path());
    assert!(
        !is_content && said.contains("several private keys"),
        "{said}"
    );
}

#[test]
fn what_stands_beside_a_certificate_or_a_key_is_no_fault() {
    let (folder, certificate, key) = folder();
    let parameters =
        "-----BEGIN EC PARAMETERS-----\nBggqhkjOPQMBBw==\n-----END EC PARAMETERS-----\n";
    for text in [
        format!("{certificate}{key}"),
        format!("{parameters}{key}{certificate}"),
        format!("\u{feff}{key}{certificate}"),
        format!("{key}{certificate}").replace('\n', "\r\n"),
        format!(
            "Bag Attributes\n  friendlyName: FRONT-END gate\nsubject=CN=ROOT-BEGIN\n{certificate}\n# BEGIN of the key\n{key}"
        ),
    ] {
        std::fs::write(folder.path().join("file.pem"), &text).unwrap();
        write(
            folder.path(),
            "listen: { tls: { certificate: file.pem, private_key: file.pem, client_ca: file.pem } }",
        );
        let (said, is_content) = check(folder.path());
        assert!(is_content, "{said}\n{text}");
    }
}

#[test]
fn a_byte_order_mark_is_no_part_of_a_value() {
    let (folder, ..) = folder();
    let x = "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU";
    let y = "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0";
    let set = format!(
        "\u{feff}{{\"keys\": [{{\"kty\": \"EC\", \"crv\": \"P-256\", \"x\": \"{x}\", \"y\": \"{y}\"}}]}}"
    );
    std::fs::write(folder.path().join("jwks.json"), set).unwrap();
    std::fs::write(folder.path().join("leeway"), "\u{feff}5s\r\n").unwrap();
    write(
        folder.path(),
        "more: { leeway: '${file:leeway}', keys: { file: jwks.json } }",
    );
    let (said, is_content) = check(folder.path());
    assert!(is_content, "{said}");
    let path = folder.path().join("gateway.yaml");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, format!("\u{feff}{text}")).unwrap();
    let (said, is_content) = check(folder.path());
    assert!(is_content, "{said}");
}

#[test]
fn a_batch_log_that_others_may_read_is_a_warning() {
    let (folder, ..) = folder();
    let log = folder.path().join("batches.redb");
    for (mode, is_warned) in [(0o600, false), (0o660, false), (0o644, true), (0o606, true)] {
        std::fs::write(&log, "").unwrap();
        std::fs::set_permissions(&log, PermissionsExt::from_mode(mode)).unwrap();
        write(folder.path(), "batch: { log: batches.redb }");
        let (said, is_content) = check(folder.path());
        let cure = format!("chmod o= {}", log.display());
        assert!(
            is_content && said.contains(&cure) == is_warned,
            "{mode:o}: {said}"
        );
    }
}

#[test]
fn more_connections_than_open_files_are_a_warning() {
    let (folder, ..) = folder();
    for (connections, is_warned) in [(100, false), (400, true)] {
        write(
            folder.path(),
            &format!("limits: {{ connections: {connections} }}"),
        );
        let limited = "ulimit -n 300; exec \"$0\" check --config gateway.yaml";
        let output = Command::new("sh")
            .args(["-c", limited, env!("CARGO_BIN_EXE_nsgate")])
            .current_dir(folder.path())
            .output()
            .unwrap();
        let said = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        assert!(output.status.success(), "{said}");
        let words = "limits.connections: is more than this process may have";
        assert_eq!(said.contains(words), is_warned, "{said}");
    }
}

#[test]
fn a_command_line_that_is_refused_is_not_repeated_with_its_password() {
    let of_log = [
        "postgres://admin:hunter2@db.example/nsgate",
        "postgres://hunter2@",
    ];
    let mut commands = of_log
        .map(|address| vec!["log", "prepare", address])
        .to_vec();
    commands.push([&commands[0][..], &[of_log[0]]].concat());
    let other = "mysql://admin:hunter2@db.example/nsgate";
    let moved = ["log", "move", "--from", other, "--to", "/nonexistent/log"];
    let admin = ["status", "--admin", "http://admin:hunter2@127.0.0.1:1"];
    let wrong = ["status", "--admin", "http://admin:hunter2@127.0.0.1:1/ x"];
    let health = ["health", "--url", "http://admin:hunter2@127.0.0.1:1"];
    let others = [
        moved.to_vec(),
        admin.to_vec(),
        wrong.to_vec(),
        health.to_vec(),
    ];
    for arguments in commands.into_iter().chain(others) {
        let output = Command::new(env!("CARGO_BIN_EXE_nsgate"))
            .args(&arguments)
            .env_clear()
            .output()
            .unwrap();
        let said = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        assert!(!output.status.success(), "{arguments:?}");
        assert!(!said.contains("hunter2"), "{arguments:?}: {said}");
    }
}

#[test]
fn the_query_of_an_address_is_not_shown() {
    let text = "auth: { issuers: [{ issuer: https://idp.example, audiences: [a], keys: { url: 'https://idp.example/keys?code=hunter2' } }] }
backends:
  lake:
    implementation: rest
    properties: { uri: http://127.0.0.1:1 }
    oauth: { token_url: 'https://idp.example/token?key=hunter2', client_id: a, client_secret: b }
    health: { path: '/health?key=hunter2' }
mounts: [{ namespace: [], backend: lake }]
";
    let loaded = load::from_str(text, "gateway.yaml", Path::new("/"), &|_| None).unwrap();
    let shown = loaded.config.redacted();
    assert!(!shown.to_string().contains("hunter2"), "{shown:#}");
    let keys = &shown["auth"]["issuers"][0]["keys"]["url"];
    assert_eq!(keys, "https://idp.example/keys?***");
}

#[test]
fn a_password_that_is_missing_is_named_where_it_belongs() {
    let server = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = server.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for client in server.incoming() {
            let mut client = client.unwrap();
            let mut startup = [0; 1024];
            assert!(client.read(&mut startup).unwrap() > 8);
            // AuthenticationCleartextPassword.
            client.write_all(b"R\0\0\0\x08\0\0\0\x03").unwrap();
        }
    });
    let output = Command::new(env!("CARGO_BIN_EXE_nsgate"))
        .args([
            "log",
            "prepare",
            &format!("postgres://admin@127.0.0.1:{port}/nsgate"),
        ])
        .env_clear()
        .output()
        .unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(
        !output.status.success() && said.contains("NSGATE_LOG_PASSWORD"),
        "{said}"
    );
}
