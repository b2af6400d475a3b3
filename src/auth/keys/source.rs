//! Reads the keys of an issuer from their source: a file, an address, or an address that the issuer itself names
//! (discovery).

use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use http::Uri;
use serde::Deserialize;
use tokio::io::AsyncReadExt as _;

use super::https_client::{Client, FetchedDocument, MAX_BODY};
use super::pace;
use crate::config;
use crate::error::BoxError;
use crate::error::cause::in_json;

/// A source of a key set.
pub(super) enum Source {
    File(PathBuf),
    Url {
        client: Client,
        uri: Uri,
    },
    /// The issuer's metadata name the address (OpenID Connect Discovery 1.0, section 4).
    Discovery {
        client: Client,
        issuer: String,
    },
}

/// The part of an issuer's metadata that is read.
#[derive(Deserialize)]
struct Metadata {
    issuer: String,
    jwks_uri: String,
}

impl Source {
    pub(super) fn new(config: &config::Issuer) -> Result<Self, BoxError> {
        let client = || Client::new(config.keys.ca.as_deref());
        Ok(match &config.keys.source {
            config::KeySource::File(path) => Self::File(path.clone()),
            config::KeySource::Url(uri) => Self::Url {
                client: client()?,
                uri: uri.clone(),
            },
            config::KeySource::Discovery => Self::Discovery {
                client: client()?,
                issuer: config.issuer.clone(),
            },
        })
    }

    /// The interval of reads for a file; `None` for a source whose issuer decides it.
    pub(super) fn poll(&self) -> Option<Duration> {
        matches!(self, Self::File(_)).then_some(pace::POLL_FILE)
    }

    pub(super) async fn fetch(&self) -> Result<FetchedDocument, BoxError> {
        match self {
            Self::File(path) => Ok(FetchedDocument {
                body: read(path).await?,
                age: None,
            }),
            Self::Url { client, uri } => client.get(uri).await,
            Self::Discovery { client, issuer } => {
                client.get(&discover(client, issuer).await?).await
            }
        }
    }
}

async fn read(path: &PathBuf) -> Result<Bytes, BoxError> {
    let file = tokio::fs::File::open(path).await?;
    let mut body = Vec::new();
    file.take(MAX_BODY as u64 + 1)
        .read_to_end(&mut body)
        .await?;
    if body.len() > MAX_BODY {
        return Err("the file is too large for a key set".into());
    }
    Ok(body.into())
}

/// Fetches the address of the issuer's key set. Refuses metadata that name another issuer.
async fn discover(client: &Client, issuer: &str) -> Result<Uri, BoxError> {
    let address = format!(
        "{}/.well-known/openid-configuration",
        issuer.trim_end_matches('/')
    );
    let answer = client.get(&address.parse()?).await?;
    let metadata: Metadata = serde_json::from_slice(&answer.body)
        .map_err(|error| format!("the issuer's metadata {}", in_json(&error)))?;
    if metadata.issuer != issuer {
        let bare = |issuer: &str| issuer.trim_end_matches('/').to_owned();
        return Err(if bare(&metadata.issuer) != bare(issuer) {
            "the metadata belongs to another issuer"
        } else if issuer.ends_with('/') {
            "the issuer calls itself by the same address without a `/` at its end, and so do its tokens; write `issuer` so"
        } else {
            "the issuer calls itself by the same address with a `/` at its end, and so do its tokens; write `issuer` so"
        }
        .into());
    }
    Ok(metadata.jwks_uri.parse()?)
}
