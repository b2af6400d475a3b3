//! Who records spans, where the configuration names a collector: OTLP over HTTP, behind the cargo feature `otlp`.

use std::sync::Arc;

use http::Uri;

use crate::error::BoxError;
use crate::request::span::Recorder;

/// The way to one collector. What is on it is sent when this and the requests that know it are gone.
#[derive(Clone)]
pub struct Spans {
    #[cfg(feature = "otlp")]
    exporter: Arc<super::otlp::Exporter>,
}

impl Spans {
    /// To the collector at `uri`; contacts nobody yet.
    ///
    /// # Errors
    /// No thread can be started, or this program was built without the feature.
    #[cfg(feature = "otlp")]
    pub fn to(uri: &Uri) -> Result<Self, BoxError> {
        let exporter = Arc::new(super::otlp::Exporter::to(uri)?);
        Ok(Self { exporter })
    }

    /// To the collector at `uri`; contacts nobody yet.
    ///
    /// # Errors
    /// No thread can be started, or this program was built without the feature.
    #[cfg(not(feature = "otlp"))]
    pub fn to(_: &Uri) -> Result<Self, BoxError> {
        Err("this nsgate was built without the feature `otlp`".into())
    }

    /// What takes the spans.
    #[cfg(feature = "otlp")]
    pub fn recorder(&self) -> Arc<dyn Recorder> {
        Arc::clone(&self.exporter) as Arc<dyn Recorder>
    }

    /// What takes the spans.
    #[cfg(not(feature = "otlp"))]
    pub fn recorder(&self) -> Arc<dyn Recorder> {
        unreachable!("never made without the feature")
    }

    /// Sends what is there; it takes two seconds at most.
    pub fn flush(&self) {
        #[cfg(feature = "otlp")]
        self.exporter.flush();
    }
}
