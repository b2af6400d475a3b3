//! A catalog in memory that creates the next version of a table and lists versions, with configurable delays.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::{Request, Response, StatusCode};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use nsgate::backend::{self, Failure};
use nsgate::body::Body;
use serde::Deserialize;
use tokio::net::TcpListener;

/// The largest request that is read, in bytes.
const BODY: usize = 1 << 20;

/// The answer to a describe and to an insert.
const LOADED: &str = "{\"location\":\"s3://warehouse/events.lance\",\"transaction_id\":null,\"managed_versioning\":true}";

/// A catalog. Clones are the same catalog and cheap.
#[derive(Clone, Default)]
pub struct Catalog {
    tables: Arc<Mutex<HashMap<String, Table>>>,
    /// The delay of an answer with the latest version.
    pub validation: Duration,
    /// The delay of a create.
    pub create: Duration,
}

struct Table {
    latest: u64,
    /// The answer with all versions, written once, because the cost of writing it must not be measured.
    whole: Option<Bytes>,
}

impl Catalog {
    /// Returns a catalog that takes this long to return the latest version, and to create one.
    pub fn slow(validation: Duration, create: Duration) -> Self {
        Self {
            validation,
            create,
            ..Self::default()
        }
    }

    /// Adds a table with the versions 1 to `latest`.
    pub fn seed(&self, table: impl Into<String>, latest: u64) {
        let whole = None;
        let table = (table.into(), Table { latest, whole });
        self.tables.lock().unwrap().extend([table]);
    }

    /// Returns a table's latest version.
    pub fn latest(&self, table: &str) -> u64 {
        self.tables.lock().unwrap()[table].latest
    }

    /// True if the table exists.
    pub fn has(&self, table: &str) -> bool {
        self.tables.lock().unwrap().contains_key(table)
    }

    /// Serves on a loopback port for as long as the process lives.
    pub async fn serve(&self) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let catalog = self.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                stream.set_nodelay(true).unwrap();
                let catalog = catalog.clone();
                let service = service_fn(move |request: Request<hyper::body::Incoming>| {
                    let catalog = catalog.clone();
                    async move {
                        Ok::<_, hyper::Error>(catalog.answer(request.map(Body::incoming)).await)
                    }
                });
                let server = hyper::server::conn::http1::Builder::new();
                tokio::spawn(server.serve_connection(TokioIo::new(stream), service));
            }
        });
        address
    }

    async fn answer(&self, request: Request<Body>) -> Response<Body> {
        let (head, body) = request.into_parts();
        let body = body.collect_up_to(BODY).await.unwrap();
        let Some((table, what)) = named(head.uri.path()) else {
            return answer(StatusCode::NOT_FOUND, "{\"error\":\"no such route\"}");
        };
        match what {
            "version/list" => {
                tokio::task::yield_now().await;
                pause(self.validation).await;
                self.list(
                    table,
                    head.uri
                        .query()
                        .is_some_and(|query| query.contains("limit=1")),
                )
            }
            "version/create" => {
                pause(self.create).await;
                self.create(table, &body)
            }
            "version/describe" => self.describe(table, &body),
            "version/delete" => self.delete(table, &body),
            "describe" | "insert" => {
                // Lets other tasks run, as waiting for a socket would.
                tokio::task::yield_now().await;
                if self.has(table) {
                    answer(StatusCode::OK, LOADED)
                } else {
                    missing()
                }
            }
            "declare" => {
                self.seed(table, 0);
                answer(StatusCode::OK, LOADED)
            }
            "deregister" => {
                self.tables.lock().unwrap().remove(table);
                answer(StatusCode::OK, LOADED)
            }
            _ => answer(StatusCode::NOT_FOUND, "{\"error\":\"no such route\"}"),
        }
    }

    fn list(&self, table: &str, only_latest: bool) -> Response<Body> {
        let mut tables = self.tables.lock().unwrap();
        let Some(table) = tables.get_mut(table) else {
            return missing();
        };
        let latest = table.latest;
        if only_latest {
            return answer(
                StatusCode::OK,
                format!("{{\"versions\":[{}]}}", version(latest)),
            );
        }
        let whole = table.whole.get_or_insert_with(|| {
            let all: Vec<String> = (1..=latest).rev().map(version).collect();
            format!("{{\"versions\":[{}]}}", all.join(",")).into()
        });
        // Copied, because the bytes of a response from a socket are not shared either.
        answer(StatusCode::OK, Bytes::copy_from_slice(whole))
    }

    fn create(&self, table: &str, body: &[u8]) -> Response<Body> {
        let mut tables = self.tables.lock().unwrap();
        let (Some(table), Some(asked)) = (tables.get_mut(table), asked(body)) else {
            return missing();
        };
        if asked != table.latest + 1 {
            return answer(
                StatusCode::CONFLICT,
                "{\"error\":\"not the next version\",\"code\":14}",
            );
        }
        table.latest = asked;
        table.whole = None;
        answer(
            StatusCode::OK,
            format!("{{\"version\":{}}}", version(asked)),
        )
    }

    fn describe(&self, table: &str, body: &[u8]) -> Response<Body> {
        let tables = self.tables.lock().unwrap();
        let (Some(table), Some(asked)) = (tables.get(table), asked(body)) else {
            return missing();
        };
        if asked > table.latest {
            return answer(
                StatusCode::NOT_FOUND,
                "{\"error\":\"no such version\",\"code\":11}",
            );
        }
        answer(
            StatusCode::OK,
            format!("{{\"version\":{}}}", version(asked)),
        )
    }

    /// Deletes the latest version; a rollback requests exactly that.
    fn delete(&self, table: &str, body: &[u8]) -> Response<Body> {
        #[derive(Deserialize)]
        struct Asked {
            ranges: [Range; 1],
        }
        #[derive(Deserialize)]
        struct Range {
            start_version: u64,
            end_version: u64,
        }
        let mut tables = self.tables.lock().unwrap();
        let Some(table) = tables.get_mut(table) else {
            return missing();
        };
        let Asked { ranges: [range] } = serde_json::from_slice(body).unwrap();
        assert_eq!(
            (range.start_version, range.end_version),
            (table.latest, table.latest + 1)
        );
        table.latest -= 1;
        table.whole = None;
        answer(StatusCode::OK, "{}")
    }
}

impl backend::Catalog for Catalog {
    fn call(&self, request: Request<Body>) -> BoxFuture<'_, Result<Response<Body>, Failure>> {
        Box::pin(async { Ok(self.answer(request).await) })
    }
}

/// Returns the table's name in a path, and the operation.
fn named(path: &str) -> Option<(&str, &str)> {
    path.strip_prefix("/v1/table/")?.split_once('/')
}

async fn pause(time: Duration) {
    if !time.is_zero() {
        tokio::time::sleep(time).await;
    }
}

fn asked(body: &[u8]) -> Option<u64> {
    #[derive(Deserialize)]
    struct Asked {
        version: u64,
    }
    let asked: Asked = serde_json::from_slice(body).ok()?;
    Some(asked.version)
}

/// Returns one version as real catalogs write it.
fn version(number: u64) -> String {
    let mut text = String::with_capacity(256);
    let _ = write!(
        text,
        "{{\"version\":{number},\"manifest_path\":\"warehouse/events.lance/_versions/{:020}.manifest\",\"manifest_size\":{},\
         \"e_tag\":\"\\\"5d41402abc4b2a76b9719d911017c592\\\"\",\"timestamp_millis\":1763700000000,\"metadata\":{{}}}}",
        u64::MAX - number,
        1000 + number,
    );
    text
}

fn missing() -> Response<Body> {
    answer(
        StatusCode::NOT_FOUND,
        "{\"error\":\"no such table\",\"code\":4}",
    )
}

fn answer(status: StatusCode, body: impl Into<Bytes>) -> Response<Body> {
    let mut response = Response::new(Body::full(body));
    *response.status_mut() = status;
    let json = http::HeaderValue::from_static("application/json");
    response
        .headers_mut()
        .insert(http::header::CONTENT_TYPE, json);
    response
}
