//! The opening of a catalog, and callers that disconnect.

use std::path::Path;

use futures_util::future::poll_immediate;
use http::Method;
use serde_json::json;

use crate::catalog::{Catalog, T1, THREE_ROWS, open, request};

#[tokio::test]
async fn a_caller_who_goes_away_does_not_stop_an_operation_half_way() {
    let catalog = Catalog::open(1 << 20).await;
    let path = format!("{T1}/create");
    let asked = request(
        Method::POST,
        &path,
        "application/vnd.apache.arrow.stream",
        THREE_ROWS,
    );
    {
        let sending = std::pin::pin!(catalog.backend.send(asked));
        assert!(
            poll_immediate(sending).await.is_none(),
            "the engine is still at work"
        );
    }
    let exists = async {
        while catalog
            .post(&format!("{T1}/count_rows"), json!({}))
            .await
            .status
            != 200
        {
            tokio::task::yield_now().await;
        }
    };
    let patience = std::time::Duration::from_secs(60);
    tokio::time::timeout(patience, exists).await.unwrap();
}

#[tokio::test]
async fn a_catalog_is_opened_again_with_its_tables() {
    let Catalog { backend, root } = Catalog::with_a_table().await;
    drop(backend);
    let backend = open(root.path().to_str().unwrap(), 1 << 20).await.unwrap();
    let catalog = Catalog { backend, root };
    assert_eq!(catalog.count("id > 1").await, 2);
}

#[tokio::test]
async fn a_catalog_that_cannot_be_is_refused_at_once() {
    let refused = open("s3://bucket/lab", 1).await.err();
    assert!(refused.is_some(), "no store for buckets is compiled in");
}

#[tokio::test]
async fn a_location_is_a_whole_path_even_if_the_root_is_not() {
    let root = tempfile::tempdir_in(".").unwrap();
    let relative = root.path().file_name().unwrap().to_str().unwrap();
    let backend = open(&format!("./{relative}/new"), 1 << 20).await.unwrap();
    let catalog = Catalog { backend, root };
    catalog.arrow("/v1/table/t/create", THREE_ROWS).await.ok();
    let described = catalog.post("/v1/table/t/describe", json!({})).await.ok();
    let location = Path::new(described["location"].as_str().unwrap());
    assert!(
        location.is_absolute() && location.join("_versions").is_dir(),
        "{described}"
    );
}
