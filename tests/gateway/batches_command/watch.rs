//! `nsgate batches watch`: follows the list, also while the gateway is gone.

use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::{admin, built_on, printed};
use crate::batches::world;
use crate::command::Running;

fn watch(admin: &str) -> Running {
    Running::start(&["batches", "--admin", admin, "watch", "--interval", "100ms"])
}

#[tokio::test]
async fn each_change_is_a_line_until_ctrl_c() {
    let world = world("").await;
    let mut watch = watch(&admin(&world));
    let line = watch.line().await;
    assert!(line.ends_with("Z no open batches"), "{line}");
    let id = built_on(&world).await;
    let batch = format!(" batch {id}: ");
    // It may be seen while it is still undecided or undone.
    let line = loop {
        let line = watch.line().await;
        assert!(line.contains(&batch), "{line}");
        if line.contains(": hazard, ") {
            break line;
        }
    };
    assert!(line.contains("west"), "its tables are named: {line}");
    printed(&world, &["resolve", &id, "--commit", "--why", "a test"]).await;
    loop {
        let line = watch.line().await;
        assert!(line.contains(&batch), "{line}");
        if line.ends_with("no longer open") {
            break;
        }
    }
    assert_eq!(watch.interrupt().await, Some(0));
}

/// Starts an admin address that answers `body` to every request, or cuts the connection while there is none.
async fn fake_admin(body: Arc<Mutex<Option<&'static str>>>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            let mut request = Vec::new();
            while !request.ends_with(b"\r\n\r\n")
                && client.read_buf(&mut request).await.unwrap() > 0
            {}
            let Some(body) = *body.lock().unwrap() else {
                continue;
            };
            let length = body.len();
            let answer = format!(
                "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}"
            );
            let _ = client.write_all(answer.as_bytes()).await;
        }
    });
    address
}

#[tokio::test]
async fn a_gateway_that_is_gone_is_waited_for() {
    let none = r#"{"batches": [], "more": 0}"#;
    let body = Arc::new(Mutex::new(Some(none)));
    let admin = fake_admin(Arc::clone(&body)).await;
    let mut watch = watch(&admin);
    let line = watch.line().await;
    assert!(line.ends_with("Z no open batches"), "{line}");
    *body.lock().unwrap() = None;
    let line = watch.line().await;
    assert!(line.contains("Z the gateway does not answer: "), "{line}");
    assert!(line.ends_with("; asks again every 100ms"), "{line}");
    *body.lock().unwrap() = Some(r#"{"batches": [], "more": 2}"#);
    let line = watch.line().await;
    assert!(line.ends_with("Z the gateway answers again"), "{line}");
    let line = watch.line().await;
    assert!(line.ends_with("Z 2 more are not on the list"), "{line}");
    assert_eq!(watch.interrupt().await, Some(0));
}
