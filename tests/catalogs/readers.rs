//! Real servers that read a path in another way than the gateway: nginx with a URI in `proxy_pass` in front of a real
//! catalog, and the routers of Flask and Starlette. They must act only on what was authorized.

use std::fs;
use std::process::Command;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::harness::{Behind, Catalog, Gateway, Process, Python, block_on, eventually};

/// Returns rules that permit no caller to use `[n, hr]`.
fn rules() -> Value {
    let anybody = json!({ "claim": "sub", "any_of": ["tester"] });
    let nobody = json!({ "deny": true });
    json!([
        { "namespace": ["n"], "read": anybody, "write": anybody, "unlisted": "name" },
        { "namespace": ["n", "hr"], "read": nobody, "write": nobody },
    ])
}

fn gateway(uri: String, rerooted: bool) -> Gateway {
    let behind = Behind {
        rerooted,
        ..Behind::kept("warehouse", uri, &["n"])
    };
    Gateway::ruled(&[behind], &rules())
}

/// The targets that are another path, or another name, to a server that decodes before it routes.
const TARGETS: [&str; 9] = [
    "/v1/table/n%24pub%24x%2F..%2Fn%24hr%24secret/describe",
    "/v1/table/n%24pub%24x%2F..%2Fn%24hr%24secret/drop",
    "/v1/table/n%24pub%24x%2f..%2f..%2f..%2f..%2foutside/describe",
    "/v1/namespace/n%24pub%24x%2F..%2Fn%24hr/drop",
    "/v1/table/n%24pub%24t%2Fversion/create",
    "/v1/table/n%24pub%5C..%5Cn%24hr/describe",
    "/v1/table/n%24pub%252F..%252Fn%24hr/describe",
    "/v1/table/n%24pub%3Fx/describe",
    "/v1/table/n%24./drop",
];

struct Nginx {
    process: Process,
    folder: TempDir,
    port: u16,
}

impl Nginx {
    /// Starts nginx in front of `catalog`, with a URI in `proxy_pass`: it decodes, resolves and encodes again.
    fn start(catalog: &str) -> Self {
        let folder = TempDir::new().unwrap();
        let at = folder.path().display().to_string();
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = free.local_addr().unwrap().port();
        drop(free);
        let config = format!(
            "daemon off; master_process off; pid {at}/pid; error_log {at}/error.log;
events {{}}
http {{
  access_log {at}/access.log;
  client_body_temp_path {at}/b; proxy_temp_path {at}/p; fastcgi_temp_path {at}/f; uwsgi_temp_path {at}/u; scgi_temp_path {at}/s;
  server {{
    listen 127.0.0.1:{port};
    location /catalog/ {{ proxy_pass {catalog}/; }}
    location / {{ return 200 '{{\"location\":\"another\"}}'; }}
  }}
}}"
        );
        fs::write(folder.path().join("nginx.conf"), config).unwrap();
        let found = ["/usr/sbin/nginx", "/usr/local/sbin/nginx"].into_iter();
        let program = found
            .into_iter()
            .find(|path| fs::exists(path).unwrap())
            .unwrap_or("nginx");
        let mut command = Command::new(program);
        command.arg("-p").arg(&at).args(["-c", "nginx.conf"]);
        let process = Process::start(&mut command);
        eventually("nginx to listen", || {
            std::net::TcpStream::connect(("127.0.0.1", port)).ok()
        });
        Self {
            process,
            folder,
            port,
        }
    }

    fn uri(&self) -> String {
        format!("http://127.0.0.1:{}/catalog", self.port)
    }

    /// Returns the request lines that nginx was sent, except health checks.
    fn lines(&self) -> Vec<String> {
        let log = fs::read_to_string(self.folder.path().join("access.log")).unwrap();
        let lines = log.lines().filter_map(|line| line.split('"').nth(1));
        let lines = lines.filter(|line| line.contains("/v1/"));
        lines.map(str::to_owned).collect()
    }
}

#[test]
fn nginx_in_front_of_a_real_catalog_acts_on_what_was_authorized() {
    let Some(python) = Python::ready() else {
        return;
    };
    let catalog = Catalog::start(python);
    let nginx = Nginx::start(&catalog.uri());
    let open = Gateway::before(&[Behind::kept("warehouse", nginx.uri(), &[])]);
    for namespace in ["n", "n%24pub", "n%24hr"] {
        let made = open.post(&format!("/v1/namespace/{namespace}/create"), &json!({}));
        assert_eq!(made.status, 200, "{made:?}");
    }
    for table in ["n%24pub%24t", "n%24hr%24secret"] {
        let made = open.post(&format!("/v1/table/{table}/declare"), &json!({}));
        assert_eq!(made.status, 200, "{made:?}");
    }
    drop(open);
    let before = nginx.lines().len();

    let guarded = gateway(nginx.uri(), false);
    let exists = |table: &str| guarded.post(&format!("/v1/table/{table}/exists"), &json!({}));
    assert_eq!(exists("n%24pub%24t").status, 200, "{}", guarded.log());
    assert_eq!(exists("n%24hr%24secret").status, 403);
    for target in TARGETS {
        let reply = guarded.post(target, &json!({}));
        assert!(matches!(reply.status, 400 | 404), "{target}: {reply:?}");
    }
    let listed = block_on(
        guarded
            .client()
            .get("/v1/namespace/n%24pub%24x%2F..%2Fn%24hr/table/list"),
    );
    assert_eq!(listed.status, 400, "{listed:?}");
    let lines = nginx.lines().split_off(before);
    let harmless = |line: &String| !line.contains("hr") && !line.to_lowercase().contains("%2f");
    assert!(lines.iter().all(harmless), "{lines:?}");

    // A mounted root leaves only the rest of a name, and that is a step in the path.
    let rerooted = gateway(nginx.uri(), true);
    for target in [
        "/v1/namespace/n%24./table/list",
        "/v1/namespace/n%24../list",
    ] {
        let listed = block_on(rerooted.client().get(target));
        assert_eq!(listed.status, 400, "{target}: {listed:?}");
    }
    drop(nginx.process);

    let straight = Gateway::before(&[Behind::kept("warehouse", catalog.uri(), &[])]);
    let victim = straight.post("/v1/table/n%24hr%24secret/exists", &json!({}));
    assert_eq!(victim.status, 200, "the victim is still there: {victim:?}");
}

#[test]
fn flask_and_starlette_find_the_operation_that_was_authorized() {
    let Some(python) = Python::ready() else {
        return;
    };
    for router in ["flask", "starlette"] {
        let process = Process::start(python.script("routers.py").arg(router));
        let port = process.word_after("port ");
        let uri = format!("http://127.0.0.1:{port}");
        let guarded = gateway(uri.clone(), false);
        let found = guarded.post("/v1/table/n%24pub%24t/describe", &json!({}));
        assert_eq!(found.status, 200, "{router}: {found:?}");
        let found = found.json();
        assert_eq!(
            (&found["template"], &found["id"]),
            (&json!("/v1/table/{id}/{operation}"), &json!("n$pub$t"))
        );
        // The server would find this table if the request were sent as it is.
        let straight = crate::client::Client::new(format!("127.0.0.1:{port}").parse().unwrap());
        let routed = block_on(straight.post("/v1/table/n%24pub%24t%2Fversion/create", &json!({})));
        let routed = routed.json();
        assert_eq!(
            routed["template"], "/v1/table/{id}/version/{operation}",
            "{router}"
        );
        for target in TARGETS {
            let reply = guarded.post(target, &json!({}));
            let is_same = || reply.status == 200 && reply.json()["id"] == json!("n$.");
            assert!(
                reply.status == 400 || is_same(),
                "{router} {target}: {reply:?}"
            );
        }
        let listed = block_on(guarded.client().get("/v1/namespace/n%24hr%2Ftable/list"));
        assert!(matches!(listed.status, 400 | 403), "{router}: {listed:?}");
    }
}
