//! The page `/metrics`, in the format and the compression that its scraper accepts.

use std::io::Write as _;
use std::sync::LazyLock;

use flate2::Compression;
use flate2::write::GzEncoder;
use http::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_ENCODING, HeaderName, VARY};
use http::{HeaderMap, HeaderValue, StatusCode};

use super::{AdminState, Page, Problem};
use crate::error::code::Code;
use crate::metrics::Format;

const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The headers of a page that is not compressed.
static PLAIN: LazyLock<HeaderMap> =
    LazyLock::new(|| HeaderMap::from_iter([(VARY, HeaderValue::from_static(VARYING))]));
/// The headers of a compressed page.
static COMPRESSED: LazyLock<HeaderMap> = LazyLock::new(|| {
    let mut headers = PLAIN.clone();
    headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    headers
});
const VARYING: &str = "accept, accept-encoding";

/// The form of the page that the scraper wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Wanted {
    format: Format,
    gzip: bool,
}

impl Wanted {
    /// Reads it from the headers of the request. Without `Accept` and `Accept-Encoding` it is text, not compressed.
    pub(super) fn by(headers: &HeaderMap) -> Self {
        let quality = |name: &HeaderName, of: fn(&Choice<'_>) -> bool| {
            let fields = headers.get_all(name).iter();
            let lines = fields.filter_map(|value| value.to_str().ok());
            let choices = lines.flat_map(|line| line.split(',')).map(Choice::read);
            let fitting = choices.filter(of).map(|choice| choice.quality);
            fitting.reduce(f32::max)
        };
        let open_metrics = quality(&ACCEPT, |choice| {
            choice.is("application/openmetrics-text") && choice.version_is("1.0.0")
        });
        let text = quality(&ACCEPT, |choice| choice.is("text/plain"));
        let gzip = quality(&ACCEPT_ENCODING, |choice| choice.is("gzip"));
        let is_open = open_metrics.is_some_and(|open| open > 0.0 && open >= text.unwrap_or(0.0));
        Self {
            format: if is_open {
                Format::OpenMetrics
            } else {
                Format::Text
            },
            gzip: gzip.is_some_and(|quality| quality > 0.0),
        }
    }
}

/// One element of `Accept` or `Accept-Encoding` (RFC 9110, sections 12.5.1 and 12.5.3).
struct Choice<'a> {
    name: &'a str,
    version: Option<&'a str>,
    quality: f32,
}

impl<'a> Choice<'a> {
    fn read(element: &'a str) -> Self {
        let mut parts = element.split(';').map(str::trim);
        let mut choice = Self {
            name: parts.next().unwrap_or(""),
            version: None,
            quality: 1.0,
        };
        for (key, value) in parts.filter_map(|part| part.split_once('=')) {
            match key {
                "q" => choice.quality = value.parse().unwrap_or(0.0),
                "version" => choice.version = Some(value.trim_matches('"')),
                _ => {}
            }
        }
        choice
    }

    fn is(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name)
    }

    fn version_is(&self, version: &str) -> bool {
        self.version.is_none_or(|wanted| wanted == version)
    }
}

/// Makes the page. Takes milliseconds with many series, so it must not run on a worker.
pub(super) fn metrics(shown: &AdminState, wanted: Wanted) -> Page {
    shown.metrics.batch().open(&shown.batches.counts());
    shown.metrics.log(&shown.batches.log_counts());
    for backend in &shown.current.load().world.backends {
        backend.show();
    }
    let body = match shown.metrics.render_as(wanted.format) {
        Ok(body) => body,
        Err(error) => {
            tracing::error!(cause = %error, "the metrics cannot be written");
            return Problem::new(Code::Internal, "the metrics cannot be written").at("/metrics");
        }
    };
    let compressed = wanted.gzip.then(|| compress(body.as_bytes()));
    let (body, headers) = match compressed {
        Some(Ok(small)) => (small.into(), &*COMPRESSED),
        // Memory takes every byte, so this is the page that was not to be compressed.
        Some(Err(_)) | None => (body.into(), &*PLAIN),
    };
    Page {
        status: StatusCode::OK,
        kind: match wanted.format {
            Format::Text => TEXT,
            Format::OpenMetrics => OPEN_METRICS,
        },
        body,
        headers: Some(headers),
    }
}

fn compress(page: &[u8]) -> std::io::Result<Vec<u8>> {
    // The fastest level makes a page a tenth of its size.
    let mut to = GzEncoder::new(Vec::new(), Compression::fast());
    to.write_all(page)?;
    to.finish()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test says what it expects")]
    use std::io::Read as _;

    use flate2::read::GzDecoder;

    use super::*;

    fn wanted(accept: &'static str, encoding: &'static str) -> Wanted {
        let mut headers = HeaderMap::new();
        for (name, value) in [(ACCEPT, accept), (ACCEPT_ENCODING, encoding)] {
            if !value.is_empty() {
                headers.insert(name, HeaderValue::from_static(value));
            }
        }
        Wanted::by(&headers)
    }

    #[test]
    fn a_scraper_gets_the_format_that_it_prefers_and_text_if_it_says_nothing() {
        let prometheus = "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
        for (accept, format) in [
            ("", Format::Text),
            ("*/*", Format::Text),
            ("text/html, */*;q=0.8", Format::Text),
            ("text/plain;version=0.0.4", Format::Text),
            (prometheus, Format::OpenMetrics),
            ("application/openmetrics-text", Format::OpenMetrics),
            (
                "Application/OpenMetrics-Text; version=\"1.0.0\"; charset=utf-8",
                Format::OpenMetrics,
            ),
            ("application/openmetrics-text;version=0.0.1", Format::Text),
            ("application/openmetrics-text;q=0", Format::Text),
            (
                "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;q=0.9",
                Format::Text,
            ),
        ] {
            assert_eq!(wanted(accept, "").format, format, "{accept}");
        }
    }

    #[test]
    fn a_page_is_compressed_only_for_those_that_accept_it() {
        for (encoding, gzip) in [
            ("", false),
            ("gzip", true),
            ("deflate, gzip;q=1.0, *;q=0.5", true),
            ("identity", false),
            ("gzip;q=0", false),
        ] {
            assert_eq!(wanted("", encoding).gzip, gzip, "{encoding}");
        }
        let page = "nsgate_requests_total 1\n".repeat(1000);
        let small = compress(page.as_bytes()).unwrap();
        assert!(small.len() * 10 < page.len(), "{}", small.len());
        let mut back = String::new();
        GzDecoder::new(&*small).read_to_string(&mut back).unwrap();
        assert_eq!(back, page);
    }
}
