//! The recorder of spans, if the configuration names a collector: OTLP over HTTP, behind the cargo feature
//! `otlp`.

use std::sync::Arc;

use http::Uri;

use crate::error::BoxError;
use crate::request::span::Recorder;

/// The export to one collector. The spans in its queue are still sent when this and the requests that know it are
/// gone.
#[derive(Clone)]
pub struct Spans {
    #[cfg(feature = "otlp")]
    exporter: Arc<super::otlp::Exporter>,
}

impl Spans {
    /// Creates an export to the collector at `uri`, without contacting it yet.
    ///
    /// # Errors
    /// No thread can be started, or this program was built without the feature.
    #[cfg(feature = "otlp")]
    pub fn to(uri: &Uri) -> Result<Self, BoxError> {
        let exporter = Arc::new(super::otlp::Exporter::to(uri)?);
        Ok(Self { exporter })
    }

    /// Creates an export to the collector at `uri`, without contacting it yet.
    ///
    /// # Errors
    /// No thread can be started, or this program was built without the feature.
    #[cfg(not(feature = "otlp"))]
    pub fn to(_: &Uri) -> Result<Self, BoxError> {
        Err("this nsgate was built without the feature `otlp`".into())
    }

    /// Returns the receiver of spans.
    #[cfg(feature = "otlp")]
    pub fn recorder(&self) -> Arc<dyn Recorder> {
        Arc::clone(&self.exporter) as Arc<dyn Recorder>
    }

    /// Returns the receiver of spans.
    #[cfg(not(feature = "otlp"))]
    pub fn recorder(&self) -> Arc<dyn Recorder> {
        unreachable!("never made without the feature")
    }

    /// Sends the spans in the queue; this takes at most two seconds.
    pub fn flush(&self) {
        #[cfg(feature = "otlp")]
        self.exporter.flush();
    }
}
