//! The status page `/`, for operators with a browser.
//!
//! The page holds no data of the gateway: its script reads `/status` and `/metrics` as any other client does, and asks
//! for the admin token if there is one. So the page itself is open.

mod collect;
pub mod findings;
pub(super) mod journal;
pub mod report;

use std::sync::LazyLock;

use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::{
    CONTENT_SECURITY_POLICY, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use http::{HeaderMap, HeaderValue, StatusCode};

use super::Page;
pub(super) use collect::{findings_now, page as report_page};

const STYLE: &str = include_str!("status/style.css");
const SCRIPT: &str = concat!(
    include_str!("status/figures.js"),
    include_str!("status/chart.js"),
    include_str!("status/script.js")
);
const HTML: &str = "text/html; charset=utf-8";

/// The whole page. It fetches nothing but the data that it shows.
static PAGE: LazyLock<String> = LazyLock::new(|| {
    let page = include_str!("status/page.html");
    let page = page.replace("/*STYLE*/", STYLE);
    page.replace("/*SCRIPT*/", SCRIPT)
});

/// Headers that let only the page's own style and script run, by their digests. Markup in a name that a client chose
/// would have no effect.
static HEADERS: LazyLock<HeaderMap> = LazyLock::new(|| {
    let hash = |text: &str| STANDARD.encode(digest(&SHA256, text.as_bytes()));
    let policy = format!(
        "default-src 'none'; script-src 'sha256-{}'; style-src 'sha256-{}'; img-src data:; connect-src 'self'; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        hash(SCRIPT),
        hash(STYLE)
    );
    let policy =
        HeaderValue::from_maybe_shared(policy).expect("a policy is made of visible characters");
    HeaderMap::from_iter([
        (CONTENT_SECURITY_POLICY, policy),
        (X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
        (X_FRAME_OPTIONS, HeaderValue::from_static("DENY")),
        (REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
    ])
});

pub(super) fn page() -> Page {
    Page {
        status: StatusCode::OK,
        kind: HTML,
        body: PAGE.clone().into(),
        headers: Some(&HEADERS),
    }
}
